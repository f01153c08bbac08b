r"""Programs that cvxpy solves: every cell at once, a dual point of the relaxation; and the options of its backends.

The solver is always passed to cvxpy: by default cvxpy prefers an installed MOSEK, which without a licence raises
MOSEK's own error class.

**Every cell at once, as one second-order cone program.** On the closed cell C_s = {w : (2s_i − 1) z_i·w ≥ 0} the atom
is linear, σ(Z w) = diag(s) Z w, so the scalar interpolation problem is, exactly,

    min  Σ_s ‖p_s‖ + ‖q_s‖ + ½ ρ B²   s.t.   Σ_s diag(s) Z (p_s − q_s) + B·1 = y,   p_s, q_s ∈ C_s.

It is simple and slow: a reference for the other solvers.

**The doubly nonnegative relaxation.** A unit direction w has on rows of length one the activations

    p = σ(Z w) ≥ 0,      q = p − Z w = σ(−Z w) ≥ 0,      p∘q = 0,      p + q ≤ t = ‖w‖.

Products of these lines l(u), u = (t, w, p), are not negative, and p_i q_i = 0. So h(Λ) ≤ 1 where

.. math::
    a\|v\|^2 + b\,t^2 + c\,\|w\|^2 - v^\top \Lambda^\top p - \textstyle\sum_{i<j} N_{ij}\, l_i l_j \succeq 0,
    \qquad a + b + c \le 1, \quad N \ge 0 \text{ but for the pairs } p_i q_i,

as a quadratic form in (v, u): at every neuron ‖v‖ = t = ‖w‖ = 1. With one output v = ±t, which makes two forms. The
largest dual value of such Λ bounds the cost of networks from below (theory: FL22 §3.2, the cone S; eliminating q is
the facial reduction). The backend's accuracy is not trusted: callers divide Λ by a certified bound on h(Λ).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from covopt.checks import required
from covopt.errors import InputError, SolverError, SolverFallbackWarning
from covopt.problems.problem import Problem

if TYPE_CHECKING:
    import cvxpy

Options = dict[str, Any]


def _clarabel(tol: float, seconds: float | None) -> Options:
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
    return {**tolerances, "max_iter": 500} | ({} if seconds is None else {"time_limit": seconds})


def _scs(tol: float, seconds: float | None) -> Options:
    tol = max(tol, 1e-8)  # first order: each further digit costs as much as all before it
    return {"eps_abs": tol, "eps_rel": tol, "max_iters": 200_000} | (
        {} if seconds is None else {"time_limit_secs": seconds}
    )


def _mosek(tol: float, seconds: float | None) -> Options:
    kinds = [f"{kind}TOL_{what}" for kind in ("", "CO_", "QO_") for what in ("PFEAS", "DFEAS", "REL_GAP")]
    limits = {} if seconds is None else {"MSK_DPAR_OPTIMIZER_MAX_TIME": seconds}
    return {"mosek_params": {f"MSK_DPAR_INTPNT_{kind}": tol for kind in kinds} | limits}


BACKENDS: dict[str, Callable[[float, float | None], Options]] = {
    "CLARABEL": _clarabel, "SCS": _scs, "MOSEK": _mosek,
}  # fmt: skip
LICENSED, FALLBACK = "MOSEK", "CLARABEL"  # the first needs a licence: installed does not mean usable


@cache
def why_unavailable(name: str) -> str | None:
    """Return why a backend cannot be used in this process, or None when it can: all but MOSEK come with cvxpy.

    MOSEK is asked to solve a tiny problem, once per process.
    """
    if name != LICENSED:
        return None
    cp = required("cvxpy", f"the solver {name}", "conic")
    point = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.norm(point, 2)), [point[0] + point[1] == 1])
    try:
        problem.solve(solver=name)
        assert problem.status == "optimal", f"it ended as {problem.status!r}"
    except Exception as error:  # licensing errors have classes of the vendor's own
        return f"a tiny problem failed ({type(error).__name__}: {error})".replace("\n", " ")
    return None


@cache  # so that a fallback is reported once per process
def resolve_backend(name: str) -> str:
    """Return the backend that will run for a name given by the user, in any case.

    Raises
    ------
    InputError
        The name is unknown.

    Warns
    -----
    SolverFallbackWarning
        MOSEK is unavailable, and Clarabel takes its place.
    """
    found = name.upper() if isinstance(name, str) else ""
    if found not in BACKENDS:
        raise InputError(f"unknown backend {name!r}; use {', '.join(BACKENDS)}")
    required("cvxpy", f"the solver {found}", "conic")
    reason = why_unavailable(found)
    if reason is None:
        return found
    said = f"{found} cannot be used: {reason}; {FALLBACK} takes its place"
    warnings.warn(said, SolverFallbackWarning, stacklevel=2)
    return FALLBACK


def run_backend(
    problem: cvxpy.Problem,
    backend: str,
    *,
    tol: float = 1e-8,
    time_limit_s: float | None = None,
    **cvxpy_options: Any,
) -> None:
    """Solve a cvxpy problem on a backend that :func:`resolve_backend` returned.

    Parameters
    ----------
    problem : cvxpy.Problem
    backend : str
    tol : float
        Tolerance of the backend, in its own sense; the caller recomputes the accuracy reached.
    time_limit_s : float, optional
    **cvxpy_options
        Further keyword arguments of ``cvxpy.Problem.solve``.

    Raises
    ------
    SolverError
        The backend left no point; the message carries its status.
    """
    cp = required("cvxpy", "a cone program", "conic")
    seconds = None if time_limit_s is None else float(time_limit_s)
    options = BACKENDS[backend](tol, seconds) | cvxpy_options
    with warnings.catch_warnings():
        # The status says the same, and is kept.
        warnings.filterwarnings("ignore", message=".*[Ss]olution may be inaccurate.*")
        warnings.filterwarnings("ignore", message=".*terminated by time limit.*")
        try:
            problem.solve(solver=backend, **options)
        except Exception as error:
            # a floating licence can vanish after the probe; the vendor's error classes are its own
            if not isinstance(error, cp.error.SolverError) and backend != LICENSED:
                raise
            raise SolverError(
                f"{backend} stopped without a usable point ({error}); try another backend "
                f"({', '.join(BACKENDS)}) or a looser tolerance than {tol:g}"
            ) from error
    if problem.status not in cp.settings.SOLUTION_PRESENT or any(
        v.value is None for v in problem.variables()
    ):
        raise SolverError(f"{backend} ended with status {problem.status!r}")


# ---------------------------------------------------------------------- every cell at once


class ConicPoint(NamedTuple):
    """Primal and dual point of the all-cells program, not certified: the caller polishes and certifies it.

    Attributes
    ----------
    neurons : ndarray of shape (m, r)
        Unit directions, at most one per (cell, sign).
    weights : ndarray of shape (m,)
        Output weights, signed.
    offset : float
        B, 0 without an offset.
    dual : ndarray of shape (N,)
        λ with |⟨λ, σ(Z w)⟩| ≤ 1 for unit w, up to the backend's accuracy, and 1ᵀλ = ρB.
    backend : str
        The backend that ran: not the one asked for when that one was unavailable.
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: float
    dual: np.ndarray
    backend: str


