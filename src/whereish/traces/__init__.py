"""READ: where people were and when, from files; one reader for each format."""

from whereish.day_periods import check_zone
from whereish.traces.cache import cache_folder, forget
from whereish.traces.cleaning import Funnel
from whereish.traces.held import hold
from whereish.traces.readers import KINDS, READERS, Options, Reader, register
from whereish.traces.source import Traces, open_traces

__all__ = [
    "KINDS", "READERS", "Funnel", "Options", "Reader", "Traces", "cache_folder", "check_zone",
    "forget", "hold", "open_traces", "register",
]  # fmt: skip
