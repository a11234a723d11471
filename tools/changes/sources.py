"""What each source gives: its rows, less those that its notes, or a rule stated here, say are wrong or unsure."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

from changes.offices import office_kind, plain_office
from changes.rows import Row, days_apart, first_day

SHORT = 45  # days: who held an office for less stood in for somebody (Liz Truss was prime minister for 49)
SEATS = 31  # days that two may hold one seat, by the source
GAP = 366  # days: who held an office briefly within so many of a change; how long a driver may go without a race

OFFICE, DEATH, CURRENCY = "officeholder", "alive or dead", "currency"
WINNER, LEADER, TEAM = "latest winner", "leader", "Formula One team"
SOFTWARE, DEVICE = "newest release series", "number of the newest numbered model"
MOST_SOFTWARE = 3  # a month
SPOKEN = {  # what a sentence calls a product
    "Linux Kernel": "the Linux kernel", "Android OS": "Android", "Apple iOS": "iOS", "Apple macOS": "macOS",
    "Apple watchOS": "watchOS", "Oracle JDK": "the Oracle JDK", "Microsoft .NET": ".NET Core",
    "Unity": "the Unity engine", "Godot": "the Godot engine", "Go": "the Go language", "Rust": "the Rust language",
    "Apple iPhone": "iPhone", "Apple iPad": "iPad", "React": "the React library", "Qt": "the Qt framework",
}  # fmt: skip
PRODUCTS = (
    "Ubuntu", "Android OS", "Apple iOS", "Python", "Apple macOS", "Firefox", "Debian", "WordPress", "Linux Kernel",
    "PostgreSQL", "Node.js", "PHP", "Fedora Linux", "Django", "Go", "Kubernetes", "Ruby", "MySQL", "Rust",
    "Ruby on Rails", "Angular", "Laravel", "Blender", "Kotlin", "Unity", "Godot", "Microsoft .NET", "Spring Boot",
    "FreeBSD", "Oracle JDK", "React", "Vue", "Elasticsearch", "Redis", "Linux Mint", "MariaDB", "LibreOffice",
    "Red Hat Enterprise Linux", "Symfony", "Apple watchOS", "NumPy", "Julia", "Next.js", "OpenSSL", "nginx", "Scala",
    "Alpine Linux", "OpenBSD", "Qt", "MediaWiki", "Apache Spark",
)  # fmt: skip
# Read and found wrong, with what the source's notes or common knowledge say against them.
WRONG = {
    ("Zimbabwe", "Zimbabwean gold"): "the date is that of its code; it was in use in April",
    ("African Cup of Nations", "Morocco"): "Senegal won on the pitch; the award came later",
    ("Prime Minister of Turkey", "Recep Tayyip Erdoğan"): "the office ended",
    ("President of Bangladesh", "Abdul Hamid"): "he had acted for a month before",
    ("World Bank", "Kristalina Georgieva"): "she only stood in",
    ("World Bank", "David Malpass"): "see the president of the World Bank",
    ("World Bank", "Ajaypal Singh Banga"): "see the president of the World Bank",
    ("President of Mexico", "Claudia Sheinbaum"): "a day early; see known.txt",
    **{("Alpine Linux", f"2.{n}"): "dates a year early and more (2.2 came in May 2011)" for n in range(1, 8)},
}
# Tournaments of which the source's notes say that every final was read. Elsewhere the last match on file is not always
# what decided: finals of two matches (AFF), editions that are missing (Gulf Cup, SAFF).
TOURNAMENTS = {
    "FIFA World Cup", "UEFA Euro", "Copa América", "African Cup of Nations", "AFC Asian Cup", "Gold Cup",
}  # fmt: skip
MONTH_ONLY = {("Amazon", "Andy Jassy"), ("Alphabet Inc.", "Sundar Pichai")}  # sources differ by days


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def wrong(row: Row) -> bool:
    return (row.subject, row.new) in WRONG


def offices(changes: Iterable[dict[str, str]], holders: "Holders") -> Iterator[Row]:
    """Changes of offices that one person holds at a time, under a name that holds for the whole time."""
    for row in changes:
        if not row["relation"].startswith("P1308"):
            continue
        office = plain_office(row["subject"])
        kind = None if office is None else office_kind(office)
        if office is None or kind is None or not named(row["old_object"], row["new_object"]):
            continue
        if holders.doubt(row["subject"], row["old_object"], row["new_object"], row["date"]):
            continue
        grade = "high" if office == "President of Switzerland" or "Federal Council of Austria" in office else ""
        old, new = (re.sub(r" \(.*\)", "", row[name]) for name in ("old_object", "new_object"))
        yield Row(office, OFFICE, kind, old, new, row["date"], row["source"], grade)


def named(*names: str) -> bool:
    """Whether these are names: not ids of Wikidata, not in another script, of two words or a monarch's."""
    return all(name and re.fullmatch(r"Q\d+", name) is None and name[0] < "ɐ" for name in names)


