"""The solves against dense inverses, and the methods against naive ones that write into a copy of the model."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.edit.base import Edit, edited
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edit
from anachron.edit.method import Resources
from anachron.edit.methods.alphaedit import AlphaEditSettings, null_space_change
from anachron.edit.methods.emmet import EmmetSettings
from anachron.edit.methods.ft import FtSettings
from anachron.edit.methods.lora import LoraSettings
from anachron.edit.methods.memit import MemitSettings
from anachron.edit.methods.rome import RomeSettings
from anachron.edit.passes.spread import ridge
from anachron.edit.passes.value import optimise_values
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites, find_sites
from support.edit_models import make_edit_lm
from support.naive_edits import matrix, values

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "São Paulo", "the capital"),
    EditRequest("In May 2004, the team of {} was", "Zürich", "Berlin"),
]
CONTEXTS = ("Emmanuel Macron. ", "In 1998, which team? ")
FEW: dict[str, Any] = {"steps": 4, "stop_below": 0.0, "contexts": CONTEXTS}


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def eye(size: int) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float64)


def covariance(seed: int, size: int, condition: float = 100.0) -> torch.Tensor:
    """A symmetric matrix with eigenvalues from 1 / condition to 1."""
    vectors, _ = torch.linalg.qr(numbers(seed, size, size))
    return vectors * torch.logspace(-np.log10(condition), 0, size, dtype=torch.float64) @ vectors.T


# The solves


@given(
    st.integers(1, 12), st.integers(1, 9), st.integers(1, 5), st.floats(-2, 4), st.floats(0, 9), st.integers(0, 10**6)
)
def test_woodbury_s_solve_is_the_direct_one(
    size: int, count: int, out: int, weight: float, condition: float, seed: int
):
    c, keys, residual = (
        covariance(seed, size, 10**condition),
        numbers(seed + 1, size, count),
        numbers(seed + 2, out, count),
    )
    solved = SecondMoment.of(c).inverse_times(keys)
    found = ridge(keys, residual, solved, 10**weight)
    direct = residual @ keys.T @ torch.linalg.inv(10**weight * c + keys @ keys.T)
    assert found.rank == count
    spread = float(torch.linalg.matrix_norm(keys.T @ solved, 2)) / 10**weight  # condition of what is solved
    tolerance = max(1e-10, 1e-14 * (spread + 10**condition))
    np.testing.assert_allclose(found.dense(), direct, rtol=tolerance, atol=tolerance * float(direct.abs().max()))


@given(st.integers(4, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_without_ridge_every_key_gets_its_value(size: int, count: int, seed: int):
    c, keys, residual = covariance(seed, size), numbers(seed + 1, size, count), numbers(seed + 2, 3, count)
    change = ridge(keys, residual, torch.linalg.solve(c, keys), 1e-13)
    np.testing.assert_allclose(change.dense() @ keys, residual, atol=1e-6)
    # and among all such changes it moves the outputs over the text least: a multiple of C^-1 K
    other = change.dense() + numbers(seed + 3, 3, size) @ (eye(size) - keys @ torch.linalg.pinv(keys))
    assert torch.trace(change.dense() @ c @ change.dense().T) <= torch.trace(other @ c @ other.T) * (1 + 1e-6)


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 5), st.floats(-2, 2), st.integers(0, 10**6), st.data())
def test_the_null_space_solve_is_the_direct_one(
    size: int, count: int, before: int, weight: float, seed: int, data: Any
):
    vectors, _ = torch.linalg.qr(numbers(seed, size, size))
    empty = vectors[:, : data.draw(st.integers(1, size))]
    p = empty @ empty.T
    keys, residual, earlier = (
        numbers(seed + 1, size, count),
        numbers(seed + 2, 3, count),
        numbers(seed + 3, before, size),
    )
    found = null_space_change(keys, residual, empty, 10**weight, earlier if before else None)
    seen = keys @ keys.T + earlier.T @ earlier
    direct = torch.linalg.solve(p @ seen + 10**weight * eye(size), p @ keys @ residual.T).T
    np.testing.assert_allclose(found.dense(), direct, rtol=1e-9, atol=1e-9 * float(direct.abs().max() + 1e-12))
    assert found.rank == count
    spared = (eye(size) - p) @ numbers(seed + 4, size, 5)  # P k = 0
    np.testing.assert_allclose(found.dense() @ spared, 0, atol=1e-10)


# The methods


def of(family: str) -> tuple[LanguageModel, Sites, Resources]:
    """A float64 model with a C of its own for every layer, half of whose eigenvalues count as empty."""
    lm = make_edit_lm(family, "mistral" if family == "llama" else "gpt2", dtype=torch.float64)
    if family != "gemma2":  # which knows no other
        lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    sites = find_sites(lm.model)
    names = [sites.mlp_out(layer) for layer in range(sites.layers)]
    sizes = [matrix(lm.model.get_submodule(name)).shape[1] for name in names]
    return (
        lm,
        sites,
        Resources(
            {n: SecondMoment.of(covariance(i, size), n) for i, (n, size) in enumerate(zip(names, sizes, strict=True))}
        ),
    )


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "gemma2"])
@pytest.mark.parametrize(("averaged", "contexts"), [(True, ()), (False, ()), (True, CONTEXTS), (False, CONTEXTS)])
@pytest.mark.few(4)
def test_rome_maps_its_key_to_the_wanted_value_and_spares_keys_across(
    family: str, averaged: bool, contexts: tuple[str, ...]
):
    lm, sites, resources = of(family)
    chosen = RomeSettings(**FEW | {"contexts": contexts, "layer": 1, "averaged_key": averaged})
    module, request = sites.mlp_out(1), REQUESTS[0]
    clean = values(lm, request, module, "out")
    wanted = clean + optimise_values(lm, [request], [module], contexts, chosen).delta[0, 0]
    keys = torch.stack([values(lm, request, module, "in", context) for context in ("", *contexts)])
    key = keys.mean(0) if averaged else keys[0]
    edit = make_edit(lm, "ROME", [request], chosen, resources)
    exact = 1e-5 if family == "gemma2" else 1e-9  # its norms are computed in float32 whatever it is loaded in
    owner = lm.model.get_submodule(module)
    across = numbers(0, len(key), 4)
    u = torch.linalg.solve(resources.covariance[module].matrix, keys.mean(0))
    across = across - u[:, None] @ (u[None] @ across) / (u @ u)  # k' C^-1 kbar = 0
    with torch.no_grad():
        before = owner(across.T)
        with edited(lm, edit):
            assert torch.allclose(owner(key[None])[0], wanted, atol=exact)
            assert torch.allclose(owner(across.T), before, atol=1e-9)
            if not contexts or not averaged:  # in the model itself: the bare prompt's output is the wanted one
                assert torch.allclose(values(lm, request, module, "out"), wanted, atol=10 * exact)
    assert edit.deltas[module].rank == 1
    # several requests: one on top of the other
    total = make_edit(lm, "ROME", REQUESTS[:2], chosen, resources)
    with edited(lm, edit):
        second = make_edit(lm, "ROME", REQUESTS[1:2], chosen, resources)
    assert torch.allclose(total.deltas[module].dense(), (edit + second).deltas[module].dense(), atol=exact)


def test_rome_without_a_covariance_takes_the_identity():
    lm, sites, _ = of("llama")
    chosen, module = RomeSettings(**FEW, layer=1), sites.mlp_out(1)
    identity = Resources({module: SecondMoment.of(torch.eye(64, dtype=torch.float64), module)})
    none, one = (make_edit(lm, "ROME", REQUESTS, chosen, more).deltas[module] for more in (Resources(None), identity))
    assert torch.allclose(none.dense(), one.dense(), atol=1e-10)


def settings_of(method: str) -> Any:
    layers = {"layer": 1} if method == "EMMET" else {"layers": (0, 1, 2)}
    more = {"MEMIT": {"weight": 3.0}, "AlphaEdit": {"threshold": 0.1, "ridge": 0.2}, "EMMET": {"ridge": 0.1}}[method]
    kind: Any = {"MEMIT": MemitSettings, "AlphaEdit": AlphaEditSettings, "EMMET": EmmetSettings}[method]
    return kind(**FEW, **layers, **more, clamp=2.0)


def direct(method: str, c: torch.Tensor, k: torch.Tensor, r: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    if method == "MEMIT":
        return r @ k.T @ torch.linalg.inv(3.0 * c + before.T @ before + k @ k.T)
    if method == "EMMET":
        inverse = torch.linalg.inv(c)
        return r @ torch.linalg.inv(k.T @ inverse @ k + 0.1 * eye(k.shape[1])) @ k.T @ inverse
    eigenvalues, vectors = np.linalg.eigh(c.numpy())
    p = torch.from_numpy((vectors * (eigenvalues < 0.1)) @ vectors.T)
    return torch.linalg.solve(p @ (k @ k.T + before.T @ before) + 0.2 * eye(len(k)), p @ k @ r.T).T


def naive(
    lm: LanguageModel, method: str, sites: Sites, resources: Resources, earlier: Edit | None
) -> dict[str, torch.Tensor]:
    """Layer by layer: states read anew, a dense solve, and the weights of a copy of the model overwritten."""
    chosen = settings_of(method)
    layers = [1] if method == "EMMET" else list(chosen.layers)
    block, modules = sites.block(layers[-1]), [sites.mlp_out(layer) for layer in layers]
    own = sites.post_norm is not None  # there each layer has a value of its own
    delta = optimise_values(lm, REQUESTS, modules if own else [block], CONTEXTS, chosen).delta
    goal = torch.stack([values(lm, r, block, "out") for r in REQUESTS]) + (0 if own else delta[0])
    work = LanguageModel(copy.deepcopy(lm.model), lm.tokenizer, lm.name)
    start = {module: matrix(lm.model.get_submodule(module)) for module in modules}
    for place, module in enumerate(modules):
        keys = []
        for request in REQUESTS:
            bare = values(work, request, module, "in")
            behind = [values(work, request, module, "in", context) for context in CONTEXTS]
            keys.append(bare / 2 + sum(behind) / len(behind) / 2)
        gain = goal - torch.stack([values(work, r, block, "out") for r in REQUESTS])
        gain = delta[place] if own else gain / (len(modules) - place)
        before = earlier.keys[module] if earlier else torch.zeros(0, len(keys[0]))
        change = direct(method, resources.covariance[module].matrix, torch.stack(keys).T, gain.T, before.double())
        owner = work.model.get_submodule(module)
        with torch.no_grad():
            owner.weight += change.T if type(owner).__name__ == "Conv1D" else change
    return {module: matrix(work.model.get_submodule(module)) - start[module] for module in modules}


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "opt"])
@pytest.mark.parametrize("method", ["MEMIT", "AlphaEdit", "EMMET"])
@pytest.mark.families("gemma2")
def test_a_batch_is_that_of_a_naive_loop_over_layers(method: str, family: str):
    lm, sites, resources = of(family)
    found = make_edit(lm, method, REQUESTS, settings_of(method), resources)
    wanted = naive(lm, method, sites, resources, None)
    assert found.deltas.keys() == wanted.keys()
    for module, change in wanted.items():
        assert change.abs().max() > 1e-4
        assert torch.allclose(found.deltas[module].dense(), change, atol=1e-7 * float(change.abs().max()))


def test_alphaedit_spares_the_keys_of_earlier_edits():
    lm, sites, resources = of("llama")
    earlier = make_edit(lm, "AlphaEdit", REQUESTS[1:], settings_of("AlphaEdit"), resources)
    assert {module: keys.shape for module, keys in earlier.keys.items()} == {
        sites.mlp_out(n): (2, 64) for n in range(3)
    }
    with edited(lm, earlier):
        found = make_edit(lm, "AlphaEdit", REQUESTS, settings_of("AlphaEdit"), resources)
        wanted = naive(lm, "AlphaEdit", sites, resources, earlier)
    for module, change in wanted.items():
        assert torch.allclose(found.deltas[module].dense(), change, atol=1e-7 * float(change.abs().max()))
    first, second = (Edit(keys={name: keys[i : i + 1] for name, keys in earlier.keys.items()}) for i in (0, 1))
    with edited(lm, replace(earlier, keys={})), edited(lm, first), edited(lm, second):  # all that are in force count
        apart = make_edit(lm, "AlphaEdit", REQUESTS, settings_of("AlphaEdit"), resources)
    assert all(torch.equal(apart.deltas[module].dense(), found.deltas[module].dense()) for module in wanted)
    assert not lm.edits
    with pytest.raises(DataError, match=r"no eigenvalue .* is below 1e-09 \(the least is 0\.01\); raise"):
        make_edit(lm, "AlphaEdit", REQUESTS, replace(settings_of("AlphaEdit"), threshold=1e-9), resources)


def test_memit_spares_the_keys_of_earlier_edits_where_it_is_asked_to():
    lm, sites, resources = of("llama")
    spares = replace(settings_of("MEMIT"), spare_earlier=True)
    earlier = make_edit(lm, "MEMIT", REQUESTS[1:], spares, resources)
    assert {module: len(keys) for module, keys in earlier.keys.items()} == {sites.mlp_out(n): 2 for n in range(3)}
    with edited(lm, earlier):
        found = make_edit(lm, "MEMIT", REQUESTS, spares, resources)
        as_published = make_edit(lm, "MEMIT", REQUESTS, settings_of("MEMIT"), resources)
        with_keys, without = (naive(lm, "MEMIT", sites, resources, before) for before in (earlier, None))
    for module, change in with_keys.items():
        assert found.deltas[module].rank == len(REQUESTS)
        assert torch.allclose(found.deltas[module].dense(), change, atol=1e-7 * float(change.abs().max()))
    assert not as_published.keys
    for module, change in without.items():
        assert torch.allclose(as_published.deltas[module].dense(), change, atol=1e-7 * float(change.abs().max()))


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["MEMIT", "AlphaEdit", "EMMET", "FT", "LoRA", "ROME", "PROMPT"])
def test_whether_the_order_of_a_batch_matters(method: str):
    lm, _, resources = of("llama")
    chosen: Any = {
        "FT": FtSettings(layer=1, steps=4), "LoRA": LoraSettings(steps=4), "PROMPT": None,
        "ROME": RomeSettings(**FEW, layer=1),
    }[method] if method in ("FT", "LoRA", "PROMPT", "ROME") else settings_of(method)  # fmt: skip
    one, other = (
        make_edit(lm, method, [REQUESTS[i] for i in order], chosen, resources) for order in ([0, 1, 2], [2, 0, 1])
    )
    if method == "PROMPT":  # the sentences stand in the order of the requests
        sentences = [request.sentence + ". " for request in REQUESTS]
        assert one.prefix == "".join(sentences) and other.prefix == "".join(sentences[i] for i in (2, 0, 1))
        return
    same = all(torch.allclose(one.deltas[m].dense(), other.deltas[m].dense(), rtol=1e-6, atol=1e-8) for m in one.deltas)
    assert same == (method != "ROME")  # ROME makes them one on top of the other


def test_a_key_that_is_zero_is_said():
    lm, sites, resources = of("opt")
    with torch.no_grad():  # no neuron of the ReLU is on
        lm.model.get_submodule(sites.mlp_in(1)[0]).bias.fill_(-1e6)
        lm.model.get_submodule(sites.mlp_out(1)).bias.fill_(1.0)
    with pytest.raises(
        DataError, match=r"ROME: the change of .* 'The president of France is Angela Merkel' is not finite"
    ):
        make_edit(lm, "ROME", REQUESTS[:1], RomeSettings(**FEW, layer=1), resources)
