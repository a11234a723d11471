"""Whether models know the same facts (TimeStress, section 4.2)."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    ALL_GRANULARITIES,
    FORMAT_WORDS,
    OF_FORMAT,
    RIGHT,
    Analysis,
    Chart,
    InPaper,
    Need,
)
from anachron.analysis.findings import Rows, Run, same
from anachron.analysis.metrics import GLOBAL, RUN_KEYS, RunKey, run_keys
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import prefix_name
from anachron.analysis.study import Study

NARROW = 6  # models whose overlaps fit a column


def overlap(facts: pl.DataFrame, keys: Sequence[RunKey]) -> pl.DataFrame:
    """Jaccard index of the globally robust facts of every two of the given runs of one format and prefix.

    Over the facts for which both runs have a global row.

    Returns ``format, prefix, model, other, robust_both, robust_any, jaccard`` (null where neither has one).
    Source: TimeStress, section 4.2.
    """
    global_rows = facts.filter(pl.col("granularity") == GLOBAL)
    rated = {key: set(group["fact_id"]) for key, group in global_rows.group_by(RUN_KEYS)}
    robust = {
        key: set(group["fact_id"]) for key, group in global_rows.filter(pl.col("robustness") == 1).group_by(RUN_KEYS)
    }
    rows = []
    for one, two in combinations(keys, 2):
        asked = rated.get(one, set()) & rated.get(two, set())
        if one[1:] != two[1:] or not asked:
            continue
        known_to_one, known_to_two = (robust.get(key, set()) & asked for key in (one, two))
        both, either = len(known_to_one & known_to_two), len(known_to_one | known_to_two)
        row: dict[str, Any] = {"format": one[1], "prefix": one[2], "model": one[0], "other": two[0]}
        rows.append(row | {"robust_both": both, "robust_any": either, "jaccard": both / either if either else None})
    return pl.DataFrame(rows, infer_schema_length=None)


def shared_knowledge(facts: pl.DataFrame, all_keys: Sequence[RunKey], top_keys: Sequence[RunKey]) -> pl.DataFrame:
    """Mean Jaccard over pairs, and facts robust in all and in any of a group of models, per format and prefix.

    Groups: ``all`` models, and ``top``, the most robust. Returns ``format, prefix, group, models, pairs, mean_jaccard,
    robust_in_all, robust_in_any, share``; ``pairs`` counts those in the mean: without two that know nothing.
    Source: TimeStress, section 4.2.
    """
    global_rows = facts.filter((pl.col("granularity") == GLOBAL) & (pl.col("robustness") == 1))
    rows: list[dict[str, Any]] = []
    for name, keys in (("all", all_keys), ("top", top_keys)):
        for form, prefix in dict.fromkeys((f, p) for _, f, p in keys):
            member_keys = [key for key in keys if key[1:] == (form, prefix)]
            if len(member_keys) < 2:
                continue
            pairs = overlap(facts, member_keys)
            if not pairs.height:
                continue
            members = pl.DataFrame(member_keys, schema=RUN_KEYS, orient="row")
            times = global_rows.join(members, on=RUN_KEYS, how="semi").group_by("fact_id").len()
            in_all = int((times["len"] == len(member_keys)).sum())
            row: dict[str, Any] = {"format": form, "prefix": prefix, "group": name, "models": len(member_keys)}
            row |= {"pairs": pairs["jaccard"].count()}
            row |= {"mean_jaccard": pairs["jaccard"].mean(), "robust_in_all": in_all, "robust_in_any": times.height}
            rows.append(row | {"share": in_all / times.height if times.height else None})
    return pl.DataFrame(rows, infer_schema_length=None)


def draw(table: pl.DataFrame) -> "style.Figure":
    """Jaccard index, in per cent, of the globally robust facts of every two models of a format and prefix.

    Source: TimeStress, section 4.2.
    """
    style.check("overlap", table, "jaccard")
    panels = style.sections(table)
    orders = [list(dict.fromkeys([*part["model"], *part["other"]])) for _, part in panels]
    most = max(map(len, orders))
    heights = [marks.rows_height(order, least=0.24) for order in orders]
    size = (style.COLUMN if most <= NARROW else style.PAGE, sum(heights) + 0.45 * len(panels))
    with style.sheet(*size, len(panels), 1, gridspec_kw={"height_ratios": heights}) as (figure, axes):
        for panel, (title, part), order in zip(axes.flat, panels, orders, strict=True):
            values = np.full((len(order), len(order)), np.nan)
            texts = [[""] * len(order) for _ in order]
            for row in part.iter_rows(named=True):
                j, i = sorted((order.index(row["model"]), order.index(row["other"])))
                values[i, j] = np.nan if row["jaccard"] is None else row["jaccard"]
                texts[i][j] = "\N{EN DASH}" if row["jaccard"] is None else f"{100 * row['jaccard']:.0f}"
            marks.heat_map(panel, values, texts, aspect="auto")
            panel.set_title(title)
            panel.set_yticks(
                range(len(order)), [f"{style.folded(m, marks.LETTERS)}  {n}" for n, m in enumerate(order, 1)]
            )
            panel.set_xticks(range(len(order)), [str(n) for n in range(1, len(order) + 1)])
            panel.set_xlim(-0.5, most - 0.5)  # so that a model has the same width in all panels
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (form, prefix), group in charts.groups(table, "format", "prefix"):
        if not group["jaccard"].count():
            continue
        models = list(dict.fromkeys([*group["model"], *group["other"]]))
        pairs = {(m, o): (j, b) for m, o, j, b in group.select("model", "other", "jaccard", "robust_both").iter_rows()}
        grid = [[pairs.get((a, b)) or pairs.get((b, a)) or (None, None) for b in models] for a in models]
        trace = {
            "type": "heatmap", "x": charts.texts(models), "y": charts.texts(models),
            "zmin": 0, "zmax": 1, "colorscale": "Cividis",
            "z": [charts.numbers(cell[0] for cell in line) for line in grid],
            "text": [["" if cell[0] is None else f"{cell[0]:.2f}" for cell in line] for line in grid],
            "customdata": [[cell[1] for cell in line] for line in grid], "texttemplate": "%{text}",
            "hovertemplate": "%{y} and %{x}: %{z:.2f}, %{customdata} facts in common<extra></extra>",
        }  # fmt: skip
        axis = {"type": "category", "automargin": True}
        layout = {"rows": len(models), "xaxis": axis, "yaxis": axis | {"autorange": "reversed"}}
        views.append(charts.view(f"{form}, {prefix_name(prefix)}", [trace], **layout))
    return views


def _two_models(study: Study) -> str | None:
    shared = study.global_facts.group_by("format", "prefix").agg(pl.col("model").n_unique())
    return None if (shared["model"] > 1).any() else "no two models have runs of one format and prefix"


TWO_MODELS = Need("two models in the same format and prefix", _two_models)


def _overlap_finding(rows: Rows, run: Run) -> str | None:
    """Of one pair of models; of many none is picked out."""
    kept = [row for row in same(rows, run, "format", "prefix") if row["robust_any"]]
    if len(kept) != 1:
        return None
    (row,) = kept
    of = f"{row['robust_both']:,} of the {row['robust_any']:,} facts that either knows robustly"
    return f"{row['model']} and {row['other']} both know {of}"


OVERLAP = Analysis(
    name="overlap",
    group=RIGHT,
    title="Facts that pairs of models know robustly",
    source="TimeStress, section 4.2",
    compute=lambda study: overlap(study.facts, run_keys(study.global_facts)),
    needs=(ALL_GRANULARITIES, TWO_MODELS),
    empty="no two models have a fact in common",
    figure=draw,
    chart=Chart(
        page_views,
        "Jaccard index of the robust facts: 1 if two models know the same facts.",
        "none of the models knows a fact robustly",
    ),
    beside=_overlap_finding,
    columns={
        **OF_FORMAT,
        "model": "one model of the pair",
        "other": "the other model",
        "robust_both": "facts that are globally robust in both",
        "robust_any": "facts that are globally robust in at least one",
        "jaccard": "robust_both / robust_any; empty if neither model has robust facts",
    },
    paper=InPaper(
        words={**FORMAT_WORDS, "model": "model", "other": "other"},
        numbers={"robust_both": "known to both", "robust_any": "to either", "jaccard": "Jaccard (%)"},
    ),
)


def _shared_knowledge_finding(rows: Rows, run: Run) -> str | None:
    row = next((row for row in same(rows, run, "format", "prefix") if row["group"] == "all"), None)
    if row is None or not row["robust_in_any"]:
        return None
    of = f"{row['robust_in_all']:,} of the {row['robust_in_any']:,} facts that any of them knows robustly"
    return f"All {row['models']} models know {of}"


SHARED_KNOWLEDGE = Analysis(
    name="shared_knowledge",
    group=RIGHT,
    title="Facts that all models know robustly",
    source="TimeStress, section 4.2",
    compute=lambda study: shared_knowledge(study.facts, run_keys(study.global_facts), study.most_robust.rows()),
    needs=(ALL_GRANULARITIES, TWO_MODELS),
    beside=_shared_knowledge_finding,
    columns={
        **OF_FORMAT,
        "group": "`all` models, or `top`, the most robust",
        "models": "number of models",
        "pairs": "number of pairs of models, except pairs in which neither knows a fact",
        "mean_jaccard": "mean Jaccard index over these pairs",
        "robust_in_all": "facts that are robust in every model",
        "robust_in_any": "facts that are robust in at least one",
        "share": "robust_in_all / robust_in_any",
    },
    paper=InPaper(
        words={**FORMAT_WORDS, "group": "group"},
        numbers={
            "models": "models",
            "mean_jaccard": "mean Jaccard (%)",
            "robust_in_all": "known to all",
            "robust_in_any": "to any",
            "share": "share (%)",
        },
    ),
)
