"""Updates in the format of AToKe (Yin and others, AAAI 2024), as the README of its repository describes it.

``requested_rewrite``: one rewrite, or a list of them, each ``{prompt with {}, subject, target_new {str}, target_true
{str}, relation_id, time_new {since, until}, time_true {since, until}, evaluation {...}}``; beside it
``history_evaluation``: the same number of ``{...}``, none in AToKe-EE, where the object stays and its period grows.
Each ``{...}`` words a ``completion``, ``time_completion`` and their paraphrases, which are asked as they are
(`anachron.evaluate.measures.atoke`); the questions among them are not. A record of several rewrites (AToKe-ME) is as
many updates, ``3.1``, ``3.2``, each from the object before it. ``answer_alias`` and ``new_answer_alias`` are the
objects' other names.
"""

from collections.abc import Iterator
from typing import Any

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, Part, granularity_of

REQUIRED = ("requested_rewrite",)
# Field of an evaluation -> kind of question about the present, about the past (`anachron.evaluate.measures.atoke`).
KINDS = {
    "time_completion": ("ces", "hes"),
    "paraphrase_time_completion": ("ces_p", "hes_p"),
    "completion": ("crs", "hrs"),
}


def is_atoke(row: Any) -> bool:
    """Whether a record's rewrites say the period of their new object, which no other format's do."""
    rewrites = row.get("requested_rewrite") if isinstance(row, dict) else None
    first = rewrites[0] if isinstance(rewrites, list) and rewrites else rewrites
    return isinstance(first, dict) and first.get("time_new") is not None


def atoke_steps(row: Any, number: int) -> Iterator[Any]:
    """A record of AToKe as records of one rewrite each, ``case_id`` with the number of the step where it has several;
    any other record as it is. number: of the record, from 1."""
    if not is_atoke(row):
        yield row
        return
    rewrites = row["requested_rewrite"] if isinstance(row["requested_rewrite"], list) else [row["requested_rewrite"]]
    history = row.get("history_evaluation")
    of_steps = (history if isinstance(history, list) else [history]) if history else [None] * len(rewrites)
    if len(of_steps) != len(rewrites):
        raise DataError(
            f"record {number}: history_evaluation holds {len(of_steps)} entries and requested_rewrite {len(rewrites)}; "
            "give one for each rewrite, or none at all"
        )
    for place, (rewrite, asked) in enumerate(zip(rewrites, of_steps, strict=True)):
        step = {"requested_rewrite": rewrite, "history_evaluation": asked}
        step |= {name: _of_step(row.get(name), place) for name in ("answer_alias", "new_answer_alias")}
        if len(rewrites) > 1:
            step["case_id"] = f"{row.get('case_id', number - 1)}.{place + 1}"
        yield row | step


def _of_step(names: Any, place: int) -> Any:
    """A list a step where there are lists in it; AToKe-SE and -EE have one of names alone."""
    if not isinstance(names, list) or not any(isinstance(item, list) for item in names):
        return names
    return names[place] if place < len(names) else None


def atoke_start(record: Part) -> str | None:
    """First date on which the new object is true."""
    return _date(record.get("requested_rewrite").get("time_new").get("since"))


def atoke_case(record: Part, case_id: str) -> EditCase:
    asked = record.get("requested_rewrite")
    prompt = asked.get("prompt").marked_prompt()
    new, true = (asked.get(name).get("str").label() for name in ("target_new", "target_true"))
    old = true if true != new else None  # an object that only lasts longer took nobody's place
    (start, end), (old_start, old_end) = (
        [_date(asked.get(name).get(side)) if asked.get(name).value is not None else None for side in ("since", "until")]
        for name in ("time_new", "time_true")
    )
    current, history = asked.get("evaluation"), record.get("history_evaluation")
    names = [
        *_aliases(new, record.get("new_answer_alias")),
        *(_aliases(old, record.get("answer_alias")) if old else ()),
    ]
    objects = tuple((label, decision) for label, decision in ((new, "new"), (old, "obsolete")) if label)
    return EditCase(
        case_id=case_id, subject=asked.get("subject").some_label(), prompt=prompt, new=new, old=old,
        generalization=_prompts(current, "paraphrase_completion"),
        relation=asked.get("relation_id").label() or asked.get("relation").label(),
        relation_label=asked.get("relation").label(), objects=objects, start=start, end=end,
        precision=granularity_of(start), old_start=old_start, old_end=old_end, aliases=tuple(dict.fromkeys(names)),
        timed_prompts=tuple(
            (kinds[about_past], text)
            for about_past, evaluation in enumerate((current, history))
            for name, kinds in KINDS.items()
            for text in _prompts(evaluation, name)
        ),
    )  # fmt: skip


def _prompts(evaluation: Part, name: str) -> tuple[str, ...]:
    return () if evaluation.value is None else evaluation.get(name).prompts()


def _aliases(label: str | None, names: Part) -> Iterator[tuple[str, str]]:
    yield from ((label, name) for name in names.labels() if label and name != label)


def _date(part: Part) -> str | None:
    """A year as AToKe has it, a number below 1 before the common era, or a date in words that `Date` reads."""
    if part.value is None or isinstance(part.value, str):
        return part.date()
    if isinstance(part.value, bool) or not isinstance(part.value, int) or not part.value:
        raise part.wrong("it must be a year: a whole number other than 0, or a date as YYYY, YYYY-MM or YYYY-MM-DD")
    try:
        return str(Date(part.value))
    except DataError as error:
        raise part.wrong(str(error)) from None
