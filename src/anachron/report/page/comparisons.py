"""Findings about a run beside others: its other format, its prefixes, its family, the other models."""

from collections.abc import Callable, Sequence
from math import isfinite

from anachron.analysis.metrics import GLOBAL, POOLED, RUN_KEYS
from anachron.analysis.plots.charts import LEVELS
from anachron.analysis.plots.words import prefix_name
from anachron.report.page.finding_words import (
    FEW,
    LEVEL,
    Row,
    Rows,
    Run,
    apart,
    difference,
    ends,
    interval,
    percent,
    widest,
)


def summary_of_several(rows: Rows, name: Callable[[Sequence[str]], str]) -> str | None:
    """W of two runs, or the lowest and the highest of more, at the widest granularity that all of them have.

    name: of a run. The shares as they are; that one is surely above another is not said.
    """
    of_run = [
        {row["granularity"]: row for row in rows if key_of(row) == key} for key in dict.fromkeys(map(key_of, rows))
    ]
    shared = next((level for level in (GLOBAL, *LEVELS) if all(level in own for own in of_run)), None)
    if shared is None:
        return None
    chosen = sorted((own[shared] for own in of_run), key=lambda row: row["win_rate"], reverse=True)
    first, last = ((name(key_of(row)), percent(row["win_rate"])) for row in (chosen[0], chosen[-1]))
    if len(chosen) == 2:
        return f"{first[0]} wins {first[1]} of matches, {last[0]} {last[1]}"
    return f"{len(chosen)} runs win between {last[1]} ({last[0]}) and {first[1]} ({first[0]}) of matches"


def key_of(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in RUN_KEYS)


def _formats(rows: Rows, run: Run) -> str | None:
    kept = _same(rows, run, "model", "prefix")
    return None if not kept else _about(rows, run, difference("in chat, W is", widest(kept), "that in raw text"))


def _prefixes(rows: Rows, run: Run) -> str | None:
    """Of several prefixes how many raise and how many lower W, each by a test at a level divided by their number."""
    kept = _same(rows, run, "model", "format")
    by_prefix: dict[str, Rows] = {}
    for row in kept:
        by_prefix.setdefault(row["prefix"], []).append(row)
    of_each = [widest(of_prefix) for of_prefix in by_prefix.values()]
    if len(of_each) == 1:
        name = prefix_name(of_each[0]["prefix"])
        return _about(rows, run, difference(f"with {name}, W is", of_each[0], "that without"))
    sure = [
        row for row in of_each if _below(row["win_rate_difference_p"], LEVEL / len(of_each)) and row["facts"] >= FEW
    ]
    if not sure:
        return None
    up, down = ([row["prefix"] for row in sure if row["win_rate_difference"] * sign > 0] for sign in (1, -1))
    effects = [
        f"{', '.join(names)} {verb}{'s' if len(names) == 1 else ''} W"
        for names, verb in ((up, "raise"), (down, "lower"))
        if names
    ]
    return _about(rows, run, f"of {len(of_each)} prefixes, {' and '.join(effects)}")


def _granularity_variance(rows: Rows, run: Run) -> str | None:
    """Of several prefixes only what the intervals of all of them say."""
    kept = [row for row in _same(rows, run, "model", "format") if row["ratio"] is not None and row["low"] is not None]
    kept = [row for row in kept if row["facts"] >= FEW]
    sides = {"more alike" if row["high"] < 1 else "less alike" if row["low"] > 1 else None for row in kept}
    if len(sides) != 1 or None in sides:
        return None
    (side,) = sides
    if len(kept) > 1:
        return _about(rows, run, f"with each of {len(kept)} prefixes, R by year, month and day is {side}")
    (row,) = kept
    share = f"{row['ratio']:.2f} times that without ({row['low']:.2f} to {row['high']:.2f})"
    name = prefix_name(row["prefix"])
    return _about(rows, run, f"with {name}, R by year, month and day is {side}: its variance is {share}")


def _sizes(rows: Rows, run: Run) -> str | None:
    """The largest against the smallest model of the run's family, where their intervals are apart."""
    own = next(iter(_same(rows, run, *RUN_KEYS)), None)
    if own is None:
        return None
    kept = [row for row in _same(rows, run, "format", "prefix") if row["parameters"] is not None]
    kept = [row for row in kept if (row["family"], row["instruct"]) == (own["family"], own["instruct"])]
    small, large = (pick(kept, key=lambda row: row["parameters"], default=None) for pick in (min, max))
    if small is None or large is None or small["parameters"] == large["parameters"]:
        return None
    side = apart(ends(large, "win_rate"), ends(small, "win_rate"))
    if not side or min(large["facts"], small["facts"]) < FEW:
        return None
    return (
        f"The largest of the family has the {'higher' if side > 0 else 'lower'} W: {large['model']} "
        f"{interval(large, 'win_rate')}, the smallest, {small['model']}, {interval(small, 'win_rate')}"
    )


def _overlap(rows: Rows, run: Run) -> str | None:
    """Of one pair of models; of many none is picked out."""
    kept = [row for row in _same(rows, run, "format", "prefix") if row["robust_any"]]
    if len(kept) != 1:
        return None
    (row,) = kept
    of = f"{row['robust_both']:,} of the {row['robust_any']:,} facts that either knows robustly"
    return f"{row['model']} and {row['other']} both know {of}"


def _shared_knowledge(rows: Rows, run: Run) -> str | None:
    row = next((row for row in _same(rows, run, "format", "prefix") if row["group"] == "all"), None)
    if row is None or not row["robust_in_any"]:
        return None
    of = f"{row['robust_in_all']:,} of the {row['robust_in_any']:,} facts that any of them knows robustly"
    return f"All {row['models']} models know {of}"


def _agreement(rows: Rows, run: Run) -> str | None:
    """The farthest bin behind the period against the nearest, where their intervals are apart."""
    kept = [row for row in _same(rows, run, "format", "prefix") if row["facts"] >= FEW and row["low"] is not None]
    behind = sorted((row for row in kept if row["alpha_low"] >= 0.5), key=lambda row: row["alpha_low"])
    if len(behind) < 2:
        return None
    near, far = behind[0], behind[-1]
    side = apart((far["low"], far["high"]), (near["low"], near["high"]))
    if not side:
        return None
    parts = [
        f"{percent(row['accuracy'])} ({percent(row['low'])} to {percent(row['high'])}) at alpha "
        f"{row['alpha_low']:g} to {row['alpha_high']:g}"
        for row in (near, far)
    ]
    return f"Granularities agree {'more' if side > 0 else 'less'} on wrong dates far away: {parts[0]}, {parts[1]}"


def _same(rows: Rows, run: Run, *keys: str) -> Rows:
    return [row for row in rows if row.get("model") != POOLED and all(row[key] == run[key] for key in keys)]


def _about(rows: Rows, run: Run, text: str | None) -> str | None:
    """A line that begins with the name of the model where the table is about several."""
    if text is None:
        return None
    several = len({row["model"] for row in rows}) > 1
    return f"{run['model']}: {text}" if several else text[0].upper() + text[1:]


def _below(p: float | None, level: float) -> bool:
    return p is not None and isfinite(p) and p < level


BESIDE: dict[str, Callable[[Rows, Run], str | None]] = {
    "formats": _formats, "prefixes": _prefixes, "granularity_variance": _granularity_variance, "sizes": _sizes,
    "overlap": _overlap, "shared_knowledge": _shared_knowledge, "agreement": _agreement,
}  # fmt: skip
