"""What many updates do to a model: how the earlier ones last, what other facts lose, when the model collapses.

Everything starts from the tables of a run of lifelong editing (`anachron.evaluate.lifelong`), which are those of
`anachron.evaluate.results` with a column ``edits``: how many updates the model held.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import polars as pl

from anachron.analysis.statistics import interval_cells, t_mean
from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, left_alone
from anachron.evaluate.measures.dated_metrics import ENDINGS, dated_metrics
from anachron.evaluate.metrics import BOUNDED, METRICS, MORE_METRICS, in_order, summarise, update_metrics
from anachron.evaluate.results import KEYS, METHOD, STAGE, UNEDITED

# One row per method and number of edits, 0 of the clean model. perplexity: of the held text. fluency: bits, by text.
# undone: the case_id of the update that was taken out; undone_new, undone_old: p of its objects then, on its prompt;
# undone_others: by how much p(new) of each other update then changed, on its own.
STAGES = {
    **STAGE,
    "reason": pl.String(),
    "perplexity": pl.Float64(),
    "fluency": pl.List(pl.Float64()),
    "undone": pl.String(),
    **dict.fromkeys(["undone_new", "undone_old"], pl.Float64()),
    "undone_others": pl.List(pl.Float64()),
}
OF_METRICS = ("targets", "neighbours", "updates", "objects", "generations", "audit")
DATED = ("present_updated_global", "past_kept_global")
LIFELONG_SHARES = (*BOUNDED, *DATED)
OF_UPDATES = tuple(name for name in METRICS if name != "fluency")  # which is the model's as a whole
OF_MODEL = (
    "locality_loss", "locality_change", "perplexity", "fluency", "undone_new", "undone_old", "undone_others",
)  # fmt: skip

BY_AGE = ("efficacy_success", "generalization_success")
TWICE, HALF = 2.0, 0.5  # of the clean model's perplexity and fluency: from there on a model has collapsed


def lifelong_metrics(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """`update_metrics` of each number of edits, with the columns ``edits``, ``place`` of the update and ``made``.

    made: whether the update was among those that the model held; the others tell what it believed before. Where
    dated questions were asked, beside them `DATED` of `dated_metrics`.
    """
    places = tables["updates"].select("case_id", "place").unique()
    rows = []
    for edits in tables["updates"]["edits"].unique().sort():
        stage = {name: table.filter(pl.col("edits") == edits).drop("edits") for name, table in tables.items()}
        metrics = update_metrics(**{name: stage[name] for name in OF_METRICS if name in stage})
        if "dated" in stage:
            dated = dated_metrics(stage["dated"], stage["updates"]).select(*KEYS, *DATED)
            metrics = metrics.join(dated, on=KEYS, how="left", maintain_order="left")
        rows.append(metrics.with_columns(edits=pl.lit(edits, pl.Int64)))
    with_places = pl.concat(rows).join(places, on="case_id", how="left", maintain_order="left")
    return with_places.with_columns(made=pl.col("place") <= pl.col("edits"))


def locality(neighbours: pl.DataFrame, cases: Iterable[EditCase]) -> pl.DataFrame:
    """Facts beside the updates that none of them changes: one row per mode, method, number of edits and prompt.

    The neighbours of all updates, those that are not made yet too, so that they are the same facts after any number of
    edits (but for those that only a failed update has); without the prompts of updates. Columns ``before`` and
    ``after`` are the p of the true object.
    """
    prompts = pl.DataFrame(
        [(case.case_id, kind, number, fact.prompt) for case, kind, number, fact in left_alone(list(cases))],
        schema={"case_id": pl.String, "kind": pl.String, "number": pl.Int64, "prompt": pl.String},
        orient="row",
    )
    key = [*STAGE, "prompt"]
    known = neighbours.drop_nulls(["before", "after"]).join(
        prompts, on=["case_id", "kind", "number"], how="inner", maintain_order="left"
    )
    return known.unique(key, keep="first", maintain_order=True).select(*key, "before", "after")


def lifelong_summary(metrics: pl.DataFrame, facts: pl.DataFrame, stages: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, scenario, method and number of edits: means over the updates made, and the model's state.

    metrics: of `lifelong_metrics`. Efficacy, generalization and the other metrics of updates are those of `summarise`,
    over the updates that were made. `OF_MODEL` are of the model as a whole, ``*_n`` counting facts or texts:

    locality_loss, locality_change    mean loss of p of the facts of `locality`, -min(after - before, 0), and the mean
        of abs(after - before)
    perplexity, fluency               of the held text, and of free text (bits)
    undone_new, undone_old            p of the objects of the one update that was taken out again, on its own prompt
    undone_others                     mean of abs(p(new) after undoing - p(new) before) over the other updates made

    collapsed: the perplexity is at least twice that of the clean model, or the fluency at most half; null where neither
    was measured. Of the paper's methods FT on GPT-J has a ninth of the clean model's fluency, and all others more than
    four fifths, so half tells them apart; a perplexity that is twice as high is a bit more a token.
    """
    if not metrics.height:
        raise DataError("the table of metrics has 0 rows; a summary needs the metrics of at least one update")
    names = (*OF_UPDATES, *(name for name in (*MORE_METRICS, *DATED) if name in metrics.columns))
    rows = []
    for edits in metrics["edits"].unique().sort():
        made = metrics.filter(pl.col("made"), pl.col("edits") == edits)
        rows.append(summarise(made, names, LIFELONG_SHARES).with_columns(edits=pl.lit(edits, pl.Int64)))
    summary = pl.concat(rows, how="diagonal")
    whole = _of_model(facts, stages)
    clean = whole.filter(pl.col("method") == UNEDITED).drop(*METHOD, "edits")
    unedited = pl.col("method") == UNEDITED
    joined = pl.concat(
        [
            summary.filter(~unedited).join(whole, on=list(STAGE), how="left", maintain_order="left"),
            summary.filter(unedited).join(clean, on="mode", how="left", maintain_order="left"),
        ]
    )
    return in_order(joined, stages.filter(pl.col("method") != UNEDITED), "edits")


