"""Many networks at once against a plain PyTorch loop: ``python -m benchmarks.micro.training [--networks B] …``.

Both train two-layer networks (squared loss and λ‖W‖²) by full-batch Adam on the same points, from the same weights.
The loop is nn.Sequential and torch.optim.Adam, one network after another, at the fastest of its settings, found by a
short trial first: one thread or all, fused, foreach or plain; λ‖W‖² is Adam's weight_decay, the cheapest way to write
it. It trains some of the networks, all their steps, and its time is scaled to their number.
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

LAM, RATE, TRIAL = 1e-4, 1e-2, 100
VARIANTS = ({"fused": True}, {"foreach": True}, {"foreach": False, "fused": False})
X, Y = make_random_plane(50, 2, random_state=0)


def module(network: covopt.ReLUNetwork, dtype: torch.dtype) -> nn.Module:
    """A Linear, a ReLU and a Linear without bias; with β = 1 its parameters are the network's."""
    model = nn.Sequential(
        nn.Linear(2, len(network)), nn.ReLU(), nn.Linear(len(network), 1, bias=False)
    ).double()
    hidden = network.hidden_weights
    with torch.no_grad():
        for part, values in zip(
            model.parameters(), (hidden[:, :-1], hidden[:, -1], network.output_weights.T), strict=True
        ):
            part.copy_(torch.tensor(values))
    return model.to(dtype)


def looped(models: Sequence[nn.Module], steps: int, setting: tuple[int, dict[str, Any]]) -> float:
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


def objective(model: nn.Module) -> float:
    """C + λ‖W‖² in double precision."""
    model = model.double()
    with torch.no_grad():
        loss = nn.MSELoss()(model(torch.tensor(X)), torch.tensor(Y[:, None]))
        return float(loss + LAM * sum((part**2).sum() for part in model.parameters()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--networks", type=int, default=1000, metavar="B", help="in the batch")
    parser.add_argument("--steps", type=int, default=1000, metavar="S", help="of Adam")
    parser.add_argument("--loop-networks", type=int, default=20, metavar="M", help="that the loop trains")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--device", default="cpu", help="of the batch")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="of the batch; the median counts")
    asked = parser.parse_args()
    threads, dtype, rng = torch.get_num_threads(), getattr(torch, asked.dtype), np.random.default_rng(0)
    starts = [
        covopt.ReLUNetwork(
            (2.0 / 3.0) ** 0.5 * rng.standard_normal((asked.width, 3)),
            (2.0 / asked.width) ** 0.5 * rng.standard_normal((asked.width, 1)),
        )
        for _ in range(asked.networks)
    ]

    def batch(steps: int) -> Any:
        return train(
            X, Y, widths=asked.width, seeds=len(starts), start=starts, lam=LAM, tol_gradient=1e-15,
            device=asked.device, dtype=asked.dtype, schedule=[Phase("adam", steps=steps, learning_rate=RATE)],
        )  # fmt: skip

    batch(3)  # first calls load and compile
    setting = min(
        product({1, threads}, VARIANTS), key=lambda one: looped([module(starts[0], dtype)], TRIAL, one)
    )
    models = [module(start, dtype) for start in starts[: asked.loop_networks]]
    loop = looped(models, asked.steps, setting) / len(models) * len(starts)
    torch.set_num_threads(threads)
    seconds = []
    for _ in range(asked.repeats):
        began = time.perf_counter()
        run = batch(asked.steps)
        seconds.append(time.perf_counter() - began)
    both = np.array(
        [[objective(module(run.network(i), torch.float64)), objective(each)] for i, each in enumerate(models)]
    )
    print(
        f"plain loop ({setting[1]}, {setting[0]} threads) {loop:.1f} s, scaled from {len(models)}; "
        f"covopt.training.train {np.median(seconds):.2f} s; ratio {loop / np.median(seconds):.1f}\nobjectives of the "
        f"networks both trained: mean {both[:, 0].mean():.6g} (batch), {both[:, 1].mean():.6g} (loop), largest "
        f"difference {np.abs(both[:, 0] / both[:, 1] - 1).max():.1e}"
    )


if __name__ == "__main__":
    main()
