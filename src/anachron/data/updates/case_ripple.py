"""Updates in the format of RippleEdits (Cohen and others, TACL 2024): an edit, and six kinds of tests.

``example_type``, ``edit {prompt, subject_id, relation, target_id, original_fact {prompt, ...}}`` and a list of tests
for each of `KINDS`: ``test_queries``, ``condition_queries`` and ``test_condition`` (OR or AND). A query is ``prompt,
answers [{value, aliases}], subject_id, relation, target_ids``. Recent examples have no ``original_fact``
(``previous_fact`` in the published code).

A record names neither subject nor object: its prompts are whole sentences, "The name of the mother of SUBJECT is
OBJECT." They are taken apart by the forms that these sentences have; where the record knows a name of the object
(an answer with the same id) or the sentence of the original fact, those decide. A file of your own may say
``edit.subject``.
"""

import re
from collections.abc import Iterator

from anachron.data.updates.case_records import EditCase, Part, PortabilityQuestion, PortabilityTest

KINDS = {
    "Relation_Specificity": "relation specificity",
    "Logical_Generalization": "logical generalization",
    "Subject_Aliasing": "subject aliasing",
    "Compositionality_I": "compositionality I",
    "Compositionality_II": "compositionality II",
    "Forgetfulness": "forgetfulness",
}
RIPPLE_REQUIRED = ("edit", *(name for name in KINDS if name != "Forgetfulness"))  # which recent examples may lack
EDIT = "edit"  # the kind of the test whether the edit itself has worked
CONDITIONS = {None: "any", "OR": "any", "AND": "all"}
_VERBS = (" is", " are", " follows", " by")  # the last words of a sentence without its object
# Where the subject stands in a sentence without its object: one form for each relation that is not "The R of S is".
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"The .*? which (.*) (?:is associated with|is part of|is a member of|is the capital of|plays in) is",
        r"The .*? held by (.*) is",
        r"The .*? award (.*) won is",
        r"The number of children (.*) has is",
        r"The .*? (?:currency|performed) in (.*) is",
    )
)


def ripple_case(record: Part, case_id: str) -> EditCase:
    edit = record.get("edit")
    original = next((edit.get(name) for name in ("original_fact", "previous_fact") if edit.get(name).value), None)
    known = _names_of_object(record, edit.get("target_id").value)
    prompt, new = _apart(edit, known, None if original is None else _sentence(original))
    old = _sentence(original)[len(prompt) :].strip() if original and _sentence(original).startswith(prompt) else None
    subject = edit.get("subject").label() or _subject(prompt, edit.get("relation").label() or "")
    names = tuple(dict.fromkeys(name for name in (new, *known) if name))
    itself = PortabilityQuestion(prompt, (names,), (old,) if old else ())
    tests = [PortabilityTest(EDIT, (itself,), rule="contains", unusable=None if names else "the edit has no object")]
    for field, kind in KINDS.items():
        tests += [_test(test, kind, edit, names, old) for test in record.get(field).items()]
    return EditCase(
        case_id=case_id, subject=subject or "", prompt=prompt, new=new, old=old or None,
        relation=edit.get("relation").label() or None, aliases=tuple((new, name) for name in names if name != new),
        objects=tuple((label, decision) for label, decision in ((new, "new"), (old, "obsolete")) if label),
        tests=tuple(tests),
    )  # fmt: skip


def _sentence(fact: Part) -> str:
    """Of a fact, without its full stop."""
    return fact.get("prompt").prompt().removesuffix(".").rstrip(" ")


def _apart(edit: Part, known: tuple[str, ...], original: str | None) -> tuple[str, str]:
    """The prompt and the object of the edit's sentence, "The mother of X is" and "Y"."""
    relation = edit.get("relation").label() or ""
    sentence = f"{_sentence(edit)} "  # an object may be empty, as some are in published files
    places = [place for place, letter in enumerate(sentence) if letter == " "]
    splits = [(sentence[:place], sentence[place:].strip()) for place in places]
    if given := edit.get("subject").label():
        splits = [split for split in splits if given in split[0] and split[0].endswith(_VERBS)]
    else:
        splits = [split for split in splits if _subject(split[0], relation) is not None]
    if not splits:
        raise edit.get("prompt").wrong(
            "it must be a sentence as RippleEdits has them, 'The RELATION of SUBJECT is OBJECT.'; "
            "give edit.subject if it names its subject in another way"
        )
    shared = [split for split in splits if original is not None and f"{original} ".startswith(f"{split[0]} ")]
    named = [split for split in splits if split[1] in known]
    return (named or shared[::-1] or splits)[0]


def _subject(prompt: str, relation: str) -> str | None:
    """The subject of "The R of S is" and its like, maybe empty; None where the prompt has no such form."""
    if relation in ("FOLLOWS", "FOLLOWED_BY"):
        match = re.fullmatch(r"(.*) (?:follows|is followed by)", prompt)
        return match[1].strip() if match else None
    for form in _FORMS:
        if match := form.fullmatch(prompt):
            return match[1].strip()
    inside = relation.split("_").count("OF")  # "country of citizenship of S": the second "of" stands before S
    words = "(?:(?! which ).)*? of "
    match = re.fullmatch(rf"The (?:names? of the |(?!names? of )){words * (inside + 1)}(.*) (?:is|are)", prompt)
    return match[1].strip() if match else None


def _names_of_object(record: Part, target_id: object) -> tuple[str, ...]:
    """Names of the edit's object, as answers with its id give them; none where no query asks for it."""
    for query in _queries(record):
        ids, answers = query.get("target_ids").value, query.get("answers").items()
        if target_id and query.get("query_type").value != "two_hop" and ids == [target_id] and len(answers) == 1:
            return _names(answers[0])
    return ()


def _queries(record: Part) -> Iterator[Part]:
    for field in KINDS:
        for test in record.get(field).items():
            yield from (*test.get("test_queries").items(), *test.get("condition_queries").items())


def _test(test: Part, kind: str, edit: Part, new: tuple[str, ...], old: str | None) -> PortabilityTest:
    queries, conditions = test.get("test_queries").items(), test.get("condition_queries").items()
    wanted = test.get("test_condition")
    if wanted.value not in CONDITIONS:
        raise wanted.wrong("it must be OR or AND")
    questions = tuple(_question(query, edit, new, old) for query in queries)
    asked_before = tuple(_question(query, edit, (), None) for query in conditions)
    unusable = None
    if not questions:
        unusable = "it has no question"
    elif not all(q.answers and all(q.answers) for q in (*questions, *asked_before)):
        unusable = "a question has no answer, or one of a single letter"
    return PortabilityTest(kind, questions, CONDITIONS[wanted.value], asked_before, "contains", unusable)


def _question(query: Part, edit: Part, new: tuple[str, ...], old: str | None) -> PortabilityQuestion:
    """The old object is the old answer where the new one is the answer, for the same relation."""
    answers = tuple(_names(answer) for answer in query.get("answers").items())
    same = query.get("relation").value == edit.get("relation").value and query.get("query_type").value != "two_hop"
    replaced = same and old and len(answers) == 1 and bool(set(answers[0]) & set(new))
    return PortabilityQuestion(query.get("prompt").prompt(), answers, (old,) if replaced and old else ())


def _names(answer: Part) -> tuple[str, ...]:
    """Label and aliases; as in the published code without those of one letter, which any text would contain."""
    names = [answer.get("value").label(), *(alias.label() for alias in answer.get("aliases").items())]
    return tuple(dict.fromkeys(name for name in names if name and (len(name) > 1 or name.isdigit())))
