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
    if output.suffix.lower() != ".csv":
        raise InputError(f"output must be a .csv file, got {output}")
    check_writable(output)
    if picture is not None:
        picture_kind(picture)
    elif map_ is not None:
        raise InputError("--map must go with --picture")
    ground = None if map_ is None else read_map(map_)
    loaded, _ = wh.load_mechanism(mechanism)
    if not isinstance(loaded, wh.Mechanism):
        raise InputError(
            f"mechanism must be one between places, and {mechanism} is not: reports of mechanisms "
            "by time or for all points cannot be counted yet"
        )
    with waiting(f"estimating shares from {reports.name}"):
        table = read_reports(reports, loaded, pair, user, time)
        found = wh.estimate(loaded, table.points, people=table.people, periods=table.periods)
    _write(output, found)
    say(f"{found.reports:,} reports counted, {len(found.places):,} places.")
    if user is None:
        say("Repeated reports of a person count each time: --user COLUMN counts them once.")
    else:
        say(f"Repetitions of sticky reports, left out: {found.repeated:,}.")
    if table.blank:
        say(f"Rows without a point, left out: {table.blank:,}.")
    say(f"Proved: no shares have a mean log-likelihood larger by {found.gap:.1e}.")
    known = np.isfinite(found.standard_errors)
    if known.any():
        say(f"Standard error of a share: {np.median(found.standard_errors[known]):.2%} (median).")
    for warning in found.warnings:
        say(f"Careful: {warning}.")
    if picture is not None:
        draw_estimate(found, picture, ground)
    say(f"Wrote {output}{'' if picture is None else f' and {picture}'} (readable by you only).")
    return {
        "places": len(found.places),
        "reports": found.reports,
        "repeated": found.repeated,
        "blank": table.blank,
        "gap": found.gap,
        "log_likelihood": found.log_likelihood,
        "rank": found.rank,
        "groups": [list(group) for group in found.groups],
        "warnings": list(found.warnings),
        "output": str(output),
        "picture": picture and str(picture),
    }


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
