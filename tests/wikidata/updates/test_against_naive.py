"""`build updates` against a plain formulation of its specification, on random pairs of snapshots."""

import csv
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anachron.core.facts import SCENARIOS
from anachron.io.cluster import Spread
from anachron.text.cloze import Cloze
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import Built, UpdateSettings, build_updates
from anachron.wikidata.updates.card import statistics
from anachron.wikidata.updates.explain import explain_changes
from anachron.wikidata.updates.groups import CLASH, MERGED, NO_CHANGE, SAME, UNKNOWN
from anachron.wikidata.updates.redirects import read_redirects
from wikidata.made import write_snapshot
from wikidata.updates.naive import DOUBLE, NEITHER, Naive, Pair, build_naive, table_2
from wikidata.updates.pairs import random_pair

SEEDS, QUICK = 32, 12  # random pairs; the quick ones are compared in every run


def write_pair(folder: Path, pair: Pair, buckets: int) -> tuple[Path, Path]:
    old, new = (
        write_snapshot(
            folder / name, half.entities, half.statements, half.properties, half.edges, views, buckets=buckets,
            date=half.date,
        )
        for name, half, views in (("old", pair.old, None), ("new", pair.new, pair.views))
    )  # fmt: skip
    return old, new


def build(folder: Path, pair: Pair, buckets: int, workers: int = 1) -> Built:
    folder.mkdir()
    with (folder / "redirects.csv").open("w", newline="") as file:
        csv.writer(file).writerows(pair.redirects.items())
    old, new = write_pair(folder, pair, buckets)
    return build_updates(
        open_snapshot(old), open_snapshot(new), folder / "updates.parquet",
        settings_of(pair),
        templates={id: Cloze(id, tuple(templates)) for id, templates in pair.templates.items()},
        redirects=read_redirects(folder / "redirects.csv"), spread=Spread(workers=workers),
    )  # fmt: skip


def settings_of(pair: Pair) -> UpdateSettings:
    return UpdateSettings(
        label_unchanged=pair.label_unchanged, neighbours=pair.neighbours, valid_at_date=pair.valid,
        coarse_dates="undecided" if pair.coarse else "published",
    )  # fmt: skip


def pair_of(seed: int) -> Pair:
    return replace(
        random_pair(seed), label_unchanged=seed % 3 == 1, neighbours=(10, 2, 4)[seed % 3], valid=seed % 4 > 1,
        coarse=seed % 2 == 1,
    )  # fmt: skip


def check(built: Built, naive: Naive, seed: int = 0) -> None:
    """All that the product returns is what the reference finds."""
    check_counts(built, naive)
    rows = built.updates.to_dicts()
    assert [row["case_id"] for row in rows] == list(range(len(rows)))
    assert [key_of(row) for row in rows] == [key_of(row) for row in naive.updates]
    for row, expected in zip(rows, naive.updates, strict=True):
        told = {name: row[name] for name in expected if name not in ("neighborhood", "subject_popularity")}
        assert told == {name: expected[name] for name in told}
        assert row["subject_popularity"] == pytest.approx(expected["subject_popularity"], abs=1e-9)
        check_neighbours(row["neighborhood"], expected["neighborhood"])
    check_drawn(rows, naive, seed)
    assert built.created.to_dicts() == [{name: e[name] for name in built.created.columns} for e in naive.created]
    assert statistics(built.updates) == table_2(naive.updates)
    replaced = [row for row in rows if row["is_replace"]]
    chosen = [row for row in replaced if row["relation"]["id"] != "P1082" or one_in_14(row["subject"]["id"], seed)]
    assert built.replacements.to_dicts() == chosen


def key_of(row: Any) -> tuple[str, str]:
    return row["subject"]["id"], row["relation"]["id"]


def one_in_14(subject: str, seed: int) -> bool:
    return zlib.crc32(f"{seed}\n{subject}".encode()) % 14 == 0


def check_neighbours(found: list[Any], expected: list[Any]) -> None:
    assert [n["subject"] for n in found] == [n["subject"] for n in expected]
    for n, wanted in zip(found, expected, strict=True):
        ((told,), (dist, views)) = n["objects"], (n["dist"], n["popularity"])
        assert told["object"] == wanted["object"] and told["prompt"] in wanted["prompts"]
        assert (dist, views) == pytest.approx((wanted["dist"], wanted["popularity"]), abs=1e-9)


def check_drawn(rows: list[Any], naive: Naive, seed: int) -> None:
    """Random facts are different ones, none of the subject, as many as can be: for a replacement of the nearest facts
    of the replacements in the subset (WikiFactDiff, footnote 5), else of those of all groups."""
    everything = {(n["subject"]["id"], u["relation"]["id"]) for u in naive.updates for n in u["neighborhood"]}
    facts = {fact_of(n) for row in rows for n in row["neighborhood"]}
    assert len(facts) == len(everything)
    of_subset = {
        fact_of(n)
        for row in rows
        if row["is_replace"] and (row["relation"]["id"] != "P1082" or one_in_14(row["subject"]["id"], seed))
        for n in row["neighborhood"]
    }
    for row in rows:
        drawn = row["random_neighborhood"]
        others = {fact for fact in (of_subset if row["is_replace"] else facts) if fact[0] != row["subject"]["id"]}
        assert {fact_of(n) for n in drawn} <= others and all(n["dist"] is None for n in drawn)
        assert len({fact_of(n) for n in drawn}) == len(drawn) == min(10, len(others))


def fact_of(n: Any) -> tuple[str, str, str]:
    ((told,), subject) = n["objects"], n["subject"]["id"]
    return subject, told["prompt"], told["object"]["label"]


