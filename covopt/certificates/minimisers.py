"""The set of minimal-norm networks around a certified one: its tight set, whether it is one point, its sparsest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from covopt.certificates.certify import residual_of
from covopt.certificates.enclosure import Enclosure, Uniqueness, analyse_uniqueness, enclose
from covopt.certificates.tight import TightSet, sharpen, tight_set
from covopt.data import Data
from covopt.errors import BudgetError
from covopt.exact.rank import ATOMS, COMPUTED, FOUND, NEAR
from covopt.exact.rounding import relative_gap
from covopt.losses import INTERPOLATES, Loss
from covopt.losses.base import as_columns
from covopt.network import ReLUNetwork
from covopt.oracles.base import Oracle
from covopt.oracles.cascade import exact_oracle
from covopt.problems.problem import Problem
from covopt.problems.reduction import Reduction, reduce_data, reduce_fit
from covopt.solvers.generation import generate
from covopt.solvers.loop import WarmStart
from covopt.solvers.postprocess import finish_network

REFINE_TIME_S = 60.0  # most seconds for refining a solution


@dataclass(frozen=True)
class Sparsest:
    """A minimal-norm network with the fewest neurons, to the tolerance that ``message`` states.

    The program on the tight set matches the targets to that tolerance, not exactly: a network with one neuron fewer
    than every exact minimiser can come within it, and then it is the answer (it interpolates to 1e-9 of max|y| like
    every network here, at a cost within the solution's own gap of the minimum).

    Attributes
    ----------
    network : ReLUNetwork
    n_neurons : int
    lower_bound : int
        No minimal-norm network has fewer, to that tolerance.
    proven : bool
        Whether the two agree.
    agrees : bool
        Whether the solution itself is already that sparse. If minimisers are not unique it need not be a vertex of
        their set.
    message : str
    """

    network: ReLUNetwork
    n_neurons: int
    lower_bound: int
    proven: bool
    agrees: bool
    message: str


class Minimisers:
    """The set of minimal-norm networks, from one of them and its dual.

    Parameters
    ----------
    data : Data
    output_bias : {"none", "penalized", "free"}
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
    gap : float
        Relative gap of the two.
    random_state : int or None
    """

    def __init__(
        self,
        data: Data,
        output_bias: str,
        network: ReLUNetwork,
        dual: np.ndarray,
        gap: float,
        random_state: int | None = None,
    ):
        self.data, self.output_bias, self.network = data, output_bias, network
        self.dual, self.gap, self.random_state = dual, gap, random_state

    @cached_property
    def _reduced(self) -> tuple[Problem, Reduction]:
        return reduce_data(self.data, self.output_bias)

    def _oracle(self) -> Oracle:
        problem, _ = self._reduced
        return exact_oracle(problem.rows, problem.vector_outputs)

    def _misses(self) -> bool:
        """Whether the network misses the points, as when a limit ended the solve before any network interpolated."""
        return residual_of(self.data, self.network) > INTERPOLATES

    @cached_property
    def _refined(self) -> tuple[Oracle, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Oracle, dual and network, refined to a gap of 1e-9."""
        problem, reduction = self._reduced
        oracle = self._oracle()
        neurons, weights, offset = reduction.apply_network(*self.network.to_neurons())
        dual = reduction.apply_dual(self.dual)
        gap, is_scalar = self.gap, problem.is_scalar
        # the second target only if Newton's method failed after the first
        for wanted in (FOUND, ATOMS) if is_scalar else (FOUND,):
            if gap > wanted:
                point = generate(
                    problem, oracle, tol=wanted, random_state=self.random_state, max_rounds=100,
                    time_limit_s=REFINE_TIME_S, warm=WarmStart(neurons, weights, offset, dual),
                )  # fmt: skip
                if point.gap < gap:
                    dual = point.dual
                    neurons, weights, offset = finish_network(
                        problem, point.neurons, point.weights, point.offset
                    )
                gap = relative_gap(problem.network_value(weights, offset), problem.dual_value(dual))
            if is_scalar and gap <= FOUND:
                sharp = sharpen(problem, oracle, dual, offset)
                if sharp is not None:
                    dual, neurons, weights, offset = sharp
                    break
        return oracle, dual, neurons, weights, offset

    def tight_set(self, slack: float, *, refine: bool) -> TightSet:
        """See :meth:`covopt.solution.Solution.tight_set`."""
        problem, reduction = self._reduced
        if not len(problem.rows) or not self.dual.any():
            width, k = self.network.hidden_weights.shape[1], self.dual.shape[1:]
            return TightSet(np.zeros((0, width)), np.zeros(0), np.zeros((0, *k)))
        if refine:
            oracle, dual, *_ = self._refined
        else:
            oracle, dual = self._oracle(), reduction.apply_dual(self.dual)
            slack = min(0.1, max(slack, 10.0 * self.gap))
        return _raised(tight_set(problem, oracle, dual, slack=slack), reduction)

    @cached_property
    def _enclosed(self) -> Enclosure | str:
        """Every neuron that a minimiser may use, or the reason why they cannot be enclosed."""
        problem, reduction = self._reduced
        if not problem.is_scalar or self.data.Y.shape[1] > 1:
            return "with several outputs its error is not bounded"
        oracle, dual, neurons, weights, offset = self._refined
        given = self.data.lifted[reduction.keep], self.data.Y[reduction.keep, 0]
        return enclose(problem, oracle, dual, (neurons, weights, offset), given)

    @cached_property
    def uniqueness(self) -> Uniqueness:
        """Whether there is one minimal-norm network only, with the reason."""
        problem, _ = self._reduced
        if not len(problem.rows) or self.network.squared_norm == 0:
            if self._misses():
                return Uniqueness(None, "this network has no neuron and does not pass through the points", 0)
            return Uniqueness(True, "the zero network is the only one of norm zero", 0)
        try:
            oracle, dual, _, weights, offset = self._refined
        except BudgetError as error:
            return Uniqueness(None, f"the tight set is out of reach: {error}", 0)
        gap = relative_gap(problem.network_value(weights, offset), problem.dual_value(dual))
        if gap > NEAR:
            return Uniqueness(
                None, f"the tight set needs a gap of {NEAR:g}; the best bracket has {gap:.1e}", 0
            )
        return analyse_uniqueness(
            problem, tight_set(problem, oracle, dual, slack=NEAR), offset, self._enclosed
        )

    def sparsest(self, time_limit_s: float) -> Sparsest:
        """See :meth:`covopt.solution.Solution.sparsest`."""
        problem, reduction = self._reduced
        own = len(self.network)
        if own == 0 and self._misses():
            why = "this network has no neuron and does not pass through the points"
            return Sparsest(self.network, 0, 0, False, False, why)
        if own == 0:
            return Sparsest(self.network, 0, 0, True, True, "the zero network has no neuron")
        oracle, dual, neurons, weights, offset = self._refined
        enclosed = self._enclosed
        if self.uniqueness.unique and isinstance(enclosed, Enclosure):
            network = self._network_of(reduction, neurons, weights, offset)
            if len(network) > own:
                network = self.network
            count = len(network)
            lower = min(enclosed.needed, count)
            return Sparsest(network, count, lower, lower == count, own == count, "the minimiser is unique")
        known = not isinstance(enclosed, str)
        tight = tight_set(problem, oracle, dual, slack=NEAR) if isinstance(enclosed, str) else enclosed.tight
        cost, value = problem.network_value(weights, 0.0 * offset), problem.network_value(weights, offset)
        excess = max(value - problem.dual_value(dual), COMPUTED * value)
        support = sparsest_support(problem, tight, offset, cost, excess=excess, time_limit_s=time_limit_s)
        if support is None:
            return Sparsest(self.network, own, 1, own == 1, True, "no sparser network was found in time")
        network = self._network_of(reduction, *finish_network(problem, *support.network))
        dear = network.squared_norm > self.network.squared_norm * (1.0 + max(self.gap, INTERPOLATES))
        if (
            len(network) > own
            or residual_of(self.data, network) > INTERPOLATES
            or (not problem.is_scalar and dear)
        ):
            network = self.network
        lower = support.lower_bound if known else 1
        message = (
            support.message if known else f"{support.message}; {enclosed}: other minimisers may have fewer"
        )
        return Sparsest(network, len(network), lower, len(network) <= lower, own == len(network), message)

    def _network_of(self, reduction: Reduction, neurons, weights, offset) -> ReLUNetwork:
        units, scaled, moved = reduction.invert_network(neurons, weights, offset)
        return ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=self.output_bias != "free"
        )


