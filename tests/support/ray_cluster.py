"""A Ray of two nodes on this machine, for tests: in a process of its own, each node with working folders of its own.

What a task finds under ``/proc/self/cwd`` is the folder of its node, so a path there is on each node another place, as
a local path is on the machines of a cluster.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SERVE = """
import json, os, sys
from ray.cluster_utils import Cluster

def start(folder):
    os.chdir(folder)
    os.environ["TMPDIR"] = folder
    return cluster.add_node(num_cpus=1, object_store_memory=100_000_000, include_dashboard=False)

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Ray's own words
cluster = Cluster()
nodes = [start(folder) for folder in sys.argv[1:]]
print(cluster.address, file=answers, flush=True)
for line in sys.stdin:
    what, number = json.loads(line)
    if what == "kill":
        cluster.remove_node(nodes[number], allow_graceful=False)
    else:
        nodes[number] = start(sys.argv[1 + number])
    print("done", file=answers, flush=True)
cluster.shutdown()
"""
HERE = Path("/proc/self/cwd")
NO_TOKEN = {"RAY_AUTH_MODE": "disabled"}


@dataclass(frozen=True)
class TwoNodes:
    """A cluster. The first of its nodes is the head, to which drivers connect."""

    address: str
    folders: tuple[Path, Path]
    _process: "subprocess.Popen[str]"

    def kill(self, node: int) -> None:
        """Kill all processes of a node at once."""
        self._tell("kill", node)

    def start(self, node: int) -> None:
        """Start a node that was killed once more."""
        self._tell("start", node)

    def workers(self) -> list[int]:
        """Processes that are at a task."""
        return [process for process, title in self._titled() if not title.endswith(("::IDLE", "Agent"))]

    def _titled(self) -> Iterator[tuple[int, str]]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                title = (process / "cmdline").read_bytes().partition(b"\0")[0].decode().strip()
                if title.startswith("ray::") and (process / "cwd").resolve() in self.folders:
                    yield int(process.name), title
            except OSError:  # it has ended, or is another user's
                continue

    def _tell(self, what: str, node: int) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, node]) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def two_nodes(variables: Mapping[str, str]) -> Iterator[TwoNodes]:
    """A cluster whose nodes have these variables beside those of this process."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        # a socket's path has at most 107 characters, so not in the folder of the test
        folders = (Path(folder, "one"), Path(folder, "two"))
        for path in folders:
            path.mkdir()
        log = Path(folder, "log")
        with log.open("w") as told, subprocess.Popen(
            [sys.executable, "-c", SERVE, *map(str, folders)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=told, text=True, env=environment(variables),
        ) as process:  # fmt: skip
            assert process.stdout is not None and process.stdin is not None
            address = process.stdout.readline().strip()
            assert address, log.read_text()
            try:
                yield TwoNodes(address, folders, process)
            finally:
                process.stdin.close()
                process.wait(120)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that is to know of no store, token and cluster but those that are given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RAY_"))}
    return kept | {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"} | dict(variables)
