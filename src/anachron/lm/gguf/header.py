"""What stands before the tensors of a GGUF file, read and checked without another library.

Whatever the bytes are, `read_header` returns or raises one `ValueError` that names the key: the libraries that read the
file later divide by its numbers, reserve memory of its sizes, or end the process.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import mmap
import re
import struct
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

VERSIONS = (2, 3)
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32  # where the file says none
_MOST_DIMENSIONS = 4  # of a tensor of the format
_BLOCK = re.compile(r"blk\.(\d+)\.")
# Keys (of the model without its architecture's name) whose value must be of a kind for the file to mean anything
_TEXTS = (
    "general.architecture", "general.name", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template",
    "rope.scaling.type",
)  # fmt: skip
_COUNTS = ("general.alignment", "split.count", "block_count", "context_length", "embedding_length", "vocab_size")
_LISTS = (
    "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
)  # fmt: skip
NO_TOKEN = 2**32 - 1  # the -1 that converters wrote for a model without a token for padding or for the unknown
_AT_LEAST_ONE = ("block_count", "context_length", "embedding_length", "attention.key_length")


class Length(int):
    """How many items a list has that is not kept."""


@dataclass(frozen=True)
class Tensor:
    """An entry of a file's table: its name, its shape (as torch has it) and the number of its bytes."""

    name: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Header:
    """What stands before the tensors of a GGUF file.

    about: its metadata; of a list of texts, or of the tokenizer, only the length is kept, other lists are tuples.
    """

    about: Mapping[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        return str(self.about["general.architecture"])

    def of_model(self) -> dict[str, Any]:
        """What it says of the model's arithmetic: keys without the architecture's name before them."""
        begin = f"{self.architecture}."
        return {key.removeprefix(begin): value for key, value in self.about.items() if key.startswith(begin)}


def read_header(path: Path) -> Header:
    """Metadata and table of tensors of a GGUF file.

    Raises `ValueError` for what is not one, says what no model can be, or is shorter than its own table says.
    """
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("this is not a GGUF file (it does not begin with GGUF); was it downloaded whole?")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            reader, length = _HeaderReader(data), len(data)
            try:
                version, tensors, fields = reader.numbers("IQQ")
                if version not in VERSIONS:
                    raise ValueError(f"GGUF version {version} is not read, only {' and '.join(map(str, VERSIONS))}")
                metadata = [reader.field() for _ in range(fields)]
                table = [reader.tensor() for _ in range(tensors)]
            except (struct.error, IndexError, OverflowError):
                raise ValueError(_SHORT.format(length=length, wanted="more")) from None
    _check_once("key", [key for key, _ in metadata])
    _check_once("tensor", [name for name, *_ in table])
    about = dict(metadata)
    _check_values(about)
    step = about.get("general.alignment", _ALIGNMENT)
    start = -(-reader.place // step) * step  # the end of the table, rounded up
    known, end = [], reader.place
    for name, shape, kind, offset in table:
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except ValueError:
            raise ValueError(
                f"tensor {name} is of type {kind}, which the package gguf does not know; update it"
            ) from None
        known.append(Tensor(name, shape, prod(shape) // block * size))
        end = max(end, start + offset + known[-1].size)
    if length < end:
        raise ValueError(_SHORT.format(length=length, wanted=end))
    header = Header(about, tuple(known))
    _check_blocks(header)
    return header


_SHORT = "the file is cut short: it has {length} bytes and needs {wanted}; download it again"


def _check_once(what: str, names: list[Hashable]) -> None:
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name} stands in the file twice; convert the model again")
        seen.add(name)


def _check_values(about: Mapping[str, Any]) -> None:
    """Refuse values that no model has, whoever reads them later."""
    if "general.architecture" not in about:
        raise ValueError("the file does not say its architecture (general.architecture); convert the model again")
    own = f"{about['general.architecture']}."
    for key, value in about.items():
        name, single = key.removeprefix(own), not isinstance(value, tuple)
        values = (value,) if single else value
        if name in _TEXTS and not isinstance(value, str):
            raise _wrong(key, value, "a text")
        if name in _COUNTS and not _is_count(value):
            raise _wrong(key, value, "a whole number that is not negative")
        if name in _LISTS and not isinstance(value, Length):
            raise _wrong(key, value, "a list")
        if name in _AT_LEAST_ONE and any(_is_count(number) and number < 1 for number in values[:1]):
            raise _wrong(key, value, "at least 1")
        if any(isinstance(number, float) and not math.isfinite(number) for number in values):
            raise _wrong(key, value, "a finite number")
        if name.endswith("_epsilon") and not all(is_number(number) and number >= 0 for number in values):
            raise _wrong(key, value, "a number that is not negative")
    tokens = about.get("tokenizer.ggml.tokens")
    for role in ("bos", "eos", "unknown", "padding"):
        key = f"tokenizer.ggml.{role}_token_id"
        if role in ("unknown", "padding") and about.get(key) == NO_TOKEN:
            continue
        if tokens is not None and key in about and not (_is_count(about[key]) and about[key] < tokens):
            raise _wrong(key, about[key], f"one of the {tokens} tokens")
    step = about.get("general.alignment", _ALIGNMENT)
    if step < 1 or step & (step - 1):
        raise _wrong("general.alignment", step, "a power of two")


def _wrong(key: str, value: Any, rule: str) -> ValueError:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}..."
    return ValueError(f"{key} is {shown}, and must be {rule}; the file is damaged, download or convert it again")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool | Length) and value >= 0


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_blocks(header: Header) -> None:
    """Refuse numbers of heads and layers that the tensors do not have: a model is built before they are looked at."""
    heads = header.of_model().get("attention.head_count", 1)
    if heads == 0 and any(".attn_" in tensor.name and "norm" not in tensor.name for tensor in header.tensors):
        raise _wrong(f"{header.architecture}.attention.head_count", heads, "at least 1")
    said = header.of_model().get("block_count")
    numbers = {int(found[1]) for tensor in header.tensors if (found := _BLOCK.match(tensor.name))}
    if said is not None and numbers and said != max(numbers) + 1:
        raise ValueError(
            f"{header.architecture}.block_count is {said}, and the file has tensors of {max(numbers) + 1} blocks; "
            "download or convert it again"
        )


class _HeaderReader:
    """Values one after the other, behind the first four bytes; little-endian."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.place = data, 4

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        form = struct.Struct("<" + kinds)
        values = form.unpack_from(self.data, self.place)
        self.place += form.size
        return values

    def text(self) -> str:
        (length,) = self.numbers("Q")
        return self._bytes(length).decode("utf-8", "replace")

    def _bytes(self, length: int) -> bytes:
        if self.place + length > len(self.data):
            raise IndexError
        self.place += length
        return self.data[self.place - length : self.place]

    def field(self) -> tuple[str, Any]:
        key, (kind,) = self.text(), self.numbers("I")
        if kind in _FIXED:
            return key, self.numbers(_FIXED[kind])[0]
        if kind == _STRING:
            return key, self.text()
        if kind != _ARRAY:
            raise ValueError(f"{key} is of type {kind}, which is not read; the file is damaged or of a newer format")
        item, count = self.numbers("IQ")
        if item == _STRING:
            for _ in range(count):
                self._bytes(self.numbers("Q")[0])
            return key, Length(count)
        if item not in _FIXED:
            raise ValueError(f"{key} is a list of type {item}, which is not read; the file is damaged or newer")
        numbers = self._bytes(struct.calcsize(_FIXED[item]) * count)
        if key.startswith(("general.", "tokenizer.")):
            return key, Length(count)
        return key, struct.unpack(f"<{count}{_FIXED[item]}", numbers)

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape, type and offset of a tensor."""
        name, (dimensions,) = self.text(), self.numbers("I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"tensor {name} has {dimensions} dimensions; {_MOST_DIMENSIONS} are the most")
        shape = self.numbers(f"{dimensions}Q")
        return name, shape[::-1], *self.numbers("IQ")
