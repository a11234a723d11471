"""When a check fails a build: too low a win rate, too many stale facts, or a loss against an earlier run.

A demand is judged by facts, and says by how many of those that could be asked. Silence is no proof: where too few were
judged, because answers were refused, not read or never given, there is no verdict (`Outcome.error`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, log2
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
import polars as pl

from anachron.analysis.statistics import ROUNDING, korn_graubard, sign_flips
from anachron.core.errors import ConfigError
from anachron.probe.check.present import AHEAD, ALONE, CURRENT, NO_DECOYS, STALE, UNKNOWN, counted

NOTHING_IN_COMMON = (
    "the baseline has no fact and date in common with this check; check the same file, with the same --as-of and "
    "--sampling"
)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The demands on a model; none by default.

    min_win_rate: minimum mean of W over the facts, 0 to 1. It is of these facts; the words say in what interval the
        mean of others like them would lie.
    max_stale: maximum number of stale facts.
    confidence: stale facts and a loss against the baseline fail only if chance alone would produce as many, or one as
        large, with a probability below 1 - confidence.
    min_judged: share (0 to 1) of the facts that can be asked which must have been judged; none judged is never enough.

    Raises `ConfigError` for numbers out of range.
    """

    min_win_rate: float | None = None
    max_stale: int | None = None
    confidence: float = 0.95
    min_judged: float = 1.0

    def __post_init__(self) -> None:
        if self.min_win_rate is not None and not 0 <= self.min_win_rate <= 1:
            raise ConfigError(f"min_win_rate {self.min_win_rate}: W lies between 0 and 1")
        if self.max_stale is not None and self.max_stale < 0:
            raise ConfigError(f"max_stale {self.max_stale}: give a number of facts, from 0")
        if not 0.5 <= self.confidence < 1:
            raise ConfigError(f"confidence {self.confidence}: give a number from 0.5 to below 1, such as 0.95")
        if not 0 <= self.min_judged <= 1:
            raise ConfigError(f"min_judged {self.min_judged}: give the share of the facts to judge, 0 to 1")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One demand, whether it is met, and the numbers in words.

    judged: how many facts it rests on, of the ``facts`` that could be asked. error: why these are too few to say
    anything; then it is not met. of_stale: whether it is about stale facts.
    """

    demand: str
    passed: bool
    words: str
    judged: int
    facts: int
    error: str | None = None
    of_stale: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """W of a baseline minus W now, over the facts of which both have one; p: of a loss so large by chance, one-sided.
    common: how many facts both asked about. subjects: how many differ, each of which is one witness."""

    facts: int
    loss: float
    p: float
    common: int
    subjects: int = 0

    @property
    def all_lose(self) -> bool:
        """Whether every subject that differs loses: no loss of so few could be surer."""
        return self.subjects > 0 and self.p <= 0.5**self.subjects * (1 + 1e-9)


def loss_against(baseline: pl.DataFrame, verdicts: pl.DataFrame, *, seed: int = 0) -> Loss:
    """How much lower W is than that of a baseline, paired by fact.

    baseline, verdicts: tables of the facts that were to be asked, with ``fact_id`` and ``win_rate``, verdicts with
    ``subject`` too; facts without W on either side count as common, and nothing is known of their loss. p is half of
    the two-sided one of `anachron.analysis.statistics.sign_flips`, over subjects, where W has fallen, and 1 where it
    has not: the chance of such a loss where gains are as likely as losses of the same size. Raises `ConfigError` where
    they have no fact in common.
    """
    common = baseline.select("fact_id", before="win_rate").join(
        verdicts.select("fact_id", "subject", after="win_rate"), on="fact_id"
    )
    if not common.height:
        raise ConfigError(NOTHING_IN_COMMON)
    pairs = common.drop_nulls(["before", "after"]).sort("fact_id")
    if not pairs.height:
        return Loss(0, 0.0, 1.0, common.height)
    before, after = (pairs[name].to_numpy() for name in ("before", "after"))
    loss = float(np.mean(before - after))
    p = sign_flips(before, after, pairs["subject"].to_numpy(), seed=seed) / 2 if loss > 0 else 1.0
    sums = pairs.group_by("subject").agg((pl.col("before") - pl.col("after")).sum().abs().alias("gap"))
    return Loss(pairs.height, loss, p, common.height, sums.filter(pl.col("gap") > ROUNDING).height)


def outcomes(
    gate: Gate, verdicts: pl.DataFrame, present: pl.DataFrame, loss: Loss | None = None, *, dated: int, holding: int
) -> list[Outcome]:
    """What is demanded, and whether it is met; empty where nothing is demanded.

    verdicts: of `anachron.probe.check.verdicts.fact_verdicts`, with ``subject``. present: of
    `anachron.probe.check.present.present_answers`. loss: against the baseline, where there is one. dated, holding: how
    many facts can be asked with dates, and how many that hold can be told to be current or stale
    (`anachron.probe.check.present.holding`).
    """
    found: list[Outcome] = []
    if gate.min_win_rate is not None:
        judged, mean = verdicts["win_rate"].count(), verdicts["win_rate"].mean()
        met = isinstance(mean, float) and mean >= gate.min_win_rate
        unread = _bounds(verdicts)
        words = "no W"
        if isinstance(mean, float):
            known = verdicts.drop_nulls("win_rate")
            low, high = korn_graubard(known["win_rate"].to_numpy(), known["subject"].to_numpy())
            words = f"mean W {100 * mean:.1f} % [{100 * low:.1f}, {100 * high:.1f}] over {judged} of {dated} facts"
            if low < gate.min_win_rate <= high:
                words += "; with other facts like these the mean could lie on the other side"
        outcome = _outcome(gate, f"win rate at least {100 * gate.min_win_rate:g} %", met, words, judged, dated)
        if unread is not None and outcome.error is None and unread[0] < gate.min_win_rate <= unread[1]:
            ends = " to ".join(f"{100 * end:.1f}" for end in unread)
            doubt = (
                f"W may be {ends} %, by whether the answers that could not be read would have been lost or won, so it "
                "cannot be told; see the answers in the run folder"
            )
            outcome = replace(outcome, passed=False, error=doubt)
        found.append(outcome)
    if gate.max_stale is not None:
        said = Counter(present["status"])
        stale = said[STALE]
        judged = stale + said[CURRENT]
        words = f"{stale} of {judged} facts judged are stale; {holding} that hold could be asked"
        by_chance = said[UNKNOWN] * AHEAD / (1 - AHEAD)
        others = {name: count for name, count in said.items() if name not in (CURRENT, STALE, ALONE)}
        if never := holding - judged - sum(others.values()):
            others["not asked"] = never
        demand = f"at most {gate.max_stale} stale"
        if stale > gate.max_stale:  # whatever the others may be
            p = _chance_of(stale - gate.max_stale, by_chance)
            error = None
            if by_chance:
                words += f"; of those that it does not know, {by_chance:.1f} more would be judged by chance (p {p:.3f})"
                if p >= 1 - gate.confidence:
                    error = (
                        f"{stale} facts seem stale, which chance alone would bring about with a probability of "
                        f"{p:.2f}, as {said[UNKNOWN]} are not known at all; ask about facts that the model may know, "
                        f"or lower --confidence ({gate.confidence:g})"
                    )
            outcome = Outcome(demand, False, words, judged, holding, error)
        else:
            outcome = _outcome(gate, demand, True, words, judged, holding, others)
        found.append(replace(outcome, of_stale=True))
    if loss is not None:
        failed = loss.loss > 0 and loss.p < 1 - gate.confidence
        change = "lower" if loss.loss > 0 else "higher"
        points = f"{100 * abs(loss.loss):.1f} points {change} than the baseline's"
        words = f"W is {points} over {loss.facts} of {loss.common} facts of both (p {loss.p:.3f})"
        if dated > loss.common:
            words += f"; {dated - loss.common} more are not in the baseline"
        demand = f"no loss against the baseline beyond chance ({100 * gate.confidence:g} %)"
        outcome = _outcome(gate, demand, not failed, words, loss.facts, loss.common)
        if outcome.passed and loss.loss > 0 and loss.all_lose:
            needed = ceil(log2(1 / (1 - gate.confidence)) + 1e-9)  # 5 at 95 %: all lose one time in 32
            error = (
                f"every subject that differs loses, {loss.subjects}, and of so few no loss can be told with a "
                f"confidence of {gate.confidence:g}; check facts of {needed} subjects or more, or lower --confidence"
            )
            outcome = replace(outcome, passed=False, error=error)
        found.append(outcome)
    return found


def _bounds(verdicts: pl.DataFrame) -> tuple[float, float] | None:
    """Mean W of a model that was asked, if all that could not be read had been lost, and if it had been won."""
    if "win_rate_lost" not in verdicts.columns or not verdicts["win_rate_lost"].count():
        return None
    lost, won = (verdicts[f"win_rate_{end}"].mean() for end in ("lost", "won"))
    return (lost, won) if isinstance(lost, float) and isinstance(won, float) else None


def _chance_of(facts: int, expected: float) -> float:
    """That so many facts or more are judged by chance where so many are expected: the tail of Poisson's law."""
    from scipy.stats import poisson

    return float(poisson.sf(facts - 1, expected))


