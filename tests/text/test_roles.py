"""Relations that are asked by their own words, in every language with ``roles``, and which are not."""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.text.agreement import in_doubt, in_phrase
from anachron.text.languages import language_of
from anachron.text.roles import PERSON, ROLE_SLOT, role_of, role_questions
from anachron.text.templates import FactToWord, Verbalised, asked_by_name, by_templates_or_role
from anachron.text.words import by_language, in_tenses

WRITTEN = list(csv.DictReader((Path(__file__).parent / "questions_by_name.csv").read_text("utf-8").splitlines()))
RULES: dict[str, Any] = dict(by_language("roles"))


def test_forty_questions_or_more_were_written_by_hand_in_each_language() -> None:
    counts = Counter(row["language"] for row in WRITTEN)
    assert all(counts[code] >= 40 for code in ("en", "de", "fr", "es", "pt"))


@pytest.mark.parametrize("row", WRITTEN, ids=lambda row: f"{row['language']}, {row['subject']}, {row['relation']}")
def test_a_question_is_the_one_that_was_written_by_hand(row: dict[str, str]) -> None:
    found = asked_by_name(row["relation"], row["subject"], language_of(row["language"]))
    assert (found.past if found else "") == row["question"]


@pytest.mark.parametrize("row", [row for row in WRITTEN if row["question"]][::4], ids=lambda row: row["question"])
def test_the_present_differs_in_its_verb_alone(row: dict[str, str]) -> None:
    found = asked_by_name(row["relation"], row["subject"], language_of(row["language"]))
    assert found is not None
    past, present = found.past.split(" "), found.present.split(" ")
    changed = [(was, is_) for was, is_ in zip(past, present, strict=True) if was != is_]
    assert len(changed) == 1 and changed[0] in {
        ("was", "is"), ("were", "are"), ("war", "ist"), ("lautete", "lautet"), ("lag", "liegt"), ("était", "est"),
        ("trouvait", "trouve"), ("era", "es"), ("estaba", "está"), ("era", "é"), ("ficava", "fica"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("language", "relation"),
    [
        ("English", "educated at"), ("English", "member of"), ("English", "works for"), ("English", "plays for"),
        ("English", "capital of"), ("English", "owned by"), ("English", "plays position"), ("English", "employees"),
        ("English", "winner (latest edition)"), ("English", "director / manager"), ("English", "of"), ("English", ""),
        ("English", "top 10 rank"), ("German", "Mitglied von"), ("German", "Mitarbeiter"), ("German", "geboren in"),
        ("German", "Hauptstadt von"), ("German", "Präsident/in"), ("French", "né à"), ("French", "membre de"),
        ("French", "capitale de"), ("French", "habitants"), ("Spanish", "nacido en"), ("Spanish", "miembro de"),
        ("Spanish", "capital de"), ("Spanish", "habitantes"), ("Portuguese", "nascido em"),
        ("Portuguese", "membro de"), ("Portuguese", "capital de"), ("Portuguese", "habitantes"), ("Japanese", "首相"),
    ],
)  # fmt: skip
def test_what_is_no_noun_in_the_singular_is_not_asked(language: str, relation: str) -> None:
    assert role_questions(relation, language) is None


@pytest.mark.parametrize(
    ("language", "relation", "person", "sure"),
    [
        ("English", "president of", True, True), ("English", "owner", False, True), ("English", "version", False, True),
        ("English", "motivation", False, False), ("German", "Motivation", False, False),
        ("German", "Staatssekretär", True, True), ("French", "motivation", False, False),
        ("French", "président de", True, True), ("Spanish", "motivación", False, False),
        ("Spanish", "alcaldesa", True, True), ("Portuguese", "motivação", False, False),
        ("Portuguese", "presidente da câmara", True, True), ("Portuguese", "primeira-ministra", True, True),
    ],
)  # fmt: skip
def test_who_is_asked_for_and_how_sure_that_is(language: str, relation: str, person: bool, sure: bool) -> None:
    found = role_questions(relation, language)
    assert found is not None and (found.person, found.sure) == (person, sure)


@pytest.mark.parametrize("language", RULES)
def test_each_class_asks_in_both_tenses_and_no_noun_is_in_two(language: str) -> None:
    rules = RULES[language]
    assert rules["head"] in ("first", "last") and rules["behind"]
    seen: Counter[str] = Counter()
    for one in rules["classes"]:
        assert one["asks"] in (PERSON, "who", "what", "where") and (one.keys() & {"nouns", "endings"})
        present, past = in_tenses(one["question"])
        assert present != past and past.count(ROLE_SLOT) == past.count("[SUBJ]") == 1 and past.count("?") == 1
        seen.update(noun.casefold() for noun in one.get("nouns", ()))
    assert not [noun for noun, count in seen.items() if count > 1]


@pytest.mark.parametrize("language", RULES)
def test_every_listed_noun_is_asked_by_its_class(language: str) -> None:
    for one in RULES[language]["classes"]:
        for noun in one.get("nouns", ()):
            found = role_questions(noun, language)
            assert found is not None and found.sure and found.person == (one["asks"] == PERSON), noun
            unjoined = r"\[ROLE\]|  " + (r"|\b[Ll][ea] [aeiouéê]" if language == "French" else "")
            assert not re.search(unjoined, found.past), found.past


def test_a_relation_without_its_subject() -> None:
    assert role_of("President of Italy", "Italy") == "President"
    assert role_of("president of the republic", "Italy") == "president of the republic"
    assert role_of("président de la France", "France", "French") == "président"
    assert role_of("Präsident", "Frankreich", "German") == "Präsident"
    assert role_of("Presidente dos Estados Unidos", "Estados Unidos", "Portuguese") == "Presidente"


def test_a_question_says_whether_the_rules_are_sure() -> None:
    def made(subject: str, relation: str, code: str) -> bool:
        outcome = by_templates_or_role(FactToWord("f", subject, relation, "x", relation), language=language_of(code))
        assert isinstance(outcome, Verbalised)
        return outcome.sure

    assert made("Kenya", "president", "en") and not made("Kenya", "motivation", "en")
    assert made("France", "président", "fr") and not made("zouave du pont", "président", "fr")
    assert by_templates_or_role(FactToWord("f", "zouave du pont", "P36", "x"), language=language_of("fr")).sure is False  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("language", "subject", "doubt"),
    [
        ("French", "zouave du pont", True), ("French", "musée du Louvre", False), ("French", "Lyon", False),
        ("German", "Goldener Löwe", True), ("German", "Goldene Palme", False), ("German", "Walter Hill", False),
        ("Spanish", "zócalo de Puebla", True), ("Spanish", "catedral de Reims", False), ("English", "anything", False),
        ("French", "", False),
    ],
)  # fmt: skip
def test_a_name_is_in_doubt_where_it_seems_a_noun_of_no_known_gender(language: str, subject: str, doubt: bool) -> None:
    assert in_doubt(subject, language) is doubt


