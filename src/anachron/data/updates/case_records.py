"""An update as a plain record, and the reading of fields with errors that say where a value stands.

Also what an update is asked: its own prompts, and the facts beside it that it must leave alone.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT
from anachron.core.sameness import name_key, same_name
from anachron.io.files import Json

SLOT = "{}"  # where the subject stands in a prompt, for files that say so


@dataclass(frozen=True, slots=True)
class NeighbourFact:
    """A fact that an update must leave alone.

    prompt: ready to be completed: no blank, no trailing space. objects: the labels of its true object or objects.
    dist: 1 - cosine similarity to the updated subject; None where it is not known (always for random ones).
    popularity: of its subject, as the file gives it; None where it does not.
    """

    prompt: str
    objects: tuple[str, ...]
    dist: float | None
    popularity: float | None
    subject: str | None


@dataclass(frozen=True, slots=True)
class PortabilityQuestion:
    """A text to be completed, and what counts as right.

    answers: the names of each answer, its label first; a text that must give several answers has them all here.
    old: names of the answer that was right before the update, where the format says it.
    """

    prompt: str
    answers: tuple[tuple[str, ...], ...]
    old: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PortabilityTest:
    """What must follow from an update, or stay beside it; a format's smallest unit that is right or wrong.

    kind: as its format calls it (``subject aliasing``, ``multi-hop``, ...).
    needed: whether ``any`` of the questions must be right, or ``all``.
    conditions: questions that the model must answer before the update; else the test does not count.
    rule: how generated text is judged: ``begins`` with an answer, by the rules of
        `anachron.evaluate.measures.generations`, or ``contains`` each answer, anywhere.
    unusable: why it cannot be asked; else None.
    """

    kind: str
    questions: tuple[PortabilityQuestion, ...]
    needed: str = "all"
    conditions: tuple[PortabilityQuestion, ...] = ()
    rule: str = "begins"
    unusable: str | None = None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A further thing that an update makes true together with its first; the fields are those of `EditCase`."""

    subject: str
    prompt: str
    new: str


