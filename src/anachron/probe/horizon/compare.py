"""Two models on the changes that both were asked about and know the subjects of."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from anachron.analysis.statistics import sign_flips
from anachron.probe.horizon.fit import fit_horizon, quantiles
from anachron.probe.horizon.measure import change_preferences, usable

KEY = ["subject", "relation", "old", "new", "date"]


@dataclass(frozen=True)
class HorizonComparison:
    """A second model against a first. changes: that both were asked. only_first, only_second: new values that one alone
    prefers. p: two-sided, of such a difference by chance (signs flipped by subject). later, low, high: by how many
    months the second one's halving date is later, with its interval of 95 %; None where one has no date."""

    first: str
    second: str
    changes: int
    only_first: int
    only_second: int
    p: float
    later: float | None
    low: float | None
    high: float | None


def compare(first: str, one: pl.DataFrame, second: str, other: pl.DataFrame) -> HorizonComparison:
    """Tables of `anachron.probe.horizon.measure.preferences` of two models.

    The interval takes the two dates as independent, given the changes; answers that go together make it too wide, not
    too narrow.
    """
    both = usable(one).join(usable(other).select(*KEY, wins_other="wins"), on=KEY, maintain_order="left")
    gaps = both["wins_other"] - both["wins"]
    by_subject = both.with_columns(gap=gaps).group_by("subject", maintain_order=True).agg(pl.col("gap").sum())["gap"]
    p = sign_flips(np.zeros(len(by_subject)), by_subject.to_numpy()) if both.height else 1.0
    later: list[float | None] = [None] * 3
    if both.height:
        fits = [
            fit_horizon(change_preferences(both.with_columns(wins=pl.col(name)))) for name in ("wins", "wins_other")
        ]
        if all(fit.told for fit in fits):
            apart = fits[1].curves.halving[None, :] - fits[0].curves.halving[:, None]
            weights = fits[0].weights[:, None] * fits[1].weights[None, :]
            later = list(quantiles(apart.ravel(), weights.ravel()))
    return HorizonComparison(first, second, both.height, int((gaps < 0).sum()), int((gaps > 0).sum()), p, *later)
