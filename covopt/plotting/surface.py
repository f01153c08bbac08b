"""Pictures of a network as a function of two inputs: filled contours, the lines of its kinks, the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.function import (
    INK,
    NEGATIVE,
    POSITIVE,
    costs_and_signs,
    count,
    legend_below,
    limits,
    new_axes,
    predict_columns,
    split,
    table_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

MOST_KINKS = 16  # more are a hairball
# Light to mid tones only, monotone in luminance: dark lines stay visible, also in greyscale.
TONES = ("#f7f5ec", "#c3dcd3", "#7fb3c4", "#4c7fae")


def clip_lines(
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


def fill(
    ax: Axes, first: np.ndarray, second: np.ndarray, values: np.ndarray, scale: tuple[float, float], name: str
) -> tuple[Colormap, Normalize]:
    """Draw filled contours at round numbers, with a colour bar.

    Parameters
    ----------
    ax : matplotlib Axes
    first, second, values : (m, n) arrays
        A grid, and the function on it.
    scale : (float, float)
        Of the colours; what is beyond has the colour of the end.
    name : str
        Of the function.

    Returns
    -------
    (matplotlib.colors.Colormap, matplotlib.colors.Normalize)
        For points of the same scale.
    """
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    tones, norm = LinearSegmentedColormap.from_list("tones", TONES), Normalize(*scale)
    levels = MaxNLocator(14, steps=[1, 2, 2.5, 5, 10]).tick_values(*scale)
    filled = ax.contourf(first, second, values, levels=levels, cmap=tones, norm=norm, extend="both")
    ticks = np.asarray(MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(levels[0], levels[-1]))
    ticks = ticks[(ticks >= levels[0]) & (ticks <= levels[-1])]
    ax.figure.colorbar(filled, ax=ax, label=name, pad=0.02, ticks=ticks)
    return tones, norm


def plot_surface_2d(
    network: Any,
    X: np.ndarray,
    y: np.ndarray,
    ax: Axes | None = None,
    *,
    output: int = 0,
    resolution: int = 160,
    name: str = "f(x)",
) -> Axes:
    """Draw filled contours of f over the plane, the data, and every neuron's kink line {x : w·(x, β) = 0}.

    A short arrow on each kink line points to the side on which the neuron is active.

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
    name : str
        Of the output.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        Where X does not have two columns.
    """
    required("matplotlib", "drawing", "plot")
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    X, y = table_of(X, y, 2)
    ax = new_axes(ax)
    (left, right), (bottom, top) = limits(X[:, 0]), limits(X[:, 1])
    first, second = np.meshgrid(np.linspace(left, right, resolution), np.linspace(bottom, top, resolution))
    values = predict_columns(network, np.column_stack([first.ravel(), second.ravel()]))[:, output].reshape(
        first.shape
    )
    peak = float(np.abs(y[:, output]).max(initial=0.0))
    power = int(np.frexp(peak)[1]) if peak > 1e150 or 0 < peak < 1e-150 else 0  # matplotlib squares
    values, shown = np.ldexp(values, -power), np.ldexp(y[:, output], -power)
    # The corners extrapolate far beyond the data and would use up the whole colour scale.
    scale = f" / 2^{power}" if power else ""
    tones, norm = fill(ax, first, second, values, limits(shown, 0.1), f"{name}{scale}")

    slope, offset = split(np.asarray(network.folded().hidden_weights), network.bias)
    cost, positive = costs_and_signs(network)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="x₀", ylabel="x₁")
    segments, kept = clip_lines(slope, offset, (left, right, bottom, top))
    within = len(kept)
    most = MOST_KINKS if len(X) <= 100 else MOST_KINKS // 2
    if within > most:  # many lines would hide the surface
        costliest = np.sort(np.argsort(-cost[kept], kind="stable")[:most])
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
        c=shown,
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
            *(
                [Line2D([], [], color=POSITIVE, ls="-", label="kink, positive weight")]
                if positive[kept].any()
                else []
            ),
            *(
                [Line2D([], [], color=NEGATIVE, ls="--", label="kink, negative weight")]
                if (~positive[kept]).any()
                else []
            ),
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
    share = 0.2 + 0.6 * ((np.arange(len(segments)) * 0.618034) % 1.0)  # at the middles they would pile up
    middle = segments[:, 0] + share[:, None] * (segments[:, 1] - segments[:, 0])
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
