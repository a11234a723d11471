"""How the commands for all of Wikidata grow with it, rehearsed on synthetic dumps of a small share of its size.

Run: python benchmarks/whole.py [--percent 0.1 0.3 1] [--workers 2] [--folder FOLDER] [--stages STAGE ...]. Makes
two dumps a size with ``tools/synthetic_dump.py``, runs the commands of ``docs/build.md`` ("The commands for a whole
dump") on them word for word, but for the number of workers, and prints JSON: for each stage and size, what it took (a
line each on standard error as well, when it ends); whether that grows linearly; and what all of Wikidata would take on
one machine and on eight, beside the targets (``benchmarks/extrapolate.py``). ``build timestress`` goes on from the
snapshot of ``wikidata ingest``, so it is what comes after it.

Of `build timestress`, the steps behind the selection of facts (`BOUNDED`) are watched apart: a threshold of popularity
keeps some two thousand facts however large the dump, so what these steps take does not grow with it.

What is looked at: processor seconds of the command's main process and of all others (from /proc, twenty times a
second: the machine may be shared, and what a process did in its last twentieth is lost); resident memory of the largest
of them; bytes below the work folder; files opened, counted by ``strace -f --seccomp-bpf -e trace=open,openat,openat2``
where there is one: all successful calls in the work folder, by any library, not those of code; null without strace.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from extrapolate import ALL, Taken, report
from watched import family, resident

ROOT = Path(__file__).parent.parent
TOOL = ROOT / "tools" / "synthetic_dump.py"
PAGE, HEADING = ROOT / "docs" / "build.md", "### The commands for a whole dump\n"
# Files of the page's commands that a rehearsal makes, and those that it looks into.
DUMPS = ("dumps/wikidata-20210104-all.json.gz", "dumps-2023/wikidata-20230227-all.json.gz")
VIEWS = ("dumps/pageviews-202012-user.bz2", "dumps-2023/pageviews-202212-user.bz2")
MERGED, UPDATES = "redirects.csv", "updates.parquet"
SNAPSHOTS = ("timestress-2021/snapshot", "wikidata-2023")
BOUNDED = b"4 of 5: "  # a notice of `build timestress`: from here on, work follows the number of facts
EVERY = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


def run(arguments: list[str], folder: Path) -> Taken:
    """Run a command of anachron in a work folder and watch it. Raises where it fails, with what it said."""
    trace = folder.with_name(f"{folder.name}.strace")  # beside the folder, whose size is looked at
    command = [sys.executable, "-m", "anachron", *arguments]
    strace = shutil.which("strace")
    if strace:
        calls = "trace=open,openat,openat2"
        options = f"-f --seccomp-bpf -qq -y -e {calls} -e status=successful"
        command = [strace, *options.split(), "-o", str(trace), *command]
    before, taken = size(folder), Taken()
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder)
        watch(process, bool(strace), folder, taken, lambda: BOUNDED in os.pread(said.fileno(), 1 << 20, 0))
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


def watch(
    process: "subprocess.Popen[bytes]", traced: bool, folder: Path, taken: Taken, bounded: Callable[[], bool]
) -> None:
    """Fill in processors and memory until the process ends; the disk is looked at once a second.

    bounded: whether the steps have begun that do not grow with the dump.
    """
    used: dict[int, float] = {}
    before_bounded: float | None = None  # processor seconds of the main process
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
            if pid == main and (before_bounded is not None or bounded()):
                before_bounded = used.get(pid, 0.0) if before_bounded is None else before_bounded
                taken.bounded_memory = max(taken.bounded_memory, resident(pid))
            elif pid == main:
                taken.main_memory = max(taken.main_memory, resident(pid))
            else:
                taken.other_memory = max(taken.other_memory, resident(pid))
        time.sleep(EVERY)
    stop.set()
    watcher.join()
    taken.main_cpu = used.pop(main, 0.0) if main is not None else 0.0
    if before_bounded is not None:
        taken.bounded_cpu, taken.main_cpu = taken.main_cpu - before_bounded, before_bounded
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


def rehearse(percent: float, folder: Path, workers: int, stages: Collection[str]) -> dict[str, Any]:
    """Make two dumps of that size and run these stages on them, in the order of the page."""
    entities = round(ALL * percent / 100)
    with ThreadPoolExecutor() as both:
        made = list(both.map(lambda edition: make(folder, entities, edition), (0, 1)))
    taken = {}
    for name, words in commands().items():
        if name in stages:
            taken[name] = run(given(words, folder, workers), folder)
            said = {"percent": percent, "stage": name, **asdict(taken[name])}
            print(json.dumps(said), file=sys.stderr, flush=True)
    found = {
        "entities": entities, "text_bytes": made[0]["bytes"], "dump_bytes": (folder / DUMPS[0]).stat().st_size,
        "stages": taken,
    }  # fmt: skip
    return found | counted(folder)


def counted(folder: Path) -> dict[str, Any]:
    """What came out, as far as its files are there: buckets, statements of both snapshots, updates, pairs.

    pairs: of an update and a subject of the old snapshot that has its relation, of which the search for neighbours
    compares each.
    """
    found: dict[str, Any] = {}
    snapshots = [folder / name for name in SNAPSHOTS]
    manifests = [json.loads((one / "manifest.json").read_text()) for one in snapshots if one.is_dir()]
    if manifests:
        found["buckets"] = manifests[0]["options"]["buckets"]
        found["statements"] = sum(manifest["counts"]["statements"] for manifest in manifests)
    if (folder / UPDATES).is_file():
        updates = pl.scan_parquet(folder / UPDATES).select(property=pl.col("relation").struct.field("id"))
        told = pl.scan_parquet(snapshots[0] / "statements" / "*.parquet").select("property", "subject").unique()
        joined = updates.join(told.group_by("property").len(), on="property").select(pl.col("len").sum())
        found["updates"] = updates.select(pl.len()).collect().item()
        found["pairs"] = joined.collect().item()
    return found


def commands(page: str | None = None) -> dict[str, list[str]]:
    """Stage -> the words of its command on the page of the docs, without ``anachron``."""
    text = PAGE.read_text("utf-8") if page is None else page
    block = text.split(HEADING, 1)[1].split("```bash\n", 1)[1].split("```", 1)[0].replace("\\\n", " ")
    found = {}
    for words in map(shlex.split, block.splitlines()):
        name = " ".join(words[1:3])
        found[f"{name}, later" if name in found else name] = words[1:]
    return found


def given(words: list[str], folder: Path, workers: int) -> list[str]:
    """A command of the page, to be run in a folder that holds the same files, with so many workers.

    Only the number after ``--workers`` is another; what a shell would expand is expanded.
    """
    chosen: list[str] = []
    for before, word in pairwise(["", *words]):
        if before == "--workers":
            chosen.append(str(workers))
        elif "*" in word:
            chosen += sorted(str(path.relative_to(folder)) for path in folder.glob(word))
        else:
            chosen.append(word)
    return chosen


def make(folder: Path, entities: int, edition: int) -> dict[str, int]:
    (folder / DUMPS[edition]).parent.mkdir()
    command = [sys.executable, str(TOOL), str(folder / DUMPS[edition]), "--entities", str(entities)]
    command += ["--edition", str(edition), "--pageviews", str(folder / VIEWS[edition])]
    command += ["--redirects", str(folder / MERGED)] if edition else []
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    counts: dict[str, int] = json.loads(found.stdout)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--percent", type=float, nargs="+", default=[0.1, 0.3, 1], help="Of 110 million.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="Where to work; by default a temporary folder. Emptied after.")
    parser.add_argument("--stages", nargs="+", metavar="STAGE", choices=list(commands()), help="Only these.")
    options = parser.parse_args()
    stages = options.stages or list(commands())
    if len(set(options.percent)) < 2:
        parser.error("give at least two sizes: growth and the whole are read from how they differ")
    found = []
    for percent in sorted(options.percent):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            found.append(rehearse(percent, Path(name).resolve(), options.workers, stages))
    machine = {"cores": os.cpu_count(), "workers": options.workers}
    print(json.dumps({"machine": machine} | report(found), indent=2, default=asdict))


if __name__ == "__main__":
    main()
