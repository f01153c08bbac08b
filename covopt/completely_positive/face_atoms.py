"""The least number of given rank-one matrices uuᵀ whose conic hull contains A, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from covopt.completely_positive.matrix import Matrix
from covopt.exact.elimination import row_reduce
from covopt.exact.rank import NEAR
from covopt.limits import PIECE

Atoms = Sequence[Sequence[int | Fraction]] | np.ndarray


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
