"""The backend llama.cpp against transformers, on tiny models and on real ones."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

import anachron
from anachron.core.errors import BackendError, ConfigError, ModelError, TooLongError
from anachron.lm.formats import Format
from anachron.lm.gguf import library as llamacpp_library
from anachron.lm.gguf.context import split_to_fit
from anachron.lm.gguf.llamacpp import LlamaModel
from anachron.lm.model import LanguageModel
from anachron.lm.plans import Plan
from anachron.lm.prefix_tree import extents
from anachron.lm.scorer import score_texts
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer
from support.gguf_models import make_gguf_lm, write_gguf
from support.tiny_models import naive_log_prob, naive_sum

PAIRS = [
    ("In 1990, who led the country?", "Helmut Kohl"), ("In 1990, who led the country?", "Helmut Schmidt"),
    ("In 1991, who led the country?", "Helmut Kohl"), ("In 1990, who led the club?", "X"), ("Who? ", "a b c"),
    ("In 1990, who led the country?", "Helmut"), ("In May 1990, naïve Łódź 東京 e\u0301?", "don't 12,345.6"),
]  # fmt: skip
# llama.cpp divides by the root of a head's width, and has a layer with full attention after five with a window
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "gemma3": {"query_pre_attn_scalar": 8, "num_hidden_layers": 6, "layer_types": None, "sliding_window": 16},
}
CLOSE = 1e-2  # nats a text: llama.cpp multiplies with float16 inputs where weights are float16


def made(family: str) -> LanguageModel:
    return make_gguf_lm(family, **FAMILIES[family])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Models as files of three kinds each."""
    folder = tmp_path_factory.mktemp("gguf")
    return {
        f"{family}-{kind}": write_gguf(
            made(family), folder / f"{family}-{kind}.gguf", kind=GGMLQuantizationType[kind]
        )
        for family in FAMILIES for kind in ("F32", "F16", "Q8_0")
    }  # fmt: skip


def load(path: str) -> LlamaModel:
    return anachron.load_model(path, backend="llama.cpp")


