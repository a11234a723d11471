"""What many tests need, built once for each worker."""

import pytest

from anachron.data.loaders import Dataset, load_dataset


@pytest.fixture(scope="session")
def mini() -> Dataset:
    """The bundled statements, which take seconds to build."""
    return load_dataset("mini")
