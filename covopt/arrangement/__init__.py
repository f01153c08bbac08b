"""Activation cells of a table of points: count, enumerate and find interior points."""

from covopt.arrangement.counting import count_cells
from covopt.arrangement.enumeration import Arrangement, Separation, enumerate_cells, iter_cells
from covopt.arrangement.reduction import interior_point

__all__ = [
    "Arrangement",
    "Separation",
    "count_cells",
    "enumerate_cells",
    "interior_point",
    "iter_cells",
]
