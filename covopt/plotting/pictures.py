"""Pictures made of layers (lines, points, surfaces), drawn by matplotlib; the HTML page draws the same layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from covopt.checks import one_line, required

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1a1a1a"
GREY = "#7a7a7a"
PALE = "#c9c9c9"
POSITIVE = "#0b4f8a"
NEGATIVE = "#b3401e"
# light to mid tones, monotone in luminance: dark marks stay visible, also in greyscale
TONES = ("#f7f5ec", "#c3dcd3", "#7fb3c4", "#4c7fae")
# light, with distinct luminance: regions can be told apart also in greyscale
CLASS_TONES = ("#f4efe0", "#b9d3dd", "#7d9cb8", "#dcb9a5", "#a9c29a", "#cfc4e0")
SYMBOLS = ("o", "^", "s", "D", "v", "P")
STYLES = ("-", "--", ":", "-.")
MOST_OUTPUTS = len(STYLES)  # outputs, or inputs, in one picture: lines differ by their dashes
MOST_MARKS = 2000  # marks of one kind, neurons described, rows averaged over


class Marked(NamedTuple):
    """The neurons of a network, as pictures mark them.

    Attributes
    ----------
    hidden : (m, D) array
        Hidden weights, in the units of the picture.
    share : (m,) array
        The cost of each neuron, relative to that of the costliest.
    positive : (m,) array of bool
        Whether the output weight of largest modulus is positive.
    """

    hidden: np.ndarray
    share: np.ndarray
    positive: np.ndarray


@dataclass
class Line:
    """A curve; ``reads`` is its hover text, with %{x} and %{y}; ``which`` is the neuron whose kink it is."""

    x: np.ndarray
    y: np.ndarray
    name: str = ""
    color: str = INK
    dash: int = 0
    width: float = 1.6
    reads: str = ""
    symbol: str = ""
    filled: Any = True
    which: int | None = None


@dataclass
class Points:
    """Marks; ``says`` returns the lines of the hover text of one mark, ``which`` holds their neurons.

    With ``values`` their colours are values on the scale of the surface below them.
    """

    x: np.ndarray
    y: np.ndarray
    name: str = ""
    symbol: str = "o"
    size: Any = 5.0
    face: str = "white"
    edge: str = INK
    says: Callable[[int], list[str]] | None = None
    which: np.ndarray | None = None
    values: np.ndarray | None = None
    scale: tuple[float, float] = (0.0, 1.0)


@dataclass
class Surface:
    """A function on a grid, drawn by filled contours at round numbers; a thick line is its level set ``wall``."""

    first: np.ndarray
    second: np.ndarray
    values: np.ndarray
    scale: tuple[float, float]
    name: str
    wall: float | None = None

    def levels(self) -> np.ndarray:
        """Return the numbers at which contours are drawn."""
        low, high = self.scale
        step = round_step(high - low)
        return step * np.arange(np.floor(low / step), np.ceil(high / step) + 1)


@dataclass
class Picture:
    """Layers, from the lowest to the highest, and their axes.

    Attributes
    ----------
    layers : list
    x, y, title : str
    xlim, ylim : (float, float), optional
    logs : str
        Which axes are logarithmic, as in "xy".
    bounds, walls : sequence of float
        Heights of horizontal lines, and places of vertical ones.
    columns : int
        Columns of the legend; 0 for no legend.
    whole : str
        Which axes have integer ticks.
    empty : str
        Text shown if there are no layers.
    caption : str
        How to read the picture.
    """

    layers: list[Any]
    x: str
    y: str
    title: str = ""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    logs: str = ""
    bounds: Sequence[float] = ()
    walls: Sequence[float] = ()
    columns: int = 2
    whole: str = ""
    empty: str = ""
    caption: str = ""


def limits(values: np.ndarray, margin: float = 0.08) -> tuple[float, float]:
    """Return the range of values with a margin."""
    low, high = float(values.min()), float(values.max())
    pad = margin * (high - low) or 0.5 * max(abs(low), 1.0)
    return low - pad, high + pad


def predict_columns(network: Any, X: np.ndarray) -> np.ndarray:
    """Return the outputs of a network as an (N, k) array."""
    return np.asarray(network.predict(X)).reshape(len(X), -1)


def marked_of(network: Any) -> Marked:
    """Return the neurons of a network in the user's units."""
    hidden, outputs = np.asarray(network.hidden_weights), np.asarray(network.output_weights)
    bent = np.asarray(network.folded().hidden_weights)
    if len(hidden) == 0:
        return Marked(bent, np.zeros(0), np.zeros(0, dtype=bool))
    cost = np.linalg.norm(hidden, axis=1) * np.linalg.norm(outputs, axis=1)
    positive = outputs[np.arange(len(outputs)), np.abs(outputs).argmax(axis=1)] > 0
    return Marked(bent, cost / (cost.max() or 1.0), positive)


