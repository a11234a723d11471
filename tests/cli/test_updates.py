"""The commands that make update data sets: build updates, build cloze, label, and explain over two snapshots."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from support.llm_server import Reply, chat, error, prompt_of, serving
from wikidata.updates.world import NEW_DATE, OLD_DATE, write_world

GROUPS = [
    {  # the paper's example: a president replaced another one
        "property": "P35", "relation_type": "temp", "subject_is_new": False, "subject_only_in_old": False,
        "triples": [
            {"diff": "old", "value_time": None, "object_is_new_entity": False, "qualifiers_new": None,
             "qualifiers_old": {"P580": "+2017-01-20T00:00:00Z"}},
            {"diff": "new", "value_time": None, "object_is_new_entity": False,
             "qualifiers_new": {"P580": "+2021-01-20T00:00:00Z"}, "qualifiers_old": None},
        ],
    },
    {  # an end that is known to exist but not when, a year that begins before the old date, a month after it
        "property": "P39", "relation_type": "other", "subject_is_new": False, "subject_only_in_old": False,
        "triples": [
            {"diff": "both", "value_time": None, "object_is_new_entity": False,
             "qualifiers_new": {"P580": "+2010-00-00T00:00:00Z", "P582": None}, "qualifiers_old": {}},
            {"diff": "new", "value_time": None, "object_is_new_entity": False,
             "qualifiers_new": {"P580": "+2021-00-00T00:00:00Z"}, "qualifiers_old": None},
            {"diff": "new", "value_time": None, "object_is_new_entity": False,
             "qualifiers_new": {"P585": "+2022-05-00T00:00:00Z"}, "qualifiers_old": None},
        ],
    },
    {
        "property": "P570", "relation_type": "func", "subject_is_new": False, "subject_only_in_old": False,
        "triples": [{"diff": "new", "value_time": "+2022-09-08T00:00:00Z", "object_is_new_entity": False,
                     "qualifiers_new": {}, "qualifiers_old": None}],
    },
]  # fmt: skip
LABELS = [
    {"labels": ["obsolete", "new"], "rules": [20, 5]},
    {"labels": ["static", "static", "new"], "rules": [9, 9, 7]},  # 2021 counts from its first day, before the old date
    {"labels": ["new"], "rules": [3]},
]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> tuple[Path, Path]:
    return write_world(tmp_path_factory.mktemp("world"))


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def write_groups(path: Path, groups=GROUPS) -> Path:
    path.write_text("".join(json.dumps(group) + "\n" for group in groups))
    return path


def test_label(tmp_path, capsys):
    given = write_groups(tmp_path / "groups.jsonl")
    dates = ("--old-date", OLD_DATE, "--new-date", NEW_DATE)
    assert run("label", "--input", given, *dates) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == LABELS
    out = tmp_path / "labels.jsonl"
    assert run("label", "--input", given, "--out", out, *dates) == 0
    assert [json.loads(line) for line in out.read_text().splitlines()] == LABELS
    assert json.loads(Path(f"{out}.manifest.json").read_text())["counts"] == {"groups": 3, "triples": 6}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"relation_type": "temporal"}, "group 2: relation_type 'temporal': write one of temp, func, other"),
        ({"property": None}, "group 2: property None"),
        ({"triples": []}, "group 2: triples: give a list of at least one triple"),
        ({"subject_is_new": "no"}, "group 2: subject_is_new 'no': write true or false"),
        ({"triples": [{"diff": "neither"}]}, "group 2: diff 'neither': write one of old, new, both"),
        ({"triples": [{"diff": "new", "qualifiers_new": {"P580": "2021-01-01"}}]}, "group 2: time '2021-01-01': write"),
        ({"triples": [{"diff": "new", "qualifiers_new": ["P580"]}]}, r"group 2: qualifiers_new \['P580'\]: expected"),
    ],
)
def test_groups_that_cannot_be_read_are_named(tmp_path, capsys, change, says):
    given = write_groups(tmp_path / "groups.jsonl", [GROUPS[0], GROUPS[1] | change])
    assert run("label", "--input", given, "--old-date", OLD_DATE, "--new-date", NEW_DATE) == 2
    assert re.search(says, " ".join(capsys.readouterr().err.split()))


def test_label_refuses_dates_in_the_wrong_order(tmp_path, capsys):
    given = write_groups(tmp_path / "groups.jsonl")
    assert run("label", "--input", given, "--old-date", NEW_DATE, "--new-date", OLD_DATE) == 2
    assert "is not before the new date" in capsys.readouterr().err
    assert run("label", "--input", given, "--old-date", "04.01.2021", "--new-date", NEW_DATE) == 2
    assert "'04.01.2021' is not a date" in " ".join(capsys.readouterr().err.split())


@pytest.mark.full
def test_build_updates_prints_the_numbers_beside_the_published_ones(world, tmp_path, capsys):
    old, new = world
    out = tmp_path / "updates.parquet"
    assert run("build", "updates", "--old", old, "--new", new, "--out", out) == 0
    shown = capsys.readouterr()
    assert re.search(r"ReplaceObject\s+│\s+2 │\s+32,996 │", shown.out) and "groups kept: 7" in shown.out
    assert "7 updates written to" in " ".join(shown.err.split())
    assert run("build", "updates", "--old", old, "--new", new, "--out", out, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["statistics"]["updates"] == 7 == pl.read_parquet(out).height
    assert Path(summary["card"]).is_file() and summary["judged"]["groups"] == 11


def test_build_updates_with_templates_of_ones_own(world, tmp_path):
    old, new = world
    mine = tmp_path / "mine.json"
    relations = [("P35", "[SUBJ] obeys [OBJ]"), ("P9999", "[SUBJ] does [OBJ]")]
    mine.write_text(json.dumps([{"id": id, "label": "x", "templates": [t]} for id, t in relations]))
    out = tmp_path / "updates.jsonl"
    assert run("build", "updates", "--old", old, "--new", new, "--out", out, "--cloze", mine, "--no-popularity") == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["update_prompt"], row["generalization_prompts"]) for row in rows] == [
        ("Acme does ____", []), ("Freedonia obeys ____", []),
    ]  # fmt: skip
    assert [row["past_generalization_prompts"] for row in rows] == [[], []]


@pytest.mark.full
def test_build_updates_in_french(world, tmp_path):
    old, new = world
    out = tmp_path / "updates.jsonl"
    words = ["--old", old, "--new", new, "--out", out, "--style", "french", "--no-popularity"]
    assert run("build", "updates", *words) == 0
    prompts = {row["update_prompt"] for row in map(json.loads, out.read_text().splitlines()) if row["update_prompt"]}
    assert "Le chef d'État du territoire nommé Freedonia est ____" in prompts


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--unchanged-groups", "keep"], 2, "--unchanged-groups 'keep': choose skip or label"),
        (["--redirects", "none.csv"], 2, "cannot read none.csv"),
        (["--cloze", "none.json"], 2, "cannot read none.json"),
    ],
)
def test_wrong_options_are_one_line_and_leave_no_file(world, tmp_path, capsys, words, code, says):
    old, new = world
    assert run("build", "updates", "--old", old, "--new", new, "--out", tmp_path / "u.parquet", *words) == code
    assert says in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_explain_over_two_snapshots(world, capsys, tmp_path):
    old, new = world
    assert run("wikidata", "explain", old, new, "Q61", "--property", "P35") == 0
    shown = capsys.readouterr().out
    assert "Freedonia (Q61)" in shown and "Bert (Q2)" in shown and "rule 20" in shown
    assert run("wikidata", "explain", old, new, "Q61", "--property", "P35", "--json") == 0
    told = [
        (s["value"], s["side"], s["words"], s["dropped"]) for s in json.loads(capsys.readouterr().out)["statements"]
    ]
    passed = "one value: another value of a functional relation is preferred"
    assert told == [
        ("Ada", "old", "the old one of two values of a functional relation, of which the other is new", None),
        ("Ada", "new", None, passed),
        ("Bert", "new", "the one new value of a functional relation", None),
    ]
    assert run("wikidata", "explain", old, new, "Q61") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "5 statements of Q61: 1 in the old snapshot only, 2 in the new one only, 2 in both; 3 changed"
    )
    assert "2 in the data set: ReplaceObject" in shown and "http://a" not in shown
    assert run("wikidata", "explain", old, new, "Q61", "--all") == 0
    assert "http://a" in capsys.readouterr().out
    assert run("wikidata", "explain", old, new, "Q1") == 0
    shown = capsys.readouterr()
    assert "0 changed" in shown.out and "neither" not in shown.err
    assert run("wikidata", "explain", old, new, "Q50", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_new"] and {s["rule"] for s in found["statements"]} == {1}
    merged = tmp_path / "merged.csv"
    merged.write_text("Q60,Q61\n")
    assert run("wikidata", "explain", old, new, "Q3", "--redirects", merged, "--json") == 0
    sides = {s["value_id"]: s["side"] for s in json.loads(capsys.readouterr().out)["statements"]}
    assert sides["Q61"] == "both" and "Q60" not in sides


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["OLD", "NEW", "Q9999999"], 2, "Q9999999 is neither in"),
        (["OLD", "NEW", "Ada"], 2, "entity 'Ada' is not an item id"),
        (["NEW", "OLD", "Q3"], 2, "the old one must be earlier"),
        (["OLD"], 2, "1 arguments: give a snapshot"),
        (["OLD", "NEW"], 2, "is a snapshot; give the id of an item behind it"),
        (["OLD", "NEW", "Q3", "--preset", "robustness-2025"], 2, "--preset is for one snapshot"),
        (["OLD", "Q3", "--unchanged-groups", "label"], 2, "--unchanged-groups is for two snapshots"),
    ],
)
def test_explain_refuses_what_does_not_fit(world, capsys, words, code, says):
    places = {"OLD": world[0], "NEW": world[1]}
    assert run("wikidata", "explain", *(places.get(word, word) for word in words)) == code
    assert says in " ".join(capsys.readouterr().err.split())


def sentences(request: dict, number: int) -> Reply:
    """Ten sentences: six of one kind, three of another, and one that is of no use."""
    found = [re.search(rf'^- {name}: "(.*?)"', prompt_of(request), re.MULTILINE) for name in ("subject", "object")]
    subject, object = (match[1] for match in found)
    texts = [f"{subject} goes with {object}."] * 6 + [f"With {subject} goes {object}"] * 3 + [f"{object} is nice."]
    return chat(json.dumps({"sentences": texts}))


@pytest.fixture
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.full
def test_templates_by_a_language_model(world, tmp_path, key, capsys):
    new, out = world[1], tmp_path / "cloze.json"
    with serving(sentences) as server:
        words = ["build", "cloze", new, "--out", out, "--llm", "m", "--base-url", server.url, "--triples", 2]
        assert run(*words, "--relations", "P35,P1082,P570") == 0
        asked = len(server.requests)
        assert run(*words, "--relations", "P35,P1082,P570") == 0
        assert len(server.requests) == asked  # every answer was kept
    found = json.loads(out.read_text())
    expected = ["[SUBJ] goes with [OBJ]", "With [SUBJ] goes [OBJ]"]
    assert {row["id"]: row["templates"] for row in found} == dict.fromkeys(("P35", "P570", "P1082"), expected)
    counts = json.loads(Path(f"{out}.manifest.json").read_text())["counts"]
    assert counts["triples"] == asked and counts["sentences"] == 10 * asked
    assert counts["dropped"] == {"object not at the end": asked}
    assert counts["found"]["P570"] == {expected[0]: 6, expected[1]: 3}
    updates = tmp_path / "updates.jsonl"
    assert run("build", "updates", "--old", world[0], "--new", new, "--out", updates, "--cloze", out) == 0
    prompts = [json.loads(line)["update_prompt"] for line in updates.read_text().splitlines()]
    assert prompts == ["Freedonia goes with ____", "Oldtown goes with ____", "Queen Zoe goes with ____"]


def test_a_model_of_no_use_leaves_no_templates(world, tmp_path, key, capsys):
    out = tmp_path / "cloze.json"
    useless = {"sentences": ["The moon is round."]}
    scripts = [
        lambda r, n: chat(json.dumps(useless)),
        lambda r, n: chat("", finish="content_filter"),
        lambda r, n: error(400, "bad prompt"),
    ]
    for script in scripts:
        with serving(script) as server:
            options = ["--llm", "m", "--base-url", server.url, "--relations", "P35", "--tries", 1, "--pause", 0]
            assert run("build", "cloze", world[1], "--out", out, *options) == 1
        assert not out.exists()
    assert run("build", "cloze", world[1], "--out", tmp_path / "x.txt", "--llm", "m") == 2
    assert "templates are written as .json" in " ".join(capsys.readouterr().err.split())
