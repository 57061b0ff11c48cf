"""What a batch has done: read when a run begins, added to as it goes, summed up at its end.

The file of each person has a line here, with the keyed digest of its input (`Salt`). A file is
written before its line. If the file of a person is built again, a line that withdraws the earlier
one is written first.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import asdict, dataclass, fields, replace
from typing import IO, Any

from whereish.batch.output import Folder, Output
from whereish.batch.salt import Salt, is_keyed
from whereish.errors import InputError
from whereish.files import open_new
from whereish.format import metric_bytes
from whereish.places import MapMetric
from whereish.spec import BuildOptions

_ALWAYS = ("dilation", "method", "tolerance", "keep_prior")
_LATER = ("solver", "form", "time_limit_s", "guarantee", "vertices", "lattice_only")
DONE, FAILED, _BEGUN = "done", "failed", "begun"
_JOURNAL, _PARAMETERS, _SUMMARY = ".batch/journal", ".batch/parameters.json", "summary.csv"


@dataclass(frozen=True, eq=False)
class Shared:
    """What all mechanisms of a run have in common."""

    options: BuildOptions
    public_places: str | None = None  # the id of the places of the public prior of a blur
    metric: MapMetric | None = None  # what privacy is measured by, if not by Euclidean distance

    @property
    def told(self) -> dict[str, Any]:
        """What a run is known by, in its folder and in every digest.

        Runs of earlier versions have to go on, so that the names are theirs: options that came
        later are told where they are not the default.
        """
        options = self.options
        told: dict[str, Any] = {"epsilon": options.epsilon_per_km}
        told |= {name: getattr(options, name) for name in _ALWAYS}
        if options.prior_blur:
            public = None if options.blur_with is None else options.blur_with.tolist()
            told |= {"prior_blur": options.prior_blur, "public": public}
            told["public_places"] = self.public_places
        for name in _LATER:
            if getattr(options, name) != BuildOptions.model_fields[name].default:
                told[name] = getattr(options, name)
        if self.metric is not None:
            told["metric"] = hashlib.sha256(metric_bytes(self.metric)).hexdigest()
        return told


@dataclass(frozen=True)
class Row:
    """What came of somebody's profile: a line of the summary."""

    user: str
    file: str
    state: str
    places: int | None = None
    loss_km: float | None = None
    bound_km: float | None = None
    gap: float | None = None
    seconds: float | None = None
    bytes: int | None = None
    digest: str | None = None
    problem: str | None = None
    places_id: str | None = None  # the same for people on the same places


class Journal:
    """What is done: read when a run begins, added to as it goes."""

    def __init__(self, output: Output, shared: Shared) -> None:
        self._output, self._shared = output, shared
        self._rows: dict[str, Row] = {}
        self._stream: IO[bytes] | None = None
        self._held: list[bytes] = []
        self._parts = 0
        self.salt = Salt(b"")  # of the output, once the journal is open

    def __enter__(self) -> Journal:
        self._check_parameters()
        self.salt = Salt.of(self._output)
        names = [name for name in self._output.names(".batch") if name.startswith("journal")]
        bare = False
        for name in sorted(names):
            for line in (self._output.read(f".batch/{name}") or b"").splitlines():
                row = _row(line)
                if row is not None:
                    self._rows[row.user] = row
                    bare = bare or not is_keyed(row.digest)
        self._parts = 1 + max((int(re.sub(r"\D", "", name) or 0) for name in names), default=0)
        if bare:
            self._key_digests(names)
        return self

    def _key_digests(self, names: list[str]) -> None:
        """Replace a journal of an earlier version, whose digests have no salt."""
        for user, row in self._rows.items():
            if row.digest is not None and not is_keyed(row.digest):
                where = None if row.places_id is None else self.salt.places_id(row.places_id)
                digest = self.salt.digest(user, row.digest)
                self._rows[user] = replace(row, digest=digest, places_id=where)
        lines = [json.dumps(asdict(row)).encode() + b"\n" for row in self._rows.values()]
        self._output.write(f"{_JOURNAL}-{self._parts:06}.jsonl", b"".join(lines))
        self._parts += 1
        for name in names:
            self._output.remove(f".batch/{name}")

    def __exit__(self, *wrong: object) -> None:
        self._flush()
        if self._stream is not None:
            self._stream.close()

    def _check_parameters(self) -> None:
        told = json.dumps(self._shared.told, indent=1).encode()
        before = self._output.read(_PARAMETERS)
        if before is None:
            self._output.write(_PARAMETERS, told)
            return
        was, now = json.loads(before), json.loads(told)
        differ = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        other = [
            "no --keep-prior" if name == "keep_prior" and now[name]
            else "--keep-prior" if name == "keep_prior"
            else "another --blur-with" if name.startswith("public")
            else f"{name} {was.get(name)!r}, not {now.get(name)!r}"
            for name in differ
        ]  # fmt: skip
        if other:
            raise InputError(
                f"output must be new, or of a run like this one, and it was made with "
                f"{'; '.join(other)}: give another output"
            )

    def done(self, user: str, digest: str) -> Row | None:
        """Return somebody's row, if their file is there and made from the same."""
        row = self._rows.get(user)
        if row is None or row.state != DONE or row.digest != digest:
            return None
        return row if self._output.size(row.file) == row.bytes else None

    def begin(self, user: str) -> None:
        """Note that somebody's file is about to be another one, if they had one."""
        if user in self._rows:
            self.add(Row(user, "", _BEGUN))

    def add(self, row: Row) -> None:
        self._rows[row.user] = row
        self._held.append(json.dumps(asdict(row)).encode() + b"\n")
        if isinstance(self._output, Folder) or len(self._held) >= 64:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        content = b"".join(self._held)
        self._held = []
        if self._stream is None and isinstance(self._output, Folder):
            path = self._output.path / f"{_JOURNAL}-{self._parts:06}.jsonl"
            self._stream = open_new(path)
        if self._stream is not None:
            self._stream.write(content)
            self._stream.flush()
        else:
            self._output.write(f"{_JOURNAL}-{self._parts:06}.jsonl", content)
            self._parts += 1

    def summarise(self, users: set[str]) -> None:
        """Write the summary of these people, in the order of their names."""
        self._flush()
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        names = [each.name for each in fields(Row)]
        table.writerow(names)
        for user in sorted(users):
            row = self._rows[user]
            table.writerow(["" if v is None else v for v in (getattr(row, n) for n in names)])
        self._output.write(_SUMMARY, text.getvalue().encode())


def _row(line: bytes) -> Row | None:
    """Read a line of the journal; one that was cut off in the middle says nothing."""
    try:
        told: dict[str, Any] = json.loads(line)
        return Row(**told)
    except (ValueError, TypeError):
        return None
