"""Pictures of a network as a function of one or two inputs, with its kinks and the data."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import counted, required
from covopt.errors import InputError
from covopt.plotting.pictures import (
    MOST_OUTPUTS,
    NEGATIVE,
    POSITIVE,
    SYMBOLS,
    Line,
    Marked,
    Picture,
    Points,
    Surface,
    by_sign,
    draw,
    label_of,
    limits,
    marked_of,
    predict_columns,
    short,
)  # fmt: skip
from covopt.plotting.predictions import shown_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_KINKS = 16  # more lines would be unreadable
BETWEEN_KINKS = (
    301  # points of a curve besides its kinks and the data; probabilities and duals are not linear
)
KINKS_1D = (
    "The curve is exact: a network is straight between its kinks. Triangles are kinks, upwards and filled for a "
    "positive output weight, downwards and white for a negative one; larger ones cost more."
)
KINKS_2D = (
    "Points are the data. Lines are kinks, solid for a positive output weight, dashed for a negative one; the short "
    f"spur points to the side on which the neuron is active. At most the {MOST_KINKS} costliest are drawn. Where the "
    "probability of a class is one half a thick line runs."
)


def kinks_of(hidden: np.ndarray, bias: float) -> np.ndarray:
    """Return the kinks of neurons of one input; infinite or NaN for a neuron without one.

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


def curve(solution: Any, data: Sequence[Points], marked: Marked) -> Picture:
    """Return the graph of a function of one input over the data; exact if it is linear between kinks.

    Parameters
    ----------
    solution : Solution
        With one input.
    data : sequence of Points
        The marks of the data.
    marked : Marked
    """
    (f, names), X, bias = shown_of(solution), solution.data.X, solution.network.bias
    name = label_of(solution.data.feature_names[0])
    low, high = limits(X[:, 0])
    kinks = kinks_of(marked.hidden, bias)
    inside = np.flatnonzero((kinks > low) & (kinks < high))
    grid = np.unique(np.concatenate([np.linspace(low, high, BETWEEN_KINKS), X[:, 0], kinks[inside]]))
    values = f(grid[:, None])
    one = values.shape[1] == 1
    layers: list[Any] = [
        Line(grid, column, "f" if one else target, dash=j, reads=f"{name} %{{x:.4g}}<br>{target} %{{y:.5g}}")
        for j, (target, column) in enumerate(zip(names[:MOST_OUTPUTS], values.T, strict=False))
    ]
    heights = f(kinks[inside][:, None])[:, 0] if len(inside) else np.zeros(0)
    size = np.sqrt(30 + 60 * marked.share[inside])
    outside = len(kinks) - len(inside)
    note = f" ({outside} outside the picture)" if outside else ""
    return Picture(
        [*layers, *data, *by_sign(kinks[inside], heights, marked, inside, "kink", size)], name,
        names[0] if one else "outputs", f"the function: {counted(len(kinks), 'neuron')}{note}", (low, high),
        caption=KINKS_1D,
    )  # fmt: skip


def targets(solution: Any) -> list[Points]:
    """Return the marks of the data for a curve.

    Parameters
    ----------
    solution : Solution
        A regression with one input.
    """
    X, Y, (f, names) = solution.data.X, solution.data.Y, shown_of(solution)
    name, said, found = label_of(solution.data.feature_names[0]), f(X), []
    for j, target in enumerate(names[:MOST_OUTPUTS]):

        def says(i: int, j: int = j, target: str = target) -> list[str]:
            data = f"{target} {short(Y[i, j])}"
            return [f"point {i + 1}", f"{name} {short(X[i, 0])}", data, f"f {short(said[i, j])}"]

        found.append(Points(X[:, 0], Y[:, j], "data" if len(names) == 1 else "", SYMBOLS[j], says=says))
    return found


def plot_function_1d(
    network: Any, X: np.ndarray, y: np.ndarray, ax: Axes | None = None, *, names: Sequence[str] = ()
) -> Axes:
    """Draw the graph of f over the data, exactly: it is linear between kinks.

    Parameters
    ----------
    network : ReLUNetwork
        With one input.
    X : (N, 1) array
    y : (N,) or (N, k) array
    ax : matplotlib Axes, optional
        A new figure by default.
    names : sequence of str
        Names of the outputs.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If X does not have one column.
    """
    seen = _as_solution(network, X, y, ["x"], names)
    return draw(curve(seen, targets(seen), marked_of(network)), ax)


