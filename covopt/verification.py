"""The checker: recompute everything from the file and the table, with an oracle run of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.certificates.certify import Certificate
from covopt.certificates.rechecks import (
    BEFORE,
    RECHECKS,
    exact_checks,
    exact_of_cp_rank,
    misshapen,
    not_finite,
    standardised,
)
from covopt.certificates.stated import ReadProblem, expected, same_table
from covopt.checks import required
from covopt.checks.messages import NOT_EXACT, Check, counted, html_table, listed
from covopt.checks.validation import check_output_bias, check_time_limit
from covopt.completely_positive.certificate import CPRankCertificate, verify_cp_rank
from covopt.errors import CovoptError, InputError
from covopt.limits import TimeUp, limited, now, seconds_left
from covopt.parallel import one_blas_thread
from covopt.proofs import FirstProof, Proof
from covopt.solution import Solution, load

if TYPE_CHECKING:
    import pandas as pd

PROVED = "proved exactly"  # of a point of a path
LATE = "time limit"  # the check that says what there was no time for


@dataclass(frozen=True, repr=False)
class Verification:
    """Outcome of :func:`verify`; it is true where every check held, as ``ok`` is.

    Attributes
    ----------
    checks : tuple of Check
    certificate : Certificate or None
        As recomputed; None when the data could not even be read, and for a CP-rank.
    in_time : bool
        False where a time limit came before the last check: then the last entry says what was checked before, and
        nothing has failed that is not among the others.
    """

    checks: tuple[Check, ...]
    certificate: Certificate | None
    in_time: bool = True

    @property
    def ok(self) -> bool:
        """Whether every check held."""
        return all(check.ok for check in self.checks)

    def __bool__(self) -> bool:
        """Return ``ok``."""
        return self.ok

    def summary(self) -> str:
        """One line per check."""
        lines = [f"{_mark(check)} {check.name}: {check.detail}" for check in self.checks]
        held = "verified, but NOT exactly" if self.exact is False else "verified"
        lines.append(held if self.ok else "VERIFICATION FAILED" if self.failed else "NOT VERIFIED")
        return "\n".join(lines)

    @property
    def exact(self) -> bool | None:
        """Whether exact arithmetic confirms every link; None where nobody asked, or something did not hold."""
        asked = [c for c in self.checks if c.name.startswith("exact ") or c.floating or PROVED in c.detail]
        return None if not self.ok or not asked else not any(check.floating for check in asked)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed; one that the time did not suffice for is none of them."""
        return [check.name for check in self.checks if not check.ok and check.name != LATE]

    def __repr__(self) -> str:
        if self.failed:
            return f"Verification(FAILED: {', '.join(self.failed)}; {len(self.checks)} checks)"
        if not self.in_time:
            return f"Verification(not verified: out of time after {counted(len(self.checks) - 1, 'check')})"
        return f"Verification(ok, {counted(len(self.checks), 'check')})"

    def _repr_html_(self) -> str:
        rows = [(_mark(check).strip(), check.name, check.detail) for check in self.checks]
        return html_table(rows, head=("", "check", "detail"), caption=repr(self))

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each check; ``to_csv`` and ``to_latex`` write it.

        Returns
        -------
        pandas.DataFrame
        """
        pd = required("pandas", "to_frame()", "tables")
        return pd.DataFrame(
            [(check.name, check.ok, check.detail) for check in self.checks], columns=["check", "ok", "detail"]
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {
            "ok": self.ok,
            "in_time": self.in_time,
            "exact": self.exact,
            "checks": [
                {
                    "name": check.name,
                    "ok": check.ok,
                    "mark": _mark(check).strip().lower(),
                    "detail": check.detail,
                }
                for check in self.checks
            ],
        }


def _mark(check: Check) -> str:
    """``FLOAT`` holds in floating point, where exact arithmetic was asked for and there is none."""
    if check.ok:
        return "FLOAT " if check.floating else "ok    "
    return "LATE  " if check.name == LATE else "FAILED"


def verify(
    solution: Any,
    X: Any = None,
    Y: Any = None,
    *,
    exact: bool = False,
    proof: Proof | FirstProof | str | os.PathLike[str] | None = None,
    expect: Mapping[str, Any] | None = None,
    time_limit_s: float | None = None,
) -> Verification:
    """Check a solution, the solutions of a path, a CP-rank certificate or a gap: nothing is believed.

    Parameters
    ----------
    solution : Solution, list of Solution, CPRankCertificate, Gap or path-like
        An object, or the file of one, as :func:`covopt.load` reads it.
    X, Y : array_like, optional
        The table to check against; by default the one stored in the solution.
    exact : bool
        Check residual, norm, objective and the lower bound in exact arithmetic as well, by :mod:`covopt.proofs`:
        seconds for 60 points in the plane, a minute or two for 400. Where there is no exact proof (several outputs,
        label noise, softmax) the check names the link that is floating point: it is marked ``FLOAT``, not
        ``ok``, and :attr:`Verification.exact` is False.
    proof : Proof or path-like, optional
        Of the lower bound (:meth:`Solution.prove`); implies ``exact``. Without it one is searched for.
    expect : mapping, optional
        What the problem should be: any of ``lam``, ``loss``, ``bias``, ``output_bias``, ``potential``, ``weights``
        ("none" or "given"), ``standardise``, ``tol``. The checks print what the solution states in any case.
    time_limit_s : float, optional
        Seconds. Residual, norm and objective are checked first; what there was no time for is said and not verified:
        ``in_time`` is then False, and so is ``ok``.

    Returns
    -------
    Verification
        With one entry per claim: the table, the interpolation, the norm, the feasible dual, the lower bound, the gap,
        the status.

    Raises
    ------
    SolutionFileError
        When the file cannot be read.
    InputError
        When the table that was passed is not a valid one, or there is nothing to verify.

    Examples
    --------
    >>> import covopt
    >>> solution = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0])
    >>> covopt.verify(solution).ok
    True
    """
    time_limit_s = check_time_limit(time_limit_s)
    if isinstance(solution, str | os.PathLike):
        solution = load(solution)
    if not isinstance(solution, Solution) and proof is not None:
        raise InputError("a proof is about one solution: leave proof out, or verify a solution with it")
    if isinstance(solution, list | tuple) and solution and all(isinstance(s, Solution) for s in solution):
        return verify_path(solution, X, Y, exact=exact, expect=expect, time_limit_s=time_limit_s)
    if expect and not isinstance(solution, Solution):
        raise InputError("expect is about solutions and paths: leave it out")
    given = Proof.load(proof) if isinstance(proof, str | os.PathLike) else proof
    checks: list[Check] = []
    try:
        with limited(time_limit_s):
            if not isinstance(solution, Solution):
                return _verify_other(solution, X, Y, checks, exact=exact)
            left = seconds_left()  # of the limit, or of a caller's
            with one_blas_thread():
                return _verify(
                    solution,
                    X,
                    Y,
                    checks,
                    exact=exact or given is not None,
                    proof=given,
                    expect=expect,
                    limit=left if left < float("inf") else None,
                )
    except TimeUp:
        if time_limit_s is None:  # the deadline is one around this call
            raise
        return Verification((*checks, _late(checks, time_limit_s)), None, False)


def _late(checks: Sequence[Check], time_limit_s: float | None) -> Check:
    before = listed([check.name for check in checks]) or "nothing"
    return Check(LATE, False, f"not verified: {time_limit_s:g} s were over when checked was: {before}")


def _verify_other(found: Any, X: Any, Y: Any, checks: list[Check], *, exact: bool) -> Verification:
    """Check what is no single solution."""
    if isinstance(found, Proof | FirstProof):
        raise InputError("a proof is about one solution: verify that one, with proof=... or --proof")
    if hasattr(found, "claims"):  # a deep network with its bounds, a gap
        checks.extend(found.claims(X, Y))  # a limit keeps what was checked before
        if exact:
            text = "NOT exact: the tree bound's shallow oracle and its exponentials are computed in floating point"
            checks.append(Check("exact lower bound", True, text))
        return Verification(tuple(checks), None, all(check.name != LATE for check in checks))
    if not isinstance(found, CPRankCertificate):
        raise InputError(
            "solution must be a Solution, a list of them, a CP-rank certificate or a file; received "
            f"{type(found).__name__}"
        )
    if X is not None or Y is not None:
        raise InputError("a CP-rank certificate carries its matrix; it is verified without a table")
    checks.extend(verify_cp_rank(found))
    if exact:
        checks.append(exact_of_cp_rank(found))
    return Verification(tuple(checks), None)


def verify_path(
    solutions: Sequence[Solution],
    X: Any = None,
    Y: Any = None,
    *,
    exact: bool = False,
    expect: Mapping[str, Any] | None = None,
    time_limit_s: float | None = None,
) -> Verification:
    """Verify every point of a path.

    Parameters
    ----------
    solutions : sequence of Solution
        As :func:`load_path` gives them.
    X, Y : array_like, optional
        The table to check against; by default the one stored with each point.
    exact, expect, time_limit_s
        As in :func:`covopt.verify`; the seconds are for all points.

    Returns
    -------
    Verification
        One check for each λ, which lists what failed there or, with ``exact``, which links are floating point, one
        for their order, and one that all of them solve the same problem: a path whose points come from several tables
        proves nothing about any of them.

    Examples
    --------
    >>> import covopt
    >>> points = covopt.path([[0.0], [1.0]], [0.0, 1.0], n_lams=2)
    >>> print(verify_path(points).summary())
    ok     λ = 0.707107: status certified, objective 0.5, lower bound 0.5
    ok     λ = 0.000707107: status certified, objective 0.00141221, lower bound 0.00141221
    ok     order: 2 points, λ falling
    ok     problem: the same for all points but for λ
    verified
    """
    checks: list[Check] = []
    began = now()
    for s in solutions:
        left = None if time_limit_s is None else max(1e-6, time_limit_s - (now() - began))
        found = verify(s, X, Y, exact=exact, expect=expect, time_limit_s=left)
        if not found.in_time and not found.failed:
            return Verification((*checks, _late(checks, time_limit_s)), None, False)
        failed = [f"{check.name}: {check.detail}" for check in found.checks if not check.ok]
        held = f"status {s.status.code}, objective {s.objective:.6g}, lower bound {s.lower_bound:.6g}"
        if exact:
            said = [check.detail for check in found.checks if check.name.startswith("exact ")]
            floating = [detail for detail in said if NOT_EXACT in detail]
            held = "; ".join([held, *(floating or [PROVED])])
        name = f"λ = {s.lam:.6g}" if s.lam is not None else "interpolation"
        checks.append(Check(name, found.ok, held if found.ok else "; ".join(failed)))
    lams = [0.0 if s.lam is None else s.lam for s in solutions]
    falls = all(a > b for a, b in pairwise(lams))
    detail = f"{counted(len(lams), 'point')}, λ {'falling' if falls else 'not falling'}"
    checks.append(Check("order", falls and bool(lams), detail))
    other = [i for i, s in enumerate(solutions) if not _same_problem(s, solutions[0])]
    detail = "the same for all points but for λ"
    if other:
        detail = f"point {other[0]} (counting from 0) has another table, loss, bias or potential than point 0"
    checks.append(Check("problem", not other, detail))
    return Verification(tuple(checks), None)


def _same_problem(one: Solution, other: Solution) -> bool:
    """Whether two solutions differ in λ (and in what was found) alone."""
    if one.loss is None or other.loss is None:
        return False
    kinds = [
        (s.data.bias, s.output_bias, s.potential, loss.parameters(), s.scaling and s.scaling.to_dict())
        for s, loss in ((one, one.loss), (other, other.loss))
    ]
    pairs = (one.data.X, other.data.X), (one.data.Y, other.data.Y), (one.loss.weights, other.loss.weights)
    return kinds[0] == kinds[1] and all(np.array_equal(a, b) for a, b in pairs)


def _verify(
    solution: Solution, X: Any, Y: Any, checks: list[Check], *, exact: bool, proof: Proof | FirstProof | None,
    expect: Mapping[str, Any] | None = None, limit: float | None = None,
) -> Verification:  # fmt: skip
    """Fill in ``checks`` as they are made, so that they are there when the time is up."""
    fit = solution.loss is not None
    try:
        if solution.data.bias == 0:
            check_output_bias(solution.output_bias, 0.0)
        problem = ReadProblem.of(solution)
    except CovoptError as error:
        return Verification((Check("data", False, str(error)),), None)
    if X is not None:
        same, given = same_table(solution, X, Y)
        checks.extend(same)
        if given is not solution:
            solution, problem = given, ReadProblem.of(given)
    checks.extend((*expected(solution, expect), *standardised(solution, problem)))
    for before in BEFORE:
        made = list(before(solution, problem))
        checks.extend(made)
        if made and not made[-1].ok and (fit or before in (not_finite, misshapen)):
            return Verification(tuple(checks), None)
    rechecks = list(RECHECKS)
    try:
        if limit is not None:  # without the dual point there is nothing to search for
            first, *rechecks = RECHECKS
            checks.extend(first(solution, problem.certify(solution, np.zeros_like(solution.dual))))
        found = problem.certify(solution, solution.dual, limit)
    except CovoptError as error:  # a proof of something else, a potential of another problem
        return Verification((*checks, Check("problem", False, str(error))), None)
    more = [check for recheck in rechecks for check in recheck(solution, found)]
    if problem.share(limit) < 1.0 and not found.exact and not all(check.ok for check in more):
        # fewer boxes than the claim rests on
        return Verification((*checks, _late(checks, limit)), found, False)
    checks.extend(more)
    if exact and all(check.ok for check in checks if check.name == "network"):
        checks.extend(exact_checks(solution, problem.data, proof))
    return Verification(tuple(checks), found)
