"""Two runs on the same facts: chat against raw text, with a prefix against without, models against a baseline."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    LEVEL,
    LEVEL_WORD,
    POOLED_RUN,
    RIGHT,
    RUN_WORDS,
    Analysis,
    Chart,
    InPaper,
    Need,
)
from anachron.analysis.analyses.crossed import SUCCESSION, SUCCESSIONS, of_study
from anachron.analysis.findings import FEW, SIGNIFICANCE, Rows, Run, about, below, difference, same, widest
from anachron.analysis.metrics import GLOBAL, RUN_KEYS, RunKey, is_run, run_keys
from anachron.analysis.over_models import average, single_models
from anachron.analysis.pairs import baseline_pairs, format_pairs, paired, prefix_pairs
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import prefix_name
from anachron.analysis.statistics import interval_cells, korn_graubard_difference, mcnemar, sign_flips
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES

CROSSED_SCHEMA: dict[str, type[pl.DataType]] = {"successions": pl.Int64} | dict.fromkeys(
    ("against_crossed", "crossed", "crossed_difference", "crossed_difference_low", "crossed_difference_high",
     "crossed_difference_p"), pl.Float64,
)  # fmt: skip


def compare(
    facts: pl.DataFrame, pairs: Sequence[tuple[RunKey, RunKey]], crossed: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Differences second minus first on the facts that both runs have, at each granularity and global.

    crossed: pairs of objects (`anachron.crossed_matches`), for the same differences of crossed matches on the pairs
    that both runs have.

    Per pair and granularity: the keys of both (``against_...`` is the first), ``models`` (1), ``facts``, mean W and R
    of each, ``win_rate_difference`` and ``robustness_difference`` with interval (`korn_graubard_difference`) and p
    (`sign_flips`), both over subjects (``..._difference_low, _high, _p``), ``gained`` and ``lost`` (facts robust in one
    of the two only) and McNemar's exact p of them; ``successions`` (subjects and relations that both have pairs of
    objects of), the mean share of crossed matches of each run, and their ``crossed_difference`` likewise, null of none.
    """
    rows: list[dict[str, Any]] = []
    for first, second in pairs:
        both = paired(facts, first, second)
        for granularity in (*GRANULARITIES, GLOBAL):
            group = both.filter(pl.col("granularity") == granularity)
            if not group.height:
                continue
            row: dict[str, Any] = dict(zip(RUN_KEYS, second, strict=True))
            row |= dict(zip([f"against_{k}" for k in RUN_KEYS], first, strict=True))
            row |= {"granularity": granularity, "models": 1, "facts": group.height}
            subjects = group["subject"].to_numpy()
            for name in ("win_rate", "robustness"):
                before, after = group[name].to_numpy(), group[f"{name}_second"].to_numpy()
                row |= {f"against_{name}": before.mean(), name: after.mean()}
                row |= {f"{name}_difference": (after - before).mean()}
                row |= interval_cells(f"{name}_difference", korn_graubard_difference(before, after, subjects))
                row |= {f"{name}_difference_p": sign_flips(before, after, subjects)}
            gained = int(((group["robustness"] == 0) & (group["robustness_second"] == 1)).sum())
            lost = int(((group["robustness"] == 1) & (group["robustness_second"] == 0)).sum())
            row |= {"gained": gained, "lost": lost, "mcnemar_p": mcnemar(gained, lost)}
            rows.append(row | _crossed_difference(crossed, first, second, granularity))
    return pl.DataFrame(rows, schema_overrides=CROSSED_SCHEMA if rows else None, infer_schema_length=None)


def _crossed_difference(pairs: pl.DataFrame | None, first: RunKey, second: RunKey, granularity: str) -> dict[str, Any]:
    """Cells of `CROSSED_SCHEMA`: each pair of objects counts once in its succession, and each succession once."""
    none: dict[str, Any] = dict.fromkeys(CROSSED_SCHEMA) | {"successions": 0}
    if pairs is None:
        return none
    of_level = pairs.filter(pl.col("granularity") == granularity)
    one, two = (of_level.filter(is_run(key)) for key in (first, second))
    objects = ["of_subject", "of_relation", "object_label", "other_label"]
    both = one.with_columns(*SUCCESSION).join(two.with_columns(*SUCCESSION), on=objects, suffix="_second")
    each = both.group_by(objects[:2], maintain_order=True).agg(pl.col("crossed", "crossed_second").mean())
    if not each.height:
        return none
    before, after, subjects = (each[name].to_numpy() for name in ("crossed", "crossed_second", "of_subject"))
    found: dict[str, Any] = {"successions": each.height, "against_crossed": before.mean(), "crossed": after.mean()}
    found |= {"crossed_difference": (after - before).mean()}
    found |= interval_cells("crossed_difference", korn_graubard_difference(before, after, subjects))
    return found | {"crossed_difference_p": sign_flips(before, after, subjects)}


