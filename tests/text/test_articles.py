"""Labels inside a sentence."""

import pytest

from anachron.text.articles import in_sentence


@pytest.mark.parametrize(
    "label",
    [
        "United States",
        "United Kingdom",
        "United Nations",
        "Netherlands",
        "Philippines",
        "Soviet Union",
        "European Union",
        "Roman Empire",
        "Han dynasty",
        "Czech Republic",
        "Republic of Ireland",
        "Kingdom of Prussia",
        "Commonwealth of Nations",
        "Labour Party",
        "Social Democratic Party of Germany",
        "Bank of England",
        "National Gallery in London",
        "International Monetary Fund",
        "Walt Disney Company",
        "New York Yankees",
        "Boston Red Sox",
        "England national football team",
    ],
)
def test_takes_the_article(label: str) -> None:
    assert in_sentence(label) == f"the {label}"


@pytest.mark.parametrize(
    "label",
    [
        "",
        "France",
        "New Zealand",
        "New York City",
        "Vatican City",
        "Barack Obama",
        "Ursula von der Leyen",
        "The Beatles",
        "The Rolling Stones",
        "the Hague",
        "Manchester United F.C.",
        "Rangers F.C.",
        "Led Zeppelin",
        "Kings",
        "NATO",
    ],
)
def test_stays_bare(label: str) -> None:
    assert in_sentence(label) == label


def test_never_doubles_the_article() -> None:
    assert in_sentence(in_sentence("United States")) == "the United States"
