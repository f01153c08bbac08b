"""Pictures of a network as a function of one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.plotting.drawing import draw
from covopt.plotting.pictures import (
    MOST_OUTPUTS,
    SYMBOLS,
    Line,
    Marked,
    Picture,
    Points,
    by_sign,
    count,
    label_of,
    limits,
    marked_of,
    predict_columns,
    short,
    table_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def kinks_of(hidden: np.ndarray, bias: float) -> np.ndarray:
    """Return where the neurons of one input bend; infinite or NaN where they do not.

    Parameters
    ----------
    hidden : (m, 2) array, or (m, 1) without a bias
    bias : float

    Examples
    --------
    >>> kinks_of(np.array([[2.0, -1.0]]), 1.0)
    array([0.5])
    """
    offset = hidden[:, 1] * bias if bias > 0 else np.zeros(len(hidden))
    with np.errstate(divide="ignore", invalid="ignore"):
        return -offset / hidden[:, 0]


def curve(
    network: Any,
    X: np.ndarray,
    Y: np.ndarray,
    marked: Marked,
    *,
    names: Sequence[str] = (),
    name: str = "x",
    ylim: tuple[float, float] | None = None,
) -> Picture:
    """Return f on the line through the data, exactly: it is straight between kinks.

    Parameters
    ----------
    network : ReLUNetwork
    X : (N, 1) array
    Y : (N, k) array
    marked : Marked
    names : sequence of str
        Of the outputs.
    name : str
        Of the input.
    ylim : (float, float), optional
    """
    low, high = limits(X[:, 0])
    kinks = kinks_of(marked.hidden, network.bias)
    inside = np.flatnonzero((kinks > low) & (kinks < high))
    grid = np.unique(np.concatenate([[low, high], X[:, 0], kinks[inside]]))
    values, said = predict_columns(network, grid[:, None]), predict_columns(network, X)
    one = values.shape[1] == 1
    layers: list[Any] = []
    for j in range(min(values.shape[1], MOST_OUTPUTS)):
        target = names[j] if len(names) > j else ("f" if one else f"f, output {j}")
        reads = f"{name} %{{x:.4g}}<br>{'f' if one else f'f, {target}'} %{{y:.5g}}"
        layers.append(Line(grid, values[:, j], "f" if one else target, dash=j, reads=reads))

        def says(i: int, j: int = j, target: str = target) -> list[str]:
            data = f"{target} {short(Y[i, j])}"
            return [f"point {i + 1}", f"{name} {short(X[i, 0])}", data, f"f {short(said[i, j])}"]

        layers.append(Points(X[:, 0], Y[:, j], "data" if one else "", SYMBOLS[j], says=says))
    heights = predict_columns(network, kinks[inside][:, None])[:, 0] if len(inside) else np.zeros(0)
    size = np.sqrt(30 + 60 * marked.share[inside])
    layers += by_sign(kinks[inside], heights, marked, inside, "kink", size)
    outside = len(kinks) - len(inside)
    note = f" ({outside} outside the picture)" if outside else ""
    return Picture(
        layers, name, names[0] if len(names) == 1 else "outputs" if names else "f(x)",
        f"{count(len(kinks), 'neuron')}{note}", (low, high), ylim,
    )  # fmt: skip


def curve_of(solution: Any, marked: Marked, ylim: tuple[float, float] | None = None) -> Picture:
    """Return the curve of a solution with one input."""
    data = solution.data
    names = [label_of(n) for n in data.target_names]
    name = label_of(data.feature_names[0])
    return curve(solution.network, data.X, data.Y, marked, names=names, name=name, ylim=ylim)


def range_of_curves(solutions: Sequence[Any]) -> tuple[float, float]:
    """Return heights that fit every curve, so that a picture stands still while a slider moves."""
    data = solutions[0].data
    low, high = limits(data.X[:, 0])
    values = [data.Y.ravel()]
    for s in solutions:
        kinks = kinks_of(s.network.folded().hidden_weights, data.bias)
        places = np.concatenate([data.X[:, 0], [low, high], kinks[(kinks > low) & (kinks < high)]])
        values.append(predict_columns(s.network, places[:, None]).ravel())
    return limits(np.concatenate(values))


def plot_function_1d(
    network: Any, X: np.ndarray, y: np.ndarray, ax: Axes | None = None, *, names: Sequence[str] = ()
) -> Axes:
    """Draw f on the line through the data, exactly: it is straight between kinks.

    Parameters
    ----------
    network : ReLUNetwork
        With one input.
    X : (N, 1) array
    y : (N,) or (N, k) array
    ax : matplotlib Axes, optional
        A new figure by default.
    names : sequence of str
        Of the outputs.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        Where X does not have one column.
    """
    X, y = table_of(X, y, 1)
    return draw(curve(network, X, y, marked_of(network), names=names), ax)
