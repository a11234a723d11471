"""Bundled updates that stand beside a user's own: of other subjects, lacked by the model, own ones first."""

from dataclasses import replace

import pytest

from anachron.advise.evidence import with_evidence
from anachron.core.sameness import name_key
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(scope="module")
def cases() -> CaseSet:
    return load_cases("mini-updates", limit=3)


@pytest.mark.full
def test_evidence_is_lacked_and_of_others(lm: LanguageModel, cases: CaseSet) -> None:
    found = with_evidence(lm, cases, 12)
    assert found.own == 3 and found.cases.cases[:3] == tuple(cases.cases)
    added = found.cases.cases[3:]
    assert len(added) == 9 and len({case.case_id for case in found.cases.cases}) == 12
    subjects = {name_key(case.subject) for case in cases.cases}
    relations = {case.relation for case in cases.cases}
    assert all(name_key(case.subject) not in subjects for case in added)
    assert found.same == sum(case.relation in relations for case in added)
    # by the scores themselves: the old object is likelier per token after every prompt
    asked = [(prompt, (str(case.old), str(case.new))) for case in added for prompt in (case.text, *case.generalization)]
    pairs = [(prompt, name) for prompt, names in asked for name in names]
    encoded = lm.encode([(*pair, None) for pair in pairs], lm.style)
    means = [score / len(text.targets) for score, text in zip(lm.log_probs(pairs), encoded, strict=True)]
    assert all(old > new for old, new in zip(means[::2], means[1::2], strict=True))
    assert "9 bundled ones" in str(found)


@pytest.mark.full
def test_enough_own_updates_stand_alone(lm: LanguageModel, cases: CaseSet) -> None:
    assert with_evidence(lm, cases, 3).cases is cases
    assert with_evidence(lm, cases, 0).cases is cases
    everything = load_cases("mini-updates")
    assert with_evidence(lm, everything, 10**6).cases is everything
    assert with_evidence(lm, replace(cases, cases=cases.cases[:1]), 2).own == 1


@pytest.mark.full
def test_evidence_fills_whole_edits(lm: LanguageModel) -> None:
    """Of thirty own updates the advice is on edits of thirty: what does not fill one would be in no number of it."""
    own = load_cases("mini-updates", limit=30)
    found = with_evidence(lm, own, 10**6)
    assert len(found.cases.cases) > 30 and len(found.cases.cases) % 30 == 0
    assert found.same <= len(found.cases.cases) - 30
