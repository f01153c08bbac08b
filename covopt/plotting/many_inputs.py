"""Pictures of networks with three inputs and more: predicted against actual, and one input at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.plotting.classes import PROBABILITIES, chances_of, classes_of
from covopt.plotting.function import INK, limits, new_axes, predict_columns

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
            label=name, zorder=2,
        )  # fmt: skip
    one = len(data.target_names) == 1
    ax.set(xlim=(low, high), ylim=(low, high))
    ax.set_xlabel(f"{data.target_names[0]} in the data" if one else "in the data")
    ax.set_ylabel(f"{data.target_names[0]} by the network" if one else "by the network")
    ax.set_title("predicted against actual (dashed: equal)", fontsize="medium")
    if not one:
        ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)
    return ax


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


def plot_partial_dependence(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the mean output against one input at a time, for the inputs that move it most.

    Parameters
    ----------
    solution : Solution
        With several outputs the first is drawn, with two classes the second.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = new_axes(ax)
    data, loss = solution.data, solution.loss
    classes = loss is not None and loss.is_classification
    output = 1 if classes and data.n_outputs == 1 else 0
    curves = [partial_dependence(solution, j)[1][:, output] for j in range(data.n_features)]
    order = np.argsort([-float(np.ptp(curve)) for curve in curves], kind="stable")[:MOST_FEATURES]
    for rank, j in enumerate(order):
        ends = f"{data.X[:, j].min():.3g} to {data.X[:, j].max():.3g}"
        ax.plot(
            np.linspace(0, 1, len(curves[j])), curves[j], STYLES[rank % 4], color=INK, lw=1.6 - 0.25 * rank,
            label=f"{data.feature_names[j]} ({ends})",
        )  # fmt: skip
    ax.set(xlim=(0, 1), xlabel="input, from its smallest to its largest value")
    if classes:
        name = classes_of(solution)[output]
        ax.set_ylabel(f"mean P({name})" if loss.name in PROBABILITIES else f"share predicted {name}")
    else:
        ax.set_ylabel(f"mean of {data.target_names[output]}")
    left = data.n_features - len(order)
    more = (
        f"\n{left} that move{'s' if left == 1 else ''} it less {'is' if left == 1 else 'are'} not drawn"
        if left
        else ""
    )
    ax.set_title(f"one input at a time, the others as in the data{more}", fontsize="medium")
    ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    return ax
