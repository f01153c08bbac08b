"""How far a trained network is from the best one: explicit networks from above, a certificate from below."""

from covopt.meter.gap import gap
from covopt.meter.report import Gap

__all__ = ["Gap", "gap"]
