"""The tight set: all (cell, sign) pairs where the dual function reaches one. It supports every minimiser.

**Newton's method on a known tight set** leads from a gap of 1e-9 to the last digits (:func:`sharpen`). With the tight
(face, sign) pairs s fixed, the optimality conditions are smooth equations in the dual λ, the signed masses z and, if
there is one, the offset B:

    Σ_s z_s a_s(λ) + B·1 = y,      ‖g_s(λ)‖ = 1,      (1ᵀλ = 0 with a free offset, B = 1ᵀλ/ρ with a penalised one)

where g_s(λ) is the gradient of F within the face, w_s = ±g_s/‖g_s‖ its neuron and a_s = σ(Z w_s). The system is
often singular (w and −w both tight), so each step solves a least-squares problem. The result is used only if the
oracle and the outputs confirm that it is better than the start.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import LinearConstraint, milp

from covopt.checks import Brief
from covopt.checks.log import stage
from covopt.checks.memory import plan
from covopt.errors import BudgetError, Status
from covopt.exact.elimination import integer_array
from covopt.exact.rank import ATOMS, FOUND, NEAR, ROUGH, null_space
from covopt.oracles.base import MOST_KEPT, Oracle, affords
from covopt.oracles.cascade import exact_oracle
from covopt.potentials import HINGE
from covopt.problems.problem import Problem
from covopt.solvers.loop import Point
from covopt.solvers.postprocess import finish_network


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
        Whether these are proved to be all maximisers. With one output each closed cell has one per sign; with more,
        a double top eigenvalue gives an arc of maximisers.
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
        """Return the outputs vec Y of each neuron with unit mass, shape (N, m) or (N·k, m)."""
        atoms = problem.atoms(self.neurons)
        if problem.is_scalar:
            return atoms * self.outputs
        n, k = len(atoms), self.outputs.shape[1]
        return (atoms[:, None, :] * self.outputs.T[None, :, :]).reshape(n * k, len(self))

    def system(self, problem: Problem, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the linear system for masses and a free offset: its columns and its right-hand side."""
        columns = self.columns(problem)
        if not problem.is_free:
            return columns, (problem.targets - offset if problem.has_offset else problem.targets).ravel()
        moves = np.tile(np.eye(problem.n_outputs), (len(problem.targets), 1))
        return np.column_stack([columns, moves]), problem.targets.ravel()


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
        If memory does not suffice to compare all pairs.
    """
    pricing = oracle.price(problem.asked(dual), threshold=1.0 - slack, complete=True)
    tight = np.abs(pricing.values) >= 1.0 - slack
    neurons, values = pricing.neurons[tight], pricing.values[tight]
    units = problem.rows / np.linalg.norm(problem.rows, axis=1, keepdims=True)
    needed = len(neurons) * (17.0 * len(units) + 12.0 * len(neurons))
    plan(needed, "It is not computed.", what=f"a tight set of {len(neurons)}", error=BudgetError)
    side = neurons @ units.T
    side = np.sign(np.where(np.abs(side) > HINGE, side, 0.0)).astype(np.int8)
    found = (
        _vector_set(problem, dual, neurons, values)
        if not problem.is_scalar
        else _scalar_set(neurons, values, side)
    )
    return found if getattr(oracle, "sees_all", True) else replace(found, isolated=False)


def _scalar_set(neurons, values, side) -> TightSet:
    above, below = (side > 0).astype(np.float32), (side < 0).astype(np.float32)
    together = (above @ below.T + below @ above.T == 0) & (values[:, None] * values > 0)
    kept: list[int] = []
    for j in range(len(neurons)):
        # a closed cell has one maximiser per sign: drop neurons that share a cell with a better one
        if not together[j, kept].any():
            kept.append(j)
    return TightSet(neurons[kept], values[kept], np.sign(values[kept]))


def _vector_set(problem, dual, neurons, values) -> TightSet:
    kept: list[int] = []
    for j in range(len(neurons)):
        if not kept or np.linalg.norm(neurons[kept] - neurons[j], axis=1).min() > NEAR:
            kept.append(j)
    outputs = problem.atoms(neurons[kept]).T @ dual
    outputs = outputs / np.linalg.norm(outputs, axis=1, keepdims=True)
    return TightSet(neurons[kept], values[kept], outputs, isolated=False)


@dataclass(frozen=True)
class Face:
    """A unit neuron with the face in whose relative interior it lies."""

    neuron: np.ndarray
    sign: float
    active: np.ndarray
    silent: np.ndarray
    inner: np.ndarray  # orthonormal basis of the span of the face, as columns
    angle: float  # to the nearest row that is not silent

    @classmethod
    def of(cls, rows: np.ndarray, neuron: np.ndarray, sign: float) -> Face:
        """Return the face of a computed neuron."""
        lengths = np.linalg.norm(rows, axis=1)
        heights = rows @ neuron / lengths
        silent = np.abs(heights) <= HINGE
        inner = null_space(rows[silent] / lengths[silent, None], FOUND)
        snapped = inner @ (inner.T @ neuron)
        size = float(np.linalg.norm(snapped))
        if size < 0.5:  # not a face in doubles
            return cls(neuron, sign, heights > 0, silent, inner, 0.0)
        angle = math.asin(min(1.0, float(np.abs(heights[~silent]).min(initial=1.0)))) - 2.0 * HINGE
        return cls(snapped / size, sign, heights > HINGE, silent, inner, angle)

    def same(self, other: Face) -> bool:
        """Whether it is this face, with this sign."""
        return (
            self.sign == other.sign
            and bool((self.active == other.active).all())
            and bool((self.silent == other.silent).all())
        )

    def gradient(self, rows: np.ndarray) -> np.ndarray:
        """λ ↦ the gradient of F within the face, (r, N)."""
        return self.inner @ self.inner.T @ (rows * self.active[:, None]).T

    def ways_out(self, rows: np.ndarray, given: np.ndarray) -> np.ndarray | None:
        """λ ↦ slopes of sign·F on the extreme rays out of the face, (rays, N); None if there are too many.

        Rays on which the slope is zero for all λ are left out: on them F is at most the cosine of the angle.
        """
        silent = np.flatnonzero(self.silent)
        codim = rows.shape[1] - self.inner.shape[1]
        if codim == 0:
            return np.zeros((0, len(rows)))
        if math.comb(len(silent), codim - 1) > MOST_KEPT:
            return None
        beside = _orthogonal(given[self.active], given[silent])
        outer = rows @ np.linalg.svd(self.inner, full_matrices=True)[0][:, self.inner.shape[1] :]
        sizes = np.linalg.norm(outer[silent], axis=1)
        found = []
        for chosen in itertools.combinations(silent.tolist(), codim - 1):
            _, singular, right = np.linalg.svd(outer[list(chosen)].reshape(codim - 1, codim))
            if len(singular) and singular.min() <= FOUND * sizes.max():
                continue  # dependent: no extreme ray
            for ray in (right[-1], -right[-1]):
                heights = outer @ ray
                heights[list(chosen)] = 0.0
                others = ~np.isin(silent, chosen)
                if beside and (heights[silent] < -FOUND * sizes)[others].all():
                    continue
                found.append(
                    self.sign * np.where(self.silent, np.maximum(heights, 0.0), self.active * heights)
                )
        return np.array(found).reshape(-1, len(rows))


def _orthogonal(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether all rows of the one are orthogonal to all of the other, in exact arithmetic."""
    if not np.allclose(first @ second.T, 0.0, atol=FOUND * float(np.abs(first).max(initial=0.0))):
        return False
    return not (integer_array(first)[0] @ integer_array(second)[0].T).any()


