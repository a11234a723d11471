"""Updates in the formats of editing benchmarks: CounterFact, zsRE, and EasyEdit's flat records of either.

CounterFact (ROME, appendix D): ``requested_rewrite {prompt with {}, subject, target_new {str}, target_true {str},
relation_id}, paraphrase_prompts, neighborhood_prompts``; neighbours are other subjects with the object
``target_true``. `anachron export counterfact` writes it too, with ``date_of_change`` and ``periods`` besides.

zsRE, as MEND and ROME evaluate it: ``subject, src, rephrase, alt, answers, loc, loc_ans``; ``src`` is the question,
``alt`` the object to be made true (as MEND and EasyEdit use it; ROME's own evaluation teaches the first of ``answers``
instead), the first of ``answers`` the one that was true before and the rest its other names, ``loc`` a question of
Natural Questions without its question mark.

Flat (EasyEdit): ``prompt, subject, target_new`` and maybe ``ground_truth, rephrase_prompt, locality_prompt,
locality_ground_truth``, each a text or a list of texts; KnowEdit says ``rephrase`` for ``rephrase_prompt``.

Both may bring ``portability``: ``{New Question, New Answer}`` (one hop) in EasyEdit's zsRE, ``{KIND: [{prompt,
ground_truth}]}`` in KnowEdit's flat records, where ``ground_truth`` is a text, a list of the names of one answer, or a
list of such lists, one an answer. Flat records may bring ``locality`` in the latter form, too (KINDs are
``Relation_Specificity`` and ``Forgetfulness``), or as ``{KIND: {prompt, ground_truth}}`` with two texts or two lists of
one length, as EasyEdit's editor takes it (``neighborhood``): neighbours of which each has the first name of each
answer.
"""

from collections.abc import Sequence
from dataclasses import replace

from anachron.data.updates.case_records import (
    EditCase,
    NeighbourFact,
    Part,
    PortabilityQuestion,
    PortabilityTest,
    granularity_of,
    whole_prompt,
)

NQ = "nq question:"  # what MEND puts before a question of Natural Questions


def counterfact_start(record: Part) -> str | None:
    """First date on which the new object is true; only our own exports say it."""
    return record.get("date_of_change").date()


def counterfact_case(record: Part, case_id: str) -> EditCase:
    asked = record.get("requested_rewrite")
    prompt = asked.get("prompt").marked_prompt()
    target = {name: asked.get(name) for name in ("target_new", "target_true")}
    new, old = (None if part.value is None else part.get("str").label() for part in target.values())
    neighbours = record.get("neighborhood_prompts")
    alike = neighbours.prompts()
    if alike and not old:
        raise neighbours.wrong("its facts have the object requested_rewrite.target_true, which is missing; give it")
    periods = record.get("periods")
    held = {name: [] if periods.value is None else periods.get(name).items() for name in target}
    start = counterfact_start(record)
    label = record.get("relation_label").label() or None
    return EditCase(
        case_id=case_id, subject=asked.get("subject").some_label(), prompt=prompt, new=new, old=old or None,
        generalization=record.get("paraphrase_prompts").prompts(),
        nearest=tuple(NeighbourFact(text, (old,), None, None, None) for text in alike if old),
        relation=asked.get("relation_id").label() or label, objects=objects_of(new, old), start=start,
        end=held["target_new"][-1].date() if held["target_new"] else None, precision=granularity_of(start),
        old_start=held["target_true"][0].date() if held["target_true"] else None,
        old_end=held["target_true"][-1].date() if held["target_true"] else None, relation_label=label,
    )  # fmt: skip


def zsre_case(record: Part, case_id: str) -> EditCase:
    return _case(record, case_id, prompt="src", new="alt", old="answers", other="rephrase", located=("loc", "loc_ans"))


def flat_case(record: Part, case_id: str) -> EditCase:
    located = ("locality_prompt", "locality_ground_truth")
    case = _case(
        record, case_id, prompt="prompt", new="target_new", old="ground_truth", other="rephrase_prompt", located=located
    )
    nearest, without_answer = _locality(record.get("locality"))
    words = dict.fromkeys((*case.generalization, *record.get("rephrase").prompts()))  # what KnowEdit calls them
    return replace(
        case, generalization=tuple(words), nearest=(*case.nearest, *nearest), tests=(*case.tests, *without_answer)
    )


