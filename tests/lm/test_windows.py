"""Models whose tokens do not see all before them: by prefix trees only where these score as single texts do."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.lm.batches import Limits, fed_length
from anachron.lm.model import LanguageModel
from anachron.lm.prefix_tree import TreeBatch, extents, plan_tree_batches, walk
from anachron.lm.scorer import score_texts
from anachron.lm.spans import Encoded
from anachron.lm.tree_scoring import score_tree_batches
from anachron.lm.windows import changing_length, sliding_window, why_no_prefix_tree, why_no_single_mask
from support.architectures import lm_of, make_architecture, naive, statements
from support.tiny_models import VOCABULARY

SMALL, LARGE = statements(2, 3), statements(7, 4)  # a few nodes, and more than 256


def gaps(lm: LanguageModel, pairs: list, **how: Any) -> np.ndarray:
    return np.abs(lm.log_probs(pairs, **how) - naive(lm, pairs))


def test_gpt_neo_after_a_small_first_call():
    """Its windows of 256 are places in the sequence: batches of more nodes are wrong, smaller ones are not."""
    model = make_architecture("gpt_neo")
    texts = lm_of(model).encode(LARGE)
    batches = plan_tree_batches(texts, VOCABULARY, Limits(512))
    wrong = np.abs(score_tree_batches(model, texts, batches) - naive(lm_of(model), LARGE))
    assert wrong.max() > 0.1  # else nothing is tried here
    lm = lm_of(model)
    assert lm.plan(lm.encode(SMALL), 512).prefix_tree
    assert gaps(lm, SMALL, batch_tokens=512).max() < 1e-4
    assert not lm.plan(texts, 512).prefix_tree
    assert gaps(lm, LARGE, batch_tokens=512).max() < 1e-4


@pytest.mark.few(5)
@pytest.mark.parametrize("name", ["gpt2", "gpt_neo", "gemma3", "phi3_longrope", "qwen3_moe"])
@pytest.mark.parametrize(
    "how", [{"batch_tokens": 512}, {"prefix_tree": False}, {"prefix_tree": False, "batch_tokens": 2048}]
)
def test_texts_beyond_the_window_in_any_way(name: str, how: dict[str, Any]):
    lm = lm_of(make_architecture(name))
    gaps(lm, SMALL, **how)
    pairs = [*statements(1, 2, words=180), *statements(2, 2), *statements(1, 2, words=60)]
    assert gaps(lm, pairs, **how).max() < 1e-4


def hidden(name: str, **changes: Any) -> LanguageModel:
    """A model whose configuration no longer says what its layers do."""
    model = make_architecture(name)
    for key, value in changes.items():
        setattr(model.config, key, value)
    return lm_of(model)


def test_a_larger_tree_batch_is_tried_again_though_no_text_is_longer():
    lm = hidden("gpt_neo", attention_layers=["global", "global"])
    longest = statements(1, 1, words=20)
    assert lm.plan(lm.encode([*longest, *SMALL]), 512).prefix_tree
    plan = lm.plan(lm.encode(LARGE), 512)
    assert not plan.prefix_tree and "differ by" in (plan.refusal or "")
    assert gaps(lm, LARGE, batch_tokens=512).max() < 1e-4


def test_a_longer_reach_is_tried_again_though_no_tree_batch_is_larger():
    """Two trees of 200 nodes in a batch of 400 are right in windows of 256; one of 400 is not."""
    lm = hidden("gpt_neo", attention_layers=["global", "global"])
    chance = np.random.default_rng(2)

    def tree(first: int, texts: int) -> list[Encoded]:
        bodies = chance.integers(10, 90, (texts, 20)).tolist()
        return [Encoded((first, *body, 5), (21,)) for body in bodies]

    apart, one = [*tree(3, 10), *tree(4, 10)], tree(3, 20)
    sizes = [
        max(e.nodes for e in extents(texts, plan_tree_batches(texts, VOCABULARY, Limits(512))))
        for texts in (apart, one)
    ]
    assert sizes[0] > sizes[1] > 256
    assert lm.plan(apart, 512).prefix_tree
    assert not lm.plan(one, 512).prefix_tree


def test_branches_are_tried_though_the_largest_tree_batch_has_none():
    """BART counts its own positions, which are right in a batch of one text."""
    lm = lm_of(make_architecture("bart"))
    pairs = [*statements(7, 4), *statements(1, 2, words=60), ("zz " + statements(1, 1, words=60)[0][0], "Paris", None)]
    assert gaps(lm, pairs, batch_tokens=40).max() < 1e-4


def test_what_was_tried_is_not_tried_again():
    lm, fed = lm_of(make_architecture("llama")), list[int]()
    texts = lm.encode(LARGE)
    lm.model.register_forward_pre_hook(lambda _, __, given: fed.append(given["input_ids"].numel()), with_kwargs=True)
    for some in (texts, texts[:5], texts):
        assert lm.plan(some, 512).prefix_tree
    largest, longest = (
        max(len(batch.ids) for batch in walk(texts, plan_tree_batches(texts, VOCABULARY, Limits(512)))),
        40,
    )
    assert 0 < sum(fed) <= largest + 15 * longest  # the largest batch, 8 texts padded, 3 alone, and what is kept before
    del fed[:]
    lm.plan(texts, 512)
    assert not fed


def test_owners_have_trees_of_their_own_when_prefix_trees_are_tried():
    lm, owners = lm_of(make_architecture("gpt_neo")), [n // 7 for n in range(28)]
    texts = lm.encode(LARGE)
    assert not lm.plan(texts, 512).prefix_tree
    assert lm.plan(texts, 512, owners=owners).prefix_tree  # four trees of less than 256 nodes


# What configurations say


@pytest.mark.parametrize(
    ("name", "longest", "reach", "said"),
    [
        ("gpt_neo", 20, 257, "local attention over 256 places"),
        ("bloom", 20, 20, "ALiBi"),
        ("mpt", 20, 20, "ALiBi"),
        ("falcon_alibi", 20, 20, "ALiBi"),
        ("llama4", 257, 257, "attention_chunk_size"),
        ("phi3_longrope", 129, 129, "longrope"),
        ("lfm2", 20, 20, "conv"),
        ("jamba", 20, 20, "linear_attention"),
    ],
)
def test_a_configuration_refuses_prefix_trees(name: str, longest: int, reach: int, said: str):
    model = make_architecture(name)
    assert said in (why_no_prefix_tree(model, longest, reach) or "")
    if longest > 20:
        assert why_no_prefix_tree(model, longest - 1, 10**6) is None


@pytest.mark.parametrize(("name", "window"), [("mistral", 256), ("qwen2", 256), ("gpt_oss", 128)])
def test_a_sliding_window_refuses_a_single_mask_for_all_layers(name: str, window: int):
    model = make_architecture(name)
    assert f"sees {window} tokens back (sliding_window)" in (why_no_single_mask(model, window + 1, window + 1) or "")
    assert why_no_single_mask(model, window, window) is None
    assert why_no_prefix_tree(model, 10**6, 10**6) is None
    assert "ALiBi" in (why_no_single_mask(make_architecture("bloom"), 20, 20) or "")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["gemma2", "gemma3", "gpt_oss", "mistral", "ministral", "phi3", "qwen2", "starcoder2"])
def test_sliding_windows_are_put_into_the_mask(name: str, monkeypatch: pytest.MonkeyPatch):
    lm, pairs = lm_of(make_architecture(name)), [*statements(1, 2, words=180), *statements(2, 2)]
    assert lm.plan(lm.encode(pairs), 512).prefix_tree
    assert gaps(lm, pairs, batch_tokens=512).max() < 1e-4
    monkeypatch.setattr("anachron.lm.tree_scoring.sliding_window", lambda model: None)
    texts = lm.encode(pairs)
    wrong = score_tree_batches(lm.model, texts, plan_tree_batches(texts, VOCABULARY, Limits(512))) - naive(lm, pairs)
    assert np.abs(wrong).max() > 1e-3  # else the windows hide nothing here
    assert not LanguageModel(lm.model, lm.tokenizer, "tiny").plan(texts, 512).prefix_tree  # and the trial finds it


@pytest.mark.parametrize("changes", [{"sliding_window": 16}, {"sliding_window": 16, "use_sliding_window": False}])
def test_a_window_that_no_layer_is_known_to_use_is_in_no_mask(changes: dict[str, Any]):
    """transformers keeps any key of a configuration's file; a llama has no window."""
    lm = hidden("llama", **changes)
    assert sliding_window(lm.model) is None
    assert why_no_prefix_tree(lm.model, 10**6, 10**6) is None
    assert lm.plan(lm.encode(LARGE), 512).prefix_tree
    assert gaps(lm, LARGE, batch_tokens=512).max() < 1e-4


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neo", "mistral", "gemma2", "falcon", "qwen3_moe"])
def test_nothing_speaks_against_prefix_trees_of_short_texts(name: str):
    model = make_architecture(name)
    assert why_no_prefix_tree(model, 256, 256) is None
    assert changing_length(model) is None


