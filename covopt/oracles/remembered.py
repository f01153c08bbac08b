"""Bounds on h(Λ) proved during a solve, kept for its certificate, which may have no time to prove them again.

A search by boxes that took ten seconds cannot be repeated in the second after an interrupt. Its bound holds for its
rows and its dual. The user's rows and dual are the same in other coordinates and units. The bound holds for them
after a transfer (:mod:`covopt.exact.rounding`) whose error is computed from both, wherever they come from.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from covopt.exact.rank import NEAR
from covopt.exact.rounding import lengths_up, operator_norm_up, transfer_up, up
from covopt.oracles.base import MOST_KEPT


class Proved(NamedTuple):
    """The proved bound h(Λ) ≤ value for rows (N, r) and Λ (N, k)."""

    rows: np.ndarray
    dual: np.ndarray
    value: float


_proved: ContextVar[deque[Proved] | None] = ContextVar("proved bounds", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Keep the bounds proved in the block for the certificate at its end."""
    token = _proved.set(deque(maxlen=MOST_KEPT))
    try:
        yield
    finally:
        _proved.reset(token)


def remember(rows: np.ndarray, dual: np.ndarray, value: float) -> None:
    """Store a bound proved for rows that must not change later; do nothing outside of :func:`remembering`."""
    kept = _proved.get()
    if kept is not None and math.isfinite(value):
        kept.append(Proved(rows, dual.reshape(len(dual), -1).copy(), value))


def recall(rows: np.ndarray, dual: np.ndarray) -> float:
    """Return the best bound on h that the stored bounds give for these rows and this dual, else infinity.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    dual : ndarray of shape (N,) or (N, k)

    Examples
    --------
    >>> turned = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0]])
    >>> with remembering():
    ...     remember(np.eye(2), np.array([3.0, 4.0]), 5.0)
    ...     2.5 <= recall(turned, np.array([1.5, 2.0])) < 2.5 + 1e-12
    True
    >>> recall(np.eye(2), np.array([3.0, 4.0]))
    inf
    """
    outputs, best = dual.reshape(len(dual), -1), math.inf
    live = rows.any(axis=1) & outputs.any(axis=1)
    for known in _proved.get() or ():
        kept = known.rows.any(axis=1) & known.dual.any(axis=1)
        if kept.sum() == live.sum() > 0:
            before = Proved(known.rows[kept], known.dual[kept], known.value)
            best = min(_transferred(rows[live], outputs[live], before), best)
    return best


@np.errstate(all="ignore")
def _transferred(rows: np.ndarray, dual: np.ndarray, known: Proved) -> float:
    """Bound h(Λ) on rows x_i ≈ V y_i with Λ_i ≈ U M_i by h(M) on y_i, for any V and U.

    Since σ is homogeneous, (s y_i, M_i / s) may replace (y_i, M_i), with a power of two s for each row.
    """
    ratio = np.linalg.norm(known.dual, axis=1) / np.linalg.norm(dual, axis=1)
    power = np.rint(np.log2(ratio / ratio[0]))
    if not np.abs(power).max() < 900.0:
        return math.inf
    own_rows = np.ldexp(known.rows, power.astype(int)[:, None])
    own_dual = np.ldexp(known.dual, -power.astype(int)[:, None])
    turn = np.linalg.lstsq(own_dual, dual, rcond=None)[0].T
    if not np.abs(dual - own_dual @ turn.T).max() <= NEAR * np.abs(dual).max():
        return math.inf
    basis = np.linalg.lstsq(own_rows, rows, rcond=None)[0].T
    if not np.isfinite(basis).all():
        return math.inf
    factor = operator_norm_up(turn)
    paid = transfer_up(dual, lengths_up(rows), turn, own_dual)
    paid = up(paid + up(factor * transfer_up(rows, lengths_up(own_dual), basis, own_rows)))
    found = up(up(up(factor * operator_norm_up(basis)) * known.value) + paid)
    return found if found >= 0.0 else math.inf
