"""The entities most like an entity: TF-IDF over what is said of them, cosine, exact top lists (WikiFactDiff, A.4).

The maths. An entity is described by a document, a bag of features: its own id, the entities its statements name, their
relations, and the pairs of both. A feature that an entity has c times and that d of all n entities have weighs

    c * idf,    idf = ln((1 + n) / (1 + d)) + 1

so that what few share says much, and what all share still says a little. The vector of an entity is its weights divided
by their Euclidean length; the similarity of two entities is the dot product of their vectors, the cosine of the angle
between them: 1 for equal documents, 0 for documents without a common feature. These are the defaults of scikit-learn's
``TfidfVectorizer``, which the published data were made with.

Everything here is a function of frames and matrices, made to be called bucket by bucket:
`anachron.wikidata.updates.features.features_of` each bucket of subjects, `document_frequencies` over all of them, then
for the queries `columns_of` and `vectors`, and for each bucket of candidates `vectors` in the same columns and
`nearest`, joined by `merge_nearest`.

Exact and repeatable. Features are numbers without collisions (`entity_numbers`), not hashes. Similarities are rounded
to `DECIMALS` decimals before anything is compared, because equal sums that were added in another order differ in their
last bits; equal documents get equal similarities even before that. A similarity depends on the two documents and the
weights alone, so neither threads nor the way candidates are split into blocks changes a result.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from anachron.core.errors import BackendError, DataError, how_to_install
from anachron.wikidata.updates.features import entity_numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

DECIMALS = 12  # of a similarity; double sums of some dozens of products are good to 15
_SPARE = 16  # candidates asked for beyond those wanted: for excluded ones and to see the end of a tie
_MORE = 8  # times as many when that was not enough
_ENTRIES = 1 << 20  # of a product at once: bounds the memory of a call


@dataclass(frozen=True)
class Weights:
    """How much a feature says: ``frequencies`` are ``feature, documents`` by feature, without those of one document.

    documents: how many there are in all. Most features (every entity's own id to begin with) are in one document only;
    a feature that is not in the table counts as such, and the table stays small.
    """

    frequencies: pl.DataFrame
    documents: int

    def idf(self, features: np.ndarray) -> np.ndarray:
        """Smooth inverse document frequencies of features (UInt64), float64: ln((1 + n) / (1 + d)) + 1."""
        names = self.frequencies["feature"].to_numpy()
        distinct, inverse = np.unique(features, return_inverse=True)  # in order: the search then walks through memory
        where = np.searchsorted(names, distinct)
        known = where < len(names)
        known[known] = names[where[known]] == distinct[known]
        documents = np.ones(len(distinct))
        documents[known] = self.frequencies["documents"].to_numpy()[where[known]]
        return (np.log((1 + self.documents) / (1 + documents)) + 1)[inverse]


def document_frequencies(parts: Iterable[pl.DataFrame]) -> Weights:
    """In how many documents each feature is, of parts from `features_of` with every subject in one part only.

    Memory grows with the distinct features, not with the documents or parts: a feature seen once may still come again,
    so only the end drops those of a single document.
    """
    documents = 0

    def counted() -> Iterable[pl.DataFrame]:
        nonlocal documents
        for part in parts:
            documents += part["subject"].n_unique()
            yield part.group_by("feature").agg(pl.len().cast(pl.UInt32).alias("documents"))

    nothing = pl.DataFrame(schema={"feature": pl.UInt64, "documents": pl.UInt32})
    all_features = _folded(counted(), nothing, lambda both: both.group_by("feature").agg(pl.col("documents").sum()))
    return Weights(all_features.filter(pl.col("documents") > 1).sort("feature"), documents)


def _folded(
    parts: Iterable[pl.DataFrame], start: pl.DataFrame, reduced: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Parts reduced to one, whenever as much waits as there is: each row is handled a few times, not once a part."""
    folded, waiting = start, 0
    frames = [start]
    for part in parts:
        frames.append(part)
        waiting += part.height
        if waiting > folded.height:
            folded, waiting = reduced(pl.concat(frames)), 0
            frames = [folded]
    return reduced(pl.concat(frames)) if len(frames) > 1 else folded


def columns_of(features: pl.DataFrame, ids: pl.Series, weights: Weights) -> np.ndarray:
    """The features (UInt64) of these entities that others have too: the columns of all `vectors` to be compared.

    ids: the queries. What no query has adds nothing to a product, and what a single document has could match that
    document alone; both count for the length of a vector only. So the similarity of an entity with itself comes out too
    small: exclude it. The most frequent come first: then most sums of a product are begun in the order of the
    candidates, which the processor foresees (about 1.3 times as fast).
    """
    chosen = features.join(pl.DataFrame({"subject": ids.cast(pl.String).unique()}), on="subject", how="semi")
    shared = weights.frequencies.join(chosen.select("feature").unique(), on="feature", how="semi")
    return shared.sort(["documents", "feature"], descending=[True, False])["feature"].to_numpy()


def vectors(features: pl.DataFrame, ids: pl.Series, weights: Weights, columns: np.ndarray) -> "csr_matrix":
    """TF-IDF vectors, float64 of shape (ids, columns): rows in the order of ids, which may repeat.

    features: from `features_of`, may hold more subjects. columns: different features in any order, from `columns_of`
    the queries. A row has unit length over all features of its entity, of which it holds those in ``columns``; an id
    without a document has an empty row.
    """
    from scipy.sparse import csr_matrix

    wanted = pl.DataFrame({"subject": ids.cast(pl.String)}).with_row_index("row")
    entries = wanted.join(features, on="subject")
    row, feature = entries["row"].to_numpy().astype(np.int64), entries["feature"].to_numpy()
    values = entries["count"].to_numpy() * weights.idf(feature)
    squares = values * values
    order = np.lexsort((squares, row))  # by size: documents that differ in names only get the same length to the bit
    length = np.sqrt(np.bincount(row[order], squares[order], minlength=wanted.height))
    by_number = np.argsort(columns)
    place = np.searchsorted(columns, feature, sorter=by_number)
    kept = place < len(columns)
    column = by_number[place[kept]]
    same = columns[column] == feature[kept]
    kept[kept], column = same, column[same]
    row, values = row[kept], values[kept] / length[row[kept]]
    order = np.lexsort((column, row))  # a product adds up in the order of the columns, whatever the block
    starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=wanted.height))))
    return csr_matrix((values[order], column[order], starts), shape=(wanted.height, len(columns)))