def solve_conic(
    problem: Problem,
    patterns: np.ndarray,
    *,
    backend: str = "CLARABEL",
    tol: float = 1e-9,
    time_limit_s: float | None = None,
) -> ConicPoint:
    r"""Solve the scalar interpolation problem over all cells with a conic backend.

    .. math::

        \min_{p, q, B}\ \sum_s \|p_s\| + \|q_s\| + \tfrac12 \rho B^2
        \quad\text{s.t.}\quad \sum_s \mathrm{diag}(s) Z (p_s - q_s) + B 1 = y,
        \quad p_s, q_s \in C_s .

    Parameters
    ----------
    problem : Problem
        In reduced units.
    patterns : ndarray of bool, shape (S, N)
        All open cells, each once: ``patterns[s, i]`` is True where z_i·w > 0.
    backend : {"CLARABEL", "SCS", "MOSEK"}
        An unavailable MOSEK is replaced by CLARABEL, with one warning per process.
    tol : float
        Tolerance of the backend; the caller has to certify the point.
    time_limit_s : float, optional
        For the backend.

    Returns
    -------
    ConicPoint

    Raises
    ------
    InputError
        The backend is unknown.
    SolverError
        The backend stopped without a point.

    Warns
    -----
    SolverFallbackWarning
        The backend requested is unavailable.

    Notes
    -----
    The multiplier of the equality is the λ of :mod:`covopt.problems.problem`. The backend's own objective
    value is not passed on.

    Examples
    --------
    One sample at distance 2: the neuron that points at it with weight y/2.

    >>> import numpy as np
    >>> from covopt.problems.problem import Problem
    >>> problem = Problem.through(np.array([[2.0]]), np.array([3.0]))
    >>> point = solve_conic(problem, np.array([[True], [False]]))
    >>> (point.weights @ point.neurons).round(6), point.dual.round(6)
    (array([1.5]), array([0.5]))
    """
    chosen = resolve_backend(backend)

    cp = required("cvxpy", "a cone program", "conic")
    n_cells, dim = len(patterns), problem.rows.shape[1]
    directions, norms = cp.Variable((2 * n_cells, dim)), cp.Variable(2 * n_cells)
    active, heights = np.where(patterns, 1.0, 0.0), directions @ problem.rows.T
    output = cp.sum(cp.multiply(np.vstack([active, -active]), heights), axis=0)
    cost = cp.sum(norms)
    offset = cp.Variable() if problem.has_offset else None
    if offset is not None:
        output = output + offset
        if problem.offset_cost > 0:
            cost = cost + 0.5 * problem.offset_cost * cp.square(offset)
    interpolation = output == problem.targets[:, 0]
    inside = cp.multiply(np.tile(2.0 * active - 1.0, (2, 1)), heights) >= 0
    program = cp.Problem(cp.Minimize(cost), [interpolation, inside, cp.SOC(norms, directions, axis=1)])
    run_backend(program, chosen, tol=tol, time_limit_s=time_limit_s)

    points = directions.value
    sizes = np.linalg.norm(points, axis=1)
    kept = np.flatnonzero(sizes)
    # cvxpy's Lagrangian has +ν(output − y); λ is the sensitivity of the value to y.
    return ConicPoint(
        neurons=points[kept] / sizes[kept, None],
        weights=np.where(kept < n_cells, sizes[kept], -sizes[kept]),
        offset=0.0 if offset is None else float(offset.value),
        dual=-np.asarray(interpolation.dual_value, dtype=float),
        backend=chosen,
    )


