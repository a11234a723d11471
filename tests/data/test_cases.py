"""Update data sets of every format, read into one kind of record, and what is refused and how."""

import copy
import json
import sys
import types
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.dataset import Dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.data.updates.cases import (
    BEYOND_LIMIT,
    DRAWN,
    MINI_UPDATES,
    CaseSet,
    EditCase,
    NeighbourFact,
    load_cases,
)
from anachron.io.files import write_json
from anachron.io.tables import write_table
from anachron.report.export.counterfact import edit_cases, export_counterfact
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import UpdateSettings, build_updates
from anachron.wikidata.updates.table import UPDATES_SCHEMA
from wikidata.updates.world import write_world

Json = dict[str, Any]


def entity(label: str, id: str | None = None) -> Json:
    return {"id": id, "label": label, "description": None}


def neighbour(subject: str, *asked: tuple[str, str], dist: float | None = 0.25, **more: Any) -> Json:
    objects = [{"object": entity(label), "prompt": f"{prompt} ____"} for label, prompt in asked]
    return {"subject": entity(subject), "dist": dist, "objects": objects} | more


def update(subject: str = "France", decisions: Json | None = None, near: list[Json] | None = None, **more: Any) -> Json:
    """A record as published."""
    decisions = {"Macron": "new", "Hollande": "obsolete"} if decisions is None else decisions
    return {
        "subject": entity(subject, "Q142"),
        "relation": entity("head of state", "P35"),
        "update_prompt": f"The head of state of {subject} is ____",
        "generalization_prompts": [f"{subject} is led by ____", f"The leader of {subject} is ____"],
        "subject_is_ph_new": False,
        "relation_is_temp_func": True,
        "is_replace": sorted(decisions.values()) == ["new", "obsolete"],
        "subject_popularity": 9.5,
        "objects": [entity(label) | {"decision": decision} for label, decision in decisions.items()],
        "neighborhood": [neighbour("Italy", ("Mattarella", "The head of state of Italy is"))] if near is None else near,
    } | more


def request(**more: Any) -> Json:
    """A record of CounterFact."""
    return {
        "case_id": 21,
        "requested_rewrite": {
            "prompt": "The mother tongue of {} is",
            "relation_id": "P103",
            "target_new": {"str": "English", "id": "Q1860"},
            "target_true": {"str": "French", "id": "Q150"},
            "subject": "Danielle Darrieux",
        },
        "paraphrase_prompts": ["Shayna does this. Danielle Darrieux, a native "],
        "neighborhood_prompts": ["Jean Gabin spoke the language", "Louis Pasteur is a native speaker of"],
        "attribute_prompts": ["J.R.R. Tolkien is a native speaker of"],
        "generation_prompts": ["Danielle Darrieux was born in"],
    } | more


def question(**more: Any) -> Json:
    """A record of zsRE."""
    return {
        "subject": "Watts Humphrey",
        "src": "What university did Watts Humphrey attend?",
        "pred": "Trinity College",
        "rephrase": "What university did Watts Humphrey take part in?",
        "alt": "University of Michigan",
        "answers": ["Illinois Institute of Technology", "IIT"],
        "loc": "nq question: who played desmond doss father in hacksaw ridge",
        "loc_ans": "Hugo Weaving",
        "cond": "Trinity College >> University of Michigan || What university did Watts Humphrey attend?",
    } | more


def flat(**more: Any) -> Json:
    """A record of CounterFact as EasyEdit has it."""
    return {
        "case_id": 3087,
        "prompt": "David Robinson professionally plays the sport",
        "target_new": "baseball",
        "subject": "David Robinson",
        "ground_truth": "basketball",
        "rephrase_prompt": "David Robinson's greatest weakness is",
        "locality_prompt": "Shaquille O'Neal plays",
        "locality_ground_truth": "basketball",
    } | more


MAKERS = {"wikifactdiff": update, "counterfact": request, "zsre": question, "flat": flat}


@pytest.fixture
def load(tmp_path: Path):
    def read(*records: Any, **options: Any) -> CaseSet:
        write_json(tmp_path / "set.json", list(records))
        return load_cases(str(tmp_path / "set.json"), **options)

    return read


