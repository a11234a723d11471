"""One server for the tests of topics, which show it the world that they need."""

import pytest

from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.topic.choose import Topic
from anachron.wikidata.topic.fetch import TopicSettings, fetch_topic
from wikidata.topic.worlds import TOPIC, world
from wikidata.wikibase import serving


class Fetching:
    """The server, and topics fetched from it into a folder with a cache of its own."""

    def __init__(self, server, folder):
        self.server, self.folder, self.waits = server, folder, []

    def settings(self, *, retries=6, **changes):
        web = FetchSettings(timeout=1, retries=retries, pause=0.01, contact="test@example.org", sleep=self.waits.append)
        return TopicSettings(site=self.server.site(), web=web, **{"cache": self.folder / "cache"} | changes)

    def __call__(self, name="out", topic=TOPIC, **changes):
        chosen = topic if isinstance(topic, Topic) else Topic(items=tuple(topic))
        return fetch_topic(chosen, self.folder / name, self.settings(**changes))

    def asked(self):
        return self.server.requests()

    def show(self, world):
        self.server.show(world)
        self.server.fail()


@pytest.fixture(scope="session")
def running():
    with serving(world()) as server:
        yield server


@pytest.fixture
def server(running):
    """The server with the world of `worlds`, without faults."""
    running.show(world())
    running.fail()
    return running


@pytest.fixture
def fetching(server, tmp_path):
    return Fetching(server, tmp_path)
