"""The file of a mechanism: what is written is read, and nothing else is believed."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strategies as some
import whereish as wh
from whereish.format import is_mechanism_file, pack, unpack
from whereish.measures import Limits

PLACES, PRIOR = some.grid(3, 2), some.skewed(6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, wh.optimal(PLACES, PRIOR, 1.07, solver="structured"), PRIOR)
    return path


def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.whereish"
    wh.save_mechanism(path, wh.exponential(wh.Places.from_xy([[0, 0], [1, 0]]), 1.0))
    return path


def test_any_safetensors_library_reads_it(file: Path) -> None:
    from safetensors import safe_open

    with safe_open(file, "np") as opened:
        about = opened.metadata()
        counts = opened.get_tensor("counts")
        inputs = opened.get_tensor("inputs")
    assert about["format"] == "whereish mechanism"
    assert json.loads(about["certificate"])["epsilon"] == 1.07
    assert counts.dtype == np.uint64
    assert [sum(row) for row in counts.tolist()] == [2**63] * 6
    assert inputs.tolist() == PLACES.xy.tolist()


def test_a_few_lines_of_any_language_read_it(file: Path) -> None:
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    start, end = header["counts"]["data_offsets"]
    counts = np.frombuffer(content[8 + length :][start:end], "<u8").reshape(
        header["counts"]["shape"]
    )
    assert (counts == wh.load_mechanism(file)[0].counts).all()


def test_the_audit_works_everything_out_again(file: Path) -> None:
    found = wh.audit_file(file)
    mechanism, prior = wh.load_mechanism(file)
    assert prior is not None
    assert found["quality_loss_km"] == pytest.approx(wh.quality_loss(mechanism, prior))
    assert found["lower_bound_km"] <= found["quality_loss_km"]
    assert found["gap"] < 1e-5
    assert found["ratios_checked"] == 6 * 5 * 6
    assert {"quality_loss_km", "lower_bound_km", "worst_slack"} <= set(found["recomputed"])
    assert found["prior_sha256"] is not None
    assert found["versions"]["whereish"] == wh.__version__


def test_without_a_prior_what_cannot_be_recomputed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "k.whereish"
    mechanism = wh.optimal(PLACES, PRIOR, 1.07)
    wh.save_mechanism(path, mechanism)
    assert b'prior"' not in path.read_bytes()
    found = wh.audit_file(path)
    assert "quality_loss_km" not in found["recomputed"]
    assert found["quality_loss_km"] is None
    assert wh.load_mechanism(path)[1] is None


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("quality_loss_km", 0.1),
        ("lower_bound_km", 9.0),
        ("gap", 0.0),
        ("ratios_checked", 10**9),
        ("worst_slack", 0.3),
        ("epsilon", 0.5),
        ("certified", False),
        ("prior_sha256", "0" * 64),
        ("largest_snap_km", 0.0),
        ("places", 7),
    ],
)
def test_a_certificate_that_claims_too_much_does_not_hold(
    file: Path, claim: str, value: Any
) -> None:
    if claim == "gap":
        value = wh.audit_file(file)["gap"] - 1e-3
    some.forge(file, claimed={claim: value})
    wh.load_mechanism(file)  # its integers are as private as they were
    with pytest.raises(wh.GuaranteeError, match=f"says {claim} is"):
        wh.audit_file(file)


def test_a_proof_of_something_else_does_not_pass(file: Path) -> None:
    arrays, _ = unpack(file.read_bytes())
    some.forge(file, arrays={"proof_value": arrays["proof_value"] * 0.5})
    with pytest.raises(wh.GuaranteeError, match="lower_bound_km"):
        wh.audit_file(file)


def test_words_and_places_of_the_certificate_are_ours(file: Path) -> None:
    false = {"guarantee": ["Nothing can ever be found out."], "worst_slack_at": {"output": 77}}
    some.forge(file, claimed=false)
    found = wh.audit_file(file)
    assert "Between the 6 places" in found["guarantee"][0]
    assert found["worst_slack_at"]["output"] < 6


@pytest.mark.parametrize("seed", range(40))
def test_what_was_just_written_passes_its_own_audit(tmp_path: Path, seed: int) -> None:
    prior = np.random.default_rng(seed).gamma(0.3, size=6)
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, wh.exponential(PLACES, 1.0), prior / prior.sum())
    assert "prior_sha256" in wh.audit_file(path)["recomputed"]


def test_one_place_passes_its_audit(tmp_path: Path) -> None:
    one = wh.Places.from_xy([[0, 0]])
    wh.save_mechanism(tmp_path / "k", wh.Mechanism(np.ones((1, 1)), one, one, 1.0))
    assert wh.audit_file(tmp_path / "k")["worst_slack"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"claimed": {"quality_loss_km": "far"}},
        {"claimed": {"repair_mix": [1]}},
        {"claimed": {"seconds": 10**400}},
        {"claimed": {"method": "x" * 500}},
        {"claimed": {"versions": {"whereish": 3}}},
        {"claimed": {"more": 1}},
        {"arrays": {"proof_left": np.zeros(3, np.int32)}},
        {"arrays": {"proof_value": np.zeros(0)}},
        {"arrays": {"proof_output": np.full(1, 99, np.int32), "proof_left": np.zeros(1, np.int32),
                    "proof_right": np.ones(1, np.int32), "proof_value": np.ones(1)}},
        {"told": {"inputs": {"plane": ["48.86", "2.34"], "cell_km": None}}},
        {"told": {"inputs": {"plane": [True, False], "cell_km": None}}},
        {"told": {"inputs": {"plane": [48.0, 2.0], "cell_km": None}}},
        {"arrays": {"inputs_latlon": np.zeros((6, 2))}},
        {"arrays": {"outputs": np.ones((6, 2)) * np.arange(6)[:, None]}},
        {"about": {"extra": "x"}},
        {"arrays": {"counts": np.full((20_000, 1), 2**63, np.uint64)}},
    ],
)  # fmt: skip
def test_forged_files_are_refused_kindly(file: Path, change: dict[str, dict[str, Any]]) -> None:
    some.forge(file, **change)
    with pytest.raises((wh.FormatError, wh.GuaranteeError)):
        wh.audit_file(file)


def test_integers_behind_a_mask_are_seen() -> None:
    two = wh.Places.from_xy([[0, 0], [1, 0]])
    counts = np.array([[2**63, 0], [2**62, 2**62]], np.uint64)
    hidden = np.ma.MaskedArray(counts, mask=[[False, True], [False, False]])
    with pytest.raises(wh.InputError):
        wh.Mechanism.of_counts(hidden, two, two, 1.0)
    with pytest.raises(wh.GuaranteeError):
        wh.Mechanism.of_counts(counts, two, two, 1.0)


def test_a_metric_a_hair_longer_than_kilometres_is_not_called_kilometres() -> None:
    two = wh.Places.from_xy([[0, 0], [1, 0]])
    longer = np.array([[0, 1 + 9e-13], [1 + 9e-13, 0]])
    assert wh.exponential(two, 1.0, privacy_metric=longer).epsilon_unit != "per km"
    assert wh.exponential(two, 1.0).epsilon_unit == "per km"


def test_limits_made_in_many_threads_are_the_same() -> None:
    points = np.random.default_rng(0).uniform(0, 3, (20, 2))
    alone = Limits(1.3, points)
    with ThreadPoolExecutor(8) as pool:
        for made in pool.map(lambda _: Limits(1.3, points), range(40)):
            assert (made.factor == alone.factor).all()


def test_what_was_mixed_in_is_remembered(file: Path, tmp_path: Path) -> None:
    mechanism, prior = wh.load_mechanism(file)
    assert mechanism.released.mix > 0
    wh.save_mechanism(tmp_path / "again", mechanism, prior)
    assert wh.audit_file(tmp_path / "again")["rounding_mix"] == mechanism.released.mix


# Damage -----------------------------------------------------------------------------------------


def refused(path: Path) -> bool:
    try:
        wh.load_mechanism(path)
    except wh.FormatError:
        return True
    return False


@pytest.mark.slow
def test_every_byte_that_changes_is_noticed(tmp_path: Path) -> None:
    path = small(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for flip in (0x01, 0x20, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            path.write_bytes(damaged)
            assert refused(path), (at, flip)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = small(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert refused(path), length
    path.write_bytes(whole + b"\0")
    assert refused(path)
    path.write_bytes(whole)
    assert not refused(path)


def head(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        (2**64 - 1).to_bytes(8, "little"),
        (2**40).to_bytes(8, "little") + b"{}",
        head(b""),
        head(b"{"),
        head(b"[]"),
        head(b"3"),
        head(b"\xff\xfe"),
        head(b"[" * 900_000),
        head(b'{"a":' * 100_000),
        head(b'{"__metadata__":{"format":NaN}}'),
        head(b'{"__metadata__":{"format":"x","format":"y"}}'),
        head(b'{"__metadata__":{"format":3}}'),
        head(b'{"__metadata__":{},"counts":{"dtype":"U64","shape":[4294967295,4294967295],'
             b'"data_offsets":[0,8]}}') + b"\0" * 8,
        head(b'{"__metadata__":{},"counts":{"dtype":"U64","shape":[-1,-1],"data_offsets":[0,8]}}')
        + b"\0" * 8,
        head(b'{"__metadata__":{},"counts":{"dtype":"U64","shape":[1e3],"data_offsets":[0,8]}}')
        + b"\0" * 8,
        head(b'{"__metadata__":{},"counts":{"dtype":"F99","shape":[1],"data_offsets":[0,8]}}')
        + b"\0" * 8,
        head(b'{"__metadata__":{},"counts":[]}'),
        head(b'{"__metadata__":{},"counts":{"dtype":"U64","shape":[1],"data_offsets":[8,0]}}'),
        b"%PDF-1.7 something else entirely, and long enough",
    ],
)  # fmt: skip
def test_hostile_headers_fail_and_take_no_memory(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "k.whereish"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(wh.FormatError):
            wh.load_mechanism(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_a_header_that_is_not_in_its_one_form_is_refused(file: Path) -> None:
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    spread = json.dumps(header, indent=1).encode()
    file.write_bytes(head(spread) + content[8 + length :])
    with pytest.raises(wh.FormatError, match="not in the form"):
        wh.load_mechanism(file)


def test_a_file_that_lies_about_its_digest_is_refused() -> None:
    content = pack({"a": np.arange(3, dtype=np.float64)}, {"format": "x"})
    assert unpack(content)[1] == {"format": "x"}
    with pytest.raises(wh.FormatError, match="was changed"):
        unpack(content[:-1] + b"\1")


def test_what_is_and_what_is_no_mechanism_file(file: Path, tmp_path: Path) -> None:
    assert is_mechanism_file(file)
    other = tmp_path / "a.csv"
    other.write_text("x_km,y_km,prior\n0,0,1\n")
    assert not is_mechanism_file(other)
    assert not is_mechanism_file(tmp_path / "missing")


def test_a_broken_mechanism_is_not_written(tmp_path: Path, monkeypatch: Any) -> None:
    from whereish.release import rounding

    mechanism = wh.exponential(PLACES, 1.0)
    monkeypatch.setattr(
        rounding, "to_counts", lambda matrix, mix: np.eye(6, dtype=np.uint64) * np.uint64(2**63)
    )
    path = tmp_path / "k.whereish"
    with pytest.raises(wh.GuaranteeError, match="place .* output"):
        wh.save_mechanism(path, mechanism)
    assert list(tmp_path.iterdir()) == []


def test_released_mechanisms_survive_pickling_and_other_metadata() -> None:
    mechanism = wh.exponential(PLACES, 1.0)
    again = pickle.loads(pickle.dumps(mechanism))
    assert (again.counts == mechanism.counts).all()
    once_more = pickle.loads(pickle.dumps(again))
    assert (once_more.counts == mechanism.counts).all()
    before = mechanism.build
    far = wh.how_far(mechanism, PRIOR)
    assert mechanism.build is before
    assert mechanism.proof is None
    assert far.build.lower_bound_km is not None


@pytest.mark.parametrize(
    "forged",
    [
        {"claimed": {"places": 7}},
        {"claimed": {"outputs": 5}},
        {"claimed": {"epsilon": 0.5}},
        {"claimed": {"certified": False}},
        {"claimed": {"ratios_checked": 1}},
        {"claimed": {"largest_snap_km": 0.0}},
        {"claimed": {"quality_loss_km": 0.1}},
        {"claimed": {"lower_bound_km": 0.9}},
        {"claimed": {"gap": 0.0}},
        {"claimed": {"prior_sha256": "0" * 64}},
        {"claimed": {"epsilon_unit": "per mile"}},
        {"claimed": {"epsilon_unit": None}},
        {"claimed": {"metric": "miles"}},
        {"claimed": {"metric": "given in the file, for every pair of places"}},
        {"claimed": {"seconds": 1e300}},
        {"claimed": {"method": 7}},
        {"claimed": {"created": "x" * 500}},
        {"claimed": {"more": 1}},
        {"told": {"build": {"method": 3}}},
        {"arrays": {"proof_value": np.full(3, -1.0)}},
        {"arrays": {"counts": np.full((6, 6), 2**60, np.uint64)}},
    ],
)
def test_false_claims_are_found_before_the_ratios_are_checked(
    file: Path, forged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cheap comes first: a hostile file must not cost minutes."""
    some.forge(file, **forged)
    for name in ("audit_counts", "Limits"):
        monkeypatch.setattr(
            f"whereish.mechanisms.mechanism.{name}", lambda *told: pytest.fail("it was audited")
        )
    with pytest.raises((wh.FormatError, wh.GuaranteeError)):
        wh.audit_file(file)


