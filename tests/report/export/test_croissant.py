"""Croissant metadata: against the Parquet file that it describes, and what the specification requires."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.dataset import Dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.files import file_fingerprint
from anachron.report.export.croissant import CONTEXT
from anachron.report.export.hub import export_hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hub") / "set"
    fact = Fact("A|B", 'the "r"', "Ö, Ø", Period("2001", "2009-05"), "Q1", "P1", "Q2", 7.5)
    data = Dataset("own", make_statements([FactWithQuestion(fact, "who led A|B?", 3)]), "released")
    export_hub(data, out, licence="cc-by-4.0", language="fr")
    return out


def test_it_describes_the_file_that_is_there(folder):
    meta = json.loads((folder / "croissant.json").read_text("utf-8"))
    (file,), (records,) = meta["distribution"], meta["recordSet"]
    assert file["sha256"] == file_fingerprint(folder / file["contentUrl"])
    schema = pq.read_schema(folder / file["contentUrl"])
    types = {field["source"]["extract"]["column"]: field["dataType"] for field in records["field"]}
    assert list(types) == schema.names
    for column in schema:
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        assert (types[column.name] == "sc:Text") == text and types[column.name].startswith("sc:")
        assert (types[column.name] in ("sc:Float", "sc:Integer")) == number
    assert f"{pq.read_metadata(folder / file['contentUrl']).num_rows:,} in all" in records["description"]


def test_it_has_what_the_specification_requires_and_invents_nothing(folder):
    """Croissant 1.0, sections on dataset-level information, resources and record sets."""
    meta = json.loads((folder / "croissant.json").read_text("utf-8"))
    assert meta["@type"] == "sc:Dataset" and meta["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert meta["name"] == "Dated statements: own" and meta["license"] == "cc-by-4.0" and meta["inLanguage"] == "fr"
    assert meta["description"] and not {"url", "creator", "datePublished"} & set(meta)
    ids = [meta["distribution"][0]["@id"], meta["recordSet"][0]["@id"]]
    for field in meta["recordSet"][0]["field"]:
        assert set(field) == {"@type", "@id", "name", "dataType", "description", "source"}
        assert field["source"]["fileObject"]["@id"] == ids[0] and field["@id"].startswith(f"{ids[1]}/")
        ids.append(field["@id"])
    assert len(set(ids)) == len(ids)
    keywords = {key for part in (meta, *meta["distribution"], *meta["recordSet"]) for key in part if key[0] != "@"}
    schema_org = {
        "name",
        "description",
        "inLanguage",
        "license",
        "distribution",
        "contentUrl",
        "encodingFormat",
        "sha256",
    }
    assert keywords - schema_org <= set(CONTEXT)


def test_the_reader_of_mlcommons_reads_it(folder):
    reader = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    rows = list(reader.Dataset(jsonld=str(folder / "croissant.json")).records("statements"))
    assert len(rows) == pq.read_metadata(folder / "data" / "test-00000-of-00001.parquet").num_rows
