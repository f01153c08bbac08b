"""Training loop over a grid of networks: batches that fit the cache or the GPU, threads, phases, checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from covopt.checks import required
from covopt.depth.layers import Layout
from covopt.limits import HALF, PIECE, defer_interrupts
from covopt.training.model import BatchedLoss, BatchedNetworks, torch
from covopt.training.optimisers import (
    CONVERGED,
    DIVERGED,
    RUNNING,
    STATUSES,
    BatchedLBFGS,
    FirstOrder,
    copies_in,
)
from covopt.training.schedule import STRETCH, Member, Phase

Tensor = Any


@dataclass
class TrainingState:
    """State of the training, passed to the callback.

    Attributes
    ----------
    phase : int
    optimiser : str
    step, n_steps : int
        Steps done and planned, over all phases.
    n_active, n_networks : int
    best_objective : float
        Least objective at the checks so far; NaN before the first check.
    time_s : float
    interrupted : bool
        Whether Ctrl-C was pressed; training ends after this call.
    """

    phase: int
    optimiser: str
    step: int
    n_steps: int
    n_active: int
    n_networks: int
    best_objective: float
    time_s: float
    interrupted: bool = False

    @property
    def said(self) -> str:
        """Return the state as one line of text."""
        return (
            f"{self.optimiser} {self.step} of {self.n_steps} steps   {self.n_active} of {self.n_networks} networks   "
            f"best {self.best_objective:.6g}"
        )


@dataclass
class Batch:
    """Networks that are trained together.

    Attributes
    ----------
    index : ndarray of int
        Their indices in the run.
    theta : Tensor of shape (b, P)
        The weights at the last check: all finite, with a finite objective.
    optimiser : FirstOrder, BatchedLBFGS or None
        Optimiser of the current phase, with the current weights; created at its first steps.
    """

    index: np.ndarray
    networks: BatchedNetworks
    theta: Tensor
    optimiser: Any = None

    @property
    def now(self) -> Tensor:
        """The current weights."""
        return self.theta if self.optimiser is None else self.optimiser.theta


@dataclass
class Runner:
    """The loop over phases and steps.

    Attributes
    ----------
    members, layouts : sequences
    inputs : Tensor of shape (N, D)
        X̃, with its bias column.
    loss : BatchedLoss
    schedule : tuple of Phase
    weights : list of ndarray
        Starting weights of each network; updated during training.
    tol_gradient : float
    random_state : int
    record_every : int or None
    """

    members: Sequence[Member]
    layouts: Sequence[Layout]
    inputs: Tensor
    loss: BatchedLoss
    schedule: tuple[Phase, ...]
    weights: list[np.ndarray]
    tol_gradient: float = 0.0
    random_state: int = 0
    record_every: int | None = None

    def __post_init__(self) -> None:
        count = len(self.members)
        self.status = np.full(count, STATUSES[RUNNING], dtype="<U9")
        self.steps = np.zeros(count, dtype=int)
        self.times = np.zeros(count)
        self.objectives = np.full(count, np.nan)
        self.history: list[tuple[int, int, np.ndarray, np.ndarray]] = []
        self.phase, self.step = 0, 0
        self._before = self.steps  # at the start of the phase
        self.batches: list[Batch] = []
        self.interrupted: Callable[[], bool] = lambda: False
        self._workers = torch.get_num_threads() if self.inputs.device.type == "cpu" else 1

    # ------------------------------------------------------------------ batches
    def batch(self, index: Sequence[int]) -> Batch:
        """Return a batch of networks of one layout, with their current weights."""
        lams, theta = (
            torch.as_tensor(np.array(of)).to(self.inputs)
            for of in ([self.members[i].lam for i in index], [self.weights[i] for i in index])
        )
        networks = BatchedNetworks(self.layouts[index[0]], self.inputs, self.loss, lams)
        return Batch(np.asarray(index, dtype=int), networks, theta)

    def bytes_of(self, i: int, samples: int | None, copies: int) -> int:
        """Return the bytes of a network: activations of ``samples`` rows and ``copies`` copies of its weights."""
        rows, own = len(self.inputs) if samples is None else samples, self.layouts[i]
        flows = 2 * rows * sum(own.widths[1:-1])  # forward and backward
        return self.inputs.element_size() * (flows + copies * own.size)

    def cut(self, index: Iterable[int], *, samples: int | None, copies: int, workers: int) -> list[list[int]]:
        """Split networks into batches of one layout that fit into memory, enough to keep all workers busy."""
        found: list[list[int]] = []
        order = sorted(index, key=lambda i: self.members[i].widths)
        for _, group in groupby(order, key=lambda i: self.members[i].widths):
            alike = list(group)
            size = self.bytes_of(alike[0], samples, copies)
            rounds = -(-len(alike) * size // (workers * self.limit))
            # smaller batches do not justify another thread
            share = max(-(-len(alike) // (workers * rounds)), PIECE // size)
            most = max(1, min(share, self.limit // size))
            found += [alike[at : at + most] for at in range(0, len(alike), most)]
        return found

    @property
    def limit(self) -> int:
        """Maximal size of a batch in bytes."""
        if self.inputs.device.type == "cuda":
            return int(HALF * torch.cuda.mem_get_info(self.inputs.device)[1])
        return PIECE * self.inputs.element_size()  # about what the cache holds

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the objectives of a batch and the norms of their gradients, on all samples.

        The batch is split if necessary, since batches of phases with small minibatches are larger.
        """
        size = self.bytes_of(batch.index[0], None, 2)
        pieces = torch.arange(len(batch.index), device=batch.now.device).split(max(1, self.limit // size))
        found = [batch.networks.value_and_gradient(batch.now[piece], piece) for piece in pieces]
        return torch.cat([values for values, _ in found]), torch.cat([g.norm(dim=1) for _, g in found])

    # ------------------------------------------------------------------ phases and steps
    def run(self, on_event: Callable[[Runner], bool]) -> None:
        """Run the schedule; ``on_event`` is called after every group of steps, and a true value stops.

        Ctrl-C stops after the current group, so that all batches end at the same step.
        """
        with (
            defer_interrupts() as self.interrupted,
            torch.no_grad(),
            ExitStack() as afterwards,
            ThreadPoolExecutor(self._workers) as pool,
        ):
            afterwards.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
            while self.phase < len(self.schedule) and self.active:
                phase = self.schedule[self.phase]
                copies = copies_in(phase)
                groups = self.cut(self.active, samples=phase.samples, copies=copies, workers=self._workers)
                self.batches, self._before = [self.batch(group) for group in groups], self.steps.copy()
                if not self.phase:
                    self.record()
                while self.step < phase.steps and self.active:
                    self._stretch(pool, phase)
                    if on_event(self) or self.interrupted():
                        self.store()
                        return
                self.store()
                self.batches, self.phase, self.step = [], self.phase + 1, 0

    @property
    def active(self) -> list[int]:
        """Indices of the networks that are still being trained."""
        return np.flatnonzero(self.status == STATUSES[RUNNING]).tolist()

    @property
    def steps_done(self) -> int:
        """Steps over all phases."""
        return sum(p.steps for p in self.schedule[: self.phase]) + self.step

    def _stretch(self, pool: ThreadPoolExecutor, phase: Phase) -> None:
        """Advance all batches to the next step with a check or a record."""
        target = self._next_stop(phase)
        began = time.perf_counter()
        tasks = [pool.submit(self.advance, batch, phase, target) for batch in self.batches]
        for task in tasks:
            task.result()
        wall = time.perf_counter() - began
        self.times[self.active] += wall / len(self.active)
        for batch in self.batches:
            self.steps[batch.index] = self._before[batch.index] + batch.optimiser.steps
        self.step = target
        if self.step % STRETCH == 0 or self.step == phase.steps:
            self.check(phase)
        self.record()

    def _next_stop(self, phase: Phase) -> int:
        target = min(phase.steps, (self.step // STRETCH + 1) * STRETCH)
        if self.record_every:
            target = min(target, self.step + self.record_every - self.steps_done % self.record_every)
        return target

    def advance(self, batch: Batch, phase: Phase, target: int) -> None:
        """Advance a batch to step ``target``."""
        torch.set_num_threads(1)  # a setting of the current thread
        with torch.no_grad():
            if batch.optimiser is None and phase.optimiser == "lbfgs":
                batch.optimiser = BatchedLBFGS(
                    batch.networks.value_and_gradient, batch.theta, phase.steps, self.tol_gradient
                )
            elif batch.optimiser is None:
                members = [self.members[i] for i in batch.index]
                batch.optimiser = FirstOrder(
                    phase, self.phase, batch.networks, members, batch.theta.clone(), self.random_state
                )
            batch.optimiser.advance(target - self.step)

    # ------------------------------------------------------------------ checks
    def check(self, phase: Phase) -> None:
        """Remove networks that converged or diverged; only at the fixed steps."""
        for batch in self.batches:
            finite, done = self._judge(batch, phase)
            where = torch.as_tensor(finite, device=batch.theta.device)
            batch.theta = torch.where(where[:, None], batch.now, batch.theta)
            ended = np.where(finite, CONVERGED, DIVERGED)
            leaves, keep = np.flatnonzero(~finite | done), np.flatnonzero(finite & ~done)
            if len(leaves):
                self.status[batch.index[leaves]] = np.array(STATUSES)[ended[leaves]]
                self._store(batch, batch.theta)
                rows = torch.as_tensor(keep, device=batch.theta.device)
                batch.index, batch.theta = batch.index[keep], batch.theta[rows]
                batch.networks = batch.networks.take(rows)
                batch.optimiser.take(rows, batch.networks)
        self.batches = [batch for batch in self.batches if len(batch.index)]
        if phase.optimiser == "lbfgs" and all(batch.optimiser.done for batch in self.batches):
            self.step = phase.steps

    def _judge(self, batch: Batch, phase: Phase) -> tuple[np.ndarray, np.ndarray]:
        """Return masks of the networks that are finite and of those that are done."""
        optimiser = batch.optimiser
        if phase.optimiser == "lbfgs":
            values, finite, small = optimiser.value, optimiser.codes != DIVERGED, optimiser.codes == CONVERGED
        else:
            values, norm = self.evaluate(batch)
            finite = torch.isfinite(values) & torch.isfinite(batch.now.sum(1))
            small = norm <= self.tol_gradient * batch.now.norm(dim=1).clamp(min=1.0)
        seen = finite.cpu().numpy()
        self.objectives[batch.index[seen]] = values.cpu().double().numpy()[seen]
        return seen, small.cpu().numpy() & (phase.samples is None)

    def store(self) -> None:
        """Copy the weights from the batches; those of the last check if they are not finite."""
        for batch in self.batches:
            finite = torch.isfinite(batch.now).all(1, keepdim=True)
            self._store(batch, torch.where(finite, batch.now, batch.theta))

    def _store(self, batch: Batch, theta: Tensor) -> None:
        for i, weights in zip(batch.index, theta.to("cpu", torch.float64).numpy(), strict=True):
            self.weights[i] = weights.copy()

    def record(self) -> None:
        """Record the objectives of the networks in the batches."""
        if not self.record_every or (self.steps_done % self.record_every and self.step):
            return
        for batch in self.batches:
            values, _ = self.evaluate(batch)
            self.history.append(
                (self.steps_done, self.phase, batch.index.copy(), values.cpu().double().numpy())
            )

    # ------------------------------------------------------------------ afterwards
    def gradient_norms(self) -> np.ndarray:
        """Return ‖∇‖ of every network."""
        found = np.full(len(self.members), np.nan)
        with torch.no_grad():
            for group in self.cut(range(len(found)), samples=None, copies=4, workers=1):
                found[group] = self.evaluate(self.batch(group))[1].cpu().double().numpy()
        return found

    def history_frame(self) -> Any:
        """Return the recorded objectives, one row for every network and step; None if nothing was recorded."""
        if not self.record_every:
            return None
        pd = required("pandas", "covopt.training", "train")
        parts = [
            pd.DataFrame({"network": index, "step": step, "phase": phase, "objective": values})
            for step, phase, index, values in self.history
        ]
        frame = pd.concat(parts, ignore_index=True)
        return frame.sort_values(["network", "step"], ignore_index=True)
