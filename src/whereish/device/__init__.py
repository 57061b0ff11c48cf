"""DRAW: the code that handles true locations: reporter, privacy ledger, obfuscated tables."""

from whereish.device.ledger import Entry, Ledger
from whereish.device.ledger_file import PERIODS
from whereish.device.reporter import Report, Reporter
from whereish.device.tables import Obfuscated, obfuscate_table

__all__ = ["PERIODS", "Entry", "Ledger", "Obfuscated", "Report", "Reporter", "obfuscate_table"]
