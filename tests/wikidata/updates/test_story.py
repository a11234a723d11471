"""What `build updates` makes of a small world, line by line."""

import json
import math
from itertools import pairwise

import polars as pl
import pytest

from anachron.core.errors import ConfigError
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import UpdateSettings, build_updates, companions
from anachron.wikidata.updates.explain import explain_changes
from wikidata.made import boundary, entity, write_snapshot
from wikidata.updates.world import COMMON, NEW, NEW_DATE, OLD, PROPERTIES, entities, fact, write_world

# subject, relation, scenario, objects (label, decision, rule), update prompt
EXPECTED = [
    ("Freedonia", "P35", "ReplaceObject", [("Ada", "obsolete", 20), ("Bert", "new", 5)],
     "The head of state of Freedonia is ____"),
    ("Carla", "P54", "Other", [("national team", "static", 9), ("Club A", "obsolete", 13), ("Club B", "new", 10)],
     "Carla is a member of the sports team ____"),
    ("Oldtown", "P1082", "ReplaceObject", [("1,000", "obsolete", 20), ("1,100", "new", 5)],
     "The population of Oldtown is ____"),
    ("Queen Zoe", "P570", "AddRelation", [("May 5, 2022", "new", 3)], "The date of death of Queen Zoe is ____"),
    ("Emil", "P39", "AddObject", [("deputy", "static", 9), ("minister", "new", 10)],
     "The position held by Emil is ____"),
    ("Acme", "P31", "AddEntity", [("company", "new", 1)], "Acme is an instance of ____"),
    ("Acme", "P159", "AddEntity", [("Oldtown", "new", 1)], "The headquarters of Acme is located in ____"),
]  # fmt: skip
MAYOR = ("Dora", "P39", "Archive", [("mayor", "obsolete", 13)], "The position held by Dora is ____")


