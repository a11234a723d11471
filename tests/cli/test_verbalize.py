"""``verbalize`` as users run it: templates, a server of one's own, interruptions, samples, wrong inputs."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.lm.tokenizers import demo_folder
from support.llm_server import Reply, chat, error, good_answer, good_questions, parts_of, prompt_of, serving

KEY = "sk-very-secret-0123456789"
SUBJECTS = ("Spain", "Italy", "Peru", "Chile", "Cuba", "Mali", "Togo", "Oman", "Iran", "Iraq")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    rows = [
        {
            "fact_id": f"f{i}", "subject_id": f"Q{i}", "subject_label": subject, "subject_description": f"state {i}",
            "relation_id": "P36", "relation_label": "capital", "relation_description": "seat of government",
            "object_id": f"Q9{i}", "object_label": f"Town {subject[::-1].title()}", "object_description": "town",
            "start": f"{1900 + i}", "end": f"{1950 + i}", "popularity": 100.0 - i, "other_objects": i,
        }
        for i, subject in enumerate(SUBJECTS)
    ]  # fmt: skip
    pl.DataFrame(rows).write_parquet(tmp_path / "facts.parquet")
    return tmp_path / "facts.parquet"


def run(*words: object) -> int:
    return run_command(["verbalize", *map(str, words)], debug=False)


def by_model(url: str, *words: object) -> list[object]:
    return [
        "--llm",
        "m",
        "--base-url",
        url,
        "--api-key-env",
        "OPENAI_API_KEY",
        "--concurrency",
        2,
        "--pause",
        0.001,
        "--timeout",
        5,
        "--tries",
        2,
        *words,
    ]


def manifest(out: Path) -> dict:
    return json.loads(Path(f"{out}.manifest.json").read_text())


def failed(out: Path) -> list[dict]:
    return [json.loads(line) for line in Path(f"{out}.failed.jsonl").read_text().splitlines()]


# Templates


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_templates_from_any_table(facts: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]):
    table = pl.read_parquet(facts).with_columns(
        relation_id=pl.when(pl.col("fact_id") == "f3").then(pl.lit("P47")).otherwise("relation_id")
    )
    source, out = tmp_path / f"in{ending}", tmp_path / "questions.parquet"
    {".parquet": table.write_parquet, ".csv": table.write_csv, ".jsonl": table.write_ndjson}[ending](source)
    assert run(source, "--out", out, "--templates", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    made = pl.read_parquet(out)
    assert made.drop("question", "drawn", "questions", "source").equals(table.filter(pl.col("fact_id") != "f3"))
    assert made["source"].unique().to_list() == ["templates"]
    assert summary == {
        "facts": 10, "verbalised": 9, "failed": {"relation without templates": 1}, "source": "templates",
    }  # fmt: skip
    assert manifest(out)["counts"] == {k: v for k, v in summary.items() if k != "source"}
    assert failed(out) == [{"fact_id": "f3", "reason": "relation without templates", "detail": "P47 (capital)"}]


def test_the_seed_draws_and_the_same_seed_draws_the_same(facts: Path, tmp_path: Path):
    a, b, c = (tmp_path / f"{name}.parquet" for name in "abc")
    for out, seed in ((a, 0), (b, 0), (c, 1)):
        assert run(facts, "--out", out, "--templates", "--seed", seed) == 0
    assert a.read_bytes() == b.read_bytes()
    assert pl.read_parquet(a)["drawn"].to_list() != pl.read_parquet(c)["drawn"].to_list()
    assert pl.read_parquet(a)["questions"].equals(pl.read_parquet(c)["questions"])


def test_when_nothing_can_be_asked_the_command_fails_and_says_where(facts: Path, tmp_path: Path, capsys):
    pl.read_parquet(facts).with_columns(relation_id=pl.lit("P0")).write_parquet(facts)
    out = tmp_path / "q.parquet"
    assert run(facts, "--out", out, "--templates") == 1
    assert "no fact got its questions" in capsys.readouterr().err
    assert pl.read_parquet(out).height == 0 and len(failed(out)) == 10


# A model


def scripted(request: dict, number: int) -> Reply:
    """By subject: good, or bad in one way each."""
    subject, answer, opening = parts_of(request)
    value = good_questions(request)
    if subject == "Italy":
        return chat('{"questions": [')
    if subject == "Peru":
        return chat(json.dumps(value).replace(json.dumps(answer), json.dumps(subject)))
    if subject == "Chile":
        return chat(json.dumps(value).replace(opening, ""))
    if subject == "Cuba":
        return good_answer(request, finish="length")
    if subject == "Mali":
        return chat(None, refusal="I would rather not")
    if subject == "Togo":
        return error(400, "content policy")
    if subject == "Oman":
        return error(500, "always")
    return good_answer(request)


def test_a_model_that_is_good_and_bad(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "q.parquet"
    prices = ("--price-in", 10, "--price-out", 100)
    with serving(scripted) as server:
        assert run(facts, "--out", out, *by_model(server.url, *prices, "--json")) == 0
        first = json.loads(capsys.readouterr().out)
        before, written = len(server.requests), out.read_bytes()
        assert run(facts, "--out", out, *by_model(server.url, *prices, "--json")) == 0
        second = json.loads(capsys.readouterr().out)
        again = [parts_of(request)[0] for request in server.requests[before:]]
    assert pl.read_parquet(out)["subject_label"].to_list() == ["Spain", "Iran", "Iraq"]
    assert pl.read_parquet(out)["source"].unique().to_list() == ["m"]
    reasons = {row["fact_id"]: row["reason"] for row in failed(out)}
    assert reasons == {
        "f1": "not the JSON asked for", "f2": "answer is the subject", "f3": "no date phrase in front",
        "f4": "answer cut off", "f5": "refused by the model", "f6": "request refused",
        "f7": "no answer from the server",
    }  # fmt: skip
    assert first["failed"] == dict.fromkeys(sorted(reasons.values()), 1)
    assert first["facts"] == first["verbalised"] + sum(first["failed"].values())
    usage = first["usage"]
    assert (usage["answers"], usage["requests"], usage["retries"], usage["kept"]) == (8, 11, 1, 0)
    assert usage["cost"] == usage["cost_of_all_runs"] == pytest.approx(8 * (100 * 10 + 20 * 100) / 1e6)
    # Only what had no whole answer was asked for again, and the result is the same.
    assert sorted(again) == ["Cuba", "Oman", "Oman", "Togo"] and out.read_bytes() == written
    assert second["usage"]["cost"] == pytest.approx(usage["cost"] / 8)  # of the answer that is cut off again
    assert second["usage"]["cost_of_all_runs"] == pytest.approx(usage["cost"])
    assert second["failed"] == first["failed"]


def test_ones_own_instructions_stand_in_the_place_of_ours(facts: Path, tmp_path: Path, capsys):
    """As the papers' own prompts are given; the form of the reply is asked for all the same."""
    own, out = tmp_path / "own.txt", tmp_path / "q.parquet"
    own.write_text("Turn the fact into four questions in the past tense.\n")
    with serving(lambda r, n: good_answer(r)) as server:
        assert run(facts, "--out", tmp_path / "ours.parquet", *by_model(server.url, "--limit", 2)) == 0
        ours = len(server.requests)
        assert run(facts, "--out", out, *by_model(server.url, "--limit", 2, "--instructions", own)) == 0
        asked = [prompt_of(request) for request in server.requests[ours:]]
    assert len(asked) == 2  # other words, so the kept answers are not those of these
    for prompt in asked:
        assert prompt.startswith("Turn the fact into four questions in the past tense.\n\nReply with one JSON object")
        assert "quiz" not in prompt and "The fact:" in prompt and "The date phrase:" in prompt
    assert manifest(out)["parameters"]["instructions"] == "Turn the fact into four questions in the past tense."
    out = tmp_path / "other.parquet"
    assert run(facts, "--out", out, "--templates", "--instructions", own) == 2
    assert "--instructions is for --llm" in capsys.readouterr().err
    own.write_text(" \n")
    assert run(facts, "--out", out, *by_model("http://127.0.0.1:9/v1", "--instructions", own)) == 2
    assert "is empty; leave the option out for ours" in capsys.readouterr().err
    assert run(facts, "--out", out, *by_model("http://127.0.0.1:9/v1", "--instructions", tmp_path / "no.txt")) == 2


