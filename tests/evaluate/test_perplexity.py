"""Perplexity of running text against the loss that transformers computes."""

import math

import pytest
import torch

from anachron.core.errors import DataError, TooLongError
from anachron.edit.base import Edit, LowRank, edited
from anachron.edit.corpus import TextInMemory, leading_specials
from anachron.evaluate.measures import perplexity as perplexity_module
from anachron.evaluate.measures.perplexity import perplexity, read_text
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites, weight_of
from support.edit_models import make_edit_lm

TEXT = TextInMemory("some", "The capital of France is Paris. In 1998, the president was Jacques Chirac.\n" * 9)


@pytest.fixture(params=[("gpt2", "gpt2"), ("llama", "llama")], ids=["no BOS", "BOS"])
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    return make_edit_lm(*request.param)


def by_loss(lm: LanguageModel, windows: list[list[int]], counted: list[int]) -> float:
    """exp of the mean loss of the last tokens of each window, as many as counted, by the model's own loss."""
    total = 0.0
    for ids, count in zip(windows, counted, strict=True):
        labels = [-100] * (len(ids) - count) + ids[len(ids) - count :]
        with torch.no_grad():
            found = lm.model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss
        total += float(found) * count
    return math.exp(total / sum(counted))


def windows_of(lm: LanguageModel, tokens: int, width: int) -> tuple[list[list[int]], list[int]]:
    """Cut by hand: special tokens first in each window, and count into its length and into the tokens."""
    special = leading_specials(lm.tokenizer)
    ids = lm.tokenizer(TEXT.text, add_special_tokens=False)["input_ids"]
    windows, left = [], tokens
    while left:
        size = min(width, left) - len(special)
        windows.append(special + ids[:size])
        ids, left = ids[size:], left - size - len(special)
    return windows, [len(window) - max(1, len(special)) for window in windows]


@pytest.mark.parametrize("tokens", [37, 64, 150])
def test_perplexity_is_the_models_own_loss(lm: LanguageModel, monkeypatch: pytest.MonkeyPatch, tokens: int):
    monkeypatch.setattr(perplexity_module, "WINDOW", 32)
    text = read_text(lm, TEXT, tokens)
    windows, counted = windows_of(lm, tokens, 32)
    assert [list(window) for window in text.windows] == windows and text.tokens == sum(counted)
    assert perplexity(lm, text) == pytest.approx(by_loss(lm, windows, counted), rel=1e-5)


def test_a_prefix_is_read_and_not_counted(lm: LanguageModel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(perplexity_module, "WINDOW", 32)
    text = read_text(lm, TEXT, 64)
    windows, counted = windows_of(lm, 64, 32)
    special = len(leading_specials(lm.tokenizer))
    prefix = lm.tokenizer("France. ", add_special_tokens=False)["input_ids"]
    behind = [window[:special] + prefix + window[special:] for window in windows]
    with edited(lm, Edit(prefix="France. ")):
        found = perplexity(lm, text)
    assert found == pytest.approx(by_loss(lm, behind, counted), rel=1e-5)
    assert found != pytest.approx(perplexity(lm, text), rel=1e-3)


def test_a_model_without_numbers_has_an_infinite_perplexity(lm: LanguageModel):
    text, module = read_text(lm, TEXT, 64), find_sites(lm.model).mlp_out(1)
    outputs, inputs = weight_of(lm.model, module).shape
    broken = Edit({module: LowRank(torch.full((outputs, 1), 1e30), torch.full((1, inputs), 1e8))})  # sums overflow
    with edited(lm, broken, check=False):
        assert perplexity(lm, text) == math.inf


def test_what_cannot_be_read_is_refused(lm: LanguageModel):
    with pytest.raises(DataError, match="nothing has no two tokens in a row"):
        read_text(lm, TextInMemory("nothing", " "))
    text = read_text(lm, TEXT)
    with edited(lm, Edit(prefix="France. " * 2000)), pytest.raises(TooLongError, match="shorten the"):
        perplexity(lm, text)