def refused(load: Any, *records: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(*records, **options)
    message = str(caught.value)
    assert "set.json" in message and "\n" not in message
    return message


# --- each format ---


def test_wikifactdiff_as_published(load):
    near = [
        neighbour("Italy", ("Mattarella", "The head of state of Italy is"), ("Meloni", "Italy is governed by")),
        neighbour("Andorra", ("Macron", "Andorra is led by"), ("Vives", "Andorra is led by"), dist=0),
    ]
    found = load(update(near=near), update("Sylvania", near=near, subject_popularity=None))
    assert (found.format, found.left_out) == ("wikifactdiff", {})
    facts = (
        NeighbourFact("The head of state of Italy is", ("Mattarella",), 0.25, None, "Italy"),
        NeighbourFact("Italy is governed by", ("Meloni",), 0.25, None, "Italy"),
        NeighbourFact("Andorra is led by", ("Macron", "Vives"), 0.0, None, "Andorra"),
    )
    assert {fact.dist for fact in found.cases[0].random} == {None}
    assert {fact.prompt for fact in found.cases[0].random} == {fact.prompt for fact in facts}
    assert found.cases[0] == EditCase(
        case_id="0",
        subject="France",
        prompt="The head of state of France is",
        new="Macron",
        old="Hollande",
        generalization=("France is led by", "The leader of France is"),
        nearest=facts,
        random=found.cases[0].random,
        relation="P35",
        objects=(("Macron", "new"), ("Hollande", "obsolete")),
        popularity=9.5,
        relation_label="head of state",
    )
    assert (found.cases[1].case_id, found.cases[1].popularity) == ("1", None)


def test_wikifactdiff_with_our_columns(load):
    macron = entity("Macron") | {"decision": "new", "start": "2017-05-14", "end": None}
    hollande = entity("Hollande") | {"decision": "obsolete", "start": "2012-05", "end": "2017-05-14"}
    near = [neighbour("Italy", ("Mattarella", "Italy is led by"), popularity=3)]
    drawn = [neighbour("Peru", ("Lima", "The capital of Peru is"), dist=None, popularity=None)]
    record = update(
        near=near, objects=[hollande, macron], random_neighborhood=drawn, case_id=7, scenario="ReplaceObject"
    )
    (case,) = load(record).cases
    assert (case.case_id, case.new, case.old) == ("7", "Macron", "Hollande")
    assert case.nearest[0].popularity == 3.0
    assert case.random == (NeighbourFact("The capital of Peru is", ("Lima",), None, None, "Peru"),)
    assert (case.start, case.end, case.precision, case.old_start) == ("2017-05-14", None, "day", "2012-05")
    assert case.old_end == "2017-05-14"
    dated = {"start": "2017-05", "end": "2027", "precision": "month", "question_templates": ["who led [SUBJ]?"]}
    (case,) = load(record | dated).cases
    assert (case.start, case.end, case.precision) == ("2017-05", "2027", "month")
    assert case.question_templates == ("who led [SUBJ]?",) and case.past_generalization == ()
    past = ["France was led by ____", "The leader of France was ____"]
    (told,) = load(record | dated | {"past_generalization_prompts": past}).cases
    assert told.past_generalization == ("France was led by", "The leader of France was")
    prints = {load(record | dated | more).fingerprint() for more in ({}, {"past_generalization_prompts": []})}
    assert len(prints) == 1 and load(record | dated | {"past_generalization_prompts": past}).fingerprint() not in prints


def test_objects_may_have_other_names(load):
    macron = entity("Macron") | {"decision": "new", "aliases": ["Emmanuel Macron", "Macron", "Emmanuel Macron"]}
    hollande = entity("Hollande") | {"decision": "obsolete", "aliases": None}
    (case,) = load(update(objects=[macron, hollande])).cases
    assert case.aliases == (("Macron", "Emmanuel Macron"),)
    message = refused(load, update(objects=[macron | {"aliases": [1]}, hollande]))
    assert "objects[0].aliases[0] is 1; it must be a text" in message


def test_other_names_are_part_of_a_set_and_none_change_nothing(load):
    macron, hollande = (entity(o) | {"decision": d} for o, d in (("Macron", "new"), ("Hollande", "obsolete")))
    plain = load(update(objects=[macron, hollande]))
    assert load(update(objects=[macron | {"aliases": []}, hollande])).fingerprint() == plain.fingerprint()
    assert load(update(objects=[macron | {"aliases": ["M."]}, hollande])).fingerprint() != plain.fingerprint()


def test_the_name_of_a_relation_is_no_part_of_a_set(load):
    named = load(update())
    plain = load(update(relation={"id": "P35"}))
    assert plain.fingerprint() == named.fingerprint()
    assert (named.cases[0].relation_label, plain.cases[0].relation_label) == ("head of state", None)
    (case,) = load(update(relation={"label": "head of state"})).cases
    assert case.relation == case.relation_label == "head of state"


def test_a_count_holds_from_its_point_in_time(load):
    objects = [
        entity("10") | {"decision": "new", "point_in_time": "2022"},
        entity("9") | {"decision": "obsolete", "point_in_time": "2020-01"},
    ]
    (case,) = load(update(objects=objects)).cases
    assert (case.start, case.precision, case.old_start) == ("2022", "year", "2020-01")


def test_the_end_of_an_old_object_is_where_another_took_its_place(load):
    def replaced(old, begun, new, start, ended=None, subject="the United Kingdom", relation="P6"):
        objects = [entity(new) | {"decision": "new", "start": start},
                   entity(old) | {"decision": "obsolete", "start": begun, "end": ended}]  # fmt: skip
        named = {"subject": entity(subject), "relation": {"id": relation}, "update_prompt": f"{subject} is led by ____"}
        return update(objects=objects) | named

    sunak = ("Rishi Sunak", "2022-10-25")
    johnson, truss = ("Boris Johnson", "2019-07-24"), ("Liz Truss", "2022-09-06")
    whole = load(replaced(*johnson, *sunak), replaced(*johnson, *truss), replaced(*truss, *sunak)).cases
    assert [case.old_end for case in whole] == ["2022-09-06", None, None]
    given = load(replaced(*johnson, *sunak, ended="2022-08"), replaced(*johnson, *truss)).cases
    assert given[0].old_end == "2022-08"  # what the file says comes first
    known_as_old = load(replaced(*johnson, *sunak), replaced(*truss, *sunak)).cases
    assert known_as_old[0].old_end == "2022-09-06"
    others = [replaced(*johnson, *truss, subject="Scotland"), replaced(*johnson, *truss, relation="P35")]
    assert [case.old_end for case in load(replaced(*johnson, *sunak), *others).cases] == [None] * 3
    vague = load(replaced("Boris Johnson", "2019", *sunak), replaced("Liz Truss", "2019", *sunak)).cases
    assert vague[0].old_end is None  # the same year: which of them was first is not known
    alone = load(replaced(*johnson, *sunak), replaced(*sunak, *johnson)).cases
    assert [case.old_end for case in alone] == [None, None]


def test_counterfact(load):
    found = load(request())
    assert (found.format, found.left_out) == ("counterfact", {})
    assert found.cases == (
        EditCase(
            case_id="21",
            subject="Danielle Darrieux",
            prompt="The mother tongue of {} is",
            new="English",
            old="French",
            generalization=("Shayna does this. Danielle Darrieux, a native",),
            nearest=(
                NeighbourFact("Jean Gabin spoke the language", ("French",), None, None, None),
                NeighbourFact("Louis Pasteur is a native speaker of", ("French",), None, None, None),
            ),
            relation="P103",
            objects=(("English", "new"), ("French", "obsolete")),
        ),
    )
    assert found.cases[0].text == "The mother tongue of Danielle Darrieux is"


def test_zsre(load):
    found = load(question(), question(answers=[], alt="", loc_ans=["Hugo Weaving", "Weaving"]))
    prompt = "nq question: who played desmond doss father in hacksaw ridge?"
    assert found.format == "zsre"
    assert found.cases[0] == EditCase(
        case_id="0",
        subject="Watts Humphrey",
        prompt="What university did Watts Humphrey attend?",
        new="University of Michigan",
        old="Illinois Institute of Technology",
        generalization=("What university did Watts Humphrey take part in?",),
        nearest=(NeighbourFact(prompt, ("Hugo Weaving",), None, None, None),),
        objects=(("University of Michigan", "new"), ("Illinois Institute of Technology", "obsolete")),
        aliases=(("Illinois Institute of Technology", "IIT"),),
    )
    other = found.cases[1]
    assert (other.case_id, other.new, other.old, other.objects) == ("1", "", None, ())
    assert other.nearest == (NeighbourFact(prompt, ("Hugo Weaving", "Weaving"), None, None, None),)


def test_flat_records_of_counterfact(load):
    found = load(flat())
    assert found.format == "counterfact"
    assert found.cases == (
        EditCase(
            case_id="3087",
            subject="David Robinson",
            prompt="David Robinson professionally plays the sport",
            new="baseball",
            old="basketball",
            generalization=("David Robinson's greatest weakness is",),
            nearest=(NeighbourFact("Shaquille O'Neal plays", ("basketball",), None, None, None),),
            objects=(("baseball", "new"), ("basketball", "obsolete")),
        ),
    )


def test_flat_records_of_zsre_say_what_the_original_says(load):
    original = question()
    names = {
        "subject": "subject", "src": "prompt", "alt": "target_new", "answers": "ground_truth",
        "rephrase": "rephrase_prompt", "loc": "locality_prompt", "loc_ans": "locality_ground_truth",
    }  # fmt: skip
    renamed = {new: original[old] for old, new in names.items()}
    found = load(renamed, renamed | {"locality_prompt": None, "locality_ground_truth": None})
    assert found.format == "zsre"
    assert found.cases[0] == load(original).cases[0]
    assert found.cases[1].nearest == ()


def test_flat_records_with_the_least_and_with_lists(load):
    least = {"prompt": "The capital of Peru is", "subject": "Peru", "target_new": "Cusco"}
    several = least | {
        "ground_truth": ["Lima", "Ciudad de los Reyes"], "rephrase_prompt": ["Peru's capital,", "Peru is run from"],
        "locality_prompt": ["The capital of Chile is", "Chile lies in"],
        "locality_ground_truth": ["Santiago", "South America"],
    }  # fmt: skip
    first, second = load(least, several).cases
    assert (first.old, first.generalization, first.nearest) == (None, (), ())
    assert (second.old, len(second.generalization)) == ("Lima", 2)
    assert (first.aliases, second.aliases) == ((), (("Lima", "Ciudad de los Reyes"),))
    assert [fact.objects for fact in second.nearest] == [("Santiago",), ("South America",)]


def test_a_flat_record_in_knowedits_words_is_put_in_other_words_too(load):
    least = {"prompt": "The capital of Peru is", "subject": "Peru", "target_new": "Cusco"}
    one, several, both = load(
        least | {"rephrase": "Peru's capital,"},
        least | {"rephrase": ["Peru's capital,", "Peru is run from"]},
        least | {"rephrase_prompt": "Peru's capital,", "rephrase": ["Peru's capital,", "Peru is run from"]},
    ).cases
    assert one.generalization == ("Peru's capital,",)
    assert several.generalization == both.generalization == ("Peru's capital,", "Peru is run from")


# --- kept although they cannot be updates ---


@pytest.mark.parametrize(
    ("record", "new"),
    [
        (update(update_prompt="The president is ____"), "Macron"),
        (update(decisions={"Hollande": "obsolete"}, is_replace=True), None),
        (update(decisions={"": "new", "Hollande": "obsolete"}), ""),
        (update(objects=[], scenario="ReplaceObject"), None),
        (request(requested_rewrite=request()["requested_rewrite"] | {"target_new": None}), None),
        (request(requested_rewrite=request()["requested_rewrite"] | {"target_new": {"str": " "}}), ""),
        (question(subject="Somebody"), "University of Michigan"),
        (question(alt=None), None),
        (flat(target_new=""), ""),
    ],
)
def test_what_cannot_be_an_update_is_kept_for_the_judge_to_say_so(load, record, new):
    (case,) = load(record).cases
    assert case.new == new


# --- scenarios, limit ---

SCENARIOS = {
    "ReplaceObject": {"A": "new", "B": "obsolete"},
    "Archive": {"A": "obsolete"},
    "AddObject": {"A": "new", "B": "static"},
    "AddRelation": {"A": "new"},
    "Other": {"A": "new", "B": "obsolete", "C": "static"},
}


def test_other_scenarios_are_counted_or_kept(load):
    records = [update(name, decisions) for name, decisions in SCENARIOS.items()]
    records += [update("AddEntity", {"A": "new"}, subject_is_ph_new=True), update("again", {"A": "obsolete"})]
    found = load(*records)
    assert [case.subject for case in found.cases] == ["ReplaceObject"]
    assert found.left_out == {
        "scenario Archive": 2, "scenario AddObject": 1, "scenario AddRelation": 1, "scenario Other": 1,
        "scenario AddEntity": 1,
    }  # fmt: skip
    every = load(*records, scenario=None)
    assert [case.scenario for case in every.cases] == [*SCENARIOS, "AddEntity", "Archive"]
    assert every.cases[1].new is None and every.cases[3].old is None and every.left_out == {}
    assert len(load(*records, scenario="Archive").cases) == 2
    with pytest.raises(DataError, match=r"no update of the scenario Archive, only ReplaceObject 1; choose"):
        load(request(), scenario="Archive")
    with pytest.raises(DataError, match=r"no update of the scenario ReplaceObject, only Archive 1, Other 1; choose"):
        load(records[1], records[4])


def test_the_latest_change_is_that_of_the_whole_file(load):
    """Of other scenarios and beyond the limit too; of a month its last day counts."""
    added = update("added", {"A": "new", "B": "static"})
    added["objects"][0]["start"] = "2023-05"
    starts = ({"start": "2021"}, {"start": "2023-05-30"}, {"start": "2020-01-01"}, {})
    records = [*(update(case_id=n, **start) for n, start in enumerate(starts)), added | {"case_id": 9}]
    for options in ({}, {"limit": 1}, {"scenario": None}, {"scenario": "AddObject"}):
        assert load(*records, **options).latest_change == "2023-05"
    assert load(*records[:2], limit=1).latest_change == "2023-05-30"
    assert load(update()).latest_change is None and load(question()).latest_change is None
    assert load(request(date_of_change="2019-02"), request(case_id=1), limit=1).latest_change == "2019-02"


def test_the_first_so_many(load):
    found = load(*(request(case_id=n) for n in range(5)), limit=2)
    assert [case.case_id for case in found.cases] == ["0", "1"]
    assert found.left_out == {BEYOND_LIMIT: 3}
    with pytest.raises(ConfigError, match="limit 0"):
        load(request(), limit=0)
    with pytest.raises(ConfigError, match="unknown scenario 'Replace'; use one of ReplaceObject"):
        load(request(), scenario="Replace")


# --- random facts ---


def many(cases: int = 30, of_each: int = 4, subjects: int = 17) -> list[Json]:
    return [
        update(f"land {n}", near=[
            neighbour(f"land {(n * of_each + i) % subjects}", ("X", f"land {(n * of_each + i) % subjects} has"),
                      dist=0.01 * (n + 1))
            for i in range(of_each)
        ])
        for n in range(cases)
    ]  # fmt: skip


def test_random_facts_are_drawn_from_the_nearest_of_all(load):
    found = load(*many())
    union = {(fact.prompt, fact.objects) for case in found.cases for fact in case.nearest}
    assert len(union) == 17
    for case in found.cases:
        drawn = [(fact.prompt, fact.objects) for fact in case.random]
        assert len(drawn) == len(set(drawn)) == DRAWN and set(drawn) <= union
        assert all(fact.dist is None and fact.subject != case.subject for fact in case.random)
    seen = {fact.prompt for case in found.cases for fact in case.random}
    assert len(seen) == 17


def test_draws_depend_on_the_seed_and_not_on_the_limit(load):
    found = load(*many())
    assert load(*many()) == found
    assert load(*many(), limit=3).cases == found.cases[:3]
    assert load(*many(), seed=1).cases != found.cases


def test_other_scenarios_give_no_random_facts(load):
    away = update("away", {"A": "obsolete"}, near=[neighbour("Peru", ("Lima", "Peru has"))])
    assert {fact.subject for case in load(update(), away).cases for fact in case.random} == {"Italy"}


@pytest.mark.full
def test_every_fact_is_drawn_with_the_same_chance(load):
    counts: dict[str | None, int] = {}
    record = update("none", near=[neighbour(f"land {n}", ("X", f"land {n} has")) for n in range(20)])
    for seed in range(400):
        (case,) = load(record, seed=seed).cases
        for fact in case.random:
            counts[fact.subject] = counts.get(fact.subject, 0) + 1
    assert len(counts) == 20 and all(140 < count < 260 for count in counts.values())  # 200 each, four deviations of 10


def test_few_facts_give_few(load):
    first, second = load(update("Italy"), update("Peru")).cases
    assert first.random == () and len(second.random) == 1


def test_random_facts_that_the_file_brings_are_kept(load):
    own = [neighbour("Peru", ("Lima", "The capital of Peru is"), dist=None)]
    first, second = load(update(random_neighborhood=own), update("Spain", random_neighborhood=[])).cases
    assert len(first.random) == 1 and second.random == ()
    message = refused(load, update(random_neighborhood=own), update("Spain"))
    assert "record 2 (case_id 1): random_neighborhood is None; give every update its random facts" in message


# --- files ---


@pytest.mark.parametrize("kind", MAKERS)
def test_every_file_format_says_the_same(tmp_path, kind):
    records = [MAKERS[kind](case_id=n) for n in (3, 5)]
    write_json(tmp_path / "set.json", records)
    lines = "\n\n".join(json.dumps(record) for record in records)
    (tmp_path / "set.jsonl").write_text(lines + "\n", "utf-8")
    (tmp_path / "set.ndjson").write_text(lines, "utf-8")
    pl.DataFrame(records, infer_schema_length=None).write_parquet(tmp_path / "set.parquet")
    found = [load_cases(str(tmp_path / f"set.{ending}")) for ending in ("json", "jsonl", "ndjson", "parquet")]
    assert len({one.fingerprint() for one in found}) == 1
    assert {one.cases for one in found} == {found[0].cases} and len(found[0].cases) == 2
    assert load_cases(str(tmp_path / "set.json"), limit=1).fingerprint() != found[0].fingerprint()


LABELS = st.text(st.characters(codec="utf-8", exclude_characters="{}_"), min_size=1).filter(lambda t: t.strip())
RECORDS = st.builds(
    lambda subject, new, old, dist, views: update(
        subject, near=[neighbour(old, (new, f"{old} has"), dist=dist)], subject_popularity=views,
        objects=[entity(new) | {"decision": "new"}, entity(old) | {"decision": "obsolete"}],
    ),
    LABELS, LABELS, LABELS, st.none() | st.floats(0, 2), st.none() | st.floats(0, 1e9) | st.integers(0, 10**9),
)  # fmt: skip


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(RECORDS, min_size=1, max_size=4))
def test_any_labels_and_numbers_come_back_from_any_file(tmp_path, records):
    for number, record in enumerate(records):
        popularity = record["subject_popularity"]
        record |= {"case_id": number, "subject_popularity": None if popularity is None else float(popularity)}
    write_json(tmp_path / "set.json", records)
    write_table(tmp_path / "set.parquet", pl.DataFrame(records, infer_schema_length=None))
    write_table(tmp_path / "set.jsonl", pl.DataFrame(records, infer_schema_length=None))
    found = [load_cases(str(tmp_path / f"set.{ending}")) for ending in ("json", "parquet", "jsonl")]
    assert len({one.fingerprint() for one in found}) == 1
    for record, case in zip(records, found[0].cases, strict=True):
        assert case.new == record["objects"][0]["label"].strip()
        assert case.nearest[0].dist == record["neighborhood"][0]["dist"]


