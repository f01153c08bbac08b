"""A solution in one picture, pictures of many inputs (predicted, one at a time, a slice by two), figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.checks.wording import counted
from covopt.errors import InputError
from covopt.files import write_atomically
from covopt.plotting.classes import (
    NO_MARKS,
    chances_of,
    classes_of,
    has_classes,
    is_sure,
    probabilities,
    regions,
    scores,
    title_of,
)
from covopt.plotting.drawing import DPI, draw
from covopt.plotting.dual import plot_dual
from covopt.plotting.function import curve_of, plane_of, surface, surface_of
from covopt.plotting.history import cost_of, plot_history
from covopt.plotting.pictures import (
    GREY,
    MOST_OUTPUTS,
    SYMBOLS,
    Line,
    Marked,
    Picture,
    Points,
    Regions,
    label_of,
    limits,
    marked_of,
    predict_columns,
    short,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 4


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
    pictures = function_pictures(seen, resolution=160)
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
    if path is not None:
        save_figure(figure, path)
    return figure


def agreement(solution: Any) -> Picture:
    """Return what is predicted against what is true."""
    return scores(solution) if has_classes(solution) else predicted(solution)


def function_pictures(solution: Any, marked: Marked | None = None, *, resolution: int = 61) -> list[Picture]:
    """Return what can be seen of the function: that depends on the inputs, outputs and classes.

    Parameters
    ----------
    solution : Solution
        In the user's units.
    marked : Marked, optional
        Its neurons; by default those of the network, and none where there are classes.
    resolution : int
        Points of a grid in each direction.
    """
    data, classes = solution.data, has_classes(solution)
    if marked is None:
        marked = NO_MARKS if classes else marked_of(solution.network)
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


# ---------------------------------------------------------------------- three inputs and more
MOST_ROWS = 200  # over which one input at a time is averaged


def predicted(solution: Any) -> Picture:
    """Return what the network says against the targets; on the diagonal it is right.

    Parameters
    ----------
    solution : Solution
    """
    data = solution.data
    said = predict_columns(solution.network, data.X)
    names = [label_of(name) for name in data.target_names]
    low, high = limits(np.concatenate([said.ravel(), data.Y.ravel()]))
    layers: list[Any] = [Line(np.array([low, high]), np.array([low, high]), color=GREY, dash=1, width=1.0)]
    for j, name in enumerate(names[: len(SYMBOLS)]):

        def says(i: int, j: int = j, name: str = name) -> list[str]:
            return [f"point {i + 1}", f"{name} {short(data.Y[i, j])}", f"f {short(said[i, j])}"]

        face = "white" if j else "#d7d7d7"
        layers.append(Points(data.Y[:, j], said[:, j], name, SYMBOLS[j], face=face, says=says))
    one = f"{names[0]} " if len(names) == 1 else ""
    left = len(names) - len(SYMBOLS)
    more = f"\n{not_drawn(left, 'output')}" if left > 0 else ""
    return Picture(
        layers, f"{one}in the data", f"{one}by the network", f"predicted against actual (dashed: equal){more}",
        (low, high), (low, high), columns=0 if one else 3, caption="On the dashed line the network is right.",
    )  # fmt: skip


def not_drawn(left: int, noun: str) -> str:
    """Say that so many are not drawn."""
    return f"{counted(left, noun)} {'is' if left == 1 else 'are'} not drawn"


def drawn_outputs(solution: Any) -> list[int]:
    """Return the outputs to look at: all, or of two classes the second.

    Parameters
    ----------
    solution : Solution
    """
    outputs = list(range(solution.data.n_outputs))
    return [1] if has_classes(solution) and len(outputs) == 1 else outputs


def values_of(solution: Any, X: np.ndarray) -> np.ndarray:
    """Return the outputs at some points, for classes the probabilities."""
    return chances_of(solution, X) if has_classes(solution) else predict_columns(solution.network, X)


def partial_dependence(solution: Any, feature: int, *, resolution: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """Return values of one input and the mean output of the network with that input set to each of them.

    Parameters
    ----------
    solution : Solution
    feature : int
    resolution : int

    Returns
    -------
    (ndarray of shape (resolution,), ndarray of shape (resolution, k))
        For classes the mean probabilities.
    """
    X = solution.data.X
    rows = X[np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).astype(int)]
    grid = np.linspace(X[:, feature].min(), X[:, feature].max(), resolution)
    table = np.repeat(rows[None], resolution, axis=0)
    table[:, :, feature] = grid[:, None]
    values = values_of(solution, table.reshape(-1, X.shape[1]))
    return grid, values.reshape(resolution, len(rows), -1).mean(axis=1)


def _name_of(solution: Any, output: int) -> str:
    if has_classes(solution):
        name = classes_of(solution)[output]
        return f"mean P({name})" if is_sure(solution) else f"share predicted {name}"
    return f"mean of {label_of(solution.data.target_names[output])}"


def dependence(solution: Any, output: int) -> Picture:
    """Return the mean output against one input at a time, for the inputs that move it most.

    Parameters
    ----------
    solution : Solution
    output : int
    """
    data = solution.data
    curves = [partial_dependence(solution, j) for j in range(data.n_features)]
    moved = [-float(np.ptp(values[:, output])) for _, values in curves]
    order = np.argsort(moved, kind="stable")[:MOST_OUTPUTS]
    name, layers = _name_of(solution, output), []
    for rank, j in enumerate(order):
        grid, values = curves[j]
        label = f"{label_of(data.feature_names[j], 28)} ({short(grid[0], 3)} to {short(grid[-1], 3)})"
        reads = f"{label}<br>{name} %{{y:.4g}}"
        share = np.linspace(0, 1, len(grid))
        layers.append(Line(share, values[:, output], label, dash=rank, width=1.6 - 0.25 * rank, reads=reads))
    left = data.n_features - len(order)
    verbs = ("moves", "is") if left == 1 else ("move", "are")
    more = f"\n{left} that {verbs[0]} it less {verbs[1]} not drawn" if left else ""
    title = f"one input at a time, the others as in the data{more}"
    said = "One input moves from its smallest to its largest value; the mean is over the data."
    return Picture(layers, "input, from its smallest to its largest value", name, title, (0, 1), caption=said)


def slice_by_two(solution: Any, output: int, resolution: int = 61) -> Picture:
    """Return the network over the two inputs that move it most, the others at their medians; of classes the regions.

    Parameters
    ----------
    solution : Solution
    output : int
    resolution : int
    """
    data, classes = solution.data, has_classes(solution)
    columns = slice(None) if classes else [output]
    curves = [partial_dependence(solution, j, resolution=41)[1][:, columns] for j in range(data.n_features)]
    moved = [float(np.ptp(curve, axis=0).sum()) for curve in curves]
    i, j = (int(k) for k in np.argsort([-m for m in moved], kind="stable")[:2])
    first, second, points = plane_of(data.X[:, [i, j]], resolution)
    table = np.repeat(np.median(data.X, axis=0)[None], len(points), axis=0)
    table[:, [i, j]] = points
    values = values_of(solution, table)
    if classes:
        title, names = f"{title_of(solution)} predicted", classes_of(solution)
        layer: Any = Regions(first, second, values, names, is_sure(solution), named=True)
    else:
        title, name = "a slice", label_of(data.target_names[output])
        layer = surface_of(first, second, values[:, output], data.Y[:, output], name)
    others = [k for k in range(data.n_features) if k not in (i, j)]
    at = (
        f"{label_of(data.feature_names[others[0]], 28)} = {short(float(np.median(data.X[:, others[0]])), 3)}"
        if len(others) == 1
        else "the other inputs at their medians"
    )
    x, y = (label_of(data.feature_names[k]) for k in (i, j))
    return Picture(
        [layer], x, y, f"{title}: {at}" if others else title, (first[0], first[-1]), (second[0], second[-1]),
        columns=min(len(classes_of(solution)), 4) if classes else 0,
        caption="Over the two inputs that move it most; the others stay at their medians.",
    )  # fmt: skip
