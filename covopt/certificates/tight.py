"""The tight set: all (cell, sign) pairs where the dual function reaches one. Every minimiser lives there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from covopt.checks.memory import memory_left, plan
from covopt.checks.wording import Brief
from covopt.errors import BudgetError
from covopt.oracles.base import Oracle
from covopt.problems.problem import Problem
from covopt.solvers.master.columns import ON_PLANE

SAME = 1e-7  # distance of unit neurons below which they are one maximiser
MOST_SILENT = 7  # hyperplanes through a neuron up to which all faces around it are looked at


@dataclass(frozen=True, repr=False)
class TightSet(Brief):
    """Maximisers of |⟨λ, σ(Z w)⟩|, one per (closed cell, sign), best first; or of ‖Λᵀσ(Z w)‖, each one.

    Attributes
    ----------
    neurons : ndarray of shape (m, D)
        Unit directions.
    values : ndarray of shape (m,)
        ⟨λ, a(w)⟩, signed, for a λ with h(λ) ≤ 1; ‖Λᵀa(w)‖ with vector outputs.
    outputs : ndarray of shape (m,) or (m, k)
        The direction of each neuron's output weight in every minimiser: a sign, or Λᵀa(w)/‖Λᵀa(w)‖.
    isolated : bool
        Whether these are known to be all maximisers, each isolated. With one output each closed cell has one per
        sign; with more, a form whose largest eigenvalue is double has a whole arc of them.
    """

    neurons: np.ndarray
    values: np.ndarray
    outputs: np.ndarray
    isolated: bool = True

    def __len__(self) -> int:
        return len(self.neurons)

    def within(self, slack: float) -> TightSet:
        """Return those with value at least 1 − slack."""
        keep = np.abs(self.values) >= 1.0 - slack
        return TightSet(self.neurons[keep], self.values[keep], self.outputs[keep], self.isolated)

    def columns(self, problem: Problem) -> np.ndarray:
        """Return what one unit of mass on each neuron adds to vec Y, shape (N, m) or (N·k, m)."""
        atoms = problem.atoms(self.neurons)
        if problem.is_scalar:
            return atoms * self.outputs
        return (atoms[:, None, :] * self.outputs.T[None, :, :]).reshape(-1, len(self))


def tight_set(problem: Problem, oracle: Oracle, dual: np.ndarray, *, slack: float) -> TightSet:
    """Collect the local maxima within ``slack`` of one.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Exact.
    dual : ndarray of shape (N, k)
        Feasible.
    slack : float

    Raises
    ------
    BudgetError
        When there are so many that memory has no room to compare them.
    """
    pricing = oracle.price(problem.asked(dual), threshold=1.0 - slack, complete=True)
    tight = np.abs(pricing.values) >= 1.0 - slack
    neurons, values = pricing.neurons[tight], pricing.values[tight]
    units = problem.rows / np.linalg.norm(problem.rows, axis=1, keepdims=True)
    needed = len(neurons) * (17.0 * len(units) + 12.0 * len(neurons))
    plan(
        needed, memory_left(needed), "It is not computed.", what=f"a tight set of {len(neurons)}", error=BudgetError
    )  # fmt: skip
    side = neurons @ units.T
    side = np.sign(np.where(np.abs(side) > ON_PLANE, side, 0.0)).astype(np.int8)
    found = (
        _vector_set(problem, dual, neurons, values, side, slack)
        if not problem.is_scalar
        else _scalar_set(neurons, values, side)
    )
    return found if getattr(oracle, "sees_all", True) else replace(found, isolated=False)


def _scalar_set(neurons, values, side) -> TightSet:
    above, below = (side > 0).astype(np.float32), (side < 0).astype(np.float32)
    together = (above @ below.T + below @ above.T == 0) & (values[:, None] * values > 0)
    kept: list[int] = []
    for j in range(len(neurons)):
        # a closed cell has one maximiser per sign: what shares a cell with a better one is not another
        if not together[j, kept].any():
            kept.append(j)
    return TightSet(neurons[kept], values[kept], np.sign(values[kept]))


def _vector_set(problem, dual, neurons, values, side, slack) -> TightSet:
    kept: list[int] = []
    for j in range(len(neurons)):
        if not kept or np.linalg.norm(neurons[kept] - neurons[j], axis=1).min() > SAME:
            kept.append(j)
    outputs = problem.atoms(neurons[kept]).T @ dual
    outputs = outputs / np.linalg.norm(outputs, axis=1, keepdims=True)
    isolated = all(_is_isolated(problem.rows, dual, side[j], slack) for j in kept)
    return TightSet(neurons[kept], values[kept], outputs, isolated)


def _is_isolated(rows: np.ndarray, dual: np.ndarray, side: np.ndarray, slack: float) -> bool:
    """Whether no arc of maximisers ends in this one.

    An arc runs inside a face F whose closure holds the neuron, and there it maximises wᵀQ_F w over the sphere in
    the face's span: Q_F has the double eigenvalue 1, its largest. So every face around the neuron is looked at, in
    all sign patterns of the silent rows (more than there are).
    """
    silent = np.flatnonzero(side == 0)
    if len(silent) > MOST_SILENT:
        return False
    near = max(10.0 * slack, 1e-6)
    base = (rows * (side > 0)[:, None]).T @ dual
    for signs in itertools.product((0, 1, -1), repeat=len(silent)):
        pattern = np.array(signs, dtype=int)
        active, fixed = silent[pattern > 0], rows[silent[pattern == 0]]
        form = base + rows[active].T @ dual[active]
        if len(fixed):
            _, size, right = np.linalg.svd(fixed / np.linalg.norm(fixed, axis=1, keepdims=True))
            form = right[int((size > 1e-9).sum()) :] @ form
        singular = np.linalg.svd(form, compute_uv=False)
        if len(singular) > 1 and singular[1] >= 1.0 - near and singular[0] <= 1.0 + near:
            return False
    return True
