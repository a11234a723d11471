"""Successions and their cases, on made-up facts where every answer is known, and on all of mini by interval logic."""

import json
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.cli.main import run_command
from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.tables import write_table
from anachron.report.export.counterfact import (
    NEIGHBOURS,
    SKIPPED,
    FactInPeriod,
    concurrent_facts,
    edit_cases,
    export_counterfact,
    successions,
)
from anachron.text.kinds import subject_kind
from anachron.text.questions import fill_question, relation_templates


def fact(subject, object, start, end, relation="r", question=None, ids=(None, None, None), also=()):
    quintuple = Fact(subject, relation, object, Period(start, end), *ids)
    also_held = tuple(Period(*dates) for dates in also)
    return FactWithQuestion(quintuple, question or f"who led {subject}?", also_held=also_held)


def cases_of(*asked):
    return edit_cases(make_statements(asked))


def left_out(counts):
    return {reason: item["pairs"] for reason, item in counts["left_out"].items() if item["pairs"]}


def test_a_case_in_full():
    cases, counts = cases_of(
        fact("S", "Old", "2001-02-03", "2005-06-07", ids=("Q1", "P9", "Q2")),
        fact("S", "New", "2005-06-07", "2010", question="whom did S have as leader?", ids=("Q1", "P9", "Q3")),
        fact("T", "Old", "1990", "1995", ids=("Q4", "P9", "Q2")),
        fact("U", "New", "1990", "1995", ids=("Q5", "P9", "Q3")),
        fact("V", "New", "1990", "1995", relation="other", ids=("Q6", "P8", "Q3")),
    )
    (case,) = cases
    ids = case.pop("fact_ids")
    assert case == {
        "case_id": 0,
        "requested_rewrite": {
            "prompt": "whom did {} have as leader?",
            "relation_id": "P9",
            "target_new": {"str": "New", "id": "Q3"},
            "target_true": {"str": "Old", "id": "Q2"},
            "subject": "S",
        },
        "paraphrase_prompts": [],
        "neighborhood_prompts": ["who led T?"],
        "attribute_prompts": ["who led U?"],
        "generation_prompts": [],
        "relation_label": "r",
        "date_of_change": "2005-06-07",
        "periods": {"target_true": ["2001-02-03", "2005-06-07"], "target_new": ["2005-06-07", "2010"]},
    }
    assert ids["target_true"] != ids["target_new"]
    assert counts["cases"] == counts["successions"] == counts["cases_with_neighborhood_prompts"] == 1
    assert not left_out(counts)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (("2001-01-01", "2005-03-04"), ("2005-03-04", "2009"), None),
        (("2001-01-01", "2005-03-04"), ("2005-03-05", "2009"), None),
        (("2001-01-01", "2005-03-04"), ("2005-03-06", "2009"), "gap"),
        (("2001", "2005"), ("2005", "2009"), None),
        (("2001", "2005"), ("2006", "2009"), None),
        (("2001", "2005"), ("2006-02", "2009"), "gap"),
        (("2001", "2005-12"), ("2006-01-01", "2009"), None),
        (("2001", "2005-05-05"), ("2004-05-05", "2009"), "concurrent"),
        (("2001", "2009"), ("2003", "2007"), "concurrent"),
        (("2001", "2004-05"), ("2001", "2004"), "concurrent"),
        (("-0010", "-0001"), ("0001", "0009"), None),
    ],
)
def test_which_periods_follow_each_other(first, second, reason):
    for asked in ((fact("S", "A", *first), fact("S", "B", *second)), (fact("S", "B", *second), fact("S", "A", *first))):
        cases, counts = cases_of(*asked)
        assert left_out(counts) == ({} if reason is None else {reason: 1})
        if reason is None:
            rewrite = cases[0]["requested_rewrite"]
            assert (rewrite["target_true"]["str"], rewrite["target_new"]["str"]) == ("A", "B")
        else:
            assert cases == []


def test_order_that_the_dates_do_not_tell():
    _, counts = cases_of(fact("S", "A", "2000", "2004"), fact("S", "B", "2000-12-31", "2004-01-01"))
    assert left_out(counts) == {"concurrent": 1}
    table = make_statements([fact("S", "A", "2004", "2004"), fact("S", "B", "2004-03", "2004-05")])
    _, counts = edit_cases(table)
    assert left_out(counts) == {"order_unclear": 1}


