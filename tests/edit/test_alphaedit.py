"""AlphaEdit's null space: its size and share of the trace, both thresholds, and settings that all count."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Edit
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edit
from anachron.edit.method import Resources
from anachron.edit.methods.alphaedit import AlphaEditSettings, NullSpace, null_space_use
from anachron.edit.plan import plan_edits
from anachron.edit.requests import EditRequest
from anachron.lm.loading import load_model
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm

EIGENVALUES = [1e-3, 2e-3, 7e-3, 0.05, 0.94]  # of trace 1: the least three hold 0.001, 0.003, 0.01 of it
VECTORS = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
REQUEST = EditRequest("The president of {} is", "France", "Berlin")
SETTINGS = AlphaEditSettings(layers=(1, 2), steps=4, clamp=0.5, ridge=0.1, threshold=0.1, seed=1,
                             context_lengths=((8, 2),), stop_below=0.0)  # fmt: skip
OTHER: dict[str, Any] = {
    "steps": 3, "rate": 0.1, "stop_below": 100.0, "decay": 5.0, "kl": 50.0, "clamp": 0.1, "contexts": (),
    "context_lengths": ((10, 2),), "context_starts": (), "seed": 2,
    "layers": (1,), "threshold": 0.3, "relative_threshold": 1e-3, "ridge": 5.0,
}  # fmt: skip


def moment(scale: float = 1.0) -> SecondMoment:
    matrix = VECTORS * torch.tensor(EIGENVALUES, dtype=torch.float64) @ VECTORS.T * scale
    return SecondMoment.of((matrix + matrix.T) / 2, "mlp")


def covariances(lm: Any, modules: tuple[str, ...]) -> dict[str, SecondMoment]:
    """C of each module, with eigenvalues from 0.01 to 10 of equal ratios."""
    found = {}
    for number, module in enumerate(modules):
        chance = torch.Generator().manual_seed(number)
        size = lm.model.get_submodule(module).weight.shape[1]
        vectors, _ = torch.linalg.qr(torch.randn(size, size, generator=chance, dtype=torch.float64))
        matrix = vectors * torch.logspace(-2, 1, size, dtype=torch.float64) @ vectors.T
        found[module] = SecondMoment.of((matrix + matrix.T) / 2, module)
    return found


@pytest.mark.parametrize(
    ("change", "dimension", "share"),
    [
        ({"threshold": 1.5e-3}, 1, 0.001),
        ({"threshold": 0.02}, 3, 0.01),
        ({"threshold": 2.0}, 5, 1.0),
        ({"threshold": None, "relative_threshold": 0.0099}, 2, 0.003),
        ({"threshold": None, "relative_threshold": 0.0101}, 3, 0.01),
        ({"threshold": 2.0, "relative_threshold": 0.0101}, 3, 0.01),
        ({"threshold": 1.5e-3, "relative_threshold": 0.0101}, 1, 0.001),
    ],
)
def test_size_and_share_of_the_trace(change: dict[str, float], dimension: int, share: float):
    null_space = NullSpace.of(moment(), replace(SETTINGS, **change))
    assert null_space.described() == {"dimension": dimension, "inputs": 5, "trace_share": pytest.approx(share)}
    projection = null_space.basis @ null_space.basis.T
    assert torch.allclose(projection, VECTORS[:, :dimension] @ VECTORS[:, :dimension].T, atol=1e-9)
    # the share is the mean of |P k|^2 over that of |k|^2: trace(P C) / trace(C)
    assert float((projection @ moment().matrix).trace() / moment().matrix.trace()) == pytest.approx(share)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_relative_threshold_is_blind_to_the_scale_of_c(scale: float):
    assert NullSpace.of(moment(scale), replace(SETTINGS, threshold=None, relative_threshold=0.0101)).basis.shape == (
        5,
        3,
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threshold": 1e-9}, r"mlp: no eigenvalue .* is below 1e-09 \(the least is 0\.001\); raise the threshold"),
        (
            {"relative_threshold": 1e-4},
            r"holds at most 0\.0001 of its trace \(the least holds 0\.001\); raise the relative_",
        ),
    ],
)
def test_no_empty_direction_is_said_before_any_update(change: dict[str, float], says: str):
    with pytest.raises(ConfigError, match="AlphaEdit has neither threshold nor relative_threshold; give one"):
        null_space_use(replace(SETTINGS, threshold=None), ["mlp"], {"mlp": moment()})
    with pytest.raises(DataError, match=says):
        null_space_use(replace(SETTINGS, **change), ["mlp"], {"mlp": moment()})


def test_a_null_space_that_is_not_empty_is_warned_of():
    use = null_space_use(replace(SETTINGS, threshold=0.02), ["mlp"], {"mlp": moment()})
    assert use.summary == "null space: 3 of 5 directions with 1 % of the trace"
    use = null_space_use(replace(SETTINGS, threshold=0.1), ["mlp"], {"mlp": moment()})
    assert use.summary == "null space: 4 of 5 directions with 6 % of the trace"
    (warning,) = use.warnings
    assert "null space of mlp holds up to 6 % of the covariance's trace, more than 1 %" in warning
    assert not null_space_use(replace(SETTINGS, relative_threshold=0.0099), ["mlp"], {"mlp": moment()}).warnings


def test_a_plan_says_it_and_edits_record_it():
    lm = make_edit_lm("llama")
    changes = {"layers": [1, 2], "threshold": None, "relative_threshold": 0.05, "contexts": [], "steps": 2}
    (planned,) = plan_edits(
        lm, ["AlphaEdit"], changes={"AlphaEdit": changes}, collect=lambda m: covariances(lm, tuple(m))
    )
    modules = tuple(find_sites(lm.model).mlp_out(layer) for layer in (1, 2))
    known = {module: NullSpace.of(c, planned.settings) for module, c in covariances(lm, modules).items()}
    assert "; null space: " in planned.source and planned.warnings
    edit = make_edit(lm, "AlphaEdit", [REQUEST], planned.settings, planned.resources)
    assert edit.about["null_space"] == {module: null_space.described() for module, null_space in known.items()}
    assert edit.about["method"] == "AlphaEdit"
    with pytest.raises(ConfigError, match="AlphaEdit needs the covariance"):
        plan_edits(lm, ["AlphaEdit"], identity_covariance=True)


def changes_of(edit: Edit) -> torch.Tensor:
    return torch.cat([delta.dense().flatten() for delta in edit.deltas.values()])


@pytest.mark.few(5)
@pytest.mark.parametrize("name", [field.name for field in fields(AlphaEditSettings)])
def test_every_setting_changes_the_edit(name: str):
    lm = make_edit_lm("llama")
    modules = tuple(find_sites(lm.model).mlp_out(layer) for layer in (1, 2))
    resources = Resources(covariances(lm, modules))
    before, after = (
        changes_of(make_edit(lm, "AlphaEdit", [REQUEST], settings, resources))
        for settings in (SETTINGS, replace(SETTINGS, **{name: OTHER[name]}))
    )
    assert before.shape != after.shape or (before - after).abs().max() > 1e-3 * before.abs().max()


@pytest.mark.slow
def test_the_demo_models_preset_keeps_to_empty_directions():
    """And a threshold that takes in more is warned of, with the share that NumPy finds of its own covariance."""
    lm, found = load_model("demo"), {}

    def collected(modules: Any) -> dict[str, SecondMoment]:
        found.update(collect_covariance(lm, modules, "mini"))
        return found

    (planned,) = plan_edits(lm, ["AlphaEdit"], collect=collected)
    assert "; null space: " in planned.source and not planned.warnings
    spectra = [np.linalg.eigvalsh(moment.matrix.double().numpy()) for moment in found.values()]
    shares = [np.cumsum(values) / values.sum() for values in spectra]
    threshold = max(values[np.searchsorted(share, 0.2)] for values, share in zip(spectra, shares, strict=True)) * 1.001
    most = max(values[values < threshold].sum() / values.sum() for values in spectra)
    assert most > 0.2
    changes = {"AlphaEdit": {"threshold": threshold, "relative_threshold": None}}
    (planned,) = plan_edits(lm, ["AlphaEdit"], changes=changes, collect=collected)
    (warning,) = planned.warnings
    assert f"holds up to {100 * most:.2g} % of the covariance's trace" in warning