@stage("finishing")
def sharpen(
    problem: Problem, oracle: Oracle, dual: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Return a dual at rounding distance from optimal and a vertex of the set of minimisers.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Exact, for one output.
    dual : ndarray of shape (N, 1)
        Feasible, with a relative gap of about 1e-9: its tight set must be the right one.
    offset : ndarray of shape (1,)

    Returns
    -------
    (dual, neurons, weights, offset) or None
        None if the system is too large, Newton's method does not converge or its result is not confirmed.
    """
    tight = tight_set(problem, oracle, dual, slack=NEAR)
    if not len(tight) or not affords(20.0 * (len(problem.rows) + len(tight)) ** 3):
        return None
    solved = _newton(problem, tight, dual[:, 0], float(offset[0]))
    if solved is None:
        return None
    sharp, neurons, sign, shift = solved
    bound = oracle.price(sharp, threshold=np.inf).upper_bound
    old, new = problem.dual_value(dual), problem.scale_dual(sharp[:, None], bound)
    if not new[1] >= old * (1 - 1e-12):
        return None
    masses = _vertex(problem, neurons, sign, shift)
    if masses is None:
        return None
    used = masses > 1e-12 * masses.max(initial=0.0)
    signed = (sign * masses)[used, None]
    network = finish_network(problem, neurons[used], signed, np.array([shift]))
    value = problem.network_value(*network[1:])
    if problem.missed(*network) > 1e-11 or abs(value - new[1]) > 1e-10 * abs(value):
        return None
    return new[0], *network


def _newton(problem: Problem, tight: TightSet, dual: np.ndarray, offset: float):
    rows, targets = problem.rows, problem.targets[:, 0]
    n, rank = rows.shape
    sign = np.sign(tight.values)
    faces = [Face.of(rows, *each) for each in zip(tight.neurons, sign, strict=True)]
    maps = np.array([face.gradient(rows) for face in faces])
    free, kappa = problem.is_free, problem.kappa
    extra = np.ones((n, 1)) if free else np.zeros((n, 0))
    m, k = len(tight), extra.shape[1]
    z: np.ndarray | None = None
    last = np.inf
    while True:  # a step that gains less than three digits is one of a singular system
        gradient = maps @ dual
        size = np.linalg.norm(gradient, axis=1)
        if not size.min(initial=1.0) > 0.5:
            return None
        neurons = sign[:, None] * gradient / size[:, None]
        atoms = np.einsum("sdn,sd->ns", maps, neurons)
        if z is None:
            fixed = targets - (kappa * dual.sum() if kappa else 0.0)
            start = lstsq(np.column_stack([atoms, extra]), fixed, cond=1e-8)[0]
            z, offset = start[:m], float(start[m]) if free else 0.0
        outputs = atoms @ z + (kappa * dual.sum() if kappa else offset)
        residual = np.concatenate([outputs - targets, size - 1.0, extra.T @ dual])
        largest = float(np.abs(residual).max())
        if largest <= ATOMS:
            return dual, neurons, sign, kappa * float(dual.sum()) if kappa else offset
        if not largest <= ROUGH * last:
            return None
        last = largest
        across = np.eye(rank) - neurons[:, :, None] * neurons[:, None, :]
        bend = np.einsum("sdn,s,sde,sem->nm", maps, z * sign / size, across, maps, optimize=True) + kappa
        corner = np.zeros((m + k, m + k))
        slope = np.concatenate([sign[:, None] * atoms.T, extra.T])
        system = np.block([[bend, atoms, extra], [slope, corner]])
        step = lstsq(system, residual, cond=1e-10)[0]
        dual = dual - step[:n]
        z = z - step[n : n + m]
        offset -= float(step[n + m]) if free else 0.0


def _vertex(problem: Problem, neurons, sign, offset) -> np.ndarray | None:
    """Nonnegative masses of a vertex of {Σ ± m_s a_s = y − B·1}, by the simplex method."""
    columns = problem.atoms(neurons) * sign
    targets = problem.targets[:, 0] - (offset if problem.has_offset else 0.0)
    result = milp(
        np.ones(len(neurons)), constraints=LinearConstraint(columns, targets - 1e-9, targets + 1e-9)
    )
    return result.x if result.status == 0 else None


def sharpened(problem: Problem, point: Point) -> Point:
    """Refine a point to the last digits by Newton's method on its tight set, if it is close enough."""
    sharp = None
    if not problem.is_scalar or point.status is not Status.CERTIFIED:
        return point
    with contextlib.suppress(BudgetError):
        sharp = sharpen(problem, exact_oracle(problem.rows, 0), point.dual, point.offset)
    if sharp is None:
        return point
    dual, neurons, weights, offset = sharp
    return replace(
        point, dual=dual, neurons=neurons, weights=weights, offset=offset, dual_low=None, finished=False
    )
