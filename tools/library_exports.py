"""Read which functions a library exports: ELF, Mach-O, PE or WebAssembly, of any platform."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path


def exported_names(content: bytes) -> set[str]:
    """Return the names of the exported symbols of a library.

    Raises
    ------
    ValueError
        If the content is not a library of a known format for 64 bits, or WebAssembly.
    """
    readers = {b"\x7fELF\x02": _elf, b"\xcf\xfa\xed\xfe": _mach, b"MZ": _pe, b"\0asm": _wasm}
    for magic, reader in readers.items():
        if content.startswith(magic):
            return set(reader(content))
    raise ValueError("not an ELF, Mach-O or PE library for 64 bits, nor WebAssembly")


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode("ascii")


def _elf(content: bytes) -> Iterator[str]:
    """Yield the defined global names of the section .dynsym."""
    (sections,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", content, sections + size * k) for k in range(count)
    ]
    for header in headers:
        if header[1] != 11:  # SHT_DYNSYM
            continue
        start, length, names = header[4], header[5], headers[header[6]][4]
        for at in range(start, start + length, 24):
            name, info, _, section = struct.unpack_from("<IBBH", content, at)
            if section and info >> 4:
                yield _text(content, names + name)


def _mach(content: bytes) -> Iterator[str]:
    """Yield the names of the export trie; they begin with an underscore, which is left out."""
    (count,) = struct.unpack_from("<I", content, 16)
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", content, at)
        start = length = 0
        if command == 0x80000033:  # LC_DYLD_EXPORTS_TRIE
            start, length = struct.unpack_from("<II", content, at + 8)
        elif command in (0x22, 0x80000022):  # LC_DYLD_INFO
            start, length = struct.unpack_from("<II", content, at + 40)
        if length:
            yield from _trie(content[start : start + length], 0, "")
        at += size


def _trie(trie: bytes, at: int, prefix: str) -> Iterator[str]:
    size, at = _leb(trie, at)
    if size:
        yield prefix.removeprefix("_")
    at += size
    children, at = trie[at], at + 1
    for _ in range(children):
        edge = _text(trie, at)
        child, at = _leb(trie, at + len(edge) + 1)
        yield from _trie(trie, child, prefix + edge)


def _leb(content: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number, and where it ends."""
    value = shift = 0
    while True:
        byte, at = content[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _pe(content: bytes) -> Iterator[str]:
    """Yield the names of the export directory."""
    (header,) = struct.unpack_from("<I", content, 0x3C)
    (count,) = struct.unpack_from("<H", content, header + 6)
    (optional,) = struct.unpack_from("<H", content, header + 20)
    (directory,) = struct.unpack_from("<I", content, header + 24 + 112)
    sections = [
        struct.unpack_from("<IIII", content, header + 24 + optional + 40 * k + 8)
        for k in range(count)
    ]

    def offset(address: int) -> int:
        return next(
            a - b + address for s, b, size, a in sections if b <= address < b + max(s, size)
        )

    at = offset(directory)
    names, table = struct.unpack_from("<I4xI", content, at + 24)
    for name in struct.unpack_from(f"<{names}I", content, offset(table)):
        yield _text(content, offset(name))


def _wasm(content: bytes) -> Iterator[str]:
    """Yield the names of the section of exports."""
    at = 8
    while at < len(content):
        section, (size, start) = content[at], _leb(content, at + 1)
        if section == 7:
            count, place = _leb(content, start)
            for _ in range(count):
                length, place = _leb(content, place)
                yield content[place : place + length].decode("utf-8")
                _, place = _leb(content, place + length + 1)
        at = start + size


if __name__ == "__main__":
    for file in sys.argv[1:]:
        sys.stdout.write("\n".join(sorted(exported_names(Path(file).read_bytes()))) + "\n")
