"""Three ways of asking about a date: what is asked, and a model for which it makes a difference."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import ConfigError
from anachron.core.periods import Period
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.dated import (
    WAYS,
    Dating,
    dated_neighbour_pairs,
    dated_neighbour_rows,
    dated_pairs,
    dated_questions,
    dated_rows,
    not_asked,
    past_wordings_unknown,
    ways_of,
    worded,
)
from anachron.evaluate.measures.dated_metrics import dated_metrics, past_scores
from anachron.evaluate.results import method_label
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.text.cloze import bundled_cloze, fill_cloze
from anachron.text.kinds import subject_kind
from anachron.text.questions import fill_question, relation_templates
from evaluate.test_dated_run import TableModel

CASE = EditCase(
    "7", "France", "The president of France is", "Emmanuel Macron", "François Hollande",
    generalization=("France is led by", "In France, the president is", "France has as its president"),
    past_generalization=("France was led by", "In France, the president was", "France had as its president"),
    question_templates=("who was the president of [SUBJ]?", "which person led [SUBJ]?"), start="2017-05-14",
    old_start="2012-05-15",
)  # fmt: skip
UNTIL = Dating("2020-12-31")
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def opening(time: str) -> str:
    year, *rest = time.split("-")
    month = MONTHS[int(rest[0]) - 1] if rest else ""
    return {0: f"In {year}, ", 1: f"In {month} {year}, ", 2: f"On {month} {int(rest[-1]) if rest else 0}, {year}, "}[
        len(rest)
    ]


def drawn(number: int, *parts: object) -> int:
    """A number below ``number`` by a hash of the parts."""
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
    return int(digest[:16], 16) % number


def test_every_question_word_by_word():
    """Before the change paraphrases are in the past tense, after it in the present; one question serves all dates."""
    template = CASE.question_templates[drawn(2, "question", 0, "7")]
    asked = []
    for question in dated_questions(CASE, UNTIL):
        date = opening(question.time)
        place = drawn(3, 0, "7", "paraphrase", question.time)
        paraphrase = (CASE.past_generalization if question.side == "past" else CASE.generalization)[place]
        wanted = {
            "prompt": f"{date}the president of France is",
            "paraphrase": date + paraphrase.replace("In France", "in France"),
            "question": date + template.replace("[SUBJ]", "France"),
        }
        assert dict(worded(CASE, question, UNTIL)) == wanted
        asked += list(wanted.values())
    assert len(set(asked)) == len(asked)
    pairs = dated_pairs(CASE, UNTIL)
    assert pairs == [(prompt, who) for prompt in asked for who in ("Emmanuel Macron", "François Hollande")]
    p = {pair: 1 / (n + 2) for n, pair in enumerate(pairs)}
    rows = dated_rows(CASE, UNTIL, p)
    assert [(row["new"], row["old"]) for row in rows] == [
        (p[prompt, "Emmanuel Macron"], p[prompt, "François Hollande"]) for prompt in asked
    ]
    assert [row["way"] for row in rows] == list(WAYS) * (len(rows) // 3)
    assert dated_neighbour_pairs(CASE, UNTIL) == [] and dated_neighbour_rows(CASE, UNTIL, p) == []


def test_all_paraphrases_are_drawn_whatever_the_other_ways_and_another_seed_draws_others():
    long = replace(CASE, old_start="1990")
    prompts = {
        seed: [worded(long, q, Dating("2020", seed, ("paraphrase",)))[0][1] for q in dated_questions(long, UNTIL)]
        for seed in (0, 1)
    }
    assert prompts[0] == [dict(worded(long, q, UNTIL))["paraphrase"] for q in dated_questions(long, UNTIL)]
    assert prompts[0] != prompts[1]
    ends = {prompt.split(", ")[-1] for prompt in prompts[0]}
    assert len(ends) == 6  # three prompts in both tenses


def test_prompts_of_the_bundled_updates_are_filled_templates_in_the_right_tense():
    for case in load_cases("mini-updates").cases[::16]:
        cloze = bundled_cloze()[case.relation or ""]
        sentences = {
            side: {
                fill_cloze(template, case.subject, "X", kind=subject_kind(case.relation)).removesuffix(" X").casefold()
                for template in templates[1:]
            }
            for side, templates in (("past", cloze.past), ("present", cloze.templates))
        }
        questions = {
            fill_question(template, case.subject, subject_kind(case.relation))
            for template in relation_templates()[case.relation or ""][1]
        }
        served = set()
        for question in dated_questions(case, UNTIL):
            asked = dict(worded(case, question, UNTIL))
            assert list(asked) == list(WAYS)
            rest = {way: prompt.removeprefix(opening(question.time)) for way, prompt in asked.items()}
            assert rest["prompt"].casefold() == case.text.casefold()
            assert rest["paraphrase"].casefold() in sentences[question.side]
            served.add(rest["question"])
        assert len(served) == 1 and served <= questions


def test_questions_are_the_updates_own_else_those_of_its_relation():
    plain = replace(CASE, question_templates=(), relation="P35")
    question = dated_questions(CASE, UNTIL)[0]
    (way, prompt), *_ = worded(plain, question, replace(UNTIL, ways=("question",)))
    wanted = relation_templates()["P35"][1][drawn(4, "question", 0, "7")].replace("[SUBJ]", "France")
    assert (way, prompt) == ("question", opening(question.time) + wanted)


def test_an_update_without_other_prompts_or_a_question_is_asked_in_fewer_ways_and_counted():
    bare = replace(CASE, generalization=(), past_generalization=(), question_templates=())
    unknown = replace(bare, relation="P999999", start=None)
    present = replace(CASE, past_generalization=())
    assert [ways_of(case, UNTIL) for case in (CASE, bare, present)] == [WAYS, ("prompt",), WAYS]
    assert not_asked([CASE, bare, unknown, present], UNTIL) == {
        "no dated questions: the date of change is not known": 1,
        "no dates asked about in paraphrases: it has no other prompt": 1,
        "no dates asked about in questions: none is known": 1,
    }
    assert past_wordings_unknown([CASE, bare, unknown, present, replace(present, old_start=None)], UNTIL) == 1
    asked = [dict(worded(present, q, UNTIL))["paraphrase"] for q in dated_questions(present, UNTIL)]
    assert all(" was" not in prompt and " had" not in prompt for prompt in asked)


def test_ways_are_kept_in_one_order_and_checked():
    assert Dating(ways=("question", "prompt", "question")) == Dating(ways=("prompt", "question"))
    with pytest.raises(ConfigError, match="way 'song': dates are asked about by prompt, paraphrase, question"):
        Dating(ways=("prompt", "song"))
    with pytest.raises(ConfigError, match="no way to ask about dates is named"):
        Dating(ways=())


EDIT = "The president of France is Emmanuel Macron. "  # what PROMPT puts before every prompt


def table() -> dict[tuple[str, str], float]:
    """Edited, the model has the new object in the edit's own words alone, on all dates; before, it nowhere has it."""
    found: dict[tuple[str, str], float] = {}
    for prompt, who in dated_pairs(CASE, UNTIL):
        own = "the president of France is" in prompt
        new = who == CASE.new
        found[prompt, who] = 0.2 if new else 0.5
        found[EDIT + prompt, who] = (0.7 if new else 0.1) if own else (0.3 if new else 0.4)
    for text in (CASE.text, *CASE.generalization):
        for who in (CASE.new, CASE.old):
            found[text, who or ""] = found[EDIT + text, who or ""] = 0.5
    return found


