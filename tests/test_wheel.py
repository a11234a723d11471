"""The wheel: what is in it, and that it works in an environment that has nothing but what it requires."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from anachron.core.errors import how_to_install
from anachron.report.export import inspect_package

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FACTS = "subject,relation,object,start,end\nthe USA,president,Barack Obama,2009-01-20,2017-01-20\n"
NEEDS = {  # a command -> the extra that it needs, which it says before any work
    "report demo-run/sample/demo --out page": "report",
    "check demo --facts facts.csv --out check --set page=true": "report",
    "evaluate demo --updates mini-updates --limit 1 --methods PROMPT --out edits": "edit",
    "probe demo --dataset NOBODY/NOTHING --out hub": "hub",
    "probe demo --dataset mini --limit 1 --out ray --workers 2": "ray",
    "probe model.gguf --dataset mini --limit 1 --out gguf": "gguf",
    "probe served --dataset mini --limit 1 --out chat --backend chat --base-url http://localhost:9/v1": "llm",
    "wikidata ingest dump.json.gz --date 2021-01-04 --out snapshot": "wikidata",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the project."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, copy]
    subprocess.run(pip, check=True, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_all_its_data(wheel):
    assert wheel.name.startswith(f"anachron-{PROJECT['version']}-")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    files = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "anachron").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert files <= names and "anachron/py.typed" in names
    assert not any(name.startswith(("tests/", "tools/", "docs/")) for name in names)
    for label, address in PROJECT["urls"].items():
        assert f"Project-URL: {label}, {address}" in metadata


def required(name: str, seen: set[str]) -> set[str]:
    """The distributions that one requires without extras, and those that these require, as they are installed here."""
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        needed = canonicalize_name(requirement.name)
        if needed in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            distribution(needed)
        except PackageNotFoundError:  # of another platform's torch, or of an extra that nobody asked for
            continue
        seen.add(needed)
        required(needed, seen)
    return seen


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel and links to the required packages that are installed here.

    So torch is the one that the project is tested with, and nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps", wheel]
    subprocess.run(pip, check=True)
    for name in required_by_the_project():
        for file in distribution(name).files or []:
            top = file.parts[0]
            source = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and source.exists() and not (packages / top).exists():
                (packages / top).symlink_to(source)
    return folder / "bin"


def required_by_the_project() -> set[str]:
    direct = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    return direct | {needed for name in direct for needed in required(name, set(direct))}


def run(bare: Path, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"HF_HUB_OFFLINE": "1", "ANACHRON_CACHE": str(folder / "cache")}
    words = [bare / "anachron", *command.split()]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_without_extras_the_demo_runs_and_each_command_names_the_extra_that_it_needs(bare, tmp_path):
    for module in ("plotly", "matplotlib", "nltk", "bm25s", "datasets", "duckdb", "openai", "ray", "gguf", "xllamacpp"):
        there = subprocess.run([bare / "python", "-c", f"import {module}"], capture_output=True)
        assert there.returncode, f"{module} is of an extra, and is there"
    assert run(bare, tmp_path, "--version").stdout.strip() == PROJECT["version"]
    demo = run(bare, tmp_path, "demo --out demo-run")
    assert demo.returncode == 0, demo.stderr
    assert "fluency is left out" in demo.stderr and needed("report") in demo.stdout + demo.stderr
    (tmp_path / "facts.csv").write_text(FACTS)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "dump.json.gz").write_bytes(b"")
    for command, extra in NEEDS.items():
        done = run(bare, tmp_path, command)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode and len(lines) == 1, f"{command}: {done.stderr}"
        assert needed(extra) in lines[0], f"{command}: {lines[0]}"


@pytest.mark.full
def test_the_first_commands_of_the_readme_run_with_what_its_install_line_brings(bare, tmp_path):
    """The first block that installs: without extras, so in the environment above; its own words, in its order."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    install, *commands = next(block for block in blocks if "pip install" in block).strip().splitlines()
    assert install == "pip install -c constraints.txt ."
    assert any(line.startswith("anachron check demo ") for line in commands)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"HF_HUB_OFFLINE": "1", "PATH": f"{bare}{os.pathsep}{os.environ['PATH']}"}
    words = ["bash", "-euc", "\n".join(commands)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no page is written" in " ".join(done.stderr.split()) and needed("report") in " ".join(done.stderr.split())
    assert (tmp_path / "runs" / "check" / "verdicts.csv").is_file()


def needed(extra: str) -> str:
    """How the packages of an extra are installed, by the project's own list."""
    return f"pip install {shlex.join(PROJECT['optional-dependencies'][extra])}"


@pytest.mark.parametrize("extra", ["edit", "gguf", "hub", "llm", "ray", "report", "s3", "wikidata"])
def test_messages_name_the_packages_that_an_extra_needs(extra: str):
    assert how_to_install(extra) == needed(extra)


def test_an_extra_that_names_another_is_installed_with_it():
    both = [*PROJECT["optional-dependencies"]["gguf"], *PROJECT["optional-dependencies"]["llamacpp"][1:]]
    assert how_to_install("llamacpp") == f"pip install {shlex.join(both)}"


def test_nobody_is_told_to_install_a_name_from_a_registry_that_is_not_ours_there():
    """There is no release yet: whoever registered the name would run code with every reader who followed us."""
    repository = f"git+{PROJECT['urls']['Repository']}"
    told = re.compile(
        r"""(?:pip3? install|uv add|uvx|pipx (?:install|run))\s(?!\s*--from \.)"""
        r"""[^\n`]*?(?<![\w./+-])(anachron\b[^\n`'"]*)"""
    )
    places = [*ROOT.glob("*.md"), ROOT / "Dockerfile", *ROOT.glob("docs/**/*"), *ROOT.glob("recipes/*")]
    places += [*ROOT.glob("src/**/*.py"), *ROOT.glob("tools/**/*.py"), *ROOT.glob("src/**/*.html")]
    for place in (place for place in places if place.is_file() and place.suffix not in (".svg", ".png")):
        text = place.read_text()
        for found in told.findall(text):
            assert re.match(rf"anachron(\[[\w,]+\])? @ {re.escape(repository)}\b", found), f"{place}: {found}"
        for address in re.findall(r"git\+https?://[^\s'\"#@)]+", text):
            assert address == repository, f"{place}: {address}"
    package = inspect_package.project_file("questions")
    assert "anachron" not in " ".join(tomllib.loads(package)["project"]["dependencies"])


def test_the_project_says_its_version_and_addresses_once():
    """Everything else asks the installed package, or is held against it by a test."""
    import anachron

    assert re.fullmatch(r"\d+\.\d+\.\d+", PROJECT["version"])
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    address = PROJECT["urls"]["Homepage"]
    others = [path for path in (ROOT / "src").rglob("*.py") if address in path.read_text("utf-8")]
    assert others == []
    for path in (ROOT / "src").rglob("*.py"):
        assert f'"{PROJECT["version"]}"' not in path.read_text("utf-8"), f"{path} has a version of its own"
    assert anachron.__version__ == distribution("anachron").version
