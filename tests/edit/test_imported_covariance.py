"""Second moments and projections that others have computed, in the files that their code writes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Edit
from anachron.edit.covariance.imported import import_covariance, imported_covariance
from anachron.edit.covariance.prepare import with_factors
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edit
from anachron.edit.method import Resources
from anachron.edit.methods.alphaedit import AlphaEditSettings, null_space_use
from anachron.edit.methods.rome import RomeSettings
from anachron.edit.requests import EditRequest
from anachron.evaluate.editing import choose_methods, prepare_methods
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm

MODULES = ("model.layers.1.mlp.down_proj", "model.layers.2.mlp.down_proj")
REQUEST = EditRequest("The president of {} is", "France", "Berlin")
ALPHAEDIT = AlphaEditSettings(layers=(1, 2), steps=3, clamp=0.5, ridge=0.1, threshold=0.2, contexts=(), stop_below=0.0)
ROME = RomeSettings(layer=1, steps=3, contexts=())
TEXTS = [f"{a} and {b} are in {c}" for a in ("France", "Berlin") for b in ("Zürich", "Lima") for c in ("中国", "1998")]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


def keys(lm: LanguageModel, module: str) -> np.ndarray:
    """The inputs of a module for each token of some texts, one text at a time: (tokens, inputs)."""
    seen: list[torch.Tensor] = []
    handle = lm.model.get_submodule(module).register_forward_pre_hook(lambda _, given: seen.append(given[0][0]))
    with torch.inference_mode():
        for text in TEXTS:
            lm.model(input_ids=torch.tensor([lm.tokenizer(text)["input_ids"]]))
    handle.remove()
    return np.concatenate([one.double().numpy() for one in seen])


def as_rome_saves(path: Path, inputs: np.ndarray, dtype: Any = np.float64, **changes: Any) -> Path:
    """By the keys of ``CombinedStat(mom2=SecondMoment())``, sums one input at a time; a change of None drops a key."""
    total = np.zeros((inputs.shape[1],) * 2)
    for one in inputs:
        total += np.outer(one, one)
    state = {
        "mom2.constructor": "util.runningstats.SecondMoment()", "mom2.count": len(inputs),
        "mom2.mom2": total.astype(dtype), "constructor": "util.runningstats.CombinedStat()", "sample_size": len(TEXTS),
    } | changes  # fmt: skip
    np.savez(path, **{name: value for name, value in state.items() if value is not None})
    return path


def noisy(lm: LanguageModel, module: str) -> np.ndarray:
    """Inputs in all directions, so that their second moment has an inverse."""
    inputs = keys(lm, module)
    return np.concatenate([inputs, np.random.default_rng(0).normal(size=(500, inputs.shape[1])) / 3])


def null_space(moment: np.ndarray, threshold: float) -> np.ndarray:
    """As AlphaEdit's ``get_project``."""
    vectors, values, _ = np.linalg.svd(moment, full_matrices=False)
    small = vectors[:, values < threshold]
    return small @ small.T


def changes_of(edit: Edit) -> torch.Tensor:
    return torch.cat([delta.dense().flatten() for delta in edit.deltas.values()])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_second_moment_is_the_sum_over_the_count(lm: LanguageModel, tmp_path: Path, dtype: Any) -> None:
    inputs = noisy(lm, MODULES[0])
    path = as_rome_saves(tmp_path / "stats.npz", inputs, dtype)
    found = import_covariance(lm, path, MODULES[:1], cache=tmp_path / "cache")[MODULES[0]]
    assert found.tokens == len(inputs) and not found.is_projection
    assert found.matrix.dtype == (torch.float64 if dtype == np.float64 else torch.float32)
    expected = inputs.T @ inputs / len(inputs)
    np.testing.assert_allclose(found.matrix.numpy(), expected, rtol=1e-2 if dtype == np.float16 else 1e-5, atol=1e-3)
    again = imported_covariance(lm, MODULES[:1], cache=tmp_path / "cache")[MODULES[0]]
    assert again.fingerprint == found.fingerprint and again.tokens == found.tokens
    kept = found.manifest
    assert (kept["corpus"], kept["file"], kept["model"]) == ("imported", "stats.npz", lm.name)


