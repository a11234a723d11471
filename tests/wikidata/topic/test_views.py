"""Page views by the per-article service, against a median that is counted by hand."""

import json
import statistics
from datetime import date
from itertools import pairwise
from urllib.parse import unquote

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import months_before
from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.jobs import Callbacks
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.topic.services import Services
from anachron.wikidata.topic.site import Site
from anachron.wikidata.topic.views import check_views, fetch_popularity, line_of
from anachron.wikidata.views.pageviews import Lines, read_views
from wikidata.views import write_snapshot
from wikidata.wikibase import World, close, serving, too_many

MONTHS = [f"2020-{n:02}" for n in range(1, 13)]
ARTICLES = {
    "Q1": ("AC/DC", {month: 100 + n for n, month in enumerate(MONTHS)}),
    "Q2": ("Ære & søn? #1", {"2020-03": 7, "2020-04": 9, "2020-09": 40}),  # counts from its first month on
    "Q3": ('"Heroes" (album)', {"2020-12": 5}),
    "Q4": ("Nobody reads this", {}),
    "Q5": ("Later", {"2021-01": 1000, "2019-12": 1000}),  # outside the months
    "Q6": ("100% Wolf", dict.fromkeys(MONTHS, 3)),
    "Q7": (None, {}),
}
OTHERS = {"Q5000": "A class", "P6": "A property"}  # which no statement has as its subject or object


@pytest.fixture(scope="module")
def server():
    views = {("en.wikipedia", title.replace(" ", "_")): of for title, of in ARTICLES.values() if title}
    with serving(World({}, views)) as running:
        yield running


@pytest.fixture
def snapshot(server, tmp_path):
    server.fail()
    return snapshot_of(tmp_path / "snapshot", {id: title for id, (title, _) in ARTICLES.items()})


def snapshot_of(folder, titles, day="2021-01-15"):
    """Each of the items but the first is an object of the first, which alone is a subject."""
    subject, *objects = titles
    pairs = [(subject, one) for one in objects or ["Q404"]]
    return dated(write_snapshot(folder, titles | OTHERS, statements=pairs), day)


def dated(folder, day="2021-01-15"):
    manifest = json.loads((folder / "manifest.json").read_text()) | {"date": day}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def fetched(server, snapshot, site=None, warned=None, noticed=None, retries=3, **more):
    web = FetchSettings(contact="test@example.org", retries=retries, pause=0.01, sleep=lambda seconds: None)
    with Services(site or server.site(), web) as services:
        told = Callbacks(warn=([] if warned is None else warned).append,
                         notice=([] if noticed is None else noticed).append)  # fmt: skip
        return fetch_popularity(services, snapshot, callbacks=told, **more), services.counts


def naive(months: list[str]) -> dict[str, tuple[float, int, int]]:
    """Median, months and views from the first month with a view on; months without one count 0."""
    found = {}
    for id, (_, views) in ARTICLES.items():
        counts = [views.get(month, 0) for month in months]
        while counts and not counts[0]:
            counts.pop(0)
        if counts:
            found[id] = (float(statistics.median(counts)), len(counts), sum(counts))
    return found


@pytest.mark.parametrize("months", [12, 3])
def test_popularity_is_the_median_of_the_months(server, snapshot, months):
    notices = []
    found, counts = fetched(server, snapshot, months=months, noticed=notices)
    table = pl.read_parquet(snapshot / "popularity.parquet")
    rows = {row[0]: row[2:] for row in table.iter_rows()}
    assert rows == naive(MONTHS[-months:])
    assert dict(table.select("id", "title").iter_rows()) == {id: ARTICLES[id][0] for id in rows}
    titles = [title for title, _ in ARTICLES.values() if title]
    assert counts == {"views": len(titles)}
    assert found.counts["with_views"] == len(rows)
    told = json.loads((snapshot / "popularity.parquet.manifest.json").read_text())["counts"]
    assert told["requests"] == len(titles) and told == found.counts
    assert notices == [f"{len(titles)} requests for page views of en.wikipedia"]
    # one request an article: people only, by the month, of whole months
    asked = [one.path.removeprefix("/api/rest_v1/metrics/pageviews/per-article/") for one in server.requests()]
    first = MONTHS[-months].replace("-", "") + "01"
    tail = f"/monthly/{first}/20201231"
    assert sorted(unquote(path) for path in asked) == sorted(
        f"en.wikipedia/all-access/user/{title.replace(' ', '_')}{tail}" for title in titles
    )
    assert all(path.count("/") == 6 for path in asked)  # a slash in a title is none in the address


