"""That texts are cut by the rules of a model's own tokenizer.json.

transformers 5 makes many tokenizers anew by their class (GPT2, Qwen2, GPTNeoX, Llama, ...) and takes only vocabulary
and merges from the file, so that years are cut as the class has them (its issues 45920, 45488 and 48206). Here the file
says how a text is cut, and tokenizer_config.json which special tokens stand before and behind it.
"""

import json
import logging
from collections.abc import Collection, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import tokenizers
import transformers
from transformers.tokenization_utils_base import get_fast_tokenizer_file
from transformers.utils import cached_file

from anachron.core.errors import ModelError

log = logging.getLogger("anachron")

Json = dict[str, Any]

TOKENIZER, TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
CUTTING = ("normalizer", "pre_tokenizer", "model", "decoder")  # parts of a definition that settings do not change
# Dates, digits, scripts, marks and spaces: what rules of different tokenizers cut differently
PROBE = (
    "In 1990, on 12 March 2004 (2004-03-12, 12.03.2004) 650841823 of 3.14159 % said:\n\n  it's  São Paulo,\tZürich … "
    "A\u030angstro\u0308m ﬁve ½ ² Москва 1.9.1998 г. 北京是1949年 القاهرة ١٩٩٨ दिल्ली 한국 ไทย 👩‍💻 🇫🇷 "
    'x="y"; foo_bar() I\'LL HTMLParser e.g. 1,234.5 '
)
# Classes whose settings add_bos_token and add_eos_token have always gone before what the file says: DeepSeek's models
# were trained behind a BOS that is only in the settings, and OLMo's file puts an EOS behind prompts that they rule out
ASKED_BY_SETTINGS = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "GPTNeoXTokenizer", "CohereTokenizer"}


def by_its_file(tokenizer: Any, name: str, source: str, how: Mapping[str, Any]) -> Any:
    """A tokenizer that transformers loaded, or in its place that of the file where the two have other rules.

    name: of the model, for messages. source: hub name or folder. how: revision and the like, as it was loaded.
    Code that comes with a tokenizer, which runs only on request, may change what it will. Raises `ModelError` where
    transformers does not give the file's rules in any way.
    """
    file = _path(source, how)
    if file is None or not getattr(tokenizer, "is_fast", False) or type(tokenizer).__module__[:12] != "transformers":
        return tokenizer
    own = tokenizers.Tokenizer.from_file(str(file))
    if tokenizer.backend_tokenizer.to_str() != own.to_str():
        wanted, found = _rules(own), _rules(tokenizer.backend_tokenizer)
        if _differing(found, wanted):
            plain = _plain(tokenizer, own, source, how)
            of_plain = _rules(plain.backend_tokenizer)
            if others := _differing(found, of_plain):
                _tell(tokenizer, plain, name, others)
                tokenizer = plain
            if left := [part for part in _differing(of_plain, wanted) if part in CUTTING]:
                raise ModelError(
                    f"{name}: transformers changes the rules of its {TOKENIZER} ({', '.join(left)}); {_WAY_OUT}"
                )
    settings = _settings(source, how)
    kind = (settings.get("tokenizer_class") or type(tokenizer).__name__).removesuffix("Fast")
    processor = _processor(own, tokenizer, settings if kind in ASKED_BY_SETTINGS else {}, name)
    same = _state(processor) == _state(tokenizer.backend_tokenizer.post_processor)
    if not same and (processor or tokenizer.num_special_tokens_to_add()):  # transformers writes one for none
        tokenizer.backend_tokenizer.post_processor = processor
    own.no_truncation()
    own.no_padding()
    own.add_tokens([*tokenizer.added_tokens_decoder.values()])  # those of the settings besides
    if _cut(tokenizer) != own.encode(PROBE, add_special_tokens=False).ids:
        raise ModelError(f"{name}: transformers cuts texts by other rules than its {TOKENIZER}; {_WAY_OUT}")
    return tokenizer


_WAY_OUT = "save the tokenizer again by transformers.PreTrainedTokenizerFast and give that folder with --tokenizer"


def _path(source: str, how: Mapping[str, Any]) -> Path | None:
    versions = _settings(source, how).get("fast_tokenizer_files")
    return found_file(source, get_fast_tokenizer_file(versions) if versions else TOKENIZER, how)


def _settings(source: str, how: Mapping[str, Any]) -> Json:
    file = found_file(source, TOKENIZER_SETTINGS, how)
    return {} if file is None else json.loads(file.read_text("utf-8"))


