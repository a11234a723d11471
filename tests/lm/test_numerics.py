"""Repeatable arithmetic: on while it is asked for, gone afterwards."""

import os

import pytest
import torch

from anachron.lm.numerics import WORKSPACE, deterministic


def varies() -> None:
    """An operation that torch knows no repeatable algorithm for."""
    x = torch.zeros(4)
    x.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]), accumulate=False)


def test_what_varies_is_refused_inside_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(WORKSPACE, raising=False)
    varies()
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled() and os.environ[WORKSPACE] == ":4096:8"
        with pytest.raises(RuntimeError, match="deterministic"):
            varies()
    assert not torch.are_deterministic_algorithms_enabled() and WORKSPACE not in os.environ
    varies()


def test_it_is_taken_back_after_an_error_and_can_be_off():
    with pytest.raises(ValueError, match="meanwhile"), deterministic():
        raise ValueError("meanwhile")
    assert not torch.are_deterministic_algorithms_enabled()
    with deterministic(False):
        assert not torch.are_deterministic_algorithms_enabled()
        varies()
