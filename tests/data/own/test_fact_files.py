"""Files of one's own facts: what is read alike from every format, and what is refused, by row, column and fix."""

import datetime
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.loaders import load_dataset
from anachron.data.own.dates import read_date
from anachron.data.own.files import is_fact_file, read_given_facts
from anachron.data.own.rows import given_facts

HEADER = "subject,relation,object,start,end"
GOOD = "Germany,capital,Berlin,1990-10-03,"


def written(folder: Path, content: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def csv_of(*rows: str, header: str = HEADER) -> str:
    return "\n".join((header, *rows)) + "\n"


# Dates


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("2009", "2009"), ("2009-01", "2009-01"), ("2009-01-20", "2009-01-20"), ("20 January 2009", "2009-01-20"),
        ("January 20, 2009", "2009-01-20"), ("Jan 20 2009", "2009-01-20"), ("20th of Sept. 2009", "2009-09-20"),
        ("january 2009", "2009-01"), ("2009/1/20", "2009-01-20"), (" 2009 ", "2009"), ("2009.0", "2009"),
        ("2009-01-20T00:00:00", "2009-01-20"), ("2009-01-20 00:00:00+00:00", "2009-01-20"), (2009, "2009"),
        (2009.0, "2009"), (-44, "-0044"), ("-0044-03-15", "-0044-03-15"), ("44 BCE", "-0044"), ("AD 90", "0090"),
        ("15 March 44 BC", "-0044-03-15"), ("0090", "0090"), (datetime.date(2009, 1, 20), "2009-01-20"),
        (datetime.datetime(2009, 1, 20), "2009-01-20"),
    ],
)  # fmt: skip
def test_dates_as_people_write_them(value, date):
    assert str(read_date(value)) == date


@given(st.dates(datetime.date(1000, 1, 1)))
def test_every_day_is_read_in_every_wording(day: datetime.date):
    texts = [day.strftime(form) for form in ("%d %B %Y", "%B %d, %Y", "%b %d %Y", "%Y-%m-%d", "%Y/%m/%d")]
    assert {read_date(text) for text in [*texts, day]} == {Date(day.year, day.month, day.day)}


# What is refused

