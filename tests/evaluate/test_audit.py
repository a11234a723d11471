"""Free generation audited: answers against a plain loop and transformers' own, exact matches written out by hand."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures, ModelWriter
from anachron.evaluate.measures.audit import (
    AUDIT,
    AUDIT_METRICS,
    AnswerAudit,
    answers_to,
    audit_metrics,
    says_exactly,
    sentence_end,
)
from anachron.evaluate.metrics import summarise, update_metrics
from anachron.evaluate.requests import requests_of
from anachron.evaluate.results import NEIGHBOURS, TARGETS, UPDATES
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.generation import WrittenAnswer, ends_of, natural_answers, update_style
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm
from support.tiny_models import make_lm

PROMPTS = ["France", "Paris is the capital of", "In May 2004, which team did", "北京是", "Angela Merkel"]
CHAT = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)

# --- names and sentences ---


@pytest.mark.parametrize(
    ("answer", "names", "wanted"),
    [
        ("Lyon", ["Lyon"], True),
        ("the city of lyon", ["City of Lyon"], True),
        ("Lyon.", ["Paris", "Lyon"], True),
        ("« Zürich »", ["Zurich"], True),
        ("Lyon, France", ["Lyon"], False),
        ("Lyon Lyon", ["Lyon"], False),
        ("It is Lyon", ["Lyon"], False),
        ("Ly", ["Lyon"], False),
        ("", ["Lyon"], False),
        ("the", ["The The"], False),
        ("The", ["the"], True),
        ("÷", ["÷"], True),
        ("÷", ["+"], False),
        ("", ["÷"], False),
        ("!", ["Lyon"], False),
        ("3.5", ["3.5"], True),
        ("3", ["3.5"], False),
    ],
)
def test_an_answer_is_a_name_or_it_is_not(answer: str, names: list[str], wanted: bool):
    assert says_exactly(answer, names) is wanted


@pytest.mark.parametrize(
    ("text", "names", "answer"),
    [
        ("Lyon. It is", ["Lyon"], "Lyon."),
        ("Lyon.", ["Lyon"], None),  # what follows may be "com"
        ("St. Louis. It", ["St. Louis"], "St. Louis."),
        ("St. Louis. It", ["Paris"], "St."),
        ("The St. Louis! It", ["St. Louis"], "The St. Louis!"),
        ("3.5 and more", ["3.5"], None),
        ("巴黎。它是", ["巴黎"], "巴黎。"),
        ("who? me", ["A"], "who?"),
        ("", ["A"], None),
    ],
)
def test_a_sentence_ends_at_a_mark_that_is_no_part_of_a_name(text: str, names: list[str], answer: str | None):
    end = sentence_end(text, names)
    assert (None if end is None else text[:end]) == answer


@given(st.text(alphabet="ab .!?\n", max_size=30))
def test_what_stands_behind_the_end_of_a_sentence_does_not_move_it(text: str):
    end = sentence_end(text, ["zz"])
    if end is None:  # a mark before any word is none
        assert not re.search(r"[ab][^ab]*[.!?]\s", text)
    else:
        assert sentence_end(text[: end + 1] + " b. a", ["zz"]) == end


# --- answers ---


def naive(lm: LanguageModel, ids: list[int], most: int, raw: bool) -> WrittenAnswer:
    """transformers' own generation, one prompt at a time with one new token a call, cut by the rules written out."""
    start, ends = len(ids), ends_of(lm)
    how = transformers.GenerationConfig(max_new_tokens=1, do_sample=False, pad_token_id=0, eos_token_id=None)
    for _ in range(most):
        given = torch.tensor([ids])
        out = lm.model.generate(given, attention_mask=torch.ones_like(given), generation_config=how)
        new = int(out[0, -1])
        if new in ends:
            text = lm.tokenizer.decode(ids[start:], skip_special_tokens=True).strip()
            return WrittenAnswer(text, True, start, len(ids) + 1 - start)
        ids = [*ids, new]
        text = lm.tokenizer.decode(ids[start:], skip_special_tokens=True).lstrip()
        if raw and ("\n" in text or "\r" in text):
            line = text.replace("\r", "\n").partition("\n")[0].rstrip()
            return WrittenAnswer(line, True, start, len(ids) - start)
    text = lm.tokenizer.decode(ids[start:], skip_special_tokens=True).strip()
    return WrittenAnswer(text, False, start, len(ids) - start)


