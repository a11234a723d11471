"""Two strips over the years for each subject and relation: who it was, and whom a model finds likeliest in each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.metrics import TIED
from anachron.core.dates import GRANULARITIES, Date
from anachron.core.several_periods import parse_periods
from anachron.io.files import Json
from anachron.report.page.periods import position

Named = Mapping[str, Sequence[tuple[int, str]]]  # fact -> years on the axis, and the object that was named in each
Spans = list[tuple[float, float]]  # where periods begin and are over on a time axis (`position`)


def succession_strips(
    table: pl.DataFrame, scores: pl.DataFrame | None, named: Named, ids: Sequence[str], as_of: Date
) -> list[Json]:
    """A record for each subject and relation of which a check knows several objects, in the order of its table.

    table: of `anachron.report.page.verdicts.read_verdicts`. scores: the run's, or None where it was asked for answers,
    and then named: what it answered. ids: the page's facts. as_of: up to which periods without an end are drawn.

    ``facts`` are places in ``ids`` (of one that was not asked with dates null) and ``objects`` their names, in the
    order of their starts; all other numbers of objects are places in these. ``held``: pieces ``[from, until, objects]``
    of a time axis on which the same objects held. ``likeliest``: pieces ``[from, until, objects, wrong]`` of whole
    years in which the same objects are the likeliest, or the one that was named; ``wrong`` where one of them did not
    hold in any part of these years, but another object did. ``asked``: in how many of the years several objects were
    asked about. ``today``: which objects hold still, and which one is answered, null where none is.

    The likeliest are those with the highest log-probability, as in `anachron.analysis.analyses.crossed`. Objects are
    asked about years that seldom coincide, so between the first and the last of its own an object has the score of the
    nearest one, of two the earlier; years for which fewer than two objects have a score are in no piece.
    """
    places = {fact: place for place, fact in enumerate(ids)}
    years = {} if scores is None else _by_year(scores)
    return [
        _strips(rows, places, years, named, as_of)
        for _, group in table.group_by("subject", "relation", maintain_order=True)
        if len(rows := _begun(group, as_of)) > 1
    ]


Scored = tuple[np.ndarray, np.ndarray]  # years in order, without the gap at 0, and the score of each


def _by_year(scores: pl.DataFrame) -> dict[str, Scored]:
    dated = scores.filter(pl.col("granularity") == GRANULARITIES[0], pl.col("time").is_not_null())
    year = pl.col("time").cast(pl.Int64)
    axis = dated.select("fact_id", (year + (year < 0)).alias("year"), "logp").sort("year")
    return {str(fact): (rows["year"].to_numpy(), rows["logp"].to_numpy()) for (fact,), rows in axis.group_by("fact_id")}


def _begun(group: pl.DataFrame, as_of: Date) -> list[dict[str, Any]]:
    """The rows of which some period has begun by then, in the order of their starts."""
    rows = [row for row in group.iter_rows(named=True) if _spans(row, as_of)]
    return sorted(rows, key=lambda row: _spans(row, as_of))


def _spans(row: dict[str, Any], as_of: Date) -> Spans:
    ends = ((p.start or as_of, p.end or as_of) for p in parse_periods(row["periods"]))
    spans = ((position(start.first_day), position(end.last_day + 1)) for start, end in ends)
    return [(start, over) for start, over in spans if start < over]


def _strips(
    rows: Sequence[dict[str, Any]], places: Mapping[str, int], years: Mapping[str, Scored], named: Named, as_of: Date
) -> Json:
    ids, names = [row["fact_id"] for row in rows], [row["object"] for row in rows]
    spans, scored = [_spans(row, as_of) for row in rows], [years.get(fact) for fact in ids]
    first, over = min(start for one in spans for start, _ in one), max(end for one in spans for _, end in one)
    axis = np.arange(np.floor(first), np.ceil(over)).astype(int)
    asked = np.sum([np.isin(axis, [] if one is None else one[0]) for one in scored], axis=0)
    said = {year: (names.index(name),) for fact in ids for year, name in named.get(fact, ()) if name in names}
    whom = _ahead(axis, np.array([_nearest(one, axis) for one in scored])) if years else sorted(said.items())
    answer = next((names.index(row["answer"]) for row in rows if row["answer"] in names), None)
    still = [n for n, row in enumerate(rows) if any(period.end is None for period in parse_periods(row["periods"]))]
    return {
        "facts": [places.get(fact) for fact in ids],
        "objects": names,
        "held": [*_held(spans)],
        "likeliest": [*_pieces(whom, spans)],
        "asked": int((asked > 1).sum()),
        "today": [still, answer],
    }


def _nearest(scored: Scored | None, axis: np.ndarray) -> np.ndarray:
    """The score of the nearest year that was asked about, NaN before the first and behind the last."""
    if scored is None or not len(scored[0]):
        return np.full(len(axis), np.nan)
    years, logp = scored
    after = np.clip(np.searchsorted(years, axis), 1, max(len(years) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(years) - 1)
    chosen = np.where(axis - years[before] <= years[after] - axis, before, after)
    return np.where((axis < years[0]) | (axis > years[-1]), np.nan, logp[chosen])


def _held(spans: Sequence[Spans]) -> Iterator[list[Any]]:
    ends = sorted({end for one in spans for both in one for end in both})
    for start, end in pairwise(ends):
        if inside := [n for n, one in enumerate(spans) if any(a <= start and end <= b for a, b in one)]:
            yield [round(start, 4), round(end, 4), inside]


def _ahead(axis: np.ndarray, near: np.ndarray) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The years in which two objects or more have a score, and which have the highest. near: (objects, years)."""
    for place in np.flatnonzero(np.isfinite(near).sum(axis=0) > 1):
        logp = near[:, place]
        yield int(axis[place]), tuple(map(int, np.flatnonzero(logp >= np.nanmax(logp) - TIED)))


def _pieces(whom: Iterable[tuple[int, tuple[int, ...]]], spans: Sequence[Spans]) -> Iterator[list[Any]]:
    found = []
    for year, objects in whom:
        holds = [any(year + 1 > start and year < end for start, end in one) for one in spans]
        found.append((year, list(objects), any(holds) and not all(holds[n] for n in objects)))
    # years on end of which the same is said have the same distance from their place in the list
    for (objects, wrong, _), piece in groupby(enumerate(found), lambda item: (*item[1][1:], item[1][0] - item[0])):
        years = [year for _, (year, *_) in piece]
        yield [years[0], years[-1] + 1, objects, wrong]
