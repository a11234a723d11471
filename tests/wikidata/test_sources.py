"""Which dump is nearest, on a server laid out as the real ones are."""

import hashlib
import json
import re
from datetime import date as Day
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.errors import BackendError, ConfigError
from anachron.wikidata.fetching.sources import Servers, find_dump, find_pageviews, parse_day, read_checksums
from anachron.wikidata.fetching.web import FetchSettings, client
from support.flaky_server import Answer, Flaky

ENTITIES = "/wikidatawiki/entities/"


def nginx_page(names, root=""):
    rows = [f'<a href="{root}{name}">{name}</a>   20-Nov-2026 07:12    -' for name in names]
    return '<html><h1>Index of /x</h1><hr><pre><a href="../">../</a>\n' + "\n".join(rows) + "</pre></html>"


def apache_page(names, root):
    rows = [f"<tr><td><A HREF='{root}{name}'>{name}</A></td><td>1.3K</td></tr>" for name in names]
    return f'<table><th><a href="?C=N;O=D">Name</a></th><a href="/">Parent</a>{"".join(rows)}</table>'


def put_folders(server, folders, page=nginx_page, sums=("sha1", "md5")):
    """``folders``: {"20260923": [names]}; a page for each, the dumps and their checksums."""
    names = [f"{folder}/" for folder in folders] + ["latest-all.json.bz2", "dcatap.rdf", "README.txt", "99999999/"]
    server.put(ENTITIES, page(names, ENTITIES if page is apache_page else ""))
    for folder, files in folders.items():
        root, files = f"{ENTITIES}{folder}/", list(files)
        for name in files:
            server.put(root + name, f"content of {name}")
        for kind in sums if files else ():
            lines = [f"{hashlib.new(kind, f'content of {name}'.encode()).hexdigest()}  {name}" for name in files]
            name = f"wikidata-{folder}-{kind}sums.txt"
            server.put(root + name, "\n".join(lines) + "\n")
            files = [*files, name] if kind == sums[-1] else files
        listed = [*files, *(f"wikidata-{folder}-{kind}sums.txt" for kind in sums[:-1] if files)]
        server.put(root, page(listed, root if page is apache_page else ""))


def put_items(server, items):
    """``items``: {"wikidata-json-20150518": [names]}; their search answer and metadata."""
    rows = [{"identifier": item} for item in [*items, "wikidata-json-lists", "unrelated"]]
    server.put("/advancedsearch.php", json.dumps({"response": {"numFound": len(rows), "docs": rows}}))
    for item, names in items.items():
        files = [
            {
                "name": name,
                "size": str(len(f"content of {name}")),
                "md5": hashlib.md5(f"content of {name}".encode()).hexdigest(),
                "sha1": hashlib.sha1(f"content of {name}".encode()).hexdigest(),
                "format": "JSON",
            }
            for name in names
        ]
        server.put(f"/metadata/{item}", json.dumps({"files": files, "metadata": {"identifier": item}} if files else {}))
        for name in names:
            server.put(f"/download/{item}/{name}", f"content of {name}")


def dumps(day, formats=("bz2", "gz")):
    return [f"wikidata-{day}-all.json.{end}" for end in formats]


@pytest.fixture
def server():
    with Flaky() as running:
        yield running


@pytest.fixture(scope="module")
def web():
    with client(FetchSettings(timeout=5)) as opened:
        yield opened


@pytest.fixture
def find(server, web):
    def nearest(day, format=None, retries=0):
        settings = FetchSettings(retries=retries, sleep=lambda seconds: None)
        return find_dump(Servers(web, settings, server.url, server.url), Day.fromisoformat(day), format)

    return nearest


RECENT = {
    "20260923": [*dumps("20260923"), "wikidata-20260923-truthy-BETA.nt.gz"],
    "20260925": ["wikidata-20260925-lexemes.json.bz2", "wikidata-20260925-lexemes-BETA.ttl.gz"],
    "20260930": dumps("20260930"),
    "20261007": dumps("20261007"),
    "20261014": [],
}
OLD = {
    "wikidata-json-20141027": ["20141027.json.gz", "wikidata-json-20141027_meta.xml"],
    "wikidata-json-20160229": ["wikidata-20160229-all.json.gz"],
    "wikibase-wikidatawiki-20201228": dumps("20201228"),
    "wikibase-wikidatawiki-20210104": dumps("20210104"),
    "wikibase-wikidatawiki-20210111": [],
    "wikibase-wikidatawiki-20260923": dumps("20260923"),
}


