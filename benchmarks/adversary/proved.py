"""Proof objects: what the exact checker makes of honest and of forged ones is below every explicit network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.forged import honest
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
from covopt.certificates.prove import multipliers_of, problem_of
from covopt.proofs.checker.arithmetic import float_below
from covopt.proofs.checker.theorem import check_proof
from covopt.proofs.proof import Proof

BOXES = 20_000
EXTRA = 200  # boxes that the checker may add: a forged tree is not to be mended for minutes
PROVABLE = tuple(loss for loss in LOSSES if loss != "softmax-cross-entropy")


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
    if bound < Fraction(proof.lower_bound):
        return refuted(f"the proof claims {proof.lower_bound:.12g}, the checker finds {float(bound):.12g}")
    return worst([_below_networks(solution, bound, rng), verifies(solution)])


def _checked(solution: Any, proof: Proof) -> Fraction | None:
    data = solution.data
    if solution.loss is not None:
        data = dataclasses.replace(data, Y=solution.loss.targets)
    try:
        return check_proof(
            problem_of(solution, data), multipliers_of(solution), proof, extra=EXTRA
        ).lower_bound
    except (ValueError, covopt.errors.CovoptError):
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
def _tree(proof: Proof, rng: np.random.Generator) -> bytes:
    length = int(rng.integers(0, 2 * len(proof.tree) + 2))
    tree = bytes(rng.integers(0, int(rng.choice([2, 4, 256])), length, dtype=np.uint8))
    return tree if rng.random() < 0.7 else proof.tree[: length // 2]


def _one_entry(proof: Proof, rng: np.random.Generator, *names: str) -> dict[str, Any]:
    name = str(rng.choice(list(names)))
    array = getattr(proof, name).copy()
    if array.size:
        array.flat[rng.integers(array.size)] *= float(rng.choice([-1.0, 0.0, 0.5, 1.1, 1 + 1e-9]))
    return {name: array}


FORGERIES: dict[str, Callable[[Proof, np.random.Generator], dict[str, Any]]] = {
    "height": lambda proof, rng: {"H": proof.H * float(rng.choice([0.5, 0.999, 1 - 1e-9]))},
    "tree": lambda proof, rng: {"tree": _tree(proof, rng)},
    "entry": lambda proof, rng: _one_entry(proof, rng, "V", "y", "linear", "factor"),
    "sign": lambda proof, rng: {
        "signs": np.where(rng.random(len(proof.signs)) < 0.3, rng.integers(-1, 2), proof.signs)
    },
    "pieces": lambda proof, rng: {"piece": rng.permutation(proof.piece)},
    "units": lambda proof, rng: {"exponent": proof.exponent + int(rng.integers(-3, 4))},
}


def forged(rng: np.random.Generator) -> Outcome:
    """A proof with something changed: whatever the checker still proves with it is true."""
    solution = honest(rng)
    if solution.data.n_outputs > 1 or not np.any(solution.dual):
        return held()
    proof = solution.prove(max_boxes=BOXES)
    for _ in range(int(rng.integers(1, 3))):
        name = list(FORGERIES)[rng.integers(len(FORGERIES))]
        proof = dataclasses.replace(proof, **FORGERIES[name](proof, rng))
    bound = _checked(solution, proof)
    if bound is None:
        return held()
    outcome = _below_networks(solution, bound, rng)
    return refuted(f"{name}: {outcome.detail}") if outcome.kind == "refuted" else outcome


def overstated(rng: np.random.Generator) -> Outcome:
    """A proof that claims more than it proves, or that belongs to another dual point."""
    solution = honest(rng)
    if solution.data.n_outputs > 1 or not np.any(solution.dual):
        return held()
    proof = solution.prove(max_boxes=BOXES)
    if rng.random() < 0.5:
        stated = proof.lower_bound + max(1e-6, 1e-3 * abs(proof.lower_bound))
        if quiet(covopt.verify, solution, proof=dataclasses.replace(proof, lower_bound=stated)).ok:
            return refuted(f"accepted a proof that claims {stated:.9g} and proves {proof.lower_bound:.9g}")
        return held()
    solution.dual = solution.dual * (1 + 1e-3)
    if quiet(covopt.verify, solution, proof=proof).ok:
        return refuted("accepted a proof of another dual point")
    return held()


CLASSES = {"troubled": troubled, "forged": forged, "overstated": overstated}
