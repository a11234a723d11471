"""Asks what the questions need within a budget: plain questions first, then matches until W is known well enough."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anachron.ask.budget import Budget, Cost, Kind, Prices, affordable, cost_of, expected
from anachron.ask.estimator import mean_over_facts, weighted
from anachron.ask.matching import READ, Reading, read_choice, read_name, read_period
from anachron.ask.questions import AskedFact, Questions
from anachron.ask.sampling import ROUNDS, Call, Matches, Read, ask_matches, by_fact
from anachron.checks.present import PresentQuestion
from anachron.errors import ConfigError
from anachron.io import Json
from anachron.jobs import Callbacks
from anachron.text.answers import Answer
from anachron.text.llm_settings import NoAnswer

WAYS = ("open", "choice", "period")
LEAST_ROUNDS = 3  # with one, of 100 facts the bias of position is off by more than 2 points in a fifth of all cases


class Answerer(Protocol):
    """Who answers."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        ...

    def identity(self) -> Json:
        """All that its answers depend on."""
        ...

    def answers(self, prompts: Sequence[str], callbacks: Callbacks) -> list[Answer | NoAnswer]:
        """An answer to each; the same prompt is asked once, and not again once it was answered."""
        ...


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """How much is asked.

    ways: of `WAYS`. width: of the 95 % interval of W over facts, 0 to 1, at which no more matches are asked.
    rounds: matches read in each stratum of a fact at most. budget: what may be spent; prices: for it, and to tell the
    cost. Raises `ConfigError` for what cannot be.
    """

    ways: tuple[str, ...] = WAYS
    width: float = 0.1
    rounds: int = ROUNDS
    budget: Budget | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if not self.ways or not {*self.ways} <= {*WAYS}:
            raise ConfigError(f"ways {', '.join(self.ways) or 'none'}: choose some of {', '.join(WAYS)}")
        if not 0 <= self.width <= 1:
            raise ConfigError(f"width {self.width}: of an interval of W, from 0 (never enough) to 1")
        if not 1 <= self.rounds <= ROUNDS:
            raise ConfigError(f"rounds {self.rounds}: from 1 to {ROUNDS}")


