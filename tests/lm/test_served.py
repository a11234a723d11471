"""Models behind a real server process that speaks the OpenAI protocol: the same scores as the model itself."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from anachron.cli.main import _code
from anachron.data.columns import to_published
from anachron.data.loaders import Dataset
from anachron.errors import BackendError, ConfigError, ModelError
from anachron.folders import RunFolder
from anachron.io import write_table
from anachron.lm.formats import Format
from anachron.lm.loading import load_model, load_tokenizer
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import score_texts
from anachron.lm.served import ServedModel, Server
from anachron.lm.spans import Encoded
from anachron.probe.run import ProbeSettings, run_probe

PROGRAM = Path(__file__).parents[1] / "completions_server.py"
SMALL = ProbeSettings(batch_tokens=100)
PAIRS = [
    (f"In {year}, who was the president of {land}?", name, None)
    for year in (1995, 1999, 2003)
    for land, name in (("France", "Jacques Chirac"), ("the Russian Federation", "Владимир Путин"), ("Brasil", "São"))
]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo", device="cpu")


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., str]]:
    """The address of a running server, in some mode."""
    process = subprocess.Popen([sys.executable, PROGRAM, "demo"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    yield lambda mode="plain": address.replace("plain", mode)
    process.kill()
    process.wait()


def served(url: str, **how: float) -> ServedModel:
    return ServedModel("served", load_tokenizer("demo"), Server(url, **how))  # type: ignore[arg-type]


def counts(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url) as reply:
        return json.loads(reply.read())


@pytest.mark.parametrize("mode", ["plain", "text-only", "flaky", "lost"])
def test_a_served_model_scores_as_it_does_here(serve, lm: LanguageModel, mode: str):
    model = served(serve(mode))
    scores = score_texts(model, model.encode(PAIRS), batch_tokens=40)
    np.testing.assert_allclose(scores, lm.log_probs(PAIRS), atol=1e-4, rtol=0)


def test_the_chat_format_is_sent_as_token_ids(serve, lm: LanguageModel):
    model = served(serve())
    style = Format("chat")
    scores = score_texts(model, model.encode(PAIRS[:3], style))
    np.testing.assert_allclose(scores, lm.log_probs(PAIRS[:3], style=style), atol=1e-4, rtol=0)


def test_tokens_that_no_text_has_cannot_be_sent_as_text(serve):
    model = served(serve("text-only"))
    letters = model.tokenizer.convert_tokens_to_ids(list("France"))  # the word has a token of its own
    with pytest.raises(ModelError, match="would become other tokens"):
        score_texts(model, [Encoded((0, *letters), (6,))])


def test_requests_go_side_by_side_and_no_more_than_asked(serve):
    url = serve("concurrent")
    model = served(url, concurrency=3)
    score_texts(model, model.encode(PAIRS), batch_tokens=1)
    found = counts(url)
    assert found["requests"] == len(PAIRS)
    assert 1 < found["most"] <= 3


@pytest.mark.parametrize(
    "mode, what",
    [
        ("mute", "returns no log-probabilities of the prompt"),
        ("begins", "its tokenizer is another"),
        ("other-tokens", "has the token 'x' where the tokenizer has"),
    ],
)
def test_what_would_be_a_wrong_number_is_refused(serve, mode: str, what: str):
    model = served(serve(mode))
    encoded = model.encode(PAIRS)
    with pytest.raises(BackendError, match=what):
        score_texts(model, encoded)


def test_another_model_name_is_one_line(serve):
    model = ServedModel("other", load_tokenizer("demo"), Server(serve()))
    with pytest.raises(BackendError, match=r"HTTP 404: .*no model other"):
        score_texts(model, model.encode(PAIRS))


def test_no_server_is_one_line():
    model = served("http://127.0.0.1:9/v1", tries=1)
    with pytest.raises(BackendError, match=r"no answer from http://127\.0\.0\.1:9/v1"):
        score_texts(model, model.encode(PAIRS))


@pytest.mark.parametrize(
    "url, how, what",
    [
        ("http://127.0.0.1:9/v1", {"concurrency": 0}, "at least 1"),
        ("http://127.0.0.1:9/v1", {"tries": 0}, "at least 1"),
        ("localhost:8000", {}, "write it as http://host:port/v1"),
    ],
)
def test_settings_that_make_no_sense(url: str, how: dict[str, int], what: str):
    with pytest.raises(ConfigError, match=what):
        served(url, **how)


def test_a_native_softmax_is_refused(serve):
    model = served(serve())
    with pytest.raises(ConfigError, match="native softmax"):
        score_texts(model, model.encode(PAIRS), native_softmax=True)


def test_a_probe_through_a_server_goes_on_where_the_server_stopped(serve, lm: LanguageModel, brief: Dataset, tmp_path):
    data = brief.sample(2)
    whole = run_probe(lm, data, tmp_path / "here").scores
    dead = subprocess.Popen([sys.executable, PROGRAM, "demo"], stdout=subprocess.PIPE, text=True)
    assert dead.stdout is not None
    url = dead.stdout.readline().strip()
    calls = []

    def stop_half_way(done: int, total: int, note: str = "") -> None:
        calls.append(done)
        if done > total / 2:
            dead.kill()
            dead.wait()

    from anachron.probe import run as module

    with pytest.raises(BackendError, match="finished parts are kept"):
        run_probe(
            served(url, tries=1, concurrency=1), data, tmp_path / "run", SMALL,
            callbacks=module.Callbacks(progress=stop_half_way),
        )  # fmt: skip
    assert 0 < calls[-1] < whole.height
    again = serve()
    run = RunFolder.read(tmp_path / "run")
    run.record["settings"]["device"] = again  # the server came up again at its address, which here is another port
    run.save()
    result = run_probe(served(again), data, tmp_path / "run", SMALL)
    np.testing.assert_allclose(result.scores["logp"].to_numpy(), whole["logp"].to_numpy(), atol=1e-4, rtol=0)
    assert result.scores["n_tokens"].equals(whole["n_tokens"])
    assert result.record["settings"]["weights"] is None
    assert result.noise < 1e-6


def test_the_commands_score_and_probe(serve, lm: LanguageModel, brief: Dataset, tmp_path: Path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a, _ in PAIRS))
    how = ["--backend", "openai", "--base-url", serve(), "--tokenizer", "demo"]
    scores, data, run = tmp_path / "s.parquet", tmp_path / "data.parquet", tmp_path / "run"
    assert _code(["score", "served", "--input", str(pairs), "--out", str(scores), *how], debug=True) == 0
    found = pl.read_parquet(scores)
    np.testing.assert_allclose(found["logp"].to_numpy(), lm.log_probs(PAIRS), atol=1e-4, rtol=0)
    write_table(data, to_published(brief.sample(2).table, brief.boundaries))
    capsys.readouterr()
    assert _code(["probe", "served", "--dataset", str(data), "--out", str(run), *how, "--json"], debug=True) == 0
    assert {row["model"] for row in json.loads(capsys.readouterr().out)["summary"]} == {"served"}
    for argv, what in (
        (["--backend", "openai"], "--base-url"),
        (["--base-url", "http://x/v1"], "does not go with --backend transformers"),
        (["--backend", "vllm"], "choose transformers or openai"),
        ([*how, "--dtype", "bfloat16"], "--dtype"),
    ):
        assert _code(["score", "served", "--input", str(pairs), "--out", str(scores), *argv], debug=False) == 2
        assert what in capsys.readouterr().err


def test_a_user_and_a_password_in_the_address_are_not_written_down(serve):
    model = served(serve().replace("http://", "http://me:secret@"))
    assert "secret" not in json.dumps([model.identity(), model.hardware()])
    with pytest.raises(BackendError) as caught:
        score_texts(served("http://me:secret@127.0.0.1:9/v1", tries=1), model.encode(PAIRS))
    assert "secret" not in str(caught.value)
