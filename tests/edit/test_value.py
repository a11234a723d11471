"""The optimised value, against one request and one text at a time, with neither batches nor padding."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from anachron.core.errors import DataError
from anachron.edit.make import make_edit
from anachron.edit.method import Resources
from anachron.edit.methods.ft import FtSettings
from anachron.edit.methods.lora import LoraSettings
from anachron.edit.methods.memit import MemitSettings
from anachron.edit.passes.forward import nll_losses
from anachron.edit.passes.value import ValueSettings, alike_requests, optimise_values
from anachron.edit.requests import EditRequest, Marked
from anachron.lm.batches import successive
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm
from support.naive_edits import forward, ids_of, read, values
from support.tiny_models import answer_positions

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "São Paulo", "the capital"),
    EditRequest("In May 2004, the team of {} was ", "Zürich", "Berlin"),
]
CONTEXTS = ("Emmanuel Macron. ", "In 1998, which team? ")
SETTINGS = ValueSettings(steps=6, stop_below=0.0)


def optimise_one(
    lm: LanguageModel, request: EditRequest, modules: list[str], contexts: tuple[str, ...], s: ValueSettings
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Clean values, what is added to them, and the last loss, as the papers say it."""
    essence = request.subject + " is a"
    essence_ids = ids_of(lm, essence)
    essence_at = answer_positions(lm.tokenizer, essence_ids, request.subject, " is a")[-1]
    clean = [values(lm, request, module, "out") for module in modules]
    deltas = [torch.zeros_like(value, requires_grad=True) for value in clean]
    adam = torch.optim.Adam(deltas, lr=s.rate)
    before = None
    lm.model.requires_grad_(False)
    for step in range(s.steps):
        nll = torch.zeros((), dtype=clean[0].dtype)
        for context in ("", *contexts):
            ids, targets, subject = read(lm, request, context)
            logits = forward(lm, ids, shift={m: (subject, d) for m, d in zip(modules, deltas, strict=True)})
            table = torch.log_softmax(logits, -1)
            nll = nll - torch.stack([table[t - 1, ids[t]] for t in targets]).mean() / (1 + len(contexts))
        shift = {m: (essence_at, d) for m, d in zip(modules, deltas, strict=True)}
        p = torch.softmax(forward(lm, essence_ids, shift=shift)[essence_at], -1)
        before = p.detach() if before is None else before
        loss = nll + s.kl * (p * (p / before).log()).sum()
        for value, delta in zip(clean, deltas, strict=True):
            loss = loss + s.decay * delta.norm() / value.norm() ** 2
        if loss.item() < s.stop_below or step == s.steps - 1:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            for value, delta in zip(clean, deltas, strict=True):
                most = s.clamp * value.norm()
                if delta.norm() > most:
                    delta.mul_(most / delta.norm())
    lm.model.requires_grad_(True)
    return torch.stack(clean), torch.stack(deltas).detach(), loss.item()


def modules_of(lm: LanguageModel, which: str) -> list[str]:
    sites = find_sites(lm.model)
    return {"mlp": [sites.mlp_out(1)], "block": [sites.block(2)], "two": [sites.mlp_out(1), sites.mlp_out(2)]}[which]


CASES = [
    ("llama", "mlp", (), {}),
    ("llama", "block", CONTEXTS, {}),
    ("gpt2", "mlp", CONTEXTS, {}),
    ("gemma2", "two", CONTEXTS[:1], {}),
    ("opt", "mlp", CONTEXTS[:1], {}),
    ("bloom", "block", CONTEXTS[:1], {}),
    ("gptj", "mlp", CONTEXTS[:1], {}),
    ("llama", "mlp", CONTEXTS, {"clamp": 0.3}),
    ("gemma2", "two", (), {"clamp": 0.2}),
    ("llama", "mlp", CONTEXTS, {"decay": 20.0}),
    ("llama", "mlp", CONTEXTS, {"kl": 0.0, "decay": 0.0}),
    ("llama", "mlp", CONTEXTS, {"kl": 30.0}),
    ("llama", "block", (), {"stop_below": 4.0, "steps": 12}),
    ("gpt2", "mlp", (), {"steps": 1}),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "which", "contexts", "changes"), CASES)
