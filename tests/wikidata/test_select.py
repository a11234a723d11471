"""The selection of facts: a story with every reason, a naive formulation on random snapshots, presets, errors."""

import json
from collections import Counter
from dataclasses import replace
from datetime import date
from math import sqrt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import fact_id
from anachron.data.facts import FACTS_SCHEMA
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.explain import explain_entity
from anachron.wikidata.selection.facts import build_facts
from anachron.wikidata.selection.lookups import property_classes
from anachron.wikidata.selection.rules import PRESETS, Rules, Selection, preset
from anachron.wikidata.selection.select import Selected, emptied_by, select_facts, with_thresholds
from anachron.wikidata.selection.stages import Cut
from wikidata.made import OPEN, UNKNOWN, boundary, entity, property_, statement, write_snapshot
from wikidata.story import (
    EDGES,
    ENTITIES,
    FREE,
    META,
    PROPERTIES,
    RELATIONS,
    RESTRICTIVE,
    SETTINGS,
    SOCIAL,
    STORY,
    TIMES,
    VIEWS,
    random_snapshot,
)  # fmt: skip


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [row for row, _ in STORY]
    return write_snapshot(tmp_path_factory.mktemp("story") / "snapshot", ENTITIES, rows, PROPERTIES, EDGES, VIEWS)


def select(folder: Path, settings: Selection = SETTINGS) -> Selected:
    return select_facts(open_snapshot(folder), settings)


def dropped(found: Selected) -> dict[str, int]:
    """Reason -> statements, over all steps."""
    total: Counter[str] = Counter()
    for step in found.steps:
        total.update(step["dropped"])
    return {reason: count for reason, count in total.items() if count}


def check_sums(found: Selected) -> None:
    """What goes into a step comes out of it or is dropped, for statements and for subjects."""
    before: tuple[int, int] | None = None
    for step in found.steps:
        assert before in (None, (step["statements_in"], step["subjects_in"]))
        assert step["statements_in"] == step["statements_kept"] + sum(step["dropped"].values())
        assert step["subjects_in"] == step["subjects_kept"] + step["subjects_dropped"]
        before = step["statements_kept"], step["subjects_kept"]
    assert before == (found.facts.height, found.facts["subject_id"].n_unique())


def test_the_story_has_every_reason():
    told = {reason for _, reason in STORY if reason}
    assert {reason.text for step in Rules(SETTINGS, "enwiki").steps for reason in step.reasons} == told


def test_each_reason_drops_what_the_story_says(story: Path):
    found = select(story)
    assert dropped(found) == Counter(reason for _, reason in STORY if reason)
    assert set(found.facts["statement_id"]) == {row["statement_id"] for row, reason in STORY if reason is None}
    check_sums(found)
    assert found.steps[0]["statements_in"] == len(STORY)
    assert found.steps[0]["subjects_in"] == len({row["subject"] for row, _ in STORY})


def test_a_fact_has_all_its_columns(story: Path):
    facts = select(story).facts
    assert dict(facts.schema) == FACTS_SCHEMA
    assert facts.row(by_predicate=pl.col("object_id") == "Q6", named=True) == {
        "fact_id": fact_id("Q1", "P39", "Q6", *TIMES),
        "subject_id": "Q1", "subject_label": "Ada", "subject_description": "about Q1",
        "relation_id": "P39", "relation_label": "relation P39", "relation_description": "about P39",
        "object_id": "Q6", "object_label": "label of Q6", "object_description": "about Q6",
        "start": "1990-05", "end": "1999", "popularity": sqrt(400_000 * 90_000), "subject_popularity": 400_000.0,
        "object_popularity": 90_000.0, "other_objects": 2, "subject_from": None, "object_from": "1950-02",
        "statement_id": "Q1$0", "subject_kind": None, "subject_revision": None, "subject_modified": None,
        "references": None,
    }  # fmt: skip  # other objects: Q22 and the form; neither restricted nor deprecated nor unknown ones
    ranked = [(-row["popularity"], row["fact_id"]) for row in facts.iter_rows(named=True)]
    assert ranked == sorted(ranked)


