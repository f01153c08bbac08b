"""What is checked before a solution's numbers are: its table, its arrays, its dual's free rows.

Of the table that somebody passes to ``verify``, each column is compared in its own units.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.certificates.rechecks import AGREES
from covopt.checks.claims import Check
from covopt.checks.wording import counted
from covopt.data import Data
from covopt.data.scaling import misses
from covopt.errors import InputError
from covopt.exact.parallel_rows import group_equal_rows
from covopt.losses import make_loss
from covopt.potentials import POTENTIALS

Pair = tuple[np.ndarray, np.ndarray]  # X and Y


def not_finite(solution: Any) -> list[Check]:
    """Return a failed check where a network or dual has a number that is none."""
    for name, array in (
        ("network", solution.network.hidden_weights),
        ("network", solution.network.output_weights),
        ("network", solution.network.output_bias),
        ("dual", solution.dual if solution.dual_low is None else solution.dual + solution.dual_low),
    ):
        if not np.isfinite(array).all():
            return [Check(name, False, "has a number that is not finite")]
    return []


def structure(solution: Any) -> list[Check]:
    """Check that the network fits the table, the output bias and the potential that are stated."""
    data, network, checks = solution.data, solution.network, []
    width = data.n_features + (data.bias > 0)
    fits = network.hidden_weights.shape[1] == width and network.bias == data.bias
    fits &= network.output_weights.shape[1] == data.n_outputs == len(network.output_bias)
    size = counted(width, "input") + (f" and {data.n_outputs} outputs" if data.n_outputs > 1 else "")
    checks.append(
        Check("network", fits, f"{counted(len(network), 'neuron')} on {size}, bias {network.bias:g}")
    )
    if solution.output_bias == "none":
        silent = not network.output_bias.any()
        checks.append(Check("output bias", silent, "absent" if silent else "present although there is none"))
    if solution.output_bias not in ("none", "penalized", "free") or solution.potential not in POTENTIALS:
        checks.append(
            Check("problem", False, f"output_bias {solution.output_bias!r}, potential {solution.potential!r}")
        )
    return checks


def dual_rows(solution: Any, keep: np.ndarray) -> list[Check]:
    """Check what the bound does not see: multipliers of rows that follow from others, and 1ᵀλ = 0."""
    dual = solution.dual if solution.dual_low is None else solution.dual + solution.dual_low
    size = float(np.abs(dual).max(initial=0.0))
    idle = float(np.abs(np.delete(dual, keep, axis=0)).max(initial=0.0))
    checks = []
    if idle > 0:
        checks.append(Check("dual", False, f"has {idle:.3g} on rows whose targets follow from others"))
    if solution.output_bias == "free":
        total = float(np.abs(dual.sum(axis=0)).max())
        ok = total <= AGREES * size * len(dual)
        checks.append(Check("dual sum", ok, f"is {total:.2e}, which a free output bias needs to be 0"))
    return checks


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
    checks, given = (_same_points if solution.loss is None else _same_samples)(solution, X, Y)
    mine = solution.data
    if given is None or (np.array_equal(given[0], mine.X) and np.array_equal(given[1], mine.Y)):
        return checks, solution
    loss = copy.copy(solution.loss)
    if loss is not None:
        loss.encode_targets(given[1], solution.sample_weight)
    return checks, replace(solution, data=replace(mine, X=given[0], Y=given[1]), loss=loss)


def standardised(solution: Any) -> list[Check]:
    """Check that the table in the solution is as standardising leaves one, where it says so."""
    scaling, loss = solution.network.scaling, solution.loss
    if scaling is None:
        return []
    of_numbers = loss is None or not loss.is_classification
    wrong = misses(solution.data, scaling, None if loss is None else loss.weights[:, 0], targets=of_numbers)
    detail = "columns of mean 0 and variance 1" if solution.data.bias > 0 else "columns of root mean square 1"
    return [Check("standardised", not wrong, wrong or detail)]


def _as_solved(table: Data, solution: Any) -> Data:
    """Return a user's table as the solution has it."""
    scaling = getattr(solution.network, "scaling", None)  # deep networks have none
    if scaling is None or (table.n_features, table.n_outputs) != (
        len(scaling.scale), len(scaling.target_centre)
    ):  # fmt: skip
        return table
    return scaling.apply_data(table)


def _same_points(solution: Any, X: Any, Y: Any) -> tuple[list[Check], Pair | None]:
    table = _as_solved(Data.validate(X, Y, bias=solution.data.bias, duplicates="mean"), solution)
    mine = Data.validate(solution.data.X, solution.data.Y, bias=solution.data.bias, duplicates="mean")
    if table.X.shape != mine.X.shape or table.Y.shape != mine.Y.shape:
        detail = f"has shape {table.X.shape}, the solution was made for {mine.X.shape}"
        return [Check("table", False, detail)], None
    check, given = _compare_tables(table, mine, sort=True)
    if given is None:
        return [check], None
    # rows that were merged for that
    _, own = np.unique(group_equal_rows(solution.data.X), return_inverse=True)
    return [check], (given[0][own], given[1][own])


def _same_samples(solution: Any, X: Any, Y: Any) -> tuple[list[Check], Pair | None]:
    loss = make_loss(solution.loss)
    loss.column = solution.loss.column
    given = Data.validate(X, loss.encode_targets(Y), bias=solution.data.bias, interpolates=False)
    table = _as_solved(given, solution)
    mine = solution.data
    checks = []
    if loss.is_classification:
        ok = loss.classes == solution.loss.classes
        checks.append(Check("classes", ok, f"stated {solution.loss.classes}, the table has {loss.classes}"))
    if table.X.shape != mine.X.shape or table.Y.shape != mine.Y.shape:
        detail = f"has shape {table.X.shape}, the solution was made for {mine.X.shape}"
        return [*checks, Check("table", False, detail)], None
    weighted = solution.sample_weight is not None
    # with weights the order of the rows matters
    check, found = _compare_tables(table, mine, sort=not weighted)
    if weighted and check.ok:
        check = replace(check, detail=f"{check.detail}; samples have the weights in the file")
    return [*checks, check], found
