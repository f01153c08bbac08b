"""Regularised training to certified optimality: one λ, a path of them, and the λ at which neurons appear."""

from __future__ import annotations

import dataclasses
import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from covopt.api import OUTPUT_BIASES, Callback, _check_seed
from covopt.certificates.regularised import certify_fit
from covopt.data import Data
from covopt.errors import InputError, PathStoppedWarning
from covopt.losses import Loss, make_loss
from covopt.network import ReLUNetwork
from covopt.oracles.choose import exact_oracle
from covopt.problems.reduction import Reduction
from covopt.problems.regularised import RegularisedProblem, constant_dual, reduce_fit
from covopt.solution import Solution
from covopt.solvers.column_generation import RoundState
from covopt.solvers.regularised_finish import finish_fit
from covopt.solvers.regularised_generation import FitPoint, RegularisedGeneration, WarmStart
from covopt.status import Status
from covopt.tabular import to_matrix
from covopt.validation import check_choice, check_positive, check_time_limit, check_tol

SOLVERS = ("auto", "column-generation")


def fit(
    X: Any,
    Y: Any,
    *,
    lam: float,
    loss: str | Loss = "squared",
    bias: float = 1.0,
    output_bias: str = "none",
    sample_weight: Any = None,
    potential: str = "variation",
    solver: str = "auto",
    tol: float = 1e-6,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callback | None = None,
    start: Solution | None = None,
) -> Solution:
    r"""Train a shallow ReLU network with weight decay to its global optimum, and prove it.

    .. math::

        \min_{w, v, b} \; \sum_i s_i\, \ell(f(x_i), y_i) + \lambda \Big(\sum_j \|w_j\|^2 + \|v_j\|^2 (+ \|b\|^2)\Big),
        \qquad f(x) = \sum_j v_j\, \sigma(w_j \cdot (x, \beta)) + \beta b,

    over networks of any width; s are the sample weights divided by their sum, so the first term is a mean. With
    :math:`\|w\|^2 + \|v\|^2 \ge 2\|w\|\|v\|` this is convex in the measure :math:`\sum_j \|w_j\| v_j`, with the dual
    :math:`\max_\Lambda -C^*(-2\lambda\Lambda) - \lambda\beta^2\|\Lambda^\top 1\|^2` s.t.
    :math:`\|\Lambda^\top\sigma(\tilde X w)\| \le 1` for all unit w (FL22 §2; SP20 eq. 7, 22).

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
        Numbers for "squared" and "huber"; labels (N,) for the others: −1 and 1, 0 and 1, booleans or two strings,
        with the softmax any number of classes.
    lam : float
        λ > 0.
    loss : {"squared", "logistic", "softmax-cross-entropy", "huber", "hinge", "squared-hinge"} or Loss
        See :mod:`covopt.losses`; ``Huber(delta=...)`` sets its parameter.
    bias : float
        β ≥ 0, the constant that is appended to every input; 0 for none.
    output_bias : {"none", "penalized", "free"}
        No output bias, one whose square counts in the norm, or one that costs nothing.
    sample_weight : array_like of shape (N,), optional
        Not negative; zero leaves a sample out.
    potential : {"variation"}
        What a neuron costs: its norm.
    solver : {"auto", "column-generation"}
    tol : float
        Relative duality gap, (objective − lower bound) / objective, in (0, 1).
    time_limit_s : float, optional
        Seconds after which the best bracket so far is returned.
    random_state : int, optional
        Seeds the starting columns (fixed by default); the optimum does not depend on it.
    callback : callable, optional
        Called after every round with a state (``round``, ``lower_bound``, ``upper_bound``, ``gap``, ``n_columns``,
        ``time_s``; bounds of the objective); a true answer stops.
    start : Solution, optional
        A solution of the same table, with another λ or loss: where to start from.

    Returns
    -------
    Solution
        ``objective`` and its ``lower_bound``, ``cost`` = ‖W‖², network, dual, status. Ctrl-C, the time limit and the
        callback return the best so far.

    Raises
    ------
    InputError
        When the input cannot be used; the message says which row and what to do.

    Examples
    --------
    >>> import covopt
    >>> solution = covopt.fit([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], lam=0.01)
    >>> solution.status.code, solution.gap <= 1e-6
    ('certified', True)
    >>> covopt.fit([[-1.0], [0.0], [1.0]], ["a", "b", "a"], lam=0.01, loss="logistic").status.code
    'certified'
    """
    began = time.perf_counter()
    task = _Task(X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state)
    lam = check_positive("lam", lam)
    time_limit_s = check_time_limit(time_limit_s)
    if start is not None:
        task.check_start(start)
    with threadpool_limits(1, user_api="blas"):
        return task.solve(lam, time_limit_s, callback, start, began)


