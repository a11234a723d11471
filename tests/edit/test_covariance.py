"""C = E[k kT]: against a plain loop, resumed, cached, inverted, refused."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from anachron.core.errors import BackendError, ConfigError, DataError, ModelError
from anachron.edit import corpus as corpora
from anachron.edit.covariance import collect as covariance
from anachron.edit.covariance.collect import SecondMoment, cache_folder, collect_covariance
from anachron.io.jobs import Callbacks
from anachron.lm.model import LanguageModel
from support.tiny_models import FAMILIES, VOCABULARY, make_lm, make_tokenizer

MODULES = {
    "gpt2": ("transformer.h.0.mlp.c_proj", "transformer.h.1.mlp.c_proj"),
    "neox": ("gpt_neox.layers.0.mlp.dense_4h_to_h", "gpt_neox.layers.1.mlp.dense_4h_to_h"),
    "opt": ("model.decoder.layers.0.fc2", "model.decoder.layers.1.fc2"),
    **dict.fromkeys(("llama", "mistral", "gemma2"), ("model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj")),
}
ROOT = Path(__file__).parent.parent.parent


def words(count: int, seed: int = 0) -> str:
    """Made-up lines: other words each time, so that few inputs are the same."""
    chooser = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyzéü"
    return "".join(
        "".join(chooser.choice(letters) for _ in range(chooser.randint(1, 8))) + chooser.choice("  \n")
        for _ in range(count)
    )


def tiny(family: str) -> LanguageModel:
    if family != "opt":
        return make_lm(family, {"gpt2": "gpt2", "neox": "pythia"}.get(family, "mistral"))
    config = transformers.OPTConfig(
        vocab_size=VOCABULARY, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
        word_embed_proj_dim=32, max_position_embeddings=512, init_std=0.3,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return LanguageModel(model.eval(), make_tokenizer("gpt2"), "tiny-opt")


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write(tmp_path / "text.txt", words(400))


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return tiny("llama")


LAST = MODULES["llama"][1]


def naive(lm: LanguageModel, module: str, text: str, window: int, tokens: int) -> np.ndarray:
    """A window at a time through the whole model, a token at a time into the sum."""
    ids = lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    bos = [lm.tokenizer.bos_token_id] if lm.tokenizer("a")["input_ids"][0] == lm.tokenizer.bos_token_id else []
    step, caught = window - len(bos), []
    windows = [bos + ids[i : i + step] for i in range(0, len(ids), step)]
    handle = lm.model.get_submodule(module).register_forward_hook(lambda m, given, made: caught.append(given[0]))
    with torch.no_grad():
        for one in windows:
            lm.model(input_ids=torch.tensor([one]))
    handle.remove()
    total = np.zeros((caught[0].shape[-1],) * 2)
    keys = [key for batch in caught for key in batch.reshape(-1, batch.shape[-1]).double().numpy()][:tokens]
    assert len(keys) == tokens
    for key in keys:
        total += np.outer(key, key)
    return total / len(keys)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.rglob("*.safetensors")}


# The matrix


@pytest.mark.parametrize("family", [*FAMILIES, "opt"])
@pytest.mark.families("gemma2")
def test_equals_a_plain_loop_over_tokens(family: str, text: Path):
    lm = tiny(family)
    before = lm.fingerprint()
    # 500 is no multiple of 24: the last window is shorter, and nothing is padded for it
    found = collect_covariance(lm, MODULES[family], text, tokens=500, window=24, batch_tokens=100)
    assert list(found) == list(MODULES[family])
    for module, moment in found.items():
        expected = naive(lm, module, text.read_text("utf-8"), 24, 500)
        np.testing.assert_allclose(moment.matrix.numpy(), expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        assert torch.equal(moment.matrix, moment.matrix.T)
        assert (moment.module, moment.tokens, moment.matrix.dtype) == (module, 500, torch.float64)
    assert lm.fingerprint() == before
    assert not any(m._forward_pre_hooks for m in lm.model.modules())
    assert torch.get_default_dtype() == torch.float32


def test_the_same_in_float32_to_its_precision(lm: LanguageModel, text: Path):
    exact = collect_covariance(lm, [LAST], text, tokens=500, window=32)[LAST]
    single = collect_covariance(lm, [LAST], text, tokens=500, window=32, precision="float32")[LAST]
    assert single.matrix.dtype == torch.float32
    torch.testing.assert_close(single.matrix.double(), exact.matrix, rtol=1e-5, atol=1e-6)


def test_batches_and_companions_change_nothing(lm: LanguageModel, text: Path):
    one = collect_covariance(lm, [LAST], text, tokens=600, window=32, batch_tokens=1)[LAST].matrix
    many = collect_covariance(lm, MODULES["llama"], text, tokens=600, window=32, batch_tokens=4096)[LAST].matrix
    torch.testing.assert_close(one, many, rtol=1e-6, atol=1e-6 * float(one.abs().max()))


def test_the_window_changes_nothing_where_the_text_is_shorter(lm: LanguageModel, tmp_path: Path):
    short = write(tmp_path / "short.txt", words(20))
    heard: list[str] = []
    callbacks = Callbacks(warn=heard.append)
    a, b = (collect_covariance(lm, [LAST], short, tokens=500, window=w, callbacks=callbacks)[LAST] for w in (200, 400))
    torch.testing.assert_close(a.matrix, b.matrix, rtol=1e-6, atol=1e-6)
    assert a.tokens == b.tokens == len(lm.tokenizer(short.read_text("utf-8"))["input_ids"])
    assert f"only {a.tokens} of the 500 tokens" in heard[0]


def test_pieces_of_a_file_make_one_text(lm: LanguageModel, text: Path, monkeypatch: pytest.MonkeyPatch):
    whole = collect_covariance(make_lm("gpt2"), MODULES["gpt2"][:1], text, tokens=700, window=32)
    monkeypatch.setattr("anachron.edit.corpus.PIECE", 64)
    pieces = collect_covariance(make_lm("gpt2"), MODULES["gpt2"][:1], text, tokens=700, window=32)
    a, b = (next(iter(found.values())).matrix for found in (whole, pieces))
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6 * float(a.abs().max()))  # byte-level BPE: cut at line ends


def test_only_the_blocks_needed_are_run(lm: LanguageModel, text: Path):
    seen: list[int] = []
    handles = [
        block.mlp.register_forward_hook(lambda m, given, made, number=number: seen.append(number))
        for number, block in enumerate(lm.model.model.layers)
    ]
    try:
        collect_covariance(lm, MODULES["llama"][:1], text, tokens=100)
    finally:
        for handle in handles:
            handle.remove()
    assert seen == []  # not even the projection itself, whose input was all that was wanted


def test_the_default_window_is_what_the_model_reads(text: Path):
    longest: list[int] = []
    lm = tiny("gpt2")
    handle = lm.model.transformer.wte.register_forward_pre_hook(lambda m, given: longest.append(given[0].shape[1]))
    collect_covariance(lm, MODULES["gpt2"][:1], text, tokens=1000)
    handle.remove()
    assert longest == [512, 488]


# Reading


def test_compressed_text_and_tables_give_the_same(lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lines = words(300).splitlines(keepends=True)
    plain = write(tmp_path / "a.txt", "".join(lines))
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    monkeypatch.setattr("anachron.edit.corpus.PIECE", 300)
    a, b = (collect_covariance(lm, [LAST], corpus, tokens=400, window=32)[LAST] for corpus in (plain, packed))
    assert torch.equal(a.matrix, b.matrix)


def test_data_sets_are_streamed(lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("datasets")
    lines = words(300).splitlines(keepends=True)
    plain = write(tmp_path / "a.txt", "".join(lines))
    (tmp_path / "set").mkdir()
    rows = "".join(json.dumps({"body": line}) + "\n" for line in [*lines[:5], "", *lines[5:]])
    table = write(tmp_path / "set" / "train.jsonl", rows)
    a = collect_covariance(lm, [LAST], plain, tokens=400, window=32)[LAST]
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    for name in (table, table.parent, packed):
        corpus = corpora.open_corpus(name, column="body")
        assert torch.equal(a.matrix, collect_covariance(lm, [LAST], corpus, tokens=400, window=32)[LAST].matrix)
    with pytest.raises(ConfigError, match="no column 'text'; choose among body"):
        collect_covariance(lm, [LAST], table.parent)
    with pytest.raises(ConfigError, match="not a text file, and as a data set"):
        collect_covariance(lm, [LAST], tmp_path / "nothing.jsonl")
    before = corpora.open_corpus(table.parent, column="body").identity
    write(table, rows + rows)
    assert corpora.open_corpus(table.parent, column="body").identity != before

    monkeypatch.setattr("anachron.edit.corpus.PIECE", 200)
    corpus = corpora.open_corpus(table, column="body")
    pieces = list(corpus.pieces())
    assert len(pieces) > 3
    assert list(corpus.pieces(pieces[2][0])) == pieces[2:]


def test_long_lines_are_cut_between_words_and_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("anachron.edit.corpus.PIECE", 16)
    content = "\ufeff\n \n" + " \n" * 30 + "aé" * 20 + " word" * 9 + "\nएक दो तीन चार\n\n"
    pieces = list(corpora.open_corpus(write(tmp_path / "long.txt", content)).pieces())
    assert "".join(text for _, text in pieces) == content[content.index("a") :]
    data = content.encode()
    assert all(data[at : at + len(text.encode())].decode() == text for at, text in pieces)


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_a_corpus_without_text_is_refused(lm: LanguageModel, tmp_path: Path, content: bytes):
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"empty\.txt: it contains no text"):
        collect_covariance(lm, [LAST], path, cache=tmp_path / "cache")
    assert files(tmp_path / "cache") == {}


def test_broken_files_are_named(lm: LanguageModel, tmp_path: Path):
    (tmp_path / "latin.txt").write_bytes("caf\xe9 ".encode("latin-1") * 9)
    with pytest.raises(DataError, match=r"latin\.txt, byte 3: not UTF-8"):
        collect_covariance(lm, [LAST], tmp_path / "latin.txt")
    (tmp_path / "cut.txt.gz").write_bytes(b"\x1f\x8b\x08\x00abc")
    with pytest.raises(DataError, match=r"cannot read .*cut\.txt\.gz"):
        collect_covariance(lm, [LAST], tmp_path / "cut.txt.gz")
    with pytest.raises(ConfigError, match="no such file"):
        collect_covariance(lm, [LAST], tmp_path / "none.txt")


# Interrupted passes

SETTINGS = {"tokens": 900, "window": 24, "batch_tokens": 100, "checkpoint_seconds": 0.0}


class Stop(Exception):
    pass


def stop_at(count: int) -> Callbacks:
    def progress(done: int, total: int) -> None:
        if done >= count:
            raise Stop

    return Callbacks(progress=progress)


def listen(done: list[int]) -> Callbacks:
    """Callbacks that note how many tokens are done."""
    return Callbacks(progress=lambda tokens, total: done.append(tokens))


def test_a_resumed_pass_gives_the_same_bytes(lm: LanguageModel, text: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("anachron.edit.corpus.PIECE", 256)
    collect_covariance(lm, MODULES["llama"], text, cache=tmp_path / "whole", **SETTINGS)
    for count in (200, 600):
        with pytest.raises(Stop):
            collect_covariance(
                lm, MODULES["llama"], text, cache=tmp_path / "parts", callbacks=stop_at(count), **SETTINGS
            )
        assert list(files(tmp_path / "parts")) == ["checkpoint.safetensors"]
    firsts: list[int] = []
    collect_covariance(
        lm, MODULES["llama"], text, cache=tmp_path / "parts", callbacks=listen(firsts), **SETTINGS
    )  # fmt: skip
    assert firsts[0] > 600
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert len(files(tmp_path / "whole")) == 2
    again: list[int] = []
    found = collect_covariance(lm, [LAST], text, cache=tmp_path / "parts", callbacks=listen(again), **SETTINGS)
    assert again == []  # it is there
    assert found[LAST].matrix.shape == (64, 64)


@pytest.mark.full
def test_a_killed_pass_goes_on(lm: LanguageModel, text: Path, tmp_path: Path):
    script = (
        "import os, signal, sys\n"
        "from test_covariance import MODULES, SETTINGS, Callbacks, collect_covariance, tiny\n"
        "def kill(done, total):\n"
        "    if done > 400: os.kill(os.getpid(), signal.SIGKILL)\n"
        "callbacks = Callbacks(progress=kill)\n"
        "text, cache = sys.argv[1:]\n"
        "collect_covariance(tiny('llama'), MODULES['llama'], text, cache=cache, callbacks=callbacks, **SETTINGS)\n"
    )
    places = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", script, str(text), str(tmp_path / "parts")], env=os.environ | {"PYTHONPATH": places}
    )
    assert done.returncode == -signal.SIGKILL
    assert list(files(tmp_path / "parts")) == ["checkpoint.safetensors"]
    firsts: list[int] = []
    collect_covariance(lm, MODULES["llama"], text, cache=tmp_path / "parts", callbacks=listen(firsts), **SETTINGS)
    assert firsts[0] > 400
    collect_covariance(lm, MODULES["llama"], text, cache=tmp_path / "whole", **SETTINGS)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_killed_while_the_results_are_written(lm: LanguageModel, text: Path, tmp_path: Path, monkeypatch):
    written: list[str] = []
    write_tensors = covariance.write_tensors

    def only_one(path: Path, *arguments) -> None:
        if path.name != "checkpoint.safetensors":
            if written:
                raise Stop
            written.append(path.name)
        write_tensors(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(covariance, "write_tensors", only_one)
        with pytest.raises(Stop):
            collect_covariance(lm, MODULES["llama"], text, cache=tmp_path / "parts", **SETTINGS)
    assert len(files(tmp_path / "parts")) == 2
    heard: list[int] = []
    collect_covariance(lm, MODULES["llama"], text, cache=tmp_path / "parts", callbacks=listen(heard), **SETTINGS)
    assert heard == []  # the checkpoint held all sums
    collect_covariance(lm, MODULES["llama"], text, cache=tmp_path / "whole", **SETTINGS)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_a_checkpoint_of_other_settings_is_refused(lm: LanguageModel, text: Path, tmp_path: Path):
    with pytest.raises(Stop):
        collect_covariance(lm, [LAST], text, cache=tmp_path, callbacks=stop_at(200), **SETTINGS)
    for change, words_of_it in [
        ({"batch_tokens": 50}, "batch_tokens: 100 -> 50"),
        ({"window": 12}, "window: 24 -> 12"),
        ({"precision": "float32"}, "precision: 'float64' -> 'float32'"),
    ]:
        with pytest.raises(ConfigError, match=words_of_it):
            collect_covariance(lm, [LAST], text, cache=tmp_path, **(SETTINGS | change))
    with pytest.raises(ConfigError, match="modules: "):
        collect_covariance(lm, MODULES["llama"], text, cache=tmp_path, **SETTINGS)
    assert list(files(tmp_path)) == ["checkpoint.safetensors"]


def test_a_finished_matrix_of_other_settings_is_refused(lm: LanguageModel, text: Path, tmp_path: Path):
    collect_covariance(lm, [LAST], text, cache=tmp_path, **SETTINGS)
    with pytest.raises(ConfigError, match="window: 24 -> 12"):
        collect_covariance(lm, [LAST], text, cache=tmp_path, **(SETTINGS | {"window": 12}))
    collect_covariance(
        lm, [LAST], text, cache=tmp_path, **(SETTINGS | {"batch_tokens": 7})
    )  # how it was computed does not matter


def test_texts_models_and_lengths_do_not_mix(lm: LanguageModel, text: Path, tmp_path: Path):
    cache = tmp_path / "cache"
    other = write(tmp_path / "other.txt", words(400, seed=1))
    first = collect_covariance(lm, [LAST], text, cache=cache, tokens=300)[LAST]
    second = collect_covariance(lm, [LAST], other, cache=cache, tokens=300)[LAST]
    third = collect_covariance(lm, [LAST], text, cache=cache, tokens=301)[LAST]
    fourth = collect_covariance(make_lm("llama", "mistral", seed=1), [LAST], text, cache=cache, tokens=300)[LAST]
    moments = [first, second, third, fourth]
    assert len({m.folder for m in moments}) == len({m.fingerprint for m in moments}) == 4
    assert first.folder.parent == second.folder.parent == cache / lm.fingerprint()[:16]
    copy = write(tmp_path / "copy.txt", text.read_text("utf-8"))
    assert collect_covariance(lm, [LAST], copy, cache=cache, tokens=300)[LAST].folder == first.folder


HOLDER = """
import sys, time
from pathlib import Path
from test_covariance import MODULES, SETTINGS, Callbacks, collect_covariance, tiny

