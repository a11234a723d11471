"""The tokens of an edit's target: the space before it belongs to it, also where a tokenizer makes that a token."""

from typing import Any

import pytest
import torch
from tokenizers import pre_tokenizers

from anachron.core.errors import ConfigError
from anachron.data.updates.case_records import EditCase
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.methods.ft import FtSettings
from anachron.edit.requests import TARGETS, EditRequest, mark
from anachron.evaluate.measure import Measures, measure
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.generation import greedy_continuations
from anachron.lm.model import LanguageModel
from support.tiny_models import TOKENIZERS, make_model, make_tokenizer

SINGLE_DIGITS = ("gpt2 digits", "pythia digits", "mistral digits")  # each splits ' 1990' into ' ', '1', '9', '9', '0'


def tokenizer_of(kind: str) -> Any:
    name, _, digits = kind.partition(" ")
    tokenizer = make_tokenizer(name)
    if digits:
        backend = tokenizer.backend_tokenizer
        single, plain = pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer
        backend.pre_tokenizer = pre_tokenizers.Sequence([plain, single] if name == "mistral" else [single, plain])
    return tokenizer


def behind_the_prompt(tokenizer: Any, prompt: str, answer: str) -> tuple[list[int], list[int]]:
    """Tokens of the sentence, and the positions of those that the prompt alone does not have, as the authors count."""
    ids, alone = (
        [i for i in tokenizer(text)["input_ids"] if i != tokenizer.eos_token_id]
        for text in (f"{prompt} {answer}", prompt)
    )
    assert ids[: len(alone)] == alone
    return ids, list(range(len(alone), len(ids)))


@pytest.mark.parametrize("kind", [*TOKENIZERS, *SINGLE_DIGITS])
@pytest.mark.parametrize("answer", ["1990", "7", "2 May 1990", "Paris", "França", "北京", "Kim 2"])
def test_targets_are_what_stands_behind_the_prompt(kind: str, answer: str):
    tokenizer = tokenizer_of(kind)
    ids, positions = behind_the_prompt(tokenizer, "Paris was in", answer)
    (text,) = encode_pairs(tokenizer, [("Paris was in", answer, None)], TARGETS)
    assert (list(text.ids), list(text.targets)) == (ids, positions)
    (marked,) = mark(tokenizer, [EditRequest("{} was in", "Paris", answer)])
    assert (marked.ids, marked.targets) == (text.ids, text.targets)


@pytest.mark.parametrize("kind", SINGLE_DIGITS)
def test_a_space_of_its_own_is_scored_in_edits_and_not_in_probing(kind: str):
    tokenizer = tokenizer_of(kind)
    pairs = [("Paris was in", "1990", None), ("Paris was in ", "1990", None), ("Paris was in", "1990", "  ")]
    probed = [len(text.targets) for text in encode_pairs(tokenizer, pairs, Format())]
    scored = [len(text.targets) for text in encode_pairs(tokenizer, pairs, TARGETS)]
    assert probed == [4, 4, 4]  # TimeStress, appendix D: the digits alone
    assert scored[:2] == [5, 4] and scored[2] in (5, 6)  # a space of the prompt's own is none of the target's
    behind = encode_pairs(tokenizer, pairs[:1], Format(score_separator=True, prefix="Berlin is in Germany. "))
    assert len(behind[0].targets) == 5


def test_only_one_answer_behind_the_prompt_has_a_separator():
    with pytest.raises(ConfigError, match="score_separator needs one occurrence"):
        Format("chat", answer_in_user_turn=True, score_separator=True)
    with pytest.raises(ConfigError, match="score_separator needs one occurrence"):
        Format(all_occurrences=True, score_separator=True)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["gpt2", "llama", *SINGLE_DIGITS])
def test_a_model_that_learned_an_edit_writes_its_target(kind: str):
    """Where the space was no part of the target, p of the digits behind it was near 1, and the text did not have it."""
    lm = LanguageModel(make_model("gpt2"), tokenizer_of(kind), "tiny")
    request = EditRequest("{} was in", "Paris", "4 Paris")
    settings = FtSettings(layer=1, steps=200, rate=0.05)
    edit = make_edit(lm, "FT", [request], settings)
    case = EditCase(case_id="1", subject="Paris", prompt="Paris was in", new="4 Paris", old="2 Paris")
    with edited(lm, edit):
        (result,) = measure(lm, [case], Measures(fluency_tokens=0))
        ids, positions = behind_the_prompt(lm.tokenizer, request.text, "4 Paris")
        (written,) = greedy_continuations(lm, [request.text], len(positions))
        with torch.no_grad():
            logp = lm.model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    naive = torch.stack([logp[place - 1, ids[place]] for place in positions]).mean().exp()
    assert result.rows["targets"][0]["new"] == pytest.approx(float(naive), abs=1e-5)
    assert result.rows["targets"][0]["new"] > 0.7
    assert written.strip() == "4 Paris"
