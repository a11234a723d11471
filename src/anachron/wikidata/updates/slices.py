"""In how many buckets two snapshots are compared: as many as both can be split into, and as memory asks for."""

import math

import polars as pl

from anachron.core.errors import ConfigError
from anachron.io.cluster import Spread, cores, worker_count
from anachron.io.cluster import memory as machine_memory
from anachron.io.stores import Place
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.rebucket import rebucket
from anachron.wikidata.reading.snapshot import MOST_BUCKETS, Snapshot, readable

STATEMENT = 2_800  # bytes that a worker holds for each statement of a bucket of both snapshots, at most
WORKER = 300_000_000  # bytes of a worker that holds none
SHARE = 0.85  # of a machine's memory, for the main process and all workers
MAIN = 80  # bytes that the main process holds for each statement of both snapshots: benchmarks/whole.md


def buckets_within(old: Snapshot, new: Snapshot, memory: int | None, spread: Spread) -> int:
    """The least number of buckets, a multiple of both sides', of which each worker can hold one.

    memory: bytes for all workers of a machine together, by default what `left_for_workers` says. Raises `ConfigError`
    where not even a worker without any statement has room, and for snapshots that can only be split alike into too many
    buckets.
    """
    largest, statements = zip(*(_largest_and_all(side) for side in (old, new)), strict=True)
    common = math.lcm(old.buckets, new.buckets)
    workers = min(worker_count(spread.workers, spread.ray), cores()) if spread.ray else worker_count(spread.workers)
    given = left_for_workers(machine_memory(), sum(statements)) if memory is None else memory
    room = given / workers - WORKER
    if room <= 0:
        least = math.ceil(workers * WORKER / 1e9 * 10 + 1) / 10
        if memory is None:
            held = MAIN * sum(statements) / 1e9
            raise ConfigError(
                f"this machine has {machine_memory() / 1e9:.1f} GB. Without --memory, {SHARE:.0%} of them go to the "
                f"main process, which holds {held:.1f} GB for {sum(statements):,} statements, and for "
                f"{workers} workers, which need {least:g}: use fewer --workers or a larger machine, or give --memory: "
                "how many GB the workers may take beside the main process"
            )
        ways = [f"give --memory {least:g} or more", "leave it out for what this machine can spare"]
        ways += ["use fewer --workers"] * (workers > 1)
        raise ConfigError(
            f"--memory {given / 1e9:g} GB for {workers} worker{'s' if workers > 1 else ''}: each needs more than "
            f"{WORKER / 1e9:g} GB, whatever it holds; {', or '.join(ways)}"
        )
    rows = sum(most * side.buckets / common for most, side in zip(largest, (old, new), strict=True))
    times = max(1, math.ceil(rows * STATEMENT / room))
    wanted = common << (times - 1).bit_length()
    if wanted > MOST_BUCKETS:
        raise ConfigError(
            f"{old.folder} has {old.buckets} buckets and {new.folder} {new.buckets}: to compare them within "
            f"the memory, {wanted:,} would be needed, and at most {MOST_BUCKETS:,} are possible; give more "
            "--memory, or ingest one of them again with the other's --buckets"
        )
    return wanted


def left_for_workers(machine: int, statements: int) -> int:
    """Bytes of a machine's memory for all of its workers, beside the main process: negative where that takes it all.

    statements: of both snapshots. On a cluster the main process is on one of the machines, and the others follow it.
    """
    return int(machine * SHARE) - MAIN * statements


def _largest_and_all(snapshot: Snapshot) -> tuple[int, int]:
    """Statements of the largest bucket and of all; only the ends of the files are read."""
    rows = []
    for part in (snapshot.part("statements", bucket) for bucket in range(snapshot.buckets)):
        with readable(part):
            rows.append(scan_parquet(part).select(pl.len()).collect().item())
    return max(rows, default=0), sum(rows)


def split(old: Snapshot, new: Snapshot, buckets: int, work: Place, spread: Spread) -> tuple[Snapshot, Snapshot]:
    """Both snapshots in this many buckets, split into folders under ``work`` where they have fewer."""
    quiet = Spread(spread.workers, spread.ray)
    first, second = (
        side if side.buckets == buckets else rebucket(side, buckets, work / f"split-{name}", quiet)
        for name, side in (("old", old), ("new", new))
    )
    return first, second
