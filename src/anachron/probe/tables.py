"""All tables that a score table allows, computed and written together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.io import file_fingerprint, versions, write_json, write_table
from anachron.probe.analyses.far_errors import far_errors
from anachron.probe.analyses.transfer import transfer
from anachron.probe.metrics import GLOBAL, RUN_KEYS, check_scores, fact_metrics, summarise, with_noise, without_matches
from anachron.probe.runs import score_files


@dataclass(frozen=True)
class Tables:
    """What ``metrics`` writes, and what a reader must know about it."""

    facts: pl.DataFrame
    summary: pl.DataFrame
    transfer: pl.DataFrame
    far_errors: pl.DataFrame
    notes: list[str]


def make_tables(scores: pl.DataFrame, *, noise: float | None, resamples: int, seed: int) -> Tables:
    """Every table of a score table. Raises `DataError` when it is none, or when no fact has matches."""
    scores = with_noise(check_scores(scores), noise)
    facts = fact_metrics(scores)
    return Tables(
        facts,
        summarise(facts, resamples=resamples, seed=seed),
        transfer(facts),
        far_errors(scores, facts, resamples=resamples, seed=seed),
        _notes(scores, facts),
    )


def write_tables(
    scores: pl.DataFrame, out: Path, *, noise: float | None, resamples: int, seed: int, inputs: Sequence[Path]
) -> Tables:
    """Compute every table and write them, with a manifest, into a folder; see `make_tables`."""
    tables = make_tables(scores, noise=noise, resamples=resamples, seed=seed)
    write_table(out / "facts.parquet", tables.facts)
    write_table(out / "summary.csv", tables.summary)
    write_table(out / "transfer.csv", tables.transfer)
    write_table(out / "far_errors.csv", tables.far_errors)
    manifest = {
        "command": "metrics",
        "inputs": {str(file): file_fingerprint(file) for path in inputs for file in score_files(path)},
        "parameters": {"noise": noise, "resamples": resamples, "seed": seed},
        "counts": {"scores": scores.height, "facts": scores["fact_id"].n_unique()},
        "notes": tables.notes,
        "versions": versions(),
    }
    write_json(out / "manifest.json", manifest)
    return tables


def _notes(scores: pl.DataFrame, facts: pl.DataFrame) -> list[str]:
    notes = []
    for model, form, prefix, noise in scores.select(*RUN_KEYS, "noise").unique(maintain_order=True).iter_rows():
        run = f"{model}, {form}, prefix {prefix}"
        if noise is None:
            notes.append(f"{run}: near-ties are not counted, for its noise is unknown (give --noise)")
        else:
            notes.append(f"{run}: near-ties are matches decided by at most {noise:.2g} nats, its noise")
    lacking = without_matches(scores).filter((pl.col("no_correct") > 0) | (pl.col("no_incorrect") > 0))
    for row in lacking.iter_rows(named=True):
        notes.append(
            f"{row['model']}, {row['format']}, prefix {row['prefix']}, {row['granularity']}: without W and R are "
            f"{row['no_correct']} facts that have no correct context and {row['no_incorrect']} without an incorrect one"
        )
    if facts.height and GLOBAL not in facts["granularity"]:
        notes.append("no fact has matches at year, month and day, so there is no global row")
    return notes
