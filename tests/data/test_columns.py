"""The published columns: round trips through every format, lenient reading, and refusal of every bad row."""

import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import Fact, fact_id
from anachron.core.periods import Period
from anachron.data.columns import (
    MORE,
    MORE_SCHEMA,
    PUBLISHED,
    REQUIRED,
    STATEMENT_SCHEMA,
    from_published,
    read_dates,
    to_published,
)
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.tables import write_table

FACTS = [
    Fact(
        "United States", "head of state", "Barack Obama", Period("2009-01-20", "2017-01-20"), "Q30", "P35", "Q76", 7e4
    ),
    Fact("Peru", "currency", "inti", Period("1985-02", "1991"), relation_id="P38"),
    Fact("Rome", "consul", 'Zoë, "the Elder"', Period("-0044-03", "-0031-09-02")),
]
TABLE = make_statements(
    [FactWithQuestion(FACTS[0], "who led it?", 44), *(FactWithQuestion(f, "what was it?") for f in FACTS[1:])]
)
OPTIONAL = [name for name in PUBLISHED if name not in REQUIRED]


def row(**changes: Any) -> dict[str, Any]:
    """One published row, as text."""
    return {
        "SubjectID": "Q30", "SubjectLabel": "United States", "RelationID": "P35", "RelationLabel": "head of state",
        "ObjectID": "Q76", "ObjectLabel": "Barack Obama", "StartDate": "2009-01-20", "EndDate": "2017-01-20",
        "Time": "2011", "Statement": "In 2011, who led it? Barack Obama", "Status": "Correct",
    } | changes  # fmt: skip


NONE_ROW = row(Time="", Statement="who led it? Barack Obama", Status="No context")
ROWS = [NONE_ROW, row(), row(Time="2011-03"), row(Time="2000", Status="Incorrect")]


def read(rows: list[dict[str, Any]], **options: Any) -> pl.DataFrame:
    return from_published(pl.DataFrame(rows, infer_schema_length=None), **options)[0]


