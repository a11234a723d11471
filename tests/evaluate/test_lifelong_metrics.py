"""Metrics of lifelong editing against plain loops over made-up tables."""

import math
import random
from statistics import mean, stdev
from typing import Any

import polars as pl
import pytest
from scipy.stats import t

from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.evaluate.lifelong_metrics import STAGES, lifelong_by_age, lifelong_metrics, lifelong_summary, locality
from anachron.evaluate.results import NEIGHBOURS, TARGETS, UPDATES

AFTER, NAMES = (1, 3, 6), ("FT", "ROME")


def fact(prompt: str) -> NeighbourFact:
    return NeighbourFact(prompt, ("true",), 0.1, None, None)


CASES = [
    EditCase(
        f"{n}", f"S{n}", f"P{n} of {{}} is", "new", "old", (f"G{n} is",), (fact(f"N{n} is"), fact("shared is")),
        (fact("P1 of S1 is"), fact("R is")), "P1",
    )
    for n in range(1, 7)
]  # fmt: skip


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    """Random scores; update 2 of FT failed after 3 edits and on. A prompt has one score, whoever's neighbour it is."""
    draw = random.Random(1)
    clean = {prompt: draw.random() for n in range(7) for prompt in (f"N{n} is", "shared is", "P1 of S1 is", "R is")}
    rows: dict[str, list[dict[str, Any]]] = {"targets": [], "neighbours": [], "updates": []}
    before = {c.case_id: (draw.random(), draw.random()) for c in CASES}
    for edits in AFTER:
        for method in NAMES:
            after = {prompt: draw.random() for prompt in clean}
            for place, c in enumerate(CASES, 1):
                key = {
                    "method": method,
                    "variant": "plain",
                    "mode": "sequential",
                    "case_id": c.case_id,
                    "edits": edits,
                }
                bad = method == "FT" and place == 2 and edits >= 3
                rows["updates"].append(key | {
                    "status": "failed" if bad else "done", "reason": "no" if bad else None, "place": place,
                    "seconds": None if bad or place > edits else place / 10, "scenario": "ReplaceObject",
                })  # fmt: skip
                if bad:
                    continue
                for kind, number in (("update", 0), ("generalization", 1)):
                    scores = dict(zip(("new_before", "old_before"), before[c.case_id], strict=True))
                    scores |= {"new_after": draw.random(), "old_after": draw.random()}
                    rows["targets"].append(key | {"kind": kind, "prompt_number": number} | scores)
                for kind, facts in (("nearest", c.nearest), ("random", c.random)):
                    for number, one in enumerate(facts):
                        scores = {"before": clean[one.prompt], "after": after[one.prompt]}
                        rows["neighbours"].append(key | {"kind": kind, "number": number} | scores)
    schemas = {"targets": TARGETS, "neighbours": NEIGHBOURS, "updates": {**UPDATES, "place": pl.Int64()}}
    return {name: pl.DataFrame(rows[name], schema={**schemas[name], "edits": pl.Int64()}) for name in rows} | {
        name: pl.DataFrame(schema={"edits": pl.Int64()}) for name in ("objects", "generations")
    }


def stages(**collapse: Any) -> pl.DataFrame:
    shared = {"mode": "sequential", "variant": "plain"}
    rows = [shared | {"method": "unedited", "edits": 0, "perplexity": 8.0, "fluency": [6.0, 5.0]}]
    for method in NAMES:
        for edits in AFTER:
            row = {"method": method, "edits": edits, "perplexity": 8.0 + edits,
                   "fluency": [6.0, 4.0], "undone": "1", "undone_new": 0.1, "undone_old": 0.8,
                   "undone_others": [0.1 * i for i in range(edits - 1)]}  # fmt: skip
            rows.append(shared | row | (collapse if (method, edits) == ("ROME", 6) else {}))
    return pl.DataFrame(rows, schema=STAGES)


def test_means_are_over_the_updates_made(tables: dict[str, pl.DataFrame]):
    metrics = lifelong_metrics(tables)
    summary = lifelong_summary(metrics, locality(tables["neighbours"], CASES), stages())
    assert summary.select("method", "edits").rows() == [(m, n) for m in ("unedited", *NAMES) for n in AFTER]
    for row in summary.filter(pl.col("method") != "unedited").iter_rows(named=True):
        gaps = [
            t["new_after"] - t["old_after"]
            for t in tables["targets"].iter_rows(named=True)
            if (t["method"], t["edits"], t["kind"]) == (row["method"], row["edits"], "update")
            and int(t["case_id"]) <= row["edits"]
        ]
        assert row["efficacy_difference"] == pytest.approx(mean(gaps))
        assert row["efficacy_success"] == pytest.approx(mean(gap > 0 for gap in gaps))
        lost = row["method"] == "FT" and row["edits"] >= 3
        assert (row["done"], row["failed"]) == (row["edits"] - lost, int(lost))
        assert row["efficacy_difference_n"] == row["done"] == len(gaps)


