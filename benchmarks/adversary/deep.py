"""Deep networks: lower bounds are compared with explicit networks that interpolate exactly.

A network is trained with weight decay, so that its norm is nearly minimal for its outputs. Its weights and the table
have so few bits that the outputs are exactly doubles; they become the targets. Chains whose weights are powers of two
attain the closed forms: for them a lower bound must not be rounded up at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.mutate import inside
from benchmarks.adversary.outcome import Outcome, held, refuted
from benchmarks.adversary.solves import LOSSES, below_cost, quiet, random_output_bias, random_targets
from covopt.data import Data
from covopt.depth.bounds import Asked, Bound, bound_from_dict, closed_bounds, recompute_bound, tree_bounds
from covopt.depth.descent import decay, objective
from covopt.depth.fitting import fit_bounds
from covopt.depth.layers import Layout
from covopt.errors import InputError
from covopt.losses import make_loss
from tests.depth.bank.exact import ExactNetwork, fractions

TRIES = 40  # random changes of a file; the first that can still be read is checked
AGREES = 1e-9  # relative tolerance of the comparison with a recomputed bound
Layers = list[np.ndarray]


@dataclass(frozen=True)
class Rival:
    """A table, and the exact squared norm of a network of this depth through its points."""

    data: Data
    depth: int
    output_bias: str
    cost: Fraction
    weights: Layers

    @property
    def asked(self) -> Asked:
        """The problem for which bounds are recomputed."""
        return Asked(self.data, self.depth, self.output_bias, float(self.cost))


# ---------------------------------------------------------------------- networks by training
def train(
    rng: np.random.Generator, X: np.ndarray, T: np.ndarray, depth: int, bias: float, output_bias: str
) -> tuple[Layers, float]:
    """Minimise ρ‖f(X) − T‖² + ‖W‖² from a random start; return the layers, and their largest output."""
    layout = Layout((X.shape[1], *[int(rng.integers(2, 7))] * (depth - 1), T.shape[1]), bias, output_bias)
    loss, lam = make_loss("squared"), 10.0 ** -rng.uniform(1, 4) / len(X)
    loss.encode_targets(T)
    with np.errstate(all="ignore"):
        theta = decay(layout, rng.standard_normal(layout.size), X, loss, lam)
    return layout.split(theta), float(np.abs(layout.forward(theta, X)[1][-1]).max())


# ---------------------------------------------------------------------- networks in fractions
def to_bits(values: np.ndarray, bits: int) -> np.ndarray:
    """Round to multiples of a power of two, so that the largest entry has this many bits."""
    top = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    return np.ldexp(np.rint(np.ldexp(values, bits - top)), top - bits)


def rival(rng: np.random.Generator, kind: str) -> Rival:
    """Return a table of this kind whose targets are the outputs of a trained network."""
    depth = int(rng.choice([3, 3, 3, 4, 5]))
    n = int(rng.integers(1, 4 if depth < 5 else 3))
    d, k = int(rng.integers(1, 3)), int(rng.choice([1, 1, 1, 2]))
    X, bias = tables.ALL_TABLES[kind](rng, n, d)
    table_bits = int(rng.choice([6, 12, 24]))
    X, bias = to_bits(X, table_bits), float(to_bits(np.array([bias]), 1)[0])
    output_bias = random_output_bias(rng, bias)
    unit = 2.0 ** int(np.frexp(np.abs(X).max() or 1.0)[1])
    goals = rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-0.5, 1.5)
    for _ in range(5):
        layers, reached = train(rng, X / unit, goals, depth, bias / unit, output_bias)
        if reached > 0.1 * np.abs(goals).max():
            break  # else weight decay led from this start to the zero network
    layers[0] = layers[0] / unit
    for ell in range(1, depth):  # biases were for β/unit
        layers[ell][:, len(layers[ell - 1]) :] /= unit
    for bits in range(min(20, (50 - table_bits) // depth), 0, -1):
        rounded = [to_bits(w, bits) for w in layers]
        network = ExactNetwork([fractions(w) for w in rounded], bias, output_bias)
        exact = network.forward(fractions(X))[1][-1]
        Y = exact.astype(float)
        if (fractions(Y) == exact).all():
            break
    else:
        raise InputError("the outputs are no doubles; ask for another table.")
    power = (
        int(rng.integers(-60, 60)) if bias == 0 and rng.random() < 0.3 else 0
    )  # other units of the targets
    data = Data.validate(X, Y * 2.0 ** (power * depth), bias=bias)
    return Rival(
        data, depth, output_bias, network.cost() * Fraction(4) ** power, [w * 2.0**power for w in rounded]
    )


# ---------------------------------------------------------------------- instances
def bounds_of(given: Rival) -> list[Bound]:
    """Return all lower bounds that covopt has for a table."""
    upper = min(float(given.cost), 1e300)
    found = list(closed_bounds(given.data, given.depth, given.output_bias))
    if upper < 1e300:
        found.extend(tree_bounds(given.data, given.depth, given.output_bias, upper=upper))
    return found


def judged(bounds: list[Bound], given: Rival) -> Outcome:
    """Refute bounds that exceed the norm of the explicit network, or differ when recomputed."""
    best = 0.0
    for bound in bounds:
        if not np.isfinite(bound.value) or Fraction(bound.value) > given.cost:
            return refuted(f"{bound.title}: {bound.value!r} is above a network of {float(given.cost)!r}")
        again, why = recompute_bound(bound, given.asked)
        if bound.value > again * (1 + AGREES):
            return refuted(f"{bound.title}: {bound.value!r} is {again!r} when recomputed{why}")
        best = max(best, bound.value)
    return below_cost(best, given.cost, "a network through the points")


def below(kind: str) -> Callable[[np.random.Generator], Outcome]:
    """Return a test that compares the bounds of a table of this kind with a trained network."""

    def ask(rng: np.random.Generator) -> Outcome:
        given = rival(rng, kind)
        return judged(quiet(bounds_of, given), given)

    return ask


def chains(rng: np.random.Generator) -> Outcome:
    """Test tables whose closed forms are attained by chains of powers of two: one row, two opposite ones, a step."""
    depth = int(rng.integers(3, 9))
    a, b = (2.0 ** int(e) for e in rng.integers(-40, 41, 2))
    x, z = (2.0 ** int(e) for e in rng.integers(-60, 61, 2))
    kind = int(rng.integers(4))
    cost = depth * Fraction(a) ** 2
    if kind == 0:  # one row: a in every layer
        X, Y, bias = [[x]], [a**depth * x], 0.0
    elif kind == 1:  # two rows such that no neuron is active on both
        X, Y, bias = [[x, 0.0], [0.0, z]], [a**depth * x, -(b**depth) * z], 0.0
        cost += depth * Fraction(b) ** 2
    elif kind == 2:
        X, Y, bias = [[x], [-z]], [a**depth * x, float(rng.choice([-1.0, 1.0])) * b**depth * z], 0.0
        cost += depth * Fraction(b) ** 2
    else:  # a slope
        X, Y, bias = [[0.0], [x]], [0.0, a**depth * x], float(rng.choice([0.0, 1.0, 1e-3]))
    output_bias = random_output_bias(rng, bias)
    given = Rival(Data.validate(X, Y, bias=bias), depth, output_bias, cost, [])
    return judged(quiet(closed_bounds, given.data, depth, output_bias), given)


def bracket(rng: np.random.Generator) -> Outcome:
    """Check that the bracket is below the explicit network's norm, and passes its own verification."""
    given = rival(rng, str(rng.choice(["plain", "grid", "units", "clusters"])))
    data = given.data
    found = quiet(
        covopt.representation_cost, data.X, data.Y, depth=given.depth, bias=data.bias, output_bias=given.output_bias,
        time_limit_s=1.0,
    )  # fmt: skip
    checked = quiet(covopt.verify, found)
    if not checked.ok:
        return refuted("; ".join(check.detail for check in checked.checks if not check.ok)[:200])
    return below_cost(found.lower_bound, given.cost, "a network through the points")


