"""``pytest --part K/N``: each test in exactly one piece, all of a file in the same, and pieces about equally long."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.slow_parts import SECONDS, parsed, piece

ROOT = Path(__file__).parent.parent
FILES = st.lists(st.sampled_from([*SECONDS, *(f"core/test_{n}.py" for n in range(20))]))


@given(FILES, st.integers(1, 9))
def test_every_file_is_in_exactly_one_piece(files, pieces):
    found = [piece(files, number, pieces) for number in range(1, pieces + 1)]
    assert sorted(file for one in found for file in one) == sorted(set(files))
    assert found == [piece(files[::-1], number, pieces) for number in range(1, pieces + 1)]
    seconds = [sum(SECONDS.get(file, files.count(file)) for file in one) for one in found]
    longest = max((SECONDS.get(file, files.count(file)) for file in files), default=0)
    assert max(seconds) - min(seconds) <= longest


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "-1/4", "1/4/4", "a/b", "²/4", "1.0/4"])
def test_what_names_no_piece_is_refused(text):
    with pytest.raises(ValueError, match=rf"^--part {text}: "):
        parsed(text)
    assert parsed("2/4") == (2, 4)


def test_files_whose_time_is_known_are_there():
    assert all((ROOT / "tests" / file).is_file() for file in SECONDS)


@pytest.mark.slow
@pytest.mark.full
def test_pieces_of_a_run_are_the_run():
    def collected(*words: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "tests/core"]
        done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if "::" in line]

    parts = [collected("--part", f"{number}/2") for number in (1, 2)]
    assert all(parts) and sorted([*parts[0], *parts[1]]) == sorted(collected())


@pytest.mark.full
def test_make_passes_the_piece_on():
    for words, ending in ((["PART=2/4"], "-m slow --part 2/4"), ([], "-m slow")):
        made = subprocess.run(["make", "-n", "test-slow", *words], cwd=ROOT, capture_output=True, text=True)
        # within another make there are lines besides
        assert any(line.rstrip().endswith(ending) for line in made.stdout.splitlines()), made.stdout + made.stderr
