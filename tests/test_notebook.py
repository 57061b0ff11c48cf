"""What a researcher does in a notebook: objects shown, tables and graphs in and out, plots."""

from __future__ import annotations

import html.parser
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whereish as wh

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
geopandas = pytest.importorskip("geopandas", reason="geopandas is not installed")
networkx = pytest.importorskip("networkx", reason="networkx is not installed")
plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
NAMES = ["harbour", "castle", "market", "school"]
LATLON = np.array([[48.85, 2.30], [48.86, 2.32], [48.87, 2.34], [48.84, 2.36]])
SHARES = [0.61803, 0.20211, 0.07121, 0.10865]


class Words(html.parser.HTMLParser):
    """The words of a table, and whether every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.stack: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(thing: object) -> str:
    return " ".join(Words(thing._repr_html_()).words)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def frame() -> object:
    points = geopandas.points_from_xy([lon for _, lon in LATLON], [lat for lat, _ in LATLON])
    return geopandas.GeoDataFrame({"visits": SHARES}, index=NAMES, geometry=points, crs=4326)


@pytest.fixture(scope="module")
def profile(frame: object) -> wh.Profile:
    return wh.Profile.from_geodataframe(frame, "visits")


@pytest.fixture(scope="module")
def mechanism(profile: wh.Profile) -> wh.Mechanism:
    return wh.optimal(profile.places, profile.prior, epsilon=1.0)


def test_what_is_shown_has_words_and_nothing_personal(
    profile: wh.Profile, mechanism: wh.Mechanism
) -> None:
    everywhere = wh.planar_laplace_everywhere(profile.places, profile.prior, 1.0)
    things = [profile, profile.places, mechanism, mechanism.build, everywhere]
    things.append(mechanism.sample(0, size=5, rng=np.random.default_rng(1)))
    text = " ".join(shown(thing) for thing in things)
    assert "Mechanism method optimal places 4 -> 4 outputs epsilon 1 per km" in text
    assert "between points 693 m apart: a report is at most 2 times likelier" in text
    assert "for studies only, they protect nobody" in text
    assert "between any two points of the plane" in text
    numbers = [float(found) for found in re.findall(r"\d+\.\d+", text)]
    personal = [*LATLON.ravel(), *SHARES, *profile.places.xy.ravel()]
    assert not [n for n in numbers for p in personal if abs(n - abs(p)) < 1e-3 * abs(p)]


def test_what_is_shown_is_escaped() -> None:
    made = wh.Build("given", notes=("<script>alert(1)</script> & more",))
    assert "<script>" not in made._repr_html_()
    assert "<script>alert(1)</script> & more" in shown(made)


def test_only_public_names_are_offered() -> None:
    assert sorted(dir(wh)) == sorted(wh.__all__)


@given(order=st.permutations(range(4)))
def test_values_are_matched_by_label(order: list[int]) -> None:
    places = wh.Places(LATLON, labels=tuple(NAMES))
    series = pandas.Series([SHARES[k] for k in order], index=[NAMES[k] for k in order])
    assert places.align(series).tolist() == SHARES
    if order != sorted(order):
        numbered = pandas.Series([SHARES[k] for k in order], index=order)
        with pytest.raises(wh.InputError, match="order of the places"):
            wh.Profile(wh.Places(LATLON), numbered)
    with pytest.raises(wh.InputError, match="order of the places"):
        wh.Profile(places, series)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"harbour": 1.0}, "3 of them have no value, and 0 values belong to no place"),
        ({**dict.fromkeys(NAMES, 0.25), "moon": 0.0}, "0 of them have no value, and 1 values"),
        ([0.25, 0.25, 0.25, 0.25], "values must have labels"),
        (dict.fromkeys(NAMES, float("nan")), "must be finite"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: object, said: str) -> None:
    with pytest.raises(wh.InputError, match=re.escape(said) if "(" in said else said):
        wh.Places(LATLON, labels=tuple(NAMES)).align(values)


def test_two_values_with_one_label_are_refused() -> None:
    twice = pandas.Series([0.5, 0.5, 0.0, 0.0, 0.0], index=[*NAMES, "harbour"])
    with pytest.raises(wh.InputError, match="labels must differ"):
        wh.Places(LATLON, labels=tuple(NAMES)).align(twice)


def test_labels_differ_and_stay_with_their_places() -> None:
    with pytest.raises(wh.InputError, match="labels must be 4 different names"):
        wh.Places(LATLON, labels=("a", "b", "c", "a"))
    places = wh.Places.from_latlon(LATLON)
    named = wh.Places(places.xy, places.latlon, places.plane, labels=tuple(NAMES))
    assert named.subset([2, 0]).labels == ("market", "harbour")
    assert named.in_plane_of(wh.Places.from_latlon([[48, 2]])).labels == tuple(NAMES)


def test_a_geodataframe_comes_in_and_goes_out(profile: wh.Profile, frame: object) -> None:
    assert profile.places.labels == tuple(NAMES)
    assert profile.places.latlon == pytest.approx(LATLON, abs=1e-9)
    assert profile.prior == pytest.approx(np.array(SHARES) / sum(SHARES))
    out = profile.to_geodataframe()
    assert list(out.index) == NAMES
    assert out.geometry.geom_equals_exact(frame.geometry, 1e-9).all()  # type: ignore[attr-defined]
    elsewhere = wh.Places.from_geodataframe(out.to_crs(3857))
    assert elsewhere.latlon == pytest.approx(LATLON, abs=1e-7)


def test_polygons_become_regions(frame: object) -> None:
    metres = frame.to_crs(32631)  # type: ignore[attr-defined]
    cells = metres.set_geometry(metres.buffer(300))
    made = wh.Profile.from_geodataframe(cells, "visits")
    assert made.regions is not None
    assert made.places.latlon == pytest.approx(LATLON, abs=1e-6)


def test_a_frame_without_what_is_needed_is_refused(frame: object) -> None:
    bare = geopandas.GeoDataFrame({"visits": SHARES}, geometry=list(frame.geometry))  # type: ignore[attr-defined]
    with pytest.raises(wh.InputError, match="coordinate reference system"):
        wh.Places.from_geodataframe(bare)
    with pytest.raises(wh.InputError, match="must name a column"):
        wh.Profile.from_geodataframe(frame, "weights")
    holes = frame.copy()  # type: ignore[attr-defined]
    holes.loc["castle", "geometry"] = None
    with pytest.raises(wh.InputError, match="one has none"):
        wh.Places.from_geodataframe(holes)


def test_the_matrix_as_a_table(mechanism: wh.Mechanism) -> None:
    found = mechanism.to_frame()
    assert list(found.index) == list(found.columns) == NAMES
    assert found.loc["castle", "market"] == mechanism.matrix[1, 2]


@given(seed=st.integers(0, 2**32 - 1))
def test_distances_in_a_network(seed: int) -> None:
    """Against Floyd and Warshall, with nodes that are no places and names in any order."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 8))
    names = [f"n{k}" for k in rng.permutation(count)]
    graph = networkx.Graph()
    for name, (east, north) in zip(names, rng.random((count, 2)), strict=True):
        graph.add_node(name, x=2 + east, y=48 + north)
    ways = [(a, b) for k, a in enumerate(names) for b in names[:k] if rng.random() < 0.7]
    ways += list(itertools.pairwise(names))
    far = {a: {b: 0.0 if a == b else np.inf for b in names} for a in names}
    for a, b in dict.fromkeys(ways):
        metres = float(rng.integers(1, 2000))
        graph.add_edge(a, b, length=metres)
    for a, b, data in graph.edges(data=True):
        far[a][b] = far[b][a] = data["length"] / 1000
    for via in names:
        for a in names:
            for b in names:
                far[a][b] = min(far[a][b], far[a][via] + far[via][b])
    places = wh.Places.from_networkx(graph).subset(list(range(count))[: count - 1])
    metric = wh.network_metric(graph, places)
    assert places.labels is not None
    wanted = [[far[a][b] for b in places.labels] for a in places.labels]
    assert metric == pytest.approx(np.array(wanted))
    assert wh.network_metric(graph, places, unit="km") == pytest.approx(metric * 1000)