def test_a_snapshot_of_all_wikis_asks_for_no_title(tmp_path: Path):
    rows = [statement("Q3", "P39", "Q6", *TIMES)]
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES, wiki="all")
    assert select(folder, Selection(popularity=False)).facts["subject_id"].to_list() == ["Q3"]


def test_the_classes_of_a_subject_say_what_it_is(tmp_path: Path):
    others = [row for row in ENTITIES if row["id"] != "Q3"]
    rows = [statement("Q3", "P39", "Q6", *TIMES), statement("Q1", "P39", "Q6", *TIMES)]
    ship = entity("Q3", "Titanic", classes=["Q11446", "Q424242"])
    folder = write_snapshot(tmp_path / "s", [*others, ship], rows, PROPERTIES, wiki="all")
    facts = select(folder, Selection(popularity=False)).facts
    assert dict(facts.select("subject_id", "subject_kind").iter_rows()) == {"Q3": "ship", "Q1": None}


def test_several_periods_can_be_kept(tmp_path: Path):
    rows = [
        statement("Q1", "P39", "Q22", "1990", "1995"),
        statement("Q1", "P39", "Q22", "1997", "2004-05"),
        statement("Q1", "P39", "Q22", "1997", "2004-05"),
        statement("Q1", "P39", "Q22", "2015"),
        statement("Q1", "P39", "Q22", boundary("1950", precision=8), "1960"),
        statement("Q1", "P39", "Q23", "1990", "1995"),
        statement("Q1", "P39", "Q24", "1990", "1995"),
        statement("Q1", "P39", "Q24", UNKNOWN, boundary("1900", precision=7)),
        statement("Q1", "P39", "Q25", "1990", "1995"),
        statement("Q1", "P39", "Q25", "2005", "2001"),
    ]
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES)
    found = select(folder, Selection(popularity=False, several_periods="keep"))
    check_sums(found)
    others = {(r["object_id"], r["start"]): r["other_periods"] for r in found.facts.iter_rows(named=True)}
    later, open_, early = [
        {"start": "1997", "end": "2004-05"},
        {"start": "2015", "end": None},
        {"start": None, "end": "1960"},
    ]
    assert others == {
        ("Q22", "1990"): [later, open_, early],
        ("Q22", "1997"): [{"start": "1990", "end": "1995"}, open_, early],
        ("Q23", "1990"): [],
    }
    assert dropped(found) == {
        "the same fact is stated before": 1, "another of its periods cannot be placed": 2, "the end is not stated": 1,
        "it ends before it starts": 1, "the start is unknown": 1, "start or end is coarser than a year": 1,
    }  # fmt: skip
    alone = select(folder, Selection(popularity=False))
    assert "other_periods" not in alone.facts.columns and alone.facts["object_id"].to_list() == ["Q23"]


def test_the_threshold_is_lowered_until_more_than_enough_pass(tmp_path: Path):
    views = {f"Q{n}": 1000.0 * n for n in range(20, 29)}  # facts of n and n: popularity 1,000 n
    rows = [statement(f"Q{n}", "P39", f"Q{n}", *TIMES) for n in range(20, 29)]
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES, popularity=views)
    for more_than in (0, 3, 8, 9):
        settings = Selection(highest_popularity=30_000, popularity_step=4_000, more_than=more_than)
        found = select(folder, settings)
        passing = {t: sum(v >= t for v in views.values()) for t in (30_000, 26_000, 22_000, 18_000)}
        expected = next((t for t, count in passing.items() if count > more_than), 0 if more_than < 9 else None)
        assert found.cut.threshold == expected
        assert found.facts.height == sum(v >= (expected or 0) for v in views.values())
    assert found.cut.threshold is None  # nine facts are not more than nine: all are kept


