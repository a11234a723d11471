"""Commands that fetch what a snapshot is built from, and add page views to it: ``download`` and ``pageviews``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.options import JsonFlag, Ray, Workers
from anachron.cli.output import print_json, progress_bar, say, stdout, warn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from anachron.wikidata.fetching.download import Fetched
    from anachron.wikidata.fetching.sources import Servers, Source

FAR = 31  # days from which on a dump that is the nearest is no longer near: they come every week


def register(app: typer.Typer) -> None:
    app.command()(download)
    app.command()(pageviews)


def download(
    date: Annotated[str, typer.Option(help="Day whose nearest dump is wanted: YYYY-MM-DD.")],
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    pageviews: Annotated[bool, typer.Option("--pageviews", help="Also the page views of the months before.")] = False,
    months: Annotated[int, typer.Option(help="How many whole months of page views, counted back from the day.")] = 12,
    dump: Annotated[bool, typer.Option("--dump/--no-dump", help="Fetch the dump, or only page views.")] = True,
    format: Annotated[
        str | None, typer.Option(help="bz2 (smaller) or gz (faster to read); by default what the nearest dump has.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be fetched, and fetch nothing.")] = False,
    contact: Annotated[
        str | None, typer.Option(help="Your mail address or page, told to the servers; Wikimedia asks for it.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds of silence after which a connection is given up.")] = 60,
    retries: Annotated[int, typer.Option(help="Failures in a row, without progress, before giving up.")] = 6,
    dumps_url: Annotated[str, typer.Option(help="Server of dumps and page views, or a mirror of it.")] = (
        "https://dumps.wikimedia.org"
    ),
    archive_url: Annotated[str, typer.Option(help="Server of old dumps.")] = "https://archive.org",
    json_: JsonFlag = False,
) -> None:
    """Fetch the Wikidata dump nearest to a day; of two that are equally near, the older.

    Cut or killed, the same command goes on where it stopped. Checksums are verified where the server publishes them.

    Example: anachron wikidata download --date 2021-01-04 --out dumps --pageviews --dry-run
    """
    import shutil

    from anachron.errors import ConfigError
    from anachron.wikidata.fetching.download import bytes_here
    from anachron.wikidata.fetching.sources import Servers, find_dump, find_pageviews, parse_day
    from anachron.wikidata.fetching.web import Manners, client

    if not dump and not pageviews:
        raise ConfigError("--no-dump without --pageviews: nothing is left to fetch; leave out one or give the other")
    day = parse_day(date)
    manners = Manners(timeout=timeout, retries=retries, contact=contact, note=say)
    with client(manners) as web:
        servers = Servers(web, manners, dumps_url, archive_url)
        sources = [find_dump(servers, day, format)] if dump else []
        sources += find_pageviews(servers, day, months) if pageviews else []
        here = {source.name: bytes_here(source, out) for source in sources}
        existing = next(path for path in (out, *out.absolute().parents) if path.exists())
        summary: dict[str, Any] = {
            "date": day.isoformat(),
            "out": str(out),
            "files": [_row(source, here[source.name]) for source in sources],
            "bytes": sum(source.size or 0 for source in sources),
            "to_fetch": sum(max(0, (source.size or 0) - here[source.name]) for source in sources),
            "free": shutil.disk_usage(existing).free,
            "dry_run": dry_run,
        }
        if dump:
            _say_distance(sources[0], day)
        if not dry_run:
            fetched = _fetch_all(servers, sources, out)
            for row, result in zip(summary["files"], fetched, strict=True):
                row |= {"path": str(result.path), "state": result.state, "size": result.size}
            summary["received"] = sum(result.received for result in fetched)
    if json_:
        print_json(summary)
        return
    for row in summary["files"]:
        stdout().print(_line(row), soft_wrap=True, markup=False)
    total = f"{_size(summary['bytes'])} in {len(sources)} files"
    if dry_run:
        rest = f"{_size(summary['to_fetch'])} to fetch, {_size(summary['free'])} free in {existing}"
        stdout().print(f"{total}; {rest}", soft_wrap=True, markup=False)
    else:
        say(f"{total} in {out}; {_size(summary['received'])} came now")


def pageviews(
    snapshot: Annotated[Path, typer.Argument(help="A snapshot folder, as wikidata ingest makes it.")],
    files: Annotated[
        list[Path], typer.Argument(help="Page views: pageviews-YYYYMM-user.bz2, a file a month, or one a day.")
    ],
    wiki_project: Annotated[
        str | None, typer.Option(help="Project in these files; by default that of the snapshot's titles.")
    ] = None,
    redirects: Annotated[
        Path | None, typer.Option(help="Lines of from-title, tab, to-title: views of the first go to the second.")
    ] = None,
    workers: Workers = None,
    ray: Ray = None,
    json_: JsonFlag = False,
) -> None:
    """Add the popularity of its entities to a snapshot: the median of monthly views by people.

    It counts from the first month with any view to the last that is given. Files that were read are not read again.

    Example: anachron wikidata pageviews wikidata-2021 dumps/pageviews-2020*-user.bz2
    """
    from contextlib import ExitStack

    from anachron.wikidata.views.popularity import compute_popularity

    with ExitStack() as stack:
        result = compute_popularity(
            snapshot,
            files,
            project=wiki_project,
            redirects=redirects,
            workers=workers,
            ray=ray,
            progress=_bars(stack, "items" if ray or (workers or 1) > 1 else "bytes"),
        )
    for warning in result.warnings:
        warn(warning)
    if json_:
        print_json({"path": str(result.path), "counts": result.counts, "warnings": result.warnings})
        return
    c = result.counts
    say(f"{c['lines']:,} lines in {c['files']} files: {c['lines_of_project']:,} of the project, {c['bad_lines']:,} bad")
    if redirects is not None:
        say(f"{c['redirects']:,} redirects, of which {c['redirects_used']:,} lead to titles of the snapshot")
    say(f"{c['titles']:,} entities with a title: {c['with_views']:,} with views, {c['without_views']:,} without")
    say(f"{c['views_matched']:,} of {c['views_of_project']:,} views are theirs; written to {result.path}")


def _bars(stack: "ExitStack", unit: str) -> "Callable[[str, int, int], None]":
    """A bar for each thing that is worked on, one after another."""
    bars: dict[str, Callable[..., None]] = {}

    def progress(what: str, done: int, total: int) -> None:
        if what not in bars:
            stack.close()  # the bar before is complete
            bars[what] = stack.enter_context(progress_bar(what, unit=unit))
        bars[what](done, total)

    return progress


def _fetch_all(servers: "Servers", sources: "list[Source]", out: Path) -> "list[Fetched]":
    """Fetch with a bar for each file, and one for each check."""
    from contextlib import ExitStack

    from anachron.wikidata.fetching.download import fetch_all

    with ExitStack() as stack:
        return fetch_all(servers.web, sources, out, servers.manners, _bars(stack, "bytes"))


def _say_distance(source: "Source", day: Any) -> None:
    from datetime import date as Day

    if source.checksum is None:
        warn(f"the server publishes no checksum for {source.name}: only its size will be compared")
    days = (Day.fromisoformat(source.date) - day).days
    far = f"{abs(days):,} day{'s' if abs(days) > 1 else ''} {'after' if days > 0 else 'before'} {day.isoformat()}"
    (warn if abs(days) > FAR else say)(f"nearest dump: {source.date}, {'that very day' if days == 0 else far}")


def _row(source: "Source", here: int) -> dict[str, Any]:
    return {
        "kind": source.kind,
        "date": source.date,
        "name": source.name,
        "url": source.url,
        "size": source.size,
        "here": here,
        "checksum": None if source.checksum is None else f"{source.algorithm}:{source.checksum}",
    }


def _line(row: dict[str, Any]) -> str:
    if "path" in row:
        return f"{row['path']}  {_size(row['size'])}  {row['state']}"
    here = f", {_size(row['here'])} of it here" if row["here"] else ""
    return f"{row['name']}  {_size(row['size'])}{here}  {row['url']}"


def _size(size: int | None) -> str:
    """Bytes for people, in powers of 1,024 as the servers' pages have them."""
    if size is None:
        return "size unknown"
    amount, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{size:,} bytes" if units[0] == "bytes" else f"{amount:,.1f} {units[0]}"
