"""A subject inside a French, German or Spanish sentence: its article, and what it makes of the word before it.

The templates are worded so that nothing else agrees with a subject. Which names take an article is a list of countries
and rules by the noun that heads a name of several words; persons and places have none.
"""

import re
import unicodedata

_FRENCH_COUNTRIES = {
    "le": "Bangladesh Bélarus Bénin Bhoutan Botswana Brésil Burundi Cambodge Cameroun Canada Cap-Vert Chili "
    "Costa-Rica Danemark Gabon Ghana Guatemala Guyana Honduras Japon Kazakhstan Kenya Kirghizistan Kosovo "
    "Koweït Laos Lesotho Liban Liberia Liechtenstein Luxembourg Malawi Mali Maroc Mexique Monténégro "
    "Mozambique Myanmar Nicaragua Niger Nigeria Népal Pakistan Panama Paraguay Portugal Pérou Qatar "
    "Québec Royaume-Uni Rwanda Salvador Sénégal Soudan Suriname Tadjikistan Tchad Timor-Oriental Togo "
    "Turkménistan Vatican Venezuela Viêt_Nam Vietnam Yémen Zimbabwe Saint-Siège Pays_de_Galles "
    "Troisième_Reich Second_Empire Soudan_du_Sud Sri_Lanka Belize Brunei Burkina_Faso Congo Costa_Rica Groenland "
    "Sahara_occidental Timor_oriental Tibet Vanuatu Kurdistan Tatarstan Pays_basque "
    "Bas-Rhin Calvados Cantal Centre-Val_de_Loire Doubs Finistère Gard Gers Grand_Est Haut-Rhin Jura "
    "Loir-et-Cher Loiret Lot Lot-et-Garonne Maine-et-Loire Morbihan Nord-Pas-de-Calais Pas-de-Calais "
    "Puy-de-Dôme Rhône Tarn Tarn-et-Garonne Territoire_de_Belfort Val-d'Oise Val-de-Marne Var Vaucluse "
    "Béarn Berry Dauphiné Languedoc Limousin Poitou Roussillon Piémont Latium Tyrol "
    "Brandebourg Bade-Wurtemberg Mecklembourg-Poméranie-Occidentale Schleswig-Holstein "
    "Manitoba Nouveau-Brunswick Yukon Colorado Connecticut Dakota_du_Nord Dakota_du_Sud Delaware Kansas "
    "Kentucky Maine Maryland Massachusetts Michigan Minnesota Mississippi Missouri Montana Nebraska Nevada "
    "New_Hampshire New_Jersey Nouveau-Mexique Rhode_Island Tennessee Texas Vermont Wisconsin Wyoming "
    "CIO CNRS FBI FMI FLN Tour_d'Espagne Tour_d'Italie Tour_de_France",
    "la": "Barbade Belgique Biélorussie Birmanie Bolivie Bosnie-Herzégovine Bretagne Bulgarie Catalogne Chine "
    "Colombie Corée Corée_du_Nord Corée_du_Sud Corse Croatie Côte_d'Ivoire Dominique Finlande France "
    "Gambie Géorgie Grande-Bretagne Grèce Grenade Guinée Guinée-Bissau Guinée_équatoriale Hongrie "
    "Jamaïque Jordanie Lettonie Libye Lituanie Macédoine Macédoine_du_Nord Malaisie Mauritanie Moldavie "
    "Mongolie Namibie Norvège Nouvelle-Zélande Palestine Pologne Prusse Papouasie-Nouvelle-Guinée "
    "Rhodésie Roumanie Russie Serbie Sierra_Leone Slovaquie Slovénie Somalie Suisse Suède Syrie Tanzanie "
    "Tasmanie Tchéquie Tchécoslovaquie Thaïlande Tunisie Turquie Yougoslavie Zambie Centrafrique Micronésie "
    "Charente Charente-Maritime Corrèze Corse-du-Sud Côte-d'Or Creuse Dordogne Drôme Gironde Guadeloupe Guyane "
    "Haute-Corse Haute-Garonne Haute-Loire Haute-Marne Haute-Saône Haute-Savoie Haute-Vienne Loire "
    "Loire-Atlantique Lozère Manche Marne Martinique Mayenne Meurthe-et-Moselle Meuse Moselle Nièvre "
    "Nouvelle-Aquitaine Nouvelle-Calédonie Polynésie_française Sarthe Savoie Seine-et-Marne Seine-Maritime "
    "Seine-Saint-Denis Somme Vendée Bourgogne Bourgogne-Franche-Comté Champagne Champagne-Ardenne "
    "Franche-Comté Gascogne Lorraine Normandie Basse-Normandie Haute-Normandie Picardie Provence "
    "Bavière Basse-Saxe Hesse Poméranie Rhénanie-du-Nord-Westphalie Rhénanie-Palatinat Sarre Saxe Saxe-Anhalt "
    "Thuringe Bohême Calabre Castille Crimée Flandre Galice Galicie Lombardie Moravie Navarre Sardaigne Sibérie "
    "Sicile Silésie Tchétchénie Toscane Transylvanie Vénétie Wallonie Colombie-Britannique Nouvelle-Écosse "
    "Saskatchewan Californie Caroline_du_Nord Caroline_du_Sud Floride Louisiane Pennsylvanie Virginie "
    "Virginie-Occidentale BBC CGT CIA FIFA Maison-Blanche NASA NBA RATP RDA RFA SNCF Sorbonne Real_Sociedad",
    "l'": "Afghanistan Afrique_du_Sud Albanie Algérie Allemagne Allemagne_de_l'Est Allemagne_de_l'Ouest Andorre "
    "Angleterre Angola Arabie_saoudite Argentine Arménie Australie Autriche Autriche-Hongrie Azerbaïdjan "
    "Écosse Égypte Équateur Érythrée Espagne Estonie Eswatini Éthiopie Inde Indonésie Irak Iran Irlande "
    "Irlande_du_Nord Islande Italie ONU OTAN Organisation_mondiale_de_la_santé Ouganda Ouzbékistan UEFA "
    "UNESCO URSS Ukraine Uruguay Alaska Europe Afrique Amérique Antarctique Asie Océanie "
    "Ain Aisne Allier Ardèche Ariège Aube Aveyron Essonne Eure Eure-et-Loir Hérault Ille-et-Vilaine Indre "
    "Indre-et-Loire Isère Oise Orne Yonne Île-de-France Alsace Anjou Aquitaine Artois Auvergne "
    "Auvergne-Rhône-Alpes Occitanie Andalousie Aragon Ombrie Alberta Ontario Alabama Arizona Arkansas Idaho "
    "Illinois Indiana Iowa Ohio Oklahoma Oregon Utah AIEA Élysée OCDE OMC OMS OPEP UE UNICEF",
    "les": "Bahamas Comores Émirats_arabes_unis États-Unis Fidji Îles_Marshall Îles_Salomon Kiribati Maldives "
    "Palaos Pays-Bas Philippines Samoa Seychelles Tonga Tuvalu Nations_unies "
    "Indes_orientales_néerlandaises Beatles Rolling_Stones États_confédérés_d'Amérique "
    "Alpes-de-Haute-Provence Alpes-Maritimes Ardennes Bouches-du-Rhône Côtes-d'Armor Deux-Sèvres Hautes-Alpes "
    "Hautes-Pyrénées Hauts-de-France Hauts-de-Seine Landes Pays_de_la_Loire Pyrénées-Atlantiques "
    "Pyrénées-Orientales Vosges Yvelines Açores Asturies Baléares Canaries Marches Pouilles",
}  # fmt: skip
_FRENCH_HEADS = {  # as they are written
    "le": "FC Real",
    "la": "Première Deuxième Seconde Troisième Quatrième Cinquième",
    "l'": "AS Allemagne État",
}
_FRENCH_NOUNS = {  # with a capital or without: labels of Wikidata have mostly none
    "le": "château collège comité comté congrès conseil département diocèse duché festival fonds front gouvernement "
    "grand-duché groupe haut-commissariat journal lac ministère mont mouvement musée palais parc parlement "
    "parti pont protectorat régime reich royaume saint-empire sénat stade sultanat syndicat théâtre tribunal",
    "la": "banque basilique bibliothèque bourse cathédrale chambre cité commission communauté compagnie confédération "
    "cour croix-rouge fédération fondation gare ligne ligue maison principauté province région république société tour",
    "l'": "abbaye académie aéroport agence alliance armée assemblée association école église empire équipe hôpital "
    "hôtel île institut observatoire office olympique opéra orchestre organisation union université",
    "les": "émirats états forces îles jeunesses nations provinces-unies",
}
_SPANISH_COUNTRIES = {
    "el": "Congo Líbano Reino_Unido Vaticano Sáhara_Occidental",
    "la": "India Santa_Sede Unión_Soviética Unión_Europea Alemania_Oriental_(RDA) Ciudad_del_Vaticano ONU OTAN "
    "UEFA UNESCO URSS",
    "los": "Emiratos_Árabes_Unidos Estados_Unidos Países_Bajos Beatles Rolling_Stones",
    "las": "Bahamas Comoras Filipinas Islas_Marshall Islas_Salomón Maldivas Naciones_Unidas Seychelles",
}
_SPANISH_HEADS = {  # a label of Wikidata writes the common nouns among them small: selección de fútbol de Argentina
    "el": "Aeropuerto Ayuntamiento Banco Centro Club Comité Congreso Consejo Ducado Ejército FC Fondo Frente "
    "Gobierno Grupo Hospital Imperio Instituto Ministerio Movimiento Museo Palacio Parlamento Partido "
    "Principado Protectorado Real Reino Sacro Senado Sultanato Teatro Tercer Tribunal cantón condado "
    "departamento distrito ducado municipio reino territorio",
    "la": "Academia Agencia Alianza Asamblea Asociación Biblioteca Cámara Casa Catedral Comisión Comunidad Compañía "
    "Confederación Corte Cruz División Escuela Estación Federación Fundación Guerra Iglesia Isla Junta Liga Orden "
    "Organización Orquesta República Selección Sociedad Torre Unión Universidad catedral isla provincia región "
    "selección",
    "los": "Emiratos Estados Países",
    "las": "Cortes Fuerzas Islas Naciones Provincias islas",
}
_SPANISH_OFFICES = {  # with an article but behind "cargo de": la residencia oficial del presidente de Francia
    "el": "Presidente Primer alcalde arzobispo canciller emperador gobernador ministro obispo papa presidente primer "
    "príncipe rector rey secretario vicepresidente",
    "la": "Presidenta Primera alcaldesa gobernadora ministra presidenta primera rectora reina secretaria",
}
_SPANISH_BEFORE_HEADS = frozenset({"Gran", "Primera", "Real", "Segunda"})  # the Real Academia, but the Real Madrid
_GERMAN_NAMES = {
    "m": "Irak Iran Jemen Kongo Kosovo Libanon Niger Sudan Südsudan Tschad Vatikan Oman",
    "f": "DDR Elfenbeinküste Mongolei Schweiz Slowakei Sowjetunion Tschechoslowakei Türkei UEFA UNESCO Ukraine "
    "Vatikanstadt FIFA NATO EU UNO BBC AfD CDU CSU FDP FPÖ SED SPD SPÖ SVP ÖVP",
    "p": "Bahamas Komoren Malediven Marshallinseln Niederlande Philippinen Salomonen Seychellen USA Beatles",
}
_GERMAN_HEADS = {
    "m": "FC SV VfB VfL Fußball-Bund Währungsfonds Bund Bundesrat Bundestag Gerichtshof Nationalrat Palast Rat "
    "Senat Stuhl Verband Verein",
    "f": "Akademie Allianz Bank Bibliothek Föderation Fraktion Gemeinschaft Gesellschaft Hochschule Kirche Kommission "
    "Konföderation Nationalmannschaft Organisation Partei Regierung Republik Schule Union Universität Volkspartei",
    "n": "Fürstentum Haus Institut Kaiserreich Königreich Ministerium Museum Orchester Parlament Reich Theater",
    "p": "Emirate Inseln Nationen Staaten Streitkräfte",
}
_GERMAN_ARTICLES = {  # nominative, accusative, dative, genitive
    "m": ("der", "den", "dem", "des"), "f": ("die", "die", "der", "der"), "n": ("das", "das", "dem", "des"),
    "p": ("die", "die", "den", "der"),
}  # fmt: skip
_ADJECTIVE = re.compile(  # with a strong or weak ending
    r"(?:[ts]ch|ig|igt|lich|al|alt|nt|^(?:Frei|Groß|Grün|Neu|Rot|Schwarz|Weiß))e[rs]?$", re.IGNORECASE
)
# the accusative follows two prepositions, "man" and the verbs of the templates that have the subject as their object
_CASES = {
    "accusative": "für durch man beherbergt beherbergte besaß besitzt beschäftigt beschäftigte betreibt betrieb bringt "
    "brachte entwickelt entwickelte führt führte hält hat hatte hielt kontrolliert kontrollierte leitet leitete "
    "moderiert moderierte nutzt nutzte spielt spielte sponsert sponserte stellt stellte strahlt strahlte trägt "
    "trainiert trainierte trug umfasst umfasste unterstützt unterstützte veröffentlicht veröffentlichte zählt zählte",
    "dative": "von in bei mit zu an aus",
}
# they end as the adjectives of towns do: Peter Bank, Weimarer Republik
_GIVEN_NAMES = (
    "Alexander Christopher Dieter Esther Günter Günther Gunther Heiner Holger Jennifer Oliver Peter Rainer Roger "
    "Rüdiger Volker Walter Werner Xaver"
)
_CONTRACTED = {
    "von dem": "vom", "in dem": "im", "bei dem": "beim", "zu dem": "zum", "zu der": "zur", "an dem": "am",
}  # fmt: skip
# names in h that a French sentence elides before; any other h is read as aspirated, which is never wrong abroad
_MUTE_H = (
    "hadrien",
    "haïti",
    "hector",
    "helsinki",
    "henri",
    "hippolyte",
    "hitler",
    "herbert",
    "hermès",
    "hervé",
    "homère",
    "honoré",
    "hortense",
    "hubert",
    "hugo",
    "hélène",
)
_NOT_ELIDED = re.compile(r"y[aeiou]|one\b|onz|oui\b|u2\b|united\b|university\b", re.IGNORECASE)
_WITHOUT = frozenset({"Le Corbusier", "Le Nôtre"})  # persons whose name begins as an article does


