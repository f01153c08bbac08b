"""The entry points: validate, reduce, solve, certify from the raw data."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.api.stopping import Clock, in_time
from covopt.certificates.certify import conclude
from covopt.certificates.gauges import LabelNoiseGauge, VariationGauge
from covopt.certificates.moments import hold_moments
from covopt.checks.speaking import logger, round_line, speaking
from covopt.checks.validation import (
    check_choice,
    check_output_bias,
    check_random_state,
    check_time_limit,
    check_tol,
)
from covopt.data import Data
from covopt.errors import BudgetError, InputError
from covopt.limits import TimeUp, limited, now, patiently
from covopt.network import ReLUNetwork
from covopt.network.exact_products import with_exact_products
from covopt.oracles.choose import exact_oracle
from covopt.oracles.faces import FaceOracle
from covopt.potentials import LabelNoise, make_potential
from covopt.problems.half_plane import HalfPlane
from covopt.problems.label_noise import check_label_noise, reduce_label_noise
from covopt.problems.reduction import Reduction, reduce_data
from covopt.problems.shallow import ShallowProblem
from covopt.solution import Solution
from covopt.solvers.box_generation import solve_by_boxes, suits
from covopt.solvers.column_generation import Point, RoundState, generate
from covopt.solvers.cone.frank_wolfe import VARIANTS, FrankWolfeState
from covopt.solvers.finish import finish_network
from covopt.solvers.heuristic import solve_heuristic
from covopt.solvers.label_noise import solve_label_noise
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.quick import is_out_of_reach, solve_quickly
from covopt.solvers.sharpen import sharpen
from covopt.status import Status

FRANK_WOLFE = "frank-wolfe:"
SOLVERS = (
    "auto", "column-generation", "relaxation", "conic:CLARABEL", "conic:SCS", "conic:MOSEK",
    *(f"{FRANK_WOLFE}{variant}" for variant in VARIANTS),
)  # fmt: skip
QUICK_S = 5.0  # for the bound beside a network along a line
BOX_SHARE = 0.7  # of the time limit, before the heuristic takes over
ROOM = 2.0**-36  # between the dual and its constraint, for what the proof that none exceeds it costs
SHARPEN_GAP = 1e-9  # a dual this accurate shows the tight set, and Newton's method can finish on it
Callback = Callable[[RoundState], bool]


def min_norm(
    X: Any,
    Y: Any,
    *,
    bias: float = 1.0,
    output_bias: str = "none",
    potential: str = "variation",
    solver: str = "auto",
    tol: float = 1e-6,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callback | None = None,
    duplicates: str = "error",
    verbose: int = 0,
) -> Solution:
    r"""Compute the shallow ReLU network of smallest norm through the points, with a proof that none is smaller.

    .. math::

        R_2(X, Y) = \min_{w, v, b} \; \sum_j \|w_j\|^2 + \|v_j\|^2 \,(+\, \|b\|^2)
        \quad \text{s.t.} \quad \sum_j v_j\, \sigma(w_j \cdot (x_i, \beta)) + \beta b = y_i,

    over networks of any width. By homogeneity this is twice the variation norm of the interpolant, a convex
    problem whose dual is :math:`\max \langle\Lambda, Y\rangle` s.t.
    :math:`\|\Lambda^\top \sigma(\tilde X w)\| \le 1` for all unit w (FL22 §2, §3.2; SP20 §2; Bach 2017).

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
        One target or one vector of targets per row.
    bias : float
        β ≥ 0, the constant that is appended to every input; 0 for none.
    output_bias : {"none", "penalized", "free"}
        No output bias (SP20), one whose square counts in the norm (FL22), or one that costs nothing.
    potential : {"variation", "label-noise", "label-noise-exact"}
        What a neuron costs: ‖v‖‖w‖, or what label noise charges for one output, |v| ω(w), with ω as SP20 eq. (13)
        prints it or with the factor that the equation drops (:mod:`covopt.potentials` has both and the derivation).
        ``cost`` is then Σ|v|ω(w), and ``undetermined`` tells which parameters the data leave open.
    solver : {"auto", "column-generation", "relaxation", "conic:CLARABEL|SCS|MOSEK", "frank-wolfe:VARIANT"}
        Column generation with the exact oracle (also what "auto" takes; where faces are too many with branch and
        bound, else local search); the same by local search, bracketed from below by a semidefinite relaxation, in any
        dimension; one second-order cone program over all cells: slow, for reference; or what
        :func:`covopt.frank_wolfe` returns, a solver over the covariances of the hidden layer.
    tol : float
        Relative duality gap, (cost − lower bound) / cost, in (0, 1). 1e-9 is the tightest that is meaningful; with it
        Newton's method on the tight set finishes the solve (a vertex of the set of minimisers, gaps of 1e-12).
    time_limit_s : float, optional
        Seconds after which the best bracket so far is returned.
    random_state : int, optional
        Seeds the starting columns (fixed by default); the optimum does not depend on it.
    callback : callable, optional
        Called after every round with a state (``round``, ``lower_bound``, ``upper_bound``, ``gap``, ``n_columns``,
        ``time_s``; bounds of ‖W‖² in the user's units); a true answer stops.
    duplicates : {"error", "mean"}
        What to do with rows that are the same point with different targets.
    verbose : int
        1 shows what was found on standard error, 2 every round; without it the logger ``covopt`` has them.

    Returns
    -------
    Solution
        Network, dual, certified bounds and status. Ctrl-C, the time limit and the callback return the best so far.

    Raises
    ------
    InputError
        When the input cannot be used or no network interpolates it; the message says which row and what to do.

    Examples
    --------
    >>> import covopt
    >>> solution = covopt.min_norm([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0])
    >>> round(solution.cost, 6), solution.status.code, len(solution.network)
    (4.0, 'certified', 2)
    """
    began = now()
    tol = check_tol(tol)
    time_limit_s = check_time_limit(time_limit_s)
    check_random_state(random_state)
    check_output_bias(output_bias, bias)
    weighing = make_potential(potential)
    check_choice("solver", solver, SOLVERS)
    with speaking(verbose):
        if solver.startswith(FRANK_WOLFE) and not isinstance(weighing, LabelNoise):
            from covopt.api.cone import frank_wolfe

            return frank_wolfe(
                X, Y, bias=bias, output_bias=output_bias, variant=solver.removeprefix(FRANK_WOLFE), tol=tol,
                time_limit_s=time_limit_s, callback=None if callback is None else _as_rounds(callback),
                random_state=random_state, duplicates=duplicates,
            )  # fmt: skip
        data = Data.validate(X, Y, bias=bias, duplicates=duplicates)
        if isinstance(weighing, LabelNoise):
            check_label_noise(weighing, data.n_outputs, output_bias)
            if solver not in ("auto", "column-generation"):
                raise InputError(
                    f'solver={solver!r} is for potential="variation"; potential={potential!r} takes solver="auto"'
                )
        # as a certificate will compute it: more threads round differently
        with threadpool_limits(1, user_api="blas"):
            reduced = reduce_data(data, output_bias)
        if isinstance(weighing, LabelNoise):
            return _solve_label_noise(
                data, reduced, output_bias, weighing, tol, time_limit_s, random_state, callback, began
            )
        return _solve(
            data, reduced, output_bias, potential, solver, tol, time_limit_s, random_state, callback, began
        )


def _solve(
    data: Data,
    reduced: tuple[ShallowProblem, Reduction],
    output_bias: str,
    potential: str,
    solver: str,
    tol: float,
    time_limit_s: float | None,
    random_state: int | None,
    callback: Callback | None,
    began: float,
) -> Solution:
    problem, reduction = reduced
    scale = 2.0 * reduction.value_scale
    history: list[dict[str, float]] = []
    observe = _observer(scale, history, callback, began)
    clock = Clock(time_limit_s, began)
    # compiled threads and BLAS threads compete for the same cores
    with threadpool_limits(1, user_api="blas"):
        if not len(problem.rows) or not problem.targets.any():
            point = _zero_point(problem)
            name = "closed form"
        elif solver.startswith("conic:"):
            if problem.is_vector:
                raise InputError(
                    f"solver={solver!r} handles one output (a cell may need several neurons with more), but Y has "
                    f'{data.n_outputs} columns of rank {problem.targets.shape[1]}; use solver="auto"'
                )
            from covopt.solvers.reference import solve_all_cells

            point, name = solve_all_cells(problem, solver.removeprefix("conic:"), tol, time_limit_s)
        else:
            options: dict[str, Any] = {
                "tol": tol, "time_limit_s": time_limit_s, "random_state": random_state, "callback": observe,
            }  # fmt: skip
            point, name = _generate_in_time(problem, solver, options, clock)
        neurons, weights, offset = found = point.neurons, point.weights, point.offset
        if not point.finished:
            neurons, weights, offset = in_time(
                clock, lambda: finish_network(problem, *found), lambda: _at_most_n(problem, found), share=0.5
            )
        units, scaled, moved = reduction.invert_network(neurons, weights, offset)
        network = ReLUNetwork.from_neurons(
            units, scaled, bias=data.bias, offset=moved, counts_output_bias=output_bias != "free"
        )
        if point.moments is not None and data.n_features == 1:
            network = with_exact_products(network, data.X[:, 0], data.Y)
        # with an offset that costs nothing, or next to nothing, Λᵀ1 = 0 has to hold to the last digit
        options = {
            "stopped": point.status, "tol": tol, "output_bias": output_bias,
            "gauge": VariationGauge(data, reduction.keep, reduction),
        }  # fmt: skip
        best = reduction.invert_dual(point.dual) * (1.0 - ROOM)
        dual, certificate, status = in_time(
            clock,
            lambda: conclude(
                data, network, best, settled=problem.offset_cost == 0, proof=point.proof,
                hold=_hold(data, problem, reduction, point), **options,
            ),
            lambda: conclude(data, network, np.zeros_like(best), **options),
        )  # fmt: skip
    if clock.interrupted and status is not Status.CERTIFIED:
        status = Status.INTERRUPTED
    return _said(
        data, output_bias, potential, network, dual, certificate, status, tol, name, history,
        now() - began, random_state, point.proof,
    )  # fmt: skip


def _at_most_n(problem: ShallowProblem, found: tuple) -> tuple:
    """Return a network that was not finished, or where it has more than N·k neurons one along a line."""
    if len(found[0]) <= problem.targets.size:
        return found
    quick = solve_quickly(problem, time_limit_s=0.0)
    return (quick.neurons, quick.weights, quick.offset) if len(quick.neurons) else found


def _hold(
    data: Data, problem: ShallowProblem, reduction: Reduction, point: Point
) -> Callable[[np.ndarray, float], np.ndarray] | None:
    """Return what keeps Λᵀx of one input, which the solver knows better than the dual's doubles say."""
    if point.moments is None or data.n_features != 1:
        return None
    known = point.moments[0] if problem.is_vector else point.moments[0, 0]
    wanted = np.atleast_1d(reduction.raise_outputs(known)) * (1.0 - ROOM)
    return lambda dual, factor: hold_moments(data.X[:, 0], dual, wanted * factor)


def _solve_label_noise(
    data: Data,
    reduced: tuple[ShallowProblem, Reduction],
    output_bias: str,
    potential: LabelNoise,
    tol: float,
    time_limit_s: float | None,
    random_state: int | None,
    callback: Callback | None,
    began: float,
) -> Solution:
    task = reduce_label_noise(data, output_bias, potential, reduced=reduced)
    problem = task.problem
    history: list[dict[str, float]] = []
    with threadpool_limits(1, user_api="blas"):
        name = "column-generation"
        if not len(problem.rows) or not problem.targets.any():
            point, name = _zero_point(problem), "closed form"
        else:
            point = solve_label_noise(
                problem, task.oracle(), tol=tol, time_limit_s=time_limit_s, random_state=random_state,
                callback=_observer(task.value_scale, history, callback, began),
            )  # fmt: skip
        network = task.invert_network(point.neurons, point.weights, float(point.offset))
        dual, certificate, status = conclude(
            data, network, task.invert_dual(point.dual), stopped=point.status, tol=tol,
            settled=problem.offset_cost == 0, output_bias=output_bias, gauge=LabelNoiseGauge(task),
        )  # fmt: skip
    return _said(
        data, output_bias, potential.name, network, dual, certificate, status, tol, name, history,
        now() - began, random_state,
    )  # fmt: skip


def _said(*parts: Any) -> Solution:
    solution = Solution(*parts)
    logger.info("%r", solution)
    return solution


def _observer(
    scale: float, history: list[dict[str, float]], callback: Callback | None, began: float
) -> Callback:
    """Return a callback that keeps the history, and hands states on, in the user's units."""

    def observe(state: RoundState) -> bool:
        state = dataclasses.replace(
            state,
            lower_bound=state.lower_bound * scale,
            upper_bound=state.upper_bound * scale,
            time_s=now() - began,
        )
        logger.debug("%s", round_line(state))
        history.append({k: v for k, v in dataclasses.asdict(state).items() if np.isfinite(v)})
        return bool(callback(state)) if callback is not None else False

    return observe


def _as_rounds(callback: Callback) -> Callable[[FrankWolfeState], bool]:
    """Return a callback for Frank–Wolfe that shows its iterations as rounds."""

    def observe(state: FrankWolfeState) -> bool:
        return bool(
            callback(
                RoundState(
                    state.iteration + 1, state.lower_bound, state.cost, state.gap, state.n_atoms, state.time_s
                )
            )
        )

    return observe


def _generate_in_time(
    problem: ShallowProblem, solver: str, options: dict[str, Any], clock: Clock
) -> tuple[Point, str]:
    """Generate columns where the table leaves room for it; a network through the points in any case."""
    seconds = clock.for_solver(problem.rows.shape[1])
    point, status, name = (
        None,
        Status.TIME_LIMIT if clock.limit is not None else Status.GAP,
        "column-generation",
    )
    plane = None if solver == "relaxation" else HalfPlane.of(problem)
    if plane is not None or not is_out_of_reach(problem, seconds):
        try:
            with limited(seconds):
                point, name = _generate(problem, solver, options | {"time_limit_s": seconds})
        except TimeUp:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        if point is not None and np.isfinite(point.upper_bound):
            return point, name
    with patiently():
        left = 0.4 * (seconds or QUICK_S) if status is not Status.INTERRUPTED else QUICK_S
        share = min(QUICK_S, clock.until_late(0.0) or QUICK_S, left)
        quick = solve_quickly(problem, time_limit_s=share, random_state=options["random_state"])
    quick.status = status if point is None else point.status
    if point is not None and point.lower_bound > quick.lower_bound:
        quick.dual, quick.lower_bound, quick.proof = point.dual, point.lower_bound, point.proof
    return quick, f"{name}, network along a line"


def _generate(problem: ShallowProblem, solver: str, options: dict[str, Any]) -> tuple[Point, str]:
    """Column generation with the best oracle that can be afforded, and its name."""
    plane = None if solver == "relaxation" else HalfPlane.of(problem)
    if plane is not None and not plane.is_clear:
        return solve_one_input(plane, **options), "column-generation"
    oracle = None
    if solver != "relaxation":
        with contextlib.suppress(BudgetError):
            oracle = exact_oracle(problem.rows, problem.vector_outputs)
    if solver != "relaxation" and suits(problem):
        return _generate_by_boxes(problem, options)
    if oracle is None:
        return _generate_heuristically(problem, options, only_relaxation=solver == "relaxation")
    point = generate(problem, oracle, **options)
    if plane is not None and point.status is Status.GAP:
        other = solve_one_input(plane, **options)
        point = other if other.gap < point.gap else point
    sharp = point.status is Status.CERTIFIED and point.gap <= SHARPEN_GAP
    if sharp and isinstance(oracle, FaceOracle):
        point = _sharpened(problem, oracle, point)
    return point, "column-generation"


def _generate_by_boxes(problem: ShallowProblem, options: dict[str, Any]) -> tuple[Point, str]:
    """Column generation with proofs by boxes; where they do not end, the heuristic's bracket too."""
    limit = options["time_limit_s"]
    began = now()
    first = solve_by_boxes(
        problem, **options | {"time_limit_s": None if limit is None else BOX_SHARE * limit}
    )
    if first.status not in (Status.GAP, Status.TIME_LIMIT):
        return first, "column-generation with boxes"
    if limit is not None:
        limit = max(limit - (now() - began), (1.0 - BOX_SHARE) * limit)
    point, name = _generate_heuristically(problem, options | {"time_limit_s": limit})
    if first.upper_bound < point.upper_bound:
        point.neurons, point.weights, point.offset = first.neurons, first.weights, first.offset
        point.upper_bound = first.upper_bound
    if first.lower_bound > point.lower_bound:
        point.dual, point.lower_bound, point.proof = first.dual, first.lower_bound, None
    return point, name


def _generate_heuristically(
    problem: ShallowProblem, options: dict[str, Any], *, only_relaxation: bool = False
) -> tuple[Point, str]:
    """Column generation by branch and bound or local search, bracketed by the best valid bound at hand."""
    point = solve_heuristic(problem, **options, only_relaxation=only_relaxation)
    search = "local search" if point.status is Status.HEURISTIC else "branch and bound"
    bound = ", bound by a semidefinite relaxation" if point.proof is not None else ""
    return point, f"column-generation with {search}{bound}"


def _sharpened(problem: ShallowProblem, oracle: FaceOracle, point: Point) -> Point:
    sharp = sharpen(problem, oracle, point.dual, float(point.offset))
    if sharp is None:
        return point
    dual, neurons, weights, offset = sharp
    return dataclasses.replace(
        point, dual=dual, neurons=neurons, weights=weights, offset=offset, moments=None, finished=False
    )


def _zero_point(problem: ShallowProblem) -> Point:
    rank = problem.rows.shape[1]
    return Point(
        np.zeros((0, rank)), np.zeros((0, *problem.targets.shape[1:])), np.zeros(problem.targets.shape[1:])[()], 0.0,
        np.zeros(problem.targets.shape), 0.0, Status.CERTIFIED,
    )  # fmt: skip
