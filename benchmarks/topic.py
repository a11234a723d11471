"""What fetching a topic takes, through the test server: processor time, memory, and requests against the least.

Run: python benchmarks/topic.py [--items 5000] [--as-of]. Makes a world of items (synthetic, deterministic, with the
sizes of real ones) whose statements name each other and half as many others, serves it in a process of its own, fetches
all items in another, and prints JSON: CPU seconds, peak memory, requests by kind, and the least that the documented
limits allow. --as-of: all were changed since the day that is asked for, so that each takes two requests of its own.
"""

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any

from watched import watched_memory

HERE = Path(__file__).parent
DAY, OLD, NEW = "2020-01-01", "2019-01-01T00:00:00Z", "2024-01-01T00:00:00Z"


def made(items: int) -> tuple[list[str], dict[str, Any]]:
    """Ids of the items, and all entities by their ids: those, others that they name, their classes and properties."""
    maker = _other("wikidata").Maker(0)
    own = [f"Q{1000 + n}" for n in range(items)]
    others = [f"Q{100_000 + n}" for n in range(items // 2)]
    pool, chosen = [int(id[1:]) for id in [*own, *others]], random.Random(1)
    maker.item_id = lambda: chosen.choice(pool)
    world = {id: maker.entity(id, "item of enwiki") for id in own}
    world |= {id: maker.entity(id, "item of other wikis") for id in others}
    for id in _properties(world.values()):
        world[id] = maker.entity(id, "item without pages") | {"type": "property", "datatype": "wikibase-item"}
    for entity in world.values():  # one of twenty classes, as most of a topic have
        for statement in entity["claims"]["P31"]:
            number = 200_000 + chosen.randrange(20)
            value = {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"}
            statement["mainsnak"]["datavalue"]["value"] = value
    for number in range(200_000, 200_020):
        world[f"Q{number}"] = maker.entity(f"Q{number}", "item without pages") | {"claims": {}}
    return own, world


def _properties(entities: Any) -> Iterator[str]:
    found = {"P31"}
    for entity in entities:
        for name, statements in entity["claims"].items():
            found.add(name)
            found.update(key for one in statements for key in one.get("qualifiers", ()))
    return iter(sorted(found))


def _other(name: str) -> ModuleType:
    """A benchmark beside this one: its name is one of the tests' too."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(items: int, as_of: bool) -> dict[str, Any]:
    sys.path[0] = str(HERE.parent / "tests")  # where wikidata is another than the file beside this one
    from wikidata.wikibase import Revision, World, serving

    own, entities = made(items)
    size = sum(len(json.dumps(one)) for one in entities.values())
    stamps = [OLD, NEW] if as_of else [OLD]
    history = {
        id: [Revision(2 * place + n + 1, stamp, one) for n, stamp in enumerate(stamps)]
        for place, (id, one) in enumerate(entities.items())
    }
    # In rounds: the items, and what they name with classes; no class has one above it.
    rest = len(entities) - items
    batches, each = ceil(items / 50) + ceil(rest / 50), len(entities)
    least = {"info": batches, "revisions": each, "entity_at_revision": each} if as_of else {"entities": batches}
    with serving(World(history)) as server, tempfile.TemporaryDirectory() as folder:
        del history, entities
        (Path(folder) / "items.txt").write_text("\n".join(own))
        words = [sys.executable, __file__, "--here", folder, "--url", server.url, *(["--as-of"] if as_of else [])]
        done = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        asked = len(server.requests())
    more = sum(done["requests"].values()) / sum(least.values())
    return {"items": items, "as_of": as_of, "megabytes": round(size / 1e6, 1)} | done | {
        "least_requests": least, "requests_at_the_server": asked, "above_the_least": round(more - 1, 4),
    }  # fmt: skip


def fetch(folder: Path, url: str, as_of: bool) -> dict[str, Any]:
    """Fetch, in this process, and measure it."""
    from anachron.wikidata.fetching.web import FetchSettings
    from anachron.wikidata.topic.choose import Topic, read_items
    from anachron.wikidata.topic.fetch import TopicSettings, fetch_topic
    from anachron.wikidata.topic.site import Site

    topic, web = Topic(items=read_items(folder / "items.txt")), FetchSettings(contact="benchmark@example.org")
    settings = TopicSettings(DAY if as_of else None, site=Site(url), web=web, cache=folder / "cache")
    begun = time.monotonic(), time.process_time()
    with watched_memory() as peak:
        fetched = fetch_topic(topic, folder / "out", settings)
    return {
        "cpu_seconds": round(time.process_time() - begun[1], 1), "seconds": round(time.monotonic() - begun[0], 1),
        "peak_megabytes": round(peak.together / 1e6), "entities": fetched.outcomes.height,
        "statements": fetched.manifest["counts"]["statements"], "requests": fetched.requests,
        "dump_megabytes": round((fetched.snapshot / "topic.json.gz").stat().st_size / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--as-of", action="store_true")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)  # of the process that is measured
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    measured = fetch(given.here, given.url, given.as_of) if given.here else measure(given.items, given.as_of)
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
