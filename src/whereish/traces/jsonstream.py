"""JSON as a stream: one element of the arrays at the top at a time, however large the document."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from whereish.compressed import UNREADABLE, open_bytes, read_steps
from whereish.errors import FormatError

_CHUNK = 1 << 18
_LARGEST_ELEMENT = 1 << 28
_MARK = re.compile(r"[^ \t\r\n]")
_ENDS = frozenset(",:]} \t\r\n")


def elements(file: Path) -> Iterator[tuple[str, Any, int]]:
    """Yield the elements of the arrays at the top of a JSON document: key, element, line.

    The document is an array (then the key is empty) or an object, whose values that are no arrays
    are yielded whole. Only one element is held at a time.
    """
    with open_bytes(file) as stream:
        yield from _Scanner(stream).elements()


class _Scanner:
    """Reads JSON from a stream, one value at a time."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._pieces = read_steps(stream, _CHUNK)
        self._damage: Exception | None = None
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._line, self._over = "", 0, 1, False
        self._bytes = codecs.getincrementaldecoder("utf-8-sig")()

    def elements(self) -> Iterator[tuple[str, Any, int]]:
        opening = self._next()
        while opening:
            yield from self._document(opening)
            opening = self._next()  # several documents may follow one another

    def _document(self, opening: str) -> Iterator[tuple[str, Any, int]]:
        if opening == "[":
            yield from self._array("")
        elif opening == "{":
            while self._next(peek=True) not in ("}", ""):
                key = self._value()
                self._expect(":")
                if self._next(peek=True) == "[":
                    self._next()
                    yield from self._array(str(key))
                else:
                    yield str(key), self._value(), self._line
                if self._next(peek=True) == ",":
                    self._next()
            self._expect("}")
        else:
            raise FormatError("not JSON: neither an object nor an array")

    def _array(self, key: str) -> Iterator[tuple[str, Any, int]]:
        while self._next(peek=True) != "]":
            line = self._line
            yield key, self._value(), line
            if self._next(peek=True) == ",":
                self._next()
            elif self._next(peek=True) != "]":
                raise FormatError(f"not whole JSON from line {self._line} on")
        self._next()

    def _value(self) -> Any:
        """Decode the next value; read on while it is not all there."""
        self._next(peek=True)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                # The rest of a number may not be read yet: 0 of 0.5.
                if self._over or self._text[end : end + 1] in _ENDS:
                    break
            except (ValueError, RecursionError) as wrong:
                if self._over or isinstance(wrong, RecursionError):
                    raise FormatError(f"not whole JSON from line {self._line} on") from None
            if len(self._text) - self._at > _LARGEST_ELEMENT:
                raise FormatError(f"an element larger than 256 MB at line {self._line}")
            self._read()
        self._skip(end)
        return value

    def _next(self, peek: bool = False) -> str:
        """Return the next mark that is not white space; "" at the end."""
        while True:
            found = _MARK.search(self._text, self._at)
            self._skip(len(self._text) if found is None else found.start())
            if found is not None:
                self._at += not peek
                return found[0]
            if self._over:
                return ""
            self._read()

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise FormatError(f"not whole JSON from line {self._line} on")

    def _skip(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _read(self) -> None:
        # Twice as much each time: an element of any size is read in a few steps.
        if self._damage is not None:
            raise self._damage
        wanted = max(_CHUNK, len(self._text) - self._at)
        chunk = b""
        while len(chunk) < wanted and not self._over and self._damage is None:
            try:
                piece = next(self._pieces, b"")
            except UNREADABLE as wrong:
                self._damage = wrong  # raised after what came before it
            else:
                self._over = not piece
                chunk += piece
        try:
            more = self._bytes.decode(chunk, final=self._over)
        except UnicodeDecodeError:
            raise FormatError(f"not UTF-8 after line {self._line}") from None
        self._text, self._at = self._text[self._at :] + more, 0
