"""What ``make`` installs is pinned and has hashes; constraints.txt and the lock agree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ENTRY = re.compile(r"^([\w.-]+)==([^\s;\\]+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def usual(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {usual(name): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))}


def test_the_lock_has_hashes_of_everything_and_nothing_else():
    entries = [line for line in LOCK.splitlines() if line and not line.startswith(("#", " "))]
    assert len(ENTRY.findall(LOCK)) == len(entries) > 100


def test_the_lock_and_the_constraints_agree(pinned: dict[str, str]):
    locked = {usual(name): version for name, version, _ in ENTRY.findall(LOCK)}
    assert {name: pinned[name] for name in locked if name in pinned}.items() <= locked.items()
    assert all(re.match(r"(nvidia|cuda|triton)\b", name) for name in locked.keys() - pinned.keys())  # torch says which
    assert pinned.keys() - locked.keys() == {"lm-eval"}  # of export-test, which is installed by hand


@pytest.mark.parametrize("extras", [["edit", "report"], ["dev"], ["all", "dev", "docs"]])
def test_every_requirement_is_locked(extras: list[str], pinned: dict[str, str]):
    command = [sys.executable, str(ROOT / "tools" / "requirements.py"), *extras]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    names = {re.split(r"[\[><=;]", line)[0] for line in lines}
    assert all(usual(name) in pinned and f"\n{usual(name)}==" in LOCK for name in names)
    declared = {"setuptools>=77", *PROJECT["project"]["dependencies"]}
    for extra in extras:
        declared |= {line for line in PROJECT["project"]["optional-dependencies"][extra] if "anachron[" not in line}
    assert declared <= set(lines) and len(lines) == len(set(lines))
    assert ("duckdb>=1.1" in lines) == (extras != ["edit", "report"])  # dev and all name it through another extra
