"""What real models have and tiny ones lack, on random stand-ins: large heads, thin layers, windows, templates."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.lm.batches import Limits, pieces_of
from anachron.lm.formats import Format
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import score_texts
from anachron.lm.spans import Encoded
from support.architectures import lm_of, make_architecture, statements
from support.gguf_models import CHAT
from support.tiny_models import make_lm, naive_log_prob, naive_sum

GEMMA_VOCABULARY = 262_144


@contextmanager
def largest_logits(lm: LanguageModel) -> Iterator[list[int]]:
    """How many numbers came out of the head at once, each time."""
    made: list[int] = []
    hook = lm.model.get_output_embeddings().register_forward_hook(lambda m, i, output: made.append(output.numel()))
    try:
        yield made
    finally:
        hook.remove()


@pytest.fixture(scope="module")
def wide() -> LanguageModel:
    """As many words as Gemma 3 has, in embeddings that are the head too."""
    return make_lm("llama", vocab_size=GEMMA_VOCABULARY, hidden_size=8, num_attention_heads=2, num_key_value_heads=1,
                   intermediate_size=16, tie_word_embeddings=True)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("prefix_tree", [True, False])
def test_no_more_logits_than_the_limit_are_made_at_once(wide: LanguageModel, prefix_tree: bool):
    most = Limits().logits
    rows = most // GEMMA_VOCABULARY
    ids = tuple(np.random.default_rng(0).integers(3, 400, rows + 45).tolist())
    texts = [Encoded(ids, tuple(range(1, len(ids)))), *(Encoded((*ids[:n], 5), (n,)) for n in range(2, 20))]
    wide.tree_checks.most.clear()
    with largest_logits(wide) as made:
        scores = score_texts(wide, texts, prefix_tree=prefix_tree)
    assert max(made) <= most == 1 << 26
    assert max(made) > most // 2  # and not much fewer, which would be slow
    table = torch.log_softmax(_logits(wide, ids), -1)  # (tokens, vocabulary)
    whole = sum(float(table[i, ids[i + 1]]) for i in range(len(ids) - 1))
    expected = [whole, *(float(table[text.targets[0] - 1, 5]) for text in texts[1:])]
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-4)


def _logits(lm: LanguageModel, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return lm.model(input_ids=torch.tensor([ids])).logits[0]


@given(st.integers(1, 40), st.integers(1, 12), st.booleans(), st.data())
def test_pieces_hold_every_answer_token_once(length: int, most: int, whole: bool, data: st.DataObject):
    targets = tuple(sorted(data.draw(st.sets(st.integers(1, length), min_size=1))))
    text = Encoded(tuple(range(targets[-1] + 1)), targets)
    pieces = pieces_of(text, most, whole=whole)
    assert sum((piece.targets for piece in pieces), ()) == targets
    assert all(len(piece.targets) <= most and piece.ids == text.ids[: len(piece.ids)] for piece in pieces)
    assert all(len(piece.ids) == (len(text.ids) if whole else piece.targets[-1] + 1) for piece in pieces)


def test_thirty_thin_layers_are_scored_as_one_text_at_a_time():
    lm = make_lm("llama", num_hidden_layers=30, hidden_size=36, num_attention_heads=9, num_key_value_heads=3,
                 initializer_range=0.1, tie_word_embeddings=True)  # fmt: skip
    pairs = statements(years=3, lands=5)
    expected = [naive_log_prob(lm, *pair) for pair in pairs]
    np.testing.assert_allclose(lm.log_probs(pairs), expected, atol=1e-4)
    assert lm.plan(lm.encode(pairs)).prefix_tree


@pytest.mark.parametrize("words", [0, 40])
def test_windows_in_five_of_six_layers(words: int):
    model = make_architecture("gemma3", num_hidden_layers=6, layer_types=None, sliding_window=48)
    assert model.config.layer_types.count("sliding_attention") == 5
    lm, pairs = lm_of(model), statements(years=3, lands=5, words=words)
    assert (max(len(text.ids) for text in lm.encode(pairs)) < 48) is (words == 0)
    assert lm.plan(lm.encode(pairs)).prefix_tree
    np.testing.assert_allclose(lm.log_probs(pairs), [naive_log_prob(lm, *pair) for pair in pairs], atol=1e-4)


def test_a_default_system_prompt_is_part_of_what_is_fed_and_not_of_what_is_scored():
    lm = make_lm("llama", "mistral")
    lm.tokenizer.chat_template = CHAT
    text = "<s>system\nYou help.</s>\n<s>user\nWho was it?</s>\n<s>assistant\nAngela Merkel"
    ids = lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    (encoded,) = lm.encode([("Who was it?", "Angela Merkel", None)], Format(kind="chat"))
    assert encoded.ids == tuple(ids)
    assert lm.tokenizer.decode([ids[i] for i in encoded.targets]) == "Angela Merkel"
    scored = lm.log_probs([("Who was it?", "Angela Merkel")], style=Format(kind="chat"))
    assert scored[0] == pytest.approx(naive_sum(lm.model, ids, list(encoded.targets)), abs=1e-4)
