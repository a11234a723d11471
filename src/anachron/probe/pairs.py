"""Scores of free pairs: a file of prompts and answers in, the same with ``logp`` and ``n_tokens`` out."""

from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import DataError
from anachron.io.files import Json, file_fingerprint, parse_json, read_bytes, read_jsonl, write_manifest
from anachron.io.tables import read_table, write_table
from anachron.lm.formats import Format, as_triple, check_pair
from anachron.lm.scorer import Scorer, score_texts

Pair = tuple[str, str, str | None]


def read_pairs(path: Path | str) -> list[Pair]:
    """(prompt, answer, separator or ``None``) of each row of JSON lines, a JSON list, CSV or Parquet.

    Rows are objects with ``prompt``, ``answer`` and, if wanted, ``separator``; in a JSON list also lists of these.
    Raises `DataError` naming the row that is wrong.
    """
    pairs: list[Pair] = []
    for row, record in enumerate(_records(Path(path)), 1):
        unknown = sorted(set(record) - {"prompt", "answer", "separator"})
        if unknown:
            raise DataError(f"{path}, row {row}: unknown field {unknown[0]!r}; use prompt, answer and separator")
        prompt, answer, separator = (_text(record, name, path, row) for name in ("prompt", "answer", "separator"))
        try:
            pair = as_triple((prompt, answer, separator))
            check_pair(*pair)
        except DataError as error:
            raise DataError(f"{path}, row {row}: {error}") from None
        pairs.append(pair)
    if not pairs:
        raise DataError(f"{path}: no pairs in it; give prompt and answer of each")
    return pairs


def _records(path: Path) -> list[dict[str, Any]]:
    if path.suffix in (".csv", ".parquet"):
        return read_table(path).to_dicts()
    if path.suffix != ".json":
        return read_jsonl(path)
    records = parse_json(read_bytes(path), path)
    if not isinstance(records, list):
        raise DataError(f"{path}: give a list of objects or of [prompt, answer]")
    for row, record in enumerate(records, 1):
        if not isinstance(record, dict) and not (isinstance(record, list) and len(record) in (2, 3)):
            raise DataError(f"{path}, row {row}: {record!a} is neither an object nor [prompt, answer]")
    names = ("prompt", "answer", "separator")
    return [record if isinstance(record, dict) else dict(zip(names, record, strict=False)) for record in records]


def _text(record: dict[str, Any], name: str, path: Path | str, row: int) -> str | None:
    value = record.get(name)
    if value is None and name == "separator":
        return None
    if not isinstance(value, str):
        raise DataError(f"{path}, row {row}: {name} is {value!r}; it must be a text")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(
            f"{path}, row {row}: {name} {value!a} holds half a character (a lone surrogate); write it whole"
        )
    return value


def score_pairs(
    lm: Scorer,
    pairs: list[Pair],
    source: Path | str,
    out: Path | str,
    style: Format | None = None,
    *,
    batch_tokens: int | None = None,
    prefix_tree: bool = True,
    native_softmax: bool = False,
) -> pl.DataFrame:
    """Score pairs and write ``row, prompt, answer, logp, n_tokens`` with a manifest; one row a pair, in input order.

    pairs: of `read_pairs`, from the file ``source``. out: .parquet, .csv or .jsonl. style: how they are put to the
    model, by default as raw text. batch_tokens, prefix_tree, native_softmax: see `anachron.lm.scorer.score_texts`.

    Raises `DataError` for a pair that cannot be scored, and as the model does.
    """
    style = style or Format()
    encoded = lm.encode(pairs, style)
    logp = score_texts(lm, encoded, batch_tokens=batch_tokens, prefix_tree=prefix_tree, native_softmax=native_softmax)
    table = pl.DataFrame(
        {
            "row": range(len(pairs)),
            "prompt": [pair[0] for pair in pairs],
            "answer": [pair[1] for pair in pairs],
            "logp": logp,
            "n_tokens": [len(item.targets) for item in encoded],
        },
        schema={"row": pl.Int64, "prompt": pl.String, "answer": pl.String, "logp": pl.Float64, "n_tokens": pl.Int32},
    )
    write_table(out, table)
    identity = lm.identity()
    weights, tokenizer = identity.pop("weights"), identity.pop("tokenizer")
    parameters: Json = {**identity, "format": style.kind, "prefix_text": style.prefix}
    parameters |= {"all_occurrences": style.all_occurrences, "answer_in_user_turn": style.answer_in_user_turn}
    parameters |= {"native_softmax": native_softmax}
    inputs = {str(source): file_fingerprint(source), "weights": weights, "tokenizer": tokenizer}
    write_manifest(out, command="score", parameters=parameters, inputs=inputs, counts={"pairs": len(pairs)})
    return table
