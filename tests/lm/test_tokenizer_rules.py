"""Texts are cut by the tokenizer.json of a model's folder, whatever its class in transformers makes of it.

What is compared with is `tokenizers.Tokenizer.from_file`, which knows nothing of classes and settings.
"""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import anachron
from anachron.core.errors import ModelError
from anachron.lm.identity import tokenizer_fingerprint
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.tokenizers import load_tokenizer
from support.tiny_models import LATIN, OTHER_SCRIPTS, make_model, make_tokenizer, naive_sum

TEXTS = [
    "In 1990, on 12 March 2004 (2004-03-12), 650841823 people were there.",
    "  Two spaces,\ttabs\n\nand lines: 3.14, 1,234 I'll DON'T e.g. HTMLParser",
    "Cafe\u0301 ﬁve ½ São Paulo Москва 1998 北京是1949年 القاهرة ١٩٩٨ 👩‍💻",
]
MARKS = ["<unk>", "<s>", "</s>"]
BY_THREE = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def pieces(pattern: str) -> Any:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])


# How published byte-level tokenizers cut words
WORDS: dict[str, Any] = {
    "gpt2": lambda: (None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "three digits": lambda: (None, pieces(BY_THREE)),  # Llama 3, OLMo 2
    "each digit": lambda: (
        None,
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        ),
    ),  # DeepSeek's first ones, SmolLM
    "nfc": lambda: (normalizers.NFC(), pieces(BY_THREE)),
    "nfkc": lambda: (normalizers.NFKC(), pre_tokenizers.ByteLevel(add_prefix_space=True)),
}
# (type of the model, class that its settings name, how its file cuts words)
BYTE_LEVEL = [
    ("gpt2", "GPT2Tokenizer", "gpt2"),
    ("gpt2", "GPT2TokenizerFast", "nfkc"),
    ("olmo2", "GPT2Tokenizer", "three digits"),
    ("gpt_neox", "GPTNeoXTokenizerFast", "each digit"),
    ("olmo", "GPTNeoXTokenizer", "three digits"),
    ("qwen2", "Qwen2Tokenizer", "three digits"),
    ("qwen2", "LlamaTokenizerFast", "each digit"),  # DeepSeek-R1-Distill-Qwen
    ("qwen2", "PreTrainedTokenizerFast", "gpt2"),
    ("llama", "LlamaTokenizerFast", "three digits"),  # DeepSeek-R1-Distill-Llama
    ("llama", "LlamaTokenizer", "nfc"),
    ("llama", "CodeLlamaTokenizerFast", "gpt2"),
    ("mistral", "GPTNeoXTokenizerFast", "nfc"),
    ("cohere", "CohereTokenizerFast", "each digit"),
    ("gemma", "GemmaTokenizer", "gpt2"),
    ("phi3", "LlamaTokenizer", "gpt2"),
    ("llama", None, "three digits"),
]
SENTENCEPIECE = [
    (normalizer, scheme, split)
    for normalizer in ("none", "Prepend", "NFKC")
    for scheme in ("always", "first", "never")
    for split in (True, False)
]


