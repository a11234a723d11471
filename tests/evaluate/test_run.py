"""Runs of edits: against plain loops, resumed, in three modes, with failures as records."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import Dense, Edit, edited
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edit, settings_for
from anachron.edit.method import Resources
from anachron.edit.methods import methods
from anachron.edit.plan import Planned, plan_edits
from anachron.edit.requests import EditRequest
from anachron.evaluate import joint_edits
from anachron.evaluate import run as run_module
from anachron.evaluate import stages as stages_module
from anachron.evaluate.by_entity import by_entity
from anachron.evaluate.measure import Measures, measure, measure_apart
from anachron.evaluate.measures.dated import Dating
from anachron.evaluate.metrics import summarise, update_metrics
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.jobs import Callbacks
from anachron.lm.generation import greedy_texts
from anachron.lm.model import LanguageModel
from support.edit_models import killed_after, make_edit_lm, plan_fast
from support.tiny_models import naive_log_prob

FAST = {
    "ROME": {"steps": 4, "contexts": [], "layer": 1}, "FT": {"steps": 3, "layer": 2, "rate": 1e-2},
    "UltraEdit": {"layers": [1, 2], "rate": 1e-2, "tokens": "all"}, "GRACE": {"steps": 3, "layer": 1, "radius": 5.0},
}  # fmt: skip


def case(number: int, subject: str, **changes: Any) -> EditCase:
    near = tuple(
        NeighbourFact(f"The capital of {s} is", (o,), dist, 10.0 + number, s)
        for s, o, dist in (("France", "Paris", 0.2), ("Germany", "Berlin", 0.5))
    )
    drawn = (NeighbourFact("In 1998, the president was", ("Jacques Chirac", "Chirac"), None, None, "France"),)
    made = EditCase(
        f"case {number}", subject, f"The president of {subject} is", "Angela Merkel", "Jacques Chirac",
        (f"Who leads {subject}? It is", f"In {subject}, the president is called"), near, drawn, "P35",
        popularity=float(number),
    )  # fmt: skip
    return replace(made, **changes)


def cases(*extra: EditCase) -> CaseSet:
    known = (case(1, "France"), case(2, "Zürich"), case(3, "São Paulo"), *extra)
    return CaseSet("some updates", "wikifactdiff", known, {})


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def planned(lm: LanguageModel, *methods: str) -> list[Planned]:
    return plan_fast(lm, FAST, *methods)


SETTINGS = EvaluateSettings(measures=Measures(fluency_tokens=16, token_accuracy=True))


def test_the_unedited_model_is_judged_by_all_updates_whatever_a_method_cannot_make(lm: LanguageModel, tmp_path: Path):
    four = cases(replace(case(4, "Germany"), subject="Nowhere"))  # whose prompts name no such subject, which ROME needs
    unedited = []
    for method in ("ROME", "FT"):
        result = run_evaluation(lm, four, planned(lm, method), tmp_path / method, SETTINGS)
        assert result.tables["updates"].filter(status="failed").height == (1 if method == "ROME" else 0)
        tables = (result.tables[name] for name in ("targets", "neighbours", "updates"))
        rows = update_metrics(*tables).filter(method="unedited").sort("case_id")
        assert rows.height == rows["efficacy_difference"].count() == rows["neighbourhood_success"].count() == 4
        unedited.append(rows)
    assert_frame_equal(*unedited)


def test_independent_edits_against_a_plain_loop(lm: LanguageModel, tmp_path: Path):
    """Every number of the tables, computed here one text at a time under weights that are written by hand."""
    result = run_evaluation(lm, cases(), planned(lm, "ROME", "FT", "PROMPT"), tmp_path / "run", SETTINGS)
    clean = {name: t.clone() for name, t in lm.model.state_dict().items()}
    for method in ("ROME", "FT", "PROMPT"):
        settings, _ = settings_for(method, lm)
        settings = replace(settings, **{k: tuple(v) if k == "contexts" else v for k, v in FAST.get(method, {}).items()})
        for one in cases().cases:
            before = plain_scores(lm, one)
            request = EditRequest.of(one.prompt, one.subject, one.new or "")
            edit = make_edit(lm, method, [request], settings, Resources(None))
            by_hand = write(lm, edit)
            after = plain_scores(
                lm, one, "The president of " + one.subject + " is Angela Merkel. " if not by_hand else ""
            )
            lm.model.load_state_dict(clean)
            check(result.tables["targets"], result.tables["neighbours"], method, one, before, after)


def write(lm: LanguageModel, edit: Edit) -> bool:
    """Write an edit into the weights for good; whether there was anything to write."""
    with torch.no_grad():
        for name, delta in edit.deltas.items():
            module = lm.model.get_submodule(name)
            module.weight += delta.dense().to(module.weight.dtype)
    return bool(edit.deltas)


def plain_scores(lm: LanguageModel, one: EditCase, prefix: str = "") -> dict[tuple[str, str], float]:
    """Geometric means of the probabilities of objects, one text at a time."""
    prompts = [(p, o) for p in (one.text, *one.generalization) for o in (one.new, one.old)]
    prompts += [(n.prompt, o) for n in (*one.nearest, *one.random) for o in (*n.objects, one.new)]
    found = {}
    for prompt, answer in prompts:
        tokens = len(lm.encode([(prefix + prompt, answer or "", None)])[0].targets)
        found[prompt, answer or ""] = math.exp(naive_log_prob(lm, prefix + prompt, answer or "") / tokens)
    return found


def check(targets: pl.DataFrame, neighbours: pl.DataFrame, method: str, one: EditCase, before: Any, after: Any) -> None:
    mine = targets.filter((pl.col("method") == method) & (pl.col("case_id") == one.case_id))
    assert mine.height == 3
    for row in mine.iter_rows(named=True):
        prompt = (one.text, *one.generalization)[row["prompt_number"]]
        for name, answer in (("new", one.new), ("old", one.old)):
            assert row[f"{name}_before"] == pytest.approx(before[prompt, answer], rel=1e-4)
            assert row[f"{name}_after"] == pytest.approx(after[prompt, answer], rel=2e-3)
    mine = neighbours.filter((pl.col("method") == method) & (pl.col("case_id") == one.case_id))
    assert mine["kind"].to_list() == ["nearest", "nearest", "random"]
    for row in mine.iter_rows(named=True):
        fact = {"nearest": one.nearest, "random": one.random}[row["kind"]][row["number"]]
        for name, scores in (("before", before), ("after", after)):
            mean = sum(scores[fact.prompt, o] for o in fact.objects) / len(fact.objects)
            assert row[name] == pytest.approx(mean, rel=2e-3)
            new = None if one.new in fact.objects else pytest.approx(scores[fact.prompt, one.new], rel=2e-3)
            assert row[f"new_{name}"] == new
        assert (row["dist"], row["popularity"]) == (fact.dist, fact.popularity)


def test_the_summary_counts_what_was_done(lm: LanguageModel, tmp_path: Path):
    result = run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)
    summary = summarise(update_metrics(result.tables["targets"], result.tables["neighbours"], result.tables["updates"]))
    assert summary["method"].to_list() == ["unedited", "FT"]
    assert summary["done"].to_list() == [3, 3] and summary["failed"].to_list() == [0, 0]
    assert summary["bleedover_nearest"][0] == 0 and summary["seconds"][1] > 0


@pytest.mark.full
@pytest.mark.parametrize("mode", ["independent", "sequential"])
def test_methods_that_need_no_subject_make_updates_whose_prompt_does_not_name_it(
    lm: LanguageModel, tmp_path: Path, mode: str
):
    unnamed = case(4, "Berlin", prompt="The president of Paris is", start="2017-05-14", precision="day")
    measures = Measures(fluency_tokens=8, dated=Dating("2024"))
    result = run_evaluation(
        lm, CaseSet("one", "wikifactdiff", (unnamed,), {}), planned(lm, "FT", "PROMPT", "FT dated"), tmp_path / "run",
        replace(SETTINGS, mode=mode, measures=measures),
    )  # fmt: skip
    assert set(result.tables["updates"]["status"]) == {"done"}
    asked = result.tables["targets"].filter(case_id="case 4", method="FT", variant="plain")
    assert asked["new_after"].null_count() == 0 and (asked["new_after"] != asked["new_before"]).any()


@pytest.mark.full
def test_an_update_that_cannot_be_made_is_a_record_without_scores(lm: LanguageModel, tmp_path: Path):
    """No subject in the prompt, no new object: the others go on, and nothing gets the clean model's scores."""
    bad = [case(4, "Berlin", prompt="The president of Paris is"), case(5, "Paris", new=None, objects=())]
    said: list[str] = []
    for mode in ("independent", "batch", "sequential"):
        result = run_evaluation(
            lm, cases(*bad), planned(lm, "ROME"), tmp_path / mode, replace(SETTINGS, mode=mode),
            callbacks=Callbacks(said.append),
        )  # fmt: skip
        rows = {row["case_id"]: row for row in result.tables["updates"].iter_rows(named=True)}
        assert [rows[f"case {n}"]["status"] for n in range(1, 6)] == ["done"] * 3 + ["failed"] * 2
        assert "'Berlin' is not in the prompt 'The president of Paris is'" in rows["case 4"]["reason"]
        assert "no new object" in rows["case 5"]["reason"]
        after = result.tables["targets"].filter(pl.col("case_id").is_in(["case 4", "case 5"]))
        assert after["new_after"].null_count() == after.height
        summary = summarise(
            update_metrics(result.tables["targets"], result.tables["neighbours"], result.tables["updates"])
        )
        assert summary.filter(pl.col("method") == "ROME")["failed"].to_list() == [2]
        assert said.pop().startswith("ROME: 2 of 5 updates failed")


