"""Charts of dates and of kinds of facts; each takes its table and gives views, see `anachron.report.page.charts`."""

from collections.abc import Sequence

import polars as pl

from anachron.io import Json
from anachron.plots.traces import (
    COLOURS,
    DASHES,
    NAMES,
    PERCENT,
    SYMBOLS,
    Looks,
    bars,
    by_run,
    numbers,
    parts,
    rows,
    texts,
    view,
)  # fmt: skip
from anachron.plots.words import prefix_name, year_name
from anachron.probe.analyses.alpha import COARSE


def _used(order: Sequence[str], found: pl.Series) -> list[str]:
    return [name for name in order if name in found]


def alpha(table: pl.DataFrame, looks: Looks) -> list[Json]:
    symbols = {"correct": "circle", "incorrect": "circle-open", "transitional": "diamond-open"}
    views = []
    for (form, prefix), cell in parts(table, "format", "prefix"):
        traces = []
        for key, group in by_run(cell.sort("alpha", maintain_order=True)):
            trace = looks.trace(
                key, mode="lines+markers", x=group["bin"].to_list(), y=numbers(group["logp"]),
                error_y=bars(group, "logp"), customdata=rows(group, "status", "statements", "facts", "lift"),
                hovertemplate="%{x}, %{customdata[0]}: %{y:.2f} nats; %{customdata[3]:+.2f} over the prior; "
                "%{customdata[1]:,} statements of %{customdata[2]:,} facts",
            )  # fmt: skip
            trace["marker"] = trace["marker"] | {"symbol": [symbols.get(s, "x") for s in group["status"]]}
            traces.append(trace)
        views.append(
            view(
                f"{form}, {prefix_name(prefix)}", traces, yaxis={"title": {"text": "mean log-probability (nats)"}},
                xaxis={"type": "category", "categoryorder": "array", "categoryarray": _used(COARSE, cell["bin"]),
                       "title": {"text": "relative distance alpha from the middle of the period"}},
            )
        )  # fmt: skip
    return views


