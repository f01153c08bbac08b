"""Reduction of the user's table to the solver's problem and back: redundant rows, rank, units.

:func:`reduce_data` and :func:`reduce_fit` apply; a :class:`Reduction` inverts networks and duals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr

from covopt.data import Data, row_space
from covopt.data.tabular import RowNames
from covopt.errors import InputError
from covopt.exact.far_rows import FarRows
from covopt.exact.rank import ATOMS, COMPUTED, FOUND, NEAR, merge_lines, numerical_rank
from covopt.exact.rounding import EPS, TINY, exponents
from covopt.losses import Loss
from covopt.losses.base import as_columns
from covopt.problems.problem import Problem

STILL_FAR = 2.0**20  # 1/ρ that far rows are given (exact/far_rows): constants still cost next to nothing
FARTHER = 2.0**23  # with a free output bias: constants weigh more; more still makes yes and no hard
LEAST = 1e-100  # least spread of points over the largest row, least λ over λ_max: below, squares underflow


@dataclass(frozen=True)
class Reduction:
    """How the reduced problem relates to the user's units.

    Reduced rows are Z = X̃[keep] V / s_x with V an orthonormal basis of the row space of X̃, reduced targets
    Y[keep] U / s_y with U orthonormal: a basis of the row space of Y where its rank is below k, else the identity
    (None). A unit neuron u stands for w = V u, an output weight c' for c = (s_y / s_x) U c', an offset B' for
    B = s_y U B', a dual Λ' for Λ = Λ' Uᵀ / s_x on the kept rows and zero elsewhere; since ‖U v‖ = ‖v‖ neither costs
    nor h(Λ) change. Without a bias f(c x) = c f(x), c > 0: each kept row may be divided by a power of two of its own
    (``lengths``), and its target with it; its dual is, too.
    """

    keep: np.ndarray
    n_samples: int
    basis: np.ndarray
    row_scale: float
    target_scale: float
    outputs: np.ndarray | None = None
    lengths: np.ndarray | None = None

    @property
    def value_scale(self) -> float:
        """Factor from the reduced primal value to the user's Σ|c_j|‖w_j‖ (+ ½b²)."""
        return self.target_scale / self.row_scale

    def invert_network(
        self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return unit neurons (m, D), output weights (m, k) and offset (k,) in the user's units."""
        return (
            neurons @ self.basis.T,
            self.raise_outputs(weights) * self.value_scale,
            self.raise_outputs(offset) * self.target_scale,
        )

    @property
    def cost_scale(self) -> float:
        """Factor from the reduced primal value to what the network costs, ‖W‖²."""
        return 2.0 * self.value_scale

    def apply_network(
        self, neurons: np.ndarray, weights: np.ndarray, offset: float | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return neurons (m, r) of cost one, weights (m, q) and offset (q,) of the reduced problem."""
        units, scaled = self.normalise(
            self.lower_neurons(neurons), self._lower(as_columns(weights)) / self.value_scale
        )
        return units, scaled, self._lower(np.atleast_1d(offset)) / self.target_scale

    def normalise(self, neurons: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scale reduced neurons to cost one, and their weights accordingly; drop those of length zero."""
        lengths = np.linalg.norm(neurons, axis=1)
        live = lengths > 0
        return neurons[live] / lengths[live, None], weights[live] * lengths[live, None]

    @property
    def is_far(self) -> bool:
        """Whether the rows were brought closer."""
        squares = np.einsum("ij,ij->j", self.basis, self.basis)
        return bool(squares.min(initial=1.0) < 0.5)

    def lower_neurons(self, neurons: np.ndarray) -> np.ndarray:
        """Return neurons (m, D) in the coordinates of the reduced problem."""
        return neurons @ (self.basis / np.einsum("ij,ij->j", self.basis, self.basis))

    def invert_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the dual on all N rows in the user's units, (N, k)."""
        raised = self.raise_outputs(dual)
        full = np.zeros((self.n_samples, raised.shape[1]))
        full[self.keep] = raised / self._sizes
        return full

    def invert_low(self, low: np.ndarray | None) -> np.ndarray | None:
        """Return the low-order doubles of a dual on all N rows; None if there are none, or outputs were rotated."""
        return None if low is None or self.outputs is not None else self.invert_dual(low)

    def apply_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the reduced dual (n, q) of a dual in the user's units that vanishes on dropped rows."""
        return self._lower(as_columns(dual)[self.keep]) * self._sizes

    @property
    def _sizes(self) -> Any:
        """Sizes that the rows were divided by."""
        return self.row_scale * (1.0 if self.lengths is None else self.lengths[:, None])

    def raise_outputs(self, values: np.ndarray) -> np.ndarray:
        """Return vectors of the reduced outputs as vectors of the user's."""
        return values if self.outputs is None else values @ self.outputs.T

    def _lower(self, values: np.ndarray) -> np.ndarray:
        return values if self.outputs is None else values @ self.outputs


def reduce_data(data: Data, output_bias: str, *, even: bool = True) -> tuple[Problem, Reduction]:
    """Drop redundant rows, reduce to the rank, scale rows and targets to size one.

    Parameters
    ----------
    data : Data
        Contradictory rows were refused when it was made.
    output_bias : {"none", "penalized", "free"}
    even : bool
        Whether rows of very different lengths are scaled to about the same length; only without a bias.

    Raises
    ------
    InputError
        When opposite points forbid interpolation (see :func:`opposite_rows`), or the numbers are so large or small
        that the cost is outside the range of double precision.
    """
    keep = data.independent_rows
    far = FARTHER if output_bias == "free" else STILL_FAR
    basis, rows = reduce_rows(data.lifted[keep], data.basis, far)
    targets, outputs = reduce_outputs(data.Y)
    row_scale, target_scale = _longest(rows), float(np.abs(targets[keep]).max(initial=0.0)) or 1.0
    check_size("Y", "the largest target is", target_scale)
    check_size("Y", "measured in units of X the targets are", target_scale / row_scale)
    # powers of two: rows that agree to ten digits keep the digits in which they differ
    row_scale, target_scale = _power_of_two(row_scale), _power_of_two(target_scale)
    check_rows(data.lifted[keep])
    check_spread(data.lifted[keep])
    if data.bias == 0 and len(keep):
        every = np.zeros((data.n_samples, basis.shape[1]))
        every[keep] = rows / row_scale
        left = opposite_rows(every, targets / target_scale, keep, data.row_names)
        keep, rows = left, rows[np.isin(keep, left)]
    rows = rows / row_scale
    offset_cost = _offset_cost(output_bias, data.bias, row_scale, target_scale)
    # relative to the least cost of neurons
    if len(keep) and offset_cost < EPS * float(np.ptp(targets[keep], axis=0).max()) / target_scale:
        offset_cost = 0.0  # solved as free: Λᵀ1 = 0 to more digits than a double has
    lengths = None
    goals = targets[keep]
    norms = np.linalg.norm(rows, axis=1)
    if even and data.bias == 0 and norms.max(initial=0.0) > norms.min(initial=np.inf) / NEAR:
        lengths = np.ldexp(1.0, exponents(norms[:, None]))
        rows = rows / lengths[:, None]
        goals = goals / lengths[:, None]
        target_scale = _power_of_two(float(np.abs(goals).max()) or 1.0)
        check_size("Y", "measured in units of X the targets are", target_scale / row_scale)
    problem = Problem.through(rows, goals / target_scale, offset_cost)
    return problem, Reduction(keep, data.n_samples, basis, row_scale, target_scale, outputs, lengths)


def reduce_fit(data: Data, loss: Loss, lam: float, output_bias: str) -> tuple[Problem, Reduction]:
    """Leave out samples without weight, reduce rows and outputs to their rank, scale the rows to size one.

    Rows of one point or ray all stay: each has its own loss. Targets are not scaled, so that the loss keeps its
    units. The outputs of the softmax lose the direction in which nothing changes.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to ``data.Y``.
    lam : float
        λ.
    output_bias : {"none", "penalized", "free"}

    Raises
    ------
    InputError
        When the numbers are so large or small that they leave the range of double precision.
    """
    keep = np.flatnonzero(loss.weights[:, 0] > 0)
    # without the rows of weight zero the rank may fall, and oracles take rows of full rank
    basis = data.basis if len(keep) == data.n_samples else row_space(data.lifted[keep])
    outputs = loss.output_basis()
    if loss.is_quadratic and loss.targets.shape[1] > 1:
        outputs = reduce_outputs(loss.targets[keep])[1]
    rows = data.lifted[keep] @ basis
    row_scale = _longest(rows)
    check_rows(rows)
    strength = 2.0 * lam / row_scale
    check_size("lam", "measured in units of X it is", strength)
    part = loss.take(keep)
    # a sample's probabilities are sums of its dual's outputs: below this share of their size they are rounding errors
    part.floor = ATOMS * min(1.0, strength / float(part.weights.max()))
    price = _offset_cost(output_bias, data.bias, row_scale, 1.0)
    problem = Problem(rows / row_scale, part, strength, price, outputs)
    return problem, Reduction(keep, data.n_samples, basis, row_scale, 1.0, outputs)


def _longest(rows: np.ndarray) -> float:
    """Return the largest norm of a row, one if there is none."""
    with np.errstate(over="ignore"):
        longest = float(np.linalg.norm(rows, axis=1).max()) if rows.any() else 1.0
    check_size("X or bias", "the largest row has norm", longest)
    return longest


def _offset_cost(output_bias: str, bias: float, row_scale: float, target_scale: float) -> float:
    """Return ρ: the price ½ b² with b = B / β, in units of the reduced value."""
    if output_bias != "penalized":
        return np.inf if output_bias == "none" else 0.0
    price = (row_scale / bias) * (target_scale / bias)
    check_size("bias", "the price of the penalized output bias is", price)
    return price


def reduce_rows(
    lifted: np.ndarray, basis: np.ndarray, still_far: float = STILL_FAR
) -> tuple[np.ndarray, np.ndarray]:
    """Return V and X̃ V for a basis of the rows; rows far from the origin are brought closer.

    Parameters
    ----------
    lifted : ndarray of shape (N, D)
    basis : ndarray of shape (D, r)
    still_far : float
        1/ρ to which they are brought: distance over spread.

    Examples
    --------
    >>> years = np.column_stack([np.arange(1990.0, 2020.0), np.ones(30)])
    >>> reduce_rows(years, np.eye(2))[0]
    array([[1., 0.],
           [0., 1.]])
    """
    far = FarRows.of(lifted, still_far) if 2 < basis.shape[1] == lifted.shape[1] else None
    return (basis, lifted @ basis) if far is None else (far.basis, far.rows)


def _power_of_two(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)


def reduce_outputs(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Rotate the outputs so that their number is the rank of Y.

    Parameters
    ----------
    Y : ndarray of shape (N, k)

    Returns
    -------
    targets : ndarray of shape (N, rank)
        Y U.
    U : ndarray of shape (k, rank) or None
        Orthonormal columns; None when nothing is rotated.

    Examples
    --------
    >>> targets, U = reduce_outputs(np.array([[3.0, 4.0], [6.0, 8.0]]))
    >>> targets.shape, U.shape
    ((2, 1), (2, 1))
    """
    if Y.shape[1] == 1:
        return Y, None
    _, singular, right = np.linalg.svd(Y / (float(np.abs(Y).max()) or 1.0), full_matrices=False)
    rank = max(numerical_rank(singular, COMPUTED), 1)
    if rank == Y.shape[1]:
        return Y, None
    basis = right[:rank].T
    return Y @ basis, basis


def check_size(name: str, what: str, value: float) -> None:
    """Refuse numbers so large or small that computations with them leave the range of double precision."""
    if not TINY <= value <= 1.0 / TINY:
        raise InputError(
            f"{name}: {what} {value:.3g}, outside of the range {TINY:.0e} … {1.0 / TINY:.0e} that double "
            "precision has room for. Choose other units."
        )


def check_rows(rows: np.ndarray) -> None:
    """Refuse rows so much shorter than others that their squares, relative to those of the others, underflow.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        With their bias; some may be zero.

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_rows(np.array([[0.0, 0.0], [1.0, 1e-300]]))
    """
    sizes = np.abs(rows).max(axis=1, initial=0.0)
    least, most = float(sizes[sizes > 0].min(initial=np.inf)), float(sizes.max(initial=0.0))
    if least < math.sqrt(TINY) * most:
        raise InputError(
            f"X or bias: the shortest row has size {least:.3g} and the largest {most:.3g}; double precision "
            "has no room for both. Choose a larger bias, or leave those rows out."
        )


def check_spread(rows: np.ndarray) -> None:
    """Refuse points whose differences are so small, relative to their size, that squares of them underflow.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        With their bias, on distinct rays.

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_spread(np.array([[1e-90, 1.0], [2e-90, 1.0]]))
    """
    spread = float(np.ptp(rows, axis=0).max()) if len(rows) > 1 else math.inf
    most = float(np.abs(rows).max(initial=0.0))
    if spread < LEAST * most:
        raise InputError(
            f"X: the points differ by {spread:.3g} at most beside rows of size {most:.3g}; double precision has no "
            "room for what tells them apart. Multiply X, or give a bias of its size."
        )


def opposite_rows(
    rows: np.ndarray, targets: np.ndarray, keep: np.ndarray, called: RowNames | None = None
) -> np.ndarray:
    """Handle pairs of opposite points of a network without bias.

    Since σ(t) − σ(−t) = t, the odd part f(x) − f(−x) of every such network is linear in x. More pairs of opposite
    points than dimensions therefore either contradict each other, or their targets are redundant.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    targets : ndarray of shape (N, k)
    keep : ndarray of int
        Rows on distinct rays.
    called : RowNames, optional
        Names of the rows in messages.

    Returns
    -------
    ndarray of int
        ``keep`` without the rows whose targets follow from the others.

    Raises
    ------
    InputError
        If they contradict each other; the message names the pair that is furthest from linear.
    """
    _, line_of, _ = merge_lines(rows[keep])
    order = np.argsort(line_of, kind="stable")
    first = order[:-1][line_of[order[:-1]] == line_of[order[1:]]]
    second = order[1:][line_of[order[:-1]] == line_of[order[1:]]]
    if len(first) == 0:
        return keep
    lengths = np.linalg.norm(rows[keep], axis=1)
    directions = rows[keep][first] / lengths[first, None]
    values = targets[keep] / lengths[:, None]
    odd = values[first] - values[second]
    slope = np.linalg.lstsq(directions, odd, rcond=None)[0]
    misfit = np.abs(directions @ slope - odd).max(axis=1) * np.minimum(lengths[first], lengths[second])
    if misfit.max() > FOUND * max(1.0, float(np.abs(odd).max())):
        worst = int(misfit.argmax())
        i, j = sorted((int(keep[first[worst]]), int(keep[second[worst]])))
        named = called or RowNames()
        raise InputError(
            f"{named.all(i, j)}{named.of_x} are opposite points, and bias is 0: every network without "
            f"bias has f(x) - f(-x) linear in x, but the targets of the {len(first)} pairs of opposite points are "
            f"not (this pair is furthest off). Use a positive bias (--bias 1), or drop one of the rows."
        )
    _, triangle, pivots = qr(directions.T, mode="economic", pivoting=True)
    rank = numerical_rank(np.abs(np.diag(triangle)), COMPUTED)
    redundant = second[pivots[rank:]]
    return np.delete(keep, redundant)
