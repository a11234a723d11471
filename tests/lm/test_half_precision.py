"""Half precision is judged against the same weights in float32, in every family and against planted faults."""

import copy
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.edit.passes.prefix_cache import with_prefix_cache
from anachron.edit.requests import EditRequest, mark
from anachron.lm import float32, selfcheck
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.float32 import in_float32
from anachron.lm.model import LanguageModel
from anachron.lm.scoring import score_all
from anachron.lm.selfcheck import COMPARED_HALF, allowed_error
from support.architectures import ARCHITECTURES, lm_of, make_architecture, statements
from support.edit_models import make_edit_lm, passes_of
from support.tiny_models import VOCABULARY

HALF = (torch.bfloat16, torch.float16)
PAIRS = statements(years=20, lands=6)
UNABLE = {  # by prefix trees; all the others take them
    "bamba", "bart", "bloom", "falcon_alibi", "falcon_h1", "jamba", "lfm2", "mamba", "minimax", "mpt", "nemotron_h",
    "openai_gpt", "qwen3_next", "recurrent_gemma",
}  # fmt: skip
each_half = pytest.mark.parametrize("dtype", HALF, ids=["bfloat16", "float16"])


def half_model(name: str, dtype: torch.dtype) -> LanguageModel:
    return lm_of(make_architecture(name).to(dtype))


# The same weights in float32


@each_half
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", pytest.param("mixtral", marks=pytest.mark.full)])
def test_computed_in_float32_is_a_copy_in_float32(name: str, dtype: torch.dtype):
    model = make_architecture(name).to(dtype)
    texts = lm_of(model).encode(PAIRS)
    batches = plan_batches(texts, VOCABULARY, Limits())
    before = {key: weight.clone() for key, weight in model.state_dict().items()}
    found = in_float32(lambda: score_all(model, texts, batches))
    assert np.array_equal(found, score_all(copy.deepcopy(model).float(), texts, batches))
    assert np.abs(found - score_all(model, texts, batches)).max() > 1e-3  # else nothing is told apart here
    after = model.state_dict()
    assert all(torch.equal(after[key], weight) and after[key].dtype == weight.dtype for key, weight in before.items())


def test_one_weight_is_widened_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """Of 12 layers, each of 7 weights, what is there in float32 at any moment is about as large as one of them."""
    model = make_architecture("llama", num_hidden_layers=12, hidden_size=64, intermediate_size=256).to(torch.bfloat16)
    weights = {weight.numel() for weight in model.parameters() if weight.dim() == 2}
    alive: dict[int, int] = {}
    most = 0
    real = float32._wide

    def watched(value: Any) -> Any:
        nonlocal most
        found = real(value)
        if isinstance(value, torch.Tensor) and found is not value and value.numel() in weights:
            alive[id(found)] = found.numel()
            weakref.finalize(found, alive.pop, id(found))
            most = max(most, sum(alive.values()))
        return found

    monkeypatch.setattr(float32, "_wide", watched)
    texts = lm_of(model).encode(PAIRS[:20])
    in_float32(lambda: score_all(model, texts, [range(20)]))
    assert 0 < most <= 2 * max(weights) and not alive
    assert sum(weight.numel() for weight in model.parameters()) > 10 * most


# The trial of prefix trees


@pytest.mark.share(2)
@each_half
@pytest.mark.parametrize(
    "name",
    [n if n in ("gemma3", "gpt_oss", "bart") else pytest.param(n, marks=pytest.mark.full) for n in ARCHITECTURES],
)
def test_every_family_is_taken_or_refused_as_in_float32(name: str, dtype: torch.dtype):
    lm = half_model(name, dtype)
    plan = lm.plan(lm.encode(PAIRS))
    assert plan.prefix_tree is (name not in UNABLE)
    if plan.prefix_tree:
        assert plan.trial is not None and plan.trial.errors is not None and plan.trial.texts >= 20
        assert plan.trial.difference < 1e-4 and plan.trial.errors.tree > 10 * plan.trial.difference


def test_the_trial_of_float32_knows_no_errors_of_rounding():
    lm = lm_of(make_architecture("llama"))
    trial = lm.plan(lm.encode(PAIRS)).trial
    assert trial is not None and trial.errors is None and trial.difference < 1e-4
    again = lm.plan(lm.encode(PAIRS[:30]))
    assert again.trial == trial  # that of the largest batches
    assert lm.plan(lm.encode(PAIRS), prefix_tree=False).trial is None


