"""Decoys: other objects of the same kind that are asked about under the very same dates as a fact.

A decoy belongs to other subjects and never to this one, so no knowledge of the fact can favour its dates. What a model
gives a decoy at these dates it gives to late or round years, to the question's words, to the decoy's own time, or by
chance: what it would give without knowing the fact.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import ceil

import polars as pl

from anachron.core.draws import draw
from anachron.core.errors import ConfigError
from anachron.core.sameness import name_key
from anachron.data.bundled.mini import mini_entities, mini_facts
from anachron.data.dataset import Dataset
from anachron.text.roles import role_questions
from anachron.text.words import ENGLISH, language_files

DECOYS = 5
PERSON = "person"
Succession = tuple[str, str]  # the keys of a subject and a relation
Held = tuple[str, str, str, str | None]  # subject, relation, object, relation id


def with_decoys(data: Dataset, number: int = DECOYS, *, seed: int = 0) -> Dataset:
    """The data set with so many decoys of each fact, all facts of one subject and relation with the same ones.

    They are objects of other subjects: of the same relation in the data set itself, else of the same relation in the
    bundled facts, else bundled ones of the same kind (persons where the relation names a role). Never one that the
    subject has by any relation, of the data set or the bundled facts, or an alias of one. Of each of these the nearest
    in length (letters) to the subject's own objects are taken, equal ones by a draw of the seed. A fact may have fewer
    or none where no more is known.

    Raises `ConfigError` for a number below 1.
    """
    if number < 1:
        raise ConfigError(f"decoys {number}: give each fact 1 or more, or leave decoys out")
    facts = data.table.select("fact_id", "subject_label", "relation_label", "object_label", "relation_id").unique(
        "fact_id", maintain_order=True
    )
    chosen = choose_decoys(data, facts.select(pl.exclude("fact_id")).rows(), number, seed=seed)
    rows = [
        (fact, decoy)
        for fact, subject, relation, _, _ in facts.iter_rows()
        for decoy in chosen[name_key(subject), name_key(relation)]
    ]
    table = pl.DataFrame(rows, schema={"fact_id": pl.String, "decoy": pl.String}, orient="row")
    return replace(data, decoys=table, decoys_each=number)


def with_enough_decoys(data: Dataset, in_all: int, *, seed: int = 0) -> Dataset:
    """The data set with `DECOYS` decoys a fact, or as many more as make so many in all; as it is where their number was
    chosen before."""
    if data.decoys_each is not None:
        return data
    return with_decoys(data, max(DECOYS, ceil(in_all / data.facts)), seed=seed)


def without_decoys(data: Dataset) -> Dataset:
    """The data set, of which no decoys are to be asked about where they would be by default."""
    return replace(data, decoys=None, decoys_each=0)


def choose_decoys(
    data: Dataset, asked: Sequence[Held], number: int, *, seed: int = 0
) -> dict[Succession, tuple[str, ...]]:
    """Up to so many decoys for each subject and relation that is asked about, as `with_decoys` describes them."""
    known = [*asked, *_given(data)]
    bundled = _bundled()
    of_subject: dict[str, set[str]] = defaultdict(set)  # names of all that a subject has, by any relation
    for subject, _, name, _ in (*known, *bundled):
        of_subject[name_key(subject)] |= {name_key(name), name_key(subject)}
    for item in data.given:
        of_subject[name_key(item.fact.subject)] |= set(map(name_key, item.aliases))
    own, others = _by_relation(known), _by_relation(bundled)
    code = data.language or ENGLISH
    spoken = language_files()[code]["language"] if code in language_files() else code
    kinds = {relation: _kind(held) for relation, held in others.items()}
    found: dict[Succession, tuple[str, ...]] = {}
    for (subject, relation), held in _successions(asked).items():
        relation_id = held[0][3]
        named = [name for _, _, name, _ in held]
        same = others.get(relation_id or relation) or others.get(relation, [])
        kind = kinds.get(relation_id or relation) or kinds.get(relation) or _kind(held)
        if kind is None and (role := role_questions(relation, spoken)) is not None and role.person:
            kind = PERSON
        if data.language is not None and kind != PERSON:  # bundled names are English, which a person's seldom differ by
            same = []
        alike = () if kind is None or (data.language is not None and kind != PERSON) else _of_kind(kind)
        chosen: dict[str, str] = {}
        for pool in ([name for _, _, name, _ in own[relation]], [name for _, _, name, _ in same], alike):
            if len(chosen) == number:
                break
            taken = of_subject[subject] | chosen.keys()
            fit = {name_key(name): name for name in pool if name_key(name) not in taken}
            for name in _nearest(fit.values(), named, seed, subject, relation)[: number - len(chosen)]:
                chosen[name_key(name)] = name
        found[subject, relation] = tuple(chosen.values())
    return found


def _nearest(pool: Iterable[str], named: Sequence[str], *place: object) -> list[str]:
    """The names of a pool, those nearest in length to the mean of ``named`` first."""
    length = sum(map(len, named)) / len(named)
    return sorted(set(pool), key=lambda name: (abs(len(name) - length), draw(*place, name)))


def _given(data: Dataset) -> list[Held]:
    """All facts of a file, also those that cannot be asked."""
    return [(i.fact.subject, i.fact.relation, i.fact.object, i.fact.relation_id) for i in data.given]


@cache
def _bundled() -> tuple[Held, ...]:
    return tuple((m.fact.subject, m.fact.relation, m.fact.object, m.fact.relation_id) for m in mini_facts())


@cache
def _of_kind(kind: str) -> tuple[str, ...]:
    """Objects of bundled facts that are of a kind."""
    known = mini_entities()
    return tuple(name for name in {held[2]: None for held in _bundled()} if name in known and known[name].kind == kind)


def _kind(held: Iterable[Held]) -> str | None:
    """What all of some objects are whose kind is known; None where they differ, or none is known."""
    kinds = {entity.kind for _, _, name, _ in held if (entity := mini_entities().get(name)) is not None}
    return kinds.pop() if len(kinds) == 1 else None


def _by_relation(held: Iterable[Held]) -> dict[str, list[Held]]:
    """Under the key of a relation's words, and under its id."""
    found: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        for name in dict.fromkeys((name_key(one[1]), one[3])):
            if name is not None:
                found[name].append(one)
    return found


def _successions(held: Iterable[Held]) -> dict[Succession, list[Held]]:
    found: dict[Succession, list[Held]] = defaultdict(list)
    for one in held:
        found[name_key(one[0]), name_key(one[1])].append(one)
    return found
