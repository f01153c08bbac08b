r"""Factors with at most one row per edge, from the comparison matrix M = 2 diag(A) − A.

If M is positive semidefinite some positive d makes DAD diagonally dominant (M is a possibly singular M-matrix), and
A is a sum of edges. Kaykobad (1987) counts \|E\| rows and one for every strictly dominant vertex. Here the diagonal
is used up by the edges: edge ij takes a_ij d_j/d_i of a_ii and a_ij d_i/d_j of a_jj, except that one edge pq of a
cycle takes t times as much of a_pp and 1/t of a_qq. t is increased until M d = 0: with d_p = 1, the other rows give d
as d⁰ + d¹/t, and row p is a quadratic equation for t. So a connected graph with a cycle needs \|E\| rows. In a tree
the remainder of the diagonal is collected at one vertex, as a row of its own, and rank A rows are needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgWarning, eigh, eigvalsh, lu_factor, lu_solve

from covopt.checks import required
from covopt.completely_positive.matrix import EXACT_SIZE, SymmetricMatrix, support_pattern
from covopt.exact.elimination import row_reduce
from covopt.exact.rank import FOUND, NEAR


def comparison_matrix(A: np.ndarray) -> np.ndarray:
    """Return the comparison matrix M: the diagonal of A, and minus the absolute values of all other entries.

    Examples
    --------
    >>> comparison_matrix(np.array([[2.0, 1.0], [1.0, 3.0]]))
    array([[ 2., -1.],
           [-1.,  3.]])
    """
    return 2 * np.diag(np.diag(A)) - np.abs(A)


def smallest_comparison(A: np.ndarray) -> float:
    """Return the smallest eigenvalue of the comparison matrix, scaled to a unit diagonal.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative with a positive diagonal.

    Examples
    --------
    >>> round(smallest_comparison(np.array([[4.0, 1.0], [1.0, 1.0]])), 12)
    0.5
    """
    roots = np.sqrt(np.diag(A))
    return float(eigvalsh(comparison_matrix(A / np.outer(roots, roots)), subset_by_index=[0, 0])[0])


def dominance_factor(A: np.ndarray, tol: float = FOUND, *, drop: float | None = None) -> np.ndarray | None:
    r"""Factor a matrix with a connected support graph and a positive semidefinite comparison matrix.

    .. math:: A = B^\top B,\quad B \ge 0,\quad \text{each row of } B \text{ on one edge or one vertex}

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative, positive diagonal, connected support graph.
    tol : float
        Eigenvalues of the scaled comparison matrix down to −tol count as 0.
    drop : float, optional
        Relative remainder of a tree's last diagonal entry up to which it gets no row of its own; default ``tol``.

    Returns
    -------
    ndarray of shape (m, n) or None
        m = \|E\| if the graph has a cycle; n (or n − 1 if A is singular) for a tree. None if the comparison matrix
        has a negative eigenvalue, or if entries of very different size exceed double precision.

    References
    ----------
    Kaykobad, On nonnegative factorization of matrices (1987).

    Examples
    --------
    >>> A = np.array([[2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 1.0], [1.0, 0.0, 1.0, 3.0]])
    >>> B = dominance_factor(A)
    >>> B.shape, bool(abs(B.T @ B - A).max() < 1e-14), bool(B.min() >= 0)
    ((4, 4), True, True)
    """
    nx = required("networkx", "cp_rank", "graphs")
    roots = np.sqrt(np.diag(A))
    unit = A / np.outer(roots, roots)
    np.fill_diagonal(unit, 1.0)
    n = len(unit)
    least, vectors = eigh(comparison_matrix(unit), subset_by_index=[0, 0])
    if least[0] < -tol:
        return None
    size = np.abs(vectors[:, 0])
    edges = list(support_pattern(unit, 0.0).edges)
    loops = set(edges) - {tuple(sorted(edge)) for edge in nx.bridges(nx.Graph(edges))} if edges else set()
    # choose p with a large entry, so that the other entries are well conditioned; for a tree p = q
    top = int(size.argmax())
    ends = [end for edge in loops for end in (edge, edge[::-1])]
    p, q = max(ends, key=lambda end: size[end[0]], default=(top, top))
    rest, M = np.delete(np.arange(n), p), comparison_matrix(unit)
    right = np.column_stack([unit[:, p], np.zeros(n)])
    right[q] = right[q, ::-1]  # the share of q has the factor 1/t
    d = np.zeros((n, 2))
    d[p, 0] = 1.0
    with np.errstate(all="ignore"):  # entries of very different size may overflow; detected below
        d[rest] = _solved_twice(M[np.ix_(rest, rest)], right[rest])
        # unit_pq t (d⁰_q + d¹_q / t) − M_p (d⁰ + d¹ / t) = 0, without q in M_p
        b, c = unit[p, q] * np.array([d[q, 1], 0.0]) - np.where(np.arange(n) == q, 0.0, M[p]) @ d
        a = unit[p, q] * d[q, 0]
        t = (np.sqrt(max(0.0, b * b - 4.0 * a * c)) - b) / (2.0 * a) if loops else 1.0
        total = d[:, 0] + d[:, 1] / t
        share = unit * total / total[:, None]
        share[p, q], share[q, p] = share[p, q] * t, share[q, p] / t
        i, j = np.array(edges, dtype=int).reshape(-1, 2).T
        rows = np.zeros((len(edges), n))
        rows[np.arange(len(edges)), i], rows[np.arange(len(edges)), j] = (
            np.sqrt(share[i, j]),
            np.sqrt(share[j, i]),
        )
        left_over = 1.0 - float((rows[:, p] ** 2).sum())
    if not np.isfinite(rows).all() or np.abs((rows**2).sum(0) - 1.0)[rest].max(initial=0.0) > tol:
        return None
    if not loops and left_over > (tol if drop is None else drop):
        rows = np.vstack([rows, np.sqrt(left_over) * np.eye(n)[p]])
    return rows * roots


def _solved_twice(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve by elimination with one step of refinement, which makes each residual small relative to its terms."""
    if not len(M):
        return right
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        factors = lu_factor(M)
        found = lu_solve(factors, right)
        return found + lu_solve(factors, right - M @ found, check_finite=False)


