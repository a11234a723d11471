"""Identity of facts: the ids below come from ``printf '%s' '[...]' | sha256sum``."""

import itertools

import pytest

from anachron.core.facts import Fact, fact_id
from anachron.core.periods import Period

OBAMA = Fact("USA", "president", "Barack Obama", Period("2009-01-20", "2017-01-20"))
OBAMA_IDS = Fact("USA", "president", "Barack Obama", OBAMA.period, "Q76", "P39", "Q11696", 1e5)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Q76", "P39", "Q11696", "2009-01-20", "2017-01-20"), "4cae8ea327523173"),
        (("Zoë", "rel", "東京", "2009", "2017"), "c76f2994f6a42ad6"),
        (("s", "r", "o", "", "2017"), "d3e2433f45590426"),
    ],
)
def test_fact_id_is_a_sha256_of_the_five_texts(texts, expected):
    assert fact_id(*texts) == expected


def test_every_field_and_every_place_changes_the_id():
    texts = ["a", "b", "c", "2009", "2017"]
    ids = {fact_id(*order) for order in itertools.permutations(texts)}
    assert len(ids) == 120
    assert fact_id("ab", "c", "o", "", "") != fact_id("a", "bc", "o", "", "")
    assert fact_id('a","b', "c", "o", "", "") != fact_id("a", 'b","c', "o", "", "")


def test_wikidata_ids_come_before_labels():
    assert OBAMA_IDS.id == "4cae8ea327523173"
    assert OBAMA.id == fact_id("USA", "president", "Barack Obama", "2009-01-20", "2017-01-20")
    relabelled = Fact("U.S.", "head of state", "Obama", OBAMA.period, "Q76", "P39", "Q11696")
    assert relabelled.id == OBAMA_IDS.id
    assert Fact("USA", "president", "Barack Obama", OBAMA.period, subject_id="Q76").id not in (
        OBAMA.id,
        OBAMA_IDS.id,
    )


def test_the_period_is_part_of_the_id_and_its_spelling_is_not():
    def of(start, end):
        return Fact("s", "r", "o", Period(start, end)).id

    assert of(None, "2017") == "d3e2433f45590426"
    assert of("2009", None) == fact_id("s", "r", "o", "2009", "")
    assert of("2009-1-2", "2017") == of("2009-01-02", "+2017")
    spans = [("2009", "2017"), ("2009-01", "2017"), ("2009", None), (None, None), ("-2009", "2017")]
    assert len({of(*span) for span in spans}) == 5


def test_popularity_is_no_part_of_the_id():
    popular = Fact("s", "r", "o", Period("2009", "2017"), popularity=3.0)
    assert popular.id == fact_id("s", "r", "o", "2009", "2017")
    assert popular != Fact("s", "r", "o", Period("2009", "2017"))
