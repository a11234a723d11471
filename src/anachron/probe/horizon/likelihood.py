"""How likely answers are under curves: changes as counts, and the best guess and plateau for each curve.

Of a change at t a model prefers the new value with the chance

    P = K + (1 - K) c,    K = q D(t),    logit q = x . alpha,    logit c = z . gamma.

K is the chance that it knows the change: q is the plateau, what it knows of changes long past (1 - q is the lapse), and
c is the floor, the chance that it prefers the new value without knowing. x holds a 1 and what lets a change be known
better (popularity), z a 1 and what lets it be guessed (predictable). The coefficients have normal priors
(`PLATEAU`, `FLOOR`, `SLOPE`: mean and standard deviation on the logit scale), which keep them finite.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

PLATEAU, FLOOR, SLOPE = (1.0, 1.5), (-2.0, 1.25), (0.0, 1.0)
ROUNDS, STEP, ENOUGH = 40, 1.5, 5e-3
HOPELESS, FIRST = 15.0, 2  # nats below the best curve, after so many rounds: not worked out any further


@dataclass(frozen=True)
class Counts:
    """Changes with the same month and covariates, together. Shape (cells,), of x and z (cells, columns).

    month: middle of the month, in months since the year 0. trials, wins: changes, and those whose new value is
    preferred; a tie is half a win. x, z: what the plateau and the floor depend on; their first columns are 1.
    """

    month: np.ndarray
    trials: np.ndarray
    wins: np.ndarray
    x: np.ndarray
    z: np.ndarray

    def divided(self, by: float) -> "Counts":
        """As if there were fewer changes, by this factor: what dependent answers are worth."""
        return replace(self, trials=self.trials / by, wins=self.wins / by)

    def by_month(self) -> "Counts":
        """Without covariates."""
        months, place = np.unique(self.month, return_inverse=True)
        ones = np.ones((len(months), 1))
        trials, wins = (np.bincount(place.ravel(), weights=values) for values in (self.trials, self.wins))
        return Counts(months, trials, wins, ones, ones)


def counted(month: np.ndarray, wins: np.ndarray, x: np.ndarray, z: np.ndarray) -> Counts:
    """Counts of changes one by one: month (whole months), wins (0, 0.5 or 1), x and z with one row a change."""
    keys = np.column_stack([month + 0.5, x, z])
    cells, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.ravel()
    split = 1 + x.shape[1]
    return Counts(
        cells[:, 0], np.bincount(place).astype(float), np.bincount(place, weights=wins), cells[:, 1:split],
        cells[:, split:],
    )  # fmt: skip


@dataclass(frozen=True)
class Fits:
    """The best coefficients of each curve: z's, then x's, shape (curves, coefficients).

    covariance: of their normal approximation, (curves, coefficients, coefficients). log_likelihood: at the best, in
    nats; evidence: log of the likelihood times prior over all coefficients (Laplace's approximation).
    """

    coefficients: np.ndarray
    covariance: np.ndarray
    log_likelihood: np.ndarray
    evidence: np.ndarray


def chances(
    learned: np.ndarray, coefficients: np.ndarray, x: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, c and q of each cell for each curve, shape (curves, cells). coefficients: (curves, z's then x's)."""
    guess = expit(coefficients[:, : z.shape[1]] @ z.T)
    plateau = expit(coefficients[:, z.shape[1] :] @ x.T)
    known = plateau * learned
    chance = np.clip(known + (1 - known) * guess, 1e-9, 1 - 1e-9)
    return chance, guess, plateau


def prior(x_columns: int, z_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the coefficients, z's then x's."""
    pairs = [FLOOR, *[SLOPE] * (z_columns - 1), PLATEAU, *[SLOPE] * (x_columns - 1)]
    mean, deviation = np.array(pairs).T
    return mean, deviation**-2


def fit_curves(
    counts: Counts, learned: np.ndarray, *, about: tuple[np.ndarray, np.ndarray] | None = None,
    start: np.ndarray | None = None,
) -> Fits:  # fmt: skip
    """The coefficients that are likeliest for each curve, by Fisher scoring, all curves at once.

    learned: D of each curve in each cell. about: mean and precision of the coefficients, by default those of `prior`.
    start: coefficients to begin with, by default that mean.
    """
    mean, precision = about or prior(counts.x.shape[1], counts.z.shape[1])
    at = np.tile(mean if start is None else start, (len(learned), 1))
    best, best_value = at.copy(), np.full(len(learned), -np.inf)
    going = np.arange(len(learned))
    for number in range(ROUNDS):
        value, gradient, information = _derivatives(counts, learned[going], at[going], mean, precision)
        # only curves that are not done are worked out; a step that made one worse is taken back half-way
        better = value > best_value[going]
        gain = np.where(better, value - best_value[going], 0.0)
        best_value[going[better]] = value[better]
        best[going[better]] = at[going[better]]
        step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
        step = np.where(better[:, None], step, 0.0)
        at[going] = np.where(better[:, None], at[going] + np.clip(step, -STEP, STEP), (at[going] + best[going]) / 2)
        going = going[(gain > ENOUGH) | ~better]
        # a curve that is so far behind the best one has no weight in the end
        if number >= FIRST:
            going = going[best_value[going] > best_value.max() - HOPELESS]
        if not len(going):
            break
    # Laplace: the posterior as a normal density around its best point, with the information as its precision
    _, _, information = _derivatives(counts, learned, best, mean, precision)
    value, covariance = best_value, np.linalg.inv(information)
    _, logdet = np.linalg.slogdet(information)
    evidence = value - logdet / 2 + np.log(precision).sum() / 2
    # the value is a log posterior: what the prior took is given back to the likelihood
    shrinkage = ((best - mean) ** 2 * precision).sum(axis=1) / 2
    return Fits(best, covariance, value + shrinkage, evidence)


def _derivatives(
    counts: Counts, learned: np.ndarray, at: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log posterior, its gradient, and Fisher's information with the prior's precision, of each curve."""
    x, z = counts.x, counts.z
    chance, guess, plateau = chances(learned, at, x, z)
    wins, losses = counts.wins, counts.trials - counts.wins
    away = at - mean
    value = np.log(chance) @ wins + np.log1p(-chance) @ losses - (away**2 * precision).sum(axis=1) / 2
    # dP/d(logit c) and dP/d(logit q) in each cell, shape (curves, cells); D holds the curve's part of K = q D
    to_guess = (1 - plateau * learned) * guess * (1 - guess)
    to_plateau = (1 - guess) * learned * plateau * (1 - plateau)
    # derivative of the log likelihood by P, and Fisher's information of P
    pull = wins / chance - losses / (1 - chance)
    weight = counts.trials / (chance * (1 - chance))
    gradient = np.hstack([(pull * to_guess) @ z, (pull * to_plateau) @ x]) - away * precision
    sides = [(to_guess, z[:, i]) for i in range(z.shape[1])] + [(to_plateau, x[:, i]) for i in range(x.shape[1])]
    size = len(sides)
    information = np.empty((len(at), size, size))
    products = {0: weight * to_guess**2, 1: weight * to_guess * to_plateau, 2: weight * to_plateau**2}
    for i, (_, one) in enumerate(sides):
        for j in range(i, size):
            both = (i >= z.shape[1]) + (j >= z.shape[1])
            information[:, i, j] = information[:, j, i] = products[both] @ (one * sides[j][1])
    information += np.diag(precision)
    return value, gradient, information


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
