"""The fewest of given rank-one matrices uuᵀ whose conic hull holds A, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb

from covopt.completely_positive.face_rational import row_reduce

MAX_VERTICES = 20_000


@dataclass(frozen=True)
class AtomCount:
    """The sparsest way to write A over the atoms.

    Attributes
    ----------
    weights : tuple of Fraction
        w ≥ 0 with Σ_k w_k u_k u_kᵀ = A, as few as possible of them positive.
    count : int
        How many are positive.
    freedom : int
        Dimension of the solutions of Σ w_k u_k u_kᵀ = A without signs; 0 where w is unique.
    """

    weights: tuple[Fraction, ...]
    count: int
    freedom: int


def fewest_atoms(A: Sequence[Sequence[Fraction]], atoms: Sequence[Sequence[int]]) -> AtomCount | None:
    r"""Minimise the number of atoms exactly.

    .. math::

        \min\ |\{k : w_k > 0\}| \quad\text{s.t.}\quad \sum_k w_k u_k u_k^\top = A,\quad w \ge 0

    A solution with the fewest atoms has linearly independent ones, so it is a vertex of the polytope of solutions;
    all vertices are visited: there are at most binom(m, q) for m atoms and q free parameters. Where the matrices uuᵀ
    are linearly independent (q = 0) the solution is unique and nothing has to be searched.

    Parameters
    ----------
    A : sequence of sequence of Fraction
        Symmetric.
    atoms : sequence of sequence of int
        The vectors u ≥ 0.

    Returns
    -------
    AtomCount or None
        None where A is not in the conic hull, or where more than 20 000 vertices would have to be visited.

    Examples
    --------
    Over (1, 0), (0, 1), (1, 1) the matrix [[2, 1], [1, 2]] is written in one way.

    >>> found = fewest_atoms([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(2)]], [(1, 0), (0, 1), (1, 1)])
    >>> found.count, found.freedom
    (3, 0)
    """
    n, m = len(A), len(atoms)
    if m == 0:
        return None
    rows = [[u[i] * u[j] for u in atoms] + [A[i][j]] for i in range(n) for j in range(i, n)]
    reduced, pivots = row_reduce(rows, m)
    if any(row[m] for row in reduced[len(pivots) :]):
        return None
    free = [k for k in range(m) if k not in pivots]
    freedom = len(free)
    if comb(m, freedom) > MAX_VERTICES:
        return None
    # w = offset + Σ_f direction_f t_f with t the free weights themselves
    offset = [Fraction(0)] * m
    directions = [[Fraction(0)] * m for _ in free]
    for row, pivot in zip(reduced, pivots, strict=False):
        offset[pivot] = row[m]
        for direction, column in zip(directions, free, strict=True):
            direction[pivot] = -row[column]
    for direction, column in zip(directions, free, strict=True):
        direction[column] = Fraction(1)
    best: list[Fraction] | None = None
    for zero in combinations(range(m), freedom):
        system = [[direction[k] for direction in directions] + [-offset[k]] for k in zero]
        solved, found = row_reduce(system, freedom)
        if len(found) < freedom:
            continue
        weights = list(offset)
        for row, direction in zip(solved, directions, strict=True):
            if row[freedom]:
                weights = [w + row[freedom] * d if d else w for w, d in zip(weights, direction, strict=True)]
        if min(weights) >= 0 and (best is None or _count(weights) < _count(best)):
            best = weights
    return None if best is None else AtomCount(tuple(best), _count(best), freedom)


def _count(weights: Sequence[Fraction]) -> int:
    return sum(w > 0 for w in weights)
