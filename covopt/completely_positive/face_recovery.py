"""Recover an exact integer matrix S from the minimiser of ⟨A, S⟩ over Parrilo's cone, by way of its zeros.

Parrilo's cone K¹ is the set of S for which (Σ x_i²)·Σ_ij S_ij x_i² x_j² is a sum of squares. Its elements are
copositive, and for n = 5 it contains every copositive matrix of unit diagonal. It is not invariant under diagonal
scaling, so the scaling is repeated until S has a unit diagonal (Dickinson, Dür, Gijben, Hildebrand, Optim. Lett. 7,
2013). The numerical solution is only a starting point for the exact steps; nothing is claimed about it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import least_squares, nnls

from covopt.checks import required
from covopt.completely_positive.matrix import Matrix, recognised
from covopt.exact.elimination import integer_array, row_reduce
from covopt.exact.rank import FOUND, NEAR, ROUGH
from covopt.limits import HALF

GRIDS = (4, 16, 64, 1024, 2**16, 2**30)  # denominators to which a solver's S is rounded, one after the other


@dataclass(frozen=True)
class ParriloPoint:
    """An approximate minimiser of ⟨A, S⟩ over K¹.

    Attributes
    ----------
    value : float
        ⟨A, S⟩/n with S and A both scaled to a unit diagonal.
    scaling : ndarray of shape (n,)
        d such that d_i d_j A_ij has trace n; S_ij = d_i d_j S'_ij with the solver's matrix S' of trace n.
    scaled : ndarray of shape (n, n)
        S'.
    """

    value: float
    scaling: np.ndarray
    scaled: np.ndarray

    @property
    def S(self) -> np.ndarray:
        """The minimiser in the coordinates of ``A``, scaled to a largest entry of ±1."""
        S = self.scaled * np.outer(self.scaling, self.scaling)
        return S / np.abs(S).max()


def minimise_over_k1(A: np.ndarray, *, time_limit_s: float | None = None) -> ParriloPoint | None:
    r"""Minimise ⟨A, S⟩ over K¹, in the scaling in which S has a unit diagonal.

    .. math::

        \min_{S, M}\ \langle A, S\rangle \quad\text{s.t.}\quad S - M^{(i)} \succeq 0,\quad M^{(i)}_{ii} = 0,\quad
        M^{(i)}_{jj} + 2 M^{(j)}_{ij} = 0,\quad M^{(i)}_{jk} + M^{(j)}_{ik} + M^{(k)}_{ij} \ge 0,\quad
        \operatorname{Tr} S = n,\quad S_{ij} \le 2 .

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric with a positive diagonal.
    time_limit_s : float, optional
        Time limit for one solver call.

    Returns
    -------
    ParriloPoint or None
        None if the solver returned no point.

    Raises
    ------
    MissingPackageError
        Without cvxpy.

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
    cvxpy = required("cvxpy", "the face certificate", "conic")
    n = len(A)
    cost, S = cvxpy.Parameter((n, n), symmetric=True), cvxpy.Variable((n, n), symmetric=True)
    M = [cvxpy.Variable((n, n), symmetric=True) for _ in range(n)]
    # entries above √(S_ii S_jj) do not help; without the bound the optimal set could be unbounded
    constraints = [cvxpy.trace(S) == n, n * np.ones((n, n)) >= S, *(S >> part for part in M)]
    for i in range(n):
        beside = [M[j][i, j] if i != j else cvxpy.Constant(0.0) for j in range(n)]
        constraints.append(cvxpy.diag(M[i]) + 2 * cvxpy.hstack(beside) == 0)
    triples = [M[i][j, k] + M[j][i, k] + M[k][i, j] for i, j, k in combinations(range(n), 3)]
    if triples:
        constraints.append(cvxpy.hstack(triples) >= 0)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(cost, S))), constraints)
    options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), FOUND) | {"max_threads": 1}
    if time_limit_s is not None:
        options["time_limit"] = time_limit_s
    d = 1 / np.sqrt(np.diag(A))
    best: ParriloPoint | None = None
    last, apart = np.inf, float(n)
    while NEAR < apart < HALF * last:
        scaled_A = A * np.outer(d, d)
        cost.value = scaled_A / (np.trace(scaled_A) / n)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an inaccurate point will do: it is only a starting point
                problem.solve(solver=cvxpy.CLARABEL, **options)
        except cvxpy.error.SolverError:
            break
        if S.value is None or not S.value.any():
            break
        found = (S.value + S.value.T) / 2
        # value for unit diagonals of A and S, independent of the current scaling
        value = float(np.sum(cost.value * found)) / n
        if best is None or value < best.value + NEAR * abs(best.value) + 1e-9:
            best = ParriloPoint(value, d, found)
        diagonal = np.diag(found)
        last, apart = apart, float(np.max(np.abs(diagonal - 1)))
        d = d * np.sqrt(np.clip(diagonal, 1e-4, None))
    return best


