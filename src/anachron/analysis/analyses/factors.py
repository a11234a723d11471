"""What W and R correlate with: popularity, distance from the present, duration, other objects.

Sources: TimeStress, figures 13 and 18 and section 4.2; TimeStress v1, figure 8.
"""

from dataclasses import replace
from itertools import product
from math import erfc, hypot, isfinite, log, sqrt
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import ALL_GRANULARITIES, EXPLAINS, INTERVAL, Analysis, Chart, InPaper, Need
from anachron.analysis.findings import FEW, MINUS, SIGNIFICANCE, Rows, percent
from anachron.analysis.metrics import RUN_KEYS
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import counted
from anachron.analysis.statistics import korn_graubard, pearson
from anachron.analysis.study import Study
from anachron.core.dates import DAYS_A_YEAR, Date

BINS = 10
CONFOUNDED = {("log_duration", "robustness")}  # a longer fact has more matches to lose (TimeStress, figure 18)
FACTORS = {
    "popularity": "popularity",
    "log_popularity": "ln popularity",
    "subject_popularity": "popularity of the subject",
    "log_subject_popularity": "ln popularity of the subject",
    "object_popularity": "popularity of the object",
    "log_object_popularity": "ln popularity of the object",
    "log_distance": "ln years from the present",
    "log_duration": "ln duration in years",
    "other_objects": "other objects",
}
SIGNIFICANT = 0.05
NOT_SHOWN = "R is not shown:\na longer fact has more matches to lose"


GROUPS = {"all": "all models", "top": "the most robust"}


def factors(about: pl.DataFrame, present: int = 2021) -> pl.DataFrame:
    """Numbers that describe a fact, one row each: ``fact_id, factor, value`` (only those that are known).

    ``log_popularity`` of the fact, its subject and its object (natural logarithm, of visits above 0) and the plain
    values; ``log_distance`` is ln(present - start year), ``log_duration`` ln(years), ``other_objects`` a count.
    """
    rows: list[tuple[str, str, float]] = []
    for row in about.iter_rows(named=True):
        values: dict[str, float] = {}
        for name in ("popularity", "subject_popularity", "object_popularity"):
            if row[name] is not None:
                values[name] = row[name]
                if row[name] > 0:
                    values[f"log_{name}"] = log(row[name])
        if row["start"] is not None and row["end"] is not None:
            start, end = Date.parse(row["start"]), Date.parse(row["end"])
            if present > start.year:
                values["log_distance"] = log(present - start.year - (start.year < 0))  # there is no year 0
            values["log_duration"] = log((end.last_day - start.first_day + 1) / DAYS_A_YEAR)
        if row["other_objects"] is not None:
            values["other_objects"] = row["other_objects"]
        rows += [(row["fact_id"], name, value) for name, value in values.items()]
    return pl.DataFrame(rows, schema={"fact_id": pl.String, "factor": pl.String, "value": pl.Float64}, orient="row")


def factors_of(study: Study) -> pl.DataFrame:
    """`factors` of all facts of a study."""
    return factors(study.about, study.present)


def _with_scores(values: pl.DataFrame, global_rows: pl.DataFrame) -> pl.DataFrame:
    """One row per run, fact, factor and score (global W or R)."""
    long = global_rows.unpivot(
        list(style.SCORES), index=[*RUN_KEYS, "fact_id", "subject"], variable_name="score", value_name="of_score"
    )
    joined = values.join(long, on="fact_id", maintain_order="left_right")
    confounded = [(pl.col("factor") == f) & (pl.col("score") == s) for f, s in CONFOUNDED]
    return joined.filter(~pl.any_horizontal(confounded))