def _as_solution(network: Any, X: Any, y: Any, inputs: list[str], names: Sequence[str]) -> Any:
    """Return a network and a table in the form of a solution; refuse X with a wrong number of columns."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or X.shape[1] != len(inputs):
        raise InputError(
            f"this picture needs X with {counted(len(inputs), 'column')}; received shape {X.shape}."
        )
    Y = y.reshape(len(X), -1)
    names = names or (["f(x)"] if Y.shape[1] == 1 else [f"f, output {j}" for j in range(Y.shape[1])])
    data = SimpleNamespace(X=X, Y=Y, feature_names=inputs, target_names=names)
    return SimpleNamespace(network=network, data=data, loss=None)


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


def kinks_in(X: np.ndarray, marked: Marked, bias: float) -> tuple[list[Line], str]:
    """Return the kinks for two inputs in the box of the data, at most the costliest, and a note on the others.

    Each is a line with a spur to the side on which the neuron is active; its width grows with the cost.
    """
    box = (*limits(X[:, 0]), *limits(X[:, 1]))
    slope = marked.hidden[:, :2]
    offset = marked.hidden[:, 2] * bias if bias > 0 else np.zeros(len(slope))
    segments, kept = clip_lines(slope, offset, box)
    within, most = len(kept), MOST_KINKS if len(X) <= 100 else MOST_KINKS // 2
    if within > most:  # many lines would hide the surface
        costliest = np.sort(np.argsort(-marked.share[kept], kind="stable")[:most])
        segments, kept = segments[costliest], kept[costliest]
    size, found, named = np.array([box[1] - box[0], box[3] - box[2]]), [], set()
    for rank, (segment, j) in enumerate(zip(segments, kept, strict=True)):
        up = bool(marked.positive[j])
        foot = segment[0] + (0.25 + 0.5 * (rank * 0.618034 % 1.0)) * (segment[1] - segment[0])
        normal = slope[j] * size  # perpendicular on the page if both axes have the same length
        spur = foot + 0.035 * size * normal / np.linalg.norm(normal)
        x, y = np.array([segment[0], foot, spur, foot, segment[1]]).T
        name = "" if up in named else f"kink, {'positive' if up else 'negative'} weight"
        width = 0.8 + 1.4 * float(np.sqrt(marked.share[j]))
        found.append(Line(x, y, name, POSITIVE if up else NEGATIVE, int(not up), width, which=int(j)))
        named.add(up)
    notes = [f"the kinks of the {len(kept)} costliest drawn"] if len(kept) < within else []
    notes += [f"{len(slope) - within} without a kink here"] if within < len(slope) else []
    note = f" ({', '.join(notes)})" if notes else ""
    return found, f"the function: {counted(len(slope), 'neuron')}{note}"


def surface(solution: Any, below: Surface, data: Sequence[Points], marked: Marked) -> Picture:
    """Return values over the plane, the kinks and the data.

    Parameters
    ----------
    solution : Solution
        With two inputs.
    below : Surface
    data : sequence of Points
        The marks of the data.
    marked : Marked
    """
    X, (x, y) = solution.data.X, map(label_of, solution.data.feature_names)
    kinks, title = kinks_in(X, marked, solution.network.bias)
    across, up = map(limits, X.T)
    return Picture([below, *kinks, *data], x, y, title, across, up, caption=KINKS_2D)


def heights(solution: Any, output: int, resolution: int) -> tuple[Surface, Points]:
    """Return one output over the plane, and the data on the same colour scale.

    The scale is that of the targets, since the function extrapolates far beyond them in the corners. Values whose
    squares would overflow or underflow are divided by a power of two, which the name includes.

    Parameters
    ----------
    solution : Solution
        A regression with two inputs.
    output : int
    resolution : int
        Points of the grid in each direction.
    """
    X, Y, network = solution.data.X, solution.data.Y, solution.network
    names = [label_of(name) for name in (*solution.data.feature_names, solution.data.target_names[output])]
    first, second, points = plane_of(X, resolution)
    values, said = (predict_columns(network, at)[:, output] for at in (points, X))
    peak = float(np.abs(Y[:, output]).max())
    power = int(np.frexp(peak)[1]) if peak > 1e150 or 0 < peak < 1e-150 else 0
    targets = np.ldexp(Y[:, output], -power)
    below = Surface(
        first, second, np.ldexp(values, -power).reshape(len(second), len(first)), limits(targets, 0.1),
        names[2] + (f" / 2^{power}" if power else ""),
    )  # fmt: skip

    def says(i: int) -> list[str]:
        at = f"{names[0]} {short(X[i, 0])}, {names[1]} {short(X[i, 1])}"
        return [f"point {i + 1}", at, f"{names[2]} {short(Y[i, output])}", f"f {short(said[i])}"]

    return below, Points(
        X[:, 0], X[:, 1], "data (same scale)", size=float(np.clip(20 / np.sqrt(len(X)), 3, 5.5)), says=says,
        values=targets, scale=below.scale,
    )  # fmt: skip


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
        Name of the output.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If X does not have two columns.
    """
    required("matplotlib", "drawing", "plot")
    seen = _as_solution(network, X, y, ["x₀", "x₁"], [name] * (output + 1))
    below, data = heights(seen, output, resolution)
    return draw(surface(seen, below, [data], marked_of(network)), ax)