def in_phrase(before: str, subject: str, language: str) -> tuple[str, str]:
    """What stands in front of a subject, and the subject, as the language joins them.

    before: the words of the template up to its slot, with the space. language: its English name; of any but French,
    German and Spanish both are given back as they are.
    ``("la capitale de ", "Royaume-Uni")`` gives ``("la capitale du ", "Royaume-Uni")``.
    """
    if before.endswith("„"):
        return before, subject  # a name that is quoted stays bare
    rules = {"French": _french, "German": _german, "Spanish": _spanish}.get(language)
    if rules is None:
        return before, subject
    before, subject = rules(before, subject)
    return (before, subject) if before else ("", subject[0].upper() + subject[1:])


def _article(name: str, names: dict[str, str], heads: dict[str, str]) -> str | None:
    """The article of a name that is listed, or whose first word is a noun that heads names of several words."""
    for article, listed in names.items():
        if name.replace(" ", "_") in listed.split():
            return article
    first, _, rest = name.partition(" ")
    return next((article for article, listed in heads.items() if rest and first in listed.split()), None)


def _french(before: str, subject: str) -> tuple[str, str]:
    own = re.match(r"(?:le|les) (?=\S)", subject, re.IGNORECASE)
    if own and subject not in _WITHOUT:
        article, name = own[0].strip().lower(), subject[own.end() :]
        contracted = _french_contraction(before, article)
        return (before, subject) if contracted is None else (contracted, name)
    found = _article(subject.replace("\u2019", "'"), _FRENCH_COUNTRIES, _FRENCH_HEADS)
    found = found or _article(subject.casefold(), {}, _FRENCH_NOUNS)
    if found is None:
        return (re.sub(r"\b([Dd])e $", r"\1'", before) if _elides(subject) else before), subject
    contracted = _french_contraction(before, found)
    if contracted is not None:
        return contracted, subject
    return before, found + ("" if found == "l'" else " ") + subject


