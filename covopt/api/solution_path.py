"""The solutions of a regularisation path: a list with a readable representation, and a table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.selection import HeldOut
from covopt.checks import counted, html_table, required
from covopt.errors import SolutionFileError
from covopt.files import Saved, check_format, heading
from covopt.files.schema import check_content, each, finite, maybe
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
            (
                s.lam,
                s.objective,
                s.loss_value,
                s.cost,
                len(s.network),
                s.lower_bound,
                s.gap,
                s.status.code,
                *beside,
            )
            for s, beside in zip(self, more, strict=False)
        ]

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