def check_counts(built: Built, naive: Naive) -> None:
    for side, steps in built.steps.items():
        for found, expected in zip(steps, naive.steps[side], strict=True):
            told = found | {"dropped": {reason: n for reason, n in found["dropped"].items() if n}}
            assert {name: told[name] for name in expected} == expected
            assert found["subjects_dropped"] == found["subjects_in"] - found["subjects_kept"]
    counts = built.counts
    assert counts["triples"] == {flag: naive.flags[flag] for flag in ("both", "new", "old")}
    assert counts["changes"] == dict(naive.changes)
    assert counts["groups"] == {"all": naive.groups, "changed": naive.changed}
    assert counts["subjects"] == naive.subjects and counts["created"] == len(naive.created)
    judged = counts["judged"]
    assert {reason: n for reason, n in judged["dropped"].items() if n[0]} == naive.dropped
    assert {reason: n for reason, n in judged["left_out"].items() if n} == +naive.left_out
    assert judged["kept_groups"] == len(naive.updates)
    assert judged["kept_triples"] == sum(len(u["objects"]) for u in naive.updates)
    kept = naive.steps["old"][-1]["statements_kept"]
    assert kept - counts["redirected"]["left out as doubles"] == naive.flags["old"] + naive.flags["both"]


@pytest.mark.share(2)
@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] * (n >= QUICK)) for n in range(SEEDS)])
def test_it_equals_the_naive_formulation(tmp_path: Path, seed: int):
    pair = pair_of(seed)
    naive = build_naive(pair)
    check(build(tmp_path / "work", pair, buckets=1 + seed % 5), naive)


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("seed", range(8))
def test_what_the_card_says_of_the_other_way_is_what_it_gives(tmp_path: Path, seed: int):
    """Values that did not hold at a date, kept and dropped: each build tells what the other one finds."""
    pair = replace(pair_of(seed), redirects={"Q9999998": "Q9999999"})
    kept, dropped = (build(tmp_path / str(v), replace(pair, valid=v), 2).counts["judged"] for v in (False, True))
    turned = {scenario: numbers[::-1] for scenario, numbers in dropped["by_validity"].items()}
    assert kept["by_validity"] == {scenario: turned[scenario] for scenario in kept["by_validity"]} != {}
    assert kept["by_validity"].keys() == turned.keys()

    def understood(judged: Any) -> int:
        """Groups that are updates, before they are put in words."""
        return judged["groups"] - sum(judged["dropped"].get(why, [0])[0] for why in (UNKNOWN, NO_CHANGE, MERGED))

    scenarios = kept["by_validity"].keys() - {"no update"}
    more = sum(otherwise - here for here, otherwise in (kept["by_validity"][name] for name in scenarios))
    assert understood(dropped) - understood(kept) == more


def test_the_pairs_reach_everything():
    """What the tests above compare: every rule, scenario and reason occurs in some pair."""
    found = [build_naive(pair_of(seed)) for seed in range(SEEDS)]
    updates = [u for naive in found for u in naive.updates]
    objects = [o for u in updates for o in u["objects"]]
    assert {u["scenario"] for u in updates} == set(SCENARIOS)
    assert {o["decision"] for o in objects} == {"new", "obsolete", "static"}
    assert {o["rule"] for o in objects} == {1, 3, 5, 7, 9, 10, 13, 14, 15, 16, 18, 20}
    assert {o["description"] for o in objects} >= {"Quantity", "Date", "Month", "Year", "String"}
    assert {reason for naive in found for reason, (n, _) in naive.dropped.items() if n} == {
        UNKNOWN, NO_CHANGE, MERGED, CLASH, "the subject has no label", "the relation has no label",
        "an object has no label or cannot be worded", "the relation has no template",
    }  # fmt: skip
    assert {reason for naive in found for reason in +naive.left_out} == {NEITHER, SAME, DOUBLE}
    reasons = {reason for naive in found for steps in naive.steps.values() for s in steps for reason in s["dropped"]}
    assert len(reasons) == 13
    assert {rule for naive in found for rule in naive.rules} == set(range(1, 22))
    assert {len(u["neighborhood"]) for u in updates} >= set(range(9))


@pytest.mark.full
@pytest.mark.parametrize("seed", [3])
def test_explain_says_of_every_entity_what_the_updates_hold(tmp_path: Path, seed: int):
    pair = pair_of(seed)
    built = build(tmp_path / "work", pair, buckets=3)
    old, new = (open_snapshot(tmp_path / "work" / name) for name in ("old", "new"))
    settings = settings_of(pair)
    given = {"relations_with_templates": pair.templates, "redirects": read_redirects(tmp_path / "work/redirects.csv")}
    told = []
    for id in sorted({row["subject"] for row in pair.new.statements}):
        changes = explain_changes(old, new, id, settings, **given).changes  # type: ignore[arg-type]
        kept = [c for c in changes if (c.outcome or "").startswith("in the data set")]
        told += [(id, c.property_id, c.value, c.label, c.rule, (c.outcome or "").split(": ")[1]) for c in kept]
    rows = built.updates.to_dicts()
    assert sorted(told) == sorted(
        (*key_of(row), o["label"], o["decision"], o["rule"], row["scenario"]) for row in rows for o in row["objects"]
    )


@pytest.mark.full
@pytest.mark.parametrize("seed", [7])
def test_buckets_and_workers_change_nothing(tmp_path: Path, seed: int):
    pair = pair_of(seed)
    whole, *others = (
        build(tmp_path / f"{buckets}-{workers}", pair, buckets, workers)
        for buckets, workers in ((1, 1), (4, 1), (7, 1), (4, 2))
    )
    for other in others:
        assert other.updates.equals(whole.updates) and other.replacements.equals(whole.replacements)
        assert other.created.equals(whole.created)
        assert other.steps == whole.steps and other.counts == whole.counts
    assert whole.updates.height