def test_running_out_of_memory_is_a_failure_of_one_update(lm: LanguageModel, tmp_path: Path, monkeypatch: Any):
    real = methods()["FT"].make

    def fails(lm: Any, requests: Any, *rest: Any, **how: Any) -> list[Edit]:
        if any(request.subject == "Zürich" for request in requests):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return real(lm, requests, *rest, **how)

    monkeypatch.setitem(methods(), "FT", replace(methods()["FT"], make=fails))
    result = run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)
    assert result.tables["updates"]["status"].to_list() == ["done", "failed", "done"]
    assert result.tables["updates"]["reason"][1] == "out of memory: CUDA out of memory. Tried to allocate 2 GiB"


def test_what_cannot_be_judged_is_a_failure_of_that_update(lm: LanguageModel, tmp_path: Path, monkeypatch: Any):
    """Its edit gives numbers that are none; the others are measured as without it."""
    whole = run_evaluation(lm, cases(), planned(lm, "ROME"), tmp_path / "whole", SETTINGS)
    real = run_module.make_edits

    def breaks(*given: Any) -> list[Any]:
        edits = real(*given)
        return [edits[0], float("inf") * edits[1], edits[2]]

    monkeypatch.setattr(run_module, "make_edits", breaks)
    result = run_evaluation(lm, cases(), planned(lm, "ROME"), tmp_path / "run", SETTINGS)
    assert result.tables["updates"]["status"].to_list() == ["done", "failed", "done"]
    assert "not a sum of log-probabilities" in result.tables["updates"]["reason"][1]
    for place in (0, 2):
        mine = pl.col("case_id") == f"case {place + 1}"
        found, wanted = (one.tables["targets"].filter(mine)["new_after"].to_list() for one in (result, whole))
        assert found == pytest.approx(wanted, rel=1e-4)


