"""Newton's method on a known tight set: from a gap of 1e-9 to the last digits.

With the tight (face, sign) pairs s fixed, the optimality conditions are smooth equations in the dual λ, the signed
masses z and, if there is one, the offset B:

    Σ_s z_s a_s(λ) + B·1 = y,      ‖g_s(λ)‖ = 1,      (1ᵀλ = 0 with a free offset, B = 1ᵀλ/ρ with a penalised one)

where g_s(λ) is the gradient of F within the face, w_s = ±g_s/‖g_s‖ its neuron and a_s = σ(Z w_s). The system is
often singular (w and −w both tight), so each step is the least-squares one. Nothing is believed: what comes out is
used only where the oracle and the outputs confirm that it is better than what went in.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import linprog

from covopt.certificates.tight import TightSet, tight_set
from covopt.checks.timing import stage
from covopt.oracles.base import Oracle
from covopt.problems.problem import Problem
from covopt.solvers.finish import finish_network
from covopt.solvers.master.columns import ON_PLANE

LARGEST_SYSTEM = 700
STEPS = 8
SLACK = 1e-7  # within which a place counts as tight
SOLVED = 1e-11  # residual of the conditions at which Newton's method counts as converged


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
        None where the system is too large, Newton's method does not converge or its answer is not confirmed.
    """
    tight = tight_set(problem, oracle, dual, slack=SLACK)
    if not len(tight) or len(problem.rows) + len(tight) > LARGEST_SYSTEM:
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
    lengths = np.linalg.norm(rows, axis=1)
    sign = np.sign(tight.values)
    maps = np.empty((len(tight), rank, n))  # λ ↦ gradient of F within the face
    for s, neuron in enumerate(tight.neurons):
        height = rows @ neuron / lengths
        face = rows[np.abs(height) <= ON_PLANE] / lengths[np.abs(height) <= ON_PLANE, None]
        span = np.eye(rank) - np.linalg.pinv(face, rcond=1e-8) @ face if len(face) else np.eye(rank)
        maps[s] = span @ (rows * (height > ON_PLANE)[:, None]).T
    free = problem.offset_cost == 0
    kappa = 1.0 / problem.offset_cost if problem.has_offset and not free else 0.0
    extra = np.ones((n, 1)) if free else np.zeros((n, 0))
    m, k = len(tight), extra.shape[1]
    z: np.ndarray | None = None
    for _ in range(STEPS):
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
        if np.abs(residual).max() <= SOLVED:
            return dual, neurons, sign, kappa * float(dual.sum()) if kappa else offset
        across = np.eye(rank) - neurons[:, :, None] * neurons[:, None, :]
        bend = np.einsum("sdn,s,sde,sem->nm", maps, z * sign / size, across, maps, optimize=True) + kappa
        corner = np.zeros((m + k, m + k))
        slope = np.concatenate([sign[:, None] * atoms.T, extra.T])
        system = np.block([[bend, atoms, extra], [slope, corner]])
        step = lstsq(system, residual, cond=1e-10)[0]
        dual = dual - step[:n]
        z = z - step[n : n + m]
        offset -= float(step[n + m]) if free else 0.0
    return None


def _vertex(problem: Problem, neurons, sign, offset) -> np.ndarray | None:
    """Nonnegative masses of a vertex of {Σ ± m_s a_s = y − B·1}, by the simplex method."""
    columns = problem.atoms(neurons) * sign
    targets = problem.targets[:, 0] - (offset if problem.has_offset else 0.0)
    slack = 1e-9
    result = linprog(
        np.ones(len(neurons)),
        A_ub=np.concatenate([columns, -columns]),
        b_ub=np.concatenate([targets + slack, slack - targets]),
        method="highs-ds",
    )
    return np.asarray(result.x) if result.status == 0 else None
