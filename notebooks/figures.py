"""Experiments of RK23, BN23 and FL22, a table of numbers each: ``python notebooks/figures.py NAME [--paper]``.

The notebooks beside this file draw them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.datasets import make_teacher_student
from covopt.depth import bottleneck_structure, jacobian
from covopt.depth.layers import as_chain
from covopt.meter.ladder import balanced
from covopt.network import DeepReLUNetwork
from covopt.training import Phase, train

SHARE = 1.0  # of the steps of training; the tests of the notebooks take fewer
OUTPUTS: float | None = None  # Σ_k E y_k² of RK23 Figure 1, not in the paper; its dimension by default


def shallow_map(
    rng: np.random.Generator, n_inputs: int, n_outputs: int, width: int
) -> Callable[..., np.ndarray]:
    """Return a random shallow ReLU network without biases of its outputs."""
    into = rng.standard_normal((width, n_inputs + 1)) / np.sqrt(n_inputs + 1)
    out = rng.standard_normal((n_outputs, width)) / np.sqrt(width)

    def at(z: np.ndarray) -> np.ndarray:
        return np.maximum(np.column_stack([z, np.ones(len(z))]) @ into.T, 0.0) @ out.T

    return at


def low_rank_task(
    n: int, latents: int, used: int, dim: int, *, size: float, width: int = 100, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return x = g(z) and y = h(z₁ … z_used), both random shallow networks, Σ_k E y_k² = size."""
    rng = np.random.default_rng(seed)
    g, h = shallow_map(rng, latents, dim, width), shallow_map(rng, used, dim, width)
    z = rng.standard_normal((n, latents))
    X, Y = g(z), h(z[:, :used])
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return X * np.sqrt(dim / (X**2).sum(axis=1).mean()), Y * np.sqrt(size / (Y**2).sum(axis=1).mean())


def fitted(
    X: np.ndarray,
    Y: np.ndarray,
    depth: int,
    *,
    width: int,
    lam: float,
    steps: int,
    rate: float = 3e-3,
    start: Any = None,
    loss: str = "squared",
    seed: int = 0,
    device: str = "cpu",
    scale: float = 1.0,
    finish: int = 0,
) -> DeepReLUNetwork:
    """Return a trained network: full-batch Adam, the rate falling as a cosine."""
    steps, finish = max(1, int(steps * SHARE)), int(finish * SHARE)
    run = train(
        X, Y, widths=(width,) * (depth - 1), lam=lam, loss=loss, output_bias="penalized", seeds=[seed], start=start,
        schedule=[
            Phase("adam", steps, learning_rate=rate, decay="cosine"), *([Phase("lbfgs", finish)] if finish else [])
        ],
        dtype="float64" if finish else "float32", tol_gradient=1e-4, device=device, scale=scale,
    )  # fmt: skip
    return as_chain(run.network(0))


def deeper(network: DeepReLUNetwork) -> DeepReLUNetwork:
    """Return the same function with an identity layer after the middle one."""
    weights, biases = list(network.weights), list(network.biases or ())
    place = len(weights) // 2
    width = len(weights[place - 1])
    weights.insert(place, np.eye(width))
    biases.insert(place, np.zeros(width))
    return DeepReLUNetwork(weights, biases, bias=network.bias, counts_output_bias=True)


def spectra(network: DeepReLUNetwork, X: np.ndarray, count: int = 10) -> dict[str, np.ndarray]:
    """Return the first singular values of Z_ℓ (centred, over the largest) and W_ℓ, and ‖Z − σ(Z)‖/‖Z‖."""
    found = network.representations(X)
    values = [np.linalg.svd(z - z.mean(axis=0), compute_uv=False)[:count] for z in found]
    layers = [np.linalg.svd(w, compute_uv=False)[:count] for w in network.weights]
    bent = [float(np.linalg.norm(np.minimum(z, 0.0)) / max(np.linalg.norm(z), 1e-300)) for z in found]
    return {
        "Z": np.array([np.pad(v / v[0], (0, count - len(v))) for v in values]),
        "W": np.array([np.pad(v, (0, count - len(v))) for v in layers]),
        "bent": np.array(bent),
    }


