"""The temporal contexts under which a fact is probed (TimeStress, section 3.2.3 and appendix A.4).

Year contexts are spread evenly over five lengths of the period on either side of its middle; each
year is refined by one random month and that month by one random day, or by a sampled day. Randomness is a hash of the
seed, the fact's id and the year (`anachron.core.draws`): no fact changes the contexts of another. A period that spans
no whole year has months, refined by days, in the place of years; one that spans no whole month has days
(`anachron.core.several_periods.contexts_of_periods`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from anachron.core.dates import GRANULARITIES, Date, Granularity, days_in_month, year_of
from anachron.core.draws import draw
from anachron.core.errors import ConfigError
from anachron.core.periods import Boundaries, Period, Status


@dataclass(frozen=True, slots=True)
class Context:
    """One date to ask about. ``time`` and ``alpha`` are ``None`` for the statement without a date."""

    granularity: Granularity
    time: str | None
    status: Status
    alpha: float | None


@dataclass(frozen=True)
class Sampling:
    """How positions become contexts.

    horizon: how many lengths of the period are covered on either side of its middle.
    step: distance of two positions, in lengths of the period.
    finer: ``random`` refines every year by a random month and day (TimeStress); ``same-day`` by the middle one of the
        days that are sampled in it, the later of two (TimeStress v1, which gives all dates "with their three grains":
        only one date for each distinct year has the counts of its table 2, and only this one the dates of table 1).
    until: the last year asked about.
    coarsest: the coarsest dates. Below a year they are the months or days of the same positions, refined likewise.
    last_day: the day number behind which no such month or day ends; by default the last day of ``until``.
    """

    horizon: float = 5.0
    step: float = 0.05
    finer: Literal["random", "same-day"] = "random"
    until: int = 2020
    coarsest: Granularity = "year"
    last_day: int | None = None

    def __post_init__(self) -> None:
        if not (0 < self.step <= self.horizon < math.inf):
            raise ConfigError(f"horizon {self.horizon} and step {self.step}: 0 < step <= horizon, both finite")
        if self.finer not in ("random", "same-day"):
            raise ConfigError(f"finer {self.finer!r}: choose 'random' or 'same-day'")
        if self.coarsest not in GRANULARITIES:
            raise ConfigError(f"coarsest {self.coarsest!r}: choose one of {', '.join(GRANULARITIES)}")


SAMPLINGS: dict[str, Sampling] = {
    "timestress": Sampling(),
    "robustness-2025": Sampling(finer="same-day"),
    "near": Sampling(horizon=2.5, step=0.1),  # a half of the dates of short periods, a quarter of those of long ones
}


def sampling_named(name: str, until: int | None = None) -> Sampling:
    """The sampler of this name, perhaps up to another last year. Raises `ConfigError` for a name that is none."""
    if name not in SAMPLINGS:
        raise ConfigError(f"sampling {name!r}: choose one of {', '.join(SAMPLINGS)}")
    return SAMPLINGS[name] if until is None else replace(SAMPLINGS[name], until=until)


def positions(sampling: Sampling) -> list[float]:
    """Relative positions that are sampled: 201 doubles from -5 to 5 by default.

    They are the doubles of ``numpy.arange(-5, 5.0001, 0.05)``, which the published data set was made
    with: start + i * (fl(start + step) - start). Exact fractions, or ``-5 + 0.05 * i``, land on the
    neighbouring day, and so sometimes in another year, for a few per cent of periods.
    """
    start = -sampling.horizon
    step = (start + sampling.step) - start
    count = int(2 * sampling.horizon / sampling.step + 1e-9) + 1
    return [start + i * step for i in range(count)]


def sample_contexts(
    period: Period,
    *,
    boundaries: Boundaries = "released",
    seed: int = 0,
    fact_id: str = "",
    sampling: Sampling = SAMPLINGS["timestress"],
    other_periods: Sequence[Period] = (),
    until: int | None = None,
) -> list[Context]:
    """Contexts of one fact: for each granularity first the statement without a date, then dates in order.

    The granularities are those from the sampling's coarsest on. Finer contexts of a transitional year (or month, where
    that is the coarsest) are ``discarded``, so that every granularity has the same number of correct and of incorrect
    contexts. ``other_periods`` are further periods in which the same triple holds: incorrect contexts that fall into
    one of them are left out (TimeStress v1, section 3.2.2). ``until`` overrides the sampling's last year.

    Raises `DataError` for an open period and for one of no length.
    Source: TimeStress, section 3.2.3; the conventions are explained in `anachron.core.periods`.
    """
    sampling = sampling if until is None else replace(sampling, until=until)
    middle, length = period.centre(boundaries)
    bounds = period.bounds(boundaries)
    numbers = [middle + int(a * length) for a in positions(sampling)]
    branches = _branches(numbers, sampling, seed, fact_id)
    levels = GRANULARITIES[GRANULARITIES.index(sampling.coarsest) :]

    kept: dict[Granularity, list[Context]] = {g: [] for g in levels}
    for branch in branches:
        top = bounds.status(branch[0].first_day, branch[0].last_day)
        if sampling.finer == "random" and _in_other(branch[0], top, other_periods):
            continue
        for granularity, date in zip(levels, branch, strict=True):
            first, last = date.first_day, date.last_day
            status = bounds.status(first, last)
            if sampling.finer == "random":
                if top == "transitional" and granularity != sampling.coarsest:
                    status = "discarded"
            elif _in_other(date, status, other_periods):
                continue
            alpha = (first + (last - first) // 2 - middle) / length
            kept[granularity].append(Context(granularity, str(date), status, alpha))
    if sampling.finer == "random":
        check_equal_counts(kept, period)
    return [c for g in levels for c in (Context(g, None, "none", None), *kept[g])]


def _in_other(date: Date, status: Status, other_periods: Iterable[Period]) -> bool:
    return status == "incorrect" and any(other.meets(date) for other in other_periods)


def _branches(numbers: Sequence[int], sampling: Sampling, seed: int, fact_id: str) -> list[tuple[Date, ...]]:
    """Each distinct year, month or day that is sampled, whichever is the coarsest, with the dates that refine it.

    numbers: the sampled days, in order.
    """
    if sampling.coarsest == "year" and sampling.finer == "random":  # without the days, of which there are many
        years = dict.fromkeys(map(year_of, numbers))
        return [_refine(year, seed, fact_id) for year in years if year <= sampling.until]
    last_day = Date(sampling.until).last_day if sampling.last_day is None else sampling.last_day
    branches: list[tuple[Date, ...]] = []
    for whole, in_whole in groupby(map(Date.from_day_number, numbers), lambda day: _widened(day, sampling.coarsest)):
        if whole.year > sampling.until if sampling.coarsest == "year" else whole.last_day > last_day:
            continue
        days = list(in_whole)
        if sampling.finer == "random" and whole.granularity == "month":
            day = 1 + draw(seed, fact_id, whole, 1) % days_in_month(whole.year, whole.month or 1)
            days = [Date(whole.year, whole.month, day)]
        middle = days[len(days) // 2]
        dates = (Date(middle.year), Date(middle.year, middle.month), middle)
        branches.append(dates[GRANULARITIES.index(sampling.coarsest) :])
    return branches


def _widened(day: Date, granularity: Granularity) -> Date:
    """The year or month that a day lies in, or the day."""
    return day if granularity == "day" else Date(day.year, None if granularity == "year" else day.month)


def _refine(year: int, seed: int, fact_id: str) -> tuple[Date, Date, Date]:
    month = 1 + draw(seed, fact_id, year, 0) % 12
    day = 1 + draw(seed, fact_id, year, 1) % days_in_month(year, month)
    return Date(year), Date(year, month), Date(year, month, day)


def check_equal_counts(kept: dict[Granularity, list[Context]], period: Period) -> None:
    """Raise `AssertionError` unless every granularity has as many correct and as many incorrect contexts."""
    for status in ("correct", "incorrect"):
        counts = {g: sum(c.status == status for c in contexts) for g, contexts in kept.items()}
        if len(set(counts.values())) != 1:
            raise AssertionError(f"{period}: {status} contexts differ between granularities: {counts}")