def tight_set_of_fit(
    data: Data, loss: Loss, lam: float, output_bias: str, own_dual: np.ndarray, *, slack: float
) -> TightSet:
    """Return the tight set of a regularised solution's own dual, in the user's coordinates.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to the targets.
    lam : float
    output_bias : {"none", "penalized", "free"}
    own_dual : ndarray of shape (N,) or (N, k)
    slack : float
        Dual values from one minus this on count.
    """
    problem, reduction = reduce_fit(data, loss, lam, output_bias)
    dual, rows = reduction.apply_dual(own_dual)[problem.live], problem.rows[problem.live]
    if not dual.any():
        width = data.n_features + (data.bias > 0)
        return TightSet(np.zeros((0, width)), np.zeros(0), np.zeros((0, *own_dual.shape[1:])))
    oracle = exact_oracle(rows, problem.vector_outputs)
    tight = tight_set(Problem.through(rows, dual, problem.offset_cost), oracle, dual, slack=slack)
    return _raised(tight, reduction)


def _raised(tight: TightSet, reduction: Reduction) -> TightSet:
    """Return a tight set of a reduced problem in the user's coordinates."""
    outputs = tight.outputs
    if reduction.outputs is not None:
        outputs = reduction.raise_outputs(as_columns(outputs))
    return replace(tight, neurons=tight.neurons @ reduction.basis.T, outputs=outputs)


