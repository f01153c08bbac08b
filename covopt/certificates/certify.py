"""The certificate of optimality: every number recomputed from the user's table, the network and the dual.

No number of a solver is used. The upper bound is the objective of the network; the lower bound is the dual value at
the best multiple of Λ whose dual norm is bounded by one, rounded down. The certificate combines the loss and its
conjugate (:mod:`covopt.certificates.conjugate`), the potential and its dual norm
(:mod:`covopt.certificates.dual_norms`), and the cost of an output bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from covopt.certificates.conjugate import balanced, dual_bound, into_domain, moving_up
from covopt.certificates.dual_norms import DualNorm, make_dual_norm
from covopt.checks import counted
from covopt.checks.log import stage
from covopt.data import Data
from covopt.errors import Status
from covopt.exact.far_rows import outputs_of_far
from covopt.exact.rank import FOUND, NEAR
from covopt.exact.rounding import below, gamma, relative_gap, two_sum, up
from covopt.losses import INTERPOLATES, Interpolation, Loss, relative_residual
from covopt.network import ReLUNetwork
from covopt.oracles.certified import DualNormBound


@dataclass(frozen=True)
class Certificate:
    """Upper bound, lower bound and gap, recomputed in the user's units.

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
        Upper bound on h(Λ) of the given dual. The lower bound is divided by that of the nearby feasible point
        (Λᵀ1 = 0, in the domain of the conjugate); the two differ by rounding if the dual comes from a solve.
    exact : bool
        Whether the bound on h(Λ) is the maximum: every face was visited, or branch and bound ended.
    bound : str
        How h(Λ) was bounded, in words.
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
        """Whether the network passes through the points, to 1e-9 of max|y|; always true with a loss."""
        return self.residual <= INTERPOLATES

    def status(self, stopped: Status, tol: float) -> Status:
        """Return the status of a solve: certified if and only if the certificate shows it.

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
    """The result of a solve: a feasible dual, its certificate and the status."""

    dual: np.ndarray
    certificate: Certificate
    status: Status
    low: np.ndarray | None = None


def residual_of(data: Data, network: ReLUNetwork) -> float:
    """max_i |f(x_i) − y_i| / max_i |y_i| (absolute when all targets vanish)."""
    return relative_residual(outputs_of(data, network), data.Y)


def outputs_of(data: Data, network: ReLUNetwork) -> np.ndarray:
    """Return the outputs at the points, to twice the digits if the points are far from the origin."""
    own = network.bare()  # the table is already scaled
    computed = own.predict(data.X).reshape(data.Y.shape)
    if own.hidden_weights.shape[1] != data.lifted.shape[1]:
        return computed
    found = outputs_of_far(
        data.lifted, own.hidden_weights, own.output_weights, own.bias, own.output_bias, data.Y
    )
    return computed if found is None else found


def missed_slope(data: Data, network: ReLUNetwork) -> float:
    """Return the largest slope that a network lacks between a point and its nearest other, relative to Σ‖v‖‖w‖.

    The errors that interpolation allows can exceed the differences of targets of close points. A network through
    both needs this slope in addition, and no network is steeper than its Σ‖v‖‖w‖. Rounding of outputs is left out.

    Examples
    --------
    >>> data = Data.validate([[0.0], [1e-12], [1.0]], [0.0, 1e-11, 1.0])
    >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
    >>> residual_of(data, network) < 1e-9, 8.9 < missed_slope(data, network) < 9.1
    (True, True)
    """
    if len(data.X) < 2 or not len(network):
        return 0.0
    distance, near = (found[:, 1] for found in KDTree(data.lifted).query(data.lifted, k=2))
    missed = outputs_of(data, network) - data.Y
    size = float(
        np.linalg.norm(network.hidden_weights, axis=1) @ np.linalg.norm(network.output_weights, axis=1)
    )
    rounding = gamma(2 * len(network) + 8) * size * float(np.linalg.norm(data.lifted, axis=1).max())
    apart = np.abs(missed - missed[near]).max(axis=1) - rounding
    return float((apart[distance > 0.0] / distance[distance > 0.0]).max(initial=0.0)) / size


def status_of(
    found: Certificate, data: Data, network: ReLUNetwork, *, through: bool, stopped: Status, tol: float
) -> Status:
    """Return the certificate's status, but not certified where the network lacks slope between close points."""
    status = found.status(stopped, tol)
    lacks = through and status is Status.CERTIFIED and missed_slope(data, network) > tol
    return Status.GAP if lacks else status


