"""The certified floor under trained networks: what a solution of the same table proves about their objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covopt.api.task import Task
from covopt.errors import InputError
from covopt.solution import Solution
from covopt.training.grid import Member
from covopt.training.model import Architecture


def floors_of(
    reference: Any, task: Task, members: Sequence[Member], architecture: Architecture
) -> np.ndarray:
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
    if architecture.depth != 2:
        raise InputError("reference bounds two-layer networks only; leave it out for deep ones.")
    differs = differences(reference, task)
    if differs:
        raise InputError(
            f"reference is a solution of another problem: {', '.join(differs)} differ; train on its own table."
        )
    if reference.loss is not None:
        lams = np.array([member.lam for member in members])
        floors[lams == reference.lam] = reference.lower_bound
    return floors


def differences(reference: Solution, task: Task) -> list[str]:
    """Return what of a solution's problem differs from a task's."""
    found = []
    data = reference.data
    if data.X.shape != task.data.X.shape or not np.array_equal(data.X, task.data.X):
        found.append("X")
    if data.Y.shape != task.loss.targets.shape or not np.array_equal(data.Y, task.loss.targets):
        found.append("Y")
    if data.bias != task.data.bias:
        found.append("bias")
    if reference.output_bias != task.output_bias:
        found.append("output_bias")
    if reference.potential != "variation":
        found.append("potential")
    if reference.loss is not None:
        mine, theirs = (
            {name: value for name, value in loss.parameters().items() if name not in ("classes", "column")}
            for loss in (task.loss, reference.loss)
        )
        if mine != theirs:
            found.append("loss")
        theirs_s, mine_s = reference.sample_weight, task.sample_weight
        unweighted = theirs_s is None and mine_s is None
        if not unweighted and (theirs_s is None or mine_s is None or not np.array_equal(theirs_s, mine_s)):
            found.append("sample_weight")
    return found