def honest(rng: np.random.Generator) -> Any:
    """Return the solution of a small problem with three layers."""
    X = rng.standard_normal((int(rng.integers(1, 3)), 1))
    Y = rng.standard_normal((2, int(rng.choice([1, 1, 2]))))
    bias = float(rng.choice([0.0, 1.0]))
    return quiet(covopt.representation_cost, X, Y[: len(X)], depth=3, bias=bias, time_limit_s=None)


def still_holds(found: Any, honest: Any) -> Outcome:
    """Check that an accepted file about the same problem states no bound above the norm of the honest network."""
    found.summary()
    one, other = ([s.data.X, s.data.Y, s.data.bias, s.depth, s.output_bias] for s in (found, honest))
    same = all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    if same and found.lower_bound > honest.cost * (1 + AGREES):
        return refuted(f"accepted {found.lower_bound!r}, above a network of {honest.cost!r}")
    return held()


def decayed(rng: np.random.Generator) -> Outcome:
    """Compare lower bounds on fits, with any loss and weights, with networks found by descent."""
    name, depth = str(rng.choice(LOSSES)), int(rng.choice([3, 3, 4]))
    kind = str(rng.choice(["plain", "plain", "grid", "clusters", "units", "near-line"]))
    X, bias = tables.ALL_TABLES[kind](rng, int(rng.integers(1, 5)), int(rng.integers(1, 3)))
    output_bias, lam = random_output_bias(rng, bias), 10.0 ** rng.uniform(-3, -0.5)
    loss = make_loss(name)
    loss.encode_targets(random_targets(name, rng, X), tables.sample_weight(rng, len(X)))
    data = Data.validate(X, loss.targets, bias=bias, interpolates=False)
    layout = Layout((X.shape[1], *[5] * (depth - 1), loss.targets.shape[1]), bias, output_bias)
    starts = [decay(layout, rng.standard_normal(layout.size), X, loss, lam) for _ in range(3)]
    starts.append(np.zeros(layout.size))
    found = [objective(layout, theta, X, loss, lam) for theta in starts]
    upper = float(np.nanmin(found))
    bounds = quiet(fit_bounds, data, loss, lam, output_bias, layout, starts[int(np.nanargmin(found))], upper)
    best = max(bound.value for bound in bounds)
    if best > upper * (1 + AGREES):
        return refuted(f"{best!r} is above a network of {upper!r}")
    for bound in bounds:
        changed = _changed(rng, bound)
        asked = Asked(data, depth, output_bias, upper, loss, lam)
        again, _ = recompute_bound(bound, asked)
        with np.errstate(all="ignore"):
            other, _ = recompute_bound(changed, asked)
        if bound.value > again * (1 + AGREES) or not other <= upper * (1 + AGREES):
            return refuted(
                f"{bound.title}: {bound.value!r}, again {again!r}, forged {other!r}, network {upper!r}"
            )
    return held(1 - best / upper if upper > 0 else 0.0)


