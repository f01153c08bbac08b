"""What the exact checker says about a solution, claim by claim; where a link is floating point it says that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from covopt.certificates.prove import float_link, multipliers_of, problem_of, prove
from covopt.certificates.rechecks import AGREES
from covopt.certificates.stated import SAME
from covopt.checks.wording import NOT_EXACT, Check
from covopt.errors import InputError, SolutionFileError
from covopt.exact.far_rows import FarRows
from covopt.exact.rounding import above, below
from covopt.losses.regression import INTERPOLATES
from covopt.oracles.support import BY_BOXES, suits_integers
from covopt.proofs import Proof
from covopt.proofs.checker.dual import (
    CheckedBound,
    CheckedNetwork,
    Problem,
    check_by_faces,
    check_network,
)
from covopt.proofs.proof import differs, exactly
from covopt.status import Status

if TYPE_CHECKING:
    from covopt.completely_positive.certificate import CPRankCertificate
    from covopt.data import Data


def exact_checks(solution: Any, data: Data, proof: Proof | None = None) -> list[Check]:
    """Check residual, norm, objective and lower bound of a solution in exact arithmetic.

    Parameters
    ----------
    solution : Solution
    data : Data
        Its table; with a loss the targets are those that the loss uses.
    proof : Proof, optional
        Of the lower bound; one is searched for when it is not given.
    """
    try:
        return list(_checks(solution, data, proof))
    except OverflowError as error:  # a number stated as infinite
        return [Check("exact arithmetic", False, f"a number of the solution is not finite: {error}")]


def _checks(solution: Any, data: Data, proof: Proof | None) -> Iterator[Check]:
    problem, net = problem_of(solution, data), solution.network
    reason = float_link(problem, solution.potential)
    about, bound, said = problem, None, Check("", False, "")
    if reason is not None:
        said = Check("exact lower bound", True, f"{NOT_EXACT}: {reason}")
        if proof is not None:
            said = Check("exact lower bound", False, f"a proof was given, but {reason}")
    else:
        try:
            about, bound = _proved(problem, solution, data, proof)
        except (InputError, SolutionFileError, ValueError) as error:
            said = Check("exact lower bound", False, str(error))
    network = check_network(about, net.hidden_weights, net.output_weights, net.output_bias)
    if solution.potential == "variation":
        yield _norm(solution, network)
    yield _interpolation(solution, about, network) if problem.loss is None else _loss(solution, network)
    if bound is None:
        yield said
    else:
        far = bound.boxes > 0 and FarRows.of(data.lifted) is not None
        yield from _bound(solution, network, bound, far=far)


def _proved(problem: Problem, solution: Any, data: Data, proof: Proof | None) -> tuple[Problem, CheckedBound]:
    """Return what is proved, and of which numbers: the table's doubles, or the decimals next to them."""
    dual = multipliers_of(solution)
    if proof is None and suits_integers(data.lifted, data.lifted[:, :1]):
        with suppress(
            ValueError
        ):  # no sum of floats where the dual is moved; boxes lose what rows nearly alike need
            return problem, check_by_faces(problem, dual)
    proof = proof or prove(problem, dual, network=solution.network)
    other = differs(proof.own, problem)
    if other is not None:
        raise InputError(f"the proof is about {other}")
    return exactly(proof.own, problem), CheckedBound(proof.own.bound, proof.boxes)


def exact_of_cp_rank(certificate: CPRankCertificate) -> Check:
    """Say which links of a CP-rank certificate are floating point; the others are integers and fractions."""
    if certificate.matrix.exact is None:
        text = f"{NOT_EXACT}: the entries are floats, and ranks, factors and signs hold up to the tolerance"
    elif any(reason.method == "moment" for reason in certificate.reasons):
        text = f"{NOT_EXACT}: the bound by moments rests on eigenvalues in floating point, with an allowance"
    else:
        text = "the matrix and every reason are integers and fractions"
    return Check("exact arithmetic", True, text)


def _norm(solution: Any, network: CheckedNetwork) -> Check:
    ok = abs(network.cost - Fraction(solution.cost)) <= Fraction(SAME) * network.cost
    return Check("exact norm", ok, f"‖W‖² = {below(network.cost):.16g}, stated {solution.cost:.16g}")


def _interpolation(solution: Any, problem: Problem, network: CheckedNetwork) -> Check:
    largest = max(abs(float(v)) for v in problem.Y.ravel()) or 1.0
    size = below(network.residual / Fraction(largest))
    text = "through (X, Y) exactly"
    if network.residual:
        text = f"through (X, Y + r), max |r| = {size:.2e} of max |y|; "
        cost = "the cost of repairing r is not bounded"
        if network.repair is not None:
            cost = f"neurons of ‖W‖² ≤ {above(network.repair):.2e} repair r"
        text += cost
    return Check("exact interpolation", size <= INTERPOLATES or solution.status is not Status.CERTIFIED, text)


def _loss(solution: Any, network: CheckedNetwork) -> Check:
    if network.loss is None or solution.potential != "variation":
        return Check(
            "exact objective",
            True,
            f"{NOT_EXACT}: the objective of the network is computed in floating point",
        )
    objective = network.loss + Fraction(solution.lam or 0.0) * network.cost
    ok = abs(objective - Fraction(solution.objective)) <= Fraction(AGREES) * objective
    return Check("exact objective", ok, f"at most {above(objective):.16g}, stated {solution.objective:.16g}")


def _bound(
    solution: Any,
    network: CheckedNetwork,
    bound: CheckedBound,
    *,
    far: bool,
) -> Iterator[Check]:
    proved = bound.lower_bound
    upper = network.cost if solution.loss is None else None
    if network.loss is not None:
        upper = network.loss + Fraction(solution.lam or 0.0) * network.cost
    ok = Fraction(solution.lower_bound) <= proved * (1 + Fraction(AGREES))
    how = f"by {bound.boxes} boxes in integers" if bound.boxes else "by all faces in integers"
    text = f"{below(proved):.16g} proved {how}, stated {solution.lower_bound:.16g}"
    repaired = upper if upper is None or network.repair is None else upper + network.repair
    gap = (repaired - proved) / repaired if repaired else Fraction(0)
    allowed = Fraction(solution.tol) * (1 + Fraction(1, 10**6)) + Fraction(AGREES)
    rests = "rows brought closer to the origin" if far else ""
    if solution.certificate.bound.endswith(BY_BOXES) and repaired and gap <= allowed:
        rests = "quadratics on boxes of directions"
    if not ok and rests:
        stated = (
            f"{NOT_EXACT}: {solution.lower_bound:.16g} rests on {rests}, in floating point rounded outwards"
        )
        text = f"{stated}; {text}"
    yield Check("exact lower bound", ok or bool(rests), text)
    if repaired is None:
        return
    known = solution.loss is not None or network.repair is not None
    what = "R₂(X, Y)" if solution.loss is None else "the minimum"
    text = f"{below(proved):.16g} ≤ {what}" + (f" ≤ {above(repaired):.16g}" if known else "")
    closed = ok is False or gap <= allowed or solution.status is not Status.CERTIFIED
    contradicted = known and proved > repaired
    text = f"{text}, relative gap {float(gap):.2e}"
    yield Check("exact bracket", closed and not contradicted, text)
