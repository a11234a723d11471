"""Texts that a model writes: exactly as many tokens as asked for, greedily or sampled.

Also answers that a model writes of its own accord, greedily, up to where it ends them itself, and how updates are put
to a model, raw or in its chat template.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

import torch
import transformers
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from anachron.core.errors import ConfigError
from anachron.lm.batches import successive
from anachron.lm.formats import TARGETS, ChatTemplate, Format, before, in_force, openings
from anachron.lm.prefix_tree import common
from anachron.lm.temporary import attribute
from anachron.lm.windows import changing_length, nearest_end

Over = Callable[[list[int]], bool]
TOGETHER = 16_384  # tokens, read and written, padding included, that are computed together
SHARED = 64  # tokens that texts have in common at their beginning from which on these are read once
WORTH = 8  # texts from which on that saves more than the trial whether it is harmless takes
STEP = 32  # tokens that can be read in the time that a step of writing takes at least, however few texts it is of
ALIKE = 1e-3  # largest change of a logit by padding, as a share of their spread, that is taken for rounding


def continued(
    model: Any, ids: torch.Tensor, new_tokens: int, mask: torch.Tensor | None = None, *, over: Over | None = None,
    past: DynamicCache | None = None, **how: Any,
) -> Any:  # fmt: skip
    """Token ids (texts, length) continued to (texts, length + new_tokens): an end-of-text token is not the end.

    over: whether the new tokens of a text are enough; where those of all texts have been, fewer are written.
    past: keys and values of the first tokens of each text, which are then not computed again.
    mask: (texts, length), 0 for padding on the left. Settings of the checkpoint for generation (temperature, penalties)
    are not used; ``how`` goes to transformers, which would fill in from them what is not given: the end-of-text token,
    and a penalty of repetition.
    """
    plain = transformers.GenerationConfig(
        max_new_tokens=new_tokens, min_new_tokens=new_tokens, pad_token_id=0, eos_token_id=None, use_cache=True,
        **({"do_sample": False} | how),
    )  # fmt: skip
    mask = torch.ones_like(ids) if mask is None else mask
    with torch.inference_mode(), attribute(model, "generation_config", transformers.GenerationConfig()):
        criteria = None if over is None else [_ends_all(ids.shape[1], over)]
        given = {} if past is None else {"past_key_values": past}
        return model.generate(ids, attention_mask=mask, generation_config=plain, stopping_criteria=criteria, **given)


def start_of_text(tokenizer: Any) -> int:
    """The token that a text is sampled from. Raises `ConfigError` for a tokenizer without one."""
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ConfigError("the tokenizer has neither a start- nor an end-of-text token to sample from; give contexts")


def _ends_all(start: int, over: Over) -> Callable[..., torch.Tensor]:
    """A criterion of transformers: which texts are over, by their tokens from ``start`` on, (texts,)."""

    def stop(ids: torch.Tensor, _: Any, **__: Any) -> torch.Tensor:
        return torch.tensor([over(row) for row in ids[:, start:].tolist()], device=ids.device)

    return stop


def greedy_texts(lm: Any, prompts: Sequence[str], length: int, *, count_prefix: bool = False) -> list[str]:
    """What a model writes behind each prompt, greedily, until prompt and text have ``length`` tokens together.

    The prompt is not part of the text, special tokens neither; a prompt of that length already has the text "". The
    prefix and passages of an edit in force are read, and not counted unless ``count_prefix`` says so. All prompts are
    computed together, padded on the left, unless that changes the logits of the first new token by more than rounding;
    then those of equal length are.
    """
    openers = before(lm.tokenizer, prompts, in_force(lm, Format())) if count_prefix else [""] * len(prompts)
    counted = _tokens(lm.tokenizer, [opener + prompt for opener, prompt in zip(openers, prompts, strict=True)])
    given = opened(lm, prompts) if lm.prefix or lm.passages or lm.style.kind == "chat" else counted
    rows = written(lm, given, [length - len(ids) for ids in counted])
    return [lm.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in rows]


def greedy_continuations(lm: Any, prompts: Sequence[str], new_tokens: int | Sequence[int]) -> list[str]:
    """The next ``new_tokens`` (of each prompt, where they are several) that a model writes behind each prompt,
    greedily, up to an end-of-text token; in a chat up to the end of its turn.

    Fewer where the context is full. Prefix, special tokens and batches are as in `greedy_texts`.
    """
    ends = ends_of(lm) if lm.style.kind == "chat" else {lm.tokenizer.eos_token_id}
    wanted = [new_tokens] * len(prompts) if isinstance(new_tokens, int) else new_tokens
    rows = written(lm, opened(lm, prompts), wanted)
    kept = [list(takewhile(lambda token: token not in ends, tokens)) for tokens in rows]
    return [lm.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in kept]


def opened(lm: Any, prompts: Sequence[str]) -> list[list[int]]:
    """Tokens that the model goes on from to answer each prompt, in its style and behind the prefix of an edit."""
    texts, special = openings(lm.tokenizer, prompts, in_force(lm, lm.style))
    return _tokens(lm.tokenizer, texts, special)


def written(lm: Any, given: Sequence[list[int]], wanted: Sequence[int], *, over: Over | None = None) -> list[list[int]]:
    """Tokens that the model writes behind each row of tokens, as many as wanted while its context has room.

    over: whether what was written in a row is enough; those that are computed together go on until all of it is.
    """
    if lm.context_length is not None:
        wanted = [min(new, lm.context_length - len(ids)) for new, ids in zip(wanted, given, strict=True)]
    writing = [i for i, new in enumerate(wanted) if new > 0]
    groups = [writing] if _together(lm, given, wanted, writing) else _by_length(given, writing)
    new_tokens: list[list[int]] = [[] for _ in given]
    for group in groups:
        room = max(wanted[i] for i in group)
        rows = [given[i] for i in group]
        padded = not _outside_window(lm, max(map(len, rows)) + room)
        shared = _read_once(lm, rows, room, padded)
        for some in [group] if padded or not shared else _by_length(given, group):
            for part in successive([len(given[i]) + room for i in some], TOGETHER):
                together = some[part]
                new = max(wanted[i] for i in together)
                texts = _continuations(lm, [given[i] for i in together], shared, new, over)
                for i, tokens in zip(together, texts, strict=True):
                    new_tokens[i] = tokens[: wanted[i]]
    return new_tokens


def _continuations(lm: Any, rows: Sequence[list[int]], shared: int, new: int, over: Over | None) -> list[list[int]]:
    """New tokens of rows that are computed together, of which the first ``shared`` are the same and read once."""
    ids, mask = _padded(lm, rows, shared)
    past = _read(lm, rows[0][:shared], len(rows)) if shared else None
    written: list[list[int]] = continued(lm.model, ids, new, mask, over=over, past=past)[:, ids.shape[1] :].tolist()
    return written


def _outside_window(lm: Any, longest: int) -> bool:
    """Whether texts are longer than what a layer sees: padding behind what they share would push that out of sight."""
    seen = nearest_end(lm.model)
    return seen is not None and longest > seen


def _read_once(lm: Any, rows: Sequence[list[int]], room: int, padded: bool) -> int:
    """How many tokens that all rows begin with, such as the sentences of an edit, are computed once for those that are
    continued together by up to ``room`` tokens, all of them or, unless ``padded``, those of equal length; 0 where that
    saves little, or the first logits would not stay the same."""
    shared = common(min(rows), max(rows))  # in the order of tokens all others lie between these two
    shared = min(shared, *(len(row) - 1 for row in rows))  # without the last token of any
    # a memory looks for where a prompt ends
    if shared < SHARED or len(rows) < WORTH or lm.memories:
        return 0
    groups = 1 if padded else len({len(row) for row in rows})
    if (len(rows) - groups) * shared < (groups - 1) * room * STEP:
        return 0
    return shared if _sharing_is_harmless(lm, rows, shared, padded) else 0


def _read(lm: Any, tokens: list[int], texts: int) -> DynamicCache | None:
    """Keys and values of tokens that so many texts begin with; None of a model that keeps others or more."""
    last = {"logits_to_keep": 1} if lm.model._supports_logits_to_keep() else {}  # a large vocabulary's take memory
    with torch.inference_mode():
        output = lm.model(torch.tensor([tokens], device=lm.device), use_cache=True, **last)
    past = getattr(output, "past_key_values", None)
    if not isinstance(past, DynamicCache):
        return None
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in past.layers):
        return None
    past.batch_repeat_interleave(texts)
    return past


def _sharing_is_harmless(lm: Any, rows: Sequence[list[int]], shared: int, padded: bool) -> bool:
    """Whether the first logits of the shortest and the longest row are the same behind what was read once; the two
    padded to one length, or each by itself."""
    some = [min(rows, key=len), max(rows, key=len)]
    logits: list[torch.Tensor] = []
    for part in [some] if padded else [[row] for row in some]:
        if (past := _read(lm, some[0][:shared], len(part))) is None:
            return False
        logits += _first_logits(lm, *_padded(lm, part, shared), past)
    alone = [_first_logits(lm, *_padded(lm, [row]))[0] for row in some]
    return all(_alike(one, other) for one, other in zip(alone, logits, strict=True))


def _together(lm: Any, given: Sequence[list[int]], wanted: Sequence[int], members: Sequence[int]) -> bool:
    """Whether prompts can be continued in one batch: all get as many tokens as the one that is to get most."""
    if not members:
        return False
    longest = max(len(given[i]) for i in members) + max(wanted[i] for i in members)
    fits = lm.context_length is None or longest <= lm.context_length
    change = changing_length(lm.model)  # a longer text in a batch changes the positions of shorter ones
    if change is not None and longest > change >= min(len(given[i]) for i in members):
        return False
    return fits and _padding_is_harmless(lm, [given[i] for i in members])


def _by_length(given: Sequence[list[int]], members: Sequence[int]) -> list[list[int]]:
    sizes = sorted({len(given[i]) for i in members})
    return [[i for i in members if len(given[i]) == size] for size in sizes]


def _padded(lm: Any, given: Sequence[list[int]], shared: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids padded on the left, behind those that are shared, and the mask, 0 for padding: (texts, width) each."""
    width = max(map(len, given))
    gaps = [width - len(ids) for ids in given]
    ids = [ids[:shared] + [ids[0]] * gap + ids[shared:] for ids, gap in zip(given, gaps, strict=True)]
    mask = [[1] * shared + [0] * gap + [1] * (width - gap - shared) for gap in gaps]
    return torch.tensor(ids, device=lm.device), torch.tensor(mask, device=lm.device)