def test_the_names_of_claims_are_those_of_a_certificate(file: Path) -> None:
    from whereish.format.claims import CLAIMS

    mechanism, prior = wh.load_mechanism(file)
    assert set(wh.certify(mechanism, prior)) == set(wh.certify(mechanism)) == CLAIMS


# Planes -----------------------------------------------------------------------------------------


def around(centre: wh.LocalPlane, radius: float, seed: int) -> wh.Places:
    """Return places within a radius of a centre, some of them at its edge, two of them close."""
    rng = np.random.default_rng(seed)
    turn, away = rng.uniform(0, 2 * np.pi, 20), radius * np.sqrt(rng.uniform(0, 1, 20))
    away[:8] = radius
    turn[1] = turn[0] + 1e-3
    xy = np.column_stack([away * np.cos(turn), away * np.sin(turn)])
    return wh.Places(xy, centre.to_latlon(xy), centre)


@pytest.mark.parametrize("seed", range(24))
def test_no_distance_in_the_plane_is_longer_than_the_stretch_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres = [(90, 0), (-90, 10), (0, 180), (60, -179.9), (0, 0), tuple(rng.uniform(-90, 90, 2))]
    centre = wh.LocalPlane(*centres[seed % 6])
    where = around(centre, float(rng.uniform(1, 3400)), seed)
    pairs = np.triu_indices(len(where), 1)
    longer = wh.euclidean(where)[pairs] / wh.geodesic(where)[pairs]
    assert longer.min() > 1 - 1e-9
    assert 1 < longer.max() <= where.plane_stretch * (1 + 1e-9)
    assert where.plane_stretch < 1.0494
    mechanism = wh.exponential(where, 0.01)
    on_ground = wh.tightest_epsilon(mechanism, wh.geodesic(where))
    assert on_ground <= 0.01 * where.plane_stretch * (1 + 1e-9)


