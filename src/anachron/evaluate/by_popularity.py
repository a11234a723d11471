"""What an edit did by how popular its subject is, and how popular and how alike the facts beside it are.

Source: WikiFactDiff, A.1 (success by the popularity of the subject), 5.2 and figure 2 (bleedover by the popularity of
neighbours and by their similarity).
"""

import numpy as np
import polars as pl

from anachron.analysis.statistics import interval_cells, t_mean
from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.metrics import in_order, summarise
from anachron.evaluate.results import KEYS, METHOD, check_neighbours, subjects_of

BY_POPULARITY_SCHEMA: dict[str, pl.DataType] = {
    "mode": pl.String(),
    **METHOD,
    "kind": pl.String(),
    "popularity_bin": pl.Int64(),
    **dict.fromkeys(["popularity_low", "popularity_high"], pl.Float64()),
    **dict.fromkeys(["n", "updates"], pl.Int64()),
    **dict.fromkeys(["bleedover", "bleedover_low", "bleedover_high"], pl.Float64()),
}


def bleedover_bins(neighbours: pl.DataFrame, *, similarity_bins: int = 5, popularity_bins: int = 5) -> pl.DataFrame:
    """Mean bleedover of the neighbours in each bin of similarity and popularity, per mode and method.

    neighbours: the run's table. Those whose ``dist`` or popularity or a score is null are left out, so random facts
    take part only where their distance is known. Similarity, 1 - ``dist``, is that of the two facts' subjects.

    Bins are quantile bins, the same for all methods: each distinct neighbour (update, kind, number) counts once, an
    edge is a value that occurs, a bin holds its lower edge, and the last one its upper edge too. Values that tie stay
    in one bin, so there can be fewer bins than asked for.

    Returns ``mode``, ``method``, ``variant``, ``similarity_bin`` and ``popularity_bin`` (1, 2, ... from the
    lowest) with their ``*_low`` and ``*_high``, ``n`` neighbours, ``bleedover`` (mean of -min(after - before, 0), 0 to
    1) and ``normalised``: divided by the same mean over all binned neighbours of that method and mode. So 1 is the
    method's own average, and the cells' mean weighted by n is 1; null where the method has no bleedover at all. A cell
    without neighbours has no row.

    Raises `DataError` for a table that breaks its rules or has no such neighbour, `ConfigError` for no bins.
    Source: WikiFactDiff, figure 2, which says "normalised for each algorithm" and not how.
    """
    _check_bins(similarity_bins=similarity_bins, popularity_bins=popularity_bins)
    facts = check_neighbours(neighbours)
    known = facts.drop_nulls(["before", "after", "dist", "popularity"])
    if not known.height:
        if not facts.height:
            raise DataError("the data set has no neighbours; bins of bleedover need some, with dist and popularity")
        lacking = " and ".join(name for name in ("dist", "popularity") if not facts[name].count())
        raise DataError(
            f"none of {facts.n_unique(['case_id', 'kind', 'number'])} neighbours has scores, dist and popularity"
            f"{f' ({lacking} of none is known)' if lacking else ''}; bins of bleedover need all "
            "three, so take a data set that states dist and popularity"
        )
    known = known.with_columns(
        (1.0 - pl.col("dist")).alias("similarity"),
        (pl.col("before") - pl.col("after")).clip(lower_bound=0.0).alias("loss"),
    )
    distinct = known.unique(
        ["case_id", "kind", "number", "similarity", "popularity"], keep="first", maintain_order=True
    )
    for name, count in (("similarity", similarity_bins), ("popularity", popularity_bins)):
        edges, number = _binned(known[name], distinct[name], count)
        known = known.with_columns(
            pl.Series(f"{name}_bin", number + 1, pl.Int64),
            pl.Series(f"{name}_low", edges[number]),
            pl.Series(f"{name}_high", edges[number + 1]),
        )
    overall = pl.col("loss").mean().over("mode", *METHOD)
    bins = [f"{name}_{part}" for name in ("similarity", "popularity") for part in ("bin", "low", "high")]
    return (
        known.with_columns(overall.alias("overall"))
        .group_by("mode", *METHOD, *bins, maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("loss").mean().alias("bleedover"), pl.col("overall").first())
        .with_columns(pl.when(pl.col("overall") > 0).then(pl.col("bleedover") / pl.col("overall")).alias("normalised"))
        .drop("overall")
        .pipe(in_order, facts, "similarity_bin", "popularity_bin")
    )


