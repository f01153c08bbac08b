"""Tables whose deep bounds are laid beside the best networks known (``networks.json``)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from covopt.certificates.conjugate import balanced
from covopt.data import Data
from covopt.depth.bounds import KINDS, Asked
from covopt.depth.families import DualTree
from covopt.depth.layers import Layout
from covopt.depth.tree_search import TreeSearch
from covopt.losses import Loss, make_loss
from tests.cases import cases
from tests.depth.bank.exact import ExactNetwork, Layers, fractions

NETWORKS = Path(__file__).with_name("networks.json")


@dataclass(frozen=True)
class DeepTable:
    """One table, with the networks that are asked for.

    Attributes
    ----------
    name : str
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
    bias : float
    output_bias : {"none", "penalized", "free"}
    lam : float or None
        Of a fit with the squared loss; None for networks through the points.
    """

    name: str
    X: np.ndarray
    Y: np.ndarray
    depth: int
    bias: float = 1.0
    output_bias: str = "none"
    lam: float | None = None

    @property
    def data(self) -> Data:
        """The table as the searches take it."""
        return Data.validate(self.X, self.Y, bias=self.bias, interpolates=self.lam is None)

    @property
    def network(self) -> Layers:
        """The layers of the best network known, bias columns last."""
        return json.loads(NETWORKS.read_text())[self.name]

    @property
    def start(self) -> tuple[Layout, np.ndarray]:
        """The best network known as the searches take it."""
        layers = [np.array(w) for w in self.network]
        return Layout.of_layers(layers, self.X.shape[1], self.bias, self.output_bias)


def squared(targets: np.ndarray) -> Loss:
    """Return the squared loss with its targets."""
    loss = make_loss("squared")
    loss.encode_targets(targets)
    return loss


POINTS, SIGNS = np.array([[1.0, 0.0], [0.7, 1.1]]), np.array([[0.7], [-1.0]])


def two_rows(angle: float) -> np.ndarray:
    """Rows of lengths 1 and 1.3."""
    return np.array([[1.0, 0.0], [1.3 * np.cos(angle), 1.3 * np.sin(angle)]])


def normal(name: str, seed: int, n: int, d: int, depth: int, *, positive: bool = True, k: int = 1, **options):
    """Return a standard normal table."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    return DeepTable(f"{name} {seed}, L = {depth}", X, np.abs(Y) if positive else Y, depth, **options)


