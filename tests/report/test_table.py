"""Tables at every width of a terminal: each cell is there whole, no line is longer than the terminal."""

import ast
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from anachron.advise.balance import BALANCE, MEASURED
from anachron.advise.run import ORACLE
from anachron.data.card import PUBLISHED_STATISTICS
from anachron.evaluate.results import UNEDITED
from anachron.report.advice import costs_table, gains_table
from anachron.report.edits.dated import ATOKE, DATED, DATED_WAYS, portability_table
from anachron.report.edits.lifelong import LIFELONG
from anachron.report.edits.paired_tests import paired_tests_table
from anachron.report.edits.tables import EDITS, Layout, edits_table, edits_tables
from anachron.report.refreshed import refresh_table
from anachron.report.table import DOWN, UP, Column, Table, measured
from anachron.report.terminal import answers, listings, old_and_new, tables
from anachron.report.terminal.runs import facts_table
from anachron.wikidata.updates.card import PUBLISHED

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
WIDTHS = (60, 80, 120)


def drawn(table: Table, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().splitlines()


def read_back(lines: list[str]) -> list[tuple[list[str], list[str]]]:
    """Of each grid its headings and its columns, with the parts of what was folded put together, without spaces."""
    grids: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if line.lstrip().startswith("┏"):
            count = line.count("┳") + 1
            grids.append(([""] * count, [""] * count))
        part = 0 if line.lstrip().startswith("┃") else 1 if line.lstrip().startswith("│") else None
        if part is not None:
            cells = line.strip().strip("┃│").replace("┃", "│").split("│")
            for place, cell in enumerate(cells):
                grids[-1][part][place] += "".join(cell.split())
    return grids


def check_whole(table: Table, width: int) -> None:
    """All columns are drawn, in their order behind the names of the rows, with every letter of every cell."""
    lines = drawn(table, width)
    assert max(map(len, lines)) <= width
    assert not any(cell.strip() in ("↑", "↓") for line in lines for cell in line.split("┃"))  # beside its heading
    text = "".join("".join(lines).split())
    assert all("".join(words.split()) in text for words in (table.title, *table.notes))
    grids = read_back(lines)
    begins = [
        n == 0 or (bool(table.sections) and table.sections[n] != table.sections[n - 1]) for n in range(len(table.rows))
    ]
    wanted = [
        (
            "".join(column.title.split()),
            "".join(
                "".join(row[place].split())
                for row, first in zip(table.rows, begins, strict=True)
                if first or not column.once
            ),
        )
        for place, column in enumerate(table.columns)
    ]
    names = next((place for place, column in enumerate(table.columns) if column.number), 1)
    seen = [
        pair
        for number, (head, body) in enumerate(grids)
        for pair in list(zip(head, body, strict=True))[number and names :]
    ]
    assert seen == wanted
    assert all(list(zip(head, body, strict=True))[:names] == wanted[:names] for head, body in grids)


def summary() -> Table:
    numbers = {f"{name}{end}": 1.0 for name in ("win_rate", "robustness") for end in ("", "_low", "_high")} | {
        "ties": 0.00012,
        "near_ties": None,
        "random_robustness": 0.00433,
    }
    rows = [
        {"model": f"{NAME}-{n}", "format": form, "prefix": "none", "granularity": level, "facts": 1234, **numbers}
        for n in range(2) for form in ("raw", "chat") for level in ("year", "month", "day", "global")
    ]  # fmt: skip
    return tables.summary_table(pl.DataFrame(rows, infer_schema_length=None))


def audit() -> Table:
    found: dict[str, Any] = {name: 10_000 + n for n, name in enumerate(tables.AUDIT_LINES)}
    found |= {"statements": 54321, "facts": 99, "longest": 77, "answer_tokens": 2.345, "bos": {0: 5, 2: 1500}}
    found["examples"] = {name: ["In 1998, who was the president of the United States? Bill Clinton"] for name in found}
    return tables.audit_table(found)


def trial() -> Table:
    errors = {"tree": 0.1234, "padded": 0.2345, "tree_largest": 1.25, "padded_largest": 0.44, "allowed": 0.3}
    found: dict[str, Any] = {"used": True, "refusal": None, "dtype": "bfloat16"}
    return tables.trial_table(found | {"trial": {"difference": 4.6e-5, "errors": errors}})


def selection() -> Table:
    step = {"step": "periods", "statements_in": 1_234_567, "statements_kept": 2, "subjects_kept": 1}
    return tables.selection_table([step | {"dropped": {"no start and no end": 1000, "shorter than a year": 20}}] * 2)


STATEMENT = {
    "property_label": "position held", "property_id": "P39", "value": "President of the United States",
    "value_id": "Q11696", "start": "2009-01-20", "end": "2017-01-20", "point": None,
}  # fmt: skip
ENTITY = {"label": "Barack Obama", "id": "Q76", "title": "Barack_Obama"}


def explanation() -> Table:
    row = STATEMENT | {"rank": "normal", "fact_id": "0123456789abcdef", "popularity": 12345.0, "step": None}
    return tables.explanation_table(ENTITY, [row, row | {"step": "periods", "reason": "shorter than a year"}])


def changes() -> Table:
    row = STATEMENT | {
        "merged_from": None, "label": "obsolete", "rule": 3, "words": "it has an end now", "dropped": None,
        "outcome": "in the group of a replacement", "side": "both", "change": None,
    }  # fmt: skip
    return tables.changes_table(ENTITY, False, [row, row | {"merged_from": "Q1", "dropped": "the first step"}])


def updates() -> Table:
    numbers = dict.fromkeys(PUBLISHED["WikiFactDiff"].keys() & PUBLISHED["WFD_repl"].keys(), 1234567.0)
    groups = {"groups": 10, "dropped": {"groups without a label in English": (3, ())}, "kept_groups": 7}
    return tables.updates_table(numbers, numbers, groups)


def listing() -> Table:
    item = {"name": "mini-changes", "facts": 400, "statements": 12345, "relations": 7, "listed": 500}
    return listings.dataset_table([item | {"about": "facts of states, offices and clubs since 1900"}] * 2)


def update_listing() -> Table:
    return listings.update_sets_table(
        [{"name": "mini-updates", "updates": 9, "subjects": 8, "relations": 7, "about": "x y"}]
    )


def change_listing() -> Table:
    item = {"name": "mini-changes", "changes": 9, "controls": 8, "subjects": 7, "kinds": 6, "about": "what changed"}
    return listings.change_sets_table([item])


PROMPT = "The head of government of the United Kingdom of Great Britain and Northern Ireland is"


def lacking() -> Table:
    row = {
        "prompt": PROMPT, "old": "Boris Johnson", "new": "Liz Truss", "p_old": 0.25, "p_new": 1e-7, "rank_old": 1,
        "rank_new": 49_000, "old_likelier": 3, "prompts": 4, "state": "partly",
    }  # fmt: skip
    return old_and_new.lacking_table(pl.DataFrame([row, row | {"state": "lacks"}]))


def before_and_after() -> Table:
    row = {
        "case_id": "1", "prompt": PROMPT, "object": "Boris Johnson", "role": "new", "before": 0.25, "after": 0.5,
        "rank_before": 49_000, "rank_after": 1,
    }  # fmt: skip
    return old_and_new.before_and_after_table(pl.DataFrame([row, row | {"role": "obsolete"}, row | {"case_id": "2"}]))


def judged() -> Table:
    shares = {f"{name}{end}": 0.5 for name in ("rule", "judge", "disagreement") for end in ("", "_low", "_high")}
    row = {"model": NAME, "kind": "period", "judged": 1000, "answers": 1200, **shares}
    return answers.judged_table(pl.DataFrame([row, row | {"disagreement": None}]), NAME)


def of_edits(layout: Layout) -> pl.DataFrame:
    """A summary of two methods in two modes, all of whose metrics are known."""
    whole = {"scenario": "ReplaceObject", "variant": "plain", "done": 10_494, "failed": 3}
    for metric in (column.of for column in (*layout.columns, *layout.more)):
        whole |= {metric: 0.5, f"{metric}_low": 0.375, f"{metric}_high": 1.0, f"{metric}_n": 10_494}
    extra = (
        {"way": "paraphrase"}
        if layout is DATED_WAYS
        else {"edits": 1000, "collapsed": False}
        if layout is LIFELONG
        else {}
    )
    names = [(mode, method) for mode in ("independent", "sequential") for method in ("unedited", "AlphaEdit")]
    return pl.DataFrame([{"mode": mode, "method": method, **extra, **whole} for mode, method in names])


def paired_tests() -> Table:
    row = {
        "mode": "independent", "scenario": "ReplaceObject", "method": "AlphaEdit", "variant": "plain",
        "metric": "neighbourhood_success", "updates": 10_494, "unedited": 0.5, "edited": 0.25, "difference": -0.25,
        "low": -0.5, "high": -0.125, "p": 0.0001,
    }  # fmt: skip
    return paired_tests_table(pl.DataFrame([row, row | {"mode": "sequential", "p": 0.5}]))


def compared_facts() -> Table:
    row = {
        "against": NAME, "run": f"{NAME}, edited", "change": "lost", "subject": "Germany",
        "relation": "head of government", "object": "Olaf Scholz", "held": "2021-12-08/2025-05-06",
        "state_before": "known", "win_rate_before": 0.97, "says_before": "Olaf Scholz", "state_after": "unknown",
        "win_rate_after": 0.5, "says_after": None, "win_rate_difference": -0.47,
    }  # fmt: skip
    rows = [row, row | {"change": "same", "held": "2025-05-06/", "says_after": "Olaf Scholz"}]
    one = {"against": NAME, "run": f"{NAME}, edited", "what": "check"}
    return facts_table(pl.DataFrame(rows, infer_schema_length=None), one)


def portability() -> Table:
    row = {
        "mode": "independent",
        "method": "ROME",
        "variant": "plain",
        "kind": "Subject_Aliasing",
        "updates": 10,
        "tests": 9,
        "not_counted": 1,
    }
    for name in ("right", "right_if_edited", "begins", "success", "p"):
        row |= {name: 0.5, f"{name}_low": 0.4, f"{name}_high": 0.6}
    return portability_table(pl.DataFrame([row, row | {"method": "AlphaEdit"}]))


def advised_ways() -> pl.DataFrame:
    """What advice wrote of ways: two numbers of updates, three ways, an oracle."""
    rows = []
    for size in (1, 1000):
        for way in (UNEDITED, "RETRIEVAL dated", "MEMIT with RETRIEVAL", ORACLE):
            parts = {
                f"{part}{end}": value
                for part in (*MEASURED, BALANCE)
                for end, value in (("", 0.51), ("_low", 0.4), ("_high", 0.62), ("_n", 50))
            }
            costs = {"seconds": 1234.5, "memory": 2 * 10**9, "milliseconds": 45.6, "perplexity": 12.3, "found": 0.97}
            rows.append({"size": size, "way": way, **parts, **costs, "takes_back": way == "RETRIEVAL dated"})
    return pl.DataFrame(rows)


def refreshed() -> Table:
    row = {
        "subject": "Japan", "relation": "head of state", "old": "Akihito", "new": "Naruhito", "since": "2019-05-01",
        "present": "current", "says": "Naruhito", "verdict": "wrong period",
    }  # fmt: skip
    return refresh_table({"updates": [row, row | {"present": None, "says": None, "verdict": None}]})


MAKERS: dict[str, Callable[[], Table]] = {
    "summary_table": summary, "audit_table": audit, "trial_table": trial, "selection_table": selection,
    "explanation_table": explanation,
    "changes_table": changes, "updates_table": updates, "dataset_table": listing,
    "update_sets_table": update_listing, "change_sets_table": change_listing, "lacking_table": lacking,
    "facts_table": compared_facts,
    "before_and_after_table": before_and_after, "judged_table": judged, "portability_table": portability,
    "statistics_table": lambda: tables.statistics_table(
        dict.fromkeys(next(iter(PUBLISHED_STATISTICS.values())), 1234.5)
    ),
    "gains_table": lambda: gains_table(advised_ways()), "costs_table": lambda: costs_table(advised_ways()),
    "refresh_table": refreshed, "paired_tests_table": paired_tests, "edits_table": lambda: edits_table(of_edits(EDITS)),
}  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MAKERS)
def test_every_table_is_whole(name: str, width: int):
    check_whole(MAKERS[name](), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("layout", [EDITS, DATED, DATED_WAYS, ATOKE, LIFELONG], ids=lambda layout: layout.name)
def test_tables_of_edits_are_whole(layout: Layout, width: int):
    for table in edits_tables(of_edits(layout), width, layout):
        check_whole(table, width)


def test_no_table_is_forgotten():
    """All functions of the package that return such a table are drawn above, but for parts of others."""
    source = Path(tables.__file__).parents[2]
    found = {
        node.name
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.returns is not None and ast.unparse(node.returns) == "Table"
    }
    assert found - {"_listing", "_printed", "_table"} == set(MAKERS)
    drawn_elsewhere = [p for p in source.rglob("*.py") if "rich.table" in p.read_text("utf-8") and p.name != "table.py"]
    assert not drawn_elsewhere


WORDS = st.text("abcdé 漢", max_size=30)
COLUMNS = st.lists(
    st.builds(Column, WORDS, number=st.booleans(), joined=st.booleans(), once=st.booleans()), min_size=1, max_size=9
)


@given(COLUMNS, st.integers(60, 140), st.integers(0, 1), st.data())
def test_any_table_is_whole(columns: list[Column], width: int, padding: int, data: st.DataObject):
    rows = data.draw(
        st.lists(
            st.tuples(*(WORDS if not c.number else st.from_regex(r"\d{1,9}", fullmatch=True) for c in columns)),
            max_size=4,
        )
    )
    sections = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    table = Table("A title", columns, rows, ["a note"], sections, padding)
    lines = drawn(table, width)
    assert max(map(len, lines)) <= width
    if "漢" not in "".join("".join(row) for row in rows) + "".join(c.title for c in columns):
        check_whole(table, width)


def test_a_mean_with_its_bounds():
    share = measured("W", "win_rate", UP)
    assert share.cell(None) == "-" and share.cell(0.5) == "50.0" and share.heading == "W ↑"
    assert share.cell(0.971, 0.93, 0.989) == "97.1 [93.0, 98.9]"
    assert share.cell(-0.0001, -0.01, 0.01) == "0.0 [-1.0, 1.0]"
    assert replace(share, sign=True).cell(0.02, 0.0, 0.04) == "+2.0 [0.0, 4.0]"
    assert replace(share, half=True).cell(0.02, 0.0, 0.05) == "2.0 ± 2.5"
    seconds = measured("Seconds", "seconds", DOWN, 1, 2)
    assert seconds.cell(1.234) == "1.23" and seconds.heading == "Seconds ↓"
    table = pl.DataFrame({"seconds": [1.234, None], "seconds_low": [1.0, None], "seconds_high": [2.0, None]})
    assert seconds.cells(table) == ["1.23 [1.00, 2.00]", "-"]


def test_latex_has_commands_for_signs_that_its_fonts_lack():
    table = Table("t", [Column("method"), Column("p > old ↑", number=True)], [("a_b", "< 0.001"), ("c", "1 ± 2")])
    text = table.latex("a_name", "5 % × 2 > 1")
    assert r"\caption{5 \% $\times$ 2 $>$ 1}" in text and r"\label{tab:a-name}" in text
    assert r"p \ensuremath{>} old $\uparrow$" in text and r"\ensuremath{<} 0.001" in text and r"1 $\pm$ 2" in text
