"""Attacks by files, not by tables: costly networks, nearly the same table, edited warm starts.

Also a network whose kinks cancel.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import fractions, outputs
from benchmarks.adversary.forged import accepted, honest
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.solves import bound_holds, quiet, random_output_bias, verifies
from covopt.depth import function_brackets
from covopt.losses import INTERPOLATES
from covopt.network import DeepReLUNetwork

CLEARLY = 1e-6  # smallest relative amount by which a stated bound is raised
STRENGTHS = [0.1, 0.01]


# ---------------------------------------------------------------------- files
def costly(rng: np.random.Generator) -> Outcome:
    """Add two cancelling neurons that make the network costly; a raised bound must still be refused."""
    solution = honest(rng)
    if not np.any(solution.dual) or solution.lower_bound <= 0:
        return held()
    content = copy.deepcopy(solution.to_dict())
    net, size = content["network"], 10.0 ** rng.uniform(1, 8)
    way = rng.standard_normal(solution.network.hidden_weights.shape[1])
    out = rng.standard_normal(solution.data.n_outputs)
    net["hidden_weights"] += [(size * way).tolist()] * 2
    net["output_weights"] += [(size * out).tolist(), (-size * out).tolist()]
    net["n_neurons"] += 2
    padded = covopt.Solution.from_dict(content)
    fit, cost = solution.loss is not None, padded.network.squared_norm
    upper = cost
    if fit:
        upper = float(solution.lam) * cost
        padded_loss = float(solution.loss.value(padded.network.bare().predict(solution.data.X)))
        content["certificate"] |= {"loss_value": padded_loss, "objective": upper + padded_loss}
        upper += padded_loss
    lower = min(solution.lower_bound * (1 + 10.0 ** rng.uniform(np.log10(CLEARLY), 7)), 0.9 * upper)
    content |= {"cost": cost, "lower_bound": lower, "gap": 1 - lower / upper, "status": "gap"}
    if lower > solution.lower_bound * (1 + CLEARLY) and accepted(content):
        return refuted(f"accepted a bound of {lower:.9g}, {solution.lower_bound:.9g} is proved")
    return held()


def dual_norm(rng: np.random.Generator) -> Outcome:
    """State a dual norm below the value of the network's own neurons, for a solution whose oracle is not exact."""
    n = int(rng.integers(2, 6))
    solution = quiet(
        covopt.min_norm, rng.standard_normal((n, 2)), rng.standard_normal(n), solver="relaxation"
    )
    content = copy.deepcopy(solution.to_dict())
    content["certificate"]["gauge"] *= 1 - 10.0 ** rng.uniform(-3, 0)
    return refuted("accepted a dual norm that is too small") if accepted(content) else held()


def table(rng: np.random.Generator) -> Outcome:
    """Verify a solution for another table, within 1e-12 of the largest entries; its bound has to hold there."""
    n = int(rng.integers(3, 6))
    X, Y = rng.standard_normal((n, 1)), rng.standard_normal(n)
    near = 10.0 ** rng.uniform(-12, -8)
    X[0], X[1], X[-1] = 0.0, near, 1e3
    other = X.copy()
    other[1] += float(rng.choice([-0.5, 1.0, 9.0])) * near * rng.random()
    fit = bool(rng.random() < 0.5)
    options: dict[str, Any] = {"output_bias": random_output_bias(rng, 1.0), "time_limit_s": 3.0}
    if fit:
        options["lam"] = 10.0 ** rng.uniform(-12, -2)
    solution = quiet(covopt.fit if fit else covopt.min_norm, X, Y, **options)
    order = rng.permutation(n)
    if not quiet(covopt.verify, solution, other[order], Y[order]).ok:
        return held()
    moved = quiet(covopt.fit if fit else covopt.min_norm, other, Y, **options)  # for its table and its loss
    return bound_holds(moved, rng, solution.lower_bound)


def residual(rng: np.random.Generator) -> Outcome:
    """Check in fractions, not only in doubles, that a network claimed to interpolate far points does so."""
    X, bias = tables.small(rng, "far", "units", "row-sizes", "odd-bias", least=2, most=6)
    Y, output_bias = tables.targets(rng, X), random_output_bias(rng, bias)
    solution = quiet(
        covopt.min_norm, X, Y, bias=bias, output_bias=output_bias, duplicates="mean", time_limit_s=3.0
    )
    if not solution.certificate.interpolates:
        return held()
    goals = fractions(solution.data.Y)
    size = abs(goals).max() or Fraction(1)
    worst_miss = abs(outputs(solution.data.X, solution.network) - goals).max() / size
    if worst_miss > INTERPOLATES * (1 + 1e-6):
        return refuted(
            f"misses by {float(worst_miss):.2e} of max |y|, stated {solution.certificate.residual:.2e}"
        )
    return held()


# ---------------------------------------------------------------------- starts
def start(rng: np.random.Generator) -> Outcome:
    """Check that the solution from an edited warm start verifies, and that its bound is below explicit networks."""
    n = int(rng.integers(3, 6))
    X, Y = rng.standard_normal((n, 1)), rng.standard_normal(n)
    content = quiet(covopt.fit, X, Y, lam=STRENGTHS[0]).to_dict()
    name = str(rng.choice(["lower_bound", "cost", "tol", "gap", "dual", "output_weights"]))
    factor = 10.0 ** rng.uniform(-3, 3)
    holder = content["network"] if name == "output_weights" else content
    holder[name] = (factor * np.array(holder[name])).tolist()
    if name == "tol":
        content["tol"], content["dual"] = 0.99, (0.5 * np.array(content["dual"])).tolist()
    forged = covopt.Solution.from_dict(content)
    found = [quiet(covopt.fit, X, Y, lam=lam, start=forged) for lam in STRENGTHS]
    return worst([held(), *(o for s in found for o in (verifies(s), bound_holds(s, rng)))])


# ---------------------------------------------------------------------- functions
def function(rng: np.random.Generator) -> Outcome:
    """Check the lower bound for a function with cancelling kinks against a network without these kinks."""
    d, width, k = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    inner = rng.integers(-3, 4, (width, d)).astype(float)
    shift, outer = rng.integers(-2, 3, width).astype(float), rng.integers(-2, 3, (k, width)).astype(float)
    kinks = int(rng.integers(1, 4))
    ways = rng.integers(-2, 3, (kinks, d)).astype(float)
    rise = rng.integers(-4, 5, (k, kinks)).astype(float)
    # c σ(u·x) − c σ(−u·x) = c u·x, which neurons active on the whole box subtract again
    away = -rise @ ways
    top = np.abs(away).sum(axis=1) + 1.0
    wasteful = DeepReLUNetwork(
        [np.vstack([inner, ways, -ways, away]), np.hstack([outer, rise, -rise, np.eye(k)])],
        [np.concatenate([shift, np.zeros(2 * kinks), top]), -top],
    )
    X = rng.integers(-2, 3, (int(rng.integers(1, 6)), d)) / 2.0
    for L, low, _ in function_brackets(wasteful, X, (2, 3, int(rng.integers(4, 40)))):
        own = sum(
            (Fraction(v) ** 2 for part in (inner, shift, outer) for v in part.ravel().tolist()), Fraction(0)
        )
        if Fraction(low) > own + (L - 2) * width:
            return refuted(f"depth {L}: {low:.9g} is above a network of {float(own) + (L - 2) * width:.9g}")
    return held()


CLASSES: dict[str, Callable[[np.random.Generator], Outcome]] = {
    "costly": costly, "gauge": dual_norm, "table": table, "residual": residual, "start": start,
    "function": function,
}  # fmt: skip
