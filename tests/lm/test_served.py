"""Models behind a real server process that speaks the OpenAI protocol: the same scores as the model itself."""

import json
import subprocess
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import BackendError, ConfigError, ModelError
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.io.servers import Server
from anachron.io.tables import write_table
from anachron.lm.formats import Format
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import score_texts
from anachron.lm.server.replies import Token
from anachron.lm.server.served import ServedModel
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer
from anachron.probe.run import ProbeSettings, run_probe
from support.broken_completions import BROKEN
from support.processes import program, surroundings

PROGRAM = program("completions_server")
KEY = "sk-proj-Very/Secret+0123456789-abcdefghijklmnop"
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
    process = subprocess.Popen([*PROGRAM, "demo"], env=surroundings(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    yield lambda mode="plain": address.replace("plain", quote(mode))
    process.kill()
    process.wait()


def served(url: str, **how: object) -> ServedModel:
    return ServedModel(Server("served", url, **how), load_tokenizer("demo"))  # type: ignore[arg-type]


def counts(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url) as reply:
        return json.loads(reply.read())


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["plain", "by-text", "strict", "text-only", "flaky", "lost", "packed"])
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
    assert found["requests"] == len(PAIRS) + 3  # two find no way of its own, one asks what it makes of the first text
    assert 1 < found["most"] <= 3


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "mode, what",
    [
        ("no numbers", "returns no log-probabilities of the prompt"),
        ("begins with another", "log-probabilities for .* tokens and one more|has the token"),
        ("tokens of another tokenizer", "has the token 'x' where the tokenizer has"),
        ("tokens null", "gives tokens as None"),
        ("tokens that cannot be read", "has the token"),
        ("numbers shifted right", "belong to other tokens"),
        ("numbers shifted, no best", "names no most probable tokens"),
        ("after itself", "belong to other tokens"),
        ("probabilities", "0 or less"),
        ("tiny probabilities", "probability 1"),
        ("one NaN", "NaN is not a JSON number"),
        ("overflow", "gives a log-probability as -inf"),
        ("one minus 9999", "no number for a token of the answer"),
        ("NaN as text", "a log-probability as 'NaN'"),
        ("index repeated", "gives the indices of its choices"),
        ("choices swapped", "log-probabilities for .* tokens and one more|has the token"),
        ("short numbers", "log-probabilities beside"),
        ("another model", "answers as the model 'another' where 'served' was asked"),
        ("an error as success", "does not answer with a completion .out of memory"),
        ("deep", "does not answer with a completion"),
        ("packed beyond measure", "more than 64 MB"),
        ("elsewhere", "redirects requests to http://localhost"),
    ],
)
def test_what_would_be_a_wrong_number_is_refused(serve, mode: str, what: str):
    model = served(serve(mode), timeout=20, tries=1)
    encoded = model.encode(PAIRS)
    with pytest.raises(BackendError, match=what) as caught:
        score_texts(model, encoded)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mode", ["dripping", "dripping headers"])
def test_a_request_ends_in_time_however_its_reply_comes(serve, mode: str):
    """Without an end each of these would take hours."""
    model = served(serve(mode), timeout=0.5, tries=1)
    with pytest.raises(BackendError, match=r"no answer from .*no complete reply in 0\.5 s|timed out"):
        score_texts(model, model.encode(PAIRS[:1]))


