"""``min_norm``: the network of smallest norm through the points."""

from __future__ import annotations

from typing import Any

from covopt.api.cone import solve_by_frank_wolfe
from covopt.api.run import Callback
from covopt.api.task import GENERATION, Task
from covopt.checks.log import logged
from covopt.checks.validation import check_time_limit
from covopt.errors import InputError
from covopt.limits import now
from covopt.losses import Interpolation
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
        stops. ``state.best()`` is the solution so far; ``state.best`` is None as long as there is none.
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
