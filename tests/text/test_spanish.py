"""Spanish statements about subjects whose article no rule knows: they say what the subject is, or that it is a name."""

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
    behind = "|".join((*LISTS["called"], *LISTS["bare_behind"], *LISTS["named_behind"], "se conoce como"))
    for template in (*SPANISH.relations[relation].cloze, *SPANISH.relations[relation].cloze_past):
        statement = SPANISH.statement(template, "Mary Rose", "Xanadu")
        assert re.search(rf"\b(?:{behind}) Mary Rose\b", statement), statement


@pytest.mark.parametrize("relation", MIXED)
def test_what_a_subject_is_gives_way_to_its_article_wholly(relation: str) -> None:
    for template in SPANISH.relations[relation].cloze:
        said = SPANISH.statement(template, "Real Madrid", "Xanadu")
        assert not re.search(rf"\b(?:{'|'.join(LISTS['called'])}) (?:el )?Real Madrid\b", said), said
        assert not re.search(r"\b(?:de|a) el\b|\b(?:el|la|los|las|del|al) (?:el|la|los|las) ", said), said


@pytest.mark.parametrize(
    ("relation", "number", "subject", "said"),
    [
        ("P127", 1, "Bismarck", "La persona u organización propietaria del bien o entidad Bismarck es X"),
        ("P127", 1, "RMS Titanic", "La persona u organización propietaria del RMS Titanic es X"),
        ("P98", 0, "Corriere della Sera", "La redacción de la publicación Corriere della Sera la dirige X"),
        ("P1075", 1, "Collège de France", "El rectorado de la universidad Collège de France lo ocupa X"),
        ("P1075", 1, "Universidad de Alcalá", "El rectorado de la Universidad de Alcalá lo ocupa X"),
        ("P286", 3, "Los Angeles Lakers", "La persona que entrena al equipo Los Angeles Lakers es X"),
        ("P286", 3, "Chelsea", "La persona que entrena al equipo Chelsea es X"),
        ("P361", 0, "Mulhacén", "El conjunto o grupo que incluye el elemento Mulhacén es X"),
        ("P17", 2, "Puente Genil", "El lugar conocido como Puente Genil pertenece al Estado llamado X"),
        ("P449", 0, "Ley y orden", "La cadena o emisora del programa Ley y orden es X"),
        ("P36", 0, "Francia", "La capital de Francia es X"),
    ],
)  # fmt: skip
def test_a_statement_names_its_subject(relation: str, number: int, subject: str, said: str) -> None:
    assert SPANISH.statement(SPANISH.relations[relation].cloze[number], subject, "X") == said
