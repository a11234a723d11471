"""Batch plans: every text once, within the limits, always the same."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from anachron.lm.batches import Limits, padded_tokens, plan_batches
from anachron.lm.spans import Encoded


def text(length: int, targets: int) -> Encoded:
    """A text of ``length`` tokens whose last ``targets`` are scored."""
    return Encoded(tuple(range(length)), tuple(range(length - targets, length)))


TEXTS = st.lists(
    st.integers(2, 40).flatmap(lambda n: st.integers(1, n - 1).map(lambda targets: text(n, targets))), max_size=30
)
LIMITS = st.builds(Limits, tokens=st.integers(1, 200), logits=st.integers(1, 2000))
VOCABULARY = 10


@given(TEXTS, LIMITS)
def test_every_text_is_in_one_batch(texts: list[Encoded], limits: Limits):
    batches = plan_batches(texts, VOCABULARY, limits)
    assert sorted(i for batch in batches for i in batch) == list(range(len(texts)))
    assert all(batches)


@given(TEXTS, LIMITS)
def test_batches_keep_to_the_limits(texts: list[Encoded], limits: Limits):
    for batch in plan_batches(texts, VOCABULARY, limits):
        padded = len(batch) * max(len(texts[i].ids) - 1 for i in batch)
        logits = VOCABULARY * sum(len(texts[i].targets) for i in batch)
        assert len(batch) == 1 or (padded <= limits.tokens and logits <= limits.logits)


@given(TEXTS, LIMITS)
def test_no_batch_could_have_taken_the_first_text_of_the_next(texts: list[Encoded], limits: Limits):
    batches = plan_batches(texts, VOCABULARY, limits)
    for batch, following in itertools.pairwise(batches):
        more = [*batch, following[0]]
        padded = len(more) * max(len(texts[i].ids) - 1 for i in more)
        logits = VOCABULARY * sum(len(texts[i].targets) for i in more)
        assert padded > limits.tokens or logits > limits.logits


@given(TEXTS, LIMITS)
def test_plans_depend_on_lengths_alone(texts: list[Encoded], limits: Limits):
    others = [Encoded(tuple(i + 7 for i in item.ids), item.targets) for item in texts]
    assert plan_batches(texts, VOCABULARY, limits) == plan_batches(others, VOCABULARY, limits)


@given(TEXTS, LIMITS)
def test_texts_of_like_length_are_together(texts: list[Encoded], limits: Limits):
    lengths = [len(texts[i].ids) for batch in plan_batches(texts, VOCABULARY, limits) for i in batch]
    assert lengths == sorted(lengths)


def test_a_text_over_the_budget_has_a_batch_of_its_own():
    texts = [text(4, 1), text(100, 1), text(4, 1), text(90, 1)]
    assert plan_batches(texts, VOCABULARY, Limits(tokens=8)) == [[0, 2], [3], [1]]
    assert plan_batches([text(9, 8), text(9, 8)], VOCABULARY, Limits(logits=5)) == [[0], [1]]


def test_no_texts_no_batches():
    assert plan_batches([], VOCABULARY, Limits()) == []


@given(TEXTS, LIMITS)
def test_padded_tokens_are_counted_one_by_one(texts: list[Encoded], limits: Limits):
    batches = plan_batches(texts, VOCABULARY, limits)
    computed = 0
    for batch in batches:
        width = max(len(texts[i].ids[:-1]) for i in batch)
        for _ in batch:
            for _ in range(width):
                computed += 1
    assert padded_tokens(texts, batches) == computed
