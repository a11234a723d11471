"""Questions about offices and other roles in a user's own words: president, prime minister, owner, minister of finance.

Wikidata has one relation for kings and presidents, and people write what they mean. A role in English is asked by its
own name, so it needs no templates.
"""

import re

from anachron.text.questions import SUBJECT_SLOT

ROLES = {
    "president", "premier", "chancellor", "king", "queen", "monarch", "emperor", "empress", "sultan", "emir", "ruler",
    "leader", "mayor", "governor", "minister", "secretary", "ambassador", "speaker", "commissioner", "commander",
    "chief", "justice", "treasurer", "cto", "cfo", "chair", "chairman", "chairwoman", "director", "manager", "owner",
    "editor", "maintainer", "coach", "trainer", "captain", "conductor", "presenter", "host", "rector", "dean",
    "principal", "husband", "wife",
}  # fmt: skip


def role_questions(relation: str) -> tuple[str, str] | None:
    """Question templates in the past and the present tense for a relation that names a role; else None.

    What makes a role is its head: the last word, or the last before ``of`` or ``for`` (minister of finance).
    """
    name = relation.strip().removesuffix(" of")
    words = re.split(r" (?:of|for) ", name)[0].split()
    if not words or words[-1].casefold() not in ROLES:
        return None
    return f"who was the {name} of {SUBJECT_SLOT}?", f"who is the {name} of {SUBJECT_SLOT}?"
