"""``whereish estimate``: where people are, from a table of their reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import whereish as wh
from whereish.cli import options as opt
from whereish.cli.console import Facts, command, say, waiting
from whereish.errors import InputError
from whereish.estimation import read_reports
from whereish.files import check_writable, write_whole
from whereish.lazy import pl
from whereish.maps import read_map
from whereish.plotting import draw_estimate, picture_kind
from whereish.profiles.writing import profile_columns

_TABLE = "The table"
_NO_MOVE = 1e-9  # a smaller share of all moves is left out


@command
def estimate(
    mechanism: Path = opt.MECHANISM,
    reports: Path = opt.argument("REPORTS", "A .csv or .parquet table of reports."),
    output: Path = opt.output_option("The .csv table of shares to write."),
    columns: str | None = opt.option(
        None, "The columns of latitude and longitude, if not found.", _TABLE, "LAT,LON"
    ),
    user: str | None = opt.option(
        None, "Who reported: equal reports of a person count once.", _TABLE, "COLUMN"
    ),
    time: str | None = opt.option(None, "When, with --user: once a day.", _TABLE, "COLUMN"),
    also: list[str] = opt.option(
        [], "Another mechanism with its own reports; may be repeated.", _TABLE, "MECHANISM=REPORTS"
    ),
    moves: Path | None = opt.option(
        None, "Estimate moves from place to place, too: .csv.", opt.OUTPUT, "FILE"
    ),
    picture: Path | None = opt.option(
        None, "Draw the map: .png, .pdf or .svg.", opt.OUTPUT, "FILE"
    ),
    map_: Path | None = opt.MAP,
    as_json: bool = opt.AS_JSON,
) -> Facts:
    """Estimate where people are from a table of their reports.

    REPORTS is a table that whereish obfuscate wrote with this mechanism. The result
    is a table of places with their estimated shares, standard errors and 95 %
    intervals. It is also a profile: whereish build takes it. Which mechanism suits
    statistics: docs/guides/statistics.md.
    """
    pair = None
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
        if len(names) != 2:
            raise InputError(f"columns must be two names, LAT,LON, got {len(names)}")
        pair = (names[0], names[1])
    if time is not None and user is None:
        raise InputError("--time must go with --user: reports are sticky for one person")
    for file, name in ((output, "output"), (moves, "moves")):
        if file is not None and file.suffix.lower() != ".csv":
            raise InputError(f"{name} must be a .csv file, got {file}")
        if file is not None:
            check_writable(file)
    if moves is not None and (user is None or also):
        raise InputError("--moves must go with --user, and with one mechanism, without --also")
    if moves == output:
        raise InputError(f"output and moves must be two files, got {output} for both")
    if picture is not None:
        picture_kind(picture)
    elif map_ is not None:
        raise InputError("--map must go with --picture")
    ground = None if map_ is None else read_map(map_)
    sources = [(mechanism, reports), *map(_pair, also)]
    several = [_load(file) for file, _ in sources]
    with waiting(f"estimating shares from {' and '.join(file.name for _, file in sources)}"):
        tables = [
            read_reports(file, one, pair, user, time)
            for one, (_, file) in zip(several, sources, strict=True)
        ]
        found = wh.estimate(
            several, [table.outputs for table in tables],
            people=[table.people for table in tables],
            periods=[table.periods for table in tables],
        )  # fmt: skip
        moved = None
        if moves is not None:
            moved = wh.estimate_transitions(several[0], *tables[0].moves())
    blank = sum(table.blank for table in tables)
    _write(output, found)
    say(f"{found.reports:,} reports counted, {len(found.places):,} places.")
    if user is None:
        say("Repeated reports of a person count each time: --user COLUMN counts them once.")
    else:
        say(f"Repetitions of sticky reports, left out: {found.repeated:,}.")
    if blank:
        say(f"Rows without a point, left out: {blank:,}.")
    say(f"Proved: no shares have a mean log-likelihood larger by {found.gap:.1e}.")
    known = np.isfinite(found.standard_errors)
    if known.any():
        say(f"Standard error of a share: {np.median(found.standard_errors[known]):.2%} (median).")
    for warning in found.warnings:
        say(f"Careful: {warning}.")
    if picture is not None:
        draw_estimate(found, picture, ground)
    if moved is not None and moves is not None:
        _write_moves(moves, moved)
        say(
            f"Wrote {moves}: {moved.pairs:,} moves between successive reports; no other estimate "
            f"has a mean log-likelihood larger by {moved.gap:.1e}."
        )
    say(f"Wrote {output}{'' if picture is None else f' and {picture}'} (readable by you only).")
    return {
        "places": len(found.places),
        "reports": found.reports,
        "repeated": found.repeated,
        "blank": blank,
        "gap": found.gap,
        "log_likelihood": found.log_likelihood,
        "rank": found.rank,
        "groups": [list(group) for group in found.groups],
        "warnings": list(found.warnings),
        "output": str(output),
        "picture": picture and str(picture),
        "mechanisms": len(several),
        "moves": moved and {"output": str(moves), "pairs": moved.pairs, "gap": moved.gap},
    }


def _pair(text: str) -> tuple[Path, Path]:
    """Read MECHANISM=REPORTS."""
    first, _, second = text.partition("=")
    if not first or not second:
        raise InputError("--also must be MECHANISM=REPORTS, like old.whereish=old.csv")
    return Path(first), Path(second)


def _load(file: Path) -> wh.Mechanism:
    loaded, _ = wh.load_mechanism(file)
    if not isinstance(loaded, wh.Mechanism):
        raise InputError(
            f"mechanism must be one between places, and {file} is not: reports of mechanisms "
            "by time or for all points cannot be counted yet"
        )
    return loaded


def _write(path: Path, found: wh.MapEstimate) -> None:
    """Write the table: a profile with the errors and intervals of its prior."""
    rows = pl.DataFrame(
        {
            **profile_columns(found.profile),
            "standard_error": found.standard_errors,
            "low_95": found.low,
            "high_95": found.high,
        }
    ).with_columns(pl.col("standard_error").fill_nan(None))
    write_whole(path, rows.write_csv().encode(), private=True)


def _write_moves(path: Path, found: wh.TransitionEstimate) -> None:
    """Write the table of moves: the rows of two places in the other table, from 0, and shares."""
    start, end = np.nonzero(found.joint > _NO_MOVE)
    rows = pl.DataFrame(
        {
            "from_row": start,
            "to_row": end,
            "share": found.joint[start, end],
            "probability": found.matrix[start, end],
        }
    )
    write_whole(path, rows.write_csv().encode(), private=True)
