"""A verdict in one word for each fact, from the scores of its dates and of its decoys under the same dates.

The first that holds, of a fact that was asked with dates:

``robust``
    R is 1 at every granularity: no incorrect date beats a correct one. And it is sure: of its decoys
    and those of similar facts at most one in a hundred (`SURE`) wins as many of its crossed matches.
``known``
    W is at least 0.9 (`KNOWN`) at every granularity, and it is sure in the same way.
``shaky``
    above chance: of these decoys at most 4 in 100 (`CHANCE`) win as many of their crossed matches.
``wrong period``
    the model ties the fact to a period (`anachron.analysis.analyses.believed`), of whose years and the true ones less
    than half (`OVERLAP`) are both; it would be ``known`` were that period the true one; and at most one in a hundred
    decoys (`SURE`) is tied as firmly to the period that is believed of it.
``unknown``
    none of these, also where nobody knows a decoy.

A preference for some dates is the decoys' too, so it earns nothing, and neither does what neighbouring years that score
alike do by chance: it is in the decoys (`anachron.analysis.decoys`). Of facts of which a model knows nothing at most
one in twenty is more than ``unknown``. ``shaky`` comes before ``wrong period``: where the fact's own dates lead, a
believed period that is too wide or a few years off describes what is weak, not another belief.
"""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
import polars as pl
from rich.text import Text

from anachron.analysis.analyses.believed import believed_periods
from anachron.analysis.decoys import (
    Against,
    beside_decoys,
    chances_among_alike,
    crossed_share,
    ranked,
)
from anachron.analysis.metrics import GLOBAL, YEAR
from anachron.analysis.plots.words import year_name
from anachron.core.dates import DAYS_A_YEAR, GRANULARITIES, Date
from anachron.probe.check.levels import CHANCE, KNOWN, OVERLAP, SURE, WRONG_PERIOD

VERDICTS = ("robust", "known", "shaky", WRONG_PERIOD, "unknown")  # as people are told, the best first
VERDICTS_FILE = "verdicts.csv"  # of a run folder
WIN_RATES = tuple(f"win_rate_{granularity}" for granularity in GRANULARITIES)

VERDICT_SCHEMA: dict[str, type[pl.DataType]] = {
    "fact_id": pl.String, "verdict": pl.String, "win_rate": pl.Float64,
    **dict.fromkeys(WIN_RATES, pl.Float64), "robustness": pl.Float64, "matches": pl.Int64, "decoys": pl.Int64,
    "decoy_win_rate": pl.Float64, "place": pl.Int64, "crossed": pl.Float64, "chance": pl.Float64,
    "believed_start": pl.String, "believed_end": pl.String, "start_error_years": pl.Float64,
    "end_error_years": pl.Float64, "years_in_both": pl.Float64, "believed_win_rate": pl.Float64,
}  # fmt: skip


