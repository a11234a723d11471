"""Tuning: the search on planted surfaces, what it is done on, and a method of the demo model that is set badly."""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.advise.balance import WEIGHTS
from anachron.advise.held_out import MOST, NEIGHBOURS, held_out
from anachron.advise.tune import LEVEL, Trial, Trying, Tuned, arms_of, chance, coordinate_search, tune_method
from anachron.cli.main import run_command
from anachron.core.errors import ConfigError
from anachron.data.updates.case_records import Rewrite
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.method import Resources
from anachron.edit.methods import METHODS, method_named
from anachron.edit.plan import Planned, plan_edits
from anachron.edit.presets import LAYER_FIELDS, changed, preset
from anachron.evaluate.editing import choose_methods
from anachron.evaluate.run import EvaluateSettings
from anachron.io.jobs import Callbacks
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm

RATES, LAYERS = range(-4, 5), range(6)
BADLY = {"FT": {"steps": 1}}  # which the preset's rate is far too small for


def grid_arms(name: str, value: int) -> list[list[int]]:
    """Rates outwards, one by one; layers each for itself."""
    if name == "layer":
        return [[layer] for layer in LAYERS if layer != value]
    return [[rate for rate in reversed(RATES) if rate < value], [rate for rate in RATES if rate > value]]


class Surface:
    """A balance by rate and layer; each asked for once at most."""

    def __init__(self, balance: Callable[[int, int], float], seconds: float = 0.0) -> None:
        self.balance, self.seconds, self.asked = balance, seconds, []  # type: ignore[var-annotated]

    def __call__(self, values: Mapping[str, Any]) -> Trial:
        assert values not in self.asked
        self.asked.append(dict(values))
        return Trial(dict(values), [self.balance(values["rate"], values["layer"])] * 4, self.seconds)


START = {"rate": 0, "layer": 0}


@given(st.sampled_from(RATES), st.sampled_from(LAYERS), st.floats(0.01, 0.05), st.floats(0.01, 0.05))
def test_the_planted_best_is_found(rate: int, layer: int, steep: float, far: float):
    surface = Surface(lambda r, j: 0.9 - steep * abs(r - rate) - far * abs(j - layer))
    tried, best = coordinate_search(START, grid_arms, surface)
    naive = max(itertools.product(RATES, LAYERS), key=lambda one: surface.balance(*one))
    assert (tried[best].values["rate"], tried[best].values["layer"]) == naive == (rate, layer)
    assert [one.values for one in tried] == surface.asked
    assert len(tried) < len(RATES) * len(LAYERS)


def test_a_second_round_finds_what_one_setting_hides_from_another():
    surface = Surface(lambda r, j: 0.1 + (0.2 if j == 3 else 0.0) + (0.3 if j == 3 and r == 2 else 0.0))
    tried, best = coordinate_search(START, grid_arms, surface)
    assert tried[best].values == {"rate": 2, "layer": 3}


@pytest.mark.parametrize("budget", [1, 2, 5, 9])
def test_the_budget_of_trials_is_kept(budget: int):
    surface = Surface(lambda r, j: 0.5 + 0.05 * r + 0.01 * j)
    every, _ = coordinate_search(START, grid_arms, Surface(surface.balance))
    tried, best = coordinate_search(START, grid_arms, surface, trials=budget)
    assert len(tried) == len(surface.asked) == budget < len(every)
    assert tried == every[:budget]
    assert tried[best].balance == max(one.balance for one in tried)


def test_the_budget_of_minutes_counts_the_trials_seconds():
    surface = Surface(lambda r, j: 0.5 + 0.05 * r, seconds=50.0)
    tried, _ = coordinate_search(START, grid_arms, surface, minutes=2)
    assert len(tried) == 3  # begun at 0, 50 and 100 seconds, and not at 150
    assert len(coordinate_search(START, grid_arms, Surface(surface.balance, 50.0), minutes=1e-9)[0]) == 1


