"""Facts of a snapshot as a file that a check reads: every dated fact, those that still hold too."""

import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import fact_id
from anachron.data.own.files import read_given_facts, read_rows
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.explain import explain_entity
from anachron.wikidata.selection.facts import build_facts, selection_of
from anachron.wikidata.selection.rules import preset
from anachron.wikidata.selection.select import select_facts
from wikidata.made import OPEN, UNKNOWN, boundary, entity, property_, statement, write_snapshot

DATED = preset("dated")
NAMES = {**{f"Q{n}": f"thing {n}" for n in range(1, 9)}, "Q9": "Thing 1", "Q10": "thing  2"}  # two that share a name


def snapshot(folder: Path, rows: list[dict], names: dict[str, str] = NAMES, **more: str) -> Path:
    entities = [entity(id, name, created=more.get(id)) for id, name in names.items()]
    return write_snapshot(folder, entities, rows, [property_("P6", "head"), property_("P36", "capital")], [], {})


def random_rows(seed: int) -> list[dict]:
    r = random.Random(seed)

    def side() -> object:
        return r.choice([None, OPEN, UNKNOWN, boundary("1990", precision=8), boundary("1999", values=2), *SIDES * 3])

    rows = [
        statement(f"Q{r.choice([1, 2, 3, 9])}", r.choice(["P6", "P36"]), f"Q{r.randint(3, 10)}", side(), side())
        for _ in range(60)
    ]
    kinds = [{}] * 8 + [{"qualifiers": '{"P447": []}'}, {"snak": "novalue", "value_type": None, "value": None}]
    ranks = ["normal"] * 8 + ["preferred", "deprecated"]
    return [row | {"statement_id": f"s{n}", "rank": r.choice(ranks), **r.choice(kinds)} for n, row in enumerate(rows)]


SIDES = ["1990", "1999", "2005", "2005-03", "1994-02-03", "2024-12"]


def kind_of(row: dict, side: str) -> str:
    kind = (row[side] or {"kind": "absent"})["kind"]
    return "open" if kind == "absent" and side == "end" else kind


def usable(row: dict, side: str) -> bool:
    end = row[side]
    return kind_of(row, side) == "known" and end["values"] == 1 and end["precision"] >= 9


def period(row: dict) -> tuple:
    return tuple((kind_of(row, side), *((row[side] or {}).get(k) for k in ("date", "precision", "values")))
                 if kind_of(row, side) == "known" else kind_of(row, side) for side in ("start", "end"))  # fmt: skip


def naive(rows: list[dict]) -> set[str]:
    """Statements that are kept: one after the other, by what the docs say."""
    known = [row for row in rows if row["rank"] != "deprecated"]
    dated = [
        row for row in known if (row["start"] or row["end"]) and row["snak"] == "value" and row["qualifiers"] == "{}"
    ]
    kept, seen = set(), set()
    for row in sorted(dated, key=lambda row: row["rank"] != "preferred"):
        triple = row["subject"], row["property"], row["value"]
        of_triple = [other for other in dated if (other["subject"], other["property"], other["value"]) == triple]
        if (triple, period(row)) in seen:
            continue
        seen.add((triple, period(row)))
        others = [other for other in of_triple if period(other) != period(row)]
        if any((not usable(o, "start") and not usable(o, "end")) or backwards(o) for o in others):
            continue
        rivals = [other for other in known if (other["subject"], other["property"]) == triple[:2]]
        preferred = [other for other in rivals if other["rank"] == "preferred"]
        replaced = any(other["value"] != row["value"] or kind_of(other, "end") != "open" for other in preferred)
        ended = any(kind_of(o, "end") != "open" and period(o)[0] == period(row)[0] for o in of_triple)
        still = kind_of(row, "end") == "open" and not ended and (row["rank"] == "preferred" or not replaced)
        if usable(row, "start") and (still or (usable(row, "end") and not backwards(row))):
            kept.add(row["statement_id"])
    return kept


def days(row: dict) -> tuple[int, int]:
    return Date.parse(row["start"]["date"]).first_day, Date.parse(row["end"]["date"]).last_day


def backwards(row: dict) -> bool:
    return usable(row, "start") and usable(row, "end") and days(row)[1] < days(row)[0]


