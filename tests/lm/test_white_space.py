"""Answers that begin with white space: they are scored as they stand, by the tokens that lm-evaluation-harness scores.

Its rule (`_encode_pair`) is written out here: white space at the end of the context goes to the continuation, whose
tokens are those of the whole text behind as many as the context has by itself.
"""

from typing import Any

import numpy as np
import pytest
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

from anachron.core.errors import DataError
from anachron.lm.formats import Format, as_triple, encode_pairs
from anachron.lm.model import LanguageModel
from support.tiny_models import LATIN, OTHER_SCRIPTS, make_lm, make_model, make_tokenizer, naive_log_prob, naive_sum

PROMPTS = [
    "In",
    "In 1998, who was the president of France?",
    "Question:\n",
    "He said. ",
    "北京",
    "São Paulo is ",
    "x\t",
    "e",
]
ANSWERS = [" 2020, Paris", "\nnewlines", "  two spaces", "\n\nJacques Chirac", " Zürich"]
# What Llama 3 and Qwen cut words by: a sentence's end and line breaks behind it are one piece
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def with_breaks_in_pieces() -> Any:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LATIN + OTHER_SCRIPTS + ["Who was it?\nHe said.\n\nIn 2020:\n"] * 20, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def by_the_harness(tokenizer: Any, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Tokens of the context and of the continuation; a mark that the tokenizer puts behind texts is left out."""
    moved = len(context) - len(context.rstrip())
    if moved:
        continuation = context[-moved:] + continuation
        context = context[:-moved]
    whole, before = (tokenizer(text)["input_ids"] for text in (context + continuation, context))
    if whole[-1] == tokenizer.eos_token_id:
        whole, before = whole[:-1], before[:-1]
    return whole[: len(before)], whole[len(before) :]


@pytest.mark.parametrize("kind", ["gpt2", "pythia", "mistral", "llama", "eos", "breaks"])
def test_the_tokens_are_those_of_the_harness(kind: str):
    tokenizer = with_breaks_in_pieces() if kind == "breaks" else make_tokenizer(kind)
    pairs = [(prompt, answer) for prompt in PROMPTS for answer in ANSWERS]
    for separator in ((), ("",)):
        encoded = encode_pairs(tokenizer, [as_triple((*pair, *separator)) for pair in pairs], Format())
        for pair, found in zip(pairs, encoded, strict=True):
            context, continuation = by_the_harness(tokenizer, *pair)
            assert [found.ids[place] for place in found.targets] == continuation, pair
            assert list(found.ids) == context + continuation, pair


@pytest.mark.parametrize("kind", ["pythia", "mistral", "breaks"])
def test_the_scores_are_those_of_these_tokens(kind: str):
    tokenizer = with_breaks_in_pieces() if kind == "breaks" else make_tokenizer(kind)
    lm = LanguageModel(make_model("llama"), tokenizer, "tiny")
    pairs = [(prompt, answer) for prompt in PROMPTS[:4] for answer in ANSWERS[:4]]
    wanted = []
    for pair in pairs:
        context, continuation = by_the_harness(tokenizer, *pair)
        ids = context + continuation
        wanted.append(naive_sum(lm.model, ids, list(range(len(context), len(ids)))))
    np.testing.assert_allclose(lm.log_probs(pairs), wanted, atol=1e-4)
    assert lm.log_probs([("In", "2020", " ")])[0] == pytest.approx(naive_log_prob(lm, "In", "2020"), abs=1e-4)


def test_with_a_prefix_and_in_a_chat():
    """A prefix belongs to the context. In a chat the template says what stands before the answer."""
    tokenizer = make_tokenizer("mistral")
    style = Format(prefix="Reply: ")
    (found,) = encode_pairs(tokenizer, [as_triple(("In", " 2020"))], style)
    assert ([*found.ids[: found.targets[0]]], [*found.ids[found.targets[0] :]]) == by_the_harness(
        tokenizer, "Reply: In", " 2020"
    )
    tokenizer.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
    bare, spaced = encode_pairs(tokenizer, [("In?", "2020", None), as_triple(("In?", " 2020"))], Format(kind="chat"))
    assert bare == spaced


def test_white_space_alone_or_behind_a_separator_is_no_answer():
    lm = make_lm("gpt2", "gpt2")
    for pair in [("In", "  "), ("In", " 2020 "), ("In", "2020 ")]:
        with pytest.raises(DataError, match="is empty or has white space around it"):
            lm.log_probs([pair])
    with pytest.raises(DataError, match="begins with white space and has the separator"):
        lm.log_probs([("In", " 2020", " ")])
