"""From updates of a data set to what MEND's network learns from (``train-mend``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anachron.core.errors import DataError
from anachron.data.updates.cases import load_cases
from anachron.edit.training.mend_examples import MendExample, examples_of
from anachron.io.files import read_text
from anachron.io.jobs import Callbacks


@dataclass(frozen=True)
class MendLessons:
    """What the network learns from, and the reason for each update that cannot be learned from."""

    examples: list[MendExample]
    left_out: list[str]


def mend_lessons(
    updates: str,
    *,
    without: str | None = None,
    text: Path | None = None,
    limit: int | None = None,
    callbacks: Callbacks | None = None,
    **loading: Any,
) -> MendLessons:
    """Prepare the examples from which MEND's network learns, from updates.

    without: updates to evaluate on later, a file or hub name: none of their subjects is used. text: a file with one
    text per line that edits must leave alone; by default the updates' neighbours. limit: use only the first so many
    updates. loading: scenario, split and revision, see `anachron.load_cases`. callbacks: told what is left out.

    Raises `DataError` where nothing is left to learn from, `ConfigError` for a text that cannot be read.
    """
    callbacks = callbacks or Callbacks()
    texts = () if text is None else _lines(text)
    judged = set() if without is None else {case.subject for case in load_cases(without, scenario=None).cases}
    found = load_cases(updates, **loading)
    for note in found.notes:
        callbacks.notice(note)
    loaded = found.cases
    others = [case for case in loaded if case.subject not in judged]
    if len(others) < len(loaded):
        dropped = len(loaded) - len(others)
        callbacks.notice(f"{dropped:,} of {len(loaded):,} updates are about subjects of {without}: left out")
    if not others:
        raise DataError(f"{updates}: every update is about a subject of {without}; nothing is left to learn from")
    cases = others[:limit]
    examples, left_out = examples_of(cases, texts)
    if not examples:
        raise DataError(f"{updates}: no update can be learned from, for instance: {(left_out or ['it has none'])[0]}")
    if left_out:
        callbacks.warn(f"{len(left_out)} of {len(cases)} updates are left out, for instance: {left_out[0]}")
    return MendLessons(examples, left_out)


def _lines(path: Path) -> tuple[str, ...]:
    lines = tuple(line.strip() for line in read_text(path, "--text").splitlines() if line.strip())
    if not lines:
        raise DataError(f"--text {path} has no line with text; give some, or leave it out")
    return lines
