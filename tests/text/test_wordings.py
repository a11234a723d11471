"""Templates for subjects nobody foresaw: they ask for what the relation means, and go with teams in the plural."""

import re

import pytest

from anachron.data.bundled.mini_updates import mini_updates
from anachron.text.cloze import bundled_cloze
from anachron.text.questions import relation_templates

# whose subjects may be teams, and so in the plural: the Atlanta Braves
OF_TEAMS = ("P115", "P118", "P127", "P159", "P169", "P286", "P488", "P505", "P634", "P822", "P831", "P859", "P1037")
# a word that asks something else than the relation, or holds for subjects of some kinds alone
NARROWER = {
    "P17": "ruled", "P31": "represents", "P36": "seat|governed", "P53": "dynasty", "P54": "shirt|professional|club",
    "P81": "rail ?way", "P85": "national", "P98": "journalist", "P106": "trade|calling|living", "P108": "where",
    "P115": "ground", "P118": r"\bin\?", "P122": "how", "P127": "to whom", "P140": "profess|follow",
    "P276": r"kept|\bhome\b", "P449": r"what was the broadcaster|\bairs\b", "P451": "outside|romantic|attached",
    "P463": "band|learned|academy|body of people", "P527": "who was|musician|line-up|played", "P551": "settled",
    "P768": "elected|stands for", "P1376": r"governed from \[SUBJ\]\?|seat", "P1304": "money",
}  # fmt: skip
_SUBJECT_OF_A_VERB = re.compile(r"(?:^|, |\b(?:that|which|where|whom|what|when|team) )\[SUBJ\] (\w+)")


@pytest.mark.parametrize("relation", OF_TEAMS)
def test_no_verb_agrees_with_a_team_that_may_be_plural(relation: str) -> None:
    for template in bundled_cloze()[relation].templates:
        assert not _SUBJECT_OF_A_VERB.search(template), template
    for question in relation_templates()[relation][1]:
        assert not re.search(r"\b(?:was|were|has|is) \[SUBJ\]|\[SUBJ\] (?:was|were|has|is)\b", question), question


def test_no_prompt_of_mini_updates_gives_a_plural_team_a_singular_verb() -> None:
    seen = 0
    for row in mini_updates().iter_rows(named=True):
        subject = row["subject"]["label"]
        if row["relation"]["id"] in OF_TEAMS and f"the {subject}" in row["update_prompt"]:
            seen += 1
            for prompt in (row["update_prompt"], *row["generalization_prompts"]):
                before, _, after = prompt.partition(f"the {subject}")
                opens = not before or re.search(r"(?:, |\b(?:that|which|where|whom|team) )$", before)
                assert not (opens and re.match(r" \w+s\b", after)), prompt
    assert seen > 10


@pytest.mark.parametrize("relation", NARROWER)
def test_a_template_asks_for_the_object_of_any_subject(relation: str) -> None:
    wordings = [*relation_templates()[relation][1], *bundled_cloze()[relation].templates]
    assert not [wording for wording in wordings if re.search(NARROWER[relation], wording, re.IGNORECASE)]
