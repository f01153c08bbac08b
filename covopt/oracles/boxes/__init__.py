"""Branch and bound on boxes of directions: certified bounds on the dual norm, whatever the scales of the rows.

The directions u are covered by 2r charts u_a = ±1; each chart is a cube, cut in halves until a linear bound shows
G(u) ≤ H‖u‖ on every box. One output: :mod:`.leaf` bounds a box, :mod:`.kernel` walks the tree of boxes,
:mod:`.scalar` bounds the error of the coordinates, :mod:`.search` chooses H, runs the roots in threads and prices.
Several outputs: :mod:`.fan`. Many dimensions, and duals of many small rows in any dimension: :mod:`.quadratic` bounds
a box by an eigenvalue, :mod:`.quadratic_search` cuts the worst one.
"""