def test_few_facts_need_no_page_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    views = {"Q20": 100.0, "Q21": 400.0, "Q22": 9.0}
    rows = [statement(f"Q{n}", "P39", f"Q{n + 1}", *TIMES) for n in range(20, 24)]
    few, one_less = Selection(more_than=4), Selection(more_than=3)
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES, popularity=views)
    facts = build_facts(folder, tmp_path / "f.parquet", few).facts
    assert facts["popularity"].to_list() == [200.0, 60.0, None, None]  # Q23 and Q24 have none
    assert facts.filter(pl.col("object_id") == "Q23")["subject_popularity"].to_list() == [9.0]
    assert select(folder, one_less).facts["popularity"].to_list() == [200.0, 60.0]
    split = write_snapshot(tmp_path / "split", ENTITIES, rows, PROPERTIES, buckets=3)
    small = write_snapshot(tmp_path / "small", ENTITIES, rows, PROPERTIES, buckets=1)
    assert select(split, few).facts.equals(select(small, few).facts)
    for settings in (one_less, Selection(min_popularity=0)):
        with pytest.raises(DataError, match=r"no popularity\.parquet"):
            select(small, settings)
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.selection.select.SMALL", 3)  # of a large snapshot it is not tried
        with pytest.raises(DataError, match=r"no popularity\.parquet"):
            select(small, few)
    told: list[str] = []
    build_facts(folder, tmp_path / "less.parquet", one_less, warn=told.append)
    assert told == ["all facts with page views are kept, as few are popular; 2 without any are left out"]
    told.clear()
    build_facts(small, tmp_path / "small.parquet", few, warn=told.append)
    assert pl.read_parquet(tmp_path / "small.parquet").equals(select(folder, Selection(popularity=False)).facts)
    assert told == ["not more than 4 facts, so all are kept, 4 without page views among them"]
    for path, snapshot in ((tmp_path / "f.parquet", folder), (tmp_path / "small.parquet", small)):
        made = explain_entity(snapshot, "Q22", facts=path).verdicts
        assert [verdict.kept for verdict in made] == [True]
    pl.DataFrame({"id": ["Q20"], "popularity": [1.0]}).write_parquet(small / "popularity.parquet")
    with pytest.raises(ConfigError, match="was cut by other page views"):
        explain_entity(small, "Q22", facts=tmp_path / "small.parquet")


def test_the_most_popular_of_each_relation_are_kept_and_ties_go_by_id(tmp_path: Path):
    views = dict.fromkeys([f"Q{n}" for n in range(20, 29)], 100.0) | {"Q20": 900.0}
    pairs = [("P39", n, n + 1) for n in range(20, 28)] + [("P6", 20, 24)]
    rows = [statement(f"Q{s}", p, f"Q{o}", *TIMES) for p, s, o in pairs]
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES, popularity=views)
    found = select(folder, Selection(top_per_relation=3))
    ids = sorted(fact_id(f"Q{s}", p, f"Q{o}", *TIMES) for p, s, o in pairs[1:8])
    kept = {fact_id("Q20", "P39", "Q21", *TIMES), *ids[:2], fact_id("Q20", "P6", "Q24", *TIMES)}
    assert set(found.facts["fact_id"]) == kept
    assert found.cut.last == {"P39": (100.0, ids[1])}
    check_sums(found)


def test_strata_draw_rare_facts_too(tmp_path: Path):
    """TimeStress, limitations: robustness of less popular facts. Each power of ten has as many, by their hashed ids."""
    ends = [f"Q{n}" for n in range(20, 29)]
    views = dict(zip(ends, [1000.0, 999.0, 1001.0, 100.0, 100.0, 0.0, 9.0, 0.5, 5000.0], strict=True))
    pairs = [("P39", n, m) for n in range(20, 29) for m in range(20, 29) if n < m]
    rows = [statement(f"Q{s}", p, f"Q{o}", *TIMES) for p, s, o in pairs]
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES, popularity=views)
    strata: dict[int, list[str]] = {}
    for p, s, o in pairs:
        product = views[f"Q{s}"] * views[f"Q{o}"]
        power = next(k for k in range(9) if product < 100.0 ** (k + 1))  # the popularity is the root of the product
        strata.setdefault(power, []).append(fact_id(f"Q{s}", p, f"Q{o}", *TIMES))
    assert sorted(strata) == [0, 1, 2, 3] and {len(ids) > 5 for ids in strata.values()} == {True, False}
    found = select(folder, Selection(per_stratum=5))
    assert set(found.facts["fact_id"]) == {id for ids in strata.values() for id in sorted(ids)[:5]}
    assert found.cut.strata == {k: sorted(ids)[4] for k, ids in strata.items() if len(ids) > 5}
    assert Cut.from_json(json.loads(json.dumps(found.cut.as_json()))) == found.cut
    above = select(folder, Selection(per_stratum=5, min_popularity=50.0))
    assert above.facts["popularity"].min() >= 50 and 50 <= above.facts["popularity"].min() < 1000
    check_sums(found)


