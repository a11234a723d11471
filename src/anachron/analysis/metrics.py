"""Win rate W and robustness R (TimeStress, section 3.1): per fact, and per model with intervals.

A match pits a correct context c of a fact against an incorrect one i of the same granularity; it is won
when ``logp(c) > logp(i)``, strictly. W is the share of matches won, R is 1 when all are. Over the three
granularities, W is the mean of theirs and R is 1 when all three are 1.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from anachron.analysis.statistics import interval_cells, korn_graubard, random_robustness
from anachron.core.dates import GRANULARITIES, Date
from anachron.core.errors import DataError
from anachron.core.periods import STATUSES
from anachron.io.schemas import FINITE, ColumnSchema, Schema, one_of, refuse_duplicates, refuse_rows

RUN_KEYS = ["model", "format", "prefix"]
RunKey = tuple[str, str, str]  # model, format, prefix
FACT_KEYS = [*RUN_KEYS, "fact_id"]
GLOBAL = "global"
POOLED = "pooled"
FORMATS = ("raw", "chat")
YEAR = r"^(-?\d+)"  # of a date as it is written, at any granularity
TIED = 1e-9  # nats: sums of scores that differ by less are a tie
_DATE = re.compile(r"^-?(\d{4}|[1-9]\d{4,})(-\d\d){0,2}$")  # as `Date` writes them

FACT_SCHEMA = {
    **dict.fromkeys([*FACT_KEYS, "granularity"], pl.String),
    **dict.fromkeys(["win_rate", "robustness"], pl.Float64),
    **dict.fromkeys(["matches", "ties", "near_ties"], pl.Int64),
    **dict.fromkeys(["win_rate_half_ties", "random_robustness"], pl.Float64),
}


SCORES = Schema(
    "the score table",
    {
        **dict.fromkeys(FACT_KEYS, ColumnSchema(filled=True)),
        "format": ColumnSchema(filled=True, rules=(one_of(FORMATS),)),
        "granularity": ColumnSchema(filled=True, rules=(one_of(GRANULARITIES),)),
        "time": ColumnSchema(),
        "status": ColumnSchema(filled=True, rules=(one_of(STATUSES),)),
        "alpha": ColumnSchema(pl.Float64),
        "logp": ColumnSchema(pl.Float64, filled=True, rules=(FINITE,)),
    },
)
SCORE_COLUMNS = tuple(SCORES.columns)


def check_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """A score table with its columns in their types, whatever file it came from (CSV has only text).

    Raises `DataError` naming the row for a column that is missing, a key that is empty, a status or granularity
    that is unknown, a score that is not a finite number, a dated row without time or alpha, the model name that is kept
    for all models together, and a row that is there twice. Dates are spelt in one way (``01985`` becomes ``1985``), the
    statement without a date has no time; a time that is no date is left as it is, for W and R do not need it.
    """
    # An undated row has no position: whatever a file wrote there is none
    table = SCORES.read(scores.with_columns(pl.col("^alpha$").cast(pl.Float64, strict=False)), others=True)
    if not table.height:
        raise DataError("the score table has no rows")
    name, dated = SCORES.name, table["status"] != "none"
    reserved = table["model"] == POOLED
    refuse_rows(scores, "model", reserved, "is the name of all models together; choose another label", name)
    table = table.with_columns(_times(table, dated))
    undated = dated & table["time"].is_null()
    refuse_rows(scores, "time", undated, "is empty; only a row of status none has no date", name)
    placeless = dated & ~table["alpha"].is_finite().fill_null(False)
    refuse_rows(scores, "alpha", placeless, "is not a finite number; every dated row needs one", name)
    refuse_duplicates(table, [*FACT_KEYS, "granularity", "time"], name)
    return table


def _times(table: pl.DataFrame, dated: pl.Series) -> pl.Series:
    """Times as `Date` spells them: none for what is empty or stands in a row without a date."""
    times = table["time"].str.strip_chars()
    times = times.set(~dated | (times == "").fill_null(False), None)
    unusual = times.filter(~times.str.contains(_DATE.pattern).fill_null(True)).unique()
    spelt = {time: _spelt(time) for time in unusual}
    return times.replace(list(spelt), list(spelt.values())) if spelt else times


def _spelt(time: str) -> str:
    try:
        return str(Date.parse(time))
    except DataError:  # W and R do not need it; the analyses that do say so
        return time


def fact_metrics(scores: pl.DataFrame, *, noise: float | None = None) -> pl.DataFrame:
    """W and R of every fact, at each granularity and ``global``, from a score table.

    noise: largest difference of two scores that means nothing (nats), for ``near_ties``. By default each run's own,
        from a column ``noise`` as `anachron.probe.runs.read_runs` adds it; ``near_ties`` is null without one.

    Returns one row per model, format, prefix, fact and granularity: ``win_rate`` (0 to 1), ``robustness`` (0 or 1),
    ``matches``, ``ties`` (lost by the strict rule), ``near_ties``, ``win_rate_half_ties``, ``random_robustness`` and
    ``subject`` (`with_subjects`). Facts without a correct or without an incorrect context at a granularity have no row
    there, and no ``global`` row: see `without_matches`. Raises `DataError` for a table that is no score table. Source:
    TimeStress, section 3.1.
    """
    checked = with_noise(check_scores(scores), noise)
    return with_subjects(metrics_of_checked(checked), checked)


def with_subjects(table: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """A table of facts with ``subject``, by which intervals and tests are clustered: facts of one depend on each other.

    It is the id in a column ``subject_id`` of ``about``, where it is known, else the label in ``subject_label``;
    ``about`` has ``fact_id`` too. A fact of which neither is known is a subject of its own, named by its id.
    """
    known = [pl.col(name).cast(pl.String) for name in ("subject_id", "subject_label") if name in about.columns]
    if not known:
        return table.with_columns(pl.col("fact_id").alias("subject"))
    subject = pl.coalesce(*known, "fact_id").alias("subject")
    named = about.select("fact_id", subject).unique("fact_id", maintain_order=True)
    joined = table.join(named, on="fact_id", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("subject", "fact_id"))


def metrics_of_checked(scores: pl.DataFrame) -> pl.DataFrame:
    """`fact_metrics` of a table that `check_scores` and `with_noise` made."""
    sides = (
        scores.lazy()
        .filter(pl.col("status").is_in(["correct", "incorrect"]))
        .group_by([*FACT_KEYS, "noise", "granularity"], maintain_order=True)
        .agg(
            pl.col("logp").filter(pl.col("status") == "correct").alias("correct"),
            pl.col("logp").filter(pl.col("status") == "incorrect").alias("incorrect"),
        )
        .filter((pl.col("correct").list.len() > 0) & (pl.col("incorrect").list.len() > 0))
        .collect()
    )
    if not sides.height:
        return pl.DataFrame(schema=FACT_SCHEMA)
    each = sides.drop("correct", "incorrect").with_columns(**_count_matches(sides)).with_columns(
        (pl.col("won") / pl.col("matches")).alias("win_rate"),
        (pl.col("won") == pl.col("matches")).cast(pl.Float64).alias("robustness"),
        (pl.col("ties") / pl.col("matches")).alias("tie_share"),
        pl.when(pl.col("noise").is_not_null()).then("near_ties").alias("near_ties"),
    )  # fmt: skip
    together = (
        each.group_by([*FACT_KEYS, "noise"], maintain_order=True)
        .agg(
            pl.len().alias("granularities"),
            pl.col("win_rate", "tie_share").mean(),
            pl.col("robustness").min(),
            pl.col("matches", "ties").sum(),
            pl.when(pl.col("near_ties").is_not_null().all()).then(pl.col("near_ties").sum()),
            pl.col("random_robustness").product(),
        )
        .with_row_index("fact")
    )
    rank = {name: i for i, name in enumerate((*GRANULARITIES, GLOBAL))}
    places = together.select(*FACT_KEYS, "noise", "fact")
    whole = together.filter(pl.col("granularities") == len(GRANULARITIES)).with_columns(
        pl.lit(GLOBAL).alias("granularity")
    )
    columns = [*FACT_KEYS, "granularity", "fact", "win_rate", "robustness", "matches", "ties", "near_ties", "tie_share"]
    columns.append("random_robustness")
    rows = each.join(places, on=[*FACT_KEYS, "noise"], nulls_equal=True, maintain_order="left")
    return (
        pl.concat([table.select(columns) for table in (rows, whole)])
        .with_columns((pl.col("win_rate") + pl.col("tie_share") / 2).alias("win_rate_half_ties"))
        .sort("fact", pl.col("granularity").replace_strict(rank, return_dtype=pl.Int8))
        .select(pl.col(name).cast(kind) for name, kind in FACT_SCHEMA.items())
    )


def _count_matches(sides: pl.DataFrame) -> dict[str, pl.Series]:
    """Per row of lists ``correct`` and ``incorrect``: matches, those won, ties, near-ties, and the chance of R = 1.

    A near-tie differs, but by no more than the row's ``noise``. All rows are counted at once: every value is replaced
    by its rank among all, so that (row, rank) is one whole number, and one search finds how many lie below.
    """
    counts = {name: sides[name].list.len().to_numpy().astype(np.int64) for name in ("correct", "incorrect")}
    group = {name: np.repeat(np.arange(sides.height), sizes) for name, sizes in counts.items()}
    correct, incorrect = (sides[name].explode(empty_as_null=False).to_numpy() for name in ("correct", "incorrect"))
    noise = sides["noise"].fill_null(0.0).to_numpy()[group["correct"]]
    distinct, ranks = np.unique(
        np.concatenate([incorrect, correct, correct + noise, correct - noise]), return_inverse=True
    )
    rivals, of_correct, above, below = np.split(ranks, np.cumsum([incorrect.size, correct.size, correct.size]))
    rivals = np.sort(group["incorrect"] * distinct.size + rivals)

    def up_to(rank: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
        return np.searchsorted(rivals, group["correct"] * distinct.size + rank, side)

    before = np.searchsorted(rivals, group["correct"] * distinct.size, "left")
    counted = {
        "won": up_to(of_correct, "left") - before,
        "ties": up_to(of_correct, "right") - up_to(of_correct, "left"),
        "within": up_to(above, "right") - up_to(below, "left"),
    }
    totals = {
        name: np.bincount(group["correct"], values, sides.height).astype(np.int64) for name, values in counted.items()
    }
    return {
        "won": pl.Series(totals["won"]),
        "ties": pl.Series(totals["ties"]),
        "near_ties": pl.Series(totals["within"] - totals["ties"]),
        "matches": pl.Series(counts["correct"] * counts["incorrect"]),
        "random_robustness": pl.Series(random_robustness(counts["correct"], counts["incorrect"])),
    }


def share_won(gaps: np.ndarray, tied: float = 0.0, axis: int | tuple[int, ...] | None = None) -> Any:
    """The share of gaps above 0, one that is no larger than ``tied`` counting half; over all, or over some axes."""
    return ((gaps > tied) + (np.abs(gaps) <= tied) / 2).mean(axis=axis)


def with_noise(scores: pl.DataFrame, noise: float | None) -> pl.DataFrame:
    """The table with a column ``noise``: the one given for all rows, else its own, else null."""
    if noise is None and "noise" in scores.columns:
        noises = scores["noise"].cast(pl.Float64, strict=False)
        usable = noises.is_finite() & (noises >= 0)
        refuse_rows(scores, "noise", scores["noise"].is_not_null() & ~usable.fill_null(False), "is no number from 0 on")
        table = scores.with_columns(noises)
        counts = table.group_by(RUN_KEYS, maintain_order=True).agg(pl.col("noise").n_unique())
        several = counts.filter(pl.col("noise") > 1)
        if several.height:
            model, form, prefix, count = several.row(0)
            raise DataError(f"{model}, {form}, prefix {prefix} has {count} values of noise; a run has one")
        return table
    return scores.with_columns(pl.lit(noise, pl.Float64).alias("noise"))


def with_weakest(run: pl.DataFrame) -> pl.DataFrame:
    """A run's scores with ``weakest``: the lowest score of a correct context of the same fact and granularity.

    Null where there is no correct context. An incorrect one loses no match where its score is below.
    """
    group = ["fact_id", "granularity"]
    weakest = run.filter(pl.col("status") == "correct").group_by(group).agg(pl.col("logp").min().alias("weakest"))
    return run.join(weakest, on=group, how="left", maintain_order="left")


def run_keys(table: pl.DataFrame) -> list[RunKey]:
    """The runs of a table, as they appear."""
    return [(model, form, prefix) for model, form, prefix in table.select(RUN_KEYS).unique(maintain_order=True).rows()]


def is_run(key: Sequence[object]) -> pl.Expr:
    """Whether a row is of the run with these values of `RUN_KEYS`."""
    return pl.all_horizontal(pl.col(name) == value for name, value in zip(RUN_KEYS, key, strict=True))


def as_pooled(table: pl.DataFrame) -> pl.DataFrame:
    """The same rows under the one name of all models together."""
    return table.with_columns(pl.lit(POOLED).alias("model"))


def pooled_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The rows over all models that were pooled."""
    return table.filter(pl.col("model") == POOLED)


