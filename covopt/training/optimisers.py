r"""Batched optimisers: gradient descent, SGD, Adam, SGD with label noise, L-BFGS.

Every network has its own learning rate ε, its own λ and its own random draws:

- ``gd``: θ ← θ − ε ∇L(θ);
- ``sgd``: ∇ estimated from a minibatch drawn with replacement;
- ``adam``: Kingma and Ba (ICLR 2015), as in ``torch.optim.Adam``;
- ``label-noise-sgd``: SP20, Algorithm 1, θ ← θ − ε ∇_θ (f(x_i; θ) − ỹ_i)², ỹ_i = y_i + η r, one random i each step
  (a mean over more of them with ``batch_size``); the gradient of one sample is 2(f − ỹ)∇f.

``lbfgs`` is the two-loop recursion of Liu and Nocedal (Math. Programming 45, 1989). Its line search finds steps with
the weak Wolfe conditions by doubling and bisection: the minima of ReLU networks with weight decay lie at kinks, where
the strong conditions never hold, and the weak ones suffice for quasi-Newton steps (Lewis and Overton, Math. Program.
141, 2013). The networks share only the calls that evaluate the objective: the path of a network does not depend on
its batch, and no network waits for the line search of another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covopt.exact.rank import FOUND, NEAR, ROUGH
from covopt.training.model import BatchedNetworks, torch
from covopt.training.schedule import DEFAULT_RATE, STRETCH, Member, Phase, Stream, generator

Tensor = Any
Function = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
STATUSES = ("running", "converged", "stopped", "diverged")
RUNNING, CONVERGED, STOPPED, DIVERGED = range(4)
CURVATURE = 0.9  # c₂ of the Wolfe conditions; c₁ is ROUGH
# evaluations of a line search, after which bisection has narrowed it to NEAR
TRIALS = math.ceil(-math.log2(NEAR))
NOISE = 8.0  # units in the last place by which equal values may differ through rounding
BETAS = (0.9, 0.999)  # Adam's decay rates of the averages
PAIRS = 10  # curvature pairs of L-BFGS; it ends after as many steps without improvement


def copies_in(phase: Phase) -> int:
    """Return the number of copies of its weights that a batch takes, rounded up to multiples of the pairs."""
    return PAIRS * (3 if phase.optimiser == "lbfgs" else 1)


class FirstOrder:
    """One phase of a batch; samples and noise depend on (random_state, seed, widths, step) alone.

    Parameters
    ----------
    phase : Phase
    number : int
        Index of the phase in the schedule, part of the seed.
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
        rates = [phase.learning_rate or member.learning_rate or DEFAULT_RATE for member in members]
        self._rates = torch.tensor(rates, dtype=theta.dtype, device=theta.device)[:, None]
        self._m, self._v = torch.zeros_like(theta), torch.zeros_like(theta)
        self.steps = 0
        self._drawn: tuple[Tensor, Tensor | None]

    def take(self, rows: Tensor, networks: BatchedNetworks) -> None:
        """Continue with some of the networks."""
        self.networks, self.members, self._block = networks, [self.members[k] for k in rows.tolist()], -1
        self.theta, self._rates, self._m, self._v = (
            part[rows] for part in (self.theta, self._rates, self._m, self._v)
        )

    def advance(self, count: int) -> None:
        """Perform the next ``count`` steps."""
        step = self._adam if self.phase.optimiser == "adam" else self._descend
        for t in range(self.steps, self.steps + count):
            rows, noise = (None, None) if self.phase.samples is None else self._draws(t)
            step(self.networks.value_and_gradient(self.theta, None, rows, noise)[1], t)
        self.steps += count

    def _descend(self, gradient: Tensor, t: int) -> None:
        if self.phase.momentum:
            gradient = self._m.mul_(self.phase.momentum).add_(gradient)
        self.theta.addcmul_(gradient, self._rates, value=-self.phase.factor(t))

    def _adam(self, gradient: Tensor, t: int) -> None:
        (first, second), age = BETAS, t + 1
        self._m.lerp_(gradient, 1.0 - first)
        self._v.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        # m̂/(√v̂ + ε), with both bias corrections applied as scalars
        root = math.sqrt(1.0 - second**age)
        size = self._v.sqrt().add_(self.phase.eps * root).div_(self._rates)
        self.theta.addcdiv_(self._m, size, value=-self.phase.factor(t) * root / (1.0 - first**age))

    def _draws(self, step: int) -> tuple[Tensor, Tensor | None]:
        """Return the rows (B, m) of a step and the noise (B, m, k) on their targets, or None."""
        block, place = divmod(step, STRETCH)
        if block != self._block:
            self._block, self._drawn = block, self._draw(block)
        rows, noise = self._drawn
        return rows[:, place], None if noise is None else noise[:, place]

    def _draw(self, block: int) -> tuple[Tensor, Tensor | None]:
        shape, level = (STRETCH, self.phase.samples or 1), self.phase.noise_level
        count, outputs = self.networks.loss.targets.shape
        size: tuple[int, ...] = (*shape, outputs) if level else (0,)
        rows, noise = [], []
        for member in self.members:
            random = generator(
                self._random_state, member.seed, member.widths, Stream.DRAWS, self._number, block
            )
            rows.append(random.integers(0, count, shape))
            noise.append(level * random.standard_normal(size))
        drawn = torch.as_tensor(np.stack(rows)).to(self.theta.device)
        return drawn, torch.as_tensor(np.stack(noise)).to(self.theta) if level else None


