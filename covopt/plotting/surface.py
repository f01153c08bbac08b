"""Pictures of a network as a function of two inputs: filled contours, the lines of its kinks, the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.drawing import draw
from covopt.plotting.pictures import (
    Kinks,
    Marked,
    Picture,
    Samples,
    Surface,
    count,
    limits,
    marked_of,
    predict_columns,
    round_step,
    short,
    table_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_KINKS = 16  # more are a hairball


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


def plane_of(X: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the axes of a grid over two inputs, and its points, the first input fastest."""
    first, second = (np.linspace(*limits(column), resolution) for column in X.T)
    return first, second, np.column_stack([part.ravel() for part in np.meshgrid(first, second)])


def kinks_in(X: np.ndarray, marked: Marked, bias: float) -> tuple[Kinks, str]:
    """Return the kinks of two inputs in a picture of the data, the costliest of many, and a note on the others."""
    box = (*limits(X[:, 0]), *limits(X[:, 1]))
    slope = marked.hidden[:, :2]
    offset = marked.hidden[:, 2] * bias if bias > 0 else np.zeros(len(slope))
    segments, kept = clip_lines(slope, offset, box)
    within, most = len(kept), MOST_KINKS if len(X) <= 100 else MOST_KINKS // 2
    if within > most:  # many lines would hide the surface
        costliest = np.sort(np.argsort(-marked.share[kept], kind="stable")[:most])
        segments, kept = segments[costliest], kept[costliest]
    notes = [f"the kinks of the {len(kept)} costliest drawn"] if len(kept) < within else []
    notes += [f"{len(slope) - within} without a kink here"] if within < len(slope) else []
    note = f" ({', '.join(notes)})" if notes else ""
    found = Kinks(segments, slope[kept], marked.share[kept], marked.positive[kept], kept)
    return found, f"{count(len(slope), 'neuron')}{note}"


def surface(
    network: Any,
    X: np.ndarray,
    Y: np.ndarray,
    marked: Marked,
    *,
    output: int = 0,
    resolution: int = 61,
    names: tuple[str, str, str] = ("x₀", "x₁", "f(x)"),
) -> Picture:
    """Return one output over the plane, the kinks and the data.

    Parameters
    ----------
    network : ReLUNetwork
    X, Y : (N, 2) and (N, k) arrays
    marked : Marked
    output : int
    resolution : int
        Points of the grid in each direction.
    names : (str, str, str)
        Of the inputs and the output.
    """
    first, second, points = plane_of(X, resolution)
    values = predict_columns(network, points)[:, output].reshape(resolution, resolution)
    said = predict_columns(network, X)[:, output]
    # the corners extrapolate far beyond the data and would use up the whole colour scale
    scale = limits(Y[:, output], 0.1)

    def says(i: int) -> list[str]:
        at = f"{names[0]} {short(X[i, 0])}, {names[1]} {short(X[i, 1])}"
        return [f"point {i + 1}", at, f"{names[2]} {short(Y[i, output])}, f {short(said[i])}"]

    kinks, title = kinks_in(X, marked, network.bias)
    layers = [
        Surface(first, second, values, scale, names[2], round_step(scale[1] - scale[0])),
        kinks,
        Samples(X[:, 0], X[:, 1], Y[:, output], scale, says),
    ]
    return Picture(layers, names[0], names[1], title, limits(X[:, 0]), limits(X[:, 1]))


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
    X, y = table_of(X, y, 2)
    names = ("x₀", "x₁", name)
    picture = surface(network, X, y, marked_of(network), output=output, resolution=resolution, names=names)
    return draw(picture, ax)
