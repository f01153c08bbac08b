"""Many networks at once against a plain PyTorch loop: ``python -m benchmarks.micro.training [--networks B] …``.

Both train two-layer networks (squared loss and λ‖W‖²) by full-batch Adam on the same points, from the same weights.
The loop is nn.Sequential and torch.optim.Adam, one network after another, at the fastest of its settings: one thread
or all, fused, foreach or plain, found by a short trial first; λ‖W‖² is Adam's weight_decay, the cheapest way to write
it. It trains some of the networks, all their steps, half of them before the batch and half after it, and its time is
scaled to their number.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import nn

import covopt
from covopt.datasets import make_random_plane
from covopt.training import Phase, train

LAM, RATE = 1e-4, 1e-2
VARIANTS = ({"fused": True}, {"foreach": True}, {"foreach": False, "fused": False})
TRIAL_STEPS, TRIALS = 100, 3
X, Y = make_random_plane(50, 2, random_state=0)


def draw(width: int, seed: int) -> covopt.ReLUNetwork:
    """Where a network starts: normal weights of variance 2 / fan-in."""
    rng = np.random.default_rng([0, seed])
    hidden = (2.0 / 3.0) ** 0.5 * rng.standard_normal((width, 3))
    return covopt.ReLUNetwork(hidden, (2.0 / width) ** 0.5 * rng.standard_normal((width, 1)))


def objective(network: covopt.ReLUNetwork) -> float:
    """C + λ‖W‖² in double precision."""
    return float(np.mean((network.predict(X) - Y) ** 2) + LAM * network.squared_norm)


def to_module(network: covopt.ReLUNetwork, dtype: torch.dtype) -> nn.Module:
    """A Linear, a ReLU and a Linear without bias; with β = 1 its parameters are the network's."""
    inner = nn.Linear(2, len(network), dtype=dtype)
    outer = nn.Linear(len(network), 1, bias=False, dtype=dtype)
    with torch.no_grad():
        inner.weight.copy_(torch.tensor(network.hidden_weights[:, :-1]))
        inner.bias.copy_(torch.tensor(network.hidden_weights[:, -1]))
        outer.weight.copy_(torch.tensor(network.output_weights.T))
    return nn.Sequential(inner, nn.ReLU(), outer)


def from_module(model: nn.Module) -> covopt.ReLUNetwork:
    arrays = [p.detach().double().numpy() for p in model.parameters()]
    return covopt.ReLUNetwork(np.column_stack(arrays[:2]), arrays[2].T)


def run_loop(models: Sequence[nn.Module], steps: int, setting: tuple[int, dict[str, Any]]) -> float:
    """Train one after another; return the seconds."""
    torch.set_num_threads(setting[0])
    dtype, mean = next(models[0].parameters()).dtype, nn.MSELoss()
    inputs, targets = torch.tensor(X, dtype=dtype), torch.tensor(Y[:, None], dtype=dtype)
    began = time.perf_counter()
    for model in models:
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=2 * LAM, **setting[1])
        for _ in range(steps):
            optimizer.zero_grad()
            mean(model(inputs), targets).backward()
            optimizer.step()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--networks", type=int, default=1000, metavar="B", help="in the batch")
    parser.add_argument("--steps", type=int, default=1000, metavar="S", help="of Adam")
    parser.add_argument(
        "--loop-networks", type=int, default=20, metavar="M", help="networks that the loop trains"
    )
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--device", default="cpu", help="of the batch")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="of the batch; the median counts")
    asked = parser.parse_args()
    starts = [draw(asked.width, seed) for seed in range(asked.networks)]
    threads, dtype = torch.get_num_threads(), getattr(torch, asked.dtype)

    def run_batch(steps: int) -> Any:
        return train(
            X, Y, widths=asked.width, seeds=len(starts), start=starts, lam=LAM, tol_gradient=1e-15,
            device=asked.device, dtype=asked.dtype, schedule=[Phase("adam", steps=steps, learning_rate=RATE)],
        )  # fmt: skip

    run_batch(3)  # first calls load and compile
    trials = {
        (n, tuple(variant)): (min(
            run_loop([to_module(starts[0], dtype)], TRIAL_STEPS, (n, variant)) for _ in range(TRIALS)
        ), (n, variant))
        for n, variant in product({1, threads}, VARIANTS)
    }  # fmt: skip
    setting = min(trials.values(), key=lambda trial: trial[0])[1]
    models = [to_module(start, dtype) for start in starts[: asked.loop_networks]]
    half, seconds = (len(models) + 1) // 2, []
    looped = run_loop(models[:half], asked.steps, setting)
    torch.set_num_threads(threads)
    for _ in range(asked.repeats):
        began = time.perf_counter()
        run = run_batch(asked.steps)
        seconds.append(time.perf_counter() - began)
    looped += run_loop(models[half:], asked.steps, setting) if models[half:] else 0.0
    scaled, batched = looped / len(models) * len(starts), float(np.median(seconds))
    ours = np.array([objective(run.network(i)) for i in range(len(models))])
    theirs = np.array([objective(from_module(model)) for model in models])
    print(
        f"plain loop ({setting[1]}, {setting[0]} threads) {scaled:.1f} s, scaled from {len(models)}; "
        f"covopt.training.train {batched:.2f} s; ratio {scaled / batched:.1f}\nobjectives of the networks both "
        f"trained: mean {ours.mean():.6g} (batch), {theirs.mean():.6g} (loop), largest difference "
        f"{np.abs(ours / theirs - 1).max():.1e}"
    )


if __name__ == "__main__":
    main()
