"""benchmarks/whole.py: what it computes from what was measured, and that it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from whole import Taken, cost, line, report, slope  # noqa: E402

STAGES = ("wikidata ingest", "wikidata ingest, later", "build facts", "build timestress", "build updates")


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


def test_the_report_divides_what_is_divided_and_names_what_grows_faster():
    sizes = [11_000, 33_000, 110_000]
    taken = [
        {name: Taken(main_cpu=n / 1e4, other_cpu=n**2 / 1e8 if name == "build updates" else n / 1e3, main_memory=n,
                     other_memory=5, disk=n, opened=7) for name in STAGES}
        for n in sizes
    ]  # fmt: skip
    for n, stages in zip(sizes, taken, strict=True):
        stages["wikidata ingest, later"].other_cpu = 19 * n / 1e4
    found = report(
        [
            {"entities": n, "text_bytes": n * 1e4, "dump_bytes": n * 1e3, "stages": t}
            for n, t in zip(sizes, taken, strict=True)
        ],
        2,
    )
    assert found["slopes_of_logarithms"]["build updates"]["faster_than_linear"] == ["cpu"]
    assert found["slopes_of_logarithms"]["build facts"]["faster_than_linear"] == []
    whole = found["all_of_wikidata_on_16_cores"]
    assert whole["build facts"]["hours"] == pytest.approx((11_000 + 110_000 / 16) / 3600, abs=0.01)
    assert whole["build facts"]["main_gb"] == 0.1  # a byte an entity
    heavier = 1.7e12 / 119e6 / 1e4
    assert whole["wikidata ingest"]["hours"] == pytest.approx(heavier * 11_000 / 3600, abs=0.01)  # it decompresses
    assert whole["wikidata ingest, later"]["hours"] == pytest.approx(heavier * 220_000 / 16 / 3600, abs=0.01)


@pytest.mark.full
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
    assert not any(tmp_path.iterdir())
