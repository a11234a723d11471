"""What many tests need, built once for each worker, and how hypothesis draws its examples.

``quick``: the same examples in every run, so that a failure is a change of the code. ``full``, of the long run: other
examples each time; a failure prints the line that repeats it.
"""

import polars as pl
import pytest
from hypothesis import settings

from anachron.data.loaders import Dataset, load_dataset

settings.register_profile("quick", derandomize=True, deadline=None, database=None)
settings.register_profile("full", max_examples=400, deadline=None, database=None, print_blob=True)
settings.load_profile("quick")  # another: pytest --hypothesis-profile full


@pytest.fixture(scope="session")
def mini() -> Dataset:
    """The bundled statements, which take seconds to build."""
    return load_dataset("mini")


@pytest.fixture(scope="session")
def brief(mini: Dataset) -> Dataset:
    """The five facts of ``mini`` with the fewest statements: whole successions of contexts that are soon scored."""
    shortest = mini.table["fact_id"].value_counts().sort("count", "fact_id")["fact_id"].head(5)
    return Dataset("brief", mini.table.filter(pl.col("fact_id").is_in(shortest.to_list())), mini.boundaries)
