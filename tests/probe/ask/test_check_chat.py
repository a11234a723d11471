"""``check --backend chat`` against a real server that answers, fails, hangs and lies as scripted."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.probe.ask.matching import EMPTY, READ, REFUSED, UNREADABLE
from anachron.probe.check.questions import read_facts
from support import asked_runs
from support.llm_server import Reply, Server, chat, error, prompt_of, serving

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")
KEY = "sk-very-secret-0123456789"
AS_OF = "2025-11-22"
FACTS = """subject,relation,object,start,end,fact_id,aliases
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10,kz-1,
Kazakhstan,capital,Astana,1997-12-10,,kz-2,Nur-Sultan
Germany,head of government,Gerhard Schröder,1998-10-27,2005-11-22,de-0,
Germany,head of government,Angela Merkel,2005-11-22,2021-12-08,de-1,Merkel
Germany,head of government,Olaf Scholz,2021-12-08,2025-05-06,de-2,
Germany,head of government,Friedrich Merz,2025-05-06,,de-3,
"""
HELD = {
    "Almaty": (1992, 1997), "Astana": (1998, 2025), "Gerhard Schröder": (1999, 2005), "Angela Merkel": (2006, 2021),
    "Olaf Scholz": (2022, 2024), "Friedrich Merz": (2025, 2025),
}  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.csv"
    path.write_text(FACTS)
    return path


def check(server: Server | str, facts: Path, out: Path, *words: object, key: bool = True) -> int:
    url = server if isinstance(server, str) else server.url
    return run_command([
        "check", "gpt-like", "--backend", "chat", "--base-url", url, "--facts", str(facts), "--out", str(out),
        "--as-of", AS_OF, "--pause", "0.001", "--timeout", "5", "--no-page",
        *(["--api-key-env", "MY_KEY"] if key else []), *(() if "--decoys" in words else ("--decoys", "0")),
        *map(str, words),
    ], False)  # fmt: skip


def known(text: str) -> str:
    return asked_runs.known(text, HELD, now=2025)


def knowing(request: dict, number: int) -> Reply:
    return chat(known(prompt_of(request)), model="gpt-like-2025-01-01")


def tables(out: Path) -> dict[str, bytes]:
    return {
        name: (out / name).read_bytes()
        for name in ("answers.jsonl", "facts.csv", "ask.json", "verdicts.csv", "check.json")
    }


def test_somebody_who_knows_everything(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with serving(knowing) as server:
        demands = ("--max-stale", 0, "--min-win-rate", 0.9)
        assert check(server, facts, tmp_path / "run", *demands, "--page", "--decoys", 1) == 0
        asked = server.requests
    table = pl.read_csv(tmp_path / "run" / "verdicts.csv")
    assert table["name"].to_list() == ["kz-1", "kz-2", "de-0", "de-1", "de-2", "de-3"]
    read = table.drop_nulls("win_rate")
    assert read.height == 5 and set(read["win_rate"]) == {1.0} and read["decoys"].to_list() == [1] * 5
    assert read["won_all"].all() and read["overlap"].min() > 0.8 and read["open_right"].to_list() == [2] * 5
    assert dict(table.select("name", "present").rows())["kz-2"] == "current"
    assert dict(table.select("name", "left_out").rows())["de-3"].startswith("it spans no whole year")
    summary = json.loads((tmp_path / "run" / "ask.json").read_text())
    assert summary["win_rate"] == 1 and summary["position_bias"] == 0 and summary["calls"] == len(asked)
    assert summary["served_by"] == {"gpt-like-2025-01-01": len(asked)} and summary["overlap"] > 0.8
    answers = pl.read_ndjson(tmp_path / "run" / "answers.jsonl", infer_schema_length=None).drop_nulls("fact_id")
    assert answers.filter(pl.col("decoy").is_null())["fact_id"].value_counts()["count"].max() <= 39
    assert answers["decoy"].drop_nulls().n_unique() == 2  # of two successions
    printed, said = capsys.readouterr()
    assert "(5 decoys asked about, 100 % of the choices read)" in printed and "index.html" in said
    page = (tmp_path / "run" / "report" / "index.html").read_text("utf-8")
    assert "2006 to 2021" in page and KEY not in page


@pytest.mark.full
def test_the_same_words_in_the_table_as_in_the_answers(facts: Path, tmp_path: Path):
    """Outcomes are those of the answers, of each kind: another period, somebody else, a first or second year."""

    def script(request: dict, number: int) -> Reply:
        text = prompt_of(request)
        if "From when" in text:
            return chat("1950 to 1960")
        if "In which year" in text:
            return chat(re.search(r", (\d+) or", text)[1])
        return chat("Almaty" if "Kazakhstan" in text else "Konrad Adenauer")

    with serving(script) as server:
        check(server, facts, tmp_path / "run")
    table = {row["name"]: row for row in pl.read_csv(tmp_path / "run" / "verdicts.csv").iter_rows(named=True)}
    assert table["kz-1"]["open_right"] == 2 and table["kz-2"]["open_other_period"] == 2
    assert table["de-1"]["open_somebody_else"] == 2 and table["kz-2"]["present"] == "stale"
    assert (table["kz-2"]["answer"], table["kz-2"]["answer_until"]) == ("Almaty", "1997-12-10")
    assert table["de-1"]["win_rate"] == 0.5 and table["de-1"]["verdict"] == "unknown"
    assert table["de-1"]["start_error_days"] < -55 * 365 and table["de-1"]["overlap"] == 0
    assert "period: 1950 to 1960" in table["de-1"]["said"] and "Konrad Adenauer" in table["de-1"]["said"]
    summary = json.loads((tmp_path / "run" / "ask.json").read_text())
    assert summary["position_bias"] == 0.5 and summary["outcomes"]["choice"]["first year"] > 0


@pytest.mark.full
def test_a_wrong_period_is_told_where_the_choices_bear_it_out(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(HELD, "Almaty", (1998, 2004))
    with serving(knowing) as server:
        check(server, facts, tmp_path / "run", "--ways", "choice,period", "--decoys", 60)
    row = pl.read_csv(tmp_path / "run" / "verdicts.csv").filter(name="kz-1").row(0, named=True)
    assert (row["verdict"], row["believed_start"], row["believed_end"]) == ("wrong period", 1998, 2004)
    assert row["win_rate"] < 0.5 and row["believed_win_rate"] == 1 and row["overlap"] == 0


ODD = [
    (chat([{"type": "text", "text": "2"}, {"type": "text", "text": "003"}]), "read"),
    (chat(None, finish="tool_calls"), EMPTY),
    (chat("", finish="stop"), EMPTY),
    (chat("It might have been in", finish="length"), UNREADABLE),
    (chat(None, refusal="I must not say"), REFUSED),
    (chat("1998", finish="content_filter"), REFUSED),
    (chat("I am sorry, I do not know."), REFUSED),
    (chat("<think>It was 1998.</think>"), EMPTY),
    (chat("Neither"), UNREADABLE),
    (chat("2003", usage=None), "read"),
]


@pytest.mark.share(2)
@pytest.mark.few(1)
@pytest.mark.parametrize("place", range(len(ODD)))
def test_odd_answers_are_counted_as_what_they_are(facts: Path, tmp_path: Path, place: int):
    reply, outcome = ODD[place]
    with serving(lambda request, number: reply) as server:
        check(server, facts, tmp_path / "run", "--ways", "choice", "--rounds", 1)
        prompts = [prompt_of(request) for request in server.requests]
        assert len(prompts) == len(set(prompts))  # an answer that cannot be read is an answer, and paid for once
        check(server, facts, tmp_path / "run", "--ways", "choice", "--rounds", 1)
        assert len(server.requests) == len(prompts)
    answers = pl.read_ndjson(tmp_path / "run" / "answers.jsonl", infer_schema_length=None)
    if outcome == READ:
        assert "first year" in answers["outcome"] and "2003" in answers["text"].to_list()
    else:
        assert set(answers["outcome"]) == {outcome}
        table = pl.read_csv(tmp_path / "run" / "facts.csv")
        assert table["win_rate"].null_count() == table.height and table["choices_unread"].min() > 0


@pytest.mark.full
def test_reasoning_is_kept_apart(facts: Path, tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        body = json.loads(chat("<think>first 1998</think>" + known(prompt_of(request))).data)
        body["choices"][0]["message"]["reasoning_content"] = "let me see: 2011"
        return Reply(body=body)

    with serving(script) as server:
        check(server, facts, tmp_path / "run", "--rounds", 1)
    answers = pl.read_ndjson(tmp_path / "run" / "answers.jsonl", infer_schema_length=None)
    assert set(answers["reasoning"]) == {"let me see: 2011\nfirst 1998"}
    assert not answers["text"].str.contains("think|see").any()
    assert json.loads((tmp_path / "run" / "ask.json").read_text())["win_rate"] == 1


@pytest.mark.full
def test_another_model_is_told_of(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with serving(lambda request, number: chat("2003", model="another")) as server:
        check(server, facts, tmp_path / "run", "--ways", "choice", "--rounds", 1)
    told = capsys.readouterr().err
    assert told.replace("\n", " ").count("answers as 'another'") == 1


def test_answers_of_one_server_are_not_those_of_another(
    facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """In one run folder and in a shared folder of answers; unless the two are said to serve the same model."""
    words = ["--ways", "choice", "--rounds", 1, "--answers", tmp_path / "shared"]

    def share_won(out: str) -> float:
        return json.loads((tmp_path / out / "check.json").read_text())["win_rate"]

    def contrary(request: dict, number: int) -> Reply:
        years = re.search(r"In which year .*, (\d+) or (\d+)\?", prompt_of(request)).groups()
        return chat(next(year for year in years if year != known(prompt_of(request))))

    with serving(knowing) as good, serving(contrary) as bad:
        assert check(good, facts, tmp_path / "good", *words) == 0
        assert check(bad, facts, tmp_path / "bad", *words) == 0
        assert len(bad.requests) == len(good.requests) and (share_won("good"), share_won("bad")) == (1, 0)
        before, asked = tables(tmp_path / "good"), len(bad.requests)
        capsys.readouterr()
        assert check(bad, facts, tmp_path / "good", *words) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"(base_url): '{good.url}' -> '{bad.url}'" in said and f"--same-as {good.url}" in said
        assert check(bad, facts, tmp_path / "good", *words, "--same-as", good.url) == 0
        # the answers that the second gave itself are nearer, and the run says of which addresses it is
        assert len(bad.requests) == asked and share_won("good") == 0 and share_won("bad") == 0
        settings = json.loads((tmp_path / "good" / "run.json").read_text())["settings"]
        assert (settings["base_url"], settings["same_as"]) == (good.url, [bad.url])
        assert check(good, facts, tmp_path / "good", *words) == 2
        assert f"--same-as {bad.url}" in " ".join(capsys.readouterr().err.split())
        assert check(good, facts, tmp_path / "good", *words, "--same-as", bad.url) == 0
        assert tables(tmp_path / "good") == before and len(good.requests) == len(bad.requests) == asked


@pytest.mark.full
def test_trouble_passes_and_the_tables_are_the_same(facts: Path, tmp_path: Path):
    """429 with Retry-After, 500, silence, a connection that breaks, a page of a proxy: each is asked again."""
    troubles = [
        error(429, headers={"retry-after": "0.01"}), error(500), Reply(hang=True), Reply(raw=b"x" * 900, cut=True),
        Reply(raw=b"<html>bad gateway</html>", status=502), Reply(body={"choices": []}),
    ]  # fmt: skip

    def troubled(request: dict, number: int) -> Reply:
        return troubles.pop() if troubles and number % 3 == 1 else knowing(request, number)

    with serving(knowing) as server:
        check(server, facts, tmp_path / "plain", "--rounds", 1)
        url, count = server.url, len(server.requests)
    with serving(troubled) as server:
        check(server, facts, tmp_path / "troubled", "--rounds", 1, "--timeout", 1, "--concurrency", 3)
        assert len(server.requests) == count + 6 and not troubles
    assert url and tables(tmp_path / "plain") == tables(tmp_path / "troubled")


@pytest.mark.full
def test_a_killed_run_pays_for_nothing_twice_and_ends_with_the_same_bytes(facts: Path, tmp_path: Path):
    words = ["--timeout", "5", "--concurrency", "2", "--decoys", "1"]

    def slowly(request: dict, number: int) -> Reply:
        time.sleep(0.02)
        return knowing(request, number)

    with serving(slowly) as server:
        command = [
            sys.executable, "-c", "from anachron.cli.entry import run; run()", "check", "gpt-like", "--backend", "chat",
            "--base-url", server.url, "--facts", str(facts), "--out", str(tmp_path / "run"), "--as-of", AS_OF, *words,
        ]  # fmt: skip
        process = subprocess.Popen(command, env=os.environ | {"NO_PROXY": "127.0.0.1"}, stderr=subprocess.PIPE)
        while len(server.requests) < 30 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        time.sleep(0.1)
        kept = {p.stem for p in (tmp_path / "run" / "answers").rglob("*.json")}
        before = len(server.requests)
        assert 20 < len(kept) <= before < 100 and not (tmp_path / "run" / "facts.csv").exists()
        assert check(server, facts, tmp_path / "run", *words, key=False) == 0
        prompts = [prompt_of(request) for request in server.requests]
        # only what was on its way when the process was killed, and so not received, is asked again
        assert len(prompts) - len(set(prompts)) <= 2 and len(set(prompts)) == len(prompts) - (before - len(kept))
        assert check(server, facts, tmp_path / "whole", *words, key=False) == 0
    assert tables(tmp_path / "run") == tables(tmp_path / "whole")


@pytest.mark.full
def test_the_key_is_nowhere(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def echoing(request: dict, number: int) -> Reply:
        return error(500, f"you sent Bearer {KEY}") if number % 2 else error(400, f"no: {KEY}")

    def leaking(request: dict, number: int) -> Reply:
        return chat(f"Your key is {KEY}")

    def moving(request: dict, number: int) -> Reply:
        return Reply(307, {"error": KEY}, {"location": f"http://127.0.0.1:9/{KEY}"})

    def refusing(request: dict, number: int) -> Reply:
        return error(401, f"wrong key {KEY}")

    codes = []
    for number, script in enumerate((knowing, echoing, leaking, moving, refusing)):
        with serving(script) as server:
            codes.append(check(server, facts, tmp_path / f"run{number}", "--tries", 2, "--rounds", 1))
            assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert codes[0] == 0 and all(codes[1:])
    told = "".join(capsys.readouterr())
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 50 and KEY not in told and KEY[3:] not in told
    assert not [path for path in written if KEY[3:].encode() in path.read_bytes()]


@pytest.mark.full
def test_a_server_without_a_named_key_is_sent_none(facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(knowing) as server:
        check(server, facts, tmp_path / "run", "--rounds", 1, key=False)
        assert not any(KEY in str(headers) for headers in server.headers)


@pytest.mark.full
@pytest.mark.parametrize(
    ("budget", "most"), [("40 calls", 40), ("3k tokens", 26), ("0.01 money", 77)]
)  # a call has 100 tokens read and 20 written; at 1 and 2 a million 140 millionths
def test_a_budget_ends_the_asking_over_all_runs(facts: Path, tmp_path: Path, budget: str, most: int):
    words = ["--budget", budget, "--price-in", 1, "--price-out", 2]
    with serving(knowing) as server:
        check(server, facts, tmp_path / "run", *words)
        assert most - 6 <= len(server.requests) <= most
        summary = json.loads((tmp_path / "run" / "ask.json").read_text())
        assert summary["budget_ended"] is (budget != "0.01 money") or len(server.requests) <= most
        before = tables(tmp_path / "run"), len(server.requests)
        check(server, facts, tmp_path / "run", *words)
        assert (tables(tmp_path / "run"), len(server.requests)) == before
        check(server, facts, tmp_path / "run")  # without a budget it goes on
        prompts = [prompt_of(request) for request in server.requests]
        assert len(prompts) == len(set(prompts)) > before[1]


@pytest.mark.full
def test_a_dry_run_says_the_cost_and_asks_nothing(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with serving(knowing) as server:
        assert check(server, facts, tmp_path / "run", "--dry-run", "--price-in", 1, "--price-out", 2) == 0
        assert not server.requests and not (tmp_path / "run").exists()
        said = capsys.readouterr().out
        least, most = map(int, re.search(r"5 facts: (\d+) to (\d+) calls", said).groups())
        assert "tokens read" in said and "price: about" in said and "minutes" in said
        check(server, facts, tmp_path / "run", "--width", 0)
        assert least <= len(server.requests) <= most
        check(server, facts, tmp_path / "few", "--width", 1)
        few = pl.read_ndjson(tmp_path / "few" / "answers.jsonl", infer_schema_length=None).height
    assert few == least


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "many"], "write a number and what it counts"),
        (["--budget", "2 money"], "--price-in and --price-out"),
        (["--price-in", "1"], "give both"),
        (["--ways", "guess"], "choose some of open, choice, period"),
        (["--format", "chat"], "--format chat is not for --backend chat"),
        (["--device", "cpu"], "--device cpu is not for --backend chat"),
        (["--workers", "2"], "--workers 2 is not for --backend chat"),
        (["--rounds", "9"], "from 1 to 5"),
    ],
)
def test_options_that_cannot_be(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words, said: str):
    assert check("http://127.0.0.1:9/v1", facts, tmp_path / "run", *words) == 2
    assert said in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "run").exists()


def test_what_is_for_answers_is_refused_elsewhere(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = run_command(
        ["check", "demo", "--facts", str(facts), "--out", str(tmp_path / "run"), "--budget", "9 calls"], False
    )
    said = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert "--budget 9 calls is not for --backend transformers; it is for chat or generate: leave it out" in said


@pytest.mark.full
def test_a_baseline_is_compared_by_fact(facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def coin(request: dict, number: int) -> Reply:
        text = prompt_of(request)
        found = re.search(r", (\d+) or (\d+)\?", text)
        return chat(min(found.groups())) if found else knowing(request, number)

    with serving(knowing) as server:
        check(server, facts, tmp_path / "before", "--rounds", 2)
    for confidence, expected, words in ((0.7, 1, "FAILED"), (0.9, 2, "NO VERDICT")):
        with serving(coin) as server:  # both subjects lose, which is one time in four by chance
            code = check(
                server, facts, tmp_path / words, "--rounds", 2, "--baseline", tmp_path / "before",
                "--confidence", confidence,
            )  # fmt: skip
        said = " ".join(capsys.readouterr().out.split())
        assert code == expected and f"{words}: no loss against the baseline" in said
    with serving(knowing) as server:
        assert check(server, facts, tmp_path / "same", "--rounds", 2, "--baseline", tmp_path / "before") == 0


@pytest.mark.full
def test_other_languages_are_asked_in_their_words(tmp_path: Path):
    path = tmp_path / "faits.csv"
    path.write_text("subject,relation,object,start,end\nKazakhstan,capitale,Almaty,1991-12-16,1997-12-10\n")
    with serving(lambda request, number: chat("je ne sais pas")) as server:
        check(server, path, tmp_path / "run", "--language", "fr", "--rounds", 1)
        prompts = [prompt_of(request) for request in server.requests]
    assert sum("En quelle année" in text for text in prompts) and sum("De quand à quand" in text for text in prompts)
    assert any(text.startswith("En 199") and "inconnu" in text for text in prompts)
    assert set(pl.read_ndjson(tmp_path / "run" / "answers.jsonl", infer_schema_length=None)["outcome"]) == {REFUSED}
    assert read_facts(path, as_of=AS_OF, language="fr").data.facts == 1


@pytest.mark.full
def test_probe_asks_about_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Of a bundled set, whose open facts hold till the day of the first run; other commands say what such a run is."""
    out = tmp_path / "run"
    with serving(lambda request, number: chat("unknown" if number % 2 else "1990")) as server:
        words = ["probe", "m", "--backend", "chat", "--base-url", server.url, "--dataset", "mini", "--limit", "4",
                 "--out", str(out), "--rounds", "1"]  # fmt: skip
        assert run_command(words, False) == 0
        before, count = (out / "facts.csv").read_bytes(), len(server.requests)
        assert run_command(words, False) == 0
    assert (out / "facts.csv").read_bytes() == before and len(server.requests) == count > 4 * 7
    assert "could not be read, so counted neither as right nor as wrong" in capsys.readouterr().out
    assert run_command(["metrics", str(out), "--out", str(tmp_path / "metrics")], False) == 0
    assert "m, asked by chat: W by choice" in " ".join(capsys.readouterr().out.split())
    assert pl.read_csv(tmp_path / "metrics" / "asked_facts.csv").height == 4