@pytest.mark.parametrize("kind", ["F32", "F16"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.few(2)
def test_scores_are_those_of_transformers(files: dict[str, str], family: str, kind: str):
    path = files[f"{family}-{kind}"]
    lm = load(path)
    reference = replace(made(family), tokenizer=load_tokenizer(path))
    if kind == "F16":
        reference.model.half().float()  # weights as the file holds them
    triples = [(prompt, answer, None) for prompt, answer in PAIRS]
    for (prompt, answer, _), text in zip(triples, lm.encode(triples), strict=True):
        separator = "" if prompt.endswith(" ") else " "
        assert list(text.ids) == lm.llama_tokens(prompt + separator + answer, special=True)
    naive = [naive_log_prob(reference, prompt, answer) for prompt, answer in PAIRS]
    most = CLOSE if kind == "F32" else 3 * CLOSE
    close = 1e-4 if (family, kind) == ("llama", "F32") else most
    np.testing.assert_allclose(lm.log_probs(PAIRS), naive, atol=close)
    chat = Format("chat")
    np.testing.assert_allclose(lm.log_probs(PAIRS, style=chat), reference.log_probs(PAIRS, style=chat), atol=most)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.families("gemma3")
def test_shared_prefixes_change_no_score(files: dict[str, str], family: str):
    """Whatever texts share a batch, and whatever is kept of the batch before; Gemma's window is narrower than texts."""
    close, same = (1e-4, 2e-5) if family == "llama" else (CLOSE, CLOSE)  # GELU comes from a table in float16
    lm, reference = load(files[f"{family}-F32"]), made(family)

    @given(
        st.lists(
            st.lists(st.sampled_from([5, 6, 7]), min_size=2, max_size=30).map(tuple),
            min_size=1,
            max_size=12,
            unique=True,
        ),
        st.integers(1, 60),
    )
    def check(texts: list[tuple[int, ...]], tokens: int) -> None:
        encoded = [Encoded(ids, tuple(range(max(1, len(ids) - 3), len(ids)))) for ids in texts]
        naive = [naive_sum(reference.model, list(text.ids), text.targets) for text in encoded]
        alone = score_texts(lm, encoded, prefix_tree=False)
        np.testing.assert_allclose(alone, naive, atol=close)
        np.testing.assert_allclose(score_texts(lm, encoded, batch_tokens=tokens), alone, atol=same)

    check()


def test_every_prefix_is_computed_once_and_the_cache_is_used_between_batches(files: dict[str, str]):
    lm = load(files["llama-F32"])
    shared = tuple(3 + i % 50 for i in range(100))
    encoded = [Encoded((*shared, 7 + i, 8), (101,)) for i in range(40)]
    score_texts(lm, encoded, batch_tokens=120)  # three batches
    assert lm.counters.tokens == 100 + 40
    lm.counters.tokens = 0
    score_texts(lm, encoded, prefix_tree=False)
    assert lm.counters.tokens == 40 * 101


def test_more_texts_than_sequences_and_more_tokens_than_the_context_are_split():
    encoded = [Encoded((3, 4 + i, 5), (2,)) for i in range(700)]
    fitting = split_to_fit(encoded, [list(range(700))], None, cells=300)
    assert [i for batch in fitting for i in batch] == list(range(700))
    assert all(len(batch) <= llamacpp_library.MOST_SEQUENCES for batch in fitting)
    assert all(extent.nodes <= 300 for extent in extents(encoded, fitting))


def test_many_texts_of_one_plan_are_scored(files: dict[str, str]):
    lm = load(files["llama-F32"])
    encoded = [Encoded((3, 4 + i % 200, 5 + i // 200, 6), (3,)) for i in range(400)]
    plan = Plan([list(range(400))], prefix_tree=True, batch_tokens=10**6)
    [(_, scores, _)] = lm.score_parts(encoded, {0: plan})
    np.testing.assert_allclose(scores, score_texts(lm, encoded, prefix_tree=False), atol=1e-4)


def test_quantised_weights_are_not_unpacked(files: dict[str, str]):
    """llama.cpp rounds inputs of quantised products to 8 bits: near the unpacked weights' scores, and not them."""
    lm, unpacked = load(files["llama-Q8_0"]), anachron.load_model(files["llama-Q8_0"])
    gap = np.abs(lm.log_probs(PAIRS) - unpacked.log_probs(PAIRS))
    assert 1e-4 < gap.max() < 0.5
    assert lm.dtype == "Q8_0" and lm.about()["quantised"]


def test_identity_is_that_of_the_file_and_the_backend(files: dict[str, str]):
    path = files["llama-F16"]
    lm = load(path)
    identity = lm.identity()
    assert identity["weights"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert (identity["backend"], identity["dtype"]) == ("llama.cpp", "float16")
    assert identity["backend_version"] == f"xllamacpp {llamacpp_library.VERSION}"
    about = lm.about()
    assert about["family"] == "llama" and not about["quantised"] and not about["experts"]
    assert about["parameters"] == sum(t.n_elements for t in gguf.GGUFReader(path).tensors)


def test_what_is_wrong_is_said(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = files["llama-F32"]
    with pytest.raises(ConfigError, match="--dtype float32 does not go"):
        anachron.load_model(path, backend="llama.cpp", dtype="float32")
    with pytest.raises(ConfigError, match="--device cuda does not go"):
        anachron.load_model(path, backend="llama.cpp", device="cuda")
    with pytest.raises(ModelError, match="no such file"):
        load(str(tmp_path / "none.gguf"))
    (tmp_path / "other.gguf").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ModelError, match="not a GGUF file"):
        load(str(tmp_path / "other.gguf"))
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(path).read_bytes()[:-1000])
    with pytest.raises(ModelError, match=r"cut\.gguf"):
        anachron.load_model(str(cut), backend="llama.cpp", tokenizer="demo")
    lm = load(path)
    with pytest.raises(TooLongError, match="more than the 512"):
        lm.log_probs([("word " * 600, "end")])
    with pytest.raises(ConfigError, match="--native-softmax"):
        list(lm.score_parts([], {0: Plan([], True, 1)}, native_softmax=True))
    monkeypatch.setattr(llamacpp_library, "VERSION", "1.0")
    with pytest.raises(BackendError, match=r"written for 1\.0"):
        llamacpp_library.library.__wrapped__()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(BackendError, match=r"pip install 'gguf.* xllamacpp=="):
        llamacpp_library.library.__wrapped__()


def test_other_tokens_than_those_of_llama_cpp_are_an_error(files: dict[str, str], caplog: pytest.LogCaptureFixture):
    lm = load(files["llama-F32"])
    other = make_gguf_lm("llama").tokenizer
    other.backend_tokenizer.normalizer = normalizers.Lowercase()
    with pytest.raises(ModelError, match="make different tokens"):
        LlamaModel(lm.path, other).log_probs(PAIRS)
    LlamaModel(lm.path, other, own_tokens=False).log_probs(PAIRS)
    assert "the tokenizer's tokens are scored" in caplog.text


@pytest.mark.full
def test_a_run_of_one_backend_is_not_resumed_by_another(files: dict[str, str], tmp_path: Path):
    path = files["llama-F32"]
    data = anachron.load_dataset("mini", limit=1)
    anachron.run_probe(load(path), data, tmp_path / "run")
    anachron.run_probe(load(path), data, tmp_path / "run")
    with pytest.raises(ConfigError, match="backend"):
        anachron.run_probe(anachron.load_model(path), data, tmp_path / "run")


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "kind", "close"),
    [  # F16 rounds the inputs of products to float16; Gemma's GELU is a table in float16 whatever the weights are
        ("smollm2", "F32", CLOSE), ("gemma3-270m", "F32", 0.03),
        *(pytest.param(name, "F16", 0.2, marks=pytest.mark.slow) for name in ("smollm2", "gemma3-270m")),
    ],
)  # fmt: skip
def test_scores_of_real_models_are_those_of_transformers(name: str, kind: str, close: float, tmp_path: Path):
    folder = os.environ.get("ANACHRON_REAL_MODELS")
    if not folder:
        pytest.skip("ANACHRON_REAL_MODELS is not set: the folder of real models that tools/real_models.py makes")
    if not (Path(folder) / name).exists():
        pytest.skip(f"{folder} has no {name}; see tools/real_models.py")
    path = tmp_path / f"{kind}.gguf"
    tool = Path(__file__).parents[2] / "tools" / "requantise.py"
    subprocess.run([sys.executable, tool, Path(folder) / f"{name}.gguf", path, kind], check=True)
    table = anachron.load_dataset("mini", limit=3).table
    chosen = table.gather_every(table.height // 60)
    pairs = [*zip(chosen["prompt"], chosen["answer"], strict=True)]
    triples = [(prompt, answer, None) for prompt, answer in pairs]
    lm, reference = load(str(path)), anachron.load_model(str(Path(folder) / name), dtype="float32")
    assert lm.encode(triples) == reference.encode(triples)
    np.testing.assert_allclose(lm.log_probs(pairs), reference.log_probs(pairs), atol=close)