def _first_logits(lm: Any, ids: torch.Tensor, mask: torch.Tensor, past: DynamicCache | None = None) -> torch.Tensor:
    """Logits of the first new token of each text, (texts, vocabulary)."""
    how: dict[str, Any] = {"return_dict_in_generate": True, "output_logits": True}
    first: torch.Tensor = continued(lm.model, ids, 1, mask, past=past, **how).logits[0].float()
    return first


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether logits differ by no more than rounding."""
    spread = (one - one.mean()).abs().max()
    return bool((one - other).abs().max() <= ALIKE * spread)


def _padding_is_harmless(lm: Any, given: Sequence[list[int]]) -> bool:
    """Whether the model's first logits are the same with padding on the left as without, up to rounding."""
    shortest = min(given, key=len)
    longest = max(given, key=len)
    if len(shortest) == len(longest):
        return True
    alone, padded = (_first_logits(lm, *_padded(lm, rows))[0] for rows in ([shortest], [shortest, longest]))
    return _alike(alone, padded)


def _tokens(tokenizer: Any, texts: Sequence[str], special: bool = True) -> list[list[int]]:
    """Tokens without an end-of-text token that the tokenizer puts behind every text: the model is to go on.

    special: whether it adds special tokens at all; a chat template has its own.
    """
    how = {"truncation": False, "padding": False, "add_special_tokens": special}
    rows = tokenizer(list(texts), **how)["input_ids"] if texts else []
    if not special:
        return list(rows)
    return [ids[:-1] if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id else ids for ids in rows]


