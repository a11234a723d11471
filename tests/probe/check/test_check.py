"""``check`` as a user has it: a file of facts, a model, a verdict for each, and an exit code."""

import json
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from math import exp
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import polars as pl
import pytest

import anachron
from anachron.analysis.metrics import check_scores
from anachron.cli.main import run_command
from anachron.core.errors import ConfigError, DataError
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder
from anachron.lm.loading import load_model
from anachron.probe.by_scores import on_shared_dates
from anachron.probe.check.check import check
from anachron.probe.check.questions import CheckedFacts, read_facts
from anachron.probe.check.verdicts import VERDICTS
from anachron.probe.run import run_probe
from anachron.probe.runs import find_sources, read_runs
from anachron.report.studies import verdicts_of, write_metrics, write_report
from support.asked_runs import alone

FACTS = """subject,relation,object,start,end,fact_id
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10,kz-1
Kazakhstan,capital,Astana,1997-12-10,,kz-2
Germany,head of government,Olaf Scholz,2021-12-08,2025-05-06,de-1
Germany,head of government,Friedrich Merz,2025-05-06,,de-2
Atlantis,favourite colour,blue,1990,1999,odd
"""
AS_OF = "2025-11-22"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "facts.csv"
    path.write_text(FACTS)
    return path


@pytest.fixture(scope="module")
def run(facts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A check of the demo model by the command."""
    out = tmp_path_factory.mktemp("check") / "run"
    assert command(facts, out) == 0
    return out


def command(facts: Path, out: Path, *words: object, model: str = "demo") -> int:
    given = () if "--as-of" in words else ("--as-of", AS_OF)
    return run_command(
        ["check", model, "--facts", str(facts), "--out", str(out), "--no-page", *given, *map(str, words)], False
    )


def test_every_fact_of_the_file_has_a_row(run: Path) -> None:
    table = pl.read_csv(run / "verdicts.csv")
    assert table["name"].to_list() == ["kz-1", "kz-2", "de-1", "de-2", "odd"]
    asked = table.filter(pl.col("verdict").is_not_null())
    assert asked["name"].to_list() == ["kz-1", "kz-2", "de-1", "de-2"] and set(asked["verdict"]) <= set(VERDICTS)
    reasons = dict(table.select("name", "left_out").rows())
    assert "no question" in reasons["odd"] and {name for name, reason in reasons.items() if reason} == {"odd"}


def test_a_fact_that_spans_no_whole_year_is_judged_by_months_and_days(run: Path, facts: Path, capsys) -> None:
    """Merz, in office for half a year: W of each granularity against a loop, and the words that say which there are."""
    scores = read_runs([run]).filter(pl.col("object_label") == "Friedrich Merz")
    row = pl.read_csv(run / "verdicts.csv").filter(pl.col("name") == "de-2").row(0, named=True)
    means = {}
    for (level,), rows in scores.group_by(["granularity"], maintain_order=True):
        right, wrong = (rows.filter(pl.col("status") == s)["logp"].to_list() for s in ("correct", "incorrect"))
        means[level] = sum(r > w for r in right for w in wrong) / (len(right) * len(wrong))
    assert [*means] == ["month", "day"] and row["win_rate_year"] is None
    assert [row["win_rate_month"], row["win_rate_day"]] == pytest.approx([*means.values()])
    assert row["win_rate"] == pytest.approx(sum(means.values()) / 2)
    assert row["timeline"].count("[") == 1 and row["believed_start"] is None
    assert command(facts, run) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "by month and day" in printed.split("Friedrich Merz")[1]
    write_report([run], run / "page", figures=False, resamples=100)
    assert "by month and day" in (run / "page" / "index.html").read_text("utf-8")


def test_win_rates_are_those_of_the_run(run: Path) -> None:
    facts = anachron.fact_metrics(read_runs([run])).filter(pl.col("granularity") == "global")
    table = pl.read_csv(run / "verdicts.csv").drop_nulls("win_rate_year").sort("fact_id")
    assert table["win_rate"].to_list() == pytest.approx(facts.sort("fact_id")["win_rate"].to_list())


def test_crossed_matches_are_those_of_the_years_of_almaty_and_astana(run: Path, facts: Path, capsys) -> None:
    """By a loop over the years at which both were asked about; the other successions have one object with dates."""
    scores = read_runs([run]).filter(pl.col("granularity") == "year", pl.col("subject_label") == "Kazakhstan")
    by_year = {(r["object_label"], r["time"]): (r["status"], r["logp"]) for r in scores.iter_rows(named=True)}
    years = {time for _, time in by_year if ("Almaty", time) in by_year and ("Astana", time) in by_year}
    statuses = {time: (by_year["Almaty", time][0], by_year["Astana", time][0]) for time in years}
    won = [
        by_year["Almaty", d][1] + by_year["Astana", e][1] > by_year["Almaty", e][1] + by_year["Astana", d][1]
        for d in years if statuses[d] == ("correct", "incorrect")
        for e in years if statuses[e] == ("incorrect", "correct")
    ]  # fmt: skip
    found = json.loads((run / "check.json").read_text())["crossed"]
    assert (found["granularity"], found["pairs"], found["matches"]) == ("year", 1, len(won))
    assert found["crossed"] == pytest.approx(sum(won) / len(won))
    assert command(facts, run) == 0
    assert f"crossed matches by year: {100 * found['crossed']:.1f} % won" in " ".join(capsys.readouterr().out.split())


def test_a_file_without_two_objects_of_a_subject_has_no_crossed_matches(tmp_path: Path, capsys) -> None:
    (tmp_path / "one.csv").write_text("\n".join(FACTS.splitlines()[:2]))
    assert command(tmp_path / "one.csv", tmp_path / "run", "--decoys", 0) == 0
    assert json.loads((tmp_path / "run" / "check.json").read_text())["crossed"] is None
    assert "crossed" not in capsys.readouterr().out


def test_what_is_said_today_is_the_likeliest_object(run: Path) -> None:
    """Against scores that are asked for one by one."""
    lm = load_model("demo")
    table = {row["name"]: row for row in pl.read_csv(run / "verdicts.csv").iter_rows(named=True)}
    for name, question, objects in (
        ("kz-2", "what is the capital of Kazakhstan?", ["Almaty", "Astana"]),
        ("de-2", "who is the head of government of Germany?", ["Olaf Scholz", "Friedrich Merz"]),
    ):
        per_token = {}
        for label in objects:
            (text,) = lm.encode([(question, label, None)])
            per_token[label] = exp(lm.log_probs([(question, label)])[0] / len(text.targets))
        best = max(per_token, key=per_token.__getitem__)
        assert table[name]["present"] == "does not know" or table[name]["answer"] == best
        if table[name]["present"] != "does not know":
            assert table[name]["present"] == ("current" if best == table[name]["object"] else "stale")
    assert table["kz-1"]["present"] is None and table["odd"]["present"] is None


def test_a_second_check_scores_nothing_and_a_killed_one_goes_on(run: Path, facts: Path, monkeypatch) -> None:
    before = (run / "verdicts.csv").read_bytes(), (run / "check.json").read_bytes()
    for file in ("verdicts.csv", "check.json", "present/scores.parquet"):
        (run / file).unlink()
    lm = load_model("demo")
    check(lm, read_facts(facts, as_of=AS_OF), run)
    assert ((run / "verdicts.csv").read_bytes(), (run / "check.json").read_bytes()) == before
    monkeypatch.setattr(lm, "score_parts", lambda *a, **k: pytest.fail("scored again"))
    check(lm, facts, run)  # as of the day on which it began
    assert (run / "verdicts.csv").read_bytes() == before[0]


@pytest.mark.full
def test_where_nobody_knows_a_decoy_nothing_is_known_or_stale(tmp_path: Path, capsys) -> None:
    questions = "what colour was Widget?,what colour is Widget?"
    rows = ["teal,1990,2005", "pink,2006,"]
    text = "\n".join(f"Widget,colour,{row},{questions}" for row in rows)
    (tmp_path / "facts.csv").write_text(f"subject,relation,object,start,end,question,present_question\n{text}\n")
    assert command(tmp_path / "facts.csv", tmp_path / "run", "--max-stale", "0", model="demo-untrained") == 2
    table = pl.read_csv(tmp_path / "run" / "verdicts.csv")
    assert table["verdict"].to_list() == ["unknown", "unknown"] and table["chance"].to_list() == [None, None]
    assert table["present"].to_list() == [None, "no decoys"]
    assert "only 0 of 1 facts that can be asked were judged (1 no decoys)" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "run" / "check.json").read_text())["decoys"] is None


@pytest.mark.parametrize("file", ["verdicts.csv", "check.json"])
def test_what_a_check_found_is_read_as_it_was_written_or_not_at_all(
    run: Path, facts: Path, tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed cell, a file that is gone, and one of a version that kept no checksum; the command makes it again."""
    read = {
        "verdicts.csv": lambda folder: verdicts_of(find_sources([folder])),
        "check.json": lambda folder: anachron.log_to(folder, SimpleNamespace(log=lambda numbers: None)),
    }[file]
    lm = load_model("demo")
    monkeypatch.setattr(lm, "score_parts", lambda *a, **k: pytest.fail("scored again"))
    for damage in ("changed", "gone", "unrecorded"):
        folder = Path(shutil.copytree(run, tmp_path / damage))
        read(folder)
        held = (folder / file).read_bytes()
        if damage == "unrecorded":
            record = RunFolder.read(folder)
            del record.record["files"][file]
            record.save()
        elif damage == "gone":
            (folder / file).unlink()
        else:
            name = re.search(rb"robust|known|shaky|unknown|wrong period", held)[0]
            (folder / file).write_bytes(held.replace(name, b"known" if name != b"known" else b"robust", 1))
        with pytest.raises(DataError, match=rf"{file}.*repeat the command|cannot read .*{file}") as caught:
            read(folder)
        assert "\n" not in str(caught.value)
        check(lm, facts, folder)
        read(folder)
        assert (folder / file).read_bytes() == held


@pytest.mark.full
def test_the_run_is_that_of_probe(run: Path, facts: Path, tmp_path: Path) -> None:
    data = anachron.load_dataset(str(facts), as_of=AS_OF, sampling="near")
    probed = run_probe("demo", anachron.with_decoys(data, 25), tmp_path / "probe")  # 100 for four facts
    assert probed.scores.equals(pl.read_parquet(run / "scores.parquet"))
    assert probed.decoys is not None and probed.decoys.equals(pl.read_parquet(run / "decoys.parquet"))


@pytest.mark.full
def test_tables_and_page_speak_of_the_facts(run: Path, facts: Path, tmp_path: Path) -> None:
    """Labels, questions and verdicts; a run of before questions were kept has none; a limit takes the smallest ids."""
    written = write_report([run], tmp_path / "report", resamples=100).written
    questions = dict(pl.read_csv(run / "asked.csv").select("fact_id", "question").rows())
    for name in ("facts", "believed"):
        for row in written.tables[name].iter_rows(named=True):
            assert row["question"] == questions[row["fact_id"]]
            assert row["subject_label"] in row["question"] and row["object_label"] not in row["question"]
    page = (tmp_path / "report" / "index.html").read_text()
    assert "5 facts checked: " in page and "Not asked with dates" in page and "Atlantis" in page
    limited = write_metrics([run], tmp_path / "few", resamples=100, limit=2)
    assert (
        set(limited.facts["fact_id"]) == set(sorted(questions)[:2])
        and "on a fixed sample of 2 of 4" in limited.notes[0]
    )
    assert json.loads((tmp_path / "few" / "manifest.json").read_text())["parameters"]["limit"] == 2
    with pytest.raises(ConfigError, match="limit 0"):
        write_metrics([run], tmp_path / "few", limit=0)
    old = tmp_path / "old"
    shutil.copytree(run, old)
    RunFolder.read(old).forget(["asked.csv"])
    assert write_metrics([old], tmp_path / "old-tables", resamples=100).facts["question"].null_count() > 0


@pytest.mark.slow
@pytest.mark.full
def test_two_broken_rows_are_named_and_mended_facts_are_judged(tmp_path: Path) -> None:
    """By the command itself: code 2, then 0, and 1 where a demand is not met."""
    rows = files("anachron.data").joinpath("mini/ten_facts.csv").read_text("utf-8").splitlines()
    good, file = "\n".join(rows), tmp_path / "facts.csv"
    rows[2] = rows[2].replace("1989-01-07", "07/01/1989")
    rows[9] = rows[9].replace("2005-11-22,2021-12-08", "2021-12-08,2005-11-22")
    codes, said = [], []
    stale = ("--max-stale", "0", "--no-page")
    for text, words in (("\n".join(rows), ()), (good, ()), (good, stale), (good, (*stale, "--confidence", "0.85"))):
        file.write_text(text)
        command = [
            "check",
            "demo",
            "--facts",
            str(file),
            "--as-of",
            "2024-06-30",
            "--out",
            str(tmp_path / "run"),
            *words,
        ]
        program = [sys.executable, "-m", "anachron.cli.entry", *command]
        done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False)
        codes.append(done.returncode)
        said.append(done.stdout + done.stderr)
    assert codes == [2, 0, 2, 1], said
    assert "row 2" in said[0] and "07/01/1989" in said[0] and "row 9" in said[0]
    assert "10 of 10 facts asked with dates" in said[1] and (tmp_path / "run" / "report" / "index.html").is_file()
    # two facts are not known, so one is judged by chance one time in ten
    assert "NO VERDICT: at most 0 stale" in said[2] and "FAILED: at most 0 stale" in said[3]