def test_a_moment_saved_alone_under_its_own_name(lm: LanguageModel, tmp_path: Path) -> None:
    """``SecondMoment().save()``, in a file that is named after its module as ROME names them."""
    inputs = keys(lm, MODULES[1])
    path = tmp_path / f"{MODULES[1]}_float32_mom2_100000.npz"
    alone = {"mom2.count": None, "mom2.mom2": None, "count": len(inputs), "mom2": (inputs.T @ inputs)}
    (found,) = import_covariance(lm, as_rome_saves(path, inputs, **alone)).values()
    assert found.module == MODULES[1] and found.folder is None
    np.testing.assert_allclose(found.matrix.numpy(), inputs.T @ inputs / len(inputs), rtol=1e-9, atol=1e-12)
    with pytest.raises(ConfigError, match=rf"is of {MODULES[1]} by its name, not of {MODULES[0]}; name that"):
        import_covariance(lm, path, MODULES[:1])


def test_rome_with_an_imported_moment_is_rome_with_the_same_matrix(lm: LanguageModel, tmp_path: Path) -> None:
    inputs = noisy(lm, MODULES[0])
    imported = import_covariance(lm, as_rome_saves(tmp_path / "a.npz", inputs), MODULES[:1], cache=tmp_path)
    own = {MODULES[0]: SecondMoment.of(inputs.T @ inputs / len(inputs), MODULES[0])}
    found, expected = (changes_of(make_edit(lm, "ROME", [REQUEST], ROME, Resources(c))) for c in (imported, own))
    assert (found - expected).abs().max() < 1e-6 * expected.abs().max()
    plain = changes_of(make_edit(lm, "ROME", [REQUEST], ROME, Resources(None)))
    assert (plain - expected).abs().max() > 1e-2 * expected.abs().max()  # it does count
    assert list(tmp_path.rglob("*.cholesky-*"))  # and is factorised once


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_alphaedit_with_imported_projections_is_alphaedit_with_the_moments(
    lm: LanguageModel, tmp_path: Path, dtype: torch.dtype
) -> None:
    moments = {module: (inputs := noisy(lm, module)).T @ inputs / len(inputs) for module in MODULES}
    projections = [null_space(moment, 0.2) for moment in moments.values()]
    torch.save(torch.from_numpy(np.stack(projections)).to(dtype), tmp_path / "null_space_project.pt")
    imported = import_covariance(lm, tmp_path / "null_space_project.pt", MODULES, cache=tmp_path / "cache")
    own = {module: SecondMoment.of(moment, module) for module, moment in moments.items()}
    settings = replace(ALPHAEDIT, relative_threshold=None)
    edits = [make_edit(lm, "AlphaEdit", [REQUEST], settings, Resources(c)) for c in (imported, own)]
    found, expected = map(changes_of, edits)
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
    sizes = [round(float(np.trace(one))) for one in projections]
    assert all(0 < size < len(one) for size, one in zip(sizes, projections, strict=True))
    about = edits[0].about["null_space"]
    assert [about[module]["dimension"] for module in MODULES] == sizes
    assert [about[module]["trace_share"] for module in MODULES] == [None, None]
    use = null_space_use(settings, MODULES, imported)
    assert f"{sizes[0]:,} of {len(projections[0]):,} directions as imported" in use.summary and not use.warnings
    no_threshold = replace(ALPHAEDIT, threshold=None)  # which has nothing to decide here
    assert torch.equal(changes_of(make_edit(lm, "AlphaEdit", [REQUEST], no_threshold, Resources(imported))), found)


