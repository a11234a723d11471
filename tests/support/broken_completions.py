"""What a server of completions can do wrong: each entry of `BROKEN` is one, for tests/completions_server.py.

An entry changes the reply that would be right, or (`Raw`) says itself what goes over the connection.
"""

import gzip
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from support.http_server import Handler

Body = dict[str, Any]
Lists = dict[str, Any]
DRIP = 0.2  # seconds between two bytes
FIRST = r'("token_logprobs": \[null, )-[-.e\d]+'  # the first number of a part of a reply


@dataclass(frozen=True)
class AfterItself:
    """The number of each token is that after it was read, as a server that others wrote has it."""

    def __call__(self, body: Body) -> Body:
        return body


@dataclass(frozen=True)
class Raw:
    """Answers a request on its own; ``send`` is given the handler and the bytes of the right reply."""

    send: Callable[[Handler, bytes], None]


def _lists(change: Callable[[Lists], None]) -> Callable[[Body], Body]:
    """Change the lists of tokens and numbers of each choice that has the text in it."""

    def wrong(body: Body) -> Body:
        for choice in body["choices"]:
            if len(choice["logprobs"]["tokens"]) > 1:
                change(choice["logprobs"])
        return body

    return wrong


def _numbers(change: Callable[[float], Any], *, only: int | None = None) -> Callable[[Body], Body]:
    """Change every number, also where it stands beside the most probable tokens; or only one, counted from the end."""

    def change_lists(lists: Lists) -> None:
        values = lists["token_logprobs"]
        for place in range(1, len(values)) if only is None else [len(values) - only]:
            values[place] = change(values[place])
            lists["top_logprobs"][place] = {
                name: change(value) for name, value in lists["top_logprobs"][place].items()
            } if only is None else None  # fmt: skip

    return _lists(change_lists)


def _shift(name: str, by: int) -> Callable[[Lists], None]:
    def change(lists: Lists) -> None:
        values = lists[name]
        lists[name] = [None, *values[1:2], *values[1:-1]] if by > 0 else [None, *values[2:], values[-1]]

    return change


def _all(*changes: Callable[[Lists], None]) -> Callable[[Body], Body]:
    def change(lists: Lists) -> None:
        for one in changes:
            one(lists)

    return _lists(change)


def _set(name: str, value: Any) -> Callable[[Body], Body]:
    return _lists(lambda lists: lists.update({name: value}))


def _cut(*names: str, by: int) -> Callable[[Body], Body]:
    return _lists(lambda lists: lists.update({name: lists[name][:-by] for name in names}))


def _drop_first(lists: Lists) -> None:
    for name in ("tokens", "token_logprobs", "top_logprobs"):
        lists[name] = lists[name][1:]


def _drop_second(lists: Lists) -> None:
    for name in ("tokens", "token_logprobs", "top_logprobs"):
        lists[name] = [lists[name][0], *lists[name][2:]]


def _begin(lists: Lists) -> None:
    for name, value in (("tokens", "<s>"), ("token_logprobs", None), ("top_logprobs", None)):
        lists[name] = [value, *lists[name]]


def _begin_unseen(lists: Lists) -> None:
    lists["token_logprobs"][0], lists["top_logprobs"][0] = -2.5, {lists["tokens"][0]: -2.5}


def _without_names(lists: Lists) -> None:
    lists["tokens"] = ["\ufffd" for _ in lists["tokens"]]


def _indices(change: Callable[[int], Any]) -> Callable[[Body], Body]:
    def wrong(body: Body) -> Body:
        for choice in body["choices"]:
            choice["index"] = change(choice["index"])
        return body

    return wrong


def _swapped(body: Body) -> Body:
    """The right indices beside the wrong texts."""
    found = [choice["logprobs"] for choice in body["choices"]]
    for choice, lists in zip(body["choices"], found[1:] + found[:1], strict=True):
        choice["logprobs"] = lists
    return body


def _bytes(change: Callable[[str], str]) -> Raw:
    """A whole reply whose text is changed."""
    return _reply(200, lambda data: change(data.decode()).encode())


