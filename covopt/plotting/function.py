"""Pictures of a network as a function of one or two inputs; :mod:`covopt.plotting` makes them public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1a1a1a"
POSITIVE = "#0b4f8a"
NEGATIVE = "#b3401e"
MOST_KINKS = 60
_OUTPUT_STYLES = ("-", "--", ":", "-.")


def new_axes(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.0, 4.5), layout="constrained")[1]


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


def _predict(network: Any, X: np.ndarray) -> np.ndarray:
    """Return outputs (N, k), in pieces so that many neurons on a fine grid stay within memory."""
    step = max(1, 4_000_000 // max(1, len(network.hidden_weights)))
    parts = [np.asarray(network.predict(X[i : i + step])) for i in range(0, len(X), step)]
    return np.concatenate([p.reshape(len(p), -1) for p in parts])


def _costs_and_signs(network: Any) -> tuple[np.ndarray, np.ndarray]:
    """Relative cost of each neuron in [0, 1] and whether its (largest) output weight is positive."""
    hidden, outputs = np.asarray(network.hidden_weights), np.asarray(network.output_weights)
    if len(hidden) == 0:
        return np.zeros(0), np.zeros(0, dtype=bool)
    cost = np.linalg.norm(hidden, axis=1) * np.linalg.norm(outputs, axis=1)
    largest = np.abs(outputs).argmax(axis=1)
    positive = outputs[np.arange(len(outputs)), largest] > 0
    return cost / (cost.max() or 1.0), positive


def _limits(values: np.ndarray, margin: float = 0.08) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    pad = margin * (high - low) or 0.5 * max(abs(low), 1.0)
    return low - pad, high + pad


def _split(hidden: np.ndarray, bias: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (a, b) with w·(x, β) = a·x + b."""
    if bias > 0:
        return hidden[:, :-1], hidden[:, -1] * bias
    return hidden, np.zeros(len(hidden))


def plot_function_1d(network: Any, X: np.ndarray, y: np.ndarray, ax: Axes | None = None) -> Axes:
    """Draw f on the line through the data, exactly: it is straight between kinks.

    Parameters
    ----------
    network : ReLUNetwork
        With one input.
    X : (N, 1) array
    y : (N,) or (N, k) array
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        Where X does not have one column.
    """
    X, y = _table(X, y, 1)
    ax = new_axes(ax)
    low, high = _limits(X[:, 0])
    slope, offset = _split(np.asarray(network.hidden_weights), network.bias)
    cost, positive = _costs_and_signs(network)
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = -offset / slope[:, 0] if len(slope) else np.zeros(0)
    inside = np.isfinite(kinks) & (kinks > low) & (kinks < high)
    grid = np.unique(np.concatenate([[low, high], X[:, 0], kinks[inside]]))
    values = _predict(network, grid[:, None])
    for j in range(values.shape[1]):
        label = "f" if values.shape[1] == 1 else f"f, output {j}"
        ax.plot(grid, values[:, j], _OUTPUT_STYLES[j % 4], color=INK, lw=1.4, label=label, zorder=2)
        ax.plot(
            X[:, 0], y[:, j], "o", ms=5, mfc="white", mec=INK, mew=1.2, zorder=4, label=None if j else "data"
        )
    heights = _predict(network, kinks[:, None])[:, 0] if inside.any() else np.zeros(0)
    for sign, marker, color, filled in ((True, "^", POSITIVE, True), (False, "v", NEGATIVE, False)):
        chosen = inside & (positive == sign)
        if chosen.any():
            ax.scatter(
                kinks[chosen],
                heights[chosen],
                s=15 + 60 * cost[chosen],
                marker=marker,
                facecolors=color if filled else "none",
                edgecolors=color,
                zorder=3,
                label=f"kink, {'positive' if sign else 'negative'} weight",
            )
    ax.set_xlim(low, high)
    ax.set_xlabel("x")
    ax.set_ylabel("f(x)")
    outside = len(kinks) - int(inside.sum())
    note = f" ({outside} outside the picture)" if outside else ""
    ax.set_title(f"{count(len(kinks), 'neuron')}{note}", fontsize="medium")
    legend_below(ax)
    return ax


