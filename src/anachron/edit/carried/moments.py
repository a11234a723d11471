"""Running mean and deviation of vectors, which add up and are taken apart again."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anachron.core.errors import ConfigError


@dataclass(frozen=True)
class Moments:
    """Of ``count`` vectors: their mean and the sum of squared deviations from it, (width,) each, float64.

    Sums are those of all vectors together (Chan, Golub and LeVeque), differences those of the ones that are left, up to
    rounding.
    """

    count: int
    mean: torch.Tensor
    squares: torch.Tensor

    @classmethod
    def of(cls, vectors: torch.Tensor) -> "Moments":
        """vectors: (count, width), one at least."""
        wide = vectors.double()
        mean = wide.mean(0)  # (width,)
        return cls(len(wide), mean, (wide - mean).square().sum(0))

    def __add__(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        gap = other.mean.to(self.mean) - self.mean  # (width,)
        apart = gap.square() * (self.count * other.count / count)
        return Moments(
            count, self.mean + gap * (other.count / count), self.squares + other.squares.to(self.mean) + apart
        )

    def __sub__(self, other: "Moments") -> "Moments | None":
        """Of the vectors that are left without the other's; None where none is."""
        left = self.count - other.count
        if left < 0:
            raise ConfigError(
                f"statistics of {other.count} tokens cannot be taken out of those of {self.count}; only an edit that "
                "is in a sum can be"
            )
        if not left:
            return None
        mean = self.mean + (self.mean - other.mean.to(self.mean)) * (other.count / left)
        apart = (mean - other.mean.to(mean)).square() * (left * other.count / self.count)
        return Moments(left, mean, (self.squares - other.squares.to(mean) - apart).clamp(min=0))

    def normalised(self, vectors: torch.Tensor, epsilon: float) -> torch.Tensor:
        """(x - mean) / (deviation + epsilon), (n, width), float64; 0 in a component that never varied."""
        deviation = (self.squares / max(self.count - 1, 1)).sqrt()  # (width,)
        scale = torch.where(deviation > 0, 1 / (deviation + epsilon), 0)
        return (vectors.double() - self.mean) * scale

    def tensor(self) -> torch.Tensor:
        """As one tensor, (3, width): the count in all of the first row, mean, squares."""
        return torch.stack([torch.full_like(self.mean, self.count), self.mean, self.squares])

    @classmethod
    def of_tensor(cls, tensor: torch.Tensor) -> "Moments":
        """Of what `tensor` gave. Raises `ValueError` for any other."""
        whole = tensor.ndim == 2 and len(tensor) == 3 and tensor.shape[1] > 0 and bool(tensor.isfinite().all())
        if not whole or not bool((tensor[0] == tensor[0, 0]).all()) or tensor[0, 0] < 1 or bool((tensor[2] < 0).any()):
            raise ValueError(f"statistics of shape {tuple(tensor.shape)} are not a count, a mean and squares")
        count, mean, squares = tensor.double()
        return cls(int(count[0]), mean, squares)


def joined(a: Mapping[str, Moments], b: Mapping[str, Moments]) -> dict[str, Moments]:
    """Both together, name by name."""
    return {**a, **{name: a[name] + more if name in a else more for name, more in b.items()}}


def taken_out(whole: Mapping[str, Moments], removed: Mapping[str, Moments]) -> dict[str, Moments]:
    """The whole without what is removed, name by name; a name of which nothing is left is left out."""
    left = {name: held - removed[name] if name in removed else held for name, held in whole.items()}
    return {name: held for name, held in left.items() if held is not None}
