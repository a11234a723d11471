"""A function over many items, in order, on processes of this machine or on a Ray cluster.

Only this module and `anachron.io.crew` know Ray.

A function must be importable by name, and its items and results small enough to be sent. Results come in the order of
the items, so nothing that is made of them depends on who computed what.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from anachron.core.errors import BackendError, ConfigError, first_line, how_to_install
from anachron.io.waiting import result_of

Item = TypeVar("Item")
Result = TypeVar("Result")
_AHEAD = 2  # items in work or waiting, for each worker


@dataclass(frozen=True)
class Spread:
    """How items are spread (see `map_in_order`), and who is told of (done, all)."""

    workers: int | None = None
    ray: str | None = None
    progress: Callable[[int, int], None] = lambda done, total: None


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory that this machine, or the container that this runs in, has."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # the second is that of older kernels; "max" where there is no limit
            sizes.append(int(Path(limit).read_text()))
    return min(sizes)


def worker_count(workers: int | None = None, ray: str | None = None) -> int:
    """How many items are worked on at once: ``workers``, else one, or on Ray all cores of the cluster.

    Raises `ConfigError` for less than one worker and, with ``ray``, where Ray is missing or the address has no cluster.
    """
    if workers is not None:
        if workers < 1:
            raise ConfigError(f"workers {workers}: give at least 1")
        return workers
    if ray is None:
        return 1
    with connected(ray) as connection:
        return max(1, int(connection.cluster_resources().get("CPU", 1)))


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None, ray: str | None = None
) -> Iterator[Result]:
    """Results of ``function`` for each item, in their order, as they come.

    One worker, or one item, and no ``ray``: here, one after another. Else processes of this machine. ``ray``: the
    address of a cluster (``auto``, ``ray://host:10001``, ``host:6379``), or ``local`` for one that is started here and
    stopped at the end. At most twice as many items as workers are taken from ``items`` ahead. An exception of the
    function stops all and is raised here.
    Raises `BackendError` when a worker dies (memory, kill), and `ConfigError` for a missing Ray or a wrong address.
    """
    number = worker_count(workers, ray)
    if ray is not None:
        yield from _on_ray(function, items, number, ray, workers)
    elif number == 1:
        yield from map(function, items)
    else:
        rest = iter(items)
        first = list(islice(rest, 2))
        if len(first) == 2:
            yield from _in_processes(function, chain(first, rest), number)
        else:  # processes take a second to start
            yield from map(function, first)


def _in_processes(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, _context(function.__module__), _begin_worker, (dict(os.environ),))
    waiting: deque[Future[Result]] = deque()
    done = False
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= _AHEAD * workers:
                yield result_of(waiting.popleft())
        while waiting:
            yield result_of(waiting.popleft())
        done = True
    except BrokenProcessPool as error:
        raise dead("a worker process died") from error
    finally:
        pool.shutdown(wait=done, cancel_futures=True)
        if not done:  # what they are at will not be used
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()


def _context(module: str) -> Any:
    """How processes are started: by a server that has loaded what they need, where there is one (not on Windows).

    Forking this process itself would copy the locks of the threads that it has.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # pyarrow loads pandas, where there is one, at the first array: rather once, before workers are forked
    context.set_forkserver_preload([module, *(["pandas"] if "pyarrow" in sys.modules else [])])
    return context


def _begin_worker(environment: dict[str, str]) -> None:
    """In a worker: leave Ctrl-C to the parent, and end when it is gone, even by kill -9.

    environment: the parent's now, such as the keys of a store; what workers are forked from has that of its own start.
    """
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def connected(address: str | None, workers: int | None = None, *, without: str | None = None) -> Iterator[Any]:
    """Ray, with one connection for all calls inside, which ends here unless somebody else had made it.

    None, and no connection, without an address. without: what to say where Ray is not installed.
    """
    if address is None:
        yield None
        return
    try:
        import ray
    except ImportError as error:
        advice = without or f"--ray {address} needs Ray: {how_to_install('ray')}, or give only --workers N"
        raise ConfigError(advice) from error
    ours = not ray.is_initialized()
    if ours:
        _check_reachable(address)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if address == "local":
            options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
        else:
            options["address"] = address
        try:
            ray.init(**options)
        except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise no_cluster(address, error) from error
        ray._private.worker._worker_logs_enabled = False  # what it says of lost nodes goes to standard output
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
            ray._private.worker._worker_logs_enabled = True


def _check_reachable(address: str) -> None:
    """Whether anything listens at host:port; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise no_cluster(address, error) from error


def no_cluster(address: str, error: Exception) -> ConfigError:
    """What to say where Ray finds no cluster at an address: the reason by the words of its error, and the fix."""
    said = f"{type(error).__name__} {error}".lower()
    start = "start one by ray start --head, or use --ray local"
    token = (
        f"copy ~/.ray/auth_token of the head here and `export RAY_AUTH_MODE=token` (docs/cluster.md); "
        f"if no Ray is there at all, {start}"
    )
    if "authenticat" in said:  # seldom in the first line
        return ConfigError(
            f"--ray {address}: the cluster asks for a token, and this machine has none or another; {token}"
        )
    if "failed to connect to ray cluster" in said:  # all that Ray says of a token that the cluster refuses
        return ConfigError(
            f"--ray {address}: this machine is refused, most likely because the cluster asks for a token; {token}"
        )
    return ConfigError(f"--ray {address}: no cluster there ({first_line(error)}); {start}")


def _on_ray(
    function: Callable[[Item], Result], items: Iterable[Item], number: int, address: str, workers: int | None
) -> Iterator[Result]:
    with connected(address, workers) as ray:
        remote = ray.remote(max_retries=2)(function)
        waiting: deque[Any] = deque()

        for item in items:
            waiting.append(remote.remote(item))
            if len(waiting) >= _AHEAD * number:
                yield _result(ray, waiting.popleft())
        while waiting:
            yield _result(ray, waiting.popleft())


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error_of(error) from error
    except ray.exceptions.RayError as error:
        raise dead(f"a Ray worker was lost ({first_line(error)})") from error


def check_shared(read: Iterable[Any], written: Any, ray: str | None) -> None:
    """Raise `ConfigError` where a machine of the cluster at ``ray`` does not see what this one sees.

    read: files, and written: a folder, of which those that are local paths are looked for on every machine.
    """
    with ExitStack() as stack:
        looked_for = [path for path in read if isinstance(path, Path)]
        if ray in (None, "local") or not (looked_for or isinstance(written, Path)):
            return
        if isinstance(written, Path):
            looked_for.append(Path(stack.enter_context(NamedTemporaryFile(prefix=".seen-", dir=written)).name))
        connection = stack.enter_context(connected(ray))
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        look = connection.remote(num_cpus=0)(_unseen)
        asked = [
            (node["NodeManagerAddress"], look.options(scheduling_strategy=there).remote(looked_for))
            for node in connection.nodes()
            if node["Alive"] and (there := NodeAffinitySchedulingStrategy(node["NodeID"], soft=True))
        ]
        for machine, reference in asked:
            for path in _result(connection, reference):
                folder, give = (written, "--out s3://BUCKET/FOLDER") if path.parent == written else (path, "s3://...")
                raise ConfigError(
                    f"{machine} does not see {folder}: the machines of the cluster do not share that folder; give "
                    f"{give}, or a folder that all of them share"
                )


def _unseen(paths: list[Path]) -> list[Path]:
    return [path for path in paths if not path.exists()]


def error_of(error: Any) -> Exception:
    """What a task on Ray raised: its own error, where that came along."""
    if "failed to import on the worker" in str(error.cause):
        return ConfigError(
            "a machine of the cluster cannot import its task: install the same Anachron with the same extras "
            "on all of them, then `ray stop` and `ray start` there"
        )
    return error.cause if isinstance(error.cause, Exception) else error


def dead(what: str) -> BackendError:
    """The error of a lost worker."""
    return BackendError(
        f"{what}, perhaps out of memory; repeat the command with fewer --workers: what is finished is kept"
    )
