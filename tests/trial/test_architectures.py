"""Every architecture that can be made tiny, with every tokenizer, in every way to compute it, against one text at a
time through the whole model.

Left out is Reformer, which hashes at random, so that no score of it comes twice.
"""

from typing import Any

import numpy as np
import pytest

from support.architectures import ARCHITECTURES, lm_of, make_architecture, naive, statements
from support.tiny_models import TOKENIZERS

TOLERANCE = 1e-4  # nats; what is found is about 1e-5
SHORT = statements(7, 4)  # more than 256 nodes in a tree batch of 512
LONG = [*statements(1, 2, words=370), *statements(1, 1, words=180), *statements(1, 2, words=60)]
FEW = [*statements(2, 4), *statements(1, 1, words=180)]


def ways_of(model: Any, tokenizer: str, thorough: bool) -> tuple[int, dict[str, float]]:
    """How many scores there are, and the largest difference from the naive ones for each way to compute them."""
    lm = lm_of(model, tokenizer)
    pairs = [*SHORT, *LONG] if thorough else FEW
    expected = np.array(naive(lm, pairs))
    ways = {
        "a small first call": lm.log_probs(pairs[:6], batch_tokens=512),
        "prefix tree after it": lm.log_probs(pairs[:28], batch_tokens=512),
        "padded batches": lm.log_probs(pairs, prefix_tree=False),
    }
    if thorough:
        ways |= {
            "long texts after that": lm.log_probs(pairs, batch_tokens=512),
            "small tree batches": lm_of(model, tokenizer).log_probs(pairs, batch_tokens=40),
            "small padded batches": lm.log_probs(pairs, prefix_tree=False, batch_tokens=100),
        }
    gaps = {way: float(np.abs(scores - expected[: len(scores)]).max()) for way, scores in ways.items()}
    return sum(map(len, ways.values())), gaps


@pytest.mark.trial
@pytest.mark.share(2)
@pytest.mark.parametrize("part", [0, 1])
def test_scores_of_all_architectures_are_naive(part: int):
    """Of every other architecture; the rest in the other part."""
    tried, wrong, largest = 0, [], 0.0
    chosen = [*enumerate(ARCHITECTURES)][part::2]
    for number, name in chosen:
        model = make_architecture(name)
        for place, tokenizer in enumerate(TOKENIZERS):
            count, gaps = ways_of(model, tokenizer, thorough=number % len(TOKENIZERS) == place)
            tried, largest = tried + count, max(largest, *gaps.values())
            wrong += [
                f"{name}, {tokenizer}, {way}: {gap:.2g} nats" for way, gap in gaps.items() if not gap <= TOLERANCE
            ]
    print(
        f"trial: {tried} scores of {len(chosen)} architectures with {len(TOKENIZERS)} tokenizers, "
        f"{len(wrong)} groups of them wrong, largest difference from the naive way {largest:.1g} nats"
    )
    assert not wrong, wrong
