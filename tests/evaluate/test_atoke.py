"""AToKe's questions and scores, and METO's requests: by hand, against a naive recount, and in whole runs."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from anachron.cli.main import run_command
from anachron.core.errors import DataError
from anachron.core.labels import label_of, split_label
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.requests import TARGETS, EditRequest
from anachron.evaluate import stages as stages_module
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.atoke import in_past, timed_questions
from anachron.evaluate.measures.atoke_metrics import ATOKE_METRICS, atoke_metrics
from anachron.evaluate.measures.dated import Dating
from anachron.evaluate.metrics import summarise
from anachron.evaluate.requests import requests_of
from anachron.evaluate.results import KEYS, method_label
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.run_folder import RunFolder
from anachron.lm.model import LanguageModel
from support.edit_models import killed_after, make_edit_lm, plan_fast

FRANCE = EditCase(
    "1", "France", "The president of France is", "Angela Merkel", "Jacques Chirac", ("Who leads France? It is",),
    start="2017-05-14", old_start="2012", old_end="2017-05",
)  # fmt: skip
PERU = replace(FRANCE, case_id="2", subject="Peru", prompt="The president of {} is", end="2021-07", old_end=None)
PERU = replace(PERU, generalization=("In Peru, the heads of state are",))
CASES = CaseSet("countries", "wikifactdiff", (FRANCE, PERU), {})
SETTINGS = EvaluateSettings(measures=Measures(fluency_tokens=0, dated=Dating("2024")))
FAST: dict[str, Any] = {
    "FT": {"steps": 25, "layer": 2, "rate": 3e-2},
    "MEMIT": {"steps": 3, "contexts": [], "layers": [1, 2]},
    "ROME": {"steps": 3, "contexts": [], "layer": 1},
}


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def test_the_questions_about_an_update_word_for_word():
    found = [(q.kind, q.number, q.text("France"), q.right_answer, q.new, q.old) for q in timed_questions(FRANCE)]
    both = ("Angela Merkel", "Jacques Chirac")
    now, then = "May 14, 2017 on", "2012 to May 2017"
    assert found == [
        ("ces", 0, f"From {now}, the president of France is", both[0], *both),
        ("ces_p", 0, f"From {now}, who leads France? It is", both[0], *both),
        ("crs", 0, "The president of France is", both[0], *both),
        ("hes", 0, f"From {then}, the president of France was", both[1], *both),
        ("hes_p", 0, f"From {then}, who leads France? It was", both[1], *both),
        ("hrs", 0, "Previously, the president of France was", both[1], *both),
        ("extent_new", 0, "The president of France is Angela Merkel from", now, now, then),
        ("extent_old", 0, "The president of France is Jacques Chirac from", then, now, then),
    ]
    found = {q.kind: q.text("Peru") for q in timed_questions(PERU)}  # an old object without an end ended at the change
    assert found["ces"] == "From May 14, 2017 to July 2021, the president of Peru is"
    assert found["hes_p"] == "From 2012 to May 14, 2017, in Peru, the heads of state were"
    assert in_past("What is here is {}, and the isle") == "What is here was {}, and the isle"
    kinds = {
        "no old start": (replace(FRANCE, old_start=None), ["ces", "ces_p", "crs", "hrs"]),
        "no old object": (replace(FRANCE, old=None, generalization=(), old_start=None), ["ces", "crs"]),
        "no change": (replace(FRANCE, start=None), []), "no replacement": (replace(FRANCE, scenario="Archive"), []),
    }  # fmt: skip
    for case, expected in kinds.values():
        assert [q.kind for q in timed_questions(case)] == expected


def test_what_meto_asks_for():
    asked = requests_of(FRANCE, "ROME", "METO")
    assert asked == [
        EditRequest("The president of {} is Jacques Chirac from", "France", "2012 to May 2017"),
        EditRequest("From 2012 to May 2017, the president of {} was", "France", "Jacques Chirac"),
        EditRequest("The president of {} is Angela Merkel from", "France", "May 14, 2017 on"),
        EditRequest("From May 14, 2017 on, the president of {} is", "France", "Angela Merkel"),
    ]
    named = replace(FRANCE, old="Radio France")  # the subject of an edit is the prompt's, not one in its object
    assert requests_of(named, "ROME", "METO")[0].prompt == "The president of {} is Radio France from"
    lacking = {"old_start": "the start of its old object", "start": "when its new object", "old": "its old object"}
    for missing, what in lacking.items():
        with pytest.raises(DataError, match=f"update 1 does not say {what}"):
            requests_of(replace(FRANCE, **{missing: None}), "FT", "METO")
    with pytest.raises(DataError, match="update 1 is not a replacement"):
        requests_of(replace(FRANCE, scenario="AddRelation", objects=(("X", "new"),)), "FT", "METO")
    with pytest.raises(DataError, match="cannot ask for extent_old and extent_new, as the periods"):
        requests_of(replace(FRANCE, start="2012", old_start="2012", end="2017-05"), "FT", "METO")
    with pytest.raises(DataError, match="the subject 'France' is not in the prompt 'The president is'"):
        requests_of(replace(FRANCE, prompt="The president is"), "ROME", "METO")


def test_labels_of_variants():
    for label, name in (("ROME", ("ROME", "plain")), ("ft DATED", ("ft", "dated")), ("FT+L meto", ("FT+L", "METO"))):
        assert split_label(label) == name
    assert [label_of("ROME", variant) for variant in ("plain", "dated", "METO")] == ["ROME", "ROME dated", "ROME METO"]
    table = pl.DataFrame({"method": ["a", "b", "c"], "variant": ["plain", "dated", "METO"]})
    assert table.select(method_label()).to_series().to_list() == ["a", "b dated", "c METO"]


def first_choices(lm: LanguageModel, prompt: str, answer: str) -> tuple[bool, float]:
    """Whether greedy decoding gives every token of an answer, and the geometric mean of their p: one text alone."""
    (text,) = lm.encode([(prompt, answer, None)], TARGETS)
    with torch.inference_mode():
        logits = lm.model(input_ids=torch.tensor([text.ids], device=lm.device)).logits[0].log_softmax(-1)
    steps = [(logits[place - 1], text.ids[place]) for place in text.targets]
    exact = all(int(scores.argmax()) == token for scores, token in steps)
    return exact, float(np.exp(np.mean([float(scores[token]) for scores, token in steps])))


def recounted(lm: LanguageModel, case: EditCase) -> dict[str, float]:
    """Every score of an update under the model as it is, from one text at a time."""
    lists: dict[str, list[bool]] = {}
    for q in timed_questions(case):
        name = "extent" if q.kind.startswith("extent") else q.kind
        other = q.old if q.right == "new" else q.new
        exact, p = first_choices(lm, q.text(case.subject), q.right_answer)
        lists.setdefault(name, []).append(exact)
        lists.setdefault(f"{name}_success", []).append(p > first_choices(lm, q.text(case.subject), str(other))[1])
    return {name: float(np.mean(values)) for name, values in lists.items()}


MANY = ("FT", "FT METO", "MEMIT METO", "ROME METO")


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "methods"),
    [
        ("independent", ("FT", "FT METO")),
        pytest.param("independent", MANY, marks=pytest.mark.slow),
        pytest.param("batch", MANY, marks=pytest.mark.slow),
    ],
)
def test_scores_and_combined_edits_of_a_real_model_against_a_naive_recount(
    lm: LanguageModel, tmp_path: Path, mode: str, methods: tuple[str, ...]
):
    """A METO edit is the method's edit of the four requests, of all updates in a batch; scores are counted anew."""
    planned = plan_fast(lm, FAST, *methods)
    result = run_evaluation(lm, CASES, planned, tmp_path, replace(SETTINGS, mode=mode))
    metrics = atoke_metrics(result.tables["atoke"], result.tables["updates"])
    rows = {(row["method"], row["case_id"]): row for row in metrics.with_columns(method_label()).to_dicts()}
    seen = []
    for one in planned:
        requests = [requests_of(case, one.method, one.variant) for case in CASES.cases]
        assert [len(of_case) for of_case in requests] == [4 if one.variant == "METO" else 1] * 2
        for number, case in enumerate(CASES.cases):
            asked = requests[number] if mode == "independent" else [*requests[0], *requests[1]]
            edit = make_edit(lm, one.method, asked, one.settings, one.resources, one.sites)
            with edited(lm, edit):
                expected = recounted(lm, case)
            assert expected.keys() == set(ATOKE_METRICS)
            assert {name: rows[one.label, case.case_id][name] for name in ATOKE_METRICS} == expected
            seen.append(expected)
    for case in CASES.cases:
        row = rows["unedited", case.case_id]
        seen.append(recounted(lm, case))
        assert {name: row[name] for name in ATOKE_METRICS} == seen[-1]
    assert {scores["ces"] for scores in seen} == {0, 1}  # some learn the new fact in its period, some do not


