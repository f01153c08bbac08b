"""The pricing problem of every solver and certificate: find the neuron that violates a dual point most.

For a dual point λ and unit neurons w the oracle maximises

    F(w) = ⟨λ, σ(X̃ w)⟩,      h(λ) = max over ‖w‖ = 1 of |F(w)|,

or, with k outputs and Λ of shape (N, k), the norm ‖Λᵀ σ(X̃ w)‖.

Rows on one line through the origin share a hyperplane, so the compiled kernels work with one row z_i per
line, one weight μ_i per row and a linear part g₀:   F(w) = ⟨g₀, w⟩ + Σ_i μ_i σ(z_i·w),
where row i with weights λ⁺ on the positive side and λ⁻ on the opposite ray contributes
λ⁺σ(t) + λ⁻σ(−t) = (λ⁺ + λ⁻)σ(t) − λ⁻t.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from covopt.checks import Brief
from covopt.checks.memory import room
from covopt.exact.rank import NEAR, first_of_each
from covopt.exact.rounding import lengths_up, operator_norm_up, transfer_up, up
from covopt.limits import PIECE

MOST_DIMENSIONS = 8  # the most in which boxes that are cut only along axes finish
MOST_KEPT = 64  # most points, neurons or bounds that a search keeps; it drops the oldest or the smallest
WORK = 1.6e10  # operations per unit of effort: some seconds
SHOWN = 20  # factor on the work of a proof, in boxes or updates, where a solve has already proved the goal
NODE = 2.5e5  # overhead per node of a search in Python, in operations


def affords(operations: float, effort: float = 1.0) -> int:
    """Return the node limit of a search for an effort: a count instead of a time, so that every machine agrees.

    Parameters
    ----------
    operations : float
        Arithmetic operations per node.
    effort : float

    Examples
    --------
    >>> affords(1e5), affords(0.0, 0.5)
    (45714, 32000)
    """
    return int(effort * WORK / (NODE + operations))


@dataclass(frozen=True, repr=False)
class Pricing(Brief):
    """Answer of an oracle.

    Attributes
    ----------
    neurons : ndarray of shape (m, D)
        Unit directions, best first by ``abs(values)``.
    values : ndarray of shape (m,)
        F at each neuron, signed: a positive value calls for a positive output weight. With k outputs the norm.
    upper_bound : float
        An upper bound on h(λ), rounding included, whatever ``exact`` says.
    exact : bool
        True when ``upper_bound`` is attained (to rounding) by one of the neurons.
    """

    neurons: np.ndarray
    values: np.ndarray
    upper_bound: float
    exact: bool


class Oracle(Protocol):
    """The interface through which solvers see neurons: ``price(dual) -> Pricing``."""

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima of |F|, or of the norm, and a valid bound on the largest.

        Parameters
        ----------
        dual : ndarray of shape (N,) or (N, k)
            One entry or row per row of the table.
        threshold : float
            Maxima below it may be left out; the best one is always returned.
        max_neurons : int, optional
            Return at most this many, the best first.
        complete : bool
            Return all local maxima where the oracle can; each oracle documents what it does.

        Raises
        ------
        InputError
            If ``dual`` has another shape, in oracles that check it.
        """
        ...


def heights(rows: np.ndarray, dual: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return Λᵀσ(Zw) for each neuron.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)
    points : ndarray of shape (m, r)

    Returns
    -------
    ndarray of shape (m,) or (m, k)

    Examples
    --------
    >>> heights(np.eye(2), np.array([3.0, 4.0]), np.array([[0.0, 1.0], [-1.0, 0.5]]))
    array([4., 2.])
    """
    pairs = len(rows) * len(points)
    pieces = -(-16 * pairs // max(room(16 * pairs, 0.1), 1)) if pairs else 1
    pieces = min(max(pieces, -(-pairs // PIECE), 1), max(1, len(points)))
    if pieces == 1:
        return np.maximum(points @ rows.T, 0.0) @ dual
    return np.concatenate([np.maximum(part @ rows.T, 0.0) @ dual for part in np.array_split(points, pieces)])


def ranked(neurons: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort neurons by |value|, best first, and keep each direction once.

    Parameters
    ----------
    neurons : ndarray of shape (m, r)
        Of length one.
    values : ndarray of shape (m,)

    Examples
    --------
    >>> ranked(np.eye(2)[[0, 1, 1]], np.array([1.0, -2.0, -2.0]))
    (array([[0., 1.],
           [1., 0.]]), array([-2.,  1.]))
    """
    order = np.argsort(-np.abs(values), kind="stable")
    neurons, values = neurons[order], values[order]
    first = first_of_each(neurons)
    return neurons[first], values[first]


def kept(
    neurons: np.ndarray, values: np.ndarray, threshold: float, max_neurons: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Keep the neurons, sorted best first, whose |value| reaches a threshold, and always the best one.

    Examples
    --------
    >>> kept(np.eye(3), np.array([3.0, -2.0, 1.0]), 2.0)[1], kept(np.eye(3), np.array([3.0, -2.0, 1.0]), 9.0, 0)[1]
    (array([ 3., -2.]), array([3.]))
    """
    keep = np.abs(values) >= threshold
    keep[:1] = True
    if max_neurons is not None:
        keep[max(max_neurons, 1) :] = False
    return neurons[keep], values[keep]


def settle_doubts(settled: float, doubts: list[tuple[float, float]], n_descents: int) -> float:
    """Bound a maximum over pieces where rounding leaves in doubt whether some pieces contain their maximisers.

    A piece in doubt may be counted with its own maximum, or left out. If one that is left out holds the maximiser, a
    piece of lower dimension comes within its gap; at most ``n_descents`` such descents lead to a piece that counts.
    So for every choice of pieces to leave out, the maximum is at most the largest of those that count plus
    ``n_descents`` times the largest gap of those left out. The best choice leaves out the pieces of smallest gap.

    Parameters
    ----------
    settled : float
        The largest maximum of the pieces that are not in doubt.
    doubts : list of (float, float)
        Maximum and gap of the others.
    n_descents : int

    Returns
    -------
    float

    Examples
    --------
    >>> settle_doubts(1.0, [(1.5, 1e-3), (3.0, 1e-4), (0.5, 0.2)], 2)
    1.002
    """
    above = sorted((gap, top) for top, gap in doubts if top > settled)
    largest = settled  # of the pieces that count
    bound = max([settled] + [top for _, top in above])
    for gap, top in reversed(above):
        bound = min(bound, largest + n_descents * gap)
        largest = max(largest, top)
    return bound


class Proved(NamedTuple):
    """The bound h(Λ) ≤ value for rows (N, r) and Λ (N, k), proved during a solve and kept for its certificate.

    A search by boxes that took ten seconds cannot be repeated in the second after an interrupt. Its bound holds for
    its rows and its dual. The user's rows and dual are the same in other coordinates and units, and the bound holds
    for them after a transfer (:mod:`covopt.exact.rounding`) whose error is computed from both.
    """

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
    known = _proved.get()
    if known is not None and math.isfinite(value):
        known.append(Proved(rows, dual.reshape(len(dual), -1).copy(), value))


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
        own = known.rows.any(axis=1) & known.dual.any(axis=1)
        if own.sum() == live.sum() > 0:
            before = Proved(known.rows[own], known.dual[own], known.value)
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
