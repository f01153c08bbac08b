"""Numerical factorisation A = (U∘U)ᵀ(U∘U): many Levenberg–Marquardt starts at once, nonnegative by construction."""

from __future__ import annotations

import logging
from itertools import islice

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse.linalg import LinearOperator

from covopt.checks.memory import room
from covopt.checks.optional import required
from covopt.checks.speaking import tell
from covopt.completely_positive.clique_cover import edge_clique_cover
from covopt.completely_positive.pattern import DEFAULT_TOL, Pattern, support_pattern
from covopt.limits import checkpoint, now
from covopt.sparsify.caratheodory import caratheodory as spend

MEMORY_BYTES = 2e8
DENSE = 3e5  # entries of a Jacobian: larger ones are never formed
LARGE_SHARE = 8  # and so many times fewer starts are made: size makes room, and every start costs seconds
SUPPORTS = 500  # maximal cliques that rows are drawn from
RANDOM_COVERS = 0.75  # share of the starts whose rows do not follow the minimum cover
SETTLED = 1e-13
ROUNDED = 1e-14  # an error of this size (unit diagonal) that does not halve is rounding


def residual_of(A: np.ndarray, B: np.ndarray) -> float:
    """Return max |BᵀB − A|_ij / √(a_ii a_jj); rows and columns of A that vanish count by themselves.

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
    time_limit_s: float | None = None,
    tol: float = DEFAULT_TOL,
    random_state: int | None = 0,
) -> np.ndarray | None:
    r"""Look for a nonnegative factor with ``n_rows`` rows.

    .. math:: \min_U \tfrac12 \| (U\circ U)^\top (U\circ U) - A \|_F^2, \qquad U \in \mathbb{R}^{m\times n}

    in the scaling with a unit diagonal. Every row is confined to a clique of the support graph, so that zeros of A
    are met exactly: the first ones to a clique cover, minimum or random, the others to maximal cliques at random. A
    start that comes close is finished by Gauss–Newton steps on its positive entries. HEURISTIC: None proves nothing.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative with a positive diagonal.
    n_rows : int
    n_starts : int
        An eighth of it, at least 2, where n and ``n_rows`` are large (from n = 28 on with n rows).
    max_iter : int
        Steps per start.
    time_limit_s : float, optional
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
    end = None if time_limit_s is None else now() + time_limit_s
    tell(logging.DEBUG, f"looking for a factor of {n_rows} rows", "attempt", rows=n_rows, starts=n_starts)
    rng = np.random.default_rng(random_state)
    roots = np.sqrt(np.diag(A))
    unit = A / np.outer(roots, roots)
    n = len(unit)
    supports = _supports(support_pattern(unit, tol))
    pairs = n * (n + 1) // 2
    large = pairs * n * n_rows > DENSE
    batch = 1 if large else int(np.clip(room(MEMORY_BYTES) / (16.0 * pairs * n * n_rows), 1, 16))
    walk = _descend_large if large else _descend
    n_starts = max(2, n_starts // LARGE_SHARE) if large else n_starts
    while n_starts > 0 and (end is None or now() < end):
        size = min(batch, n_starts)
        n_starts -= size
        masks = np.stack([_assign(supports, n_rows, n, rng) for _ in range(size)])
        starts = np.sqrt(rng.random((size, n_rows, n)) * np.sqrt(2.0 / max(1.0, n_rows / 2.0))) * masks
        for U in walk(unit, starts, max_iter, end):
            B = U * U if large else _settled(unit, U * U)
            if (B >= 0).all() and residual_of(unit, B) <= tol:
                return B * roots
    return None


def _supports(pattern: Pattern) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Return (minimum cover, maximal cliques); None where every row may use every vertex."""
    nx = required("networkx", "cp_rank", "graphs")
    n = len(pattern.vertices)
    if len(pattern.edges) == n * (n - 1) // 2:
        return None
    cover = edge_clique_cover(pattern.vertices, pattern.edges, node_budget=2000).cover
    graph = nx.Graph(pattern.edges)
    graph.add_nodes_from(pattern.vertices)
    cliques = islice(nx.find_cliques(graph), SUPPORTS)
    return [np.array(c) for c in cover], [np.array(sorted(c)) for c in cliques]


def _assign(
    supports: tuple[list[np.ndarray], list[np.ndarray]] | None, n_rows: int, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the support of every row: cliques that cover every edge, then others, each used twice only if need be."""
    if supports is None:
        return np.ones((n_rows, n))
    cover, cliques = supports
    chosen = _random_cover(cliques, n, rng) if rng.random() < RANDOM_COVERS else []
    if not chosen or len(chosen) > n_rows:
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
    """Cover the pairs and vertices in random order, each by a clique drawn from those that hold it."""
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


def _descend(unit: np.ndarray, U: np.ndarray, max_iter: int, end: float | None) -> np.ndarray:
    """Levenberg–Marquardt on all starts together; return them, the smallest residual first.

    SciPy's, one start after the other, takes 1.5 times as long for 5 × 5 and 5 rows, 5 times for 12 × 12 and 14 rows.
    """
    i, j = np.triu_indices(len(unit))
    weight = np.where(i == j, 1.0, np.sqrt(2.0))
    size, rows, n = U.shape
    place = np.arange(len(i))
    damping = np.full(size, 1e-2)

    def errors(table: np.ndarray) -> np.ndarray:
        B = table * table
        return ((B.transpose(0, 2, 1) @ B)[:, i, j] - unit[i, j]) * weight

    error = errors(U)
    value = (error**2).sum(1)
    for _ in range(max_iter):
        if value.min() < SETTLED**2 or (end is not None and now() > end):
            break
        B = U * U
        slope = np.zeros((len(i), n, size, rows))
        spread = B.transpose(2, 0, 1)
        slope[place, i] += spread[j]
        slope[place, j] += spread[i]
        J = slope.transpose(2, 0, 3, 1) * (2.0 * U)[:, None] * weight[None, :, None, None]
        J = J.reshape(size, len(i), rows * n)
        normal = J @ J.transpose(0, 2, 1)
        normal[:, place, place] += damping[:, None]
        try:
            dual = np.linalg.solve(normal, error[:, :, None])
        except np.linalg.LinAlgError:
            damping *= 10.0
            continue
        moved = U - (J.transpose(0, 2, 1) @ dual)[:, :, 0].reshape(U.shape)
        after = errors(moved)
        reached = (after**2).sum(1)
        better = reached < value
        U = np.where(better[:, None, None], moved, U)
        error = np.where(better[:, None], after, error)
        value = np.where(better, reached, value)
        damping = np.clip(np.where(better, damping * 0.2, damping * 4.0), 1e-15, 1e6)
    return U[np.argsort(value)]


def _descend_large(unit: np.ndarray, starts: np.ndarray, max_iter: int, end: float | None) -> np.ndarray:
    """Levenberg–Marquardt on one start, its linear systems by SciPy's LSMR on n × n matrices.

    With B = U∘U the Jacobian takes D to Bᵀ(2U∘D) plus its transpose, its adjoint Y to 2U∘(B(Y + Yᵀ)).
    """
    n, shape = len(unit), starts[0].shape

    def errors(u: np.ndarray) -> np.ndarray:
        checkpoint()
        B = u.reshape(shape) ** 2
        return (B.T @ B - unit).ravel()

    def jacobian(u: np.ndarray) -> LinearOperator:
        U = u.reshape(shape)
        B = U * U

        def forward(d: np.ndarray) -> np.ndarray:
            half = B.T @ (2.0 * U * d.reshape(shape))
            return (half + half.T).ravel()

        def adjoint(y: np.ndarray) -> np.ndarray:
            Y = y.reshape(n, n)
            return (2.0 * U * (B @ (Y + Y.T))).ravel()

        return LinearOperator((n * n, U.size), matvec=forward, rmatvec=adjoint, dtype=float)

    found = least_squares(
        errors, starts[0].ravel(), jacobian, tr_solver="lsmr", tr_options={"maxiter": 60}, xtol=1e-15, ftol=1e-15,
        gtol=1e-15, max_nfev=max_iter,
    )  # fmt: skip
    return found.x.reshape(1, *shape)


def _settled(unit: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Gauss–Newton on the entries that are clearly positive; the factor it started from where that fails."""
    if residual_of(unit, B) > 1e-3:
        return B
    i, j = np.triu_indices(len(unit))
    best = B
    for floor in (1e-3, 1e-5, 0.0):
        free = floor < B
        moved = np.where(free, B, 0.0)
        rows, columns = np.nonzero(free)
        at_i, at_j = i[:, None] == columns, j[:, None] == columns
        last = np.inf
        for _ in range(8):
            error = (moved.T @ moved)[i, j] - unit[i, j]
            size = float(np.abs(error).max())
            if size < 1e-16 or (size < ROUNDED and 2.0 * size > last):
                break
            last = size
            slope = at_i * moved[rows[:, None], j].T + at_j * moved[rows[:, None], i].T
            step = np.linalg.lstsq(slope, error, rcond=1e-12)[0]
            moved[free] -= step
        if (moved >= 0).all() and residual_of(unit, moved) < residual_of(unit, best):
            best = moved
        if residual_of(unit, best) < SETTLED:
            break
    return best


def caratheodory(B: np.ndarray) -> np.ndarray:
    r"""Cut a factor to rows with linearly independent squares, hence to at most n(n+1)/2 of them, BᵀB unchanged.

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
