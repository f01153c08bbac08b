"""The problem that a solution states, compared with what the user expects and with the user's table.

A correct solution for one λ or loss proves nothing about another, and a comparison of tables does not show that.
Tables are compared column by column, each in its own units.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covopt.certificates.certify import Certifier
from covopt.certificates.dual_norms import VARIATION, make_dual_norm
from covopt.checks import Check
from covopt.checks.validation import check_positive
from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED, group_equal_rows
from covopt.losses import Interpolation, Loss, make_loss
from covopt.potentials import POTENTIALS
from covopt.problems.problem import Problem
from covopt.problems.reduction import Reduction, reduce_data, reduce_fit


def stated_problem(solution: Any) -> dict[str, Any]:
    """Return the problem of a solution by the names of :func:`covopt.fit`.

    Examples
    --------
    >>> import covopt
    >>> stated_problem(covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]))["loss"]
    'interpolation'
    """
    weights = solution.loss is not None and solution.sample_weight is not None
    return {
        "lam": solution.lam,
        "loss": "interpolation" if solution.loss is None else solution.loss.name,
        "bias": solution.data.bias,
        "output_bias": solution.output_bias,
        "potential": solution.potential,
        "weights": "given" if weights else "none",
        "standardise": solution.scaling is not None,
        "tol": solution.tol,
    }


def expected(solution: Any, expect: Mapping[str, Any] | None) -> list[Check]:
    """Return a check that states the problem of a solution, and one for each field of ``expect``.

    Raises
    ------
    InputError
        For a field that solutions do not have.
    """
    found = stated_problem(solution)
    title = found["loss"] if solution.loss is None else solution.loss.title
    lam = "" if found["lam"] is None else f"λ = {found['lam']:.17g}, "
    words = (
        f"{lam}loss {title}, bias {found['bias']:.17g}, output bias {found['output_bias']}, potential "
        f"{found['potential']}, weights {found['weights']}, standardised: {'yes' if found['standardise'] else 'no'}"
    )
    checks = [Check("stated problem", True, words)]
    for name, value in (expect or {}).items():
        if name not in found:
            raise InputError(f"expect: there is no {name!r} in a solution; it has {', '.join(found)}")
        ok = _same(found[name], value)
        checks.append(Check(f"expected {name}", ok, f"stated {found[name]!r}, expected {value!r}"))
    return checks


def expectations(words: Iterable[str]) -> dict[str, str]:
    """Parse fields ``NAME=VALUE`` of a command line.

    Examples
    --------
    >>> expectations(["lam=0.1", "loss=squared"])
    {'lam': '0.1', 'loss': 'squared'}
    """
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise InputError(f"expect: NAME=VALUE was expected, as lam=0.1; received {word!r}")
        found[name.strip().replace("-", "_")] = value.strip()
    return found


def _same(stated: Any, value: Any) -> bool:
    """Return whether a number, a word, or yes and no equals the expected value, which may be text."""
    said = str(value).lower()
    if not isinstance(stated, bool):
        with suppress(TypeError, ValueError):  # one of the two is a word
            return abs(float(said) - stated) <= COMPUTED * abs(stated)
    return {"yes": "true", "no": "false"}.get(said, said) == str(stated).lower()


@dataclass(frozen=True)
class ReadProblem:
    """The problem as the checker reads it from the data."""

    data: Data
    loss: Loss
    lam: float
    reduced: tuple[Problem, Reduction] | None = None

    @classmethod
    def of(cls, solution: Any) -> ReadProblem:
        """Read the problem of a solution; raise InputError for data beyond double precision."""
        table = solution.data
        if solution.loss is None:
            data = Data.validate(table.X, table.Y, bias=table.bias)
            return cls(data, Interpolation.of(data.Y), 1.0, reduce_data(data, solution.output_bias))
        loss, lam = copy.copy(solution.loss), check_positive("lam", solution.lam)
        loss.encode_targets(table.Y, solution.sample_weight)
        data = Data.validate(table.X, loss.targets, bias=table.bias, interpolates=False)
        reduce_fit(data, loss, lam, solution.output_bias)
        return cls(data, loss, lam)

    def certifier(self, solution: Any) -> Certifier:
        """Return what certifies the network of a solution."""
        problem: dict[str, Any] = {"output_bias": solution.output_bias, "loss": self.loss, "lam": self.lam}
        potential = POTENTIALS.get(solution.potential, VARIATION)
        dual_norm = make_dual_norm(self.data, potential=potential, reduced=self.reduced, **problem)
        return Certifier(self.data, solution.network, dual_norm=dual_norm, **problem)


Pair = tuple[np.ndarray, np.ndarray]  # X and Y


def _compare_tables(table: Data, mine: Data, *, sort: bool) -> tuple[Check, Pair | None]:
    """Compare two tables column by column, relative to the size of each column."""
    first, second = (np.column_stack([part.X, part.Y]) for part in (table, mine))
    here, there = (np.lexsort(part.T[::-1]) if sort else np.arange(len(part)) for part in (first, second))
    difference = np.abs(first[here] - second[there]).max(axis=0)
    if not (difference <= COMPUTED * np.abs(second).max(axis=0)).all():
        return Check("table", False, f"differs by up to {float(difference.max()):.3g}"), None
    detail = "is the one that was solved"
    if difference.any():
        detail += f", but for {float(difference.max()):.1e}: what follows is about the table as it is given"
    given = np.empty_like(first)
    given[there] = first[here]
    return Check("table", True, detail), (given[:, : table.n_features], given[:, table.n_features :])


def same_table(solution: Any, X: Any, Y: Any) -> tuple[list[Check], Any]:
    """Check that a table is the one that was solved, with rows in any order unless they have weights.

    Parameters
    ----------
    solution : Solution or DeepSolution
    X, Y : array_like

    Returns
    -------
    checks : list of Check
    solution
        The solution on the given table, with rows in the solution's order. Every claim is then checked for that
        table, since close points may have other distances than in the file.
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
    """Return the user's table, standardised if the solution is."""
    scaling = getattr(solution.network, "scaling", None)  # deep networks have none
    if scaling is None or (table.n_features, table.n_outputs) != (
        len(scaling.scale), len(scaling.target_centre)
    ):  # fmt: skip
        return table
    return scaling.apply_data(table)


def _compared(solution: Any, X: Any, Y: Any) -> tuple[list[Check], Pair | None]:
    """Compare a table with the solution's; equal points are merged, weighted samples keep their order."""
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
    if given is not None and solution.loss is None:  # undo the merging of equal points
        own = np.unique(group_equal_rows(solution.data.X), return_inverse=True)[1]
        given = given[0][own], given[1][own]
    return [*checks, check], given
