"""Find the values in ``references.json``: ``python -m tests.bank.make_references [--all]`` (minutes).

A cone program over finitely many neurons (cvxpy, Clarabel), to which the maximisers of its dual over all faces are
added until none is violated: the bracket closes, so each value carries its own proof.
"""

from __future__ import annotations

import json
import sys

import cvxpy as cp
import numpy as np

from tests.bank.problems import COMBINATIONS, REFERENCES, Problem

GAP = 2e-8  # of the bracket where rounds end
ALLOWED = 2e-7  # of a bracket that is written
ROUNDS = 60
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def loss_expression(problem: Problem, F: cp.Expression) -> cp.Expression:
    """C(F)."""
    Y, N = problem.targets, len(problem.targets)
    if problem.loss is None:
        return cp.Constant(0.0)
    if problem.loss == "squared":
        return cp.sum_squares(F - Y) / N
    if problem.loss == "huber":
        return 0.5 * cp.sum(cp.huber(F - Y, 1.0)) / N
    if problem.loss == "softmax-cross-entropy":
        return cp.sum(cp.log_sum_exp(F, axis=1) - cp.sum(cp.multiply(Y, F), axis=1)) / N
    margin = cp.multiply(Y, F)
    kinds = {
        "logistic": lambda m: cp.logistic(-m),
        "hinge": lambda m: cp.pos(1 - m),
        "squared-hinge": lambda m: cp.square(cp.pos(1 - m)),
    }
    return cp.sum(kinds[problem.loss](margin)) / N


def program(problem: Problem, outputs, cost):
    """Solve over an affine ``outputs`` (N, k) at ``cost``; return the value and Λ."""
    N, k = problem.targets.shape
    F = cp.Variable((N, k))
    B = cp.Variable((1, k))
    if problem.output_bias != "none":
        outputs = outputs + np.ones((N, 1)) @ B
    if problem.output_bias == "penalized":
        cost = cost + problem.lam * cp.sum_squares(B) / problem.bias**2
    meets = outputs == F
    constraints = [meets] if problem.loss is not None else [meets, problem.targets == F]
    posed = cp.Problem(cp.Minimize(loss_expression(problem, F) + cost), constraints)
    for options in (TIGHT, {}, {"equilibrate_enable": False}):  # it may fail on the last digits
        try:
            posed.solve(solver=cp.CLARABEL, **options)
        except cp.SolverError:
            continue
        if F.value is not None:
            break
    else:
        raise cp.SolverError(problem.name)
    return posed.value, np.reshape(meets.dual_value, (N, k)) / problem.price


def feasible(problem: Problem, dual: np.ndarray) -> tuple[float, np.ndarray]:
    """Best value of a multiple of Λ that is feasible, and Λ itself moved into its domain."""
    dual = problem.clip(-problem.price * dual) / -problem.price
    if problem.output_bias == "free":
        for _ in range(200):  # onto the domain and the sum zero, in turns
            dual = dual - dual.mean(axis=0)
            dual = problem.clip(-problem.price * dual) / -problem.price
        dual = dual - dual.mean(axis=0)
    height = problem.arrangement.gauge(dual, problem.potential)
    return max(problem.dual_value(dual * t / max(height, 1.0)) for t in (1.0, 1 - 1e-12)), dual


def solve(problem: Problem) -> tuple[float, float]:
    """Return values of a network and of a feasible dual."""
    rng = np.random.default_rng(0)
    space = problem.arrangement
    atoms = [np.zeros((0, len(problem.rows)))]
    dual = rng.standard_normal(problem.targets.shape)
    best = (np.inf, -np.inf)
    for _ in range(ROUNDS):
        _, found, weights = space.price(dual, problem.potential)
        values = np.linalg.norm(found @ dual, axis=1) / weights
        least = 1 - 1e-4 if best[0] < np.inf else (0.0 if problem.loss is None else 0.3 * values.max())
        units = (found / weights[:, None])[values > least]
        atoms.append(units)
        every = np.unique(np.round(np.concatenate(atoms), 9), axis=0)
        v = cp.Variable((len(every), problem.targets.shape[1]))
        try:
            value, raw = program(problem, every.T @ v, problem.price * cp.sum(cp.norm(v, 2, axis=1)))
        except (
            cp.SolverError
        ):  # too many atoms that are nearly the same: what is found is judged by its bracket
            break
        sizes = np.linalg.norm(v.value, axis=1)
        atoms = [every[(sizes > 1e-7 * sizes.max()) | (np.linalg.norm(every @ raw, axis=1) > 0.9)]]
        signed = max((feasible(problem, sign * raw) for sign in (1.0, -1.0)), key=lambda pair: pair[0])
        best = (min(best[0], value), max(best[1], signed[0]))
        dual = signed[1]
        if best[0] - best[1] <= GAP * abs(best[0]):
            break
    return best


def main() -> None:
    """Fill in what is missing or of another table; everything with ``--all``."""
    known = json.loads(REFERENCES.read_text()) if REFERENCES.exists() and "--all" not in sys.argv else {}
    stored: dict[str, dict] = {}
    for problem in COMBINATIONS:
        if known.get(problem.name, {}).get("of") == problem.digest:
            stored[problem.name] = known[problem.name]
            continue
        primal, dual = solve(problem)
        gap = (primal - dual) / abs(primal)
        line = f"{problem.name:<55} {primal:.12g} gap {gap:.1e}"
        if not -1e-9 <= gap <= ALLOWED:
            sys.exit(f"{line}: the bracket is open")
        print(line, flush=True)
        stored[problem.name] = {"primal": primal, "dual": dual, "of": problem.digest}
        write(stored)


def write(stored: dict[str, dict]) -> None:
    """One problem a line."""
    lines = (f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in stored.items())
    REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