@pytest.mark.parametrize("page", [nginx_page, apache_page])
def test_recent_dumps_come_from_the_folders(server, find, page):
    put_folders(server, RECENT, page)
    found = find("2026-10-06")
    assert (found.kind, found.date, found.name) == ("dump", "2026-10-07", "wikidata-20261007-all.json.bz2")
    assert found.url == f"{server.url}{ENTITIES}20261007/wikidata-20261007-all.json.bz2"
    content = server.files[urlsplit(found.url).path].data
    assert (found.size, found.algorithm, found.checksum) == (len(content), "sha1", hashlib.sha1(content).hexdigest())
    assert not any("advancedsearch" in path for _, path, _, _ in server.requests)


def test_old_dumps_come_from_the_archive(server, find):
    put_folders(server, RECENT)
    put_items(server, OLD)
    found = find("2021-01-05")
    assert (found.date, found.name) == ("2021-01-04", "wikidata-20210104-all.json.bz2")
    assert found.url == f"{server.url}/download/wikibase-wikidatawiki-20210104/wikidata-20210104-all.json.bz2"
    content = server.files[urlsplit(found.url).path].data
    assert (found.size, found.algorithm, found.checksum) == (len(content), "sha1", hashlib.sha1(content).hexdigest())
    query = next(parse_qs(urlsplit(path).query) for _, path, _, _ in server.requests if "advancedsearch" in path)
    assert query["output"] == ["json"] and "wikidata-json-*" in query["q"][0] and query["fl[]"] == ["identifier"]


@pytest.mark.parametrize(
    ("day", "format", "date", "name"),
    [
        ("2026-09-26", None, "2026-09-23", "wikidata-20260923-all.json.bz2"),
        ("2026-09-26", "gz", "2026-09-23", "wikidata-20260923-all.json.gz"),
        ("2026-09-27", None, "2026-09-30", "wikidata-20260930-all.json.bz2"),
        ("2026-11-20", None, "2026-10-07", "wikidata-20261007-all.json.bz2"),
        ("2026-09-23", None, "2026-09-23", "wikidata-20260923-all.json.bz2"),
        ("2020-12-31", None, "2020-12-28", "wikidata-20201228-all.json.bz2"),
        ("2021-01-01", None, "2021-01-04", "wikidata-20210104-all.json.bz2"),
        ("2014-01-01", None, "2014-10-27", "20141027.json.gz"),
        ("2016-02-28", "bz2", "2020-12-28", "wikidata-20201228-all.json.bz2"),
        ("2016-02-28", "gz", "2016-02-29", "wikidata-20160229-all.json.gz"),
    ],
)
def test_the_nearest_dump(server, find, day, format, date, name):
    put_folders(server, RECENT)
    put_items(server, OLD)
    found = find(day, format)
    assert (found.date, found.name) == (date, name)


def test_of_two_equally_near_the_older_and_the_folder_before_the_item(server, find):
    put_folders(server, {"20200103": dumps("20200103"), "20200110": dumps("20200110")})
    put_items(server, {"wikidata-json-20200103": dumps("20200103"), "wikidata-json-20191220": dumps("20191220")})
    assert find("2020-01-02").url.startswith(f"{server.url}{ENTITIES}20200103")
    put_items(server, {"wikidata-json-20200101": dumps("20200101")})
    assert find("2020-01-02").date == "2020-01-01"


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 60), max_size=8, unique=True),
    st.lists(st.integers(0, 60), max_size=8, unique=True),
    st.integers(0, 60),
    st.integers(0, 3),
)
def test_the_nearest_of_all_whatever_is_where(web, folders, items, day, empty):
    """Against the plain minimum; the archive's items lie before the folders, as they do."""
    start = Day(2020, 1, 1).toordinal()
    days = {n: Day.fromordinal(start + n).strftime("%Y%m%d") for n in range(130)}
    folders = {60 + n: [] if k < empty else dumps(days[60 + n]) for k, n in enumerate(folders)}
    items = {n: [] if k < empty else dumps(days[n]) for k, n in enumerate(items)}
    day = day * 2
    full = [n for n, names in {**items, **folders}.items() if names]
    with Flaky() as server:
        put_folders(server, {days[n]: names for n, names in folders.items()})
        put_items(server, {f"wikibase-wikidatawiki-{days[n]}": names for n, names in items.items()})
        servers = Servers(web, FetchSettings(retries=0), server.url, server.url)
        asked = Day.fromordinal(start + day)
        if not full:
            with pytest.raises(BackendError, match=f"no dump near {asked}"):
                find_dump(servers, asked)
            return
        expected = min(full, key=lambda n: (abs(n - day), n))
        assert find_dump(servers, asked).date == Day.fromordinal(start + expected).isoformat()


