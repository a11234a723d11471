"""The bundled updates, checked with interval logic of their own (`datetime`, as in ``test_mini``)."""

import csv
import json
from calendar import monthrange
from collections import Counter, defaultdict
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from anachron.data.bundled.mini_updates import MINI_UPDATES_SCHEMA, known_facts, mini_replacements, mini_updates
from anachron.data.likeness import Likeness, documents_of
from anachron.data.updates.columns import UPDATES_SCHEMA
from anachron.io.files import rows_fingerprint
from anachron.text.cloze import BLANK, bundled_cloze
from anachron.text.questions import fill_question, question_fault, relation_templates

GOLDEN = Path(__file__).parent.parent / "golden" / "mini_updates.json"
COLUMNS = {
    "updates.csv": ["relation_id", "subject", "old", "new", "old_start", "old_end", "date", "precision", "end", "note"],
    "standing.csv": ["relation_id", "subject", "object", "start", "end", "note"],
    "about.csv": ["subject", "relation_id", "object"],
}
FIRST, LAST = date(2015, 1, 1).toordinal(), date(2024, 12, 31).toordinal()
LENGTHS = {4: "year", 7: "month", 10: "day"}


def days_of(text: str) -> tuple[int, int]:
    """Numbers of the first and the last day inside a date."""
    year, month, day = ([int(part) for part in text.split("-")] + [0, 0])[:3]
    first = date(year, month or 1, day or 1)
    return first.toordinal(), date(year, month or 12, day or monthrange(year, month or 12)[1]).toordinal()


def read(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(files("anachron.data").joinpath(f"mini/{name}").read_text("utf-8").splitlines()))


UPDATES, STANDING, FACTS, ABOUT = (read(name) for name in ("updates.csv", "standing.csv", "facts.csv", "about.csv"))


@cache
def rows() -> list[dict[str, Any]]:
    return mini_updates().to_dicts()


def labels(row: dict) -> tuple[str, str]:
    return row["relation"]["id"], row["subject"]["label"]


@pytest.mark.parametrize("name", COLUMNS)
def test_the_files_are_plain(name: str) -> None:
    text = files("anachron.data").joinpath(f"mini/{name}").read_text("utf-8")
    assert next(csv.reader(text.splitlines())) == COLUMNS[name]
    assert all(len(fields) == len(COLUMNS[name]) for fields in csv.reader(text.splitlines()))
    for row in read(name):
        assert all(
            value == " ".join(value.split()) and (value or key in ("end", "old_end")) for key, value in row.items()
        ), row
    assert len({tuple(row.values()) for row in read(name)}) == len(read(name))


def test_there_are_enough_updates_of_enough_kinds() -> None:
    relations = Counter(row["relation_id"] for row in UPDATES)
    assert len(UPDATES) >= 120
    assert len(relations) >= 12
    assert sum(row["precision"] == "day" for row in UPDATES) > len(UPDATES) / 2


def test_the_change_lies_in_the_decade_between_the_two_values() -> None:
    for row in UPDATES:
        first, last = days_of(row["date"])
        assert first >= FIRST and last <= LAST, row
        assert row["precision"] == LENGTHS[len(row["date"])], row
        assert days_of(row["old_start"])[1] < first, row
        if row["end"]:
            assert last < days_of(row["end"])[0] <= LAST, row
        assert row["old"] != row["new"]
        if row["old_end"]:
            assert first >= days_of(row["old_end"])[0] > days_of(row["old_start"])[0], row


def test_there_is_one_value_of_a_subject_to_replace_and_one_to_keep() -> None:
    keys = [(row["relation_id"], row["subject"]) for row in [*UPDATES, *STANDING]]
    assert not [key for key, count in Counter(keys).items() if count > 1]
    known = [(fact.subject, fact.relation_id) for fact in known_facts()]
    assert len(set(known)) == len(known)
    assert len({row["subject"] for row in ABOUT}) == len({row["subject"] for row in [*UPDATES, *STANDING]})