@pytest.mark.parametrize(("today", "known"), [(date(2020, 12, 6), False), (date(2020, 12, 7), True)])
def test_a_month_that_the_service_may_not_know_yet_is_left_out_and_said(server, tmp_path, today, known):
    """There are views of March, April and September: October counts none, as November does once it is a week old."""
    server.fail()
    folder = snapshot_of(tmp_path / "s", {"Q2": ARTICLES["Q2"][0]}, "2020-12-03")
    warned = []
    found, _ = fetched(server, folder, warned=warned, today=today)
    counts = [7, 9, 0, 0, 0, 0, 40, 0, 0] if known else [7, 9, 0, 0, 0, 0, 40, 0]
    row = pl.read_parquet(folder / "popularity.parquet").select("id", "popularity", "months", "views").row(0)
    assert row == ("Q2", statistics.median(counts), len(counts), 56)
    assert [line.split(" in ")[1][:7] for line in warned] == ([] if known else ["2020-11"])
    assert not found.warnings
    fetched(server, folder, today=date(2020, 12, 6))
    fetched(server, folder, today=date(2020, 12, 20))  # by then the service may have it, so it is asked again
    assert len(server.requests()) == 2 and pl.read_parquet(folder / "popularity.parquet")["months"][0] == 9


def test_what_was_answered_is_not_asked_again(server, snapshot):
    server.fail([too_many(1), close(3, times=9)])
    with pytest.raises(BackendError, match="run the same command again"):
        fetched(server, snapshot, retries=2)
    first = [one.path for one in server.requests()]
    server.fail()
    fetched(server, snapshot)
    assert not (snapshot / "pageviews" / "pageviews-202001-user.bz2").exists()
    again = [one.path for one in server.requests()]
    assert len(set(first) | set(again)) == 6
    assert len(set(first) & set(again)) == 1  # the one on its way
    whole = pl.read_parquet(snapshot / "popularity.parquet")
    assert {row[0]: row[2:] for row in whole.iter_rows()} == naive(MONTHS)


def test_what_cannot_be_had_is_said(server, tmp_path, snapshot):
    with pytest.raises(ConfigError, match="no page views are known of it; leave them out with --no-popularity"):
        fetched(server, snapshot, site=Site(server.url))
    with pytest.raises(ConfigError, match="page views of 2015-02: the service has them since 2015-07"):
        fetched(server, dated(snapshot, "2016-02-01"))
    folder = snapshot_of(tmp_path / "none", {"Q4": "Nobody reads this"})
    with pytest.raises(DataError, match="has no page views of the 1 titles"):
        fetched(server, folder)


def test_what_cannot_be_had_is_known_before_anything_is_fetched():
    project, months = check_views(Site(), "all", "fr", "2016-07-01")
    assert project == "fr.wikipedia" and (months[0], months[-1], len(months)) == ("2015-07", "2016-06", 12)
    for said, words in [
        ((Site("https://wiki.corp"), "all", "fr", "2020-01-01"), "https://wiki.corp: no page views are known of it"),
        ((Site(), "enwiki", "en", "2016-06-30"), "page views of 2015-06: the service has them since 2015-07"),
        ((Site(), "corp", "en", "2020-01-01"), "no page views are known of corp"),
    ]:
        with pytest.raises(ConfigError, match=words):
            check_views(*said)


def test_an_answer_of_another_form_is_told(tmp_path, snapshot):
    world = World({}, {("en.wikipedia", "AC/DC"): {"2020-01": "many"}})
    with serving(world) as other, pytest.raises(BackendError, match="another form than is documented"):
        fetched(other, snapshot)


@given(st.dates(date(2016, 1, 1), date(2030, 1, 1)), st.integers(1, 30))
def test_whole_months_before_a_day(day, number):
    months = list(months_before(day, number))
    assert len(months) == number
    assert months == sorted(months)
    years = [date(int(month[:4]), int(month[5:]), 1) for month in months]
    assert years[-1] < date(day.year, day.month, 1) <= day
    assert (date(day.year, day.month, 1) - years[-1]).days <= 31
    assert all(27 < (b - a).days < 32 for a, b in pairwise(years))


# As titles of articles are: a first letter that is its own capital, no underscore, nothing that looks encoded
LETTERS = st.characters(
    codec="utf-8", exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf"], exclude_characters="_%\ufffd"
)


@given(st.sampled_from(["Q", '"', '"\\']), st.text(LETTERS))
def test_titles_come_back_as_they_went(tmp_path_factory, first, rest):
    path = tmp_path_factory.mktemp("views") / "pageviews-202001-user"
    path.write_text(line_of("en.wikipedia", first + rest, 7), encoding="utf-8", newline="")
    (table,) = read_views(path, "en.wikipedia", Lines())
    assert table.rows() == [(first + rest, 7)]
