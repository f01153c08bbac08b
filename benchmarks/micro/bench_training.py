"""Many networks at once: covopt.training against a plain PyTorch loop, side by side in one run.

    python benchmarks/micro/bench_training.py [--networks B] [--steps S] [--loop-networks M | all] [--dtype float32]

Both sides train two-layer networks (squared loss and λ‖W‖²) by full-batch Adam on the same points. The loop is
nn.Sequential and torch.optim.Adam, one network after another, at the fastest of its settings: one thread or all,
fused, foreach or plain, found by a short trial first; λ‖W‖² is Adam's weight_decay, the cheapest way to write it.
By default it trains 20 of the networks, all their steps, and its time is scaled to the number of networks: they are
alike and independent. Half of these come before the batch and half after it, so that a noisy machine slows both.
Both start from the same weights; the objectives of the networks that both trained are printed side by side.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import covopt
from covopt.datasets import make_random_plane
from covopt.training import Phase, TrainingRun, train

LAM, RATE = 1e-4, 1e-2
VARIANTS: dict[str, dict[str, bool]] = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "for-loop": {"foreach": False, "fused": False},
}
TRIAL_STEPS, TRIALS = 100, 3


@dataclass(frozen=True)
class Setting:
    threads: int
    variant: str

    def __str__(self) -> str:
        return f"{self.variant} Adam, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Task:
    X: np.ndarray
    y: np.ndarray
    width: int
    steps: int
    device: str
    dtype: str

    def objective(self, network: covopt.ReLUNetwork) -> float:
        """C + λ‖W‖² in double precision."""
        return float(np.mean((network.predict(self.X) - self.y) ** 2) + LAM * network.squared_norm)

    def run_batch(self, starts: list[covopt.ReLUNetwork], steps: int) -> TrainingRun:
        schedule = [Phase("adam", steps=steps, learning_rate=RATE)]
        options = {"lam": LAM, "device": self.device, "dtype": self.dtype, "tol_gradient": 1e-15}
        return train(
            self.X, self.y, widths=self.width, seeds=len(starts), schedule=schedule, start=starts, **options
        )


def draw(width: int, d: int, seed: int) -> covopt.ReLUNetwork:
    """Where a network starts: normal weights of variance 2 / fan-in."""
    rng = np.random.default_rng([0, seed])
    hidden = (2.0 / (d + 1)) ** 0.5 * rng.standard_normal((width, d + 1))
    return covopt.ReLUNetwork(hidden, (2.0 / width) ** 0.5 * rng.standard_normal((width, 1)))


def to_module(network: covopt.ReLUNetwork, task: Task) -> nn.Module:
    """A Linear, a ReLU and a Linear without bias; with β = 1 its parameters are the network's."""
    kind = {"dtype": getattr(torch, task.dtype), "device": task.device}
    inner, outer = (
        nn.Linear(task.X.shape[1], task.width, **kind),
        nn.Linear(task.width, 1, bias=False, **kind),
    )
    with torch.no_grad():
        inner.weight.copy_(torch.tensor(network.hidden_weights[:, :-1]))
        inner.bias.copy_(torch.tensor(network.hidden_weights[:, -1]))
        outer.weight.copy_(torch.tensor(network.output_weights.T))
    return nn.Sequential(inner, nn.ReLU(), outer)


def from_module(model: nn.Module) -> covopt.ReLUNetwork:
    arrays = {name: p.detach().double().cpu().numpy() for name, p in model.named_parameters()}
    hidden = np.column_stack([arrays["0.weight"], arrays["0.bias"]])
    return covopt.ReLUNetwork(hidden, arrays["2.weight"].T)


