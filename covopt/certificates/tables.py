"""Whether a table is the one that was solved: each column is compared in its own units."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.checks.claims import Check
from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.parallel_rows import group_equal_rows
from covopt.losses import make_loss

Pair = tuple[np.ndarray, np.ndarray]  # X and Y


def _compare_tables(table: Data, mine: Data, *, sort: bool) -> tuple[Check, Pair | None]:
    """Compare column by column: columns have units of their own, and none of them need be of size one."""
    first, second = (np.column_stack([part.X, part.Y]) for part in (table, mine))
    here, there = (np.lexsort(part.T[::-1]) if sort else np.arange(len(part)) for part in (first, second))
    difference = np.abs(first[here] - second[there]).max(axis=0)
    if not (difference <= 1e-12 * np.abs(second).max(axis=0)).all():
        return Check("table", False, f"differs by up to {float(difference.max()):.3g}"), None
    detail = "is the one that was solved"
    if difference.any():
        detail += f", but for {float(difference.max()):.1e}: what follows is about the table as it is given"
    given = np.empty_like(first)
    given[there] = first[here]
    return Check("table", True, detail), (given[:, : table.n_features], given[:, table.n_features :])


def same_table(solution: Any, X: Any, Y: Any) -> tuple[list[Check], Any]:
    """Check that a table is the one that was solved, rows in any order where they have no weights.

    Parameters
    ----------
    solution : Solution or DeepSolution
    X, Y : array_like

    Returns
    -------
    checks : list of Check
    solution
        The same on the table that was given, rows in the solution's order: points that are close need not be as far
        from each other there, so every claim is then checked for that table, not for the one in the file.
    """
    if Y is None:
        raise InputError("verify needs Y together with X")
    checks, given = _compared(solution, X, Y)
    mine = solution.data
    if given is None or (np.array_equal(given[0], mine.X) and np.array_equal(given[1], mine.Y)):
        return checks, solution
    loss = copy.copy(solution.loss)
    if loss is not None:
        loss.encode_targets(given[1], solution.sample_weight)
    return checks, replace(solution, data=replace(mine, X=given[0], Y=given[1]), loss=loss)


def _as_solved(table: Data, solution: Any) -> Data:
    """Return a user's table as the solution has it."""
    scaling = getattr(solution.network, "scaling", None)  # deep networks have none
    if scaling is None or (table.n_features, table.n_outputs) != (
        len(scaling.scale), len(scaling.target_centre)
    ):  # fmt: skip
        return table
    return scaling.apply_data(table)


def _compared(solution: Any, X: Any, Y: Any) -> tuple[list[Check], Pair | None]:
    """Compare a table with the solution's; equal points count as one, weighted samples keep their order."""
    checks, bias, mine = [], solution.data.bias, solution.data
    weighted = solution.loss is not None and solution.sample_weight is not None
    if solution.loss is None:
        table = Data.validate(X, Y, bias=bias, duplicates="mean")
        mine = Data.validate(mine.X, mine.Y, bias=bias, duplicates="mean")
    else:
        loss = make_loss(solution.loss)
        loss.column = solution.loss.column
        table = Data.validate(X, loss.encode_targets(Y), bias=bias, interpolates=False)
        if loss.is_classification:
            ok = loss.classes == solution.loss.classes
            checks.append(
                Check("classes", ok, f"stated {solution.loss.classes}, the table has {loss.classes}")
            )
    table = _as_solved(table, solution)
    if table.X.shape != mine.X.shape or table.Y.shape != mine.Y.shape:
        detail = f"has shape {table.X.shape}, the solution was made for {mine.X.shape}"
        return [*checks, Check("table", False, detail)], None
    check, given = _compare_tables(table, mine, sort=not weighted)
    if weighted and check.ok:
        check = replace(check, detail=f"{check.detail}; samples have the weights in the file")
    if given is not None and solution.loss is None:  # rows that were merged for that
        own = np.unique(group_equal_rows(solution.data.X), return_inverse=True)[1]
        given = given[0][own], given[1][own]
    return [*checks, check], given
