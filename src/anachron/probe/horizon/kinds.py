"""Horizons of kinds of changes, which lend each other strength: each has its own halving date, near a common one.

Halving dates of kinds are normal around the date of all changes together, with a spread that is not known beforehand;
guess and plateau of a kind are normal around those of all. A kind with few changes is thus told by the others, and one
with many by its own. Lag and shape of the curve, which falls once, are those of all together.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from anachron.probe.horizon.curves import Curves
from anachron.probe.horizon.fit import ChangePreferences, Horizon, quantiles
from anachron.probe.horizon.likelihood import counted, fit_curves

SPREADS = (1.0, 3.0, 6.0, 12.0, 24.0, 48.0)  # months
NEAR = 1.0  # standard deviation of a kind's coefficients around those of all, on the logit scale
KEPT, STEP = 4, 3  # curves that stand for all lags and shapes; months between halving dates


@dataclass(frozen=True)
class KindHorizon:
    """Of one kind: its changes, the share of new values preferred, and quantiles of its halving date in months."""

    kind: str
    changes: int
    share: float
    halving: float
    low: float
    high: float


def kind_horizons(kinds: np.ndarray, answers: ChangePreferences, found: Horizon) -> list[KindHorizon]:
    """One for each kind, in order of name. kinds: of each answer. found: the horizon of all of them."""
    month, wins = np.asarray(answers.month), np.asarray(answers.wins, float)
    dates = np.arange(int(month.min()), int(month.max()) + 2, STEP, dtype=float)
    lags, shapes, weights = _typical(found)
    grid = Curves.of(np.repeat(dates, len(lags)), np.tile(lags, len(dates)), np.tile(shapes, len(dates)))
    (x, z), whole = answers.columns(), found.fits.coefficients[np.argmax(found.weights)]
    of_z = found.counts.z.shape[1]  # without the effects of kinds and sources, which are at the end
    best = np.concatenate([whole[: z.shape[1]], whole[of_z : of_z + x.shape[1]]])
    about = (best, np.full(len(best), NEAR**-2))
    names = sorted(set(kinds.tolist()))
    evidence = np.empty((len(names), len(dates)))
    for place, name in enumerate(names):
        mine = kinds == name
        counts = counted(month[mine], wins[mine], x[mine], z[mine]).divided(found.design)
        fits = fit_curves(counts, grid.learned(counts.month), about=about)
        evidence[place] = logsumexp(fits.evidence.reshape(len(dates), -1), b=weights, axis=1)
    nearest = np.abs(found.curves.halving[:, None] - dates[None, :]).argmin(axis=1)
    posterior = pooled_weights(evidence, dates, np.bincount(nearest, weights=found.weights, minlength=len(dates)))
    return [
        KindHorizon(
            name, int((kinds == name).sum()), float(wins[kinds == name].mean()), *quantiles(dates, of, step=STEP)
        )
        for name, of in zip(names, posterior, strict=True)
    ]


def _typical(found: Horizon) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The few lags and shapes that have most weight, and their weights."""
    kinds, place = np.unique(np.column_stack([found.curves.lag, found.curves.shape]), axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), weights=found.weights)
    most = np.argsort(-weights, kind="stable")[:KEPT]
    return kinds[most, 0], kinds[most, 1], weights[most] / weights[most].sum()


def pooled_weights(evidence: np.ndarray, dates: np.ndarray, common: np.ndarray) -> np.ndarray:
    """Weights of the dates of each kind, shape (kinds, dates), over all common dates and spreads.

    evidence: of each kind's date, in nats, (kinds, dates). common: weights of the common date, (dates,). All kinds
    together tell how likely each spread is.
    """
    apart = dates[:, None] - dates[None, :]  # own, common
    normal = np.stack([-((apart / spread) ** 2) / 2 for spread in SPREADS])
    normal -= logsumexp(normal, axis=1, keepdims=True)
    of_kind = logsumexp(evidence[:, None, :, None] + normal[None], axis=2)  # kind, spread, common
    with np.errstate(divide="ignore"):
        before = np.log(common)
    spreads = logsumexp(of_kind.sum(axis=0) + before, axis=1)  # spread
    around = logsumexp(normal + before, axis=2)  # spread, own
    weights = logsumexp(spreads[None, :, None] + around[None], axis=1) + evidence
    return np.exp(weights - logsumexp(weights, axis=1, keepdims=True))
