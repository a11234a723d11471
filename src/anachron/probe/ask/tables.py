"""Tables of what was said: every answer, a row a fact, and what all facts come to."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from anachron.analysis.statistics import ROUNDING, interval_cells, korn_graubard
from anachron.core.dates import DAYS_A_YEAR, Date
from anachron.core.periods import Period
from anachron.core.several_periods import closed_at, periods_text
from anachron.io.answers import Answer
from anachron.io.files import Json
from anachron.io.reasoning import split_reasoning
from anachron.probe.ask.asking import AskedQuestion, Asking, by_call, periods_given
from anachron.probe.ask.decoys import believed_win_rate, beside_decoys, decoy_summary, rank_of, tied_decoys
from anachron.probe.ask.estimator import bounds, estimate_fact, mean_over_facts, position_bias, weighted
from anachron.probe.ask.matching import READ, UNREAD, Reading
from anachron.probe.ask.questions import FactToAsk, Questions
from anachron.probe.ask.sampling import by_fact, first_in, score_in
from anachron.probe.check.present import ALONE, CURRENT, PRESENT_SCHEMA, STALE, PresentQuestion

RIGHT, OTHER_PERIOD, SOMEBODY_ELSE = "right", "other period", "somebody else"
NAMED = (RIGHT, OTHER_PERIOD, SOMEBODY_ELSE)
FIRST, SECOND = "first year", "second year"

ANSWER_SCHEMA: dict[str, Any] = {
    "kind": pl.String, "fact_id": pl.String, "decoy": pl.String, "years": pl.String, "prompt": pl.String,
    "outcome": pl.String, "read": pl.String, "right_names": pl.List(pl.String), "text": pl.String,
    "reasoning": pl.String, "finish": pl.String, "served_by": pl.String, "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
}  # fmt: skip
FACT_SCHEMA: dict[str, Any] = {
    "fact_id": pl.String, "subject": pl.String, "relation": pl.String, "object": pl.String, "periods": pl.String,
    "question": pl.String, "win_rate": pl.Float64, "win_rate_low": pl.Float64, "win_rate_high": pl.Float64,
    "win_rate_lost": pl.Float64, "win_rate_won": pl.Float64, "matches": pl.Int64, "matches_of": pl.Int64,
    "won_all": pl.Boolean, "lost_at_most": pl.Float64, "robustness": pl.Float64, "weaker_side": pl.Float64,
    "decoys": pl.Int64, "decoy_win_rate": pl.Float64, "chance": pl.Float64, "ranked_among": pl.Int64,
    "open_right": pl.Int64, "open_other_period": pl.Int64, "open_somebody_else": pl.Int64, "open_unread": pl.Int64,
    "period": pl.String, "believed_start": pl.String, "believed_end": pl.String, "start_error_days": pl.Int64,
    "end_error_days": pl.Int64, "overlap": pl.Float64, "believed_win_rate": pl.Float64, "believed_chance": pl.Float64,
    "choices_unread": pl.Int64, "said": pl.String,
}  # fmt: skip


def answers_table(asking: Asking, questions: Questions) -> pl.DataFrame:
    """One row a question that was asked, in that order (`ANSWER_SCHEMA`).

    ``decoy``: of a question about a decoy of the fact, its name. ``years``: of an open question the year, of a choice
    both, in the order in which they were named. ``outcome``: of open questions one of `NAMED`, of choices which year
    was chosen, of others ``read``; or why nothing was read. ``right_names``: of an open question, what a right answer
    may be called. ``text``: the model's own words without its reasoning, which is apart.
    """
    facts = {fact.fact_id: fact for fact in questions.facts}
    rows = []
    for one in asking.asked:
        text, thought = split_reasoning(one.reply.text) if isinstance(one.reply, Answer) else (one.reply.reason, "")
        reply: Any = one.reply if isinstance(one.reply, Answer) else None
        rows.append({
            "kind": one.kind, "fact_id": one.fact_id, "decoy": one.decoy, "prompt": one.prompt,
            "outcome": _outcome(one, facts, questions),
            "years": one.year if one.call is None else " ".join(one.call.years), "read": _read(one.reading),
            "right_names": None if one.fact_id is None or one.year is None
                else questions.right_names(facts[one.fact_id], one.year),
            "text": text if reply is None else reply.refusal or text,
            "reasoning": "\n".join(filter(None, (reply and reply.reasoning, thought))) or None,
            "finish": reply and reply.finish, "served_by": reply and reply.served_by,
            "prompt_tokens": reply and reply.prompt_tokens, "completion_tokens": reply and reply.completion_tokens,
        })  # fmt: skip
    return pl.DataFrame(rows, schema=ANSWER_SCHEMA)


def _outcome(one: AskedQuestion, facts: Mapping[str, FactToAsk], questions: Questions) -> str:
    if one.reading.outcome != READ:
        return one.reading.outcome
    if one.kind == "choice":
        return SECOND if one.reading.value else FIRST
    if one.kind == "open" and one.fact_id is not None and one.year is not None:
        return open_outcome(facts[one.fact_id], one.year, one.reading, questions)
    return READ


def _read(reading: Reading) -> str | None:
    return periods_text([reading.value]) if isinstance(reading.value, Period) else reading.value and str(reading.value)


def open_outcome(fact: FactToAsk, year: str, reading: Reading, questions: Questions) -> str:
    """Whether the named object held in the year, at another time, or is none of the subject's and relation's."""
    return named_outcome(reading, {fact.object, *questions.holders(fact.group, year)})


def named_outcome(reading: Reading, right: Collection[str]) -> str:
    """One of `NAMED`, or why nothing was read. right: the objects that hold in the year."""
    if reading.outcome != READ:
        return reading.outcome
    if reading.value is None:
        return SOMEBODY_ELSE
    return RIGHT if reading.value in right else OTHER_PERIOD


def facts_table(asking: Asking, questions: Questions, as_of: Date) -> pl.DataFrame:
    """One row a fact (`FACT_SCHEMA`).

    ``win_rate`` with its interval, ``win_rate_lost`` and ``win_rate_won`` (`anachron.probe.ask.estimator.bounds`; null
    where no choice was asked), ``matches`` (k) of ``matches_of``, ``won_all`` (R_k), ``lost_at_most`` and
    ``robustness`` as `anachron.probe.ask.estimator.FactEstimate`; ``weaker_side``, ``decoys``, ``decoy_win_rate``,
    ``chance`` and ``ranked_among`` as `anachron.probe.ask.decoys.BesideDecoys.cells`. ``open_*``: numbers of open
    questions. ``period``: ``read`` or why not; errors in days, negative where the model believes too early, at the
    coarser of both dates; ``overlap``: days in both periods by days in either. ``believed_win_rate``: the mean score of
    the matches between a year in the believed period and one outside it, were that period the true one;
    ``believed_chance``: the share of decoys of which that is as high, itself counted; it is 0 of those of which no
    period was given. ``said``: the model's words, the period first.
    """
    chosen = by_call(asking.asked)
    read = {call.match: score_in(call.match, chosen) for call in chosen}
    strata = by_fact((fact.matches for fact in questions.facts), read)
    beside = beside_decoys(questions.decoys, chosen)
    tied = tied_decoys(questions.decoys, chosen, periods_given(asking.asked))
    by_id: dict[str, list[AskedQuestion]] = defaultdict(list)
    for one in asking.asked:
        if one.fact_id is not None and one.decoy is None:
            by_id[one.fact_id].append(one)
    rows = []
    for fact in questions.facts:
        asked = by_id[fact.fact_id]
        row: dict[str, Any] = {
            "fact_id": fact.fact_id, "subject": fact.subject, "relation": fact.relation, "object": fact.object,
            "periods": periods_text(fact.periods), "question": fact.question,
            "choices_unread": sum(one.kind == "choice" and one.reading.outcome != READ for one in asked),
        }  # fmt: skip
        if (ends := bounds(fact.matches, chosen)) is not None:
            row["win_rate_lost"], row["win_rate_won"] = ends
            row |= beside.cells(fact, chosen)
        if (found := estimate_fact(strata[fact.fact_id])) is not None:
            row |= {
                "win_rate": found.win_rate, "win_rate_low": found.low, "win_rate_high": found.high,
                "matches": found.matches, "matches_of": found.of, "won_all": found.won_all,
                "lost_at_most": found.lost_at_most, "robustness": found.robustness,
            }  # fmt: skip
        opened = [open_outcome(fact, one.year, one.reading, questions) for one in asked if one.year is not None]
        if opened:
            row |= {f"open_{name.replace(' ', '_')}": opened.count(name) for name in NAMED}
            row["open_unread"] = sum(name in UNREAD for name in opened)
        for one in asked:
            if one.kind == "period":
                row["period"] = one.reading.outcome
                if one.reading.outcome == READ:
                    row |= period_cells(one.reading.value, fact, as_of)
                    row["believed_win_rate"] = tie = believed_win_rate(one.reading.value, fact, chosen)
                    if tie is not None and tied.size:
                        row["believed_chance"] = rank_of(int((tied >= tie - ROUNDING).sum()), tied.size)
        words = [(one.year, split_reasoning(one.reply.text)[0]) for one in asked
                 if one.kind != "choice" and isinstance(one.reply, Answer)]  # fmt: skip
        row["said"] = "; ".join(f"{year or 'period'}: {' '.join(text.split())}" for year, text in words) or None
        rows.append(row)
    return pl.DataFrame(rows, schema=FACT_SCHEMA)


def period_cells(believed: Period, fact: FactToAsk, as_of: Date) -> dict[str, Any]:
    """A believed period beside that of the fact's periods with which it shares most days."""
    assert believed.start is not None
    if believed.end is None and believed.start.first_day > as_of.last_day:  # begins after the last day that is known of
        closed = Period(believed.start, believed.start)
    else:
        closed = closed_at(believed, as_of)
    true = max(fact.periods, key=lambda period: overlap(closed, period))
    assert closed.end is not None and true.start is not None and true.end is not None
    start, end = _at_coarser(believed.start, true.start), _at_coarser(closed.end, true.end)
    return {
        "believed_start": str(believed.start),
        "believed_end": None if believed.end is None else str(believed.end),
        "start_error_days": start[0].first_day - start[1].first_day,
        "end_error_days": end[0].last_day - end[1].last_day,
        "overlap": overlap(closed, true),
    }