class Holders:
    """Who held an office, and when, by the tables of facts: what shows that a change of it is none."""

    def __init__(self, facts: Iterable[dict[str, str]]) -> None:
        self.of: dict[str, list[tuple[str, date, date | None]]] = defaultdict(list)
        for fact in facts:
            if len(fact["start"]) >= 7:
                end = first_day(fact["end"]) if len(fact["end"]) >= 7 else None
                self.of[fact["subject"]].append((fact["object"], first_day(fact["start"]), end))

    def doubt(self, office: str, old: str, new: str, day: str) -> str:
        """Why the change is no change, or is not sure; empty where nothing speaks against it."""
        held, on = self.of.get(office), first_day(day)
        if held is None:
            return ""
        for name, start, end in held:
            if name not in (old, new) and (on - start).days > SEATS and (end is not None and (end - on).days > SEATS):
                return "another seat"
            if name == old and start < on and (end is not None and (end - on).days > SEATS):
                return "another seat"
            if name in (old, new) and end is not None and (end - start).days < SHORT and abs((on - start).days) < GAP:
                return "stood in"
        ends = [end for name, start, end in held if name == old and start < on and end is not None]
        return "a gap" if ends and (on - max(ends)).days > SHORT else ""


def endoflife(changes: Iterable[dict[str, str]], facts: Iterable[dict[str, str]] = ()) -> Iterator[Row]:
    """Software and devices, `MOST_SOFTWARE` a month at most: those of the best-known products.

    The next version can be told from the one before, so all of them are predictable. facts: the source's own, which
    have 10.0 where the changes have 10.
    """
    series = {(fact["subject"], fact["object"]) for fact in facts}
    of_month: dict[str, list[Row]] = defaultdict(list)
    for change in changes:
        subject = change["subject"]
        if change["source"] != "endoflife.date" or (subject not in PRODUCTS and change["relation"] != "newest model"):
            continue
        relation = DEVICE if change["relation"] == "newest model" else SOFTWARE
        kind = "device" if relation == DEVICE else "software"
        old, new = (
            f"{name}.0" if (subject, f"{name}.0") in series and (subject, name) not in series else name
            for name in (change["old_object"], change["new_object"])
        )
        row = Row(SPOKEN.get(subject, subject), relation, kind, old, new, change["date"], change["source"], "high")
        if follows(subject, old, new) and not wrong(row):
            of_month[row.date[:7]].append(row)
    for rows in of_month.values():
        yield from sorted(rows, key=lambda row: (_rank(row.subject), row.date))[:MOST_SOFTWARE]


_RANK = {SPOKEN.get(name, name): place for place, name in enumerate(PRODUCTS)}


def follows(product: str, old: str, new: str) -> bool:
    """Whether a series comes right after another: the next number, or the first of the next. Where it does not, the
    table has only some series of the product, or two lines of them, and the old one was not the newest."""
    one, other = ([int(part) for part in re.findall(r"\d+", name)][:2] + [0] * 2 for name in (old, new))
    if product == "Ubuntu":
        return (other[0], other[1]) in ((one[0], one[1] + 6), (one[0] + 1, one[1] - 6))
    if product.startswith("Apple") and other[0] == 26:  # named after the year from then on
        return one[0] < 26
    return (other[0], other[1]) in ((one[0], one[1] + 1), (one[0] + 1, 0))


def _rank(product: str) -> int:
    return _RANK.get(product, -1)  # devices first


def deaths(changes: Iterable[dict[str, str]], grades: dict[tuple[str, str], str]) -> Iterator[Row]:
    for change in changes:
        if change["relation"].startswith("P570"):
            person, day = re.sub(r" \(.*\)", "", change["subject"]), change["date"]
            yield Row(person, DEATH, "death", "alive", "dead", day, change["source"], grades.get((person, day), ""))


def currencies(changes: Iterable[dict[str, str]]) -> Iterator[Row]:
    """Changes of currency, decided years before; a redenomination (the same name, with years) is none."""
    for change in changes:
        if not change["relation"].startswith("P38"):
            continue
        old, new = (re.sub(r" \(.*\)", "", change[name]) for name in ("old_object", "new_object"))
        old, new = (
            re.sub(r" (\w+)$", lambda last: last[0].lower(), name) if name != "Euro" else "euro" for name in (old, new)
        )
        row = Row(change["subject"], CURRENCY, CURRENCY, old, new, change["date"], change["source"], "high")
        if old != new and not wrong(row):
            yield row


