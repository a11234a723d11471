"""A file of facts of one's own, as facts that know what their owner wrote of them."""

from anachron.errors import DataError
from anachron.facts.columns import LABELS, NEEDED, canonical
from anachron.facts.files import column_names, read_rows
from anachron.facts.rows import GivenFacts, given_facts
from anachron.stores import Place


def is_fact_file(path: Place | str) -> bool:
    """Whether the header of a file says that its rows are facts: it names a subject, a relation or an object.

    Files of statements, in the published columns, name theirs otherwise (``SubjectLabel``) and are none.
    """
    return not {"subject", "relation", "object"}.isdisjoint(map(canonical, column_names(path)))


def has_own_names(path: Place | str) -> bool:
    """Whether it does so by the names of `anachron.facts.columns.NEEDED` themselves or those of a query service, not
    those of tables made here."""
    names = [name.strip() for name in column_names(path)]
    return not {LABELS.get(name, name.casefold()) for name in names}.isdisjoint(NEEDED[:3])


def read_given_facts(path: Place | str) -> GivenFacts:
    """The facts of a file. Raises `DataError` naming the file, and row, column, value, rule and fix."""
    given = read_rows(path)
    try:
        facts = given_facts(given.columns, given.rows)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return GivenFacts(facts.facts, (*given.notes, *facts.notes))
