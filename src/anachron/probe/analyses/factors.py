"""What W and R go with: popularity, distance from the present, duration, other objects, relation, size.

Sources: paper 002, figures 11, 13, 16 and 18 and section 4.2; paper 001, figures 7 and 8.
"""

from math import log
from typing import Any

import numpy as np
import polars as pl

from anachron.core.dates import DAYS_A_YEAR, Date
from anachron.metrics import RUN_KEYS
from anachron.statistics import RESAMPLES, bootstrap_ratio, pearson

BINS = 10
FLAT = 1e-9  # a slope of R per tenfold size below this is rounding, not growth
SCORES = ("win_rate", "robustness")
CONFOUNDED = {("log_duration", "robustness")}  # a longer fact has more matches to lose (paper 002, figure 18)


def factors(about: pl.DataFrame, present: int = 2021) -> pl.DataFrame:
    """Numbers that describe a fact, one row each: ``fact_id, factor, value`` (only those that are known).

    ``log_popularity`` of the fact, its subject and its object (natural logarithm, of visits above 0) and the plain
    values; ``log_distance`` is ln(present - start year), ``log_duration`` ln(years), ``other_objects`` a count.
    """
    rows: list[tuple[str, str, float]] = []
    for row in about.iter_rows(named=True):
        found: dict[str, float] = {}
        for name in ("popularity", "subject_popularity", "object_popularity"):
            if row[name] is not None:
                found[name] = row[name]
                if row[name] > 0:
                    found[f"log_{name}"] = log(row[name])
        if row["start"] is not None and row["end"] is not None:
            start, end = Date.parse(row["start"]), Date.parse(row["end"])
            if present > start.year:
                found["log_distance"] = log(present - start.year - (start.year < 0))  # there is no year 0
            found["log_duration"] = log((end.last_day - start.first_day + 1) / DAYS_A_YEAR)
        if row["other_objects"] is not None:
            found["other_objects"] = row["other_objects"]
        rows += [(row["fact_id"], name, value) for name, value in found.items()]
    return pl.DataFrame(rows, schema={"fact_id": pl.String, "factor": pl.String, "value": pl.Float64}, orient="row")


def _with_scores(values: pl.DataFrame, together: pl.DataFrame) -> pl.DataFrame:
    """One row per run, fact, factor and score (global W or R)."""
    long = together.unpivot(SCORES, index=[*RUN_KEYS, "fact_id"], variable_name="score", value_name="of_score")
    joined = values.join(long, on="fact_id", maintain_order="left_right")
    confounded = [(pl.col("factor") == f) & (pl.col("score") == s) for f, s in CONFOUNDED]
    return joined.filter(~pl.any_horizontal(confounded))


def correlations(values: pl.DataFrame, together: pl.DataFrame, top: pl.DataFrame) -> pl.DataFrame:
    """Pearson's r of each factor with global W and R over (model, format, fact).

    values: from `factors`; together: global rows of `fact_metrics` of runs without a prefix (with one, a model would
    count twice); top: the runs of the most robust models.
    ``models`` is all or top, ``format`` a format or all. Columns ``models, format, factor, score, n, facts, r, p,
    p_clustered``: p takes the pairs for independent, as the papers do, p_clustered lets those of one fact depend.
    """
    rows: list[dict[str, Any]] = []
    groups = {"all": together, "top": together.join(top, on=RUN_KEYS, how="semi", maintain_order="left")}
    for name, group in groups.items():
        for form in ("all", *group["format"].unique(maintain_order=True)):
            of_format = group if form == "all" else group.filter(pl.col("format") == form)
            pairs = _with_scores(values, of_format)
            for (factor, score), cell in pairs.group_by("factor", "score", maintain_order=True):
                found = pearson(cell["value"].to_numpy(), cell["of_score"].to_numpy(), cell["fact_id"].to_numpy())
                row = {"models": name, "format": form, "factor": factor, "score": score, "n": found.n}
                row |= {"facts": cell["fact_id"].n_unique(), "r": found.r, "p": found.p}
                rows.append(row | {"p_clustered": found.p_clustered})
    return pl.DataFrame(rows, infer_schema_length=None)


