"""Scoring through servers that others wrote, where they are installed (pip install llama-cpp-python[server] gguf)."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from anachron.errors import BackendError
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import score_texts
from anachron.lm.served import ServedModel, Server
from tiny import VOCABULARY, make_tokenizer, save

pytestmark = pytest.mark.slow
PAIRS = [
    (f"In {year}, who was the president of {land}?", name, None)
    for year in (1995, 1999)
    for land, name in (("France", "Jacques Chirac"), ("Russia", "Владимир Путин"), ("Germany", "Angela Merkel"))
]


@pytest.fixture
def lm() -> LanguageModel:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    return LanguageModel(model, make_tokenizer("gpt2"), "tiny")


@pytest.fixture
def start() -> Iterator[Callable[..., str]]:
    """Starts a server by a command that is given a port, and waits until it answers; gives its address."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(command: Callable[[int], list[str]]) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        running.append(subprocess.Popen(command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        until = time.monotonic() + 120
        while True:
            assert time.monotonic() < until and running[-1].poll() is None, "the server did not start"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.5)
            else:
                break
        return f"http://127.0.0.1:{port}/v1"

    yield begin
    for process in running:
        process.kill()
        process.wait()


def write_gguf(lm: LanguageModel, path: Path) -> None:
    """A Llama-shaped model in the format of llama.cpp, which turns neighbouring numbers where ours turns halves."""
    gguf: Any = pytest.importorskip("gguf")
    config, tokenizer = lm.model.config, lm.tokenizer
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = {number: token for token, number in tokenizer.get_vocab().items()}
    special = set(tokenizer.all_special_ids)
    tokens = [vocabulary.get(number, f"[unused {number}]") for number in range(config.vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    normal, control, unused = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL, gguf.TokenType.UNUSED
    writer.add_token_types(
        [control if n in special else normal if n in vocabulary else unused for n in range(config.vocab_size)]
    )
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    writer.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in definition["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)

    def turned(weight: np.ndarray, heads: int) -> np.ndarray:
        return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)

    state = {name: tensor.float().numpy() for name, tensor in lm.model.state_dict().items()}
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    for layer in range(config.num_hidden_layers):
        for ours, theirs in (
            ("input_layernorm", "attn_norm"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"),
            ("post_attention_layernorm", "ffn_norm"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
        ):  # fmt: skip
            names[f"model.layers.{layer}.{ours}"] = f"blk.{layer}.{theirs}"
    for ours, theirs in names.items():
        weight = state[f"{ours}.weight"]
        if theirs.endswith("attn_q"):
            weight = turned(weight, config.num_attention_heads)
        if theirs.endswith("attn_k"):
            weight = turned(weight, config.num_key_value_heads)
        writer.add_tensor(f"{theirs}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_llama_cpp_scores_as_the_model_here(lm: LanguageModel, start, tmp_path: Path):
    pytest.importorskip("llama_cpp.server", reason="needs llama-cpp-python[server]")
    write_gguf(lm, tmp_path / "tiny.gguf")
    url = start(
        lambda port: [
            sys.executable, "-m", "llama_cpp.server", "--model", str(tmp_path / "tiny.gguf"), "--model_alias", "served",
            "--port", str(port), "--logits_all", "true", "--n_ctx", "256", "--n_gpu_layers", "0",
        ]
    )  # fmt: skip
    model = ServedModel("served", lm.tokenizer, Server(url, concurrency=2))
    scores = score_texts(model, model.encode(PAIRS))
    assert not model.takes_ids  # it takes texts only
    np.testing.assert_allclose(scores, lm.log_probs(PAIRS), atol=2e-3, rtol=0)  # keys and values are kept in float16


def test_llama_cpp_that_keeps_no_logits_is_refused(lm: LanguageModel, start, tmp_path: Path):
    pytest.importorskip("llama_cpp.server", reason="needs llama-cpp-python[server]")
    write_gguf(lm, tmp_path / "tiny.gguf")
    url = start(
        lambda port: [
            sys.executable, "-m", "llama_cpp.server", "--model", str(tmp_path / "tiny.gguf"), "--model_alias", "served",
            "--port", str(port), "--n_ctx", "256",
        ]
    )  # fmt: skip
    model = ServedModel("served", lm.tokenizer, Server(url, tries=1))
    with pytest.raises(BackendError, match="logits_all"):
        score_texts(model, model.encode(PAIRS))


def test_a_server_that_ignores_echo_and_logprobs_is_refused(lm: LanguageModel, start, tmp_path: Path):
    for package in ("fastapi", "uvicorn", "pydantic"):
        pytest.importorskip(package, reason="needs transformers[serving]")
    folder = save(lm, tmp_path / "tiny")
    program = str(Path(sys.executable).with_name("transformers"))
    url = start(lambda port: [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"])
    model = ServedModel(folder, lm.tokenizer, Server(url, tries=1))
    with pytest.raises(BackendError, match="returns no log-probabilities of the prompt"):
        score_texts(model, model.encode(PAIRS[:1]))
