"""Pictures of a network as a function of one input, and what all pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1a1a1a"
POSITIVE = "#0b4f8a"
NEGATIVE = "#b3401e"
DPI = 150
_OUTPUT_STYLES = ("-", "--", ":", "-.")
_MARKERS = ("o", "^", "s", "D")


def new_axes(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    plt = required("matplotlib.pyplot", "drawing", "plot")
    return plt.subplots(figsize=(6.0, 4.5), dpi=DPI, layout="constrained")[1]


def legend_below(ax: Axes, handles: list[Any] | None = None, columns: int = 2) -> None:
    """Put the legend under the axes, where it hides nothing."""
    ax.legend(
        handles=handles if handles is not None else ax.get_legend_handles_labels()[0],
        fontsize="small",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=columns,
        frameon=False,
    )


def predict_columns(network: Any, X: np.ndarray) -> np.ndarray:
    """Return outputs (N, k)."""
    return np.asarray(network.predict(X)).reshape(len(X), -1)


def costs_and_signs(network: Any) -> tuple[np.ndarray, np.ndarray]:
    """Relative cost of each neuron in [0, 1] and whether its (largest) output weight is positive."""
    hidden, outputs = np.asarray(network.hidden_weights), np.asarray(network.output_weights)
    if len(hidden) == 0:
        return np.zeros(0), np.zeros(0, dtype=bool)
    cost = np.linalg.norm(hidden, axis=1) * np.linalg.norm(outputs, axis=1)
    largest = np.abs(outputs).argmax(axis=1)
    positive = outputs[np.arange(len(outputs)), largest] > 0
    return cost / (cost.max() or 1.0), positive


def limits(values: np.ndarray, margin: float = 0.08) -> tuple[float, float]:
    """Return the range of values with a margin."""
    low, high = float(values.min()), float(values.max())
    pad = margin * (high - low) or 0.5 * max(abs(low), 1.0)
    return low - pad, high + pad


def split(hidden: np.ndarray, bias: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (a, b) with w·(x, β) = a·x + b."""
    if bias > 0:
        return hidden[:, :-1], hidden[:, -1] * bias
    return hidden, np.zeros(len(hidden))


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
    ax = new_axes(ax)
    low, high = limits(X[:, 0])
    slope, offset = split(np.asarray(network.folded().hidden_weights), network.bias)
    cost, positive = costs_and_signs(network)
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = -offset / slope[:, 0] if len(slope) else np.zeros(0)
    inside = np.isfinite(kinks) & (kinks > low) & (kinks < high)
    grid = np.unique(np.concatenate([[low, high], X[:, 0], kinks[inside]]))
    values = predict_columns(network, grid[:, None])
    for j in range(values.shape[1]):
        label = (names[j] if len(names) > j else f"f, output {j}") if values.shape[1] > 1 else "f"
        ax.plot(grid, values[:, j], _OUTPUT_STYLES[j % 4], color=INK, lw=1.4, label=label, zorder=2)
        ax.plot(
            X[:, 0], y[:, j], _MARKERS[j % 4], ms=4.5, mfc="white", mec=INK, mew=1.0, zorder=3,
            label="data" if values.shape[1] == 1 else None,
        )  # fmt: skip
    heights = predict_columns(network, kinks[:, None])[:, 0] if inside.any() else np.zeros(0)
    for sign, marker, color, filled in ((True, "^", POSITIVE, True), (False, "v", NEGATIVE, False)):
        chosen = inside & (positive == sign)
        if chosen.any():
            ax.scatter(
                kinks[chosen],
                heights[chosen],
                s=30 + 60 * cost[chosen],
                marker=marker,
                facecolors=color if filled else "none",
                edgecolors=color,
                zorder=4,  # many kinks are at points of the data
                label=f"kink, {'positive' if sign else 'negative'} weight",
            )
    ax.set_xlim(low, high)
    ax.set_xlabel("x")
    ax.set_ylabel(names[0] if len(names) == 1 else "f(x)")
    outside = len(kinks) - int(inside.sum())
    note = f" ({outside} outside the picture)" if outside else ""
    ax.set_title(f"{count(len(kinks), 'neuron')}{note}", fontsize="medium")
    legend_below(ax)
    return ax


def untangle(figure: Any) -> None:
    """Take ticks away until no two of their labels overlap."""
    from matplotlib.ticker import MaxNLocator

    for n_ticks in (6, 5, 4, 3):
        figure.draw_without_rendering()
        tangled = [
            axis
            for ax in figure.axes
            for axis in (ax.xaxis, ax.yaxis)
            if axis.get_visible() and axis.get_scale() == "linear" and _labels_overlap(axis)
        ]
        if not tangled:
            return
        for axis in tangled:
            axis.set_major_locator(MaxNLocator(n_ticks))


def _labels_overlap(axis: Any) -> bool:
    low, high = sorted(axis.get_view_interval())
    ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_text()]
    boxes = [t.label1.get_window_extent() for t in ticks]
    return any(a.overlaps(b) for a, b in pairwise(boxes))


def count(n: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def table_of(X: Any, y: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs with d columns and targets (N, k), or refuse."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or X.shape[1] != d:
        raise InputError(
            f"this picture needs X with {d} column{'s' if d > 1 else ''}; received shape {X.shape}."
        )
    return X, y.reshape(len(X), -1)