def test_of_equal_settings_the_first_stays():
    tried, best = coordinate_search(START, grid_arms, Surface(lambda r, j: 0.25))
    assert best == 0 and len(tried) == len(RATES) + len(LAYERS) - 1  # one round, in which nothing was better


def test_it_goes_no_further_where_it_gets_worse_and_stops_at_the_top():
    falling = Surface(lambda r, j: 0.5 - 0.01 * abs(r) - 0.01 * j)
    coordinate_search(START, grid_arms, falling)
    assert {one["rate"] for one in falling.asked} == {-1, 0, 1}
    top = Surface(lambda r, j: 1.0 if r == -1 else 0.5)
    assert len(coordinate_search(START, grid_arms, top)[0]) == 2


# More than chance


def naive_chance(first: Sequence[float], best: Sequence[float]) -> float:
    """Share of all ways to flip the signs of the gains whose sum is at least as large."""
    gaps = [b - a for a, b in zip(first, best, strict=True)]
    ways = list(itertools.product((1, -1), repeat=len(gaps)))
    return sum(sum(s * g for s, g in zip(way, gaps, strict=True)) >= sum(gaps) - 1e-9 for way in ways) / len(ways)


def trial(scores: Sequence[float]) -> Trial:
    return Trial({}, scores, 0.0)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8), st.integers(1, 5))
def test_chance_is_that_of_all_sign_flips_times_the_trials(pairs: list[tuple[float, float]], others: int):
    first, best = zip(*pairs, strict=True)
    if fmean(best) - fmean(first) < 1e-6 or any(abs(a - b) < 1e-6 for a, b in pairs):
        return
    tried = [trial(first), *[trial(first)] * (others - 1), trial(best)]
    found = chance(tried, others, [str(i) for i in range(len(pairs))])
    assert found == pytest.approx(min(1.0, others * naive_chance(first, best)))


def test_noise_seldom_takes_the_presets_place_and_a_real_gain_does():
    chosen = {"noise": 0, "gain": 0}
    subjects = [str(i) for i in range(16)]
    for seed in range(100):
        random_ = random.Random(seed)
        of_case = [random_.uniform(0.3, 0.7) for _ in subjects]
        for kind, gain in (("noise", 0.0), ("gain", 0.25)):
            tried = [trial([min(1, max(0, b + random_.gauss(0, 0.1))) for b in of_case]) for _ in range(9)]
            tried.append(trial([min(1, max(0, b + gain + random_.gauss(0, 0.1))) for b in of_case]))
            best = max(range(10), key=lambda i: tried[i].balance)
            chosen[kind] += chance(tried, best, subjects) <= LEVEL
    assert chosen["noise"] <= 10 and chosen["gain"] >= 95


def test_what_may_be_chance_is_told_and_not_chosen():
    (planned,) = plan_edits(make_edit_lm("llama"), ["FT"])
    first, best = Trial({"rate": 1.0, "layer": 3}, [0.5] * 4, 2.0), Trial({"rate": 3.0, "layer": 3}, [0.75] * 4, 1.0)
    held = held_out([], 4)
    found = Tuned(planned, (first, best), 1, 0.2, held)
    assert found.chosen == {} and found.found == {"rate": 3.0}
    assert "nothing found better than the settings as they are, balance 0.500 (rate 1.0 -> 3.0: 0.750, " in str(found)
    assert "4 held-out updates (none of the same relations)" in str(found) and "2 trials, 3 s" in str(found)
    taken = replace(found, p=0.01)
    assert taken.chosen == {"rate": 3.0} and "rate 1.0 -> 3.0; balance 0.500 -> 0.750; 2 trials" in str(taken)


