"""MANY: a certified mechanism for everybody in a folder or a table, on processes or a cluster."""

from whereish.batch.engines import Engine, LocalEngine, RayEngine, open_engine
from whereish.batch.journal import Row
from whereish.batch.output import Output, open_output
from whereish.batch.run import Batch, run_batch

__all__ = [
    "Batch",
    "Engine",
    "LocalEngine",
    "Output",
    "RayEngine",
    "Row",
    "open_engine",
    "open_output",
    "run_batch",
]
