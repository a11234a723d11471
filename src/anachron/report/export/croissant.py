"""Croissant metadata of an exported data set (MLCommons, Croissant 1.0): its file, and each column with its type.

What only whoever publishes it knows (``url``, ``creator``, ``datePublished``) is left out, never made up.
"""

from collections.abc import Mapping

import polars as pl

from anachron.io.files import Json

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
FILE, RECORDS = "statements-file", "statements"
CONTEXT: Json = {  # as the specification prescribes it, word for word
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs", "column": "cr:column",
    "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/", "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract", "field": "cr:field",
    "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject", "fileSet": "cr:fileSet", "format": "cr:format",
    "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key",
    "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path", "recordSet": "cr:recordSet",
    "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
    "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
    "transform": "cr:transform",
}  # fmt: skip


def croissant(
    name: str, table: pl.DataFrame, meanings: Mapping[str, str], *, about: str, file: str, sha256: str,
    licence: str | None, language: str,
) -> Json:  # fmt: skip
    """Metadata of one Parquet file. meanings: of its columns. about: a description. file: its path in the folder."""
    fields = [
        {
            "@type": "cr:Field", "@id": f"{RECORDS}/{column}", "name": column, "dataType": _type(dtype),
            "description": meanings.get(column, column),
            "source": {"fileObject": {"@id": FILE}, "extract": {"column": column}},
        }
        for column, dtype in table.schema.items()
    ]  # fmt: skip
    content: Json = {
        "@context": CONTEXT, "@type": "sc:Dataset", "conformsTo": CONFORMS_TO, "name": name,
        "description": " ".join(about.split()), "inLanguage": language,
    }  # fmt: skip
    if licence is not None:
        content["license"] = licence
    content["distribution"] = [
        {
            "@type": "cr:FileObject", "@id": FILE, "name": file, "contentUrl": file,
            "encodingFormat": "application/x-parquet", "sha256": sha256,
        }
    ]  # fmt: skip
    content["recordSet"] = [
        {
            "@type": "cr:RecordSet", "@id": RECORDS, "name": RECORDS, "field": fields,
            "description": f"One statement a row, {table.height:,} in all.",
        }
    ]  # fmt: skip
    return content


def _type(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "sc:Integer"
    if dtype.is_float():
        return "sc:Float"
    return "sc:Boolean" if dtype == pl.Boolean else "sc:Text"
