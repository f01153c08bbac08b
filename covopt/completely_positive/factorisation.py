"""A as a sum of nonnegative rank-one matrices: numerical factors, and the fewest of given atoms, exactly.

A numerical factor A = (U∘U)ᵀ(U∘U) is found by nonlinear least squares from many starts. For given vectors u the least
number of matrices uuᵀ whose conic hull contains A is found and bounded in exact arithmetic.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from math import ceil
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, least_squares, linprog, milp
from scipy.sparse import csr_array

from covopt.checks import required
from covopt.checks.log import log_event
from covopt.completely_positive.graphs import MOST_ROWS
from covopt.completely_positive.lower import edge_clique_cover
from covopt.completely_positive.matrix import Matrix, Pattern, support_pattern
from covopt.exact.elimination import row_reduce
from covopt.exact.rank import FOUND, NEAR
from covopt.limits import PIECE, checkpoint
from covopt.sparsify.reduction import caratheodory as spend

Atoms = Sequence[Sequence[int | Fraction]] | np.ndarray


def residual_of(A: np.ndarray, B: np.ndarray) -> float:
    """Return max |BᵀB − A|_ij / √(a_ii a_jj); for zero rows and columns of A the error is absolute.

    Examples
    --------
    >>> residual_of(np.array([[1.0, 0.0], [0.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 2.0]]))
    0.0
    """
    roots = np.sqrt(np.maximum(np.diag(A), 0.0))
    roots = np.where(roots > 0, roots, roots.max(initial=0.0) or 1.0)
    return float((np.abs(B.T @ B - A) / np.outer(roots, roots)).max(initial=0.0))


def numerical_factor(
    A: np.ndarray,
    n_rows: int,
    *,
    n_starts: int = 32,
    max_iter: int = 200,
    tol: float = FOUND,
    random_state: int | None = 0,
) -> np.ndarray | None:
    r"""Search for a nonnegative factor with ``n_rows`` rows.

    .. math:: \min_U \tfrac12 \| (U\circ U)^\top (U\circ U) - A \|_F^2, \qquad U \in \mathbb{R}^{m\times n}

    in the scaling with a unit diagonal. Every row is restricted to a clique of the support graph, so that zeros of A
    are matched exactly: the first rows to the cliques of a cover, minimum or random, the others to random maximal
    cliques. The search is heuristic: None proves nothing.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative with a positive diagonal.
    n_rows : int
    n_starts : int
        Number of starts; reduced to an eighth, at least 2, for large n and ``n_rows`` (from n = 28 on with n rows).
    max_iter : int
        Steps per start.
    tol : float
        Relative residual that counts as a factor, see :func:`residual_of`.
    random_state : int, optional

    Returns
    -------
    ndarray of shape (n_rows, n) or None

    References
    ----------
    Berman and Shaked-Monderer, Completely Positive Matrices (2003).

    Examples
    --------
    >>> A = np.array([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    >>> B = numerical_factor(A, 3)
    >>> B.shape, residual_of(A, B) < 1e-12, bool((B >= 0).all())
    ((3, 3), True, True)
    """
    log_event(
        logging.DEBUG, f"looking for a factor of {n_rows} rows", "attempt", rows=n_rows, starts=n_starts
    )
    rng = np.random.default_rng(random_state)
    roots = np.sqrt(np.diag(A))
    unit = A / np.outer(roots, roots)
    n = len(unit)
    supports = _supports(support_pattern(unit, tol))
    entries = n * (n + 1) // 2 * n * n_rows  # of a Jacobian; if large, starts are slow but few are needed
    for _ in range(min(n_starts, max(2, n_starts * PIECE // entries))):
        mask = _assign(supports, n_rows, n, rng)
        start = np.sqrt((1.0 - rng.random((n_rows, n))) * np.sqrt(2.0 / max(1.0, n_rows / 2.0))) * mask
        B = _descend(unit, start, max_iter)
        if residual_of(unit, B) <= tol:
            return B * roots
    return None


def _supports(pattern: Pattern) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return (minimum cover, maximal cliques)."""
    nx = required("networkx", "cp_rank", "graphs")
    cover = edge_clique_cover(pattern.vertices, pattern.edges)[1]
    graph = nx.Graph(pattern.edges)
    graph.add_nodes_from(pattern.vertices)
    cliques = islice(nx.find_cliques(graph), MOST_ROWS)
    return [np.array(c) for c in cover], [np.array(sorted(c)) for c in cliques]


def _assign(
    supports: tuple[list[np.ndarray], list[np.ndarray]], n_rows: int, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the support of every row: cliques that cover all edges, then others, repeated only if necessary."""
    cover, cliques = supports
    chosen = _random_cover(cliques, n, rng)
    if len(chosen) > n_rows:
        chosen = list(cover)
    known = {tuple(clique) for clique in chosen}
    spare = [clique for clique in cliques if tuple(clique) not in known]
    while len(chosen) < n_rows:
        pool = spare or cliques
        chosen.append(pool.pop(int(rng.integers(len(pool)))) if spare else pool[rng.integers(len(pool))])
    mask = np.zeros((n_rows, n))
    for row, clique in zip(mask, chosen, strict=False):
        row[clique] = 1.0
    return mask


def _random_cover(cliques: list[np.ndarray], n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Cover the pairs and vertices in random order, each by a random clique that contains it."""
    inside = np.zeros((len(cliques), n), dtype=bool)
    for row, clique in zip(inside, cliques, strict=True):
        row[clique] = True
    open_ = (inside.T.astype(int) @ inside.astype(int)) > 0
    np.fill_diagonal(open_, True)
    chosen: list[np.ndarray] = []
    while open_.any():
        pairs = np.argwhere(np.triu(open_))
        i, j = pairs[rng.integers(len(pairs))]
        holders = np.flatnonzero(inside[:, i] & inside[:, j])
        clique = cliques[rng.choice(holders)] if len(holders) else np.unique([i, j])
        open_[np.ix_(clique, clique)] = False
        chosen.append(clique)
    return chosen


def _descend(unit: np.ndarray, start: np.ndarray, max_iter: int) -> np.ndarray:
    """Run least squares from one start; large Jacobians are sparse, with LSMR for the linear systems.

    The variables are the entries of U that are not fixed to zero; each pair U_ri, U_rj of them in a row r contributes
    two derivatives of (BᵀB)_ij.
    """
    n, free = len(unit), start > 0
    place = np.cumsum(free).reshape(free.shape) - 1
    i, j = np.triu_indices(n)
    weight = np.where(i == j, 1.0, np.sqrt(2.0))
    r, k = np.nonzero(free[:, i] & free[:, j])
    at = np.concatenate([k, k]), np.concatenate([place[r, i[k]], place[r, j[k]]])
    shape = (len(i), int(free.sum()))
    large = shape[0] * shape[1] > PIECE  # stays sparse

    def full(u: np.ndarray) -> np.ndarray:
        checkpoint()
        U = np.zeros_like(start)
        U[free] = u
        return U

    def errors(u: np.ndarray) -> np.ndarray:
        B = full(u) ** 2
        return (B.T @ B - unit)[i, j] * weight

    def jacobian(u: np.ndarray) -> Any:
        first, second = full(u)[r, i[k]], full(u)[r, j[k]]
        both = 2.0 * weight[k] * first * second
        J = csr_array((np.concatenate([both * second, both * first]), at), shape=shape)
        return J if large else J.toarray()

    options = {"tr_solver": "lsmr", "tr_options": {"maxiter": 60}} if large else {"tr_solver": "exact"}
    found = least_squares(
        errors, start[free], jacobian, xtol=1e-15, ftol=1e-4, gtol=1e-15, max_nfev=max_iter, **options
    )
    return full(found.x) ** 2


def caratheodory(B: np.ndarray) -> np.ndarray:
    r"""Reduce a factor to at most n(n+1)/2 rows b with linearly independent bbᵀ, keeping BᵀB.

    .. math:: \sum_r t_r b_r b_r^\top = B^\top B,\quad t \ge 0,\quad \text{the } b_r b_r^\top \text{ with } t_r > 0
        \text{ independent}

    Parameters
    ----------
    B : ndarray of shape (m, n)
        Nonnegative.

    Returns
    -------
    ndarray of shape (m', n)
        Nonnegative, m' ≤ min(m, n(n+1)/2).

    References
    ----------
    Carathéodory's theorem for cones; FL22 Prop 7.

    Examples
    --------
    >>> B = np.random.default_rng(0).random((20, 3))
    >>> C = caratheodory(B)
    >>> len(C) <= 6, bool(abs(C.T @ C - B.T @ B).max() < 1e-12)
    (True, True)
    """
    i, j = np.triu_indices(B.shape[1])
    masses = spend((B[:, i] * B[:, j]).T, np.ones(len(B)))
    kept = (masses > 0.0) & (B > 0.0).any(axis=1)
    return np.sqrt(masses[kept])[:, None] * B[kept]


# ---------------------------------------------------------------------- given atoms


def fewest_atoms(A: Matrix, atoms: Atoms, *, time_limit_s: float | None = None) -> list[Fraction] | None:
    r"""Write a matrix as a conic combination of few atoms.

    .. math::

        \min\ |\{k : w_k > 0\}| \quad\text{s.t.}\quad \sum_k w_k u_k u_k^\top = A,\quad w \ge 0

    A mixed-integer program proposes a support, and the weights on it are solved for exactly. :func:`atoms_needed`
    gives the lower bound.

    Parameters
    ----------
    A : sequence of sequence of Fraction
        Symmetric.
    atoms : sequence of sequence of int
        The vectors u ≥ 0.
    time_limit_s : float, optional
        Time limit of the mixed-integer program, beside a limit on its nodes.

    Returns
    -------
    list of Fraction, or None
        One weight for each atom. None if A is not in the conic hull, or if the proposed support has no exact
        solution.

    Examples
    --------
    Over (1, 0), (0, 1), (1, 1) the matrix [[2, 1], [1, 2]] is written in one way.

    >>> fewest_atoms([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(2)]], [(1, 0), (0, 1), (1, 1)])
    [Fraction(1, 1), Fraction(1, 1), Fraction(1, 1)]
    """
    solved = combination(A, atoms)
    if solved is None:
        return None
    weights, freedom = solved
    if freedom:
        support = _proposed_support(A, atoms, time_limit_s)
        part = combination(A, [atoms[k] for k in support])
        if part is None or part[1]:
            return None
        weights = [Fraction(0)] * len(atoms)
        for k, value in zip(support, part[0], strict=True):
            weights[k] = value
    return None if min(weights) < 0 else weights


def atoms_needed(A: Matrix, atoms: Atoms) -> int:
    r"""Return a lower bound on the number of atoms of any solution, proved in rational arithmetic.

    .. math::

        |\{k : w_k > 0\}| \ge |F| + \Big\lceil \min \sum_{k \notin F} w_k / \bar w_k \Big\rceil, \qquad
        F = \{k : \min w_k > 0\}, \quad \bar w_k = \max w_k

    over the polytope of solutions. The minima and maxima are linear programs, each bounded by the exact value of an
    exactly feasible dual point.

    Parameters
    ----------
    A : sequence of sequence of Fraction
    atoms : sequence of sequence of int

    Returns
    -------
    int
        0 if A is no combination of the atoms.

    Examples
    --------
    >>> atoms_needed([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(2)]], [(1, 0), (0, 1), (1, 1)])
    3
    """
    solved = combination(A, atoms)
    if solved is None:
        return 0
    if not solved[1]:
        return sum(w > 0 for w in solved[0])
    table, target = _table(A, atoms)
    sizes = (np.array(atoms, dtype=object) ** 2).sum(1)
    numbers, goal = table.astype(float), target.astype(float)
    trace = sum(A[i][i] for i in range(len(A)))

    def at_least(costs: np.ndarray) -> Fraction:
        """Return ⟨A, Y⟩ ≤ min Σ c_k w_k; a multiple of I makes the solver's Y feasible: u_kᵀYu_k ≤ c_k."""
        found = linprog(-goal, A_ub=numbers.T, b_ub=costs.astype(float), bounds=(None, None), method="highs")
        Y = np.array([Fraction(float(y)) for y in (0 * goal if found.x is None else found.x)], dtype=object)
        return target @ Y - max((Y @ table - costs) / sizes) * trace

    forced, rest = 0, np.zeros(len(atoms), dtype=object)
    for k, only in enumerate(np.eye(len(atoms), dtype=int).astype(object)):
        if at_least(only) > 0:
            forced += 1
            continue
        most = min(_most(A, atoms[k]), -at_least(-only))
        if most > 0:
            rest[k] = 1 / most
    return forced + max(0, ceil(at_least(rest)))


def combination(A: Matrix, atoms: Atoms) -> tuple[list[Fraction], int] | None:
    """Return some w of any sign with Σ w_k u_k u_kᵀ = A, and the dimension of the solution space."""
    m = len(atoms)
    if not m:
        return None
    reduced, pivots = row_reduce(np.column_stack(_table(A, atoms)).tolist(), m)
    if any(row[m] for row in reduced[len(pivots) :]):
        return None
    weights = [Fraction(0)] * m
    for row, pivot in zip(reduced, pivots, strict=False):
        weights[pivot] = row[m]
    return weights, m - len(pivots)


def _table(A: Matrix, atoms: Atoms) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and right-hand side of Σ_k w_k u_ki u_kj = A_ij, i ≤ j."""
    i, j = np.triu_indices(len(A))
    U = np.array(atoms, dtype=object)
    return (U[:, i] * U[:, j]).T, np.array(A, dtype=object)[i, j]


def _most(A: Matrix, u: Sequence[int | Fraction]) -> Fraction:
    """Return the largest w with w·uuᵀ ≤ A entry by entry."""
    support = [i for i, x in enumerate(u) if x]
    return min(A[i][j] / (u[i] * u[j]) for i in support for j in support)


def _proposed_support(A: Matrix, atoms: Atoms, time_limit_s: float | None) -> list[int]:
    table, target = (part.astype(float) for part in _table(A, atoms))
    m, sizes = len(atoms), np.maximum(target, np.finfo(float).tiny)
    # weights relative to their maxima lie in [0, 1], with w ≤ z for binary z
    scaled = np.hstack([table * [float(_most(A, u)) for u in atoms], np.zeros((len(table), m))])
    equal = LinearConstraint(scaled / sizes[:, None], target / sizes, target / sizes)
    switch = LinearConstraint(np.hstack([np.eye(m), -np.eye(m)]), -np.inf, 0)
    found = milp(
        np.r_[np.zeros(m), np.ones(m)], constraints=[equal, switch], bounds=Bounds(0, 1),
        integrality=np.r_[np.zeros(m), np.ones(m)],
        options={"node_limit": PIECE // table.size, "time_limit": time_limit_s or np.inf},
    )  # fmt: skip
    return [] if found.x is None else np.flatnonzero(found.x[:m] > NEAR).tolist()