def test_the_presets_are_the_papers():
    assert preset("timestress") == Selection()
    # TimeStress: past facts before 2021, days // 30 > 37, thresholds from 150,000 by 10,000 until more than 2,000
    assert (Selection().ended_before, Selection().banned, Selection().more_than) == (2021, ("P47",), 2000)
    assert (Selection().highest_popularity, Selection().popularity_step) == (150_000, 10_000)
    assert Selection().least_days // 30 > 37 >= (Selection().least_days - 1) // 30
    earlier = PRESETS["robustness-2025"]
    assert earlier.relations == RELATIONS and len(set(earlier.relations)) == 6
    assert (earlier.first_year, earlier.ended_before, earlier.top_per_relation) == (1950, 2021, 100)
    with pytest.raises(ConfigError, match="timestress, robustness-2025"):
        preset("timestres")


def test_the_earlier_paper_counts_closed_periods_only(tmp_path: Path):
    rows = [
        statement("Q1", "P39", "Q2", "1990", "1999"),
        statement("Q1", "P39", "Q2", "2005", OPEN),  # holds again
        statement("Q1", "P39", "Q3", "1960", "1965"),
        statement("Q1", "P39", "Q3", "1970", "1975"),
        statement("Q1", "P39", "Q3", "1980"),
        statement("Q1", "P39", "Q4", "1990", UNKNOWN),
    ]
    views = {f"Q{n}": 10.0 for n in range(1, 5)}
    folder = write_snapshot(tmp_path / "s", [entity(id) for id in views], rows, [property_("P39")], popularity=views)
    later, earlier = select(folder, preset("timestress")), select(folder, preset("robustness-2025"))
    assert later.facts.height == 0 and earlier.facts["object_id"].to_list() == ["Q2"]
    kept = [
        [(s["step"], s["statements_kept"]) for s in found.steps if s["step"] in ("one period", "closed periods")]
        for found in (later, earlier)
    ]
    assert kept == [[("one period", 1), ("closed periods", 0)], [("closed periods", 3), ("one period", 1)]]


@pytest.mark.parametrize(("start", "end", "kept"), [
    ("1950", "1952", True), ("1949-12-31", "1960", False), ("1950-01-01", "1951-12-31", False),
    ("1996", "1997", False), ("1995-12-31", "1998-01-01", True), ("2017-12-31", "2020-12-31", True),
    ("2015", "2021", False),
])  # fmt: skip
def test_the_earlier_preset_keeps_periods_inside_its_years(tmp_path: Path, start: str, end: str, kept: bool):
    rows = [statement("Q1", "P39", "Q6", start, end), statement("Q1", "P26", "Q6", "1990", "1999")]
    folder = write_snapshot(tmp_path / "s", ENTITIES, rows, PROPERTIES, popularity=VIEWS)
    facts = select(folder, preset("robustness-2025")).facts
    assert facts["relation_id"].to_list() == ["P39"] * kept


