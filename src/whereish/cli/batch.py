"""The batch command: a mechanism for everybody."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from whereish.cli.console import EXIT_NOT_SOLVED, command, say, waiting
from whereish.cli.options import (
    AsJson,
    BlurWith,
    Cluster,
    Dilation,
    Epsilon,
    ForgetPrior,
    KeepPrior,
    Method,
    Normalise,
    PriorBlur,
    Ratio,
    Tolerance,
    Within,
    given_flags,
    read_options,
)
from whereish.cli.words import level_in_words, plain
from whereish.errors import WhereishError
from whereish.limits import DILATION, TOLERANCE
from whereish.places.validation import as_whole


@command
def batch(
    context: typer.Context,
    profiles: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILES",
            help="A folder with a profile of each person, or a table with a column user.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="OUT", help="A folder, or an address like s3://bucket/run.",
            rich_help_panel="Output",
        ),
    ],
    epsilon: Epsilon = None,
    ratio: Ratio = None,
    within: Within = None,
    dilation: Dilation = DILATION,
    method: Method = "exact",
    tolerance: Tolerance = TOLERANCE,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes at a time. If not given: all cores.", rich_help_panel="How it is built"
        ),
    ] = None,
    cluster: Cluster = None,
    normalise: Normalise = False,
    keep_prior: KeepPrior = False,
    forget_prior: ForgetPrior = False,
    prior_blur: PriorBlur = 0.0,
    blur_with: BlurWith = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Build a certified mechanism for each of many people.

    A second run builds only what is missing or has changed, so a stopped run continues. With
    --json, standard output gets a line for each person, and one for the whole run.
    """
    from whereish.batch import Batch, Row, open_engine, open_output, run_batch
    from whereish.batch.run import places_id
    from whereish.profiles import People, read_profile

    asked = read_options(given_flags(context))
    if workers is not None:
        as_whole("workers", workers)
    people = People(profiles, normalise=normalise)
    say(f"{people.count:,} people. {level_in_words(asked.epsilon_per_km)}")
    engine = open_engine(workers, cluster)
    where_public = None
    if blur_with is not None and blur_with != "uniform":
        other = read_profile(Path(blur_with), normalise=normalise)
        asked, where_public = asked.changed(blur_with=other.prior), places_id(other.places)
    problems: list[Row] = []
    begun: list[float] = []
    ended = 0

    def tell(row: Row, now: Batch) -> None:
        nonlocal ended
        ended = now.built + now.kept
        if as_json:
            sys.stdout.write(json.dumps(plain(asdict(row)), allow_nan=False) + "\n")
        if row.problem:
            problems.append(row)
        fresh = now.built + now.failed
        if not begun and fresh:
            begun.extend((fresh, now.seconds))  # what starts the workers does not count
        spent = now.seconds - begun[1] if begun else 0.0
        rate = (fresh - begun[0]) / spent if spent > 0.5 else fresh / max(now.seconds, 1e-3)
        left = (now.people - now.ended) / rate if rate else 0.0
        bar(
            f"{now.ended:,} of {now.people:,}, {rate:,.1f} a second, {left:,.0f} s left",
            now.ended / now.people,
        )

    try:
        where = open_output(output)
        many = "one worker" if engine.workers == 1 else f"{engine.workers} workers"
        with waiting(f"building on {many}") as bar:
            done = run_batch(people, asked, where, engine, tell, public_places=where_public)
    except (KeyboardInterrupt, WhereishError):
        if ended:
            say(f"{ended:,} of {people.count:,} people are done; the same command continues")
        raise
    finally:
        engine.close()
    for row in problems[:20]:
        say(f"  {row.user}: {row.problem}")
    if len(problems) > 20:
        say(f"  and {len(problems) - 20:,} more: see the summary")
    if done.elsewhere:
        say(
            f"Profiles with other places than the rest: {done.elsewhere:,}. Each got a mechanism "
            "on its own places (places_id in the summary)."
        )
    say(
        f"{done.built:,} built, {done.kept:,} were up to date, {done.failed:,} failed, in "
        f"{done.seconds:,.1f} s. The summary is {output.rstrip('/')}/summary.csv"
    )
    if as_json:
        told = {"people": done.people, "built": done.built, "kept": done.kept,
                "failed": done.failed, "seconds": done.seconds, "output": output}  # fmt: skip
        sys.stdout.write(json.dumps(told) + "\n")
    if done.failed:
        raise typer.Exit(EXIT_NOT_SOLVED)
