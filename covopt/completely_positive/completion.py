r"""From a factor in floats to a factor of the matrix itself: Newton's method with a proof that a solution is near.

A numerical factor B of an exact matrix A is a factor of another matrix. Fix which entries of it vanish, and let the
others move by E: BᵀB + L(E) + EᵀE = A with L(E) = BᵀE + EᵀB. With R = A − BᵀB, known exactly, a matrix T near a right
inverse of L, and E = T(Y), a solution is a fixed point of the continuous map

    Y  ↦  R + (I − LT) Y − T(Y)ᵀT(Y).

Where κ ≥ ‖I − LT‖, s ≥ ‖T‖² and 4s‖R‖ ≤ (1 − κ)², the ball ‖Y‖ ≤ ρ = 2‖R‖/(1 − κ) goes into itself, so Brouwer gives
a fixed point in it. Where √s·ρ is less than every entry that must stay positive, B + E ≥ 0 is an exact factor with as
many rows and the same zeros: the CP-rank of A is at most their number. Newton steps with exact residuals make ‖R‖ as
small as that needs.

A matrix of rank r < n is A = CᵀA_II C for r of its rows, C rational, and every factor is B = XC: then X is what is
sought, its rows confined to the subspace where the chosen entries of XC vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular

from covopt.exact.elimination import bareiss, integer_row, integer_table, row_reduce
from covopt.exact.rounding import gamma

CUTS = (0.0, 1e-9, 1e-6, 1e-4, 1e-2)  # entries of the factor, against √a_jj, that are tried as zeros
STEPS = 6
GRID = 64  # bits that each Newton step adds to the entries
CLEARLY = 1e-9  # smallest eigenvalue (unit diagonal) above which X is sought on all rows: a hint
MOST_EQUATIONS = 1000
MOST_UNKNOWNS = 6000
MOST_SPAN = 12  # rank, where the span of the allowed products has to be found by elimination
SLACK = 1.0 + 2.0**-29  # above γ(n) of norms of up to n = MOST_EQUATIONS · MOST_UNKNOWNS entries

Matrix = Sequence[Sequence[Fraction]]


def completes(A: Matrix, B: np.ndarray) -> bool:
    """Whether some B' ≥ 0 with as many rows as B is a factor of A exactly; False where that is not proved.

    Parameters
    ----------
    A : sequence of sequence of Fraction
        Symmetric with a positive diagonal.
    B : ndarray of shape (m, n)
        Near a factor, nonnegative.

    References
    ----------
    Rump, Verification methods, Acta Numerica 19 (2010), doi:10.1017/S096249291000005X.

    Examples
    --------
    √2 is no float, and so no float factor of [[2]] is exact.

    >>> completes([[Fraction(2)]], np.array([[1.4142135]]))
    True
    >>> completes([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(1)]], np.array([[1.4142135, 0.7071]]))
    False
    """
    n = len(A)
    powers = [_half_exponent(A[i][i]) for i in range(n)]
    A = [[_shifted(A[i][j], powers[i] + powers[j]) for j in range(n)] for i in range(n)]
    B = np.ldexp(B, np.array(powers))
    span = _span(A)
    if span is None or not np.isfinite(B).all():
        return False
    seen = set()
    for cut in CUTS:
        zeros = cut >= B
        key = zeros.tobytes()
        if key in seen:
            continue
        seen.add(key)
        system = _system(A, B, span, zeros)
        if system is not None and system.solve():
            return True
    return False


def _half_exponent(x: Fraction) -> int:
    """Return p with 4^p x between 1/4 and 4."""
    return -((x.numerator.bit_length() - x.denominator.bit_length()) // 2)


def _shifted(x: Fraction, power: int) -> Fraction:
    """Return x times a power of two."""
    return Fraction(x.numerator << max(power, 0), x.denominator << max(-power, 0))


@dataclass(frozen=True)
class _Span:
    """Rows I with A = CᵀA_II C."""

    rows: tuple[int, ...]
    C: list[list[Fraction]] | None  # None for the identity


def _span(A: Matrix) -> _Span | None:
    n = len(A)
    values = np.array([[float(x) for x in row] for row in A])
    roots = np.sqrt(np.diag(values))
    if np.linalg.eigvalsh(values / np.outer(roots, roots))[0] > CLEARLY:
        return _Span(tuple(range(n)), None)
    table, _ = integer_table(A)
    left, last = list(table), 1
    open_, chosen = list(range(n)), []
    while open_:
        pivot = max(open_, key=lambda i: left[i][i])
        above = left[pivot]
        lead = above[pivot]
        if lead <= 0:
            break
        open_.remove(pivot)
        chosen.append(pivot)
        for i in open_:  # divisions leave nothing (Bareiss 1968)
            factor = left[i][pivot]
            left[i] = [(lead * x - factor * y) // last for x, y in zip(left[i], above, strict=True)]
        last = lead
    if any(left[i][j] for i in open_ for j in open_):
        return None
    if len(chosen) == n:
        return _Span(tuple(range(n)), None)
    rows = tuple(sorted(chosen))
    reduced, pivots, pivot = bareiss([[*(table[i][j] for j in rows), *table[i]] for i in rows])
    if len(pivots) < len(rows):
        return None
    whole = [row[len(rows) :] for row in reduced]
    for i in range(n):
        column = [(row[i], table[k]) for row, k in zip(whole, rows, strict=True) if row[i]]
        if any(sum(x * own[j] for x, own in column) != pivot * table[i][j] for j in range(n)):
            return None
    C = [[Fraction(x, pivot) for x in row] for row in whole]
    return _Span(rows, C)


@dataclass
class _System:
    """The equations XᵀX = A_II on ``pairs``, the rows of X = ``basis``ᵀt; integers over a power of two."""

    goal: list[Fraction]
    pairs: list[tuple[int, int]]
    basis: list[np.ndarray]  # object arrays of int, shape (d_k, r)
    t: list[list[int]]
    bits: int
    columns: list[
        tuple[list[int], int, float]
    ]  # c_j times a number, that, and an upper bound on the norm of c_j
    positive: np.ndarray

    def rows(self) -> list[np.ndarray]:
        return [np.array(t, dtype=object) @ N for t, N in zip(self.t, self.basis, strict=True)]

    def residual(self, X: list[np.ndarray]) -> list[Fraction]:
        scale = 1 << (2 * self.bits)
        table = np.array(X, dtype=object)
        found = []
        for goal, (a, b) in zip(self.goal, self.pairs, strict=True):
            found.append(goal - Fraction(int((table[:, a] * table[:, b]).sum()), scale))
        return found

    def solve(self) -> bool:
        sizes = [[_bits(vector) for vector in part] for part in self.basis]
        N = [_scaled(part, size) for part, size in zip(self.basis, sizes, strict=True)]
        for step in range(STEPS):
            X = self.rows()
            R = self.residual(X)
            size = _norm(R)
            if not np.isfinite(size) or size > 1e-2:
                return False
            numbers = np.array([[int(x) / (1 << self.bits) for x in row] for row in X])
            found = self._inverse(numbers, N)
            if found is None:
                return False
            T, defect, spread = found
            if self._proved(X, size, defect, spread):
                return True
            if step == STEPS - 1 or size == 0.0:
                return False
            self._move(T @ np.array([float(x) for x in R]), sizes)
        return False

    def _move(self, tau: np.ndarray, sizes: list[list[int]]) -> None:
        self.bits += GRID
        start = 0
        for k, (t, size) in enumerate(zip(self.t, sizes, strict=True)):
            part = tau[start : start + len(t)]
            start += len(t)
            moves = [
                (*float(new).as_integer_ratio(), self.bits - e) for new, e in zip(part, size, strict=True)
            ]
            self.t[k] = [(old << GRID) + (x << e) // y for old, (x, y, e) in zip(t, moves, strict=True)]

    def _inverse(self, X: np.ndarray, N: list[np.ndarray]) -> tuple[np.ndarray, float, float] | None:
        """Return T, its unknowns in units of N, and upper bounds on ‖I − LT‖ and on the norm of Y ↦ E (Frobenius)."""
        a, b = np.array(self.pairs).T
        parts = [(part[:, a] * x[b], part[:, b] * x[a]) for x, part in zip(X, N, strict=True)]
        L = np.hstack([(first + second).T for first, second in parts])
        sizes = np.hstack([(np.abs(first) + np.abs(second)).T for first, second in parts])
        if L.shape[1] < L.shape[0]:
            return None
        try:
            Q, S = qr(L.T, mode="economic")
            if not np.abs(np.diag(S)).min() > 0:
                return None
            T = Q @ solve_triangular(S, np.eye(len(S)), trans="T")
        except (LinAlgError, ValueError):
            return None
        if not np.isfinite(T).all():
            return None
        # every entry of L carries a few roundings of its two terms, the product one per term
        allowed = gamma(2 * (L.shape[1] + 8)) * float(np.linalg.norm(sizes @ np.abs(T)))
        defect = (float(np.linalg.norm(np.eye(len(L)) - L @ T)) + allowed) * SLACK
        total, start = 0.0, 0
        for part in N:
            here = T[start : start + len(part)]
            start += len(part)
            moved = np.abs(part.T @ here) + gamma(2 * (len(part) + 8)) * (np.abs(part).T @ np.abs(here))
            total += float((moved**2).sum())
        spread = float(np.sqrt(total)) * SLACK
        return (T, defect, spread) if defect < 0.5 and np.isfinite(spread) else None

    def _proved(self, X: list[np.ndarray], size: float, defect: float, spread: float) -> bool:
        if not 4.0 * spread**2 * size * SLACK <= (1.0 - defect) ** 2:
            return False
        reach = spread * 2.0 * size / (1.0 - defect) * SLACK
        unit = 1 << self.bits
        for j, (c, scale, norm) in enumerate(self.columns):
            terms = [(place, x) for place, x in enumerate(c) if x]
            for k in np.flatnonzero(self.positive[:, j]):
                value = sum(x * int(X[k][place]) for place, x in terms)
                if value <= 0 or not value / (unit * scale) > reach * norm * SLACK:  # rounded once
                    return False
        return True


def _bits(vector: np.ndarray) -> int:
    return int(max(map(abs, vector))).bit_length()


def _scaled(part: np.ndarray, size: list[int]) -> np.ndarray:
    """Return basis vectors with entries of size one: unknowns of like size, and no overflow."""
    return np.array([[int(x) / (1 << e) for x in v] for v, e in zip(part, size, strict=True)])


def _norm(values: Sequence[Fraction]) -> float:
    """Return an upper bound on the Euclidean norm."""
    numbers = np.array([abs(float(x)) for x in values])
    largest = numbers.max(initial=0.0)
    if largest == 0.0:
        return 0.0 if not any(values) else 1e-300
    return float(largest * np.linalg.norm(numbers / largest)) * SLACK + 1e-300


def _system(A: Matrix, B: np.ndarray, span: _Span, zeros: np.ndarray) -> _System | None:
    r = len(span.rows)
    basis = _bases(span, zeros)
    if basis is None or sum(map(len, basis)) > MOST_UNKNOWNS:
        return None
    pairs = _pairs(A, span, basis, zeros)
    if pairs is None or not 0 < len(pairs) <= MOST_EQUATIONS:
        return None
    bits = 80 + max(_bits(vector) for part in {id(part): part for part in basis}.values() for vector in part)
    t = []
    # echelon form: the last entry of each basis vector is its own
    ends = {id(part): [int(np.flatnonzero(vector)[-1]) for vector in part] for part in basis}
    for row, part in zip(B, basis, strict=True):
        inside = row[list(span.rows)].tolist()
        starts = [
            (*inside[f].as_integer_ratio(), int(v[f])) for f, v in zip(ends[id(part)], part, strict=True)
        ]
        t.append([(x << bits) // (y * unit) for x, y, unit in starts])
    if span.C is None:
        columns = [([int(i == j) for i in range(r)], 1, 1.0) for j in range(r)]
    else:
        every = [[row[j] for row in span.C] for j in range(len(A))]
        columns = [(*integer_row(c), _norm(c)) for c in every]
    goal = [A[span.rows[a]][span.rows[b]] for a, b in pairs]
    return _System(goal, pairs, basis, t, bits, columns, ~zeros)


def _bases(span: _Span, zeros: np.ndarray) -> list[np.ndarray] | None:
    """Return for every row of X an integer basis of the subspace where its zeros hold; None where one is empty."""
    r = len(span.rows)
    known: dict[bytes, np.ndarray] = {}
    found = []
    for row in zeros:
        key = row.tobytes()
        if key not in known:
            known[key] = _basis(span, np.flatnonzero(row).tolist(), r)
        if not len(known[key]):
            return None
        found.append(known[key])
    return found


def _basis(span: _Span, zeros: list[int], r: int) -> np.ndarray:
    if span.C is None:
        kept = [i for i in range(r) if i not in set(zeros)]
        return np.array([[int(i == j) for j in range(r)] for i in kept], dtype=object).reshape(-1, r)
    # pivots from the left, so that each basis vector ends in its own free entry
    reduced, pivots = row_reduce([[span.C[i][j] for i in range(r)] for j in zeros], r)
    vectors = []
    for free in (i for i in range(r) if i not in pivots):
        vector = [Fraction(0)] * r
        vector[free] = Fraction(1)
        for row, pivot in zip(reduced, pivots, strict=False):
            vector[pivot] = -row[free]
        vectors.append(integer_row(vector)[0])
    return np.array(vectors, dtype=object).reshape(-1, r)


def _pairs(
    A: Matrix, span: _Span, basis: list[np.ndarray], zeros: np.ndarray
) -> list[tuple[int, int]] | None:
    """Return entries of XᵀX that decide all of them, as X keeps its zeros; None where A_II cannot be reached."""
    r = len(span.rows)
    every = [(a, b) for a in range(r) for b in range(a, r)]
    if any(len(part) == r for part in basis):
        return every
    if span.C is None:
        inside = (~zeros).astype(int)
        met = (inside.T @ inside) > 0
        if any(A[a][b] for a, b in every if not met[a, b]):
            return None
        return [(a, b) for a, b in every if met[a, b]]
    if r > MOST_SPAN:
        return None
    echelon: dict[int, list[Fraction]] = {}

    def reduce(vector: list[Fraction]) -> list[Fraction]:
        for place, row in echelon.items():
            if vector[place]:
                factor = vector[place]
                vector = [x - factor * y if y else x for x, y in zip(vector, row, strict=True)]
        return vector

    for part in {id(p): p for p in basis}.values():
        for i, u in enumerate(part):
            for v in part[i:]:
                vector = reduce([Fraction(int(u[a] * v[b] + u[b] * v[a])) for a, b in every])
                place = next((k for k, x in enumerate(vector) if x), None)
                if place is not None:
                    echelon[place] = [x / vector[place] for x in vector]
                if len(echelon) == len(every):
                    return every
    if any(reduce([A[span.rows[a]][span.rows[b]] for a, b in every])):
        return None
    return [every[place] for place in echelon]
