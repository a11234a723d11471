"""Retrieval on an edited model: both edits of the same requests, and each part's own settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anachron.core.errors import ConfigError
from anachron.edit.base import Edit, edited
from anachron.edit.make import edits_at_once, make_edit, make_edits, settings_for
from anachron.edit.methods import check_scenarios, method_named
from anachron.edit.plan import parse_method, plan_edits
from anachron.edit.requests import EditRequest
from anachron.edit.storage import load_edit, save_edit, save_edited_model
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from support.edit_models import make_edit_lm

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"), EditRequest("{} is in", "Zürich", "Berlin"),
]  # fmt: skip
QUESTIONS = [("The president of France is", "Berlin"), ("Zürich, which city is it?", "Paris")]
FAST: dict[str, dict[str, Any]] = {
    "ROME": {"layer": 1, "contexts": [], "steps": 4}, "LoRA": {"steps": 3, "rate": 1e-2},
    "GRACE": {"layer": 1, "steps": 3, "radius": 100.0}, "PROMPT": {}, "RETRIEVAL": {"k": 2, "distractors": 20},
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["ROME", "LoRA", "GRACE", "PROMPT"])
def test_it_is_the_sum_of_both(name: str, tmp_path: Path):
    lm = make_edit_lm("llama")
    changes = {part: FAST[part] for part in (name, "RETRIEVAL")}
    both, one, retrieval = plan_edits(
        lm, [f"{name.lower()} With retrieval", name, "RETRIEVAL"], changes=changes, identity_covariance=True
    )
    assert both.method == both.label == f"{name} with RETRIEVAL"
    assert both.printed_name == f"{one.printed_name} with RETRIEVAL"
    assert (both.settings.editing, both.settings.retrieval) == (one.settings, retrieval.settings)
    assert retrieval.settings.k == 2 and both.identity()["settings"]["retrieval"]["distractors"] == 20
    given = both.settings, both.resources, both.sites
    edit = make_edit(lm, both.method, REQUESTS, *given)
    alone = make_edit(lm, name, REQUESTS, one.settings, one.resources)
    store = make_edit(lm, "RETRIEVAL", REQUESTS, retrieval.settings)
    assert edit.passages == store.passages and edit.prefix == alone.prefix and edit.count == 2
    assert edit.deltas.keys() == alone.deltas.keys() and edit.memories.keys() == alone.memories.keys()
    assert all(torch.equal(edit.deltas[module].dense(), delta.dense()) for module, delta in alone.deltas.items())
    with edited(lm, alone + store):
        wanted = lm.log_probs(QUESTIONS)
    save_edit(edit, tmp_path / "edit.safetensors")
    with edited(lm, load_edit(tmp_path / "edit.safetensors")):
        assert lm.log_probs(QUESTIONS) == pytest.approx(wanted, abs=1e-6)
    apart = make_edits(lm, both.method, REQUESTS, *given)
    assert [len(e.passages.texts) for e in apart if isinstance(e, Edit) and e.passages] == [1, 1]
    with pytest.raises(ConfigError, match="PROMPT changes no weights" if name == "PROMPT" else "holds passages beside"):
        save_edited_model(lm, edit, tmp_path / "model")


def test_its_name_its_settings_and_what_it_can():
    lm = make_edit_lm("llama")
    assert parse_method("memit WITH retrieval DATED") == ("MEMIT with RETRIEVAL", "dated")
    assert method_named("MEMIT with RETRIEVAL") is method_named("memit with retrieval")
    with pytest.raises(ConfigError, match="RETRIEVAL with RETRIEVAL: it has passages already; name a method without"):
        parse_method("RETRIEVAL with RETRIEVAL")
    with pytest.raises(ConfigError, match="method 'ROAM': choose one of"):
        parse_method("ROAM with RETRIEVAL")
    with pytest.raises(ConfigError, match="MEND needs its trained network"):
        plan_edits(lm, ["MEND with RETRIEVAL"])
    with pytest.raises(ConfigError, match="settings are given for ROME with RETRIEVAL, which is not among"):
        plan_edits(lm, ["ROME with RETRIEVAL"], changes={"ROME with RETRIEVAL": {"k": 2}}, identity_covariance=True)
    with pytest.raises(ConfigError, match="ROME with RETRIEVAL needs the covariance of"):
        plan_edits(lm, ["ROME with RETRIEVAL"])
    with pytest.raises(ConfigError, match="ROME with RETRIEVAL cannot make updates of the scenario Archive"):
        check_scenarios(["ROME with RETRIEVAL"], {"Archive"})
    settings, source = settings_for("LoRA with RETRIEVAL", lm)
    assert (settings.editing, settings.retrieval) == tuple(settings_for(n, lm)[0] for n in ("LoRA", "RETRIEVAL"))
    assert source.count("ours, the method's defaults") == 2 and "; RETRIEVAL: " in source
    assert edits_at_once(lm, "LoRA with RETRIEVAL", settings, None, 10**9) == edits_at_once(
        lm, "LoRA", settings.editing, None, 10**9
    )


@pytest.mark.full
@pytest.mark.parametrize("mode", ["independent", "sequential"])
def test_a_run_of_it(mode: str, tmp_path: Path):
    from evaluate.test_lifelong import UPDATES

    lm = make_edit_lm("llama")
    few = replace(UPDATES, cases=UPDATES.cases[:2])
    names = ["LoRA with RETRIEVAL", "RETRIEVAL"]
    planned = plan_edits(lm, names, changes={name: FAST[name] for name in ("LoRA", "RETRIEVAL")})
    settings = EvaluateSettings(mode, measures=Measures(fluency_tokens=0))
    result = run_evaluation(lm, few, planned, tmp_path, settings)
    scores = {name: result.tables["targets"].filter(method=name)["new_after"].to_list() for name in names}
    assert len(scores[names[0]]) == len(scores[names[1]]) > 0 and scores[names[0]] != scores[names[1]]
