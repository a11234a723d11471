"""W and R against the number of parameters (TimeStress, figure 11; TimeStress v1, figure 7)."""

from html import escape
from math import ceil, floor, log10
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    ALL_GRANULARITIES,
    FORMAT_WORDS,
    MEANS,
    OF_FORMAT,
    RIGHT,
    RUN,
    RUN_WORDS,
    Analysis,
    Chart,
    InPaper,
    Need,
)
from anachron.analysis.findings import FEW, Rows, Run, apart, ends, interval, same
from anachron.analysis.metrics import RUN_KEYS
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import prefix_name
from anachron.analysis.study import Study

FLAT = 1e-9  # a slope of R per tenfold size below this is rounding, not growth
UNKNOWN = "family unknown"


def sizes(summary: pl.DataFrame, models: pl.DataFrame) -> pl.DataFrame:
    """Global W and R with intervals beside the number of parameters, for models whose size is known.

    summary: from `anachron.analysis.metrics.summarise`. Columns ``family, parameters, instruct`` and those of the
    summary.
    """
    known = models.filter(pl.col("parameters").is_not_null()).select("model", "family", "parameters", "instruct")
    return (
        summary.filter(pl.col("granularity") == "global")
        .join(known, on="model", maintain_order="left")
        .select("family", *RUN_KEYS, "parameters", "instruct", "facts", *MEANS)
        .sort("family", "instruct", "parameters", maintain_order=True)
    )


def size_to_perfection(table: pl.DataFrame) -> pl.DataFrame:
    """The size at which a straight line of R over log10(parameters), fitted to a family, reaches 1.

    table: from `sizes`. One row per family, instruct or not, format and prefix with two sizes at least: ``models,
    slope`` (R per tenfold size), ``parameters_at_1`` (null where R does not grow). An extrapolation, as in TimeStress
    v1, figure 7; two points make a line, not evidence.
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


def draw(table: pl.DataFrame) -> "style.Figure":
    """W and R over all granularities against the number of parameters, a line a family.

    Base models: filled marks and a solid line; instruct models: hollow marks and a dotted line. Models of no known
    family have no line. A row of panels a format and prefix. Source: TimeStress, figure 11; TimeStress v1, figure 7.
    """
    rows = style.check("sizes", table, "parameters", *style.SCORES)
    families = list(dict.fromkeys(rows["family"].fill_null(UNKNOWN)))
    panels = style.sections(rows.with_columns(pl.col("family").fill_null(UNKNOWN)))
    labels = [f"{f}, {kind}" for f in families for kind in ("base", "instruct")]
    height = 1.75 * len(panels) + 0.3 + marks.legend_height(labels, style.PAGE)
    with style.sheet(style.PAGE, height, len(panels), 2, sharex=True, sharey="col") as (figure, axes):
        for across, (title, part) in zip(axes, panels, strict=True):
            across[0].set_title(title)
            for panel, (score, score_name) in zip(across, style.SCORES.items(), strict=True):
                panel.set_xscale("log")
                for (family, instruct), line in part.group_by("family", "instruct", maintain_order=True):
                    look = style.look(families.index(str(family)))
                    look = style.Look(look.colour, look.marker, ":" if instruct else "-", hollow=bool(instruct))
                    line = line.sort("parameters")
                    marks.dots(
                        panel, line["parameters"], line[score], look, low=line[f"{score}_low"], upright=True,
                        high=line[f"{score}_high"], label=f"{family}, {'instruct' if instruct else 'base'}",
                        joined=family != UNKNOWN, shift=1.5 if instruct else -1.5,
                    )  # fmt: skip
                panel.set_ylabel(score_name)
                marks.in_percent(panel, "y")
                marks.in_counts(panel)
        axes[0, 1].set_ylim(bottom=0)
        known = rows["parameters"].to_numpy()
        axes[0, 0].set_xlim(known.min() / 1.5, known.max() * 1.5)  # so that one size alone has room around it too
        for panel in axes[-1]:
            panel.set_xlabel("parameters")
        marks.legend(figure)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    """None of one size alone, which shows nothing of what size does."""
    if table["parameters"].n_unique() < 2:
        return []
    views = []
    ticks = round_sizes(table["parameters"].min(), table["parameters"].max())  # type: ignore[arg-type]
    names = [marks.short_count(n, 3) for n in ticks]
    axis = {"type": "log", "title": {"text": "parameters"}, "tickvals": ticks, "ticktext": names}
    for score, name in charts.NAMES.items():
        traces = []
        groups = charts.groups(table, "family", "instruct", "format", "prefix")
        for number, ((family, instruct, form, prefix), group) in enumerate(groups):
            label = f"{family or 'unknown family'}, {'instruct' if instruct else 'base'}, {form}, {prefix_name(prefix)}"
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if family else "markers",
                    "name": escape(label, quote=False),
                    "x": group["parameters"].to_list(),
                    "y": charts.numbers(group[score]),
                    "text": charts.texts(
                        f"{model}: {marks.short_count(n, 3)}"
                        for model, n in group.select("model", "parameters").iter_rows()
                    ),
                    "error_y": charts.bars(group, score, f"{score}_low", f"{score}_high"),
                    "hovertemplate": "%{text} parameters, %{y:.1%}",
                    "line": {"color": f"@{number % charts.COLOURS}", "dash": "dash" if instruct else "solid"},
                    "marker": {"symbol": charts.SYMBOLS[number % len(charts.SYMBOLS)], "size": 9},
                }
            )
        upright = charts.axis(f"global {name}", **charts.PERCENT)
        views.append(charts.view(name, traces, xaxis=axis, yaxis=upright))
    return views


def round_sizes(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from one below the smallest to one above the largest."""
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    every = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    below, above = [n for n in every if n < low], [n for n in every if n > high]
    return [n for n in every if below[-1] <= n <= above[0]]


