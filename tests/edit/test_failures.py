"""What fails for one item of many takes that item's place, and no other's."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.edit.failures import each_or_failure


@given(st.lists(st.booleans(), max_size=20))
def test_every_item_gets_its_result_or_its_own_failure(fails: list[bool]):
    calls: list[int] = []

    def work(items: Sequence[int]) -> list[int]:
        calls.append(len(items))
        for item in items:
            if fails[item]:
                raise DataError(f"item {item} is bad")
        return [10 * item for item in items]

    found = each_or_failure(work, range(len(fails)))
    assert [f if isinstance(f, int) else str(f) for f in found] == [
        f"item {i} is bad" if bad else 10 * i for i, bad in enumerate(fails)
    ]
    if not any(fails):
        assert calls == ([len(fails)] if fails else [])


def test_full_memory_is_met_with_halves_and_is_a_failure_of_what_is_too_large_alone():
    def work(items: Sequence[int]) -> list[int]:
        if sum(items) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")
        return list(items)

    found = each_or_failure(work, [1, 2, 3, 9, 4])
    assert [f for f in found if isinstance(f, int)] == [1, 2, 3, 4]
    assert isinstance(found[3], BackendError)
    assert str(found[3]) == "out of memory: CUDA out of memory. Tried to allocate 2 GiB"


@pytest.mark.parametrize("error", [ConfigError("no covariance"), RuntimeError("size mismatch"), KeyboardInterrupt()])
def test_what_is_no_failure_of_an_item_is_raised(error: BaseException):
    def work(items: Sequence[int]) -> list[int]:
        raise error

    with pytest.raises(type(error)):
        each_or_failure(work, [1, 2])
