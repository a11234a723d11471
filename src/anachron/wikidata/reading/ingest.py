"""A dump to a snapshot folder: ranges in parallel, resumable, checked to be whole, then joined.

Nothing in the snapshot depends on who worked on what, or how often it was begun: ranges are a function of the file,
and are joined in its order.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.io.cluster import check_shared, connected, cores, map_in_order, worker_count
from anachron.io.files import Json, parse_json, read_json, remove_leftovers, versions, write_bytes, write_json
from anachron.io.jobs import (
    Callbacks,
    begin,
    begun,
    differences,
    discard,
    locked,
    now,
    parts_folder,
    refuse_others,
    remove_abandoned,
)
from anachron.io.stores import Place, StorePath, place, read_all
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.dump import Dump, continues, open_dumps
from anachron.wikidata.reading.handing import CAN_HAND_OUT, HandOut
from anachron.wikidata.reading.merge import Run, merge_rest, merge_run, runs_of
from anachron.wikidata.reading.ranges import BY_BUCKET, Job, NoDump, do_ranges, range_folder
from anachron.wikidata.reading.settings import IngestSettings, buckets_for, buckets_of
from anachron.wikidata.reading.snapshot import FORMAT, POPULARITY, Snapshot, readable
from anachron.wikidata.reading.snapshot import in_order as ids_in_order
from anachron.wikidata.reading.whole import check_bad, check_layout, first_missing, in_order, mostly_bad

Counts = dict[str, int]
Progress = Callable[..., None]
WORK_FORMAT = 3  # how the files of a range are laid out
LISTED = "listed.txt"  # in the work folder: the ids of --entities, for the workers
NAMED = 5  # ids of --entities that are named where the dump lacks them
MOST_BEHIND = 64  # ranges that are asked for at once behind the last that is finished
ENOUGH = 100  # lines that --limit must let through before mostly bad ones tell of a wrong file


def ingest(
    path: Place | str | Sequence[Place | str],
    out: Place | str,
    settings: IngestSettings,
    *,
    workers: int | None = None,
    ray: str | None = None,
    range_bytes: int | None = None,
    callbacks: Callbacks | None = None,
    more: Json | None = None,
    beside: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Write the snapshot of a dump and return its manifest. A complete snapshot of the same dump is left as it is.

    path: a dump, or several small files and folders of them, which are read as one (`open_dumps`).

    With ``entities`` the manifest's ``absent`` counts the listed items that the dump lacks, and names the first.
    ``more``: other entries of the manifest. ``beside``: names of files that may lie in the folder of the snapshot.

    ``callbacks`` are told the bytes of the file done, all of them, and words. Repeating an interrupted call goes on
    with the ranges that are not finished. With Ray, dump and snapshot must be on a store, or on a file system that all
    nodes share.

    Raises `DataError`, with the position, for a dump that is cut off or damaged or no dump; `ConfigError` where ``out``
    holds something else; `BackendError` where a worker died or the disk is full.
    """
    clock, callbacks = time.monotonic(), callbacks or Callbacks()
    if workers is not None:
        worker_count(workers)  # a wrong number shows before anything is written
    dump = open_dumps([path] if isinstance(path, (str, Path, StorePath)) else path, range_bytes)
    out = place(out).absolute()
    settings = replace(settings, buckets=settings.buckets or _buckets_there(out) or buckets_for(dump))
    about = {
        "format": FORMAT,
        "dump": {"name": dump.name, "size": dump.size, "compression": dump.compression, "sample": dump.sample},
        "date": settings.date,
        "options": settings.options(),
    }
    identity = _identity(about)
    if (manifest := _finished(out, identity)) is not None:
        return manifest
    work = out / "work"
    with locked(out / ".lock", out, remove=True), _without_useless_work(work, dump), connected(ray, workers):
        wanted = identity | {"range_bytes": dump.range_bytes, "work_format": WORK_FORMAT}
        _discard_shorter(dump, work, wanted)
        _refuse_strangers(out, beside)
        check_shared([file.path for file in dump.files or (dump,)], out, ray)
        record = begin(work, wanted)
        parts = parts_folder(work, record)
        ranges = _read_ranges(dump, parts, settings, workers, ray, callbacks.progress)
        counts = _join(parts, out, settings, ranges, worker_count(workers, ray), ray)
        manifest = about | (more or {}) | {
            "command": "wikidata ingest", "counts": counts, "absent": _absent(Snapshot(out, about), settings),
            "versions": versions() | {name: version(name) for name in ("msgspec", "pyarrow", "isal", "zstandard")},
            "seconds": round(time.monotonic() - clock, 1), "started": record["started"], "finished": now(),
        }  # fmt: skip
        _remove_leftovers(out)
        write_json(out / "manifest.json", manifest)
        discard(work)
    return manifest


