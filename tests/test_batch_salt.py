"""The digests that a batch writes: nobody can confirm a guess by them, and a run still resumes."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from whereish.batch import Batch, Row, open_output, run_batch
from whereish.batch.journal import Shared
from whereish.batch.run import digest_of, places_id
from whereish.batch.salt import Salt
from whereish.profiles import People, VisitedPoints, write_profiles
from whereish.spec import BuildOptions

PLACES = BuildOptions(epsilon_per_km=1.07)
EVERYWHERE = BuildOptions(epsilon_per_km=1.07, guarantee="everywhere", vertices=16)


class Here:
    """An engine in this process."""

    workers = 1

    def run(self, work: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for piece in pieces:
            yield piece, work(piece)

    def close(self) -> None:
        pass


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Ann and Eve are the same but for their names; Bob has other places."""
    chance = np.random.default_rng(8)

    def somebody() -> wh.Profile:
        prior, weights = (chance.gamma(0.4, size=n) + 1e-3 for n in (6, 5))
        points = wh.Places.from_xy(chance.uniform(0, 3, (5, 2)).round(3))
        places = wh.Places.from_xy(chance.uniform(0, 3, (6, 2)).round(3))
        visited = VisitedPoints(points, weights / weights.sum())
        return wh.Profile(places, prior / prior.sum(), visited=visited)

    ann = somebody()
    write_profiles(tmp_path / "people.parquet", {"ann": ann, "bob": somebody(), "eve": ann})
    return tmp_path / "people.parquet"


def run(source: Path, out: Path, options: BuildOptions = PLACES) -> tuple[Batch, list[Row]]:
    rows: list[Row] = []
    done = run_batch(
        People(source), options, open_output(str(out)), Here(), lambda row, _: rows.append(row)
    )
    return done, rows


def summary(out: Path) -> dict[str, dict[str, str]]:
    with (out / "summary.csv").open() as stream:
        return {row["user"]: row for row in csv.DictReader(stream)}


def bare(source: Path, options: BuildOptions) -> dict[str, tuple[str, str]]:
    """What somebody can compute who knows a person's profile and the options."""
    found = {}
    for user in ("ann", "bob", "eve"):
        who = wh.read_profile(source, user=user)
        own = who.as_points if options is EVERYWHERE else who
        found[user] = (digest_of(own, Shared(options)), places_id(own.places))
    return found


def written(out: Path) -> str:
    texts = [*out.glob(".batch/*"), out / "summary.csv"]
    return "".join(file.read_bytes().decode(errors="replace") for file in texts)


@pytest.mark.parametrize("options", [PLACES, EVERYWHERE], ids=["places", "everywhere"])
def test_a_guess_is_not_confirmed_and_two_folders_have_nothing_in_common(
    tmp_path: Path, source: Path, options: BuildOptions
) -> None:
    _, told = run(source, tmp_path / "a", options)
    run(source, tmp_path / "b", options)
    one, other = summary(tmp_path / "a"), summary(tmp_path / "b")
    for user, (digest, where) in bare(source, options).items():
        for text in (written(tmp_path / "a"), json.dumps([asdict(row) for row in told])):
            assert digest not in text
            assert where not in text
        assert one[user]["digest"] != other[user]["digest"]
        if options is PLACES:
            assert one[user]["places_id"] != other[user]["places_id"]
    # Within a folder, equal places can be told; equal people cannot.
    assert one["ann"]["digest"] != one["eve"]["digest"]
    same = [one[user]["places_id"] for user in ("ann", "bob", "eve")]
    assert (same[0] == same[2] != same[1]) == (options is PLACES)
    salt = tmp_path / "a" / ".batch" / "salt"
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600
    assert len(salt.read_bytes()) == 32
    assert salt.read_bytes().hex() not in repr(Salt(salt.read_bytes()))


@pytest.mark.parametrize("options", [PLACES, EVERYWHERE], ids=["places", "everywhere"])
def test_a_second_run_redoes_nothing_and_a_lost_salt_everything(
    tmp_path: Path, source: Path, options: BuildOptions
) -> None:
    out = tmp_path / "out"
    run(source, out, options)
    before = {file.name: file.stat().st_mtime_ns for file in out.glob("*.whereish")}
    rows = summary(out)
    done, _ = run(source, out, options)
    assert (done.built, done.kept, done.failed) == (0, 3, 0)
    assert {file.name: file.stat().st_mtime_ns for file in out.glob("*.whereish")} == before
    assert summary(out) == rows
    (out / ".batch" / "salt").write_bytes(b"short")
    done, _ = run(source, out, options)
    assert (done.built, done.kept) == (3, 0)
    assert summary(out)["ann"]["digest"] != rows["ann"]["digest"]


def as_before(source: Path, out: Path, options: BuildOptions) -> bytes:
    """Make the journal what a version without salts would have written."""
    old = bare(source, options)
    (journal,) = (out / ".batch").glob("journal*")
    lines = []
    for line in journal.read_bytes().splitlines():
        row = json.loads(line)
        row["digest"], where = old[row["user"]]
        row["places_id"] = where if options is PLACES else None
        lines.append(json.dumps(row).encode() + b"\n")
    journal.write_bytes(b"".join(lines))
    (out / ".batch" / "salt").unlink()
    return b"".join(lines)


@pytest.mark.parametrize("options", [PLACES, EVERYWHERE], ids=["places", "everywhere"])
def test_a_journal_of_an_earlier_version_goes_on_and_its_digests_are_replaced(
    tmp_path: Path, source: Path, options: BuildOptions
) -> None:
    out = tmp_path / "out"
    run(source, out, options)
    old = as_before(source, out, options)
    everybody = {user: wh.read_profile(source, user=user) for user in ("ann", "bob", "eve")}
    write_profiles(tmp_path / "two.parquet", {u: everybody[u] for u in ("ann", "bob")})
    done, _ = run(tmp_path / "two.parquet", out, options)
    assert (done.built, done.kept) == (0, 2)
    for digest, where in bare(source, options).values():
        assert digest not in written(out)
        assert where not in written(out)
    done, _ = run(source, out, options)  # Eve's row was replaced without her profile
    assert (done.built, done.kept) == (0, 3)
    if options is PLACES:
        rows = summary(out)
        assert rows["ann"]["places_id"] == rows["eve"]["places_id"] != rows["bob"]["places_id"]
    # A run that was killed after it had written the new journal, and before it removed the old one.
    (out / ".batch" / "journal-000001.jsonl").write_bytes(old)
    done, _ = run(source, out, options)
    assert (done.built, done.kept) == (0, 3)
    assert not any(digest in written(out) for digest, _ in bare(source, options).values())


def test_a_journal_with_nonsense_is_built_again(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    run(source, out)
    (journal,) = (out / ".batch").glob("journal*")
    rows = [json.loads(line) for line in journal.read_bytes().splitlines()]
    lines = [json.dumps({**row, "digest": 7}) for row in rows]
    journal.write_text("\n".join([*lines, "{", ""]))
    assert run(source, out)[0].built == 3