class Certifier:
    r"""Certificates of one network, by any dual: objective, lower bound and gap recomputed from the raw data.

    The problem is min C(F) + λ(κ Σ_j ‖v_j‖ω(w_j) + ‖B/β‖²), the last term with a penalised output bias only; κ = 2
    makes the cost ‖W‖² for the variation norm, and κ = 1 with label noise. For any U in the domain of C* and any t
    with tU in it and t h(U) ≤ κλ no network has a smaller objective than

    .. math::
        -C^*(tU) - t^2 \beta^2 \|U^\top 1\|^2 / 4\lambda

    (with a free output bias Uᵀ1 = 0 is needed). U is −κλΛ, moved to a nearby point that satisfies these constraints
    exactly (:func:`~covopt.certificates.conjugate.into_domain`); the dual of a solve moves by rounding only. The
    stated norm is that of Λ, so the length of the move is added. Interpolation is the loss with C*(U) = ⟨U, Y⟩, for
    which λ does not matter. Rows, targets and Λ are the user's; all rounding makes the bound smaller
    (:mod:`covopt.exact.rounding`).

    Parameters
    ----------
    data : Data
    network : ReLUNetwork
    output_bias : {"none", "penalized", "free"}
    loss : Loss, optional
        Bound to ``data.Y`` and the weights; interpolation by default.
    lam : float
        λ; not used for interpolation.
    dual_norm : DualNorm, optional
        Of :func:`~covopt.certificates.dual_norms.make_dual_norm` for the same problem; that of the variation norm by
        default.

    Raises
    ------
    InputError
        When label noise is asked for several outputs or a penalised output bias.
    BudgetError
        With a label-noise potential, when there are too many faces for the exact oracle.

    Examples
    --------
    >>> from covopt.potentials import LabelNoise
    >>> data = Data.validate([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
    >>> problem = {"output_bias": "none", "loss": Interpolation.of(data.Y), "lam": 1.0}
    >>> dual_norm = make_dual_norm(data, potential=LabelNoise(), **problem)
    >>> dual = np.array([0.0, 1.0, 2.0]) / np.sqrt(15)
    >>> found = Certifier(data, network, dual_norm=dual_norm, **problem).certify(dual)
    >>> round(found.cost**2 * 3, 9), found.gap < 1e-9
    (5.0, True)
    """

    def __init__(
        self,
        data: Data,
        network: ReLUNetwork,
        *,
        output_bias: str,
        loss: Loss | None = None,
        lam: float = 1.0,
        dual_norm: DualNorm | None = None,
    ):
        loss = loss or Interpolation.of(data.Y)
        self.dual_norm = dual_norm or make_dual_norm(data, output_bias=output_bias, loss=loss, lam=lam)
        self.data, self.network = data, network
        self.through, self.free = loss.interpolates, output_bias == "free"
        self.bias = data.bias if output_bias == "penalized" else 0.0
        self.part = loss.take(self.dual_norm.keep)
        # interpolation: λ = 1/κ and the cost divided by κ
        self.allowed = 1.0 if self.through else self.dual_norm.per_cost * lam
        outputs = outputs_of(data, network)
        self.residual = relative_residual(outputs, data.Y) if self.through else 0.0
        self.cost = self.dual_norm.cost(network)
        self.loss_value = 0.0 if self.through else loss.value(outputs)
        self.objective = self.cost if self.through else self.loss_value + lam * self.cost

    def certify(
        self,
        dual: np.ndarray,
        *,
        effort: float = 1.0,
        goal: float | None = None,
        low: np.ndarray | None = None,
    ) -> Certificate:
        """Return the certificate with a dual.

        Parameters
        ----------
        dual : ndarray of shape (N,) or (N, k)
            Λ in the user's units; zero on rows that interpolation of the others implies.
        effort : float
            Work on h(Λ), as a share of a whole check (:func:`~covopt.oracles.certified.certified_dual_norm`).
        goal : float, optional
            An upper bound on h(Λ) that a solve has proved.
        low : ndarray of the dual's shape, optional
            Second doubles of the multipliers, Λ = dual + low (:mod:`covopt.exact.far_rows`). With a loss the sum is
            rounded.
        """
        through, allowed, dual_norm = self.through, self.allowed, self.dual_norm
        full, rest, beside = dual.reshape(len(dual), -1), None, None
        if low is not None:
            full, beside = two_sum(full, low.reshape(full.shape))
            rest = beside[dual_norm.keep] if through else None
        if through and (not len(dual_norm.keep) or not full.any()):
            gap = 0.0 if self.cost == 0 and self.residual <= INTERPOLATES else 1.0
            words = "zero, the trivial bound"
            return Certificate(self.cost, 0.0, gap, self.residual, 0.0, True, words, self.cost, 0.0)
        factor = 1.0 if through else -allowed
        slope = factor * full[dual_norm.keep]
        point = into_domain(self.part, slope, free=self.free)
        if rest is not None and self.free:
            rest = balanced(rest + (slope - point))
        found = dual_norm.bound(point, effort=effort, goal=None if goal is None else goal * allowed, low=rest)
        value = dual_bound(self.part, point, allowed, found.value, bias=self.bias, low=rest)
        lower = below(int(dual_norm.per_cost) * value if through else value)
        words = _in_words(found, point if through else None) + dual_norm.suffix
        more = moving_up((full, beside), factor, (point, rest), dual_norm.keep, dual_norm.reach())
        stated = up(found.value + more) if more else found.value
        return Certificate(
            self.cost, lower, relative_gap(self.objective, lower), self.residual,
            stated if through else up(stated / allowed), found.exact, words, self.objective, self.loss_value,
        )  # fmt: skip

    def settle(self, dual: np.ndarray) -> np.ndarray:
        """Return the dual moved to the point that its certificate uses, which is then the one to store.

        For interpolation with an output bias, column sums that are zero up to rounding are made exactly zero: the
        price of the bias, which may be tiny, divides them.

        Examples
        --------
        >>> from covopt.losses import make_loss
        >>> loss, network = make_loss("hinge"), ReLUNetwork.from_neurons(np.zeros((0, 2)), np.zeros(0), bias=1.0)
        >>> data = Data.validate([[0.0], [1.0]], loss.encode_targets([0, 1]), interpolates=False)
        >>> certifier = Certifier(data, network, output_bias="none", loss=loss, lam=0.5)
        >>> certifier.settle(np.array([-3.0, 0.5]))  # C* is finite up to a half
        array([-0.5,  0.5])
        """
        columns, keep = dual.reshape(len(dual), -1), self.dual_norm.keep
        if self.through:
            level = np.abs(columns.sum(axis=0)) <= FOUND * np.abs(columns).sum(axis=0)
            return balanced(dual) if self.free or (self.bias > 0.0 and level.all()) else dual
        found = np.zeros_like(columns)
        found[keep] = into_domain(self.part, -self.allowed * columns[keep], free=self.free) / -self.allowed
        return found.reshape(dual.shape)

    @stage("certificate")
    def conclude(
        self,
        dual: np.ndarray,
        *,
        stopped: Status,
        tol: float,
        low: np.ndarray | None = None,
        hold: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
        **work: Any,
    ) -> Conclusion:
        """Certify a solver's answer: divide its dual by the certified dual norm and set the status.

        With a loss the returned dual is the point that the certificate uses. The certificate equals that of
        :meth:`certify` for the returned dual, to the last bit.

        Parameters
        ----------
        dual, low, **work
            As in :meth:`certify`.
        stopped : Status
            Why the solver stopped; the certificate alone decides whether the status is certified.
        tol : float
        hold : callable, optional
            Maps a dual to one of two doubles whose sums survive rounding
            (:func:`covopt.exact.far_rows.without_middle`); applied after every change of the dual.

        Examples
        --------
        >>> data = Data.validate([[0.0], [1.0]], [0.0, 1.0])
        >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
        >>> certifier = Certifier(data, network, output_bias="none")
        >>> found = certifier.conclude(np.array([-2.0, 2.0]), stopped=Status.GAP, tol=1e-6)
        >>> found.dual.round(9), found.status.code
        (array([-1.,  1.]), 'certified')
        """

        def settle(point: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            if hold is not None:
                return hold(point)
            # a dual of two doubles is kept: scaling would round its sums
            return (self.settle(point), None) if low is None else (point, low)

        dual, low = settle(dual)
        found = self.certify(dual, low=low, **work)
        more = 0.0
        while found.gauge > 1.0 + FOUND and found.exact and (low is None or hold is not None):
            # the solver's oracle missed the maximum, or settling the quotient changed its norm: divide by more each
            # time, until rounding does not lift the norm above one again
            dual, low = settle(dual / (found.gauge + more * (found.gauge - 1.0)))
            found, more = self.certify(dual, low=low, **work), 2.0 * more + 1.0
        if not self.through and self.cost > 0.0 and found.exact and found.gauge < 1.0 - NEAR:
            # a solve that could only bound the norm has divided by too much: neurons of an optimal network are tight
            grown, _ = settle(dual / found.gauge)
            again = self.certify(grown, **work)
            if again.gauge <= 1.0 + FOUND and again.lower_bound >= (1.0 - FOUND) * found.lower_bound:
                dual, found = grown, again
        if self.through and 1.0 + FOUND < found.gauge < np.inf:
            # a bound that is not the maximum may change when computed again, except after scaling by a power of two
            power = math.frexp(found.gauge)[1]
            dual, low = np.ldexp(dual, -power), None if low is None else np.ldexp(low, -power)
            found = replace(found, gauge=math.ldexp(found.gauge, -power))
        status = status_of(found, self.data, self.network, through=self.through, stopped=stopped, tol=tol)
        return Conclusion(dual, found, status, low)


def _in_words(found: DualNormBound, point: np.ndarray | None) -> str:
    """Describe how the dual point was scaled and bounded; None with a loss."""
    verb, support = "scaled" if point is None else "divided", ""
    if not found.exact:
        return f"dual point {verb} by a {found.method}"
    if point is not None and not point.any(axis=1).all():
        support = f"supported on {counted(int(point.any(axis=1).sum()), 'row')}, "
    return f"dual point {support}{verb} by its {found.method}"
