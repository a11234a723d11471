"""Asks what the questions need within a budget: plain questions first, then matches until W is known well enough."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from anachron.core.errors import ConfigError
from anachron.io.answers import Answer
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.llm_settings import UNPAID, Meter, NoAnswer
from anachron.probe.ask.budget import Budget, Cost, Kind, Prices, cost_of, expected
from anachron.probe.ask.decoys import Given, may_be_told
from anachron.probe.ask.estimator import mean_over_facts, weighted
from anachron.probe.ask.matching import READ, Reading, read_choice, read_name, read_period
from anachron.probe.ask.purse import Purse, named
from anachron.probe.ask.questions import FactToAsk, Questions
from anachron.probe.ask.sampling import LEAST_ROUNDS, ROUNDS, Call, Matches, Read, ask_matches, by_fact
from anachron.probe.check.present import PresentQuestion

WAYS = ("open", "choice", "period")
BATCH = 25  # decoys that are asked about before it is seen whether more are needed


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


@runtime_checkable
class MeteredAnswerer(Answerer, Protocol):
    """Who may send several requests for an answer, each of which costs something."""

    def metered_answers(self, prompts: Sequence[str], callbacks: Callbacks, meter: Meter) -> list[Answer | NoAnswer]:
        """As `answers`, as far as the meter allows; for the others the reason is `UNPAID`."""
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
class Question:
    """A question. read: makes a reading of a reply. year: of an open question. call: of a choice. fact_id: None for one
    in the present tense, which is of a subject and relation. decoy: the name, of a question about a decoy of the fact.
    """

    kind: Kind
    prompt: str
    read: Callable[[Answer | NoAnswer], Reading]
    fact_id: str | None = None
    year: str | None = None
    call: Call | None = None
    decoy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion(Question):
    """One question and what came of it."""

    reply: Answer | NoAnswer
    reading: Reading


@dataclass(slots=True)
class Asking:
    """Asks questions as long as the budget lasts, and keeps what was said, in the order of asking."""

    answerer: Answerer
    settings: AskSettings
    callbacks: Callbacks
    asked: list[AskedQuestion] = field(default_factory=list)
    spent: Cost = field(default_factory=Cost)
    paid: set[str] = field(default_factory=set)  # prompts that are in it
    ended: bool = False  # by the budget
    purse: Purse | None = None  # by default one for these questions alone

    def ask(self, questions: Sequence[Question]) -> list[Reading]:
        """Readings of the first questions, or of all where the budget lasts."""
        replies = self._replies(questions)
        asked = len(replies)
        while asked and isinstance(last := replies[asked - 1], NoAnswer) and last.reason == UNPAID:
            asked -= 1
        self.ended |= asked < len(questions)
        readings: list[Reading] = []
        for one, reply in zip(questions[:asked], replies, strict=False):
            reading = one.read(reply)
            if one.prompt not in self.paid:  # two facts of a subject and relation may share a question
                self.paid.add(one.prompt)
                self.spent += cost_of(one.kind, one.prompt, reply)
            fields = (one.kind, one.prompt, one.read, one.fact_id, one.year, one.call, one.decoy)
            self.asked.append(AskedQuestion(*fields, reply=reply, reading=reading))
            readings.append(reading)
        return readings

    def tell_spent(self) -> None:
        """Say how many requests were sent, where they are more than the questions."""
        if self.purse is not None and self.purse.spent.calls > self.spent.calls:
            self.callbacks.notice(
                f"{self.purse.spent.calls:,} requests were sent for {self.spent.calls:,} questions, over all runs"
            )

    def _replies(self, questions: Sequence[Question]) -> list[Answer | NoAnswer]:
        """A reply to each, or to the first ones. Who has no requests to count is asked as many as can be paid."""
        settings, prompts = self.settings, [one.prompt for one in questions]
        limit = getattr(self.answerer, "most_tokens", None)  # of an answer of a local model
        purse = self.purse = self.purse or Purse(settings.budget, settings.prices)
        purse.warn = self.callbacks.warn
        purse.kinds |= {one.prompt: one.kind for one in questions}
        if isinstance(self.answerer, MeteredAnswerer):
            return self.answerer.metered_answers(prompts, self.callbacks, purse)
        replies: list[Answer | NoAnswer] = []
        while len(replies) < len(prompts):
            wave: list[str] = []
            for prompt in prompts[len(replies) :]:
                known = named(prompt) in purse.answered or prompt in purse.open
                if not known and not purse.take(prompt, limit, entered=False):
                    break
                wave.append(prompt)
            if not wave:
                break
            for prompt, reply in zip(wave, self.answerer.answers(wave, self.callbacks), strict=True):
                if prompt in purse.open:
                    purse.settle(prompt, reply if isinstance(reply, Answer) else "refused")
                replies.append(reply)
        return replies


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


def decoy_periods(questions: Questions, decoys: Sequence[FactToAsk], ways: Sequence[str]) -> list[Question]:
    """The questions when decoys were right."""
    return [
        Question("period", questions.period_prompt(one), read_period, one.fact_id, decoy=one.decoy)
        for one in (decoys if "period" in ways else ())
    ]


def choice_question(questions: Questions, fact: FactToAsk, call: Call) -> Question:
    years = questions.years(call)
    return Question(
        "choice", questions.choice_prompt(fact, call), lambda reply: read_choice(reply, years), fact.fact_id,
        call=call, decoy=fact.decoy,
    )  # fmt: skip


def estimate(questions: Questions, present: Sequence[PresentQuestion], settings: AskSettings) -> tuple[Cost, Cost]:
    """What asking costs at least and at most, the budget aside."""
    plain = plain_questions(questions, present, settings.ways)
    few = min(LEAST_ROUNDS, settings.rounds)

    def choices(asked: FactToAsk, calls: int) -> list[Question]:
        return [
            choice_question(questions, asked, call)
            for drawn in asked.matches.drawn
            for call in [Call(match, first) for match in drawn for first in (True, False)][:calls]
        ]

    least, most = [*plain], [*plain]
    if "choice" in settings.ways:
        for one in questions.facts:
            least += choices(one, 2 * few)
            most += choices(one, 2 * settings.rounds + 2)
        for place, one in enumerate(questions.decoys):
            period = decoy_periods(questions, [one], settings.ways)
            least += period + choices(one, 2 * few) if place < BATCH else []
            most += period + choices(one, 2 * few + 2)
    cheap, dear = (expected(dict.fromkeys((q.kind, q.prompt) for q in asked)) for asked in (least, most))
    return cheap, dear  # a prompt that two facts share is asked once


def ask_all_questions(asking: Asking, questions: Questions, present: Sequence[PresentQuestion]) -> None:
    """Ask everything, as far as the budget lasts."""
    settings = asking.settings
    asking.ask(plain_questions(questions, present, settings.ways))
    if "choice" in settings.ways and not asking.ended:
        matches = [fact.matches for fact in questions.facts]
        narrow = narrow_enough(matches, settings.width, [fact.subject for fact in questions.facts])
        choose, few = _choosing(asking, questions, questions.facts), min(LEAST_ROUNDS, settings.rounds)
        read = ask_matches(matches, choose, narrow, rounds=few)
        if not asking.ended:  # before the facts have more rounds, so that a budget lasts for both
            ask_decoys(asking, questions, few)
        if not asking.ended:
            ask_matches(matches, choose, narrow, rounds=settings.rounds, read=read)


def _choosing(
    asking: Asking, questions: Questions, asked: Sequence[FactToAsk]
) -> Callable[[Sequence[Call]], list[bool | None]]:
    """What asks calls of these facts, as `ask_matches` wants it."""
    by_name = {one.matches.fact_id: one for one in asked}

    def choose(calls: Sequence[Call]) -> list[bool | None]:
        wanted = [choice_question(questions, by_name[call.match.fact_id], call) for call in calls]
        return [correct_chosen(call, reading) for call, reading in zip(calls, asking.ask(wanted), strict=False)]

    return choose


def ask_decoys(asking: Asking, questions: Questions, rounds: int) -> None:
    """Ask about decoys, some at a time, until no fact can be told from them any more, there are no more, or the budget
    ends."""
    for start in range(0, len(questions.decoys), BATCH):
        some = questions.decoys[start : start + BATCH]
        asking.ask(decoy_periods(questions, some, asking.settings.ways))
        if not asking.ended:
            choose = _choosing(asking, questions, some)
            ask_matches([one.matches for one in some], choose, lambda _: False, rounds=rounds)
        if asking.ended or not may_be_told(questions, by_call(asking.asked), periods_given(asking.asked)):
            return


def narrow_enough(
    facts: Sequence[Matches], width: float, subjects: Sequence[str] | None = None
) -> Callable[[Read], bool]:
    """Whether to stop asking, told after each round what was read: after `LEAST_ROUNDS`, where the interval of W over
    the facts is no wider than that."""
    rounds = 0

    def enough(read: Read) -> bool:
        nonlocal rounds
        rounds += 1
        means = (weighted(strata) for strata in by_fact(facts, read).values())
        return rounds >= LEAST_ROUNDS and mean_over_facts(means, subjects).width <= width

    return enough


def correct_chosen(call: Call, reading: Reading) -> bool | None:
    """Whether the correct year was chosen; None where no choice was read."""
    return (reading.value == 0) == call.correct_first if reading.outcome == READ else None


def periods_given(asked: Sequence[AskedQuestion]) -> Given:
    """The periods that could be read, by fact and decoy."""
    return {
        (one.fact_id, one.decoy): one.reading.value
        for one in asked if one.kind == "period" and one.fact_id is not None and one.reading.outcome == READ
    }  # fmt: skip


def by_call(asked: Sequence[AskedQuestion]) -> Mapping[Call, bool | None]:
    """What each choice came to, as `correct_chosen`."""
    return {one.call: correct_chosen(one.call, one.reading) for one in asked if one.call is not None}
