"""The least ⟨A, S⟩ over Parrilo's cone K¹ of copositive matrices: a hint for the exact steps, never a claim.

K¹ holds the S for which (Σ x_i²)·Σ_ij S_ij x_i² x_j² is a sum of squares. K¹ ⊂ copositive, and for n = 5 every
copositive matrix of unit diagonal is in it. It changes under diagonal scaling, so the scaling is repeated until S
has a unit diagonal (Dickinson, Dür, Gijben, Hildebrand, Optim. Lett. 7, 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import sparse

SCALINGS = 6
CAP = 2.0  # in K¹ entries above √(S_ii S_jj) buy nothing and would let the optimal set be unbounded
SETTLED = 1e-6


@dataclass(frozen=True)
class ParriloPoint:
    """An approximate minimiser.

    Attributes
    ----------
    S : ndarray of shape (n, n)
        In the coordinates of ``A``.
    value : float
        ⟨A, S⟩/n with S and A both scaled to a unit diagonal.
    scaling : ndarray of shape (n,)
        d with d_i d_j A_ij of trace n; S_ij = d_i d_j S'_ij where S' is the solver's matrix, trace n.
    scaled : ndarray of shape (n, n)
        S'.
    """

    S: np.ndarray
    value: float
    scaling: np.ndarray
    scaled: np.ndarray


def minimise_over_k1(A: np.ndarray, *, time_limit_s: float | None = None) -> ParriloPoint | None:
    r"""Minimise a linear form over Parrilo's cone K¹ by Clarabel, a few diagonal scalings in turn.

    .. math::

        \min_{S, M}\ \langle A, S\rangle \quad\text{s.t.}\quad S - M^{(i)} \succeq 0,\quad M^{(i)}_{ii} = 0,\quad
        M^{(i)}_{jj} + 2 M^{(j)}_{ij} = 0,\quad M^{(i)}_{jk} + M^{(j)}_{ik} + M^{(k)}_{ij} \ge 0,\quad
        \operatorname{Tr} S = n,\quad S_{ij} \le 2 .

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric with a positive diagonal.
    time_limit_s : float, optional
        For one solver call.

    Returns
    -------
    ParriloPoint or None
        None where the solver gave no point.

    References
    ----------
    Parrilo, Structured semidefinite programs …, thesis, Caltech (2000), doi:10.7907/2K6Y-CH43. The formulation with
    the matrices M is that of de Klerk and Pasechnik, SIAM J. Optim. 12 (2002), doi:10.1137/S1052623401383248.

    Examples
    --------
    The identity is completely positive and off the boundary: no copositive matrix of trace n gives less than n.

    >>> round(minimise_over_k1(np.eye(3)).value, 6)
    1.0
    """
    d = 1 / np.sqrt(np.diag(A))
    best: ParriloPoint | None = None
    for _ in range(SCALINGS):
        scaled_A = A * np.outer(d, d)
        mean = float(np.trace(scaled_A)) / len(A)
        found = _solve(scaled_A / mean, time_limit_s)
        if found is None:
            break
        S = found
        # both diagonals at one: the number does not depend on the scaling that was tried
        value = float(np.sum(scaled_A * S)) / mean / len(A)
        if best is None or value < best.value + SETTLED * abs(best.value) + 1e-9:
            best = ParriloPoint(S * np.outer(d, d), value, d, S)
        diagonal = np.diag(S)
        if np.max(np.abs(diagonal - 1)) < SETTLED:
            break
        d = d * np.sqrt(np.clip(diagonal, 1e-4, None))
    return best


def _solve(A: np.ndarray, time_limit_s: float | None) -> np.ndarray | None:
    import clarabel

    n = len(A)
    constraints, rhs, cones, upper = _program(n)
    t = len(upper)
    cost = np.zeros(constraints.shape[1])
    cost[:t] = [A[i, j] * (1 if i == j else 2) for i, j in upper]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    if time_limit_s is not None:
        settings.time_limit = time_limit_s
    quadratic = sparse.csc_matrix((len(cost), len(cost)))
    result = clarabel.DefaultSolver(quadratic, cost, constraints, rhs, cones(clarabel), settings).solve()
    x = np.asarray(result.x[:t])
    if not np.isfinite(x).all() or "Infeasible" in str(result.status) or not x.any():
        return None
    S = np.zeros((n, n))
    for (i, j), value in zip(upper, x, strict=True):
        S[i, j] = S[j, i] = value
    return S


def _program(n: int):
    """Return the constraint matrix, right-hand side and cones of min cᵀx s.t. Gx + s = b, s in the cones."""
    upper = [(i, j) for j in range(n) for i in range(j + 1)]
    place = {pair: k for k, pair in enumerate(upper)}
    t = len(upper)

    def s_entry(i: int, j: int) -> int:
        return place[min(i, j), max(i, j)]

    def m_entry(q: int, i: int, j: int) -> int:
        return t * (1 + q) + s_entry(i, j)

    terms: list[list[tuple[int, float]]] = [[(s_entry(i, i), 1.0) for i in range(n)]]
    rhs = [float(n)]
    terms += [[(m_entry(i, i, i), 1.0)] for i in range(n)]
    terms += [
        [(m_entry(i, j, j), 1.0), (m_entry(j, i, j), 2.0)] for i in range(n) for j in range(n) if i != j
    ]
    equalities = len(terms)
    terms += [
        [(m_entry(i, j, k), -1.0), (m_entry(j, i, k), -1.0), (m_entry(k, i, j), -1.0)]
        for i, j, k in combinations(range(n), 3)
    ]
    rhs += [0.0] * (len(terms) - len(rhs))
    terms += [[(s_entry(i, j), 1.0)] for i, j in combinations(range(n), 2)]
    rhs += [CAP] * (len(terms) - len(rhs))
    inequalities = len(terms) - equalities
    for q in range(n):
        for i, j in upper:
            weight = 1.0 if i == j else np.sqrt(2.0)
            terms.append([(s_entry(i, j), -weight), (m_entry(q, i, j), weight)])
    rhs += [0.0] * (len(terms) - len(rhs))
    rows = [r for r, row in enumerate(terms) for _ in row]
    columns = [c for row in terms for c, _ in row]
    values = [v for row in terms for _, v in row]
    matrix = sparse.csc_matrix((values, (rows, columns)), shape=(len(terms), t * (n + 1)))

    def cones(clarabel):
        blocks = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(inequalities)]
        return blocks + [clarabel.PSDTriangleConeT(n)] * n

    return matrix, np.array(rhs), cones, upper