def test_a_bug_is_no_failure_of_an_update(lm: LanguageModel, tmp_path: Path, monkeypatch: Any):
    def broken(*_: Any, **__: Any) -> list[Edit]:
        raise RuntimeError("size mismatch")

    monkeypatch.setitem(methods(), "FT", replace(methods()["FT"], make=broken))
    with pytest.raises(RuntimeError, match="size mismatch"):
        run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["ROME", "FT", "PROMPT", "RETRIEVAL", "UltraEdit", "GRACE"])
def test_measured_together_is_measured_one_at_a_time(lm: LanguageModel, method: str):
    (one,) = planned(lm, method)
    requests = [EditRequest.of(c.prompt, c.subject, c.new or "") for c in cases().cases]
    edits = [make_edit(lm, method, [request], one.settings, Resources(None)) for request in requests]
    together = measure_apart(lm, list(zip(cases().cases, edits, strict=True)), SETTINGS.measures)
    for c, edit, found in zip(cases().cases, edits, together, strict=True):
        with edited(lm, edit):
            (wanted,) = measure(lm, [c], SETTINGS.measures, {c.case_id: edit.about["seconds"]})
        assert (found.case_id, found.seconds, found.texts, found.fluency) == \
            (wanted.case_id, wanted.seconds, wanted.texts, wanted.fluency)  # fmt: skip
        rows = [one.rows["targets"] + one.rows["neighbours"] for one in (found, wanted)]
        for mine, other in zip(*rows, strict=True):
            assert mine["kind"] == other.pop("kind")
            assert {name: mine[name] for name in other} == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize("method", ["FT", "ROME", "PROMPT"])
