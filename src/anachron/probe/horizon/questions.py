"""What is asked about a change: present-tense wordings, and names to compare its two values with."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, log

from anachron.core.draws import draw
from anachron.probe.horizon.changes import Change
from anachron.text.cloze import OBJECT_SLOT, bundled_cloze, fill_cloze
from anachron.text.kinds import subject_kind
from anachron.text.languages import language_of
from anachron.text.questions import SUBJECT_SLOT, fill_question
from anachron.text.roles import role_questions
from anachron.text.words import words_of

OTHERS = 3  # plausible values that the old one must beat
DECOYS = 3  # more of them, in the place of the new one
BEFORE = 3  # of the values that the subject had earlier, so many of the latest are scored
STATEMENTS = 2  # of the statements of a relation that are used, beside its question


@dataclass(frozen=True, slots=True)
class ChangeToAsk:
    """A change, the prompts that a value answers, and other values of its kind.

    others: values that its subject never had, which the old one must beat for the subject to count as known. decoys:
    more of them, in the place of the new value: how often one beats the old value is the chance of a name that nothing
    is known of. Fewer, or none, where the changes give too few values.
    """

    change: Change
    prompts: tuple[str, ...]
    others: tuple[str, ...]
    decoys: tuple[str, ...]

    @property
    def question(self) -> str:
        """The prompt that is a question: the last, after the statements."""
        return self.prompts[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """All that is scored behind each prompt: the new value, where there is one, and the rest."""
        change = self.change
        found = (change.new, change.old, *change.before[-BEFORE:], *self.others, *self.decoys)
        return tuple(dict.fromkeys(name for name in found if name))


@cache
def change_wordings() -> Mapping[str, tuple[str, ...]]:
    """Relation -> its statements and its question, of relations that changes need others of than dated facts do: an
    office that is the subject itself (President of France), the latest winner of a race, the newest release."""
    entries = words_of("English", "changes").items()
    return {relation: (*entry["statements"], entry["question"]) for relation, entry in entries}


def bundled_wordings(change: Change) -> tuple[str, ...]:
    """Prompts in the present tense that the value follows: statements and a question; none of a relation without.

    Those of `change_wordings`, else of the relation; of a role (president, head coach) its own question.
    """
    if (own := change_wordings().get(change.relation)) is not None:
        return tuple(template.replace(SUBJECT_SLOT, change.subject) for template in own)
    language = language_of("en")
    relation = language.relation_id(change.relation_id, change.relation)
    if relation is not None:
        kind, templates = subject_kind(relation), bundled_cloze()[relation].templates[:STATEMENTS]
        statements = [
            fill_cloze(template, change.subject, OBJECT_SLOT, kind=kind).removesuffix(f" {OBJECT_SLOT}")
            for template in templates
        ]
        question = language.question(language.relations[relation].present[0], change.subject, kind)
        return (*statements, question)
    role = role_questions(change.relation)
    if role is not None and role.person:
        subject = fill_question("[SUBJ]", change.subject)
        return f"The {change.relation.removesuffix(' of')} of {subject} is", fill_question(role.present, change.subject)
    return ()


def changes_to_ask(changes: Sequence[Change]) -> list[ChangeToAsk]:
    """The changes that can be asked, in their order, each with names drawn from other subjects of its group.

    The draw depends on the change and on the values of its group alone. Where the changes have popularity, the decoys
    are those whose subjects are about as popular (by powers of e), for names that are read more often win more often.
    """
    values: dict[str, set[str]] = defaultdict(set)
    popular: dict[tuple[str, str], float] = {}
    held: dict[tuple[str, str], set[str]] = defaultdict(set)
    for change in changes:
        own = {value for value in (change.old, change.new, *change.before) if value}
        held[change.subject, change.relation] |= own
        if not change.control:
            values[change.group] |= own
            for value in own if change.popularity else ():
                popular[change.group, value] = max(popular.get((change.group, value), 0.0), change.popularity or 0.0)
    found = []
    for change in changes:
        prompts = tuple(dict.fromkeys(bundled_wordings(change)))
        own = held[change.subject, change.relation]
        pool = sorted(
            values[change.group] - own,
            key=lambda name: draw("other", f"{change.subject}\n{change.relation}\n{change.date}\n{name}"),
        )
        if prompts:
            decoys = sorted(pool[OTHERS:], key=lambda name: _apart(change, popular.get((change.group, name))))
            found.append(ChangeToAsk(change, prompts, tuple(pool[:OTHERS]), tuple(decoys[:DECOYS])))
    return found


def _apart(change: Change, popularity: float | None) -> float:
    """How far apart in popularity, in whole powers of e; where that is not known, behind all others."""
    if not change.popularity:
        return 0.0
    return round(abs(log(change.popularity / popularity))) if popularity else inf
