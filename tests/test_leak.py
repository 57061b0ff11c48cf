"""What a file tells of the prior: nothing that was computed from it, unless it was asked for."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.format import audit_bytes, mechanism_bytes, unpack, without_prior
from whereish.measures import Proof
from whereish.spec import Recipe

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import prior_leak

PLACES, PRIOR = some.grid(4, 4), some.skewed(16)
ARRAYS = {"counts", "inputs", "outputs"}
# The whole of what a file says when it holds no prior: a new field has to be thought about.
BUILD = {
    "method", "solver", "form", "variables", "constraints", "edges", "dilation",
    "requested_dilation", "stopped",
}  # fmt: skip
CERTIFICATE = {
    "certified", "epsilon", "epsilon_unit", "metric", "places", "outputs", "ratios_checked",
    "worst_slack", "worst_slack_at", "largest_snap_km", "rounding_mix", "method", "solver",
    "requested_dilation", "dilation", "stopped", "created", "versions", "guarantee",
}  # fmt: skip
FROM_THE_PRIOR = {
    "quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "repair_mix", "repair_cost_km",
    "seconds", "prior_sha256",
}  # fmt: skip


def built() -> list[wh.Mechanism]:
    exact = wh.optimal(PLACES, PRIOR, 1.07, solver="structured")
    return [
        exact,
        wh.optimal(PLACES, PRIOR, 1.07, 1.2),
        wh.optimal(PLACES, PRIOR, 1.07, solver="highs-dual-simplex"),
        wh.how_far(wh.closed_form(PLACES, PRIOR, 1.07), PRIOR),
        wh.planar_laplace(PLACES, 1.07).remap(PRIOR),
        exact.remap(PRIOR),
        wh.optimal_privacy(PLACES, PRIOR, quality_loss=0.4),
    ]


def said(content: bytes) -> tuple[set[str], dict[str, Any], dict[str, Any]]:
    arrays, about = unpack(content)
    return set(arrays), json.loads(about["mechanism"]), json.loads(about["certificate"])


def told(values: dict[str, Any]) -> set[str]:
    return {name for name, value in values.items() if value not in (None, [], ())}


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


@pytest.mark.parametrize("mechanism", built(), ids=lambda m: f"{m.build.method} {m.build.solver}")
def test_a_file_without_the_prior_holds_nothing_computed_from_it(mechanism: wh.Mechanism) -> None:
    arrays, about, certificate = said(mechanism_bytes(mechanism))
    assert arrays == ARRAYS
    assert told(about["build"]) <= BUILD
    assert told(certificate) <= CERTIFICATE
    assert {name for name in certificate if name not in CERTIFICATE} == FROM_THE_PRIOR
    secret = [wh.quality_loss(mechanism, PRIOR), wh.adversary_error(mechanism, PRIOR)]
    secret += PRIOR[PRIOR > 0].tolist()
    build = mechanism.build
    secret += [
        value
        for value in (
            build.lower_bound_km, build.gap, build.program_gap, build.repair_cost_km, build.seconds,
        )
        if value
    ]  # fmt: skip
    for number in numbers([about, certificate]):
        assert [one for one in secret if math.isclose(number, one, rel_tol=1e-3)] == [], number


@given(st.data())
def test_files_with_equal_counts_are_equal_whatever_the_prior_was(data: st.DataObject) -> None:
    """Two who have the same counts have the same file, however they came by them."""
    plain = wh.exponential(PLACES, 1.07)
    number = st.floats(0, 10)

    def some_file() -> dict[str, Any]:
        asked = ("method", "solver", "form", "variables", "constraints", "edges", "dilation",
                 "requested_dilation", "stopped", "metric")  # fmt: skip
        found: dict[str, Any] = {
            field.name: data.draw(number)
            for field in fields(wh.Build)
            if field.name not in (*asked, "notes")
        }
        notes = tuple(data.draw(st.lists(st.text(st.characters(codec="ascii"), max_size=9))))
        y = np.array(data.draw(st.lists(number, min_size=1, max_size=5)))
        zero = np.zeros(len(y), np.int32)
        proof = Proof(1.07, zero, zero, zero + 1, y)
        mechanism = plain.with_metadata(replace(plain.build, **found, notes=notes), proof)
        arrays, text = unpack(mechanism_bytes(mechanism))
        certificate = json.loads(text["certificate"])
        del certificate["created"]
        told = {name: array.tolist() for name, array in arrays.items()}
        return {**told, "mechanism": text["mechanism"], "certificate": certificate}

    assert some_file() == some_file()


def test_a_file_with_the_prior_holds_what_proves_how_good_it_is(tmp_path: Path) -> None:
    mechanism = wh.optimal(PLACES, PRIOR, 1.07, solver="structured")
    content = mechanism_bytes(mechanism, PRIOR)
    found = audit_bytes(content)
    assert found["quality_loss_km"] == pytest.approx(wh.quality_loss(mechanism, PRIOR))
    assert found["gap"] < 1e-5
    assert found["needs_prior"] == []
    assert "prior" in said(content)[0]


@pytest.mark.parametrize("mechanism", built(), ids=lambda m: f"{m.build.method} {m.build.solver}")
def test_a_prior_is_taken_out_of_a_file(mechanism: wh.Mechanism) -> None:
    taken = without_prior(mechanism_bytes(mechanism, PRIOR))
    other = mechanism_bytes(mechanism)

    def without_time(content: bytes) -> Any:
        arrays, about = unpack(content)
        certificate = json.loads(about["certificate"])
        del certificate["created"]
        plain = {name: array.tolist() for name, array in arrays.items()}
        return list(plain.items()), about["mechanism"], certificate

    assert without_time(taken) == without_time(other)
    assert audit_bytes(taken)["certified"] == (mechanism.epsilon is not None)
    assert without_prior(taken) == taken


def test_an_audit_says_what_it_cannot_recompute_and_takes_a_prior(tmp_path: Path) -> None:
    mechanism = wh.optimal(PLACES, PRIOR, 1.07, solver="structured")
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, mechanism)
    found = wh.audit_file(path)
    assert found["quality_loss_km"] is None
    assert {"quality_loss_km", "lower_bound_km", "gap"} <= set(found["needs_prior"])
    assert not set(found["needs_prior"]) & set(found["recomputed"])
    given = wh.audit_file(path, prior=PRIOR)
    assert given["quality_loss_km"] == pytest.approx(wh.quality_loss(mechanism, PRIOR))
    assert "quality_loss_km" in given["recomputed"]
    assert "lower_bound_km" in given["needs_prior"]  # nothing in the file proves one
    with pytest.raises(wh.InputError, match="prior"):
        wh.audit_file(path, prior=PRIOR[:-1])
    # Of a file that holds one, another prior's loss is worked out, and a bound that holds for it.
    wh.save_mechanism(path, mechanism, PRIOR)
    other = np.full(16, 1 / 16)
    again = wh.audit_file(path, prior=other)
    assert again["quality_loss_km"] == pytest.approx(wh.quality_loss(mechanism, other))
    best = wh.quality_loss(wh.optimal(PLACES, other, 1.07), other)
    assert 0 <= again["lower_bound_km"] <= best * (1 + 1e-9)


def test_files_of_before_still_load_and_audit(tmp_path: Path) -> None:
    """A file that was written without a prior used to hold what was computed from it."""
    from whereish.format import pack

    mechanism = wh.optimal(PLACES, PRIOR, 1.07, solver="structured")
    arrays, about = unpack(mechanism_bytes(mechanism))
    header, certificate = json.loads(about["mechanism"]), json.loads(about["certificate"])
    header["build"] |= {"lower_bound_km": 0.4, "gap": 1e-7, "seconds": 0.1, "notes": ["exact"]}
    certificate |= {"repair_cost_km": 1e-9, "repair_mix": 0.0, "seconds": 0.1}
    certificate["guarantee"] = certificate["guarantee"][:3]
    compact = {"separators": (",", ":")}
    about |= {
        "mechanism": json.dumps(header, **compact),  # type: ignore[arg-type]
        "certificate": json.dumps(certificate, **compact),  # type: ignore[arg-type]
    }
    path = tmp_path / "old.whereish"
    path.write_bytes(pack(arrays, about))
    found, prior = wh.load_mechanism(path)
    assert prior is None
    assert (found.counts == mechanism.counts).all()
    assert wh.audit_file(path)["certified"]
    # Written again, it holds nothing of that.
    wh.save_mechanism(path, found)
    assert told(said(path.read_bytes())[1]["build"]) <= BUILD


def test_whether_a_mechanism_tells_its_prior_is_said() -> None:
    words = " ".join(wh.certify(wh.optimal(PLACES, PRIOR, 1.07))["guarantee"])
    assert "tells most of the prior" in words
    for other in (wh.planar_laplace(PLACES, 1.07), wh.exponential(PLACES, 1.07)):
        assert "tells most of the prior" not in " ".join(wh.certify(other)["guarantee"])
    moved = wh.planar_laplace(PLACES, 1.07).remap(PRIOR)
    assert "of the prior" in " ".join(wh.certify(moved)["guarantee"])


# --- the attack ---------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.slow
def test_the_counts_alone_tell_most_of_the_prior() -> None:
    """A part of benchmarks/prior_leak.py: what the certificate and the limitations say stays true.

    Should this fail because a mechanism tells less, the figures in docs/limitations.md are to be
    measured again.
    """
    places, (_, prior) = prior_leak.people(2)
    public = np.full(len(prior), 1 / len(prior))
    rows = list(prior_leak.attacks(1, places, prior, public, 0.65, blurs=(0.3,), vertices=16))
    found = {(row.blur, row.mixed_with, row.attacker): row.leak for row in rows}
    blind = found[0.0, "", "no file, uniform guess"].total_variation
    assert blind > 0.5
    for attacker in ("counts", "counts and lower_bound_km"):
        leak = found[0.0, "", attacker]
        assert leak.total_variation < 0.4 * blind
        assert leak.correlation > 0.9
        assert leak.top_five_found >= 3
    # A blur does not help against who knows of it, and the documentation says so.
    undone = found[0.3, "uniform", "blur known, undone"]
    assert undone.total_variation < 0.4 * blind
    assert undone.correlation > 0.9
    # A public prior alone tells nothing of the person.
    assert found[1.0, "uniform", "any"].total_variation == blind


# --- the blur ---------------------------------------------------------------------------------


@given(some.priors(6), some.priors(6), st.floats(0, 1))
def test_a_blurred_prior_is_the_mixture(own: Any, public: Any, share: float) -> None:
    mixed = wh.blur_prior(own, share, public)
    slow = [(1 - share) * a + share * b for a, b in zip(own, public, strict=True)]
    assert mixed.tolist() == pytest.approx(slow, abs=1e-12)
    flat = wh.blur_prior(own, share)
    assert flat.tolist() == pytest.approx([(1 - share) * a + share / 6 for a in own], abs=1e-12)


@pytest.mark.parametrize("share", [-0.1, 1.5, math.nan, "x", True, None])
def test_a_blur_is_a_share(share: Any) -> None:
    with pytest.raises(wh.InputError, match="prior_blur"):
        wh.blur_prior([0.5, 0.5], share)


# --- the command line -------------------------------------------------------------------------


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "me.csv"
    rows = zip(PLACES.xy.tolist(), PRIOR.tolist(), strict=True)
    lines = [f"{x!r},{y!r},{p!r}" for (x, y), p in rows]
    path.write_text("\n".join(["x_km,y_km,prior", *lines]) + "\n")
    return path


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.slow
def test_every_command_leaves_the_prior_out_unless_told_to_keep_it(
    profile: Path, tmp_path: Path
) -> None:
    out = tmp_path / "k.whereish"
    done = run("build", profile, "--epsilon", 1.07, "-o", out, "--json")
    assert done.exit_code == 0, done.stderr
    loss = json.loads(done.stdout)["quality_loss_km"]
    mechanism, _ = wh.load_mechanism(out)
    assert loss == pytest.approx(wh.quality_loss(mechanism, PRIOR))
    assert "without the prior" in done.stderr
    assert "most of your prior can be computed from this file" in done.stderr
    people = tmp_path / "people"
    people.mkdir()
    (people / "ann.csv").write_text(profile.read_text())
    batch = run("batch", people, "-o", tmp_path / "all", "--epsilon", 1.07, "--workers", 1)
    assert batch.exit_code == 0, batch.stderr
    body = {"places": {"xy_km": PLACES.xy.tolist()}, "prior": PRIOR.tolist()}
    recipe = tmp_path / "r.json"
    recipe.write_text(json.dumps({**body, "epsilon_per_km": 1.07}))
    assert run("build", recipe, "-o", tmp_path / "r.whereish").exit_code == 0
    demo = run("demo", "-o", tmp_path / "demo")
    assert demo.exit_code == 0, demo.stderr
    files = [out, tmp_path / "all" / "ann.whereish", tmp_path / "r.whereish"]
    for file in [*files, tmp_path / "demo" / "mechanism.whereish"]:
        arrays, about, certificate = said(file.read_bytes())
        assert arrays - {"inputs_latlon", "outputs_latlon"} == ARRAYS
        assert told(about["build"]) <= BUILD
        assert told(certificate) <= CERTIFICATE

    again = run("build", profile, "--epsilon", 1.07, "-o", out, "--keep-prior")
    assert "with the prior" in again.stderr
    assert "prior" in said(out.read_bytes())[0]
    recipe.write_text(json.dumps({**body, "epsilon_per_km": 1.07, "keep_prior": True}))
    assert run("build", recipe, "-o", tmp_path / "r.whereish").exit_code == 0
    assert "prior" in said((tmp_path / "r.whereish").read_bytes())[0]
    other = ("batch", people, "-o", tmp_path / "all", "--epsilon", 1.07, "--workers", 1)
    refused = run(*other, "--keep-prior")
    assert refused.exit_code == 2
    assert "no --keep-prior" in refused.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--keep-prior", "--forget-prior"),
        ("--prior-blur", "0.3", "--keep-prior"),
        ("--prior-blur", "1.3"),
        ("--blur-with", "uniform"),
        ("--prior-blur", "0.3", "--blur-with", "other.csv"),
    ],
    ids=" ".join,
)
def test_flags_that_contradict_each_other_are_refused(
    profile: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    # A profile of other places is no public prior of these.
    (tmp_path / "other.csv").write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.5\n")
    flags = tuple(str(tmp_path / flag) if flag.endswith(".csv") else flag for flag in flags)
    out = tmp_path / "k.whereish"
    done = run("build", profile, "--epsilon", 1.07, "-o", out, *flags)
    assert done.exit_code == 2
    assert "prior" in done.stderr or "blur" in done.stderr
    assert not out.exists()


@pytest.mark.slow
def test_what_goes_without_the_prior_goes_on_with_one_that_is_given(
    profile: Path, tmp_path: Path
) -> None:
    out, picture = tmp_path / "k.whereish", tmp_path / "k.png"
    assert run("build", profile, "--epsilon", 1.07, "-o", out).exit_code == 0
    refused = run("measure", out)
    assert refused.exit_code == 2
    assert "holds no prior: give --prior PROFILE" in refused.stderr
    measured = json.loads(run("measure", out, "--prior", profile, "--json").stdout)
    mechanism, _ = wh.load_mechanism(out)
    assert measured["quality_loss_km"] == pytest.approx(wh.quality_loss(mechanism, PRIOR))
    drawn = run("plot", out, "-o", picture)
    assert drawn.exit_code == 0
    assert "holds no prior" in drawn.stderr
    drawn = run("plot", out, "--prior", profile, "-o", picture)
    assert drawn.exit_code == 0
    assert "holds no prior" not in drawn.stderr
    audited = run("audit", out)
    assert audited.exit_code == 0
    assert "Not computed" in audited.stderr
    assert "--prior PROFILE" in audited.stderr
    found = json.loads(run("audit", out, "--prior", profile, "--json").stdout)
    assert found["quality_loss_km"] == pytest.approx(measured["quality_loss_km"])


@pytest.mark.slow
def test_a_blur_is_one_thing_at_every_door(profile: Path, tmp_path: Path) -> None:
    public = some.skewed(16, seed=3)
    rows = zip(PLACES.xy.tolist(), public.tolist(), strict=True)
    other = tmp_path / "public.csv"
    other.write_text("\n".join(["x_km,y_km,prior", *(f"{x!r},{y!r},{p!r}" for (x, y), p in rows)]))
    body = {
        "places": {"xy_km": PLACES.xy.tolist()}, "prior": PRIOR.tolist(), "epsilon_per_km": 1.07,
        "prior_blur": 0.3,
    }  # fmt: skip
    people = tmp_path / "people"
    people.mkdir()
    (people / "ann.csv").write_text(profile.read_text())
    for number, mixed in enumerate([None, public]):
        expected = wh.optimal(PLACES, wh.blur_prior(PRIOR, 0.3, mixed), 1.07)
        best = wh.optimal(PLACES, PRIOR, 1.07)
        cost = wh.quality_loss(expected, PRIOR) - wh.quality_loss(best, PRIOR)
        assert cost > 0
        flags: tuple[Any, ...] = ("--epsilon", 1.07, "--prior-blur", 0.3)
        flags += () if mixed is None else ("--blur-with", other)
        out = tmp_path / "k.whereish"
        done = run("build", profile, "-o", out, *flags, "--json")
        assert done.exit_code == 0, done.stderr
        recipe = tmp_path / "r.json"
        more = {} if mixed is None else {"blur_with": mixed.tolist()}
        recipe.write_text(json.dumps(body | more))
        made = run("build", recipe, "-o", tmp_path / "r.whereish", "--json")
        assert made.exit_code == 0, made.stderr
        for facts in (json.loads(done.stdout), json.loads(made.stdout)):
            # Under the true prior, with what the blur has cost.
            assert facts["quality_loss_km"] == pytest.approx(wh.quality_loss(expected, PRIOR))
            assert facts["blur_cost_km"] == pytest.approx(cost, rel=1e-3)
            assert facts["prior_blur"] == 0.3
        folder = tmp_path / f"all{number}"
        ran = run("batch", people, "-o", folder, *flags, "--workers", 1, "--json")
        assert ran.exit_code == 0, ran.stderr
        row = json.loads(ran.stdout.splitlines()[0])
        assert row["loss_km"] == pytest.approx(wh.quality_loss(expected, PRIOR))
        assert row["bound_km"] <= wh.quality_loss(best, PRIOR) * (1 + 1e-6)
        for file in (out, tmp_path / "r.whereish", folder / "ann.whereish"):
            assert (wh.load_mechanism(file)[0].counts == expected.counts).all()


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"prior_blur": 2}, "prior_blur"),
        ({"prior_blur": "x"}, "prior_blur"),
        ({"prior_blur": 0.3, "keep_prior": True}, "prior_blur"),
        ({"blur_with": "uniform", "prior_blur": 0.1}, None),
        ({"blur_with": [1.0]}, "blur_with"),
        ({"blur_with": [0.5, 0.5]}, "blur_with"),
        ({"blur_with": [0.5, 0.6], "prior_blur": 0.1}, "blur_with"),
        ({"blur_with": "public", "prior_blur": 0.1}, "blur_with"),
    ],
    ids=str,
)
def test_a_recipe_says_which_part_of_its_blur_is_wrong(
    more: dict[str, Any], field: str | None
) -> None:
    two = {"places": {"xy_km": [[0, 0], [1, 0]]}, "prior": [0.9, 0.1], "epsilon_per_km": 1}
    if field is None:
        assert Recipe.from_document(two | more).built_for.tolist() == pytest.approx([0.86, 0.14])
        return
    with pytest.raises(wh.InputError) as wrong:
        Recipe.from_document(two | more)
    assert wrong.value.field == field


def test_what_a_file_without_a_prior_claims_of_losses_is_not_said_as_if_it_were_so(
    tmp_path: Path,
) -> None:
    """Found by an attack: a forged bound was printed as "claimed", beside "holds nothing of it"."""
    file = tmp_path / "k.whereish"
    wh.save_mechanism(file, wh.optimal(some.grid(3, 3), some.skewed(9), 1.07))
    forged = {"lower_bound_km": 98.7654, "quality_loss_km": 1e-4, "gap": 0.0}
    some.forge(file, claimed=forged)
    done = CliRunner().invoke(app, ["audit", str(file)])
    assert done.exit_code == 0
    assert "98.7" not in done.stderr  # a digest may hold any two figures
    assert "nothing proves its claims on quality_loss_km, lower_bound_km, gap" in done.stderr
    assert wh.audit_file(file)["needs_prior"]
