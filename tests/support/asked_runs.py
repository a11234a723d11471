"""Runs that ask, made without a model or a server: who answers is a function."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from anachron.core.draws import draw
from anachron.data.dataset import Dataset
from anachron.data.decoys import without_decoys
from anachron.io.answers import Answer
from anachron.io.jobs import Callbacks
from anachron.probe.ask.asking import AskSettings
from anachron.probe.by_answers import ByAnswers
from anachron.probe.check.check import Check, check
from anachron.probe.check.questions import CheckedFacts, read_facts

AS_OF = "2025-11-22"
FACTS = """subject,relation,object,start,end
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10
Kazakhstan,capital,Astana,1997-12-10,
Germany,head of government,Gerhard Schröder,1998-10-27,2005-11-22
Germany,head of government,Angela Merkel,2005-11-22,2021-12-08
Germany,head of government,Olaf Scholz,2021-12-08,2025-05-06
"""
HELD = {
    "Almaty": (1992, 1997), "Astana": (1998, 2025), "Gerhard Schröder": (1999, 2005), "Angela Merkel": (2006, 2021),
    "Olaf Scholz": (2022, 2024),
}  # fmt: skip


class Scripted:
    """Answers by a function of the question."""

    def __init__(self, name: str, script: Callable[[str], str], backend: str = "generate") -> None:
        self.name, self.script, self.backend = name, script, backend

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name}

    def answers(self, prompts: Sequence[str], callbacks: Callbacks) -> list[Answer]:
        return [Answer(self.script(prompt), "stop", None, 100, 5, self.name) for prompt in prompts]


def known(text: str, held: Mapping[str, tuple[int, int]] = HELD, now: int = 2024) -> str:
    """What somebody answers who knows who held what, and guesses about decoys. The first two are Kazakhstan's."""
    choice = re.search(r"Answer: (.+)\nIn which year .*, (\d+) or (\d+)\?", text)
    if choice:
        if choice[1] not in held:
            return choice[2 + draw(text) % 2]
        start, end = held[choice[1]]
        return choice[2] if start <= int(choice[2]) <= end else choice[3]
    period = re.search(r"Answer: (.+)\nFrom when", text)
    if period:
        guess = 1900 + draw(text) % 100
        start, end = held.get(period[1], (guess, guess + draw(text, "long") % 20))
        return f"{start} to {'today' if end == 2025 else end}"
    year = re.search(r"In (\d{4}),", text)
    place = [*held][:2] if "Kazakhstan" in text else [*held][2:]
    return next((name for name in place if held[name][0] <= int(year[1] if year else now) <= held[name][1]), "nobody")


def early(text: str) -> str:
    """Somebody who takes the earlier year, talks of Almaty, and knows no period."""
    choice = re.search(r", (\d+) or (\d+)\?", text)
    return min(choice.groups()) if choice else "I do not know" if "From when" in text else "<b>Almaty</b>, of course"


def alone(facts: CheckedFacts) -> CheckedFacts:
    """Facts beside which no decoys are asked about: many times fewer questions."""
    return replace(facts, data=without_decoys(facts.data))


def ask(
    folder: Path, name: str, script: Callable[[str], str], backend: str = "generate", rounds: int = 2,
    decoys: bool = False,
) -> Check:  # fmt: skip
    """A check by answers about `FACTS` in a folder, beside decoys or without."""
    path = folder.parent / "facts.csv"
    path.write_text(FACTS)
    facts = read_facts(path, as_of=AS_OF)
    answerer = ByAnswers(Scripted(name, script, backend), AskSettings(rounds=rounds))
    return check(answerer, facts if decoys else alone(facts), folder)


def scores_of(data: Dataset, name: str, script: Callable[[dict], float]) -> pl.DataFrame:
    """A score table about the statements of a data set. script: the score of a row."""
    dated = data.table.filter(pl.col("time").is_not_null())
    logps = [script(row) for row in dated.iter_rows(named=True)]
    return dated.select(
        pl.lit(name).alias("model"), pl.lit("raw").alias("format"), pl.lit("none").alias("prefix"), "fact_id",
        "granularity", "time", "status", "alpha", "subject_label", "relation_label", "object_label",
        pl.Series("logp", logps),
    )  # fmt: skip
