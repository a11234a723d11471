"""Spreadsheets as files of facts: what their cells mean, which sheet and which row the header, and what is refused."""

import datetime
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.data.loaders import load_dataset
from anachron.data.own.files import has_own_names, is_fact_file, read_given_facts, read_rows
from anachron.data.own.reading import Reading
from anachron.data.question_files import verbalise
from support.spreadsheets import Formula, ods, xlsx

HEADER = ["subject", "relation", "object", "start", "end"]
DAY = datetime.date
ROWS = [
    ["Germany", "capital", "Bonn", DAY(1949, 5, 23), DAY(1990, 10, 3)],
    ["Germany", "capital", "Berlin", DAY(1990, 10, 3), None],
    ["Kazakhstan", "capital", "Almaty", 1991, 1997],
    ["Brazil", "capital", "Brasília", "21 April 1960", "present"],
    ["Prussia", "capital", "Königsberg", "1525-04-10", "18.1.1701"],
]
PLAIN = """subject,relation,object,start,end
Germany,capital,Bonn,1949-05-23,1990-10-03
Germany,capital,Berlin,1990-10-03,
Kazakhstan,capital,Almaty,1991,1997
Brazil,capital,Brasília,1960-04-21,
Prussia,capital,Königsberg,1525-04-10,1701-01-18
"""
AS_OF = "2025-11-22"
DECIMALS = 9  # of a cell's number, which are read


def plain(folder: Path, text: str = PLAIN) -> Path:
    (path := folder / "plain.csv").write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", ["f.xlsx", "f.xlsm", "f.ods", "F.XLSX"])
def test_a_sheet_is_the_same_facts_as_a_plain_file(tmp_path: Path, name: str) -> None:
    cells = [HEADER, *ROWS, [None] * 9, [" "], []]
    path = (ods if name.endswith("ods") else xlsx)(tmp_path / name, {"Facts": cells, "Notes": [["nothing"]]})
    data, expected = (load_dataset(str(one), as_of=AS_OF) for one in (path, plain(tmp_path)))
    assert data.table.equals(expected.table) and is_fact_file(path) and has_own_names(path)
    assert [item.values for item in read_given_facts(path).facts][2]["start"] == "1991"  # and no 1991.0
    assert data.choices()["sheet"] == "Facts" and "sheet" not in expected.choices()
    assert any("sheet Facts is read, of Facts, Notes" in note for note in data.notes)


@settings(max_examples=25)
@given(
    st.lists(
        st.one_of(
            st.none(), st.integers(-9999, 9999), st.floats(-1e6, 1e6).map(lambda number: round(number, DECIMALS)),
            st.text("aé<&'\" ", min_size=1, max_size=5), st.dates(DAY(1900, 3, 1), DAY(2300, 1, 1)),
        ),
        min_size=1, max_size=6,
    ),
    st.booleans(),
)  # fmt: skip
def test_every_cell_is_what_it_says(tmp_path_factory: pytest.TempPathFactory, cells: list, since_1904: bool) -> None:
    """Against Python's own words for it; days before 1904 are none where they are counted from then."""
    cells = [cell if not (since_1904 and isinstance(cell, DAY) and cell.year < 1904) else None for cell in cells]
    path = tmp_path_factory.mktemp("sheet") / "f.xlsx"
    xlsx(path, {"S": [["value"], *([cell] for cell in cells), ["end"]]}, since_1904=since_1904)
    read = [row["value"] for row in read_rows(path).rows]

    def said(cell) -> str | None:
        if isinstance(cell, str):
            return cell.strip() or None
        if isinstance(cell, DAY):
            return f"{cell.isoformat()} 00:00:00"
        return None if cell is None else cell

    expected = [said(cell) for cell in cells]
    assert len(read) == len([cell for cell in expected if cell is not None]) + 1  # empty rows are none
    for one, other in zip(read, [cell for cell in expected if cell is not None], strict=False):
        assert float(one) == pytest.approx(other) if isinstance(other, int | float) else one == other
    whole = [cell for cell in expected if isinstance(cell, int)]
    assert [one for one, cell in zip(read, filter(lambda c: c is not None, expected), strict=False)
            if isinstance(cell, int)] == [str(cell) for cell in whole]  # fmt: skip


def test_days_counted_from_1904_and_values_of_formulas(tmp_path: Path) -> None:
    rows = [[*row[:3], Formula("TODAY()", row[3]) if n == 0 else row[3], row[4]] for n, row in enumerate(ROWS)]
    path = xlsx(tmp_path / "mac.xlsx", {"S": [HEADER, *rows]}, since_1904=True)
    assert load_dataset(str(path), as_of=AS_OF).table.equals(load_dataset(str(plain(tmp_path)), as_of=AS_OF).table)


