r"""Duals with a small relaxation bound: they are bounded quickly, where bounding the optimal dual takes too long.

The bound B(Λ) ≥ h(Λ) of :class:`~covopt.oracles.bounds.Relaxation` is convex, and at every Λ it returns outputs A
with, approximately, B(Λ') ≥ ⟨Λ', A⟩ for all Λ'. As columns beside the neurons of a network they are cutting planes:

    min over m ≥ 0, B    C(Σ_j m_j A_j + 1Bᵀ)/μ + Σ_j m_j + ½ ρ ‖B‖²,    Λ = −∇C/μ there,

and the next dual is half way to this one from the best so far. Each, divided by its B, gives a lower bound. On noise
in many dimensions B is up to 2 at the optimal dual, and smaller at a dual near it (diabetes, 442 × 10, at λ_max/10:
.74 of the objective becomes .80 within a second).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize

from covopt.exact.rank import ROUGH
from covopt.limits import checkpoint
from covopt.oracles.base import remember
from covopt.oracles.bounds import Relaxation
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import STEPS, Network

STALE = 12  # consecutive duals that hardly raise the bound, after which to stop
MOST_NUMBERS = 30_000_000  # in the columns; the oldest are dropped


def relaxed_duals(problem: Problem, network: Network, dual: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Yield duals (N, k) that raise the lower bound, and bounds on their h, until the lower bound stalls.

    Parameters
    ----------
    problem : Problem
        With a loss.
    network : Network
        Its neurons are the first columns.
    dual : ndarray of shape (N, k)

    Examples
    --------
    >>> from itertools import islice
    >>> from covopt.losses import make_loss
    >>> loss, rows = make_loss("squared"), np.eye(3)
    >>> _ = loss.encode_targets([3.0, 4.0, -6.0])
    >>> problem = Problem(rows, loss, 0.1)
    >>> network = Network(np.eye(3)[:2], np.ones((2, 1)), np.zeros(1))
    >>> found = islice(relaxed_duals(problem, network, loss.targets), 2)
    >>> first, second = (problem.scale_dual(*each)[1] for each in found)
    >>> bool(second > first)
    True
    """
    live = problem.live
    rows = problem.rows[live]
    sizes = np.linalg.norm(network.weights, axis=1)
    atoms = np.maximum(rows @ network.neurons.T, 0.0)
    columns = atoms.T[:, :, None] * (network.weights / sizes[:, None])[:, None, :]
    masses, offset, since = sizes, network.offset, 0
    best, centre, relaxation = -np.inf, dual, Relaxation(rows)
    while since < STALE:
        checkpoint()
        found, since = relaxation.bound(dual[live]), since + 1
        if problem.scale_dual(dual, found.value)[1] > best:
            dual_norm = found.proved()
            remember(rows, dual[live], dual_norm)  # for later checks
            scaled, value = problem.scale_dual(dual, dual_norm)
            if value > best:
                since = 0 if value > (1.0 + ROUGH) * best else since
                best, centre = value, scaled
                yield dual, dual_norm
        columns = np.concatenate([columns, found.atoms])
        masses = np.concatenate([masses, np.zeros(len(found.atoms))])
        spare = max(len(columns) - max(MOST_NUMBERS // columns[0].size, 2 * STALE), 0)
        columns, masses = columns[spare:], masses[spare:]
        masses, offset, dual = _least(problem, live, columns, masses, offset)
        dual = problem.project_dual(0.5 * (centre + dual))


def _least(
    problem: Problem, live: np.ndarray, columns: np.ndarray, masses: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the objective over the columns; return masses, offset and the dual there."""
    m, flat = len(columns), columns.reshape(len(columns), -1)
    unit = 1.0 / np.sqrt(max(problem.offset_cost, 1.0)) if problem.has_offset else 0.0
    fitted = np.zeros(problem.dual_shape)

    def outputs(variables: np.ndarray) -> np.ndarray:
        fitted[live] = (variables[:m] @ flat).reshape(-1, fitted.shape[1])
        return fitted + unit * variables[m:]

    def objective(variables: np.ndarray) -> tuple[float, np.ndarray]:
        checkpoint()
        at, shift = outputs(variables), unit * variables[m:]
        pull = problem.dual_of(at)
        value = problem.loss.value(problem.raise_outputs(at)) / problem.strength + variables[:m].sum()
        slope = np.concatenate([1.0 - flat @ pull[live].ravel(), -unit * pull.sum(axis=0)])
        if problem.has_offset:
            value += 0.5 * problem.offset_cost * float(shift @ shift)
            slope[m:] += unit * problem.offset_cost * shift
        return value, slope

    start = np.concatenate([masses, offset / unit if unit else 0.0 * offset])
    scale = 1.0 / max(abs(objective(start)[0]), 1e-300)
    found = minimize(
        lambda variables: tuple(scale * part for part in objective(variables)), start, jac=True, method="L-BFGS-B",
        bounds=[(0.0, None)] * m + [(None, None)] * len(offset),
        options={"maxcor": 30, "maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-13, "gtol": 0.0},
    )  # fmt: skip
    return found.x[:m], unit * found.x[m:], problem.dual_of(outputs(found.x))
