"""How much memory a measured piece of work held at most; for the benchmarks beside this file (Linux)."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.05  # seconds between two looks


@dataclass
class Peak:
    """The most bytes that were resident."""

    largest: int = 0  # in one process
    together: int = 0  # in this process and all its descendants


@contextmanager
def watched_memory() -> Iterator[Peak]:
    """Fills the yielded peak until the block ends."""
    peak, stop = Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(EVERY):
            sizes = [resident(pid) for pid in family(os.getpid())]
            peak.largest = max(peak.largest, *sizes)
            peak.together = max(peak.together, sum(sizes))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def family(root: int) -> list[int]:
    """A process and its descendants; one that ends meanwhile is left out."""
    found = [root]
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def resident(pid: int) -> int:
    """Bytes; none of a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()
