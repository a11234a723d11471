"""Alignment of statements against every possible pairing; redirects, groups and scenarios against plain loops."""

import itertools
import json
import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import SCENARIOS, scenario_of
from anachron.wikidata.updates.diff import align, similarity
from anachron.wikidata.updates.groups import Sieve, scenarios, understood, without_duplicates
from anachron.wikidata.updates.redirects import follow, merged_by, read_redirects
from anachron.wikidata.updates.triples import KEPT, days_of
from wikidata.made import STATEMENTS, boundary, statement

SCHEMA = {"position": pl.Int64} | {name: STATEMENTS[name] for name in KEPT if name != "position"}


def triples(rows) -> pl.DataFrame:
    made = [{name: row.get(name) for name in KEPT} | {"position": n} for n, row in enumerate(rows)]
    return pl.DataFrame(made, schema=SCHEMA)


def flags(old, new):
    found = align(triples(old), triples(new))
    return [
        (row["subject"], row["property"], row["value"], row["flag"], row["old_statement_id"], row["statement_id"])
        for row in found.iter_rows(named=True)
    ]


def random_side(chance: random.Random, name: str):
    rows = []
    for number in range(chance.randint(0, 7)):
        qualifiers = {p: [["value", chance.choice("ab")]] for p in chance.sample(["P1", "P2", "P3"], 2)}
        start = chance.choice([None, "1990", "1991"])
        id = chance.choice([None, f"{name}{number}", f"shared{chance.randint(0, 3)}"])
        rows.append(
            statement("Q1", "P39", chance.choice(["Q5", "Q6"]), start, statement_id=id, qualifiers=qualifiers)
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_every_statement_is_in_one_place_and_duplicates_pair_by_id_then_by_qualifiers(seed):
    chance = random.Random(seed)
    old, new = random_side(chance, "o"), random_side(chance, "n")
    found = align(triples(old), triples(new))
    for value in ("Q5", "Q6"):
        before = [row for row in old if row["value"] == value]
        after = [row for row in new if row["value"] == value]
        own = found.filter(pl.col("value") == value)
        both = own.filter(pl.col("flag") == "both").height
        assert both == min(len(before), len(after))
        assert own.height == len(before) + len(after) - both
        # pairs by hand: all that share an id first, the rest by falling similarity, ties by order
        pairs, taken = [], (set(), set())
        ranked = sorted(
            itertools.product(range(len(before)), range(len(after))),
            key=lambda p: (not _same_id(before[p[0]], after[p[1]]), -_alike(before[p[0]], after[p[1]]), p),
        )
        for o, n in ranked:
            if o not in taken[0] and n not in taken[1]:
                taken[0].add(o)
                taken[1].add(n)
                pairs.append((before[o]["statement_id"], before[o]["qualifiers"], after[n]["statement_id"]))
        got = own.filter(pl.col("flag") == "both").select("old_statement_id", "old_qualifiers", "statement_id").rows()
        assert sorted(got, key=str) == sorted(pairs, key=str)


def _same_id(one, other):
    return one["statement_id"] is not None and one["statement_id"] == other["statement_id"]


def _alike(one, other):
    told = []
    for row in (one, other):
        pairs = {(p, json.dumps(v)) for p, values in json.loads(row["qualifiers"]).items() for v in values}
        told.append(pairs | ({("start", row["start"]["date"])} if row["start"] else set()))
    union = told[0] | told[1]
    return len(told[0] & told[1]) / len(union) if union else 1.0


def test_what_makes_two_values_the_same():
    def time(precision, calendar, raw):
        return statement("Q1", "P569", "1900", value_type="time", value_precision=precision, value_calendar=calendar,
                         value_extra=raw, statement_id=None)  # fmt: skip

    def amount(value, unit):
        return statement("Q1", "P2048", value, value_type="quantity", value_extra=unit, statement_id=None)

    one = time(9, "gregorian", "+1900-00-00T00:00:00Z")
    assert [f[3] for f in flags([one], [dict(one)])] == ["both"]
    others = [time(8, "gregorian", "+1900-00-00T00:00:00Z"), time(9, "julian", "+1900-00-00T00:00:00Z")]
    for other in others:
        assert [f[3] for f in flags([one], [other])] == ["old", "new"]
    assert [f[3] for f in flags([amount("+1", None)], [amount("+1", "Q11573")])] == ["old", "new"]
    assert [f[3] for f in flags([amount("+1", "Q11573")], [amount("+1", "Q11573")])] == ["both"]


def test_a_changed_value_rank_or_qualifier_is_told_apart_by_the_statement_id():
    old = [
        statement("Q1", "P19", "Q5", statement_id="a"),
        statement("Q1", "P39", "Q6", statement_id="b"),
        statement("Q1", "P39", "Q7", statement_id="c"),
        statement("Q1", "P39", "Q8", statement_id="d"),
    ]
    new = [
        statement("Q1", "P19", "Q9", statement_id="a"),
        statement("Q1", "P39", "Q6", "1990", statement_id="b"),
        statement("Q1", "P39", "Q7", statement_id="c", rank="preferred"),
        statement("Q1", "P39", "Q8", statement_id="d"),
    ]
    found = align(triples(old), triples(new))
    assert found.select("value", "flag", "change").rows() == [
        ("Q5", "old", "value"), ("Q9", "new", "value"), ("Q6", "both", "qualifiers"), ("Q7", "both", "rank"),
        ("Q8", "both", None),
    ]  # fmt: skip


def test_a_triple_of_both_carries_the_dates_of_both_and_an_old_one_none_of_the_new():
    found = align(
        triples([statement("Q1", "P39", "Q5", "1990"), statement("Q1", "P39", "Q6", "1980", "1985")]),
        triples([statement("Q1", "P39", "Q5", "1990", "1999")]),
    )
    both, old = (
        found.filter(pl.col("flag") == "both").row(0, named=True),
        found.filter(pl.col("flag") == "old").row(0, named=True),
    )
    assert (both["start"]["date"], both["end"]["date"], both["old_end"]) == ("1990", "1999", None)
    assert old["start"] is old["end"] is None and old["old_end"] == boundary("1985")


@given(st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))))
def test_similarity_of_qualifiers(one):
    assert similarity(one, one) == 1
    assert similarity(one, set()) == (0 if one else 1)
    other = {("q", "q"), *one}
    assert similarity(one, other) == similarity(other, one) == len(one) / len(other)


