"""SP20's cell-wise ℓ1 linear program (21): the masses of given neurons, and the range of each over all minimisers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import linprog

from covopt.checks import Brief
from covopt.checks.validation import check_choice, check_tol
from covopt.data import Data
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import InputError, SolverError, Status


@dataclass(frozen=True, repr=False)
class CellLP(Brief):
    """Answer of :func:`cell_lp`; every number was recomputed from the raw data.

    Attributes
    ----------
    directions : ndarray of shape (S, D)
        θ_s as they were used: scaled to norm 1.
    masses : ndarray of shape (S,)
        z_s, the signed output weight of the unit neuron θ_s.
    dual : ndarray of shape (N,)
        λ, scaled so that |⟨λ, σ(X̃ θ_s)⟩| ≤ 1 for every s.
    ranges : ndarray of shape (S, 2)
        Smallest and largest z_s over all minimisers.
    cost : float
        ‖z‖₁.
    lower_bound : float
        ⟨λ, y⟩.
    residual : float
        max_i |Σ_s z_s σ(x̃_i·θ_s) − y_i|.
    status : Status
        ``CERTIFIED`` when the relative gap and the residual (relative to max|y|) are at most ``tol``,
        else ``GAP``.
    solver : str
    is_unique : bool
        Whether the minimiser is the only one with these directions: no range is wider than rounding.
    time_s : float
    """

    directions: np.ndarray
    masses: np.ndarray
    dual: np.ndarray
    ranges: np.ndarray
    cost: float
    lower_bound: float
    residual: float
    status: Status
    solver: str
    is_unique: bool
    time_s: float

    @property
    def gap(self) -> float:
        """Relative distance of the two bounds, (cost − lower_bound) / cost."""
        return (self.cost - self.lower_bound) / self.cost if self.cost > 0 else 0.0


def cell_lp(
    X: np.ndarray,
    y: np.ndarray,
    directions: np.ndarray,
    *,
    solver: str = "highs",
    bias: float = 1.0,
    tol: float = 1e-8,
) -> CellLP:
    r"""Distribute mass over given neurons at the least total cost, and compute the range of each mass.

    .. math::

        \min_{z \in \mathbb{R}^S} \|z\|_1 \quad\text{s.t.}\quad A z = y,
        \qquad A_{is} = \sigma(\tilde x_i \cdot \theta_s), \quad \tilde x_i = (x_i, \beta),

    and its dual :math:`\max_\lambda \langle\lambda, y\rangle` s.t. :math:`|A^T \lambda| \le 1`. When the
    directions hold one neuron of the minimal-norm network per cell and sign where it may have mass, the
    solutions are all minimal-norm networks (Theorem 4.7).

    Parameters
    ----------
    X : array_like of shape (N, d)
        Inputs, one sample a row.
    y : array_like of shape (N,) or (N, 1)
        Targets.
    directions : array_like of shape (S, D)
        θ_s, with D = d + 1 (the bias coordinate last) when ``bias`` is positive and D = d when it is 0. They
        need not be unit: a neuron is priced by its norm, so only its direction matters, and z_s is the mass
        of the unit neuron θ_s/‖θ_s‖.
    solver : {"highs"}
        SciPy's HiGHS, by the simplex method.
    bias : float
        β ≥ 0.
    tol : float
        Largest relative gap and relative residual that count as solved.

    Returns
    -------
    CellLP

    Raises
    ------
    InputError
        NaN or infinity, shapes that disagree, a zero direction, an unknown solver, or directions whose
        neurons cannot interpolate the targets; the message then gives the least-squares residual.
    SolverError
        The solver stopped without a point.

    Notes
    -----
    For the ranges, let λ be optimal. A feasible z is optimal exactly when z_s = 0 or z_s·⟨λ, a_s⟩ = |z_s| for
    every column a_s of A, so only columns with reduced cost 1 − |⟨λ, a_s⟩| = 0 can carry mass, each with one
    sign. The optimal face is therefore {z⁰ + K t : signs kept}, K a basis of the null space of those columns;
    each range is a linear program in t, and a column whose row in K vanishes cannot move at all.

    References
    ----------
    J. de Dios and J. Bruna, "On Sparsity in Overparametrised Shallow ReLU Networks", 2020 (SP20),
    equation (21) and Theorem 4.7.

    Examples
    --------
    Two samples on the line, three neurons: x̃·θ = x, (x + 1)/√2 and 1.

    >>> from covopt.conic.cell_lp import cell_lp
    >>> answer = cell_lp([[1.0], [3.0]], [1.0, 3.0], [[1, 0], [1, 1], [0, 1]])
    >>> answer.masses.round(6) + 0.0, round(answer.cost, 6), answer.is_unique
    (array([1., 0., 0.]), 1.0, True)
    """
    start = time.perf_counter()
    lifted, targets, unit = _validate(X, y, directions, bias)
    check_tol(tol)
    check_choice("solver", solver.lower() if isinstance(solver, str) else solver, ("highs",))
    atoms = np.maximum(lifted @ unit.T, 0.0)

    row_scale = float(np.abs(atoms).max()) or 1.0
    target_scale = float(np.abs(targets).max())
    if target_scale == 0:
        masses, dual, ranges = np.zeros(len(unit)), np.zeros(len(targets)), np.zeros((len(unit), 2))
    else:
        masses, dual, ranges = _solve(atoms / row_scale, targets / target_scale)
        masses, ranges = masses * (target_scale / row_scale), ranges * (target_scale / row_scale)
        dual = dual / row_scale
    dual_norm = float(np.abs(atoms.T @ dual).max(initial=0.0))
    dual = dual / dual_norm if dual_norm > 0 else dual
    cost, lower_bound = float(np.abs(masses).sum()), float(dual @ targets)
    residual = float(np.abs(atoms @ masses - targets).max())
    solved = cost - lower_bound <= tol * cost and residual <= tol * target_scale
    return CellLP(
        directions=unit,
        masses=masses,
        dual=dual,
        ranges=ranges,
        cost=cost,
        lower_bound=lower_bound,
        residual=residual,
        status=Status.CERTIFIED if solved else Status.GAP,
        solver="HIGHS",
        is_unique=bool(np.ptp(ranges, axis=1).max(initial=0.0) <= 1e-7 * cost),
        time_s=time.perf_counter() - start,
    )


def _validate(X: Any, y: Any, directions: Any, bias: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X̃ (N, D), y (N,) and unit directions (S, D), or raise InputError."""
    data = Data.validate(X, y, bias=bias, interpolates=False)
    if data.n_outputs > 1:
        raise InputError(f"y must be one number for each row of X, got {data.n_outputs} columns")
    theta, _ = to_matrix("directions", directions)
    check_finite("directions", theta, None)
    dim = data.lifted.shape[1]
    if theta.ndim != 2 or theta.shape[1] != dim or not len(theta):
        rule = (
            f"D = d + 1 = {dim}, the bias coordinate last" if bias > 0 else f"D = d = {dim} since bias is 0"
        )
        raise InputError(f"directions must have shape (S, D) with {rule}; got {theta.shape}")
    # the largest entry first: squares of tiny or huge entries would leave the range of floats
    largest = np.abs(theta).max(axis=1)
    if not largest.all():
        raise InputError(f"directions must not be zero, got a zero row at {int(np.argmin(largest))}")
    unit = theta / largest[:, None]
    return data.lifted, data.Y[:, 0], unit / np.linalg.norm(unit, axis=1, keepdims=True)


