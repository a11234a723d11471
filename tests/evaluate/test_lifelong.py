"""Runs of lifelong editing: against plain loops, undone, resumed, with failures as records."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import ConfigError
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import Edit, edited
from anachron.edit.corpus import TextInMemory
from anachron.edit.failures import Failure
from anachron.edit.make import make_edit
from anachron.edit.method import Resources
from anachron.edit.plan import Planned
from anachron.edit.requests import EditRequest
from anachron.evaluate import joint_edits
from anachron.evaluate import stages as stages_module
from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
from anachron.evaluate.lifelong_metrics import lifelong_metrics, lifelong_summary
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.dated import Dating
from anachron.evaluate.measures.perplexity import perplexity, read_text
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.evaluate.stages import Evaluation
from anachron.io.jobs import Callbacks
from anachron.lm.generation import greedy_texts
from anachron.lm.model import LanguageModel
from anachron.report.edits.evaluated import report_evaluation
from anachron.report.tracking import log_to
from support.edit_models import killed_after, make_edit_lm, plan_fast
from support.tiny_models import naive_log_prob

pytestmark = pytest.mark.full

FAST = {
    "ROME": {"steps": 3, "contexts": [], "layer": 1}, "FT": {"steps": 2, "layer": 2, "rate": 1e-2},
    "GRACE": {"steps": 3, "layer": 1, "radius": 5.0},
}  # fmt: skip
TEXT = TextInMemory("some", "The capital of Germany is Berlin. In 1998, the president was Jacques Chirac.\n" * 4)
PLACES = ("France", "Zürich", "São Paulo", "Germany", "Paris")


def case(number: int, subject: str, **changes: Any) -> EditCase:
    near = (
        NeighbourFact(f"The capital near {subject} is", ("Paris",), 0.2, 1.0, subject),
        NeighbourFact("The president of Germany is", ("Angela Merkel",), 0.5, 1.0, "Germany"),  # which case 4 updates
    )
    drawn = (NeighbourFact("In 1998, the president was", ("Jacques Chirac", "Chirac"), None, None, "France"),)
    made = EditCase(
        f"case {number}", subject, f"The president of {subject} is", "Angela Merkel", "Jacques Chirac",
        (f"Who leads {subject}? It is",), near, drawn, "P35", start="2017-05-14", precision="day", old_start="2012",
    )  # fmt: skip
    return replace(made, **changes)


CASES = tuple(case(number, place) for number, place in enumerate(PLACES, 1))
UPDATES = CaseSet("some updates", "wikifactdiff", CASES, {})


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def planned(lm: LanguageModel, *methods: str) -> list[Planned]:
    return plan_fast(lm, FAST, *methods)


SETTINGS = LifelongSettings((1, 2, 5), measures=Measures(fluency_tokens=16), text=TEXT, text_tokens=60)


@pytest.fixture(scope="module")
def sequence(lm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return run_lifelong(
        lm, UPDATES, planned(lm, "ROME", "PROMPT", "RETRIEVAL", "GRACE"), tmp_path_factory.mktemp("run") / "a", SETTINGS
    )


@pytest.mark.full
def test_a_tracker_gets_the_same_from_the_folder_as_from_what_is_reported(sequence: Evaluation, tmp_path: Path):
    numbers = log_to(sequence.folder, SimpleNamespace(log=lambda numbers: None))
    reported = report_evaluation(sequence.record, sequence.tables, tmp_path)
    assert numbers == log_to(reported, SimpleNamespace(log=lambda numbers: None)) != {}


def request(one: EditCase) -> EditRequest:
    return EditRequest.of(one.prompt, one.subject, one.new or "")


def by_hand(lm: LanguageModel, method: str, some: tuple[EditCase, ...]) -> list[Edit]:
    """Edits one on top of the other, each made on the model that the ones before have left."""
    (one,) = planned(lm, method)
    made: list[Edit] = []
    for update in some:
        with edited(lm, sum(made[1:], made[0]) if made else Edit(), check=False):
            made.append(make_edit(lm, method, [request(update)], one.settings, Resources(None)))
    return made


def p(lm: LanguageModel, prompt: str, answer: str) -> float:
    tokens = len(lm.encode([(prompt, answer, None)])[0].targets)
    shown = "" if lm.passages is None else lm.passages.before([prompt])[0]
    return math.exp(naive_log_prob(lm, shown + lm.prefix + prompt, answer) / tokens)


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["ROME", "PROMPT", "RETRIEVAL", "GRACE"])
@pytest.mark.parametrize("edits", [1, 2, 5])
def test_a_sequence_against_edits_made_by_hand(lm: LanguageModel, sequence: Evaluation, method: str, edits: int):
    made = by_hand(lm, method, CASES[:edits])
    mine = (pl.col("method") == method) & (pl.col("edits") == edits)
    targets = sequence.tables["targets"].filter(mine)
    facts = sequence.tables["locality"].filter(mine)
    assert targets.height == 5 * 2 and facts["prompt"].n_unique() == facts.height == 6  # not the updates' own prompts
    with edited(lm, sum(made[1:], made[0])):
        for row in targets.iter_rows(named=True):
            one = next(c for c in CASES if c.case_id == row["case_id"])
            prompt = (one.text, *one.generalization)[row["prompt_number"]]
            assert row["new_after"] == pytest.approx(p(lm, prompt, "Angela Merkel"), rel=2e-3)
            assert row["old_after"] == pytest.approx(p(lm, prompt, "Jacques Chirac"), rel=2e-3)
        for row in facts.iter_rows(named=True):
            objects = ("Jacques Chirac", "Chirac") if "1998" in row["prompt"] else ("Paris",)
            mean = sum(p(lm, row["prompt"], o) for o in objects) / len(objects)
            assert row["after"] == pytest.approx(mean, rel=2e-3)
        stage = sequence.tables["stages"].filter(mine).row(0, named=True)
        assert stage["perplexity"] == pytest.approx(perplexity(lm, read_text(lm, TEXT, 60)), rel=1e-4)
        prompts = [c.generalization[0] for c in CASES]
        assert len(stage["fluency"]) == len(greedy_texts(lm, prompts, 16)) == 5


@pytest.mark.few(4)
@pytest.mark.parametrize("method", ["ROME", "PROMPT", "RETRIEVAL", "GRACE"])
@pytest.mark.parametrize(("edits", "middle"), [(1, 0), (2, 0), (5, 2)])
def test_undoing_the_middle_one_leaves_the_others(
    lm: LanguageModel, sequence: Evaluation, method: str, edits: int, middle: int
):
    """The sum of the other edits, as each was made, is what the model holds when the middle one is taken out."""
    made = by_hand(lm, method, CASES[:edits])
    others = [edit for place, edit in enumerate(made) if place != middle]
    stage = sequence.tables["stages"].filter(method=method, edits=edits).row(0, named=True)
    assert stage["undone"] == CASES[middle].case_id
    with edited(lm, sum(others[1:], others[0]) if others else Edit()):
        own = CASES[middle].text
        assert stage["undone_new"] == pytest.approx(p(lm, own, "Angela Merkel"), rel=2e-3)
        assert stage["undone_old"] == pytest.approx(p(lm, own, "Jacques Chirac"), rel=2e-3)
        without = {c.case_id: p(lm, c.text, "Angela Merkel") for c in CASES[:edits]}
    with edited(lm, sum(made[1:], made[0])):
        moved = [
            abs(without[c.case_id] - p(lm, c.text, "Angela Merkel"))
            for place, c in enumerate(CASES[:edits]) if place != middle
        ]  # fmt: skip
    assert stage["undone_others"] == pytest.approx(moved, abs=1e-4)


def test_a_batch_after_so_many_updates_is_a_run_over_them(lm: LanguageModel, tmp_path: Path):
    measures = Measures(fluency_tokens=16, token_accuracy=True)
    settings = replace(SETTINGS, mode="batch", after=(2, 5), measures=measures)
    result = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "lifelong", settings)
    for edits in (2, 5):
        few = replace(UPDATES, cases=CASES[:edits])
        usual = EvaluateSettings("batch", measures=Measures(fluency_tokens=0, token_accuracy=True))
        wanted = run_evaluation(lm, few, planned(lm, "FT"), tmp_path / f"{edits}", usual)
        made = pl.col("case_id").is_in([c.case_id for c in few.cases])
        for name in ("targets", "neighbours"):
            table = wanted.tables[name]
            found = result.tables[name].filter(made, pl.col("edits") == edits).drop("edits")
            assert found.drop(pl.col(pl.Float64)).equals(table.drop(pl.col(pl.Float64)))
            columns = [c for c in table.columns if c.endswith(("after", "before"))]
            for column in columns:
                mine, other = (one[column].fill_null(-1.0).to_list() for one in (found, table))
                assert mine == pytest.approx(other, rel=1e-4)
    assert result.tables["stages"]["undone"].null_count() == 3  # there is none to take out of a batch


def content(folder: Path) -> Any:
    tables = {path.stem: pl.read_parquet(path) for path in folder.glob("*.parquet")}
    return {name: table.drop("seconds", strict=False).to_dicts() for name, table in tables.items()}


STOPS = [("batch", n) for n in (2, 9, 15)] + [("sequential", n) for n in (6, 9, 14, 18, 21)]


@pytest.mark.few(2)
@pytest.mark.parametrize(("mode", "stop_after"), STOPS)
def test_an_interrupted_run_ends_with_the_same_scores(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, stop_after: int
):
    monkeypatch.setattr(joint_edits, "SAVE_EVERY", 1)
    monkeypatch.setattr(stages_module, "PART", 2)
    settings = replace(SETTINGS, mode=mode, after=(1, 3), measures=Measures(fluency_tokens=0))
    whole = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "cut", settings, callbacks=killed_after(stop_after))
    assert not (tmp_path / "cut" / "stages.parquet").exists()
    cut = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "cut", settings)
    assert content(whole.folder) == content(cut.folder)
    assert not list((tmp_path / "cut" / "FT").glob("*.safetensors*"))


def test_an_update_that_is_made_again_takes_the_place_of_itself(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Killed between the middle one and the sequence with it; another machine rounds otherwise."""
    settings = replace(SETTINGS, mode="sequential", after=(4,), measures=Measures(fluency_tokens=0))
    joint_edit = joint_edits.joint_edit

    def killed(lm: LanguageModel, planned: Planned, requests: Any) -> Any:
        if requests[0].subject == CASES[3].subject:
            raise KeyboardInterrupt
        return joint_edit(lm, planned, requests)

    def rounded(lm: LanguageModel, planned: Planned, requests: Any) -> Edit:
        edit = joint_edit(lm, planned, requests)
        return replace(edit, deltas={name: delta.scaled(1 + 1e-6) for name, delta in edit.deltas.items()})

    monkeypatch.setattr(joint_edits, "joint_edit", killed)
    with pytest.raises(KeyboardInterrupt):
        run_lifelong(lm, UPDATES, planned(lm, "ROME"), tmp_path, settings)
    assert list((tmp_path / "ROME").glob("undo-*.safetensors"))
    monkeypatch.setattr(joint_edits, "joint_edit", rounded)
    stages = run_lifelong(lm, UPDATES, planned(lm, "ROME"), tmp_path, settings).tables["stages"]
    assert stages["undone"].to_list() == [None, CASES[1].case_id]