def _french_contraction(before: str, article: str) -> str | None:
    """``de`` and ``le`` are ``du``, ``à`` and ``les`` are ``aux``; None where nothing contracts."""
    words = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}
    found = re.search(r"(?<!\w)(de|à) $", before)
    contracted = words.get(f"{found[1]} {article}") if found else None
    return None if found is None or contracted is None else f"{before[: found.start()]}{contracted} "


def _elides(name: str) -> bool:
    """Whether ``de`` is ``d'`` before a name: before a vowel, and before the names in h that are known to be mute."""
    if _NOT_ELIDED.match(name):
        return False
    first = unicodedata.normalize("NFD", name.casefold())[:1]
    return first in {*"aeiouyœæ"} or name.casefold().startswith(_MUTE_H)


def _spanish(before: str, subject: str) -> tuple[str, str]:
    first, _, rest = subject.partition(" ")
    article = None
    if first in _SPANISH_BEFORE_HEADS:  # the noun behind it says the gender, also where it ends the name
        article = _article(f"{rest} ...", {}, _SPANISH_HEADS)
    article = article or _article(subject, _SPANISH_COUNTRIES, _SPANISH_HEADS)
    if article is None and not re.search(r"\b(cargo|puesto) de $", before):
        article = _article(subject, {}, _SPANISH_OFFICES)
    if article is None and subject.startswith("el "):
        article, subject = "el", subject[3:]
    if article is None:
        return before, subject
    if article == "el" and (found := re.search(r"(?<!\w)(de|a) $", before)):
        return f"{before[: found.end() - 1]}l ", subject
    return before, f"{article} {subject}"


