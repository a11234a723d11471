"""When a request is made again, and how long is waited before."""

import pytest
from tenacity import stop_after_attempt

from anachron.io.retries import Failure, repeating


def pauses_of(failures: list[Failure], tries: int, **options) -> tuple[str, list[float]]:
    """What comes of a call that fails so often before it gives ``done``, and the pauses between."""
    waited: list[float] = []
    left = iter(failures)

    def once() -> str:
        if (failure := next(left, None)) is not None:
            raise failure
        return "done"

    return repeating(1.0, 3.0, stop_after_attempt(tries), waited.append, **options)(once), waited


def test_pauses_grow_to_the_longest():
    came, waited = pauses_of([Failure("busy")] * 4, tries=5)
    assert came == "done" and len(waited) == 4
    for pause, most in zip(waited, (1, 2, 3, 3), strict=True):
        assert 0.75 * most <= pause <= most


def test_a_server_is_waited_for_as_long_as_it_asks():
    assert pauses_of([Failure("busy", 7.0), Failure("busy", 0.0)], tries=3) == ("done", [7.0, 0.0])
    assert 7 <= pauses_of([Failure("busy", 7.0)], tries=2, apart=0.5)[1][0] <= 7.5


def test_the_last_failure_is_raised_and_one_that_does_not_pass_at_once():
    with pytest.raises(Failure, match="third"):
        pauses_of([Failure("first"), Failure("second"), Failure("third")], tries=3)
    with pytest.raises(Failure, match="long") as caught:
        pauses_of([Failure("long", 61.0)], tries=3, longest_wait=60.0)
    assert caught.value.wait == 61
    with pytest.raises(ValueError, match="other"):
        pauses_of([ValueError("other")], tries=3)  # type: ignore[list-item]
