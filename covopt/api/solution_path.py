"""Regularisation paths: how one is solved, and its solutions as a list, a table and a file."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.run import Callback
from covopt.api.selection import HeldOut, held_out
from covopt.api.task import Task
from covopt.checks import counted, html_table, required
from covopt.checks.log import logged
from covopt.checks.validation import as_doubles, check_time_limit
from covopt.errors import InputError, PathStoppedWarning, SolutionFileError, Status
from covopt.files import Saved, check_format, heading
from covopt.files.schema import check_content, each, finite, maybe
from covopt.limits import HALF, now
from covopt.losses import Loss
from covopt.parallel import one_blas_thread
from covopt.solution import Solution

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FORMAT = "covopt-path"
COLUMNS = ("lam", "objective", "loss", "squared_norm", "neurons", "lower_bound", "gap", "status")


class SolutionPath(list[Solution], Saved):
    """A list of solutions, largest λ first.

    Attributes
    ----------
    held_out : HeldOut or None
        Losses and scores of networks at these λ on rows left out, if requested.

    Examples
    --------
    >>> import covopt
    >>> covopt.path([[0.0], [1.0]], [0.0, 1.0], n_lams=3)
    SolutionPath(3 points, λ 0.7071 to 0.0007071, 3 certified, up to 1 neuron)
    """

    held_out: HeldOut | None = None

    def __repr__(self) -> str:
        if not self:
            return "SolutionPath(no points)"
        done = sum(s.status == "certified" for s in self)
        ends = f"λ {self[0].lam:.4g} to {self[-1].lam:.4g}"
        widest = counted(max(len(s.network) for s in self), "neuron")
        return f"SolutionPath({counted(len(self), 'point')}, {ends}, {done} certified, up to {widest})"

    def _repr_html_(self) -> str:
        rows = [[f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in self._rows()]
        return html_table(rows, head=self._columns(), caption=repr(self))

    def _columns(self) -> tuple[str, ...]:
        return (
            COLUMNS
            if self.held_out is None
            else (*COLUMNS, "held_out_loss", f"held_out_{self.held_out.quality}")
        )

    def _rows(self) -> list[tuple[Any, ...]]:
        seen = self.held_out
        more = (
            [()] * len(self)
            if seen is None
            else zip(*(v.mean(axis=1).tolist() for v in seen[1:3]), strict=True)
        )
        return [
            (s.lam, s.objective, s.loss_value, s.cost, len(s.network), s.lower_bound, s.gap, s.status.code, *beside)
            for s, beside in zip(self, more, strict=False)
        ]  # fmt: skip

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each λ; ``to_csv`` and ``to_latex`` write it.

        Returns
        -------
        pandas.DataFrame
        """
        pd = required("pandas", "to_frame()", "tables")
        return pd.DataFrame(self._rows(), columns=list(self._columns()))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        seen = self.held_out
        content = heading(FORMAT) | {"solutions": [s.to_dict() for s in self]}
        return (
            content if seen is None else content | {"held_out": {"quality": seen.quality, **_scores_of(seen)}}
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw objective, neurons and gap along λ.

        Parameters
        ----------
        path : path-like, optional
            Where to save the figure: .png, .pdf or .svg.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If the path has another suffix.
        """
        from covopt.plotting import save_figure
        from covopt.plotting.history import plot_path

        figure = plot_path(self)
        if path is not None:
            save_figure(figure, Path(path))
        return figure


def path_from_dict(content: Any) -> SolutionPath:
    """Return the solutions of parsed JSON.

    Parameters
    ----------
    content : object

    Raises
    ------
    SolutionFileError
        When it is not a covopt path, of a newer schema, or one of its points is damaged.
    """
    check_format(content, FORMAT)
    parts = content.get("solutions")
    if not isinstance(parts, list) or not parts:
        raise SolutionFileError("it is a path without points; nothing can be read from it.")
    solutions = SolutionPath()
    for i, part in enumerate(parts):
        try:
            solutions.append(Solution.from_dict(part))
        except SolutionFileError as error:
            raise SolutionFileError(f"point {i} of the path (counting from 0): {error}") from error
    solutions.held_out = _held_out(content.get("held_out"))
    return solutions


def _scores_of(seen: HeldOut) -> dict[str, Any]:
    """Return the numbers as JSON types, R² of rows that do not vary as null."""
    tables = {"lams": seen.lams, "losses": seen.losses, "qualities": seen.qualities}
    return {name: np.where(np.isfinite(v), v, np.array(None)).tolist() for name, v in tables.items()}


def _held_out(content: Any) -> HeldOut | None:
    """Return the scores on rows left out that a file has; files of earlier versions have none."""
    if content is None:
        return None
    scores = each(each(maybe(finite)))
    try:
        check_content(content, {"lams": each(finite), "losses": scores, "qualities": scores}, "'held_out'")
        lams, losses, qualities = (
            np.array(content[name], dtype=float) for name in ("lams", "losses", "qualities")
        )
        if content.get("quality") not in ("r2", "accuracy") or losses.ndim != 2:
            raise ValueError("a quality is 'r2' or 'accuracy', of lists of one length")
        if not (losses.shape == qualities.shape and len(losses) == len(lams) > 0 < losses.size):
            raise ValueError("scores and λ differ in number")
    except ValueError as error:
        raise SolutionFileError(f"the scores of rows left out are damaged: {error}.") from error
    return HeldOut(lams, losses, qualities, content["quality"])


def path(
    X: Any,
    Y: Any,
    *,
    lams: Any = None,
    n_lams: int = 30,
    eps: float = 1e-3,
    loss: str | Loss = "squared",
    bias: float = 1.0,
    output_bias: str = "none",
    sample_weight: Any = None,
    potential: str = "variation",
    solver: str = "auto",
    tol: float = 1e-6,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callback | None = None,
    standardise: bool = False,
    folds: int = 0,
    verbose: int = 0,
    start: SolutionPath | None = None,
) -> SolutionPath:
    r"""Solve :func:`fit` over a grid of λ, from λ_max down, each warm-started from the previous one and certified.

    .. math:: \lambda_j = \lambda_{\max}\, \varepsilon^{j/(n-1)}, \qquad j = 0, \dots, n - 1.

    Parameters
    ----------
    X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, standardise
        As in :func:`fit`.
    lams : array_like, optional
        The λ to solve for, in any order: numbers, and shares of λ_max as in ``"0.1max"``. By default a geometric grid
        from :func:`lambda_max` down.
    n_lams : int
        Number of points of that grid.
    eps : float
        Ratio of its ends, in (0, 1).
    time_limit_s : float, optional
        Seconds for the whole path.
    callback : callable, optional
        Called after every round, as in :func:`fit`; a true return value ends the path. ``state.best()`` is the path
        so far.
    folds : int
        Folds of a cross-validation over the same λ, which runs before the path and takes part of the time; its losses
        are in ``held_out`` of the path. 0 for none.
    verbose
        As in :func:`covopt.min_norm`.
    start : SolutionPath, optional
        An earlier path for the same X: each λ in it starts from its solution there.

    Returns
    -------
    SolutionPath
        A list of :class:`Solution`, largest λ first; ``to_frame()`` returns it as a table. A path that is stopped
        (time limit, Ctrl-C, callback) returns the solutions so far, including the last bracket if there is one, and
        warns with the λ at which it stopped; Ctrl-C before there is a bracket raises KeyboardInterrupt.

    Raises
    ------
    InputError
        As in :func:`fit`; and when λ_max is zero, so that there is no grid.

    Warns
    -----
    PathStoppedWarning

    Examples
    --------
    >>> import covopt
    >>> solutions = covopt.path([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], n_lams=4)
    >>> [s.status.code for s in solutions], len(solutions[0].network)
    (['certified', 'certified', 'certified', 'certified'], 0)
    """
    began = now()
    task = Task(
        X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, standardised=standardise
    )  # fmt: skip
    time_limit_s = check_time_limit(time_limit_s)
    earlier = [] if start is None else start if isinstance(start, list) else [start]
    for found in earlier:
        task.check_start(found)
    solutions, known = SolutionPath(), {found.lam: found for found in earlier}

    def seen(state: Any) -> Any:
        rest = [found for found in known.values() if found.lam < grid[len(solutions)]]
        done = list(solutions)
        best = state.best and (lambda: SolutionPath([*done, state.best(), *rest]))
        return callback is not None and callback(replace(state, best=best))

    with logged(verbose), one_blas_thread():
        if lams is None:
            grid = task.grid(n_lams, eps, time_limit_s)
        else:
            grid = check_lams(task.strengths(lams, time_limit_s))
        if folds:
            share = None if time_limit_s is None else HALF * time_limit_s
            solutions.held_out = held_out(task, grid, folds=folds, time_limit_s=share)
        for lam in grid:
            left = None if time_limit_s is None else time_limit_s - (now() - began)
            if left is not None and left <= 0:
                _warn_stopped(solutions, grid, "the time limit was reached")
                break
            started = now()
            previous = known.get(float(lam), solutions[-1] if solutions else None)
            try:
                solutions.append(task.solve(float(lam), left, seen, previous, started))
            except KeyboardInterrupt:  # outside the solver's rounds, while a certificate was computed
                if not solutions:
                    raise
                _warn_stopped(solutions, grid, Status.INTERRUPTED.message.partition(";")[0])
                break
            status = Status.INTERRUPTED if task.interrupted else solutions[-1].status
            if status in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK):
                _warn_stopped(solutions, grid, status.message.partition(";")[0])
                break
    return solutions


def check_lams(lams: Any) -> np.ndarray:
    """Validate λ, and return them in decreasing order, each once."""
    try:
        values = np.atleast_1d(as_doubles(lams))
    except (TypeError, ValueError):
        raise InputError(f"lams must be positive numbers; received {lams!r:.60}") from None
    if values.ndim != 1 or not len(values):
        raise InputError(f"lams must be a list of positive numbers; received shape {values.shape}.")
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"lams must be positive finite numbers; entry {i} (counting from 0) is {values[i]:g}."
        )
    return np.unique(values)[::-1]


def _warn_stopped(solutions: list[Solution], grid: np.ndarray, why: str) -> None:
    done = sum(s.status is Status.CERTIFIED for s in solutions)
    at = grid[min(len(solutions), len(grid)) - 1] if solutions else grid[0]
    warnings.warn(
        f"the path stopped at lam = {at:.6g}: {why}; {done} of {len(grid)} points are certified",
        PathStoppedWarning,
        stacklevel=3,
    )