def test_a_file_may_lie_in_the_folder_of_a_neighbouring_day(server, find):
    put_folders(server, {"20260923": dumps("20260926", ["gz"])})
    found = find("2026-09-23")
    assert (found.date, found.name) == ("2026-09-26", "wikidata-20260926-all.json.gz")


def test_without_checksums_there_are_none(server, find):
    put_folders(server, RECENT, sums=())
    assert find("2026-10-07").checksum is None
    put_folders(server, RECENT, sums=("md5",))
    assert find("2026-10-07").algorithm == "md5"


def test_lists_of_checksums():
    sha1, md5 = "A" * 40, "b" * 32
    read = read_checksums(f"{sha1}  one.json.bz2\r\n{md5} *dir/two.gz\nnonsense\n{'c' * 31}  three\n\n")
    assert read == {"one.json.bz2": ("sha1", sha1.lower()), "two.gz": ("md5", md5)}


def test_passing_failures_of_lists_are_tried_again(server, find):
    put_folders(server, RECENT)
    server.files[ENTITIES].faults = [Answer(502), Answer(429, {"Retry-After": "1"})]
    assert find("2026-10-07", retries=2).date == "2026-10-07"


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("<html>busy</html>", "the answer is not JSON"),
        ("[1]", "is a list, not an object"),
        ('{"error": "x"}', "no list of items"),
        (None, "no such page on the server"),
    ],
)
def test_answers_of_the_archive_that_make_no_sense(server, find, search, message):
    put_folders(server, RECENT)
    if search is not None:
        server.put("/advancedsearch.php", search)
    with pytest.raises(BackendError, match=message):
        find("2020-01-01")


def test_an_item_whose_metadata_is_odd_is_passed_over(server, find):
    put_folders(server, {})
    put_items(server, {"wikidata-json-20160229": ["wikidata-20160229-all.json.gz"], "wikidata-json-20160307": []})
    files = [3, {"size": "4"}, {"name": None}, {"name": "wikidata-20160307-all.json.gz.torrent"}]
    server.put("/metadata/wikidata-json-20160307", json.dumps({"files": files}))
    assert find("2016-03-07").date == "2016-02-29"


def test_a_server_without_the_page(server, find):
    with pytest.raises(BackendError, match="check --dumps-url"):
        find("2026-10-07")


def test_days():
    today = Day(2026, 11, 21)
    assert parse_day("2026-11-21", today) == today
    with pytest.raises(ConfigError, match="future days"):
        parse_day("2026-11-22", today)
    for coarse in ("2021", "2021-01"):
        with pytest.raises(ConfigError, match=re.escape(f"--date {coarse}: give a day")):
            parse_day(coarse, today)
    with pytest.raises(ConfigError, match="first dumps"):
        parse_day("-0044-03-15", today)
    with pytest.raises(ConfigError, match="not a date"):
        parse_day("yesterday", today)


def monthly(month):
    return f"/other/pageview_complete/monthly/{month[:4]}/{month}/pageviews-{month.replace('-', '')}-user.bz2"


def test_page_views_of_the_months_before(server, web):
    expected = [f"2020-{month:02d}" for month in range(1, 13)]
    for month in expected:
        server.put(monthly(month), "views " + month * int(month[-2:]))
    found = find_pageviews(Servers(web, FetchSettings(), server.url + "/", server.url), Day(2021, 1, 4))
    assert [source.date for source in found] == expected
    assert [source.url for source in found] == [server.url + monthly(month) for month in expected]
    assert [source.size for source in found] == [6 + 7 * n for n in range(1, 13)]
    assert {source.checksum for source in found} == {None} and {source.kind for source in found} == {"pageviews"}
    two = find_pageviews(Servers(web, FetchSettings(), server.url), Day(2020, 12, 31), 2)
    assert [source.date for source in two] == ["2020-10", "2020-11"]
    with pytest.raises(BackendError, match=r"no page views of 2021-01: .*404.*earlier or later"):
        find_pageviews(Servers(web, FetchSettings(), server.url), Day(2021, 2, 28), 1)
    with pytest.raises(ConfigError, match="at least 1"):
        find_pageviews(Servers(web, FetchSettings(), server.url), Day(2021, 2, 28), 0)
