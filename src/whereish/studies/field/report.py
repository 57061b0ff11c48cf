"""The report of the study of mechanisms: one page of tables and figures, all of it from rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from whereish.studies.field.rows import CLAIMS, MECHANISMS, SUMMARY
from whereish.studies.field.scores import NONE, OTHER_METRIC
from whereish.studies.page import page, picture, table, text
from whereish.studies.runs import Row

_TITLE = "Mechanisms of the field, compared"
# The columns of a table: the heading and the unit, the field of a row, and its format.
COLUMNS = (
    ("epsilon", "per km", "epsilon_per_km", "{:.4g}"),
    ("tightest", "per km", "tightest_epsilon_per_km", "{:.5g}"),
    ("loss", "km", "loss_km", "{:.3f}"),
    ("worst case", "km", "worst_case_loss_km", "{:.3f}"),
    ("adversary error", "km", "adversary_error_km", "{:.3f}"),
    ("uniform", "km", "adversary_error_uniform_km", "{:.3f}"),
    ("another's", "km", "adversary_error_other_km", "{:.3f}"),
    ("right guess", "share", "right_guess", "{:.3f}"),
    ("map error", "share", "map_error", "{:.3f}"),
    ("CPU", "s", "cpu_s", "{:.2f}"),
)
_MEANING = (
    ("guarantee", "what the checked epsilon is between; none: no epsilon was checked, so none is "
                  "shown"),
    ("epsilon", "the checked epsilon"),
    ("tightest", "the least epsilon that holds, from the integers that are sampled, in exact "
                 "arithmetic"),
    ("loss, worst case", "expected distance between place and report: under the prior of the "
                         "build, and of the worst place"),
    ("adversary error", "expected distance of the best guess of an adversary who knows the "
                        "person's prior: that of the build, a uniform one, another person's"),
    ("right guess", "how often the likeliest place is the true one"),
    ("map error", "total variation between the prior and its most likely estimate from many "
                  "reports"),
    ("CPU", "processor time of the build"),
)  # fmt: skip


def field_page(
    tables: dict[str, list[Row]], charts: dict[str, dict[str, bytes]], about: dict[str, Any]
) -> str:
    """Return the page. Every number in a table is that of a row, or a median in the summary."""
    parts = [
        f"<h1>{_TITLE}</h1>",
        f"<p>{text(_lead(about))}</p>",
        f"<p class=small>{text(about['versions'])}; seed {text(about['seed'])}: "
        f"<code>{text(about['command'])}</code></p>",
        "<h2>In short</h2>",
        table(*_claims(tables[CLAIMS]), words=(0, 4)),
    ]
    for data, title in about["titles"].items():
        mine = [row for row in tables[SUMMARY] if row["data"] == data]
        parts += [f"<h2 id={text(data)}>{text(title.capitalize())}</h2>", _people(mine[0])]
        for kind, words in (("measures", "All measures"), ("levels", "Levels and losses")):
            if f"{data} {kind}" in charts:
                parts.append(
                    picture(charts[f"{data} {kind}"]["png"], f"{words}: {title}", wide=True)
                )
        for epsilon in dict.fromkeys(row["asked_epsilon_per_km"] for row in mine):
            here = [row for row in mine if row["asked_epsilon_per_km"] == epsilon]
            parts.append(f"<h3>epsilon {epsilon:g} per km</h3>")
            parts.append(table(*_summary(here), raw=(1,), first="ours", kind="narrow"))
            parts += [_missing(row) for row in here if row["problem"]]
    parts += [
        "<h2>What the columns say</h2>",
        table(["column", "meaning"], [list(pair) for pair in _MEANING], words=(0, 1)),
        "<h2>The mechanisms</h2>",
        table(["mechanism", "what it is", "source"], [
            [row["mechanism"], row["about"], row["source"]] for row in tables[MECHANISMS]
        ], words=(0, 1, 2)),
    ]  # fmt: skip
    return page(f"Whereish: {_TITLE}", parts)


def _lead(about: dict[str, Any]) -> str:
    return (
        "Every mechanism is built for the same people, places and epsilon, and measured by the "
        "same code. Figures are medians over people. The row of a table is that row of "
        "rows/summary.csv which has its data, epsilon and mechanism; rows/people.csv has the rows "
        "of all people, who are numbers. The map error is after "
        f"{about['reports']:,} reports."
    )


def _people(row: Row) -> str:
    return f"<p>{row['people']} people, {row['places']} places.</p>"


def _claims(found: list[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["", "holds", "rows", "figure", "the figure is"]
    return heads, [
        [one["claim"], "yes" if one["holds"] else "no", f"{one['rows']:,}",
         shown(one["figure"], "{:.6g}"), one["what"]]
        for one in found
    ]  # fmt: skip


def _summary(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["mechanism", "guarantee", *(f"{head}, {unit}" for head, unit, _, _ in COLUMNS)]
    return heads, [
        [row["mechanism"], _guarantee(row),
         *(shown(row[field], form) for _, _, field, form in COLUMNS)]
        for row in rows
    ]  # fmt: skip


def _guarantee(row: Row) -> str:
    if not row["built"]:
        return ""
    kind = "no" if row["guarantee"] in (NONE, OTHER_METRIC) else "yes"
    return f"<span class={kind}>{text(row['guarantee'])}</span>"


def shown(value: float | None, form: str) -> str:
    """Write a number of a row on the page."""
    if value is None:
        return ""
    return "infinite" if np.isinf(value) else form.format(value)


def _missing(row: Row) -> str:
    left = row["people"] - row["built"]
    return (
        f"<p class=small>{text(row['mechanism'])}: not built for {left} of {row['people']} people. "
        f"{text(row['problem'])}</p>"
    )
