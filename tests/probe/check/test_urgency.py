"""What a check opens with: the stale facts, in its lines, its summary and its JUnit file, and the order of facts."""

from pathlib import Path
from xml.etree import ElementTree

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.probe.check.check import Check, write_junit
from anachron.probe.check.gate import Outcome
from anachron.probe.check.present import PRESENT_SCHEMA
from anachron.probe.check.urgency import stale_in_words, urgent_first
from anachron.probe.check.verdicts import VERDICTS, verdict_in_words
from anachron.report.terminal.verdicts import stale_lines, today_in_words, verdict_lines

BASE = {
    "name": None, "place": 3, "win_rate": 0.7, "robustness": 0.0, "timeline": "▂▃", "left_out": None, "present": None,
    "answer": None, "answer_until": None, "believed_start": None, "believed_end": None, "start_error_years": None,
    "end_error_years": None,
}  # fmt: skip
ROWS = [
    BASE | {"subject": "Peru", "relation": "capital", "object": "Lima", "periods": "1821/", "verdict": "known",
            "present": "current", "answer": "Lima"},
    BASE | {"subject": "Mali", "relation": "leader", "object": "Ana", "periods": "2001/2011", "verdict": "wrong period",
            "believed_start": "2009", "start_error_years": 8.2},
    BASE | {"subject": "Japan", "relation": "emperor", "object": "Akihito", "periods": "1989-01-07/2019-04-30",
            "verdict": "shaky"},
    BASE | {"subject": "Mali", "relation": "leader", "object": "Ben", "periods": "1990/1994; 2011/",
            "verdict": "wrong period", "believed_start": "2012", "start_error_years": 1.3, "present": "current"},
    BASE | {"subject": "Japan", "relation": "emperor", "object": "Naruhito", "periods": "1950/1951; 2019-05-01/",
            "verdict": "unknown", "present": "stale", "answer": "Akihito", "answer_until": "2019-04-30"},
    BASE | {"subject": "Shop", "relation": "hours", "object": "ten to six", "periods": "2026-03/", "verdict": None,
            "win_rate": None, "timeline": None, "left_out": "no length", "present": "stale", "answer": "nine to five"},
]  # fmt: skip
PRESENT = [
    {"subject": "Japan", "relation": "emperor", "question": "who is the emperor of Japan?", "object": "Naruhito"},
    {"subject": "Shop", "relation": "hours", "question": "what are the hours?", "object": "ten to six"},
]
JAPAN = "Japan, emperor: says Akihito (held until 2019-04-30); Naruhito since 2019-05-01"
SHOP = "Shop, hours: says nine to five; ten to six since 2026-03"


def found_in(folder: Path) -> Check:
    demand = Outcome("at most 1 stale", False, "2 of 4", 4, 4, of_stale=True)
    other = Outcome("win rate at least 50 %", True, "mean W 70 %", 5, 5)
    verdicts = pl.DataFrame(ROWS, infer_schema_length=None)
    return Check(
        folder, "m", verdicts, pl.DataFrame(PRESENT, PRESENT_SCHEMA), [demand, other], Date.parse("2026-06-30")
    )


def test_the_summary_has_the_stale_facts_before_the_counts(tmp_path: Path) -> None:
    summary = found_in(tmp_path).summary
    assert list(summary).index("stale") < list(summary).index("facts")
    assert summary["stale"][0] == {
        "subject": "Japan", "relation": "emperor", "question": "who is the emperor of Japan?", "old": "Akihito",
        "old_until": "2019-04-30", "new": "Naruhito", "since": "2019-05-01",
    }  # fmt: skip
    assert [stale_in_words(fact) for fact in summary["stale"]] == [JAPAN, SHOP]


def test_the_lines_open_with_the_stale_facts_then_wrong_periods(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    opening = [line.plain for line in stale_lines(found.stale, 120)]
    assert opening == ["stale: 2 facts", f"  {JAPAN}", f"  {SHOP}"]
    small = [line.plain for line in stale_lines(found.stale, 80)]
    assert small[1:3] == ["  Japan, emperor: says Akihito (held until 2019-04-30);", "    Naruhito since 2019-05-01"]
    assert not list(stale_lines([]))
    lines = [line.plain for line in verdict_lines(found.verdicts, 80)]
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == ["Japan, emperor", "Shop, hours", "Mali, leader", "Peru, capital"]


def test_what_is_said_of_a_wrong_period_and_of_today_goes_together() -> None:
    ana, ben = ROWS[1], ROWS[3]
    assert verdict_in_words(ana) == "wrong period: believed from 2009 on, begins 8 years too late, W 70 %"
    assert verdict_in_words(ben) == "wrong period: believed from 2012 on, begins 1 year too late, W 70 %"
    assert today_in_words(ben) == "asked about today, it gives the right answer"
    both = ana | {"believed_end": "2040", "end_error_years": -3.4, "start_error_years": 0.4}
    assert verdict_in_words(both).startswith("wrong period: believed 2009 to 2040, ends 3 years too early, W")
    nothing = verdict_in_words(both | {"end_error_years": -0.4})
    assert nothing == "wrong period: believed 2009 to 2040, W 70 %"  # never "0 years too early"


def test_a_junit_file_names_each_stale_fact_and_the_demand_lists_them(tmp_path: Path) -> None:
    write_junit(found_in(tmp_path), tmp_path / "junit.xml")
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().findall("testcase")
    assert [case.get("name") for case in cases[:4]] == [
        "at most 1 stale", "win rate at least 50 %", "Japan: Akihito", "Japan: Naruhito"
    ]  # fmt: skip
    assert cases[0].findtext("failure") == f"{JAPAN}\n{SHOP}" and JAPAN not in (cases[1].findtext("system-out") or "")
    assert cases[0].findtext("system-out") == f"2 of 4\n{JAPAN}\n{SHOP}"
    assert (cases[3].findtext("system-out") or "").startswith(f"stale: {JAPAN}\nunknown, W 70 %")
    skipped = next(case.find("skipped") for case in cases if case.get("name") == "Shop: ten to six")
    assert skipped is not None and skipped.get("message") == f"no length; stale: {SHOP}"


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from([*VERDICTS, None]),
                  st.sampled_from(["stale", "current", None])),
        max_size=14,
    )
)  # fmt: skip
def test_the_order_against_loops(drawn: list[tuple[str, str, str | None, str | None]]) -> None:
    schema = {"n": pl.Int64} | dict.fromkeys(("subject", "relation", "verdict", "present"), pl.String)
    rows = [(n, *row) for n, row in enumerate(drawn)]
    groups: dict[tuple[str, str], list[tuple[int, str | None, str | None]]] = {}
    for n, subject, relation, verdict, present in rows:
        groups.setdefault((subject, relation), []).append((n, verdict, present))
    order = ["wrong period", "unknown", "shaky", "known"]  # then robust, and what was not asked with dates
    left, expected = list(groups.values()), []
    for is_next in (
        lambda v, p: p == "stale", *(lambda v, p, kind=kind: v == kind for kind in order), lambda v, p: True
    ):  # fmt: skip
        first = [g for g in left if any(is_next(v, p) for _, v, p in g)]
        expected += [n for g in first for n, _, _ in g]
        left = [g for g in left if g not in first]
    assert urgent_first(pl.DataFrame(rows, schema, orient="row"))["n"].to_list() == expected
