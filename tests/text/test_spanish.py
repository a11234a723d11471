"""Spanish statements and questions about subjects whose article no rule knows: called what they are, or quoted."""

import re

import pytest

from anachron.text.languages import language_of
from anachron.text.words import language_files

# relations of subjects of all kinds: ships, stadiums, foreign newspapers and universities, products, events
MIXED = (
    "P17", "P98", "P115", "P118", "P123", "P126", "P127", "P131", "P137", "P159", "P169", "P175", "P176", "P178",
    "P263", "P264", "P276", "P286", "P355", "P361", "P371", "P414", "P449", "P466", "P488", "P527", "P634", "P749",
    "P859", "P1037", "P1075", "P1142", "P1308", "P3975",
)  # fmt: skip
LISTS = language_files()["es"]["agreement"]
SPANISH = language_of("es")


@pytest.mark.parametrize("relation", MIXED)
def test_a_name_without_a_known_article_stands_behind_what_it_is(relation: str) -> None:
    behind = "|".join((*LISTS["called"], *LISTS["bare_behind"]))
    worded = SPANISH.relations[relation]
    said = [SPANISH.statement(template, "Mary Rose", "Xanadu") for template in (*worded.cloze, *worded.cloze_past)]
    said += [SPANISH.question(template, "Mary Rose") for template in (*worded.questions, *worded.present)]
    for text in said:
        assert re.search(rf"\b(?:{behind}) Mary Rose\b|«Mary Rose»", text), text


@pytest.mark.parametrize("relation", ("P17", "P131", "P276"))
def test_what_is_of_any_kind_is_called_nothing_and_its_known_article_stays(relation: str) -> None:
    worded = SPANISH.relations[relation]
    for template in (*worded.questions, *worded.present):
        assert re.search(r"\b(?:de|a|situar|ubicar) «Mulhacén»", SPANISH.question(template, "Mulhacén"))
        assert re.search(
            r"\b(?:del|al|(?:situar|ubicar) el) Río Magdalena\b", SPANISH.question(template, "Río Magdalena")
        )
        assert re.search(r"\b(?:de|a|situar|ubicar) La Haya\b", SPANISH.question(template, "La Haya"))


@pytest.mark.parametrize("relation", MIXED)
def test_what_a_subject_is_gives_way_to_its_article_wholly(relation: str) -> None:
    worded = SPANISH.relations[relation]
    for said in (
        *(SPANISH.statement(template, "Real Madrid", "Xanadu") for template in worded.cloze),
        *(SPANISH.question(template, "Real Madrid") for template in worded.questions),
    ):
        assert not re.search(rf"\b(?:{'|'.join(LISTS['called'])}) (?:el )?Real Madrid\b", said), said
        assert not re.search(r"\b(?:de|a) el\b|\b(?:el|la|los|las|del|al) (?:el|la|los|las) ", said), said


@pytest.mark.parametrize(
    ("relation", "number", "subject", "said"),
    [
        ("P127", 0, "Bismarck", "La propiedad del bien o entidad Bismarck corresponde a X"),
        ("P127", 0, "RMS Titanic", "La propiedad del RMS Titanic corresponde a X"),
        ("P98", 0, "Corriere della Sera", "La redacción de la publicación Corriere della Sera la dirige X"),
        ("P1075", 1, "Collège de France", "El rectorado de la universidad Collège de France lo ocupa X"),
        ("P1075", 1, "Universidad de Alcalá", "El rectorado de la Universidad de Alcalá lo ocupa X"),
        ("P286", 3, "Los Angeles Lakers", "La persona que entrena al equipo Los Angeles Lakers es X"),
        ("P286", 3, "Chelsea", "La persona que entrena al equipo Chelsea es X"),
        ("P361", 0, "Mulhacén", "El conjunto o grupo que incluye el elemento Mulhacén es X"),
        ("P17", 0, "Puente Genil", "El país de «Puente Genil» es X"),
        ("P17", 0, "Fallas de Valencia", "El país de las Fallas de Valencia es X"),
        ("P17", 0, "Torres Petronas", "El país de «Torres Petronas» es X"),
        ("P276", 0, "Guerra de las Malvinas", "La ubicación de la Guerra de las Malvinas es X"),
        ("P449", 0, "Ley y orden", "La cadena o emisora del programa «Ley y orden» es X"),
        ("P263", 0, "Lehendakari", "La residencia oficial del Lehendakari es X"),
        ("P54", 0, "Papa Francisco", "El equipo en el que juega el Papa Francisco es X"),
        ("P749", 0, "FBI", "La organización matriz o superior del FBI es X"),
        ("P36", 0, "Francia", "La capital de Francia es X"),
    ],
)  # fmt: skip
def test_a_statement_names_its_subject(relation: str, number: int, subject: str, said: str) -> None:
    assert SPANISH.statement(SPANISH.relations[relation].cloze[number], subject, "X") == said