@pytest.mark.full
def test_what_we_build_is_read(tmp_path):
    world = write_world(tmp_path / "world", buckets=3)
    for ending in ("parquet", "jsonl"):
        build_updates(*map(open_snapshot, world), tmp_path / f"updates.{ending}", UpdateSettings())
    table = pl.read_parquet(tmp_path / "updates.parquet")
    assert dict(table.schema) == UPDATES_SCHEMA
    found = load_cases(str(tmp_path / "updates.parquet"), scenario=None)
    assert len(found.cases) == table.height
    for case, row in zip(found.cases, table.iter_rows(named=True), strict=True):
        assert (case.case_id, case.scenario, case.subject) == (
            str(row["case_id"]),
            row["scenario"],
            row["subject"]["label"],
        )
        assert f"{case.prompt} ____" == row["update_prompt"]
        assert [label for label, _ in case.objects] == [o["label"] for o in row["objects"]]
        for facts, column in ((case.nearest, "neighborhood"), (case.random, "random_neighborhood")):
            assert [fact.dist for fact in facts] == [n["dist"] for n in row[column]]
            assert [f"{fact.prompt} ____" for fact in facts] == [n["objects"][0]["prompt"] for n in row[column]]
    assert load_cases(str(tmp_path / "updates.jsonl"), scenario=None).fingerprint() == found.fingerprint()
    replaced = load_cases(str(tmp_path / "updates.parquet"))
    assert sum(table["is_replace"]) == len(replaced.cases) > 0
    assert sum(replaced.left_out.values()) == table.height - len(replaced.cases)
    assert all(case.new and case.old and case.subject in case.prompt for case in replaced.cases)
    assert any(case.start and case.nearest for case in replaced.cases)
    # A published file is one without our columns.
    ours = ["random_neighborhood", "scenario"]
    write_table(tmp_path / "published.parquet", table.drop(ours))
    published = load_cases(str(tmp_path / "published.parquet"), scenario=None)
    assert [case.scenario for case in published.cases] == [case.scenario for case in found.cases]


