"""What names of all kinds make of the words before them, in German, French and Spanish; written by hand."""

import re

import pytest

from anachron.text.agreement import in_phrase
from anachron.text.kinds import subject_kind
from anachron.text.languages import language_of
from anachron.text.names import listed_words

GENITIVE, DATIVE = "Die Hauptstadt von ", "gesungen von "
GERMAN = [
    (GENITIVE, {
        "École normale supérieure": "der École normale supérieure", "Hôtel Matignon": "des Hôtel Matignon",
        "Île de Ré": "der Île de Ré", "Parti socialiste": "der Parti socialiste", "Partido Popular":
        "der Partido Popular", "Congreso de los Diputados": "des Congreso de los Diputados", "Rencontres d’Arles":
        "der Rencontres d’Arles", "Métro de Paris": "der Métro de Paris", "Sagrada Família": "der Sagrada Família",
        "Universidad de Chile": "der Universidad de Chile", "Università di Bologna": "der Università di Bologna",
        "Université Laval": "der Université Laval", "Palazzo Vecchio": "des Palazzo Vecchio",
        "Piazza Navona": "der Piazza Navona", "Musée d’Orsay": "des Musée d’Orsay", "Teatro Colón": "des Teatro Colón",
        "Stade de France": "des Stade de France", "Stade Rennais": "von Stade Rennais",
        "Arc de Triomphe": "des Arc de Triomphe", "Banco Santander": "des Banco Santander",
        "Genfersee": "des Genfersees", "Tennessee": "von Tennessee", "Tennessee Titans": "der Tennessee Titans",
        "Spice Girls": "der Spice Girls", "Rolling Stones": "der Rolling Stones", "Lehman Brothers":
        "von Lehman Brothers", "Alternative für Deutschland": "der Alternative für Deutschland",
        "Die Linke": "der Linken", "Die Grünen": "der Grünen", "Der Spiegel": "von Der Spiegel", "SPD": "der SPD",
        "CDU": "der CDU", "FDP": "der FDP", "VW Käfer": "des VW Käfers", "Linux-Kernel": "des Linux-Kernels",
        "iPhone": "des iPhones", "das iPhone": "des iPhones", "iPhone 15": "des iPhone 15", "Boeing 747":
        "der Boeing 747", "Boeing": "von Boeing", "Airbus": "von Airbus", "Airbus A380": "des Airbus A380",
        "PlayStation 5": "der PlayStation 5", "Tesla Model 3": "des Tesla Model 3", "Tesla": "von Tesla",
        "Titanic": "der Titanic", "RMS Titanic": "der RMS Titanic", "Renault 4": "des Renault 4",
        "Renault": "von Renault", "Windows": "von Windows", "Buckingham-Palast": "des Buckingham-Palasts",
        "Élysée-Palast": "des Élysée-Palasts", "Karl der Große": "von Karl dem Großen",
        "Katharina die Große": "von Katharina der Großen",
        "St. Vincent und die Grenadinen": "von St. Vincent und den Grenadinen",
        "Südgeorgien und die Südlichen Sandwichinseln": "von Südgeorgien und den Südlichen Sandwichinseln",
        "Harry Potter und die Kammer des Schreckens": "von Harry Potter und die Kammer des Schreckens",
        "Karibische Niederlande": "der Karibischen Niederlande", "Eurozone": "der Eurozone",
        "Französische Süd- und Antarktisgebiete": "der Französischen Süd- und Antarktisgebiete",
        "Bündnis 90 / Die Grünen": "des Bündnisses 90 / Die Grünen", "Réunion": "von Réunion",
        "König Lear": "von König Lear", "Walter König": "von Walter König", "Hermann von Helmholtz":
        "von Hermann von Helmholtz", "König von Spanien": "des Königs von Spanien",
    }),
    (DATIVE, {
        "Olympische Spiele": "von den Olympischen Spielen", "Präsident der USA": "vom Präsidenten der USA",
        "Vorsitzender der SPD": "vom Vorsitzenden der SPD", "Die Linke": "von der Linken",
        "Die Ärzte": "von den Ärzten",
    }),
    ("spielte für ", {"Karl der Große": "für Karl den Großen", "König von Spanien": "für den König von Spanien"}),
    ("Hier lag ", {"Die Linke": "lag die Linke", "Vorsitzender der SPD": "lag der Vorsitzende der SPD"}),
    ("Der Amtssitz von ", {
        "Bürgermeister von Paris": "Amtssitz des Bürgermeisters von Paris", "Papst": "Amtssitz des Papstes",
        "Erzbischof von Canterbury": "Amtssitz des Erzbischofs von Canterbury",
        "Präsident der Vereinigten Staaten": "Amtssitz des Präsidenten der Vereinigten Staaten",
        "Königin von Dänemark": "Amtssitz der Königin von Dänemark",
        "Britischer Premierminister": "Amtssitz des Britischen Premierministers",
        "Regierender Bürgermeister von Berlin": "Amtssitz des Regierenden Bürgermeisters von Berlin",
        "Doge": "Amtssitz von „Doge“", "Zar": "Amtssitz des Zaren",
    }),
    ("Der Eigentümer von ", {  # of no known gender: quoted, which is right for all
        "Mary Rose": "von „Mary Rose“", "Bismarck": "von „Bismarck“", "Camp Nou": "von „Camp Nou“",
        "Corriere della Sera": "von „Corriere della Sera“", "Die Zeit": "von „Die Zeit“", "Giro d'Italia":
        "von „Giro d'Italia“", "Frankfurter Allgemeine Zeitung": "der Frankfurter Allgemeinen Zeitung",
        "Jüdische Allgemeine": "der Jüdischen Allgemeinen", "Goldener Löwe": "des Goldenen Löwen", "Weißes Rauschen":
        "des Weißen Rauschens", "Grüne Jugend": "der Grünen Jugend", "Massive Attack": "von „Massive Attack“",
        "Yale University": "der Yale University", "S. Fischer Verlag": "des S. Fischer Verlags", "Wolf-Preis":
        "des Wolf-Preises", "Leipziger Zoo": "des Leipziger Zoos", "Institute for Advanced Study":
        "des Institute for Advanced Study", "Krieg und Frieden": "von „Krieg und Frieden“", "Theater Basel":
        "des Theaters Basel", "Thalia Theater": "des Thalia Theaters", "Deutsches Zentrum für Luft- und Raumfahrt":
        "des Deutschen Zentrums für Luft- und Raumfahrt", "„Cap“": "von „Cap“",
        "A Revision of the Genus Rosa of the Northern Museum Islands":
        "von „A Revision of the Genus Rosa of the Northern Museum Islands“",
    }),
    ("Das Eigentum an ", {"Mary Rose": "an „Mary Rose“", "Louvre": "am Louvre"}),
    ("Die Ideologie, mit der man ", {"Fidesz": "man Fidesz"}),
    ("Die politische Ideologie von ", {"Fidesz": "der Partei Fidesz", "SPD": "der SPD"}),
    ("Das Rektorat von ", {"Caltech": "der Hochschule Caltech", "ETH Zürich": "der ETH Zürich"}),
    ("Den Vorsitz von ", {"Siemens": "der Organisation Siemens", "The Guardian": "von „The Guardian“"}),
    ("Die Kapitänsbinde von ", {"Benfica": "der Mannschaft Benfica", "TSG Hoffenheim": "der TSG Hoffenheim"}),
    ("Die Liga, in der die Mannschaft von ", {
        "Ajax Amsterdam": "in der die Mannschaft Ajax Amsterdam", "FC Basel": "die Mannschaft des FC Basel",
    }),
    ("Das Gebiet von ", {  # mostly of towns
        "Wuppertal": "von Wuppertal", "Buenos Aires": "von Buenos Aires", "Rheinland-Pfalz": "von Rheinland-Pfalz",
        "Saarbrücken": "von Saarbrücken", "Friedrichshafen": "von Friedrichshafen", "Münster": "von Münster",
        "Neustadt an der Aisch": "von Neustadt an der Aisch", "Falkensee": "von Falkensee", "Greifswald":
        "von Greifswald", "Gran Paradiso": "von „Gran Paradiso“", "Müritz": "der Müritz",
    }),
    ("zu welchem Staat rechnet man ", {  # of places and of things alike: towns are bare where their ending tells
        "Nürnberg": "man Nürnberg", "Bad Tölz": "man Bad Tölz", "Portugal": "man „Portugal“", "Umbrien": "man Umbrien",
        "Weser": "man die Weser", "Mille Miglia": "man „Mille Miglia“", "Kon-Tiki": "man „Kon-Tiki“", "Wiener Kongress":
        "man den Wiener Kongress", "Siemens AG": "man die Siemens AG", "Zorn und Sühne": "man Zorn und Sühne",
        "Ein Dorf und eine Stadt": "man „Ein Dorf und eine Stadt“",
    }),
    ("Die Verwaltungseinheit, in der man ", {"Fuggerei": "man „Fuggerei“", "Louvre": "man den Louvre"}),
    ("Die Mutterorganisation von ", {"Interpol": "von „Interpol“", "CIA": "der CIA"}),
    ("wer leitet ", {"Interpol": "leitet „Interpol“", "Louvre": "leitet den Louvre"}),
    ("wer führt die Mannschaft von ", {"Ajax": "führt die Mannschaft Ajax", "FC Basel": "die Mannschaft des FC Basel"}),
    ("Die Liga von ", {"THW Kiel": "von „THW Kiel“", "Alba Berlin": "von Alba Berlin"}),
    ("Der Ort von ", {
        "Westfälischer Friede": "des Westfälischen Friedens", "Reeperbahn Festival": "des Reeperbahn Festivals",
        "Teutoburger Wald": "des Teutoburger Waldes", "Berlinale": "der Berlinale",
        "Rock am Ring": "von „Rock am Ring“",
    }),
    ("eine Gruppe mit ", {"Bee Gees": "den Bee Gees", "Fantastische Vier": "den Fantastischen Vier"}),
    ("Das Plattenlabel von ", {"Madonna": "von Madonna", "Die Sterne": "von „Die Sterne“", "Cher": "von Cher"}),
    ("Eine Gruppe oder Organisation mit ", {
        "Marie Curie": "mit Marie Curie", "Oswald Mosley": "mit Oswald Mosley", "Roman Herzog": "mit Roman Herzog",
        "Mark Twain": "mit Mark Twain", "Die Sterne": "mit „Die Sterne“", "ABBA": "mit „ABBA“",
    }),
]  # fmt: skip
FRENCH = [
    ("La capitale de ", {
        "iPhone": "de l'iPhone", "iPhone 15": "de l'iPhone 15", "Boeing 747": "du Boeing 747", "Boeing": "de Boeing",
        "PlayStation 5": "de la PlayStation 5", "Tesla Model 3": "de la Tesla Model 3", "Tesla": "de Tesla",
        "Airbus A380": "de l'Airbus A380", "Airbus": "d'Airbus", "noyau Linux": "du noyau Linux",
        "Coccinelle": "de la Coccinelle", "Titanic": "du Titanic", "Renault 4": "de la Renault 4", "Renault":
        "de Renault", "Renault Trucks": "de Renault Trucks", "Windows": "de Windows", "Oktoberfest": "de l'Oktoberfest",
        "Tour de France": "du Tour de France", "Biennale": "de la Biennale", "Biennale de Venise":
        "de la Biennale de Venise", "Juventus": "de la Juventus", "Terres australes françaises":
        "des Terres australes françaises", "Pays-Bas caribéens": "des Pays-Bas caribéens",
        "R.A.S. chinoise de Hong Kong": "de la R.A.S. chinoise de Hong Kong", "Îles Canaries": "des Îles Canaries",
        "Guyane française": "de la Guyane française", "Samoa américaines": "des Samoa américaines",
        "Kirghizstan": "du Kirghizstan", "Afrique australe": "de l'Afrique australe", "Amériques": "des Amériques",
        "Géorgie du Sud-et-les Îles Sandwich du Sud": "de la Géorgie du Sud-et-les Îles Sandwich du Sud",
        "Svalbard et Jan Mayen": "du Svalbard et Jan Mayen", "Rencontres d'Arles": "des Rencontres d'Arles",
        "Spice Girls": "des Spice Girls", "Rolling Stones": "des Rolling Stones", "Mercedes Cabrera":
        "de Mercedes Cabrera", "Wayne Bridge": "de Wayne Bridge", "Europe 1": "d'Europe 1",
    }),
    ("La résidence officielle de ", {
        "pape": "du pape", "maire de Paris": "du maire de Paris", "secrétaire général des Nations unies":
        "du secrétaire général des Nations unies", "reine du Danemark": "de la reine du Danemark",
        "archevêque de Cantorbéry": "de l'archevêque de Cantorbéry", "Premier ministre": "du Premier ministre",
        "Roi Lion": "de Roi Lion", "vice-président des États-Unis": "du vice-président des États-Unis",
    }),
    ("Le bâtiment qui sert de résidence officielle à ", {
        "maire de Paris": "au maire de Paris", "pape": "au pape", "reine du Danemark": "à la reine du Danemark",
    }),
    ("Le poste de ", {"pape": "de pape", "maire de Paris": "de maire de Paris"}),
    ("La fonction de ", {"archevêque de Reims": "fonction d'archevêque de Reims", "évêque": "fonction d'évêque"}),
    ("Le nom de ", {
        "Grand Hôtel de Cabourg": "du Grand Hôtel de Cabourg", "Nouvelle Alliance flamande":
        "de la Nouvelle Alliance flamande", "1re armée": "de la 1re armée", "Hôtel Matignon": "de l'Hôtel Matignon",
        "Tour de Romandie": "du Tour de Romandie", "Tour de Pise": "de la Tour de Pise", "Culture Club":
        "de Culture Club", "Temple of the Dog": "de Temple of the Dog", "Guerre et Paix": "de Guerre et Paix",
        "US Airways": "d'US Airways", "SS Great Britain": "du SS Great Britain",
    }),
    ("Le siège de l'organisation ", {
        "Corriere della Sera": "de l'organisation Corriere della Sera", "Frente Amplio": "l'organisation Frente Amplio",
        "Le Monde": "siège du Monde", "La Repubblica": "siège de La Repubblica", "L'Équipe": "siège de L'Équipe",
        "Parti socialiste": "siège du Parti socialiste", "Renault": "siège de Renault", "EDF": "siège d'EDF",
    }),
    ("La personne qui préside l'organisation ", {
        "Frente Amplio": "préside l'organisation Frente Amplio", "SNCF": "préside la SNCF",
        "Les Républicains": "préside Les Républicains",
    }),
    ("Le propriétaire du bien ", {
        "Mary Rose": "du bien « Mary Rose »", "Andrea Doria": "du bien « Andrea Doria »", "Normandie":
        "du bien « Normandie »", "Tour Eiffel": "propriétaire de la Tour Eiffel", "Renault": "propriétaire de Renault",
        "SNCF": "propriétaire de la SNCF", "USS Missouri": "propriétaire de l'USS Missouri",
    }),
    ("quel est le pays lié au nom ", {
        "Vendée Globe": "le pays lié au nom « Vendée Globe »", "Loire": "le pays de la Loire", "Rhône": "pays du Rhône",
        "Aix-en-Provence": "le pays d'Aix-en-Provence", "Saint-Jean-de-Luz": "le pays de Saint-Jean-de-Luz",
        "Normandie": "le pays de la Normandie", "Le Havre": "le pays du Havre", "Saint-Siège": "pays du Saint-Siège",
    }),
    ("le pays auquel on rattache le nom ", {
        "Belem": "rattache le nom « Belem »", "Les Ulis": "rattache Les Ulis", "Alpes": "rattache les Alpes",
    }),
    ("Le diffuseur de « ", {
        "Intouchables": "diffuseur d'« Intouchables", "Kaamelott": "diffuseur de « Kaamelott", "L'Écume des jours":
        "de « L'Écume des jours",
    }),
    ("La langue en usage sur le territoire nommé ", {
        "Bohuslän": "sur le territoire nommé Bohuslän", "France": "sur le territoire de la France", "Cuba":
        "sur le territoire de Cuba", "Israël": "sur le territoire d'Israël",
    }),
    ("La ville qui sert de capitale au territoire nommé ", {
        "Skåne": "capitale au territoire nommé Skåne", "Japon": "capitale au Japon", "Malte": "capitale à Malte",
    }),
    ("L'interprète de l'œuvre « ", {
        "Maison de poupée": "l'œuvre « Maison de poupée", "Le Parrain": "l'œuvre « Le Parrain",
        "Orgueil et Préjugés": "l'œuvre « Orgueil et Préjugés",
    }),
]  # fmt: skip
SPANISH = [
    ("La capital de ", {
        "iPhone": "del iPhone", "Boeing 747": "del Boeing 747", "Boeing": "de Boeing", "Titanic": "del Titanic",
        "RMS Titanic": "del RMS Titanic", "Airbus A380": "del Airbus A380", "Airbus": "de Airbus",
        "núcleo Linux": "del núcleo Linux", "PlayStation 5": "de la PlayStation 5", "Tesla Model 3":
        "del Tesla Model 3", "Renault 4": "del Renault 4", "Renault": "de Renault", "Windows": "de Windows",
        "Arco de Triunfo": "del Arco de Triunfo", "Bienal de Venecia": "de la Bienal de Venecia",
        "Diccionario de la lengua española": "del Diccionario de la lengua española", "Metro de Madrid":
        "del Metro de Madrid", "Tour de Francia": "del Tour de Francia", "Empire State": "del Empire State",
        "Empire State Building": "del Empire State Building", "G20": "del G20", "G7": "del G7", "G8": "del G8",
        "Ligue 1": "de la Ligue 1", "RAE": "de la RAE", "RAE de Hong Kong (China)": "de la RAE de Hong Kong (China)",
        "Copa del Rey": "de la Copa del Rey", "Liga de Campeones": "de la Liga de Campeones", "Torre Eiffel":
        "de la Torre Eiffel", "Palacio de la Moncloa": "del Palacio de la Moncloa", "Universidad de Salamanca":
        "de la Universidad de Salamanca", "Ministerio de Defensa": "del Ministerio de Defensa",
        "Caribe neerlandés": "del Caribe neerlandés", "Sudeste asiático": "del Sudeste asiático",
        "Spice Girls": "de las Spice Girls", "Rolling Stones": "de los Rolling Stones", "Mercedes Cabrera":
        "de Mercedes Cabrera", "Rey": "de Rey", "Rey León": "de Rey León", "Papa Roach": "de Papa Roach",
        "General Motors": "de General Motors", "Presidente Prudente": "de Presidente Prudente",
        "Secretario General de la OTAN": "del Secretario General de la OTAN",
    }),
    ("La residencia oficial de ", {
        "papa": "del papa", "alcalde de París": "del alcalde de París", "reina de Dinamarca":
        "de la reina de Dinamarca", "Canciller de Alemania": "del Canciller de Alemania", "Rey": "del Rey",
    }),
    ("El edificio que sirve de residencia oficial a ", {
        "presidente de Chile": "al presidente de Chile", "papa": "al papa",
    }),
    ("La sede de la entidad ", {
        "Initech": "la entidad Initech", "Banco Mundial": "del Banco Mundial", "la OTAN": "de la OTAN",
        "Naciones Unidas": "de las Naciones Unidas", "Collège de France": "la entidad Collège de France",
        "Volkswagen AG": "la entidad Volkswagen AG", "Mercado Libre": "la entidad Mercado Libre",
        "The Who": "la entidad The Who",
    }),
    ("La entidad operadora del bien o servicio ", {
        "Mary Rose": "servicio Mary Rose", "Titanic": "del Titanic", "torre Eiffel": "de la torre Eiffel",
    }),
    ("La empresa o persona que patrocina al equipo o evento ", {
        "Real Madrid": "al Real Madrid", "Chicago Bulls": "a los Chicago Bulls", "Wacken": "al equipo o evento Wacken",
    }),
    ("El conjunto o grupo que incluye el elemento ", {
        "Alpes": "incluye los Alpes", "Támesis": "incluye el Támesis", "Ararat": "incluye el elemento Ararat",
    }),
    ("La residencia oficial del cargo o titular ", {
        "papa": "del papa", "reina de Dinamarca": "de la reina de Dinamarca", "Taoiseach": "cargo o titular Taoiseach",
    }),
    ("El edificio que sirve de residencia oficial al cargo o titular ", {"papa": "al papa"}),
    ("La interpretación de «", {"Casa de muñecas": "de «Casa de muñecas", "Premios Goya": "de «Premios Goya"}),
    ("La redacción de la publicación ", {
        "New York Times": "la publicación New York Times", "El País": "la publicación El País",
    }),
    ("El país de ", {
        "Puente Genil": "de «Puente Genil»", "Alpes": "de los Alpes", "India": "de la India", "La Haya": "de La Haya",
        "catedral de Colonia": "de la catedral de Colonia", "Mulhacén": "de «Mulhacén»", "Inditex": "de «Inditex»",
        "Museo del Prado": "del Museo del Prado", "Río Amazonas": "del Río Amazonas", "el Congo": "del Congo",
    }),
    ("El equipo de ", {
        "Papa Francisco": "del Papa Francisco", "Papa Roach": "de Papa Roach", "Rey Mysterio": "de Rey Mysterio",
        "Reina Isabel II": "de la Reina Isabel II",
    }),
    ("El cargo de ", {"papa": "de papa", "Primer ministro": "de Primer ministro", "rey de España": "de rey de España"}),
]  # fmt: skip
CASES = [
    (language, before, subject, expected)
    for language, tables in (("German", GERMAN), ("French", FRENCH), ("Spanish", SPANISH))
    for before, table in tables
    for subject, expected in table.items()
]


