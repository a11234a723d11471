"""Independent edits made together, against each of them made alone."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.errors import BackendError, ConfigError, DataError, TooLongError
from anachron.edit.base import Edit, edited
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import edits_at_once, make_edit, make_edits, settings_for
from anachron.edit.method import Resources
from anachron.edit.methods import METHODS, methods, rome
from anachron.edit.methods.mend import MendSettings, untrained_network
from anachron.edit.requests import EditRequest, mark_targets
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import ALL, make_edit_lm

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "São Paulo", "the capital"),
    EditRequest("In May 2004, the team of {} was ", "Zürich", "Berlin"),
    EditRequest("The capital of {} is", "France", "Paris"),
]
TOO_LONG = EditRequest("a b " * 600 + "{} is", "Zürich", "Berlin")  # no tiny model reads so much
CONTEXTS = ("Emmanuel Macron. ", "In 1998, which team? ")
VALUE: dict[str, Any] = {"steps": 5, "contexts": CONTEXTS}
FAST: dict[str, dict[str, Any]] = {
    "FT": {"rate": 1e-2, "layer": 2, "steps": 4},
    "FT+L": {"rate": 1e-2, "layer": 0, "eps": 2e-2, "steps": 4},
    "ROME": {"layer": 1, **VALUE},
    "MEMIT": {"layers": (1, 2), "clamp": 4.0, "weight": 1.0, **VALUE},
    "AlphaEdit": {"layers": (1, 2), "clamp": 4.0, "ridge": 1e-2, "threshold": 1.0, **VALUE},
    "EMMET": {"layer": 1, "clamp": 4.0, **VALUE},
    "UltraEdit": {"layers": (1, 2), "gate_layers": (), "up_layers": (1,), "rate": 1e-2, "tokens": "all"},
    "LoRA": {"rate": 1e-2, "steps": 3},
    "LoRA-Merge": {"rate": 1e-2, "steps": 3},
    "GRACE": {"layer": 1, "steps": 3, "radius": 100.0},
    "PROMPT": {},
    "RETRIEVAL": {"stale": True},
}
TOGETHER = ("UltraEdit", "GRACE", "ROME", "MEMIT", "AlphaEdit", "EMMET", "FT", "FT+L", "LoRA-Merge", "LoRA")


def settings_of(method: str, lm: LanguageModel) -> Any:
    return replace(settings_for(method, lm)[0], **FAST[method])


def resources_of(method: str, lm: LanguageModel) -> Resources:
    """A covariance with eigenvalues on both sides of AlphaEdit's threshold."""
    found = {}
    for number, module in enumerate(methods()[method].modules(settings_of(method, lm), find_sites(lm.model))):
        chooser = torch.Generator().manual_seed(number)
        size = lm.model.get_submodule(module).weight.numel() // 32
        vectors, _ = torch.linalg.qr(torch.randn(size, size, generator=chooser, dtype=torch.float64))
        matrix = vectors * torch.logspace(-1.5, 1, size, dtype=torch.float64) @ vectors.T
        found[module] = SecondMoment.of((matrix + matrix.T) / 2, module)
    return Resources(found)


def assert_same(found: Edit, wanted: Edit, exact: float = 1e-9) -> None:
    """exact: largest difference, of the largest change."""
    assert found.deltas.keys() == wanted.deltas.keys() and found.keys.keys() == wanted.keys.keys()
    assert (found.prefix, found.model, found.count) == (wanted.prefix, wanted.model, wanted.count)
    assert found.passages == wanted.passages
    for name, delta in wanted.deltas.items():
        largest = float(delta.dense().abs().max())
        assert largest > 0
        assert torch.allclose(found.deltas[name].dense(), delta.dense(), rtol=0, atol=exact * largest)
    for name, keys in wanted.keys.items():
        assert torch.allclose(found.keys[name], keys, rtol=0, atol=exact * float(keys.abs().max()))
    assert found.statistics.keys() == wanted.statistics.keys() and found.memories.keys() == wanted.memories.keys()
    for name, moments in wanted.statistics.items():
        whole = moments.tensor()
        assert torch.allclose(found.statistics[name].tensor(), whole, rtol=0, atol=exact * float(whole[1:].abs().max()))
    for name, memory in wanted.memories.items():
        assert found.memories[name].labels == memory.labels
        for part, tensor in memory.tensors().items():
            other = found.memories[name].tensors()[part]
            assert torch.allclose(other, tensor, rtol=0, atol=exact * float(tensor.abs().max()))


