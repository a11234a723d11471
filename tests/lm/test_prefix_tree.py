"""Prefix-tree attention: each distinct prefix computed once and the same scores as one text at a time, or a notice."""

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import BackendError
from anachron.data.decoys import with_decoys
from anachron.data.loaders import load_dataset
from anachron.lm import tree_scoring
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.model import LanguageModel
from anachron.lm.plans import make_plan, prefix_tree_saves_tokens, score_plan, tokens_computed, tree_batch_tokens
from anachron.lm.prefix_tree import common, distinct_prefixes, plan_tree_batches, walk
from anachron.lm.scorer import score_texts
from anachron.lm.scoring import Counters, score_all
from anachron.lm.selfcheck import TreeChecks
from anachron.lm.spans import Encoded
from anachron.lm.temporary import Temporary, unchanged
from anachron.lm.tokenizers import load_tokenizer
from anachron.lm.tree_scoring import ancestor_mask, score_tree_batches
from support.architectures import make_architecture
from support.tiny_models import FAMILIES, VOCABULARY, make_model, make_tokenizer, naive_log_prob
from support.tries import tries

NO_LIMIT = Limits(tokens=10**6, logits=10**9)


def takes_prefix_trees(family: str) -> Any:
    """A tiny model; opt has learned absolute positions, as gpt2 has; mistral, and gemma2 in half of its layers, see 16
    tokens back."""
    if family == "opt":
        return random_model(
            transformers.OPTConfig(
                vocab_size=VOCABULARY, hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, ffn_dim=64,
                num_attention_heads=4, max_position_embeddings=512, init_std=0.3,
            )
        )  # fmt: skip
    return make_model(family)


def random_model(config: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


MODELS = {family: takes_prefix_trees(family) for family in (*FAMILIES, "opt")}


def why_no_prefix_tree() -> dict[str, Any]:
    """ALiBi, a state space, a hybrid, and chunks that are shorter than the texts."""
    bloom = transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3)
    mamba = transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, initializer_range=0.3
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        state_space = transformers.AutoModelForCausalLM.from_config(mamba).eval()
    hybrid = transformers.JambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_experts=2, mamba_d_state=4, mamba_dt_rank=4,
        initializer_range=0.3, attn_layer_period=2, attn_layer_offset=1,
    )  # fmt: skip
    return {
        "bloom": random_model(bloom), "mamba": state_space, "jamba": random_model(hybrid),
        "chunks": make_architecture("llama4", attention_chunk_size=4),
    }  # fmt: skip


def one_by_one(model: Any, texts: list[Encoded]) -> np.ndarray:
    """Scores by the whole model, one text at a time, with nothing of the package."""
    found = []
    for text in texts:
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=torch.tensor([text.ids])).logits[0].double(), -1)
        found.append(sum(logp[t - 1, text.ids[t]].item() for t in text.targets))
    return np.array(found)


def by_prefix_tree(model: Any, texts: list[Encoded], limits: Limits) -> tuple[np.ndarray, int]:
    counters = Counters()
    return score_tree_batches(
        model, texts, plan_tree_batches(texts, VOCABULARY, limits), counters=counters
    ), counters.tokens