def test_one_too_long_for_the_model_fails_alone_in_a_batch(lm: LanguageModel, method: str, tmp_path: Path):
    settings, long = replace(SETTINGS, mode="batch"), case(9, "France", new=("Paris, France. " * 200).strip())
    found = run_evaluation(lm, cases(long), planned(lm, method), tmp_path / "with", settings).tables
    wanted = run_evaluation(lm, cases(), planned(lm, method), tmp_path / "without", settings).tables
    (failure,) = found["updates"].filter(pl.col("status") == "failed").to_dicts()
    assert failure["case_id"] == "case 9" and "tokens, more than the" in failure["reason"]
    assert_frame_equal(found["targets"].filter(pl.col("case_id") != "case 9"), wanted["targets"], abs_tol=1e-5)


def test_a_batch_is_one_edit_for_all_its_updates(lm: LanguageModel, tmp_path: Path):
    settings = replace(SETTINGS, mode="batch", size=2)
    result = run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", settings)
    seconds = result.tables["updates"]["seconds"].to_list()
    assert seconds[0] == seconds[1] != seconds[2]
    requests = [EditRequest.of(c.prompt, c.subject, c.new or "") for c in cases().cases[:2]]
    both = make_edit(lm, "FT", requests, planned(lm, "FT")[0].settings)
    with edited(lm, both):
        wanted = measure(lm, cases().cases[:2], SETTINGS.measures)
    for one in wanted:
        mine = result.tables["targets"].filter(pl.col("case_id") == one.case_id)
        assert mine["new_after"].to_list() == [t["new"] for t in one.rows["targets"]]


def test_an_entity_is_inserted_and_judged_whole(lm: LanguageModel, tmp_path: Path):
    """WikiFactDiff, section 4: all updates of a subject in one edit on the clean model; against batches by hand."""
    more = case(
        4, "France", prompt="The capital of France is", new="Lyon", old="Paris", generalization=(), relation="P36"
    )
    result = run_evaluation(lm, cases(more), planned(lm, "FT"), tmp_path / "run", replace(SETTINGS, mode="entity"))
    of_subject = {"France": ["case 1", "case 4"], "Zürich": ["case 2"], "São Paulo": ["case 3"]}
    for subject, names in of_subject.items():
        own = CaseSet("own", "wikifactdiff", tuple(c for c in cases(more).cases if c.case_id in names), {})
        batch = run_evaluation(lm, own, planned(lm, "FT"), tmp_path / subject, replace(SETTINGS, mode="batch"))
        found = result.tables["targets"].filter(pl.col("case_id").is_in(names))
        assert_frame_equal(found.drop("mode"), batch.tables["targets"].drop("mode"), abs_tol=1e-5)
    table = by_entity(update_metrics(result.tables["targets"], result.tables["neighbours"], result.tables["updates"]))
    took = {
        row["case_id"]: row["efficacy_success"]
        for row in update_metrics(*(result.tables[n] for n in ("targets", "neighbours", "updates"))).to_dicts()
        if row["method"] == "FT"
    }
    row = table.filter(pl.col("method") == "FT").row(0, named=True)
    assert (row["mode"], row["entities"], row["updates"]) == ("entity", 3, 4)
    assert row["whole"] == sum(all(took[n] == 1 for n in names) for names in of_subject.values()) / 3
    assert row["each"] == pytest.approx(sum(sum(took[n] for n in v) / len(v) for v in of_subject.values()) / 3)
    with pytest.raises(ConfigError, match="size 2: a number of updates from 1 on, for the modes batch and sequential"):
        replace(SETTINGS, mode="entity", size=2)


