"""Plain anachronisms: impossible or far dates that a model prefers to dates at which the fact held.

None of the papers lists them; their far errors (TimeStress, figure 4) count the far ones at year granularity.
"""

from typing import Any

import polars as pl

from anachron.analysis.analyses.analysis import (
    FACT,
    GRANULARITY,
    INTERVAL,
    LABELS,
    RUN,
    RUN_WORDS,
    WRONG,
    Analysis,
    InPaper,
    Need,
)
from anachron.analysis.analyses.far_errors import FAR
from anachron.analysis.days import day_numbers, days_of
from anachron.analysis.findings import Rows
from anachron.analysis.metrics import FACT_KEYS, RUN_KEYS, is_run
from anachron.analysis.statistics import korn_graubard
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES
from anachron.io.tables import by_schema

BEFORE_SUBJECT, BEFORE_OBJECT, FAR_AWAY = "before the subject", "before the object", "far from the period"

KEPT = 200  # of each run; all are too many to keep
BIRTHS = ["subject_from", "object_from"]
ANACHRONISM_SCHEMA: dict[str, type[pl.DataType]] = {
    "rank": pl.Int64,
    **dict.fromkeys([*FACT_KEYS, *LABELS, "granularity", "time"], pl.String),
    **dict.fromkeys(["alpha", "logp", "lead", "beaten", "win_rate"], pl.Float64),
    "reason": pl.String,
    "absurdity": pl.Float64,
}

SUMMARY_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(RUN_KEYS, pl.String),
    "facts": pl.Int64,
    "facts_with": pl.Int64,
    **dict.fromkeys(["share", "low", "high"], pl.Float64),
    "anachronisms": pl.Int64,
    "impossible": pl.Int64,
    "most_absurd_alpha": pl.Float64,
    "farthest_alpha": pl.Float64,
}


