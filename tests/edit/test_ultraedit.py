"""UltraEdit against its formulas written as a plain loop, and numbers worked out by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Edit, LowRank, edited
from anachron.edit.carried.moments import Moments
from anachron.edit.make import make_edit
from anachron.edit.methods.ultraedit import UltraEditSettings, edit_of, ridge_regression
from anachron.edit.passes.gradients import Factors
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm
from support.naive_edits import matrix, read

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "Zürich", "Paris"),
    EditRequest("In May 2004, the team of {} was", "São Paulo", "Berlin"),
]
CHOSEN: dict[str, dict[str, Any]] = {
    "gpt2": {"layers": (1, 2), "up_layers": (1,)},
    "llama": {"layers": (2,), "gate_layers": (1, 2), "up_layers": (1,)},
}
MODULES = {
    "gpt2": ["transformer.h.1.mlp.c_fc", "transformer.h.1.mlp.c_proj", "transformer.h.2.mlp.c_proj"],
    "llama": [f"model.layers.{name}_proj" for name in ("1.mlp.gate", "2.mlp.gate", "1.mlp.up", "2.mlp.down")],
}


def exact_lm(family: str) -> LanguageModel:
    lm = make_edit_lm(family, dtype=torch.float64)
    lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    return lm


def seen(
    lm: LanguageModel, requests: list[EditRequest], modules: list[str], which: str
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Of each module the inputs and the gradients of the mean loss over all target tokens: of every token but the last
    of each text, or of those that stand before a token of the target; one text at a time.
    """
    total = sum(len(read(lm, request)[1]) for request in requests)
    found: dict[str, tuple[list[Any], list[Any]]] = {name: ([], []) for name in modules}
    for request in requests:
        ids, targets, _ = read(lm, request)
        held: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

        def keep(name: str, held: dict[str, Any] = held) -> Any:
            def hook(_: Any, given: Any, output: torch.Tensor) -> torch.Tensor:
                output = output.detach().requires_grad_(True) if not output.requires_grad else output
                output.retain_grad()
                held[name] = (given[0].detach().reshape(-1, given[0].shape[-1]), output)
                return output

            return hook

        handles = [lm.model.get_submodule(name).register_forward_hook(keep(name)) for name in modules]
        table = torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0], -1)
        for handle in handles:
            handle.remove()
        (-torch.stack([table[t - 1, ids[t]] for t in targets]).sum() / total).backward()
        lm.model.zero_grad()
        for name, (x, output) in held.items():
            assert output.grad is not None
            gradient = output.grad.reshape(len(ids), -1)
            for place in range(len(ids) - 1):
                if which == "all" or place + 1 in targets:
                    found[name][0].append(x[place].numpy())
                    found[name][1].append(gradient[place].numpy())
    return found


def naive(lm: LanguageModel, turns: list[list[list[EditRequest]]], family: str, settings: Any) -> dict[str, np.ndarray]:
    """The change of each weight by the last turn; each turn is made on top of the ones before, batch by batch.

    Statistics are over the tokens of all turns and of all modules of one shape.
    """
    total = Edit()
    everything: dict[tuple[int, ...], list[np.ndarray]] = {}
    for turn in turns:
        x: dict[str, list[Any]] = {name: [] for name in MODULES[family]}
        g: dict[str, list[Any]] = {name: [] for name in MODULES[family]}
        with edited(lm, total, check=False):
            for batch in turn:
                for name, (inputs, gradients) in seen(lm, batch, MODULES[family], settings.tokens).items():
                    x[name] += inputs
                    g[name] += gradients
        for name in x:
            shape = matrix(lm.model.get_submodule(name)).shape
            everything.setdefault(tuple(shape), []).extend(
                np.concatenate([a, b]) for a, b in zip(x[name], g[name], strict=True)
            )
        changes = {}
        for name in x:
            tokens = np.array(everything[tuple(matrix(lm.model.get_submodule(name)).shape)])
            mean, deviation = tokens.mean(0), tokens.std(0, ddof=1)
            left, right = np.zeros((len(x[name][0]),) * 2), np.zeros((len(x[name][0]), len(g[name][0])))
            for a, b in zip(x[name], g[name], strict=True):
                z = (np.concatenate([a, b]) - mean) / (deviation + np.finfo(np.float32).eps)
                h, gradient = z[: len(a)], z[len(a) :]
                v = -settings.rate * float(h @ h) * gradient
                left += np.outer(a, a)
                right += np.outer(a, v)
            changes[name] = np.linalg.solve(left + settings.ridge * np.eye(len(left)), right).T
        total = total + Edit(
            {name: LowRank(torch.tensor(c), torch.eye(c.shape[1], dtype=torch.float64)) for name, c in changes.items()}
        )
    return changes


