"""The checker: recompute every claim from the file and the table, with a new bound on the dual norm."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.certificates.certify import Certificate
from covopt.certificates.rechecks import BEFORE, RECHECKS, exact_checks, exact_of_cp_rank, unusable
from covopt.certificates.stated import ReadProblem, expected, same_table
from covopt.checks import NOT_EXACT, Check, counted, html_table, listed, required
from covopt.checks.validation import check_output_bias, check_time_limit
from covopt.completely_positive.certificate import CPRankCertificate, verify_cp_rank
from covopt.errors import CovoptError, InputError
from covopt.limits import HALF, TimeUp, limited, now, seconds_left
from covopt.oracles.certified import WHOLE_CHECK_S
from covopt.parallel import one_blas_thread
from covopt.proofs import FirstProof, Proof
from covopt.solution import Solution, load

if TYPE_CHECKING:
    import pandas as pd

PROVED = "proved exactly"  # in the check of a point of a path
LATE = "time limit"  # name of the check for an exceeded limit


@dataclass(frozen=True, repr=False)
class Verification:
    """Outcome of :func:`verify`; true if every check held, like ``ok``.

    Attributes
    ----------
    checks : tuple of Check
    certificate : Certificate or None
        The recomputed certificate; None if the data could not be read, and for a CP-rank.
    in_time : bool
        False if a time limit ended the checks: the last entry then lists those that were made.
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
        """Whether exact arithmetic confirms every step; None if it was not asked for, or a check failed."""
        asked = [c for c in self.checks if c.name.startswith("exact ") or c.floating or PROVED in c.detail]
        return None if not self.ok or not asked else not any(check.floating for check in asked)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed, without those that the time limit prevented."""
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
    """Return the mark of a check; ``FLOAT`` if exact arithmetic was asked for but not available."""
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
    """Check a solution, the solutions of a path, a CP-rank certificate or a gap by recomputing every claim.

    Parameters
    ----------
    solution : Solution, list of Solution, CPRankCertificate, Gap or path-like
        An object, or the file of one, as :func:`covopt.load` reads it.
    X, Y : array_like, optional
        The table to check against; by default the one stored in the solution.
    exact : bool
        Check residual, norm, objective and the lower bound in exact arithmetic as well, by :mod:`covopt.proofs`:
        seconds for 60 points in the plane, a minute or two for 400. Where there is no exact proof (several outputs,
        label noise, softmax) the check names the step in floating point: it is marked ``FLOAT``, not
        ``ok``, and :attr:`Verification.exact` is False.
    proof : Proof or path-like, optional
        Of the lower bound (:meth:`Solution.prove`); implies ``exact``. By default a proof is made.
    expect : mapping, optional
        What the problem should be: any of ``lam``, ``loss``, ``bias``, ``output_bias``, ``potential``, ``weights``
        ("none" or "given"), ``standardise``, ``tol``. The problem that the solution states is printed in any case.
    time_limit_s : float, optional
        Seconds. Residual, norm and objective are checked first. If time does not suffice for the rest, ``in_time``
        and ``ok`` are False.

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
            with one_blas_thread():  # the nearest deadline may be the caller's
                return _verify(
                    solution, X, Y, checks, exact=exact or given is not None, proof=given, expect=expect,
                    limit=seconds_left(),
                )  # fmt: skip
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
        One check for each λ, which lists what failed there or, with ``exact``, which steps are in floating point; one
        for the order of λ; and one that all points solve the same problem.

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
    expect: Mapping[str, Any] | None, limit: float,
) -> Verification:  # fmt: skip
    """Append to ``checks`` as they are made, so that they remain when the time is up."""
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
    checks.extend(expected(solution, expect))
    if broken := list(unusable(solution, problem)):
        return Verification((*checks, *broken), None)
    checks.extend(check for before in BEFORE for check in before(solution, problem))
    share = min(1.0, limit / WHOLE_CHECK_S)
    first, *rechecks = RECHECKS
    try:
        certifier = problem.certifier(solution)
        # before the search for a bound on the dual norm
        checks.extend(first(solution, certifier.certify(np.zeros_like(solution.dual))))
        certify, stated = (
            partial(certifier.certify, solution.dual, low=solution.dual_low),
            solution.certificate,
        )
        found = certify(effort=share, goal=None if stated.exact else stated.gauge)
        if stated.exact and not found.exact:
            found = certify(effort=share, goal=stated.gauge)
    except CovoptError as error:  # a potential that does not suit the problem
        return Verification((*checks, Check("problem", False, str(error))), None)
    more = [check for recheck in rechecks for check in recheck(solution, found)]
    is_short = share < 1.0 or seconds_left() < HALF * limit
    if is_short and not found.exact and not all(check.ok for check in more):
        # the search was smaller than that of the claim, or the time cut it
        return Verification((*checks, _late(checks, limit)), found, False)
    checks.extend(more)
    if exact and all(check.ok for check in checks if check.name == "network"):
        checks.extend(exact_checks(solution, problem.data, proof))
    return Verification(tuple(checks), found)