class Support(NamedTuple):
    """Fewest tight columns that interpolate: neurons, weights and offset, a bound on their number, how it ended."""

    network: tuple[np.ndarray, np.ndarray, np.ndarray]
    lower_bound: int
    message: str


def sparsest_support(
    problem: Problem,
    tight: TightSet,
    offset: np.ndarray,
    cost: float,
    *,
    excess: float = 0.0,
    time_limit_s: float = 60.0,
) -> Support | None:
    """Solve min ‖z‖₀ s.t. Σ z_j a_j = y over the tight columns, z_j of the column's sign.

    Every minimiser of the norm is such a z and conversely (⟨λ, a_j⟩ = ±1), so this is the fewest neurons of any
    minimal-norm network.

    Parameters
    ----------
    problem : Problem
    tight : TightSet
    offset : ndarray of shape (k,)
        B of the minimiser. A free offset may move, and a penalised one within its error.
    cost : float
        Primal value of the minimiser: no mass exceeds it.
    excess : float
        Largest distance of the network's primal value from the optimum. It determines a penalised offset up to
        √(2 excess/ρ), as the primal value is ρ-strongly convex in the offset.
    time_limit_s : float

    Returns
    -------
    Support or None
        None if the solver found no feasible point in time.
    """
    extended, targets = tight.system(problem, offset)
    columns, n, m = extended[:, : len(tight)], len(targets), len(tight)
    shifts = np.zeros((n, 0))
    if problem.has_offset:
        shifts = np.tile(np.eye(problem.n_outputs), (len(problem.rows), 1))
    free = shifts.shape[1]
    error = 0.0
    if free:
        error = float(np.sqrt(2.0 * excess / problem.offset_cost)) if problem.offset_cost > 0 else np.inf
    weights, *_ = np.linalg.lstsq(extended, targets, rcond=1e-12)
    slack = max(1e-8, 2 * float(np.abs(extended @ weights - targets).max()))
    ceiling = 1.001 * cost
    # variables: masses, whether each is used, and how far the offset moves
    kinds = np.repeat([0, 1, 2], [m, m, free])
    equal = np.column_stack([columns, np.zeros((n, m)), shifts])
    link = np.column_stack([np.eye(m), -ceiling * np.eye(m), np.zeros((m, free))])
    found = milp(
        1.0 * (kinds == 1),
        integrality=kinds == 1,
        bounds=Bounds(np.choose(kinds, [0.0, 0.0, -error]), np.choose(kinds, [ceiling, 1.0, error])),
        constraints=[
            LinearConstraint(equal, targets - slack, targets + slack),
            LinearConstraint(link, ub=np.zeros(m)),
        ],
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    values, used = found.x, found.x[m : 2 * m] > 0.5
    bound = int(np.ceil((found.mip_dual_bound or 0.0) - 1e-6))  # none without columns
    network = (
        tight.neurons[used],
        as_columns((tight.outputs.T * values[:m]).T[used]),
        offset + values[2 * m :] if free else offset,
    )
    ended = "optimal" if found.status == 0 else "time limit reached"
    return Support(network, bound, f"HiGHS: {ended}, targets matched to {slack:.1e} of max |y|")
