"""What several analyses need of a study."""

import polars as pl

from anachron.probe.analyses.analysis import Need
from anachron.probe.study import Study


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
    return None if broken is None else f"the time {broken!r} of a year context is no year (write YYYY)"


ALL_GRANULARITIES = Need("facts with matches at year, month and day", _all_granularities)
YEARS = Need("facts with matches at year granularity", _years)
YEAR_CONTEXTS = Need("dates that are years", _year_contexts)
