"""Runs compared fact by fact, against plain loops over the runs' own tables."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import mean

import polars as pl
import pytest

from anachron.analysis.statistics import korn_graubard_difference, sign_flips
from anachron.cli.main import run_command
from anachron.core.errors import ConfigError, DataError
from anachron.data.dataset import Dataset
from anachron.probe.horizon.find import find_horizon, read_horizon_changes
from anachron.probe.run import ProbeSettings, run_probe
from anachron.report.runs import list_runs
from anachron.report.side_by_side import COLUMNS, RunFacts, _compare, compare_runs
from anachron.report.terminal.runs import comparison_lines, facts_table
from support.asked_runs import ask, early, known
from support.tiny_models import make_lm

pytestmark = pytest.mark.full  # each makes runs of its own


@pytest.fixture(scope="module")
def probes(brief: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, few = tmp_path_factory.mktemp("probes"), brief.sample(3)
    for seed, name in enumerate(("one", "two")):
        run_probe(make_lm(seed=seed), few, folder / name, ProbeSettings(label=name))
    return folder / "one", folder / "two"


def naive(folder: Path) -> dict[str, tuple[float, bool]]:
    """W and R of each fact."""
    found = {}
    for (fact,), rows in pl.read_parquet(folder / "scores.parquet").group_by("fact_id"):
        shares = []
        for _, of_level in rows.group_by("granularity"):
            right, wrong = (of_level.filter(status=s)["logp"].to_list() for s in ("correct", "incorrect"))
            if right and wrong:
                shares.append(mean(a > b for a in right for b in wrong))
        if shares:
            found[fact] = (mean(shares), min(shares) == 1)
    return found


def test_probes_differ_by_the_w_and_r_of_each_fact(probes: tuple[Path, Path]):
    before, after = map(naive, probes)
    found = compare_runs(probes)
    (one,) = found.comparisons
    assert (one.against, one.run, one.facts, found.facts.columns) == ("one", "two", len(before), list(COLUMNS))
    for row in found.facts.iter_rows(named=True):
        (w, r), (w_after, r_after) = before[row["fact_id"]], after[row["fact_id"]]
        assert (row["win_rate_before"], row["win_rate_after"]) == pytest.approx((w, w_after))
        assert row["win_rate_difference"] == pytest.approx(w_after - w)
        assert row["change"] == ("gained" if r_after > r else "lost" if r_after < r else "same")
        assert row["state_before"] == ("robust" if r else "not robust")
    pairs = [(before[fact][0], after[fact][0]) for fact in found.facts["fact_id"]]
    assert one.difference == pytest.approx(mean(b - a for a, b in pairs))
    sizes = found.facts.filter(change="same")["win_rate_difference"].abs()
    assert sizes.to_list() == sorted(sizes, reverse=True)


def test_w_is_compared_on_the_dates_that_all_runs_share(probes: tuple[Path, Path], brief: Dataset, tmp_path: Path):
    """A run that was asked about fewer dates."""
    few = brief.sample(3)
    years = replace(few, table=few.table.filter(pl.col("granularity") == "year"))
    run_probe(make_lm(seed=1), years, tmp_path / "years", ProbeSettings(label="years"))
    found = compare_runs([probes[0], tmp_path / "years"])
    for row in found.facts.iter_rows(named=True):
        rows = pl.read_parquet(probes[0] / "scores.parquet").filter(fact_id=row["fact_id"], granularity="year")
        right, wrong = (rows.filter(status=s)["logp"].to_list() for s in ("correct", "incorrect"))
        assert row["win_rate_before"] == pytest.approx(mean(a > b for a in right for b in wrong))


def test_checks_tell_what_became_known_stale_or_is_said_otherwise(tmp_path: Path):
    """Somebody who knows, against somebody who takes the earlier year and talks of Almaty."""
    for name, script in (("knows", known), ("early", early)):
        ask(tmp_path / name, name, script, rounds=1)
    verdicts = [
        {row["fact_id"]: row for row in pl.read_csv(tmp_path / name / "verdicts.csv").iter_rows(named=True)}
        for name in ("knows", "early")
    ]
    found = compare_runs([tmp_path / "knows", tmp_path / "early"])
    assert found.facts.height == 5
    for row in found.facts.iter_rows(named=True):
        one, two = (table[row["fact_id"]] for table in verdicts)
        good = [(v["verdict"] in ("robust", "known"), v["present"] == "current") for v in (one, two)]
        asked = [(v["verdict"] is not None, v["present"] is not None) for v in (one, two)]
        up = any(a and b and y > x for x, y, a, b in zip(*good, *asked, strict=True))
        down = any(a and b and y < x for x, y, a, b in zip(*good, *asked, strict=True))
        assert (row["change"] == "lost") == (down and not up) and (row["change"] == "gained") == (up and not down)
        assert row["says_after"] == (two["answer"] or two["said"])
    (stale,) = found.facts.filter(object="Astana").iter_rows(named=True)
    assert stale["state_after"].endswith("today stale") and stale["says_after"] == "Almaty"
    assert stale["change"] == "lost"


def facts(name: str, rows: dict[str, tuple[str, bool | None, bool | None, float | None]]) -> RunFacts:
    """rows: state, whether it is known, whether today's answer is current, and W of each fact."""
    table = pl.DataFrame(
        [
            {"fact_id": fact, "subject": fact[0], "relation": "r", "object": "o", "held": "2001/", "unit": fact[0],
             "state": state, "says": None, "good": good, "today": today, "win_rate": w}
            for fact, (state, good, today, w) in rows.items()
        ],
        schema_overrides={"says": pl.String, "good": pl.Boolean, "today": pl.Boolean, "win_rate": pl.Float64},
    )  # fmt: skip
    return RunFacts(name, "check", table)


