"""L-BFGS for many networks at once: each has its own memory, its own line search and its own end.

The two-loop recursion is the one of Liu and Nocedal (Math. Programming 45, 1989). All networks share the evaluations
of the objective and nothing else, so that the path of a network does not depend on the batch it sits in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from covopt.training.line_search import NOISE, Searches, advance

if TYPE_CHECKING:
    from torch import Tensor

    Function = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

STATUSES = ("running", "converged", "stopped", "stagnated", "diverged")
_RUNNING, _CONVERGED, _STOPPED, _STAGNATED, _DIVERGED = range(5)
_PATIENCE = 10  # steps in a row that improve neither the value nor the gradient
_CURVED = 1e-10  # least cosine between s and y of a curvature pair that is kept
_KEPT = 0.75  # finished networks are thrown out of the working set when it has shrunk to this share


class BatchedLBFGS:
    r"""Minimise B functions of P variables by L-BFGS with strong-Wolfe line searches: start, then advance until done.

    .. math:: \min_{\theta_b} f_b(\theta_b), \qquad b = 1 \dots B,

    until :math:`\|\nabla f_b\|_2 \le \mathrm{tol} \cdot \max(1, \|\theta_b\|_2)` (Liu and Nocedal 1989).

    Parameters
    ----------
    function : callable
        ``function(theta (b, P), indices (b,)) -> (values (b,), gradients (b, P))`` of the members that ``indices``
        names: members that are done drop out.
    theta : Tensor of shape (B, P)
        Starting points, on any device, of any floating dtype; not changed.
    mask : Tensor of shape (B, P), boolean, or None
        Entries that may move.
    steps : int
        Most accepted steps of a member.
    memory : int
        Curvature pairs that a member keeps.
    tol_gradient : float

    Attributes
    ----------
    theta, value, gradient_norm, steps, codes : Tensor
        Of all B members, as of their last accepted steps; ``codes`` index :data:`STATUSES`.
    """

    def __init__(
        self,
        function: Function,
        theta: Tensor,
        mask: Tensor | None,
        steps: int,
        memory: int,
        tol_gradient: float,
    ) -> None:
        import torch

        self._torch = torch
        self._function, self._limit, self._memory = function, int(steps), max(int(memory), 1)
        self._tol, self._mask = float(tol_gradient), mask
        self.theta = theta.clone()
        n = len(theta)
        self.value = torch.full((n,), torch.nan, dtype=theta.dtype, device=theta.device)
        self.gradient_norm = self.value.clone()
        self.steps = torch.zeros(n, dtype=torch.int64, device=theta.device)
        self.codes = torch.full_like(self.steps, _RUNNING)
        self._work: dict[str, Tensor] = {}
        self._searches: Searches

    @property
    def done(self) -> bool:
        """Whether every member has ended."""
        return len(self._work["index"]) == 0

    @property
    def status(self) -> np.ndarray:
        """How each member stood when it was published last.

        "converged", "stopped" (steps used up, or not at its end), "stagnated" (no step improves the value by more
        than rounding: at a kink, where the gradient does not vanish, this is what the end looks like) or "diverged"
        (the objective is not finite; ``theta`` is the last point where it was).
        """
        codes = self._torch.where(self.codes == _RUNNING, _STOPPED, self.codes)
        return np.array(STATUSES)[codes.cpu().numpy()]

    # ------------------------------------------------------------------ the run
    def start(self) -> None:
        """Evaluate the starting points and choose the first directions."""
        torch, n = self._torch, len(self.theta)
        index = torch.arange(n, device=self.theta.device)
        value, gradient = self._evaluate(self.theta, index)
        norm = torch.linalg.vector_norm(gradient, dim=1)
        self.value.copy_(value)
        self.gradient_norm.copy_(norm)
        finite = torch.isfinite(value) & torch.isfinite(norm)
        self.codes[~finite] = _DIVERGED
        pairs = self.theta.new_zeros((n, self._memory, self.theta.shape[1]))
        self._work = {
            "index": index, "x": self.theta.clone(), "f": value, "g": gradient, "norm": norm,
            "d": -gradient, "g_low": gradient.clone(), "s": pairs, "y": pairs.clone(),
            "rho": self.theta.new_zeros((n, self._memory)), "gamma": torch.ones_like(value),
            "head": torch.zeros_like(self.steps), "count": torch.zeros_like(self.steps),
            "flat": torch.zeros_like(self.steps), "best_norm": norm.clone(), "steps": self.steps.clone(),
            "code": self.codes.clone(),
        }  # fmt: skip
        self._searches = Searches.begin(value, -(norm**2), 1.0 / norm.clamp(min=1.0))
        self._check(torch.ones_like(finite))
        self._shrink()

    def advance(self) -> None:
        """Evaluate one trial of every member that still runs, and let those whose search is over take their step."""
        torch, w, s = self._torch, self._work, self._searches
        step = s.step.clone()
        trial = w["x"] + step[:, None] * w["d"]
        value, gradient = self._evaluate(trial, w["index"])
        slope = (gradient * w["d"]).sum(1)
        finite = torch.isfinite(value) & torch.isfinite(gradient.sum(1))
        live = w["code"] == _RUNNING
        outcome = advance(s, value, slope, finite)
        kept = (outcome.is_low & live).nonzero()[:, 0]
        w["g_low"][kept] = gradient[kept]
        moved = live & (outcome.accepted | (outcome.exhausted & (s.low_step > 0)))
        stuck = live & outcome.exhausted & ~moved
        rows = moved.nonzero()[:, 0]
        if len(rows):
            self._take_steps(rows, s.low_step[rows], s.low_value[rows])
            self._check(moved)
            self._aim(rows[w["code"][rows] == _RUNNING])
        if bool(stuck.any()):
            self._restart(stuck)
        self._shrink()

    def _evaluate(self, theta: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        with self._torch.no_grad():
            value, gradient = self._function(theta, index)
            if self._mask is not None:
                gradient = gradient * self._mask[index]
        return value.detach(), gradient.detach()

    def _take_steps(self, rows: Tensor, step: Tensor, value: Tensor) -> None:
        """Move to the accepted trials, which are the ``low`` ends of their searches, and keep the pairs."""
        torch, w = self._torch, self._work
        move = step[:, None] * w["d"][rows]
        gradient = w["g_low"][rows]
        change = gradient - w["g"][rows]
        curvature = (move * change).sum(1)
        change_square = (change**2).sum(1)
        good = curvature > _CURVED * torch.sqrt((move**2).sum(1) * change_square)
        pairs, at = rows[good], w["head"][rows[good]]
        w["s"][pairs, at], w["y"][pairs, at] = move[good], change[good]
        w["rho"][pairs, at] = 1.0 / curvature[good]
        w["gamma"][pairs] = curvature[good] / change_square[good]
        w["head"][pairs] = (at + 1) % self._memory
        w["count"][pairs] = (w["count"][pairs] + 1).clamp(max=self._memory)
        norm = torch.linalg.vector_norm(gradient, dim=1)
        noise = NOISE * torch.finfo(value.dtype).eps * value.abs()
        better = (w["f"][rows] - value > noise) | (norm < 0.9 * w["best_norm"][rows])
        w["flat"][rows] = torch.where(better, 0, w["flat"][rows] + 1)
        w["best_norm"][rows] = torch.minimum(norm, w["best_norm"][rows])
        w["x"][rows] += move
        w["f"][rows], w["g"][rows], w["norm"][rows] = value, gradient, norm
        w["steps"][rows] += 1

    def _check(self, moved: Tensor) -> None:
        """End the members that converged, used up their steps or no longer improve."""
        torch, w = self._torch, self._work
        size = torch.linalg.vector_norm(w["x"], dim=1).clamp(min=1.0)
        running = moved & (w["code"] == _RUNNING)
        w["code"][running & (w["flat"] >= _PATIENCE)] = _STAGNATED
        w["code"][running & (w["steps"] >= self._limit)] = _STOPPED
        w["code"][running & (w["norm"] <= self._tol * size)] = _CONVERGED

    def _aim(self, rows: Tensor) -> None:
        """Choose the next directions by the two-loop recursion, newest pairs first."""
        if not len(rows):
            return
        torch, w = self._torch, self._work
        q = w["g"][rows].clone()
        deepest = int(w["count"][rows].max())
        weights = []
        for age in range(deepest):
            at = (w["head"][rows] - 1 - age) % self._memory
            weight = w["rho"][rows, at] * (w["s"][rows, at] * q).sum(1)
            q -= weight[:, None] * w["y"][rows, at]
            weights.append((at, weight))
        q *= w["gamma"][rows, None]
        for at, weight in reversed(weights):
            back = w["rho"][rows, at] * (w["y"][rows, at] * q).sum(1)
            q += (weight - back)[:, None] * w["s"][rows, at]
        slope = -(q * w["g"][rows]).sum(1)
        bad = ~(torch.isfinite(slope) & (slope < 0))
        if bool(bad.any()):
            self._forget(rows[bad])
            q[bad] = w["g"][rows[bad]]
            slope[bad] = -(w["norm"][rows[bad]] ** 2)
        w["d"][rows] = -q
        first = 1.0 / w["norm"][rows].clamp(min=1.0)
        step = torch.where(w["count"][rows] > 0, torch.ones_like(slope), first)
        w["g_low"][rows] = w["g"][rows]
        self._searches.put(rows, Searches.begin(w["f"][rows], slope, step))

    def _forget(self, rows: Tensor) -> None:
        """Drop the pairs of some members: zero ones change nothing in the recursion."""
        for name in ("s", "y", "rho", "count", "head"):
            self._work[name][rows] = 0
        self._work["gamma"][rows] = 1.0

    def _restart(self, stuck: Tensor) -> None:
        """Try steepest descent where no trial was any good; end the members for which that is what failed."""
        w = self._work
        hopeless = stuck & (w["count"] == 0)
        w["code"][hopeless & self._searches.seen_finite] = _STAGNATED
        w["code"][hopeless & ~self._searches.seen_finite] = _DIVERGED
        again = (stuck & ~hopeless).nonzero()[:, 0]
        if len(again):
            self._forget(again)
            self._aim(again)

    # ------------------------------------------------------------------ the working set
    def publish(self) -> None:
        """Bring the attributes up to date."""
        w = self._work
        index = w["index"]
        self.theta[index], self.value[index] = w["x"], w["f"]
        self.gradient_norm[index], self.steps[index], self.codes[index] = w["norm"], w["steps"], w["code"]

    def _shrink(self) -> None:
        """Throw finished members out of the working set once they are many, or all."""
        live = self._work["code"] == _RUNNING
        left = int(live.sum())
        if left > _KEPT * len(live) or left == len(live):
            return
        self.publish()
        rows = live.nonzero()[:, 0]
        self._work = {name: field[rows] for name, field in self._work.items()}
        self._searches = self._searches.take(rows)
