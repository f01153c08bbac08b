"""Tables whose representation cost is known in closed form, L = 2 … 10, and beside them some where it is not."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np

from covopt import representation_cost, verify
from covopt.depth import DeepSolution, linear_cost, linear_network, schatten_between

DEPTHS = range(2, 11)
ACUTE, OBTUSE = 1.0, 2.2  # angles of the two rows


def _rows(angle: float) -> np.ndarray:
    return np.array([[1.0, 0.0], [1.3 * np.cos(angle), 1.3 * np.sin(angle)]])


def known() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, X, Y of tables without biases that have closed forms, or convex ones in a few numbers."""
    yield "one row, k = 2", np.array([[3.0, 4.0]]), np.array([[1.0, 2.0]])
    yield "X = (1, -1), Y = (1, 1)", np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    yield "X = I, Y >= 0: a linear map", np.eye(2), np.array([[1.0, 0.3], [0.2, 0.8]])
    for name, angle in (("acute", ACUTE), ("obtuse", OBTUSE)):
        yield f"{name}, k = 1, same sign", _rows(angle), np.array([1.0, 0.7])
        yield f"{name}, k = 1, opposite signs", _rows(angle), np.array([1.0, -0.7])
        yield f"{name}, k = 2, y1.y2 > 0", _rows(angle), np.array([[1.0, 0.2], [0.7, 1.1]])
        yield f"{name}, k = 2, y1.y2 = 0", _rows(angle), np.array([[1.0, 0.2], [-0.2, 1.0]])
    yield "obtuse, k = 1, sizes 1 and 0.03", _rows(OBTUSE), np.array([1.0, 0.03])
    yield "acute, k = 2, y1.y2 < 0", _rows(ACUTE), np.array([[1.0, 0.2], [-0.9, 0.5]])
    yield "acute, k = 2, y1.y2 < 0, little", _rows(ACUTE), np.array([[1.0, 0.2], [-0.3, 1.0]])
    yield "obtuse, k = 2, y1.y2 < 0", _rows(OBTUSE), np.array([[1.0, 0.2], [-0.9, 0.5]])


def with_biases() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, X, Y of one or two rows, for networks with biases of weight one."""
    yield "one row, biases", np.array([[1.0, 2.0]]), np.array([1.5])
    yield "acute, one target, biases", _rows(ACUTE), np.array([1.2, 1.2])
    yield "obtuse, one target, biases", 1.5 * _rows(OBTUSE), np.array([1.2, 1.2])
    yield "acute, same sign, biases", _rows(ACUTE), np.array([0.7, 1.0])
    rng = np.random.default_rng(8)
    yield "(seed 8), same sign, biases", rng.standard_normal((2, 1)), rng.standard_normal(2)
    yield "acute, opposite signs, biases", _rows(ACUTE), np.array([1.0, -0.7])
    yield "acute, k = 2, biases", _rows(ACUTE), np.array([[1.0, 0.2], [-0.3, 0.8]])
    yield "obtuse, opposite signs, biases", 1.5 * _rows(OBTUSE), np.array([1.0, -0.7])


def chain_value(X: np.ndarray, Y: np.ndarray, depth: int) -> float | None:
    """Return the least of one neuron a layer, all of them linear: a minimum over L − 1 numbers, at most R_L."""
    if Y.ndim > 1 or not (Y > 0.0).all() or len(set(Y)) < 2:
        return None
    from scipy.optimize import minimize

    def cost(logs: np.ndarray) -> float:
        squares = np.exp(logs)  # of a_2 … a_L
        products = np.cumprod(squares[::-1])[::-1]  # of what is above layer ℓ
        gram = products[0] * (X @ X.T) + products.sum() * np.ones((2, 2))
        return float(squares.sum() + Y @ np.linalg.solve(gram, Y))

    return float(minimize(cost, np.zeros(depth - 1), method="BFGS", tol=1e-12).fun)


def unknown() -> Iterator[tuple[str, np.ndarray, np.ndarray, float]]:
    """Yield name, X, Y, β of small tables that have no closed form here."""
    yield (
        "X = I, N = k = 3, Y >= 0",
        np.eye(3),
        np.array([[1.0, 0.3, 0.1], [0.2, 0.8, 0.0], [0.1, 0.1, 0.6]]),
        0.0,
    )


def closed_value(name: str, X: np.ndarray, Y: np.ndarray, depth: int) -> float | None:
    """Return the value of a formula in one line, None where it is the minimum of a convex function."""
    table = Y.reshape(len(X), -1)
    rates = np.linalg.norm(table, axis=1) / np.linalg.norm(X, axis=1)
    if len(X) == 1:
        return depth * float(rates[0]) ** (2.0 / depth)
    if name.startswith("X = (1, -1)"):
        return depth * 4.0 ** (1.0 / depth)
    acute, along = float(X[0] @ X[1]) >= 0.0, float(table[0] @ table[1])
    if acute and along >= 0.0:
        values, vectors = np.linalg.eigh(X @ X.T)
        return linear_cost(vectors @ np.diag(values**-0.5) @ vectors.T @ table, depth)
    if not acute and along <= 0.0:
        return depth * float((rates ** (2.0 / depth)).sum())
    return None


def _line(
    name: str, X: np.ndarray, Y: np.ndarray, depth: int, bias: float, value: float | None, limit: float = 60.0
) -> float:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = representation_cost(X, Y, depth=depth, bias=bias, time_limit_s=limit)
    seconds = time.process_time() - began
    upper = found.cost if isinstance(found, DeepSolution) else found.objective
    off = "" if value is None else f"{abs(upper - value) / value:8.1e}"
    print(
        f"{name:32s} {depth:2d} {found.lower_bound:13.8f} {upper:13.8f} {found.gap:8.1e} {off:8s} "
        f"{found.status.code if verify(found).ok else 'REFUTED':10s} {seconds:5.1f}",
        flush=True,
    )
    return found.gap


def run_closed(depths: list[int] | None, biases: bool = False, limit: float = 60.0) -> None:
    """Print the bracket of each table at each depth, then linear maps, then what has no closed form."""
    asked = list(DEPTHS) if depths is None else depths
    head = f"{'':32s}  L         lower       network      gap  formula  verified   CPU s"
    print(head)
    if not biases:
        gaps = [
            _line(name, X, Y, depth, 0.0, closed_value(name, X, Y, depth), limit)
            for name, X, Y in known()
            for depth in asked
        ]
        print(
            f"closed to 1e-6: {sum(gap <= 1e-6 for gap in gaps)} of {len(gaps)}, largest gap {max(gaps):.1e}"
        )
    gaps = []
    for name, X, Y in with_biases():
        for depth in asked:
            gaps.append(_line(name, X, Y, depth, 1.0, chain_value(X, Y, depth), limit))
    print(
        f"with biases, closed to 1e-6: {sum(gap <= 1e-6 for gap in gaps)} of {len(gaps)}, largest gap {max(gaps):.1e}"
    )
    if biases:
        return
    print("linear maps of random matrices 3 by 4: L times the Schatten enclosure, and the network")
    rng = np.random.default_rng(0)
    for depth in asked:
        A = rng.standard_normal((3, 4))
        low, _ = schatten_between(A, 2.0 / depth)
        low *= depth
        norm = sum(float((w**2).sum()) for w in linear_network(A, depth))
        print(f"{'':32s} {depth:2d} {low:13.8f} {norm:13.8f} {(norm - low) / norm:8.1e}")
    print("no closed form\n" + head)
    for name, X, Y, bias in unknown():
        for depth in asked:
            _line(name, X, Y, depth, bias, None, limit)
