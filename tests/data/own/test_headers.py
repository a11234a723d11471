"""Headers in five languages, columns by their names, and what is said and kept of how a file was read."""

import itertools
from pathlib import Path

import pytest

from anachron.core.errors import ConfigError, DataError
from anachron.data.build_statements import build_statements
from anachron.data.columns import to_published
from anachron.data.loaders import load_dataset
from anachron.data.own.columns import HEADERS, NEEDED
from anachron.data.own.date_words import plain
from anachron.data.own.files import has_own_names, is_fact_file, read_given_facts
from anachron.data.own.reading import Reading, columns_of
from anachron.io.files import read_json
from anachron.io.tables import write_table
from anachron.probe.check.questions import read_facts
from anachron.probe.horizon.read import read_changes

ROWS = ["Germany;capital;Bonn;1949-05-23;1990-10-03", "Germany;capital;Berlin;1990-10-03;"]
AS_OF = "2025-11-22"
LANGUAGES = {
    "English": "Country;Office;Person;From;To", "German": "Land;Amt;Name;von;bis",
    "capitals": "LAND;AMT;PERSON;SEIT;BIS",
    "French": "pays;fonction;titulaire;début;fin", "no accents": "Pays;Fonction;Titulaire;Debut;Fin",
    "long": "Pays;Poste;Nom;Date de début;Date-de-fin", "Spanish": "país;cargo;titular;inicio;fin",
    "Spanish 2": "País;Relación;Persona;desde;hasta", "Portuguese": "país;cargo;pessoa;início;fim",
    "decomposed": "pai\u0301s;cargo;pessoa;ini\u0301cio;fim",
}  # fmt: skip


def written(folder: Path, header: str, rows=ROWS, name: str = "facts.csv") -> Path:
    (path := folder / name).write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


