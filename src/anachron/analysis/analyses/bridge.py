"""W by log-probabilities against W by choice and by open answers, where a model was both scored and asked.

A run that asked goes with the scored runs of the same model, by its label. W by log-probabilities is that by year, for
years are what is asked about; facts whose matches are not as many in both runs were asked about other years and are
left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    EXPLAINS,
    FACT,
    FORMAT_WORDS,
    OF_FORMAT,
    WORDS,
    Analysis,
    Chart,
    InPaper,
    Need,
    in_words,
)
from anachron.analysis.findings import FEW, MINUS, Rows
from anachron.analysis.metrics import POOLED, RUN_KEYS, with_subjects
from anachron.analysis.plots import charts
from anachron.analysis.statistics import (
    RESAMPLES,
    ROUNDING,
    bootstrap_pearson,
    interval_cells,
    korn_graubard_difference,
)
from anachron.analysis.study import Study

MEASURES = {"choice": "W by choice", "open": "the share of open answers that are right"}
OF_PAIR = ["asked_by", "format", "prefix"]
LABELLED = ("subject_label", "relation_label", "object_label")
LEAST = {"fact": 2, "model": 3}  # models, so that a line through the others can be drawn
Pairs = tuple[np.ndarray, np.ndarray]  # asked, and W by log-probabilities


def bridge_facts(study: Study) -> pl.DataFrame:
    """One row a run that asked, a scored run of the same model, and a fact of both: ``win_rate`` by log-probabilities,
    ``choice`` with its interval, and ``open``, each 0 to 1, null where it is not known."""
    assert study.answers is not None
    named = pl.sum_horizontal("open_right", "open_other_period", "open_somebody_else")
    asked = study.answers.facts.select(
        "model", "asked_by", "fact_id", "matches_of", choice="win_rate", choice_low="win_rate_low",
        choice_high="win_rate_high", open=pl.when(named > 0).then(pl.col("open_right") / named),
    )  # fmt: skip
    scored = study.facts.filter(pl.col("granularity") == "year").select(*RUN_KEYS, "fact_id", "win_rate", "matches")
    both = asked.join(scored, on=["model", "fact_id"], maintain_order="left_right").filter(
        (pl.col("matches_of") == pl.col("matches")).fill_null(True)
        & pl.any_horizontal(pl.col(name).is_not_null() for name in MEASURES)
    )
    table = both.select("model", *OF_PAIR, "fact_id", "win_rate", "choice", "choice_low", "choice_high", "open")
    return in_words(table, study)


def bridge(facts: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """How what is asked and W by log-probabilities go together over facts, of each model, and of all (``pooled``).

    facts: of `bridge_facts`. One row a model, a way of asking and a measure (``asked``: choice or open): mean ``value``
    and ``win_rate``; ``bias``, the mean of the one minus the other; and Pearson's ``correlation``, null where one of
    the two does not vary. The interval of the correlation resamples subjects; that of the bias is
    `korn_graubard_difference`.
    """
    rows = []
    pooled = [facts.with_columns(model=pl.lit(POOLED))] if facts["model"].n_unique() > 1 else []
    for table in (facts, *pooled):
        for (model, *of_pair), group in table.group_by("model", *OF_PAIR, maintain_order=True):
            for measure in MEASURES:
                known = group.drop_nulls(measure)
                if not known.height:
                    continue
                x, y = known[measure].to_numpy(), known["win_rate"].to_numpy()
                subjects = with_subjects(known, known)["subject"].to_numpy()
                row: dict[str, Any] = {"model": model, **dict(zip(OF_PAIR, of_pair, strict=True)), "asked": measure}
                row |= {"models": 1 if model != POOLED else _models_of(facts, of_pair, measure)}
                row |= {"facts": known.height, "value": x.mean(), "win_rate": y.mean()}
                varied = np.ptp(x) > 0 and np.ptp(y) > 0
                row |= {"correlation": float(np.corrcoef(x, y)[0, 1]) if varied else None}
                ends = bootstrap_pearson(x, y, subjects, resamples=resamples, seed=seed) if varied else (nan, nan)
                row |= interval_cells("correlation", ends) | {"bias": (x - y).mean()}
                row |= interval_cells("bias", korn_graubard_difference(y, x, subjects))
                rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _models_of(facts: pl.DataFrame, of_pair: Sequence[object], measure: str) -> int:
    here = pl.all_horizontal(pl.col(name) == value for name, value in zip(OF_PAIR, of_pair, strict=True))
    return facts.filter(here & pl.col(measure).is_not_null())["model"].n_unique()


@dataclass(frozen=True, slots=True)
class Line:
    """``win_rate = start + slope * asked``, by least squares; the mean, where what is asked does not vary."""

    start: float
    slope: float

    def at(self, asked: np.ndarray) -> np.ndarray:
        return self.start + self.slope * asked


def fit_line(asked: np.ndarray, win_rate: np.ndarray) -> Line:
    """The line of least squares through some points."""
    gaps = asked - asked.mean()
    slope = float(gaps @ win_rate) / float(gaps @ gaps) if np.ptp(asked) > ROUNDING else 0.0
    return Line(float(win_rate.mean()) - slope * float(asked.mean()), slope)


def left_out_errors(models: Sequence[Pairs]) -> np.ndarray:
    """What the line through all other models says of each value of a model, minus what is true, model by model.

    models: of each what was asked and W by log-probabilities, arrays of one length. At least two models.
    """
    errors = []
    for place, (asked, win_rate) in enumerate(models):
        others = [pair for other, pair in enumerate(models) if other != place]
        line = fit_line(*(np.concatenate(side) for side in zip(*others, strict=True)))
        errors.append(line.at(asked) - win_rate)
    return np.concatenate(errors)


def conversion(facts: pl.DataFrame) -> pl.DataFrame:
    """Whether W by log-probabilities can be told from what was asked, leaving one model out at a time.

    facts: of `bridge_facts`. One row a way of asking, a measure, and a ``level``: the W of each ``fact``, or the mean
    of each ``model``. ``error``: the root mean square of `left_out_errors`. ``differences``: what a conversion should
    show, the standard deviation of W by log-probabilities, over the facts within models or over models (divisors n).
    Who tells every model the mean of the others is off by at least that much, so a conversion is refused, and has no
    line, unless its error is smaller. ``words`` says so.
    """
    rows = []
    for key, group in facts.group_by(OF_PAIR, maintain_order=True):
        for measure in MEASURES:
            known = group.drop_nulls(measure)
            by_fact = [
                (table[measure].to_numpy(), table["win_rate"].to_numpy())
                for table in known.partition_by("model", maintain_order=True)
            ]
            by_model = [(np.array([x.mean()]), np.array([y.mean()])) for x, y in by_fact]
            for level, models in (("fact", by_fact), ("model", by_model)):
                if models:
                    row: dict[str, Any] = {**dict(zip(OF_PAIR, key, strict=True)), "asked": measure, "level": level}
                    rows.append(
                        row | {"models": len(models), "facts": known.height} | _converted(models, level, measure)
                    )
    return pl.DataFrame(rows, infer_schema_length=None)


def _converted(models: Sequence[Pairs], level: str, measure: str) -> dict[str, Any]:
    """The cells of `conversion` that say whether there is one."""
    cells: dict[str, Any] = {"error": None, "differences": None, "converts": False, "start": None, "slope": None}
    target = f"{MEASURES[measure]} is not converted into W by log-probabilities of a {level}"
    if len(models) < LEAST[level]:
        few = f"{len(models)} model{'s' if len(models) > 1 else ''}"
        return cells | {
            "words": f"{target}: leaving one out takes at least {LEAST[level]} models with both; found {few}"
        }
    errors, values = left_out_errors(models), [win_rate for _, win_rate in models]
    within = values if level == "fact" else [np.concatenate(values)]
    error = float(np.sqrt(np.mean(errors**2)))
    differences = float(np.sqrt(np.mean(np.concatenate([w - w.mean() for w in within]) ** 2)))
    cells |= {"error": error, "differences": differences}
    off = f"{100 * error:.1f} points off for a model that it was not fitted to"
    apart = f"{level}s lie {100 * differences:.1f} points apart (standard deviation)"
    if error >= differences:
        return cells | {"words": f"{target}: it would be {off}, and {apart}"}
    line = fit_line(*(np.concatenate(side) for side in zip(*models, strict=True)))
    cells |= {"converts": True, "start": line.start, "slope": line.slope}
    words = f"W by log-probabilities of a {level} is about {line.start:.3f} {line.slope:+.3f} × {MEASURES[measure]}"
    return cells | {"words": f"{words}: {off}, where {apart}"}


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    """Facts as points, W by log-probabilities over each measure."""
    views = []
    for measure, name in MEASURES.items():
        known = table.drop_nulls(measure)
        traces = [
            {
                "type": "scatter", "mode": "markers",
                "name": charts.texts([f"{model}, {form}, asked by {asked_by}"])[0],
                "x": charts.numbers(group[measure]), "y": charts.numbers(group["win_rate"]),
                "text": charts.texts(" | ".join(filter(None, row)) for row in group.select(LABELLED).iter_rows()),
                "hovertemplate": "%{text}<br>asked %{x:.0%}, log-probabilities %{y:.0%}", **charts.numbered(number),
            }
            for number, ((model, asked_by, form, _), group) in enumerate(charts.groups(known, "model", *OF_PAIR))
        ]  # fmt: skip
        axes = {
            "xaxis": charts.axis(name, **charts.PERCENT),
            "yaxis": charts.axis("W by log-probabilities", **charts.PERCENT),
        }
        views.append(charts.view(name, traces, **axes))
    return views


def _both(study: Study) -> str | None:
    if not study.runs:
        return "no run here has log-probabilities"
    if study.once(bridge_facts).height:
        return None
    assert study.answers is not None
    asked, scored = study.answers.facts, study.facts
    shared = asked.join(scored, on=["model", "fact_id"], how="semi")
    if shared.height:
        return "facts were asked about other years than were scored; ask about the data set that was scored"
    if asked.join(scored, on="model", how="semi").height:
        return "no fact was both asked about and scored"
    names = [", ".join(sorted({*table["model"]})) for table in (asked, scored)]
    return f"no model was both asked ({names[0]}) and scored ({names[1]}); runs of one model need one --label"


BOTH = Need("facts of one model, by its label, that were both scored and asked about", _both)
OF_BRIDGE = {"asked_by": "`chat` or `generate`: the backend that asked", **OF_FORMAT}
MEASURE = {"asked": "`choice`: W by choice; `open`: share of open questions with a year answered correctly"}

BRIDGE_FACTS = Analysis(
    name="bridge_facts",
    group=EXPLAINS,
    title="W by log-probabilities and the answers of the same model, fact by fact",
    source="beyond the papers",
    compute=lambda study: study.once(bridge_facts),
    needs=(BOTH,),
    large=True,
    chart=Chart(page_views, "Each point is one fact under one model."),
    columns={
        "model": "label of both runs",
        **OF_BRIDGE,
        **FACT,
        **WORDS,
        "win_rate": "W by log-probabilities, by year",
        "choice": "W by choice between two years; empty if no choice could be read",
        "choice_low": "lower end of its 95 % interval",
        "choice_high": "its upper end",
        "open": "of the open questions with a year that were answered with a name, the share answered correctly",
    },
)


def _bridge_finding(rows: Rows) -> str | None:
    kept = [row for row in rows if row["asked"] == "choice" and row["correlation_low"] is not None]
    if len(kept) != 1 or kept[0]["facts"] < FEW or kept[0]["correlation_low"] <= 0 <= kept[0]["correlation_high"]:
        return None
    (row,) = kept
    r, low, high = (f"{row[f'correlation{end}']:+.2f}".replace("-", MINUS) for end in ("", "_low", "_high"))
    words = (
        "the higher its W by log-probabilities" if row["correlation"] > 0 else "the lower its W by log-probabilities"
    )
    return f"The higher a fact's W by choice, {words}: r {r} ({low} to {high}) over {row['facts']:,} facts"


BRIDGE = Analysis(
    name="bridge",
    group=EXPLAINS,
    title="Correlation and bias between answers and W by log-probabilities",
    source="beyond the papers",
    compute=lambda study: bridge(study.once(bridge_facts), resamples=study.resamples, seed=study.seed),
    needs=(BOTH,),
    finding=_bridge_finding,
    columns={
        "model": "label of both runs; `pooled`: all models together",
        **OF_BRIDGE,
        **MEASURE,
        "models": "number of models in the row",
        "facts": "pairs of model and fact",
        "value": "mean of the value from answers",
        "win_rate": "mean W by log-probabilities over the same facts",
        "correlation": "Pearson's r over facts; empty if one of the two does not vary",
        "correlation_low": "lower end of its 95 % interval, by resampling subjects",
        "correlation_high": "its upper end",
        "bias": "mean of the value from answers minus W by log-probabilities",
        "bias_low": "lower end of its 95 % interval, over subjects",
        "bias_high": "its upper end",
    },
    paper=InPaper(
        words={"model": "model", "asked_by": "asked by", **FORMAT_WORDS, "asked": "asked"},
        numbers={
            "facts": "facts",
            "value": "asked (%)",
            "win_rate": "W (%)",
            "correlation": "r",
            "bias": "bias (points)",
        },
    ),
)

CONVERSION = Analysis(
    name="conversion",
    group=EXPLAINS,
    title="Whether W by log-probabilities can be predicted from answers",
    source="beyond the papers",
    compute=lambda study: conversion(study.once(bridge_facts)),
    needs=(BOTH,),
    columns={
        **OF_BRIDGE,
        **MEASURE,
        "level": "what is predicted: the W of each `fact`, or the mean W of each `model`",
        "models": "number of models with both",
        "facts": "pairs of model and fact",
        "error": "root mean square error of the line fitted to all other models; empty with too few models",
        "differences": "standard deviation of W by log-probabilities: of facts within models, or of models",
        "converts": "whether the error is smaller than the differences",
        "start": "intercept of the line fitted to all models, `start + slope × asked`; empty if refused",
        "slope": "slope of that line; empty if refused",
        "words": "the result in words",
    },
    paper=InPaper(
        words={"asked_by": "asked by", **FORMAT_WORDS, "asked": "asked", "level": "level", "converts": "converts"},
        numbers={"models": "models", "facts": "facts", "error": "error (points)", "differences": "spread (points)"},
    ),
)
