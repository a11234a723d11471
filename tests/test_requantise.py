"""tools/requantise.py: what it writes is what the package gguf reads, and what llama.cpp computes with."""

import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader

from support.gguf_models import make_gguf_lm, write_gguf

TOOL = Path(__file__).parents[1] / "tools" / "requantise.py"
STEP = {"F32": 0.0, "F16": 2.0**-11, "BF16": 2.0**-8, "Q8_0": 1 / 127, "Q4_0": 1 / 8, "Q4_1": 1 / 15}  # of the largest


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *map(str, words)], capture_output=True, text=True)


@pytest.mark.full
def test_weights_and_metadata_of_every_kind(tmp_path: Path):
    source = Path(write_gguf(make_gguf_lm("llama"), tmp_path / "source.gguf"))
    before = GGUFReader(source)
    for kind, step in STEP.items():
        target = tmp_path / f"{kind}.gguf"
        assert run(source, target, kind).returncode == 0
        after = GGUFReader(target)
        skipped = ("GGUF.", "general.file_type", "general.quantization_version")
        for name, field in before.fields.items():
            if not name.startswith(skipped):
                assert after.fields[name].contents() == field.contents()
        for old, new in zip(before.tensors, after.tensors, strict=True):
            assert old.name == new.name and list(old.shape) == list(new.shape)
            wanted = kind if len(old.shape) > 1 else "F32"
            assert new.tensor_type == GGMLQuantizationType[wanted]
            weights = gguf.dequantize(new.data, new.tensor_type).reshape(old.data.shape)
            assert np.abs(weights - old.data).max() <= (step if wanted == kind else 0) * 2 * np.abs(old.data).max()


def test_rows_that_do_not_divide_into_blocks_stay_float32(tmp_path: Path):
    source = write_gguf(make_gguf_lm("llama", intermediate_size=48), tmp_path / "source.gguf")
    assert run(source, tmp_path / "q.gguf", "Q8_0").returncode == 0
    kinds = {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(tmp_path / "q.gguf").tensors}
    assert kinds["blk.0.ffn_down.weight"] == "F32" and kinds["blk.0.ffn_up.weight"] == "Q8_0"


@pytest.mark.parametrize("words", [["none.gguf", "out.gguf", "Q8_0"], ["none.gguf", "out.gguf", "Q9"]])
def test_nothing_is_written_where_something_is_wrong(words: list[str], tmp_path: Path):
    done = run(*(tmp_path / word if word.endswith("gguf") else word for word in words))
    assert done.returncode and not list(tmp_path.iterdir())
