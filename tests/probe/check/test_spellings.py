"""A check of a file whose names are spelled in several ways is the check of the file in one spelling."""

import json
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command

ROWS = """subject,relation,object,start,end,fact_id
{one},capital,Almaty,1991-12-16,1997-12-10,kz-1
Kazakhstan,{relation},Astana,1997-12-10,,kz-2
Brazil,head of state,José Sarney,1985-03-15,1990-03-15,br-1
Brazil,head of state,{two},1995-01-01,,br-1
{three},head of state,Fernando Collor,1990-03-15,1992-12-29,br-2
Kazakhstan,capital,Verny,1900-01-01,1921-01-01,kz-3
"""
PLAIN = {"one": "Kazakhstan", "relation": "capital", "two": "José Sarney", "three": "Brazil"}
SPELLED = {"one": "Kazakh\u00adstan", "relation": "Capital", "two": "Jose\u0301 Sarney", "three": "BRAZIL\u200e"}


@pytest.mark.slow
@pytest.mark.full
def test_the_verdicts_and_the_gate_are_those_of_one_spelling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, codes, said = [], [], []
    for name, spelling in (("plain", PLAIN), ("spelled", SPELLED)):
        facts, out = tmp_path / f"{name}.csv", tmp_path / name
        facts.write_text(ROWS.format(**spelling), "utf-8")
        words = ["check", "demo", "--facts", str(facts), "--out", str(out), "--no-page", "--as-of", "2025-11-22"]
        codes.append(run_command([*words, "--max-stale", "0"], False))
        found.append((pl.read_csv(out / "verdicts.csv"), json.loads((out / "check.json").read_text())))
        said.append(capsys.readouterr())
    (plain, counts), (spelled, others) = found
    assert spelled.equals(plain) and others["present"] == counts["present"] and codes[0] == codes[1]
    assert counts["present"].get("nothing to compare with", 0) == 0
    text = said[1].out + said[1].err
    assert "are read as one name, Kazakhstan" in text and "U+00AD" in text and "U+200E" in text
