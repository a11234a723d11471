"""Portability: whether what follows from an update is true of the model too, and what must stay has stayed.

The questions are those that the updates of a data set bring (`EditCase.tests`): of RippleEdits and MQuAKE. A question
is judged by probability and by the text that the model generates:

* p is that of the likeliest name of an answer (as of all objects, a geometric mean over tokens); ``old`` the same of
  the answer that was right before the update, where the format says it. Success is p above old.
* ``right``: by the rule of the format. RippleEdits': every answer, by any of its names, is somewhere in the next
  `TOKENS` tokens, letter by letter. MQuAKE's: the text begins with an answer. ``begins`` is that rule for both.

A test is right where any, or all, of its questions are, as the format says. It counts only if the unedited model has
all of its condition queries right (RippleEdits), which ``known`` says.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from anachron.analysis.statistics import interval_cells, korn_graubard
from anachron.core.labels import PLAIN
from anachron.data.updates.case_records import EditCase, PortabilityQuestion, PortabilityTest
from anachron.evaluate.measures.generations import SPARE, letters_of_name
from anachron.evaluate.measures.measure import Measure, Rows, Writer
from anachron.evaluate.results import (
    COUNT,
    FACT,
    KEYS,
    METHOD,
    NUMBER,
    TEXT,
    UNEDITED,
    P,
    subjects_of,
)
from anachron.io.files import Json

OFF = "this kind of run does not ask them"  # lifelong editing
TOKENS = 30  # generated behind each question, as RippleEdits' code means to; more where an answer is longer
MEASURES = ("right", "begins", "success", "p")  # of a test
QUESTION = ("kind", "number", "prompt_number")
EDITS = ("edit", "edit-wise")  # kinds of tests whether the edit itself has worked


def numbered_tests(case: EditCase) -> Iterator[tuple[int, PortabilityTest]]:
    """Number, from 0 among those of its kind, and test: of all that can be asked."""
    seen: Counter[str] = Counter()
    for test in case.tests:
        if test.unusable is None:
            yield seen[test.kind], test
        seen[test.kind] += 1


def tests_not_asked(cases: Sequence[EditCase], *, asked: bool = True) -> dict[str, int]:
    """How many tests cannot be asked, by kind and reason; only reasons that occur. asked: False where none are."""
    reasons = [(test.kind, test.unusable if asked else OFF) for case in cases for test in case.tests]
    return dict(sorted(Counter(f"{kind}: {reason}" for kind, reason in reasons if reason).items()))


def portability_pairs(case: EditCase) -> list[tuple[str, str]]:
    """All (prompt, name) pairs whose probabilities the tests of an update take."""
    questions = [question for _, test in numbered_tests(case) for question in test.questions]
    return [(q.prompt, name) for q in questions for names in (*q.answers, q.old) for name in names]


def portability_rows(case: EditCase, p: Mapping[tuple[str, str], float]) -> list[Json]:
    """A row a question: p of the likeliest name of an answer, and of the old answer, 0 to 1."""
    rows = []
    for number, test in numbered_tests(case):
        for place, question in enumerate(test.questions):
            best = max(p[question.prompt, name] for names in question.answers for name in names)
            old = max((p[question.prompt, name] for name in question.old), default=None)
            key = {"kind": test.kind, "number": number, "prompt_number": place, "needed": test.needed}
            rows.append(key | {"p": best, "old": old})
    return rows


def portability_prompts(case: EditCase, *, conditions: bool) -> dict[str, list[str]]:
    """Prompts of every question of an update, and of the condition queries where wanted, with all names of answers."""
    asked: dict[str, list[str]] = {}
    for _, test in numbered_tests(case):
        for question in (*test.questions, *(test.conditions if conditions else ())):
            asked.setdefault(question.prompt, []).extend(name for names in question.answers for name in names)
    return asked


def judged(case: EditCase, rows: Sequence[Json], texts: Mapping[str, str]) -> list[Json]:
    """The rows with the generated texts, by prompt, and whether they are right: 0 or 1.

    known: whether every condition query is; None where their texts are not among these, as of an edited model.
    """
    tests = {(test.kind, number): test for number, test in numbered_tests(case)}
    done = []
    for row in rows:
        test = tests[row["kind"], row["number"]]
        question = test.questions[row["prompt_number"]]
        text = texts[question.prompt]
        known = None
        if all(condition.prompt in texts for condition in test.conditions):
            known = float(all(is_right(test.rule, texts[one.prompt], one) for one in test.conditions))
        done.append(row | {
            "text": text, "right": float(is_right(test.rule, text, question)),
            "begins": float(is_right("begins", text, question)), "known": known,
        })  # fmt: skip
    return done


def is_right(rule: str, text: str, question: PortabilityQuestion) -> bool:
    """Whether a generated text, without its question, answers it by a rule of
    `anachron.data.updates.case_records.PortabilityTest`."""
    if rule == "contains":
        return all(any(name in text for name in names) for names in question.answers)
    return letters_of_name(text, [name for names in question.answers for name in names]) > 0


def portability_tests(portability: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, method, update and test, the unedited model's among them.

    portability: the run's table of that name (`PORTABILITY`).

    Columns: the keys, ``kind``, ``number``, ``counts`` (the conditions were known) and `MEASURES`; of several questions
    the largest where any is enough, else the smallest. ``success`` is null where no old answer is known.
    """
    known = pl.col("known_before")
    clean = portability.unique(["mode", "case_id", *QUESTION], keep="first", maintain_order=True)
    before = clean.with_columns(method=pl.lit(UNEDITED), variant=pl.lit(PLAIN))
    rows = pl.concat(
        [
            table.select(*KEYS, *QUESTION, "needed", *_measured(side), known)
            for table, side in ((before, "before"), (portability, "after"))
        ]
    )
    enough = pl.col("needed").first() == "any"
    return rows.group_by(*KEYS, "kind", "number", maintain_order=True).agg(
        (known.min() == 1).alias("counts"),
        *(pl.when(enough).then(pl.col(m).max()).otherwise(pl.col(m).min()).alias(m) for m in MEASURES),
    )


