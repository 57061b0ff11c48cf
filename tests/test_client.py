"""The browser's client: the same file, the same bits, the same report as here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forgeries
import lattice_files
import whereish as wh
from whereish.format import mechanism_bytes, new_private_key, public_key_of
from whereish.release.sampler import cumulative

CLIENT = Path(__file__).parent.parent / "clients" / "js"
# The machine's, or the one that make puts into the environment where there is none.
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("client") / "k.whereish"
    city = wh.embedded_city()
    wh.save_mechanism(path, wh.optimal(city.places, city.prior, 1.07), city.prior)
    return path


def ask(file: Path, **questions: Any) -> dict[str, Any]:
    asked = {"file": str(file), "draws": [], "points": [], "flips": [], "cuts": [], **questions}
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "driver.js")],
        input=json.dumps(asked), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_same_bits_give_the_same_report(file: Path) -> None:
    mechanism, _ = wh.load_mechanism(file)
    sums = cumulative(mechanism.counts)
    rng = np.random.default_rng(0)
    draws = [
        (int(rng.integers(48)), int(bits))
        for bits in rng.integers(0, 2**63, size=3000, dtype=np.uint64)
    ]
    # And where it matters most: on either side of every running sum of a row.
    for edge in sums[:, 7].tolist():
        draws += [(7, bits) for bits in (edge - 1, edge, edge + 1) if 0 <= bits < 2**63]
    draws += [(7, 0), (7, 2**63 - 1)]
    expected = [int(sum(bits >= int(s) for s in sums[:, place])) for place, bits in draws]
    found = ask(file, draws=[(place, str(bits)) for place, bits in draws])
    assert found["draws"] == expected
    assert found["shape"] == [48, 48]
    assert found["epsilon"] == mechanism.epsilon
    assert found["row"] == [str(count) for count in mechanism.counts[0].tolist()]
    for output in found["outputs"]:
        number = output["output"]
        assert output["xyKm"] == mechanism.outputs.xy[number].tolist()
        assert mechanism.outputs.latlon is not None
        assert output["latlon"] == mechanism.outputs.latlon[number].tolist()


def test_points_are_projected_and_snapped_alike(file: Path) -> None:
    mechanism, _ = wh.load_mechanism(file)
    rng = np.random.default_rng(1)
    plane = mechanism.inputs.plane
    assert plane is not None
    near = np.column_stack([rng.uniform(48.8, 48.93, 400), rng.uniform(2.2, 2.47, 400)])
    far = np.column_stack([rng.uniform(-60, 85, 60), rng.uniform(-100, 100, 60)])
    points = np.vstack([near, far, [[plane.lat, plane.lon]]])
    found = ask(file, points=points.tolist())
    xy = plane.to_xy(points)
    assert np.abs(np.array(found["projected"]) - xy).max() < 1e-6  # a millimetre, at 10,000 km
    from whereish.release import snap

    snapped = snap(mechanism.inputs, points)
    for told, row, away, outside in zip(
        found["points"], snapped.rows, snapped.snapped_km, snapped.outside, strict=True
    ):
        assert told["snappedKm"] == pytest.approx(away, abs=1e-6)
        assert told["outside"] == outside
        assert told["place"] == row or told["snappedKm"] == pytest.approx(away, abs=1e-9)


@pytest.mark.slow
def test_a_changed_file_is_refused(file: Path) -> None:
    size = file.stat().st_size
    rng = np.random.default_rng(2)
    flips = [*range(0, 2600), *rng.integers(0, size, 400).tolist(), size - 1]
    cuts = [0, 7, 8, 9, 500, *rng.integers(0, size, 60).tolist(), size - 1]
    assert ask(file, flips=flips, cuts=cuts)["passed"] == []


def test_a_forged_file_is_refused(file: Path, tmp_path: Path) -> None:
    """The digest is right, the numbers are not."""
    from strategies import forge

    mechanism, _ = wh.load_mechanism(file)
    counts = mechanism.counts.copy()
    counts[3, 4] += np.uint64(1)
    one_sided = mechanism.counts.copy()
    used = int(np.flatnonzero(one_sided.any(axis=0))[0])
    one_sided[5, (used + 1) % 48] += one_sided[5, used]
    one_sided[5, used] = np.uint64(0)
    for number, wrong in enumerate((counts, one_sided)):
        path = tmp_path / f"{number}.whereish"
        shutil.copy(file, path)
        forge(path, arrays={"counts": wrong})
        asked = {"file": str(path), "draws": [], "points": [], "flips": [], "cuts": []}
        done = subprocess.run(
            [str(NODE), str(CLIENT / "test" / "driver.js")],
            input=json.dumps(asked), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert "GuaranteeError" in done.stderr


def test_accuracy_is_the_radius_of_most_reports(file: Path, tmp_path: Path) -> None:
    """Under the prior of the file; without one, places count as often as they are reported."""
    mechanism, prior = wh.load_mechanism(file)
    assert prior is not None
    without = tmp_path / "without.whereish"
    wh.save_mechanism(without, mechanism)
    reported = mechanism.matrix.mean(axis=0)
    apart = wh.euclidean(mechanism.inputs, mechanism.outputs)
    for path, weights in ((file, prior), (without, reported)):
        said = ask(path)["accuracyKm"]
        shares = weights[:, None] * mechanism.matrix
        assert shares[apart <= said + 1e-9].sum() >= 0.95 - 1e-9
        assert shares[apart < said - 1e-9].sum() < 0.95
        assert said == pytest.approx(wh.report_radius(mechanism, weights))


def test_reports_have_the_frequencies_of_the_counts(file: Path) -> None:
    mechanism, _ = wh.load_mechanism(file)
    bits = np.random.default_rng(3).integers(0, 2**63, size=200_000, dtype=np.uint64)
    found = Counter(ask(file, draws=[(22, str(b)) for b in bits.tolist()])["draws"])
    expected = mechanism.matrix[22] * len(bits)
    seen = np.array([found.get(z, 0) for z in range(48)])
    large = expected >= 5
    rest = expected[~large].sum()
    parts = ((seen[large] - expected[large]) ** 2 / expected[large]).sum()
    if rest > 0.1:
        parts += (seen[~large].sum() - rest) ** 2 / rest
    freedom = int(large.sum())
    assert parts < freedom + 5 * np.sqrt(2 * freedom)


def test_the_clients_own_tests_pass(file: Path) -> None:
    names = ("client.test.js", "fetch.test.js")
    places = wh.embedded_city().places
    assert places.latlon is not None
    environment = {
        **os.environ,
        "WHEREISH_FILE": str(file),
        "WHEREISH_POINT": json.dumps((places.latlon[20] + 0.001).tolist()),
        "WHEREISH_OTHER": json.dumps(places.latlon[40].tolist()),
    }
    done = subprocess.run(
        [str(NODE), "--test", *(str(CLIENT / "test" / name) for name in names)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout or "ℹ fail 0" in done.stdout


@pytest.mark.thorough
@pytest.mark.slow
def test_no_function_that_a_page_replaces_decides_anything(tmp_path: Path) -> None:
    """Every function of the language is replaced in turn, after the client was loaded."""
    private = new_private_key()
    forged = lattice_files.forged_lattices()
    lattices = {f"lattice, {name}": forged[name] for name in lattice_files.ONE_CHECK}
    lattices["lattice"] = lattice_files.honest_lattices()["with points"]
    points = np.random.default_rng(8).normal(0, 1, (12, 2))
    lattices["noise"] = mechanism_bytes(wh.planar_laplace_everywhere(points, None, 1.07))
    for name, content in {**forgeries.small(private), **lattices}.items():
        (tmp_path / name).write_bytes(content)
    environment = {
        **os.environ,
        "WHEREISH_FOLDER": str(tmp_path),
        "WHEREISH_POINT": "[48.8581, 2.3412]",
        "WHEREISH_KEY": public_key_of(private),
    }
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "hooks.test.js")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 4" in done.stdout or "ℹ pass 4" in done.stdout


def test_versions_agree() -> None:
    assert f'VERSION = "{wh.__version__}"' in (CLIENT / "whereish" / "constants.js").read_text()
