"""Tables whose deep bounds are laid beside the best networks known, of ``networks.json``.

What stands there is the cheapest that ``representation_cost`` and ``fit`` found from three seeds; cheaper ones may
take its place, for any network that passes through the points is above every bound.
"""

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
from tests.cases import cases, drawn
from tests.depth.bank.exact import ExactNetwork, fractions

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
    def network(self) -> list[np.ndarray]:
        """The layers of the best network known, bias columns last."""
        return [np.array(w) for w in json.loads(NETWORKS.read_text())[self.name]]

    @property
    def start(self) -> tuple[Layout, np.ndarray]:
        """The best network known as the searches take it."""
        return Layout.of_layers(self.network, self.X.shape[1], self.bias, self.output_bias)


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
    _, X, Y = drawn(seed, (n, d), (n, k))
    return DeepTable(f"{name} {seed}, L = {depth}", X, np.abs(Y) if positive else Y, depth, **options)


def noisy(n: int, d: int, depth: int, lam: float, **options) -> DeepTable:
    """Return a fit of |x₁| with noise."""
    rng, X = drawn(n, (n, d))
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


def _pairs(section: str, bias: float) -> list[DeepTable]:
    """Return tables of one and two rows, with three and five layers unless a line says more."""
    found = []
    for name, X, Y, *more in cases(section, acute=two_rows(1.0), obtuse=two_rows(2.2)):
        depths = (3,) if more else (3, 5)
        found += [DeepTable(f"{name}, L = {L}", np.array(X), np.array(Y), L, bias, *more) for L in depths]
    return found


SETS = {
    "random": _docs(),
    "pairs": _pairs("deep pairs without biases", 0.0),
    "biases": _pairs("deep pairs with biases", 1.0),
}
FITS = cases("deep fits", DeepTable=DeepTable, noisy=noisy)
TABLES = [
    *(given for part in SETS.values() for given in part),
    *cases("deep tables of three rows or more", normal=normal),
    *FITS,
]
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
    assert (met.forward(X)[1][-1] == Y).all()
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
