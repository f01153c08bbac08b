"""Networks in fractions: their outputs, what they cost, and the same network made to meet its points exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from covopt.exact.elimination import row_reduce

STEPS = 4  # of Newton: the outputs are linear in one layer as long as no neuron changes its sign
LARGEST = Fraction(1, 10**5)  # of the cost: repairs that change it by more have found another network


def fractions(array) -> np.ndarray:
    """Return doubles as fractions, an array of objects of the same shape."""
    return np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)(array)


class ExactNetwork:
    """A ReLU network whose weights are fractions, bias columns last."""

    def __init__(self, layers: list[np.ndarray], bias: float, output_bias: str) -> None:
        self.layers, self.bias, self.output_bias = layers, Fraction(bias), output_bias

    def has_bias(self, ell: int) -> bool:
        """Whether a layer, counting from 0, has a bias column."""
        return self.bias > 0 and (ell + 1 < len(self.layers) or self.output_bias != "none")

    def forward(self, X: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the inputs of each layer and its pre-activations."""
        features, inputs, found = X, [], []
        for ell, w in enumerate(self.layers):
            inputs.append(np.hstack([features, np.full((len(X), int(self.has_bias(ell))), self.bias)]))
            found.append(inputs[-1] @ w.T)
            features = np.maximum(found[-1], 0)
        return inputs, found

    def cost(self) -> Fraction:
        """Return ‖W‖², a free output bias left out."""
        total = sum(((w**2).sum() for w in self.layers), Fraction(0))
        if self.bias > 0 and self.output_bias == "free":
            total -= (self.layers[-1][:, -1] ** 2).sum()
        return total

    def objective(self, X: np.ndarray, Y: np.ndarray, lam: float) -> Fraction:
        """Return the mean squared error + λ‖W‖²."""
        return ((self.forward(X)[1][-1] - Y) ** 2).sum() / len(X) + Fraction(lam) * self.cost()

    def through(self, X: np.ndarray, Y: np.ndarray) -> ExactNetwork:
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
        more = best.cost() / self.cost() - 1
        if more > LARGEST:
            raise ValueError(f"to meet the points costs {float(more):.1e} of the norm")
        return best

    def _moved(self, ell: int, X: np.ndarray, Y: np.ndarray) -> ExactNetwork | None:
        """Return the network after Newton's steps in one layer; None where they do not meet the points."""
        network = self
        for _ in range(STEPS):
            inputs, found = network.forward(X)
            if (found[-1] == Y).all():
                return network
            n, k = Y.shape
            slopes = np.tile(np.eye(k, dtype=object), (n, 1, 1))  # of the outputs in the pre-activations
            for w, below in zip(network.layers[:ell:-1], found[-2::-1], strict=False):
                slopes = slopes @ w[:, : below.shape[1]] * (below > 0)[:, None]
            back, into = slopes.reshape(n * k, -1), np.repeat(inputs[ell], k, axis=0)
            shares = solve((back @ back.T) * (into @ into.T), (Y - found[-1]).ravel())
            if shares is None:
                return None
            layers = list(network.layers)
            layers[ell] = layers[ell] + (back.T * shares) @ into
            network = ExactNetwork(layers, float(self.bias), self.output_bias)
        return network if (network.forward(X)[1][-1] == Y).all() else None


def solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return some solution of linear equations; None where there is none."""
    reduced, pivots = row_reduce(np.column_stack([matrix, right]).tolist(), len(right))
    if any(row[-1] for row in reduced[len(pivots) :]):
        return None
    answer = 0 * right
    for pivot, row in zip(pivots, reduced, strict=False):
        answer[pivot] = row[-1]
    return answer
