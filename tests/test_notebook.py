"""The notebook of first steps: its cells run in order, and what they show is what a notebook draws as a table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "first-steps.ipynb"
# As a notebook does: the last expression of a cell is what it shows, as HTML where it can be drawn so.
RUN = """
import ast, json, sys
names, shown = {"__name__": "__main__"}, []
for number, source in enumerate(json.load(sys.stdin)):
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    draw = getattr(value, "_repr_html_", None)
    shown.append([type(value).__name__, repr(value) if draw is None else draw()])
print(json.dumps(shown))
"""


def cells() -> list[dict]:
    return json.loads(NOTEBOOK.read_text("utf-8"))["cells"]


def test_the_notebook_is_one_and_holds_no_outputs():
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in cells()}) == len(cells())
    for cell in cells():
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        )
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.slow
def test_every_cell_runs_and_shows_something(tmp_path: Path):
    sources = ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(sources), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = json.loads(done.stdout.splitlines()[-1])
    assert [name for name, _ in shown] == ["Fact", "DataFrame", "ProbeResult", "Written", "Edit", "dict"]
    assert all("<table" in text for _, text in shown[:-1])
    assert all(text in shown[0][1] for text in ("Barack Obama", "2009", "2017"))
    assert all(text in shown[1][1] for text in ("Angela Merkel", "verdict"))
    before, after = (float(number) for number in shown[-1][1].split("'Astana': '")[1].split("'")[0].split()[::2])
    assert after > before