class BatchedLBFGS:
    r"""Minimise B functions of P variables by L-BFGS; call :meth:`advance` until done.

    .. math:: \min_{\theta_b} f_b(\theta_b), \qquad b = 1 \dots B,

    until :math:`\|\nabla f_b\|_2 \le \mathrm{tol} \cdot \max(1, \|\theta_b\|_2)` (Liu and Nocedal 1989).

    Parameters
    ----------
    function : callable
        ``function(theta (b, P), indices (b,)) -> (values (b,), gradients (b, P))`` for the members ``indices``;
        members that are done are left out.
    theta : Tensor of shape (B, P)
        Starting points, on any device, of any floating dtype; not changed.
    steps : int
        Maximal number of accepted steps of a member.
    tol_gradient : float

    Attributes
    ----------
    theta, value, gradient_norm, codes : Tensor
        Values of all B members at their last accepted steps. ``codes`` index :data:`STATUSES`: running, converged,
        stopped (step limit, or no step improves the value by more than rounding, as at a minimum on a kink, where the
        gradient does not vanish) or diverged (the objective is not finite; ``theta`` is the last point where it
        was).
    """

    def __init__(
        self,
        function: Function,
        theta: Tensor,
        steps: int,
        tol_gradient: float,
    ) -> None:
        self._function, self._limit, self._tol = function, int(steps), float(tol_gradient)
        self.theta, n = theta.clone(), len(theta)
        everyone = torch.arange(n, device=theta.device)
        self._steps = torch.zeros_like(everyone)
        self.value, self._gradient = function(self.theta, everyone)
        self.gradient_norm = torch.linalg.vector_norm(self._gradient, dim=1)
        self._least_norm, self._flat = self.gradient_norm.clone(), torch.zeros_like(everyone)
        self._s = theta.new_zeros((n, PAIRS, theta.shape[1]))
        self._y, self._rho = self._s.clone(), theta.new_zeros((n, PAIRS))
        self._gamma, self._count = torch.ones_like(self.value), torch.zeros_like(everyone)
        # line search along d: slope at the start, largest step with sufficient decrease, least one without
        self._d, self._slope = torch.zeros_like(theta), torch.zeros_like(self.value)
        self._trial, self._low, self._high = (torch.zeros_like(self.value) for _ in range(3))
        self._low_value, self._low_gradient = self.value.clone(), self._gradient.clone()
        self._trials, self._seen = torch.zeros_like(everyone), torch.zeros_like(everyone, dtype=torch.bool)
        finite = torch.isfinite(self.value) & torch.isfinite(self.gradient_norm)
        self.codes = torch.where(finite, RUNNING, DIVERGED)
        self._check(everyone)
        self._aim(self._running)

    @property
    def _running(self) -> Tensor:
        return (self.codes == RUNNING).nonzero()[:, 0]

    @property
    def steps(self) -> np.ndarray:
        """Number of accepted steps of each member."""
        return self._steps.cpu().numpy()

    @property
    def done(self) -> bool:
        """Whether every member has ended."""
        return not len(self._running)

    def take(self, rows: Tensor, networks: Any) -> None:
        """Continue with some of the members, whose objective is ``networks.value_and_gradient``."""
        self._function = networks.value_and_gradient
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value[rows])

    def advance(self, count: int = 1) -> None:
        """Evaluate ``count`` trial steps of every running member."""
        for _ in range(count):
            if not self.done:
                self._try()

    def _try(self) -> None:
        """Evaluate one trial step of every running member; members whose line search is done take their step.

        If values differ by less than rounding, decrease cannot be tested, and only the derivative condition is used
        (Hager and Zhang, SIAM J. Optim. 16, 2005). This makes gradients of 1e-10 attainable.
        """
        rows = self._running
        step, d, value = self._trial[rows], self._d[rows], self.value[rows]
        found, gradient = self._function(self.theta[rows] + step[:, None] * d, rows)
        slope = (gradient * d).sum(1)
        finite = torch.isfinite(found) & torch.isfinite(gradient.sum(1))
        noise = NOISE * torch.finfo(value.dtype).eps * value.abs()
        falls = finite & (found <= value + ROUGH * step * self._slope[rows] + noise)
        accepted = falls & (slope >= CURVATURE * self._slope[rows])
        low, high = rows[falls], rows[~falls]
        self._low[low], self._low_value[low], self._low_gradient[low] = (
            step[falls],
            found[falls],
            gradient[falls],
        )
        self._high[high] = step[~falls]
        self._trials[rows] += 1
        self._seen[rows] |= finite
        near, far = self._low[rows], self._high[rows]
        self._trial[rows] = torch.where(torch.isinf(far), 2.0 * step, 0.5 * (near + far))
        exhausted = ~accepted & (self._trials[rows] >= TRIALS)
        moved = rows[accepted | (exhausted & (near > 0))]
        if len(moved):
            self._take_steps(moved)
            self._check(moved)
            self._aim(moved[self.codes[moved] == RUNNING])
        stuck = rows[exhausted & (near == 0)]
        if len(stuck):
            self._restart(stuck)

    def _take_steps(self, rows: Tensor) -> None:
        """Move to the best trial points, and store the curvature pairs, newest first."""
        move, gradient = self._low[rows, None] * self._d[rows], self._low_gradient[rows]
        value, change = self._low_value[rows], gradient - self._gradient[rows]
        curvature, square = (move * change).sum(1), (change**2).sum(1)
        good = curvature > FOUND * torch.sqrt((move**2).sum(1) * square)
        pairs, at = rows[good], self._count[rows[good]] % PAIRS
        self._s[pairs, at], self._y[pairs, at] = move[good], change[good]
        self._rho[pairs, at] = 1.0 / curvature[good]
        self._gamma[pairs] = curvature[good] / square[good]
        self._count[pairs] += 1
        norm = torch.linalg.vector_norm(gradient, dim=1)
        noise = NOISE * torch.finfo(value.dtype).eps * value.abs()
        better = (self.value[rows] - value > noise) | (norm < 0.9 * self._least_norm[rows])
        self._flat[rows] = torch.where(better, 0, self._flat[rows] + 1)
        self._least_norm[rows] = torch.minimum(norm, self._least_norm[rows])
        self.theta[rows] += move
        self.value[rows], self._gradient[rows], self.gradient_norm[rows] = value, gradient, norm
        self._steps[rows] += 1

    def _check(self, rows: Tensor) -> None:
        """Stop the members that converged, reached the step limit or no longer improve."""
        rows = rows[self.codes[rows] == RUNNING]
        size = torch.linalg.vector_norm(self.theta[rows], dim=1).clamp(min=1.0)
        self.codes[rows[(self._flat[rows] >= PAIRS) | (self._steps[rows] >= self._limit)]] = STOPPED
        self.codes[rows[self.gradient_norm[rows] <= self._tol * size]] = CONVERGED

    def _aim(self, rows: Tensor) -> None:
        """Compute the next directions by the two-loop recursion and start their line searches."""
        if not len(rows):
            return
        q = self._gradient[rows].clone()
        count = self._count[rows]
        weights = []
        for age in range(min(int(count.max()), PAIRS)):
            at = (count - 1 - age) % PAIRS
            weight = self._rho[rows, at] * (self._s[rows, at] * q).sum(1)
            q -= weight[:, None] * self._y[rows, at]
            weights.append((at, weight))
        q *= self._gamma[rows, None]
        for at, weight in reversed(weights):
            back = self._rho[rows, at] * (self._y[rows, at] * q).sum(1)
            q += (weight - back)[:, None] * self._s[rows, at]
        slope, norm = -(q * self._gradient[rows]).sum(1), self.gradient_norm[rows]
        bad = ~(torch.isfinite(slope) & (slope < 0))
        self._forget(rows[bad])
        q[bad], slope[bad] = self._gradient[rows[bad]], -(norm[bad] ** 2)
        self._d[rows], self._slope[rows] = -q, slope
        self._trial[rows] = torch.where(self._count[rows] > 0, 1.0, 1.0 / norm.clamp(min=1.0))
        self._low[rows], self._high[rows], self._trials[rows], self._seen[rows] = 0.0, torch.inf, 0, False

    def _forget(self, rows: Tensor) -> None:
        """Set the pairs of some members to zero, which removes them from the recursion."""
        for pairs in (self._s, self._y, self._rho, self._count):
            pairs[rows] = 0
        self._gamma[rows] = 1.0

    def _restart(self, stuck: Tensor) -> None:
        """Restart failed line searches with steepest descent; stop the members for which that failed as well."""
        hopeless = stuck[self._count[stuck] == 0]
        self.codes[hopeless] = torch.where(self._seen[hopeless], STOPPED, DIVERGED)
        again = stuck[self._count[stuck] > 0]
        self._forget(again)
        self._aim(again)
