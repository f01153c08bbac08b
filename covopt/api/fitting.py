"""Networks of smallest norm through the points or of smallest regularised loss; the λ at which neurons appear."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from covopt.api.cone import solve_by_frank_wolfe
from covopt.api.lambdas import DEFAULT_LAMBDA, is_chosen, parse_lam
from covopt.api.run import Callback
from covopt.api.task import GENERATION, Task
from covopt.checks.log import logged
from covopt.checks.validation import check_time_limit
from covopt.errors import InputError
from covopt.limits import now
from covopt.losses import Interpolation, Loss
from covopt.parallel import one_blas_thread
from covopt.solution import Solution


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
    standardise: bool = False,
    verbose: int = 0,
    start: Solution | None = None,
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
        β ≥ 0, the constant appended to every input; 0 for none.
    output_bias : {"none", "penalized", "free"}
        No output bias (SP20), one whose square counts in the norm (FL22), or one that costs nothing.
    potential : {"variation", "label-noise", "label-noise-exact"}
        What a neuron costs: ‖v‖‖w‖, or what label noise charges for one output, |v| ω(w), with ω as SP20 eq. (13)
        prints it or with the factor that the equation drops (:mod:`covopt.potentials` has both and the derivation).
        ``cost`` is then Σ|v|ω(w), and ``undetermined`` lists the parameters that the data do not determine.
    solver : {"auto", "column-generation", "relaxation", "conic:CLARABEL|SCS|MOSEK", "frank-wolfe:VARIANT"}
        "auto" is column generation with the exact oracle; where the table has too many faces for it, branch and
        bound or boxes prove what local search found. "relaxation" bounds local search by a semidefinite program.
        "conic:…" solves one cone program over all cells: slow, for reference. "frank-wolfe:…" is
        :func:`covopt.frank_wolfe`, over the covariances of the hidden layer.
    tol : float
        Relative duality gap, (cost − lower bound) / cost, in (0, 1). 1e-9 is the tightest that is meaningful; with it
        Newton's method on the tight set finishes the solve (a vertex of the set of minimisers, gaps of 1e-12).
    time_limit_s : float, optional
        Seconds after which the best bracket so far is returned.
    random_state : int, optional
        Seeds the starting columns (fixed by default); the optimum does not depend on it.
    callback : callable, optional
        Called after every round with a state (``round``, ``lower_bound``, ``upper_bound``, ``gap``, ``n_columns``,
        ``time_s``, and a ``note`` where the method changes; bounds of ‖W‖² in the user's units); a true return value
        stops, and finishing takes about half as long again, or a second. ``state.best()`` is the solution so far;
        ``state.best`` is None as long as there is none.
    duplicates : {"error", "mean"}
        What to do with rows that are the same point with different targets.
    standardise : bool
        Solve for columns of mean 0 and variance 1 and targets of mean 0; with ``bias=0`` nothing is centred. The norm
        and its bound then refer to the standardised table; the network takes the user's columns, and passes through
        the user's points.
    verbose : int
        1 prints the result on standard error, 2 every round; without it only the logger ``covopt`` receives them.
    start : Solution, optional
        Warm start: an earlier solution for the same X, say of a run that was stopped. The solve begins with its
        network and dual; if the problem is the same, the result is never worse.

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
    time_limit_s = check_time_limit(time_limit_s)
    if start is not None and (potential != "variation" or solver not in GENERATION):
        raise InputError(
            'start is for potential="variation" and solver="auto"; what Frank–Wolfe returns has an active_set to go '
            "on from"
        )
    with logged(verbose):
        task = Task(
            X, Y, Interpolation(), bias, output_bias, None, potential, solver, tol, random_state,
            standardised=standardise, duplicates=duplicates,
        )  # fmt: skip
        if task.rounds is not None:
            return solve_by_frank_wolfe(task, time_limit_s, callback, began)
        if start is not None:
            task.check_start(start)
        return task.solve(1.0, time_limit_s, callback, start, began)


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
        ``time_s``, and a ``note`` where the method changes; bounds of the objective); a true return value stops, and
        finishing takes about half as long again, or a second.
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
