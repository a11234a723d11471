"""tools/small_models.py and its recipe: what is drawn, what is known, and what fills the page of results."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import anachron

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from small_models import FACT, draw, page, provenance, sample, successions, table_of  # noqa: E402


def statements(facts=6, dates=7):
    rows = [
        {
            "SubjectLabel": f"s{fact}", "RelationID": "P6", "ObjectLabel": "o", "StartDate": "2001", "Granularity": g,
            "Status": status, "Time": str(date),
        }
        for fact in range(facts)
        for g in ("year", "day")
        for status in ("Correct", "Incorrect", "Transitional")
        for date in range(dates)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_a_sample_has_so_many_facts_and_at_most_so_many_dates_of_each_kind():
    table = statements()
    drawn = sample(table, facts=4, dates=5)
    assert drawn.select(FACT).unique().height == 4
    counts = drawn.group_by([*FACT, "Granularity", "Status"]).len()
    assert counts.height == 4 * 2 * 2 and set(counts["len"]) == {5} and "Transitional" not in drawn["Status"]
    assert drawn.join(table, on=table.columns, how="semi").height == drawn.height
    assert drawn.equals(sample(table, facts=4, dates=5))
    assert sample(table, facts=6, dates=100).height == 6 * 2 * 2 * 7


def test_updates_are_drawn_once_each_and_in_their_order():
    lines = [f"{number}\n" for number in range(100)]
    drawn = draw(lines, 20)
    assert drawn == sorted(set(drawn), key=int) and len(drawn) == 20 and drawn == draw(lines, 20) != lines[:20]
    assert draw(lines, 100) == lines
    with pytest.raises(SystemExit, match="there are 100 updates whose old fact the model knows, not 101"):
        draw(lines, 101)


def test_successions_are_asked_about_the_years_of_each_of_their_first_objects():
    table = anachron.to_published(anachron.load_dataset("mini").table, "released")
    made = successions(table, 2)
    assert made.columns == table.columns
    assert {*made["Granularity"]} == {"year"} and {*made["Status"]} == {"Correct", "Incorrect"}
    assert made.select("SubjectLabel", "RelationID").n_unique() > 300
    facts = table.unique(FACT, maintain_order=True)
    held = table.filter(pl.col("Granularity") == "year", pl.col("Status") == "Correct")
    groups = [*made.group_by("SubjectLabel", "RelationID", maintain_order=True)][::40]
    assert len(groups) > 5
    for (subject, relation), part in groups:
        of_group = pl.col("SubjectLabel") == subject, pl.col("RelationID") == relation
        own = facts.filter(*of_group).sort("StartDate")
        first = own["ObjectLabel"].to_list()[:2]
        assert own.height > 1 and {*part["ObjectLabel"]} <= {*first}
        wanted = set()
        for name in first:
            years = held.filter(*of_group, pl.col("ObjectLabel") == name)["Time"].sort().to_list()
            wanted |= {years[0], years[len(years) // 2], years[-1]} if years else set()
        assert {*part["Time"]} == wanted


def test_a_page_gets_the_columns_that_it_names_and_keeps_its_words(tmp_path):
    (tmp_path / "a.md").write_text(
        "## Title\n\n| x | y | z |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 4 | 2 | 6 |\n| 1 | 5 | 9 |\n\nSource: s.\n"
    )
    text = "Before\n<!-- table: a.md columns: z, x where: y=2, x=4 -->\nold\n<!-- end -->\nAfter\n"
    made = page(tmp_path, text)
    table = "| z | x |\n| --- | --- |\n| 6 | 4 |\n"
    assert made == f"Before\n<!-- table: a.md columns: z, x where: y=2, x=4 -->\n{table}<!-- end -->\nAfter\n"
    assert page(tmp_path, made) == made and table_of(tmp_path / "a.md", [], {}).count("\n") == 5
    with pytest.raises(SystemExit, match="no column w; there are x, y, z"):
        page(tmp_path, text.replace("z, x", "w"))


def test_a_table_of_a_step_that_was_not_run_is_left_as_it_is(tmp_path, capsys):
    text = "<!-- table: b.md -->\nold\n<!-- end -->\n"
    assert page(tmp_path, text) == text and "left as it is: b.md" in capsys.readouterr().err
    run = {
        "status": "done", "statements": 1200, "decoy_statements": 3000, "finished": "2026-11-29T01:02:03",
        "sessions": [{"versions": {"anachron": "0.1.0", "torch": "2", "transformers": "5"},
                      "hardware": {"device": "cpu", "cores": 2}}],
    }  # fmt: skip
    for name in ("m/raw", "m/chat"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(json.dumps(run if name == "m/raw" else run | {"status": "running"}))
    head = "| run | what | finished | anachron, torch, transformers | machine |\n| --- | --- | --- | --- | --- |\n"
    old = "| m/dated | 8 methods | 2026-11-23 | 0.1.0, 2, 5 | cpu, 2 cores |\n"
    text = f"<!-- table: provenance -->\n{head}{old}| m/raw | was before |\n<!-- end -->\n"
    new = "| m/raw | 1,200 statements and 3,000 of decoys | 2026-11-29 | 0.1.0, 2, 5 | cpu, 2 cores |\n"
    assert page(tmp_path, text) == f"<!-- table: provenance -->\n{head}{old}{new}<!-- end -->\n"


@pytest.mark.slow
def test_the_recipe_runs_from_models_to_tables_and_again_makes_nothing_twice(tmp_path):
    """On the bundled model in place of the two: every step but the page, whose words stand in docs/results.md."""
    shutil.copytree(Path(anachron.__file__).parent / "lm" / "demo_model", tmp_path / "models" / "tiny")
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "MODELS": "tiny", "FACTS": "6",
        "DATES": "3", "UPDATES": "3", "DATED": "2", "AFTER": "1,3", "METHODS": "FT,ROME,PROMPT",
        "WAYS": "PROMPT,FT", "LONG": "4", "LONG_AFTER": "1,4", "LONG_METHODS": "FT,RETRIEVAL",
        "CORPUS_TOKENS": "5000", "FLUENCY_TOKENS": "20",
        "STEPS": "probe crossed picture known independent sequence dated advice long", "OUT": str(tmp_path / "out"),
        "ANACHRON_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip

    def run():
        recipe = [ROOT / "recipes" / "small-models.sh", tmp_path / "models"]
        done = subprocess.run(recipe, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("part-*.parquet")}

    first = run()
    out = tmp_path / "out"
    assert pl.read_csv(out / "tables" / "summary.csv")["facts"].to_list() == [6] * 8  # raw and chat
    assert pl.read_csv(out / "crossed" / "crossed.csv")["successions"][0] > 100
    assert "president of the USA?" in (out / "timeline.svg").read_text()
    lines = (out / "tiny" / "known.jsonl").read_text().splitlines()
    lm = anachron.load_model("demo")
    for update in map(json.loads, lines):  # scored one by one, not in packs
        for prompt in [update["update_prompt"], *update["generalization_prompts"]]:
            score = {
                item["decision"]: naive_mean_logp(lm, prompt.split(" ____")[0], item["label"])
                for item in update["objects"]
            }
            assert score["obsolete"] > score["new"]
    for name, done in (("independent", 3), ("dated", 2)):
        table = pl.read_csv(out / "tiny" / name / "report" / "edits.csv")
        assert table["method"].to_list() == ["unedited", "FT", "r-ROME", "PROMPT"] and set(table["done"]) == {done}
        assert table["efficacy_success"][0] == table["generalization_success"][0] == 0  # known is not yet updated
    gains = table_of(out / "tiny" / "advice" / "report" / "markdown" / "gains.md", ["updates", "way"], {}).splitlines()
    assert gains[2:] == ["| 3 | nothing |", "| 3 | PROMPT |", "| 3 | FT |"]
    edits = pl.read_csv(out / "tiny" / "long" / "report" / "lifelong.csv")
    assert sorted(set(edits["edits"])) == [1, 4] and set(edits["method"]) == {"unedited", "FT", "RETRIEVAL"}
    assert "| tiny/advice | 2 ways |" in provenance(out) and "| tiny/long | 2 methods |" in provenance(out)
    assert "at-00003" not in provenance(out)
    assert run() == first and len(first) > 6


def naive_mean_logp(lm, prompt, answer):
    import torch

    start = len(lm.tokenizer(prompt)["input_ids"])
    ids = torch.tensor([lm.tokenizer(f"{prompt} {answer}")["input_ids"]])
    with torch.inference_mode():
        logp = torch.log_softmax(lm.model(ids).logits[0].double(), -1)
    return np.mean([logp[place - 1, ids[0, place]].item() for place in range(start, ids.shape[1])])
