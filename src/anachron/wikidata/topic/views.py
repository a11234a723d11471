"""Popularity of a topic's snapshot by the per-article service of Wikimedia, in place of files of a hundred gigabytes.

The answers are written as page-view files, of which `anachron.wikidata.views.popularity` makes the medians: the numbers
are those of the published files, and can be made again without the network.

The documented form (https://wikimedia.org/api/rest_v1/, section Pageviews data): ``metrics/pageviews/per-article/``,
then project, access, agent, the title with underscores, ``monthly``, the first and the last day. The answer is
``{"items": [{"timestamp": "2020010100", "views": 12}, ...]}``, without the months that have no view, and 404 where
there is none in any. There are views since July 2015.
"""

from datetime import UTC, datetime, timedelta
from datetime import date as Day
from pathlib import Path
from urllib.parse import quote

import msgspec
import polars as pl

from anachron.core.dates import months_before
from anachron.core.errors import ConfigError, DataError
from anachron.io.files import read_json, remove_file, write_bytes, write_json
from anachron.io.jobs import Callbacks
from anachron.io.stores import refuse_stores
from anachron.wikidata.reading.snapshot import Snapshot, open_snapshot
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import Services, decoded
from anachron.wikidata.topic.site import Site
from anachron.wikidata.views.popularity import Result, choose_project, compute_popularity

FIRST = "2015-07"  # the first month that the service has
LATE = 7  # days after its end by which it has a month


class _Month(msgspec.Struct):
    timestamp: str
    views: int


class _Months(msgspec.Struct):
    items: list[_Month]


def check_views(site: Site, wiki: str, language: str, day: str, months: int = 12) -> tuple[str, list[str]]:
    """The project and the months whose page views `fetch_popularity` asks for.

    wiki, language: as a snapshot has them. day: of the snapshot, as YYYY-MM-DD. Raises `ConfigError` for a site without
    page views, a wiki of which none are known, and months before `FIRST`; so it can be called before all else.
    """
    if site.views is None:
        raise ConfigError(f"{site.url}: no page views are known of it; leave them out with --no-popularity")
    project, _ = choose_project({"options": {"wiki": wiki, "language": language}}, None)
    wanted = months_before(Day.fromisoformat(day), months)
    if wanted[0] < FIRST:
        raise ConfigError(
            f"page views of {wanted[0]}: the service has them since {FIRST}; leave them out with --no-popularity, or "
            "give files to wikidata pageviews"
        )
    return project, wanted


def fetch_popularity(
    services: Services, snapshot: Path | str, months: int = 12, callbacks: Callbacks | None = None,
    today: Day | None = None,
) -> Result:  # fmt: skip
    """Write ``popularity.parquet`` into a snapshot, as `compute_popularity` does from files of the same months.

    Only articles of subjects and objects of its statements are asked for; how many these were, the table's manifest
    says. months: whole months before the day of the snapshot. The last one is left out, with a warning, where it ended
    less than `LATE` days before today and has no view of any title: the service does not know it yet. Answers are kept
    in ``SNAPSHOT/pageviews/``, so that a call that was interrupted goes on. Raises `ConfigError` as `check_views`,
    `DataError` where no title has views, and as `Services.get` and `compute_popularity`.
    """
    refuse_stores(snapshot)
    callbacks, opened, site = callbacks or Callbacks(), open_snapshot(snapshot), services.site
    options, today = opened.manifest["options"], today or datetime.now(UTC).date()
    project, wanted = check_views(site, options["wiki"], options.get("language", "en"), opened.manifest["date"], months)
    next_month = Day.fromisoformat(f"{wanted[-1]}-28") + timedelta(4)
    end = next_month - timedelta(next_month.day)
    late, span = today - end < timedelta(LATE), f"{wanted[0].replace('-', '')}01/{end:%Y%m%d}"

    def ask(title: str) -> dict[str, int]:
        article = quote(title.replace(" ", "_"), safe="")
        address = f"{site.views}/metrics/pageviews/per-article/{project}/all-access/user/{article}/monthly/{span}"
        if (answer := services.get("views", address)) is None:
            return {}
        return {f"{one.timestamp[:4]}-{one.timestamp[4:6]}": one.views for one in decoded(answer, _Months).items}

    folder, titles = Path(str(opened.folder)) / "pageviews", titles_of(opened)
    with Kept(folder / "service.sqlite", f"{project} {span} {today if late else ''}") as kept:  # else known for good
        known = kept.all("views")
        asked = [title for title in titles if title not in known]
        with callbacks.bar("page views", "articles") as bar:
            for done, (title, views) in enumerate(services.map(ask, asked), len(known) + 1):
                with kept.answer():
                    kept.put("views", title, views)
                known[title] = views
                bar.progress(done, len(titles))
    there = {month for views in known.values() for month in views}
    if there.isdisjoint(wanted):
        raise DataError(f"{project} has no page views of the {len(titles):,} titles of {snapshot}; use --no-popularity")
    files = []
    for month in wanted:
        path = folder / f"pageviews-{month.replace('-', '')}-user"
        if late and month == wanted[-1] and month not in there:
            remove_file(path)
            callbacks.warn(f"the service has no page view of these articles in {month}, which is left out")
        else:
            lines = [line_of(project, title, known[title][month]) for title in titles if month in known[title]]
            write_bytes(path, "".join(lines).encode())
            files.append(path)
    result = compute_popularity(snapshot, files, callbacks=callbacks)
    result.counts["requests"] = len(titles)
    about = f"{result.path}.manifest.json"
    write_json(about, read_json(about) | {"counts": result.counts})
    callbacks.notice(f"{len(titles):,} requests for page views of {project}")
    return result


def titles_of(snapshot: Snapshot) -> list[str]:
    """The distinct titles of subjects and objects of a snapshot's statements, in order."""
    buckets, named, titles = range(snapshot.buckets), set[str](), set[str]()
    for bucket in buckets:
        rows = snapshot.read("statements", bucket, ["subject", "value_type", "value"])
        named.update(rows["subject"], rows.filter(value_type="entity")["value"].drop_nulls())
    for bucket in buckets:
        rows = snapshot.read("entities", bucket, ["id", "title"]).drop_nulls()
        titles.update(rows.filter(pl.col("id").is_in(named))["title"])
    return sorted(titles)


def line_of(project: str, title: str, views: int) -> str:
    """A line of a page-view file, in which a title with a quotation mark in front is quoted."""
    named = title.replace(" ", "_")
    if named.startswith('"'):
        escaped = named.replace("\\", "\\\\").replace('"', '\\"')
        named = f'"{escaped}"'
    return f"{project} {named} - all-access {views}\n"