@pytest.mark.parametrize("lost", ["damaged", "deleted"])
def test_a_part_of_an_earlier_stage_is_measured_again_under_that_stages_edits(
    lm: LanguageModel, tmp_path: Path, lost: str
):
    """The run was killed after four updates, whose edits the file of the sequence then holds."""
    settings = replace(SETTINGS, mode="sequential", after=(2, 4), measures=Measures(fluency_tokens=0))
    whole = run_lifelong(lm, UPDATES, planned(lm, "ROME"), tmp_path / "whole", settings)

    def kill(done: int, total: int, note: str = "") -> None:
        if note == "ROME/after-00004" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_lifelong(lm, UPDATES, planned(lm, "ROME"), tmp_path / "cut", settings, callbacks=Callbacks(progress=kill))
    part = tmp_path / "cut" / "ROME" / "after-00002" / "part-00000.parquet"
    part.write_bytes(b"damaged") if lost == "damaged" else part.unlink()
    run_lifelong(lm, UPDATES, planned(lm, "ROME"), tmp_path / "cut", settings)
    assert content(tmp_path / "cut") == content(whole.folder)


def test_a_finished_run_takes_a_further_method(lm: LanguageModel, tmp_path: Path):
    settings = replace(SETTINGS, after=(1, 2), measures=Measures(fluency_tokens=0))
    first = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "run", settings)
    both = run_lifelong(lm, UPDATES, planned(lm, "FT", "PROMPT"), tmp_path / "run", settings)
    assert both.tables["stages"]["method"].to_list() == ["unedited", "FT", "FT", "PROMPT", "PROMPT"]
    old = both.tables["targets"].filter(pl.col("method") == "FT")
    assert old.equals(first.tables["targets"])
    for other in (replace(settings, after=(1, 3)), replace(settings, text_tokens=50), replace(settings, mode="batch")):
        with pytest.raises(ConfigError, match="holds a run with other settings"):
            run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "run", other)