def test_windows_that_are_switched_off_refuse_nothing():
    assert why_no_single_mask(make_architecture("qwen2", use_sliding_window=False), 10**6, 10**6) is None
    model = make_architecture("gpt_neo", attention_types=[[["global"], 2]])
    assert why_no_prefix_tree(model, 10**6, 10**6) is None


def test_a_refusal_by_length_holds_for_long_texts_alone_and_is_said_once(caplog: pytest.LogCaptureFixture):
    lm = lm_of(make_architecture("llama4"))
    short, long = lm.encode(LARGE), lm.encode([*LARGE, *statements(1, 2, words=180)])
    with caplog.at_level(logging.WARNING, "anachron"):
        assert [lm.plan(texts, 512).prefix_tree for texts in (short, long, long, short)] == [True, False, False, True]
    assert [record.levelname for record in caplog.records if record.name == "anachron"] == ["WARNING"]


# Positions that change with the length of a batch


def test_longrope_texts_are_not_changed_by_longer_ones_in_their_batch():
    lm = lm_of(make_architecture("phi3_longrope"))
    texts = lm.encode([*SMALL, *statements(1, 2, words=180)])
    batches = lm.plan(texts, 10**5, prefix_tree=False).batches
    assert sorted(i for batch in batches for i in batch) == list(range(len(texts)))
    assert all(len({fed_length(texts[i]) > 128 for i in batch}) == 1 for batch in batches)


