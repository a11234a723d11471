"""How updates are put to a model, raw or in its chat template, and where its answers end by themselves."""

from dataclasses import replace
from typing import Any

from anachron.lm.formats import TARGETS, ChatTemplate, Format


def update_style(tokenizer: Any, kind: Any, today: str | None = None) -> Format:
    """The format of edit requests and of the prompts that edits are evaluated by, for `LanguageModel.style`.

    kind: ``raw``, or ``chat`` (user: the prompt, assistant: the answer). today: the day that a template is told is
    today, where it asks for one (ISO); by default this day. Raises `ConfigError` for another kind, `ModelError` for a
    chat template that is missing or cannot be used.
    """
    style = replace(TARGETS, kind=kind)
    if style.kind == "raw":
        return style
    template = ChatTemplate(tokenizer, today)
    template.fill("?", ".")
    return replace(style, template_date=template.today if template.asks_date else None)


def ends_of(lm: Any) -> frozenset[int]:
    """Tokens by which a model says that its text is over.

    The tokenizer's end of text, those of the model's own settings for generation, and in a chat the mark that the
    template puts behind an answer.
    """
    own = lm.model.generation_config.eos_token_id
    ends = {lm.tokenizer.eos_token_id, *(own if isinstance(own, list) else [own])}
    if lm.style.kind == "chat":
        tail = ChatTemplate(lm.tokenizer, lm.style.template_date).tail.lstrip()
        behind = lm.tokenizer(tail, add_special_tokens=False)["input_ids"] if tail else []
        marks = {*lm.tokenizer.all_special_ids, *lm.tokenizer.added_tokens_decoder}
        ends |= {*behind[:1]} & marks
    return frozenset(end for end in ends if end is not None)