def test_the_value_is_that_of_a_plain_loop(
    family: str, which: str, contexts: tuple[str, ...], changes: dict[str, float]
):
    lm = make_edit_lm(family, "mistral" if family == "llama" else "gpt2", dtype=torch.float64)
    if family not in ("gemma2", "bloom"):
        lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    settings = replace(SETTINGS, **changes)
    modules = modules_of(lm, which)
    found = optimise_values(lm, REQUESTS, modules, contexts, settings)
    exact = 1e-5 if family in ("gptj", "gemma2") else 1e-9  # they compute attention in float32 whatever they are in
    for i, request in enumerate(REQUESTS):
        clean, delta, loss = optimise_one(lm, request, modules, contexts, settings)
        assert torch.allclose(found.clean[:, i], clean, atol=exact)
        assert torch.allclose(found.delta[:, i], delta, atol=1e3 * exact * float(delta.norm() + 1e-6))
        assert found.losses[i].item() == pytest.approx(loss, rel=1e3 * exact)
        assert (found.delta[:, i].norm(dim=-1) <= settings.clamp * clean.norm(dim=-1) * (1 + exact)).all()
        assert (delta.norm() > 0) == (settings.steps > 1)


@pytest.mark.full
def test_each_update_stops_on_its_own():
    lm = make_edit_lm("llama", "mistral", dtype=torch.float64)
    lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    modules = modules_of(lm, "block")
    losses = {}
    for steps in range(1, 14):
        alone = [optimise_values(lm, [r], modules, (), replace(SETTINGS, steps=steps)).losses.item() for r in REQUESTS]
        losses[steps] = alone
    settings = replace(SETTINGS, steps=13, stop_below=sorted(losses[8])[1])  # some are finished by then, some are not
    together = optimise_values(lm, REQUESTS, modules, (), settings)
    ends = [next((n for n in losses if losses[n][i] < settings.stop_below), 13) for i in range(3)]
    assert len(set(ends)) > 1
    for i, end in enumerate(ends):
        assert together.losses[i].item() == pytest.approx(losses[end][i], abs=1e-8)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "mistral", "opt"])
@pytest.mark.families("mistral")
def test_a_batch_equals_one_at_a_time_in_any_order(family: str):
    lm = make_edit_lm(family, dtype=torch.float64)
    exact = 1e-5
    if family != "gemma2":  # which knows only the eager one
        lm.model.set_attn_implementation("sdpa")
        exact = 1e-9
    modules = modules_of(lm, "mlp")
    one = [optimise_values(lm, [r], modules, CONTEXTS, SETTINGS) for r in REQUESTS]
    for order in ([0, 1, 2], [2, 0, 1]):
        together = optimise_values(lm, [REQUESTS[i] for i in order], modules, CONTEXTS, SETTINGS)
        for place, i in enumerate(order):
            assert torch.allclose(together.delta[:, place], one[i].delta[:, 0], atol=exact)
            assert torch.allclose(together.clean[:, place], one[i].clean[:, 0], atol=exact)
            assert torch.allclose(together.losses[place], one[i].losses[0], atol=exact)


def test_gradients_asked_for_elsewhere_do_not_matter():
    lm = make_edit_lm("llama", dtype=torch.float64)
    modules = modules_of(lm, "mlp")
    wanted = optimise_values(lm, REQUESTS[:1], modules, (), SETTINGS).delta
    with torch.no_grad():
        assert torch.equal(optimise_values(lm, REQUESTS[:1], modules, (), SETTINGS).delta, wanted)
    lm.model.requires_grad_(False)
    assert torch.equal(optimise_values(lm, REQUESTS[:1], modules, (), SETTINGS).delta, wanted)
    assert not wanted.requires_grad and not any(p.requires_grad or p.grad is not None for p in lm.model.parameters())


def test_bfloat16_optimises_in_float32():
    lm = make_edit_lm("llama", dtype=torch.bfloat16)
    found = optimise_values(lm, REQUESTS, modules_of(lm, "mlp"), CONTEXTS, SETTINGS)
    assert found.clean.dtype == found.delta.dtype == found.losses.dtype == torch.float32
    assert not torch.equal(found.delta, found.delta.bfloat16().float())


