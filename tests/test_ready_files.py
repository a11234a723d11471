"""Files to be copied: the workflow and the Dockerfile name commands, options, extras and files that there are."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from support.doc_stage import check_options

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def extras_of(text: str) -> set[str]:
    return {extra for listed in re.findall(r"anachron\[([\w,-]+)\]", text) for extra in listed.split(",")}


def test_the_workflow_runs_commands_that_there_are():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "docs" / "workflows" / "facts.yml").read_text("utf-8")
    workflow = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    ran = [step["run"] for step in job["steps"] if step.get("run", "").startswith("anachron ")]
    assert len(ran) == 2
    for line in ran:
        check_options(shlex.split(line)[1:], f"facts.yml: {line}")
    written = [shlex.split(line)[shlex.split(line).index("--out") + 1] for line in ran]
    assert written[0] in shlex.split(ran[1]) and f"path: {written[0]}" in text  # the baseline, which is kept
    used = set(re.findall(r"\$([A-Z_]+)", "\n".join(ran))) | set(re.findall(r"env\.([A-Z_]+)", text))
    assert used == set(workflow["env"])
    assert extras_of(text) <= set(EXTRAS)
    assert all("@v" in step["uses"] for step in job["steps"] if "uses" in step)


def test_the_dockerfile_copies_what_the_build_reads():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= set(copied)
    listed = re.findall(r"/anachron\[([\w,]+)\]", text)
    assert listed and set(listed[0].split(",")) <= set(EXTRAS)
    assert f'anachron = "{project["scripts"]["anachron"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'ENTRYPOINT ["anachron"]' in text