@pytest.mark.parametrize(("language", "before", "subject", "expected"), CASES)
def test_a_name_in_its_phrase(language: str, before: str, subject: str, expected: str) -> None:
    joined = "".join(in_phrase(before, subject, language))
    assert joined.endswith(f" {expected}"), joined


def test_every_statement_that_is_of_no_person_can_name_what_has_no_known_gender_in_german() -> None:
    """Each puts it into quotation marks or calls it what it is; but those of countries, towns, offices and players."""
    german, bare = language_of("de"), set()
    for id, worded in german.relations.items():
        for template in worded.cloze + worded.cloze_past:
            said = german.statement(template, "Qlortz Vizzel", "X")
            named = re.search(r"„Qlortz Vizzel“|(?:der|des) \w+ Qlortz Vizzel|die Mannschaft Qlortz Vizzel", said)
            bare |= set() if named else {id}
    of_states, of_persons = (
        {"P35", "P6", "P36", "P38", "P122", "P85", "P37", "P194"},
        {
            "P39",
            "P54",
            "P26",
            "P108",
            "P102",
            "P551",
            "P264",
            "P463",
            "P27",
            "P69",
            "P53",
            "P106",
            "P140",
            "P241",
            "P410",
            "P413",
            "P451",
            "P768",
            "P937",
        },
    )
    assert bare <= of_states | of_persons | {"P118"}, bare