def loud(lm: LanguageModel, tokens: dict[int, float]) -> LanguageModel:
    """A model that likes some tokens more than it would, so that it comes to ends and line breaks."""
    head = lm.model.get_output_embeddings()
    bias = torch.zeros(head.weight.shape[0])
    for token, gain in tokens.items():
        bias[token] = gain
    head.register_forward_hook(lambda module, given, logits: logits + bias)
    return lm


@pytest.mark.few(3)
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(
    ("family", "kind"), [("gpt2", "gpt2"), ("llama", "mistral"), ("neox", "pythia"), ("llama", "eos")]
)
def test_answers_are_those_of_one_at_a_time(family: str, kind: str, chat: bool):
    lm = make_lm(family, kind)
    (line,) = lm.tokenizer("a\n", add_special_tokens=False)["input_ids"][-1:]
    loud(lm, {2: 6.0, line: 4.0})
    lm.tokenizer.chat_template = CHAT
    if chat:
        lm.style = update_style(lm.tokenizer, "chat")
    wanted = []
    for prompt in PROMPTS:
        asked = lm.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        ids = lm.tokenizer(asked if chat else prompt, add_special_tokens=not chat)["input_ids"]
        if not chat and kind == "eos":
            ids = ids[:-1]
        wanted.append(naive(lm, ids, 12, raw=not chat))
    answers = natural_answers(lm, PROMPTS, 12)
    assert answers == wanted
    assert [natural_answers(lm, [prompt], 12)[0] for prompt in PROMPTS] == answers  # the company does not matter
    assert natural_answers(lm, [], 12) == []


def scripted(lm: LanguageModel, text: str) -> LanguageModel:
    """A model that writes one text whatever it is asked, and then its end."""
    ids = [*lm.tokenizer(text, add_special_tokens=False)["input_ids"], lm.tokenizer.eos_token_id]
    given: list[int] = []

    def say(module: Any, args: Any, logits: torch.Tensor) -> torch.Tensor:
        given.append(logits.shape[1])
        step = min(len(given) - 1, len(ids) - 1)
        said = torch.full_like(logits, -1e3)
        said[..., ids[step]] = 1e3
        return said

    lm.model.get_output_embeddings().register_forward_hook(say)
    return lm


@pytest.mark.parametrize(
    ("text", "raw", "chat"),
    [
        ("Paris", ("Paris", True), ("Paris", True)),
        ("\n\nParis\n\nQ: who", ("Paris", True), ("Paris\n\nQ: who", True)),
        ("Paris. It is", ("Paris.", True), ("Paris. It is", True)),
        ("Paris is in " * 9, ("Paris is in Paris is", False), None),
    ],
)
def test_where_answers_end(text: str, raw: tuple[str, bool], chat: tuple[str, bool] | None):
    for wanted, kind in ((raw, "raw"), (chat, "chat")):
        if wanted is not None:
            lm = scripted(make_lm("gpt2", "gpt2"), text)
            lm.tokenizer.chat_template = CHAT
            lm.style = update_style(lm.tokenizer, kind)
            most = 40 if wanted[1] else len(lm.tokenizer("Paris is in Paris is")["input_ids"])
            (answer,) = natural_answers(lm, ["France"], most, lambda text: sentence_end(text, ["Lyon"]))
            assert (answer.text, answer.stopped) == wanted


@pytest.mark.parametrize(
    ("name", "answer"),
    [("Paris\nFrance", "Paris\nFrance"), ("Paris", "Paris"), ("Lyon\nFrance", "Paris"), ("France\nParis", "Paris")],
)
def test_a_line_break_within_the_object_ends_no_answer(name: str, answer: str):
    lm = scripted(make_lm("gpt2", "gpt2"), "Paris\nFrance\nParis")
    case = EditCase("1", "France", "The capital of France is", name, None)
    assert answers_to(ModelWriter(lm), case, AnswerAudit()) == [(answer, True)]
    assert says_exactly(answer, [name]) is (name.startswith("Paris"))


# --- metrics ---


def answered(method: str, number: int, new: float | None, old: float | None, stopped: float, clean=(0, 1, 1)) -> dict:
    return {
        "mode": "batch", "method": method, "case_id": "1", "kind": "generalization" if number else "update",
        "prompt_number": number, "prompt": "p", "new_names": ["B"], "old_names": ["A"], "text_before": "A",
        "text_after": "B", "new_before": clean[0], "old_before": clean[1], "stopped_before": clean[2],
        "new_after": new, "old_after": old, "stopped_after": stopped,
    }  # fmt: skip


