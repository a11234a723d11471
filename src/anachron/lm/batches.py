"""What is computed together: batches of similar length under a budget of tokens.

A plan depends only on the lengths and the limits, so the same inputs always give the same batches.
"""

from collections.abc import Iterator, Sequence
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


def successive(widths: Sequence[int], most: int) -> Iterator[slice]:
    """Slices of texts in their order, each of so many as take at most ``most`` tokens, padded to the widest; of one at
    least. widths: tokens of each."""
    first, width = 0, 0
    for i, own in enumerate(widths):
        width = max(width, own)
        if i > first and (i + 1 - first) * width > most:
            yield slice(first, i)
            first, width = i, own
    yield slice(first, len(widths))


def plan_requests(encoded: Sequence[Encoded], tokens: int) -> list[list[int]]:
    """Indices of texts, request by request, at most so many tokens in one; a longer text has a request of its own.

    In the order of a depth-first walk through the tree of their prefixes, so that a server which keeps what it computed
    last still has what the next text begins with.
    """
    requests: list[list[int]] = []
    held = 0
    for i in sorted(range(len(encoded)), key=lambda i: (encoded[i].ids, encoded[i].targets)):
        if not requests or held + len(encoded[i].ids) > tokens:
            requests.append([])
            held = 0
        requests[-1].append(i)
        held += len(encoded[i].ids)
    return requests


def pieces_of(text: Encoded, most: int, *, whole: bool) -> list[Encoded]:
    """A text once for every ``most`` of its answer tokens, up to the last of them; their scores add up to the text's.

    whole: all of it each time, for a model that computes differently with the length of a text.
    """
    parts = [text.targets[start : start + most] for start in range(0, len(text.targets), most)]
    return [Encoded(text.ids if whole else text.ids[: part[-1] + 1], part) for part in parts]


def padded_tokens(encoded: Sequence[Encoded], batches: Sequence[Sequence[int]]) -> int:
    """Tokens that batches send through a model, padding included."""
    return sum(len(batch) * max(fed_length(encoded[i]) for i in batch) for batch in batches)
