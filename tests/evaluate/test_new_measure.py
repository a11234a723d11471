"""The measure of ``docs/add-a-measure.md``, added as the page says, to a copy of the package."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch

import anachron
from anachron.data.updates.cases import load_cases
from anachron.evaluate.measures.catalogue import MEASURES
from anachron.lm.loading import load_model

RECIPE = Path(__file__).parents[2] / "docs" / "add-a-measure.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_every_measure_has_a_name_of_its_own_and_keys_that_tables_know() -> None:
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    assert all(measure.entry for measure in MEASURES)


@pytest.mark.full
def test_the_measure_of_the_recipe_is_added_by_a_file_and_a_line(tmp_path: Path) -> None:
    copy = tmp_path / "src" / "anachron"
    shutil.copytree(Path(anachron.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    measures = copy / "evaluate" / "measures"
    (measures / "capitals.py").write_text(block("python"), "utf-8")
    catalogue = (measures / "catalogue.py").read_text("utf-8")
    catalogue = catalogue.replace("import atoke, audit, dated", "import atoke, audit, capitals, dated")
    (measures / "catalogue.py").write_text(catalogue.replace("atoke.ATOKE,", "atoke.ATOKE, capitals.CAPITALS,"))
    for name, module in (("anachron", "-m anachron"), ("python", "")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (tmp_path / name).chmod(0o755)
    where = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block("bash")], cwd=tmp_path, env=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(tmp_path / "runs" / "capitals" / "capitals.parquet")
    assert table.height == 2 and {"before", "after", "kind", "prompt_number", "case_id"} <= set(table.columns)
    lm = load_model("demo", device="cpu")
    for case, before in zip(load_cases("mini-updates", limit=2).cases, table["before"], strict=True):
        (text,) = lm.encode([(case.text, str(case.new).upper(), None)])
        with torch.no_grad():
            logp = lm.model(torch.tensor([text.ids])).logits[0].log_softmax(-1)
        wanted = math.exp(sum(float(logp[place - 1, text.ids[place]]) for place in text.targets) / len(text.targets))
        assert before == pytest.approx(wanted, rel=1e-3)