def test_an_entity_of_which_an_update_failed_is_not_whole():
    base = {"mode": "entity", "method": "FT", "variant": "plain", "status": "done"}
    rows = [
        base | {"case_id": "1", "subject": "a", "efficacy_success": 1.0},
        base | {"case_id": "2", "subject": "a", "efficacy_success": None, "status": "failed"},
        base | {"case_id": "3", "subject": "b", "efficacy_success": 1.0},
        base | {"case_id": "4", "subject": "c", "efficacy_success": None},  # nothing tells
        base | {"case_id": "5", "subject": None, "efficacy_success": 0.0},
    ]
    (row,) = by_entity(pl.DataFrame(rows)).to_dicts()
    assert (row["entities"], row["updates"], row["whole"], row["each"]) == (3, 4, 1 / 3, 0.5)
    assert 0 <= row["whole_low"] < 1 / 3 < row["whole_high"] <= 1


def test_a_sequence_measures_all_its_updates_under_all_its_edits(lm: LanguageModel, tmp_path: Path):
    result = run_evaluation(lm, cases(), planned(lm, "ROME"), tmp_path / "run", replace(SETTINGS, mode="sequential"))
    settings = planned(lm, "ROME")[0].settings
    requests = [EditRequest.of(c.prompt, c.subject, c.new or "") for c in cases().cases]
    total = make_edit(lm, "ROME", requests, settings, Resources(None))  # of itself one on top of the other
    with edited(lm, total):
        wanted = [t["new"] for v in measure(lm, cases().cases, SETTINGS.measures) for t in v.rows["targets"]]
    assert result.tables["targets"]["new_after"].to_list() == pytest.approx(wanted, rel=1e-4)
    assert not list((tmp_path / "run").glob("ROME/sequence-*"))


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["AlphaEdit", "FT", "UltraEdit", "GRACE"])
def test_a_sequence_of_batches_is_one_batch_on_top_of_the_other(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
):
    """The second batch is made under the first, with its keys; also where the run is killed in between."""
    monkeypatch.setattr(joint_edits, "SAVE_EVERY", 1)
    settings = replace(SETTINGS, mode="sequential", size=2)
    module = "model.layers.1.mlp.down_proj"
    drawn = torch.randn(128, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    moments = {module: SecondMoment.of(drawn.T @ drawn / len(drawn), module)}
    changes = {"AlphaEdit": {"layers": (1,), "threshold": 3.0, "steps": 3, "contexts": []}} | FAST
    methods = plan_edits(lm, [method], changes={method: changes[method]}, collect=lambda modules: moments)
    result = run_evaluation(lm, cases(), methods, tmp_path / "run", settings)
    seconds = result.tables["updates"]["seconds"].to_list()
    assert seconds[0] == seconds[1] != seconds[2]
    requests = [EditRequest.of(c.prompt, c.subject, c.new or "") for c in cases().cases]
    (one,) = methods
    first = make_edit(lm, method, requests[:2], one.settings, one.resources)
    with edited(lm, first):
        second = make_edit(lm, method, requests[2:], one.settings, one.resources)
    with edited(lm, first + second):
        wanted = [t["new"] for v in measure(lm, cases().cases, SETTINGS.measures) for t in v.rows["targets"]]
    assert result.tables["targets"]["new_after"].to_list() == pytest.approx(wanted, rel=1e-4)

    def killed_at_the_second_batch(done: int, total: int, note: str = "") -> None:
        if "making" in note and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop = Callbacks(progress=killed_at_the_second_batch)
        run_evaluation(lm, cases(), methods, tmp_path / "cut", settings, callbacks=stop)
    assert list((tmp_path / "cut").glob(f"{method}/sequence-*"))  # the first batch
    run_evaluation(lm, cases(), methods, tmp_path / "cut", settings)
    assert content(tmp_path / "cut") == content(tmp_path / "run")


def content(folder: Path) -> Any:
    tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in ("targets", "neighbours", "updates")}
    tables["updates"] = tables["updates"].drop("seconds")
    return {name: table.to_dicts() for name, table in tables.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["independent", "sequential"])