def test_a_word_means_one_column_in_all_languages() -> None:
    words = [(plain(word), known) for known, of in HEADERS.items() for word in ", ".join(of).split(", ") if word]
    for (one, first), (other, second) in itertools.combinations(words, 2):
        assert one != other or first == second, one
    assert {known for _, known in words} >= set(NEEDED) and all(len(of) == 5 for of in HEADERS.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_headers_of_five_languages_are_the_same_facts(tmp_path: Path, language: str) -> None:
    header = LANGUAGES[language]
    expected = load_dataset(str(written(tmp_path, ";".join(NEEDED), name="plain.csv")), as_of=AS_OF)
    path = written(tmp_path, header)
    data = load_dataset(str(path), as_of=AS_OF)
    assert is_fact_file(path) and has_own_names(path) and data.table.equals(expected.table)
    subject = header.partition(";")[0]
    assert [note for note in data.notes if f"columns are read by what they mean: {subject!r} as subject" in note]
    assert data.choices()["columns"].startswith(f"subject={subject},") and "columns" not in expected.choices()
    assert not expected.notes


def test_plain_names_come_before_words(tmp_path: Path) -> None:
    header = "subject;relation;object;start;end;Name;Land;position;From"
    path = written(tmp_path, header, [f"{row};{row}" if row[-1] != ";" else f"{row};a;b;c;d" for row in ROWS[1:]])
    (item,) = read_given_facts(path).facts
    assert item.fact.object == "Berlin" and item.values["Name"] == "a"


def test_columns_that_are_said_come_first(tmp_path: Path) -> None:
    path = written(tmp_path, "Wo;Land;Wer;von;bis", ["Germany;capital;Bonn;1949;1990"])
    with pytest.raises(DataError, match=r"lacks the columns relation, object;.*by --columns relation=NAME,\.\.\."):
        read_given_facts(path)
    reading = Reading(columns_of("subject=Wo, relation=Land,object=wer"))
    (item,) = read_given_facts(path, reading).facts
    assert (item.fact.subject, item.fact.relation, item.fact.object) == ("Germany", "capital", "Bonn")
    assert load_dataset(str(path), reading=reading).choices()["columns"] == (
        "subject=Wo,relation=Land,object=Wer,start=von,end=bis"
    )
    with pytest.raises(DataError, match=r"--columns object=Wen: the file has no column 'Wen', but 'Wo', 'Land'"):
        read_given_facts(path, Reading({"object": "Wen"}))
    double = written(tmp_path, "Land;Amt;Person;Name;von;bis", ["Germany;capital;Bonn;Berlin;1949;1990"])
    with pytest.raises(DataError, match=r"'Person' and 'Name' both mean object; keep one.*--columns object=NAME"):
        read_given_facts(double)
    assert read_given_facts(double, Reading({"object": "Name"})).facts[0].fact.object == "Berlin"


def test_a_column_that_is_missing_may_be_the_same_in_all_rows(tmp_path: Path) -> None:
    path = written(tmp_path, "Land;Stadt;seit", ["Germany;Bonn;1949", "France;Paris;1944"])
    reading = Reading(columns_of("relation==capital,object=Stadt,end=="))
    read = read_given_facts(path, reading)
    assert [(item.fact.relation, item.fact.period.end) for item in read.facts] == [("capital", None)] * 2
    assert columns_of(read.reading.recorded()["columns"])["relation"] == "=capital"
    with pytest.raises(DataError, match=r"--columns relation==x: the file has a column Relation"):
        read_given_facts(written(tmp_path, "subject;Relation;object;start;end"), Reading({"relation": "=x"}))


def test_labels_of_the_query_service_are_plain_names(tmp_path: Path) -> None:
    rows = ["http://www.wikidata.org/entity/Q183;Germany;capital;Bonn;1949;1990"]
    read = read_given_facts(written(tmp_path, "subject;subjectLabel;relation;object;start_date;end", rows))
    assert read.facts[0].fact.subject_id == "Q183" and not read.notes and not read.reading.recorded()


@pytest.mark.parametrize("text", ["subject", "subject=A,subject=B", "=A", "subject=", "what=A", "", "subject=A,,end=B"])
def test_columns_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--columns"):
        Reading(columns_of(text))


def test_a_name_with_a_comma_stands_in_quotation_marks() -> None:
    columns = columns_of('subject=Land, "object=Name, ""full""",relation==a=b')
    assert columns == {"subject": "Land", "object": 'Name, "full"', "relation": "=a=b"}


def test_what_is_no_file_of_facts_refuses_a_reading(tmp_path: Path) -> None:
    for reading, option in ((Reading(dates="dmy"), "--dates dmy"), (Reading(sheet="A"), "--sheet A")):
        with pytest.raises(ConfigError, match=f"{option}: mini is not a file of facts; leave it out"):
            load_dataset("mini", reading=reading)
        with pytest.raises(ConfigError, match=option):
            read_changes(reading=reading)
    with pytest.raises(ConfigError, match=r"--columns subject=A: mini is not a file of facts"):
        load_dataset("mini", reading=Reading({"subject": "A"}))
    facts = load_dataset(str(written(tmp_path, ";".join(NEEDED))), as_of=AS_OF)
    write_table(tmp_path / "mini.csv", to_published(facts.table, facts.boundaries))
    assert not is_fact_file(tmp_path / "mini.csv")
    with pytest.raises(ConfigError, match=r"--dates mdy: .*mini\.csv is not a file of facts"):
        load_dataset(str(tmp_path / "mini.csv"), reading=Reading(dates="mdy"))
    with pytest.raises(DataError, match=r"--columns subject=A: the file has no column 'A'"):
        load_dataset(str(tmp_path / "mini.csv"), reading=Reading({"subject": "A"}))


def test_every_reader_of_facts_reads_them_so(tmp_path: Path) -> None:
    rows = ["Germany;capital;Bonn;23/05/1949;03/10/1990", "Germany;capital;Berlin;03/10/1990;"]
    path, plain_file = written(tmp_path, "A;B;C;D;E", rows), written(tmp_path, ";".join(NEEDED), name="plain.csv")
    reading = Reading(columns_of("subject=A,relation=B,object=C,start=D,end=E"), "dmy")
    assert read_facts(path, as_of=AS_OF, reading=reading).data.table.equals(
        read_facts(plain_file, as_of=AS_OF).data.table
    )
    found = read_changes(path, reading=reading)
    assert found.equals(read_changes(plain_file)) and found["date"].to_list() == ["1990-10-03"]
    built = build_statements(path, tmp_path / "out.parquet", as_of=AS_OF, reading=reading)
    assert built.table.equals(build_statements(plain_file, tmp_path / "p.parquet", as_of=AS_OF).table)
    parameters = read_json(tmp_path / "out.parquet.manifest.json")["parameters"]
    assert parameters["columns"] == "subject=A,relation=B,object=C,start=D,end=E" and parameters["dates"] == "dmy"


def test_faults_are_told_by_kind(tmp_path: Path) -> None:
    """However the rows stand: each kind once, with its rows in order; every faulty row is counted."""
    rows = [f"S{n};capital;;19{n + 10};" if n % 3 == 0 else f"S{n};capital;O{n};{'soon' if n % 3 == 1 else 2000};x{n}"
            for n in range(20)]  # fmt: skip
    with pytest.raises(DataError) as refused:
        read_given_facts(written(tmp_path, ";".join(NEEDED), rows))
    kinds = str(refused.value).partition(": ")[2].split(" | ")
    assert [kind.partition(": ")[0] for kind in kinds] == ["row 1, object", "row 2, start"]
    assert kinds[0].endswith("; likewise 6 more: 4, 7, 10, 13, 16 and 1 more")
    assert "row 2, start: 'soon' is not a date: write 2009" in kinds[1]  # 6 more starts, and 13 ends
    assert kinds[1].endswith(
        "likewise 19 more: 2 end ('x1'), 3 end ('x2'), 5 ('soon'), 5 end ('x4'), 6 end ('x5') and 14 more"
    )
    rows = [f"S{n};capital;O{n};2000" for n in range(4)] + ["A;capital;B;2000;"]
    with pytest.raises(DataError, match=r"row 1: 4 cells .*leave no cell out; likewise 3 more: 2, 3, 4$"):
        read_given_facts(written(tmp_path, ";".join(NEEDED), rows))