def test_a_projection_serves_alphaedit_alone(lm: LanguageModel, tmp_path: Path) -> None:
    projection = null_space((inputs := noisy(lm, MODULES[0])).T @ inputs / len(inputs), 0.2)
    torch.save(torch.from_numpy(projection), tmp_path / "p.pt")
    imported = import_covariance(lm, tmp_path / "p.pt", MODULES[:1], cache=tmp_path)
    (moment,) = imported.values()
    with pytest.raises(DataError, match=r"serves AlphaEdit alone; collect or import the second moment"):
        make_edit(lm, "ROME", [REQUEST], ROME, Resources(imported))
    with pytest.raises(DataError, match="nothing to regularise"):
        moment.regularised(0.1)
    prepared = with_factors(moment, ("inverse", "eigen"))
    assert prepared.rank == round(float(np.trace(projection))) and prepared.smallest_eigenvalue is None
    torch.save(torch.zeros(len(projection), len(projection)), tmp_path / "none.pt")
    nothing = import_covariance(lm, tmp_path / "none.pt", MODULES[:1])
    with pytest.raises(DataError, match="the imported projection has no direction"):
        null_space_use(ALPHAEDIT, MODULES[:1], nothing)


def test_methods_are_prepared_with_what_was_imported(lm: LanguageModel, tmp_path: Path) -> None:
    import_covariance(lm, as_rome_saves(tmp_path / "a.npz", noisy(lm, MODULES[0])), MODULES[:1], cache=tmp_path)
    changes = {"ROME": {"layer": 1, "contexts": []}}
    chosen = choose_methods(["ROME"], corpus="imported", changes=changes, cache=tmp_path)
    (planned,) = prepare_methods(lm, chosen)
    (moment,) = planned.resources.covariance.values()
    regular = choose_methods(["ROME"], corpus="imported", changes=changes, cache=tmp_path, regularise=0.5)
    (other,) = prepare_methods(lm, regular)[0].resources.covariance.values()
    raised = moment.matrix + 0.5 * moment.matrix.diagonal().mean() * torch.eye(moment.size)
    assert torch.allclose(other.matrix, raised, atol=1e-12)
    elsewhere = choose_methods(["ROME"], corpus="imported", changes={"ROME": {"layer": 2}}, cache=tmp_path)
    there = rf"no covariance of {MODULES[1]} was imported .*\(there is one of {MODULES[0]}\); .*--import FILE"
    with pytest.raises(ConfigError, match=there):
        prepare_methods(lm, elsewhere)
    with pytest.raises(ConfigError, match="--corpus-tokens 9: what was imported is read as it is"):
        choose_methods(["ROME"], corpus="imported", tokens=9)