def lambda_max(
    X: Any,
    Y: Any,
    *,
    loss: str | Loss = "squared",
    bias: float = 1.0,
    output_bias: str = "none",
    sample_weight: Any = None,
) -> float:
    r"""Return the smallest λ from which on the optimal network of :func:`fit` has no neuron.

    .. math::

        \lambda_{\max} = \tfrac12 \max_{\|w\| = 1} \big\| \nabla C(F_0)^\top \sigma(\tilde X w) \big\|,

    F₀ the best constant (zero without an output bias), by one call of the exact oracle. The constant under a
    penalised output bias depends on λ: then λ_max solves an equation in one unknown. Where the hinge loss has its
    kink (an output bias of ±1), the value is one at which there is no neuron, not always the smallest.

    Parameters
    ----------
    X, Y, loss, bias, output_bias, sample_weight
        As in :func:`fit`.

    Returns
    -------
    float
        Zero when no λ needs a neuron.

    Raises
    ------
    InputError
        As in :func:`fit`.
    BudgetError
        When the arrangement has too many faces for the exact oracle.

    Examples
    --------
    >>> import covopt
    >>> round(covopt.lambda_max([[0.0], [1.0]], [0.0, 1.0]), 6)  # ½ · max of σ(w₁ + w₂)
    0.707107
    """
    task = _Task(X, Y, loss, bias, output_bias, sample_weight, "variation", "auto", 1e-6, None)
    with threadpool_limits(1, user_api="blas"):
        return task.lambda_max()


def path(
    X: Any,
    Y: Any,
    *,
    lams: Any = None,
    n_lams: int = 30,
    eps: float = 1e-3,
    loss: str | Loss = "squared",
    bias: float = 1.0,
    output_bias: str = "none",
    sample_weight: Any = None,
    potential: str = "variation",
    solver: str = "auto",
    tol: float = 1e-6,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callback | None = None,
) -> list[Solution]:
    r"""Solve :func:`fit` over a grid of λ, from λ_max down, each one started from the one before and certified.

    .. math:: \lambda_j = \lambda_{\max}\, \varepsilon^{j/(n-1)}, \qquad j = 0, \dots, n - 1.

    Parameters
    ----------
    X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state
        As in :func:`fit`.
    lams : array_like, optional
        The λ to solve for, in any order; by default a geometric grid from :func:`lambda_max` down.
    n_lams : int
        Number of points of that grid.
    eps : float
        Ratio of its ends, in (0, 1).
    time_limit_s : float, optional
        Seconds for the whole path.
    callback : callable, optional
        Called after every round, as in :func:`fit`; a true answer ends the path.

    Returns
    -------
    list of Solution
        Largest λ first. A path that is stopped (time limit, Ctrl-C, callback) returns what it has, the last bracket
        included, and warns with the λ at which it stopped.

    Raises
    ------
    InputError
        As in :func:`fit`; and when λ_max is zero, so that there is no grid.

    Warns
    -----
    PathStoppedWarning

    Examples
    --------
    >>> import covopt
    >>> solutions = covopt.path([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], n_lams=4)
    >>> [s.status.code for s in solutions], len(solutions[0].network)
    (['certified', 'certified', 'certified', 'certified'], 0)
    """
    began = time.perf_counter()
    task = _Task(X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state)
    time_limit_s = check_time_limit(time_limit_s)
    solutions: list[Solution] = []
    with threadpool_limits(1, user_api="blas"):
        grid = task.grid(n_lams, eps) if lams is None else _check_lams(lams)
        for lam in grid:
            left = None if time_limit_s is None else time_limit_s - (time.perf_counter() - began)
            if left is not None and left <= 0:
                _warn_stopped(solutions, grid, "the time limit was reached")
                break
            started = time.perf_counter()
            previous = solutions[-1] if solutions else None
            solutions.append(task.solve(float(lam), left, callback, previous, started))
            status = solutions[-1].status
            if status in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK):
                _warn_stopped(solutions, grid, status.message.partition(";")[0])
                break
    return solutions


