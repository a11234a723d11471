"""How long two snapshots take to be compared and labelled, at three sizes, and how much memory.

Run: python benchmarks/updates.py [--subjects 1000000] [--repeat 1]. Makes pairs of synthetic snapshots (ten statements
a subject, 5 % of them changed) of a quarter, a half and all of the subjects, compares each pair in a process of its
own, and prints JSON: seconds, statements a second, peak memory, the growth from size to size, and a plain Python loop
over a sample of the same subjects for comparison; then what ``benchmarks/nearest.py`` says of the search of neighbours.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from watched import watched_memory

BUCKET = 8_000  # subjects of a bucket: memory follows it, not the size of the snapshots
STATEMENTS = 10  # of each subject
CHANGED = 0.05
BOUNDARY = pl.Struct(
    {"kind": pl.String, "date": pl.String, "precision": pl.Int8, "calendar": pl.String, "raw": pl.String}
    | {"values": pl.Int16}
)
RELATIONS = 200


def boundary(years: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> pl.Series:
    """Dates at year precision where known, else null."""
    table = pl.DataFrame({"year": years.astype(str), "known": known})
    filled = pl.struct(
        kind=pl.lit("known"), date="year", precision=pl.lit(9, pl.Int8), calendar=pl.lit("gregorian"),
        raw=pl.lit(None, pl.String), values=pl.lit(1, pl.Int16),
    )  # fmt: skip
    return table.select(pl.when("known").then(filled).alias("boundary"))["boundary"].cast(BOUNDARY)


def zipf(rng: np.random.Generator, most: int, size: int) -> np.ndarray[Any, Any]:
    """Ranks from 0, the first ones frequent: log-uniform."""
    return (np.exp(rng.random(size) * np.log(most + 1)) - 1).astype(np.int64).clip(0, most - 1)


def statements(subjects: np.ndarray[Any, Any], rng: np.random.Generator) -> pl.DataFrame:
    """Statements of some subjects in the old snapshot, in their order."""
    n = len(subjects) * STATEMENTS
    subject = np.repeat(subjects, STATEMENTS)
    relation = zipf(rng, RELATIONS, n)
    kind = rng.choice(4, n, p=[0.6, 0.15, 0.1, 0.15])
    item = zipf(rng, 200_000, n) + 1
    start = rng.integers(1950, 2021, n)
    frame = pl.DataFrame(
        {
            "subject": pl.Series(subject).cast(pl.String),
            "property": pl.Series(relation + 1).cast(pl.String),
            "n": pl.Series(np.arange(n)),
            "kind": pl.Series(kind),
            "item": pl.Series(item),
        }
    )
    texts = {0: "Q" + pl.col("item").cast(pl.String), 1: "+" + pl.col("item").cast(pl.String)}
    texts |= {2: (1900 + pl.col("item") % 120).cast(pl.String), 3: "text " + pl.col("item").cast(pl.String)}
    value, types = pl.lit(None, pl.String), pl.lit(None, pl.String)
    for code, name in enumerate(("entity", "quantity", "time", "text")):
        value = pl.when(pl.col("kind") == code).then(texts[code]).otherwise(value)
        types = pl.when(pl.col("kind") == code).then(pl.lit(name)).otherwise(types)
    dated = rng.random(n) < 0.25
    return frame.select(
        subject="Q" + pl.col("subject"),
        property="P" + pl.col("property"),
        statement_id="Q" + pl.col("subject") + "$" + pl.col("n").cast(pl.String),
        rank=pl.lit("normal"),
        datatype=pl.lit(None, pl.String),
        snak=pl.lit("value"),
        value_type=types,
        value=value,
        value_extra=pl.lit(None, pl.String),
        value_precision=pl.when(pl.col("kind") == 2).then(pl.lit(9, pl.Int8)),
        value_calendar=pl.when(pl.col("kind") == 2).then(pl.lit("gregorian")),
        start=boundary(start, dated),
        end=boundary(start + 4, dated & (rng.random(n) < 0.5) & (start < 2016)),
        point=boundary(start, ~dated & (rng.random(n) < 0.1)),
        qualifiers=pl.lit("{}"),
    )


def changed(old: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The new snapshot: of the changed statements a third has another value, a third a new end, a third is new."""
    n = old.height
    hit, what = rng.random(n) < CHANGED, rng.integers(0, 3, n)
    rows = old.with_columns(pl.Series("hit", hit), pl.Series("what", what))
    other = pl.when(pl.col("hit") & (pl.col("what") == 0) & (pl.col("value_type") == "entity"))
    end = boundary(np.full(n, 2022), hit & (what == 1))
    edited = rows.with_columns(
        other.then("Q" + pl.Series(rng.integers(1, 200_000, n)).cast(pl.String)).otherwise("value").alias("value"),
        pl.coalesce(pl.Series("end", end), "end").alias("end"),
    )
    extra = rows.filter(pl.col("hit") & (pl.col("what") == 2)).with_columns(
        (pl.col("statement_id") + "b").alias("statement_id"),
        pl.lit("entity").alias("value_type"),
        pl.lit("Q77").alias("value"),
        boundary(np.full(n, 2022), np.ones(n, bool)).filter(pl.Series(hit & (what == 2))).alias("start"),
    )
    return pl.concat([edited, extra]).drop("hit", "what")


