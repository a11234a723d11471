"""Taking the papers' prompts from their texts: from a text like theirs, and from theirs where they are at hand."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = sorted((ROOT.parent / "shared" / "papers").glob("00[123]_*.txt"))
LIKE = """
Prompt 1 : Hierarchical natures of dates

Years have months, and
months have days.

Prompt 2 : Knowledge transfer between granularities

What holds all year holds every day.

The first explains the hierarchical nature.
The few-shot prompt template we use is:

Answer like this:
In May 1990, who led it? Ann
[QUESTION]

Here is the *system* prompt used:

You write questions.

- (A, b, C) -> "d?"

And here is the main prompt:
"""


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import paper_prompts

    yield paper_prompts
    sys.modules.pop("paper_prompts", None)


def test_prompts_are_what_stands_between_the_words_of_the_papers(tool, tmp_path: Path, capsys):
    (tmp_path / "paper.txt").write_text(LIKE)
    tool.main([str(tmp_path / "paper.txt"), "--out", str(tmp_path / "prompts")])
    found = {path.stem: path.read_text() for path in (tmp_path / "prompts").iterdir()}
    assert found == {
        "hierarchy": "Years have months, and months have days.\n",
        "transfer": "What holds all year holds every day.\n",
        "few-shot": "Answer like this:\nIn May 1990, who led it? Ann\n",
        "verbalize": 'You write questions.\n- (A, b, C) -> "d?"\n',
    }
    assert "cloze: not found; give the text of its paper too" in capsys.readouterr().out


def test_a_text_without_any_is_refused_and_nothing_written(tool, tmp_path: Path, capsys):
    (tmp_path / "paper.txt").write_text("another paper")
    with pytest.raises(SystemExit):
        tool.main([str(tmp_path / "paper.txt"), "--out", str(tmp_path / "prompts")])
    assert "none of" in capsys.readouterr().err and not (tmp_path / "prompts").exists()


@pytest.mark.skipif(len(PAPERS) < 3, reason="needs the texts of the papers")
def test_all_five_are_found_in_the_papers(tool, tmp_path: Path):
    tool.main([*map(str, PAPERS), "--out", str(tmp_path)])
    words = {path.stem: len(path.read_text("utf-8").split()) for path in tmp_path.iterdir()}
    assert words == {"hierarchy": 34, "transfer": 52, "few-shot": 37, "verbalize": 218, "cloze": 122}
