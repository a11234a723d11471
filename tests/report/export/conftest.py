"""Data sets to export."""

from pathlib import Path

import pytest

from anachron.data.bundled.mini import mini_facts, question_of
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.tables import write_table


@pytest.fixture(scope="session")
def five() -> Dataset:
    """The five facts of ``mini.sample(5)``, built without the rest of it."""
    facts = sorted((m.fact for m in mini_facts() if m.probed), key=lambda fact: fact.id)[:5]
    asked = [FactWithQuestion(fact, question_of(fact), number) for number, fact in enumerate(facts)]
    return Dataset("five facts", make_statements(asked), "released")


@pytest.fixture
def file(five: Dataset, tmp_path: Path) -> Path:
    """The five as a file, for the command line."""
    path = tmp_path / "five.parquet"
    write_table(path, to_published(five.table, five.boundaries))
    return path
