"""Headers of GGUF files that say what no model can be: one line, and never the end of the process."""

import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import anachron
from anachron.core.errors import ModelError
from anachron.lm.gguf.files import open_gguf
from anachron.lm.gguf.trial import try_in_child
from anachron.lm.loading import load_model
from support.gguf_headers import KINDS, broken_headers, with_values
from support.gguf_models import make_gguf_lm, write_gguf


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_gguf(make_gguf_lm(), tmp_path_factory.mktemp("gguf") / "tiny.gguf")


WRONG: dict[str, dict[str, Any]] = {
    r"general\.alignment is 0, and must be a power of two": {"general__alignment": 0},
    r"general\.alignment is '32', and must be a whole number": {"general__alignment": "32"},
    r"split\.count is 'two', and must be a whole number": {"split__count": "two"},
    r"llama\.block_count is 0, and must be at least 1": {"llama__block_count": 0},
    r"llama\.block_count is 2147483647, and the file has tensors of 2 blocks": {"llama__block_count": 2**31 - 1},
    r"layer_norm_rms_epsilon is nan, and must be a finite": {"llama__attention__layer_norm_rms_epsilon": math.nan},
    r"layer_norm_rms_epsilon is -1\.0, and must be": {"llama__attention__layer_norm_rms_epsilon": -1.0},
    r"llama\.attention\.head_count is 0, and must be at least 1": {"llama__attention__head_count": 0},
    r"bos_token_id is 4294967295, and must be one of the 480": {"tokenizer__ggml__bos_token_id": 2**32 - 1},
    r"tokenizer\.ggml\.pre is 3, and must be a text": {"tokenizer__ggml__pre": 3},
    r"tokenizer\.ggml\.tokens is 1\.5, and must be a list": {"tokenizer__ggml__tokens": 1.5},
}


@pytest.mark.parametrize("words", WRONG)
def test_a_value_that_no_model_has_is_named_before_anything_is_loaded(words: str, tmp_path: Path):
    path = write_gguf(make_gguf_lm(), tmp_path / "bad.gguf", **WRONG[words])
    with pytest.raises(ModelError, match=words) as caught:
        open_gguf(path)
    assert "\n" not in str(caught.value)


def test_sizes_that_the_tensors_do_not_have_reserve_no_memory(tmp_path: Path):
    for key in ("vocab_size", "feed_forward_length"):
        path = write_gguf(make_gguf_lm(), tmp_path / "bad.gguf", **{f"llama__{key}": 2**31 - 1})
        with pytest.raises(ModelError, match=r"describe a model of [\d,]+ numbers, and its tensors have 49,312"):
            load_model(path)


def test_a_key_that_stands_twice_is_refused(whole: str, tmp_path: Path):
    data = Path(whole).read_bytes()
    twice = data.replace(b"llama.context_length", b"llama.embedding_leng").replace(
        b"llama.embedding_length", b"llama.embedding_leng\0\0"
    )
    assert twice != data
    name = b"llama.block_count"
    place = data.index(b"llama.vocab_size") - 8  # another key of that length is written over
    begin = struct.pack("<Q", len(name))
    (tmp_path / "bad.gguf").write_bytes(data[:place] + begin + name + data[place + 8 + len(b"llama.vocab_size") :])
    with pytest.raises(ModelError, match=r"the key llama\.block_count stands in the file twice"):
        open_gguf(str(tmp_path / "bad.gguf"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_every_other_type_is_read_or_refused_in_one_line(whole: str, kind: str, tmp_path: Path):
    path, tried = tmp_path / "bad.gguf", 0
    for content in with_values(Path(whole).read_bytes(), kind):
        path.write_bytes(content)
        refused_in_one_line(path)
        tried += 1
    assert tried > 20


def test_sizes_and_bytes_that_lie_are_read_or_refused_in_one_line(whole: str, tmp_path: Path):
    path = tmp_path / "bad.gguf"
    for content in broken_headers(Path(whole).read_bytes(), seed=0, number=300):
        path.write_bytes(content)
        refused_in_one_line(path)


def refused_in_one_line(path: Path) -> None:
    try:
        open_gguf(str(path))
    except ModelError as error:
        assert "\n" not in str(error)


def test_a_file_over_which_llama_cpp_ends_its_process_costs_one_line(tmp_path: Path):
    path = write_gguf(make_gguf_lm(), tmp_path / "bad.gguf", llama__expert_used_count=3)
    with pytest.raises(ModelError, match=r"llama\.cpp ended its process \(SIGABRT\) over .*GGML_ASSERT\(.*\) failed"):
        try_in_child(Path(path))


@pytest.mark.full
def test_the_command_line_outlives_a_file_over_which_llama_cpp_ends_its_process(tmp_path: Path):
    path = write_gguf(make_gguf_lm(), tmp_path / "bad.gguf", llama__expert_used_count=3)
    asked = ["--dataset", "mini", "--limit", "1", "--backend", "llama.cpp", "--out", "run"]
    command = [sys.executable, "-m", "anachron", "probe", path, *asked]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(anachron.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and re.search("ended its process", " ".join(done.stderr.split()))
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr
