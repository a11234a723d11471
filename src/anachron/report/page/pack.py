"""Numbers and text for a page: differences of neighbours, narrow types, bytes by plane, deflate, base64.

The page's own code undoes it with ``DecompressionStream``, which browsers bring along; see ``base.js``.
"""

import base64
import zlib

import numpy as np

from anachron.core.errors import DataError
from anachron.io.files import Json

WIDTHS = (("i1", 7), ("i2", 15), ("i4", 31))
LARGEST = 2**51  # differences then stay below 2**53, where doubles, the numbers of JavaScript, have gaps


def deflate(data: bytes) -> str:
    """Bytes as base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def pack(values: np.ndarray, *, differences: bool = False) -> Json:
    """Whole numbers as ``type`` (of each, little-endian), ``differences`` (or plain) and ``data``.

    values: whole numbers of any numeric type, at most `LARGEST` in size; one dimension. With ``differences`` each
    number is stored as its distance from the one before, which is small where neighbours are alike. The bytes
    are ordered by their place in the number, all lowest bytes first, so that the nearly constant high ones shrink.
    Raises `DataError` for a number that is too large.
    """
    given = np.asarray(values)
    if given.size and np.abs(given).max() > LARGEST:
        raise DataError(f"{np.abs(given).max():.3g} is too large a number for a page; at most {LARGEST:.3g}")
    whole = given.astype(np.int64)
    stored = np.diff(whole, prepend=np.int64(0)) if differences else whole
    largest = int(max(stored.max(), -stored.min() - 1, 0)) if stored.size else 0
    kind = next((name for name, bits in WIDTHS if largest < 2**bits), "f8")
    typed = stored.astype(f"<{kind}")
    planes = typed.view(np.uint8).reshape(-1, typed.itemsize).T
    return {"type": kind, "differences": differences, "data": deflate(planes.tobytes())}
