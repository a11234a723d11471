"""Texts of many edited models in one forward, against one edit at a time with its weights written."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.errors import ModelError
from anachron.edit.base import Delta, Dense, Edit, LowRank, edited
from anachron.edit.passes.batched_adapters import BatchedAdapters, encode_under, score_batched
from anachron.lm import scoring, tree_scoring
from anachron.lm.model import LanguageModel
from anachron.lm.sites import features, find_sites
from support.architectures import lm_of, make_architecture, statements
from support.edit_models import ALL, Packed, Quantised, make_edit_lm, make_quantised_lm
from support.tiny_models import naive_log_prob

PAIRS = [
    ("Paris is the capital of", "France", None), ("In May 2004, the team of São Paulo was", "Berlin", None),
    ("Emmanuel Macron, Angela", "Merkel", None), ("Which team", "did he play for", None),
]  # fmt: skip


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return 0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def change(lm: LanguageModel, name: str, kind: str, seed: int) -> Delta:
    """A random change: of rank 1 or 3, or dense, with a bias where the module has one."""
    module = lm.model.get_submodule(name)
    outputs, inputs = features(module, name)
    if kind == "dense":
        return Dense(numbers(seed, outputs, inputs), None if module.bias is None else numbers(seed + 1, outputs))
    return LowRank(numbers(seed, outputs, int(kind)), numbers(seed + 1, int(kind), inputs))


def some_edits(lm: LanguageModel) -> list[Edit]:
    """Edits of several layers and ranks, dense ones, a prefix, and none at all."""
    sites = find_sites(lm.model)
    low, high, inner = sites.mlp_out(1), sites.mlp_out(2), sites.mlp_in(2)[0]
    made = [{low: "1"}, {low: "3", high: "1"}, {high: "dense", inner: "1"}, {}, {low: "dense", high: "dense"}]
    edits = [
        Edit({name: change(lm, name, kind, 10 * number + place) for place, (name, kind) in enumerate(held.items())})
        for number, held in enumerate(made)
    ]
    edits[3] = Edit(prefix="Berlin is a city. ")
    edits[1] = replace(edits[1], prefix="Zürich. ")
    return edits


def one_at_a_time(lm: LanguageModel, edits: Sequence[Edit], pairs: Sequence[Any]) -> list[np.ndarray]:
    found = []
    for edit in edits:
        with edited(lm, edit, check=False):
            found.append(lm.log_probs(pairs, prefix_tree=False))
    return found


def together(lm: LanguageModel, edits: Sequence[Edit], pairs: Sequence[Any], **how: Any) -> list[np.ndarray]:
    return score_batched(lm, edits, [encode_under(lm, edit, pairs) for edit in edits], **how)


def test_prefix_trees_beyond_the_windows_of_gpt_neo():
    """A few texts fit into its windows of 256; prefix trees of many texts of an edit do not."""
    lm = lm_of(make_architecture("gpt_neo"))
    module = find_sites(lm.model).mlp_out(1)
    edits = [Edit({module: change(lm, module, "1", 10 * number)}) for number in range(2)]
    for pairs in (statements(2, 2), statements(7, 4)):
        found = together(lm, edits, pairs, batch_tokens=512)
        for one, other in zip(one_at_a_time(lm, edits, pairs), found, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize(("dtype", "exact"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.families("bloom")
def test_scores_are_those_of_one_edit_at_a_time(family: str, dtype: torch.dtype, exact: float):
    lm = make_edit_lm(family, dtype=dtype)
    if family in ("gpt2", "neox"):
        lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    edits = some_edits(lm)
    before = {name: tensor.clone() for name, tensor in lm.model.state_dict().items()}
    wanted = one_at_a_time(lm, edits, PAIRS)
    assert all(np.abs(one - wanted[3]).max() > 0.01 for i, one in enumerate(wanted) if i != 3)
    if dtype == torch.float64:  # scores themselves are summed up in float32
        exact = exact if family in ("gpt2", "neox") else 1e-5  # in the others norms or attention are in float32
        wanted, found = exact_scores(lm, edits)
    else:
        found = together(lm, edits, PAIRS)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=exact)
    assert all(torch.equal(before[name], tensor) for name, tensor in lm.model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in lm.model.modules())


def exact_scores(lm: LanguageModel, edits: Sequence[Edit]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Log-probabilities in float64 of every pair: one text at a time under each edit, and all rows in one forward."""
    rows = [(n, text) for n, edit in enumerate(edits) for text in encode_under(lm, edit, PAIRS)]
    width = max(len(text.ids) for _, text in rows)
    ids = torch.tensor([list(text.ids) + [5] * (width - len(text.ids)) for _, text in rows])
    with torch.no_grad(), BatchedAdapters(lm, edits).rows([n for n, _ in rows]):
        tables = torch.log_softmax(lm.model(input_ids=ids).logits, -1)
    wanted: list[np.ndarray] = []
    found: list[np.ndarray] = []
    for (n, text), table in zip(rows, tables, strict=True):
        with torch.no_grad(), edited(lm, edits[n], check=False):
            alone = torch.log_softmax(lm.model(input_ids=torch.tensor([list(text.ids)])).logits[0], -1)
        for scores, given_table in ((wanted, alone), (found, table)):
            scores.append(np.array([float(given_table[t - 1, text.ids[t]]) for t in text.targets]))
    return wanted, found


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(["1", "2", "dense", ""]), st.integers(0, 3)), min_size=1, max_size=6))
def test_any_company_and_any_batches(held: list[tuple[str, int]]):
    lm = _gpt2()
    name = find_sites(lm.model).mlp_out(1)
    edits = [Edit({name: change(lm, name, kind, n)} if kind else {}) for n, (kind, _) in enumerate(held)]
    texts = [encode_under(lm, edit, PAIRS[: count + 1] * 2) for edit, (_, count) in zip(edits, held, strict=True)]
    wanted = [one_at_a_time(lm, [edit], PAIRS[: n + 1] * 2)[0] for edit, (_, n) in zip(edits, held, strict=True)]
    for batch_tokens in (None, 30):
        for one, other in zip(wanted, score_batched(lm, edits, texts, batch_tokens=batch_tokens), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


_MODELS: dict[str, LanguageModel] = {}


def _gpt2() -> LanguageModel:
    return _MODELS.setdefault("gpt2", make_edit_lm("gpt2"))


def test_a_batch_that_does_not_fit_is_halved_with_its_edits(monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("llama")
    edits = some_edits(lm)
    wanted = together(lm, edits, PAIRS)
    real = scoring.score_batch

    def small(model: Any, batch: Any, **how: Any) -> np.ndarray:
        if len(batch) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return real(model, batch, **how)

    monkeypatch.setattr(scoring, "score_batch", small)
    for one, other in zip(wanted, together(lm, edits, PAIRS, prefix_tree=False), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert lm.counters.halvings > 0


def test_a_tree_batch_that_does_not_fit_is_halved_with_its_edits(monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("llama")
    edits = some_edits(lm)
    wanted = together(lm, edits, PAIRS, prefix_tree=False)
    real = tree_scoring.tree_batch_logits

    def small(model: Any, batch: Any, *given: Any, **how: Any) -> Any:
        if len(batch.answers) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return real(model, batch, *given, **how)

    monkeypatch.setattr(tree_scoring, "tree_batch_logits", small)
    for one, other in zip(wanted, together(lm, edits, PAIRS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert lm.counters.halvings > 0


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
@pytest.mark.families("llama")
def test_tokens_of_one_sequence_are_changed_as_rows_of_a_batch(family: str):
    lm = make_edit_lm(family, dtype=torch.float64)
    adapters, owners = BatchedAdapters(lm, some_edits(lm)), [0, 0, 1, 3, 3, 4, 2, 2, 2]
    for name in (find_sites(lm.model).mlp_out(1), find_sites(lm.model).mlp_out(2)):
        module = lm.model.get_submodule(name)
        given = numbers(5, len(owners), features(module, name)[1])
        with torch.no_grad():
            with adapters.rows(owners):
                wanted = module(given[:, None])[:, 0]
            for shaped in (given[None], given):  # OPT flattens batch and time into one
                with adapters.tokens(owners):
                    found = module(shaped)
                assert found.shape == (*shaped.shape[:-1], 32)
                assert torch.allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=1e-12)


def test_in_bfloat16_a_dense_change_counts_as_it_would_be_written():
    lm = make_edit_lm("llama", dtype=torch.bfloat16)
    name = find_sites(lm.model).mlp_out(1)
    weight = lm.model.get_submodule(name).weight
    too_small = Dense(1e-4 * weight.detach().float())
    felt = Dense(0.02 * weight.detach().float())
    clean, same, moved = together(lm, [Edit(), Edit({name: too_small}), Edit({name: felt})], PAIRS)
    assert (clean == same).all() and not (clean == moved).any()


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", [Quantised, Packed])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "opt"])
def test_quantised_modules_take_low_rank_changes_beside_them(family: str, dtype: torch.dtype, kind: Any):
    """Every row alone, with the change of its edit taken in NumPy from what goes into the module."""
    lm = make_quantised_lm(family, kind, dtype)
    low, high = find_sites(lm.model).mlp_out(1), find_sites(lm.model).mlp_out(2)
    edits = [
        Edit({low: change(lm, low, "1", 0)}, "Zürich. "), Edit(),
        Edit({low: change(lm, low, "3", 2), high: change(lm, high, "2", 4)}),
    ]  # fmt: skip
    kinds, before = [type(m) for m in lm.model.modules()], lm.fingerprint()
    found = together(lm, edits, PAIRS)
    exact = 1e-4 if dtype == torch.float32 else 0.05
    for edit, scores, wanted in zip(edits, found, one_at_a_time(lm, edits, PAIRS), strict=True):
        np.testing.assert_allclose(scores, wanted, rtol=0, atol=exact)
        np.testing.assert_allclose(scores, beside(lm, edit), rtol=0, atol=exact)
    assert all(np.abs(scores - found[1]).max() > 0.05 for scores in (found[0], found[2]))
    assert [type(m) for m in lm.model.modules()] == kinds and lm.fingerprint() == before
    assert not any(m._forward_hooks for m in lm.model.modules())
    with pytest.raises(ModelError, match=rf"is a {kind.__name__} with a .*without quantisation"):
        BatchedAdapters(lm, [edits[0], Edit({low: Dense(torch.zeros(32, 64))})])


def beside(lm: LanguageModel, edit: Edit) -> np.ndarray:
    """Log-probabilities one text at a time, with each module's forward replaced by one that adds the change."""
    modules = {name: lm.model.get_submodule(name) for name in edit.deltas}

    def forward(name: str) -> Any:
        real, dense = modules[name].forward, edit.deltas[name].dense().numpy()

        def changed(given: torch.Tensor) -> torch.Tensor:
            more = np.einsum("...i,oi->...o", given.detach().double().numpy(), dense)
            return real(given) + torch.from_numpy(more).to(given.dtype)

        return changed

    for name, module in modules.items():
        module.forward = forward(name)
    try:
        return np.array([naive_log_prob(lm, edit.prefix + prompt, answer) for prompt, answer, _ in PAIRS])
    finally:
        for module in modules.values():
            del module.forward


def test_nothing_stays_when_a_block_ends_in_an_exception():
    lm = make_edit_lm("llama")
    with pytest.raises(ZeroDivisionError), BatchedAdapters(lm, some_edits(lm)).rows([0, 1]):
        raise ZeroDivisionError
    assert not any(m._forward_hooks for m in lm.model.modules())


def test_changes_that_no_module_can_take_are_refused():
    lm = make_edit_lm("llama")
    name = find_sites(lm.model).mlp_out(1)
    good = change(lm, name, "1", 0)
    assert isinstance(good, LowRank)
    for held, says in (
        ({name: LowRank(good.left, good.right[:, 1:])}, r"shape \(32, 63\), the model's is \(32, 64\)"),
        ({"model.layers.9.mlp.down_proj": good}, "no module .model.layers.9.mlp.down_proj"),
        ({name: Dense(good.dense(), numbers(0, 32))}, "the module has none"),
    ):
        with pytest.raises(ModelError, match=says):
            BatchedAdapters(lm, [Edit({name: good}), Edit(held)])
    blocks = lm.model.model.layers
    blocks[0].mlp.down_proj.weight = blocks[1].mlp.down_proj.weight
    with pytest.raises(ModelError, match=r"shares its weight with model\.layers\.0\.mlp\.down_proj"):
        BatchedAdapters(lm, [Edit({name: good})])
