"""Settings of a method for a model at hand, searched on held-out updates (``--tune``).

A coordinate search from the preset: one setting after another takes the value with the best mean balance
(`anachron.advise.balance`) over the held-out updates (`anachron.advise.held_out`), until a round over all settings
changes nothing or the budget is spent. A trial is an independent evaluation of all of them. The best of many trials is
better by luck too, so it takes the preset's place only where chance hardly explains the difference: by the
randomisation test of the paired balances (`anachron.analysis.statistics.sign_flips`), one-sided as only a gain counts,
at a level of 5 % shared out among the trials. A sign test would take a small loss for as much as a large gain.

Trials are kept in the cache folder, by all that they depend on: a search that was killed, or is asked for again,
repeats no finished one and counts the seconds that it took.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from anachron.advise.balance import BALANCE, WEIGHTS, balances, checked_weights
from anachron.advise.held_out import HeldOut, held_out
from anachron.analysis.statistics import ROUNDING, sign_flips
from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.data.updates.cases import CaseSet
from anachron.edit.methods import method_named
from anachron.edit.plan import Planned
from anachron.edit.presets import LAYER_FIELDS
from anachron.evaluate.editing import MethodChoice, prepare_methods
from anachron.evaluate.measure import Measures
from anachron.evaluate.results import UNEDITED
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.cache import cache_folder
from anachron.io.files import Json, json_fingerprint, read_json, versions, write_json
from anachron.io.jobs import Callbacks, locked
from anachron.io.run_folder import RUN_FILE, RunFolder
from anachron.lm.model import LanguageModel

MINUTES = 5.0
TRIALS = 30  # more would ask so much of the best that a plain gain on 16 updates would not do
LEVEL = 0.05  # of the test that a choice must pass, for all trials together
TRIALS_FILE = "trials.json"
SCORES = Measures(fluency_tokens=0)  # what trials measure: probabilities, since generated text takes far longer

Arms = Callable[[str, Any], Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Trial:
    """One value of each setting that is searched.

    scores: a balance from 0 to 1 for each held-out update, 0 for one that could not be made. seconds: that it took.
    """

    values: Mapping[str, Any]
    scores: Sequence[float]
    seconds: float

    @property
    def balance(self) -> float:
        """The mean of the scores."""
        return sum(self.scores) / len(self.scores)


@dataclass(frozen=True)
class Tuned:
    """What a search found for a method.

    planned: the method, ready, with the settings to use. trials: in their order, that of the settings it began with
    first; none where a method has nothing to tune. best: the place of the best. p: that chance explains why it is
    better than the first. held_out: what they were tried on.
    """

    planned: Planned
    trials: tuple[Trial, ...] = ()
    best: int = 0
    p: float = 1.0
    held_out: HeldOut | None = None

    @property
    def found(self) -> dict[str, Any]:
        """The settings of the best trial that differ from the first ones."""
        if not self.trials:
            return {}
        first, best = self.trials[0].values, self.trials[self.best].values
        return {name: value for name, value in best.items() if value != first[name]}

    @property
    def chosen(self) -> dict[str, Any]:
        """Those that take the place of the first ones; empty where these stay."""
        return self.found if self.p <= LEVEL else {}

    def record(self) -> Json:
        """For ``--json``. before, best_balance: means over the held-out updates, of the first settings and the best."""
        about = {
            "method": self.planned.label, "chosen": self.chosen, "best": self.found, "p": self.p,
            "trials": len(self.trials), "seconds": sum(one.seconds for one in self.trials),
        }  # fmt: skip
        if self.held_out is None:
            return about
        first, best = self.trials[0], self.trials[self.best]
        return about | {
            "instead_of": {name: first.values[name] for name in self.found}, "before": first.balance,
            "best_balance": best.balance, "held_out": len(self.held_out.cases.cases),
            "same_relations": self.held_out.same,
        }  # fmt: skip

    def __str__(self) -> str:
        """One line for people."""
        if self.held_out is None:
            return f"{self.planned.printed_name}: nothing to tune"
        first, best, cost = self.trials[0], self.trials[self.best], sum(one.seconds for one in self.trials)
        moves = ", ".join(f"{n} {json.dumps(first.values[n])} -> {json.dumps(v)}" for n, v in self.found.items())
        if self.chosen:
            what = f"{moves}; balance {first.balance:.3f} -> {best.balance:.3f}"
        else:
            chance = f" ({moves}: {best.balance:.3f}, which may be chance, p {self.p:.2g})" if moves else ""
            what = f"nothing found better than the settings as they are, balance {first.balance:.3f}{chance}"
        trials = f"{len(self.trials)} trials, {cost:.0f} s"
        return f"{self.planned.printed_name}: tuned on {self.held_out}: {what}; {trials}"


def tune_method(
    lm: LanguageModel,
    choice: MethodChoice,
    cases: CaseSet,
    *,
    minutes: float = MINUTES,
    trials: int = TRIALS,
    measures: Measures = SCORES,
    weights: Mapping[str, float] = WEIGHTS,
    callbacks: Callbacks | None = None,
) -> Tuned:
    """Search settings of a method on updates that are not among ``cases``, those to be made and judged.

    choice: of one method (`anachron.choose_methods`); settings that it changes stay as they are given.
    minutes, trials: the budget. A trial that has begun is finished, and there is one at least. By minutes, what is
    found depends on the machine; by a number of trials alone it does not.
    measures: what of the balance is measured. weights: of its parts.

    Raises `ConfigError` for another number of methods, a budget of nothing, and where no update is left to try settings
    on; and as `anachron.prepare_methods` and `anachron.run_evaluation`.
    """
    if len(choice.methods) != 1:
        raise ConfigError(f"{len(choice.methods)} methods are to be tuned at once; give one")
    if not minutes > 0 or trials < 1:
        raise ConfigError(f"a budget of {minutes:g} minutes and {trials} trials: both must be above 0")
    weights, callbacks = checked_weights(weights), callbacks or Callbacks()
    (planned,) = prepare_methods(lm, choice, callbacks=callbacks)
    label, given = planned.label, choice.changes_of(planned.method)
    arms = arms_of(planned)
    start = {name: getattr(planned.settings, name) for name in method_named(planned.method).tunable}
    start = {name: value for name, value in start.items() if name not in given and arms(name, value)}
    if not start:
        return Tuned(planned)
    held = held_out(cases.cases)
    assert {case.subject for case in cases.cases}.isdisjoint(case.subject for case in held.cases.cases)
    asked = {  # what the unedited model's scores depend on, which all methods share
        "model": lm.identity(), "edit_prefix": lm.prefix or None, "format": lm.style.kind,
        "updates": held.cases.fingerprint(), "measures": asdict(measures), "version": versions()["anachron"],
    }  # fmt: skip
    of_method = {
        "method": planned.identity(), "sites": asdict(planned.sites) if planned.sites else None,
        "searched": list(start), "weights": weights,
    }  # fmt: skip
    names = (json_fingerprint(one)[:16] for one in (asked, of_method))
    folder = (choice.cache or cache_folder()).joinpath("tune", *names)
    with locked(folder / ".lock", folder, waiting=callbacks.warn):
        trying = Trying(
            lm, choice.only(label, {}), held, EvaluateSettings(measures=measures), weights, folder, callbacks
        )
        tried, best = coordinate_search(start, arms, trying.trial, minutes=minutes, trials=trials)
    tuned = Tuned(planned, tuple(tried), best, chance(tried, best, [case.subject for case in held.cases.cases]), held)
    if tuned.chosen:
        (planned,) = prepare_methods(lm, choice.only(label, tuned.chosen), callbacks=callbacks)
    which = ", ".join(tuned.chosen) or "no setting changed"
    return replace(tuned, planned=replace(planned, source=f"{planned.source}; tuned on {held}: {which}"))


def coordinate_search(
    start: Mapping[str, Any], arms: Arms, trial: Callable[[Mapping[str, Any]], Trial], *,
    minutes: float = float("inf"), trials: int | None = None,
) -> tuple[list[Trial], int]:  # fmt: skip
    """All trials in their order, and the place of the best; of equal ones, the first.

    arms: values to try of a setting, by its name and its value so far, in sequences that lead away from that value. One
    is followed no further once a trial is worse than where it began; once one of several values gained, those behind it
    wait for the next round. trial: never asked twice for the same values.
    minutes: of the seconds that the trials say they took.
    """
    tried: dict[str, Trial] = {}

    def tried_with(values: Mapping[str, Any]) -> Trial | None:
        """None where the budget is spent."""
        key = json.dumps(values)
        if key not in tried:
            spent = sum(one.seconds for one in tried.values()) >= 60 * minutes
            if tried and (spent or len(tried) == trials):
                return None
            tried[key] = trial(values)
        return tried[key]

    def one_round(best: Trial) -> tuple[Trial, bool]:
        """The best after each setting was searched once, and whether to stop."""
        for name in start:
            base = best
            for arm in arms(name, base.values[name]):
                for value in arm:
                    if (one := tried_with({**base.values, name: value})) is None:
                        return best, True
                    best = one if one.balance > best.balance + ROUNDING else best
                    if best.balance > 1 - ROUNDING:  # nothing can be better
                        return best, True
                    if one.balance < base.balance - ROUNDING:
                        break
                if best is not base and len(arm) > 1:  # the other way along a line would lead down
                    break
        return best, False

    best = tried_with(start)
    assert best is not None  # the budget has room for one
    stop, before = False, None
    while not stop and best is not before:
        before = best
        best, stop = one_round(best)
    found = list(tried.values())
    return found, found.index(best)


def chance(tried: Sequence[Trial], best: int, subjects: Sequence[str]) -> float:
    """p that the best of some trials is better than the first by chance: one-sided, of the paired scores, times the
    number of trials that it is the best of. subjects: of each score; those of one subject are flipped together."""
    if best == 0:
        return 1.0
    p = sign_flips(tried[0].scores, tried[best].scores, subjects) / 2
    return min(1.0, p * (len(tried) - 1))


@dataclass(frozen=True)
class Trying:
    """Makes trials, and keeps them in a folder: each trial's run, and what came of it in `TRIALS_FILE`."""

    lm: LanguageModel
    choice: MethodChoice
    held: HeldOut
    settings: EvaluateSettings
    weights: Mapping[str, float]
    folder: Path
    callbacks: Callbacks

    def trial(self, values: Mapping[str, Any]) -> Trial:
        file, key = self.folder / TRIALS_FILE, json_fingerprint(values)[:16]
        known = read_json(file) if file.is_file() else {}
        if key not in known:
            started = time.perf_counter()
            with self.callbacks.bar(f"tune {self.choice.methods[0]}, trial {len(known) + 1}") as bar:
                scores = self._scores(values, self.folder / key, replace(bar, warn=Callbacks().warn))
            if scores is None:  # what was lacking may be there next time
                return Trial(values, [0.0] * len(self.held.cases.cases), time.perf_counter() - started)
            known[key] = {"values": values, "scores": scores, "seconds": time.perf_counter() - started}
            write_json(file, known)
        return Trial(values, known[key]["scores"], known[key]["seconds"])

    def _scores(self, values: Mapping[str, Any], out: Path, callbacks: Callbacks) -> list[float] | None:
        """A balance for each update, that of the unedited model for those that are not made, so that no setting wins by
        making fewer; None for settings that cannot be."""
        cases, label = self.held.cases, self.choice.methods[0]
        try:
            (planned,) = prepare_methods(self.lm, self.choice.only(label, values), callbacks=callbacks)
        except (ConfigError, DataError, ModelError) as error:  # such as a layer where AlphaEdit finds no null space
            self.callbacks.warn(f"{label} cannot be tried with {json.dumps(values)}: {error}")
            return None
        self._share_clean(out)
        done = run_evaluation(self.lm, cases, [planned], out, self.settings, callbacks=callbacks)
        rows = balances(done.tables, self.weights).filter(pl.col("way") != UNEDITED)
        of_case = dict(rows.select("case_id", pl.col(BALANCE).fill_null(0.0)).iter_rows())
        return [of_case[case.case_id] for case in cases.cases]

    def _share_clean(self, out: Path) -> None:
        """Begin a trial's run with the unedited model's scores of another, which are the same and take as long."""
        known = [path.parent for path in sorted(self.folder.parent.glob(f"*/*/{RUN_FILE}"))]
        runs = [run for run in map(RunFolder.read, known) if run.is_done]
        if out in known or not runs:
            return
        other, run = runs[0], RunFolder.new(out, runs[0].record["settings"])
        run.record |= {name: other.record[name] for name in ("kind", "template_date") if name in other.record}
        for name in other.record["files"]:
            if name.startswith("clean/"):
                run.write(name, other.read_file(name))


