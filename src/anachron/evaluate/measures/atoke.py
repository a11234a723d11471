"""AToKe's questions about an update (Yin and others, "History Matters: Temporal Knowledge Editing in Large Language
Model", AAAI 2024).

AToKe asks about one period of each of the two objects, where the questions of `anachron.evaluate.measures.dated` ask
about many dates on either side. Kinds of questions, after their names:

``ces``, ``ces_p``
    the new object behind its period, on the update prompt and on its other prompts: ``From January 20, 2017 to January
    20, 2021, the head of state of the United States is``; ``From 2021 on`` where no end is known
``crs``
    the new object on the update prompt as it is, which is about the present
``hes``, ``hes_p``
    the old object behind its period, in the past tense
``hrs``
    the old object behind ``Previously,``, in the past tense
``extent_new``, ``extent_old``
    each object's period, behind the statement: ``The head of state of the United States is Donald Trump from``. Right
    is its own period, wrong that of the other one. AToKe has no such question; it is what METO's second objective
    makes true (`anachron.evaluate.meto`)

A file of AToKe brings its own wordings of the first six (`EditCase.timed_prompts`), which are asked as they are. The
authors published their data and no code, so the words of our prompts are ours.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from anachron.core.dates import Date, as_date
from anachron.core.facts import REPLACEMENT
from anachron.data.updates.case_records import SLOT, EditCase
from anachron.evaluate.measures.measure import Measure, Rows, Scores
from anachron.evaluate.results import ACCURACY, COUNT, NUMBER, PAIR, PROMPT, TEXT
from anachron.text.dates import span_in_words
from anachron.text.openings import behind_opening, mention

CURRENT = ("ces", "ces_p", "crs")
HISTORICAL = ("hes", "hes_p", "hrs")
EXTENTS = ("extent_new", "extent_old")
ATOKE_KINDS = (*CURRENT, *HISTORICAL, *EXTENTS)
_VERB = re.compile(r"\b(is|are)\b(?!.*\b(?:is|are)\b)")  # the last one
_PAST = {"is": "was", "are": "were"}

Answer = Literal["new", "old"]


@dataclass(frozen=True, slots=True)
class TimedQuestion:
    """kind: of `ATOKE_KINDS`; number: of its prompt among its kind. prompt: with ``{}`` for the subject where it is
    known where that stands. new, old: the two answers, None where there is no such one; right: which of them is."""

    kind: str
    number: int
    prompt: str
    new: str | None
    old: str | None
    right: Answer

    def text(self, subject: str) -> str:
        return self.prompt.replace(SLOT, subject)

    @property
    def answers(self) -> dict[Answer, str]:
        """Those that there are."""
        both: dict[Answer, str | None] = {"new": self.new, "old": self.old}
        return {side: answer for side, answer in both.items() if answer}

    @property
    def right_answer(self) -> str:
        return self.answers[self.right]


def timed_questions(case: EditCase) -> list[TimedQuestion]:
    """What AToKe asks about an update; see the module.

    Nothing of an update that is no replacement or does not say its new object and the date of the change. Nothing about
    the history where the old object is not known; of it only ``hrs`` where its start is not. Where its end is not known
    it is the date of the change, as in AToKe's successions.
    """
    if case.scenario != REPLACEMENT or not (case.start and case.new):
        return []
    own = _asked_as_given(case) if case.timed_prompts else _asked_in_our_words(case)
    return [*own, *_extents(case)]


def _asked_as_given(case: EditCase) -> Iterator[TimedQuestion]:
    numbers = dict.fromkeys(ATOKE_KINDS, 0)
    for kind, prompt in case.timed_prompts:
        right: Answer = "old" if kind in HISTORICAL else "new"
        if case.new if right == "new" else case.old:
            yield TimedQuestion(kind, numbers[kind], _slotted(case, prompt), case.new, case.old or None, right)
            numbers[kind] += 1


def _asked_in_our_words(case: EditCase) -> Iterator[TimedQuestion]:
    prompts = [_slotted(case, prompt) for prompt in (case.prompt, *case.generalization)]
    new, old = case.new, case.old or None
    since = f"From {_new_span(case)}, "
    for number, prompt in enumerate(prompts):
        kind, place = ("ces_p", number - 1) if number else ("ces", 0)
        yield TimedQuestion(kind, place, _behind(case, since, prompt), new, old, "new")
    yield TimedQuestion("crs", 0, prompts[0], new, old, "new")
    if old is None:
        return
    if (span := _old_span(case)) is not None:
        for number, prompt in enumerate(prompts):
            kind, place = ("hes_p", number - 1) if number else ("hes", 0)
            known = _slotted(case, case.past_generalization[place]) if number and case.past_generalization else None
            yield TimedQuestion(kind, place, _behind(case, f"From {span}, ", known or in_past(prompt)), new, old, "old")
    yield TimedQuestion("hrs", 0, _behind(case, "Previously, ", in_past(prompts[0])), new, old, "old")


def _extents(case: EditCase) -> Iterator[TimedQuestion]:
    """Nothing without the old period, or where it reads as the new one does. An object that only lasts longer has one
    question."""
    new, old = _new_span(case), _old_span(case)
    if old is None or new == old or not (case.old or lasts_longer(case)):
        return
    prompt = _slotted(case, case.prompt)
    for kind, label, right in (("extent_new", case.new, "new"), ("extent_old", case.old, "old")):
        if label:
            yield TimedQuestion(kind, 0, f"{prompt} {label} from", new, old, right)  # type: ignore[arg-type]


def lasts_longer(case: EditCase) -> bool:
    """Whether an update prolongs the period of its object and puts it in nobody's place, as AToKe-EE does: there is no
    old object, and the period before the edit ends inside the new one. It has no dates before and after a change."""
    if case.old or not (case.new and case.start and case.old_end):
        return False
    return as_date(case.old_end).last_day > as_date(case.start).last_day


def in_past(prompt: str) -> str:
    """A prompt whose last ``is`` or ``are`` is ``was`` or ``were``; one with neither stays as it is."""
    return _VERB.sub(lambda verb: _PAST[verb[0]], prompt)


def _slotted(case: EditCase, prompt: str) -> str:
    """With the slot in the place of the subject, where the prompt names it, as edits find it."""
    if SLOT in prompt or not case.subject:
        return prompt
    found = mention(prompt, case.subject)
    return prompt if found is None else prompt[: found[0]] + SLOT + prompt[found[1] :]


def _behind(case: EditCase, opening: str, prompt: str) -> str:
    return behind_opening(opening, prompt, case.subject)


def _new_span(case: EditCase) -> str:
    assert case.start
    return span_in_words(as_date(case.start), _date(case.end))


def _old_span(case: EditCase) -> str | None:
    """None where its start is not known."""
    if not case.old_start:
        return None
    return span_in_words(as_date(case.old_start), _date(case.old_end or case.start))


def _date(text: str | None) -> Date | None:
    return None if text is None else as_date(text)


def _rows(case: EditCase, dating: object, scores: Scores) -> Rows:
    """A row a question."""
    rows: Rows = []
    for q in timed_questions(case):
        text = q.text(case.subject)
        known = {side: scores.p[text, answer] for side, answer in q.answers.items()}
        exact = scores.accuracy[text, q.right_answer]
        rows.append({"kind": q.kind, "prompt_number": q.number, "new": known.get("new"), "old": known.get("old"),
                     "accuracy": exact})  # fmt: skip
    return rows


# One row per question of AToKe about an update: p of both answers; accuracy: share of the right one's tokens that are
# the model's first choice.
ATOKE = Measure(
    name="atoke",
    entry={"kind": TEXT, "prompt_number": COUNT, "new": NUMBER, "old": NUMBER, "accuracy": NUMBER},
    how=lambda measures: measures.dated,
    pairs=lambda case, dating: [(q.text(case.subject), a) for q in timed_questions(case) for a in q.answers.values()],
    counted=lambda case, dating: [(q.text(case.subject), q.right_answer) for q in timed_questions(case)],
    rows=_rows,
    unasked=True,
    table={**PROMPT, **PAIR, **ACCURACY},
    keys=("kind", "prompt_number"),
    known={"kind": ATOKE_KINDS},
    scores=("new_after", "old_after", "accuracy_after"),
)