def _check_lams(lams: Any) -> np.ndarray:
    try:
        values = np.atleast_1d(np.asarray(lams, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"lams must be positive numbers; received {lams!r:.60}") from None
    if values.ndim != 1 or not len(values):
        raise InputError(f"lams must be a list of positive numbers; received shape {values.shape}.")
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"lams must be positive finite numbers; entry {i} (counting from 0) is {values[i]:g}."
        )
    return np.unique(values)[::-1]


def _warn_stopped(solutions: list[Solution], grid: np.ndarray, why: str) -> None:
    done = sum(s.status is Status.CERTIFIED for s in solutions)
    at = grid[min(len(solutions), len(grid)) - 1] if solutions else grid[0]
    warnings.warn(
        f"the path stopped at lam = {at:.6g}: {why}; {done} of {len(grid)} points are certified",
        PathStoppedWarning,
        stacklevel=3,
    )


class _Task:
    """A validated table with everything that does not depend on λ."""

    def __init__(
        self, X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state
    ) -> None:
        self.tol = check_tol(tol)
        _check_seed(random_state)
        check_choice("output_bias", output_bias, OUTPUT_BIASES)
        check_choice("potential", potential, ("variation",))
        check_choice("solver", solver, SOLVERS)
        self.loss = make_loss(loss)
        _, target_names = to_matrix("Y", Y) if not self.loss.is_classification else (None, None)
        targets = self.loss.encode_targets(_aligned(X, Y), sample_weight)
        names = target_names
        if self.loss.is_classification and self.loss.classes and targets.shape[1] > 1:
            names = tuple(str(label) for label in self.loss.classes)
        self.data = Data.validate(X, targets, bias=bias, target_names=names, interpolates=False)
        if output_bias != "none" and self.data.bias == 0:
            raise InputError(
                f"output_bias={output_bias!r} needs a positive bias: the output bias enters the network as bias * b"
            )
        self.output_bias, self.potential, self.random_state = output_bias, potential, random_state
        weights = self.loss.weights[:, 0]
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if output_bias == "free" and self.loss.is_classification:
            present = self.loss.targets[weights > 0]
            if (present == present[0]).all(axis=0).any():
                raise InputError(
                    f"loss={self.loss.name!r} with a free output bias has no minimum: every sample of positive "
                    'weight is (or none is) of one class; use output_bias="penalized" or "none".'
                )
        self._oracle: Any = None

    def check_start(self, start: Solution) -> None:
        """Refuse a solution of another table."""
        if not isinstance(start, Solution):
            raise InputError(f"start must be a Solution; received {type(start).__name__}.")
        same = start.data.X.shape == self.data.X.shape and start.data.bias == self.data.bias
        if not same or not np.array_equal(start.data.X, self.data.X):
            raise InputError("start is a solution of another table (X or bias differ); leave it out.")
        if start.network.output_weights.shape[1] != self.data.n_outputs:
            raise InputError("start has another number of outputs; leave it out.")

    def oracle(self, problem: RegularisedProblem) -> Any:
        """Return the exact oracle; it depends on the rows only, and its presorting is worth keeping."""
        if self._oracle is None:
            live = problem.rows.any(axis=1)
            q = problem.n_outputs
            self._oracle = exact_oracle(problem.rows[live], 0 if q == 1 else q)
        return self._oracle

    def lambda_max(self) -> float:
        """See :func:`lambda_max`."""

        def excess(lam: float) -> float:
            """Gauge of the dual of the best constant."""
            problem, _ = reduce_fit(self.data, self.loss, lam, self.output_bias)
            live = problem.rows.any(axis=1)
            dual = problem.project_dual(constant_dual(problem))[live]
            if not dual.any():
                return 0.0
            asked = np.ascontiguousarray(dual[:, 0] if dual.shape[1] == 1 else dual)
            return self.oracle(problem).price(asked, threshold=np.inf).upper_bound

        scale = 1.0
        at_one = excess(scale)
        if self.output_bias != "penalized":
            return at_one  # −∇C/λ: the gauge at λ is that at 1, divided by λ
        if at_one == 0.0:
            return 0.0
        high = at_one
        while excess(high) > 1.0:
            high *= 2.0
        low = 0.5 * high
        while excess(low) <= 1.0:
            low *= 0.5
            if low < 1e-9 * high:
                return 0.0
        return float(
            np.exp(brentq(lambda t: np.log(excess(np.exp(t))), np.log(low), np.log(high), xtol=1e-13))
        )

    def grid(self, n_lams: int, eps: float) -> np.ndarray:
        """Return the geometric grid from λ_max down."""
        if isinstance(n_lams, bool) or not hasattr(n_lams, "__index__") or int(n_lams) < 1:
            raise InputError(f"n_lams must be a positive integer; received {n_lams!r}.")
        eps = check_tol(eps, "eps")
        top = self.lambda_max()
        if top == 0.0:
            raise InputError("the best constant is optimal for every lam, so there is no path; give lams.")
        return top * np.geomspace(1.0, eps, int(n_lams))

    def solve(self, lam, time_limit_s, callback, start, began) -> Solution:
        reduced = reduce_fit(self.data, self.loss, lam, self.output_bias)
        problem, reduction = reduced
        history: list[dict[str, float]] = []

        def observe(state: RoundState) -> bool:
            state = dataclasses.replace(
                state,
                lower_bound=state.lower_bound * problem.strength,
                upper_bound=state.upper_bound * problem.strength,
                time_s=time.perf_counter() - began,
            )
            history.append({k: v for k, v in dataclasses.asdict(state).items() if np.isfinite(v)})
            return bool(callback(state)) if callback is not None else False

        options: dict[str, Any] = {
            "tol": self.tol, "time_limit_s": time_limit_s, "random_state": self.random_state, "callback": observe,
            **self._start_of(start, problem, reduction),
        }  # fmt: skip
        name = "column-generation"
        oracle: Any = self.oracle(problem) if problem.rows.any() else None
        point = RegularisedGeneration(problem, oracle, **options).solve()
        return self._certified(lam, point, reduced, name, history, began)

    def _start_of(self, start, problem, reduction) -> dict[str, Any]:
        if start is None:
            return {}
        warm = start._warm
        shape = (len(problem.rows), problem.n_outputs)
        if warm is None or warm.dual.shape != shape or warm.neurons.shape[1] != problem.rows.shape[1]:
            neurons, weights, offset = reduction.apply_network(*start.network.to_neurons())
            weights = np.asarray(weights).reshape(len(neurons), shape[1])
            warm = WarmStart(
                neurons, weights, np.linalg.norm(weights, axis=1), np.reshape(offset, shape[1]),
                reduction.apply_dual(start.dual).reshape(shape),
            )  # fmt: skip
        if start.loss is None or start.loss.name != self.loss.name:
            warm = dataclasses.replace(warm, edges=None)
        return {"warm": warm}

    def _certified(
        self, lam: float, point: FitPoint, reduced: tuple[RegularisedProblem, Reduction], name, history, began
    ) -> Solution:
        problem, reduction = reduced
        neurons, weights, offset = finish_fit(problem, point.neurons, point.weights, point.offset)
        if problem.n_outputs == 1:
            weights, shift, flat = weights[:, 0], float(offset[0]), point.dual[:, 0]
            units, scaled, moved = reduction.invert_network(neurons, weights, shift)
            dual = reduction.invert_dual(flat)
        else:
            units, scaled, moved = reduction.invert_network(neurons, weights, offset)
            dual = reduction.invert_dual(point.dual)
        network = ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=self.output_bias != "free"
        )
        certificate = certify_fit(
            self.data, network, dual, loss=self.loss, lam=lam, output_bias=self.output_bias, reduced=reduced
        )
        status = point.status
        if certificate.gap <= self.tol:
            status = Status.CERTIFIED
        elif status is Status.CERTIFIED:
            status = Status.GAP
        solution = Solution(
            self.data, self.output_bias, self.potential, network, dual, certificate, status, self.tol, name,
            history, time.perf_counter() - began, self.random_state, lam=lam, loss=self.loss,
            sample_weight=self.sample_weight,
        )  # fmt: skip
        solution._warm = point.warm
        return solution


def _aligned(X: Any, Y: Any) -> Any:
    """Return Y after a look at its length, so that the message is about the table and not about the loss."""
    try:
        rows, labels = len(X), len(Y)
    except TypeError:
        return Y
    if rows != labels:
        raise InputError(f"X has {rows} rows but Y has {labels}: give one target (row) for each sample.")
    return Y