def _remove_leftovers(out: Place) -> None:
    """Remove what workers of a run that was killed left unfinished; a store has nothing of that sort."""
    for folder in (out, *(out / table for table in BY_BUCKET)):
        if isinstance(folder, Path):
            remove_leftovers(folder)


def _buckets_there(out: Place) -> int | None:
    """The buckets of a snapshot in ``out``, or of the work on one."""
    if (out / "manifest.json").is_file():
        manifest: Json = read_json(out / "manifest.json")
        return manifest.get("options", {}).get("buckets")
    record = begun(out / "work")
    return None if record is None else record["identity"].get("buckets")


def _identity(about: Json) -> Json:
    """What a snapshot depends on, from its manifest, whose options get the names that they have in the command."""
    return {name: about.get(name) for name in ("format", "dump", "date")} | about.get("options", {})


def _finished(out: Place, identity: Json) -> Json | None:
    """The manifest of a complete snapshot in ``out``; `ConfigError` for one of another dump or other options."""
    if not (out / "manifest.json").is_file():
        return None
    manifest: Json = read_json(out / "manifest.json")
    refuse_others(out, _identity(manifest), identity, "a snapshot")
    discard(out / "work")  # where the last step did not come to its end
    remove_abandoned(out / ".lock")
    return manifest


def _discard_shorter(dump: Dump, work: Place, wanted: Json) -> None:
    """Remove the work on a begin of this dump, which was cut off then: its last lines and ranges were other ones."""
    record = begun(work)
    if record is None or "dump" not in record["identity"]:  # the work of another command, which is refused later
        return
    known = record["identity"]
    grown = known | {"dump": known["dump"] | {"size": dump.size, "sample": dump.sample}}
    others = differences(grown, wanted | {"range_bytes": known["range_bytes"]})
    if not others and continues(dump, known["dump"]["size"], known["dump"]["sample"]):
        discard(work)


@contextmanager
def _without_useless_work(work: Place, dump: Dump) -> Iterator[None]:
    """Remove the work on a file that turned out to be no dump, so that it does not stand in the way of another try; and
    on damaged ones that are read as a whole."""
    try:
        yield
    except DataError as error:
        if isinstance(error, NoDump) or dump.layout != "lines":
            discard(work)
        raise


def _refuse_strangers(out: Place, beside: frozenset[str]) -> None:
    """Raise `ConfigError` where the folder of a snapshot to begin holds other files than those.

    The popularity of entities, which no ingest writes but every reader of the snapshot takes, is looked for by its
    name: a store may not list it yet.
    """
    names = {path.name for path in out.iterdir() if path.name != "work" and not path.name.startswith(".")}
    strangers = sorted(names - beside | ({POPULARITY} if (out / POPULARITY).is_file() else set()))
    if strangers and begun(out / "work") is None:
        raise ConfigError(f"{out} is not empty ({', '.join(strangers[:3])}); choose another --out or remove the folder")