def _german(before: str, subject: str) -> tuple[str, str]:
    own = re.match(r"(der|die|das) (?=[A-ZÄÖÜ])", subject)
    name = subject[own.end() :] if own else subject
    gender = _german_gender(name)
    if own and gender is None:  # of "die" the plural is known by its adjective: die Vereinigten Staaten
        gender = {"der": "m", "die": "p" if re.match(r"\w+en ", name) else "f", "das": "n"}[own[1]]
    if gender is None:
        return before, subject
    if attribute := re.search(r"(?<!\w)[A-ZÄÖÜ]\w+ (von )$", before):  # behind a noun: das Staatsoberhaupt der Schweiz
        return f"{before[: attribute.start(1)]}{_GERMAN_ARTICLES[gender][3]} ", _declined(name, gender, 3)
    preposition = re.search(r"(?<!\w)(\w+) $", before)
    word = preposition[1] if preposition else ""
    case = next((i for i, name in enumerate(("accusative", "dative"), 1) if word.lower() in _CASES[name].split()), 0)
    article = _GERMAN_ARTICLES[gender][case]
    name = _declined(name, gender, case)
    if (joined := _CONTRACTED.get(f"{word.lower()} {article}")) and preposition:
        return f"{before[: preposition.start()]}{joined} ", name
    return before, f"{article} {name}"


