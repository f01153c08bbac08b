"""The checker of CP-rank certificates: every number is recomputed from the matrix."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.linalg import LinAlgError

from covopt.checks.claims import Check
from covopt.checks.wording import counted
from covopt.completely_positive import exclusion
from covopt.completely_positive.caps import theorem_cap
from covopt.completely_positive.clique_cover import clique_cover_bound
from covopt.completely_positive.copositive import CERTIFIED_ORDER
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import (
    SymmetricMatrix,
    check_finite_entries,
    check_range,
    check_symmetric,
)
from covopt.completely_positive.pattern import support_pattern
from covopt.completely_positive.reading import CPStatus, Reading, Reason
from covopt.completely_positive.triangle_free import rank_bound, triangle_free_rank
from covopt.completely_positive.upper import (
    dominance_rows,
    factor_proof,
    is_doubly_nonnegative,
    small_remainder,
)
from covopt.completely_positive.words import is_note, is_said
from covopt.errors import CovoptError
from covopt.exact.rounding import gamma
from covopt.files.formats import read_one
from covopt.files.schema import fractions, numbers

if TYPE_CHECKING:
    from covopt.completely_positive.certificate import CPRankCertificate

FIT = 1e-6  # the user's tolerance may excuse a residual up to here


def verify_cp_rank(certificate: CPRankCertificate | str | os.PathLike[str]) -> list[Check]:
    """Check a CP-rank certificate: nothing in it is believed but the matrix.

    Parameters
    ----------
    certificate : CPRankCertificate or path-like

    Returns
    -------
    list of Check
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
    if isinstance(certificate, str | os.PathLike):
        loaded: CPRankCertificate = read_one(certificate, "covopt-cp-rank")
        return verify_cp_rank(loaded)
    checks = [_matrix(certificate.matrix, certificate.tol)]
    if not checks[0].ok:
        return checks
    readings = dict(readings_of(certificate.matrix, certificate.tol))
    found = {reading.name for reading in certificate.readings}
    same = found == set(readings)
    checks.append(Check("readings", same, f"found {sorted(found)}, the matrix has {sorted(readings)}"))
    if not same:
        return checks
    if not all(is_note(note) for note in certificate.notes):
        checks.append(Check("notes", False, "one of them is none that covopt writes"))
    for reading in certificate.readings:
        prefix = f"{reading.name}: " if len(readings) > 1 else ""
        for check in _check_reading(readings[reading.name], reading, certificate.tol):
            checks.append(Check(prefix + check.name, check.ok, check.detail))
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


def _matrix(matrix: SymmetricMatrix, tol: float) -> Check:
    try:
        check_finite_entries(matrix.values)
        check_symmetric(matrix.values, matrix.exact)
        check_range(matrix.values, matrix.exact)
    except CovoptError as error:
        return Check("matrix", False, str(error))
    if not 0 < tol <= 1e-6:
        return Check("matrix", False, f"the tolerance {tol!r} is not between 0 and 1e-6")
    if matrix.exact is not None:
        exact = np.array([[float(entry) for entry in row] for row in matrix.exact])
        if not np.array_equal(exact, matrix.values):
            return Check("matrix", False, "the exact entries differ from the floats")
    return Check("matrix", True, f"{len(matrix)} × {len(matrix)}, finite and symmetric")


def _check_reading(matrix: SymmetricMatrix, reading: Reading, tol: float) -> list[Check]:
    if reading.status is CPStatus.NOT_CP:
        against = [reason for reason in reading.reasons if reason.side == "not_cp"]
        checks = [recheck(matrix, reason, None, tol, False) for reason in against]
        if any(claim is not None for claim in (reading.lower, reading.upper, reading.factor)):
            checks.append(Check("status", False, "not_cp, and yet a bound or a factor is claimed"))
        return checks or [Check("not_cp", False, "no reason is given")]
    components = support_pattern(matrix.values, 0.0).components()
    checks, factors = _check_factor(matrix, reading.factor, components, tol)
    lower = 0
    upper: int | None = 0
    for component in components:
        mine = [reason for reason in reading.reasons if reason.vertices == component]
        found, least, most = _check_component(matrix.part(component), mine, factors.get(component), tol)
        checks.extend(found)
        lower += least
        upper = None if upper is None or most is None else upper + most
    stray = [r for r in reading.reasons if r.vertices not in components]
    if stray:
        checks.append(
            Check("components", False, f"{len(stray)} reasons speak about no component of the graph")
        )
    ok = reading.lower is not None and reading.lower <= lower
    checks.append(Check("lower", ok, f"{reading.lower}, the reasons give {lower}"))
    if reading.status is CPStatus.UNDECIDED:
        checks.append(Check("upper", reading.upper is None, "undecided: no upper bound is claimed"))
        return checks
    fits = reading.upper is not None and upper is not None and reading.upper >= upper
    checks.append(Check("upper", fits, f"{reading.upper}, the reasons give {upper}"))
    exact = (reading.lower == reading.upper) == (reading.status is CPStatus.EXACT)
    exact &= reading.lower is not None and reading.upper is not None and reading.lower <= reading.upper
    checks.append(Check("status", exact, f"{reading.status.code} with {reading.lower} and {reading.upper}"))
    return checks