def rk23_1(*, paper: bool, device: str) -> dict[str, Any]:
    """Figure 1 of RK23: the middle layers of a deep network have the rank of the task."""
    sizes = (500, 15, 5, 50, 13, 100, 20000) if paper else (150, 8, 3, 20, 13, 30, 4000)
    n, latents, used, dim, depth, width, steps = sizes
    X, Y = low_rank_task(n, latents, used, dim, size=float(dim) if OUTPUTS is None else OUTPUTS, width=100)
    lam = (0.05 if paper else 0.65) / depth
    network = fitted(X, Y, depth, width=width, lam=lam, steps=steps, device=device)
    found = spectra(network, X)
    structure = bottleneck_structure(network, X[:1])
    print(
        f"L = {depth}, λ = {lam:.3g}, ‖W‖²/L = {network.squared_norm / depth:.2f} (paper: about 6), "
        f"k* = {structure.k}"
    )
    print("layer   s₁ … s₆ of W_ℓ                                 s₅/s₁ of Z_ℓ   ‖Z − σ(Z)‖/‖Z‖")
    for ell in range(depth):
        values = " ".join(f"{v:7.3f}" for v in found["W"][ell][:6])
        print(f"{ell + 1:5d} {values}   {found['Z'][ell][4]:12.4f}   {found['bent'][ell]:10.4f}")
    return {"network": network, "X": X, "Y": Y, **found}


LADDERS = ((12.0, 0.02), (6.0, 0.03))  # Σ E y² and λ of Figure 1: rank 3 to the end, and rank 3, then 2
LAST = 24


