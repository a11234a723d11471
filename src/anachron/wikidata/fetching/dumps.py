"""The Wikidata dump nearest to a day, tables of merged items, and the page views of the months before, fetched."""

from dataclasses import dataclass
from datetime import date as Day
from pathlib import Path

from anachron.core.errors import ConfigError
from anachron.io.jobs import Callbacks
from anachron.io.servers import DUMPS_URL
from anachron.wikidata.fetching.download import Fetched, bytes_here, fetch_all, free_space
from anachron.wikidata.fetching.sources import (
    ARCHIVE_URL,
    RemoteFile,
    Servers,
    find_dump,
    find_pageviews,
    find_tables,
    parse_day,
)
from anachron.wikidata.fetching.web import FetchSettings, client

MONTHS = 12
FAR = 31  # days from which on a dump that is the nearest is no longer near: they come every week


@dataclass(frozen=True)
class Downloads:
    """Files that were found and, unless it was a dry run, fetched.

    sources: the dump first, then the two tables of merged items, then page views, oldest first. here: bytes of each
    that were in the folder before. free: bytes free on the disk of ``place``, the nearest folder that exists. fetched:
    one a source; none of a dry run.
    """

    date: Day
    sources: list[RemoteFile]
    here: list[int]
    free: int
    place: Path
    fetched: list[Fetched]

    @property
    def bytes(self) -> int:
        return sum(source.size or 0 for source in self.sources)

    @property
    def bytes_to_fetch(self) -> int:
        return sum(max(0, (source.size or 0) - here) for source, here in zip(self.sources, self.here, strict=True))


def download(
    date: str,
    out: Path | str,
    *,
    dump: bool = True,
    redirects: bool = False,
    pageviews: bool = False,
    months: int = MONTHS,
    format: str | None = None,
    dry_run: bool = False,
    settings: FetchSettings | None = None,
    dumps_url: str = DUMPS_URL,
    archive_url: str = ARCHIVE_URL,
    callbacks: Callbacks | None = None,
) -> Downloads:
    """Fetch the Wikidata dump nearest to a day into a folder, or the older one if two are equally near.

    date: YYYY-MM-DD. dump, redirects, pageviews: which of the three. redirects: the tables of merged items, from which
    ``wikidata redirects`` makes a list, of the first day from that one on that has both, else of the last before.
    months: whole months of page views, counted back from the day.
    format: ``bz2`` or ``gz``, by default what the nearest dump has. dry_run: look only. settings: how the servers are
    asked. callbacks: told how near the dump is, what is missing, and the bytes of each file. Needs the extra
    ``wikidata``.

    An interrupted call resumes where it stopped. Raises `ConfigError` for invalid options, and as
    `anachron.wikidata.fetching.download.fetch_all`.
    """
    if not dump and not redirects and not pageviews:
        raise ConfigError(
            "--no-dump without --redirects or --pageviews: nothing is left to fetch; leave it out or give another"
        )
    callbacks = callbacks or Callbacks()
    day, out, settings = parse_day(date), Path(out), settings or FetchSettings(note=callbacks.notice)
    with client(settings) as web:
        servers = Servers(web, settings, dumps_url, archive_url)
        sources = [find_dump(servers, day, format)] if dump else []
        sources += find_tables(servers, day) if redirects else []
        sources += find_pageviews(servers, day, months) if pageviews else []
        here = [bytes_here(source, out) for source in sources]
        place, free = free_space(out)
        _tell_distances(sources, day, callbacks)
        fetched = []
        if not dry_run:
            with callbacks.bars("bytes") as progress:
                fetched = fetch_all(web, sources, out, settings, progress)
    return Downloads(day, sources, here, free, place, fetched)


def _tell_distances(sources: list[RemoteFile], day: Day, callbacks: Callbacks) -> None:
    """How far the dump and the tables are from the day, and which of them have no checksum."""
    nearest = dict[str, RemoteFile]()
    for source in sources:
        if source.kind != "pageviews":
            nearest.setdefault(source.kind, source)
            if source.checksum is None:
                callbacks.warn(f"the server publishes no checksum for {source.name}: only its size will be compared")
    for kind, source in nearest.items():
        days = (Day.fromisoformat(source.date) - day).days
        far = f"{abs(days):,} day{'s' if abs(days) > 1 else ''} {'after' if days > 0 else 'before'} {day.isoformat()}"
        words = f"{source.date}, {'that very day' if days == 0 else far}"
        if kind == "dump":
            (callbacks.warn if abs(days) > FAR else callbacks.notice)(f"nearest dump: {words}")
        elif days < 0:
            callbacks.warn(f"tables of merged items: {words}; what was merged since then is not in them")
        else:
            callbacks.notice(f"tables of merged items: {words}")
