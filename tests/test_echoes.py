"""What an error may say: never a place, a share of a prior, or any number of a table."""

from __future__ import annotations

import inspect
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import strategies as some
import whereish as wh
from whereish.errors import described

# Numbers that nothing else has: a message with one of them has it from here.
SHARES = [0.2718374, 0.1414561, 0.0577261, 0.0693179, 0.0333367, 0.4243258]
POINTS = [[48.812345, 2.398765], [48.823456, 2.387654], [48.834567, 2.376543],
          [48.845678, 2.365432], [48.856789, 2.354321], [48.867891, 2.343219]]  # fmt: skip
SECRET = [*SHARES, *(number for point in POINTS for number in point)]


class Series:
    """What pandas' Series is to numpy: values, and an index that says whose they are."""

    def __init__(self, values: Any, index: Any) -> None:
        self.values, self.index = np.asarray(values), np.asarray(index)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype=dtype)

    def __repr__(self) -> str:
        return f"Series({self.values.tolist()})"


def canaries() -> dict[str, Any]:
    table = pl.DataFrame({"lat": [p[0] for p in POINTS], "lon": [p[1] for p in POINTS]})
    places = wh.Places.from_latlon(POINTS)
    return {
        "shares": list(SHARES),
        "an array of shares": np.array(SHARES),
        "shares that lack one": [*SHARES[:1], 0.0, 0.0, 0.0, 0.0, 0.0],
        "negative shares": (-np.array(SHARES)).tolist(),
        "shares as text": ",".join(map(str, SHARES)),
        "points": POINTS,
        "a point": tuple(POINTS[0]),
        "an array of points": np.array(POINTS),
        "the same point twice": [POINTS[0], POINTS[0]],
        "points the wrong way round": [[lon * 60, lat] for lat, lon in POINTS],
        "places": places,
        "a table": table,
        "a column": table["lat"],
        "a profile": wh.Profile(places, np.array(SHARES) / sum(SHARES)),
        "shares by name": dict(zip("abcdef", SHARES, strict=True)),
        "a series": Series(SHARES, [5, 4, 3, 2, 1, 0]),
        "a set": frozenset(SHARES),
    }


def sound(tmp_path: Path) -> dict[str, Any]:
    """An argument of every name that would do."""
    places = wh.Places.from_xy(some.grid(3, 2).xy)
    prior = np.full(6, 1 / 6)
    built = wh.exponential(places, 1.0)
    line = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    roads = wh.RoadNetwork(line, [[0, 1], [1, 2]])
    return {
        "places": places, "prior": prior, "priors": [prior, prior], "epsilon": 1.0,
        "mechanism": built, "n": 6, "distances": wh.euclidean(places), "dilation": 1.1,
        "edges": [[0, 1], [1, 2]], "lengths": [1.0, 1.0], "path": tmp_path / "none", "share": 0.9,
        "xy_km": [[0.0, 0.0]], "quality_loss": 1.0, "interest_km": 1.0, "south": 48.0,
        "west": 2.0, "north": 48.01, "east": 2.01, "xy": [[0.0, 0.0], [1.0, 0.0]],
        "quality_metric": wh.euclidean(places), "privacy_metric": wh.euclidean(places),
        "proof": wh.Proof(1.0, *(np.zeros(0, np.int32),) * 3, np.zeros(0)), "lat": 48.0,
        "lon": 2.0, "matrix": built.matrix, "inputs": places, "outputs": places, "method": "given",
        "ledger": tmp_path / "ledger", "budget": 1.0, "traces": tmp_path,
        "source": tmp_path / "a.csv", "target": tmp_path / "b.csv", "output": np.zeros(0, np.int32),
        "profile": None, "regions": None, "message": "words", "nodes": line, "network": roads,
    }  # fmt: skip


def numbers_in(text: str) -> list[float]:
    return [abs(float(found)) for found in re.findall(r"\d+\.\d+(?:e[-+]?\d+)?", text)]


def told(call: Any) -> str:
    """All that somebody sees of what went wrong, or nothing."""
    try:
        call()
    except Exception as wrong:
        seen = [str(wrong), repr(wrong)]
        last = traceback.format_exception_only(wrong)
        chained = wrong.__cause__ or (None if wrong.__suppress_context__ else wrong.__context__)
        return "\n".join([*seen, *last, *([str(chained)] if chained else [])])
    return ""


def leaks(text: str) -> list[float]:
    # To three digits: what is rounded, or divided by a sum next to 1, is still told.
    return [n for n in numbers_in(text) if any(abs(n - s) <= 2e-3 * s for s in SECRET)]