# What may be tried


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_may_try_are_settings_of_it(name: str):
    method = method_named(name)
    assert {*method.tunable} <= {field.name for field in fields(method.settings)}
    assert bool(method.tunable) == (name not in ("MEND", "PROMPT", "RETRIEVAL"))
    lm = make_edit_lm("llama")
    sites = find_sites(lm.model)
    planned = Planned(name, preset(method, lm, sites)[0], "", Resources(), sites)
    arms = arms_of(planned)
    for setting, factors in method.tunable.items():
        value = getattr(planned.settings, setting)
        tried = [other for arm in arms(setting, value) for other in arm]
        assert value not in tried
        for other in tried:
            changed(planned.settings, name, {setting: other})  # which checks its type
            if setting in LAYER_FIELDS and not isinstance(other, int):
                assert len(other) == len(value)
                assert other == tuple(range(other[0], other[0] + len(value)))
            if setting in LAYER_FIELDS:
                sites.block(other if isinstance(other, int) else other[0])
                sites.block(other if isinstance(other, int) else other[-1])
            else:
                assert any(other == pytest.approx(value * factor, rel=0.05) for factor in factors)


def test_values_lead_outwards_and_empty_ones_are_not_tried():
    (planned,) = plan_edits(make_edit_lm("llama"), ["FT+L"])
    arms = arms_of(replace(planned, sites=replace(planned.sites, layers=21)))
    assert arms("rate", 2.0) == [[6.0, 20.0], [0.6, 0.2]]
    assert arms("steps", 1) == [[2], []]
    assert arms("layer", 8) == [[4], [12], [0], [16]]
    assert arms("eps", None) == arms("rate", 0.0) == []
    assert arms("layer", 0) == [[4], [8], [12], [16]]


def test_several_layers_move_together_and_stay_in_the_model():
    (planned,) = plan_edits(make_edit_lm("llama"), ["UltraEdit"])
    arms = arms_of(replace(planned, sites=replace(planned.sites, layers=21)))
    assert arms("layers", (9, 10, 11)) == [[(7, 8, 9)], [(11, 12, 13)], [(3, 4, 5)], [(15, 16, 17)], [(0, 1, 2)]]
    assert arms("gate_layers", ()) == []


# Held-out updates


def few(cases: CaseSet, number: int, start: int = 0) -> CaseSet:
    return replace(cases, cases=cases.cases[start : start + number])


@pytest.mark.parametrize("start", [0, 60, 150, 200])
def test_held_out_updates_are_none_of_those_that_are_judged(start: int):
    judged = few(load_cases("mini-updates"), 20, start).cases
    shouting = [replace(case, subject=f" {case.subject.upper()} ") for case in judged]
    for given_ in (judged, shouting):
        held = held_out(given_)
        cases = held.cases.cases
        assert len(cases) == MOST and len({case.case_id for case in cases}) == MOST
        assert {case.subject for case in cases}.isdisjoint(case.subject for case in judged)
        prompts = {prompt for case in judged for prompt in (case.text, *case.generalization)}
        assert prompts.isdisjoint(prompt for case in cases for prompt in (case.text, *case.generalization))
        relations = {case.relation for case in judged}
        assert held.same == sum(case.relation in relations for case in cases)
        assert [case.relation in relations for case in cases] == [True] * held.same + [False] * (MOST - held.same)
        assert all(len(case.nearest) <= NEIGHBOURS and len(case.random) <= NEIGHBOURS for case in cases)


def test_relations_are_known_by_id_or_label_and_take_turns():
    judged = few(load_cases("mini-updates"), 1).cases
    by_label = [replace(judged[0], relation="other:1", relation_label=judged[0].relation_label)]
    assert held_out(by_label).same == held_out(judged).same == MOST
    others = [case.relation for case in held_out([]).cases.cases]
    assert len({*others[:14]}) == min(14, len({case.relation for case in load_cases("mini-updates").cases}))


def test_subjects_of_further_rewrites_and_prompts_of_others_are_judged_too():
    bundled = load_cases("mini-updates").cases
    kept = held_out(bundled[:3]).cases.cases
    hidden = replace(bundled[0], rewrites=(Rewrite(kept[0].subject, "The river of {} is", "x"),))
    assert kept[0].subject not in {case.subject for case in held_out([hidden, *bundled[1:3]]).cases.cases}
    reworded = replace(bundled[0], generalization=(kept[1].text,))
    assert kept[1].text not in {case.text for case in held_out([reworded, *bundled[1:3]]).cases.cases}


