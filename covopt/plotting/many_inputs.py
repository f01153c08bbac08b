"""Pictures of networks with three inputs and more: predicted against actual, one input at a time, a slice by two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.wording import counted
from covopt.plotting.classes import chances_of, classes_of, has_classes, is_sure, title_of
from covopt.plotting.drawing import draw
from covopt.plotting.function import plane_of, surface_of
from covopt.plotting.pictures import (
    GREY,
    SYMBOLS,
    Line,
    Picture,
    Points,
    Regions,
    label_of,
    limits,
    number_of,
    predict_columns,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FEATURES = 4
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
    order = np.argsort(moved, kind="stable")[:MOST_FEATURES]
    name, layers = _name_of(solution, output), []
    for rank, j in enumerate(order):
        grid, values = curves[j]
        label = f"{label_of(data.feature_names[j], 28)} ({number_of(grid[0])} to {number_of(grid[-1])})"
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
        f"{label_of(data.feature_names[others[0]], 28)} = {number_of(float(np.median(data.X[:, others[0]])))}"
        if len(others) == 1
        else "the other inputs at their medians"
    )
    x, y = (label_of(data.feature_names[k]) for k in (i, j))
    return Picture(
        [layer], x, y, f"{title}: {at}" if others else title, (first[0], first[-1]), (second[0], second[-1]),
        columns=min(len(classes_of(solution)), 4) if classes else 0,
        caption="Over the two inputs that move it most; the others stay at their medians.",
    )  # fmt: skip


def plot_predicted(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw what the network says against the targets; on the diagonal it is right.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    return draw(predicted(solution), ax)


def plot_partial_dependence(solution: Any, ax: Axes | None = None, *, output: int | None = None) -> Axes:
    """Draw the mean output against one input at a time, for the inputs that move it most.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib Axes, optional
        A new figure by default.
    output : int, optional
        The output or class; by default the first, with two classes the second.

    Returns
    -------
    matplotlib.axes.Axes
    """
    return draw(dependence(solution, drawn_outputs(solution)[0] if output is None else output), ax)


def plot_slice(solution: Any, ax: Axes | None = None, *, output: int = 0, resolution: int = 120) -> Axes:
    """Draw the network over the two inputs that move it most, the others at their medians; of classes the regions.

    Parameters
    ----------
    solution : Solution
        With two inputs or more.
    ax : matplotlib Axes, optional
        A new figure by default.
    output : int
        The output; all classes are in one picture.
    resolution : int
        Points of the grid in each direction.

    Returns
    -------
    matplotlib.axes.Axes
    """
    return draw(slice_by_two(solution, output, resolution), ax)
