"""The study of mechanisms: every number of its page is in a row, and every row says where from."""

from __future__ import annotations

import csv
import html
import json
import math
import re
import stat
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.studies import FieldDesign, load_check_ins, register_field, study_mechanisms
from whereish.studies.field.claims import field_claims
from whereish.studies.field.people import FieldData
from whereish.studies.field.registry import FIELD, OPTIMAL, field_mechanisms
from whereish.studies.field.report import COLUMNS
from whereish.studies.field.rows import summary
from whereish.studies.field.scores import MEASURES, NONE, PLACES

DESIGN = FieldDesign(epsilons=(0.7, 1.07), reports=500)
ORIGIN = {"seed": "0", "command": "whereish study mechanisms"}


def people(count: int = 2) -> FieldData:
    places = some.grid(3, 2)
    priors = tuple(np.array(some.skewed(6, seed)) for seed in range(count))
    return FieldData("synthetic", "some people", places, priors, ["test", count])


def leaks(asked: Any) -> wh.Mechanism:
    raise ValueError(f"a place at {asked.places.xy[0]}")


@pytest.fixture(scope="module")
def own() -> Iterator[None]:
    register_field("the truth", "reports the place", lambda asked: wh.Mechanism(
        np.eye(len(asked.places)), asked.places, asked.places))  # fmt: skip
    register_field("broken", "raises an error", leaks)
    yield
    for name in ("the truth", "broken"):
        FIELD.pop(name, None)


def study(folder: Path) -> Any:
    chosen = {name: entry for name, entry in field_mechanisms().items() if name != "qif"}
    return study_mechanisms(
        [people()], DESIGN, folder, version="1.2.3", command=ORIGIN["command"], mechanisms=chosen
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, own: None) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("field") / "study"
    return folder, study(folder)


def read_rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "rows" / f"{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def shown(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", cell)).strip()


@pytest.mark.slow
def test_every_number_of_the_page_is_in_a_row(made: tuple[Path, Any]) -> None:
    folder, _ = made
    page = (folder / "report.html").read_text()
    medians = read_rows(folder, "summary")
    found = 0
    for epsilon, text in re.findall(r"<h3>epsilon (\S+) per km</h3>\s*(<table.*?</table>)", page):
        for line in re.findall(r"<tr[^>]*>(<td.*?)</tr>", text):
            cells = [shown(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)]
            (row,) = [r for r in medians if r["mechanism"] == cells[0]
                      and float(r["asked_epsilon_per_km"]) == float(epsilon)]  # fmt: skip
            assert cells[1] == (row["guarantee"] if int(row["built"]) else "")
            assert len(cells) == 2 + len(COLUMNS)
            for cell, (_, _, field, form) in zip(cells[2:], COLUMNS, strict=True):
                if row[field] == "":
                    assert cell == ""
                elif math.isinf(float(row[field])):
                    assert cell == "infinite"
                else:
                    assert cell == form.format(float(row[field]))
                    found += 1
    assert found > 200
    # All that is left besides these tables: text whose numbers are in rows or in run.json.
    rest = re.sub(r"<h3>.*?</table>|<style>.*?</style>|<img[^>]*>|<h2[^>]*>.*?</h2>", " ", page,
                  flags=re.DOTALL)  # fmt: skip
    known = " ".join(
        f"{value} {f'{float(value):.6g}' if is_number(value) else ''}"
        for name in ("claims", "mechanisms", "summary")
        for row in read_rows(folder, name)
        for value in row.values()
    )
    known += f" {DESIGN.reports:,} " + (folder / "run.json").read_text() + " 1 "
    left = set(re.findall(r"(?<![\w.])\d[\d,.]*(?:e-?\d+)?", shown(rest)))
    assert {n for n in left if n.strip(".,") not in known} == set()
    planted = set(re.findall(r"\d+\.\d+", shown("<p>0.123456789</p>")))
    assert {n for n in planted if n not in known} == {"0.123456789"}


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


