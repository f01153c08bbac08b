"""Regularised training to certified optimality: one λ, a path of them, and the λ at which neurons appear."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

import numpy as np

from covopt.api.lambdas import DEFAULT_LAMBDA, is_chosen, parse_lam
from covopt.api.run import Callback
from covopt.api.selection import held_out
from covopt.api.solution_path import SolutionPath
from covopt.api.task import Task
from covopt.checks.log import logged
from covopt.checks.validation import as_doubles, check_time_limit
from covopt.errors import InputError, PathStoppedWarning, Status
from covopt.limits import HALF, now
from covopt.losses import Loss
from covopt.parallel import one_blas_thread
from covopt.solution import Solution


def fit(
    X: Any,
    Y: Any,
    *,
    lam: float | str = DEFAULT_LAMBDA,
    depth: int = 2,
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
    standardise: bool = False,
    verbose: int = 0,
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
    lam : float or str
        λ > 0, or a share of :func:`lambda_max`: ``"0.03max"`` (the default), ``"max"``. A share means the same in
        all units; where λ_max is not computed exactly, the share is of the largest λ at which a local search finds a
        neuron, and does not depend on the time limit. ``"cv"`` chooses among ten λ, from λ_max/2 to λ_max/1000, by
        the mean loss on rows left out (five folds).
    depth : int
        L, the number of weight layers. With more than two a :class:`covopt.depth.DeepFit` is returned: its network
        is found by descent (status ``HEURISTIC``), its lower bound is valid and rarely tight. A share of λ_max is
        one of the shallow λ_max.
    loss : {"squared", "logistic", "softmax-cross-entropy", "huber", "hinge", "squared-hinge"} or Loss
        See :mod:`covopt.losses`; ``Huber(delta=...)`` sets its parameter.
    bias : float
        β ≥ 0, the constant appended to every input; 0 for none.
    output_bias : {"none", "penalized", "free"}
        No output bias, one whose square counts in the norm, or one that costs nothing.
    sample_weight : array_like of shape (N,), optional
        Not negative; zero leaves a sample out.
    potential : {"variation", "label-noise", "label-noise-exact"}
        What a neuron costs: its norm, or what label noise charges for one output (:mod:`covopt.potentials`). With the
        latter two the objective is C(f) + λ Σ|v|ω(w), ``cost`` is Σ|v|ω(w), and the means in ω weigh the samples as
        the loss does.
    solver : {"auto", "column-generation"}
        Column generation with the exact oracle. Where the table has too many faces for it, branch and bound or
        boxes prove what local search found; where these do not end the status is ``HEURISTIC``, and the lower bound
        is valid but not tight.
    tol : float
        Relative duality gap, (objective − lower bound) / objective, in (0, 1).
    time_limit_s : float, optional
        Seconds after which the best bracket so far is returned.
    random_state : int, optional
        Seeds the starting columns (fixed by default); the optimum does not depend on it.
    callback : callable, optional
        Called after every round with a state (``round``, ``lower_bound``, ``upper_bound``, ``gap``, ``n_columns``,
        ``time_s``, and a ``note`` where the method changes; bounds of the objective); a true return value stops.
    start : Solution, optional
        Warm start: a solution on the same table, with another λ or loss.
    standardise : bool
        Solve for columns of mean 0 and variance 1 (weighted as the samples are) and, for numerical targets, for
        targets of mean 0; with ``bias=0`` nothing is centred. λ, the norm, the objective and its bound then refer to
        the standardised table; the network takes the user's columns and predicts in the user's units.
    verbose
        As in :func:`covopt.min_norm`.

    Returns
    -------
    Solution
        A :class:`covopt.depth.DeepFit` if ``depth`` is more than 2.
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
    >>> round(covopt.fit([[0.0], [1.0]], [0.0, 1.0], lam="0.5max").lam, 6)
    0.353553
    """
    began = now()
    if type(depth) is not int or depth != 2:
        # imported late: deep networks build on the shallow solver
        deep = import_module("covopt.depth.fitting")
        depth = deep.check(depth, potential, standardise=standardise)
    task = Task(
        X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, standardised=standardise
    )  # fmt: skip
    if task.interpolates:
        raise InputError("interpolation is no loss that λ weighs; covopt.min_norm is the question")
    if not is_chosen(lam):
        parse_lam(lam)  # refuses it before anything is computed
    time_limit_s = check_time_limit(time_limit_s)
    if start is not None and depth == 2:
        task.check_start(start)
    with logged(verbose), one_blas_thread():
        if depth > 2:
            strength = task.strength(lam, time_limit_s)
            if task.interrupted:
                raise KeyboardInterrupt
            fitted: Any = deep.fit_deep(
                task, strength, depth, time_limit_s=time_limit_s, callback=callback, began=began, start=start
            )
            return cast("Solution", fitted)  # it has the attributes that are used here
        return task.solve(task.strength(lam, time_limit_s), time_limit_s, callback, start, began)


