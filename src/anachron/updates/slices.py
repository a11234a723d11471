"""In how many buckets two snapshots are compared: as many as both can be split into, and as memory asks for."""

import math

import polars as pl

from anachron.cluster import Spread, cores, worker_count
from anachron.cluster import memory as machine_memory
from anachron.errors import ConfigError
from anachron.io import scan_parquet
from anachron.stores import Place
from anachron.wikidata.reading.rebucket import rebucket
from anachron.wikidata.reading.snapshot import MOST_BUCKETS, Snapshot, readable

STATEMENT = 2_800  # bytes that a worker holds for each statement of a bucket of both snapshots, at most
WORKER = 300_000_000  # bytes of a worker that holds none
SHARE = 0.75  # of a machine's memory


def buckets_within(old: Snapshot, new: Snapshot, memory: int | None, spread: Spread) -> int:
    """The least number of buckets, a multiple of both sides', of which each worker can hold one.

    memory: bytes for all workers of a machine together. Raises `ConfigError` where not even a worker without any
    statement has room, and for snapshots that can only be split alike into too many buckets.
    """
    common = math.lcm(old.buckets, new.buckets)
    workers = min(worker_count(spread.workers, spread.ray), cores()) if spread.ray else worker_count(spread.workers)
    given = int(machine_memory() * SHARE) if memory is None else memory
    room = given / workers - WORKER
    if room <= 0:
        least = math.ceil(workers * WORKER / 1e9 * 10 + 1) / 10
        has = "--memory" if memory is not None else "three quarters of this machine's memory,"
        ways = [f"give --memory {least:g} or more"]
        ways += ["leave it out for three quarters of the machine's"] * (memory is not None)
        ways += ["use fewer --workers"] * (workers > 1)
        raise ConfigError(
            f"{has} {given / 1e9:g} GB for {workers} worker{'s' if workers > 1 else ''}: each needs more than "
            f"{WORKER / 1e9:g} GB, whatever it holds; {', or '.join(ways)}"
        )
    rows = sum(_largest(side) * side.buckets / common for side in (old, new))
    times = max(1, math.ceil(rows * STATEMENT / room))
    wanted = common << (times - 1).bit_length()
    if wanted > MOST_BUCKETS:
        raise ConfigError(
            f"{old.folder} has {old.buckets} buckets and {new.folder} {new.buckets}: to compare them within "
            f"the memory, {wanted:,} would be needed, and at most {MOST_BUCKETS:,} are possible; give more "
            "--memory, or ingest one of them again with the other's --buckets"
        )
    return wanted


def _largest(snapshot: Snapshot) -> int:
    """Statements of the largest bucket; only the ends of the files are read."""
    most = 0
    for part in (snapshot.part("statements", bucket) for bucket in range(snapshot.buckets)):
        with readable(part):
            most = max(most, scan_parquet(part).select(pl.len()).collect().item())
    return most


def split(old: Snapshot, new: Snapshot, buckets: int, work: Place, spread: Spread) -> tuple[Snapshot, Snapshot]:
    """Both snapshots in this many buckets, split into folders under ``work`` where they have fewer."""
    quiet = Spread(spread.workers, spread.ray)
    first, second = (
        side if side.buckets == buckets else rebucket(side, buckets, work / f"split-{name}", quiet)
        for name, side in (("old", old), ("new", new))
    )
    return first, second