def alpha_fine(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for (granularity, form, prefix), cell in parts(table, "granularity", "format", "prefix"):
        traces = [
            looks.trace(
                key, mode="lines", x=numbers(group["alpha"]), y=numbers(group["logp"], 4),
                customdata=rows(group, "low", "high", "statements"),
                hovertemplate="%{x}: %{y:.2f} nats (%{customdata[0]:.2f} to %{customdata[1]:.2f}), "
                "%{customdata[2]:,} statements",
            )
            for key, group in by_run(cell.sort("alpha", maintain_order=True))
        ]  # fmt: skip
        held = {"type": "rect", "x0": -0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
                "fillcolor": "@held", "line": {"width": 0}}  # fmt: skip
        views.append(
            view(
                f"{granularity}; {form}, {prefix_name(prefix)}", traces, shapes=[held],
                xaxis={"title": {"text": "relative distance alpha"}},
                yaxis={"title": {"text": "mean log-probability (nats)"}},
            )
        )  # fmt: skip
    return views


def agreement(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for value, label in (("accuracy", "share judged alike"), ("matthews", "Matthews correlation")):
        traces = []
        for number, ((form, prefix), group) in enumerate(parts(table, "format", "prefix")):
            middle = ((group["alpha_low"] + group["alpha_high"]) / 2).to_list()
            ends = {"error_y": bars(group, "accuracy")} if value == "accuracy" else {}
            traces.append(
                {
                    "type": "scatter", "mode": "lines+markers", "name": texts([f"{form}, {prefix_name(prefix)}"])[0],
                    "x": numbers(middle), "y": numbers(group[value]), "customdata": rows(group, "contexts", "facts"),
                    "line": {"color": f"@{number % COLOURS}", "dash": DASHES[number % len(DASHES)]},
                    "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8}, **ends,
                    "hovertemplate": "alpha %{x}: %{y:.3f}; %{customdata[0]:,} contexts of %{customdata[1]:,} facts",
                }
            )  # fmt: skip
        views.append(view(label, traces, xaxis={"title": {"text": "alpha of the year"}},
                          yaxis={"title": {"text": label}}))  # fmt: skip
    return views


def correlations(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for (models, form), cell in parts(table, "models", "format"):
        traces = [
            {"type": "scatter", "mode": "markers", "name": NAMES[score], "y": [_factor(f) for f in group["factor"]],
             "x": numbers(group["r"]), "customdata": rows(group, "p", "p_clustered", "n", "facts"),
             "marker": {"color": colour, "symbol": symbol, "size": 10},
             "hovertemplate": "r = %{x:+.3f}; p = %{customdata[0]:.2g}, clustered by fact %{customdata[1]:.2g}; "
             "%{customdata[2]:,} pairs, %{customdata[3]:,} facts"}
            for ((score,), group), colour, symbol in zip(
                parts(cell, "score"), ("@0", "@1"), ("circle", "diamond"), strict=False
            )
        ]  # fmt: skip
        of = "all models" if models == "all" else "the most robust models"
        views.append(
            view(
                f"{of}; {'all formats' if form == 'all' else form}", traces, rows=cell["factor"].n_unique(),
                xaxis={"title": {"text": "Pearson's r"}, "zeroline": True},
                yaxis={"type": "category", "autorange": "reversed", "automargin": True},
            )
        )  # fmt: skip
    return views


def _factor(name: str) -> str:
    words = name.replace("_", " ")
    return f"ln {words[4:]}" if words.startswith("log ") else words


GROUPS = {"all": "all models", "top": "the most robust"}


def factor_bins(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for (factor, score), cell in parts(table.sort("factor", "score", maintain_order=True), "factor", "score"):
        traces = [
            {"type": "scatter", "mode": "lines+markers", "name": f"{form}, {GROUPS[models]}",
             "x": numbers(group["value_mean"]),
             "y": numbers(group["mean"]), "error_y": bars(group, "mean"),
             "customdata": rows(group, "value_low", "value_high", "facts"),
             "line": {"color": f"@{number % COLOURS}", "dash": DASHES[number % len(DASHES)]},
             "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8},
             "hovertemplate": "%{customdata[0]:.4g} to %{customdata[1]:.4g}: %{y:.1%}, %{customdata[2]:,} facts"}
            for number, ((models, form), group) in enumerate(parts(cell, "models", "format"))
        ]  # fmt: skip
        views.append(view(f"{_factor(factor)}: {NAMES[score]}", traces, xaxis={"title": {"text": _factor(factor)}},
                          yaxis={"title": {"text": f"global {NAMES[score]}"}, **PERCENT}))  # fmt: skip
    return views


def relations(table: pl.DataFrame, looks: Looks, count: int = 10) -> list[Json]:
    views = []
    for (form,), group in parts(table, "format"):
        top = group.head(count)
        names = texts(top["relation"])
        hover = rows(top, "low", "high", "facts", "win_rate")
        traces: list[Json] = [
            {"type": "bar", "orientation": "h", "name": "R", "y": names, "x": numbers(top["robustness"]),
             "marker": {"color": "@0"}, "customdata": hover, "error_x": bars(top, "robustness"),
             "hovertemplate": "R %{x:.1%} (%{customdata[0]:.1%} to %{customdata[1]:.1%}), %{customdata[2]:,} facts"},
            {"type": "scatter", "mode": "markers", "name": "W", "y": names, "x": numbers(top["win_rate"]),
             "marker": {"color": "@1", "symbol": "diamond", "size": 10}, "hovertemplate": "W %{x:.1%}"},
        ]  # fmt: skip
        views.append(view(form, traces, rows=top.height, xaxis={"title": {"text": "share"}, **PERCENT},
                          yaxis={"type": "category", "autorange": "reversed", "automargin": True}))  # fmt: skip
    return views


def years(table: pl.DataFrame, looks: Looks) -> list[Json]:
    kinds = (("correct", "@0"), ("transitional", "@5"), ("incorrect", "@muted"))
    spans = [f"{year_name(first)} to {year_name(first + 9)}" for first in table["first_year"]]
    traces = [
        {"type": "bar", "name": name, "x": table["first_year"].to_list(), "y": table[name].to_list(), "offset": 0,
         "marker": {"color": colour, "line": {"width": 0}}, "text": spans, "textposition": "none",
         "hovertemplate": "%{text}: %{y:,} contexts"}
        for name, colour in kinds
    ]  # fmt: skip
    marks = round_years(table["first_year"].min(), table["first_year"].max())  # type: ignore[arg-type]
    axis = {"title": {"text": "year"}, "tickvals": marks, "ticktext": [year_name(year) for year in marks]}
    return [view("all", traces, barmode="stack", bargap=0, xaxis=axis, yaxis={"title": {"text": "year contexts"}})]


def round_years(low: int, high: int, most: int = 9) -> list[int]:
    """Multiples of 1, 2 or 5 times a power of ten between two years, at most about ``most``."""
    step = next(digit * 10**n for n in range(13) for digit in (1, 2, 5) if (high - low) / (digit * 10**n) <= most)
    return list(range(-(-low // step) * step, high + 1, step))
