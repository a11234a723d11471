"""A history of checks: a whole line a run, once, whoever else writes; and the page that draws it."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.io.files import json_fingerprint
from anachron.io.run_folder import Kind, open_run
from anachron.probe.check.check import Check
from anachron.probe.check.gate import Outcome
from anachron.probe.check.history import append_history, history_line, read_history
from anachron.report.page.history import history_on_page

FACTS = """subject,relation,object,start,end
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10
Kazakhstan,capital,Astana,1997-12-10,
"""


def checked(folder: Path, number: int = 0, outcomes: tuple[Outcome, ...] = (), today: tuple = ("stale",)) -> Check:
    settings = {"label": "gpt2", "model": "gpt2", "dataset_fingerprint": f"{number}" * 64, "as_of": "2026-01-01"}
    with open_run(folder, settings, Kind.SCORES) as run:
        run.finish()
    rows = [
        {"verdict": "known", "win_rate": 0.75, "robustness": 1.0, "present": status}
        for status in (*today, *[None] * (3 - len(today)))
    ]
    numbers = {"win_rate": pl.Float64, "robustness": pl.Float64}
    about = {"subject": "Peru", "relation": "capital", "object": "Lima", "periods": "1821/", "answer": "Cusco"}
    table = pl.DataFrame(rows, schema={"verdict": pl.String, **numbers, "present": pl.String}).with_columns(
        **{name: pl.lit(text) for name, text in about.items()}, answer_until=pl.lit(None, pl.String)
    )
    present = pl.DataFrame([about | {"question": "what is the capital of Peru?"}])
    return Check(folder, "gpt2", table, present, list(outcomes), Date.parse("2026-01-01"))


def met(passed: bool, error: str | None = None) -> Outcome:
    return Outcome("at most 0 stale", passed, "words", 3, 3, error)


def test_a_line_says_what_the_check_found(tmp_path: Path):
    found = checked(tmp_path / "run", today=("stale", "current", "stale"))
    line = history_line(found)
    assert (line["asked"], line["win_rate"], line["robustness"], line["stale"]) == (3, 0.75, 1.0, 2)
    assert line["verdicts"]["known"] == 3 and line["present"] == {"stale": 2, "current": 1}
    assert (line["model"], line["label"], line["facts"]) == ("gpt2", "gpt2", "0" * 64)
    assert json.loads(json.dumps(line)) == line and line["date"].startswith("20")
    assert history_line(checked(tmp_path / "past", today=()))["stale"] is None
    assert history_line(checked(tmp_path / "known", today=("current",)))["stale"] == 0


@pytest.mark.parametrize(
    ("outcomes", "gate"),
    [((), "no demands"), ((met(True),), "passed"), ((met(True), met(False)), "failed"),
     ((met(False), met(False, "too few")), "no verdict")],
)  # fmt: skip
def test_the_gate_in_a_word(tmp_path: Path, outcomes: tuple[Outcome, ...], gate: str):
    assert history_line(checked(tmp_path, outcomes=outcomes))["gate"] == gate


def test_a_repeated_run_is_not_added_twice_and_earlier_lines_stay(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    first = append_history(path, checked(tmp_path / "a"))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))  # as an editor may leave it
    kept = path.read_bytes()
    assert append_history(path, checked(tmp_path / "a")) == first and path.read_bytes() == kept
    both = append_history(path, checked(tmp_path / "b", 1))
    assert path.read_bytes().startswith(kept + b"\n") and read_history(path) == both and len(both) == 2


def test_writers_at_once_tear_no_line(tmp_path: Path):
    path, runs = tmp_path / "history.jsonl", [checked(tmp_path / f"run-{number}", number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda run: append_history(path, run), [*runs, *runs]))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["facts"][0] for line in lines) == list("01234567")


def test_a_file_of_something_else_is_refused_as_it_is(tmp_path: Path):
    path = tmp_path / "other.jsonl"
    for content in ('{"run": "a"}\n', "not json\n"):
        path.write_text(content)
        with pytest.raises(DataError, match=r"other\.jsonl"):
            append_history(path, checked(tmp_path / "run"))
        assert path.read_text() == content


def test_the_page_has_the_runs_of_each_label_by_date():
    rows = [
        {"run": json_fingerprint(n), "date": date, "label": label, "win_rate": w, "stale": stale, "gate": "passed"}
        for n, (date, label, w, stale) in enumerate(
            [("2026-02-01T10:00:00+00:00", "b", 0.5, None), ("2026-03-01T10:00:00+00:00", "a", 0.7, 2),
             ("2026-01-01T10:00:00+00:00", "b", 0.6, 1)]
        )
    ]  # fmt: skip
    assert history_on_page(rows[:1]) is None and history_on_page([]) is None
    assert history_on_page(rows) == [
        {"name": "b", "dates": ["2026-01-01 10:00:00", "2026-02-01 10:00:00"], "win_rate": [0.6, 0.5],
         "stale": [1, None], "gate": ["passed", "passed"]},
        {"name": "a", "dates": ["2026-03-01 10:00:00"], "win_rate": [0.7], "stale": [2], "gate": ["passed"]},
    ]  # fmt: skip


def facts_file(folder: Path) -> Path:
    (folder / "facts.csv").write_text(FACTS)
    return folder / "facts.csv"


def command(folder: Path, out: str, *words: str) -> list[str]:
    return ["check", "demo", "--facts", str(facts_file(folder)), "--decoys", "0", "--out", str(folder / out), *words]


@pytest.mark.full
def test_the_command_appends_and_the_page_draws_two_runs(tmp_path: Path, capsys):
    history = tmp_path / "history.jsonl"
    for out in ("a", "a", "b"):
        as_of = ["--as-of", "2024-01-01" if out == "a" else "2025-01-01"]
        assert run_command(command(tmp_path, out, "--history", str(history), *as_of), False) == 0
        page = (tmp_path / out / "report" / "index.html").read_text("utf-8")
        assert ('<section id="history"' in page) == (out == "b")
    lines = read_history(history)
    for line, out in zip(lines, ("a", "b"), strict=True):
        found = json.loads((tmp_path / out / "check.json").read_text())
        assert line["win_rate"] == found["win_rate"] and line["verdicts"] == found["verdicts"]
    assert f"<td>{lines[1]['date'][:19].replace('T', ' ')}</td>" in page
    history.write_text("{}\n")
    assert run_command(command(tmp_path, "c", "--history", str(history)), False) == 2
    assert not (tmp_path / "c").exists() and "no run" in capsys.readouterr().err
    facts = ["--history", str(tmp_path / "facts.csv")]
    assert run_command(command(tmp_path, "c", *facts), False) == 2  # the input itself
    assert (tmp_path / "facts.csv").read_text() == FACTS


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(["plotly", "plotly.offline", "matplotlib", "matplotlib.figure"]))
from anachron.cli.main import execute
sys.exit(execute(sys.argv[1:]))
"""


