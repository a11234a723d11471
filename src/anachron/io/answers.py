"""What language models answered, on disk, so that no answer is paid for twice.

One small JSON file an answer, named by the SHA-256 of who was asked what, in folders by its first two digits. Each is
written whole the moment the answer arrives, so a run that is killed loses nothing it was given, and several runs can
share a folder. The server's address is a part of the name: a model of the same name elsewhere may be another one.

A file holds the SHA-256 of its own content, and one that is not as it was written is no answer. Files of format 1 hold
neither that nor an address; `AnswerCache.unnamed` reads them for those who say which server answered.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anachron.core.errors import DataError
from anachron.io.cache import cache_folder
from anachron.io.files import Json, json_fingerprint, read_json, write_json

FORMAT = 2
NAMED = 5  # damaged files in a message


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote. ``finish`` is why it stopped (``stop``, ``length``, ...); ``served_by`` the server's own name
    for the model; tokens are None where the server counts none; ``reasoning`` is what it thought, where the server
    keeps that apart."""

    text: str
    finish: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    served_by: str | None = None
    reasoning: str | None = None

    @property
    def cut_off(self) -> bool:
        """Whether it ended at the longest that was allowed, before its own end."""
        return self.finish == "length"


def prompt_key(model: str, prompt: str, parameters: dict[str, Any], server: str | None = None) -> str:
    """SHA-256 of a request: its model and where that is served, its text and the parameters that were asked for.

    server: as of `anachron.io.servers.server_identity`; None for a model of this machine.
    """
    return _digest({"format": FORMAT, "server": server, "model": model, "prompt": prompt, "parameters": parameters})


def default_cache() -> Path:
    """Where answers are kept unless said otherwise: in the user's cache folder, for all runs together."""
    return cache_folder() / "answers"


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """A folder of answers. Safe to share between threads and runs: files appear whole and are never changed."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> Answer | None:
        """The kept answer, or None. Raises `DataError` for a file that is not as it was written."""
        path = self.path(key)
        if not path.is_file():
            return None
        kept = read_json(path)
        content = {name: value for name, value in kept.items() if name != "sha256"} if isinstance(kept, dict) else {}
        if not content or kept.get("sha256") != json_fingerprint(content) or content.get("key") != key:
            raise DataError(f"{path} is not a kept answer as it was written")
        return Answer(**content["answer"])

    def find(self, keys: Iterable[str], damaged: list[Path], usable: Callable[[Answer], bool]) -> Answer | None:
        """The first usable answer to any of these; files that are not as they were written go to ``damaged``."""
        for key in keys:
            try:
                kept = self.get(key)
            except DataError:
                damaged.append(self.path(key))
                continue
            if kept is not None and usable(kept):
                return kept
        return None

    def unnamed(self, model: str, prompt: str, parameters: dict[str, Any]) -> Answer | None:
        """An answer of format 1, from an unknown server; None without one. Raises `DataError` for a broken file."""
        asked: Json = {"model": model, "prompt": prompt}
        path = self.path(_digest({"format": 1, **asked, "parameters": parameters}))
        if not path.is_file():
            return None
        kept = read_json(path)
        try:
            if {name: kept[name] for name in asked} == asked:
                return Answer(**kept["answer"])
        except (KeyError, TypeError):
            pass
        raise DataError(f"{path} is not a kept answer; delete it and it will be asked for again")

    def put(self, key: str, model: str, prompt: str, answer: Answer, server: str | None = None) -> None:
        content: Json = {"format": FORMAT, "key": key, "server": server, "model": model, "prompt": prompt}
        content["answer"] = asdict(answer)
        write_json(self.path(key), content | {"sha256": json_fingerprint(content)})


def damaged_answers(damaged: list[Path], folder: Path) -> str:
    """What to say of some answers that are not as they were written."""
    names = ", ".join(f"{path.parent.name}/{path.name}" for path in damaged[:NAMED])
    return (
        f"{len(damaged):,} kept answers in {folder} are not as they were written ({names}"
        f"{', ...' if damaged[NAMED:] else ''})"
    )


def _digest(asked: Json) -> str:
    return hashlib.sha256(json.dumps(asked, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