def test_demands_decide_the_exit_code(run: Path, facts: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "junit.xml"
    assert command(facts, run, "--min-win-rate", "1", "--junit", file, "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert [demand["passed"] for demand in said["demands"]] == [False] and not said["passed"]
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("failures"), suite.get("skipped"), suite.get("tests")) == ("1", "1", "6")
    assert command(facts, run, "--min-win-rate", "0") == 0
    # Of neither capital nor chancellor does the demo model know anything, and that is not to be up to date
    assert command(facts, run, "--max-stale", "9") == 2
    assert "NO VERDICT: at most 9 stale; only 0 of 2 facts" in capsys.readouterr().out


def test_a_run_is_its_own_equal_and_a_better_baseline_fails(run: Path, facts: Path, tmp_path: Path, capsys) -> None:
    """A baseline that has each match won: a table of scores that is higher for every correct date."""
    out = tmp_path / "again"
    assert command(facts, out, "--decoys", 0, "--baseline", run) == 0
    assert "W is 0.0 points" in capsys.readouterr().out
    assert command(facts, run, "--baseline", run) == 2
    assert "is the input itself, which --baseline names" in capsys.readouterr().err


def scored(rows):
    """A score table of one fact: (year, status, nats)."""
    return check_scores(
        pl.DataFrame([
            {"model": "m", "format": "raw", "prefix": "none", "fact_id": "f", "granularity": "year", "time": time,
             "status": status, "alpha": 0.0, "logp": logp} for time, status, logp in rows
        ])
    )  # fmt: skip


def test_a_baseline_that_was_asked_about_other_dates_is_compared_on_the_shared_ones() -> None:
    before = scored([("2001", "correct", -1.0), ("2002", "incorrect", -2.0), ("2003", "incorrect", -0.5)])
    now = scored([("2001", "correct", -3.0), ("2002", "incorrect", -2.0), ("2003", "transitional", -0.5)])
    one, other = on_shared_dates(before, now)
    assert one["win_rate"].to_list() == [1.0] and other["win_rate"].to_list() == [0.0]  # 2003 is in neither
    with pytest.raises(ConfigError, match="no fact and date in common"):
        on_shared_dates(before, scored([("1990", "correct", -3.0)]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("Kazakhstan,capital,Astana,2001,1997,x\n", "row 6"),
        ("Kazakhstan,capital,Astana,01/02/2009,,x\n", "01/02/2009"),
    ],
)
def test_bad_input_has_code_two(facts: Path, tmp_path: Path, capsys, change: str, said: str) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text(FACTS + change)
    assert command(broken, tmp_path / "out") == 2
    assert said in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "said"), [("", "empty"), ("who,rel,what,from,to\nGermany,capital,Berlin,1990,\n", "lacks the columns")]
)
def test_a_file_that_is_none_of_facts_is_told_what_it_lacks(tmp_path: Path, capsys, text: str, said: str) -> None:
    other = tmp_path / "other.csv"
    other.write_text(text)
    assert run_command(["check", "demo", "--facts", str(other), "--out", str(tmp_path / "out")], False) == 2
    error = capsys.readouterr().err
    assert said in error and "as of" not in error


