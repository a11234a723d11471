"""Scores of free pairs: ``pairs.jsonl`` in, ``row, logp, n_tokens`` out."""

from pathlib import Path
from typing import Any

import polars as pl

from anachron.errors import DataError
from anachron.io import Json, file_fingerprint, read_jsonl, write_manifest, write_table
from anachron.lm.formats import Format, check_pair
from anachron.lm.scorer import Scorer, score_texts

Pair = tuple[str, str, str | None]


def read_pairs(path: Path | str) -> list[Pair]:
    """(prompt, answer, separator or ``None``) of each line. Raises `DataError` naming the row that is wrong."""
    pairs: list[Pair] = []
    for row, record in enumerate(read_jsonl(path), 1):
        unknown = sorted(set(record) - {"prompt", "answer", "separator"})
        if unknown:
            raise DataError(f"{path}, row {row}: unknown field {unknown[0]!r}; use prompt, answer and separator")
        prompt, answer, separator = (_text(record, name, path, row) for name in ("prompt", "answer", "separator"))
        try:
            check_pair(prompt or "", answer or "")
        except DataError as error:
            raise DataError(f"{path}, row {row}: {error}") from None
        pairs.append((prompt or "", answer or "", separator))
    if not pairs:
        raise DataError(f"{path}: no pairs in it; one JSON object with prompt and answer a line")
    return pairs


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
    """Score pairs and write ``row, logp, n_tokens`` with a manifest; one row a pair, in input order.

    pairs: of `read_pairs`, from the file ``source``. out: .parquet, .csv or .jsonl. style: how they are put to the
    model, by default as raw text. batch_tokens, prefix_tree, native_softmax: see `anachron.lm.scorer.score_texts`.

    Raises `DataError` for a pair that cannot be scored, and as the model does.
    """
    style = style or Format()
    encoded = lm.encode(pairs, style)
    logp = score_texts(lm, encoded, batch_tokens=batch_tokens, prefix_tree=prefix_tree, native_softmax=native_softmax)
    table = pl.DataFrame(
        {"row": range(len(pairs)), "logp": logp, "n_tokens": [len(item.targets) for item in encoded]},
        schema={"row": pl.Int64, "logp": pl.Float64, "n_tokens": pl.Int32},
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
