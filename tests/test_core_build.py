"""The compiled core: what is built, what is loaded, and its checks against slow arithmetic."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from whereish import compiled

ROOT = Path(__file__).resolve().parent.parent
HEADER = (ROOT / "core" / "whereish.h").read_text()
LEVELS = ("v2", "v3", "v4")
FOLDER = ROOT / "src" / "whereish" / "_core"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))


def load(path: str) -> ModuleType:
    name = "core_build_" + Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build() -> ModuleType:
    return load("core/build.py")


def declared() -> set[str]:
    """Return the functions of the header, read another way than core/build.py does."""
    without_comments = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    return set(re.findall(r"\b(wi_[a-z_]+)\s*\(", without_comments))


# What is built


def test_the_library_exports_the_header_and_nothing_else(build: ModuleType) -> None:
    names = load("tools/library_exports.py").exported_names
    assert names((FOLDER / build.native().library).read_bytes()) == declared()
    assert set(build.exports()) == declared() == set(compiled.FUNCTIONS)


def test_the_web_module_exports_the_header_and_needs_clock_and_progress(build: ModuleType) -> None:
    if not (build.CLIENT / build.WASM.library).exists():
        pytest.skip("the WebAssembly module is not built: make core")
    content = (build.CLIENT / build.WASM.library).read_bytes()
    reader = load("tools/library_exports.py")
    assert reader.exported_names(content) >= declared() | {"malloc", "free", "memory"}
    assert reader.wasm_imports(content) == {"env.now", "env.progress"}


def structures() -> dict[str, type[ctypes.Structure]]:
    return {
        "wi_options": compiled.Options,
        "wi_progress": compiled.Progress,
        "wi_result": compiled.Result,
        "wi_cone_report": compiled.ConeReport,
        "wi_elastic": compiled.ElasticPasses,
    }


def test_structures_are_laid_out_as_in_c(tmp_path: Path) -> None:
    """The C compiler agrees with the offset of each field, in the order of the header."""
    lines = ['#include "whereish.h"', "#include <stddef.h>"]
    for name, structure in structures().items():
        (body,) = re.findall(r"typedef struct \{([^}]*)\} " + name, HEADER)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        found = re.findall(r"\(\*(\w+)\)\(|(\w+)(?=[,;])(?![^(]*\))", body)
        # ctypes also allows fields of three values, for bits; there are none here.
        fields = [field for field, _ in structure._fields_]  # type: ignore[misc]
        assert ["".join(one) for one in found] == fields
        lines.append(f"_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, {name!r});")
        lines += [
            f'_Static_assert(offsetof({name}, {field}) == {getattr(structure, field).offset}, "");'
            for field in fields
        ]
    (tmp_path / "layout.c").write_text("\n".join(lines).replace("'", '"') + "\n")
    caches = {f"ZIG_{kind}_CACHE_DIR": str(tmp_path) for kind in ("LOCAL", "GLOBAL")}
    command = [sys.executable, "-m", "ziglang", "cc", "-c", "-I", str(ROOT / "core")]
    done = subprocess.run(
        [*command, "layout.c", "-o", "layout.o"], cwd=tmp_path, env=os.environ | caches,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_constants_agree_with_the_header() -> None:
    assert f"#define WI_VERSION {compiled.VERSION}\n" in HEADER
    for prefix, kinds in (("WI_", compiled.Status), ("WI_", compiled.Stopped)):
        for kind in kinds:
            assert re.search(rf"\b{prefix}{kind.name} = {kind.value}\b", HEADER), kind


@pytest.fixture
def pretended(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Replace the compiler by one that writes the next of these contents, or fails."""
    contents: list[bytes] = []

    def compile_(target: Any, fresh: Path, cache: Path) -> Path:
        made: Path = fresh / target.library
        made.write_bytes(contents[0][:3])
        if len(contents) == 1:
            raise build.CoreError("the C compiler failed")
        made.write_bytes(contents.pop(0))
        return made

    monkeypatch.setattr(build, "_compile", compile_)
    return contents