@pytest.mark.parametrize("seed", range(12))
def test_the_file_holds_what_a_naive_reading_keeps(tmp_path: Path, seed: int):
    rows, told = random_rows(seed), []
    folder = snapshot(tmp_path / "snapshot", rows)
    selected = select_facts(open_snapshot(folder), DATED)
    assert set(selected.facts["statement_id"]) == naive(rows)
    apart = build_facts(folder, tmp_path / "facts.csv", DATED, preset="dated", warn=told.append)
    written = read_rows(tmp_path / "facts.csv").rows
    # Names are one if they differ in capitals or spaces only: what two entities share in a relation is left out.
    shared = Counter()
    subjects, objects = defaultdict(set), defaultdict(set)
    for row in selected.facts.iter_rows(named=True):
        group = row["relation_id"], " ".join(row["subject_label"].casefold().split())
        subjects[group].add(row["subject_id"])
        objects[*group, " ".join(row["object_label"].casefold().split())].add(row["object_id"])
    expected = set()
    for row in selected.facts.iter_rows(named=True):
        group = row["relation_id"], " ".join(row["subject_label"].casefold().split())
        name = " ".join(row["object_label"].casefold().split())
        alone = len(subjects[group]) == 1 and len(objects[*group, name]) == 1
        shared[alone] += 1
        if alone:
            expected.add(row["statement_id"])
    assert {row["statement_id"] for row in written} == expected == set(apart.facts["statement_id"])
    made = json.loads((tmp_path / "facts.csv.manifest.json").read_text())
    assert made["counts"]["facts"] == len(written)
    explained = [explain_entity(folder, id, facts=tmp_path / "facts.csv").verdicts for id in ("Q1", "Q2", "Q3", "Q9")]
    assert {one.statement_id for verdicts in explained for one in verdicts if one.kept} == naive(rows)
    assert bool(shared[False]) == any(f"{shared[False]} facts are left out" in line for line in told)
    order = [
        (one["subject"].casefold().split(), one["relation_id"], Date.parse(one["start"]).first_day) for one in written
    ]
    assert order == sorted(order)
    # and the reader of a check takes it as it is, one fact an object, with each of its periods
    given = read_given_facts(tmp_path / "facts.csv").facts
    stated = {(row["subject_id"], row["relation_id"], row["object_id"]) for row in written}
    assert {(g.fact.subject_id, g.fact.relation_id, g.fact.object_id) for g in given} == stated
    assert len(given) == len(stated)
    by_id = {row["statement_id"]: row for row in selected.facts.iter_rows(named=True)}
    for one in written:
        fact = by_id[one["statement_id"]]
        ids = (fact["subject_id"], fact["relation_id"], fact["object_id"], fact["start"], fact["end"] or "")
        assert (one["start"], one["end"]) == (fact["start"], fact["end"])
        assert fact["fact_id"] == fact_id(*ids)


def test_what_holds_now_is_what_is_preferred(tmp_path: Path):
    rows = [
        statement("Q1", "P6", "Q3", "1990", "1999", statement_id="past"),
        statement("Q1", "P6", "Q4", "1999", statement_id="forgotten"),  # nobody stated its end
        statement("Q1", "P6", "Q5", "2005", statement_id="now", rank="preferred"),
        statement("Q2", "P6", "Q6", "2005", OPEN, statement_id="stated"),
        statement("Q2", "P36", "Q7", "1990", UNKNOWN, statement_id="ended"),
    ]
    folder = snapshot(tmp_path / "snapshot", rows, Q1="1901-01-01")
    found = build_facts(folder, tmp_path / "facts.csv", DATED)
    assert set(found.facts["statement_id"]) == {"past", "now", "stated"}
    dropped = {reason: n for step in found.steps for reason, n in step["dropped"].items() if n}
    assert dropped == {"no end is stated, but another value is preferred": 1, "the end is unknown": 1}
    written = {row["statement_id"]: row for row in read_rows(tmp_path / "facts.csv").rows}
    assert written["now"] == {
        "subject": "thing 1", "relation": "head", "object": "thing 5", "start": "2005", "end": None, "subject_id": "Q1",
        "relation_id": "P6", "object_id": "Q5", "other_objects": "2", "subject_birth": "1901-01-01",
        "statement_id": "now",
    }  # fmt: skip
    assert selection_of(tmp_path / "facts.csv", open_snapshot(folder))[0] == DATED


