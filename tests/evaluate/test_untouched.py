"""What else an edit changed, counted again by plain loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.data.bundled.mini import mini_facts
from anachron.data.bundled.mini_updates import known_facts
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import MINI_UPDATES, load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit, settings_for
from anachron.edit.requests import EditRequest
from anachron.evaluate.untouched import (
    BESIDE,
    SAME_SUBJECT,
    Untouched,
    ask_untouched,
    untouched_counts,
    untouched_facts,
)
from anachron.lm.model import LanguageModel
from anachron.report.terminal.old_and_new import untouched_lines
from support.edit_models import make_edit_lm


def fact(subject: str | None, prompt: str, *objects: str) -> NeighbourFact:
    return NeighbourFact(prompt, objects, None, None, subject)


PERU, CHAD = fact("Peru", "The capital of Peru is", "Lima"), fact("Chad", "Chad speaks", "French", "Arabic")
CASE = EditCase(
    "0", "France", "The president of {} is", "Angela Merkel", "Jacques Chirac", ("At the head of France stands",),
    nearest=(PERU, fact("Italy", "The president of Italy is", "A")), random=(CHAD, PERU), relation="P35",
)  # fmt: skip


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def test_what_an_update_is_about_is_not_asked():
    """Neither its prompts, nor its objects of its subject, nor its relation among what is bundled."""
    own = (
        fact("France", "at the head of  France stands", "X"), fact("FRANCE", "France is led by", "Jacques Chirac"),
        fact("France", "The motto of France is", "Liberty"), fact(None, "The sun is", "a star"),
    )  # fmt: skip
    italy = replace(CASE, case_id="1", subject="Italy", new="B", old="A", nearest=own, random=())
    found = untouched_facts([CASE, italy])
    assert found[BESIDE] == [PERU, CHAD, own[3]]  # Italy's president is what the other update changes
    assert found[SAME_SUBJECT][0] == own[2]
    about = {(one.subject, one.objects[0]) for one in found[SAME_SUBJECT][1:]}
    bundled = [f for f in (*known_facts(), *(m.fact for m in mini_facts())) if f.subject in ("France", "Italy")]
    assert about and about <= {(f.subject, f.object) for f in bundled if f.relation_id != "P35"}
    relations = [{f.relation_id for f in bundled if (f.subject, f.object) == one} for one in about]
    assert len(about) == len({(subject, tuple(of)) for (subject, _), of in zip(about, relations, strict=True)})
    by_label = replace(CASE, relation="head of state", nearest=(), random=())
    assert not any("head of state" in one.prompt for one in untouched_facts([by_label])[SAME_SUBJECT])


def test_nothing_that_some_bundled_update_changes_counts_as_untouched():
    cases = load_cases(MINI_UPDATES).cases
    changed = {(case.subject, label) for case in cases for label in (case.old, case.new)}
    found = untouched_facts(cases)
    assert len(found[BESIDE]) > 100 and len(found[SAME_SUBJECT]) > 20
    for one in (*found[BESIDE], *found[SAME_SUBJECT]):
        assert not changed & {(one.subject, label) for label in one.objects}
    assert {one.subject for one in found[SAME_SUBJECT]} <= {case.subject for case in cases}


def test_probabilities_are_those_without_and_with_the_edit(lm):
    settings, _ = settings_for("FT", lm)
    request = EditRequest("The president of {} is", "France", "Angela Merkel")
    edit = make_edit(lm, "FT", [request], replace(settings, rate=1e-2, steps=20, layer=2))
    asked = ask_untouched(lm, edit, {BESIDE: [PERU, CHAD], SAME_SUBJECT: []})
    assert asked[SAME_SUBJECT] == [] and [one.fact for one in asked[BESIDE]] == [PERU, CHAD]

    def naive(one: NeighbourFact) -> float:
        means = []
        for text in lm.encode([(one.prompt, label, None) for label in one.objects], lm.style):
            with torch.inference_mode():
                logp = lm.model(input_ids=torch.tensor([text.ids])).logits[0].double().log_softmax(-1)
            means.append(np.exp(np.mean([logp[place - 1, text.ids[place]].item() for place in text.targets])))
        return float(np.mean(means))

    np.testing.assert_allclose([one.before for one in asked[BESIDE]], [naive(PERU), naive(CHAD)], rtol=1e-4)
    with edited(lm, edit):
        np.testing.assert_allclose([one.after for one in asked[BESIDE]], [naive(PERU), naive(CHAD)], rtol=1e-4)
    assert any(one.loss != 0 for one in asked[BESIDE])
    assert ask_untouched(lm, edit, {BESIDE: []}) == {BESIDE: []}


def test_so_many_are_asked_that_it_stays_fast(lm):
    edit = make_edit(lm, "PROMPT", [EditRequest("The president of {} is", "France", "Angela Merkel")])
    facts = [fact(f"S{n}", f"The capital of S{n} is", "Lima") for n in range(30)]
    once, again = (ask_untouched(lm, edit, {BESIDE: facts}, most=7)[BESIDE] for _ in range(2))
    assert once == again and len({one.fact.prompt for one in once}) == 7
    assert [one.fact for one in once] == [one for one in facts if one in [found.fact for found in once]]


P = st.floats(0.0, 1.0)


@given(st.lists(st.tuples(P, st.one_of(P, st.just(float("nan")))), max_size=12))
def test_counts_by_a_plain_loop(probabilities):
    asked = [Untouched(fact(f"S{n}", f"p{n}", "o"), *pair) for n, pair in enumerate(probabilities)]
    found = untouched_counts(asked, len(asked) + 3)
    as_likely = fell = 0
    for before, after in probabilities:
        if after >= 0.9 * before:
            as_likely += 1
        if after < 0.5 * before or after != after:
            fell += 1
    assert (found["facts"], found["asked"]) == (len(asked) + 3, len(asked))
    assert (found["as_likely"], found["fell_by_half"]) == (as_likely, fell)
    losses = sorted((b - a for b, a in probabilities if b - a > 0), reverse=True)[:3]
    assert [one["before"] - one["after"] for one in found["worst"]] == losses
    if probabilities and all(a == a for _, a in probabilities):
        assert found["mean_loss"] == pytest.approx(sum(b - a for b, a in probabilities) / len(asked), abs=1e-12)
        assert found["mean_loss"] == pytest.approx(found["mean_before"] - found["mean_after"], abs=1e-12)


def test_lines():
    beside = untouched_counts([Untouched(PERU, 0.5, 0.49), Untouched(CHAD, 0.4, 0.1)], 2)
    own = untouched_counts([Untouched(fact("France", "France speaks", "French"), 0.9, 0.2)], 300)
    assert untouched_lines({BESIDE: beside, SAME_SUBJECT: own}) == [
        "of 2 neighbours 1 kept their true object as likely, 1 fell by more than half; on average 45.00 % before, "
        "29.50 % after",
        "of 1 other fact about the subjects (a fixed sample of 300) 0 kept their true object as likely, 1 fell by "
        "more than half; on average 90.00 % before, 20.00 % after",
        "fell most: France speaks French: 90.00 to 20.00 %; Chad speaks French / Arabic: 40.00 to 10.00 %; The capital "
        "of Peru is Lima: 50.00 to 49.00 %",
    ]
    assert untouched_lines(None) == untouched_lines({BESIDE: untouched_counts([], 0)}) == []
