"""Write profiles to files: a table of places with a prior, or GeoJSON regions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import InputError, described
from whereish.files import check_writable, new_folder, write_whole
from whereish.lazy import pl
from whereish.parquet import parquet_bytes
from whereish.profiles.profile import Profile
from whereish.profiles.tables import CELL_COLUMNS, SUFFIXES, VISITED
from whereish.profiles.time_columns import time_columns


def write_profile(path: str | Path, profile: Profile) -> None:
    """Write a profile to a file that only its owner may read, completely or not at all.

    The file ends in ``.csv``, ``.json`` or ``.parquet`` for a table, ``.geojson`` for the regions.
    """
    if not isinstance(profile, Profile):
        raise InputError(f"a profile is needed, got {type(profile).__name__}")
    if not isinstance(path, str | Path):
        raise InputError(f"a profile's file must be named, got {described(path)}")
    write_whole(path, _content(check_profile_file(path), profile), private=True)


def check_profile_file(path: str | Path) -> str:
    """Return the suffix of the file for a profile, if it can be written."""
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".json", ".parquet", ".geojson"):
        raise InputError(f"a profile's file must end in {SUFFIXES}, got {Path(path).name!r}")
    check_writable(path)
    return kind


def check_profiles_target(path: str | Path) -> None:
    """Raise InputError unless the profiles of many people can be written there."""
    target, kind = Path(path), Path(path).suffix.lower()
    if kind in (".csv", ".json", ".geojson"):
        must = "the profiles of many people go to a folder or a .parquet file"
        raise InputError(f"{must}, got {path}")
    if kind == ".parquet":
        check_writable(path)
        return
    try:
        taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    except OSError as wrong:
        raise InputError(f"output cannot be made a folder: {wrong.strerror}") from None
    if taken:
        raise InputError(f"output must be a new or empty folder or a .parquet file, got {path}")


def write_profiles(path: str | Path, profiles: Mapping[str, Profile]) -> None:
    """Write the profiles of many people: a folder of CSV files, or one Parquet table.

    Only its owner may enter the new folder, which has a file for each person. In a ``.parquet``
    file the column ``user`` names the person of each row.
    """
    if not profiles:
        raise InputError("profiles must hold at least one person's, got none")
    check_profiles_target(path)
    if Path(path).suffix.lower() == ".parquet":
        parts = [
            pl.DataFrame({"user": [user] * len(who.places), **profile_columns(who)})
            for user, who in profiles.items()
        ]
        write_whole(path, parquet_bytes(pl.concat(parts, how="diagonal")), private=True)
        return
    with new_folder(path, private=True) as folder:
        for name, who in zip(_file_names(list(profiles)), profiles.values(), strict=True):
            write_whole(folder / f"{name}.csv", _content(".csv", who), private=True)


def _file_names(users: list[str]) -> list[str]:
    """Return a name for each person that any file system takes, and no name twice."""
    taken: set[str] = set()
    names = []
    for user in users:
        plain = re.sub(r"[^\w-]+", "_", user).encode()[:100].decode(errors="ignore") or "_"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        names.append(name)
    return names


def profile_columns(profile: Profile) -> dict[str, Any]:
    """Return the columns of the table of a profile."""
    places = profile.places
    names = ("x_km", "y_km") if places.latlon is None else ("lat", "lon")
    points = places.xy if places.latlon is None else places.latlon
    columns: dict[str, Any] = dict(zip(names, points.T, strict=True))
    columns["prior"] = profile.prior
    for name, km in zip(CELL_COLUMNS, places.cell_km or (), strict=False):
        columns[name] = [km] * len(places)
    if profile.by_time is not None:
        columns |= time_columns(profile.by_time)
    if profile.visited is not None:
        columns[VISITED] = _visited(profile)
    return columns


def _visited(profile: Profile) -> list[str]:
    """Return the visited points as text, each with the place that is nearest to it."""
    places, visited = profile.places, profile.visited
    texts: list[list[str]] = [[] for _ in range(len(places))]
    if visited is not None:
        near = visited.places.in_plane_of(places).xy
        points = visited.places.xy if places.latlon is None else visited.places.latlon
        digits = 6 if places.latlon is None else 7  # a millimetre, a centimetre
        _, nearest = places.tree.query(near)
        for place, (a, b), share in zip(nearest, np.asarray(points), visited.weights, strict=True):
            texts[int(place)].append(f"{a:.{digits}f} {b:.{digits}f} {share:.9g}")
    return ["; ".join(some) for some in texts]


def _content(kind: str, profile: Profile) -> bytes:
    if kind == ".geojson":
        return _as_geojson(profile)
    table = pl.DataFrame(profile_columns(profile))
    if kind == ".json":
        return (json.dumps(table.to_dicts(), indent=1) + "\n").encode()
    return table.write_csv().encode() if kind == ".csv" else parquet_bytes(table)


def _as_geojson(profile: Profile) -> bytes:
    from shapely.geometry import Point, Polygon, mapping

    places = profile.places
    if places.latlon is None:
        raise InputError("GeoJSON needs places on the earth, got places in a plane: write .csv")
    about: dict[str, Any] = {}
    shapes: Sequence[Any] = [Point(lon, lat) for lat, lon in places.latlon]
    if profile.regions is not None:
        shapes = profile.regions
    elif places.cell_km is not None and places.plane is not None:
        about = dict(zip(CELL_COLUMNS, places.cell_km, strict=True))
        corner = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * places.cell_km / 2
        rings = [places.plane.to_latlon(centre + corner)[:, ::-1] for centre in places.xy]
        shapes = [Polygon(ring) for ring in rings]
    if any(shape.bounds[2] - shape.bounds[0] > 180 for shape in shapes):
        raise InputError("GeoJSON has no shapes across the date line: write .csv")
    properties = [{"prior": share, **about} for share in profile.prior.tolist()]
    if profile.by_time is not None:
        for name, values in time_columns(profile.by_time).items():
            for known, value in zip(properties, np.asarray(values).tolist(), strict=True):
                known[name] = value
    if profile.visited is not None:
        for known, text in zip(properties, _visited(profile), strict=True):
            known[VISITED] = text
    features = [
        {"type": "Feature", "properties": known, "geometry": mapping(shape)}
        for known, shape in zip(properties, shapes, strict=True)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()
