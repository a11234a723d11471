"""Commands that fetch what a snapshot is built from, and add page views to it: ``download`` and ``pageviews``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.output import print_json, progress_bar, say, stdout, warn

if TYPE_CHECKING:
    from anachron.wikidata.download import Fetched
    from anachron.wikidata.sources import Servers, Source


def register(app: typer.Typer) -> None:
    app.command()(download)


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
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Fetch the Wikidata dump nearest to a day; of two that are equally near, the older.

    Cut or killed, the same command goes on where it stopped. Checksums are verified where the server publishes them.

    Example: anachron wikidata download --date 2021-01-04 --out dumps --pageviews --dry-run
    """
    import shutil

    from anachron.errors import ConfigError
    from anachron.wikidata.download import bytes_here
    from anachron.wikidata.sources import Servers, find_dump, find_pageviews, parse_day
    from anachron.wikidata.web import Manners, client

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


def _fetch_all(servers: "Servers", sources: "list[Source]", out: Path) -> "list[Fetched]":
    """Fetch with a bar for each file, and one for each check."""
    from contextlib import ExitStack

    from anachron.wikidata.download import fetch_all

    with ExitStack() as stack:
        bars: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in bars:
                stack.close()  # the bar before is complete
                bars[what] = stack.enter_context(progress_bar(what, unit="bytes"))
            bars[what](done, total)

        return fetch_all(servers.web, sources, out, servers.manners, progress)


def _say_distance(source: "Source", day: Any) -> None:
    from datetime import date as Day

    days = (Day.fromisoformat(source.date) - day).days
    if source.checksum is None:
        warn(f"the server publishes no checksum for {source.name}: only its size will be compared")
    where = "of that day" if days == 0 else f"{abs(days)} days {'after' if days > 0 else 'before'} {day.isoformat()}"
    say(f"nearest dump: {source.date}, {where}")


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
