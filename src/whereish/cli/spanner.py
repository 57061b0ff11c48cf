"""``whereish spanner``: a graph of few edges that keeps the distances of the places."""

from __future__ import annotations

import time
from pathlib import Path

import whereish as wh
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.options import AS_JSON, BUILT, NORMALISE, PROFILE, option, output_option
from whereish.cli.presentation import say_profile
from whereish.cli.reading import read_who
from whereish.errors import InputError
from whereish.files import check_writable, write_whole
from whereish.plotting import KINDS, draw_profile
from whereish.programs import check_dilation, least_loss_size


@command
def spanner(
    profile: Path = PROFILE,
    dilation: float = option(
        ..., "A path may be this many times longer than the distance; at least 1.", BUILT
    ),
    normalise: bool = NORMALISE,
    output: Path | None = output_option("Write the edges (.csv) or a picture.", default=None),
    as_json: bool = AS_JSON,
) -> Facts:
    """Build a spanner: fewer constraints, slightly more loss.

    It is the greedy spanner that `whereish build --dilation` uses.
    """
    if output is not None:
        if output.suffix.lower().lstrip(".") not in ("csv", *KINDS):
            raise InputError(f"output must end in .csv, .png, .pdf or .svg, got {output.name!r}")
        check_writable(output)
    check_dilation(dilation)
    who = read_who(profile, normalise=normalise)
    say_profile(who)
    start = time.perf_counter()
    with waiting(f"building a spanner of {len(who.places):,} places"):
        found = wh.greedy_spanner(wh.euclidean(who.places), dilation)
    seconds = time.perf_counter() - start
    n = len(who.places)
    pairs = n * (n - 1) // 2
    size = least_loss_size(n, n, len(found.edges))
    full = least_loss_size(n, n, pairs)
    say(
        f"The spanner has {len(found.edges):,} edges instead of {pairs:,} pairs. Its paths are at "
        f"most {found.dilation:.4f} times as long as the distance (you asked for "
        f"{found.requested:g}), and {found.mean_dilation:.4f} times on average."
    )
    say(f"A build with it has {size.constraints:,} constraints instead of {full.constraints:,}.")
    lengths = found.lengths.tolist()
    edges = [[int(a), int(b), km] for (a, b), km in zip(found.edges, lengths, strict=True)]
    if output is not None:
        if output.suffix.lower() == ".csv":
            lines = ["from,to,length_km", *(f"{a},{b},{km!r}" for a, b, km in edges)]
            write_whole(output, ("\n".join(lines) + "\n").encode())
        else:
            draw_profile(who, output, found)
        say(f"Wrote {output}")
    return {
        "edges": len(found.edges),
        "dilation": found.dilation,
        "requested_dilation": found.requested,
        "mean_dilation": found.mean_dilation,
        "seconds": seconds,
        "constraints": size.constraints,
        "variables": size.variables,
        "constraints_all_pairs": full.constraints,
        "pairs": edges,
    }
