"""Data sets by name: bundled ones, files in the published columns, and the Hugging Face hub."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError, first_line, how_to_install
from anachron.core.periods import Boundaries
from anachron.data.bundled.mini import MINI_CHANGES, mini_changes, mini_statements
from anachron.data.bundled.mini_updates import mini_updates
from anachron.data.columns import from_published, to_published
from anachron.data.dataset import Dataset
from anachron.data.own.files import ENDINGS, is_fact_file, refuse_unreadable
from anachron.data.own.reading import Reading
from anachron.data.own.statements import dataset_of_facts
from anachron.io.files import rows_fingerprint, write_manifest
from anachron.io.tables import READERS, read_table, write_table

# What comes with the package; `anachron.data.bundled.listings` counts it. The statements are of all facts, or at least
# of those of a sample.
BUNDLED: dict[str, Callable[[int | None], pl.DataFrame]] = {"mini": mini_statements}
UPDATES = {"mini-updates": mini_updates}
CHANGES = {MINI_CHANGES: mini_changes}
_DATA_ENDINGS = (*READERS, ".arrow")  # what `datasets` reads besides


def load_dataset(
    name: str,
    *,
    boundaries: Boundaries | None = None,
    split: str | None = None,
    revision: str | None = None,
    as_of: str | Date | None = None,
    limit: int | None = None,
    language: str | Path | None = None,
    sampling: str | None = None,
    reading: Reading | None = None,
) -> Dataset:
    """Load and check a data set.

    name: a bundled name (``mini``); a file of facts (``subject, relation, object, start, end``, see
        `anachron.data.own.rows`: .csv, .tsv, .jsonl, .json, .parquet, .xlsx, .xlsm, .xls, .ods) or of statements in the
        published TimeStress columns (.parquet, .csv, .jsonl, .json); or a hub name such as
        ``Orange/TimeStress``, which needs the extra ``anachron[hub]``.
    boundaries: the convention its statuses follow, where the data set does not record it (default ``released``).
    split, revision: of a hub data set.
    as_of: of a file of facts, the date up to which they are known (at most today, the default); facts without an end
        hold until then, and no later date is asked about.
    language: of a file of facts, that of its questions and dates: a code such as fr, or a file of openings, see
        `anachron.text.languages.language_of`.
    sampling: of a file of facts, how its dates are chosen: a name of `anachron.core.contexts.SAMPLINGS`.
    reading: of a file of facts, which of its columns mean what, how its dates are written, and which sheet is meant.
    limit: take so many facts only, see `Dataset.sample`, of those that can be asked.

    Raises `DataError` naming the row, value, rule and fix of what is wrong.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: take 1 or more facts")
    path, reading = Path(name), reading or Reading()
    facts_alone = path.suffix.casefold() in ENDINGS and path.suffix not in READERS  # statements are not read from these
    if name not in BUNDLED and (facts_alone or is_fact_file(path, reading)):
        return dataset_of_facts(
            name, boundaries=boundaries, as_of=as_of, limit=limit, language=language, sampling=sampling,
            reading=reading,
        )  # fmt: skip
    if name not in BUNDLED and (path.is_file() or path.suffix in READERS):
        refuse_unreadable(path)
    reading.refuse(name)
    for option, given, done in (
        ("as of", as_of, "dates are chosen already"),
        ("sampling", sampling, "dates are chosen"),
        ("language", language, "questions are written"),
    ):
        if given is not None:
            raise ConfigError(f"{option} {given}: {name} is not a file of facts, so its {done}; leave it out")
    if name in UPDATES:
        raise ConfigError(f"{name} holds updates, not dated statements; statements are in {', '.join(BUNDLED)}")
    if name in BUNDLED:
        if boundaries not in (None, "released"):
            raise ConfigError(f"{name} was made with boundaries 'released', not {boundaries!r}")
        data = Dataset(name, BUNDLED[name](limit), "released")
    else:
        raw = (
            read_table(path)
            if path.is_file() or path.suffix in READERS
            else _with_zeros(read_hub(name, split, revision, tuple(BUNDLED)))
        )
        try:
            data = Dataset(name, *from_published(raw, boundaries))
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
    return data if limit is None else data.sample(limit)