def overlap(one: Period, other: Period) -> float:
    """Days in both of two closed periods by days in either, 0 to 1."""
    days = [(p.start.first_day, p.end.last_day) for p in (one, other) if p.start is not None and p.end is not None]
    (a, b), (c, d) = days
    both = max(0, min(b, d) - max(a, c) + 1)
    return both / ((b - a + 1) + (d - c + 1) - both)


def _at_coarser(one: Date, other: Date) -> tuple[Date, Date]:
    """Both dates at the granularity of the coarser: 2009 and 2009-01-20 do not differ."""
    if one.month is None or other.month is None:
        return Date(one.year), Date(other.year)
    if one.day is None or other.day is None:
        return Date(one.year, one.month), Date(other.year, other.month)
    return one, other


def present_table(present: Sequence[PresentQuestion], asking: Asking, questions: Questions) -> pl.DataFrame:
    """What is answered in the present tense: `anachron.probe.check.present.PRESENT_SCHEMA`, without probabilities.

    ``status`` is also ``somebody else``, or why nothing was read; then there is no answer.
    """
    readings = {one.prompt: one.reading for one in asking.asked if one.kind == "present"}
    rows: list[dict[str, Any]] = []
    for q in present:
        reading = readings.get(questions.open_prompt(q.question))
        for one in (one for one in q.objects if one.holds):
            row: dict[str, Any] = {
                "subject": q.subject, "relation": q.relation, "question": q.question, "objects": len(q.objects),
                "object": one.label, "status": ALONE,
            }  # fmt: skip
            if q.asked and reading is None:
                continue  # the budget ended before it
            if reading is not None and q.asked:
                rival = next((one for one in q.objects if one.label == reading.value), None)
                if reading.outcome != READ or rival is None:
                    row["status"] = SOMEBODY_ELSE if reading.outcome == READ else reading.outcome
                else:
                    row |= {"status": CURRENT if rival.holds else STALE, "answer": rival.label}
                    row["answer_until"] = rival.until
            rows.append(row)
    return pl.DataFrame(rows, schema=PRESENT_SCHEMA)