def draw_formats(table: pl.DataFrame) -> "style.Figure":
    """W and R of each model in raw text and in chat, over all granularities, and the paired differences.

    The intervals are those of the differences: both formats are asked about the same facts. Rows by R in raw text.
    Source: TimeStress, figure 5; TimeStress v1, figure 5.
    """
    rows, granularity_name = style.one_granularity(style.check("formats", table, *style.SCORES))
    rows = rows.sort("against_robustness", descending=True, maintain_order=True)
    labels = style.run_labels(rows, "prefix")
    places = np.arange(len(labels))
    height = marks.rows_height(labels, least=0.22) + 0.95
    widths = {"width_ratios": [1.2, 1, 1.2, 1]}
    with style.sheet(style.PAGE, height, 1, 4, sharey=True, gridspec_kw=widths) as (figure, axes):
        for (score, name), (panel, beside) in zip(style.SCORES.items(), (axes[0, :2], axes[0, 2:]), strict=True):
            for between in (panel, beside):
                marks.name_rows(between, labels)
            marks.dots(panel, places - 0.15, rows[f"against_{score}"], style.FORMATS["raw"], label="raw text")
            marks.dots(panel, places + 0.15, rows[score], style.FORMATS["chat"], label="chat")
            panel.set_xlabel(name)
            marks.at_least(panel, 0.1, within=(-0.02, 1.02))
            marks.in_percent(panel)
            marks.reference(beside, 0)
            marks.dots(
                beside, places, rows[f"{score}_difference"], style.Look(style.BLACK, "D"),
                low=rows[f"{score}_difference_low"], high=rows[f"{score}_difference_high"], label="chat minus raw text",
            )  # fmt: skip
            beside.set_xlabel("difference (points)")
            marks.at_least(beside, 0.1)
            marks.in_percent(beside, points=True)
        figure.suptitle(granularity_name, x=0.01, ha="left", fontsize=7.5)
        marks.legend(figure)
    return figure


def draw_prefixes(table: pl.DataFrame) -> "style.Figure":
    """Differences in W and R that a prefix makes, with intervals, at each granularity.

    Source: TimeStress, figure 10; TimeStress v1, section 4.6.
    """
    rows = _with_differences("prefixes", table)
    labels = zip(style.run_labels(rows, "format"), rows["prefix"], strict=True)
    return _differences(rows, [f"{label}, {prefix}" for label, prefix in labels], "no prefix")


def draw_comparison(table: pl.DataFrame) -> "style.Figure":
    """Differences in W and R of every model from the baseline, with intervals, at each granularity."""
    rows = _with_differences("comparison", table)
    return _differences(rows, style.run_labels(rows, "format", "prefix"), rows["against_model"][0])


def _with_differences(name: str, table: pl.DataFrame) -> pl.DataFrame:
    return style.check(name, table, *(f"{score}_difference" for score in style.SCORES))


def _differences(rows: pl.DataFrame, labels: list[str], against: str) -> "style.Figure":
    """rows: with both differences. labels: of each of them."""
    order = list(dict.fromkeys(labels))
    named = rows.with_columns(pl.Series("row", [order.index(label) for label in labels]))
    granularities = style.in_order(rows["granularity"], list(style.GRANULARITIES))
    height = marks.rows_height(order, least=0.09 * len(granularities) + 0.06) + 0.95
    with style.sheet(style.PAGE, height, 1, 2, sharey=True) as (figure, axes):
        for panel, (score, score_name) in zip(axes.flat, style.SCORES.items(), strict=True):
            marks.name_rows(panel, order)
            marks.reference(panel, 0)
            marks.by_granularity(panel, named, f"{score}_difference", granularities)
            panel.set_xlabel(f"difference in {score_name} (points)")
            marks.in_percent(panel, points=True)
            marks.at_least(panel, 0.1)
        figure.suptitle(f"against {style.folded(against, 110)}", x=0.01, ha="left", fontsize=7.5)
        marks.legend(figure)
    return figure