def exact_lm(family: str) -> tuple[LanguageModel, float]:
    """A model in float64, and how exactly it computes: but for two families, norms take a detour over float32."""
    lm = make_edit_lm(family, dtype=torch.float64)
    if family != "gemma2":  # which knows no other
        lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    return lm, 1e-9 if family in ("gpt2", "neox") else 1e-4


def made(edits: list[Any]) -> list[Edit]:
    assert all(isinstance(edit, Edit) for edit in edits), edits
    return edits


FAMILIES = ("gpt2", "neox", "llama", "gemma2", "opt")  # Conv1D, gates, norms behind, flattened


@pytest.mark.parametrize(
    ("method", "family"),
    [*((method, family) for method in TOGETHER for family in FAMILIES), ("PROMPT", "llama"), ("RETRIEVAL", "llama")],
)
@pytest.mark.few(2)
def test_together_equals_alone(method: str, family: str):
    lm, exact = exact_lm(family)
    settings, resources = settings_of(method, lm), resources_of(method, lm)
    together = made(make_edits(lm, method, REQUESTS, settings, resources))
    for request, edit in zip(REQUESTS, together, strict=True):
        assert_same(edit, make_edit(lm, method, [request], settings, resources), exact)
        assert edit.about["method"] == method and edit.about["edits"] == 1 and edit.about["seconds"] > 0


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("method", "family"), [*((method, "llama") for method in TOGETHER[:-1]), *(("LoRA", family) for family in ALL)]
)
def test_in_float32_log_probabilities_are_those_of_edits_made_alone(method: str, family: str):
    lm = make_edit_lm(family)
    settings, resources = settings_of(method, lm), resources_of(method, lm)
    together = made(make_edits(lm, method, REQUESTS, settings, resources))
    for request, edit in zip(REQUESTS, together, strict=True):
        scores = []
        for one in (edit, make_edit(lm, method, [request], settings, resources)):
            with edited(lm, one):
                scores.append(lm.log_probs([(r.text, r.target) for r in REQUESTS]))
        np.testing.assert_allclose(*scores, atol=1e-3)


STOPS = {"ROME": 7.04, "MEMIT": 7.08, "AlphaEdit": 7.08, "EMMET": 7.04, "FT": 3.0, "FT+L": 3.6, "LoRA": 0.5}


@pytest.mark.few(2)
@pytest.mark.parametrize("method", STOPS)
def test_edits_that_stop_at_different_steps(method: str):
    """At these losses some are finished after few steps and others never are."""
    lm, _ = exact_lm("gpt2")
    resources = resources_of(method, lm)
    settings = replace(settings_of(method, lm), stop_below=STOPS[method], steps=8)
    together = made(make_edits(lm, method, REQUESTS, settings, resources))
    ends = set()
    for request, edit in zip(REQUESTS, together, strict=True):
        assert_same(edit, make_edit(lm, method, [request], settings, resources))
        fewer = make_edit(lm, method, [request], replace(settings, steps=5), resources)
        sizes = [sum(float(d.dense().norm()) for d in one.deltas.values()) for one in (fewer, edit)]
        ends.add(sizes[0] == pytest.approx(sizes[1], rel=1e-9))  # finished by then
    assert ends == {True, False}


