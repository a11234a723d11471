"""Crossed matches: a win rate that no preference for dates or for objects can win.

Take two objects o and o' of one subject and relation, and a date of each one's own period, d and d'. The match is won
when log P(o | d) + log P(o' | d') is above log P(o | d') + log P(o' | d). Whatever a model adds for a date (late, round
or frequent years) and whatever it adds for an object (fame, length) stands on both sides and cancels: if every score is
f(o) + g(d), all matches are ties. What is left is *who when*. See docs/definitions.md.
"""

from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
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
)
from anachron.analysis.findings import FEW, Row, Rows, interval
from anachron.analysis.metrics import GLOBAL, RUN_KEYS, TIED, check_scores, share_won
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.statistics import interval_cells, korn_graubard, sign_flips
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES
from anachron.core.errors import DataError
from anachron.io.tables import by_schema

EVERY = "all"  # relations together
LABELS = ["subject_label", "relation_id", "relation_label"]
RELATION = pl.coalesce("relation_id", "relation_label")
SUCCESSION = [pl.col("subject_label").alias("of_subject"), RELATION.alias("of_relation")]  # whose objects make pairs
PAIR_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys([*RUN_KEYS, "granularity", *LABELS, "object_label", "other_label"], pl.String),
    **dict.fromkeys(["matches", "ties"], pl.Int64),
    **dict.fromkeys(["crossed", "win_rate"], pl.Float64),
}
MEAN_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys([*RUN_KEYS, "granularity", "relation"], pl.String),
    **dict.fromkeys(["subjects", "successions", "pairs", "matches"], pl.Int64),
    **dict.fromkeys(["ties", "crossed", "crossed_low", "crossed_high", "p", "win_rate"], pl.Float64),
    "dates": pl.Int64,
    **dict.fromkeys(["chance", "likeliest", "likeliest_low", "likeliest_high"], pl.Float64),
    **dict.fromkeys(["likeliest_less_prior", "likeliest_less_prior_low", "likeliest_less_prior_high"], pl.Float64),
}


def crossed_matches(scores: pl.DataFrame) -> pl.DataFrame:
    """The share of crossed matches won by each pair of objects of one subject and relation.

    scores: a score table that names the ``subject_label``, ``object_label`` and ``relation_label`` (or ``relation_id``)
        of its facts, as a run of `anachron.run_probe` does.

    Returns one row per model, format, prefix, granularity and pair: ``object_label`` and ``other_label``, ``matches``
    (pairs of a date of one's own period and one of the other's, neither of which lies in both), ``ties``, ``crossed``
    (0 to 1, a tie is half a win) and ``win_rate``, W of the two objects between the same dates. A pair with matches at
    year, month and day has a row ``global``, the mean of these. Dates count at which both objects were asked about and
    the one holds while the other certainly does not. Raises `DataError` for a table that is no score table, or that
    does not name its facts. Beyond the papers.
    """
    runs, about = _labelled(scores)
    return pl.concat([crossed_pairs(run, about) for run in runs])


def crossed_table(scores: pl.DataFrame) -> pl.DataFrame:
    """`mean_crossed` of a score table."""
    runs, about = _labelled(scores)
    pairs, objects = (pl.concat([of(run, about) for run in runs]) for of in (crossed_pairs, likeliest_objects))
    return mean_crossed(pairs, objects)


def _labelled(scores: pl.DataFrame) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    """The runs of a score table, and one row a fact: ``fact_id``, `LABELS` and ``object_label``."""
    checked = check_scores(scores)
    lacking = [name for name in ("subject_label", "object_label") if name not in scores.columns]
    if lacking or not {"relation_label", "relation_id"} & {*scores.columns}:
        missing = ", ".join(lacking or ["relation_label"])
        raise DataError(f"the score table has no column {missing}; crossed matches need to know whose object each is")
    words = by_schema(checked, dict.fromkeys(("fact_id", *LABELS, "object_label"), pl.String))
    about = words.unique("fact_id", maintain_order=True)
    return checked.partition_by(RUN_KEYS, maintain_order=True), about