@pytest.mark.full
def test_a_sequence_of_rome_and_the_sentences_of_prompt(lm: LanguageModel):
    """ROME METO is one request on top of the other; PROMPT METO the four sentences in their order."""
    rome, prompt = plan_fast(lm, FAST, "ROME METO", "PROMPT METO")
    requests = requests_of(FRANCE, "ROME", "METO")
    together = make_edit(lm, "ROME", requests, rome.settings, rome.resources)
    total = make_edit(lm, "ROME", requests[:1], rome.settings, rome.resources)
    for request in requests[1:]:
        with edited(lm, total):
            one = make_edit(lm, "ROME", [request], rome.settings, rome.resources)
        total = total + one
    ask = [(q.text("France"), answer) for q in timed_questions(FRANCE) for answer in q.answers.values()]
    found = []
    for edit in (together, total):
        with edited(lm, edit):
            found.append(lm.log_probs(ask))
    assert found[0] == pytest.approx(found[1], abs=1e-3)
    assert make_edit(lm, "PROMPT", requests_of(FRANCE, "PROMPT", "METO"), prompt.settings).prefix == (
        "The president of France is Jacques Chirac from 2012 to May 2017. "
        "From 2012 to May 2017, the president of France was Jacques Chirac. "
        "The president of France is Angela Merkel from May 14, 2017 on. "
        "From May 14, 2017 on, the president of France is Angela Merkel. "
    )