@functools.cache
def _learned() -> str:
    """A vocabulary with pieces of years, dates and numbers, which rules of all kinds cut differently."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=MARKS[1:], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(TEXTS * 5 + LATIN + OTHER_SCRIPTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return str(tokenizer.to_str())


def byte_level(words: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(_learned())
    tokenizer.normalizer, tokenizer.pre_tokenizer = WORDS[words]()
    return tokenizer


def sentencepiece(normalizer: str, scheme: Any, split: bool) -> Tokenizer:
    tokenizer = make_tokenizer("mistral").backend_tokenizer
    prepended = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = {
        "none": None, "Prepend": normalizers.Sequence(prepended), "NFKC": normalizers.NFKC()
    }[normalizer]  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    return tokenizer


def folder_of(
    path: Path, tokenizer: Tokenizer, model_type: str, kind: str | None, **settings: Any
) -> Path:  # fmt: skip
    """A model's folder without weights: what a tokenizer is loaded from."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({"model_type": model_type}), "utf-8")
    tokenizer.save(str(path / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": kind}
    named = {name: value for name, value in (named | settings).items() if value is not None}
    (path / "tokenizer_config.json").write_text(json.dumps(named), "utf-8")
    return path


def check(folder: Path) -> Any:
    """Tokens, and the parts of the definition that cut texts, are those of the file."""
    used = load_tokenizer(str(folder))
    file = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in TEXTS:
        assert used(text)["input_ids"] == file.encode(text).ids, text
        assert used(text, return_offsets_mapping=True)["offset_mapping"] == file.encode(text).offsets
        assert used.decode(used(text)["input_ids"]) == file.decode(file.encode(text).ids, skip_special_tokens=False)
    one, other = (json.loads(t.to_str()) for t in (used.backend_tokenizer, file))
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"):
        assert one[part] == other[part], part
    assert {k: v or None for k, v in one["model"].items()} == {k: v or None for k, v in other["model"].items()}
    return used


@pytest.mark.parametrize("model_type, kind, words", BYTE_LEVEL)
def test_byte_level_files_are_kept_to(model_type: str, kind: str | None, words: str, tmp_path: Path):
    check(folder_of(tmp_path, byte_level(words), model_type, kind))


@pytest.mark.few(12)
@pytest.mark.parametrize("kind", ["LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer", "CodeLlamaTokenizerFast"])
@pytest.mark.parametrize("normalizer, scheme, split", SENTENCEPIECE)
def test_sentencepiece_files_are_kept_to(normalizer: str, scheme: str, split: bool, kind: str, tmp_path: Path):
    tokenizer = sentencepiece(normalizer, scheme, split)
    check(folder_of(tmp_path, tokenizer, "llama", kind, unk_token="<unk>"))


@pytest.mark.parametrize("kind", ["PreTrainedTokenizerFast", "LlamaTokenizerFast", "GPT2Tokenizer", "NoSuchTokenizer"])
@pytest.mark.parametrize("model", ["Unigram", "WordPiece", "WordLevel"])
def test_other_models_of_tokens_are_kept_to(model: str, kind: str, tmp_path: Path):
    unknown = {"unk_token": "<unk>"}
    of_model = getattr(models, model)(**({} if model == "Unigram" else unknown))
    given = {"vocab_size": 300, "special_tokens": [*MARKS], "show_progress": False}
    trainer = getattr(trainers, f"{model}Trainer")(**given, **(unknown if model == "Unigram" else {}))
    tokenizer = Tokenizer(of_model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.train_from_iterator(LATIN + OTHER_SCRIPTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    check(folder_of(tmp_path, tokenizer, "llama", kind, unk_token="<unk>"))


@pytest.mark.parametrize(
    "family, kind, tokenizer",
    [
        ("llama", "GPT2Tokenizer", byte_level("three digits")),
        ("llama", "Qwen2Tokenizer", byte_level("gpt2")),
        ("neox", "GPTNeoXTokenizerFast", byte_level("each digit")),
        ("llama", "LlamaTokenizerFast", sentencepiece("NFKC", "never", False)),
    ],
)
def test_scores_and_identity_are_those_of_the_file(family: str, kind: str, tokenizer: Tokenizer, tmp_path: Path):
    model = make_model(family)
    folder = folder_of(tmp_path / "model", tokenizer, "any", kind)
    model.save_pretrained(folder)
    lm = load_model(str(folder))
    pairs = [("In 1990, who was the president of", "France"), ("Москва 1.9.1998", "2004-03-12")]
    for (prompt, answer), found in zip(pairs, lm.log_probs(pairs), strict=True):
        text = tokenizer.encode(f"{prompt} {answer}")
        first = len(f"{prompt} ")
        places = [place for place, (start, end) in enumerate(text.offsets) if end > max(first, start)]
        assert found == pytest.approx(naive_sum(model, text.ids, places), abs=1e-4)

    anachron.save_model(lm, tmp_path / "saved")
    check(tmp_path / "saved")
    saved = load_model(str(tmp_path / "saved"))
    assert saved.fingerprint() == lm.fingerprint()
    assert tokenizer_fingerprint(saved.tokenizer) == tokenizer_fingerprint(lm.tokenizer)
    assert np.array_equal(saved.log_probs(pairs), lm.log_probs(pairs))


def test_a_fingerprint_holds_what_cuts_the_texts(tmp_path: Path):
    prints = set()
    for words in WORDS:
        folder = folder_of(tmp_path / words, byte_level(words), "gpt2", None)
        prints.add(tokenizer_fingerprint(load_tokenizer(str(folder))))
    assert len(prints) == len(WORDS)


@pytest.mark.few(15)
@pytest.mark.parametrize("kind", ["LlamaTokenizerFast", "GPTNeoXTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("of_file", ["$A", "<s> $A", "$A </s>"])
@pytest.mark.parametrize("bos", [None, True, False])
@pytest.mark.parametrize("eos", [None, True, False])
def test_the_settings_say_which_tokens_stand_around_a_text(
    kind: str, of_file: str, bos: bool | None, eos: bool | None, tmp_path: Path
):
    """For classes that have always read these two settings; where they say nothing, and for others, the file's."""
    tokenizer = byte_level("three digits")
    tokenizer.post_processor = processors.TemplateProcessing(single=of_file, special_tokens=[("<s>", 0), ("</s>", 1)])
    folder = folder_of(tmp_path, tokenizer, "llama", kind, add_bos_token=bos, add_eos_token=eos)
    first, last = of_file.startswith("<s>"), of_file.endswith("</s>")
    if kind != "PreTrainedTokenizerFast":
        first, last = first if bos is None else bos, last if eos is None else eos
    used = load_tokenizer(str(folder))
    bare = tokenizer.encode(TEXTS[0], add_special_tokens=False).ids
    assert used(TEXTS[0])["input_ids"] == [0] * first + bare + [1] * last
    assert used(TEXTS[0], add_special_tokens=False)["input_ids"] == bare


@pytest.mark.parametrize("kind", ["GPT2Tokenizer", "LlamaTokenizer", "PreTrainedTokenizerFast"])
def test_the_file_says_whether_a_space_is_put_before_a_text(kind: str, tmp_path: Path):
    for of_file, of_settings in ((True, False), (False, True)):
        tokenizer = byte_level("gpt2")
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=of_file)
        check(folder_of(tmp_path, tokenizer, "gpt2", kind, add_prefix_space=of_settings))


def test_special_tokens_and_templates_come_from_the_settings(tmp_path: Path):
    tokenizer = byte_level("three digits")
    tokenizer.add_special_tokens(["<a:b c>", "<pad>"])
    folder = folder_of(
        tmp_path, tokenizer, "qwen2", "LlamaTokenizerFast", bos_token={"content": "<a:b c>", "__type": "AddedToken"},
        pad_token="<pad>", add_bos_token=True, additional_special_tokens=["<x>"],
        chat_template="{{ messages[0].content }}!",
    )  # fmt: skip
    used = load_tokenizer(str(folder))
    assert (used.bos_token, used.eos_token, used.pad_token) == ("<a:b c>", "</s>", "<pad>")
    ids = used("1990<x>")["input_ids"]
    assert used.convert_ids_to_tokens(ids) == ["<a:b c>", "<s>", *tokenizer.encode("1990").tokens[1:], "<x>"]
    assert used.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi!"
    assert load_tokenizer(str(folder), chat_template="x").chat_template == "x"


def test_no_token_is_added_that_neither_file_nor_settings_have(tmp_path: Path):
    """Qwen2's class names <|endoftext|>, CodeLlama's <FILL_ME>: in these texts they are letters."""
    for kind in ("Qwen2Tokenizer", "CodeLlamaTokenizerFast", "GPTNeoXTokenizerFast"):
        tokenizer = byte_level("gpt2")
        used = load_tokenizer(str(folder_of(tmp_path, tokenizer, "llama", kind)))
        assert len(used) == tokenizer.get_vocab_size()
        assert used("a<|endoftext|> <FILL_ME>")["input_ids"] == tokenizer.encode("a<|endoftext|> <FILL_ME>").ids


def test_a_file_whose_rules_break_is_refused_in_one_line(tmp_path: Path):
    tokenizer = Tokenizer(models.BPE({"a": 0, "<s>": 1}, [], unk_token="<unk>"))
    with pytest.raises(ModelError, match=r"cannot load a tokenizer from .*: Unk token `<unk>` not found"):
        load_tokenizer(str(folder_of(tmp_path, tokenizer, "llama", "LlamaTokenizer")))


def test_a_tokenizer_that_breaks_on_a_text_is_told_in_one_line():
    broken = Tokenizer(models.BPE({"a": 0}, [], unk_token="<unk>"))
    lm = LanguageModel(make_model("gpt2"), PreTrainedTokenizerFast(tokenizer_object=broken), "tiny")
    with pytest.raises(ModelError, match="the tokenizer cannot cut texts: Unk token `<unk>` not found"):
        lm.log_probs([("In", "1990")])


@pytest.mark.full
def test_rules_that_transformers_changes_in_any_way_are_refused(tmp_path: Path):
    """Where the settings ask for it, transformers puts another pattern into large vocabularies of Mistral's models."""
    tokenizer = Tokenizer(models.BPE({"<s>": 0, "</s>": 1} | {f"t{n}": n + 2 for n in range(100_100)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    folder = folder_of(tmp_path, tokenizer, "mistral", "PreTrainedTokenizerFast", fix_mistral_regex=True)
    with pytest.raises(ModelError, match=r"changes the rules of its tokenizer.json \(pre_tokenizer\)") as caught:
        load_tokenizer(str(folder))
    assert "\n" not in str(caught.value)


def test_what_is_used_is_told_where_the_class_would_cut_otherwise(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    load_tokenizer(str(folder_of(tmp_path, byte_level("each digit"), "gpt2", "GPT2Tokenizer")))
    assert "its texts are cut as its tokenizer.json says; transformers' GPT2Tokenizer has another" in caplog.text
    caplog.clear()
    load_tokenizer(str(folder_of(tmp_path, byte_level("gpt2"), "gpt2", "GPT2Tokenizer")))
    assert not caplog.records


@pytest.mark.slow
@pytest.mark.full
def test_a_model_saved_by_the_command_keeps_the_rules(tmp_path: Path):
    folder = folder_of(tmp_path / "model", byte_level("three digits"), "any", "GPT2Tokenizer")
    make_model("llama").save_pretrained(folder)
    command = [sys.executable, "-m", "anachron", "save", str(folder), str(tmp_path / "saved")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    check(tmp_path / "saved")