def lambda_max(
    X: Any,
    Y: Any,
    *,
    loss: str | Loss = "squared",
    bias: float = 1.0,
    output_bias: str = "none",
    sample_weight: Any = None,
    potential: str = "variation",
    standardise: bool = False,
) -> float:
    r"""Return the smallest λ from which on the optimal network of :func:`fit` has no neuron.

    .. math::

        \lambda_{\max} = \tfrac12 \max_{\|w\| = 1} \big\| \nabla C(F_0)^\top \sigma(\tilde X w) \big\|,

    where F₀ is the best constant (zero without an output bias). The exact oracle computes the maximum. Where it
    cannot, a proved upper bound replaces it: the λ returned is then too large, and a ``NotCertifiedWarning`` says
    by how much at most. With a penalised output bias F₀ depends on λ, and λ_max solves an equation in one unknown.
    With the hinge loss and an output bias of ±1, at the kink of the loss, the value may be too large as well.

    Parameters
    ----------
    X, Y, loss, bias, output_bias, sample_weight, potential, standardise
        As in :func:`fit`. With a label-noise potential λ_max = max |⟨∇C(F₀), σ(X̃w)⟩|/ω(w), without the ½.

    Returns
    -------
    float
        Zero when no λ needs a neuron.

    Raises
    ------
    InputError
        As in :func:`fit`.
    BudgetError
        With a label-noise potential, when the arrangement has too many faces for the exact oracle.

    Examples
    --------
    >>> import covopt
    >>> round(covopt.lambda_max([[0.0], [1.0]], [0.0, 1.0]), 6)  # ½ · max of σ(w₁ + w₂)
    0.707107
    """
    task = Task(
        X, Y, loss, bias, output_bias, sample_weight, potential, "auto", 1e-6, None, standardised=standardise
    )  # fmt: skip
    with one_blas_thread():
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
    standardise: bool = False,
    folds: int = 0,
    verbose: int = 0,
    start: SolutionPath | None = None,
) -> SolutionPath:
    r"""Solve :func:`fit` over a grid of λ, from λ_max down, each warm-started from the previous one and certified.

    .. math:: \lambda_j = \lambda_{\max}\, \varepsilon^{j/(n-1)}, \qquad j = 0, \dots, n - 1.

    Parameters
    ----------
    X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, standardise
        As in :func:`fit`.
    lams : array_like, optional
        The λ to solve for, in any order: numbers, and shares of λ_max as in ``"0.1max"``. By default a geometric grid
        from :func:`lambda_max` down.
    n_lams : int
        Number of points of that grid.
    eps : float
        Ratio of its ends, in (0, 1).
    time_limit_s : float, optional
        Seconds for the whole path.
    callback : callable, optional
        Called after every round, as in :func:`fit`; a true return value ends the path. ``state.best()`` is the path
        so far.
    folds : int
        Folds of a cross-validation over the same λ, which runs before the path and takes part of the time; its losses
        are in ``held_out`` of the path. 0 for none.
    verbose
        As in :func:`covopt.min_norm`.
    start : SolutionPath, optional
        An earlier path for the same X: each λ in it starts from its solution there.

    Returns
    -------
    SolutionPath
        A list of :class:`Solution`, largest λ first; ``to_frame()`` returns it as a table. A path that is stopped
        (time limit, Ctrl-C, callback) returns the solutions so far, including the last bracket if there is one, and
        warns with the λ at which it stopped; Ctrl-C before there is a bracket raises KeyboardInterrupt.

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
    began = now()
    task = Task(
        X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, standardised=standardise
    )  # fmt: skip
    time_limit_s = check_time_limit(time_limit_s)
    earlier = [] if start is None else start if isinstance(start, list) else [start]
    for found in earlier:
        task.check_start(found)
    solutions, known = SolutionPath(), {found.lam: found for found in earlier}

    def seen(state: Any) -> Any:
        rest = [found for found in known.values() if found.lam < grid[len(solutions)]]
        done = list(solutions)
        best = state.best and (lambda: SolutionPath([*done, state.best(), *rest]))
        return callback is not None and callback(replace(state, best=best))

    with logged(verbose), one_blas_thread():
        if lams is None:
            grid = task.grid(n_lams, eps, time_limit_s)
        else:
            grid = check_lams(task.strengths(lams, time_limit_s))
        if folds:
            share = None if time_limit_s is None else HALF * time_limit_s
            solutions.held_out = held_out(task, grid, folds=folds, time_limit_s=share)
        for lam in grid:
            left = None if time_limit_s is None else time_limit_s - (now() - began)
            if left is not None and left <= 0:
                _warn_stopped(solutions, grid, "the time limit was reached")
                break
            started = now()
            previous = known.get(float(lam), solutions[-1] if solutions else None)
            try:
                solutions.append(task.solve(float(lam), left, seen, previous, started))
            except KeyboardInterrupt:  # outside the solver's rounds, while a certificate was computed
                if not solutions:
                    raise
                _warn_stopped(solutions, grid, Status.INTERRUPTED.message.partition(";")[0])
                break
            status = Status.INTERRUPTED if task.interrupted else solutions[-1].status
            if status in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK):
                _warn_stopped(solutions, grid, status.message.partition(";")[0])
                break
    return solutions


def check_lams(lams: Any) -> np.ndarray:
    """Validate λ, and return them in decreasing order, each once."""
    try:
        values = np.atleast_1d(as_doubles(lams))
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
