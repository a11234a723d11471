"""A method of another package, the one of ``docs/add-a-method.md``: a module and an entry point, as pip leaves them."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anachron.cli.main import run_command
from anachron.core.errors import ConfigError
from anachron.edit.methods import METHODS, method_named, method_names, methods
from anachron.edit.storage import load_edit

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-method.md").read_text("utf-8")
MODULE = PAGE.split("```python\n")[1].split("```")[0] + 'ROME = Method("rome", Settings, scale)\n'
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package that names one object of the module above as a method."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def put(name: str, value: str = "scaling_method:SCALE") -> None:
        about = tmp_path / "site" / "scaling-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scaling\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[anachron.methods]\n{name} = {value}\n")
        (tmp_path / "site" / "scaling_method.py").write_text(MODULE)
        methods.cache_clear()

    yield put
    methods.cache_clear()
    sys.modules.pop("scaling_method", None)


@pytest.mark.full
def test_it_edits_and_is_judged_beside_the_others(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    install("Scale")
    assert method_named("scale").name == "Scale"
    assert list(methods()) == [*METHODS, "Scale"]
    asked = ["demo", "--updates", "mini-updates", "--limit", "2"]
    assert (
        run_command(["edit", *asked, "--method", "scale", "--out", str(tmp_path / "e.safetensors"), "--json"], True)
        == 0
    )
    made = load_edit(tmp_path / "e.safetensors")
    assert list(made.deltas) == ["model.layers.2.mlp.down_proj"]
    assert made.about["method"] == "Scale"
    assert made.about["settings"] == {"layer": 2, "share": 0.25}
    assert made.about["settings_from"] == "ours, chosen for the demo model"
    capsys.readouterr()
    more = ["--methods", "Scale,Scale dated", "--set", "Scale.share=0.5", "--fluency-tokens", "0", "--json"]
    assert run_command(["evaluate", *asked, *more, "--out", str(tmp_path / "run")], True) == 0
    rows = json.loads(capsys.readouterr().out)["summary"]
    found = [(row["method"], row["variant"]) for row in rows]
    assert found == [("unedited", "plain"), ("Scale", "plain"), ("Scale", "dated")]
    assert rows[1]["failed"] == 0
    identity = json.loads((tmp_path / "run" / "run.json").read_text())["methods"]["Scale"]["identity"]
    assert identity["settings"] == {"layer": 2, "share": 0.5}


def test_an_unknown_method_is_told_of_it_too(install: Install):
    install("Scale")
    with pytest.raises(ConfigError, match=r"choose one of FT, .*RETRIEVAL, Scale"):
        method_named("Scala")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("Scale", "scaling_method:scale", r"is <function scale.*it must be a Method of that name"),
        ("Scale", "scaling_method:GONE", r"cannot be loaded \(AttributeError: .*GONE"),
        ("Scale", "no_such_module:SCALE", r"cannot be loaded \(ModuleNotFoundError: .*no_such_module"),
        ("Other", "scaling_method:SCALE", r"must be a Method of that name \(scaling_method:SCALE\)"),
        ("rome", "scaling_method:ROME", "two methods are called 'rome', one of them by scaling_method:ROME; rename it"),
    ],
)
def test_what_is_no_method_of_its_own_is_refused(install: Install, name: str, value: str, says: str):
    install(name, value)
    with pytest.raises(ConfigError, match=says):
        methods()


def test_each_method_of_this_package_is_listed_under_its_name(install: Install):
    assert [method.name for method in methods().values()] == list(METHODS) == method_names()
    install("Scale", "scaling_method:SCALE")
    assert method_names() == [*METHODS, "Scale"]
