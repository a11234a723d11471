"""Runs in many small parts, which a test may break between."""

import pytest

from anachron.lm import plans
from anachron.probe import run


def in_small_parts(patch: pytest.MonkeyPatch, texts: int) -> None:
    """Parts of about so many texts, and batches of 128 tokens, so that a part of a narrow model is not larger."""
    patch.setattr(run, "PART_TEXTS", texts)
    patch.setattr(plans, "CPU_TREE_TOKENS", (128, 128))
