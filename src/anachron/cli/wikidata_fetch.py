"""Commands that fetch what a snapshot is built from, and add page views to it: ``download`` and ``pageviews``."""

from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.options import JsonFlag, SpreadOptions
from anachron.cli.output import on_screen, print_json, say, stdout, warn
from anachron.cli.outputs import RUN
from anachron.cli.topic_options import Contact

if TYPE_CHECKING:
    from anachron.wikidata.fetching.dumps import Downloads
    from anachron.wikidata.views.popularity import Result


def download(
    date: Annotated[str, typer.Option(help="Fetch the dump nearest to this day: YYYY-MM-DD.")],
    out: Annotated[Path, typer.Option(help="Folder for the files."), RUN],
    pageviews: Annotated[
        bool, typer.Option("--pageviews", help="Also fetch the page views of the months before.")
    ] = False,
    redirects: Annotated[
        bool, typer.Option("--redirects", help="Also fetch the tables of merged items, for wikidata redirects.")
    ] = False,
    months: Annotated[int, typer.Option(help="Number of whole months of page views, counting back from the day.")] = 12,
    dump: Annotated[
        bool, typer.Option("--dump/--no-dump", help="Fetch the dump; --no-dump fetches only the others.")
    ] = True,
    format: Annotated[
        str | None, typer.Option(help="bz2 (smaller) or gz (faster to read). Default: whichever the nearest dump has.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be fetched, without fetching it.")
    ] = False,
    contact: Contact = None,
    timeout: Annotated[float, typer.Option(help="Seconds without data after which a connection is given up.")] = 60,
    retries: Annotated[int, typer.Option(help="Number of consecutive failures without progress before giving up.")] = 6,
    dumps_url: Annotated[str, typer.Option(help="Server for dumps and page views, or a mirror of it.")] = (
        "https://dumps.wikimedia.org"
    ),
    archive_url: Annotated[str, typer.Option(help="Server for old dumps.")] = "https://archive.org",
    json_: JsonFlag = False,
) -> None:
    """Fetch the Wikidata dump nearest to a day, or the older one if two are equally near.

    If interrupted or killed, repeat the same command to resume. Checksums are verified where the server publishes them.

    Example: anachron wikidata download --date 2021-01-04 --out dumps --pageviews --dry-run
    """
    from anachron.wikidata.fetching.dumps import download as fetch
    from anachron.wikidata.fetching.web import FetchSettings
    from anachron.wikidata.topic.services import CONTACT

    contact = contact or environ.get(CONTACT)
    downloads = fetch(
        date, out, dump=dump, redirects=redirects, pageviews=pageviews, months=months, format=format, dry_run=dry_run,
        settings=FetchSettings(timeout=timeout, retries=retries, contact=contact, note=say), dumps_url=dumps_url,
        archive_url=archive_url, callbacks=on_screen(),
    )  # fmt: skip
    if json_:
        print_json(_summary(downloads, out))
        return
    for row in _rows(downloads):
        stdout().print(_line(row), soft_wrap=True, markup=False)
    total = f"{_size(downloads.bytes)} in {len(downloads.sources)} files"
    if dry_run:
        rest = f"{_size(downloads.bytes_to_fetch)} to fetch, {_size(downloads.free)} free in {downloads.place}"
        stdout().print(f"{total}; {rest}", soft_wrap=True, markup=False)
    else:
        say(f"{total} in {out}; {_size(sum(one.received for one in downloads.fetched))} fetched now")


def _summary(downloads: "Downloads", out: Path) -> dict[str, Any]:
    summary = {
        "date": downloads.date.isoformat(), "out": str(out), "files": _rows(downloads), "bytes": downloads.bytes,
        "to_fetch": downloads.bytes_to_fetch, "free": downloads.free, "dry_run": not downloads.fetched,
    }  # fmt: skip
    if downloads.fetched:
        summary["received"] = sum(one.received for one in downloads.fetched)
    return summary


def _rows(downloads: "Downloads") -> list[dict[str, Any]]:
    """What is known of each file, and where it was fetched, of that."""
    rows: list[dict[str, Any]] = []
    for place, (source, here) in enumerate(zip(downloads.sources, downloads.here, strict=True)):
        checksum = None if source.checksum is None else f"{source.algorithm}:{source.checksum}"
        rows.append({
            "kind": source.kind, "date": source.date, "name": source.name, "url": source.url, "size": source.size,
            "here": here, "checksum": checksum,
        })  # fmt: skip
        if downloads.fetched:
            one = downloads.fetched[place]
            rows[-1] |= {"path": str(one.path), "state": one.state, "size": one.size}
    return rows


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


def pageviews(
    *,
    snapshot: Annotated[Path, typer.Argument(help="Snapshot folder, as made by wikidata ingest.")],
    files: Annotated[
        list[Path], typer.Argument(help="Page-view files, one per month (pageviews-YYYYMM-user.bz2) or one per day.")
    ],
    wiki_project: Annotated[
        str | None, typer.Option(help="Project to count in these files. Default: that of the snapshot's titles.")
    ] = None,
    redirects: Annotated[
        Path | None,
        typer.Option(
            help="File with lines of from-title, tab, to-title: views of the first are counted for the second."
        ),
    ] = None,
    spread: SpreadOptions,
    json_: JsonFlag = False,
) -> None:
    """Add the popularity of its entities to a snapshot: the median of their monthly page views by people.

    The median is over the months from the first with any views to the last one given. Files that have been read are
    not read again.

    Example: anachron wikidata pageviews wikidata-2021 dumps/pageviews-2020*-user.bz2
    """
    from anachron.wikidata.views.popularity import compute_popularity

    result = compute_popularity(
        snapshot, files, project=wiki_project, redirects=redirects, workers=spread.workers, ray=spread.ray,
        callbacks=on_screen(),
    )  # fmt: skip
    if json_:
        for warning in result.warnings:
            warn(warning)
        print_json({"path": str(result.path), "counts": result.counts, "warnings": result.warnings})
    else:
        print_popularity(result, redirects)


def print_popularity(result: "Result", redirects: Path | None = None) -> None:
    """What was counted of page views, for people."""
    for warning in result.warnings:
        warn(warning)
    c = result.counts
    say(f"{c['lines']:,} lines in {c['files']} files: {c['lines_of_project']:,} of the project, {c['bad_lines']:,} bad")
    if redirects is not None:
        say(f"{c['redirects']:,} redirects, of which {c['redirects_used']:,} lead to titles of the snapshot")
    say(f"{c['titles']:,} entities with a title: {c['with_views']:,} with views, {c['without_views']:,} without")
    say(f"{c['views_matched']:,} of {c['views_of_project']:,} views belong to these; written to {result.path}")
