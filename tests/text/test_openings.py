"""How questions begin, and go on behind a date."""

import pytest

from anachron.text.dates import wordings
from anachron.text.openings import behind_opening, guessed_language, openings
from anachron.text.questions import relation_templates


@pytest.mark.parametrize(
    ("question", "subject", "language", "wanted"),
    [
        ("Who was president?", "Chile", "English", "who was president?"),
        ("who was president?", "Chile", "English", "who was president?"),
        ("Who were in Who?", "Who", "English", "Who were in Who?"),
        ("WHO had which head?", "WHO", "English", "WHO had which head?"),
        ("WHOSE flag was it?", "Chile", "English", "WHOSE flag was it?"),
        ("France had which capital?", "France", "English", "France had which capital?"),
        ("The capital of France is", "France", "English", "the capital of France is"),
        ("The Hague is located in", "The Hague", "English", "The Hague is located in"),
        ("The Hague is located in", "The Hag", "English", "the Hague is located in"),
        ("The capital is", "", "English", "the capital is"),
        ("Who led Whoville?", "Whoville", "English", "who led Whoville?"),
        ("The rapper was", "Drake", "German", "The rapper was"),
        ("Qui dirigeait la France ?", "France", "French", "qui dirigeait la France ?"),
        ("Wer regierte Chile?", "Chile", "German", "wer regierte Chile?"),
        ("Quem governava o Chile?", "Chile", "Portuguese", "quem governava o Chile?"),
        ("O presidente do Chile era", "Chile", "Portuguese", "o presidente do Chile era"),
        ("O Globo era de", "O Globo", "Portuguese", "O Globo era de"),
        ("Wer regierte Chile?", "Chile", "English", "Wer regierte Chile?"),
    ],
)
def test_the_first_word_loses_its_capital(question: str, subject: str, language: str, wanted: str) -> None:
    assert behind_opening("", question, subject, language) == wanted
    assert behind_opening("In 2011, ", question, subject, language) == f"In 2011, {wanted}"


@pytest.mark.parametrize(
    ("questions", "language"),
    [
        (["Who led France?", "in which city was it?", "what was it?"], "English"),
        (["Wer regierte Chile?", "Was war die Hauptstadt?"], None),
        (["Wer regierte Chile?", "welches Land war es?", "Was war die Hauptstadt?"], "German"),
        (["Qui dirigeait la France ?", "quelle était la capitale ?"], "French"),
        (["¿Quién gobernaba Chile?", "¿cuál era la capital?"], "Spanish"),
        (["Quem governava o Chile?", "qual era a capital?"], "Portuguese"),
        (["誰が首相でしたか?"], None),
        ([], None),
    ],
)
def test_the_language_of_questions(questions: list[str], language: str | None) -> None:
    assert guessed_language(questions) == language


def test_every_language_of_dates_has_openings_and_the_templates_are_english() -> None:
    assert set(openings()) == {wording.language for wording in wordings().values()}
    for _, questions in relation_templates().values():
        assert guessed_language(questions) in ("English", None)
    assert guessed_language(q for _, questions in relation_templates().values() for q in questions) == "English"