def run_loop(models: list[nn.Module], task: Task, steps: int, setting: Setting) -> float:
    """Train one after another; return the seconds."""
    torch.set_num_threads(setting.threads)
    kind = getattr(torch, task.dtype)
    X = torch.tensor(task.X, dtype=kind, device=task.device)
    y = torch.tensor(task.y[:, None], dtype=kind, device=task.device)
    mean = nn.MSELoss()
    began = time.perf_counter()
    for model in models:
        optimizer = torch.optim.Adam(
            model.parameters(), lr=RATE, weight_decay=2 * LAM, **VARIANTS[setting.variant]
        )
        for _ in range(steps):
            optimizer.zero_grad()
            mean(model(X), y).backward()
            optimizer.step()
    if task.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def fastest_setting(start: covopt.ReLUNetwork, task: Task, threads: int) -> Setting:
    """Time a hundred steps of each setting, three times in turn, and return the one with the least time."""
    settings = [Setting(n, v) for n in sorted({1, threads}) for v in VARIANTS]
    best = dict.fromkeys(settings, np.inf)
    for _ in range(TRIALS):
        for setting in settings:
            seconds = run_loop([to_module(start, task)], task, TRIAL_STEPS, setting)
            best[setting] = min(best[setting], seconds)
    for setting, seconds in best.items():
        print(f"  trial of the loop: {setting!s:<28}{seconds / TRIAL_STEPS * 1e6:9.0f} µs a step")
    return min(best, key=lambda setting: best[setting])


def choose_device(name: str) -> str:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: this machine or this build of torch has no CUDA device")
    return name


def count(text: str) -> int | None:
    return None if text == "all" else int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--networks", type=int, default=1000, metavar="B", help="in the batch (default 1000)")
    parser.add_argument("--steps", type=int, default=1000, metavar="S", help="of Adam (default 1000)")
    parser.add_argument(
        "--loop-networks",
        type=count,
        default=20,
        metavar="M",
        help="networks that the loop trains, its time scaled to B (default 20); all: nothing is scaled",
    )
    parser.add_argument("--points", type=int, default=50, metavar="N")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="of the batch")
    parser.add_argument("--loop-device", choices=["cpu", "cuda"], default="cpu", help="of the loop")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="of the batch; the median counts")
    chosen = parser.parse_args()

    device, loop_device = choose_device(chosen.device), choose_device(chosen.loop_device)
    X, y = make_random_plane(chosen.points, 2, random_state=0)
    batch = Task(X, y, chosen.width, chosen.steps, device, chosen.dtype)
    loop = Task(X, y, chosen.width, chosen.steps, loop_device, chosen.dtype)
    sample = chosen.networks if chosen.loop_networks is None else min(chosen.loop_networks, chosen.networks)
    threads = torch.get_num_threads()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device here"
    print(
        f"{chosen.networks} networks, {chosen.steps} steps of Adam, N = {chosen.points}, d = 2, "
        f"width {chosen.width}, {chosen.dtype}, λ = {LAM:g}\n"
        f"torch {torch.__version__}, {threads} threads, {platform.machine()}; {name}; "
        f"batch on {device}, loop on {loop_device}"
    )

    starts = [draw(chosen.width, X.shape[1], seed) for seed in range(chosen.networks)]
    batch.run_batch(starts, 3)  # first calls load and compile
    setting = fastest_setting(starts[0], loop, threads)
    models = [to_module(start, loop) for start in starts[:sample]]
    half = (sample + 1) // 2
    before = run_loop(models[:half], loop, chosen.steps, setting)
    torch.set_num_threads(threads)
    seconds = []
    for _ in range(chosen.repeats):
        began = time.perf_counter()
        run = batch.run_batch(starts, chosen.steps)
        seconds.append(time.perf_counter() - began)
    after = run_loop(models[half:], loop, chosen.steps, setting)

    measured, batched = before + after, float(np.median(seconds))
    scaled = measured / sample * chosen.networks
    said = (
        "measured whole" if sample == chosen.networks else f"scaled from {sample} networks, {measured:.1f} s"
    )
    listed = ", ".join(f"{s:.2f}" for s in seconds)
    print(f"  plain loop ({setting}): {scaled:.1f} s ({said})")
    print(f"  covopt.training.train, its table included: {batched:.2f} s (median of {listed})")
    print(f"  ratio {scaled / batched:.1f}")
    theirs = np.array([loop.objective(from_module(model)) for model in models])
    ours = np.array([batch.objective(run.network(i)) for i in range(sample)])
    print(
        f"  objectives of the networks both trained: mean {ours.mean():.6g} (batch), {theirs.mean():.6g} (loop), "
        f"largest relative difference {np.abs(ours / theirs - 1).max():.1e}"
    )


if __name__ == "__main__":
    main()
