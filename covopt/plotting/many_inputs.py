"""Pictures of networks with three inputs and more: predicted against actual, one input at a time, a slice by two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.plotting.classes import PROBABILITIES, chances_of, classes_of, fill_regions, title_of
from covopt.plotting.function import INK, count, legend_below, limits, new_axes, predict_columns
from covopt.plotting.surface import fill
from covopt.plotting.wording import label_of, number_of, range_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FEATURES = 4
MOST_ROWS = 200  # over which one input at a time is averaged
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "^", "s", "D", "v", "P")


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
    ax = new_axes(ax)
    data = solution.data
    said = predict_columns(solution.network, data.X)
    low, high = limits(np.concatenate([said.ravel(), data.Y.ravel()]))
    ax.plot([low, high], [low, high], "--", color="0.45", lw=1.0, zorder=1)
    for j, name in enumerate(data.target_names[: len(MARKERS)]):
        ax.plot(
            data.Y[:, j], said[:, j], MARKERS[j], ms=5, mfc="white" if j else "0.75", mec=INK, mew=0.9, ls="",
            label=label_of(name), zorder=2,
        )  # fmt: skip
    one = len(data.target_names) == 1
    name = f"{label_of(data.target_names[0])} " if one else ""
    ax.set(xlim=(low, high), ylim=(low, high), xlabel=f"{name}in the data", ylabel=f"{name}by the network")
    left = len(data.target_names) - len(MARKERS)
    more = f"\n{_not_drawn(left, 'output')}" if left > 0 else ""
    ax.set_title(f"predicted against actual (dashed: equal){more}", fontsize="medium")
    if not one:
        legend_below(ax, columns=3)
    return ax


def _not_drawn(left: int, noun: str) -> str:
    return f"{count(left, noun)} {'is' if left == 1 else 'are'} not drawn"


def drawn_outputs(solution: Any) -> list[int]:
    """Return the outputs to look at: all, or of two classes the second.

    Parameters
    ----------
    solution : Solution
    """
    if solution.loss is not None and solution.loss.is_classification:
        return [1] if solution.data.n_outputs == 1 else list(range(solution.data.n_outputs))
    return list(range(solution.data.n_outputs))


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
    flat = table.reshape(-1, X.shape[1])
    chosen = solution.loss is not None and solution.loss.is_classification
    values = chances_of(solution, flat) if chosen else predict_columns(solution.network, flat)
    return grid, values.reshape(resolution, len(rows), -1).mean(axis=1)


def _name_of(solution: Any, output: int) -> str:
    if solution.loss is not None and solution.loss.is_classification:
        name = label_of(classes_of(solution)[output])
        return f"mean P({name})" if solution.loss.name in PROBABILITIES else f"share predicted {name}"
    return f"mean of {label_of(solution.data.target_names[output])}"


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
    ax = new_axes(ax)
    data = solution.data
    output = drawn_outputs(solution)[0] if output is None else output
    curves = [partial_dependence(solution, j)[1][:, output] for j in range(data.n_features)]
    order = np.argsort([-float(np.ptp(curve)) for curve in curves], kind="stable")[:MOST_FEATURES]
    for rank, j in enumerate(order):
        ends = range_of(data.X[:, j].min(), data.X[:, j].max())
        ax.plot(
            np.linspace(0, 1, len(curves[j])), curves[j], STYLES[rank % 4], color=INK, lw=1.6 - 0.25 * rank,
            label=f"{label_of(data.feature_names[j], 28)} ({ends})",
        )  # fmt: skip
    ax.set(xlim=(0, 1), xlabel="input, from its smallest to its largest value")
    ax.set_ylabel(_name_of(solution, output))
    left = data.n_features - len(order)
    more = (
        f"\n{left} that move{'s' if left == 1 else ''} it less {'is' if left == 1 else 'are'} not drawn"
        if left
        else ""
    )
    ax.set_title(f"one input at a time, the others as in the data{more}", fontsize="medium")
    legend_below(ax)
    return ax


def plot_slice(solution: Any, ax: Axes | None = None, *, output: int = 0, resolution: int = 120) -> Axes:
    """Draw the network over the two inputs that move it most, the others at their medians; of classes the regions.

    Parameters
    ----------
    solution : Solution
        With two inputs or more.
    ax : matplotlib Axes, optional
        A new figure by default.
    output : int
        Of a regression.
    resolution : int
        Points of the grid in each direction.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = new_axes(ax)
    data, loss = solution.data, solution.loss
    classes = loss is not None and loss.is_classification
    columns = slice(None) if classes else [output]
    moved = [
        float(np.ptp(partial_dependence(solution, j)[1][:, columns], axis=0).sum())
        for j in range(data.n_features)
    ]
    i, j = (int(k) for k in np.argsort([-m for m in moved], kind="stable")[:2])
    ends = limits(data.X[:, i]), limits(data.X[:, j])
    first, second = np.meshgrid(*(np.linspace(*end, resolution) for end in ends))
    table = np.repeat(np.median(data.X, axis=0)[None], first.size, axis=0)
    table[:, i], table[:, j] = first.ravel(), second.ravel()
    if classes:
        fill_regions(solution, ax, first, second, chances_of(solution, table))
        title = f"{title_of(solution)} predicted"
    else:
        values = predict_columns(solution.network, table)[:, output].reshape(first.shape)
        fill(ax, first, second, values, limits(data.Y[:, output], 0.1), label_of(data.target_names[output]))
        title = "a slice"
    ax.set(xlim=ends[0], ylim=ends[1])
    ax.set(xlabel=label_of(data.feature_names[i]), ylabel=label_of(data.feature_names[j]))
    others = [k for k in range(data.n_features) if k not in (i, j)]
    at = (
        f"{label_of(data.feature_names[others[0]], 28)} = {number_of(float(np.median(data.X[:, others[0]])))}"
        if len(others) == 1
        else "the other inputs at their medians"
    )
    ax.set_title(f"{title}: {at}" if others else title, fontsize="medium")
    if classes:
        legend_below(ax, columns=min(len(classes_of(solution)), 4))
    return ax
