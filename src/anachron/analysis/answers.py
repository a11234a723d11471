"""What runs found that asked a model for answers and scored nothing, as tables that stand beside those of scores."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError
from anachron.io.files import Json

RUN_KEY = ("model", "asked_by")
OPEN = ("right", "other period", "somebody else")  # what an open question can be answered with, where a name is read

RUNS_SCHEMA: dict[str, Any] = {
    "model": pl.String, "asked_by": pl.String, "facts": pl.Int64, "facts_with_choices": pl.Int64,
    "win_rate": pl.Float64, "win_rate_low": pl.Float64, "win_rate_high": pl.Float64,
    "win_rate_lost": pl.Float64, "win_rate_won": pl.Float64, "win_rate_told": pl.Boolean, "won_all": pl.Float64,
    "won_all_low": pl.Float64, "won_all_high": pl.Float64, "matches_a_fact": pl.Float64, "position_bias": pl.Float64,
    "position_bias_low": pl.Float64, "position_bias_high": pl.Float64, "decoys": pl.Int64, "decoys_read": pl.Float64,
    "decoy_win_rate": pl.Float64, "difference": pl.Float64, "difference_low": pl.Float64,
    "difference_high": pl.Float64, "later": pl.Float64, "open_named": pl.Int64,
    "open_right": pl.Float64, "periods_read": pl.Int64, "overlap": pl.Float64, "start_error_years": pl.Float64,
    "end_error_years": pl.Float64, "calls": pl.Int64, "budget_ended": pl.Boolean,
}  # fmt: skip
LABELS = {"subject": "subject_label", "relation": "relation_label", "object": "object_label"}


@dataclass(frozen=True)
class Answers:
    """runs: one row a run (`RUNS_SCHEMA`). facts: one row a run and fact, ``model, asked_by`` and then what the run's
    ``facts.csv`` says (`anachron.probe.ask.tables.FACT_SCHEMA`), labels under the names that score tables have for
    them."""

    runs: pl.DataFrame
    facts: pl.DataFrame


def answers_of(runs: Iterable[tuple[str, str, Json, pl.DataFrame]]) -> Answers:
    """Runs put together: of each its label, the backend that asked, its summary, and its facts.

    Raises `ConfigError` for two runs that cannot be told apart.
    """
    rows: list[Json] = []
    tables: list[pl.DataFrame] = []
    for model, asked_by, summary, facts in runs:
        key = dict(zip(RUN_KEY, (model, asked_by), strict=True))
        if any(all(row[name] == value for name, value in key.items()) for row in rows):
            raise ConfigError(
                f"two runs are both called {model!r}, asked by {asked_by}; give one another name: "
                "anachron runs rename RUN NAME"
            )
        named = {"open_named": sum(summary["open"][name] for name in OPEN)}
        rows.append({name: (summary | key | named).get(name) for name in RUNS_SCHEMA})
        renamed = facts.rename(LABELS).select(*(pl.lit(value).alias(name) for name, value in key.items()), pl.all())
        tables.append(renamed)
    return Answers(pl.DataFrame(rows, schema=RUNS_SCHEMA), pl.concat(tables))
