"""Texts whose tokens make trees of any shape, for Hypothesis."""

from hypothesis import strategies as st

from anachron.lm.spans import Encoded


@st.composite
def tries(draw: st.DrawFn, longest_shared: int = 12) -> list[Encoded]:
    """Texts that share prefixes: none, of one token, nested; with duplicates and answers of 1 to 12 tokens."""
    token = st.integers(3, 8)  # few, so that texts meet by chance too
    stems: list[tuple[int, ...]] = [()]
    for _ in range(draw(st.integers(0, 4))):
        stems.append((*draw(st.sampled_from(stems)), *draw(st.lists(token, max_size=longest_shared))))
    texts = []
    for _ in range(draw(st.integers(1, 10))):
        prompt = (*draw(st.sampled_from(stems)), *draw(st.lists(token, max_size=3))) or (1,)
        answer = draw(st.lists(token, min_size=1, max_size=12))
        first = len(prompt)
        texts.append(Encoded((*prompt, *answer), tuple(range(first, first + len(answer)))))
    return texts
