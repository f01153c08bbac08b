"""Checks of the claims of a solution against its table and a recomputed certificate.

A stated number equals the recomputed one to nine digits. Everything that ``summary`` prints is checked, except the
solver and its time. :func:`exact_checks` repeats the checks in exact arithmetic and names steps in floating point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.certificates.certify import Certificate, missed_slope
from covopt.certificates.prove import float_link, multipliers_of, problem_of, prove
from covopt.certificates.stated import ReadProblem
from covopt.checks import NOT_EXACT, Check, counted
from covopt.data import Data
from covopt.data.scaling import misses
from covopt.errors import InputError, SolutionFileError, Status
from covopt.exact.far_rows import FarRows
from covopt.exact.rank import COMPUTED, FOUND
from covopt.exact.rounding import above, allowance, below, gamma, relative_gap
from covopt.losses import INTERPOLATES
from covopt.network.base import outputs
from covopt.oracles.certified import BY_BOXES, suits_integers
from covopt.potentials import POTENTIALS
from covopt.proofs import FirstProof, Proof
from covopt.proofs.checker.dual import CheckedBound, CheckedNetwork, Problem, check_by_faces, check_network
from covopt.proofs.proof import differs, exactly

if TYPE_CHECKING:
    from covopt.completely_positive.certificate import CPRankCertificate


def unusable(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Say where numbers are not finite, or the dual has not the shape of the targets: then nothing is computed."""
    low = solution.dual if solution.dual_low is None else solution.dual_low
    if not solution.dual.size == low.size == problem.data.Y.size:
        rows, outputs = problem.data.Y.shape
        of = f"{counted(rows, 'row')} and {counted(outputs, 'output')}"
        yield Check("dual", False, f"has shape {solution.dual.shape} for {of}")
    network = solution.network
    of_network = network.hidden_weights, network.output_weights, network.output_bias
    for name, array in (
        *(("network", array) for array in of_network),
        ("dual", solution.dual),
        ("dual", low),
    ):
        if not np.isfinite(array).all():
            yield Check(name, False, "has a number that is not finite")
            return