def test_a_library_is_built_once_and_again_when_a_source_changes(
    build: ModuleType, pretended: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, out = tmp_path / "core", tmp_path / "out"
    shutil.copytree(ROOT / "core", core)
    monkeypatch.setattr(build, "CORE", core)
    pretended += [b"first", b"second", b"never"]
    target = build.native()
    assert build.build(target, out)
    assert not build.build(target, out)
    assert (out / target.library).read_bytes() == b"first"
    with (core / "checks.c").open("a") as source:
        source.write("\n")
    assert not build.is_built(target, out)
    assert build.build(target, out)
    assert (out / target.library).read_bytes() == b"second"
    assert "MIT" in (out / "licences.txt").read_text()


def test_a_library_is_written_whole_or_not_at_all(
    build: ModuleType, pretended: list[bytes], tmp_path: Path
) -> None:
    pretended += [b"whole", b"broken"]
    target = build.native()
    build.build(target, tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    (tmp_path / "stamp.json").write_text("{}")
    with pytest.raises(build.CoreError, match="compiler failed"):
        build.build(target, tmp_path)
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert after == before | {"stamp.json": b"{}"}


@pytest.mark.thorough
@pytest.mark.slow
def test_building_leaves_nothing_behind(tmp_path: Path) -> None:
    """With an empty home and no cache: the library is all that is there afterwards."""
    home, work, out = tmp_path / "home", tmp_path / "tmp", tmp_path / "out"
    home.mkdir()
    work.mkdir()
    places = {"HOME": str(home), "TMPDIR": str(work), "XDG_CACHE_HOME": str(home / "cache")}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ZIG_", "WHEREISH_"))}
    sources = sorted((ROOT / "core").iterdir())
    command = [sys.executable, "-B", str(ROOT / "core/build.py"), "native", "--folder", str(out)]
    subprocess.run(command, env=kept | places, check=True, capture_output=True)
    assert list(home.iterdir()) == []
    assert list(work.iterdir()) == []
    assert sorted((ROOT / "core").iterdir()) == sources
    library = load("core/build.py").native().library
    assert {file.name for file in out.iterdir()} == {library, "stamp.json", "licences.txt"}
    assert compiled.load(out / library).wi_version() == compiled.VERSION


@pytest.mark.thorough
@pytest.mark.slow
def test_a_wheel_for_another_platform_has_its_library(tmp_path: Path) -> None:
    if not (ROOT / "src/whereish/service/page/vendor/stamp").exists():
        pytest.skip("the page is not built: python hatch_build.py")
    target = "aarch64-linux-gnu.2.17"
    before = sorted(FOLDER.iterdir())
    command = [sys.executable, str(ROOT / "tools/wheels.py"), target, "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-manylinux_2_17_aarch64.whl")
    assert sorted(FOLDER.iterdir()) == before


# What is loaded


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_a_missing_library_is_said_so(tmp_path: Path) -> None:
    code = "import whereish as wh; wh.exponential(wh.Places.from_xy([[0, 0], [1, 0]]), 1.0)"
    done = run(code, WHEREISH_CORE=str(tmp_path / "none.so"))
    assert done.returncode != 0
    assert "the compiled core is missing: reinstall whereish, or run `make core`" in done.stderr


@pytest.mark.parametrize("content", [b"", b"no library"])
def test_a_file_that_is_no_library_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.so").write_bytes(content)
    with pytest.raises(compiled.CoreError, match="cannot be loaded: reinstall whereish"):
        compiled.load(tmp_path / "bad.so")


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    has = compiled.VERSION
    monkeypatch.setattr(compiled, "VERSION", has + 1)
    with pytest.raises(compiled.CoreError, match=f"have version {has + 1}, and has version {has}"):
        compiled.load(compiled.library_path())


def test_arrays_of_another_type_shape_or_order_are_refused() -> None:
    good = np.ones((3, 2))
    for bad in (good.astype(np.float32), np.asfortranarray(good), good[:, :1], good.astype(">f8")):
        with pytest.raises(TypeError):
            compiled.for_rows("wi_lift", 3, 2, bad, np.ones((3, 3)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="zip"):
        compiled.for_rows("wi_lift", 3, 2, good, np.ones((3, 3)))


@pytest.fixture(params=LEVELS)
def core(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ctypes.CDLL:
    """The library once more, with the instruction set that the environment asks for."""
    monkeypatch.setenv("WHEREISH_ISA", request.param)
    copy = tmp_path / compiled.library_path().name
    shutil.copy(compiled.library_path(), copy)
    library = compiled.load(copy)
    found = library.wi_instruction_set().decode()
    if not found.startswith("x86-64-"):
        if request.param != LEVELS[0]:
            pytest.skip("this library has one instruction set")
    elif found < f"x86-64-{request.param}":
        pytest.skip("this processor has no such instructions")
    else:
        assert found == f"x86-64-{request.param}", "no higher one than asked for"
    return library


# The checks, against slow arithmetic


def call(function: Callable[..., None], n: int, m: int, *arrays: np.ndarray[Any, Any]) -> None:
    """Call a function of rows for [0, 2), [2, n): threads share them like this."""
    cut = min(2, n)
    for low, high in ((0, cut), (cut, n)):
        function(low, high, n, m, *(array.ctypes.data for array in arrays))


SIZES = [(1, 1), (2, 3), (5, 1), (9, 8), (17, 33), (13, 600)]


def some_matrix(n: int, m: int, zeros: bool) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(n + m)
    matrix = rng.gamma(0.3, size=(n, m))
    if zeros:
        matrix[rng.random((n, m)) < 0.3] = 0.0
        matrix[rng.random((n, m)) < 0.1] = 5e-324
    return matrix


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("zeros", [False, True])
def test_worst_ratios(core: ctypes.CDLL, n: int, m: int, zeros: bool) -> None:
    matrix = some_matrix(n, m, zeros)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.ascontiguousarray((1 / matrix).T)
    found = np.full((n, n), np.nan)
    call(core.wi_worst_ratios, n, m, matrix, inverse, found)
    k, one_over = matrix.tolist(), inverse.tolist()
    for x in range(n):
        for y in range(n):
            ratios = [k[x][z] * one_over[z][y] for z in range(m)]
            assert found[x, y] == max((r for r in ratios if not math.isnan(r)), default=0.0)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_lift(core: ctypes.CDLL, n: int, m: int) -> None:
    matrix = some_matrix(n, m, True)
    decay = np.random.default_rng(n).random((n, n))
    found = np.full((n, m), np.nan)
    call(core.wi_lift, n, m, matrix, decay, found)
    k, q = matrix.tolist(), decay.tolist()
    for x in range(n):
        for z in range(m):
            assert found[x, z] == max(k[x][z], *(q[x][y] * k[y][z] for y in range(n)))


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_shortfalls(core: ctypes.CDLL, n: int, m: int) -> None:
    """To the last bit: a fused multiply-add would differ."""
    matrix = some_matrix(n, m, True)
    factors = 1 + np.random.default_rng(n).random((n, n))
    found = np.full((n, n), np.nan)
    call(core.wi_shortfalls, n, m, matrix, factors, found)
    k, f = matrix.tolist(), factors.tolist()
    for x in range(n):
        for y in range(n):
            short = max(k[x][z] - f[x][y] * k[y][z] for z in range(m))
            assert found[x, y] == max(short, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_first_broken_is_exact(core: ctypes.CDLL, seed: int) -> None:
    """Counts at the limit, or one above it, for all shifts: Python's integers decide."""
    rng = random.Random(seed)
    n, m = rng.randint(2, 5), rng.choice([1, 7, 8, 9, 40])
    counts = [[rng.getrandbits(63) >> rng.randrange(64) for _ in range(m)] for _ in range(n)]
    factor = [[rng.getrandbits(64) | 1 << 63 for _ in range(n)] for _ in range(n)]
    shift = [[rng.randrange(64) for _ in range(n)] for _ in range(n)]
    for x in range(n):  # no ratio of a place with itself is broken
        factor[x][x], shift[x][x] = 2**63, 63
    for _ in range(3 * m):
        x, y = rng.sample(range(n), 2)
        z = rng.randrange(m)
        limit = factor[x][y] * counts[y][z] >> shift[x][y]
        counts[x][z] = min(limit + rng.choice([0, 0, 0, 1]), 2**64 - 1)
    found = np.full(n, -1, np.int64)
    arrays = [np.array(counts, np.uint64), np.array(factor, np.uint64), np.array(shift, np.int64)]
    call(core.wi_first_broken, n, m, *arrays, found)
    for x in range(n):
        broken = [
            y * m + z
            for y in range(n)
            for z in range(m)
            if counts[x][z] << shift[x][y] > factor[x][y] * counts[y][z]
        ]
        assert found[x] == (broken[0] if broken else -1)


@pytest.mark.parametrize("shift", [0, 1, 31, 32, 33, 62, 63])
@pytest.mark.parametrize("position", [0, 3, 8, 16])
def test_first_broken_finds_one_count_too_many(
    core: ctypes.CDLL, shift: int, position: int
) -> None:
    m, other = 17, 2**40 + 12345
    factor = 2**63 + 98765
    limit = min(factor * other >> shift, 2**64 - 2)
    counts = np.zeros((2, m), np.uint64)
    counts[1, :] = other
    counts[0, :] = limit
    arrays = [np.full((2, 2), factor, np.uint64), np.full((2, 2), shift, np.int64)]
    arrays[0][[0, 1], [0, 1]], arrays[1][[0, 1], [0, 1]] = 2**63, 63
    for more in (0, 1):
        counts[0, position] = limit + more
        found = np.full(1, -1, np.int64)
        core.wi_first_broken(0, 1, 2, m, *(a.ctypes.data for a in (counts, *arrays, found)))
        holds = (limit + more) << shift <= factor * other
        assert found[0] == (-1 if holds else m + position)
    assert (limit << shift) <= factor * other


# Rows of doubles as lists in, the result of wi_shortfalls and the instruction set out.
_IN_NODE = """
import { readFileSync } from "node:fs";
const [file, asked] = process.argv.slice(2);
const { n, m, matrix, factors } = JSON.parse(asked);
const module = new WebAssembly.Module(readFileSync(file));
const now = () => performance.now() / 1000;
const core = new WebAssembly.Instance(module, { env: { now, progress() {} } }).exports;
core._initialize();
const put = (numbers) => {
  const at = core.malloc(8 * numbers.length);
  new Float64Array(core.memory.buffer, at, numbers.length).set(numbers);
  return at;
};
const [a, b, c] = [matrix, factors, new Array(n * n).fill(0)].map(put);
core.wi_shortfalls(0n, BigInt(n), BigInt(n), BigInt(m), a, b, c);
const found = [...new Float64Array(core.memory.buffer, c, n * n)];
const text = new Uint8Array(core.memory.buffer, core.wi_instruction_set());
const name = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
console.log(JSON.stringify({ found, name, version: core.wi_version() }));
"""


@pytest.mark.skipif(NODE is None, reason="node is missing")
def test_the_web_module_computes_the_same_bits(build: ModuleType, tmp_path: Path) -> None:
    if not (build.CLIENT / build.WASM.library).exists():
        pytest.skip("the WebAssembly module is not built: make core")
    n, m = 11, 19
    matrix, factors = some_matrix(n, m, False), 1 + np.random.default_rng(0).random((n, n))
    script = tmp_path / "run.mjs"
    script.write_text(_IN_NODE)
    asked = {"n": n, "m": m, "matrix": matrix.ravel().tolist(), "factors": factors.ravel().tolist()}
    command = [str(NODE), str(script), str(build.CLIENT / build.WASM.library), json.dumps(asked)]
    done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert (done["name"], done["version"]) == ("wasm", compiled.VERSION)
    native = np.empty((n, n))
    compiled.for_rows("wi_shortfalls", n, m, matrix, factors, native)
    assert done["found"] == native.ravel().tolist()
    assert native.max() > 0
