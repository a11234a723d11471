"""When a check fails a build: too low a win rate, too many stale facts, or a loss against an earlier run."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from anachron.checks.present import STALE
from anachron.errors import ConfigError
from anachron.statistics import sign_flips


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The demands on a model; none by default.

    min_win_rate: minimum mean of W over the facts, 0 to 1.
    max_stale: maximum number of stale facts.
    confidence: a loss against the baseline fails only if chance alone would produce one as large with a probability
        below 1 - confidence.

    Raises `ConfigError` for numbers out of range.
    """

    min_win_rate: float | None = None
    max_stale: int | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.min_win_rate is not None and not 0 <= self.min_win_rate <= 1:
            raise ConfigError(f"min_win_rate {self.min_win_rate}: W lies between 0 and 1")
        if self.max_stale is not None and self.max_stale < 0:
            raise ConfigError(f"max_stale {self.max_stale}: give a number of facts, from 0")
        if not 0.5 <= self.confidence < 1:
            raise ConfigError(f"confidence {self.confidence}: give a number from 0.5 to below 1, such as 0.95")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One demand, whether it is met, and the numbers in words."""

    demand: str
    passed: bool
    words: str


@dataclass(frozen=True, slots=True)
class Loss:
    """W of a baseline minus W now, over the facts that both have; p: of a loss so large by chance, one-sided."""

    facts: int
    loss: float
    p: float


def loss_against(baseline: pl.DataFrame, verdicts: pl.DataFrame, *, seed: int = 0) -> Loss:
    """How much lower W is than that of a baseline, paired by fact.

    baseline, verdicts: tables with ``fact_id`` and ``win_rate``; facts without W on either side are left out. p is
    half of the two-sided one of `anachron.statistics.sign_flips`, whose distribution is symmetric, where W has fallen,
    and 1 where it has not. Raises `ConfigError` where they have no fact in common.
    """
    pairs = baseline.select("fact_id", before="win_rate").join(
        verdicts.select("fact_id", after="win_rate"), on="fact_id"
    ).drop_nulls().sort("fact_id")  # fmt: skip
    if not pairs.height:
        raise ConfigError("the baseline has no fact in common with these; check the same file, with the same dates")
    before, after = (pairs[name].to_numpy() for name in ("before", "after"))
    loss = float(np.mean(before - after))
    return Loss(pairs.height, loss, sign_flips(before, after, seed=seed) / 2 if loss > 0 else 1.0)


def outcomes(gate: Gate, verdicts: pl.DataFrame, present: pl.DataFrame, loss: Loss | None = None) -> list[Outcome]:
    """What is demanded, and whether it is met; empty where nothing is demanded.

    verdicts: of `anachron.checks.verdicts.fact_verdicts`. present: of `anachron.checks.present.present_answers`. loss:
    against the baseline, where there is one. Raises `ConfigError` for a demand on W where no fact has one.
    """
    found: list[Outcome] = []
    if gate.min_win_rate is not None:
        mean = verdicts["win_rate"].mean()
        if not isinstance(mean, float):
            raise ConfigError(
                "--min-win-rate: no fact was asked with dates, so there is no win rate to hold it against"
            )
        words = f"mean W {100 * mean:.1f} % over {verdicts['win_rate'].count()} facts"
        found.append(Outcome(f"win rate at least {100 * gate.min_win_rate:g} %", mean >= gate.min_win_rate, words))
    if gate.max_stale is not None:
        stale = present.filter(pl.col("status") == STALE).height
        words = f"{stale} of {present.height} facts that hold are stale"
        found.append(Outcome(f"at most {gate.max_stale} stale", stale <= gate.max_stale, words))
    if loss is not None:
        failed = loss.loss > 0 and loss.p < 1 - gate.confidence
        change = "lower" if loss.loss > 0 else "higher"
        points = f"{100 * abs(loss.loss):.1f} points {change} than the baseline's"
        words = f"W is {points} over {loss.facts} facts (p {loss.p:.3f})"
        found.append(
            Outcome(f"no loss against the baseline beyond chance ({100 * gate.confidence:g} %)", not failed, words)
        )
    return found
