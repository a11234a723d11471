"""How the search for the facts nearest to 1,300 groups grows with the buckets of the snapshots: rows, bytes, seconds.

Run: python benchmarks/neighbours.py [--buckets 16,128] [--subjects 40000] [--groups 1300] [--workers 2]. Makes a pair
of synthetic snapshots (those of ``benchmarks/updates.py``), splits it into the other numbers of buckets, compares each
pair, and prints as JSON: seconds of the search, and of the processor for it; rows in the files that it leaves; bytes
that came back through the parent process; rows of the result; whether all numbers of buckets gave the same result.
"""

import argparse
import json
import os
import pickle
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from updates import make

import anachron.wikidata.updates.neighbours as neighbours
from anachron.io.cluster import Spread
from anachron.wikidata.reading.rebucket import rebucket
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import UpdateSettings, compare, open_comparison


def processor() -> float:
    """Seconds that the processor has worked for this process and the children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(folder: Path, groups: int, workers: int) -> tuple[dict[str, Any], pl.DataFrame]:
    """Search for the neighbours of the first groups, and what it took."""
    sent = 0
    real = neighbours.map_in_order

    def counted(*arguments: Any) -> Iterator[Any]:
        nonlocal sent
        for result in real(*arguments):
            sent += len(pickle.dumps(result))
            yield result

    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        comparison = open_comparison(
            open_snapshot(folder / "old"), open_snapshot(folder / "new"), UpdateSettings(popularity=False), work
        )
        _, kept, _ = compare(comparison, Spread(workers))
        chosen = kept.select("subject", "property").unique().sort("subject", "property").head(groups)
        asked = kept.join(chosen, on=["subject", "property"], how="semi", maintain_order="left")
        numbers = asked.select("subject", "property").unique().sort("subject", "property").with_row_index("number")
        asked = asked.join(numbers, on=["subject", "property"], how="left", maintain_order="left")
        asked = asked.with_columns(pl.col("number").alias("group")).drop("number")
        neighbours.map_in_order = counted  # type: ignore[assignment]
        try:
            started, worked = time.perf_counter(), processor()
            found = neighbours.find_neighbours(comparison, asked, 10, "american", Spread(workers))
            seconds, worked = time.perf_counter() - started, processor() - worked
        finally:
            neighbours.map_in_order = real  # type: ignore[assignment]
        written = sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in work.glob("near-*"))
    measured = {"seconds": round(seconds, 1), "processor_seconds": round(worked, 1)}
    measured |= {"rows_in_files": written, "bytes_through_the_parent": sent}
    return measured | {"groups": numbers.height, "rows": found.height}, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buckets", default="16,128")
    parser.add_argument("--subjects", type=int, default=40_000)
    parser.add_argument("--groups", type=int, default=1_300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="Keep the snapshots here, or use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        results: dict[str, Any] = {}
        found: list[pl.DataFrame] = []
        numbers = sorted(map(int, options.buckets.split(",")))
        first = folder / f"{options.subjects}-{numbers[0]}"
        if not first.is_dir():
            make(first, options.subjects, numbers[0])
        for buckets in numbers:
            pair = folder / f"{options.subjects}-{buckets}"
            for side in ("old", "new") if buckets != numbers[0] else ():
                rebucket(first / side, buckets, pair / side, Spread(options.workers))
            results[f"{buckets} buckets"], near = measure(pair, options.groups, options.workers)
            found.append(near)
        same = all(near.select(found[0].columns).equals(found[0]) for near in found)
        print(json.dumps(results | {"same_result": same}, indent=2))


if __name__ == "__main__":
    main()
