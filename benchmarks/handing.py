"""What it takes to read a gz or zst dump with several workers: decompressed once and handed out, or by each of them.

Run: python benchmarks/handing.py [DUMP] [--workers 2 4 8] [--repeat 2]. Ingests the dump both ways (by default one that
it makes, of 1 GB of text), in turns, each in a process of its own, and prints JSON: processor seconds of reading all
ranges (the least of the repeats; joining them is left out, for it is the same), bytes of the file that were read and of
text that were decompressed, each over what the file has, and the most text that was in memory; their ratios; and from
the rates of the reader and of a worker, with how many workers the reader is what they wait for. Processor seconds say
what more cores than here would do.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anachron.wikidata.reading import dump as dumps
from anachron.wikidata.reading import handing
from anachron.wikidata.reading import ingest as ingests
from anachron.wikidata.reading.ranges import do_ranges

TOOL = Path(__file__).parent.parent / "tools" / "synthetic_dump.py"
WAYS = ("once", "each")


class Counted:
    """Counts what this process decompresses, from its making on."""

    def __init__(self) -> None:
        self.text = self.file = 0
        real = dumps.text_of

        def text_of(
            path: Any, compression: Any, threads: int = 1, position: list[int] | None = None
        ) -> Iterator[bytes]:
            position = [0] if position is None else position
            before = 0
            for piece in real(path, compression, threads, position):
                self.text += len(piece)
                self.file, before = self.file + position[0] - before, position[0]
                yield piece

        dumps.text_of, self._real = text_of, real

    def end(self) -> dict[str, int]:
        dumps.text_of = self._real
        return {"text": self.text, "file": self.file}


def counted_ranges(job: Any) -> dict[str, float]:
    """In a worker."""
    counted, started = Counted(), time.process_time()
    do_ranges(job)
    return {"cpu": time.process_time() - started, **counted.end()}


def measure(path: Path, way: str, workers: int) -> dict[str, float]:
    """One ingest. Processor seconds of the main process and of its workers while ranges are read; bytes by all."""
    found: list[dict[str, float]] = []
    made: list[Any] = []
    taken: dict[str, float] = {}
    real, memory = ingests.map_in_order, handing._memory

    def watched(function: Any, items: Any, *rest: Any) -> Iterator[Any]:
        if function is not do_ranges:
            yield from real(function, items, *rest)
            return
        counted, cpu, started = Counted(), time.process_time(), time.perf_counter()
        for result in real(counted_ranges, items, *rest):
            found.append(result)
            yield result
        taken["main_cpu"], taken["seconds"] = time.process_time() - cpu, time.perf_counter() - started
        taken["workers_cpu"] = sum(one["cpu"] for one in found)
        for what, here in counted.end().items():
            taken[what] = here + sum(one[what] for one in found)
        taken["in_memory"] = sum(os.fstat(file.fileno()).st_size for file in made)

    def counted_memory() -> Any:
        made.append(memory())
        return made[-1]

    ingests.map_in_order, handing._memory = watched, counted_memory
    ingests.CAN_HAND_OUT = way == "once"
    with tempfile.TemporaryDirectory() as folder:
        ingests.ingest(path, Path(folder) / "snapshot", ingests.IngestSettings("2021-02-01"), workers=workers)
    return taken


def report(path: Path, found: dict[tuple[str, int], list[dict[str, float]]]) -> dict[str, Any]:
    numbers = sorted({workers for _, workers in found})
    best = {case: {key: min(run[key] for run in runs) for key in runs[0]} for case, runs in found.items()}
    text = best["once", numbers[0]]["text"]
    cases = {
        f"{way}, {workers} workers": {
            "text_decompressed_over_all": round(best[way, workers]["text"] / text, 2),
            "file_read_over_all": round(best[way, workers]["file"] / path.stat().st_size, 2),
            "main_cpu": round(best[way, workers]["main_cpu"], 2),
            "workers_cpu": round(best[way, workers]["workers_cpu"], 2),
            "seconds": round(best[way, workers]["seconds"], 2),
            "text_in_memory_mb": round(best[way, workers]["in_memory"] / 1e6),
        }
        for workers in numbers
        for way in WAYS
    }
    cpu = {case: one["main_cpu"] + one["workers_cpu"] for case, one in best.items()}
    reader, worker = (min(best["once", n][of] for n in numbers) / text for of in ("main_cpu", "workers_cpu"))
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "gb_of_text": round(text / 1e9, 2),
        "cases": cases,
        "cpu_of_each_over_once": {n: round(cpu["each", n] / cpu["once", n], 2) for n in numbers},
        "reader_mb_per_cpu_s": round(1e-6 / reader),
        "worker_mb_per_cpu_s": round(1e-6 / worker),
        "workers_that_wait_for_the_reader": round(worker / reader, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path, nargs="?")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.dump, options.measure, *options.workers)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.dump or Path(folder) / "dump.json.gz"
        if options.dump is None:
            subprocess.run([sys.executable, TOOL, path, "--entities", "110000"], check=True, stdout=sys.stderr)
        print(json.dumps(report(path, compare(path, options.workers, options.repeat)), indent=2))


def compare(path: Path, numbers: list[int], repeat: int) -> dict[tuple[str, int], list[dict[str, float]]]:
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(repeat):  # in turns, so that what else runs on the machine hits all of them
        for workers in numbers:
            for way in WAYS:
                command = [sys.executable, __file__, str(path), "--measure", way, "--workers", str(workers)]
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                found.setdefault((way, workers), []).append(json.loads(output))
                print(way, workers, output.strip(), file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    main()
