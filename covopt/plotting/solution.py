"""A solution in one picture: its function, the dual function, the bracket over time; and figures as files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covopt.checks.optional import required
from covopt.errors import InputError
from covopt.plotting.classes import has_classes, plot_probabilities_1d, plot_regions_2d, plot_scores
from covopt.plotting.drawing import DPI, draw, untangle
from covopt.plotting.dual import dual_values, plot_dual
from covopt.plotting.function import curve_of
from covopt.plotting.history import cost_of, plot_history
from covopt.plotting.many_inputs import (
    drawn_outputs,
    not_drawn,
    plot_partial_dependence,
    plot_predicted,
    plot_slice,
)
from covopt.plotting.pictures import MOST_OUTPUTS, label_of, marked_of
from covopt.plotting.surface import surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 4

__all__ = ["check_figure_path", "dual_values", "plot_dual", "plot_history", "plot_solution", "save_figure"]


def plot_solution(solution: Any, path: str | Path | None = None) -> Figure:
    """Draw the panels that fit the data: the function, the dual function, the bracket.

    Of the function: with one or two inputs all of it, every output (regions and probabilities for classes); with more
    what it predicts against the data, and for every output one input at a time and a slice through the two that
    move it most.

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
        Where ``path`` has an extension that matplotlib cannot write.
    """
    of_function = _of_function(solution)
    panels = [*of_function, plot_dual, plot_history]
    columns = len(panels) if len(panels) < 4 else min((len(panels) + 1) // 2, MOST_COLUMNS)
    figure = _figure(columns, -(-len(panels) // columns), to_file=path is not None)
    axes = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for ax in axes[len(panels) :]:
        ax.remove()
    axes = axes[: len(panels)]
    seen = solution if solution.scaling is None else solution.in_your_units()
    for panel, ax in zip(panels, axes, strict=True):
        panel(seen if panel in of_function else solution, ax)
    scaled = "" if solution.scaling is None else ", of standardised columns"
    figure.suptitle(
        f"{cost_of(solution)}{scaled} = {solution.objective:.8g}, at least {solution.lower_bound:.8g}: "
        f"{solution.status}",
        fontsize="large",
    )
    untangle(figure)
    if path is not None:
        save_figure(figure, path)
    return figure


def _of_function(solution: Any) -> list[Callable[[Any, Axes], Any]]:
    """Return the panels about the function: what can be seen of it depends on the inputs, outputs and classes."""
    data, classes = solution.data, has_classes(solution)
    if data.n_features == 1:
        return [plot_probabilities_1d if classes else _curve]
    if data.n_features == 2:
        if classes:
            return [plot_regions_2d]
        return [partial(_surface, output=j) for j in range(min(data.n_outputs, MOST_OUTPUTS))]
    outputs = drawn_outputs(solution)[:MOST_OUTPUTS] if data.n_features else []
    return [
        plot_scores if classes else plot_predicted,
        *(partial(plot_partial_dependence, output=j) for j in outputs),
        *(partial(plot_slice, output=j) for j in (outputs[:1] if classes else outputs)),
    ]


def _curve(solution: Any, ax: Axes) -> None:
    draw(curve_of(solution, marked_of(solution.network)), ax)


def _surface(solution: Any, ax: Axes, *, output: int) -> None:
    data = solution.data
    first, second, name = (label_of(n) for n in (*data.feature_names, data.target_names[output]))
    picture = surface(
        solution.network, data.X, data.Y, marked_of(solution.network), output=output, resolution=160,
        names=(first, second, name),
    )  # fmt: skip
    if data.n_outputs > MOST_OUTPUTS and output == MOST_OUTPUTS - 1:
        picture.title += f"; {not_drawn(data.n_outputs - MOST_OUTPUTS, 'output')}"
    draw(picture, ax)


def _figure(columns: int, rows: int, *, to_file: bool) -> Figure:
    size = (5.2 * columns + 1.0, 4.8 * rows)
    if to_file:  # needs no display and leaves nothing behind in pyplot
        Figure = required("matplotlib.figure", "drawing", "plot").Figure
        return Figure(figsize=size, layout="constrained")
    plt = required("matplotlib.pyplot", "drawing", "plot")
    return plt.figure(figsize=size, dpi=DPI, layout="constrained")


def check_figure_path(path: str | Path) -> None:
    """Refuse a file name that matplotlib cannot write.

    Raises
    ------
    InputError
        With the extensions that it can.
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
        Where the extension is not one that matplotlib can write.
    """
    import os

    check_figure_path(path)
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        figure.savefig(part, format=path.suffix.lower().lstrip("."), dpi=DPI)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
