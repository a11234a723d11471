"""Popularity of a snapshot's entities: the median of monthly views of their articles (spec of TimeStress, section 2.2).

Each page-view file is read once, into ``SNAPSHOT/pageviews/NAME.parquet`` (``title, views`` of every title of the
project) with a manifest that knows the file again, so that another month or a list of redirects costs no second
reading. Joins run in DuckDB, which goes to disk where memory ends.
"""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from anachron.core.errors import ConfigError, DataError, first_line
from anachron.io.cluster import check_shared, connected, cores, map_in_order, worker_count
from anachron.io.files import Json, atomic, file_fingerprint, read_json, versions, write_json, write_manifest
from anachron.io.jobs import Callbacks, locked
from anachron.io.stores import Place, refuse_stores
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.snapshot import POPULARITY, Snapshot, check_table, open_snapshot, readable
from anachron.wikidata.views.database import connection, number_of, quoted, reading, scratch_folder
from anachron.wikidata.views.pageviews import Lines, PageviewFile, months_of, normalise, parse_name, read_views

if TYPE_CHECKING:
    import duckdb

FORMAT = 2  # of the sums; raise it when titles come out differently
SUM_MEMORY, JOIN_MEMORY = "1GB", "2GB"  # of DuckDB; what needs more goes to disk
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Result:
    """``path`` of the table, ``counts`` as in its manifest, ``warnings`` about months and days that are missing."""

    path: Place
    counts: Json
    warnings: list[str]


def compute_popularity(
    snapshot: Place | str,
    files: Iterable[Place | str],
    *,
    project: str | None = None,
    redirects: Path | str | None = None,
    workers: int | None = None,
    ray: str | None = None,
    callbacks: Callbacks | None = None,
) -> Result:
    """Write ``popularity.parquet`` into a snapshot: ``id, title, popularity, months, views``, most popular first.

    ``popularity`` is the median over the months from the first with any view to the last that is given; a month
    without a line counts 0, a month without a file is not counted. ``months`` are the months in that median, ``views``
    the views of all. Entities whose article has no view have no row. ``project`` is, for example, ``en.wikipedia``; by
    default that of the wiki whose titles the snapshot has, which with ``--wiki all`` is the Wikipedia of its language.
    ``redirects`` is a file of lines
    ``from-title TAB to-title``: views of the first are added to the second, unless the first is itself the title of an
    entity. Redirects are followed one step. ``workers`` or the cluster at ``ray`` read a file each; one worker reads
    one file after another with all cores. ``callbacks`` are told how much of the files is read. The snapshot and the
    page-view files may lie on a store.

    Raises `ConfigError` for files that do not go together, `DataError` for a snapshot without titles and for files
    that are damaged.
    """
    refuse_stores(redirects)
    opened = open_snapshot(snapshot)
    folder = opened.folder
    months = months_of(parse_name(file) for file in files)
    project, warnings = choose_project(opened.manifest, project)
    lock = folder / "pageviews" / ".lock"
    with locked(lock, folder, elsewhere="give another snapshot"):
        given = [file for month in months.values() for file in month]
        sums = _sum_files(folder, given, project, workers, ray, callbacks or Callbacks())
        read = list(zip(given, sums, strict=True))
        counts: Json = {"files": len(read)}
        for name, key in (("lines", "read"), ("lines_of_project", "project"), ("bad_lines", "bad")):
            counts[name] = sum(manifest["counts"][key] for _, (_, manifest) in read)
        warnings += gaps(months)
        inputs = {file.path.name: manifest["sha256"] for file, (_, manifest) in read}
        target = folder / POPULARITY
        with scratch_folder(folder / "pageviews" / "join.work") as work, connection(work, JOIN_MEMORY) as database:
            counts |= _load_entities(database, opened, work)
            if redirects is not None:
                counts |= _load_redirects(database, Path(redirects), project, work)
                inputs[Path(redirects).name] = file_fingerprint(redirects)
            tables = [[str(_here(path, work)) for file, (path, _) in read if file.month == month] for month in months]
            with atomic(target) as temporary, reading(folder / "pageviews", "remove that folder, which is made anew"):
                counts |= _join(database, tables, redirects is not None, temporary)
        if not counts["with_views"]:
            warnings.append(
                f"none of the {counts['views_of_project']:,} views of {project} is of a title in the snapshot"
            )
        counts["without_views"] = counts["titles"] - counts["with_views"]
        parameters = {"project": project, "months": list(months), "redirects": redirects is not None}
        write_manifest(target, command="wikidata pageviews", parameters=parameters, inputs=inputs, counts=counts)
    return Result(target, counts, warnings)


