"""Ctrl-C at any moment of a command: one line, code 130, and a run that ends with the same bytes all the same."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.io.files import file_fingerprint

LINE = b"interrupted; finished work is kept, and the same command resumes from there\n"
TRIED = 15
# Says on stdout when the program itself begins; before, Python is still starting and answers by a traceback.
PROGRAM = "import sys; from anachron.cli.entry import run; print(end='begun', flush=True); run(sys.argv[1:])"


def start(words: list[str]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.read(5) == b"begun"
    return child


@pytest.mark.trial
@pytest.mark.share(2)
@pytest.mark.parametrize("part", [0, 1])
def test_ctrl_c_at_random_moments(part: int, brief: Dataset, tmp_path: Path):
    data = tmp_path / "brief.csv"
    to_published(brief.table, brief.boundaries).write_csv(data)
    words = ["probe", "demo", "--dataset", str(data), "--batch-tokens", "512", "--out"]
    begun = time.monotonic()
    assert start([*words, str(tmp_path / "whole")]).wait(300) == 0
    takes = time.monotonic() - begun
    draw = random.Random()
    interrupted = 0
    for _ in (times := range(part, TRIED, 2)):
        child = start([*words, str(tmp_path / "often")])
        try:
            _, err = child.communicate(timeout=draw.uniform(0, takes))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=120)
        if child.returncode == 0:  # it was faster
            continue
        assert child.returncode in (130, -signal.SIGINT) and err.endswith(LINE), (child.returncode, err.decode())
        assert b"Traceback" not in err and b"rror" not in err, err.decode()
        interrupted += 1
    assert start([*words, str(tmp_path / "often")]).wait(300) == 0
    scores = [tmp_path / name / "scores.parquet" for name in ("whole", "often")]
    assert file_fingerprint(scores[0]) == file_fingerprint(scores[1]), pl.read_parquet(scores[1])
    tried = f"{len(times)} commands interrupted at random, {interrupted} before their end"
    print(f"trial: {tried}; one line each, same scores")