def test_the_same_object_again_is_no_change():
    asked = (
        fact("S", "A", "2000-01-01", "2005-01-01", ids=("Q1", "P1", "Q2")),
        fact("S", "Alias of A", "2005-01-01", "2009-01-01", ids=("Q1", "P1", "Q2")),
    )
    assert left_out(cases_of(*asked)[1]) == {"same_object": 1}


def changes_of(cases):
    """(earlier, later, date of change), and that no case stands for another."""
    assert [case["case_id"] for case in cases] == list(range(len(cases)))
    asked = [(case["requested_rewrite"], case["date_of_change"]) for case in cases]
    return [(rewrite["target_true"]["str"], rewrite["target_new"]["str"], day) for rewrite, day in asked]


def test_every_period_of_an_object_takes_over_and_is_taken_over():
    asked = (
        fact("S", "A", "2000-05-07", "2004-05-07", also=[("2008-05-07", "2010-05-07"), ("2016-01-01", "2018-01-01")]),
        fact("S", "B", "2004-05-07", "2008-05-07", also=[("2010-05-07", "2012-05-07")]),
    )
    cases, counts = cases_of(*asked)
    assert changes_of(cases) == [("A", "B", "2004-05-07"), ("B", "A", "2008-05-07"), ("A", "B", "2010-05-07")]
    assert cases[1]["periods"] == {
        "target_true": ["2004-05-07", "2008-05-07"], "target_new": ["2008-05-07", "2010-05-07"],
    }  # fmt: skip
    assert (counts["facts"], counts["successions"]) == (2, 3)
    assert left_out(counts) == {"gap": 1}


def test_what_is_refused_of_one_period_is_not_refused_of_the_others():
    held = fact("S", "A", "2000-01-01", "2004-01-01", also=[("2008-01-01", "2012-01-01")])
    cases, counts = cases_of(
        held, fact("S", "B", "2004-01-01", "2008-01-01"), fact("S", "C", "2009-01-01", "2011-01-01")
    )
    assert changes_of(cases) == [("A", "B", "2004-01-01")]
    assert left_out(counts) == {"concurrent": 2}
    alone = fact("S", "A", "2000-01-01", "2004-01-01", also=[("2004-01-02", "2012-01-01")])
    assert left_out(cases_of(alone)[1]) == {"same_object": 1}


def test_questions_that_do_not_hold_the_subject_once():
    before = fact("S", "A", "2000", "2005")
    for question in ("who led it?", "who led S of S?", "who led S-land, the S?", "who led {S}?", "who led SS?"):
        _, counts = cases_of(before, fact("S", "B", "2005", "2009", question=question))
        assert left_out(counts) == {"subject_not_once": 1}, question
    table = make_statements([before, fact("S", "B", "2005", "2009")])
    _, counts = edit_cases(table.filter(table["status"] != "none"))
    assert left_out(counts) == {"no_question": 1}


def test_others_are_few_and_answered_by_one_of_the_two_only():
    many = [fact(f"T{n}", "A", "1990", "1995") for n in range(NEIGHBOURS + 3)]
    both = [fact("U", "A", "1980", "1985"), fact("U", "B", "1995", "1999"), fact("W", "B", "1995", "1999")]
    cases, _ = cases_of(fact("S", "A", "2000", "2005"), fact("S", "B", "2005", "2009"), *many, *both)
    (case,) = cases
    assert len(case["neighborhood_prompts"]) == len(set(case["neighborhood_prompts"])) == NEIGHBOURS
    assert all(prompt.startswith("who led T") for prompt in case["neighborhood_prompts"])
    assert case["attribute_prompts"] == ["who led W?"]


def days(text):
    parts = [int(part) for part in text.split("-")]
    return date(*parts).toordinal()


