"""A real HTTP server that speaks the OpenAI protocol and answers as a test scripts it."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support import http_server


class Reply:
    """What a request is answered with. ``cut``: the connection ends in the middle; ``hang``: nothing comes."""

    def __init__(self, status=200, body: Any = None, headers=None, *, raw: bytes | None = None, cut=False, hang=False):
        self.status, self.headers, self.cut, self.hang = status, headers or {}, cut, hang
        self.data = raw if raw is not None else json.dumps(body).encode()


def chat(content: Any, *, finish="stop", refusal=None, usage=(100, 20), model="served-model") -> Reply:
    """A completion."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Reply(body=body)


def error(status: int, message="no", *, code=None, param=None, headers=None) -> Reply:
    body = {"error": {"message": message, "type": "error", "code": code, "param": param}}
    return Reply(status, body, headers)


def prompt_of(request: dict) -> str:
    return "\n".join(message["content"] for message in request["messages"])


def parts_of(request: dict) -> tuple[str, str, str]:
    """Subject, object and date phrase that a prompt of ours holds."""
    text = prompt_of(request)
    found = [re.search(rf"^{name}: (\"(?:[^\"\\]|\\.)*\")", text, re.MULTILINE) for name in
             ("- subject", "- object", "The date phrase")]  # fmt: skip
    return tuple(json.loads(match[1]) for match in found)  # type: ignore[return-value, index]


def good_questions(request: dict) -> dict:
    """What a good model writes."""
    subject, answer, opening = parts_of(request)
    wordings = ("what did {} have?", "which thing belonged to {}?", "what was had by {}?", "of what was {} the holder?")
    return {"questions": [{"question": opening + w.format(subject), "answer": answer} for w in wordings]}


def good_answer(request: dict, **options) -> Reply:
    return chat(json.dumps(good_questions(request), ensure_ascii=False), **options)


class Server:
    """``url``, the ``requests`` that came (their bodies, in order of arrival) and their ``headers``."""

    def __init__(self, script: Callable[[dict, int], Reply]):
        self.script, self.requests, self.headers = script, [], []
        self.release, self.lock = threading.Event(), threading.Lock()
        self.most, self.now = 0, 0
        server = self

        class Handler(http_server.Handler):
            def do_POST(self):
                server.serve(self)

        self.http = http_server.Server(Handler)
        self.url = f"{self.http.address}/v1"

    def serve(self, handler: http_server.Handler) -> None:
        request = json.loads(handler.content())
        with self.lock:
            number = len(self.requests)
            self.requests.append(request)
            self.headers.append(handler.headers)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            self._answer(handler, self.script(request, number))
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True
        finally:
            with self.lock:
                self.now -= 1

    def _answer(self, handler: http_server.Handler, reply: Reply) -> None:
        if reply.hang:
            self.release.wait(30)
            handler.close_connection = True
            return
        data, length = reply.data, str(len(reply.data) + (1000 if reply.cut else 0))
        handler.reply(
            reply.status, data[: len(data) // 2] if reply.cut else data, {"content-length": length, **reply.headers}
        )
        handler.close_connection = reply.cut

    def times_asked(self) -> dict[str, int]:
        """How often each prompt came."""
        texts = [prompt_of(request) for request in self.requests]
        return {text: texts.count(text) for text in texts}


@contextmanager
def serving(script: Callable[[dict, int], Reply]) -> Iterator[Server]:
    server = Server(script)
    with http_server.running(server.http):
        try:
            yield server
        finally:
            server.release.set()
