"""``whereish plot``: a picture of a profile, or of a mechanism."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import whereish as wh
from whereish.cli.console import Facts, command, say
from whereish.cli.options import (
    AS_JSON,
    MAP,
    NORMALISE,
    OTHER_PRIOR,
    argument,
    option,
    output_option,
)
from whereish.cli.prior import load_with_prior
from whereish.cli.reading import read_who
from whereish.errors import InputError
from whereish.everywhere import Everywhere
from whereish.format import is_mechanism_file
from whereish.maps import read_map
from whereish.plotting import draw_everywhere, draw_mechanism, draw_profile, picture_kind

_DRAWN = "What is drawn"


@command
def plot(
    source: Path = argument("MECHANISM|PROFILE", "The file to draw."),
    output: Path = output_option("A .png, .pdf or .svg file."),
    place: int | None = option(
        None,
        "Draw the reports from this place, or this vertex of a lattice. If not given: from the "
        "most likely place.",
        _DRAWN,
    ),
    dilation: float | None = option(None, "Draw the spanner of this dilation as well.", _DRAWN),
    prior: Path | None = OTHER_PRIOR,
    normalise: bool = NORMALISE,
    map_: Path | None = MAP,
    as_json: bool = AS_JSON,
) -> Facts:
    """Draw a profile, or a mechanism and its reports."""
    picture_kind(output)
    ground = None if map_ is None else read_map(map_)
    if not source.exists():
        raise InputError(f"what to draw must be a file that exists, got {source}")
    if is_mechanism_file(source):
        mechanism, weights = load_with_prior(source, prior, normalise)
        if isinstance(mechanism, wh.MechanismByTime):
            raise InputError(
                f"what to draw must be one mechanism, and {source} holds one for each period of "
                "the day: draw one for the whole day, built without --by-time"
            )
        if isinstance(mechanism, Everywhere):
            if dilation is not None:
                raise InputError(
                    f"--dilation must go with a mechanism between places, and {source} is one "
                    "between all points: it has no spanner"
                )
            draw_everywhere(mechanism, weights, output, place, ground)
            if weights is None:
                say(f"{source} holds no points: give --prior PROFILE to see them in the picture.")
            say(f"Wrote {output}")
            return {"output": str(output)}
        uniform = np.full(len(mechanism.inputs), 1 / len(mechanism.inputs))
        who = wh.Profile(mechanism.inputs, uniform if weights is None else weights)
        built_with = mechanism.build.requested_dilation
        if dilation is None and built_with is not None and built_with > 1:
            dilation = built_with
        graph = None
        if dilation is not None and mechanism.privacy_metric is not None:
            graph = wh.greedy_spanner(mechanism.privacy_metric, dilation)
        known = weights is not None
        draw_mechanism(mechanism, who, output, place, graph, known, background=ground)
        if weights is None:
            say(f"{source} holds no prior: give --prior PROFILE to see it in the picture.")
    else:
        for flag, given in (("--prior", prior), ("--place", place)):
            if given is not None:
                raise InputError(f"{flag} must go with a mechanism, and {source} is a profile")
        who = read_who(source, normalise=normalise)
        graph = None if dilation is None else wh.greedy_spanner(wh.euclidean(who.places), dilation)
        draw_profile(who, output, graph, ground)
    say(f"Wrote {output}")
    return {"output": str(output)}
