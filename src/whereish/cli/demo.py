"""``whereish demo``: a mechanism for an embedded city, in words and pictures."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import whereish as wh
from whereish.cli.console import Facts, command, console, say, waiting
from whereish.cli.options import AS_JSON, output_option
from whereish.cli.presentation import comparison_table
from whereish.cli.words import level_in_words, saved
from whereish.errors import InputError, SolveError
from whereish.plotting import draw_comparison, draw_mechanism
from whereish.studies import Row, compare
from whereish.units import km

RATIO, WITHIN_KM, DILATION = 2.0, 0.65, 1.05


@command
def demo(
    output: Path = output_option(
        "The folder for the pictures and the mechanism.", "FOLDER", default=Path("whereish-demo")
    ),
    as_json: bool = AS_JSON,
) -> Facts:
    """Build a mechanism for an embedded city, and show it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise InputError(
            f"output must be a folder, and {output} cannot be made one: {wrong.strerror}"
        ) from None
    who = wh.embedded_city()
    epsilon = math.log(RATIO) / WITHIN_KM
    say(
        "A made-up person lives, works and goes out in Paris. Her area has 48 cells of "
        "870 x 890 m. The prior says how often she is in each cell; it was counted from 90 days "
        "of her traces."
    )
    say(level_in_words(epsilon))
    with waiting("building mechanisms and measuring them"):
        rows = list(compare(who, epsilon, everywhere=False))
        best = rows[0].mechanism
        if not isinstance(best, wh.Mechanism):
            raise SolveError(str(rows[0].problem))
        net = wh.greedy_spanner(wh.euclidean(who.places), DILATION)
        smaller = wh.optimal(who.places, who.prior, epsilon, DILATION)
        city, bars = output / "city.png", output / "comparison.png"
        draw_mechanism(best, who, city, spanner=net)
        same = [
            (row.name, row.quality_loss_km or 0.0)
            for row in rows
            if row.problem is None and row.epsilon_per_km == epsilon
        ]
        draw_comparison(same, epsilon, bars)
        wh.save_mechanism(output / "mechanism.whereish", best)
    console.print(comparison_table(rows))
    laplace = next(row.quality_loss_km for row in rows if row.name == "planar Laplace") or 0.0
    _closing(best, rows[0], laplace, wh.quality_loss(smaller, who.prior), len(net.edges), output)
    return {
        "epsilon_per_km": epsilon,
        "quality_loss_km": rows[0].quality_loss_km,
        "tightest_epsilon_per_km": float(rows[0].tightest_epsilon_per_km or 0.0),
        "planar_laplace_quality_loss_km": laplace,
        "pictures": [str(city), str(bars)],
        "mechanism": str(output / "mechanism.whereish"),
    }


def _closing(
    best: wh.Mechanism, row: Row, laplace: float, on_spanner: float, edges: int, output: Path
) -> None:
    """Say what the mechanism does, in words, and what to try next."""
    loss = row.quality_loss_km or 0.0
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
        f"Nothing with this privacy can do better than {km(least)}: that is proved. The "
        f"privacy holds for all {pairs:,} pairs of places; with constraints on only the {edges} "
        "pairs of the spanner in the picture it holds too, and reports are "
        f"{km(max(on_spanner - loss, 0.0))} further off."
    )
    say(
        f"Checked: all {ratios:,} ratios of these probabilities, one by one, by code that did not "
        "build them. None is above its limit."
    )
    say(f"Pictures: {output / 'city.png'} and {output / 'comparison.png'}.")
    as_started = "python -m whereish" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
    name = "whereish" if shutil.which("whereish") else as_started
    say("Try next:")
    say(f"  {name} serve --open")
    say("      drag a pin on a map and see where its reports go")
    say(f"  {name} audit {output / 'mechanism.whereish'}")
    say("      check the mechanism again, from its file alone")
    say(f"  {name} profile my-tracks -o me.csv")
    say(f"  {name} build me.csv --ratio 2 --within 500m -o mine.whereish")
    say("      build a mechanism from your own GPX tracks, Google Timeline or other traces")
