"""Updates that are no replacements: what is asked, and success over all objects of a group, against plain loops."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import SCENARIOS
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.methods import check_scenarios, methods
from anachron.edit.plan import plan_edits
from anachron.edit.requests import EditRequest
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.scenarios import (
    OBJECTS,
    SCENARIO_METRICS,
    group_objects,
    object_pairs,
    other_objects,
    scenario_metrics,
)
from anachron.evaluate.metrics import summarise, update_metrics
from anachron.evaluate.requests import requests_of
from anachron.evaluate.results import NEIGHBOURS, ROLES, TARGETS, UPDATES
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm
from support.tiny_models import naive_log_prob


def case(scenario: str, *objects: tuple[str, str], **changes: Any) -> EditCase:
    near = (
        NeighbourFact("The president of Germany is", ("Angela Merkel", "Berlin"), 0.2, None, "Germany"),
        NeighbourFact("The president of Zürich is", ("berlin", "Jacques Chirac"), 0.5, None, "Zürich"),
    )
    made = EditCase(
        "7", "France", "The president of France is", next((o for o, d in objects if d == "new"), None),
        next((o for o, d in objects if d == "obsolete"), None), ("In France, the president is",), near,
        scenario=scenario, objects=objects,
    )  # fmt: skip
    return replace(made, **changes)


# --- which objects ---


def test_plausible_others_are_of_the_nearest_facts_each_once_and_none_of_the_groups():
    assert other_objects(case("Archive", ("Macron", "obsolete"))) == ("Angela Merkel", "Berlin", "Jacques Chirac")
    assert other_objects(case("Archive", ("jacques chirac", "obsolete"))) == ("Angela Merkel", "Berlin")
    assert other_objects(case("Archive", ("Macron", "obsolete"), nearest=())) == ()


def test_the_objects_of_a_group_with_their_roles():
    group = case("AddObject", ("A", "static"), ("B", "new"), ("", "static"), ("C", "new"), ("B", "new"))
    assert group_objects(group) == [
        ("new", "B"), ("new", "C"), ("static", "A"), ("other", "Angela Merkel"), ("other", "Berlin"),
        ("other", "Jacques Chirac"),
    ]  # fmt: skip
    assert len(object_pairs(group)) == len(set(object_pairs(group))) == 2 * 6
    for scenario in ("ReplaceObject", "Other"):
        assert object_pairs(replace(group, scenario=scenario)) == []


# --- what is asked of which method ---


@pytest.mark.parametrize(
    ("scenario", "objects", "wanted"),
    [
        ("ReplaceObject", [("A", "new"), ("B", "obsolete")], [("A", False)]),
        ("AddObject", [("A", "static"), ("B", "new"), ("C", "new"), ("B", "new")], [("B", False), ("C", False)]),
        ("AddRelation", [("A", "new")], [("A", False)]),
        ("AddEntity", [("A", "new"), ("B", "new")], [("A", False), ("B", False)]),
        ("Archive", [("A", "obsolete"), ("B", "obsolete")], [("A", True), ("B", True)]),
    ],
)
def test_what_each_scenario_asks_for(scenario, objects, wanted):
    asked = requests_of(case(scenario, *objects), "FT")
    old = f"The president of France is {objects[1][0]}" if scenario == "ReplaceObject" else ""
    assert asked == [EditRequest("The president of {} is", "France", label, remove, old) for label, remove in wanted]


def test_the_table_of_methods_and_scenarios():
    able = {name for name, method in methods().items() if "Archive" in method.scenarios}
    assert able == {"FT", "FT+L", "LoRA", "LoRA-Merge", "PROMPT", "RETRIEVAL"}
    for name, method in methods().items():
        assert set(SCENARIOS) - set(method.scenarios) == ({"Other"} if name in able else {"Other", "Archive"})


def test_what_a_method_cannot_do_is_said_in_one_line():
    archive = case("Archive", ("A", "obsolete"))
    able = r"FT, FT\+L, LoRA, LoRA-Merge, PROMPT, RETRIEVAL can"
    message = f"update 7: ROME cannot make updates of the scenario Archive; {able}"
    with pytest.raises(DataError, match=message):
        requests_of(archive, "ROME")
    with pytest.raises(DataError, match="FT cannot make updates of the scenario Other; no method can"):
        requests_of(case("Other", ("A", "new"), ("B", "obsolete"), ("C", "static")), "FT")
    check_scenarios(["FT", "ROME"], ["Archive", "AddObject"])  # some of its updates can be made
    with pytest.raises(ConfigError, match=r"ROME cannot make updates of the scenario Archive;.*choose another method"):
        check_scenarios(["FT", "ROME"], ["Archive"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (case("Archive", ("", "obsolete")), "update 7 has no obsolete object, so there is nothing to take out"),
        (case("AddObject", ("A", "static")), "update 7 has no new object, so there is nothing to make true"),
        (case("AddEntity", ("A", "new"), ("", "new")), "has no label for one of its new objects"),
        (case("ReplaceObject", ("B", "obsolete")), "has no new object"),
    ],
)
def test_a_group_without_what_is_asked_for(wrong, message):
    with pytest.raises(DataError, match=message):
        requests_of(wrong, "FT")


# --- success, by hand ---


def rows(
    *objects: tuple[str, float, float], kind: str = "update", number: int = 0, **keys: str
) -> list[dict[str, Any]]:
    """(role, p before, p after) of each object, as rows of the table of objects."""
    return [
        {"method": "FT", "mode": "batch", "case_id": "7", "kind": kind, "prompt_number": number, "role": role,
         "object": f"{role} {place}", "before": before, "after": after} | keys
        for place, (role, before, after) in enumerate(objects)
    ]  # fmt: skip


def metrics_of(*tables: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = scenario_metrics(pl.DataFrame([row for table in tables for row in table], OBJECTS.table)).to_dicts()
    return row


def test_an_archived_object_must_lose_against_the_clean_model_and_against_a_plausible_other():
    row = metrics_of(
        rows(("obsolete", 0.5, 0.125), ("obsolete", 0.25, 0.0625), ("other", 0.125, 0.25), ("other", 0.25, 0.125)),
        rows(("obsolete", 0.5, 0.25), ("obsolete", 0.25, 0.0), ("other", 0.5, 0.25), kind="generalization", number=1),
        rows(("obsolete", 0.5, 0.375), ("obsolete", 0.25, 0.5), ("other", 0.5, 0.75), kind="generalization", number=2),
    )
    assert (row["efficacy_difference"], row["efficacy_success"]) == (0.125, 1.0)
    assert row["efficacy_change"] == (0.375 + 0.1875) / 2
    assert row["generalization_difference"] == (0 + 0.25) / 2
    assert row["generalization_success"] == 0.0  # a tie on one prompt, and an object that gained on the other
    assert row["generalization_change"] == ((0.25 + 0.25) / 2 + (0.125 - 0.25) / 2) / 2
    assert (row["static_loss"], row["others_rise"]) == (None, 0.125)


def test_every_object_that_holds_must_win_against_every_other():
    row = metrics_of(
        rows(("new", 0.125, 0.5), ("new", 0.0, 0.375), ("static", 0.5, 0.3125), ("other", 0.125, 0.25)),
        rows(("new", 0.125, 0.5), ("new", 0.0, 0.375), ("static", 0.5, 0.25), ("other", 0.0, 0.25),
             kind="generalization", number=1),
    )  # fmt: skip
    assert (row["efficacy_difference"], row["efficacy_success"]) == (0.0625, 1.0)
    assert (row["efficacy_change"], row["static_loss"], row["others_rise"]) == (0.375, 0.1875, 0.125)
    assert (row["generalization_difference"], row["generalization_success"]) == (0.0, 0.0)
    assert (row["new_win"], row["static_win"]) == (1.0, 1.0)
    lost = metrics_of(rows(("new", 0.0, 0.75), ("static", 0.5, 0.125), ("other", 0.125, 0.125)))
    assert (lost["new_win"], lost["static_win"], lost["efficacy_success"]) == (1.0, 0.0, 0.0)
    alone = metrics_of(rows(("new", 0.0, 0.75), ("other", 0.125, 0.125)))
    assert (alone["new_win"], alone["static_win"], alone["efficacy_success"]) == (None, None, 1.0)


def test_without_a_plausible_other_nothing_tells_success():
    for role in ("new", "obsolete"):
        row = metrics_of(rows((role, 0.25, 0.5)))
        assert row["efficacy_difference"] is row["efficacy_success"] is row["others_rise"] is None
        assert row["efficacy_change"] == (0.25 if role == "new" else -0.25)


def test_the_clean_model_has_archived_nothing():
    same = rows(("obsolete", 0.125, 0.125), ("other", 0.5, 0.5))
    assert (metrics_of(same)["efficacy_difference"], metrics_of(same)["efficacy_success"]) == (0.375, 0.0)


# --- success, by loops ---

P = st.sampled_from([0.0, 0.125, 0.25, 0.3, 0.5, 1.0])
GROUPS = {"Archive": ("obsolete",), "AddObject": ("new", "static"), "AddRelation": ("new",), "AddEntity": ("new",)}


@st.composite
def runs(draw):
    """Scenarios of some updates, and every object after every prompt by two methods, one of which may have failed."""
    scenarios = draw(st.lists(st.sampled_from(sorted(GROUPS)), min_size=1, max_size=4))
    table, updates = [], []
    for number, scenario in enumerate(scenarios):
        roles = [role for role in (*GROUPS[scenario], "other") for _ in range(draw(st.integers(1, 3)))]
        roles = roles if draw(st.booleans()) else [role for role in roles if role != "other"]
        before = [[draw(P) for _ in roles] for _ in range(3)]
        for method in ("FT", "PROMPT"):
            failed = draw(st.integers(0, 5)) == 0
            updates.append({"method": method, "mode": "batch", "case_id": str(number), "scenario": scenario,
                            "status": "failed" if failed else "done"})  # fmt: skip
            for prompt, clean in enumerate(before):
                after = [(role, p, None if failed else draw(P)) for role, p in zip(roles, clean, strict=True)]
                kind = "generalization" if prompt else "update"
                table += rows(*after, kind=kind, number=prompt, case_id=str(number), method=method)
    return table, updates


PARTS = ("new_win", "static_win", "static_loss", "others_rise")  # on the update prompt alone


def by_loop(scenario: str, table: list[dict[str, Any]], side: str) -> dict[str, Any]:
    """All metrics of one update, one object at a time; side: after, or before for the clean model."""
    prompts = []
    for number in range(3):
        own = [r for r in table if r["prompt_number"] == number]
        found = dict.fromkeys(("difference", "success", "change", *PARTS))
        if any(r[side] is None for r in own):
            prompts.append(found)
            continue
        others = [r[side] for r in own if r["role"] == "other"]
        moves = {role: [r[side] - r["before"] for r in own if r["role"] == role] for role in ROLES}
        if scenario == "Archive":
            olds = [r for r in own if r["role"] == "obsolete"]
            found["change"] = -sum(moves["obsolete"]) / len(olds)
            if others:
                found["difference"] = max(others) - max(r[side] for r in olds)
                lost = all(r[side] < r["before"] for r in olds)
                found["success"] = float(lost and all(any(r[side] < o for o in others) for r in olds))
        else:
            found["change"] = sum(moves["new"]) / len(moves["new"])
            true = [r[side] for r in own if r["role"] in ("new", "static")]
            if others:
                found["difference"] = min(true) - max(others)
                found["success"] = float(all(t > o for t in true for o in others))
            if others and scenario == "AddObject":
                for role in ("new", "static"):
                    own_role = [r[side] for r in own if r["role"] == role]
                    found[f"{role}_win"] = float(all(t > o for t in own_role for o in others))
                assert found["success"] == found["new_win"] * found["static_win"]
        if moves["static"]:
            found["static_loss"] = sum(-min(m, 0) for m in moves["static"]) / len(moves["static"])
        if others:
            found["others_rise"] = max(max(m, 0) for m in moves["other"])
        prompts.append(found)
    means = {}
    for name, few in (("efficacy", prompts[:1]), ("generalization", prompts[1:])):
        for measure in ("difference", "success", "change"):
            known = [p[measure] for p in few if p[measure] is not None]
            means[f"{name}_{measure}"] = sum(known) / len(known) if known else None
    return means | {name: prompts[0][name] for name in PARTS}


@given(runs())
def test_metrics_of_groups_against_loops(run):
    table, updates = run
    tables = pl.DataFrame([], TARGETS), pl.DataFrame([], NEIGHBOURS), pl.DataFrame(updates, UPDATES)
    found = update_metrics(*tables, pl.DataFrame(table, OBJECTS.table))
    scenario_of = {u["case_id"]: u["scenario"] for u in updates}
    assert found.height == len(updates) * 3 // 2  # the clean model besides
    for row in found.to_dicts():
        method = "FT" if row["method"] == "unedited" else row["method"]
        own = [r for r in table if (r["method"], r["case_id"]) == (method, row["case_id"])]
        expected = by_loop(scenario_of[row["case_id"]], own, "before" if row["method"] == "unedited" else "after")
        for name in SCENARIO_METRICS:
            assert row[name] == pytest.approx(expected[name], abs=1e-12), (row["method"], name)
    summary = summarise(found)
    order = [s for s in SCENARIOS if s in scenario_of.values()]
    assert summary["scenario"].unique(maintain_order=True).to_list() == order
    assert summary["done"].sum() + summary["failed"].sum() == found.height
    assert set(SCENARIO_METRICS) <= set(summary.columns)


def test_the_table_of_objects_is_checked():
    tables = pl.DataFrame([], TARGETS), pl.DataFrame([], NEIGHBOURS)
    done = {"method": "FT", "mode": "batch", "case_id": "7", "status": "done", "scenario": "Archive"}
    good = rows(("obsolete", 0.5, 0.25), ("other", 0.5, 0.25))
    for broken, update, message in (
        ([*good, good[0]], {}, r"objects, row 3: the same as row 1 \(.* object 'obsolete 0'"),
        ([good[0] | {"role": "old"}], {}, "role 'old' is unknown; use one of new, obsolete, static, other"),
        ([good[0] | {"after": -1.0}], {}, "after -1.0 is not a probability"),
        ([good[0] | {"case_id": "8"}], {}, "case_id '8' is not in the table of updates"),
        (good, {"status": "failed"}, "after 0.25 is the score of a failed update"),
        (good, {"scenario": "Archived"}, "scenario 'Archived' is unknown; use one of ReplaceObject, Archive, "),
    ):
        with pytest.raises(DataError, match=message):
            update_metrics(*tables, pl.DataFrame([done | update], UPDATES), pl.DataFrame(broken, OBJECTS.table))


# --- from a file to the summary ---


def record(number: int, scenario: str, decisions: dict[str, str], **more: Any) -> dict[str, Any]:
    """A published record; its prompts and neighbours are of the tiny models' words."""

    def entity(label: str) -> dict[str, Any]:
        return {"id": None, "label": label, "description": None}

    near = [("Germany", "Angela Merkel"), ("Zürich", "Berlin")]
    return {
        "case_id": number,
        "subject": entity("France"),
        "relation": entity("head of state"),
        "update_prompt": "The president of France is ____",
        "generalization_prompts": ["In France, the president is ____"],
        "subject_is_ph_new": scenario == "AddEntity",
        "relation_is_temp_func": True,
        "is_replace": scenario == "ReplaceObject",
        "subject_popularity": 9.5,
        "objects": [entity(label) | {"decision": decision} for label, decision in decisions.items()],
        "neighborhood": [
            {"subject": entity(s), "dist": 0.3,
             "objects": [{"object": entity(o), "prompt": f"The president of {s} is ____"}]}
            for s, o in near
        ],
    } | more  # fmt: skip


