"""How likely old and new objects are, before and after an edit, against one forward pass a text."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase
from anachron.edit.base import edited
from anachron.edit.make import make_edit, settings_for
from anachron.edit.requests import EditRequest
from anachron.evaluate.old_and_new import COMPARED, OBJECTS, before_and_after, compare_objects, score_objects
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm

NAMES = ("Angela Merkel", "Jacques Chirac", "Lima", "Boris Johnson", "São Paulo", "Paris")
CASES = [
    EditCase(
        f"{number}", place, f"The president of {place} is", new, old,
        (f"Who leads {place}? It is", f"At the head of {place} stands", f"In {place} the first citizen is"),
        relation="P35", relation_label="head of state",
    )
    for number, (place, new, old) in enumerate(
        zip(("France", "Zürich", "Peru", "Rome", "Brazil", "Chad"), NAMES, NAMES[1:] + NAMES[:1], strict=True)
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def naive(lm, prompt, answer):
    """Geometric mean of the tokens' probabilities, and the rank of the first by sorting the whole vocabulary."""
    (text,) = lm.encode([(prompt, answer, None)], lm.style)
    with torch.inference_mode():
        logits = lm.model(input_ids=torch.tensor([text.ids])).logits[0].double()
    logp = torch.log_softmax(logits, -1)
    tokens = [logp[place - 1, text.ids[place]].item() for place in text.targets]
    order = logits[text.targets[0] - 1].argsort(descending=True).tolist()
    return np.exp(np.mean(tokens)), order.index(text.ids[text.targets[0]]) + 1


def test_probabilities_and_ranks_against_a_pass_a_text(lm):
    table = score_objects(lm, CASES)
    assert dict(table.schema) == OBJECTS and table.height == len(CASES) * 4 * 2
    wanted = [naive(lm, row["prompt"], row["object"]) for row in table.iter_rows(named=True)]
    np.testing.assert_allclose(table["p"], [p for p, _ in wanted], rtol=1e-4)
    assert table["rank"].to_list() == [rank for _, rank in wanted] and table["rank"].n_unique() > 3
    assert table["relation"].unique().to_list() == ["head of state"]
    assert score_objects(lm, CASES, paraphrases=False).equals(table.filter(kind="update"))
    assert score_objects(lm, CASES, batch_tokens=1).drop("p").equals(table.drop("p"))


def test_tokens_that_tie_have_the_best_rank_among_them(lm):
    from anachron.lm.scoring import rank_first

    texts = lm.encode([(case.text, case.new, None) for case in CASES], lm.style)
    head = lm.model.get_output_embeddings().weight
    kept = head.detach().clone()
    with torch.no_grad():
        head.zero_()  # every token is as likely as every other
        assert rank_first(lm.model, texts).tolist() == [1.0] * len(CASES)
        head.copy_(kept)


def test_states_follow_from_every_prompt(lm):
    """Of one prompt and of four, with the new object trained into one update; a tie is neither's."""
    settings, _ = settings_for("FT", lm)
    request = EditRequest.of(CASES[0].prompt, CASES[0].subject, CASES[0].new)
    edit = make_edit(lm, "FT", [request], replace(settings, rate=1e-2, steps=20, layer=2))
    alone = [replace(case, case_id=f"alone {case.case_id}", generalization=()) for case in CASES]
    same = replace(CASES[1], case_id="same", old=CASES[1].new)
    one_sided = replace(CASES[2], case_id="one", old=None)
    group = replace(CASES[2], case_id="group", scenario="AddObject", objects=(("Lima", "new"), ("Paris", "static")))
    with edited(lm, edit):
        found = compare_objects(lm, [*CASES, *alone, same, one_sided, group])
        states = []
        for case in (*CASES, *alone, same):
            pairs = [(naive(lm, p, case.old)[0], naive(lm, p, case.new)[0]) for p in (case.text, *case.generalization)]
            signs = {np.sign(old - new) if case.old != case.new else 0.0 for old, new in pairs}
            states.append({(1.0,): "lacks", (-1.0,): "has"}.get(tuple(signs), "partly"))
    assert dict(found.schema) == COMPARED
    assert found["case_id"].to_list() == [case.case_id for case in (*CASES, *alone, same)]
    assert found["state"].to_list() == states and set(states) == {"has", "lacks", "partly"}
    assert states[6] == "has" and found["prompts"].to_list() == [4] * 6 + [1] * 6 + [4]
    tie = found.row(by_predicate=pl.col("case_id") == "same", named=True)
    assert (tie["old_likelier"], tie["new_likelier"], tie["state"]) == (0, 0, "partly")
    with pytest.raises(DataError, match="none of 2 updates names an old and a new object"):
        compare_objects(lm, [one_sided, group])


def test_before_and_after_are_the_model_without_and_with_the_edit(lm):
    settings, _ = settings_for("FT", lm)
    request = EditRequest.of(CASES[0].prompt, CASES[0].subject, CASES[0].new)
    edit = make_edit(lm, "FT", [request], replace(settings, rate=1e-2, steps=20, layer=2))
    table = before_and_after(lm, edit, CASES[:2])
    before = [naive(lm, case.text, label) for case in CASES[:2] for label in (case.new, case.old)]
    with edited(lm, edit):
        after = [naive(lm, case.text, label) for case in CASES[:2] for label in (case.new, case.old)]
    for name, wanted in (("before", before), ("after", after)):
        np.testing.assert_allclose(table[name], [p for p, _ in wanted], rtol=1e-4)
        assert table[f"rank_{name}"].to_list() == [rank for _, rank in wanted]
    assert table["role"].to_list() == ["new", "obsolete"] * 2
    assert table["after"][0] > table["before"][0] and table["rank_after"][0] == 1


def test_objects_of_groups_are_those_that_came_and_went(lm):
    group = replace(
        CASES[0], scenario="AddObject",
        objects=(("Lima", "new"), ("Paris", "static"), ("Rome", "new"), ("", "new"), ("Peru", "obsolete")),
    )  # fmt: skip
    table = score_objects(lm, [group], paraphrases=False)
    assert table.select("role", "object").rows() == [("new", "Lima"), ("new", "Rome"), ("obsolete", "Peru")]
    assert score_objects(lm, []).height == 0
