"""Files of facts as other programs write them: read as what they mean, with a notice, or refused in one line."""

import csv
import datetime
import json
import os
from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.data.loaders import load_dataset
from anachron.data.own.files import is_fact_file, read_given_facts, refuse_unreadable
from anachron.probe.check.questions import read_facts

HEADER = "subject,relation,object,start,end"
REPORTS = Path(__file__).parents[4] / "shared" / "data" / "public-reports"  # beside the checkout
AS_OF = "2025-11-22"


def written(folder: Path, content: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(folder: Path, *rows: str, header: str = HEADER) -> Path:
    return written(folder, "\n".join((header, *rows)) + "\n")


# Ends and starts that are none


@pytest.mark.parametrize(
    "end",
    ["9999-12-31", "9999", "2999", "2262-04-11", "2100-01-01", "2100", "2099-12-31", "2079-06-06", "2038-01-19",
     "9999-12-31T23:59:59Z", "9999-12-31 23:59:59.999", "31 December 9999", "infinity"],
)  # fmt: skip
def test_an_end_that_means_none_is_none(tmp_path: Path, end: str) -> None:
    """The fact is asked as the same with an empty end is, and the reader is told."""
    row = "Kazakhstan,capital,Astana,1997-12-10,"
    plain, given = table(tmp_path, row), written(tmp_path, f"{HEADER}\n{row}{end}\n", "given.csv")
    open_end, read = load_dataset(str(plain), as_of=AS_OF), load_dataset(str(given), as_of=AS_OF)
    assert read.table.equals(open_end.table)
    said = [note for note in read.notes if "stands for no end" in note]
    assert [end in note and "row 1, end" in note for note in said] == ([True] if end != "infinity" else [])


def test_ends_in_tables_with_types(tmp_path: Path) -> None:
    last = datetime.datetime(2262, 4, 11, 23, 47, 16)
    rows = {"subject": ["A", "B"], "relation": ["capital"] * 2, "object": ["C", "D"], "start": [1990, 1990]}
    pl.DataFrame(rows | {"end": [last, datetime.datetime(2001, 2, 3)]}).write_parquet(tmp_path / "facts.parquet")
    first, second = read_given_facts(tmp_path / "facts.parquet").facts
    assert first.fact.period.end is None and str(second.fact.period.end) == "2001-02-03"


def test_an_end_to_come_that_may_be_meant_is_kept(tmp_path: Path) -> None:
    ends = ["2030", "2047-06-30", "2098-12-31", "2038-01-20"]
    path = table(tmp_path, *(f"S{n},capital,C,1990,{end}" for n, end in enumerate(ends)))
    read = read_given_facts(path)
    assert [str(fact.fact.period.end) for fact in read.facts] == ends and not read.notes


@pytest.mark.parametrize(
    "start", ["9999-12-31", "2999", "2262-04-11", "2100", "0001-01-01", "1677-09-21", "0001-01-01T00:00:00"]
)
def test_a_start_like_that_is_refused(tmp_path: Path, start: str) -> None:
    with pytest.raises(DataError, match=rf"row 1, start: '{start}' is what many tables write where no date is known"):
        read_given_facts(table(tmp_path, f"A,capital,B,{start},"))


@pytest.mark.parametrize("start, way_out", [("2150-06-01", "leave out one to come"), ("0001-01-01", "write 0001-01")])
def test_a_start_like_that_has_a_way_out(tmp_path: Path, start: str, way_out: str) -> None:
    with pytest.raises(DataError, match=way_out):
        read_given_facts(table(tmp_path, f"A,capital,B,{start},"))


# Lists in a cell


LISTS = {
    "['Alma-Ata', 'Verny']": ("Alma-Ata", "Verny"),
    '["Alma-Ata", "Verny"]': ("Alma-Ata", "Verny"),
    "[\"Xi'an\", 'Chang\\'an']": ("Xi'an", "Chang'an"),
    "['Alma-Ata' 'Verny']": ("Alma-Ata", "Verny"),
    "('Alma-Ata', 'Verny')": ("Alma-Ata", "Verny"),
    "{'Alma-Ata', 'Verny'}": ("Alma-Ata", "Verny"),
    "['Alma-Ata', None]": ("Alma-Ata",),
    '["Alma-Ata", null]': ("Alma-Ata",),
    '["\\u0410\\u043b\\u043c\\u0430-\\u0410\\u0442\\u0430"]': ("Алма-Ата",),
    '{Alma-Ata,"Verny, the old"}': ("Alma-Ata", "Verny, the old"),
    "[Alma-Ata, Verny]": ("Alma-Ata", "Verny"),
    "Alma-Ata; Verny": ("Alma-Ata", "Verny"),
    "Alma-Ata;Verny": ("Alma-Ata", "Verny"),
    "AT&amp;T; Bell": ("AT&amp;T", "Bell"),
    "[]": (),
}


@pytest.mark.parametrize("cell", LISTS)
def test_a_list_in_a_cell_is_several_names(tmp_path: Path, cell: str) -> None:
    rows = [{"subject": "K", "relation": "capital", "object": "Almaty", "start": 1991, "end": None, "aliases": cell}]
    read = read_given_facts(written(tmp_path, json.dumps(rows), "facts.json"))
    assert read.facts[0].aliases == LISTS[cell]
    assert ["is a list" in note and repr(cell) in note for note in read.notes] == [True]


@pytest.mark.parametrize(
    "cell",
    ["Alma-Ata|Verny", "Alma-Ata", "Verny (city)", "[sic]", "AT&amp;T", "(West) Berlin, (East) Berlin", "D'Ivoire"],
)
def test_what_is_no_list_stays_as_it_is(tmp_path: Path, cell: str) -> None:
    path = table(tmp_path, f'K,capital,Almaty,1991,,"{cell}"', header=f"{HEADER},aliases")
    read = read_given_facts(path)
    assert read.facts[0].aliases == tuple(cell.split("|")) and not read.notes


@pytest.mark.parametrize("cell", ["[1, 2]", '[["a"]]', '{"en": "Almaty", "kk": "Алматы"}'])
def test_a_list_of_something_else_is_refused(tmp_path: Path, cell: str) -> None:
    quoted = cell.replace('"', '""')
    with pytest.raises(DataError, match=r"row 1, aliases: '.*' is a list of something else than texts"):
        read_given_facts(table(tmp_path, f'K,capital,Almaty,1991,,"{quoted}"', header=f"{HEADER},aliases"))


# The query service


ENTITY = "http://www.wikidata.org/entity/"


@pytest.mark.parametrize("ids", [("", ""), (ENTITY, ENTITY), ("", ENTITY)])
@pytest.mark.parametrize("relation", ["capital", "http://www.wikidata.org/prop/direct/P36"])
def test_the_label_columns_of_the_query_service_are_the_words(
    tmp_path: Path, ids: tuple[str, str], relation: str
) -> None:
    path = table(
        tmp_path,
        f"{ids[0]}Q232,Kazakhstan,{relation},capital,{ids[1]}Q35493,Almaty,1991-12-16T00:00:00Z,1997-12-10T00:00:00Z",
        f"{ids[0]}Q232,Kazakhstan,{relation},capital,{ids[1]}Q1520,Astana,1997-12-10T00:00:00Z,",
        header="subject,subjectLabel,relation,relationLabel,object,objectLabel,start,end",
    ) if relation != "capital" else table(
        tmp_path,
        f"{ids[0]}Q232,Kazakhstan,capital,{ids[1]}Q35493,Almaty,1991-12-16T00:00:00Z,1997-12-10T00:00:00Z",
        f"{ids[0]}Q232,Kazakhstan,capital,{ids[1]}Q1520,Astana,1997-12-10T00:00:00Z,",
        header="subject,subjectLabel,relation,object,objectLabel,start,end",
    )  # fmt: skip
    first, second = (item.fact for item in read_given_facts(path).facts)
    assert (first.subject, first.subject_id, first.object, first.object_id) == (
        "Kazakhstan",
        "Q232",
        "Almaty",
        "Q35493",
    )
    assert (second.object, second.object_id, second.relation) == ("Astana", "Q1520", "capital")
    assert first.relation_id == ("P36" if relation != "capital" else None) and is_fact_file(path)
    assert load_dataset(str(path), as_of=AS_OF).facts == 2


def test_labels_alone_are_words_too(tmp_path: Path) -> None:
    path = table(
        tmp_path, "Kazakhstan,capital,Almaty,1991,1997", header="subjectLabel,relationLabel,objectLabel,start,end"
    )
    (item,) = read_given_facts(path).facts
    assert item.fact.object == "Almaty" and is_fact_file(path)


@pytest.mark.parametrize(
    ("row", "side"), [(f"{ENTITY}Q232,capital,Almaty", "subject"), ("Kazakhstan,capital,Q35493", "object")]
)
def test_ids_without_words_are_refused_by_name(tmp_path: Path, row: str, side: str) -> None:
    with pytest.raises(DataError, match=rf"row 1, {side}: '.*Q\d+' is an id, not a name; .* a column {side}Label"):
        read_given_facts(table(tmp_path, f"{row},1991,1997"))


def test_a_name_that_looks_like_an_id_is_taken_beside_its_own_id(tmp_path: Path) -> None:
    path = table(tmp_path, "Audi,model,Q7,2005,,Q27481", header=f"{HEADER},object_id")
    assert read_given_facts(path).facts[0].fact.object == "Q7"


def test_words_in_both_columns_stay_what_they_were(tmp_path: Path) -> None:
    path = table(tmp_path, "Kazakhstan,capital,Almaty,1991,1997,KZ", header=f"{HEADER},subjectLabel")
    (item,) = read_given_facts(path).facts
    assert item.fact.subject == "Kazakhstan" and item.values["subjectLabel"] == "KZ"


# A relation by its id alone


@pytest.mark.parametrize(("language", "word"), [("en", "capital"), ("fr", "capitale")])
@pytest.mark.parametrize("cells", [("", "P36"), (None, "P36"), (None, "http://www.wikidata.org/entity/P36")])
def test_a_relation_may_be_named_by_its_id_alone(
    tmp_path: Path, language: str, word: str, cells: tuple[str | None, str]
) -> None:
    words = [] if cells[0] is None else [""]
    names = ["subject", *(["relation"] if words else []), "object", "start", "end", "relation_id"]
    rows = [
        ["Kazakhstan", *words, "Almaty", "1991-12-16", "1997-12-10", cells[1]],
        ["Kazakhstan", *words, "Astana", "1997-12-10", "", cells[1]],
    ]
    path = table(tmp_path, *map(",".join, rows), header=",".join(names))
    read = read_facts(path, as_of=AS_OF, language=language)
    assert [item.fact.relation for item in read.given] == [word, word]
    assert read.data.facts == 2 and set(read.data.table["relation_label"]) == {word}
    assert read.questions[0].asked


def test_a_row_without_words_or_id_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, "K,,Almaty,1991,1997,", header=f"{HEADER},relation_id")
    with pytest.raises(DataError, match=r"row 1, relation: '' is empty; give its label in words, or a relation_id"):
        read_given_facts(path)


