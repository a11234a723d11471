"""Two strips over the years for each subject and relation: who it was, and whom a model finds likeliest in each year."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.metrics import TIED
from anachron.core.dates import GRANULARITIES, Date
from anachron.core.several_periods import parse_periods
from anachron.io.files import Json
from anachron.report.page.periods import position

Spans = list[tuple[float, float]]  # where periods begin and are over on a time axis (`position`)


def succession_strips(table: pl.DataFrame, scores: pl.DataFrame | None, ids: Sequence[str], as_of: Date) -> list[Json]:
    """A record for each subject and relation of which a check knows several objects, in the order of its table.

    table: of `anachron.report.page.verdicts.read_verdicts`. scores: the run's, or None where it was asked for answers
    and has none. ids: the page's facts. as_of: up to which periods without an end are drawn.

    ``facts`` are places in ``ids`` (of one that was not asked with dates null) and ``objects`` their names, in the
    order of their starts; all other numbers of objects are places in these. ``held``: pieces ``[from, until, objects]``
    of a time axis on which the same objects held. ``likeliest``: pieces ``[from, until, objects, wrong]`` of whole
    years in which the same objects are the likeliest; ``wrong`` where one of them did not hold in any part of these
    years, but another object did. ``asked``: in how many of the years several objects were asked about. ``today``:
    which objects hold still, and which one is answered, null where none is.

    The likeliest are those with the highest log-probability, as in `anachron.analysis.analyses.crossed`. Objects are
    asked about years that seldom coincide, so between the first and the last of its own an object has the score of the
    nearest one, of two the earlier; years for which fewer than two objects have a score are in no piece.
    """
    places = {fact: place for place, fact in enumerate(ids)}
    years = {} if scores is None else _by_year(scores)
    return [
        _strips(rows, [places.get(row["fact_id"]) for row in rows], [years.get(row["fact_id"]) for row in rows], as_of)
        for _, group in table.group_by("subject", "relation", maintain_order=True)
        if len(rows := _begun(group, as_of)) > 1
    ]


Scored = tuple[np.ndarray, np.ndarray]  # years in order, without the gap at 0, and the score of each


def _by_year(scores: pl.DataFrame) -> dict[str, Scored]:
    dated = scores.filter(pl.col("granularity") == GRANULARITIES[0], pl.col("time").is_not_null())
    year = pl.col("time").cast(pl.Int64)
    axis = dated.select("fact_id", (year + (year < 0)).alias("year"), "logp").sort("year")
    return {
        str(fact): (rows["year"].to_numpy(), rows["logp"].to_numpy()) for (fact,), rows in axis.group_by("fact_id")
    }


def _begun(group: pl.DataFrame, as_of: Date) -> list[dict[str, Any]]:
    """The rows of which some period has begun by then, in the order of their starts."""
    rows = [row for row in group.iter_rows(named=True) if _spans(row, as_of)]
    return sorted(rows, key=lambda row: _spans(row, as_of))


def _spans(row: dict[str, Any], as_of: Date) -> Spans:
    ends = ((p.start or as_of, p.end or as_of) for p in parse_periods(row["periods"]))
    spans = ((position(start.first_day), position(end.last_day + 1)) for start, end in ends)
    return [(start, over) for start, over in spans if start < over]


def _strips(
    rows: Sequence[dict[str, Any]], facts: Sequence[int | None], scored: Sequence[Scored | None], as_of: Date
) -> Json:
    spans = [_spans(row, as_of) for row in rows]
    names = [row["object"] for row in rows]
    first, over = min(one[0][0] for one in spans), max(end for one in spans for _, end in one)
    axis = np.arange(np.floor(first), np.ceil(over)).astype(int)
    near = np.array([_nearest(one, axis) for one in scored])  # (objects, years), NaN where nothing is near
    asked = np.array([np.zeros(len(axis)) if one is None else np.isin(axis, one[0]) for one in scored]).sum(axis=0)
    answer = next((names.index(row["answer"]) for row in rows if row["answer"] in names), None)
    return {
        "facts": list(facts),
        "objects": names,
        "held": [*_held(spans)],
        "likeliest": [*_likeliest(axis, near, [_touched(one, axis) for one in spans])],
        "asked": int((asked > 1).sum()),
        "today": [[n for n, row in enumerate(rows) if any(p.end is None for p in parse_periods(row["periods"]))], answer],
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


def _touched(spans: Spans, axis: np.ndarray) -> np.ndarray:
    """The years of which some part lies in one of the spans."""
    return np.any([(axis + 1 > start) & (axis < end) for start, end in spans], axis=0)


def _held(spans: Sequence[Spans]) -> Iterator[list[Any]]:
    ends = sorted({end for one in spans for both in one for end in both})
    for start, end in pairwise(ends):
        if inside := [n for n, one in enumerate(spans) if any(a <= start and end <= b for a, b in one)]:
            yield [round(start, 4), round(end, 4), inside]


def _likeliest(axis: np.ndarray, near: np.ndarray, held: Sequence[np.ndarray]) -> Iterator[list[Any]]:
    found = []
    for place in np.flatnonzero(np.isfinite(near).sum(axis=0) > 1):
        ahead = tuple(map(int, np.flatnonzero(near[:, place] >= np.nanmax(near[:, place]) - TIED)))
        holds = [bool(one[place]) for one in held]
        found.append((int(axis[place]), ahead, any(holds) and not all(holds[n] for n in ahead)))
    # years on end of which the same is said have the same distance from their place in the list
    for (ahead, wrong, _), piece in groupby(
        enumerate(found), key=lambda item: (item[1][1], item[1][2], item[1][0] - item[0])
    ):
        years = [year for _, (year, _, _) in piece]
        yield [years[0], years[-1] + 1, list(ahead), wrong]
