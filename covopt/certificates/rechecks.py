"""What a solution states, claim by claim, against its table and a certificate computed anew: one list of checks.

Whatever ``summary`` prints is among them, but for who solved it and how long it took.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from covopt.certificates.certify import Certificate
from covopt.certificates.stated import ReadProblem
from covopt.checks.wording import Check, counted
from covopt.data.scaling import misses
from covopt.exact.rounding import allowance, gamma, relative_gap
from covopt.losses.regression import INTERPOLATES
from covopt.network.base import outputs
from covopt.potentials import POTENTIALS
from covopt.status import Status

AGREES = 1e-9  # relative difference at which a stated number equals the recomputed one
ROUNDINGS = 8  # by which an objective may come out smaller than on another processor


def not_finite(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Say where a network or dual has a number that is none."""
    network = solution.network
    of_network = network.hidden_weights, network.output_weights, network.output_bias
    for name, array in (*(("network", array) for array in of_network), ("dual", _dual(solution))):
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


def misshapen(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Say where the dual has another size than the targets."""
    low = solution.dual if solution.dual_low is None else solution.dual_low
    if not solution.dual.size == low.size == problem.data.Y.size:
        rows, outputs = problem.data.Y.shape
        of = f"{counted(rows, 'row')} and {counted(outputs, 'output')}"
        yield Check("dual", False, f"has shape {solution.dual.shape} for {of}")


def dual_rows(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Check what the bound does not see: multipliers of rows that follow from others, and 1ᵀλ = 0."""
    if problem.reduced is None:
        return
    dual = _dual(solution)
    idle = float(np.abs(np.delete(dual, problem.reduced[1].keep, axis=0)).max(initial=0.0))
    if idle > 0:
        yield Check("dual", False, f"has {idle:.3g} on rows whose targets follow from others")
    if solution.output_bias == "free":
        total = float(np.abs(dual.sum(axis=0)).max())
        ok = total <= AGREES * float(np.abs(dual).max(initial=0.0)) * len(dual)
        yield Check("dual sum", ok, f"is {total:.2e}, which a free output bias needs to be 0")


def standardised(solution: Any, problem: ReadProblem) -> Iterator[Check]:
    """Check that the table in the solution is as standardising leaves one, where it says so."""
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
    ok = abs(stated - found) <= AGREES * size
    return Check(name, ok, f"{of}stated {stated:.12g}, recomputed {found:.12g}")


def _upper(solution: Any, found: Certificate) -> Iterator[Check]:
    if solution.loss is None:
        ok = found.interpolates or solution.status is not Status.CERTIFIED
        detail = f"max |f - y| = {found.residual:.2e} of max |y| (allowed {INTERPOLATES:g})"
        yield Check("interpolation", ok, detail)
    stated, size = solution.certificate.residual, max(abs(found.objective), 1e-300)
    ok = abs(stated - found.residual) <= AGREES
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
    # a part of the bound itself: a share of what the network costs is any number, where that is no good network. A
    # gauge that comes out larger by 1e-9 takes no more off, since the dual value is concave in the multiple
    ok = lower <= found.lower_bound * (1.0 + AGREES)
    detail = f"stated {lower:.12g}, recomputed {found.lower_bound:.12g} by the {found.bound}"
    if ok and lower > max(found.lower_bound, found.objective) * (1.0 + gamma(ROUNDINGS)):
        ok, detail = False, f"{detail}; above the objective {found.objective:.17g} of its own network"
    yield Check("lower bound", ok, detail)


def _feasible(solution: Any, found: Certificate) -> Iterator[Check]:
    # a bound that is not the maximum need not come out alike twice; what it proves is in the lower bound
    stated = solution.certificate
    close = abs(found.gauge - stated.gauge) <= 1e-6
    ok = (found.gauge <= 1 + 1e-6 and close) or not found.exact
    ok |= not stated.exact and found.gauge <= stated.gauge + 1e-6  # more is known now than was
    ok &= _reached(solution) <= stated.gauge * (1.0 + AGREES) + 1e-6
    detail = f"max over all neurons of |<dual, activations>| is at most {found.gauge:.12g}"
    yield Check("dual feasible", ok, detail)


def _reached(solution: Any) -> float:
    """Return what the network's own neurons reach of the dual's maximum at least: no bound on it is below that."""
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
    """Check what the certificate says of its bound: as much as is found again, and in words that covopt has used."""
    stated = solution.certificate
    known = stated.bound == found.bound or any(words.fullmatch(stated.bound) for words in _KNOWN_WORDS)
    claims = stated.exact or "exact maximum" in stated.bound
    detail = f"stated '{stated.bound[:120]}', {'exact' if stated.exact else 'not exact'}; "
    detail += f"recomputed '{found.bound}', {'exact' if found.exact else 'not exact'}"
    yield Check("bound in words", known and (found.exact or not claims), detail)


def _gap(solution: Any, found: Certificate) -> Iterator[Check]:
    gap = relative_gap(found.objective, solution.lower_bound)
    if found.objective == solution.lower_bound == 0.0 and not found.interpolates:
        gap = 1.0  # nothing is no network through the points
    detail = f"stated {solution.gap:.3e}, recomputed {gap:.3e}"
    yield Check("gap", abs(gap - solution.gap) <= AGREES, detail)


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
    ok = 0 < tol < 1 and found.interpolates and found.gap <= tol * (1 + 1e-6) + 0.1 * AGREES
    detail = f"certified: recomputed gap {found.gap:.3e}, asked for {tol:g}"
    yield Check("status", ok, detail)


BEFORE = (not_finite, structure, misshapen, dual_rows)  # a certificate, from the solution and its problem
RECHECKS = (
    _upper,
    _lower,
    _feasible,
    _words,
    _gap,
    _classes,
    _status,
)  # with one; the first needs no dual point
# what certificates have said of their bounds, in this version and before
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
