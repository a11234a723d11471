"""What language models answered, on disk, so that no answer is paid for twice.

One small JSON file an answer, named by the SHA-256 of what was asked, in folders by its first two digits. Each is
written whole the moment the answer arrives, so a run that is killed loses nothing it was given, and several runs can
share a folder. The address of the server is no part of the key: the same model elsewhere has answered already.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anachron.errors import DataError
from anachron.io import read_json, write_json

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote. ``finish`` is why it stopped (``stop``, ``length``, ...); ``served_by`` the server's own name
    for the model; tokens are None where the server counts none; ``reasoning`` is what it thought, where the server
    keeps that apart."""

    text: str
    finish: str | None
    refusal: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    served_by: str | None
    reasoning: str | None = None

    @property
    def cut_off(self) -> bool:
        """Whether it ended at the longest that was allowed, before its own end."""
        return self.finish == "length"


def prompt_key(model: str, prompt: str, parameters: dict[str, Any]) -> str:
    """SHA-256 of a request: its model, its text and the parameters that were asked for."""
    asked = {"format": FORMAT, "model": model, "prompt": prompt, "parameters": parameters}
    return hashlib.sha256(json.dumps(asked, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def default_cache() -> Path:
    """Where answers are kept unless said otherwise: in the user's cache folder, for all runs together."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "anachron" / "answers"


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """A folder of answers. Safe to share between threads and runs: files appear whole and are never changed."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> Answer | None:
        """The kept answer, or None. Raises `DataError` for a file that is no answer."""
        path = self.path(key)
        if not path.is_file():
            return None
        kept = read_json(path)
        try:
            return Answer(**kept["answer"])
        except (KeyError, TypeError) as error:
            raise DataError(f"{path} is not a kept answer; delete it and it will be asked for again") from error

    def put(self, key: str, model: str, prompt: str, answer: Answer) -> None:
        write_json(self.path(key), {"format": FORMAT, "model": model, "prompt": prompt, "answer": asdict(answer)})