@pytest.mark.parametrize("stop_after", [1, 4, 5, 8])
def test_an_interrupted_run_ends_with_the_same_scores(
    lm: LanguageModel, tmp_path: Path, monkeypatch: Any, mode: str, stop_after: int
):
    monkeypatch.setattr(stages_module, "PART", 2)
    monkeypatch.setattr(joint_edits, "SAVE_EVERY", 1)
    settings = replace(SETTINGS, mode=mode)
    run_evaluation(lm, cases(), planned(lm, "ROME", "FT"), tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(lm, cases(), planned(lm, "ROME", "FT"), tmp_path / "cut", settings,
                       callbacks=killed_after(stop_after))  # fmt: skip
    run_evaluation(lm, cases(), planned(lm, "ROME", "FT"), tmp_path / "cut", settings)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_a_finished_run_takes_a_further_method_and_keeps_the_others(
    lm: LanguageModel, tmp_path: Path, monkeypatch: Any
):
    run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").glob("*/part-*")}
    result = run_evaluation(lm, cases(), planned(lm, "PROMPT"), tmp_path / "run", SETTINGS)
    assert result.tables["updates"]["method"].unique(maintain_order=True).to_list() == ["FT", "PROMPT"]
    assert all(p.stat().st_mtime_ns == when for p, when in before.items())


def test_half_matching_settings_are_refused(lm: LanguageModel, tmp_path: Path):
    run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)
    with pytest.raises(ConfigError, match=r"steps.*choose another --out"):
        other = plan_edits(lm, ["FT"], changes={"FT": FAST["FT"] | {"steps": 9}})
        run_evaluation(lm, cases(), other, tmp_path / "run", SETTINGS)
    with pytest.raises(ConfigError, match="mode: 'independent' -> 'batch'"):
        run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", replace(SETTINGS, mode="batch"))
    with pytest.raises(ConfigError, match="updates_fingerprint"):
        run_evaluation(lm, cases(case(9, "Rom")), planned(lm, "FT"), tmp_path / "run", SETTINGS)
    with pytest.raises(ConfigError, match="weights"):
        run_evaluation(make_edit_lm("llama", seed=1), cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)
    down = "model.layers.1.mlp.down_proj"
    for name, edit in {"edit_prefix": Edit(prefix="Now. "), "weights": Edit({down: Dense(torch.ones(32, 64))})}.items():
        with pytest.raises(ConfigError, match=name), edited(lm, edit):  # the model under an edit is another
            run_evaluation(lm, cases(), planned(lm, "FT"), tmp_path / "run", SETTINGS)


def test_what_is_wrong_with_the_command_is_said_before_the_first_update(lm: LanguageModel):
    with pytest.raises(ConfigError, match="'ROAM': choose one of FT, "):
        plan_edits(lm, ["ROAM"])
    with pytest.raises(ConfigError, match="not all different"):
        plan_edits(lm, ["rome", "ROME"], identity_covariance=True)
    with pytest.raises(ConfigError, match=r"needs the covariance of model.layers.1.mlp.down_proj.*--corpus"):
        plan_edits(lm, ["ROME"], changes={"ROME": {"layer": 1}})
    with pytest.raises(ConfigError, match="MEND needs its trained network"):
        plan_edits(lm, ["MEND"])
    with pytest.raises(ConfigError, match="FT has no setting 'stepps'; it has layer, steps"):
        plan_edits(lm, ["FT"], changes={"FT": {"stepps": 3}})
    with pytest.raises(ConfigError, match="layer 7: the model has 4 layers"):
        plan_edits(lm, ["ROME"], changes={"ROME": {"layer": 7}}, identity_covariance=True)
    with pytest.raises(ConfigError, match="mode 'parallel'"):
        EvaluateSettings("parallel")
    with pytest.raises(ConfigError, match="size 3"):
        EvaluateSettings(size=3)


def test_a_set_without_updates_is_refused(lm: LanguageModel, tmp_path: Path):
    with pytest.raises(DataError, match="holds no update to measure"):
        run_evaluation(lm, CaseSet("none", "zsre", (), {}), planned(lm, "FT"), tmp_path / "run")


@pytest.mark.full
def test_a_prefix_that_counts_shortens_the_texts_and_makes_another_run(lm: LanguageModel, tmp_path: Path):
    with edited(lm, Edit(prefix="The president of Germany is Angela Merkel. ")):
        asked = cases().cases[0]
        for counts in (False, True):
            (found,) = measure(lm, [asked], Measures(fluency_tokens=24, fluency_counts_prefix=counts))
            assert list(found.texts) == greedy_texts(lm, asked.generalization, 24, count_prefix=counts)
    run_evaluation(lm, cases(), planned(lm, "PROMPT"), tmp_path, SETTINGS)
    other = replace(SETTINGS, measures=replace(SETTINGS.measures, fluency_counts_prefix=True))
    with pytest.raises(ConfigError, match="fluency_counts_prefix"):
        run_evaluation(lm, cases(), planned(lm, "PROMPT"), tmp_path, other)
