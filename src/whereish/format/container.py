"""The container of a released mechanism: safetensors, read strictly.

Eight bytes with the length of the header, the header (JSON: name, type, shape and offsets of every
array, and a mapping of strings), the arrays. Any safetensors library reads it. This reader takes
only what `pack` would have written, byte for byte: a header in its one canonical form, arrays one
after another to the last byte of the file, and a digest of all of it. A file that was cut short or
edited, or is something else, is refused before anything in it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError, InputError

_TYPES: dict[str, np.dtype[Any]]
_TYPES = {
    "U64": np.dtype("<u8"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
}  # fmt: skip
_NAMES = {kind: name for name, kind in _TYPES.items()}
_LONGEST_HEADER = 1 << 20
_DIGEST = "sha256"
# Neither the digest nor the signature (format/signature.py) is part of what is digested.
_BESIDE = (_DIGEST, "signature", "signer")


def pack(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> bytes:
    """Return the bytes of a file with these arrays and texts, and a digest of them."""
    header: dict[str, Any] = {}
    body, end = [], 0
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        start, end = end, end + plain.nbytes
        header[name] = {
            "dtype": _NAMES[plain.dtype],
            "shape": list(plain.shape),
            "data_offsets": [start, end],
        }
        body.append(plain.tobytes())
    data = b"".join(body)
    texts = dict(about)
    texts[_DIGEST] = _digest(header, texts, data)
    head = _head({"__metadata__": texts, **header})
    if len(head) > _LONGEST_HEADER:
        raise InputError("the header of a file must fit into a megabyte, and this one does not")
    return head + data


def unpack(
    content: bytes, what: str = "mechanism"
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays, read-only, and the texts of a file; ``what`` it should be, for messages.

    Raises
    ------
    FormatError
        If it is not a file that `pack` made.
    """
    if len(content) < 8:
        raise FormatError(f"not a {what}: the file is cut short")
    length = int.from_bytes(content[:8], "little")
    if length > _LONGEST_HEADER:
        raise FormatError(f"not a {what}: it does not begin as a safetensors file does")
    if len(content) < 8 + length:
        raise FormatError(f"not a {what}: the file is cut short")
    header = parse_object(content[8 : 8 + length], what)
    texts = header.pop("__metadata__", None)
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise FormatError(f"not a {what}: its header says nothing about it")
    data = content[8 + length :]
    arrays, end = {}, 0
    for name, about in header.items():
        arrays[name], end = _array(name, about, data, end)
    if end != len(data):
        raise FormatError(f"the file must end after its arrays, got {len(data) - end} bytes more")
    said = texts.get(_DIGEST)
    if said != _digest(header, texts, data):
        raise FormatError("the file was changed: it does not have the digest that it says it has")
    if content[: 8 + length] != _head({"__metadata__": texts, **header}):
        raise FormatError("the file was changed: its header is not in the form it was written in")
    del texts[_DIGEST]
    return arrays, texts


def digest_of(content: bytes) -> str:
    """Return the digest of a file that `unpack` has taken: the one in its header."""
    length = int.from_bytes(content[:8], "little")
    return str(parse_object(content[8 : 8 + length])["__metadata__"][_DIGEST])


def _head(header: Mapping[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _digest(header: Mapping[str, Any], texts: Mapping[str, str], data: bytes) -> str:
    rest = {name: text for name, text in texts.items() if name not in _BESIDE}
    text = json.dumps([header, rest], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode() + b"\n" + data).hexdigest()


def parse_object(text: bytes | str, what: str = "mechanism") -> dict[str, Any]:
    """Parse JSON that must be an object, in ASCII; nothing in it may be named twice or be NaN.

    Raises
    ------
    FormatError
        If it is something else.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise FormatError(f"not a {what}: its header names something twice")
        return dict(pairs)

    def never(name: str) -> Any:
        raise FormatError(f"not a {what}: its header holds {name}")

    try:
        plain = text if isinstance(text, str) else text.decode("ascii")
        header = json.loads(plain, object_pairs_hook=once, parse_constant=never)
    except FormatError:
        raise
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise FormatError(f"not a {what}: it has no header that can be read")
    return header


def _array(name: str, about: Any, data: bytes, start: int) -> tuple[NDArray[Any], int]:
    try:
        kind, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
        dtype = _TYPES[kind]
        sizes = [size for size in shape if type(size) is int and 0 <= size < 2**32]
        first, end = offsets
        fine = isinstance(about, dict) and type(first) is int and type(end) is int
        fine = fine and len(about) == 3 and len(sizes) == len(shape) and 1 <= len(sizes) <= 2
    except (KeyError, TypeError, ValueError):
        fine = False
    if not fine:
        raise FormatError(f"the array {name[:40]!r} is not described as it must be")
    count = math.prod(sizes)
    if first != start or end != start + count * dtype.itemsize or end > len(data):
        raise FormatError(f"the array {name[:40]!r} is not where it must be in the file")
    return np.frombuffer(data, dtype, count, start).reshape(sizes), end