def sizes_of(study: Study) -> pl.DataFrame:
    """`sizes` of the models of a study."""
    return sizes(study.summary, study.models)


def _known_sizes(study: Study) -> str | None:
    known = study.models["parameters"].is_not_null().any()
    return None if known else "no model's number of parameters is known (give --models)"


def _families(study: Study) -> str | None:
    count = size_to_perfection(study.once(sizes_of)).height
    return None if count else "no family has two models of different known sizes (give --models)"


KNOWN_SIZES = Need("the number of parameters of a model (recorded by runs, or `--models`)", _known_sizes)


def _sizes_finding(rows: Rows, run: Run) -> str | None:
    """The largest against the smallest model of the run's family, where their intervals are apart."""
    own = next(iter(same(rows, run, *RUN_KEYS)), None)
    if own is None:
        return None
    kept = [row for row in same(rows, run, "format", "prefix") if row["parameters"] is not None]
    kept = [row for row in kept if (row["family"], row["instruct"]) == (own["family"], own["instruct"])]
    small, large = (pick(kept, key=lambda row: row["parameters"], default=None) for pick in (min, max))
    if small is None or large is None or small["parameters"] == large["parameters"]:
        return None
    side = apart(ends(large, "win_rate"), ends(small, "win_rate"))
    if not side or min(large["facts"], small["facts"]) < FEW:
        return None
    return (
        f"The largest of the family has the {'higher' if side > 0 else 'lower'} W: {large['model']} "
        f"{interval(large, 'win_rate')}, the smallest, {small['model']}, {interval(small, 'win_rate')}"
    )


SIZES = Analysis(
    name="sizes",
    group=RIGHT,
    title="W and R against the number of parameters",
    source="TimeStress, figure 11; TimeStress v1, figure 7",
    compute=lambda study: study.once(sizes_of),
    needs=(ALL_GRANULARITIES, KNOWN_SIZES),
    empty="no model of known size has facts with matches at year, month and day",
    figure=draw,
    chart=Chart(
        page_views,
        f"Each line is a family; dashed: instruct models. {charts.INTERVALS}",
        "all models of known size have the same number of parameters",
    ),
    beside=_sizes_finding,
    columns={
        "family": "from the model's configuration, or `--models`",
        **RUN,
        "parameters": "number of parameters, counted in the model or from `--models`",
        "instruct": "whether it is instruction-tuned, judged by its name or `--models`",
        "facts": "facts with all three granularities",
        **MEANS,
    },
    paper=InPaper(
        words={"family": "family", **RUN_WORDS, "instruct": "instruct"},
        numbers={"parameters": "parameters (millions)", "facts": "facts", "win_rate": "W (%)", "robustness": "R (%)"},
    ),
)

SIZE_TO_PERFECTION = Analysis(
    name="size_to_perfection",
    group=RIGHT,
    title="Size at which each family would reach R = 1",
    source="TimeStress v1, figure 7",
    compute=lambda study: size_to_perfection(study.once(sizes_of)),
    needs=(ALL_GRANULARITIES, KNOWN_SIZES, Need("two models of the same family and different sizes", _families)),
    columns={
        "family": "family with at least two models of different sizes",
        "instruct": "whether the models are instruction-tuned",
        **OF_FORMAT,
        "models": "number of models that the line is fitted to",
        "slope": "gain in R for ten times the parameters",
        "parameters_at_1": "number of parameters at which the line reaches R = 1; empty if R does not grow",
    },
    paper=InPaper(
        words={"family": "family", "instruct": "instruct", **FORMAT_WORDS},
        numbers={"models": "models", "slope": "R for × 10 (points)", "parameters_at_1": "R = 1 at (millions)"},
    ),
)
