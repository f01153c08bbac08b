r"""First-order steps of a whole batch: gradient descent, SGD, Adam, SGD with label noise.

Every network has its own rate ε, its own λ and, where samples are drawn, its own draws:

- ``gd``: θ ← θ − ε ∇L(θ);
- ``sgd``: ∇ estimated from a minibatch drawn with replacement;
- ``adam``: Kingma and Ba (ICLR 2015), as in ``torch.optim.Adam``;
- ``label-noise-sgd``: SP20, Algorithm 1, θ ← θ − ε ∇_θ (f(x_i; θ) − ỹ_i)², ỹ_i = y_i + η r, one random i each step
  (a mean over more of them with ``batch_size``); the gradient of one sample is 2(f − ỹ)∇f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from covopt.training.backend import torch
from covopt.training.grid import DRAWS, Member, generator
from covopt.training.model import BatchedNetworks
from covopt.training.schedule import DEFAULT_RATE, Phase

Tensor = Any
DRAWN_TOGETHER = (
    256  # steps whose samples are drawn at once; a fixed number, so that draws depend on the step only
)


class Draws:
    """Samples and noise of every step for every network, which depend on (random_state, seed, widths, step) alone."""

    def __init__(
        self,
        phase: Phase,
        number: int,
        members: Sequence[Member],
        networks: BatchedNetworks,
        random_state: int,
    ) -> None:
        self._phase, self._number, self._random_state = phase, number, random_state
        self._members = members
        self._shape = (networks.loss.n_samples, phase.samples, networks.architecture.n_outputs)
        self._like = networks.inputs
        self._block = -1
        self._rows: Tensor = None
        self._noise: Tensor = None

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the rows (B, m) of a step and the noise (B, m, k) on their targets (None without)."""
        block, place = divmod(step, DRAWN_TOGETHER)
        if block != self._block:
            self._draw(block)
        return self._rows[place], None if self._noise is None else self._noise[place]

    def _draw(self, block: int) -> None:
        n_samples, size, outputs = self._shape
        assert size is not None
        drawn: dict[tuple[int, tuple[int, ...]], tuple[np.ndarray, np.ndarray | None]] = {}
        level = self._phase.noise_level
        for member in self._members:
            key = (member.seed, member.widths)
            if key not in drawn:
                random = generator(self._random_state, *key, DRAWS, self._number, block)
                rows = random.integers(0, n_samples, (DRAWN_TOGETHER, size))
                noise = None
                if level:
                    noise = level * draw_noise(random, self._phase.noise, (DRAWN_TOGETHER, size, outputs))
                drawn[key] = rows, noise
        found = [drawn[member.seed, member.widths] for member in self._members]
        self._rows = torch.as_tensor(np.stack([rows for rows, _ in found], 1), device=self._like.device)
        if level:
            noises = np.stack([noise for _, noise in found if noise is not None], 1)
            self._noise = torch.as_tensor(noises, dtype=self._like.dtype, device=self._like.device)
        self._block = block


def draw_noise(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draw noise of mean 0 and variance 1."""
    if kind == "rademacher":
        return 2.0 * random.integers(0, 2, shape) - 1.0
    if kind == "uniform":
        return random.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape)
    return random.standard_normal(shape)


class FirstOrder:
    """One phase of a batch; ``state`` holds what the steps remember.

    Parameters
    ----------
    phase : Phase
    number : int
        Place of the phase in the schedule: it seeds the draws.
    networks : BatchedNetworks
    members : sequence of Member
    random_state : int
    """

    def __init__(
        self,
        phase: Phase,
        number: int,
        networks: BatchedNetworks,
        members: Sequence[Member],
        random_state: int,
    ) -> None:
        self.phase, self.networks = phase, networks
        rates = [rate_of(phase, member) for member in members]
        like = networks.inputs
        self._rates = torch.tensor(rates, dtype=like.dtype, device=like.device)[:, None]
        self._draws = None if phase.samples is None else Draws(phase, number, members, networks, random_state)

    def new_state(self, theta: Tensor) -> dict[str, Tensor]:
        """Return what the first step starts from."""
        if self.phase.optimiser == "adam":
            return {"m": torch.zeros_like(theta), "v": torch.zeros_like(theta)}
        return {"m": torch.zeros_like(theta)} if self.phase.momentum else {}

    def run(self, theta: Tensor, state: dict[str, Tensor], first: int, count: int, since: int = 0) -> None:
        """Do the steps first, …, first + count − 1 on ``theta``, in place; the state is that since a step."""
        gradient = torch.empty_like(theta)
        step = self._adam if self.phase.optimiser == "adam" else self._descend
        scratch = torch.empty_like(theta)
        for t in range(first, first + count):
            rows, noise = (None, None) if self._draws is None else self._draws.at(t)
            self.networks.gradient_(theta, gradient, rows, noise)
            step(theta, gradient, scratch, state, t, t + 1 - since)

    def _descend(
        self, theta: Tensor, gradient: Tensor, scratch: Tensor, state: dict[str, Tensor], t: int, age: int
    ) -> None:
        if self.phase.momentum:
            gradient = state["m"].mul_(self.phase.momentum).add_(gradient)
        theta.addcmul_(gradient, self._rates, value=-self.phase.factor(t))

    def _adam(
        self, theta: Tensor, gradient: Tensor, scratch: Tensor, state: dict[str, Tensor], t: int, age: int
    ) -> None:
        first, second = self.phase.betas
        m, v = state["m"], state["v"]
        m.lerp_(gradient, 1.0 - first)
        v.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        # m̂/(√v̂ + ε) with both corrections taken out of the loop over the weights
        root = math.sqrt(1.0 - second**age)
        torch.sqrt(v, out=scratch).add_(self.phase.eps * root).div_(self._rates)
        theta.addcdiv_(m, scratch, value=-self.phase.factor(t) * root / (1.0 - first**age))


def rate_of(phase: Phase, member: Member) -> float:
    """Return the learning rate of a network in a phase: the phase's own, else the network's, else 0.01."""
    if phase.learning_rate is not None:
        return phase.learning_rate
    return DEFAULT_RATE if member.learning_rate is None else member.learning_rate