def _of_model(facts: pl.DataFrame, stages: pl.DataFrame) -> pl.DataFrame:
    """`OF_MODEL` and ``collapsed`` of each row of ``stages``; the clean model's, the first, loses nothing."""
    change = pl.col("after") - pl.col("before")
    facts = facts.with_columns(loss=(0.0 - change).clip(lower_bound=0.0), change=change.abs())
    rows: list[dict[str, Any]] = []
    for row in stages.iter_rows(named=True):
        key = {name: row[name] for name in STAGE}
        of_stage = facts.filter(pl.col(name) == value for name, value in key.items())
        values = {name: row[name] if isinstance(row[name], list) else [row[name]] for name in OF_MODEL[2:]}
        values["locality_loss"], values["locality_change"] = of_stage["loss"].to_list(), of_stage["change"].to_list()
        if row["method"] == UNEDITED:
            values |= dict.fromkeys(OF_MODEL[:2], [0.0] * facts["prompt"].n_unique())
        means = key | {name: cell for metric in OF_MODEL for name, cell in _mean(metric, values[metric]).items()}
        rows.append(means | {"collapsed": _collapsed(means, rows[0] if rows else means)})
    ends = [f"{metric}{end}" for metric in OF_MODEL for end in ENDINGS]
    schema = {name: pl.Int64() if name.endswith("_n") else pl.Float64() for name in ends}
    return pl.DataFrame(rows, schema={**STAGE, **schema, "collapsed": pl.Boolean()})


def _mean(metric: str, values: Iterable[float | None]) -> dict[str, float | int | None]:
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else None
    return {metric: mean, **interval_cells(metric, t_mean(known)), f"{metric}_n": len(known)}


def _collapsed(means: Mapping[str, Any], clean: Mapping[str, Any]) -> bool | None:
    signs = []
    if means["perplexity"] is not None and clean["perplexity"] is not None:
        signs.append(means["perplexity"] >= TWICE * clean["perplexity"])
    if means["fluency"] is not None and clean["fluency"] is not None:
        signs.append(means["fluency"] <= HALF * clean["fluency"])
    return any(signs) if signs else None


def lifelong_by_age(metrics: pl.DataFrame) -> pl.DataFrame:
    """How updates last while others follow: success by when they were made and how many edits the model holds.

    metrics: of `lifelong_metrics`. One row per mode, method, ``edits`` and the updates made between two stages:
    ``first`` and ``last`` of their places, and ``efficacy_success`` and ``generalization_success``, each
    with its 95 % interval and ``*_n``. Those with ``last`` = ``edits`` are the newest.
    """
    stages = [0, *metrics["edits"].unique().sort()]
    rows = []
    for first, last in pairwise(stages):
        cohort = metrics.filter(
            pl.col("method") != UNEDITED, pl.col("place").is_between(first + 1, last), pl.col("edits") >= last
        )
        for edits in cohort["edits"].unique().sort():
            means = summarise(cohort.filter(pl.col("edits") == edits), BY_AGE, LIFELONG_SHARES)
            rows.append(
                means.select(
                    "mode", "scenario", *METHOD, pl.lit(edits, pl.Int64).alias("edits"),
                    pl.lit(first + 1, pl.Int64).alias("first"), pl.lit(last, pl.Int64).alias("last"),
                    *(f"{metric}{end}" for metric in BY_AGE for end in ENDINGS),
                )
            )  # fmt: skip
    return in_order(pl.concat(rows), metrics.filter(pl.col("method") != UNEDITED), "edits", "first")
