"""Pictures of a network as a function of one or two inputs; :mod:`covopt.plotting` makes them public."""

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
MOST_KINKS = 16  # more are a hairball
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


def limits(values: np.ndarray, margin: float = 0.08) -> tuple[float, float]:
    """Return the range of values with a margin."""
    low, high = float(values.min()), float(values.max())
    pad = margin * (high - low) or 0.5 * max(abs(low), 1.0)
    return low - pad, high + pad


def _split(hidden: np.ndarray, bias: float) -> tuple[np.ndarray, np.ndarray]:
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
    slope, offset = _split(np.asarray(network.folded().hidden_weights), network.bias)
    cost, positive = _costs_and_signs(network)
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
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

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
    low, high = limits(shown, 0.1)
    # Light to mid tones only, monotone in luminance: dark lines stay visible, also in greyscale.
    tones = LinearSegmentedColormap.from_list("tones", ["#f7f5ec", "#c3dcd3", "#7fb3c4", "#4c7fae"])
    norm = Normalize(low, high)
    levels = MaxNLocator(14, steps=[1, 2, 2.5, 5, 10]).tick_values(
        low, high
    )  # round numbers on the colour bar
    filled = ax.contourf(first, second, values, levels=levels, cmap=tones, norm=norm, extend="both")
    scale = f" / 2^{power}" if power else ""
    ticks = np.asarray(MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(levels[0], levels[-1]))
    ticks = ticks[(ticks >= levels[0]) & (ticks <= levels[-1])]
    ax.figure.colorbar(filled, ax=ax, label=f"{name}{scale}", pad=0.02, ticks=ticks)

    slope, offset = _split(np.asarray(network.folded().hidden_weights), network.bias)
    cost, positive = _costs_and_signs(network)
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
