"""WHO: profiles from files, and the embedded city."""

from whereish.profiles.city import embedded_city
from whereish.profiles.profile import Backdrop, Profile
from whereish.profiles.table import read_profile

__all__ = ["Backdrop", "Profile", "embedded_city", "read_profile"]