NOVALUE = {"snak": "novalue", "value_type": None, "value": None, "rank": "preferred"}
BEST = {"rank": "preferred"}


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([("Q2", "2010"), ("Q3", None, None, BEST)], ""),  # preferred without dates: the other holds no more
        ([("Q2", "2010"), (None, None, None, NOVALUE)], ""),
        ([("Q2", "2010"), (None, None, None, NOVALUE | {"snak": "somevalue"})], ""),
        ([("Q2", "2010"), ("Q3", "2012", None, BEST | {"qualifiers": '{"P447": []}'})], ""),
        ([("Q2", "2010"), ("Q3", "2012", None, {"rank": "deprecated"})], "0"),
        ([("Q4", "2010"), ("Q4", "2010", None, BEST)], "1"),  # said twice
        ([("Q4", "2010", None, BEST), ("Q4", "2010")], "0"),
        ([("Q4", "2010"), ("Q4", None, None, BEST)], "0"),
        ([("Q4", "2010"), ("Q4", "2010", None, BEST), ("Q5", "2012", None, BEST)], "12"),
        ([("Q4", "2010"), ("Q4", "2011", "2015", BEST)], "1"),  # the same value, which ended
        ([("Q4", "2010"), ("Q4", None, UNKNOWN, BEST)], ""),
        ([("Q4", "2010-10-14"), ("Q4", "2010-10-14", "2012-11"), ("Q4", "2012-11", "2017")], "12"),  # an end is stated
        ([("Q4", "2010-10-14", OPEN, BEST), ("Q4", "2010-10-14", "2012-11"), ("Q4", "2024-07")], "12"),
        ([("Q4", "1990-05-06", "1990-05-06"), ("Q5", "1990-05-07", "1990-05-06")], "0"),  # a day
        ([("Q4", None, "1999", {"point": boundary("1999")}), ("Q5", None, None, {"point": boundary("1999")})], ""),
    ],
)  # fmt: skip
def test_which_statements_are_dated_facts(tmp_path: Path, rows: list[tuple], kept: str):
    made = []
    for n, row in enumerate(rows):
        value, start, end, said = (*row, None, {})[:4] if len(row) == 2 else (*row, {})[:4]
        made.append(statement("Q1", "P6", value, start, end, statement_id=str(n)) | said)
    # something else is kept, so that a file is written
    made.append(statement("Q8", "P36", "Q7", "2001", "2002", statement_id="x"))
    folder = snapshot(tmp_path / "snapshot", made)
    found = build_facts(folder, tmp_path / "facts.csv", DATED)
    assert sorted(found.facts["statement_id"]) == [*kept, "x"]
    explained = explain_entity(folder, "Q1", DATED)
    assert sorted(one.statement_id or "" for one in explained.verdicts if one.kept) == [*kept]


def test_a_file_of_no_facts_is_refused(tmp_path: Path):
    names = {"Q1": "Georgia", "Q2": "georgia", "Q3": "Atlanta", "Q4": "Tbilisi"}
    rows = [statement(f"Q{n}", "P36", f"Q{n + 2}", "1990", statement_id=f"s{n}") for n in (1, 2)]
    folder, out = snapshot(tmp_path / "snapshot", rows, names), tmp_path / "facts.csv"
    with pytest.raises(DataError, match=r"2 facts are left out of .* for two entities, and there are no others"):
        build_facts(folder, out, DATED)
    assert not out.exists() and not Path(f"{out}.manifest.json").exists()


def test_facts_without_an_end_go_to_a_csv_alone(tmp_path: Path):
    folder = snapshot(tmp_path / "snapshot", [statement("Q1", "P6", "Q5", "2005")])
    with pytest.raises(ConfigError, match=r"questions of verbalize need an end, .* write a \.csv"):
        build_facts(folder, tmp_path / "facts.parquet", DATED)
    with pytest.raises(DataError, match="no fact of"):
        build_facts(folder, tmp_path / "facts.csv")
    assert not (tmp_path / "facts.csv").exists()
