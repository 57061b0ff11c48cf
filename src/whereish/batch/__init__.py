"""MANY: a certified mechanism for everybody in a folder or a table, on processes or a cluster."""

from whereish.batch.engines import LocalEngine, open_engine
from whereish.batch.journal import Row
from whereish.batch.output import Output, open_output
from whereish.batch.run import Batch, run_batch
from whereish.distributed.ray_batch import RayEngine
from whereish.parallel import Engine

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
