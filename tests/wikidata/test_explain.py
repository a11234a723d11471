"""Explanations: their verdicts are those of the selection, statement by statement, in words."""

from pathlib import Path

import pytest

from anachron.core.errors import ConfigError, DataError
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.explain import Explanation, explain_entity
from anachron.wikidata.selection.facts import build_facts, selection_of
from anachron.wikidata.selection.rules import PRESETS, Selection
from anachron.wikidata.selection.select import select_facts
from wikidata.made import UNKNOWN, boundary, entity, property_, statement, write_snapshot
from wikidata.story import EDGES, ENTITIES, PROPERTIES, SETTINGS, STORY, VIEWS, random_snapshot


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [row for row, _ in STORY]
    return write_snapshot(tmp_path_factory.mktemp("story") / "snapshot", ENTITIES, rows, PROPERTIES, EDGES, VIEWS)


def test_every_statement_of_the_story_is_explained(story: Path):
    snapshot = open_snapshot(story)
    verdicts = {}
    for subject in dict.fromkeys(row["subject"] for row, _ in STORY):
        found = explain_entity(snapshot, subject, SETTINGS)
        own = [row["statement_id"] for row, _ in STORY if row["subject"] == subject]
        assert [verdict.statement_id for verdict in found.verdicts] == own
        verdicts |= {verdict.statement_id: verdict for verdict in found.verdicts}
    said = {id: verdict.reason and verdict.reason.partition(": P")[0] for id, verdict in verdicts.items()}
    assert said == {row["statement_id"]: reason for row, reason in STORY}
    facts = select_facts(snapshot, SETTINGS).facts
    kept = {row["statement_id"]: (row["fact_id"], row["popularity"]) for row in facts.iter_rows(named=True)}
    assert {id: (v.fact_id, v.popularity) for id, v in verdicts.items() if v.kept} == kept


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [Selection(more_than=8), PRESETS["robustness-2025"], Selection(popularity=False, several_periods="keep")],
    ids=["threshold", "top", "keep"],
)
def test_verdicts_are_what_build_facts_keeps(tmp_path: Path, settings: Selection):
    made = random_snapshot(1)
    snapshot = open_snapshot(write_snapshot(tmp_path / "s", *made[:4], popularity=made[4]))
    facts = tmp_path / "facts.parquet"
    found = build_facts(snapshot, facts, settings)
    recorded, cut = selection_of(facts, snapshot)
    assert (recorded, cut) == (settings, found.cut)
    explained: dict[str, int] = {}
    kept: dict[str | None, str | None] = {}
    for subject in {row["subject"] for row in made[1]}:
        for verdict in explain_entity(snapshot, subject, recorded, cut=cut).verdicts:
            if verdict.kept:
                kept[verdict.statement_id] = verdict.fact_id
            else:
                explained[verdict.step or ""] = explained.get(verdict.step or "", 0) + 1
    assert kept == dict(found.facts.select("statement_id", "fact_id").iter_rows())
    assert explained == {s["step"]: n for s in found.steps if (n := sum(s["dropped"].values()))}


@pytest.mark.full
def test_without_a_cut_the_whole_snapshot_decides_it(tmp_path: Path):
    views = {f"Q{n}": 1000.0 * n for n in range(1, 7)}
    rows = [statement(f"Q{n}", "P39", f"Q{n}", "1990", "1999") for n in range(1, 7)]
    folder = write_snapshot(tmp_path / "s", [entity(id) for id in views], rows, [property_("P39")], popularity=views)
    settings = Selection(highest_popularity=6000, popularity_step=1000, more_than=2)  # 4,000 leaves three facts
    snapshot = open_snapshot(folder)
    kept = {id: explain_entity(snapshot, id, settings).verdicts[0].kept for id in views}
    assert kept == {id: count >= 4000 for id, count in views.items()}


def explain(tmp_path: Path, *rows: dict) -> Explanation:
    entities = [entity("Q1", "Ada", created="1815-12-10"), entity("Q2", "London")]
    properties = [property_("P551", "residence"), property_("P642", classes=["Q61719275"])]
    folder = write_snapshot(tmp_path / "s", entities, rows, properties)
    return explain_entity(open_snapshot(folder), "Q1", Selection(popularity=False))


def test_words_for_values_dates_and_qualifiers(tmp_path: Path):
    found = explain(
        tmp_path,
        statement("Q1", "P551", "Q2", "1835-07", boundary("1850", precision=7), point=boundary("1836")),
        statement("Q1", "P551", "Q2", UNKNOWN, boundary(None, values=3), qualifiers={"P642": [], "P1": []}),
        statement("Q1", "P2048", "+1.6", value_type="quantity", datatype="quantity"),
        statement("Q1", "P551", None, snak="somevalue", value_type=None, rank="preferred"),
        statement("Q1", "P551", "Q404", "1990", "1999"),
    )
    assert found.entity["created"] == "1815-12-10"
    first, second, height, some, gone = found.verdicts
    assert (first.property_label, first.value, first.value_id) == ("residence", "London", "Q2")
    assert (first.start, first.end, first.point) == ("1835-07", "1850 (precision 7, coarser than a year)", "1836")
    assert (second.start, second.end) == ("unknown", "unreadable 'raw None' and 2 more")
    assert second.reason == "a qualifier restricts it: P642"
    assert (height.property_label, height.value, height.value_id) == (None, "+1.6", None)
    assert (some.value, some.rank, some.reason) == ("somevalue", "preferred", "its value is unknown")
    assert (gone.value, gone.reason) == ("Q404", "the object is not in the snapshot")


def test_one_property_and_an_entity_without_statements(story: Path):
    snapshot = open_snapshot(story)
    only = explain_entity(snapshot, "Q1", SETTINGS, property="P26").verdicts
    assert {verdict.property_id for verdict in only} == {"P26"} and len(only) == 2
    assert explain_entity(snapshot, "Q7", SETTINGS).verdicts == []


def test_entities_that_are_none(story: Path):
    with pytest.raises(ConfigError, match="'Ada' is not an item id"):
        explain_entity(open_snapshot(story), "Ada", SETTINGS)
    with pytest.raises(DataError, match="Q404 is not in"):
        explain_entity(open_snapshot(story), "Q404", SETTINGS)
