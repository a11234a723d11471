"""``wikidata ingest``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.options import DUMP, DumpDate, JsonFlag, LabelLanguage, SnapshotArgument, SpreadOptions, Wiki
from anachron.cli.output import on_screen, print_json, progress_bar, say, warn
from anachron.cli.outputs import FILE, RUN
from anachron.io.stores import Place, place

MostBad = Annotated[
    float,
    typer.Option(
        min=0,
        max=100,
        help="Maximum percentage of lines, or of their bytes, without a readable entity; above it, the command stops.",
    ),
]


@contextmanager
def needing_extra() -> Iterator[None]:
    """Say how to install what reads dumps, where an import in the block lacks it."""
    try:
        yield
    except ModuleNotFoundError as error:
        from anachron.core.errors import ConfigError, how_to_install

        if (error.name or "").partition(".")[0] in ("isal", "msgspec", "pyarrow", "zstandard"):
            raise ConfigError(f"reading dumps needs {error.name}: {how_to_install('wikidata')}") from error
        raise


def ingest(
    *,
    dump: Annotated[
        list[Path],
        typer.Argument(
            help=f"{DUMP}; or several small files, or a folder of some: parts of a dump, or entities as "
            "Special:EntityData gives them."
        ),
    ],
    date: DumpDate,
    out: Annotated[Path, typer.Option(help="Folder for the snapshot, on this machine or on a store."), RUN],
    wiki: Wiki = "enwiki",
    language: LabelLanguage = "en",
    limit: Annotated[
        int | None,
        typer.Option(
            help="Read only the first N entities of the dump, in one process; the end of the dump is not checked."
        ),
    ] = None,
    entities: Annotated[
        Path | None, typer.Option(help="File of item ids, one per line or in a CSV: only these become subjects.")
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(
            help="Number of files per table; later steps work on one at a time. Default: depends on the dump's size."
        ),
    ] = None,
    references: Annotated[
        bool, typer.Option("--references", help="Keep the references of statements, to cite facts with their sources.")
    ] = False,
    most_bad: MostBad = 0.1,
    spread: SpreadOptions,
    json_: JsonFlag = False,
) -> None:
    """Turn a Wikidata dump into a snapshot folder. If interrupted, repeat the same command to resume.

    Example: anachron wikidata ingest latest-all.json.gz --date 2021-01-04 --out wikidata-2021 --workers 8
    """
    with needing_extra():
        from anachron.wikidata.reading.ingest import ingest as run
        from anachron.wikidata.reading.settings import IngestSettings
        from anachron.wikidata.reading.snapshot import open_snapshot
        from anachron.wikidata.selection.lookups import missing_objects
        from anachron.wikidata.topic.choose import read_items

    sources, target = [place(one) for one in dump], place(out)
    listed = None if entities is None else frozenset(read_items(entities))
    settings = IngestSettings(
        date, wiki, language, limit=limit, entities=listed, buckets=buckets, most_bad=most_bad, references=references
    )
    with on_screen().bar(f"reading {sources[0].name}", "bytes") as bar:
        manifest = run(sources, target, settings, workers=spread.workers, ray=spread.ray, callbacks=bar)
    print_json(manifest) if json_ else print_ingest(manifest, target, entities)
    if (missing := missing_objects(open_snapshot(target))) is not None:
        warn(missing)


def print_ingest(manifest: dict[str, Any], out: Place, entities: Path | None = None) -> None:
    """What the manifest of a snapshot counts, for people."""
    counts = manifest["counts"]
    dropped = "; ".join(f"{number:,} {reason}" for reason, number in counts["dropped"].items()) or "none"
    say(f"{counts['lines']:,} entities read: {counts['items']:,} items, {counts['properties']:,} properties")
    say(f"{counts['kept']:,} items are subjects, with {counts['statements']:,} statements; dropped: {dropped}")
    say(f"{counts['class_edges']:,} class edges; written to {out}")
    absent = manifest.get("absent")
    if absent and absent["ids"]:
        say(f"{absent['ids']:,} ids of {entities} are not in the dump, such as {', '.join(absent['first'])}")
    if left_out := counts.get("values_left_out"):
        say(f"{left_out:,} values could not be read and count as unknown; see {out / 'bad.jsonl'}")
    if missing := counts.get("missing"):
        say(f"{missing:,} ids without an entity were skipped: Wikibase calls them missing")
    if counts["bad"]:
        say(f"{counts['bad']:,} that could not be used are in {out / 'bad.jsonl'}")


def rebucket(
    *,
    snapshot: SnapshotArgument,
    buckets: Annotated[int, typer.Option(help="Number of files per table: a multiple of the current number.")],
    out: Annotated[Path, typer.Option(help="Folder for the snapshot with these buckets."), RUN],
    spread: SpreadOptions,
    json_: JsonFlag = False,
) -> None:
    """Split a snapshot into more buckets, as if ingest had written that many, without reading the dump again.

    Example: anachron wikidata rebucket wikidata-2021 --buckets 256 --out wikidata-2021-256
    """
    with needing_extra():
        from anachron.wikidata.reading.rebucket import rebucket as run

    with progress_bar("buckets") as progress:
        made = run(snapshot, buckets, out, spread.over(progress))
    print_json(made.manifest) if json_ else say(f"{made.folder}: {made.buckets:,} buckets")


def redirects(
    redirect: Annotated[Path, typer.Argument(help="Dump of the table redirect: wikidatawiki-DATE-redirect.sql.gz.")],
    page: Annotated[
        Path, typer.Argument(help="Dump of the table page, of the same date: wikidatawiki-DATE-page.sql.gz.")
    ],
    out: Annotated[Path, typer.Option(help="File for the list: .csv, to pass to build updates --redirects."), FILE],
) -> None:
    """List the items that were merged into others, from the two SQL dumps that wikidata download --redirects fetches.

    Example: anachron wikidata redirects dumps/*-redirect.sql.gz dumps/*-page.sql.gz --out redirects.csv
    """
    from anachron.wikidata.updates.redirects import write_merged

    say(f"{write_merged(redirect, page, out):,} merged items written to {out}")
