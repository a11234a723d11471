"""Which way to recommend, by the balances of the same updates under each.

The best way is the one with the highest mean balance. It is *separated* only where the intervals of its lead over every
other way are above 0; they hold for all pairs of ways at once with 95 % confidence. Otherwise no difference was shown
between it and those ways whose interval reaches 0, and the cheapest of them is recommended, but none that was not
itself shown to be better than leaving the model as it is, which counts as a way too and costs nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import polars as pl

from anachron.advise.balance import BALANCE, MEASURED
from anachron.analysis.statistics import CONFIDENCE, interval_cells, korn_graubard, korn_graubard_difference
from anachron.core.errors import DataError
from anachron.evaluate.results import UNEDITED

ADVICE_FILE = "advice.json"
MOST_FAILED = 0.1  # share of the updates that a way may fail on and still be recommended


@dataclass(frozen=True)
class Advice:
    """recommended: the way to take, the best one where it is ``separated``. separated: whether that was shown to be
    better than every other one. best: the way with the highest balance; tied: those of which no difference to it was
    shown, itself among them, the cheapest first. leads: of `leads`. not_judged: ways that cannot be recommended, with
    the reason. words: the advice."""

    recommended: str
    separated: bool
    best: str
    tied: tuple[str, ...]
    leads: pl.DataFrame
    not_judged: Mapping[str, str]
    words: str


def advise(balances: pl.DataFrame, costs: Mapping[str, float], not_judged: Mapping[str, str] | None = None) -> Advice:
    """The advice of balances, as `anachron.advise.balance.balances` has them.

    costs: of each way, in seconds; one without is the dearest, but for the unedited model. not_judged: ways that are
    not to be recommended, with the reason, such as an oracle. Ways that failed on more than `MOST_FAILED` of the
    updates are among them. Raises `DataError` where no update has a balance under the unedited model.
    """
    excluded = {**(not_judged or {}), **_failing(balances)}
    known = balances.drop_nulls(BALANCE).filter(~pl.col("way").is_in(list(excluded)))
    means = {str(way): float(mean) for way, mean in known.group_by("way").agg(pl.col(BALANCE).mean()).iter_rows()}
    if UNEDITED not in means:
        raise DataError(
            "no update has a balance under the unedited model, so there is nothing to compare ways with; give a part "
            "that was measured a weight above 0"
        )
    cheapest_first = sorted(means, key=lambda way: (way != UNEDITED, costs.get(way, inf), way))
    best = max(cheapest_first, key=means.__getitem__)  # the cheapest of equal ones
    pairs = len(means) * (len(means) - 1) // 2
    table = leads(known, best, [way for way in cheapest_first if way != best], pairs)
    apart = {row["way"] for row in table.iter_rows(named=True) if row["lead_low"] > 0}
    tied = tuple(way for way in cheapest_first if way not in apart)
    # one as good as the best one may be no better than nothing, where its updates vary more
    worth = [way for way in tied if way in (best, UNEDITED) or leads(known, way, [UNEDITED], pairs)["lead_low"][0] > 0]
    recommended, separated = worth[0], len(tied) == 1 and len(means) > 1
    return Advice(recommended, separated, best, tied, table, excluded, _words(recommended, tied, means, excluded))


def leads(balances: pl.DataFrame, best: str, others: Sequence[str], pairs: int | None = None) -> pl.DataFrame:
    """By how much a way is ahead of others on the updates that both were measured on, a row each: ``way``, ``updates``,
    ``lead``, ``lead_low``, ``lead_high``.

    The intervals hold together with 95 % confidence (Bonferroni): each has 1 - 0.05 / pairs, by default the number of
    others; of all pairs of ways where the best one was chosen by the same data. They are over subjects, or where
    balances have a column ``cluster`` over these (`anachron.analysis.statistics.korn_graubard_difference`).
    """
    of_best = balances.filter(pl.col("way") == best).select("case_id", _cluster(balances), best=BALANCE)
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(others) if pairs is None else pairs)
    rows = []
    for way in others:
        other = balances.filter(pl.col("way") == way).select("case_id", other=BALANCE)
        both = of_best.join(other, on="case_id", how="inner", maintain_order="left")
        if not both.height:  # nothing says that they differ
            rows.append({"way": way, "updates": 0, "lead": None, "lead_low": -1.0, "lead_high": 1.0})
            continue
        before, after = both["other"].to_numpy(), both["best"].to_numpy()
        low, high = korn_graubard_difference(before, after, both["depends"].to_numpy(), confidence=confidence)
        lead = float((after - before).mean())
        rows.append({"way": way, "updates": both.height, "lead": lead, "lead_low": low, "lead_high": high})
    schema = {
        "way": pl.String,
        "updates": pl.Int64,
        "lead": pl.Float64,
        "lead_low": pl.Float64,
        "lead_high": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def summary_of_ways(balances: pl.DataFrame) -> pl.DataFrame:
    """A row a way in the order of the table: ``way``, numbers of updates ``done`` and ``failed``, and of each part, of
    W and R of the past and of the balance the mean, ``*_low``, ``*_high`` (95 %, over subjects) and ``*_n``."""
    rows: list[dict[str, Any]] = []
    for (way,), group in balances.group_by("way", maintain_order=True):
        row: dict[str, Any] = {"way": way} | {s: int((group["status"] == s).sum()) for s in ("done", "failed")}
        for part in (*MEASURED, BALANCE):
            known = group.drop_nulls(part)
            values = known[part].to_numpy()
            ends = korn_graubard(values, known.select(_cluster(known)).to_series().to_numpy())
            row |= {part: known[part].mean(), **interval_cells(part, ends), f"{part}_n": known.height}
        rows.append(row)
    counts = {name: pl.Int64() for name in rows[0] if name in ("done", "failed") or name.endswith("_n")}
    return pl.DataFrame(rows, schema={**dict.fromkeys(rows[0], pl.Float64()), **counts, "way": pl.String()})


def _cluster(balances: pl.DataFrame) -> pl.Expr:
    """What an update depends on, as ``depends``."""
    names = [name for name in ("cluster", "subject", "case_id") if name in balances.columns]
    return pl.coalesce(names).alias("depends")


def _failing(balances: pl.DataFrame) -> dict[str, str]:
    """Why ways that failed on many updates are not judged, with the commonest reason."""
    found = {}
    for (way,), group in balances.group_by("way", maintain_order=True):
        reasons = group.filter(pl.col("status") == "failed")["reason"].to_list()
        if (share := len(reasons) / group.height) > MOST_FAILED:
            (reason, count), *_ = Counter(reasons).most_common(1)
            found[str(way)] = f"it failed on {share:.0%} of {group.height} updates, {count} of them: {reason}"
    return found


def _words(recommended: str, tied: Sequence[str], means: Mapping[str, float], excluded: Mapping[str, str]) -> str:
    if len(means) == 1:
        return f"no way could be judged ({', '.join(excluded) or 'none was tried'}), so the model is left as it is"
    if len(tied) == 1:
        others = [way for way in means if way != recommended]
        second = max(others, key=means.__getitem__)
        than = f"; the next best, {in_words(second)}, has {means[second]:.2f}"
        return f"recommended: {in_words(recommended)}, with a balance of {means[recommended]:.2f}{than}"
    named = " and ".join([", ".join(map(in_words, tied[:-1])), in_words(tied[-1])])
    if recommended == UNEDITED:
        return "no way was shown to be better than leaving the model as it is, which costs nothing"
    better = "" if recommended == tied[0] else " that was shown to be better than nothing"
    return f"no difference shown between {named}; the cheapest{better} is {in_words(recommended)}"


def in_words(way: str) -> str:
    return "leaving the model as it is" if way == UNEDITED else way