def dominance_vector(matrix: SymmetricMatrix) -> list[Fraction] | None:
    """Return d > 0 with Md ≥ 0 exactly, M the comparison matrix; None if none exists or none was found.

    Up to 40 rows d is found whenever it exists: M is then an M-matrix, and d solves Md = 1, or Md = 0 if M is
    singular.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Exact, entrywise nonnegative, with a connected support graph and a positive diagonal.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> dominance_vector(read_matrix([[1, 2], [2, 4]]))
    [Fraction(2, 1), Fraction(1, 1)]
    """
    n = len(matrix)
    if min(matrix.slacks()) >= 0:
        return [Fraction(1)] * n
    roots = np.sqrt(np.diag(matrix.values))
    with np.errstate(all="ignore"):  # the matrix may be singular
        d = _solved_twice(comparison_matrix(matrix.values / roots / roots[:, None]), np.ones(n)) / roots
    found = [Fraction(x) for x in np.where(np.isfinite(d), d, 0.0).tolist()]
    if dominance_rows(matrix, found) is not None:
        return found
    return _solved(matrix) if n <= EXACT_SIZE and smallest_comparison(matrix.values) >= -NEAR else None


def _solved(matrix: SymmetricMatrix) -> list[Fraction] | None:
    """Solve Md = 1, or Md = 0 if M has a kernel of dimension one."""
    n = len(matrix)
    comparison = comparison_matrix(matrix.fractions())
    reduced, pivots = row_reduce(np.column_stack([comparison, np.ones(n, dtype=int)]).tolist(), n)
    if len(pivots) < n - 1:
        return None
    free = next((j for j in range(n) if j not in pivots), n)
    found = [Fraction(1)] * (n + 1)
    for row, place in zip(reduced, pivots, strict=False):
        found[place] = row[n] if free == n else -row[free]
    return found[:n] if dominance_rows(matrix, found[:n]) is not None else None


def dominance_rows(matrix: SymmetricMatrix, d: Sequence[Fraction]) -> int | None:
    r"""Return the number of rows that d > 0 with Md ≥ 0 proves: \|E\|; for a tree n, or n − 1 if Md = 0.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Exact, with a connected support graph.
    d : sequence of Fraction

    Returns
    -------
    int or None
        None if d does not satisfy the conditions.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> dominance_rows(read_matrix([[1, 2], [2, 4]]), [Fraction(2), Fraction(1)])
    1
    >>> dominance_rows(read_matrix([[10**10 + 1, 10**10], [10**10, 10**10]]), [Fraction(1), Fraction(1)])
    2
    """
    if len(d) != len(matrix) or min(d) <= 0 or matrix.values.min() < 0:
        return None
    slacks = matrix.slacks(d)
    if min(slacks) < 0:
        return None
    edges = int(np.count_nonzero(np.triu(matrix.values, 1)))
    if edges >= len(matrix):
        return edges
    return len(matrix) - (not any(slacks) and len(matrix) > 1)
