"""CITATION.cff and codemeta.json say what pyproject.toml says."""

import json
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_codemeta_follows_the_project():
    meta = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
    assert meta["@type"] == "SoftwareSourceCode" and "codemeta" in meta["@context"]
    assert {name: meta[name] for name in ("name", "version", "description", "keywords")} == {
        name: PROJECT[name] for name in ("name", "version", "description", "keywords")
    }
    assert meta["license"] == f"https://spdx.org/licenses/{PROJECT['license']}"
    assert meta["softwareRequirements"] == PROJECT["dependencies"]
    assert meta["runtimePlatform"] == f"Python {PROJECT['requires-python']}"


def test_the_citation_follows_the_project_and_the_readme():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert set(cited) >= {"cff-version", "message", "title", "authors"}  # what version 1.2.0 requires
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert (str(cited["version"]), cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert cited["abstract"] == PROJECT["description"] and cited["keywords"] == PROJECT["keywords"]
    (author,) = cited["authors"]
    assert author["name"] in (ROOT / "LICENSE").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"title = {{{cited['title']}}}" in readme and f"version = {{{cited['version']}}}" in readme
