"""Rows of an SQL dump in all the ways of writing it, against the rows that were written."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.wikidata.updates import sql_dump
from anachron.wikidata.updates.redirects import write_merged
from anachron.wikidata.updates.sql_dump import read_rows

WANTED = {"page_namespace": b"0", "page_id": int, "page_title": bytes, "page_is_redirect": b"1"}
COLUMNS = ("page_id", "page_namespace", "page_title", "page_is_redirect", "page_comment", "page_random")
HEAD = (
    "CREATE TABLE `page` (\n" + "".join(f"  `{name}` int(8),\n" for name in COLUMNS) + "  PRIMARY KEY (`page_id`)\n);\n"
)
TITLES = st.sampled_from(["Q1", "Q23", "a'b", "it's),(99,0,'Q9',1,'", "\\", "x;\ny", "(", "--", "/*", "", "ǅ"])
ROWS = st.lists(
    st.tuples(st.integers(1, 10**9), st.sampled_from([0, 0, 0, 4]), TITLES, st.sampled_from([0, 1]),
              st.one_of(st.none(), TITLES, st.text(max_size=12)), st.sampled_from(["0.5", "-1e-3", "NULL"])),
    min_size=1, max_size=12,
)  # fmt: skip


def quoted(text: str | None, doubled: bool) -> str:
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace("'", "''" if doubled else "\\'")
    return "'" + (escaped if doubled else escaped.replace("\n", "\\n").replace("\0", "\\0")) + "'"


def dumped(rows, verb, space, joined, after, doubled, prefix, named, per_statement) -> str:
    columns = COLUMNS[::-1] if named == "backwards" else COLUMNS
    names = f" ({', '.join(f'`{name}`' for name in columns)})" if named else ""
    text = ""
    for first in range(0, len(rows), per_statement):
        written = []
        for id, namespace, title, redirect, comment, number in rows[first : first + per_statement]:
            hexed = (
                "0x" + title.encode().hex()
                if prefix == "0x" and title
                else prefix.replace("0x", "") + quoted(title, doubled)
            )
            cells = [str(id), str(namespace), hexed, str(redirect), quoted(comment, doubled), number]
            written.append(
                f"({space}{f'{space},{space}'.join(cells[::-1] if columns is not COLUMNS else cells)}{space})"
            )
        text += f"{verb} `page`{names} VALUES{after}{joined.join(written)};\n"
    return text


@given(
    rows=ROWS,
    verb=st.sampled_from(["INSERT INTO", "INSERT IGNORE INTO", "insert into", "REPLACE INTO", "INSERT /* a; */ INTO"]),
    space=st.sampled_from(["", "", " "]),
    joined=st.sampled_from([",", ",\n", " ,\t", ", -- one; more\n"]),
    after=st.sampled_from([" ", "\n", ""]),
    doubled=st.booleans(),
    prefix=st.sampled_from(["", "", "_binary ", "0x"]),
    named=st.sampled_from(["", "as defined", "backwards"]),
    per_statement=st.integers(1, 12),
    chunk=st.sampled_from([7, 100, 1 << 20]),
)
def test_every_row_is_read_in_all_ways_of_writing_it(tmp_path_factory, rows, chunk, named, **form):
    path = tmp_path_factory.getbasetemp() / "page.sql"
    other = "-- a comment; 'open\n/*M!999999\\- sandbox */ \n"
    other += "INSERT INTO `other` VALUES (1,'(99,0,\\'Q9\\',1'),\n(2,NULL);\n"
    path.write_text(HEAD + other + dumped(rows, named=named, **form) + "UNLOCK TABLES;\n", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_dump, "CHUNK", chunk)
        found = list(read_rows(path, "page", WANTED))
    assert found == [(b"%d" % id, title.encode()) for id, n, title, redirect, *_ in rows if (n, redirect) == (0, 1)]


def test_many_rows_are_read_the_quick_way_and_give_the_same(tmp_path, monkeypatch):
    titles = [f"Q{n}" if n % 9 else f"a ({n}), 'b';\\" for n in range(1, 4000)]
    rows = [(n, 0 if n % 5 else 4, title, int(n % 3 == 0), f"c,({n}", "0.5") for n, title in enumerate(titles, 1)]
    form = {"verb": "INSERT INTO", "space": "", "doubled": False, "prefix": "", "named": "", "per_statement": 1500}
    expected = [(b"%d" % id, title.encode()) for id, n, title, redirect, *_ in rows if (n, redirect) == (0, 1)]
    asked, slow = [], sql_dump._Dump.row
    monkeypatch.setattr(sql_dump._Dump, "row", lambda self, pattern: asked.append(1) or slow(self, pattern))
    monkeypatch.setattr(sql_dump, "CHUNK", 50_000)
    for joined, after in ((",", " "), (",\n", "\n")):
        path = tmp_path / "page.sql.gz"
        path.write_bytes(gzip.compress((HEAD + dumped(rows, joined=joined, after=after, **form)).encode()))
        assert list(read_rows(path, "page", WANTED)) == expected
    assert len(asked) < 20  # at the ends of what was read at once


def test_a_row_that_is_not_understood_is_told_and_never_passed_over(tmp_path):
    path, good = tmp_path / "page.sql", "(1,0,'Q1',1,'',0.5)"
    for rows, says in (
        (f"{good},(2,0,'Q2',1,'');", "another number of columns"),
        (f"{good},(2,0,'Q2',1,'',0.5,7);", "another number of columns"),
        (f"{good} {good};", "neither a comma nor the end"),
        (f"{good},(2,0,now(),1,'',0.5);", "another form"),
        (f"{good},SELECT 1;", "another form"),
        (f"{good},", "ends within a statement"),
        (f"{good},(2,0,'Q2", "ends within a statement"),
        (good, "ends within a statement"),
    ):
        path.write_text(f"{HEAD}INSERT INTO `page` VALUES {rows}")
        with pytest.raises(DataError, match=says) as refused:
            list(read_rows(path, "page", WANTED))
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    path.write_text(f"{HEAD}INSERT INTO page SET page_id=1;")
    with pytest.raises(DataError, match="no INSERT of a form that is known"):
        list(read_rows(path, "page", WANTED))
    path.write_text(f"{HEAD}INSERT INTO page VALUES {good} AS new ON DUPLICATE KEY UPDATE page_title=';';\nSELECT 1;\n")
    assert list(read_rows(path, "page", WANTED)) == [(b"1", b"Q1")]


def test_rows_on_lines_of_their_own_are_merged_items(tmp_path):
    """Two files as MariaDB's mysqldump has written them since 2024."""
    redirect = "CREATE TABLE `redirect` (\n" + "".join(
        f"  `{name}` int(8),\n" for name in ("rd_from", "rd_namespace", "rd_title", "rd_interwiki", "rd_fragment")
    )  # fmt: skip
    (tmp_path / "r.sql").write_text(
        f"{redirect}  KEY (`rd_from`)\n);\nINSERT INTO `redirect` VALUES\n(11,0,'Q2','',''),\n(13,0,'Q4','','');\n"
    )
    rows = ",\n".join(f"({number + 10},0,'Q{number}',{number % 2},'',0.1)" for number in range(1, 5))
    (tmp_path / "p.sql").write_text(f"{HEAD}INSERT INTO `page` VALUES\n{rows};\n")
    out: Path = tmp_path / "merged.csv"
    assert write_merged(tmp_path / "r.sql", tmp_path / "p.sql", out) == 2
    assert out.read_text() == "item,merged_into\nQ1,Q2\nQ3,Q4\n"
