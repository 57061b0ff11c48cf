"""The report of the study of traces: a page of tables and figures, and the same as Markdown."""

from __future__ import annotations

from typing import Any

from whereish.studies.claims import Claim
from whereish.studies.equal_budget import EQUAL
from whereish.studies.page import page, picture, table, text
from whereish.studies.runs import Row
from whereish.studies.trace_rows import ATTACKED, PROTOCOL

_TITLE = "Reports over time"
_HEADS = (
    "policy",
    "mean error",
    "90th percentile",
    "coverage",
    "epsilon per point",
    "first draw",
    "rate",
)
_FIGURES = {
    "errors": ("The authors' settings",
               "Every policy has the same budget for a trace. All constants but the authors' are "
               "chosen on other people, such that they cover at least as much there. Tapered "
               "reports give the first draws more of the budget."),
    "jumps": ("Jumps", "The time between two reports is a minute, or with this probability 30 or "
                       "60 minutes."),
    "attack": ("Attack", "The adversary knows the policy, and how other people move."),
    "equal budget": ("Why sticky reports alone are not enough",
                     "Synthetic people with known homes. All policies spend the same in a day. "
                     "Sticky reports show moves, and each day has a new draw for the home: their "
                     "budget bounds traces of the same pattern only."),
}  # fmt: skip
Table = tuple[list[str], list[list[str]]]


def report_page(
    tables: dict[str, list[Row]],
    charts: dict[str, dict[str, bytes]],
    found: list[Claim],
    about: dict[str, Any],
) -> str:
    """Return the page."""
    parts = [f"<h1>{_TITLE}</h1>", f"<p>{text(_lead(about))}</p>",
             f"<p class=small>whereish {text(about['version'])}, seed {text(about['seed'])}: "
             f"<code>{text(about['command'])}</code></p>",
             "<h2>In short</h2>", table(*_claims(found), words=(0, 2))]  # fmt: skip
    for name, (heading, remark) in _FIGURES.items():
        if name in charts:
            parts += [f"<h2>{text(heading)}</h2>", f"<p>{text(remark)}</p>"]
            parts.append(picture(charts[name]["png"], heading))
            for title, (heads, rows) in _tables(name, tables).items():
                parts += [f"<p>{text(title)}</p>" if title else "", table(heads, rows)]
    return page(f"Whereish: {_TITLE.lower()}", parts)


def report_markdown(
    tables: dict[str, list[Row]],
    charts: dict[str, dict[str, bytes]],
    found: list[Claim],
    about: dict[str, Any],
) -> str:
    """Return the same as Markdown, with the pictures in files beside it."""
    lines = [f"# {_TITLE}", "", _lead(about), "", f"whereish {about['version']}, seed "
             f"{about['seed']}: `{about['command']}`", "", "## In short", "",
             *_markdown(*_claims(found))]  # fmt: skip
    for name, (heading, remark) in _FIGURES.items():
        if name in charts:
            file = f"figures/{name.replace(' ', '-')}.png"
            lines += [f"## {heading}", "", remark, "", f"![{heading}]({file})", ""]
            for title, (heads, rows) in _tables(name, tables).items():
                lines += [*([title, ""] if title else []), *_markdown(heads, rows)]
    return "\n".join(lines)


def _lead(about: dict[str, Any]) -> str:
    return (
        "The protocol of Chatzikokolakis, Palamidessi and Stronati (PETS 2014) on "
        f"{about['title']}: {about['traces']:,} traces of {about['people']:,} people. A trace has "
        f"a budget of {about['budget']:.4g} per km (ln 10 per 100 m by default). Movement models "
        "and constants are learned from other people only. Figures are means over people of the "
        "means over their traces."
    )


def _claims(found: list[Claim]) -> Table:
    rows = [[one.name, "yes" if one.holds else "no", one.detail] for one in found]
    return ["", "holds", "figures"], rows


def _tables(figure: str, tables: dict[str, list[Row]]) -> dict[str, Table]:
    """Return the tables below a figure, by title."""
    if figure == "attack":
        heads = ["policy", "reports", "error of the attack", "guesses within 300 m"]
        return {"": (heads, [
            [r["policy"], r["sampling"], _km(r["attack_error_km"]), f"{r['attack_success']:.0%}"]
            for r in tables[ATTACKED]
        ])}  # fmt: skip
    if figure == "equal budget":
        return {"": _equal(tables[EQUAL])}
    rows = [row for row in tables[PROTOCOL] if (row["jump"] > 0) == (figure == "jumps")]
    found: dict[str, Table] = {}
    for row in rows:
        title = f"{row['sampling']}, {row['setting']}"
        found.setdefault(title, (list(_HEADS), []))[1].append([
            row["policy"], _km(row["mean_error_km"]), _km(row["p90_error_km"]),
            f"{row['coverage']:.0%}", f"{row['epsilon_per_point']:.2f}",
            f"{row['epsilon_of_draw']:.2f} per km", _rate(row["rate_s"]),
        ])  # fmt: skip
    return found


def _equal(rows: list[Row]) -> Table:
    last = {row["policy"]: row for row in rows}
    heads = ["policy", "epsilon per day", "of a draw", "error of the reports", "best attack",
             "homes within 300 m", "error of the guessed home", "moves told"]  # fmt: skip
    return heads, [
        [name, f"{r['epsilon_per_day']:.1f}", f"{r['epsilon_of_draw']:.3f}",
         _km(r["report_error_km"]),
         f"{_km(r['attack_error_km'])}, {r['attack_success']:.0%} within 300 m ({r['attack']})",
         f"{r['homes_within_300m']} of {r['people']}", _km(r["home_error_km"]),
         f"{r['moves_told']:.0%}"]
        for name, r in last.items()
    ]  # fmt: skip


def _km(value: float) -> str:
    return f"{value:.2f} km"


def _rate(seconds: float) -> str:
    return f"every {seconds / 60:g} min" if seconds else "every report"


def _markdown(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]
