"""Run the parser of OpenStreetMap extracts (osmium) in a process of its own.

The parser is C++ and reads files of others: a file that ends its process ends in one line of error
here, and Ctrl-C ends it at once. A reader is a class that is made in that process; see `Reader`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from whereish.errors import FormatError, InputError
from whereish.extras import require
from whereish.maps.area import Area

MOST_POINTS = 20_000_000  # that a reader keeps: about 2 GB
_IN_MEMORY = 300 << 20  # bytes of a file whose nodes (16 bytes each) are kept in memory

Progress = Callable[[str], None]


class Reader(Protocol):
    """What reads an extract in the other process."""

    def __init__(self, area: Area | None, news: Progress) -> None: ...

    def read(self, path: str, store: str) -> None:
        """Read a file; ``store`` is where osmium keeps the positions of nodes."""

    def result(self) -> Any:
        """Return what was found, without objects of osmium; None if that is nothing."""


class TooManyPointsError(Exception):
    """More points than a reader may keep."""


def parse_extract(
    path: Path,
    reader: type[Reader],
    area: Area | None,
    progress: Progress,
    command: str,
    needed: str,
) -> Any:
    """Read an extract in another process and return what the reader found.

    Parameters
    ----------
    command
        The part of Whereish that needs it, for the message if osmium is not installed.
    needed
        What the area must hold, for the message if there is none of it.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged or holds too much; if osmium is not installed.
    """
    require("osmium", command)
    if not path.is_file():
        raise InputError(f"an extract must be a file that exists, got {path}")
    _check_begin(path)
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_child, args=(there, str(path), reader, area), daemon=True)
    child.start()
    there.close()
    try:
        return _listen(here, path, progress, needed)
    except EOFError:
        child.join()
        raise FormatError(
            f"{path.name} must be an OpenStreetMap extract (.osm.pbf), and its parser ended with "
            f"code {child.exitcode}: the file is damaged; fetch it again"
        ) from None
    finally:
        child.kill()
        child.join()
        here.close()


def _listen(pipe: Any, path: Path, progress: Progress, needed: str) -> Any:
    while True:
        what, told = pipe.recv()
        if what == "news":
            progress(told)
        elif what == "wrong":
            raise FormatError(
                f"{path.name} must be an OpenStreetMap extract (.osm.pbf), and it is not, or is "
                f"damaged ({told}); fetch it again"
            )
        elif what == "large":
            raise InputError(
                f"an area must hold at most {MOST_POINTS:,} points of roads and outlines, and this "
                "one holds more: give a smaller one with --area or --around"
            )
        elif told is None:
            raise InputError(
                f"an area must hold {needed}, and this extract has none there: is it the extract "
                "of the right region?"
            )
        else:
            return told


def _check_begin(path: Path) -> None:
    """Refuse a file whose first block is not the header of a PBF file, before a process starts."""
    with path.open("rb") as stream:
        head = stream.read(64)
    if b"OSMHeader" not in head:
        raise FormatError(
            f"{path.name} must be an OpenStreetMap extract in PBF (.osm.pbf), and it does not "
            "begin as one"
        )


def _child(pipe: Any, path: str, reader: type[Reader], area: Area | None) -> None:
    """Read in the other process; send news, and the result or what is wrong."""
    # What libraries print to standard error would be among the messages of the command.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        made = reader(area, lambda news: pipe.send(("news", news)))
        with _node_store(path) as store:
            made.read(path, store)
        pipe.send(("done", made.result()))
    except KeyboardInterrupt:
        pass
    except TooManyPointsError:
        pipe.send(("large", None))
    except (RuntimeError, ValueError, OSError, MemoryError) as wrong:
        # The words of the parser, without numbers: one could be a coordinate.
        words = "".join(c for c in str(wrong) if not c.isdigit())[:100]
        pipe.send(("wrong", " ".join(words.split()) or type(wrong).__name__))


@contextmanager
def _node_store(path: str) -> Iterator[str]:
    """Return where osmium keeps positions of nodes: memory, or a file for a large extract."""
    if os.path.getsize(path) <= _IN_MEMORY:
        yield "sparse_mem_array"
        return
    with tempfile.TemporaryDirectory(prefix="whereish-nodes-") as folder:
        yield f"sparse_file_array,{folder}/nodes"