def arms_of(planned: Planned) -> Arms:
    """What its method says may be tried (`anachron.edit.method.Method.tunable`), outwards from a value: none of a
    setting that is None, 0 or empty."""
    tunable, layers = method_named(planned.method).tunable, 0 if planned.sites is None else planned.sites.layers

    def arms(name: str, value: Any) -> list[list[Any]]:
        if value in (None, ()) or (value == 0 and name not in LAYER_FIELDS):
            return []
        if name in LAYER_FIELDS:
            others = {_at_depth(value, part, layers) for part in tunable[name]} - {value}
            return [[other] for other in sorted(others, key=lambda one: (abs(_first(one) - _first(value)), one))]
        larger, smaller = (sorted(f for f in tunable[name] if (f > 1) is side) for side in (True, False))
        ways = [[_times(value, factor) for factor in way] for way in (larger, smaller[::-1])]
        return [[other for other in way if other != value] for way in ways]

    return arms


def _times(value: float, factor: float) -> float:
    """To three digits, so that steps back meet what was tried."""
    return max(1, round(value * factor)) if isinstance(value, int) else float(f"{value * factor:.3g}")


def _first(layers: int | Sequence[int]) -> int:
    return layers if isinstance(layers, int) else layers[0]


def _at_depth(layers: int | Sequence[int], depth: float, number: int) -> int | tuple[int, ...]:
    """As many layers, moved so that their middle is at a part of the way from the first of a model's to the last."""
    wanted = depth * (number - 1)
    if isinstance(layers, int):
        return round(wanted)
    move = round(wanted - (layers[0] + layers[-1]) / 2)
    move = max(-layers[0], min(move, number - 1 - layers[-1]))
    return tuple(layer + move for layer in layers)
