"""The page of runs that asked: marks, words and facts against plain loops over the answers, and in a browser."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.core.periods import Period
from anachron.core.several_periods import parse_periods
from anachron.probe.ask.run import read_answer_run, read_answers
from anachron.probe.check.questions import read_facts
from anachron.report.page.answers import LONGEST
from anachron.report.studies import write_metrics, write_report
from anachron.report.terminal.answers import answer_table_lines
from support.asked_runs import AS_OF, ask, early, known, scores_of
from support.browser import wait_until

pytestmark = pytest.mark.full  # two runs are asked first, which takes seconds

LONG = "Angela Merkel " + "and so on " * 60


def talking(text: str) -> str:
    """Knows all, and talks."""
    return f"<i>{LONG}</i>" if "Reply with the full name" in text and "head" in text else known(text)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs that asked, and a score table of the second of these models about all facts but one."""
    folder = tmp_path_factory.mktemp("asked")
    for name, script in (("talking", talking), ("early", early)):
        ask(folder / name, name, script, decoys=name == "talking")
    data = read_facts(folder / "facts.csv", as_of=AS_OF).data
    scores = scores_of(data, "early", lambda row: -1.0 - abs(row["alpha"]))
    scores.filter(pl.col("object_label") != "Almaty").write_parquet(folder / "scores.parquet")
    return [folder / "talking", folder / "early", folder / "scores.parquet"]


def page_of(report: Path) -> dict:
    text = report.read_text("utf-8")
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


