"""The method that is recommended, over the whole table of docs/edits.md."""

from itertools import product

import pytest

from anachron.edit.methods import method_named, why_unsupported
from anachron.edit.recommend import FEW, Recommended, Situation, recommend

TABLE = [
    (Situation(updates=1), "ROME", "for 1 update, and a covariance is there"),
    (Situation(updates=10), "ROME", "for 10 updates, and a covariance is there"),
    (Situation(updates=50), "MEMIT", "for 50 updates at once, and a covariance is there"),
    (Situation(updates=1500, kept_as_model=True), "MEMIT", "for 1,500 updates at once, and a covariance is there"),
    (Situation(updates=2, covariance="not wanted"), "ROME", "for 2 updates, and a covariance is not wanted"),
    (Situation(updates=3, covariance="missing"), "PROMPT",
     "for 3 updates: no covariance is at hand, which --corpus auto makes for ROME and MEMIT"),
    (Situation(updates=3, covariance="missing", kept_as_model=True), "FT",
     "for 3 updates: no covariance is at hand, which --corpus auto makes for ROME and MEMIT"),
    (Situation(updates=11, covariance="missing"), "FT",
     "for 11 updates at once: no covariance is at hand, which --corpus auto makes for ROME and MEMIT"),
    (Situation(updates=2, subjects_named=False), "PROMPT",
     "for 2 updates: ROME and MEMIT need prompts that name their subject"),
    (Situation(updates=20, scenarios={"Archive"}), "FT", "for 20 updates at once: ROME and MEMIT take no object out"),
    (Situation(updates=4, weights="fixed"), "GRACE",
     "for 4 updates: the weights cannot be added to, and a memory spares the rest"),
    (Situation(updates=40, weights="fixed"), "LoRA",
     "for 40 updates at once: the weights cannot be added to, adapters stand beside them"),
    (Situation(updates=40, weights="elsewhere"), "PROMPT",
     "the model's weights are elsewhere, so only what it reads can change"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "method", "reason"), TABLE, ids=[f"{one[1]} {n}" for n, one in enumerate(TABLE)])
def test_the_table(known: Situation, method: str, reason: str):
    assert recommend(known) == Recommended(method, reason)


def test_whatever_is_known_the_method_can_do_it():
    for updates, weights, covariance, scenario, named, kept in product(
        (1, FEW, FEW + 1), ("plain", "fixed", "elsewhere"), ("there", "not wanted", "missing"),
        ("ReplaceObject", "AddObject", "Archive"), (True, False), (True, False),
    ):  # fmt: skip
        known = Situation(
            updates=updates, weights=weights, covariance=covariance, scenarios=(scenario,), subjects_named=named,
            kept_as_model=kept,
        )  # fmt: skip
        method = method_named(recommend(known).method)
        assert why_unsupported(method.name, scenario) is None
        assert covariance != "missing" or not method.needs_covariance
        assert named or not method.needs_subject
        assert weights == "plain" or not method.readable_weights
        assert method.changes_weights or not kept or weights == "elsewhere"
        assert not method.needs_network