@pytest.mark.full
def test_all_of_mini(mini: Dataset):
    """Cases with day dates against datetime; prompts and targets against the data set; nothing without a source."""
    cases, counts = edit_cases(mini.table)
    undated = {
        row["fact_id"]: row for row in mini.table.filter(mini.table["status"] == "none").unique("fact_id").to_dicts()
    }
    assert len(undated) == mini.facts == counts["facts"]
    assert counts["successions"] == len(cases) + sum(
        counts["left_out"][reason]["pairs"] for reason in ("no_question", "subject_not_once")
    )
    assert len(cases) > 200
    assert [case["case_id"] for case in cases] == list(range(len(cases)))
    questions = {row["prompt"] for row in undated.values()}
    checked = 0
    for case in cases:
        old, new = (undated[case["fact_ids"][side]] for side in ("target_true", "target_new"))
        rewrite = case["requested_rewrite"]
        assert rewrite["prompt"].format(rewrite["subject"]) == new["prompt"]
        assert rewrite["subject"] == old["subject_label"] == new["subject_label"]
        assert rewrite["relation_id"] == old["relation_id"] == new["relation_id"]
        assert rewrite["target_true"] == {"str": old["object_label"], "id": old["object_id"]}
        assert rewrite["target_new"] == {"str": new["object_label"], "id": new["object_id"]}
        relation = rewrite["relation_id"]
        four = {fill_question(t, rewrite["subject"], subject_kind(relation)) for t in relation_templates()[relation][1]}
        assert {*case["paraphrase_prompts"], new["prompt"]} == four
        assert len(case["paraphrase_prompts"]) == 3
        assert {*case["neighborhood_prompts"], *case["attribute_prompts"]} <= questions - {new["prompt"]}
        assert case["date_of_change"] == new["start"]
        if all(len(d) == 10 and not d.startswith("-") for d in (old["start"], old["end"], new["start"], new["end"])):
            checked += 1
            assert days(old["start"]) < days(old["end"]) <= days(new["start"]) + 1
            assert days(new["start"]) - days(old["end"]) in (0, 1)
            between = [
                row
                for row in undated.values()
                if (row["subject_label"], row["relation_id"]) == (new["subject_label"], new["relation_id"])
                and all(len(d) == 10 and not d.startswith("-") for d in (row["start"], row["end"]))
            ]
            for a, b in combinations(between, 2):
                if new["fact_id"] in (a["fact_id"], b["fact_id"]):
                    assert max(days(a["start"]), days(b["start"])) >= min(days(a["end"]), days(b["end"]))
    assert checked > 100


def test_the_file_and_its_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = make_statements(
        [fact("S", "A", "2000", "2005"), fact("S", "B", "2005", "2009"), fact("S", "C", "2012", "2016")]
    )
    write_table(tmp_path / "three.csv", to_published(table, "released"))
    path = tmp_path / "cases.json"
    argv = ["export", "counterfact", str(tmp_path / "three.csv"), "--out", str(path)]
    assert run_command([*argv, "--json"], debug=False) == 0
    shown = json.loads(capsys.readouterr().out)
    cases = json.loads(path.read_text("utf-8"))
    manifest = json.loads(Path(f"{path}.manifest.json").read_text())
    data = load_dataset(str(tmp_path / "three.csv"))
    assert cases == edit_cases(data.table)[0]
    assert shown["cases"] == manifest["counts"]["cases"] == len(cases) == 1
    assert set(manifest["counts"]["left_out"]) == set(SKIPPED)
    assert left_out(manifest["counts"]) == {"gap": 1}
    assert {field for field, value in cases[0].items() if value == []} <= set(manifest["parameters"]["empty_fields"])
    assert manifest["inputs"] == {"three.csv": data.fingerprint()}
    assert run_command(argv, debug=False) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"left out 1: {SKIPPED['gap']}" in err


def test_nothing_to_export_is_an_error(tmp_path: Path):
    data = Dataset("lonely", make_statements([fact("S", "A", "2000", "2005")]), "released")
    with pytest.raises(DataError, match="lonely holds no succession"):
        export_counterfact(data, tmp_path / "x.json")
    with pytest.raises(ConfigError, match=r"must end in \.json"):
        export_counterfact(data, tmp_path / "x.jsonl")
    assert not list(tmp_path.iterdir())


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1990, 1999), st.none() | st.integers(0, 5)), max_size=12)
)
def test_what_holds_together_is_what_all_pairs_say(spans: list[tuple[str, int, int | None]]):
    facts = [
        FactInPeriod(
            name, "S", None, "r", None, f"{name}{n}", None, Date(start),
            None if length is None else Date(start + length), None,
        )
        for n, (name, start, length) in enumerate(spans)
    ]  # fmt: skip
    naive = {
        f for f in facts for g in facts
        if f.fact_id != g.fact_id and max(f.certain[0], g.certain[0]) < min(f.certain[1], g.certain[1])
    }  # fmt: skip
    assert concurrent_facts(facts) == naive


def test_facts_of_a_subject_in_two_spellings_follow_each_other():
    one = FactInPeriod("a", "S\u00e3o", None, "capital", None, "A", None, Date(1990), Date(1999), "q?")
    two = FactInPeriod("b", "SA\u0303O", None, "Capital", None, "B", None, Date(2000), None, "q?")
    assert successions([one, two])[0] == [(one, two)]
    assert successions([one, replace(two, object="a")])[1]["same_object"] == 1