@pytest.mark.few(4)
@pytest.mark.parametrize("mode", [mode for mode in BROKEN if "key" in mode])
def test_a_key_that_a_server_repeats_is_shown_nowhere(serve, mode: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SERVED_KEY", KEY)
    model = served(serve(mode), api_key_env="SERVED_KEY", tries=1)
    with pytest.raises(BackendError) as caught:
        score_texts(model, model.encode(PAIRS))
    shown = "".join(traceback.format_exception(caught.value)) + repr(model.server)
    forms = [KEY, KEY.lower(), quote(KEY)]
    for form in forms:
        assert not any(form[i : i + 8] in shown for i in range(len(form) - 7))


def test_a_server_that_ignores_echo_is_told_so(serve):
    model = served(serve("echo ignored"), tries=1)
    with pytest.raises(BackendError, match=r"ignores echo: .* supports echo with logprobs, such as vLLM"):
        score_texts(model, model.encode(PAIRS[:2]))


def test_the_key_is_not_taken_elsewhere(serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SERVED_KEY", KEY)
    model = served(serve("elsewhere"), api_key_env="SERVED_KEY")
    before = counts(serve())["requests"]
    with pytest.raises(BackendError, match="the key would go there"):
        score_texts(model, model.encode(PAIRS))
    assert counts(serve())["requests"] == before


@pytest.mark.parametrize(
    "name, id, piece, text, special, same",
    [
        ("token_id:7", 7, "Ġa", " a", False, True),
        ("token_id:8", 7, "Ġa", " a", False, False),
        ("Ġa", 7, "Ġa", " a", False, True),
        ("a", 7, "▁a", "a", False, True),  # written without its space
        (" b", 7, "Ġa", " a", False, False),
        ("", 7, "Ġa", " a", False, False),
        ("\n", 7, "Ġ", " ", False, False),
        ("", 7, "▁", " ", False, None),
        ("", 1, "<s>", "<s>", True, None),  # llama.cpp writes no marks
        ("", 7, "Ð", "\ufffd", False, None),
        ("\ufffd", 7, "Ð", "\ufffd", False, None),
        ("bytes:\\xd0", 7, "Ð", "\ufffd", False, None),
        ("Ð", 7, "Ð", "\ufffd", False, True),
        ("В", 7, "Ð", "\ufffd", False, None),  # vLLM completes the character from what is before
        ("the", 7, "Ð", "\ufffd", False, False),
    ],
)
def test_how_a_token_may_be_written(name: str, id: int, piece: str, text: str, special: bool, same: bool | None):
    assert Token(id, piece, text, special).is_written(name) is same


def test_another_model_name_is_one_line(serve):
    model = ServedModel(Server("other", serve()), load_tokenizer("demo"))
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


@pytest.mark.slow
@pytest.mark.full
def test_a_probe_through_a_server_goes_on_where_the_server_stopped(serve, lm: LanguageModel, brief: Dataset, tmp_path):
    data = brief.sample(2)
    whole = run_probe(lm, data, tmp_path / "here").scores
    dead = subprocess.Popen([*PROGRAM, "demo"], env=surroundings(), stdout=subprocess.PIPE, text=True)
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
    with pytest.raises(ConfigError, match=f"\\(device\\): '{url}' -> '{again}'.*add --same-as {url} if the same model"):
        run_probe(served(again), data, tmp_path / "run", SMALL)
    result = run_probe(served(again, same_as=(url,)), data, tmp_path / "run", SMALL)
    assert result.record["settings"]["device"] == url and result.record["settings"]["same_as"] == [again]
    np.testing.assert_allclose(result.scores["logp"].to_numpy(), whole["logp"].to_numpy(), atol=1e-4, rtol=0)
    assert result.scores["n_tokens"].equals(whole["n_tokens"])
    assert result.record["settings"]["weights"] is None
    assert result.noise < 1e-6


@pytest.mark.full
def test_the_commands_score_and_probe(serve, lm: LanguageModel, brief: Dataset, tmp_path: Path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a, _ in PAIRS))
    how = ["--backend", "openai", "--base-url", serve(), "--tokenizer", "demo"]
    scores, data, run = tmp_path / "s.parquet", tmp_path / "data.parquet", tmp_path / "run"
    assert run_command(["score", "served", "--input", str(pairs), "--out", str(scores), *how], debug=True) == 0
    found = pl.read_parquet(scores)
    np.testing.assert_allclose(found["logp"].to_numpy(), lm.log_probs(PAIRS), atol=1e-4, rtol=0)
    write_table(data, to_published(brief.sample(2).table, brief.boundaries))
    capsys.readouterr()
    assert run_command(["probe", "served", "--dataset", str(data), "--out", str(run), *how, "--json"], debug=True) == 0
    assert {row["model"] for row in json.loads(capsys.readouterr().out)["summary"]} == {"served"}
    for argv, what in (
        (["--backend", "openai"], "--base-url"),
        (["--base-url", "http://x/v1"], "is not for --backend transformers"),
        (["--backend", "vllm"], "choose one of transformers, openai, llama.cpp"),
        (["--backend", "chat"], "--backend chat gives answers and no log-probabilities"),
        ([*how, "--dtype", "bfloat16"], "--dtype"),
    ):
        assert (
            run_command(
                ["score", "served", "--input", str(pairs), "--out", str(tmp_path / "x.csv"), *argv], debug=False
            )
            == 2
        )
        assert what in capsys.readouterr().err


def test_the_commands_send_a_key_that_was_named_and_show_none(serve, tmp_path: Path, capsys, monkeypatch):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"prompt": "In 1995, who was", "answer": "Jacques Chirac"}) + "\n")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    scores = ["score", "served", "--input", str(pairs), "--out", str(tmp_path / "s.csv"), "--tokenizer", "demo"]

    def said_by(mode: str, *words: str) -> str:
        how = ["--backend", "openai", "--base-url", serve(mode), *words]
        with pytest.raises(BackendError) as caught:
            run_command([*scores, *how], debug=True)
        assert run_command([*scores, *how], debug=False) == 1
        said = capsys.readouterr()
        return "".join(traceback.format_exception(caught.value)) + said.out + said.err

    assert "needs a key: name its variable with --api-key-env" in said_by("key in a 403")
    named = said_by("key in a 403", "--api-key-env", "OPENAI_API_KEY")
    assert "what is Bearer *** to me" in named and not any(KEY[i : i + 8] in named for i in range(len(KEY) - 7))
    how = ["--backend", "openai", "--base-url", "http://gpu-box.invalid/v1", "--api-key-env", "OPENAI_API_KEY"]
    assert run_command([*scores, *how], debug=False) == 1
    assert "the key goes to http://gpu-box.invalid/v1 unencrypted" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "s.csv").exists()


def test_a_user_and_a_password_in_the_address_are_not_written_down(serve):
    model = served(serve().replace("http://", "http://me:secret@"))
    assert "secret" not in json.dumps([model.identity(), model.hardware()])
    with pytest.raises(BackendError) as caught:
        score_texts(served("http://me:secret@127.0.0.1:9/v1", tries=1), model.encode(PAIRS))
    assert "secret" not in str(caught.value)
