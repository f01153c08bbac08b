"""Frank–Wolfe over the covariance cone, from a table to a certified network: the public entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covopt.api.task import FRANK_WOLFE, Task
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
from covopt.limits import now
from covopt.losses import Interpolation, SquaredError
from covopt.problems.reduction import Reduction
from covopt.solution import Solution
from covopt.solvers.frank_wolfe import VARIANTS, CovarianceSolver, FrankWolfeState, Start


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
    """A :class:`~covopt.Solution` with the active set, to resume Frank–Wolfe; numbers are in the user's units.

    ``history`` has ``iteration``, ``time_s``, ``cost`` and ``upper_bound`` (the objective at the iterate), ``fw_gap``
    (absolute), ``lower_bound`` (the best so far), ``gap`` (relative, certified), ``n_atoms``. With ``lam > 0`` the
    loss is the sum of squares, :class:`~covopt.losses.SquaredError` with ``total=True``. It is saved as a Solution,
    and ``covopt.load`` returns a Solution: the three attributes below are not in the file.

    Attributes
    ----------
    active_set : ActiveSet
        Pass it as ``start`` to resume.
    variant : str
    regularization : float
        Largest relative multiple of the identity that factorising the covariance needed (0: none). It only shapes
        steps; every reported number is computed without it.
    """

    active_set: ActiveSet = field(default_factory=lambda: ActiveSet(np.zeros((0, 0)), np.zeros(0)))
    variant: str = ""
    regularization: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; the numbers of an iteration that are not finite are left out."""
        rounds = [
            {k: v for k, v in each.items() if isinstance(v, str) or np.isfinite(v)} for each in self.history
        ]
        return super().to_dict() | {"history": rounds}


def frank_wolfe(
    X: Any,
    Y: Any,
    *,
    bias: float = 1.0,
    output_bias: str = "none",
    variant: str = "sliding",
    lam: float | str = 0.0,
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
        Vanilla and pairwise move one atom at a time and converge sublinearly; fully-corrective optimises the masses
        on all atoms so far; sliding lets atoms follow the dual within their faces, one Newton step for each pricing.
    lam : float or str
        λ ≥ 0, or a share of λ_max as ``"0.03max"``; 0 interpolates.
    tol : float
        Relative certified gap, in (0, 1).
    max_iter : int
        Positive.
    time_limit_s : float, optional
    start : ActiveSet, optional
        Warm start: ``result.active_set`` of an earlier run.
    callback : callable, optional
        Called after every iteration with a :class:`~covopt.solvers.frank_wolfe.FrankWolfeState`; a true return value
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
        When the input cannot be used, or would take more memory than is available.
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
    max_iter = check_count("max_iter", max_iter)
    if not isinstance(lam, str):
        lam = check_number(
            "lam", lam, "a finite number, 0 (interpolate) or positive", lambda v: 0 <= v < np.inf
        )
    loss = Interpolation() if lam == 0 else SquaredError(total=True)
    task = Task(
        X, Y, loss, bias, output_bias, None, "variation", "auto", tol, random_state, duplicates=duplicates
    )
    task.solver = f"{FRANK_WOLFE}{variant}"
    lam = float(task.strengths(lam))
    task.rounds = CovarianceSolver(
        variant, max_iter, _check_start(start, task.data, task.reduced(lam or 1.0)[1])
    )
    return solve_by_frank_wolfe(task, time_limit_s, callback, began, lam)


def solve_by_frank_wolfe(
    task: Task, time_limit_s: float | None, callback: Callable[[FrankWolfeState], Any] | None, began: float,
    lam: float = 0.0,
) -> FrankWolfeSolution:  # fmt: skip
    """Solve by the variant of a task, and add the active set."""
    assert task.rounds is not None
    found = task.solve(lam or 1.0, time_limit_s, callback, None, began)
    return _with_masses(found, task.rounds, task.reduced(lam or 1.0)[1])


def _with_masses(found: Solution, rounds: CovarianceSolver, reduction: Reduction) -> FrankWolfeSolution:
    """Return the solution with the active set of Frank–Wolfe, in the user's units."""
    neurons, masses = rounds.active_set or (np.zeros((0, reduction.basis.shape[1])), np.zeros(0))
    active = ActiveSet(neurons @ reduction.basis.T, masses * reduction.value_scale)
    history = [
        {"upper_bound": np.inf, "fw_gap": np.inf} | each | {
            "iteration": each["round"], "cost": each.get("upper_bound", np.inf), "n_atoms": each["n_columns"]
        }
        for each in found.history
    ]  # fmt: skip
    return FrankWolfeSolution(
        **vars(found) | {"history": history, "lam": found.lam or 0.0},
        active_set=active,
        variant=rounds.variant,
        regularization=rounds.jitter,
    )


def _check_start(start: Any, data: Data, reduction: Reduction) -> Start | None:
    if start is None:
        return None
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
    # the part of a neuron outside the data's span has no effect and is dropped; masses carry the squared lengths
    return inner[kept] / lengths[kept, None], masses[kept] * lengths[kept] ** 2 / reduction.value_scale
