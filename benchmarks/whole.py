"""How the stages that read all of Wikidata grow with it, rehearsed on synthetic dumps of a small share of its size.

Run: python benchmarks/whole.py [--percent 0.01 0.03 0.1] [--workers 2] [--folder FOLDER]. Makes two dumps a size with
``tools/synthetic_dump.py``, runs ``wikidata ingest``, ``build facts``, ``build timestress`` and ``build updates`` on
them as commands, and prints JSON: for each stage and size, what it took (a line each on standard error as well, when it
ends); whether that grows linearly; and what all of Wikidata would take on 16 cores. ``build timestress`` goes on from
the snapshot of ``wikidata ingest``, so it is what comes after it.

What is looked at: processor seconds of the command's main process and of all others (from /proc, twenty times a
second: the machine may be shared, and what a process did in its last twentieth is lost); resident memory of the largest
of them; bytes below the work folder; files opened, counted by ``strace -f --seccomp-bpf -e trace=open,openat,openat2``
where there is one: all successful calls in the work folder, by any library, not those of code; null without strace.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from watched import family, resident

from anachron.wikidata.reading.ingest import BUCKET_BYTES, LEAST_BUCKETS

TOOL = Path(__file__).parent.parent / "tools" / "synthetic_dump.py"
ALL = 110_000_000  # entities
BYTES_EACH = 1.7e12 / 119e6  # of text, of all of Wikidata in March 2026
CORES = 16  # of the machine in question
TOLERANCE = 0.15  # of the slope of logarithms: 1 is linear
EVERY = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Taken:
    """What a command took: seconds of the clock and of processors, bytes, files."""

    seconds: float = 0
    main_cpu: float = 0
    other_cpu: float = 0
    main_memory: int = 0
    other_memory: int = 0  # of the largest of the other processes
    processes: int = 0
    disk: int = 0  # the most there was below the work folder, less what was there before
    descriptors: int = 0  # the most that one process had open at once
    opened: int | None = None

    @property
    def cpu(self) -> float:
        return self.main_cpu + self.other_cpu


def run(arguments: list[str], folder: Path) -> Taken:
    """Run a command of anachron in a work folder and watch it. Raises where it fails, with what it said."""
    trace = folder / "strace.out"
    command = [sys.executable, "-m", "anachron", *arguments]
    strace = shutil.which("strace")
    if strace:
        calls = "trace=open,openat,openat2"
        command = [
            strace,
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-y",
            "-e",
            calls,
            "-e",
            "status=successful",
            "-o",
            str(trace),
            *command,
        ]
    before, taken = size(folder), Taken()
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        watch(process, bool(strace), folder, taken)
        taken.seconds = time.perf_counter() - started
        said.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}\n{said.read()}")
    taken.disk = max(taken.disk, size(folder)) - before
    if strace:
        within = re.compile(rb"<" + re.escape(str(folder.resolve()).encode()) + rb"/[^>]*>$")
        with trace.open("rb") as file:
            taken.opened = sum(within.search(line.rstrip()) is not None for line in file)
        trace.unlink()
    return taken


def watch(process: "subprocess.Popen[bytes]", traced: bool, folder: Path, taken: Taken) -> None:
    """Fill in processors and memory until the process ends; the disk is looked at once a second."""
    used: dict[int, float] = {}
    stop = threading.Event()

    def disk() -> None:
        while not stop.wait(1):
            taken.disk = max(taken.disk, size(folder))

    watcher = threading.Thread(target=disk)
    watcher.start()
    main = None if traced else process.pid
    while process.poll() is None:
        members = family(process.pid)
        if main is None:
            main = next(
                (
                    pid
                    for pid in members[1:]
                    if b"anachron" in _text(pid, "cmdline") and b"strace" not in _text(pid, "cmdline")
                ),
                None,
            )
        for pid in members:
            if traced and pid == process.pid:
                continue
            with suppress(OSError, IndexError):
                fields = _text(pid, "stat").rsplit(b")", 1)[1].split()
                used[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                taken.descriptors = max(taken.descriptors, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))
            if pid == main:
                taken.main_memory = max(taken.main_memory, resident(pid))
            else:
                taken.other_memory = max(taken.other_memory, resident(pid))
        time.sleep(EVERY)
    stop.set()
    watcher.join()
    taken.main_cpu = used.pop(main, 0.0) if main is not None else 0.0
    taken.other_cpu, taken.processes = sum(used.values()), len(used) + 1


def _text(pid: int, name: str) -> bytes:
    """Of a file of /proc; nothing of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def size(folder: Path) -> int:
    """Bytes on disk below a folder; files that go meanwhile are left out."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(at, name).stat().st_blocks * 512
    return total


def rehearse(percent: float, folder: Path, workers: int) -> dict[str, Any]:
    """Make two dumps of that size and run all stages on them."""
    entities = round(ALL * percent / 100)
    with ThreadPoolExecutor() as both:
        made = list(both.map(lambda edition: make(folder, entities, edition), (0, 1)))
    old, new, views = (str(folder / name) for name in ("0.json.gz", "1.json.gz", "pageviews-202012-user"))
    out = folder / "timestress"
    among = ["--workers", str(workers)]
    snapshot, later = str(out / "snapshot"), str(folder / "later")
    stages = {
        "wikidata ingest": ["wikidata", "ingest", old, "--date", "2021-01-04", "--out", snapshot],
        "wikidata ingest, later": ["wikidata", "ingest", new, "--date", "2023-02-27", "--out", later],
        "build facts": ["build", "facts", snapshot, "--no-popularity", "--out", str(folder / "facts.parquet")],
        "build timestress": [
            "build", "timestress", old, views, "--date", "2021-01-04", "--out", str(out), "--templates",
        ],
        "build updates": [
            "build", "updates", "--old", snapshot, "--new", later, "--no-popularity",
            "--redirects", str(folder / "merged.csv"), "--out", str(folder / "updates.parquet"),
        ],
    }  # fmt: skip
    taken = {}
    for name, arguments in stages.items():
        taken[name] = run([*arguments, *among], folder)
        print(json.dumps({"percent": percent, "stage": name, **asdict(taken[name])}), file=sys.stderr, flush=True)
    manifest = json.loads((out / "snapshot" / "manifest.json").read_text())
    return {
        "entities": entities, "text_bytes": made[0]["bytes"], "dump_bytes": (folder / "0.json.gz").stat().st_size,
        "buckets": manifest["options"]["buckets"], "stages": taken,
    }  # fmt: skip


def make(folder: Path, entities: int, edition: int) -> dict[str, int]:
    command = [sys.executable, str(TOOL), str(folder / f"{edition}.json.gz"), "--entities", str(entities)]
    command += ["--edition", str(edition)]
    command += ["--redirects", str(folder / "merged.csv")] if edition else []
    command += [] if edition else ["--pageviews", str(folder / "pageviews-202012-user")]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    counts: dict[str, int] = json.loads(found.stdout)
    return counts


def slope(sizes: list[int], amounts: list[float]) -> float | None:
    """Of the least-squares line through the logarithms: 1 where twice the size takes twice as much."""
    if min(amounts) <= 0:
        return None
    return float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0])


def cost(sizes: list[int], amounts: list[float]) -> float | None:
    """What one more entity costs between the two largest sizes, over that between the two smallest: 1 is linear.

    Unlike the slope, it does not count what a stage takes at any size. None for two sizes.
    """
    steps = np.diff(amounts) / np.diff(sizes)
    return round(float(steps[-1] / steps[0]), 2) if len(steps) > 1 and steps[0] > 0 else None


def line(sizes: list[int], amounts: list[float], at: float) -> float:
    """What a least-squares line of these amounts, relative errors counted, says of a size; never less than seen."""
    rise, start = np.polyfit(sizes, amounts, 1, w=1 / np.maximum(amounts, 1e-9))
    return float(max(start + rise * at, *amounts))


def report(found: list[dict[str, Any]], workers: int) -> dict[str, Any]:
    """Growth and the whole, stage by stage."""
    sizes = [one["entities"] for one in found]
    heavier = BYTES_EACH / (found[-1]["text_bytes"] / found[-1]["entities"])
    # From so many entities on there are more buckets, and not larger ones.
    fullest = LEAST_BUCKETS * BUCKET_BYTES["gz"] / (found[-1]["dump_bytes"] / found[-1]["entities"])
    growth, whole = {}, {}
    for name in found[0]["stages"]:
        taken = [one["stages"][name] for one in found]
        slopes = {
            of: slope(sizes, [float(getattr(t, of) or 0) for t in taken])
            for of in ("cpu", "main_memory", "other_memory", "disk", "opened")
        }
        growth[name] = {of: None if s is None else round(s, 2) for of, s in slopes.items()}
        growth[name]["cost_of_the_last_over_the_first"] = cost(sizes, [t.cpu for t in taken])
        growth[name]["faster_than_linear"] = [of for of, s in slopes.items() if s is not None and s > 1 + TOLERANCE]
        serial, spread, main_memory, other_memory, disk = (
            line(sizes, [float(getattr(t, of)) for t in taken], fullest if of == "other_memory" else ALL)
            for of in ("main_cpu", "other_cpu", "main_memory", "other_memory", "disk")
        )
        if "ingest" in name:  # the main process decompresses while the others parse
            serial *= heavier
            seconds = max(serial, (serial + heavier * spread) / CORES)
        else:
            seconds = serial + spread / CORES
        whole[name] = {
            "hours": round(seconds / 3600, 2),
            "hours_of_main_process": round(serial / 3600, 2),
            "main_gb": round(main_memory / 1e9, 1), "largest_other_gb": round(other_memory / 1e9, 1),
            "disk_gb": round(disk / 1e9),
        }  # fmt: skip
    return {
        "machine": {"cores": os.cpu_count(), "workers": workers},
        "sizes": found,
        "slopes_of_logarithms": growth,
        "all_of_wikidata_on_16_cores": whole,
        "assumed": [
            "what grows, grows as the least-squares line through the sizes; from so small a share this is a guess",
            f"a worker holds a bucket at most; buckets grow until there are {fullest:,.0f} entities, then in number",
            "work of the main process is not divided by cores, that of the others is, by 16; in an ingest both go on "
            "at once, so it takes as long as the main process decompresses, if that is longer",
            f"an ingest takes {heavier:.2f} times as long as here, by the bytes of an entity",
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--percent", type=float, nargs="+", default=[0.01, 0.03, 0.1], help="Of 110 million.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="Where to work; by default a temporary folder. Emptied after.")
    options = parser.parse_args()
    if len(set(options.percent)) < 2:
        parser.error("give at least two sizes: growth and the whole are read from how they differ")
    found = []
    for percent in sorted(options.percent):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            found.append(rehearse(percent, Path(name).resolve(), options.workers))
    print(json.dumps(report(found, options.workers), indent=2, default=asdict))


if __name__ == "__main__":
    main()