BROKEN = {  # what is wrong -> (row of the file, where and what the message must say, in this order)
    "no subject": (",capital,Berlin,1990,", ["row 2, subject", "''", "give its label"]),
    "no object": ("Germany,capital,,1990,", ["row 2, object", "''", "give its label"]),
    "no start": ("Germany,capital,Bonn,,1990", ["row 2, start", "''", "give one"]),
    "day or month": ("Germany,capital,Bonn,01/02/1949,", ["row 2, start", "'01/02/1949'", "write one of these"]),
    "month first with dots": ("Germany,capital,Bonn,5.23.1949,", ["row 2, start", "'5.23.1949'", "write 1949-05-23"]),
    "two digits": ("Germany,capital,Bonn,49,", ["row 2, start", "'49'", "write 0049"]),
    "two digits of a day": ("Germany,capital,Bonn,23.5.49,", ["row 2, start", "'23.5.49'", "four digits"]),
    "no such day": ("Germany,capital,Bonn,1949-02-30,", ["row 2, start", "'1949-02-30'", "goes from 1 to 28"]),
    "no such month": ("Germany,capital,Bonn,1949-13,", ["row 2, start", "'1949-13'", "months go from 1 to 12"]),
    "no such month in words": ("Germany,capital,Bonn,3 Brumaire 1949,", ["row 2, start", "'Brumaire'", "write 2009"]),
    "year 0": ("Germany,capital,Bonn,0,1990", ["row 2, start", "'0'", "-0001"]),
    "word": ("Germany,capital,Bonn,soon,1990", ["row 2, start", "'soon'", "write 2009"]),
    "time of day": ("Germany,capital,Bonn,1949-05-23 13:15,", ["row 2, start", "13:15", "give the day alone"]),
    "compact day": ("Germany,capital,Bonn,19490523,", ["row 2, start", "'19490523'", "write 1949-05-23"]),
    "time stamp": ("Germany,capital,Bonn,1700000000,", ["row 2, start", "'1700000000'", "Write 2009"]),
    "half a year": ("Germany,capital,Bonn,1949.5,", ["row 2, start", "'1949.5'", "write 2009"]),
    "end before start": ("Germany,capital,Bonn,1990,1949", ["row 2, end", "1949", "before the start", "swap"]),
    "the same again": ("Germany,capital,Berlin,1990-10-03,", ["row 2, object", "'Berlin'", "row 1", "keep one"]),
    "a cell too many": ("Germany,capital,Bonn, West,1949,1990", ["row 2", "6 cells", "double quotes"]),
    "a cell too few": ("Germany,capital,Bonn,1949", ["row 2", "4 cells", "leave no cell out"]),
    "an open quote": ('Germany,capital,"Bonn,1949,1990', ["not a table", "must close it"]),
}
QUESTIONS = {  # a question of Germany, capital, Berlin -> what is said
    "the capital of Germany was.": "must end with '?' or, as the beginning of a statement",
    "What was the capital of Germany?": "'What' must start in lower case",
    "what was the capital?": "does not name its subject 'Germany'",
    "was Berlin the capital of Germany?": "gives its answer 'Berlin' away",
    "in 1999, what was the capital of Germany?": "still holds a date",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_row_is_refused_by_row_column_value_and_fix(tmp_path: Path, kind: str):
    row, said = BROKEN[kind]
    path = written(tmp_path, csv_of(GOOD, row))
    with pytest.raises(DataError) as refused:
        load_dataset(str(path))
    message = str(refused.value)
    places = [message.find(part) for part in (str(path), *said)]
    assert -1 not in places and places == sorted(places), message


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_cannot_follow_a_date_is_refused(tmp_path: Path, question: str):
    path = written(tmp_path, csv_of(GOOD + "," + f'"{question}"', header=HEADER + ",question"))
    with pytest.raises(DataError, match=r"row 1, question: ") as refused:
        load_dataset(str(path))
    assert question in str(refused.value) and QUESTIONS[question] in str(refused.value)


MORE = {  # columns that only some files have: (header, rows, what is said)
    "popularity": ("popularity", ["many"], "row 1, popularity: 'many' is not a number"),
    "negative": ("popularity", ["-3"], "row 1, popularity: '-3' is not a number of 0 or more"),
    "no mark": ("present_question", ["the ruler is."], "row 1, present_question: question 'the ruler is.' must end"),
    "two names": ("Subject", ["France"], "the columns 'subject' and 'Subject' both mean subject"),
    "synonym": ("subject_label", ["France"], "the columns 'subject' and 'subject_label' both mean subject"),
    "twice": ("end", ["1990"], "two columns are called 'end'"),
    "no name": ("", ["x"], "column 6 has no name"),
}


@pytest.mark.parametrize("kind", MORE)
def test_a_broken_column_is_refused(tmp_path: Path, kind: str):
    name, cells, said = MORE[kind]
    path = written(tmp_path, csv_of(*(f"{GOOD},{cell}" for cell in cells), header=f"{HEADER},{name}"))
    with pytest.raises(DataError) as refused:
        load_dataset(str(path))
    assert said in str(refused.value)


def test_facts_that_share_a_name_or_contradict_themselves_are_refused(tmp_path: Path):
    rows = ["Germany,capital,Bonn,1949,1990,g", "France,capital,Paris,1944,,g"]
    with pytest.raises(
        DataError, match=r"row 2, fact_id: 'g' also names another fact \(Germany, capital, Bonn, in row 1"
    ):
        load_dataset(str(written(tmp_path, csv_of(*rows, header=HEADER + ",fact_id"))))
    rows = ["Cuba,head,Batista,1940,1944,who led Cuba?", "Cuba,head,Batista,1952,1958,who ruled Cuba?"]
    with pytest.raises(DataError, match=r"row 2, question: 'who ruled Cuba\?', but row 1 of the same fact"):
        load_dataset(str(written(tmp_path, csv_of(*rows, header=HEADER + ",question"))))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("f.csv", csv_of(), "there are no rows"),
        ("f.csv", csv_of("Germany,capital,1990", header="subject,relation,start"), "lacks the columns object, end"),
        ("f.csv", csv_of(GOOD, "日本,首都,東京,1960,").encode("shift_jis"), "line 3: the byte 0x93"),
        ("f.csv", csv_of(GOOD).encode("utf-16-le"), "UTF-16 without its mark"),
        ("f.jsonl", '{"subject": "Germany"\n', "row 1: "),
        ("f.jsonl", '{"subject": "Germany"}\n[1]\n', "row 2: '[1]' is a list"),
        ("f.json", '{"subject": "Germany"}', "the file holds a dict; write a list"),
        ("f.json", '[{"subject": ["Germany"], "relation": "capital", "object": "Bonn", "start": 1949, "end": 1990}]',
         "row 1, subject: ['Germany'] is a list; give one text"),
        ("f.json", '[{"subject": "Germany", "relation": "capital", "object": "Bonn", "start": true, "end": 1990}]',
         "row 1, start: True is not a date"),
        ("f.json", '[{"subject": "A", "relation": "b", "object": "C", "start": 1949, "end": 1990, "aliases": [3]}]',
         "row 1, aliases: [3] is neither a text nor a list of texts"),
        ("f.xlsx", b"PK", "no spreadsheet that can be read"),
        ("f.tsv", "", "the file is empty"),
        ("f.parquet", b"PAR1", "as parquet"),
        ("gone.csv", None, "cannot read"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused(tmp_path: Path, name: str, content, said: str):
    path = tmp_path / name if content is None else written(tmp_path, content, name)
    with pytest.raises(DataError) as refused:
        read_given_facts(path)
    assert said in str(refused.value) and str(path) in str(refused.value)


@pytest.mark.parametrize("name", ["f.tsv", "f.csv"])
def test_a_file_of_neither_kind_is_told_the_columns_of_facts(tmp_path: Path, name: str):
    with pytest.raises(DataError, match="subject, relation, object, start, end"):
        load_dataset(str(written(tmp_path, "person\trole\nFrance\tcapital\n", name)))
    with pytest.raises(DataError, match=r"(?i)no such file"):
        load_dataset(str(tmp_path / f"gone-{name}"))


@pytest.mark.parametrize("content", [csv_of("日本,首都,東京,1960,").encode("shift_jis"), b"", b"GGUF\0\0"])
@pytest.mark.parametrize("options", [{}, {"as_of": "2026"}, {"sampling": "near"}, {"language": "fr"}])
def test_what_cannot_be_read_is_said_whatever_is_chosen(tmp_path: Path, content: bytes, options: dict[str, str]):
    path = written(tmp_path, content)
    with pytest.raises(DataError, match=r"no such file"):
        load_dataset(str(tmp_path / "gone.csv"), **options)
    with pytest.raises(DataError) as reader:
        read_given_facts(path)
    with pytest.raises(DataError) as loader:
        load_dataset(str(path), **options)
    assert str(loader.value) == str(reader.value)


def test_several_faults_are_said_at_once(tmp_path: Path):
    rows = ["Germany,capital,Bonn,01/02/1949,1990", GOOD, ",capital,Paris,1944,"]
    with pytest.raises(DataError, match=r"row 1, start: .* \| row 3, subject: "):
        load_dataset(str(written(tmp_path, csv_of(*rows))))
    with pytest.raises(DataError, match=r"row 1, .*; likewise 8 more: 2 \('soon'\), .*, 6 \('soon'\) and 3 more$"):
        load_dataset(str(written(tmp_path, csv_of(*[f"x,y,z{n},soon," for n in range(9)]))))


# What is read alike

LABELS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8).filter(
    lambda text: text.strip() == text
)
YEARS = st.integers(1000, 2020)


@st.composite
def tables(draw):
    """Rows of distinct objects of a few subjects, some of them still holding."""
    objects = draw(st.lists(LABELS, min_size=1, max_size=6, unique=True))
    rows = []
    for object_ in objects:
        start = draw(YEARS)
        end = draw(st.one_of(st.none(), st.integers(start, 2021)))
        rows.append((draw(st.sampled_from(["A, B", 'the "C"', "D;E|F"])), "capital", object_, start, end))
    return rows


@settings(max_examples=15)
@given(tables(), st.booleans())
def test_the_same_rows_are_the_same_facts_in_every_format(rows, marked: bool):
    import csv
    import tempfile
    from io import StringIO

    names = HEADER.split(",")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, mark in (("c.csv", ","), ("s.csv", ";"), ("t.tsv", "\t"), ("p.csv", "|")):
            text = StringIO()
            csv.writer(text, delimiter=mark).writerows([names, *rows])
            encoding = "utf-16" if name == "t.tsv" else "utf-8-sig" if marked else "utf-8"
            paths.append(written(Path(folder), text.getvalue().encode(encoding), name))
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        paths.append(written(Path(folder), "\n".join(map(json.dumps, objects)), "l.jsonl"))
        paths.append(written(Path(folder), json.dumps(objects, ensure_ascii=False), "o.json"))
        table = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
        table.write_parquet(Path(folder) / "q.parquet")
        floats = table.with_columns(pl.col("start", "end").cast(pl.Float64))  # as pandas holds years with a gap
        floats.rename({"subject": "Subject_Label"}).write_parquet(Path(folder) / "f.parquet")
        paths += [Path(folder) / "q.parquet", Path(folder) / "f.parquet"]
        found = [read_given_facts(path) for path in paths]
        assert all(map(is_fact_file, paths))
    expected = [Fact(s, r, o, Period(str(a), None if b is None else str(b))) for s, r, o, a, b in rows]
    for facts in found:
        assert [item.fact for item in facts.facts] == expected
        assert facts.notes == found[0].notes
    others = [sum(row[0] == other[0] for other in rows) - 1 for row in rows]
    assert [item.other_objects for item in found[0].facts] == others


@pytest.mark.parametrize("first", ["sep={}\n", "SEP={}\r\n", '"sep={}"\n', "\ufeffsep={}\n", "sep={}\n\n"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|", "^"])
def test_a_first_line_may_name_the_delimiter_as_for_excel(tmp_path: Path, first: str, mark: str):
    """It counts, although another character cuts the header into more cells."""
    other = ";" if mark == "," else ","
    rows = [[*HEADER.split(","), other * 9], [*GOOD.split(","), "x"]]
    text = "".join(mark.join(row) + "\n" for row in rows)
    path = written(tmp_path, first.format(mark) + text)
    (item,) = read_given_facts(path).facts
    assert is_fact_file(path) and item.rows == (1,) and item.values[other * 9] == "x"
    assert item.fact == Fact("Germany", "capital", "Berlin", Period("1990-10-03", None))


def test_rows_of_one_object_are_one_fact_and_overlaps_are_said():
    rows = [
        ("USA", "president", "Cleveland", "1893-03-04", "1897-03-04"),
        ("USA", "president", "Harrison", "1889-03-04", "1893-03-04"),
        ("USA", "president", "Cleveland", "1885-03-04", "1889-03-04"),
        ("USA", "president", "Obama", "2009-01-20", "2013-01-20"),
        ("USA", "president", "Obama", "2013-01-20", "2017-01-20"),
        ("USA", "president", "Nobody", "2016", "2019"),
    ]
    columns = HEADER.split(",")
    made = given_facts(columns, [dict(zip(columns, row, strict=True)) for row in rows])
    cleveland, harrison, obama, nobody = made.facts
    assert cleveland.periods == (Period("1885-03-04", "1889-03-04"), Period("1893-03-04", "1897-03-04"))
    assert obama.periods == (Period("2009-01-20", "2017-01-20"),) and obama.rows == (4, 5)
    assert [f.other_objects for f in made.facts] == [3, 3, 3, 3] and (harrison.rows, nobody.rows) == ((2,), (6,))
    joined, overlap = made.notes  # Harrison shares one day with each of his neighbours: that is no overlap
    assert "rows 4, 5" in joined and "joined" in joined
    assert "rows 4, 5 and row 6" in overlap and "Obama and Nobody overlap" in overlap


def test_names_aliases_and_further_columns_are_kept(tmp_path: Path):
    header = "Fact ID,Subject,RELATION,object,Start-Date,end,aliases,team,present_question"
    rows = ["de-cap,Germany,Capital,Berlin,1990-10-03,present,Berlin City|Spree-Athen,atlas,what is it?"]
    data = load_dataset(str(written(tmp_path, csv_of(*rows, header=header))), as_of="2024-06-30")
    (about,) = data.about.iter_rows(named=True)
    assert about["given_id"] == "de-cap" and about["aliases"] == "Berlin City|Spree-Athen" and about["team"] == "atlas"
    assert about["fact_id"] == data.table["fact_id"][0] and about["present_question"] == "what is it?"
    assert about["question"] in data.table["prompt"].to_list() and data.table["end"].null_count() == data.table.height
