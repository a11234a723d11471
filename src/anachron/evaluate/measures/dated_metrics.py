"""Whether an update keeps the past true: dated questions before and after the change, per update and per method.

Everything starts from the tables ``dated``, ``dated_neighbours`` and ``updates`` of `anachron.evaluate.results`.
"""

from collections.abc import Iterable

import numpy as np
import polars as pl

from anachron.analysis.metrics import GLOBAL, fact_metrics
from anachron.analysis.statistics import interval_cells, t_mean
from anachron.core.dates import GRANULARITIES, as_date
from anachron.core.facts import REPLACEMENT
from anachron.core.periods import Period
from anachron.data.updates.case_records import EditCase
from anachron.evaluate.measures.dated import DATED, DATED_NEIGHBOURS, WAYS
from anachron.evaluate.metrics import clean_scores, in_order, of_replacements
from anachron.evaluate.results import DATE, KEYS, METHOD, UNEDITED, check_updates, method_label, subjects_of

OF_DATES = ("present_updated", "past_kept", "both_right", "kept_given_right")  # shares of dates, or of pairs of dates
OF_PAST_FACT = ("win_rate", "robustness")
MEASURES = (*OF_DATES, *OF_PAST_FACT)
SAME_WORDS = ("prompt", "question")  # ways whose words are the same on all dates, so that scores of dates compare
WITH_GLOBAL = (*GRANULARITIES, GLOBAL)
OF_WAYS = ("", *(f"_{way}" for way in WAYS))  # endings of a metric: the mean over the ways of asking, each of them
DATED_METRICS = tuple(
    f"{measure}_{granularity}{way}" for way in OF_WAYS for measure in MEASURES for granularity in WITH_GLOBAL
)
DATED_SHARES = DATED_METRICS  # all are shares, 0 to 1 of an update, so that the interval of their mean has bounds
ENDINGS = ("", "_low", "_high", "_n")  # of a metric's columns in a summary
EDGES = (-5.0, -2.0, 0.0, 2.0, 5.0)  # years from T between bins; the first and the last bin are open
SCORES = ["new_before", "old_before", "new_after", "old_after"]

EDITED_WITH = "edited with "  # before the name of a method in `past_scores`
ABOUT = ("subject_label", "relation_id", "relation_label", "object_label", "start", "end")
BY_DATE_SCHEMA = {
    "mode": pl.String(),
    **METHOD,
    "kind": pl.String(),
    "bin": pl.Int64(),
    **dict.fromkeys(["years_low", "years_high", "years"], pl.Float64()),
    **dict.fromkeys(["n", "updates"], pl.Int64()),
    **dict.fromkeys(["bleedover", "bleedover_low", "bleedover_high"], pl.Float64()),
}


