"""Entropies against sentences worked out by hand, a plain loop, and SciPy."""

import sys
from collections import Counter
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.measures.fluency import fluency, ngram_entropy, text_fluency, words


def test_words_are_those_of_the_treebank():
    assert words("They didn't pay $3.50, she said.") == [
        "They", "did", "n't", "pay", "$", "3.50", ",", "she", "said", ".",
    ]  # fmt: skip
    assert words("One end. Another end.") == [
        "One",
        "end.",
        "Another",
        "end",
        ".",
    ]  # no sentence splitter is downloaded
    assert words("  ") == []


@pytest.mark.parametrize(
    ("text", "bigrams", "trigrams"),
    [
        ("the cat sat on the mat", log2(5), 2.0),  # five bigrams and four trigrams, each once
        ("a b a b a b", 0.6 * log2(5 / 3) + 0.4 * log2(5 / 2), 1.0),  # ab 3, ba 2; aba 2, bab 2
        ("no no no no", 0.0, 0.0),
        ("two words", 0.0, 0.0),  # one bigram, no trigram
        ("word", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_sentences_by_hand(text, bigrams, trigrams):
    tokens = words(text)
    assert ngram_entropy(tokens, 2) == pytest.approx(bigrams, abs=1e-12)
    assert ngram_entropy(tokens, 3) == pytest.approx(trigrams, abs=1e-12)
    assert text_fluency(text) == pytest.approx((2 / 3 * bigrams + 4 / 3 * trigrams) / 2, abs=1e-12)


def test_a_hundred_different_words_give_a_little_more_than_the_published_clean_model():
    """It is the mean of the two weighted entropies, not their sum, that lies near the published 5.2."""
    text = " ".join(f"w{n}" for n in range(100))
    assert text_fluency(text) == pytest.approx((2 / 3 * log2(99) + 4 / 3 * log2(98)) / 2)
    assert 6 < text_fluency(text) < 7


def by_loop(tokens, n):
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens)) if i + n <= len(tokens)]
    found = 0.0
    for count in Counter(grams).values():
        found -= count / len(grams) * log2(count / len(grams))
    return found


@given(st.lists(st.sampled_from("abcd"), max_size=60), st.integers(1, 5))
def test_entropy_against_a_loop_and_scipy(tokens, n):
    found = ngram_entropy(tokens, n)
    assert found == pytest.approx(by_loop(tokens, n), abs=1e-12)
    counts = Counter(zip(*(tokens[i:] for i in range(n)), strict=False))
    if counts:
        from scipy.stats import entropy

        assert found == pytest.approx(entropy(list(counts.values()), base=2), abs=1e-12)
    assert 0 <= found <= log2(max(1, len(tokens) - n + 1)) + 1e-12


@given(st.lists(st.text("ab cd", max_size=30), min_size=1, max_size=5))
def test_fluency_is_the_mean_over_texts(texts):
    expected = []
    for text in texts:
        tokens = words(text)
        expected.append((2 / 3 * by_loop(tokens, 2) + 4 / 3 * by_loop(tokens, 3)) / 2)
    assert fluency(texts) == pytest.approx(sum(expected) / len(expected), abs=1e-12)


def test_what_has_no_fluency_is_refused():
    with pytest.raises(DataError, match="0 texts have no fluency; give what the model wrote"):
        fluency([])
    with pytest.raises(DataError, match="n-grams of 0 words do not exist; n must be 1 or more"):
        ngram_entropy(["a"], 0)


def test_without_nltk_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.tokenize", None)
    with pytest.raises(ConfigError, match=r"fluency needs the package nltk .*; pip install .*'nltk"):
        fluency(["a text"])
