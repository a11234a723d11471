"""The settings of MEND, which load no model: the command ``train-mend`` takes its defaults from them."""

from dataclasses import dataclass, fields
from typing import Any

from anachron.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class MendSettings:
    """The architecture of MEND's network and its training; defaults as in the published code, layers as for GPT-J.

    Only the number of steps is ours: the published code trains until the validation loss stops falling.

    layers: blocks whose MLP projections (all of them, into and out of the MLP) are edited, in rising order; see
        `last_blocks`.
    rank: rank of the network's two layers, at most their width.
    start: initial learned rate of every module.
    normalise: normalise each component by the mean and standard deviation of the tokens seen in training.
    edit_weight, kl_weight: weights of the target's loss and of the KL divergence on unrelated text, both in nats.
    rate, lr_rate: learning rates of Adam, the second one for the learned rates.
    clip: maximum norm of the gradient of all parameters together.
    steps: number of steps of Adam.
    batch: number of examples per step, each an edit of its own.
    seed: seed for the initial network and the order of examples.
    """

    layers: tuple[int, ...] = (25, 26, 27)
    rank: int = 1920
    start: float = 1e-4
    normalise: bool = True
    edit_weight: float = 0.1
    kl_weight: float = 1.0
    rate: float = 1e-6
    lr_rate: float = 1e-4
    clip: float = 100.0
    steps: int = 10_000
    batch: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.layers or list(self.layers) != sorted(set(self.layers)):
            raise ConfigError(f"layers {list(self.layers)} must be one or more different layers in rising order")
        for name in ("rank", "steps", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} {getattr(self, name)} must be at least 1; the default is {_default(name)}")
        for name in ("rate", "clip"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} {getattr(self, name)} must be above 0; the default is {_default(name)}")
        if not abs(self.start) < float("inf"):
            raise ConfigError(f"start {self.start} must be a number; the default is {_default('start')}")
        for name in ("lr_rate", "edit_weight", "kl_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} {getattr(self, name)} must not be negative; the default is {_default(name)}")


def _default(name: str) -> Any:
    return next(field.default for field in fields(MendSettings) if field.name == name)
