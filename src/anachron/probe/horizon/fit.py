"""The horizon of one model: which curves its answers allow, as weights of a grid, and what these say.

Every curve of the grid is given the weight of its evidence (likelihood times prior, over guess and plateau). Halving
dates have equal prior weights, and so have lags and shapes. Answers about one subject depend on each other, so changes
count as fewer than they are, by the factor that the residuals of subjects tell (`design_effect`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from anachron.core.sameness import name_key
from anachron.probe.horizon.likelihood import Counts, Curves, Fits, around, chances, counted, curves_at, fit_curves

TOLD = 0.95  # least chance that knowledge ends among the changes, for a date to be told
DRAWS = 1000
COARSE, FAR = 3, 9.0  # months between the dates that are looked at first; nats below the best that rule one out
BAND = (0.025, 0.975)


@dataclass(frozen=True)
class ChangePreferences:
    """What a model prefers of each change. Shape (changes,), of the covariates (changes, columns).

    month: whole months since the year 0. wins: 1 where the new value is preferred, 0 where the old one, 0.5 for a tie.
    subject: whose answers may depend on each other. known_better: covariates of the plateau; guessable: of the floor;
    neither has a column of ones.
    """

    month: np.ndarray
    wins: np.ndarray
    subject: Sequence[str] | np.ndarray
    known_better: np.ndarray | None = None
    guessable: np.ndarray | None = None

    def counts(self) -> Counts:
        return counted(np.asarray(self.month), np.asarray(self.wins, float), *self.columns())

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The covariates x of the plateau and z of the floor, each behind a column of ones."""
        ones = np.ones((len(self.month), 1))
        given = (self.known_better, self.guessable)
        x, z = (ones if more is None else np.hstack([ones, more]) for more in given)
        return x, z


@dataclass(frozen=True)
class Horizon:
    """The curves with their weights, which sum to 1, and the fits that these come from.

    inside: chance that knowledge ends among the changes, against one that does not depend on the date (even before
    the answers are seen). design: how many changes count as one. counts: as they counted.
    """

    curves: Curves
    weights: np.ndarray
    fits: Fits
    counts: Counts
    inside: float
    design: float

    @property
    def told(self) -> bool:
        return self.inside >= TOLD

    def halving(self, shares: Sequence[float] = (0.5, *BAND)) -> list[float]:
        """Quantiles of the halving date, months since the year 0."""
        return quantiles(self.curves.halving, self.weights, shares)

    def end(self, shares: Sequence[float] = (0.5, *BAND)) -> list[float]:
        """Quantiles of the date at which a twentieth of the knowledge is left."""
        return quantiles(self.curves.end, self.weights, shares)

    def draws(self, seed: int = 0, size: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
        """Curves by number and their coefficients, as likely as the answers make them."""
        random = np.random.default_rng(seed)
        chosen = random.choice(len(self.weights), size, p=self.weights)
        roots = np.linalg.cholesky(self.fits.covariance[chosen])
        normal = random.standard_normal((size, roots.shape[1], 1))
        return chosen, self.fits.coefficients[chosen] + (roots @ normal)[:, :, 0]


def quantiles(
    values: np.ndarray, weights: np.ndarray, shares: Sequence[float] = (0.5, *BAND), *, step: float = 1.0
) -> list[float]:
    """Quantiles of weighted values, each of which is spread evenly over a step around it."""
    order = np.argsort(values, kind="stable")
    at, reached = values[order], np.cumsum(weights[order])
    distinct = np.flatnonzero(np.diff(at, append=np.inf) > 0)
    ends, total = at[distinct] + step / 2, reached[distinct]
    return [float(np.interp(share, np.append(0.0, total), np.append(ends[0] - step, ends))) for share in shares]


def fit_horizon(answers: ChangePreferences, *, dependent: bool = True) -> Horizon:
    """The horizon of a model by its answers. dependent: let answers of one subject count as fewer.

    Raises `ValueError` of no answers.
    """
    month = np.asarray(answers.month)
    if not len(month):
        raise ValueError("no change is left to fit a curve to")
    first, last = int(month.min()), int(month.max()) + 1
    counts, coarse = answers.counts(), curves_at(np.arange(first, last + 1, COARSE))
    plain = counts.by_month()
    evidence = fit_curves(plain, coarse.learned(plain.month)).evidence
    best = Curves(*(values[[np.argmax(evidence)]] for values in (coarse.halving, coarse.lag, coarse.shape)))
    fit = fit_curves(counts, best.learned(counts.month))
    design = design_effect(answers, best, fit.coefficients) if dependent else 1.0
    close = evidence / design > evidence.max() / design - FAR
    likely = Curves(coarse.halving[close], coarse.lag[close], coarse.shape[close])
    months = (last + 1 - first) * len(coarse.lag) / len(np.unique(coarse.halving))
    curves = around(likely, COARSE - 1, first, last)
    return _weighed(counts.divided(design), curves, months, design, fit.coefficients[0])


def _weighed(counts: Counts, curves: Curves, of: float, design: float, start: np.ndarray) -> Horizon:
    """The curves with their weights. of: how many curves the whole grid has."""
    fits = fit_curves(counts, curves.learned(counts.month), start=start)
    level = fit_curves(counts, np.array([np.zeros(len(counts.month)), np.ones(len(counts.month))]))
    total = logsumexp(fits.evidence)
    against = logsumexp(level.evidence) - np.log(len(level.evidence)) - total + np.log(of)
    weights = np.exp(fits.evidence - total)
    return Horizon(curves, weights / weights.sum(), fits, counts, float(expit(-against)), design)


def design_effect(answers: ChangePreferences, curve: Curves, coefficients: np.ndarray) -> float:
    """How many dependent answers count as one: the sum over subjects of squared sums of residuals, by that of squares.

    1 where the answers of a subject do not agree more than their dates make them. Residuals are those of one curve, by
    their standard deviations (Pearson's).
    """
    x, z = answers.columns()
    chance = chances(curve.learned(np.asarray(answers.month) + 0.5), coefficients, x, z)[0][0]
    residuals = (np.asarray(answers.wins, float) - chance) / np.sqrt(chance * (1 - chance))
    _, subject = np.unique([name_key(str(subject)) for subject in answers.subject], return_inverse=True)
    sums = np.bincount(subject.ravel(), weights=residuals)
    return max(1.0, float((sums**2).sum() / (residuals**2).sum()))