NAMES = sorted({row["subject"] for row in WRITTEN} | {"Alpes", "École", "Weimarer Republik", "Los Angeles", "Le Havre"})


@given(
    st.sampled_from(NAMES),
    st.sampled_from(["fr", "de", "es", "pt"]),
    st.sampled_from(["president", "Chef", "jefe", "chef", "presidente", "sede"]),
)
def test_a_question_names_its_subject_and_doubles_no_article(subject: str, code: str, relation: str) -> None:
    found = asked_by_name(relation, subject, language_of(code))
    if found is None:
        return
    last = re.sub(r"^(?:Le|Les|La) ", "", subject).split()[-1]
    assert last[:5] in found.past and found.past.count("?") == 1
    assert not re.search(r"\b(der|die|das|des|le|la|les|el|los|las) (der|die|das|des|le|les|el|los|las)\b", found.past)
    assert code != "pt" or not re.search(r"\b(de|[dn]?[oa]s?) [oa]s?\b", found.past)


@pytest.mark.parametrize("subject", NAMES)
def test_a_name_with_its_article_is_joined_as_the_name_without(subject: str) -> None:
    _, name = in_phrase("lag ", subject, "German")
    if re.match(r"(der|die|das) ", name):
        for before in ("lag ", "für ", "Hauptstadt von "):
            assert in_phrase(before, name, "German") == in_phrase(before, subject, "German")
    assert in_phrase("x ", subject, "English") == ("x ", subject)