@pytest.mark.parametrize("method", ["FT", "LoRA"])
def test_what_is_finished_passes_the_model_no_more(method: str):
    lm, _ = exact_lm("gpt2")
    settings, rows = replace(settings_of(method, lm), stop_below=STOPS[method], steps=8), []
    steps = []
    for request in REQUESTS:
        with lm.model.transformer.wte.register_forward_pre_hook(lambda _, fed: rows.append(len(fed[0]))):
            make_edit(lm, method, [request], settings)
        steps.append(len(rows))
        rows.clear()
    with lm.model.transformer.wte.register_forward_pre_hook(lambda _, fed: rows.append(len(fed[0]))):
        make_edits(lm, method, REQUESTS, settings)
    assert rows == [sum(taken > step for taken in steps) for step in range(max(steps))] and rows[0] > rows[-1]


def mend_given(lm: LanguageModel) -> tuple[MendSettings, Resources]:
    """Settings, and a network that was not trained but changes something."""
    network = untrained_network(
        lm, MendSettings(layers=(1, 2), rank=8, start=1.0, normalise=False), find_sites(lm.model)
    )
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
            parameter += 0.1 * noise
    return network.settings, Resources(network=network)


@pytest.mark.parametrize("family", ["gpt2", "neox", "llama", "opt"])
@pytest.mark.families("llama")
def test_mend_together_equals_alone(family: str):
    lm, exact = exact_lm(family)
    given = mend_given(lm)
    for request, edit in zip(REQUESTS, made(make_edits(lm, "MEND", REQUESTS, *given)), strict=True):
        assert_same(edit, make_edit(lm, "MEND", [request], *given), exact)


@pytest.mark.few(3)
@pytest.mark.parametrize("method", ["ROME", "MEMIT", "FT", "LoRA", "UltraEdit", "GRACE"])
def test_one_that_cannot_be_made_fails_alone(method: str):
    lm, _ = exact_lm("gpt2")
    settings, resources = settings_of(method, lm), resources_of(method, lm)
    asked = [*REQUESTS[:2], TOO_LONG, REQUESTS[2]]
    found = make_edits(lm, method, asked, settings, resources)
    assert isinstance(found[2], DataError | TooLongError) and "tokens, more than the" in str(found[2])
    with pytest.raises((DataError, TooLongError), match="tokens, more than the"):
        make_edit(lm, method, asked, settings, resources)
    alone = make_edits(lm, method, REQUESTS[:3], settings, resources)
    for edit, wanted in zip(made([*found[:2], found[3]]), made(alone), strict=True):
        assert_same(edit, wanted)


def test_full_memory_is_a_failure_of_what_does_not_fit_alone(monkeypatch: pytest.MonkeyPatch):
    lm, _ = exact_lm("gpt2")
    settings, resources = settings_of("ROME", lm), resources_of("ROME", lm)
    wanted = made(make_edits(lm, "ROME", REQUESTS, settings, resources))
    real = rome.optimise_values

    def fits(lm: Any, requests: Any, *rest: Any) -> Any:
        if len(requests) > 2 or requests[0].subject == "Zürich":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return real(lm, requests, *rest)

    monkeypatch.setattr(rome, "optimise_values", fits)
    found = make_edits(lm, "ROME", REQUESTS, settings, resources)
    assert isinstance(found[2], BackendError) and str(found[2]).startswith("out of memory: CUDA out of memory")
    for place in (0, 1, 3):
        assert_same(made([found[place]])[0], wanted[place])


def test_no_request_gives_no_edit_and_a_mistake_in_the_command_is_raised():
    lm = make_edit_lm("llama")
    assert make_edits(lm, "PROMPT", []) == []
    with pytest.raises(ConfigError, match="ROME: no covariance of"):
        make_edits(lm, "ROME", REQUESTS)
    with pytest.raises(ConfigError, match="choose one of FT"):
        make_edits(lm, "ROAM", REQUESTS)


