"""A local model's own generation as one who answers, and a check by it."""

import re
from pathlib import Path

import pytest

from anachron.core.errors import ModelError
from anachron.edit.base import Edit, edited
from anachron.io.answers import Answer
from anachron.io.jobs import Callbacks
from anachron.io.reasoning import split_reasoning
from anachron.lm.model import LanguageModel
from anachron.probe.ask.asking import AskSettings
from anachron.probe.ask.generate import LocalAnswerer
from anachron.probe.ask.matching import read_name
from anachron.probe.by_answers import ByAnswers
from anachron.probe.check.check import check
from anachron.probe.check.questions import read_facts
from support.asked_runs import alone
from support.tiny_models import make_model, make_tokenizer

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
PROMPTS = ["In which year, 1998 or 2011?", "Who?", "In which year, 1998 or 2011?", "From when to when?"]


def local(folder: Path, template: str | None = TEMPLATE, most: int = 5) -> LocalAnswerer:
    tokenizer = make_tokenizer("mistral")
    tokenizer.chat_template = template
    return LocalAnswerer(LanguageModel(make_model("llama"), tokenizer, "tiny"), folder, "tiny", most)


def test_answers_are_what_the_model_writes_behind_its_template(tmp_path: Path):
    """Against transformers' own loop for each prompt alone."""
    one = local(tmp_path)
    found = one.answers(PROMPTS, Callbacks())
    for prompt, answer in zip(PROMPTS, found, strict=True):
        turns = [{"role": "user", "content": prompt}]
        text = one.lm.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = one.lm.tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
        row = one.lm.model.generate(ids, do_sample=False, max_new_tokens=5, eos_token_id=None, pad_token_id=0)[0]
        new, end = row[ids.shape[1] :].tolist(), one.lm.tokenizer.eos_token_id
        kept = new[: new.index(end)] if end in new else new
        assert isinstance(answer, Answer)
        assert answer.text == one.lm.tokenizer.decode(kept, skip_special_tokens=True).strip()
        assert answer.finish == ("stop" if end in new else "length")
        assert (answer.prompt_tokens, answer.completion_tokens) == (ids.shape[1], len(kept) + (end in new))


def test_nothing_is_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = local(tmp_path).answers(PROMPTS, Callbacks())
    again = local(tmp_path)
    monkeypatch.setattr(again.lm.model, "generate", lambda *a, **k: pytest.fail("written again"))
    assert again.answers(PROMPTS, Callbacks()) == first
    assert local(tmp_path, most=6).answers(PROMPTS[:1], Callbacks()) != []
    assert len([*tmp_path.rglob("*.json")]) == 4  # three prompts, and one with another limit


def test_an_edit_beside_the_weights_has_answers_of_its_own(tmp_path: Path):
    one = local(tmp_path)
    (plain,) = one.answers(PROMPTS[:1], Callbacks())
    with edited(one.lm, Edit(prefix="It was 1998. ")):
        (told,) = one.answers(PROMPTS[:1], Callbacks())
    assert isinstance(plain, Answer) and isinstance(told, Answer) and told.prompt_tokens != plain.prompt_tokens
    assert one.answers(PROMPTS[:1], Callbacks()) == [plain]


def test_the_weights_are_read_once_for_all_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each answer is kept under the fingerprint of the model, for which all weights are read: a third of a second."""
    read, fingerprint = [], LanguageModel.weights_fingerprint
    monkeypatch.setattr(LanguageModel, "weights_fingerprint", lambda lm: read.append(lm) or fingerprint(lm))
    answerer = local(tmp_path)
    assert len(answerer.answers([f"who was it in {year}?" for year in range(1990, 2010)], Callbacks())) == 20
    assert len(read) == 1


def test_answers_that_were_altered_are_written_again_with_a_warning(tmp_path: Path):
    first = local(tmp_path).answers(PROMPTS, Callbacks())
    for file in sorted(tmp_path.rglob("*.json"))[:2]:
        file.write_text(re.sub('"stop"|"length"', '"content_filter"', file.read_text()))
    said: list[str] = []
    assert local(tmp_path).answers(PROMPTS, Callbacks(warn=said.append)) == first
    assert len(said) == 1 and said[0].startswith("2 kept answers in ") and "written again" in said[0]
    assert local(tmp_path).answers(PROMPTS, Callbacks(warn=pytest.fail)) == first


def test_a_model_without_a_chat_template_cannot_be_asked(tmp_path: Path):
    with pytest.raises(ModelError, match="template"):
        local(tmp_path, None).answers(PROMPTS, Callbacks())


def test_a_check_by_generation(tmp_path: Path):
    path = tmp_path / "facts.csv"
    path.write_text("subject,relation,object,start,end\nKazakhstan,capital,Almaty,1991-12-16,1997-12-10\n")
    asked = alone(read_facts(path, as_of="2025-11-22"))
    found = check(ByAnswers(local(tmp_path / "a"), AskSettings(rounds=1)), asked, tmp_path / "run")
    assert found.verdicts["verdict"].to_list() == [None] and found.summary["answers"]["calls"] >= 9
    assert found.verdicts["left_out"].to_list() == ["no choice of two years could be read"]
    assert (tmp_path / "run" / "verdicts.csv").is_file() and found.summary["robustness"] is None


def test_special_tokens_around_reasoning_stay_in_an_answer(tmp_path: Path):
    """Where they are dropped, as transformers' decoding does, what a model thought of becomes a part of its answer."""
    one = local(tmp_path, most=40)
    one.lm.tokenizer.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]"]})
    marks = one.lm.tokenizer.convert_tokens_to_ids(["[THINK]", "[/THINK]"])
    one.lm.model.resize_token_embeddings(len(one.lm.tokenizer))
    words = [one.lm.tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("Bush?", "Dick Cheney")]
    says(one.lm, [marks[0], *words[0], marks[1], *words[1], one.lm.tokenizer.eos_token_id])
    (answer,) = one.answers(PROMPTS[:1], Callbacks())
    assert isinstance(answer, Answer)
    assert split_reasoning(answer.text) == ("Dick Cheney", "Bush?")
    assert read_name(answer, {"Bush": 1, "Dick Cheney": 2}).value == 2


def test_no_other_special_token_is_left_in_an_answer(tmp_path: Path):
    """Marks that a vocabulary lacks are read as its token for the unknown, which is no mark."""
    one = local(tmp_path, most=20)
    words = one.lm.tokenizer("Dick Cheney", add_special_tokens=False)["input_ids"]
    unknown = one.lm.tokenizer.unk_token_id
    assert unknown is not None and unknown == one.lm.tokenizer.convert_tokens_to_ids("<seed:think>")
    says(one.lm, [unknown, *words, one.lm.tokenizer.eos_token_id])
    (answer,) = one.answers(PROMPTS[:1], Callbacks())
    assert isinstance(answer, Answer) and answer.text == "Dick Cheney"


def says(lm: LanguageModel, tokens: list[int]) -> None:
    """Let a model write these tokens, whatever it is asked."""
    import torch

    given = iter(tokens)

    def say(module: object, args: object, output: torch.Tensor) -> torch.Tensor:
        logits = torch.full_like(output, -100.0)
        logits[..., next(given)] = 0.0
        return logits

    lm.model.get_output_embeddings().register_forward_hook(say)
