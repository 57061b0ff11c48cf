"""READ: traces of where people were, from the files that they have; one reader for each format."""

from whereish.traces.cache import cache_folder, forget
from whereish.traces.cleaning import Funnel
from whereish.traces.detection import KINDS
from whereish.traces.source import Traces, check_zone, open_traces

__all__ = [
    "KINDS",
    "Funnel",
    "Traces",
    "cache_folder",
    "check_zone",
    "forget",
    "open_traces",
]