def test_large_edits_are_held_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("llama")
    settings = settings_of("FT", lm)
    assert edits_at_once(lm, "FT", settings, None, 16) == 16
    monkeypatch.setattr("anachron.edit.make.TRAINED_BYTES", 5 * 6 * 4 * 32 * 64)
    assert edits_at_once(lm, "FT", settings, None, 16) == 5 and edits_at_once(lm, "FT", settings, None, 3) == 3
    monkeypatch.setattr("anachron.edit.make.TRAINED_BYTES", 10)
    assert edits_at_once(lm, "FT", settings, None, 16) == 1
    assert edits_at_once(lm, "ROME", settings_of("ROME", lm), None, 16) == 16
    adapters = replace(settings_of("LoRA", lm), layers=(0, 3), rank=5)
    numbers = sum(d.left.numel() + d.right.numel() for d in make_edit(lm, "LoRA", REQUESTS, adapters).deltas.values())
    monkeypatch.setattr("anachron.edit.make.TRAINED_BYTES", 3 * 6 * 4 * numbers)
    assert edits_at_once(lm, "LoRA", adapters, None, 16) == 3
    parts: list[int] = []
    monkeypatch.setattr(
        "anachron.edit.methods.lora.mark_targets",
        lambda tokens, asked, style: parts.append(len(asked)) or mark_targets(tokens, asked, style),
    )
    assert len(made(make_edits(lm, "LoRA", REQUESTS, adapters))) == 4 and parts == [3, 1]


# Taken out of a sum again


@lru_cache
def made_once(method: str) -> tuple[LanguageModel, tuple[Edit, ...]]:
    lm, _ = exact_lm("gpt2")
    given = mend_given(lm) if method == "MEND" else (settings_of(method, lm), resources_of(method, lm))
    return lm, tuple(made(make_edits(lm, method, REQUESTS, *given)))


def logits(lm: LanguageModel, edit: Edit) -> torch.Tensor:
    """What the edited model says at the end of a text, (tokens, vocabulary) in float64."""
    with edited(lm, edit, check=False), torch.no_grad():
        said = "In May 2004, the president of France is Angela Merkel"
        shown = "" if lm.passages is None else lm.passages.before([said])[0]
        ids = lm.tokenizer(shown + lm.prefix + said)["input_ids"]
        found: torch.Tensor = torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0, -5:], -1)
    return found


@pytest.mark.few(3)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8)
@given(order=st.permutations(range(4)), count=st.integers(1, 4), place=st.integers(0, 3))
def test_an_edit_taken_out_of_a_sum_was_never_made(method: str, order: list[int], count: int, place: int):
    """All edits were made on the clean model, so a sum of them is the same in any company."""
    lm, edits = made_once(method)
    held = [edits[i] for i in order[:count]]
    gone = held[place % count]
    others = [edit for edit in held if edit is not gone]
    left = sum(held, Edit()) - gone
    assert left.count == len(others) and left.prefix == "".join(other.prefix for other in others)
    assert left.keys.keys() == (others[0].keys.keys() if others else set())
    for name, keys in left.keys.items():
        assert torch.equal(keys, torch.cat([other.keys[name] for other in others]))
    total = sum(others, Edit())
    assert left.passages == total.passages
    assert left.memories.keys() == total.memories.keys() and left.statistics.keys() == total.statistics.keys()
    for name, memory in total.memories.items():
        assert left.memories[name].labels == memory.labels and torch.equal(left.memories[name].keys, memory.keys)
    for name, moments in total.statistics.items():
        assert left.statistics[name].count == moments.count
        assert torch.allclose(left.statistics[name].mean, moments.mean, rtol=1e-9, atol=1e-12)
    for name, delta in left.deltas.items():
        wanted = sum((other.deltas[name].dense().double() for other in others), torch.zeros(delta.shape).double())
        largest = max(float(edit.deltas[name].dense().abs().max()) for edit in held)
        assert torch.allclose(delta.dense().double(), wanted, rtol=0, atol=1e-12 * largest)
    wanted = logits(lm, sum(others, Edit()))
    assert torch.allclose(logits(lm, left), wanted, rtol=0, atol=1e-9)
    if method not in ("GRACE", "RETRIEVAL"):  # which say nothing of a text that is nearer to another key or passage
        assert not torch.allclose(logits(lm, sum(held, Edit())), wanted, rtol=0, atol=1e-4)
