"""Training a grid of networks: phases, checks, batches, threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.optional import required
from covopt.limits import patiently
from covopt.training.backend import one_thread_each, torch
from covopt.training.first_order import FirstOrder
from covopt.training.grid import Batch, Problem, select
from covopt.training.lbfgs import BatchedLBFGS
from covopt.training.schedule import Phase

Tensor = Any
COPIES = 6  # of the weights, that a batch has
HEARD_S = 0.2  # seconds between two looks at the clock, where steps are slow
MANY = 100_000  # networks times points, from which on they may be
CHECK_EVERY = 100  # steps between tests of convergence and divergence; results depend on it, so it is fixed
RUNNING, CONVERGED, DIVERGED = STATUSES = ("running", "converged", "diverged")


@dataclass
class TrainingState:
    """What a callback is told.

    Attributes
    ----------
    phase : int
    optimiser : str
    step, n_steps : int
        Done and planned, over all phases.
    n_active, n_networks : int
    best_objective : float
        Least objective seen at checks so far; NaN before the first one.
    time_s : float
    interrupted : bool
        The user asked to stop, by Ctrl-C: training ends after this call.
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


class Runner:
    """The loop over phases and steps.

    Parameters
    ----------
    problem : Problem
    schedule : tuple of Phase
    weights : list of list of ndarray
        Where each network starts; replaced by where it is.
    tol_gradient : float
    floors, tol_gap : ndarray of shape (B,), float
        Certified lower bounds of the objectives (NaN without) and the relative distance at which a network is done.
    """

    def __init__(
        self,
        problem: Problem,
        schedule: tuple[Phase, ...],
        weights: list[list[np.ndarray]],
        *,
        tol_gradient: float,
        floors: np.ndarray,
        tol_gap: float,
        random_state: int,
        record_every: int | None,
    ) -> None:
        count = len(problem.members)
        self.problem, self.schedule, self.weights = problem, schedule, weights
        self.tol_gradient, self.floors, self.tol_gap = tol_gradient, floors, tol_gap
        self.random_state, self.record_every = random_state, record_every
        self.status = np.full(count, RUNNING, dtype="<U9")
        self.steps = np.zeros(count, dtype=int)
        self.times = np.zeros(count)
        self.objectives = np.full(count, np.nan)
        self.history: list[tuple[int, int, np.ndarray, np.ndarray]] = []
        self.phase, self.step, self.elapsed_s = 0, 0, 0.0
        self._before = self.steps  # of the phase
        self._since = 0  # the step of the phase at which its optimiser began
        self._is_slow = len(problem.inputs) * len(problem.members) > MANY
        self._pace = HEARD_S  # seconds of a step
        self.batches: list[Batch] = []
        self.interrupted: Callable[[], bool] = lambda: False
        on_cpu = problem.inputs.device.type == "cpu"
        self._workers = torch.get_num_threads() if on_cpu else 1

    # ------------------------------------------------------------------ the loop
    def run(self, on_event: Callable[[Runner], bool]) -> None:
        """Go through the schedule from where the run is; ``on_event`` is asked after every stretch, true stops.

        So does Ctrl-C, after the stretch in which it comes: all batches end at one step.
        """
        with (
            patiently() as self.interrupted,
            torch.no_grad(),
            one_thread_each(1),
            ThreadPoolExecutor(self._workers) as pool,
        ):
            while self.phase < len(self.schedule) and self.active:
                if self._run_phase(pool, on_event):
                    self.store()
                    return
                self.phase, self.step, self._since = self.phase + 1, 0, 0

    def goes_on(self, weights: list[list[np.ndarray]], phase: int, step: int, elapsed_s: float) -> None:
        """Take up networks at a step of a phase: its optimiser remembers nothing."""
        self.weights[:] = weights
        self.phase, self.step, self._since, self.elapsed_s = phase, step, step, elapsed_s

    @property
    def active(self) -> list[int]:
        """Networks that still move."""
        return np.flatnonzero(self.status == RUNNING).tolist()

    @property
    def steps_done(self) -> int:
        """Steps over all phases."""
        return sum(p.steps for p in self.schedule[: self.phase]) + self.step

    def _run_phase(self, pool: ThreadPoolExecutor, on_event: Callable[[Runner], bool]) -> bool:
        phase = self.schedule[self.phase]
        if not self.batches:
            self._form(phase)
            self._before = self.steps.copy()
            if self.phase == 0 and self.step == 0:
                self.record()
        while self.step < phase.steps and self.active:
            target = self._next_stop(phase)
            began = time.perf_counter()
            tasks = [pool.submit(self.advance, batch, phase, target) for batch in self.batches]
            spent = [task.result() for task in tasks]
            wall = time.perf_counter() - began
            self.elapsed_s += wall
            self._pace = wall / max(target - self.step, 1)
            for batch, seconds in zip(self.batches, spent, strict=True):
                self.times[batch.index] += wall * seconds / (sum(spent) or 1.0) / len(batch.index)
            self.step = target
            if phase.optimiser != "lbfgs":
                self.steps[self.active] = self.steps_done
            self.check(phase)
            self.record()
            if on_event(self) or self.interrupted():
                return True
        self.store()
        self.batches = []
        return False

    def _next_stop(self, phase: Phase) -> int:
        target = min(phase.steps, (self.step // CHECK_EVERY + 1) * CHECK_EVERY)
        if self.record_every:
            before = sum(p.steps for p in self.schedule[: self.phase])
            target = min(target, ((before + self.step) // self.record_every + 1) * self.record_every - before)
        # where steps are slow somebody who says stop is heard in between; what is computed does not depend on it
        return min(target, self.step + max(1, int(HEARD_S / self._pace))) if self._is_slow else target

    # ------------------------------------------------------------------ batches
    def _form(self, phase: Phase) -> None:
        copies = COPIES + (2 * phase.memory if phase.optimiser == "lbfgs" else 0)
        groups = self.problem.cut(self.active, samples=phase.samples, copies=copies, workers=self._workers)
        self.batches = [self.problem.batch(group, [self.weights[i] for i in group]) for group in groups]

    def store(self) -> None:
        """Copy the weights out of the batches; those of the last check where they are not finite."""
        for batch in self.batches:
            finite = torch.isfinite(batch.theta).all(1, keepdim=True)
            theta = torch.where(finite, batch.theta, batch.last_good)
            for i, layers in zip(batch.index, batch.networks.unpack(theta), strict=True):
                self.weights[i] = layers

    def advance(self, batch: Batch, phase: Phase, target: int) -> float:
        """Bring a batch to step ``target``; return the seconds."""
        began = time.perf_counter()
        torch.set_num_threads(1)  # a setting of the thread
        with torch.no_grad(), self.problem.memory_refused(batch):
            if phase.optimiser == "lbfgs":
                self._advance_lbfgs(batch, phase, target)
            else:
                self._advance_first_order(batch, phase, target)
        return time.perf_counter() - began

    def _advance_first_order(self, batch: Batch, phase: Phase, target: int) -> None:
        if batch.worker is None:
            members = [self.problem.members[i] for i in batch.index]
            batch.worker = FirstOrder(phase, self.phase, batch.networks, members, self.random_state)
            batch.state = batch.state or batch.worker.new_state(batch.theta)
        batch.worker.run(batch.theta, batch.state, self.step, target - self.step, self._since)

    def _advance_lbfgs(self, batch: Batch, phase: Phase, target: int) -> None:
        if batch.worker is None:
            batch.worker = BatchedLBFGS(
                batch.networks.value_and_gradient, batch.theta, batch.networks.mask, phase.steps, phase.memory,
                self.tol_gradient,
            )  # fmt: skip
            batch.worker.start()
        for _ in range(target - self.step):
            if batch.worker.done:
                break
            batch.worker.advance()
        batch.worker.publish()
        batch.theta = batch.worker.theta.clone()

    # ------------------------------------------------------------------ checks
    def check(self, phase: Phase) -> None:
        """Retire networks that converged or diverged. Between the fixed steps nothing is looked at."""
        if self.step % CHECK_EVERY and self.step != phase.steps:
            return
        if phase.optimiser == "lbfgs":
            self._check_lbfgs(phase)
            return
        left = []
        for batch in self.batches:
            finite, done = self._judge(batch, phase)
            for k in np.flatnonzero(~finite | done):
                self._retire(batch, int(k), CONVERGED if finite[k] else DIVERGED)
            keep = np.flatnonzero(finite & ~done)
            if len(keep):
                left.append(batch if len(keep) == len(finite) else select(self.problem, batch, keep))
                left[-1].last_good = left[-1].theta.clone()
        self.batches = left

    def _judge(self, batch: Batch, phase: Phase) -> tuple[np.ndarray, np.ndarray]:
        """Return which networks are finite, and which are done."""
        exact = phase.samples is None
        if not exact and self.step < phase.steps:  # the objective would cost more than the steps
            finite = torch.isfinite(batch.theta.sum(1)).cpu().numpy()
            return finite, np.zeros(len(finite), dtype=bool)
        values, norm = self.problem.evaluate(batch)
        finite = (torch.isfinite(values) & torch.isfinite(batch.theta.sum(1))).cpu().numpy()
        self.objectives[batch.index[finite]] = values.cpu().double().numpy()[finite]
        size = batch.theta.norm(dim=1).clamp_(min=1.0)
        small = (norm <= self.tol_gradient * size).cpu().numpy()
        done = exact & (small | self._close(batch.index))
        return finite, done

    def _close(self, index: np.ndarray) -> np.ndarray:
        """Whether the objectives are within the tolerance of their certified lower bounds."""
        objective, floor = self.objectives[index], self.floors[index]
        with np.errstate(invalid="ignore"):
            return objective - floor <= self.tol_gap * np.abs(objective)

    def _retire(self, batch: Batch, k: int, status: str) -> None:
        i = int(batch.index[k])
        place = slice(k, k + 1)
        theta = batch.last_good if status == DIVERGED else batch.theta
        alone = self.problem.networks([i])
        if alone.padded == batch.networks.padded:
            self.weights[i] = alone.unpack(theta[place])[0]
        else:
            self.weights[i] = batch.networks.unpack(theta)[k]
        self.status[i] = status

    def _check_lbfgs(self, phase: Phase) -> None:
        for batch in self.batches:
            run = batch.worker
            status, taken = run.status, run.steps.cpu().numpy()
            self.objectives[batch.index] = run.value.cpu().double().numpy()
            close = self._close(batch.index)
            for k, i in enumerate(batch.index):
                self.steps[i] = self._before[i] + int(taken[k])
                if status[k] == DIVERGED:
                    self.status[i] = DIVERGED
                elif status[k] == CONVERGED or close[k]:
                    self.status[i] = CONVERGED
        if all(batch.worker.done for batch in self.batches):
            self.step = phase.steps

    def record(self) -> None:
        """Note the objectives of the networks in the batches."""
        if not self.record_every or (self.steps_done % self.record_every and self.step):
            return
        for batch in self.batches:
            values, _ = self.problem.evaluate(batch)
            self.history.append(
                (self.steps_done, self.phase, batch.index.copy(), values.cpu().double().numpy())
            )

    # ------------------------------------------------------------------ afterwards
    def gradient_norms(self) -> np.ndarray:
        """‖∇‖ of every network."""
        problem = self.problem
        found = np.full(len(problem.members), np.nan)
        with torch.no_grad():
            everyone = range(len(problem.members))
            for group in problem.cut(everyone, samples=None, copies=4, workers=1):
                batch = problem.batch(group, [self.weights[i] for i in group])
                found[group] = problem.evaluate(batch)[1].cpu().double().numpy()
        return found

    def history_frame(self) -> Any:
        """Return the recorded objectives, one row for every network and step; None without."""
        if not self.record_every:
            return None
        pd = required("pandas", "covopt.training", "train")
        parts = [
            pd.DataFrame({"network": index, "step": step, "phase": phase, "objective": values})
            for step, phase, index, values in self.history
        ]
        frame = pd.concat(parts, ignore_index=True)
        return frame.sort_values(["network", "step"], ignore_index=True)