def test_classes_of_properties_are_followed_to_the_depth():
    table = pl.DataFrame(
        {"id": ["P1", "P2"], "classes": [["Q1"], []]}, schema_overrides={"classes": pl.List(pl.String)}
    )
    edges = [("Q1", "Q2"), ("Q2", "Q3"), ("Q3", "Q1"), ("Q1", "Q4"), ("Q9", "Q8")]
    frame = pl.DataFrame(edges, schema=["child", "parent"], orient="row").lazy()
    for depth, classes in (
        (1, {"Q1"}),
        (2, {"Q1", "Q2", "Q4"}),
        (3, {"Q1", "Q2", "Q3", "Q4"}),
        (9, {"Q1", "Q2", "Q3", "Q4"}),
    ):
        assert property_classes(table, frame, depth) == {"P1": classes, "P2": set()}


# The selection once more, statement by statement over dictionaries: only what decides, in the order of the steps.


def days(text: str) -> tuple[date, date]:
    year, month, day = ([int(part) for part in text.split("-")] + [0, 0])[:3]
    following = date(year + month // 12, month % 12 + 1, 1) if month else date(year + 1, 1, 1)
    first = date(year, month or 1, day or 1)
    return first, first if day else date.fromordinal(following.toordinal() - 1)


def period_of(row: dict[str, Any]) -> tuple[Any, ...]:
    key: list[Any] = []
    for side in ("start", "end"):
        b = row[side]
        if b is None:
            key.append(None)
        else:
            key.append((b["kind"], b["date"], b["precision"] if (b["precision"] or 9) < 9 else 9, b["values"] > 1))
    return tuple(key)


def naive(
    entities: list[dict], statements: list[dict], properties: list[dict], edges: list[tuple[str, str]],
    views: dict[str, float], settings: Selection,
) -> tuple[dict[str, str], dict[str, dict]]:  # fmt: skip
    """Statement -> step that dropped it; statement -> fact, for those that are kept."""
    known = {e["id"]: e for e in entities}
    about = {p["id"]: p for p in properties}

    def up(property: str) -> set[str]:
        found, level = set[str](), set(about[property]["classes"]) if property in about else set()
        for _ in range(settings.class_depth):
            found |= level
            level = {parent for child, parent in edges if child in level}
        return found

    def page(id: str) -> bool:
        labels = [known[c]["label"] or "" for c in (known[id]["classes"] if id in known else []) if c in known]
        return any(word in label for label in labels for word in settings.barred_words)

    def restricts(property: str) -> bool:
        if property in ("P580", "P582", "P585"):
            return False
        own = up(property)
        return property == "P447" or SOCIAL in own or (RESTRICTIVE in own and FREE not in own)

    steps: dict[str, str] = {}
    clean, dated = [], []
    for row in statements:
        type_ = row["datatype"] or about.get(row["property"], {}).get("datatype")
        checks = [
            ("ranks", row["rank"] == "deprecated"),
            ("datatypes", type_ in ("url", "external-id", "commonsMedia", "globe-coordinate")),
            ("pages", known[row["subject"]]["title"] is None or page(row["subject"])
             or (row["value_type"] == "entity" and page(row["value"]))),
            ("meta properties", META in up(row["property"])),
            ("known values", row["snak"] != "value"),
            ("restricted statements", any(restricts(q) for q in json.loads(row["qualifiers"]))),
            ("cleaned", False),
            ("dated relations of entities", row["value_type"] != "entity" or row["value"][0] != "Q"
             or (row["start"] is None and row["end"] is None)),
            ("relations", row["property"] in settings.banned
             or bool(settings.relations and row["property"] not in settings.relations)),
        ]  # fmt: skip
        gone = next((name for name, holds in checks if holds), None)
        if gone is None:
            dated.append(row)
        else:
            steps[row["statement_id"]] = gone
        if gone in (None, "dated relations of entities", "relations"):
            clean.append(row)
    facts: dict[str, dict] = {}
    seen = set()
    for row in dated:
        triple = row["subject"], row["property"], row["value"]
        same_triple = [r for r in dated if (r["subject"], r["property"], r["value"]) == triple]
        periods = {period_of(r) for r in same_triple}
        bounded = [r for r in same_triple if all(r[s] and r[s]["kind"] == "known" for s in ("start", "end"))]
        start, end = row["start"] or {"kind": "absent"}, row["end"] or {"kind": "absent"}
        same = (triple, period_of(row)) in seen
        seen.add((triple, period_of(row)))
        step = None
        if settings.several_periods == "drop-closed":
            if row not in bounded:
                step = "closed periods"
            elif len({period_of(r) for r in bounded}) > 1 or same:
                step = "one period"
        elif len(periods) > 1 or same:
            step = "one period"
        if step:
            pass
        elif start["kind"] != "known" or end["kind"] != "known":
            step = "closed periods"
        elif any(b["values"] > 1 or b["date"] is None or b["precision"] < 9 for b in (start, end)):
            step = "dates"
        elif days(end["date"])[1] >= date(settings.ended_before, 1, 1):
            step = f"ended before {settings.ended_before}"
        elif settings.ended_since and days(end["date"])[1] < date(settings.ended_since, 1, 1):
            step = f"ended since {settings.ended_since}"
        elif settings.first_year and days(start["date"])[0] < date(settings.first_year, 1, 1):
            step = f"started since {settings.first_year}"
        elif (days(end["date"])[1] - days(start["date"])[0]).days < settings.least_days:
            step = "length"
        elif any(known.get(i, {}).get("label") is None for i in (row["subject"], row["value"])) or (
            about.get(row["property"], {}).get("label") is None
        ):
            step = "labels"
        unviewed = settings.popularity and not {row["subject"], row["value"]} <= set(views)
        if step:
            steps[row["statement_id"]] = step
            continue
        others = {r["value"] for r in clean if (r["subject"], r["property"]) == triple[:2]} - {row["value"]}
        known_views = settings.popularity and not unviewed
        popularity = sqrt(views[row["subject"]] * views[row["value"]]) if known_views else None
        id = fact_id(*triple, start["date"], end["date"])
        facts[row["statement_id"]] = {
            "fact_id": id, "popularity": popularity, "other_objects": len(others), "relation_id": row["property"]
        }  # fmt: skip
    threshold = settings.min_popularity
    few = settings.lowers_threshold and len(facts) <= settings.more_than  # then none needs page views
    for id in [id for id, fact in facts.items() if settings.popularity and not few and fact["popularity"] is None]:
        steps[id] = "page views"
        del facts[id]
    if settings.lowers_threshold and not few:
        threshold = settings.highest_popularity
        while threshold > 0 and sum(f["popularity"] >= threshold for f in facts.values()) <= settings.more_than:
            threshold = max(0, threshold - settings.popularity_step)
    ranked = sorted(facts, key=lambda s: (-(facts[s]["popularity"] or 0), facts[s]["fact_id"]))
    popular, named = ({id: fact[name] for id, fact in facts.items()} for name in ("popularity", "fact_id"))
    taken: Counter[str] = Counter()
    for id in ranked:
        taken[facts[id]["relation_id"]] += 1
        behind = settings.top_per_relation and taken[facts[id]["relation_id"]] > settings.top_per_relation
        of_stratum = [o for o in ranked if settings.per_stratum and power_of(popular[o]) == power_of(popular[id])]
        drawn = sorted(of_stratum, key=lambda o: named[o])[: settings.per_stratum]
        behind = behind or (of_stratum and id not in drawn)
        if (threshold is not None and facts[id]["popularity"] < threshold) or behind:
            steps[id] = "popularity"
            del facts[id]
    return steps, facts


def power_of(popularity: float) -> int:
    """Digits before the point, less one."""
    return len(str(int(popularity))) - 1


VARIANTS = [
    Selection(more_than=8),
    Selection(popularity=False, banned=(), ended_before=2016, class_depth=2),
    replace(PRESETS["robustness-2025"], top_per_relation=2, first_year=1991),
    Selection(several_periods="drop-closed", popularity=False, ended_before=2019, least_days=1),
    Selection(per_stratum=2, least_days=400),
    Selection(popularity=False, least_days=1, ended_since=2012),
    Selection(min_popularity=50_000, least_days=400, relations=("P39", "P27"), barred_words=("city",)),
]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_it_equals_the_naive_formulation(tmp_path: Path, seed: int):
    made = random_snapshot(seed)
    folder = write_snapshot(tmp_path / "s", *made[:4], popularity=made[4], buckets=3)
    entities, rows, properties, edges, views = made
    for settings in VARIANTS:
        found = select(folder, settings)
        steps, facts = naive(entities, rows, properties, edges, views, settings)
        counted = {step["step"]: sum(step["dropped"].values()) for step in found.steps}
        assert {name: count for name, count in counted.items() if count} == Counter(steps.values())
        ours = {r["statement_id"]: r for r in found.facts.iter_rows(named=True)}
        assert set(ours) == set(facts)
        for id, fact in facts.items():
            assert {name: ours[id][name] for name in fact} == pytest.approx(fact)
        check_sums(found)


def test_the_number_of_buckets_and_the_order_of_subjects_change_nothing(tmp_path: Path):
    entities, rows, properties, edges, views = random_snapshot(7)
    settings = Selection(more_than=5)
    one = write_snapshot(tmp_path / "1", entities, rows, properties, edges, views, buckets=1)
    other = write_snapshot(
        tmp_path / "2", entities[::-1], sorted(rows, key=lambda r: r["subject"]), properties, edges, views, buckets=7
    )
    a, b = select(one, settings), select(other, settings)
    assert a.facts.equals(b.facts) and a.steps == b.steps and a.cut == b.cut
    assert a.facts.height


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [1, 7, 40])
def test_the_size_of_slices_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int):
    made = random_snapshot(5)
    rows = made[1][:60] if size == 1 else made[1]
    folder = write_snapshot(tmp_path / "s", made[0], rows, *made[2:4], popularity=made[4], buckets=2)
    settings = Selection(more_than=5)
    whole = select(folder, settings)
    monkeypatch.setattr("anachron.wikidata.selection.tally.SLICE", size)
    sliced = select(folder, settings)
    assert sliced.facts.equals(whole.facts) and sliced.steps == whole.steps


