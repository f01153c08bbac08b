"""Figure 2 of BN23: a network that predicts a descent learns the rotations under which it is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.network import DeepReLUNetwork

NOISE = 0.01  # of E, against the unit vector w


@dataclass(frozen=True)
class Descent:
    """Gradient descent on C(v) = ‖vvᵀ − (wwᵀ + E)‖², whose costs along the way are to be predicted from v(0).

    For E = 0 it is the same under rotations about w: what matters are (wᵀv)² and ‖v − (wᵀv)w‖².
    """

    w: np.ndarray
    noise: np.ndarray
    rate: float
    steps: int

    def path(self, v: np.ndarray) -> np.ndarray:
        """Return v(0) … v(T), of shape (T + 1, N, d)."""
        target = np.outer(self.w, self.w) + self.noise
        found = [v]
        for _ in range(self.steps):
            # ∇C = 4(‖v‖²v − (wwᵀ + E)v) for a symmetric E
            found.append(
                found[-1]
                - self.rate * 4.0 * ((found[-1] ** 2).sum(axis=1)[:, None] * found[-1] - found[-1] @ target)
            )
        return np.array(found)

    def costs(self, path: np.ndarray) -> np.ndarray:
        """Return C(v(1)) … C(v(T)) of every row, of shape (N, T)."""
        target = np.outer(self.w, self.w) + self.noise
        far = path[1:, :, :, None] * path[1:, :, None, :] - target
        return (far**2).sum(axis=(2, 3)).T

    def turned(self, v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return each row turned about w at random: the same two numbers, elsewhere on its orbit."""
        along = v @ self.w
        across = v - along[:, None] * self.w
        fresh = rng.standard_normal(v.shape)
        fresh -= (fresh @ self.w)[:, None] * self.w
        fresh *= (np.linalg.norm(across, axis=1) / np.linalg.norm(fresh, axis=1))[:, None]
        return along[:, None] * self.w + fresh


def descent(dim: int, steps: int, rate: float, rng: np.random.Generator) -> Descent:
    """Return the descent of a random unit vector and a small symmetric noise."""
    w = rng.standard_normal(dim)
    noise = NOISE * rng.standard_normal((dim, dim))
    return Descent(w / np.linalg.norm(w), 0.5 * (noise + noise.T), rate, steps)


def starts(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Return v(0): normal, of mean square length two."""
    return rng.standard_normal((n, dim)) * np.sqrt(2.0 / dim)


def orbits(network: DeepReLUNetwork, v: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Return for the inputs and every layer how far a row is from itself turned, over how far from the other rows."""
    here, there = [v, *network.representations(v)], [turned, *network.representations(turned)]
    found = []
    for a, b in zip(here, there, strict=True):
        own = float(np.median(np.linalg.norm(a - b, axis=1)))
        others = float(np.median(np.linalg.norm(a - np.roll(a, 1, axis=0), axis=1)))
        found.append(own / others)
    return np.array(found)


def bn23_2(*, paper: bool, device: str) -> dict[str, Any]:
    """Figure 2 of BN23: two singular values of order one in the middle, and orbits that fall together."""
    from benchmarks.depth.figures import fitted

    if paper:
        n, dim, depth, width, horizon, lam, steps = 1000, 10, 25, 200, 20, 2e-4, 20000
    else:
        n, dim, depth, width, horizon, lam, steps = 300, 4, 12, 24, 10, 5e-2, 8000
    rng = np.random.default_rng(0)
    task = descent(dim, horizon, 0.02, rng)
    v = starts(n, dim, rng)
    costs = task.costs(task.path(v))
    middle, size = costs.mean(axis=0), np.sqrt((costs - costs.mean(axis=0)).var())
    Y = (costs - middle) / size
    network = fitted(v, Y, depth, width=width, lam=lam, steps=steps, device=device)
    again = starts(300, dim, rng)
    missed = float(((network.predict(v) - Y) ** 2).mean())
    truth = (task.costs(task.path(again)) - middle) / size
    new = float(((network.predict(again) - truth) ** 2).mean() / (truth**2).mean())
    values = np.array([
        np.pad(s, (0, max(0, 5 - len(s))))[:5]
        for s in (np.linalg.svd(w, compute_uv=False) for w in network.weights)
    ])  # fmt: skip
    apart = orbits(network, again, task.turned(again, rng))
    print(
        f"L = {depth}, λ = {lam:g}: mean squared error {missed:.4f}, on new points {new:.3f} of their variance"
    )
    print("layer   s₁ … s₅ of W_ℓ                          distance along orbits / between rows")
    print(f"    0 {'':40s} {apart[0]:10.3f}")
    for ell, row in enumerate(values):
        print(f"{ell + 1:5d} {' '.join(f'{s:7.3f}' for s in row):40s} {apart[ell + 1]:10.3f}")
    middle_layer = depth // 2
    z = network.representations(v)[middle_layer - 1]
    spread = np.linalg.svd(z - z.mean(axis=0), compute_uv=False) ** 2
    print(
        f"two dimensions of Z_{middle_layer} hold {float(spread[:2].sum() / spread.sum()):.4f} of its variance"
    )
    return {
        "network": network,
        "task": task,
        "values": values,
        "orbits": apart,
        "layer": middle_layer,
        "v": again,
    }
