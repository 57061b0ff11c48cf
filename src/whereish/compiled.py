"""The compiled core: the C library of the package, loaded with ctypes.

`core/whereish.h` describes every function. They release the interpreter's lock, so threads run them
at the same time. The environment variable WHEREISH_CORE names another library to load instead, for
example a build with sanitizers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_uint8,
    c_void_p,
)
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whereish.errors import WhereishError
from whereish.parallel import parallel_for

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

VERSION = 4  # WI_VERSION: the library must have the same
FOLDER = Path(__file__).parent / "_core"
_FEW = 10**6  # ratios, below which one thread is faster than several
_ENDINGS = {"win32": "whereish.dll", "darwin": "libwhereish.dylib"}


class Status(IntEnum):
    """The result of a function that can refuse its input (``wi_status``)."""

    OK = 0
    BAD_SIZE = 1
    BAD_INDEX = 2
    BAD_NUMBER = 3
    NO_MEMORY = 4
    BAD_STATE = 5
    COMMUNICATION = 6
    OUT_OF_TIME = 7


class Stopped(IntEnum):
    """Why a solve ended (``wi_stopped``)."""

    SOLVED = 0
    TIME = 1
    STOPPED = 2
    NUMERICS = 3


class Progress(Structure):
    """The state of a solve at one iteration (``wi_progress``)."""

    _fields_ = (
        ("iteration", c_int32),
        ("outputs", c_int32),
        ("rows", c_int64),
        ("loss", c_double),
        ("bound", c_double),
        ("gap", c_double),
    )


# The callbacks of a solve. A result other than 0 ends the solve. None stands for no callback.
ProgressCallback = CFUNCTYPE(c_int32, c_void_p, POINTER(Progress))
AllReduceCallback = CFUNCTYPE(c_int32, c_void_p, POINTER(c_double), c_int64, c_int64)
CheckpointCallback = CFUNCTYPE(None, c_void_p, POINTER(c_uint8), c_int64, c_int32)


class Options(Structure):
    """The options of a solve (``wi_options``)."""

    _fields_ = (
        ("tolerance", c_double),
        ("time_limit_s", c_double),
        ("threads", c_int32),
        ("parts", c_int32),
        ("catch_interrupt", c_int32),
        ("stop", c_void_p),
        ("progress", ProgressCallback),
        ("members", c_int32),
        ("member", c_int32),
        ("all_reduce", AllReduceCallback),
        ("checkpoint", CheckpointCallback),
        ("checkpoint_every", c_int32),
        ("resume", c_void_p),
        ("resume_bytes", c_int64),
        ("context", c_void_p),
    )


class Result(Structure):
    """The result of a solve (``wi_result``)."""

    _fields_ = (
        ("loss", c_double),
        ("bound", c_double),
        ("gap", c_double),
        ("seconds", c_double),
        ("iterations", c_int32),
        ("stopped", c_int32),
        ("parts", c_int32),
        ("columns", c_int32),
        ("output", POINTER(c_int32)),
        ("column", POINTER(c_double)),
        ("multipliers", c_int64),
        ("row_output", POINTER(c_int32)),
        ("row_left", POINTER(c_int32)),
        ("row_right", POINTER(c_int32)),
        ("row_value", POINTER(c_double)),
    )


class ConeReport(Structure):
    """What became of a conic program (``wi_cone_report``)."""

    _fields_ = (
        ("loss", c_double),
        ("bound", c_double),
        ("gap", c_double),
        ("seconds", c_double),
        ("iterations", c_int32),
        ("stopped", c_int32),
    )


class ElasticPasses(Structure):
    """The grid, the edges so far and one pass of an elastic metric (``wi_elastic``)."""

    _fields_ = (
        ("columns", c_int32),
        ("rows", c_int32),
        ("mass", c_void_p),
        ("fenced", c_void_p),
        ("steps", c_int32),
        ("right", c_void_p),
        ("up", c_void_p),
        ("start", c_double),
        ("level", c_double),
        ("slack", c_double),
        ("covered", c_void_p),
        ("edges", c_int64),
        ("capacity", c_int64),
        ("first", c_void_p),
        ("to", c_void_p),
        ("next", c_void_p),
        ("length", c_void_p),
    )


_ROWS = (c_int64, c_int64, c_int64, c_int64, c_void_p, c_void_p)  # low, high, n, m, two matrices
# Every function: the type of its result and of its parameters. Arrays are addresses, see `address`.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "wi_program_new": (
        c_int32,
        (c_int32, c_int32, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_void_p)),
    ),
    "wi_program_free": (None, (c_void_p,)),
    "wi_solve": (c_int32, (c_void_p, c_void_p, POINTER(Options), POINTER(POINTER(Result)))),
    "wi_solve_local": (
        c_int32,
        (
            c_int32,
            c_int32,
            c_int64,
            *(c_void_p,) * 7,
            POINTER(Options),
            c_void_p,
            c_void_p,
            POINTER(POINTER(Result)),
        ),
    ),
    "wi_result_free": (None, (POINTER(Result),)),
    "wi_leaves": (c_int32, (c_int32, c_int32, c_int32)),
    "wi_parts": (c_int32, (c_void_p, c_void_p)),
    "wi_spanner": (
        c_int32,
        (c_int32, c_void_p, c_double, c_double, c_void_p, POINTER(c_int64), c_void_p),
    ),
    "wi_reduce": (c_int32, (c_int32, c_int32, POINTER(c_void_p), c_int64, c_int64, c_void_p)),
    "wi_cone_corners": (c_int64, (c_int32, c_int32)),
    "wi_cones": (
        c_int32,
        (
            c_int32,
            c_int32,
            c_int32,
            c_void_p,
            c_void_p,
            c_void_p,
            c_double,
            POINTER(Options),
            c_void_p,
            c_void_p,
            POINTER(ConeReport),
        ),
    ),
    "wi_worst_ratios": (None, (*_ROWS, c_void_p)),
    "wi_first_broken": (None, (*_ROWS, c_void_p, c_void_p)),
    "wi_lift": (None, (*_ROWS, c_void_p)),
    "wi_shortfalls": (None, (*_ROWS, c_void_p)),
    "wi_cancel_cycles": (c_int32, (c_int64, c_int64, c_int64, *(c_void_p,) * 5)),
    "wi_return_spare": (None, (c_int64, c_int64, c_int64, *(c_void_p,) * 6)),
    "wi_cover": (
        c_int64,
        (
            c_int64,
            c_int64,
            c_void_p,
            c_void_p,
            c_void_p,
            c_double,
            c_int32,
            c_int64,
            c_double,
            c_double,
            c_void_p,
            c_void_p,
            c_int64,
            c_void_p,
            c_void_p,
            c_void_p,
            c_void_p,
        ),
    ),
    "wi_relax": (
        None,
        (c_int64, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
    ),
    "wi_elastic_pass": (c_int64, (POINTER(ElasticPasses), c_int64, c_void_p)),
    "wi_elastic_balls": (
        c_int32,
        (c_int64, c_int64, c_int64, *(c_void_p,) * 5, c_double, c_double, c_void_p, c_void_p),
    ),
    "wi_program_order": (None, (c_void_p, c_void_p, c_void_p)),
    "wi_program_paths": (None, (c_void_p, c_void_p, c_void_p)),
    "wi_envelope": (
        c_int32,
        (c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_void_p, c_void_p),
    ),
    "wi_instruction_set": (c_char_p, ()),
    "wi_version": (c_int32, ()),
}
# The arrays of the functions of rows: the type of their numbers, and their shape.
_ARRAYS: dict[str, tuple[tuple[str, str], ...]] = {
    "wi_worst_ratios": (("f8", "nm"), ("f8", "mn"), ("f8", "nn")),
    "wi_first_broken": (("u8", "nm"), ("u8", "nn"), ("i8", "nn"), ("i8", "n")),
    "wi_lift": (("f8", "nm"), ("f8", "nn"), ("f8", "nm")),
    "wi_shortfalls": (("f8", "nm"), ("f8", "nn"), ("f8", "nn")),
}


class CoreError(WhereishError):
    """The compiled core is missing, or does not fit this package or this processor."""


def library_path() -> Path:
    """Return the file of the library: that of the package, or the one that WHEREISH_CORE names."""
    named = os.environ.get("WHEREISH_CORE")
    return Path(named) if named else FOLDER / _ENDINGS.get(sys.platform, "libwhereish.so")


@cache
def library() -> ctypes.CDLL:
    """Return the compiled core of the package, with the types of all functions declared.

    Raises
    ------
    CoreError
        If the library is missing, has another version or needs a newer processor.
    """
    return load(library_path())


def load(path: Path) -> ctypes.CDLL:
    """Load a library, check its version and declare the types of all functions."""
    if not path.is_file():
        raise CoreError(
            f"the compiled core is missing: reinstall whereish, or run `make core` (there is no "
            f"{path.name} in {path.parent})"
        )
    try:
        core = ctypes.CDLL(str(path))
        core.wi_version.restype = c_int32
        version = core.wi_version()
    except (OSError, AttributeError) as wrong:
        raise CoreError(
            f"the compiled core cannot be loaded: reinstall whereish, or run `make core` ({wrong})"
        ) from None
    if version != VERSION:
        raise CoreError(
            f"the compiled core must have version {VERSION}, and has version {version}: reinstall "
            "whereish, or run `make core`"
        )
    for name, (result, parameters) in FUNCTIONS.items():
        function = getattr(core, name)
        function.restype, function.argtypes = result, parameters
    if core.wi_instruction_set() is None:
        raise CoreError(
            "the compiled core needs a processor with the instruction set x86-64-v2 (SSE 4.2), and "
            "this one is older"
        )
    return core


def instruction_set() -> str:
    """Return the instruction set in use, such as ``x86-64-v3``."""
    name: bytes = library().wi_instruction_set()
    return name.decode("ascii")


def for_rows(name: str, n: int, m: int, *arrays: NDArray[Any]) -> None:
    """Call a function of rows low <= x < high, ``wi_lift`` for example, for all rows on all cores.

    Types and shapes of the arrays are checked. The last one gets the results.
    """
    function = getattr(library(), name)
    sizes = {"n": n, "m": m}
    where = []
    for array, (kind, axes) in zip(arrays, _ARRAYS[name], strict=True):
        if array.shape != tuple(sizes[axis] for axis in axes):
            raise TypeError(f"{name} needs an array of shape {axes}, got {array.shape}")
        where.append(address(array, kind))
    if n * n * m < _FEW:
        function(0, n, n, m, *where)
    else:
        parallel_for(function, n, n, m, *where)


def address(array: NDArray[Any], kind: DTypeLike) -> int:
    """Return where the numbers of an array are, after a check of their type and order.

    The array must live until the call that gets the address has returned.
    """
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(f"the core needs a contiguous array of {kind}, got one of {array.dtype}")
    return array.ctypes.data
