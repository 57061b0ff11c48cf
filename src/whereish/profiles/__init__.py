"""WHO: profiles from files, and the embedded city."""

from whereish.profiles.city import embedded_city
from whereish.profiles.profile import Backdrop, Profile
from whereish.profiles.table import read_profile
from whereish.profiles.traces import Funnel, Traces, open_traces

__all__ = [
    "Backdrop",
    "Funnel",
    "Profile",
    "Traces",
    "embedded_city",
    "open_traces",
    "read_profile",
]