@pytest.mark.share(2)
@each_half
@pytest.mark.parametrize("where", ["in all arithmetic, one text", "in half precision, all texts"])
@pytest.mark.parametrize(
    "name",
    [
        n if n in ("gemma3", "qwen3_moe") else pytest.param(n, marks=pytest.mark.full)
        for n in ARCHITECTURES
        if n not in UNABLE
    ],
)
def test_a_planted_fault_of_three_tenths_of_a_nat_is_found(
    name: str, where: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    real = selfcheck.score_tree_batches

    def wrong(*given: Any, **how: Any) -> np.ndarray:
        scores = real(*given, **how)
        exact = torch.zeros(1, dtype=dtype).add(1).dtype == torch.float32  # so it is inside `in_float32` alone
        if where == "in all arithmetic, one text":
            scores[max(range(len(scores)), key=lambda i: len(given[1][i].ids))] -= 0.3  # the longest, always compared
        elif not exact:
            scores -= 0.3
        return scores

    monkeypatch.setattr(selfcheck, "score_tree_batches", wrong)
    plan = half_model(name, dtype).plan(half_model(name, dtype).encode(PAIRS))
    assert not plan.prefix_tree and "prefix-tree attention" in str(plan.refusal)
    assert ("in float32, where" in str(plan.refusal)) is (where == "in all arithmetic, one text")


@pytest.mark.parametrize("left_out", ["attention_mask", "position_ids"])
@each_half
def test_a_model_that_ignores_a_mask_or_positions_is_refused(
    left_out: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    lm = half_model("llama", dtype)
    real = lm.model.forward
    monkeypatch.setattr(
        lm.model, "forward", lambda **given: real(**{key: v for key, v in given.items() if key != left_out})
    )
    plan = lm.plan(lm.encode(PAIRS))
    assert not plan.prefix_tree and "in float32" in str(plan.refusal)


def test_a_model_that_cannot_be_computed_in_float32_is_not_judged(monkeypatch: pytest.MonkeyPatch):
    lm = half_model("llama", torch.bfloat16)

    def check(_: Any, __: Any, output: torch.Tensor) -> None:
        if output.dtype != torch.bfloat16:
            raise TypeError("this kernel takes bfloat16 alone")

    lm.model.model.layers[0].mlp.down_proj.register_forward_hook(check)
    plan = lm.plan(lm.encode(PAIRS))
    assert not plan.prefix_tree and "cannot be computed in float32" in str(plan.refusal)
    assert "this kernel takes bfloat16 alone" in str(plan.refusal)


def rounding(chance: np.random.Generator, trials: int, kind: str, size: float) -> np.ndarray:
    drawn = {"normal": chance.standard_normal, "heavy": lambda shape: chance.standard_t(3, shape)}[kind]
    return np.abs(size * drawn((trials, COMPARED_HALF)))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["normal", "heavy"])
@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_two_roundings_are_told_apart_by_chance_hardly_ever(kind: str, shared: float):
    """Simulated: errors of both ways from one distribution, with or without a part that both have."""
    chance, trials = np.random.default_rng(0), 20_000
    common = chance.standard_normal((trials, COMPARED_HALF))
    draws = [rounding(chance, trials, kind, 0.15) * chance.choice([-1, 1], (trials, COMPARED_HALF)) for _ in range(2)]
    ours, theirs = (np.abs((1 - shared) * draw + shared * 0.15 * common) for draw in draws)
    refused = sum(one.mean() > allowed_error(one, other) for one, other in zip(ours, theirs, strict=True))
    assert refused / trials < 0.001


@pytest.mark.parametrize("size", [0.02, 0.1, 0.2])
def test_a_shift_of_all_texts_is_found_through_rounding(size: float):
    """Simulated: 0.3 nats in every text, where rounding makes as much as on real models (0.1 to 0.2)."""
    chance, trials = np.random.default_rng(1), 5_000
    ours = np.abs(0.3 + size * chance.standard_normal((trials, COMPARED_HALF)))
    found = sum(
        one.mean() > allowed_error(one, other)
        for one, other in zip(ours, rounding(chance, trials, "normal", size), strict=True)
    )
    assert found / trials > {0.02: 0.999, 0.1: 0.999, 0.2: 0.6}[size]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
@settings(max_examples=50)
def test_what_is_as_good_is_allowed(errors: list[float]):
    one = np.array(errors)
    assert one.mean() <= allowed_error(one, one) <= allowed_error(one, one + 1)


# Passes of edits


@each_half
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_suffixes_of_edits_are_taken_in_half_precision_and_faults_found(
    family: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    lm = make_edit_lm(family, dtype=dtype)
    requests = [EditRequest(f"In {1990 + n}, the president of {{}} is", "France", "Angela Merkel") for n in range(20)]
    whole, lengths = passes_of(lm, mark(lm.tokenizer, requests))
    cached = with_prefix_cache(lm.model, whole, lengths, [])
    assert cached is not whole and cached.cache is not None
    assert all(keys.dtype == dtype for keys, _ in cached.cache.layers)  # those of the trial in float32 are gone
    real = lm.model.forward

    def shifted(**given: Any) -> Any:
        if given.get("position_ids") is not None:
            given["position_ids"] = given["position_ids"] + 1
        return real(**given)

    monkeypatch.setattr(lm.model, "forward", shifted)
    assert with_prefix_cache(lm.model, whole, lengths, []) is whole
