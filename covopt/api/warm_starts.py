"""Where a fit may begin: what another solution of the same table says in the units of this one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from covopt.potentials import LabelNoise
from covopt.problems.reduction import Reduction
from covopt.problems.regularised import RegularisedProblem
from covopt.solution import Solution
from covopt.solvers.points import WarmStart

if TYPE_CHECKING:
    from covopt.api.fit_task import FitTask


def warm_start(
    task: FitTask, start: Solution, problem: RegularisedProblem, reduction: Reduction
) -> WarmStart:
    """Return where a solve of a task begins, from a solution with another λ, loss or weights.

    Parameters
    ----------
    task : FitTask
    start : Solution
        Of the same table.
    problem : RegularisedProblem
    reduction : Reduction
        Of the task.
    """
    warm = start.warm
    shape = (len(problem.rows), problem.n_outputs)
    if warm is None or not _shares_units(task, start) or warm.dual.shape != shape:
        neurons, weights, offset = reduction.apply_network(*start.network.to_neurons())
        weights = np.asarray(weights).reshape(len(neurons), shape[1])
        dual = reduction.apply_dual(start.dual).reshape(shape)
        if isinstance(task.weighing, LabelNoise):
            noise = task.label_noise(1.0)
            neurons, weights = noise.normalise(neurons, weights)
            dual = noise.apply_dual(start.dual).reshape(shape)
        else:  # samples that count in the start alone may have given a neuron its length
            lengths = np.linalg.norm(neurons, axis=1)
            live = lengths > 0
            neurons, weights = neurons[live] / lengths[live, None], weights[live] * lengths[live, None]
        warm = WarmStart(
            neurons, weights, np.linalg.norm(weights, axis=1), np.reshape(offset, shape[1]), dual
        )
    if start.loss is None or start.loss.name != task.loss.name:
        warm = dataclasses.replace(warm, edges=None)
    if not problem.has_offset:  # the start may have had one
        warm = dataclasses.replace(warm, offset=np.zeros(shape[1]))
    return warm


def _shares_units(task: FitTask, start: Solution) -> bool:
    """Whether the reduced rows and outputs of a start are those of a task."""
    if start.loss is None or start.potential != task.potential:
        return False
    same_outputs = start.loss.name == task.loss.name or task.data.n_outputs == 1
    return same_outputs and np.array_equal(start.loss.weights[:, 0] > 0, task.loss.weights[:, 0] > 0)
