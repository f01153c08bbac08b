"""Branch and bound on boxes of directions: certified bounds on the gauge, whatever the scales of the rows.

The directions u are covered by 2r charts u_a = ±1; each chart is a cube, cut in halves until a linear bound shows
G(u) ≤ H‖u‖ on every box. One output: :mod:`.leaf` bounds a box, :mod:`.kernel` walks the tree of boxes,
:mod:`.search` runs the roots in threads, :mod:`covopt.oracles.coordinates` pays for the coordinates,
:mod:`.gauge` chooses H, :mod:`.oracle` prices. Several outputs: :mod:`.fan`. Many dimensions, and
duals of many small rows in any: :mod:`.quadratic` bounds a box by an eigenvalue, :mod:`.moments` cuts the worst one.
"""

from covopt.oracles.cones.gauge import BoxBound, box_gauge
from covopt.oracles.cones.oracle import BoxOracle

__all__ = ["BoxBound", "BoxOracle", "box_gauge"]
