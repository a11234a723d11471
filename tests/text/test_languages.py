"""French, German, Portuguese and Spanish: templates, what a subject does to the words before it, and dates."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from babel.dates import format_date, format_skeleton

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.text.cloze import cloze_fault
from anachron.text.dates import date_in_words
from anachron.text.kinds import subject_kind
from anachron.text.languages import chosen, in_tenses, language_of
from anachron.text.questions import question_fault, relation_templates
from anachron.text.words import language_files

CODES = ("fr", "de", "es", "pt")
RAW: dict[str, list[dict[str, Any]]] = {c: language_files()[c]["relations"] for c in CODES}
SUBJECTS = {
    "fr": ("France", "États-Unis", "Albert Camus", "Le Monde", "Union européenne"),
    "de": ("Vereinigtes Königreich", "Vereinigte Staaten", "Iran", "Deutsche Bank", "Angela Merkel"),
    "es": ("Estados Unidos", "Reino Unido", "El Salvador", "Real Madrid", "Gabriel Boric"),
    "pt": ("Brasil", "Estados Unidos", "Portugal", "Real Madrid", "Partido Socialista", "Angela Merkel", "Tigray"),
}

CALLED, BARE_BEHIND = (language_files()["pt"]["agreement"][key] for key in ("called", "bare_behind"))
FRENCH_CALLED = language_files()["fr"]["agreement"]["called"]
# what may stand before a subject that may be plural: a preposition, or a verb whose object it is
PREPOSITIONS = {
    "fr": "à avec chez comme contre dans de depuis en entre par pour selon sous sur vers",
    "de": "als an auf aus bei durch für gegen in mit namens nach neben über um unter von vor zu",
    "es": "a ante bajo como con contra de desde en entre hacia para por según sobre",
    "pt": "a ante até com como contra da de desde do em entre na no para pela pelo por sob sobre",
}
OBJECT_OF = {
    "fr": "a abrite anime caractérise chapeaute classe-t-on composent comprend compte contient contrôle diffuse dirige "
    "développe détient englobe entraîne entretient exploite fabrique finance inclut interprète occupe parraine possède "
    "préside présente publie rattache-t-on régit situe-t-on utilise jouer suivre trouver",
    "de": "beherbergt besitzt betreibt bringt entwickelt führt hat hält kontrolliert leitet man moderiert nutzt spielt "
    "sponsert stellt strahlt trainiert trägt umfasst unterstützt veröffentlicht zählt",
    "es": "conduce desarrolla emite fabrica incluye interpreta ocupa opera posee presenta preside publica seguir "
    "situar ubicar",
    "pt": "abrange abriga acompanhar apresenta capitaneia conduz controla desenvolve dirige edita encontrar fabrica "
    "inclui incluem interpreta lidera opera ocupa patrocina possui preside publica transmite treina têm tem",
}


def uncalled_in_spanish(before: str) -> str:
    """What stands before a subject whose article is known: "la sede de" for "la sede de la entidad"."""
    spanish = language_files()["es"]["agreement"]
    if before.endswith(tuple(spanish["bare_behind"])):  # la publicación Los Lunes: one newspaper
        return "de"
    nouns = "|".join(spanish["called"])
    return re.sub(rf"\b(?:(de|a)(?:l| la)|el|la) (?:{nouns})$", lambda found: found[1] or "", before).rstrip()


def may_agree(template: str, code: str) -> bool:
    """Whether some verb may have the subject as its own: what stands before it says nothing else."""
    before = in_tenses(template)[0].partition("[SUBJ]")[0].rstrip()
    before = uncalled_in_spanish(before) if code == "es" else before
    if called := re.search(rf"\b(?:{'|'.join(CALLED)})$", before) if code == "pt" else None:
        # the article before what the subject is called gives way to that of the subject
        if called[0].startswith("d"):  # of which no verb is
            return False
        before = before[: called.start()].rstrip()
    if called := re.search(rf"\b(?:{'|'.join(FRENCH_CALLED)})$", before) if code == "fr" else None:
        if FRENCH_CALLED[called[0]]:  # behind a preposition
            return False
        before = before[: called.start()].rstrip()
    if before.endswith("«"):  # l'œuvre « Les Misérables » : one work
        return False
    word = before.rsplit(" ", 1)[-1].lower()
    if code == "pt" and before.endswith(tuple(BARE_BEHIND)):  # o programa Os Trapalhões: one programme
        return False
    by_one = re.search(r"\bon (?:classe|rattache)$", before)  # à laquelle on rattache les Windsor
    if re.search(r"\bse \w+$", before):  # se emiten
        return True
    return not (word.strip("(") in PREPOSITIONS[code].split() + OBJECT_OF[code].split() or by_one or word.endswith("„"))


@pytest.mark.parametrize("code", CODES)
def test_no_verb_agrees_with_a_subject_that_may_be_plural(code: str) -> None:
    seen = 0
    for entry in RAW[code]:
        if subject_kind(entry["id"]) == "person":  # a person is one
            continue
        for template in entry["questions"] + entry["cloze"]:
            assert not may_agree(template, code), f"{entry['id']}: {template}"
            seen += 1
    assert seen > 300


@pytest.mark.parametrize(
    ("template", "code"),
    [
        ("dans quelle armée {sert|servait} [SUBJ] ?", "fr"),
        ("L'équipe dont [SUBJ] {fait|faisait} partie {est|était} [OBJ]", "fr"),
        ("L'équipe dont l'organisation [SUBJ] {fait|faisait} partie {est|était} [OBJ]", "fr"),
        ("[SUBJ] {a|avait} pour capitale [OBJ]", "fr"), ("de quelle dynastie {fait|faisait} partie [SUBJ] ?", "fr"),
        ("wem {gehört|gehörte} [SUBJ]?", "de"),
        ("Die Firma, bei der [SUBJ] {erscheint|erschien}, {ist|war} [OBJ]", "de"),
        ("Genutzt {wird|wurde} [SUBJ] von [OBJ]", "de"), ("wo {befindet|befand} sich [SUBJ]?", "de"),
        ("¿dónde se {encuentra|encontraba} [SUBJ]?", "es"), ("¿a qué familia {pertenece|pertenecía} [SUBJ]?", "es"),
        ("¿en qué lugar se {emite|emitía} [SUBJ]?", "es"),
        ("La liga en la que {juega|jugaba} el equipo [SUBJ] {es|era} [OBJ]", "es"),
        ("a quem {pertence|pertencia} [SUBJ]?", "pt"), ("onde {joga|jogava} a equipe [SUBJ]?", "pt"),
        ("onde se {localiza|localizava} o item [SUBJ]?", "pt"),
    ],
)  # fmt: skip
def test_a_verb_that_agrees_is_seen(template: str, code: str) -> None:
    assert may_agree(template, code)


@pytest.mark.parametrize("code", CODES)
def test_each_has_the_first_relations_and_at_least_sixty(code: str) -> None:
    ids = [entry["id"] for entry in RAW[code]]
    assert len(ids) >= 60 and len(set(ids)) == len(ids)
    known = list(relation_templates())
    assert ids[:32] == known[:32] and set(ids) <= set(known), "those of mini first"
    labels = [entry["label"] for entry in RAW[code]]
    assert len({label.casefold() for label in labels}) == len(labels)


@pytest.mark.parametrize("code", CODES)
def test_every_template_obeys_the_rules(code: str) -> None:
    for entry in RAW[code]:
        assert len(entry["questions"]) == 4 and len(entry["cloze"]) == 5, entry["id"]
        texts = entry["questions"] + entry["cloze"]
        assert len({re.sub(r"\W", "", in_tenses(text)[1].casefold()) for text in texts}) == 9, entry["id"]
        for text in texts:
            present, past = in_tenses(text)
            assert present != past and not re.search(r"[{}|]", present + past), text
            assert present == " ".join(present.split()) and "__" not in text
        for question in entry["questions"]:
            past = in_tenses(question)[1]
            assert past.count("[SUBJ]") == 1 and past.count("?") == 1
            assert past.lstrip("¿")[0].islower() or past.startswith("[SUBJ]"), question
            assert past.startswith("¿") == (code == "es") and past.endswith(" ?") == (code == "fr"), question
        for cloze in entry["cloze"]:
            assert all(cloze_fault(text) is None for text in in_tenses(cloze)), cloze
            assert cloze[0].isupper() or cloze.startswith("[SUBJ]"), cloze


@pytest.mark.parametrize("code", CODES)
def test_no_template_puts_an_article_before_its_subject(code: str) -> None:
    articles = {
        "le",
        "la",
        "les",
        "l'",
        "du",
        "des",
        "der",
        "die",
        "das",
        "dem",
        "den",
        "el",
        "los",
        "las",
        "del",
        "al",
    }
    if code == "pt":  # "da empresa [SUBJ]" is none; "a" is a preposition too
        articles = {"o", "os", "as", *language_files()["pt"]["agreement"]["contracted"].values()}
    for entry in RAW[code]:
        for text in entry["questions"] + entry["cloze"]:
            before = text.split("[SUBJ]")[0]
            relative = re.search(r", (\w+ )?(der|die|das|dem|den) $", before)  # der Ort, an dem sie liegt
            assert not before or relative or before.split()[-1].casefold() not in articles, text


@pytest.mark.parametrize(("code", "subject"), [(code, subject) for code in CODES for subject in SUBJECTS[code]])
def test_every_question_names_its_subject_and_leaves_nothing_uncontracted(code: str, subject: str) -> None:
    language = language_of(code)
    wrong = {
        "fr": r"\b(de|à) les? [A-ZÉ]|\bde (Le|Les) |\bde [AEIOUÉÎ]",
        "de": r"(?<!, )\b(von|in|bei|an) dem [A-Z]",
        "es": r"\b(de|a) el\b|\b(elemento|empresa|entidad|equipo|servicio) (el |los )?(Estados|Reino|Real)\b",
        "pt": r"\b(de|em|por|a) (o|a|os|as) |"
        r"\b(empresa|entidade|equipe|evento|espaço|item|produto|organização|serviço) ([ao]s? )?(Real|Partido|Brasil)",
    }
    for worded in language.relations.values():
        for template in worded.questions + worded.present:
            question = language.question(template, subject)
            assert question_fault(question, subject, "nothing", language=language.name) is None
            assert not re.search(wrong[code], question), question
        for template in worded.cloze + worded.cloze_past:
            statement = language.statement(template, subject, "Xanadu")
            assert statement.endswith(" Xanadu") and statement[0].isupper() and "[" not in statement
            assert not re.search(wrong[code], statement), statement


@pytest.mark.parametrize(
    ("code", "template", "filled"),
    [
        ("fr", "la capitale de [SUBJ] ?", {
            "France": "de la France", "États-Unis": "des États-Unis", "Royaume-Uni": "du Royaume-Uni",
            "Paris": "de Paris",
            "Albert Camus": "d'Albert Camus", "Iran": "de l'Iran", "Le Monde": "du Monde", "Le Havre": "du Havre",
            "La Haye": "de La Haye", "Les Républicains": "des Républicains", "Israël": "d'Israël", "Cuba": "de Cuba",
            "Union européenne": "de l'Union européenne", "Parti socialiste": "du Parti socialiste", "Élisabeth II":
            "d'Élisabeth II", "Hambourg": "de Hambourg", "Haïti": "d'Haïti", "Yale": "de Yale", "Yves Montand":
            "d'Yves Montand", "Le Corbusier": "de Le Corbusier", "Real Madrid": "du Real Madrid", "Manchester United":
            "de Manchester United", "université": "d'université", "Premier ministre": "de Premier ministre",
            "l'Iran": "de l'Iran", "le Japon": "du Japon", "Oasis": "d'Oasis", "Onze Mondial": "de Onze Mondial",
            "Alpes-Maritimes": "des Alpes-Maritimes", "Hérault": "de l'Hérault", "Californie": "de la Californie",
            "Costa Rica": "du Costa Rica", "Burkina Faso": "du Burkina Faso", "Côte d’Ivoire": "de la Côte d’Ivoire",
            "université d'Oxford": "de l'université d'Oxford", "musée du Louvre": "du musée du Louvre",
            "ligne 14": "de la ligne 14",
            "tour Eiffel": "de la tour Eiffel", "Tour de France": "du Tour de France", "Hermès": "d'Hermès",
            "One Direction": "de One Direction", "Vienne": "de Vienne", "Cher": "de Cher", "SNCF": "de la SNCF",
            "première dame des États-Unis": "de première dame des États-Unis", "Marine Le Pen": "de Marine Le Pen",
            "Institut Pasteur": "de l'Institut Pasteur", "Real Sociedad": "de la Real Sociedad",
        }),
        ("fr", "sert à [SUBJ] ?", {
            "Japon": "au Japon", "Pays-Bas": "aux Pays-Bas", "Albert Camus": "à Albert Camus", "Chine": "à la Chine",
        }),
        ("de", "Hauptstadt von [SUBJ]?", {
            "Frankreich": "von Frankreich", "Österreich": "von Österreich", "Schweiz": "stadt der Schweiz",
            "Vereinigtes Königreich": "stadt des Vereinigten Königreichs", "Iran": "stadt des Iran",
            "USA": "stadt der USA", "Vereinigte Staaten": "stadt der Vereinigten Staaten",
            "die Vereinigten Staaten": "stadt der Vereinigten Staaten", "der Iran": "stadt des Iran",
            "Niederlande": "stadt der Niederlande", "Europäische Union": "stadt der Europäischen Union",
            "Weimarer Republik": "stadt der Weimarer Republik", "Deutsches Reich": "stadt des Deutschen Reichs",
            "Heiliger Stuhl": "stadt des Heiligen Stuhls", "Angela Merkel": "von Angela Merkel",
            "Helmut Schmidt": "von Helmut Schmidt", "FC Bayern München": "stadt des FC Bayern München",
            "Deutscher Fußball-Bund": "stadt des Deutschen Fußball-Bundes", "Vatikan": "stadt des Vatikans",
            "Internationaler Währungsfonds": "stadt des Internationalen Währungsfonds",
            "Museum of Modern Art": "stadt des Museum of Modern Art", "die tageszeitung": "von die tageszeitung",
            "Christlich Demokratische Union Deutschlands": "stadt der Christlich Demokratischen Union Deutschlands",
            "Vereinigte Arabische Emirate": "stadt der Vereinigten Arabischen Emirate", "Burbank": "von Burbank",
            "Borussia Dortmund": "von Borussia Dortmund", "das ZDF": "stadt des ZDF",
            "Weißes Haus": "stadt des Weißen Hauses", "Peter Bank": "von Peter Bank",
            "das Weiße Haus": "stadt des Weißen Hauses",
        }),
        ("de", "gesungen von [SUBJ]?", {
            "Iran": "vom Iran", "Vereinigtes Königreich": "vom Vereinigten Königreich", "USA": "von den USA",
            "Vereinigte Arabische Emirate": "von den Vereinigten Arabischen Emiraten",
            "die Vereinigten Staaten": "von den Vereinigten Staaten", "Niederlande": "von den Niederlanden",
            "Universität Oxford": "von der Universität Oxford", "Deutsche Bank": "von der Deutschen Bank",
        }),
        ("de", "zählte man [SUBJ]?", {"Iran": "man den Iran", "Schweiz": "man die Schweiz"}),
        ("de", "spielte für [SUBJ]?", {
            "Iran": "für den Iran", "Vereinigtes Königreich": "für das Vereinigte Königreich",
            "Schweiz": "für die Schweiz",
        }),
        ("de", "wer leitete [SUBJ]?", {"Deutscher Fußball-Bund": "den Deutschen Fußball-Bund", "Iran": "den Iran"}),
        ("de", "wo lag [SUBJ]?", {"Vereinigtes Königreich": "lag das Vereinigte Königreich", "Berlin": "lag Berlin"}),
        ("de", "das Amt „[SUBJ]“?", {"Deutsche Bank": "„Deutsche Bank“", "Papst": "„Papst“"}),
        ("es", "la capital de [SUBJ]?", {
            "Francia": "de Francia", "Reino Unido": "del Reino Unido", "Estados Unidos": "de los Estados Unidos",
            "El Salvador": "de El Salvador", "La Haya": "de La Haya", "Unión Europea": "de la Unión Europea",
            "Real Madrid": "del Real Madrid", "Países Bajos": "de los Países Bajos", "el Congo": "del Congo",
            "Partido Popular": "del Partido Popular", "Gabriel Boric": "de Gabriel Boric", "El País": "de El País",
            "República Checa": "de la República Checa", "presidente": "de presidente",
            "Real Academia Española": "de la Real Academia Española", "Real Sociedad": "de la Real Sociedad",
            "Segunda República Española": "de la Segunda República Española", "Gran Bretaña": "de Gran Bretaña",
            "presidente de Chile": "del presidente de Chile", "Club Brujas": "del Club Brujas",
            "selección de fútbol de Chile": "de la selección de fútbol de Chile",
            "provincia de Soria": "de la provincia de Soria", "condado de Cork": "del condado de Cork",
        }),
        ("es", "el cargo de [SUBJ]?", {
            "presidente de Chile": "de presidente de Chile", "Primera ministra": "de Primera ministra",
            "primer ministro del Reino Unido": "de primer ministro del Reino Unido",
        }),
        ("es", "patrocina a [SUBJ]?", {"Real Madrid": "al Real Madrid", "Rafael Nadal": "a Rafael Nadal"}),
    ],
)  # fmt: skip
def test_what_a_subject_makes_of_the_word_before_it(code: str, template: str, filled: dict[str, str]) -> None:
    start = template.split("[SUBJ]")[0].rsplit(" ", 2 if "„" not in template else 1)[0]
    for subject, expected in filled.items():
        question = language_of(code).question(template, subject)
        assert question.startswith(start) and expected in question, (subject, question)


def test_a_subject_that_opens_a_statement_has_a_capital() -> None:
    assert (
        language_of("fr").statement("[SUBJ] a pour capitale [OBJ]", "France", "Paris")
        == "La France a pour capitale Paris"
    )
    assert language_of("de").statement("[SUBJ] gehört zu [OBJ]", "Iran", "Asien") == "Der Iran gehört zu Asien"


def test_the_french_examples_of_the_french_paper() -> None:
    """« La capitale de la France est » completed by « Paris »; « En 2018, ... », « Le 5 novembre 2022, ... »; the
    contexts 1998, novembre 1998 and 15 novembre 1998; the period 20 janvier 2009 to 20 janvier 2017; and the form
    « Quel est le r de s ? o »."""
    french = language_of("fr")
    capital = french.relations["P36"]
    assert french.statement(capital.cloze[0], "France", "Paris") == "La capitale de la France est Paris"
    assert date_in_words(Date(2018), "french") == "En 2018, "
    assert date_in_words(Date(2022, 11, 5), "french") == "Le 5 novembre 2022, "
    assert date_in_words(Date(1998), "french") == "En 1998, "
    assert date_in_words(Date(1998, 11), "french") == "En novembre 1998, "
    assert date_in_words(Date(1998, 11, 15), "french") == "Le 15 novembre 1998, "
    assert date_in_words(Date(2009, 1, 20), "french") == "Le 20 janvier 2009, "
    assert date_in_words(Date(2017, 1, 20), "french") == "Le 20 janvier 2017, "
    label = french.relations["P122"].label
    assert f"quelle est la {label} de [SUBJ] ?" == french.relations["P122"].present[0]


OLD_MONTHS = {
    "american": "January February March April May June July August September October November December",
    "french": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "german": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}  # fmt: skip
OLD_FORMS = {
    "american": ("In {y}, ", "In {m} {y}, ", "On {m} {d}, {y}, "),
    "classic": ("In {y}, ", "In {m} {y}, ", "On {d} {m} {y}, "),
    "french": ("En {y}, ", "En {m} {y}, ", "Le {d} {m} {y}, "),
    "german": ("Im Jahr {y}, ", "Im {m} {y}, ", "Am {d}. {m} {y}, "),
    "portuguese": ("Em {y}, ", "Em {m} de {y}, ", "Em {d} de {m} de {y}, "),
    "spanish": ("En {y}, ", "En {m} de {y}, ", "El {d} de {m} de {y}, "),
}


@pytest.mark.parametrize("style", OLD_FORMS)
def test_dates_are_byte_for_byte_those_of_the_tables_written_by_hand(style: str) -> None:
    year, month, day = OLD_FORMS[style]
    months = OLD_MONTHS["american" if style == "classic" else style].split()
    for y in (1000, 1789, 2011, 12011):
        assert date_in_words(Date(y), style) == year.format(y=y)
        for number, name in enumerate(months, 1):
            assert date_in_words(Date(y, number), style) == month.format(y=y, m=name)
            for d in (1, 2, 24, 28):
                said = "1er" if style == "french" and d == 1 else d
                assert date_in_words(Date(y, number, d), style) == day.format(y=y, m=name, d=said)


@pytest.mark.parametrize(
    ("style", "locale"),
    [("french", "fr"), ("german", "de"), ("portuguese", "pt"), ("spanish", "es"), ("classic", "en_GB")],
)
def test_dates_are_those_of_babel(style: str, locale: str) -> None:
    import datetime

    for number in range(1, 13):
        when = datetime.date(1998, number, 15)
        assert format_date(when, "long", locale) in date_in_words(Date(1998, number, 15), style)
        assert format_skeleton("yMMMM", when, locale=locale) in date_in_words(Date(1998, number), style)


PORTUGUESE = {
    "language": "Portuguese", "locale": "pt", "year": "Em {date}, ", "month": "Em {date}, ", "day": "Em {date}, ",
    "era": "{year} a.C.",
}  # fmt: skip
JAPANESE = {
    "language": "Japanese", "locale": "ja", "year": "{date}年、", "month": "{date}、", "day": "{date}、",
    "era": "紀元前{year}",
}  # fmt: skip


def wording_file(folder: Path, content: object) -> Path:
    path = folder / "openings.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def test_a_file_of_openings_says_dates_in_its_language(tmp_path: Path) -> None:
    said = language_of(wording_file(tmp_path, PORTUGUESE)).style
    assert [date_in_words(Date.parse(d), said) for d in ("2011", "2011-03", "2011-03-24", "-0044")] == [
        "Em 2011, ", "Em março de 2011, ", "Em 24 de março de 2011, ", "Em 44 a.C., "
    ]  # fmt: skip
    said = language_of(wording_file(tmp_path, JAPANESE)).style
    assert [date_in_words(Date.parse(d), said) for d in ("2011", "2011-03", "2011-03-24")] == [
        "2011年、", "2011年3月、", "2011年3月24日、"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"locale": "xx-none"}, "CLDR knows no 'xx-none'"),
        ({"year": "Em, "}, r"year: 'Em, ' must hold {date} exactly once"),
        ({"era": None}, "era: None must be a text"),
        ({"months": []}, "unknown key 'months'"),
        ({"first_of_month": 1}, "first_of_month: 1 must be a text"),
    ],
)
def test_a_file_of_openings_that_is_none_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = wording_file(tmp_path, PORTUGUESE | change)
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        language_of(path)
    assert str(path) in str(caught.value)


def test_what_is_no_file_of_openings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected an object"):
        language_of(wording_file(tmp_path, [1]))
    with pytest.raises(ConfigError, match=r"none\.json"):
        language_of(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="choose one of en, de, es, fr, pt"):
        language_of("it")


def test_language_and_style_go_together() -> None:
    assert chosen(None, None)[0].code == "en" and chosen(None, None)[1] == "american"
    assert chosen(None, "german")[0].code == "de" and chosen("fr", None)[1] == "french"
    assert chosen("en", "classic")[1] == "classic"
    with pytest.raises(ConfigError, match="style french: its dates are French, the questions English"):
        chosen("en", "french")


def test_relations_are_found_by_their_labels_in_either_language() -> None:
    german = language_of("de")
    assert german.relation_id(None, "Hauptstadt") == german.relation_id(None, "capital") == "P36"
    assert german.relation_id("P36", "anything") == german.relation_id(None, "P36") == "P36"
    assert german.relation_id(None, "Lieblingsfarbe") is None and german.relation_id("P1", "Hauptstadt") is None
    # a language of one's own may word a relation of which there are no English questions
    own = replace(german, relations={"P99999": replace(german.relations["P36"], label="Wappentier")})
    assert own.relation_id(None, "Wappentier") == "P99999" and own.relation_id(None, "capital") is None