@pytest.mark.parametrize("mode", ["batch", "sequential"])
def test_an_update_that_cannot_be_made_is_a_record(lm: LanguageModel, tmp_path: Path, mode: str):
    """It is passed over: the next is taken out in its place, and it is counted once it was to be made."""
    bad = case(3, "Berlin", prompt="The president of Paris is")
    some = replace(UPDATES, cases=(*CASES[:2], bad, *CASES[3:]))
    said: list[str] = []
    settings = replace(SETTINGS, mode=mode, after=(2, 5), measures=Measures(fluency_tokens=0))
    result = run_lifelong(lm, some, planned(lm, "ROME"), tmp_path / "run", settings, callbacks=Callbacks(said.append))
    rows = result.tables["updates"].filter(case_id="case 3").rows(named=True)
    assert [(row["edits"], row["status"], row["place"]) for row in rows] == [(2, "done", 3), (5, "failed", 3)]
    assert "'Berlin' is not in the prompt" in rows[1]["reason"]
    assert len(said) == 1 and said[0].startswith("ROME after 5: 1 of 5 updates failed, 1 of them: ")
    if mode == "sequential":
        assert result.tables["stages"]["undone"].to_list() == [None, "case 1", "case 4"]


def test_a_sequence_of_batches_goes_on_from_one_stage_to_the_next(lm: LanguageModel, tmp_path: Path):
    settings = replace(SETTINGS, after=(2, 4), size=2, measures=Measures(fluency_tokens=0))
    result = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "run", settings)
    (one,) = planned(lm, "FT")
    requests = [EditRequest.of(c.prompt, c.subject, c.new or "") for c in CASES[:4]]
    total = make_edit(lm, "FT", requests[:2], one.settings)
    with edited(lm, total):
        total = total + make_edit(lm, "FT", requests[2:], one.settings)
    with edited(lm, total):
        wanted = [p(lm, request.text, request.target) for request in requests]
    mine = result.tables["targets"].filter(edits=4, kind="update")["new_after"].to_list()[:4]
    assert mine == pytest.approx(wanted, rel=1e-3)
    assert result.tables["stages"]["undone"].to_list() == [None, None, None]  # no update has an edit of its own


