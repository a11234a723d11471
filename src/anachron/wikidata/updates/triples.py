"""From a bucket of a snapshot to clean triples: WikiFactDiff, section A.1, with the step for functional relations.

The first steps are those of `build facts` (`anachron.wikidata.selection.rules.cleaning_steps`); this module adds the
last one, which looks at all values of one subject and relation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from anachron.core.dates import Date, astronomical, historical
from anachron.io.stores import Place
from anachron.io.tables import write_table
from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.reading.times import YEAR, first_year
from anachron.wikidata.selection.lookups import Lookups, all_barred, find_lookups
from anachron.wikidata.selection.rules import Steps, cleaning_steps
from anachron.wikidata.selection.select import check_tables
from anachron.wikidata.selection.stages import date_table
from anachron.wikidata.selection.tally import Tally, alive_rows, scan_statements, tally_of

COLUMNS = (
    "subject", "property", "statement_id", "rank", "datatype", "snak", "value_type", "value", "value_extra",
    "value_precision", "value_calendar", "start", "end", "point", "qualifiers",
)  # fmt: skip
VALUE = ("value_type", "value", "value_extra", "value_precision", "value_calendar")
KEPT = ("position", "subject", "property", "statement_id", "rank", *VALUE, "start", "end", "point", "qualifiers")
GROUP = ["subject", "property"]
ITEM = pl.col("value_type") == "entity"


@dataclass(frozen=True)
class Side:
    """One of the two snapshots and what its rows are judged by. barred: a file of all its pages and templates."""

    snapshot: Snapshot
    lookups: Lookups
    barred: Place


def open_side(snapshot: Snapshot, barred: Place, words: Sequence[str], depth: int) -> Side:
    """A snapshot to be judged; its pages and templates are written to ``barred`` where that is not there yet.

    words, depth: ``barred_words`` and ``class_depth`` of `anachron.wikidata.selection.rules.Selection`.
    """
    check_tables(snapshot)
    if not barred.is_file():
        write_table(barred, all_barred(snapshot, words))
    return Side(snapshot, find_lookups(snapshot, depth), barred)


def day_of(snapshot: Snapshot) -> int:
    """Day number of a snapshot; of a month or year its first."""
    return Date.parse(snapshot.manifest["date"]).first_day


def update_steps(wiki: str, *, valid_at_date: bool = False) -> Steps:
    """The cleaning, then the step for relations that have one value, at all or at a time.

    valid_at_date: whether values of these that did not hold at the snapshot's date go first (WikiFactDiff, section 4,
    which its appendix A.1 and the published code do not do).
    """
    elsewhen = ("it did not hold at the date of the snapshot", pl.col("elsewhen"))
    later = ("a later point in time is stated for the same relation", pl.col("outdated"))
    preferred = ("another value of a functional relation is preferred", pl.col("passed_over"))
    reasons = [*([elsewhen] if valid_at_date else []), later, preferred]
    return Steps([*cleaning_steps(wiki), ("one value", "groups", reasons)])


def relation_types(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """``property, functional, by_point`` of each property, as the new snapshot has it, else the old.

    old, new: properties of the snapshots. Functional is a relation with a single-value constraint, whether it holds at
    all or at a time (WikiFactDiff, appendix B); ``by_point`` where points in time tell its values apart.
    """
    table = pl.concat([new, old]).unique("id", keep="first", maintain_order=True)
    by_point = pl.col("single_value") & pl.col("separators").list.contains("P585").fill_null(False)
    return table.select(
        property="id", functional=pl.col("single_value").fill_null(False), by_point=by_point.fill_null(False)
    )


def with_functional(triples: pl.DataFrame, relations: pl.DataFrame) -> pl.DataFrame:
    """Triples with ``functional`` of their relation, in their order. relations: of `relation_types`."""
    return triples.join(relations.select("property", "functional"), on="property", how="left", maintain_order="left")


def clean_triples(
    side: Side, bucket: int, steps: Steps, relations: pl.DataFrame, subjects: Iterable[str] | None = None, *,
    valid_at_date: bool = False,
) -> tuple[Tally, pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """What every step dropped of a bucket, its clean triples (`KEPT`) in the order of the dump, and those before the
    last step, with all values of relations that have one.

    subjects: only those of these. valid_at_date: as of `update_steps`, which made the steps.
    """
    statements = scan_statements(side.snapshot, bucket, COLUMNS)
    if subjects is not None:
        statements = statements.filter(pl.col("subject").is_in(list(subjects)))
    tally, rows = alive_rows(side.snapshot, bucket, statements, side.barred, side.lookups, steps)
    values = rows.select(KEPT).sort("position")  # joins give rows in any order
    later, kept = one_value(values, relations, steps, day_of(side.snapshot) if valid_at_date else None)
    tally.go_on(later)
    return tally, kept, values


def one_value(
    values: pl.DataFrame, relations: pl.DataFrame, steps: Steps, day: int | None
) -> tuple[Tally, pl.DataFrame]:
    """What the last step dropped of the values before it (`clean_triples`), and the triples that it kept (`KEPT`).
    day: as of `group_stage`."""
    judged = group_stage(values, relations, steps, day)
    return tally_of(judged, steps), judged.filter(pl.col("dropped").is_null()).select(KEPT)


def held_elsewhen(day: int) -> pl.Expr:
    """Whether a value surely ended before a day, or surely started after it."""
    return ((_last(pl.col("end")) < day) | (_first(pl.col("start")) > day)).fill_null(False)


def group_stage(alive: pl.DataFrame, relations: pl.DataFrame, steps: Steps, day: int | None = None) -> pl.DataFrame:
    """Verdicts on the values of each functional relation; needs ``position``. Returns all rows in their order.

    day: of the snapshot, where values that surely ended before it, or surely started after it, go first. Where points
    in time tell values apart and one is stated, the latest stays (of several the preferred, else the first in the
    dump). Of what then is left, the one preferred statement stays, where exactly one is.
    """
    rows = alive.join(relations.filter("functional"), on="property", how="inner")
    rows = rows.with_columns((pl.lit(False) if day is None else held_elsewhen(day)).alias("elsewhen"))
    dated = rows.filter(pl.col("by_point") & ~pl.col("elsewhen")).with_columns(first_days(pl.col("point")).alias("day"))
    latest = (
        dated.drop_nulls("day")
        .sort("day", pl.col("rank") == "preferred", "position", descending=[True, True, False])
        .unique(GROUP, keep="first", maintain_order=True)
        .select(*GROUP, latest="position")
    )
    rows = rows.join(latest, on=GROUP, how="left")
    rows = rows.with_columns((pl.col("position") != pl.col("latest")).fill_null(False).alias("outdated"))
    chosen = (
        rows.filter(~pl.col("outdated") & ~pl.col("elsewhen"))
        .group_by(GROUP)
        .agg((pl.col("rank") == "preferred").sum().alias("preferred"))
        .filter(pl.col("preferred") == 1)
    )
    rows = rows.join(chosen, on=GROUP, how="left")
    passed_over = pl.col("preferred").is_not_null() & (pl.col("rank") != "preferred")
    judged = steps.judge(rows.with_columns(passed_over.alias("passed_over")), "groups")
    verdicts = judged.drop_nulls("dropped").select("position", "dropped")
    return alive.join(verdicts, on="position", how="left", maintain_order="left")


def first_days(boundary: pl.Expr) -> pl.Expr:
    """Day number of the first day of a boundary's date (month and day 00 are completed to 01), null without one."""
    return boundary.struct.field("date").map_batches(days_of, return_dtype=pl.Int64)