def test_what_we_export_is_read(tmp_path):
    def fact(subject, object, start, end):
        return FactWithQuestion(
            Fact(subject, "leader", object, Period(start, end), None, "P6", None), f"who led {subject}?"
        )

    facts = [fact("S", "Old", "2001-02-03", "2005-06-07"), fact("S", "New", "2005-06-07", "2010"),
             fact("T", "Old", "1990", "1995")]  # fmt: skip
    table = make_statements(facts)
    export_counterfact(Dataset("facts", table, "released"), tmp_path / "cases.json")
    found = load_cases(str(tmp_path / "cases.json"))
    assert (found.format, len(found.cases)) == ("counterfact", len(edit_cases(table)[0]))
    case = found.cases[0]
    assert (case.subject, case.prompt, case.new, case.old, case.relation) == ("S", "who led {}?", "New", "Old", "P6")
    assert case.relation_label == "leader"
    assert case.nearest == (NeighbourFact("who led T?", ("Old",), None, None, None),)
    assert (case.start, case.end, case.precision, case.old_start) == ("2005-06-07", "2010", "day", "2001-02-03")
    assert case.old_end == "2005-06-07"


def test_a_published_file_of_counterfact_cases():
    shared = [p / "shared" / "data" / "editing" for p in Path(__file__).resolve().parents]
    folder = next((p for p in shared if p.is_dir()), None)
    if folder is None:
        pytest.skip("no folder shared/data/editing beside the checkout")
    found = load_cases(str(folder / "counterfact-edit-1k.json"))
    assert (found.format, len(found.cases), found.left_out) == ("counterfact", 1000, {})
    for case in found.cases:
        assert case.subject in case.prompt and case.new and case.old and case.new != case.old
        assert len(case.generalization) == 1 and case.random == ()
        assert [fact.objects for fact in case.nearest] == [(case.old,)]
    assert len({case.case_id for case in found.cases}) == 1000


