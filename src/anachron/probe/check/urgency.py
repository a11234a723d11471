"""What a reader of a check needs first: the facts that are stale, also as updates, and the order in which facts are
told."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.sameness import name_key
from anachron.data.own.columns import names_in_cell
from anachron.data.own.rows import group_of
from anachron.data.updates.case_table import BESIDE, STALE_COLUMNS
from anachron.io.files import Json
from anachron.probe.check.levels import WRONG_PERIOD
from anachron.probe.check.present import CURRENT, STALE, PresentQuestion
from anachron.probe.check.questions import CheckedFacts

URGENCY = (STALE, WRONG_PERIOD, "unknown", "shaky", "known", "robust")  # in which order facts are told
_RANKS = {kind: place for place, kind in enumerate(URGENCY)}
_ROW = "row of the check"  # a name that no column of it has


def stale_facts(verdicts: pl.DataFrame, present: pl.DataFrame) -> list[Json]:
    """The stale facts of a check, in its order: ``subject, relation, question, old, old_until, new, since`` of each.

    verdicts: of `anachron.probe.check.check.Check`. present: of `anachron.probe.check.present.present_answers`; of a
    subject and relation with several objects that hold, each is a fact. ``old``: what the model answers to the
    question; ``old_until``: when that ended. ``new``: what holds, ``since`` when without a break.
    """
    questions = {(row["subject"], row["relation"]): row["question"] for row in present.iter_rows(named=True)}
    return [
        {
            "subject": row["subject"], "relation": row["relation"],
            "question": questions[row["subject"], row["relation"]], "old": row["answer"],
            "old_until": row["answer_until"], "new": row["object"], "since": since(row["periods"]),
        }
        for row in verdicts.filter(pl.col("present") == STALE).iter_rows(named=True)
    ]  # fmt: skip


def stale_updates(stale: Iterable[Json], facts: CheckedFacts) -> pl.DataFrame:
    """Stale facts (`stale_facts`) as updates, a row (`STALE_COLUMNS`) a question; `anachron.load_cases` reads them.

    Of several objects that hold the model is to be taught one, the latest. The id of a relation, by which its bundled
    English statements are found, is left out where the facts are in another language.
    """
    given = {(item.fact.subject, item.fact.relation, item.fact.object): item for item in facts.given}
    all_given = {(*group_of(item), item.fact.object): item for item in facts.data.given}  # those beyond a limit too
    rows: dict[str, Json] = {}
    for fact in sorted(stale, key=lambda fact: -Date.parse(fact["since"]).first_day):
        item = given[fact["subject"], fact["relation"], fact["new"]]
        id = item.fact.relation_id if facts.data.language is None else None
        old = all_given.get((*group_of(item), fact["old"]))
        dates = {"date": fact["since"], "old_end": fact["old_until"]}
        dates["old_start"] = None if old is None else str(old.periods[-1].start)
        names = "|".join(item.aliases)
        if names and names_in_cell(names)[0] != item.aliases:  # a name that would be taken for several
            names = json.dumps(item.aliases, ensure_ascii=False)
        rows.setdefault(fact["question"], fact | dates | {"relation_id": id, "aliases": names or None})
    ordered = [rows[question] for question in dict.fromkeys(fact["question"] for fact in stale)]
    return pl.DataFrame(
        [[row[column] for column in STALE_COLUMNS] for row in ordered], dict.fromkeys(STALE_COLUMNS, pl.String),
        orient="row",
    )  # fmt: skip


def stale_records(updates: pl.DataFrame, present: pl.DataFrame, facts: CheckedFacts) -> list[Json]:
    """The rows of `stale_updates` with the names in ``aliases`` as a list, and ``neighbours``: facts that stay as they
    are. `anachron.load_cases` reads them too.

    Neighbours are up to `BESIDE` facts of the file that hold, of the same relation and other subjects: first those that
    the model knows, then the others in the file's order, none that is itself stale or has an object of the update.
    present: of `anachron.probe.check.present.present_answers`.
    """
    asked = {question.question: question for question in facts.questions}
    known = set(present.filter(pl.col("status") == CURRENT)["question"])
    stale = set(updates["question"])
    kept = [question for question in facts.questions if question.question not in stale]
    kept.sort(key=lambda question: question.question not in known)  # which keeps the order of the file among each
    records = []
    for row in updates.iter_rows(named=True):
        names = list(names_in_cell(row["aliases"])[0]) if row["aliases"] else []
        changed = set(map(name_key, (row["old"], row["new"], *names)))
        beside = [
            {"subject": other.subject, "question": other.question, "objects": true}
            for other in kept
            if _relation(other) == _relation(asked[row["question"]]) and other.subject != row["subject"]
            if (true := [one.label for one in other.objects if one.holds])
            and changed.isdisjoint(name_key(name) for one in other.objects if one.holds for name in one.names)
        ]
        records.append(row | {"aliases": names, "neighbours": beside[:BESIDE]})
    return records


def _relation(question: PresentQuestion) -> str:
    return question.relation_id or name_key(question.relation)


def since(periods: str) -> str:
    """When the last of some periods (``1946/1955; 1973/``) began."""
    return periods.rsplit("; ", 1)[-1].split("/")[0]


def stale_in_words(fact: Mapping[str, Any]) -> str:
    """``Japan, head of state: says Akihito (held until 2019-04-30); Naruhito since 2019-05-01``, of `stale_facts`."""
    until = f" (held until {fact['old_until']})" if fact["old_until"] else ""
    return f"{fact['subject']}, {fact['relation']}: says {fact['old']}{until}; {fact['new']} since {fact['since']}"


def urgent_first(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The facts of a check, those of one subject and relation together, in the order of the most urgent of each
    (`URGENCY`); otherwise in their order."""
    group = ["subject", "relation"]
    kind = pl.when(pl.col("present") == STALE).then(pl.lit(STALE)).otherwise("verdict")
    rank = kind.replace_strict(_RANKS, default=len(URGENCY) - 1, return_dtype=pl.Int64)
    placed = verdicts.with_row_index(_ROW)
    return placed.sort(rank.min().over(group), pl.col(_ROW).min().over(group), _ROW).drop(_ROW)


def rank_of(row: Mapping[str, Any]) -> int:
    """The place in `URGENCY` of a fact of a check; one without a verdict that is not stale comes last."""
    return _RANKS.get(STALE if row["present"] == STALE else row["verdict"], len(URGENCY) - 1)
