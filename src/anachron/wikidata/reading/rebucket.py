"""A snapshot in more buckets: what an ingest with so many of them had written, without reading the dump again."""

import zlib
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anachron.core.errors import ConfigError, DataError, first_line
from anachron.io.cluster import Spread, check_shared, map_in_order
from anachron.io.files import atomic, read_bytes, rows_fingerprint, write_bytes, write_json
from anachron.io.jobs import begin, discard, locked, parts_folder, remove_abandoned
from anachron.io.stores import Place, place
from anachron.wikidata.reading.merge import ROW_GROUP, PartWriter
from anachron.wikidata.reading.snapshot import (
    MOST_BUCKETS,
    POPULARITY,
    TABLES,
    Snapshot,
    open_snapshot,
    part_name,
    schemas,
)

COMMAND = "wikidata rebucket"
KEYS = {"entities": "id", "statements": "subject"}
WHOLE = ("properties.parquet", "classes.parquet", POPULARITY, "bad.jsonl")  # in one piece, where they are


def rebucket(
    snapshot: Snapshot | Place | str, buckets: int, out: Place | str, spread: Spread | None = None
) -> Snapshot:
    """Write the snapshot to the folder ``out`` with ``buckets``, a multiple of its own; page views come along.

    A bucket is split apart from all others, row group by row group. An interrupted call goes on with the buckets that
    are not complete. Raises `ConfigError` for another number and where ``out`` is another snapshot, or holds unfinished
    work of another one or of other buckets.
    """
    snapshot, out, spread = open_snapshot(snapshot), place(out).absolute(), spread or Spread()
    if not 1 <= buckets <= MOST_BUCKETS or buckets % snapshot.buckets:
        raise ConfigError(
            f"{buckets} buckets: {snapshot.folder} has {snapshot.buckets}, which can be split into a multiple of that, "
            f"up to {MOST_BUCKETS:,}"
        )
    manifest = snapshot.manifest | {"options": snapshot.manifest["options"] | {"buckets": buckets}}
    identity = {"command": COMMAND, "snapshot": rows_fingerprint([snapshot.manifest]), "buckets": buckets}
    work = out / "work"
    if (out / "manifest.json").is_file():
        there = open_snapshot(out)
        if there.manifest != manifest:
            raise ConfigError(f"{out} holds another snapshot; choose another --out or remove it")
        discard(work)  # where the last step did not come to its end
        remove_abandoned(out / ".lock")
        return there
    with locked(out / ".lock", out, remove=True):
        whole = [name for name in WHOLE if (snapshot.folder / name).is_file()]
        for name in WHOLE:
            if name not in whole and (out / name).is_file():
                raise ConfigError(
                    f"{out} holds {name}, which {snapshot.folder} has not; remove it or choose another --out"
                )
        check_shared([snapshot.folder / "manifest.json"], out, spread.ray)
        parts = parts_folder(work, begin(work, identity))
        tasks = [(snapshot, bucket, buckets, out, parts) for bucket in range(snapshot.buckets)]
        for done, _ in enumerate(map_in_order(split_bucket, tasks, spread.workers, spread.ray), 1):
            spread.progress(done, len(tasks))
        for name in whole:
            write_bytes(out / name, read_bytes(snapshot.folder / name))
        write_json(out / "manifest.json", manifest)
        discard(work)
    return open_snapshot(out)


def split_bucket(task: tuple[Snapshot, int, int, Place, Place]) -> None:
    """Write those of the new buckets that one bucket holds; a file in the work folder says of each table that they are.

    That the new files are there says nothing: they may be an earlier job's.
    """
    snapshot, bucket, buckets, out, work = task
    targets = range(bucket, buckets, snapshot.buckets)
    for table in TABLES:
        report = work / f"{table}-{bucket:03d}.json"
        if not report.is_file():
            paths = {target: out / table / part_name(target) for target in targets}
            _split(snapshot.part(table, bucket), table, buckets, paths)
            write_json(report, {"buckets": [*targets]})


def _split(part: Place, table: str, buckets: int, paths: dict[int, Place]) -> None:
    try:
        with ExitStack() as stack, part.open("rb") as data, pq.ParquetFile(data) as file:
            there = file.schema_arrow.names  # a snapshot of an earlier version has fewer columns
            schema = pa.schema([field for field in schemas()[table] if field.name in there])
            writers = {
                bucket: stack.enter_context(PartWriter(stack.enter_context(atomic(path)), schema))
                for bucket, path in paths.items()
            }
            for read in file.iter_batches(ROW_GROUP):
                batch = read.select(schema.names).cast(schema)  # parts of lists have other names where they were read
                numbers = _buckets_of(batch.column(KEYS[table]), buckets)
                for bucket in np.unique(numbers).tolist():
                    writers[bucket].add(batch.filter(pa.array(numbers == bucket)))
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{part} cannot be read ({first_line(error)}); ingest the dump again into another folder"
        ) from error


def _buckets_of(ids: pa.Array, buckets: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The bucket of each id, as `anachron.wikidata.reading.snapshot.bucket_of`."""
    encoded = pc.dictionary_encode(ids)
    distinct = np.array([zlib.crc32(id.encode()) % buckets for id in encoded.dictionary.to_pylist()], np.int64)
    return distinct[encoded.indices.to_numpy()]
