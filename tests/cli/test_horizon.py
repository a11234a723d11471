"""``horizon``, as it is typed."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.horizon import ChangeOptions
from anachron.cli.main import execute
from anachron.io.run_folder import Kind, RunFolder, open_run
from anachron.probe.horizon.find import ASKED, CHANGES_FILE, SUMMARY_FILE
from anachron.probe.horizon.measure import PREFERENCE_SCHEMA
from anachron.probe.horizon.read import read_changes
from support.llm_server import Reply, Server, chat, error, prompt_of, serving

CHANGES = 24


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Changes that are few, so that they are quickly asked."""
    lines = [f"Subject{i},head of government,Old{i},New{i},20{10 + i % 14}-0{1 + i % 9}" for i in range(CHANGES)]
    path = tmp_path / "changes.csv"
    path.write_text("subject,relation,old,new,date\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.full
def test_a_run_is_read_again_and_nothing_is_asked_anew(few: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    line = ["horizon", "demo", "--changes", str(few), "--out", str(out), "--json", "--no-figure"]
    assert execute(line) == 0
    first = json.loads(capsys.readouterr().out)
    before = (out / "asked" / "scores.parquet").stat().st_mtime_ns
    assert execute([*line, "--claim", "2015-01"]) == 2  # too few changes for a verdict
    again = json.loads(capsys.readouterr().out)
    assert (out / "asked" / "scores.parquet").stat().st_mtime_ns == before
    assert {k: v for k, v in again["models"][0].items() if k != "leak"} == first["models"][0]
    assert first["models"][0]["counts"]["changes"] == CHANGES
    assert pl.read_csv(out / "changes.csv").height == CHANGES
    assert json.loads((out / "horizon.json").read_text())["leak"]["claim"] == "2015-01"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--claim", "2023"], 2, "give the month too"),
        (["--claim", "2023-12", "--released", "2023-12"], 2, "no change lies between the two"),
        (["--released", "2023-12"], 2, "give --claim too"),
        (["--label", "a", "demo-untrained"], 2, "--label names one model"),
        (["--min-judged", "0.5"], 2, "give --claim too"),
        (["--changes", "nowhere.csv"], 2, "nowhere.csv"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_asked(
    options: list[str], code: int, words: str, tmp_path: Path, capsys
) -> None:
    assert execute(["horizon", "demo", "--out", str(tmp_path / "run"), "--limit", "1", *options]) == code
    assert words in capsys.readouterr().err


def test_changes_without_wordings_are_refused(tmp_path: Path, capsys) -> None:
    path = tmp_path / "changes.csv"
    path.write_text("subject,relation,old,new,date\nX,sound,moo,baa,2020-01\n")
    assert execute(["horizon", "demo", "--changes", str(path), "--out", str(tmp_path / "run")]) == 2
    assert "no wordings" in capsys.readouterr().err


@pytest.mark.full
def test_the_demo_learned_until_2015_and_a_claim_before_is_a_leak(tmp_path: Path, capsys) -> None:
    """Its undated texts hold what was so at the beginning of 2015, and of what came after only what has not changed."""
    line = ["horizon", "demo", "--limit", "300", "--out", str(tmp_path / "run"), "--json"]
    assert execute([*line, "--claim", "2010-12"]) == 1
    found = json.loads(capsys.readouterr().out)["models"][0]
    assert found["told"]
    assert found["halving"]["low"] <= "2015-01" <= found["halving"]["high"]
    assert found["leak"]["gave_away"]
    assert (tmp_path / "run" / "horizon.svg").stat().st_size > 0
    assert execute([*line, "--claim", "2022-12"]) == 0


def folder_of(path: Path, later: dict[str, bool]) -> Path:
    """A horizon's folder of a model that knows all changes of 2018 and 2019, and of those of 2021 what is told here."""
    known = {f"Early {i}": True for i in range(30)} | later
    rows = [
        {
            "subject": name, "relation": "head coach", "kind": "head coach", "old": f"{name} Old", "new": f"{name} New",
            "date": f"{2021 if name in later else 2018 + i % 2}-0{1 + i % 9}", "popularity": None, "predictable": "",
            "control": "", "margin": (1 + i / 100) if new else -1.0, "margin_decoy": -2.0, "margin_known": 1.0,
            "known": True, "wins": float(new), "decoy_wins": 0.0, "likeliest_decoy_wins": 0.0, "source": None,
        }
        for i, (name, new) in enumerate(known.items())
    ]  # fmt: skip
    for row in rows:
        row["month"] = 12 * int(row["date"][:4]) + int(row["date"][5:]) - 1
    with open_run(path / ASKED, {"label": "somebody"}, Kind.CHANGES) as run:
        run.write_table(f"../{CHANGES_FILE}", pl.DataFrame(rows, schema=PREFERENCE_SCHEMA))
        run.write_json(f"../{SUMMARY_FILE}", {"model": "somebody"})
        run.finish()
    return path


def test_a_leak_ends_with_1_and_prints_what_gave_it_away(tmp_path: Path, capsys) -> None:
    later = {f"Late {i}": i % 2 == 0 for i in range(16)}
    folder = folder_of(tmp_path / "leaky", later)
    assert execute(["horizon", str(folder), "--claim", "2020-01", "--no-figure"]) == 1
    printed = capsys.readouterr().out
    assert "claimed cut-off 2020-01: LEAK" in printed
    shown = [line.split("  ")[2] for line in printed.splitlines() if line.startswith("  2021-")]
    expected = [f"{name}, head coach: {name} Old -> {name} New" for name, new in later.items() if new]
    assert shown == expected[::-1]  # the surest first
    page = (folder / "index.html").read_text("utf-8")
    assert all(f"<td>{name} New</td>" in page for name, new in later.items() if new)


def test_an_honest_claim_ends_with_0_and_nothing_is_held_against_it(tmp_path: Path, capsys) -> None:
    folder = folder_of(tmp_path / "honest", {f"Late {i}": i == 3 for i in range(16)})
    assert execute(["horizon", str(folder), "--claim", "2020-01", "--no-figure"]) == 0
    printed = capsys.readouterr().out
    assert "claimed cut-off 2020-01: no leak beyond chance" in printed
    assert "Late 3" not in printed


def test_a_claim_that_nothing_can_be_held_against_ends_with_2(tmp_path: Path, capsys) -> None:
    honest = folder_of(tmp_path / "honest", {f"Late {i}": i == 3 for i in range(16)})
    assert execute(["horizon", str(honest), "--claim", "2990-01", "--no-figure", "--json"]) == 2
    leak = json.loads(capsys.readouterr().out)["models"][0]["leak"]
    assert "only 0 of 0 changes after it can be tested" in leak["error"] and not leak["told"] and leak["judged"] == 0
    assert execute(["horizon", str(honest), "--claim", "2020-01", "--released", "2024-01", "--no-figure"]) == 2
    assert "NO VERDICT; only 0 changes after its publication" in capsys.readouterr().out
    leaky = folder_of(tmp_path / "leaky", {f"Late {i}": i % 2 == 0 for i in range(16)})
    few = folder_of(tmp_path / "few", {f"Late {i}": False for i in range(9)})
    line = ["horizon", str(leaky), str(few), "--out", str(tmp_path / "both"), "--claim", "2020-01", "--no-figure"]
    assert execute(line) == 2  # of one there is no verdict
    printed = capsys.readouterr().out
    assert "LEAK" in printed and "only 9 of 9 changes after it can be tested" in printed


@pytest.mark.parametrize("damage", ["rows", "cell", "name", "record"])
def test_a_horizon_is_read_as_it_was_written_or_not_at_all(tmp_path: Path, capsys, damage: str) -> None:
    """A leak whose rows were taken away is no honest claim."""
    folder = folder_of(tmp_path / "leaky", {f"Late {i}": i % 2 == 0 for i in range(16)})
    table, summary = folder / CHANGES_FILE, folder / SUMMARY_FILE
    if damage == "rows":
        table.write_text("".join(line for line in table.read_text().splitlines(True) if "2021-" not in line))
    elif damage == "cell":
        table.write_text(table.read_text().replace(",1.0,0.0,", ",0.0,1.0,"))
    elif damage == "name":
        summary.write_text(summary.read_text().replace("somebody", "gpt-2"))
    else:  # a folder of a version whose tables had no checksums
        record = RunFolder.read(folder / ASKED)
        record.record["files"].clear()
        record.save()
    assert execute(["horizon", str(folder), "--claim", "2020-01", "--no-figure"]) == 2
    said = capsys.readouterr()
    assert "LEAK" not in said.out and "no leak" not in said.out
    words = " ".join(said.err.split())
    assert str(folder / (SUMMARY_FILE if damage in ("name", "record") else CHANGES_FILE)) in words
    assert "repeat the command that made the folder" in words


@pytest.mark.parametrize(
    ("models", "name"), [(["demo"], "mini"), (["demo", "gpt2"], "mini-changes"), (["x"], "mini-changes")]
)
def test_the_demo_model_is_asked_what_it_was_taught_and_others_the_bundled_changes(
    models: list[str], name: str
) -> None:
    assert ChangeOptions().name(models) == name
    assert ChangeOptions(changes="mine.csv").name(models) == "mine.csv"


@pytest.mark.full
def test_bundled_changes_are_asked_by_name(tmp_path: Path, capsys) -> None:
    line = ["horizon", "demo", "--changes", "mini-changes", "--limit", "30", "--out", str(tmp_path / "run"), "--json"]
    assert execute([*line, "--no-figure"]) == 0
    counts = json.loads(capsys.readouterr().out)["models"][0]["counts"]
    assert counts["changes"] == 30
    asked = pl.read_csv(tmp_path / "run" / "changes.csv")
    assert set(asked["subject"]) <= set(read_changes()["subject"])


needs_openai = pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")


def by_chat(server: Server, few: Path, out: Path, *words: str) -> int:
    line = ["horizon", "gpt-like", "--backend", "chat", "--base-url", server.url, "--changes", str(few), "--no-figure"]
    return execute([*line, "--out", str(out), "--pause", "0.001", "--tries", "2", *words])


def until_2015(request: dict, number: int) -> Reply:
    """What somebody says who knows the changes to the end of 2015, says nothing of some subjects and errs in one."""
    place = int(re.search(r"Subject(\d+)", prompt_of(request))[1])
    if place in (3, 4):
        return chat(["I do not know", "Somebody Else"][place - 3])
    return chat(f"{'New' if place % 14 <= 5 else 'Old'}{place}")


@pytest.mark.full
@needs_openai
def test_a_chat_is_asked_once_a_subject_and_what_it_says_is_counted(
    few: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(until_2015) as server:
        assert by_chat(server, few, tmp_path / "run", "--json", "--claim", "2015-12") == 0
        assert len(server.requests) == len(server.times_asked()) == CHANGES
        found = json.loads(capsys.readouterr().out)["models"][0]
        assert by_chat(server, few, tmp_path / "run", "--claim", "2011-12") == 1
        held = (tmp_path / "run" / "changes.csv").read_bytes()
        (tmp_path / "run" / "changes.csv").write_bytes(held.replace(b"Old", b"New"))
        assert by_chat(server, few, tmp_path / "run", "--claim", "2011-12") == 1
        assert (tmp_path / "run" / "changes.csv").read_bytes() == held  # made again
        assert len(server.requests) == CHANGES  # nothing is asked again
    new = sum(i % 14 <= 5 for i in range(CHANGES) if i not in (3, 4))
    assert found["counts"]["named"] == {"new": new, "old": CHANGES - 2 - new, "refused": 1, "somebody else": 1}
    assert found["counts"]["known_subjects"] == CHANGES - 2
    assert found["counts"]["new_preferred"] == pytest.approx(new / (CHANGES - 2))
    printed = capsys.readouterr().out
    assert f"its answers: old {CHANGES - 2 - new}, new {new}, refused 1, somebody else 1" in printed
    assert "claimed cut-off 2011-12: LEAK" in printed
    table = pl.read_csv(tmp_path / "run" / "changes.csv")
    assert dict(table.select("subject", "named").rows())["Subject3"] == "refused"
    said = pl.read_ndjson(tmp_path / "run" / "asked" / "answers.jsonl")
    assert {*said["prompt"]} == {*map(prompt_of, server.requests)}
    assert "I do not know" in {*said["text"]}


@pytest.mark.full
@needs_openai
def test_a_chat_that_says_too_little_keeps_no_claim(few: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(until_2015) as server:
        claim = ["--claim", "2015-12"]
        assert by_chat(server, few, tmp_path / "run", *claim, "--budget", "20 calls") == 2
        assert "an answer was read, and --min-judged 1 asks for more" in " ".join(capsys.readouterr().out.split())
        assert by_chat(server, few, tmp_path / "run", *claim, "--budget", "20 calls", "--min-judged", "0.5") == 0
    with serving(lambda request, number: chat("I do not know")) as server:
        assert by_chat(server, few, tmp_path / "silent", *claim, "--min-judged", "0") == 2


@needs_openai
@pytest.mark.full
def test_a_chat_that_breaks_off_goes_on_and_pays_for_no_answer_twice(
    few: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def breaks_off(request: dict, number: int) -> Reply:
        return error(401, "the key has run out") if number >= 10 else until_2015(request, number)

    with serving(breaks_off) as server:
        assert by_chat(server, few, tmp_path / "run", "--concurrency", "1") != 0
        assert "HTTP 401" in capsys.readouterr().err
        paid = [prompt_of(request) for request in server.requests[:10]]
        assert not (tmp_path / "run" / "horizon.json").exists()
        before, server.script = len(server.requests), until_2015
        assert by_chat(server, few, tmp_path / "run", "--concurrency", "1") == 0
        later = [prompt_of(request) for request in server.requests[before:]]
        assert not {*paid} & {*later}
        assert len(paid + later) == len({*paid, *later}) == CHANGES
        assert by_chat(server, few, tmp_path / "whole") == 0
    for name in ("changes.csv", "asked/answers.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@needs_openai
def test_the_cost_is_told_and_nothing_asked(few: Path, tmp_path: Path, capsys) -> None:
    with serving(until_2015) as server:
        assert by_chat(server, few, tmp_path / "run", "--dry-run") == 0
        assert not server.requests
    assert f"{CHANGES} changes: {CHANGES} calls" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--backend", "chat"], "--base-url"),
        (["--backend", "chat", "--format", "chat", "--base-url", "http://127.0.0.1:9/v1"], "--format chat is not for"),
        (["--budget", "5 calls"], "--budget 5 calls is not for --backend transformers"),
    ],
)
def test_options_of_the_other_kind_are_refused(words: list[str], told: str, few: Path, tmp_path: Path, capsys) -> None:
    assert execute(["horizon", "gpt-like", "--changes", str(few), "--out", str(tmp_path / "run"), *words]) == 2
    assert told in capsys.readouterr().err
