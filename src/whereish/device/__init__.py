"""DRAW: the code that handles true locations: reporter, tracker, privacy ledger, tables."""

from whereish.device.budget_manager import BudgetManager
from whereish.device.draw_schedule import even_shares, tapered_epsilons
from whereish.device.ledger import Entry, Ledger
from whereish.device.ledger_file import PERIODS
from whereish.device.reporter import Report, Reporter
from whereish.device.tables import Obfuscated, obfuscate_table
from whereish.device.trace_rows import OverTime
from whereish.device.tracker import TrackedReport, Tracker

__all__ = [
    "PERIODS",
    "BudgetManager",
    "Entry",
    "Ledger",
    "Obfuscated",
    "OverTime",
    "Report",
    "Reporter",
    "TrackedReport",
    "Tracker",
    "even_shares",
    "obfuscate_table",
    "tapered_epsilons",
]