def _outcome(
    gate: Gate, demand: str, met: bool, words: str, judged: int, facts: int, others: Mapping[str, int] | None = None
) -> Outcome:
    """others: what came of the facts that were not judged, and how many."""
    if not facts:
        error = "there is no fact to judge; --max-stale needs one that holds today, and another object that held before"
        return Outcome(demand, False, words, judged, facts, f"{error}: add it, or leave the demand out")
    if judged and judged / facts >= gate.min_judged:
        return Outcome(demand, met, words, judged, facts)
    named = counted(others or {}) or "no answer could be read"
    least = f"--min-judged {gate.min_judged:g}" if judged else "at least one must be"
    way = "see the answers in the run folder, or ask on with a larger --budget"
    if {UNKNOWN, NO_DECOYS} & {*(others or {})}:  # of a model that is scored
        way = "its verdicts are in the run folder"
    if judged:
        way += ", or lower --min-judged"
    error = f"only {judged} of {facts} facts that can be asked were judged ({named}), and {least}; {way}"
    return Outcome(demand, False, words, judged, facts, error)


NOT_IN_XML = {
    code: None for code in (*range(0x20), 0x7F, *range(0xD800, 0xE000), 0xFFFE, 0xFFFF) if code not in (9, 10, 13)
}


def junit(
    model: str,
    outcomes: Iterable[Outcome],
    facts: Iterable[Mapping[str, str]],
    left_out: Iterable[Mapping[str, str]],
    stale: Iterable[str] = (),
) -> bytes:
    """The file. facts: ``name, relation, verdict``; left_out: ``name, relation, reason``, shown as skipped; stale: the
    stale facts in words, which the demand that is about them lists.

    A fact never fails by itself: whether a build does is what the demands say. A demand that too few facts speak to is
    an error, not a failure.
    """
    suite = Element("testsuite", name=_text(f"anachron check {model}"))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}

    def case(group: str, name: str) -> Element:
        counts["tests"] += 1
        return SubElement(suite, "testcase", classname=_text(group), name=_text(name))

    listed = "\n".join(stale)
    for outcome in outcomes:
        made = case("demands", outcome.demand)
        named = _text(listed) if outcome.of_stale else None
        if outcome.error is not None:
            counts["errors"] += 1
            SubElement(made, "error", message=_text(outcome.error)).text = named
        elif not outcome.passed:
            counts["failures"] += 1
            SubElement(made, "failure", message=_text(outcome.words)).text = named
        SubElement(made, "system-out").text = "\n".join(filter(None, (_text(outcome.words), named)))
    for fact in facts:
        SubElement(case(fact["relation"], fact["name"]), "system-out").text = _text(fact["verdict"])
    for fact in left_out:
        counts["skipped"] += 1
        SubElement(case(fact["relation"], fact["name"]), "skipped", message=_text(fact["reason"]))
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    indent(suite)
    return bytes(tostring(suite, encoding="utf-8", xml_declaration=True))


def _text(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return text.translate(NOT_IN_XML)