def summary_of(asking: Asking, questions: Questions, answers: pl.DataFrame, facts: pl.DataFrame) -> Json:
    """What all facts come to: W with its interval, R_k, the bias of position, decoys, open answers, periods, counts and
    cost."""
    asked, held = facts.drop_nulls("win_rate"), facts.drop_nulls("overlap")
    mean = mean_over_facts(asked["win_rate"].to_list(), asked["subject"].to_list())
    chosen = by_call(asking.asked)
    beside = beside_decoys(questions.decoys, chosen)
    bounded = facts.drop_nulls("win_rate_lost").select(pl.col("win_rate_lost", "win_rate_won").mean()).row(0)
    firsts = by_fact(
        (fact.matches for fact in questions.facts), {call.match: first_in(call.match, chosen) for call in chosen}
    )
    bias = position_bias(
        (weighted(firsts[fact.fact_id]) for fact in questions.facts), [fact.subject for fact in questions.facts]
    )
    won = int(asked["won_all"].sum())
    opened = {name: int(facts[f"open_{name.replace(' ', '_')}"].sum()) for name in NAMED}
    named, of_facts = sum(opened.values()), answers.filter(pl.col("decoy").is_null())
    found: Json = {
        "facts": facts.height, "facts_with_choices": asked.height,
        **mean.cells("win_rate"), "win_rate_lost": bounded[0], "win_rate_won": bounded[1],
        "win_rate_told": None if bounded[0] is None else mean.told(bounded),
        "won_all": won / asked.height if asked.height else None,
        **interval_cells("won_all", korn_graubard(asked["won_all"].to_numpy(), asked["subject"].to_numpy())),
        "matches_a_fact": asked["matches"].mean(), "robust_for_sure": int((asked["robustness"] == 1).sum()),
        **bias.cells("position_bias"), **decoy_summary(facts, beside, questions.decoys, chosen),
        "open": opened, "open_right": opened[RIGHT] / named if named else None,
        "periods_read": held.height, "overlap": held["overlap"].mean(),
        "start_error_years": _median_years(held, "start"), "end_error_years": _median_years(held, "end"),
        "outcomes": {
            kind: dict(sorted(Counter(of_facts.filter(pl.col("kind") == kind)["outcome"]).items()))
            for kind in sorted({*of_facts["kind"]})
        },
        "calls": asking.spent.calls, "tokens_read": round(asking.spent.read),
        "tokens_written": round(asking.spent.written), "budget_ended": asking.ended,
        "served_by": dict(sorted(Counter(answers.unique("prompt")["served_by"].drop_nulls()).items())),
    }  # fmt: skip
    prices = asking.settings.prices
    return found if prices is None else found | {"cost": prices.of(asking.spent.read, asking.spent.written)}


def _median_years(facts: pl.DataFrame, side: str) -> float | None:
    """The median size of the error of a side, in years."""
    median = facts[f"{side}_error_days"].abs().median()
    return None if median is None else float(median) / DAYS_A_YEAR  # type: ignore[arg-type]
