"""Networks in fractions: their outputs, what they cost, and the same network made to meet its points exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.exact.elimination import row_reduce

Matrix = list[list[Fraction]]
Layers = Sequence[Sequence[Sequence[float]]]
STEPS = 4  # of Newton: the outputs are linear in one layer as long as no neuron changes its sign
LARGEST = Fraction(1, 10**5)  # of the cost: repairs that change it by more have found another network


def fractions(array: Any) -> Any:
    """Return doubles as fractions, in lists of the same shape."""
    return [fractions(part) for part in array] if np.ndim(array) else Fraction(float(array))


def dot(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction:
    """Return an inner product."""
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))


class ExactNetwork:
    """A ReLU network whose weights are fractions, bias columns last."""

    def __init__(self, layers: list[Matrix], bias: float, output_bias: str) -> None:
        self.layers, self.bias, self.output_bias = layers, Fraction(bias), output_bias

    def has_bias(self, ell: int) -> bool:
        """Whether a layer, counting from 0, has a bias column."""
        return self.bias > 0 and (ell + 1 < len(self.layers) or self.output_bias != "none")

    def forward(self, X: Matrix) -> tuple[list[Matrix], list[Matrix]]:
        """Return the inputs of each layer and its pre-activations."""
        features, inputs, found = X, [], []
        for ell, w in enumerate(self.layers):
            lifted = [[*row, self.bias] if self.has_bias(ell) else list(row) for row in features]
            inputs.append(lifted)
            found.append([[dot(row, neuron) for neuron in w] for row in lifted])
            features = [[max(z, Fraction(0)) for z in row] for row in found[-1]]
        return inputs, found

    def cost(self) -> Fraction:
        """Return ‖W‖², a free output bias left out."""
        total = sum((entry**2 for w in self.layers for row in w for entry in row), Fraction(0))
        if self.has_bias(len(self.layers) - 1) and self.output_bias == "free":
            total -= sum((row[-1] ** 2 for row in self.layers[-1]), Fraction(0))
        return total

    def objective(self, X: Matrix, Y: Matrix, lam: float) -> Fraction:
        """Return the mean squared error + λ‖W‖²."""
        outputs = self.forward(X)[1][-1]
        missed = [
            (z - y) ** 2
            for row, wanted in zip(outputs, Y, strict=True)
            for z, y in zip(row, wanted, strict=True)
        ]
        return sum(missed, Fraction(0)) / len(X) + Fraction(lam) * self.cost()

    def through(self, X: Matrix, Y: Matrix) -> ExactNetwork:
        """Return the cheapest network that meets the points exactly by a least-norm change of one layer.

        Raises
        ------
        ValueError
            Where no layer leads there.
        """
        found = [self._moved(ell, X, Y) for ell in range(len(self.layers))]
        met = [network for network in found if network is not None]
        if not met:
            raise ValueError("no layer can be changed so that the points are met")
        best = min(met, key=ExactNetwork.cost)
        if best.cost() > self.cost() * (1 + LARGEST):
            raise ValueError(
                f"to meet the points costs {float(best.cost() / self.cost() - 1):.1e} of the norm"
            )
        return best

    def _moved(self, ell: int, X: Matrix, Y: Matrix) -> ExactNetwork | None:
        network = self
        for _ in range(STEPS):
            inputs, found = network.forward(X)
            missed = [
                y - z
                for row, wanted in zip(found[-1], Y, strict=True)
                for z, y in zip(row, wanted, strict=True)
            ]
            if not any(missed):
                return network
            moved = network._step(ell, inputs, found, missed)
            if moved is None:
                return None
            network = moved
        return network if network.forward(X)[1][-1] == Y else None

    def _step(
        self, ell: int, inputs: list[Matrix], found: list[Matrix], missed: list[Fraction]
    ) -> ExactNetwork | None:
        """Return the network after one Newton step in a layer."""
        slopes = []  # of each output in the pre-activations of the layer, beside its inputs
        for i, row in enumerate(found[-1]):
            for j in range(len(row)):
                back = [Fraction(int(j == k)) for k in range(len(row))]
                for above in range(len(self.layers) - 1, ell, -1):
                    below = found[above - 1][i]
                    w = self.layers[above]
                    back = [
                        sum((b * w[k][n] for k, b in enumerate(back)), Fraction(0)) if z > 0 else Fraction(0)
                        for n, z in enumerate(below)
                    ]
                slopes.append((back, inputs[ell][i]))
        gram = [[dot(a, b) * dot(x, z) for b, z in slopes] for a, x in slopes]
        shares = solve(gram, missed)
        if shares is None:
            return None
        changed = [list(row) for row in self.layers[ell]]
        for share, (back, x) in zip(shares, slopes, strict=True):
            for a, b in enumerate(back):
                for n, entry in enumerate(x):
                    changed[a][n] += share * b * entry
        layers = [changed if k == ell else w for k, w in enumerate(self.layers)]
        return ExactNetwork(layers, float(self.bias), self.output_bias)


def solve(matrix: Matrix, right: list[Fraction]) -> list[Fraction] | None:
    """Return some solution of linear equations; None where there is none.

    Parameters
    ----------
    matrix : list of list of Fraction
    right : list of Fraction
    """
    n = len(right)
    reduced, pivots = row_reduce([[*row, value] for row, value in zip(matrix, right, strict=True)], n)
    if any(row[-1] != 0 for row in reduced[len(pivots) :]):
        return None
    answer = [Fraction(0)] * n
    for k, row in zip(pivots, reduced, strict=False):
        answer[k] = row[-1]
    return answer
