"""Objects that live on processes of a Ray cluster, such as a loaded model each, and share out work among them.

Whoever is idle takes the next task. What a lost worker was at is done again by a new one.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

from anachron.core.errors import ConfigError, first_line, how_to_install
from anachron.io.cluster import connected, dead, error_of, worker_count

Key = TypeVar("Key")
LOSSES = 3  # workers that one task may cost before it is given up


class Crew:
    """Objects made by ``make(**arguments)``, each in a process of its own. Use it as a context manager.

    address: of a Ray cluster, or ``local`` for one that is started here. gpus: of each; by default one where the
    cluster has any. size: how many, by default as many as there are GPUs for, or one.
    Raises `ConfigError` for a missing Ray, a wrong address, and more than the cluster has room for.
    """

    def __init__(
        self, address: str, make: type, arguments: Mapping[str, Any], *, size: int | None = None, gpus: int = 0
    ) -> None:
        if size is not None:
            worker_count(size)
        self._arguments = dict(arguments)
        self._stack = ExitStack()
        self._stack.enter_context(connected(address, size, without=_no_ray()))
        import ray

        self._ray = ray
        self._workers: list[Any] = []
        there = ray.cluster_resources()
        each = gpus or (1 if there.get("GPU", 0) >= 1 else 0)
        room = int(there.get("GPU", 0) // each) if each else int(there.get("CPU", 1))
        self.size = size or (room if each else 1)
        if self.size > room:
            self._stack.close()
            raise ConfigError(
                f"workers {self.size}: the cluster has {int(there.get('CPU', 0))} cores and {int(there.get('GPU', 0))} "
                f"GPUs, which is room for {room}; ask for fewer"
            )
        self._class = ray.remote(num_cpus=1, num_gpus=each)(make)

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; the cluster too, where it was started here."""
        for worker in self._workers:
            self._ray.kill(worker)
        self._workers.clear()
        self._stack.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """What one of them answers. Raises what the method raises, and `BackendError` where the worker is lost."""
        ((_, result),) = self.share(method, {0: arguments})
        return result

    def share(self, method: str, tasks: Mapping[Key, tuple[Any, ...]]) -> Iterator[tuple[Key, Any]]:
        """Results of ``method(*arguments)`` for each task, as they come; tasks are begun in the order given.

        Raises what the method raises, and `BackendError` where a task lost three workers.
        """
        waiting = list(tasks)[::-1]
        losses: dict[Key, int] = {}
        idle = list(self._workers)
        at_work: dict[Any, tuple[Key, Any]] = {}
        while waiting or at_work:
            while waiting and (idle or len(self._workers) < self.size):
                worker = idle.pop() if idle else self._hired()
                key = waiting.pop()
                at_work[getattr(worker, method).remote(*tasks[key])] = key, worker
            (done,), _ = self._ray.wait(list(at_work), num_returns=1)
            key, worker = at_work.pop(done)
            try:
                result = self._ray.get(done)
            except self._ray.exceptions.RayActorError as error:
                self._workers.remove(worker)
                losses[key] = losses.get(key, 0) + 1
                if losses[key] == LOSSES:
                    raise dead(f"{LOSSES} workers were lost over one task ({first_line(error)})") from error
                waiting.append(key)
            except self._ray.exceptions.RayTaskError as error:
                raise error_of(error) from error
            else:
                idle.append(worker)
                yield key, result

    def _hired(self) -> Any:
        worker = self._class.remote(**self._arguments)
        self._workers.append(worker)
        return worker


def _no_ray() -> str:
    return f"replicas of a model need Ray: {how_to_install('ray')}, or leave out --workers, --ray, --gpus-per-replica"
