"""Gates by answers: a server that says too little gives no verdict, which terminal, JUnit and check.json all say."""

import json
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from anachron.cli.main import execute
from anachron.core.draws import draw
from anachron.core.errors import ConfigError
from anachron.data.own import files
from anachron.data.own import files as own
from anachron.io.llm_requests import PLAIN
from anachron.probe.ask.asking import AskSettings
from anachron.probe.ask.budget import Budget
from anachron.probe.by_answers import ByAnswers
from anachron.probe.check.check import check
from anachron.probe.check.gate import Gate
from anachron.probe.check.questions import read_facts
from anachron.report.terminal.answers import answer_run_lines
from support.asked_runs import AS_OF, FACTS, Scripted, alone, known
from support.llm_server import Reply, chat, error, prompt_of, serving


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.csv"
    path.write_text(FACTS)
    return path


def asked(facts: Path, out: Path, script=known, settings: AskSettings | None = None, **named):
    answerer = ByAnswers(Scripted("m", script), settings or AskSettings())
    return check(answerer, alone(read_facts(facts, as_of=AS_OF)), out, **named)


@pytest.mark.few(1)
@pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")
@pytest.mark.parametrize(
    "reply", [chat("I do not know"), chat("The", finish="length"), error(400, "no")], ids=["refuses", "cut off", "400"]
)
def test_a_server_that_says_nothing_gives_no_verdict(
    reply: Reply, facts: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    run, junit = tmp_path / "run", tmp_path / "junit.xml"
    with serving(lambda request, number: chat("yes") if prompt_of(request) == PLAIN else reply) as server:
        code = execute(["check", "m", "--backend", "chat", "--base-url", server.url, "--facts", str(facts), "--as-of",
                        AS_OF, "--out", str(run), "--rounds", "1", "--tries", "1", "--no-page", "--decoys", "0",
                        "--max-stale", "0", "--min-win-rate", "0.1", "--junit", str(junit)])  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    summary, suite = json.loads((run / "check.json").read_text()), ElementTree.parse(junit).getroot()
    assert code == 2 and not summary["passed"] and not summary["judged"]
    assert [(one["judged"], one["facts"]) for one in summary["demands"]] == [(0, 5), (0, 1)]
    errors = [one["error"] for one in summary["demands"]]
    assert [one.get("message") for one in suite.iter("error")] == errors and suite.get("errors") == "2"
    assert suite.get("failures") == "0" and all(f"NO VERDICT: {one['demand']}" in said for one in summary["demands"])


def test_what_was_declined_cannot_pass_a_gate(facts: Path, tmp_path: Path) -> None:
    """Somebody who answers two choices of three, rightly, and declines the others: W of what was read is 100 %."""

    def reluctant(text: str) -> str:
        return known(text) if "In which year" not in text or draw("declined", text) % 3 else "I do not know"

    found = asked(facts, tmp_path / "run", reluctant, gate=Gate(min_win_rate=0.9, min_judged=0.1))
    answers = found.summary["answers"]
    assert (answers["win_rate"], answers["win_rate_won"]) == (1.0, 1.0) and 0.5 < answers["win_rate_lost"] < 0.8
    (one,) = found.outcomes
    assert not one.passed and "whether the answers that could not be read would have been lost or won" in one.error
    lines = " ".join(answer_run_lines(answers | {"win_rate_told": False}))
    assert f"cannot be told: {100 * answers['win_rate_lost']:.1f} to 100.0 %" in lines
    sure = asked(facts, tmp_path / "run", reluctant, gate=Gate(min_win_rate=0.3, min_judged=0.1))
    assert sure.passed  # whatever the others would have been


def test_a_budget_that_ends_the_run_ends_the_gate(facts: Path, tmp_path: Path) -> None:
    gate = Gate(min_win_rate=0.5)
    part = asked(facts, tmp_path / "run", settings=AskSettings(budget=Budget(20, "calls")), gate=gate)
    (one,) = part.outcomes
    judged = part.verdicts["win_rate"].count()
    assert 0 < judged < 5 and (one.judged, one.facts, one.passed) == (judged, 5, False) and one.error
    some = Gate(min_win_rate=0.5, min_judged=judged / 5)
    assert asked(facts, tmp_path / "run", settings=AskSettings(budget=Budget(20, "calls")), gate=some).passed
    assert asked(facts, tmp_path / "run", gate=gate).passed  # with all of them


@pytest.mark.parametrize(
    ("ways", "gate", "baseline"),
    [(("choice",), Gate(max_stale=0), False), (("open",), Gate(min_win_rate=0), False), (("open",), Gate(), True)],
)
def test_a_demand_that_no_question_speaks_to_is_refused_before_anything_is_asked(
    ways: tuple[str, ...], gate: Gate, baseline: bool, facts: Path, tmp_path: Path
) -> None:
    def never(text: str) -> str:
        pytest.fail("asked")

    with pytest.raises(ConfigError, match=f"--ways {ways[0]} asks none"):
        asked(facts, tmp_path / "run", never, settings=AskSettings(ways=ways), gate=gate,
              baseline=tmp_path if baseline else None)  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_baseline_of_other_facts_is_refused_before_anything_is_asked(facts: Path, tmp_path: Path) -> None:
    asked(facts, tmp_path / "before", settings=AskSettings(rounds=1))
    other = tmp_path / "other.csv"
    other.write_text(FACTS.replace("Kazakhstan", "Atlantis").replace("Germany", "Lyonesse").replace("1997", "1998"))
    with pytest.raises(ConfigError, match="no fact and date in common"):
        asked(other, tmp_path / "run", lambda text: pytest.fail("asked"), baseline=tmp_path / "before")
    more = tmp_path / "more.csv"  # a fact that the baseline lacks, and one that is not read any more
    more.write_text(FACTS + "France,capital,Paris,1900-01-01,1940-06-14\n")

    def silent_of_almaty(text: str) -> str:
        return "unknown" if "Almaty" in text else "1935" if "Paris" in text else known(text)

    now = asked(more, tmp_path / "now", silent_of_almaty, baseline=tmp_path / "before",
                settings=AskSettings(rounds=1, ways=("choice",)))  # fmt: skip
    (one,) = now.outcomes
    assert (one.judged, one.facts) == (4, 5) and one.error
    half = asked(more, tmp_path / "now", silent_of_almaty, baseline=tmp_path / "before", gate=Gate(min_judged=0.5),
                 settings=AskSettings(rounds=1, ways=("choice",)))  # fmt: skip
    assert half.passed and "over 4 of 5 facts of both" in half.outcomes[0].words
    assert "1 more are not in the baseline" in half.outcomes[0].words


@pytest.mark.parametrize(
    "words",
    [
        ["check", "m", "--facts", "facts.csv", "--dry-run"], ["probe", "m", "--dataset", "facts.csv", "--dry-run"],
        ["probe", "m", "--dataset", "facts.csv", "--limit", "2", "--dry-run"],
    ],
)  # fmt: skip
def test_a_file_of_facts_is_read_once(
    words: list[str], facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    read: list[str] = []
    whole = files.read_rows

    def counted(path, *args, **named):
        read.append(str(path))
        return whole(path, *args, **named)

    monkeypatch.setattr(own, "read_rows", counted)
    monkeypatch.chdir(tmp_path)
    line = [*words, "--out", "run", "--backend", "chat", "--base-url", "http://127.0.0.1:9/v1"]
    assert execute(line) == 0 and "calls" in capsys.readouterr().out
    assert read == ["facts.csv"]
