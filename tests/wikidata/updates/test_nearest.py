"""Nearest entities against documents counted one by one, scikit-learn, and a search through everything."""

import math
import sys
from collections import Counter
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from anachron.core.errors import BackendError, DataError
from anachron.wikidata.updates import nearest as module
from anachron.wikidata.updates.features import entity_numbers, features_of
from anachron.wikidata.updates.nearest import columns_of, document_frequencies, merge_nearest, nearest, vectors

SUBJECTS = [f"Q{n}" for n in (1, 2, 9, 10, 11, 100, 2000, 30, 31, 32, 33, 34)]
OBJECTS = [*SUBJECTS[:4], "Q5", "Q6", "P31", "L7", "L7-F1"]
RELATIONS = ["P31", "P6", "P39"]
few = settings(max_examples=min(60, settings.default.max_examples))
triples = st.lists(
    st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(RELATIONS), st.sampled_from(OBJECTS)), max_size=60
)


def frame(rows):
    return pl.DataFrame(rows, schema=dict.fromkeys(("subject", "property", "value"), pl.String), orient="row")


def documents_of(rows, subjects=()):
    """The bags of words of the definition, in words."""
    documents = {s: Counter([s]) for s in [*subjects, *(s for s, _, _ in rows)]}
    for s, _, o in rows:
        documents[s][o] += 1
    for s, r in {(s, r) for s, r, _ in rows}:
        documents[s][r] += 1
    for s, r, o in rows:
        documents[s][f"{r} {o}"] += 1
    return documents


def word_of(feature):
    """The word that a feature stands for, from its bits."""
    relation, kind, number = feature >> 44, (feature >> 41) & 7, feature & (2**41 - 1)
    name = f"L{number >> 14}-{'FS'[kind - 5]}{number & 16383}" if kind > 4 else f"{'QPLME'[kind]}{number}"
    return f"P{relation} {name}" if relation else name


def cosine(a, b, frequencies, total):
    def weights(document):
        return {w: c * (math.log((1 + total) / (1 + frequencies[w])) + 1) for w, c in document.items()}

    a, b = weights(a), weights(b)
    lengths = [math.sqrt(math.fsum(v * v for v in one.values())) for one in (a, b)]
    return math.fsum(a[w] * b[w] for w in a if w in b) / math.prod(lengths)


def rows_by_query(found, queries):
    return [found.filter(pl.col("query") == q).select("id", "similarity").rows() for q in range(queries)]


@few
@given(triples, st.sets(st.sampled_from(SUBJECTS)))
def test_documents_are_those_of_the_definition(rows, subjects):
    found = features_of(frame(rows).lazy(), subjects)
    assert found.schema == {"subject": pl.String, "feature": pl.UInt64, "count": pl.UInt32}
    counted = {}
    for subject, feature, count in found.iter_rows():
        assert word_of(feature) not in counted.setdefault(subject, Counter())
        counted[subject][word_of(feature)] = count
    assert counted == documents_of(rows, subjects)
    order = list(dict.fromkeys(found["subject"]))
    assert order == sorted(order, key=lambda s: int(s[1:]))


def test_numbers_of_ids_are_different_and_in_numeric_order():
    ids = ["Q2", "Q10", "Q130000000", "P1", "P13000", "L3", "M5", "E10", "L3-F1", "L3-F2", "L10-F1", "L3-S1"]
    numbers = entity_numbers(pl.Series(ids)).to_list()
    assert numbers == sorted(set(numbers))
    assert entity_numbers(pl.Series(ids[::-1])).to_list() == numbers[::-1]
    assert entity_numbers(pl.Series([], dtype=pl.String)).len() == 0


@pytest.mark.parametrize("wrong", ["", "Q", "X5", "42", "Qx", "L3-F", "L3-X1", "Q99999999999999", "+1968-01-01"])
def test_what_is_no_id_is_refused_by_name(wrong):
    with pytest.raises(DataError, match="is not the id of an entity") as raised:
        entity_numbers(pl.Series(["Q1", wrong, "Q2"]))
    assert repr(wrong) in str(raised.value)


def test_a_property_that_would_not_fit_is_refused():
    with pytest.raises(DataError, match="'Q31' is not a property"):
        features_of(frame([("Q1", "Q31", "Q5")]).lazy())