def crossed_pairs(scores: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """`crossed_matches` of one checked run. about: one row a fact, ``fact_id``, `LABELS` and ``object_label``."""
    named, dated = _in_successions(scores, about)
    dated = dated.filter(pl.col("status").is_in(["correct", "incorrect"]))
    # Each date once for each pair of objects that were asked about at it, of which one held and the other did not
    keys = [*RUN_KEYS, "granularity", "succession"]
    both = dated.join(dated, on=[*keys, "time"], suffix="_other").filter(
        pl.col("at") < pl.col("at_other"),
        pl.col("status") != pl.col("status_other"),
        pl.col("object_label") != pl.col("object_label_other"),
    )
    own = pl.col("status") == "correct"
    sides = (
        both.sort(*keys, "at", "at_other", "time")
        .group_by([*keys, "at", "at_other"], maintain_order=True)
        .agg(
            pl.col("logp").filter(own).alias("own"), pl.col("logp_other").filter(own).alias("own_other"),
            pl.col("logp").filter(~own).alias("foreign"), pl.col("logp_other").filter(~own).alias("foreign_other"),
        )
        .filter((pl.col("own").list.len() > 0) & (pl.col("foreign").list.len() > 0))
    )  # fmt: skip
    counted = sides.select(*keys, "at", "at_other").with_columns(_counted(sides))
    labels = named.select("at", *LABELS, "object_label")
    pairs = counted.join(labels, on="at", maintain_order="left").join(
        labels.select(pl.col("at").alias("at_other"), pl.col("object_label").alias("other_label")),
        on="at_other", maintain_order="left",
    )  # fmt: skip
    same = [*RUN_KEYS, "succession", "at", "at_other", *LABELS, "object_label", "other_label"]
    whole = (
        pairs.group_by(same, maintain_order=True)
        .agg(pl.len().alias("levels"), pl.col("matches", "ties").sum(), pl.col("crossed", "win_rate").mean())
        .filter(pl.col("levels") == len(GRANULARITIES))
        .with_columns(pl.lit(GLOBAL).alias("granularity"))
    )
    columns = [*PAIR_SCHEMA, "at", "at_other"]
    table = pl.concat([pairs.select(columns), whole.select(columns)])
    level = pl.col("granularity").cast(pl.Enum(charts.LEVELS))  # year, month, day, global
    return table.sort(level, "at", "at_other").select(pl.col(n).cast(kind) for n, kind in PAIR_SCHEMA.items())


def _in_successions(scores: pl.DataFrame, about: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The facts that have labels, with the number of their succession and their own, ``at``; and the scores of those
    whose succession has several."""
    named = about.filter(
        pl.all_horizontal(pl.col("subject_label", "object_label").is_not_null(), RELATION.is_not_null())
    )
    named = named.with_columns(
        pl.struct(SUCCESSION).rank("dense").alias("succession"), pl.int_range(pl.len()).alias("at")
    )
    several = named.filter(pl.len().over("succession") > 1).select("fact_id", "succession", "at", "object_label")
    columns = [*RUN_KEYS, "granularity", "succession", "time", "at", "object_label", "status", "logp"]
    return named, scores.join(several, on="fact_id").select(columns)


def likeliest_objects(scores: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """Whether the likeliest object at each date is the right one, by succession; of one checked run.

    Of the dates at which several objects of a succession were asked about, and one of them holds while the others
    certainly do not. Returns per granularity and succession ``dates``, ``chance`` (mean of one by the number of
    objects), ``likeliest``, the share of dates at which the right one has the highest log-probability (of k equal ones
    each counts 1 / k), and ``likeliest_less_prior``, the same after the mean of each object's own over these dates is
    taken off, by which no preference for an object is left.
    """
    named, dated = _in_successions(scores, about)
    keys = [*RUN_KEYS, "granularity", "succession"]
    held, own = pl.col("status") == "correct", pl.col("logp") - pl.col("logp").mean().over([*keys, "at"])
    asked = dated.filter(
        pl.len().over([*keys, "time"]) > 1, held.sum().over([*keys, "time"]) == 1,
        pl.col("status").is_in(["correct", "incorrect"]).all().over([*keys, "time"]),
    ).with_columns(own.alias("own"))  # fmt: skip
    ahead = [(pl.col(name) >= pl.col(name).max() - TIED).alias(name) for name in ("logp", "own")]
    of_date = asked.group_by([*keys, "time"], maintain_order=True).agg(
        (1 / pl.len()).alias("chance"),
        *((of & held).sum() / of.sum() for of in ahead),
    )
    found = of_date.group_by(keys, maintain_order=True).agg(
        pl.len().alias("dates"), pl.col("chance").mean(), pl.col("logp").mean().alias("likeliest"),
        pl.col("own").mean().alias("likeliest_less_prior"),
    )  # fmt: skip
    which = named.unique("succession", maintain_order=True).select("succession", *SUCCESSION)
    return found.join(which, on="succession", maintain_order="left").drop("succession")


def _counted(sides: pl.DataFrame) -> list[pl.Series]:
    """Matches, ties, the share of crossed matches won, and W between the same dates, of each pair.

    own: of the dates at which the first object held, its scores; own_other: the other one's at these dates. foreign and
    foreign_other: the same at the dates at which the other one held.
    """
    rows = []
    for lists in sides.select("own", "own_other", "foreign", "foreign_other").iter_rows():
        own, own_other, foreign, foreign_other = map(np.asarray, lists)
        # What the first object leads by, at its own dates and at the other one's: f(o) and g(d) are gone from the
        # difference of the two leads, so a match is won where the lead is larger at the own date
        gaps = np.subtract.outer(own - own_other, foreign - foreign_other)  # (own dates, foreign dates)
        plain = np.greater.outer(own, foreign).mean() + np.greater.outer(foreign_other, own_other).mean()
        rows.append((gaps.size, int((np.abs(gaps) <= TIED).sum()), share_won(gaps, TIED), plain / 2))
    names = {name: PAIR_SCHEMA[name] for name in ("matches", "ties", "crossed", "win_rate")}
    return pl.DataFrame(rows, schema=names, orient="row").get_columns()


def mean_crossed(pairs: pl.DataFrame, objects: pl.DataFrame) -> pl.DataFrame:
    """Means of `crossed_pairs` per run and granularity: over all relations together (``all``), then over each.

    Each pair of objects counts once in its succession, and each succession once. The interval is
    `korn_graubard`, over subjects. p: that the signs of what subjects have above one half are chance
    (`sign_flips`); of two objects, to flip the sign is to exchange their periods. ``ties`` is a share of the matches.
    objects: `likeliest_objects`, whose shares are means over the same successions likewise.
    """
    each = pairs.group_by([*RUN_KEYS, "granularity", *SUCCESSION], maintain_order=True).agg(
        pl.coalesce("relation_label", "relation_id").first().alias("relation"),
        pl.len().alias("pairs"), pl.col("matches", "ties").sum(), pl.col("crossed", "win_rate").mean(),
    )  # fmt: skip
    each = each.join(
        objects, on=[*RUN_KEYS, "granularity", "of_subject", "of_relation"], how="left", maintain_order="left"
    )
    rows = []
    for key, level in each.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        parts = [(EVERY, level)]
        parts += [(name, part) for (name,), part in level.group_by("relation", maintain_order=True)]
        for relation, part in parts if len(parts) > 2 else parts[:1]:
            row: dict[str, Any] = dict(zip([*RUN_KEYS, "granularity"], key, strict=True)) | {"relation": relation}
            crossed, subjects = part["crossed"].to_numpy(), part["of_subject"].to_numpy()
            row |= {"subjects": part["of_subject"].n_unique(), "successions": part.height}
            row |= {name: int(part[name].sum()) for name in ("pairs", "matches")}
            row |= {"ties": int(part["ties"].sum()) / row["matches"], "crossed": crossed.mean()}
            row |= interval_cells("crossed", korn_graubard(crossed, subjects))
            row["p"] = sign_flips(np.full(len(crossed), 0.5), crossed, subjects)
            rows.append(row | {"win_rate": part["win_rate"].mean()} | _likeliest(part.drop_nulls("dates")))
    return pl.DataFrame(rows, schema=MEAN_SCHEMA, orient="row")


def _likeliest(part: pl.DataFrame) -> dict[str, Any]:
    """The cells of the likeliest object at each date, of the successions that have such dates."""
    if not part.height:
        return {"dates": 0}
    cells: dict[str, Any] = {"dates": int(part["dates"].sum()), "chance": part["chance"].mean()}
    for name in ("likeliest", "likeliest_less_prior"):
        shares = part[name].to_numpy()
        cells |= {name: shares.mean()} | interval_cells(name, korn_graubard(shares, part["of_subject"].to_numpy()))
    return cells


def main_row(rows: Rows) -> Row:
    """Of the rows of `mean_crossed` of one run that over all relations, at the granularity with the most successions.

    Objects of one subject are mostly asked about the same years, but seldom about the same months and days.
    """
    return max((row for row in rows if row["relation"] == EVERY), key=lambda row: row["successions"])


def crossed_of_run(scores: pl.DataFrame) -> Row | None:
    """The main row of the scores of one run, without the run's name; ``None`` where no two objects make a match."""
    rows = crossed_table(scores).drop(RUN_KEYS).rows(named=True)
    return {name: value for name, value in main_row(rows).items() if name != "relation"} if rows else None


def of_study(study: Study) -> pl.DataFrame:
    """The pairs of all runs; computed once."""
    return study.map(lambda run: crossed_pairs(run, study.about))


def objects_of_study(study: Study) -> pl.DataFrame:
    """The likeliest objects of all runs."""
    return study.map(lambda run: likeliest_objects(run, study.about))


def draw(table: pl.DataFrame) -> "style.Figure":
    """The share of crossed matches won, with its interval, beside W between the same dates; one half is chance."""
    rows = style.check("crossed", table.filter(relation=EVERY), "crossed")
    level = main_row(rows.rows(named=True))["granularity"]
    named = {"crossed": "crossed matches", "win_rate": "W between the same dates"}
    return marks.two_a_run(rows.filter(granularity=level), named, f"matches won ({level})", chance=0.5)


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    rows = table.filter(relation=EVERY)
    view = charts.by_granularity(
        rows, looks, value="crossed", low="crossed_low", high="crossed_high", label="all", title="crossed matches won",
        of="successions",
    )  # fmt: skip
    return [view]


def _finding(rows: Rows) -> str | None:
    row = main_row(rows)
    if row["subjects"] < FEW:
        return None
    side = "above" if row["crossed_low"] > 0.5 else "below" if row["crossed_high"] < 0.5 else "not apart from"
    return f"Wins {interval(row, 'crossed')} of crossed matches, {side} the half that any preference wins"


def _successions(study: Study) -> str | None:
    labels = study.about.drop_nulls(["subject_label", "object_label"]).filter(RELATION.is_not_null())
    counts = labels.group_by(SUCCESSION).agg(pl.col("object_label").n_unique())
    found = (counts["object_label"] > 1).any()
    return None if found else "no subject and relation has two objects that were asked about"


SUCCESSIONS = Need("two objects of a subject and relation", _successions)
EMPTY = "no two objects of a subject and relation were asked about at a date of each one's own period"
CROSSED = Analysis(
    name="crossed",
    group=RIGHT,
    title="Share of crossed matches won: who held when, whatever dates or objects a model prefers",
    source="beyond the papers",
    compute=lambda study: mean_crossed(study.once(of_study), objects_of_study(study)),
    needs=(SUCCESSIONS,),
    empty=EMPTY,
    figure=draw,
    chart=Chart(
        page_views,
        "Two objects of one subject exchange their dates. A model that merely prefers some dates or some objects wins "
        "half. Bars are 95 % intervals over subjects.",
    ),
    finding=_finding,
    columns={
        **RUN,
        **LEVEL,
        "relation": "`all` together, or one",
        "subjects": "subjects",
        "successions": "subjects and relations with two objects or more",
        "pairs": "pairs of their objects",
        "matches": "crossed matches",
        "ties": "share of them that are ties",
        "crossed": "share won, a tie is half a win; mean over pairs, then over successions",
        "crossed_low": "lower end of its 95 % interval",
        "crossed_high": "its upper end",
        "p": "p value of one half, by flipping the signs of subjects",
        "win_rate": "W of the same objects between the same dates",
        "dates": "dates at which several objects were asked about and one of them holds",
        "chance": "share of them that a draw among the objects gets right",
        "likeliest": "share of them at which the likeliest object is the one that holds, mean over successions",
        "likeliest_low": "lower end of its 95 % interval",
        "likeliest_high": "its upper end",
        "likeliest_less_prior": "the same, after each object's own mean over these dates is taken off",
        "likeliest_less_prior_low": "lower end of its 95 % interval",
        "likeliest_less_prior_high": "its upper end",
    },
    paper=InPaper(
        words={**RUN_WORDS, **LEVEL_WORD, "relation": "relation"},
        numbers={"successions": "successions", "crossed": "crossed (%)", "p": "p", "win_rate": "W (%)"},
    ),
)
CROSSED_PAIRS = Analysis(
    name="crossed_pairs",
    title="Crossed matches of each pair of objects of a subject and relation",
    source="beyond the papers",
    compute=lambda study: study.once(of_study),
    needs=(SUCCESSIONS,),
    empty=EMPTY,
    large=True,
    columns={
        **RUN,
        **LEVEL,
        **dict.fromkeys(LABELS, WORDS["subject_label"]),
        "object_label": "one object",
        "other_label": "the other one",
        "matches": "a date of the one's own period and a date of the other's",
        "ties": "matches in which both sums are equal",
        "crossed": "share of matches won, a tie is half a win",
        "win_rate": "W of the two objects between the same dates",
    },
)
