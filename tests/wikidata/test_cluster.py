"""A function over items: in order, with processes or Ray, and what happens when it fails or its worker dies."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.cluster import check_shared, error_of, map_in_order, no_cluster, worker_count
from anachron.io.crew import Crew
from anachron.io.stores import place


def double(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return 2 * number


def fail(number: int) -> int:
    if number == 3:
        raise DataError(f"{number} is wrong")
    return number


def die(number: int) -> int:
    if number == 2:
        os._exit(9)
    return number


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_results_in_order(workers):
    assert list(map_in_order(double, range(12), workers)) == [2 * n for n in range(12)]
    assert list(map_in_order(double, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_function_is_raised_as_it_is(workers):
    found = map_in_order(fail, range(100), workers)
    assert [next(found), next(found), next(found)] == [0, 1, 2]
    with pytest.raises(DataError, match="3 is wrong"):
        next(found)


def test_few_items_are_taken_ahead():
    taken = []

    def items():
        for n in range(1_000):
            taken.append(n)
            yield n

    found = map_in_order(double, items(), 2)
    assert next(found) == 0
    assert len(taken) <= 5
    found.close()


def test_a_dead_worker_is_named():
    with pytest.raises(BackendError, match=r"a worker process died.*repeat the command"):
        list(map_in_order(die, range(8), 2))


def test_too_few_workers():
    with pytest.raises(ConfigError, match="workers 0"):
        list(map_in_order(double, [1], 0))
    assert (worker_count(), worker_count(5)) == (1, 5)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"--ray auto needs Ray: pip install 'ray>=.*', or give only --workers N"):
        list(map_in_order(double, [1], ray="auto"))
    with pytest.raises(ConfigError, match=r"pip install 'ray>=.*', or leave out --workers, --ray"):
        Crew("local", object, {}, size=2)  # what --workers 2 asks for: another number of workers is no way out


ORPHANS = """
import os, sys, time
sys.path.insert(0, {folder!r})
from anachron.io.cluster import map_in_order
from test_cluster import pid_and_wait
if __name__ == "__main__":
    for pid in map_in_order(pid_and_wait, range(4), 2):
        print(pid, flush=True)
"""


def pid_and_wait(number: int) -> int:
    if number > 1:
        time.sleep(60)
    return os.getpid()


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(ORPHANS.format(folder=str(Path(__file__).parent)))
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    workers = {int(parent.stdout.readline())}
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.slow
def test_a_local_ray_gives_the_same():
    pytest.importorskip("ray")
    assert list(map_in_order(double, range(12), 2, "local")) == [2 * n for n in range(12)]
    with pytest.raises(DataError, match="3 is wrong"):
        list(map_in_order(fail, range(9), 2, "local"))
    with pytest.raises(BackendError, match="a Ray worker was lost"):
        list(map_in_order(die, range(9), 2, "local"))


@pytest.mark.slow
def test_a_wrong_address_of_a_cluster():
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match="no cluster there"):
        list(map_in_order(double, [1], ray="127.0.0.1:1"))


@pytest.mark.parametrize(
    "words",
    [
        "Failed to connect\nToken authentication is enabled but no authentication token was found",
        "Authentication failed: Forbidden: Invalid authentication token",
        "Failed to connect to Ray cluster at head:6379",
    ],
)
def test_a_token_that_is_asked_for_is_named_with_what_to_type(words):
    told = str(no_cluster("head:6379", ConnectionError(words)))
    assert "--ray head:6379" in told and "asks for a token" in told
    assert "~/.ray/auth_token" in told and "`export RAY_AUTH_MODE=token`" in told
    assert "no cluster there (refused)" in str(no_cluster("head:6379", ConnectionError("refused")))


def test_a_machine_without_anachron_is_told_what_to_do():
    cause = RuntimeError("The remote function failed to import on the worker. This may be because needed ...")
    told = error_of(SimpleNamespace(cause=cause))
    assert isinstance(told, ConfigError) and "install the same Anachron with the same extras on all of them" in str(
        told
    )
    own = DataError("3 is wrong")
    assert error_of(SimpleNamespace(cause=own)) is own


def test_where_all_works_on_this_machine_nobody_is_asked_what_it_sees(tmp_path):
    for ray in (None, "local"):
        check_shared([tmp_path / "none"], tmp_path / "none", ray)
    check_shared([place("s3://bucket/x")], place("s3://bucket/y"), "127.0.0.1:1")
    assert not list(tmp_path.iterdir())