def _solve(atoms: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return masses, dual and ranges; entries of ``atoms`` and ``targets`` are at most 1."""
    # In an orthonormal basis of the columns' span, dependent samples give no redundant equations.
    left, sizes, _ = linalg.svd(atoms, full_matrices=False)
    basis = left[:, sizes > 1e-12 * max(sizes[0], 1e-300)]
    outside = float(np.abs(targets - basis @ (basis.T @ targets)).max())
    if outside > 1e-9:
        raise InputError(
            f"the {atoms.shape[1]} directions cannot interpolate the targets: the least-squares residual is "
            f"{outside:.2g} of max|y| at the worst sample; add directions (one in every cell suffices)"
        )
    matrix, right = basis.T @ atoms, basis.T @ targets
    count = matrix.shape[1]
    found = _minimum(np.ones(2 * count), A_eq=np.hstack([matrix, -matrix]), b_eq=right)
    masses, dual = found.x[:count] - found.x[count:], found.eqlin.marginals
    values = matrix.T @ dual
    tight = np.flatnonzero(np.abs(values) >= max(np.abs(values).max(), 1.0) * (1.0 - 1e-8))
    ranges = np.column_stack([masses, masses])
    ranges[tight] = _ranges(matrix[:, tight], masses[tight], np.sign(values[tight]))
    return masses, basis @ dual, ranges


def _ranges(columns: np.ndarray, masses: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Return the range of each mass over {z : columns z = columns masses, signs z ≥ 0}."""
    ranges = np.column_stack([masses, masses])
    kernel = linalg.null_space(columns, rcond=1e-10)
    movable = np.flatnonzero(np.linalg.norm(kernel, axis=1) > 1e-9)
    if not len(movable):
        return ranges
    # In multiples of its sign each mass is start + K t ≥ 0.
    kernel = signs[movable, None] * kernel[movable]
    start = np.maximum(signs[movable] * masses[movable], 0.0)
    sizes = np.column_stack([start, start])
    for place in range(len(movable)):
        for side, sense in ((0, -1.0), (1, 1.0)):
            if side == 0 and sizes[place, 0] == 0:
                continue  # a point seen on the way already has no mass here
            move = _minimum(-sense * kernel[place], A_ub=-kernel, b_ub=start, bounds=(None, None)).x
            point = np.maximum(start + kernel @ move, 0.0)
            np.minimum(sizes[:, 0], point, out=sizes[:, 0])
            np.maximum(sizes[:, 1], point, out=sizes[:, 1])
    ranges[movable] = np.sort(signs[movable, None] * sizes, axis=1)
    return ranges


def _minimum(cost: np.ndarray, **constraints: Any) -> Any:
    """Solve a linear program by the simplex method."""
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(cost, method="highs-ds", options=options, **constraints)
    if found.x is None:
        raise SolverError(f"HiGHS stopped without a point: {found.message}")
    return found