def test_metrics_of_an_audit():
    rows = [
        answered("FT", 0, 1, 0, 1), answered("FT", 1, 0, 0, 0), answered("FT", 2, 1, 0, 0, (0, 0, 0)),
        answered("ROME", 0, 0, 0, 0), answered("ROME", 1, 0, 1, 1), answered("ROME", 2, 0, None, 1, (0, 0, 0)),
    ]  # fmt: skip
    updates = [{"method": name, "mode": "batch", "case_id": "1", "status": "done"} for name in ("FT", "ROME")]
    tables = pl.DataFrame([], TARGETS), pl.DataFrame([], NEIGHBOURS), pl.DataFrame(updates, UPDATES)
    found = update_metrics(*tables, audit=pl.DataFrame(rows, AUDIT.table))
    assert found.select("method", *AUDIT_METRICS).rows() == [
        ("unedited", 0.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5),
        ("FT", 1.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.5, 1.0),
        ("ROME", 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.5, 0.0),
    ]
    summary = summarise(found)
    assert summary["answer_new"].to_list() == [0, 1, 0] and summary["answer_new_low"][1] > 0  # of one update
    assert not set(AUDIT_METRICS) & set(update_metrics(*tables).columns)
    with pytest.raises(DataError, match=r"audit, row 1: stopped_after 2\.0 is not a probability"):
        update_metrics(*tables, audit=pl.DataFrame([answered("FT", 0, 1, 0, 2)], AUDIT.table))
    with pytest.raises(ConfigError, match="0 tokens says nothing"):
        AnswerAudit(0)


# --- a run ---


@pytest.fixture
def cases(tmp_path: Path) -> CaseSet:
    path = tmp_path / "updates.json"
    updates = [
        {"subject": subject, "prompt": f"The president of {subject} is", "target_new": "Angela Merkel",
         "ground_truth": ["Jacques Chirac", "Chirac"], "rephrase_prompt": f"In 1998, who led {subject}? It was"}
        for subject in ("France", "Berlin")
    ]  # fmt: skip
    path.write_text(json.dumps(updates), "utf-8")
    return load_cases(str(path))


def test_a_run_that_is_audited(cases: CaseSet, tmp_path: Path):
    lm = loud(make_edit_lm("llama"), {2: 5.0})
    (planned,) = plan_edits(lm, ["FT"], changes={"FT": {"steps": 25, "layer": 2, "rate": 3e-2}})
    audit = AnswerAudit(6)
    settings = EvaluateSettings(measures=Measures(fluency_tokens=0, audit=audit))
    result = run_evaluation(lm, cases, [planned], tmp_path / "run", settings)
    table = result.tables["audit"]
    assert table.equals(pl.read_parquet(tmp_path / "run" / "audit.parquet")) and table.height == 4
    for update in cases.cases:
        mine = table.filter(pl.col("case_id") == update.case_id)
        clean = answers_to(ModelWriter(lm), update, audit)
        assert mine["text_before"].to_list() == [text for text, _ in clean]
        edit = make_edit(lm, "FT", requests_of(update, "FT"), planned.settings)
        with edited(lm, edit):
            after = answers_to(ModelWriter(lm), update, audit)
        assert mine["text_after"].to_list() == [text for text, _ in after]
        assert mine["stopped_after"].to_list() == [stopped for _, stopped in after]
        assert mine["new_after"].to_list() == [says_exactly(text, ["Angela Merkel"]) for text, _ in after]
        assert mine["prompt"].to_list() == [update.text, *update.generalization]
        assert mine["old_names"][0].to_list() == ["Jacques Chirac", "Chirac"]
    assert audit_metrics(table).height == 2
    with pytest.raises(ConfigError, match=r"audit.*most_tokens.*6 -> 7|audit\.most_tokens: 6 -> 7"):
        run_evaluation(
            lm,
            cases,
            [planned],
            tmp_path / "run",
            EvaluateSettings(measures=Measures(fluency_tokens=0, audit=AnswerAudit(7))),
        )
    lm.model.generation_config.eos_token_id = [3, 5]  # no part of a model's identity, and answers end there
    with pytest.raises(ConfigError, match="answer_ends"):
        run_evaluation(lm, cases, [planned], tmp_path / "run", settings)