# How large batches are


@st.composite
def owned(draw: st.DrawFn) -> tuple[list[Encoded], list[int]]:
    token = st.integers(3, 5)
    made = draw(
        st.lists(st.tuples(st.lists(token, min_size=2, max_size=8), st.integers(0, 2)), min_size=1, max_size=12)
    )
    return [Encoded(tuple(ids), (len(ids) - 1,)) for ids, _ in made], [owner for _, owner in made]


def measured(batch: TreeBatch) -> tuple[int, int, int]:
    """Nodes of a batch, the farthest that one is from its first ancestor (both counted), and the farthest that a new
    one is behind its depth."""
    firsts = [min(a for a in range(node + 1) if node < batch.ends[a]) for node in range(len(batch.ends))]
    shifts = [len(batch.kept) + place - depth for place, depth in enumerate(batch.positions)]
    return len(batch.ends), max(node - first + 1 for node, first in enumerate(firsts)), max(shifts, default=0)


@given(owned(), st.integers(1, 40))
def test_extents_are_those_of_the_tree_batches_that_are_computed(made: tuple[list[Encoded], list[int]], tokens: int):
    texts, owners = made
    for own in (owners, None):
        batches = plan_tree_batches(texts, VOCABULARY, Limits(tokens), own)
        sizes = extents(texts, batches, own)
        if own is None:
            computed = list(walk(texts, batches))
            assert [(size.nodes, size.reach) for size in sizes] == [measured(batch)[:2] for batch in computed]
            for size, batch in zip(sizes, computed, strict=True):
                assert size.kept >= len(batch.kept) and size.shift >= measured(batch)[2]
        for size, batch in zip(sizes, batches, strict=True):
            assert size.longest == max(len(texts[i].ids) - 1 for i in batch)
            assert size.farthest in batch and size.longest <= size.reach <= size.nodes


def test_noise_is_no_excuse_for_prefix_trees(monkeypatch: pytest.MonkeyPatch):
    """Padded batches that differ from single texts by a nat do not let wrong batches pass."""
    lm = hidden("gpt_neo", attention_layers=["global", "global"])
    texts = lm.encode(LARGE)
    given_scores = score_texts(lm, texts, prefix_tree=False)
    place = {text: i for i, text in enumerate(texts)}

    def noisy(model: Any, some: Sequence[Encoded], batches: Sequence[Sequence[int]]) -> np.ndarray:
        return given_scores[[place[text] for text in some]] + (1 if max(map(len, batches)) > 1 else 0)

    monkeypatch.setattr("anachron.lm.selfcheck.score_all", noisy)
    assert not lm.plan(texts, 512).prefix_tree
    assert torch.isfinite(torch.tensor(given_scores)).all()


def test_a_window_that_no_layer_uses_is_not_told(caplog: pytest.LogCaptureFixture):
    lm = lm_of(make_architecture("gpt2", sliding_window_size=4))
    assert lm.plan(lm.encode(SMALL), 512).prefix_tree and not caplog.records
    assert gaps(lm, SMALL, batch_tokens=512).max() < 1e-4


@pytest.mark.parametrize("name", ["olmoe", "qwen3_moe"])
def test_a_window_that_layers_use_though_their_configuration_does_not_know_it_changes_no_score(name: str):
    lm = lm_of(make_architecture(name, sliding_window=4))
    assert gaps(lm, SMALL, batch_tokens=512).max() < 1e-4


def test_a_window_of_code_that_came_with_a_checkpoint_is_told(monkeypatch: pytest.MonkeyPatch):
    model = make_architecture("llama", sliding_window=4)
    monkeypatch.setattr(type(model.config), "__module__", "transformers_modules.some.configuration")
    assert "sees 4 tokens back (sliding_window)" in (why_no_prefix_tree(model, 5, 5) or "")