def _reply(status: int, change: Callable[[bytes], bytes], **headers: str) -> Raw:
    def send(handler: Any, data: bytes) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(status, change(data), names)

    return Raw(send)


def _echo(status: int, write: Callable[[str], str]) -> Raw:
    """An error that repeats the header with the key, in some writing."""

    def send(handler: Any, data: bytes) -> None:
        message = f"what is {write(handler.headers['authorization'] or '')} to me"
        handler.reply(status, {"error": {"message": message}}, {"retry-after": "0.01"})

    return Raw(send)


def _echo_line(handler: Any, data: bytes) -> None:
    """The header with the key where a line of HTTP should be."""
    handler.wfile.write(f"HTTP/1.1 200 OK\r\n{handler.headers['authorization']}\r\n\r\n".encode())
    handler.close_connection = True


def _drip(handler: Any, data: bytes, *, first: bytes) -> None:
    """A byte now and then: none comes late, and all of them never come."""
    with suppress(OSError):
        handler.wfile.write(first)
        for byte in data * 1000:
            handler.wfile.write(bytes([byte]))
            time.sleep(DRIP)
    handler.close_connection = True


def _silent(handler: Any, data: bytes) -> None:
    time.sleep(10)
    handler.close_connection = True


def _endless(handler: Any, data: bytes) -> None:
    with suppress(OSError):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n")
        while True:
            handler.wfile.write(b" " * 2**20)
    handler.close_connection = True