def test_standing_facts_stand_in_the_decade() -> None:
    for row in STANDING:
        assert days_of(row["start"])[1] < days_of("2016-02")[0], row
        assert not row["end"] or days_of(row["end"])[0] > days_of("2017-06")[0], row


def test_successions_agree_with_mini() -> None:
    """Of one subject and relation, a value of ours is the same in both files, or holds at another time."""
    mini = defaultdict(list)
    for row in FACTS:
        mini[row["relation_id"], row["subject"]].append(row)
    ours = [(r["relation_id"], r["subject"], r["old"], r["old_start"], r["date"]) for r in UPDATES]
    ours += [(r["relation_id"], r["subject"], r["new"], r["date"], r["end"] or "9999") for r in UPDATES]
    ours += [(r["relation_id"], r["subject"], r["object"], r["start"], r["end"] or "9999") for r in STANDING]
    seen = 0
    for relation, subject, value, start, end in ours:
        for row in mini[relation, subject]:
            seen += 1
            if row["end"].startswith("-") or row["start"].startswith("-"):
                continue
            same = row["object"] == value
            apart = days_of(row["end"])[0] <= days_of(start)[1] or days_of(end)[0] <= days_of(row["start"])[1]
            meet = days_of(start)[0] <= days_of(row["start"])[1] and days_of(row["start"])[0] <= days_of(start)[1]
            assert apart or (same and meet), (relation, subject, value, row)
    assert seen > 100


def test_an_old_value_holds_as_long_as_mini_says() -> None:
    """Of every period that stands in both files: its start and its end are the same, gap before the new one or not."""
    periods = {(r["relation_id"], r["subject"], r["object"], r["start"][:4]): (r["start"], r["end"]) for r in FACTS}
    keys = [(r["relation_id"], r["subject"], r["old"], r["old_start"][:4]) for r in UPDATES]
    both = [
        (periods[key], (row["old_start"], row["old_end"] or row["date"]))
        for key, row in zip(keys, UPDATES, strict=True)
        if key in periods
    ]
    assert len(both) > 40
    assert not [pair for pair in both if pair[0] != pair[1]]


def test_an_old_value_of_mini_is_the_last_before_the_new_one() -> None:
    """A fact of mini that begins after the old value began and ends before the new one did would be left out."""
    for row in UPDATES:
        of_subject = [r for r in FACTS if (r["relation_id"], r["subject"]) == (row["relation_id"], row["subject"])]
        between = [
            r
            for r in of_subject
            if not r["start"].startswith("-")
            and days_of(row["old_start"])[1] < days_of(r["start"])[0]
            and days_of(r["end"])[1] < days_of(row["date"])[0]
        ]
        assert all(r["object"] == row["old"] for r in between), (row, between)


def test_the_table_says_what_the_file_says() -> None:
    assert mini_updates().schema == MINI_UPDATES_SCHEMA
    assert list(MINI_UPDATES_SCHEMA)[: len(UPDATES_SCHEMA)] == list(UPDATES_SCHEMA)
    assert [row["case_id"] for row in rows()] == list(range(len(UPDATES)))
    for row, line in zip(rows(), UPDATES, strict=True):
        new, old = row["objects"]
        assert labels(row) == (line["relation_id"], line["subject"])
        assert (new["label"], new["decision"], new["start"], new["end"] or "") == (
            (line["new"], "new", line["date"], line["end"])
        )
        assert (old["label"], old["decision"], old["start"], old["end"]) == (
            (line["old"], "obsolete", line["old_start"], line["old_end"] or line["date"])
        )
        assert (row["start"], row["end"] or "", row["precision"]) == (line["date"], line["end"], line["precision"])
        assert row["is_replace"] and row["scenario"] == "ReplaceObject"
        assert row["subject"]["id"] is row["subject_popularity"] is new["id"] is None
    assert [item.note for item in mini_replacements()] == [line["note"] for line in UPDATES]