def in_batches(lm: LanguageModel, requests: list[EditRequest], size: int) -> list[list[EditRequest]]:
    """As the authors cut a turn: the longest texts first, as many at a time."""
    left = list(requests)
    left.sort(key=lambda request: len(read(lm, request)[0]), reverse=True)
    return [left[first : first + size] for first in range(0, len(left), size)]


@pytest.mark.parametrize("tokens", ["answer", "all"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.families("gpt2")
def test_the_formulas_in_a_plain_loop(family: str, tokens: str):
    lm = exact_lm(family)
    settings = UltraEditSettings(**CHOSEN[family], rate=1e-2, batch=2, ridge=0.5, tokens=tokens)
    before = lm.fingerprint()
    first = make_edit(lm, "UltraEdit", REQUESTS, settings)
    with edited(lm, first):
        second = make_edit(lm, "UltraEdit", REQUESTS[1:], settings)
    with edited(lm, replace(first, statistics={})):
        alone = make_edit(lm, "UltraEdit", REQUESTS[1:], settings)
    assert lm.fingerprint() == before and first.about["rate"] == 1e-2
    turn = in_batches(lm, REQUESTS, 2)
    assert [len(batch) for batch in turn] == [2, 1] and turn != [REQUESTS[:2], REQUESTS[2:]]
    wanted = naive(lm, [turn], family, settings)
    assert list(first.deltas) == MODULES[family]
    for name, delta in first.deltas.items():
        np.testing.assert_allclose(delta.dense().numpy(), wanted[name], rtol=0, atol=1e-6 * np.abs(wanted[name]).max())
    on_top = naive(lm, [turn, in_batches(lm, REQUESTS[1:], 2)], family, settings)
    for name, delta in second.deltas.items():
        largest = np.abs(on_top[name]).max()
        np.testing.assert_allclose(delta.dense().numpy(), on_top[name], rtol=0, atol=1e-6 * largest)
        assert np.abs(alone.deltas[name].dense().numpy() - on_top[name]).max() > 1e-2 * largest  # other statistics


@pytest.mark.parametrize(("tokens", "off"), [("all", 0.01), ("answer", 0.1)])
def test_a_rate_that_is_not_given_lowers_the_loss_by_the_gain_to_first_order(tokens: str, off: float):
    """Against the loss itself, before and after so small an edit that it is linear: the mean over batches of the mean
    over their target tokens.

    off: of ``answer``, what the edit changes at other tokens than those comes on top.
    """
    lm = exact_lm("llama")
    gain, turn = 1e-4, in_batches(lm, REQUESTS, 2)
    settings = UltraEditSettings(**CHOSEN["llama"], rate=None, gain=gain, batch=2, ridge=1e-9, tokens=tokens)

    def loss() -> float:
        of_batches = []
        for batch in turn:
            texts = [read(lm, request) for request in batch]
            tables = [torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0], -1) for ids, *_ in texts]
            said = [
                table[t - 1, ids[t]] for table, (ids, targets, _) in zip(tables, texts, strict=True) for t in targets
            ]
            of_batches.append(-torch.stack(said).mean().item())
        return float(np.mean(of_batches))

    before, edit = loss(), make_edit(lm, "UltraEdit", REQUESTS, settings)
    with edited(lm, edit):
        assert before - loss() == pytest.approx(gain, rel=off)
    double = make_edit(lm, "UltraEdit", REQUESTS, replace(settings, gain=2 * gain))
    assert double.about["rate"] == pytest.approx(2 * edit.about["rate"], rel=1e-9)
    given = make_edit(lm, "UltraEdit", REQUESTS, replace(settings, rate=edit.about["rate"]))
    for name, delta in given.deltas.items():
        assert torch.equal(delta.dense(), edit.deltas[name].dense())


