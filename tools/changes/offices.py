"""Labels of offices as every-politician-scrapers, V-DyKnow, openstates and this project write them, made one."""

import re

COUNTRIES = {
    "United States of America": "the United States", "United Kingdom": "the United Kingdom",
    "Netherlands": "the Netherlands", "People's Republic of China": "China", "French Republic": "France",
    "Republic of Poland": "Poland",
}  # fmt: skip
STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California", "CO": "Colorado",
    "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia", "HI": "Hawaii", "ID": "Idaho",
    "IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana",
    "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi",
    "MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey",
    "NM": "New Mexico", "NY": "New York", "NC": "North Carolina", "ND": "North Dakota", "OH": "Ohio",
    "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania", "PR": "Puerto Rico", "RI": "Rhode Island",
    "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont",
    "VA": "Virginia", "WA": "Washington", "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming",
}  # fmt: skip
RENAMED = {
    "Federal Chancellor of Germany": "Chancellor of Germany",
    "Federal Chancellor of Austria": "Chancellor of Austria",
    "Monarch of the Belgians": "King of the Belgians",
    "King of Belgium": "King of the Belgians",
    "Monarch of the Netherlands": "King of the Netherlands",
    "Monarch of Spain": "King of Spain",
    "Prime Minister of Ireland": "Taoiseach of Ireland",
    "Premier of the State Council": "Premier of China",
    "Governor of Special Capital Region of Jakarta": "Governor of Jakarta",
    "Governor of the Banca d'Italia": "Governor of the Bank of Italy",
    "Governor of the Bank of Norway": "Governor of Norges Bank",
    "Secretary of State for the Home Department of the United Kingdom": "Home Secretary of the United Kingdom",
    "Secretary of State for Foreign and Commonwealth Affairs of the United Kingdom": (
        "Foreign Secretary of the United Kingdom"
    ),
    "Secretary of State for Culture, Media and Sport of the United Kingdom": "Culture Secretary of the United Kingdom",
    "Secretary of State for Health and Social Care of the United Kingdom": "Health Secretary of the United Kingdom",
    "Secretary of State for Work and Pensions of the United Kingdom": (
        "Work and Pensions Secretary of the United Kingdom"
    ),
    "Secretary of State for Environment, Food and Rural Affairs of the United Kingdom": (
        "Environment Secretary of the United Kingdom"
    ),
    "Secretary of State for Education of the United Kingdom": "Education Secretary of the United Kingdom",
    "Secretary of State for Defence of the United Kingdom": "Defence Secretary of the United Kingdom",
    "Secretary of State for Transport of the United Kingdom": "Transport Secretary of the United Kingdom",
    "Secretary of State for Northern Ireland of the United Kingdom": "Northern Ireland Secretary of the United Kingdom",
    "Secretary of State for Scotland of the United Kingdom": "Scotland Secretary of the United Kingdom",
    "Secretary of State for Wales of the United Kingdom": "Wales Secretary of the United Kingdom",
    "Secretary of State for International Development of the United Kingdom": (
        "International Development Secretary of the United Kingdom"
    ),
    "Lord Chancellor of the United Kingdom": "Justice Secretary of the United Kingdom",
    "Minister for Foreign Affairs and Trade of Ireland": "Minister for Foreign Affairs of Ireland",
    "United States Secretary of Defence": "United States Secretary of Defense",
    "Administrator of the United States Environmental Protection Agency": (
        "Administrator of the Environmental Protection Agency"
    ),
    "Speaker of the House of Representatives of the United States": (
        "Speaker of the United States House of Representatives"
    ),
    "Chair of the Federal Reserve of the United States": "Chair of the Federal Reserve",
    "Minister of Economy of Greece": "Minister of Finance of Greece",  # all whom the source lists held that ministry
}
OF_TWO_COUNTRIES = {"Punjab", "Georgia", "Amazonas", "Santa Cruz", "La Rioja", "San Juan", "Córdoba"}
# A region's office that the source lists among its country's: the country behind it is one name too many.
_OF_A_REGION = re.compile(
    r"(Head of the .*Republic|Head of the Republic|President of (the )?(Generalitat|Junta|Community of|Principality|"
    r"Government of|Region of|Basque|Navarre|Balearic|Castile|Cantabria|Sicily|Piedmont|Molise|Lombardy|Aosta|Veneto|"
    r"Tuscany|Liguria|Friuli|Campania|Basilicata|Abruzzo|South Tyrol|Azad Kashmir|Bashkortostan|Regional Government)|"
    r"Prime Minister of Azad Kashmir|Prime Minister of the Cook|Administrator of|Speaker of the Flemish|"
    r"Governor of İst|Governor of Öst|Governor of Söd|Head of Government of Buenos|Mayor of İzmir|Head of Kalmykia|"
    r"Director of the (CIA|FBI)|White House|Administrator of the)"
)
_US_SECRETARY = re.compile(r"(Secretary of .*|Attorney General|Solicitor General) of the United States")
# Chambers whose presidents change every few months, posts that are contested or that hardly anybody has heard of, and
# departments that the source calls by the name they had years later.
LEFT_OUT = re.compile(
    r"President of the (Chamber of Deputies|Senate) of Mexico|Pitcairn|Taipei|Presidential representative|Crimea|"
    r"Sevastopol|Head of Chelyabinsk|Governor of the State\b|Secretary of State of \w|^secretary of state of|"
    r"Business, Energy|Levelling Up|Minister for Agriculture and Food|Defence Equipment|Policy Unit|Undersecretary|"
    r"Legislative Assembly of Bahia|Caixa|Minister for Housing of Denmark|Head of Kyiv City of|Narodowy|"
    r"Energy and Climate Change|Minister of Foreign Affairs of India|"
    r"Republican Policy|Republican Committee|Conference Vice|Prime Minister of Saudi|^Leader of the (House|Seanad|Gov)"
)