def dated_metrics(dated: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, method and update with its `DATED_METRICS`; first of each mode the clean model, ``unedited``.

    ``present_updated_*`` is the share of dates after the change on which p(new) > p(old), ``past_kept_*`` that of dates
    before it on which p(old) > p(new); a tie is neither. ``both_right_*`` is the joint score: of all pairs of a date
    before and one after the change, the share in which both are right. It is the product of the update's two shares, so
    neither makes up for the other, as it would in their mean, and no threshold says which share is right.
    ``kept_given_right_*`` is past kept over the dates alone on which the clean model has the past right (p(old) >
    p(new)), so that no edit is blamed for what was never known; the clean model's own is 1.

    ``win_rate_*`` and ``robustness_*`` are W and R of the past fact, as `anachron.analysis.metrics` has them: dates
    before the change are its correct contexts and dates after it the incorrect ones. (They depend on the order alone,
    and one object has one number of tokens whatever the date before it, so probabilities serve as well as their
    logarithms.) Each is there for year, month, day, and ``global``: the mean of the three (R: all three), where all
    three were asked. Each is computed among the questions of one way of asking
    (`anachron.evaluate.measures.dated.WAYS`), and is there by way (``past_kept_year_question``) and as the update's
    mean over the ways that tell it (``past_kept_year``), so that an update counts once, in however many ways it was
    asked. W and R compare dates with one another, so they are there in `SAME_WORDS` only: paraphrases differ between
    dates, in tense too. All are 0 to 1; R by way is 0 or 1.

    A metric is null where nothing tells it: no dates on a side, a failed update. Beside them: status, reason, scenario,
    which is always replacement: no others are asked with dates, and they have no row. Raises `DataError` for tables
    that break their rules. Source: this package's own; W and R: TimeStress, section 3.1.
    """
    known = check_updates(updates).filter(pl.col("scenario") == REPLACEMENT)
    scored = DATED.check(dated)
    clean = clean_scores(scored, ["mode", "case_id", "way", *DATE], SCORES[:2])
    clean = clean.with_columns(new_after="new_before", old_after="old_before")
    asked = pl.concat([table.select(scored.columns) for table in (clean, scored)]).drop_nulls(SCORES[2:])
    return of_replacements([_shares(asked), _past_fact(asked)], known, DATED_METRICS)


def _shares(asked: pl.DataFrame) -> pl.DataFrame:
    new, old = pl.col("new_after"), pl.col("old_after")
    past, present = pl.col("side") == "past", pl.col("side") == "present"
    right_before = pl.col("old_before") > pl.col("new_before")
    each = (
        asked.group_by(*KEYS, "way", "granularity", maintain_order=True)
        .agg(
            present_updated=(new > old).filter(present).mean(),
            past_kept=(old > new).filter(past).mean(),
            kept_given_right=(old > new).filter(past & right_before).mean(),
        )
        .with_columns(both_right=pl.col("present_updated") * pl.col("past_kept"))
    )
    every = [
        pl.when(pl.col(name).count() == len(GRANULARITIES)).then(pl.col(name).mean()).alias(name) for name in OF_DATES
    ]
    whole = each.group_by(*KEYS, "way", maintain_order=True).agg(every).with_columns(granularity=pl.lit(GLOBAL))
    return _wide(pl.concat([each, whole.select(each.columns)]), OF_DATES)


def by_way(summary: pl.DataFrame) -> pl.DataFrame:
    """A summary of dated metrics (`anachron.evaluate.metrics.summarise`) with a row per method and ``way``.

    Metrics have their names without the way: ``past_kept_year``, ``past_kept_year_low``, ... Ways in which no update
    was asked have no rows, unless none was asked in any.
    """
    metrics = [f"{measure}_{granularity}" for measure in MEASURES for granularity in WITH_GLOBAL]
    asked = [way for way in WAYS if sum(summary[f"{name}_{way}_n"].sum() for name in metrics)]
    about = [name for name in summary.columns if not name.startswith(MEASURES)]
    parts = [
        summary.with_row_index("row").select(
            "row",
            *about,
            pl.lit(way).alias("way"),
            *(pl.col(f"{name}_{way}{end}").alias(f"{name}{end}") for name in metrics for end in ENDINGS),
        )
        for way in asked or WAYS[:1]
    ]
    return pl.concat(parts).sort("row", maintain_order=True).drop("row")


def past_scores(
    dated: pl.DataFrame, targets: pl.DataFrame, cases: Iterable[EditCase], kind: str = "raw"
) -> pl.DataFrame:
    """The past facts as a score table, so that `anachron report` shows their timelines before and after the edits.

    dated, targets: the run's tables, of one mode. The model before the edits is ``unedited``, and after those of a
    method ``edited with METHOD``. An update is a fact with its old object, from that one's start to its end, or to T
    where that is not known or later; those asked nothing before T are left out. kind: the format in which the model was
    asked, ``raw`` or ``chat``. ``logp`` is per token, of the update prompt, or where the run did not ask it with
    dates, of the first of its ways; rows without a date have the score of the update prompt.
    """
    cases = list(cases)
    first = min(dated["way"].unique(), key=WAYS.index, default=WAYS[0])
    dated = dated.filter(pl.col("way") == first)
    with_past = set(dated.filter(pl.col("side") == "past")["case_id"])
    periods = {c.case_id: Period(c.old_start, _old_end(c)) for c in cases if c.case_id in with_past}
    facts = pl.DataFrame(
        [
            (c.case_id, c.subject, c.relation, c.relation_label or c.relation, c.old, c.old_start, _old_end(c))
            for c in cases
            if c.case_id in periods
        ],
        schema=dict.fromkeys(["case_id", *ABOUT], pl.String()),
        orient="row",
    )
    plain = targets.filter(pl.col("kind") == "update")
    of_past = dated.with_columns(_status())
    columns = ["model", "case_id", "granularity", "time", "status"]
    rows = []
    for when in ("before", "after"):
        model = (pl.lit(UNEDITED) if when == "before" else pl.lit(EDITED_WITH) + method_label()).alias("model")
        old = pl.col(f"old_{when}").log().alias("logp")
        rows.append(of_past.select(model, *columns[1:], old))
        rows += [
            plain.select(model, "case_id", pl.lit(name).alias("granularity"), pl.lit(None, pl.String).alias("time"),
                         pl.lit("none").alias("status"), old)
            for name in GRANULARITIES
        ]  # fmt: skip
    scores = pl.concat(rows).drop_nulls("logp").unique(columns, keep="first", maintain_order=True)
    scores = scores.join(facts, on="case_id", how="inner", maintain_order="left")
    alpha = [
        None if time is None else periods[case_id].alpha(time)
        for case_id, time in scores.select("case_id", "time").iter_rows()
    ]
    return scores.select(
        "model", pl.lit(kind).alias("format"), pl.lit("none").alias("prefix"),
        pl.col("case_id").alias("fact_id"), *ABOUT, "granularity", "time", "status",
        pl.Series("alpha", alpha, pl.Float64), "logp",
    )  # fmt: skip


def _old_end(case: EditCase) -> str | None:
    """The end of an update's old object as dated questions have it: its own where that comes before the change."""
    ends = [end for end in (case.old_end, case.start) if end]
    return min(ends, key=lambda end: as_date(end).first_day, default=None)


def _past_fact(asked: pl.DataFrame) -> pl.DataFrame:
    """W and R of the old object: each mode, method and way is a run, each update a fact."""
    asked = asked.filter(pl.col("way").is_in(SAME_WORDS))
    if not asked.height:
        none = asked.select(*KEYS, "way", "granularity", win_rate="old_after", robustness="old_after")
        return _wide(none, OF_PAST_FACT)
    run = ["mode", *METHOD, "way"]
    runs = asked.select(run).unique(maintain_order=True).with_row_index("model").cast({"model": pl.String})
    scores = asked.join(runs, on=run, maintain_order="left").with_columns(
        _status(), format=pl.lit("raw"), prefix=pl.lit("none"), fact_id="case_id", alpha="distance", logp="old_after"
    )
    metrics = fact_metrics(scores.drop("side", "distance", "way", *KEYS, *SCORES))
    of_updates = metrics.join(runs, on="model", maintain_order="left").rename({"fact_id": "case_id"})
    return _wide(of_updates, OF_PAST_FACT)


def _status() -> pl.Expr:
    """What a date is for the old object."""
    return pl.when(pl.col("side") == "past").then(pl.lit("correct")).otherwise(pl.lit("incorrect")).alias("status")


def _wide(rows: pl.DataFrame, measures: tuple[str, ...]) -> pl.DataFrame:
    """Columns of each measure and granularity, by way and their mean, from a row per update, way and granularity."""
    cells = {
        f"{measure}_{name}": (pl.col(measure).cast(pl.Float64), pl.col("granularity") == name)
        for measure in measures
        for name in WITH_GLOBAL
    }
    means = [value.filter(own).mean().alias(column) for column, (value, own) in cells.items()]
    of_ways = [
        value.filter(own & (pl.col("way") == way)).first().alias(f"{column}_{way}")
        for way in WAYS
        for column, (value, own) in cells.items()
    ]
    return rows.group_by(KEYS, maintain_order=True).agg(*means, *of_ways)


def bleedover_by_date(neighbours: pl.DataFrame, updates: pl.DataFrame | None = None) -> pl.DataFrame:
    """Mean bleedover of neighbour facts behind a date, by how far that date is from the change.

    neighbours: the run's table ``dated_neighbours``. Bleedover is the probability that a true object lost,
    -min(after - before, 0), 0 to 1. Bins lie between `EDGES` (years, below 0 before the change) and hold their lower
    edge. The mean of a bin is over updates, of each update's mean over its neighbours there, with Student's 95 %
    interval over the subjects that ``updates`` names (null of one): neighbours of one update depend on each other.

    Returns the columns of `BY_DATE_SCHEMA`, a row per mode, method (each of its variants), kind of neighbour
    (nearest, random) and bin. ``years_low`` of the first bin and ``years_high`` of the last are null; ``years`` is the
    mean distance of the dates in the bin; ``n`` counts neighbours. A bin without any has no row. Raises `DataError` for
    a table that breaks its rules.
    """
    facts = DATED_NEIGHBOURS.check(neighbours).drop_nulls(["before", "after"])
    number = np.searchsorted(EDGES, facts["distance"].to_numpy(), side="right")
    ends = (None, *EDGES, None)
    each = (
        facts.with_columns(
            pl.Series("bin", number + 1, pl.Int64),
            (pl.col("before") - pl.col("after")).clip(lower_bound=0.0).alias("loss"),
        )
        .group_by(*KEYS, "kind", "bin", maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("distance").mean(), pl.col("loss").mean())
    )
    rows = []
    for key, group in each.group_by("mode", *METHOD, "kind", "bin", maintain_order=True):
        ends_of_mean = interval_cells("bleedover", t_mean(group["loss"].to_numpy(), subjects_of(group, updates)))
        years = np.average(group["distance"].to_numpy(), weights=group["n"].to_numpy())
        rows.append((*key, ends[key[-1] - 1], ends[key[-1]], float(years), group["n"].sum(), group.height,
                     group["loss"].mean(), *ends_of_mean.values()))  # fmt: skip
    return in_order(pl.DataFrame(rows, schema=BY_DATE_SCHEMA, orient="row"), facts, "kind", "bin")
