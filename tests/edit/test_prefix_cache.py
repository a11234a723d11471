"""Suffixes of texts behind cached keys and values, against whole texts one at a time."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.edit.passes.forward import shifted
from anachron.edit.passes.prefix_cache import with_prefix_cache
from anachron.edit.requests import EditRequest, Marked, mark
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.architectures import lm_of, make_architecture
from support.edit_models import ALL, make_edit_lm, passes_of
from support.naive_edits import forward
from support.tiny_models import VOCABULARY

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "São Paulo", "the capital"),
    EditRequest("In May 2004, the team of {} was ", "Zürich", "Berlin"),
]
UNABLE = {"bloom"}  # its positions are made of a mask of two dimensions


def one_at_a_time(lm: LanguageModel, marked: list[Marked], module: str, delta: torch.Tensor) -> torch.Tensor:
    found = []
    for m, d in zip(marked, delta, strict=True):
        with torch.no_grad():
            logits = forward(lm, m.ids[:-1], shift={module: (m.subject, d)})
        found += [logits[target - 1] for target in m.targets]
    return torch.stack(found)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.families("gemma2")
def test_shifted_suffixes_are_shifted_texts(family: str):
    lm = make_edit_lm(family, dtype=torch.float64)
    if family in ("gpt2", "neox"):
        lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    marked = [*mark(lm.tokenizer, REQUESTS), *mark(lm.tokenizer, REQUESTS[:1], "Emmanuel Macron. ")]
    whole, lengths = passes_of(lm, marked)
    module = find_sites(lm.model).mlp_out(1)
    found = with_prefix_cache(lm.model, whole, lengths, [module])
    assert (found.cache is None) == (family in UNABLE)
    assert family in UNABLE or (found.cache is not None and found.cache.replay is not None)
    delta = torch.randn(4, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = 1e-9 if family in ("gpt2", "neox") else 1e-5  # in the others norms or attention are in float32
    for chosen in ([0, 1, 2, 3], [1, 3], [2]):
        some = found.only(chosen)
        for factor in (1, -2):
            shift = factor * delta[chosen]
            with torch.no_grad(), shifted(lm.model, module, some.texts, shift):
                logits = some.logits(lm.model)
            wanted = one_at_a_time(lm, [marked[i] for i in chosen], module, shift)
            assert torch.allclose(logits, wanted, rtol=0, atol=exact * float(wanted.abs().max()))


def drawn(before: int, behind: int, chooser: torch.Generator) -> Marked:
    """A text of random tokens, so many before its subject and so many behind it, which are its target."""
    ids = torch.randint(3, VOCABULARY, (before + 1 + behind,), generator=chooser).tolist()
    return Marked(tuple(ids), tuple(range(before + 1, len(ids))), before)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=5), st.integers(0, 10**6))
def test_texts_of_any_length_with_a_subject_anywhere(shapes: list[tuple[int, int]], seed: int):
    lm = _gpt2()
    chooser = torch.Generator().manual_seed(seed)
    marked = [drawn(before, behind, chooser) for before, behind in shapes]
    whole, lengths = passes_of(lm, marked)
    module = find_sites(lm.model).mlp_out(1)
    found = with_prefix_cache(lm.model, whole, lengths, [module])
    assert found.texts.ids.shape[1] == max(behind for _, behind in shapes) or max(b for b, _ in shapes) == 0
    delta = torch.randn(len(marked), 32, generator=chooser, dtype=torch.float64)
    with torch.no_grad(), shifted(lm.model, module, found.texts, delta):
        logits = found.logits(lm.model)
    assert torch.allclose(logits, one_at_a_time(lm, marked, module, delta), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["gpt_neo", "mistral", "llama"])
@pytest.mark.parametrize("shapes", [((5, 20), (3, 20)), ((100, 300), (5, 300)), ((300, 4), (10, 4))])
def test_texts_longer_than_a_window(name: str, shapes: tuple[tuple[int, int], ...]):
    """GPT-Neo counts its windows of 256 in places of the sequence, where a shorter text has a gap before its tail."""
    lm = lm_of(make_architecture(name).double())
    chooser = torch.Generator().manual_seed(1)
    marked = [drawn(before, behind, chooser) for before, behind in shapes]
    whole, lengths = passes_of(lm, marked)
    module = find_sites(lm.model).mlp_out(0)
    found = with_prefix_cache(lm.model, whole, lengths, [module])
    assert (found.cache is not None) == (name == "llama" or max(lengths) < 256)
    delta = torch.randn(len(marked), 32, generator=chooser, dtype=torch.float64)
    with torch.no_grad(), shifted(lm.model, module, found.texts, delta):
        logits = found.logits(lm.model)
    assert torch.allclose(logits, one_at_a_time(lm, marked, module, delta), rtol=0, atol=1e-4)


_MODELS: dict[str, LanguageModel] = {}


def _gpt2() -> LanguageModel:
    if not _MODELS:
        _MODELS["gpt2"] = make_edit_lm("gpt2", dtype=torch.float64)
        _MODELS["gpt2"].model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    return _MODELS["gpt2"]


@pytest.mark.parametrize("left_out", ["attention_mask", "position_ids", "past_key_values"])
def test_a_model_that_ignores_what_it_is_given_gets_whole_texts(left_out: str, monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("llama")
    whole, lengths = passes_of(lm, mark(lm.tokenizer, REQUESTS))
    assert with_prefix_cache(lm.model, whole, lengths, []) is not whole
    real = lm.model.forward

    def ignores(**given: Any) -> Any:
        return real(**{name: value for name, value in given.items() if name != left_out})

    monkeypatch.setattr(lm.model, "forward", ignores)
    assert with_prefix_cache(lm.model, whole, lengths, []) is whole


def test_a_model_that_refuses_them_gets_whole_texts_and_full_memory_is_said(monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("llama")
    whole, lengths = passes_of(lm, mark(lm.tokenizer, REQUESTS))
    for error, ends in ((TypeError("unexpected argument"), False), (torch.OutOfMemoryError("out of memory"), True)):

        def refuses(error: Exception = error, **_: Any) -> Any:
            raise error

        monkeypatch.setattr(lm.model, "forward", refuses)
        if ends:
            with pytest.raises(torch.OutOfMemoryError):
                with_prefix_cache(lm.model, whole, lengths, [])
        else:
            assert with_prefix_cache(lm.model, whole, lengths, []) is whole


def test_a_model_whose_parts_change_what_others_read_is_not_replayed():
    lm = make_edit_lm("llama")
    blocks = lm.model.model.layers
    left: list[torch.Tensor] = []
    blocks[0].mlp.register_forward_hook(lambda _, __, output: left.append(output))
    blocks[3].register_forward_pre_hook(lambda _, given: (given[0] + left.pop(), *given[1:]))
    whole, lengths = passes_of(lm, mark(lm.tokenizer, REQUESTS))
    found = with_prefix_cache(lm.model, whole, lengths, [find_sites(lm.model).mlp_out(1)])
    assert found.cache is not None and found.cache.replay is None
    with torch.no_grad():
        logits, wanted = found.logits(lm.model), whole.logits(lm.model)
    assert torch.allclose(logits, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))
