"""The curves that are weighed against each other: what share of the changes at a time a model has learned, D(t).

Three families. *One fall*: from all to nothing, at once or over a lag. *Two falls*: at the first a share is left, until
the second. *A gap*: nothing of some time is learned, all of a later time, and nothing after the end (a model that was
trained further on newer texts).
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

LAGS = (0.0, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0)  # months
SHAPES = (0.7, 1.5, 3.5)
LEFT = (0.2, 0.4, 0.6, 0.8)  # the share between two falls
GAPS = (6, 12, 18, 24, 36, 48)  # months
GONE = 0.05  # the share that counts as the end: of a curve that nears 0 slowly the very end cannot be seen
WIDE = 6  # months between the falls that are tried, of curves with a break
ONE_FALL, TWO_FALLS, GAP = range(3)
FAMILIES = (0.4, 0.4, 0.2)  # how likely each is before the answers are seen


@dataclass(frozen=True)
class Curves:
    """Curves by their numbers, each of shape (curves,), times in months.

    at: when the (last) fall is half done; lag and shape: of that fall. since, until, left: from when until when only a
    share of what is learned otherwise is left; since is infinite of a curve without a break.
    """

    at: np.ndarray
    lag: np.ndarray
    shape: np.ndarray
    since: np.ndarray
    until: np.ndarray
    left: np.ndarray

    @staticmethod
    def of(at: Any, lag: Any, shape: Any) -> "Curves":
        """Curves of one fall, by three sequences of numbers."""
        none = np.full(len(at), np.inf)
        at, lag, shape = (np.asarray(values, float) for values in (at, lag, shape))
        return Curves(at, lag, shape, none, none, np.ones(len(at)))

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, chosen: np.ndarray | list[int]) -> "Curves":
        return Curves(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def rows(self) -> np.ndarray:
        """Shape (curves, 6), in the order of the fields."""
        return np.column_stack([getattr(self, field.name) for field in fields(self)])

    @property
    def family(self) -> np.ndarray:
        return np.where(np.isinf(self.since), ONE_FALL, np.where(self.until >= self.at, TWO_FALLS, GAP))

    @property
    def halving(self) -> np.ndarray:
        """The last time at which half is learned."""
        return np.where((self.until >= self.at) & (self.left < 0.5), np.minimum(self.since, self.at), self.at)

    @property
    def end(self) -> np.ndarray:
        """From when on `GONE` or less is learned."""
        left = -np.log2(1 - GONE)
        return self.at + self.lag * (1 - left ** (1 / self.shape))

    def learned(self, times: np.ndarray) -> np.ndarray:
        """D of each curve at each time, shape (curves, times), 0 to 1."""
        before = (self.at + self.lag)[:, None] - times[None, :]
        lag = np.where(self.lag > 0, self.lag, 1.0)[:, None]
        with np.errstate(over="ignore"):
            smooth = 1 - np.exp2(-((np.maximum(before, 0.0) / lag) ** self.shape[:, None]))
        whole = np.where(self.lag[:, None] > 0, smooth, (before > 0).astype(float))
        inside = (times >= self.since[:, None]) & (times < self.until[:, None])
        return np.where(inside, self.left[:, None] * whole, whole)


def together(*parts: Curves) -> Curves:
    return Curves(*np.vstack([part.rows() for part in parts]).T)


def one_fall(months: np.ndarray) -> Curves:
    """Curves that fall once, around each of some months, with every lag, and every shape where there is a lag."""
    kinds = [(lag, shape) for lag in LAGS for shape in (SHAPES if lag else SHAPES[:1])]
    lag, shape = (np.array(values, float) for values in zip(*kinds, strict=True))
    return Curves.of(
        np.repeat(months.astype(float), len(kinds)), np.tile(lag, len(months)), np.tile(shape, len(months))
    )


def two_falls(months: np.ndarray) -> Curves:
    """Steps at every two of some months, with each share of `LEFT` between; not at the first, before which nothing is
    to be seen."""
    later = months[1:]
    return _steps([(end, first, end, left) for first in later for end in later if first < end for left in LEFT])


def with_gap(months: np.ndarray) -> Curves:
    """Steps at one of some months, with a gap of `GAPS` months that begins at an earlier one (not the first) and has
    ended by then."""
    later = months[1:]
    return _steps(
        [(end, first, first + gap, 0.0) for first in later for gap in GAPS for end in later if first + gap < end]
    )


def _steps(rows: list[tuple[float, float, float, float]]) -> Curves:
    at, since, until, left = np.array(rows, float).reshape(-1, 4).T
    return Curves(at, np.zeros(len(at)), np.full(len(at), SHAPES[0]), since, until, left)


def finer(curves: Curves, reach: int, first: int, last: int) -> Curves:
    """These curves with every fall moved by up to ``reach`` months to either side, each once; from first to last, and
    a fall before the end at least `WIDE` months after the first."""
    moves = np.arange(-reach, reach + 1.0)
    parts = []
    for family, other in ((ONE_FALL, np.zeros(1)), (TWO_FALLS, moves), (GAP, moves)):
        rows = curves[curves.family == family].rows()
        ends, starts = (moved.ravel() for moved in np.meshgrid(moves, other, indexing="ij"))
        moved = np.repeat(rows[:, None, :], len(ends), axis=1)
        moved[:, :, 0] += ends
        moved[:, :, 3] += starts
        moved[:, :, 4] += ends if family == TWO_FALLS else starts
        parts.append(moved.reshape(-1, rows.shape[1]))
    found = Curves(*np.unique(np.vstack(parts), axis=0).T)
    sound = (found.at >= first) & (found.at <= last)
    sound &= np.isinf(found.since) | ((found.since >= first + WIDE) & (found.since < found.at))
    return found[sound]
