"""What one update is judged by: probabilities of objects after prompts, and text that the model writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anachron.core.scenarios import DECISIONS
from anachron.data.case_records import EditCase
from anachron.edit.base import Edit, edited
from anachron.edit.methods import why_unsupported
from anachron.edit.requests import EditRequest
from anachron.edit.together import encode_under, score_together
from anachron.errors import DataError
from anachron.evaluate.dated import Dating, dated_pairs, dated_rows
from anachron.evaluate.fluency import fluency
from anachron.evaluate.metrics import geometric_mean
from anachron.evaluate.results import DATED, DATED_NEIGHBOURS, REPLACEMENT
from anachron.evaluate.said import SPARE, names_of, said_rows
from anachron.evaluate.scenarios import object_pairs, object_rows
from anachron.io import read_table
from anachron.lm.generation import greedy_continuations, greedy_texts
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import Triple, score_texts
from anachron.lm.spans import Encoded
from anachron.lm.temporary import unchanged

DATE = {name: DATED[name] for name in ("granularity", "time", "side", "distance")}
PART_SCHEMA: dict[str, Any] = {
    "case_id": pl.String(),
    "status": pl.String(),
    "reason": pl.String(),
    "seconds": pl.Float64(),
    "targets": pl.List(
        pl.Struct({"kind": pl.String(), "prompt_number": pl.Int64(), "new": pl.Float64(), "old": pl.Float64()})
    ),
    "neighbours": pl.List(pl.Struct({"kind": pl.String(), "number": pl.Int64(), "p": pl.Float64()})),
    "objects": pl.List(
        pl.Struct(
            {
                "kind": pl.String(),
                "prompt_number": pl.Int64(),
                "role": pl.String(),
                "object": pl.String(),
                "p": pl.Float64(),
            }
        )
    ),
    "said": pl.List(
        pl.Struct(
            {
                "kind": pl.String(),
                "prompt_number": pl.Int64(),
                "text": pl.String(),
                "new": pl.Float64(),
                "old": pl.Float64(),
            }
        )
    ),
    "dated": pl.List(pl.Struct({**DATE, "new": pl.Float64(), "old": pl.Float64()})),
    "dated_neighbours": pl.List(pl.Struct({"kind": pl.String(), "number": pl.Int64(), **DATE, "p": pl.Float64()})),
    "fluency": pl.Float64(),
    "texts": pl.List(pl.String()),
}


@dataclass(frozen=True, slots=True)
class Judging:
    """fluency_tokens: length of prompt and text together, 0 for no text. batch_tokens: most tokens scored at a time; by
    default what suits the device. say: also let the model go on from each prompt, to see whether it says the object.
    dated: which dates to ask about, None for no dated questions."""

    fluency_tokens: int = 100
    batch_tokens: int | None = None
    say: bool = False
    dated: Dating | None = None

    @property
    def writes(self) -> bool:
        """Whether the model is to write text, for which an edit must be on."""
        return self.say or self.fluency_tokens > 0


@dataclass
class Verdict:
    """What came of one update under one model: a row of `PART_SCHEMA`."""

    case_id: str
    status: str = "done"
    reason: str | None = None
    seconds: float | None = None
    targets: list[dict[str, Any]] = field(default_factory=list)
    neighbours: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)
    dated: list[dict[str, Any]] = field(default_factory=list)
    dated_neighbours: list[dict[str, Any]] = field(default_factory=list)
    fluency: float | None = None
    texts: list[str] = field(default_factory=list)


def failed(case: EditCase, reason: str) -> Verdict:
    return Verdict(case.case_id, "failed", " ".join(reason.split()))


def requests_of(case: EditCase, method: str) -> list[EditRequest]:
    """What an update asks of a method: its new objects to be put in, or, of Archive, its obsolete ones to be taken out.

    Raises `DataError` where it cannot be asked for: there is no such object, one has no label, the prompt does not name
    the subject, or the method does not support the scenario.
    """
    if (unable := why_unsupported(method, case.scenario)) is not None:
        raise DataError(f"update {case.case_id}: {unable}")
    archived = case.scenario == "Archive"
    decision, aim = ("obsolete", "take out") if archived else ("new", "make true")
    labels = [label for label, own in case.objects if own == decision]
    if case.scenario == REPLACEMENT:
        labels = [case.new or ""]  # of every format, whether or not it lists objects
    if not labels or not all(labels):
        which = f"{decision} object" if not any(labels) else f"label for one of its {decision} objects"
        raise DataError(f"update {case.case_id} has no {which}, so there is nothing to {aim}")
    return [EditRequest.of(case.prompt, case.subject, label, remove=archived) for label in dict.fromkeys(labels)]


Pair = tuple[str, str]


def pairs_of(case: EditCase, judging: Judging) -> list[Pair]:
    """All (prompt, object) pairs that judging an update takes, each once."""
    objects = [o for o in (case.new, case.old) if o]
    pairs = [(prompt, o) for prompt in (case.text, *case.generalization) for o in objects]
    pairs += [(n.prompt, o) for n in (*case.nearest, *case.random) for o in n.objects]
    pairs += object_pairs(case)
    if judging.dated is not None:
        pairs += dated_pairs(case, judging.dated)
    return list(dict.fromkeys(pairs))


def probabilities(lm: LanguageModel, pairs: Sequence[Pair], judging: Judging) -> dict[Pair, float]:
    """Geometric mean of the probabilities of an object's tokens after a prompt, for each pair."""
    encoded = lm.encode(_triples(pairs))
    return _means(pairs, encoded, score_texts(lm, encoded, batch_tokens=judging.batch_tokens))


