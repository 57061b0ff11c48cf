"""A mechanism for everybody: what is there already stays, what is missing or has changed is built.

Everybody's file has a line in a journal, with the digest of what it was made from. Who is in it
with the same digest, and whose file is there, is done. A file is written before its line is, and
whole: a run that is killed leaves nothing that the next one does not find out about.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from whereish.batch.journal import DONE, FAILED, Journal, Row, Shared
from whereish.batch.output import Output, alone
from whereish.batch.salt import Salt
from whereish.errors import WhereishError
from whereish.format import SUFFIX, mechanism_bytes
from whereish.mechanisms import Mechanism, how_far, optimal_each
from whereish.parallel import Engine, Lost
from whereish.places import Array, MapMetric, Places
from whereish.profiles import People, Profile
from whereish.spec import EVERYWHERE, PLACES, BuildOptions

# People on the same places whose mechanisms are built together; people who wait for company.
_TOGETHER, _WAITING = 8, 4096
_LOST = "its worker died three times: it may need more memory than there is"
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_-]{0,79}")


@dataclass(frozen=True)
class Piece:
    """People on the same places: what one worker is handed."""

    shared: Shared
    output: Output
    places: Places
    users: tuple[str, ...]
    digests: tuple[str, ...]
    priors: Array
    where: str | None = None  # the keyed id of the places; None for visited points


@dataclass
class Batch:
    """How far a run has come."""

    people: int
    built: int = 0
    kept: int = 0
    failed: int = 0
    seconds: float = 0.0
    by_places: Counter[str] = field(default_factory=Counter)

    @property
    def ended(self) -> int:
        """Of how many people something came."""
        return self.built + self.kept + self.failed

    @property
    def settings(self) -> int:
        """How many sets of places there are."""
        return len(self.by_places)

    @property
    def elsewhere(self) -> int:
        """How many people have other places than most, if most have the same."""
        ((_, most),) = self.by_places.most_common(1) or [("", 0)]
        everybody = self.by_places.total()
        return everybody - most if 2 * most > everybody else 0


def run_batch(
    people: People,
    options: BuildOptions,
    output: Output,
    engine: Engine,
    tell: Callable[[Row, Batch], object] = lambda row, batch: None,
    *,
    public_places: str | None = None,
    metric: MapMetric | None = None,
) -> Batch:
    """Build what is missing, and write a summary of everybody.

    Parameters
    ----------
    options
        How every mechanism is built.
    tell
        Called with everybody's row, as it comes, and how far the run is.
    public_places
        The `places_id` of the public prior, if ``options.blur_with`` is one.
    metric
        What privacy is measured by. Everybody's places must be among its places.

    Raises
    ------
    InputError
        If the output is of a run with other options, or in use.
    """
    start = time.perf_counter()
    batch, shared = Batch(people.count), Shared(options, public_places, metric)
    everywhere = options.guarantee == EVERYWHERE
    with alone(output), Journal(output, shared) as journal:
        seen: set[str] = set()

        def count(row: Row, *, kept: bool = False) -> None:
            if row.state == DONE and row.places_id is not None:
                batch.by_places[row.places_id] += 1
            batch.kept += kept
            batch.built += row.state == DONE and not kept
            batch.failed += row.state == FAILED
            batch.seconds = time.perf_counter() - start
            tell(row, batch)

        def note(row: Row) -> None:
            journal.add(row)
            count(row)

        def wanted() -> Iterator[tuple[str, str, Profile]]:
            for person in people:
                twice = "there is a profile of this name" if person.user in seen else None
                seen.add(person.user)
                if twice or person.profile is None:
                    note(Row(person.user, "", FAILED, problem=twice or person.problem))
                    continue
                try:
                    who = person.profile.as_points if everywhere else person.profile
                except WhereishError as wrong:
                    note(Row(person.user, "", FAILED, problem=str(wrong)))
                    continue
                digest = journal.salt.digest(person.user, digest_of(who, shared))
                row = journal.done(person.user, digest)
                if row is not None:
                    count(row, kept=True)
                    continue
                journal.begin(person.user)
                yield person.user, digest, who

        pieces = _pieces(wanted(), shared, output, journal.salt)
        lost: list[Piece] = []
        for piece, rows in engine.run(build, pieces):
            if isinstance(rows, Lost):
                lost.append(piece)
                continue
            for row in rows:
                note(row)
        # One of them may have been too much for a worker; the others need not suffer.
        for piece, rows in engine.run(build, itertools.chain(*map(_one_by_one, lost))):
            for row in _failed(piece, _LOST) if isinstance(rows, Lost) else rows:
                note(row)
        journal.summarise(seen)
    batch.seconds = time.perf_counter() - start
    return batch


def build(piece: Piece) -> list[Row]:
    """Build, certify and write the mechanisms of a piece: what a worker does."""
    options, places = piece.shared.options, piece.places
    made: list[Mechanism | None] = [None] * len(piece.users)
    rows = []
    if piece.shared.public_places not in (None, places_id(places)):
        problem = "the places must be those of the public prior (--blur-with), and are others"
        return _failed(piece, problem)
    try:
        specs = [options.for_person(places, prior) for prior in piece.priors]
        if (metric := piece.shared.metric) is not None:
            metric = metric.restricted(places)
            specs = [spec.changed(privacy_metric=metric) for spec in specs]
    except WhereishError as wrong:
        return _failed(piece, str(wrong))
    alike = (
        options.guarantee, options.method, options.solver, options.form, options.time_limit_s
    )  # fmt: skip
    if alike == (PLACES, "exact", "auto", None, None):
        try:
            made = list(
                optimal_each(
                    places, [spec.built_for for spec in specs], options.epsilon_per_km,
                    options.dilation, metric, tolerance=options.tolerance, threads=1,
                )
            )  # fmt: skip
        except WhereishError:
            made = [None] * len(piece.users)  # one of them: each alone tells which
    for user, digest, spec, mechanism in zip(piece.users, piece.digests, specs, made, strict=True):
        prior = spec.prior
        try:
            found = spec.build() if mechanism is None else mechanism
            if alike[:2] == (PLACES, "exact") and (found.proof is None or options.prior_blur):
                found = how_far(found, prior, tolerance=options.tolerance)
            content = mechanism_bytes(found, spec.kept_prior)
        except WhereishError as wrong:
            rows += _failed(replace(piece, users=(user,), digests=(digest,)), str(wrong))
            continue
        piece.output.write(file_name(user), content)
        told = found.build
        rows.append(
            Row(
                user, file_name(user), DONE, len(places), spec.loss_of(found),
                told.lower_bound_km, told.gap, told.seconds, len(content), digest,
                places_id=piece.where,
            )
        )  # fmt: skip
    return rows


def file_name(user: str) -> str:
    """Return a name that any disk takes, and that nobody else's becomes: capitals count for some.

    >>> file_name("ann"), file_name("../x")
    ('ann.whereish', 'x.d6b96a97d147daaae49eb87a5ca7bfbc.whereish')
    """
    if _PLAIN.fullmatch(user):
        return user + SUFFIX
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", user).strip("_-")[:60]
    return f"{plain or 'user'}.{hashlib.sha256(user.encode()).hexdigest()[:32]}{SUFFIX}"


def digest_of(profile: Profile, shared: Shared) -> str:
    """Return the digest of what a mechanism is made from; it is written in its keyed form only."""
    digest = hashlib.sha256(json.dumps(shared.told, sort_keys=True).encode())
    digest.update(places_digest(profile.places))
    digest.update(np.ascontiguousarray(profile.prior, "<f8").tobytes())
    return digest.hexdigest()


def places_digest(places: Places) -> bytes:
    """Return the digest of a set of places in its order."""
    digest = hashlib.sha256(np.ascontiguousarray(places.xy, "<f8").tobytes())
    if places.latlon is not None:
        digest.update(np.ascontiguousarray(places.latlon, "<f8").tobytes())
    digest.update(repr(places.cell_km).encode())
    return digest.digest()


def places_id(places: Places) -> str:
    """Return a short name of a set of places in its order."""
    return places_digest(places).hex()[:12]


def _pieces(
    people: Iterable[tuple[str, str, Profile]], shared: Shared, output: Output, salt: Salt
) -> Iterator[Piece]:
    """Put people on the same places together, as they come."""
    waiting: OrderedDict[bytes, list[tuple[str, str, Profile]]] = OrderedDict()
    count = 0

    def piece(group: list[tuple[str, str, Profile]]) -> Piece:
        users, digests, profiles = zip(*group, strict=True)
        priors = np.array([who.prior for who in profiles])
        places = profiles[0].places
        # Visited points are a person's own: an id of them would be nobody else's.
        common = shared.options.guarantee == PLACES
        where = salt.places_id(places_id(places)) if common else None
        return Piece(shared, output, places, users, digests, priors, where)

    for one in people:
        key = places_digest(one[2].places)
        waiting.setdefault(key, []).append(one)
        count += 1
        if len(waiting[key]) >= _TOGETHER or count > _WAITING:
            full = len(waiting[key]) >= _TOGETHER
            group = waiting.pop(key) if full else waiting.popitem(last=False)[1]
            count -= len(group)
            yield piece(group)
    for group in waiting.values():
        yield piece(group)


def _one_by_one(piece: Piece) -> Iterator[Piece]:
    for user, digest, prior in zip(piece.users, piece.digests, piece.priors, strict=True):
        yield replace(piece, users=(user,), digests=(digest,), priors=prior[None])


def _failed(piece: Piece, problem: str) -> list[Row]:
    n = len(piece.places)
    return [
        Row(user, "", FAILED, n, digest=digest, problem=problem, places_id=piece.where)
        for user, digest in zip(piece.users, piece.digests, strict=True)
    ]
