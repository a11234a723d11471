"""Edits as files, and edited models as folders: the same bits come back, and anything else is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from anachron.core.errors import AnachronError, BackendError, ConfigError, DataError, ModelError
from anachron.edit.base import Dense, Edit, LowRank, edited
from anachron.edit.storage import describe, load_edit, save_edit, save_edited_model
from anachron.edit.tensors import write_tensors
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm
from support.tiny_models import save

GPT2, LLAMA = "transformer.h.1.mlp.c_proj", "model.layers.1.mlp.down_proj"
PAIRS = [("Paris is the capital of", "France"), ("In May 2004, the team of São Paulo was", "Berlin")]


def numbers(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


KINDS = ("low-rank", "turned", "dense", "bfloat16", "prefix", "keys", "shared", "nothing", "unsaid")


def kinds(lm: LanguageModel) -> dict[str, Edit]:
    model = lm.fingerprint()
    low = LowRank(numbers(0, 32, 3), numbers(1, 3, 128))
    return {
        "low-rank": Edit({GPT2: low}, model=model, about={"method": "ROME", "settings": {"layers": [1], "eps": None}}),
        "turned": Edit({GPT2: LowRank(numbers(0, 3, 32).T, numbers(1, 128, 3).T)}, model=model),
        "dense": Edit({GPT2: Dense(numbers(2, 32, 128, dtype=torch.float32), numbers(3, 32, dtype=torch.float32))},
                      model=model),
        "bfloat16": Edit({GPT2: Dense(numbers(2, 32, 128, dtype=torch.bfloat16))}, model=model),
        "prefix": Edit(prefix="Zürich ist\n北京. ", model=model),
        "keys": Edit({GPT2: low}, model=model, keys={GPT2: numbers(4, 5, 128), "other/name": numbers(5, 2, 2)}),
        "shared": Edit({GPT2: low, GPT2.replace("1", "2"): low}, model=model),
        "nothing": Edit(model=model),
        "unsaid": Edit({GPT2: low}),
    }  # fmt: skip


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("gpt2")


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_comes_back_bit_for_bit(kind: str, lm: LanguageModel, tmp_path: Path):
    assert list(kinds(lm)) == list(KINDS)
    edit = kinds(lm)[kind]
    path = tmp_path / "edit.safetensors"
    save_edit(edit, path)
    back = load_edit(path)
    assert (back.prefix, back.model, back.about, back.count) == (edit.prefix, edit.model, edit.about, edit.count)
    assert back.deltas.keys() == edit.deltas.keys() and back.keys.keys() == edit.keys.keys()
    for name, delta in edit.deltas.items():
        assert type(back.deltas[name]) is type(delta)
        for part, tensor in vars(delta).items():
            other = getattr(back.deltas[name], part)
            assert other is tensor or (torch.equal(other, tensor) and other.dtype == tensor.dtype)
    for name, keys in edit.keys.items():
        assert torch.equal(back.keys[name], keys)
    clean = lm.log_probs(PAIRS)
    with edited(lm, edit):
        inside = lm.log_probs(PAIRS)
    with edited(lm, back):
        assert (lm.log_probs(PAIRS) == inside).all()
    assert (lm.log_probs(PAIRS) == clean).all()
    once = path.read_bytes()
    save_edit(back, path)
    assert path.read_bytes() == once
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edit.safetensors", "edit.safetensors.manifest.json"]
    manifest = json.loads((tmp_path / "edit.safetensors.manifest.json").read_text("utf-8"))
    assert manifest["command"] == "edit" and manifest["inputs"] == {"model": edit.model}


def test_an_edit_for_another_model_is_refused(lm: LanguageModel, tmp_path: Path):
    save_edit(kinds(lm)["low-rank"], tmp_path / "e.safetensors")
    other = make_edit_lm("gpt2", seed=1)
    with (
        pytest.raises(ModelError, match="load the model it was made on"),
        edited(other, load_edit(tmp_path / "e.safetensors")),
    ):
        raise AssertionError("never in force")  # fmt: skip


def broken(path: Path, kind: str, lm: LanguageModel) -> None:
    good = {"format": "anachron edit 1", "model": None, "prefix": "", "about": {}, "versions": {}}
    one = {"m/left": torch.zeros(2, 1)}
    manifests: dict[str, Any] = {
        "half a change": (one, good),
        "no prefix": ({}, {k: v for k, v in good.items() if k != "prefix"}),
        "other format": ({}, good | {"format": "anachron edit 99"}),
        "no format": ({}, {}),
        "a list": ({}, ["anachron edit 1"]),
        "unknown part": ({"m/middle": torch.zeros(1)}, good),
    }
    if kind in manifests:
        tensors, manifest = manifests[kind]
        save_file(tensors, path, {"manifest": json.dumps(manifest)})
    elif kind == "no manifest":
        save_file(one, path)
    elif kind == "no JSON":
        save_file(one, path, {"manifest": "{"})
    elif kind == "cut short":
        save_edit(kinds(lm)["dense"], path)
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "text":
        path.write_text("an edit\nof two lines", "utf-8")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()


@pytest.mark.parametrize(
    "kind", ["half a change", "no prefix", "other format", "no format", "a list", "unknown part", "no manifest",
             "no JSON", "cut short", "text", "empty", "folder", "missing"]
)  # fmt: skip
def test_other_files_are_refused_in_one_line(kind: str, lm: LanguageModel, tmp_path: Path):
    path = tmp_path / "edit.safetensors"
    broken(path, kind, lm)
    with pytest.raises(DataError) as caught:
        load_edit(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_what_fails_to_be_saved_leaves_nothing(lm: LanguageModel, tmp_path: Path):
    bad = Edit({GPT2: kinds(lm)["low-rank"].deltas[GPT2]}, about={"no JSON": object()})
    with pytest.raises((TypeError, AnachronError)):
        save_edit(bad, tmp_path / "e.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_sum_from_a_file_knows_what_is_in_it(dtype: torch.dtype, tmp_path: Path):
    """Low rank, dense, and dense because the ranks are too many; rounded or not."""
    low = [Edit({GPT2: LowRank(numbers(n, 6, 3, dtype=dtype), numbers(n + 9, 3, 8, dtype=dtype))}) for n in range(3)]
    dense = Edit({GPT2: Dense(numbers(5, 6, 8, dtype=dtype), numbers(6, 6, dtype=dtype))})
    for parts in (low[:2], low, [*low, dense], [dense, 0.5 * low[0], low[0]]):
        for number, part in enumerate((sum(parts[1:], parts[0]), *parts)):
            save_edit(part, tmp_path / f"{number}.safetensors")
        total, *back = (load_edit(tmp_path / f"{number}.safetensors") for number in range(len(parts) + 1))
        left = total - back[-1]
        wanted = sum(part.deltas[GPT2].dense().double() for part in parts[:-1])
        loose = 1e-12 if dtype == torch.float64 else 0.1
        assert torch.allclose(left.deltas[GPT2].dense().double(), wanted, atol=loose)
        with pytest.raises(ConfigError, match=f"1 of 1 edits to be taken out are not among the {len(parts) - 1} of"):
            left - back[-1]
    with pytest.raises(ConfigError, match="are not among the 3 of this sum"):
        total - low[1]


@pytest.mark.parametrize("parts", ["ab", [["a", 1.0], ["b"]], [["a", True]], [[1.0, "a"]], {"a": 1.0}])
def test_what_is_no_record_of_a_sum_is_refused(parts: Any, tmp_path: Path):
    about = {"format": "anachron edit 1", "model": None, "prefix": "", "about": {}, "versions": {}, "parts": parts}
    write_tensors(tmp_path / "e.safetensors", {"m/weight": torch.zeros(2, 2)}, about)
    with pytest.raises(DataError, match="its parts are not checksums"):
        load_edit(tmp_path / "e.safetensors")


# Models


def loaded(folder: str) -> LanguageModel:
    found = load_model(folder)
    found.model.set_attn_implementation("eager")
    return found


@pytest.mark.parametrize(
    ("family", "dtype"), [("gpt2", torch.float32), ("llama", torch.bfloat16), ("gemma2", torch.float32)]
)
@pytest.mark.families("gemma2")
def test_an_edited_model_is_a_model(family: str, dtype: torch.dtype, tmp_path: Path):
    lm = loaded(save(make_edit_lm(family, "mistral", dtype=dtype), tmp_path / "unedited"))
    name = GPT2 if family == "gpt2" else LLAMA
    edit = Edit(
        {name: LowRank(0.3 * numbers(0, 32, 2), numbers(1, 2, 128 if family == "gpt2" else 64))}, model=lm.fingerprint()
    )
    clean = lm.log_probs(PAIRS)
    with edited(lm, edit):
        inside = lm.log_probs(PAIRS)
    save_edited_model(lm, edit, tmp_path / "deep" / "model")
    back = loaded(str(tmp_path / "deep" / "model"))
    assert back.dtype == lm.dtype
    assert (back.log_probs(PAIRS) == inside).all() and (inside != clean).all()
    assert (lm.log_probs(PAIRS) == clean).all() and lm.fingerprint() == edit.model != back.fingerprint()
    about = json.loads((tmp_path / "deep" / "model" / "anachron_edit.json").read_text("utf-8"))
    assert about["model"] == edit.model
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["model"]
    with pytest.raises(ConfigError, match="already exists; choose another"):
        save_edited_model(lm, edit, tmp_path / "deep" / "model")
    with pytest.raises(ModelError, match="was made for the model"), edited(back, edit):
        raise AssertionError("never in force")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_model_that_fails_to_be_saved_leaves_nothing(
    error: type[BaseException], lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: Any, **__: Any) -> None:
        raise error("full")

    before = lm.fingerprint()
    for owner in (lm.model, lm.tokenizer):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "save_pretrained", fails)
            with pytest.raises(BackendError if error is OSError else error):
                save_edited_model(lm, kinds(lm)["low-rank"], tmp_path / "model")
        assert not list(tmp_path.iterdir()) and lm.fingerprint() == before


def test_edits_that_no_weights_can_hold_are_refused(lm: LanguageModel, tmp_path: Path):
    with pytest.raises(ConfigError, match="changes no weights"):
        save_edited_model(lm, kinds(lm)["prefix"], tmp_path / "model")
    quantised = make_edit_lm("llama")
    quantised.model.model.layers[1].mlp.down_proj.weight = torch.nn.Parameter(
        torch.zeros(32, 64, dtype=torch.int8), False
    )
    edit = Edit({LLAMA: LowRank(numbers(0, 32, 2), numbers(1, 2, 64))})
    with pytest.raises(ConfigError, match=r"layers\.1\.mlp\.down_proj are quantised or offloaded"):
        save_edited_model(quantised, edit, tmp_path / "model")
    with pytest.raises(ModelError, match="has no module 'nowhere'"):
        save_edited_model(lm, Edit({"nowhere": edit.deltas[LLAMA]}), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_an_edit_is_in_words(lm: LanguageModel):
    found = kinds(lm)
    assert describe(found["low-rank"]) == {"method": "ROME", "modules": {GPT2: "rank 3"}, "prefix": "", "edits": 1}
    assert describe(found["dense"])["modules"] == {GPT2: "dense"} and describe(found["nothing"])["edits"] == 0


def test_the_file_is_one_that_safetensors_reads(lm: LanguageModel, tmp_path: Path):
    save_edit(kinds(lm)["keys"], tmp_path / "e.safetensors")
    assert sorted(load_file(tmp_path / "e.safetensors")) == [
        "other/name/keys", f"{GPT2}/keys", f"{GPT2}/left", f"{GPT2}/right"
    ]  # fmt: skip