def plain_office(label: str) -> str | None:
    """The office as a reader would name it, or None of one that is left out."""
    if LEFT_OUT.search(label):
        return None
    if (match := re.fullmatch(r"(governor|mayor) of (?:(.+), )?([A-Z]{2})", label)) is not None:
        title, town, state = match.groups()
        label = f"{title} of {town or STATES[state]}"
        if label == "governor of Georgia":
            label += ", United States"
    elif (match := re.fullmatch(r"(.*) \((.*)\)", label)) is not None:
        label, country = match.groups()
        country = COUNTRIES.get(country, country)
        if re.fullmatch(r"Governor of the (\S+ )?Bank", label):
            label = f"{label} of {country}"
        elif label.partition(" of ")[2] in OF_TWO_COUNTRIES:
            label = f"{label}, {country.removeprefix('the ')}"
    else:
        for name, short in COUNTRIES.items():
            label = re.sub(rf" of (the )?{re.escape(name)}$", f" of {short}", label)
    label = label[0].upper() + label[1:]
    if _OF_A_REGION.match(label) is not None and label.count(" of ") + label.startswith("White House") > 1:
        region, _, country = label.rpartition(" of ")
        label = region if country in _LISTED else label
    elif (match := _US_SECRETARY.fullmatch(label)) is not None:
        label = f"United States {match[1]}"
    return RENAMED.get(label, label)