def anachronisms(scores: pl.DataFrame, about: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Every plain anachronism of every run, the most absurd first.

    scores: a score table as `anachron.analysis.metrics.check_scores` returns it.
    about: one row a fact, with ``fact_id``, labels, ``start, end`` and, where the data set knows them,
        ``subject_from, object_from``: the first date on which the subject or the object exists.
    facts: the table of `anachron.analysis.metrics.fact_metrics`.

    An anachronism is an incorrect context that is at least as likely as some correct context of the same fact, run and
    granularity (a match lost, see `anachron.analysis.metrics`), and that is absurd, for one of these reasons, the first
    that applies:

    * ``before the subject``: all its days lie before the first day of ``subject_from``;
    * ``before the object``: likewise for ``object_from``;
    * ``far from the period``: abs(alpha) >= 1, also where the subject and the object do exist.

    ``lead`` is logp minus that of the best correct context (nats; negative where it beats only some), ``beaten`` the
    share of the correct contexts that it beats. ``absurdity`` = distance x beaten, where distance is abs(alpha), at
    least 1: how many periods away the preferred date lies, weighted by how much of the truth it is preferred to. A date
    five periods off that beats one correct context of ten by chance is less absurd than one two periods off that beats
    them all. ``rank`` counts from 1 in each run by falling absurdity; between equals by falling lead, then by fact,
    granularity and date.

    Returns the columns of ``ANACHRONISM_SCHEMA``, all text as strings, runs in order of appearance. Raises
    `DataError` for a ``time``, ``subject_from`` or ``object_from`` that is no date.
    """
    known = _about(about)
    needed = scores.lazy().filter(pl.col("status").is_in(["correct", "incorrect"]))
    needed = needed.select(*FACT_KEYS, "granularity", "time", "status", "alpha", "logp")
    tables = [pl.DataFrame(schema=ANACHRONISM_SCHEMA)]
    for key in scores.select(RUN_KEYS).unique(maintain_order=True).iter_rows():
        run = needed.filter(is_run(key)).collect()
        lost = _lost(run).join(known, on="fact_id", how="left", validate="m:1", maintain_order="left")
        win_rates = facts.filter(is_run(key)).select("fact_id", "granularity", "win_rate")
        tables.append(
            _absurd(lost)
            .join(win_rates, on=["fact_id", "granularity"], how="left", validate="m:1", maintain_order="left")
            .with_columns(pl.lit(value, pl.String).alias(name) for name, value in zip(RUN_KEYS, key, strict=True))
            .select(pl.col(name).cast(kind) for name, kind in ANACHRONISM_SCHEMA.items())
        )
    return pl.concat(tables)


def _about(about: pl.DataFrame) -> pl.DataFrame:
    """Facts with their labels (null where missing) and the day numbers from which subject and object exist."""
    named = by_schema(about, dict.fromkeys(("fact_id", *LABELS), pl.String))
    return named.with_columns(day_numbers(about, name) for name in BIRTHS)


def _lost(run: pl.DataFrame) -> pl.DataFrame:
    """The incorrect contexts of one run that beat a correct one: ``lead`` and ``beaten`` come along."""
    group = ["fact_id", "granularity"]
    correct = pl.col("status") == "correct"
    return (
        run.with_columns(correct.alias("correct"))
        # In order of score, correct before incorrect among equals: what went before is what was beaten.
        .sort([*group, "logp", "correct"], descending=[False, False, False, True])
        .with_columns(
            pl.col("correct").cum_sum().over(group).alias("below"),
            pl.col("correct").sum().over(group).alias("all"),
            pl.col("logp").filter("correct").max().over(group).alias("best"),
        )
        .filter(~pl.col("correct") & (pl.col("below") > 0))
        .select(
            *group, "time", "alpha", "logp",
            (pl.col("logp") - pl.col("best")).alias("lead"),
            (pl.col("below") / pl.col("all")).alias("beaten"),
        )
    )  # fmt: skip


def _absurd(lost: pl.DataFrame) -> pl.DataFrame:
    """The absurd ones of the lost contexts of a run, ranked."""
    days = days_of(lost.filter(pl.any_horizontal(pl.col(BIRTHS).is_not_null()))["time"])
    order = {granularity: place for place, granularity in enumerate(GRANULARITIES)}
    return (
        lost.join(days.select("time", last_day="last"), on="time", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("last_day") < pl.col("subject_from"))
            .then(pl.lit(BEFORE_SUBJECT))
            .when(pl.col("last_day") < pl.col("object_from"))
            .then(pl.lit(BEFORE_OBJECT))
            .when(pl.col("alpha").abs() >= FAR)
            .then(pl.lit(FAR_AWAY))
            .alias("reason")
        )
        .filter(pl.col("reason").is_not_null())
        .with_columns(
            (pl.col("alpha").abs().clip(lower_bound=FAR) * pl.col("beaten")).alias("absurdity"),
            pl.col("granularity").replace_strict(order, return_dtype=pl.Int8).alias("place"),
        )
        .sort(["absurdity", "lead", "fact_id", "place", "time"], descending=[True, True, False, False, False])
        .with_row_index("rank", offset=1)
    )


def anachronism_summary(ranked: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Per run, how many facts are placed at absurd dates, from all rows of `anachronisms` and from `fact_metrics`.

    ``facts``: those with matches at some granularity, for only they can have one; ``facts_with`` an anachronism, and
    their ``share`` with its interval over subjects (``low, high``); ``anachronisms`` in all, and those of them
    that are ``impossible`` (before the subject or the object); ``most_absurd_alpha``, that of rank 1, and
    ``farthest_alpha``, the one with the largest distance (null where there is none).
    """
    rows = []
    for key, group in facts.group_by(RUN_KEYS, maintain_order=True):
        of_run = ranked.filter(is_run(key))
        with_matches = group.select("fact_id", "subject").unique(maintain_order=True)
        struck = with_matches["fact_id"].is_in(of_run["fact_id"].unique().to_list())
        low, high = korn_graubard(struck.cast(pl.Float64).to_numpy(), with_matches["subject"].to_numpy())
        alphas = of_run.sort("rank")["alpha"]
        farthest = alphas.abs().arg_max()
        row: dict[str, Any] = dict(zip(RUN_KEYS, key, strict=True))
        row |= {"facts": struck.len(), "facts_with": struck.sum(), "share": struck.mean(), "low": low, "high": high}
        row |= {"anachronisms": of_run.height}
        row |= {"impossible": of_run["reason"].is_in([BEFORE_SUBJECT, BEFORE_OBJECT]).sum()}
        row |= {"most_absurd_alpha": alphas.first(), "farthest_alpha": None if farthest is None else alphas[farthest]}
        rows.append(row)
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA, orient="row")