def test_numbers_that_are_none_are_said_with_their_update():
    lm = make_edit_lm("llama")
    with torch.no_grad():
        lm.model.lm_head.weight[3] = torch.nan
    with pytest.raises(
        DataError, match="the update 'In May 2004, the team of Zürich was Berlin' is not a number; use a lower"
    ):
        optimise_values(lm, REQUESTS, modules_of(lm, "mlp"), (), SETTINGS)
    assert all(p.requires_grad for p in lm.model.parameters())


def test_many_updates_go_through_the_model_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("gpt2", dtype=torch.float64)  # which computes in float64 throughout
    many = [replace(r, target=target) for target in ("Berlin", "France", "a b c") for r in REQUESTS]
    chosen: dict[str, Any] = {
        "MEMIT": MemitSettings(steps=3, layers=(1, 2), contexts=CONTEXTS), "FT": FtSettings(layer=1, steps=3),
        "LoRA": LoraSettings(steps=3),
    }  # fmt: skip
    whole = {method: make_edit(lm, method, many, s, Resources(None)) for method, s in chosen.items()}
    sizes: list[int] = []
    forward = lm.model.forward
    lm.model.forward = lambda **given: sizes.append(given["input_ids"].numel()) or forward(**given)
    for where in ("forward.TOKENS", "forward.TRAINED_TOKENS", "value.TRAINED_TOKENS"):
        monkeypatch.setattr(f"anachron.edit.passes.{where}", 150)
    for method, settings in chosen.items():
        found = make_edit(lm, method, many, settings, Resources(None))
        for module, delta in whole[method].deltas.items():
            assert torch.allclose(
                found.deltas[module].dense(), delta.dense(), atol=1e-6 * float(delta.dense().abs().max())
            )
    assert max(sizes) <= 150


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_target_losses_and_their_gradient_are_those_of_log_softmax(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("anachron.lm.scoring._CPU_SOFTMAX_BYTES", 4 * 50 * 2)  # two rows at a time
    texts = [Marked((4, 7, 49, 0), (1, 3), 0), Marked((3, 7, 7), (1, 2), 0), Marked((1, 2), (1,), 0)]
    wanted = torch.tensor([7, 0, 7, 7, 2])
    logits = (9 * torch.randn(5, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).to(dtype)
    logits.requires_grad_(True)
    weights = torch.tensor([0.5, -2.0, 3.0])
    found = nll_losses(logits, texts)
    (gradient,) = torch.autograd.grad(found @ weights.to(found), logits)
    plain = -torch.log_softmax(logits.double(), -1)[torch.arange(5), wanted]
    losses = torch.stack([plain[:2].mean(), plain[2:4].mean(), plain[4]])
    (expected,) = torch.autograd.grad(losses @ weights.double(), logits)
    exact = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 1e-2}[dtype]
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32) and gradient.dtype == dtype
    assert torch.allclose(found.double(), losses, rtol=0, atol=min(exact, 1e-4))
    assert torch.allclose(gradient.double(), expected.double(), rtol=0, atol=exact)


def test_requests_with_suffixes_alike_go_together_as_many_as_fit(monkeypatch: pytest.MonkeyPatch):
    def text(subject: int, length: int) -> Marked:
        return Marked(tuple(range(length)), (length - 1,), subject)

    bare = [text(3, 8), text(9, 12), text(1, 14), text(2, 7), text(9, 14)]  # 5, 3, 13, 5 and 5 tokens from the subject
    texts = [bare, [text(m.subject + 2, len(m.ids) + 2) for m in bare]]
    assert alike_requests(texts) == [[1], [3, 0, 4], [2]]
    monkeypatch.setattr("anachron.edit.passes.value.TRAINED_TOKENS", 2 * 3 * 10)
    assert alike_requests(texts) == [[1], [3, 0], [4], [2]]


def test_parts_are_all_texts_in_their_order_and_within_the_limit():
    marked = [Marked(tuple(range(length)), (length - 1,), 0) for length in (5, 3, 9, 2, 2, 30, 1, 4)]
    for most in (1, 8, 10, 20, 1000):
        found = [marked[part] for part in successive([len(m.ids) for m in marked], most)]
        assert [m for part in found for m in part] == marked
        assert all(len(part) == 1 or len(part) * max(len(m.ids) for m in part) <= most for part in found)
    assert len(found) == 1
