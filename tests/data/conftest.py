"""The bundled statements, built once."""

import pytest

from anachron.data.loaders import Dataset, load_dataset


@pytest.fixture(scope="session")
def mini() -> Dataset:
    return load_dataset("mini")