def hub_file(folder: Path, name: str = "train.parquet", table: pl.DataFrame = TABLE) -> None:
    write_table(folder / name, to_published(table, "released"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `datasets` library, offline and with a cache of its own."""
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("boundaries", ["released", "paper"])
def test_round_trip_through_a_file(tmp_path: Path, ending: str, boundaries: Any) -> None:
    table = make_statements([FactWithQuestion(f, "what was it?", 2) for f in FACTS], boundaries=boundaries)
    path = tmp_path / f"statements.{ending}"
    published = to_published(table, boundaries)
    assert tuple(published.columns) == PUBLISHED
    write_table(path, published)
    back = load_dataset(str(path))
    assert (back.name, back.boundaries, back.facts) == (str(path), boundaries, 3)
    assert dict(back.table.schema) == STATEMENT_SCHEMA
    assert back.table.equals(table)
    assert back.fingerprint() == Dataset("", table, boundaries).fingerprint()


def test_round_trip_through_a_json_list(tmp_path: Path) -> None:
    (tmp_path / "statements.json").write_text(json.dumps(to_published(TABLE, "released").to_dicts()))
    assert load_dataset(str(tmp_path / "statements.json")).table.equals(TABLE)


@pytest.mark.full
def test_the_bundled_statements_survive_the_round_trip(mini: Dataset) -> None:
    back, boundaries = from_published(to_published(mini.table, mini.boundaries))
    assert boundaries == mini.boundaries
    assert back.equals(mini.table)


def test_published_status_names() -> None:
    published = to_published(TABLE, "released")
    pairs = set(zip(TABLE["status"], published["Status"], strict=True))
    assert pairs == {
        ("correct", "Correct"), ("incorrect", "Incorrect"), ("transitional", "Transitional"),
        ("discarded", "Discarded"), ("none", "No context"),
    }  # fmt: skip
    assert published["Statement"][0] == "who led it? Barack Obama"
    assert published["Time"][0] is None


@pytest.mark.parametrize("boundaries", ["released", "paper"])
def test_missing_alpha_and_granularity_are_recomputed(boundaries: Any) -> None:
    table = make_statements([FactWithQuestion(f, "what was it?") for f in FACTS], boundaries=boundaries)
    raw = to_published(table, boundaries).drop("Alpha", "Granularity")
    assert from_published(raw)[0].equals(table)


def test_a_file_with_the_required_columns_alone_is_enough() -> None:
    back, boundaries = from_published(to_published(TABLE, "released").select(REQUIRED))
    assert boundaries == "released"
    for name in ("subject_id", "relation_id", "object_id", "popularity", "other_objects"):
        assert back[name].null_count() == TABLE.height, name
    same = ["subject_label", "start", "end", "granularity", "time", "status", "alpha", "prompt", "answer"]
    assert back.select(same).equals(TABLE.select(same))
    assert back["fact_id"][0] == fact_id("United States", "head of state", "Barack Obama", "2009-01-20", "2017-01-20")


@pytest.mark.parametrize("name", OPTIONAL)
def test_each_optional_column_may_be_missing(name: str) -> None:
    back, _ = from_published(to_published(TABLE, "released").drop(name))
    assert back.height == TABLE.height
    assert back["granularity"].equals(TABLE["granularity"])


def test_undated_rows_are_numbered_year_month_day_for_each_fact() -> None:
    other = NONE_ROW | {"ObjectID": "Q1", "ObjectLabel": "Joe Biden", "Statement": "who led it? Joe Biden"}
    table = read([NONE_ROW, other, NONE_ROW, other, row(), NONE_ROW, other])
    undated = table.filter(pl.col("status") == "none")
    for answer in ("Barack Obama", "Joe Biden"):
        mine = undated.filter(pl.col("answer") == answer)
        assert mine["granularity"].to_list() == ["year", "month", "day"]


def test_a_fourth_undated_row_is_refused() -> None:
    with pytest.raises(DataError, match="row 4: a fourth statement without a date"):
        read([NONE_ROW] * 4)


def test_published_values_are_read_leniently(tmp_path: Path) -> None:
    caesar = {
        "StartDate": "-037-03-18", "EndDate": "0041-01-24", "ObjectLabel": "Caligula", "Statement": "X? Caligula",
        "ObjectID": "Q2",
    }  # fmt: skip
    rows = [
        NONE_ROW,
        row(Status="CORRECT"),
        row(Status="incorrect", Time=" 0652 "),
        row(Status="Transitional", Time="2009-01"),
        row(Status="no CONTEXT", Time=None, Statement="who led it? Barack Obama"),
        row(Time="-037", Status="Transitional", **caesar),
        row(Time="0037-5", Status="Correct", **caesar),
    ]
    path = tmp_path / "published.csv"
    write_table(path, pl.DataFrame(rows))
    table = load_dataset(str(path)).table
    assert table["status"].to_list() == [
        "none", "correct", "incorrect", "transitional", "none", "transitional", "correct",
    ]  # fmt: skip
    assert table["time"].to_list() == [None, "2011", "0652", "2009-01", None, "-0037", "0037-05"]
    assert table["granularity"].to_list() == ["year", "year", "year", "month", "month", "year", "month"]
    assert (table["start"][5], table["end"][5]) == ("-0037-03-18", "0041-01-24")
    assert table["alpha"][2] == Period("2009-01-20", "2017-01-20").alpha("0652")


@pytest.mark.parametrize("empty", [None, "", "None", "nan", "NaT", "null"])
def test_every_way_to_leave_a_time_empty(empty: str | None) -> None:
    assert read([row(), NONE_ROW | {"Time": empty}])["time"].to_list() == ["2011", None]


@pytest.mark.parametrize(
    ("day", "kind"),
    [
        (date(2011, 3, 24), pl.Date),
        (datetime(2011, 3, 24), pl.Datetime("us")),
        (datetime(2011, 3, 24), pl.Datetime("ns")),
        ("2011-03-24T00:00:00Z", pl.String),
    ],
)
def test_days_in_other_column_types(day: Any, kind: Any) -> None:
    raw = pl.DataFrame([row()]).with_columns(Time=pl.Series([day], dtype=kind))
    assert from_published(raw)[0]["time"].to_list() == ["2011-03-24"]


@pytest.mark.parametrize(
    ("name", "granularity"),
    [("Year", "year"), ("YM", "month"), ("M", "month"), ("DAY", "day"), ("ymd", "day"), ("Granularity.YEAR", "year")],
)
def test_names_of_granularities(name: str, granularity: str) -> None:
    assert read([NONE_ROW | {"Granularity": name}])["granularity"].to_list() == [granularity]


@pytest.mark.parametrize(
    ("statement", "prompt", "answer"),
    [
        ("In 2011, who led it? Barack Obama", "In 2011, who led it?", "Barack Obama"),
        ("In 2011, who led it? barack obama", "In 2011, who led it?", "barack obama"),
        ("In 2011, who led it? Barack Obama.", "In 2011, who led it?", "Barack Obama."),
        ("In 2011, who? led it? Barack Obama", "In 2011, who? led it?", "Barack Obama"),
    ],
)
def test_prompt_and_answer_part_at_the_question_mark(statement: str, prompt: str, answer: str) -> None:
    table = read([row(Statement=statement)])
    assert table.select("prompt", "answer").row(0) == (prompt, answer)


def test_an_object_with_a_question_mark() -> None:
    table = read([row(ObjectLabel="Who? Me?", Statement="what was it? Who? Me?")])
    assert table.select("prompt", "answer").row(0) == ("what was it?", "Who? Me?")


def test_a_statement_that_the_answer_completes_is_split_there_and_written_as_it_was(tmp_path: Path) -> None:
    """TimeStress, limitations: forms of statement other than a question. Files of facts and of statements alike."""
    facts = tmp_path / "facts.csv"
    facts.write_text(
        "subject,relation,object,start,end,question\n"
        "USA,president,Barack Obama,2009-01-20,2017-01-20,The president of the USA was\n"
        "Japan,prime minister,Shinzo Abe,2012-12-26,2020-09-16,who led Japan?\n"
    )
    data = load_dataset(str(facts), as_of="2024")
    asked = set(data.table.filter(pl.col("time") == "2011")["prompt"])
    assert asked == {"In 2011, the president of the USA was", "In 2011, who led Japan?"}
    write_table(tmp_path / "statements.csv", to_published(data.table, data.boundaries))
    statements = pl.read_csv(tmp_path / "statements.csv")
    assert "In 2011, the president of the USA was Barack Obama" in statements["Statement"].to_list()
    again = load_dataset(str(tmp_path / "statements.csv"))
    assert again.table.select("prompt", "answer").equals(data.table.select("prompt", "answer"))


@pytest.mark.parametrize(
    ("changes", "value", "rule"),
    [
        ({"Time": "2011-02-30"}, "'2011-02-30'", "Time .*goes from 1 to 28"),
        ({"Time": "2011-13"}, "'2011-13'", "Time .*months go from 1 to 12"),
        ({"Time": "0000"}, "'0000'", "no year 0"),
        ({"Time": "next year"}, "'next year'", "write YYYY"),
        ({"StartDate": "2009-02-29"}, "'2009-02-29'", "StartDate .*goes from 1 to 28"),
        ({"EndDate": "2017-06-31"}, "'2017-06-31'", "EndDate .*goes from 1 to 30"),
        ({"StartDate": "2017-01-21"}, "2017-01-20", "before the start 2017-01-21; swap or correct"),
        ({"StartDate": ""}, "''", "StartDate '' is empty; give"),
        ({"SubjectLabel": None}, "None", "SubjectLabel None is empty; give"),
        ({"ObjectLabel": ""}, "''", "ObjectLabel '' is empty; give"),
        ({"Status": "Maybe"}, "'Maybe'", "Status 'Maybe' is unknown; use one of Correct, Incorrect"),
        ({"Status": ""}, "''", "Status '' is empty; give"),
        ({"Status": "No context"}, "'2011-03'", "'No context' goes with an empty Time"),
        ({"Time": ""}, "'Correct'", "every other status with a date"),
        (
            {"Statement": "who led it? Joe Biden"},
            "'who led it? Joe Biden'",
            "followed by its ObjectLabel 'Barack Obama'",
        ),
        ({"Statement": "he led it. Barack Obama"}, "'he led it. Barack Obama'", r"must be a question ending in '\?'"),
        ({"Statement": "he isBarack Obama"}, "'he isBarack Obama'", r"must be a question ending in '\?'"),
        ({"Statement": "who? he was Barack Obama"}, "'who? he was Barack Obama'", r"must be a question ending in '\?'"),
        ({"Statement": "Barack Obama"}, "'Barack Obama'", r"must be a question ending in '\?'"),
        ({"Granularity": "day"}, "2011-03", "is not a day; correct Time or Granularity"),
        ({"Granularity": "week"}, "'week'", "use year, month or day"),
        ({"Alpha": "close"}, "'close'", "Alpha .*is not a finite number; give one or leave it empty"),
        ({"FactPop": "many"}, "'many'", "FactPop .*is not a finite number; give one"),
    ],
)
def test_a_bad_row_is_named_with_its_value_and_the_rule(
    tmp_path: Path, changes: dict[str, str | None], value: str, rule: str
) -> None:
    rows = [*ROWS[:2], ROWS[2] | changes, ROWS[3]]
    path = tmp_path / "bad.csv"
    write_table(path, pl.DataFrame(rows, infer_schema_length=None))
    with pytest.raises(DataError, match=rule) as caught:
        load_dataset(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: row 3: ") and value in message and "\n" not in message


def test_the_good_rows_of_that_test_are_good() -> None:
    assert read(ROWS)["status"].to_list() == ["none", "correct", "correct", "incorrect"]


def test_a_duplicate_names_both_rows() -> None:
    with pytest.raises(DataError) as caught:
        read([*ROWS, row(Time="02011")])
    message = str(caught.value)
    assert message.startswith("row 5: ") and "as row 2 " in message and "'2011'" in message and "keep one" in message
    assert "Barack Obama" in message and "\n" not in message


def test_two_undated_rows_of_one_granularity_are_duplicates() -> None:
    with pytest.raises(DataError, match="row 2: the same fact"):
        read([NONE_ROW | {"Granularity": "year"}] * 2)


def test_the_same_labels_with_other_ids_are_other_facts() -> None:
    assert read([row(), row(SubjectID="Q1")])["fact_id"].n_unique() == 2


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_column_is_named_with_all_that_are_needed(name: str) -> None:
    with pytest.raises(DataError, match=f"lacks the column {name}; it needs {', '.join(REQUIRED)}"):
        from_published(pl.DataFrame(ROWS).drop(name))


def test_all_missing_columns_are_named_at_once() -> None:
    with pytest.raises(DataError, match="lacks the columns Time, Statement;"):
        from_published(pl.DataFrame(ROWS).drop("Time", "Statement"))


def test_a_period_of_one_day_needs_its_alpha() -> None:
    single = row(StartDate="2011-03-24", EndDate="2011-03-24")
    with pytest.raises(DataError, match=r"row 1: .*no length"):
        read([single])
    assert read([single | {"Alpha": "0.5"}])["alpha"].to_list() == [0.5]


def test_the_recorded_boundaries_win_and_others_contradict() -> None:
    raw = pl.DataFrame(ROWS).with_columns(Boundaries=pl.lit("paper"))
    assert from_published(raw)[1] == from_published(raw, "paper")[1] == "paper"
    with pytest.raises(ConfigError, match="made with boundaries 'paper', not 'released'"):
        from_published(raw, "released")


def test_boundaries_can_be_given_where_none_are_recorded() -> None:
    coarse = row(StartDate="2009", EndDate="2017")
    tables = [from_published(pl.DataFrame([coarse]), boundaries) for boundaries in (None, "released", "paper")]
    assert [boundaries for _, boundaries in tables] == ["released", "released", "paper"]
    alphas = [table["alpha"][0] for table, _ in tables]
    assert alphas[0] == alphas[1] == Period("2009", "2017").alpha("2011", "released")
    assert alphas[2] == Period("2009", "2017").alpha("2011", "paper") != alphas[0]


def test_mixed_boundaries_are_refused() -> None:
    with pytest.raises(DataError, match="mixes the boundary conventions paper, released; keep one"):
        read([row(Boundaries="paper"), row(Time="2012", Boundaries="released")])


def test_unknown_boundaries_are_refused() -> None:
    for options in ({"boundaries": "loose"}, {}):
        with pytest.raises(ConfigError, match="'loose': choose 'released' or 'paper'"):
            read([row() if options else row(Boundaries="loose")], **options)


def test_the_bundled_set_has_its_own_boundaries() -> None:
    with pytest.raises(ConfigError, match="mini was made with boundaries 'released', not 'paper'"):
        load_dataset("mini", boundaries="paper")


def test_a_sample_keeps_whole_facts_and_is_fixed(mini: Dataset) -> None:
    sample = mini.sample(3)
    assert sample.facts == 3 and sample.boundaries == mini.boundaries
    ids = sorted(set(mini.table["fact_id"]))[:3]
    assert sample.table.equals(mini.table.filter(pl.col("fact_id").is_in(ids)))
    assert mini.sample(10**6).facts == mini.facts


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a.parquet", b"PAR1 is not enough", "cannot read"),
        ("a.parquet", b"", "the file is empty"),
        ("a.txt", b"Time\n2011\n", r"unknown ending '\.txt'; use \.csv, \.tsv"),
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"\x89PNG\x00\x01garbage", "the file is binary"),
        ("a.jsonl", b"{broken", "row 1: .* is not JSON"),
        ("a.csv", None, "no such file"),
        ("a.parquet", None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, rule: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=rule) as caught:
        load_dataset(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_truncated_parquet_file(tmp_path: Path) -> None:
    hub_file(tmp_path)
    whole = (tmp_path / "train.parquet").read_bytes()
    (tmp_path / "train.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot read"):
        load_dataset(str(tmp_path / "train.parquet"))


def test_a_file_without_rows(tmp_path: Path) -> None:
    hub_file(tmp_path, table=TABLE.head(0))
    with pytest.raises(DataError, match=r"train\.parquet: the data set has no rows"):
        load_dataset(str(tmp_path / "train.parquet"))


@pytest.mark.usefixtures("hub")
def test_a_folder_is_read_by_the_hub_library(tmp_path: Path) -> None:
    hub_file(tmp_path / "folder")
    back = load_dataset(str(tmp_path / "folder"))
    assert back.boundaries == "released"
    assert back.table.equals(TABLE)


@pytest.mark.usefixtures("hub")
def test_years_without_zeros_are_those_of_published_data_alone(tmp_path: Path) -> None:
    about = {"StartDate": "5", "EndDate": "41-01-24", "Statement": "X? Barack Obama", "Status": "Correct"}
    rows = [row(Time=time, **about) for time in ("6", "37-5", "12-10-03")]
    (tmp_path / "published").mkdir()
    write_table(tmp_path / "published" / "train.parquet", pl.DataFrame(rows))
    table = load_dataset(str(tmp_path / "published")).table
    assert table["time"].to_list() == ["0006", "0037-05", "0012-10-03"]
    assert (table["start"][0], table["end"][0]) == ("0005", "0041-01-24")
    write_table(tmp_path / "own.csv", pl.DataFrame(rows))
    with pytest.raises(DataError, match=r"own.csv: row 1: StartDate '5' is not a date: write 0005 for the year 5"):
        load_dataset(str(tmp_path / "own.csv"))


def test_a_folder_without_data_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.txt").write_text("nothing")
    with pytest.raises(ConfigError, match="a folder without data files"):
        load_dataset(str(tmp_path))


@pytest.mark.parametrize("name", ["Time", "Statement", "Alpha", "FactPop"])
def test_a_column_of_lists_is_refused(name: str) -> None:
    raw = to_published(TABLE, "released").with_columns(pl.concat_list(name).alias(name))
    with pytest.raises(DataError, match=rf"row 1: {name} .* is a List\(.*one text or number a row"):
        from_published(raw)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1881.0", "1881"), ("-44.0", "-0044"), ("1881-05-08 00:00:00+00:00", "1881-05-08"), ("12011", "12011")],
)
def test_dates_as_libraries_write_them(written: str, meant: str) -> None:
    assert str(read_dates([written], "Time")[0]) == meant


def test_a_time_stamp_is_no_year() -> None:
    with pytest.raises(DataError, match=r"row 2: Time '1232409600' .*time stamp"):
        read_dates(["2011", "1232409600"], "Time")


@pytest.mark.usefixtures("hub")
def test_several_splits_need_a_choice(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    first = TABLE.filter(pl.col("fact_id") == FACTS[0].id)
    hub_file(folder, "train.parquet")
    hub_file(folder, "test.parquet", first)
    with pytest.raises(ConfigError) as caught:
        load_dataset(str(folder))
    message = str(caught.value)
    assert "--split" in message and "train" in message and "test" in message and "\n" not in message
    assert load_dataset(str(folder), split="test").table.equals(first)
    with pytest.raises(DataError, match="validation"):
        load_dataset(str(folder), split="validation")


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["no-such-owner/no-such-set", "no-such-set"])
def test_a_hub_name_that_cannot_be_reached(name: str) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(name)
    message = str(caught.value)
    assert repr(name) in message and "mini" in message and "the hub says: " in message and "\n" not in message


def test_without_the_hub_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'datasets"):
        load_dataset("Orange/TimeStress")


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_what_is_known_of_subject_and_object_comes_back(tmp_path: Path, ending: str):
    later = (Period("2018", "2019-05"),)
    known = FactWithQuestion(
        FACTS[0], "who led it?", 44, 3e5, 4e5, "1776", "1961-08-04", (), later, None, "1999", "2030-02",
        ("who led it?", "the one who led it, \"É\", was"),
    )  # fmt: skip
    table = make_statements([known, FactWithQuestion(FACTS[1], "what was it?", object_from="-0044-03")])
    assert dict(table.schema) == STATEMENT_SCHEMA | MORE_SCHEMA
    published = to_published(table, "released")
    assert tuple(published.columns) == (*PUBLISHED, *MORE)
    questions = published.group_by("ObjectLabel", "Status").agg(pl.col("Questions").unique())
    stored = {(o, s): texts for o, s, texts in questions.rows() if texts != [None]}
    assert stored == {(FACTS[0].object, "No context"): ['["who led it?", "the one who led it, \\"É\\", was"]']}
    write_table(tmp_path / f"set.{ending}", published)
    assert load_dataset(str(tmp_path / f"set.{ending}")).table.equals(table)


def test_columns_that_nobody_knows_anything_in_are_left_out():
    table = make_statements([FactWithQuestion(FACTS[0], "who led it?", subject_from="1776")])
    assert list(to_published(table, "released").columns) == [*PUBLISHED, "SubjectFrom"]
    empty = [{**r, "SubjectFrom": "1776", "ObjectFrom": "", "SubjectPop": None} for r in ROWS]
    assert set(read(empty).columns) == {*STATEMENT_SCHEMA, "subject_from"}
    assert read(ROWS).equals(read([{**r, "ObjectFrom": "nan"} for r in ROWS]))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("SubjectFrom", "long ago", "row 2: SubjectFrom 'long ago' is not a date"),
        ("ObjectPop", "inf", "row 2: ObjectPop"),
        ("Questions", "who led it?", r"row 2: Questions: 'who led it\?' is no JSON list of questions"),
        ("Questions", '["who led it?", 7]', "row 2: Questions: .* is no JSON list of questions"),
        ("Questions", '["who led it?", "it was led."]', "row 2: Questions: question 'it was led.' must end with"),
    ],
)
def test_bad_values_in_them_are_named(column: str, value: str, message: str):
    rows = [ROWS[0], ROWS[1] | {column: value}]
    with pytest.raises(DataError, match=message):
        read(rows)
