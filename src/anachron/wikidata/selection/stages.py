"""What the steps of a stage are asked of: the columns that each stage adds to statements, and its verdicts.

Every function takes the statements that are still alive and returns them all, with ``dropped`` (see
`anachron.wikidata.selection.rules.Rules.judge`). Frames in, frames out; nothing is read or written here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.facts import fact_id
from anachron.data.facts import OTHER_PERIODS
from anachron.wikidata.selection.lookups import Lookups
from anachron.wikidata.selection.rules import Rules, Selection, Steps

YEAR_PRECISION = 9
# As `anachron.wikidata.reading.parse` reads them: a snapshot of another making may hold others.
ENTITY_ID = r"^(?:[QPLME][0-9]{1,12}|L[0-9]{1,8}-[FS][0-9]{1,4})$"
TRIPLE = ["subject", "property", "value"]


def row_stage(
    statements: pl.LazyFrame, titles: pl.DataFrame, barred: pl.DataFrame, lookups: Lookups, rules: Steps
) -> pl.LazyFrame:
    """Verdicts that a row, its property and its two entities decide.

    statements: rows of the snapshot's table. titles: ``id, title`` of the subjects at least. barred: ``id`` of pages of
    the wiki and templates, at least of those that are subjects or objects here. Adds ``title, property_label,
    property_description, meta, subject_barred, object_barred, restricted``; a missing datatype is that of the property,
    and the value of a statement whose object can be the id of no entity is unknown.
    """
    known = lookups.properties.lazy()
    pages = barred.lazy()
    coordinate = pl.when(pl.col("value_type") == "coordinate").then(pl.lit("globe-coordinate"))
    entity = pl.col("value_type") == "entity"
    rows = (
        statements.join(titles.lazy().select(subject="id", title="title"), on="subject", how="left")
        .join(pages.select(subject="id", subject_barred=pl.lit(True)), on="subject", how="left")
        .join(pages.select(value="id", object_barred=pl.lit(True)), on="value", how="left")
        .join(known, on="property", how="left")
        .with_columns(
            pl.coalesce("datatype", "property_datatype", coordinate).alias("datatype"),
            (pl.col("object_barred") & entity).alias("object_barred"),
            pl.when(entity & ~pl.col("value").str.contains(ENTITY_ID))
            .then(pl.lit("somevalue"))
            .otherwise("snak")
            .alias("snak"),
            pl.col("qualifiers").str.contains(restrictive_pattern(lookups.restrictive)).alias("restricted"),
        )
        .drop("property_datatype")
    )
    return rules.judge(rows, "rows")


def restrictive_pattern(restrictive: Iterable[str]) -> str:
    """Matches the JSON text of qualifiers that has one of these properties as a key.

    Inside a JSON string a quotation mark is escaped, so nothing in a value looks like ``"P642":``.
    """
    return f'"(?:{"|".join(sorted(restrictive))})":'


def period_stage(alive: pl.DataFrame, statements: pl.LazyFrame, rules: Rules) -> pl.DataFrame:
    """Verdicts on the periods of each (s, r, o): one or several, closed or open, readable, over, long enough.

    Needs ``position`` (the order of the dump). statements: all of these subjects, dropped ones too. Adds for both sides
    ``start_kind`` (known, unknown, open, absent), ``start_date, start_precision, start_values, start_year``;
    ``first_day, last_day`` (day numbers of the completed period); ``periods`` (distinct ones of the triple, with
    ``drop-closed`` of those closed on both sides), ``repeated`` (an earlier statement says the same) and
    ``other_periods, other_unplaced``.
    """
    frame = alive.sort("position")
    if rules.settings.still_held:  # of what is stated twice, the preferred statement is the first
        frame = _with_preferred(frame, statements).sort(pl.col("rank") != "preferred", "position")
    for side in ("start", "end"):
        parts = pl.col(side).struct
        frame = frame.with_columns(
            parts.field("kind").fill_null("absent").alias(f"{side}_kind"),
            parts.field("date").alias(f"{side}_date"),
            parts.field("precision").fill_null(YEAR_PRECISION).alias(f"{side}_precision"),
            parts.field("values").fill_null(0).alias(f"{side}_values"),
            parts.field("raw").alias(f"{side}_raw"),
        )
        if side == "end" and rules.settings.still_held:  # an end that is not stated is none
            frame = frame.with_columns(pl.col("end_kind").replace("absent", "open"))
        frame = frame.with_columns(_boundary_key(side).alias(f"{side}_key"))
    key = pl.struct("start_key", "end_key")
    counted = key
    if rules.settings.several_periods == "drop-closed":
        counted = key.filter((pl.col("start_kind") == "known") & (pl.col("end_kind") == "known"))
    frame = frame.with_columns(
        counted.n_unique().over(TRIPLE).alias("periods"),
        (pl.int_range(pl.len()).over([*TRIPLE, "start_key", "end_key"]) > 0).alias("repeated"),
    )
    frame = _with_days(frame)
    keep = rules.settings.several_periods == "keep"
    frame = _with_other_periods(frame) if keep else frame.with_columns(pl.lit(False).alias("other_unplaced"))
    return rules.judge(frame, "periods").drop("start_key", "end_key", "start_raw", "end_raw", "preferred", strict=False)


def _with_preferred(frame: pl.DataFrame, statements: pl.LazyFrame) -> pl.DataFrame:
    """``preferred``: what the preferred statements of the subject and property say, each value once, null without any.

    One of no or an unknown value, or with an end, says "", which is the value of no fact that still holds.
    """
    ended = pl.col("end").struct.field("kind").is_in(["known", "unknown"]).fill_null(False)
    says = pl.when((pl.col("snak") == "value") & ~ended).then("value").otherwise(pl.lit(""))
    stated = statements.filter(pl.col("rank") == "preferred").join(frame.lazy(), on=TRIPLE[:2], how="semi")
    preferred = stated.group_by(TRIPLE[:2]).agg(says.unique().alias("preferred")).collect(engine="streaming")
    return frame.join(preferred, on=TRIPLE[:2], how="left", maintain_order="left")


def _boundary_key(side: str) -> pl.Expr:
    """What makes two boundaries the same: kind, date as written, and whether it is a year or a longer interval."""
    precision = pl.col(f"{side}_precision")
    return pl.concat_str(
        f"{side}_kind",
        pl.coalesce(f"{side}_date", f"{side}_raw", pl.lit("")),
        pl.when(precision < YEAR_PRECISION).then(precision.cast(pl.String)).otherwise(pl.lit("")),
        pl.when(pl.col(f"{side}_values") > 1).then(pl.lit("several")).otherwise(pl.lit("")),
        separator=" ",
    )


def _with_days(frame: pl.DataFrame) -> pl.DataFrame:
    """Day numbers and years of the dates."""
    days = date_table(pl.concat([frame["start_date"], frame["end_date"]]))
    start = days.select(start_text="text", start_date="date", first_day="first", start_year="year")
    end = days.select(end_text="text", end_date="date", last_day="last", end_year="year")
    return (
        frame.rename({"start_date": "start_text", "end_date": "end_text"})
        .join(start, on="start_text", how="left", maintain_order="left")
        .join(end, on="end_text", how="left", maintain_order="left")
        .drop("start_text", "end_text")
    )


def date_table(texts: pl.Series) -> pl.DataFrame:
    """``text, date (as facts' ids are made of it), first, last (day numbers), year`` of each distinct date text."""
    distinct = texts.drop_nulls().unique().to_list()
    dates = [Date.parse(text) for text in distinct]
    return pl.DataFrame(
        {
            "text": pl.Series(distinct, dtype=pl.String),
            "date": pl.Series([str(d) for d in dates], dtype=pl.String),
            "first": pl.Series([d.first_day for d in dates], dtype=pl.Int64),
            "last": pl.Series([d.last_day for d in dates], dtype=pl.Int64),
            "year": pl.Series([d.year for d in dates], dtype=pl.Int64),
        }
    )


def _with_other_periods(frame: pl.DataFrame) -> pl.DataFrame:
    """The other distinct periods of each triple. A boundary that no day can be given to is left open (null).

    A period open on both sides, or one that ends before it starts, cannot be placed: its triple is undecided at every
    date, which ``other_unplaced`` says of the other periods' facts.
    """
    shared = frame.filter(pl.col("periods") > 1)
    placed: dict[tuple[str, ...], dict[tuple[str, str], tuple[str | None, str | None, bool]]] = {}
    for row in shared.iter_rows(named=True):
        bounds = [_placed(row, side) for side in ("start", "end")]
        backwards = None not in bounds and row["last_day"] < row["first_day"]
        entry = (bounds[0], bounds[1], bounds == [None, None] or backwards)
        triple = tuple(row[name] for name in TRIPLE)
        placed.setdefault(triple, {}).setdefault((row["start_key"], row["end_key"]), entry)
    others: dict[int, tuple[list[dict[str, Any]], bool]] = {}
    for row in shared.iter_rows(named=True):
        period = (row["start_key"], row["end_key"])
        rest = [entry for key, entry in placed[tuple(row[name] for name in TRIPLE)].items() if key != period]
        periods = [{"start": start, "end": end} for start, end, _ in rest]
        others[row["position"]] = (periods, any(unplaced for _, _, unplaced in rest))
    other_periods = pl.DataFrame(
        {
            "position": pl.Series(list(others), dtype=frame.schema["position"]),
            "other_periods": pl.Series([o[0] for o in others.values()], dtype=OTHER_PERIODS),
            "other_unplaced": pl.Series([o[1] for o in others.values()], dtype=pl.Boolean),
        }
    )
    return frame.join(other_periods, on="position", how="left", maintain_order="left").with_columns(
        pl.col("other_periods").fill_null(pl.lit([], OTHER_PERIODS)), pl.col("other_unplaced").fill_null(False)
    )


def _placed(row: dict[str, Any], side: str) -> str | None:
    usable = row[f"{side}_values"] == 1 and row[f"{side}_precision"] >= YEAR_PRECISION
    return row[f"{side}_date"] if usable else None


def entity_stage(alive: pl.DataFrame, entities: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Verdicts on labels. entities: ``id, label, description, created`` of all subjects and objects that exist.

    Adds label, description and ``from`` (first date of existence) of both, ``object_missing`` and ``fact_id``.
    """
    about = entities.select("id", "label", "description", "created")
    frame = alive
    for side, column in (("subject", "subject"), ("object", "value")):
        names = {"id": column, "label": f"{side}_label", "description": f"{side}_description"}
        of_side = about.rename(names | {"created": f"{side}_from"}).with_columns(pl.lit(True).alias(f"{side}_there"))
        frame = frame.join(of_side, on=column, how="left", maintain_order="left")
    names = {"property_label": "relation_label", "property_description": "relation_description"}
    frame = frame.rename(names).with_columns(pl.col("object_there").is_null().alias("object_missing"))
    dates = pl.col("start_date", "end_date").fill_null("")
    ids = [fact_id(*row) for row in frame.select(*TRIPLE, dates).iter_rows()]
    frame = frame.with_columns(pl.Series("fact_id", ids, pl.String))
    return rules.judge(frame.drop("subject_there", "object_there"), "entities")


def with_popularity(alive: pl.DataFrame, popularity: pl.DataFrame) -> pl.DataFrame:
    """Facts with what the stage ``popularity`` is asked of: ``subject_popularity, object_popularity`` and
    ``popularity``, their geometric mean.

    popularity: ``id, popularity`` (median monthly views).
    """
    views = popularity.select("id", "popularity")
    subject = views.rename({"id": "subject", "popularity": "subject_popularity"})
    object_ = views.rename({"id": "value", "popularity": "object_popularity"})
    return (
        alive.join(subject, on="subject", how="left", maintain_order="left")
        .join(object_, on="value", how="left", maintain_order="left")
        .with_columns((pl.col("subject_popularity") * pl.col("object_popularity")).sqrt().alias("popularity"))
    )


@dataclass(frozen=True)
class Cut:
    """Where popularity cuts, which depends on all facts at once.

    threshold: least popularity; None where a search for one found too few facts to cut any, so that those without page
    views stay too. last: relation -> popularity and id of the last of its facts that is kept, where it
    has more than the settings want. strata: power of ten of the popularity -> id of the last of its facts that is
    drawn, likewise.
    """

    threshold: float | None = None
    last: dict[str, tuple[float, str]] = field(default_factory=dict)
    strata: dict[int, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        last = {relation: list(pair) for relation, pair in self.last.items()}
        strata = {"strata": {str(power): id for power, id in self.strata.items()}} if self.strata else {}
        return {"threshold": self.threshold, "last": last, **strata}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Cut":
        strata = {int(power): id for power, id in value.get("strata", {}).items()}
        return cls(value["threshold"], {relation: (p, f) for relation, (p, f) in value["last"].items()}, strata)


def no_minimum(settings: Selection, cut: Cut) -> bool:
    """Whether all facts stay, as there are not more than the search for a least popularity shall leave."""
    return settings.lowers_threshold and cut.threshold is None


# The power of ten of a popularity, 0 below ten: its logarithm is rounded first, as that of 1,000 may lie below 3.
STRATUM = pl.max_horizontal(pl.col("popularity"), 1.0).log10().round(12).floor().cast(pl.Int64)


def find_cut(alive: pl.DataFrame, settings: Selection) -> Cut:
    """The cut of the settings for these facts (``property, popularity, fact_id``). TimeStress, footnote 8."""
    if not settings.popularity:
        return Cut()
    threshold = settings.min_popularity
    if settings.lowers_threshold:
        step = 0
        threshold = float(settings.highest_popularity)
        while threshold > 0 and alive.filter(pl.col("popularity") >= threshold).height <= settings.more_than:
            step += 1
            threshold = max(settings.highest_popularity - step * settings.popularity_step, 0.0)
    above = alive if threshold is None else alive.filter(pl.col("popularity") >= threshold)
    last: dict[str, tuple[float, str]] = {}
    if settings.top_per_relation is not None:
        ranked = above.sort("popularity", "fact_id", descending=[True, False])
        for (relation,), facts in ranked.group_by(["property"], maintain_order=True):
            if facts.height > settings.top_per_relation:
                row = facts.row(settings.top_per_relation - 1, named=True)
                last[str(relation)] = (row["popularity"], row["fact_id"])
    strata: dict[int, str] = {}
    if settings.per_stratum is not None:
        for (power,), facts in above.group_by(STRATUM.alias("stratum")):
            if facts.height > settings.per_stratum:
                strata[int(str(power))] = facts["fact_id"].sort()[settings.per_stratum - 1]
    return Cut(threshold, dict(sorted(last.items())), dict(sorted(strata.items())))


def cut_stage(alive: pl.DataFrame, cut: Cut, rules: Rules) -> pl.DataFrame:
    """Verdicts of the cut: facts below the threshold, or behind the last of their relation, go."""
    last = pl.DataFrame(
        [(relation, *pair) for relation, pair in cut.last.items()],
        schema={"property": pl.String, "last_popularity": pl.Float64, "last_fact": pl.String},
        orient="row",
    )
    frame = alive.join(last, on="property", how="left", maintain_order="left")
    frame = frame.with_columns(
        pl.lit(cut.threshold, pl.Float64).alias("threshold"),
        STRATUM.replace_strict(cut.strata, default=None, return_dtype=pl.String).alias("last_of_stratum"),
    )
    return rules.judge(frame, "cut").drop("threshold", "last_popularity", "last_fact", "last_of_stratum")
