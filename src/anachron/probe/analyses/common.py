"""Needs, computations and column descriptions that several analyses share."""

import polars as pl

from anachron.probe.analyses.analysis import Need
from anachron.probe.study import Study
from anachron.statistics import bootstrap_one_ratio


def _all_granularities(study: Study) -> str | None:
    return None if study.global_facts.height else "no fact has matches at year, month and day"


def _years(study: Study) -> str | None:
    count = study.facts.filter(pl.col("granularity") == "year").height
    return None if count else "no fact has matches at year granularity"


def _year_contexts(study: Study) -> str | None:
    dated = (pl.col("granularity") == "year") & (pl.col("status") != "none")
    if not any(run.select(dated.any()).item() for run in study.runs):
        return "no date is a year"
    broken = study.undatable.get("year")
    return None if broken is None else f"the time {broken!r} of a year context is not a year (write YYYY)"


def mean_interval(rows: pl.DataFrame, value: str, *, resamples: int, seed: int) -> tuple[float, float]:
    """Bootstrap interval of the mean over rows that resamples facts: all rows of a drawn fact are drawn with it."""
    by_fact = rows.group_by("fact_id", maintain_order=True).agg(pl.col(value).sum(), pl.len().alias("n"))
    return bootstrap_one_ratio(by_fact[value].to_numpy(), by_fact["n"].to_numpy(), resamples=resamples, seed=seed)


def in_words(table: pl.DataFrame, study: Study) -> pl.DataFrame:
    """A table of facts with what they are called and asked (`WORDS`) behind their id."""
    at = table.columns.index("fact_id") + 1
    joined = table.join(study.about.select("fact_id", *WORDS), on="fact_id", how="left", maintain_order="left")
    return joined.select(*table.columns[:at], *WORDS, *table.columns[at:])


ALL_GRANULARITIES = Need("facts with matches at year, month and day", _all_granularities)
YEARS = Need("facts with matches at year granularity", _years)
YEAR_CONTEXTS = Need("dates that are years", _year_contexts)

# What columns hold, as docs/tables.md says it
RUN = {
    "model": "label of the run: its name, plus dtype or revision if runs differ in them",
    "format": "`raw` or `chat`",
    "prefix": "`none`, a named prefix, or the name of a file",
}
POOLED_RUN = RUN | {"model": RUN["model"] + "; `pooled`: all models together"}
OF_FORMAT = {"format": RUN["format"], "prefix": RUN["prefix"]}
FACT = {"fact_id": "16 hexadecimal digits, the same in every data set"}
GRANULARITY = {"granularity": "`year`, `month` or `day`"}
LEVEL = {"granularity": "`year`, `month`, `day`, or `global`: all three"}
INTERVAL = {"low": "lower end of the 95 % interval, by resampling facts", "high": "its upper end"}
WORDS = {
    "subject_label": "as in the data set",
    "relation_label": "as in the data set",
    "object_label": "as in the data set",
    "question": "question without a date; empty if the run does not store it",
}
LABELS = {
    **WORDS,
    "start": "first date of the true period",
    "end": "last date of the true period",
}
MEANS = {
    "win_rate": "mean W over facts",
    "win_rate_low": "lower end of its 95 % interval",
    "win_rate_high": "its upper end",
    "robustness": "mean R over facts",
    "robustness_low": "lower end of its 95 % interval",
    "robustness_high": "its upper end",
}
# What tells rows apart in a paper's tables, with headings (`anachron.probe.analyses.analysis.InPaper`)
FORMAT_WORDS = {"format": "format", "prefix": "prefix"}
RUN_WORDS = {"model": "model", **FORMAT_WORDS}
LEVEL_WORD = {"granularity": "dates"}