def by_sign(
    x: np.ndarray, y: np.ndarray, marked: Marked, which: np.ndarray, what: str, size: Any
) -> list[Points]:
    """Return marks of neurons: upwards and filled for positive output weights, downwards and white for negative ones.

    Parameters
    ----------
    x, y : (n,) arrays
    marked : Marked
    which : (n,) array of int
        The neuron of each mark.
    what : str
        The name of a mark in the legend.
    size : float or (n,) array
    """
    found = []
    for up in (True, False):
        of = np.flatnonzero(marked.positive[which] == up)
        if len(of):
            color = POSITIVE if up else NEGATIVE
            found.append(Points(
                x[of], y[of], f"{what}, {'positive' if up else 'negative'} weight", "^" if up else "v",
                size[of] if np.ndim(size) else size, color if up else "white", color, which=which[of],
            ))  # fmt: skip
    return found


def label_of(name: object, most: int = 40) -> str:
    """Return a name as one line of at most ``most`` letters."""
    return one_line(str(name), most)


def short(value: float, digits: int = 4) -> str:
    """Return a number with few digits: as an integer if it is large, with an exponent if it is very large.

    Parameters
    ----------
    value : float
    digits : int

    Examples
    --------
    >>> [short(v) for v in (1960.0, 111234.2, -2.14159, 2.0, 1.2e9, 1e-7)]
    ['1960', '111234', '−2.142', '2', '1.2e+09', '1e−07']
    """
    text = f"{value:.0f}" if 10.0**digits <= abs(value) < 1e7 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def round_step(width: float, most: int = 12) -> float:
    """Return a round step that fits at most ``most`` times into a width.

    Parameters
    ----------
    width : float
    most : int

    Examples
    --------
    >>> round_step(3.0), round_step(150, 5)
    (0.25, 50.0)
    """
    raw = width / most
    power = 10.0 ** np.floor(np.log10(raw))
    return float(power * min((s for s in (1, 2, 2.5, 5, 10) if s * power >= raw), default=10))


# ---------------------------------------------------------------------- drawn by matplotlib
DPI = 150
MOST_TICKS = 5  # per axis, so that labels of seven digits do not overlap


