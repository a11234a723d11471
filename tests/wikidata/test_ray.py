"""The commands of a cluster on a Ray of two nodes that share only a store: the bytes of one process on a local disk.

Workers, nodes and the command itself are killed in the middle.
"""

import bz2
import os
import signal
import subprocess
import sys
import time as clock
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="a cluster needs the extra ray")
pytest.importorskip("obstore", reason="files on stores need the extra s3")

from anachron.cli.entry import run
from anachron.io.stores import StorePath
from support.ray_cluster import HERE, NO_TOKEN, TwoNodes, environment, two_nodes
from support.store_server import Server, serving
from wikidata.dumps import entity, item, property_, statement, time, write_dump

pytestmark = pytest.mark.slow
DATES = {"old": "2021-01-04", "new": "2023-02-27"}
VIEWS = [f"pageviews-2022{month}-user.bz2" for month in (11, 12)]
RANGE = 20_000  # bytes of text that a worker reads at once, so that a small dump has several
COMMAND = f"""
import sys
from anachron.cli.entry import run
from anachron.wikidata.reading import dump
dump.RANGE_BYTES = dict.fromkeys(dump.RANGE_BYTES, {RANGE})
if __name__ == "__main__":
    run(sys.argv[1:])
"""
TOKENS = {"right": "1" * 36, "wrong": "2" * 36}
PATIENCE = 300.0  # seconds for a command, which takes a tenth of it


def presidents(name: str) -> Iterator[dict]:
    """Countries and who led them; at the later date every third has another president."""
    yield property_("P35", "head of state")
    yield property_("P27", "country of citizenship")
    for n in range(1, 121):
        country, first, second = f"Q{n}", f"Q{n + 1000}", f"Q{n + 2000}"
        replaced = name == "new" and n % 3 == 0
        end = {"P582": time("2022-05-06")} if replaced else {}
        held = [
            statement(
                "P35", entity(f"Q{n + 3000}"), qualifiers={"P580": time("1990"), "P582": time(f"{1996 + n % 20}")}
            ),
            statement("P35", entity(first), qualifiers={"P580": time(f"{1996 + n % 20}"), **end}),
        ]
        if replaced:
            held.append(statement("P35", entity(second), qualifiers={"P580": time("2022-05-06")}))
        yield item(country, f"Country {n}", title=f"Country {n}", description="a state", claims=held)
        for who in (first, second, f"Q{n + 3000}"):
            citizen = [statement("P27", entity(country))]
            yield item(who, f"Person {who}", title=f"Person {who}", description=f"of {n}", claims=citizen)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    for name in DATES:
        write_dump(folder / f"{name}.json", presidents(name))
    write_dump(folder / "new.json.gz", presidents("new"))
    titles = [f"Country_{n}" for n in range(1, 121)] + [f"Person_Q{n + 3000}" for n in range(1, 121)]
    for name in VIEWS:
        text = "".join(f"en.wikipedia {title} 7 desktop {200_000 + n} A9\n" for n, title in enumerate(titles))
        (folder / name).write_bytes(bz2.compress(text.encode()))
    return folder


def lines(dumps: str, out: str) -> dict[str, list[str]]:
    """The commands, in their order."""
    ingest = {
        f"ingest {name}": ["wikidata", "ingest", f"{dumps}/{name}.json", "--date", date, "--out", f"{out}/{name}"]
        for name, date in DATES.items()
    }
    return {what: [*words, "--buckets", "3"] for what, words in ingest.items()} | {
        "facts": ["build", "facts", f"{out}/new", "--no-popularity", "--out", f"{out}/facts.parquet"],
        "updates": [
            "build", "updates", "--old", f"{out}/old", "--new", f"{out}/new", "--no-popularity",
            "--out", f"{out}/updates.parquet",
        ],
        "timestress": [
            "build", "timestress", f"{dumps}/new.json", *(f"{dumps}/{name}" for name in VIEWS), "--date", DATES["new"],
            "--out", f"{out}/timestress", "--templates",
        ],
    }  # fmt: skip


def other_lines(dumps: str, out: str) -> dict[str, list[str]]:
    """The commands for a cluster that those above do not have, in their order."""
    ingest = ["wikidata", "ingest", f"{dumps}/new.json.gz", "--date", DATES["new"], "--out", f"{out}/zipped"]
    views = [f"{dumps}/{name}" for name in VIEWS]
    return {
        "ingest from gz": [*ingest, "--buckets", "3"],
        "pageviews": ["wikidata", "pageviews", f"{out}/zipped", *views],
        "rebucket": ["wikidata", "rebucket", f"{out}/zipped", "--buckets", "6", "--out", f"{out}/split"],
    }


def made_here(commands: dict[str, list[str]], out: Path) -> dict[str, bytes]:
    """What one process makes on a local disk."""
    for words in commands.values():
        with pytest.raises(SystemExit) as ended:
            run(words)
        assert ended.value.code == 0
    return content(out)


@pytest.fixture(scope="module")
def expected(dumps, tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("here")
    return made_here(lines(str(dumps), str(out)), out)


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def store(served, dumps, monkeypatch, request) -> Iterator[StorePath]:
    with served.folder(request.node.name, monkeypatch) as folder:
        served.faults.kinds = ("slow",)
        for path in dumps.iterdir():
            (folder / "dumps" / path.name).put(path)
        yield folder


@pytest.fixture
def cluster(served) -> Iterator[TwoNodes]:
    with two_nodes(served.environment() | NO_TOKEN) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def guarded(served) -> Iterator[TwoNodes]:
    """A cluster that asks for a token."""
    with two_nodes(served.environment() | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKENS["right"]}) as nodes:
        yield nodes


