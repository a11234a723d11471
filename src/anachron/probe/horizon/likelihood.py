"""How likely answers are under curves: changes as counts, and the best guess and plateau for each curve.

Of a change at t a model prefers the new value with the chance

    P = K + (1 - K) c,    K = q D(t),    logit q = x . alpha,    logit c = z . gamma.

K is the chance that it knows the change: q is the plateau, what it knows of changes long past (1 - q is the lapse), and
c is the floor, the chance that it prefers the new value without knowing. x holds a 1 and what lets a change be known
better (popularity), z a 1 and what lets it be guessed (predictable). Both also say of which kind a change is, and which
source tells of it, for changes of some are known and guessed more easily. The coefficients have normal priors
(`PLATEAU`, `FLOOR`, `SLOPE`: mean and standard deviation on the logit scale; the effects of kinds and of sources have
mean 0 and a deviation of their own), which keep them finite: a kind with few changes has an effect near 0.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit

PLATEAU, FLOOR, SLOPE = (1.0, 1.5), (-2.0, 1.25), (0.0, 1.0)
ROUNDS, STEP, ENOUGH = 40, 1.5, 5e-3
BLOCK = 2_000_000  # curves times cells that are worked out at a time
HOPELESS, FIRST = 15.0, 2  # nats below the best curve, after so many rounds: not worked out any further


@dataclass(frozen=True)
class Counts:
    """Changes with the same month and covariates, together. Shape (cells,), of x and z (cells, columns).

    month: middle of the month, in months since the year 0. trials, wins: changes, and those whose new value is
    preferred; a tie is half a win. x, z: what the plateau and the floor depend on; their first columns are 1; cells
    alike in both lie beside each other. of_x, of_z: prior deviations of the effects of their other columns. cell: in
    which each change lies, (changes,).
    """

    month: np.ndarray
    trials: np.ndarray
    wins: np.ndarray
    x: np.ndarray
    z: np.ndarray
    of_x: np.ndarray
    of_z: np.ndarray
    cell: np.ndarray

    def divided(self, by: float) -> "Counts":
        """As if there were fewer changes, by this factor: what dependent answers are worth."""
        return replace(self, trials=self.trials / by, wins=self.wins / by)

    def declining(self) -> "Counts":
        """With the date, from -1 to 1, as one more column of the floor: what changes steadily without any end."""
        middle, half = (self.month.max() + self.month.min()) / 2, max(1.0, np.ptp(self.month) / 2)
        z = np.column_stack([self.z, (self.month - middle) / half])
        return replace(self, z=z, of_z=np.append(self.of_z, SLOPE[1]))

    @cached_property
    def alike(self) -> np.ndarray:
        """Where cells begin that differ in x or z from the one before."""
        rows = np.hstack([self.x, self.z])
        return np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1)))


def counted(
    month: np.ndarray, wins: np.ndarray, x: np.ndarray, z: np.ndarray, of_x: np.ndarray | None = None,
    of_z: np.ndarray | None = None,
) -> Counts:  # fmt: skip
    """Counts of changes one by one: month (whole months), wins (0 to 1), x and z with one row a change. of_x, of_z: as
    of `Counts`, by default that of `SLOPE`."""
    cells, place = np.unique(np.column_stack([x, z, month + 0.5]), axis=0, return_inverse=True)
    place = place.ravel()
    x, z, middle = np.split(cells, [x.shape[1], x.shape[1] + z.shape[1]], axis=1)
    of_x, of_z = (
        np.full(side.shape[1] - 1, SLOPE[1]) if given is None else given for side, given in ((x, of_x), (z, of_z))
    )
    trials, won = np.bincount(place).astype(float), np.bincount(place, weights=wins)
    return Counts(middle[:, 0], trials, won, x, z, of_x, of_z, place)


@dataclass(frozen=True)
class Fits:
    """The best coefficients of each curve: z's, then x's, shape (curves, coefficients).

    information: precision of their normal approximation, (curves, coefficients, coefficients). posterior: log of the
    likelihood times prior, at the best; evidence: the same over all coefficients (Laplace's approximation), in nats;
    minus infinity of curves that were given up.
    """

    coefficients: np.ndarray
    information: np.ndarray
    evidence: np.ndarray
    posterior: np.ndarray


def chances(
    learned: np.ndarray, coefficients: np.ndarray, x: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, c and q of each cell for each curve, shape (curves, cells). coefficients: (curves, z's then x's)."""
    guess = expit(coefficients[:, : z.shape[1]] @ z.T)
    plateau = expit(coefficients[:, z.shape[1] :] @ x.T)
    known = plateau * learned
    chance = np.clip(known + (1 - known) * guess, 1e-9, 1 - 1e-9)
    return chance, guess, plateau


def prior(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the coefficients, z's then x's."""
    pairs = [FLOOR, *((SLOPE[0], one) for one in counts.of_z), PLATEAU, *((SLOPE[0], one) for one in counts.of_x)]
    mean, deviation = np.array(pairs).T
    return mean, deviation**-2


def fit_curves(
    counts: Counts, learned: np.ndarray, *, about: tuple[np.ndarray, np.ndarray] | None = None,
    start: np.ndarray | None = None,
) -> Fits:  # fmt: skip
    """The coefficients that are likeliest for each curve, by Fisher scoring, many curves at once.

    learned: D of each curve in each cell. about: mean and precision of the coefficients, by default those of `prior`.
    start: coefficients to begin with, by default that mean.
    """
    mean, precision = about or prior(counts)
    start = mean if start is None else start
    size = max(1, BLOCK // len(counts.month))
    found: list[Fits] = []
    likeliest = -np.inf
    for place in range(0, len(learned), size):
        found.append(_fit_block(counts, learned[place : place + size], mean, precision, start, likeliest))
        likeliest = max(likeliest, float(found[-1].posterior.max()))
    names = ("coefficients", "information", "evidence", "posterior")
    return Fits(*(np.concatenate([getattr(part, name) for part in found]) for name in names))


def _fit_block(
    counts: Counts, learned: np.ndarray, mean: np.ndarray, precision: np.ndarray, start: np.ndarray, likeliest: float
) -> Fits:
    at = np.tile(start, (len(learned), 1))
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
            going = going[best_value[going] > max(likeliest, best_value.max()) - HOPELESS]
        if not len(going):
            break
    # Laplace: the posterior as a normal density around its best point, with the information as its precision
    evidence, information = np.full(len(learned), -np.inf), np.tile(np.diag(precision), (len(learned), 1, 1))
    kept = best_value > max(likeliest, best_value.max()) - HOPELESS
    _, _, information[kept] = _derivatives(counts, learned[kept], best[kept], mean, precision)
    evidence[kept] = best_value[kept] - np.linalg.slogdet(information[kept])[1] / 2 + np.log(precision).sum() / 2
    return Fits(best, information, evidence, best_value)


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
    # cells alike in x and z are summed first, then weigh the products of two columns: (curves, rows) @ (rows, products)
    first = counts.alike
    z, x = z[first], x[first]
    blocks = [
        (np.add.reduceat(of, first, axis=1) @ (one[:, :, None] * other[:, None, :]).reshape(len(first), -1)).reshape(
            len(at), one.shape[1], other.shape[1]
        )
        for of, one, other in (
            (weight * to_guess**2, z, z), (weight * to_guess * to_plateau, z, x), (weight * to_plateau**2, x, x),
        )
    ]  # fmt: skip
    information = np.block([[blocks[0], blocks[1]], [blocks[1].transpose(0, 2, 1), blocks[2]]])
    information += np.diag(precision)
    return value, gradient, information