def _cut_off(handler: Any, data: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data) + data[: len(data) // 2])
    handler.close_connection = True


def _elsewhere(handler: Any, data: bytes) -> None:
    """To this server as another host, at a mode that answers well: whoever follows takes the key along."""
    port = handler.server.server_port
    handler.reply(307, {}, {"location": f"http://localhost:{port}/plain/v1/completions"})


BROKEN: dict[str, Any] = {
    # numbers that are no log-probabilities
    "probabilities": _numbers(lambda x: 2.718281828459045**x),
    "tiny probabilities": _numbers(lambda x: 1e-7),
    "other sign": _numbers(lambda x: -x),
    "zeros": _numbers(lambda x: 0.0),
    "all minus 9999": _numbers(lambda x: -9999.0),
    "one minus 9999": _numbers(lambda x: -9999.0, only=2),
    "NaN": _numbers(lambda x: float("nan")),
    "one NaN": _numbers(lambda x: float("nan"), only=2),
    "minus infinity": _numbers(lambda x: float("-inf")),
    "infinity": _numbers(lambda x: float("inf"), only=2),
    "overflow": _bytes(lambda text: re.sub(FIRST, r"\1-1e999", text)),
    "long digits": _bytes(lambda text: re.sub(FIRST, r"\1-" + "9" * 400, text)),
    "texts for numbers": _numbers(str),
    "NaN as text": _numbers(lambda x: "NaN", only=2),
    "true for a number": _numbers(lambda x: True, only=2),
    "false for a number": _numbers(lambda x: False),
    "null for a number": _numbers(lambda x: None, only=2),
    "a list for a number": _numbers(lambda x: [x], only=2),
    # numbers beside other tokens
    "tokens null": _set("tokens", None),
    "tokens missing": _lists(lambda lists: lists.pop("tokens")),
    "tokens as one text": _set("tokens", "abc"),
    "tokens of another tokenizer": _lists(lambda lists: lists.update(tokens=["x" for _ in lists["tokens"]])),
    "tokens that cannot be read": _lists(_without_names),
    "tokens as numbers": _lists(lambda lists: lists.update(tokens=list(range(len(lists["tokens"]))))),
    "tokens shifted": _lists(lambda lists: lists.update(tokens=[*lists["tokens"][1:], lists["tokens"][0]])),
    "numbers shifted right": _lists(_shift("token_logprobs", 1)),
    "numbers shifted left": _lists(_shift("token_logprobs", -1)),
    "numbers and best shifted right": _all(_shift("token_logprobs", 1), _shift("top_logprobs", 1)),
    "numbers and best shifted left": _all(_shift("token_logprobs", -1), _shift("top_logprobs", -1)),
    "numbers shifted, no best": _all(_shift("token_logprobs", 1), lambda lists: lists.update(top_logprobs=None)),
    "after itself": AfterItself(),
    "first token dropped": _lists(_drop_first),
    "second token dropped": _lists(_drop_second),
    "begins with another": _lists(_begin),
    "begins with another unseen": _lists(_begin_unseen),
    "short lists": _cut("tokens", "token_logprobs", "top_logprobs", by=3),
    "short numbers": _cut("token_logprobs", by=1),
    "short tokens": _cut("tokens", by=1),
    "numbers reversed": _lists(lambda lists: lists.update(token_logprobs=[None, *lists["token_logprobs"][:0:-1]])),
    "echo ignored": _lists(lambda lists: lists.update({name: values[-1:] for name, values in lists.items()})),
    # choices
    "index repeated": _indices(lambda index: 0),
    "index from one": _indices(lambda index: index + 1),
    "index negative": _indices(lambda index: -index),
    "index as text": _indices(str),
    "index null": _indices(lambda index: None),
    "choices swapped": _swapped,
    "one choice only": lambda body: body | {"choices": body["choices"][:1]},
    "one choice too many": lambda body: body | {"choices": body["choices"] + body["choices"][:1]},
    "no choices": lambda body: {name: value for name, value in body.items() if name != "choices"},
    "choices as text": lambda body: body | {"choices": "none"},
    "choices null": lambda body: body | {"choices": [None for _ in body["choices"]]},
    "no numbers": lambda body: body | {"choices": [choice | {"logprobs": None} for choice in body["choices"]]},
    "numbers as text": lambda body: body | {"choices": [choice | {"logprobs": "x"} for choice in body["choices"]]},
    "another model": lambda body: body | {"model": "another"},
    # replies that are none
    "an error as success": lambda body: {"error": {"message": "out of memory", "code": 500}},
    "a list": lambda body: [body],
    "nothing": _reply(200, lambda data: b""),
    "no content": _reply(204, lambda data: b""),
    "a page": _reply(200, lambda data: b"<html>Sign in</html>", content_type="text/html"),
    "right under another name": _reply(200, lambda data: data, content_type="text/html"),
    "a stream of events": _reply(200, lambda data: b"data: " + data + b"\n\n", content_type="text/event-stream"),
    "deep": _reply(200, lambda data: b'{"choices":' * 100_000),
    "not UTF-8": _reply(200, lambda data: data.replace(b"completion", b"\xff\xfe\xfa")),
    "packed": _reply(200, gzip.compress, content_encoding="gzip"),
    "packed badly": _reply(200, lambda data: b"\x1f\x8b garbage", content_encoding="gzip"),
    "packed beyond measure": _reply(200, lambda data: gzip.compress(b" " * 2**28, 1), content_encoding="gzip"),
    "half": Raw(_cut_off),
    "endless": Raw(_endless),
    "silent": Raw(_silent),
    "dripping": Raw(lambda h, data: _drip(h, data, first=b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n")),
    "dripping headers": Raw(lambda h, data: _drip(h, b"a", first=b"HTTP/1.1 200 OK\r\nx: ")),
    "elsewhere": Raw(_elsewhere),
    "elsewhere, nowhere": _reply(302, lambda data: b""),
    # the key
    "key in a 400": _echo(400, str),
    "key in a 401": _echo(401, str),
    "key in a 403": _echo(403, str),
    "key in a 500": _echo(500, str),
    "key in a 418": _echo(418, str),
    "key in an address": _echo(403, lambda text: quote(text, safe="")),
    "key in small letters": _echo(403, str.lower),
    "half the key": _echo(403, lambda text: text[: 7 + 20]),
    "key as a header": Raw(_echo_line),
    "key in a reply": Raw(lambda h, data: h.reply(200, {"error": {"message": h.headers["authorization"]}})),
    "key as a token": Raw(
        lambda h, data: h.reply(200, data.replace(b"token_id:", (h.headers["authorization"] or "token_id:").encode()))
    ),
}  # fmt: skip
