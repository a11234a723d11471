"""benchmarks/whole.py: what it computes from what was measured, that it runs, and that it runs what the docs say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from extrapolate import MACHINES, Taken, cost, growth, line, report, slope  # noqa: E402
from whole import PAGE, commands, given  # noqa: E402

sys.path.remove(str(BENCHMARKS))  # a benchmark has the name of a folder of tests

from anachron.wikidata.reading.dump import MOST_RANGES, TEXT_PER_BYTE  # noqa: E402

STAGES = ("wikidata ingest", "build timestress", "wikidata ingest, later", "wikidata pageviews", "build updates")
ONE, EIGHT = MACHINES


def test_growth_of_known_functions():
    sizes = [100, 300, 1000]
    assert slope(sizes, [3.0 * n for n in sizes]) == pytest.approx(1)
    assert slope(sizes, [0.5 * n**1.5 for n in sizes]) == pytest.approx(1.5)
    assert slope(sizes, [0, 1, 2]) is None
    assert cost(sizes, [7 + 3.0 * n for n in sizes]) == 1
    assert cost(sizes, [float(n * n) for n in sizes]) == 3.25  # (1000 + 300) / (300 + 100)
    assert cost(sizes[:2], [1.0, 2.0]) is None
    assert line(sizes, [7 + 3.0 * n for n in sizes], 1e6) == pytest.approx(7 + 3e6)
    assert line(sizes, [9.0, 9.0, 9.0], 1e6) == pytest.approx(9)
    assert line(sizes, [float(n * n) for n in sizes], 2000) >= 1000**2 + 1300 * 1000  # the last step goes on


def test_growth_is_seen_below_what_a_stage_takes_at_any_size():
    sizes = [100, 300, 1000]
    found = growth(sizes, [Taken(main_cpu=1e7 + n * n, disk=n, opened=7) for n in sizes])
    assert found["slope_of_logarithms"]["cpu"] < 0.1
    assert found["cost_of_the_last_step_over_the_first"]["cpu"] == 3.25
    assert found["above_linear"] == ["cpu"]


def test_the_report_divides_what_is_divided_and_judges_the_targets():
    sizes = [11_000, 33_000, 110_000]
    taken = [
        {name: Taken(main_cpu=n / 1e4, other_cpu=n**2 / 1e8 if name == "wikidata pageviews" else n / 1e3, main_memory=n,
                     other_memory=5_000_000_000, disk=100 * n, opened=7 + n) for name in STAGES}
        for n in sizes
    ]  # fmt: skip
    for n, stages in zip(sizes, taken, strict=True):
        stages["wikidata ingest, later"].other_cpu = 19 * n / 1e4
        # The most facts at the middle size, and more memory for them than all else takes.
        many = n == 33_000
        stages["build timestress"].bounded_cpu = 3600 * (1 + many)
        stages["build timestress"].bounded_memory = 10**9 * (1 + many)
    seen = [
        {"entities": n, "text_bytes": n * 1e4, "dump_bytes": n * 1e3, "pairs": n**2 // 100, "stages": t}
        for n, t in zip(sizes, taken, strict=True)
    ]
    found = report(seen)
    assert found["above_linear"] == {"wikidata pageviews": ["cpu"]}
    one, eight = found["all_of_wikidata"][ONE]["stages"], found["all_of_wikidata"][EIGHT]["stages"]
    about, heavier = pytest.approx, 1.7e12 / 119e6 / 1e4
    assert one["build timestress"]["hours"] == about(2 + (11_000 + 110_000 / 16) / 3600, abs=0.01)
    assert eight["build timestress"]["hours"] == about(2 + (11_000 + 110_000 / 128) / 3600, abs=0.01)
    assert (one["build timestress"]["main_gb"], one["build updates"]["main_gb"]) == (2.0, 0.1)  # a byte an entity
    assert one["wikidata ingest"]["hours"] == about(heavier * 11_000 / 3600, abs=0.01)  # as long as it inflates
    assert one["wikidata ingest, later"]["hours"] == about(heavier * 220_000 / 16 / 3600, abs=0.01)
    assert eight["wikidata ingest"]["hours"] == about(heavier * (11_000 + 110_000 / 128) / 3600, abs=0.01)
    searching = 110_000_000**2 / 100 / 19e6 / 3600  # pairs grow with the square
    assert one["build updates"]["hours_of_searching_neighbours"] == about(searching / 16, abs=0.01)
    assert one["build updates"]["hours"] == about((11_000 + 110_000 / 16) / 3600 + searching / 16, abs=0.01)
    handed = 2 * 16 * 150e9 * TEXT_PER_BYTE["gz"] / MOST_RANGES
    assert one["wikidata ingest"]["handed_out_gb"] == about(handed / 1e9, abs=0.06)
    assert eight["wikidata ingest"]["handed_out_gb"] == 0

    targets = found["all_of_wikidata"][ONE]["targets"]
    timestress = one["wikidata ingest"]["hours"] + one["build timestress"]["hours"]
    assert targets["hours of build timestress, with wikidata ingest"] == {
        "value": round(timestress, 2), "at_most": 3, "met": False,
    }  # fmt: skip
    assert targets["GB of a worker"] == {"value": 5.2, "at_most": 4, "met": False}  # and features
    assert targets["files opened"] == {"value": about(5 * 110_000_007, abs=99), "at_most": 12_000_000, "met": False}
    assert targets["GB of disk, of all commands together"] == {"value": 5 * 11 + 16, "at_most": 300, "met": True}
    node = targets["GB of a node, main process and 16 workers (wikidata ingest)"]
    assert node == {"value": about(0.1 + 18.8 + 80, abs=0.1), "at_most": 64, "met": False}


def test_stages_left_out_and_files_not_counted_are_no_targets_met():
    taken = Taken(seconds=1, main_cpu=1)
    seen = [{"entities": n, "text_bytes": n, "dump_bytes": n, "stages": {"build timestress": taken}} for n in (1, 2)]
    targets = report(seen)["all_of_wikidata"][ONE]["targets"]
    for what in ("hours of build timestress, with wikidata ingest", "files opened"):
        assert (targets[what]["value"], targets[what]["met"]) == (None, None)


def test_the_commands_that_are_run_are_those_of_the_page(tmp_path):
    """The page's lines, read here another way, and what is run: the same but for the number of workers and globs."""
    page = PAGE.read_text("utf-8").replace("\\\n", "")
    for name in ("dumps/pageviews-202012-user.bz2", "dumps-2023/pageviews-202212-user.bz2"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert tuple(commands()) == STAGES
    lines = [words for text in page.splitlines() if (words := text.split())[-2:] == ["--workers", "16"]]
    assert len(lines) == len(STAGES)
    for written, words in zip(lines, commands().values(), strict=True):
        run = ["anachron", *given(words, tmp_path, 2)]
        assert len(run) == len(written)
        differs = {(a, b) for a, b in zip(written, run, strict=True) if a != b}
        views = {
            ("dumps/pageviews-2020*-user.bz2", "dumps/pageviews-202012-user.bz2"),
            ("dumps-2023/pageviews-2022*-user.bz2", "dumps-2023/pageviews-202212-user.bz2"),
        }
        assert ("16", "2") in differs and differs <= {("16", "2")} | views
    words = commands()["build updates"]
    assert "--redirects" in words and "--no-popularity" not in words
    with pytest.raises(IndexError):
        commands("a page without the heading")


@pytest.mark.slow
def test_it_runs_at_a_tiny_size(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "whole.py"), "--percent", "0.01", "0.02", "--folder", str(tmp_path)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(said)
    assert [one["entities"] for one in found["sizes"]] == [11_000, 22_000]
    for one in found["sizes"]:
        assert tuple(one["stages"]) == STAGES
        for taken in one["stages"].values():
            assert taken["main_cpu"] > 0
            assert taken["main_memory"] > 1e7
            assert taken["disk"] > 0
        bounded = {name for name, taken in one["stages"].items() if taken["bounded_memory"] and taken["bounded_cpu"]}
        assert bounded == {"build timestress"}
    # Of all of Wikidata 223,140 updates were published: as many an entity, as far as a few new items tell.
    updates = sum(one["updates"] for one in found["sizes"])
    assert 0.5 < updates / (33_000 / 110_000_000 * 223_140) < 2
    assert set(found["all_of_wikidata"]) == {ONE, EIGHT}
    assert not any(tmp_path.iterdir())
