"""What a model thinks before it answers, told from the answer by the marks that are put around it."""

import re
from collections.abc import Iterable

# Marks around reasoning, as models write them or their servers leave them in the text. The first of a pair may be
# missing, where the prompt held it already, and so may the second, where the answer was cut off.
MARKS = (
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"), ("<reasoning>", "</reasoning>"), ("<seed:think>", "</seed:think>"),
    ("<scratchpad>", "</scratchpad>"), ("[THINK]", "[/THINK]"), ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<|channel>", "<channel|>"),
    ("Here is my thought process:", "Here is my response:"), ("Thinking...\n", "...done thinking."),
)  # fmt: skip
_PAIRS = tuple(tuple(re.compile(re.escape(mark), re.I) for mark in pair) for pair in MARKS)  # in capitals or not
_ANY_MARK = re.compile("|".join(re.escape(mark) for pair in MARKS for mark in pair), re.I)  # most answers have none
# Of a model that writes in channels, only that of its final answer is one; some servers drop the marks between words.
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>(.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)", re.S
)
_BARE_CHANNELS = re.compile(r"\A(?:analysis|commentary)(?P<thought>.*?)assistant\s*final(?P<answer>.*)\Z", re.S)
_ANSWER = re.compile(
    r"</?(?:answer|response|final|final_answer)>|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>", re.I
)
_HTML = (
    r"(?:a|b|blockquote|body|br|center|cite|code|d[dlt]|div|em|font|h[1-6]|hr|html|i|kbd|li|mark|ol|p|pre|q|s|small|span"
    r"|strong|sub|sup|table|tbody|td|th|thead|time|tr|u|ul)"
)
_UNKNOWN = re.compile(
    rf"</?(?!(?i:{_HTML})\b)[A-Za-z][\w:.-]*\s*/?>|<\|[^|<>\n]{{1,40}}\|?>|<[^|<>\n]{{1,40}}\|>|\[/[A-Za-z_ ]+\]"
    r"|[\u25c1\u27e8]/?\w+[\u25b7\u27e9]|\A(?:analysis|commentary)(?=[A-Z])"
)
# By which models end their turn; some servers leave them behind the answer.
_ENDS = re.compile(
    r"(?:\s|</s>|<eos>|<end_of_turn>|<\|(?:eot_id|im_end|end|endoftext|end_of_text|return|END_OF_TURN_TOKEN)\|>)+\Z"
)
# Tokens of these marks that a tokenizer may call special, and that must not be dropped from what a model writes.
TOKENS = frozenset(mark for pair in MARKS for mark in pair if mark[0] in "<[\u25c1") | {
    "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>"
}  # fmt: skip


def split_reasoning(text: str) -> tuple[str, str]:
    """An answer, and the reasoning that a model wrote before it, between any of `MARKS` or in a channel of its own.

    Without the first mark of a pair all up to the second is reasoning, without the second all after the first.
    """
    if "<|channel|>" in text:
        parts = [(name, said.strip()) for name, said in _CHANNEL.findall(text)]
        if parts:
            return "\n".join(said for name, said in parts if name == "final"), _joined(
                said for name, said in parts if name != "final"
            )
    if bare := _BARE_CHANNELS.match(text):
        return bare["answer"].strip(), bare["thought"].strip()
    answer, thoughts = text, []
    for first, second in _PAIRS if _ANY_MARK.search(text) else ():
        answer, more = _split(answer, first, second)
        thoughts.append(more)
    return _ENDS.sub("", _ANSWER.sub("", answer)).strip(), _joined(thoughts)


def has_unknown_marks(answer: str) -> bool:
    """Whether marks stand in an answer (`split_reasoning`) that are none of those known, nor HTML or LaTeX.

    They may be around reasoning, so nothing of such an answer can be relied upon.
    """
    return bool(_UNKNOWN.search(answer))


def _split(text: str, first: re.Pattern[str], second: re.Pattern[str]) -> tuple[str, str]:
    opened = first.search(text)
    before, rest = (text[: opened.start()], text[opened.end() :]) if opened else ("", text)
    closed = second.search(rest)
    if not (opened or closed):
        return text, ""
    thought, after = (rest[: closed.start()], rest[closed.end() :]) if closed else (rest, "")
    answer, more = _split(after, first, second) if closed else ("", "")
    return f"{before}{answer.strip()}", _joined((thought.strip(), more))


def _joined(thoughts: Iterable[str]) -> str:
    return "\n".join(filter(None, thoughts))
