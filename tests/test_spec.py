"""A recipe means one thing, and what is wrong with one is said without repeating it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import whereish as wh
from serving import recipe
from whereish.cli import app
from whereish.spec import BuildOptions, BuildSpec


def broken(**changes: Any) -> dict[str, Any]:
    document = recipe(3)
    for path, value in changes.items():
        *way, last = path.split("__")
        part = document
        for name in way:
            part = part[name]
        part[last] = value
    return document


CASES: list[tuple[Any, str]] = [
    ([], "body"),
    (None, "body"),
    (7, "body"),
    ("text", "body"),
    ({}, "places"),
    ({"places": {"xy_km": [[0, 0], [1, 0]]}}, "prior"),
    ({"places": {"xy_km": [[0, 0], [1, 0]]}, "prior": [0.5, 0.5]}, "epsilon_per_km"),
    (broken(epsilon=1), "epsilon"),
    (broken(lattice_only=True), "lattice_only"),
    (broken(lattice_only=True, guarantee="everywhere", method="closed-form"), "lattice_only"),
    (broken(lattice_only=1, guarantee="everywhere"), "lattice_only"),
    (broken(places={}), "places"),
    (broken(places=[]), "places"),
    (broken(places__latlon=[[0, 0], [1, 0], [2, 0]]), "places"),
    (broken(places__xy_km=[]), "places.xy_km"),
    (broken(places__xy_km=[[0, 0]]), "places.xy_km"),
    (broken(places__xy_km=[[0, 0], [0, 0], [1, 1]]), "places.xy_km"),
    (broken(places__xy_km=[[0, 0], [1], [1, 1]]), "places.xy_km[1]"),
    (broken(places__xy_km=[[0, 0], [1, "0"], [1, 1]]), "places.xy_km[1][1]"),
    (broken(places__xy_km=[[0, 0], [1, None], [1, 1]]), "places.xy_km[1][1]"),
    (broken(places__xy_km=[[0, 0], [1, True], [1, 1]]), "places.xy_km[1][1]"),
    (broken(places__xy_km=[[0, 0], [1e308, 0], [1, 1]]), "places.xy_km"),
    (broken(places__xy_km=[[0, 0], [10**400, 0], [1, 1]]), "places.xy_km"),
    (broken(places__cell_km=[0, 1]), "places.cell_km"),
    (broken(places__cell_km=[1]), "places.cell_km"),
    (broken(places__other=1), "places.other"),
    (broken(places={"latlon": [[91, 0], [1, 0], [2, 0]]}), "places.latlon[0]"),
    (broken(places={"latlon": [[1, 0], [1, 181], [2, 0]]}), "places.latlon[1]"),
    (broken(places={"latlon": [[0, 0], [0, 120], [0, -120]]}), "places.latlon"),
    (broken(prior=[0.5, 0.5]), "prior"),
    (broken(prior=[0.5, 0.5, 0.5]), "prior"),
    (broken(prior=[0.5, 0.6, -0.1]), "prior[2]"),
    (broken(prior=[0.5, "0.5", 0]), "prior[1]"),
    (broken(prior={"a": 1}), "prior"),
    (broken(epsilon_per_km=0), "epsilon_per_km"),
    (broken(epsilon_per_km=-1), "epsilon_per_km"),
    (broken(epsilon_per_km="1"), "epsilon_per_km"),
    (broken(epsilon_per_km=True), "epsilon_per_km"),
    (broken(epsilon_per_km=10**400), "epsilon_per_km"),
    (broken(dilation=0.99), "dilation"),
    (broken(method="magic"), "method"),
    (broken(method=1), "method"),
    (broken(solver="magic"), "solver"),
    (broken(tolerance=0), "tolerance"),
    (broken(time_limit_s=-1), "time_limit_s"),
    (broken(privacy_metric="discrete"), "privacy_metric"),
    (broken(privacy_metric="geodesic"), "privacy_metric"),
    (broken(privacy_metric={"matrix": [[0]]}), "privacy_metric.matrix"),
    (broken(privacy_metric={}), "privacy_metric"),
    (broken(privacy_metric={"edges": [[0, 1, 0]]}), "privacy_metric.edges[0]"),
    (broken(privacy_metric={"edges": [[0, 3, 1]]}), "privacy_metric.edges[0]"),
    (broken(quality_metric=[1]), "quality_metric"),
    (broken(outputs=[]), "outputs"),
    (broken(outputs=[0, 0]), "outputs"),
    (broken(outputs=[3]), "outputs"),
    (broken(outputs=[0.5]), "outputs"),
    (broken(keep_prior=1), "keep_prior"),
    (broken(method="planar-laplace", privacy_metric={"matrix": [[0, 1, 1], [1, 0, 1], [1, 1, 0]]}),
     "privacy_metric"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "field"), CASES)
def test_what_is_wrong_is_named(document: Any, field: str) -> None:
    with pytest.raises(wh.InputError) as wrong:
        BuildSpec.from_json(json.dumps(document))
    assert wrong.value.field == field
    assert re.search(r"must|not known", str(wrong.value))


@given(
    st.integers(2, 6),
    st.sampled_from(["privacy_metric", "quality_metric"]),
    st.sampled_from(["none", "diagonal", "sign", "skew", "zero"]),
    st.data(),
)
def test_a_matrix_that_is_no_metric_is_refused_when_it_is_read(
    n: int, metric: str, flaw: str, data: st.DataObject
) -> None:
    """Its sign, diagonal and symmetry; the triangle inequality is left to who builds it."""
    distances = st.floats(0.1234, 98.7654)
    matrix = [[0.0] * n for _ in range(n)]
    for x in range(n):
        for y in range(x):
            matrix[x][y] = matrix[y][x] = data.draw(distances)
    x = data.draw(st.integers(1, n - 1))
    y = data.draw(st.integers(0, x - 1))
    if flaw == "diagonal":
        matrix[x][x] = data.draw(distances)
    elif flaw == "sign":
        matrix[x][y] = matrix[y][x] = -matrix[x][y]
    elif flaw == "skew":
        matrix[x][y] *= data.draw(st.sampled_from([0.9, 1.01, 2.0]))
    elif flaw == "zero":
        matrix[x][y] = matrix[y][x] = 0.0
    document = {
        "places": {"xy_km": [[i, 0] for i in range(n)]}, "prior": [1.0] + [0.0] * (n - 1),
        "epsilon_per_km": 1.0, metric: {"matrix": matrix},
    }  # fmt: skip
    # A loss may be zero between different places, a distance may not.
    if flaw == "none" or (flaw == "zero" and metric == "quality_metric"):
        BuildSpec.from_document(document)
        return
    with pytest.raises(wh.InputError) as wrong:
        BuildSpec.from_document(document)
    assert wrong.value.field == f"{metric}.matrix"
    assert not re.search(r"\d\.\d", str(wrong.value)), "no number of the matrix"


def test_one_number_of_items_is_said_once() -> None:
    with pytest.raises(wh.InputError, match=r"must have 3 items, got 1$"):
        BuildSpec.from_document(broken(privacy_metric={"matrix": [[0]]}))
    with pytest.raises(wh.InputError, match=r"must have 2 to 10,000 items, got 0$"):
        BuildSpec.from_document(broken(places__xy_km=[]))


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"NaN", b'{"prior": NaN}',
        b'{"prior": [Infinity]}', b'{"prior": ' + b"1" * 1_000_000 + b"}",
        b'{"prior": [1], "prior": [1]}', b'{"places": {"xy_km": [], "xy_km": []}}', b"nul",
        b'{"\\ud800": 1}', b'{"places": {"\\ud800": 1}, "prior": [1], "epsilon_per_km": 1}',
        b'{"self": 1}', b'{"places": "\\ud800", "prior": [1], "epsilon_per_km": "\\ud800"}',
    ],
)  # fmt: skip
def test_what_is_not_a_document_is_refused(text: bytes) -> None:
    with pytest.raises(wh.InputError) as wrong:
        BuildSpec.from_json(text)
    assert wrong.value.field is not None


@given(
    st.lists(st.floats(0.1, 0.9), min_size=3, max_size=6),
    st.lists(st.floats(-80, 80), min_size=12, max_size=12),
    st.integers(0, 5),
)
def test_no_number_of_anybody_is_repeated(
    prior: list[float], degrees: list[float], flaw: int
) -> None:
    """Whatever is wrong: no number with more than three digits of what was sent is in the words."""
    n = len(prior)
    points = [[degrees[2 * i], degrees[2 * i + 1]] for i in range(n)]
    document: dict[str, Any] = {
        "places": {"latlon": points}, "prior": prior, "epsilon_per_km": 1.0,
    }  # fmt: skip
    if flaw == 1:
        document["prior"] = [-p for p in prior]
    if flaw == 2:
        document["places"] = {"latlon": [[lat + 100, lon] for lat, lon in points]}
    if flaw == 3:
        document["places"] = {"latlon": [points[0]] * n}
    if flaw == 4:
        document[str(prior[0])] = 1
    if flaw == 5:
        document["places"] = {"xy_km": points, str(degrees[0]): 1}
    try:
        made = BuildSpec.from_json(json.dumps(document))
    except wh.InputError as wrong:
        said = f"{wrong} {wrong.field}"
        for number in (*prior, *degrees):
            if len(repr(number)) > 5:
                assert repr(number)[:6] not in said
    else:
        assert not re.search(r"\d\.\d", repr(made))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"dilation": 1.1},
        {"method": "closed-form"},
        {"method": "planar-laplace"},
        {"solver": "structured", "tolerance": 1e-4},
        {"quality_metric": "discrete"},
        {"outputs": [1, 5, 7]},
        {"privacy_metric": {"edges": [[i, i + 1, 0.5 + i / 9] for i in range(19)]}},
    ],
    ids=str,
)
def test_a_recipe_builds_what_the_library_builds(more: dict[str, Any]) -> None:
    document = recipe(20, **more)
    places = wh.Places.from_xy(document["places"]["xy_km"])
    prior = np.array(document["prior"])
    options = {k: v for k, v in more.items() if k not in ("privacy_metric", "quality_metric")}
    if "privacy_metric" in more:
        edges = np.array(more["privacy_metric"]["edges"])
        options["privacy_metric"] = wh.graph_metric(20, edges[:, :2], edges[:, 2])
    if "quality_metric" in more:
        options["quality_metric"] = wh.discrete(20)
    if more.get("method") == "planar-laplace":
        expected = wh.planar_laplace(places, 1.07)
    else:
        expected = wh.optimal(places, prior, 1.07, **options)
    assert np.array_equal(BuildSpec.from_document(document).build().counts, expected.counts)


def test_python_objects_are_taken_as_they_are() -> None:
    """A spec is read from Python, too: places, arrays, a matrix, in any order of the fields."""
    document = recipe(9)
    xy = np.array(document["places"]["xy_km"])
    places = wh.Places.from_xy(xy)
    spec = wh.BuildSpec(
        epsilon_per_km=1.07,
        prior=np.array(document["prior"]),
        privacy_metric=wh.euclidean(places),
        outputs=(0, 4),
        places=places,
    )
    expected = wh.optimal(places, document["prior"], 1.07, outputs=[0, 4])
    assert np.allclose(spec.build().matrix, expected.matrix, atol=1e-6)
    with pytest.raises(ValueError, match="frozen"):
        spec.places = places
    assert repr(spec) == "BuildSpec(method='exact')"
    shown = io.StringIO()
    Console(file=shown).print(spec, str(spec), f"{spec}", f"{spec!r}")
    assert "array" not in shown.getvalue()
    assert "Places" not in shown.getvalue()


def test_a_change_is_validated() -> None:
    spec = BuildSpec.from_document(recipe(3))
    assert spec.changed(dilation=1.5).dilation == 1.5
    assert spec.dilation == 1.0
    for field, value in (("dilation", 0.5), ("form", "sideways"), ("outputs", [7])):
        with pytest.raises(wh.InputError) as wrong:
            spec.changed(**{field: value})
        assert wrong.value.field == field
    with pytest.raises(wh.InputError, match="form must be left out with the structured"):
        spec.changed(form="dual", solver="structured")
    with pytest.raises(wh.InputError, match="outputs must be left out with tight-constraints"):
        spec.changed(method="tight-constraints", outputs=[0])


def test_options_are_shared_by_people() -> None:
    options = wh.BuildOptions(epsilon_per_km=1.07, dilation=1.1)
    document = recipe(6, dilation=1.1)
    places = wh.Places.from_xy(document["places"]["xy_km"])
    spec = options.for_person(places, np.array(document["prior"]))
    expected = BuildSpec.from_document(document).build()
    assert np.array_equal(spec.build().counts, expected.counts)


@pytest.mark.parametrize(
    "more",
    [
        {"dilation": 1.2},
        {"solver": "highs-ipm", "form": "dual"},
        {"method": "exponential", "outputs": [1, 2]},
        {"method": "closed-form"},
        {"privacy_metric": {"edges": [[0, 1, 1.5], [1, 2, 2.0], [2, 3, 1.0], [3, 4, 1.0]]}},
    ],
    ids=str,
)
def test_a_file_tells_what_was_asked_for(more: dict[str, Any], tmp_path: Path) -> None:
    """What its header holds is enough to build it again."""
    asked = BuildSpec.from_document(recipe(5, **more))
    wh.save_mechanism(tmp_path / "k.whereish", asked.build(), asked.prior)
    mechanism, prior = wh.load_mechanism(tmp_path / "k.whereish")
    assert prior is not None
    told = BuildSpec.from_mechanism(mechanism, prior)
    assert (told.method, told.dilation) == (asked.method, asked.dilation)
    assert told.epsilon_per_km == asked.epsilon_per_km
    assert told.outputs == asked.outputs
    if asked.form is not None:
        assert (told.solver, told.form) == (asked.solver, asked.form)
    again = told.build()
    assert np.abs(again.matrix - mechanism.matrix).max() < 1e-5


def test_the_old_name_still_works() -> None:
    from whereish.recipes import Recipe

    assert Recipe is BuildSpec


def test_no_error_of_pydantic_is_chained() -> None:
    """It would hold what came: a traceback may be logged."""
    with pytest.raises(wh.InputError) as wrong:
        BuildSpec.from_document(broken(epsilon_per_km=-1, prior=[0.123456, 0.5, 0.5]))
    assert wrong.value.__context__ is None
    assert wrong.value.__cause__ is None


def test_the_schema_says_what_is_validated() -> None:
    """Every field is in it, with its bounds; fields with a default may be left out."""
    schema = BuildSpec.json_schema()
    assert schema["properties"].keys() == BuildSpec.model_fields.keys()
    assert set(schema["required"]) == {"places", "prior", "epsilon_per_km"}
    assert schema["additionalProperties"] is False
    for field, told in schema["properties"].items():
        for end in ("minimum", "maximum"):
            if end not in told:
                continue
            BuildSpec.from_document(broken(**{field: told[end]}))
            beyond = told[end] * (1.1 if end == "maximum" else 0.9) or -0.1
            with pytest.raises(wh.InputError) as wrong:
                BuildSpec.from_document(broken(**{field: beyond}))
            assert wrong.value.field == field


def test_the_command_line_gives_the_same_counts(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    document = recipe(17, seed=3)
    rows = zip(document["places"]["xy_km"], document["prior"], strict=True)
    lines = ["x_km,y_km,prior", *(f"{x!r},{y!r},{p!r}" for (x, y), p in rows)]
    (tmp_path / "me.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "me.json").write_text(json.dumps(document))
    flags = [
        "build",
        str(tmp_path / "me.csv"),
        "--epsilon",
        "1.07",
        "-o",
        str(tmp_path / "a.whereish"),
    ]
    assert CliRunner().invoke(app, flags).exit_code == 0
    flags = ["build", str(tmp_path / "me.json"), "-o", str(tmp_path / "b.whereish")]
    done = CliRunner().invoke(app, flags)
    assert done.exit_code == 0, done.output
    expected = BuildSpec.from_document(document).build().counts
    for name in ("a", "b"):
        assert np.array_equal(wh.load_mechanism(tmp_path / f"{name}.whereish")[0].counts, expected)


def test_lattice_only_returns_a_lattice_where_noise_loses_less() -> None:
    """With so few vertices planar Laplace is the better one."""
    spots = np.random.default_rng(5).uniform(0, 9, (12, 2)).round(3).tolist()
    asked = {
        "places": {"xy_km": spots}, "prior": [1 / 12] * 12, "epsilon_per_km": 4.0,
        "guarantee": "everywhere", "vertices": 16,
    }  # fmt: skip
    assert isinstance(BuildSpec.from_document(asked).build(), wh.PlanarLaplaceEverywhere)
    made = BuildSpec.from_document(asked | {"lattice_only": True}).build()
    assert isinstance(made, wh.EverywhereMechanism)


@pytest.mark.parametrize("name", ["by_time", "prior_by_time", "hours", "zone", "taper"])
def test_what_a_recipe_cannot_say_is_refused_with_what_to_do(name: str) -> None:
    """The same words for a recipe, the HTTP service and a batch: they share this description."""
    with pytest.raises(wh.InputError, match="must be left out: .*whereish build PROFILE") as wrong:
        BuildOptions(**{"epsilon_per_km": 1.0, name: True})  # type: ignore[arg-type]
    assert wrong.value.field == name
