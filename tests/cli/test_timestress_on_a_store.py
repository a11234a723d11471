"""`build timestress` from a store to a store: the bytes of a local disk, whatever fails and wherever it is killed."""

import bz2
import os
import subprocess
import sys
import time as clock
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="files on stores need the extra s3")

from anachron.cli.main import run_command
from anachron.io.stores import StorePath
from support.store_server import Server, serving
from wikidata.dumps import entity, item, property_, statement, time, write_dump

MONTHS = (10, 11, 12)
COMMAND = """
import sys
from anachron.cli.entry import run
from anachron.wikidata.reading import dump
dump.RANGE_BYTES = dict.fromkeys(dump.RANGE_BYTES, 20_000)
if __name__ == "__main__":
    run(sys.argv[1:])
"""
# In the order in which a run puts them. It is killed when one appears, and repeated.
POINTS = (
    "snapshot/work/*done.json", "snapshot/manifest.json", "snapshot/pageviews/*10-user.bz2.parquet.manifest.json",
    "snapshot/popularity.parquet", "facts.parquet", "questions.parquet", "timestress.parquet",
)  # fmt: skip


def heads_of_state() -> Iterator[dict]:
    yield property_("P35", "head of state")
    for n in range(1, 81):
        first, second = f"Q{n + 1000}", f"Q{n + 2000}"
        held = [
            statement("P35", entity(first), qualifiers={"P580": time("1990"), "P582": time(f"{1996 + n % 20}-03-04")}),
            statement("P35", entity(second), qualifiers={"P580": time(f"{1996 + n % 20}-03-04")}),
        ]
        yield item(f"Q{n}", f"Country {n}", title=f"Country {n}", claims=held)
        yield item(first, f"Person {first}", title=f"Person {first}")
        yield item(second, f"Person {second}", title=f"Person {second}")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump, and views of three months."""
    folder = tmp_path_factory.mktemp("sources")
    write_dump(folder / "dump.json", heads_of_state())
    titles = [f"Country_{n}" for n in range(1, 81)] + [f"Person_Q{n + 1000}" for n in range(1, 81)]
    for month in MONTHS:
        text = "".join(f"en.wikipedia {title} 7 desktop {200_000 + month * len(title)} A9\n" for title in titles)
        (folder / f"pageviews-2020{month}-user.bz2").write_bytes(bz2.compress(text.encode()))
    return folder


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def store(served: Server, sources: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    with served.folder(request.node.name, monkeypatch) as folder:
        for path in sources.iterdir():
            (folder / "sources" / path.name).put(path)
        yield folder


def words(sources: object, out: object) -> list[str]:
    views = [f"{sources}/pageviews-2020{month}-user.bz2" for month in MONTHS]
    return [
        "build", "timestress", f"{sources}/dump.json", *views, "--date", "2021-01-04", "--out", str(out),
        "--templates", "--seed", "5",
    ]  # fmt: skip


def content(folder: Path | StorePath) -> dict[str, bytes]:
    """Bytes of all files but those that tell when and from where, and on a disk locks, which stay there."""
    begin = len(str(folder)) + 1
    files = {str(path)[begin:]: path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if not name.endswith("manifest.json") and not name.startswith("sources/")
        if not (isinstance(folder, Path) and name.endswith(".lock"))
    }


@pytest.mark.full
@pytest.mark.parametrize("views", ["there", pytest.param("here", marks=pytest.mark.slow)])
def test_the_same_bytes_with_faults(views, store, served, sources, tmp_path, capsys):
    assert run_command(words(sources, tmp_path / "here"), debug=False) == 0
    served.faults.each, served.faults.kinds = 31, ("503", "cut", "drop", "slow")
    on_store = words(store / "sources", store / "out")
    given = [f"{sources}/{Path(word).name}" if views == "here" and "pageviews" in word else word for word in on_store]
    assert run_command(given, debug=False) == 0
    served.faults.each = 0
    assert len(content(tmp_path / "here")) > 10 and content(store / "out") == content(tmp_path / "here")
    assert all(served.faults.done[kind] for kind in ("503", "cut", "drop"))
    told = capsys.readouterr().err
    assert f"copy {store}/out/timestress.parquet here to probe it" in told and "s3:/bucket" not in told
    before = (store / "out/snapshot/pageviews/pageviews-202010-user.bz2.parquet").stat().st_mtime_ns
    clock.sleep(1.1)  # the server's times are whole seconds
    assert run_command(given, debug=False) == 0
    assert content(store / "out") == content(tmp_path / "here")  # and no page views were read again
    assert (store / "out/snapshot/pageviews/pageviews-202010-user.bz2.parquet").stat().st_mtime_ns == before


@pytest.mark.slow
def test_killed_at_every_step_and_repeated(store, served, sources, tmp_path):
    assert run_command(words(sources, tmp_path / "here"), debug=False) == 0
    (tmp_path / "work").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "work"), "OMP_NUM_THREADS": "1"}

    def started() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words(store / "sources", store / "out"), "--workers", "2"],
            env=environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    served.faults.each, served.faults.kinds = 29, ("503", "cut")
    for point in POINTS:
        process, deadline = started(), clock.monotonic() + 300
        begin = len(str(store / "out")) + 1
        while not any(fnmatch(str(path)[begin:], point) for path in (store / "out").rglob("*")):
            assert process.poll() is None, process.communicate()[1]
            assert clock.monotonic() < deadline
            clock.sleep(0.02)
        process.kill()
        process.communicate()
    served.faults.each = 0
    last = started()
    assert last.communicate(timeout=300)[1] and last.returncode == 0
    assert content(store / "out") == content(tmp_path / "here")
