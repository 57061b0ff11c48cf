"""Pictures of profiles, mechanisms and comparisons, as PNG, PDF or SVG."""

from whereish.plotting.attacks import draw_exposure
from whereish.plotting.elastic import draw_elastic
from whereish.plotting.estimates import draw_estimate
from whereish.plotting.everywhere import draw_everywhere
from whereish.plotting.pictures import (
    KINDS,
    draw_comparison,
    draw_mechanism,
    draw_profile,
    picture_kind,
)
from whereish.plotting.trade_off import plot_trade_off

__all__ = [
    "KINDS", "draw_comparison", "draw_elastic", "draw_estimate", "draw_everywhere", "draw_exposure",
    "draw_mechanism", "draw_profile", "picture_kind", "plot_trade_off",
]  # fmt: skip
