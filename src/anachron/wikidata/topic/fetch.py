"""A topic fetched: its entities and what they need as a small dump, and that dump ingested into a snapshot folder.

    OUT/topic.json.gz  the entities, in the dump's own form: all that was fetched, so nothing of it is asked for again
    OUT/topic.csv      what became of each id: id, part (topic, needed), state, revision, modified, merged into
    OUT/manifest.json  of the snapshot, with ``topic``: how it was chosen, where and when it was fetched, counts
    OUT/.fetch/        while unfinished: answers so far, unless they are kept elsewhere
"""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.io.files import Json, atomic, read_json, write_bytes
from anachron.io.jobs import Callbacks, begin, discard, locked, now, refuse_others
from anachron.wikidata.fetching.sources import parse_day
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.streams import text_of
from anachron.wikidata.topic.choose import Topic, ids_of_answer
from anachron.wikidata.topic.closure import Closure
from anachron.wikidata.topic.entities import Outcome, Resolver, in_order
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import AT_ONCE, Services, decoded
from anachron.wikidata.topic.site import Site