text, cache, begun, go_on = map(Path, sys.argv[1:])

def hold(done, total):
    begun.touch()
    while done > 200 and not go_on.exists():
        time.sleep(0.01)

collect_covariance(tiny("llama"), MODULES["llama"], text, cache=cache, callbacks=Callbacks(progress=hold), **SETTINGS)
"""


@pytest.mark.full
@pytest.mark.parametrize("killed", [False, True])
def test_a_second_process_waits_for_the_first(lm: LanguageModel, text: Path, tmp_path: Path, killed: bool):
    begun, go_on, cache = tmp_path / "begun", tmp_path / "go on", tmp_path / "cache"
    places = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(Path(__file__).parent)])
    command = [sys.executable, "-c", HOLDER, *map(str, (text, cache, begun, go_on))]
    said: list[str] = []
    computed: list[int] = []
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": places}) as holder:
        try:
            while not begun.exists():
                assert holder.poll() is None, "the first process ended before it had begun"
                time.sleep(0.05)

            def waits(message: str) -> None:
                said.append(message)
                holder.kill() if killed else go_on.touch()

            told = Callbacks(notice=waits, progress=lambda done, total: computed.append(done))
            moments = collect_covariance(lm, MODULES["llama"], text, cache=cache, callbacks=told, **SETTINGS)
        finally:
            holder.kill()
    assert len(said) == 1 and said[0].endswith("is in use by another process; waiting for it to finish")
    assert bool(computed) == killed  # else the first one's result was read
    alone = collect_covariance(lm, MODULES["llama"], text, **SETTINGS)
    for name, moment in moments.items():
        assert torch.equal(moment.matrix, alone[name].matrix)


def test_a_file_that_is_broken_is_named(lm: LanguageModel, text: Path, tmp_path: Path):
    moment = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=300)[LAST]
    path = moment.folder / f"{LAST}.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="delete it and repeat"):
        collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=300)


def test_the_matrix_of_another_module_is_not_taken_for_this_ones(lm: LanguageModel, text: Path, tmp_path: Path):
    first, last = MODULES["llama"]
    moment = collect_covariance(lm, [first], text, cache=tmp_path, tokens=300)[first]
    (moment.folder / f"{first}.safetensors").rename(moment.folder / f"{last}.safetensors")
    with pytest.raises(ConfigError, match=f"module: '{first}' -> '{last}'"):
        collect_covariance(lm, [last], text, cache=tmp_path, tokens=300)


@pytest.mark.parametrize("kind", ["matrix", "cholesky", "eigen"])
def test_a_flipped_bit_is_found(lm: LanguageModel, text: Path, tmp_path: Path, kind: str):
    def factors() -> None:
        moment = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=300)[LAST]
        moment.factorise()
        moment.eigen()

    factors()
    (path,) = tmp_path.rglob(f"{LAST}.safetensors" if kind == "matrix" else f"{LAST}.{kind}-*.safetensors")
    good = path.read_bytes()
    for place in (len(good) - 1, len(good) - 64 * 8 * 20):  # in the last number, and in the middle of others
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(DataError, match=r"was changed since it was written .*; delete it and repeat"):
            factors()
    path.write_bytes(good)
    factors()


# Inverse, eigenvectors, rank


def positive(size: int, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    keys = np.random.default_rng(seed).normal(size=(3 * size, size))
    return (keys.T @ keys / len(keys)).astype(dtype)


def test_inverse_times_equals_solving():
    matrix, keys = positive(40), np.random.default_rng(1).normal(size=(40, 7))
    found = SecondMoment.of(matrix, "m").inverse_times(torch.from_numpy(keys))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(matrix, keys), rtol=0, atol=1e-10)
    single = SecondMoment.of(matrix.astype(np.float32)).inverse_times(torch.from_numpy(keys).float())
    np.testing.assert_allclose(single.numpy(), np.linalg.solve(matrix, keys), rtol=0, atol=1e-4)
    with pytest.raises(DataError, match=r"keys of shape \(7, 40\); give \(40, number of keys\)"):
        SecondMoment.of(matrix).inverse_times(torch.from_numpy(keys.T))


def test_eigen_equals_numpy():
    matrix = positive(30)
    values, vectors = SecondMoment.of(matrix).eigen()
    expected, theirs = np.linalg.eigh(matrix)
    np.testing.assert_allclose(values.numpy(), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(vectors.numpy() * theirs, axis=0)), 1, atol=1e-8)
    assert values.dtype == vectors.dtype == torch.float64


def test_factors_are_computed_once_and_kept(lm: LanguageModel, text: Path, tmp_path: Path, monkeypatch):
    moment = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=900, window=32)[LAST]
    keys = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    solved, (values, vectors) = moment.inverse_times(keys), moment.eigen()
    assert sorted(p.name.rpartition("-")[0].rpartition(".")[2] for p in moment.folder.glob("*-*")) == [
        "cholesky", "eigen",
    ]  # fmt: skip
    for name in ("cholesky_ex", "eigh", "eigvalsh"):
        monkeypatch.delattr(torch.linalg, name)
    again = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=900, window=32)[LAST]
    assert torch.equal(again.inverse_times(keys), solved)
    assert all(torch.equal(a, b) for a, b in zip(again.eigen(), (values, vectors), strict=True))
    assert again.rank == 64


def test_too_few_tokens_are_said_and_regularised_only_on_request(lm: LanguageModel, text: Path, tmp_path: Path):
    heard: list[str] = []
    callbacks = Callbacks(warn=heard.append)
    moment = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=40, window=20, callbacks=callbacks)[LAST]
    assert "40 tokens, fewer than its size 64" in heard[0]
    assert moment.rank <= 40
    with pytest.raises(
        DataError, match=rf"{LAST} has no inverse: rank at most 40, size 64; 40 tokens were read.*more "
    ):
        moment.inverse_times(torch.ones(64, 1))
    again = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=40, window=20, regularise=0.5)[LAST]
    expected = moment.matrix + 0.5 * moment.matrix.diagonal().mean() * torch.eye(64, dtype=torch.float64)
    torch.testing.assert_close(again.matrix, expected)
    np.testing.assert_allclose(
        again.inverse_times(torch.eye(64)).numpy(), np.linalg.inv(expected.numpy()), rtol=1e-9, atol=1e-9
    )
    assert (again.rank, again.regularise, again.manifest["regularise"], moment.regularise) == (64, 0.5, 0.5, None)
    plain = collect_covariance(lm, [LAST], text, cache=tmp_path, tokens=40, window=20)[LAST]
    assert torch.equal(plain.matrix, moment.matrix)  # files keep C as it is
    with pytest.raises(DataError, match=r"already regularised by 0\.5"):
        again.regularised(0.5)


def test_repeated_text_has_no_inverse_however_long(lm: LanguageModel, tmp_path: Path):
    line = "Paris is the capital of France. "
    length = len(lm.tokenizer(line * 3, add_special_tokens=False)["input_ids"]) // 3
    path = write(tmp_path / "same.txt", line * 200)
    for precision in ("float64", "float32"):
        moment = collect_covariance(lm, [LAST], path, tokens=length * 100, window=length + 1, precision=precision)[LAST]
        assert moment.tokens > moment.size > moment.rank
        with pytest.raises(DataError, match=f"rank {moment.rank}, size 64; {moment.tokens:,} tokens were read"):
            moment.inverse_times(torch.ones(64, 1))


def test_a_small_but_real_eigenvalue_is_no_deficiency():
    values = np.logspace(-11, 0, 50)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 50)))[0]
    moment = SecondMoment.of((basis * values) @ basis.T)
    moment.factorise()
    assert moment.rank == 50
    none = SecondMoment.of(np.diag([1.0, 1e-20]))
    assert none.rank == 1
    with pytest.raises(DataError, match="rank 1, size 2; how many tokens were read is not known"):
        none.factorise()
    assert SecondMoment.of(np.zeros((3, 3))).rank == 0


def test_matrices_of_your_own():
    single = SecondMoment.of(positive(5, dtype=np.float32), "m", tokens=7)
    assert (single.module, single.tokens, single.size, single.matrix.dtype) == ("m", 7, 5, torch.float32)
    assert SecondMoment.of([[2, 1], [1, 2]]).matrix.dtype == torch.float64
    given = torch.eye(3)
    SecondMoment.of(given).matrix.add_(1)
    assert torch.equal(given, torch.eye(3))
    one = SecondMoment.of(torch.eye(4, dtype=torch.float64))
    keys = torch.arange(8.0).reshape(4, 2)
    assert torch.equal(one.inverse_times(keys), keys.double())
    assert one.rank == 4
    for wrong, why in [
        (np.ones((2, 3)), "square"),
        (np.ones(3), "square"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "NaN"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "not symmetric"),
    ]:
        with pytest.raises(DataError, match=why):
            SecondMoment.of(wrong)


# Wrong use


def test_wrong_settings_are_refused(lm: LanguageModel, text: Path):
    for change, why in [
        ({"tokens": 0}, "both are at least 1"),
        ({"window": 1}, "more than the 1 special"),
        ({"window": 513}, "at most the 512"),
        ({"precision": "bfloat16"}, "choose one of float64, float32"),
        ({"regularise": 0.0}, "above 0"),
    ]:
        with pytest.raises(ConfigError, match=why):
            collect_covariance(lm, [LAST], text, **change)
    with pytest.raises(
        ConfigError, match=r"no module 'model\.layers\.9\.mlp\.down_proj'; near names: .*mlp\.down_proj"
    ):
        collect_covariance(lm, ["model.layers.9.mlp.down_proj"], text)
    with pytest.raises(ConfigError, match="no module given"):
        collect_covariance(lm, [], text)
    with pytest.raises(ModelError, match="its first input is not a float tensor"):
        collect_covariance(lm, ["model.embed_tokens"], text)
    assert not any(m._forward_pre_hooks for m in lm.model.modules())


def test_training_mode_is_refused(text: Path):
    lm = tiny("gpt2")
    lm.model.train()
    with pytest.raises(ConfigError, match="training mode"):
        collect_covariance(lm, MODULES["gpt2"], text)


def test_inputs_that_are_not_finite_are_refused(text: Path):
    lm = tiny("gpt2")
    with torch.no_grad():
        lm.model.transformer.h[0].mlp.c_fc.weight.mul_(1e38)
    with pytest.raises(ModelError, match="not finite in float32"):
        collect_covariance(lm, MODULES["gpt2"][:1], text, tokens=100)


def test_running_out_of_memory_is_one_error(text: Path, monkeypatch: pytest.MonkeyPatch):
    lm = tiny("gpt2")

    def full(*arguments, **named):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(lm.model, "forward", full)
    with pytest.raises(BackendError, match="fewer modules at a time"):
        collect_covariance(lm, MODULES["gpt2"], text)


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ANACHRON_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("ANACHRON_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "anachron"


def test_a_cache_that_cannot_be_written_says_where_to_choose_another(lm: LanguageModel, text: Path, tmp_path: Path):
    """It lies in the user's home by default, where no --out would help."""
    (tmp_path / "home").write_text("no folder can be made here")
    with pytest.raises(
        BackendError, match=r"cannot write to .*; choose another cache \(--cache or .*ANACHRON_CACHE\)$"
    ):
        collect_covariance(lm, [LAST], text, tokens=100, window=32, cache=tmp_path / "home" / "cache")