_LISTED = {
    "the United States", "Spain", "Italy", "Russia", "Pakistan", "India", "Australia", "Belgium", "Sweden", "Turkey",
    "Argentina", "New Zealand", "Portugal",
}  # fmt: skip
_KINDS = [
    ("central bank", r"Banque de|Bank\b.*|Federal Reserve|Riksbank|Bundesbank"),
    ("presiding officer", r"^(Speaker|President|Chairman|Chairperson) of the .*(House|Senate|Assembly|Parliament|"
     r"Council|Chamber|Congress|Knesset|Storting|Folketing|Riksdag|Lok Sabha|Duma|Rada)\b"),
    ("international office", r"United Nations|International Court|World Trade|^FIA$"),
    ("public official", r"Privy Council|^Administrator of the E|^Administrator of the S|General Staff|"
     r"Office of the President|City State|^Chancellor of Switzerland"),
    ("judge", r"(Supreme|Constitutional|International) Court"),
    ("mayor", r"^(Lord |Governing )?Mayor of|Head of Government of Buenos"),
    ("regional head", r"of (Azad Kashmir|the Cook Islands)$"),
    ("deputy head", r"^(Tánaiste|Deputy Prime Minister|Vice President) of"),
    ("head of government", r"^(Prime Minister|Chancellor|Taoiseach) of (?!the Ex|the Duchy)|^Premier of (China|Taiwan)|"
     r"^First Minister"),
    ("regional head", r"^(Governor|Premier|Chief [Mm]inister|Administrator|Head) of|^President of (the )?(Generalitat|"
     r"Junta|Community of|Principality|Government of|Region|Basque|Navarre|Balearic|Castile|Cantabria|Sicily|Piedmont|"
     r"Molise|Lombardy|Aosta|Veneto|Tuscany|Liguria|Friuli|Campania|Basilicata|Abruzzo|South Tyrol|Azad|Bashkort)"),
    ("head of state", r"^(President|King|Queen|Emperor|Monarch|Pope|Governor[- ]General|Grand Duke|"
     r"Supreme Leader)( of |$)(?!the (Court|Treasury|Queen|Bank))"),
    ("foreign minister", r"(Foreign|External) (Affairs|Relations|Secretary|Minister)|United States Secretary of State"),
    ("defence minister", r"^(Federal )?Minister (of|for) (National )?Defen[cs]e( and Armed Forces Logistics)? of|"
     r"Defence (Minister|Secretary)|Secretary of Defense"),
    ("finance minister", r"^(Federal )?Minister (of|for) (the )?(Economy and )?Finance of|Finance Minister|Exchequer|"
     r"Secretary of the Treasury"),
    ("interior minister", r"^(Federal )?Minister (of|for) (the )?(Interior|Home|Interior Affairs|Home Affairs) of|Home "
     r"Secretary|(Interior|Home Affairs) Minister|Homeland Security"),
]  # fmt: skip
_ONE_FIELD = re.compile(
    r"^(Federal )?(Minister|Secretary) (of|for) (the )?(Justice|Health|Healthcare|Education|Agriculture|Transports?|"
    r"Labour|Environment|Culture|Energy|Economy|Trade|Economic Affairs|Economic Development|Social Affairs|Housing|"
    r"Social Policy|Foreign Trade|Education, Culture, Sports, Science and Technology|Economy, Trade and Industry|"
    r"Health, Labour and Welfare|Agriculture, Forestry and Fisheries|Education and Science|Education, Culture and "
    r"Science|Health and Care Services|Transport and Communications|Social Security|Science and Technology) of "
)
_OTHER_MINISTER = re.compile(r"^United States Secretary|Secretary of the United Kingdom|[A-Z]\w+ Minister of ")
_OFFICIAL = re.compile(
    r"Attorney General|Solicitor General|^Director of|^Director-General of|^Administrator of the|^White House|"
    r"Joint Chiefs|^Chairman of the Fin|General Staff|Public Safety Commission|Minority|Majority|Assistant Speaker|"
    r"Conference Chair|Caucus Chair|Pro Tempore|Secretary-General of the United Nations|Commissioner"
)


def office_kind(office: str) -> str | None:
    """What kind of office it is; None of one that is left out, or whose name says too little."""
    if LEFT_OUT.search(office):
        return None
    for kind, pattern in _KINDS:
        if re.search(pattern, office):
            return kind
    if _ONE_FIELD.search(office) or _OTHER_MINISTER.search(office):
        return "other minister"
    return "public official" if _OFFICIAL.search(office) else None
