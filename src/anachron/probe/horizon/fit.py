"""The horizon of one model: which curves its answers allow, as weights of a grid, and what these say.

Every curve of the grid is given the weight of its evidence (likelihood times prior, over guess, plateau and the effects
of kinds and sources). Halving dates have equal prior weights, and so have lags and shapes. Against all of them stand
answers that do not depend on the date, and answers that change steadily with it. Answers about one subject depend on
each other, so changes count as fewer than they are, by the factor that the residuals of subjects tell
(`design_effect`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import chdtrc, expit, logsumexp  # not of scipy.stats, which loads far more

from anachron.core.sameness import name_key
from anachron.probe.horizon.curves import (
    FAMILIES,
    ONE_FALL,
    WIDE,
    Curves,
    finer,
    one_fall,
    together,
    two_falls,
    with_gap,
)
from anachron.probe.horizon.likelihood import SLOPE, Counts, Fits, chances, counted, fit_curves

TOLD = 0.95  # least chance that knowledge ends among the changes, for a date to be told
MISFIT = 0.01  # least chance of answers as far from the best curve as these, for a date to be told
DRAWS = 1000
COARSE, YEARLY, FAR = 3, 12, 9.0  # months between dates that are looked at first; nats below the best that rule one out
MOST = 60  # curves with a break around which every month is looked at
GROUP = 40  # changes of a kind or source, for effects of its own
DEVIATIONS = (0.1, 0.3, 0.6, 1.2)  # of the effects of kinds, and of sources: those are taken that explain most
HALF_YEAR, PARAMETERS = 6, 4
BAND = (0.025, 0.975)


@dataclass(frozen=True)
class ChangePreferences:
    """What a model prefers of each change. Shape (changes,), of the covariates (changes, columns).

    month: whole months since the year 0. wins: 1 where the new value is preferred, 0 where the old one, 0.5 for a tie.
    subject: whose answers may depend on each other. known_better: covariates of the plateau; guessable: of the floor;
    neither has a column of ones. groups: of each change its kind, and its source, or whatever else it is one of.
    """

    month: np.ndarray
    wins: np.ndarray
    subject: Sequence[str] | np.ndarray
    known_better: np.ndarray | None = None
    guessable: np.ndarray | None = None
    groups: tuple[np.ndarray, ...] = ()

    def counts(self, deviations: Sequence[float] = ()) -> Counts:
        """deviations: of the effects of each of the groups; without them they have none."""
        x, z = self.columns()
        members = [group_columns(labels) for labels in self.groups] if deviations else []
        of = [np.full(one.shape[1], deviation) for one, deviation in zip(members, deviations, strict=bool(deviations))]
        of_x, of_z = (np.concatenate([np.full(side.shape[1] - 1, SLOPE[1]), *of]) for side in (x, z))
        x, z = (np.hstack([side, *members]) for side in (x, z))
        return counted(np.asarray(self.month), np.asarray(self.wins, float), x, z, of_x, of_z)

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The covariates x of the plateau and z of the floor, each behind a column of ones."""
        ones = np.ones((len(self.month), 1))
        given = (self.known_better, self.guessable)
        x, z = (ones if more is None else np.hstack([ones, more]) for more in given)
        return x, z


def group_columns(labels: np.ndarray) -> np.ndarray:
    """A column for each label that `GROUP` changes have, 1 where a change has it; none where all have the same."""
    names, counts = np.unique(labels, return_counts=True)
    many = names[counts >= GROUP] if len(names) > 1 else names[:0]
    return (labels[:, None] == many[None, :]).astype(float)