@given(tries(), st.integers(1, 60), st.sampled_from(sorted(MODELS)), st.sampled_from((1, 15, 640)))
def test_prefix_trees_score_as_one_text_at_a_time(texts: list[Encoded], tokens: int, family: str, head_rows: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_scoring, "HEAD_ROWS", head_rows)
        found, _ = by_prefix_tree(MODELS[family], texts, Limits(tokens=tokens))
    np.testing.assert_allclose(found, one_by_one(MODELS[family], texts), atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", sorted(MODELS))
@pytest.mark.families("opt")
def test_prefix_trees_and_padded_batches_are_naive_behind_a_prefix_of_300_tokens(family: str):
    chance = np.random.default_rng(1)
    prefix = tuple(int(t) for t in chance.integers(3, VOCABULARY, 300))
    texts = []
    for number in range(30):
        own = tuple(int(t) for t in chance.integers(3, 9, 1 + number % 5))
        answer = tuple(int(t) for t in chance.integers(3, VOCABULARY, 1 + number % 12))
        texts.append(Encoded((*prefix, *own, *answer), tuple(range(300 + len(own), 300 + len(own) + len(answer)))))
    model = MODELS[family]
    naive = one_by_one(model, texts)
    found, computed = by_prefix_tree(model, texts, Limits(tokens=64))
    np.testing.assert_allclose(found, naive, atol=1e-4, rtol=0)
    padded = score_all(model, texts, plan_batches(texts, VOCABULARY, Limits()))
    np.testing.assert_allclose(padded, naive, atol=1e-4, rtol=0)
    assert computed <= 1.05 * distinct_prefixes(texts) < 700  # the prefix once, though it fills a batch


def brute_force_nodes(texts: list[Encoded]) -> int:
    return len({text.ids[:n] for text in texts for n in range(1, len(text.ids))})


@given(tries())
def test_distinct_prefixes_are_counted_as_a_set_counts_them(texts: list[Encoded]):
    assert distinct_prefixes(texts) == brute_force_nodes(texts)


@given(tries())
def test_one_tree_batch_computes_every_prefix_once(texts: list[Encoded]):
    (batch,) = walk(texts, plan_tree_batches(texts, VOCABULARY, NO_LIMIT))
    assert len(batch.ids) == brute_force_nodes(texts)
    assert len(set(batch.rows)) == len(batch.rows)


@given(tries(), st.integers(1, 60), st.integers(1, 4000))
def test_a_plan_holds_every_text_once_and_keeps_to_its_limits(texts: list[Encoded], tokens: int, logits: int):
    batches = plan_tree_batches(texts, VOCABULARY, Limits(tokens, logits))
    assert sorted(i for batch in batches for i in batch) == list(range(len(texts)))
    ordered = [texts[i].ids for batch in batches for i in batch]
    assert ordered == sorted(ordered)
    for batch in batches[1:]:
        if len(batch) > 1:
            rows = sum(len(texts[i].targets) for i in batch)
            assert rows * VOCABULARY <= logits


@given(tries(), st.integers(1, 60))
def test_what_a_tree_batch_sees_are_ancestors(texts: list[Encoded], tokens: int):
    """Rebuilds, from the mask alone, the text before each node, and compares it with the text it stands for."""
    before: list[tuple[int, ...]] = []  # the prefix of each node of the batch before
    batches = plan_tree_batches(texts, VOCABULARY, Limits(tokens=tokens))
    for batch, members in zip(walk(texts, batches), batches, strict=True):
        kept = [before[node] for node in batch.kept]
        seen = (ancestor_mask(batch, torch.float32, torch.device("cpu"))[0, 0] == 0).tolist()
        tokens_of = [prefix[-1] for prefix in kept] + list(batch.ids)
        prefixes = list(kept)
        for row, position in zip(seen, batch.positions, strict=True):
            prefixes.append(tuple(token for token, visible in zip(tokens_of, row, strict=True) if visible))
            assert len(prefixes[-1]) == position + 1
        for i, answer in zip(members, batch.answers, strict=True):
            for (row, token), target in zip(answer, texts[i].targets, strict=True):
                assert prefixes[len(kept) + batch.rows[row]] == texts[i].ids[:target]
                assert token == texts[i].ids[target]
        before = prefixes


@given(tries(), st.integers(1, 60), st.integers(1, 12))
def test_what_a_tree_batch_sees_in_a_window_are_the_closest_ancestors(texts: list[Encoded], tokens: int, window: int):
    for batch in walk(texts, plan_tree_batches(texts, VOCABULARY, Limits(tokens=tokens))):
        whole, near = (
            ancestor_mask(batch, torch.float32, torch.device("cpu"), width)[0, 0] == 0 for width in (None, window)
        )
        for all_before, seen in zip(whole, near, strict=True):
            assert seen.nonzero().flatten().tolist() == all_before.nonzero().flatten().tolist()[-window:]


@given(tries(), st.lists(st.integers(0, 2), min_size=10, max_size=10), st.integers(1, 60))
def test_texts_of_different_owners_share_nothing(texts: list[Encoded], owners: list[int], tokens: int):
    model, owners = MODELS["llama"], owners[: len(texts)]
    of_each = [[text for text, own in zip(texts, owners, strict=True) if own == owner] for owner in range(3)]
    nodes = [brute_force_nodes(own) for own in of_each]
    assert distinct_prefixes(texts, owners) == sum(nodes)
    for limits in (Limits(tokens), NO_LIMIT):
        told: list[int] = []

        def during(computed: Sequence[int], told: list[int] = told) -> Temporary[None]:
            told.extend(computed)
            return unchanged()

        batches = plan_tree_batches(texts, VOCABULARY, limits, owners)
        found = score_tree_batches(model, texts, batches, owners=owners, during=during)
        np.testing.assert_allclose(found, one_by_one(model, texts), atol=1e-4, rtol=0)
        assert told == sorted(told) and all(told.count(owner) >= count for owner, count in enumerate(nodes))
    assert [told.count(owner) for owner in range(3)] == nodes


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_beginnings(a: list[int], b: list[int]):
    shared = common(a, b)
    assert a[:shared] == b[:shared]
    assert shared in (len(a), len(b)) or a[shared] != b[shared]


# Plans


def dated(years: int = 40, questions: int = 6) -> list[Encoded]:
    """Encoded statements: dates that questions share."""
    chance = np.random.default_rng(5)
    bodies = [tuple(int(t) for t in chance.integers(10, 90, 8)) for _ in range(questions)]
    return [
        Encoded((1, 100 + year // 10, 200 + year % 10, *body, 300 + n, 301), (11, 12))
        for year in range(years) for n, body in enumerate(bodies)
    ]  # fmt: skip


@pytest.mark.parametrize("family", sorted(MODELS))
@pytest.mark.families("mistral")
def test_planned_tokens_are_computed_and_are_the_ideal(family: str):
    texts = dated()
    model = MODELS[family]
    plan = make_plan(model, texts, VOCABULARY, 100, prefix_tree=True)
    counters = Counters()
    scores = score_plan(model, texts, plan, counters=counters)
    assert counters.tokens == tokens_computed(texts, plan) == distinct_prefixes(texts)
    np.testing.assert_allclose(scores, one_by_one(model, texts), atol=1e-4, rtol=0)


@pytest.mark.full
def test_six_answers_a_question_cost_their_own_tokens():
    """Facts of `mini` and five decoys each: computed in small batches too, hardly a prefix is computed twice."""
    table = with_decoys(load_dataset("mini", limit=12), 5).statements()
    pairs = [(prompt, answer, None) for prompt, answer in table.select("prompt", "answer").iter_rows()]
    texts = list(dict.fromkeys(encode_pairs(load_tokenizer("demo"), pairs, Format())))
    assert len(texts) > 5 * table["fact_id"].n_unique() * 100
    for tokens in (256, 512):
        computed = sum(len(batch.ids) for batch in walk(texts, plan_tree_batches(texts, 40_000, Limits(tokens))))
        assert distinct_prefixes(texts) <= computed <= 1.01 * distinct_prefixes(texts)


def test_prefix_trees_are_used_only_where_they_save_tokens():
    assert prefix_tree_saves_tokens(dated(), VOCABULARY)
    assert not prefix_tree_saves_tokens(dated(1, 1), VOCABULARY)
    apart = [Encoded((n, n, n, n), (3,)) for n in range(3, 9)]
    assert not prefix_tree_saves_tokens(apart, VOCABULARY)


# The self-check


@pytest.mark.parametrize("family", sorted(MODELS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.families("gemma2")
def test_models_that_take_prefix_trees_pass_the_check(family: str, dtype: torch.dtype):
    model = takes_prefix_trees(family).to(dtype)
    assert TreeChecks().refuse(model, dated(), plan_tree_batches(dated(), VOCABULARY, Limits(512))) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["bloom", "mamba", "jamba", "chunks"])
def test_models_that_cannot_fall_back_with_a_notice_and_the_same_scores(kind: str, caplog: pytest.LogCaptureFixture):
    lm = LanguageModel(why_no_prefix_tree()[kind], make_tokenizer("gpt2"), kind)
    with caplog.at_level(logging.WARNING, "anachron"):
        plan = lm.plan(dated())
        again = lm.plan(dated())
    assert not plan.prefix_tree and not again.prefix_tree
    assert [record.message for record in caplog.records if record.name == "anachron"] == [
        f"{plan.refusal}; texts are scored in padded batches instead"
    ]
    assert type(lm.model).__name__ in (plan.refusal or "") and again.refusal == plan.refusal
    texts = dated()
    np.testing.assert_allclose(score_texts(lm, texts), one_by_one(lm.model, texts), atol=1e-4, rtol=0)


def test_a_longer_text_is_tried_again():
    """Within one chunk of its attention a model takes prefix trees; beyond it does not."""
    model = make_architecture("llama4", attention_chunk_size=16)
    lm, long = LanguageModel(model, None, "tiny"), [Encoded((*range(3, 43), n, 5), (41,)) for n in range(3, 9)]
    assert lm.plan(dated()).prefix_tree
    assert not lm.plan([*dated(), *long]).prefix_tree
    assert lm.plan(dated()).prefix_tree


# The output head


def test_the_head_computes_the_answers_of_several_batches_at_once(monkeypatch: pytest.MonkeyPatch):
    """Every answer row once, and of a batch whose answers wait, one row more, which is not used."""
    texts, model = dated(), MODELS["llama"]
    batches = plan_tree_batches(texts, VOCABULARY, Limits(40))
    rows = [len(batch.rows) for batch in walk(texts, batches)]
    targets = [sum(len(texts[i].targets) for i in batch) for batch in batches]
    monkeypatch.setattr(tree_scoring, "HEAD_ROWS", sum(targets[:3]))
    seen: list[int] = []
    handle = model.get_output_embeddings().register_forward_hook(lambda *call: seen.append(call[2].shape[1]))
    score_tree_batches(model, texts, batches)
    handle.remove()
    assert len(batches) > 6 and seen[:3] == [1, 1, sum(rows[:3])]
    assert sum(seen) == sum(rows) + seen.count(1)


# Short of memory


class Short:
    """A model that runs out of memory above so many tokens."""

    def __init__(self, model: Any, most: int) -> None:
        self._model, self._most = model, most

    def __call__(self, input_ids: torch.Tensor, **rest: Any) -> Any:
        if input_ids.numel() > self._most:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
        return self._model(input_ids=input_ids, **rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def test_prefix_trees_that_do_not_fit_are_halved():
    texts, counters = dated(), Counters()
    found = score_tree_batches(
        Short(MODELS["llama"], 90), texts, plan_tree_batches(texts, VOCABULARY, Limits(200)), counters=counters
    )
    np.testing.assert_allclose(found, one_by_one(MODELS["llama"], texts), atol=1e-4, rtol=0)
    assert counters.halvings > 0


def test_a_text_that_does_not_fit_alone_is_an_error():
    with pytest.raises(BackendError, match="one text of 13 tokens does not fit"):
        score_tree_batches(Short(MODELS["llama"], 5), dated(), [[0, 1, 2, 3]])


def test_scores_of_pairs_against_the_naive_way():
    """From text to score, with a tokenizer, for pairs that share dates."""
    tokenizer = make_tokenizer("mistral")
    pairs = [
        (f"In {year}, who was the president of {land}?", name)
        for year in range(1990, 2002) for land, name in (("France", "Jacques Chirac"), ("Russia", "Vladimir Putin"))
    ]  # fmt: skip
    lm = LanguageModel(MODELS["llama"], tokenizer, "tiny")
    assert lm.plan(lm.encode([(p, a, None) for p, a in pairs])).prefix_tree
    expected = [naive_log_prob(lm, prompt, answer) for prompt, answer in pairs]
    np.testing.assert_allclose(lm.log_probs(pairs), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("hidden", "tokens"), [(64, 2048), (128, 2048), (256, 1024), (512, 512), (4096, 512)])
def test_tree_batches_of_narrow_models_are_larger(hidden, tokens):
    config = transformers.LlamaConfig(hidden_size=hidden)
    model = SimpleNamespace(config=config)
    assert tree_batch_tokens(model, on_gpu=False) == tokens
    assert tree_batch_tokens(model, on_gpu=True) == 4096


@pytest.mark.parametrize("on_gpu", [False, True])
def test_tree_batches_fit_into_what_local_layers_see(on_gpu):
    config = transformers.GPTNeoConfig(hidden_size=64, window_size=256)
    assert tree_batch_tokens(SimpleNamespace(config=config), on_gpu=on_gpu) == 128