def run(folder: Path, **dating: Any) -> Any:
    lm: Any = TableModel(table())
    settings = EvaluateSettings("batch", 1, Measures(fluency_tokens=0, dated=Dating("2020-12-31", **dating)))
    return run_evaluation(lm, CaseSet("one", "wikifactdiff", (CASE,), {}), plan_edits(lm, ["PROMPT"]), folder, settings)


def test_an_edit_that_only_its_own_words_show_looks_better_in_other_words(tmp_path: Path):
    result = run(tmp_path / "all")
    metrics = dated_metrics(result.tables["dated"], result.tables["updates"]).with_columns(method_label())
    (row,) = metrics.filter(method="PROMPT").to_dicts()
    kept = {way: row[f"past_kept_global_{way}"] for way in WAYS}
    updated = {way: row[f"present_updated_global_{way}"] for way in WAYS}
    assert kept == {"prompt": 0, "paraphrase": 1, "question": 1}
    assert updated == {"prompt": 1, "paraphrase": 0, "question": 0}
    assert (row["past_kept_global"], row["present_updated_global"]) == pytest.approx((2 / 3, 1 / 3))
    assert row["both_right_global"] == 0  # in no way both: the mean of the three products
    past = pl.read_parquet(tmp_path / "all" / "past_scores.parquet").drop_nulls("time")
    edited = past.filter(model="edited with PROMPT")
    assert edited["logp"].to_list() == pytest.approx([math.log(0.1)] * edited.height)  # of the update prompt


@pytest.mark.parametrize(("old_end", "end"), [("2016-03", "2016-03"), (None, "2017-05-14"), ("2019", "2017-05-14")])
def test_past_scores_have_the_period_in_which_the_old_object_held(old_end: str | None, end: str):
    """Not the years between its end and its successor, nor those after the change; and the format that was asked."""
    case = replace(CASE, old_end=old_end)
    rows = dated_rows(case, UNTIL, dict.fromkeys(dated_pairs(case, UNTIL), 0.5))
    about = {"mode": "batch", "method": "FT", "variant": "plain", "case_id": "7"}
    scores = {"new_before": 0.5, "old_before": 0.5, "new_after": 0.5, "old_after": 0.5}
    dated = pl.DataFrame([about | {n: r[n] for n in ("way", "granularity", "time", "side")} | scores for r in rows])
    targets = pl.DataFrame([about | {"kind": "update"} | scores])
    table = past_scores(dated, targets, [case], "chat").filter(model="unedited").drop_nulls("time")
    assert set(table["end"]) == {end} and set(table["format"]) == {"chat"}
    period = Period("2012-05-15", end)
    assert table["alpha"].to_list() == [period.alpha(time) for time in table["time"]]
    correct = table.filter(status="correct")
    assert correct.height and all(period.status(time) == "correct" for time in correct["time"])


def test_ways_are_part_of_a_run_and_those_left_out_are_not_asked(tmp_path: Path):
    result = run(tmp_path, ways=("question",))
    assert set(result.tables["dated"]["way"]) == {"question"} and result.record["not_asked"] == {}
    metrics = dated_metrics(result.tables["dated"], result.tables["updates"])
    assert metrics["past_kept_global"].to_list() == metrics["past_kept_global_question"].to_list() == [1, 1]
    assert metrics["past_kept_global_prompt"].null_count() == 2
    scores = pl.read_parquet(tmp_path / "past_scores.parquet").drop_nulls("time").filter(model="unedited")
    assert scores["logp"].to_list() == pytest.approx([math.log(0.5)] * scores.height)
    with pytest.raises(ConfigError, match=r"dated\.ways"):
        run(tmp_path)