# Marks, long cells, half characters, files that are none


@pytest.mark.parametrize("line", ["sep=;\r\n", "sep=;\n", '"sep=;"\r\n', "SEP=;\r\n\r\n"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_the_delimiter_is_named_before_or_behind_the_byte_order_mark(tmp_path: Path, line: str, mark: str) -> None:
    body = "subject;relation;object;start;end\r\nKazakhstan;capital;Almaty;1991;1997\r\n"
    for content in (line + mark + body, mark + line + body):
        path = written(tmp_path, content)
        assert read_given_facts(path).facts[0].fact.subject == "Kazakhstan" and is_fact_file(path)


def test_a_long_cell_is_read(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    note = 'a, very "long" note ' * 20_000
    path = tmp_path / "facts.csv"
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([[*HEADER.split(","), "note"], ["A", "capital", "B", "1990", "", note]])
    assert read_given_facts(path).facts[0].values["note"] == note.strip()
    assert csv.field_size_limit() == before


def test_half_characters_are_replaced_and_counted(tmp_path: Path) -> None:
    row = {"subject": "Kaz\ud800akhstan", "relation": "capital", "object": "Alm\udc00aty \U0001f3d9", "start": "1991",
           "end": None, "aliases": ["Ver\udfffny"], "note\ud800": {"deep": ["\ud801\ud802"]}}  # fmt: skip
    for name, content in (("facts.json", json.dumps([row])), ("facts.jsonl", json.dumps(row))):
        read = read_given_facts(written(tmp_path, content, name))
        (item,) = read.facts
        assert (item.fact.subject, item.fact.object, item.aliases) == (
            "Kaz\ufffdakhstan",
            "Alm\ufffdaty \U0001f3d9",
            ("Ver\ufffdny",),
        )
        assert read.notes[0].startswith("6 half characters (lone surrogates, such as \\ud800) were read as U+FFFD")
        json.dumps(item.values, ensure_ascii=False).encode()
    text = f"{HEADER}\nKaz\ud800akhstan,capital,Almaty,1991,\n".encode("utf-16", "surrogatepass")
    read = read_given_facts(written(tmp_path, text))
    assert read.facts[0].fact.subject == "Kaz\ufffdakhstan" and read.notes[0].startswith("1 half character")


@pytest.mark.parametrize("name", ["facts.csv", "facts.jsonl", "facts.parquet"])
def test_pipes_and_devices_are_refused(tmp_path: Path, name: str) -> None:
    pipe, device = tmp_path / name, tmp_path / f"device-{name}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path, kind in ((pipe, "a pipe"), (device, "a device")):
        for read in (read_given_facts, refuse_unreadable, load_dataset):
            with pytest.raises(DataError, match=f"is {kind}; inputs are files"):
                read(str(path))


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        ("facts.csv", b"\0\1", "binary"), ("facts.csv", b"word ", "names no columns"),
        ("facts.csv", "a,b\n東京".encode("shift_jis"), "not UTF-8"),
        ("facts.jsonl", b"<html> ", "is not JSON: it begins with"),
        ("facts.json", b"\0", "binary"), ("facts.parquet", b"PK", "does not begin as Parquet does"),
    ],
)  # fmt: skip
def test_a_large_file_is_refused_by_its_first_megabyte(tmp_path: Path, name: str, start: bytes, said: str) -> None:
    """Of two terabytes (with a hole in it) only the head is read."""
    path = written(tmp_path, start * (1 + (1 << 20) // len(start)), name)
    os.truncate(path, 1 << 41)
    with pytest.raises(DataError, match=said):
        read_given_facts(path)


# The small inputs that were rebuilt from what people reported


@pytest.mark.skipif(not REPORTS.is_dir(), reason="the folder of rebuilt reports is not here")
def test_rebuilt_reports_come_out_right() -> None:
    read = {path.stem: read_given_facts(path) for path in sorted(REPORTS.glob("*.csv"))}
    others = {name: [item.other_objects for item in found.facts] for name, found in read.items()}
    assert others.pop("open-end-9999") == [1, 1, 0, 0]
    assert all(set(counts) == {1} for counts in others.values()) and len(others) == 5, others
    assert [item.aliases for item in read["list-as-text"].facts] == [("Alma-Ata", "Verny"), ("Nur-Sultan", "Akmola")]
    assert [item.fact.period.end is None for item in read["open-end-9999"].facts] == [False, True, True, True]
    query = [item.fact for item in read["query-service-labels"].facts]
    assert [(one.subject, one.subject_id, one.object, one.object_id) for one in query] == [
        ("Kazakhstan", "Q232", "Almaty", "Q35493"), ("Kazakhstan", "Q232", "Astana", "Q1520")
    ]  # fmt: skip
    assert {item.fact.subject for item in read["sep-before-mark"].facts} == {"Kazakhstan"}
    for path in sorted(REPORTS.glob("*.csv")):
        checked = read_facts(path, as_of=AS_OF)
        asked = [question for question in checked.questions if question.asked]
        assert len(asked) == {"letter-case": 2, "normal-forms": 2}.get(path.stem, 1), path
