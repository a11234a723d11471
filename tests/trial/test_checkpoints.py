"""Checkpoints broken in many ways, of several families and kinds of file: none loads, and each is told what is wrong.

Whole ones, however they are stored, give the scores of the model they were made of, whatever the random state.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from anachron.core.errors import ModelError
from anachron.lm.loading import load_model
from support.checkpoints import Tensors, checkpoint, configure, rewrite
from support.tiny_models import make_lm

pytestmark = pytest.mark.trial

FORMS = ("single", "shards", "bin", "bin-shards")
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {}),
    "gpt2 untied": ("gpt2", {"tie_word_embeddings": False}),
    "llama": ("llama", {}),
    "llama tied": ("llama", {"tie_word_embeddings": True}),
    "neox": ("neox", {}),
    "gemma2": ("gemma2", {}),
}
PAIRS = [("In 1998, who was the president of France?", answer) for answer in ("Jacques Chirac", "Москва", "Paris")]
SEED = 20240511

Broken = tuple[str, Tensors, dict[str, Any], str]  # what was done, tensors, changes of config.json, what is to be said


def broken(t: Tensors, config: dict[str, Any], draw: random.Random) -> Iterator[Broken]:
    """Ways to break a checkpoint; the tensor that it happens to is drawn."""
    first, *_ = names = sorted(t)
    layer = next(name for name in names if ".0." in name)
    one = draw.choice(names)
    own = one.replace("embed_out", "lm_head")  # as transformers calls it now
    for prefix, source in (("module.", "DataParallel"), ("_orig_mod.", "torch.compile"), ("base_model.model.", "PEFT")):
        said = f"begin with '{re.escape(prefix)}', as saved from {source}"
        yield prefix, {prefix + name: x for name, x in t.items()}, {}, said
    yield "one missing", {n: x for n, x in t.items() if n != one}, {}, f"missing .*{re.escape(own)}"
    some = set(draw.sample(names, len(names) // 2))
    yield "half missing", {n: x for n, x in t.items() if n in some}, {}, r"\d+ of its \d+ tensors are missing"
    yield "one renamed", {(n + "_old" if n == one else n): x for n, x in t.items()}, {}, f"missing .*{re.escape(own)}"
    head = [n for n in names if re.search("lm_head|embed_out", n)] or [n for n in names if re.search("wte|embed_to", n)]
    yield "no head", {n: x for n, x in t.items() if n not in head}, {}, r"missing .*lm_head\.weight"
    judge = {"architectures": ["SomeForSequenceClassification"]}
    body = {n: x for n, x in t.items() if not re.search("lm_head|embed_out", n)}
    yield (
        "reward model",
        body | {"score.weight": torch.ones(1, 32)},
        judge,
        "score.weight is the head of a class.*here a",
    )
    yield "one cut", t | {one: t[one][:-1].contiguous()}, {}, rf"another shape \({re.escape(own)} is \("
    yield "another width", {n: torch.cat([x, x]) if n == one else x for n, x in t.items()}, {}, re.escape(own)
    depth = next(key for key in ("num_hidden_layers", "n_layer") if key in config)
    types = {"layer_types": config["layer_types"][:1]} if "layer_types" in config else {}
    yield "fewer layers", t, {depth: 1} | types, "config.json asks for 1 layers"
    types = {"layer_types": [*config["layer_types"], config["layer_types"][0]]} if types else {}
    yield "more layers", t, {depth: 3} | types, r"\d+ of its \d+ tensors are missing"
    new = layer.rpartition(".")[0] + draw.choice([".q_norm.weight", ".extra_bias", ".scale"])
    yield "a part too many", t | {new: torch.ones(32)}, {}, f"no place in it .{re.escape(new)}.: .*config.json"
    adapter = layer.rpartition(".")[0] + ".lora_A.weight"
    yield "an unmerged adapter", t | {adapter: torch.ones(4, 32)}, {}, "merge them into the model"
    for word, value in (("NaN", torch.nan), ("infinite", torch.inf)):
        flat = t[one].flatten().clone()
        flat[draw.randrange(len(flat))] = value
        yield word, t | {one: flat.reshape(t[one].shape)}, {}, f"{word} in float32 .*{re.escape(own)}.*damaged"
    yield "another architecture", {f"decoder.block.{n}.w": t[first] for n in range(9)}, {}, "of another architecture"


@pytest.fixture(autouse=True)
def random_state() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def scores(name: str, seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    return load_model(name, device="cpu").log_probs(PAIRS)


def test_no_broken_checkpoint_loads(tmp_path: Path):
    draw = random.Random(SEED)
    tried, survived = 0, list[str]()
    for label, (family, changes) in FAMILIES.items():
        config = make_lm(family, "gpt2", **changes).model.config.to_dict()
        whole = load_file(Path(checkpoint(tmp_path / label, family, **changes)) / "model.safetensors")
        for what, tensors, settings, message in broken(whole, config, draw):
            form = FORMS[tried % len(FORMS)]
            name = checkpoint(tmp_path / f"{label} {what}", family, **changes)
            rewrite(name, lambda _, tensors=tensors: tensors, form)
            configure(name, **settings)
            tried += 1
            found = said(name)
            if found is None or "\n" in found or not re.search(message, found):
                survived.append(f"{label}, {form}, {what}: {found} instead of {message}")
    print(f"trial: {tried} broken checkpoints, {tried - len(survived)} refused by what is wrong")
    assert not survived, "\n".join(survived)


def test_no_damaged_file_loads(tmp_path: Path):
    draw = random.Random(SEED)
    tried, survived = 0, list[str]()
    for label, (family, changes) in FAMILIES.items():
        for form in FORMS:
            for what in ("cut", "empty", "gone"):
                name = checkpoint(tmp_path / f"{label} {form} {what}", family, **changes)
                rewrite(name, lambda t: t, form)
                file = draw.choice(sorted(f for f in Path(name).iterdir() if f.suffix in (".safetensors", ".bin")))
                content = file.read_bytes()
                file.write_bytes(content[: draw.randrange(len(content) // 10, len(content))] if what == "cut" else b"")
                if what == "gone":
                    file.unlink()
                tried += 1
                found = said(name)
                if found is None or "\n" in found or "cannot load a causal language model" not in found:
                    survived.append(f"{label}, {form}, {what}: {found}")
    print(f"trial: {tried} damaged files, {tried - len(survived)} refused")
    assert not survived, "\n".join(survived)


def said(name: str) -> str | None:
    """What is said of a checkpoint that is refused; ``None`` where it loads."""
    try:
        load_model(name, device="cpu")
    except ModelError as error:
        return str(error)
    return None


def test_whole_checkpoints_give_the_models_scores(tmp_path: Path):
    tried, lost = 0, list[str]()
    for label, (family, changes) in FAMILIES.items():
        for dtype in (torch.float32, torch.bfloat16):
            lm = make_lm(family, "gpt2", **changes)
            lm.model.to(dtype)
            wanted = lm.log_probs(PAIRS)
            near = 1e-5 if dtype == torch.float32 else 0.2  # attention is computed in another way, and rounded
            firsts = list[np.ndarray]()
            for what, change in WHOLE.items():
                form = FORMS[tried % len(FORMS)]
                name = checkpoint(tmp_path / f"{label} {dtype} {what}", family, dtype, **changes)
                rewrite(name, change, form)
                tried += 1
                try:
                    found = [scores(name, seed) for seed in (1, 2)]
                except ModelError as error:
                    lost.append(f"{label}, {dtype}, {form}, {what}: {error}")
                    continue
                firsts.append(found[0])
                alike = all(np.array_equal(firsts[0], other) for other in found)
                if not (alike and np.allclose(found[0], wanted, atol=near, rtol=0)):
                    lost.append(f"{label}, {dtype}, {form}, {what}: {found} instead of {wanted}")
    print(f"trial: {tried} whole checkpoints, {tried - len(lost)} loaded with the scores of their model")
    assert not lost, "\n".join(lost)


def _with_tables(t: Tensors) -> Tensors:
    """With masks and tables of positions as older versions saved them."""
    attention = {m[1] for name in t if (m := re.match(r"(.*\.(attn|self_attn|attention))\.", name))}
    tables = {f"{module}.masked_bias": torch.tensor(-1e9) for module in attention}
    tables |= {f"{module}.bias": torch.ones(1, 1, 4, 4) for module in attention if not module.endswith("self_attn")}
    return t | tables | {f"{module}.rotary_emb.inv_freq": torch.ones(4) for module in attention}


def _with_other_parts(t: Tensors) -> Tensors:
    beside = ("vision_tower.layers.0", "multi_modal_projector", "mtp.layers.0", "v_head.summary")
    return t | {f"{module}.weight": torch.ones(4) for module in beside}


def _without_first_part(t: Tensors) -> Tensors:
    """As a model without a head was saved, but for the head."""
    return {re.sub(r"^(transformer|model|gpt_neox)\.", "", name): x for name, x in t.items()}


def _with_tied_head(t: Tensors) -> Tensors:
    """As torch saves tied weights: both."""
    tied = not any(re.search("lm_head|embed_out", name) for name in t)
    embedding = next(name for name in t if re.search(r"wte|embed_tokens|embed_in", name))
    return t | ({"lm_head.weight": t[embedding]} if tied else {})


WHOLE = {
    "as it is": lambda t: t,
    "in another order": lambda t: dict(sorted(t.items(), reverse=True)),
    "computed tables": _with_tables,
    "other parts": _with_other_parts,
    "no first part": _without_first_part,
    "tied head": _with_tied_head,
}
