"""Tables of old and new objects as updates: headers, wordings, neighbours, and what is refused and left out."""

import csv
import itertools
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.core.sameness import name_key, plain
from anachron.data.bundled.mini import mini_facts
from anachron.data.bundled.mini_updates import known_facts
from anachron.data.own.columns import UPDATE_HEADERS, UPDATES_KNOWN, update_columns
from anachron.data.updates.case_table import STALE_COLUMNS, case_table
from anachron.data.updates.cases import MINI_UPDATES, CaseSet, load_cases, select_records
from anachron.probe.horizon.read import read_changes
from anachron.text.words import words_of
from support.spreadsheets import ods, xlsx

PROMPT = {"subject": "France", "prompt": "The capital of France is", "old": "Paris", "new": "Lyon"}
MERZ = {"subject": "Germany", "relation": "head of government", "old": "Olaf Scholz", "new": "Friedrich Merz"}
RELATIONS = {entry["id"]: entry for entry in words_of("English", "relations")}


def table(*rows: dict[str, Any]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = StringIO()
    csv.writer(text).writerows([columns, *([row.get(name, "") for name in columns] for row in rows)])
    return text.getvalue()


@pytest.fixture
def load(tmp_path: Path):
    def read(*rows: dict[str, Any], **options: Any) -> CaseSet:
        (tmp_path / "set.csv").write_text(table(*rows), "utf-8")
        return load_cases(str(tmp_path / "set.csv"), **options)

    return read


def refused(load: Any, *rows: dict[str, Any]) -> str:
    with pytest.raises(DataError) as caught:
        load(*rows)
    message = str(caught.value)
    assert "set.csv" in message and "\n" not in message
    return message


# --- how a row is worded ---


def test_a_prompt_of_ones_own(load):
    for prompt in (
        "The capital of France is",
        "The capital of {} is",
        "The capital of France is ____",
        "{}: capital __",
    ):
        (case,) = load(PROMPT | {"prompt": prompt}).cases
        assert case.prompt == prompt.replace("{}", "France").rstrip("_ ") and case.generalization == ()
        assert (case.subject, case.new, case.old, case.scenario) == ("France", "Lyon", "Paris", "ReplaceObject")
        assert case.objects == (("Lyon", "new"), ("Paris", "obsolete")) and case.relation is None
    (case,) = load(PROMPT | {"subject": "Pele\u0301", "prompt": "Pel\u00e9 plays for"}).cases
    assert case.prompt == "Pel\u00e9 plays for"


@given(st.sampled_from(sorted(RELATIONS)), st.sampled_from(["Peru", "Kim Lee", "Zürich"]))
def test_a_relation_is_worded_by_its_statements(relation: str, subject: str):
    """By filling in the words of the language's file; these subjects take no article, whatever they are."""
    entry = RELATIONS[relation]

    def filled(templates: list[str]) -> list[str]:
        return [name_key(t.replace("[SUBJ]", subject).replace("[OBJ]", "____")) for t in templates]

    for named in ({"relation": entry["label"]}, {"relation_id": relation}, {"relation": relation}):
        row = {"subject": subject, "old": "A", "new": "B", **named}
        (record,) = case_table([*row], [row]).records
        worded = [record["update_prompt"], *record["generalization_prompts"]]
        bare = [name_key(text.replace(f"the {subject}", subject).replace(f"The {subject}", subject)) for text in worded]
        past = [name_key(t.replace(f"the {subject}", subject).replace(f"The {subject}", subject))
                for t in record["past_generalization_prompts"]]  # fmt: skip
        assert (bare, past) == (filled(entry["cloze"]), filled(entry["cloze_past"][1:]))
        assert record["question_templates"] == entry.get("questions", [])
        assert record["relation"] == {"id": relation, "label": entry["label"]}


def test_a_table_says_what_the_bundled_updates_say(tmp_path):
    """The same updates as a table of words, against the data set that was made otherwise."""
    bundled = [case for case in load_cases(MINI_UPDATES).cases if case.relation_label or case.relation]
    rows = [
        {"case_id": case.case_id, "subject": case.subject, "relation_id": case.relation, "old": case.old,
         "new": case.new, "date": case.start, "old_start": case.old_start, "old_end": case.old_end}
        for case in {(c.subject, c.relation): c for c in bundled}.values()
    ]  # fmt: skip
    (tmp_path / "t.csv").write_text(table(*rows), "utf-8")
    found = {case.case_id: case for case in load_cases(str(tmp_path / "t.csv")).cases}
    assert len(found) == len(rows) > 200
    names = ("subject", "prompt", "new", "old", "generalization", "past_generalization", "question_templates", "start",
             "precision", "old_start", "scenario", "objects")  # fmt: skip
    for case in bundled:
        if case.case_id in found:
            one = found[case.case_id]
            assert [getattr(one, name) for name in names] == [getattr(case, name) for name in names]


def test_a_relation_with_words_alone_is_asked_by_them(load):
    row = {"subject": "Italy", "relation": "finance minister", "old": "A", "new": "B"}
    (case,) = load(row).cases
    assert case.prompt == "who is the finance minister of Italy?" and case.generalization == ()
    assert case.question_templates == ("who was the finance minister of [SUBJ]?",) and case.relation == row["relation"]
    (case,) = load(row | {"question": "who runs the finances of Italy?"}).cases
    assert case.prompt == "who runs the finances of Italy?"
    assert case.generalization == ("who is the finance minister of Italy?",)
    (case,) = load(PROMPT | {"relation": "capital"}).cases  # its own prompt first, the statements besides
    assert case.prompt == PROMPT["prompt"] and len(case.generalization) == len(case.past_generalization) == 4
    (case,) = load(PROMPT | {"relation": "capital", "prompt": "France is ruled from"}).cases
    assert case.generalization[0] == PROMPT["prompt"] and len(case.generalization) == 5


def test_a_question_is_asked_where_the_relation_has_no_words(load):
    (case,) = load({"subject": "X", "relation": "favourite colour", "question": "what does X like?", "old": "red",
                    "new": "blue"}).cases  # fmt: skip
    assert case.prompt == "what does X like?" and case.question_templates == ()
    spanish = {"subject": "Alemania", "relation": "capital", "question": "¿cuál es la capital de Alemania?"}
    assert load(MERZ | spanish).cases[0].prompt == spanish["question"]
    assert load(MERZ | {"question": "who leads Germany?"}).cases[0].prompt == "The head of government of Germany is"


def test_a_question_beside_a_prompt_is_asked_with_dates(load):
    row = {"subject": "United States", "prompt": "The United States has the president", "old": "Obama", "new": "Trump"}
    (case,) = load(row | {"question": "who was the president of the United States?"}).cases
    assert case.question_templates == ("who was the president of [SUBJ]?",)
    assert "does not name its subject" in refused(load, row | {"question": "who was it?"})
    assert "gives its answer 'Obama' away" in refused(load, row | {"question": "who beat Obama in the United States?"})


# --- headers and files ---


def test_a_word_means_one_column_in_all_languages():
    words = [(plain(word), known) for known, of in UPDATE_HEADERS.items() for word in ", ".join(of).split(", ") if word]
    for (one, first), (other, second) in itertools.combinations(words, 2):
        assert one != other or first == second, one
    assert all(len(of) == 5 for of in UPDATE_HEADERS.values()) and set(UPDATE_HEADERS) <= set(UPDATES_KNOWN)


@given(st.data())
def test_headers_in_any_order_and_language_mean_the_same(data: st.DataObject):
    choices = {
        known: [known, known.upper(), *filter(None, ", ".join(UPDATE_HEADERS.get(known, ())).split(", "))]
        for known in UPDATES_KNOWN
    }
    known = data.draw(st.lists(st.sampled_from(UPDATES_KNOWN), unique=True))
    columns = [data.draw(st.sampled_from(choices[name]).map(str.capitalize)) for name in known]
    assert update_columns([*columns, "note"]) == dict(zip(known, columns, strict=True))


HEADERS = [
    "subject,relation,old,new,date", "Land;Amt;bisher;neu;Datum", "pays;poste;ancien;nouveau;depuis",
    "país;cargo;antiguo;nuevo;fecha", "país;cargo;antigo;novo;data",
    "country\toffice\tground_truth\ttarget_new\tsince",
]  # fmt: skip


def test_files_of_all_kinds_are_the_same_updates(tmp_path):
    rows = [("Germany", "head of government", "Olaf Scholz", "Friedrich Merz", "2025-05-06"),
            ("Kazakhstan", "capital", "Almaty", "Astana", "1997-12-10")]  # fmt: skip
    plain_rows = [dict(zip(HEADERS[0].split(","), row, strict=True)) for row in rows]
    made = []
    for number, header in enumerate(HEADERS):
        mark = next(sign for sign in ",;\t" if sign in header)
        made.append(tmp_path / f"{number}.{'tsv' if mark == chr(9) else 'csv'}")
        made[-1].write_text("\n".join([header, *(mark.join(row) for row in rows)]), "cp1252")
    for name, text in (("a.json", json.dumps(plain_rows)), ("b.JSONL", "\n".join(map(json.dumps, plain_rows)))):
        made.append(tmp_path / name)
        made[-1].write_text(text)
    pl.DataFrame(plain_rows).write_parquet(tmp_path / "c.parquet")
    cells = [("Land", "Amt", "alt", "neu", "seit"), *rows]
    made += [
        tmp_path / "c.parquet",
        xlsx(tmp_path / "d.xlsx", {"A": cells, "B": [("x",)]}),
        ods(tmp_path / "e.ods", {"A": cells}),
    ]
    found = [load_cases(str(path)) for path in made]
    assert {one.fingerprint() for one in found} == {found[0].fingerprint()} and found[0].format == "wikifactdiff"
    assert found[0].latest_change == "2025-05-06" and not found[0].notes
    assert "'Land' as subject, 'Amt' as relation, 'bisher' as old, 'neu' as new, 'Datum' as date" in found[1].notes[0]
    sheet = next(one for one in found if one.name.endswith("xlsx"))
    assert "sheet A is read, of A, B; put first" in sheet.notes[0] and "--" not in " ".join(sheet.notes)
    told = ("subject", "old", "new", "date")  # by the reader of changes too, which reads the first file itself
    changes = [read_changes(path).select(told).rows() for path in made if path.suffix != ".JSONL"]
    assert changes == [changes[0]] * len(changes) and len(changes[0]) == 2


def test_records_of_known_formats_stay_what_they_are(tmp_path):
    flat = [{"subject": "France", "prompt": "The capital of France is", "target_new": "Lyon", "ground_truth": "Paris"}]
    (tmp_path / "flat.json").write_text(json.dumps(flat))
    assert load_cases(str(tmp_path / "flat.json")).format == "counterfact"
    (tmp_path / "flat.csv").write_text(table(*flat))
    assert load_cases(str(tmp_path / "flat.csv")).format == "wikifactdiff"
    (tmp_path / "new.json").write_text(json.dumps([{"claim": "Paris"}]))
    with pytest.raises(DataError, match="a table of old and new objects: subject, old, new, and prompt or relation"):
        load_cases(str(tmp_path / "new.json"))


def test_dates_and_names(load):
    row = {"date": "06.05.2025", "old_start": "08.12.2021", "old_end": "5.5.2025", "aliases": "Merz | F. Merz"}
    found = load(MERZ | row)
    (case,) = found.cases
    dates = (case.start, case.precision, case.old_start, case.old_end)
    assert dates == ("2025-05-06", "day", "2021-12-08", "2025-05-05")
    assert case.aliases == (("Friedrich Merz", "Merz"), ("Friedrich Merz", "F. Merz"))
    assert "dates such as '06.05.2025' are read day first, as 2025-05-06, for its dots" in found.notes
    assert load(MERZ | {"date": "May 2025"}).cases[0].precision == "month"
    message = refused(load, MERZ | {"date": "06/05/2025"})
    assert "row 1, date: '06/05/2025' may have the day or the month first" in message and "--" not in message
    message = refused(load, MERZ | {"date": "06.05.2025", "old_start": "12/31/2021"})
    assert "two orders of day and month" in message and "--" not in message


# --- what is beside an update ---


@pytest.mark.parametrize("relation", ["head of state", "capital", "country"])
def test_neighbours_are_bundled_facts_of_the_relation(load, relation):
    """Against a loop over the bundled facts; Norway and Italy are others' subjects, so they judge nobody."""
    rows = [{"subject": s, "relation": relation, "old": f"{s} 1", "new": new} for s, new in
            (("Norway", "Madrid"), ("Italy", "Philippe"))]  # fmt: skip
    cases = load(*rows).cases
    id = cases[0].relation
    facts = [f for f in known_facts() if f.relation_id == id] or [
        m.fact for m in mini_facts() if m.fact.relation_id == id
    ]
    for case in cases:
        assert 0 < len(case.nearest) <= 10 and len(case.random) <= 10
        for fact in (*case.nearest, *case.random):
            assert fact.subject not in ("Norway", "Italy") and fact.dist is None
            assert any((one.subject, one.object) == (fact.subject, *fact.objects) for one in facts)
            head, tail = RELATIONS[id]["cloze"][0].removesuffix(" [OBJ]").split("[SUBJ]")
            assert fact.prompt in {f"{head}{article}{fact.subject}{tail}" for article in ("", "the ", "The ")}
        near = [
            next(one for one in facts if (one.subject, one.object) == (fact.subject, *fact.objects))
            for fact in case.nearest
        ]
        open_ones = [one for one in facts if one.period.end is None and one.subject not in ("Norway", "Italy")
                     and one.object != case.new]  # fmt: skip
        assert sum(one.period.end is None for one in near) == min(10, len(open_ones))
        assert case.new not in {one.object for one in near}


def test_without_any_nearest_fact_random_ones_are_bundled(load):
    cases = load(PROMPT, PROMPT | {"subject": "Norway", "prompt": "{} likes", "old": "A", "new": "B"}).cases
    facts = {(one.subject, (one.object,)) for one in known_facts() if one.period.end is None}
    for case in cases:
        assert not case.nearest and len(case.random) == len(set(case.random)) == 10
        assert all((one.subject, one.objects) in facts and one.subject != "Norway" for one in case.random)
    assert cases == load(PROMPT, PROMPT | {"subject": "Norway", "prompt": "{} likes", "old": "A", "new": "B"}).cases


BESIDE = {"subject": "Peru", "objects": ["Dina Boluarte"]}


def loaded(path: Path, *rows: dict[str, Any]) -> CaseSet:
    path.write_text(json.dumps(rows), "utf-8")
    return load_cases(str(path))


def test_a_row_brings_its_own_neighbours_in_place_of_bundled_ones(tmp_path):
    asked = {"subject": "Chad", "objects": "A|B", "prompt": "The ruler of {} is ____"}
    both = {"subject": "Mali", "objects": ["A", "B"], "question": "who rules Mali?"}
    row = MERZ | {"neighbours": [BESIDE, asked, both]}
    spain = {"subject": "Spain", "relation": "head of government", "old": "A", "new": "B", "neighbours": []}
    one, two = loaded(tmp_path / "t.json", row, spain).cases
    assert [(f.subject, f.prompt, f.objects, f.dist) for f in one.nearest] == [
        ("Peru", "The head of government of Peru is", ("Dina Boluarte",), None),
        ("Chad", "The ruler of Chad is", ("A|B",), None),
        ("Mali", "The head of government of Mali is", ("A", "B"), None),
    ]
    assert len(two.nearest) == 10 and len(one.random) > 5
    without = {"subject": "Italy", "relation": "patron of the tides", "old": "A", "new": "B", "prompt": "{}: it is"}
    (worded,) = loaded(tmp_path / "w.json", without | {"neighbours": [both]}).cases
    assert [fact.prompt for fact in worded.nearest] == ["who rules Mali?"]
    pl.DataFrame([row | {"neighbours": [BESIDE | {"prompt": None}]}]).write_parquet(tmp_path / "t.parquet")
    (table,) = load_cases(str(tmp_path / "t.parquet")).cases
    assert table.nearest == one.nearest[:1]


def test_neighbours_that_lack_something_are_refused_by_field(tmp_path):
    wanted = (
        "row 1, neighbours: each needs subject, objects (a name, or a list of the true ones), and prompt or question"
    )
    for given_ones, said in (
        ([{"subject": "Peru"}], "neighbours[0].objects is None; give at least one true object"),
        ([BESIDE, {"objects": ["A"]}], "neighbours[1].subject is None; give a text that is not empty"),
        (["Peru"], "neighbours[0] is 'Peru'; it must be an object with named fields"),
        ("Peru", "neighbours is 'Peru'; it must be a list"),
    ):  # fmt: skip
        with pytest.raises(DataError) as caught:
            loaded(tmp_path / "t.json", MERZ | {"neighbours": given_ones})
        assert wanted in str(caught.value) and said in str(caught.value)
    with pytest.raises(DataError, match="row 1: its neighbour 'Peru': 'patron of tides' is no relation that can be"):
        row = PROMPT | {"relation": "patron of tides", "prompt": "France is", "neighbours": [BESIDE]}
        loaded(tmp_path / "t.json", row)


def test_json_that_lacks_fields_is_told_which(tmp_path):
    for row, lacks in (({"subject": "a", "relation": "capital", "old": "b"}, "the column new"),
                       ({"subject": "a", "relation": "capital", "new": "b"}, "the column old"),
                       ({"subject": "a", "prompt": "a is", "old": "b"}, "the column new"),
                       ({"old": "a", "new": "b"}, "the columns subject, prompt or relation")):  # fmt: skip
        with pytest.raises(DataError, match=f"lacks {lacks}; one of updates needs subject, old, new, and prompt or"):
            loaded(tmp_path / "t.json", row)


# --- what is refused and left out ---


def test_rows_that_change_nothing_are_left_out_and_counted(load, tmp_path):
    same = [PROMPT | {"old": "LYON"}, PROMPT | {"aliases": "Paris|P"}]
    found = load(same[0], MERZ, {"subject": "Peru", "prompt": "{} is", "old": "a", "new": "b"})
    assert found.left_out == {"nothing to change": 1} and [case.case_id for case in found.cases] == ["1", "2"]
    (record,) = select_records(found.name, ["2"])
    assert record["subject"]["label"] == "Peru"
    all_same = "in each row (2) the new object is the old one or another name of it, nothing to change"
    assert all_same in refused(load, *same)
    limited = load(*same, MERZ, {"subject": "Peru", "prompt": "{} is", "old": "a", "new": "b"}, limit=1)
    assert limited.left_out == {"nothing to change": 2, "beyond the limit": 1}


def test_two_objects_for_one_prompt_are_refused(load):
    message = refused(load, PROMPT, MERZ, PROMPT | {"prompt": "the  capital of {} is", "new": "Nice"})
    assert "row 3, new: 'Nice' is to follow 'the capital of France is', but in row 1 'Lyon' is; keep one" in message
    assert len(load(PROMPT, PROMPT | {"new": "LYON", "old": "Metz"}).cases) == 2


def test_a_row_that_stands_there_twice_is_refused(load):
    """It would be made twice, and count twice."""
    assert "row 3: row 1 says the same; keep one of the two rows" in refused(
        load, PROMPT, MERZ, PROMPT | {"new": "LYON"}
    )


def test_all_that_is_wrong_is_said_at_once_by_kind(load):
    message = refused(
        load, PROMPT | {"prompt": "The capital is"}, MERZ | {"relation": "favourite colour"},
        MERZ | {"relation": "likes most"}, PROMPT | {"new": ""}, PROMPT | {"old": "Q90"}, PROMPT | {"new": "#REF!"},
        PROMPT | {"prompt": "{} and {}"}, PROMPT | {"prompt": "France is ____ now"}, MERZ | {"date": "soon"},
    )  # fmt: skip
    for said in (
        "row 1: 'The capital is' does not name its subject 'France'; write it there, or {} in its place",
        "row 2: 'favourite colour' is no relation that can be worded; give a column prompt",
        "likewise 1 more: 3 ('likes most')", "row 4, new: '' is empty", "row 5, old: 'Q90' is an id, not a name",
        "row 6, new: '#REF!' is the error of a formula", "row 7: '{} and {}' holds {} twice",
        "8 ('France is ____ now')",
        "row 9, date: 'soon' is not a date",
    ):  # fmt: skip
        assert said in message, said


def test_a_table_that_is_none_says_what_would_do(load, tmp_path):
    message = refused(load, {"subject": "a", "relation": "b", "object": "c", "start": "2001", "end": ""})
    assert "lacks the columns old, new; one of updates needs subject, old, new, and prompt or relation" in message
    assert re.search(r"of facts, check writes what is stale as stale\.csv", message)
    twice = {"subject": "a", "prompt": "a is", "alt": "x", "bisher": "y", "new": "z"}
    assert "the columns 'alt' and 'bisher' both mean old; keep one of them" in refused(load, twice)
    for header, says in ((",".join(STALE_COLUMNS), "no updates: nothing is stale"),
                         ("subject,prompt,old,new", "no updates: there are no rows; give one for each")):  # fmt: skip
        (tmp_path / "empty.csv").write_text(header + "\n")
        with pytest.raises(DataError, match=rf"empty\.csv: {says}$"):
            load_cases(str(tmp_path / "empty.csv"))
