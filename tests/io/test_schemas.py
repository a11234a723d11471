"""What a declared table refuses and what it lets through, against a reading of its cells one by one."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.io.schemas import FINITE, NOT_BLANK, PROBABILITY, ColumnSchema, Schema, one_of, refuse_duplicates

TABLE = Schema(
    "pets",
    {
        "name": ColumnSchema(filled=True, rules=(NOT_BLANK,)),
        "kind": ColumnSchema(filled=True, rules=(one_of(("cat", "dog")),)),
        "age": ColumnSchema(pl.Int64),
        "share": ColumnSchema(pl.Float64, rules=(FINITE, PROBABILITY)),
        "way": ColumnSchema(optional=True, absent="plain"),
    },
    ("name",),
)
GOOD = {"name": ["Tom", "Rex"], "kind": ["cat", "dog"], "age": ["3", None], "share": ["0.5", None]}


def test_columns_come_in_their_order_and_types():
    given = pl.DataFrame(GOOD).select(reversed(GOOD))
    read = TABLE.read(given)
    assert read.columns == [*TABLE.columns] and dict(read.schema) == TABLE.types
    assert read.row(0, named=True) == {"name": "Tom", "kind": "cat", "age": 3, "share": 0.5, "way": "plain"}
    assert TABLE.read(read).equals(read)  # what was read is read again


def test_with_further_columns_all_stay_where_they_are():
    given = pl.DataFrame({"note": ["a", "b"], **GOOD})
    read = TABLE.read(given, others=True)
    assert read.columns == [*given.columns, "way"] and dict(read.schema) == TABLE.types | {"note": pl.String}
    assert read.drop("note").equals(TABLE.read(given)) and read["note"].equals(given["note"])


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("name", ["Tom", None], "pets, row 2: name None is empty; every row needs one"),
        ("name", [" ", ""], "pets, row 1: name ' ' is empty; every row needs one (2 rows broken)"),
        ("name", ["Tom", "Tom"], "pets, row 2: the same as row 1 (name 'Tom'); keep one"),
        ("kind", ["cow", "cat"], "pets, row 1: kind 'cow' is unknown; use one of cat, dog"),
        ("age", ["3", "three"], "pets, row 2: age 'three' is no Int64; write it as one"),
        ("age", [3.0, 3.5], "pets, row 2: age 3.5 is no Int64; write it as one"),
        ("share", ["1.5", "1"], "pets, row 1: share '1.5' is not a probability; it must be 0 to 1, not a logarithm"),
        ("share", ["nan", "1"], "pets, row 1: share 'nan' is not a finite number; give one or leave it empty"),
        ("share", ["much", "1"], "pets, row 1: share 'much' is no number; write it as one"),
    ],
)
def test_a_refusal_names_table_row_value_rule_and_fix(column: str, cells: list[Any], message: str):
    with pytest.raises(DataError) as refused:
        TABLE.read(pl.DataFrame(GOOD | {column: cells}))
    assert str(refused.value) == message


def test_missing_columns_are_named_with_what_to_do():
    with pytest.raises(DataError, match=r"^pets lacks the columns kind, age; it needs name, kind, age, share$"):
        TABLE.read(pl.DataFrame(GOOD).drop("kind", "age"))
    told = Schema("pets.csv", {"name": ColumnSchema()}, remedy="ask the vet")
    with pytest.raises(DataError, match=r"^pets\.csv lacks the column name; ask the vet$"):
        told.read(pl.DataFrame({"x": [1]}))


def test_truth_values_of_text_files():
    flags = Schema("flags", {"known": ColumnSchema(pl.Boolean)})
    assert flags.read(pl.DataFrame({"known": ["true", "false", None]}))["known"].to_list() == [True, False, None]
    with pytest.raises(DataError, match="row 2: known 'yes' is no Boolean"):
        flags.read(pl.DataFrame({"known": ["true", "yes"]}))


def test_a_text_is_no_list():
    with pytest.raises(DataError, match=r"^lists"):
        Schema("lists", {"names": ColumnSchema(pl.List(pl.Int64))}).read(pl.DataFrame({"names": ["a"]}))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 2))), max_size=8))
def test_the_first_two_rows_alike_are_named(rows: list[tuple[str, int | None]]):
    table = pl.DataFrame(rows, schema={"a": pl.String, "b": pl.Int64}, orient="row")
    first = next(((rows.index(row), place) for place, row in enumerate(rows) if row in rows[:place]), None)
    if first is None:
        refuse_duplicates(table, ["a", "b"])
        return
    repeated = min(rows.index(row) for row in rows if rows.count(row) > 1)
    again = rows.index(rows[repeated], repeated + 1)
    with pytest.raises(DataError, match=f"^row {again + 1}: the same as row {repeated + 1} "):
        refuse_duplicates(table, ["a", "b"])


def test_the_first_bad_row_is_refused_whatever_its_column_and_rule():
    given = pl.DataFrame({"name": ["Tom", "Rex"], "kind": ["cat", "cow"], "age": ["x", "3"], "share": ["0.5", "2"]})
    with pytest.raises(DataError, match=r"^pets, row 1: age 'x' is no Int64"):
        TABLE.read(given)


@given(st.lists(st.one_of(st.none(), st.floats(), st.sampled_from(["", "x", "1e3"])), min_size=1, max_size=6))
def test_numbers_are_read_as_python_reads_them(cells: list[Any]):
    """Whether a column of texts is let through, against Python's own float."""

    def fine(cell: str | None) -> bool:
        if cell is None:
            return True
        try:
            return abs(float(cell)) < float("inf")
        except ValueError:
            return False

    texts = [None if cell is None else str(cell) for cell in cells]
    table, schema = (
        pl.DataFrame({"n": texts}, schema={"n": pl.String}),
        Schema("t", {"n": ColumnSchema(pl.Float64, rules=(FINITE,))}),
    )
    if all(map(fine, texts)):
        assert schema.read(table)["n"].to_list() == [None if text is None else float(text) for text in texts]
    else:
        row = next(place for place, text in enumerate(texts, 1) if not fine(text))
        with pytest.raises(DataError, match=f"^t, row {row}: n "):
            schema.read(table)
