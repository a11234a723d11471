"""A model that is opened only where something must be computed, so that a finished run is read without its weights.

A model's identity has a fingerprint of its weights in memory. It follows from the files that they are read from and the
options that they are read with, so a run records these too (``opened`` in ``run.json``, which older runs lack): whoever
gives the very same again is known by the SHA-256 of the files, and everybody else's model is opened and compared.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from anachron.io.files import Json
from anachron.io.run_folder import RUN_FILE, RunFolder
from anachron.lm.scorer import Scorer


class Unopened:
    """A `Scorer` that opens itself when it is first asked for anything but its name. Use it as a context manager.

    source: all that decides what is opened, as JSON.
    """

    def __init__(self, name: str, source: Json, opener: Callable[[], AbstractContextManager[Scorer]]) -> None:
        self.name, self.source, self._opener = name, source, opener
        self._stack = ExitStack()
        self._scorer: Scorer | None = None

    def __enter__(self) -> "Unopened":
        return self

    def __exit__(self, *raised: Any) -> bool | None:
        self._scorer = None
        return self._stack.__exit__(*raised)

    def open(self) -> Scorer:
        """The scorer itself. Its resources last as long as this one's block, so open it outside of shorter blocks."""
        if self._scorer is None:
            self._scorer = self._stack.enter_context(self._opener())
        return self._scorer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.open(), name)


def recorded_identity(lm: Scorer | Unopened, folder: Path) -> Json | None:
    """The identity of a model by the record of a run that was finished with the same one, and ``edit_prefix``.

    None where the model is open, or the folder holds no such run.
    """
    if not isinstance(lm, Unopened) or not (folder / RUN_FILE).is_file():
        return None
    run = RunFolder.read(folder)
    opened = run.record.get("opened")
    if not run.is_done or not isinstance(opened, dict) or opened["source"] != lm.source:
        return None
    return {name: run.record["settings"][name] for name in opened["identity"]}


def keep_source(lm: Scorer | Unopened, run: RunFolder, identity: Json) -> None:
    """Record what a model was opened from, whose identity, with ``edit_prefix``, is part of the run's."""
    if isinstance(lm, Unopened):
        run.record["opened"] = {"source": lm.source, "identity": list(identity)}
        if run.is_done:
            run.save()
