"""A fact beside its decoys: other objects that were asked about under the very same dates.

What a model adds for a date, whatever the object, is in the scores of a fact and of its decoys alike. So a fact is
judged by its crossed matches against them: it wins one where it leads a decoy by more nats at a correct date than at an
incorrect one. A preference for dates or for objects wins half of these. A scorer that knows nothing may still win many,
as neighbouring years score alike; how many, its decoys tell, each of which plays the same matches against the others.
The *chance* of a fact is the share of decoys, itself counted with them, that win as many as it does: of its own decoys
and those of the facts most like it in their dates (`ALIKE`), since few dates are won by chance more often than many.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, nan

import numpy as np
import polars as pl

from anachron.analysis.metrics import FACT_KEYS, GLOBAL, RUN_KEYS, TIED, YEAR, check_scores, share_won
from anachron.core.dates import GRANULARITIES
from anachron.core.errors import DataError

ALIKE = 100  # decoys that a fact is ranked among, at least, where the run has as many

DECOY_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys([*FACT_KEYS, "granularity"], pl.String),
    "decoys": pl.Int64, "win_rate": pl.Float64, "decoy_win_rate": pl.Float64, "place": pl.Int64,
    "crossed": pl.Float64, "chance": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class Against:
    """A fact of one run beside its decoys.

    key: model, format, prefix, fact. names: of the decoys. By granularity: times, the dates in order of time; scores of
    the fact (the first row) and of each decoy at these, (objects, dates), nats; correct, which of these are, (dates,).
    """

    key: tuple[str, ...]
    names: tuple[str, ...]
    times: dict[str, list[str]]
    scores: dict[str, np.ndarray]
    correct: dict[str, np.ndarray]

    @cached_property
    def win_rates(self) -> dict[str, np.ndarray]:
        """By granularity, W of each object over the correct and incorrect dates, a tie counting half: (objects,)."""
        return {
            level: share_won(scores[:, inside][:, :, None] - scores[:, ~inside][:, None, :], axis=(1, 2))
            for level, scores in self.scores.items()
            for inside in [self.correct[level]]
        }

    @cached_property
    def crossed(self) -> dict[str, np.ndarray]:
        """By granularity, `crossed_share` of each object over the correct dates: (objects,)."""
        places = range(1 + len(self.names))
        return {
            level: np.array([crossed_share(scores, place, self.correct[level]) for place in places])
            for level, scores in self.scores.items()
        }

    @property
    def shape(self) -> tuple[float, float, float]:
        """What facts are alike in: the logarithms of the numbers of correct and of incorrect dates, and twice the share
        of the incorrect ones that lie after the last correct one, 0 of a fact that still holds."""
        masks = [*self.correct.values()]
        correct = sum(int(mask.sum()) for mask in masks)
        incorrect = sum(mask.size for mask in masks) - correct
        later = sum(mask.size - 1 - int(np.flatnonzero(mask)[-1]) for mask in masks)
        return log(correct), log(incorrect), 2 * later / incorrect


def beside_decoys(scores: pl.DataFrame, decoys: pl.DataFrame) -> Iterator[Against]:
    """Each fact that has decoys, in the order of the scores, at the granularities at which it has correct and incorrect
    dates. scores: of `check_scores`. decoys: of runs among these, by `anachron.probe.runs.DECOY_COLUMNS`.

    Raises `DataError` where a decoy was not asked about at the dates of its fact.
    """
    keys = [*FACT_KEYS, "granularity"]
    dated = scores.filter(pl.col("status").is_in(["correct", "incorrect"]), pl.col("time").is_not_null())
    kept = dated.select(*keys, "time", "status", "logp").join(
        decoys.select(FACT_KEYS).unique(), on=FACT_KEYS, how="semi"
    )
    in_order = [pl.col("time").str.extract(YEAR).cast(pl.Int64), pl.col("time")]  # -0044 lies after -0100
    own = (
        kept.sort(in_order)
        .group_by(keys)
        .agg("time", pl.col("status") == "correct", "logp")
        .rename({"status": "correct"})
        .filter(pl.col("correct").list.any() & ~pl.col("correct").list.all())
    )
    each = (
        decoys.sort("decoy", *in_order)
        .group_by([*keys, "decoy"], maintain_order=True)
        .agg(pl.col("time").alias("asked"), pl.col("logp").alias("scored"))
        .group_by(keys, maintain_order=True)
        .agg("decoy", "asked", "scored")
    )
    rows = own.join(each, on=keys)
    order = {key: i for i, key in enumerate(kept.select(FACT_KEYS).unique(maintain_order=True).rows())}
    by_fact: dict[tuple[str, ...], list[dict[str, object]]] = {}
    for row in rows.iter_rows(named=True):
        others = by_fact.setdefault(tuple(row[name] for name in FACT_KEYS), [])
        if any(asked != row["time"] for asked in row["asked"]) or any(one["decoy"] != row["decoy"] for one in others):
            raise DataError(
                f"fact {row['fact_id']}: its decoys were not asked about at its own {row['granularity']}s; give the "
                "scores and the decoys of one run"
            )
        others.append(row)
    for key in sorted(by_fact, key=order.__getitem__):
        found = {str(row["granularity"]): row for row in by_fact[key]}
        levels = {level: found[level] for level in GRANULARITIES if level in found}
        yield Against(
            key,
            tuple(next(iter(levels.values()))["decoy"]),  # type: ignore[arg-type]
            {level: row["time"] for level, row in levels.items()},  # type: ignore[misc]
            {level: np.array([row["logp"], *row["scored"]]) for level, row in levels.items()},  # type: ignore[misc]
            {level: np.array(row["correct"]) for level, row in levels.items()},
        )


def crossed_share(scores: np.ndarray, place: int, inside: np.ndarray) -> float:
    """The share of crossed matches that one object wins against the decoys, a tie counting half.

    scores: (1 + decoys, dates), nats, the fact first. place: of the object, 0 for the fact, else a decoy, which plays
    against the others. inside: (dates,), which are taken to be its own. Each of these makes a match with each of the
    others, and each rival counts once. NaN without a rival.
    """
    ahead = scores[place] - np.delete(scores[1:], place - 1, axis=0) if place else scores[0] - scores[1:]
    if not len(ahead):
        return nan
    gaps = ahead[:, inside][:, :, None] - ahead[:, ~inside][:, None, :]  # (rivals, dates inside, outside)
    return float(share_won(gaps, TIED))


def chance(own: float, decoys: np.ndarray) -> float:
    """How rarely decoys do as well: (1 + decoys with at least as much) / (1 + all of them).

    Of a fact that is no more tied to its dates than these decoys are, every rank is as likely, so a chance of at most p
    comes up with probability p at most, whatever the scores are like (Fisher's randomisation test). 1 without decoys,
    and where the value itself is NaN. decoys: NaN counts for none.
    """
    known = decoys[~np.isnan(decoys)]
    return 1.0 if np.isnan(own) else (1 + int((known >= own - TIED).sum())) / (1 + known.size)


def chances_among_alike(
    own: Sequence[float], decoys: Sequence[Sequence[float]], shapes: Sequence[tuple[float, float, float]]
) -> np.ndarray:
    """The `chance` of each of some facts, among its own decoys and those of the facts most like it, `ALIKE` or more.

    decoys: the values of each fact's decoys. shapes: `Against.shape` of each; facts are the more alike the less these
    differ in sum, and equally alike ones are taken together.
    """
    places, sizes = np.array(shapes, float).reshape(-1, 3), np.array([len(values) for values in decoys])
    found = np.ones(len(own))
    for fact, value in enumerate(own):
        apart = np.abs(places - places[fact]).sum(axis=1)
        order = np.argsort(apart, kind="stable")
        enough = min(int(np.searchsorted(np.cumsum(sizes[order]), ALIKE)), len(order) - 1)
        among = np.flatnonzero(apart <= apart[order[enough]])
        found[fact] = chance(value, np.concatenate([np.asarray(decoys[other], float) for other in among.tolist()]))
    return found


def decoy_metrics(scores: pl.DataFrame, decoys: pl.DataFrame) -> pl.DataFrame:
    """Each fact beside its decoys, at each granularity and, of a fact that has all three, ``global``.

    scores: a score table as a run of `anachron.run_probe` has it; decoys: its table of decoys (of data by
    `anachron.with_decoys`): ``model, format, prefix, fact_id, decoy, granularity, time, status, logp``.

    Returns one row per model, format, prefix, fact and granularity: ``decoys``, their number; ``win_rate`` of the fact
    and ``decoy_win_rate``, the mean of theirs (0 to 1, a tie counts half); ``place`` of the fact among them by W, 1 the
    best, behind decoys that are equal; ``crossed``, the share won of its crossed matches against them; ``chance``, the
    share of decoys that win as many of theirs (`chances_among_alike`). Raises `DataError` for tables that are not of
    one run. Beyond the papers, see docs/definitions.md.
    """
    parts: dict[str, Sequence[str]] = {**{level: [level] for level in GRANULARITIES}, GLOBAL: GRANULARITIES}
    return ranked(
        (one, name, levels)
        for one in beside_decoys(check_scores(scores), decoys)
        for name, levels in parts.items()
        if one.scores.keys() >= {*levels}
    )


def ranked(asked: Iterable[tuple[Against, str, Sequence[str]]]) -> pl.DataFrame:
    """A row (`DECOY_SCHEMA`) for each of some facts, the mean over these granularities of it, under this name."""
    rows: list[dict[str, object]] = []
    of_decoys: list[list[float]] = []
    shapes: list[tuple[float, float, float]] = []
    for one, name, levels in asked:
        rates, shares = (np.mean([found[level] for level in levels], axis=0) for found in (one.win_rates, one.crossed))
        rows.append(
            dict(zip(FACT_KEYS, one.key, strict=True)) | {
                "granularity": name, "decoys": len(one.names), "win_rate": float(rates[0]),
                "decoy_win_rate": float(rates[1:].mean()), "place": 1 + int((rates[1:] >= rates[0]).sum()),
                "crossed": float(shares[0]),
            }
        )  # fmt: skip
        of_decoys.append(shares[1:].tolist())
        shapes.append(one.shape)
    table = pl.DataFrame(rows, schema=DECOY_SCHEMA, orient="row")
    found = np.ones(len(rows))
    parts = table.with_row_index().group_by([*RUN_KEYS, "granularity"], maintain_order=True).agg("index")["index"]
    for at in parts.to_list():
        own = table["crossed"].gather(at).to_list()
        found[at] = chances_among_alike(own, [of_decoys[i] for i in at], [shapes[i] for i in at])
    return table.with_columns(pl.Series("chance", found))


def later_wins(decoys: pl.DataFrame) -> pl.DataFrame:
    """How often a later year is likelier than an earlier one, of decoys: the run's own taste for late dates.

    Returns one row a run: `RUN_KEYS` and ``later``, the mean over decoys of the share of pairs of years (0 to 1, a tie
    counts half) of which the later has the higher log-probability. One half is no taste.
    """
    years = decoys.filter(pl.col("granularity") == "year")
    ordered = years.sort(pl.col("time").str.extract(YEAR).cast(pl.Int64))
    each = (
        ordered.group_by([*FACT_KEYS, "decoy"], maintain_order=True).agg("logp").filter(pl.col("logp").list.len() > 1)
    )
    shares = pl.Series("later", [share_won(_later_minus_earlier(one)) for one in each["logp"].to_list()], pl.Float64)
    return each.with_columns(shares).group_by(RUN_KEYS, maintain_order=True).agg(pl.col("later").mean())


def _later_minus_earlier(values: list[float]) -> np.ndarray:
    """Of each pair of values in order of time: (pairs,)."""
    return np.subtract.outer(np.array(values), np.array(values))[np.tril_indices(len(values), -1)]