def racing(changes: Iterable[dict[str, str]], facts: Iterable[dict[str, str]]) -> Iterator[Row]:
    """Winners and leaders of the standings; teams of drivers, from their first race on.

    Where a season begins, the driver had signed months before: such a change is predictable. One after a year or more
    without a race is left out.
    """
    spans = [f for f in facts if f["relation_id"] == "P54"]
    starts: dict[int, str] = {}
    for fact in spans:
        year = int(fact["start"][:4])
        starts[year] = min(starts.get(year, "9999"), fact["start"])
    last: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fact in spans:
        last[fact["subject"], fact["object"]].append(fact["end"])
    for change in changes:
        if not change["source"].startswith("f1db"):
            continue
        subject, old, new, day = change["subject"], change["old_object"], change["new_object"], change["date"]
        if change["relation"].startswith("P54"):
            ends = [end for end in last[subject, old] if end < day]
            if ends and days_apart(max(ends), day) <= GAP:
                # the second race at the latest: some start a season late
                early = days_apart(starts[int(day[:4])], day) < 30
                yield Row(subject, TEAM, TEAM, old, new, day, "f1db", "high" if early else "medium")
        elif change["relation"].startswith("P1346"):
            yield Row(subject, WINNER, "winner of a race", old, new, day, "f1db", "low")
        else:
            yield Row(subject, LEADER, "leader of the standings", old, new, day, "f1db", "low")


def football(changes: Iterable[dict[str, str]]) -> Iterator[Row]:
    for change in changes:
        if change["source"].startswith("martj42") and change["subject"] in TOURNAMENTS:
            row = Row(
                change["subject"], WINNER, "winner of a tournament", change["old_object"], change["new_object"],
                change["date"], "martj42/international_results", "low",
            )  # fmt: skip
            if not wrong(row):
                yield row


def companies_and_players(changes: Iterable[dict[str, str]]) -> Iterator[Row]:
    """What V-DyKnow has besides offices: chief executives, teams. 01-01 there is a year, and is left out."""
    labels = {"P169": "chief executive officer", "P54": "member of sports team", "P3975": "secretary general"}
    for change in changes:
        relation = labels.get(change["relation"].split()[0])
        if relation is None or not change["source"].startswith("sislab") or change["date"].endswith("-01-01"):
            continue
        key = (change["subject"], change["new_object"])
        day = change["date"][:7] if key in MONTH_ONLY else change["date"]
        row = Row(change["subject"], relation, relation, change["old_object"], key[1], day, change["source"])
        if not wrong(row):
            yield row


def event_grades(events: Path) -> dict[tuple[str, str], str]:
    """Grades of deaths in knowledge-cutoff, by person and day."""
    found = {}
    for line in events.read_text("utf-8").splitlines():
        event = json.loads(line)
        found[event["subject"], event["date"]] = event["predictability"]
    return found


def controls(file: Path, holders: Iterable[dict[str, str]], source_day: str) -> Iterator[Row]:
    """Persons who lived, and chief executives and governors who held their posts, on the date given."""
    posts = {"Musk": "Tesla", "Pichai": "Alphabet Inc.", "Dimon": "JPMorgan Chase"}
    for line in file.read_text("utf-8").splitlines():
        control = json.loads(line)
        person, source = control["subject"], "apoorvumang/knowledge-cutoff"
        if control["id"].startswith("fake-resign"):
            ceo, company = "chief executive officer", posts[person.split()[-1]]
            yield Row(company, ceo, ceo, person, "", control["date"], source, control="still")
        else:
            yield Row(person, DEATH, "death", "alive", "dead", control["date"], source, control="still")
    for fact in holders:
        if fact["subject"].startswith("governor of") and fact["start"] < "2024" and fact["end"] > source_day:
            office = plain_office(fact["subject"])
            if office is not None:
                yield Row(office, OFFICE, "regional head", fact["object"], "", source_day, "openstates/people",
                          control="still")  # fmt: skip


def known(file: Path) -> Iterator[Row]:
    """The rows of ``known.txt``, see there."""
    relation, kind, check = "", "", ""
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("## "):
            relation, kind, check = (part.strip() for part in line[3:].split("|"))
        elif line and not line.startswith("#"):
            subject, chain = (part.strip() for part in line.split("|"))
            old, *rest = (part.strip() for part in chain.split(" > "))
            for step in rest:
                match = re.fullmatch(r"(.+?) (\d{4}-\d\d(?:-\d\d)?)(?: (low|medium|high|HIGH))?", step)
                if match is None:
                    raise ValueError(f"{file}, {subject}: {step!r} is not VALUE DATE [GRADE]")
                new, day, grade = match.groups()
                theirs = grade is not None and grade.islower()
                source = "apoorvumang/knowledge-cutoff" if theirs else f"this project ({check})"
                yield Row(subject, relation, kind, old, new, day, source, (grade or "").lower())
                old = new
