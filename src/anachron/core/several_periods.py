"""Facts that hold in more than one period, and facts that still hold: their dates, statuses and positions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from anachron.core.contexts import Context, Sampling, check_equal_counts, sample_contexts
from anachron.core.dates import GRANULARITIES, Date
from anachron.core.errors import DataError
from anachron.core.periods import Boundaries, Period, Status


def last_whole_year(as_of: Date) -> int:
    """The last year that is over at the end of ``as_of``: no date of a later one is asked about.

    >>> last_whole_year(Date.parse("2026-11-22")), last_whole_year(Date.parse("2025"))
    (2025, 2025)
    """
    year = as_of.year
    return year if Date(year).last_day <= as_of.last_day else year - 1 or -1


def closed_at(period: Period, as_of: Date | None) -> Period:
    """A period that still holds, up to ``as_of``; any other one as it is.

    Raises `DataError` where it starts after ``as_of``, or where there is none and it is needed.
    """
    if period.end is not None:
        return period
    if as_of is None:
        raise DataError(f"the period {period} is open; say until when it is known to hold")
    return Period(period.start, as_of)


def joined(periods: Iterable[Period]) -> tuple[Period, ...]:
    """Periods with a known start in their order; those that overlap or follow on the next day become one."""
    kept: list[Period] = []
    for period in sorted(periods, key=lambda p: (_first(p), _last(p))):
        if kept and _first(period) <= _last(kept[-1]) + 1:
            later = max(kept[-1], period, key=_last)
            kept[-1] = Period(kept[-1].start, later.end)
        else:
            kept.append(period)
    return tuple(kept)


def _first(period: Period) -> int:
    assert period.start is not None
    return period.start.first_day


def _last(period: Period) -> float:
    return float("inf") if period.end is None else period.end.last_day


def status_in(periods: Sequence[Period], date: Date, boundaries: Boundaries = "released") -> Status:
    """``correct`` inside any of the periods, ``incorrect`` outside all of them, ``transitional`` otherwise."""
    each = {period.status(date, boundaries) for period in periods}
    return "correct" if "correct" in each else "incorrect" if each == {"incorrect"} else "transitional"


def alpha_in(periods: Sequence[Period], date: Date, boundaries: Boundaries = "released") -> float:
    """The relative position of a date to the period that it is relatively nearest to.

    Raises `DataError` as `Period.alpha`.
    """
    return min((period.alpha(date, boundaries) for period in periods), key=abs)


def contexts_of_periods(
    periods: Sequence[Period],
    *,
    boundaries: Boundaries = "released",
    seed: int = 0,
    fact_id: str = "",
    sampling: Sampling,
    other_periods: Sequence[Period] = (),
) -> list[Context]:
    """Contexts of a fact that holds in each of some closed periods, as `sample_contexts` gives them of one.

    Where no year lies within a period, of those that may be asked about, months are asked about in their place; where
    no month does, days; and years where no day does either. The dates are those that are sampled for any of the
    periods; statuses are by `status_in`, positions by `alpha_in`. Finer dates of a transitional year (or month) are
    discarded where each refines one, as for one period.

    Raises `DataError` for a period that is open or of no length.
    """
    of_years: list[Context] = []
    for coarsest in GRANULARITIES:
        found = _contexts_from(periods, boundaries, seed, fact_id, replace(sampling, coarsest=coarsest), other_periods)
        if any(context.status == "correct" and context.granularity == coarsest for context in found):
            return found
        of_years = of_years or found
    return of_years


def _contexts_from(
    periods: Sequence[Period], boundaries: Boundaries, seed: int, fact_id: str, sampling: Sampling,
    other_periods: Sequence[Period],
) -> list[Context]:  # fmt: skip
    """Contexts of the granularities from the sampling's coarsest on."""
    if len(periods) == 1:
        return sample_contexts(
            periods[0], boundaries=boundaries, seed=seed, fact_id=fact_id, sampling=sampling,
            other_periods=other_periods,
        )  # fmt: skip
    dates: dict[Date, None] = {}
    for period in periods:
        sampled = sample_contexts(
            period, boundaries=boundaries, seed=seed, fact_id=fact_id, sampling=sampling, other_periods=other_periods
        )
        dates |= {Date.parse(context.time): None for context in sampled if context.time is not None}
    contexts: list[Context] = []
    levels = GRANULARITIES[GRANULARITIES.index(sampling.coarsest) :]
    for granularity in levels:
        contexts.append(Context(granularity, None, "none", None))
        for date in sorted((d for d in dates if d.granularity == granularity), key=lambda d: d.first_day):
            status = status_in(periods, date, boundaries)
            refines = sampling.finer == "random" and granularity != sampling.coarsest
            whole = Date(date.year, date.month if sampling.coarsest == "month" else None)
            if refines and status_in(periods, whole, boundaries) == "transitional":
                status = "discarded"
            contexts.append(Context(granularity, str(date), status, alpha_in(periods, date, boundaries)))
    if sampling.finer == "random":
        check_equal_counts({g: [c for c in contexts if c.granularity == g] for g in levels}, periods[0])
    return contexts


def periods_text(periods: Iterable[Period]) -> str | None:
    """Several periods as a table holds them, ``2001/2005; 2009-01-20/`` (an open end is empty); None of none."""
    return "; ".join(f"{period.start}/{period.end or ''}" for period in periods) or None


def periods_in_words(text: str, day: Callable[[str], str] = str) -> str:
    """``2001 to 2005; 2009-01-20 on`` of what `periods_text` wrote. day: how a date is said."""
    ends = (part.split("/") for part in text.split("; "))
    return "; ".join(f"{day(start)} to {day(end)}" if end else f"{day(start)} on" for start, end in ends)


def parse_periods(text: str | None) -> tuple[Period, ...]:
    """The inverse of `periods_text`. Raises `DataError` for a text that holds something else."""
    periods = []
    for part in filter(None, map(str.strip, (text or "").split(";"))):
        start, slash, end = part.partition("/")
        if not slash or not start:
            raise DataError(f"{part!r} is not a period: write start/end, with ';' between several")
        periods.append(Period(start, end or None))
    return tuple(periods)