def test_a_prefix_that_outgrows_the_model_ends_no_run(lm: LanguageModel, tmp_path: Path):
    long = tuple(case(number, "France " * 150 + place) for number, place in enumerate(PLACES, 1))
    settings = replace(SETTINGS, after=(1, 5))
    result = run_lifelong(lm, replace(UPDATES, cases=long), planned(lm, "PROMPT"), tmp_path / "run", settings)
    states = result.tables["updates"].group_by("edits", maintain_order=True).agg(pl.col("status").unique())
    stages = result.tables["stages"]
    assert states["status"].to_list() == [["done"], ["failed"]]
    assert "tokens, more than the" in stages["reason"][2] and stages["perplexity"][2] is None


def test_a_model_that_breaks_has_collapsed(lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From the second update on it gives no numbers; what it said before stays."""
    real, made = joint_edits.joint_edit, list[int]()

    def breaks(*given: Any) -> Edit | Failure:
        made.append(1)
        edit = real(*given)
        if len(made) < 2 or not isinstance(edit, Edit):
            return edit
        largest = max(float(delta.dense().abs().max()) for delta in edit.deltas.values())
        return edit * (1 / largest) * 1e38  # which no forward pass can hold

    monkeypatch.setattr(joint_edits, "joint_edit", breaks)
    settings = replace(SETTINGS, after=(1, 3), measures=Measures(fluency_tokens=0))
    result = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "run", settings)
    assert result.tables["stages"]["perplexity"].is_infinite().to_list() == [False, False, True]
    summary = lifelong_summary(lifelong_metrics(result.tables), result.tables["locality"], result.tables["stages"])
    found = summary.filter(method="FT").select("edits", "collapsed", "done", "failed").rows()
    assert found == [(1, False, 1, 0), (3, True, 0, 3)]
    assert lm.weights_fingerprint() == result.record["settings"]["weights"]


@pytest.mark.slow
@pytest.mark.full
def test_dates_and_generation_after_so_many_updates(lm: LanguageModel, tmp_path: Path):
    measures = Measures(fluency_tokens=0, generate=True, dated=Dating("2020"))
    settings = replace(SETTINGS, after=(1, 3), measures=measures)
    result = run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "run", settings)
    for name in ("dated", "dated_neighbours", "generations"):
        assert result.tables[name]["edits"].unique().sort().to_list() == [1, 3]
        assert (tmp_path / "run" / f"{name}.parquet").is_file()
    made = by_hand(lm, "FT", CASES[:3])
    with edited(lm, sum(made[1:], made[0])):
        of_prompt = result.tables["dated"].filter(edits=3, granularity="year", case_id="case 1", way="prompt")
        assert of_prompt.height
        for row in of_prompt.iter_rows(named=True):
            asked = f"In {row['time']}, the president of France is"
            assert row["new_after"] == pytest.approx(p(lm, asked, "Angela Merkel"), rel=2e-3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": "independent"}, "add up in the modes batch and sequential only"),
        ({"after": ()}, "after nothing: give increasing numbers"),
        ({"after": (2, 1)}, "after 2, 1: give increasing numbers"),
        ({"after": (1, 1)}, "give increasing numbers"),
        ({"after": (0, 1)}, "give increasing numbers"),
        ({"text_tokens": 1}, "text_tokens is 1"),
        ({"size": 0}, "size 0: a number of updates from 1 on"),
        ({"size": 2, "after": (2,), "mode": "batch"}, "for the mode sequential only"),
        ({"size": 2, "after": (2, 3)}, "after 3: not a multiple of size 2"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        replace(SETTINGS, **wrong)


def test_more_updates_than_there_are_are_refused(lm: LanguageModel, tmp_path: Path):
    with pytest.raises(ConfigError, match="after 6: of some updates there are 5 updates; leave that number out"):
        run_lifelong(lm, UPDATES, planned(lm, "FT"), tmp_path / "run", replace(SETTINGS, after=(1, 6)))
    assert not (tmp_path / "run").exists()
