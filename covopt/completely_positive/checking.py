"""The checker of CP-rank certificates: every number is recomputed from the matrix."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.checks.wording import counted
from covopt.completely_positive import exclusion
from covopt.completely_positive.caps import theorem_cap
from covopt.completely_positive.certificate import CPRankCertificate, CPStatus, Reading, Reason, load_cp_rank
from covopt.completely_positive.clique_cover import clique_cover_bound
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import (
    SymmetricMatrix,
    check_finite_entries,
    check_range,
    check_symmetric,
)
from covopt.completely_positive.pattern import support_pattern
from covopt.completely_positive.triangle_free import rank_bound, triangle_free_rank
from covopt.errors import CovoptError

FIT = 1e-6  # largest residual of a factor that any tolerance can excuse


@dataclass(frozen=True)
class CPCheck:
    """One claim: what it says, whether it held, and the numbers."""

    name: str
    ok: bool
    detail: str


def verify_cp_rank(certificate: CPRankCertificate | str | os.PathLike[str]) -> list[CPCheck]:
    """Check a CP-rank certificate: nothing in it is believed but the matrix.

    Parameters
    ----------
    certificate : CPRankCertificate or path-like

    Returns
    -------
    list of CPCheck
        The matrix, the readings of ambiguous entries, and for each of them the factor, every reason and the bracket.

    Raises
    ------
    SolutionFileError
        Where the file cannot be read as a certificate.

    Examples
    --------
    >>> from covopt.completely_positive.rank import cp_rank
    >>> all(check.ok for check in verify_cp_rank(cp_rank([[2, 1], [1, 2]])))
    True
    """
    if not isinstance(certificate, CPRankCertificate):
        certificate = load_cp_rank(certificate)
    checks = [_matrix(certificate.matrix, certificate.tol)]
    if not checks[0].ok:
        return checks
    readings = dict(readings_of(certificate.matrix, certificate.tol))
    found = {reading.name for reading in certificate.readings}
    same = found == set(readings)
    checks.append(CPCheck("readings", same, f"found {sorted(found)}, the matrix has {sorted(readings)}"))
    if not same:
        return checks
    for reading in certificate.readings:
        prefix = f"{reading.name}: " if len(readings) > 1 else ""
        for check in _check_reading(readings[reading.name], reading, certificate.tol):
            checks.append(CPCheck(prefix + check.name, check.ok, check.detail))
    return checks


def readings_of(matrix: SymmetricMatrix, tol: float) -> list[tuple[str, SymmetricMatrix]]:
    """Return the readings of a matrix: one where nothing is ambiguous, else with and without the small entries.

    Parameters
    ----------
    matrix : SymmetricMatrix
    tol : float

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> [name for name, _ in readings_of(read_matrix([[1.5, 1e-12], [1e-12, 1.0]]), 1e-9)]
    ['zeros', 'given']
    """
    values = matrix.values
    pairs = () if matrix.exact is not None else support_pattern(values, tol).ambiguous
    # a small negative entry can only be a zero
    low = tuple(pair for pair in pairs if values[pair] < 0)
    given = matrix.without(low) if low else matrix
    if len(low) == len(pairs):
        return [("given", given)]
    return [("zeros", matrix.without(pairs)), ("given", given)]


def _matrix(matrix: SymmetricMatrix, tol: float) -> CPCheck:
    try:
        check_finite_entries(matrix.values)
        check_symmetric(matrix.values, matrix.exact)
        check_range(matrix.values, matrix.exact)
    except CovoptError as error:
        return CPCheck("matrix", False, str(error))
    if not 0 < tol <= 1e-6:
        return CPCheck("matrix", False, f"the tolerance {tol!r} is not between 0 and 1e-6")
    if matrix.exact is not None:
        exact = np.array([[float(entry) for entry in row] for row in matrix.exact])
        if not np.allclose(exact, matrix.values, rtol=1e-15, atol=0.0):
            return CPCheck("matrix", False, "the exact entries differ from the floats")
    return CPCheck("matrix", True, f"{len(matrix)} × {len(matrix)}, finite and symmetric")


def _check_reading(matrix: SymmetricMatrix, reading: Reading, tol: float) -> list[CPCheck]:
    if reading.status is CPStatus.NOT_CP:
        against = [reason for reason in reading.reasons if reason.side == "not_cp"]
        checks = [_recheck(matrix, reason, None, tol) for reason in against]
        if any(claim is not None for claim in (reading.lower, reading.upper, reading.factor)):
            checks.append(CPCheck("status", False, "not_cp, and yet a bound or a factor is claimed"))
        return checks or [CPCheck("not_cp", False, "no reason is given")]
    components = support_pattern(matrix.values, 0.0).components()
    checks, rows = _check_factor(matrix, reading.factor, components, tol)
    lower, upper = 0, 0 if rows is not None else None
    for component in components:
        part = matrix.part(component)
        mine = [reason for reason in reading.reasons if reason.vertices == component]
        held = {"lower": [0], "upper": []}
        for reason in mine:
            if reason.side not in held or reason.value is None:
                checks.append(CPCheck(reason.method, False, f"the side {reason.side!r} has no place here"))
                continue
            check = _recheck(part, reason, None if rows is None else rows[component], tol)
            checks.append(check)
            if check.ok:
                held[reason.side].append(reason.value)
        lower += max(held["lower"])
        upper = None if upper is None or not held["upper"] else upper + min(held["upper"])
    stray = [r for r in reading.reasons if r.vertices not in components]
    if stray:
        checks.append(
            CPCheck("components", False, f"{len(stray)} reasons speak about no component of the graph")
        )
    checks.append(
        CPCheck(
            "lower",
            reading.lower is not None and reading.lower <= lower,
            f"{reading.lower}, the reasons give {lower}",
        )
    )
    if reading.status is CPStatus.UNDECIDED:
        checks.append(CPCheck("upper", reading.upper is None, "undecided: no upper bound is claimed"))
        return checks
    fits = reading.upper is not None and upper is not None and reading.upper >= upper
    checks.append(CPCheck("upper", fits, f"{reading.upper}, the reasons give {upper}"))
    exact = (reading.lower == reading.upper) == (reading.status is CPStatus.EXACT)
    checks.append(CPCheck("status", exact, f"{reading.status.code} with {reading.lower} and {reading.upper}"))
    return checks


def _check_factor(
    matrix: SymmetricMatrix, factor: np.ndarray | None, components: list[tuple[int, ...]], tol: float
) -> tuple[list[CPCheck], dict[tuple[int, ...], int] | None]:
    """Return the checks and the number of rows in each component; None where there is no valid factor."""
    if factor is None:
        return [], None
    finite = bool(np.isfinite(factor).all())
    residual = residual_of(matrix.values, factor) if finite else float("inf")
    good = finite and bool((factor >= 0).all()) and residual <= min(max(tol, 1e-12), FIT)
    checks = [
        CPCheck(
            "factor",
            good,
            f"{counted(len(factor), 'row')} ≥ 0, max |BᵀB − A| = {residual:.1e} (unit diagonal)",
        )
    ]
    rows: dict[tuple[int, ...], int] = dict.fromkeys(components, 0)
    for row in factor if good else []:
        support = set(np.flatnonzero(row).tolist())
        owner = next((component for component in components if support <= set(component)), None)
        if owner is None:
            checks.append(CPCheck("factor", False, "a row reaches over two components"))
            return checks, None
        rows[owner] += bool(support)
    return checks, rows if good else None


def _recheck(part: SymmetricMatrix, reason: Reason, rows: int | None, tol: float) -> CPCheck:
    """Recompute one reason; whatever goes wrong with its data is a failure of the claim."""
    try:
        ok, detail = _RECHECKS[(reason.side, reason.method)](part, reason, rows, tol)
    except KeyError as error:
        return CPCheck(reason.method, False, f"unknown or incomplete reason: {error}")
    except (CovoptError, ValueError, TypeError, IndexError, AttributeError, ZeroDivisionError) as error:
        return CPCheck(reason.method, False, f"cannot be checked: {error}")
    sign = {"lower": "≥", "upper": "≤"}.get(reason.side)
    return CPCheck(reason.method, ok, f"{sign} {reason.value}: {detail}" if sign else detail)


def _rank(part, reason, rows, tol):
    found = rank_bound(part, tol)[0]
    return reason.value <= found, f"recomputed {found}"


def _cover(part, reason, rows, tol):
    found = clique_cover_bound(part.values, 0.0)[0]
    return reason.value <= found, f"recomputed {found}"


def _triangle_free(part, reason, rows, tol):
    found = triangle_free_rank(part, 0.0, rank_tol=tol)
    if found is None:
        return False, "the support graph has a triangle"
    return reason.value <= found[0], f"recomputed {found[0]}"


def _moment(part, reason, rows, tol):
    from covopt.completely_positive.moments import check_moment_bound

    return check_moment_bound(_raw(part), reason.data, reason.value)


def _face(part, reason, rows, tol):
    from covopt.completely_positive.face import FaceCertificate, check_face_certificate

    found = FaceCertificate.from_dict(reason.data)
    violated = check_face_certificate(_raw(part), found)
    bound = found.lower if reason.side == "lower" else found.upper
    fits = reason.value <= bound if reason.side == "lower" else reason.value >= bound
    return not violated and fits, "; ".join(violated) or f"checked in rational arithmetic: {bound}"


def _factor(part, reason, rows, tol):
    if rows is None:
        return False, "there is no factor"
    return reason.value >= rows, f"the factor has {counted(rows, 'row')} here"


def _theorem(part, reason, rows, tol):
    cap = theorem_cap(part)
    if rows is None:
        return False, "a cap holds for completely positive matrices, and no factor shows that this is one"
    return reason.value >= cap[0], f"recomputed {cap[0]}"


def _entry(part, reason, rows, tol):
    found = exclusion.negative_entry(part, tol)
    return found is not None, "no negative entry" if found is None else found["text"]


def _eigenvalue(part, reason, rows, tol):
    vector = [Fraction(entry) for entry in reason.data["vector"]]
    ok = len(vector) == len(part) and exclusion.is_negative(part, vector, tol)
    return ok, "vᵀAv < 0 in rational arithmetic" if ok else "vᵀAv is not negative enough"


def _comparison(part, reason, rows, tol):
    inner = part.part(reason.vertices)
    vector = [Fraction(entry) for entry in reason.data["vector"]]
    ok = len(vector) == len(inner) and exclusion.is_negative(exclusion.comparison_of(inner), vector, tol)
    closed = not exclusion.has_triangle(inner)
    return ok and closed, f"triangle-free: {closed}; vᵀMv < 0 in rational arithmetic: {ok}"


def _copositive(part, reason, rows, tol):
    from covopt.completely_positive.copositive import is_copositive_exact

    inner = part.part(reason.vertices)
    S = [[int(entry) for entry in row] for row in reason.data["S"]]
    if [len(row) for row in S] != [len(inner)] * len(inner) or any(
        S[i][j] != S[j][i] for i in range(len(S)) for j in range(len(S))
    ):
        return False, "S is not symmetric, or has another size"
    below = exclusion.separated(inner, S, tol)
    proper = bool(is_copositive_exact(S))
    return below and proper, f"⟨A, S⟩ < 0 in rational arithmetic: {below}; S copositive: {proper}"


def _raw(part: SymmetricMatrix):
    return part.values if part.exact is None else part.exact


_RECHECKS = {
    ("lower", "rank"): _rank,
    ("lower", "clique-cover"): _cover,
    ("lower", "triangle-free"): _triangle_free,
    ("lower", "moment"): _moment,
    ("lower", "face"): _face,
    ("upper", "face"): _face,
    ("upper", "factor"): _factor,
    ("upper", "theorem"): _theorem,
    ("not_cp", "entry"): _entry,
    ("not_cp", "eigenvalue"): _eigenvalue,
    ("not_cp", "comparison"): _comparison,
    ("not_cp", "copositive"): _copositive,
}
