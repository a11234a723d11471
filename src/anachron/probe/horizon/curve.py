"""The curve: which share of the changes of a month a model has learned, as a share of those long before.

A curve has a halving date h, the lag L from there to the end T = h + L, and a shape k. Of the changes at the time t

    D(t) = 1 - 2 ** -((T - t) / L) ** k    before T,    D(t) = 0    from T on,

are learned. D is 1/2 at h whatever L and k are. With k = 1 it is what a model learns that needs to have read of a
change once, where texts about it come at a constant rate from then on; with a larger k it needs more of them;
L = 0 is a model that learned all changes before h and none after. All times are in months.
"""

from dataclasses import dataclass

import numpy as np

LAGS = (0.0, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0)  # months
SHAPES = (0.7, 1.5, 3.5)
GONE = 0.05  # the share that counts as the end: of a curve that nears 0 slowly the very end cannot be seen


@dataclass(frozen=True)
class Curves:
    """All curves that are weighed against each other: shape (curves,), times in months.

    halving, lag, shape: of each. end: when it has fallen to `GONE`.
    """

    halving: np.ndarray
    lag: np.ndarray
    shape: np.ndarray

    @property
    def end(self) -> np.ndarray:
        left = -np.log2(1 - GONE)
        return self.halving + self.lag * (1 - left ** (1 / self.shape))

    def learned(self, times: np.ndarray) -> np.ndarray:
        """D of each curve at each time, shape (curves, times), 0 to 1."""
        before = (self.halving + self.lag)[:, None] - times[None, :]
        lag = np.where(self.lag > 0, self.lag, 1.0)[:, None]
        with np.errstate(over="ignore"):
            smooth = 1 - np.exp2(-((np.maximum(before, 0.0) / lag) ** self.shape[:, None]))
        return np.where(self.lag[:, None] > 0, smooth, (before > 0).astype(float))


def curves_at(months: np.ndarray) -> Curves:
    """Curves with each of some months as halving date, with every lag, and every shape where there is a lag."""
    kinds = [(lag, shape) for lag in LAGS for shape in (SHAPES if lag else SHAPES[:1])]
    lag, shape = (np.array(values, float) for values in zip(*kinds, strict=True))
    return Curves(np.repeat(months.astype(float), len(kinds)), np.tile(lag, len(months)), np.tile(shape, len(months)))


def around(curves: Curves, reach: int, first: int, last: int) -> Curves:
    """These curves, and those whose halving date lies up to ``reach`` months on either side, from first to last."""
    moved = curves.halving[:, None] + np.arange(-reach, reach + 1)
    rows = [np.broadcast_to(values[:, None], moved.shape).ravel() for values in (curves.lag, curves.shape)]
    found = np.unique(np.column_stack([moved.ravel(), *rows]), axis=0)
    found = found[(found[:, 0] >= first) & (found[:, 0] <= last)]
    return Curves(found[:, 0], found[:, 1], found[:, 2])
