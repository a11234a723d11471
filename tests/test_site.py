"""The site of the documentation: builds without a warning, loads nothing from elsewhere, shows every public name."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import anachron
from anachron.analysis.catalogue import ANALYSES

ROOT = Path(__file__).parent.parent
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(name, reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


class Loads(HTMLParser):
    """Collects what a page makes a browser fetch, and its ids."""

    def __init__(self):
        super().__init__()
        self.addresses, self.ids = [], set()

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        self.ids.add(own.get("id"))
        if tag in LOADED and own.get("rel") not in ("canonical", "prev", "next") and own.get(LOADED[tag]):
            self.addresses.append(own[LOADED[tag]])


def read(page):
    found = Loads()
    found.feed(page.read_text("utf-8"))
    return found


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        addresses = read(page).addresses
        assert len(addresses) >= 3  # styles and the script
        for address in addresses:
            assert not re.match(r"(?:\w+:)?//", address), f"{page.name} loads {address}"
            if not address.startswith("data:") and page.name != "404.html":  # which has addresses from the root
                assert (page.parent / address.partition("#")[0].partition("?")[0]).exists(), f"{page.name}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:\w+:)?//", style.read_text("utf-8")), style.name


@pytest.mark.slow
def test_every_public_name_and_table_can_be_linked_to(site):
    assert {f"anachron.{name}" for name in anachron.__all__} <= read(site / "python.html").ids
    assert {analysis.name for analysis in ANALYSES} <= read(site / "tables.html").ids