def test_where_all_are_judged_none_is_left():
    with pytest.raises(ConfigError, match=r"all 224 bundled updates are of subjects to be updated.*--limit"):
        held_out(load_cases("mini-updates").cases)


# With a model


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


class Bars:
    """Callbacks that keep the titles of bars, one of each trial that is made, and interrupt the trial of a number."""

    def __init__(self, interrupt: int | None = None) -> None:
        self.titles: list[str] = []
        self.interrupt = interrupt

    @property
    def callbacks(self) -> Callbacks:
        return Callbacks(open_bar=self.open)

    @contextmanager
    def open(self, title: str, unit: str) -> Iterator[Callable[..., None]]:
        self.titles.append(title)

        def progress(done: int, total: int, note: str = "") -> None:
            if note == "FT" and len(self.titles) == self.interrupt:
                raise KeyboardInterrupt

        yield progress


def tune(lm: LanguageModel, cache: Path, bars: Bars, trials: int = 5) -> Tuned:
    choice = choose_methods(["FT"], changes=BADLY, cache=cache)
    return tune_method(lm, choice, few(load_cases("mini-updates"), 5), trials=trials, callbacks=bars.callbacks)


def without_seconds(found: Tuned) -> list[tuple[Any, ...]]:
    return [(dict(one.values), list(one.scores)) for one in found.trials]


@pytest.mark.full
def test_a_rate_that_is_too_small_is_found_and_an_interrupted_search_goes_on(lm: LanguageModel, tmp_path: Path):
    whole = tune(lm, tmp_path / "whole", first := Bars())
    number = len(whole.trials)
    assert 3 <= number <= 5 and first.titles == [f"tune FT, trial {n}" for n in range(1, number + 1)]
    assert whole.chosen.keys() == {"rate"} and whole.chosen["rate"] > whole.trials[0].values["rate"]
    assert whole.trials[whole.best].balance > whole.trials[0].balance + 0.1
    assert whole.planned.settings.rate == whole.chosen["rate"] and whole.planned.settings.steps == 1
    assert "steps" not in whole.trials[0].values  # it was given
    assert whole.planned.source.endswith("tuned on 16 held-out updates (all of the same relations): rate")
    with pytest.raises(KeyboardInterrupt):
        tune(lm, tmp_path / "killed", Bars(interrupt=2))
    resumed = tune(lm, tmp_path / "killed", again := Bars())
    assert again.titles == [f"tune FT, trial {n}" for n in range(2, number + 1)]
    assert without_seconds(resumed) == without_seconds(whole)
    assert (resumed.chosen, resumed.p) == (whole.chosen, whole.p)
    assert without_seconds(tune(lm, tmp_path / "killed", third := Bars())) == without_seconds(whole)
    assert third.titles == []
    check_trials(whole, next((tmp_path / "whole" / "tune").glob("*/*")))


def check_trials(found: Tuned, folder: Path) -> None:
    """Balances counted once more from the trials' tables, and no judged subject in them."""
    judged = {case.subject for case in load_cases("mini-updates").cases[:5]}
    known = json.loads((folder / "trials.json").read_text())
    assert len(known) == len(found.trials)
    for key, one in known.items():
        scores = []
        updates = pl.read_parquet(folder / key / "updates.parquet").filter(pl.col("method") == "FT")
        assert updates.height == MOST and updates["subject"].null_count() == 0
        assert judged.isdisjoint(updates["subject"])
        tables = {name: pl.read_parquet(folder / key / f"{name}.parquet") for name in ("targets", "neighbours")}
        for case in updates["case_id"]:
            mine = {n: t.filter((pl.col("method") == "FT") & (pl.col("case_id") == case)) for n, t in tables.items()}
            won = {kind: [] for kind in ("update", "generalization")}  # type: ignore[var-annotated]
            for row in mine["targets"].iter_rows(named=True):
                won[row["kind"]].append(row["new_after"] > row["old_after"])
            kept = [row["after"] >= row["before"] / 2 for row in mine["neighbours"].iter_rows(named=True)]
            scores.append((fmean(map(fmean, won.values())) + fmean(kept)) / 2)
        assert one["scores"] == pytest.approx(scores)


