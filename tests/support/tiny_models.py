"""Tiny seeded models and in-memory tokenizers for tests, and a slow, plain way to score to compare with.

The comparison shares nothing with the package: it knows no character offsets, only the bytes that each
token stands for, and it sends one text at a time through the whole model.
"""

import functools
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from anachron.lm.model import LanguageModel

FAMILIES = ("gpt2", "neox", "llama", "mistral", "gemma2")
TOKENIZERS = ("gpt2", "pythia", "mistral", "llama", "eos")
VOCABULARY = 576  # of every tiny model, more than any tiny tokenizer uses
SOFT_CAP = 3.0

LATIN = ["In 1998, who was the president of France? Jacques Chirac. In May 2004, which team did he play for?"] * 8 + [
    "Paris is the capital of France. São Paulo and Zürich are cities. Emmanuel Macron, Angela Merkel, Berlin."
] * 8
OTHER_SCRIPTS = [
    "Кто был президентом России? Москва. 北京是中国的首都。 القاهرة عاصمة مصر. हिन्दी दिल्ली भारत 👩‍💻 🇫🇷",
] * 2


# Models


def make_model(family: str, seed: int = 0, **changes: Any) -> Any:
    """A causal model with random weights, large enough for its scores to depend on every token."""
    heads = {"num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2, "hidden_size": 32}
    shared: dict[str, Any] = {"vocab_size": VOCABULARY, "initializer_range": 0.3, "max_position_embeddings": 512}
    grouped = {**heads, "num_key_value_heads": 2}
    gemma = {"head_dim": 8, "query_pre_attn_scalar": 8, "final_logit_softcapping": SOFT_CAP, "sliding_window": 16}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "gpt2": (transformers.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4}),
        "neox": (transformers.GPTNeoXConfig, heads),
        "llama": (transformers.LlamaConfig, grouped),
        "mistral": (transformers.MistralConfig, {**grouped, "sliding_window": 16}),
        "gemma2": (transformers.Gemma2Config, {**grouped, **gemma}),
    }
    config_class, own = kinds[family]
    config = config_class(**{**shared, **own, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return model.eval()


def make_lm(family: str = "gpt2", tokenizer: str = "gpt2", seed: int = 0, **changes: Any) -> LanguageModel:
    return LanguageModel(make_model(family, seed, **changes), make_tokenizer(tokenizer), f"tiny-{family}")


def save(lm: LanguageModel, folder: Path) -> str:
    """Save model and tokenizer into a folder; returns its name as `load_model` takes it."""
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return str(folder)


# Tokenizers


def make_tokenizer(kind: str, markers: Iterable[str] = ()) -> Any:
    """A new fast tokenizer. ``markers`` become special tokens, as a chat model's turn markers are.

    gpt2: byte-level, no BOS. pythia: byte-level, NFC, offsets without leading spaces. mistral: SentencePiece-like
    with byte fallback, Metaspace and <s>. llama: the same by a Prepend normaliser. eos: mistral with </s> at the end.
    """
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(_definition(kind)),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
    )
    if markers:
        tokenizer.add_special_tokens({"additional_special_tokens": list(markers)})
    assert len(tokenizer) <= VOCABULARY
    return tokenizer


@functools.cache
def _definition(kind: str) -> str:
    makers = {"gpt2": _byte_level, "pythia": _byte_level, "mistral": _sentencepiece, "llama": _sentencepiece}
    return makers.get(kind, _sentencepiece)(kind).to_str()


_SPECIALS = ["<unk>", "<s>", "</s>"]


def _byte_level(kind: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if kind == "pythia":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=kind == "pythia")
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=480, special_tokens=_SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LATIN + OTHER_SCRIPTS, trainer)
    return tokenizer


def _sentencepiece(kind: str) -> tokenizers.Tokenizer:
    """Latin words as pieces, every other script as bytes."""
    raw = tokenizers.Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=230, special_tokens=_SPECIALS, show_progress=False)
    raw.train_from_iterator(LATIN, trainer)
    learned = sorted(raw.get_vocab(), key=raw.get_vocab().__getitem__)[len(_SPECIALS) :]
    pieces = _SPECIALS + [f"<0x{byte:02X}>" for byte in range(256)] + learned
    merges = [(a, b) for a, b in json.loads(raw.to_str())["model"]["merges"]]
    tokenizer = tokenizers.Tokenizer(
        models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.add_special_tokens(_SPECIALS)
    if kind == "llama":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    single = "<s> $A </s>" if kind == "eos" else "<s> $A"
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


# A plain way to score


def _byte_of_letter() -> dict[str, int]:
    """GPT-2's table: which byte each letter of a byte-level token stands for."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


def token_bytes(tokenizer: Any, ids: list[int]) -> list[bytes]:
    """The bytes that each token stands for; an added token stands for its content."""
    added = tokenizer.get_added_vocab()
    byte_level = "ByteLevel" in type(tokenizer.backend_tokenizer.decoder).__name__
    letters = _byte_of_letter()

    def one(piece: str) -> bytes:
        if piece in added:
            return piece.encode()
        if byte_level:
            return bytes(letters[letter] for letter in piece)
        if piece.startswith("<0x") and len(piece) == 6:
            return bytes([int(piece[3:5], 16)])
        return piece.replace("▁", " ").encode()

    return [one(piece) for piece in tokenizer.convert_ids_to_tokens(ids)]


def normal_form(tokenizer: Any, text: str) -> str:
    return unicodedata.normalize("NFC", text) if "NFC" in str(tokenizer.backend_tokenizer.normalizer) else text


def answer_positions(tokenizer: Any, ids: list[int], answer: str, tail: str = "", *, added: bool = True) -> list[int]:
    """Positions of the tokens with a byte of the answer, counting bytes from the end of the text.

    tail: the text after the answer. added: special tokens were added and are not part of the text.
    """
    pieces = token_bytes(tokenizer, ids)
    if added:
        pieces = [b"" if i in tokenizer.all_special_ids else p for i, p in zip(ids, pieces, strict=True)]
    after = len(normal_form(tokenizer, tail).encode())
    wanted = normal_form(tokenizer, answer).encode()
    text = b"".join(pieces)
    assert text[len(text) - after - len(wanted) : len(text) - after] == wanted, "the answer is not where it was put"
    chosen, end = [], 0
    for position in reversed(range(len(pieces))):
        start, end = end, end + len(pieces[position])
        if start < after + len(wanted) and end > max(after, start):
            chosen.append(position)
    return chosen[::-1]


def naive_sum(model: Any, ids: list[int], positions: list[int], *, native: bool = False) -> float:
    """Sum of log-probabilities of the tokens at these positions: one text, all logits."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0]
    table = torch.log_softmax(logits if native else logits.float(), dim=-1)
    return sum(float(table[position - 1, ids[position]]) for position in positions)


def naive_log_prob(lm: LanguageModel, prompt: str, answer: str, separator: str | None = None, **how: bool) -> float:
    """log Pr(answer | prompt) of raw text."""
    if separator is None:
        separator = "" if prompt[-1].isspace() else " "
    ids = lm.tokenizer(prompt + separator + answer)["input_ids"]
    return naive_sum(lm.model, ids, answer_positions(lm.tokenizer, ids, answer), **how)