def test_another_sheet_is_read_by_its_name(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "f.xlsx", {"Notes": [["nothing"]], "Daten 2": [HEADER, *ROWS], "Empty": []})
    data = load_dataset(str(path), as_of=AS_OF, reading=Reading(sheet="Daten 2"))
    assert data.table.equals(load_dataset(str(plain(tmp_path)), as_of=AS_OF).table)
    with pytest.raises(ConfigError, match=r"f\.xlsx: --sheet Daten: the sheets are Notes, Daten 2, Empty"):
        read_given_facts(path, Reading(sheet="Daten"))
    with pytest.raises(
        DataError, match=r"f\.xlsx: sheet Empty is empty; give a header .*, or name another by --sheet: Notes, Daten 2"
    ):
        read_given_facts(path, Reading(sheet="Empty"))
    with pytest.raises(ConfigError, match=r"--sheet A: .*plain\.csv has no sheets; leave it out"):
        read_given_facts(plain(tmp_path), Reading(sheet="A"))


def test_titles_above_a_header_that_cannot_be_mistaken_are_left_out(tmp_path: Path) -> None:
    cells = [[], [None, "Capitals of the world"], [], [None, *HEADER], *([None, *row] for row in ROWS)]
    path = xlsx(tmp_path / "f.xlsx", {"S": cells})
    data = load_dataset(str(path), as_of=AS_OF)
    assert data.table.equals(load_dataset(str(plain(tmp_path)), as_of=AS_OF).table)
    assert any("row 2 of those with cells; above it stands 'Capitals of the world'" in note for note in data.notes)
    chosen = [["Title"], ["Where", *HEADER[1:]], *ROWS]
    found = read_given_facts(xlsx(tmp_path / "g.xlsx", {"S": chosen}), Reading({"subject": "Where"}))
    assert found.facts[0].fact.subject == "Germany"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([["A title"], ["what", "who"], ["x", "y"]], "delete what stands above"),
        ([["Title", "2024"], [*HEADER[:4], "until when"], ROWS[0]], "delete what stands above"),
        ([HEADER, HEADER, ROWS[0]], "row 1, start: 'start' is not a date"),
        ([[*HEADER, "end"], [*ROWS[0], 3]], "two columns are called 'end'"),
        ([[*HEADER, None], [*ROWS[0], 3]], "column 6 has no name"),
        ([HEADER], "there are no rows"),
        ([HEADER, ["Germany", "capital", "Bonn", Formula("1/0", "#DIV/0!"), None]], "'#DIV/0!' is the error"),
        ([HEADER, ["Germany", "capital", "Bonn", 1949, Formula("A99", "#REF!")]], "'#REF!' is the error of a formula"),
        ([HEADER, [Formula("X", "#NAME?"), "capital", "Bonn", 1949, None]], "row 1, subject: '#NAME?' is the error"),
        ([HEADER, ["Germany", "capital", "Bonn", 36000, None]], "a spreadsheet's number of a day"),
        ([HEADER, ["Germany", "capital", "Bonn", Formula("B1", None), None]], "row 1, start: '' is empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_the_fix(tmp_path: Path, cells: list, said: str) -> None:
    with pytest.raises(DataError) as refused:
        read_given_facts(xlsx(tmp_path / "f.xlsx", {"S": cells}))
    assert said in str(refused.value) and "f.xlsx" in str(refused.value)


def test_merged_cells_hold_their_value_once(tmp_path: Path) -> None:
    rows = [ROWS[0], [None, *ROWS[1][1:]], [None, *ROWS[2][1:]]]
    with pytest.raises(DataError, match=r"row 2, subject: '' is empty.*merged cells.*likewise 1 more: 3$"):
        read_given_facts(xlsx(tmp_path / "f.xlsx", {"S": [HEADER, *rows]}, merged=["A2:A4"]))


@pytest.mark.parametrize("name", ["f.xlsx", "f.xls", "f.ods"])
@pytest.mark.parametrize(
    "content", [b"PK", b"subject,relation\n", b"\xd0\xcf\x11\xe0" + bytes(600), b"PK\x03\x04" * 99]
)
def test_what_is_no_spreadsheet_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"the file is no spreadsheet that can be read"):
        load_dataset(str(tmp_path / name))


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(ConfigError, match=r"spreadsheets need fastexcel: .*install.*or save the sheet as CSV"):
        load_dataset(str(xlsx(tmp_path / "f.xlsx", {"S": [HEADER, *ROWS]})))


def test_questions_are_written_for_a_sheet(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "f.xlsx", {"S": [HEADER, *ROWS]})
    counts = verbalise(path, tmp_path / "q.parquet")
    assert counts["facts"] == 5 and counts["verbalised"] == 5
