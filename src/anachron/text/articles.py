"""Which English labels take "the" inside a sentence, by their first and last words."""

_FIRST_WORDS = frozenset({"Commonwealth", "Kingdom", "Republic", "United", "Weimar"})
# nouns that take the article as the last word, or before "of", "in" or "for"
_HEADS = frozenset({
    "Academy", "Administration", "Agency", "Alliance", "Association", "Authority", "Bahamas", "Bank", "Church",
    "Commission", "Commonwealth", "Community", "Company", "Confederation", "Council", "Court", "Duchy", "Dynasty",
    "Empire", "Federation", "Foundation", "Front", "Fund", "Gallery", "Gambia", "Institute", "Kingdom", "League",
    "Maldives", "Movement", "Museum", "Netherlands", "Office", "Orchestra", "Organisation", "Organization",
    "Parliament", "Party", "Philharmonic", "Philippines", "Principality", "Protectorate", "Republic", "Reserve",
    "Society", "Sultanate", "Treaty", "Union", "Vatican", "committee", "dynasty", "Committee", "team", "Team",
})  # fmt: skip
# clubs that are named in the plural
_TEAMS = frozenset({
    "Athletics", "Bears", "Blackhawks", "Braves", "Broncos", "Bruins", "Bucks", "Buckeyes", "Bulls", "Canadiens",
    "Cardinals", "Cavaliers", "Celtics", "Chiefs", "Clippers", "Colts", "Cowboys", "Cubs", "Dodgers", "Dolphins",
    "Eagles", "Expos", "Falcons", "Flyers", "Giants", "Heat", "Hawks", "Jets", "Kings", "Knicks", "Lakers", "Lightning",
    "Lions", "Mariners", "Mavericks", "Mets", "Nets", "Oilers", "Packers", "Patriots", "Penguins", "Phillies",
    "Pirates", "Pistons", "Raiders", "Rams", "Rangers", "Raptors", "Ravens", "Reds", "Rockets", "Royals", "Saints",
    "Seahawks", "Senators", "Sox", "Spurs", "Steelers", "Suns", "Tigers", "Twins", "Vikings", "Warriors", "Wings",
    "Yankees",
})  # fmt: skip
_HEADS_OF = frozenset({"College", "State", "University"})  # the University of Oxford, but Harvard University
_LINKS = frozenset({"of", "in", "for"})


def in_sentence(label: str) -> str:
    """A label as it reads inside an English sentence: ``the United States``, ``Barack Obama``."""
    words = label.split()
    if not words or words[0] in {"The", "the"}:
        return label
    link = next((i for i, word in enumerate(words) if word in _LINKS and i > 0), len(words))
    head = words[link - 1]
    plural_team = link == len(words) > 1 and head in _TEAMS
    of_something = link < len(words) and head in _HEADS_OF
    return f"the {label}" if words[0] in _FIRST_WORDS or head in _HEADS or of_something or plural_team else label
