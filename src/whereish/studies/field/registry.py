"""The mechanisms of the field that a study compares, beside those of `mechanisms/registry.py`.

One file with a function, and one call of `register_field` at the end of this file, add the
mechanism of a paper. Every mechanism of `mechanisms/registry.py` with a title is compared anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

from whereish.errors import InputError
from whereish.everywhere import AnyMechanism
from whereish.mechanisms import Request, optimal
from whereish.studies.compare import VERTICES, other_mechanisms
from whereish.studies.field.anonymity_sets import anonymity_sets, level_for
from whereish.studies.field.cloaking import cloaking_for_loss
from whereish.studies.field.dropped_constraints import connecting_km, dropped_constraints
from whereish.studies.field.joint_optimum import joint_optimum
from whereish.studies.field.qif_peer import optimal_by_qif

Maker = Callable[[Request], AnyMechanism]
OPTIMAL = "optimal"
MORE_LOSS = 1.2  # times the loss of the optimal mechanism, for the joint optimum
SPANNER = 1.1
_IN_A_SET = 5  # places of an anonymity set


@dataclass(frozen=True)
class FieldMechanism:
    """A mechanism of a study.

    Attributes
    ----------
    name, about
        In tables, and one sentence of words.
    make
        Builds it for a `Request`: places, prior, epsilon, and the loss of the optimal mechanism.
        The epsilon of the `Mechanism` that it returns, which is checked, is its guarantee.
    source
        The paper or the package.
    package
        A package that it needs; where that is not installed, the mechanism is left out.
    """

    name: str
    about: str
    make: Maker
    source: str = ""
    package: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether the package that it needs is installed."""
        return self.package is None or find_spec(self.package) is not None


FIELD: dict[str, FieldMechanism] = {}


def register_field(
    name: str, about: str, make: Maker, *, source: str = "", package: str | None = None
) -> FieldMechanism:
    """Add a mechanism to the studies. See `FieldMechanism`.

    >>> import whereish as wh
    >>> mine = register_field(
    ...     "always the first place", "an example",
    ...     lambda asked: wh.Mechanism(
    ...         [[1.0, *[0.0] * (len(asked.places) - 1)]] * len(asked.places), asked.places,
    ...         asked.places,
    ...     ),
    ... )
    >>> FIELD.pop("always the first place") is mine
    True
    """
    if name in field_names():
        raise InputError(f"name must be new, and there is already a mechanism {name!r:.60}")
    FIELD[name] = FieldMechanism(name, about, make, source, package)
    return FIELD[name]


def field_mechanisms() -> dict[str, FieldMechanism]:
    """Return all mechanisms of a study by name: those of the library first, the optimal one first.

    A mechanism whose package is not installed is left out.
    """
    about = "the least loss of all with this epsilon"
    found = {OPTIMAL: FieldMechanism(OPTIMAL, about, _exact, "Bordenabe et al., CCS 2014")}
    for row in other_mechanisms():
        make = partial(_of_library, row.make)
        found[row.name] = FieldMechanism(row.name, row.about, make, "registered in this library")
    return found | {name: entry for name, entry in FIELD.items() if entry.is_there}


def field_names() -> list[str]:
    """Return the names that are taken, installed or not."""
    return [OPTIMAL, *(row.name for row in other_mechanisms()), *FIELD]


def _of_library(make: Maker, asked: Request) -> AnyMechanism:
    return make(replace(asked, vertices=VERTICES))


def _exact(asked: Request) -> AnyMechanism:
    return optimal(
        asked.places, asked.prior, asked.level, asked.dilation, solver=asked.solver,
        time_limit_s=asked.time_limit_s,
    )  # fmt: skip


def _spanner(asked: Request) -> AnyMechanism:
    return _exact(replace(asked, dilation=SPANNER))


def _dropped(factor: float) -> Maker:
    return lambda asked: dropped_constraints(
        asked.places, asked.prior, asked.level, factor * connecting_km(asked.places),
        time_limit_s=asked.time_limit_s,
    )  # fmt: skip


register_field(
    f"optimal, spanner {SPANNER:g}", f"constraints on a spanner of dilation {SPANNER:g}", _spanner,
    source="Bordenabe et al., CCS 2014, Section 3.3",
)  # fmt: skip
register_field(
    "joint optimum", "the largest adversary error within this epsilon and a fifth more loss",
    lambda asked: joint_optimum(
        asked.places, asked.prior, asked.level, MORE_LOSS * asked.loss,
        time_limit_s=asked.time_limit_s,
    ),
    source="Shokri, PETS 2015",
)  # fmt: skip
register_field(
    "distant pairs dropped", "constraints between near places only, at twice the least bound",
    _dropped(2.0), source="Shokri, technical report 2014",
)  # fmt: skip
register_field(
    "most pairs dropped", "constraints between near places only, at the least bound that connects",
    _dropped(1.0), source="Shokri, technical report 2014",
)  # fmt: skip
register_field(
    "cloaking", "reports the region of the place; about the loss of the optimal mechanism",
    lambda asked: cloaking_for_loss(asked.places, asked.prior, asked.loss),
    source="Gruteser and Grunwald, MobiSys 2003; Duckham and Kulik, Pervasive 2005",
)  # fmt: skip
register_field(
    "anonymity sets", f"planar Laplace noise that hides a place among a fixed set of {_IN_A_SET}",
    lambda asked: anonymity_sets(
        asked.places, _IN_A_SET, level_for(asked.places, _IN_A_SET, asked.level)
    ),
    source="Dewri, TMC 2012",
)  # fmt: skip
register_field(
    "qif", "the optimal mechanism as the package qif solves it, not repaired and not checked",
    optimal_by_qif, source="qif, a package of one of the authors", package="qif",
)  # fmt: skip
