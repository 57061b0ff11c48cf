"""The batch command: a mechanism for everybody."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import typer

from whereish.cli import options as opt
from whereish.cli.console import EXIT_NOT_SOLVED, command, say, waiting
from whereish.cli.everywhere_words import everywhere_in_words
from whereish.cli.words import level_in_words
from whereish.errors import WhereishError
from whereish.format.certificate import as_plain
from whereish.places.validation import as_whole


@command
def batch(
    context: typer.Context,
    profiles: Path = opt.argument(
        "PROFILES", "A folder with a profile of each person, or a table with a column user."
    ),
    output: str = opt.output_option("A folder, or an address like s3://bucket/run.", "OUT"),
    epsilon: float | None = opt.EPSILON,
    ratio: float | None = opt.RATIO,
    within: str | None = opt.WITHIN,
    dilation: float = opt.DILATION,
    method: str = opt.METHOD,
    metric: Path | None = opt.METRIC,
    everywhere: bool = opt.EVERYWHERE,
    vertices: int | None = opt.VERTICES,
    tolerance: float = opt.TOLERANCE,
    workers: int | None = opt.option(
        None, "Processes at a time. If not given: all cores.", opt.BUILT
    ),
    cluster: str | None = opt.CLUSTER,
    normalise: bool = opt.NORMALISE,
    keep_prior: bool = opt.KEEP_PRIOR,
    forget_prior: bool = opt.FORGET_PRIOR,
    prior_blur: float = opt.PRIOR_BLUR,
    blur_with: str | None = opt.BLUR_WITH,
    as_json: bool = opt.AS_JSON,
) -> None:
    """Build a certified mechanism for each of many people.

    A second run builds only what is missing or has changed, so a stopped run continues. With
    --json, standard output gets a line for each person, and one for the whole run.
    """
    from whereish.batch import Batch, Row, open_engine, open_output, run_batch
    from whereish.batch.run import places_id
    from whereish.profiles import People, read_profile

    asked = opt.read_options(opt.given_flags(context))
    if workers is not None:
        as_whole("workers", workers)
    along = None if metric is None else opt.read_metric(metric, within)
    people = People(profiles, normalise=normalise)
    level = asked.epsilon_per_km
    in_words = everywhere_in_words(level) if everywhere else level_in_words(level, along)
    say(f"{people.count:,} people. {in_words}")
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
            sys.stdout.write(json.dumps(as_plain(asdict(row)), allow_nan=False) + "\n")
        if row.problem:
            problems.append(row)
        fresh = now.built + now.failed
        if not begun and fresh:
            begun.extend((fresh, now.seconds))  # what starts the workers does not count
        spent = now.seconds - begun[1] if begun else 0.0
        rate = (fresh - begun[0]) / spent if spent > 0.5 else fresh / max(now.seconds, 1e-3)
        left = (now.people - now.ended) / rate if rate else 0.0
        words = f"{now.ended:,} of {now.people:,}, {rate:,.1f} a second, {left:,.0f} s left"
        bar(words, now.ended / now.people)

    try:
        where = open_output(output)
        many = "one worker" if engine.workers == 1 else f"{engine.workers} workers"
        with waiting(f"building on {many}") as bar:
            done = run_batch(
                people, asked, where, engine, tell, public_places=where_public, metric=along
            )
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
