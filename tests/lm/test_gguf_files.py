"""GGUF files as models: tiny ones, written as the converters of llama.cpp do, against the same weights as they are."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import huggingface_hub
import numpy as np
import pytest
import torch

from anachron.core.errors import ModelError
from anachron.lm.gguf import files as gguf_files
from anachron.lm.gguf.files import EACH_DIGIT, read_header
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.tokenizers import load_tokenizer
from support.gguf_models import CHAT, Q8_0, make_gguf_lm, tensors, write_gguf
from support.tiny_models import make_tokenizer, naive_log_prob, save

pytestmark = pytest.mark.full

PAIRS = [
    ("In 1998, who was the president of France?", "Jacques Chirac"),
    ("In May 2004, São Paulo and Zürich; who was it?", "Москва"),
    ("x", "Zürich"),
]
GEMMA = {"query_pre_attn_scalar": 8, "num_hidden_layers": 6, "layer_types": None, "sliding_window": 8}
FAMILIES = {"llama": {}, "llama tied": {"tie_word_embeddings": True}, "gemma3": GEMMA}


def made(name: str) -> LanguageModel:
    return make_gguf_lm(name.split()[0], **FAMILIES[name])


@pytest.fixture(scope="module")
def llama() -> LanguageModel:
    return make_gguf_lm()


@pytest.fixture(scope="module")
def whole(llama: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_gguf(llama, tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_those_of_the_same_weights_in_a_plain_model(name: str, tmp_path: Path):
    plain = made(name)
    loaded = load_model(write_gguf(plain, tmp_path / "tiny.gguf"))
    assert loaded.dtype == "float32" and not loaded.about()["quantised"]
    same = LanguageModel(plain.model, loaded.tokenizer, "plain")
    expected = [naive_log_prob(same, *pair) for pair in PAIRS]
    np.testing.assert_allclose(loaded.log_probs(PAIRS), expected, atol=1e-4)


def test_weights_of_blocks_are_unpacked_to_the_numbers_that_the_format_gives(llama: LanguageModel, tmp_path: Path):
    loaded = load_model(write_gguf(llama, tmp_path / "q8.gguf", kind=Q8_0))
    for name, module in (
        ("token_embd.weight", "model.embed_tokens"),
        ("blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj"),
    ):
        exact = tensors(llama.model)[name]
        stored = gguf.dequantize(gguf.quantize(exact, Q8_0), Q8_0)
        assert np.array_equal(loaded.model.get_submodule(module).weight.detach().numpy(), stored)
        assert 0 < np.abs(stored - exact).max() < np.abs(exact).max() / 100
    assert (
        load_model(write_gguf(llama, tmp_path / "q8.gguf", kind=Q8_0), dtype="bfloat16").model.dtype == torch.bfloat16
    )


def test_the_tokenizer_and_the_chat_template_are_the_files(llama: LanguageModel, whole: str):
    tokenizer = load_tokenizer(whole)
    texts = [prompt + answer for prompt, answer in PAIRS] + ["  two spaces, 31,415\n\n\tend 👩‍💻 <s>", "北京 हिन्दी"]
    assert [tokenizer(text)["input_ids"] for text in texts] == [llama.tokenizer(text)["input_ids"] for text in texts]
    known = llama.tokenizer.get_vocab()
    assert {token: i for token, i in tokenizer.get_vocab().items() if i < len(known)} == known
    assert (tokenizer.chat_template, tokenizer.eos_token, tokenizer.bos_token) == (CHAT, "</s>", "<s>")
    assert load_tokenizer(whole, chat_template="own").chat_template == "own"


def test_a_tokenizer_that_lies_beside_the_file_is_not_taken_for_its_own(whole: str, tmp_path: Path):
    make_tokenizer("mistral").save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("another")
    shutil.copy(whole, tmp_path / "tiny.gguf")
    beside, alone = load_tokenizer(str(tmp_path / "tiny.gguf")), load_tokenizer(whole)
    assert beside.get_vocab() == alone.get_vocab() and beside.chat_template == alone.chat_template == CHAT


@pytest.mark.parametrize("cut", sorted(EACH_DIGIT)[:2])
def test_every_digit_is_cut_off_where_the_file_says_so(llama: LanguageModel, cut: str, tmp_path: Path):
    tokenizer = load_tokenizer(write_gguf(llama, tmp_path / "tiny.gguf", cut=cut))
    text, gpt2 = "In 1998, and   31 years: 2x  ٣", llama.tokenizer
    parts = ["In ", *"1998", ", and   ", *"31", " years: ", "2", "x  ", "٣"]
    assert "".join(parts) == text
    assert tokenizer(text)["input_ids"] == [i for part in parts for i in gpt2(part)["input_ids"]]
    assert tokenizer(text)["input_ids"] != gpt2(text)["input_ids"]


def test_an_unknown_way_to_cut_text_is_told(llama: LanguageModel, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    load_tokenizer(write_gguf(llama, tmp_path / "tiny.gguf", cut="of-tomorrow"))
    assert "how its tokenizer cuts text (of-tomorrow)" in caplog.text and "--tokenizer" in caplog.text


# Which file


def test_a_model_may_be_named_by_its_folder_and_file(whole: str):
    folder, file = Path(whole).parent, Path(whole).name
    assert gguf_files.open_gguf(f"{folder}:{file}").path == Path(whole)
    assert load_model(f"{folder}:{file}").file == hashlib.sha256(Path(whole).read_bytes()).hexdigest()
    with pytest.raises(ModelError, match=r"no file other\.gguf in the folder"):
        load_model(f"{folder}:other.gguf")
    with pytest.raises(ModelError, match=r"no such file; a file of a hub model is written owner/name:other\.gguf"):
        load_model(f"{folder}/other.gguf")
    with pytest.raises(ModelError, match=r"is a folder of GGUF files; give one of them, such as .*tiny\.gguf"):
        load_model(str(folder))


def test_a_file_of_a_hub_model_is_brought_and_its_commit_is_known(whole: str, tmp_path: Path, monkeypatch: Any):
    commit = "0123456789" * 4
    place = tmp_path / "models--o--n" / "snapshots" / commit / "sub" / "tiny.gguf"
    asked: list[tuple[str, str, str | None]] = []

    def download(repo: str, file: str, revision: str | None = None) -> str:
        asked.append((repo, file, revision))
        if repo != "o/n":
            raise OSError("401 Client Error\nmore")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(whole, place)
        return str(place)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    loaded = load_model("o/n:sub/tiny.gguf", revision="main")
    assert set(asked) == {("o/n", "sub/tiny.gguf", "main")}
    assert (loaded.revision, loaded.name) == (commit, "o/n:sub/tiny.gguf")
    with pytest.raises(ModelError, match=r"cannot get x\.gguf of 'o/other' from the hub: 401 Client Error"):
        load_model("o/other:x.gguf")


# What is wrong with a file


def test_the_header_is_what_the_package_gguf_reads(whole: str):
    header, reader = read_header(Path(whole)), gguf.GGUFReader(whole)
    read = [(t.name, tuple(int(n) for n in reversed(t.shape)), int(t.n_bytes)) for t in reader.tensors]
    assert [(t.name, t.shape, t.size) for t in header.tensors] == read
    assert set(header.about) == {name for name in reader.fields if not name.startswith("GGUF.")}
    for name in (
        "llama.block_count",
        "llama.rope.freq_base",
        "tokenizer.chat_template",
        "tokenizer.ggml.add_bos_token",
    ):
        assert header.about[name] == reader.fields[name].contents()
    assert header.about["tokenizer.ggml.tokens"] == len(reader.fields["tokenizer.ggml.tokens"].data)


@pytest.mark.parametrize("share", [0.0, 1e-5, 0.001, 0.01, 0.05, 0.3, 0.7, 0.999999])
def test_a_file_that_is_cut_short_is_refused(whole: str, share: float, tmp_path: Path):
    data = Path(whole).read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelError, match=r"cut short: it has|is not a GGUF file"):
        load_model(str(tmp_path / "cut.gguf"))


@pytest.mark.parametrize(
    ("place", "bytes_", "words"),
    [(0, b"PK", "is not a GGUF file"), (4, b"\x01", "GGUF version 1 is not read"), (4, b"\0\0\0\x03", "GGUF version")],
)
def test_a_file_of_another_format_is_refused(whole: str, place: int, bytes_: bytes, words: str, tmp_path: Path):
    data = bytearray(Path(whole).read_bytes())
    data[place : place + len(bytes_)] = bytes_
    (tmp_path / "other.gguf").write_bytes(data)
    with pytest.raises(ModelError, match=words):
        load_model(str(tmp_path / "other.gguf"))


BAD: dict[str, dict[str, Any]] = {
    r"tensors are missing \(model\.layers\.1\.mlp\.up_proj\.weight\)": {"without": "blk.1.ffn_up.weight"},
    r"another shape \(model\.layers\.0\.mlp\.up_proj": {
        "extra": {"blk.0.ffn_up.weight": np.ones((32, 32), np.float32)}
    },
    r"leaves out rope_freqs\.weight, so its scores": {"extra": {"rope_freqs.weight": np.ones(4, np.float32)}},
    r"leaves out blk\.0\.attn_q\.bias": {"extra": {"blk.0.attn_q.bias": np.ones(32, np.float32)}},
    r"does not read GGUF files of architecture 'plamo', only .*llama.*": {"architecture": "plamo"},
    r"leaves out final_logit_softcapping 3 \(it takes None\)": {"llama__final_logit_softcapping": 3.0},
    r"leaves out rope\.scaling\.type yarn": {"llama__rope__scaling__type": "yarn"},
    r"one of 3 parts of a model": {"split__count": 3},
}


@pytest.mark.few(3)
@pytest.mark.parametrize("words", BAD)
def test_a_file_that_does_not_make_the_whole_model_is_refused(llama: LanguageModel, words: str, tmp_path: Path):
    with pytest.raises(ModelError, match=words) as caught:
        load_model(write_gguf(llama, tmp_path / "bad.gguf", **BAD[words]))
    assert "\n" not in str(caught.value)


def test_without_the_package_one_line_says_how_to_get_it(whole: str, monkeypatch: Any):
    monkeypatch.setattr(gguf_files, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install 'gguf"):
        load_model(whole)


# Identity


def test_the_identity_knows_the_file_and_the_fingerprint_only_the_model(whole: str, tmp_path: Path):
    loaded = load_model(whole)
    assert loaded.identity()["file"] == loaded.file
    json.dumps(loaded.identity(), allow_nan=False)
    plain = load_model(save(loaded, tmp_path / "plain"))
    assert "file" not in plain.identity()
    assert plain.fingerprint() == loaded.fingerprint()
    assert plain.tokenizer_fingerprint() == loaded.tokenizer_fingerprint()
    other = make_gguf_lm(seed=1)
    changed = load_model(write_gguf(replace(other), tmp_path / "other.gguf"))
    assert changed.file != loaded.file and changed.fingerprint() != loaded.fingerprint()


def test_no_bar_is_drawn_into_a_log_and_the_settings_stay(
    llama: LanguageModel, whole: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """Neither of the tensors of a GGUF file nor of the weights of a folder; afterwards transformers draws as before."""
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers import modeling_gguf_pytorch_utils as of_gguf
    from transformers.utils import logging

    llama.model.save_pretrained(tmp_path)
    llama.tokenizer.save_pretrained(tmp_path)
    capfd.readouterr()
    before = logging.is_progress_bar_enabled(), are_progress_bars_disabled(), of_gguf.tqdm
    load_model(whole)
    load_model(str(tmp_path))
    assert capfd.readouterr().err == ""
    assert (logging.is_progress_bar_enabled(), are_progress_bars_disabled(), of_gguf.tqdm) == before