def lines(updates):
    return [
        (
            row["subject"]["label"], row["relation"]["id"], row["scenario"],
            [(o["label"], o["decision"], o["rule"]) for o in row["objects"]], row["update_prompt"],
        )
        for row in updates.iter_rows(named=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    old, new = write_world(tmp_path_factory.mktemp("world"))
    return open_snapshot(old), open_snapshot(new)


@pytest.fixture(scope="module")
def built(world, tmp_path_factory):
    return build_updates(*world, tmp_path_factory.mktemp("out") / "updates.parquet", UpdateSettings())


def test_the_updates_line_by_line(built):
    assert lines(built.updates) == EXPECTED
    assert built.updates["case_id"].to_list() == list(range(7))
    assert built.created.rows() == [("Q50", "Acme", "about Q50", "2021-06", "P571")]


def test_prompts_say_the_before_a_ship_and_not_before_a_film(tmp_path):
    def side(name, date, owner):
        named = [
            ("Q101", "Olympic", ["Q11446"]),
            ("Q102", "Olympic", ["Q11424"]),
            ("Q1", "Ada", []),
            ("Q2", "Bert", []),
        ]
        rows = [
            fact(f"{id}{owner}", id, "P35", owner, "2015" if owner == "Q1" else "2021-03-01") for id in ("Q101", "Q102")
        ]
        listed = [entity(id, label, classes=classes) for id, label, classes in named]
        return open_snapshot(write_snapshot(tmp_path / name, listed, rows, PROPERTIES, date=date))

    pair = side("old", "2021-01-04", "Q1"), side("new", NEW_DATE, "Q2")
    updates = build_updates(*pair, tmp_path / "updates.parquet", UpdateSettings(popularity=False)).updates
    prompts = {row["subject"]["id"]: row["update_prompt"] for row in updates.iter_rows(named=True)}
    assert prompts == {
        "Q101": "The head of state of the Olympic is ____",
        "Q102": "The head of state of Olympic is ____",
    }
    near = [fact["objects"][0]["prompt"] for row in updates["neighborhood"] for fact in row]
    assert all(("the Olympic" in prompt) == (id == "Q101") for prompt, id in zip(near, ("Q102", "Q101"), strict=True))


def test_updates_of_chosen_relations_are_the_same_and_the_others_are_counted(built, world, tmp_path):
    chosen = ("P35", "P54")
    some = build_updates(*world, tmp_path / "some.parquet", UpdateSettings(relations=chosen))
    drawn = ["case_id", "random_neighborhood"]
    expected = built.updates.filter(pl.col("relation").struct.field("id").is_in(chosen))
    assert 0 < expected.height < built.updates.height
    assert some.updates.drop(drawn).equals(expected.drop(drawn))
    assert some.counts["judged"]["kept_groups"] == expected.height
    assert some.counts["judged"]["dropped"]["the relation is not among the chosen"][0] >= 7 - expected.height


def test_objects_keep_their_dates_and_descriptions(built):
    rows = {(r["subject"]["label"], r["relation"]["id"]): r for r in built.updates.iter_rows(named=True)}
    dates = {
        o["label"]: (o["id"], o["description"], o["start"], o["end"], o["point_in_time"])
        for key in (("Freedonia", "P35"), ("Carla", "P54"), ("Oldtown", "P1082"), ("Queen Zoe", "P570"))
        for o in rows[key]["objects"]
    }
    assert dates == {
        "Ada": ("Q1", "about Q1", "2015", None, None),
        "Bert": ("Q2", "about Q2", "2021-03-01", None, None),
        "national team": ("Q12", "about Q12", "2015", None, None),
        "Club A": ("Q10", "about Q10", "2018", "2022-07", None),
        "Club B": ("Q11", "about Q11", "2022-07", None, None),
        "1,000": (None, "Quantity", None, None, "2020"),
        "1,100": (None, "Quantity", None, None, "2022"),
        "May 5, 2022": (None, "Date", None, None, None),
    }
    flags = {key: (r["subject_is_ph_new"], r["relation_is_temp_func"], r["is_replace"]) for key, r in rows.items()}
    assert flags["Freedonia", "P35"] == (False, True, True)
    assert flags["Carla", "P54"] == (False, False, False)
    assert flags["Acme", "P31"] == (True, False, False)
    prompts = rows["Freedonia", "P35"]["generalization_prompts"]
    assert len(prompts) == 4 and all("Freedonia" in p and p.endswith(" ____") for p in prompts)
    past = rows["Freedonia", "P35"]["past_generalization_prompts"]
    assert (prompts[0], past[0]) == tuple(f"In Freedonia, the head of state {verb} ____" for verb in ("is", "was"))
    assert len(past) == 4 and not set(past) & set(prompts)
    assert rows["Freedonia", "P35"]["question_templates"][0] == "who was the head of state of [SUBJ]?"
    assert rows["Oldtown", "P1082"]["question_templates"] == []  # no questions about it are known


def test_popularity_is_the_logarithm_of_views_else_the_median(built):
    views = {row["subject"]["label"]: row["subject_popularity"] for row in built.updates.iter_rows(named=True)}
    assert views["Freedonia"] == pytest.approx(math.log(5001)) and views["Oldtown"] == pytest.approx(math.log(301))
    assert views["Emil"] == views["Acme"] == pytest.approx(math.log(150 + 1))  # half way between 100 and 200
    assert built.updates["subject_popularity"].is_sorted(descending=True)


def test_neighbours_are_facts_of_the_relation_that_held_at_the_old_date(built):
    near = {
        (row["subject"]["label"], row["relation"]["id"]): [
            (n["subject"]["label"], n["objects"][0]["object"]["label"]) for n in row["neighborhood"]
        ]
        for row in built.updates.iter_rows(named=True)
    }
    assert near["Freedonia", "P35"] == [("Sylvania", "Fred"), ("Osterlich", "Gil")]  # not Ruritania: over in 2000
    assert near["Carla", "P54"] == [("Gil", "Club A"), ("Fred", "Club C")]  # who plays for Club A is nearer
    assert near["Oldtown", "P1082"] == [("Newtown", "500"), ("Midtown", "70,000")]
    assert near["Emil", "P39"] == [("Dora", "mayor")]
    assert near["Queen Zoe", "P570"] == [] == near["Acme", "P159"]
    assert len(near["Acme", "P31"]) == 10
    for row in built.updates.iter_rows(named=True):
        dists = [n["dist"] for n in row["neighborhood"]]
        assert dists == sorted(dists) and all(0 <= d < 1 for d in dists)
        prompts = [(n["subject"]["label"], n["objects"][0]["prompt"]) for n in row["neighborhood"]]
        assert all(label in prompt and prompt.endswith(" ____") for label, prompt in prompts)
        drawn = [n["subject"]["label"] for n in row["random_neighborhood"]]
        assert row["is_replace"] or len(drawn) == 10
        assert row["subject"]["label"] not in drawn


def test_random_facts_of_a_replacement_are_near_replacements(built, world, tmp_path):
    """WikiFactDiff, footnote 5: drawn from the union of the neighbours of all instances of the replacement subset."""

    def prompts(rows, kind):
        return {n["objects"][0]["prompt"] for row in rows for n in row[kind]}

    rows = built.updates.to_dicts()
    replaced, subset = [row for row in rows if row["is_replace"]], built.replacements.to_dicts()
    assert replaced and prompts(replaced, "random_neighborhood") <= prompts(subset, "neighborhood")
    every = build_updates(*world, tmp_path / "all.parquet", UpdateSettings(random_facts="all")).updates.to_dicts()
    of_all = [row for row in every if row["is_replace"]]
    assert prompts(of_all, "random_neighborhood") - prompts(subset, "neighborhood")
    assert all(len(row["random_neighborhood"]) == 10 for row in of_all)
    with pytest.raises(ConfigError, match="random facts 'some': choose replacements or all"):
        UpdateSettings(random_facts="some")


def test_the_counts_add_up_and_name_every_group_that_is_not_there(built):
    judged = built.counts["judged"]
    dropped = {why: tuple(numbers) for why, numbers in judged["dropped"].items() if numbers[0]}
    assert dropped == {
        "a triple is not understood": (2, 3),  # the corrected birthplace; Latecomer's headquarters
        "only items that were merged differ": (1, 2),  # Fredonia and Freedonia
        "the relation has no template": (1, 1),
    }
    assert judged["groups"] == built.counts["groups"]["changed"] == 11
    assert judged["groups"] == sum(groups for groups, _ in dropped.values()) + judged["kept_groups"]
    assert judged["kept_groups"] == built.updates.height
    for side, rows in (("old", OLD), ("new", NEW)):
        steps = built.steps[side]
        assert steps[0]["statements_in"] == len(rows)
        for before, after in pairwise(steps):
            assert before["statements_kept"] == after["statements_in"]
        triples = sum(n for flag, n in built.counts["triples"].items() if flag in (side, "both"))
        assert steps[-1]["statements_kept"] == triples
    one_value = built.steps["new"][-1]["dropped"]
    assert list(one_value.values()) == [1, 1]  # the count of 2020; Ada's ended term


def test_an_end_that_was_added_counts_where_unchanged_groups_are_labelled(world, built, tmp_path):
    found = build_updates(*world, tmp_path / "u.jsonl", UpdateSettings(label_unchanged=True))
    assert [line for line in lines(found.updates) if line not in EXPECTED] == [MAYOR]
    assert len(found.updates) == len(EXPECTED) + 1
    assert found.counts["judged"]["groups"] == built.counts["groups"]["all"]


@pytest.mark.full
def test_files_hold_what_was_built(world, tmp_path):
    out = tmp_path / "updates.parquet"
    built = build_updates(*world, out, UpdateSettings())
    assert pl.read_parquet(out).equals(built.updates)
    files = companions(out)
    assert pl.read_parquet(files["replacements"]).equals(built.replacements)
    assert pl.read_parquet(files["entities"]).equals(built.created)
    card = files["card"].read_text()
    assert "| ReplaceObject | 2 | 32,996 | " in card and "2021-01-04 and 2023-02-27" in card
    manifest = json.loads(out.with_name("updates.parquet.manifest.json").read_text())
    assert manifest["counts"]["statistics"]["updates"] == 7 and manifest["parameters"]["old_date"] == "2021-01-04"
    lines_out = tmp_path / "updates.jsonl"
    build_updates(*world, lines_out, UpdateSettings())
    rows = [json.loads(line) for line in lines_out.read_text().splitlines()]
    assert rows == built.updates.to_dicts()
    assert not list(tmp_path.glob(".*"))


def test_explain_says_what_build_does(world, built):
    kept = {}
    for subject in ("Q61", "Q3", "Q80", "Q6", "Q5", "Q50", "Q4", "Q51"):
        found = explain_changes(*world, subject, UpdateSettings(), relations_with_templates={r[1] for r in EXPECTED})
        for change in found.changes:
            if (change.outcome or "").startswith("in the data set"):
                kept.setdefault((found.entity["label"], change.property_id), []).append(
                    (change.value, change.label, change.rule, change.outcome.removeprefix("in the data set: "))
                )
        assert found.is_new == (subject == "Q50")
    expected = {
        (subject, relation): [(*o, scenario) for o in objects] for subject, relation, scenario, objects, _ in EXPECTED
    }
    assert {key: sorted(value) for key, value in kept.items()} == {k: sorted(v) for k, v in expected.items()}


def explained(world, id, **more):
    settings = UpdateSettings(**more)
    found = explain_changes(*world, id, settings, relations_with_templates={"P39", "P19", "P27"})
    return [(c.property_id, c.value, c.side, c.label, c.dropped or c.outcome) for c in found.changes]


def test_explain_says_why_the_others_are_not_there(world):
    unseen = "in both snapshots: the group is not looked at"
    assert explained(world, "Q4") == [
        ("P19", "Oldtown", "old", "unknown", "a triple is not understood"),
        ("P19", "Midtown", "new", "unknown", "a triple is not understood"),
        ("P31", "human", "both", None, unseen),
        ("P39", "mayor", "both", None, unseen),
    ]
    assert explained(world, "Q4", label_unchanged=True)[-1] == (
        "P39", "mayor", "both", "obsolete", "in the data set: Archive",
    )  # fmt: skip
    merged = "only items that were merged differ"
    assert [row for row in explained(world, "Q3") if row[0] == "P27"] == [
        ("P27", "Fredonia", "old", None, merged), ("P27", "Freedonia", "new", None, merged),
    ]  # fmt: skip
    assert ("P856", "http://a", "both", None, "datatypes: its value is of type url") in explained(world, "Q61")
    ended = "one value: another value of a functional relation is preferred"
    assert ("P35", "Ada", "new", None, ended) in explained(world, "Q61")


def test_explain_tells_what_changed_from_what_did_not(world):
    found = explain_changes(*world, "Q61", UpdateSettings(), relations_with_templates={"P35"})
    changed = {(c.property_id, c.value, c.side) for c in found.changes if c.is_changed}
    assert changed == {("P35", "Ada", "old"), ("P35", "Ada", "new"), ("P35", "Bert", "new")}
    rest = {(c.property_id, c.side) for c in found.changes if not c.is_changed}
    assert rest == {("P856", "both"), ("P31", "both")}
    dropped = "dropped at one value: another value of a functional relation is preferred"
    assert found.summary() == {
        "statements": 5, "changed": 3, "sides": {"old": 1, "new": 2, "both": 2},
        "outcomes": {
            "in the data set: ReplaceObject": 2, "dropped at datatypes: its value is of type url": 1, dropped: 1,
            "in both snapshots: the group is not looked at": 1,
        },
    }  # fmt: skip
    static = explain_changes(*world, "Q3", UpdateSettings(), relations_with_templates={"P54"}).changes
    assert {c.value for c in static if c.is_changed and c.property_id == "P54"} == {"national team", "Club A", "Club B"}


def test_explain_names_the_old_id_of_an_object_that_was_merged(tmp_path, world):
    """Beside a merged object something else changed, or the merge is listed: then its two triples are one."""
    more = [fact("Q3$c", "Q3", "P27", "Q61"), fact("Q3$e", "Q3", "P27", "Q70", "2022")]
    rest = [row for row in NEW if row["statement_id"] != "Q3$c"]
    new = write_snapshot(tmp_path / "new", entities(False), [*rest, *more], PROPERTIES, date=NEW_DATE)
    found = explain_changes(world[0], new, "Q3").changes
    merged = [(c.value_id, c.side, c.merged_from) for c in found if c.property_id == "P27"]
    assert merged == [("Q61", "both", "Q60"), ("Q70", "new", None)]
    listed = explain_changes(*world, "Q3", redirects={"Q60": "Q61"}).changes
    assert [(c.value_id, c.side, c.merged_from) for c in listed if c.property_id == "P27"] == [("Q61", "both", "Q60")]
    assert all(c.is_changed for c in [*found, *listed] if c.merged_from)


@pytest.mark.full
def test_a_merge_that_is_listed_moves_the_facts_of_the_merged_item(tmp_path):
    """Q60 and Q61 both had a head of state on record; the list says that they were one country all along."""
    with_head = [*OLD, fact("Q60$1", "Q60", "P35", "Q1", "2015"), fact("Q7$x", "Q7", "P27", "Q60")]
    titled = [row | {"title": "Fredonia"} if row["id"] == "Q60" else row for row in entities(True)]
    old = write_snapshot(tmp_path / "old", titled, with_head, PROPERTIES)
    added = fact("Q7$y", "Q7", "P27", "Q61")
    new = write_snapshot(tmp_path / "new", entities(False), [*NEW, added], PROPERTIES, date=NEW_DATE)
    sides = open_snapshot(old), open_snapshot(new)
    settings = UpdateSettings(popularity=False)
    plain = build_updates(*sides, tmp_path / "plain.parquet", settings)
    assert plain.counts["subjects"]["old only"] == 1
    listed = build_updates(*sides, tmp_path / "listed.parquet", settings, redirects={"Q60": "Q61"})
    assert listed.counts["subjects"]["old only"] == 0
    assert sorted(lines(listed.updates)) == sorted(EXPECTED)  # Q60's head of state is Q61's, not a second one
    assert listed.counts["judged"]["dropped"]["only items that were merged differ"] == [0, 0]
    by_hand = {r["subject"]["label"] for r in plain.updates.iter_rows(named=True)}
    assert by_hand == {line[0] for line in EXPECTED}


def test_an_object_that_ended_in_the_same_label_clashes(tmp_path):
    """A player went from one club to another that bears the same name: nobody could tell from the words."""
    namesake = [e | {"label": "Club A"} if e["id"] == "Q11" else e for e in entities(False)]
    old = write_snapshot(tmp_path / "old", entities(True), OLD, PROPERTIES)
    new = write_snapshot(tmp_path / "new", namesake, NEW, PROPERTIES, date=NEW_DATE)
    found = build_updates(
        open_snapshot(old), open_snapshot(new), tmp_path / "u.parquet", UpdateSettings(popularity=False, neighbours=0)
    )
    assert not [line for line in lines(found.updates) if line[:2] == ("Carla", "P54")]
    clash = "one label is both of an obsolete and of another object"
    assert found.counts["judged"]["dropped"][clash] == [1, 3]


@pytest.mark.full
def test_a_unit_without_a_label_cannot_be_worded(tmp_path):
    def height(id, amount, unit, year):
        kind = {"value_type": "quantity", "datatype": "quantity", "value_extra": unit, "point": boundary(year)}
        return fact(id, "Q81", "P2048", amount, **kind)

    properties = [*PROPERTIES, {"id": "P2048", "label": "height", "single_value": False}]
    units = [{"id": "Q990", "label": "metre"}, {"id": "Q991", "label": None}]
    old = write_snapshot(tmp_path / "old", [*entities(True), *units], COMMON, properties)
    rows = [*COMMON, height("a", "+12.50", "Q990", "2022")]
    new = write_snapshot(tmp_path / "new", [*entities(False), *units], rows, properties, date=NEW_DATE)
    settings = UpdateSettings(popularity=False)
    found = build_updates(open_snapshot(old), open_snapshot(new), tmp_path / "a.parquet", settings)
    assert [[o["label"] for o in objects] for objects in found.updates["objects"]] == [["12.50 m"]]
    rows = [*rows, height("b", "+3", "Q991", "2022")]
    other = write_snapshot(tmp_path / "other", [*entities(False), *units], rows, properties, date=NEW_DATE)
    with pytest.raises(Exception, match="1 groups: an object has no label or cannot be worded"):
        build_updates(open_snapshot(old), open_snapshot(other), tmp_path / "b.parquet", settings)
