"""Advice on the demo model: every number against the runs that it is made of, budget, resuming, errors."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import polars as pl
import pytest
import torch

from anachron.advise import cost
from anachron.advise.cost import COSTS_FILE, Cost, PeakMemory, takes_longer
from anachron.advise.rule import ADVICE_FILE
from anachron.advise.run import (
    ORACLE,
    WAYS_FILE,
    AdviceSettings,
    Advised,
    enough_for,
    measures_for,
    run_advice,
    sizes_of,
)  # fmt: skip
from anachron.advise.ways import default_ways
from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase, left_alone, numbered_neighbours
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import Edit, LowRank, edited
from anachron.edit.failures import Failure
from anachron.edit.plan import Planned
from anachron.edit.requests import EditRequest
from anachron.evaluate import joint_edits
from anachron.evaluate.editing import choose_methods, prepare_methods
from anachron.evaluate.measure import Measures
from anachron.evaluate.metrics import update_metrics
from anachron.evaluate.results import UNEDITED
from anachron.io.jobs import Callbacks
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.report.advice import advice_lines, examples, gains_table
from support.edit_models import make_edit_lm, make_quantised_lm

SCORES = Measures(fluency_tokens=0)
FEW = AdviceSettings(sizes=(1, 2), measures=SCORES)


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(scope="module")
def cases() -> CaseSet:
    """Five updates, of which the first two have each other among the facts beside them."""
    found = load_cases("mini-updates", limit=50)
    first, second = next(
        (one, other)
        for one, other in combinations(found.cases, 2)
        if len([*left_alone([one, other])]) < beside(one, other)
    )
    others = [case for case in found.cases if case not in (first, second)]
    return replace(found, cases=[first, second, *others[:3]])


def beside(*cases: EditCase) -> int:
    return sum(len([*numbered_neighbours(case)]) for case in cases)


@pytest.fixture(scope="module")
def ways(lm: LanguageModel) -> list[Planned]:
    return prepare_methods(lm, choose_methods(("PROMPT", "RETRIEVAL", "FT")))


@pytest.fixture(scope="module")
def advised(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], tmp_path_factory: pytest.TempPathFactory
) -> Advised:
    return run_advice(lm, cases, ways, tmp_path_factory.mktemp("advice") / "run", FEW)


def untouched_by_loops(cases: Sequence[EditCase], size: int) -> Iterator[tuple[str, str, int]]:
    """The neighbours of updates made so many at a time that none of them is about."""
    for place, case in enumerate(cases):
        first = place // size * size
        asked = {p for other in cases[first : first + size] for p in (other.text, *other.generalization)}
        for kind, facts in (("nearest", case.nearest), ("random", case.random)):
            yield from ((case.case_id, kind, n) for n, fact in enumerate(facts) if fact.prompt not in asked)


def test_what_another_update_of_the_edit_is_about_is_no_damage() -> None:
    """A perfect edit of fifty updates lowers the old objects of all of them, which are neighbours of others."""
    cases = load_cases("mini-updates", limit=50).cases
    every = [(case.case_id, kind, number) for case in cases for kind, number, _ in numbered_neighbours(case)]
    kept = [(case.case_id, kind, number) for case, kind, number, _ in left_alone(cases)]
    assert kept == [*untouched_by_loops(cases, 50)] and len(every) - len(kept) == 188


@pytest.mark.full
def test_parts_are_those_of_the_runs(advised: Advised, cases: CaseSet) -> None:
    """By plain loops over the tables of each run."""
    untouched = {size: set(untouched_by_loops(cases.cases, size)) for size in (1, 2)}
    assert len(untouched[2]) < len(untouched[1])  # what is to be left out is there
    for size, evaluation in advised.evaluations.items():
        targets, neighbours = evaluation.tables["targets"], evaluation.tables["neighbours"]
        rows = {row["way"]: row for row in advised.ways.filter(size=size).iter_rows(named=True)}
        for way in ("PROMPT", "RETRIEVAL", "FT"):
            present, others = [], []
            for case in targets.filter(method=way)["case_id"].unique():
                of_case = targets.filter(method=way, case_id=case)
                right = {
                    kind: [
                        float(new > old)
                        for new, old in of_case.filter(kind=kind).select("new_after", "old_after").rows()
                    ]
                    for kind in ("update", "generalization")
                }
                present.append(sum(sum(values) / len(values) for values in right.values()) / 2)
                rows_of = neighbours.filter(method=way, case_id=case).select("kind", "number", "before", "after").rows()
                kept = [
                    float(after >= before / 2) for *which, before, after in rows_of if (case, *which) in untouched[size]
                ]
                others.append(sum(kept) / len(kept))
            assert rows[way]["present"] == pytest.approx(sum(present) / len(present))
            assert rows[way]["others"] == pytest.approx(sum(others) / len(others))
            mean = sum((p + o) / 2 for p, o in zip(present, others, strict=True)) / len(present)
            assert rows[way]["balance"] == pytest.approx(mean)  # of the two parts that were measured, each of weight 1
        assert rows[UNEDITED]["others"] == 1.0


@pytest.mark.full
def test_the_past_fact_beside_the_balance_is_w_and_r(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], tmp_path: Path
) -> None:
    """By plain loops over pairs of a date before and one after the change (TimeStress, section 3.1)."""
    settings = AdviceSettings(sizes=(3,), measures=measures_for(cases, 0))
    found = run_advice(lm, replace(cases, cases=cases.cases[:3]), ways, tmp_path / "run", settings)
    dated = found.evaluations[3].tables["dated"]
    for way in ("PROMPT", "FT"):
        of_updates = []
        for case in dated["case_id"].unique():
            wins = []
            for granularity in ("year", "month", "day"):
                rows = dated.filter(method=way, case_id=case, granularity=granularity)
                then, later = ([*rows.filter(side=side)["old_after"]] for side in ("past", "present"))
                wins.append(sum(one > other for one in then for other in later) / (len(then) * len(later)))
            of_updates.append((sum(wins) / 3, float(min(wins) == 1)))
        row = found.ways.row(by_predicate=pl.col("way") == way, named=True)
        assert row["past_win_rate"] == pytest.approx(sum(w for w, _ in of_updates) / len(of_updates))
        assert row["past_robustness"] == sum(r for _, r in of_updates) / len(of_updates)
        assert row["past_win_rate_n"] == len(of_updates) == 3
    assert {"W past ↑", "R past ↑"} <= {*gains_table(found.ways).titles}


@pytest.mark.full
def test_long_objects_are_judged_by_their_tokens_too(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], tmp_path: Path
) -> None:
    """Present is the mean of success, of generated texts and of token accuracy."""
    long = replace(cases.cases[0], new="Paris and the river " * 9 + "Seine", aliases=())
    found = run_advice(lm, replace(cases, cases=[long]), ways[2:], tmp_path / "run", replace(FEW, sizes=(1,)))
    evaluation = found.evaluations[1]
    (metrics,) = update_metrics(
        *(evaluation.tables[name] for name in ("targets", "neighbours", "updates")),
        generations=evaluation.tables["generations"],
    ).filter(method="FT").to_dicts()  # fmt: skip
    parts = [f"{kind}_{what}" for kind in ("efficacy", "generalization") for what in ("success", "accuracy")]
    parts += ["generated_new", "generalization_generated_new"]
    wanted = sum(metrics[part] for part in parts) / len(parts)
    (row,) = found.ways.filter(way="FT").to_dicts()
    assert row["present"] == pytest.approx(wanted) and 0 < wanted < 1


@pytest.mark.full
def test_parts_are_as_large_as_said(advised: Advised) -> None:
    """Of five updates two parts of two are made, and the fifth is left out."""
    assert advised.evaluations[1].tables["updates"].filter(method="FT").height == 5
    assert advised.evaluations[2].tables["updates"].filter(method="FT").height == 4


@pytest.mark.full
def test_the_oracle_is_each_update_alone(advised: Advised) -> None:
    alone = advised.evaluations[1].tables["targets"].filter(method="PROMPT", kind="update")
    right = {row["case_id"]: row["new_after"] > row["old_after"] for row in alone.iter_rows(named=True)}
    rows = advised.ways.filter(size=2, way=ORACLE)
    assert rows["done"][0] == 4 and ORACLE not in advised.ways.filter(size=1)["way"]
    assert advised.advice.not_judged[ORACLE].startswith("it is told")
    assert advised.advice.recommended != ORACLE and len(right) == 5


@pytest.mark.full
def test_costs(advised: Advised) -> None:
    rows = {row["way"]: row for row in advised.ways.filter(size=2).iter_rows(named=True)}
    assert rows["RETRIEVAL"]["takes_back"] and rows["PROMPT"]["takes_back"] and not rows["FT"]["takes_back"]
    assert rows["FT"]["seconds"] > 0 and rows["FT"]["milliseconds"] > 0
    assert rows["FT"]["milliseconds"] == advised.ways.filter(size=1, way=UNEDITED)["milliseconds"][0]  # it adds nothing
    assert rows["RETRIEVAL"]["found"] == 1.0 and rows["FT"]["found"] is None  # two passages, three of which are shown
    assert Cost(2.0, 0, 5.0).total(1000, Cost(0.0, 0, 3.0)) == pytest.approx(2.0 + 1000 * 0.002)
    assert Cost(2.0, 0, 1.0).total(1000, Cost(0.0, 0, 3.0)) == 2.0  # faster by chance is no gain


def test_what_is_computed_beside_quantised_weights_takes_time(lm: LanguageModel) -> None:
    deltas = {"model.layers.0.mlp.down_proj": LowRank(torch.zeros(1, 1), torch.zeros(1, 1))}
    quantised = make_quantised_lm("llama")
    assert not takes_longer(make_edit_lm("llama"), Edit(deltas)) and takes_longer(quantised, Edit(deltas))
    assert takes_longer(lm, Edit(prefix="x. ")) and not takes_longer(lm, Edit())


@pytest.mark.full
def test_files(advised: Advised) -> None:
    found = json.loads((advised.folder / ADVICE_FILE).read_text())
    assert found["recommended"] == advised.advice.recommended and found["separated"] == advised.advice.separated
    assert [(row["size"], row["way"]) for row in found["ways"]] == advised.ways.select("size", "way").rows()
    assert pl.read_csv(advised.folder / WAYS_FILE).height == advised.ways.height
    assert found["tried"] == found["given"] == 5 and found["sizes"] == [1, 2]


@pytest.mark.full
def test_a_second_call_computes_nothing(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], advised: Advised
) -> None:
    before = {path: path.read_bytes() for path in advised.folder.rglob("*.parquet")}
    costs = (advised.folder / COSTS_FILE).read_bytes()
    again = run_advice(lm, cases, ways, advised.folder, FEW)
    assert again.advice.words == advised.advice.words
    assert (advised.folder / COSTS_FILE).read_bytes() == costs
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.full
def test_updates_that_are_judged_together_are_made_once(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], advised: Advised, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What they cost is noted while they are made; where it was not, the first of them are made again."""
    made, joint_edit = [], joint_edits.joint_edit

    def counted(lm: LanguageModel, planned: Planned, requests: Sequence[EditRequest]) -> Edit | Failure:
        made.append((planned.label, len(requests)))
        return joint_edit(lm, planned, requests)

    monkeypatch.setattr(joint_edits, "joint_edit", counted)
    pairs = AdviceSettings(sizes=(2,), measures=SCORES)
    run_advice(lm, cases, ways, tmp_path, pairs)
    assert made == [(way.label, 2) for way in ways for _ in range(2)]  # of five updates two pairs
    costs = json.loads((tmp_path / COSTS_FILE).read_text())
    assert {*costs} == {key for key in json.loads((advised.folder / COSTS_FILE).read_text()) if key[:2] != "1 "}
    (tmp_path / COSTS_FILE).unlink()
    run_advice(lm, cases, ways, tmp_path, pairs)
    assert made[2 * len(ways) :] == [(way.label, 2) for way in ways]
    assert {*json.loads((tmp_path / COSTS_FILE).read_text())} == {*costs}