def choose_project(manifest: Json, project: str | None) -> tuple[str, list[str]]:
    """The project whose titles a snapshot has, or the one that is asked for, with a warning if they differ.

    manifest: of the snapshot; its ``options`` are enough. Raises `ConfigError` where no project is asked for and none
    is known of the snapshot's wiki.
    """
    from anachron.wikidata.reading.parse import title_wiki

    options = manifest["options"]
    wiki = title_wiki(options["wiki"], options.get("language", "en"))
    of_snapshot = project_of(wiki)
    if project is None:
        if of_snapshot is None:
            raise ConfigError(f"no page views are known of {wiki}; name their project with --wiki-project")
        return of_snapshot, []
    if "." not in project or " " in project:
        raise ConfigError(f"--wiki-project {project}: write it as page-view files do, such as en.wikipedia")
    if project != of_snapshot:
        named = f"{wiki} ({of_snapshot})" if of_snapshot else wiki
        return project, [f"the snapshot has titles of {named}, the views are those of {project}"]
    return project, []


def project_of(wiki: str) -> str | None:
    """Name in page-view files of a wiki's id: ``enwiki`` is en.wikipedia, ``zh_yuewikiquote`` zh-yue.wikiquote."""
    for suffix in (
        "wikibooks",
        "wikinews",
        "wikiquote",
        "wikisource",
        "wikiversity",
        "wikivoyage",
        "wiktionary",
        "wiki",
    ):
        if wiki.endswith(suffix) and wiki != suffix:
            family = "wikipedia" if suffix == "wiki" else suffix
            return f"{wiki.removesuffix(suffix).replace('_', '-')}.{family}"
    return None


def gaps(months: dict[str, list[PageviewFile]]) -> list[str]:
    """What is missing between the first and the last month, and of the days of months that are given by day."""
    import calendar

    numbers = [int(month[:4]) * 12 + int(month[5:]) - 1 for month in months]
    absent = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))
    warnings = []
    if absent:
        names = ", ".join(f"{number // 12}-{number % 12 + 1:02d}" for number in absent)
        warnings.append(f"no file of {names}: medians are over the other months")
    for month, files in months.items():
        days = {file.day for file in files}
        last = calendar.monthrange(int(month[:4]), int(month[5:]))[1]
        missing = [] if None in days else [day for day in range(1, last + 1) if day not in days]
        if missing:
            warnings.append(
                f"{month}: {last - len(missing)} of its {last} days are given, without {', '.join(map(str, missing))}; "
                "its views are those of these days"
            )
    return warnings


def _sum_files(
    folder: Place, files: list[PageviewFile], project: str, workers: int | None, ray: str | None, callbacks: Callbacks
) -> list[tuple[Place, Json]]:
    if ray is None and worker_count(workers) == 1:
        with callbacks.bars("bytes") as progress:
            return [sum_file(folder, file, project, progress, cores()) for file in files]
    items, sums = [(folder, file, project) for file in files], []
    with callbacks.bar("page-view files") as bar, connected(ray, workers):
        check_shared([file.path for file in files], folder, ray)
        for result in map_in_order(_sum_item, items, workers, ray):
            sums.append(result)
            bar.progress(len(sums), len(files))
    return sums


def _sum_item(item: tuple[Place, PageviewFile, str]) -> tuple[Place, Json]:
    return sum_file(*item)


def sum_file(
    folder: Place,
    file: PageviewFile,
    project: str,
    progress: Progress = lambda what, done, total: None,
    threads: int = 1,
) -> tuple[Place, Json]:
    """Views by title of one file, read only if they are not there yet; the table's path and its manifest."""
    target = folder / "pageviews" / f"{file.path.name}.parquet"
    manifest_path = target.with_name(target.name + ".manifest.json")
    state = file.path.stat()
    known = read_json(manifest_path) if target.is_file() and manifest_path.is_file() else {}
    if known.get("format") == FORMAT and known.get("project") == project and known.get("size") == state.st_size:
        if known.get("modified") == state.st_mtime_ns:
            return target, known
        if known.get("sha256") == file_fingerprint(file.path):
            write_json(manifest_path, known | {"modified": state.st_mtime_ns})
            return target, known
    lines = Lines()
    manifest_path.unlink(missing_ok=True)
    with scratch_folder(target.with_name(file.path.name + ".work")) as work:
        views = read_views(
            file.path, project, lines, lambda done: progress(file.path.name, done, state.st_size), threads
        )
        for number, table in enumerate(views):
            table.write_parquet(work / f"{number:06d}.parquet")
        parts = sorted(str(path) for path in work.glob("*.parquet"))
        with atomic(target) as temporary, connection(work, SUM_MEMORY) as database:
            source = (
                "read_parquet($1)" if parts else "(SELECT NULL::VARCHAR title, NULL::BIGINT views WHERE $1 IS NULL)"
            )
            database.execute(
                f"COPY (SELECT title, sum(views)::BIGINT AS views FROM {source} GROUP BY title ORDER BY title) "
                f"TO {quoted(temporary)} (FORMAT parquet, COMPRESSION zstd)",
                [parts],
            )
    manifest = {
        "format": FORMAT, "source": file.path.name, "size": state.st_size, "modified": state.st_mtime_ns,
        "sha256": file_fingerprint(file.path), "project": project, "counts": asdict(lines), "versions": versions(),
    }  # fmt: skip
    write_json(manifest_path, manifest)
    return target, manifest


