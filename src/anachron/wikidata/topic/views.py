"""Popularity of a topic's snapshot by the per-article service of Wikimedia, in place of files of a hundred gigabytes.

The answers are written as page-view files, of which `anachron.wikidata.views.popularity` makes the medians: the numbers
are those of the published files, and can be made again without the network.

The documented form (https://wikimedia.org/api/rest_v1/, section Pageviews data): ``metrics/pageviews/per-article/``,
then project, access, agent, the title with underscores, ``monthly``, the first and the last day. The answer is
``{"items": [{"timestamp": "2020010100", "views": 12}, ...]}``, without the months that have no view, and 404 where
there is none in any. There are views since July 2015.
"""

from datetime import date as Day
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import msgspec

from anachron.core.dates import months_before
from anachron.core.errors import ConfigError, DataError
from anachron.io.files import remove_file, write_bytes
from anachron.io.jobs import Callbacks
from anachron.io.stores import refuse_stores
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.snapshot import Snapshot, open_snapshot, readable
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import Services, decoded
from anachron.wikidata.views.popularity import Result, choose_project, compute_popularity

FIRST = "2015-07"  # the first month that the service has


class _Month(msgspec.Struct):
    timestamp: str
    views: int


class _Months(msgspec.Struct):
    items: list[_Month]


def fetch_popularity(
    services: Services, snapshot: Path | str, months: int = 12, callbacks: Callbacks | None = None
) -> Result:
    """Write ``popularity.parquet`` into a snapshot, as `compute_popularity` does from files of the same months.

    months: whole months before the day of the snapshot. The last ones in which the service has no view of any title, as
    of a month that it does not know yet, are left out, and a warning says so. Answers are kept in
    ``SNAPSHOT/pageviews/``, so that a call that was interrupted goes on. Raises `ConfigError` for a site without such a
    service and for months before `FIRST`, `DataError` where no title has views, and as `Services.get` and
    `compute_popularity`.
    """
    refuse_stores(snapshot)
    callbacks, opened, site = callbacks or Callbacks(), open_snapshot(snapshot), services.site
    if site.views is None:
        raise ConfigError(f"{site.url}: no page views are known of it; leave them out with --no-popularity")
    project, _ = choose_project(opened.manifest, None)
    wanted = months_before(Day.fromisoformat(opened.manifest["date"]), months)
    if min(wanted) < FIRST:
        raise ConfigError(
            f"page views of {min(wanted)}: the service has them since {FIRST}; leave them out with --no-popularity, or "
            "give files to wikidata pageviews"
        )
    last = Day.fromisoformat(f"{wanted[-1]}-28") + timedelta(4)
    span = f"{wanted[0].replace('-', '')}01/{last - timedelta(last.day):%Y%m%d}"

    def ask(title: str) -> dict[str, int]:
        article = quote(title.replace(" ", "_"), safe="")
        address = f"{site.views}/metrics/pageviews/per-article/{project}/all-access/user/{article}/monthly/{span}"
        if (answer := services.get("views", address)) is None:
            return {}
        return {f"{one.timestamp[:4]}-{one.timestamp[4:6]}": one.views for one in decoded(answer, _Months).items}

    folder, titles = Path(str(opened.folder)) / "pageviews", titles_of(opened)
    with Kept(folder / "service.sqlite", f"{project} {span}") as kept:
        known = kept.all("views")
        asked = [title for title in titles if title not in known]
        with callbacks.bar("page views", "articles") as bar:
            for done, (title, views) in enumerate(services.map(ask, asked), len(known) + 1):
                with kept.answer():
                    kept.put("views", title, views)
                known[title] = views
                bar.progress(done, len(titles))
    there = [month for month in wanted if any(month in views for views in known.values())]
    if not there:
        raise DataError(f"{project} has no page views of the {len(titles):,} titles of {snapshot}; use --no-popularity")
    files = []
    for month in wanted:
        path = folder / f"pageviews-{month.replace('-', '')}-user"
        if month > there[-1]:
            remove_file(path)
            callbacks.warn(f"the service has no page view of these articles in {month}, which is left out")
        else:
            lines = [line_of(project, title, known[title][month]) for title in titles if month in known[title]]
            write_bytes(path, "".join(lines).encode())
            files.append(path)
    return compute_popularity(snapshot, files, callbacks=callbacks)


def titles_of(snapshot: Snapshot) -> list[str]:
    """The distinct titles of all entities of a snapshot, in order."""
    titles: set[str] = set()
    for bucket in range(snapshot.buckets):
        part = snapshot.part("entities", bucket)
        with readable(part):
            titles |= set(scan_parquet(part).select("title").collect()["title"].drop_nulls())
    return sorted(titles)


def line_of(project: str, title: str, views: int) -> str:
    """A line of a page-view file, in which a title with a quotation mark in front is quoted."""
    named = title.replace(" ", "_")
    if named.startswith('"'):
        escaped = named.replace("\\", "\\\\").replace('"', '\\"')
        named = f'"{escaped}"'
    return f"{project} {named} - all-access {views}\n"