LINE = re.compile(r"[\n\r]")


class WrittenAnswer(NamedTuple):
    """What a model wrote, without special tokens and the space around it.

    stopped: whether it ended by itself. read, wrote: tokens of the prompt with all of the model's template, and of the
    answer with the one that ends it, as servers count them.
    """

    text: str
    stopped: bool
    read: int
    wrote: int


def natural_answers(
    lm: Any,
    prompts: Sequence[str],
    most_tokens: int,
    sentence_end: Callable[[str], int | None] = lambda text: None,
    kept: Collection[str] = (),
    goes_on: Callable[[str], bool] = lambda text: False,
) -> list[WrittenAnswer]:
    """What a model answers each prompt, given nothing but the prompt, in at most so many tokens.

    In a chat an answer ends where the model ends its turn. Raw text ends at the end-of-text token, at the first line
    break behind a word (``goes_on`` says of a text that it goes on after one), and where ``sentence_end`` sees an end
    in the text so far: a base model goes on with other questions and facts. One that is ended by ``most_tokens``, or by
    the model's context, has not stopped. Prefix and batches are as in `anachron.lm.generation.greedy_texts`.

    kept: special tokens that stay in the text, such as the marks around a model's reasoning.
    """
    ends, raw = ends_of(lm), lm.style.kind == "raw"
    added = lm.tokenizer.added_tokens_decoder  # id -> token, the special ones and others
    dropped = {*lm.tokenizer.all_special_ids, *(token for token, one in added.items() if one.special)}
    dropped -= {token for token, one in added.items() if one.content in kept}

    def cut(tokens: Sequence[int]) -> tuple[str, bool]:
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        text = lm.tokenizer.decode([token for token in tokens[:end] if token not in dropped]).lstrip()
        if raw:
            line = next((one for one in LINE.finditer(text) if not goes_on(text[: one.start()])), None)
            within = text if line is None else text[: line.start()]
            place = sentence_end(within)
            if place is not None or line is not None:
                return within[:place].rstrip(), True
        return text.rstrip(), end is not None

    def stopped(tokens: Sequence[int]) -> bool:
        return cut(tokens)[1]

    given = opened(lm, prompts)
    rows = written(lm, given, [most_tokens] * len(prompts), over=stopped)
    wrote = [next((n for n in range(1, len(row)) if stopped(row[:n])), len(row)) for row in rows]
    return [WrittenAnswer(*cut(row), len(ids), n) for row, ids, n in zip(rows, given, wrote, strict=True)]


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
