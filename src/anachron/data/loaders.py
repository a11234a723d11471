"""Data sets by name: bundled ones, files in the published columns, and the Hugging Face hub."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.contexts import sampling_named
from anachron.core.periods import Boundaries
from anachron.data.columns import from_published, to_published
from anachron.data.mini import mini_statements
from anachron.data.mini_changes import MINI_CHANGES, mini_changes
from anachron.data.mini_updates import mini_updates
from anachron.data.own_facts import own_facts
from anachron.errors import ConfigError, DataError, first_line, how_to_install
from anachron.facts.files import ENDINGS, refuse_unreadable
from anachron.facts.own import is_fact_file
from anachron.facts.rows import GivenFacts
from anachron.io import READERS, read_table, rows_fingerprint, write_manifest, write_table
from anachron.text.languages import language_of


@dataclass(frozen=True)
class Dataset:
    """A checked table of statements (columns of `anachron.data.columns.STATEMENT_SCHEMA`) and where it is from.

    Of a file of facts also, as `anachron.data.own_facts.OwnFacts` has them: ``as_of``, the date up to which they are
    known; ``about``, what the file says of each fact that is asked; ``left_out``, the facts that cannot be asked, and
    why (none of a sample, which looks at no more facts than it takes); ``notes``. ``limit``: how many facts were taken
    of more. ``language``: of the questions, where it is not English.
    """

    name: str
    table: pl.DataFrame
    boundaries: Boundaries
    as_of: str | None = None
    about: pl.DataFrame | None = None
    left_out: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()
    limit: int | None = None
    language: str | None = None
    sampling: str | None = None

    def fingerprint(self) -> str:
        """SHA-256 of the statements themselves: the same for the same content in any file format."""
        return rows_fingerprint(self.table.iter_rows())

    def choices(self) -> dict[str, str | int]:
        """What was chosen when it was loaded, where given, for identities and manifests."""
        chosen = {
            "as_of": self.as_of, "limit": self.limit, "language": self.language, "sampling": self.sampling,
        }  # fmt: skip
        return {name: value for name, value in chosen.items() if value is not None}

    @property
    def whole(self) -> str:
        """The name of the data set that it is a sample of; else its own."""
        return self.name if self.limit is None else self.name.removesuffix(f", {self.facts} facts")

    @property
    def facts(self) -> int:
        return self.table["fact_id"].n_unique()

    def sample(self, facts: int) -> "Dataset":
        """The ``facts`` facts with the smallest ids (hashes, so a fixed random sample), in their own order.

        Facts that cannot be asked are in no sample: some of them would be known, and others not looked at.
        """
        ids = sorted(self.table["fact_id"].unique())[:facts]
        table, about = (
            None if one is None else one.filter(pl.col("fact_id").is_in(ids)) for one in (self.table, self.about)
        )
        left_out = None if self.left_out is None else self.left_out.clear()
        named = f"{self.name}, {len(ids)} facts"
        return replace(self, name=named, table=table, about=about, left_out=left_out, limit=facts)  # type: ignore[arg-type]


# What comes with the package; `anachron.data.listings` counts it. The statements are of all facts, or at least of those
# of a sample.
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
    as_of: str | None = None,
    limit: int | None = None,
    language: str | Path | None = None,
    sampling: str | None = None,
) -> Dataset:
    """Load and check a data set.

    name: a bundled name (``mini``); a file of facts (``subject, relation, object, start, end``, see
        `anachron.facts.rows`: .csv, .tsv, .jsonl, .json, .parquet) or of statements in the published TimeStress columns
        (.parquet, .csv, .jsonl, .json); or a hub name such as ``Orange/TimeStress``, which needs the extra
        ``anachron[hub]``.
    boundaries: the convention its statuses follow, where the data set does not record it (default ``released``).
    split, revision: of a hub data set.
    as_of: of a file of facts, the date up to which they are known (default: today); facts without an end hold until
        then, and no later date is asked about.
    language: of a file of facts, that of its questions and dates: en, fr, de, es, or a file of openings, see
        `anachron.text.languages.language_of`.
    sampling: of a file of facts, how its dates are chosen: a name of `anachron.core.contexts.SAMPLINGS`.
    limit: take so many facts only, see `Dataset.sample`, of those that can be asked.

    Raises `DataError` naming the row, value, rule and fix of what is wrong.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: take 1 or more facts")
    data = _loaded(name, boundaries, split, revision, as_of, limit, language, sampling)
    return data if limit is None or data.limit == limit else data.sample(limit)


def dataset_of_facts(
    path: Path | str,
    *,
    boundaries: Boundaries | None = None,
    as_of: str | None = None,
    limit: int | None = None,
    language: str | Path | None = None,
    sampling: str | None = None,
    given: GivenFacts | None = None,
) -> Dataset:
    """The data set of a file of facts, as `load_dataset` has it. given: what was read of the file already."""
    tongue = language_of(language or "en")
    own = own_facts(
        path, as_of=as_of, boundaries=boundaries or "released", language=tongue, limit=limit, given=given,
        sampling=sampling_named(sampling or "timestress"),
    )  # fmt: skip
    spoken = None if tongue.code == "en" else tongue.recorded
    data = Dataset(
        str(path), own.table, boundaries or "released", str(own.as_of), own.about, own.left_out, own.notes,
        language=spoken, sampling=sampling,
    )  # fmt: skip
    return data if limit is None else data.sample(limit)


def _loaded(
    name: str,
    boundaries: Boundaries | None,
    split: str | None,
    revision: str | None,
    as_of: str | None,
    limit: int | None,
    language: str | Path | None,
    sampling: str | None,
) -> Dataset:
    """A data set, perhaps of more facts than the limit where all are read anyway."""
    path = Path(name)
    facts_alone = path.suffix.casefold() in ENDINGS and path.suffix not in READERS  # statements are not read from these
    if name not in BUNDLED and (facts_alone or is_fact_file(path)):
        return dataset_of_facts(
            name, boundaries=boundaries, as_of=as_of, limit=limit, language=language, sampling=sampling
        )
    if name not in BUNDLED and (path.is_file() or path.suffix in READERS):
        refuse_unreadable(path)
    if as_of is not None:
        raise ConfigError(
            f"as of {as_of}: {name} is not a file of facts, so its dates are chosen already; leave it out"
        )
    if sampling is not None:
        raise ConfigError(f"sampling {sampling}: {name} is not a file of facts, so its dates are chosen; leave it out")
    if language is not None:
        raise ConfigError(
            f"language {language}: {name} is not a file of facts, so its questions are written; leave it out"
        )
    if name in BUNDLED:
        if boundaries not in (None, "released"):
            raise ConfigError(f"{name} was made with boundaries 'released', not {boundaries!r}")
        return Dataset(name, BUNDLED[name](limit), "released")
    if name in UPDATES:
        raise ConfigError(f"{name} holds updates, not dated statements; statements are in {', '.join(BUNDLED)}")
    raw = (
        read_table(path)
        if path.is_file() or path.suffix in READERS
        else _with_zeros(read_hub(name, split, revision, tuple(BUNDLED)))
    )
    try:
        table, convention = from_published(raw, boundaries)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return Dataset(name, table, convention)


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