@few
@given(triples, st.data())
def test_frequencies_of_parts_are_those_of_the_whole(rows, data):
    documents = documents_of(rows)
    bucket = {s: data.draw(st.integers(0, 3)) for s in documents}
    parts = [features_of(frame([r for r in rows if bucket[r[0]] == b]).lazy()) for b in range(4)]
    weights = document_frequencies(iter(parts))
    counted = Counter(word for document in documents.values() for word in document)
    assert weights.documents == len(documents)
    found = {word_of(f): n for f, n in weights.frequencies.iter_rows()}
    assert found == {word: n for word, n in counted.items() if n > 1}
    assert weights.frequencies["feature"].is_sorted()


@few
@given(triples.filter(len), st.data())
def test_vectors_are_those_of_scikit_learn(rows, data):
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = documents_of(rows)
    ids = pl.Series(data.draw(st.lists(st.sampled_from(sorted(documents)), min_size=1)))
    features = features_of(frame(rows).lazy())
    weights = document_frequencies([features])
    second = TfidfVectorizer(analyzer=lambda document: list(document.elements())).fit(documents.values())
    expected = second.transform([documents[s] for s in ids]).toarray()
    everything = features["feature"].unique().to_numpy()
    everything = everything[data.draw(st.permutations(range(len(everything))))]
    order = [second.vocabulary_[word_of(f)] for f in everything.tolist()]
    np.testing.assert_allclose(vectors(features, ids, weights, everything).toarray(), expected[:, order], atol=1e-14)
    some = columns_of(features, ids, weights)
    order = [second.vocabulary_[word_of(f)] for f in some.tolist()]
    np.testing.assert_allclose(vectors(features, ids, weights, some).toarray(), expected[:, order], atol=1e-14)
    asked = {word for s in ids for word in documents[s]}
    left_out = asked - {word_of(f) for f in some.tolist()}
    assert {sum(word in d for d in documents.values()) for word in left_out} <= {1}
    assert {word_of(f) for f in some.tolist()} <= asked


def test_documents_that_differ_in_names_only_have_the_same_similarity_to_the_bit():
    """Their own ids and objects come before, between and after what they share, which adds up in another order."""
    names = [f"Q{s}" for s in range(7, 20_000, 67)]
    rows = [(name, f"P{p}", f"Q{1000 * p + 1}") for name in names for p in range(1, 12) for _ in range(p)]
    rows += [(f"Q{90_000 + n}", f"P{p}", f"Q{1000 * p + 1}") for p in range(1, 12) for n in range(40 * p)]
    rows += [(name, "P50", f"Q{k * 101 % len(names) * 67 + 9}") for k, name in enumerate(names)]  # each its own
    features = features_of(frame(rows).lazy())
    weights = document_frequencies([features])
    ids = pl.Series(names)
    made = vectors(features, ids, weights, columns_of(features, ids, weights)).toarray()
    assert (made == made[0]).all()
    assert made[0].any()


def test_an_id_without_a_document_has_an_empty_row():
    features = features_of(frame([("Q1", "P31", "Q5"), ("Q2", "P31", "Q5")]).lazy(), ["Q3"])
    weights = document_frequencies([features])
    ids = pl.Series(["Q1", "Q3", "Q4"])
    made = vectors(features, ids, weights, features["feature"].unique().sort().to_numpy()).toarray()
    assert weights.documents == 3
    np.testing.assert_allclose((made**2).sum(axis=1), [1, 1, 0])
    assert np.count_nonzero(made[1]) == 1  # its id


@few
@given(triples, st.sets(st.sampled_from(SUBJECTS)), st.integers(1, 5), st.integers(0, 10**6))
def test_neighbours_are_those_of_a_search_through_all_documents(rows, more, count, seed):
    documents = documents_of(rows, more)
    features = features_of(frame(rows).lazy(), more)
    weights = document_frequencies([features])
    frequencies = Counter(word for document in documents.values() for word in document)
    ids = sorted(documents)
    np.random.default_rng(seed).shuffle(ids)
    columns = columns_of(features, pl.Series(ids, dtype=pl.String), weights)
    made = vectors(features, pl.Series(ids, dtype=pl.String), weights, columns)
    found = nearest(made, made, pl.Series(ids, dtype=pl.String), count, [{row} for row in range(len(ids))])
    for query, listed in zip(ids, rows_by_query(found, len(ids)), strict=True):
        others = {i: cosine(documents[query], documents[i], frequencies, len(documents)) for i in ids if i != query}
        expected = sorted((s for s in others.values() if s > 0), reverse=True)[:count]
        assert [s for _, s in listed] == pytest.approx(expected, abs=1e-11)
        assert [others[i] for i, _ in listed] == pytest.approx(expected, abs=1e-11)
        assert len({i for i, _ in listed}) == len(listed)
        keys = [(-s, int(i[1:])) for i, s in listed]
        assert keys == sorted(keys)


