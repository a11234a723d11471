"""The page of an evaluation of edits: from a real run of a tiny model, and its rules against plain sums."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anachron
from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.run_folder import RunFolder
from anachron.report.edits.page import names_of_updates
from anachron.report.page import edits as page_edits
from anachron.report.page.edits import EDGE, FALL, SHOWN, WIDTH, Kept, Moved, broke, floor_of, keeps, moves, place, said
from anachron.report.studies import write_report
from support.browser import wider
from support.edit_models import make_edit_lm, plan_fast

FAST = {"FT": {"steps": 2, "layer": 2, "rate": 1e-2}, "ROME": {"steps": 2, "contexts": [], "layer": 1}}
EVIL = '<img src=x onerror="1">'


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """FT on two updates; the second cannot be made, for its prompt does not name its subject under ROME."""
    lm = make_edit_lm("llama")
    made = EditCase("1", "France", "The president of France is", "Angela Merkel", "Jacques Chirac", relation="P35")
    cases = CaseSet("gone.jsonl", "wikifactdiff", (made, replace(made, case_id=EVIL, prompt="He is called")), {})
    folder = tmp_path_factory.mktemp("run") / "edits"
    settings = EvaluateSettings(measures=Measures(fluency_tokens=0))
    run_evaluation(lm, cases, plan_fast(lm, FAST, "FT", "ROME"), folder, settings)
    return folder


def test_a_run_of_evaluate_has_a_page(run, tmp_path):
    made = write_report([run], tmp_path)
    text = made.page.read_text("utf-8")
    assert EVIL not in text and "<script" not in text
    scores = pl.read_parquet(run / "targets.parquet").filter(pl.col("kind") == "update")
    for row in scores.filter(pl.col("new_after").is_not_null()).iter_rows(named=True):
        for side in ("new", "old"):
            told = [f"{p:.3f}" if p >= 0.001 else f"{p:.1e}" for p in (row[f"{side}_before"], row[f"{side}_after"])]
            assert " → ".join(told) in text
    assert "update 1" in text and "gone.jsonl is missing" in text
    assert "not made: " in text and "1 could not be made" in text
    assert set(made.written.tables) == {"summary"} and (tmp_path / "tables" / "edits.csv").is_file()


def test_its_numbers_go_to_a_tracker_from_its_folder(run):
    """As those of the object; nothing is written into the folder."""
    before, seen = sorted(path.name for path in run.rglob("*")), {}
    numbers = anachron.log_to(run, SimpleNamespace(log=seen.update))
    assert numbers == seen and sorted(path.name for path in run.rglob("*")) == before
    targets = pl.read_parquet(run / "targets.parquet").filter(
        pl.col("kind") == "update", pl.col("method") == "FT", pl.col("new_after").is_not_null()
    )
    success = (targets["new_after"] > targets["old_after"]).cast(float)
    assert numbers["FT/efficacy_success"] == pytest.approx(success.mean())


def test_its_tables_can_be_set_as_papers_set_them(run, tmp_path):
    write_report([run], tmp_path)
    plain = (tmp_path / "tables" / "latex" / "edits.tex").read_text("utf-8")
    write_report([run], tmp_path, style="paper")
    for name in ("edits", "paired_tests"):
        paper = (tmp_path / "tables" / "latex" / f"{name}.tex").read_text("utf-8")
        assert paper.startswith("% \\usepackage{booktabs,siunitx}") and r"$\pm$" not in paper and "S[table" in paper
    assert "siunitx" not in plain
    with pytest.raises(ConfigError, match="'latex': choose plain or paper"):
        write_report([run], tmp_path, style="latex")


def test_what_cannot_be_reported_is_said(run, tmp_path):
    with pytest.raises(ConfigError, match="holds edits, which have a page of their own; report it alone"):
        write_report([run, run], tmp_path)
    unfinished = RunFolder.read(run)
    unfinished.record["status"] = "running"
    unfinished.save()
    try:
        with pytest.raises(DataError, match="not finished; repeat its evaluate command"):
            write_report([run], tmp_path)
    finally:
        unfinished.finish()


def test_updates_are_named_from_the_file_that_the_run_read():
    cases = load_cases("mini-updates", limit=3)
    settings = {"updates": "mini-updates", "number_of_updates": 3, "updates_fingerprint": cases.fingerprint()}
    names, facts, why_not = names_of_updates(settings)
    first = cases.cases[0]
    beside = first.nearest[1]
    assert facts[first.case_id, "nearest", 1] == f"{beside.prompt} {beside.objects[0]}"
    assert len(facts) == sum(len(case.nearest) + len(case.random) for case in cases.cases)
    assert why_not is None and list(names) == [case.case_id for case in cases.cases]
    assert first.subject in names[first.case_id] and names[first.case_id].endswith(f"{first.old} → {first.new}")
    names, facts, why_not = names_of_updates(settings | {"updates_fingerprint": "another"})
    assert names == facts == {} and "is not what the run read" in why_not


P = st.none() | st.floats(1e-30, 1)


@given(st.lists(st.tuples(P, P, P, P), min_size=1))
def test_the_line_of_a_method_counts_its_updates(values):
    made = [Moved("u", (a, b), (c, d), None) for a, b, c, d in values]
    whole = [v for v in values if None not in v]
    line = said("FT", made)
    if not whole:
        assert line == ("FT: 1 update" if len(made) == 1 else f"FT: {len(made)} updates")
    else:
        after, of, before = map(int, re.findall(r"\d+", line))
        assert (before, after, of) == (
            sum(a > c for a, _, c, _ in whole), sum(b > d for _, b, _, d in whole), len(whole)
        )  # fmt: skip


@given(st.lists(st.floats(1e-11, 1), min_size=1))
def test_all_sketches_share_a_scale_that_holds_every_probability(values):
    lowest = floor_of({"FT": [Moved("u", (p, None), (None, p), None) for p in values]})
    for p in values:
        expected = EDGE + (WIDTH - 2 * EDGE) * (math.log10(p) - lowest) / -lowest
        assert place(p, lowest) == pytest.approx(expected, abs=0.051)
        assert EDGE <= place(p, lowest) <= WIDTH - EDGE


def test_modes_are_told_apart_and_scores_find_their_updates():
    keys = {"method": "FT", "variant": "plain", "case_id": "1"}
    updates = pl.DataFrame([keys | {"mode": mode, "reason": None} for mode in ("independent", "batch")])
    numbers = {"new_before": 0.1, "old_before": 0.2, "old_after": 0.3, "kind": "update", "prompt_number": 0}
    targets = pl.DataFrame(
        [keys | numbers | {"mode": mode, "new_after": p} for mode, p in (("batch", 0.5), ("independent", 0.9))]
    )
    found = moves(targets, updates, {"1": "a name"})
    assert {label: some[0].new for label, some in found.items()} == {
        "FT (independent)": (0.1, 0.9),
        "FT (batch)": (0.1, 0.5),
    }
    assert found["FT (batch)"][0].update == "a name" and found["FT (batch)"][0].preferred == (False, True)


@given(st.lists(st.tuples(P, P, P, P), min_size=1))
def test_what_broke_is_counted_and_the_worst_comes_first(values):
    kept = [Kept(str(n), "u", (a, b), (c, d)) for n, (a, b, c, d) in enumerate(values)]
    found = broke("FT", kept)
    compared = [n for n, v in enumerate(values) if None not in v and v[0] > v[2]]
    lost = {n for n in compared if values[n][3] >= values[n][1]}
    fell = {n for n, v in enumerate(values) if None not in v[:2] and v[0] - v[1] >= FALL}
    assert list(map(int, re.findall(r"(?<![.\d])\d+(?!\.)", found["said"])))[:4] == [
        len(lost), len(compared), len(fell), len(values)
    ]  # fmt: skip
    order = sorted(sorted(lost | fell), key=lambda n: (n not in lost, -Kept("", "", values[n][:2], (None, None)).fall))
    assert [row["fact"] for row in found["rows"]] == [str(n) for n in order[:SHOWN]]
    assert found["more"] == len(order[SHOWN:])


def test_facts_beside_an_update_are_found_under_their_method():
    keys = {"mode": "batch", "variant": "plain", "case_id": "1", "kind": "nearest"}
    numbers = {"before": 0.9, "after": 0.2, "new_before": 0.1, "new_after": None}
    methods = ("unedited", 0), ("FT", 0), ("FT", 1)
    neighbours = pl.DataFrame(
        [keys | numbers | {"method": method, "number": number} for method, number in methods],
        schema_overrides={"new_after": pl.Float64},
    )
    (found,) = keeps(neighbours, {"1": "the update"}, {("1", "nearest", 0): "a fact"}).items()
    assert found[0] == "FT" and [one.fact for one in found[1]] == ["a fact", "nearest fact 2"]
    assert found[1][0] == Kept("a fact", "the update", (0.9, 0.2), (0.1, None)) and found[1][0].lost is None


@pytest.mark.full
def test_it_opens_with_before_and_after_and_nothing_is_clipped(run, tmp_path, browser):
    made = write_report([run], tmp_path)
    for width in (390, 1400):
        page = browser.new_context(viewport={"width": width, "height": 844}).new_page()
        page.goto(made.page.as_uri())
        ids = page.eval_on_selector_all("main > section", "all => all.map(one => one.id)")
        assert ids == [name for name in ("updates", "broke", "methods", "run") if name in ids] and "updates" in ids
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert wider(page) == []
        table = "document.querySelector('#methods .wide')"
        assert width == 390 or page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


def test_no_template_shows_a_method_of_a_record():
    """``row.update`` of a record is its method, and not what it holds under that name."""
    names = "|".join(name for name in dir(dict) if not name.startswith("_"))
    pages = [*Path(page_edits.__file__).parent.glob("*.html")]
    found = [match for page in pages for match in re.findall(rf"{{[{{%][^}}]*\.(?:{names})\b", page.read_text("utf-8"))]
    assert len(pages) >= 4 and found == []
