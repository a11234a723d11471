"""What a user may choose for a snapshot: its date, subjects, language, size of a sample and number of files."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.wikidata.reading.dump import Dump
from anachron.wikidata.reading.parse import Parser
from anachron.wikidata.reading.snapshot import MOST_BUCKETS
from anachron.wikidata.reading.streams import MIB, Compression

# Up to so many buckets each has a quarter of the bytes below, so that there are some for every worker; but a bucket
# takes some work (an eighth of a second of `build updates`) even if it is empty.
SMALL_BUCKETS, QUARTER = 32, 4
# Bytes of a dump for each bucket: all of Wikidata then comes to some hundred thousand statements in one.
BUCKET_BYTES: dict[Compression, int] = {"none": 768 * MIB, "gz": 64 * MIB, "bz2": 48 * MIB, "zst": 64 * MIB}


@dataclass(frozen=True)
class IngestSettings:
    """What goes into a snapshot.

    ``date`` of the dump. ``wiki``: items with a title there are subjects (``all``: every item; titles are then those of
    the language's Wikipedia). ``limit``: read only the first so many entities of the dump, broken ones included; the
    end of the dump is then not checked. ``entities``: only these items are subjects (labels and classes of all others
    are kept, because they occur as objects and classes). ``buckets``: number of files per table, by default depending
    on the size of the dump (`buckets_for`). ``most_bad``: maximum percentage of lines, or of their bytes, without a
    readable entity; above it the dump is refused. It does not affect the content of a snapshot. ``references``: keep
    those of the statements, by which facts can be cited; a snapshot grows by a tenth, and takes two fifths longer.
    Raises `ConfigError` or `DataError` for values out of range.
    """

    date: str
    wiki: str = "enwiki"
    language: str = "en"
    limit: int | None = None
    entities: frozenset[str] | None = field(default=None, repr=False)
    buckets: int | None = None
    most_bad: float = 0.1
    references: bool = False

    def __post_init__(self) -> None:
        try:
            Date.parse(self.date)
        except DataError as error:
            raise ConfigError(f"--date {error}") from None
        Parser(self.wiki, self.language)
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"--limit {self.limit}: give at least 1 entity")
        if self.buckets is not None and not 1 <= self.buckets <= MOST_BUCKETS:
            raise ConfigError(f"--buckets {self.buckets}: give 1 to {MOST_BUCKETS}")
        if not 0 <= self.most_bad <= 100:
            raise ConfigError(f"--most-bad {self.most_bad}: give 0 to 100 percent")

    def options(self) -> dict[str, Any]:
        listed = None
        if self.entities is not None:
            digest = hashlib.sha256("\n".join(sorted(self.entities)).encode()).hexdigest()
            listed = {"ids": len(self.entities), "sha256": digest}
        return {
            "wiki": self.wiki, "language": self.language, "limit": self.limit, "entities": listed,
            "buckets": self.buckets, **({"references": True} if self.references else {}),
        }  # fmt: skip


def buckets_for(dump: Dump) -> int:
    """A power of two, so that snapshots of dumps that differ in size can be split to the same buckets."""
    most = BUCKET_BYTES[dump.compression]
    large, small = (-(-dump.size // size) for size in (most, most // QUARTER))
    return 1 << (max(1, large, min(SMALL_BUCKETS, small)) - 1).bit_length()


def buckets_of(settings: IngestSettings) -> int:
    """The buckets of settings in which they are chosen."""
    assert settings.buckets is not None
    return settings.buckets