def structure(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Check that the network fits the table, the output bias and the potential that are stated."""
    data, network = solution.data, solution.network
    width = data.n_features + (data.bias > 0)
    fits = network.hidden_weights.shape[1] == width and network.bias == data.bias
    fits &= network.output_weights.shape[1] == data.n_outputs == len(network.output_bias)
    size = counted(width, "input") + (f" and {data.n_outputs} outputs" if data.n_outputs > 1 else "")
    yield Check("network", fits, f"{counted(len(network), 'neuron')} on {size}, bias {network.bias:g}")
    if solution.output_bias == "none":
        silent = not network.output_bias.any()
        yield Check("output bias", silent, "absent" if silent else "present although there is none")
    if solution.output_bias not in ("none", "penalized", "free") or solution.potential not in POTENTIALS:
        said = f"output_bias {solution.output_bias!r}, potential {solution.potential!r}"
        yield Check("problem", False, said)


def dual_rows(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Check what the bound ignores: multipliers of rows that other rows imply, and 1ᵀλ = 0."""
    if problem.reduced is None:
        return
    dual = _dual(solution)
    idle = float(np.abs(np.delete(dual, problem.reduced[1].keep, axis=0)).max(initial=0.0))
    if idle > 0:
        yield Check("dual", False, f"has {idle:.3g} on rows whose targets follow from others")
    if solution.output_bias == "free":
        total = float(np.abs(dual.sum(axis=0)).max())
        ok = total <= FOUND * float(np.abs(dual).max(initial=0.0)) * len(dual)
        yield Check("dual sum", ok, f"is {total:.2e}, which a free output bias needs to be 0")


def standardised(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Check that the columns of a standardised table have the stated moments."""
    scaling, loss = solution.network.scaling, solution.loss
    if scaling is not None:
        of_numbers = loss is None or not loss.is_classification
        wrong = misses(
            solution.data, scaling, None if loss is None else loss.weights[:, 0], targets=of_numbers
        )
        one = (
            "columns of mean 0 and variance 1" if solution.data.bias > 0 else "columns of root mean square 1"
        )
        yield Check("standardised", not wrong, wrong or one)


def _dual(solution: Any) -> np.ndarray:
    return solution.dual if solution.dual_low is None else solution.dual + solution.dual_low


def _norm(solution: Any) -> bool:
    return solution.potential == "variation"


def _agrees(name: str, stated: float, found: float, size: float, of: str = "") -> Check:
    ok = abs(stated - found) <= FOUND * size
    return Check(name, ok, f"{of}stated {stated:.12g}, recomputed {found:.12g}")


def _upper(solution: Any, found: Certificate) -> Iterator[Check]:
    if solution.loss is None:
        ok = found.interpolates or solution.status is not Status.CERTIFIED
        detail = f"max |f - y| = {found.residual:.2e} of max |y| (allowed {INTERPOLATES:g})"
        yield Check("interpolation", ok, detail)
    stated, size = solution.certificate.residual, max(abs(found.objective), 1e-300)
    ok = abs(stated - found.residual) <= FOUND
    yield Check("residual", ok, f"stated {stated:.2e}, recomputed {found.residual:.2e}")
    if solution.loss is None:
        yield _agrees("norm", solution.cost, found.cost, size)
        return
    lam = solution.lam or 0.0
    loss_value = np.nan if solution.loss_value is None else solution.loss_value
    yield _agrees("objective", solution.objective, found.objective, size)
    yield _agrees("loss", loss_value, found.loss_value, size)
    cost, of = lam * found.cost, "λΣ|v|ω(w): "
    if _norm(solution):
        size, of = max(cost, 1e-300), "λ‖W‖²: "
    yield _agrees("norm", lam * solution.cost, cost, size, of)


def _lower(solution: Any, found: Certificate) -> Iterator[Check]:
    lower = solution.lower_bound
    # relative to the bound, not to the cost of the network, which may be large. A dual norm that is larger by 1e-9
    # reduces the bound by no more than that share, since the dual value is concave in the multiple
    ok = lower <= found.lower_bound * (1.0 + FOUND)
    detail = f"stated {lower:.12g}, recomputed {found.lower_bound:.12g} by the {found.bound}"
    # a network that misses the points may cost less than all through them, by at most 2⟨Λ, F − Y⟩
    missed = (
        2.0 * found.residual * (float(np.abs(solution.data.Y).max()) or 1.0) * np.abs(_dual(solution)).sum()
    )
    # the objective may differ from that of another processor by a few roundings
    if ok and lower > max(found.lower_bound, found.objective + missed) * (1.0 + gamma(8)):
        ok, detail = False, f"{detail}; above the objective {found.objective:.17g} of its own network"
    yield Check("lower bound", ok, detail)


def _feasible(solution: Any, found: Certificate) -> Iterator[Check]:
    # a bound that is not the maximum may change when recomputed; the lower bound is checked for what it proves
    stated = solution.certificate
    close = abs(found.gauge - stated.gauge) <= 1e-6
    ok = (found.gauge <= 1 + 1e-6 and close) or not found.exact
    ok |= not stated.exact and found.gauge <= stated.gauge + 1e-6  # a sharper bound than stated
    ok &= _reached(solution) <= stated.gauge * (1.0 + FOUND) + 1e-6
    detail = f"max over all neurons of |<dual, activations>| is at most {found.gauge:.12g}"
    yield Check("dual feasible", ok, detail)


def _reached(solution: Any) -> float:
    """Return a lower bound on h(Λ) by the network's own neurons: no upper bound is below it."""
    network, rows = solution.network, solution.data.lifted
    if not _norm(solution) or not len(network) or network.hidden_weights.shape[1] != rows.shape[1]:
        return 0.0
    dual = _dual(solution).reshape(len(rows), -1)
    with np.errstate(all="ignore"):
        units = network.hidden_weights / np.linalg.norm(network.hidden_weights, axis=1)[:, None]
        found = np.linalg.norm(outputs(units, rows, dual), axis=1)
        size = float(np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1))
        found = found - allowance(rows.size + dual.size + len(rows), size)
    return float(np.where(np.isfinite(found), found, 0.0).max())


def _words(solution: Any, found: Certificate) -> Iterator[Check]:
    """Check the description of the bound: words that covopt uses, and exact only if that is found again."""
    stated = solution.certificate
    known = stated.bound == found.bound or any(words.fullmatch(stated.bound) for words in _KNOWN_WORDS)
    claims = stated.exact or "exact maximum" in stated.bound
    detail = f"stated '{stated.bound[:120]}', {'exact' if stated.exact else 'not exact'}; "
    detail += f"recomputed '{found.bound}', {'exact' if found.exact else 'not exact'}"
    yield Check("bound in words", known and (found.exact or not claims), detail)


def _gap(solution: Any, found: Certificate) -> Iterator[Check]:
    gap = relative_gap(found.objective, solution.lower_bound)
    if found.objective == solution.lower_bound == 0.0 and not found.interpolates:
        gap = 1.0  # the zero network misses the points
    detail = f"stated {solution.gap:.3e}, recomputed {gap:.3e}"
    yield Check("gap", abs(gap - solution.gap) <= FOUND, detail)


def _classes(solution: Any, found: Certificate) -> Iterator[Check]:
    loss = solution.loss
    if loss is None or not loss.is_classification:
        return
    classes = () if loss.classes is None else tuple(loss.classes)
    n = max(2, solution.data.n_outputs)
    try:
        ok = len(classes) == n and all(a < b for a, b in pairwise(classes))
    except TypeError:
        ok = False
    yield Check("classes", ok, f"{len(classes)} of {n}, in order" if ok else f"not {n} names in order")


def _status(solution: Any, found: Certificate) -> Iterator[Check]:
    tol = solution.tol
    if not 0 < tol < 1:
        yield Check("tolerance", False, f"{tol!r} is no relative gap between 0 and 1")
    if solution.status is not Status.CERTIFIED:
        yield Check("status", True, f"{solution.status.code}: no claim of optimality")
        return
    ok = 0 < tol < 1 and found.interpolates and found.gap <= tol * (1 + 1e-6) + 0.1 * FOUND
    detail = f"certified: recomputed gap {found.gap:.3e}, asked for {tol:g}"
    if ok and solution.loss is None:
        slope = missed_slope(solution.data, solution.network)
        if slope > tol * (1 + 1e-6):
            ok, detail = False, f"{detail}; between close points it misses {slope:.3g} of its slope"
    yield Check("status", ok, detail)


# checks without a certificate, and with one; the first of the latter needs no dual
BEFORE = (standardised, structure, dual_rows)
RECHECKS = (_upper, _lower, _feasible, _words, _gap, _classes, _status)
# descriptions of bounds by this version and earlier ones
_KNOWN_WORDS = tuple(
    re.compile(words)
    for words in (
        r"zero, the trivial bound",
        r"dual point (supported on \d+ rows?, )?(divided|scaled) by (its|the) exact maximum over all (neurons|faces)"
        r"(, in the [a-z-]+ potential)?",
        r"dual point (divided|scaled) by a valid upper bound on the maximum over all neurons"
        r"(, by (quadratics on )?boxes of directions|, by a fan of output directions)?",
        r"dual point with a semidefinite proof that no neuron exceeds one, checked by eigenvalues",
    )
)


# ---------------------------------------------------------------------- in integers and fractions
def exact_checks(solution: Any, data: Data, proof: Proof | FirstProof | None = None) -> list[Check]:
    """Check residual, norm, objective and lower bound of a solution in exact arithmetic.

    Parameters
    ----------
    solution : Solution
    data : Data
        Its table; with a loss the targets are those that the loss uses.
    proof : Proof, optional
        Of the lower bound; a new proof is made if it is missing or of version 1.
    """
    try:
        return list(_checks(solution, data, proof))
    except OverflowError as error:  # a stated number is infinite
        return [Check("exact arithmetic", False, f"a number of the solution is not finite: {error}")]


def _checks(solution: Any, data: Data, proof: Proof | FirstProof | None) -> Iterator[Check]:
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
        yield _exact_norm(solution, network)
    yield _interpolation(solution, about, network) if problem.loss is None else _loss(solution, network)
    if bound is None:
        yield said
    else:
        yield from _bound(solution, data, network, bound)
        if isinstance(proof, FirstProof) and Fraction(proof.lower_bound) > bound.lower_bound:
            claimed = f"claims {proof.lower_bound:.16g}, proves {below(bound.lower_bound):.16g}"
            yield Check("proof", False, claimed)


def _proved(
    problem: Problem, solution: Any, data: Data, proof: Proof | FirstProof | None
) -> tuple[Problem, CheckedBound]:
    """Return the proved problem and bound: of the table's doubles, or of the decimals next to them."""
    dual = multipliers_of(solution)
    if isinstance(proof, FirstProof):
        if not proof.is_about(problem, dual):
            raise InputError("the proof is about another table or another dual point: their digests differ")
        proof = None
    if proof is None and suits_integers(data.lifted, data.lifted[:, :1]):
        # by faces where the moved dual is a sum of floats: boxes prove less for rows that nearly agree
        with suppress(ValueError):
            return problem, check_by_faces(problem, dual)
    proof = proof or prove(problem, dual, network=solution.network)
    other = differs(proof.own, problem)
    if other is not None:
        raise InputError(f"the proof is about {other}")
    return exactly(proof.own, problem), CheckedBound(proof.own.bound, proof.boxes)


def exact_of_cp_rank(certificate: CPRankCertificate) -> Check:
    """Return a check that names the parts of a CP-rank certificate in floating point."""
    if certificate.matrix.exact is None:
        text = f"{NOT_EXACT}: the entries are floats, and ranks, factors and signs hold up to the tolerance"
    elif any(reason.method == "moment" for reason in certificate.reasons):
        text = f"{NOT_EXACT}: the bound by moments rests on eigenvalues in floating point, with an allowance"
    else:
        text = "the matrix and every reason are integers and fractions"
    return Check("exact arithmetic", True, text)


def _exact_norm(solution: Any, network: CheckedNetwork) -> Check:
    ok = abs(network.cost - Fraction(solution.cost)) <= Fraction(COMPUTED) * network.cost
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


def _objective(solution: Any, network: CheckedNetwork) -> Fraction:
    return (
        network.cost if network.loss is None else network.loss + Fraction(solution.lam or 0.0) * network.cost
    )


def _loss(solution: Any, network: CheckedNetwork) -> Check:
    if network.loss is None or solution.potential != "variation":
        said = f"{NOT_EXACT}: the objective of the network is computed in floating point"
        return Check("exact objective", True, said)
    objective = _objective(solution, network)
    ok = abs(objective - Fraction(solution.objective)) <= Fraction(FOUND) * objective
    return Check("exact objective", ok, f"at most {above(objective):.16g}, stated {solution.objective:.16g}")


def _bound(solution: Any, data: Data, network: CheckedNetwork, bound: CheckedBound) -> Iterator[Check]:
    proved, through = bound.lower_bound, solution.loss is None
    ok = Fraction(solution.lower_bound) <= proved * (1 + Fraction(FOUND))
    how = f"by {bound.boxes} boxes in integers" if bound.boxes else "by all faces in integers"
    text = f"{below(proved):.16g} proved {how}, stated {solution.lower_bound:.16g}"
    repaired = _objective(solution, network) + (network.repair or 0)
    gap = (repaired - proved) / repaired if repaired else Fraction(0)
    allowed = Fraction(solution.tol) * (1 + Fraction(1, 10**6)) + Fraction(FOUND)
    far = bound.boxes > 0 and FarRows.of(data.lifted) is not None
    rests = "rows brought closer to the origin" if far else ""
    if solution.certificate.bound.endswith(BY_BOXES) and repaired and gap <= allowed:
        rests = "quadratics on boxes of directions"
    if not ok and rests:
        stated = (
            f"{NOT_EXACT}: {solution.lower_bound:.16g} rests on {rests}, in floating point rounded outwards"
        )
        text = f"{stated}; {text}"
    yield Check("exact lower bound", ok or bool(rests), text)
    known = not through or network.repair is not None
    text = f"{below(proved):.16g} ≤ {'R₂(X, Y)' if through else 'the minimum'}"
    text += (f" ≤ {above(repaired):.16g}" if known else "") + f", relative gap {float(gap):.2e}"
    closed = not ok or gap <= allowed or solution.status is not Status.CERTIFIED
    yield Check("exact bracket", closed and not (known and proved > repaired), text)