def started(words: list[str], variables: dict[str, str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], cwd=folder, env=environment(variables | {"TMPDIR": str(folder)}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def content(folder: Path | StorePath) -> dict[str, bytes]:
    """All files but those that hold times and versions (manifests) or names of folders (the card), and on a disk locks,
    which stay there."""
    begin = len(str(folder)) + 1
    files = {str(path)[begin:]: path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if not name.endswith(("manifest.json", ".md")) and not name.startswith("dumps/")
        if not (isinstance(folder, Path) and name.endswith(".lock"))
    }


def until(happened: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    deadline = clock.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, process.communicate()
        assert clock.monotonic() < deadline
        clock.sleep(0.05)


def in_work(folder: StorePath, pattern: str) -> bool:
    return any("work/" in str(path) for path in folder.rglob(pattern))


@pytest.mark.parametrize("victim", ["nobody", "worker", "node", "command"])
def test_the_same_bytes_whoever_is_killed(victim, cluster, store, served, expected, tmp_path):
    variables = served.environment() | NO_TOKEN
    begun = {
        "ingest old": "done.json",
        "updates": "counts-*.json",
        "timestress": "done.json",
    }  # what tells that a part is finished
    for what, words in lines(str(store / "dumps"), str(store)).items():
        words = [*words, "--ray", cluster.address]
        if victim != "nobody" and what in begun:
            served.faults.each = 1  # all requests are slow
            process = started(words, variables, tmp_path)
            pattern = begun[what]
            until(lambda pattern=pattern: in_work(store, pattern), process)
            if victim == "command":
                process.kill()
            elif victim == "node":
                cluster.kill(1)
            else:
                until(cluster.workers, process)
                os.kill(cluster.workers()[0], signal.SIGKILL)
            served.faults.each = 0
            done = finished(process)
            assert "raylet" not in done.stdout  # where Ray tells of lost nodes
            if victim == "command":
                assert done.returncode == -signal.SIGKILL
            elif done.returncode != 0:
                assert "repeat the command" in done.stderr
            if victim == "node":
                cluster.start(1)
            assert in_work(store, "*") == (done.returncode != 0)
        done = finished(started(words, variables, tmp_path))
        assert done.returncode == 0, done.stderr
        assert f"written to {store}/" in done.stdout + done.stderr
    assert content(store) == expected
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_gz_dump_page_views_and_other_buckets(cluster, store, served, dumps, tmp_path, tmp_path_factory):
    here = tmp_path_factory.mktemp("here")
    expected = made_here(other_lines(str(dumps), str(here)), here)
    assert len([name for name in expected if name.startswith("split/statements/")]) == 6
    assert {"zipped/popularity.parquet", "split/popularity.parquet"} <= expected.keys()
    for what, words in other_lines(str(store / "dumps"), str(store)).items():
        done = finished(started([*words, "--ray", cluster.address], served.environment() | NO_TOKEN, tmp_path))
        assert done.returncode == 0, f"{what}: {done.stderr}"
    assert content(store) == expected
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_local_folder_on_a_cluster_is_refused_with_what_to_type(cluster, store, served, tmp_path):
    variables = served.environment() | NO_TOKEN
    there = lines(str(store / "dumps"), str(store))
    for name in DATES:
        assert finished(started(there[f"ingest {name}"], variables, tmp_path)).returncode == 0
    for what, words in there.items():
        local = [str(HERE / Path(word).name) if before == "--out" else word for before, word in pairwise(["", *words])]
        done = finished(started([*local, "--ray", cluster.address], variables, tmp_path))
        assert done.returncode != 0, what
        assert "machines of the cluster do not share that folder; give --out s3://BUCKET/FOLDER" in done.stderr
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    (tmp_path / "dump.json").write_bytes((store / "dumps/old.json").read_bytes())
    words = ["wikidata", "ingest", str(HERE / "dump.json"), "--date", DATES["old"], "--out", str(store / "again")]
    done = finished(started([*words, "--ray", cluster.address], variables, tmp_path))
    assert done.returncode != 0 and f"does not see {HERE / 'dump.json'}" in done.stderr


@pytest.mark.parametrize(
    ("mode", "token", "told"),
    [
        ("token", "right", ""),
        ("token", "wrong", "is refused, most likely because the cluster asks for a token"),
        ("token", None, "the cluster asks for a token, and this machine has none"),
        ("disabled", None, "is refused, most likely because the cluster asks for a token"),
    ],
)
def test_a_token(mode, token, told, guarded, served, store, tmp_path):
    mine = {"RAY_AUTH_MODE": mode, "HOME": str(tmp_path)} | ({"RAY_AUTH_TOKEN": TOKENS[token]} if token else {})
    words = [*lines(str(store / "dumps"), str(store))["ingest old"], "--ray", guarded.address]
    done = finished(started(words, served.environment() | mine, tmp_path))
    assert (done.returncode == 0) == (not told)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]  # Ray's log is around it
    assert all(told in line and "export RAY_AUTH_MODE=token" in line for line in errors)
    assert len(errors) == (1 if told else 0), done.stderr
    assert not any(token in done.stdout + done.stderr for token in TOKENS.values())