def test_what_cannot_be_run_has_code_two(facts: Path, tmp_path: Path, capsys) -> None:
    assert command(facts, tmp_path / "out", model=str(tmp_path / "nothing")) == 2
    assert command(tmp_path / "nothing.csv", tmp_path / "out") == 2
    assert command(facts, tmp_path / "out", "--min-win-rate", "2") == 2
    assert command(facts, tmp_path / "out", "--baseline", tmp_path) == 2
    assert command(facts, tmp_path / "out", "--confidence", "0.1") == 2
    assert not (tmp_path / "out").exists()


def test_a_limit_takes_a_fixed_sample_with_its_rivals(facts: Path) -> None:
    whole, one = read_facts(facts, as_of=AS_OF), read_facts(facts, as_of=AS_OF, limit=1)
    assert isinstance(one, CheckedFacts) and len(one.given) == 1 == one.data.facts
    (question,) = one.questions
    assert question in whole.questions and len(question.objects) == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_leaves_out_what_cannot_be_asked_everywhere(facts: Path, tmp_path: Path, limit: int, capsys) -> None:
    """Of the five facts, Atlantis has no question."""
    out = tmp_path / "run"
    assert command(facts, out, "--limit", limit, "--decoys", 0, model="demo-untrained") == 0
    printed = capsys.readouterr()
    verdicts, left_out = pl.read_csv(out / "verdicts.csv"), pl.read_csv(out / "left_out.csv")
    assert verdicts.height == limit and set(verdicts["name"]) <= {"kz-1", "kz-2", "de-1", "de-2"}
    assert verdicts["verdict"].null_count() == 0 == left_out.height
    summary = json.loads((out / "check.json").read_text())
    assert summary["facts"] == limit == summary["asked"]
    told = {1: "1 fact is asked about"}.get(limit, f"{limit} facts are asked about")
    assert told in printed.err and "neither looked for nor listed" in printed.err
    assert "cannot be:" not in printed.err and "not asked with dates" not in printed.out


def test_a_check_tells_its_progress(facts: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    check(
        "demo-untrained", alone(read_facts(facts, as_of=AS_OF, limit=1)), tmp_path / "run",
        callbacks=Callbacks(progress=lambda done, total, note="": told.append((done, total))),
    )  # fmt: skip
    assert told[-1][0] == told[-1][1] > 0


def test_the_lines_of_a_check(run: Path, facts: Path, capsys) -> None:
    command(facts, run)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == "Kazakhstan, capital" and "Almaty" in lines[1] and "1991-12-16 to 1997-12-10" in lines[1]
    assert "1997-12-10 on" in text and re.search("today (current|stale, says Almaty|does not know)", text)
    assert "not asked with dates" in text and "no question: no templates" in text