def test_networks_that_are_no_metric_are_refused() -> None:
    graph = networkx.DiGraph()
    graph.add_nodes_from([("a", {"x": 2.0, "y": 48.0}), ("b", {"x": 2.1, "y": 48.0})])
    graph.add_edge("a", "b", length=5)
    places = wh.Places.from_networkx(graph)
    with pytest.raises(wh.InputError, match="undirected"):
        wh.network_metric(graph, places)
    ways = graph.to_undirected()
    with pytest.raises(wh.InputError, match="the attribute that length names"):
        wh.network_metric(ways, places, "metres")
    ways.edges["a", "b"]["length"] = 0
    with pytest.raises(wh.InputError, match="must be positive"):
        wh.network_metric(ways, places)
    ways.remove_edge("a", "b")
    with pytest.raises(wh.InputError, match="no path"):
        wh.network_metric(ways, places)
    with pytest.raises(wh.InputError, match="must be a node"):
        wh.network_metric(ways, wh.Places(places.xy))
    with pytest.raises(wh.InputError, match="attributes 'lat' and 'x'"):
        wh.Places.from_networkx(graph, lat="lat")


def test_a_spanner_is_a_graph(profile: wh.Profile) -> None:
    spanner = wh.greedy_spanner(wh.euclidean(profile.places), 1.5)
    graph = spanner.to_networkx(profile.places)
    assert set(graph.nodes) == set(NAMES)
    assert graph.number_of_edges() == len(spanner.edges)
    through = dict(networkx.all_pairs_dijkstra_path_length(graph, weight="length"))
    straight = wh.euclidean(profile.places)
    stretch = [
        through[a][b] / straight[i, j]
        for i, a in enumerate(NAMES) for j, b in enumerate(NAMES) if i != j
    ]  # fmt: skip
    assert max(stretch) == pytest.approx(spanner.dilation)


def test_plots_are_drawn_into_given_axes(profile: wh.Profile, mechanism: wh.Mechanism) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    try:
        assert profile.plot(ax=left) is left
        assert mechanism.plot(place=2, prior=profile.prior, ax=right) is right
        assert "Where market (star) is reported to" in right.get_title(loc="left")
        assert "off on average over the prior" in right.get_title(loc="left")
        with pytest.raises(wh.InputError, match="place must be from 0 to 3, got 4"):
            mechanism.plot(place=4, ax=right)
    finally:
        plt.close(figure)


def test_plots_make_axes_of_their_own(mechanism: wh.Mechanism) -> None:
    before = plt.get_fignums()
    axis = mechanism.plot()
    assert len(plt.get_fignums()) == len(before) + 1
    assert "on average" not in axis.get_title(loc="left")
    plt.close(axis.figure)


@pytest.mark.slow
def test_six_things_that_researchers_do(tmp_path: Path) -> None:
    """The example runs as it is, without a warning, and says what its cells promise."""
    script = Path(__file__).parent.parent / "examples" / "notebook.py"
    assert script.read_text().count("\n# %% ") == 6
    command = [sys.executable, "-W", "error", str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "at 0.5 per km: not private" in done.stdout
    assert "reached=0.49" in done.stdout or "reached=0.50" in done.stdout
    for name in ("notebook-maps.png", "notebook-trade-off.png"):
        assert (tmp_path / name).stat().st_size > 10_000
