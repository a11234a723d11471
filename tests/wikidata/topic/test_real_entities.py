"""Real entities, with the histories that the edit stream of 2019 has of some: fetched, they are what a dump gives.

The files are not part of the project; without them these tests are left out.
"""

import bz2
import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.topic.choose import Topic
from anachron.wikidata.topic.fetch import TopicSettings, fetch_topic
from wikidata.wikibase import Revision, World, serving

SHARED = Path(__file__).parents[4] / "shared" / "data" / "wikidata"
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real entities are not in {SHARED}"),
]
DAY = "2019-04-02"  # of the stream: a bit more than a minute, so that its later states are moved to the day after


def lines_of(name):
    text = bz2.decompress((SHARED / name).read_bytes()).decode()
    return [line.strip() for line in text.split("\n") if line.strip()]


@pytest.fixture(scope="module")
def histories():
    """Entities by id, from the oldest revision on; those of dumps, which say none, have one of long ago."""
    found, number = {}, 0
    for line in lines_of("opentapioca_short_stream.json.bz2"):
        one = json.loads(line)
        found.setdefault(one["id"], {})[one["lastrevid"]] = one
    made = {}
    for id, states in found.items():
        revisions = sorted(states)
        made[id] = [
            Revision(revision, f"2019-04-{2 + place:02}T21:09:00Z", states[revision])
            for place, revision in enumerate(revisions)
        ]
    for name in ("qrank_twenty_entities.json.bz2", "qsdump_entities.bz2"):
        for line in lines_of(name)[1:-1]:
            number += 1
            one = json.loads(line.rstrip(","))
            made[one["id"]] = [Revision(number, "2019-01-01T00:00:00Z", one)]
    for path in sorted((SHARED / "properties").glob("*.json")):
        number += 1
        one = json.loads(path.read_text("utf-8"))
        one = next(iter(one["entities"].values())) if "entities" in one else one
        made[one["id"]] = [Revision(number, "2019-01-01T00:00:00Z", one)]
    return made


@pytest.mark.parametrize("day", [None, DAY])
def test_a_snapshot_of_real_entities_is_that_of_a_dump_of_them(histories, tmp_path, day):
    ids = tuple(id for id in histories if id.startswith("Q"))
    with serving(World(histories)) as server:
        chosen = TopicSettings(
            as_of=day, site=server.site(), web=FetchSettings(contact="someone@example.org"), cache=tmp_path / "cache"
        )
        fetched = fetch_topic(Topic(items=ids), tmp_path / "out", chosen)
        counts = len(server.requests())
    assert counts == sum(fetched.requests.values())
    states = dict(fetched.outcomes.select("id", "state").iter_rows())
    assert {states[id] for id in ids} == {"found"}
    assert {id for id, state in states.items() if state == "found"} == set(histories) & set(states)
    dump, listed = tmp_path / "dump.json.gz", sorted(ids, key=lambda id: int(id[1:]))
    order = [*listed, *sorted((id for id in histories if id[0] == "P" and id in states), key=lambda id: int(id[1:]))]
    lines = []
    for id in order:
        revision = histories[id][-1 if day is None else 0]
        head = {"lastrevid": revision.number, "modified": revision.timestamp}
        lines.append(json.dumps(revision.content | head))
    dump.write_bytes(gzip.compress(("[\n" + ",\n".join(lines) + "\n]\n").encode()))
    snapshot = tmp_path / "snapshot"
    settings = IngestSettings(day or "2026-01-01", "all", entities=frozenset(ids), references=True)
    manifest = ingest(dump, snapshot, settings)
    for path in sorted(snapshot.rglob("*.parquet")):
        same = fetched.snapshot / path.relative_to(snapshot)
        assert pl.read_parquet(same).equals(pl.read_parquet(path)), path.name
    assert manifest["counts"]["statements"] == fetched.manifest["counts"]["statements"] > 8_000
