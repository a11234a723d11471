"""The bundled changes: what its card promises, counted and compared without the code that made them."""

import re
import unicodedata
from collections import Counter, defaultdict
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from anachron.data.bundled.mini import mini_changes
from anachron.probe.horizon.changes import CONTROLS, INVENTED, changes_of_table
from anachron.probe.horizon.questions import bundled_wordings, change_wordings
from anachron.probe.horizon.read import read_changes

CARD = Path(__file__).parents[2] / "docs" / "mini-changes.md"
CREDITS = Path(__file__).parents[2] / "src" / "anachron" / "data" / "mini" / "CHANGES.md"
MACHINES = {"software", "device"}


@cache
def rows() -> list[dict[str, Any]]:
    """The changes, without controls."""
    return [row for row in mini_changes().iter_rows(named=True) if row["control"] is None]


def key(name: str) -> str:
    bare = unicodedata.normalize("NFKD", name).casefold()
    return "".join(c for c in bare if c.isalnum() or c == ".")  # 1.23 and 12.3 are two versions


def test_there_are_enough_of_every_year_and_kind() -> None:
    assert len(rows()) >= 2000
    assert len({row["kind"] for row in rows()}) >= 12
    years = Counter(row["date"][:4] for row in rows() if row["kind"] not in MACHINES)
    assert sorted(years) == [str(year) for year in range(2010, 2027)]
    assert min(years[str(year)] for year in range(2010, 2023)) >= 60


def test_every_date_is_a_day_or_a_month_of_those_years() -> None:
    for row in rows():
        text = row["date"]
        assert re.fullmatch(r"\d{4}-\d\d(-\d\d)?", text), row
        day = date.fromisoformat(text if len(text) == 10 else f"{text}-01")
        assert date(2010, 1, 1) <= day <= date(2026, 12, 31), row


def test_values_are_names_and_differ() -> None:
    for row in rows():
        assert key(row["old"]) != key(row["new"]), row
        for name in (row["subject"], row["old"], row["new"]):
            assert name == " ".join(name.split()), row
            assert not re.fullmatch(r"Q\d+", name), row
            assert "(" not in name, row


def test_no_change_is_there_twice() -> None:
    seen = Counter(
        # a lead may change hands and back within a month
        (key(row["subject"]), key(row["new"]), row["date"] if row["relation"] == "leader" else row["date"][:7])
        for row in rows()
    )
    assert [one for one, count in seen.items() if count > 1] == []


def test_no_subject_changes_twice_within_a_few_days() -> None:
    """Two sources that date one change differently would give such a pair."""
    days: dict[tuple[str, str], list[date]] = defaultdict(list)
    for row in rows():
        if row["relation"] == "officeholder" and len(row["date"]) == 10:
            days[key(row["subject"]), row["relation"]].append(date.fromisoformat(row["date"]))
    near = [
        (subject, first)
        for (subject, _), held in days.items()
        for first, second in zip(sorted(held), sorted(held)[1:], strict=False)
        if (second - first).days < 45
    ]
    assert near == []


def test_no_office_is_there_under_two_labels() -> None:
    """Two subjects of one kind whose changes are between the same persons at one time, more than once."""
    told: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for row in rows():
        if row["relation"] in ("officeholder", "head of state", "head of government", "chairperson"):
            told[row["kind"], key(row["old"]), key(row["new"]), row["date"][:7]].add(row["subject"])
    pairs = Counter(tuple(sorted(subjects)) for subjects in told.values() if len(subjects) > 1)
    assert [pair for pair, count in pairs.items() if count > 1] == []


def test_at_most_three_releases_a_month() -> None:
    months = Counter(row["date"][:7] for row in rows() if row["kind"] in MACHINES)
    assert max(months.values()) <= 3


def test_the_card_prints_the_counts_of_the_file() -> None:
    text = CARD.read_text("utf-8")
    years, without = Counter(r["date"][:4] for r in rows()), Counter()
    without.update(r["date"][:4] for r in rows() if r["kind"] not in MACHINES)
    for year, count in years.items():
        assert f"| {year} | {count} | {without[year]} |" in text
    for kind, count in Counter(row["kind"] for row in rows()).items():
        assert f" {kind} {count} (" in text
    assert f"holds {len(rows()):,} changes" in text


def test_every_source_is_credited() -> None:
    credited = CREDITS.read_text("utf-8")
    for source in set(mini_changes()["source"]):
        name = "every-politician-scrapers/NAME" if source.startswith("every-politician") else source.partition(" (")[0]
        assert f"| `{name}" in credited, source


def test_controls_are_of_both_sorts_and_no_invented_subject_is_one_of_the_changes() -> None:
    every = changes_of_table(read_changes())
    real = {key(change.subject) for change in every if not change.control}
    assert {change.control for change in every} == {"", *CONTROLS}
    assert not real & {key(change.subject) for change in every if change.control == INVENTED}


@pytest.mark.few(5)
@pytest.mark.parametrize("relation", sorted(set(mini_changes()["relation"])))
def test_every_relation_has_statements_and_a_question_that_name_the_subject(relation: str) -> None:
    change = next(c for c in changes_of_table(read_changes()) if c.relation == relation)
    *statements, question = bundled_wordings(change)
    assert len(statements) == 2
    assert question.endswith("?") and not any(text.endswith((".", "?", " ")) for text in statements)
    for text in (*statements, question):
        assert change.subject.removeprefix("the ") in text
        assert "[" not in text and " the the " not in text.casefold() and "  " not in text


def test_own_wordings_are_those_of_relations_of_the_bundled_changes() -> None:
    assert set(change_wordings()) <= set(mini_changes()["relation"])
    for wordings in change_wordings().values():
        assert len(wordings) == 3


def test_the_source_of_most_earlier_changes_has_no_later_ones() -> None:
    """As docs/horizon.md says of the fall that it shows."""
    early = [row["source"].startswith("every-politician-scrapers/") for row in rows() if row["date"] <= "2022-09-31"]
    assert round(100 * sum(early) / len(early)) == 62
    assert not any(
        row["source"].startswith("every-politician-scrapers/") for row in rows() if row["date"] > "2022-09-31"
    )