def difference_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    """Differences of two runs, as points of a share, with a line where there is none."""
    zero = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": 0, "y1": 0, "line": {"color": "@ink", "width": 1}}
    views = []
    for score, name in charts.NAMES.items():
        shown = single_models(table).rename({f"{score}_difference_low": "low", f"{score}_difference_high": "high"})
        drawn = charts.by_granularity(
            shown, looks, value=f"{score}_difference", low="low", high="high", label=name, title=f"difference of {name}"
        )
        for trace, (key, group) in zip(drawn["data"], charts.by_run(shown), strict=True):
            against = looks.name([group[f"against_{k}"][0] for k in RUN_KEYS])
            trace["name"] = escape(f"{looks.name(key)} against {against}", quote=False)
        upright = charts.axis(f"difference of {name}", tickformat="+.0%")
        drawn["layout"] |= {"shapes": [zero], "showlegend": True, "yaxis": upright}
        views.append(drawn)
    return views


def _compare(study: Study, pairs: Sequence[tuple[RunKey, RunKey]]) -> pl.DataFrame:
    return compare(study.facts, pairs, study.once(of_study) if SUCCESSIONS.missing(study) is None else None)


def _compare_and_average(study: Study, pairs: Sequence[tuple[RunKey, RunKey]]) -> pl.DataFrame:
    averaged = average(study.facts, pairs, resamples=study.resamples, seed=study.seed)
    return pl.concat([_compare(study, pairs), averaged], how="diagonal") if averaged.height else _compare(study, pairs)


def _pairs_with_baseline(study: Study) -> list[tuple[RunKey, RunKey]]:
    return baseline_pairs(run_keys(study.facts), study.baseline)


def _both_formats(study: Study) -> str | None:
    return None if format_pairs(run_keys(study.facts)) else "no model has both raw and chat scores"


def _prefixes(study: Study) -> str | None:
    return None if prefix_pairs(run_keys(study.facts)) else "no model has scores both with and without a prefix"


def _against_baseline(study: Study) -> str | None:
    if _pairs_with_baseline(study):
        return None
    if study.baseline is None:
        return "there is only one model in each format and prefix"
    return f"the baseline {study.baseline} has no run in the format and prefix of another model"


WITH_AND_WITHOUT_PREFIX = Need("scores of one model with and without a prefix", _prefixes)
COLUMNS = {
    **POOLED_RUN,
    "against_model": "model of the run compared with",
    "against_format": "its format",
    "against_prefix": "its prefix",
    **LEVEL,
    "models": "models in the mean; 1 in the row of a single model",
    "facts": "facts that both runs have",
    "against_win_rate": "mean W of the other run",
    "win_rate": "mean W of this run",
    "win_rate_difference": "mean W of this run minus that of the other",
    "win_rate_difference_low": "lower end of the difference's 95 % interval, paired by fact, over subjects; "
    "of several models over subjects and models",
    "win_rate_difference_high": "its upper end",
    "win_rate_difference_p": "p value for no difference, by flipping the signs of subjects; empty of several models",
    "against_robustness": "mean R of the other run",
    "robustness": "mean R of this run",
    "robustness_difference": "mean R of this run minus that of the other",
    "robustness_difference_low": "lower end of the difference's 95 % interval",
    "robustness_difference_high": "its upper end",
    "robustness_difference_p": "p value for no difference, by flipping the signs of subjects",
    "gained": "facts robust in this run only",
    "lost": "facts robust in the other run only",
    "mcnemar_p": "exact p value of McNemar's test of gained against lost, as if facts were independent",
    "successions": "subjects and relations that both runs have crossed matches of",
    "against_crossed": "mean share of crossed matches won by the other run",
    "crossed": "mean share of crossed matches won by this run",
    "crossed_difference": "mean share of crossed matches won by this run minus that of the other",
    "crossed_difference_low": "lower end of the difference's 95 % interval, paired by pair of objects, over subjects",
    "crossed_difference_high": "its upper end",
    "crossed_difference_p": "p value for no difference, by flipping the signs of subjects",
}