def nearest(
    queries: "csr_matrix",
    candidates: "csr_matrix",
    candidate_ids: pl.Series,
    count: int,
    excluded: Sequence[Collection[int]] | None = None,
    *,
    threads: int = 1,
) -> pl.DataFrame:
    """The ``count`` most similar candidates of each query, exactly: ``query, candidate, id, similarity``.

    queries, candidates: from `vectors` with the same columns. candidate_ids: one for each row of candidates. excluded:
    for each query the rows of candidates that it must not get (itself always, see `columns_of`). threads: of the
    product; the result is the same for any number.

    ``query`` and ``candidate`` are rows of the matrices (UInt32). By query, then falling similarity, then the number of
    the id (`entity_numbers`). Similarities are rounded to `DECIMALS` decimals, and 0 is never near: a query with too
    few candidates that share a feature with it has fewer rows, or none. Raises `DataError` for shapes that do not fit,
    `BackendError` without the package ``sparse_dot_topn``.

    How. Of candidates with equal vectors only the first by id are compared, as many as a query could get. A sparse
    product keeps some more than ``count`` a query. Where that list is full and its end as similar as the last one
    wanted, more candidates may tie than were kept, and which were is chance: those queries ask again for more.
    """
    product = _product()
    if queries.shape[1] != candidates.shape[1] or candidates.shape[0] != len(candidate_ids):
        raise DataError(
            f"queries of shape {queries.shape}, candidates of shape {candidates.shape} and {len(candidate_ids)} ids: "
            "the columns must be the same (columns_of the queries), and each candidate needs an id"
        )
    if excluded is not None and len(excluded) != queries.shape[0]:
        raise DataError(
            f"{len(excluded)} sets of excluded candidates for {queries.shape[0]} queries: give one for each"
        )
    if count < 1:
        raise DataError(f"{count} neighbours cannot be looked for: ask for 1 or more")
    rank = entity_numbers(candidate_ids).rank("dense").to_numpy().astype(np.int64)
    barred = _barred(excluded or [], len(rank))
    kept = _first_of_equal(candidates, rank, count + max(map(len, excluded or [()]), default=0))
    by_feature = candidates[kept].T.tocsr()  # features x candidates, made once: a product walks through its rows
    asked = count + _SPARE
    rows = np.arange(queries.shape[0])
    done = [_Lists(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    while len(rows) and len(kept):
        asked = min(asked, len(kept))
        step = max(1, _ENTRIES // asked)
        unsure = []
        for chunk in (rows[first : first + step] for first in range(0, len(rows), step)):
            lists = _Lists.of(product(queries[chunk], by_feature, asked, sort=True, n_threads=threads))
            lists = _Lists(chunk[lists.row], kept[lists.column], lists.value)
            sure, again = _chosen(lists, rank, barred, count, None if asked == len(kept) else asked)
            done.append(sure)
            unsure.append(again)
        rows, asked = np.concatenate(unsure), asked * _MORE
    row, column, value = (
        np.concatenate(arrays) for arrays in zip(*((d.row, d.column, d.value) for d in done), strict=True)
    )
    order = np.argsort(row, kind="stable")
    return pl.DataFrame(
        {
            "query": row[order].astype(np.uint32),
            "candidate": column[order].astype(np.uint32),
            "id": candidate_ids.cast(pl.String).gather(column[order]),
            "similarity": value[order],
        }
    )


def merge_nearest(parts: Iterable[pl.DataFrame], count: int) -> pl.DataFrame:
    """The `nearest` of several blocks of candidates as if they had been one: ``query, number, similarity``.

    parts: with these columns, ``number`` being that of the candidate (`entity_numbers`), the same queries and the first
    ``count`` of each; a candidate is in one block only. Can be a generator: what is kept at any time is a few times the
    result and one part.
    """
    blocks = iter(parts)
    nothing = pl.DataFrame(schema={"query": pl.UInt32, "number": pl.UInt64, "similarity": pl.Float64})
    first = next(blocks, nothing)

    def best(lists: pl.DataFrame) -> pl.DataFrame:
        return lists.sort(["query", "similarity", "number"], descending=[False, True, False]).filter(
            pl.int_range(pl.len()).over("query") < count
        )

    return _folded(chain([first], blocks), first.clear(), best)


@dataclass(frozen=True)
class _Lists:
    """Entries of a product in the order of its rows: row, column and rounded value, arrays of one length."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, matrix: "csr_matrix") -> "_Lists":
        size = int(matrix.indptr[-1])
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(row, matrix.indices[:size].astype(np.int64), np.round(matrix.data[:size], DECIMALS))


def _barred(excluded: Sequence[Collection[int]], width: int) -> np.ndarray:
    """Cells that must not be taken, as row * width + column."""
    sizes = np.fromiter(map(len, excluded), np.int64, len(excluded))
    columns = np.fromiter((column for one in excluded for column in one), np.int64, int(sizes.sum()))
    return np.repeat(np.arange(len(excluded)), sizes) * width + columns


def _first_of_equal(candidates: "csr_matrix", rank: np.ndarray, count: int) -> np.ndarray:
    """The rows (rising) without those that have ``count`` equal rows of lower rank, which no list can come to.

    Many entities are told apart by nothing but their id (villages of a district, say), and would end every list in a
    tie. Equal rows are found by two products with random numbers, and then compared.
    """
    marks = candidates @ np.random.default_rng(0).random((candidates.shape[1], 2))
    order = np.lexsort((rank, marks[:, 1], marks[:, 0]))
    alike = np.flatnonzero((marks[order[1:]] == marks[order[:-1]]).all(axis=1))
    differences = candidates[order[alike + 1]] - candidates[order[alike]]  # holds no zeros
    begins = np.ones(len(order), bool)
    begins[alike[np.diff(differences.indptr) == 0] + 1] = False
    starts = np.flatnonzero(begins)
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.sort(order[place < count])


def _chosen(
    lists: _Lists, rank: np.ndarray, barred: np.ndarray, count: int, asked: int | None
) -> tuple[_Lists, np.ndarray]:
    """The first ``count`` allowed entries of each row that is sure, and the rows that are not.

    lists: the ``asked`` largest entries of each row, or all where that is None. rank: of each column among equal
    values. A row is sure if its list is not full (there is nothing more), or if its last entry is less than the last
    one wanted: what was left out is no more than that entry.
    """
    allowed = (lists.value > 0) & ~np.isin(lists.row * len(rank) + lists.column, barred)
    row, column, value = lists.row[allowed], lists.column[allowed], lists.value[allowed]
    order = np.lexsort((rank[column], -value, row))
    row, column, value = row[order], column[order], value[order]
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    place = np.arange(len(row)) - np.repeat(begins, np.diff(np.append(begins, len(row))))
    unsure = np.empty(0, np.int64)
    if asked is not None:
        ends = np.flatnonzero(np.diff(lists.row, append=-1))  # a list falls: its last entry is its least
        full = np.diff(ends, prepend=-1) == asked
        wanted = np.zeros(lists.row.max(initial=0) + 1)  # 0 where fewer than count are allowed
        wanted[row[place == count - 1]] = value[place == count - 1]
        unsure = lists.row[ends[full & (lists.value[ends] >= wanted[lists.row[ends]])]]
    taken = (place < count) & ~np.isin(row, unsure)
    return _Lists(row[taken], column[taken], value[taken]), unsure


def _product():  # type: ignore[no-untyped-def]
    try:
        from sparse_dot_topn import sp_matmul_topn
    except ImportError as error:
        raise BackendError(
            f"nearest facts need the package sparse_dot_topn ({error}); {how_to_install('wikidata')}"
        ) from error
    return sp_matmul_topn
