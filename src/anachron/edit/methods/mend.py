"""MEND: a network that turns the gradient of fine-tuning into an edit (Mitchell and others, ICLR 2022).

The gradient of a linear layer's weight is a sum over tokens of delta x', with x the layer's input at a token and delta
the gradient at its output. The network maps each token's (x, delta) to two other vectors; their products, times a
learned rate, are the change of the weight.
It has to be trained once a model: `anachron.edit.training.mend`.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Dense, Edit, LowRank, model_fingerprint, require_own
from anachron.edit.mend_settings import MendSettings
from anachron.edit.method import NOTHING, Method, Preset, Resources
from anachron.edit.passes.gradients import Factors, encoded, gradients
from anachron.edit.requests import EditRequest
from anachron.edit.tensors import read_tensors, write_tensors
from anachron.io.files import Json, versions, write_manifest
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.identity import DESCRIBED
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import wide_dtype
from anachron.lm.sites import Sites, hash_into, weight_of

FORMAT = "anachron mend network 1"
GIVE = "give the file of anachron train-mend --out"
EPSILON = 1e-7  # added to standard deviations, as published


def last_blocks(sites: Sites) -> tuple[int, ...]:
    """The last three blocks of a model, which the paper edits; all where it has fewer."""
    return tuple(range(sites.layers))[-3:]


def edited_modules(lm: LanguageModel, settings: MendSettings, sites: Sites) -> dict[str, tuple[int, int]]:
    """Name -> (inputs, outputs) of every module that is edited, block by block.

    Raises `ConfigError` for a layer that the model has not, `ModelError` for a weight that cannot be changed.
    """
    names = [name for layer in settings.layers for name in (*sites.mlp_in(layer), sites.mlp_out(layer))]
    weights = {name: weight_of(lm.model, name) for name in names}
    return {name: (int(w.shape[1]), int(w.shape[0])) for name, w in weights.items()}


class _Residual(torch.nn.Module):
    """z + relu(s * (U V z + b) + m), with scale s and shift m of each module and the rest shared; U starts at zero.

    Shapes: U (width, rank), V (rank, width), b (width,), s and m (modules, width), z (tokens, width).
    """

    def __init__(self, width: int, rank: int, modules: int, random: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.v = torch.nn.Parameter(torch.randn(min(rank, width), width, generator=random).to(dtype))
        self.u = torch.nn.Parameter(torch.zeros(width, min(rank, width), dtype=dtype))
        self.b = torch.nn.Parameter(torch.zeros(width, dtype=dtype))
        self.s = torch.nn.Parameter(torch.ones(modules, width, dtype=dtype))
        self.m = torch.nn.Parameter(torch.zeros(modules, width, dtype=dtype))

    def forward(self, z: torch.Tensor, module: int) -> torch.Tensor:
        inner = self.s[module] * (z @ self.v.T @ self.u.T + self.b) + self.m[module]
        return z + inner.clamp(min=0)  # relu's gradient at 0, where all of this starts, would be 0; that of clamp is 1


class _Transform(torch.nn.Module):
    """The network for all modules of one shape: z = (x, delta) side by side -> (x', delta'), token by token.

    Shapes: z (tokens, width), with width = inputs + outputs; mean and squares (width,).
    """

    seen: torch.Tensor
    mean: torch.Tensor
    squares: torch.Tensor

    def __init__(self, width: int, rank: int, modules: int, random: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(_Residual(width, rank, modules, random, dtype) for _ in range(2))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(width, dtype=torch.float64))  # sum of (z - mean)^2

    def observe(self, z: torch.Tensor) -> None:
        """Take tokens (n, width) into the running mean and deviation (Chan, Golub and LeVeque's update)."""
        if not len(z):
            return
        wide = z.detach().double()
        mean, before = wide.mean(0), int(self.seen)  # (width,)
        gap, total = mean - self.mean, before + len(wide)
        self.squares += (wide - mean).square().sum(0) + gap.square() * (before * len(wide) / total)
        self.mean += gap * (len(wide) / total)
        self.seen.fill_(total)

    def normalised(self, z: torch.Tensor) -> torch.Tensor:
        """Fewer than two tokens seen have no deviation: nothing is normalised then.

        A component that never varied becomes 0. As published it would be divided by `EPSILON` alone, and so count ten
        million times when it varies for the first time.
        """
        if int(self.seen) < 2:
            return z
        deviation = (self.squares / (int(self.seen) - 1)).sqrt()  # (width,)
        scale = torch.where(deviation > 0, 1 / (deviation + EPSILON), 0)
        return (z - self.mean.to(z)) * scale.to(z)

    def forward(self, z: torch.Tensor, module: int) -> torch.Tensor:
        for layer in self.layers:
            z = layer(z, module)
        return z


class MendNetwork(torch.nn.Module):
    """The network of one model: what turns gradients into edits, and the learned rates.

    shapes: name -> (inputs, outputs) of the modules it edits; modules of one shape share their layers. model:
    fingerprint of the model. about: how it was trained. New, it is the identity, and its rates are ``settings.start``.
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, int]], settings: MendSettings, model: str,
        dtype: torch.dtype = torch.float32, about: Json | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shapes, self.settings, self.model, self.about = dict(shapes), settings, model, about or {}
        random = torch.Generator().manual_seed(settings.seed)
        alike: dict[tuple[int, int], list[str]] = {}
        for name, shape in self.shapes.items():
            alike.setdefault(shape, []).append(name)
        self.transforms = torch.nn.ModuleDict(
            {
                _key(shape): _Transform(sum(shape), settings.rank, len(names), random, dtype)
                for shape, names in alike.items()
            }
        )
        self.rates = torch.nn.Parameter(torch.full((len(self.shapes),), settings.start, dtype=dtype))
        self._place = {name: place for names in alike.values() for place, name in enumerate(names)}
        self._number = {name: number for number, name in enumerate(self.shapes)}

    def _beside(self, x: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.to(self.rates), delta.to(self.rates)], 1)

    def observe(self, module: str, x: torch.Tensor, delta: torch.Tensor) -> None:
        """Add tokens to the running statistics of the module's shape: x (tokens, inputs), delta (tokens, outputs)."""
        self.transform_of(module).observe(self._beside(x, delta))

    def forward(self, module: str, x: torch.Tensor, delta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(x', delta') of a module's tokens, in the same shapes."""
        transform, z = self.transform_of(module), self._beside(x, delta)  # (tokens, inputs + outputs)
        z = transform(transform.normalised(z) if self.settings.normalise else z, self._place[module])
        return z[:, : x.shape[1]], z[:, x.shape[1] :]

    def change(self, module: str, x: torch.Tensor, delta: torch.Tensor) -> LowRank:
        """The change of a module's weight: -rate times the sum over tokens of delta' (x')^T, a rank a token."""
        new_x, new_delta = self(module, x, delta)  # (tokens, inputs), (tokens, outputs)
        return LowRank(-self.rates[self._number[module]] * new_delta.T, new_x)

    def transform_of(self, module: str) -> _Transform:
        return self.transforms[_key(self.shapes[module])]  # type: ignore[return-value]

    def save(self, path: Path | str) -> None:
        """Write it, whole or not at all: one safetensors file with its manifest in it and beside it."""
        about = {
            "format": FORMAT, "model": self.model, "settings": asdict(self.settings), "modules": self.shapes,
            "about": self.about, "versions": versions(),
        }  # fmt: skip
        write_tensors(Path(path), {name: t.detach().cpu() for name, t in self.state_dict().items()}, about)
        write_manifest(
            path, command="train-mend", parameters=asdict(self.settings), inputs=self.about.get("inputs", {}),
            counts={"modules": len(self.shapes), **self.about.get("counts", {})},
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path | str, lm: LanguageModel) -> "MendNetwork":
        """Read a network that was trained for this model, onto its device.

        Raises `ModelError` for a network of another model, `DataError` for any other file.
        """
        tensors, about = read_tensors(Path(path), GIVE)
        network = cls.of(tensors, about, path)
        network.check(lm)
        return network.to(lm.device)

    @classmethod
    def of(cls, tensors: dict[str, torch.Tensor], about: Json, path: Path | str) -> "MendNetwork":
        """From what a file holds. Raises `DataError` where that is no network."""
        if about.get("format") != FORMAT:
            raise DataError(f"{path} is not a network for MEND (no {FORMAT!r} in it); {GIVE}")
        try:
            settings = MendSettings(**{**about["settings"], "layers": tuple(about["settings"]["layers"])})
            shapes = {name: (shape[0], shape[1]) for name, shape in about["modules"].items()}
            network = cls(shapes, settings, about["model"], tensors["rates"].dtype, about["about"])
            network.load_state_dict(tensors)
        except (LookupError, TypeError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{path} is a broken network for MEND ({reason}); {GIVE}") from error
        return network

    def fingerprint(self) -> str:
        """SHA-256 over its weights and settings."""
        digest = hashlib.sha256(json.dumps(asdict(self.settings), sort_keys=True).encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            hash_into(digest, tensor)
        return digest.hexdigest()

    def check(self, lm: LanguageModel) -> None:
        """Raise `ModelError` unless the network was trained for this model, `ConfigError` of a chat."""
        if lm.style.kind != "raw":
            raise ConfigError(
                "MEND's network learned from raw text, so it cannot edit in --format chat; use raw, or another method"
            )
        made_on = {name: value for name, value in self.about.get("inputs", {}).items() if name in DESCRIBED}
        fix = "train one for it with anachron train-mend"
        require_own(lm, self.model, made_on or None, "the network", fix)


def _key(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def untrained_network(lm: LanguageModel, settings: MendSettings, sites: Sites) -> MendNetwork:
    """A network for this model that changes no gradient yet; float32, or float64 for a model in float64."""
    shapes = edited_modules(lm, settings, sites)
    dtype = wide_dtype(weight_of(lm.model, next(iter(shapes))).dtype)
    return MendNetwork(shapes, settings, model_fingerprint(lm), dtype).to(lm.device)


def mend(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: MendSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """What the network makes of each request's gradient (of its target's mean loss): the sum, or one edit each.

    A change has a rank for each token that a gradient reaches, until that takes more room than the weight itself; from
    there on it is dense. Raises `ConfigError` where there is no network or it edits other modules than the settings
    say, `ModelError` for a network of another model, `DataError` where a gradient is not a number.
    """
    network = resources.network
    if not isinstance(network, MendNetwork):
        raise ConfigError("MEND needs its trained network; train one with anachron train-mend and give it")
    modules = edited_modules(lm, settings, sites)
    if modules != network.shapes:
        raise ConfigError(
            f"the network edits {', '.join(network.shapes)} (layers {list(network.settings.layers)}), and the settings "
            f"ask for layers {list(settings.layers)}; give the layers that it was trained for"
        )
    network.check(lm)
    texts = encoded(lm, [(request.text, request.target) for request in requests])
    edits = [Edit(model=network.model) for _ in (texts if apart else [None])]
    for group in plan_batches(texts, lm.vocabulary, Limits()):
        factors = gradients(lm, [texts[i] for i in group], modules)
        with torch.no_grad():
            if apart:
                for place, i in enumerate(group):
                    edits[i] = _compact(_made(network, {name: part.of(place) for name, part in factors.items()}))
            else:
                edits[0] = _compact(edits[0] + _made(network, factors))
    return edits


def _made(network: MendNetwork, factors: Mapping[str, Factors]) -> Edit:
    changes = {name: network.change(name, part.x, part.delta) for name, part in factors.items()}
    return Edit(changes, model=network.model)


def _compact(edit: Edit) -> Edit:
    """Each change low-rank or dense, whichever takes less room."""
    large = {
        name: Dense(delta.dense())
        for name, delta in edit.deltas.items()
        if isinstance(delta, LowRank) and delta.rank * sum(delta.shape) > math.prod(delta.shape)
    }
    return replace(edit, deltas={**edit.deltas, **large})


_AUTHORS = "eric-mitchell/mend config/alg/mend.yaml and config/model/"
_EASY = "zjunlp/EasyEdit hparams/TRAINING/MEND/"
_TRAINING = "but for a number of steps, without validation"

MEND = Method(
    "MEND", MendSettings, mend, needs_network=True, needs_subject=False,
    presets={
        "GPT-J": Preset({"layers": (25, 26, 27)}, _AUTHORS + "gptj.yaml", _TRAINING),
        "GPT-2-XL": Preset({"layers": (45, 46, 47)}, _AUTHORS + "gpt2xl.yaml", _TRAINING),
        "Llama-7B": Preset({"layers": (29, 30, 31)}, note="the last three layers, as for GPT-J"),
        "Llama-3-8B": Preset({"layers": (29, 30, 31)}, _EASY + "llama3-8B.yaml", _TRAINING),
        "Qwen2.5-7B": Preset({"layers": (25, 26, 27)}, _EASY + "qwen2.5-7b.yaml", _TRAINING),
        "Mistral-7B": Preset({"layers": (29, 30, 31)}, _EASY + "mistral-7b.yaml", _TRAINING),
        "demo": Preset({"layers": (3, 4, 5), "rate": 1e-4, "lr_rate": 1e-3, "steps": 1000}),
    },
)  # fmt: skip