@dataclass(frozen=True, slots=True)
class EditCase:
    """One update: what to make true of a subject, and what to ask afterwards. Every format is read into this.

    subject: its label, as a rule as in the prompt; that is not checked here.
    prompt: without blank or trailing space; holds `SLOT` where the file says where the subject stands. See `text`.
    new, old: the labels of the object to be made true and of the one that was true before. None: the group has none, or
        the file does not say. ``""``: the file gives an empty one.
    generalization: other prompts that the new object must complete. past_generalization: the same in the past tense, in
        the same order, for questions about dates that are over; none where the file does not give them.
    nearest, random: facts to be left alone, those nearest to the subject and some drawn from the whole data set.
    relation: its id, else its label. relation_label: its label, where the file gives one; only shown to people.
    objects: all (label, decision) of the group; decisions are those of `anachron.core.facts.DECISIONS`.
    popularity: of the subject.
    start, end: first and last date on which the new object is true; precision: year, month or day, of the start.
    old_start, old_end: first and last date on which the old object was true. Where the file does not give the end, but
        another of its updates says that something else took the old object's place before ``start``: that date.
        Dates as in `anachron.core.dates.Date`.
    aliases: (label, other name) of objects that have other names.
    question_templates: questions in the past tense with ``[SUBJ]`` for the subject, to be asked with dates.
    tests: what must follow from the update, of formats that ask (RippleEdits, MQuAKE).
    rewrites: what one edit makes true beside ``new``, of formats whose updates are several (MQuAKE).
    timed_prompts: (kind, prompt) of AToKe's own wordings of its questions, see `anachron.evaluate.measures.atoke`.
    """

    case_id: str
    subject: str
    prompt: str
    new: str | None
    old: str | None
    generalization: tuple[str, ...] = ()
    nearest: tuple[NeighbourFact, ...] = ()
    random: tuple[NeighbourFact, ...] = ()
    relation: str | None = None
    scenario: str = "ReplaceObject"
    objects: tuple[tuple[str, str], ...] = ()
    popularity: float | None = None
    start: str | None = None
    end: str | None = None
    precision: str | None = None
    old_start: str | None = None
    old_end: str | None = None
    question_templates: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    relation_label: str | None = None
    tests: tuple[PortabilityTest, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    timed_prompts: tuple[tuple[str, str], ...] = ()
    past_generalization: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The prompt with the subject in its place."""
        return self.prompt.replace(SLOT, self.subject)


@dataclass(frozen=True, slots=True)
class Part:
    """A value inside a record, and the words for where it stands. Every reading raises `DataError` that says so.

    where: the record (``record 3 (case_id 7)``). path: the fields that lead to the value (``objects[1].label``).
    """

    value: Any
    where: str
    path: str = ""

    def wrong(self, rule: str) -> DataError:
        """The error of a value that breaks a rule; the rule says what to write instead."""
        shown = repr(self.value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        return DataError(f"{self.where}: {self.path or 'the record'} is {shown}; {rule}")

    def record(self) -> Json:
        if not isinstance(self.value, dict):
            raise self.wrong("it must be an object with named fields")
        return self.value

    def get(self, name: str) -> "Part":
        """A field; its value is None where the field is missing, as in a table, which cannot tell the two apart, or is
        NaN, which tables that pandas wrote as JSON say for an empty cell."""
        value = self.record().get(name)
        missing = isinstance(value, float) and math.isnan(value)
        return Part(None if missing else value, self.where, f"{self.path}.{name}" if self.path else name)

    def items(self) -> list["Part"]:
        """The elements of a list; none where it is missing."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.wrong("it must be a list")
        return [Part(item, self.where, f"{self.path}[{place}]") for place, item in enumerate(self.value)]

    def label(self) -> str | None:
        """A text without the space around it, maybe empty; None where it is missing."""
        if self.value is None:
            return None
        if not isinstance(self.value, str):
            raise self.wrong("it must be a text")
        return self.value.strip()

    def some_label(self) -> str:
        """A text that is there and not empty."""
        label = self.label()
        if not label:
            raise self.wrong("give a text that is not empty")
        return label

    def prompt(self) -> str:
        """A prompt without the space at its end."""
        self.some_label()
        prompt: str = self.value.rstrip()
        return prompt

    def marked_prompt(self) -> str:
        """A prompt that holds `SLOT` once."""
        prompt = self.prompt()
        if prompt.count(SLOT) != 1:
            raise self.wrong(f"it must hold {SLOT} once, where the subject stands")
        return prompt

    def labels(self) -> tuple[str, ...]:
        """Of a text or a list of texts: all that are given. An empty text is none, an empty one in a list is wrong."""
        if isinstance(self.value, list):
            return tuple(item.some_label() for item in self.items())
        label = self.label()
        return (label,) if label else ()

    def prompts(self) -> tuple[str, ...]:
        """Of a prompt or a list of prompts: all that are given."""
        if isinstance(self.value, list):
            return tuple(item.prompt() for item in self.items())
        return (self.prompt(),) if self.label() else ()

    def number(self) -> float | None:
        """A finite number; None where it is missing."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong("it must be a finite number")
        return float(value)

    def flag(self) -> bool | None:
        if self.value is not None and not isinstance(self.value, bool):
            raise self.wrong("it must be true or false")
        return self.value

    def one_of(self, names: tuple[str, ...]) -> str:
        if self.value not in names:
            raise self.wrong(f"it must be one of {', '.join(names)}")
        return str(self.value)

    def date(self) -> str | None:
        """A date as in `anachron.core.dates.Date`, in its usual form; None where it is missing."""
        label = self.label()
        if not label:
            return None
        try:
            return str(Date.parse(label))
        except DataError as error:
            raise DataError(f"{self.where}: {self.path}: {error}") from None


def whole_prompt(part: Part) -> str:
    """An update prompt of a file that does not mark where its subject stands."""
    prompt = part.prompt()
    if SLOT in prompt:
        raise part.wrong(f"{SLOT} stands for the subject in CounterFact's requested_rewrite only; write the subject")
    return prompt


def granularity_of(date: str | None) -> str | None:
    return None if date is None else Date.parse(date).granularity


def prompts_of(case: EditCase) -> tuple[str, ...]:
    """The update prompt, then the generalization prompts."""
    return case.text, *case.generalization


def numbered_prompts(case: EditCase) -> Iterator[tuple[str, int, str]]:
    """Kind (update or generalization), number and text of each of `prompts_of`; the update prompt is number 0."""
    for number, prompt in enumerate(prompts_of(case)):
        yield prompt_kind(number), number, prompt


def prompt_kind(number: int) -> str:
    return "generalization" if number else "update"


def numbered_neighbours(case: EditCase) -> Iterator[tuple[str, int, NeighbourFact]]:
    """Kind (nearest or random), number among its kind, from 0, and the fact of each neighbour."""
    for kind, facts in (("nearest", case.nearest), ("random", case.random)):
        for number, fact in enumerate(facts):
            yield kind, number, fact


def left_alone(cases: Collection[EditCase]) -> Iterator[tuple[EditCase, str, int, NeighbourFact]]:
    """The `numbered_neighbours` of updates that are made together, with their update, but for those that a prompt of
    one of these asks about: that one is to change them."""
    changed = {name_key(prompt) for case in cases for prompt in prompts_of(case)}
    for case in cases:
        for kind, number, fact in numbered_neighbours(case):
            if name_key(fact.prompt) not in changed:
                yield case, kind, number, fact


def wrong_object(case: EditCase, fact: NeighbourFact) -> str | None:
    """The new object of a replacement, which its edit must not make the answer of a neighbour fact.

    None where it is a true object of that fact too (in whatever spelling), or the update is no replacement.
    """
    if case.scenario != REPLACEMENT or not case.new:
        return None
    return None if any(same_name(case.new, label) for label in fact.objects) else case.new
