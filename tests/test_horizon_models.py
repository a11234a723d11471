"""The script that trains models until a known date: its world, what it teaches, and the arithmetic of its table."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("horizon_models")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def test_every_subject_changes_once_and_months_are_evenly_filled(script) -> None:
    changes = script.world()
    assert len({change.subject for change in changes}) == len(changes) == script.CHANGES
    assert all(change.old != change.new for change in changes)
    _, counts = np.unique([change.month for change in changes], return_counts=True)
    assert counts.min() >= 2
    assert counts.max() <= 3
    assert script.world() == changes


def test_what_is_learned_is_what_the_curve_says(script) -> None:
    changes = script.world() * 20
    months = np.array([change.month for change in changes])
    halving = 2018 * 12
    step = np.array(script.learned(changes, halving, 0.0, 0.0, seed=1))
    assert (step == (months < halving)).all()
    known = np.array(script.learned(changes, halving, 12.0, 0.0, seed=1))
    around = np.abs(months + 0.5 - halving) <= 3
    assert known[around].mean() == pytest.approx(0.5, abs=0.08)
    assert not known[months >= halving + 12].any()
    leaked = np.array(script.learned(changes, halving, 12.0, 0.1, seed=1))
    assert leaked[months >= halving + 12].mean() == pytest.approx(0.1, abs=0.02)


def test_the_table_counts_honest_and_leaking_models_apart(script) -> None:
    row = {"told": True, "halving": 100.0, "lag": 0.0, "middle": 102.0, "low": 99.0, "high": 104.0, "end_bound": 105.0}
    row |= {"training_seconds": 9.0}
    rows = [row | {"leak": False, "leaked": False}, row | {"leak": False, "leaked": True, "low": 101.0}]
    found = script.table([*rows, row | {"leak": True, "leaked": True}])
    assert found["all"]["mean_error_months"] == 2
    assert found["all"]["interval_holds"] == 0.5
    assert (found["honest"], found["false_alarms"], found["leaking"], found["leaks_seen"]) == (2, 1, 1, 1)
    assert "planted decline" not in found


@pytest.mark.slow
def test_a_trained_model_has_the_horizon_that_it_was_taught(script, tmp_path: Path) -> None:
    row = script.one(4, 12, leak=False, out=tmp_path)
    assert row["learned_as_taught"] > 0.95
    assert row["low"] - 1 <= row["halving"] <= row["high"] + 1
    assert not row["leaked"]
