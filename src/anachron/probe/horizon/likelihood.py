"""How likely answers are under curves: changes as counts, and the best guess and plateau for each curve.

Of a change at t a model prefers the new value with the chance

    P = K + (1 - K) c,    K = q D(t),    logit q = x . alpha + g . u,    logit c = z . gamma + g . u.

K is the chance that it knows the change: q is the plateau, what it knows of changes long past (1 - q is the lapse), and
c is the floor, the chance that it prefers the new value without knowing. x holds a 1 and what lets a change be known
better (popularity), z a 1 and what lets it be guessed (predictable). g says of which kind a change is, and which
source tells of it: changes of some are both known and guessed more easily, by u. The coefficients have normal priors
(`PLATEAU`, `FLOOR`, `SLOPE`: mean and standard deviation on the logit scale; of u mean 0 and the deviations given),
which keep them finite: a kind with few changes has an effect near 0.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

PLATEAU, FLOOR, SLOPE = (1.0, 1.5), (-2.0, 1.25), (0.0, 1.0)
ROUNDS, STEP, ENOUGH = 40, 1.5, 5e-3
BLOCK = 2_000_000  # curves times cells that are worked out at a time
HOPELESS, FIRST = 15.0, 2  # nats below the best curve, after so many rounds: not worked out any further


@dataclass(frozen=True)
class Counts:
    """Changes with the same month and covariates, together. Shape (cells,), of x, z and g (cells, columns).

    month: middle of the month, in months since the year 0. trials, wins: changes, and those whose new value is
    preferred; a tie is half a win. x, z: what the plateau and the floor depend on; their first columns are 1. g: 1
    where a change is of the column's kind or source, 0 elsewhere; deviations: of their effects, (columns of g,).
    groups: the distinct rows of g; group: which of them each cell has. cell: in which each change lies, (changes,).
    """

    month: np.ndarray
    trials: np.ndarray
    wins: np.ndarray
    x: np.ndarray
    z: np.ndarray
    g: np.ndarray
    deviations: np.ndarray
    groups: np.ndarray
    group: np.ndarray
    cell: np.ndarray

    def divided(self, by: float) -> "Counts":
        """As if there were fewer changes, by this factor: what dependent answers are worth."""
        return replace(self, trials=self.trials / by, wins=self.wins / by)

    def declining(self) -> "Counts":
        """With the date, from -1 to 1, as one more column of the floor: what changes steadily without any end."""
        middle, half = (self.month.max() + self.month.min()) / 2, max(1.0, np.ptp(self.month) / 2)
        return replace(self, z=np.column_stack([self.z, (self.month - middle) / half]))


def counted(
    month: np.ndarray, wins: np.ndarray, x: np.ndarray, z: np.ndarray, g: np.ndarray | None = None,
    deviations: np.ndarray | None = None,
) -> Counts:  # fmt: skip
    """Counts of changes one by one: month (whole months), wins (0 to 1), x, z and g with one row a change."""
    g = np.empty((len(month), 0)) if g is None else g
    keys = np.column_stack([month + 0.5, x, z, g])
    cells, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.ravel()
    splits = np.cumsum([1, x.shape[1], z.shape[1]])
    x, z, g = np.split(cells, splits, axis=1)[1:]
    groups, group = np.unique(g, axis=0, return_inverse=True)
    return Counts(
        cells[:, 0], np.bincount(place).astype(float), np.bincount(place, weights=wins), x, z, g,
        np.empty(0) if deviations is None else deviations, groups, group.ravel(), place,
    )  # fmt: skip


@dataclass(frozen=True)
class Fits:
    """The best coefficients of each curve: z's, then x's, then g's, shape (curves, coefficients).

    information: precision of their normal approximation, (curves, coefficients, coefficients). posterior: log of the
    likelihood times prior, at the best; evidence: the same over all coefficients (Laplace's approximation), in nats;
    minus infinity of curves that were given up.
    """

    coefficients: np.ndarray
    information: np.ndarray
    evidence: np.ndarray
    posterior: np.ndarray


def chances(
    learned: np.ndarray, coefficients: np.ndarray, x: np.ndarray, z: np.ndarray, g: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, c and q of each cell for each curve, shape (curves, cells). coefficients: (curves, z's, x's, then g's)."""
    ends = np.cumsum([z.shape[1], x.shape[1]])
    effect = 0.0 if g is None or not g.shape[1] else coefficients[:, ends[1] :] @ g.T
    guess = expit(coefficients[:, : ends[0]] @ z.T + effect)
    plateau = expit(coefficients[:, ends[0] : ends[1]] @ x.T + effect)
    known = plateau * learned
    chance = np.clip(known + (1 - known) * guess, 1e-9, 1 - 1e-9)
    return chance, guess, plateau


def prior(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the coefficients, z's, x's, then g's."""
    x, z = counts.x.shape[1], counts.z.shape[1]
    pairs = [FLOOR, *[SLOPE] * (z - 1), PLATEAU, *[SLOPE] * (x - 1), *((0.0, one) for one in counts.deviations)]
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
    x, z, g = counts.x, counts.z, counts.g
    chance, guess, plateau = chances(learned, at, x, z, g)
    wins, losses = counts.wins, counts.trials - counts.wins
    away = at - mean
    value = np.log(chance) @ wins + np.log1p(-chance) @ losses - (away**2 * precision).sum(axis=1) / 2
    # dP/d(logit c) and dP/d(logit q) in each cell, shape (curves, cells); D holds the curve's part of K = q D
    to_guess = (1 - plateau * learned) * guess * (1 - guess)
    to_plateau = (1 - guess) * learned * plateau * (1 - plateau)
    to_both = to_guess + to_plateau
    # derivative of the log likelihood by P, and Fisher's information of P
    pull = wins / chance - losses / (1 - chance)
    weight = counts.trials / (chance * (1 - chance))
    gradient = np.hstack([(pull * to_guess) @ z, (pull * to_plateau) @ x, (pull * to_both) @ g]) - away * precision
    sides = [(to_guess, z[:, i]) for i in range(z.shape[1])] + [(to_plateau, x[:, i]) for i in range(x.shape[1])]
    size = len(sides)
    information = np.empty((len(at), size + g.shape[1], size + g.shape[1]))
    products = {0: weight * to_guess**2, 1: weight * to_guess * to_plateau, 2: weight * to_plateau**2}
    for i, (_, one) in enumerate(sides):
        for j in range(i, size):
            both = (i >= z.shape[1]) + (j >= z.shape[1])
            information[:, i, j] = information[:, j, i] = products[both] @ (one * sides[j][1])
    if g.shape[1]:
        for i, (to_side, one) in enumerate(sides):
            information[:, i, size:] = information[:, size:, i] = (weight * to_side * to_both) @ (one[:, None] * g)
        # every two columns of g at once, by its distinct rows: (curves, groups) times (groups, columns^2)
        squares = (counts.groups[:, :, None] * counts.groups[:, None, :]).reshape(len(counts.groups), -1)
        by_two = ((weight * to_both**2) @ np.eye(len(counts.groups))[counts.group]) @ squares
        information[:, size:, size:] = by_two.reshape(len(at), g.shape[1], g.shape[1])
    information += np.diag(precision)
    return value, gradient, information
