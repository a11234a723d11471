"""What `runs list` and `runs show` say, against what the runs' own files hold."""

import json
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import DataError
from anachron.data.dataset import Dataset
from anachron.io.run_folder import RunFolder
from anachron.probe.horizon.find import find_horizon, read_horizon_changes
from anachron.probe.run import ProbeSettings, run_probe
from anachron.report.runs import list_runs, open_kept, settings_in_words
from support.asked_runs import ask, known
from support.store_server import serving
from support.tiny_models import make_lm

pytestmark = pytest.mark.full  # each makes runs of its own


@pytest.fixture(scope="module")
def runs(brief: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A probe, a horizon beside a probe in a folder called as that of a horizon's questions, and a check by answers."""
    lm, folder = make_lm(), tmp_path_factory.mktemp("work") / "runs"
    run_probe(lm, brief.sample(2), folder / "probe", ProbeSettings(label="tiny"))
    run_probe(lm, brief.sample(1), folder / "group" / "asked")
    find_horizon(lm, read_horizon_changes("mini", limit=5), folder / "horizon")
    ask(folder / "check", "somebody", known, rounds=1)
    return folder


def naive_w(scores: pl.DataFrame) -> float:
    """Mean W over facts: the mean over granularities of the share of pairs in which the correct date is likelier."""
    of_facts = []
    for _, fact in scores.group_by("fact_id"):
        shares = []
        for _, rows in fact.group_by("granularity"):
            right, wrong = (rows.filter(status=status)["logp"].to_list() for status in ("correct", "incorrect"))
            if right and wrong:
                shares.append(sum(a > b for a in right for b in wrong) / (len(right) * len(wrong)))
        if shares:
            of_facts.append(sum(shares) / len(shares))
    return sum(of_facts) / len(of_facts)


def test_each_run_is_listed_once_with_its_number(runs: Path):
    found = {Path(one.run).relative_to(runs).as_posix(): one for one in list_runs([runs])}
    assert {name: one.what for name, one in found.items()} == {
        "check": "check", "group/asked": "probe", "horizon": "horizon", "probe": "probe",
    }  # fmt: skip
    probe, check = found["probe"], found["check"]
    w = naive_w(pl.read_parquet(runs / "probe" / "scores.parquet"))
    assert probe.numbers["win_rate"] == pytest.approx(w) and f"W {100 * w:.1f} %" in probe.headline
    assert (probe.model, probe.done, probe.when) == ("tiny", True, RunFolder.read(runs / "probe").record["finished"])
    stale = pl.read_csv(runs / "check" / "verdicts.csv").filter(present="stale").height
    assert check.numbers["stale"] == stale and check.headline.startswith(f"{stale} stale, W ")
    assert found["horizon"].headline.startswith("cannot tell: of 5 changes")


def test_a_run_that_is_killed_or_damaged_is_listed_as_that(runs: Path, brief: Dataset, tmp_path: Path, capsys):
    run_probe(make_lm(), brief.sample(1), tmp_path / "killed")
    run = RunFolder.read(tmp_path / "killed")
    run.record["status"] = "running"
    run.save()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text('{"settings": {}}')
    assert run_command(["runs", "list", str(tmp_path), "--json"], debug=True) == 0
    damaged, killed = json.loads(capsys.readouterr().out)
    assert damaged["what"] == "damaged" and "earlier version" in damaged["headline"] and not damaged["done"]
    assert not killed["done"] and killed["headline"] == "not done: repeat its command to go on"
    assert killed["when"] == run.record["started"]
    with pytest.raises(DataError, match="no such folder"):
        list_runs([tmp_path / "none"])


def test_a_run_is_shown_in_words(runs: Path, capsys):
    assert run_command(["runs", "show", str(runs / "probe")], debug=True) == 0
    told = capsys.readouterr().out
    record = RunFolder.read(runs / "probe").record
    for words in (f"{record['statements']:,} statements", "format raw", "prefix none", "scores.parquet", "tiny"):
        assert words in told
    assert run_command(["runs", "show", str(runs / "horizon"), "--json"], debug=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["what"] == "horizon" and shown["settings"]["dataset"] == "changes"
    assert "weights" not in settings_in_words(open_kept(runs / "probe"))["settings"]


def test_a_run_that_was_renamed_is_called_so_everywhere(runs: Path, tmp_path: Path):
    """Also a horizon and a check, whose own summaries name the model."""
    for name, file in (("horizon", "horizon.json"), ("check", "check.json")):
        assert run_command(["runs", "rename", str(runs / name), "New name"], debug=True) == 0
        assert json.loads((runs / name / file).read_text())["model"] == "New name"
    assert {one.model for one in list_runs([runs / "horizon", runs / "check"])} == {"New name"}


@pytest.mark.full
def test_runs_on_a_store_are_listed(runs: Path, monkeypatch: pytest.MonkeyPatch):
    with serving() as server, server.folder("runs", monkeypatch) as store:
        for path in filter(Path.is_file, runs.rglob("*")):
            (store / path.relative_to(runs)).put(path)
        here, there = list_runs([runs]), list_runs([store])
        shown = settings_in_words(open_kept(store / "horizon"))
    assert [one.headline for one in here] == [one.headline for one in there]
    assert [one.run for one in there] == [f"{store}/{Path(one.run).relative_to(runs).as_posix()}" for one in here]
    assert shown == settings_in_words(open_kept(runs / "horizon"))
