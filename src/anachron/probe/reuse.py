"""Scores that a run takes over from an earlier one: of the very same texts, by the same model in the same way.

A run keeps a fingerprint of every text that it asks (`TEXTS_FILE`). Another one whose settings differ in nothing but
the data set copies the scores of the texts that both have, bit for bit, and scores the others. What it takes over it
first writes into a file of its own, so that it goes on without the earlier run, however often it is killed.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.io.files import Json, write_bytes
from anachron.io.jobs import Warn, differences, locked
from anachron.io.run_folder import OF_DATA, OF_READING, RUN_FILE, Kind, RunFolder, in_words
from anachron.io.tables import table_bytes
from anachron.lm.spans import Encoded
from anachron.probe.parts import PLAN_SCHEMA
from anachron.probe.runs import PARTS, PLAN_FILE, TEXTS_FILE, part_name

POOL = "reused-{}.parquet"
POOL_SCHEMA = {"text": pl.Binary(), "logp": pl.Float64()}  # the fingerprint of a text, and its score in nats
# What differs where a file was edited: by default the number of decoys follows from that of the facts, and the order of
# day and month from its dates.
EDITED = OF_READING | {"label", "dataset_fingerprint", "decoys"}
STAY = ("kind", "opened", "template_date")  # of the record of a run whose data set was edited


def text_digests(texts: Sequence[Encoded]) -> list[bytes]:
    """Half of the SHA-256 of each text: of its token ids, and of which of them are scored. 128 bits are enough."""
    return [
        hashlib.sha256(np.array([len(text.ids), *text.ids, *text.targets], "<i8").tobytes()).digest()[:16]
        for text in texts
    ]


@dataclass(frozen=True)
class Earlier:
    """What may be taken over. scores: each text once (`POOL_SCHEMA`). source: the folder. noise: in nats, None where it
    was not measured. template_date: what the chat template called today, if it did."""

    scores: pl.DataFrame
    source: str
    noise: float | None
    template_date: str | None


def read_earlier(folder: Path, identity: Json, warn: Warn) -> Earlier | None:
    """The scores of a run, finished or not; None, and a warning that says why, where none of them may be taken over.

    identity: of the run that would take them over. Raises `ConfigError` for a run that asked for answers, and
    `DataError` where there is no run, or a damaged one.
    """
    if not (folder / RUN_FILE).is_file():
        raise DataError(f"--reuse {folder}: no run here (no {RUN_FILE}); give the --out of an earlier probe or check")
    run = RunFolder.read(folder)
    if run.kind is not Kind.SCORES:
        raise ConfigError(
            f"--reuse {folder} holds no scores; answers are reused by giving both runs the same --answers FOLDER"
        )
    stored, wanted = (
        {name: value for name, value in one.items() if name not in OF_DATA}
        for one in (run.record["settings"], json.loads(json.dumps(identity)))
    )
    if lines := differences(stored, wanted):
        warn(f"nothing is reused of {folder}, which was made with other settings: {in_words(lines)}")
        return None
    if not _tells_texts(run):
        warn(f"nothing is reused of {folder}: a run of an earlier version, which does not say which texts it scored")
        return None
    return _earlier(run)


def renew(folder: Path, identity: Json) -> None:
    """Begin a folder's run anew where its data set, of the same name, was edited since; all its scores are kept.

    Nothing happens where there is no run, or where other settings differ too. The scores are on disk before the record
    changes, which it does in one piece: a killed process leaves either the earlier run or the new one, with them.
    Raises as `anachron.io.run_folder.RunFolder.read`, and `ConfigError` while the folder is in use.
    """
    if not (folder / RUN_FILE).is_file():
        return
    with locked(folder / ".lock", folder):
        run = RunFolder.read(folder)
        stored, wanted = run.record["settings"], json.loads(json.dumps(identity))
        apart = {name for name in {*stored, *wanted} if stored.get(name) != wanted.get(name)}
        if apart <= {"label", "decoys"} or not apart <= EDITED or not _tells_texts(run):
            return
        earlier = _earlier(run)
        name, content = _pool(earlier.scores)
        write_bytes(folder / name, content)  # its name is that of its content: no file of the earlier run is replaced
        new = RunFolder.new(folder, identity | {"label": stored["label"]})
        new.record |= {key: run.record[key] for key in STAY if key in run.record}
        new.record["files"] = {name: hashlib.sha256(content).hexdigest()}
        new.record["reused"] = {"from": [str(folder)], "file": name, "noise": earlier.noise}
        new.save()
        for old in {*run.record["files"], *(path.name for path in folder.glob(POOL.format("*")))} - {name}:
            (folder / old).unlink(missing_ok=True)


def take_over(run: RunFolder, earlier: Earlier, wanted: Sequence[bytes]) -> None:
    """Keep in a run those scores of an earlier one that are of texts it asks about, beside those that it has."""
    own = run.record.get("reused", {})
    tables = [run.read_table(own["file"])] if own else []
    asked = pl.DataFrame({"text": wanted}, schema={"text": pl.Binary})
    tables.append(earlier.scores.join(asked, on="text", how="semi"))
    name, content = _pool(_each_once(tables))
    noise = [one for one in (own.get("noise", 0.0), earlier.noise) if one is not None]
    run.record["reused"] = {
        "from": list(dict.fromkeys([*own.get("from", []), earlier.source])),
        "file": name,
        "noise": max(noise) if len(noise) == 2 else None,
    }
    run.write(name, content)
    run.forget({own["file"]} - {name} if own else ())


def reusable(run: RunFolder, warn: Warn) -> dict[bytes, float]:
    """The scores that a run has taken over, by the fingerprints of their texts. warn: told where they are damaged."""
    name = run.record.get("reused", {}).get("file")
    if name is None or not run.has(name, warn):
        return {}
    table = run.read_table(name)
    return dict(zip(table["text"].to_list(), table["logp"].to_list(), strict=True))


def _earlier(run: RunFolder) -> Earlier:
    return Earlier(
        _scores_by_text(run), str(run.path), run.record.get("noise", {}).get("largest"), run.record.get("template_date")
    )


def _tells_texts(run: RunFolder) -> bool:
    """Whether a run says which texts its scores are of, or has none."""
    files = run.record["files"]
    return TEXTS_FILE in files or not any(name.startswith(f"{PARTS}/") for name in files)


def _scores_by_text(run: RunFolder) -> pl.DataFrame:
    """All scores of a run (`POOL_SCHEMA`): of its finished parts, and what it took over itself."""
    begun = {TEXTS_FILE, PLAN_FILE} <= {*run.record["files"]}
    asked = run.read_table(TEXTS_FILE)["text"].to_list() if begun else []
    number = {text: i for i, text in enumerate(dict.fromkeys(asked))}  # texts are numbered as they first occur
    text_of_row = np.array([number[text] for text in asked])
    tables = []
    plan = run.read_table(PLAN_FILE) if begun else pl.DataFrame(schema=PLAN_SCHEMA)
    for (part,), group in plan.group_by("part", maintain_order=True):
        if run.has(part_name(part)):
            rows = np.flatnonzero(np.isin(text_of_row, group["text"].to_numpy()))
            logp = run.read_table(part_name(part))["logp"]
            if len(rows) != len(logp):
                raise DataError(f"{run.path / part_name(part)} has {len(logp)} rows where {len(rows)} were asked")
            tables.append(pl.DataFrame({"text": [asked[row] for row in rows], "logp": logp}, schema=POOL_SCHEMA))
    pool = run.record.get("reused", {}).get("file")
    if pool is not None and run.has(pool):
        tables.append(run.read_table(pool))
    return _each_once(tables)


def _each_once(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=POOL_SCHEMA), *tables]).unique("text", keep="first", maintain_order=True)


def _pool(scores: pl.DataFrame) -> tuple[str, bytes]:
    """The name and the content of the file of these scores."""
    content = table_bytes(scores.sort("text"), ".parquet")
    return POOL.format(hashlib.sha256(content).hexdigest()[:16]), content
