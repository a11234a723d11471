"""Training MEND's network: the losses against a plain way, what it learns, and that it survives being stopped."""

import json
import multiprocessing
import os
import random
import signal
import time
import types
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anachron.cli.main import run_command
from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.edit.base import Edit, LowRank, edited
from anachron.edit.methods.mend import MendNetwork, MendSettings, untrained_network
from anachron.edit.passes.gradients import encoded, gradients
from anachron.edit.requests import EditRequest
from anachron.edit.training import train as lessons
from anachron.edit.training.mend import step_losses, train_mend
from anachron.edit.training.mend_examples import MendExample, draw, examples_of, prepared
from anachron.io.jobs import Callbacks, locked
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import mended
from support.tiny_models import FAMILIES, make_lm, naive_log_prob, save

SETTINGS = MendSettings(layers=(0, 1), rank=16, rate=1e-3, lr_rate=1e-2, start=1e-2, steps=12, batch=3)
FACTS = {
    "France": "Emmanuel Macron", "Berlin": "Angela Merkel", "Paris": "Jacques Chirac", "Zürich": "team",
    "São Paulo": "capital", "Germany": "president",
}  # fmt: skip
EXAMPLES = [
    MendExample(
        EditRequest("The president of {} is", subject, target),
        (f"In 2004, who was the president of {subject}?", f"{subject} is led by")[: 1 + number % 2],
        (f"Which team did he play for? {other}", f"cities are {other}"),
    )
    for number, ((subject, target), other) in enumerate(zip(FACTS.items(), reversed(FACTS), strict=True))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A saved model, which other processes load quickly."""
    return save(make_lm("gpt2"), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def lm(folder: str) -> LanguageModel:
    return load_model(folder, dtype="float32", device="cpu")


def train(
    lm: LanguageModel,
    out: Path,
    settings: MendSettings = SETTINGS,
    examples: list[MendExample] = EXAMPLES,
    steps: int | None = None,
    **more: object,
) -> MendNetwork:
    settings = settings if steps is None else replace(settings, steps=steps)
    return train_mend(lm, examples, out, settings, **more)  # type: ignore[arg-type]


def kl_loss(lm: LanguageModel, text: str, edit: Edit) -> float:
    """Mean over a text's tokens of KL(clean || edited), from all logits of one text."""
    ids = torch.tensor([lm.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        clean = torch.log_softmax(lm.model(input_ids=ids).logits[0].double(), -1)
        with edited(lm, edit, check=False):
            after = torch.log_softmax(lm.model(input_ids=ids).logits[0].double(), -1)
    return float((clean.exp() * (clean - after)).sum(-1).mean())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.families("llama")
def test_losses_of_a_step_are_those_of_each_edited_model(family: str):
    lm = make_lm(family, "mistral" if family == "mistral" else "gpt2")
    sites = find_sites(lm.model)
    network = untrained_network(lm, SETTINGS, sites)
    drawn = draw(prepared(lm, EXAMPLES, SETTINGS, pytest.fail), SETTINGS, step=1)
    requests = [item.request for item in drawn]
    found = gradients(lm, requests, network.shapes)
    for name, part in found.items():
        network.observe(name, part.x, part.delta)
    edit_loss, kl = step_losses(lm, network, drawn, found)
    expected_loss, expected_kl = [], []
    for item in drawn:
        example = next(e for e in EXAMPLES if encoded(lm, [(e.request.text, e.request.target)])[0] == item.request)
        edit = mended(lm, [example.request], SETTINGS, sites, network)
        assert all(isinstance(delta, LowRank) for delta in edit.deltas.values())
        target = example.request.target
        paraphrase = next(t for t in example.paraphrases if encoded(lm, [(t, target)])[0] == item.paraphrase)
        with edited(lm, edit, check=False):
            nll = [-naive_log_prob(lm, text, target) / len(tokens.targets) for text, tokens in
                   [(example.request.text, item.request), (paraphrase, item.paraphrase)]]  # fmt: skip
        expected_loss.append(np.mean(nll))
        unrelated = next(t for t in example.unrelated if tuple(lm.tokenizer(t)["input_ids"]) == item.unrelated.ids[:-1])
        expected_kl.append(kl_loss(lm, unrelated, edit))
    assert min(expected_kl) > 1e-4
    np.testing.assert_allclose(edit_loss.item(), np.mean(expected_loss), rtol=2e-4)
    np.testing.assert_allclose(kl.item(), np.mean(expected_kl), rtol=2e-3)


def test_gradients_through_the_edited_model_are_right():
    lm = make_lm("gpt2")
    lm.model.double()
    network = untrained_network(lm, SETTINGS, find_sites(lm.model))
    drawn = draw(prepared(lm, EXAMPLES, SETTINGS, pytest.fail), SETTINGS, step=0)
    found = gradients(lm, [item.request for item in drawn], network.shapes)
    for name, part in found.items():
        network.observe(name, part.x, part.delta)
    chooser = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1e-3 * torch.randn(parameter.shape, generator=chooser, dtype=torch.float64)

    def loss() -> torch.Tensor:
        edit, kl = step_losses(lm, network, drawn, found)
        return 0.1 * edit + kl

    parameters = list(network.parameters())
    grads = torch.autograd.grad(loss(), parameters)
    assert all(grad.abs().max() > 0 for grad in grads)
    for parameter, grad in zip(parameters, grads, strict=True):
        direction = torch.randn(parameter.shape, generator=chooser, dtype=torch.float64)
        values = []
        with torch.no_grad():
            for sign in (1, -2):
                parameter += sign * 1e-9 * direction
                values.append(loss().item())
            parameter += 1e-9 * direction
        np.testing.assert_allclose(
            (values[0] - values[1]) / 2e-9, (grad * direction).sum().item(), rtol=1e-3, atol=1e-7
        )


@pytest.mark.full
def test_training_makes_edits_better_and_keeps_unrelated_text(lm: LanguageModel, tmp_path: Path):
    sites, before = find_sites(lm.model), lm.fingerprint()
    network = train(lm, tmp_path / "network", replace(SETTINGS, steps=120), callbacks=Callbacks(warn=pytest.fail))
    course = network.about["course"]
    assert course[-1]["edit_loss"] < 0.3 * course[0]["edit_loss"]
    assert course[-1]["kl_loss"] < 0.05
    untrained = untrained_network(lm, SETTINGS, sites)
    for example in EXAMPLES[:3]:
        prompt, target = example.request.text, example.request.target
        scores = [lm.log_probs([(prompt, target), (example.paraphrases[0], target)])]
        for made_by in (untrained, network):
            with edited(lm, mended(lm, [example.request], SETTINGS, sites, made_by), check=False):
                scores.append(lm.log_probs([(prompt, target), (example.paraphrases[0], target)]))
        clean, plain, trained = scores
        assert (trained > clean + 1).all() and (trained > plain + 1).all()
        edit = mended(lm, [example.request], SETTINGS, sites, network)
        assert max(kl_loss(lm, text, edit) for text in example.unrelated) < 0.2
    assert lm.fingerprint() == before and clean_of_traces(lm)


def clean_of_traces(lm: LanguageModel) -> bool:
    hooks = any(m._forward_hooks or m._forward_pre_hooks for m in lm.model.modules())
    return not hooks and all(p.requires_grad and p.grad is None for p in lm.model.parameters())


# Resuming


@pytest.fixture(scope="module")
def whole(lm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The network of an uninterrupted training."""
    out = tmp_path_factory.mktemp("whole") / "network"
    train(lm, out)
    assert sorted(p.name for p in out.parent.iterdir()) == ["network", "network.manifest.json"]
    return out.read_bytes()


def stop_at(step: int, error: type[BaseException] = KeyboardInterrupt) -> Callbacks:
    def progress(done: int, total: int, note: str) -> None:
        if done == step:
            raise error(note)

    return Callbacks(progress=progress)


@pytest.mark.few(1)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_resumed_after_interrupts_it_has_the_same_bytes(
    lm: LanguageModel, whole: bytes, tmp_path: Path, error: type[BaseException]
):
    out, before = tmp_path / "network", lm.fingerprint()
    for step in (2, 6, 11):  # before the first checkpoint, at one, behind one
        with pytest.raises(error):
            train(lm, out, checkpoint_every=3, callbacks=stop_at(step, error))
        assert not out.exists() and lm.fingerprint() == before and clean_of_traces(lm)
    steps: list[int] = []
    train(lm, out, checkpoint_every=3, callbacks=Callbacks(progress=lambda done, total, note: steps.append(done)))
    assert steps == [10, 11, 12]
    assert out.read_bytes() == whole
    assert sorted(p.name for p in tmp_path.iterdir()) == ["network", "network.manifest.json"]


def test_a_finished_training_is_not_repeated(lm: LanguageModel, whole: bytes, tmp_path: Path):
    out = tmp_path / "network"
    first = train(lm, out)
    manifest = (tmp_path / "network.manifest.json").read_text()
    (tmp_path / "network.manifest.json").unlink()
    again = train(lm, out, callbacks=Callbacks(progress=lambda done, total, note: pytest.fail("trained again")))
    assert out.read_bytes() == whole and (tmp_path / "network.manifest.json").read_text() == manifest
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert json.loads(manifest)["inputs"]["weights"] == lm.weights_fingerprint()


def test_what_only_half_matches_is_refused(lm: LanguageModel, tmp_path: Path):
    unfinished, finished = tmp_path / "unfinished", tmp_path / "finished"
    with pytest.raises(KeyboardInterrupt):
        train(lm, unfinished, checkpoint_every=3, callbacks=stop_at(4))
    train(lm, finished, steps=1)
    same = {"settings": SETTINGS, "examples": EXAMPLES}
    for out, steps in ((unfinished, 12), (finished, 1)):
        held = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        for change, message in [
            ({"settings": replace(SETTINGS, seed=1)}, "seed: 0 -> 1"),
            ({"settings": replace(SETTINGS, rate=1e-4)}, "rate: 0.001 -> 0.0001"),
            ({"settings": replace(SETTINGS, layers=(1,))}, r"layers: \[0, 1\] -> \[1\]"),
            ({"examples": EXAMPLES[::-1]}, "examples: "),
            ({"steps": 20}, f"steps: {steps} -> 20"),
        ]:
            with pytest.raises(ConfigError, match=message):
                train(lm, out, **({"steps": steps} | same | change))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="weights: "):
            train(make_lm("gpt2", seed=1), out, steps=steps)
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == held


def test_another_process_and_other_files_are_refused(lm: LanguageModel, tmp_path: Path):
    with locked(tmp_path / ".network.lock", tmp_path), pytest.raises(ConfigError, match="in use by another"):
        train(lm, tmp_path / "network")
    (tmp_path / "text").write_text("mine")
    with pytest.raises(DataError, match="text"):
        train(lm, tmp_path / "text")
    assert (tmp_path / "text").read_text() == "mine"
    with edited(lm, Edit(model=lm.fingerprint())), pytest.raises(ModelError, match="in force"):
        train(lm, tmp_path / "network")
    with pytest.raises(ConfigError, match="checkpoint_every 0"):
        train(lm, tmp_path / "network", checkpoint_every=0)


def _train_in_child(model: str, out: Path) -> None:
    train(load_model(model, dtype="float32", device="cpu"), out, checkpoint_every=1)


@pytest.mark.slow
def test_killed_again_and_again_it_has_the_same_bytes(folder: str, whole: bytes, tmp_path: Path):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(
        [
            "anachron.edit.training.mend",
            "anachron.cli.main",
            "support.tiny_models",
            "transformers.models.gpt2.modeling_gpt2",
        ]
    )
    (tmp_path / "timing").mkdir()
    seconds = []
    for _ in range(2):  # the first one starts the server
        started = time.perf_counter()
        child = processes.Process(target=_train_in_child, args=(folder, tmp_path / "timing" / "network"))
        child.start()
        child.join()
        assert child.exitcode == 0
        seconds.append(time.perf_counter() - started)
        done = (tmp_path / "timing" / "network").read_bytes()
        for path in (tmp_path / "timing").iterdir():
            path.unlink()
    assert done == whole
    chooser, killed, longest = random.Random(0), 0, 0.95 * seconds[1]
    (tmp_path / "killed").mkdir()
    while killed < 4:
        child = processes.Process(target=_train_in_child, args=(folder, tmp_path / "killed" / "network"))
        child.start()
        child.join(chooser.uniform(0.4, 1.0) * longest)
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            killed += 1
        else:  # the machine is less busy than when the time was taken: from the start again, and killed sooner
            longest *= 0.7
            for path in (tmp_path / "killed").iterdir():
                path.unlink()
    last = processes.Process(target=_train_in_child, args=(folder, tmp_path / "killed" / "network"))
    last.start()
    last.join()
    assert last.exitcode == 0
    assert (tmp_path / "killed" / "network").read_bytes() == whole


# Examples


def test_examples_are_drawn_once_an_epoch_whatever_the_batches(lm: LanguageModel):
    ready = prepared(lm, EXAMPLES, SETTINGS, pytest.fail)
    by_batch = {}
    for size in (1, 4):
        settings = replace(SETTINGS, batch=size)
        by_batch[size] = [item for step in range(12 // size) for item in draw(ready, settings, step)]
    assert by_batch[1] == by_batch[4]
    for epoch in (by_batch[1][:6], by_batch[1][6:]):
        assert {item.request for item in epoch} == {item.request for item in ready}
    assert [i.request for i in by_batch[1][:6]] != [i.request for i in by_batch[1][6:]]
    assert by_batch[1] != [item for step in range(12) for item in draw(ready, replace(SETTINGS, batch=1, seed=1), step)]


def test_examples_that_lack_something(lm: LanguageModel, tmp_path: Path):
    said: list[str] = []
    bare = [MendExample(EXAMPLES[0].request), *EXAMPLES[1:]]
    train(lm, tmp_path / "a", steps=1, examples=bare, callbacks=Callbacks(warn=said.append))
    assert said == [
        "1 of 6 examples have no unrelated text of their own; they take that of others",
        "1 of 6 examples have no paraphrase; they are trained on their prompt alone",
    ]
    alone = [MendExample(example.request) for example in EXAMPLES]
    with pytest.raises(DataError, match=r"unrelated text.*kl_weight 0"):
        train(lm, tmp_path / "b", examples=alone)
    network = train(lm, tmp_path / "b", replace(SETTINGS, kl_weight=0.0, steps=2), examples=alone)
    assert [part["kl_loss"] for part in network.about["course"]] == [0, 0]
    with pytest.raises(DataError, match="no example to train on"):
        train(lm, tmp_path / "c", examples=[])
    with pytest.raises(DataError, match="more than the 512"):
        train(lm, tmp_path / "c", examples=[replace(EXAMPLES[0], unrelated=("team " * 600,))])


def test_a_training_that_brings_nothing_is_warned_of_and_one_that_explodes_is_an_error(
    lm: LanguageModel, tmp_path: Path
):
    said: list[str] = []
    useless = replace(SETTINGS, rate=1e-30, lr_rate=0.0, start=-10.0)
    train(lm, tmp_path / "a", useless, callbacks=Callbacks(warn=said.append))
    assert len(said) in (0, 1) and all("did not lower the loss" in line for line in said)
    with pytest.raises(DataError, match=r"at step 1 the loss of MEND is .*use a lower rate"):
        train(lm, tmp_path / "b", replace(SETTINGS, start=1e38))
    assert clean_of_traces(lm)


def case(**changes: object) -> types.SimpleNamespace:
    """An update as `anachron.data.updates.cases` gives it, as far as it is used."""
    fact = types.SimpleNamespace(prompt="Berlin is the capital of", objects=("Germany", "Prussia"))
    given = {"prompt": "The president of France is", "subject": "France", "new": "Emmanuel Macron", "old": None,
             "generalization": ("France is led by",), "nearest": (fact,)}  # fmt: skip
    return types.SimpleNamespace(**(given | changes))


def test_examples_of_updates():
    cases = [case(), case(new=None), case(subject="Spain"), case(prompt="{} has the president", generalization=())]
    examples, left_out = examples_of(cases)
    unnamed = "The president of France is"  # without Spain: a gradient needs no subject
    assert [e.request.prompt for e in examples] == ["The president of {} is", unnamed, "{} has the president"]
    assert examples[0].paraphrases == ("France is led by",) and examples[2].paraphrases == ()
    assert examples[0].unrelated == ("Berlin is the capital of Germany",)
    assert len(left_out) == 1
    dealt, _ = examples_of([case()] * 3, ["a", "b", "c", "d"])
    assert [e.unrelated for e in dealt] == [("a", "d"), ("b",), ("c",)]
    assert [e.unrelated for e in examples_of([case()] * 3, ["a", "b"])[0]] == [("a",), ("b",), ("a",)]


# The command


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[types.SimpleNamespace]:
    """What the data set holds, whatever its name."""
    cases = [case(prompt=e.request.prompt, subject=e.request.subject, new=e.request.target) for e in EXAMPLES]
    cases.append(case(new=None))
    monkeypatch.setattr(
        lessons, "load_cases", lambda name, **_: types.SimpleNamespace(name=name, cases=tuple(cases), notes=())
    )
    return cases


def test_command(lm: LanguageModel, updates: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, out = save(lm, tmp_path / "model"), tmp_path / "network"
    options = ["--updates", "some", "--out", str(out), "--steps", "3", "--rank", "4", "--rate", "0.001", "--batch", "2"]
    assert run_command(["train-mend", model, *options, "--json"], debug=True) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["layers"] == [0, 1] and summary["examples"] == 6 and summary["left_out"] == 1
    assert "1 of 7 updates are left out" in said.err
    network = MendNetwork.load(out, lm)
    assert asdict(network.settings) == asdict(MendSettings(layers=(0, 1), rank=4, steps=3, rate=1e-3, batch=2))
    assert run_command(["train-mend", model, *options], debug=True) == 0
    assert f"written to {out}" in capsys.readouterr().err
    (tmp_path / "lines.txt").write_text("cities are\n\nParis is the capital\n")
    more = ["--text", str(tmp_path / "lines.txt"), "--layers", "1", "--no-normalise", "--json"]
    assert (
        run_command(["train-mend", model, *options[:3], str(tmp_path / "other"), *options[4:], *more], debug=True) == 0
    )
    assert json.loads(capsys.readouterr().out)["layers"] == [1]
    assert not MendNetwork.load(tmp_path / "other", lm).settings.normalise


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--layers", "last"], 2, "--layers 'last': write 3 or 1,2,3 or 3-8"),
        (["--layers", "2,1"], 2, "rising"),
        (["--steps", "0"], 2, "steps 0"),
        (["--rate", "-1"], 2, "rate -1.0"),
        (["--text", "missing.txt"], 2, "missing.txt cannot be read"),
        (["--layers", "7"], 2, "layer 7: the model has 2 layers"),
    ],
)
def test_command_says_what_is_wrong(
    lm: LanguageModel, updates: list, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int,
    message: str,
):  # fmt: skip
    model = save(lm, tmp_path / "model")
    command = ["train-mend", model, "--updates", "some", "--out", str(tmp_path / "network"), *options]
    assert run_command(command, debug=False) == code
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "network").exists()


def test_command_without_any_usable_update(lm: LanguageModel, updates: list, tmp_path: Path, capsys):
    del updates[:-1]
    assert run_command(["train-mend", "demo", "--updates", "some", "--out", str(tmp_path / "n")], debug=False) == 2
    assert "no update can be learned from" in capsys.readouterr().err
