"""Chat templates are rendered in a process of their own, which ends where one takes too long or too much memory.

They come with models and are programs: loops in loops, or powers of large numbers, never end and cannot be stopped
from within. One process serves all templates and is started when the first is rendered.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from anachron.core.errors import ModelError

SECONDS = 10.0  # for one conversation of two turns, which takes well under a thousandth of it
AT_ONCE = 256  # conversations
SHOWN = 300  # characters of what a template says is wrong


Turns = list[dict[str, str]]


def render(tokenizer: Any, conversations: Sequence[Turns], template: str, *, prompt: bool) -> list[str]:
    """Conversations as a tokenizer's chat template writes them. prompt: with what stands before the next answer.

    Raises `ModelError` for a template that fails or does not end. Where a tokenizer has a way of its own to apply
    templates, which is code that the user asked for, it is applied here.
    """
    from transformers import PreTrainedTokenizerBase  # here, since formats are looked at before models are loaded

    if getattr(type(tokenizer), "apply_chat_template", None) is not PreTrainedTokenizerBase.apply_chat_template:
        return _here(tokenizer, conversations, template, prompt)
    names = {role: _plain(token) for role, token in tokenizer.special_tokens_map.items()}
    asked = {"template": template, "prompt": prompt, "tokens": names}
    texts: list[str] = []
    for first in range(0, len(conversations), AT_ONCE):
        texts += _worker.render({**asked, "conversations": conversations[first : first + AT_ONCE]})
    return texts


def _here(tokenizer: Any, conversations: Sequence[Turns], template: str, prompt: bool) -> list[str]:
    how = {"chat_template": template, "tokenize": False, "add_generation_prompt": prompt}
    try:
        return [str(tokenizer.apply_chat_template(turns, **how)) for turns in conversations]
    except Exception as error:  # foreign code: whatever it raises is reported
        raise _rejected(str(error)) from error


def _plain(token: Any) -> Any:
    return [str(one) for one in token] if isinstance(token, list | tuple) else str(token)


def _rejected(reason: str) -> ModelError:
    said = " ".join(reason.split())
    return ModelError(f"the chat template rejects a user turn and an answer: {said[:SHOWN]}")


class _Worker:
    """The process, which belongs to the one that started it: a fork starts its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner, self._lock = 0, Lock()

    def render(self, asked: Mapping[str, Any]) -> list[str]:
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:  # it is gone
                line = ""
            except BaseException:  # an interrupt: what it answers later is not to be taken for another's
                self.end()
                raise
            if not line:
                raise self._ended(process)
        answer = json.loads(line)
        if "error" in answer:
            raise _rejected(answer["error"])
        texts: list[str] = answer["texts"]
        return texts

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            script = Path(__file__).with_name("template_worker.py")
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
            self._owner = os.getpid()
        return self._process

    def _ended(self, process: subprocess.Popen[str]) -> ModelError:
        self.end()
        if process.returncode == 1:  # as it ends itself
            return ModelError(
                f"the chat template does not end within {SECONDS:g} s; pass another with --chat-template FILE"
            )
        return ModelError(
            f"the chat template breaks the process that renders it (exit code {process.returncode}); pass another with "
            "--chat-template FILE"
        )

    def end(self) -> None:
        """End the process, if there is one of this process."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.kill()
        process.wait()


_worker = _Worker()
atexit.register(_worker.end)
