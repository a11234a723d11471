"""How varied a model's free text is: entropies of its bigrams and trigrams, in bits (WikiFactDiff, section 5, table 3).

An edit that goes wrong makes a model repeat itself, and the entropy falls. Words are those of NLTK's Treebank
tokenizer: regular expressions only, nothing is downloaded. A full stop is a word of its own at the end of the text
only; within it stays with the word before. Needs the extra ``edit``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum, log2

from anachron.core.errors import ConfigError, DataError, how_to_install

WEIGHTS = {2: 2 / 3, 3: 4 / 3}  # of bigrams and trigrams; Meng et al. 2022, whose code the paper runs


def words(text: str) -> list[str]:
    """The Treebank word tokens of a text. Raises `ConfigError` where NLTK is not installed."""
    try:
        from nltk.tokenize import TreebankWordTokenizer
    except ImportError as error:
        raise ConfigError(f"fluency needs the package nltk ({error}); {how_to_install('edit')}") from error
    return list(TreebankWordTokenizer().tokenize(text))


def ngram_entropy(tokens: Sequence[str], n: int) -> float:
    """Entropy in bits of the frequencies of the n-grams of one text.

    0 for a text of fewer than n tokens, as for one that repeats a single n-gram: neither shows any variety. It is at
    most log2 of the number of n-grams, so only texts of about one length compare. Raises `DataError` for n below 1.
    """
    if n < 1:
        raise DataError(f"n-grams of {n} words do not exist; n must be 1 or more")
    counts = Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
    total = counts.total()
    return fsum(count / total * log2(total / count) for count in counts.values())


def text_fluency(text: str) -> float:
    """Fluency of one generated text, its prompt removed: the mean of 2/3 H2 and 4/3 H3, in bits; 0 for an empty text.

    WikiFactDiff's table 3 prints the sum of the two; their mean is what the code behind it computes and what gives its
    published 5.2 of an unedited model.
    """
    tokens = words(text)
    return fsum(weight * ngram_entropy(tokens, n) for n, weight in WEIGHTS.items()) / len(WEIGHTS)


def fluency(texts: Iterable[str]) -> float:
    """Mean fluency of the texts that a model wrote after the prompts of one update, in bits.

    Raises `DataError` where there is no text.
    """
    each = [text_fluency(text) for text in texts]
    if not each:
        raise DataError("0 texts have no fluency; give what the model wrote after at least one prompt")
    return fsum(each) / len(each)