def _german_gender(subject: str) -> str | None:
    """m, f, n or p (plural): of the listed names, and by the noun behind the adjectives, where that heads the name."""
    for gender, listed in _GERMAN_NAMES.items():
        if subject in listed.split():
            return gender
    words = subject.split()
    head = words[_head(words)] if words else ""
    for gender, listed in _GERMAN_HEADS.items():
        if any(head == noun or _compound(head, noun) for noun in listed.split()):
            return gender
    return None


def _head(words: list[str]) -> int:
    """The place of the noun behind the adjectives, or of the last word where there is none."""
    place = next((i for i, word in enumerate(words) if not _ADJECTIVE.search(word) and word != "Christlich"), -1)
    if 0 <= place < len(words) - 1 and words[place].endswith("er") and words[place] not in _GIVEN_NAMES.split():
        place += 1  # the Weimarer Republik
    return place


def _compound(word: str, noun: str) -> bool:
    """Whether a word is made of a noun and others before it; short nouns end too many names (Ararat, Österreich)."""
    return len(noun) > 5 and word.endswith(noun.lower())


def _declined(subject: str, gender: str, case: int) -> str:
    """A name behind its article: its adjectives take the weak ending, some plurals the ``n`` of the dative, and its
    noun the ``s`` of the genitive."""
    ending = "en" if gender == "p" or case > 1 or (gender == "m" and case == 1) else "e"
    words = subject.split()
    place = _head(words)
    for i, word in enumerate(words[:-1]):
        if not _ADJECTIVE.search(word):
            if word != "Christlich":
                break
            continue
        words[i] = re.sub(r"e[rs]?$", ending, word)
    if gender == "p" and case == 2:
        plurals = ("Niederlande", "Emirate", "Streitkräfte")
        words = [f"{word}n" if word in plurals else word for word in words]
    elif gender in "mn" and case == 3 and _takes_s(subject, words[place]):
        words[place] += "es" if words[place].casefold().endswith(("bund", "haus")) else "s"
    return " ".join(words)


def _takes_s(subject: str, noun: str) -> bool:
    """Whether a noun has an ``s`` in the genitive: not a country (des Iran), an abbreviation, or what ends in one."""
    if noun in ("Haus", "Vatikan"):
        return True
    if noun.endswith("s") or " of " in subject or subject in _GERMAN_NAMES["m"].split():
        return False
    last = noun.rsplit("-", 1)[-1]
    return last[1:] == last[1:].lower()
