"""``whereish demo``: one city, one person, one mechanism, and what came of it, in words."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

import whereish as wh
from whereish.cli.console import command, console, emit, say, waiting
from whereish.cli.options import AsJson
from whereish.cli.report import comparison_table
from whereish.cli.words import level_in_words, saved
from whereish.errors import InputError, SolveError
from whereish.plotting import draw_comparison, draw_mechanism, km
from whereish.studies import Row, compare

RATIO, WITHIN_KM, DILATION = 2.0, 0.65, 1.05


@command
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures and the mechanism.")
    ] = Path("whereish-demo"),
    as_json: AsJson = False,
) -> None:
    """Build a mechanism for an embedded city and show what it does."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise InputError(f"output {output} cannot be made a folder: {wrong.strerror}") from None
    who = wh.embedded_city()
    epsilon = math.log(RATIO) / WITHIN_KM
    say(
        "A made-up person lives, works and goes out in Paris: 48 cells of 870 x 890 m, and a prior "
        "counted from 90 days of her traces."
    )
    say(level_in_words(epsilon))
    with waiting("building mechanisms and measuring them"):
        rows = list(compare(who, epsilon))
        best = rows[0].mechanism
        if best is None:
            raise SolveError(str(rows[0].problem))
        net = wh.greedy_spanner(wh.euclidean(who.places), DILATION)
        smaller = wh.optimal(who.places, who.prior, epsilon, DILATION)
        city, bars = output / "city.png", output / "comparison.png"
        draw_mechanism(best, who, city, spanner=net)
        same = [(row.name, row.quality_loss_km or 0.0) for row in rows if _same(row, epsilon)]
        draw_comparison(same, epsilon, bars)
        wh.save_mechanism(output / "mechanism.whereish", best)
    console.print(comparison_table(rows))
    _closing(best, rows, wh.quality_loss(smaller, who.prior), len(net.edges), output)
    if as_json:
        emit(
            {
                "epsilon_per_km": epsilon,
                "quality_loss_km": rows[0].quality_loss_km,
                "tightest_epsilon_per_km": float(rows[0].tightest_epsilon_per_km or 0.0),
                "planar_laplace_quality_loss_km": _named(rows, "planar Laplace").quality_loss_km,
                "pictures": [str(city), str(bars)],
                "mechanism": str(output / "mechanism.whereish"),
            }
        )


def _closing(
    best: wh.Mechanism, rows: list[Row], on_spanner: float, edges: int, output: Path
) -> None:
    loss = rows[0].quality_loss_km or 0.0
    laplace = _named(rows, "planar Laplace").quality_loss_km or 0.0
    ratios = best.verdict.ratios if best.verdict else 0
    pairs, least = math.comb(len(best.inputs), 2), best.build.lower_bound_km or 0.0
    say()
    say(
        f"Two places {km(WITHIN_KM)} apart look alike: whatever is reported is at most twice as "
        f"likely from one as from the other. At {km(2 * WITHIN_KM)} it is at most four times, and "
        "so on: the further away, the easier to tell apart."
    )
    say(
        f"A report is {km(loss)} off on average. Planar Laplace noise with the same privacy is "
        f"{km(laplace)} off: knowing where she usually is makes reports {saved(loss, laplace)}. "
        f"Nothing with this privacy can do better than {km(least)}: that is proved. All {pairs:,} "
        f"pairs of places count; the {edges} pairs of the spanner in the picture would do, for "
        f"{km(max(on_spanner - loss, 0.0))} more."
    )
    say(
        f"Checked: all {ratios:,} ratios of these probabilities, one by one, by code that did not "
        "build them. None is above its limit."
    )
    say(f"Pictures: {output / 'city.png'} and {output / 'comparison.png'}.")
    say(
        f"Try next: {_command()} serve --open, to drag a pin and see where its reports go; "
        f"{_command()} audit {output / 'mechanism.whereish'}, which checks it again from "
        f"the file alone; {_command()} profile my-tracks -o me.csv with your own GPX tracks, "
        f"Google Timeline or other traces, and {_command()} build me.csv --ratio 2 --within 500m "
        "-o mine.whereish."
    )


def _command() -> str:
    return "whereish" if shutil.which("whereish") else sys.argv[0]


def _same(row: Row, epsilon: float) -> bool:
    return row.problem is None and row.epsilon_per_km == epsilon


def _named(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if row.name == name)
