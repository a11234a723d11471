"""How alike two subjects are by what is said of them: TF-IDF and cosine, as in WikiFactDiff, section A.4.

For data sets that fit in memory and name entities by their labels; `anachron.wikidata.updates.nearest` does the same
for whole snapshots. The document of a subject holds itself, the objects of its facts, each of its relations once and
each pair of relation and object. A token that a document has c times, and d of n documents have, weighs ``c
(ln((1+n)/(1+d)) + 1)``; documents are scaled to length 1. These are the defaults of scikit-learn's ``TfidfVectorizer``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

Token = tuple[str, ...]
DECIMALS = 12  # of a distance, so that equal sums added in another order are equal


class Likeness:
    """Distances between the subjects of some facts, given as (subject, relation id, object)."""

    def __init__(self, facts: Iterable[tuple[str, str, str]]) -> None:
        documents = documents_of(facts)
        frequency = Counter(token for document in documents.values() for token in document)
        idf = {token: math.log((1 + len(documents)) / (1 + count)) + 1 for token, count in frequency.items()}
        self._vectors = {subject: _unit(document, idf) for subject, document in documents.items()}

    def distance(self, one: str, other: str) -> float:
        """1 - cosine, from 0 (the same is said of both) to 1 (nothing in common)."""
        a, b = self._vectors[one], self._vectors[other]
        return round(1 - math.fsum(weight * b[token] for token, weight in a.items() if token in b), DECIMALS)


def documents_of(facts: Iterable[tuple[str, str, str]]) -> dict[str, Counter[Token]]:
    """Subject -> its tokens with their counts. An entity and the same entity as an object are one token."""
    documents: dict[str, Counter[Token]] = {}
    for subject, relation, object in sorted(facts):
        document = documents.setdefault(subject, Counter({("entity", subject): 1}))
        document[("relation", relation)] = 1
        document.update([("entity", object), (relation, object)])
    return documents


def _unit(document: Mapping[Token, int], idf: Mapping[Token, float]) -> dict[Token, float]:
    weights = {token: count * idf[token] for token, count in document.items()}
    length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
    return {token: weight / length for token, weight in weights.items()}