def draw(picture: Picture, ax: Axes | None = None) -> Axes:
    """Draw a picture.

    Parameters
    ----------
    picture : Picture
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    if ax is None:
        plt = required("matplotlib.pyplot", "drawing", "plot")
        ax = plt.subplots(figsize=(6.0, 4.5), dpi=DPI, layout="constrained")[1]
    ax.set(xlabel=plain(picture.x), ylabel=plain(picture.y))
    ax.set_title(plain(picture.title), fontsize="medium")
    if not picture.layers:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, picture.empty, ha="center", va="center", transform=ax.transAxes)
        return ax
    if picture.xlim is not None:
        ax.set_xlim(*picture.xlim)
    if picture.ylim is not None:
        ax.set_ylim(*picture.ylim)
    for place, layer in enumerate(picture.layers):
        _DRAW[type(layer)](ax, layer, place + 1)
    for bound in picture.bounds:
        ax.axhline(bound, color="0.45", lw=1.0, ls="--", zorder=0, label="bound" if bound == 1 else None)
    for wall in picture.walls:
        ax.axvline(wall, color="0.55", lw=0.9, zorder=0)
    linear = required("matplotlib.ticker", "drawing", "plot").MaxNLocator
    for name in {"x", "y"} - set(picture.logs):
        locator = getattr(ax, f"{name}axis").get_major_locator()
        if isinstance(locator, linear):  # the user's axes may have another locator
            locator.set_params(nbins=MOST_TICKS, integer=name in picture.whole)
    for name in picture.logs:
        getattr(ax, f"set_{name}scale")("log")
    if picture.columns:
        below = (0.5, -0.14)  # below the axes
        ax.legend(
            fontsize="small", loc="upper center", bbox_to_anchor=below, ncols=picture.columns, frameon=False
        )
    return ax


def plain(text: str) -> str:
    r"""Return a text that matplotlib shows literally: dollar signs escaped, no leading underscore.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> plain("price in $"), plain("_x")
    ('price in \\$', ' _x')
    """
    said = text.replace("$", r"\$")
    return f" {said}" if said.startswith("_") else said  # a leading underscore keeps a line out of the legend


def _line(ax: Axes, line: Line, place: int) -> None:
    style: dict[str, Any] = {
        "color": line.color,
        "lw": line.width,
        "ls": STYLES[line.dash % len(STYLES)],
        "zorder": place,
    }
    marks: dict[str, Any] = {"marker": line.symbol or None, "ms": 4, "mec": line.color}
    label = plain(line.name) if line.name else None
    if np.ndim(line.filled) == 0:
        ax.plot(line.x, line.y, label=label, mfc=line.color if line.filled else "white", **marks, **style)
        return
    ax.plot(line.x, line.y, label=label, **style)
    for of, face in ((line.filled, line.color), (~line.filled, "white")):
        ax.plot(line.x[of], line.y[of], mfc=face, **marks, **style | {"ls": ""})


def _points(ax: Axes, points: Points, place: int) -> None:
    label = plain(points.name) if points.name else None
    if np.ndim(points.size) or points.values is not None:
        valued = {"c": points.values, "cmap": _tones(), "vmin": points.scale[0], "vmax": points.scale[1]}
        ax.scatter(
            points.x, points.y, s=np.asarray(points.size) ** 2, marker=points.symbol, edgecolors=points.edge,
            linewidths=0.9, zorder=place, label=label,
            **({"facecolors": points.face} if points.values is None else valued),
        )  # fmt: skip
        return
    ax.plot(
        points.x, points.y, points.symbol, ms=points.size, mfc=points.face, mec=points.edge, mew=0.9,
        ls="", zorder=place, label=label,
    )  # fmt: skip


def _tones() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("tones", TONES)


def _surface(ax: Axes, surface: Surface, place: int) -> None:
    levels, (low, high) = surface.levels(), surface.scale
    filled = ax.contourf(
        surface.first, surface.second, surface.values, levels=levels, cmap=_tones(), vmin=low, vmax=high,
        extend="both",
    )  # fmt: skip
    if surface.wall is not None:
        ax.contour(
            surface.first, surface.second, surface.values, levels=[surface.wall], colors=INK, linewidths=1.6,
            zorder=place,
        )  # fmt: skip
    ax.figure.colorbar(
        filled,
        ax=ax,
        label=plain(surface.name),
        pad=0.02,
        ticks=levels[np.round(levels / (levels[1] - levels[0])) % 2 == 0],
    )


_DRAW: dict[type, Any] = {Line: _line, Points: _points, Surface: _surface}