eighths = st.lists(st.lists(st.sampled_from([0, 0, 0, 1, 2, 4]), min_size=4, max_size=4), max_size=70)


def exact_search(queries, candidates, ids, count, excluded):
    """Dense products of eighths, which have no rounding, and a sort of everything."""
    result = []
    for query, barred in zip(queries.tolist(), excluded, strict=True):
        scores = [
            (sum(a * b for a, b in zip(query, c, strict=True)), i)
            for i, c in zip(ids, candidates.tolist(), strict=True)
        ]
        allowed = [(s, i) for row, (s, i) in enumerate(scores) if s > 0 and row not in barred]
        result.append([(i, s) for s, i in sorted(allowed, key=lambda si: (-si[0], int(si[1][1:])))[:count]])
    return result


def as_matrix(rows):
    return np.array(rows, float).reshape(-1, 4) / 8


@pytest.mark.full
@given(eighths, eighths, st.integers(1, 12), st.data())
def test_lists_with_many_ties_are_exact(queries, candidates, count, data):
    queries, candidates = as_matrix(queries[:8]), as_matrix(candidates)
    ids = [f"Q{n}" for n in data.draw(st.permutations(range(1, len(candidates) + 1)))]
    rows = st.sets(st.integers(0, max(0, len(candidates) - 1)), max_size=data.draw(st.sampled_from([1, 3, 70])))
    excluded = data.draw(st.lists(rows, min_size=len(queries), max_size=len(queries)))
    expected = exact_search(queries, candidates, ids, count, excluded)
    names = pl.Series(ids, dtype=pl.String)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SPARE", data.draw(st.sampled_from([0, 1, 16])))  # few: more queries ask again
        patch.setattr(module, "_MORE", 2)
        patch.setattr(module, "_ENTRIES", data.draw(st.sampled_from([1, 100, 1 << 20])))
        for threads in (1, 2):
            found = nearest(csr_matrix(queries), csr_matrix(candidates), names, count, excluded, threads=threads)
            assert rows_by_query(found, len(queries)) == expected
            assert [ids[c] for c in found["candidate"]] == found["id"].to_list()
    if not any(excluded):
        assert nearest(csr_matrix(queries), csr_matrix(candidates), names, count).equals(found)


def test_candidates_that_only_look_equal_are_told_apart(monkeypatch):
    """All get the same mark: what is left out must still be equal, entry by entry."""

    class Zeros:
        def random(self, shape):
            return np.zeros(shape)

    monkeypatch.setattr(module.np.random, "default_rng", lambda seed: Zeros())
    candidates = csr_matrix(np.array([[1, 0], [0, 1], [0, 1], [0, 1], [0.5, 1]]) / 2)
    ids = pl.Series(["Q5", "Q4", "Q3", "Q2", "Q1"])
    found = nearest(csr_matrix(np.array([[0.5, 0.25]])), candidates, ids, 4)
    assert rows_by_query(found, 1) == [[("Q1", 0.25), ("Q5", 0.25), ("Q2", 0.125), ("Q3", 0.125)]]


def test_a_tie_longer_than_what_was_asked_for_goes_by_id():
    """Different candidates, equally near: 1,225 pairs of 50 features, of which a query with all must get the first."""
    pairs = list(combinations(range(50), 2))
    candidates = np.zeros((len(pairs), 50))
    for row, pair in enumerate(pairs):
        candidates[row, pair] = 0.5
    ids = [f"Q{n}" for n in np.random.default_rng(3).permutation(len(pairs)) + 1]
    found = nearest(csr_matrix(np.full((3, 50), 0.125)), csr_matrix(candidates), pl.Series(ids), 10)
    assert rows_by_query(found, 3) == [[(f"Q{n}", 0.125) for n in range(1, 11)]] * 3


