"""The types of the JavaScript client, compiled by TypeScript in its strict mode."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

CLIENT = Path(__file__).parent.parent / "clients" / "js"
NPM, NODE = shutil.which("npm"), shutil.which("node")
TYPESCRIPT = "typescript@5.9.3"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(NPM is None or NODE is None, reason="there is no npm to get TypeScript"),
]

USE = """
import {
  type AnyMechanism, BudgetManager, fetchMechanism, Mechanism, type Manager, readMechanism,
  readMovement, Reporter, Tracker, type TrackedReport, type TrackerOptions, wrapGeolocation,
} from "whereish";
import { buildEverywhere, buildPlaces } from "whereish/build";
import { readMap } from "whereish/map";
import { profileOf, readTraces } from "whereish/profile";
import { solve } from "whereish/solve";

export async function use(bytes: Uint8Array, files: FileList): Promise<TrackedReport[]> {
  const mechanism: AnyMechanism = await readMechanism(bytes, { sha256: "0".repeat(64) });
  await fetchMechanism("/k.whereish");
  const row: bigint[] = mechanism instanceof Mechanism ? mechanism.countsOf(0) : [];
  const cheap: Manager = BudgetManager.cheapTests(mechanism.epsilon ?? 1);
  const model = readMovement(JSON.stringify(row.length));
  const all: TrackerOptions[] = [
    { newPlaces: 3 },
    { budget: 9.6, rateSeconds: 600, manager: cheap, model },
    { newPlaces: 3, policy: "sporadic", rateSeconds: 1800 },
    { newPlaces: 3, policy: "filtered", model, period: "week", remember: "page" },
    { newPlaces: 3, policy: "sticky", key: "mine", clock: () => 0 },
  ];
  const trackers = all.map((options) => new Tracker(mechanism, localStorage, options));
  const spent: number = trackers[0]!.state.spentPerStay;
  const place: [number, number] | null = new Reporter(mechanism, localStorage, { newPlaces: 3 })
    .report(48.86, 2.34).latlon;
  wrapGeolocation(navigator, mechanism, { newPlaces: 3 });
  const { places, prior, cellKm, visits } = profileOf(await readTraces(files));
  await buildPlaces({ places, prior, cellKm, epsilon: 1.07 });
  if (visits) await buildEverywhere({ ...visits, epsilon: 1.07 });
  await solve({ places: [[0, 0], [1, spent]], prior: [0.5, 0.5], epsilon: 1 });
  readMap("{}");
  const [lat, lon] = place ?? [0, 0];
  return trackers.map((tracker) => tracker.report(lat, lon, Date.now()));
}
"""
# Each of these lines must be refused.
REFUSED = """
import { BudgetManager, Mechanism, type MovementModel, Tracker } from "whereish";
declare const mechanism: Mechanism;
declare const model: MovementModel;
new Tracker(mechanism, localStorage, {});
new Tracker(mechanism, localStorage, { newPlaces: 3, budget: 9.6 });
new Tracker(mechanism, localStorage, { newPlaces: 3, policy: "bold" });
new Tracker(mechanism, localStorage, { newPlaces: 3, policy: "sporadic" });
new Tracker(mechanism, localStorage, { newPlaces: 3, policy: "filtered" });
new Tracker(mechanism, localStorage, { newPlaces: 3, policy: "sticky", rateSeconds: 60 });
new Tracker(mechanism, localStorage, { newPlaces: 3, policy: "sporadic", rateSeconds: 60, model });
new Tracker(mechanism, localStorage, { newPlaces: 3, rate: 600 });
new Tracker({}, localStorage, { newPlaces: 3 });
new Mechanism();
BudgetManager.forDraw("1");
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with TypeScript, and the types of the client as a package."""
    where = tmp_path_factory.mktemp("types")
    (where / "package.json").write_text('{"type": "module", "private": true}')
    add = [
        str(NPM), "install", TYPESCRIPT, "--no-save", "--no-package-lock", "--ignore-scripts",
        "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=0", "--loglevel=error",
    ]  # fmt: skip
    quiet = {**os.environ, "npm_config_update_notifier": "false"}
    try:
        done = subprocess.run(
            add, cwd=where, env=quiet, capture_output=True, text=True, check=False, timeout=120
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not get {TYPESCRIPT} in two minutes: the registry is out of reach")
    if done.returncode != 0:
        pytest.skip(f"npm cannot get {TYPESCRIPT}: there is no network, or no copy of it here")
    package = where / "node_modules" / "whereish"
    for file in [*CLIENT.glob("*.d.ts"), *CLIENT.glob("map/*.d.ts"), CLIENT / "package.json"]:
        (package / file.relative_to(CLIENT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, package / file.relative_to(CLIENT))
    settings = {
        "strict": True, "noEmit": True, "module": "nodenext", "moduleResolution": "nodenext",
        "target": "es2022", "lib": ["es2022", "dom", "dom.iterable"], "types": [],
        "noUncheckedIndexedAccess": True, "exactOptionalPropertyTypes": True,
        "skipLibCheck": False,
    }  # fmt: skip
    (where / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": settings, "files": ["use.ts"]})
    )
    return where


def complaints(folder: Path, source: str) -> str:
    """Return what the compiler says of a source."""
    (folder / "use.ts").write_text(source)
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [str(NODE), str(compiler), "--pretty", "false"], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.thorough
def test_the_types_compile_and_allow_what_is_documented(folder: Path) -> None:
    assert complaints(folder, USE) == ""


@pytest.mark.thorough
def test_the_types_refuse_what_the_client_refuses(folder: Path) -> None:
    said = complaints(folder, REFUSED)
    lines = REFUSED.splitlines()
    wrong = [k + 1 for k, line in enumerate(lines) if line.startswith(("new ", "Budget"))]
    assert [k for k in wrong if f"use.ts({k}," not in said] == [], said
    assert "whereish/" not in said, said  # nothing is wrong in the types themselves