def test_the_bundled_set(monkeypatch):
    dated = {"start": "2017-05", "end": None, "precision": "month", "question_templates": ["who led [SUBJ]?"]}
    table = pl.DataFrame([update(case_id=1, random_neighborhood=[]) | dated])
    module = types.ModuleType("mini_updates")
    module.mini_updates = lambda: table  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "anachron.data.bundled.mini_updates", module)
    found = load_cases(MINI_UPDATES)
    assert (found.name, found.format, found.cases[0].precision) == (MINI_UPDATES, "wikifactdiff", "month")
    with pytest.raises(ConfigError, match="mini-updates is not a hub data set"):
        load_cases(MINI_UPDATES, split="train")


def test_a_data_set_of_the_hub_library(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for split, records in (("train", [update(), update("Peru")]), ("test", [update("Chile")])):
        write_table(tmp_path / "folder" / f"{split}.parquet", pl.DataFrame(records))
    assert [c.subject for c in load_cases(str(tmp_path / "folder"), split="train").cases] == ["France", "Peru"]
    with pytest.raises(ConfigError, match="choose one with --split"):
        load_cases(str(tmp_path / "folder"))
    with pytest.raises(DataError, match=r"a bundled data set \(mini-updates\), and the hub says"):
        load_cases("no-such-owner/no-such-set")


def test_without_the_hub_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"\(mini-updates\).*pip install 'datasets"):
        load_cases("Orange/WikiFactDiff")


