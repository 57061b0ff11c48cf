"""Version 3 of the file: mechanisms by time in one file, forged and damaged ones."""

from __future__ import annotations

import copy
import json
import stat
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from checks import broken_counts, counted_loss
from forgeries import file_of, near_identity, taken_apart
from test_by_time import PERIODS, by_time, person
from test_client_arrays import NODE, client_says
from whereish.format import (
    TELLS_PRIOR,
    audit_bytes,
    mechanism_bytes,
    new_private_key,
    public_key_of,
    signed,
    without_prior,
)


@pytest.mark.parametrize("kept", [False, True])
def test_one_file_holds_them_all(tmp_path: Path, kept: bool) -> None:
    made, (_, prior), file = by_time(), person(), tmp_path / "k.whereish"
    wh.save_mechanism(file, made, prior if kept else None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read, known = wh.load_mechanism(file)
    assert read.periods == PERIODS
    assert read.identity() == made.identity()
    for one, other in zip(read.mechanisms, made.mechanisms, strict=True):
        assert (one.counts == other.counts).all()
        assert one.epsilon == other.epsilon
    found = wh.audit_file(file)
    n = len(made.inputs)
    assert found["ratios_checked"] == 3 * n * (n - 1) * n
    assert found["hours"] == [0, 7, 18]
    assert TELLS_PRIOR in found["guarantee"]
    assert any("clock" in words for words in found["guarantee"])
    if kept:
        assert known.joint == pytest.approx(prior.joint)
        assert found["needs_prior"] == []
        assert all("lower_bound_km" in one["recomputed"] for one in found["periods"])
    else:
        assert known is None
        assert found["needs_prior"] == ["quality_loss_km"]
    loss = wh.audit_file(file, prior)["quality_loss_km"]
    assert loss == pytest.approx(wh.quality_loss_by_time(made, prior), rel=1e-6)


def test_the_bytes_are_those_of_the_description() -> None:
    """Read as docs/format.md has it, without the library."""
    made, (places, prior) = by_time(), person()
    arrays, told, claimed = taken_apart(mechanism_bytes(made, prior))
    assert set(told) == {"hours", "zone", "epsilon", "epsilon_unit", "outputs_are_inputs", "inputs",
                         "outputs", "builds"}  # fmt: skip
    assert told["hours"] == [0, 7, 18]
    for k in range(3):
        counts = arrays[f"counts_{k}"].tolist()
        assert broken_counts(counts, told["epsilon"], arrays["inputs"].tolist()) == []
        loss = counted_loss(counts, arrays[f"prior_{k}"].tolist(), wh.euclidean(places).tolist())
        assert claimed["periods"][k]["quality_loss_km"] == pytest.approx(loss)
    assert arrays["period_weights"] == pytest.approx([0.2, 0.5, 0.3])
    stripped = taken_apart(without_prior(mechanism_bytes(made, prior)))
    direct = taken_apart(mechanism_bytes(made))
    assert set(stripped[0]) == set(direct[0])
    assert not any(name.startswith(("prior", "proof", "period")) for name in direct[0])
    assert stripped[1] == direct[1]
    assert _undated(stripped[2]) == _undated(direct[2])
    assert direct[2]["quality_loss_km"] is None


def _undated(value: Any) -> Any:
    text = json.loads(json.dumps(value))
    for part in (text, *text["periods"]):
        del part["created"]
    return text


Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def _of(which: int, name: str, value: Any) -> Any:
    def change(parts: Parts) -> None:
        parts[which][name] = value

    return change


def _larger_epsilon(parts: Parts) -> None:
    """One member that holds twice the epsilon that the file says."""
    places, prior = person()
    parts[0]["counts_1"] = wh.optimal(places, prior.priors[1], 2.14).counts


def _other_places(parts: Parts) -> None:
    """One member of other places: theirs are in no file, so its ratios do not hold here."""
    places, prior = person()
    wide = wh.Places.from_xy(places.xy * 3)
    parts[0]["counts_2"] = wh.optimal(wide, prior.priors[2], 1.07).counts


FORGED: dict[str, Any] = {
    "a member with a larger epsilon": _larger_epsilon,
    "a member of other places": _other_places,
    "a member that tells the place": lambda parts: _of(0, "counts_0", near_identity(
        *parts[0]["counts_0"].shape))(parts),
    "inputs of a member": lambda parts: _of(0, "inputs_1", parts[0]["inputs"])(parts),
    "a metric of a member": lambda parts: _of(0, "metric_1", np.ones((9, 9)))(parts),
    "another epsilon of all": _of(1, "epsilon", 1.0),
    "another epsilon in words": _of(2, "epsilon", 1.0),
    "an epsilon of a period": lambda parts: _of(1, "epsilon_1", 2.0)(parts),
    "no epsilon": _of(1, "epsilon", None),
    "too few counts": lambda parts: parts[0].pop("counts_2"),
    "too many counts": lambda parts: _of(0, "counts_3", parts[0]["counts_2"])(parts),
    "an array of version 1": lambda parts: _of(0, "counts", parts[0]["counts_2"])(parts),
    "a prior that is missing": lambda parts: parts[0].pop("prior_1"),
    "weights that are missing": lambda parts: parts[0].pop("period_weights"),
    "weights beyond 1": _of(0, "period_weights", np.array([0.5, 0.5, 0.5])),
    "another prior": lambda parts: _of(0, "prior_1", parts[0]["prior_0"])(parts),
    "other weights": _of(0, "period_weights", np.array([0.1, 0.1, 0.8])),
    "hours that decrease": _of(1, "hours", [7, 0, 18]),
    "hours as text": _of(1, "hours", "0,7,18"),
    "two hours": _of(1, "hours", [0, 7]),
    "other hours": _of(1, "hours", [0, 8, 18]),
    "another zone": _of(1, "zone", "Asia/Tokyo"),
    "no zone": _of(1, "zone", None),
    "a zone that is none": _of(1, "zone", "Mars/Base"),
    "builds that are missing": _of(1, "builds", []),
    "a better loss": _of(2, "quality_loss_km", 0.001),
    "fewer ratios": _of(2, "ratios_checked", 1),
    "periods that are missing": _of(2, "periods", []),
    "a bound of a period": lambda parts: parts[2]["periods"][1].update(lower_bound_km=0.2),
    "a slack of a period": lambda parts: parts[2]["periods"][1].update(worst_slack=1.0),
    "something more": _of(2, "more", 1),
}  # fmt: skip


@cache
def honest_parts() -> Parts:
    return taken_apart(mechanism_bytes(by_time(), person()[1]))


@pytest.mark.parametrize("forgery", [None, *FORGED])
def test_forged_files_are_refused(tmp_path: Path, forgery: str | None) -> None:
    arrays, told, claimed = honest_parts()
    parts = dict(arrays), copy.deepcopy(told), copy.deepcopy(claimed)
    if forgery is None:
        audit_bytes(file_of(*parts, version="3"))
        return
    FORGED[forgery](parts)
    file = tmp_path / "k.whereish"
    file.write_bytes(file_of(*parts, version="3"))
    with pytest.raises((wh.FormatError, wh.GuaranteeError)):
        wh.audit_file(file)


@pytest.mark.parametrize("version", ["1", "2", "4", ""])
def test_other_versions_do_not_read_it(tmp_path: Path, version: str) -> None:
    file = tmp_path / "k.whereish"
    file.write_bytes(file_of(*honest_parts(), version=version))
    with pytest.raises(wh.FormatError):
        wh.load_mechanism(file)


@pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
def test_the_javascript_client_refuses_the_same_files(tmp_path: Path) -> None:
    """Except claims that it neither checks nor shows, as for a file of version 1."""
    unchecked = {"a bound of a period", "a slack of a period"}
    for forgery, change in FORGED.items():
        arrays, told, claimed = honest_parts()
        parts = dict(arrays), copy.deepcopy(told), copy.deepcopy(claimed)
        change(parts)
        (tmp_path / forgery).write_bytes(file_of(*parts, version="3"))
    honest = mechanism_bytes(by_time()), mechanism_bytes(by_time(), person()[1])
    for number, content in enumerate(honest):
        (tmp_path / f"honest {number}").write_bytes(content)
    said = client_says(tmp_path)
    for name, (kind, words) in said.items():
        fine = name.startswith("honest") or name in unchecked
        assert (kind == "taken") == fine, (name, kind, words)
    assert {kind for kind, _ in said.values()} == {"taken", "FormatError", "GuaranteeError"}


def test_a_broken_member_is_named_by_its_hours(tmp_path: Path) -> None:
    arrays, told, claimed = honest_parts()
    parts = dict(arrays), told, claimed
    _larger_epsilon(parts)
    (tmp_path / "k.whereish").write_bytes(file_of(*parts, version="3"))
    for read in (wh.load_mechanism, wh.audit_file):
        with pytest.raises(wh.GuaranteeError, match="period 7-18"):
            read(tmp_path / "k.whereish")


def test_it_can_be_signed(tmp_path: Path) -> None:
    private = new_private_key()
    (tmp_path / "k.whereish").write_bytes(signed(mechanism_bytes(by_time()), private))
    assert wh.load_mechanism(tmp_path / "k.whereish", key=public_key_of(private))[0].epsilon == 1.07
    with pytest.raises(wh.GuaranteeError):
        wh.load_mechanism(tmp_path / "k.whereish", key=public_key_of(new_private_key()))


def test_random_damage_is_refused() -> None:
    content = bytearray(mechanism_bytes(by_time()))
    rng = np.random.default_rng(5)
    for at in rng.integers(0, len(content), 60).tolist():
        broken = bytearray(content)
        broken[at] ^= 1 << int(rng.integers(8))
        with pytest.raises((wh.FormatError, wh.GuaranteeError)):
            audit_bytes(bytes(broken))
