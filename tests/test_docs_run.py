"""Every bash and python block of README and the guides runs; see `staging` for what stands in for what.

The blocks of a page run one after the other in one folder, as a reader would run them. A block that cannot run is
marked by a comment on the line before it, ``<!-- not run: reason -->``; here they are counted.
"""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support.doc_stage import ROOT, Stage
from support.gguf_models import make_gguf_lm, write_gguf

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
SHOWN = {"text", "json", "toml", "yaml", "csv", "bibtex"}  # blocks of other languages are shown, not run
MODELS = ["gpt2", "google/gemma-2-2b-it", "google/gemma-2-2b", "model-a", "model-b"]
DATASETS = ["Orange/TimeStress", "facts.parquet"]


def blocks(page: Path) -> list[tuple[str, str, str | None]]:
    """(language, body, reason why it is not run) of each block of a page."""
    found = [(m["language"], m["body"], m["reason"]) for m in BLOCK.finditer(page.read_text("utf-8"))]
    assert page.read_text("utf-8").count("\n```") == 2 * len(found), f"{page.name}: a block that does not start a line"
    return found


def runnable(page: Path) -> list[tuple[str, str]]:
    return [
        (language, body) for language, body, reason in blocks(page) if language in ("bash", "python") and not reason
    ]


def test_blocks_say_what_they_are_and_few_are_not_run():
    not_run = []
    for page in PAGES:
        for language, _, reason in blocks(page):
            assert language in SHOWN | {"bash", "python"}, f"{page.name}: a block of {language!r}"
            not_run += [(page.name, reason)] if reason else []
        assert page.read_text("utf-8").count("<!-- not run") == sum(name == page.name for name, _ in not_run)
    assert Counter(name for name, _ in not_run) == {
        "README.md": 1,
        "add-a-backend.md": 1,
        "add-a-language.md": 1,
        "add-a-measure.md": 1,
        "add-a-method.md": 1,
        "api-models.md": 2,
        "build.md": 8,
        "cluster.md": 5,
        "continuous-integration.md": 1,
        "edit-methods.md": 2,
        "edits-over-time.md": 1,
        "guide.md": 4,
        "horizon.md": 2,
        "out-of-date.md": 1,
        "python.md": 2,
        "quantisation.md": 1,
        "recipes.md": 2,
        "results.md": 2,
        "topics.md": 3,
        "updates.md": 3,
        "your-facts.md": 1,
    }
    assert sum(len(runnable(page)) for page in PAGES) > 15


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if runnable(p)], ids=lambda page: page.name)
def test_blocks_of_a_page_run(page, tmp_path):
    steps = runnable(page)
    if any(re.search(r"^lm_eval ", body, re.MULTILINE) for _, body in steps):
        pytest.importorskip("lm_eval", reason="needs the extra export-test")
        assert shutil.which("lm_eval")
    made = [name for name in DATASETS if any(f"--out {name}" in body for _, body in steps)]  # by the page itself
    stage = Stage(tmp_path / "stage", MODELS, [name for name in DATASETS if name not in made])
    if any("model.gguf" in body for _, body in steps):
        write_gguf(make_gguf_lm(), stage.folder / "model.gguf")
    for number, (language, body) in enumerate(steps, 1):
        if language == "python":
            (stage.folder / f"block{number}.py").write_text(body, "utf-8")
            command = ["python", f"block{number}.py"]
        else:
            command = ["bash", "-euo", "pipefail", "-c", body]
        done = subprocess.run(
            command, cwd=stage.folder, env=stage.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{page.name}, block {number}:\n{body}\n{done.stdout}\n{done.stderr}"