def test_nothing_left_names_the_step(story: Path):
    found = select(story, Selection(min_popularity=1e12))
    assert found.facts.height == 0 and dict(found.facts.schema) == FACTS_SCHEMA
    assert "'popularity'" in emptied_by(found.steps) and "less popular" in emptied_by(found.steps)
    assert "'ended before 1000'" not in emptied_by(select(story, Selection(ended_before=-50)).steps)
    assert "'relations'" in emptied_by(select(story, Selection(relations=("P1",))).steps)


def test_missing_page_views_are_named(tmp_path: Path):
    folder = write_snapshot(tmp_path / "s", ENTITIES, [statement("Q1", "P39", "Q6", *TIMES)], PROPERTIES)
    with pytest.raises(DataError, match=r"wikidata pageviews.*--no-popularity"):
        select(folder)
    (row,) = select(folder, Selection(popularity=False)).facts.iter_rows(named=True)
    assert [row[name] for name in ("popularity", "subject_popularity", "object_popularity")] == [None] * 3


def test_an_empty_snapshot_has_no_facts(tmp_path: Path):
    found = select(write_snapshot(tmp_path / "s", [], [], []), Selection(popularity=False))
    assert found.facts.height == 0
    assert emptied_by(found.steps) == "the snapshot has no statements"