@pytest.mark.slow
def test_the_summary_is_the_medians_of_the_rows_of_people(made: tuple[Path, Any]) -> None:
    folder, _ = made
    rows = read_rows(folder, "people")
    assert len(rows) == 2 * 2 * (len(field_mechanisms()) - ("qif" in field_mechanisms()))
    for row in read_rows(folder, "summary"):
        mine = [r for r in rows if (r["mechanism"], r["asked_epsilon_per_km"])
                == (row["mechanism"], row["asked_epsilon_per_km"])]  # fmt: skip
        assert sorted(r["person"] for r in mine) == ["0", "1"]
        built = [r for r in mine if not r["problem"]]
        assert int(row["built"]) == len(built)
        for name in MEASURES:
            if built:
                assert float(row[name]) == statistics.median(float(r[name]) for r in built)
            else:
                assert row[name] == ""


@pytest.mark.slow
def test_every_row_says_where_it_comes_from(made: tuple[Path, Any]) -> None:
    folder, done = made
    for name in ("people", "summary", "claims", "mechanisms"):
        for row in read_rows(folder, name):
            assert {key: row[key] for key in ORIGIN} == ORIGIN
            assert row["versions"].startswith("whereish 1.2.3, numpy ")
    for row in read_rows(folder, "people"):
        assert row["data"] == "synthetic"
        assert row["places"] == "6"
    for file in done.files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.slow
def test_only_checked_mechanisms_have_an_epsilon(made: tuple[Path, Any]) -> None:
    folder, _ = made
    unchecked = {"Shokri et al., equal loss", "distant pairs dropped", "most pairs dropped",
                 "cloaking", "anonymity sets", "the truth"}  # fmt: skip
    seen = set()
    for row in read_rows(folder, "people"):
        if row["problem"]:
            continue
        tightest = float(row["tightest_epsilon_per_km"])
        if row["mechanism"] in unchecked:
            seen.add(row["mechanism"])
            assert (row["guarantee"], row["epsilon_per_km"]) == (NONE, "")
        else:
            assert tightest <= float(row["epsilon_per_km"])
        if row["mechanism"] in ("the truth", "cloaking"):
            assert math.isinf(tightest)
    assert seen == unchecked
    claims = [row["holds"] for row in read_rows(folder, "claims")]
    assert claims[:2] == ["True", "True"]  # every epsilon is kept, and the optimal loss is least


