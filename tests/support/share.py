"""How much of the trial and of random examples runs: all of it, or the share that ``ANACHRON_TEST_SHARE`` names.

Continuous integration runs a third on every change, drawn by fixed seeds; ``make test-all`` alone runs all.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
SHARE = float(os.environ.get("ANACHRON_TEST_SHARE", "1"))


def share_of(number: int) -> int:
    """So many of a number, at least one."""
    return max(1, round(SHARE * number))


def some_of(things: Sequence[T], seed: int = 0) -> list[T]:
    """So many of some things, in their order."""
    places = random.Random(seed).sample(range(len(things)), share_of(len(things)))
    return [things[place] for place in sorted(places)]
