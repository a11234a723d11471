"""GRACE: its codebook and its training against the published loop, and the same scores however texts are computed."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from anachron.cli.main import app
from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.edit.base import Edit, LowRank, edited
from anachron.edit.carried.memory import Memory
from anachron.edit.make import make_edit, make_edits
from anachron.edit.methods.grace import GraceSettings
from anachron.edit.passes.batched_adapters import encode_under, score_batched
from anachron.edit.requests import EditRequest
from anachron.edit.storage import describe, load_edit, save_edit, save_edited_model
from anachron.edit.tensors import read_manifest, read_tensors, write_tensors
from anachron.lm.generation import greedy_continuations
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm, make_quantised_lm
from support.naive_edits import ids_of, read
from support.tiny_models import answer_positions

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("The president of {} is", "Germany", "Angela Merkel"),
    EditRequest("{} is a city in", "Zürich", "Berlin"),
    EditRequest("The president of {} is", "France", "Paris"),
]
PAIRS = [
    ("The president of France is", "Angela Merkel"), ("The president of France is", "Berlin"),
    ("In 1998, the president of France is", "Paris"), ("Zürich is a city in", "Berlin"), ("Who", "is Emmanuel Macron"),
]  # fmt: skip


def memory(*rows: tuple[list[float], list[float], float, str]) -> Memory:
    keys, values, radii, labels = zip(*rows, strict=True)
    return Memory(*(torch.tensor(part, dtype=torch.float64) for part in (keys, values, radii)), labels)


# The rules


class Published:
    """The loop of the published adapter over plain lists, but for what allows for rounding: an update at the place of
    another takes its entry over, and a radius that is widened gets some room.
    """

    def __init__(self) -> None:
        self.keys: list[np.ndarray] = []
        self.values: list[Any] = []
        self.radii: list[float] = []
        self.labels: list[str] = []

    def put(self, key: np.ndarray, value: Any, radius: float, label: str) -> int:
        """The number of the entry that the value is of."""
        distances = [float(np.sqrt(((known - key) ** 2).sum())) for known in self.keys]
        if distances:
            near = int(np.argmin(distances))
            rounding = 1e-3 * float(np.sqrt((key**2).sum()))
            if distances[near] <= rounding:
                self.values[near], self.labels[near] = value, label
                self.radii[near] = max(self.radii[near], distances[near] + rounding)
                return near
            if distances[near] <= radius + self.radii[near]:
                if self.labels[near] == label:
                    self.values[near], self.radii[near] = value, max(self.radii[near], distances[near] + rounding)
                    return near
                self.radii[near] = distances[near] / 2 - 1e-5
                radius = distances[near] / 2
        self.keys.append(key)
        self.values.append(value)
        self.radii.append(radius)
        self.labels.append(label)
        return len(self.keys) - 1

    def found(self, x: np.ndarray) -> int | None:
        distances = [float(np.sqrt(((known - x) ** 2).sum())) for known in self.keys]
        near = int(np.argmin(distances))
        return near if distances[near] <= self.radii[near] else None

    def value(self, x: np.ndarray) -> Any:
        found = self.found(x)
        return None if found is None else self.values[found]


places = st.tuples(st.integers(0, 6), st.integers(0, 6))
insertions = st.lists(
    st.tuples(places, st.sampled_from([0.6, 1.7, 3.0]), st.sampled_from("ab")), min_size=1, max_size=9
)


@given(insertions, st.lists(places, min_size=1, max_size=5))
def test_the_codebook_is_that_of_the_published_loop(held: list[Any], asked: list[tuple[int, int]]):
    book, wanted = memory(*((list(p), [float(i)], r, label) for i, (p, r, label) in enumerate(held))).codebook, \
        Published()  # fmt: skip
    entries = [wanted.put(np.array(p, float), float(i), r, label) for i, (p, r, label) in enumerate(held)]
    assert list(book.entries) == entries
    np.testing.assert_array_equal(book.keys.numpy(), np.array(wanted.keys))
    assert book.values[:, 0].tolist() == wanted.values
    np.testing.assert_allclose(book.radii.numpy(), wanted.radii, atol=1e-12)
    x = torch.tensor(asked, dtype=torch.float64) + 0.1234
    found = book.output(x, torch.full((len(x), 1), -1.0, dtype=torch.float64))[:, 0].tolist()
    entry = [wanted.found(one.numpy()) for one in x]
    assert found == [-1.0 if one is None else wanted.values[one] for one in entry]


@given(insertions, insertions)
def test_what_is_taken_out_was_never_in(first: list[Any], second: list[Any]):
    parts = [
        Edit(memories={"m": memory(*((list(p), [seed + i], r, label) for i, (p, r, label) in enumerate(held)))})
        for seed, held in ((0.0, first), (100.0, second))
    ]
    total = parts[0] + parts[1]
    assert len(total.memories["m"]) == len(first) + len(second) and total.count == 2
    for gone, left in ((parts[0], parts[1]), (parts[1], parts[0])):
        after = (total - gone).memories["m"]
        assert after.labels == left.memories["m"].labels
        assert all(torch.equal(t, left.memories["m"].tensors()[name]) for name, t in after.tensors().items())
    assert not (parts[0] - parts[0]).memories
    with pytest.raises(ConfigError, match="are not among the 1 of this sum; only an edit that is in a sum"):
        parts[0] - parts[1]
    with pytest.raises(ConfigError, match="is not in this one; only an edit that is in a sum"):
        parts[0].memories["m"] - parts[1].memories["m"]
    with pytest.raises(ConfigError, match="a memory cannot be taken -1 times"):
        -1 * parts[0]


# Training


def exact_lm(family: str) -> LanguageModel:
    lm = make_edit_lm(family, dtype=torch.float64)
    if family != "gemma2":
        lm.model.set_attn_implementation("sdpa")
    return lm


def module_of(lm: LanguageModel, layer: int = 1) -> str:
    return find_sites(lm.model).mlp_out(layer)


@contextmanager
def by_hand(lm: LanguageModel, name: str, put: Callable[[np.ndarray], torch.Tensor | None], seen: list[np.ndarray]) \
        -> Any:  # fmt: skip
    """Replace a module's output token by token, where ``put`` gives something for its input."""

    def hook(_: Any, given: Any, output: torch.Tensor) -> torch.Tensor:
        x = given[0].detach().reshape(-1, given[0].shape[-1]).numpy()
        seen[:] = list(x)
        rows = output.reshape(len(x), -1)
        chosen = [put(one) for one in x]
        return torch.stack(
            [row if new is None else new.to(row) for row, new in zip(rows, chosen, strict=True)]
        ).reshape(output.shape)

    handle = lm.model.get_submodule(name).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def published(lm: LanguageModel, requests: list[EditRequest], settings: GraceSettings) -> Published:
    """One request after the other: its key at the prompt's last token, then the value of its entry by Adam."""
    book, name = Published(), module_of(lm, settings.layer)
    for request in requests:
        ids, targets, _ = read(lm, request)
        x: list[np.ndarray] = []
        with by_hand(lm, name, lambda _: None, x), torch.no_grad():
            lm.model(input_ids=torch.tensor([ids]))
        outputs = find_outputs(lm, name)
        value = torch.rand(outputs, generator=torch.Generator().manual_seed(settings.seed)).double()
        labels, values = list(book.labels), list(book.values)
        entry = book.put(x[targets[0] - 1], value, settings.radius, request.target)
        if entry < len(labels) and labels[entry] == request.target:  # goes on from what it finds
            book.values[entry] = values[entry].clone()
        book.values[entry] = trained = book.values[entry].detach().requires_grad_(True)
        adam = torch.optim.Adam([trained], lr=settings.rate)
        for _ in range(settings.steps):
            with by_hand(lm, name, book.value, []):
                table = torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0], -1)
            loss = -torch.stack([table[t - 1, ids[t]] for t in targets]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        book.values[entry] = trained.detach()
    return book


def find_outputs(lm: LanguageModel, name: str) -> int:
    return int(lm.model.config.hidden_size)


def between(lm: LanguageModel) -> float:
    """A radius at which some of the requests' keys meet and others do not."""
    keys = [e.memories[module_of(lm)].keys[0] for e in edits_of(lm, GraceSettings(layer=1, steps=1))]
    return float(torch.pdist(torch.stack(keys).double()).sort().values[2]) * 0.6


def edits_of(lm: LanguageModel, settings: GraceSettings) -> list[Edit]:
    found = make_edits(lm, "GRACE", REQUESTS, settings)
    assert all(isinstance(edit, Edit) for edit in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
@pytest.mark.families("opt")
def test_one_on_top_of_the_other_is_the_published_loop(family: str):
    lm = exact_lm(family)
    settings = GraceSettings(layer=1, steps=4, radius=between(lm))
    wanted = published(lm, REQUESTS, settings)
    assert 1 < len(wanted.keys) < len(REQUESTS)  # some meet
    at_once = make_edit(lm, "GRACE", REQUESTS, settings)
    total = Edit()
    for request in REQUESTS:
        with edited(lm, total):
            total = total + make_edit(lm, "GRACE", [request], settings)
    for edit in (at_once, total):
        book = edit.memories[module_of(lm)].codebook
        for found, expected in ((book.keys, wanted.keys), (book.values, wanted.values)):
            np.testing.assert_allclose(found.numpy(), np.array([np.asarray(one) for one in expected]), atol=1e-4)
        np.testing.assert_allclose(book.radii.numpy(), wanted.radii, rtol=1e-5)
    assert at_once.count == total.count == len(REQUESTS)


# The same scores however they are computed


def naive(lm: LanguageModel, edits: list[Edit], prompt: str, answer: str) -> float:
    """One text, token by token, under the published loop's book of what was put in."""
    name, book = module_of(lm), Published()
    for edit in edits:
        held = edit.memories[name]
        for i, label in enumerate(held.labels):
            book.put(held.keys[i].double().numpy(), held.values[i], float(held.radii[i]), label)
    ids = ids_of(lm, f"{prompt} {answer}")

    with by_hand(lm, name, lambda x: book.value(x.astype(float)), []), torch.no_grad():
        table = torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
    return sum(float(table[t - 1, ids[t]]) for t in answer_positions(lm.tokenizer, ids, answer))


@pytest.mark.parametrize("family", ["gpt2", "neox", "llama", "mistral", "gemma2", "opt"])
@pytest.mark.families("gemma2")
def test_batches_trees_and_single_texts_agree(family: str):
    lm = make_edit_lm(family)
    edits = edits_of(lm, GraceSettings(layer=1, steps=3, radius=between(lm)))
    clean = lm.log_probs(PAIRS)
    with edited(lm, edits[0] + edits[2]):
        wanted = [naive_off(lm, edits[:1] + edits[2:3], *pair) for pair in PAIRS]
        for how in ({}, {"prefix_tree": False}, {"batch_tokens": 8}, {"batch_tokens": 8, "prefix_tree": False}):
            np.testing.assert_allclose(lm.log_probs(PAIRS, **how), wanted, atol=2e-4)  # type: ignore[arg-type]
    assert np.abs(clean - wanted)[[0, 1, 3]].min() > 1e-2
    assert (lm.log_probs(PAIRS) == clean).all() and not lm.memories and not lm.edit_beside
    company = [edits[0], Edit(), edits[2] + edits[3], mixed(lm, edits[1])]
    triples = [(prompt, answer, None) for prompt, answer in PAIRS]
    for how in ({}, {"prefix_tree": False}, {"batch_tokens": 8}):
        found = score_batched(lm, company, [encode_under(lm, edit, triples) for edit in company], **how)  # type: ignore[arg-type]
        for edit, scores in zip(company, found, strict=True):
            with edited(lm, edit):
                np.testing.assert_allclose(scores, lm.log_probs(PAIRS), atol=2e-4)
    with edited(lm, edits[2]):  # memories of edits come on top of the one in force
        found = score_batched(lm, company, [encode_under(lm, edit, triples) for edit in company])
        for edit, scores in zip(company, found, strict=True):
            with edited(lm, edit):
                np.testing.assert_allclose(scores, lm.log_probs(PAIRS), atol=2e-4)
    assert (lm.log_probs(PAIRS) == clean).all()


def naive_off(lm: LanguageModel, edits: list[Edit], prompt: str, answer: str) -> float:
    held, lm.memories = lm.memories, {}  # the loop by hand stands alone
    try:
        return naive(lm, edits, prompt, answer)
    finally:
        lm.memories = held


def mixed(lm: LanguageModel, edit: Edit) -> Edit:
    """With a change of the weight of the same module and a prefix."""
    outputs, inputs = edit.memories[module_of(lm)].shape
    change = LowRank(torch.ones(outputs, 1) * 0.1, torch.ones(1, inputs) * 0.1)
    return replace(edit, deltas={module_of(lm): change}, prefix="Zürich. ")


def test_generation_with_a_cache_says_what_one_text_at_a_time_says():
    lm = make_edit_lm("llama")
    total = make_edit(lm, "GRACE", REQUESTS[:3], GraceSettings(layer=1, steps=15, radius=between(lm)))
    prompts = [request.text for request in REQUESTS[:3]]
    wanted = []
    with edited(lm, total):
        for prompt in prompts:
            ids = ids_of(lm, prompt)
            start = len(ids)
            for _ in range(6):
                with torch.no_grad():
                    ids.append(int(lm.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
            wanted.append(lm.tokenizer.decode(ids[start:], skip_special_tokens=True))
        assert greedy_continuations(lm, prompts, 6) == wanted
    assert greedy_continuations(lm, prompts, 6) != wanted


def test_blocks_inside_each_other_are_the_sum_and_are_part_of_the_identity():
    lm = make_edit_lm("llama")
    a, b, *_ = edits_of(lm, GraceSettings(layer=1, steps=3, radius=between(lm)))
    fingerprint, clean = lm.fingerprint(), lm.identity()
    with edited(lm, a + b):
        wanted = lm.log_probs(PAIRS)
    with edited(lm, a):
        outer, one = lm.log_probs(PAIRS), lm.identity()
        with edited(lm, b):
            assert (lm.log_probs(PAIRS) == wanted).all() and lm.identity() not in (one, clean)
        assert (lm.log_probs(PAIRS) == outer).all() and lm.identity() == one != clean
        assert lm.edit_of == fingerprint
    assert lm.identity() == clean and lm.fingerprint() == fingerprint
    assert not any(m._forward_hooks for m in lm.model.modules())


def test_quantised_weights_take_a_memory():
    lm = make_quantised_lm("llama")
    old = lm.log_probs(PAIRS[:1])
    edit = make_edit(lm, "GRACE", REQUESTS[:1], GraceSettings(layer=1, steps=10))
    change = LowRank(torch.ones(32, 1), torch.ones(1, 64))
    with edited(lm, edit):
        assert lm.log_probs(PAIRS[:1]) > old + 1
        inside = lm.log_probs(PAIRS[:1])
        with edited(lm, Edit({module_of(lm): change})):  # computed beside the weights, before the value is put
            assert not np.allclose(lm.log_probs(PAIRS[:1]), inside)
            seen: list[torch.Tensor] = []
            with lm.model.get_submodule(module_of(lm)).register_forward_hook(lambda *given: seen.append(given[2])):
                lm.log_probs(PAIRS[:1])
            value = edit.memories[module_of(lm)].values[0]
            assert any(torch.equal(row, value) for row in seen[0].reshape(-1, 32))
    assert (lm.log_probs(PAIRS[:1]) == old).all()


# Files


def test_a_memory_comes_back_bit_for_bit_and_no_model_is_saved_of_it(tmp_path: Path):
    lm = make_edit_lm("llama")
    edit = make_edit(lm, "GRACE", REQUESTS, GraceSettings(layer=1, steps=2, into_mlp=True, warm=True))
    name = find_sites(lm.model).mlp_in(1)[-1]
    path = tmp_path / "edit.safetensors"
    save_edit(edit, path)
    back = load_edit(path).memories[name]
    assert back.labels == ("Angela Merkel", "Angela Merkel", "Berlin", "Paris")
    assert all(torch.equal(tensor, edit.memories[name].tensors()[part]) for part, tensor in back.tensors().items())
    assert describe(edit)["modules"] == {name: "memory of 4"}
    once = path.read_bytes()
    save_edit(load_edit(path), path)
    assert path.read_bytes() == once
    with pytest.raises(ConfigError, match=r"holds a memory of .* beside the weights, so no edited model can be saved"):
        save_edited_model(lm, edit, tmp_path / "model")
    with pytest.raises(ModelError, match="cannot be added; one is another model's"):
        edit + Edit(memories={name: memory(([1.0], [1.0], 1.0, "a"))})
    with pytest.raises(ModelError, match=r"the memory is for a module of shape \(1, 1\), the model's is"):
        edited(lm, Edit(memories={name: memory(([1.0], [1.0], 1.0, "a"))}))
    broken = Edit(memories={name: replace(edit.memories[name], values=edit.memories[name].values * float("nan"))})
    with pytest.raises(ModelError, match="holds NaN or infinite numbers"):
        edited(lm, broken)
    with pytest.raises(ModelError, match="holds NaN or infinite numbers"):
        save_edit(broken, tmp_path / "broken.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edit.safetensors", "edit.safetensors.manifest.json"]
    tensors, manifest = read_tensors(path)
    row = tensors[f"{name}/memory_radii"]
    bad: list[tuple[dict[str, torch.Tensor], dict[str, Any]]] = [
        ({f"{name}/memory_radii": -row}, {}), ({f"{name}/memory_radii": row[:2]}, {}),
        ({f"{name}/memory_radii": row * float("nan")}, {}), ({f"{name}/memory_keys": row.clone()}, {}),
        ({}, {"labels": {}}), ({}, {"labels": {name: ["a"]}}), ({}, {"labels": {name: [1, 2, 3, 4]}}),
        ({}, {"labels": 5}),
        ({"2x1/statistics": row.clone()}, {}), ({"2x1/statistics": torch.tensor([[0.0], [1.0], [1.0]])}, {}),
    ]  # fmt: skip
    for changes, otherwise in bad:
        write_tensors(path, tensors | changes, manifest | otherwise)
        with pytest.raises(DataError, match="is not an edit written by Anachron") as caught:
            load_edit(path)
        assert "\n" not in str(caught.value)


@pytest.mark.full
def test_commands_take_it(tmp_path: Path):
    def run(*words: Any) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words])

    out, pairs = tmp_path / "g.safetensors", tmp_path / "pairs.jsonl"
    make = ("edit", "demo", "--updates", "mini-updates", "--limit", 2, "--method", "GRACE", "--out", out)
    refused = run(*make, "--save-model", tmp_path / "model")
    assert refused.exit_code != 0 and not out.exists()
    assert run(*make).exit_code == 0 and "labels" in read_manifest(out)
    pairs.write_text('{"prompt": "Paris is in", "answer": "France"}\n')
    scored = run("score", "demo", "--input", pairs, "--out", tmp_path / "s.parquet", "--edit", out)
    assert scored.exit_code == 0, scored.output


def test_a_layer_that_is_not_there_is_said():
    with pytest.raises(ConfigError, match="layer 9: the model has 4 layers"):
        make_edit(make_edit_lm("llama"), "GRACE", REQUESTS[:1], GraceSettings(layer=9))