def fact_verdicts(scores: pl.DataFrame, facts: pl.DataFrame, decoys: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row (`VERDICT_SCHEMA`) a fact of one run, in the order of the scores.

    scores: checked (`anachron.analysis.metrics.check_scores`), of one model, format and prefix, with ``start`` and
    ``end`` of the facts. facts: their `anachron.analysis.metrics.fact_metrics`. decoys: the scores of their decoys
    (`anachron.probe.runs.DECOY_COLUMNS`); without them, nothing is known of any fact.

    ``win_rate`` and ``robustness`` are the global ones, ``win_rate_year`` and so on those of one granularity, null
    where the fact has no correct or no incorrect date there; then it is judged by the granularities that it has.
    ``decoys``: how many it has; ``decoy_win_rate``: their mean W (a tie counts half), and ``place`` that of the fact
    among them, 1 the best. ``crossed``: its share of crossed matches won against them; ``chance``: the share of
    decoys that win as many, 0 to 1, null without decoys. ``believed_start`` and ``believed_end`` are years, null
    where that end is open or nothing is believed; errors are in years, negative where the model believes too early;
    ``years_in_both``: years in the believed and the true period by years in either, 0 to 1;
    ``believed_win_rate``: the least W of a granularity, 0 to 1, were the believed years the
    correct ones (a tie counts half).
    """
    wide = facts.filter(pl.col("granularity") != GLOBAL).pivot(
        "granularity", index="fact_id", values=["win_rate", "robustness"]
    )
    missing = [f"{name}_{g}" for name in ("win_rate", "robustness") for g in GRANULARITIES]
    wide = wide.with_columns(pl.lit(None, pl.Float64).alias(name) for name in missing if name not in wide.columns)
    whole = mean_win_rates(facts)
    about = scores.select("fact_id", "start", "end").unique("fact_id", maintain_order=True)
    believed = believed_periods(scores, about).with_columns(
        (pl.col(f"{side}_error_days") / DAYS_A_YEAR).alias(f"{side}_error_years") for side in ("start", "end")
    )
    table = (
        about.select("fact_id")
        .join(whole, on="fact_id", maintain_order="left")
        .join(wide, on="fact_id", how="left", maintain_order="left")
        .join(believed, on="fact_id", how="left", maintain_order="left")
        .join(_against_belief(scores, believed), on="fact_id", how="left", maintain_order="left")
        .join(_against_decoys(scores, decoys, believed), on="fact_id", how="left", maintain_order="left")
    )
    elsewhere = (
        (pl.col("years_in_both") < OVERLAP)
        & (pl.col("believed_win_rate") >= KNOWN)
        & (pl.col("believed_chance") <= SURE)
    )
    sure = pl.col("chance") <= SURE
    verdict = (
        pl.when(sure & (pl.col("robustness") == 1)).then(pl.lit("robust"))
        .when(sure & (pl.min_horizontal(WIN_RATES) >= KNOWN)).then(pl.lit("known"))
        .when(pl.col("chance") <= CHANCE).then(pl.lit("shaky"))
        .when(elsewhere).then(pl.lit(WRONG_PERIOD))
        .otherwise(pl.lit("unknown"))
    )  # fmt: skip
    return table.with_columns(verdict.alias("verdict")).select(
        pl.col(name).cast(kind) for name, kind in VERDICT_SCHEMA.items()
    )


def mean_win_rates(facts: pl.DataFrame) -> pl.DataFrame:
    """``fact_id, win_rate, robustness, matches, subject``, W and R over the granularities of each fact, of one run."""
    return (
        facts.filter(pl.col("granularity") != GLOBAL)
        .group_by("fact_id", maintain_order=True)
        .agg(pl.col("win_rate").mean(), pl.col("robustness").min(), pl.col("matches").sum(), pl.col("subject").first())
    )


def verdict_in_words(row: Mapping[str, Any]) -> str:
    """A row of `fact_verdicts` as people read it: ``shaky, W 71 %``."""
    belief, doubt = belief_in_words(row), doubt_in_words(row)
    share = f"W {100 * row['win_rate']:.0f} %{dates_in_words(row)}"
    return f"{row['verdict']}{belief and ': '}{belief}, {share}{doubt and '; '}{doubt}"


def dates_in_words(row: Mapping[str, Any]) -> str:
    """By which dates a fact is judged that has matches at some granularity, but not by year: `` by month and day``."""
    known = [level for level in GRANULARITIES if row.get(f"win_rate_{level}") is not None]
    return f" by {' and '.join(known)}" if known and "year" not in known else ""


def belief_in_words(row: Mapping[str, Any], link: str = ", ") -> str:
    """What is believed in the place of a wrong period: ``believed to 1990, ends 9 years too early``; else nothing.

    An end that is open, in truth or belief, or that is right to half a year, is not said to be wrong. link: what stands
    before what is said of the ends.
    """
    if row["verdict"] != WRONG_PERIOD:
        return ""
    start, end = row["believed_start"], row["believed_end"]
    span = f"{start} to {end}" if start and end else f"from {start} on" if start else f"to {end}"
    wrong = []
    for does, error in (("begins", row["start_error_years"]), ("ends", row["end_error_years"])):
        if error is not None and (years := round(abs(error))):
            wrong.append(f"{does} {years} year{'s' if years > 1 else ''} too {'early' if error < 0 else 'late'}")
    return link.join([f"believed {span}", *([" and ".join(wrong)] if wrong else [])])


def doubt_in_words(row: Mapping[str, Any]) -> str:
    """Why a fact is unknown although it wins more than half of its matches; else nothing.

    row: of `fact_verdicts`, with its ``chance``; of a model that was asked for answers
    (`anachron.probe.ask.verdicts.answer_verdicts`) also with the lower end of the interval of W, and its weaker side.
    """
    if row["verdict"] != "unknown" or row["win_rate"] <= 0.5:
        return ""
    chance, among = row.get("chance"), row.get("ranked_among")
    if chance is None:
        return "no decoys to compare with"
    if chance <= CHANCE:  # of answers, where W or a side of it is too low
        ends = (row[name] for name in ("win_rate_low", "win_rate_lost", "weaker_side"))
        return f"W may be as low as {100 * min(ends):.0f} %"
    if among and round(chance * (1 + among)) == 1:
        return f"no decoy does as well, but {among:.0f} are too few"
    return f"{100 * chance:.0f} % of decoys do as well"


def _against_decoys(scores: pl.DataFrame, decoys: pl.DataFrame | None, believed: pl.DataFrame) -> pl.DataFrame:
    """Of each fact that has decoys what `anachron.analysis.decoys.ranked` tells over the granularities that it has;
    where a period is believed, ``believed_chance``: the share of decoys that are tied as firmly to one."""
    pairs = [] if decoys is None else [*beside_decoys(scores, decoys)]
    table = ranked((one, "all", [*one.scores]) for one in pairs)
    periods = _periods(believed)
    if decoys is not None:  # a decoy is a fact of its own
        alone = decoys.with_columns(pl.concat_str("fact_id", "decoy", separator="\n"))
        periods |= _periods(believed_periods(alone, alone.select("fact_id").unique(maintain_order=True)))
    ties = [_ties(one, periods) for one in pairs]
    rivals = [np.nan_to_num(of_one[1:]).tolist() for of_one in ties]  # tied to nothing
    chances = chances_among_alike([of_one[0] for of_one in ties], rivals, [one.shape for one in pairs])
    kept = table.select("fact_id", "decoys", "decoy_win_rate", "place", "crossed", "chance")
    return kept.with_columns(pl.Series("believed_chance", chances))


Years = tuple[int | None, int | None]  # first and last, None for an open end


def _periods(believed: pl.DataFrame) -> dict[str, Years]:
    found = believed.filter("believed").select("fact_id", pl.col("believed_start", "believed_end").cast(pl.Int64))
    return {name: (start, end) for name, start, end in found.rows()}


def _ties(one: Against, periods: Mapping[str, Years]) -> list[float]:
    """`_tied` of a fact and of each of its decoys, which are known by both names."""
    fact = one.key[-1]
    names = [fact, *(f"{fact}\n{name}" for name in one.names)]
    return [_tied(one, place, periods.get(name)) for place, name in enumerate(names)]


def _tied(one: Against, place: int, believed: Years | None) -> float:
    """How many of its crossed matches an object would win were the period that is believed of it the true one: the
    mean over granularities, NaN where there is none."""
    if believed is None:
        return nan
    inside = {level: _within(one.times[level], *believed) for level in one.scores}
    if not all(mask.any() and not mask.all() for mask in inside.values()):
        return nan
    return float(np.mean([crossed_share(one.scores[level], place, mask) for level, mask in inside.items()]))


def _within(times: Sequence[str], low: int | None, high: int | None) -> np.ndarray:
    """Which dates lie in the years from ``low`` to ``high``, an open end as far as was asked: (dates,)."""
    years = pl.Series(times).str.extract(YEAR).cast(pl.Int64).to_numpy()
    return (years >= (years.min() if low is None else low)) & (years <= (years.max() if high is None else high))


def _against_belief(scores: pl.DataFrame, believed: pl.DataFrame) -> pl.DataFrame:
    """``years_in_both`` and ``believed_win_rate`` of each fact that a period is believed of.

    An open end reaches as far as was asked. W of some dates is their sum of ranks, as by Mann and Whitney.
    """
    year = pl.col("time").str.extract(YEAR).cast(pl.Int64)
    dated = scores.filter(pl.col("status").is_in(["correct", "incorrect"])).join(
        believed.filter("believed").select("fact_id", "believed_start", "believed_end"), on="fact_id"
    )
    dated = dated.select(
        "fact_id",
        "granularity",
        (pl.col("status") == "correct").alias("correct"),
        (
            (year >= pl.col("believed_start").cast(pl.Int64).fill_null(year))
            & (year <= pl.col("believed_end").cast(pl.Int64).fill_null(year))
        ).alias("inside"),
        pl.col("logp").rank("average").over("fact_id", "granularity").alias("rank"),
    )
    m, n = pl.col("inside").sum().cast(pl.Float64), (~pl.col("inside")).sum().cast(pl.Float64)
    inside, correct = pl.col("inside"), pl.col("correct")
    shares = dated.group_by("fact_id", "granularity").agg(
        ((inside & correct).sum() / (inside | correct).sum()).alias("years_in_both"),
        ((pl.col("rank").filter(inside).sum() - m * (m + 1) / 2) / (m * n)).fill_nan(None).alias("believed_win_rate"),
    )
    return shares.group_by("fact_id").agg(
        pl.col("years_in_both").filter(pl.col("granularity") == "year").first(),
        pl.col("believed_win_rate").min(),
    )


BARS = "▁▂▃▄▅▆▇█"
WIDTH, SHORT = 100, 30


def columns_of(years: Sequence[Mapping[str, Any]], width: int = WIDTH) -> list[dict[str, Any]]:
    """Year contexts, or others of one granularity, in order of time, merged evenly into at most ``width`` columns.

    A column takes the highest score of its years, the mark of the worst error among them (``far`` before
    ``lost``) and is ``valid`` when any of them is correct.
    """
    ordered = sorted(years, key=lambda c: Date.parse(c["time"]).first_day)
    count = min(width, len(ordered))
    columns = []
    for i in range(count):
        cell = ordered[i * len(ordered) // count : (i + 1) * len(ordered) // count]
        column = {"logp": max(c["logp"] for c in cell), "valid": any(c["status"] == "correct" for c in cell)}
        column |= {name: any(c[name] for c in cell) for name in ("lost", "far")}
        columns.append(column | {"first": cell[0]["time"], "last": cell[-1]["time"]})
    return columns


def short_timeline(years: pl.DataFrame, width: int = SHORT) -> str:
    """A fact of one run in one line: a bar of log-probability a year, its own period in brackets: ``▂▁▃[▆█▇]▄▃▂``.

    years: its year contexts, or others of one granularity, with ``time, status, logp``. Brackets are put where years
    become correct, and where they are so no longer; a bar stands for the best of several years where there are more
    than fit.
    """
    rows = years.filter(pl.col("time").is_not_null()).with_columns(
        pl.lit(False).alias(name) for name in ("lost", "far")
    )
    columns = columns_of(list(rows.iter_rows(named=True)), width)
    low, high = (f((c["logp"] for c in columns), default=0.0) for f in (min, max))
    text, inside = "", False
    for column in columns:
        if column["valid"] != inside:
            text, inside = text + ("]" if inside else "["), not inside
        text += BARS[round((len(BARS) - 1) * (column["logp"] - low) / (high - low)) if high > low else 0]
    return text + ("]" if inside else "")


def timeline(years: pl.DataFrame, width: int = WIDTH) -> Text:
    """A few lines for one fact of one run: bars of log-probability, and marks below them.

    years: the rows of one rank in the table ``timelines``, see `anachron.analysis.analyses.timelines.timelines`.
    ``=`` the fact held, ``x`` the year beat a correct one, ``!`` it did so from at least one period away.
    """
    error = max(years.filter("far").iter_rows(named=True), key=lambda row: abs(row["alpha"]))
    columns = columns_of(list(years.iter_rows(named=True)), width)
    low, high = min(c["logp"] for c in columns), max(c["logp"] for c in columns)
    text = Text()
    text.append(f"{error['subject_label']} | {error['relation_label']} | {error['object_label']}", style="bold")
    text.append(
        f"   held {error['start']} to {error['end'] or 'now'}   {error['model']}, W {100 * error['win_rate']:.1f} %\n"
    )
    for column in columns:
        level = round((len(BARS) - 1) * (column["logp"] - low) / (high - low)) if high > low else 0
        text.append(BARS[level], style="green" if column["valid"] else "red" if column["lost"] else "dim")
    text.append("\n")
    for column in columns:
        mark, style = (
            ("=", "green") if column["valid"] else ("!", "bold red") if column["far"] else ("x", "red")
            if column["lost"] else (" ", "")
        )  # fmt: skip
        text.append(mark, style=style)
    first, last = (year_name(int(columns[i][side])) for i, side in ((0, "first"), (-1, "last")))
    text.append(f"\n{first}{last.rjust(max(1, len(columns) - len(first)))}")
    farthest = year_name(int(error["time"]))
    text.append(f"\nthe farthest: {farthest}, {abs(error['alpha']):.1f} periods from the middle of its own\n")
    return text
