"""``whereish trade-off``: what each privacy level costs and hides, and which one meets a target."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from rich.table import Table

import whereish as wh
from whereish.cli import options as opt
from whereish.cli.console import Facts, command, console, say, waiting
from whereish.cli.presentation import say_profile
from whereish.cli.reading import numbers, read_who
from whereish.cli.words import level_in_words
from whereish.files import check_writable
from whereish.limits import DILATION
from whereish.mechanisms import check_places
from whereish.places import as_epsilon, as_whole
from whereish.plotting import picture_kind, plot_trade_off
from whereish.units import km, length_km

_TARGET, _LEVELS = "Find the epsilon", "Which levels"
GUIDE = "docs/guides/which-epsilon.md"


@command
def trade_off(
    profile: Path = opt.PROFILE,
    output: Path | None = opt.output_option("Draw the curves: .png, .pdf or .svg.", default=None),
    loss: str | None = opt.option(
        None, "So far off may a report be on average, like 500m.", _TARGET, "LENGTH"
    ),
    adversary_error: str | None = opt.option(
        None, "So far off must the best guess be on average.", _TARGET, "LENGTH"
    ),
    ratio: float | None = opt.RATIO,
    within: str | None = opt.WITHIN,
    epsilons: str | None = opt.option(None, "Levels per km, like 0.5,1.07,2.", _LEVELS, "LIST"),
    points: int = opt.option(20, "So many levels, if they are not given.", _LEVELS),
    dilation: float = opt.DILATION,
    normalise: bool = opt.NORMALISE,
    as_json: bool = opt.AS_JSON,
) -> Facts:
    """Show what each privacy level costs and hides.

    For each level: how far off reports are on average, how far off the best guess
    of an adversary is, and how often it is right. --loss or --adversary-error
    finds the epsilon that meets a target; --ratio with --within takes it in words.
    docs/guides/which-epsilon.md explains how to choose.
    """
    target = _target(loss, adversary_error, ratio, within)
    as_whole("points", points, 2)
    levels = None if epsilons is None else [*map(as_epsilon, numbers("epsilons", epsilons))]
    if output is not None:
        picture_kind(output)
        check_writable(output)
    who = read_who(profile, normalise=normalise)
    check_places(who.places)
    say_profile(who)
    chosen: wh.ChosenLevel | None = None
    if target:
        with waiting(f"searching the epsilon for {len(who.places):,} places") as bar:
            chosen = wh.epsilon_for(
                who, dilation=dilation, **target,
                progress=lambda count, level, got: bar(f"solve {count}: {level:.4g}, {km(got)}"),
            )  # fmt: skip
        if ratio != 2:  # else the next sentence says it
            say(f"{chosen.words[0].upper()}{chosen.words[1:]}.")
        say(level_in_words(chosen.epsilon))
        level = f"--epsilon {chosen.epsilon:.6g}"
        if ratio is not None:
            level = f"--ratio {ratio:g} --within {quote(str(within))}"
        more = "" if dilation == DILATION else f" --dilation {dilation:g}"
        more += " --normalise" if normalise else ""
        say(f"Next: whereish build {quote(str(profile))} {level}{more} -o k.whereish")
    one_level = ratio is not None and output is None and levels is None
    if chosen is not None and one_level:
        levels = [chosen.epsilon]
    if target and output is None and levels is None:
        return {"chosen": _facts(chosen), "levels": []}
    with waiting(f"building mechanisms for {len(who.places):,} places") as bar:
        table = wh.trade_off(
            who, epsilons=levels or wh.usual_levels(who.places, points), dilation=dilation,
            progress=lambda done, of: bar(f"level {done} of {of}", done / of),
        )  # fmt: skip
    if not target or one_level:
        console.print(_table(table))
        say(
            f"Without a report, the best guess is {km(table.blind_error_km)} off, and right "
            f"{table.blind_success:.0%} of the time. How to choose: {GUIDE}"
        )
    if output is not None:
        plot_trade_off(table, output, chosen)
        say(f"Wrote {output} (readable by you only).")
    return {
        "chosen": _facts(chosen),
        "levels": [asdict(row) for row in table],
        "constant_loss_km": table.constant_loss_km,
        "blind_error_km": table.blind_error_km,
        "blind_success": table.blind_success,
        "seconds": table.seconds,
        "output": output and str(output),
    }


def _target(
    loss: str | None, adversary_error: str | None, ratio: float | None, within: str | None
) -> dict[str, Any]:
    """Return what was given, as `epsilon_for` takes it. It accepts one target."""
    lengths = {"loss": loss, "adversary_error": adversary_error, "within": within}
    given: dict[str, Any] = {
        name: length_km(text, name) for name, text in lengths.items() if text is not None
    }
    return given if ratio is None else {"ratio": ratio, **given}


def _facts(chosen: wh.ChosenLevel | None) -> dict[str, Any] | None:
    if chosen is None:
        return None
    return {name: value for name, value in vars(chosen).items() if name != "mechanism"}


def _table(table: wh.TradeOff) -> Table:
    shown = Table(header_style="bold")
    for heading in ("epsilon", "2 times within", "report off", "best guess off", "guess right"):
        shown.add_column(heading, justify="right")
    for row in table:
        within = km(float(np.log(2)) / row.epsilon)
        shown.add_row(
            f"{row.epsilon:.3f}", within, km(row.loss_km), km(row.adversary_error_km),
            f"{row.guess_success:.0%}",
        )  # fmt: skip
    return shown
