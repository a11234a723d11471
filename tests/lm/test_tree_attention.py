"""Attention block by block is attention, and models of transformers compute tree batches by it."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.lm import tree_attention
from anachron.lm.batches import Limits
from anachron.lm.prefix_tree import plan_tree_batches, walk
from anachron.lm.scoring import Counters
from anachron.lm.spans import Encoded
from anachron.lm.tree_attention import BlockwiseAttention, blocks
from anachron.lm.tree_scoring import ancestor_mask, score_tree_batches
from support.architectures import lm_of, make_architecture, naive, statements
from support.tiny_models import VOCABULARY
from support.tries import tries

CPU = torch.device("cpu")


@given(tries(), st.integers(1, 60), st.integers(1, 9))
def test_a_block_has_the_keys_that_its_nodes_see_and_few_others(texts: list[Encoded], tokens: int, size: int):
    for batch in walk(texts, plan_tree_batches(texts, VOCABULARY, Limits(tokens=tokens))):
        seen = ancestor_mask(batch, torch.float32, CPU)[0, 0] == 0  # (new, all)
        keys, queries = blocks(batch, size)
        flat = [node for block in queries for node in block]
        assert flat[: len(batch.ids)] == list(range(len(batch.ids)))  # every new node once, then the last again
        assert set(flat[len(batch.ids) :]) <= {len(batch.ids) - 1}
        for needed, rows in zip(keys, queries, strict=True):
            real = [key for key in needed if key >= 0]
            first = set(seen[rows[0]].nonzero().flatten().tolist())  # the path to the block's first node
            assert real == sorted(set(real)) and set(real) == first | {len(batch.kept) + row for row in rows}
            for row in rows:
                assert set(seen[row].nonzero().flatten().tolist()) <= set(real)


@given(tries(), st.integers(1, 60), st.sampled_from([None, 3]), st.integers(0, 2**16))
def test_by_blocks_it_is_the_same(texts: list[Encoded], tokens: int, window: int | None, seed: int):
    made = torch.Generator().manual_seed(seed)
    for batch in walk(texts, plan_tree_batches(texts, VOCABULARY, Limits(tokens=tokens))):
        new, nodes = len(batch.ids), len(batch.ends)
        query = torch.randn(1, 4, new, 8, generator=made)
        key, value = (torch.randn(1, 2, nodes, 8, generator=made) for _ in range(2))
        mask = ancestor_mask(batch, torch.float32, CPU, window)

        scaled = torch.nn.functional.scaled_dot_product_attention
        attention = partial(scaled, query, key, value, scale=0.7, enable_gqa=True)
        way = BlockwiseAttention(batch, 4)
        with way:
            found = attention(attn_mask=mask)
            again = attention(attn_mask=mask)
        assert way.calls == (2 if new > 4 else 0)
        torch.testing.assert_close(found, attention(attn_mask=mask), rtol=0, atol=1e-5)
        assert torch.equal(found, again)
        with way:  # a mask of another kind is not ours
            by_head = attention(attn_mask=mask.expand(1, 4, -1, -1))
        assert torch.equal(by_head, attention(attn_mask=mask.expand(1, 4, -1, -1)))


@pytest.mark.parametrize(("name", "implementation"), [("llama", "sdpa"), ("gemma3", "sdpa"), ("llama", "eager")])
def test_models_compute_tree_batches_by_it(name: str, implementation: str, monkeypatch: pytest.MonkeyPatch):
    """With windows and groups of heads too; where a model's attention is its own, it is dense."""
    monkeypatch.setattr(tree_attention, "BLOCK", 16)
    lm = lm_of(make_architecture(name))
    lm.model.set_attn_implementation(implementation)
    pairs = statements(years=12, lands=4, words=12)
    texts = lm.encode(pairs)
    plan, counters = plan_tree_batches(texts, VOCABULARY, Limits(200)), Counters()
    scores = score_tree_batches(lm.model, texts, plan, counters=counters)
    np.testing.assert_allclose(scores, naive(lm, pairs), atol=1e-4, rtol=0)
    layers = lm.model.config.num_hidden_layers
    assert counters.blockwise == (len(plan) * layers if implementation == "sdpa" else 0)
    trial = lm.plan(texts, 200).trial
    assert trial is not None and trial.attention == ("blockwise" if implementation == "sdpa" else "dense")