def test_a_plane_far_from_its_places_has_no_epsilon_per_km() -> None:
    """Near the antipode of its centre a km of the plane is metres on the ground."""
    city = wh.square_grid(48.85, 2.33, 48.87, 2.36, cell_km=(0.8, 0.8))
    assert city.latlon is not None
    far = wh.LocalPlane(-47.86, -176.655)
    places = wh.Places(far.to_xy(city.latlon), city.latlon, far)
    assert places.plane_stretch == np.inf
    prior = some.skewed(len(places))
    even = np.ones((len(places), 1))
    builds: list[Callable[[], wh.Mechanism]] = [
        lambda: wh.exponential(places, 1.07),
        lambda: wh.optimal(places, prior, 1.07),
        lambda: wh.Mechanism(even, places, places.subset([0]), 1.07),
        lambda: wh.exponential(places, 1.07, privacy_metric=wh.euclidean(places)),
    ]
    for build in builds:
        with pytest.raises(wh.InputError, match="within 3400 km of the centre"):
            build()
    ground = wh.geodesic(places)
    mechanism = wh.exponential(places, 1.07, privacy_metric=ground)
    assert wh.tightest_epsilon(mechanism, ground) <= 1.07
    assert mechanism.epsilon_unit != "per km"


def test_a_wide_plane_says_what_epsilon_is_on_the_ground() -> None:
    wide = around(wh.LocalPlane(40, -100), 2000.0, 1)
    words = " ".join(wh.certify(wh.exponential(wide, 1.0))["guarantee"])
    assert (
        "up to 1.0167 times the distances on the ground: epsilon is at most 1.0167 per km" in words
    )
    assert "ground" not in " ".join(wh.certify(wh.exponential(PLACES, 1.0))["guarantee"])