def _done(work: Place, known: dict[int, dict[str, Any]] | None = None) -> dict[int, dict[str, Any]]:
    """Finished ranges by number. known: those that need not be read again.

    A listing says which may be finished, their ``done.json`` which are. The listing of a store may show none of those
    that were just finished, so there it only saves requests: all numbers up to the last that is finished, and some
    behind it, are asked for by name, until none of these is new. So of ranges without a gap all are found.
    """
    found = dict(known or {})
    listed = {int(path.name) for path in work.iterdir() if path.name.isdigit()}
    asked, behind = set[int](), 1
    while True:
        expected = set(range(max(found, default=-1) + 1 + behind)) if isinstance(work, StorePath) else set()
        numbers = sorted((listed | expected) - found.keys() - asked)
        files = [range_folder(work, number) / "done.json" for number in numbers]
        contents = zip(numbers, files, read_all(files), strict=True)
        new = {number: parse_json(content, file) for number, file, content in contents if content is not None}
        if not new:
            return dict(sorted(found.items()))
        found |= new
        asked.update(numbers)
        behind = min(2 * behind, MOST_BEHIND)


def _read_ranges(
    dump: Dump, work: Place, settings: IngestSettings, workers: int | None, ray: str | None, progress: Progress
) -> list[dict[str, Any]]:
    """Do what is not done, check that the dump is whole, and return the ranges in order."""
    if settings.entities is not None:
        write_bytes(work / LISTED, "\n".join(sorted(settings.entities)).encode())
    with _told(dump, work, progress):
        if settings.limit is not None:
            done = _read_first(dump, work, settings, settings.limit)
        else:
            _read_all(dump, work, settings, workers, ray)
            done = _done(work)
    check_layout(dump, work, done)
    apart = ray not in (None, "local") and isinstance(work, Path)
    ranges = in_order(dump, done, settings.limit, work if apart else None)
    lines, bad = (sum(range_[key] for range_ in ranges) for key in ("lines", "bad"))
    if 2 * bad > lines and (settings.limit is None or lines >= ENOUGH):
        raise mostly_bad(dump, work, ranges)
    check_bad(dump, work, ranges, settings.most_bad)
    return ranges


def _job(dump: Dump, work: Place, settings: IngestSettings, numbers: tuple[int, ...], **more: Any) -> Job:
    listed = None if settings.entities is None else work / LISTED
    return Job(
        dump, work, settings.wiki, settings.language, listed, buckets_of(settings), numbers,
        references=settings.references, **more,
    )  # fmt: skip


