"""What the tables of an evaluation say: metrics, one row per method and update, and their summary, one per method.

Each function takes the tables of a run by name (`anachron.evaluate.stages.Evaluation`) and returns both. Values are as
in the functions that they name; they raise `DataError` for tables that break their rules.
"""

from collections.abc import Mapping

import polars as pl

from anachron.evaluate.lifelong_metrics import lifelong_metrics, lifelong_summary
from anachron.evaluate.measures.atoke_metrics import ATOKE_METRICS, atoke_metrics
from anachron.evaluate.measures.dated_metrics import DATED_METRICS, DATED_SHARES, dated_metrics
from anachron.evaluate.metrics import summarise, update_metrics

Tables = Mapping[str, pl.DataFrame]
Summarised = tuple[pl.DataFrame, pl.DataFrame]


def of_edits(tables: Tables) -> Summarised:
    """`update_metrics`, with what else was measured where the run has it, and `summarise`."""
    optional = (tables.get(name) for name in ("objects", "generations", "audit"))
    metrics = update_metrics(tables["targets"], tables["neighbours"], tables["updates"], *optional)
    return metrics, summarise(metrics)


def of_dates(tables: Tables) -> Summarised:
    """`dated_metrics` and their summary."""
    metrics = dated_metrics(tables["dated"], tables["updates"])
    return metrics, summarise(metrics, DATED_METRICS, DATED_SHARES)


def of_atoke(tables: Tables) -> Summarised:
    """`atoke_metrics` and their summary."""
    metrics = atoke_metrics(tables["atoke"], tables["updates"])
    return metrics, summarise(metrics, ATOKE_METRICS, ATOKE_METRICS)


def of_lifelong(tables: Tables) -> Summarised:
    """`lifelong_metrics` and `lifelong_summary`, one row per number of edits and method."""
    metrics = lifelong_metrics(tables)
    return metrics, lifelong_summary(metrics, tables["locality"], tables["stages"])


def summaries(tables: Tables) -> dict[str, pl.DataFrame]:
    """The summaries of a run: ``summary``, and ``dated`` and ``atoke`` where dates were asked about."""
    if "stages" in tables:
        return {"summary": of_lifelong(tables)[1]}
    found = {"summary": of_edits(tables)[1]}
    if "dated" in tables:
        found |= {"dated": of_dates(tables)[1], "atoke": of_atoke(tables)[1]}
    return found
