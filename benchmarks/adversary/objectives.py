"""C(f) + λ‖W‖² of explicit networks, in rational arithmetic; logarithms to 60 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import minimize

from benchmarks.adversary.exactly import exact, lifted, outputs
from benchmarks.adversary.neurons import good_neurons
from covopt.network import ReLUNetwork

DIGITS = 60


def objective(solution: Any, network: Any) -> Fraction:
    """Return the objective of any network on the data of a fit."""
    loss = solution.loss
    count = len(solution.data.X)
    given = solution.sample_weight
    weights = [Fraction(1)] * count if given is None else [Fraction(float(w)) for w in given]
    total = sum(weights, Fraction(0))
    values = outputs(solution.data.X, network)
    goals = [[Fraction(float(y)) for y in row] for row in loss.targets]
    delta = Fraction(float(getattr(loss, "delta", 1.0)))
    mean = sum(
        (w * _sample(loss.name, f, y, delta) for w, f, y in zip(weights, values, goals, strict=True) if w),
        Fraction(0),
    )
    return mean / total + Fraction(float(solution.lam)) * exact(network, solution.output_bias).cost()


def _sample(name: str, f: list[Fraction], y: list[Fraction], delta: Fraction) -> Fraction:
    if name == "squared":
        return sum(((a - b) ** 2 for a, b in zip(f, y, strict=True)), Fraction(0))
    if name == "huber":
        sizes = [abs(a - b) for a, b in zip(f, y, strict=True)]
        return sum((r * r / 2 if r <= delta else delta * (r - delta / 2) for r in sizes), Fraction(0))
    if name == "softmax-cross-entropy":
        top = max(f)
        return (
            _log_sum([a - top for a in f])
            + top
            - sum((a * b for a, b in zip(f, y, strict=True)), Fraction(0))
        )
    margin = f[0] * y[0]
    if name == "hinge":
        return max(Fraction(0), 1 - margin)
    if name == "squared-hinge":
        return max(Fraction(0), 1 - margin) ** 2
    top = max(Fraction(0), -margin)  # logistic
    return _log_sum([-top, -margin - top]) + top


def _log_sum(exponents: list[Fraction]) -> Fraction:
    """Return log Σ exp of nonpositive numbers, rounded up in the 60th digit."""
    with localcontext() as context:
        context.prec = DIGITS + 20
        total = sum((_decimal(max(e, Fraction(-400))).exp() for e in exponents), Decimal(0))
        return Fraction(total.ln() + Decimal(10) ** (-DIGITS))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def rival_objective(solution: Any, rng: np.random.Generator) -> Fraction | None:
    """Return the least objective that a general-purpose minimiser finds on neurons of the adversary's choice."""
    data, loss, lam = solution.data, solution.loss, float(solution.lam)
    rows = lifted(data.X, data.bias)
    k = loss.targets.shape[1]
    network = solution.network
    units = [w / np.linalg.norm(w) for w in network.hidden_weights if np.linalg.norm(w) > 0]
    ask = solution.dual if np.any(solution.dual) else loss.targets
    for column in np.reshape(ask, (len(rows), -1)).T:
        if column.any():
            units += [_unit(w) for w in good_neurons(rows, column, rng, 24)]
    neurons = np.array(units).reshape(-1, rows.shape[1])
    atoms = np.maximum(rows @ neurons.T, 0.0)
    found = _minimise(solution, atoms, k, lam)
    best = None
    for weights, offset in found:
        value = objective(solution, _network(solution, neurons, weights, offset))
        best = value if best is None else min(best, value)
    return best


def _unit(neuron: np.ndarray) -> np.ndarray:
    size = max(abs(int(entry)) for entry in neuron)
    floats = np.array([float(Fraction(int(entry), size)) for entry in neuron])
    return floats / np.linalg.norm(floats)


def _network(solution: Any, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> ReLUNetwork:
    """Return a balanced network: both weights of neuron j have length √‖v_j‖."""
    size = np.linalg.norm(weights, axis=1)
    live = size > 0
    root = np.sqrt(size[live])[:, None]
    bias = solution.data.bias
    return ReLUNetwork(
        neurons[live] * root, weights[live] / root, bias, offset / bias if bias else np.zeros_like(offset),
        solution.output_bias != "free",
    )  # fmt: skip


def _minimise(solution: Any, atoms: np.ndarray, k: int, lam: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the results of L-BFGS on the positive and negative parts of the output weights, and of no neurons."""
    loss, m = solution.loss, atoms.shape[1]
    offset = solution.output_bias != "none"
    price = solution.data.bias**-2.0 if solution.output_bias == "penalized" else 0.0
    span = np.abs(atoms).max(axis=0, initial=0.0)
    scale = np.where(span > 0, 1.0 / np.where(span > 0, span, 1.0), 0.0)[:, None]
    size = m * k

    def split(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (z[:size] - z[size : 2 * size]).reshape(m, k) * scale, z[2 * size :] if offset else np.zeros(k)

    def value(z: np.ndarray) -> tuple[float, np.ndarray]:
        weights, shift = split(z)
        outputs_ = atoms @ weights + shift
        slope = loss.gradient(outputs_).reshape(len(atoms), k)
        charge = 2 * lam * np.broadcast_to(scale, (m, k)).ravel()
        pull = ((atoms.T @ slope) * scale).ravel()
        gradient = [pull + charge, charge - pull]
        total = loss.value(outputs_) + float(charge @ (z[:size] + z[size : 2 * size]))
        if offset:
            total += lam * price * float(shift @ shift)
            gradient.append(slope.sum(axis=0) + 2 * lam * price * shift)
        return total, np.concatenate(gradient)

    start = np.zeros(2 * size + (k if offset else 0))
    bounds = [(0, None)] * (2 * size) + [(None, None)] * (len(start) - 2 * size)
    answers = [split(start)]
    if not len(start):
        return answers
    with np.errstate(all="ignore"):
        found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 300})
    if np.isfinite(found.x).all():
        answers.append(split(found.x))
    return answers
