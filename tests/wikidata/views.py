"""Snapshots that hold nothing but titles, and page-view files, for tests."""

import bz2
import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq

from anachron.wikidata.reading.snapshot import bucket_of, part_name, schemas


def write_snapshot(folder, entities, wiki="enwiki", buckets=3, language="en", statements=()):
    """A complete snapshot folder of nothing but these ``{id: title}``, and statements ``(subject, object)``."""
    for table in ("entities", "statements"):
        (folder / table).mkdir(parents=True)
        for bucket in range(buckets):
            mine = [(id, title) for id, title in entities.items() if bucket_of(id, buckets) == bucket]
            rows = [{"id": id, "title": title} for id, title in mine]
            if table == "statements":
                own = [pair for pair in statements if bucket_of(pair[0], buckets) == bucket]
                rows = [{"subject": one, "value_type": "entity", "value": other} for one, other in own]
            pq.write_table(
                schemas()[table].empty_table().from_pylist(rows, schemas()[table]), folder / table / part_name(bucket)
            )
    for table in ("properties", "classes"):
        pq.write_table(schemas()[table].empty_table(), folder / f"{table}.parquet")
    manifest = {"format": 1, "options": {"wiki": wiki, "language": language, "buckets": buckets}, "counts": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write(folder, name, text):
    folder.mkdir(exist_ok=True)
    text = text.encode() if isinstance(text, str) else text
    compress = {".bz2": bz2.compress, ".gz": gzip.compress}.get(Path(name).suffix, bytes)
    (folder / name).write_bytes(compress(text))
    return folder / name
