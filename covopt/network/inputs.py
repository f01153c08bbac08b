"""Evaluate a network on a table of numbers, or on a frame whose columns are found by name.

Where all neurons have one direction, points are sorted along it instead of being paired with every neuron.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covopt.checks.memory import SMALL, room
from covopt.checks.wording import listed
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import InputError


def as_table(X: Any, n_inputs: int, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return what a network is asked about as floats of shape (N, d); columns of a frame are found by name.

    Parameters
    ----------
    X : array_like or frame
        A vector is one feature of many points for one input, else one point.
    n_inputs : int
    names : tuple of str, optional
        Where all are x0, x1, … they were given by nobody, and columns count by their place.

    Raises
    ------
    InputError
        For another number of columns, and naming the columns that are missing.
    """
    columns = getattr(X, "columns", None)
    if names is not None and columns is not None:
        found = {str(name): name for name in columns}
        missing = [name for name in names if name not in found]
        if not missing:
            X = X[[found[name] for name in names]]
        elif names != tuple(f"x{j}" for j in range(len(names))):
            raise InputError(f"X has no column called {listed(missing)}; it has {listed(list(found))}.")
    X, _ = to_matrix("X", X)
    if X.ndim == 1:
        X = X[:, None] if n_inputs == 1 else X[None, :]
    if X.ndim != 2 or X.shape[1] != n_inputs:
        raise InputError(f"X has shape {X.shape}; this network takes (N, {n_inputs})")
    return X


def check_inputs(X: Any, n_inputs: int) -> np.ndarray:
    """Return the points as a float array of shape (N, d).

    Raises
    ------
    InputError
        For another number of columns, no rows, and entries that are not finite.
    """
    X = as_table(X, n_inputs)
    if len(X) == 0:
        raise InputError("X has no rows; give the points on which the network is to stay the same.")
    check_finite("X", X, None, remedy="Drop these rows")
    return X


PAIR = 16  # bytes
PAIRS_PER_PIECE = 5_000_000
MANY_PAIRS = 200_000_000
PARALLEL = 1e-14


def outputs(lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return σ(X̃ Wᵀ) V.

    Parameters
    ----------
    lifted : ndarray of shape (N, D)
    hidden : ndarray of shape (m, D)
    weights : ndarray of shape (m, k)

    Examples
    --------
    >>> outputs(np.array([[2.0, 1.0], [-3.0, 1.0]]), np.array([[1.0, 1.0]]), np.array([[2.0]]))
    array([[6.],
           [0.]])
    """
    found = None
    if len(lifted) * len(hidden) > MANY_PAIRS:
        found = _by_sorting(lifted, hidden, weights)
    if found is not None:
        return found
    return in_pieces(lambda rows: np.maximum(rows @ hidden.T, 0.0) @ weights, lifted, len(hidden))


def in_pieces(function: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, width: int) -> np.ndarray:
    """Return a function of rows, of as many at a time as the cache, or memory, holds.

    Parameters
    ----------
    function : callable
    rows : ndarray of shape (N, D)
    width : int
        Numbers that are held for a row.
    """
    small = PAIR * len(rows) * width <= SMALL
    most = PAIRS_PER_PIECE if small else room(PAIR * PAIRS_PER_PIECE) // PAIR
    length = max(1, most // max(1, width))
    pieces = [function(rows[start : start + length]) for start in range(0, max(1, len(rows)), length)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _by_sorting(lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """With w_j = (a_j u, b_j) the neurons that are active at x are those with their kink on one side of u·x."""
    constant = lifted[0, -1]
    if not (constant > 0.0 and (lifted[:, -1] == constant).all()):
        return None
    slopes = np.linalg.norm(hidden[:, :-1], axis=1)
    direction = hidden[slopes.argmax(), :-1] / slopes.max() if slopes.any() else None
    if direction is None:
        return None
    along = hidden[:, :-1] @ direction
    if np.abs(hidden[:, :-1] - np.outer(along, direction)).max() > PARALLEL * slopes.max():
        return None
    shift = hidden[:, -1] * constant
    where = lifted[:, :-1] @ direction
    found = np.zeros((len(lifted), weights.shape[1]))
    for side in (1.0, -1.0):
        chosen = side * along > 0.0
        kinks = -side * shift[chosen] / along[chosen] * side
        order = np.argsort(side * kinks, kind="stable")
        terms = weights[chosen][order] * np.abs(along[chosen][order])[:, None]
        counts = np.searchsorted((side * kinks)[order], side * where, side="right")
        # σ(a (s − t)) = |a| (±(s − t)) for kinks t passed; summed around a middle, so that little cancels
        middle = float(np.median(where))
        first = np.concatenate([np.zeros((1, terms.shape[1])), np.cumsum(terms, axis=0)])
        second = np.concatenate(
            [np.zeros((1, terms.shape[1])), np.cumsum(terms * (kinks[order] - middle)[:, None], axis=0)]
        )
        found += side * ((where - middle)[:, None] * first[counts] - second[counts])
    flat = along == 0.0
    return found + np.maximum(shift[flat], 0.0) @ weights[flat]