@few
@given(triples, st.integers(1, 4), st.data())
def test_blocks_of_candidates_merge_to_what_they_are_together(rows, count, data):
    features = features_of(frame(rows).lazy(), SUBJECTS)
    weights = document_frequencies([features])
    ids = pl.Series(SUBJECTS)
    queries = data.draw(st.lists(st.sampled_from(SUBJECTS), max_size=8))
    asked = pl.Series(queries, dtype=pl.String)
    columns = columns_of(features, asked, weights)
    left = vectors(features, asked, weights, columns)

    def lists(block):
        barred = [{block.index(q)} if q in block else set() for q in queries]
        made = vectors(features, pl.Series(block, dtype=pl.String), weights, columns)
        return nearest(
            left, made, pl.Series(block, dtype=pl.String), count, barred, threads=data.draw(st.sampled_from([1, 2]))
        )

    bucket = [data.draw(st.integers(0, 3)) for _ in SUBJECTS]
    blocks = [[s for s, b in zip(SUBJECTS, bucket, strict=True) if b == number] for number in range(4)]

    def numbered(near):
        return near.select("query", entity_numbers(near["id"]).alias("number"), "similarity")

    merged = merge_nearest((numbered(lists(block)) for block in blocks), count)
    assert merged.equals(numbered(lists(ids.to_list())))


def test_merging_keeps_the_order_rule_over_many_small_parts():
    draw = np.random.default_rng(5)
    rows = [(q, c, float(draw.integers(1, 4)) / 4) for q in range(5) for c in range(1, 200)]
    parts = [pl.DataFrame(rows[k::37], schema=["query", "number", "similarity"], orient="row") for k in range(37)]
    parts = [part.with_columns(pl.col("query").cast(pl.UInt32), pl.col("number").cast(pl.UInt64)) for part in parts]
    expected = [sorted((r for r in rows if r[0] == q), key=lambda r: (-r[2], r[1]))[:10] for q in range(5)]
    assert merge_nearest(iter(parts), 10).rows() == [row for rows in expected for row in rows]
    assert merge_nearest([], 10).schema == {"query": pl.UInt32, "number": pl.UInt64, "similarity": pl.Float64}


def test_nothing_to_ask_and_nothing_to_find():
    full, ids = csr_matrix(np.eye(3)), pl.Series(["Q1", "Q2", "Q3"])
    schema = {"query": pl.UInt32, "candidate": pl.UInt32, "id": pl.String, "similarity": pl.Float64}
    nobody = pl.Series([], dtype=pl.String)
    for found in (
        nearest(full[:0], full, ids, 2),
        nearest(full, full[:0], nobody, 2),
        nearest(full[:, :0], full[:, :0], ids, 2),
        nearest(full, full[[1, 2, 0]], ids, 2, [{2}, {0}, {1}]),  # nothing in common with anyone else
    ):
        assert found.schema == schema
        assert found.height == 0
    assert nearest(full, full, ids, 2).select("query", "id").rows() == [(0, "Q1"), (1, "Q2"), (2, "Q3")]


def test_what_rounds_to_nothing_is_not_near():
    stored = csr_matrix((np.array([0.0, 1e-13, 0.5]), np.array([0, 0, 0]), np.array([0, 1, 2, 3])), shape=(3, 1))
    found = nearest(csr_matrix(np.eye(1)), stored, pl.Series(["Q1", "Q2", "Q3"]), 3)
    assert rows_by_query(found, 1) == [[("Q3", 0.5)]]


def test_no_statements_at_all():
    features = features_of(frame([]).lazy())
    weights = document_frequencies([features])
    assert (features.height, weights.documents, weights.frequencies.height) == (0, 0, 0)
    assert document_frequencies([]).documents == 0
    columns = columns_of(features, pl.Series(["Q1"]), weights)
    assert vectors(features, pl.Series(["Q1"]), weights, columns).shape == (1, 0)


def test_what_does_not_fit_together_is_said():
    full, ids = csr_matrix(np.eye(3)), pl.Series(["Q1", "Q2", "Q3"])
    with pytest.raises(DataError, match="the columns must be the same"):
        nearest(full[:, :2], full, ids, 2)
    with pytest.raises(DataError, match="each candidate needs an id"):
        nearest(full, full, ids[:2], 2)
    with pytest.raises(DataError, match="2 sets of excluded candidates for 3 queries"):
        nearest(full, full, ids, 2, [set(), set()])
    with pytest.raises(DataError, match="0 neighbours"):
        nearest(full, full, ids, 0)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sparse_dot_topn", None)
    with pytest.raises(BackendError, match=r"sparse_dot_topn .*pip install .*'sparse-dot-topn"):
        nearest(csr_matrix(np.eye(2)), csr_matrix(np.eye(2)), pl.Series(["Q1", "Q2"]), 1)