def noisy(n: int, d: int, depth: int, lam: float, **options) -> DeepTable:
    """Return a fit of |x₁| with noise."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d))
    Y = np.abs(X[:, :1]) + 0.3 * rng.standard_normal((n, 1))
    return DeepTable(f"fit of {n} rows, λ = {lam:g}, L = {depth}", X, Y, depth, lam=lam, **options)


def _docs() -> list[DeepTable]:
    """Return the twenty of docs/depth.md: standard normal; every third plane without biases."""
    found = []
    for i in range(20):
        n, d, depth = 3 + i % 4, 1 + (i + i // 4) % 2, 3 + (i // 4) % 4
        bias = 0.0 if i % 3 == 0 and d == 2 else 1.0
        given = normal("docs", 100 + i, n, d, depth, positive=False, bias=bias)
        found.append(replace(given, name=f"docs {i}"))
    return found


def _without_biases() -> list[DeepTable]:
    acute, obtuse = two_rows(1.0), two_rows(2.2)
    pairs = {
        "one row": (np.array([[3.0, 4.0]]), [[1.0, 2.0]]),
        "one ray": (np.array([[1.0], [2.0], [3.0]]), [[2.0], [4.0], [6.0]]),
        "acute, same sign": (acute, [[1.0], [0.7]]),
        "acute, opposite signs": (acute, [[1.0], [-0.7]]),
        "acute, k = 2, y1.y2 < 0": (acute, [[1.0, 0.2], [-0.9, 0.5]]),
        "square, opposite signs": (np.diag([1.0, 1.3]), [[1.0], [-0.7]]),
        "obtuse, same sign": (obtuse, [[1.0], [0.7]]),
        "obtuse, k = 2, y1.y2 > 0": (obtuse, [[1.0, 0.2], [0.7, 1.1]]),
        "obtuse, opposite signs": (obtuse, [[1.0], [-0.7]]),
        "obtuse, k = 2, y1.y2 < 0": (obtuse, [[1.0, 0.2], [-0.9, 0.5]]),
    }
    return [
        DeepTable(f"{name}, L = {depth}", X, np.array(Y), depth, 0.0)
        for name, (X, Y) in pairs.items()
        for depth in (3, 5)
    ]


def _with_biases() -> list[DeepTable]:
    acute, obtuse = two_rows(1.0), 1.5 * two_rows(2.2)
    pairs = {
        "one row, biases": (np.array([[1.0, 2.0]]), [[1.5]]),
        "one target, acute, biases": (acute, [[1.2], [1.2]]),
        "same sign, acute, biases": (acute, [[0.7], [1.0]]),
        "opposite signs, acute, biases": (acute, [[1.0], [-0.7]]),
        "k = 2, acute, biases": (acute, [[1.0, 0.2], [-0.3, 0.8]]),
        "opposite signs, obtuse, biases": (obtuse, [[1.0], [-0.7]]),
    }
    found = [
        DeepTable(f"{name}, L = {depth}", X, np.array(Y), depth)
        for name, (X, Y) in pairs.items()
        for depth in (3, 5)
    ]
    for name in ("one target, acute, biases", "opposite signs, acute, biases"):
        X, Y = pairs[name]
        found.append(DeepTable(f"{name}, penalized, L = 3", X, np.array(Y), 3, output_bias="penalized"))
    return found


def _more_rows() -> list[DeepTable]:
    return cases("deep tables of three rows or more", normal=normal)


def _fits() -> list[DeepTable]:
    return [
        noisy(4, 1, 3, 0.03),
        noisy(6, 1, 3, 0.02),
        noisy(6, 2, 4, 0.02),
        noisy(5, 2, 3, 0.03, output_bias="penalized"),
        noisy(7, 1, 3, 0.02, output_bias="free"),
        noisy(8, 2, 3, 0.05, bias=0.0),
        DeepTable("fit of one row, L = 3", np.array([[2.0]]), np.array([[3.0]]), 3, 0.0, lam=0.1),
        DeepTable(
            "fit of a steep pair, L = 3", np.array([[0.0], [0.5]]), np.array([[-1.0], [3.0]]), 3, lam=0.02
        ),
    ]


SETS = {"random": _docs(), "pairs": _without_biases(), "biases": _with_biases()}
TABLES = [*(given for part in SETS.values() for given in part), *_more_rows(), *_fits()]
BY_NAME = {given.name: given for given in TABLES}


@cache
def known(name: str) -> Fraction:
    """Return what the best network known costs, through the points exactly; of a fit its objective."""
    given = BY_NAME[name]
    network = ExactNetwork([fractions(w) for w in given.network], given.bias, given.output_bias)
    X, Y = fractions(given.X), fractions(given.Y)
    if given.lam is not None:
        return network.objective(X, Y, given.lam)
    met = network.through(X, Y)
    assert met.forward(X)[1][-1] == Y
    return met.cost()


def tree_of(given: DeepTable, c: float = 1.0) -> DualTree:
    """Return the best dual of three layers at a size of the first, of a table with one output and few rows."""
    search = TreeSearch(given.data.lifted, given.Y[:, 0], given.bias, free=given.output_bias == "free")
    search.use(c)
    dual = search.multipliers()[0][:, None]
    return search.tree(range(len(given.X)), balanced(dual) if given.output_bias == "free" else dual)


def tree_bound(tree: DualTree, given: DeepTable, upper: float) -> float:
    """Return the tree bound by a dual.

    Raises
    ------
    ValueError
        Where it is refused.
    """
    asked = Asked(given.data, given.depth, given.output_bias, upper)
    return KINDS["trees"].value((tree,), asked)
