"""What a solution states, claim by claim, against a certificate computed anew: one function each, one table.

Whatever ``summary`` prints is among them, but for who solved it and how long it took.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np

from covopt.certificates.certify import Certificate
from covopt.checks.claims import Check
from covopt.exact.rounding import allowance, gamma, relative_gap
from covopt.losses.interpolation import INTERPOLATES
from covopt.status import Status

AGREES = 1e-9  # relative difference at which a stated number equals the recomputed one
ROUNDINGS = 8  # by which an objective may come out smaller than on another processor
PAIRS_PER_PIECE = 5_000_000
MOST_PAIRS = (
    400_000_000  # of points and neurons, for which the dual point is evaluated at the network's own neurons
)


def _size(found: Certificate) -> float:
    return max(abs(found.objective), 1e-300)


def _norm(solution: Any) -> bool:
    return solution.potential == "variation"


def _agrees(name: str, stated: float, found: float, size: float, of: str = "") -> Check:
    ok = abs(stated - found) <= AGREES * size
    return Check(name, ok, f"{of}stated {stated:.12g}, recomputed {found:.12g}")


def _points(solution: Any, found: Certificate) -> list[Check]:
    if solution.loss is not None:
        return []
    ok = found.interpolates or solution.status is not Status.CERTIFIED
    detail = f"max |f - y| = {found.residual:.2e} of max |y| (allowed {INTERPOLATES:g})"
    return [Check("interpolation", ok, detail)]


def _residual(solution: Any, found: Certificate) -> list[Check]:
    stated = solution.certificate.residual
    ok = abs(stated - found.residual) <= AGREES
    return [Check("residual", ok, f"stated {stated:.2e}, recomputed {found.residual:.2e}")]


def _upper(solution: Any, found: Certificate) -> list[Check]:
    if solution.loss is None:
        return [_agrees("norm", solution.cost, found.cost, _size(found))]
    lam, size = solution.lam or 0.0, _size(found)
    loss_value = np.nan if solution.loss_value is None else solution.loss_value
    return [
        _agrees("objective", solution.objective, found.objective, size),
        _agrees("loss", loss_value, found.loss_value, size),
        _agrees(
            "norm",
            lam * solution.cost,
            lam * found.cost,
            max(lam * found.cost, 1e-300) if _norm(solution) else size,
            "λ‖W‖²: " if _norm(solution) else "λΣ|v|ω(w): ",
        ),
    ]


def _lower(solution: Any, found: Certificate) -> list[Check]:
    lower = solution.lower_bound
    # a part of the bound itself: a share of what the network costs is any number, where that is no good network. A
    # gauge that comes out larger by 1e-9 takes no more off, since the dual value is concave in the multiple
    ok = lower <= found.lower_bound * (1.0 + AGREES)
    detail = f"stated {lower:.12g}, recomputed {found.lower_bound:.12g} by the {found.bound}"
    if ok and lower > max(found.lower_bound, found.objective) * (1.0 + gamma(ROUNDINGS)):
        ok, detail = False, f"{detail}; above the objective {found.objective:.17g} of its own network"
    return [Check("lower bound", ok, detail)]


def _feasible(solution: Any, found: Certificate) -> list[Check]:
    # a bound that is not the maximum need not come out alike twice; what it proves is in the lower bound
    stated = solution.certificate
    close = abs(found.gauge - stated.gauge) <= 1e-6
    ok = (found.gauge <= 1 + 1e-6 and close) or not found.exact
    ok |= not stated.exact and found.gauge <= stated.gauge + 1e-6  # more is known now than was
    ok &= _reached(solution) <= stated.gauge * (1.0 + AGREES) + 1e-6
    detail = f"max over all neurons of |<dual, activations>| is at most {found.gauge:.12g}"
    return [Check("dual feasible", ok, detail)]


def _reached(solution: Any) -> float:
    """Return what the network's own neurons reach of the dual's maximum at least: no bound on it is below that."""
    network, rows = solution.network, solution.data.lifted
    if not _norm(solution) or not len(network) or network.hidden_weights.shape[1] != rows.shape[1]:
        return 0.0
    with np.errstate(all="ignore"):
        units = network.hidden_weights / np.linalg.norm(network.hidden_weights, axis=1)[:, None]
        units = units[
            :: max(1, len(rows) * len(units) // MOST_PAIRS)
        ]  # of very many some, since all must be below
        dual = solution.dual if solution.dual_low is None else solution.dual + solution.dual_low
        dual = dual.reshape(len(rows), -1)
        step = max(1, PAIRS_PER_PIECE // len(rows))
        pieces = (units[start : start + step] for start in range(0, len(units), step))
        found = np.linalg.norm(
            np.concatenate([np.maximum(part @ rows.T, 0.0) @ dual for part in pieces]), axis=1
        )
        size = float(np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1))
        found = found - allowance(rows.size + dual.size + len(rows), size)
    return float(np.where(np.isfinite(found), found, 0.0).max())


def _words(solution: Any, found: Certificate) -> list[Check]:
    """Check what the certificate says of its bound: as much as is found again, and in words that covopt has used."""
    stated = solution.certificate
    known = stated.bound == found.bound or any(words.fullmatch(stated.bound) for words in _KNOWN_WORDS)
    claims = stated.exact or "exact maximum" in stated.bound
    detail = f"stated '{stated.bound[:120]}', {'exact' if stated.exact else 'not exact'}; "
    detail += f"recomputed '{found.bound}', {'exact' if found.exact else 'not exact'}"
    return [Check("bound in words", known and (found.exact or not claims), detail)]


def _gap(solution: Any, found: Certificate) -> list[Check]:
    gap = relative_gap(found.objective, solution.lower_bound)
    if found.objective == solution.lower_bound == 0.0 and not found.interpolates:
        gap = 1.0  # nothing is no network through the points
    detail = f"stated {solution.gap:.3e}, recomputed {gap:.3e}"
    return [Check("gap", abs(gap - solution.gap) <= AGREES, detail)]


def _classes(solution: Any, found: Certificate) -> list[Check]:
    loss = solution.loss
    if loss is None or not loss.is_classification:
        return []
    classes = () if loss.classes is None else tuple(loss.classes)
    n = max(2, solution.data.n_outputs)
    try:
        ok = len(classes) == n and all(a < b for a, b in pairwise(classes))
    except TypeError:
        ok = False
    return [Check("classes", ok, f"{len(classes)} of {n}, in order" if ok else f"not {n} names in order")]


def _status(solution: Any, found: Certificate) -> list[Check]:
    tol = solution.tol
    checks = [] if 0 < tol < 1 else [Check("tolerance", False, f"{tol!r} is no relative gap between 0 and 1")]
    if solution.status is not Status.CERTIFIED:
        return [*checks, Check("status", True, f"{solution.status.code}: no claim of optimality")]
    ok = not checks and found.interpolates and found.gap <= tol * (1 + 1e-6) + 0.1 * AGREES
    detail = f"certified: recomputed gap {found.gap:.3e}, asked for {tol:g}"
    return [*checks, Check("status", ok, detail)]


RECHECKS = (_points, _residual, _upper, _lower, _feasible, _words, _gap, _classes, _status)
# what certificates have said of their bounds, in this version and before
_KNOWN_WORDS = tuple(
    re.compile(words)
    for words in (
        r"zero, the trivial bound",
        r"dual point (supported on \d+ rows?, )?(divided|scaled) by (its|the) exact maximum over all (neurons|faces)"
        r"(, in the [a-z-]+ potential)?",
        r"dual point (divided|scaled) by a valid upper bound on the maximum over all neurons"
        r"(, by (quadratics on )?boxes of directions)?",
        r"dual point with a semidefinite proof that no neuron exceeds one, checked by eigenvalues",
    )
)
