"""The certificate with a loss: every number recomputed from the user's table, the network and the dual.

The upper bound is C(f) + λ‖W‖² of the network as it is. The lower bound is the value of the dual at the best multiple
of Λ that is feasible by the oracle's bound on h(Λ), less what rounding can have added.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.certificates.conjugate import conjugate_above, into_domain, reach
from covopt.certificates.duality import Certificate
from covopt.data import Data
from covopt.exact.rounding import UNIT, below, down, relative_gap, sum_bounds, up
from covopt.losses import Loss
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.support import bound_gauge
from covopt.problems.regularised import BISECTIONS


@dataclass(frozen=True)
class FitCertificate(Certificate):
    """What was checked, in the user's units: of the objective C(f) + λ‖W‖².

    Attributes
    ----------
    objective : float
        C(f) + λ‖W‖² of the network; ``lower_bound`` and ``gap`` are about it, ``residual`` is 0.
    loss_value : float
        C(f).
    """

    objective: float = 0.0
    loss_value: float = 0.0


def certify_fit(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    loss: Loss,
    lam: float,
    output_bias: str,
    budget: float = DEFAULT_FACE_BUDGET,
) -> FitCertificate:
    r"""Recompute objective, lower bound and gap from the raw data.

    For any U in the domain of C* and any t with tU in it and t h(U) ≤ 2λ no network has a smaller C(f) + λ‖W‖² than

    .. math::
        -C^*(t U) - t^2 \beta^2 \|U^\top 1\|^2 / 4\lambda

    (the last term with a penalised output bias only; with a free one Uᵀ1 = 0 is needed). Here U is −2λΛ, moved to
    where both hold exactly (:mod:`covopt.certificates.conjugate`), which changes nothing for an honest dual; rows,
    targets and Λ are the user's, as they are, and everything is rounded towards a smaller bound.

    Parameters
    ----------
    data : Data
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ in the user's units.
    loss : Loss
        Bound to ``data.Y`` and the weights.
    lam : float
    output_bias : {"none", "penalized", "free"}
    budget : float
        Largest number of faces that the exact oracle may look at; beyond it h(Λ) is bounded by a relaxation.
    """
    cost = network.squared_norm
    loss_value = loss.value(network.predict(data.X))
    objective = loss_value + lam * cost
    keep = np.flatnonzero(loss.weights[:, 0] > 0)
    part, rows = loss.take(keep), data.lifted[keep]
    slope = -2.0 * lam * dual.reshape(data.n_samples, -1)[keep]
    slope = into_domain(part, slope, balanced=output_bias == "free")
    found = bound_gauge(rows, slope, budget=budget)
    lower = lower_bound(part, slope, 2.0 * lam, found.value, data.bias if output_bias == "penalized" else 0.0)
    bound = (
        f"dual point scaled by its {found.method}"
        if found.exact
        else f"dual point scaled by a {found.method}"
    )
    return FitCertificate(
        cost, lower, relative_gap(objective, lower), 0.0, up(found.value / (2.0 * lam)), found.exact, bound,
        objective, loss_value,
    )  # fmt: skip


def lower_bound(loss: Loss, slope: np.ndarray, allowed: float, gauge: float, bias: float = 0.0) -> float:
    """Return the largest dual value over the multiples tU with t·gauge ≤ allowed, rounded down.

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    slope : ndarray of shape (N, k)
        U, in the domain of C*.
    allowed : float
        What h(U) may be: 2λ where networks cost λ‖W‖².
    gauge : float
        An upper bound on h(U).
    bias : float
        β of a penalised output bias, 0 without one.
    """
    sums = [max(abs(end) for end in sum_bounds(column)) for column in slope.T] if bias > 0 else []
    bend = Fraction(bias) ** 2 / (2 * Fraction(allowed)) * sum((Fraction(s) ** 2 for s in sums), Fraction(0))
    longest = down(allowed / gauge) if gauge > 0 else 2.0
    if longest > 1.0:  # beyond 1 the domain may end
        longest = min(longest, reach(loss, slope))

    def rise(t: float) -> float:
        return -float(np.vdot(slope, loss.conjugate_gradient(t * slope))) - 2.0 * t * float(bend)

    low, high = 0.0, longest
    if rise(high) < 0:
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rise(middle) > 0 else (low, middle)
        high = low
    value = conjugate_above(loss, high * slope)
    if not np.isfinite(value):
        return 0.0
    # the weights sum to one up to rounding: the objective of the exact ones is as close
    share = 1 - Fraction(2 * len(slope) + 16) * Fraction(UNIT)
    return below((Fraction(-value) - Fraction(high) ** 2 * bend) * share)