RECORDS = [
    record(1, "ReplaceObject", {"Emmanuel Macron": "new", "Jacques Chirac": "obsolete"}),
    record(2, "Archive", {"Jacques Chirac": "obsolete", "Paris": "obsolete"}),
    record(3, "AddObject", {"Emmanuel Macron": "new", "Jacques Chirac": "static", "Paris": "new"}),
    record(4, "AddRelation", {"Emmanuel Macron": "new"}),
    record(5, "AddEntity", {"Paris": "new"}),
    record(6, "Other", {"Paris": "new", "Jacques Chirac": "obsolete", "Emmanuel Macron": "static"}),
]
SUPPORTED = [name for name in SCENARIOS if name != "Other"]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "groups.json"
    path.write_text(json.dumps(RECORDS), "utf-8")
    return path


QUICK = EvaluateSettings(measures=Measures(fluency_tokens=0))
CHANGES = {"ROME": {"steps": 3, "contexts": [], "layer": 1}, "FT": {"steps": 12, "layer": 2, "rate": 2e-2}}


def planned(lm: LanguageModel, *methods: str) -> Any:
    changes = {name: CHANGES[name] for name in methods if name in CHANGES}
    return plan_edits(lm, methods, changes=changes, identity_covariance=True)


def p_of(lm: LanguageModel, prompt: str, answer: str) -> float:
    tokens = len(lm.encode([(lm.prefix + prompt, answer, None)])[0].targets)
    return math.exp(naive_log_prob(lm, lm.prefix + prompt, answer) / tokens)


