"""Figures of a solution: the function, its neurons, the dual function, the bracket over time.

``plot_solution`` draws all panels that apply to the data; :func:`draw` draws one of :func:`function_pictures` on
given axes. Figures are readable in greyscale: neurons with positive output weight are drawn solid (filled), negative
ones dashed (open), and their width grows with their cost.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covopt.checks import required
from covopt.errors import InputError
from covopt.files import write_atomically
from covopt.losses.classification import codes_of
from covopt.plotting.dual import dual_values, plot_dual
from covopt.plotting.function import (
    curve,
    heights,
    plane_of,
    plot_function_1d,
    plot_surface_2d,
    surface,
    targets,
)  # fmt: skip
from covopt.plotting.history import cost_of, plot_history
from covopt.plotting.pictures import DPI, MOST_OUTPUTS, Marked, Picture, Surface, draw, marked_of
from covopt.plotting.predictions import (
    dependences,
    has_classes,
    is_sure,
    not_drawn,
    predicted,
    samples,
    scores,
    shown_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "check_figure_path", "draw", "dual_values", "function_pictures", "plot_dual", "plot_function_1d", "plot_history",
    "plot_solution", "plot_surface_2d", "save_figure",
]  # fmt: skip


def plot_solution(solution: Any, path: str | Path | None = None) -> Figure:
    """Draw the panels that apply to the data: the function, the dual function, the bracket.

    With one or two inputs the whole function is drawn, for every output (probabilities and regions for classes). With
    more inputs, predictions are drawn against targets, and every output against one input at a time.

    Parameters
    ----------
    solution : Solution
    path : str or Path, optional
        Where to write the figure; its extension (.png, .pdf, .svg) chooses the format.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If ``path`` has an extension that matplotlib cannot write.
    """
    seen = solution if solution.scaling is None else solution.in_your_units()
    pictures = function_pictures(seen, resolution=160)
    if solution.data.n_features not in (1, 2):
        pictures.insert(0, agreement(seen))
    n_panels = len(pictures) + 2
    rows = math.isqrt(n_panels)
    columns = -(-n_panels // rows)
    figure = _figure((5.2 * columns + 1.0, 4.8 * rows), to_file=path is not None)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[n_panels:]:
        ax.remove()
    for picture, ax in zip(pictures, axes, strict=False):
        draw(picture, ax)
    plot_dual(solution, axes[n_panels - 2])
    plot_history(solution, axes[n_panels - 1])
    scaled = "" if solution.scaling is None else ", of standardised columns"
    figure.suptitle(
        f"{cost_of(solution)}{scaled} = {solution.objective:.8g}, at least {solution.lower_bound:.8g}: "
        f"{solution.status}",
        fontsize="large",
    )
    if path is not None:
        save_figure(figure, path)
    return figure


def agreement(solution: Any) -> Picture:
    """Return predictions against targets, or for classes the probability of the true class."""
    return scores(solution) if has_classes(solution) else predicted(solution)


def function_pictures(solution: Any, marked: Marked | None = None, *, resolution: int = 61) -> list[Picture]:
    """Return the pictures of the function that apply to its inputs, outputs and classes.

    Parameters
    ----------
    solution : Solution
        In the user's units.
    marked : Marked, optional
        Its neurons; by default those of the network.
    resolution : int
        Points of a grid in each direction.
    """
    data, classes = solution.data, has_classes(solution)
    if data.n_features not in (1, 2):
        return dependences(solution)
    marked = marked_of(solution.network) if marked is None else marked
    if data.n_features == 1:
        if not classes:
            return [curve(solution, targets(solution), marked)]
        shown = curve(solution, samples(solution, data.X[:, 0], -0.08 - 0.05 * codes_of(data.Y)), marked)
        return [replace(shown, y="probability" if is_sure(solution) else "predicted")]
    found, (f, names) = [], shown_of(solution)
    for j, name in enumerate(names[:MOST_OUTPUTS]):
        if classes:
            first, second, points = plane_of(data.X, resolution)
            values = f(points)[:, j].reshape(len(second), len(first))
            below = Surface(first, second, values, (0.0, 1.0), name, 0.5)
            marks = samples(solution, *data.X.T)
        else:
            below, of_data = heights(solution, j, resolution)
            marks = [of_data]
        found.append(surface(solution, below, marks, marked))
    if len(names) > MOST_OUTPUTS:
        found[-1].title += f"; {not_drawn(len(names) - MOST_OUTPUTS, 'output')}"
    return found


def _figure(size: tuple[float, float], *, to_file: bool) -> Figure:
    if to_file:  # needs no display and is not registered in pyplot
        return required("matplotlib.figure", "drawing", "plot").Figure(figsize=size, layout="constrained")
    return required("matplotlib.pyplot", "drawing", "plot").figure(
        figsize=size, dpi=DPI, layout="constrained"
    )


def check_figure_path(path: str | Path) -> None:
    """Refuse a file name that matplotlib cannot write.

    Raises
    ------
    InputError
        The message lists the extensions that it can write.
    """
    FigureCanvasBase = required("matplotlib.backend_bases", "drawing", "plot").FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lower().lstrip(".") not in known:
        raise InputError(
            f"{path}: figures are written as {', '.join('.' + k for k in known)}; change the extension."
        )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure; a failure leaves no half-written file.

    Raises
    ------
    InputError
        If matplotlib cannot write the extension.
    """
    check_figure_path(path)
    suffix = Path(path).suffix.lower().lstrip(".")
    write_atomically(path, lambda stream: figure.savefig(stream, format=suffix, dpi=DPI))
