"""Facts beside their decoys: what a model's win rates owe to knowing when a fact held.

A decoy is an object of another subject, asked about under the very same dates (`anachron.analysis.decoys`).
"""

from typing import Any

import polars as pl

from anachron.analysis.analyses.analysis import (
    FACT,
    LEVEL,
    LEVEL_WORD,
    RIGHT,
    RUN,
    RUN_WORDS,
    WORDS,
    Analysis,
    Chart,
    InPaper,
    Need,
    in_words,
)
from anachron.analysis.decoys import decoy_metrics, later_wins
from anachron.analysis.findings import Row, difference, widest
from anachron.analysis.metrics import RUN_KEYS, is_run, run_keys, with_subjects
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.statistics import interval_cells, korn_graubard, korn_graubard_difference, sign_flips
from anachron.analysis.study import Study

MEAN_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys([*RUN_KEYS, "granularity"], pl.String),
    **dict.fromkeys(["facts", "subjects"], pl.Int64),
    "decoys": pl.Float64,
    **dict.fromkeys(["win_rate", "win_rate_low", "win_rate_high", "decoy_win_rate"], pl.Float64),
    **dict.fromkeys(["difference", "difference_low", "difference_high", "p"], pl.Float64),
    **dict.fromkeys(["crossed", "crossed_low", "crossed_high", "first", "first_by_chance", "later"], pl.Float64),
}


def mean_decoys(facts: pl.DataFrame, later: pl.DataFrame) -> pl.DataFrame:
    """Means of `decoy_metrics` over the facts of each run and granularity.

    facts: with ``subject``, whose facts depend on each other. later: of `later_wins`. Intervals are
    `korn_graubard` and `korn_graubard_difference`, over subjects. p: that
    the signs of the subjects' differences are chance (`sign_flips`), two-sided.
    """
    rows = []
    for key, part in facts.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        row: dict[str, Any] = dict(zip([*RUN_KEYS, "granularity"], key, strict=True))
        subjects = part["subject"].to_numpy()
        sides = part["decoy_win_rate"].to_numpy(), part["win_rate"].to_numpy()
        row |= {"facts": part.height, "subjects": part["subject"].n_unique(), "decoys": part["decoys"].mean()}
        for name in ("win_rate", "crossed"):
            row |= {name: part[name].mean()} | interval_cells(name, korn_graubard(part[name].to_numpy(), subjects))
        row |= {"decoy_win_rate": sides[0].mean(), "difference": (sides[1] - sides[0]).mean()}
        row |= interval_cells("difference", korn_graubard_difference(*sides, subjects))
        row["p"] = sign_flips(*sides, subjects)
        row |= {"first": (part["place"] == 1).mean(), "first_by_chance": (1 / (1 + part["decoys"])).mean()}
        rows.append(row | {"later": later.filter(is_run(key[:-1]))["later"].item()})
    return pl.DataFrame(rows, schema=MEAN_SCHEMA, orient="row")


def decoys_of_run(scores: pl.DataFrame, decoys: pl.DataFrame) -> Row | None:
    """The row of `mean_decoys` at the widest granularity of the scores of one run, without the run's name; None where
    no fact has decoys."""
    rows = _means(decoy_metrics(scores, decoys), scores, later_wins(decoys)).drop(RUN_KEYS).rows(named=True)
    return widest(rows) if rows else None


def _means(facts: pl.DataFrame, about: pl.DataFrame, later: pl.DataFrame) -> pl.DataFrame:
    return mean_decoys(with_subjects(facts, about), later)


def of_study(study: Study) -> pl.DataFrame:
    """`decoy_metrics` of all runs that have decoys; computed once."""
    found = [(run, study.decoys.get(run_keys(run)[0])) for run in study.runs]
    return pl.concat([decoy_metrics(run, decoys) for run, decoys in found if decoys is not None])


def _means_of_study(study: Study) -> pl.DataFrame:
    later = pl.concat([later_wins(decoys) for decoys in study.decoys.values()])
    return _means(study.once(of_study), study.about, later)


def draw(table: pl.DataFrame) -> "style.Figure":
    """W of the facts, with its interval, beside that of their decoys, at the granularity that most runs have, of these
    the widest."""
    rows = style.check("decoys", table, "difference")
    level = max(charts.LEVELS, key=lambda name: (rows.filter(granularity=name).height, charts.LEVELS.index(name)))
    named = {"win_rate": "facts", "decoy_win_rate": "decoys"}
    return marks.two_a_run(rows.filter(granularity=level), named, f"W ({level})")


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    return [
        charts.by_granularity(
            table, looks, value="difference", low="difference_low", high="difference_high", label="all",
            title="W above that of decoys", of="facts",
        )
    ]  # fmt: skip


DECOYS = Need("decoys", lambda study: None if study.decoys else "no run has decoys; probe with --decoys 5")
DECOY_MEANS = Analysis(
    name="decoys",
    group=RIGHT,
    title="Win rate of facts beside that of decoys: other objects under the same dates",
    source="beyond the papers",
    compute=_means_of_study,
    needs=(DECOYS,),
    figure=draw,
    chart=Chart(
        page_views,
        "A model prefers for decoys what dates it prefers. Bars are 95 % intervals over subjects; 0 is no knowledge.",
    ),
    finding=lambda rows: difference("W is", widest(rows), "that of decoys under the same dates", "difference"),
    columns={
        **RUN,
        **LEVEL,
        "facts": "facts that have decoys",
        "subjects": "their subjects",
        "decoys": "decoys a fact, on average",
        "win_rate": "mean W of these facts, a tie is half a win",
        "win_rate_low": "lower end of its 95 % interval",
        "win_rate_high": "its upper end",
        "decoy_win_rate": "mean W of their decoys",
        "difference": "the one minus the other",
        "difference_low": "lower end of its 95 % interval, paired by fact",
        "difference_high": "its upper end",
        "p": "p value of no difference, by flipping the signs of subjects",
        "crossed": "share of crossed matches won against decoys",
        "crossed_low": "lower end of its 95 % interval",
        "crossed_high": "its upper end",
        "first": "share of facts whose W is above that of each of their decoys",
        "first_by_chance": "what this would be without knowledge",
        "later": "share of pairs of years of which decoys prefer the later one: the run's taste for late dates",
    },
    paper=InPaper(
        words={**RUN_WORDS, **LEVEL_WORD},
        numbers={
            "facts": "facts", "win_rate": "W (%)", "decoy_win_rate": "W of decoys (%)", "difference": "difference (%)",
            "p": "p",
        },
    ),
)  # fmt: skip
DECOY_FACTS = Analysis(
    name="decoy_facts",
    title="Each fact beside its decoys",
    source="beyond the papers",
    compute=lambda study: in_words(study.once(of_study), study),
    needs=(DECOYS,),
    large=True,
    columns={
        **RUN,
        **FACT,
        **WORDS,
        **LEVEL,
        "decoys": "number of decoys",
        "win_rate": "W of the fact, a tie is half a win",
        "decoy_win_rate": "mean W of its decoys",
        "place": "place of the fact among them by W, 1 the best",
        "crossed": "share of its crossed matches won against them",
        "chance": "share of decoys, of this fact and those most like it, that win as many of theirs",
    },
)