def count(n: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _table(X: Any, y: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or X.shape[1] != d:
        raise InputError(
            f"this picture needs X with {d} column{'s' if d > 1 else ''}; received shape {X.shape}."
        )
    return X, y.reshape(len(X), -1)


def _clip_lines(
    a: np.ndarray, b: np.ndarray, box: tuple[float, float, float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the segments of the lines a·x + b = 0 within the box, and the indices of their lines."""
    low, high = np.array([box[0], box[2]]), np.array([box[1], box[3]])
    middle = (low + high) / 2
    norm = np.linalg.norm(a, axis=1)
    usable = norm > 0
    unit = a / np.where(usable, norm, 1.0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        foot = middle - ((a @ middle + b) / np.where(usable, norm, 1.0))[:, None] * unit
        along = np.column_stack([-unit[:, 1], unit[:, 0]])
        one, two = (low - foot) / along, (high - foot) / along
    outside = (foot < low) | (foot > high)
    parallel = along == 0
    start = np.where(parallel, np.where(outside, np.inf, -np.inf), np.minimum(one, two)).max(axis=1)
    stop = np.where(parallel, np.where(outside, -np.inf, np.inf), np.maximum(one, two)).min(axis=1)
    kept = np.flatnonzero(usable & (start < stop))
    ends = np.stack([start[kept], stop[kept]], axis=1)
    return foot[kept][:, None, :] + ends[:, :, None] * along[kept][:, None, :], kept


def plot_surface_2d(
    network: Any,
    X: np.ndarray,
    y: np.ndarray,
    ax: Axes | None = None,
    *,
    output: int = 0,
    resolution: int = 160,
) -> Axes:
    """Draw filled contours of f over the plane, the data, and every neuron's kink line {x : w·(x, β) = 0}.

    A short tick in the middle of each kink line points to the side on which the neuron is active.

    Parameters
    ----------
    network : ReLUNetwork
        With two inputs.
    X : (N, 2) array
    y : (N,) or (N, k) array
    ax : matplotlib Axes, optional
        A new figure by default.
    output : int
        Which output to draw.
    resolution : int
        Points of the grid in each direction.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        Where X does not have two columns.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.lines import Line2D

    X, y = _table(X, y, 2)
    ax = new_axes(ax)
    (left, right), (bottom, top) = _limits(X[:, 0]), _limits(X[:, 1])
    first, second = np.meshgrid(np.linspace(left, right, resolution), np.linspace(bottom, top, resolution))
    values = _predict(network, np.column_stack([first.ravel(), second.ravel()]))[:, output].reshape(
        first.shape
    )
    # The corners extrapolate far beyond the data and would use up the whole colour scale.
    low, high = _limits(y[:, output], 0.1)
    # Light to mid tones only, monotone in luminance: dark lines stay visible, also in greyscale.
    tones = LinearSegmentedColormap.from_list("tones", ["#f7f5ec", "#c3dcd3", "#7fb3c4", "#4c7fae"])
    norm = Normalize(low, high)
    filled = ax.contourf(
        first, second, values, levels=np.linspace(low, high, 15), cmap=tones, norm=norm, extend="both"
    )
    ax.figure.colorbar(filled, ax=ax, label="f(x)", pad=0.02)

    slope, offset = _split(np.asarray(network.hidden_weights), network.bias)
    cost, positive = _costs_and_signs(network)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="x₀", ylabel="x₁")
    segments, kept = _clip_lines(slope, offset, (left, right, bottom, top))
    within = len(kept)
    if within > MOST_KINKS:  # hundreds of lines would hide the surface
        costliest = np.sort(np.argsort(-cost[kept], kind="stable")[:MOST_KINKS])
        segments, kept = segments[costliest], kept[costliest]
    widest = float(np.clip(24 / np.sqrt(max(len(kept), 1)) / 2, 1.0, 2.4))
    widths = widest * (0.15 + 0.85 * np.sqrt(cost[kept]))
    arrows = (0.1 + 0.025 * widest**2) * (0.4 + 0.6 * np.sqrt(cost[kept]))
    for sign, style, color in ((True, "-", POSITIVE), (False, (0, (4, 2.5)), NEGATIVE)):
        of_sign = positive[kept] == sign
        ax.add_collection(
            LineCollection(
                list(segments[of_sign]),
                linewidths=widths[of_sign],
                linestyles=[style],
                colors=color,
                alpha=0.75,
                zorder=2,
            )
        )
        _mark_active_side(ax, segments[of_sign], slope[kept][of_sign], arrows[of_sign], color)
    size = float(np.clip(400 / len(X), 8, 30))
    ax.scatter(
        X[:, 0],
        X[:, 1],
        c=y[:, output],
        cmap=tones,
        norm=norm,
        s=size,
        edgecolors=INK,
        linewidths=0.8,
        zorder=4,
    )
    notes = [f"the kinks of the {len(kept)} costliest drawn"] if len(kept) < within else []
    outside = len(slope) - within
    notes += [f"{outside} without a kink here"] if outside else []
    note = f" ({', '.join(notes)})" if notes else ""
    ax.set_title(f"{count(len(slope), 'neuron')}{note}", fontsize="medium")
    legend_below(
        ax,
        [
            Line2D([], [], color=POSITIVE, ls="-", label="kink, positive weight"),
            Line2D([], [], color=NEGATIVE, ls="--", label="kink, negative weight"),
            Line2D([], [], color=INK, ls="", marker="o", mfc="white", ms=5, label="data (same scale)"),
        ],
    )
    return ax


def _mark_active_side(
    ax: Axes, segments: np.ndarray, slopes: np.ndarray, inches: np.ndarray, color: str
) -> None:
    """Arrows of a fixed size on the page, perpendicular to the lines whatever the units of the axes."""
    costliest = np.argsort(-inches, kind="stable")[:40]  # more would hide the surface
    segments, slopes, inches = segments[costliest], slopes[costliest], inches[costliest]
    if len(segments) == 0:
        return
    middle = segments.mean(axis=1)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    page = slopes * [(right - left) / ax.bbox.width, (top - bottom) / ax.bbox.height]
    page = page / np.linalg.norm(page, axis=1, keepdims=True) * inches[:, None]
    ax.quiver(
        middle[:, 0],
        middle[:, 1],
        page[:, 0],
        page[:, 1],
        angles="uv",
        units="inches",
        scale_units="inches",
        scale=1.0,
        width=0.012,
        headwidth=5,
        headlength=5,
        headaxislength=4.5,
        minlength=0,
        color=color,
        zorder=3,
    )