@dataclass(frozen=True, slots=True)
class Said:
    """One question and what came of it. year: of an open question. call: of a choice. fact_id: None for one in the
    present tense, which is of a subject and relation."""

    kind: Kind
    prompt: str
    reply: Answer | NoAnswer
    reading: Reading
    fact_id: str | None = None
    year: str | None = None
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question before it is asked; fields as in `Said`. read: makes a reading of a reply."""

    kind: Kind
    prompt: str
    read: Callable[[Answer | NoAnswer], Reading]
    fact_id: str | None = None
    year: str | None = None
    call: Call | None = None


@dataclass(slots=True)
class Asking:
    """Asks questions as long as the budget lasts, and keeps what was said, in the order of asking."""

    answerer: Answerer
    settings: AskSettings
    callbacks: Callbacks
    said: list[Said] = field(default_factory=list)
    spent: Cost = field(default_factory=Cost)
    ended: bool = False  # by the budget

    def ask(self, questions: Sequence[Question]) -> list[Reading]:
        """Readings of the first questions, or of all where the budget lasts."""
        readings: list[Reading] = []
        while len(readings) < len(questions):
            rest = questions[len(readings) :]
            ahead = expected((one.kind, one.prompt) for one in rest)
            number = affordable(len(rest), self.spent, ahead, self.settings.budget, self.settings.prices)
            if not number:
                self.ended = True
                break
            replies = self.answerer.answers([one.prompt for one in rest[:number]], self.callbacks)
            for one, reply in zip(rest, replies, strict=False):
                reading = one.read(reply)
                self.spent += cost_of(one.kind, one.prompt, reply)
                self.said.append(Said(one.kind, one.prompt, reply, reading, one.fact_id, one.year, one.call))
                readings.append(reading)
        return readings


def present_question(questions: Questions, asked: PresentQuestion) -> Question:
    names = {name: one.label for one in asked.objects for name in one.names}
    return Question("present", questions.open_prompt(asked.question), lambda reply: read_name(reply, names))


def plain_questions(questions: Questions, present: Sequence[PresentQuestion], ways: Sequence[str]) -> list[Question]:
    """All but the choices: in the present tense where there is something to tell apart, then fact by fact."""
    plain = [present_question(questions, one) for one in present if one.asked] if "open" in ways else []
    for fact in questions.facts:
        if "period" in ways:
            plain.append(Question("period", questions.period_prompt(fact), read_period, fact.fact_id))
        if "open" in ways:
            names = questions.names(fact.group)
            plain += [
                Question(
                    "open", questions.open_prompt(prompt), lambda reply, names=names: read_name(reply, names),  # type: ignore[misc]
                    fact.fact_id, year,
                )
                for year, prompt in fact.open
            ]  # fmt: skip
    return plain


def choice_question(questions: Questions, fact: AskedFact, call: Call) -> Question:
    years = questions.years(call)
    return Question(
        "choice", questions.choice_prompt(fact, call), lambda reply: read_choice(reply, years), fact.fact_id, call=call
    )


def estimate(questions: Questions, present: Sequence[PresentQuestion], settings: AskSettings) -> tuple[Cost, Cost]:
    """What asking costs at least and at most, the budget aside."""
    plain = expected((one.kind, one.prompt) for one in plain_questions(questions, present, settings.ways))
    if "choice" not in settings.ways:
        return plain, plain
    least = most = plain
    for fact in questions.facts:
        for drawn in fact.matches.drawn:
            calls = [choice_question(questions, fact, Call(match, first)) for match in drawn for first in (True, False)]
            each = [expected([(one.kind, one.prompt)]) for one in calls]
            few = min(LEAST_ROUNDS, settings.rounds)
            least = sum(each[: 2 * few], least)
            most = sum(each[: 2 * settings.rounds + 2], most)
    return least, most


def ask_all_questions(
    questions: Questions, present: Sequence[PresentQuestion], answerer: Answerer, settings: AskSettings,
    callbacks: Callbacks | None = None,
) -> Asking:  # fmt: skip
    """Ask everything; what was said, and whether the budget ended it."""
    asking = Asking(answerer, settings, callbacks or Callbacks())
    asking.ask(plain_questions(questions, present, settings.ways))
    if "choice" in settings.ways and not asking.ended:
        facts = {fact.fact_id: fact for fact in questions.facts}
        matches = [fact.matches for fact in questions.facts]

        def choose(calls: Sequence[Call]) -> list[bool | None]:
            wanted = [choice_question(questions, facts[call.match.fact_id], call) for call in calls]
            return [correct_chosen(call, reading) for call, reading in zip(calls, asking.ask(wanted), strict=False)]

        ask_matches(matches, choose, narrow_enough(matches, settings.width), rounds=settings.rounds)
    return asking


def narrow_enough(facts: Sequence[Matches], width: float) -> Callable[[Read], bool]:
    """Whether to stop asking, told after each round what was read: after `LEAST_ROUNDS`, where the interval of W over
    the facts is no wider than that."""
    rounds = 0

    def enough(read: Read) -> bool:
        nonlocal rounds
        rounds += 1
        means = (weighted(strata) for strata in by_fact(facts, read).values())
        return rounds >= LEAST_ROUNDS and mean_over_facts(w for w in means if w is not None).width <= width

    return enough


def correct_chosen(call: Call, reading: Reading) -> bool | None:
    """Whether the correct year was chosen; None where no choice was read."""
    return (reading.value == 0) == call.correct_first if reading.outcome == READ else None


def by_call(said: Sequence[Said]) -> Mapping[Call, bool | None]:
    """What each choice came to, as `correct_chosen`."""
    return {one.call: correct_chosen(one.call, one.reading) for one in said if one.call is not None}