def test_another_import_of_a_module_is_refused_and_the_same_is_not(lm: LanguageModel, tmp_path: Path) -> None:
    inputs = keys(lm, MODULES[0])
    first = as_rome_saves(tmp_path / "a.npz", inputs)
    for _ in range(2):
        import_covariance(lm, first, MODULES[:1], cache=tmp_path / "cache")
    other = as_rome_saves(tmp_path / "b.npz", inputs[:-1])
    with pytest.raises(ConfigError, match=r"holds other statistics, of a\.npz; delete it, or choose another cache"):
        import_covariance(lm, other, MODULES[:1], cache=tmp_path / "cache")
    assert imported_covariance(lm, MODULES[:1], cache=tmp_path / "cache")[MODULES[0]].tokens == len(inputs)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mom2.count": None}, r"has no mom2\.count, only .*; give second moments as ROME's layer_stats\.py"),
        ({"mom2.mom2": None, "mean": 0.5}, "has no mom2, count, only"),
        ({"mom2.count": 0}, r"mom2\.count is 0; it must be the number"),
        ({"mom2.count": 2.5}, r"mom2\.count is 2\.5"),
        ({"mom2.mom2": lambda size: np.full((size, size), np.nan)}, "NaN or infinite"),
        ({"mom2.mom2": lambda size: np.triu(np.ones((size, size)))}, "not symmetric"),
        ({"mom2.mom2": lambda size: -np.eye(size)}, "the diagonal has entries below 0"),
        ({"mom2.mom2": lambda size: np.eye(size, dtype=int)}, "holds int64; it must hold floats"),
        ({"mom2.mom2": lambda size: np.eye(4)}, r"shape \(4, 4\) for .*down_proj of tiny-llama, which has \d+ inputs"),
        ({"mom2.mom2": lambda size: np.array([{}], dtype=object)}, "cannot be read as an .npz file of plain arrays"),
    ],
)
def test_what_is_no_second_moment_is_refused(
    lm: LanguageModel, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    inputs = keys(lm, MODULES[0])
    made = {name: one(inputs.shape[1]) if callable(one) else one for name, one in changes.items()}
    with pytest.raises((DataError, ConfigError), match=says):
        import_covariance(lm, as_rome_saves(tmp_path / "a.npz", inputs, **made), MODULES[:1], cache=tmp_path / "c")
    assert not list((tmp_path / "c").rglob("*.safetensors"))


class Harmful:
    """What would write a file where it was unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_no_file_is_unpickled(lm: LanguageModel, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    np.savez(tmp_path / "a.npz", **{"mom2.mom2": np.array([Harmful(trace)], dtype=object), "mom2.count": 1})
    torch.save({"P": Harmful(trace)}, tmp_path / "a.pt")
    torch.save(Harmful(trace), tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    for name in ("a.npz", "a.pt", "b.pt"):
        with pytest.raises(DataError, match=f"{name} cannot be read as"):
            import_covariance(lm, tmp_path / name, MODULES[:1])
    assert not trace.exists()


def test_what_is_no_projection_is_refused(lm: LanguageModel, tmp_path: Path) -> None:
    size = keys(lm, MODULES[0]).shape[1]
    skew = torch.eye(size)
    skew[0, 1] = 1.0  # P P is not P
    oblique = torch.zeros(size, size)
    oblique[0, 0] = oblique[0, 1] = 1.0  # P P = P, but not symmetric
    wrong: list[tuple[Any, str]] = [
        (2 * torch.eye(size), r"matrix 0 is no projection \(P P is not P"),
        (torch.stack([torch.eye(size), skew]), "matrix 1 is no projection"),
        (oblique, "or P is not symmetric"),
        (torch.eye(4), r"a matrix of shape \(4, 4\)"),
        (torch.zeros(4, 5), r"a matrix of shape \(4, 5\)"),
        (torch.ones(3), r"holds a tensor of torch\.float32, \(3,\); give float projections"),
        (torch.eye(size, dtype=torch.int64), r"holds a tensor of torch\.int64"),
        ({"P": torch.eye(size)}, r"holds <class 'dict'>; give float projections"),
        (
            torch.stack([torch.eye(size)] * 3),
            r"number of its matrices is 3, that of the modules named 1 \(.*; name as many",
        ),
    ]
    for saved, says in wrong:
        torch.save(saved, tmp_path / "p.pt")
        names = MODULES if says.startswith("matrix 1") else MODULES[:1]
        with pytest.raises((DataError, ConfigError), match=says):
            import_covariance(lm, tmp_path / "p.pt", names)


@pytest.mark.parametrize(
    ("name", "modules", "says"),
    [
        ("p.bin", MODULES[:1], r"p\.bin: give second moments \(\.npz\) or null-space projections \(\.pt\)"),
        ("p.npz", (), "no module given"),
        ("p.npz", ("model.layers.9.mlp.down_proj",), "has no module .*; near names: model.layers"),
        ("p.npz", MODULES[:1], "cannot be read as an .npz file"),
        ("p.pt", MODULES[:1], "cannot be read as a file of plain tensors"),
    ],
)
def test_wrong_use_says_what_to_give(
    lm: LanguageModel, tmp_path: Path, name: str, modules: tuple[str, ...], says: str
) -> None:
    (tmp_path / name).write_bytes(b"no such thing")
    with pytest.raises((DataError, ConfigError), match=says):
        import_covariance(lm, tmp_path / name, modules)


def test_the_record_of_an_import_is_json(lm: LanguageModel, tmp_path: Path) -> None:
    found = import_covariance(lm, as_rome_saves(tmp_path / "a.npz", keys(lm, MODULES[0])), MODULES[:1])
    assert json.loads(json.dumps(found[MODULES[0]].manifest)) == found[MODULES[0]].manifest
