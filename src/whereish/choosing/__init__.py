"""CHOOSE: which epsilon meets a target, and what each level costs and hides."""

from whereish.choosing.level import ChosenLevel, epsilon_for
from whereish.choosing.trade_off import TradeOff, TradeOffRow, trade_off, usual_levels

__all__ = [
    "ChosenLevel",
    "TradeOff",
    "TradeOffRow",
    "epsilon_for",
    "trade_off",
    "usual_levels",
]