@pytest.mark.parametrize(
    ("wiki", "options", "words"),
    [
        (
            "enwiki",
            {},
            "no item with statements and a title in enwiki; ingest another dump or the same with another --wiki",
        ),
        ("all", {}, "no item with statements; ingest another dump"),
        ("all", {"limit": 3}, "no item with statements; ingest another dump or the same without --limit"),
        (
            "frwiki",
            {"entities": {"ids": 1}},
            "no item with statements and a title in frwiki; ingest another dump or the same with another --wiki or the "
            "same without --entities",
        ),
    ],
)
def test_facts_of_an_empty_snapshot_are_refused_in_words_that_fit(tmp_path: Path, wiki: str, options: Any, words: str):
    """There is no threshold that could be changed, as there is where a step left nothing."""
    folder = write_snapshot(tmp_path / "s", ENTITIES, [], PROPERTIES, wiki=wiki)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["options"] |= options
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError) as refused:
        build_facts(folder, tmp_path / "f.parquet", Selection(popularity=False))
    assert str(refused.value) == f"no fact of {folder} is left: the snapshot has no statements, as it has {words}"
    assert not (tmp_path / "f.parquet").exists()


def test_facts_that_a_step_leaves_none_of_are_refused_with_that_step(tmp_path: Path):
    folder = write_snapshot(tmp_path / "s", ENTITIES, [statement("Q1", "P39", "Q6", *TIMES)], PROPERTIES)
    with pytest.raises(
        DataError, match=r"the step 'relations' dropped the last 1 statements .*change what that step asks"
    ):
        build_facts(folder, tmp_path / "f.parquet", Selection(popularity=False, relations=("P1",)))


