"""Updates in the formats of two benchmarks of lifelong editing, which ask questions and know no old object.

WikiBigEdit (Thede and others, ICML 2025; changes of Wikidata between two dates of 2024, a file each): ``subject,
update, rephrase, ans, loc, loc_ans`` and maybe ``personas`` (the question as a character would ask it), ``mhop,
mhop_ans`` (a question of two steps), ``relation, relation_id``. An empty cell is null or NaN. Personas and the question
of two steps tell portability. ``tag`` (new or update) is not used: what was true before is not given.

UltraEditBench (Gu and others, 2025): ``subject, prompt, rephrase_prompt, ans, loc, loc_ans``.

``loc`` is a question about another fact, which must stay, with its own answer. Fields as the published pipeline writes
them and the published loaders read them (ExplainableML/WikiBigEdit, XiaojieGu/UltraEdit, zjunlp/EasyEdit).
"""

from dataclasses import replace

from anachron.data.updates.case_records import EditCase, Part, whole_prompt
from anachron.data.updates.case_requests import facts_to_keep, objects_of, question_test

WIKIBIGEDIT_REQUIRED = ("subject", "update", "rephrase", "ans", "loc", "loc_ans")
ULTRAEDITBENCH_REQUIRED = ("subject", "prompt", "rephrase_prompt", "ans", "loc", "loc_ans")


def wikibigedit_case(record: Part, case_id: str) -> EditCase:
    asked = [(name.replace("_", " "), record.get(name), record.get("ans")) for name in _personas(record)]
    asked.append(("multi-hop", record.get("mhop"), record.get("mhop_ans")))
    tests = [question_test(kind, prompt, truth) for kind, prompt, truth in asked if prompt.label()]
    label = record.get("relation").label() or None
    case = _case(record, case_id, prompt="update", other="rephrase")
    return replace(
        case, relation=record.get("relation_id").label() or label, relation_label=label, tests=(*tests, *case.tests)
    )


def ultraeditbench_case(record: Part, case_id: str) -> EditCase:
    return _case(record, case_id, prompt="prompt", other="rephrase_prompt")


def _personas(record: Part) -> list[str]:
    """The published code takes every field of this beginning, one a character; the published files have one."""
    return [name for name in record.record() if name.startswith("personas")]


def _case(record: Part, case_id: str, *, prompt: str, other: str) -> EditCase:
    """From a record with these names for its prompt and its other prompt."""
    new, located = record.get("ans").label(), record.get("loc")
    read = [question_test("locality", located, record.get("loc_ans"))] if located.label() else []
    nearest, without_answer = facts_to_keep(read)
    return EditCase(
        case_id=case_id, subject=record.get("subject").label() or "", prompt=whole_prompt(record.get(prompt)),
        new=new, old=None, generalization=record.get(other).prompts(), nearest=nearest, objects=objects_of(new, None),
        tests=without_answer,
    )  # fmt: skip