def test_days_are_those_of_the_first_day_of_a_date():
    texts = ["2021", "2021-03", "2021-03-04", None, "-0044", "2021"]
    expected = [None if t is None else Date.parse(t).first_day for t in texts]
    assert days_of(pl.Series(texts)).to_list() == expected
    assert days_of(pl.Series([None], dtype=pl.String)).to_list() == [None]


def test_redirects_are_followed_to_their_end_and_leave_no_fact_twice(tmp_path: Path):
    path = tmp_path / "merged.csv"
    path.write_text("item,into\nQ1,Q2\n Q2 , Q3\n\nQ7,Q3\n")
    direct = read_redirects(path)
    found = merged_by(direct, {"Q1", "Q2", "Q7", "Q99"})
    assert found == {"Q1": "Q3", "Q2": "Q3", "Q7": "Q3"}
    assert merged_by(direct, {"Q1", "Q7"}) == {"Q1": "Q2", "Q7": "Q3"}  # Q2 was merged later
    tabs = tmp_path / "merged.tsv"
    tabs.write_text("Q1\tQ3\nQ2\tQ3\nQ7\tQ3\n")
    assert read_redirects(tabs) == found
    rows = [
        statement("Q1", "P39", "Q9"), statement("Q3", "P39", "Q9"), statement("Q8", "P27", "Q7"),
        statement("Q8", "P27", "Q2"), statement("Q8", "P31", "Q5"), statement("Q8", "P1", "Q7", value_type="text"),
    ]  # fmt: skip
    followed, told = follow(triples(rows), found)
    assert followed.select("subject", "property", "value").rows() == [
        ("Q3", "P39", "Q9"), ("Q3", "P39", "Q9"), ("Q8", "P27", "Q3"), ("Q8", "P27", "Q3"), ("Q8", "P31", "Q5"),
        ("Q8", "P1", "Q7"),
    ]  # fmt: skip
    assert sorted(told.rows()) == [(0, True), (2, False), (3, True)]
    assert align(followed, followed.clear(), told.filter("double")).select("subject", "property", "value").rows() == [
        ("Q3", "P39", "Q9"), ("Q8", "P1", "Q7"), ("Q8", "P27", "Q3"), ("Q8", "P31", "Q5"),
    ]  # fmt: skip
    assert follow(triples(rows), {})[0].equals(triples(rows))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Q1,Q2\nQ2,Q1\n", "circle"),
        ("Q1,Q2\nQ1,Q3\n", "line 2: Q1 has two targets"),
        ("Q1\n", "line 1: 'Q1'; write two item ids"),
        ("item,into\nQ1,P5\n", "line 2: 'Q1, P5'"),
        ("http://www.wikidata.org/entity/Q1,http://www.wikidata.org/entity/Q2\n", "line 1: 'http"),
        ("{}\n", "line 1"),
        ("item,into\n", "names no merged items"),
        ("", "names no merged items"),
    ],
)
def test_redirects_that_cannot_be_are_refused(tmp_path: Path, text, says):
    path = tmp_path / "merged.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        read_redirects(path)
    with pytest.raises(DataError, match="cannot read"):
        read_redirects(tmp_path / "none.csv")