FILES = ("path", "traces", "source", "target", "ledger", "folder", "file", "cache", "cluster")
NAMES = [name for name in wh.__all__ if not name.endswith("Error") and callable(getattr(wh, name))]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_error_repeats_a_number_of_a_prior_or_a_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every public function, with what is personal in every position: right ones and wrong ones."""
    monkeypatch.chdir(tmp_path)  # a text may be taken for the name of a file
    function = getattr(wh, name)
    known = sound(tmp_path)
    parameters = [
        p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    needed = {p.name: known.get(p.name) for p in parameters if p.default is p.empty}
    for parameter in parameters:
        for kind, canary in canaries().items():
            if kind == "shares as text" and parameter.name in FILES:
                continue  # the name of a file, or an address, is what somebody has to look for
            for rest in (needed, needed | {"places": canaries()["places"]}):
                options = {k: v for k, v in rest.items() if k in {p.name for p in parameters}}
                options[parameter.name] = canary
                text = told(lambda options=options: function(**options))
                assert not leaks(text), f"{name}({parameter.name}={kind}): {text[:300]}"


@pytest.mark.parametrize(
    "call",
    [
        lambda: wh.read_profile(canaries()["a table"]),
        lambda: wh.planar_laplace(canaries()["places"], SHARES, 1.07),  # type: ignore[arg-type]  # the mistake is the test
        lambda: wh.report_radius(wh.exponential(some.grid(3, 2), 1.0), 0.95, SHARES),  # type: ignore[arg-type]  # as above
        lambda: wh.optimal(some.grid(3, 2), 1.07, SHARES),  # type: ignore[arg-type]  # as above
        lambda: wh.optimal(some.grid(3, 2), [SHARES[0], 0, 0, 0, 0, 0], 1.07),
        lambda: wh.exponential(some.grid(3, 2), 1.0).sample(POINTS[0]),
        lambda: wh.exponential(some.grid(3, 2), 1.0).sample(0, size=SHARES),  # type: ignore[arg-type]  # as above
        lambda: wh.Places.from_xy([POINTS[0], POINTS[0]]),
        lambda: wh.square_grid(POINTS[0][0], POINTS[0][1], POINTS[0][0], POINTS[1][1]),
        lambda: wh.RoadNetwork(POINTS, [[0, 1]]),
        lambda: wh.RoadNetwork(POINTS, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]).snap(
            [[1.5, 48.812345]]
        ),
        lambda: wh.optimal_on_roads(
            wh.RoadNetwork(POINTS[:2], [[0, 1]]), POINTS[:2], SHARES[:2], 1.0
        ),
        lambda: wh.SquareCells(*POINTS),  # type: ignore[arg-type]  # as above
    ],
)
def test_mistakes_that_people_make(call: Any) -> None:
    text = told(call)
    assert text
    assert not leaks(text)


def test_what_is_described() -> None:
    assert described(np.zeros((3, 2))) == "a ndarray of 3 x 2"
    assert described(canaries()["a table"]) == "a DataFrame of 6 x 2"
    assert described(np.float64(1.5)) == "1.5"
    assert described("48.85,2.35") == "a text of 10 characters"
    assert described(object()) == "an object"
    with pytest.raises(wh.InputError, match="got 'best'"):
        wh.optimal(some.grid(3, 2), np.full(6, 1 / 6), 1.0, method="best")


class TestSeries:
    """Numbers with an index that says another order than the places have."""

    places, prior = some.grid(3, 2), some.skewed(6)
    order = np.array([3, 1, 5, 0, 4, 2])

    def shuffled(self) -> Series:
        return Series(self.prior[self.order], self.order)

    @pytest.mark.parametrize("index", [[3, 1, 5, 0, 4, 2], list("abcdef"), [1, 2, 3, 4, 5, 6]])
    def test_another_order_is_refused(self, index: Any) -> None:
        series = Series(self.prior[self.order], index)
        mechanism = wh.exponential(self.places, 1.0)
        for call in (
            lambda: wh.optimal(self.places, series, 1.07),
            lambda: wh.closed_form(self.places, series, 1.07),
            lambda: wh.quality_loss(mechanism, series),
            lambda: wh.adversary_error(mechanism, series),
            lambda: wh.optimal_each(self.places, [series], 1.07),
            lambda: wh.Profile(self.places, series),  # type: ignore[arg-type]  # the mistake is the test
            lambda: mechanism.remap(series),
        ):
            with pytest.raises(wh.InputError, match=r"order of the places.*\.to_numpy\(\)"):
                call()

    def test_the_same_order_is_taken(self) -> None:
        series = Series(self.prior, np.arange(6))
        mechanism = wh.exponential(self.places, 1.0)
        assert wh.quality_loss(mechanism, series) == wh.quality_loss(mechanism, self.prior)
        assert len(wh.optimal_each(self.places, [series, self.prior], 1.07)) == 2

    def test_tables_with_names_or_numbers_for_columns(self) -> None:
        """Names of columns are no order; numbers of places are."""

        class Frame(Series):
            columns = np.array(["lat", "lon"])

        class Metric(Series):
            columns = np.array([1, 0, 2, 3, 4, 5])

        assert len(wh.Places.from_latlon(Frame(POINTS, np.arange(6)))) == 6
        with pytest.raises(wh.InputError, match="latlon must be in the order"):
            wh.Places.from_latlon(Frame(POINTS, self.order))
        away = wh.euclidean(self.places)
        with pytest.raises(wh.InputError, match="its columns is not 0, 1, 2"):
            wh.quality_loss(
                wh.exponential(self.places, 1.0), self.prior, Metric(away, np.arange(6))
            )

    def test_polars_has_no_index(self) -> None:
        mechanism = wh.exponential(self.places, 1.0)
        assert wh.quality_loss(mechanism, pl.Series(self.prior)) == wh.quality_loss(
            mechanism, self.prior
        )
