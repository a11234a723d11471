"""What a language model was asked to write as one JSON object, read leniently; and labels quoted for its prompt."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from anachron.core.errors import DataError
from anachron.io.reasoning import split_reasoning
from anachron.io.untrusted import whole_texts


def object_in(text: str) -> dict[str, Any]:
    """The one JSON object in what a model wrote.

    Lenient about what surrounds it: reasoning (`split_reasoning`), a Markdown fence, a sentence in front. Raises
    `DataError` for no object and for more than one.
    """
    objects = list(_objects(split_reasoning(text)[0]))
    if not objects:
        raise DataError(f"no JSON object in {shown(text)}")
    if len(objects) > 1:
        raise DataError(f"{len(objects)} JSON objects in {shown(text)}, one was asked for")
    return objects[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, from left to right."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield whole_texts(value)[0]  # half a character may be written as an escape, and no file in UTF-8 can hold it


def shown(text: str, limit: int = 200) -> str:
    """A model's text in a message: quoted, and cut where it is long."""
    return repr(text if len(text) <= limit else f"{text[:limit]}...")


def quoted(text: str) -> str:
    """A label in a prompt, as JSON: none can pass for an instruction."""
    return json.dumps(text, ensure_ascii=False)


def by_frequency(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason occurs, the most frequent first, equals by name."""
    return dict(sorted(Counter(reasons).items(), key=lambda item: (-item[1], item[0])))