def test_an_office_as_the_subject_of_a_statement() -> None:
    for code, subject, said in (
        ("fr", "maire de Paris", "La résidence officielle attachée à la fonction de maire de Paris est X"),
        ("de", "Erzbischof von Canterbury", "Die offizielle Residenz des Erzbischofs von Canterbury ist X"),
        ("es", "papa", "La residencia oficial del papa es X"),
    ):
        language = language_of(code)
        assert language.statement(language.relations["P263"].cloze[0], subject, "X") == said
    french = language_of("fr")
    held = french.statement(french.relations["P1308"].cloze[1], "maire de Paris", "X")
    assert held == "Le poste de maire de Paris est occupé par X"


def test_french_wordings_suit_a_name_whose_article_nobody_knows() -> None:
    """Subjects other than persons are called what they are, quoted, or named behind a word that goes without one."""
    called = listed_words("French")["called"]
    bare = ("« ", "nom de ", "celui de ", "fonction de ", "poste de ", *(f"{words} " for words in called))
    of_places_and_persons = {"P6", "P35", "P53", "P122", "P140", "P241", "P421", "P463"}  # are asked by the name alone
    for relation, worded in language_of("fr").relations.items():
        if subject_kind(relation) != "person" and relation != "P53":  # whose family is told
            asked = () if relation in of_places_and_persons else worded.questions
            for template in (*worded.cloze, *asked):
                assert template.split("[SUBJ]")[0].endswith(bare), f"{relation}: {template}"


