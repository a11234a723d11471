"""Token accuracy and exact match, as zsRE is evaluated: against one forward pass a text and greedy generation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.edit.base import Edit, edited
from anachron.edit.make import make_edit, settings_for
from anachron.edit.requests import TARGETS, EditRequest
from anachron.evaluate.measure import Measures, accuracy_pairs, measure, measure_apart
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm

MEASURES = Measures(fluency_tokens=0, token_accuracy=True)
CASES = [
    EditCase(
        f"{number}", place, f"The president of {place} is", "Angela Merkel", "Jacques Chirac",
        (f"Who leads {place}? It is",),
        (NeighbourFact("The capital of Peru is", ("Lima", "Ciudad de los Reyes"), None, None, None),),
    )
    for number, place in enumerate(("France", "Zürich", "São Paulo"))
]  # fmt: skip


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def counted(lm, prompt, answer):
    """How many tokens of an object are the first choice, by a forward pass of that text alone; and of how many."""
    (text,) = lm.encode([(prompt, answer, None)], TARGETS)
    with torch.inference_mode():
        logits = lm.model(input_ids=torch.tensor([text.ids], device=lm.device)).logits[0]
    right = [int(logits[place - 1].argmax()) == text.ids[place] for place in text.targets]
    return sum(right), len(right)


def trained(lm, case, rate=1e-2, steps=8):
    settings, _ = settings_for("FT", lm)
    request = EditRequest.of(case.prompt, case.subject, case.new)
    return make_edit(lm, "FT", [request], replace(settings, rate=rate, steps=steps, layer=2))


@pytest.mark.parametrize("batch_tokens", [None, 1, 40])
def test_counts_against_one_text_at_a_time(lm, batch_tokens):
    """Of an object that the model has learned, whole, cut short or with another word in it, and of others."""
    answers = ("Angela Merkel", "Angela", "Angela zebra Merkel", "Lima")
    pairs = [(case.text, answer) for case in CASES for answer in answers]
    with edited(lm, trained(lm, CASES[0], steps=12)):
        encoded = lm.encode([(*pair, None) for pair in pairs], TARGETS)
        counts = lm.argmax_counts(encoded * 2, batch_tokens)
        expected = [counted(lm, *pair)[0] for pair in pairs]
    assert counts.tolist() == expected * 2
    whole, start, broken = (expected[place] / len(encoded[place].targets) for place in range(3))
    assert whole == start == 1.0 and 0 < broken < 1
    assert lm.argmax_counts([]).shape == (0,)


def test_what_stands_before_every_prompt_is_read_once(lm):
    """By the prefix tree, as scores are: a prefix with the sentences of many updates is far longer than a prompt."""
    prefix = "Angela Merkel is in Berlin. " * 20
    with edited(lm, Edit(prefix=prefix)):
        texts = lm.encode([(case.text, answer, None) for case in CASES for answer in ("Lima", "Paris")], lm.style)
        before = lm.counters.tokens
        counts = lm.argmax_counts(texts)
        computed = lm.counters.tokens - before
    expected = []
    for text in texts:
        with torch.inference_mode():
            logits = lm.model(input_ids=torch.tensor([text.ids])).logits[0]
        expected.append(sum(int(logits[place - 1].argmax()) == text.ids[place] for place in text.targets))
    assert counts.tolist() == expected and len(texts[0].ids) > 60
    assert computed < 2 * len(texts[0].ids) < sum(len(text.ids) for text in texts)


def test_each_update_under_its_own_edit_and_all_rows(lm):
    edits = [trained(lm, case, steps=4 * (number + 1)) for number, case in enumerate(CASES)]
    apart = measure_apart(lm, list(zip(CASES, edits, strict=True)), MEASURES)
    seen = []
    for case, edit, result in zip(CASES, edits, apart, strict=True):
        with edited(lm, edit):
            (alone,) = measure(lm, [case], MEASURES)
            shares = {pair: counted(lm, *pair) for pair in accuracy_pairs(case, MEASURES)}
        prompts = (case.text, *case.generalization)
        expected = [np.divide(*shares[prompt, case.new]) for prompt in prompts]
        assert [row["accuracy"] for row in result.rows["targets"]] == expected
        assert [row["accuracy"] for row in alone.rows["targets"]] == expected
        best = max(np.divide(*shares["The capital of Peru is", name]) for name in ("Lima", "Ciudad de los Reyes"))
        assert result.rows["neighbours"][0]["accuracy"] == alone.rows["neighbours"][0]["accuracy"] == best
        seen += expected
    assert max(seen) == 1.0  # an edit that was learned is an exact match


def test_what_is_an_exact_match_is_what_the_model_generates(lm):
    """Teacher-forced success and free generation agree on a model that has learned the edit."""
    case, edit = CASES[0], trained(lm, CASES[0], steps=12)
    with edited(lm, edit):
        (result,) = measure(lm, [case], replace(MEASURES, generate=True))
    for accuracy, generated in zip(result.rows["targets"], result.rows["generations"], strict=True):
        if accuracy["accuracy"] == 1.0:
            assert generated["new"] == 1.0
    assert result.rows["targets"][0]["accuracy"] == 1.0


def test_nothing_is_counted_where_it_is_not_asked_for(lm):
    (result,) = measure(lm, CASES[:1], replace(MEASURES, token_accuracy=False))
    assert [row["accuracy"] for row in (*result.rows["targets"], *result.rows["neighbours"])] == [None] * 3
    without = replace(CASES[0], new=None)
    (result,) = measure(lm, [without], MEASURES)
    assert [row["accuracy"] for row in result.rows["targets"]] == [None] * 2