def candidate_matrices(A: Matrix, point: ParriloPoint) -> Iterator[list[list[int]]]:
    """Yield integer matrices near the minimiser that vanish on its zeros and on A; each has to be checked.

    The zeros u of S satisfy (Su)_i = 0 on their supports. For known supports these are equations for S and the u.
    Gauss–Newton refines both to rounding accuracy, then the u are recognised as rationals. The remaining equations
    are linear in S and solved over the rationals, with the free entries rounded to finer and finer grids.

    Parameters
    ----------
    A : sequence of sequence of Fraction
    point : ParriloPoint

    Yields
    ------
    list of list of int

    Examples
    --------
    >>> A = [[1, 1], [1, 1]]
    >>> next(candidate_matrices(A, minimise_over_k1(np.array(A, dtype=float))))
    [[1, -1], [-1, 1]]
    """
    sharp, zeros = _sharpen(np.array(A, dtype=float), point)
    rational = [u for u in (_name(u, point.scaling) for u in zeros) if u is not None]
    if not rational:
        return
    n = len(A)
    upper = np.triu_indices(n)

    def equation(G: np.ndarray) -> list[Fraction]:
        """Return the coefficients of ⟨G, S⟩ in the entries S_ij, i ≤ j."""
        return (G + G.T - np.diag(np.diag(G)))[upper].tolist()

    rows = [equation(np.array(A, dtype=object))]
    for u in np.array(rational, dtype=object):
        rows += [equation(np.outer(row, u)) for row in np.eye(n, dtype=int)[u > 0]]
    reduced, pivots = row_reduce(rows, len(upper[0]))
    free = [k for k in range(len(upper[0])) if k not in pivots]
    if not free:
        return
    table = np.array(reduced[: len(pivots)], dtype=object)[:, free]
    wanted = sharp.S[upper][free]
    wanted = wanted / np.abs(wanted).max()
    for grid in GRIDS if len(free) > 1 else GRIDS[:1]:
        values = np.array([Fraction(w).limit_denominator(grid) for w in wanted.tolist()])
        entries, S = np.zeros(len(upper[0]), dtype=object), np.zeros((n, n), dtype=object)
        entries[free], entries[pivots] = values, -(table @ values)
        S[upper] = S.T[upper] = entries
        if S.any():
            yield coprime(S)


def coprime(S: np.ndarray) -> list[list[int]]:
    """Return the positive multiple of S ≠ 0 whose entries are coprime integers."""
    return integer_array(S)[0].tolist()


def _sharpen(A: np.ndarray, point: ParriloPoint) -> tuple[ParriloPoint, list[np.ndarray]]:
    """Solve S u_k = 0 (rows of the support), 1ᵀu_k = 1, Σ w_k u_k u_kᵀ = A, Tr S = n by least squares.

    The equation of A fixes the scaling: (S, u) → (DSD, D⁻¹u) preserves S u_k = 0.
    """
    S, n = point.scaled, len(point.scaled)
    A = A * np.outer(point.scaling, point.scaling)
    A = A / np.abs(A).max()
    zeros = _zeros_of(S)
    if not zeros:
        return point, zeros
    U = np.array(zeros)
    mask, upper = U > 0, np.triu_indices(n)
    masses = nnls(np.array([np.outer(u, u)[upper] for u in zeros]).T, A[upper])[0]
    ends = np.cumsum([len(upper[0]), int(mask.sum())])

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        S, U = np.zeros((n, n)), np.zeros(mask.shape)
        S[upper] = S.T[upper] = x[: ends[0]]
        U[mask] = x[ends[0] : ends[1]]
        return S, U, x[ends[1] :]

    start = np.concatenate([S[upper], U[mask], masses])

    def errors(x: np.ndarray) -> np.ndarray:
        S, U, w = parts(x)
        fit = (U.T * w) @ U - A
        found = np.concatenate([(U @ S)[mask], U.sum(1) - 1, fit[upper], [np.trace(S) - n]])
        return np.pad(found, (0, max(0, len(start) - len(found))))  # "lm" needs as many equations as unknowns

    found = least_squares(errors, start, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    S, U, _ = parts(found.x)
    return replace(point, scaled=S), list(U)


def _zeros_of(S: np.ndarray) -> list[np.ndarray]:
    """Return the positive near-kernel vectors of the principal submatrices, scaled to sum one."""
    n = len(S)
    zeros = []
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            values, vectors = np.linalg.eigh(S[np.ix_(support, support)])
            u = vectors[:, 0] * np.sign(vectors[:, 0].sum())
            alone = size == 1 or values[1] > 10 * max(values[0], 1e-6)
            if values[0] < ROUGH and alone and u.min() > ROUGH:
                full = np.zeros(n)
                full[list(support)] = u / u.sum()
                zeros.append(full)
    return zeros


def _name(zero: np.ndarray, scaling: np.ndarray) -> list[Fraction] | None:
    """Return the zero as rationals in the coordinates of A; None if it is not recognised as rational."""
    u = zero / scaling
    support = np.flatnonzero(zero)
    u = u / u[support[np.argmax(u[support])]]
    exact = [recognised(float(x)) for x in u]
    if min(exact) < 0 or max(abs(float(e) - x) for e, x in zip(exact, u, strict=True)) > NEAR:
        return None
    return exact
