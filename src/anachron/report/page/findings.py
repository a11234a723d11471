"""The finding that the page heads an analysis with.

A line says of counts and shares what stands in the table. It says that one thing is above another only where an
interval or a test bears that out; where several are tested at once, each must pass at a level divided by their number.
Else there is none, and the analysis keeps its neutral title.
"""

from collections.abc import Callable, Sequence
from math import erfc, hypot, isfinite, sqrt

import polars as pl

from anachron.analysis.analyses.dataset import SPAN
from anachron.analysis.analyses.factors import FACTORS
from anachron.analysis.metrics import RUN_KEYS
from anachron.analysis.plots.words import counted, year_name
from anachron.analysis.statistics import mcnemar
from anachron.core.dates import DAYS_A_YEAR, GRANULARITIES
from anachron.report.page.comparisons import BESIDE
from anachron.report.page.finding_words import (
    FEW,
    LEVEL,
    MINUS,
    Row,
    Rows,
    apart,
    difference,
    interval,
    nats,
    percent,
    widest,
)
from anachron.report.page.periods import median_miss

WIDTH = 1.959964  # standard errors from the middle of a 95 % interval to its ends
PROPERTIES = {  # how facts with the smallest and with the largest values are called
    "popularity": ("lowest popularity", "highest popularity"),
    "subject_popularity": ("least popular subjects", "most popular subjects"),
    "object_popularity": ("least popular objects", "most popular objects"),
    "log_distance": ("latest starts", "earliest starts"),
    "log_duration": ("shortest periods", "longest periods"),
    "other_objects": ("fewest other objects", "most other objects"),
}


def finding(name: str, table: pl.DataFrame, run: Sequence[str]) -> str | None:
    """What a table says of one run (model, format, prefix), or of it beside others, in a line.

    None for analyses that have no such line, and where the table bears out nothing about the run.
    """
    if name in BESIDE:
        return BESIDE[name](table.rows(named=True), dict(zip(RUN_KEYS, run, strict=True)))
    make = FINDINGS.get(name)
    if make is None:
        return None
    kept = table.filter(
        *(pl.col(key) == value for key, value in zip(RUN_KEYS, run, strict=True) if key in table.columns)
    )
    return make(kept.rows(named=True)) if kept.height else None


def names_its_runs(name: str) -> bool:
    """Whether the finding of an analysis names the runs that it is about, or speaks of all of them."""
    return name in BESIDE


def _summary(rows: Rows) -> str | None:
    row = widest(rows)
    robust, facts = round(row["robustness"] * row["facts"]), row["facts"]
    return f"Wins {percent(row['win_rate'])} of matches, and every match of {robust:,} of {facts:,} facts"


def _transfer(rows: Rows) -> str | None:
    row = next((row for row in rows if (row["a"], row["b"]) == ("day", "year")), None)
    if row is None or not row["known_b"]:
        return None
    lost = row["known_b"] - row["known_both"]
    if not lost:
        return f"Knows the day wherever it knows the year: {row['known_b']:,} of {row['known_b']:,}"
    return f"Knows the year, not the day: {lost:,} of {row['known_b']:,}"


def _far_errors(rows: Rows) -> str | None:
    kept = [row for row in rows if row["average"] == "facts" and row["share"] is not None and row["facts"] >= FEW]
    if not kept:
        return None
    row = min(kept, key=lambda row: (row["threshold"], row["alpha"]))
    ends = "" if row["low"] is None else f" ({percent(row['low'])} to {percent(row['high'])})"
    return f"{percent(row['share'])}{ends} of the errors on facts that seem known are far from the period"


def _believed_summary(rows: Rows) -> str | None:
    (row,) = rows
    believed = round(row["believed"] * row["facts"])
    words_found = f"Ties {believed:,} of {row['facts']:,} facts to some period"
    if row["overlap"] is None or row["closed"] < FEW:
        return words_found
    return f"{words_found}; where both ends are known, it overlaps the true one by {interval(row, 'overlap')}"


def _believed(rows: Rows) -> str | None:
    """The median error with its interval; of a few facts only how many ends are near."""
    miss = median_miss(rows)
    errors = [row[f"{end}_error_days"] for row in rows if row["believed"] for end in ("start", "end")]
    known = [abs(days) for days in errors if days is not None]
    if miss is None or not known:
        return None
    if miss["facts"] < FEW:
        near = sum(days <= DAYS_A_YEAR for days in known)
        return f"Within a year of the truth: {near:,} of {counted(len(known), 'end')} of believed periods"
    size, unit = (DAYS_A_YEAR, "years") if miss["high"] >= DAYS_A_YEAR else (1, "days")
    middle, low, high = (f"{miss[name] / size:.{unit == 'years':d}f}" for name in ("median", "low", "high"))
    of = f"{miss['ends']:,} ends of {miss['facts']:,} facts"
    return f"The ends of believed periods miss the true ones by {middle} {unit} (median; {low} to {high}; {of})"


