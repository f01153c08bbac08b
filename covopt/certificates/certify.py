"""The certificate of optimality: every number recomputed from the user's table, the network and the dual.

Nothing that a solver said is used. The upper bound is the objective of the network as it is; the lower bound is the
value of the dual at the best multiple of Λ that is feasible by a bound on its dual norm, less what rounding can have
added. Three parts make it up: the loss and its conjugate (:mod:`covopt.certificates.conjugate`), the potential and
its dual norm (:mod:`covopt.certificates.dual_norms`), and what an output bias costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from covopt.certificates.conjugate import (
    balanced,
    dual_bound,
    dual_point,
    moving_up,
    settled_dual,
)
from covopt.certificates.dual_norms import DualNorm, make_dual_norm
from covopt.checks.log import stage
from covopt.checks.messages import counted
from covopt.data import Data
from covopt.errors import Status
from covopt.exact.far_rows import outputs_of_far
from covopt.exact.rank import FOUND
from covopt.exact.rounding import below, relative_gap, two_sum, up
from covopt.losses import Interpolation, Loss
from covopt.losses.regression import INTERPOLATES, relative_residual
from covopt.network import ReLUNetwork
from covopt.oracles.certified import DualNormBound
from covopt.potentials import Potential, VariationNorm

VARIATION = VariationNorm()


@dataclass(frozen=True)
class Certificate:
    """What was checked, in the user's units.

    Attributes
    ----------
    cost : float
        ‖W‖² of the network (a free output bias not counted); Σ|v|ω(w) with a label-noise potential.
    lower_bound : float
        No network has a smaller objective; for interpolation: no network through the points has a smaller cost.
    gap : float
        (objective − lower_bound) / objective; see :func:`covopt.exact.rounding.relative_gap` for an objective below
        the bound.
    residual : float
        max_i |f(x_i) − y_i| / max_i |y_i|; 0 with a loss.
    gauge : float
        Upper bound on h(Λ) of the dual as it is given. The lower bound is divided by that of the point that it was
        moved to (Λᵀ1 = 0, the domain of a conjugate), which differs by rounding where the dual comes from a solve.
    exact : bool
        Whether the oracle's bound is the maximum itself: it looked at every face, or its branch and bound ended.
    bound : str
        Which lower bound it is, in words.
    objective : float
        C(f) + λ · cost of the network; the cost for interpolation.
    loss_value : float
        C(f); 0 for interpolation.
    """

    cost: float
    lower_bound: float
    gap: float
    residual: float
    gauge: float
    exact: bool
    bound: str
    objective: float
    loss_value: float

    @property
    def interpolates(self) -> bool:
        """Whether the network passes through the points, to 1e-9 of max|y|; true with a loss, which asks for none."""
        return self.residual <= INTERPOLATES

    def of_scaled_dual(self, power: int) -> Certificate:
        """Return the same for the dual divided by 2**power: by powers of two alone every number comes out alike."""
        return replace(self, gauge=math.ldexp(self.gauge, -power))

    def status(self, stopped: Status, tol: float) -> Status:
        """Say what a solve may claim: certified where the certificate says so, whatever stopped it, and only there.

        Parameters
        ----------
        stopped : Status
            Why the solver stopped.
        tol : float

        Examples
        --------
        >>> found = Certificate(2.0, 1.0, 0.5, 0.0, 1.0, True, "", 2.0, 0.0)
        >>> found.status(Status.CERTIFIED, 1e-6).code, found.status(Status.TIME_LIMIT, 0.6).code
        ('gap', 'certified')
        """
        if self.interpolates and self.gap <= tol:
            return Status.CERTIFIED
        return Status.GAP if stopped is Status.CERTIFIED else stopped


class Conclusion(NamedTuple):
    """What a solve ends with: a feasible dual, its certificate, and what may be claimed."""

    dual: np.ndarray
    certificate: Certificate
    status: Status
    low: np.ndarray | None = None


def residual_of(data: Data, network: ReLUNetwork) -> float:
    """max_i |f(x_i) − y_i| / max_i |y_i| (absolute when all targets vanish)."""
    return relative_residual(outputs_of(data, network), data.Y)


def outputs_of(data: Data, network: ReLUNetwork) -> np.ndarray:
    """Return what the network says at the points, its weights as they are: with more digits where points are far."""
    own = network.bare()  # the table is the one that was solved
    computed = own.predict(data.X).reshape(data.Y.shape)
    if own.hidden_weights.shape[1] != data.lifted.shape[1]:
        return computed
    found = outputs_of_far(
        data.lifted, own.hidden_weights, own.output_weights, own.bias, own.output_bias, data.Y
    )
    return computed if found is None else found


def certify(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    output_bias: str,
    loss: Loss | None = None,
    lam: float = 1.0,
    potential: Potential = VARIATION,
    effort: float = 1.0,
    dual_norm: DualNorm | None = None,
    goal: float | None = None,
    low: np.ndarray | None = None,
    outputs: np.ndarray | None = None,
) -> Certificate:
    r"""Recompute objective, lower bound and gap from the raw data.

    The problem is min C(F) + λ(κ Σ_j ‖v_j‖ω(w_j) + ‖B/β‖²), the last term with a penalised output bias only; κ = 2
    makes the cost ‖W‖² for the variation norm, and κ = 1 with label noise. For any U in the domain of C* and any t
    with tU in it and t h(U) ≤ κλ no network has a smaller objective than

    .. math::
        -C^*(tU) - t^2 \beta^2 \|U^\top 1\|^2 / 4\lambda

    (with a free output bias Uᵀ1 = 0 is needed). Here U is −κλΛ, moved to where all this holds exactly
    (:func:`~covopt.certificates.conjugate.dual_point`), by rounding alone for the dual of a solve; the stated norm
    is that of Λ, so it pays for the move. Interpolation is the loss with C*(U) = ⟨U, Y⟩, for which λ does not matter.
    Rows, targets and Λ are the user's, as they are; everything is rounded towards a smaller bound
    (:mod:`covopt.exact.rounding`).

    Parameters
    ----------
    data : Data
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ in the user's units; for interpolation rows whose targets follow from others carry zero.
    output_bias : {"none", "penalized", "free"}
    loss : Loss, optional
        Bound to ``data.Y`` and the weights; interpolation by default.
    lam : float
        λ; not used for interpolation.
    potential : Potential
    effort : float
        Work on h(Λ), as a share of a whole check (:func:`~covopt.oracles.certified.certified_dual_norm`).
    dual_norm : DualNorm, optional
        Of :func:`~covopt.certificates.dual_norms.make_dual_norm` for the same problem, when the caller has it.
    goal : float, optional
        What a solve has shown that h(Λ) does not exceed.
    low : ndarray of the dual's shape, optional
        What its multipliers are beside their doubles, Λ = dual + low (:mod:`covopt.exact.far_rows`). With a loss
        the sum is rounded: U is moved in any case.

    outputs : ndarray of shape (N, k), optional
        What :func:`outputs_of` says of the network, where it was asked before.

    Raises
    ------
    InputError
        When label noise is asked for several outputs or a penalised output bias.
    BudgetError
        With a label-noise potential, when the exact oracle would look at too many faces: there is no other.

    Examples
    --------
    >>> from covopt.potentials import LabelNoise
    >>> data = Data.validate([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
    >>> dual = np.array([0.0, 1.0, 2.0]) / np.sqrt(15)
    >>> found = certify(data, network, dual, output_bias="none", potential=LabelNoise())
    >>> round(found.cost**2 * 3, 9), found.gap < 1e-9
    (5.0, True)
    """
    loss = loss or Interpolation.of(data.Y)
    dual_norm = dual_norm or make_dual_norm(
        data, output_bias=output_bias, loss=loss, lam=lam, potential=potential
    )
    outputs = outputs_of(data, network) if outputs is None else outputs
    part, cost, full = loss.take(dual_norm.keep), dual_norm.cost(network), dual.reshape(len(dual), -1)
    through, rest, beside = isinstance(loss, Interpolation), None, None
    if low is not None:
        full, beside = two_sum(full, low.reshape(full.shape))
        rest = beside[dual_norm.keep] if through else None
    bias, free = data.bias if output_bias == "penalized" else 0.0, output_bias == "free"
    residual = loss.residual(outputs) if isinstance(loss, Interpolation) else 0.0
    if through and (not len(dual_norm.keep) or not full.any()):
        gap = 0.0 if cost == 0 and residual <= INTERPOLATES else 1.0
        return Certificate(cost, 0.0, gap, residual, 0.0, True, "zero, the trivial bound", cost, 0.0)
    # through points at λ = 1/κ, of the cost over κ; −Λ is as good as Λ
    allowed, shares = (1.0, int(dual_norm.per_cost)) if through else (dual_norm.per_cost * lam, 1)
    factor = 1.0 if through else -allowed
    point, rest = dual_point(part, factor * full[dual_norm.keep], free=free, low=rest)
    found = dual_norm.bound(point, effort=effort, goal=None if goal is None else goal * allowed, low=rest)
    value = dual_bound(part, point, allowed, found.value, bias=bias, low=rest)
    lower = below(shares * value)
    loss_value = 0.0 if through else loss.value(outputs)
    objective = cost if through else loss_value + lam * cost
    words = _in_words(found, point if through else None) + dual_norm.suffix
    more = moving_up((full, beside), factor, (point, rest), dual_norm.keep, dual_norm.reach())
    stated = up(found.value + more) if more else found.value
    stated = stated if through else up(stated / allowed)
    gap = relative_gap(objective, lower)
    return Certificate(cost, lower, gap, residual, stated, found.exact, words, objective, loss_value)


@stage("certificate")
def certify_solution(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    stopped: Status,
    tol: float,
    output_bias: str,
    settled: bool = False,
    low: np.ndarray | None = None,
    hold: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
    loss: Loss | None = None,
    lam: float = 1.0,
    potential: Potential = VARIATION,
    dual_norm: DualNorm | None = None,
    outputs: np.ndarray | None = None,
    **problem,
) -> Conclusion:
    """Certify a solver's answer, make its dual feasible by the certificate's bound, and say what may be claimed.

    With a loss the dual becomes the point that its certificate moves it to, so that what is printed is about the dual
    that is stored. What is returned is what :func:`certify` says of the returned dual, to the last bit.

    Parameters
    ----------
    data, network, dual, low, output_bias, loss, lam, potential, dual_norm, outputs, **problem
        As in :func:`certify`.
    stopped : Status
        Why the solver stopped. It is no claim: the status is certified where the certificate says so, and only there.
    tol : float
    settled : bool
        Whether Λᵀ1 = 0 has to hold to the last digit: an output bias costs nothing, or next to nothing.
    hold : callable, optional
        Called with every dual; returns it by two doubles, with sums that must survive rounding
        (:func:`covopt.exact.far_rows.without_middle`).

    Examples
    --------
    >>> data = Data.validate([[0.0], [1.0]], [0.0, 1.0])
    >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
    >>> options = {"stopped": Status.GAP, "tol": 1e-6, "output_bias": "none"}
    >>> found = certify_solution(data, network, np.array([-2.0, 2.0]), **options)
    >>> found.dual.round(9), found.status.code
    (array([-1.,  1.]), 'certified')
    """
    loss = loss or Interpolation.of(data.Y)
    dual_norm = dual_norm or make_dual_norm(
        data, output_bias=output_bias, loss=loss, lam=lam, potential=potential
    )
    through, free = isinstance(loss, Interpolation), output_bias == "free"

    def settle(point: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if hold is not None:
            return hold(point)
        if low is not None:  # every sum survived rounding as it is
            return point, low
        if not through:
            part, allowed = loss.take(dual_norm.keep), dual_norm.per_cost * lam
            return settled_dual(part, point, dual_norm.keep, allowed, free=free), None
        return (balanced(point) if settled else point), None

    outputs = outputs_of(data, network) if outputs is None else outputs

    def ask() -> Certificate:
        return certify(
            data, network, dual, output_bias=output_bias, loss=loss, lam=lam, dual_norm=dual_norm, low=low,
            outputs=outputs, **problem,
        )  # fmt: skip

    dual, low = settle(dual)
    found = ask()
    more = 0.0
    while found.gauge > 1.0 + FOUND and found.exact and (low is None or hold is not None):
        # the solver's oracle saw less than the certificate's, or the multiple was moved, too: by more each time,
        # until rounding moves it back no more
        dual, low = settle(dual / (found.gauge + more * (found.gauge - 1.0)))
        found, more = ask(), 2.0 * more + 1.0
    if through and 1.0 + FOUND < found.gauge < np.inf:
        # a bound that is not the maximum may come out otherwise the next time, but not after a power of two
        power = math.frexp(found.gauge)[1]
        dual, low = np.ldexp(dual, -power), None if low is None else np.ldexp(low, -power)
        found = found.of_scaled_dual(power)
    return Conclusion(dual, found, found.status(stopped, tol), low)


def _in_words(found: DualNormBound, point: np.ndarray | None) -> str:
    """Say what was done to which dual point; with a loss none is given."""
    verb, support = "scaled" if point is None else "divided", ""
    if not found.exact:
        return f"dual point {verb} by a {found.method}"
    if point is not None and not point.any(axis=1).all():
        support = f"supported on {counted(int(point.any(axis=1).sum()), 'row')}, "
    return f"dual point {support}{verb} by its {found.method}"