DIFFERENCES = {
    "facts": "facts", "win_rate": "W (%)", "win_rate_difference": "W diff. (points)", "win_rate_difference_p": "p of W",
    "robustness": "R (%)", "robustness_difference": "R diff. (points)", "mcnemar_p": "p of R (McNemar)",
}  # fmt: skip


def _raw_and_chat_finding(rows: Rows, run: Run) -> str | None:
    kept = same(rows, run, "model", "prefix")
    return None if not kept else about(rows, run, difference("in chat, W is", widest(kept), "that in raw text"))


RAW_AND_CHAT = Analysis(
    name="formats",
    group=RIGHT,
    title="Chat format compared with raw text",
    source="TimeStress, figure 5; TimeStress v1, figure 5",
    compute=lambda study: _compare_and_average(study, format_pairs(run_keys(study.facts))),
    beside=_raw_and_chat_finding,
    columns=COLUMNS,
    needs=(Need("raw and chat scores of one model", _both_formats),),
    empty="no fact has scores both raw and in chat",
    figure=draw_formats,
    chart=Chart(difference_views, f"Chat minus raw: above the line, chat is better. {charts.INTERVALS}"),
    paper=InPaper(words={"model": "model", "prefix": "prefix", **LEVEL_WORD}, numbers=DIFFERENCES),
)


def _prefixes_finding(rows: Rows, run: Run) -> str | None:
    """Of several prefixes how many raise and how many lower W, each by a test at a level divided by their number."""
    kept = same(rows, run, "model", "format")
    by_prefix: dict[str, Rows] = {}
    for row in kept:
        by_prefix.setdefault(row["prefix"], []).append(row)
    of_each = [widest(of_prefix) for of_prefix in by_prefix.values()]
    if not of_each:  # other models have prefixes, this one has none
        return None
    if len(of_each) == 1:
        name = prefix_name(of_each[0]["prefix"])
        return about(rows, run, difference(f"with {name}, W is", of_each[0], "that without"))
    level = SIGNIFICANCE / len(of_each)
    sure = [row for row in of_each if below(row["win_rate_difference_p"], level) and row["facts"] >= FEW]
    if not sure:
        return None
    up, down = ([row["prefix"] for row in sure if row["win_rate_difference"] * sign > 0] for sign in (1, -1))
    effects = [
        f"{', '.join(names)} {verb}{'s' if len(names) == 1 else ''} W"
        for names, verb in ((up, "raise"), (down, "lower"))
        if names
    ]
    return about(rows, run, f"of {len(of_each)} prefixes, {' and '.join(effects)}")


PREFIXES = Analysis(
    name="prefixes",
    group=RIGHT,
    title="W and R with a prefix compared with none",
    source="TimeStress, figure 10; TimeStress v1, section 4.6",
    compute=lambda study: _compare_and_average(study, prefix_pairs(run_keys(study.facts))),
    beside=_prefixes_finding,
    columns=COLUMNS,
    needs=(WITH_AND_WITHOUT_PREFIX,),
    empty="no fact has scores both with a prefix and without",
    figure=draw_prefixes,
    chart=Chart(
        difference_views, f"With minus without the prefix: above the line, the prefix helps. {charts.INTERVALS}"
    ),
    paper=InPaper(words={**RUN_WORDS, **LEVEL_WORD}, numbers=DIFFERENCES),
)


def _comparison_finding(rows: Rows) -> str | None:
    row = widest(rows)
    against = ", ".join(
        [row["against_model"], *(row[f"against_{key}"] for key in RUN_KEYS[1:] if row[f"against_{key}"] != row[key])]
    )
    return difference("W is", row, f"that of {against}")


COMPARISON = Analysis(
    name="comparison",
    group=RIGHT,
    title="Every model compared with the baseline, on the same facts",
    source="beyond the papers",
    compute=lambda study: _compare(study, _pairs_with_baseline(study)),
    finding=_comparison_finding,
    columns=COLUMNS,
    needs=(Need("two models in the same format and prefix, one of them the baseline", _against_baseline),),
    empty="no model has a fact in common with the baseline",
    figure=draw_comparison,
    chart=Chart(difference_views, f"Each model minus the baseline, on the same facts. {charts.INTERVALS}"),
    paper=InPaper(words={**RUN_WORDS, "against_model": "against", **LEVEL_WORD}, numbers=DIFFERENCES),
)