def bn23_1(*, paper: bool, device: str) -> dict[str, Any]:
    """Figure 1 of BN23: the norm grows with the depth in affine pieces, one for each rank of the middle."""
    if paper:
        n, latents, dim, width, last, first_steps, steps = 100, 8, 20, 30, 25, 12000, 4000
    else:
        n, latents, dim, width, last, first_steps, steps = 40, 4, 8, 12, LAST, 2000, 20
    ladders = {}
    for size, lam in ((20.0, 0.06),) if paper else LADDERS:
        X, Y = low_rank_task(n, latents, 2, dim, size=size)
        network, rows = None, []
        for depth in range(4, last + 1):
            first = network is None
            network = fitted(
                X, Y, depth, width=width, lam=lam, steps=first_steps if first else steps,
                start=None if network is None else deeper(network), rate=3e-3 if first else 1e-4,
                finish=2000 if paper else 600, device=device,
            )  # fmt: skip
            middle = np.linalg.svd(network.weights[depth // 2], compute_uv=False)
            s = middle[middle > 1e-3]
            slope = float((s**2 * (1.0 - 2.0 * np.log(s))).sum())
            rows.append((depth, network.squared_norm, int((middle > 0.5).sum()), slope))
        ladders[size, lam] = rows
        rises = np.r_[np.diff([row[1] for row in rows]), np.nan]
        print(f"Σ E y² = {size:g}, λ = {lam:g}")
        print("   L    ‖W‖²    rise to L + 1   rank of the middle   Σ s̄²(1 − 2 log s̄)")
        for (depth, norm, rank, slope), rise in zip(rows, rises, strict=True):
            print(f"{depth:4d} {norm:8.3f} {rise:12.3f} {rank:16d} {slope:20.3f}")
    return {"ladders": ladders}


CURVES = (0, 5)  # seeds of Figure 3


def inverted_s(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return four classes on inverted S's side by side (RK23 Figure 2)."""
    labels = np.repeat(np.arange(4), n)
    t = rng.uniform(-1.0, 1.0, 4 * n)
    x = -1.5 * np.sin(np.pi * t) + 0.6 * (labels - 1.5) + 0.03 * rng.standard_normal(4 * n)
    return np.column_stack([x, 2.0 * t]), labels


def tripoints(network: DeepReLUNetwork, *, reach: float, size: int = 300) -> int:
    """Count groups of 2 × 2 blocks of a grid that meet three classes or more."""
    from scipy.ndimage import label

    line = np.linspace(-reach, reach, size)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    classes = network.predict(grid).argmax(axis=1).reshape(size, size)
    blocks = np.stack([classes[:-1, :-1], classes[1:, :-1], classes[:-1, 1:], classes[1:, 1:]], axis=-1)
    blocks.sort(axis=-1)
    met = (np.diff(blocks, axis=-1) != 0).sum(axis=-1) >= 2
    return int(label(met, structure=np.ones((3, 3)))[1])


def rk23_2(*, paper: bool, device: str) -> dict[str, Any]:
    """Figure 2 of RK23: shallow partitions of the plane have tripoints, deep ones do not."""
    rng = np.random.default_rng(0)
    X, labels = inverted_s(80 if paper else 40, rng)
    found = {}
    print("  L       λ   tripoints   errors")
    for depth, lam in ((2, 0.0), (2, 1e-3), (9, 0.0), (9, 3e-4)):
        network = fitted(
            X, labels, depth, width=50 if paper else 30, lam=lam, steps=4000 if paper else 1500, rate=3e-3,
            loss="softmax-cross-entropy", device=device,
        )  # fmt: skip
        errors = int((network.predict(X).argmax(axis=1) != labels).sum())
        found[depth, lam] = network
        print(f"{depth:3d} {lam:7g} {tripoints(network, reach=4.0):11d} {errors:8d}")
    return {"X": X, "labels": labels, "networks": found}


def curve(n: int, seed: int) -> np.ndarray:
    """Return points g(z) of a random curve in the plane (RK23 Figure 3)."""
    rng = np.random.default_rng(seed)
    g = shallow_map(rng, 1, 2, 30)
    points = g(np.clip(rng.standard_normal((n, 1)), -2.0, 2.0))
    return (points - points.mean(axis=0)) / points.std(axis=0)


def rk23_3(*, paper: bool, device: str) -> dict[str, Any]:
    """Figure 3 of RK23: deep autoencoders project onto the data, shallow ones do not."""
    found = {}
    print(
        "curve  L   distance to the data, after / before   median s₂/s₁ of the Jacobian   error on the data"
    )
    for seed in CURVES:
        X = curve(200 if paper else 120, seed)
        rng = np.random.default_rng(0)
        away = rng.standard_normal((300, 2))
        noisy = X[rng.integers(0, len(X), 300)] + 0.15 * away / np.linalg.norm(away, axis=1)[:, None]
        for depth in (2, 9):
            network = fitted(
                X, X, depth, width=50 if paper else 30, lam=1e-4, steps=8000 if paper else 2500, device=device
            )
            out = network.predict(noisy)
            values = np.linalg.svd(jacobian(network, noisy), compute_uv=False)
            ratio = float(np.median(values[:, 1] / np.maximum(values[:, 0], 1e-300)))
            miss = float(np.linalg.norm(network.predict(X) - X, axis=1).mean())
            share = _distance(out, X) / _distance(noisy, X)
            found[seed, depth] = (X, noisy, out)
            print(f"{seed:5d} {depth:2d} {share:24.2f} {ratio:34.2f} {miss:20.3f}")
    return {"found": found}


def _distance(points: np.ndarray, X: np.ndarray) -> float:
    return float(np.linalg.norm(points[:, None] - X[None], axis=2).min(axis=1).mean())


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


STUDENTS = {10: 24, 12: 16, 14: 8, 17: 6, 20: 4, 30: 2, 50: 1}  # seeds of each width of FL22 Figure 2


def fl22_2(*, paper: bool, device: str) -> dict[str, Any]:
    """Figure 2 of FL22, right: how near students come to their teacher, λ falling step by step to 10⁻⁶."""
    X, Y, weights = make_teacher_student(1000, return_weights=True)
    floor = balanced(DeepReLUNetwork(weights)).squared_norm
    print(f"teacher: ‖W‖² {floor:.4e}\nwidth   seeds   best / teacher")
    rows, steps = [], max(1, int((2000 if paper else 400) * SHARE))
    for width, seeds in STUDENTS.items():
        best: Any = None
        for i, lam in enumerate((1e-2, 1e-3, 1e-4, 1e-5, 1e-6)):
            adam = Phase(
                "adam",
                max(1, int((100 if i else 1000) * SHARE)),
                learning_rate=1e-3 if i else 0.01,
                decay="cosine",
            )
            run = train(
                X, Y, widths=(width, width), bias=0.0, lam=lam, start=best, tol_gradient=1e-9, device=device,
                seeds=[0] if i > 2 else (4 * seeds if paper else seeds),
                schedule=[Phase("lbfgs", 2 * steps)] if i > 2 else [adam, Phase("lbfgs", steps)],
            )  # fmt: skip
            best = run if i < 2 else run.network(int(run.table.objective.argmin()))
        missed = float(((best.predict(X) - Y) ** 2).sum(axis=1).mean())
        rows.append((width, (missed / 1e-6 + sum(float((w**2).sum()) for w, _ in best.layers)) / floor))
        print(f"{width:5d} {seeds:7d} {rows[-1][1]:16.4f}", flush=True)
    return {"rows": rows}


FIGURES: dict[str, Callable[..., dict[str, Any]]] = {
    "rk23-1": rk23_1, "rk23-2": rk23_2, "rk23-3": rk23_3, "bn23-1": bn23_1, "bn23-2": bn23_2,
    "fl22-2": fl22_2,
}  # fmt: skip


def main() -> None:
    global SHARE, OUTPUTS
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("name", choices=list(FIGURES))
    parser.add_argument("--paper", action="store_true", help="the paper's sizes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps: 0.001 shows that it starts")
    parser.add_argument("--outputs", type=float, help="Σ E y² of rk23-1")
    asked = parser.parse_args()
    SHARE, OUTPUTS, began = asked.share, asked.outputs, time.process_time()
    FIGURES[asked.name](paper=asked.paper, device=asked.device)
    print(f"{time.process_time() - began:.1f} s of processor time")


if __name__ == "__main__":
    main()
