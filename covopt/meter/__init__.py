"""Bound the gap of a trained network to the optimum: upper bounds by explicit networks, a certified lower bound."""

from covopt.meter.gap import gap
from covopt.meter.report import Gap

__all__ = ["Gap", "gap"]
