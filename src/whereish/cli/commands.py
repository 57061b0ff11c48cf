"""The commands: each reads, calls the library once, and says what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import whereish as wh
from whereish.cli.console import command, emit, say, waiting
from whereish.cli.options import AsJson, Normalise, ProfileFile, check_options
from whereish.cli.prior import (
    load_with_prior,
)
from whereish.cli.reading import read_who
from whereish.cli.report import (
    facts_of,
    say_mechanism,
    say_profile,
)
from whereish.cli.words import length_km
from whereish.errors import InputError
from whereish.files import check_writable, write_whole
from whereish.format import is_mechanism_file
from whereish.places import Array
from whereish.plotting import KINDS, draw_mechanism, draw_profile, km, picture_kind
from whereish.programs import least_loss_size


@command
def measure(
    mechanism: Annotated[Path, typer.Argument(metavar="K", help="A mechanism built before.")],
    prior: Annotated[
        Path | None, typer.Option(help="A profile of the same places with another prior.")
    ] = None,
    adversary_metric: Annotated[
        str, typer.Option(help="What the adversary minimises: euclidean, geodesic or discrete.")
    ] = "euclidean",
    interest: Annotated[
        str | None, typer.Option(help="Radius of interest, like 300m: how much to ask for?")
    ] = None,
    confidence: Annotated[float, typer.Option(help="... and how sure to be.")] = 0.95,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Measure a mechanism: quality loss, what an adversary learns, the epsilon it really has."""
    if not 0 < confidence <= 1:
        raise InputError(f"confidence must be above 0 and at most 1, got {confidence:g}")
    radius_km = None if interest is None else length_km(interest, "interest")
    judged, weights = load_with_prior(mechanism, prior, normalise)
    if weights is None:
        raise InputError(f"{mechanism} holds no prior: give --prior PROFILE, its places and prior")
    error = wh.adversary_error(judged, weights, _adversary(adversary_metric, judged))
    facts = facts_of(judged, weights)
    facts |= {
        "adversary_error_km": error,
        "adversary_metric": adversary_metric,
        "adversary_error_unit": "share of wrong guesses"
        if adversary_metric == "discrete"
        else "km",
        "worst_case_loss_km": wh.worst_case_loss(judged),
        "report_radius_95_km": wh.report_radius(judged, weights),
        "conditional_entropy_bits": wh.conditional_entropy(judged, weights),
    }
    say_mechanism(judged, facts)
    say(f"  at worst      {km(facts['worst_case_loss_km'])} off on average from one place")
    say(f"  reports       95% fall within {km(facts['report_radius_95_km'])}")
    say(f"  uncertainty   {facts['conditional_entropy_bits']:.2f} bits left after a report")
    if radius_km is not None:
        radius = wh.radius_to_ask(judged, radius_km, confidence, weights)
        facts |= {"radius_to_ask_km": radius, "confidence": confidence}
        say(
            f"  to cover      {interest} around you in {confidence:.0%} of cases, "
            f"ask for {km(radius)}"
        )
    if as_json:
        emit(facts)