def _triples(pairs: Sequence[Pair]) -> list[Triple]:
    return [(prompt, answer, None) for prompt, answer in pairs]


def _means(pairs: Sequence[Pair], encoded: Sequence[Encoded], scores: np.ndarray) -> dict[Pair, float]:
    found = zip(pairs, scores, encoded, strict=True)
    return {pair: geometric_mean(float(score), len(text.targets)) for pair, score, text in found}


def verdict(lm: LanguageModel, case: EditCase, judging: Judging, seconds: float | None = None) -> Verdict:
    """Judge an update under the model as it is now.

    A neighbour fact with several true objects counts with the mean of their probabilities.
    """
    found = _verdict(case, judging, probabilities(lm, pairs_of(case, judging), judging), seconds)
    return _with_texts(lm, case, judging, found)


def verdicts_apart(lm: LanguageModel, edited_cases: Sequence[tuple[EditCase, Edit]], judging: Judging) -> list[Verdict]:
    """Judge updates, each under its own edit of the clean model, as `verdict` would inside ``edited``.

    Probabilities of all are computed in common batches, texts under one edit after the other.
    """
    pairs = [pairs_of(case, judging) for case, _ in edited_cases]
    edits = [edit for _, edit in edited_cases]
    encoded = [encode_under(lm, edit, _triples(own)) for edit, own in zip(edits, pairs, strict=True)]
    scores = score_together(lm, edits, encoded, batch_tokens=judging.batch_tokens)
    verdicts = []
    for (case, edit), asked, texts, found in zip(edited_cases, pairs, encoded, scores, strict=True):
        judged = _verdict(case, judging, _means(asked, texts, found), edit.about["seconds"])
        with edited(lm, edit, check=False) if judging.writes else unchanged():
            verdicts.append(_with_texts(lm, case, judging, judged))
    return verdicts


def _verdict(case: EditCase, judging: Judging, p: Mapping[Pair, float], seconds: float | None) -> Verdict:
    result = Verdict(case.case_id, seconds=seconds)
    for number, prompt in enumerate((case.text, *case.generalization)):
        kind = "generalization" if number else "update"
        old = p[prompt, case.old] if case.old else None
        new = p[prompt, case.new] if case.new else None
        result.targets.append({"kind": kind, "prompt_number": number, "new": new, "old": old})
    for kind, facts in (("nearest", case.nearest), ("random", case.random)):
        for number, fact in enumerate(facts):
            mean = sum(p[fact.prompt, o] for o in fact.objects) / len(fact.objects)
            result.neighbours.append({"kind": kind, "number": number, "p": mean})
    result.objects = object_rows(case, p)
    if judging.dated is not None:
        result.dated, result.dated_neighbours = dated_rows(case, judging.dated, p)
    return result


def _with_texts(lm: LanguageModel, case: EditCase, judging: Judging, judged: Verdict) -> Verdict:
    """With what the model, as it is now, writes behind the prompts, where that is asked for."""
    if judging.say:
        judged = replace(judged, said=said_rows(case, continuations(lm, case)))
    if judging.fluency_tokens and case.generalization:
        texts = greedy_texts(lm, case.generalization, judging.fluency_tokens)
        judged = replace(judged, texts=texts, fluency=fluency(texts))
    return judged


def continuations(lm: LanguageModel, case: EditCase) -> list[str]:
    """What the model writes after each prompt of an update: a few tokens more than its longest object has.

    None where the update has no object that could be said.
    """
    names = [name for decision in DECISIONS for name in names_of(case, decision)]
    if not names:
        return []
    longest = max(len(text.targets) for text in lm.encode([(case.text, name, None) for name in names]))
    return greedy_continuations(lm, (case.text, *case.generalization), longest + SPARE)