def test_numbers_worked_out_by_hand():
    """Two tokens: h is (1, 0) and (0, 2), g is 1 and 3. Normalised, every component is 1/sqrt 2 or its negative, |h^|^2
    is 1, so v is rate / sqrt 2 and its negative; h h' + I is diag(2, 5), so dW is (v/2, -2 v/5).
    """
    tokens = Factors(
        torch.tensor([[1.0, 0.0], [0.0, 2.0]]).double(), torch.tensor([[1.0], [3.0]]).double(), torch.zeros(2)
    )
    edit = edit_of(exact_lm("gpt2"), {"m": tokens}, {}, UltraEditSettings(rate=0.1))
    v = 0.1 / math.sqrt(2)
    assert edit.deltas["m"].dense()[0].tolist() == pytest.approx([v / 2, -2 * v / 5], rel=1e-6)
    statistics = edit.statistics["2x1"]
    assert statistics.mean.tolist() == [0.5, 1, 2] and statistics.squares.tolist() == [0.5, 2, 2]


def test_one_token_alone_is_refused():
    token = Factors(torch.ones(1, 2).double(), torch.ones(1, 1).double(), torch.zeros(1))
    with pytest.raises(DataError, match=r"one token alone has no deviation .* UltraEdit.tokens=all"):
        edit_of(exact_lm("gpt2"), {"m": token}, {}, UltraEditSettings())
    same = Factors(torch.ones(2, 2).double(), torch.zeros(2, 1).double(), torch.zeros(2))
    with pytest.raises(DataError, match="no rate lowers the loss"):
        edit_of(exact_lm("gpt2"), {"m": same}, {}, UltraEditSettings(rate=None))


def test_a_component_that_never_varied_counts_nothing():
    x = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    found = Moments.of(x).normalised(x, 0.0)
    assert found[:, 0].tolist() == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)]) and found[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize("tokens", [3, 40])
def test_the_least_squares_is_the_same_by_tokens_and_by_inputs(tokens: int):
    random = torch.Generator().manual_seed(tokens)
    x, v = (torch.randn(tokens, n, generator=random, dtype=torch.float64) for n in (8, 6))
    found = ridge_regression(x, v, 0.3, torch.float64)
    assert isinstance(found, LowRank) == (tokens == 3)
    wanted = np.linalg.lstsq(  # a ridge is as good as further rows
        np.vstack([x.numpy(), math.sqrt(0.3) * np.eye(8)]), np.vstack([v.numpy(), np.zeros((8, 6))]), rcond=None
    )[0]
    np.testing.assert_allclose(found.dense().numpy(), wanted.T, atol=1e-12)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 10**6))
def test_statistics_of_parts_are_those_of_the_whole(sizes: list[int], seed: int):
    random = np.random.default_rng(seed)
    parts = [random.normal(3, 2, (size, 4)) for size in sizes]
    moments = [Moments.of(torch.tensor(part)) for part in parts]
    total = moments[0]
    for more in moments[1:]:
        total = total + more
    whole = np.concatenate(parts)
    np.testing.assert_allclose(total.mean, whole.mean(0), atol=1e-12)
    np.testing.assert_allclose(total.squares, ((whole - whole.mean(0)) ** 2).sum(0), atol=1e-10)
    left = total - moments[0]
    assert (left is None) == (len(parts) == 1)
    if left is not None:
        rest = np.concatenate(parts[1:])
        np.testing.assert_allclose(left.mean, rest.mean(0), atol=1e-10)
        np.testing.assert_allclose(left.squares, ((rest - rest.mean(0)) ** 2).sum(0), atol=1e-9)
    back = Moments.of_tensor(total.tensor())
    assert back.count == total.count and torch.equal(back.mean, total.mean) and torch.equal(back.squares, total.squares)


def test_what_cannot_be_edited_is_said():
    lm = make_edit_lm("gpt2")
    with pytest.raises(ConfigError, match=r"UltraEdit.gate_layers \[1\]: the model's MLPs have no gate"):
        make_edit(lm, "UltraEdit", REQUESTS, UltraEditSettings(layers=(), gate_layers=(1,)))
    for layers in ((), (1, 1)):
        with pytest.raises(ConfigError, match="give one or more different layers"):
            make_edit(lm, "UltraEdit", REQUESTS, UltraEditSettings(layers=layers))
    with pytest.raises(ConfigError, match="layer 9: the model has 4 layers"):
        make_edit(lm, "UltraEdit", REQUESTS, UltraEditSettings(layers=(9,)))
    with pytest.raises(ConfigError, match=r"UltraEdit.tokens 'prompt' must be answer or all"):
        UltraEditSettings(tokens="prompt")
    few, more = (Moments.of(torch.ones(count, 2)) for count in (2, 3))
    with pytest.raises(ConfigError, match="statistics of 3 tokens cannot be taken out of those of 2"):
        few - more