def _here(table: Place, work: Path) -> Path:
    """A table as a file of this machine, as which DuckDB reads it: of a store's a copy."""
    if isinstance(table, Path):
        return table
    copy = work / table.name
    with table.open("rb") as there, copy.open("wb") as here:
        shutil.copyfileobj(there, here, 1 << 20)
    return copy


def _titles(part: Place, work: Path) -> Path:
    """A file of this machine with the ids and titles of a part: of a store's only these are fetched."""
    if isinstance(part, Path):
        return part
    target = work / part.name
    with readable(part):
        scan_parquet(part).select("id", "title").collect().write_parquet(target)
    return target


def _load_entities(database: "duckdb.DuckDBPyConnection", snapshot: Snapshot, work: Path) -> Json:
    parts = [snapshot.part("entities", bucket) for bucket in range(snapshot.buckets)]
    for part in parts:
        check_table(part, ("id", "title"))
    files = [str(_titles(part, work)) for part in parts]
    with reading(snapshot.folder / "entities", "ingest the dump again into another folder"):
        database.execute(
            "CREATE TABLE entities AS SELECT id, title FROM read_parquet($1) WHERE title IS NOT NULL", [files]
        )
    titles = number_of(database, "SELECT count(*) FROM entities")
    if not titles:
        raise DataError(
            f"{snapshot.folder}: none of its entities has a title; ingest the dump with the --wiki whose views you have"
        )
    return {"entities": number_of(database, "SELECT count(*) FROM read_parquet($1)", [files]), "titles": titles}


def _load_redirects(database: "duckdb.DuckDBPyConnection", path: Path, project: str, work: Path) -> Json:
    """A table ``redirects (source, target)``, without sources that are titles of entities themselves."""
    if not path.is_file():
        raise ConfigError(f"--redirects {path}: no such file")
    try:
        rows = pl.read_csv(
            path, has_header=False, separator="\t", quote_char=None, infer_schema=False, truncate_ragged_lines=False
        )
    except pl.exceptions.NoDataError:
        rows = pl.DataFrame(schema={"from": pl.String, "to": pl.String})
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}: lines must be from-title, tab, to-title ({first_line(error)})") from error
    if rows.width != 2:
        raise DataError(f"{path}: lines must be from-title, tab, to-title; its first has {rows.width} columns")
    rows.columns = ["from", "to"]
    rows = rows.with_row_index("line", 1)
    broken = rows.filter(pl.col("from").is_null() | pl.col("to").is_null())
    if broken.height:
        raise DataError(f"{path}, line {broken['line'][0]}: lines must be from-title, tab, to-title; a column is empty")
    sides = [normalise(rows.select("line", title=column), project) for column in ("from", "to")]
    pairs = sides[0].join(sides[1], on="line", suffix="_to").select(source="title", target="title_to").unique()
    twice = pairs.filter(pl.col("source").is_duplicated()).sort("source", "target")
    if twice.height:
        first = twice.row(0)[0], *twice["target"][:2]
        raise DataError(f"{path}: {first[0]!r} leads to both {first[1]!r} and {first[2]!r}; keep one of them")
    pairs.write_parquet(work / "redirects.parquet")
    database.execute(
        "CREATE TABLE redirects AS SELECT source, target FROM read_parquet($1) WHERE source <> target "
        "AND target IN (SELECT title FROM entities) AND source NOT IN (SELECT title FROM entities)",
        [str(work / "redirects.parquet")],
    )
    return {"redirects": pairs.height, "redirects_used": number_of(database, "SELECT count(*) FROM redirects")}


def _join(database: "duckdb.DuckDBPyConnection", tables: list[list[str]], redirected: bool, target: Path) -> Json:
    """Write the popularity table, from sums by title of each month (oldest first)."""
    views = " UNION ALL ".join(
        f"SELECT title, views, {number} AS month FROM read_parquet([{', '.join(map(quoted, files))}])"
        for number, files in enumerate(tables)
    )
    named = f"({views})"
    if redirected:
        named = (
            f"(SELECT coalesce(target, title) AS title, views, month FROM {named} "
            "LEFT JOIN redirects ON title = source)"
        )
    months = ", ".join(f"coalesce(sum(views) FILTER (month = {number}), 0)::BIGINT" for number in range(len(tables)))
    database.execute(
        f"""
        COPY (
            WITH monthly AS (
                SELECT id, title, list_value({months}) AS counts, min(month) AS first, sum(views)::BIGINT AS views
                FROM entities JOIN {named} USING (title) WHERE views > 0 GROUP BY id, title
            )
            SELECT id, title, list_aggregate(counts[first + 1:], 'median')::DOUBLE AS popularity,
                (len(counts) - first)::INTEGER AS months, views
            FROM monthly ORDER BY popularity DESC, id
        ) TO {quoted(target)} (FORMAT parquet, COMPRESSION zstd)
        """
    )
    written = "FROM read_parquet($1)"
    return {
        "with_views": number_of(database, f"SELECT count(*) {written}", [str(target)]),
        "views_matched": number_of(database, f"SELECT coalesce(sum(views), 0)::BIGINT {written}", [str(target)]),
        "views_of_project": number_of(database, f"SELECT coalesce(sum(views), 0)::BIGINT FROM ({views})"),
    }
