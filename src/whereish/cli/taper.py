"""``whereish build --taper``: mechanisms of falling epsilons, for the draws of a day."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import whereish as wh
from whereish.cli.console import say
from whereish.cli.presentation import facts_of, say_profile
from whereish.cli.prior import say_what_it_tells
from whereish.errors import InputError
from whereish.files import check_writable
from whereish.spec import BuildSpec
from whereish.units import km

_MOST = 48
# Flags that do not go with --taper, and why.
_REFUSED = {
    "everywhere": "build one mechanism for each epsilon of wh.tapered_epsilons, with the same "
    "outputs",
    "by_time": "each draw of a day has one mechanism",
    "picture": "draw each mechanism with whereish plot",
    "how_far": "build each mechanism alone to bound it",
    "prior_blur": "build each mechanism alone to see what a blur costs",
}


def check_taper_flags(flags: dict[str, Any]) -> None:
    """Refuse flags that tapered mechanisms cannot follow."""
    if "taper" not in flags:
        return
    for name, why in _REFUSED.items():
        if name in flags:
            raise InputError(f"--{name.replace('_', '-')} must be left out with --taper: {why}")
    if not 2 <= flags["taper"] <= _MOST:
        raise InputError(
            f"--taper must be a number of draws from 2 to {_MOST}, got {flags['taper']}"
        )


def taper_files(output: Path, draws: int) -> list[Path]:
    """Return the files of the mechanisms: K.whereish, K-2.whereish, and so on.

    >>> [path.name for path in taper_files(Path("k.whereish"), 3)]
    ['k.whereish', 'k-2.whereish', 'k-3.whereish']
    """
    later = [output.with_name(f"{output.stem}-{k}{output.suffix}") for k in range(2, draws + 1)]
    return [output, *later]


def build_taper(
    who: wh.Profile,
    spec: BuildSpec,
    search: Callable[[BuildSpec], wh.Mechanism],
    output: Path,
    draws: int,
) -> tuple[list[wh.Mechanism], dict[str, Any]]:
    """Build a mechanism for each draw of a day, write them, and say what holds.

    The epsilons have the sum `draws` times that of the build. They are the best ones for days of
    which nothing is known: each number of draws up to `draws` is as likely.
    """
    files = taper_files(output, draws)
    for file in files:
        check_writable(file)
    say_profile(who)
    levels = wh.tapered_epsilons(draws * spec.epsilon_per_km, wh.even_shares(draws))
    made = []
    for number, level in enumerate(levels, 1):
        say(f"Draw {number} of a day, epsilon {level:.4g} per km:")
        made.append(search(spec.changed(epsilon_per_km=level)))
    parts = []
    for file, mechanism in zip(files, made, strict=True):
        wh.save_mechanism(file, mechanism, spec.prior if spec.keep_prior else None)
        parts.append(facts_of(mechanism, spec.prior) | {"output": str(file)})
    say()
    for number, one in enumerate(parts, 1):
        say(
            f"  draw {number:<9} epsilon {one['epsilon']:.4g} {one['epsilon_unit']} holds for all "
            f"{one['ratios_checked']:,} ratios; a report is {km(one['quality_loss_km'])} off on "
            "average"
        )
    say_what_it_tells(made[0], spec.keep_prior)
    later = ",".join(file.name for file in files[1:])
    say(
        f"Wrote {draws} files: {output} is for the first draw of a day. Next: whereish obfuscate "
        f'{output} TABLE -o FILE --policy filtered --model MODEL --budget "{draws} places a day" '
        f"--later {later}"
    )
    return made, {**parts[0], "draws": parts}
