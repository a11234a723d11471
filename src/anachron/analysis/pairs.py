"""Which runs are set side by side, and the W and R of two of them fact by fact."""

from collections.abc import Sequence

import polars as pl

from anachron.analysis.metrics import RunKey, is_run


def paired(facts: pl.DataFrame, first: RunKey, second: RunKey) -> pl.DataFrame:
    """W and R of two runs side by side, on the facts and granularities that both have.

    Returns ``fact_id, granularity, win_rate, robustness, subject, win_rate_second, robustness_second``.
    """
    columns = ["fact_id", "granularity", "win_rate", "robustness"]
    one, two = (facts.filter(is_run(key)) for key in (first, second))
    return one.select(*columns, "subject").join(
        two.select(columns), on=["fact_id", "granularity"], suffix="_second", maintain_order="left"
    )


def format_pairs(keys: Sequence[RunKey]) -> list[tuple[RunKey, RunKey]]:
    """(raw, chat) of every model and prefix that has both. Source: TimeStress, figure 5; TimeStress v1, figure 5."""
    return [((m, "raw", p), (m, f, p)) for m, f, p in keys if f == "chat" and (m, "raw", p) in keys]


def prefix_pairs(keys: Sequence[RunKey]) -> list[tuple[RunKey, RunKey]]:
    """(without, with) of every model, format and prefix."""
    return [((m, f, "none"), (m, f, p)) for m, f, p in keys if p != "none" and (m, f, "none") in keys]


def baseline_pairs(keys: Sequence[RunKey], baseline: str | None) -> list[tuple[RunKey, RunKey]]:
    """(baseline, other model) in the same format and prefix; by default the first model of each is the baseline."""
    first: dict[tuple[str, str], str] = {}
    for m, f, p in keys:
        first.setdefault((f, p), m)
    pairs = [((baseline or first[f, p], f, p), (m, f, p)) for m, f, p in keys]
    return [(one, two) for one, two in pairs if one != two and one in keys]
