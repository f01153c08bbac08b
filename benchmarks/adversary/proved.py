"""Proofs, honest and forged: the bound that the exact checker accepts has to be below every explicit network."""

from __future__ import annotations

import copy
import dataclasses
import random
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.forged import honest
from benchmarks.adversary.mutate import Document, at, places
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.solves import (
    LOSSES,
    bound_holds,
    quiet,
    random_output_bias,
    random_targets,
    verifies,
)
from covopt.certificates.prove import problem_of
from covopt.exact.rounding import below
from covopt.proofs.checker.covopt_check import canonical, read
from covopt.proofs.closing import Entry, encoded, entries_of
from covopt.proofs.proof import Proof, differs, ratio, sealed, text

BOXES = 20_000
PROVABLE = tuple(loss for loss in LOSSES if loss not in ("softmax-cross-entropy", "logistic"))


def troubled(rng: np.random.Generator) -> Outcome:
    """Check a proof of a bound on a troublesome table."""
    X, bias = tables.small(rng, most=4)
    options: dict[str, Any] = {"bias": bias, "output_bias": random_output_bias(rng, bias)}
    if rng.random() < 0.5:
        loss = str(rng.choice(PROVABLE))
        Y = random_targets(loss, rng, X)
        Y = Y[:, 0] if Y.ndim == 2 else Y
        solution = quiet(covopt.fit, X, Y, lam=10.0 ** rng.uniform(-4, 0), loss=loss, **options)
    else:
        solution = quiet(covopt.min_norm, X, tables.targets(rng, X), duplicates="mean", **options)
    if not _provable(solution):
        return held()
    proof = solution.prove(max_boxes=BOXES)
    bound = _checked(solution, proof)
    if bound is None:
        return refuted("the checker does not accept the solution's own proof")
    return worst([bound_holds(solution, rng, below(bound)), verifies(solution)])


def _provable(solution: Any) -> bool:
    return solution.data.n_outputs == 1 and bool(np.any(solution.dual))


def _checked(solution: Any, proof: Proof) -> Fraction | None:
    """Return the bound that a proof proves, or None if the checker refuses it or it is about another problem."""
    data = solution.data
    if solution.loss is not None:
        data = dataclasses.replace(data, Y=solution.loss.targets)
    try:
        other = differs(proof.own, problem_of(solution, data))
        return proof.own.bound if other is None and proof.boxes else None
    except covopt.errors.CovoptError:
        return None


# ---------------------------------------------------------------------- forged ones
def _felled(content: Document, rng: random.Random) -> str:
    """Return a damaged tree: a node changed, deleted, doubled or moved, a leaf's number changed, cut, or extended."""
    own = read(sealed(content))
    nodes, last = entries_of(own), len(own.basis) + 1
    place = rng.randrange(len(nodes))
    _, state, numbers = nodes[place]
    kind = rng.choice(["token", "lost", "twice", "swapped", *["number"] * 3, "short", "long"])
    if kind == "token":
        nodes[place] = Entry(rng.randrange(1 << last.bit_length()), state, numbers)
    elif kind == "lost":
        del nodes[place]
    elif kind == "twice":
        nodes.insert(place, nodes[place])
    elif kind == "swapped":
        nodes[place - 1 : place + 1] = nodes[place - 1 : place + 1][::-1]
    elif kind == "number" and numbers:
        k = rng.randrange(len(numbers))
        value, bits = numbers[k]
        values = value + 1, value - 1, 0, -1, value ^ 1 << rng.randrange(bits), rng.choice(numbers)[0]
        numbers[k] = rng.choice(values) % (1 << bits), bits
    bits = "".join(in_bits(node, last.bit_length()) for node in nodes)
    return encoded({"short": bits[: rng.randrange(1, len(bits))], "long": bits + "00000000"}.get(kind, bits))


def in_bits(entry: Entry, width: int) -> str:
    """Return a node in zeros and ones; its token has ``width`` of them."""
    return f"{entry.token:0{width}b}" + "".join(f"{number:0{bits}b}" for number, bits in entry.numbers)


def forge(content: Document, rng: random.Random) -> str:
    """Make one change: of an integer, the tree, a name, or the text; mostly the digest is updated."""
    forged = copy.deepcopy(content)
    texts = [at(forged, place) for place in places(forged)]
    texts = [(inner, name) for inner, name in texts if isinstance(inner[name], str) and name != "digest"]
    inner, name = (forged["proof"], "tree") if rng.random() < 0.3 else rng.choice(texts)
    if name == "tree":
        inner[name] = _felled(content, rng)
    else:
        words = inner[name].split(" ")
        k = rng.randrange(len(words))
        if words[k].lstrip("-").isdigit():
            value = int(words[k])
            near = (
                value + 1, value - 1, -value, 2 * value, value ^ 1 << rng.randrange(8),
                10 ** rng.choice([3, 30, 4100]), 0,
            )  # fmt: skip
            words[k] = rng.choice([*map(str, near), "", "1.0", "0" + words[k], "+1", f"{value} 1"])
        else:
            words[k] = rng.choice(["", "none", "free", "penalized", "squared", "hinge", "huber", "softmax"])
        inner[name] = " ".join(words)
    if rng.random() < 0.1:
        del inner[name]
    changed = sealed(forged) if rng.random() < 0.9 else canonical(forged)
    if rng.random() < 0.1:
        k = rng.randrange(len(changed))
        changed = changed[:k] + rng.choice([" ", "0", '"', "{", "\\u0041", ""]) + changed[k + 1 :]
    return changed


def forged(rng: np.random.Generator) -> Outcome:
    """Change a proof; check that a bound that the checker still accepts is true."""
    solution = honest(rng)
    if not _provable(solution):
        return held()
    content, chance = solution.prove(max_boxes=BOXES).to_dict(), random.Random(int(rng.integers(2**32)))
    proof = Proof(forge(content, chance))
    bound = _checked(solution, proof)
    if bound is None:
        return held()
    return bound_holds(solution, rng, below(bound))


def overstated(rng: np.random.Generator) -> Outcome:
    """Check that a proof that claims too much, or belongs to another table, is refused."""
    solution = honest(rng)
    if not _provable(solution):
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
