"""A solution in one picture: its function, the dual function, the bracket over time; and figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from covopt.checks.optional import required
from covopt.errors import InputError
from covopt.files import write_atomically
from covopt.plotting.classes import NO_MARKS, has_classes, probabilities, regions, scores
from covopt.plotting.drawing import DPI, draw, untangle
from covopt.plotting.dual import dual_values, plot_dual
from covopt.plotting.function import curve_of, surface
from covopt.plotting.history import cost_of, plot_history
from covopt.plotting.many_inputs import dependence, drawn_outputs, not_drawn, predicted, slice_by_two
from covopt.plotting.pictures import MOST_OUTPUTS, Marked, Picture, label_of, marked_of

if TYPE_CHECKING:
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
    seen = solution if solution.scaling is None else solution.in_your_units()
    marked = NO_MARKS if has_classes(solution) else marked_of(seen.network)
    pictures = function_pictures(seen, marked, resolution=160)
    if solution.data.n_features not in (1, 2):
        pictures.insert(0, agreement(seen))
    n_panels = len(pictures) + 2
    columns = n_panels if n_panels < 4 else min((n_panels + 1) // 2, MOST_COLUMNS)
    figure = _figure(columns, -(-n_panels // columns), to_file=path is not None)
    axes = figure.subplots(-(-n_panels // columns), columns, squeeze=False).ravel()
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
    untangle(figure)
    if path is not None:
        figure.set_layout_engine(None)  # it is laid out
        save_figure(figure, path)
    return figure


def agreement(solution: Any) -> Picture:
    """Return what is predicted against what is true."""
    return scores(solution) if has_classes(solution) else predicted(solution)


def function_pictures(solution: Any, marked: Marked, *, resolution: int = 61) -> list[Picture]:
    """Return what can be seen of the function: that depends on the inputs, outputs and classes.

    Parameters
    ----------
    solution : Solution
        In the user's units.
    marked : Marked
        Its neurons.
    resolution : int
        Points of a grid in each direction.
    """
    data, classes = solution.data, has_classes(solution)
    if data.n_features == 1:
        return [probabilities(solution, marked) if classes else curve_of(solution, marked)]
    if data.n_features == 2 and classes:
        return [regions(solution, marked, resolution)]
    if data.n_features == 2:
        found = []
        for j in range(min(data.n_outputs, MOST_OUTPUTS)):
            first, second, name = (label_of(n) for n in (*data.feature_names, data.target_names[j]))
            shown: dict[str, Any] = {"output": j, "resolution": resolution, "names": (first, second, name)}
            found.append(surface(solution.network, data.X, data.Y, marked, **shown))
        if data.n_outputs > MOST_OUTPUTS:
            found[-1].title += f"; {not_drawn(data.n_outputs - MOST_OUTPUTS, 'output')}"
        return found
    outputs = drawn_outputs(solution)[:MOST_OUTPUTS] if data.n_features else []
    slices = outputs[:1] if classes else outputs
    return [
        *(dependence(solution, j) for j in outputs), *(slice_by_two(solution, j, resolution) for j in slices)
    ]  # fmt: skip


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
    check_figure_path(path)
    suffix = Path(path).suffix.lower().lstrip(".")
    engine = figure.get_layout_engine()
    if engine is not None:  # with an engine savefig lays out, and draws, twice
        engine.execute(figure)
        figure.set_layout_engine(None)
    write_atomically(path, lambda stream: figure.savefig(stream, format=suffix, dpi=DPI))
    if engine is not None:
        figure.set_layout_engine(engine)
