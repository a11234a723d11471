"""Which files there are to fetch: the dump nearest to a day, the tables of merged items, and page views before it.

What is assumed about the servers:

* ``DUMPS_URL/wikidatawiki/entities/`` is a page of links, one folder ``YYYYMMDD/`` a dump. Many folders hold other
  kinds of dump only; one with ours has ``wikidata-YYYYMMDD-all.json.bz2`` and ``.gz`` and lists of checksums named
  ``wikidata-YYYYMMDD-sha1sums.txt`` and ``-md5sums.txt`` (lines of ``CHECKSUM  NAME``). A couple of months are kept.
* Older dumps are items of Internet Archive: ``wikidata-json-YYYYMMDD`` (2014 to 2016; files ``YYYYMMDD.json.gz`` or
  ``wikidata-YYYYMMDD-all.json.gz``) and ``wikibase-wikidatawiki-YYYYMMDD`` (since 2016), found with its
  ``advancedsearch.php``; ``/metadata/ITEM`` lists the files with size, md5 and sha1, ``/download/ITEM/NAME`` is a file.
* ``DUMPS_URL/wikidatawiki/YYYYMMDD/`` is a page of links to the SQL dumps of a day,
  ``wikidatawiki-YYYYMMDD-TABLE.sql.gz``, with lists of checksums ``wikidatawiki-YYYYMMDD-sha1sums.txt`` and
  ``-md5sums.txt``; a table that is not finished is not linked. A couple of months are kept.
* ``DUMPS_URL/other/pageview_complete/monthly/YYYY/YYYY-MM/pageviews-YYYYMM-user.bz2`` are the views by people in a
  month; no checksums are published.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date as Day
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote, urljoin

from anachron.core.dates import Date, months_before
from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.servers import DUMPS_URL
from anachron.wikidata.fetching.web import FetchSettings, request

if TYPE_CHECKING:
    import httpx2

ARCHIVE_URL = "https://archive.org"
ITEMS = "identifier:wikidata-json-* OR identifier:wikibase-wikidatawiki-*"
FORMATS = ("bz2", "gz")  # the smaller first
TABLES = ("redirect", "page")  # which together say what was merged into what

_LINK = re.compile(r"""href\s*=\s*["']?([^"'>\s]+)""", re.IGNORECASE)
_FOLDER = re.compile(r"(\d{8})/?")
_ITEM = re.compile(r"(?:wikidata-json|wikibase-wikidatawiki)-(\d{8})")
_DUMP = re.compile(r"(?:wikidata-(\d{8})-all|(\d{8}))\.json\.(bz2|gz)")
_SUMS = re.compile(r"wikidata(?:wiki)?-\d{8}-(sha1|md5)sums\.txt")
_SUM = re.compile(r"([0-9a-fA-F]{32}|[0-9a-fA-F]{40})\s+[*]?(\S.*?)\s*")

Algorithm = Literal["sha1", "md5"]
Checksums = dict[str, tuple[Algorithm, str]]  # by the name of a file


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on a server. ``size`` in bytes and ``checksum`` are ``None`` where the server does not tell them."""

    kind: Literal["dump", "table", "pageviews"]
    date: str  # the day of a dump or table, the month of page views
    name: str
    url: str
    size: int | None = None
    algorithm: Algorithm | None = None
    checksum: str | None = None


@dataclass
class Servers:
    """The two servers, an open client and its settings; lists that were fetched are kept for the next question."""

    web: "httpx2.Client"
    settings: FetchSettings = field(default_factory=FetchSettings)
    dumps_url: str = DUMPS_URL
    archive_url: str = ARCHIVE_URL
    _found: dict[str, list[RemoteFile]] = field(default_factory=dict)

    def get(self, url: str, params: dict[str, Any] | None = None) -> "httpx2.Response | None":
        return request(self.web, self.settings, "GET", url, params)

    def size(self, url: str) -> int | None:
        """Bytes of a file as the server states them. Raises `BackendError` when there is no such file."""
        response = request(self.web, self.settings, "HEAD", url)
        if response is None:
            raise BackendError(f"{url}: no such file on the server (404)")
        length = response.headers.get("content-length", "")
        return int(length) if length.isdecimal() else None


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder or an item that may hold a dump of its day."""

    day: Day
    url: str
    item: str | None = None


def parse_day(text: str, today: Day | None = None) -> Day:
    """A day from ``YYYY-MM-DD``, not after today. Raises `ConfigError`."""
    try:
        date = Date.parse(text)
    except DataError as error:
        raise ConfigError(f"--date: {error}") from error
    if date.month is None or date.day is None:
        raise ConfigError(f"--date {text}: give a day, such as {date}{'-01' if date.month else '-01-01'}")
    today = today or Day.today()
    if date.first_day > today.toordinal():
        raise ConfigError(f"--date {text}: there are no dumps of future days; give a day up to {today.isoformat()}")
    if date.first_day < 1:
        raise ConfigError(f"--date {text}: the first dumps are of 2014")
    return Day.fromordinal(date.first_day)


def find_dump(servers: Servers, day: Day, format: str | None = None) -> RemoteFile:
    """The JSON dump nearest to a day: nearest in days, the older of two that are equally near.

    With ``format`` (``bz2`` or ``gz``) only dumps in that form count; without, both do, and ``bz2`` is taken where
    there are both, for it is smaller. Internet Archive is asked only where the first server holds no dump of
    the day or before: what it holds, it holds without gaps. Raises `BackendError` when there is no dump.
    """
    if format is not None and format not in FORMATS:
        raise ConfigError(f"--format {format}: choose {' or '.join(FORMATS)}")
    places = _folders(servers, "/wikidatawiki/entities/")
    before = _first(servers, _backwards(places, day), format)
    if before is None:
        places += _items(servers)
        before = _first(servers, _backwards(places, day), format)
    later = sorted((p for p in places if p.day > day), key=lambda p: (p.day, p.item is not None))
    if before is not None:  # only what is strictly nearer can still win
        distance = abs(day - Day.fromisoformat(before.date))
        later = [p for p in later if p.day - day < distance]
    nearest = _first(servers, later, format) or before
    if nearest is None:
        kind = "" if format is None else f" as {format}"
        raise BackendError(
            f"no dump near {day.isoformat()}{kind} at {servers.dumps_url} or {servers.archive_url}; "
            "try the other --format, or check --dumps-url and --archive-url"
        )
    return nearest


def find_tables(servers: Servers, day: Day) -> list[RemoteFile]:
    """The SQL dumps ``redirect`` and ``page`` of one day, the first from a day on that has both.

    What was merged later does no harm, for the later of two snapshots still has it; what was merged between an earlier
    table and the snapshot would be missed. So the last before the day is taken only where there is none from it on.
    Raises `BackendError` where there is none at all.
    """
    places = _folders(servers, "/wikidatawiki/")
    later = [place for place in places if place.day >= day]
    for place in [*later, *_backwards(places, day)]:
        listed = _listed(servers, place)
        names = [f"wikidatawiki-{place.day:%Y%m%d}-{table}.sql.gz" for table in TABLES]
        if set(names) <= set(listed):
            sums, date = _checksums(servers, place, listed), place.day.isoformat()
            urls = {name: urljoin(place.url, name) for name in names}
            return [
                RemoteFile("table", date, name, url, servers.size(url), *sums.get(name, (None, None)))
                for name, url in urls.items()
            ]
    index = servers.dumps_url.rstrip("/") + "/wikidatawiki/"
    raise BackendError(f"{index}: no day there has the tables {' and '.join(TABLES)}; check --dumps-url")


def find_pageviews(servers: Servers, day: Day, months: int = 12) -> list[RemoteFile]:
    """The monthly files of views by people of the ``months`` whole months before a day, oldest first.

    Raises `BackendError` where one is missing.
    """
    sources = []
    for date in months_before(day, months):
        name = f"pageviews-{date.replace('-', '')}-user.bz2"
        url = f"{servers.dumps_url.rstrip('/')}/other/pageview_complete/monthly/{date[:4]}/{date}/{name}"
        try:
            size = servers.size(url)
        except BackendError as error:
            raise BackendError(
                f"no page views of {date}: {error}; give an earlier or later --date, fewer --months, or leave out "
                "--pageviews (views by people begin in 2015, and a month's file appears some days after its end)"
            ) from error
        sources.append(RemoteFile("pageviews", date, name, url, size))
    return sources


def _backwards(places: Iterable[_Place], day: Day) -> list[_Place]:
    """Places of the day and before, newest first; of two of the same day, the folder before the item."""
    return sorted((p for p in places if p.day <= day), key=lambda p: (-p.day.toordinal(), p.item is not None))


def _first(servers: Servers, places: Iterable[_Place], format: str | None) -> RemoteFile | None:
    for place in places:
        for wanted in FORMATS if format is None else (format,):
            for source in _dumps_at(servers, place):
                if source.name.endswith(wanted):
                    if source.size is None:
                        return replace(source, size=servers.size(source.url))
                    return source
    return None


def _dumps_at(servers: Servers, place: _Place) -> list[RemoteFile]:
    if place.url not in servers._found:
        reader = _folder_dumps if place.item is None else _item_dumps
        servers._found[place.url] = reader(servers, place)
    return servers._found[place.url]


def _names(page: str) -> list[str]:
    """Last parts of the links of a page, with their closing slash: servers write them relative or from the root."""
    names = []
    for link in _LINK.findall(page):
        path = unquote(link.split("?")[0].split("#")[0])
        tail = path.rstrip("/").rpartition("/")[2]
        names.append(tail + "/" if path.endswith("/") else tail)
    return names


def _day(digits: str) -> Day | None:
    try:
        return Day(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:  # eight digits that are no day, such as a folder for something else
        return None


def _folders(servers: Servers, path: str) -> list[_Place]:
    """The folders of days that a page of the first server links to, oldest first."""
    index = servers.dumps_url.rstrip("/") + path
    response = servers.get(index)
    if response is None:
        raise BackendError(f"{index}: no such page on the server (404); check --dumps-url")
    names = {match[1] for name in _names(response.text) if (match := _FOLDER.fullmatch(name))}
    return [_Place(day, urljoin(index, digits + "/")) for digits in sorted(names) if (day := _day(digits))]


def _folder_dumps(servers: Servers, place: _Place) -> list[RemoteFile]:
    names = _listed(servers, place)
    dumps = [(match, name) for name in names if (match := _DUMP.fullmatch(name))]
    sums = _checksums(servers, place, names) if dumps else {}
    return [
        RemoteFile(
            "dump", _date(match, place), name, urljoin(place.url, quote(name)), None, *sums.get(name, (None, None))
        )
        for match, name in dumps
    ]


def _listed(servers: Servers, place: _Place) -> list[str]:
    """The names that the page of a folder links to; none where there is no such page."""
    response = servers.get(place.url)
    return [] if response is None else sorted(set(_names(response.text)))


def _checksums(servers: Servers, place: _Place, names: list[str]) -> Checksums:
    """What the lists of checksums among the names of a folder say."""
    sums: Checksums = {}
    for name in filter(_SUMS.fullmatch, names):  # md5 sorts before sha1, which then wins
        listing = servers.get(urljoin(place.url, name))
        sums.update(read_checksums(listing.text) if listing is not None else {})
    return sums


def read_checksums(text: str) -> Checksums:
    """Checksums by file name, from lines of ``CHECKSUM  NAME``; the length tells md5 from sha1."""
    checksums: Checksums = {}
    for line in text.splitlines():
        if entry := _SUM.fullmatch(line.strip()):
            digits, name = entry.groups()
            checksums[name.rpartition("/")[2]] = ("md5" if len(digits) == 32 else "sha1", digits.lower())
    return checksums


def _items(servers: Servers) -> list[_Place]:
    url = servers.archive_url.rstrip("/")
    params = {"q": ITEMS, "fl[]": "identifier", "rows": 10_000, "page": 1, "output": "json"}
    answer = _json(servers, url + "/advancedsearch.php", params)
    response = answer.get("response")
    rows = response.get("docs") if isinstance(response, dict) else None
    if not isinstance(rows, list):
        raise BackendError(f"{url}/advancedsearch.php: the answer has no list of items; check --archive-url")
    items = [row.get("identifier") for row in rows if isinstance(row, dict)]
    matches = [(item, match) for item in items if isinstance(item, str) and (match := _ITEM.fullmatch(item))]
    return [_Place(day, f"{url}/metadata/{item}", item) for item, match in matches if (day := _day(match[1]))]


def _item_dumps(servers: Servers, place: _Place) -> list[RemoteFile]:
    item = quote(str(place.item))
    files = _json(servers, place.url).get("files", [])  # an item that was taken down is an empty object
    base = f"{servers.archive_url.rstrip('/')}/download/{item}/"
    dumps = []
    for row in files if isinstance(files, list) else []:
        name = row.get("name") if isinstance(row, dict) else None
        if isinstance(name, str) and (match := _DUMP.fullmatch(name)):
            algorithm: Algorithm | None = "sha1" if row.get("sha1") else "md5" if row.get("md5") else None
            size = str(row.get("size", ""))
            dumps.append(
                RemoteFile(
                    "dump",
                    _date(match, place),
                    name,
                    base + quote(name),
                    int(size) if size.isdecimal() else None,
                    algorithm,
                    str(row[algorithm]).lower() if algorithm else None,
                )
            )
    return dumps


def _date(match: re.Match[str], place: _Place) -> str:
    """The day in a dump's name; now and then a file lies in the folder of a neighbouring day."""
    day = _day(match[1] or match[2])
    return (day or place.day).isoformat()


def _json(servers: Servers, url: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    response = servers.get(url, params)
    if response is None:
        raise BackendError(f"{url}: no such page on the server (404); check --archive-url")
    try:
        answer = response.json()
    except ValueError as error:
        raise BackendError(f"{url}: the answer is not JSON ({error}); try again later") from error
    if not isinstance(answer, dict):
        raise BackendError(f"{url}: the answer is a {type(answer).__name__}, not an object; check --archive-url")
    return answer
