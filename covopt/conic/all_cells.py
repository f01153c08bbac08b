"""The reference: every cell at once, as one second-order cone program.

On the closed cell C_s = {w : (2s_i − 1) z_i·w ≥ 0} the atom is linear, σ(Z w) = diag(s) Z w, so the scalar
interpolation problem is, exactly,

    min  Σ_s ‖p_s‖ + ‖q_s‖ + ½ ρ B²   s.t.   Σ_s diag(s) Z (p_s − q_s) + B·1 = y,   p_s, q_s ∈ C_s.

It is slow on purpose of being simple: what the other solvers find is compared with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from covopt.checks.optional import required
from covopt.conic.backends import resolve_backend, run_backend, value_of
from covopt.exact.parallel_rows import merge_lines
from covopt.problems.problem import Problem

DROP = 1e-7  # share of the sum of all weights that the smallest neurons, which are left out, have together


class ConicPoint(NamedTuple):
    """Primal and dual point of the all-cells program; a hint, for the caller to polish and to certify.

    Attributes
    ----------
    neurons : ndarray of shape (m, r)
        Unit directions, at most one per (cell, sign).
    weights : ndarray of shape (m,)
        Output weights, signed.
    offset : float
        B, 0 without an offset.
    dual : ndarray of shape (N,)
        λ with |⟨λ, σ(Z w)⟩| ≤ 1 for unit w, up to the backend's accuracy, and 1ᵀλ = ρB.
    backend : str
        The backend that ran: not the one asked for when that one was unavailable.
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: float
    dual: np.ndarray
    backend: str


def solve_conic(
    problem: Problem,
    patterns: np.ndarray,
    *,
    backend: str = "CLARABEL",
    tol: float = 1e-9,
    time_limit_s: float | None = None,
) -> ConicPoint:
    r"""Solve the scalar interpolation problem over all cells with a conic backend.

    .. math::

        \min_{p, q, B}\ \sum_s \|p_s\| + \|q_s\| + \tfrac12 \rho B^2
        \quad\text{s.t.}\quad \sum_s \mathrm{diag}(s) Z (p_s - q_s) + B 1 = y,
        \quad p_s, q_s \in C_s .

    Parameters
    ----------
    problem : Problem
        In reduced units.
    patterns : ndarray of bool, shape (S, N)
        All open cells, each once: ``patterns[s, i]`` is True where z_i·w > 0. A row bounds a cell only when the
        pattern across it is a cell too; the other inequalities, most of them, are left out.
    backend : {"CLARABEL", "SCS", "MOSEK"}
        A MOSEK that does not answer is replaced by CLARABEL, with one warning per process.
    tol : float
        Asked of the backend; nothing is promised before the caller has certified the point.
    time_limit_s : float, optional
        For the backend.

    Returns
    -------
    ConicPoint

    Raises
    ------
    InputError
        The backend is unknown.
    SolverError
        The backend stopped without a point.

    Warns
    -----
    SolverFallbackWarning
        The backend asked for does not answer here.

    Notes
    -----
    The multiplier of the equality is the λ of :mod:`covopt.problems.problem`. The backend's own objective
    value is not passed on.

    Examples
    --------
    One sample at distance 2: the neuron that points at it with weight y/2.

    >>> import numpy as np
    >>> from covopt.problems.problem import Problem
    >>> problem = Problem.through(np.array([[2.0]]), np.array([3.0]))
    >>> point = solve_conic(problem, np.array([[True], [False]]))
    >>> point.neurons.round(6), point.weights.round(6), point.dual.round(6)
    (array([[1.]]), array([1.5]), array([0.5]))
    """
    chosen = resolve_backend(backend)

    cp = required("cvxpy", "a cone program", "conic")
    n_cells, dim = len(patterns), problem.rows.shape[1]
    directions = cp.Variable((2 * n_cells, dim))
    norms = cp.Variable(2 * n_cells)
    flat = cp.reshape(directions, (2 * n_cells * dim,), order="C")
    output = atom_matrix(problem.rows, patterns) @ flat
    cost = cp.sum(norms)
    offset = cp.Variable() if problem.has_offset else None
    if offset is not None:
        output = output + offset
        if problem.offset_cost > 0:
            cost = cost + 0.5 * problem.offset_cost * cp.square(offset)
    interpolation = output == problem.targets[:, 0]
    inside = cell_matrix(problem.rows, patterns, facets(problem.rows, patterns)) @ flat >= 0
    program = cp.Problem(cp.Minimize(cost), [interpolation, inside, cp.SOC(norms, directions, axis=1)])
    run_backend(program, chosen, tol=tol, time_limit_s=time_limit_s)

    points = value_of(directions)
    sizes = np.linalg.norm(points, axis=1)
    order = np.argsort(sizes)
    few = np.searchsorted(np.cumsum(sizes[order]), DROP * sizes.sum(), side="right")
    kept = np.sort(order[few:])
    # cvxpy's Lagrangian has +ν(output − y); λ is the sensitivity of the value to y.
    return ConicPoint(
        neurons=points[kept] / sizes[kept, None],
        weights=np.where(kept < n_cells, sizes[kept], -sizes[kept]),
        offset=0.0 if offset is None else float(value_of(offset)),
        dual=-np.asarray(interpolation.dual_value, dtype=float),
        backend=chosen,
    )


