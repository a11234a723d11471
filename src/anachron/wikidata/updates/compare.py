"""Two snapshots, bucket by bucket: cleaned, aligned, and the entities found that came into being between them.

A bucket is read whole by one worker and leaves files in the work folder; ``counts-000.json`` is written last and says
that they are complete, so an interrupted comparison goes on with the buckets that lack it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from anachron.io.cluster import Spread, map_in_order
from anachron.io.files import Json, read_json, write_json
from anachron.io.stores import Place
from anachron.io.tables import in_our_words, read_parquet, scan_parquet, write_table
from anachron.wikidata.reading.snapshot import bucket_of, readable
from anachron.wikidata.selection.rules import Steps
from anachron.wikidata.selection.tally import Tally
from anachron.wikidata.updates.diff import align, changed_groups
from anachron.wikidata.updates.features import entity_numbers
from anachron.wikidata.updates.redirects import follow, occurring
from anachron.wikidata.updates.triples import (
    GROUP,
    ITEM,
    VALUE,
    Side,
    clean_triples,
    day_of,
    days_of,
    first_days,
    held_elsewhen,
    one_value,
    update_steps,
    with_functional,
)

FLAGS = ("old", "both", "new")
_BEHIND = 1 << 60  # a position behind all of a dump
CREATED = {
    "id": pl.String, "label": pl.String, "description": pl.String, "created": pl.String, "created_property": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """What a worker must know to compare a bucket.

    relations: of `anachron.wikidata.updates.triples.relation_types`. label_unchanged: keep the groups in which nothing
    changed too. redirected: whether ``work/redirects.parquet`` holds redirects
    (`anachron.wikidata.updates.redirects.write_redirects`). valid_at_date: as of
    `anachron.wikidata.updates.triples.update_steps`, which made ``steps``. coarse_undecided: whether a label is open
    that depends on the day of a date which is known to the year or less.
    """

    old: Side
    new: Side
    steps: Steps
    relations: pl.DataFrame
    work: Place
    label_unchanged: bool = False
    redirected: bool = False
    valid_at_date: bool = False
    coarse_undecided: bool = False

    @property
    def redirects(self) -> Place:
        return self.work / "redirects.parquet"

    @property
    def buckets(self) -> int:
        return self.new.snapshot.buckets

    def file(self, kind: str, bucket: int) -> Place:
        """A file of a bucket in the work folder.

        ``triples``: of changed groups, ``anachron.wikidata.updates.diff.DIFF_COLUMNS`` and ``functional,
        subject_is_new, subject_only_in_old``. ``created``: new entities (`CREATED`). ``old``: all clean triples of the
        old snapshot, for the search of neighbours. ``fresh``: relations and items in the new one of the subjects of
        which the old one names no item; one row of nulls where it names none either. ``elsewhen``: groups of functional
        relations with values that did not hold at their snapshot's date; ``otherwise``: their triples, as
        ``valid_at_date`` has them the other way round.
        """
        return self.work / f"{kind}-{bucket:03d}.parquet"


def move_triples(comparison: Comparison, spread: Spread) -> None:
    """Put the old triples of subjects that were merged into others where the buckets of those find them."""
    redirects = dict(read_parquet(comparison.redirects).iter_rows())
    of_bucket = comparison.old.snapshot.by_bucket(redirects)
    tasks = ((comparison, bucket, items) for bucket, items in of_bucket.items())
    moved = put_behind(pl.concat(map_in_order(_moved_from, tasks, spread.workers, spread.ray)))
    target = {id: bucket_of(redirects[id], comparison.buckets) for id in moved["subject"].unique()}
    buckets = (
        moved["subject"].replace_strict(target, return_dtype=pl.Int64) if target else pl.Series([], dtype=pl.Int64)
    )
    write_table(
        comparison.work / "moved.parquet", moved.with_columns(buckets.alias("bucket")).sort("bucket", "position")
    )


def _moved_from(task: tuple[Comparison, int, list[str]]) -> pl.DataFrame:
    comparison, bucket, items = task
    return _clean(comparison.old, comparison, bucket, items)[1]


def put_behind(moved: pl.DataFrame) -> pl.DataFrame:
    """Triples of merged subjects, to come behind those of the items that these were merged into.

    By the number of their subject: so the order is the same with any buckets.
    """
    numbered = moved.with_columns(entity_numbers(moved["subject"]).alias("number")).sort("number", "position")
    return numbered.with_columns((pl.int_range(pl.len()) + _BEHIND).alias("position")).drop("number")


def compare_bucket(task: tuple[Comparison, int]) -> Json:
    """Compare one bucket and return its counts: steps of both sides, triples and groups by flag, subjects by side."""
    comparison, bucket = task
    report = comparison.work / f"counts-{bucket:03d}.json"
    if report.is_file():
        counted: Json = read_json(report)
        return counted
    old_tally, old, old_values = _clean(comparison.old, comparison, bucket)
    new_tally, new, new_values = _clean(comparison.new, comparison, bucket)
    old, followed = _with_moved(old, comparison, bucket)
    doubles = followed.filter("double")
    aligned, whole = align(old, new, doubles), old.height
    old = old.join(doubles, on="position", how="anti", maintain_order="left")
    subjects = {name: side.select("subject").unique() for name, side in (("old", old), ("new", new))}
    fresh = subjects["new"].join(subjects["old"], on="subject", how="anti")
    gone = subjects["old"].join(subjects["new"], on="subject", how="anti")
    created = _created(comparison, bucket, fresh)

    def described(aligned: pl.DataFrame) -> pl.DataFrame:
        triples = with_functional(aligned, comparison.relations)
        for name, members in (("subject_is_new", created["id"]), ("subject_only_in_old", gone["subject"])):
            triples = triples.with_columns(pl.col("subject").is_in(members.implode()).alias(name))
        return triples

    triples = described(aligned)
    groups, otherwise = _otherwise(comparison, old_values, new_values)
    write_table(comparison.file("elsewhen", bucket), groups)
    write_table(comparison.file("otherwise", bucket), described(otherwise))
    changed = changed_groups(triples)
    write_table(comparison.file("triples", bucket), triples if comparison.label_unchanged else changed)
    write_table(comparison.file("created", bucket), created)
    write_table(comparison.file("old", bucket), _for_neighbours(old))
    told_of = _items(old).select("subject").unique()
    fresh_items = subjects["new"].join(told_of, on="subject", how="anti").join(_items(new), on="subject", how="left")
    write_table(comparison.file("fresh", bucket), fresh_items)
    counts = {
        "old": old_tally.as_json(),
        "new": new_tally.as_json(),
        "redirected": {
            "triples": followed.height,
            "left out as doubles": whole - triples.filter(pl.col("flag") != "new").height,
        },
        "triples": {flag: triples.select((pl.col("flag") == flag).sum()).item() for flag in FLAGS},
        "changes": dict(sorted(triples.drop_nulls("change").group_by("change").len().iter_rows())),
        "groups": {"all": _groups(triples), "changed": _groups(changed)},
        "subjects": {
            "old only": gone.height,
            "new only": fresh.height,
            "both": subjects["new"].height - fresh.height,
        },
        "created": created.height,
    }
    write_json(report, counts)
    return counts


def _clean(
    side: Side, comparison: Comparison, bucket: int, subjects: Iterable[str] | None = None
) -> tuple[Tally, pl.DataFrame, pl.DataFrame]:
    """What the steps dropped, the clean triples, and those before the last step."""
    with readable(f"{side.snapshot.folder}: bucket {bucket} of statements or entities"):
        return clean_triples(
            side, bucket, comparison.steps, comparison.relations, subjects, valid_at_date=comparison.valid_at_date
        )


def _otherwise(comparison: Comparison, old: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The groups of functional relations with values that did not hold at their snapshot's date, and their aligned
    triples as ``valid_at_date`` has them the other way round. old, new: triples before the last step."""
    functional = comparison.relations.filter("functional").select("property")
    sides = ((comparison.old.snapshot, old), (comparison.new.snapshot, new))
    elsewhen = [rows.join(functional, on="property", how="semi").filter(held_elsewhen(day_of(s))) for s, rows in sides]
    groups = pl.concat([rows.select(GROUP) for rows in elsewhen]).unique(maintain_order=True)
    steps = update_steps(comparison.new.snapshot.wiki, valid_at_date=not comparison.valid_at_date)
    kept = []
    for snapshot, rows in sides:
        own = rows.join(groups, on=GROUP, how="semi", maintain_order="left")
        day = None if comparison.valid_at_date else day_of(snapshot)
        kept.append(one_value(own, comparison.relations, steps, day)[1])
    return groups, align(*kept)


