"""Chat format: one BOS, the answer found in the rendered text, templates that cannot be used refused."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.lm.formats import PREFIXES, ChatTemplate, Format, locate
from anachron.lm.model import LanguageModel
from support.tiny_models import answer_positions, make_model, make_tokenizer, naive_log_prob, naive_sum

TEMPLATES = Path(__file__).parents[2] / ".." / "shared" / "data" / "chat_templates"
NAMES = (
    "Qwen-Qwen2.5-7B-Instruct",
    "google-gemma-2-2b-it",
    "meta-llama-Llama-3.1-8B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
)
MARKERS = (
    "<|im_start|>",
    "<|im_end|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "[INST]",
    "[/INST]",
)
PLAIN = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
CHAT = Format(kind="chat")
QUESTION = "In 1998, was Paris the capital of France?"


def chat_lm(template: str | None, kind: str = "mistral", family: str = "llama") -> LanguageModel:
    tokenizer = make_tokenizer(kind, MARKERS)
    tokenizer.chat_template = template
    return LanguageModel(make_model(family), tokenizer, "tiny-chat")


def published(name: str) -> str:
    path = TEMPLATES / f"{name}.jinja"
    if not path.is_file():
        pytest.skip(f"no chat template {path}")
    return path.read_text("utf-8")


def render(tokenizer: Any, user: str, answer: str) -> str:
    turns = [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    return tokenizer.apply_chat_template(turns, tokenize=False)


def naive_chat(lm: LanguageModel, user: str, answer: str) -> float:
    text = render(lm.tokenizer, user, answer)
    tail = text[text.rindex(answer) + len(answer) :]
    ids = lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    return naive_sum(lm.model, ids, answer_positions(lm.tokenizer, ids, answer, tail, added=False))


def score(lm: LanguageModel, prompt: str, answer: str, style: Format = CHAT) -> float:
    return float(lm.log_probs([(prompt, answer)], style=style)[0])


def text_of(lm: LanguageModel, prompt: str, answer: str, style: Format) -> str:
    return locate(lm.tokenizer, [(prompt, answer, None)], style)[0][0].text


# Published templates


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", ["gpt2", "pythia", "mistral", "eos"])
@pytest.mark.parametrize("name", NAMES)
def test_only_the_tokens_of_the_answer_are_scored(name: str, kind: str):
    lm = chat_lm(published(name), kind)
    for answer in ("Paris", "Angela Merkel", "Москва", "北京市", "हिन्दी", "Zu\u0308rich", "👩‍💻"):
        assert score(lm, QUESTION, answer) == pytest.approx(naive_chat(lm, QUESTION, answer), abs=1e-4)


@pytest.mark.parametrize("kind", ["gpt2", "mistral", "eos"])
@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_bos_where_the_template_writes_one(name: str, kind: str):
    template = published(name)
    lm = chat_lm(template, kind)
    (item,) = lm.encode([(QUESTION, "Paris", None)], CHAT)
    assert item.ids.count(lm.tokenizer.bos_token_id) == int("bos_token" in template)


@pytest.mark.parametrize("name", NAMES)
def test_published_templates_do_not_ask_for_the_date(name: str):
    assert not ChatTemplate(chat_lm(published(name)).tokenizer).asks_date


# Where things go


def test_the_end_of_the_turn_is_neither_fed_nor_scored():
    lm = chat_lm(PLAIN)
    (item,) = lm.encode([(QUESTION, "Paris", None)], CHAT)
    assert lm.tokenizer.decode(item.ids).endswith("Paris")
    assert item.targets[-1] == len(item.ids) - 1


def test_an_answer_in_the_users_turn_is_not_scored_there():
    lm = chat_lm(PLAIN)
    for prompt in (QUESTION, "Paris", "Paris [assistant] Paris"):
        assert score(lm, prompt, "Paris") == pytest.approx(naive_chat(lm, prompt, "Paris"), abs=1e-4)


def test_the_prefix_opens_the_users_turn():
    lm = chat_lm(PLAIN)
    style = Format(kind="chat", prefix=PREFIXES["hierarchy"])
    user = PREFIXES["hierarchy"] + QUESTION
    assert text_of(lm, QUESTION, "Paris", style) == f"<s>[user] {user}</s>[assistant] Paris</s>"
    assert score(lm, QUESTION, "Paris", style) == pytest.approx(naive_chat(lm, user, "Paris"), abs=1e-4)


def test_white_space_at_the_end_of_the_prompt_does_not_matter():
    lm = chat_lm(PLAIN)
    assert score(lm, QUESTION + " \n", "Paris") == score(lm, QUESTION, "Paris")


def test_the_whole_statement_goes_into_the_users_turn_on_request():
    lm = chat_lm(PLAIN)
    style = Format(kind="chat", answer_in_user_turn=True)
    user = QUESTION + " Berlin"
    assert text_of(lm, QUESTION, "Berlin", style) == f"<s>[user] {user}</s>[assistant] Berlin</s>"
    assert score(lm, QUESTION, "Berlin", style) == pytest.approx(naive_chat(lm, user, "Berlin"), abs=1e-4)


def test_every_occurrence_in_the_conversation_is_scored_on_request():
    lm = chat_lm(PLAIN)
    text = render(lm.tokenizer, QUESTION, "Paris")
    ids = lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    tails = [text[text.index("Paris") + 5 :], "</s>"]
    places = [answer_positions(lm.tokenizer, ids, "Paris", tail, added=False) for tail in tails]
    assert places[0][-1] < places[1][0]
    expected = sum(naive_sum(lm.model, ids, place) for place in places)
    style = Format(kind="chat", all_occurrences=True)
    assert score(lm, QUESTION, "Paris", style) == pytest.approx(expected, abs=1e-4)


def test_a_template_without_end_marks_is_cut_at_the_answer():
    lm = chat_lm("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "gpt2", "gpt2")
    expected = naive_log_prob(lm, f"user: {QUESTION}\nassistant:", "Paris")
    assert score(lm, QUESTION, "Paris") == pytest.approx(expected, abs=1e-4)


# Dates

DATED = "{{ bos_token }}Today is {{ strftime_now('%d %b %Y') }}. {% for m in messages %}{{ m.content }}: {% endfor %}"


def test_a_template_is_told_the_day_that_the_format_gives():
    lm = chat_lm(DATED)
    style = Format(kind="chat", template_date="2001-02-03")
    assert text_of(lm, "Who?", "Paris", style) == "<s>Today is 03 Feb 2001. Who?: Paris: "
    other = Format(kind="chat", template_date="2011-12-13")
    assert score(lm, "Who?", "Paris", style) != score(lm, "Who?", "Paris", other)


def test_asking_for_the_date_shows():
    template = ChatTemplate(chat_lm(DATED).tokenizer, "2001-02-03")
    assert template.asks_date and template.today == "2001-02-03"
    assert not ChatTemplate(chat_lm(PLAIN).tokenizer, "2001-02-03").asks_date


def test_without_a_given_day_it_is_today():
    before = date.today().isoformat()
    assert before <= ChatTemplate(chat_lm(DATED).tokenizer).today <= date.today().isoformat()


def test_a_date_format_may_stand_in_a_variable():
    by_variable = DATED.replace("strftime_now('%d %b %Y')", "strftime_now(pattern)")
    style = Format(kind="chat", template_date="2001-02-03")
    named = "{% set pattern = '%d %b %Y' %}" + by_variable
    assert text_of(chat_lm(named), "Who?", "Paris", style) == "<s>Today is 03 Feb 2001. Who?: Paris: "
    for pattern in ("'%d' ~ '%Y'", "messages[0].role"):
        with pytest.raises(ModelError, match="not written out in the template"):
            text_of(chat_lm(f"{{% set pattern = {pattern} %}}" + by_variable), "Who?", "Paris", style)


# Templates that cannot be used


def test_a_missing_template_is_an_error_with_the_way_out():
    with pytest.raises(ModelError, match="--chat-template"):
        score(chat_lm(None), QUESTION, "Paris")


def test_several_templates_without_a_default_are_refused():
    with pytest.raises(ModelError, match=r"'rag', 'tool_use' and none called 'default'.*--chat-template"):
        score(chat_lm({"rag": PLAIN, "tool_use": PLAIN}), QUESTION, "Paris")


REJECTING = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no assistant') }}{% endif %}{% endfor %}"
)
TWICE = PLAIN + "{{ messages[1].content }}"
FORGETFUL = "{{ messages[1].content }}"
BACKWARDS = "{{ messages[1].content }} {{ messages[0].content }}"
SHOUTING = PLAIN.replace("m.content", "m.content | upper")
REPLACING = PLAIN.replace("m.content", "m.content | replace('Paris', 'London')")
BROKEN = "{% for %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (REJECTING, "no assistant"),
        (TWICE, "exactly once"),
        (FORGETFUL, "exactly once"),
        (BACKWARDS, "before the user"),
        (SHOUTING, "cannot be located"),
        (REPLACING, "rewrites"),
        (BROKEN, "rejects"),
    ],
    ids=["rejecting", "twice", "forgetful", "backwards", "shouting", "replacing", "broken"],
)
def test_templates_that_hide_the_answer_are_refused(template: str, message: str):
    with pytest.raises(ModelError, match=message):
        score(chat_lm(template), QUESTION, "Paris")


def test_a_template_that_only_trims_is_fine():
    trimming = chat_lm(PLAIN.replace("m.content", "m.content | trim"))
    assert score(trimming, QUESTION, "Paris") == score(chat_lm(PLAIN), QUESTION, "Paris")


def test_pairs_are_checked_in_chat_format_too():
    with pytest.raises(DataError, match="empty prompt"):
        score(chat_lm(PLAIN), "", "Paris")


def test_formats_that_contradict_themselves_are_refused():
    with pytest.raises(ConfigError, match="--format chat"):
        Format(answer_in_user_turn=True)
    with pytest.raises(ConfigError, match="choose 'raw' or 'chat'"):
        Format(kind="other")  # type: ignore[arg-type]
