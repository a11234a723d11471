"""What a synthetic dump is made of: how much, and the random numbers of its items; see ``synthetic_dump.py``."""

import json
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CHUNK = 1000  # entities that share a stream of random numbers
HIGHEST = 130_000_000  # of the ids of the first edition
# What another edition does to a statement that it touches, with the share of each: 1 changes the value, 2 adds an end,
# 3 adds an end and a successor, 4 lets the statement be and adds one of a relation that the item did not have.
EDITS = {1: 0.44, 2: 0.42, 3: 0.12, 4: 0.02}
CLASSES = 107_839 / 115_057_279  # distinct values of P31 an item that has one


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is made: ``entities`` items in the first edition; the shares are of statements and of items."""

    entities: int
    seed: int = 0
    edition: int = 0
    dated: float = 0.04
    changed: float = 0.02
    merged: float = 0.005
    added: float = 0.02
    born: float = 0.15  # of the added items, those that came into being between the editions
    shape: dict[str, Any] = field(
        default_factory=lambda: json.loads(Path(__file__).with_name("wikidata_shape.json").read_text())
    )

    @property
    def items(self) -> int:
        return self.entities + (round(self.entities * self.added) if self.edition else 0)

    @property
    def classes(self) -> int:
        """How many of the first items are classes."""
        return min(self.entities, max(len(self.shape["classes"]) + 1, round(self.entities * CLASSES)))

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """First and one past the last item of each chunk: those of the first edition are the same in all others."""
        edges = [*range(0, self.entities, CHUNK), *range(self.entities, self.items, CHUNK), self.items]
        return list(pairwise(edges))

    def id(self, index: int) -> int:
        """Number of the id of an item: spread evenly, so that some lie between that no item has."""
        return 1 + index * max(HIGHEST, self.entities) // self.entities


def whole(means: Array, rng: np.random.Generator) -> list[int]:
    """Whole numbers of these means."""
    return np.floor(means + rng.random(len(means))).astype(int).tolist()


class Draws:
    """Random numbers of one chunk: lists with an entry an item (``items``) or a statement, in the order of the dump."""

    def __init__(self, plan: Plan, first: int, last: int) -> None:
        shape, size = plan.shape, last - first
        rng = np.random.default_rng([plan.seed, first])
        # Of all items a share has an article; of the items that many link to (the first) nearly all do.
        head = 1 - np.sqrt(1 - shape["with_article"])
        position = (np.arange(first, last) + 0.5) / plan.entities
        article = rng.random(size) < head / np.sqrt(position)
        self.article = article.tolist()
        counts: dict[str, Array] = {}
        for name in ("labels", "descriptions", "aliases", "sitelinks", "statements"):
            table = np.array([shape["none"][name], shape["article"][name]])
            counts[name] = table[article.astype(int), rng.integers(table.shape[1], size=size)]
        self.counts = {name: whole(drawn, rng) for name, drawn in counts.items()}
        english = np.array([shape["none"]["english_label"], shape["article"]["english_label"]])
        self.english = (rng.random(size) < english[article.astype(int)]).tolist()
        self.names = rng.integers(4096, size=size).tolist()
        self.views = np.exp(rng.random(size) * np.log(1e6)).astype(int).tolist()
        known = np.array(shape["classes"])
        pick = np.searchsorted(np.cumsum(known), rng.random(size))
        rest = rng.integers(len(known), max(plan.classes, len(known) + 1), size)
        self.classes = np.where(pick < len(known), pick, rest).tolist()

        each = np.maximum(self.counts["statements"], 1)
        self.starts = np.concatenate([[0], np.cumsum(each)]).tolist()
        n = self.starts[-1]
        owner_article = np.repeat(article, each)
        names, chances, dated = _properties(plan)
        drawn = np.empty(n, dtype=int)
        for stratum, mask in enumerate((~owner_article, owner_article)):
            drawn[mask] = np.searchsorted(np.cumsum(chances[stratum]), rng.random(int(mask.sum())))
        drawn = np.minimum(drawn, len(names) - 1)
        self.properties = [names[i] for i in drawn.tolist()]
        self.dated = (rng.random(n) < dated[drawn]).tolist()
        self.targets = np.minimum(np.exp(rng.random(n) * np.log(plan.entities)), plan.entities - 1).astype(int).tolist()
        self.numbers = rng.integers(1 << 30, size=n).tolist()
        self.more = rng.integers(1 << 48, size=n).tolist()
        self.ranks = _choice(shape["ranks"], n, rng)
        self.snaks = _choice(shape["snaks"], n, rng)
        self.kinds = _choice(shape["dated_kinds"], n, rng)
        self.precisions = [int(x) for x in _choice(shape["date_precisions"], n, rng)]
        several = rng.random(n) < shape["qualified"]
        self.qualifiers = whole(np.where(several, shape["qualifiers_each"], 0), rng)
        has = rng.random(n) < shape["referenced"]
        self.references = whole(np.where(has, shape["references_each"], 0), rng)
        # What another edition changes (`EDITS`), from numbers of its own.
        later = np.random.default_rng([plan.seed, first, plan.edition])
        shares = plan.changed if plan.edition else 0
        self.edits = np.where(
            later.random(n) < shares, later.choice(list(EDITS), n, p=list(EDITS.values())), 0
        ).tolist()
        gone = later.random(size) < (plan.merged if plan.edition else 0)
        gone &= np.arange(first, last) >= plan.classes
        gone &= np.arange(first, last) < plan.entities
        self.gone = gone.tolist()
        self.into = later.integers(plan.classes, size=size).tolist()
        self.born = ((later.random(size) < plan.born) & (np.arange(first, last) >= plan.entities)).tolist()


def _choice(shares: dict[str, float], size: int, rng: np.random.Generator) -> list[str]:
    names = list(shares)
    edges = np.cumsum(list(shares.values()))
    return [names[i] for i in np.minimum(np.searchsorted(edges, rng.random(size)), len(names) - 1).tolist()]


@cache
def _cached_properties(key: str, dated: float) -> tuple[list[str], Array, Array]:
    shape = json.loads(key)
    names = sorted({p for s in ("none", "article") for p in shape[s]["properties"]})
    chances = np.array([[shape[s]["properties"].get(p, 0) for p in names] for s in ("none", "article")], dtype=float)
    chances /= chances.sum(axis=1, keepdims=True)
    types = [shape["datatypes"][p] for p in names]
    means = np.array([np.mean(shape[s]["statements"]) for s in ("none", "article")])
    weights = np.array([1 - shape["with_article"], shape["with_article"]]) * (means - 1)
    of_all = (weights @ chances) / (weights.sum() + 1)  # of all statements, P31 among them, which have no dates
    share = {t: sum(x for x, other in zip(of_all, types, strict=True) if other == t) for t in set(types)}
    wanted = [dated * shape["dated_datatypes"].get(t, 0) / share[t] for t in types]
    return names, chances, np.minimum(wanted, 1)


def _properties(plan: Plan) -> tuple[list[str], Array, Array]:
    """Names of properties; chance of each without and with an article; chance that a statement of it has a date."""
    relevant = ("with_article", "none", "article", "datatypes", "dated_datatypes")
    return _cached_properties(json.dumps({name: plan.shape[name] for name in relevant}), plan.dated)
