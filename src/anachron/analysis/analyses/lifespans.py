"""W with and without the dates at which the subject or the object did not exist, as before a birth or after a death.

None of the papers does so. A model may know that Lincoln is no answer about 1700 without knowing when he was president,
so W over all incorrect dates is partly about lives; W over those inside the lives is about the fact alone.
"""

from typing import Any

import polars as pl

from anachron.analysis.analyses.analysis import (
    EXPLAINS,
    INTERVAL,
    LEVEL,
    LEVEL_WORD,
    RUN,
    RUN_WORDS,
    Analysis,
    InPaper,
    Need,
)
from anachron.analysis.days import day_numbers, days_of
from anachron.analysis.findings import FEW, Rows, widest
from anachron.analysis.metrics import FACT_KEYS, RUN_KEYS, metrics_of_checked, with_subjects
from anachron.analysis.statistics import korn_graubard_difference
from anachron.analysis.study import Study

FROM, UNTIL = ("subject_from", "object_from"), ("subject_until", "object_until")
LIFESPAN_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys([*RUN_KEYS, "granularity"], pl.String),
    "facts": pl.Int64,
    **dict.fromkeys(["outside", "win_rate", "win_rate_inside", "difference", "low", "high"], pl.Float64),
}


def outside_lives(scores: pl.DataFrame, about: pl.DataFrame) -> pl.Series:
    """Which rows of a score table have a date that lies whole outside the life of the subject or of the object.

    about: one row a fact: ``fact_id`` and, where known, the first and the last date on which each exists
    (``subject_from, subject_until, object_from, object_until``). A date that overlaps with the first or the last is
    inside; what is not known rules nothing out. Raises `DataError` for a date that is none.
    """
    lives = about.select("fact_id", *(day_numbers(about, name, last=name in UNTIL) for name in (*FROM, *UNTIL)))
    placed = (
        scores.select("fact_id", "time")
        .join(lives, on="fact_id", how="left", validate="m:1", maintain_order="left")
        .join(days_of(scores["time"]), on="time", how="left", maintain_order="left")
    )
    before = [pl.col("last") < pl.col(name) for name in FROM]
    after = [pl.col("first") > pl.col(name) for name in UNTIL]
    return placed.select(pl.any_horizontal(*before, *after).fill_null(False).alias("outside"))["outside"]


def lifespans(scores: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """W over all incorrect dates and over those inside the lives, per run and granularity, over the same facts.

    scores: a score table as `anachron.analysis.metrics.check_scores` returns it. about: see `outside_lives`.

    Only facts with an incorrect date outside a life and one inside, at that granularity, count (for ``global``, at
    all three); where there is none, there is no row. ``outside`` is the mean over facts of the share of incorrect
    dates that lie outside; ``difference`` is ``win_rate`` minus ``win_rate_inside`` with its interval over
    subjects (`korn_graubard_difference`): what knowing the lives alone gives.
    """
    dated = scores.with_columns(outside_lives(scores, about)).filter(pl.col("status").is_in(["correct", "incorrect"]))
    wrong = pl.col("status") == "incorrect"
    keys = [*FACT_KEYS, "granularity"]
    shares = dated.filter(wrong).group_by(keys, maintain_order=True).agg(pl.col("outside").mean())
    counted = shares.filter((pl.col("outside") > 0) & (pl.col("outside") < 1))
    kept = dated.join(counted.select(keys), on=keys, how="semi", maintain_order="left")
    every = metrics_of_checked(kept).select(*keys, "win_rate")
    inside = metrics_of_checked(kept.filter(~(wrong & pl.col("outside"))))
    both = every.join(inside.select(*keys, pl.col("win_rate").alias("win_rate_inside")), on=keys, maintain_order="left")
    whole = counted.group_by(FACT_KEYS, maintain_order=True).agg(
        pl.lit("global").alias("granularity"), pl.col("outside").mean()
    )
    both = both.join(pl.concat([counted, whole.select(counted.columns)]), on=keys, maintain_order="left")
    both = with_subjects(both, about)
    rows = []
    for key, group in both.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        win_rate, within, subjects = (group[name].to_numpy() for name in ("win_rate", "win_rate_inside", "subject"))
        low, high = korn_graubard_difference(within, win_rate, subjects)
        row: dict[str, Any] = dict(zip([*RUN_KEYS, "granularity"], key, strict=True)) | {"facts": group.height}
        row |= {name: group[name].mean() for name in ("outside", "win_rate", "win_rate_inside")}
        rows.append(row | {"difference": (win_rate - within).mean(), "low": low, "high": high})
    return pl.DataFrame(rows, schema=LIFESPAN_SCHEMA, orient="row")


def _known(study: Study) -> str | None:
    known = study.about.select(pl.any_horizontal(pl.col(*FROM, *UNTIL).is_not_null()).any()).item()
    return None if known else "the data set does not say when subjects or objects exist"


def _readable(study: Study) -> str | None:
    broken = next(iter(study.undatable.values()), None)
    return None if broken is None else f"the time {broken!r} is not a date (write YYYY, YYYY-MM or YYYY-MM-DD)"


def _lifespans_finding(rows: Rows) -> str | None:
    row = widest(rows)
    if row["facts"] < FEW or row["low"] <= 0 <= row["high"]:
        return None
    low, high = sorted(abs(100 * row[name]) for name in ("low", "high"))
    change = f"{abs(100 * row['difference']):.1f} points {'lower' if row['low'] > 0 else 'higher'}"
    return f"Without dates outside the lifetimes of subject and object, W is {change} ({low:.1f} to {high:.1f})"


LIFESPANS = Analysis(
    name="lifespans",
    group=EXPLAINS,
    title="W with and without the dates on which the subject or the object did not exist",
    source="beyond the papers",
    compute=lambda study: study.map(lambda run: lifespans(run, study.about)),
    needs=(
        Need("lifespans (`SubjectFrom`, `SubjectUntil`, `ObjectFrom`, `ObjectUntil`)", _known),
        Need("dates that can be read", _readable),
    ),
    empty="no fact has an incorrect date outside the lifespans and one inside",
    finding=_lifespans_finding,
    columns={
        **RUN,
        **LEVEL,
        "facts": "facts with an incorrect date outside the lifespans and one inside",
        "outside": "share of their incorrect dates outside the lifespans, mean over facts",
        "win_rate": "W over all incorrect dates",
        "win_rate_inside": "W over the incorrect dates inside the lifespans",
        "difference": "win_rate minus win_rate_inside",
        **INTERVAL,
    },
    paper=InPaper(
        words={**RUN_WORDS, **LEVEL_WORD},
        numbers={
            "facts": "facts",
            "outside": "outside (%)",
            "win_rate": "W (%)",
            "win_rate_inside": "W inside (%)",
            "difference": "difference (points)",
        },
    ),
)