@pytest.mark.full
def test_groups_of_every_scenario_against_a_plain_loop(lm: LanguageModel, groups: Path, tmp_path: Path):
    cases = load_cases(str(groups), scenario=SUPPORTED)
    assert cases.left_out == {"scenario Other": 1}
    methods = planned(lm, "FT", "ROME", "PROMPT")
    result = run_evaluation(lm, cases, methods, tmp_path / "run", QUICK)
    assert result.tables["objects"].equals(pl.read_parquet(tmp_path / "run" / "objects.parquet"))
    assert "1" not in result.tables["objects"]["case_id"].to_list()
    for one in methods:
        for group in cases.cases[1:]:
            mine = result.tables["objects"].filter(
                (pl.col("method") == one.label) & (pl.col("case_id") == group.case_id)
            )
            if (one.label, group.scenario) == ("ROME", "Archive"):
                assert mine.height and mine.drop_nulls("after").is_empty()
                continue
            edit = make_edit(lm, one.method, requests_of(group, one.method), one.settings, one.resources, one.sites)
            prompts = (group.text, *group.generalization)
            expected = []
            for number, prompt in enumerate(prompts):
                for role, label in group_objects(group):
                    before = p_of(lm, prompt, label)
                    with edited(lm, edit):
                        expected.append((number, role, label, before, p_of(lm, prompt, label)))
            assert mine.select("prompt_number", "role", "object").rows() == [row[:3] for row in expected]
            assert mine["before"].to_list() == pytest.approx([row[3] for row in expected], rel=1e-4)
            assert mine["after"].to_list() == pytest.approx([row[4] for row in expected], rel=2e-3)
    updates = result.tables["updates"].filter(pl.col("method") == "ROME")
    assert updates["status"].to_list() == ["done", "failed", "done", "done", "done"]
    assert "ROME cannot make updates of the scenario Archive; FT," in updates["reason"][1]
    summary = summarise(
        update_metrics(
            result.tables["targets"], result.tables["neighbours"], result.tables["updates"], result.tables["objects"]
        )
    )
    assert summary["scenario"].to_list() == [name for name in SUPPORTED for _ in range(4)]
    row = {(r["scenario"], r["method"]): r for r in summary.to_dicts()}
    assert (row["Archive", "ROME"]["failed"], row["Archive", "ROME"]["efficacy_success"]) == (1, None)
    assert row["Archive", "unedited"]["efficacy_success"] == 0 and row["Archive", "FT"]["efficacy_change"] > 0
    assert row["AddRelation", "FT"]["efficacy_success"] == 1
    assert row["AddObject", "FT"]["static_loss_n"] == 1 and row["ReplaceObject", "FT"]["efficacy_change"] is None


