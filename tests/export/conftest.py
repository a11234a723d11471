"""Small data sets to export."""

import pytest

from anachron.data.loaders import Dataset, load_dataset


@pytest.fixture(scope="session")
def mini() -> Dataset:
    return load_dataset("mini")


@pytest.fixture(scope="session")
def five(mini: Dataset) -> Dataset:
    return mini.sample(5)