# ---------------------------------------------------------------------- the relaxation
MOST_ROWS = 40  # with nonzero dual variables: some ten seconds


def relaxed_dual(
    problem: Problem, *, weights: np.ndarray | None = None, time_limit_s: float | None = None
) -> np.ndarray:
    r"""Solve max ⟨Λ, Y⟩ − ‖Λᵀ1‖²/(2ρ) over the relaxation of {Λ : h(Λ) ≤ 1}.

    Parameters
    ----------
    problem : Problem
    weights : ndarray of shape (N,), optional
        Importance of the rows: beyond :data:`MOST_ROWS`, only the most important ones have nonzero dual variables.
        By default the sizes of the targets.
    time_limit_s : float, optional
        For the backend.

    Returns
    -------
    ndarray of shape (N, k)
        Any dual point: its bound is its dual value divided by a certified bound on its dual norm.

    Raises
    ------
    MissingPackageError
        Without cvxpy.
    SolverError
        The backend stopped without a point.

    Examples
    --------
    >>> problem = Problem.through(np.eye(2), np.array([3.0, 4.0]))
    >>> dual = relaxed_dual(problem)
    >>> round(problem.scale_dual(dual, np.linalg.norm(dual))[1], 5)
    5.0
    """
    cp = required("cvxpy", "the solver 'relaxation'", "conic")
    targets = problem.targets
    counts = np.linalg.norm(targets, axis=1) if weights is None else weights
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_ROWS])
    lengths = np.linalg.norm(problem.rows[kept], axis=1)
    scaled = targets[kept] / lengths[:, None]
    size = np.abs(scaled).max() or 1.0
    dual = cp.Variable(scaled.shape)
    value = cp.sum(cp.multiply(dual, scaled / size))
    constraints = _constraints(problem.rows[kept] / lengths[:, None], dual)
    if problem.has_offset:
        total = (1.0 / lengths) @ dual
        if problem.offset_cost > 0:
            value = value - cp.sum_squares(total) / (2.0 * problem.offset_cost * size)
        else:
            constraints.append(total == 0)
    program = cp.Problem(cp.Maximize(value), constraints)
    run_backend(program, FALLBACK, time_limit_s=time_limit_s)
    found = np.zeros(targets.shape)
    found[kept] = dual.value / lengths[:, None]
    return problem.project_dual(found)


def _constraints(units: np.ndarray, dual) -> list:
    """Write the forms above for unit rows (n, r) and a variable Λ (n, k)."""
    cp = required("cvxpy", "the solver 'relaxation'", "conic")
    (n, rank), outputs = units.shape, dual.shape[1]
    heads = outputs if outputs > 1 else 0
    axes = np.eye(heads + 1 + rank + n)
    t, w, p = np.split(axes[heads:], [1, 1 + rank])
    q = p - units @ w
    lines = np.concatenate([p, q, t - p - q])
    # products of two of the last lines are sums of others
    first, second = (index[np.triu_indices(3 * n, 1)[0] < 2 * n] for index in np.triu_indices(3 * n, 1))
    one_sided = np.flatnonzero((first >= n) | (second != first + n))
    products = lines[first][:, :, None] * lines[second][:, None, :]
    columns = sparse.csc_array((0.5 * (products + products.transpose(0, 2, 1))).reshape(len(first), -1).T)
    constraints = []
    for v in [axes[:heads]] if heads else [t, -t]:
        sizes, multipliers = cp.Variable(3), cp.Variable(len(first))
        form = sizes[0] * (v.T @ v) + sizes[1] * (t.T @ t) + sizes[2] * (w.T @ w)
        mixed = v.T @ dual.T @ p
        taken = cp.reshape(columns @ multipliers, axes.shape, order="C")
        constraints += [
            form - 0.5 * (mixed + mixed.T) - taken >> 0, multipliers[one_sided] >= 0, cp.sum(sizes) <= 1
        ]  # fmt: skip
    return constraints
