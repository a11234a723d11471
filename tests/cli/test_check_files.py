"""What people have goes in as it is: four files driven to verdicts by one command each, and no question written."""

import csv
import datetime
import json
from io import StringIO
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.data.loaders import load_dataset
from support.spreadsheets import ods, xlsx

AS_OF = "2025-11-22"
DAY = datetime.date
# subject, relation, object, start, end, as the plain file has them; every other file below says the same
ENGLISH = [
    ("Germany", "capital", "Bonn", "1949-05-23", "1990-10-03"),
    ("Germany", "capital", "Berlin", "1990-10-03", ""),
    ("Kazakhstan", "capital", "Almaty", "1991-12-16", "1997-12-10"),
    ("Kazakhstan", "capital", "Astana", "1997-12-10", ""),
    ("USA", "head of state", "Barack Obama", "2009-01-20", "2017-01-20"),
    ("USA", "head of state", "Donald Trump", "2017-01-20", "2021-01-20"),
]
GERMAN = [
    ("Österreich", "Staatsoberhaupt", "Thomas Klestil", "1992-07-08", "2004-07-06"),
    ("Österreich", "Staatsoberhaupt", "Heinz Fischer", "2004-07-08", "2016-07-08"),
    ("Österreich", "Staatsoberhaupt", "Alexander Van der Bellen", "2017-01-26", ""),
    ("Kasachstan", "Hauptstadt", "Almaty", "1991-12-16", "1997-12-10"),
    ("Kasachstan", "Hauptstadt", "Astana", "1997-12-10", ""),
    ("Türkei", "Hauptstadt", "Ankara", "1923-10", ""),
]
FRENCH = [
    ("États-Unis", "chef de l'État", "Barack Obama", "2009-01-20", "2017-01-20"),
    ("États-Unis", "chef de l'État", "Donald Trump", "2017-01-20", "2021-01-20"),
    ("Kazakhstan", "capitale", "Almaty", "1991-12-16", "1997-12-10"),
    ("Kazakhstan", "capitale", "Astana", "1997-12-10", ""),
    ("Côte d'Ivoire", "capitale", "Abidjan", "1933", "1983-03-01"),
    ("Côte d'Ivoire", "capitale", "Yamoussoukro", "1983-03-01", ""),
]
MONTHS = ["janvier", "février", "mars", "avril", "mai", "juin", "juil.", "août", "sept.", "octobre", "novembre", "déc."]


def plain(folder: Path, rows: list[tuple[str, ...]]) -> Path:
    text = StringIO()
    csv.writer(text).writerows([("subject", "relation", "object", "start", "end"), *rows])
    (path := folder / "plain.csv").write_text(text.getvalue(), "utf-8")
    return path


def as_cell(text: str) -> DAY | int | None:
    return None if not text else DAY.fromisoformat(text) if len(text) == 10 else int(text)


def excel(folder: Path) -> Path:
    cells = [(*row[:3], as_cell(row[3]), as_cell(row[4])) for row in ENGLISH]
    return xlsx(folder / "facts.xlsx", {"Facts": [("Country", "Office", "Name", "From", "To"), *cells, (None,) * 7]})


def libre_office(folder: Path) -> Path:
    cells = [(*row[:3], as_cell(row[3]), as_cell(row[4]) or "today") for row in ENGLISH]
    rows = [("Which capitals and presidents?",), (), ("subject", "relation", "object", "start", "end"), *cells]
    return ods(folder / "facts.ods", {"Notes": [("x",)], "All facts": rows})


def german(folder: Path) -> Path:
    """As a German Excel saves it: semicolons, Windows-1252, day first, with dots; "seit" and "heute"."""

    def date(text: str) -> str:
        return ".".join(reversed(text.split("-"))) if len(text) == 10 else f"seit Okt. {text[:4]}"

    lines = [
        "Land;Amt;Person;von;bis",
        *(";".join((*r[:3], date(r[3]), date(r[4]) if r[4] else "heute")) for r in GERMAN),
    ]
    (path := folder / "fakten.csv").write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    return path