def _with_zeros(raw: pl.DataFrame) -> pl.DataFrame:
    """A data set of the hub with its years in four digits.

    What was published may say ``90`` for the year 90; in a file of one's own that may be 1990 and is refused.
    """
    texts = [n for n in ("StartDate", "EndDate", "Time") if raw.schema.get(n) == pl.String]
    return raw.with_columns(pl.col(texts).str.replace(r"^(\d)(-|$)", "000$1$2").str.replace(r"^(\d\d)(-|$)", "00$1$2"))


def read_hub(name: str, split: str | None, revision: str | None, bundled: tuple[str, ...]) -> pl.DataFrame:
    """A data set of the Hugging Face hub, or a folder of data files, as one table.

    bundled: the names that would have meant one of ours, for the errors: `ConfigError` without the extra or a needed
    split, `DataError` where the hub has no such data set.
    """
    folder = Path(name)
    if folder.is_dir() and not any(p.suffix in _DATA_ENDINGS for depth in ("*", "*/*") for p in folder.glob(depth)):
        raise ConfigError(
            f"{name} is a folder without data files ({', '.join(_DATA_ENDINGS)}); name a file or data set"
        )
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            f"{name!r} is neither a file nor a bundled data set ({', '.join(bundled)}); to read it from the hub: "
            f"{how_to_install('hub')}"
        ) from error
    try:
        loaded: Any = datasets.load_dataset(name, split=split, revision=revision)
    except Exception as error:  # datasets raises many classes here; all mean the same to a user
        reason = first_line(error)
        raise DataError(
            f"{name!r} is neither a file nor a bundled data set ({', '.join(bundled)}), and the hub says: {reason}"
        ) from error
    if isinstance(loaded, dict):
        if len(loaded) != 1:
            raise ConfigError(f"{name} has the splits {', '.join(loaded)}; choose one with --split")
        loaded = next(iter(loaded.values()))
    return pl.DataFrame(pl.from_arrow(loaded.data.table))


def write_dataset(name: str, out: Path | str) -> dict[str, int]:
    """Write a data set into a file with a manifest, and return what the manifest counts.

    name: as of `load_dataset`, in the published TimeStress columns (.parquet, .csv or .jsonl), ``{"statements",
    "facts"}``; or ``mini-updates``, in those of WikiFactDiff (.parquet or .jsonl), ``{"updates"}``;
        or ``mini-changes``, in its own (any ending), ``{"changes and controls", "subjects"}``.
    Raises `ConfigError` for an ending that cannot hold it, `DataError` as `load_dataset`.
    """
    parameters: dict[str, Any] = {"name": name}
    if name in UPDATES:
        if Path(out).suffix == ".csv":
            raise ConfigError(f"{out}: the columns of updates are nested; write .parquet or .jsonl")
        table = UPDATES[name]()
        fingerprint, counts = rows_fingerprint(table.iter_rows()), {"updates": table.height}
    elif name in CHANGES:
        table = CHANGES[name]()
        fingerprint = rows_fingerprint(table.iter_rows())
        counts = {"changes and controls": table.height, "subjects": table["subject"].n_unique()}
    elif is_fact_file(name):
        raise ConfigError(f"{name} is a file of facts; build statements writes its statements, and what they leave out")
    else:
        dataset = load_dataset(name)
        table = to_published(dataset.table, dataset.boundaries)
        parameters["boundaries"] = dataset.boundaries
        fingerprint, counts = dataset.fingerprint(), {"statements": table.height, "facts": dataset.facts}
    write_table(out, table)
    write_manifest(out, command="datasets", parameters=parameters, inputs={name: fingerprint}, counts=counts)
    return counts