def test_questions_of_one_server_are_not_those_of_another(facts: Path, tmp_path: Path):
    with serving(lambda r, n: good_answer(r)) as one, serving(lambda r, n: chat("{}")) as other:
        assert run(facts, "--out", tmp_path / "a.parquet", *by_model(one.url)) == 0
        assert run(facts, "--out", tmp_path / "b.parquet", *by_model(other.url)) == 1
        assert len(other.requests) == len(one.requests) == 10
    moved = by_model("http://127.0.0.1:9/v1", "--same-as", one.url)
    assert run(facts, "--out", tmp_path / "c.parquet", *moved) == 0
    assert (tmp_path / "c.parquet").read_bytes() == (tmp_path / "a.parquet").read_bytes()
    assert manifest(tmp_path / "c.parquet")["parameters"]["same_as"] == [one.url]
    assert run(facts, "--out", tmp_path / "d.parquet", "--templates", "--same-as", one.url) == 2


def test_the_manifest_says_how_and_keeps_the_key(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "q.parquet"
    with serving(lambda r, n: good_answer(r)) as server:
        url = server.url.replace("://", "://me:hidden@")
        assert run(facts, "--out", out, *by_model(url, "--limit", 4, "--seed", 5)) == 0
        asked = [parts_of(request) for request in server.requests]
    found = manifest(out)
    assert found["parameters"]["model"] == "m" and found["parameters"]["base_url"] == server.url
    assert (found["parameters"]["seed"], found["parameters"]["limit"]) == (5, 4)
    assert found["counts"]["usage"]["prompt_tokens"] == 400
    assert {opening for *_, opening in asked} == {f"In {1925 + i}, " for i in range(4)}
    streams = capsys.readouterr()
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (KEY, "hidden"):
        assert secret.encode() not in files and secret not in streams.out + streams.err


def test_two_servers_of_which_one_cannot_be_held_to_a_shape_write_the_same(facts: Path, tmp_path: Path, capsys):
    def plain(request: dict, number: int) -> Reply:
        return error(400, "response_format is unknown") if "response_format" in request else good_answer(request)

    for name, script in (("a", plain), ("b", lambda r, n: good_answer(r))):
        with serving(script) as server:
            words = by_model(server.url, "--cache", tmp_path / name)
            assert run(facts, "--out", tmp_path / f"{name}.parquet", *words) == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert capsys.readouterr().err.count("the server takes no response_format") == 1


@pytest.mark.full
def test_killed_and_started_again_nothing_is_paid_for_twice(facts: Path, tmp_path: Path):
    out = tmp_path / "q.parquet"

    def hangs_after_four(request: dict, number: int) -> Reply:
        return good_answer(request) if number < 4 else Reply(hang=True)

    words = [sys.executable, "-m", "anachron.cli.entry", "verbalize", str(facts), "--out", str(out)]
    with serving(hangs_after_four) as server:
        options = map(str, by_model(server.url, "--concurrency", 1, "--timeout", 60))
        process = subprocess.Popen([*words, *options], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(server.requests) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(server.requests) == 5  # four answered, one under way
        answered, first = server.times_asked(), server.url
        unanswered = list(answered).pop()
    assert not any(tmp_path.glob("q.parquet*"))
    with serving(lambda r, n: good_answer(r)) as server:
        assert run(facts, "--out", out, *by_model(server.url, "--same-as", first)) == 0
        later = server.times_asked()
    assert set(later.values()) == {1} and len(later) == 6
    assert set(later) & set(answered) == {unanswered}
    assert pl.read_parquet(out).height == 10


@pytest.mark.full
def test_ctrl_c_waits_for_no_new_tries(facts: Path, tmp_path: Path):
    words = ["-m", "anachron.cli.entry", "verbalize", facts, "--out", tmp_path / "q.parquet"]
    with serving(lambda r, n: Reply(hang=True)) as server:
        options = by_model(server.url, "--timeout", 0.5, "--tries", 1000, "--pause", 1)
        process = subprocess.Popen([sys.executable, *map(str, [*words, *options])], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert not any(tmp_path.glob("q.parquet*"))


def test_the_first_facts_are_not_paid_for_again_when_the_rest_follows(facts: Path, tmp_path: Path):
    with serving(lambda r, n: good_answer(r)) as server:
        for limit in (["--limit", 1], ["--limit", 3], []):
            assert run(facts, "--out", tmp_path / "q.parquet", *by_model(server.url, *limit)) == 0
        assert len(server.requests) == 10


def test_a_prompt_that_two_facts_share_is_paid_for_once(facts: Path, tmp_path: Path):
    table = pl.read_parquet(facts).head(2)
    twin = table.head(1).with_columns(fact_id=pl.lit("twin"), start=pl.lit("1901"), end=pl.lit("1949"))
    pl.concat([table, twin]).write_parquet(facts)
    with serving(lambda r, n: good_answer(r)) as server:
        assert run(facts, "--out", tmp_path / "q.parquet", *by_model(server.url)) == 0
        assert len(server.requests) == 2
    made = pl.read_parquet(tmp_path / "q.parquet")
    assert made.height == 3 and made["questions"][0].equals(made["questions"][2])


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (error(401, f"bad key {KEY}"), 2, "refuses the key (HTTP 401)"),
        (error(404, "no such model"), 2, "no model 'm'"),
        (error(500, "out of memory"), 1, "requests in a row"),
        (error(400, "messages is unknown"), 1, "refuses every request"),
    ],
)
def test_a_server_that_helps_nobody_is_one_line_and_leaves_no_file(
    facts: Path, tmp_path: Path, reply: Reply, code: int, words: str, capsys: pytest.CaptureFixture[str]
):
    with serving(lambda r, n: reply) as server:
        assert run(facts, "--out", tmp_path / "q.parquet", *by_model(server.url, "--tries", 1)) == code
        assert len(server.requests) <= 5  # three refusals, an innocent request, and one under way beside them
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and KEY not in err
    assert not any(tmp_path.glob("q.parquet*"))


def test_no_server(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    assert run(facts, "--out", tmp_path / "q.parquet", *by_model(url, "--pause", 100)) == 1
    assert f"no server at {url}" in capsys.readouterr().err


# Samples


def test_a_sample_is_drawn_judged_and_counted(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out, sample, later = tmp_path / "q.parquet", tmp_path / "s.csv", tmp_path / "later.csv"
    assert run(facts, "--out", out, "--templates", "--sample", 4, "--sample-out", sample) == 0
    assert run(out, "--sample", 4, "--sample-out", later) == 0
    assert sample.read_bytes() == later.read_bytes()
    rows = pl.read_csv(sample, infer_schema=False)
    assert rows.columns == ["fact_id", "question", "answer", "good"] and rows["good"].null_count() == 4
    assert run(out, "--judged", sample) == 2
    assert "good is None; write yes or no" in capsys.readouterr().err
    rows.with_columns(good=pl.Series(["yes", "no", "yes", "yes"])).write_csv(sample)
    assert run(out, "--judged", sample, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["good"], found["judged"], found["questions"], found["share"]) == (3, 4, 10, 0.75)
    assert 0 < found["low"] < 0.75 < found["high"] < 1
    assert run(out, "--judged", sample) == 0
    assert "3 of 4 questions are good: 0.750" in capsys.readouterr().out
    assert run(facts, "--judged", sample) == 2
    assert "lacks the column question" in capsys.readouterr().err


# Wrong use


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["FACTS"], 2, "--out"),
        (["FACTS", "--out", "q.parquet"], 2, "--llm MODEL, or --templates"),
        (["FACTS", "--out", "q.parquet", "--templates", "--llm", "m"], 2, "--llm MODEL, or --templates"),
        (["FACTS", "--out", "q.csv", "--templates"], 2, "'.csv'"),
        (["FACTS", "--out", "q.parquet", "--templates", "--base-url", "http://x/v1"], 2, "--base-url is for --llm"),
        (["FACTS", "--out", "q.parquet", "--templates", "--sample", "5"], 2, "--sample-out"),
        (["FACTS", "--out", "q.parquet", "--templates", "--sample", "5", "--sample-out", "s.txt"], 2, ".csv"),
        (["FACTS", "--out", "q.parquet", "--templates", "--judged", "s.csv"], 2, "leave out --out"),
        (["FACTS", "--llm", "m"], 2, "--out"),
        (["FACTS", "--out", "q.parquet", "--llm", "m", "--base-url", "localhost:1"], 2, "http://host:port/v1"),
        (["FACTS", "--out", "q.parquet", "--llm", "m", "--price-in", "1"], 2, "--price-out"),
        (["FACTS", "--out", "q.parquet", "--llm", "m", "--api-key-env", "NO_SUCH"], 2, "NO_SUCH holds no key"),
        (["no-such.parquet", "--out", "q.parquet", "--templates"], 2, "no such file"),
    ],
)
def test_wrong_use_is_one_line(
    facts: Path, tmp_path: Path, words: list[str], code: int, said: str, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run(*[str(facts) if word == "FACTS" else word for word in words]) == code
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert not any(tmp_path.glob("q.*"))


def test_the_extra_is_named_where_it_is_missing(facts: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "openai", None)
    assert run(facts, "--out", tmp_path / "q.parquet", *by_model("http://127.0.0.1:1/v1")) == 1
    assert "pip install 'openai" in capsys.readouterr().err


# A real server with a real model


@pytest.mark.slow
def test_a_real_server_with_the_demo_model(facts: Path, tmp_path: Path):
    """The bundled model knows no JSON, so every fact fails, each for a reason; the protocol is what is tried."""
    if missing := [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"transformers serve needs {', '.join(missing)}: pip install fastapi uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    model, out = str(demo_folder()), tmp_path / "q.parquet"
    command = [Path(sys.executable).with_name("transformers"), "serve", model, "--port", port, "--device", "cpu"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, env=environment)
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "server.log").read_text()
                time.sleep(0.2)
        words = ["--llm", model, "--base-url", f"http://127.0.0.1:{port}/v1", "--limit", 3, "--max-tokens", 24]
        assert run(facts, "--out", out, *words) == 1
        counts = manifest(out)["counts"]
        assert run(facts, "--out", out, *words) == 1
    finally:
        server.terminate()
        server.wait()
    assert counts["verbalised"] == 0 and sum(counts["failed"].values()) == counts["facts"] == 3
    assert set(counts["failed"]) <= {"not the JSON asked for", "answer cut off"}
    assert counts["usage"]["answers"] == 3 and counts["usage"]["completion_tokens"] > 0
    again = manifest(out)["counts"]
    assert again["failed"] == counts["failed"]
    assert (again["usage"]["requests"], again["usage"]["kept"]) == (0, 3)