def group_frame(groups):
    rows = [
        {"group": n, "label": label, "object_label": name, "subject_is_new": fresh}
        for n, (fresh, own) in enumerate(groups)
        for label, name in own
    ]
    return pl.DataFrame(rows, schema={"group": pl.UInt32, "label": pl.String, "object_label": pl.String}
                        | {"subject_is_new": pl.Boolean})  # fmt: skip


def test_scenarios_by_their_definitions():
    every = list(itertools.product(range(3), range(3), range(3), (False, True)))
    groups = []
    for new, obsolete, static, fresh in every:
        labels = ["new"] * new + ["obsolete"] * obsolete + ["static"] * static
        groups.append((fresh, [(label, str(i)) for i, label in enumerate(labels)]))
    found = dict(scenarios(group_frame(groups)).iter_rows())
    for number, (new, obsolete, static, fresh) in enumerate(every):
        if not new + obsolete + static:
            assert number not in found
            continue
        if fresh:
            expected = "AddEntity"
        elif (new, obsolete, static) == (1, 1, 0):
            expected = "ReplaceObject"
        elif obsolete and not new and not static:
            expected = "Archive"
        elif new and not obsolete:
            expected = "AddObject" if static else "AddRelation"
        else:
            expected = "Other"
        assert (expected == "Other" and not new + obsolete) or found[number] == expected, (new, obsolete, static)
        assert scenario_of([label for label, _ in groups[number][1]], fresh) == expected
    assert set(found.values()) <= set(SCENARIOS)


@pytest.mark.parametrize("seed", range(30))
def test_groups_are_dropped_and_objects_left_out_as_a_plain_loop_does(seed):
    chance = random.Random(seed)
    kinds = ["new", "obsolete", "static", "ignore", "unknown"]
    groups = [
        (
            False,
            [(chance.choices(kinds, [4, 4, 4, 2, 1])[0], chance.choice("abc")) for _ in range(chance.randint(1, 5))],
        )
        for _ in range(60)
    ]
    expected = {}
    for number, (_, own) in enumerate(groups):
        labels = [label for label, _ in own]
        left = [(label, name) for label, name in own if label != "ignore"]
        if "unknown" in labels or not {"new", "obsolete"} & set(labels):
            continue
        by_name: dict[str, list[str]] = {}
        for label, name in left:
            by_name.setdefault(name, []).append(label)
        if any("obsolete" in of and set(of) != {"obsolete"} for of in by_name.values()):
            continue
        kept = sorted((name, "new" if "new" in of else of[0]) for name, of in by_name.items())
        expected[number] = kept
    sieve = understood(group_frame(groups))
    without_duplicates(sieve)
    left = sieve.done()
    found: dict[int, list[tuple[str, str]]] = {}
    for group, label, name, _ in left.iter_rows():
        found.setdefault(group, []).append((name, label))
    assert {group: sorted(own) for group, own in found.items()} == expected
    counts = sieve.counts
    assert counts.groups == 60 and counts.triples == sum(len(own) for _, own in groups)
    assert counts.kept_groups == len(expected)


def test_counts_that_do_not_add_up_are_an_error():
    sieve = Sieve(group_frame([(False, [("new", "a")])]))
    sieve.counts.groups += 1
    with pytest.raises(AssertionError, match="groups 1 of 2"):
        sieve.done()