def test_every_change_and_the_paired_interval():
    before = facts("A", {
        "a1": ("known", True, True, 0.9), "a2": ("known", True, None, 1.0), "b1": ("unknown", False, False, 0.4),
        "b2": ("shaky", False, None, 0.6), "c1": ("known", True, True, None), "d1": ("known", True, False, 1.0),
        "x": ("known", True, True, 1.0),
    })  # fmt: skip
    after = facts("B", {
        "a1": ("known", True, False, 0.8), "a2": ("unknown", False, None, 0.5), "b1": ("known", True, False, 0.9),
        "b2": ("unknown", False, None, 0.5), "c1": ("known", True, True, 0.7), "d1": ("unknown", False, True, 0.5),
        "y": ("known", True, True, 1.0),
    })  # fmt: skip
    one, table = _compare(before, after)
    change = {"a1": "lost", "a2": "lost", "b1": "gained", "b2": "changed", "c1": "same", "d1": "changed"}
    assert dict(table.select("fact_id", "change").iter_rows()) == change
    assert (one.facts, one.lost, one.gained, one.changed, one.same) == (6, 2, 1, 2, 1)
    w, units = [(0.9, 0.8), (1.0, 0.5), (0.4, 0.9), (0.6, 0.5), (1.0, 0.5)], list("aabbd")
    first, second = zip(*w, strict=True)
    assert one.paired == 5 and one.difference == pytest.approx(mean(b - a for a, b in w))
    assert (one.difference_low, one.difference_high) == pytest.approx(korn_graubard_difference(first, second, units))
    assert one.p == pytest.approx(sign_flips(first, second, units))
    assert table["fact_id"].to_list()[:3] == ["a2", "a1", "b1"]  # what is lost first, by size
    assert "lost 2, gained 1, changed otherwise 2, the same 1" in "".join(comparison_lines(vars(one)))
    cells = facts_table(table, vars(one)).rows
    assert cells[0] == ("lost", "a, r, o (2001 on)", "known, W 100 %", "unknown, W 50 %")


def test_horizons_are_compared_by_change(tmp_path: Path):
    changes = read_horizon_changes("mini", limit=6)
    for seed, name in enumerate(("one", "two")):
        find_horizon(make_lm(seed=seed), changes, tmp_path / name)
    (one,) = compare_runs([tmp_path / "one", tmp_path / "two"]).comparisons
    tables = [
        {(r["subject"], r["new"]): r for r in pl.read_csv(tmp_path / name / "changes.csv").iter_rows(named=True)}
        for name in ("one", "two")
    ]
    both = [k for k in tables[0] if all(t[k]["known"] and t[k]["wins"] is not None for t in tables)]
    assert one.paired == len(both) and one.facts == 6
    assert one.gained == sum(tables[0][k]["wins"] < 1 == tables[1][k]["wins"] for k in both)


