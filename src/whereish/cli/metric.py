"""``whereish metric``: a privacy metric from an OpenStreetMap extract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.map import area_of_file
from whereish.cli.options import AS_JSON, argument, flag, option, output_option
from whereish.cli.profile_options import cell_of
from whereish.cli.reading import read_who
from whereish.errors import InputError
from whereish.files import check_writable
from whereish.format import save_metric
from whereish.maps import (
    ATTRIBUTION,
    Area,
    cells_with_roads,
    elastic_metric,
    make_cells,
    make_elastic,
    parse_area,
    parse_weights,
    read_map,
    read_masses,
    read_roads,
    road_metric,
)
from whereish.maps.elastic import CELL_KM
from whereish.places import MapMetric, Places, square_grid
from whereish.plotting import draw_elastic, picture_kind
from whereish.profiles import Profile, write_profile
from whereish.units import km, length_km

_AREA, _ELASTIC, _KIND = "The area and its places", "The elastic metric", "The kind of metric"
_ROAD_CELL_KM = 0.5
_ROAD_MARGIN_KM = 1.0  # a way between two places may leave the area


@command
def metric(
    extract: Path = argument("EXTRACT", "An OpenStreetMap extract: .osm.pbf."),
    output: Path = output_option("The metric to write: .metric."),
    roads: bool = flag("--roads", "Distance along the roads: epsilon is per km of it.", _KIND),
    elastic: bool = flag("--elastic", "Elastic: long in towns, short where little lies.", _KIND),
    area: str | None = option(
        None, "Cells of south,west,north,east in degrees. If not given: of all.", _AREA, "DEGREES"
    ),
    around: Path | None = option(
        None, "The places of a profile, instead of cells.", _AREA, "PROFILE"
    ),
    margin: str | None = option(
        None, "With --around: map this much on every side (a fifth).", _AREA, "LENGTH"
    ),
    cell: str | None = option(
        None, "Size of a cell (elastic: 100m; roads: 500m).", _AREA, "LENGTH"
    ),
    weight: list[str] = option(
        [], "Weight of a kind of mass, like health=5 or building=0 (1).", _ELASTIC, "KIND=NUMBER"
    ),
    fence: list[str] = option(
        [], "An area without distances inside; may be repeated.", _ELASTIC, "DEGREES"
    ),
    prior: Path | None = option(
        None, "Write the cells as a profile: the prior is the mass.", _ELASTIC, "FILE"
    ),
    picture: Path | None = option(None, "Draw how far the distance ln 2 goes.", _ELASTIC, "FILE"),
    map_: Path | None = option(
        None, "Draw this map of whereish map under it.", _ELASTIC, "FILE", "--map"
    ),
    as_json: bool = AS_JSON,
) -> Facts:
    """Make a privacy metric from an OpenStreetMap extract.

    For build --metric. With roads, epsilon is per km along the roads. The elastic metric has no km:
    epsilon 1 means that every place is among others that hold a given mass of buildings and
    amenities.
    """
    if roads == elastic:
        raise InputError("give --roads or --elastic: one of them, and not both")
    if area is not None and around is not None:
        raise InputError("give --area or --around, not both")
    if margin is not None and around is None:
        raise InputError("--margin must go with --around")
    for name, given in (("weight", weight), ("fence", fence), ("prior", prior),
                        ("picture", picture), ("map", map_)):  # fmt: skip
        if given and not elastic:
            raise InputError(f"--{name} must go with --elastic")
    if map_ is not None and picture is None:
        raise InputError("--map must go with --picture")
    if picture is not None:
        picture_kind(picture)
    check_writable(output)
    if output.exists() and extract.exists() and output.samefile(extract):
        raise InputError(f"output must not be the extract itself, got {output} for both")
    side = (CELL_KM if elastic else _ROAD_CELL_KM,) * 2 if cell is None else cell_of(cell)
    wanted = None if area is None else parse_area(area)
    places: Places | None = None
    if around is not None:
        wanted = area_of_file(around, None if margin is None else length_km(margin, "margin"))
        places = read_who(around).places
    if roads:
        made = _roads(extract, wanted, places, side)
    else:
        made = _elastic(extract, wanted, places, side, parse_weights(weight),
                        [parse_area(box) for box in fence], prior, picture, map_)  # fmt: skip
    save_metric(output, made)
    say(made.words.about)
    say(f"Wrote {output}. {ATTRIBUTION}. Next: whereish build PROFILE --metric {output} -o FILE")
    return {
        "output": str(output),
        "kind": made.kind,
        "places": len(made),
        "epsilon_unit": made.words.epsilon_unit,
        **made.facts,
        "attribution": ATTRIBUTION,
    }


def _roads(
    extract: Path, area: Area | None, places: Places | None, cell_km: tuple[float, float]
) -> MapMetric:
    """Make the metric along the roads: of given places, or of the cells that have roads."""
    with waiting(f"reading {extract.name}") as tell:
        wide = None if area is None else area.grown(_ROAD_MARGIN_KM)
        network, share = read_roads(extract, wide, lambda news: tell(news))
        if places is None:
            box = Area(*_box(network.nodes)) if area is None else area
            places = cells_with_roads(network, square_grid(*box, cell_km=cell_km))
        tell(f"shortest ways between {len(places):,} places")
        made = road_metric(network, places, connected_share=share)
    furthest = made.facts["furthest_from_a_road_km"]
    say(
        f"{len(places):,} places on {made.facts['roads_km']:,.0f} km of roads with "
        f"{len(network.nodes):,} nodes, {share:.1%} of all roads there; the furthest place is "
        f"{km(furthest)} from a road"
    )
    return made


def _elastic(
    extract: Path,
    area: Area | None,
    places: Places | None,
    cell_km: tuple[float, float],
    weights: dict[str, float],
    fences: list[Area],
    prior: Path | None,
    picture: Path | None,
    map_: Path | None,
) -> MapMetric:
    """Make the elastic metric: of all cells, or of the cells of given places."""
    ground = None if map_ is None else read_map(map_)
    with waiting(f"reading {extract.name}") as tell:
        found = read_masses(extract, area, lambda news: tell(news))
        cells = make_cells(found, area or found.area, cell_km, weights)
        tell(f"elastic metric of {cells.grid.size:,} cells")
        graph = make_elastic(cells, fences, tell)
        made = elastic_metric(cells, graph, places)
        if picture is not None:
            tell("drawing")
            draw_elastic(cells.places, graph, picture, ground)
    counts = found.counts()
    say(
        f"{counts['building']:,} buildings and {sum(counts.values()) - counts['building']:,} shops "
        f"and amenities in {cells.grid.columns} x {cells.grid.rows} cells; {len(graph.edges):,} "
        f"edges after {graph.passes} passes"
    )
    say(f"{graph.share:.2%} of the cells meet the requirement, each checked after the last pass")
    if prior is not None:
        write_profile(prior, Profile(cells.places, cells.prior))
        say(f"Wrote {prior}: the cells, with the share of what lies in each as the prior.")
    return made


def _box(places: Places) -> Any:
    latlon: Any = places.latlon
    return (*latlon.min(axis=0).tolist(), *latlon.max(axis=0).tolist())