def _read_all(dump: Dump, work: Place, settings: IngestSettings, workers: int | None, ray: str | None) -> None:
    """Do all ranges that are not done."""
    done, number = _done(work), worker_count(workers, ray)
    if dump.ranges is not None:
        threads = 1 if ray else max(1, cores() // number)  # of bz2, beside the one that parses
        left = [range_ for range_ in range(dump.ranges) if range_ not in done]
        jobs = [_job(dump, work, settings, (range_,), threads=threads) for range_ in left]
    elif any(range_["last"] for range_ in done.values()) and first_missing(done) is None:
        return
    elif CAN_HAND_OUT and ray is None and number > 1:
        with HandOut(dump, frozenset(done)) as ranges:
            handed = (_job(dump, work, settings, (range_.number,), handed=range_) for range_ in ranges)
            for _ in map_in_order(do_ranges, handed, workers):
                ranges.done()
            ranges.check()
        return
    else:
        skip = frozenset(done)
        jobs = [_job(dump, work, settings, (first,), step=number, skip=skip) for first in range(number)]
    for _ in map_in_order(do_ranges, jobs, workers, ray):
        pass


def _read_first(dump: Dump, work: Place, settings: IngestSettings, limit: int) -> dict[int, dict[str, Any]]:
    """The first entities, range after range in this process: how many a range has to give depends on those before."""
    done = _done(work)
    left = limit - sum(range_["lines"] for range_ in done.values())
    if left > 0 and not any(range_["last"] for range_ in done.values()):
        first = max(done, default=-1) + 1
        numbers = (first,) if dump.ranges is None else tuple(range(first, dump.ranges))
        step = 1 if dump.ranges is None else None
        do_ranges(_job(dump, work, settings, numbers, step=step, threads=cores(), limit=left))
    return _done(work)


def _join(
    work: Place, out: Place, settings: IngestSettings, ranges: list[dict[str, Any]], workers: int, ray: str | None
) -> dict[str, Any]:
    """Write the tables and count: what is repeated is bad, and no item, subject, statement or edge."""
    numbers = tuple(range_["range"] for range_ in ranges)
    number = buckets_of(settings)
    tasks = [Run(run, work, out, numbers, number) for run in runs_of(number, workers)]
    buckets = [report for reports in map_in_order(merge_run, tasks, workers, ray) for report in reports]
    repeated = [row for bucket in buckets for row in bucket["repeated"]]
    properties, edges = merge_rest(work, out, ranges, number, repeated)
    keys = ("lines", "items", "properties", "lexemes", "unlisted", "bad", "kept")
    counts: Counts = {key: sum(range_[key] for range_ in ranges) for key in keys}
    listed = [row for row in repeated if settings.entities is None or row[3] in settings.entities]
    items = counts["items"] - len(listed)
    unlisted = counts["unlisted"] - (len(repeated) - len(listed))
    subjects = len(listed) if settings.wiki == "all" else sum(row[4] for row in listed)
    kept = counts["kept"] - subjects
    bad = counts["bad"] + len(repeated) + len(properties)
    dropped = {
        f"no title in {settings.wiki}": items - kept,
        "lexeme": counts["lexemes"],
        "not listed in --entities": unlisted,
        "bad": bad,
    }
    totals = {
        "lines": counts["lines"], "entities": items + unlisted + counts["properties"] - len(properties), "kept": kept,
        "dropped": {reason: number for reason, number in dropped.items() if number}, "items": items,
        "properties": counts["properties"] - len(properties), "lexemes": counts["lexemes"], "unlisted": unlisted,
        "bad": bad, "statements": sum(bucket["statements"] for bucket in buckets), "class_edges": edges,
    }  # fmt: skip
    for what in ("values_left_out", "missing"):
        if number := sum(range_[what] for range_ in ranges):
            totals[what] = number
    assert totals["lines"] == sum(totals[k] for k in ("items", "properties", "lexemes", "unlisted", "bad")), totals
    assert items + unlisted == sum(bucket["entities"] for bucket in buckets), totals
    return totals


def _absent(snapshot: Snapshot, settings: IngestSettings) -> dict[str, Any] | None:
    """How many of the listed items are not in the tables, and the first of them; None without a list."""
    if settings.entities is None:
        return None
    absent: list[str] = []
    for bucket, ids in snapshot.by_bucket(settings.entities).items():
        part = snapshot.part("entities", bucket)
        rows = scan_parquet(part).select("id")
        with readable(part):
            absent += set(ids).difference(rows.filter(pl.col("id").is_in(ids)).collect()["id"])
    return {"ids": len(absent), "first": ids_in_order(absent)[:NAMED]}


@contextmanager
def _told(dump: Dump, work: Place, progress: Progress) -> Iterator[None]:
    """Tell ``progress`` what is finished, by looking into the work folder: so it does not matter who works where."""
    stop, known = threading.Event(), dict[int, dict[str, Any]]()
    every = 10.0 if isinstance(work, StorePath) else 0.5  # seconds
    begun = time.monotonic()
    before: list[int] = []

    def look() -> None:
        known.update(_done(work, known))
        text = sum(record["text_bytes"] for record in known.values())
        before.append(text) if not before else None
        speed = (text - before[0]) / 1e6 / max(time.monotonic() - begun, 1e-9)
        if dump.seekable:
            position = min(len(known) * dump.range_bytes, dump.size)
        else:
            position = max((record["file_position"] for record in known.values()), default=0)
        progress(position, dump.size, f"{speed:,.0f} MB/s of JSON")

    def watch() -> None:
        while not stop.wait(every):
            look()

    look()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    look()
