"""A file of one's own facts as a data set: which dates are asked, what is left out, and every command that takes it."""

import datetime
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.contexts import Sampling
from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.data.build_statements import build_statements
from anachron.data.bundled.mini import mini_statements
from anachron.data.loaders import load_dataset
from anachron.data.own.files import Rows, read_rows
from anachron.data.own.reading import Reading
from anachron.data.own.statements import own_facts
from anachron.data.question_files import verbalise
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.files import read_json
from anachron.io.run_folder import RunFolder
from anachron.probe.check.questions import read_facts
from anachron.probe.runs import recorded_as_of

FACTS = """\
subject;relation;object;start;end;fact_id;question
Germany;Capital;Berlin;1990-10-03;;berlin;
Germany;capital;Bonn;1949;October 3, 1990;bonn;
Peru;spirit animal;the llama;2021-02-01;2024-03-31;llama;which animal stood for Peru?
Peru;spirit animal;the condor;2021-02-01;2024-03-31;condor;
USA;P35;Cleveland;1885-03-04;1889-03-04;gc;
USA;P35;Cleveland;1893-03-04;1897-03-04;gc2;
USA;P35;the next one;2029-01-20;;next;
Rome;country;Italy;1990-01-01;1990-01-01;day;
Iran;head of state;Khamenei;2023-06-01;;late;
"""
REASONS = {
    "condor": "no question", "next": "starts after 2024-06-30", "day": "no length",
}  # fmt: skip
OPEN = ["Berlin", "Khamenei"]
OTHERS = {"Berlin": 1, "Bonn": 1, "the llama": 1, "Cleveland": 1, "Khamenei": 0}


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.csv"
    path.write_text(FACTS, "utf-8-sig")
    return path


def test_every_fact_is_asked_or_listed_with_its_reason(facts: Path):
    data = load_dataset(str(facts), as_of="2024-06-30")
    left_out = dict(data.left_out.select("given_id", "reason").iter_rows())
    assert left_out.keys() == REASONS.keys()
    assert all(left_out[name].startswith(reason) for name, reason in REASONS.items()), left_out
    assert data.about["given_id"].to_list() == ["berlin", "bonn", "llama", "gc | gc2", "late"]
    others = dict(data.table.select("object_label", "other_objects").unique().iter_rows())
    assert others == OTHERS  # "Capital" and "capital" are one relation, and what cannot be asked counts
    times = {text: Date.parse(text) for text in data.table["time"].drop_nulls().unique()}
    of_years = set(data.table.filter(pl.col("object_label") != "Khamenei")["time"].drop_nulls())
    assert max(date.last_day for name, date in times.items() if name in of_years) == Date(2023).last_day
    late = data.table.filter(pl.col("object_label") == "Khamenei")  # no whole year: months, and days in them
    assert late["granularity"].unique(maintain_order=True).to_list() == ["month", "day"]
    held = late.filter(pl.col("granularity") == "month", pl.col("status") == "correct")["time"].to_list()
    assert held == [*(f"2023-{m:02d}" for m in range(6, 13)), *(f"2024-{m:02d}" for m in range(1, 7))]
    berlin = data.table.filter(pl.col("object_label") == "Berlin", pl.col("granularity") == "year")
    correct = berlin.filter(pl.col("status") == "correct")["time"].to_list()
    assert berlin["end"].null_count() == berlin.height
    years = [(int(year), int(year) >= 1991) for year in berlin["time"].drop_nulls()]
    assert correct == [str(year) for year, holds in years if holds] and years[-1][0] >= 2022
    llama = data.table.filter(pl.col("object_label") == "the llama", pl.col("status") == "correct")
    assert llama.filter(pl.col("granularity") == "year")["time"].to_list() == ["2022", "2023"]  # the dates follow it
    assert llama["prompt"].str.ends_with("which animal stood for Peru?").all()