@pytest.mark.slow
def test_the_words_of_an_error_of_a_constructor_are_not_kept(made: tuple[Path, Any]) -> None:
    folder, _ = made
    rows = [row for row in read_rows(folder, "people") if row["mechanism"] == "broken"]
    assert {row["problem"] for row in rows} == {"its constructor raised ValueError"}
    for file in folder.rglob("*"):
        assert not file.is_file() or b"a place at" not in file.read_bytes()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_stopped_study_continues(made: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, done = made
    before = (folder / "report.html").read_bytes()
    monkeypatch.setattr("whereish.studies.field.rows.scores", lambda *all: pytest.fail("again"))
    again = study(folder)
    assert again.tables == done.tables
    assert (folder / "report.html").read_bytes() == before
    (tmp := folder.parent / "other").mkdir()
    (tmp / "mine.txt").write_text("x")
    with pytest.raises(wh.InputError, match="new folder"):
        study(tmp)


def row_of(mechanism: str, loss: float, tightest: float, kind: str = PLACES) -> dict[str, Any]:
    return {
        "data": "d", "person": 0, "asked_epsilon_per_km": 1.0, "mechanism": mechanism, "places": 4,
        "guarantee": kind, "epsilon_per_km": 1.0 if kind == PLACES else None, "problem": None,
        **dict.fromkeys(MEASURES, 1.0), "loss_km": loss, "tightest_epsilon_per_km": tightest,
    }  # fmt: skip


@pytest.mark.parametrize(("wrong", "claim"), [
    (row_of("mine", 1.0, 1.0 + 1e-15), "Every mechanism with an epsilon"),
    (row_of("mine", 0.99, 1.0), "No mechanism with this epsilon"),
    (row_of("most pairs dropped", 1.0, 1.0, NONE), "Most pairs dropped"),
    (row_of("qif", 1.001, 1.0, NONE), "qif"),
])  # fmt: skip
def test_claims_fail_where_they_must(wrong: dict[str, Any], claim: str) -> None:
    right = [row_of(OPTIMAL, 1.0, 1.0), row_of("most pairs dropped", 0.9, 1.2, NONE),
             row_of("qif", 1.0, 1.0, NONE)]  # fmt: skip
    assert all(
        row["holds"] for row in field_claims(right, summary(right)) if "map" not in row["claim"]
    )
    rows = [*right, wrong]
    failed = [row["claim"] for row in field_claims(rows, summary(rows)) if not row["holds"]]
    assert any(name.startswith(claim) for name in failed)


# -- the command


@pytest.mark.slow
@pytest.mark.thorough
def test_the_command_compares_all_and_a_mechanism_of_a_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import numpy as np, whereish as wh\n"
        "from whereish.studies import register_field\n"
        "def uniform(asked):\n"
        "    n = len(asked.places)\n"
        "    return wh.Mechanism(np.full((n, n), 1 / n), asked.places, asked.places, asked.level)\n"
        "register_field('uniform', 'every place equally often', uniform)\n"
    )
    folder = tmp_path / "out"
    try:
        done = CliRunner().invoke(app, [
            "study", "mechanisms", "-o", str(folder), "--quick", "--people", "2", "--places", "6",
            "--mechanism", str(mine), "--json",
        ])  # fmt: skip
        assert done.exit_code == 0, done.stderr
    finally:
        FIELD.pop("uniform", None)
    facts = json.loads(done.stdout)
    assert "uniform" in facts["mechanisms"]
    assert "Ctrl-C stops the study" in done.stderr
    rows = {row["mechanism"]: row for row in read_rows(folder, "summary")}
    assert rows["uniform"]["guarantee"] == PLACES
    assert float(rows["uniform"]["tightest_epsilon_per_km"]) == 0
    assert "--mechanism=MECHANISM" in rows["uniform"]["command"]
    assert str(tmp_path) not in rows["uniform"]["command"]


@pytest.mark.parametrize(("flags", "said"), [
    (["--no-city"], "there is no data"),
    (["--epsilons", "a,b"], "numbers with commas"),
    (["--epsilons", "-1"], "epsilon must be"),
    (["--places", "1"], "places must be"),
    (["--mechanism", "missing.py"], "Python file"),
])  # fmt: skip
def test_wrong_flags_are_said_in_one_line(tmp_path: Path, flags: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["study", "mechanisms", "-o", str(tmp_path / "x"), *flags])
    assert done.exit_code != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("code", "said"), [
    ("raise RuntimeError('48.85')", "raised RuntimeError"), ("x = 1", "must call"),
])  # fmt: skip
def test_a_file_that_registers_nothing_is_refused(tmp_path: Path, code: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    done = CliRunner().invoke(
        app, ["study", "mechanisms", "-o", str(tmp_path / "x"), "--mechanism", str(file)]
    )
    assert done.exit_code != 0
    assert said in done.stderr
    assert "48.85" not in done.stderr


def test_check_ins_give_people_without_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spots = np.column_stack([30.27 + rng.normal(0, 0.02, 12), -97.74 + rng.normal(0, 0.02, 12)])
    lines = []
    for user in range(6):
        likes = rng.dirichlet(np.full(12, 0.5))
        for hour in range(60):
            lat, lon = spots[rng.choice(12, p=likes)]
            day, clock = 1 + hour // 20, hour % 20
            when = f"2010-10-{day:02d}T{clock:02d}:00:00Z"
            lines.append(f"1234567{user}\t{when}\t{lat}\t{lon}\t99")
    file = tmp_path / "check-ins.txt"
    file.write_text("\n".join(lines) + "\n")
    found = load_check_ins(file, places=8, people=4, seed=0)
    assert len(found.places) <= 8
    assert len(found.priors) == 4
    assert all(prior.sum() == pytest.approx(1) for prior in found.priors)
    assert "1234567" not in repr(found) + json.dumps(found.recipe)
    assert found.other(3) is found.priors[0]