def _check_component(
    part: SymmetricMatrix, reasons: list[Reason], factor: np.ndarray | None, tol: float
) -> tuple[list[Check], int, int | None]:
    """Return the checks of one component's reasons, and the bounds that hold."""
    checks: list[Check] = []
    held: dict[str, list[int]] = {"lower": [0], "upper": [], "approximate": []}
    # theorems about completely positive matrices come last: something else may have to show that this is one
    for reason in sorted(reasons, key=lambda r: r.method == "theorem"):
        if reason.side not in held or reason.value is None:
            checks.append(Check(reason.method, False, f"the side {reason.side!r} has no place here"))
            continue
        known = bool(held["upper"])
        check = recheck(part, reason, factor, tol, known)
        checks.append(check)
        if check.ok:
            held[reason.side].append(reason.value)
    return checks, max(held["lower"]), min(held["upper"], default=None)


def _check_factor(
    matrix: SymmetricMatrix, factor: np.ndarray | None, components: list[tuple[int, ...]], tol: float
) -> tuple[list[Check], dict[tuple[int, ...], np.ndarray]]:
    """Return the checks, and the part of the factor in each component; none where it is no factor."""
    if factor is None:
        return [], {}
    residual = residual_of(matrix.values, factor) if np.isfinite(factor).all() else float("inf")
    good = is_factor(matrix, factor, tol)
    checks = [
        Check(
            "factor",
            good,
            f"{counted(len(factor), 'row')} ≥ 0, max |BᵀB − A| = {residual:.1e} (unit diagonal)",
        )
    ]
    if not good:
        return checks, {}
    owners = {v: component for component in components for v in component}
    rows: dict[tuple[int, ...], list[np.ndarray]] = {component: [] for component in components}
    for row in factor:
        support = np.flatnonzero(row).tolist()
        found = {owners.get(v) for v in support}
        owner = found.pop() if found else None
        if found or (support and owner is None):
            return [*checks, Check("factor", False, "a row reaches over two components")], {}
        if owner is not None:
            rows[owner].append(row[list(owner)])
    return checks, {c: np.array(part).reshape(len(part), len(c)) for c, part in rows.items()}


def is_factor(matrix: SymmetricMatrix, factor: np.ndarray, tol: float) -> bool:
    """Whether B is nonnegative and BᵀB is the matrix up to the tolerance.

    Parameters
    ----------
    matrix : SymmetricMatrix
    factor : ndarray of shape (m, n)
    tol : float
    """
    if not np.isfinite(factor).all() or (factor < 0).any():
        return False
    return residual_of(matrix.values, factor) <= _allowed(factor, tol)


def _allowed(factor: np.ndarray, tol: float) -> float:
    """Return what the residual may be: the tolerance, and what BᵀB and the quotients round."""
    return min(tol, FIT) + gamma(2 * len(factor) + 16)


def recheck(
    part: SymmetricMatrix, reason: Reason, factor: np.ndarray | None, tol: float, known: bool
) -> Check:
    """Recompute one reason; whatever goes wrong with its data is a failure of the claim."""
    try:
        ok, detail = _RECHECKS[(reason.side, reason.method)](part, reason, factor, tol, known)
    except KeyError as error:
        return Check(reason.method, False, f"unknown or incomplete reason: {error}")
    except (
        CovoptError,
        ArithmeticError,
        ValueError,
        TypeError,
        IndexError,
        AttributeError,
        LinAlgError,
    ) as error:
        return Check(reason.method, False, f"cannot be checked: {error}")
    if not is_said(reason):
        return Check(reason.method, False, "its text is none that covopt writes")
    sign = {"lower": "≥", "upper": "≤", "approximate": "≈"}.get(reason.side)
    return Check(reason.method, bool(ok), f"{sign} {reason.value}: {detail}" if sign else detail)


def _rank(part, reason, factor, tol, known):
    found = rank_bound(part, tol)[0]
    return reason.value <= found, f"recomputed {found}"


def _cover(part, reason, factor, tol, known):
    found = clique_cover_bound(part.values, 0.0)[0]
    return reason.value <= found, f"recomputed {found}"