def _first(boundary: pl.Expr) -> pl.Expr:
    return span_of(boundary).struct.field("first")


def _last(boundary: pl.Expr) -> pl.Expr:
    return span_of(boundary).struct.field("last")


SPAN = pl.Struct({"first": pl.Int64, "last": pl.Int64})


def span_of(boundary: pl.Expr) -> pl.Expr:
    """The first and the last day (day numbers) that a boundary's date may mean, by its precision; null without one.

    Of a decade, century or millennium those of all its years; what is coarser is rounded, so its length lies on either
    side of the year that is written.
    """
    return boundary.map_batches(_spans, return_dtype=SPAN)


def _spans(boundaries: pl.Series) -> pl.Series:
    parts = boundaries.struct.unnest().select("date", "precision")
    distinct = parts.unique().drop_nulls("date")
    spans = [_span(Date.parse(date), YEAR if precision is None else precision) for date, precision in distinct.rows()]
    table = distinct.with_columns(
        pl.Series("first", [first for first, _ in spans], pl.Int64),
        pl.Series("last", [last for _, last in spans], pl.Int64),
    )
    joined = parts.join(table, on=["date", "precision"], how="left", nulls_equal=True, maintain_order="left")
    return joined.select(pl.struct("first", "last")).to_series()


def _span(date: Date, precision: int) -> tuple[int, int]:
    if precision >= YEAR:
        return date.first_day, date.last_day
    length = 10 ** (YEAR - precision)
    first = first_year(date.year, precision)
    low, high = (astronomical(date.year if first is None else first) + shift for shift in (0, length - 1))
    if first is None:
        low, high = low - length, low + length
    return Date(historical(low)).first_day, Date(historical(high)).last_day


def days_of(texts: pl.Series) -> pl.Series:
    """Day numbers of the first days of date texts."""
    known = date_table(texts)
    return pl.DataFrame({"text": texts}).join(known, on="text", how="left", maintain_order="left")["first"]
