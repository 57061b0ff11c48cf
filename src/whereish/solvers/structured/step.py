"""The iterate of a structured solve, and the interior-point steps over all blocks.

The blocks are held by a team. What is known here is what they have in common: what each input
pays, how near the centre is to the end, and which outputs are in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.solvers.structured import passes
from whereish.solvers.structured.blocks import Program, first_room
from whereish.solvers.structured.communicator import Alone, Team, added_up
from whereish.solvers.structured.partition import Numbers, Rows, Sums, Told
from whereish.solvers.structured.warm_start import likely_columns

_STEP = 0.95
_CORRECTORS = 3
_LONG = 1.5
_DYING = 1e-4


class Iterate:
    """Columns and multipliers of the outputs in use, in so many parts."""

    def __init__(self, program: Program, outputs: Numbers, team: Team, parts: int) -> None:
        self.program, self.team, self.parts = program, team, parts
        self.kept: set[int] = set()
        part = np.arange(len(outputs)) % parts
        order = np.argsort(part, kind="stable")
        self.used, self.part = outputs[order], part[order]
        start = program.start[self.used]
        ground = program.ground
        likely = likely_columns(program.prior, ground.loss[:, self.used], ground.tight)
        start = 0.5 * (start / start.sum(axis=0) + likely)
        loss = float((program.cost[self.used] * start).sum())
        self.mu = 3.0 * loss / (len(outputs) * len(program.first))
        self.room = first_room(program)
        self.b = self._sum(team.ask("begin", self.used, self.part, start, self.mu))
        self._hear(team.ask("settle", self.b))

    def _sum(self, told: list[Sums]) -> Array:
        if len(told) == 1 and len(told[0]) == 1:
            return next(iter(told[0].values()))
        known = {node: value for one in told for node, value in one.items()}
        return added_up(known, (0, self.parts))

    def _hear(self, told: list[Told]) -> None:
        """Put together what all say of their blocks."""
        alone = len(told) == 1
        self.reduced = (
            told[0].reduced if alone else np.minimum.reduce([one.reduced for one in told])
        )
        self.loss = float(self._sum([one.loss for one in told])[0])
        self.totals = self._sum([one.totals for one in told])
        self.largest = told[0].largest if alone else np.concatenate([one.largest for one in told])
        self.most = max(one.most for one in told)
        self.rows = sum(one.rows for one in told)

    def step(self) -> bool:
        """Take one predictor-corrector step; False if the numbers no longer allow one."""
        team = self.team
        if self.parts == 1 and isinstance(team, Alone):
            stepped, self.b, self.mu, now = team.share.step_alone(
                self.b, self.mu, _STEP, _CORRECTORS, _LONG
            )
            self._hear([now])
            return bool(stepped)
        told = team.ask("factor", self.b)
        if not all(could for could, _, _ in told):
            return False
        root, trouble = passes.factor_coupling(self._sum([matrix for _, matrix, _ in told]))
        if trouble != 0:
            return False

        def direct(push: list[Sums], share: float, trial: bool, affine: bool) -> tuple[Any, ...]:
            db = passes.couple(root, self._sum(push))
            primal, other, products = zip(*team.ask("direct", db, trial, affine), strict=True)
            lengths = (passes.longest(np.max(inverse), share) for inverse in (primal, other))
            return db, *lengths, self._sum(list(products)) if affine else None

        push = [push for _, _, push in told]
        _, primal, other, products = direct(push, 1.0, trial=False, affine=True)
        aim = passes.target(products, primal, other, self.rows)
        push = team.ask("correct", aim, 0.0, 0.0, False)
        db, primal, other, _ = direct(push, _STEP, trial=False, affine=False)
        take = False
        for _ in range(_CORRECTORS):
            if primal + other > _LONG:
                break
            further, beyond = passes.further_than(primal), passes.further_than(other)
            push = team.ask("correct", aim, further, beyond, take)
            tried = direct(push, _STEP, trial=True, affine=False)
            take = tried[1] + tried[2] > primal + other + 0.02
            if not take:
                break
            db, primal, other, _ = tried
        limits, finite, after = zip(*team.ask("limit", bool(take)), strict=True)
        primal = min(primal, passes.longest(np.max(limits), _STEP))
        if not (np.isfinite(primal + other) and np.isfinite(db).all() and all(finite)):
            return False
        self.b = self.b + other * db
        self.mu = passes.after(self._sum(list(after)), primal, other) / self.rows
        self._hear(team.ask("advance", primal, other, self.mu, self.b))
        return True

    def drop(self) -> None:
        """Merge the outputs that are dying into others: their blocks break down first.

        The sum of two private columns is a private column, so nothing is lost by it.
        """
        dying = self.largest < _DYING
        if not dying.any():
            return
        dying &= ~np.isin(self.used, list(self.kept))
        if not dying.any() or dying.all():
            return
        gone, stay = self.used[dying], self.used[~dying]
        columns = np.concatenate(self.team.ask("columns", gone))
        costs = np.einsum("ax,bx->ab", columns, self.program.cost[stay])
        into = stay[costs.argmin(axis=1)]
        self.used, self.part = stay, self.part[~dying]
        self._hear(self.team.ask("drop", gone, into, columns))

    def grow(self) -> None:
        """Make room for more rows where a block has filled its own: it could not go on."""
        most = len(self.program.pairs.left)
        if self.most < self.room or self.room == most:
            return
        self.room = min(2 * self.room, most)
        self.team.ask("grow", self.room)

    def add(self, outputs: Numbers) -> None:
        """Take more outputs into use, each into the part that has the fewest."""
        held = np.bincount(self.part, minlength=self.parts)
        part = np.empty(len(outputs), np.int64)
        for at in range(len(outputs)):
            part[at] = held.argmin()
            held[part[at]] += 1
        mine = [(part >= low) & (part < high) for low, high in self.team.spans]
        told = self.team.ask_each(
            "add", [(self.b, self.mu, outputs[those], part[those]) for those in mine]
        )
        part = np.r_[self.part, part]
        order = np.argsort(part, kind="stable")
        self.used, self.part = np.r_[self.used, outputs][order], part[order]
        self._hear(told)

    def snapshot(self) -> tuple[Any, ...]:
        """Have everything remembered that `restore` needs. Only the last one is."""
        self.team.ask("snapshot")
        return self.used, self.part, self.b, self.mu, self.room

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Go back to where `snapshot` was taken."""
        self.used, self.part, self.b, self.mu, self.room = snapshot
        self._hear(self.team.ask("restore"))

    def private(self) -> tuple[float, float]:
        """Find the mechanism nearby that is private on all pairs.

        Return its loss, and the share of the interior point in it.
        """
        interior = self.program.start[self.used].sum(axis=0)
        shares, both = zip(*self.team.ask("private", self.totals, interior), strict=True)
        loss, inside = self._sum(list(both))
        share = max(shares)
        return float(loss + share * (inside - loss)), share

    def keep(self, share: float) -> None:
        """Have what was found remembered as the best so far."""
        self.team.ask("keep", share)

    def found(self) -> tuple[Numbers, Array]:
        """Return the outputs of the best so far, and its (outputs, inputs) matrix."""
        outputs, columns = zip(*self.team.ask("found"), strict=True)
        return np.concatenate(outputs), np.concatenate(columns)

    def multipliers(self, final: bool) -> tuple[Array, list[Rows]]:
        """Return the least c - A'y of any output in use, and the multipliers y if wanted."""
        reduced, rows = zip(*self.team.ask("multipliers", self.b, final), strict=True)
        return np.minimum.reduce(reduced), [one for one in rows if one is not None]

    def prove(
        self, outputs: Numbers, bound: Array, enough: float, thorough: bool, final: bool
    ) -> tuple[Array, Array, list[Rows]]:
        """Prove that outputs left out are useless, see `partition.Share.prove`."""
        return self._of_outputs("prove", outputs, bound, enough, thorough, final)

    def price(
        self, outputs: Numbers, bound: Array, enough: float, final: bool
    ) -> tuple[Array, Array, list[Rows]]:
        """Price outputs left out by Newton's method, see `Share.price`."""
        return self._of_outputs("price", outputs, bound, enough, final)

    def _of_outputs(
        self, what: str, outputs: Numbers, *arguments: Any
    ) -> tuple[Array, Array, list[Rows]]:
        """Share a question about outputs out among all members."""
        cuts: list[NDArray[np.int64]] = np.array_split(outputs, len(self.team.spans))
        told = self.team.ask_each(what, [(cut, *arguments) for cut in cuts])
        each, low, rows = zip(*told, strict=True)
        return (
            np.concatenate(each),
            np.minimum.reduce(low),
            [one for one in rows if one is not None],
        )