# --- what is refused ---


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("set.json", "[]", "has no records"),
        ("set.jsonl", "\n", "has no records"),
        ("set.json", '{"data": []}', "holds one dict, not a list of records"),
        ("set.json", "[[1]]", r"set\.json, record 1: the record is \[1\]; it must be an object"),
        ("set.json", "[{", "cannot read .* as JSON"),
        ("set.jsonl", '{"a": 1}\n{', r"line 2: not valid JSON|fields a, which is not a known kind of update"),
        ("set.jsonl", "[1]", r"set\.jsonl, line 1: expected an object, found list"),
        ("set.parquet", "PAR1", "cannot read"),
        ("set.csv", "a,b", r"the table lacks the columns subject, old, new, prompt or relation"),
        ("set", "a,b", r"cannot be read from this; use \.json"),
    ],
)
def test_files_that_hold_no_updates(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        load_cases(str(tmp_path / name))
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    for ending in ("json", "jsonl", "parquet"):
        with pytest.raises(DataError, match=r"[Nn]o such file"):
            load_cases(str(tmp_path / f"none.{ending}"))
    (tmp_path / "set.json").write_text("[]")
    with pytest.raises(ConfigError, match="is not a hub data set, so it has no split"):
        load_cases(str(tmp_path / "set.json"), split="train")


def without(record: Json, *names: str) -> Json:
    return {name: value for name, value in record.items() if name not in names}


def changed(record: Json, value: Any, *path: str | int) -> Json:
    record = copy.deepcopy(record)
    inner: Any = record
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return record


BAD = [
    ({"a": 1, "b": 2}, "record 2 has the fields a, b, which is not a known kind of update; give those of one"),
    (request() | flat(), "has fields of CounterFact (requested_rewrite) and of EasyEdit's flat format (prompt); keep"),
    (without(request(), "neighborhood_prompts"), "requested_rewrite of CounterFact but lacks neighborhood_prompts"),
    (without(update(), "objects", "relation"), "the field update_prompt of WikiFactDiff but lacks relation, objects; "),
    (without(question(), "alt"), "record 2 has the field src of zsRE but lacks alt; give them all"),
    (without(flat(), "subject"), "the field prompt of EasyEdit's flat format but lacks subject"),
    (changed(update(), "The ____ of France", "update_prompt"), "'The ____ of France'; a prompt must end in"),
    (changed(update(), "France is led by", "update_prompt"), "'France is led by'; a prompt must end in its one blank"),
    (changed(update(), "A ____ is ____", "generalization_prompts", 1), "generalization_prompts[1] is 'A ____ is ____'"),
    (changed(update(), " ____", "generalization_prompts", 0), "generalization_prompts[0] is ''; give a text"),
    (update(past_generalization_prompts=["It was ____"]), "one past wording for each of generalization_prompts"),
    (update(past_generalization_prompts=["It was", "It ____"]), "past_generalization_prompts[0] is 'It was'; a prompt"),
    (update(question_templates=["who led it?"]), "the question 'who led it?' must hold [SUBJ] exactly once and end"),
    (update(question_templates=["who led [SUBJ]"]), "the question 'who led [SUBJ]' must hold [SUBJ] exactly once"),
    (changed(update(), "{} is ____", "update_prompt"), "stands for the subject in CounterFact's"),
    (changed(update(), "gone", "objects", 1, "decision"), "objects[1].decision is 'gone'; it must be one of new, "),
    (changed(update(), 5, "objects", 1, "label"), "objects[1].label is 5; it must be a text"),
    (changed(update(), "", "subject", "label"), "subject.label is ''; give a text that is not empty"),
    (changed(update(), "France", "subject"), "subject is 'France'; it must be an object with named fields"),
    (changed(update(), {}, "objects"), "objects is {}; it must be a list"),
    (changed(update(), "near", "neighborhood", 0, "dist"), "neighborhood[0].dist is 'near'; it must be a finite"),
    (changed(update(), float("inf"), "subject_popularity"), "subject_popularity is inf; it must be a finite number"),
    (changed(update(), True, "subject_popularity"), "subject_popularity is True; it must be a finite number"),
    (changed(update(), None, "neighborhood", 0, "objects", 0, "object", "label"), ".objects[0].object.label is None"),
    (changed(update(), "yes", "is_replace"), "is_replace is 'yes'; it must be true or false"),
    (update(scenario="Replace"), "scenario is 'Replace'; it must be one of ReplaceObject, Archive"),
    (update(start="2017-13"), "start: '2017-13' is not a date"),
    (update(start="2017", precision="decade"), "precision is 'decade'; it must be one of year, month, day"),
    (changed(request(), [], "requested_rewrite"), "requested_rewrite is []; it must be an object"),
    (changed(request(), "Her mother tongue is", "requested_rewrite", "prompt"), "it must hold {} once, where the"),
    (changed(request(), "{} and {} is", "requested_rewrite", "prompt"), "it must hold {} once, where the"),
    (changed(request(), None, "requested_rewrite", "target_true"), "its facts have the object requested"),
    (changed(request(), [""], "paraphrase_prompts"), "paraphrase_prompts[0] is ''; give a text"),
    (question(loc_ans=""), "loc_ans is ''; it must hold one true object for each of loc, of which there are 1"),
    (flat(locality_prompt=None), "it must hold one true object for each of locality_prompt, of which there are 0"),
    (flat(locality_prompt=["a", "b"], locality_ground_truth=["c"]), "of which there are 2"),
    (flat(prompt="{} plays"), "stands for the subject in CounterFact's requested_rewrite only; write the subject"),
    (flat(case_id=1.5), "case_id is 1.5; it must be a whole number or a text"),
    (flat(case_id=True), "case_id is True; it must be a whole number or a text"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "says"), BAD, ids=[says[:40] for _, says in BAD])
def test_a_broken_record_is_named_with_the_rule(load, bad, says):
    make = next(MAKERS[kind] for kind, mark in (
        ("wikifactdiff", "update_prompt"), ("counterfact", "requested_rewrite"), ("zsre", "src"), ("flat", "subject"),
        ("flat", "prompt"), ("flat", "a"),
    ) if mark in bad)  # fmt: skip
    good = make()
    if bad.get("case_id") is None:
        good.pop("case_id", None)
    elif good.get("case_id") == bad["case_id"]:
        good["case_id"] = 1
    message = refused(load, good, bad)
    assert says in message
    assert "record 2" in message


def test_a_file_holds_one_format(load):
    message = refused(load, without(request(), "case_id"), question())
    assert (
        "record 2 is zsRE (src), the first record CounterFact (requested_rewrite); a file holds one format" in message
    )
    nq = {"locality_prompt": "nq question: who", "case_id": 1}
    assert "record 2 (case_id 1): locality_prompt is 'nq question: who'; other" in refused(load, flat(), flat(**nq))


def test_case_ids_are_all_given_or_none_and_each_once(load):
    assert "record 2: case_id is 21; record 1 has it too; give each its own" in refused(load, request(), request())
    message = refused(load, request(), request(case_id=None))
    assert "record 2: case_id is None; give every record a case_id, or none" in message
    assert [case.case_id for case in load(request(case_id="a"), request(case_id=5)).cases] == ["a", "5"]


def test_a_long_value_is_shortened(load):
    message = refused(load, update(update_prompt="very " * 100))
    assert len(message) < 400 and "..." in message


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in [(*path, key), *places(item, (*path, key))]]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("____"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(list(MAKERS)), junk=JUNK, data=st.data())
def test_any_value_in_any_place_is_read_or_refused_in_words(load, kind, junk, data):
    record = MAKERS[kind]()
    path = data.draw(st.sampled_from(places(record)))
    try:
        found = load(changed(record, junk, *path), scenario=None)
    except DataError as error:
        assert "record 1" in str(error)
    else:
        assert len(found.cases) == 1