@command
def spanner(
    profile: ProfileFile,
    dilation: Annotated[float, typer.Option(help="How much longer a way may be, at least 1.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Edges as CSV, or a picture of them.")
    ] = None,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Build a greedy spanner of the places and say how many constraints it saves."""
    if output is not None:
        if output.suffix.lower().lstrip(".") not in ("csv", *KINDS):
            raise InputError(f"output must end in .csv, .png, .pdf or .svg, got {output.name!r}")
        check_writable(output)
    check_options(dilation, "auto", None)
    who = read_who(profile, normalise=normalise)
    say_profile(who)
    start = time.perf_counter()
    with waiting(f"building a spanner of {len(who.places):,} places"):
        found = wh.greedy_spanner(wh.euclidean(who.places), dilation)
    seconds = time.perf_counter() - start
    n = len(who.places)
    size = least_loss_size(n, n, len(found.edges))
    full = least_loss_size(n, n, n * (n - 1) // 2)
    say(
        f"{len(found.edges):,} edges stand for {n * (n - 1) // 2:,} pairs; "
        f"no way is longer than {found.dilation:.4f} times the distance "
        f"(asked: {found.requested:g}; on average {found.mean_dilation:.4f})"
    )
    say(f"{size.constraints:,} constraints instead of {full.constraints:,}")
    if output is not None and output.suffix.lower() == ".csv":
        lines = [f"{a},{b},{length!r}" for (a, b), length in _edge_rows(found)]
        write_whole(output, ("\n".join(["from,to,length_km", *lines]) + "\n").encode())
    elif output is not None:
        draw_profile(who, output, found)
    if output is not None:
        say(f"Wrote {output}")
    if as_json:
        emit(
            {
                "edges": len(found.edges),
                "dilation": found.dilation,
                "requested_dilation": found.requested,
                "mean_dilation": found.mean_dilation,
                "seconds": seconds,
                "constraints": size.constraints,
                "variables": size.variables,
                "constraints_all_pairs": full.constraints,
                "pairs": [[a, b, length] for (a, b), length in _edge_rows(found)],
            }
        )


@command
def plot(
    source: Annotated[Path, typer.Argument(metavar="K|PROFILE", help="What to draw.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png, .pdf or .svg file.")],
    place: Annotated[
        int | None,
        typer.Option(help="Draw the reports of this place, not the likeliest."),
    ] = None,
    dilation: Annotated[
        float | None, typer.Option(help="Draw the spanner of this dilation, too.")
    ] = None,
    prior: Annotated[
        Path | None, typer.Option(help="Of a mechanism: a profile of its places with the prior.")
    ] = None,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Draw a profile, or a mechanism and where it reports one place to."""
    picture_kind(output)
    if _is_mechanism_file(source):
        mechanism, weights = load_with_prior(source, prior, normalise)
        known = weights is not None
        flat = np.full(len(mechanism.inputs), 1 / len(mechanism.inputs))
        who = wh.Profile(mechanism.inputs, weights if weights is not None else flat)
        asked = dilation if dilation is not None else mechanism.build.requested_dilation
        net = None
        if (
            asked is not None
            and (asked > 1 or dilation is not None)
            and mechanism.privacy_metric is not None
        ):
            net = wh.greedy_spanner(mechanism.privacy_metric, asked)
        draw_mechanism(mechanism, who, output, place, net, prior_known=known)
        if not known:
            say("This file holds no prior: give --prior PROFILE to see it in the picture.")
    else:
        if prior is not None:
            raise InputError("--prior must go with a mechanism to draw, got a profile")
        if place is not None:
            raise InputError("--place needs a mechanism to draw, got a profile")
        who = read_who(source, normalise=normalise)
        graph = None
        if dilation is not None:
            graph = wh.greedy_spanner(wh.euclidean(who.places), dilation)
        draw_profile(who, output, graph)
    say(f"Wrote {output}")
    if as_json:
        emit({"output": str(output)})


def _adversary(name: str, mechanism: wh.Mechanism) -> Array | None:
    if name == "euclidean":
        return None
    if name == "discrete":
        return wh.discrete(len(mechanism.inputs))
    if name == "geodesic":
        return wh.geodesic(mechanism.inputs)
    raise InputError(f"adversary-metric must be euclidean, geodesic or discrete, got {name!r}")


def _is_mechanism_file(path: Path) -> bool:
    if not path.exists():
        raise InputError(f"what to draw must be a file that exists, got {path}")
    return path.is_file() and is_mechanism_file(path)


def _edge_rows(found: wh.Spanner) -> list[tuple[tuple[int, int], float]]:
    pairs = [(int(a), int(b)) for a, b in found.edges]
    return list(zip(pairs, found.lengths.tolist(), strict=True))