def most_absurd_and_summary(study: Study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The `KEPT` most absurd anachronisms of each run, and the summary of all."""
    kept, summaries = [], []
    for run in study.runs:
        ranked = anachronisms(run, study.about, study.facts)
        rated = study.facts.join(run.select(RUN_KEYS).unique(), on=RUN_KEYS, how="semi", maintain_order="left")
        summaries.append(anachronism_summary(ranked, rated))
        kept.append(ranked.filter(pl.col("rank") <= KEPT))
    return pl.concat(kept), pl.concat(summaries)


def _readable_dates(study: Study) -> str | None:
    known = study.about.select(pl.col("subject_from", "object_from").is_not_null().any()).row(0)
    broken = next(iter(study.undatable.values()), None)
    if broken is None or not any(known):
        return None
    return f"the time {broken!r} is not a date (write YYYY, YYYY-MM or YYYY-MM-DD)"


def _any_anachronism(study: Study) -> str | None:
    return None if study.once(most_absurd_and_summary)[0].height else "no impossible or distant date beat a true one"


READABLE_DATES = Need(
    "dates that can be read, if the data set says from when on a subject or object exists", _readable_dates
)

ANACHRONISMS = Analysis(
    name="anachronisms",
    group=WRONG,
    title="Impossible or distant dates preferred to true ones: the 200 most absurd of each run",
    source="beyond the papers",
    compute=lambda study: study.once(most_absurd_and_summary)[0],
    needs=(READABLE_DATES, Need("an impossible or distant date that beat a true one", _any_anachronism)),
    large=True,
    columns={
        "rank": "rank within the run, by descending absurdity",
        **RUN,
        **FACT,
        **LABELS,
        **GRANULARITY,
        "time": "the preferred date",
        "alpha": "its relative distance from the middle of the period",
        "logp": "log-probability of the answer, nats",
        "lead": "logp minus that of the best correct context; negative if it beats only some of them",
        "beaten": "share of the correct contexts that it beats",
        "win_rate": "W of the fact at this granularity",
        "reason": "`before the subject`, `before the object` or `far from the period`",
        "absurdity": "abs(alpha), at least 1, times beaten",
    },
)


def _anachronism_summary_finding(rows: Rows) -> str | None:
    (row,) = rows
    return f"Prefers an impossible or far date to a true one for {row['facts_with']:,} of {row['facts']:,} facts"


ANACHRONISM_SUMMARY = Analysis(
    name="anachronism_summary",
    group=WRONG,
    title="How many facts are placed at absurd dates",
    source="beyond the papers",
    compute=lambda study: study.once(most_absurd_and_summary)[1],
    needs=(READABLE_DATES,),
    finding=_anachronism_summary_finding,
    columns={
        **RUN,
        "facts": "facts with matches",
        "facts_with": "facts that have an anachronism",
        "share": "facts_with / facts",
        **INTERVAL,
        "anachronisms": "total number of anachronisms",
        "impossible": "those before the subject or the object existed",
        "most_absurd_alpha": "alpha of the most absurd one (rank 1)",
        "farthest_alpha": "alpha of the one farthest from its period",
    },
    paper=InPaper(
        words=RUN_WORDS,
        numbers={
            "facts": "facts",
            "facts_with": "facts with",
            "share": "share (%)",
            "anachronisms": "in all",
            "impossible": "impossible",
            "farthest_alpha": "farthest alpha",
        },
    ),
)
