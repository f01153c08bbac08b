"""CP-rank of matrices whose answer is known: exact products of nonnegative integers, and small or damaged ones.

Known without covopt: A = BᵀB with B of m rows has CP-rank at most m; the CP-rank is at least the rank (exact, in
integers), and equals it for n ≤ 3; a matrix that is indefinite or has a negative entry is not completely positive.
"""

from __future__ import annotations

import numpy as np

import covopt
from benchmarks.adversary.neurons import exact_rank
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.solves import quiet, verifies

SECONDS = 5.0


def product(rng: np.random.Generator) -> Outcome:
    """Test A = BᵀB of small integers, with rows and columns scaled by integers."""
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    B = rng.integers(0, 4, (m, n)) * (rng.random((m, n)) < rng.uniform(0.3, 1.0))
    B = B.astype(object)
    if rng.random() < 0.4:
        B = B * np.array([10 ** int(rng.integers(0, 6)) for _ in range(n)], dtype=object)
    return _ask(B.T @ B, m)


def near_singular(rng: np.random.Generator) -> Outcome:
    """Test integers that look like a matrix of lower rank in double precision."""
    n = int(rng.integers(2, 5))
    size = 10 ** int(rng.integers(5, 15))
    base = [int(v) for v in rng.integers(1, 4, n)]
    A = size * np.multiply.outer(np.array(base, dtype=object), np.array(base, dtype=object))
    for _ in range(int(rng.integers(1, 3))):
        i, j = rng.integers(0, n, 2)
        change = int(rng.integers(-2, 3))
        A[i, j] += change
        if i != j:
            A[j, i] += change
    return _ask(A, None)


def floats(rng: np.random.Generator) -> Outcome:
    """Test floating-point products with rows scaled by powers of ten; only the bracket's order can be checked."""
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    B = rng.random((m, n)) * (rng.random((m, n)) < 0.7) * 10.0 ** rng.integers(-5, 6, n)
    found = quiet(covopt.cp_rank, B.T @ B, time_limit_s=SECONDS)
    if found.status.code == "not_cp":
        return refuted(f"not_cp, but A is a product of {m} nonnegative rows to rounding")
    if found.lower is not None and found.lower > m:
        return refuted(f"lower bound {found.lower}, but A is a product of {m} nonnegative rows to rounding")
    return worst([_ordered(found), verifies(found)])


def _ask(A: np.ndarray, most: int | None) -> Outcome:
    """Test an exact integer matrix for which ``most`` rows are known to suffice."""
    found = quiet(covopt.cp_rank, A.tolist(), time_limit_s=SECONDS)
    lower, upper, code = found.lower, found.upper, found.status.code
    n, rank = len(A), exact_rank(A)
    possible = bool((A >= 0).all()) and _semidefinite(A)
    if most is not None and code == "not_cp":
        return refuted(f"not_cp, but A = BᵀB with {most} nonnegative integer rows")
    if most is not None and lower is not None and lower > most:
        return refuted(f"lower bound {lower}, but A = BᵀB with {most} nonnegative integer rows")
    if not possible and upper is not None:
        return refuted(f"upper bound {upper}, but A is no doubly nonnegative matrix: {A.tolist()}")
    if possible and upper is not None and upper < rank:
        return refuted(f"upper bound {upper} is below the rank {rank}: {A.tolist()}")
    if possible and n <= 4 and code == "not_cp":
        return refuted(f"not_cp, but doubly nonnegative with n = {n}: {A.tolist()}")
    if possible and n <= 3 and lower is not None and lower > rank:
        return refuted(f"lower bound {lower}, but n = {n} and the rank is {rank}: {A.tolist()}")
    if possible and n <= 4 and lower is not None and lower > n:
        return refuted(f"lower bound {lower} for n = {n}")
    return worst([_ordered(found), verifies(found)])


def _ordered(found) -> Outcome:
    if found.lower is not None and found.upper is not None and found.lower > found.upper:
        return refuted(f"lower {found.lower} > upper {found.upper}")
    return held(float(found.upper - found.lower) if None not in (found.lower, found.upper) else np.nan)


def _semidefinite(A: np.ndarray) -> bool:
    """Return whether every principal minor of an integer matrix is nonnegative."""
    n = len(A)
    for bits in range(1, 2**n):
        which = [i for i in range(n) if bits >> i & 1]
        if _determinant(A[np.ix_(which, which)]) < 0:
            return False
    return True


def _determinant(square: np.ndarray) -> int:
    if not len(square):
        return 1
    minors = (np.delete(square[1:], j, axis=1) for j in range(len(square)))
    return sum(
        (-1) ** j * entry * _determinant(m)
        for j, (entry, m) in enumerate(zip(square[0], minors, strict=True))
    )


CLASSES = {"product": product, "near-singular": near_singular, "floats": floats}