def by_popularity(metrics: pl.DataFrame, *, bins: int = 5) -> pl.DataFrame:
    """`summarise` of the updates in each bin of their subject's popularity, the least popular first.

    metrics: from `update_metrics`. Updates without a popularity are left out. Bins are quantile bins of the updates,
    the same for all methods, as of `bleedover_bins`. Returns the columns of `summarise` behind ``popularity_bin``,
    ``popularity_low`` and ``popularity_high``. Raises `DataError` where no popularity is known, `ConfigError` for no
    bins. Source: WikiFactDiff, A.1, which gives each subject its popularity for this.
    """
    _check_bins(bins=bins)
    known = metrics.drop_nulls("popularity")
    if not known.height:
        raise DataError(
            f"the popularity of none of {metrics.n_unique(['mode', 'case_id']) if metrics.height else 0} subjects is "
            "known; success by popularity needs updates that state it (subject_popularity)"
        )
    distinct = known.unique(["mode", "case_id"], maintain_order=True)
    edges, number = _binned(known["popularity"], distinct["popularity"], bins)
    parts = [
        summarise(known.filter(pl.Series(number == place))).select(
            pl.lit(place + 1, pl.Int64).alias("popularity_bin"), pl.lit(edges[place]).alias("popularity_low"),
            pl.lit(edges[place + 1]).alias("popularity_high"), pl.all(),
        )
        for place in range(len(edges) - 1)
    ]  # fmt: skip
    return pl.concat(parts)


def bleedover_by_popularity(
    neighbours: pl.DataFrame, updates: pl.DataFrame | None = None, *, bins: int = 5
) -> pl.DataFrame:
    """Mean bleedover of neighbour facts by the popularity of their own subject, nearest and random facts apart.

    neighbours: the run's table; those without a popularity or a score are left out. Bins are quantile bins of the
    distinct neighbours of a kind, the same for all methods, as of `bleedover_bins`. The mean of a bin is over updates,
    of each update's mean over its neighbours there, with Student's 95 % interval over the subjects that ``updates``
    names (null of one).

    Returns the columns of `BY_POPULARITY_SCHEMA`, the least popular first; ``n`` counts neighbours. Raises `DataError`
    for a table that breaks its rules, `ConfigError` for no bins. Source: WikiFactDiff, 5.2.
    """
    _check_bins(bins=bins)
    facts = check_neighbours(neighbours)
    rows = []
    for (kind,), known in facts.drop_nulls(["before", "after", "popularity"]).group_by(["kind"], maintain_order=True):
        distinct = known.unique(["case_id", "number", "popularity"], keep="first", maintain_order=True)
        edges, number = _binned(known["popularity"], distinct["popularity"], bins)
        each = (
            known.with_columns(
                pl.Series("bin", number, pl.Int64),
                (pl.col("before") - pl.col("after")).clip(lower_bound=0.0).alias("loss"),
            )
            .group_by(*KEYS, "bin", maintain_order=True)
            .agg(pl.len().alias("n"), pl.col("loss").mean())
        )
        for (*method, place), group in each.group_by("mode", *METHOD, "bin", maintain_order=True):
            ends = interval_cells("bleedover", t_mean(group["loss"].to_numpy(), subjects_of(group, updates)))
            rows.append((*method, kind, place + 1, edges[place], edges[place + 1], group["n"].sum(), group.height,
                         group["loss"].mean(), *ends.values()))  # fmt: skip
    return in_order(pl.DataFrame(rows, schema=BY_POPULARITY_SCHEMA, orient="row"), facts, "kind", "popularity_bin")


def _check_bins(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count}; it must be 1 or more")


def _binned(values: pl.Series, distinct: pl.Series, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges of at most ``count`` quantile bins of the distinct values, each of which holds something, and the number,
    from 0, of the bin of each of the values."""
    known = distinct.to_numpy()
    inner = np.quantile(known, np.arange(1, count) / count, method="higher")
    edges = np.concatenate([[known.min()], np.unique(inner[inner > known.min()]), [known.max()]])
    return edges, np.searchsorted(edges[1:-1], values.to_numpy(), side="right")