def without_plotting(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.full
def test_without_plotly_the_page_is_left_out_and_the_exit_code_is_that_of_the_gate(tmp_path: Path):
    done = without_plotting(*command(tmp_path, "run"))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "note: no page is written" in said and "pip install" in said and "plotly" in said
    assert not (tmp_path / "run" / "report").exists() and (tmp_path / "run" / "check.json").is_file()
    assert without_plotting(*command(tmp_path, "run", "--min-win-rate", "1")).returncode == 1
    asked = without_plotting(*command(tmp_path, "new", "--set", "page=true"))  # by name it is an error, before any work
    assert asked.returncode == 2 and "pip install" in asked.stderr and not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.full
def test_without_matplotlib_a_horizon_has_a_page_without_its_figure(tmp_path: Path):
    words = ["horizon", "demo", "--limit", "40", "--out", str(tmp_path / "run")]
    done = without_plotting(*words)
    assert done.returncode == 0, done.stderr
    assert "note: no figure is written" in " ".join(done.stderr.split())
    assert (tmp_path / "run" / "index.html").is_file() and not list((tmp_path / "run").glob("*.svg"))
    asked = without_plotting(*words[:-1], str(tmp_path / "new"), "--set", "figure=true")
    assert asked.returncode == 2 and "pip install" in asked.stderr and not (tmp_path / "new").exists()
