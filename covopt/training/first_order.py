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

from covopt.training.grid import DRAWS, Member, generator
from covopt.training.model import BatchedNetworks, torch
from covopt.training.schedule import DEFAULT_RATE, Phase

Tensor = Any
DRAWN_TOGETHER = (
    256  # steps whose samples are drawn at once; a fixed number, so that draws depend on the step only
)


def draw_noise(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draw noise of mean 0 and variance 1."""
    if kind == "rademacher":
        return 2.0 * random.integers(0, 2, shape) - 1.0
    if kind == "uniform":
        return random.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape)
    return random.standard_normal(shape)


def rate_of(phase: Phase, member: Member) -> float:
    """Return the learning rate of a network in a phase: the phase's own, else the network's, else 0.01."""
    if phase.learning_rate is not None:
        return phase.learning_rate
    return DEFAULT_RATE if member.learning_rate is None else member.learning_rate


class FirstOrder:
    """One phase of a batch; samples and noise depend on (random_state, seed, widths, step) alone.

    Parameters
    ----------
    phase : Phase
    number : int
        Place of the phase in the schedule: it seeds the draws.
    networks : BatchedNetworks
    members : sequence of Member
    theta : Tensor of shape (B, P)
    random_state : int
    """

    def __init__(
        self,
        phase: Phase,
        number: int,
        networks: BatchedNetworks,
        members: Sequence[Member],
        theta: Tensor,
        random_state: int,
    ) -> None:
        self.phase, self.networks, self.members, self.theta = phase, networks, list(members), theta
        self._number, self._random_state, self._block = number, random_state, -1
        rates = [rate_of(phase, member) for member in members]
        self._rates = torch.tensor(rates, dtype=theta.dtype, device=theta.device)[:, None]
        self._m, self._v = torch.zeros_like(theta), torch.zeros_like(theta)
        self.steps = torch.zeros(len(theta), dtype=torch.int64)
        self._drawn: tuple[Tensor, Tensor | None]

    def take(self, rows: Tensor, networks: BatchedNetworks) -> None:
        """Go on with some of the networks."""
        self.networks, self.members, self._block = networks, [self.members[k] for k in rows.tolist()], -1
        self.theta, self._rates, self._m, self._v, self.steps = (
            part[rows] for part in (self.theta, self._rates, self._m, self._v, self.steps)
        )

    def advance(self, first: int, count: int) -> None:
        """Do the steps first, …, first + count − 1."""
        step = self._adam if self.phase.optimiser == "adam" else self._descend
        for t in range(first, first + count):
            rows, noise = (None, None) if self.phase.samples is None else self._draws(t)
            self.steps += 1
            step(self.networks.value_and_gradient(self.theta, None, rows, noise)[1], t)

    def _descend(self, gradient: Tensor, t: int) -> None:
        if self.phase.momentum:
            gradient = self._m.mul_(self.phase.momentum).add_(gradient)
        self.theta.addcmul_(gradient, self._rates, value=-self.phase.factor(t))

    def _adam(self, gradient: Tensor, t: int) -> None:
        (first, second), age = self.phase.betas, int(self.steps[0])
        self._m.lerp_(gradient, 1.0 - first)
        self._v.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        # m̂/(√v̂ + ε) with both corrections taken out of the loop over the weights
        root = math.sqrt(1.0 - second**age)
        size = self._v.sqrt().add_(self.phase.eps * root).div_(self._rates)
        self.theta.addcdiv_(self._m, size, value=-self.phase.factor(t) * root / (1.0 - first**age))

    def _draws(self, step: int) -> tuple[Tensor, Tensor | None]:
        """Return the rows (B, m) of a step and the noise (B, m, k) on their targets (None without)."""
        block, place = divmod(step, DRAWN_TOGETHER)
        if block != self._block:
            self._block, self._drawn = block, self._draw(block)
        rows, noise = self._drawn
        return rows[:, place], None if noise is None else noise[:, place]

    def _draw(self, block: int) -> tuple[Tensor, Tensor | None]:
        shape, level = (DRAWN_TOGETHER, self.phase.samples or 1), self.phase.noise_level
        count, outputs = self.networks.loss.targets.shape
        size: tuple[int, ...] = (*shape, outputs) if level else (0,)
        drawn: dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray]] = {}
        for member in self.members:
            key = (member.seed, member.widths)
            if key not in drawn:
                random = generator(self._random_state, *key, DRAWS, self._number, block)
                rows = random.integers(0, count, shape)
                drawn[key] = rows, level * draw_noise(random, self.phase.noise, size)
        found = [drawn[member.seed, member.widths] for member in self.members]
        both = [torch.as_tensor(np.stack(parts)).to(self.theta.device) for parts in zip(*found, strict=True)]
        return both[0], both[1].to(self.theta) if level else None