def _case(
    record: Part, case_id: str, *, prompt: str, new: str, old: str, other: str, located: tuple[str, str]
) -> EditCase:
    """From a record with these names for its prompt, its objects, its other prompt, and a neighbour and its object."""
    target = record.get(new).label()
    names = record.get(old).labels()
    before = names[0] if names else None
    return EditCase(
        case_id=case_id, subject=record.get("subject").some_label(), prompt=whole_prompt(record.get(prompt)),
        new=target, old=before, generalization=record.get(other).prompts(),
        nearest=_located(record.get(located[0]), record.get(located[1])), objects=objects_of(target, before),
        aliases=tuple((names[0], name) for name in dict.fromkeys(names[1:]) if name != names[0]),
        tests=_tests(record.get("portability")),
    )  # fmt: skip


def _tests(portability: Part) -> tuple[PortabilityTest, ...]:
    if portability.value is None:
        return ()
    if portability.get("New Question").value is not None:
        return (question_test("one hop", portability.get("New Question"), portability.get("New Answer")),)
    return tuple(
        question_test(str(kind).replace("_", " ").lower(), one.get("prompt"), one.get("ground_truth"))
        for kind in portability.record()
        for one in portability.get(kind).items()
    )


def question_test(kind: str, prompt: Part, truth: Part) -> PortabilityTest:
    """One question as a test. truth: the names of its answer, or a list of such, one an answer; without any it cannot
    be asked."""
    several = isinstance(truth.value, list) and any(isinstance(one, list) for one in truth.value)
    answers = tuple(one.labels() for one in (truth.items() if several else [truth]))
    unusable = None if answers and all(answers) else "it has no answer"
    return PortabilityTest(kind, (PortabilityQuestion(prompt.prompt(), answers),), unusable=unusable)


def _locality(locality: Part) -> tuple[tuple[NeighbourFact, ...], tuple[PortabilityTest, ...]]:
    """The neighbours of each kind, and the questions without an answer."""
    if locality.value is None:
        return (), ()
    read = [
        question_test(str(kind).replace("_", " ").lower(), prompt, truth)
        for kind in locality.record()
        for prompt, truth in _asked(locality.get(kind))
    ]
    return facts_to_keep(read)


def facts_to_keep(
    read: Sequence[PortabilityTest],
) -> tuple[tuple[NeighbourFact, ...], tuple[PortabilityTest, ...]]:
    """Questions as neighbours, and those without an answer: EasyEdit passes over these, here they count as tests that
    cannot be asked, so that an evaluation says how many there are.
    """
    facts = tuple(
        NeighbourFact(_as_question(question.prompt), tuple(names[0] for names in question.answers), None, None, None)
        for test in read
        if test.unusable is None
        for question in test.questions
    )
    return facts, tuple(test for test in read if test.unusable is not None)


def _asked(kind: Part) -> list[tuple[Part, Part]]:
    """The prompts of a kind with their answers."""
    if not isinstance(kind.value, dict):
        return [(one.get("prompt"), one.get("ground_truth")) for one in kind.items()]
    prompt, truth = kind.get("prompt"), kind.get("ground_truth")
    if not isinstance(prompt.value, list):
        return [(prompt, truth)]
    prompts, truths = prompt.items(), truth.items()
    if len(prompts) != len(truths):
        raise truth.wrong(f"it must hold one answer for each of {prompt.path}, of which there are {len(prompts)}")
    return list(zip(prompts, truths, strict=True))


def _located(prompts: Part, answers: Part) -> tuple[NeighbourFact, ...]:
    """A neighbour with its one or several true objects, or as many neighbours as objects."""
    asked = tuple(_as_question(prompt) for prompt in prompts.prompts())
    true = answers.labels()
    if not isinstance(prompts.value, list) and asked and true:
        return (NeighbourFact(asked[0], true, None, None, None),)
    if len(asked) != len(true):
        raise answers.wrong(f"it must hold one true object for each of {prompts.path}, of which there are {len(asked)}")
    return tuple(NeighbourFact(p, (o,), None, None, None) for p, o in zip(asked, true, strict=True))


def _as_question(prompt: str) -> str:
    """With the mark that MEND leaves off; ROME's evaluation puts it back as well."""
    return f"{prompt}?" if prompt.startswith(NQ) and not prompt.endswith("?") else prompt


def objects_of(new: str | None, old: str | None) -> tuple[tuple[str, str], ...]:
    pairs = ((new, "new"), (old, "obsolete"))
    return tuple((label, decision) for label, decision in pairs if label)


def is_nq(record: Part) -> bool | None:
    """Whether a flat record's neighbours are questions of Natural Questions, as in zsRE; None where it has none."""
    prompts = record.get("locality_prompt").prompts()
    return all(prompt.startswith(NQ) for prompt in prompts) if prompts else None