def _measured(side: str) -> list[pl.Expr]:
    """`MEASURES` of a question, before or after."""
    p = pl.col(side)
    success = (p > pl.col(f"old_{side}")).cast(pl.Float64)
    values = (pl.col(f"right_{side}"), pl.col(f"begins_{side}"), success, p)
    return [value.alias(name) for name, value in zip(MEASURES, values, strict=True)]


def portability_summary(tests: pl.DataFrame, updates: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per mode, method and kind of test, from `portability_tests`.

    Several tests of a kind of one update count as their mean, so every mean is over updates. ``updates`` have a test
    that counts; ``tests`` counts those that do and ``not_counted`` those whose conditions the unedited model does not
    know. Each of `MEASURES` has its mean, ``_n`` and a 95 % interval, of the effective number of the subjects
    that ``updates`` names (`anachron.analysis.statistics.korn_graubard`). ``right_if_edited`` is ``right`` over the
    updates alone of which this model generates the new object itself (a test of the kinds `EDITS`), as RippleEdits
    reports it; of several edits in one update, all of them.
    """
    edited = (
        tests.filter(pl.col("kind").is_in(EDITS)).group_by(KEYS, maintain_order=True).agg(pl.col("right").min() == 1)
    ).rename({"right": "edited"})
    counted = tests.filter("counts").group_by(*KEYS, "kind", maintain_order=True).agg(pl.col(MEASURES).mean())
    counted = counted.join(edited, on=KEYS, how="left", maintain_order="left")
    key, rows = ["mode", *METHOD, "kind"], []
    for values, group in tests.group_by(key, maintain_order=True):
        row: dict[str, Any] = dict(zip(key, values, strict=True))
        match = [pl.col(name).eq_missing(pl.lit(value)) for name, value in row.items()]
        of_updates = counted.filter(match)
        row |= {"updates": of_updates.height, "tests": int(group["counts"].sum())}
        row["not_counted"] = group.height - row["tests"]
        for measure in MEASURES:
            row |= _mean(measure, measure, of_updates, updates)
        row |= _mean("right_if_edited", "right", of_updates.filter("edited"), updates)
        rows.append(row)
    places = tests.select("mode", *METHOD).unique(maintain_order=True).rows()
    kinds = tests["kind"].unique(maintain_order=True).to_list()
    rows.sort(key=lambda row: (places.index((row["mode"], *(row[name] for name in METHOD))), kinds.index(row["kind"])))
    return pl.DataFrame(rows, infer_schema_length=None)


def _mean(name: str, measure: str, rows: pl.DataFrame, updates: pl.DataFrame | None) -> dict[str, Any]:
    known = rows.filter(pl.col(measure).is_not_null())
    ends = korn_graubard(known[measure].to_numpy(), subjects_of(known, updates))
    return {name: known[measure].mean(), **interval_cells(name, ends), f"{name}_n": known.height}


def _written(writer: Writer, case: EditCase, conditions: bool, rows: Rows) -> Rows:
    """conditions: whether also what must be known for a test to count, which is asked of the unedited model alone."""
    if not case.tests:
        return rows
    of_length: dict[int, list[str]] = {}
    for prompt, names in portability_prompts(case, conditions=conditions).items():
        of_length.setdefault(max(TOKENS, writer.longest(prompt, names) + SPARE), []).append(prompt)
    texts: dict[str, str] = {}
    for tokens, prompts in of_length.items():
        texts |= zip(prompts, writer.greedy(prompts, tokens), strict=True)
    return judged(case, rows, texts)


# One row per question of a test that an update brings: p of an accepted answer and of the old one, the text generated,
# whether it is right by its format's rule, whether it begins with an answer (0, 1). needed: any or all of a test's
# questions. known_before: whether the unedited model has the test's conditions right.
PORTABILITY = Measure(
    name="portability",
    entry={
        "kind": TEXT, "number": COUNT, "prompt_number": COUNT, "needed": TEXT, "p": NUMBER, "old": NUMBER, "text": TEXT,
        "right": NUMBER, "begins": NUMBER, "known": NUMBER,
    },
    how=lambda measures: measures.conditions if measures.portability else None,
    pairs=lambda case, how: portability_pairs(case),
    rows=lambda case, how, scores: portability_rows(case, scores.p),
    writes=lambda case, how: bool(case.tests),
    written=_written,
    about=lambda cases, how: {"tests_not_asked": tests_not_asked(cases, asked=how is not None)},
    finish=lambda table, cases: table.drop("known_after"),  # conditions are asked before alone
    optional=True,
    table={
        **FACT, "prompt_number": COUNT, "needed": TEXT, **P,
        **{f"{value}_{side}": TEXT if value == "text" else NUMBER
           for value in ("old", "text", "right", "begins") for side in ("before", "after")}, "known_before": NUMBER,
    },
    keys=QUESTION,
    scores=("after", "right_after"),
)  # fmt: skip
