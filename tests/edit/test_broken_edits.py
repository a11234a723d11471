"""Files that are no edit, or a broken one: each is refused in one line, and none is to be deleted by its owner."""

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from anachron.cli.main import run_command
from anachron.core.errors import AnachronError, DataError, ModelError
from anachron.edit.base import Dense, Edit, LowRank, edited
from anachron.edit.storage import FORMAT, load_edit, save_edit
from anachron.edit.tensors import read_manifest, read_tensors, write_tensors
from anachron.evaluate import joint_edits
from anachron.io.run_folder import RunFolder
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm

MODULE = "transformer.h.1.mlp.c_proj"  # 32 outputs, 128 inputs
GOOD = {"format": FORMAT, "model": None, "prefix": "", "about": {}, "versions": {}}


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape).to(dtype)


def low(left: torch.Tensor, right: torch.Tensor, module: str = MODULE) -> dict[str, torch.Tensor]:
    return {f"{module}/left": left, f"{module}/right": right}


PAIR = low(ones(32, 2), ones(2, 128))
NAN, INF = float("nan"), float("inf")

# Files that are written whole, with a checksum that is right: tensors, and what the manifest has otherwise.
WRITTEN: dict[str, tuple[dict[str, torch.Tensor], dict[str, Any]]] = {
    "another format": (PAIR, {"format": "anachron edit 99"}),
    "a network": (PAIR, {"format": "anachron mend network 1"}),
    "a number as format": (PAIR, {"format": 1}),
    "no format": (PAIR, {"format": None}),
    "a number as prefix": (PAIR, {"prefix": 5}),
    "no prefix": (PAIR, {"prefix": None}),
    "a list as about": (PAIR, {"about": ["ROME"]}),
    "no about": (PAIR, {"about": None}),
    "a number as model": (PAIR, {"model": 7}),
    "a dict as model": (PAIR, {"model": {}}),
    "edits below 0": (PAIR, {"about": {"edits": -1}}),
    "edits as text": (PAIR, {"about": {"edits": "many"}}),
    "half an edit": (PAIR, {"about": {"edits": 1.5}}),
    "left alone": ({f"{MODULE}/left": ones(32, 2)}, {}),
    "right alone": ({f"{MODULE}/right": ones(2, 128)}, {}),
    "bias alone": ({f"{MODULE}/bias": ones(32)}, {}),
    "both kinds": (PAIR | {f"{MODULE}/weight": ones(32, 128)}, {}),
    "an unknown part": (PAIR | {f"{MODULE}/middle": ones(2, 2)}, {}),
    "no part": ({MODULE: ones(32, 128)}, {}),
    "another file's tensors": ({"transformer.wte.weight": ones(4, 4)}, {}),
    "whole numbers": (low(ones(32, 2, dtype=torch.int8), ones(2, 128, dtype=torch.int8)), {}),
    "long numbers": ({f"{MODULE}/weight": ones(32, 128, dtype=torch.int64)}, {}),
    "bools": ({f"{MODULE}/weight": ones(32, 128, dtype=torch.bool)}, {}),
    "float8": ({f"{MODULE}/weight": ones(32, 128, dtype=torch.float8_e4m3fn)}, {}),
    "complex": ({f"{MODULE}/weight": ones(32, 128, dtype=torch.complex64)}, {}),
    "two dtypes": (low(ones(32, 2), ones(2, 128, dtype=torch.float64)), {}),
    "ranks apart": (low(ones(32, 2), ones(3, 128)), {}),
    "right turned": (low(ones(32, 2), ones(128, 2)), {}),
    "a number": (low(ones(), ones()), {}),
    "vectors": (low(ones(32), ones(128)), {}),
    "three dimensions": (low(ones(1, 32, 2), ones(1, 2, 128)), {}),
    "a weight of three": ({f"{MODULE}/weight": ones(1, 32, 128)}, {}),
    "a bias of two": ({f"{MODULE}/weight": ones(32, 128), f"{MODULE}/bias": ones(32, 1)}, {}),
    "a short bias": ({f"{MODULE}/weight": ones(32, 128), f"{MODULE}/bias": ones(31)}, {}),
    "NaN on the left": (low(ones(32, 2) * NAN, ones(2, 128)), {}),
    "infinity on the right": (low(ones(32, 2), ones(2, 128) * INF), {}),
    "one NaN": ({f"{MODULE}/weight": ones(32, 128).index_put((torch.tensor(3),), torch.tensor(NAN))}, {}),
    "NaN in a bias": ({f"{MODULE}/weight": ones(32, 128), f"{MODULE}/bias": ones(32) * NAN}, {}),
    "NaN in keys": (PAIR | {f"{MODULE}/keys": ones(3, 128) * NAN}, {}),
    "keys of one dimension": (PAIR | {f"{MODULE}/keys": ones(128)}, {}),
    # these can be read, and belong to no such module
    "no such module": (low(ones(32, 2), ones(2, 128), "model.layers.9"), {}),
    "no module's name": (low(ones(32, 2), ones(2, 128), ""), {}),
    "a name with dots": (low(ones(32, 2), ones(2, 128), "transformer..h"), {}),
    "a path as name": (low(ones(32, 2), ones(2, 128), "../../etc/passwd"), {}),
    "a name of two lines": (low(ones(32, 2), ones(2, 128), "transformer\nh.\x1b[31m"), {}),
    "a method as name": (low(ones(32, 2), ones(2, 128), "forward"), {}),
    "a block": (low(ones(32, 2), ones(2, 128), "transformer.h.1"), {}),
    "too wide": (low(ones(32, 2), ones(2, 129)), {}),
    "turned": ({f"{MODULE}/weight": ones(128, 32)}, {}),
    "nothing in it": (low(ones(0, 0), ones(0, 0)), {}),
    "too large together": (low(ones(32, 2) * 1e30, ones(2, 128) * 1e30), {}),
    "of another model": (PAIR, {"model": "0" * 64}),
    "of a number's configuration": (PAIR, {"model": "0" * 64, "about": {"made_on": 5}}),
}


