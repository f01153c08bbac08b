"""The face certificate: the exact CP-rank of a matrix on the boundary of the completely positive cone.

Let S be copositive with ⟨A, S⟩ = 0. In A = Σ bbᵀ with b ≥ 0 the terms bᵀSb ≥ 0 sum to zero, so every row b of every
factor is a zero of S. If the zeros of S are finitely many rays, the CP-rank is the least number of them whose
rank-one matrices have A in their conic hull: a finite problem. And ⟨A, S⟩ < 0 proves that there is no factor.

S is found by a semidefinite program and then replaced by an integer matrix; its copositivity, its zeros and the
number of rows are decided in rational arithmetic.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.checks.validation import check_time_limit
from covopt.completely_positive import Known, Reason, register
from covopt.completely_positive.exclusion import (
    CERTIFIED_ORDER,
    is_copositive_exact,
    scan_copositive,
)
from covopt.completely_positive.face_recovery import GRIDS, candidate_matrices, coprime, minimise_over_k1
from covopt.completely_positive.factorisation import atoms_needed, fewest_atoms
from covopt.completely_positive.matrix import SymmetricMatrix, read_matrix
from covopt.errors import BudgetError, InputError
from covopt.exact.rank import NEAR
from covopt.files.schema import fractions
from covopt.limits import MOST_LISTED

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FaceCertificate:
    """An exact proof of the CP-rank by a face of the completely positive cone.

    Attributes
    ----------
    S : tuple of tuple of int
        Copositive matrix with ⟨A, S⟩ = 0.
    zeros : tuple of tuple of int
        All zeros of S up to scaling; they are isolated.
    weights : tuple of Fraction
        Weights with Σ_k w_k u_k u_kᵀ = A over the zeros u_k.
    lower : int
        Lower bound on the number of zeros needed; equal to ``upper`` unless A has very many representations.
    """

    S: tuple[tuple[int, ...], ...]
    zeros: tuple[tuple[int, ...], ...]
    weights: tuple[Fraction, ...]
    lower: int

    @property
    def upper(self) -> int:
        """Number of positive weights."""
        return sum(w > 0 for w in self.weights)

    @property
    def factor(self) -> np.ndarray:
        """B with rows √w_k u_k for w_k > 0: BᵀB = A up to the rounding of the square roots."""
        rows = [
            [float(u) * float(w) ** 0.5 for u in zero]
            for w, zero in zip(self.weights, self.zeros, strict=True)
            if w > 0
        ]
        return np.array(rows).reshape(len(rows), len(self.S))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; fractions as text."""
        return {
            "S": [list(row) for row in self.S],
            "zeros": [list(u) for u in self.zeros],
            "weights": [str(w) for w in self.weights],
            "lower": self.lower,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> FaceCertificate:
        """Read what :meth:`to_dict` wrote; only types are checked.

        Raises
        ------
        InputError
            If a field is missing or has the wrong type.
        """
        try:
            return cls(
                tuple(tuple(int(x) for x in row) for row in content["S"]),
                tuple(tuple(int(x) for x in u) for u in content["zeros"]),
                tuple(fractions(content["weights"])),
                int(content["lower"]),
            )
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise InputError(
                f"content must be a face certificate as to_dict writes it; received one with {error!r}."
            ) from error


def face_certificate(A: Any, *, time_limit_s: float | None = None) -> FaceCertificate | None:
    r"""Compute the CP-rank of a matrix on the boundary of the completely positive cone, with its proof.

    .. math::

        \min\{\langle A, S\rangle : S \in K^1,\ \operatorname{Tr} S = n\} = 0
        \quad\Rightarrow\quad b^\top S b = 0 \text{ for every row } b \text{ of every } B \ge 0,\ B^\top B = A

    Parameters
    ----------
    A : array_like of shape (n, n)
        Symmetric, positive diagonal, n ≤ 16. Integers or fractions: floats are taken as the fractions they store.
    time_limit_s : float, optional
        Time limit for each call of the semidefinite solver.

    Returns
    -------
    FaceCertificate or None
        None if no certificate was found: A is not on the boundary, or the zeros of S are not isolated or not
        rational. The log (level INFO) states which. None proves nothing.

    Raises
    ------
    InputError
        Not square, symmetric and finite, or a diagonal entry is not positive.
    BudgetError
        n > 16.

    References
    ----------
    Bomze, Schachinger, Ullrich, From seven to eleven, Linear Algebra Appl. 459 (2014):
    they start from the zeros of a copositive matrix and construct A from them.

    Examples
    --------
    >>> face_certificate([[5, 2, 1], [2, 8, 6], [1, 6, 5]]) is None
    True
    >>> face_certificate([[4, 2], [2, 1]]).upper
    1
    """
    limit = check_time_limit(time_limit_s)
    matrix = _read(A)
    point = minimise_over_k1(matrix.values, time_limit_s=limit)
    if point is None:
        return _none("the semidefinite program gave no point")
    if point.value > NEAR:
        return _none(f"A is off the boundary: every K¹ matrix of trace n gives at least {point.value:.1e}")
    if point.value < -NEAR:
        return _none(f"a copositive matrix gives {point.value:.1e} < 0: A is not completely positive")
    exact = matrix.fractions()
    for S in candidate_matrices(exact, point):
        found = _examine(exact, S, limit)
        if found is not None:
            return found
    return _none("no integer matrix near the minimiser passed the exact tests")


def separate(A: Any, *, time_limit_s: float | None = None) -> list[list[int]] | None:
    r"""Find a copositive integer matrix that proves A not to be completely positive.

    .. math::

        \langle A, S\rangle < 0, \qquad x^\top S x \ge 0 \ \text{ for all } x \ge 0

    Parameters
    ----------
    A : array_like of shape (n, n)
        Symmetric, positive diagonal, n ≤ 16.
    time_limit_s : float, optional
        Time limit for each call of the semidefinite solver.

    Returns
    -------
    list of list of int, or None
        S, with small integers if possible; copositivity and sign are checked exactly. None if Parrilo's cone K¹
        contains no such matrix (A may be completely positive or not) or the search failed.

    Raises
    ------
    InputError
        Not square, symmetric and finite, or a diagonal entry is not positive.
    BudgetError
        n > 16.

    Examples
    --------
    A doubly nonnegative matrix that is not completely positive (Berman and Shaked-Monderer 2003).

    >>> A = [[1, 1, 0, 0, 1], [1, 2, 1, 0, 0], [0, 1, 2, 1, 0], [0, 0, 1, 2, 1], [1, 0, 0, 1, 6]]
    >>> S = separate(A)
    >>> is_copositive_exact(S), inner(A, S) < 0
    (True, True)
    """
    limit = check_time_limit(time_limit_s)
    matrix = _read(A)
    point = minimise_over_k1(matrix.values, time_limit_s=limit)
    if point is None or point.value > -NEAR:
        return None
    goal = float(np.sum(point.S * matrix.values))
    for scale in GRIDS:
        # rounding to nearest gives smaller integers; rounding up preserves copositivity
        for rounded in (np.rint(scale * point.S), np.ceil(scale * (point.S + NEAR))):
            whole = rounded.astype(np.int64).astype(object)
            below = inner(matrix.fractions(), whole) < Fraction(scale * goal) / 4
            if below and is_copositive_exact(whole):
                return coprime(whole)
    return None


def check_face_certificate(A: Any, certificate: FaceCertificate) -> list[str]:
    r"""Check every claim of a face certificate from A alone, in rational arithmetic.

    .. math::

        S \text{ copositive},\quad \langle A, S\rangle = 0,\quad A = \sum_k w_k u_k u_k^\top,\quad w \ge 0

    with u_k the zeros of S, recomputed, and the number of positive w_k, recomputed, the smallest.

    Parameters
    ----------
    A : array_like of shape (n, n)
    certificate : FaceCertificate

    Returns
    -------
    list of str
        The claims that do not hold; empty if the certificate is valid.

    Raises
    ------
    InputError
        A is not square, symmetric and finite, or a diagonal entry is not positive.

    Examples
    --------
    >>> A = [[4, 2], [2, 1]]
    >>> found = face_certificate(A)
    >>> check_face_certificate(A, found)
    []
    >>> check_face_certificate([[4, 2], [2, 2]], found)
    ['⟨A, S⟩ is not zero', 'Σ w_k u_k u_kᵀ differs from A at [1, 1]']
    """
    matrix = _read(A).fractions()
    n = len(matrix)
    S = [list(row) for row in certificate.S]
    if [len(row) for row in S] != [n] * n or (np.array(S, dtype=object) != np.array(S, dtype=object).T).any():
        return [f"S is not a symmetric matrix of order {n}"]
    scan = scan_copositive(S)
    violated = [] if inner(matrix, certificate.S) == 0 else ["⟨A, S⟩ is not zero"]
    if not scan.copositive:
        return [*violated, "S is not copositive"]
    if sorted(scan.zeros) != sorted(certificate.zeros):
        return [*violated, "the zeros are not those of S"]
    if not scan.isolated:
        violated.append("the zeros of S are not isolated")
    weights, zeros = np.array(certificate.weights, dtype=object), np.array(certificate.zeros, dtype=object)
    if len(weights) != len(zeros):
        return [*violated, "there is not one weight per zero"]
    if (weights < 0).any():
        violated.append("a weight is negative")
    for i, j in np.argwhere((zeros.T * weights) @ zeros != matrix)[:1]:
        return [*violated, f"Σ w_k u_k u_kᵀ differs from A at [{i}, {j}]"]
    if certificate.lower > atoms_needed(matrix, certificate.zeros):
        violated.append("the lower bound is not proved: fewer zeros may do")
    return violated


def _text(reason: Reason) -> str:
    zeros = reason.data.get("zeros")
    return (
        f"an integer copositive S with ⟨A, S⟩ = 0 forces every row onto its {len(zeros) if zeros else '?'} isolated "
        f"zeros; at least {reason.value} of them are needed; exact arithmetic"
    )


@register("lower", "face", _text)
@register("upper", "face", "A = Σ w_k u_k u_kᵀ over zeros u_k of S, w_k rational")
def check_face(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int | None, str]:
    """Check every claim of the certificate in rational arithmetic."""
    if part.exact is None:
        return None, "a face speaks of exact entries, and these are known up to rounding"
    if len(part) > CERTIFIED_ORDER:
        return None, f"{len(part)} rows; copositive matrices of at most {CERTIFIED_ORDER} are checked"
    found = FaceCertificate.from_dict(reason.data)
    violated = check_face_certificate(part, found)
    bound = found.lower if reason.side == "lower" else found.upper
    return None if violated else bound, "; ".join(violated) or "checked in rational arithmetic"


def inner(first: Any, second: Any) -> Fraction:
    """Return ⟨A, B⟩ = Σ_ij A_ij B_ij exactly.

    Examples
    --------
    >>> inner([[1, 2]], [[3, Fraction(1, 2)]])
    Fraction(4, 1)
    """
    return Fraction((np.array(first, dtype=object) * np.array(second, dtype=object)).sum())


def _examine(A: np.ndarray, S: list[list[int]], time_limit_s: float | None) -> FaceCertificate | None:
    if inner(A, S) != 0:
        return _none("an integer candidate S does not vanish on A")
    scan = scan_copositive(S)
    if not scan.copositive:
        return _none("an integer candidate S is not copositive")
    if not scan.isolated:
        return _none("the zeros of S are not isolated: its face is not a cone over finitely many rays")
    weights = fewest_atoms(A, scan.zeros, time_limit_s=time_limit_s)
    if weights is None:
        return _none("A is not a nonnegative combination of the zeros of S, or none was found exactly")
    return FaceCertificate(tuple(map(tuple, S)), scan.zeros, tuple(weights), atoms_needed(A, scan.zeros))


def _read(A: Any) -> SymmetricMatrix:
    matrix = read_matrix(A)
    if len(matrix) > MOST_LISTED:
        raise BudgetError(
            f"the face certificate needs an exact test of copositivity, possible for n ≤ {MOST_LISTED}; received "
            f"n = {len(matrix)}. Split A into the components of its support graph, or use other bounds."
        )
    for i in np.flatnonzero(np.diag(matrix.values) <= 0)[:1]:
        raise InputError(
            f"A[{i}, {i}] must be positive; received {float(matrix.values[i, i])!r}. Remove zero rows with their "
            "columns; a negative diagonal entry already means that A is not completely positive."
        )
    return matrix


def _none(reason: str) -> FaceCertificate | None:
    logger.info("no face certificate: %s", reason)
    return None
