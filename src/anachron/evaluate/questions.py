"""What an update is asked: its own prompts, and the facts beside it that it must leave alone."""

from collections.abc import Iterator

from anachron.core.sameness import same_name
from anachron.core.scenarios import REPLACEMENT
from anachron.data.case_records import EditCase, NeighbourFact


def prompts_of(case: EditCase) -> tuple[str, ...]:
    """The update prompt, then the generalization prompts."""
    return case.text, *case.generalization


def numbered_prompts(case: EditCase) -> Iterator[tuple[str, int, str]]:
    """Kind (update or generalization), number and text of each of `prompts_of`; the update prompt is number 0."""
    for number, prompt in enumerate(prompts_of(case)):
        yield prompt_kind(number), number, prompt


def prompt_kind(number: int) -> str:
    return "generalization" if number else "update"


def numbered_neighbours(case: EditCase) -> Iterator[tuple[str, int, NeighbourFact]]:
    """Kind (nearest or random), number among its kind, from 0, and the fact of each neighbour."""
    for kind, facts in (("nearest", case.nearest), ("random", case.random)):
        for number, fact in enumerate(facts):
            yield kind, number, fact


def wrong_object(case: EditCase, fact: NeighbourFact) -> str | None:
    """The new object of a replacement, which its edit must not make the answer of a neighbour fact.

    None where it is a true object of that fact too (in whatever spelling), or the update is no replacement.
    """
    if case.scenario != REPLACEMENT or not case.new:
        return None
    return None if any(same_name(case.new, label) for label in fact.objects) else case.new