def write(folder: Path, date: str, tables: dict[int, tuple[pl.DataFrame, pl.DataFrame]]) -> None:
    """Write a snapshot folder of these entities and statements, by bucket."""
    for name in ("entities", "statements"):
        (folder / name).mkdir(parents=True)
    for bucket, (entities, rows) in tables.items():
        entities.write_parquet(folder / "entities" / f"part-{bucket:03d}.parquet")
        rows.write_parquet(folder / "statements" / f"part-{bucket:03d}.parquet", row_group_size=1 << 16)
    text, texts = pl.String, pl.List(pl.String)
    properties = pl.DataFrame(
        [
            {"id": f"P{n + 1}", "label": f"relation {n}", "single_value": n % 7 == 3, "separators": ["P585"]}
            for n in range(RELATIONS)
        ],
        schema={
            "id": text, "label": text, "description": text, "datatype": text, "classes": texts, "parents": texts,
            "single_value": pl.Boolean, "separators": texts,
        },
    )  # fmt: skip
    properties.write_parquet(folder / "properties.parquet")
    pl.DataFrame(schema={"child": text, "parent": text}).write_parquet(folder / "classes.parquet")
    counts = {"statements": sum(rows.height for _, rows in tables.values())}
    options = {"wiki": "enwiki", "language": "en", "limit": None, "entities": None, "buckets": len(tables)}
    manifest = {"format": 1, "command": "wikidata ingest", "dump": {"name": date}, "date": date, "options": options}
    (folder / "manifest.json").write_text(json.dumps(manifest | {"counts": counts}))


