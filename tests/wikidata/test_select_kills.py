"""`build facts` killed in the middle: the next call removes what it left, and nothing of a call that is at work."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from anachron.io.stores import Place
from anachron.wikidata.selection.facts import build_facts
from anachron.wikidata.selection.rules import Selection
from support.store_server import serving
from wikidata.updates.world import write_world

pytestmark = pytest.mark.full
SETTINGS = replace(Selection(), popularity=False, top_per_relation=None, ended_before=3000)
SLOW = """
import sys, time
from dataclasses import replace
from anachron.io.stores import place
from anachron.wikidata.selection import select
from anachron.wikidata.selection.facts import build_facts
from anachron.wikidata.selection.rules import Selection
def wait(task):
    print("at work", flush=True)
    sys.stdin.readline()
    return real(task)
real, select.judge_bucket = select.judge_bucket, wait
settings = replace(Selection(), popularity=False, top_per_relation=None, ended_before=3000)
build_facts(place(sys.argv[1]), place(sys.argv[2]), settings)
"""


def at_work(snapshot: Path, out: Place) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(snapshot), str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "at work\n"
    return process


def work_folders(parent: Place) -> set[str]:
    return {path.name for path in parent.iterdir() if path.name.startswith(".selecting-")}


@pytest.mark.parametrize("where", ["disk", "store"])
def test_what_killed_calls_left_goes_and_what_others_are_at_stays(where, tmp_path, monkeypatch):
    snapshot = write_world(tmp_path / "world", buckets=3)[1]
    build_facts(snapshot, tmp_path / "expected.parquet", SETTINGS)
    if where == "disk":
        check(snapshot, tmp_path / "out", tmp_path / "expected.parquet")
        return
    pytest.importorskip("obstore", reason="files on stores need the extra s3")
    with serving() as server, server.folder("out", monkeypatch) as out:
        check(snapshot, out, tmp_path / "expected.parquet")


def check(snapshot: Path, out: Place, expected: Path) -> None:
    killed = [at_work(snapshot, out / f"{n}.parquet") for n in range(2)]
    for process in killed:
        process.kill()
        process.communicate()
    left = work_folders(out)
    assert len(left) == 2
    living = at_work(snapshot, out / "living.parquet")
    (mine,) = work_folders(out)  # it removed those of the killed, and has its own
    assert mine not in left
    build_facts(snapshot, out / "facts.parquet", SETTINGS)
    assert work_folders(out) == {mine}
    assert living.communicate("\n" * 3, timeout=120) and living.returncode == 0
    for name in ("facts.parquet", "living.parquet"):
        assert (out / name).read_bytes() == expected.read_bytes()
    assert not work_folders(out)