def test_every_prompt_names_its_subject_and_ends_with_the_blank() -> None:
    for row in rows():
        prompts = [row["update_prompt"], *row["generalization_prompts"]]
        assert len(set(prompts)) == len(prompts) == 5
        assert len(row["past_generalization_prompts"]) == 4
        prompts += row["past_generalization_prompts"]
        asked = [(row["subject"]["label"], prompt) for prompt in prompts]
        around = [*row["neighborhood"], *row["random_neighborhood"]]
        asked += [(one["subject"]["label"], one["objects"][0]["prompt"]) for one in around]
        for subject, prompt in asked:
            assert subject in prompt and prompt.endswith(f" {BLANK}") and prompt.count(BLANK) == 1


def test_relations_have_templates_and_questions_fit() -> None:
    assert {row["relation_id"] for row in [*UPDATES, *STANDING]} <= set(bundled_cloze()) & set(relation_templates())
    assert {row["relation_id"] for row in ABOUT} <= set(bundled_cloze()) | {"P31"}
    bad = []
    for row in rows():
        assert len(row["question_templates"]) == 4
        for template in row["question_templates"]:
            for item in row["objects"]:
                subject = row["subject"]["label"]
                fault = question_fault(fill_question(template, subject), subject, item["label"])
                bad += [fault] if fault else []
    assert not bad


def test_neighbours_are_other_subjects_and_truly_hold_at_the_date() -> None:
    periods = {(r["relation_id"], r["subject"], r["old"]): (r["old_start"], r["date"]) for r in UPDATES}
    periods |= {(r["relation_id"], r["subject"], r["object"]): (r["start"], r["end"] or "9999") for r in STANDING}
    for r in FACTS:
        periods.setdefault((r["relation_id"], r["subject"], r["object"]), (r["start"], r["end"]))
    relations = {label: id for id, (label, _) in relation_templates().items()}
    assert len(relations) == len(relation_templates())
    for row in rows():
        relation, subject = labels(row)
        names = [one["subject"]["label"] for one in row["neighborhood"]]
        assert len(set(names)) == 10 and subject not in names
        first, last = days_of(row["start"])
        for one in row["neighborhood"]:
            start, end = periods[relation, one["subject"]["label"], one["objects"][0]["object"]["label"]]
            assert days_of(start)[1] <= first and last < days_of(end)[0], (labels(row), one)
        dists = [one["dist"] for one in row["neighborhood"]]
        assert dists == sorted(dists) and dists[0] > 0 and dists[-1] <= 1


def test_random_facts_are_of_other_subjects_and_vary() -> None:
    seen = set()
    for row in rows():
        drawn = [(one["subject"]["label"], one["objects"][0]["prompt"]) for one in row["random_neighborhood"]]
        assert len(set(drawn)) == 10 and row["subject"]["label"] not in {subject for subject, _ in drawn}
        assert {one["dist"] for one in row["random_neighborhood"]} == {None}
        seen |= set(drawn)
    assert len(seen) > 350


def test_likeness_is_that_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    facts = {(r["relation_id"], r["subject"], r["object"]) for r in [*STANDING, *FACTS]}
    facts = {(subject, relation, object) for relation, subject, object in facts}
    documents = documents_of(facts)
    assert documents["Federal Reserve"][("entity", "Federal Reserve")] == 1
    names = sorted(documents)
    texts = [list(documents[name].elements()) for name in names]
    matrix = TfidfVectorizer(analyzer=lambda tokens: tokens).fit_transform(texts)
    likeness = Likeness(facts)
    for name in ("Apple", "Vatican City", "Federal Reserve"):
        place = names.index(name)
        expected = 1 - (matrix @ matrix[place].T).toarray()[:, 0]
        assert [likeness.distance(name, other) for other in names] == pytest.approx(expected, abs=1e-9)


def test_the_data_set_is_the_golden_one() -> None:
    found = {"fingerprint": rows_fingerprint(mini_updates().iter_rows()), "updates": len(rows())}
    assert found == json.loads(GOLDEN.read_text())
