"""Charts that set runs side by side; each takes its table and gives views, see `anachron.report.page.charts`."""

from html import escape
from math import ceil, floor, log10
from typing import Any

import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.io import Json
from anachron.metrics import RUN_KEYS
from anachron.plots.traces import (
    COLOURS,
    LEVELS,
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
from anachron.plots.words import prefix_name
from anachron.probe.analyses.transfer import POOLED


def summary(table: pl.DataFrame, looks: Looks) -> list[Json]:
    return [_levels(table, looks, s, f"{s}_low", f"{s}_high", NAMES[s], NAMES[s]) for s in NAMES]


def _levels(table: pl.DataFrame, looks: Looks, value: str, low: str, high: str, label: str, title: str) -> Json:
    """A value with its interval at each granularity, the runs side by side."""
    traces = []
    for key, group in by_run(table):
        ends = [list(pair) for pair in zip(numbers(group[low]), numbers(group[high]), group["facts"], strict=True)]
        traces.append(
            looks.trace(
                key, mode="markers", x=group["granularity"].to_list(), y=numbers(group[value]), customdata=ends,
                error_y=bars(group, value, low, high),
                hovertemplate="%{x}: %{y:.1%} (%{customdata[0]:.1%} to %{customdata[1]:.1%}), %{customdata[2]:,} facts",
            )
        )  # fmt: skip
    order = [level for level in LEVELS if level in table["granularity"]]
    return view(
        label, traces, scattermode="group", scattergap=0.6, yaxis={"title": {"text": title}, **PERCENT},
        xaxis={"type": "category", "categoryorder": "array", "categoryarray": order, "title": {"text": "dates"}},
    )  # fmt: skip


def differences(table: pl.DataFrame, looks: Looks) -> list[Json]:
    """Differences of two runs, as points of a share, with a line where there is none."""
    zero = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": 0, "y1": 0, "line": {"color": "@ink", "width": 1}}
    views = []
    for score, name in NAMES.items():
        shown = table.rename({f"{score}_difference_low": "low", f"{score}_difference_high": "high"})
        found = _levels(shown, looks, f"{score}_difference", "low", "high", name, f"difference of {name}")
        for trace, (key, group) in zip(found["data"], by_run(shown), strict=True):
            against = looks.name([group[f"against_{k}"][0] for k in RUN_KEYS])
            trace["name"] = escape(f"{looks.name(key)} against {against}", quote=False)
        found["layout"] |= {
            "shapes": [zero],
            "showlegend": True,
            "yaxis": {"title": {"text": f"difference of {name}"}, "tickformat": "+.0%"},
        }
        views.append(found)
    return views


def far_errors(table: pl.DataFrame, looks: Looks) -> list[Json]:
    names = {"facts": "mean over facts", "matches": "of all lost matches"}
    views = []
    for (average, threshold), cell in parts(table.drop_nulls("share").sort("average", "threshold", maintain_order=True),
                                            "average", "threshold"):  # fmt: skip
        traces = [
            looks.trace(
                key, mode="lines+markers", x=numbers(group["alpha"]), y=numbers(group["share"]),
                error_y=bars(group, "share"), customdata=rows(group, "low", "high", "facts"),
                hovertemplate="alpha from %{x}: %{y:.1%} (%{customdata[0]:.1%} to %{customdata[1]:.1%}), "
                "%{customdata[2]:,} facts",
            )
            for key, group in by_run(cell)
        ]  # fmt: skip
        views.append(
            view(
                f"facts with W from {threshold:.0%}, {names[average]}", traces,
                xaxis={"title": {"text": "at least this many periods away (alpha)"}, "dtick": 1},
                yaxis={"title": {"text": "share of lost matches"}, **PERCENT},
            )
        )  # fmt: skip
    return views


def transfer(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for key, group in by_run(table):
        cells = {(row["a"], row["b"]): row for row in group.iter_rows(named=True)}
        grid = [[cells[a, b] for a in GRANULARITIES] for b in GRANULARITIES]
        said = [["-" if c["rate"] is None else f"{c['rate']:.0%}" for c in line] for line in grid]
        inside = [
            ["-" if c["rate"] is None else f"<b>{c['rate']:.0%}</b><br>{c['low']:.0%} to {c['high']:.0%}" for c in line]
            for line in grid
        ]
        hover = [
            [[a, b, text, c["known_both"], c["known_b"]] for a, c, text in zip(GRANULARITIES, line, words, strict=True)]
            for b, line, words in zip(GRANULARITIES, grid, said, strict=True)
        ]  # fmt: skip
        trace = {
            "type": "heatmap", "x": list(GRANULARITIES), "y": list(GRANULARITIES),
            "z": [numbers(c["rate"] for c in line) for line in grid], "text": inside, "texttemplate": "%{text}",
            "customdata": hover, "zmin": 0, "zmax": 1, "colorscale": "Cividis", "colorbar": {"tickformat": ".0%"},
            "hovertemplate": "known at %{customdata[1]}, also known at %{customdata[0]}: %{customdata[2]}, "
            "%{customdata[3]:,} of %{customdata[4]:,} facts<extra></extra>",
        }  # fmt: skip
        views.append(
            view(
                looks.name(key), [trace],
                xaxis={"type": "category", "title": {"text": "also known at"}},
                yaxis={"type": "category", "title": {"text": "known at"}, "autorange": "reversed"},
            )
        )  # fmt: skip
    pooled = [v for v, (key, _) in zip(views, by_run(table), strict=True) if key[0] == POOLED]
    return pooled + [v for v in views if v not in pooled]


def transfer_mean(table: pl.DataFrame, looks: Looks) -> list[Json]:
    return [_rows_of_runs(table.drop_nulls("rate"), looks, "rate", "lowest", "highest", "mean of the six transfers")]


def _rows_of_runs(table: pl.DataFrame, looks: Looks, value: str, low: str, high: str, title: str, **axis: Any) -> Json:
    """One value a run with its range, one below the other."""
    traces = []
    for key, group in by_run(table):
        traces.append(
            looks.trace(
                key, mode="markers", x=numbers(group[value]), y=texts([looks.name(key)]),
                error_x=bars(group, value, low, high), customdata=rows(group, low, high),
                hovertemplate="%{x:.3f} (%{customdata[0]:.3f} to %{customdata[1]:.3f})",
            )
        )  # fmt: skip
    scale = axis or PERCENT
    return view("all", traces, showlegend=False, xaxis={"title": {"text": title}, **scale}, rows=len(traces),
                yaxis={"type": "category", "autorange": "reversed", "automargin": True})  # fmt: skip


def granularity_variance(table: pl.DataFrame, looks: Looks) -> list[Json]:
    shown = table.drop_nulls("ratio")
    title = "variance of R between granularities, with the prefix over without"
    return [_rows_of_runs(shown, looks, "ratio", "low", "high", title, rangemode="tozero")] if shown.height else []


def sizes(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    marks = round_sizes(table["parameters"].min(), table["parameters"].max())  # type: ignore[arg-type]
    axis = {"type": "log", "title": {"text": "parameters"}, "tickvals": marks, "ticktext": [short(m) for m in marks]}
    for score, name in NAMES.items():
        traces = []
        groups = parts(table, "family", "instruct", "format", "prefix")
        for number, ((family, instruct, form, prefix), group) in enumerate(groups):
            label = f"{family or 'unknown family'}, {'instruct' if instruct else 'base'}, {form}, {prefix_name(prefix)}"
            traces.append(
                {
                    "type": "scatter", "mode": "lines+markers" if family else "markers",
                    "name": escape(label, quote=False),
                    "x": group["parameters"].to_list(), "y": numbers(group[score]),
                    "text": texts(f"{m}: {short(n)}" for m, n in group.select("model", "parameters").iter_rows()),
                    "error_y": bars(group, score, f"{score}_low", f"{score}_high"),
                    "hovertemplate": "%{text} parameters, %{y:.1%}",
                    "line": {"color": f"@{number % COLOURS}", "dash": "dash" if instruct else "solid"},
                    "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 9},
                }
            )  # fmt: skip
        views.append(view(name, traces, xaxis=axis, yaxis={"title": {"text": f"global {name}"}, **PERCENT}))
    return views


def round_sizes(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from one below the smallest to one above the largest."""
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    every = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    below, above = [n for n in every if n < low], [n for n in every if n > high]
    return [n for n in every if below[-1] <= n <= above[0]]


def short(count: float) -> str:
    """7e9 as 7B."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.3g}"


def base_and_instruct(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for (score,), group in parts(table, "score"):
        labels = texts(f"{looks.name(row[:3])} against {row[3]}" for row in group.select(*RUN_KEYS, "base").iter_rows())
        traces = [
            {"type": "bar", "orientation": "h", "name": name, "y": labels, "x": group[name].to_list(),
             "marker": {"color": colour, "pattern": {"shape": shape}}, "hovertemplate": "%{x:,} facts"}
            for name, colour, shape in (("win", "@0", ""), ("tie", "@muted", "."), ("loss", "@1", "/"))
        ]  # fmt: skip
        views.append(view(NAMES[score], traces, barmode="stack", rows=group.height, xaxis={"title": {"text": "facts"}},
                          yaxis={"type": "category", "autorange": "reversed", "automargin": True}))  # fmt: skip
    return views


def overlap(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for (form, prefix), group in parts(table, "format", "prefix"):
        models = list(dict.fromkeys([*group["model"], *group["other"]]))
        found = {(m, o): (j, b) for m, o, j, b in group.select("model", "other", "jaccard", "robust_both").iter_rows()}
        grid = [[found.get((a, b)) or found.get((b, a)) or (None, None) for b in models] for a in models]
        trace = {
            "type": "heatmap", "x": texts(models), "y": texts(models), "zmin": 0, "zmax": 1, "colorscale": "Cividis",
            "z": [numbers(cell[0] for cell in line) for line in grid],
            "text": [["" if cell[0] is None else f"{cell[0]:.2f}" for cell in line] for line in grid],
            "customdata": [[cell[1] for cell in line] for line in grid], "texttemplate": "%{text}",
            "hovertemplate": "%{y} and %{x}: %{z:.2f}, %{customdata} facts in common<extra></extra>",
        }  # fmt: skip
        axis = {"type": "category", "automargin": True}
        views.append(view(f"{form}, {prefix_name(prefix)}", [trace], rows=len(models), xaxis=axis,
                          yaxis=axis | {"autorange": "reversed"}))  # fmt: skip
    return views


def margins(table: pl.DataFrame, looks: Looks) -> list[Json]:
    views = []
    for (granularity,), cell in parts(table, "granularity"):
        traces = [
            looks.trace(key, mode="lines+markers", x=numbers(group["margin"]), y=numbers(group["robustness"]),
                        hovertemplate="won by more than %{x} nats: %{y:.1%}")
            for key, group in by_run(cell)
        ]  # fmt: skip
        views.append(view(granularity, traces, xaxis={"title": {"text": "margin (nats)"}},
                          yaxis={"title": {"text": "share of facts"}, **PERCENT}))  # fmt: skip
    return views