@pytest.fixture(scope="module")
def page(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    made = write_report(runs, tmp_path_factory.mktemp("report"))
    return page_of(made.page), made.page


def test_runs_that_asked_come_last_with_their_words(page: tuple[dict, Path], runs: list[Path]):
    data = page[0]
    assert [run["format"] for run in data["runs"]] == ["raw", "asked by generate", "asked by generate"]
    assert data["asked"][0] is None and len(data["asked"]) == len(data["metrics"]) == 3
    for part, folder in zip(data["asked"][1:], runs[:2], strict=True):
        answers, (_, facts) = read_answers(folder), read_answer_run(folder)
        assert len(part["facts"]) == len(data["facts"]["id"]) == facts.height
        by_id = dict(zip(data["facts"]["id"], part["facts"], strict=True))
        for fact in facts.iter_rows(named=True):
            found, periods = by_id[fact["fact_id"]], parse_periods(fact["periods"])
            own = answers.filter(pl.col("fact_id") == fact["fact_id"], pl.col("decoy").is_null())
            told = [fact[name] for name in ("win_rate", "win_rate_low", "win_rate_high")]
            assert found["w"] == pytest.approx(told, abs=1e-6)
            counts: dict[int, list[int]] = {}
            for row in own.filter(kind="choice").iter_rows(named=True):
                years = row["years"].split()
                for year in years:
                    taken = row["outcome"] == ("first year" if year == years[0] else "second year")
                    before = counts.get(int(year), [0, 0])
                    counts[int(year)] = [before[0] + taken, before[1] + 1]
            held = {year: any(p.status(str(year)) == "correct" for p in periods) for year in counts}
            assert found["years"] == [[year, *counts[year], int(held[year])] for year in sorted(counts)]
            said = {str(year): text for year, text, _ in found["said"]}
            for row in own.filter(pl.col("kind") != "choice").iter_rows(named=True):
                assert said[str(row["years"])].removesuffix("…") == " ".join(row["text"].split())[: LONGEST - 1]


def test_facts_of_both_are_there_once_with_periods_from_the_answers(page: tuple[dict, Path]):
    facts = page[0]["facts"]
    assert sorted(facts["object"]) == ["Almaty", "Angela Merkel", "Astana", "Gerhard Schröder", "Olaf Scholz"]
    held = {
        name: Period(start, end) for name, start, end in zip(facts["object"], facts["start"], facts["end"], strict=True)
    }
    assert held["Angela Merkel"] == Period("2005-11-22", "2021-12-08") and held["Almaty"].end is not None
    scored = page[0]["metrics"][0]["year"]["win_rate"]
    assert scored[facts["object"].index("Almaty")] is None and scored[facts["object"].index("Astana")] == 1
    assert page[0]["metrics"][1]["month"]["win_rate"] == [None] * 5


def test_believed_periods_and_verdicts_stand_with_their_facts(page: tuple[dict, Path]):
    data = page[0]
    place = data["facts"]["object"].index("Astana")
    assert data["asked"][1]["facts"][place]["believed"] == [1998, None]
    assert data["asked"][2]["facts"][place]["believed"] is None
    assert data["verdicts"]["runs"][0] is None and data["verdicts"]["runs"][1]["verdict"][place] == "known"
    assert data["verdicts"]["runs"][2]["today"][place].startswith("Asked about today, the model says Almaty")


def test_what_still_holds_is_said_to_hold_on(page: tuple[dict, Path]):
    data = page[0]
    place = data["facts"]["object"].index("Astana")
    assert data["facts"]["end"][place] is None and data["facts"]["start"][place] == "1997-12-10"
    read = [read for year, _, read in data["asked"][1]["facts"][place]["said"] if year is None]
    assert read and all(re.fullmatch(r"\d{4} on", one) for one in read)


def test_the_strips_have_the_names_that_were_given(page: tuple[dict, Path], runs: list[Path]):
    seen = 0
    for run, folder in zip(page[0]["verdicts"]["runs"][1:], runs[:2], strict=True):
        answers = read_answers(folder).filter(pl.col("kind") == "open", pl.col("decoy").is_null())
        for one in run["successions"]:
            ids = [page[0]["facts"]["id"][n] for n in one["facts"]]
            named = {
                int(row["years"]): row["read"]
                for row in answers.iter_rows(named=True)
                if row["fact_id"] in ids and row["read"] in one["objects"]
            }
            told = {
                year: one["objects"][n]
                for start, until, of, _ in one["likeliest"]
                for year in range(start, until)
                for n in of
            }
            assert told == named
            seen += len(named)
    assert seen


def test_a_page_of_answers_alone(runs: list[Path], tmp_path: Path):
    made = write_report(runs[:1], tmp_path)
    data, text = page_of(made.page), made.page.read_text("utf-8")
    assert data["headline"]["rows"] == [] and data["contexts"]["scores"] == [] and data["sentence"] == ""
    assert "W by choice of two years: 100.0 %" in text and "Each fact was asked about on many dates" not in text
    assert {entry["name"] for entry in data["analyses"]} == {"asked", "asked_facts"}
    manifest = json.loads((tmp_path / "index.html.manifest.json").read_text())
    assert {Path(name).name for name in manifest["inputs"]} == {"facts.csv", "ask.json", "answers.jsonl"}


def test_metrics_write_what_was_asked_and_the_bridge(runs: list[Path], tmp_path: Path):
    written = write_metrics(runs, tmp_path)
    assert {"facts", "summary", "asked", "asked_facts", "bridge_facts", "bridge", "conversion"} <= set(written.tables)
    asked = pl.read_csv(tmp_path / "asked.csv")
    assert asked["model"].to_list() == ["talking", "early"] and asked["win_rate"][0] == 1
    both = pl.read_csv(tmp_path / "bridge_facts.csv")
    assert set(both["model"]) == {"early"} and both.height == 4
    assert not any(pl.read_csv(tmp_path / "conversion.csv")["converts"])
    row = pl.read_parquet(tmp_path / "bridge.parquet").filter(asked="choice").row(0, named=True)
    lines = list(answer_table_lines(written.tables))
    assert lines[0].startswith("talking, asked by generate: W by choice 100.0 % [") and len(lines) == 2 + 2 + 4
    assert f"r {row['correlation']:.2f} [" in lines[2] if row["correlation"] is not None else "r - [-, -]" in lines[2]
    assert f"bias {100 * row['bias']:+.1f} points" in lines[2] and "W by choice is not converted" in lines[4]
    assert (tmp_path / "markdown" / "bridge.md").is_file() and not (tmp_path / "markdown" / "asked_facts.md").exists()


def test_a_run_that_is_damaged_is_refused(runs: list[Path], tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(runs[0], copy)
    (copy / "answers.jsonl").write_text("{}\n")
    with pytest.raises(DataError):
        write_report([copy], tmp_path / "report")


def test_the_words_are_seen_in_a_browser(page: tuple[dict, Path], browser):
    data, path = page
    fact = data["facts"]["object"].index("Angela Merkel")
    seen = browser.new_page()
    errors: list[str] = []
    seen.on("pageerror", lambda error: errors.append(str(error)))
    seen.goto(f"{path.as_uri()}#fact={data['facts']['id'][fact]}&run=1")
    seen.wait_for_selector("#timeline-chart[data-fact]")
    words = seen.locator("#timeline-words li").all_inner_texts()
    assert len(words) == 3 and "2006 to 2021" in words[0] and "<i>Angela Merkel and so on" in words[1]
    assert "W by choice 100.0" in seen.locator("#timeline-about").inner_text()
    shown = seen.evaluate("document.getElementById('timeline-chart').data.flatMap((t) => t.text ?? [])")
    assert "&lt;i&gt;Angela Merkel and …" in [text for text in shown if "Merkel" in text]
    seen.locator("#timeline-runs input").first.check()  # the scored run above, in its own panel
    wait_until(seen, "document.getElementById('timeline-chart').layout.yaxis2 !== undefined")
    assert seen.locator("#trouble").is_hidden() and not errors
