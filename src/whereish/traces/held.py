"""Traces that are read once and hashed once, however often they are counted.

To find the area of a person, traces are counted in coarse tiles; then they are counted in cells of
that area. The rows that the first count has read are held in memory for the second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, replace

from whereish.lazy import pl
from whereish.parallel import read_ahead
from whereish.traces.cleaning import Funnel
from whereish.traces.source import Made, Progress, Traces

MOST_ROWS = 4_000_000  # 160 MB; larger sets are read again, so that memory stays bounded


@dataclass
class _Held:
    tables: list[pl.DataFrame] | None = None
    funnel: Funnel = field(default_factory=Funnel)
    digest: str | None = None


@dataclass(frozen=True)
class HeldTraces(Traces):
    """Traces whose rows and digest are kept after the first reading; see `hold`."""

    _held: _Held = field(default_factory=_Held, init=False, repr=False, compare=False)

    def map(
        self,
        function: Callable[[pl.DataFrame], Made],
        funnel: Funnel | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Made]:
        """Yield what a function makes of each batch, in order; the funnel is filled at the end."""
        funnel = Funnel() if funnel is None else funnel
        held = self._held
        if held.tables is not None:
            groups = tuple((table,) for table in held.tables)
            yield from read_ahead(groups, lambda table: iter([function(table)]))
            funnel.add(held.funnel)
            return
        tables: list[pl.DataFrame] = []
        seen, rows = Funnel(), 0
        for table, made in super().map(lambda table: (table, function(table)), seen, progress):
            rows += len(table)
            if rows <= MOST_ROWS:
                tables.append(table)
            else:
                tables.clear()
            yield made
        funnel.add(seen)
        if rows <= MOST_ROWS:
            held.tables, held.funnel = tables, seen

    def of_people(self, users: Collection[str]) -> Traces:
        """Return the rows of everybody if they are held; otherwise the files of these people."""
        if self._held.tables is not None:
            return self
        plain = Traces(**{one.name: getattr(self, one.name) for one in fields(Traces)})
        return plain.of_people(users)

    def digest(self) -> str:
        """Return the digest, computed at the first call."""
        if self._held.digest is None:
            self._held.digest = super().digest()
        return self._held.digest


def hold(traces: Traces, *, timed: bool = True) -> HeldTraces:
    """Return the same traces, to be read and hashed once; without times if they do not matter."""
    if traces.timed and not timed:
        traces = replace(traces, timed=False)
    if isinstance(traces, HeldTraces):
        return traces
    return HeldTraces(**{one.name: getattr(traces, one.name) for one in fields(Traces)})
