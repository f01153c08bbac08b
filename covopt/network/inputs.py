"""What networks are asked about: tables of numbers, and frames whose columns are found by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.arrays import to_doubles
from covopt.checks.wording import listed
from covopt.errors import InputError


def check_inputs(X: Any, n_inputs: int) -> np.ndarray:
    """Return the points as a float array of shape (N, d).

    Raises
    ------
    InputError
        For another number of columns, no rows, and entries that are not finite.
    """
    X = to_doubles(X)
    if X.ndim != 2 or X.shape[1] != n_inputs:
        raise InputError(f"X has shape {X.shape}; this network takes (N, {n_inputs})")
    if len(X) == 0:
        raise InputError("X has no rows; give the points on which the network is to stay the same.")
    if not np.isfinite(X).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
        raise InputError(
            f"X row {row}, column {column} (counting from 0) is {X[row, column]}; drop that row."
        )
    return X


def by_name(X: Any, names: tuple[str, ...] | None) -> Any:
    """Return the columns of a frame in the order of ``names``; what has no columns, or none called so, as it is.

    Parameters
    ----------
    X : array_like or frame
    names : tuple of str, optional
        Where all are x0, x1, … they were given by nobody, and columns count by their place.

    Raises
    ------
    InputError
        Naming the columns that are missing.
    """
    columns = getattr(X, "columns", None)
    if names is None or columns is None:
        return X
    found = {str(name): name for name in columns}
    missing = [name for name in names if name not in found]
    if not missing:
        return X[[found[name] for name in names]]
    if names == tuple(f"x{j}" for j in range(len(names))):
        return X
    raise InputError(f"X has no column called {listed(missing)}; it has {listed(list(found))}.")
