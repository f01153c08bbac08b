"""The checker of CP-rank certificates: every number is recomputed from the matrix."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from covopt.checks.claims import Check
from covopt.checks.wording import counted
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import (
    SymmetricMatrix,
    check_finite_entries,
    check_range,
    check_symmetric,
    support_pattern,
)
from covopt.completely_positive.reading import KINDS, SIGNS, CPStatus, Known, Reading, Reason
from covopt.completely_positive.upper import is_factor
from covopt.errors import CovoptError
from covopt.files.formats import read_one

if TYPE_CHECKING:
    from covopt.completely_positive.certificate import CPRankCertificate


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
        checks = [_recheck(matrix.part(reason.vertices), reason, Known(tol))[0] for reason in against]
        if any(claim is not None for claim in (reading.lower, reading.upper, reading.factor)):
            checks.append(Check("status", False, "not_cp, and yet a bound or a factor is claimed"))
        return checks or [Check("not_cp", False, "no reason is given")]
    components = support_pattern(matrix.values, 0.0).components()
    checks, factors = _split_factor(matrix, reading.factor, components, tol)
    lower = 0
    upper: int | None = 0
    for component in components:
        found, held = _check_component(matrix, reading, component, factors.get(component), tol)
        checks.extend(found)
        lower += max((r.value or 0 for r in held if r.side == "lower"), default=0)
        most = min((r.value for r in held if r.side == "upper" and r.value is not None), default=None)
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
    matrix: SymmetricMatrix,
    reading: Reading,
    component: tuple[int, ...],
    factor: np.ndarray | None,
    tol: float,
) -> tuple[list[Check], list[Reason]]:
    """Return the checks of one component's reasons, and the reasons that hold."""
    checks, held, part = list[Check](), list[Reason](), matrix.part(component)
    # theorems about completely positive matrices come last: something else may have to show that this is one
    mine = [reason for reason in reading.reasons if reason.vertices == component]
    for reason in sorted(mine, key=lambda r: r.method == "theorem"):
        if reason.side == "not_cp" or reason.value is None:
            checks.append(Check(reason.method, False, f"the side {reason.side!r} has no place here"))
            continue
        check, ok = _recheck(part, reason, Known(tol, factor, any(r.side == "upper" for r in held)))
        checks.append(check)
        if ok:
            held.append(reason)
    return checks, held


def _split_factor(
    matrix: SymmetricMatrix, factor: np.ndarray | None, components: list[tuple[int, ...]], tol: float
) -> tuple[list[Check], dict[tuple[int, ...], np.ndarray]]:
    """Return the checks, and the part of the factor in each component; none where it is no factor."""
    if factor is None:
        return [], {}
    residual = residual_of(matrix.values, factor) if np.isfinite(factor).all() else float("inf")
    good = is_factor(matrix, factor, tol)
    said = f"{counted(len(factor), 'row')} ≥ 0, max |BᵀB − A| = {residual:.1e} (unit diagonal)"
    checks, parts = [Check("factor", good, said)], dict[tuple[int, ...], np.ndarray]()
    if good:
        owner = np.full(len(matrix), -1)
        for place, component in enumerate(components):
            owner[list(component)] = place
        owners = [set(owner[row > 0].tolist()) for row in factor]
        if any(len(found) > 1 or -1 in found for found in owners):
            return [*checks, Check("factor", False, "a row reaches over two components")], {}
        for place, component in enumerate(components):
            mine = [k for k, found in enumerate(owners) if place in found]
            parts[component] = factor[np.ix_(mine, list(component))]
    return checks, parts


def _recheck(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[Check, bool]:
    """Recompute one reason; whatever goes wrong with its data is a failure of the claim."""
    kind = KINDS.get((reason.side, reason.method))
    if kind is None:
        return Check(reason.method, False, "unknown reason"), False
    try:
        ok, detail = kind.check(part, reason, known)
    except (CovoptError, ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
        return Check(reason.method, False, f"cannot be checked: {error}"), False
    bound = f"{SIGNS[reason.side]} {reason.value}: " if SIGNS[reason.side] else ""
    return Check(reason.method, bool(ok), f"{bound}{detail}"), bool(ok)