def test_making_is_timed_without_reading_all_weights(
    lm: LanguageModel, cases: CaseSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single updates are made for their cost apart from the evaluation, which knows the weights."""
    read, inside = [], []
    plain, enter = type(lm).weights_fingerprint, PeakMemory.__enter__

    def fingerprint(lm: LanguageModel) -> str:
        read.append(bool(inside))
        return plain(lm)

    def entered(memory: PeakMemory) -> PeakMemory:
        inside.append(True)
        return enter(memory)

    monkeypatch.setattr(type(lm), "weights_fingerprint", fingerprint)
    monkeypatch.setattr(PeakMemory, "__enter__", entered)
    monkeypatch.setattr(PeakMemory, "__exit__", lambda memory, *error: inside.clear())
    ways = prepare_methods(lm, choose_methods(["PROMPT"]))
    run_advice(lm, replace(cases, cases=cases.cases[:1]), ways, tmp_path, AdviceSettings(measures=SCORES))
    assert read and not any(read)


def test_a_model_that_cannot_be_timed_is_advised_on(
    lm: LanguageModel, cases: CaseSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> float:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(cost, "_milliseconds", full)
    ways = prepare_methods(lm, choose_methods(["PROMPT"]))
    found = run_advice(lm, replace(cases, cases=cases.cases[:1]), ways, tmp_path, AdviceSettings(measures=SCORES))
    assert found.ways["milliseconds"].null_count() == found.ways.height
    assert all("no memory" in kept["reason"] for kept in json.loads((tmp_path / COSTS_FILE).read_text()).values())


def test_a_way_that_leaves_no_room_to_write_is_not_called_fast(lm: LanguageModel) -> None:
    fits, full = "Paris is", "Paris is in Berlin. " * 200
    assert cost._milliseconds(lm, [fits]) is not None
    assert cost._milliseconds(lm, [fits, full]) is None
    with edited(lm, Edit(prefix=full)):
        assert cost._milliseconds(lm, [fits]) is None


def test_a_wrong_size_begins_no_folder(lm: LanguageModel, cases: CaseSet, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="size 6: there are 5 updates"):
        run_advice(lm, cases, [], tmp_path / "out", AdviceSettings(sizes=(1, 6)))
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_the_page_shows_the_ways_of_its_table(lm: LanguageModel, cases: CaseSet, tmp_path: Path) -> None:
    """Not those of an earlier call with more of them."""
    settings = AdviceSettings(sizes=(2,), measures=Measures(fluency_tokens=0, generate=True))
    few = replace(cases, cases=cases.cases[:2])
    for ways, shown in ((["PROMPT", "FT"], ["nothing", "PROMPT", "FT"]), (["PROMPT"], ["nothing", "PROMPT"])):
        found = run_advice(lm, few, prepare_methods(lm, choose_methods(ways)), tmp_path, settings)
        assert [text["way"] for text in examples(found, few.cases)[0]["texts"]] == shown


@pytest.mark.full
def test_weights_decide_without_a_new_run(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], advised: Advised
) -> None:
    only = replace(FEW, weights={"present": 1.0, "past": 0.0, "others": 0.0, "fluency": 0.0})
    found = run_advice(lm, cases, ways, advised.folder, only)
    assert found.ways["balance"].to_list() == found.ways["present"].to_list()


@pytest.mark.full
def test_other_updates_are_refused(lm: LanguageModel, ways: list[Planned], advised: Advised) -> None:
    with pytest.raises(ConfigError, match="other settings"):
        run_advice(lm, load_cases("mini-updates", limit=4), ways, advised.folder, FEW)


@pytest.mark.full
def test_a_budget_decides_how_many_are_tried(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], tmp_path: Path
) -> None:
    told: list[str] = []
    tight = AdviceSettings(measures=SCORES, budget_minutes=1e-6)
    found = run_advice(lm, cases, ways[:1], tmp_path / "run", tight, callbacks=Callbacks(notice=told.append))
    assert (found.updates, found.given, found.size) == (1, 5, 1)
    assert any("the first 1 are tried" in line for line in told)
    again = run_advice(lm, cases, ways[:1], tmp_path / "run", tight)  # by the time that was measured then
    assert again.updates == 1


@pytest.mark.parametrize("sizes", [None, (1,), (1, 2, 5, 10, 20)])
@pytest.mark.parametrize("seconds", [0.0, 59.0, 60.0, 700.0, 10**6])
def test_a_budget_counts_the_sizes_that_are_tried(sizes: tuple[int, ...] | None, seconds: float) -> None:
    """Of 1,000 updates that take a second each: by trying all numbers."""
    settings = AdviceSettings(sizes=sizes, budget_minutes=1)
    takes = {number: number * len(sizes or sizes_of(settings, number)) for number in range(1, 1001)}
    suffices = max([1, *(number for number, time in takes.items() if time <= seconds)])
    assert enough_for(seconds, 1.0, 1000, settings) == max(suffices, sizes[-1] if sizes else 1)


@pytest.mark.full
def test_updates_without_dates_before_those_that_have_them(
    lm: LanguageModel, cases: CaseSet, ways: list[Planned], tmp_path: Path
) -> None:
    """A table without dates, beside which dated evidence stands: the pilot and the parts may be undated alone."""
    undated = replace(cases, cases=[replace(case, start=None) for case in cases.cases[:4]] + list(cases.cases[4:]))
    settings = AdviceSettings(sizes=(1, 4), measures=measures_for(undated, 0), budget_minutes=60)
    found = run_advice(lm, undated, ways[:1], tmp_path / "run", settings)
    whole = {row["size"]: row for row in found.ways.filter(way="PROMPT").iter_rows(named=True)}
    assert (whole[1]["past_n"], whole[4]["past_n"], whole[4]["balance_n"]) == (1, 0, 4)
    told = advice_lines(replace(found, size=1))
    assert "  past: known of 1 of 5 updates, and weighed in these alone" in told


def test_sizes() -> None:
    plain = AdviceSettings()
    assert [sizes_of(plain, n) for n in (1, 3, 10, 224)] == [(1,), (1, 3), (1, 10), (1, 10, 100, 224)]
    with pytest.raises(ConfigError, match="there are 4 updates"):
        sizes_of(AdviceSettings(sizes=(1, 10)), 4)
    for wrong in ((), (0, 1), (10, 1)):
        with pytest.raises(ConfigError, match="increasing numbers"):
            AdviceSettings(sizes=wrong)
    with pytest.raises(ConfigError, match="above 0"):
        AdviceSettings(budget_minutes=0)


def test_no_updates(lm: LanguageModel, cases: CaseSet, ways: list[Planned], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no update"):
        run_advice(lm, replace(cases, cases=[]), ways, tmp_path / "run")


def test_dates_are_asked_in_other_words_than_the_edits(cases: CaseSet) -> None:
    dated = measures_for(cases).dated
    assert dated is not None and dated.ways == ("question",)
    without = replace(cases, cases=[replace(case, start=None) for case in cases.cases])
    assert measures_for(without).dated is None
    assert "PROMPT dated" in default_ways(cases) and "PROMPT dated" not in default_ways(without)


def test_memory_that_an_earlier_way_has_freed_counts(lm: LanguageModel) -> None:
    """The process does not give it back by itself while something above it is held."""

    def taken() -> list[bytearray]:
        return [bytearray(100_000) for _ in range(2000)]

    earlier, above = taken(), [bytearray(1000) for _ in range(10_000)]
    del earlier
    with PeakMemory(lm) as memory:
        held = taken()
        time.sleep(0.1)
    assert memory.bytes > 150_000_000
    assert len(held) == 2000 and len(above) == 10_000


def test_peak_memory_sees_what_is_held_meanwhile(lm: LanguageModel) -> None:
    with PeakMemory(lm) as memory:
        held = bytearray(200_000_000)
        time.sleep(0.1)
    assert memory.bytes > 150_000_000
    assert len(held) == 200_000_000