def test_means_and_failures_of_a_table_by_hand():
    """Two updates of one method: a tie is no success, one answer has none, a failed update counts in no mean."""
    key = {"mode": "independent", "method": "FT", "variant": "METO"}
    empty = dict.fromkeys(["new_before", "old_before", "new_after", "old_after", "accuracy_before", "accuracy_after"])
    values = (
        (("ces", 0), 0.5, 0.5, 1.0), (("hes_p", 0), 0.2, 0.3, 0.5), (("hes_p", 1), 0.4, 0.3, 1.0),
        (("extent_new", 0), 0.6, 0.1, 1.0), (("extent_old", 0), 0.6, 0.1, 0.0), (("crs", 0), 0.1, None, 1.0),
    )  # fmt: skip
    atoke = []
    for (kind, number), new, old, accuracy in values:
        atoke.append(key | empty | {
            "case_id": "1", "kind": kind, "prompt_number": number, "new_before": 0.1, "old_before": 0.2,
            "accuracy_before": 0.0, "new_after": new, "old_after": old, "accuracy_after": accuracy,
        })  # fmt: skip
    rest = {"seconds": None, "fluency": None, "fluency_before": None, "relation": None, "popularity": None}
    updates = pl.DataFrame([
        key | rest | {"case_id": "1", "status": "done", "reason": None},
        key | rest | {"case_id": "2", "status": "failed", "reason": "no dates"},
    ])  # fmt: skip
    metrics = atoke_metrics(pl.DataFrame(atoke), updates)
    assert metrics.select(method_label(), "case_id").rows() == [
        ("unedited", "1"), ("unedited", "2"), ("FT METO", "1"), ("FT METO", "2")
    ]  # fmt: skip
    row = metrics.row(2, named=True)
    wanted = {"ces": 1, "ces_success": 0, "hes_p": 0.5, "hes_p_success": 0.5, "extent": 0.5, "extent_success": 0.5,
              "crs": 1, "crs_success": None, "hrs": None}  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert metrics.row(0, named=True)["hes_p_success"] == 1 and metrics.row(0, named=True)["ces"] == 0
    summary = summarise(metrics, ATOKE_METRICS, ATOKE_METRICS)
    assert summary.select("done", "failed", "ces", "ces_n").rows() == [(2, 0, 0.0, 1), (1, 1, 1.0, 1)]
    twice = pl.DataFrame([atoke[0], atoke[0]])
    with pytest.raises(DataError, match="row 2: the same as row 1"):
        atoke_metrics(twice, updates)
    with pytest.raises(DataError, match="says dated_requests, as earlier versions did"):
        atoke_metrics(pl.DataFrame(atoke), updates.drop("variant").with_columns(dated_requests=pl.lit(True)))


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("stop_after", [1, 4])
def test_an_interrupted_run_ends_with_the_same_scores(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
):
    monkeypatch.setattr(stages_module, "PART", 1)
    methods = plan_fast(lm, FAST, "FT", "FT METO")
    whole = run_evaluation(lm, CASES, methods, tmp_path / "whole", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(lm, CASES, methods, tmp_path / "cut", SETTINGS, callbacks=killed_after(stop_after))
    cut = run_evaluation(lm, CASES, methods, tmp_path / "cut", SETTINGS)
    assert whole.tables["atoke"].equals(cut.tables["atoke"])
    assert pl.read_parquet(tmp_path / "cut" / "atoke.parquet").equals(cut.tables["atoke"])


def test_what_is_not_dated_is_asked_nothing_more_and_older_folders_are_refused(lm: LanguageModel, tmp_path: Path):
    settings = EvaluateSettings(measures=Measures(fluency_tokens=0))
    nowhere = replace(FRANCE, case_id="3", old_start=None)
    cases = replace(CASES, cases=(FRANCE, nowhere))
    result = run_evaluation(lm, cases, plan_fast(lm, FAST, "PROMPT METO"), tmp_path, settings)
    assert "atoke" not in result.tables and not (tmp_path / "atoke.parquet").exists()
    assert result.tables["updates"].select("case_id", "status").rows() == [("1", "done"), ("3", "failed")]
    assert result.tables["targets"]["accuracy_after"].null_count() == result.tables["targets"].height
    folder = RunFolder.read(tmp_path)
    identity = folder.record["methods"]["PROMPT METO"]["identity"]
    assert identity["variant"] == "METO"
    identity["dated_requests"] = identity.pop("variant") == "dated"  # as versions before wrote it
    folder.save()
    with pytest.raises(DataError, match="a run of an earlier version, whose methods have dated_requests"):
        run_evaluation(lm, cases, plan_fast(lm, FAST, "PROMPT METO"), tmp_path, settings)


def rewrite(old: str, new: str, true: tuple[int, int], since: tuple[int, int | None]) -> dict[str, Any]:
    """In AToKe's format, in words of our own."""
    return {
        "prompt": "{} sings in", "time_prompt": f"From {since[0]} to {since[1]}, {{}} is a singer of",
        "target_new": {"str": new, "id": "n"}, "target_true": {"str": old, "id": "o"}, "subject": "Ada Krull",
        "relation": "<singsIn>", "relation_id": "<X1>",
        "time_new": {"since": since[0], "until": since[1], "gptj": False},
        "time_true": {"since": true[0], "until": true[1], "gptj": True},
        "evaluation": {
            "completion": "Ada Krull sings in", "questions": "Where does Ada Krull sing?",
            "paraphrase_completion": "The choir of Ada Krull is",
            "time_completion": f"From {since[0]} to {since[1]}, Ada Krull is a singer of",
            "time_questions": "Where?",
            "paraphrase_time_completion": f"From {since[0]} to {since[1]}, Ada Krull's choir is",
        },
    }  # fmt: skip


def history(true: tuple[int, int]) -> dict[str, Any]:
    return {
        "completion": "Ada Krull used to sing in", "questions": "Where did Ada Krull sing before?",
        "paraphrase_completion": "Ada Krull's former choir was",
        "time_completion": f"From {true[0]} to {true[1]}, Ada Krull's choir was",
        "time_questions": "Where?", "paraphrase_time_completion": f"From {true[0]} to {true[1]}, Ada Krull sang in",
    }  # fmt: skip


SINGLE = {
    "case_id": 5, "requested_rewrite": rewrite("Alto", "Bass", (1901, 1910), (1910, 1920)),
    "history_evaluation": history((1901, 1910)), "answer": ["Alto"], "answer_alias": ["The Altos", "Alto"],
    "new_answer": ["Bass"], "new_answer_alias": [],
}  # fmt: skip
MULTIPLE = {
    "case_id": 6,
    "requested_rewrite": [rewrite("Alto", "Bass", (1901, 1910), (1910, 1920)),
                          rewrite("Bass", "Choir", (1910, 1920), (1920, 1930))],
    "history_evaluation": [history((1901, 1910)), history((1910, 1920))], "answer": [["Alto"], ["Bass"]],
    "answer_alias": [["The Altos"], ["The Basses"]], "new_answer": [["Bass"], ["Choir"]],
    "new_answer_alias": [["The Basses"], []],
}  # fmt: skip
EXTENDED = {"case_id": 7, "requested_rewrite": [rewrite("Alto", "Alto", (1901, 1910), (1901, 1925))]}


def write(path: Path, rows: Any) -> str:
    path.write_text(json.dumps(rows), "utf-8")
    return str(path)


def test_records_of_atoke(tmp_path: Path):
    loaded = load_cases(write(tmp_path / "atoke.json", [SINGLE, MULTIPLE, EXTENDED]))
    single, first, second, longer = loaded.cases
    assert loaded.format == "atoke" and [case.case_id for case in loaded.cases] == ["5", "6.1", "6.2", "7"]
    assert asdict(single) == asdict(EditCase(
        "5", "Ada Krull", "{} sings in", "Bass", "Alto", ("The choir of Ada Krull is",), relation="<X1>",
        relation_label="<singsIn>", objects=(("Bass", "new"), ("Alto", "obsolete")), start="1910", end="1920",
        precision="year", old_start="1901", old_end="1910", aliases=(("Alto", "The Altos"),), timed_prompts=(
            ("ces", "From 1910 to 1920, Ada Krull is a singer of"),
            ("ces_p", "From 1910 to 1920, Ada Krull's choir is"), ("crs", "Ada Krull sings in"),
            ("hes", "From 1901 to 1910, Ada Krull's choir was"), ("hes_p", "From 1901 to 1910, Ada Krull sang in"),
            ("hrs", "Ada Krull used to sing in"),
        ),
    ))  # fmt: skip
    assert replace(first, case_id="5") == replace(single, aliases=(("Bass", "The Basses"), ("Alto", "The Altos")))
    assert (second.old, second.new, second.old_start, second.start, second.end) == (
        "Bass",
        "Choir",
        "1910",
        "1920",
        "1930",
    )
    assert second.aliases == (("Bass", "The Basses"),)
    asked = [(q.kind, q.text("Ada Krull"), q.right_answer) for q in timed_questions(longer)]
    assert asked == [
        ("ces", "From 1901 to 1925, Ada Krull is a singer of", "Alto"),
        ("ces_p", "From 1901 to 1925, Ada Krull's choir is", "Alto"), ("crs", "Ada Krull sings in", "Alto"),
        ("extent_new", "Ada Krull sings in Alto from", "1901 to 1925"),
    ]  # fmt: skip
    assert [(r.prompt, r.target) for r in requests_of(single, "ROME", "METO")] == [
        ("{} sings in Alto from", "1901 to 1910"), ("From 1901 to 1910, {}'s choir was", "Alto"),
        ("{} sings in Bass from", "1910 to 1920"), ("From 1910 to 1920, {} is a singer of", "Bass"),
    ]  # fmt: skip
    assert load_cases(write(tmp_path / "one.json", [SINGLE])).fingerprint() != CaseSet("", "", (replace(
        single, timed_prompts=()),)).fingerprint()  # fmt: skip


def test_broken_records_of_atoke(tmp_path: Path):
    bad = [
        (SINGLE | {"requested_rewrite": SINGLE["requested_rewrite"] | {"time_new": {"since": "soon"}}},  # type: ignore[operator]
         r"record 1 \(case_id 5\): requested_rewrite.time_new.since: 'soon' is not a date"),
        (SINGLE | {"requested_rewrite": SINGLE["requested_rewrite"] | {"time_new": {"since": 0}}},  # type: ignore[operator]
         "since is 0; it must be a year"),
        (SINGLE | {"requested_rewrite": SINGLE["requested_rewrite"] | {"prompt": "Ada sings in"}},  # type: ignore[operator]
         r"it must hold \{\} once"),
        (MULTIPLE | {"history_evaluation": [history((1901, 1910))]},
         "record 1: history_evaluation holds 1 entries and requested_rewrite 2"),
    ]  # fmt: skip
    for row, says in bad:
        with pytest.raises(DataError, match=says):
            load_cases(write(tmp_path / "bad.json", [row]))


@pytest.mark.full
def test_the_command_line_with_two_kinds_of_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """mini-updates, and a file in AToKe's format with an extending edit alone, which has no dates before a change."""
    quick = ["--fluency-tokens", "0", "--dated", "--json", "--set", "FT.steps=2"]
    more = [
        "--methods",
        "FT METO,MEMIT METO",
        "--no-covariance",
        "--set",
        "MEMIT.steps=2",
        "--set",
        "MEMIT.contexts=[]",
    ]
    out = tmp_path / "run"
    asked = ["evaluate", "demo", "--updates", "mini-updates", "--limit", "2", *quick, *more, "--until", "2024"]
    assert run_command([*asked, "--out", str(out)], True) == 0
    rows = json.loads(capsys.readouterr().out)["atoke"]
    assert [(row["method"], row["variant"], row["done"]) for row in rows] == [
        ("unedited", "plain", 2), ("FT", "METO", 2), ("MEMIT", "METO", 2)
    ]  # fmt: skip
    assert all(row[f"{name}_n"] == 2 for row in rows for name in ATOKE_METRICS)
    table = pl.read_parquet(out / "report" / "atoke_metrics.parquet")
    assert table.columns[: len(KEYS)] == KEYS and table.height == 6
    assert (out / "report" / "atoke.csv").is_file() and (out / "report" / "markdown" / "atoke.md").is_file()
    extended = write(tmp_path / "extended.json", [EXTENDED])
    asked = ["evaluate", "demo", "--updates", extended, *quick, "--methods", "FT,FT METO", "--out", str(tmp_path / "e")]
    assert run_command(asked, True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["ces_n"], row["extent_n"], row["hes_n"], row["failed"]) for row in found["atoke"]] == [
        (1, 1, 0, 0), (1, 1, 0, 0), (0, 0, 0, 1)
    ]  # fmt: skip
    edit = ["edit", "demo", "--updates", "mini-updates", "--limit", "1", "--method", "ft meto", "--set", "FT.steps=2"]
    assert run_command([*edit, "--out", str(tmp_path / "edit.safetensors"), "--json"], True) == 0