def _with_moved(old: pl.DataFrame, comparison: Comparison, bucket: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The old triples of a bucket with redirects followed, and of `follow` which these are."""
    if not comparison.redirected:
        return old, follow(old.clear(), {})[1]
    moved = scan_parquet(comparison.work / "moved.parquet").filter(pl.col("bucket") == bucket).drop("bucket")
    with in_our_words():
        both = pl.concat([old.with_columns(moved=pl.lit(False)), moved.with_columns(moved=pl.lit(True)).collect()])
    redirects = occurring(comparison.redirects, both)
    kept = both.filter(pl.col("moved") | ~pl.col("subject").is_in(list(redirects))).drop("moved")
    return follow(kept, redirects)


def _created(comparison: Comparison, bucket: int, fresh: pl.DataFrame) -> pl.DataFrame:
    """Those of the subjects that only the new snapshot has which came into being after the date of the old one."""
    part = comparison.new.snapshot.part("entities", bucket)
    with readable(part):
        entities = scan_parquet(part).select(list(CREATED))
        about = entities.join(fresh.lazy(), left_on="id", right_on="subject", how="semi").collect(engine="streaming")
    days = days_of(about["created"])
    return about.filter((days > day_of(comparison.old.snapshot)).fill_null(False)).sort("id")


def _items(triples: pl.DataFrame) -> pl.DataFrame:
    return triples.filter(ITEM).select(*GROUP, "value")


def _for_neighbours(old: pl.DataFrame) -> pl.DataFrame:
    days = [first_days(pl.col(name)).alias(f"{name}_day") for name in ("start", "end")]
    return old.select(*GROUP, *VALUE, *days, "position")


def _groups(triples: pl.DataFrame) -> int:
    return triples.select(GROUP).unique().height


def created_of(comparison: Comparison) -> pl.DataFrame:
    """All new entities (`CREATED`), by id."""
    parts = [read_parquet(comparison.file("created", bucket)) for bucket in range(comparison.buckets)]
    return pl.concat(parts).sort("id")


def triples_of(comparison: Comparison) -> Iterator[pl.DataFrame]:
    """The triples to be labelled, bucket by bucket."""
    for bucket in range(comparison.buckets):
        yield read_parquet(comparison.file("triples", bucket))
