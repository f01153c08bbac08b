"""Proof objects: what the exact checker makes of honest and of forged ones is below every explicit network."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.forged import honest
from benchmarks.adversary.forging import forge
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.solves import (
    LOSSES,
    bound_holds,
    fit_bound_holds,
    quiet,
    random_output_bias,
    random_targets,
    verifies,
)
from covopt.certificates.prove import problem_of
from covopt.proofs.checker.arithmetic import float_below
from covopt.proofs.proof import Proof
from covopt.proofs.theorem import differs, ratio, sealed, text

BOXES = 20_000
PROVABLE = tuple(loss for loss in LOSSES if loss not in ("softmax-cross-entropy", "logistic"))


def troubled(rng: np.random.Generator) -> Outcome:
    """A proof of a bound on a troublesome table."""
    n, d = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    X, bias = tables.ALL_TABLES[str(rng.choice(list(tables.ALL_TABLES)))](rng, n, d)
    options: dict[str, Any] = {"bias": bias, "output_bias": random_output_bias(rng, bias)}
    if rng.random() < 0.5:
        loss = str(rng.choice(PROVABLE))
        Y = random_targets(loss, rng, X)
        Y = Y[:, 0] if Y.ndim == 2 else Y
        solution = quiet(covopt.fit, X, Y, lam=10.0 ** rng.uniform(-4, 0), loss=loss, **options)
    else:
        solution = quiet(covopt.min_norm, X, tables.targets(rng, X), duplicates="mean", **options)
    if not np.any(solution.dual):
        return held()
    proof = solution.prove(max_boxes=BOXES)
    bound = _checked(solution, proof)
    if bound is None:
        return refuted("the checker does not accept the solution's own proof")
    return worst([_below_networks(solution, bound, rng), verifies(solution)])


def _checked(solution: Any, proof: Proof) -> Fraction | None:
    """What a proof proves of a solution's problem, None where the checker refuses it or it is about another one."""
    data = solution.data
    if solution.loss is not None:
        data = dataclasses.replace(data, Y=solution.loss.targets)
    try:
        other = differs(proof.own, problem_of(solution, data))
        return proof.own.bound if other is None and proof.boxes else None
    except covopt.errors.CovoptError:
        return None


def _below_networks(solution: Any, bound: Fraction, rng: np.random.Generator) -> Outcome:
    lower = float_below(bound)
    if solution.loss is not None:
        return fit_bound_holds(_Stated(solution, lower), rng)
    data = solution.data
    return bound_holds(data.X, data.Y, data.bias, solution.output_bias, solution.network, lower, rng)


class _Stated:
    """A solution that states another lower bound."""

    def __init__(self, solution: Any, lower_bound: float):
        self._solution, self.lower_bound = solution, lower_bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solution, name)


# ---------------------------------------------------------------------- forged ones
def forged(rng: np.random.Generator) -> Outcome:
    """A proof with something changed: whatever the checker still proves with it is true."""
    solution = honest(rng)
    if solution.data.n_outputs > 1 or not np.any(solution.dual):
        return held()
    content, chance = solution.prove(max_boxes=BOXES).to_dict(), random.Random(int(rng.integers(2**32)))
    proof = Proof(forge(content, chance))
    bound = _checked(solution, proof)
    if bound is None:
        return held()
    return _below_networks(solution, bound, rng)


def overstated(rng: np.random.Generator) -> Outcome:
    """A proof that claims more than it proves, or that belongs to another table."""
    solution = honest(rng)
    if solution.data.n_outputs > 1 or not np.any(solution.dual):
        return held()
    proof = solution.prove(max_boxes=BOXES)
    content = proof.to_dict()
    if rng.random() < 0.5:
        more = proof.own.bound * Fraction(1001, 1000) + Fraction(1, 10**6)
        content["theorem"]["bound"] = ratio(more)
    else:
        content["theorem"]["Y"] = text(y + 1 for y in proof.own.Y)
    if quiet(covopt.verify, solution, proof=Proof(sealed(content))).ok:
        return refuted(
            f"accepted a proof of {content['theorem']['bound']}, proved was {proof.lower_bound:.9g}"
        )
    return held()


CLASSES = {"troubled": troubled, "forged": forged, "overstated": overstated}