@pytest.mark.full
def test_edits_are_compared_by_update_and_method(tmp_path: Path, capsys):
    for name, methods in (("one", "FT,PROMPT"), ("two", "FT")):
        words = ["--updates", "mini-updates", "--limit", "3", "--methods", methods, "--fluency-tokens", "0"]
        assert run_command(["evaluate", "demo", *words, "--out", str(tmp_path / name)], debug=True) == 0
    found = compare_runs([tmp_path / "one", tmp_path / "two"])
    (one,) = found.comparisons
    assert one.run.endswith("FT") and one.against.endswith("FT") and (one.facts, one.same) == (3, 3)
    metrics = pl.read_parquet(tmp_path / "one" / "report" / "metrics.parquet").filter(method="FT")
    assert one.against_win_rate == metrics["efficacy_success"].mean() and "→" in found.facts["object"][0]


@pytest.mark.full
def test_variants_of_a_method_are_compared_apart(tmp_path: Path):
    words = ["--updates", "mini-updates", "--limit", "2", "--methods", "PROMPT,PROMPT METO", "--fluency-tokens", "0"]
    assert run_command(["evaluate", "demo", *words, "--out", str(tmp_path / "one")], debug=True) == 0
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = compare_runs([tmp_path / "one", tmp_path / "two"])
    assert [(one.facts, one.same, one.gained, one.lost) for one in found.comparisons] == [(2, 2, 0, 0)] * 2
    assert [one.run.rpartition(", ")[2] for one in found.comparisons] == ["PROMPT", "PROMPT METO"]
    (listed,) = list_runs([tmp_path / "one"])
    metrics = pl.read_parquet(tmp_path / "one" / "report" / "metrics.parquet")
    own = {
        f"PROMPT {variant}".removesuffix(" plain"): group["efficacy_success"].mean()
        for (variant,), group in metrics.filter(method="PROMPT").group_by("variant")
    }
    assert own.items() <= listed.numbers["efficacy_success"].items() and len(own) == 2


@pytest.mark.full
def test_advice_is_listed_as_that_and_compared_by_its_parts(tmp_path: Path):
    words = ["--updates", "mini-updates", "--limit", "2", "--ways", "PROMPT", "--sizes", "2", "--set", "evidence=0"]
    for name in ("one", "two"):
        out = ["--out", str(tmp_path / name), "--set", "fluency_tokens=0"]
        assert run_command(["advise", "demo", *words, *out], debug=True) == 0
    (listed,) = list_runs([tmp_path / "one"])
    found = json.loads((tmp_path / "one" / "advice.json").read_text())
    assert (listed.what, listed.data) == ("advise", found["updates"]) and listed.headline.startswith(found["words"])
    with pytest.raises(DataError, match="compares ways by itself"):
        compare_runs([tmp_path / "one", tmp_path / "two"])
    assert compare_runs([tmp_path / "one" / "at-00002", tmp_path / "two" / "at-00002"]).comparisons[0].same == 2


def test_what_cannot_be_compared_is_said(probes: tuple[Path, Path], tmp_path: Path):
    with pytest.raises(ConfigError, match="named twice"):
        compare_runs([probes[0], probes[0]])
    with pytest.raises(ConfigError, match="two or more"):
        compare_runs(probes[:1])
    ask(tmp_path / "asked", "somebody", known, rounds=1)
    with pytest.raises(ConfigError, match="no fact in common"):
        compare_runs([probes[0], tmp_path / "asked"])


def test_a_comparison_is_written_printed_and_put_on_a_page(probes: tuple[Path, Path], tmp_path: Path, capsys):
    words = ["runs", "compare", *map(str, probes), "--out", str(tmp_path / "facts.csv")]
    assert run_command([*words, "--page", str(tmp_path / "page")], debug=True) == 0
    told = capsys.readouterr()
    assert "two against one, on 3 facts of both" in told.out and "page: " in told.err
    assert (tmp_path / "page" / "index.html").is_file()
    assert pl.read_csv(tmp_path / "facts.csv").height == 3
    assert run_command([*words[:4], "--json"], debug=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["comparisons"][0]["facts"] == len(found["facts"]) == 3