def test_a_damaged_snapshot_is_noticed(tmp_path: Path):
    folder = write_snapshot(tmp_path / "s", ENTITIES, [statement("Q1", "P39", "Q6", *TIMES)], PROPERTIES)
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"statements": 1', '"statements": 2'))
    with pytest.raises(DataError, match="holds 1 statements, its manifest says 2"):
        select(folder, Selection(popularity=False))


def test_a_file_that_is_cut_off_or_of_something_else_is_named(tmp_path: Path):
    folder = write_snapshot(tmp_path / "s", ENTITIES, [statement("Q1", "P39", "Q6", *TIMES)], PROPERTIES)
    part = folder / "statements" / "part-002.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"part-002\.parquet cannot be read"):
        select(folder, Selection(popularity=False))
    pl.DataFrame({"subject": ["Q1"]}).write_parquet(part)
    with pytest.raises(DataError, match=r"part-002\.parquet lacks the columns property, statement_id, rank, datatype"):
        select(folder, Selection(popularity=False))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"relations": ("position",)}, "'position' is not a property id"),
        ({"relations": ("P47",)}, "P47 is both chosen and banned"),
        ({"several_periods": "both"}, "choose 'drop', 'drop-closed' or 'keep'"),
        ({"first_year": 2021}, "cannot end before 2021"),
        ({"ended_before": 0}, "no year 0"),
        ({"ended_since": 2021}, "do not end before 2021"),
        ({"least_days": -1}, "0 or more"),
        ({"popularity": False, "min_popularity": 5.0}, "needs popularity"),
        ({"min_popularity": -1.0}, "0 or more"),
        ({"min_popularity": float("nan")}, "0 or more"),
        ({"popularity_step": 0}, "step must be above 0"),
        ({"top_per_relation": 0}, "1 or more"),
        ({"per_stratum": 0}, "per stratum 0: give 1 or more"),
        ({"per_stratum": 4, "top_per_relation": 3}, "per stratum 4 and top per relation 3: choose one"),
        ({"per_stratum": 4, "popularity": False}, "needs popularity"),
        ({"class_depth": 0}, "1 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        Selection(**wrong)


def test_given_thresholds_take_the_place_of_a_presets():
    earlier = PRESETS["robustness-2025"]
    assert with_thresholds(earlier) == earlier
    assert with_thresholds(earlier, least_days=5, min_popularity=None).least_days == 5
    assert with_thresholds(earlier, min_popularity=7.0).top_per_relation is None
    assert with_thresholds(earlier, per_stratum=7).top_per_relation is None
    with pytest.raises(ConfigError, match="more than 5 needs a search, and per stratum 7 decides without one"):
        with_thresholds(preset("timestress"), per_stratum=7, more_than=5)
    assert with_thresholds(earlier, min_popularity=7.0, top_per_relation=4).top_per_relation == 4
    assert not with_thresholds(earlier, popularity=False).popularity