def header(text: str | bytes, body: bytes = b"", length: int | None = None) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data) if length is None else length) + data + body


def tensors_header(**entry: Any) -> str:
    plain = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    return json.dumps({"m/left": plain | entry, "__metadata__": {"manifest": json.dumps(GOOD)}})


def without_checksum(text: str) -> Callable[[Path, bytes], None]:
    return lambda path, good: save_file(PAIR, path, {"manifest": text})


def flipped(at: Callable[[bytes], int]) -> Callable[[Path, bytes], None]:
    def write(path: Path, good: bytes) -> None:
        place = at(good)
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])

    return write


def zipped(path: Path, good: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("edit", good)


# Files that are broken as bytes, from those of a good edit.
BYTES: dict[str, Callable[[Path, bytes], Any]] = {
    "missing": lambda path, good: None,
    "a folder": lambda path, good: path.mkdir(),
    "empty": lambda path, good: path.write_bytes(b""),
    "text": lambda path, good: path.write_text("an edit\nof two lines"),
    "zeros": lambda path, good: path.write_bytes(bytes(100)),
    "a pickle": lambda path, good: path.write_bytes(pickle.dumps(dict(GOOD))),
    "a checkpoint of torch": lambda path, good: torch.save(PAIR, path),
    "a zip": zipped,
    "seven bytes": lambda path, good: path.write_bytes(good[:7]),
    "half a header": lambda path, good: path.write_bytes(good[:60]),
    "cut by one byte": lambda path, good: path.write_bytes(good[:-1]),
    "cut by half": lambda path, good: path.write_bytes(good[: len(good) // 2]),
    "one byte more": lambda path, good: path.write_bytes(good + b"x"),
    "twice": lambda path, good: path.write_bytes(good + good),
    "a huge header": lambda path, good: path.write_bytes(header("{}", length=2**63)),
    "a header that is no JSON": lambda path, good: path.write_bytes(header("{no")),
    "a header that is no text": lambda path, good: path.write_bytes(header(b"\xff\xfe{}")),
    "a deep header": lambda path, good: path.write_bytes(header("[" * 100_000)),
    "a header of a list": lambda path, good: path.write_bytes(header("[]")),
    "numbers as metadata": lambda path, good: path.write_bytes(header('{"__metadata__": {"manifest": 5}}')),
    "an unknown dtype": lambda path, good: path.write_bytes(header(tensors_header(dtype="F7"), bytes(16))),
    "a huge shape": lambda path, good: path.write_bytes(header(tensors_header(shape=[2**62, 2**62]), bytes(16))),
    "a shape below 0": lambda path, good: path.write_bytes(header(tensors_header(shape=[-2, -2]), bytes(16))),
    "offsets beyond the end": lambda path, good: path.write_bytes(header(tensors_header(data_offsets=[0, 99]))),
    "offsets turned": lambda path, good: path.write_bytes(header(tensors_header(data_offsets=[16, 0]), bytes(16))),
    "no manifest": lambda path, good: save_file(PAIR, path),
    "no checksum": without_checksum(json.dumps(GOOD)),
    "a manifest that is no JSON": without_checksum("{"),
    "a manifest of a list": without_checksum('["anachron edit 1"]'),
    "a manifest of a number": without_checksum("1e400"),
    "a manifest of a huge number": without_checksum("9" * 5000),
    "a deep manifest": without_checksum("[" * 100_000),
    "a wrong checksum": without_checksum(json.dumps(GOOD | {"sha256": "0" * 64})),
    "a number as checksum": without_checksum(json.dumps(GOOD | {"sha256": 1})),
    "a flipped number": flipped(lambda good: len(good) - 1),
    "another flipped number": flipped(lambda good: len(good) - 1000),
    "a flipped letter of the prefix": flipped(lambda good: good.index(b"Rome is")),
    "a flipped letter of a name": flipped(lambda good: good.index(b"c_proj/left")),
}  # fmt: skip


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("gpt2")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "edit.safetensors"
    generator = torch.Generator().manual_seed(0)
    change = LowRank(torch.randn(32, 2, generator=generator), torch.randn(2, 128, generator=generator))
    save_edit(Edit({MODULE: change}, "Rome is in Italy. "), path)
    assert load_edit(path).prefix == "Rome is in Italy. "
    return path.read_bytes()


def put_on(lm: LanguageModel, path: Path) -> None:
    with edited(lm, load_edit(path)):
        raise AssertionError("never in force")


def check_said(error: AnachronError) -> None:
    said = str(error)
    assert "\n" not in said and "\x1b" not in said and len(said) < 500
    assert "delete" not in said
    assert "; " in said or said.startswith("load the model it was made on: ")  # what to do


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_is_no_edit_is_refused(kind: str, lm: LanguageModel, tmp_path: Path):
    tensors, otherwise = WRITTEN[kind]
    path, before = tmp_path / "edit.safetensors", lm.fingerprint()
    write_tensors(
        path, tensors, {name: v for name, v in (GOOD | otherwise).items() if v is not None or name == "model"}
    )
    with pytest.raises((DataError, ModelError)) as caught:
        put_on(lm, path)
    check_said(caught.value)
    assert lm.fingerprint() == before


@pytest.mark.parametrize("kind", BYTES)
def test_broken_files_are_refused(kind: str, good: bytes, lm: LanguageModel, tmp_path: Path):
    path = tmp_path / "edit.safetensors"
    BYTES[kind](path, good)
    with pytest.raises(DataError) as caught:
        put_on(lm, path)
    check_said(caught.value)
    assert str(path) in str(caught.value)
    if kind == "missing":
        assert "is not there; give a file that anachron edit --out or save_edit wrote" in str(caught.value)


def test_a_file_that_may_not_be_read(good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "edit").write_bytes(good)
    monkeypatch.setattr("anachron.edit.tensors.safe_open", refuse)
    with pytest.raises(DataError, match="Permission denied") as caught:
        load_edit(tmp_path / "edit")
    check_said(caught.value)


def test_a_broken_edit_given_to_a_command(good: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "Paris is in", "answer": "France"}\n')
    for kind in ("missing", "text", "no manifest", "a flipped number"):
        path = tmp_path / f"{kind}.safetensors"
        BYTES[kind](path, good)
        pairs, out = str(tmp_path / "pairs.jsonl"), tmp_path / "scores.parquet"
        assert run_command(["score", "demo", "--input", pairs, "--out", str(out), "--edit", str(path)], False) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert str(path) in line and "delete" not in line and not out.exists()


def test_a_file_that_a_run_keeps_for_itself_may_be_deleted(good: bytes, lm: LanguageModel, tmp_path: Path):
    run = RunFolder.open(tmp_path / "run", {})
    run.write("sequence", good[:-1])
    with pytest.raises(DataError, match="delete it and repeat the command"):
        joint_edits.load(lm, joint_edits.EditFile(run, "sequence", warn=lambda message: None))


@pytest.mark.parametrize("value", [NAN, INF])
def test_edits_that_are_not_finite_are_neither_saved_nor_put_on(value: float, lm: LanguageModel, tmp_path: Path):
    bad = [
        LowRank(ones(32, 1) * value, ones(1, 128)), LowRank(ones(32, 1), ones(1, 128) * value),
        Dense(ones(32, 128) * value), Dense(ones(32, 128), ones(32) * value),
    ]  # fmt: skip
    for delta in bad:
        with pytest.raises(ModelError, match="holds NaN or infinite numbers"), edited(lm, Edit({MODULE: delta})):
            raise AssertionError("never in force")
        with pytest.raises(ModelError, match="holds NaN or infinite numbers"):
            save_edit(Edit({MODULE: delta}), tmp_path / "edit")
    assert not list(tmp_path.iterdir())


def test_an_edit_that_does_not_fit_into_the_models_dtype_is_refused():
    half = make_edit_lm("gpt2", dtype=torch.float16)
    edit = Edit({MODULE: LowRank(ones(32, 1) * 1000, ones(1, 128) * 1000)})
    with (
        pytest.raises(ModelError, match=r"do not fit into torch.float16; load it in bfloat16"),
        edited(half, edit),
    ):
        raise AssertionError("never in force")


# The files themselves


def test_every_flipped_bit_of_the_content_is_found(tmp_path: Path):
    """Every byte of a small file: it is refused, or what is read is what was written (white space in the header)."""
    tensors = {"a": torch.arange(6, dtype=torch.float32).reshape(2, 3), "b": ones(3, dtype=torch.bfloat16)}
    manifest = {"format": "x", "n": 1, "text": "Zürich"}
    path = tmp_path / "t.safetensors"
    write_tensors(path, tensors, manifest)
    written, silent = path.read_bytes(), 0
    for place in range(len(written)):
        path.write_bytes(written[:place] + bytes([written[place] ^ (1 << place % 8)]) + written[place + 1 :])
        try:
            found, about = read_tensors(path)
        except DataError:
            continue
        silent += 1
        assert about == manifest and found.keys() == tensors.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert silent < 10


def test_the_checksum_is_no_part_of_the_manifest_that_comes_back(tmp_path: Path):
    write_tensors(tmp_path / "t", {"a": ones(0, 3), "b": ones()}, {"numbers": {1: 2.5}, "none": None})
    assert read_tensors(tmp_path / "t")[1] == read_manifest(tmp_path / "t") == {"numbers": {"1": 2.5}, "none": None}
    with pytest.raises(DataError, match="not there; delete it and repeat the command"):
        read_tensors(tmp_path / "u")