def french(folder: Path) -> Path:
    def date(text: str) -> str:
        year, *rest = text.split("-")
        day = "1er" if rest and rest[1] == "01" else str(int(rest[1])) if rest else ""
        return f"{day} {MONTHS[int(rest[0]) - 1]} {year}" if rest else year

    rows = [
        dict(zip(("pays", "fonction", "titulaire", "début", "fin"), (*r[:3], date(r[3]), date(r[4]) if r[4] else end),
                 strict=True))
        for r, end in zip(FRENCH, [None, None, None, "aujourd'hui", None, "jusqu’à présent"], strict=True)
    ]  # fmt: skip
    (path := folder / "faits.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    return path


FILES = {  # file -> (how it is written, the same facts, options, what its notes say)
    "xlsx": (excel, ENGLISH, [], "'Country' as subject, 'Office' as relation, 'Name' as object"),
    "ods": (libre_office, ENGLISH, ["--sheet", "All facts"], "above it stands 'Which capitals and presidents?'"),
    "csv": (german, GERMAN, ["--language", "de"], "read as Windows-1252 ('Österreich')"),
    "json": (french, FRENCH, ["--language", "fr"], "'titulaire' as object, 'début' as start"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_driven_to_verdicts_by_one_command(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write, rows, options, said = FILES[kind]
    path, run = write(tmp_path), tmp_path / "run"
    words = ["check", "demo", "--facts", str(path), "--out", str(run), "--as-of", AS_OF, "--no-page", *options]
    assert run_command(words, False) == 0
    assert said in capsys.readouterr().err.replace("\n", " ")
    table = pl.read_csv(run / "verdicts.csv")
    assert table["object"].to_list() == [row[2] for row in rows]
    assert table["verdict"].null_count() == 0 and table["question"].null_count() == 0
    settings = json.loads((run / "run.json").read_text("utf-8"))["settings"]
    assert {"xlsx": "columns", "ods": "sheet", "csv": "columns", "json": "columns"}[kind] in settings
    assert run_command(words, False) == 0, "the same command goes on in the same folder"


@pytest.mark.parametrize("kind", FILES)
def test_it_says_the_same_as_a_plain_file(tmp_path: Path, kind: str) -> None:
    from anachron.data.own.reading import Reading

    write, rows, options, said = FILES[kind]
    chosen = dict(zip(options[::2], options[1::2], strict=True))
    language, reading = chosen.get("--language"), Reading(sheet=chosen.get("--sheet"))
    data = load_dataset(str(write(tmp_path)), as_of=AS_OF, language=language, reading=reading)
    expected = load_dataset(str(plain(tmp_path, rows)), as_of=AS_OF, language=language)
    assert data.table.equals(expected.table) and data.fingerprint() == expected.fingerprint()
    assert any(said in note for note in data.notes) and not expected.notes
    assert data.facts == len(rows) or data.left_out.height == len(rows) - data.facts


@pytest.mark.full
def test_options_of_reading_are_for_files_of_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("A;B;C;D;E\nGermany;capital;Bonn;01/02/1949;03/10/1990\n")
    columns = ["--columns", "subject=A,relation=B,object=C,start=D,end=E"]
    for words, code, said in [
        (["audit", "mini", "--tokenizer", "demo", "--dates", "dmy"], 2, "--dates dmy: mini is not a file of facts"),
        (["audit", str(path), "--tokenizer", "demo"], 2, "facts.csv"),
        (["audit", str(path), "--tokenizer", "demo", *columns], 2, "give --dates dmy (day first) or mdy"),
        (["audit", str(path), "--tokenizer", "demo", *columns, "--dates", "mdy"], 0, "month first, as 1949-01-02"),
        (["audit", str(path), "--tokenizer", "demo", *columns, "--sheet", "A"], 2, "has no sheets"),
        (["horizon", "demo", "--out", str(tmp_path / "h"), "--dates", "dmy"], 2, "mini is not a file of facts"),
        (["build", "statements", str(path), "--out", str(tmp_path / "s.csv"), *columns, "--dates", "dmy"], 0,
         "day first, as 1949-02-01"),
        (["verbalize", str(path), "--out", str(tmp_path / "q.jsonl"), "--templates", *columns, "--dates", "dmy"], 0,
         "day first, as 1949-02-01"),
    ]:  # fmt: skip
        assert run_command(words, False) == code, words
        assert said in " ".join(capsys.readouterr().err.split()), words