def _triangle_free(part, reason, factor, tol, known):
    found = triangle_free_rank(part, 0.0, rank_tol=tol)
    if found is None:
        return False, "the support graph has a triangle"
    return reason.value <= found[0], f"recomputed {found[0]}"


def _moment(part, reason, factor, tol, known):
    from covopt.completely_positive.moments import check_moment_bound

    return check_moment_bound(_raw(part), reason.data, reason.value, tol=tol if part.exact is None else 0.0)


def _face(part, reason, factor, tol, known):
    from covopt.completely_positive.face import FaceCertificate, check_face_certificate

    if len(part) > CERTIFIED_ORDER:
        return (
            False,
            f"{len(part)} rows, and {CERTIFIED_ORDER} are the most whose copositive matrices are checked",
        )
    found = FaceCertificate.from_dict(reason.data)
    violated = check_face_certificate(_raw(part), found)
    bound = found.lower if reason.side == "lower" else found.upper
    fits = reason.value <= bound if reason.side == "lower" else reason.value >= bound
    return not violated and fits, "; ".join(violated) or f"checked in rational arithmetic: {bound}"


def _factor(part, reason, factor, tol, known):
    if "dominance" in reason.data and part.exact is not None:
        rows = dominance_rows(part, fractions(reason.data["dominance"]))
        if rows is None:
            return False, "the vector does not show that the comparison matrix is positive semidefinite"
        return reason.value >= rows, f"Md ≥ 0 with d > 0 in rational arithmetic: {counted(rows, 'row')}"
    if "main" in reason.data and part.exact is not None:
        return _split_factor(part, reason)
    if "rows" in reason.data and part.exact is not None:
        factor = numbers("rows", reason.data["rows"]).reshape(-1, len(part))
    if factor is None:
        return False, "there is no factor"
    proof = "within the tolerance" if part.exact is None else factor_proof(part, factor)
    if proof is None:
        return False, "the factor is one of a matrix nearby; that A has one of its own is not proved"
    return reason.value >= len(factor), f"the factor has {counted(len(factor), 'row')} here; {proof}"


def _split_factor(part, reason):
    main = numbers("main", reason.data["main"]).reshape(-1, len(part))
    split = small_remainder(part)
    proof = None if split is None else factor_proof(split.main, main)
    if split is None or proof is None:
        return False, "it is no factor of A up to a completely positive rest"
    rows = len(main) + split.rows
    return (
        reason.value >= rows,
        f"{counted(rows, 'row')}, {split.rows} of them for a rest below rounding; {proof}",
    )


def _approximate(part, reason, factor, tol, known):
    B = numbers("factor", reason.data["factor"]).reshape(-1, len(part))
    ok = bool(np.isfinite(B).all() and (B >= 0).all()) and residual_of(part.values, B) <= _allowed(B, tol)
    return ok and reason.value == len(B), f"{counted(len(B), 'row')}, of a matrix within the tolerance"


def _theorem(part, reason, factor, tol, known):
    cap = theorem_cap(part)
    small = len(part) <= 4 or cap[0] <= 2
    if not known and not (small and is_doubly_nonnegative(part)):
        return False, "a cap holds for completely positive matrices, and nothing shows that this is one"
    return reason.value >= cap[0], f"recomputed {cap[0]}"


def _entry(part, reason, factor, tol, known):
    found = exclusion.negative_entry(part, tol)
    return found is not None, "no negative entry" if found is None else found["text"]


def _eigenvalue(part, reason, factor, tol, known):
    vector = fractions(reason.data["vector"])
    ok = len(vector) == len(part) and exclusion.is_negative(part, vector, tol)
    return ok, "vᵀAv < 0 in rational arithmetic" if ok else "vᵀAv is not negative enough"


def _comparison(part, reason, factor, tol, known):
    inner = part.part(reason.vertices)
    vector = fractions(reason.data["vector"])
    ok = len(vector) == len(inner) and exclusion.is_negative(exclusion.comparison_of(inner), vector, tol)
    closed = not exclusion.has_triangle(inner)
    return ok and closed, f"triangle-free: {closed}; vᵀMv < 0 in rational arithmetic: {ok}"


def _copositive(part, reason, factor, tol, known):
    from covopt.completely_positive.copositive import is_copositive_exact

    inner = part.part(reason.vertices)
    if len(inner) > CERTIFIED_ORDER:
        return (
            False,
            f"{len(inner)} rows, and {CERTIFIED_ORDER} are the most whose copositive matrices are checked",
        )
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
    ("approximate", "factor"): _approximate,
    ("upper", "theorem"): _theorem,
    ("not_cp", "entry"): _entry,
    ("not_cp", "eigenvalue"): _eigenvalue,
    ("not_cp", "comparison"): _comparison,
    ("not_cp", "copositive"): _copositive,
}