def make(folder: Path, subjects: int, buckets: int | None = None) -> None:
    """Write ``old`` and ``new`` with that many subjects."""
    ids = np.arange(1, subjects + 1)
    buckets = buckets or max(1, subjects // BUCKET)
    bucket = np.array([zlib.crc32(f"Q{i}".encode()) % buckets for i in ids])
    old_tables, new_tables = {}, {}
    for number in range(buckets):
        rng = np.random.default_rng(number)
        own = ids[bucket == number]
        entities = pl.DataFrame({"id": pl.Series(own).cast(pl.String)}).select(
            id="Q" + pl.col("id"), label="label of " + pl.col("id"), description=pl.lit(None, pl.String),
            title="Title " + pl.col("id"), classes=pl.lit(["Q5"]), created=pl.lit(None, pl.String),
            created_property=pl.lit(None, pl.String),
        )  # fmt: skip
        old = statements(own, rng)
        old_tables[number] = (entities, old)
        new_tables[number] = (entities, changed(old, rng))
    write(folder / "old", "2021-01-04", old_tables)
    write(folder / "new", "2023-02-27", new_tables)


def measure(folder: Path, workers: int) -> dict[str, Any]:
    """Compare and label; peak memory is that of all processes together, looked at twenty times a second."""
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.selection.select import Spread
    from anachron.wikidata.updates.build import UpdateSettings, compare, open_comparison

    old, new = open_snapshot(folder / "old"), open_snapshot(folder / "new")
    rows = old.manifest["counts"]["statements"] + new.manifest["counts"]["statements"]
    with tempfile.TemporaryDirectory(dir=folder) as work, watched_memory() as peak:
        started = time.perf_counter()
        comparison = open_comparison(old, new, UpdateSettings(), Path(work))
        _, triples, counts = compare(comparison, Spread(workers))
        seconds = time.perf_counter() - started
    return {
        "statements": rows, "seconds": seconds, "statements_per_s": rows / seconds, "peak_gb": peak.together / 1e9,
        "groups": counts.groups, "kept_triples": triples.height,
    }  # fmt: skip


def plain_loop(folder: Path) -> dict[str, float]:
    """What a script would do with one bucket: dicts of statements, compared value by value and labelled by ifs."""
    started = time.perf_counter()
    sides: list[dict[tuple[str, str], list[dict[str, Any]]]] = []
    rows = 0
    for name in ("old", "new"):
        groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in pl.read_parquet(folder / name / "statements" / "part-000.parquet").iter_rows(named=True):
            if row["rank"] != "deprecated" and row["snak"] == "value":
                groups[row["subject"], row["property"]].append(row)
            rows += 1
        sides.append(groups)
    labels: dict[str, int] = defaultdict(int)
    for key in sides[0].keys() | sides[1].keys():
        old, new = (list(side.get(key, ())) for side in sides)
        for row in old:
            twin = next((r for r in new if (r["value_type"], r["value"]) == (row["value_type"], row["value"])), None)
            if twin is not None:
                new.remove(twin)
            else:
                labels["old"] += 1
        for row in new:
            start = row["start"] and row["start"]["date"]
            labels["new" if start and "2021-01-04" < start < "2023-02-27" else "unknown"] += 1
    seconds = time.perf_counter() - started
    return {"statements": rows, "statements_per_s": rows / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subjects", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="Keep the snapshots here, or use those that are here.")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.workers)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        sizes = [options.subjects // 4, options.subjects // 2, options.subjects]
        results: dict[int, dict[str, Any]] = {}
        for size in sizes:
            pair = folder / str(size)
            if not pair.is_dir():
                make(pair, size)
            command = [sys.executable, __file__, "--measure", str(pair), "--workers", str(options.workers)]
            runs = []
            for _ in range(options.repeat):
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                runs.append(json.loads(output))
            results[size] = min(runs, key=lambda run: run["seconds"])
        loop = plain_loop(folder / str(sizes[-1]))
        found = report(results, loop, options.workers)
        nearest = [sys.executable, str(Path(__file__).with_name("nearest.py")), "--repeat", "3"]
        found["neighbours"] = json.loads(subprocess.run(nearest, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(json.dumps(found, indent=2))


def report(results: dict[int, dict[str, Any]], loop: dict[str, float], workers: int) -> dict[str, Any]:
    sizes = sorted(results)
    growth = {
        f"{small} to {large}": round(results[large]["seconds"] / results[small]["seconds"], 2)
        for small, large in pairwise(sizes)
    }
    return {
        "machine": {"cores": os.cpu_count(), "workers": workers},
        "sizes": {
            size: {name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}
            for size, found in results.items()
        },
        "time_of_twice_the_subjects": growth,
        "plain_loop_statements_per_s": round(loop["statements_per_s"]),
        "ratio_to_the_plain_loop": round(results[sizes[-1]]["statements_per_s"] / loop["statements_per_s"], 1),
    }


if __name__ == "__main__":
    main()