def _anachronism_summary(rows: Rows) -> str | None:
    (row,) = rows
    return f"Prefers an impossible or far date to a true one for {row['facts_with']:,} of {row['facts']:,} facts"


def _relations(rows: Rows) -> str | None:
    """Which relation comes first here, with its own interval; that it is surely above the others is not said."""
    kept = [row for row in rows if row["facts"] >= FEW and row["robustness"] > 0]
    if not kept:
        return None
    row = max(kept, key=lambda row: row["robustness"])
    share = f"{percent(row['robustness'])} ({percent(row['low'])} to {percent(row['high'])})"
    return (
        f"Of {len(kept)} relations with R above 0, {row['relation']} comes first here: {share}, {row['facts']:,} facts"
    )


def _comparison(rows: Rows) -> str | None:
    row = widest(rows)
    against = ", ".join(
        [row["against_model"], *(row[f"against_{key}"] for key in RUN_KEYS[1:] if row[f"against_{key}"] != row[key])]
    )
    return difference("W is", row, f"that of {against}")


def _margins(rows: Rows) -> str | None:
    level = widest(rows)["granularity"]
    kept = sorted((row["margin"], row["robustness"]) for row in rows if row["granularity"] == level)
    plain, later = next((r for m, r in kept if m == 0), None), next(((m, r) for m, r in kept if m > 0), None)
    if not plain or later is None:
        return None
    if percent(plain) == percent(later[1]):
        return f"R is {percent(plain)}, even if each match must be won by more than {later[0]:g} nats"
    return f"R is {percent(plain)}, and {percent(later[1])} if each match must be won by more than {later[0]:g} nats"


def _lifespans(rows: Rows) -> str | None:
    row = widest(rows)
    if row["facts"] < FEW or row["low"] <= 0 <= row["high"]:
        return None
    low, high = sorted(abs(100 * row[name]) for name in ("low", "high"))
    change = f"{abs(100 * row['difference']):.1f} points {'lower' if row['low'] > 0 else 'higher'}"
    return f"Without dates outside the lifetimes of subject and object, W is {change} ({low:.1f} to {high:.1f})"


def _correlations(rows: Rows) -> str | None:
    """Of all models in the run's format. Of several tests at once each must pass at a level divided by their number."""
    known = [row for row in rows if row["models"] == "all" and row["p_clustered"] is not None]
    tested = [row for row in known if isfinite(row["p_clustered"]) and row["facts"] >= FEW]
    sure = [row for row in tested if row["p_clustered"] < LEVEL / len(tested)]
    if tested and not sure:
        return f"No property of facts correlates significantly with W or R ({counted(len(tested), 'test')})"
    if not sure:
        return None
    row = max(sure, key=lambda row: abs(row["r"]))
    score = {"win_rate": "W", "robustness": "R"}[row["score"]]
    r = f"{row['r']:+.2f}".replace("-", MINUS)
    passed = "only this one" if len(sure) == 1 else f"this one and {len(sure) - 1} with smaller r"
    tests = "" if len(tested) == 1 else f"; of {len(tested)} tests, {passed} passed"
    factor = FACTORS.get(row["factor"], row["factor"])
    return f"{score} correlates with {factor}: r {r} over {row['facts']:,} facts{tests}"


def _base_and_instruct(rows: Rows) -> str | None:
    row = next((row for row in rows if row["score"] == "win_rate"), None)
    if row is None:
        return None
    p = mcnemar(row["win"], row["loss"])
    if p >= LEVEL:
        return None
    words = "more" if row["win"] > row["loss"] else "fewer"
    counts = f"{row['win']:,} better, {row['loss']:,} worse (sign test, {_p(p)})"
    return f"Does better than its base, {row['base']}, on {words} facts than it does worse: {counts}"


def _alpha(rows: Rows) -> str | None:
    """The middle of the period against one to three lengths before and after it, each side by its intervals."""
    by_bin = {(row["status"], row["bin"]): row for row in rows if row["low"] is not None and row["facts"] >= FEW}
    middle = by_bin.get(("correct", "(-0.25, 0]"))
    before, after = (by_bin.get(("incorrect", name)) for name in ("(-3, -1]", "(1, 3]"))
    if middle is None or before is None or after is None:
        return None
    sides = [_above(middle, row) for row in (before, after)]
    here, *there = (nats(row["logp"]) for row in (middle, before, after))
    if sides[0] == sides[1]:
        words = {1: "likelier", -1: "less likely", 0: "not clearly likelier"}[sides[0]]
        return (
            f"An answer is {words} in the middle of its period than one to three lengths before and after it: "
            f"{here}, {', '.join(there)} nats"
        )
    words_found = [
        f"{words} than one to three lengths {where} it ({here}, {of} nats)"
        for side, where, of in zip(sides, ("before", "after"), there, strict=True)
        if (words := {1: "likelier", -1: "less likely", 0: ""}[side])
    ]
    rest = f", not clearly so {'before' if sides[1] else 'after'} it" if 0 in sides else ""
    return f"In the middle of its period an answer is {' and '.join(words_found)}{rest}"


