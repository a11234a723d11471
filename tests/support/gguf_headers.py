"""GGUF files with other bytes in what stands before their tensors."""

import random
import struct
from collections.abc import Iterator

# A value of each type of the format, as it stands in a file behind the number of its type
KINDS: dict[str, tuple[int, bytes]] = {
    "uint8": (0, b"\x03"),
    "int8": (1, b"\xfd"),
    "uint16": (2, struct.pack("<H", 7)),
    "int16": (3, struct.pack("<h", -7)),
    "uint32": (4, struct.pack("<I", 2**32 - 1)),
    "int32": (5, struct.pack("<i", -1)),
    "float32": (6, struct.pack("<f", float("nan"))),
    "bool": (7, b"\x01"),
    "text": (8, struct.pack("<Q", 3) + b"two"),
    "list of numbers": (9, struct.pack("<IQ", 5, 2) + struct.pack("<ii", -1, 0)),
    "list of texts": (9, struct.pack("<IQ", 8, 1) + struct.pack("<Q", 1) + b"x"),
    "list of nothing": (9, struct.pack("<IQ", 4, 0)),
    "list of lists": (9, struct.pack("<IQ", 9, 0)),
    "uint64": (10, struct.pack("<Q", 2**63)),
    "int64": (11, struct.pack("<q", -(2**63))),
    "float64": (12, struct.pack("<d", 1e300)),
    "of tomorrow": (13, b"\0" * 8),
}
SIZES = (0, 1, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1)
_WIDTH = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def fields(data: bytes) -> list[tuple[str, int, int]]:
    """Of each key its name, and where its type begins and its value ends."""
    place, found = 24, []
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        (length,) = struct.unpack_from("<Q", data, place)
        name, begin = data[place + 8 : place + 8 + length].decode(), place + 8 + length
        place = begin + 4 + _size(data, struct.unpack_from("<I", data, begin)[0], begin + 4)
        found.append((name, begin, place))
    return found


def _size(data: bytes, kind: int, place: int) -> int:
    if kind in _WIDTH:
        return _WIDTH[kind]
    if kind == 8:
        return int(8 + struct.unpack_from("<Q", data, place)[0])
    item, count = struct.unpack_from("<IQ", data, place)
    size = 12
    for _ in range(count):
        size += _size(data, item, place + size)
    return size


def with_values(data: bytes, kind: str) -> Iterator[bytes]:
    """The file with one key after the other of that type; the tensors are moved as the format has it."""
    number, value = KINDS[kind]
    places = fields(data)
    begin = tensors_begin(data, places[-1][2])
    for _, start, end in places:
        head = data[:start] + struct.pack("<I", number) + value + data[end : begin[0]]
        yield head + b"\0" * (-len(head) % 32) + data[begin[1] :]


def tensors_begin(data: bytes, place: int) -> tuple[int, int]:
    """Where the table of tensors ends, and where the first begins."""
    for _ in range(struct.unpack_from("<Q", data, 8)[0]):
        (length,) = struct.unpack_from("<Q", data, place)
        place += 8 + length
        (dimensions,) = struct.unpack_from("<I", data, place)
        place += 4 + 8 * dimensions + 12
    return place, -(-place // 32) * 32


def broken_headers(data: bytes, seed: int, number: int) -> Iterator[bytes]:
    """Files with impossible counts and lengths, and with random bytes, in what stands before the tensors."""
    places = fields(data)
    end, _ = tensors_begin(data, places[-1][2])
    counts = [8, 16, *(start - 8 - len(name) for name, start, _ in places)]  # tensors, keys, lengths of names
    counts += [start + 4 for _, start, _ in places if data[start] == 8]  # lengths of texts
    counts += [start + 8 for _, start, _ in places if data[start] == 9]  # of lists
    for place in counts:
        for size in SIZES:
            yield data[:place] + struct.pack("<Q", size) + data[place + 8 :]
    draws = random.Random(seed)
    for _ in range(number):
        changed = bytearray(data)
        for _ in range(draws.choice([1, 1, 2, 8])):
            changed[draws.randrange(4, end)] = draws.choice([0, 1, 255, draws.randrange(256)])
        yield bytes(changed)
