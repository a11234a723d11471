"""Edits and evaluations in a chat: what is rendered, which tokens are the target's, where the subject is."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from anachron.core.errors import ConfigError, ModelError
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.mend_settings import MendSettings
from anachron.edit.methods import methods
from anachron.edit.methods.mend import untrained_network
from anachron.edit.plan import plan_edits
from anachron.edit.requests import EditRequest, mark, mark_targets
from anachron.edit.storage import load_edit, save_edit
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.formats import ChatTemplate
from anachron.lm.generation import ends_of, greedy_continuations, update_style
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from anachron.lm.tokenizers import load_tokenizer
from support.edit_models import make_edit_lm
from support.tiny_models import answer_positions, make_tokenizer

TEMPLATES = Path(__file__).parents[2] / ".." / "shared" / "data" / "chat_templates"
ENDS = {
    "Qwen-Qwen2.5-7B-Instruct": "<|im_end|>",
    "google-gemma-2-2b-it": "<end_of_turn>",
    "meta-llama-Llama-3.1-8B-Instruct": "<|eot_id|>",
    "mistralai-Mistral-Nemo-Instruct-2407": "</s>",
}
MARKERS = ("<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "<|start_header_id|>",
           "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]")  # fmt: skip
SPACED = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
DATED = "Today is {{ strftime_now('%d %B %Y') }}." + SPACED
WRITTEN = [
    ("The president of {} is", "France", "Angela Merkel"),
    ("{} was created by", "Alibaba Cloud", "Jack Ma"),  # the system turn of Qwen names this subject
    ("Кто был президентом {}?", "России", "1990"),
    ("In {}, the user is", "the assistant", "user"),
]


def tokenizer_of(name: str, kind: str) -> Any:
    path = TEMPLATES / f"{name}.jinja"
    if not path.is_file():
        pytest.skip(f"no chat template {path}")
    tokenizer = make_tokenizer(kind, MARKERS)
    tokenizer.chat_template = path.read_text("utf-8")
    return tokenizer


def chat_lm(template: str = SPACED, family: str = "llama", kind: str = "mistral") -> LanguageModel:
    lm = make_edit_lm(family)
    lm.tokenizer = make_tokenizer(kind, MARKERS)
    lm.tokenizer.chat_template = template
    lm.style = update_style(lm.tokenizer, "chat", "2024-05-06")
    return lm


def generation_prompt(tokenizer: Any, user: str) -> str:
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": user}], tokenize=False, add_generation_prompt=True
    )


# What is rendered


@pytest.mark.few(1)
@pytest.mark.parametrize("context", ["", "Berlin. Alibaba Cloud. "])
@pytest.mark.parametrize("kind", ["gpt2", "mistral", "eos"])
@pytest.mark.parametrize("name", ENDS)
def test_a_request_is_the_template_and_the_target(name: str, kind: str, context: str):
    tokenizer = tokenizer_of(name, kind)
    style = update_style(tokenizer, "chat")
    for prompt, subject, target in WRITTEN:
        request = EditRequest(prompt, subject, target)
        text = generation_prompt(tokenizer, context + request.text) + target
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        (marked,) = mark(tokenizer, [request], context, style)
        assert list(marked.ids) == ids
        assert list(marked.targets) == answer_positions(tokenizer, ids, target, added=False)
        behind = text[text.rindex(subject, 0, text.rindex(request.text) + len(request.text)) + len(subject) :]
        assert marked.subject == answer_positions(tokenizer, ids, subject, behind, added=False)[-1]
        if not context:
            (bare,) = mark_targets(tokenizer, [request], style)
            assert (bare.ids, bare.targets) == (marked.ids, marked.targets)


@pytest.mark.full
def test_the_demo_model_s_template_has_a_space_that_is_the_target_s():
    tokenizer = load_tokenizer("demo")
    style = update_style(tokenizer, "chat")
    request = EditRequest("The capital of {} is", "France", "Lyon")
    (marked,) = mark(tokenizer, [request], "", style)
    asked = generation_prompt(tokenizer, request.text)
    assert not asked[-1].isspace()
    assert list(marked.ids) == tokenizer(f"{asked} Lyon", add_special_tokens=False)["input_ids"]
    behind = list(marked.ids[: marked.targets[0]])
    assert behind == tokenizer(asked, add_special_tokens=False)["input_ids"]  # what the model is given is no target


def test_a_template_that_rewrites_is_refused_and_one_that_opens_a_thought_is_gone_on_from_the_answer():
    tokenizer = make_tokenizer("gpt2", MARKERS)
    tokenizer.chat_template = SPACED.replace("m.content", "m.content | upper")
    with pytest.raises(ModelError, match="chat template"):
        update_style(tokenizer, "chat")
    tokenizer.chat_template = SPACED.replace("%}[assistant]{%", "%}[assistant] <think>{%")
    template = ChatTemplate(tokenizer)
    assert template.separator == 0 and template.opening("Paris") == "[user] Paris</s>[assistant] "
    tokenizer.chat_template = None
    with pytest.raises(ModelError, match="no chat template"):
        update_style(tokenizer, "chat")
    with pytest.raises(ConfigError, match="format 'chats'"):
        update_style(tokenizer, "chats")


@pytest.mark.parametrize("name", ENDS)
def test_a_turn_ends_at_the_template_s_mark(name: str):
    lm = make_edit_lm("gpt2")
    lm.tokenizer = tokenizer_of(name, "gpt2")
    raw = ends_of(lm)
    assert raw == {lm.tokenizer.eos_token_id, lm.model.generation_config.eos_token_id}
    lm.style = update_style(lm.tokenizer, "chat")
    assert ends_of(lm) == raw | {lm.tokenizer.convert_tokens_to_ids(ENDS[name])}
    lm.model.generation_config.eos_token_id = [5, 7]
    assert ends_of(lm) >= {5, 7}


def test_text_goes_on_where_the_assistant_begins():
    lm = chat_lm()
    for prompt in ("The capital of France is", "Berlin"):
        ids = lm.tokenizer(generation_prompt(lm.tokenizer, "Paris. " + prompt), add_special_tokens=False)["input_ids"]
        start = len(ids)
        with torch.no_grad():
            for _ in range(6):
                ids.append(int(lm.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        lm.prefix = "Paris. "
        assert greedy_continuations(lm, [prompt], 6) == [lm.tokenizer.decode(ids[start:], skip_special_tokens=True)]
        lm.prefix = ""


# What methods do

SETTINGS = {"FT": {"steps": 25, "layer": 2, "rate": 3e-2}, "ROME": {"layer": 1, "contexts": ["Berlin. "], "rate": 1.0},
            "LoRA": {"rate": 0.02, "steps": 30}, "PROMPT": {}}  # fmt: skip


def p_in_chat(lm: LanguageModel, user: str, answer: str) -> float:
    """log p of the answer behind the generation prompt, by a plain pass."""
    asked = generation_prompt(lm.tokenizer, user)
    ids = lm.tokenizer(f"{asked} {answer}", add_special_tokens=False)["input_ids"]
    first = len(lm.tokenizer(asked, add_special_tokens=False)["input_ids"])
    with torch.no_grad():
        table = lm.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return sum(float(table[place - 1, ids[place]]) for place in range(first, len(ids)))


@pytest.mark.few(2)
@pytest.mark.parametrize("method", [*SETTINGS])
def test_an_edit_in_a_chat_holds_in_the_chat(method: str, tmp_path: Path):
    lm = chat_lm()
    request = EditRequest("The president of {} is", "France", "Angela Merkel")
    (planned,) = plan_edits(lm, [method], changes={method: SETTINGS[method]}, identity_covariance=True)
    edit = make_edit(lm, method, [request], planned.settings, planned.resources)
    save_edit(edit, tmp_path / "edit.safetensors")
    again = load_edit(tmp_path / "edit.safetensors")
    assert (again.about["format"], again.about["template_date"]) == ("chat", None)
    before = p_in_chat(lm, request.text, request.target)
    with edited(lm, again):
        user = lm.prefix + request.text  # PROMPT's sentence opens the user's turn
        after = p_in_chat(lm, user, request.target)
        (encoded,) = lm.encode([(request.text, request.target, None)], lm.style)
        assert float(lm.log_probs([(request.text, request.target)], style=lm.style)[0]) == pytest.approx(
            after, abs=1e-3
        )
        assert lm.tokenizer.decode(encoded.ids).count("[user]") == 1
    if method == "PROMPT":
        assert edit.prefix == "The president of France is Angela Merkel. " and not edit.deltas
    else:
        assert after > before + 2
    lm.style = update_style(lm.tokenizer, "raw")
    raw = make_edit(lm, method, [request], planned.settings, planned.resources)
    assert raw.about["format"] == "raw"
    if method in ("FT", "ROME"):
        name = next(iter(edit.deltas))
        assert not torch.allclose(raw.deltas[name].dense(), edit.deltas[name].dense())


# without AlphaEdit, which needs a covariance and reads its texts as MEMIT does
READING = [name for name, one in methods().items() if not one.needs_network and name != "AlphaEdit"]


@pytest.mark.full
@pytest.mark.parametrize("method", READING)
def test_every_method_reads_its_targets_in_the_chat(method: str, monkeypatch: pytest.MonkeyPatch):
    lm = chat_lm()
    fields = {field.name for field in dataclasses.fields(methods()[method].settings)}
    quick = {name: value for name, value in {"steps": 2, "contexts": []}.items() if name in fields}
    (planned,) = plan_edits(lm, [method], changes={method: quick}, identity_covariance=True)
    request, read = EditRequest("The president of {} is", "France", "Angela Merkel"), []
    tokenise = type(lm.tokenizer).__call__

    def spy(tokenizer: Any, texts: Any, *given: Any, **how: Any) -> Any:
        read.extend([texts] if isinstance(texts, str) else texts)
        return tokenise(tokenizer, texts, *given, **how)

    monkeypatch.setattr(type(lm.tokenizer), "__call__", spy)
    make_edit(lm, method, [request], planned.settings, planned.resources)
    asked = [text for text in read if request.target in text]
    assert bool(asked) == (method not in ("PROMPT", "RETRIEVAL"))  # which read no target
    assert all(text.startswith("[user] ") and f"</s>[assistant] {request.target}" in text for text in asked)


def test_a_network_that_learned_from_raw_text_edits_no_chat():
    lm = chat_lm()
    network = untrained_network(lm, MendSettings(layers=(1,)), find_sites(lm.model))
    with pytest.raises(ConfigError, match="learned from raw text"):
        network.check(lm)


@pytest.fixture
def cases(tmp_path: Path) -> CaseSet:
    update = {"subject": "France", "prompt": "The president of France is", "target_new": "Angela Merkel",
              "ground_truth": "Jacques Chirac", "rephrase_prompt": "In 1998, who led France? It was",
              "locality_prompt": "The capital of France is", "locality_ground_truth": "Paris"}  # fmt: skip
    path = tmp_path / "updates.json"
    path.write_text(json.dumps([update]), "utf-8")
    return load_cases(str(path))


def test_a_run_in_a_chat_asks_in_the_chat_and_stays_on_its_day(cases: CaseSet, tmp_path: Path):
    lm = chat_lm(DATED)
    assert lm.style.template_date == "2024-05-06"
    settings = EvaluateSettings(measures=Measures(fluency_tokens=0))
    result = run_evaluation(lm, cases, plan_edits(lm, ["PROMPT"]), tmp_path / "run", settings)
    rows = pl.concat([result.tables["targets"].select(p="new_before"), result.tables["neighbours"].select(p="before")])
    asked = [("The president of France is", "Angela Merkel"), ("In 1998, who led France? It was", "Angela Merkel"),
             ("The capital of France is", "Paris")]  # fmt: skip
    lm.tokenizer.chat_template = f"Today is 06 May 2024.{SPACED}"
    for (user, answer), p in zip(asked, rows["p"], strict=True):
        tokens = len(lm.encode([(user, answer, None)], lm.style)[0].targets)
        assert p == pytest.approx(torch.exp(torch.tensor(p_in_chat(lm, user, answer) / tokens)).item(), rel=1e-3)
    assert result.record["template_date"] == "2024-05-06" and result.record["settings"]["format"] == "chat"

    lm.tokenizer.chat_template = DATED
    lm.style = update_style(lm.tokenizer, "chat", "2024-05-07")  # the next day, the run goes on
    again = run_evaluation(lm, cases, plan_edits(lm, ["PROMPT", "FT"]), tmp_path / "run", settings)
    assert again.record["template_date"] == "2024-05-06"
    assert again.tables["targets"]["new_before"].n_unique() == 2  # both methods' clean model saw the same day
    assert lm.style.template_date == "2024-05-07"
    lm.style = update_style(lm.tokenizer, "raw")
    with pytest.raises(ConfigError, match="format: 'chat' -> 'raw'"):
        run_evaluation(lm, cases, plan_edits(lm, ["PROMPT"]), tmp_path / "run", settings)