def test_facts_of_locality_are_each_prompt_once_but_those_of_updates(tables: dict[str, pl.DataFrame]):
    facts = locality(tables["neighbours"], CASES)
    for method in NAMES:
        for edits in AFTER:
            own = facts.filter(method=method, edits=edits)
            missing = {"N2 is"} if method == "FT" and edits >= 3 else set()  # which only the failed update would tell
            assert sorted(own["prompt"]) == sorted({"shared is", "R is", *(f"N{n} is" for n in range(1, 7))} - missing)
            for row in own.iter_rows(named=True):
                places = [
                    n["after"] for n in tables["neighbours"].filter(method=method, edits=edits).iter_rows(named=True)
                    if fact_of(n) == row["prompt"]
                ]  # fmt: skip
                assert set(places) == {row["after"]}


def fact_of(row: dict[str, Any]) -> str:
    case = CASES[int(row["case_id"]) - 1]
    return {"nearest": case.nearest, "random": case.random}[row["kind"]][row["number"]].prompt


def test_the_models_state_against_plain_loops(tables: dict[str, pl.DataFrame]):
    facts = locality(tables["neighbours"], CASES)
    summary = lifelong_summary(lifelong_metrics(tables), facts, stages())
    for row in summary.filter(pl.col("method") != "unedited").iter_rows(named=True):
        own = facts.filter(method=row["method"], edits=row["edits"]).rows(named=True)
        losses = [max(f["before"] - f["after"], 0.0) for f in own]
        half = t.ppf(0.975, len(losses) - 1) * stdev(losses) / math.sqrt(len(losses))
        assert row["locality_loss"] == pytest.approx(mean(losses)) and row["locality_loss_n"] == len(losses)
        assert row["locality_loss_high"] - row["locality_loss"] == pytest.approx(half)
        assert row["locality_change"] == pytest.approx(mean(abs(f["before"] - f["after"]) for f in own))
        assert (row["perplexity"], row["fluency"]) == (8.0 + row["edits"], 5.0)
        moved = [0.1 * i for i in range(row["edits"] - 1)]
        assert row["undone_others"] == (pytest.approx(mean(moved)) if moved else None)
        assert (row["undone_old"], row["undone_new"]) == (0.8, 0.1)
    clean = summary.filter(method="unedited")
    assert clean["perplexity"].to_list() == [8.0] * 3 and clean["locality_loss"].to_list() == [0.0] * 3
    assert clean["undone_old"].null_count() == 3


@pytest.mark.parametrize(
    ("state", "collapsed"),
    [
        ({"perplexity": 15.9, "fluency": [2.76]}, False),
        ({"perplexity": 16.0}, True),
        ({"perplexity": math.inf}, True),
        ({"fluency": [2.75]}, True),
        ({"perplexity": None, "fluency": [2.0]}, True),
        ({"perplexity": None, "fluency": [3.0]}, False),
        ({"perplexity": None, "fluency": None}, None),
    ],
)
def test_collapse_is_twice_the_perplexity_or_half_the_fluency(
    tables: dict[str, pl.DataFrame], state: dict[str, Any], collapsed: bool | None
):
    summary = lifelong_summary(lifelong_metrics(tables), locality(tables["neighbours"], CASES), stages(**state))
    found = {(row["method"], row["edits"]): row["collapsed"] for row in summary.iter_rows(named=True)}
    assert found.pop(("ROME", 6)) is collapsed
    assert not any(found.values())


def test_success_by_age_against_plain_loops(tables: dict[str, pl.DataFrame]):
    found = lifelong_by_age(lifelong_metrics(tables))
    cohorts = {(1, 1): (1, 3, 6), (2, 3): (3, 6), (4, 6): (6,)}
    assert found.select("method", "edits", "first", "last").rows() == [
        (m, n, *cohort) for m in NAMES for n in AFTER for cohort, seen in cohorts.items() if n in seen
    ]
    for row in found.iter_rows(named=True):
        wins = [
            t["new_after"] > t["old_after"]
            for t in tables["targets"].iter_rows(named=True)
            if (t["method"], t["edits"], t["kind"]) == (row["method"], row["edits"], "update")
            and row["first"] <= int(t["case_id"]) <= row["last"]
        ]
        assert row["efficacy_success"] == pytest.approx(mean(wins)) and row["efficacy_success_n"] == len(wins)


def test_a_table_without_rows_is_refused(tables: dict[str, pl.DataFrame]):
    with pytest.raises(DataError, match="0 rows"):
        lifelong_summary(lifelong_metrics(tables).head(0), locality(tables["neighbours"], CASES), stages())