def part_table(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    return pl.DataFrame([vars(v) for v in verdicts], schema=PART_SCHEMA)


def read_part(path: Path) -> pl.DataFrame:
    """A part as `part_table` made it; columns that an earlier version did not have are null."""
    table = read_table(path)
    absent = [pl.lit(None, kind).alias(name) for name, kind in PART_SCHEMA.items() if name not in table.columns]
    return table.with_columns(absent).select(PART_SCHEMA.keys())


def tables_of(
    cases: Mapping[str, EditCase], clean: pl.DataFrame, parts: Mapping[str, pl.DataFrame], mode: str
) -> dict[str, pl.DataFrame]:
    """The tables of `anachron.evaluate.results` from the clean model's verdicts and those under each method."""
    about = pl.DataFrame(
        [(c.case_id, c.relation, c.popularity, c.scenario) for c in cases.values()],
        schema={"case_id": pl.String, "relation": pl.String, "popularity": pl.Float64, "scenario": pl.String},
        orient="row",
    )  # fmt: skip
    facts = pl.DataFrame(
        [
            (c.case_id, kind, number, fact.dist, fact.popularity)
            for c in cases.values()
            for kind, known in (("nearest", c.nearest), ("random", c.random))
            for number, fact in enumerate(known)
        ],
        schema={"case_id": pl.String, "kind": pl.String, "number": pl.Int64, "dist": pl.Float64,
                "popularity": pl.Float64}, orient="row",
    )  # fmt: skip
    all_parts = _together(parts, mode)
    targets = _exploded(all_parts, "targets").rename({"new": "new_after", "old": "old_after"}).join(
        _exploded(clean, "targets").rename({"new": "new_before", "old": "old_before"}),
        on=["case_id", "kind", "prompt_number"], how="left", maintain_order="left",
    )  # fmt: skip
    neighbours = (
        _exploded(all_parts, "neighbours").rename({"p": "after"})
        .join(_exploded(clean, "neighbours").rename({"p": "before"}), on=["case_id", "kind", "number"], how="left",
              maintain_order="left")
        .join(facts, on=["case_id", "kind", "number"], how="left", maintain_order="left")
    )  # fmt: skip
    updates = (
        all_parts.drop("targets", "neighbours", "objects", "said", "dated", "dated_neighbours", "texts")
        .join(clean.select("case_id", fluency_before="fluency"), on="case_id", how="left", maintain_order="left")
        .join(about, on="case_id", how="left", maintain_order="left")
    )
    place = ["kind", "prompt_number", "role", "object"]
    objects = (
        _exploded(all_parts, "objects").rename({"p": "after"})
        .join(_exploded(clean, "objects").rename({"p": "before"}), on=["case_id", *place], how="left",
              maintain_order="left")
    )  # fmt: skip
    said = _exploded(all_parts, "said").rename({name: f"{name}_after" for name in ("text", "new", "old")}).join(
        _exploded(clean, "said").rename({name: f"{name}_before" for name in ("text", "new", "old")}),
        on=["case_id", "kind", "prompt_number"], how="left", maintain_order="left",
    )  # fmt: skip
    return {"targets": targets, "neighbours": neighbours, "updates": updates, "objects": objects, "said": said}


def dated_tables_of(clean: pl.DataFrame, parts: Mapping[str, pl.DataFrame], mode: str) -> dict[str, pl.DataFrame]:
    """The tables ``dated`` and ``dated_neighbours`` of the same verdicts."""
    all_parts = _together(parts, mode)
    dated = _exploded(all_parts, "dated").rename({"new": "new_after", "old": "old_after"}).join(
        _exploded(clean, "dated").select("case_id", "time", new_before="new", old_before="old"),
        on=["case_id", "time"], how="left", maintain_order="left",
    )  # fmt: skip
    key = ["case_id", "kind", "number", "time"]
    neighbours = _exploded(all_parts, "dated_neighbours").rename({"p": "after"}).join(
        _exploded(clean, "dated_neighbours").select(*key, before="p"), on=key, how="left", maintain_order="left"
    )  # fmt: skip
    return {"dated": dated.select(*DATED), "dated_neighbours": neighbours.select(*DATED_NEIGHBOURS)}


def _together(parts: Mapping[str, pl.DataFrame], mode: str) -> pl.DataFrame:
    return pl.concat(
        [table.with_columns(pl.lit(name).alias("method"), pl.lit(mode).alias("mode")) for name, table in parts.items()]
    )


def _exploded(parts: pl.DataFrame, column: str) -> pl.DataFrame:
    keys = [name for name in ("mode", "method", "case_id") if name in parts.columns]
    return parts.select(*keys, column).filter(pl.col(column).list.len() > 0).explode(column).unnest(column)