def factor_bins(
    values: pl.DataFrame,
    together: pl.DataFrame,
    top: pl.DataFrame,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pl.DataFrame:
    """Mean global W and R in up to ten groups of facts of like value (quantiles), over the runs of a format.

    ``models`` is all (paper 002, figure 13; paper 001, figure 8) or top, the most robust (002, figure 18). Facts of one
    value are never split. Columns ``models, format, factor, score, bin, value_low, value_high, value_mean, facts, mean,
    low, high``; the interval resamples facts.
    """
    rows: list[dict[str, Any]] = []
    chosen = {"all": together, "top": together.join(top, on=RUN_KEYS, how="semi", maintain_order="left")}
    cells = [(n, *key, g) for n, of in chosen.items() for key, g in of.group_by("format", maintain_order=True)]
    for name, form, group in cells:
        pairs = _with_scores(values, group)
        for (factor, score), cell in pairs.group_by("factor", "score", maintain_order=True):
            by_fact = cell.group_by("fact_id", "value", maintain_order=True).agg(
                pl.col("of_score").sum().alias("sum"), pl.len().alias("n")
            )
            edges = np.unique(np.quantile(by_fact["value"].to_numpy(), np.linspace(0, 1, BINS + 1)[1:-1]))
            groups = by_fact.with_columns(pl.Series("bin", np.searchsorted(edges, by_fact["value"], side="left")))
            for (number,), facts in groups.sort("bin", maintain_order=True).group_by("bin", maintain_order=True):
                sums, counts = facts["sum"].to_numpy()[:, None], facts["n"].to_numpy()[:, None]
                low, high = bootstrap_ratio(sums, counts, resamples=resamples, seed=seed)
                row = {"models": name, "format": form, "factor": factor, "score": score, "bin": int(number)}
                row |= {"value_low": facts["value"].min(), "value_high": facts["value"].max()}
                row |= {"value_mean": facts["value"].mean(), "facts": facts.height}
                rows.append(row | {"mean": sums.sum() / counts.sum(), "low": float(low[0]), "high": float(high[0])})
    return pl.DataFrame(rows, infer_schema_length=None)


def relations(
    about: pl.DataFrame, together: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0
) -> pl.DataFrame:
    """Mean global W and R of each relation over all given runs of a format, the most robust first.

    Columns ``format, rank, relation, facts, win_rate, robustness, low, high`` (of R; facts are resampled). Relations of
    one label and different ids are told apart by these. Source: paper 002, figure 16 (its ten highest).
    """
    several = pl.col("relation_id").drop_nulls().n_unique().over("relation_label") > 1
    told_apart = pl.format("{} ({})", "relation_label", pl.col("relation_id").fill_null("no id"))
    name = pl.when(several).then(told_apart).otherwise("relation_label").alias("relation")
    named = about.filter(pl.col("relation_label").is_not_null()).select("fact_id", name)
    joined = together.join(named, on="fact_id", maintain_order="left")
    rows: list[dict[str, Any]] = []
    for (form, relation), cell in joined.group_by("format", "relation", maintain_order=True):
        by_fact = cell.group_by("fact_id", maintain_order=True).agg(pl.col("robustness").sum(), pl.len().alias("n"))
        low, high = bootstrap_ratio(
            by_fact["robustness"].to_numpy()[:, None], by_fact["n"].to_numpy()[:, None], resamples=resamples, seed=seed
        )
        row: dict[str, Any] = {"format": form, "relation": relation, "facts": by_fact.height}
        row |= {"win_rate": cell["win_rate"].mean(), "robustness": cell["robustness"].mean()}
        rows.append(row | {"low": float(low[0]), "high": float(high[0])})
    table = pl.DataFrame(rows, infer_schema_length=None).sort(
        "format", "robustness", "win_rate", "relation", descending=[False, True, True, False]
    )
    ranked = table.with_columns(pl.int_range(1, pl.len() + 1).over("format").alias("rank"))
    return ranked.select("format", "rank", "relation", "facts", "win_rate", "robustness", "low", "high")


def sizes(summary: pl.DataFrame, models: pl.DataFrame) -> pl.DataFrame:
    """Global W and R with intervals beside the number of parameters, for models whose size is known.

    summary: from `anachron.metrics.summarise`. Columns ``family, parameters, instruct`` and those of the summary.
    """
    known = models.filter(pl.col("parameters").is_not_null()).select("model", "family", "parameters", "instruct")
    columns = ["win_rate", "win_rate_low", "win_rate_high", "robustness", "robustness_low", "robustness_high"]
    return (
        summary.filter(pl.col("granularity") == "global")
        .join(known, on="model", maintain_order="left")
        .select("family", *RUN_KEYS, "parameters", "instruct", "facts", *columns)
        .sort("family", "instruct", "parameters", maintain_order=True)
    )


def size_to_perfection(table: pl.DataFrame) -> pl.DataFrame:
    """The size at which a straight line of R over log10(parameters), fitted to a family, reaches 1.

    table: from `sizes`. One row per family, instruct or not, format and prefix with two sizes at least: ``models,
    slope`` (R per tenfold size), ``parameters_at_1`` (null where R does not grow). An extrapolation, as in paper 001,
    figure 7; two points make a line, not evidence.
    """
    rows: list[dict[str, Any]] = []
    keys = ["family", "instruct", "format", "prefix"]
    for key, group in table.filter(pl.col("family").is_not_null()).group_by(keys, maintain_order=True):
        if group["parameters"].n_unique() < 2:
            continue
        slope, start = np.polyfit(np.log10(group["parameters"].to_numpy()), group["robustness"].to_numpy(), 1)
        reached = float(10 ** min((1 - start) / slope, 300)) if slope > FLAT else None
        rows.append(
            dict(zip(keys, key, strict=True)) | {"models": group.height, "slope": slope, "parameters_at_1": reached}
        )
    return pl.DataFrame(rows, infer_schema_length=None)