@dataclass(frozen=True)
class Horizon:
    """The curves with their weights, which sum to 1, and the fits that these come from.

    inside: chance that knowledge ends among the changes, against answers that do not depend on the date or change
    steadily with it (even before the answers are seen). design: how many changes count as one. counts: as they counted.
    fits_by: chance of answers as far from the best curve as these, by half-year. placebo: ``inside`` of decoys, of
    which nothing can be known, None of too few. endless: whether something is known of changes after the end.
    """

    curves: Curves
    weights: np.ndarray
    fits: Fits
    counts: Counts
    inside: float
    design: float
    fits_by: float
    placebo: float | None = None
    endless: bool = False

    @property
    def told(self) -> bool:
        return self.inside >= TOLD and self.fits_by >= MISFIT and (self.placebo or 0.0) < TOLD

    def halving(self, shares: Sequence[float] = (0.5, *BAND)) -> list[float]:
        """Quantiles of the halving date, months since the year 0."""
        return quantiles(self.curves.halving, self.weights, shares)

    def end(self, shares: Sequence[float] = (0.5, *BAND)) -> list[float]:
        """Quantiles of the date at which a twentieth of the knowledge is left."""
        return quantiles(self.curves.end, self.weights, shares)

    def families(self) -> list[float]:
        """Weight of one fall, of two, and of a gap."""
        return np.bincount(self.curves.family, weights=self.weights, minlength=len(FAMILIES)).tolist()

    def draws(self, seed: int = 0, size: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
        """Curves by number and their coefficients, as likely as the answers make them."""
        random = np.random.default_rng(seed)
        chosen = random.choice(len(self.weights), size, p=self.weights)
        distinct, place = np.unique(chosen, return_inverse=True)
        roots = np.linalg.cholesky(np.linalg.inv(self.fits.information[distinct]))
        normal = random.standard_normal((size, roots.shape[1], 1))
        return chosen, self.fits.coefficients[chosen] + (roots[place] @ normal)[:, :, 0]


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
    years = np.arange(first, last + 1, YEARLY)
    steps = Curves.of(years, np.zeros(len(years)), np.ones(len(years)))
    counts, plain = max(
        ((tried, fit_curves(tried, steps.learned(tried.month))) for tried in _all_counts(answers)),
        key=lambda pair: np.logaddexp(logsumexp(pair[1].evidence) - np.log(len(steps)), _without_end(pair[0])),
    )
    likeliest = [int(np.argmax(plain.evidence))]
    start, learned = plain.coefficients[likeliest], steps[likeliest].learned(counts.month)
    design = design_effect(answers, counts, learned, start) if dependent else 1.0
    return _weighed(counts.divided(design), first, last, design, start[0])


def _all_counts(answers: ChangePreferences) -> Iterator[Counts]:
    """The answers under every deviation of the effects of kinds, and of sources, that is tried."""
    for deviations in product(*(DEVIATIONS if group_columns(of).size else DEVIATIONS[:1] for of in answers.groups)):
        yield answers.counts(deviations)


def _grid(counts: Counts, first: int, last: int, start: np.ndarray) -> tuple[Curves, np.ndarray]:
    """The curves that may have weight, and of how many of its family each is one, as a logarithm.

    At first falls some months apart are tried; those that come near the likeliest are moved month by month.
    """
    months, wide = np.arange(first, last + 1, COARSE), np.arange(first, last + 1, WIDE)
    coarse = together(one_fall(months), two_falls(wide), with_gap(wide))
    evidence = fit_curves(counts, coarse.learned(counts.month), start=start).evidence
    close = evidence > evidence.max() - FAR
    once, broken = (close & of for of in (coarse.family == ONE_FALL, coarse.family != ONE_FALL))
    likeliest = np.flatnonzero(broken)[np.argsort(-evidence[broken], kind="stable")[:MOST]]
    broken[likeliest] = False  # of the others, where the answers tell little of any, the coarse ones will do
    sizes = np.bincount(coarse.family, minlength=len(FAMILIES)).astype(float)
    monthly = np.array([(last + 1 - first) / len(months), WIDE**2, WIDE**2])
    fine = together(finer(coarse[once], COARSE - 1, first, last), finer(coarse[likeliest], WIDE // 2, first, last))
    of = np.append(np.log(sizes * monthly)[fine.family], np.log(sizes)[coarse[broken].family])
    return together(fine, coarse[broken]), of


def _without_end(counts: Counts) -> float:
    """Evidence of knowledge that does not end among the changes: with equal weight that of answers that do not depend
    on the date (all is known, or nothing), and of answers that change steadily."""
    level = fit_curves(counts, np.array([np.zeros(len(counts.month)), np.ones(len(counts.month))])).evidence
    steady = fit_curves(counts.declining(), np.zeros((1, len(counts.month)))).evidence
    return float(logsumexp(np.append(level - np.log(4), steady - np.log(2))))


def _weighed(counts: Counts, first: int, last: int, design: float, start: np.ndarray) -> Horizon:
    """The horizon by counts that are worth what they say. start: coefficients to begin with."""
    curves, of = _grid(counts, first, last, start)
    fits = fit_curves(counts, curves.learned(counts.month), start=start)
    evidence = fits.evidence + np.log(FAMILIES)[curves.family] - of
    total = logsumexp(evidence)
    weights = np.exp(evidence - total)
    best = [int(np.argmax(weights))]
    chance = chances(curves[best].learned(counts.month), fits.coefficients[best], counts.x, counts.z)[0]
    inside = float(expit(total - _without_end(counts)))
    return Horizon(curves, weights / weights.sum(), fits, counts, inside, design, misfit(counts, chance[0]))


def misfit(counts: Counts, chance: np.ndarray) -> float:
    """Chance (chi squared) of wins by half-year as far from those expected as these. chance: P in each cell.

    Half-years without much to win or lose are joined with those behind them, until one win more or less is expected.
    """
    place = ((counts.month - counts.month.min()) // HALF_YEAR).astype(int)
    expected, wins, variance = (
        np.bincount(place, weights=values)
        for values in (counts.trials * chance, counts.wins, counts.trials * chance * (1 - chance))
    )
    joined = np.cumsum(np.append(0.0, variance[:-1])).astype(int)  # a new part with every whole win
    sums = [np.bincount(joined, weights=values) for values in (wins - expected, variance)]
    held = sums[1] > 0
    apart = float((sums[0][held] ** 2 / sums[1][held]).sum())
    return float(chdtrc(max(1, int(held.sum()) - PARAMETERS), apart))


def design_effect(answers: ChangePreferences, counts: Counts, learned: np.ndarray, coefficients: np.ndarray) -> float:
    """How many dependent answers count as one: the sum over subjects of squared sums of residuals, by that of squares.

    1 where the answers of a subject do not agree more than their dates make them. Residuals are those of one curve
    (learned: D in each cell of the counts, (1, cells)), by their standard deviations (Pearson's).
    """
    cell = chances(learned, coefficients, counts.x, counts.z)[0][0][counts.cell]
    residuals = (np.asarray(answers.wins, float) - cell) / np.sqrt(cell * (1 - cell))
    _, subject = np.unique([name_key(str(subject)) for subject in answers.subject], return_inverse=True)
    sums = np.bincount(subject.ravel(), weights=residuals)
    return max(1.0, float((sums**2).sum() / (residuals**2).sum()))