def _alpha_fine(rows: Rows) -> str | None:
    """By which granularities the middle of the period lies above one length before and after it, by the intervals."""
    by_bin = {(row["granularity"], row["bin"]): row for row in rows if row["low"] is not None and row["facts"] >= FEW}
    names = ("(-0.1, 0.0]", "(-1.1, -1.0]", "(1.0, 1.1]")
    known = [level for level in GRANULARITIES if all((level, name) in by_bin for name in names)]
    if not known:
        return None
    sure = []
    for level in known:
        middle, *away = (by_bin[level, name] for name in names)
        if all(_above(middle, row) == 1 for row in away):
            sure.append(level)
    peak = "the answer is likelier in the middle of the period than one length before and after it"
    if not sure:
        return f"{_listed(known)}, it is not clear that {peak}"
    rest = [level for level in known if level not in sure]
    return f"{_listed(sure)}, {peak}{f'; not clearly so {_listed(rest).lower()}' if rest else ''}"


def _above(one: Row, other: Row) -> int:
    return apart((one["low"], one["high"]), (other["low"], other["high"]))


def _listed(levels: Sequence[str]) -> str:
    return "By " + " and by ".join([", by ".join(levels[:-1]), levels[-1]] if len(levels) > 1 else levels)


def _factor_bins(rows: Rows) -> str | None:
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
    sure = [one for one in tested if one[1] < LEVEL / len(tested)]
    if not sure:
        return None
    _, _, words, few, many = max(sure, key=lambda one: one[0])
    shares = [f"{percent(row['mean'])} ({percent(row['low'])} to {percent(row['high'])})" for row in (many, few)]
    return f"W is {shares[0]} for the facts with the {words[1]}, {shares[1]} for those with the {words[0]}"


def _years(rows: Rows) -> str | None:
    """What the table counts; spans are of ten years."""
    first, last = rows[0]["first_year"], rows[-1]["first_year"] + SPAN - 1
    held, wrong, between = (sum(row[name] for row in rows) for name in ("correct", "incorrect", "transitional"))
    undecided = f", {between:,} on its edges" if between else ""
    return (
        f"Asks about years between {year_name(first)} and {year_name(last)}: {held:,} times within a fact's period, "
        f"{wrong:,} outside it{undecided}"
    )


def _asked(rows: Rows) -> str | None:
    if len(rows) != 1 or rows[0]["win_rate"] is None or rows[0]["win_rate_low"] is None:
        return None
    (row,) = rows
    share = interval(row, "win_rate")
    if row["win_rate_low"] <= 0.5 <= row["win_rate_high"]:
        return f"Asked to choose between two years, it is not significantly better than chance: right in {share}"
    return f"Asked to choose between two years, it is right in {share}; chance is 50 %"


def _bridge(rows: Rows) -> str | None:
    kept = [row for row in rows if row["asked"] == "choice" and row["correlation_low"] is not None]
    if len(kept) != 1 or kept[0]["facts"] < FEW or kept[0]["correlation_low"] <= 0 <= kept[0]["correlation_high"]:
        return None
    (row,) = kept
    r, low, high = (f"{row[f'correlation{end}']:+.2f}".replace("-", MINUS) for end in ("", "_low", "_high"))
    words = (
        "the higher its W by log-probabilities" if row["correlation"] > 0 else "the lower its W by log-probabilities"
    )
    return f"The higher a fact's W by choice, {words}: r {r} ({low} to {high}) over {row['facts']:,} facts"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


FINDINGS: dict[str, Callable[[Rows], str | None]] = {
    "summary": _summary, "transfer": _transfer, "far_errors": _far_errors, "believed_summary": _believed_summary,
    "believed": _believed, "anachronism_summary": _anachronism_summary, "relations": _relations,
    "comparison": _comparison, "margins": _margins, "lifespans": _lifespans, "correlations": _correlations,
    "base_and_instruct": _base_and_instruct, "alpha": _alpha, "alpha_fine": _alpha_fine, "factor_bins": _factor_bins,
    "years": _years, "asked": _asked, "bridge": _bridge,
}  # fmt: skip
