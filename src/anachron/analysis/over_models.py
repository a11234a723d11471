"""A mean over models, with an interval over facts and models: what papers say of models "on average".

The models of a study are few and not a random sample, but who reads "on average" means other models too: the interval
draws models as it draws the subjects of facts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.metrics import GLOBAL, POOLED, RUN_KEYS, RunKey
from anachron.analysis.pairs import paired
from anachron.analysis.statistics import ENDS, RESAMPLES, Labels, interval_cells
from anachron.core.dates import GRANULARITIES


def mean_over_models(
    over: np.ndarray, under: np.ndarray, subjects: Labels, models: Labels, *,
    resamples: int = RESAMPLES, seed: int = 0,
) -> tuple[float, float, float]:  # fmt: skip
    """Mean over models of each model's total of ``over`` by its total of ``under``, and its bootstrap interval.

    over, under: a value for each fact of each model (rows); where ``under`` is 1 the ratio is the mean of ``over``.
    subjects, models: of each row. A resample draws subjects with replacement and, apart from them, models; all rows of
    a drawn subject come with it, as often as both were drawn (Owen 2007, *The pigeonhole bootstrap*). A model whose
    ratio cannot be formed, for a total of 0, is left out, in a resample too. Returns mean, low and high; NaN where no
    model has a ratio, and no interval of fewer than two models with one.
    """
    names, column = np.unique(np.asarray(models, str), return_inverse=True)
    units, row = np.unique(np.asarray(subjects, str), return_inverse=True)
    totals = np.zeros((2, len(units), len(names)))  # over and under, of each subject and model
    for total, values in zip(totals, (over, under), strict=True):
        np.add.at(total, (row, column), np.asarray(values, float))
    whole = totals.sum(axis=1)
    known = whole[1] > 0
    if not known.any():
        return np.nan, np.nan, np.nan
    mean = float(np.mean(whole[0, known] / whole[1, known]))
    if known.sum() < 2:
        return mean, np.nan, np.nan
    totals, random, means = totals[:, :, known], np.random.default_rng(seed), []
    for _ in range(resamples):
        drawn = np.bincount(random.integers(len(units), size=len(units)), minlength=len(units))
        of_models = drawn @ totals  # (2, models)
        chosen = random.integers(totals.shape[2], size=totals.shape[2])
        upper, lower = of_models[:, chosen]
        if (lower > 0).any():
            means.append(float(np.mean(upper[lower > 0] / lower[lower > 0])))
    low, high = np.quantile(means, ENDS) if means else (np.nan, np.nan)
    return mean, float(low), float(high)


def average(facts: pl.DataFrame, pairs: Sequence[tuple[RunKey, RunKey]], *, resamples: int, seed: int) -> pl.DataFrame:
    """Of pairs of runs, the mean over models of each format and prefix that several models have a pair in.

    Columns as of ``compare``. Means are over models, each over its own facts; ``facts``: that any of them has,
    ``gained`` and ``lost``: of all models together. Intervals resample subjects and models (`mean_over_models`). There
    is no p, and no crossed matches.
    Source: TimeStress, 4.1 ("on average, robustness decreases").
    """
    groups: dict[tuple[str, ...], list[tuple[RunKey, RunKey]]] = {}
    for first, second in pairs:
        groups.setdefault((*first[1:], *second[1:]), []).append((first, second))
    rows: list[dict[str, Any]] = []
    for of_group in groups.values():
        tables = [paired(facts, *pair).with_columns(model=pl.lit(pair[1][0])) for pair in of_group]
        both, first, second = pl.concat(tables), (POOLED, *of_group[0][0][1:]), (POOLED, *of_group[0][1][1:])
        for granularity in (*GRANULARITIES, GLOBAL):
            group = both.filter(pl.col("granularity") == granularity)
            if group["model"].n_unique() < 2:
                continue
            row: dict[str, Any] = dict(zip(RUN_KEYS, second, strict=True))
            row |= dict(zip([f"against_{k}" for k in RUN_KEYS], first, strict=True)) | {"granularity": granularity}
            row |= {"models": group["model"].n_unique(), "facts": group["fact_id"].n_unique()}
            subjects, models, ones = group["subject"].to_numpy(), group["model"].to_numpy(), np.ones(group.height)
            for name in ("win_rate", "robustness"):
                before, after = group[name].to_numpy(), group[f"{name}_second"].to_numpy()
                means = group.group_by("model").agg(pl.col(name, f"{name}_second").mean())
                row |= {f"against_{name}": means[name].mean(), name: means[f"{name}_second"].mean()}
                mean, *ends = mean_over_models(after - before, ones, subjects, models, resamples=resamples, seed=seed)
                row |= {f"{name}_difference": mean} | interval_cells(f"{name}_difference", (ends[0], ends[1]))
            gained = int(((group["robustness"] == 0) & (group["robustness_second"] == 1)).sum())
            lost = int(((group["robustness"] == 1) & (group["robustness_second"] == 0)).sum())
            rows.append(row | {"gained": gained, "lost": lost, "successions": 0})
    return pl.DataFrame(rows, infer_schema_length=None)


def single_models(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of single models, without those of means over them."""
    return table.filter(pl.col("model") != POOLED)
