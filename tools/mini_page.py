"""The page ``docs/mini.md``: what the bundled data set mini holds, and how it is balanced, counted from its files."""

from collections import Counter
from collections.abc import Iterable
from importlib.resources import files

from anachron.core.facts import Fact
from anachron.data.bundled.mini import MiniEntity, mini_entities, mini_facts
from anachron.data.bundled.mini_updates import mini_replacements

HEAD = """# The bundled data set

Made from the code by `make docs`; do not edit.

`mini` contains real dated facts, so that you can try everything without a download: {probed:,} facts that are
asked about and {others:,} that complete their successions, with {relations} relations, from {first} to 2020.
`mini-updates` contains {updates} replacements between 2015 and 2024.

Each row has a note that says where it can be checked. Anything uncertain was left out, so many successions have
gaps. Dates are days if these are known, otherwise months or years. A fact is asked about if it ended by 2020, lasted
more than three years and holds in one period.

`entities.csv`, next to the facts, gives the kind and continent of each subject and, for persons that occur as answers,
their gender and, if certain, the years of their lives. It has Wikidata ids if a source gives them or they are certain;
the ids are not part of the statements. There is no popularity, because it is measured in page views, which a package
cannot know without a network. The years of lives are in the statements (`SubjectFrom`, `ObjectUntil` and so on), so
that [`lifespans`](tables.md#lifespans) shows W with and without the dates outside them.
"""
AWAY = ("Africa", "Asia", "Oceania", "South America")
CONTINENTS = ("Africa", "Asia", "Europe", "North America", "Oceania", "South America", "International")


def mini_page() -> str:
    """The page as Markdown."""
    items = mini_facts()
    probed, known = [item.fact for item in items if item.probed], mini_entities()
    first = min(fact.period.start.year for fact in probed if fact.period.start is not None)
    head = HEAD.format(
        probed=len(probed), others=len(items) - len(probed), relations=len({fact.relation_id for fact in probed}),
        first=f"{-first} BCE" if first < 0 else f"AD {first}", updates=len(mini_replacements()),
    )  # fmt: skip
    parts = [head, "## Continents\n", _continents(probed, known), "## Persons\n", _persons(probed, known)]
    parts += ["## Relations\n", _relations(probed, known)]
    credits = files("anachron.data").joinpath("mini/CREDITS.md").read_text("utf-8")
    return "\n".join([*parts, credits.replace("# ", "## ", 1)])


def _continents(facts: list[Fact], known: dict[str, MiniEntity]) -> str:
    subjects = Counter(known[label].continent for label in {fact.subject for fact in facts})
    counted = Counter(known[fact.subject].continent for fact in facts)
    rows = [
        (c, counted[c], share(counted[c], len(facts)), subjects[c], share(subjects[c], subjects.total()))
        for c in CONTINENTS
    ]
    return table(("continent of the subject", "facts", "share", "subjects", "share"), rows)


def _persons(facts: list[Fact], known: dict[str, MiniEntity]) -> str:
    def answers(relations: Iterable[Fact]) -> list[MiniEntity]:
        return [known[f.object] for f in relations if f.object in known and known[f.object].kind == "person"]

    outside = [fact for fact in facts if fact.relation_id != "P26"]
    rows = []
    for name, some in (("all except spouses", outside), ("spouses", [f for f in facts if f.relation_id == "P26"])):
        persons = answers(some)
        women = sum(one.gender == "woman" for one in persons)
        different = {one.label: one.gender for one in persons}
        others = sum(gender == "woman" for gender in different.values())
        rows.append(
            (name, len(persons), women, share(women, len(persons)), len(different), share(others, len(different)))
        )
    return table(("facts whose answer is a person", "facts", "answer is a woman", "share", "persons", "women"), rows)


def _relations(facts: list[Fact], known: dict[str, MiniEntity]) -> str:
    away = Counter(f.relation for f in facts if known[f.subject].continent in AWAY)
    counted = [
        f"{name} ({id}) {count}, {share(away[name], count)}"
        for (name, id), count in Counter((fact.relation, fact.relation_id) for fact in facts).most_common()
    ]
    return f"Facts of each relation, and their share from {', '.join(AWAY)}: {'; '.join(counted)}.\n"


def share(part: int, whole: int) -> str:
    """In whole percent."""
    return f"{part / whole:.0%}".replace("%", " %")


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """A Markdown table, the first column to the left, the others to the right."""
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
