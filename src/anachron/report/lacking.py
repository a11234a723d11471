"""Which updates a model lacks, as files (``updates``)."""

import json
from pathlib import Path

import polars as pl

from anachron.data.updates.cases import CaseSet, select_records
from anachron.evaluate.old_and_new import compare_objects
from anachron.io.files import Json, write_bytes, write_manifest
from anachron.io.tables import write_table
from anachron.lm.model import LanguageModel
from anachron.report.terminal.old_and_new import states

COMMAND = "updates"


def lacking_updates(lm: LanguageModel, cases: CaseSet, out: Path | str | None = None) -> pl.DataFrame:
    """Find which updates a model lacks, by `anachron.evaluate.old_and_new.compare_objects`; optionally write a file.

    cases: of `anachron.load_cases`. out: .csv, .parquet or .jsonl, with a manifest beside it. The model is asked in its
    ``style``.
    """
    found = compare_objects(lm, cases.cases)
    if out is not None:
        write_table(out, found)
        _manifest(lm, cases, Path(out), {"updates": found.height, **states(found)})
    return found


def write_lacking(
    lm: LanguageModel, cases: CaseSet, found: pl.DataFrame, out: Path | str, *, split: str | None = None,
    revision: str | None = None,
) -> int:  # fmt: skip
    """Write the updates that a model lacks as JSON lines, each as its data set has it, and return how many they are.

    found: of `lacking_updates`. split, revision: those with which ``cases`` were loaded. The file can be edited and
    evaluated like any other; it has no line where the model lacks none.
    """
    records = select_records(cases.name, found.filter(state="lacks")["case_id"], split=split, revision=revision)
    write_bytes(out, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode())
    _manifest(lm, cases, Path(out), {"updates": len(records)})
    return len(records)


def _manifest(lm: LanguageModel, cases: CaseSet, out: Path, counts: Json) -> None:
    identity = lm.identity()
    inputs = {cases.name: cases.fingerprint(), "weights": identity.pop("weights"), "tokenizer": identity["tokenizer"]}
    write_manifest(out, command=COMMAND, parameters={**identity, "format": lm.style.kind}, inputs=inputs, counts=counts)