def atom_matrix(rows: np.ndarray, patterns: np.ndarray) -> sparse.csr_array:
    """Return the matrix (N, 2Sr) of (p, q) ↦ Σ_s diag(s) Z (p_s − q_s), both stacked cell by cell."""
    n_cells, dim = len(patterns), rows.shape[1]
    sample, cell = np.nonzero(patterns.T)
    columns = (cell[:, None] * dim + np.arange(dim)).ravel()
    indptr = np.concatenate([[0], np.cumsum(patterns.sum(axis=0) * dim)])
    positive = sparse.csr_array((rows[sample].ravel(), columns, indptr), shape=(len(rows), n_cells * dim))
    return sparse.hstack([positive, -positive], format="csr")


def cell_matrix(rows: np.ndarray, patterns: np.ndarray, needed: np.ndarray) -> sparse.csr_array:
    """Return G with G(p, q) ≥ 0 exactly when every p_s and q_s lies in its closed cell, by the needed rows (S, N)."""
    n_cells, dim = len(patterns), rows.shape[1]
    cell, sample = np.nonzero(needed)
    signed = np.where(patterns[cell, sample], 1.0, -1.0)[:, None] * rows[sample]
    columns = (cell[:, None] * dim + np.arange(dim)).ravel()
    indptr = np.arange(len(cell) + 1) * dim
    block = sparse.csr_array((signed.ravel(), columns, indptr), shape=(len(cell), n_cells * dim))
    return sparse.block_diag([block, block], format="csr")


def facets(rows: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Return which rows bound which cells, shape (S, N), one row for each hyperplane.

    A hyperplane carries a facet of a cell exactly when flipping the signs of the rows on it, and of no other
    row, gives another cell. ``patterns`` must therefore hold all cells.
    """
    packed = np.packbits(patterns, axis=1)
    key = np.dtype((np.void, packed.shape[1]))
    known = np.sort(np.ascontiguousarray(packed).view(key).ravel())
    needed = np.zeros(patterns.shape, dtype=bool)
    left = np.flatnonzero(rows.any(axis=1))
    line_of = merge_lines(rows[left])[1]
    for number in range(line_of.max(initial=-1) + 1):
        line = left[line_of == number]
        mask = np.zeros(patterns.shape[1], dtype=bool)
        mask[line] = True
        across = np.ascontiguousarray(packed ^ np.packbits(mask)).view(key).ravel()
        place = np.minimum(np.searchsorted(known, across), len(known) - 1)
        needed[:, line[0]] = known[place] == across
    return needed