@pytest.mark.full
def test_evaluate_tunes_first_and_records_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["evaluate", "demo", "--updates", "mini-updates", "--limit", "2", "--methods", "FT,PROMPT", "--tune"]
    words += ["--set", "tune_trials=5", "--set", "FT.steps=1", "--set", f"cache={tmp_path / 'cache'}"]
    words += ["--fluency-tokens", "0", "--out", str(tmp_path / "run")]
    assert run_command([*words, "--json"], False) == 0
    ft, prompt = json.loads(capsys.readouterr().out)["tuned"]
    assert prompt == {"method": "PROMPT", "chosen": {}, "best": {}, "p": 1.0, "trials": 0, "seconds": 0}
    assert ft["trials"] <= 5 and (ft["held_out"], ft["same_relations"]) == (16, 16)
    assert ft["best_balance"] > ft["before"] and ft["instead_of"].keys() == ft["chosen"].keys() == {"rate"}
    methods = json.loads((tmp_path / "run" / "run.json").read_text())["methods"]
    assert methods["FT"]["identity"]["settings"]["rate"] == ft["chosen"]["rate"]
    assert "tuned on 16 held-out updates" in methods["FT"]["settings_from"]
    assert "tuned" not in methods["PROMPT"]["settings_from"]
    assert run_command(words, False) == 0  # the same again: nothing is tried anew, and the run is the same
    shown = capsys.readouterr()
    said = " ".join((shown.out + shown.err).split())
    assert f"FT: tuned on 16 held-out updates (all of the same relations): rate {ft['instead_of']['rate']}" in said
    assert (
        f"balance {ft['before']:.3f} -> {ft['best_balance']:.3f}; {ft['trials']} trials, {ft['seconds']:.0f} s" in said
    )
    assert "PROMPT: nothing to tune" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tune-minutes", "3"], "--tune-minutes 3 is for --tune; add it, or leave this out"),
        (["--tune", "--tune-minutes", "0"], "--tune-minutes 0: give a number above 0"),
        (["--set", "tune_trials=2"], "--set tune_trials 2 is for --tune; add it, or leave this out"),
        (["--tune"], "all 224 bundled updates are of subjects to be updated"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = ["edit", "demo", "--updates", "mini-updates", "--method", "FT", "--out", str(tmp_path / "e.safetensors")]
    assert run_command([*asked, *words], False) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_setting_that_cannot_be_is_told_and_counts_as_nothing_made(lm: LanguageModel, tmp_path: Path):
    told: list[str] = []
    held = held_out([], 3)
    trying = Trying(lm, choose_methods(["FT"]), held, EvaluateSettings(), WEIGHTS, tmp_path, Callbacks(told.append))
    assert trying.trial({"layer": 99}).scores == [0.0] * 3
    assert trying.trial({"layer": 99}).balance == 0
    assert len(told) == 2  # it is not kept: what was lacking may be there next time
    assert told[0].startswith('FT cannot be tried with {"layer": 99}: layer 99: the model has ')


def test_one_method_at_a_time_with_a_budget(lm: LanguageModel):
    cases = few(load_cases("mini-updates"), 2)
    with pytest.raises(ConfigError, match="2 methods are to be tuned at once; give one"):
        tune_method(lm, choose_methods(["FT", "LoRA"]), cases)
    with pytest.raises(ConfigError, match="budget of 0 minutes"):
        tune_method(lm, choose_methods(["FT"]), cases, minutes=0)
    fixed = choose_methods(["FT"], changes={"ft": {"rate": 1e-3, "layer": 1, "steps": 2}})
    found = tune_method(lm, fixed, cases)
    assert found.trials == () and str(found) == "FT: nothing to tune"
    assert isinstance(found.planned, Planned) and found.planned.settings.rate == 1e-3
