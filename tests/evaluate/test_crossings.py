"""Options of evaluate that meet: methods that carry more than weights, METO's requests, chats, batches in sequence."""

from pathlib import Path
from typing import Any

import pytest
import torch

from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.plan import Planned, plan_edits
from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
from anachron.evaluate.measure import Measures, measure
from anachron.evaluate.measures.audit import AnswerAudit
from anachron.evaluate.measures.dated import Dating
from anachron.evaluate.requests import requests_of
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.model import LanguageModel
from edit.test_chat import chat_lm
from evaluate.test_atoke import FRANCE, PERU

pytestmark = pytest.mark.full
CHILE = EditCase(
    "3", "Chile", "The president of Chile is", "Gabriel Boric", "Ricardo Lagos", ("Chile is led by",),
    start="2016", old_start="2010-03", old_end="2014",
)  # fmt: skip
CASES = CaseSet("countries", "wikifactdiff", (FRANCE, PERU, CHILE), {})
ALL = Measures(0, None, True, Dating("2024"), True, audit=AnswerAudit(5))
METHODS = ["FT METO", "GRACE METO", "UltraEdit METO", "UltraEdit", "GRACE dated"]
FAST: dict[str, Any] = {
    "FT": {"steps": 3, "layer": 2, "rate": 3e-2},
    "GRACE": {"steps": 5, "layer": 1, "radius": 3.0},
    "UltraEdit": {"layers": [1, 2], "rate": 1e-2},
}


def planned_for(lm: LanguageModel) -> list[Planned]:
    return plan_edits(lm, METHODS, changes=FAST)


def by_hand(lm: LanguageModel, one: Planned) -> list[Any]:
    """France and Peru in one edit, Chile on top of it, then all measured."""
    first, second = ([r for case in some for r in requests_of(case, one.method, one.variant)]
                     for some in (CASES.cases[:2], CASES.cases[2:]))  # fmt: skip
    total = make_edit(lm, one.method, first, one.settings)
    with edited(lm, total):
        total = total + make_edit(lm, one.method, second, one.settings)
    with edited(lm, total):
        return measure(lm, CASES.cases, ALL)


@pytest.mark.slow
def test_batches_in_sequence_in_a_chat_are_made_and_measured_as_by_hand(tmp_path: Path):
    lm = chat_lm()
    style, weights = lm.style, {name: value.clone() for name, value in lm.model.state_dict().items()}
    settings = EvaluateSettings("sequential", 2, ALL)
    result = run_evaluation(lm, CASES, planned_for(lm), tmp_path / "run", settings)
    assert set(result.tables["updates"]["status"]) == {"done"}
    for one in planned_for(lm):
        for case, mine in zip(CASES.cases, by_hand(lm, one), strict=True):
            of = {"method": one.method, "variant": one.variant, "case_id": case.case_id}
            found = {name: table.filter(**of) for name, table in result.tables.items() if name in
                     ("dated", "atoke", "targets", "audit")}  # fmt: skip
            assert found["dated"]["new_after"].to_list() == pytest.approx([r["new"] for r in mine.rows["dated"]])
            assert found["atoke"]["accuracy_after"].to_list() == [r["accuracy"] for r in mine.rows["atoke"]]
            assert found["targets"]["new_after"].to_list() == pytest.approx([r["new"] for r in mine.rows["targets"]])
            assert found["audit"]["text_after"].to_list() == [r["text"] for r in mine.rows["audit"]]
    assert not lm.memories and lm.style == style
    assert all(torch.equal(value, weights[name]) for name, value in lm.model.state_dict().items())


@pytest.mark.parametrize(
    "share", [pytest.param(one, marks=pytest.mark.slow) for one in (0.3, 0.02, 0.9)]
)  # of all calls of the model
def test_a_run_that_breaks_leaves_the_model_alone_and_goes_on_to_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
):
    lm = chat_lm("Today is {{ strftime_now('%Y') }}." + str(chat_lm().tokenizer.chat_template))
    style, settings = lm.style, EvaluateSettings("sequential", 2, ALL)
    forward, calls, last = type(lm.model).forward, 0, 0

    def breaks(*args: Any, **how: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return forward(*args, **how)

    monkeypatch.setattr(type(lm.model), "forward", breaks)
    whole = run_evaluation(lm, CASES, planned_for(lm), tmp_path / "whole", settings)
    calls, last = 0, int(share * calls)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(lm, CASES, planned_for(lm), tmp_path / "killed", settings)
    assert not lm.memories and not lm.prefix and lm.style == style and lm.edit_of is None
    again = run_evaluation(lm, CASES, planned_for(lm), tmp_path / "killed", settings)
    for name, table in whole.tables.items():
        left_out = ["seconds"] if "seconds" in table.columns else []
        assert again.tables[name].drop(left_out).equals(table.drop(left_out)), name


@pytest.mark.slow
def test_an_update_is_undone_in_a_sequence_of_several_requests_each(tmp_path: Path):
    lm = chat_lm()
    settings = LifelongSettings((1, 3), "sequential", ALL)
    result = run_lifelong(lm, CASES, planned_for(lm), tmp_path, settings)
    assert set(result.tables["updates"]["status"]) == {"done"}
    assert result.tables["stages"].filter(edits=3)["undone_new"].null_count() == 0
    assert set(result.tables["dated"]["way"]) >= {"prompt", "paraphrase"}