def test_as_of_and_limit_are_options_of_facts(facts: Path):
    assert load_dataset(str(facts)).as_of is not None
    early = load_dataset(str(facts), as_of="1890")
    assert early.table["object_label"].unique().to_list() == ["Cleveland"]
    assert early.table["also_held"].null_count() == early.table.height if "also_held" in early.table.columns else True
    assert early.left_out.height == 7
    few = load_dataset(str(facts), as_of="2024", limit=2)
    assert (few.facts, few.about.height, few.as_of) == (2, 2, "2024")
    assert few.choices() == {"as_of": "2024", "limit": 2}
    assert set(few.table["fact_id"]) <= set(load_dataset(str(facts), as_of="2025-02").table["fact_id"])  # ids stay
    for arguments, said in (
        ({"as_of": "soon"}, "as of 'soon' is not a date"), ({"limit": 0}, "limit 0"),
        ({"boundaries": "mine"}, "boundary convention 'mine'"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            load_dataset(str(facts), **arguments)
    with pytest.raises(ConfigError, match="mini is not a file of facts"):
        load_dataset("mini", as_of="2024")
    with pytest.raises(DataError, match=r"none of the 8 facts can be asked: .*starts after 1800"):
        load_dataset(str(facts), as_of="1800")


def test_a_fact_that_holds_in_every_year_asked_about_is_listed(tmp_path: Path):
    path = tmp_path / "facts.csv"
    path.write_text("subject,relation,object,start,end\nGermany,capital,Bonn,1949,1990\nPeru,capital,Lima,1821,\n")
    inside = Sampling(horizon=0.45, step=0.05)  # no date outside a period
    with pytest.raises(DataError, match="2 because no incorrect date left: "):
        own_facts(path, as_of="2020", sampling=inside)
    early = load_dataset(str(path), as_of="1955")
    assert early.facts == 2 and early.table["time"].max() < "1956"


def test_dates_in_a_period_that_is_not_asked_about_are_not_incorrect(tmp_path: Path):
    rows = [("2001-03-01", "2005-08-01"), ("2009-05-05", "2009-05-05"), ("2024-01-10", None)]
    names = ["subject", "relation", "object", "start", "end"]
    table = pl.DataFrame([("Peru", "head of state", "Ana", *row) for row in rows], schema=names, orient="row")
    table.with_columns(pl.col("start", "end").str.to_date()).write_parquet(tmp_path / "facts.parquet")
    data = load_dataset(str(tmp_path / "facts.parquet"), as_of="2024-01-10")
    years = {*data.table.filter(pl.col("granularity") == "year")["time"].drop_nulls()}
    assert {"2008", "2010"} <= years and "2009" not in years and data.left_out.height == 0


def test_statements_written_are_the_data_set(facts: Path, tmp_path: Path):
    built = build_statements(facts, tmp_path / "set.csv", as_of="2024-06-30")
    direct = load_dataset(str(facts), as_of="2024-06-30")
    assert built.table.equals(direct.table) and built.until == 2023
    again = load_dataset(str(tmp_path / "set.csv"))
    assert again.table.equals(direct.table) and again.fingerprint() == direct.fingerprint()
    no_alpha = pl.read_csv(tmp_path / "set.csv", infer_schema=False).filter(~pl.col("ObjectLabel").is_in(OPEN))
    no_alpha.drop("Alpha").write_csv(tmp_path / "plain.csv")
    expected = direct.table.filter(~pl.col("object_label").is_in(OPEN))
    assert load_dataset(str(tmp_path / "plain.csv")).table.equals(expected)
    parameters = read_json(tmp_path / "set.csv.manifest.json")["parameters"]
    assert (parameters["as_of"], parameters["left_out"], parameters["until"]) == ("2024-06-30", 3, 2023)
    assert pl.read_csv(tmp_path / "set.csv.left_out.csv").equals(direct.left_out.with_columns(pl.col("rows").cast(int)))


def test_questions_of_templates_and_ones_own_go_into_the_file(facts: Path, tmp_path: Path):
    counts = verbalise(facts, tmp_path / "questions.jsonl")
    assert (counts["facts"], counts["verbalised"]) == (8, 7)
    (failed,) = map(json.loads, (tmp_path / "questions.jsonl.failed.jsonl").read_text().splitlines())
    assert failed["object"] == "the condor" and failed["rows"] == "4"
    rows = pl.read_ndjson(tmp_path / "questions.jsonl")
    assert rows.filter(pl.col("object") == "the llama")["question"].item() == "which animal stood for Peru?"
    assert rows.filter(pl.col("object") == "Cleveland")["start"].to_list() == ["1885-03-04", "1893-03-04"]
    worded = load_dataset(str(tmp_path / "questions.jsonl"), as_of="2024-06-30")
    stored = worded.table.drop_nulls("questions")
    assert set(stored["status"]) == {"none"} and stored["fact_id"].n_unique() == worded.facts
    assert worded.table.drop("questions").equals(load_dataset(str(facts), as_of="2024-06-30").table)


def test_roles_get_the_question_in_the_file_that_a_probe_asks(tmp_path: Path):
    path, out = tmp_path / "facts.csv", tmp_path / "questions.jsonl"
    path.write_text("""subject,relation,relation_id,object,start,end
Germany,chancellor,,Angela Merkel,2005-11-22,2021-12-08
Russia,president,,Vladimir Putin,2000-05-07,2008-05-07
Russia,president,,Vladimir Putin,2012-05-07,
Oz,mayor,P999999,Ann,2001,2005
Initech,owner,,Initech,2001,2009
Peru,capital,,Lima,1821,
Peru,spirit animal,,the llama,2001,2004
""")
    counts = verbalise(path, out)
    assert counts["failed"] == {"answer in question": 1, "relation without templates": 1}
    asked = {row["subject"]: row["question"] for row in map(json.loads, out.read_text("utf-8").splitlines())}
    assert asked["Germany"] == "who was the chancellor of Germany?"
    assert asked["Russia"] == "who was the president of Russia?" and asked["Oz"] == "who was the mayor of Oz?"
    probed = load_dataset(str(path), as_of="2024-06-30")
    assert dict(probed.about.select("subject", "question").iter_rows()) == asked
    french = verbalise(path, tmp_path / "french.jsonl", language="fr")
    assert french["failed"] == {"relation without templates": 5}  # the rule is for English


@pytest.mark.full
def test_commands_take_the_file_and_say_what_they_leave_out(facts: Path, tmp_path: Path, capsys):
    until = ("--as-of", "2024-06-30")
    assert run("audit", facts, "--tokenizer", "demo", "--json", *until) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["facts"] == 5 and found["status_differs"] == found["alpha_differs"] == 0
    assert "5 facts are asked about, as of 2024-06-30; 3 cannot be" in printed.err
    assert "row 4, Peru, spirit animal, the condor [2021-02-01/2024-03-31]: no question" in printed.err
    assert run("export", "lm-eval", facts, "--out", tmp_path / "task", *until) == 0
    assert run("export", "hub", facts, "--out", tmp_path / "hub", "--limit", 2, *until) == 0
    capsys.readouterr()
    assert run("build", "statements", facts, "--out", tmp_path / "set.parquet", "--json", *until) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["left_out"]) == 3 and "3 cannot be" in printed.err
    assert run("datasets", facts, "--out", tmp_path / "no.csv") == 2
    assert "build statements writes its statements" in capsys.readouterr().err


def test_successions_reach_into_the_present(facts: Path, tmp_path: Path, capsys):
    facts.write_text(FACTS.replace("Capital", "capital"))
    assert run("export", "counterfact", facts, "--out", tmp_path / "cases.json", "--as-of", "2024-06-30") == 0
    (case,) = read_json(tmp_path / "cases.json")
    assert case["requested_rewrite"]["target_new"]["str"] == "Berlin"
    assert case["periods"]["target_new"] == ["1990-10-03", None]


def test_successions_of_presidents_who_came_back(tmp_path: Path):
    path = tmp_path / "facts.csv"
    path.write_text("""subject,relation,object,start,end
Russia,president,Vladimir Putin,2000-05-07,2008-05-07
Russia,president,Dmitry Medvedev,2008-05-07,2012-05-07
Russia,president,Vladimir Putin,2012-05-07,
Brazil,president,Lula,2003-01-01,2010-12-31
Brazil,president,Dilma Rousseff,2011-01-01,2016-08-31
Brazil,president,Jair Bolsonaro,2019-01-01,2022-12-31
Brazil,president,Lula,2023-01-01,present
""")
    assert run("export", "counterfact", path, "--out", tmp_path / "cases.json", "--as-of", "2026-11-01") == 0
    changes = {
        (case["requested_rewrite"]["target_new"]["str"], case["date_of_change"])
        for case in read_json(tmp_path / "cases.json")
    }
    assert changes == {
        ("Dmitry Medvedev", "2008-05-07"), ("Vladimir Putin", "2012-05-07"), ("Dilma Rousseff", "2011-01-01"),
        ("Lula", "2023-01-01"),
    }  # fmt: skip


@pytest.mark.full
def test_a_probe_from_the_file_to_the_tables(facts: Path, tmp_path: Path, capsys):
    out = tmp_path / "run"
    words = ("probe", "demo", "--dataset", facts, "--out", out)
    assert run(*words, "--as-of", "2024-06-30", "--json") == 0
    printed = capsys.readouterr()
    assert {row["facts"] for row in json.loads(printed.out)["summary"]} == {4, 5}  # one has no years
    assert {row["given_id"] for row in json.loads(printed.out)["left_out"]} == set(REASONS)
    assert "the condor" in printed.err
    asked, left_out = pl.read_csv(out / "asked.csv"), pl.read_csv(out / "left_out.csv")
    assert asked["given_id"].to_list() == ["berlin", "bonn", "llama", "gc | gc2", "late"]
    assert set(left_out["given_id"]) == set(REASONS)
    record = read_json(out / "run.json")
    assert record["settings"]["as_of"] == "2024-06-30" and {"asked.csv", "left_out.csv"} <= record["files"].keys()
    scores = pl.read_parquet(out / "scores.parquet")
    data = load_dataset(str(facts), as_of="2024-06-30")
    assert scores["status"].to_list() == data.table["status"].to_list() and scores["logp"].is_finite().all()
    before = (out / "scores.parquet").read_bytes()
    assert run(*words) == 0 and (out / "scores.parquet").read_bytes() == before  # it goes on as of its first day
    (out / "asked.csv").write_text("broken")
    assert run(*words) == 0 and pl.read_csv(out / "asked.csv").equals(asked)
    assert run(*words, "--as-of", "2023") == 2
    assert "(as_of): '2024-06-30' -> '2023'" in capsys.readouterr().err
    assert run("report", out, "--out", tmp_path / "report") == 0


def test_a_limit_makes_statements_of_no_more_facts_than_it_takes(facts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sample as of all statements, although the fact with the smallest id of all may have no date."""
    whole = load_dataset(str(facts), as_of="2024-06-30")
    made: list[int] = []

    def counted(asked: list[FactWithQuestion], **options: Any) -> pl.DataFrame:
        made.append(len(asked))
        return make_statements(asked, **options)

    monkeypatch.setattr("anachron.data.own.statements.make_statements", counted)
    for limit in range(1, whole.facts + 2):
        made.clear()
        few, sampled = load_dataset(str(facts), as_of="2024-06-30", limit=limit), whole.sample(limit)
        assert few.table.equals(sampled.table.select(few.table.columns)) and few.name == sampled.name
        assert few.about.equals(sampled.about.select(few.about.columns))
        assert made[-1] == few.facts and max(made) <= limit
        assert few.left_out.is_empty() and few.left_out.equals(sampled.left_out)


@pytest.mark.parametrize("limit", [1, 7])
def test_a_limit_of_mini_is_its_sample(limit: int) -> None:
    """But for columns that say nothing of any of these facts."""
    few, sampled = mini_statements(limit), load_dataset("mini").sample(limit).table
    assert few.equals(sampled.select(few.columns))
    assert sampled.drop(few.columns).null_count().row(0) == (sampled.height,) * (sampled.width - few.width)


def test_a_file_of_facts_is_read_once(facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path | str] = []

    def counted(path: Path | str, reading: Reading | None) -> Rows:
        read.append(path)
        return read_rows(path, reading)

    monkeypatch.setattr("anachron.data.own.files.read_rows", counted)
    read_facts(facts, as_of="2024-06-30", limit=2)
    assert read == [facts]
    build_statements(facts, tmp_path / "out.parquet", as_of="2024-06-30")
    assert read == [facts, facts]


def test_lives_of_a_file_are_in_its_statements(tmp_path: Path):
    path = tmp_path / "lives.csv"
    path.write_text(
        "subject,relation,object,start,end,Object birth,object_death\n"
        "USA,head of state,Abraham Lincoln,1861-03-04,1865-04-15,12 February 1809,1865-04-15\n"
        "USA,head of state,Barack Obama,2009-01-20,2017-01-20,1961,\n",
        "utf-8",
    )
    table = load_dataset(str(path), as_of="2024-06-30").table
    lives = table.select("object_label", "object_from", "object_until").unique().sort("object_label").rows()
    assert lives == [("Abraham Lincoln", "1809-02-12", "1865-04-15"), ("Barack Obama", "1961", None)]
    path.write_text(path.read_text("utf-8").replace("1961", "long ago"), "utf-8")
    with pytest.raises(DataError, match=r"lives.csv: row 2, Object birth: .*'long ago'"):
        load_dataset(str(path), as_of="2024-06-30")


def test_a_day_to_come_is_no_as_of_and_an_older_run_keeps_its_own(tmp_path: Path, capsys) -> None:
    """Against the clock of this machine; a month or a year that is not over yet is to come too."""
    path = tmp_path / "facts.csv"
    path.write_text("subject,relation,object,start,end\nKazakhstan,capital,Astana,1997,\n")
    today = datetime.date.today()
    late = [today + datetime.timedelta(days=1), f"{today.year + 1}", f"{today.year + 300}-01-01"]
    late += [f"{today.year}"] if (today.month, today.day) != (12, 31) else []
    for day in late:
        with pytest.raises(ConfigError, match="it ends after today"):
            own_facts(path, as_of=day)
    for day in (today, str(today), today.isoformat()):
        assert str(own_facts(path, as_of=day).as_of) == str(today)
    settings = {"as_of": "2999-01-01"}
    RunFolder(tmp_path, {"format": 2, "status": "running", "settings": settings, "sessions": [], "files": {}}).save()
    kept = recorded_as_of(tmp_path)
    assert str(kept) == "2999-01-01" and load_dataset(str(path), as_of=kept).as_of == "2999-01-01"
    assert read_facts(path, as_of=kept).data.as_of == "2999-01-01"
    for words in (["check", "demo", "--facts"], ["probe", "demo", "--dataset"], ["build", "statements"]):
        assert (
            run_command([*words, str(path), "--out", str(tmp_path / "o.csv"), "--as-of", "2999-01-01"], debug=False)
            == 2
        )
        assert "it ends after today" in capsys.readouterr().err
