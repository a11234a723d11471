"""What mini knows of its entities: plain, in step with the facts, and balanced as promised."""

import csv
import re
from collections import Counter
from importlib.resources import files

from anachron.data.bundled.mini import mini_entities, mini_facts

COLUMNS = ["label", "id", "kind", "continent", "gender", "birth", "death"]
CONTINENTS = {"Africa", "Asia", "Europe", "International", "North America", "Oceania", "South America"}
KINDS = {"person", "place", "office", "organisation", "team", "band", "work"}
FACTS = [m.fact for m in mini_facts()]
PROBED = [m.fact for m in mini_facts() if m.probed]


def lines() -> list[dict[str, str]]:
    text = files("anachron.data").joinpath("mini/entities.csv").read_text("utf-8")
    assert next(csv.reader(text.splitlines())) == COLUMNS
    return list(csv.DictReader(text.splitlines()))


def person_answers() -> list[str]:
    """Genders of the persons that answer outside marriages, one a probed fact."""
    known = {row["label"]: row for row in lines() if row["kind"] == "person"}
    return [known[f.object]["gender"] for f in PROBED if f.relation_id != "P26" and f.object in known]


def test_the_file_is_plain() -> None:
    for row in lines():
        assert all(value is not None and value == " ".join(value.split()) for value in row.values()), row
        assert row["label"] and row["kind"] in KINDS and row["continent"] in CONTINENTS | {""}, row
        assert re.fullmatch(r"(Q[1-9]\d*)?", row["id"]), row
        assert row["gender"] in ({"woman", "man"} if row["kind"] == "person" else {""}), row
        for year in (row["birth"], row["death"]):
            assert re.fullmatch(r"(\d{4})?", year) and (not year or row["kind"] == "person"), row
        assert not row["death"] or int(row["birth"]) < int(row["death"]), row
    assert [(e.label, e.id or "", e.kind, e.continent or "") for e in mini_entities().values()] == [
        (row["label"], row["id"], row["kind"], row["continent"]) for row in lines()
    ]


def test_nothing_is_there_twice() -> None:
    labels = Counter(row["label"] for row in lines())
    ids = Counter(row["id"] for row in lines() if row["id"])
    assert labels.most_common(1)[0][1] == ids.most_common(1)[0][1] == 1


def test_every_subject_has_a_continent_and_every_entity_is_in_a_fact() -> None:
    known = mini_entities()
    assert not [fact.subject for fact in FACTS if known[fact.subject].continent is None]
    assert not set(known) - {label for fact in FACTS for label in (fact.subject, fact.object)}


def test_a_fact_lies_inside_the_lives_of_its_persons() -> None:
    seen = 0
    for fact in FACTS:
        for label in (fact.subject, fact.object):
            one = mini_entities().get(label)
            if one is not None and one.birth is not None:
                assert fact.period.start is not None and fact.period.end is not None
                assert int(one.birth) <= fact.period.start.year, (fact, one)
                assert one.death is None or fact.period.end.year <= int(one.death), (fact, one)
                seen += 1
    assert seen > 500


def test_the_balance_that_the_card_promises() -> None:
    assert len(PROBED) >= 1500
    known = mini_entities()
    subjects = {fact.subject for fact in PROBED}
    away = [s for s in subjects if known[s].continent in ("Africa", "Asia", "Oceania", "South America")]
    assert len(away) / len(subjects) >= 1 / 3
    facts = Counter(known[fact.subject].continent for fact in PROBED)
    assert facts["Africa"] >= 150 and facts["South America"] >= 100
    assert sum(facts[c] for c in ("Africa", "Asia", "Oceania", "South America")) / len(PROBED) >= 1 / 3
    genders = person_answers()
    assert len(genders) > 1000 and genders.count("woman") / len(genders) >= 0.2


def test_answers_of_relations_that_ask_for_persons_are_all_counted() -> None:
    """Persons answer these relations, so that no woman or man is left out of the count."""
    asked = {"P35", "P6", "P1308", "P1037", "P169", "P98", "P3975", "P286", "P634", "P488", "P371", "P26", "P527"}
    known = mini_entities()
    assert not [
        f for f in FACTS if f.relation_id in asked and (f.object not in known or known[f.object].kind != "person")
    ]