def found_file(source: str, file: str, how: Mapping[str, Any]) -> Path | None:
    """A file of a folder or of a hub's model; None where there is none."""
    where = {key: how[key] for key in ("revision", "local_files_only") if key in how}
    found = cached_file(source, file, _raise_exceptions_for_missing_entries=False, **where)
    return None if found is None else Path(found)


def _rules(tokenizer: tokenizers.Tokenizer) -> Json:
    """Its definition without what no text depends on; its post-processor is compared by itself."""
    whole = json.loads(tokenizer.to_str())
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):  # an empty one is none
        whole["model"][affix] = whole["model"].get(affix) or None
    return {part: whole[part] for part in (*CUTTING, "added_tokens")}


def _differing(one: Json, other: Json) -> list[str]:
    return [part for part in one if one[part] != other[part]]


def _plain(tokenizer: Any, own: tokenizers.Tokenizer, source: str, how: Mapping[str, Any]) -> Any:
    """The file's tokenizer by the class that takes it as it is, with the tokens that the settings name.

    What the settings do not say is as its class has it: whether spaces are cleaned up, and its special tokens, if they
    are among the file's.
    """
    plain = transformers.PreTrainedTokenizerFast.from_pretrained(source, **how)
    plain.clean_up_tokenization_spaces = tokenizer.clean_up_tokenization_spaces
    known = {token.content for token in own.get_added_tokens_decoder().values()}
    for role, token in tokenizer.special_tokens_map.items():
        if role in tokenizer.SPECIAL_TOKENS_ATTRIBUTES and str(token) in known and getattr(plain, role, None) is None:
            setattr(plain, role, token)
    return plain


def _tell(tokenizer: Any, plain: Any, name: str, parts: Collection[str]) -> None:
    """Say that the file's rules are taken in place of the class's, where a text is cut otherwise by them."""
    wanted = _cut(plain)
    try:
        same = _cut(tokenizer) == wanted
    except Exception:  # noqa: BLE001 - rules that a vocabulary does not fit break on texts, in no class of its own
        same = False
    if not same:
        log.warning(
            "%s: its texts are cut as its %s says; transformers' %s has another %s", name, TOKENIZER,
            type(tokenizer).__name__, ", ".join(parts),
        )  # fmt: skip


def _cut(tokenizer: Any) -> list[int]:
    """The tokens of the probe."""
    return list(tokenizer(PROBE, add_special_tokens=False, verbose=False)["input_ids"])


def _state(processor: Any) -> Any:
    return None if processor is None else json.loads(processor.__getstate__())


def _processor(own: tokenizers.Tokenizer, tokenizer: Any, settings: Json, name: str) -> Any:
    """The file's post-processor; where the settings ask for other tokens around a text, one that puts these there."""
    text = own.encode("1")
    added = [token if mark else "" for token, mark in zip(text.tokens, text.special_tokens_mask, strict=True)]
    given = [list(takewhile(bool, side)) for side in (added, reversed(added))]  # the outermost first
    before = _asked(given[0], tokenizer.bos_token, settings.get("add_bos_token"))
    behind = _asked(given[1], tokenizer.eos_token, settings.get("add_eos_token"))[::-1]
    if [before, behind[::-1]] == given:
        return own.post_processor
    said = [" ".join(tokens) or "nothing" for tokens in (before, behind)]
    log.warning(
        "%s: before a text stands %s and behind it %s, as its %s says and not its %s", name, *said, TOKENIZER_SETTINGS,
        TOKENIZER,
    )  # fmt: skip
    first, last = ([{"SpecialToken": {"id": token, "type_id": 0}} for token in side] for side in (before, behind))
    one, two = ({"Sequence": {"id": letter, "type_id": 0}} for letter in "AB")
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in (*before, *behind)}
    template = {
        "type": "TemplateProcessing",
        "single": [*first, one, *last],
        "pair": [*first, one, two, *last],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]} for token, number in ids.items()},
    }
    state = _state(own.post_processor) or {}
    of_offsets = [part for part in state.get("processors", [state]) if part.get("type") == "ByteLevel"]
    blank = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    blank["post_processor"] = {"type": "Sequence", "processors": [*of_offsets, template]}
    return tokenizers.Tokenizer.from_str(json.dumps(blank)).post_processor


def _asked(tokens: list[str], token: str | None, asked: Any) -> list[str]:
    """Tokens on one side of a text, from the outermost on, with or without one as it is asked for."""
    if token is None or not isinstance(asked, bool) or asked == (token in tokens):
        return tokens
    return [token, *tokens] if asked else [other for other in tokens if other != token]
