"""Instruct models against their base models, fact by fact (TimeStress v1, figure 9)."""

from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import ALL_GRANULARITIES, RIGHT, RUN, RUN_WORDS, Analysis, Chart, InPaper, Need
from anachron.analysis.findings import SIGNIFICANCE, Rows, p_words
from anachron.analysis.metrics import GLOBAL, RUN_KEYS, run_keys
from anachron.analysis.pairs import paired
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.statistics import mcnemar
from anachron.analysis.study import Study

OUTCOMES = {  # colour, hatching and the colour of the number on it
    "win": (style.BLUE, "", "white"),
    "tie": ("white", "", "black"),
    "loss": (style.ORANGE, "/////", "black"),
}


def base_and_instruct(facts: pl.DataFrame, models: pl.DataFrame) -> pl.DataFrame:
    """How many facts an instruct model wins, ties and loses against its base, by global W and by global R.

    Both are taken in raw format; a chat run of the instruct model is also set against the raw run of its base, as a
    base model has no chat format. Returns RUN_KEYS of the instruct run, ``base, score (win_rate|robustness), facts,
    win, tie, loss`` (counts). Source: TimeStress v1, figure 9.
    """
    rows: list[dict[str, Any]] = []
    keys = run_keys(facts)
    for model, base in models.filter(pl.col("base").is_not_null()).select("model", "base").iter_rows():
        for m, form, prefix in keys:
            if m != model or (base, "raw", prefix) not in keys:
                continue
            both = paired(facts, (base, "raw", prefix), (m, form, prefix)).filter(pl.col("granularity") == GLOBAL)
            if not both.height:
                continue
            for score in ("win_rate", "robustness"):
                gap = (both[f"{score}_second"] - both[score]).round(9)  # the mean of three W depends on their order
                counts = {"win": int((gap > 0).sum()), "tie": int((gap == 0).sum()), "loss": int((gap < 0).sum())}
                row = {"model": m, "format": form, "prefix": prefix, "base": base, "score": score}
                rows.append(row | {"facts": both.height} | counts)
    return pl.DataFrame(rows, infer_schema_length=None)


def draw(table: pl.DataFrame) -> "style.Figure":
    """Shares of facts that an instruct model wins, ties and loses against its base, by W and by R.

    Source: TimeStress v1, figure 9.
    """
    rows = style.check("base_and_instruct", table.filter(pl.col("facts") > 0), "win", "tie", "loss")
    rows = rows.with_columns(pl.Series("row", style.run_labels(rows, "format", "prefix")))
    order = list(dict.fromkeys(rows["row"]))
    height = marks.rows_height(order, least=0.24) + 0.95
    with style.sheet(style.PAGE, height, 1, 2, sharey=True) as (figure, axes):
        for panel, (score, score_name) in zip(axes.flat, style.SCORES.items(), strict=True):
            of_score = rows.filter(pl.col("score") == score)
            places = [order.index(row) for row in of_score["row"]]
            panel.set_title(f"by {score_name}")
            marks.name_rows(panel, order)
            left = np.zeros(of_score.height)
            for outcome, (colour, hatch, ink) in OUTCOMES.items():
                share = (of_score[outcome] / of_score["facts"]).to_numpy()
                bars = panel.barh(
                    places, share, 0.7, left, color=colour, hatch=hatch, edgecolor="black", lw=0.5, label=outcome
                )
                for bar, part in zip(bars, share, strict=True):
                    if part >= 0.08:  # room for two digits
                        panel.text(
                            bar.get_x() + part / 2, bar.get_y() + 0.35, f"{100 * part:.0f}", color=ink, ha="center",
                            va="center", fontsize=style.SMALL, bbox=_paper(hatch),
                        )  # fmt: skip
                left += share
            panel.set_xlim(0, 1)
            panel.set_xlabel("share of facts, against the base model")
            marks.in_percent(panel)
        marks.legend(figure)
    return figure


def _paper(hatch: str) -> dict[str, object] | None:
    """White under a number that would otherwise stand on hatching."""
    return {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"} if hatch else None


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (score,), group in charts.groups(table, "score"):
        labels = charts.texts(
            f"{looks.name(row[:3])} against {row[3]}" for row in group.select(*RUN_KEYS, "base").iter_rows()
        )
        traces = [
            {"type": "bar", "orientation": "h", "name": name, "y": labels, "x": group[name].to_list(),
             "marker": {"color": colour, "pattern": {"shape": shape}}, "hovertemplate": "%{x:,} facts"}
            for name, colour, shape in (("win", "@0", ""), ("tie", "@muted", "."), ("loss", "@1", "/"))
        ]  # fmt: skip
        layout = {"rows": group.height, "xaxis": charts.axis("facts"), "yaxis": charts.NAMED_ROWS}
        views.append(charts.view(charts.NAMES[score], traces, barmode="stack", **layout))
    return views


def _pairs(study: Study) -> str | None:
    count = base_and_instruct(study.facts, study.models).height
    return None if count else "no instruct model comes with its base model in raw format (give --models)"


def _base_and_instruct_finding(rows: Rows) -> str | None:
    row = next((row for row in rows if row["score"] == "win_rate"), None)
    if row is None:
        return None
    p = mcnemar(row["win"], row["loss"])
    if p >= SIGNIFICANCE:
        return None
    words = "more" if row["win"] > row["loss"] else "fewer"
    counts = f"{row['win']:,} better, {row['loss']:,} worse (sign test, {p_words(p)})"
    return f"Does better than its base, {row['base']}, on {words} facts than it does worse: {counts}"


BASE_AND_INSTRUCT = Analysis(
    name="base_and_instruct",
    group=RIGHT,
    title="Facts that instruct models win, tie or lose against their base model",
    source="TimeStress v1, figure 9",
    compute=lambda study: base_and_instruct(study.facts, study.models),
    needs=(ALL_GRANULARITIES, Need("an instruct model and its base, raw (matched by name, or `--models`)", _pairs)),
    figure=draw,
    chart=Chart(page_views, "A win is a fact on which the instruct model scores higher than its base model."),
    finding=_base_and_instruct_finding,
    columns={
        **RUN,
        "base": "its base model, always raw",
        "score": "`win_rate` or `robustness`, over all granularities",
        "facts": "facts that both models have",
        "win": "facts on which the instruct model scores higher",
        "tie": "facts on which both score the same",
        "loss": "facts on which the instruct model scores lower",
    },
    paper=InPaper(
        words={**RUN_WORDS, "base": "base", "score": "score"},
        numbers={"facts": "facts", "win": "wins", "tie": "ties", "loss": "losses"},
    ),
)
