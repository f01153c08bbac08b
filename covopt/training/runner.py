"""``train``: validate the input, train the networks, and return a run with table, networks and history."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.task import Task
from covopt.checks import Brief, required
from covopt.checks.log import log_event, spinner
from covopt.checks.memory import plan
from covopt.checks.validation import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_random_state,
)
from covopt.depth.layers import Layout, as_chain, as_shallow, check_kind
from covopt.errors import BudgetError, InputError
from covopt.losses import Loss
from covopt.losses.classification import codes_of
from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.training.loop import Runner, TrainingState
from covopt.training.model import DTYPES, BatchedLoss, check_device, torch
from covopt.training.optimisers import copies_in
from covopt.training.schedule import Member, Phase, initial_weights, make_grid, make_schedule

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False, repr=False)
class TrainingRun(Brief):
    """The trained networks of a call of :func:`covopt.training.train`; heuristic, nothing is certified.

    Attributes
    ----------
    status : list of str
        ``converged``, ``stopped`` or ``diverged``, for each network.
    history : pandas.DataFrame or None
        Columns network, step, phase, objective, one row for every network and recorded step.
    schedule : tuple of Phase
    random_state : int
    time_s : float
        Seconds of the whole run.
    complete : bool
        False if the run was stopped early.
    """

    X: np.ndarray
    loss: Loss
    members: list[Member]
    layouts: list[Layout]
    weights: list[np.ndarray] = field(repr=False)
    status: list[str]
    steps: np.ndarray
    times: np.ndarray = field(repr=False)
    gradient_norms: np.ndarray = field(repr=False)
    schedule: tuple[Phase, ...] = ()
    history: pd.DataFrame | None = field(default=None, repr=False)
    random_state: int = 0
    time_s: float = 0.0
    complete: bool = True

    def __len__(self) -> int:
        return len(self.members)

    def network(self, index: int) -> ReLUNetwork | DeepReLUNetwork:
        """Return a trained network: a ``ReLUNetwork`` for two layers of ReLU, else a ``DeepReLUNetwork``."""
        if not -len(self) <= index < len(self):
            raise InputError(f"network {index} is not there; the run has {len(self)} (0 to {len(self) - 1}).")
        layout = self.layouts[index]
        chain = layout.to_network(self.weights[index])
        return as_shallow(chain, layout.bias, layout.output_bias) if layout.depth == 2 else chain

    def describe(self) -> str:
        """Return the settings of the run as text, for reproduction."""
        phases = ", ".join(f"{phase.steps} steps of {phase.optimiser}" for phase in self.schedule)
        return f"random_state {self.random_state}, {phases}"

    @cached_property
    def _numbers(self) -> pd.DataFrame:
        pd = required("pandas", "covopt.training", "train")
        rows = [self._row(i) for i in range(len(self))]
        return pd.DataFrame(rows)

    def _row(self, index: int) -> dict[str, Any]:
        member, network = self.members[index], self.network(index)
        outputs = network.predict(self.X)
        with np.errstate(over="ignore", invalid="ignore"):
            loss, norm = self.loss.value(outputs), network.squared_norm
            objective = loss + member.lam * norm
        row = {
            "width": member.widths[0] if len(member.widths) == 1 else member.widths,
            "lam": member.lam,
            "learning_rate": np.nan if member.learning_rate is None else member.learning_rate,
            "seed": member.seed,
            "loss": loss,
            "squared_norm": norm,
            "objective": objective,
            "residual": np.nan,
            "gradient_norm": self.gradient_norms[index],
            "status": self.status[index],
            "steps": int(self.steps[index]),
            "time_s": float(self.times[index]),
        }
        if self.loss.is_classification:
            row["error_rate"] = float((codes_of(outputs) != codes_of(self.loss.targets)).mean())
        else:
            row["residual"] = float(
                np.abs(outputs.reshape(self.loss.targets.shape) - self.loss.targets).max()
            )
        return row

    @property
    def table(self) -> pd.DataFrame:
        """Table with one row for every network.

        Columns width, lam, learning_rate, seed, loss, squared_norm, objective, residual (max |f − y|; NaN for
        classification, which has error_rate instead), gradient_norm, status, steps, time_s (its share of the wall
        time).
        """
        return self._numbers.copy()

    @property
    def objectives(self) -> np.ndarray:
        """Objective of every network; not finite if it diverged."""
        return self._numbers["objective"].to_numpy(dtype=float)

    @property
    def best(self) -> int:
        """Index of the network with the least objective among those that did not diverge.

        Raises
        ------
        InputError
            When all networks diverged.
        """
        objective = self.objectives
        usable = (np.array(self.status) != "diverged") & np.isfinite(objective)
        if not usable.any():
            raise InputError("every network diverged; lower learning_rate.")
        return int(np.argmin(np.where(usable, objective, np.inf)))


def train(
    X: Any,
    Y: Any,
    *,
    widths: Any,
    loss: str | Loss = "squared",
    lam: Any = 0.0,
    bias: float = 1.0,
    output_bias: str = "none",
    seeds: Any = 1,
    learning_rate: Any = None,
    schedule: Phase | str | Sequence[Phase | str] | None = None,
    sample_weight: Any = None,
    device: Any = "cpu",
    dtype: Any = "float64",
    scale: float = 1.0,
    tol_gradient: float = 1e-8,
    record_every: int | None = None,
    progress: bool = False,
    callback: Callable[[TrainingState], Any] | None = None,
    random_state: int | None = 0,
    start: Any = None,
) -> TrainingRun:
    r"""Train many networks of one depth at once, by gradient descent and related methods.

    .. math::

        \min_W \; \sum_i s_i\, \ell(f_W(x_i), y_i) + \lambda \|W\|^2, \qquad
        Z_\ell = [\sigma(Z_{\ell-1}),\, \beta 1]\, W_\ell^T, \quad f_W = Z_L,

    the objective of :func:`covopt.fit` (s are the sample weights divided by their sum), for networks of any depth.
    The results are heuristic: nothing is proved about them. There is one network for each combination of widths, λ,
    learning rates and seeds, with the seeds varying fastest.

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
        As in :func:`covopt.fit`.
    widths : int, tuple of int, or a list of them
        Hidden widths: ``5`` is one hidden layer, ``(5, 3)`` a network of two, ``[5, 10]`` two networks.
    loss : str or Loss
        See :mod:`covopt.losses`.
    lam : float, str or sequence of them
        λ ≥ 0, or as in :func:`covopt.fit` a fraction of λ_max as ``"0.03max"``, or ``"cv"``.
    bias, output_bias : float, {"none", "penalized", "free"}
        β, and whether there is an output bias and whether it is penalised.
    seeds : int or sequence of int
        A count, or the seeds themselves.
    learning_rate : float or sequence, optional
        Learning rate of the phases that do not set their own.
    schedule : Phase, str, or a sequence of them, optional
        Default: a thousand steps of Adam, then L-BFGS.
    sample_weight : array_like of shape (N,), optional
    device : str
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
    dtype : {"float64", "float32"}
        With ``float32`` choose ``tol_gradient`` near 1e-4.
    scale : float
        Scale of the starting weights, which are normal with variance scale² · 2/fan-in.
    tol_gradient : float
        A network has converged if ‖∇‖ ≤ tol · max(1, ‖W‖); tested every 100 steps of full-batch phases.
    record_every : int, optional
        Steps between the rows of ``history``.
    progress : bool
        Whether to show a progress bar.
    callback : callable, optional
        Called at least every 100 steps with a :class:`~covopt.training.loop.TrainingState`; stops if it returns true.
    random_state : int, optional
        Starting weights and draws of a network depend on (random_state, seed, width) only, not on other networks.
    start : network, sequence of networks or TrainingRun, optional
        Warm start instead of random weights: one network for all, or one for each.

    Returns
    -------
    TrainingRun
        ``.table`` has one row for every network. A network whose loss is not finite is marked ``diverged`` and keeps
        the weights of the last check with a finite loss; the others continue.

    Raises
    ------
    InputError
        If the input is not valid.
    SolverUnavailableError
        If PyTorch is not installed.

    Examples
    --------
    >>> from covopt.training import train
    >>> run = train([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], widths=[4, 8], lam=0.01, seeds=3)
    >>> len(run.table), bool(run.table.objective.min() < 0.1)
    (6, True)
    """
    began = time.perf_counter()
    where, precision = check_device(device), DTYPES[check_choice("dtype", dtype, DTYPES)]
    task = Task(X, Y, loss, bias, output_bias, sample_weight, "variation", "auto", 1e-6, None)
    members = make_grid(widths, task.strengths(lam), learning_rate, seeds)
    phases = make_schedule(schedule)
    tol_gradient = check_number("tol_gradient", tol_gradient, "in [0, 1), 0 for never", lambda t: 0 <= t < 1)
    if record_every is not None:
        check_count("record_every", record_every)
    checked = check_random_state(random_state)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if checked is None else checked
    ends = task.data.n_features, task.loss.targets.shape[1]
    layouts = [Layout((ends[0], *m.widths, ends[1]), task.data.bias, output_bias) for m in members]
    if task.loss.name != "squared" and any(phase.optimiser == "label-noise-sgd" for phase in phases):
        raise InputError(
            f"optimiser='label-noise-sgd' adds noise to numbers and takes the squared loss; received "
            f"loss={task.loss.name!r}."
        )
    copies = max(map(copies_in, phases))
    if where.type == "cpu":
        needed = precision.itemsize * copies * float(sum(own.size for own in layouts))
        plan(needed, "Train fewer networks at a time, or smaller ones.")
    weights = _starting_weights(start, layouts, members, seed, check_positive("scale", scale))
    runner = Runner(
        members, layouts, torch.as_tensor(task.data.lifted, dtype=precision, device=where),
        BatchedLoss(task.loss, where, precision), phases, weights, tol_gradient, seed, record_every,
    )  # fmt: skip
    planned = sum(phase.steps for phase in phases)

    def on_event(runner: Runner) -> bool:
        seen = runner.objectives[np.isfinite(runner.objectives)]
        phase = phases[runner.phase]
        state = TrainingState(
            runner.phase, phase.optimiser, runner.steps_done, planned, len(runner.active), len(members),
            float(seen.min()) if len(seen) else float("nan"), time.perf_counter() - began, runner.interrupted(),
        )  # fmt: skip
        bar.update(bar.task_ids[0], description=state.said)
        log_event(logging.DEBUG, state.said, "steps", **dataclasses.asdict(state))
        return callback is not None and bool(callback(state))

    try:
        with spinner("training", progress) as bar:
            runner.run(on_event)
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:  # on a GPU; CPU memory is checked before
        raise BudgetError(
            "the networks do not fit into the memory of the device; train fewer at a time, use dtype='float32', a "
            "batch_size, or device='cpu'."
        ) from error
    return TrainingRun(
        task.data.X, task.loss, members, layouts, runner.weights,
        ["stopped" if status == "running" else str(status) for status in runner.status], runner.steps, runner.times,
        runner.gradient_norms(), phases,
        runner.history_frame(), seed, time.perf_counter() - began, not runner.active or runner.phase == len(phases),
    )  # fmt: skip


def _starting_weights(
    start: Any, layouts: Sequence[Layout], members: Sequence[Member], random_state: int, scale: float
) -> list[np.ndarray]:
    if start is None:
        both = zip(layouts, members, strict=True)
        return [initial_weights(own, m.seed, random_state, scale) for own, m in both]
    if isinstance(start, TrainingRun):
        start = [start.network(i) for i in range(len(start))]
    given = list(start) if isinstance(start, Sequence) else [start] * len(members)
    if len(given) != len(members):
        raise InputError(
            f"start has {len(given)} networks for {len(members)}; give one for all, or one for each."
        )
    found = []
    for i, (network, own) in enumerate(zip(given, layouts, strict=True)):
        check_kind(chain := as_chain(network), own.bias, own.output_bias)
        layout, theta = Layout.of_network(chain, own.bias, own.output_bias)
        if layout.widths != own.widths:
            raise InputError(
                f"start {i} has widths {layout.widths}, inputs and outputs among them; {own.widths} are asked for."
            )
        found.append(theta)
    return found
