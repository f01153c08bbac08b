"""A point inside a cell, by a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

from covopt.arrangement.reduction import lift
from covopt.errors import InputError

INSIDE = 1e-7


def interior_point(X_lifted: Any, pattern: Any) -> np.ndarray:
    r"""Return a point strictly inside a cell, as deep as a linear program can put it.

    .. math:: \max_{t, w} t \quad \text{s.t.} \quad \pm x_i \cdot w \ge t \|x_i\|,\; |w_j| \le 1

    Parameters
    ----------
    X_lifted : array of shape (N, D)
        Rows with their bias coordinate, if any.
    pattern : array of shape (N,), bool
        Activation pattern; zero rows must be False.

    Returns
    -------
    ndarray of shape (D,)

    Raises
    ------
    InputError
        If the pattern has the wrong length or is not a cell of the rows.

    Examples
    --------
    >>> interior_point([[1.0, 0.0], [0.0, 1.0]], [True, False])
    array([ 1., -1.])
    """
    rows, _ = lift(X_lifted, 0.0)
    signs = np.asarray(pattern, dtype=bool)
    if signs.shape != (len(rows),):
        raise InputError(f"pattern must have one entry per row, {len(rows)}; got shape {signs.shape}")
    norms = np.linalg.norm(rows, axis=1)
    live = norms > 0
    if signs[~live].any():
        raise InputError(f"row {np.flatnonzero(~live & signs)[0]} is zero: no point activates it")
    if not live.any():
        return np.zeros(rows.shape[1])
    units = np.where(signs[live], 1.0, -1.0)[:, None] * rows[live] / norms[live, None]
    cost = np.append(np.zeros(units.shape[1]), -1.0)
    bounds = [*[(-1.0, 1.0)] * units.shape[1], (0.0, 1.0)]
    found = linprog(cost, np.column_stack([-units, np.ones(len(units))]), np.zeros(len(units)), bounds=bounds)
    if found.x is None or found.x[-1] <= INSIDE:
        raise InputError("pattern is not a cell of these rows: no point has these signs")
    return np.asarray(found.x[:-1])
