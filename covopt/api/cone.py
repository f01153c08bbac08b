"""Frank–Wolfe over the covariance cone, from a table to a certified network: the public entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.api.interpolation_task import ROOM
from covopt.api.rounds import heard
from covopt.api.stopping import Clock, in_time
from covopt.certificates.certify import Conclusion, conclude, residual_of
from covopt.checks.memory import memory_left, plan
from covopt.checks.speaking import tell_result
from covopt.checks.timing import timing
from covopt.checks.validation import (
    check_choice,
    check_count,
    check_number,
    check_output_bias,
    check_random_state,
    check_time_limit,
    check_tol,
)
from covopt.data import Data
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import InputError
from covopt.limits import TimeUp, limited, now, patiently
from covopt.losses import Loss, SquaredError
from covopt.network import ReLUNetwork
from covopt.oracles.base import Oracle, Pricing
from covopt.oracles.choose import exact_oracle, oracle_bytes
from covopt.problems.cone import ConeProblem
from covopt.problems.reduction import Reduction, reduce_data
from covopt.problems.shallow import ShallowProblem
from covopt.solution import Solution
from covopt.solvers.cone.all_masses import finish_masses
from covopt.solvers.cone.frank_wolfe import VARIANTS, FrankWolfe, FrankWolfePoint, FrankWolfeState
from covopt.solvers.quick import is_out_of_reach, solve_quickly
from covopt.status import Status

MASSES = 450.0  # bytes of the covariances and the restricted master, for a pair of rows and an output
QUICK_SHARE = 0.3  # of the time, for the bound of a few points beside a network along a line


@dataclass(frozen=True)
class ActiveSet:
    """Unit neurons with masses m_j: the pair K = Σ m_j z_j z_jᵀ, Kᵠ = Σ m_j σ(z_j)σ(z_j)ᵀ with z_j = X̃w_j.

    Attributes
    ----------
    neurons : ndarray of shape (m, D)
        Directions in the lifted input space (x, β).
    masses : ndarray of shape (m,)
        m_j = ‖w_j‖² of the balanced network.
    """

    neurons: np.ndarray
    masses: np.ndarray

    def __len__(self) -> int:
        return len(self.masses)


@dataclass(eq=False, repr=False)
class FrankWolfeSolution(Solution):
    """A :class:`~covopt.Solution` with what Frank–Wolfe can go on from; numbers are in the user's units.

    ``history`` has ``iteration``, ``time_s``, ``cost`` and ``upper_bound`` (the objective at the iterate), ``fw_gap``
    (absolute), ``lower_bound`` (the best so far), ``gap`` (relative, certified), ``n_atoms``. With ``lam > 0`` the
    loss is the sum of squares, :class:`~covopt.losses.SquaredError` with ``total=True``. The file is that of a
    Solution, and ``covopt.load`` gives a Solution: the three attributes below are not in it.

    Attributes
    ----------
    active_set : ActiveSet
        Pass it as ``start`` to go on from here.
    variant : str
    regularization : float
        Largest relative multiple of the identity that factorising the covariance needed (0: none). It only shapes
        steps; every reported number is computed without it.
    """

    active_set: ActiveSet = field(default_factory=lambda: ActiveSet(np.zeros((0, 0)), np.zeros(0)))
    variant: str = ""
    regularization: float = 0.0

    @cached_property
    def residual(self) -> float:
        """Return max |f(x_i) − y_i| / max |Y|."""
        return residual_of(self.data, self.network)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; the numbers of an iteration that are not finite are left out."""
        rounds = [{k: v for k, v in each.items() if np.isfinite(v)} for each in self.history]
        return super().to_dict() | {"history": rounds}

    @property
    def exact(self) -> bool:
        """Whether the lower bound rests on the exact maximum over all neurons."""
        return self.certificate.exact

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the table."""
        return self.data.notes


class _OneOutput:
    """A scalar oracle that is asked with one column."""

    def __init__(self, oracle: Oracle):
        self.oracle = oracle

    def price(self, dual: np.ndarray, *, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        found = self.oracle.price(dual[:, 0], threshold=threshold, max_neurons=max_neurons)
        return Pricing(found.neurons, np.abs(found.values), found.upper_bound, found.exact)


class _NonzeroRows:
    """An oracle for the rows that are not zero; the others never enter an atom."""

    def __init__(self, oracle: Any, rows: np.ndarray):
        self.oracle, self.rows = oracle, rows

    def price(self, dual: np.ndarray, *, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        return self.oracle.price(dual[self.rows], threshold=threshold, max_neurons=max_neurons)


def frank_wolfe(
    X: Any,
    Y: Any,
    *,
    bias: float = 1.0,
    output_bias: str = "none",
    variant: str = "sliding",
    lam: float = 0.0,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    time_limit_s: float | None = None,
    start: ActiveSet | None = None,
    callback: Callable[[FrankWolfeState], Any] | None = None,
    random_state: int | None = None,
    duplicates: str = "error",
) -> FrankWolfeSolution:
    r"""Minimise over the covariances of the hidden layer by Frank–Wolfe, with a certified oracle.

    .. math::

        R_2(X, Y) = \min_{(K, K^\sigma) \in S,\; \operatorname{Im} K \subset \operatorname{Im} \tilde X}
        \operatorname{Tr} K (\tilde X \tilde X^\top)^+ + \operatorname{Tr} Y^\top (K^\sigma)^+ Y

    (FL22 Prop 3 for L = 2), S the cone of the pairs :math:`(zz^\top, \sigma(z)\sigma(z)^\top)`, shifted by
    β²11ᵀ when the output bias is penalised. With z = X̃w the image constraint holds by construction. With ``lam > 0``
    the regularised loss :math:`\sum_i \|f(x_i) - y_i\|^2 + \lambda\|W\|^2` is minimised instead.

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
    bias : float
        β ≥ 0.
    output_bias : {"none", "penalized", "free"}
    variant : {"sliding", "fully-corrective", "pairwise", "vanilla"}
        Vanilla and pairwise move one atom at a time and converge sublinearly; fully-corrective finds the best masses
        on all atoms met; sliding lets the atoms follow the dual within their faces, one Newton step for each pricing.
    lam : float
        λ ≥ 0; 0 interpolates.
    tol : float
        Relative certified gap, in (0, 1).
    max_iter : int
        Positive.
    time_limit_s : float, optional
    start : ActiveSet, optional
        Where to begin; ``result.active_set`` of an earlier run.
    callback : callable, optional
        Called after every iteration with a :class:`~covopt.solvers.cone.frank_wolfe.FrankWolfeState`; a true answer
        stops.
    random_state : int, optional
        Seeds the first atoms; the optimum does not depend on it.
    duplicates : {"error", "mean"}
        What to do with rows that are the same point with different targets when the network interpolates; with
        ``lam > 0`` every row counts as it is.

    Returns
    -------
    FrankWolfeSolution

    Raises
    ------
    InputError
        When the input cannot be used, or would take more memory than there may be.
    BudgetError
        When the arrangement is too large for the exact oracle.

    Examples
    --------
    >>> import covopt
    >>> result = covopt.frank_wolfe([[-1.0], [0.0], [1.0]], [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    >>> round(result.cost, 6), result.status.code, len(result.network)
    (4.0, 'certified', 2)
    """
    began = now()
    tol, time_limit_s = check_tol(tol), check_time_limit(time_limit_s)
    check_random_state(random_state)
    check_output_bias(output_bias, bias)
    check_choice("variant", variant, VARIANTS)
    lam = check_number("lam", lam, "a finite number, 0 (interpolate) or positive", lambda v: 0 <= v < np.inf)
    max_iter = check_count("max_iter", max_iter)
    data = Data.validate(X, Y, bias=bias, duplicates=duplicates, interpolates=lam == 0)
    # as a certificate will compute it: more threads round differently
    with threadpool_limits(1, user_api="blas"):
        problem, reduction = _reduce(data, output_bias, lam)
    outputs = problem.targets.shape[1]
    plan(
        MASSES * len(problem.rows) ** 2 * outputs + oracle_bytes(problem.rows, outputs if outputs > 1 else 0),
        memory_left(), 'solver="auto" of min_norm ends with a bracket there.', what=f"Frank–Wolfe ({variant})",
    )  # fmt: skip
    begin = None if start is None else _check_start(start, data, reduction)
    unit = reduction.value_scale * (lam if lam > 0 else 1.0)
    clock = Clock(time_limit_s, began)

    def finish(network, dual, status, history, active, jitter=0.0) -> FrankWolfeSolution:
        loss: Loss | None = None
        if lam > 0:
            loss = SquaredError(total=True)
            loss.encode_targets(data.Y)
        dual = dual.reshape(data.Y.shape) if data.n_outputs > 1 else dual.reshape(-1)
        settled = lam == 0 and np.isinf(problem.offset)

        def concluded(of: np.ndarray, **more: Any) -> Conclusion:
            return conclude(
                data,
                network,
                of,
                stopped=status,
                tol=tol,
                output_bias=output_bias,
                loss=loss,
                lam=lam,
                **more,
            )

        found = in_time(
            clock, lambda: concluded(dual * (1.0 - ROOM), settled=settled), lambda: concluded(0.0 * dual)
        )
        rounds = [{**each, "upper_bound": each["cost"]} for each in history]
        solution = FrankWolfeSolution(
            data, output_bias, "variation", network, *found, tol, f"frank-wolfe:{variant}", rounds,
            now() - began, random_state, lam=lam, loss=loss, active_set=active, variant=variant,
            regularization=jitter, timings=watch.seconds(),
        )  # fmt: skip
        tell_result(solution)
        return solution

    with threadpool_limits(1, user_api="blas"), timing(began) as watch:
        left = np.abs(problem.inner_targets).max(initial=0.0)
        met = left <= 4 * np.finfo(float).eps * np.abs(problem.targets).max(initial=0.0)
        if met or problem.rows.shape[1] == 0:
            network, dual = _trivial(data, problem, reduction, output_bias)
            none = ActiveSet(np.zeros((0, reduction.basis.shape[0])), np.zeros(0))
            return finish(network, dual, Status.CERTIFIED, [], none)
        oracle = _make_oracle(problem)
        solver = FrankWolfe(
            problem, oracle, variant=variant, tol=tol, max_iter=max_iter, start=begin, callback=heard(callback),
            random_state=random_state, value_unit=unit, time_limit_s=clock.for_solver(problem.rows.shape[1]),
        )  # fmt: skip
        point = _solved(solver, clock)
        if point.status is Status.INTERRUPTED:
            clock = clock.hurried()
        best = point.neurons, point.weights, point.offset
        # few neurons may cost half of what the tolerance leaves
        slack = 0.5 * max(0.02 * tol, tol - point.gap)
        best = in_time(clock, lambda: finish_masses(problem, *best, slack=slack), lambda: best, share=0.5)
        shallow = problem.network_problem
        if isinstance(shallow, ShallowProblem) and not 0 < len(best[0]) <= problem.targets.size:
            with patiently():  # stopped before there was a network, or before it was finished
                left = 0.0 if point.lower_bound > 0.0 or time_limit_s is None else QUICK_SHARE * time_limit_s
                quick = solve_quickly(shallow, time_limit_s=left)
            offset = np.atleast_1d(quick.offset)
            best = quick.neurons, quick.weights.reshape(len(quick.neurons), len(offset)), offset
            if left > 0.0:
                point.dual = problem.inner_dual(quick.dual.reshape(problem.targets.shape))
        network = _invert_network(data, reduction, *best, output_bias)
        found = in_time(
            clock,
            lambda: oracle.price(problem.outer_dual(point.dual), threshold=np.inf, max_neurons=1).upper_bound,
            lambda: np.inf,
            share=0.7,
        )
        inner, _ = problem.dual_bound(point.dual, found) if np.isfinite(found) else (0.0 * point.dual, 0.0)
        dual = reduction.invert_dual(_as_reduced(problem.outer_dual(inner), reduction))
        active = ActiveSet(
            point.active_neurons @ reduction.basis.T, point.active_masses * reduction.value_scale
        )
        return finish(network, dual, point.status, point.history, active, point.jitter)


def _solved(solver: FrankWolfe, clock: Clock) -> FrankWolfePoint:
    """Return what the rounds end with; where one of them would make the result late, what they have by then."""
    try:
        if not is_out_of_reach(solver.problem.network_problem, solver.time_limit_s):
            with limited(clock.until_late(0.25)):
                return solver.solve()
    except TimeUp:
        pass
    solver.point.status = Status.TIME_LIMIT
    return solver.point


def _reduce(data: Data, output_bias: str, lam: float) -> tuple[ConeProblem, Reduction]:
    """Interpolation drops redundant rows; a loss counts every row, so there they stay."""
    if lam == 0:
        shallow, reduction = reduce_data(data, output_bias)
        return ConeProblem.from_shallow(shallow), reduction
    rows = data.lifted @ data.basis
    row_scale = float(np.linalg.norm(rows, axis=1).max(initial=0.0)) or 1.0
    target_scale = float(np.abs(data.Y).max()) or 1.0
    offset = {"none": 0.0, "free": np.inf}.get(output_bias)
    if offset is None:
        offset = (data.bias / row_scale) * (data.bias / target_scale)
    reduction = Reduction(np.arange(data.n_samples), data.n_samples, data.basis, row_scale, target_scale)
    ridge = lam / row_scale / target_scale
    return ConeProblem(rows / row_scale, data.Y / target_scale, offset, ridge), reduction


def _check_start(start: Any, data: Data, reduction: Reduction) -> tuple[np.ndarray, np.ndarray]:
    if not hasattr(start, "neurons") or not hasattr(start, "masses"):
        raise InputError(
            "start must be an ActiveSet (neurons and masses), as in result.active_set; "
            f"received {type(start).__name__}"
        )
    neurons, masses = to_matrix("start.neurons", start.neurons)[0], np.asarray(start.masses, dtype=float)
    dimension = data.lifted.shape[1]
    if neurons.ndim != 2 or neurons.shape[1] != dimension or masses.shape != (len(neurons),):
        raise InputError(
            f"start must hold neurons of shape (m, {dimension}), the bias entry included, and m masses; received "
            f"shapes {neurons.shape} and {masses.shape}"
        )
    check_finite("start.neurons", neurons, None)
    if not np.isfinite(masses).all() or (masses < 0).any():
        worst = int(np.flatnonzero(~(masses >= 0) | ~np.isfinite(masses))[0])
        raise InputError(f"start.masses must be finite and not negative; entry {worst} is {masses[worst]}")
    inner = reduction.lower_neurons(neurons)
    lengths = np.linalg.norm(inner, axis=1)
    kept = (lengths > 0) & (masses > 0)
    # a neuron's part outside of the data's span costs and does nothing; its length belongs to the mass
    return inner[kept] / lengths[kept, None], masses[kept] * lengths[kept] ** 2 / reduction.value_scale


def _make_oracle(problem: ConeProblem) -> Any:
    nonzero = np.linalg.norm(problem.rows, axis=1) > 0
    rows = problem.rows[nonzero]
    outputs = problem.targets.shape[1]
    oracle: Any = exact_oracle(rows, outputs if outputs > 1 else 0)
    if outputs == 1:
        oracle = _OneOutput(oracle)
    return oracle if nonzero.all() else _NonzeroRows(oracle, nonzero)


def _as_reduced(values: np.ndarray, reduction: Reduction) -> np.ndarray:
    """Scalar problems have one axis less in a Reduction that rotated the outputs to one."""
    one = reduction.outputs is not None and reduction.outputs.shape[1] == 1
    return values[..., 0] if one else values


def _columns(values: np.ndarray, n_outputs: int) -> np.ndarray:
    return np.asarray(values).reshape(-1, n_outputs)


def _invert_network(data, reduction, neurons, weights, offset, output_bias) -> ReLUNetwork:
    units, scaled, moved = reduction.invert_network(
        neurons, _as_reduced(weights, reduction), _as_reduced(offset, reduction)
    )
    return ReLUNetwork.from_neurons(
        units, _columns(scaled, data.n_outputs), bias=data.bias, offset=np.reshape(moved, data.n_outputs),
        counts_output_bias=output_bias != "free",
    )  # fmt: skip


def _trivial(
    data: Data, problem: ConeProblem, reduction: Reduction, output_bias: str
) -> tuple[ReLUNetwork, np.ndarray]:
    """No neuron is needed: the targets vanish, or a free offset meets them, or every input is zero without a bias."""
    rank, k = problem.rows.shape[1], problem.targets.shape[1]
    offset = (
        problem.targets.mean(axis=0) if np.isinf(problem.offset) and len(problem.targets) else np.zeros(k)
    )
    network = _invert_network(data, reduction, np.zeros((0, rank)), np.zeros((0, k)), offset, output_bias)
    dual = np.zeros_like(data.Y)
    if rank == 0 and problem.ridge > 0:
        dual = reduction.invert_dual(problem.dual_bound(problem.inner_targets / problem.ridge, 0.0)[0])
    return network, dual
