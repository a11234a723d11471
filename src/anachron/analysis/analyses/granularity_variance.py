"""Whether a prefix makes granularities more alike (TimeStress v1, section 4.6 and figure 6)."""

from math import isnan
from typing import Any

import polars as pl

from anachron.analysis.analyses.analysis import POOLED_RUN, RUN_WORDS, WRONG, Analysis, Chart, InPaper
from anachron.analysis.analyses.comparison import WITH_AND_WITHOUT_PREFIX
from anachron.analysis.findings import FEW, Rows, Run, about, same
from anachron.analysis.metrics import POOLED, RUN_KEYS, is_run, run_keys
from anachron.analysis.over_models import mean_over_models, single_models
from anachron.analysis.pairs import prefix_pairs
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import prefix_name
from anachron.analysis.statistics import RESAMPLES, bootstrap_ratio
from anachron.core.dates import GRANULARITIES


def granularity_variance(facts: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Mean variance of R between the granularities of a fact, with a prefix over without it (below 1: reduced).

    The variance is that of three numbers (divisor 3), the mean is over facts that have all three in both runs, the
    interval resamples subjects. Of several models there is a row for their mean ratio too, whose interval resamples
    subjects and models. Returns RUN_KEYS, ``models, facts, variance, variance_without, ratio, low, high,
    published_ratio, published_low, published_high``; a ratio is null where its divisor is 0. Source: TimeStress v1,
    section 4.6 and figure 6, which divide the other way round: without by with (``published_ratio``).
    """
    wide = (
        facts.filter(pl.col("granularity").is_in(list(GRANULARITIES)))
        .group_by([*RUN_KEYS, "fact_id", "subject"], maintain_order=True)
        .agg(pl.col("robustness").var(ddof=0).alias("variance"), pl.len().alias("n"))
        .filter(pl.col("n") == len(GRANULARITIES))
    )
    rows: list[dict[str, Any]] = []
    of_groups: dict[tuple[str, str], list[pl.DataFrame]] = {}  # what the mean over models is of, by format and prefix
    for first, second in prefix_pairs(run_keys(facts)):
        one, two = (wide.filter(is_run(key)).select("fact_id", "subject", "variance") for key in (first, second))
        both = one.join(two.drop("subject"), on="fact_id", suffix="_with", maintain_order="left")
        if not both.height:
            continue
        both = both.with_columns(model=pl.lit(second[0]))
        of_groups.setdefault(second[1:], []).append(both)
        rows.append(dict(zip(RUN_KEYS, second, strict=True)) | {"models": 1} | _ratios(both, resamples, seed))
    for group, tables in of_groups.items():
        if len(tables) > 1:
            averaged = _ratios(pl.concat(tables), resamples, seed)
            rows.append(dict(zip(RUN_KEYS, (POOLED, *group), strict=True)) | {"models": len(tables)} | averaged)
    return pl.DataFrame(rows, infer_schema_length=None)


def _ratios(both: pl.DataFrame, resamples: int, seed: int) -> dict[str, Any]:
    """Cells of a row: means, ratios and intervals, of one model or of several.

    both: ``fact_id, subject, variance, variance_with, model``.
    """
    without, having = both["variance"].to_numpy(), both["variance_with"].to_numpy()
    subjects = both["subject"].to_numpy()
    row: dict[str, Any] = {"facts": both["fact_id"].n_unique()}
    row |= {"variance": float(having.mean()), "variance_without": float(without.mean())}
    several = both["model"].n_unique() > 1
    for name, over, under in (("", having, without), ("published_", without, having)):
        found: tuple[float | None, ...] = (None, None, None)
        if several:
            models = both["model"].to_numpy()
            found = tuple(
                None if isnan(one) else one
                for one in mean_over_models(over, under, subjects, models, resamples=resamples, seed=seed)
            )
        elif under.sum() > 0:
            low, high = bootstrap_ratio(over[:, None], under[:, None], subjects, resamples=resamples, seed=seed)
            found = (float(over.sum() / under.sum()), float(low[0]), float(high[0]))
        row |= dict(zip((f"{name}ratio", f"{name}low", f"{name}high"), found, strict=True))
    return row


def draw(table: pl.DataFrame) -> "style.Figure":
    """Variance of R between granularities with a prefix over that without, with intervals; left of 1 it is reduced.

    Source: TimeStress v1, figure 6.
    """
    rows = style.check("granularity_variance", table, "ratio")
    labels = style.run_labels(rows, "format")
    order = list(dict.fromkeys(labels))
    named = rows.with_columns(pl.Series("row", [order.index(label) for label in labels]))
    prefixes = list(dict.fromkeys(rows["prefix"]))
    width = style.COLUMN if max(map(len, order)) <= 20 else style.PAGE
    height = marks.rows_height(order, least=0.1 + 0.1 * len(prefixes)) + 0.55 + marks.legend_height(prefixes, width)
    with style.sheet(width, height) as (figure, axes):
        panel = axes[0, 0]
        marks.name_rows(panel, order)
        marks.reference(panel, 1)
        for number, (prefix, offset) in enumerate(zip(prefixes, marks.spread(len(prefixes)), strict=True)):
            of_prefix = named.filter(pl.col("prefix") == prefix)
            marks.dots(
                panel, of_prefix["row"] + offset, of_prefix["ratio"], style.look(number), label=f"prefix {prefix}",
                low=of_prefix["low"], high=of_prefix["high"],
            )  # fmt: skip
        marks.at_least(panel, 0.5)
        panel.set_xlabel("variance of R between granularities,\nwith the prefix / without")
        marks.legend(figure)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    shown = single_models(table).drop_nulls("ratio")
    if not shown.height:
        return []
    title = "variance of R between granularities, with the prefix over without"
    return [charts.row_a_run(shown, looks, value="ratio", low="low", high="high", title=title, rangemode="tozero")]


def _granularity_variance_finding(rows: Rows, run: Run) -> str | None:
    """Of several prefixes only what the intervals of all of them say."""
    kept = [row for row in same(rows, run, "model", "format") if row["ratio"] is not None and row["low"] is not None]
    kept = [row for row in kept if row["facts"] >= FEW]
    sides = {"more alike" if row["high"] < 1 else "less alike" if row["low"] > 1 else None for row in kept}
    if len(sides) != 1 or None in sides:
        return None
    (side,) = sides
    if len(kept) > 1:
        return about(rows, run, f"with each of {len(kept)} prefixes, R by year, month and day is {side}")
    (row,) = kept
    share = f"{row['ratio']:.2f} times that without ({row['low']:.2f} to {row['high']:.2f})"
    name = prefix_name(row["prefix"])
    return about(rows, run, f"with {name}, R by year, month and day is {side}: its variance is {share}")


GRANULARITY_VARIANCE = Analysis(
    name="granularity_variance",
    group=WRONG,
    title="Variance of R between granularities, ratio with to without a prefix",
    source="TimeStress v1, figure 6",
    compute=lambda study: granularity_variance(study.facts, resamples=study.resamples, seed=study.seed),
    needs=(WITH_AND_WITHOUT_PREFIX,),
    empty="no fact has matches at year, month and day both with a prefix and without",
    figure=draw,
    chart=Chart(page_views, "Below 1, the prefix makes granularities more alike."),
    beside=_granularity_variance_finding,
    columns={
        **POOLED_RUN,
        "models": "models in the mean; 1 in the row of a single model",
        "facts": "facts with all three granularities in both runs",
        "variance": "mean over facts of the variance of R between granularities, with the prefix",
        "variance_without": "the same without the prefix",
        "ratio": "variance / variance_without; below 1: the prefix reduced it; empty if variance_without is 0; of "
        "several models the mean of theirs",
        "low": "lower end of the 95 % interval, over subjects; of several models over subjects and models",
        "high": "its upper end",
        "published_ratio": "variance_without / variance, as the paper divides; empty if variance is 0",
        "published_low": "lower end of its 95 % interval",
        "published_high": "its upper end",
    },
    paper=InPaper(
        words=RUN_WORDS,
        numbers={"facts": "facts", "variance": "with prefix", "variance_without": "without", "ratio": "ratio"},
    ),
)
