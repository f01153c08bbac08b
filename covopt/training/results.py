"""What a run of training returns: a tidy table, the networks, the history, and their gaps to a certified floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.task import Task
from covopt.checks.optional import required
from covopt.checks.wording import Brief
from covopt.depth.layers import Layout, as_shallow
from covopt.errors import InputError
from covopt.losses import Loss
from covopt.network import ReLUNetwork
from covopt.network.deep import DeepReLUNetwork
from covopt.solution import Solution
from covopt.training.schedule import Member, Phase

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False, repr=False)
class TrainingRun(Brief):
    """The trained networks of a call of :func:`covopt.training.train`. All of it is heuristic, nothing certified.

    Attributes
    ----------
    status : list of str
        ``converged``, ``stopped`` or ``diverged``, for each network.
    history : pandas.DataFrame or None
        Columns network, step, phase, objective, one row for every network and recorded step.
    schedule : tuple of Phase
    random_state : int
    time_s : float
        Of the whole batch.
    complete : bool
        False when the run was stopped before its end.
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
    floors: np.ndarray = field(repr=False)
    rates: list[float] = field(repr=False)
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
        """Return how the networks came about, to repeat it."""
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
        columns = outputs[:, None] if outputs.ndim == 1 else outputs
        with np.errstate(over="ignore", invalid="ignore"):
            loss, norm = self.loss.value(outputs), network.squared_norm
            objective = loss + member.lam * norm
        floor = self.floors[index]
        row = {
            "width": member.widths[0] if len(member.widths) == 1 else member.widths,
            "lam": member.lam,
            "learning_rate": self.rates[index],
            "seed": member.seed,
            "loss": loss,
            "squared_norm": norm,
            "objective": objective,
            "residual": np.nan,
            "gradient_norm": self.gradient_norms[index],
            "gap": (objective - floor) / objective if objective > 0 else np.nan,
            "status": self.status[index],
            "steps": int(self.steps[index]),
            "time_s": float(self.times[index]),
        }
        if self.loss.is_classification:
            row["error_rate"] = error_rate(self.loss, columns)
        else:
            row["residual"] = float(np.abs(columns - self.loss.targets).max())
        return row

    @property
    def table(self) -> pd.DataFrame:
        """One row for every network.

        Columns width, lam, learning_rate, seed, loss, squared_norm, objective, residual (max |f − y|; NaN for
        classification, which has error_rate instead), gradient_norm, gap (to the certified bound of the reference,
        relative; NaN without one), status, steps, time_s (its share of the wall time).
        """
        return self._numbers.copy()

    @property
    def objectives(self) -> np.ndarray:
        """Objective of every network; not finite where it diverged."""
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


def error_rate(loss: Loss, outputs: np.ndarray) -> float:
    """Return the share of samples of the wrong class; ties count as wrong for two classes."""
    if outputs.shape[1] == 1:
        return float((outputs * loss.targets <= 0).mean())
    return float((outputs.argmax(axis=1) != loss.targets.argmax(axis=1)).mean())


def floors_of(reference: Any, task: Task, members: Sequence[Member]) -> np.ndarray:
    """Return a certified lower bound of each member's objective; NaN where the reference says nothing.

    Raises
    ------
    InputError
        When the reference is not a solution of the same problem, or the networks are none of its kind.
    """
    floors = np.full(len(members), np.nan)
    if reference is None:
        return floors
    if not isinstance(reference, Solution):
        raise InputError(f"reference must be a Solution; received {type(reference).__name__}.")
    if len(members[0].widths) > 1:
        raise InputError("reference bounds two-layer networks only; leave it out for deep ones.")
    if not task.is_solved_by(reference):
        raise InputError(f"reference is a solution of another problem: {DIFFER}; train on its own table.")
    lams = np.array([member.lam for member in members])
    floors[lams == reference.lam] = reference.lower_bound
    return floors


DIFFER = "X, Y, bias, output_bias, potential, loss or sample_weight differ"
