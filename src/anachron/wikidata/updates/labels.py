"""The rules that say of each triple whether it became true, became false or stayed between two dates.

Source: WikiFactDiff, table 5 and section A.3, in the order and with the deviations of the published code: start is
P580, end is P582, nothing else, and a missing date satisfies no comparison. Labels are the published ones (``static``
is the paper's "unchanged"), and two that only serve to decide: ``ignore`` and ``unknown``. One rule is ours: what a
date known to the year or less leaves open is unknown (`UNDECIDED_RULE`).
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

import polars as pl

Label = Literal["new", "obsolete", "static", "ignore", "unknown"]
DEATH = ("P570", "P4602")  # date of death, date of burial or cremation
BACKWARDS, OTHERWISE, SECOND_PASS, UNDECIDED_RULE = 4, 19, 20, 21
SPANNED = ("start", "end", "point", "old_end")  # the dates that may be known to the year or less
FIRST_SECTION = 3  # the second pass leaves alone what these rules decided

# What a triple is judged by. Days are day numbers (see `anachron.core.dates`); null: missing, unknown or unreadable.
TRIPLE_COLUMNS: dict[str, type[pl.DataType]] = {
    "group": pl.UInt32,  # triples of one subject and relation
    "property": pl.String,
    "functional": pl.Boolean,  # the relation has one value, at all or at a time
    "flag": pl.String,  # old, new, both
    "subject_is_new": pl.Boolean,
    "subject_only_in_old": pl.Boolean,
    "object_is_new": pl.Boolean,
    "value_day": pl.Int64,  # of a value that is a time
    "start": pl.Int64,  # P580, P582, P585 in the new snapshot
    "end": pl.Int64,
    "point": pl.Int64,
    "old_end": pl.Int64,  # P582 in the old snapshot
}


@dataclass(frozen=True)
class LabelRule:
    """Gives ``label`` where ``holds``; of several rules the first one counts."""

    number: int
    label: Label
    words: str
    holds: pl.Expr


def label_rules(old_day: int, new_day: int) -> tuple[LabelRule, ...]:
    """Rules 1 to 19 for snapshots of these two days (day numbers), in their order. Rule 3 has one entry a label."""
    col = pl.col

    def between(name: str) -> pl.Expr:
        return (col(name) > old_day) & (col(name) < new_day)

    no_end, is_new = col("end").is_null(), col("flag") == "new"
    death = col("property").is_in(DEATH)
    died = death & (_size() == 1) & is_new & between("value_day")
    replaced = (_size() == 2) & (_flagged("old") == 1) & (_flagged("new") == 1) & is_new
    begun = between("start") & (no_end | (col("end") > new_day))
    functional = col("functional")
    table: list[tuple[int, Label, str, pl.Expr]] = [
        (1, "new", "the subject is a new entity", col("subject_is_new")),
        (2, "unknown", "the subject is in the old snapshot only", col("subject_only_in_old")),
        (3, "new", "a death or burial between the dates", died),
        (3, "unknown", "a death or burial that is not new, or not between the dates", death),
        (4, "unknown", "it ends before it starts", col("start") > col("end")),
        (5, "new", "the one new value of a functional relation", functional & replaced & (between("point") | begun)),
        (6, "unknown", "a functional relation without such a change", functional),
        (7, "new", "new, at a point in time between the dates", is_new & between("point")),
        (8, "ignore", "it ended before the old date", col("end") < old_day),
        (9, "static", "it started before the old date and has no end", no_end & (col("start") < old_day)),
        (10, "new", "it started between the dates and has no end", no_end & between("start")),
        (11, "ignore", "it starts after the new date", col("start") > new_day),
        (12, "ignore", "it started and ended between the dates", between("start") & between("end")),
        (13, "obsolete", "it started before and ended between the dates", (col("start") < old_day) & between("end")),
        (14, "static", "it spans both dates", (col("start") < old_day) & (col("end") > new_day)),
        (15, "obsolete", "it ended between the dates", between("end")),
        (16, "static", "it ends after the new date", col("end") > new_day),
        (17, "ignore", "only old, and it had ended before the old date", _is("old") & (col("old_end") < old_day)),
        (18, "new", "only new, and its object is a new entity", is_new & col("object_is_new")),
        (OTHERWISE, "unknown", "no rule applies", pl.lit(True)),
    ]
    return tuple(LabelRule(*row) for row in table)


SECOND_PASS_WORDS = "the old one of two values of a functional relation, of which the other is new"


UNDECIDED_WORDS = "it depends on where in its year, month or decade a date lies"


def _is(flag: str) -> pl.Expr:
    return pl.col("flag") == flag


def _size() -> pl.Expr:
    return pl.len().over("group")


def _flagged(flag: str) -> pl.Expr:
    return _is(flag).sum().over("group")


def label_triples(triples: pl.DataFrame, old_day: int, new_day: int, spans: pl.DataFrame | None = None) -> pl.DataFrame:
    """The triples with ``label`` and ``rule``, the number of the rule that gave it.

    triples: columns `TRIPLE_COLUMNS` and any more, all triples of a group together or apart, in any order.
    old_day, new_day: day numbers of the snapshots. spans: of the dates of each triple (`SPANNED`) the ``first`` and the
    ``last`` day that they may mean. A label that depends on which it was is then ``unknown`` by `UNDECIDED_RULE`;
    without spans each date is its first day, as published.
    """
    first = _by_first_rule(triples, old_day, new_day)
    if spans is not None:
        first = _where_decided(first, triples, spans, old_day, new_day)
    undecided = (pl.col("label") == "unknown") & (pl.col("rule") > FIRST_SECTION)
    partner_is_new = (_size() == 2) & (pl.col("label") == "new").any().over("group")
    passes = pl.col("functional") & _is("old") & undecided & partner_is_new
    return first.with_columns(
        pl.when(passes).then(pl.lit(SECOND_PASS, pl.UInt8)).otherwise("rule").alias("rule"),
        pl.when(passes).then(pl.lit("obsolete")).otherwise("label").alias("label"),
    )


def _by_first_rule(triples: pl.DataFrame, old_day: int, new_day: int) -> pl.DataFrame:
    number, label = pl.lit(OTHERWISE, pl.UInt8), pl.lit("unknown")
    for rule in reversed(label_rules(old_day, new_day)):
        holds = rule.holds.fill_null(False)
        number = pl.when(holds).then(pl.lit(rule.number, pl.UInt8)).otherwise(number)
        label = pl.when(holds).then(pl.lit(rule.label)).otherwise(label)
    return triples.with_columns(number.alias("rule"), label.alias("label"))


def _where_decided(
    labelled: pl.DataFrame, triples: pl.DataFrame, spans: pl.DataFrame, old_day: int, new_day: int
) -> pl.DataFrame:
    """``labelled`` with `UNDECIDED_RULE` where days that its dates may mean give different labels.

    Each date that may lie before a snapshot or not is tried on the days of `_days_to_try`, those of a triple in all
    combinations. Days that end it before it starts are no possibility, unless nothing else is.
    """

    def may_precede(name: str, day: int) -> pl.Expr:
        span = pl.col(name).struct
        return ((span.field("first") < day) & (span.field("last") >= day)).fill_null(False)

    open_ = spans.select((may_precede(name, old_day) | may_precede(name, new_day)).alias(name) for name in SPANNED)
    which = open_.select(pl.sum_horizontal(pl.col(name) * 2**n for n, name in enumerate(SPANNED)).alias("which"))
    rows = triples.with_row_index("row").with_columns(which["which"])
    found: list[pl.DataFrame] = []
    for code in which["which"].unique().sort():  # triples with the same dates open share their combinations
        names = [name for n, name in enumerate(SPANNED) if code >> n & 1]
        if not names:
            continue
        own = pl.col("which") == code
        tried = rows.filter(own.any().over("group"))  # whole groups: rules ask how many triples there are
        days = [_days_to_try(spans[name][tried["row"]], tried["which"] == code, old_day, new_day) for name in names]
        for chosen in product(*days):
            moved = tried.with_columns(
                pl.when(own).then(day).otherwise(name).alias(name) for name, day in zip(names, chosen, strict=True)
            )
            found.append(_by_first_rule(moved, old_day, new_day).filter(own).select("row", "rule", "label"))
    if not found:
        return labelled
    of_row = pl.concat(found).group_by("row", maintain_order=True)
    possible = pl.col("rule") != BACKWARDS
    kept = of_row.agg(pl.col(name).filter(possible | ~possible.any()).alias(name) for name in ("rule", "label"))
    clear = pl.col("label").list.n_unique() == 1
    decided = kept.select(
        "row",
        pl.when(clear)
        .then(pl.col("rule").list.first())
        .otherwise(pl.lit(UNDECIDED_RULE, pl.UInt8))
        .alias("found_rule"),
        pl.when(clear).then(pl.col("label").list.first()).otherwise(pl.lit("unknown")).alias("found_label"),
    )
    joined = labelled.with_row_index("row").join(decided, on="row", how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("found_rule", "rule").alias("rule"), pl.coalesce("found_label", "label").alias("label")
    ).drop("row", "found_rule", "found_label")


def _days_to_try(spans: pl.Series, own: pl.Series, old_day: int, new_day: int) -> list[pl.Series]:
    """Of each row the first and the last day that a date may mean, and the days behind the snapshots where they lie
    between them in one of its ``own`` rows: what holds on either side of these holds of all."""
    ends = spans.struct.unnest()
    first, last = ends["first"], ends["last"]
    between = [
        pl.repeat(day, len(spans), dtype=pl.Int64, eager=True).clip(first, last)
        for day in (old_day + 1, new_day + 1)
        if ((first < day) & (last > day) & own).any()
    ]
    return [first, *between, last]


def rule_words(old_day: int, new_day: int) -> dict[tuple[int, str], str]:
    """(Number, label) of every rule -> what it says."""
    words = {(rule.number, str(rule.label)): rule.words for rule in label_rules(old_day, new_day)}
    return words | {(SECOND_PASS, "obsolete"): SECOND_PASS_WORDS, (UNDECIDED_RULE, "unknown"): UNDECIDED_WORDS}
