"""TRUST: what happens between a solver's answer and the numbers that may be sampled."""

from whereish.release.files import check_writable, write_whole
from whereish.release.repair import Repaired, repair

__all__ = ["Repaired", "check_writable", "repair", "write_whole"]
