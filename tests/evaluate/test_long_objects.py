"""Objects that are whole texts: token accuracy unasked, and as much generated as it takes to compare all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from anachron.data.updates.case_records import EditCase, PortabilityQuestion, PortabilityTest
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.plan import plan_edits
from anachron.edit.requests import EditRequest
from anachron.evaluate.measure import LONG_OBJECT, Measures, ModelWriter, measure, measures_of_objects
from anachron.evaluate.measures.audit import AnswerAudit, answers_to, says_exactly
from anachron.evaluate.measures.generations import SPARE
from anachron.evaluate.measures.portability import PORTABILITY, TOKENS
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.jobs import Callbacks
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm

LONG = "Angela Merkel lives in Berlin and St. Louis. " * 5 + "Emmanuel Macron leads France"
CASE = EditCase("1", "France", "The president of France is", "Lima", "Paris")


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def tokens(lm: LanguageModel, text: str) -> int:
    return len(lm.tokenizer(text, add_special_tokens=False)["input_ids"])


def text_of(lm: LanguageModel, count: int) -> str:
    """The shortest beginning of a text that has so many tokens."""
    return next(part for end in range(200) if tokens(lm, part := ("Paris " * 40)[:end].strip()) == count)


@dataclass
class Scripted:
    """Writes one long text, cut after so many words: a word is a token."""

    text: str
    asked: list[tuple[str, int]] = field(default_factory=list)

    def greedy(self, prompts: Sequence[str], tokens: int) -> list[str]:
        self.asked += [(prompt, tokens) for prompt in prompts]
        return [" ".join(self.text.split()[:tokens]) for _ in prompts]

    def answers(
        self,
        prompts: Sequence[str],
        most_tokens: int,
        end: Callable[[str], int | None],
        goes_on: Callable[[str], bool],
    ) -> list[tuple[str, bool]]:
        written = self.greedy(prompts, most_tokens)
        ends = [end(f"{text} ") for text in written]
        return [(text[:place], place is not None) for text, place in zip(written, ends, strict=True)]

    def longest(self, prompt: str, names: Sequence[str]) -> int:
        return max(len(name.split()) for name in names)


def settled(lm: LanguageModel, *cases: EditCase, measures: Measures | None = None) -> tuple[bool, bool, list[str]]:
    """Whether token accuracy is measured, whether texts are generated, and what was told."""
    told: list[str] = []
    found = measures_of_objects(lm, cases, measures or Measures(), told.append)
    on = {"token_accuracy": found.token_accuracy, "generate": found.generate}
    assert found == replace(measures or Measures(), **on)
    return *on.values(), told


def test_one_token_more_than_a_name_has_turns_token_accuracy_and_generation_on(lm: LanguageModel) -> None:
    fits, longer = text_of(lm, LONG_OBJECT), text_of(lm, LONG_OBJECT + 1)
    assert settled(lm, CASE, replace(CASE, new=fits, old=fits)) == (False, False, [])
    why = "the longest object has 21 tokens, more than 20"
    for one in (replace(CASE, new=longer), replace(CASE, old=longer)):
        told = [f"token accuracy and what the model generates is measured too: {why}"]
        assert settled(lm, CASE, one) == (True, True, told)
    one = replace(CASE, new=longer)
    told = [f"what the model generates is measured too: {why}"]
    assert settled(lm, one, measures=Measures(token_accuracy=True)) == (True, True, told)
    assert settled(lm, one, measures=Measures(token_accuracy=True, generate=True)) == (True, True, [])


def test_so_do_updates_that_know_no_old_object(lm: LanguageModel) -> None:
    without = replace(CASE, old=None)
    on, texts, (told,) = settled(lm, without, without)
    assert on and not texts and told.startswith("token accuracy is measured, since no update has an old object")
    assert settled(lm, without, measures=Measures(token_accuracy=True)) == (True, False, [])
    assert settled(lm, without, CASE) == settled(lm, replace(without, scenario="AddObject")) == (False, False, [])


@pytest.mark.parametrize("length", [1, TOKENS - SPARE, TOKENS - SPARE + 1, 80])
def test_a_question_is_given_room_for_its_answer(length: int) -> None:
    """Others keep the published length."""
    answer = " ".join(f"w{n}" for n in range(length))
    writer = Scripted(answer + " and more" * 30)
    questions = PortabilityQuestion("long?", ((answer,),)), PortabilityQuestion("short?", (("w0",),))
    case = replace(CASE, tests=(PortabilityTest("persona", questions),))
    rows = [{"kind": "persona", "number": 0, "prompt_number": place} for place in (0, 1)]
    judged = PORTABILITY.written(writer, case, False, rows)
    assert dict(writer.asked) == {"long?": max(TOKENS, length + SPARE), "short?": TOKENS}
    assert [row["right"] for row in judged] == [1.0, 1.0]


def test_an_audited_answer_is_not_cut_within_the_object() -> None:
    """Of several sentences; but where a user says how long an answer may be, that holds."""
    text = " ".join(f"Sentence {n} is here." for n in range(20))
    case = replace(CASE, new=text)
    writer = Scripted(text + " Something else.")
    ((answer, stopped),) = answers_to(writer, case, AnswerAudit())
    assert stopped and says_exactly(answer, [text]) and writer.asked == [(CASE.text, 80 + SPARE)]
    ((answer, stopped),) = answers_to(writer, case, AnswerAudit(50))
    assert not stopped and len(answer.split()) == 50
    answers_to(writer, CASE, AnswerAudit())
    assert writer.asked[-1] == (CASE.text, 50)


@pytest.mark.full
def test_a_run_judges_the_whole_text(lm: LanguageModel, tmp_path: Path) -> None:
    """Against a forward pass of the edited model, a token at a time, and its own greedy text of all tokens."""
    length = tokens(lm, LONG)
    assert length > TOKENS
    case, told = replace(CASE, new=LONG), list[str]()
    (planned,) = plan_edits(lm, ["FT"], changes={"FT": {"steps": 60, "layer": 2, "rate": 3e-2}})
    settings = EvaluateSettings(measures=Measures(fluency_tokens=0, generate=True, audit=AnswerAudit()))
    callbacks = Callbacks(notice=told.append)
    run = run_evaluation(lm, CaseSet("x", "x", (case,)), [planned], tmp_path, settings, callbacks=callbacks)
    assert len(told) == 1 and '"token_accuracy": true' in (tmp_path / "run.json").read_text()
    edit = make_edit(lm, "FT", [EditRequest.of(case.prompt, case.subject, LONG)], planned.settings)
    with edited(lm, edit), torch.inference_mode():
        (text,) = lm.encode([(case.text, LONG, None)], lm.style)
        right = [
            int(lm.model(input_ids=torch.tensor([text.ids[:place]])).logits[0, -1].argmax()) == text.ids[place]
            for place in text.targets
        ]
        (wrote,) = ModelWriter(lm).greedy([case.text], len(text.targets) + SPARE)
        (alone,) = measure(lm, [case], Measures(fluency_tokens=0))
    assert sum(right) / len(right) == run.tables["targets"]["accuracy_after"][0] > 0.5
    assert run.tables["generations"]["text_after"][0] == wrote
    assert run.tables["generations"]["new_after"][0] == (sum(right) == len(right))
    assert alone.rows["targets"][0]["accuracy"] is None