def test_french_words_that_are_quoted_are_those_that_call_a_name() -> None:
    french = listed_words("French")
    nouns = {noun for words in french["called"] for noun in words.replace("'", " ").split()[-1:]}
    assert {*french["goods"]} < {*french["quoted"]} < nouns
    assert language_of("fr").question("qui possède le bien [SUBJ] ?", "Belem") == "qui possède le bien « Belem » ?"


def test_no_french_name_that_is_listed_as_bare_has_an_article() -> None:
    for name in listed_words("French")["bare"]:
        assert "".join(in_phrase("Le nom de ", name, "French")) in (f"Le nom de {name}", f"Le nom d'{name}"), name


def test_german_wordings_of_countries_places_and_parents_fit_a_subject_of_any_kind() -> None:
    """No river, war, firm or agency is called a territory, a building or a company."""
    german = language_of("de")
    kinds = (
        r"Gebiet|Standort|beherberg|untergebracht|Räume|konzern|gesellschaft|unternehmen|liegt \[SUBJ\]| in \[SUBJ\]"
    )
    for id in ("P17", "P131", "P276", "P355", "P361", "P421", "P466", "P749"):
        worded = german.relations[id]
        for template in (*worded.cloze, *worded.cloze_past, *worded.questions, *worded.present):
            assert not re.search(kinds, template, re.IGNORECASE), f"{id}: {template}"


def test_every_german_question_but_of_states_and_persons_can_name_what_has_no_known_gender() -> None:
    german, bare = language_of("de"), set()
    for id, worded in german.relations.items():
        for template in worded.questions + worded.present:
            said = german.question(template, "Qlortz Vizzel")
            named = re.search(r"„Qlortz Vizzel“|\b(?:der|des) \w+ Qlortz Vizzel|die Mannschaft Qlortz Vizzel", said)
            bare |= set() if named or subject_kind(id) == "person" else {id}
    of_states = {"P35", "P6", "P36", "P38", "P122", "P85", "P37", "P194"}
    # of persons and bands, whose name is bare, of units, and of what a name of two words tells
    assert bare <= of_states | {"P264", "P463", "P53", "P118", "P140", "P241", "P413", "P410", "P768", "P937"}, bare
