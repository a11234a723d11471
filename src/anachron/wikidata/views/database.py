"""DuckDB with a bound of its memory, and a folder for what is only in between."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anachron.core.errors import BackendError, ConfigError, DataError, first_line, how_to_install, unwritable
from anachron.io.stores import Place, StorePath

if TYPE_CHECKING:
    import duckdb


def number_of(database: "duckdb.DuckDBPyConnection", query: str, parameters: list[Any] | None = None) -> int:
    """The number that a query answers with; 0 for no row."""
    row = database.execute(query, parameters).fetchone()
    return int(row[0]) if row else 0


def quoted(path: Path | str) -> str:
    """A path as SQL writes it; the names in COPY and in a union cannot be parameters."""
    return "'" + str(path).replace("'", "''") + "'"


def import_duckdb() -> Any:
    """The module; `ConfigError` where it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"page views need DuckDB: {how_to_install('wikidata')}") from error
    return duckdb


@contextmanager
def connection(work: Path, memory: str) -> Iterator["duckdb.DuckDBPyConnection"]:
    """DuckDB in memory, with a bound, and a folder for what goes beyond."""
    duckdb = import_duckdb()
    settings: dict[str, Any] = {
        "memory_limit": memory,
        "temp_directory": str(work / "spill"),
        "preserve_insertion_order": False,
    }
    try:
        with duckdb.connect(":memory:", config=settings) as database:
            database.execute("SET enable_progress_bar = false")  # it would go to stdout, among the results
            yield database
    except duckdb.Error as error:
        reason = first_line(error)
        raise BackendError(f"DuckDB failed: {reason}; free memory or the disk of {work.parent}, then repeat") from error


@contextmanager
def reading(what: Place, remedy: str) -> Iterator[None]:
    """Tell tables that are damaged, which are read in the block, from a lack of memory or of disk."""
    duckdb = import_duckdb()
    try:
        yield
    except (duckdb.OperationalError, duckdb.InternalError):
        raise
    except duckdb.Error as error:
        raise DataError(f"{what} cannot be read ({first_line(error)}); {remedy}, then repeat") from error


@contextmanager
def scratch_folder(folder: Place) -> Iterator[Path]:
    """A folder of this machine for what is only in between; what a killed process left there goes."""
    if isinstance(folder, StorePath):
        with tempfile.TemporaryDirectory(prefix="anachron-") as name:
            yield Path(name)
        return
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise BackendError(f"{unwritable(folder, error)}, and repeat the command") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