def without_matches(scores: pl.DataFrame) -> pl.DataFrame:
    """How many facts of each run and granularity have no W and R, for want of correct or incorrect contexts.

    A fact that has no row at all at a granularity which its run has otherwise counts as having no correct context.
    """
    runs = scores.select(*RUN_KEYS, "granularity").unique(maintain_order=True)
    expected = (
        scores.select(FACT_KEYS)
        .unique(maintain_order=True)
        .join(runs, on=RUN_KEYS, nulls_equal=True, maintain_order="left_right")
    )
    sides = scores.group_by([*FACT_KEYS, "granularity"]).agg(
        (pl.col("status") == "correct").any().alias("correct"),
        (pl.col("status") == "incorrect").any().alias("incorrect"),
    )
    return (
        expected.join(sides, on=[*FACT_KEYS, "granularity"], how="left", maintain_order="left")
        .with_columns(pl.col("correct", "incorrect").fill_null(False))
        .group_by([*RUN_KEYS, "granularity"], maintain_order=True)
        .agg(
            (~pl.col("correct")).sum().cast(pl.Int64).alias("no_correct"),
            (pl.col("correct") & ~pl.col("incorrect")).sum().cast(pl.Int64).alias("no_incorrect"),
        )
    )


def summarise(facts: pl.DataFrame) -> pl.DataFrame:
    """Mean W and R over facts with 95 % intervals, per run and granularity, from `fact_metrics`.

    The intervals are those of `anachron.analysis.statistics.korn_graubard`, of the effective number of subjects, which
    cover what they say with few facts and where all are won or lost. Without a column ``subject`` those of
    ``subject_label`` count, and without that each fact is one. Besides the contract's columns: ``ties`` and
    ``near_ties`` as shares of all matches, ``win_rate_half_ties``, and what a random scorer would reach:
    ``random_win_rate`` (0.5) and ``random_robustness``. Source: TimeStress, figure 2, whose intervals resample facts.
    """
    if "subject" not in facts.columns:
        facts = with_subjects(facts, facts)
    rows = []
    for key, group in facts.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        row: dict[str, Any] = dict(zip([*RUN_KEYS, "granularity"], key, strict=True)) | {"facts": group.height}
        for name in ("win_rate", "robustness"):
            ends = korn_graubard(group[name].to_numpy(), group["subject"].to_numpy())
            row |= {name: group[name].mean()} | interval_cells(name, ends)
        matches = int(group["matches"].sum())
        row["ties"] = int(group["ties"].sum()) / matches
        row["near_ties"] = None if group["near_ties"].null_count() else int(group["near_ties"].sum()) / matches
        row |= {"win_rate_half_ties": group["win_rate_half_ties"].mean(), "random_win_rate": 0.5}
        rows.append(row | {"random_robustness": group["random_robustness"].mean()})
    if not rows:
        raise DataError("no fact has both a correct and an incorrect context, so there is nothing to measure")
    return pl.DataFrame(rows, infer_schema_length=None)
