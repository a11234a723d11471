"""What is computed together: batches of similar length under a budget of tokens.

A plan depends only on the lengths and the limits, so the same inputs always give the same batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from anachron.lm.spans import Encoded


@dataclass(frozen=True, slots=True)
class Limits:
    """Most padded tokens, and most logits (answer tokens times vocabulary), in one batch."""

    tokens: int = 4096
    logits: int = 1 << 26


def fed_length(item: Encoded) -> int:
    """Tokens fed for a text: all but the last, which predicts nothing that is scored."""
    return len(item.ids) - 1


def plan_batches(encoded: Sequence[Encoded], vocabulary: int, limits: Limits) -> list[list[int]]:
    """Indices of texts, batch by batch: sorted by length, so that next to nothing is padding.

    A text longer than the budget has a batch of its own.
    """
    order = sorted(range(len(encoded)), key=lambda i: (fed_length(encoded[i]), len(encoded[i].targets), i))
    batches: list[list[int]] = []
    rows = 0
    for i in order:
        length, targets = fed_length(encoded[i]), len(encoded[i].targets)
        full = batches and (
            (len(batches[-1]) + 1) * length > limits.tokens or (rows + targets) * vocabulary > limits.logits
        )
        if not batches or full:
            batches.append([])
            rows = 0
        batches[-1].append(i)
        rows += targets
    return batches


def padded_tokens(encoded: Sequence[Encoded], batches: Sequence[Sequence[int]]) -> int:
    """Tokens that batches send through a model, padding included."""
    return sum(len(batch) * max(fed_length(encoded[i]) for i in batch) for batch in batches)
