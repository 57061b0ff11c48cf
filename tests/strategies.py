"""Generated places, skewed priors and metrics for hypothesis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

import whereish as wh
from whereish.format import pack, unpack

Floats = NDArray[np.float64]


@st.composite
def places(draw: DrawFn, least: int = 2, most: int = 9) -> wh.Places:
    """Grids, points on a line, and scattered points, from streets to cities."""
    kind = draw(st.sampled_from(["grid", "line", "scattered"]))
    scale = draw(st.sampled_from([0.05, 0.5, 2.0]))
    count = draw(st.integers(least, most))
    if kind == "grid":  # the last row may be short
        columns = draw(st.integers(1, 3))
        xy = [[k % columns * 0.658, k // columns * 0.712] for k in range(count)]
        return wh.Places.from_xy(np.array(xy) * scale)
    seed = draw(st.integers(0, 2**32 - 1))
    xy_random = np.random.default_rng(seed).uniform(0, 5, (count, 2)) * scale
    if kind == "line":
        xy_random[:, 1] = 2 * xy_random[:, 0]
    return wh.Places.from_xy(xy_random)


def priors(n: int) -> SearchStrategy[Floats]:
    """Skewed, often with zeros, sometimes all on one place: as people's are."""
    shares = st.lists(
        st.one_of(st.just(0.0), st.floats(1e-6, 1.0).map(lambda v: v**4)), min_size=n, max_size=n
    )
    return shares.filter(lambda values: sum(values) > 1e-12).map(
        lambda values: np.array(values) / np.sum(values)
    )


@st.composite
def profiles(draw: DrawFn, least: int = 2, most: int = 9) -> tuple[wh.Places, Floats]:
    where = draw(places(least, most))
    return where, draw(priors(len(where)))


@st.composite
def graph_metrics(draw: DrawFn, n: int) -> Floats:
    """The metric of a random tree with a few edges more."""
    edges = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    edges += [
        (a, b)
        for a, b in draw(
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=4)
        )
        if a != b
    ]
    lengths = [draw(st.floats(0.1, 3.0)) for _ in edges]
    return wh.graph_metric(n, edges, lengths)


@st.composite
def metrics_and_losses(draw: DrawFn, n: int) -> tuple[Any, Any]:
    """The metric and the loss of a build for n places; None stands for Euclidean distance."""
    return draw(st.one_of(st.none(), graph_metrics(n))), draw(
        st.sampled_from([None, wh.discrete(n)])
    )


@st.composite
def stochastic(draw: DrawFn, rows: int, columns: int) -> Floats:
    seed = draw(st.integers(0, 2**32 - 1))
    matrix = np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), size=rows)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


EPSILONS = st.sampled_from([0.1, 0.5, 1.07, 3.0, 6.0])


def skewed(n: int, seed: int = 0) -> Any:
    """A fixed skewed prior with a zero, for tests that need no search."""
    prior = np.random.default_rng(seed).gamma(0.3, size=n)
    prior[seed % n] = 0.0
    return prior / prior.sum()


def grid(columns: int, rows: int) -> wh.Places:
    """The paper's cells."""
    return wh.Places.from_xy([[i * 0.658, j * 0.712] for j in range(rows) for i in range(columns)])


def forge(
    path: Path,
    told: dict[str, Any] | None = None,
    arrays: dict[str, Any] | None = None,
    about: dict[str, str] | None = None,
    claimed: dict[str, Any] | None = None,
) -> None:
    """Change a mechanism's file as somebody who knows the format would: the digest is right."""
    old, texts = unpack(path.read_bytes())
    for name, change in (("mechanism", told), ("certificate", claimed)):
        texts[name] = json.dumps(json.loads(texts[name]) | (change or {}))
    path.write_bytes(pack(old | (arrays or {}), texts | (about or {})))


def city_points(rows: int, seed: int = 0) -> Floats:
    """Return locations in the embedded city, skewed: a few places have most of them."""
    rng = np.random.default_rng(seed)
    latlon = wh.embedded_city().places.latlon
    assert latlon is not None
    often = rng.dirichlet(np.full(len(latlon), 0.5))
    at = latlon[rng.choice(len(latlon), rows, p=often)]
    return at + rng.uniform(-0.003, 0.003, at.shape)