def _changed(rng: np.random.Generator, bound: Bound) -> Bound:
    """Return a bound whose proof was changed in a file, in one to three places, so that it can still be read."""
    own = bound.to_dict()[bound.kind]
    for _ in range(TRIES):
        _, text = inside({bound.kind: own}, rng)
        try:
            changed = bound_from_dict({**json.loads(text), "value": 0.0, "cutoff": bound.cutoff})
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
            continue
        if changed.to_dict().get(bound.kind) != own:
            return changed
    return replace(bound, value=0.0)


def forged(rng: np.random.Generator) -> Outcome:
    """Check that the checker's value of a changed bound is still below the norm of the explicit network."""
    given = rival(rng, str(rng.choice(["plain", "plain", "grid", "near-line"])))
    for bound in quiet(bounds_of, given):
        changed = _changed(rng, bound)
        with np.errstate(all="ignore"):
            found, _ = recompute_bound(changed, given.asked)
        if not found <= float(given.cost):  # floats compare: a bound may be the cutoff itself
            return refuted(f"a forged bound, {changed.title}: {found!r}, above {float(given.cost)!r}")
        if (
            bound.kind != "pair"
            and found >= float(given.cost) * (1 - 1e-4)
            and found > 2 * max(bound.value, 1e-300)
        ):
            return refuted(f"a forged tree bound says {found!r}, the honest one {bound.value!r}")
    return held()


CLASSES = {"chains": chains, "fit": decayed, "forged": forged, "bracket": bracket}
