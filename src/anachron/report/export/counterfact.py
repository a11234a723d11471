"""Successions in a dated data set as requests to edit a model, in the schema of CounterFact (ROME, appendix D).

A succession is two facts of one subject and relation of which the second begins where the first ends: the earlier
object is ``target_true``, the later one ``target_new``. Other than in CounterFact both were true, each in its time.
Prompts are the data set's questions without a date. Nothing is made up: a field that the data set cannot fill is
empty or null (generation prompts always, for it holds questions only), and what is left out is counted.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.sameness import name_key
from anachron.core.several_periods import parse_periods
from anachron.data.dataset import Dataset
from anachron.io.files import Json, write_json, write_manifest
from anachron.report.export.folder import short_name
from anachron.text.articles import in_sentence
from anachron.text.kinds import subject_kind
from anachron.text.questions import SUBJECT_SLOT, relation_templates

COMMAND = "export counterfact"
NEIGHBOURS = 10  # as many as a case of CounterFact has
SKIPPED = {
    "concurrent": "the subject surely has two objects of the relation at a time, so that none takes over from another",
    "order_unclear": "the dates are too coarse to tell which of the two came first",
    "gap": "days lie between the two periods, on which something else may have held",
    "same_object": "the same object again: nothing changes",
    "no_question": "the later fact has no statement without a date, so there is no question to ask",
    "subject_not_once": "the question does not hold the subject's label exactly once, or holds a brace",
}

EMPTY = {
    "paraphrase_prompts": "empty where the question is none of this package's templates for the relation",
    "neighborhood_prompts": "empty where no other subject had the earlier object, and never the later one",
    "attribute_prompts": "empty where no other subject had the later object, and never the earlier one",
    "generation_prompts": "always empty: the data set holds questions, no openings of free text",
    "id": "null where the data set gives none",
}


@dataclass(frozen=True, slots=True)
class FactInPeriod:
    """A fact of the data set in one of its periods, with its question, where it has one without a date."""

    fact_id: str
    subject: str
    subject_id: str | None
    relation: str
    relation_id: str | None
    object: str
    object_id: str | None
    start: Date
    end: Date | None  # None: it still holds
    question: str | None

    @property
    def group(self) -> tuple[str, str]:
        """Subject and relation, by their ids where known."""
        return name_key(self.subject_id or self.subject), name_key(self.relation_id or self.relation)

    @property
    def target(self) -> tuple[str, str]:
        """Relation and object, by their ids where known: facts that share both are answered alike."""
        return name_key(self.relation_id or self.relation), name_key(self.object_id or self.object)

    @property
    def possible(self) -> tuple[int, float]:
        """First and last day (day numbers) on which the fact may have held."""
        return self.start.first_day, inf if self.end is None else self.end.last_day

    @property
    def certain(self) -> tuple[int, float]:
        """Latest start and earliest end (day numbers)."""
        return self.start.last_day, inf if self.end is None else self.end.first_day


def facts_in_periods(table: pl.DataFrame) -> list[FactInPeriod]:
    """The facts of a statement table, in its order, once for each period in which they are asked about."""
    also = pl.col("also_held") if "also_held" in table.columns else pl.lit(None, pl.String).alias("also_held")
    facts = table.group_by("fact_id", maintain_order=True).agg(
        *(pl.col(f"{side}_label").first().alias(side) for side in ("subject", "relation", "object")),
        pl.col("subject_id", "relation_id", "object_id", "start", "end").first(),
        also.first(),
        pl.col("prompt").filter(pl.col("status") == "none").first().alias("question"),
    )
    asked = []
    for row in facts.iter_rows(named=True):
        later = parse_periods(row.pop("also_held"))
        first = FactInPeriod(
            **(row | {"start": Date.parse(row["start"]), "end": row["end"] and Date.parse(row["end"])})
        )
        asked += [first, *(replace(first, start=period.start, end=period.end) for period in later if period.start)]
    return asked


def successions(facts: Sequence[FactInPeriod]) -> tuple[list[tuple[FactInPeriod, FactInPeriod]], dict[str, int]]:
    """Pairs of facts of which the second takes over from the first, and how many neighbours in time do not, and why.

    Per subject and relation facts are taken in order of their start, one with several periods in each of them. Coarse
    boundaries are read generously: a fact that ends in 2005 is followed by one that starts in 2005, or on 2006-01-01.
    See `SKIPPED` for what is refused.
    """
    groups: dict[tuple[str, str], list[FactInPeriod]] = defaultdict(list)
    for fact in facts:
        groups[fact.group].append(fact)
    pairs = []
    skipped = dict.fromkeys(("concurrent", "order_unclear", "gap", "same_object"), 0)
    for group in groups.values():
        ordered = sorted(group, key=lambda f: (f.possible, f.certain, f.fact_id))
        # a whole entry, not its fact's id: another object beside one period says nothing about the fact's other periods
        concurrent = concurrent_facts(ordered)
        for earlier, later in pairwise(ordered):
            if reason := _refusal(earlier, later, concurrent):
                skipped[reason] += 1
            else:
                pairs.append((earlier, later))
    return pairs, skipped


def concurrent_facts(facts: Sequence[FactInPeriod]) -> set[FactInPeriod]:
    """Those that surely held together with another fact on more than the one day on which a successor takes over.

    In the order of their starts, each is held against the latest end of the others before it, and then, in the opposite
    order, against the earliest start of the others behind it.
    """
    by_start = sorted((f for f in facts if f.certain[0] < f.certain[1]), key=lambda fact: fact.certain[0])
    found = set()
    for sign, side, in_turn in ((1, 0, by_start), (-1, 1, by_start[::-1])):
        furthest: dict[str, float] = {}  # of the two facts that reach furthest, how far
        for fact in in_turn:
            near, far = sign * fact.certain[side], sign * fact.certain[1 - side]
            if any(reach > near for other, reach in furthest.items() if other != fact.fact_id):
                found.add(fact)
            furthest[fact.fact_id] = max(far, furthest.get(fact.fact_id, far))
            furthest = dict(sorted(furthest.items(), key=lambda item: item[1])[-2:])
    return found


def _refusal(earlier: FactInPeriod, later: FactInPeriod, concurrent: set[FactInPeriod]) -> str | None:
    if earlier in concurrent or later in concurrent:
        return "concurrent"
    in_order = earlier.possible[0] < later.possible[0] and earlier.possible[1] < later.possible[1]
    if not in_order:
        return "order_unclear"
    if later.possible[0] - earlier.possible[1] > 1:
        return "gap"
    return "same_object" if earlier.target == later.target else None


def edit_case(
    number: int, earlier: FactInPeriod, later: FactInPeriod, alike: Mapping[tuple[str, str], Sequence[FactInPeriod]]
) -> Json | str:
    """One record in CounterFact's schema, with the dates in keys of its own; or why there can be none (`SKIPPED`).

    alike: facts by `Asked.target`, to find others that are answered alike.
    """
    if later.question is None:
        return "no_question"
    whole = re.findall(rf"(?<!\w){re.escape(later.subject)}(?!\w)", later.question)
    if len(whole) != 1 or later.question.count(later.subject) != 1 or re.search("[{}]", later.question):
        return "subject_not_once"
    return {
        "case_id": number,
        "requested_rewrite": {
            "prompt": later.question.replace(later.subject, "{}"),
            "relation_id": later.relation_id,
            "target_new": {"str": later.object, "id": later.object_id},
            "target_true": {"str": earlier.object, "id": earlier.object_id},
            "subject": later.subject,
        },
        "paraphrase_prompts": paraphrases(later),
        "neighborhood_prompts": _others(earlier, later, alike),
        "attribute_prompts": _others(later, earlier, alike),
        "generation_prompts": [],
        "relation_label": later.relation,
        "date_of_change": str(later.start),
        "periods": {
            "target_true": [str(earlier.start), str(earlier.end)],
            "target_new": [str(later.start), later.end and str(later.end)],
        },
        "fact_ids": {"target_true": earlier.fact_id, "target_new": later.fact_id},
    }


def paraphrases(fact: FactInPeriod) -> list[str]:
    """The other questions of a relation about the subject, where the fact's own is one of this package's templates."""
    templates = relation_templates().get(fact.relation_id or "", ("", ()))[1]
    for name in (in_sentence(fact.subject, subject_kind(fact.relation_id)), fact.subject, f"the {fact.subject}"):
        filled = [template.replace(SUBJECT_SLOT, name) for template in templates]
        if fact.question in filled:
            return [question for question in filled if question != fact.question]
    return []


def _others(
    fact: FactInPeriod, rival: FactInPeriod, alike: Mapping[tuple[str, str], Sequence[FactInPeriod]]
) -> list[str]:
    """Questions about other subjects with the same answer: at most `NEIGHBOURS`, one a subject, by fact id.

    Subjects that had the rival object too are left out: without a date their question has both answers.
    """
    both = {other.group for other in alike.get(rival.target, ())}
    questions: dict[str, str] = {}
    for other in sorted(alike.get(fact.target, ()), key=lambda f: f.fact_id):
        if other.group != fact.group and other.group not in both and other.question is not None:
            questions.setdefault(other.group[0], other.question)
    return list(questions.values())[:NEIGHBOURS]


def edit_cases(table: pl.DataFrame) -> tuple[list[Json], Json]:
    """All cases of a statement table, and the counts: what was found, what was left out and why."""
    facts = facts_in_periods(table)
    pairs, skipped = successions(facts)
    skipped |= {"no_question": 0, "subject_not_once": 0}
    alike: dict[tuple[str, str], list[FactInPeriod]] = defaultdict(list)
    for fact in facts:
        alike[fact.target].append(fact)
    cases: list[Json] = []
    for earlier, later in pairs:
        made = edit_case(len(cases), earlier, later, alike)
        if isinstance(made, str):
            skipped[made] += 1
        else:
            cases.append(made)
    counts: Json = {"facts": len({fact.fact_id for fact in facts}), "successions": len(pairs), "cases": len(cases)}
    for name in ("paraphrase_prompts", "neighborhood_prompts", "attribute_prompts", "generation_prompts"):
        counts[f"cases_with_{name}"] = sum(bool(case[name]) for case in cases)
    counts["left_out"] = {reason: {"pairs": skipped[reason], "why": why} for reason, why in SKIPPED.items()}
    return cases, counts


def export_counterfact(dataset: Dataset, out: Path) -> Json:
    """Write the successions of a data set as CounterFact-shaped JSON with a manifest beside it. Returns the counts.

    Raises `ConfigError` for a name that does not end in .json, `DataError` when the data set holds no succession.
    """
    if out.suffix != ".json":
        raise ConfigError(f"{out}: the file must end in .json")
    cases, counts = edit_cases(dataset.table)
    if not cases:
        reasons = ", ".join(f"{name} {item['pairs']}" for name, item in counts["left_out"].items() if item["pairs"])
        raise DataError(
            f"{dataset.name} holds no succession to export ({reasons or 'no two facts of one subject and relation'}); "
            "choose a data set with facts that follow each other"
        )
    write_json(out, cases)
    write_manifest(
        out, command=COMMAND,
        parameters={
            "boundaries": dataset.boundaries, **dataset.choices(), "neighbours": NEIGHBOURS, "empty_fields": EMPTY
        },
        inputs={short_name(dataset): dataset.fingerprint()}, counts=counts,
    )  # fmt: skip
    return counts
