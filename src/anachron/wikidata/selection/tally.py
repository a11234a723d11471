"""How many statements and subjects every step dropped, counted so that nothing can get lost."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from anachron.io.files import Json
from anachron.wikidata.selection.rules import Steps


@dataclass
class Tally:
    """How many statements a reason dropped (``None``: alive), and how many subjects lost their last one to a step."""

    statements: Counter[int | None] = field(default_factory=Counter)
    subjects: Counter[str | None] = field(default_factory=Counter)

    def go_on(self, later: "Tally") -> None:
        """Put the counts of a later stage in the place of what was alive before it."""
        for counter in (self.statements, self.subjects):
            del counter[None]
        self.add(later)

    def add(self, other: "Tally") -> None:
        self.statements.update(other.statements)
        self.subjects.update(other.subjects)

    def as_json(self) -> Json:
        """Pairs of key and number, for JSON has no null as a key."""
        counters: list[Counter[Any]] = [self.statements, self.subjects]
        statements, subjects = ([list(pair) for pair in sorted(counter.items(), key=str)] for counter in counters)
        return {"statements": statements, "subjects": subjects}

    @classmethod
    def from_json(cls, value: Json) -> "Tally":
        return cls(Counter(dict(value["statements"])), Counter(dict(value["subjects"])))


def tally_of(judged: pl.DataFrame, rules: Steps) -> Tally:
    """The counts of one stage's verdicts."""
    return tally_by_subject(judged.group_by("subject", "dropped").agg(pl.len()), rules)


def tally_by_subject(by_subject: pl.DataFrame, rules: Steps) -> Tally:
    """From ``subject, dropped, len``. A subject goes with its last statement, so at the latest step that took one."""
    alive = 255  # above every code
    statements = by_subject.group_by("dropped").agg(pl.col("len").sum())
    last = by_subject.group_by("subject").agg(pl.col("dropped").fill_null(alive).max())
    subjects: Counter[str | None] = Counter()
    for code, count in last.group_by("dropped").agg(pl.len()).iter_rows():
        subjects[None if code == alive else rules.reason(code)[0].name] += count
    return Tally(Counter(dict(statements.iter_rows())), subjects)


def count_steps(tally: Tally, rules: Steps) -> list[Json]:
    """The counts step by step: what came in is what is kept and what was dropped, for statements and subjects."""
    statements, subjects = tally.statements.total(), tally.subjects.total()
    steps: list[Json] = []
    for step in rules.steps:
        dropped = {reason.text: tally.statements[reason.code] for reason in step.reasons}
        lost = tally.subjects[step.name]
        row = {"step": step.name, "statements_in": statements, "dropped": dropped}
        statements, subjects = statements - sum(dropped.values()), subjects - lost
        row |= {"statements_kept": statements, "subjects_in": subjects + lost, "subjects_dropped": lost}
        steps.append(row | {"subjects_kept": subjects})
    if (statements, subjects) != (tally.statements[None], tally.subjects[None]):
        raise AssertionError(f"{statements} statements left after all steps, {tally.statements[None]} are alive")
    return steps