@pytest.mark.parametrize("mode", ["batch", "sequential"])
def test_batches_and_sequences_hold_removals_beside_insertions(
    lm: LanguageModel, groups: Path, tmp_path: Path, mode: str
):
    cases = load_cases(str(groups), scenario=("Archive", "AddEntity"))
    result = run_evaluation(lm, cases, planned(lm, "FT", "ROME"), tmp_path / "run", replace(QUICK, mode=mode))
    assert result.tables["updates"].select("method", "case_id", "status").rows() == [
        ("FT", "2", "done"), ("FT", "5", "done"), ("ROME", "2", "failed"), ("ROME", "5", "done"),
    ]  # fmt: skip
    objects = result.tables["objects"].filter(pl.col("method") == "ROME").drop_nulls("after")
    assert objects["case_id"].unique().to_list() == ["5"]


def test_a_method_for_which_nothing_is_left_is_refused_before_anything_is_written(
    lm: LanguageModel, groups: Path, tmp_path: Path
):
    cases = load_cases(str(groups), scenario="Archive")
    with pytest.raises(ConfigError, match="ROME cannot make updates of the scenario Archive"):
        run_evaluation(lm, cases, planned(lm, "ROME"), tmp_path / "run", QUICK)
    assert not (tmp_path / "run").exists()


def test_replacements_alone_write_no_table_of_objects(lm: LanguageModel, groups: Path, tmp_path: Path):
    result = run_evaluation(lm, load_cases(str(groups)), planned(lm, "FT"), tmp_path / "run", QUICK)
    assert result.tables["objects"].height == 0 and not (tmp_path / "run" / "objects.parquet").exists()
    plain = update_metrics(result.tables["targets"], result.tables["neighbours"], result.tables["updates"])
    assert update_metrics(
        result.tables["targets"], result.tables["neighbours"], result.tables["updates"], result.tables["objects"]
    ).equals(plain)
    older = result.tables["updates"].drop("scenario")
    assert update_metrics(result.tables["targets"], result.tables["neighbours"], older).equals(plain)
