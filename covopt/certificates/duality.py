"""The certificate of optimality: every number recomputed from the user's table, the network and the dual.

Nothing that a solver said is used. The upper bound is ‖W‖² of the network as it is, valid because its outputs are
compared with the targets; the lower bound is the dual value of λ divided by the oracle's upper bound on h(λ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from covopt.checks.wording import counted
from covopt.data import Data
from covopt.exact.rounding import (
    below,
    dot_bounds,
    lengths_up,
    operator_norm_up,
    relative_gap,
    sum_bounds,
    transfer_up,
    up,
)  # fmt: skip
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate, check_gauge
from covopt.oracles.support import VALID, bound_gauge
from covopt.problems.reduction import Reduction, reduce_data
from covopt.problems.shallow import ShallowProblem
from covopt.status import Status

INTERPOLATES = 1e-9  # of max|y|
PROVEN = 1e-9  # a proof that h(Λ) is at most this much above one needs no help from an oracle


@dataclass(frozen=True)
class Certificate:
    """What was checked, in the user's units.

    Attributes
    ----------
    cost : float
        ‖W‖² of the network (a free output bias not counted).
    lower_bound : float
        No network through the points has a smaller ‖W‖².
    gap : float
        (cost − lower_bound) / cost; see :func:`covopt.exact.rounding.relative_gap` for a cost below the bound.
    residual : float
        max_i |f(x_i) − y_i| / max_i |y_i|.
    gauge : float
        Upper bound on h(λ) that the lower bound was divided by.
    exact : bool
        Whether the oracle's bound is the maximum itself: it looked at every face, or its branch and bound ended.
    bound : str
        Which lower bound it is, in words.
    """

    cost: float
    lower_bound: float
    gap: float
    residual: float
    gauge: float
    exact: bool
    bound: str

    @property
    def interpolates(self) -> bool:
        """Whether the network passes through the points, to 1e-9 of max|y|."""
        return self.residual <= INTERPOLATES

    def of_scaled_dual(self, power: int) -> Certificate:
        """Return the same for the dual divided by 2**power: by powers of two alone every number comes out alike."""
        return replace(self, gauge=math.ldexp(self.gauge, -power))


def decide_status(status: Status, certificate: Certificate, tol: float) -> Status:
    """Say what a solve may claim: certified where the certificate says so, whatever stopped it, and only there.

    Parameters
    ----------
    status : Status
        Why the solver stopped.
    certificate : Certificate
    tol : float

    Examples
    --------
    >>> found = Certificate(2.0, 1.0, 0.5, 0.0, 1.0, True, "")
    >>> decide_status(Status.CERTIFIED, found, 1e-6).code, decide_status(Status.TIME_LIMIT, found, 0.6).code
    ('gap', 'certified')
    """
    if certificate.interpolates and certificate.gap <= tol:
        return Status.CERTIFIED
    return Status.GAP if status is Status.CERTIFIED else status


def residual_of(data: Data, network: ReLUNetwork) -> float:
    """max_i |f(x_i) − y_i| / max_i |y_i| (absolute when all targets vanish)."""
    scale = float(np.abs(data.Y).max()) or 1.0
    return float(np.abs(network.predict(data.X).reshape(data.Y.shape) - data.Y).max()) / scale


def certify(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    output_bias: str,
    budget: float = DEFAULT_FACE_BUDGET,
    reduced: tuple[ShallowProblem, Reduction] | None = None,
    proof: GaugeCertificate | None = None,
) -> Certificate:
    r"""Recompute primal, dual and gap from the raw data.

    For any Λ and t ≥ 0 with t h(Λ) ≤ 1 no network through the points has a smaller ‖W‖² than

    .. math::
        2 t \langle\Lambda, Y\rangle - t^2 \beta^2 \|\Lambda^\top 1\|^2

    (the last term with a penalised output bias only; with a free one Λᵀ1 = 0 is needed: what the sum differs from
    zero by is moved to one row, and paid). The rows, targets and Λ are the user's, as they are; everything is rounded
    towards a smaller bound (:mod:`covopt.exact.rounding`).

    Parameters
    ----------
    data : Data
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ in the user's units; rows whose targets follow from others carry zero.
    output_bias : {"none", "penalized", "free"}
    budget : float
        Largest number of faces that the exact oracle may look at; beyond it h(λ) is bounded by a relaxation.
    reduced : (ShallowProblem, Reduction), optional
        When the caller has them already; only which rows were kept is used, and the coordinates that a proof is in.
    proof : GaugeCertificate, optional
        Multipliers of a semidefinite relaxation that bound h(Λ); they are checked, and used where they fit.

    Raises
    ------
    InputError
        When the proof does not belong to these data.
    """
    problem, reduction = reduced or reduce_data(data, output_bias)
    cost = network.squared_norm
    residual = residual_of(data, network)
    if not len(problem.rows) or not np.any(dual):
        gap = 0.0 if cost == 0 and residual <= INTERPOLATES else 1.0
        return Certificate(cost, 0.0, gap, residual, 0.0, True, "zero, the trivial bound")
    keep = reduction.keep
    rows, targets = data.lifted[keep], data.Y[keep]
    point = centred(dual.reshape(len(dual), -1)[keep], output_bias)
    moved = Moved.to_one_row(rows, targets, point) if output_bias == "free" else NOTHING
    gauge, exact, method = np.inf, False, VALID
    if proof is not None:
        gauge = _proved_gauge(rows, point, reduction, proof)
    by_proof = gauge < np.inf
    if gauge > 1.0 + PROVEN:
        found = bound_gauge(rows, point, budget=budget)
        if found.value < gauge:
            (gauge, exact, method), by_proof = found, False
    gauge = up(gauge + moved.gauge)
    lower = _bound_at_best_multiple(
        point, targets, gauge, moved, data.bias if output_bias == "penalized" else 0.0
    )
    support = int(np.count_nonzero(point.any(axis=1)))
    bound = f"dual point divided by its {method}"
    if exact and support < len(point):
        bound = f"dual point supported on {counted(support, 'row')}, divided by its {method}"
    if not exact:
        bound = f"dual point divided by a {method}"
    if by_proof:
        bound = "dual point with a semidefinite proof that no neuron exceeds one, checked by eigenvalues"
    return Certificate(cost, lower, relative_gap(cost, lower), residual, gauge, exact, bound)


def centred(dual: np.ndarray, output_bias: str) -> np.ndarray:
    """Move a dual of shape (N, k) to Λᵀ1 = 0 when the output bias is free, to rounding, keeping zero rows."""
    support = dual.any(axis=1)
    if output_bias != "free" or not support.any():
        return dual
    kept = np.zeros_like(dual)
    kept[support] = dual[support] - dual[support].mean(axis=0)
    # equal numbers on the support leave nothing: then the zeros have to move
    return kept if np.abs(kept).max() > 1e-12 * np.abs(dual).max() else dual - dual.mean(axis=0)


@dataclass(frozen=True)
class Moved:
    """What it costs to move the exact sum s = Λᵀ1 to the shortest row, Λ' = Λ − e_k sᵀ, which then has Λ'ᵀ1 = 0.

    Attributes
    ----------
    gauge : float
        At least ‖s‖ ‖x_k‖: h(Λ') ≤ h(Λ) + that.
    value : float
        At least |⟨s, y_k⟩|: ⟨Λ', Y⟩ ≥ ⟨Λ, Y⟩ − that.
    """

    gauge: float
    value: float

    @classmethod
    def to_one_row(cls, rows: np.ndarray, targets: np.ndarray, dual: np.ndarray) -> Moved:
        """Bound both for the row that costs least."""
        sums = np.array([[max(abs(end) for end in sum_bounds(column)) for column in dual.T]])
        size = float(lengths_up(sums)[0])
        if size == 0.0:
            return cls(0.0, 0.0)
        with np.errstate(over="ignore"):
            gauges = np.nextafter(size * lengths_up(rows), np.inf)
            values = np.nextafter(size * lengths_up(targets), np.inf)
        k = int(gauges.argmin())
        return cls(float(gauges[k]), float(values[k]))


NOTHING = Moved(0.0, 0.0)


def _proved_gauge(rows: np.ndarray, dual: np.ndarray, reduction: Reduction, proof: GaugeCertificate) -> float:
    """Bound h(Λ) by the multipliers of a relaxation, which belong to rows and outputs in fewer coordinates."""
    basis, turn = reduction.basis, reduction.outputs
    reduced, lengths = rows @ basis, lengths_up(rows)
    outputs, paid, stretch = dual, 0.0, operator_norm_up(basis)
    if turn is not None:
        outputs = dual @ turn
        paid, stretch = transfer_up(dual, lengths, turn, outputs), up(stretch * operator_norm_up(turn))
    paid = up(paid + 2.0 * transfer_up(rows, lengths_up(outputs), basis, reduced))
    asked = outputs[:, 0] if outputs.shape[1] == 1 else outputs
    return up(up(stretch * check_gauge(reduced, np.ascontiguousarray(asked), proof)) + paid)


def _bound_at_best_multiple(
    dual: np.ndarray, targets: np.ndarray, gauge: float, moved: Moved, bias: float = 0.0
) -> float:
    """Max over 0 ≤ t ≤ 1/gauge of 2t⟨Λ, Y⟩ − t²β²‖Λᵀ1‖² from below: all enclosed, the multiple t rational.

    −Λ is as good as Λ, and taken where it is better.
    """
    low, high = dot_bounds(dual, targets)
    linear = Fraction(max(low, -high)) - Fraction(moved.value)
    if linear <= 0 or not 0.0 < gauge < np.inf:
        return 0.0
    step, bend = 1 / Fraction(gauge), Fraction(0)
    if bias > 0:
        sums = [max(abs(end) for end in sum_bounds(column)) for column in dual.T]
        bend = Fraction(bias) ** 2 * sum((Fraction(total) ** 2 for total in sums), Fraction(0))
        if bend > 0:
            step = min(step, linear / bend)
    return below(2 * step * linear - step * step * bend)