def _groups(global_rows: pl.DataFrame, top: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Rows of all runs, and of those of the most robust models."""
    return {"all": global_rows, "top": global_rows.join(top, on=RUN_KEYS, how="semi", maintain_order="left")}


def correlations(values: pl.DataFrame, global_rows: pl.DataFrame, top: pl.DataFrame) -> pl.DataFrame:
    """Pearson's r of each factor with global W and R over (model, format, fact).

    values: from `factors`; global_rows: global rows of `fact_metrics` of runs without a prefix (with one, a model would
    count twice); top: the runs of the most robust models.
    ``models`` is all or top, ``format`` a format or all. Columns ``models, format, factor, score, n, facts, r, p,
    p_clustered``: p takes the pairs for independent, as the papers do, p_clustered lets those of one subject depend.
    """
    rows: list[dict[str, Any]] = []
    for name, group in _groups(global_rows, top).items():
        for form in ("all", *group["format"].unique(maintain_order=True)):
            of_format = group if form == "all" else group.filter(pl.col("format") == form)
            pairs = _with_scores(values, of_format)
            for (factor, score), cell in pairs.group_by("factor", "score", maintain_order=True):
                correlation = pearson(cell["value"].to_numpy(), cell["of_score"].to_numpy(), cell["subject"].to_numpy())
                row = {"models": name, "format": form, "factor": factor, "score": score, "n": correlation.n}
                row |= {"facts": cell["fact_id"].n_unique(), "r": correlation.r, "p": correlation.p}
                rows.append(row | {"p_clustered": correlation.p_clustered})
    return pl.DataFrame(rows, infer_schema_length=None)


def factor_bins(values: pl.DataFrame, global_rows: pl.DataFrame, top: pl.DataFrame) -> pl.DataFrame:
    """Mean global W and R in up to ten groups of facts of like value (quantiles), over the runs of a format.

    ``models`` is all (TimeStress, figure 13; TimeStress v1, figure 8) or top, the most robust (TimeStress, figure 18).
    Facts of one value are never split. Columns ``models, format, factor, score, bin, value_low, value_high,
    value_mean, facts, mean, low, high``; the interval is `korn_graubard`, over subjects.
    """
    rows: list[dict[str, Any]] = []
    chosen = _groups(global_rows, top)
    cells = [(n, *key, g) for n, of in chosen.items() for key, g in of.group_by("format", maintain_order=True)]
    for name, form, group in cells:
        pairs = _with_scores(values, group)
        for (factor, score), cell in pairs.group_by("factor", "score", maintain_order=True):
            by_fact = cell.unique("fact_id", maintain_order=True)["value"].to_numpy()
            edges = np.unique(np.quantile(by_fact, np.linspace(0, 1, BINS + 1)[1:-1]))
            groups = cell.with_columns(pl.Series("bin", np.searchsorted(edges, cell["value"], side="left")))
            for (number,), part in groups.sort("bin", maintain_order=True).group_by("bin", maintain_order=True):
                facts, scores = part.unique("fact_id", maintain_order=True), part["of_score"].to_numpy()
                low, high = korn_graubard(scores, part["subject"].to_numpy())
                row = {"models": name, "format": form, "factor": factor, "score": score, "bin": int(number)}
                row |= {"value_low": facts["value"].min(), "value_high": facts["value"].max()}
                row |= {"value_mean": facts["value"].mean(), "facts": facts.height}
                rows.append(row | {"mean": scores.mean(), "low": low, "high": high})
    return pl.DataFrame(rows, infer_schema_length=None)


def draw_correlations(table: pl.DataFrame) -> "style.Figure":
    """Pearson's r of each factor with W and with R; filled where p, clustered by subject, is below 0.05.

    Above over all models, below over the most robust. Source: TimeStress, section 4.2, figures 13 and 18.
    """
    rows = style.check("correlations", table, "r")
    groups = style.in_order(rows["models"], ["all", "top"])
    order = style.in_order(rows["factor"], list(FACTORS))
    forms = style.in_order(rows["format"], ["all", "raw", "chat"])
    if len(forms) == 2:  # one format, so over both is the same
        forms = forms[1:]
    labels = [FACTORS.get(name, name) for name in order]
    tall = marks.rows_height(labels, least=0.12 + 0.07 * len(forms))
    size = (style.PAGE, (tall + 0.25) * len(groups) + 0.65)
    with style.sheet(*size, len(groups), 2, sharex=True, sharey=True) as (figure, axes):
        for across, group in zip(axes, groups, strict=True):
            of_models = {"all": "all models", "top": "the most robust models"}.get(group, group)
            for panel, (score, score_name) in zip(across, style.SCORES.items(), strict=True):
                panel.set_title(f"{score_name}, {of_models}")
                marks.name_rows(panel, labels)
                marks.reference(panel, 0)
                for form, offset in zip(forms, marks.spread(len(forms)), strict=True):
                    of_format = rows.filter(
                        pl.col("models") == group, pl.col("score") == score, pl.col("format") == form
                    )
                    sure = (pl.col("p_clustered") < SIGNIFICANT).fill_null(False)
                    for hollow, some in ((False, of_format.filter(sure)), (True, of_format.filter(~sure))):
                        seen = style.Look(style.FORMATS[form].colour, style.FORMATS[form].marker, hollow=hollow)
                        sign = "\N{GREATER-THAN OR EQUAL TO}" if hollow else "<"
                        marks.dots(
                            panel, [order.index(f) + offset for f in some["factor"]], some["r"], seen,
                            label=f"{style.format_name(form)}, p {sign} {SIGNIFICANT}",
                        )  # fmt: skip
        for panel in axes[-1]:
            panel.set_xlabel("Pearson's r")
            panel.locator_params(axis="x", nbins=5)
            marks.at_least(panel, 0.2)
        marks.legend(figure)
    return figure


def draw_bins(table: pl.DataFrame) -> "style.Figure":
    """Mean W and R of facts of like popularity, distance, duration and number of other objects, with intervals.

    Of a popularity the logarithm is drawn (the plain values are far too skewed), over all models and, where these are
    more than the most robust ones, over those too.
    Source: TimeStress, figures 13 (all models) and 18 (the five most robust); TimeStress v1, figure 8.
    """
    drawn = [name for name in FACTORS if f"log_{name}" not in FACTORS]
    rows = style.check("factor_bins", table.filter(pl.col("factor").is_in(drawn)), "value_mean", "mean")
    known = style.in_order(rows["factor"], drawn)
    forms = style.in_order(rows["format"], list(style.FORMATS))
    every, top = (rows.filter(pl.col("models") == models).drop("models") for models in GROUPS)
    alike = every.equals(top)  # of five models at most
    groups = ["all"] if alike else style.in_order(rows["models"], list(GROUPS))
    with style.sheet(style.PAGE, 1.45 * len(known) + 0.35, len(known), 2, sharex="row", sharey="col") as (figure, axes):
        for across, factor in zip(axes, known, strict=True):
            for panel, (score, score_name) in zip(across, style.SCORES.items(), strict=True):
                part = rows.filter(pl.col("factor") == factor, pl.col("score") == score)
                if not part.height:
                    marks.blank([panel], NOT_SHOWN if score == "robustness" and factor == "log_duration" else "")
                    continue
                for number, (form, models) in enumerate(product(forms, groups)):
                    of_format = part.filter(pl.col("format") == form, pl.col("models") == models)
                    seen, name = style.FORMATS[form], style.format_name(form)
                    marks.dots(
                        panel, of_format["value_mean"], of_format["mean"],
                        replace(seen, marker="D", line=":") if models == "top" else seen,
                        label=name if alike else f"{name}, {GROUPS[models]}",
                        low=of_format["low"], high=of_format["high"], upright=True, joined=True, shift=3.0 * number,
                    )  # fmt: skip
                if factor == "other_objects":
                    panel.locator_params(axis="x", integer=True)
                panel.set_xlabel(FACTORS[factor])
                panel.set_ylabel(score_name)
                marks.in_percent(panel, "y")
        marks.legend(figure)
    return figure


def correlation_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    """Of groups with the same numbers, as with one model, the first. Any two facts have an r of 1 or -1: not drawn."""
    views: charts.Views = []
    shown = table.filter(pl.col("r").is_finite(), pl.col("facts") > 2)
    for (models, form), cell in charts.groups(shown, "models", "format"):
        traces = [
            {"type": "scatter", "mode": "markers", "name": charts.NAMES[score],
             "y": [_factor(f) for f in group["factor"]], "x": charts.numbers(group["r"]),
             "customdata": charts.rows(group, "p", "p_clustered", "n", "facts"),
             "marker": {"color": colour, "symbol": symbol, "size": 10},
             "hovertemplate": "r = %{x:+.3f}; p = %{customdata[0]:.2g}, clustered by subject %{customdata[1]:.2g}; "
             "%{customdata[2]:,} pairs, %{customdata[3]:,} facts"}
            for ((score,), group), colour, symbol in zip(
                charts.groups(cell, "score"), ("@0", "@1"), ("circle", "diamond"), strict=False
            )
        ]  # fmt: skip
        if traces in [view["data"] for view in views]:
            continue
        of = "all models" if models == "all" else "the most robust models"
        views.append(
            charts.view(
                f"{of}; {'all formats' if form == 'all' else form}",
                traces,
                rows=cell["factor"].n_unique(),
                xaxis=charts.axis("Pearson's r", zeroline=True, minallowed=-1.1, maxallowed=1.1),
                yaxis=charts.NAMED_ROWS,
            )
        )
    return views


def _factor(name: str) -> str:
    words = name.replace("_", " ")
    return f"ln {words[4:]}" if words.startswith("log ") else words


def bin_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (factor, score), cell in charts.groups(table.sort("factor", "score", maintain_order=True), "factor", "score"):
        traces = [
            {"type": "scatter", "mode": "lines+markers", "name": f"{form}, {GROUPS[models]}",
             "x": charts.numbers(group["value_mean"]), "y": charts.numbers(group["mean"]),
             "error_y": charts.bars(group, "mean"),
             "customdata": charts.rows(group, "value_low", "value_high", "facts"), **charts.numbered(number),
             "hovertemplate": "%{customdata[0]:.4g} to %{customdata[1]:.4g}: %{y:.1%}, %{customdata[2]:,} facts"}
            for number, ((models, form), group) in enumerate(charts.groups(cell, "models", "format"))
        ]  # fmt: skip
        if len(traces) == 2 and traces[0]["y"] == traces[1]["y"]:  # of one model, which is all and the most robust
            traces = traces[:1]
        name, factor_name = charts.NAMES[score], _factor(factor)
        upright = charts.axis(f"global {name}", **charts.PERCENT)
        views.append(charts.view(f"{factor_name}: {name}", traces, xaxis=charts.axis(factor_name), yaxis=upright))
    return views


def _any_factor(study: Study) -> str | None:
    plain = study.global_facts_without_prefix
    if not plain.height:
        return "there is no run without a prefix"
    values = study.once(factors_of)
    if not values.height:
        return "the score tables have no popularity, start, end or other_objects"
    count = values.join(plain, on="fact_id", how="semi").height
    return None if count else "no property is known of facts with all granularities in a run without a prefix"


NEEDS = (
    ALL_GRANULARITIES,
    Need("popularity, dates or number of other objects of facts in a run without a prefix", _any_factor),
)
FACTOR = {
    "factor": "`popularity`, `subject_popularity`, `object_popularity` and their logarithms, `log_distance`, "
    "`log_duration`, `other_objects`",
    "score": "`win_rate` or `robustness`, over all granularities",
}


def _correlations_finding(rows: Rows) -> str | None:
    """Of all models in the run's format. Of several tests at once each must pass at a level divided by their number."""
    known = [row for row in rows if row["models"] == "all" and row["p_clustered"] is not None]
    tested = [row for row in known if isfinite(row["p_clustered"]) and row["facts"] >= FEW]
    sure = [row for row in tested if row["p_clustered"] < SIGNIFICANCE / len(tested)]
    if tested and not sure:
        return f"No property of facts correlates significantly with W or R ({counted(len(tested), 'test')})"
    if not sure:
        return None
    row = max(sure, key=lambda row: abs(row["r"]))
    score = charts.NAMES[row["score"]]
    r = f"{row['r']:+.2f}".replace("-", MINUS)
    passed = "only this one" if len(sure) == 1 else f"this one and {len(sure) - 1} with smaller r"
    tests = "" if len(tested) == 1 else f"; of {len(tested)} tests, {passed} passed"
    factor = FACTORS.get(row["factor"], row["factor"])
    return f"{score} correlates with {factor}: r {r} over {row['facts']:,} facts{tests}"


CORRELATIONS = Analysis(
    name="correlations",
    group=EXPLAINS,
    title="Correlations of W and R with other properties of facts (Pearson's r)",
    source="TimeStress, figures 13 and 18, section 4.2; TimeStress v1, figure 8",
    compute=lambda study: correlations(study.once(factors_of), study.global_facts_without_prefix, study.most_robust),
    needs=NEEDS,
    figure=draw_correlations,
    chart=Chart(
        correlation_views,
        "Right of 0: the larger the property, the better the facts are known.",
        "it takes three facts that differ in W or R and in a known property",
    ),
    finding=_correlations_finding,
    columns={
        "models": "`all` models or `top`, the most robust",
        "format": "`raw`, `chat` or `all`",
        **FACTOR,
        "n": "pairs of run and fact",
        "facts": "number of distinct facts among them",
        "r": "Pearson's r",
        "p": "p value that treats all pairs as independent (the papers')",
        "p_clustered": "p value with standard errors clustered by subject",
    },
    paper=InPaper(
        words={"models": "models", "format": "format", "factor": "factor", "score": "score"},
        numbers={"n": "pairs", "facts": "facts", "r": "r", "p": "p", "p_clustered": "p clustered"},
    ),
)

WIDTH = 1.959964  # standard errors from the middle of a 95 % interval to its ends
PROPERTIES = {  # how facts with the smallest and with the largest values are called
    "popularity": ("lowest popularity", "highest popularity"),
    "subject_popularity": ("least popular subjects", "most popular subjects"),
    "object_popularity": ("least popular objects", "most popular objects"),
    "log_distance": ("latest starts", "earliest starts"),
    "log_duration": ("shortest periods", "longest periods"),
    "other_objects": ("fewest other objects", "most other objects"),
}


def _factor_bins_finding(rows: Rows) -> str | None:
    """W of the facts with the largest and the smallest values of a property: of those for which they surely differ, the
    property for which they do most.

    A normal test of the difference, its standard error from both intervals, at a level divided by the number of
    properties. A logarithm has the order of its number, so it is none more.
    """
    tested = []
    for factor, words in PROPERTIES.items():
        kept = [row for row in rows if (row["models"], row["factor"], row["score"]) == ("all", factor, "win_rate")]
        few, *_, many = [None, None, *sorted(kept, key=lambda row: row["bin"])][-max(len(kept), 2) :]
        if few and many and few is not many and min(few["facts"], many["facts"]) >= FEW:
            error = hypot(*((row["high"] - row["low"]) / (2 * WIDTH) for row in (few, many)))
            size = abs(few["mean"] - many["mean"])
            tested.append((size, erfc(size / error / sqrt(2)) if error else 1.0, words, few, many))
    sure = [one for one in tested if one[1] < SIGNIFICANCE / len(tested)]
    if not sure:
        return None
    _, _, words, few, many = max(sure, key=lambda one: one[0])
    shares = [f"{percent(row['mean'])} ({percent(row['low'])} to {percent(row['high'])})" for row in (many, few)]
    return f"W is {shares[0]} for the facts with the {words[1]}, {shares[1]} for those with the {words[0]}"


FACTOR_BINS = Analysis(
    name="factor_bins",
    group=EXPLAINS,
    title="W and R by popularity, distance, duration and other objects",
    source="TimeStress, figures 13 and 18; TimeStress v1, figure 8",
    compute=lambda study: factor_bins(study.once(factors_of), study.global_facts_without_prefix, study.most_robust),
    needs=NEEDS,
    figure=draw_bins,
    chart=Chart(bin_views, f"Facts in up to ten groups of similar value. {charts.INTERVALS}"),
    finding=_factor_bins_finding,
    columns={
        "models": "`all` models or `top`, the most robust",
        "format": "`raw` or `chat`; all runs of the format together",
        **FACTOR,
        "bin": "0 to at most 9: groups of facts of similar value and about equal size",
        "value_low": "lowest value in the group",
        "value_high": "highest value in the group",
        "value_mean": "mean value in the group",
        "facts": "number of facts in the group",
        "mean": "mean of the score",
        **INTERVAL,
    },
    paper=InPaper(
        words={"models": "models", "format": "format", "factor": "factor", "score": "score", "bin": "bin"},
        numbers={"facts": "facts", "value_mean": "mean value", "mean": "mean score (%)"},
    ),
)
