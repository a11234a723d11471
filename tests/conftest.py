"""What many tests need, built once for each worker."""

import polars as pl
import pytest

from anachron.data.loaders import Dataset, load_dataset


@pytest.fixture(scope="session")
def mini() -> Dataset:
    """The bundled statements, which take seconds to build."""
    return load_dataset("mini")


@pytest.fixture(scope="session")
def brief(mini: Dataset) -> Dataset:
    """The five facts of ``mini`` with the fewest statements: whole successions of contexts that are soon scored."""
    shortest = mini.table["fact_id"].value_counts().sort("count", "fact_id")["fact_id"].head(5)
    return Dataset("brief", mini.table.filter(pl.col("fact_id").is_in(shortest.to_list())), mini.boundaries)
