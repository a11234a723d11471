"""Updates in the format of MQuAKE (Zhong and others, EMNLP 2023): counterfactual or temporal edits, asked by chains.

``case_id, requested_rewrite [{prompt with {}, subject, target_new {str}, target_true {str}, relation_id}], questions
[three phrasings], answer, answer_alias, new_answer, new_answer_alias, single_hops, new_single_hops [{question, cloze,
answer, answer_alias}]``. All rewrites of a case are one update, as published. Its tests, by the paper's names:

* ``edit-wise``, one a rewrite: its prompt is completed by the new object.
* ``instance-wise``: every fact of the chain after the edit is, each asked by its ``cloze``.
* ``multi-hop``: any of the phrasings is answered by ``new_answer``.
"""

from anachron.data.updates.case_records import SLOT, EditCase, Part, PortabilityQuestion, PortabilityTest, Rewrite

MQUAKE_REQUIRED = ("requested_rewrite", "questions", "answer", "new_answer", "single_hops", "new_single_hops")
EDIT_WISE, INSTANCE_WISE, MULTI_HOP = "edit-wise", "instance-wise", "multi-hop"


def mquake_case(record: Part, case_id: str) -> EditCase:
    rewrites = record.get("requested_rewrite").items()
    if not rewrites:
        raise record.get("requested_rewrite").wrong("a case needs at least one rewrite")
    before = {hop.get("cloze").prompt(): _names(hop, "answer") for hop in record.get("single_hops").items()}
    for one in rewrites:  # the chain before may not have passed through what a rewrite changes
        if old_object := _target(one, "target_true"):
            before.setdefault(_text(one), (old_object,))
    hops = [_hop(hop, before) for hop in record.get("new_single_hops").items()]
    of_prompt = {hop.prompt: hop for hop in hops}
    tests = [PortabilityTest(EDIT_WISE, (_rewritten(one, of_prompt),)) for one in rewrites]
    tests.append(PortabilityTest(INSTANCE_WISE, tuple(hops), unusable=None if hops else "it has no question"))
    new, old = _names(record, "new_answer"), _names(record, "answer")
    questions = tuple(
        PortabilityQuestion(f"Q: {question.prompt()}\nA:", (new,), old if not set(old) & set(new) else ())
        for question in record.get("questions").items()
    )
    tests.append(PortabilityTest(MULTI_HOP, questions, "any", unusable=None if questions else "it has no question"))
    first, *others = rewrites
    label, replaced = _target(first, "target_new"), _target(first, "target_true")
    return EditCase(
        case_id=case_id, subject=first.get("subject").some_label(), prompt=first.get("prompt").marked_prompt(),
        new=label, old=replaced, relation=first.get("relation_id").label() or None,
        objects=tuple((name, what) for name, what in ((label, "new"), (replaced, "obsolete")) if name),
        tests=tuple(tests),
        rewrites=tuple(
            Rewrite(
                one.get("subject").some_label(), one.get("prompt").marked_prompt(), _target(one, "target_new") or ""
            )
            for one in others
        ),
    )  # fmt: skip


def _text(rewrite: Part) -> str:
    return rewrite.get("prompt").marked_prompt().replace(SLOT, rewrite.get("subject").some_label())


def _target(rewrite: Part, name: str) -> str | None:
    """The new object must be there; of the old one the format may not know."""
    target = rewrite.get(name)
    if name == "target_new":
        return target.get("str").some_label()
    return None if target.value is None else target.get("str").label() or None


def _rewritten(rewrite: Part, hops: dict[str, PortabilityQuestion]) -> PortabilityQuestion:
    """With the other names that the chain gives the new object, where it has this fact."""
    prompt = _text(rewrite)
    new, old = _target(rewrite, "target_new") or "", _target(rewrite, "target_true")
    hop = hops.get(prompt)
    names = (new, *(name for name in hop.answers[0] if name != new)) if hop and new in hop.answers[0] else (new,)
    return PortabilityQuestion(prompt, (names,), (old,) if old else ())


def _hop(hop: Part, before: dict[str, tuple[str, ...]]) -> PortabilityQuestion:
    """A fact of the chain after the edit; its old answer is that of the same cloze before, where it has changed."""
    prompt, names = hop.get("cloze").prompt(), _names(hop, "answer")
    old = before.get(prompt, ())
    return PortabilityQuestion(prompt, (names,), old if old and old[0] != names[0] else ())


def _names(part: Part, name: str) -> tuple[str, ...]:
    aliases = [alias.label() for alias in part.get(f"{name}_alias").items()]
    return tuple(dict.fromkeys([part.get(name).some_label(), *(alias for alias in aliases if alias)]))
