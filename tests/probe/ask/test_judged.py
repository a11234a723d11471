"""Open answers read a second time by a judge, and what a check by answers leaves for a build to read."""

import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import DataError
from anachron.io.llm_settings import LlmSettings
from anachron.probe.ask.judged import answers_to_judge
from anachron.probe.ask.run import read_answers
from anachron.probe.by_answers import ByAnswers
from anachron.probe.check.check import check, write_junit
from anachron.probe.check.gate import Gate
from anachron.probe.check.questions import read_facts
from anachron.report.judging import judge_run
from support.asked_runs import AS_OF, Scripted, alone, ask, early, known
from support.llm_server import Reply, chat, error, prompt_of, serving

needs_openai = pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")
KEY = "sk-very-secret-0123456789"
AMISS = {
    "Gerhard Schröder": "Schroeder, the chancellor", "Olaf Scholz": "I do not know", "Astana": "Almaty or Astana",
}  # fmt: skip


def spoken(text: str) -> str:
    """Knows all, in words of which the rule misses some."""
    said = known(text)
    return AMISS.get(said, said) if "Reply with the full name" in text else said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SECRET", KEY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    ask(tmp_path / "run", "spoken", spoken)
    return tmp_path / "run"


def graded(request: dict, number: int) -> Reply:
    """Takes the name in another spelling for right, and both names for wrong; of Merkel it says nothing readable."""
    text = prompt_of(request)
    expected, given = (re.findall(rf"^{name}: (.*)$", text, re.MULTILINE)[0] for name in ("Expected", "Given"))
    if "Merkel" in given:
        return chat("who knows")
    right = "Schroeder" in given or json.loads(given) in re.findall(r'"([^"]+)"', expected)
    return chat(json.dumps({"correct": right}))


def test_what_is_judged_are_the_open_answers_that_say_something(folder: Path):
    found = answers_to_judge(read_answers(folder), "spoken")
    rows = {(row["text"], row["kind"], row["rule"], tuple(row["new_names"])) for row in found.iter_rows(named=True)}
    assert rows == {
        ("Almaty", "named", True, ("Almaty",)), ("Angela Merkel", "named", True, ("Angela Merkel",)),
        ("Schroeder, the chancellor", "named", False, ("Gerhard Schröder",)),
        ("Almaty or Astana", "unreadable", False, ("Astana",)),
    }  # fmt: skip
    assert found.height == 8 and all(re.fullmatch(r"In \d{4}, w.*\?", text) for text in found["prompt"])


def wilson_by_hand(successes: int, trials: int) -> tuple[float, float]:
    z = 1.959963984540054
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return centre - half, centre + half


@needs_openai
def test_a_judge_reads_a_second_time(folder: Path, capsys: pytest.CaptureFixture[str]):
    words = ["judge", str(folder), "--llm", "m", "--api-key-env", "SECRET", "--pause", "0.001", "--tries", "2"]
    with serving(graded) as server:
        assert run_command([*words, "--base-url", server.url], False) == 0
        count = len(server.requests)
        assert count == 8  # each question in its year is another
        assert run_command([*words, "--base-url", server.url, "--json"], False) == 0
        assert len(server.requests) == count
    printed, told = capsys.readouterr()
    assert "spoken" in printed and KEY not in printed + told
    rows = {row["kind"]: row for row in json.loads(printed[printed.index("{\n") :])["agreement"]}
    named, rest = rows["named"], rows["unreadable"]
    assert (named["answers"], named["judged"], named["unreadable"]) == (6, 4, 2)
    assert (named["rule"], named["judge"], named["disagreement"]) == (0.5, 1, 0.5) and named["rule_only"] == 0
    assert (named["disagreement_low"], named["disagreement_high"]) == pytest.approx(wilson_by_hand(2, 4))
    assert (rest["answers"], rest["judge"], rest["disagreement"]) == (2, 0, 0)
    listed = [json.loads(line) for line in (folder / "judge" / "disagreements.jsonl").read_text().splitlines()]
    assert [(row["text"], row["rule"], row["judge"]) for row in listed] == [
        ("Schroeder, the chancellor", False, True)
    ] * 2
    assert {row["outcome"] for row in listed} == {"somebody else"} and all(row["years"] for row in listed)
    assert not [file for file in folder.rglob("*") if file.is_file() and KEY[3:].encode() in file.read_bytes()]


@needs_openai
def test_verdicts_of_one_judge_are_not_those_of_another(folder: Path):
    with serving(graded) as one, serving(lambda r, n: chat('{"correct": false}')) as other:
        settings = [LlmSettings("m", server.url, api_key_env="SECRET") for server in (one, other)]
        tables = [judge_run(folder, llm)[0] for llm in settings]
        assert len(other.requests) == len(one.requests) == 8 and tables[0]["judge"].max() == 1
        assert tables[1]["judge"].max() == 0
        moved = LlmSettings("m", "http://127.0.0.1:9/v1", api_key_env="SECRET", same_as=(one.url,))
        again, counts = judge_run(folder, moved)
        assert again.equals(tables[0]) and counts["usage"]["requests"] == 0
    recorded = json.loads((folder / "judge" / "answers.parquet.manifest.json").read_text())["parameters"]
    assert (recorded["base_url"], recorded["same_as"]) == ("http://127.0.0.1:9/v1", [one.url])


@needs_openai
def test_a_judge_that_fails_leaves_no_key(folder: Path, capsys: pytest.CaptureFixture[str]):
    def echoing(request: dict, number: int) -> Reply:
        return error(400, f"no: {KEY}") if number % 2 else error(500, f"you sent Bearer {KEY}")

    with serving(echoing) as server:
        code = run_command(
            ["judge", str(folder), "--llm", "m", "--api-key-env", "SECRET", "--pause", "0.001", "--tries", "2",
             "--base-url", server.url], False,
        )  # fmt: skip
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert code == 1 and KEY[3:] not in "".join(capsys.readouterr())
    assert not [file for file in folder.parent.rglob("*") if file.is_file() and KEY[3:].encode() in file.read_bytes()]


def test_a_run_without_open_answers_has_none_to_judge(tmp_path: Path):
    ask(tmp_path / "run", "silent", lambda text: "I do not know")
    with pytest.raises(DataError, match="holds no open answer"):
        judge_run(tmp_path / "run", LlmSettings("m", "http://127.0.0.1:9/v1"))


def test_a_check_by_answers_as_a_junit_file(tmp_path: Path):
    """Demands pass or fail, every fact says its verdict; and the file is what an XML reader takes."""
    ask(tmp_path / "first", "early", early)
    facts = alone(read_facts(tmp_path / "facts.csv", as_of=AS_OF))
    gate = Gate(min_win_rate=0.9, max_stale=1)
    found = check(ByAnswers(Scripted("early", early)), facts, tmp_path / "run", gate=gate)
    write_junit(found, tmp_path / "junit.xml")
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    cases = {case.get("name"): case for case in suites.iter("testcase")}
    failed = [name for name, case in cases.items() if case.find("failure") is not None]
    assert failed == ["win rate at least 90 %"] and not found.passed
    verdicts = dict(found.verdicts.select("object", "verdict").rows())
    for name, verdict in verdicts.items():
        (case,) = [case for title, case in cases.items() if name in title]
        assert verdict in " ".join(case.itertext()) + str(case.attrib), (name, verdict)
    asked = pl.read_csv(tmp_path / "run" / "verdicts.csv")
    assert asked.height == len(verdicts) == 5
