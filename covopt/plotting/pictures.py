"""What a picture is made of, before anybody draws it: matplotlib and the page draw the same layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from covopt.checks.wording import one_line
from covopt.errors import InputError

INK = "#1a1a1a"
GREY = "#7a7a7a"
PALE = "#c9c9c9"
POSITIVE = "#0b4f8a"
NEGATIVE = "#b3401e"
# light to mid tones, monotone in luminance: dark marks stay visible, in greyscale too
TONES = ("#f7f5ec", "#c3dcd3", "#7fb3c4", "#4c7fae")
# light and apart in luminance: regions are told in greyscale too
CLASS_TONES = ("#f4efe0", "#b9d3dd", "#7d9cb8", "#dcb9a5", "#a9c29a", "#cfc4e0")
SYMBOLS = ("o", "^", "s", "D", "v", "P")
MOST_OUTPUTS = 4  # and inputs: lines of one picture, which differ by their dashes
MOST_MARKS = 2000  # of one kind
ROUNDING = 1e-16  # what is less is drawn as this on a logarithmic axis


class Marked(NamedTuple):
    """Neurons as pictures mark them.

    Attributes
    ----------
    hidden : (m, D) array
        In the units of the picture.
    share : (m,) array
        The cost of each over that of the costliest.
    positive : (m,) array of bool
        Whether the largest output weight is.
    """

    hidden: np.ndarray
    share: np.ndarray
    positive: np.ndarray


@dataclass
class Line:
    """A curve; ``reads`` says what it is at %{x} and %{y}, ``which`` tells whose kink it is."""

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
    """Marks; ``says`` returns lines of text about one of them, ``which`` tells their neurons.

    With ``values`` their colour is a value on the scale of the surface below them.
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
    joined: bool = False
    values: np.ndarray | None = None
    scale: tuple[float, float] = (0.0, 1.0)


@dataclass
class Surface:
    """A function on a grid, by filled contours at round numbers; a thick line runs where it is ``wall``."""

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
    """Layers, from the lowest up, and their axes.

    Attributes
    ----------
    layers : list
    x, y, title : str
    xlim, ylim : (float, float), optional
    xticks, yticks : sequence of float, optional
    logs : str
        Which axes are logarithmic, as in "xy".
    bounds, walls : sequence of float
        Lines across, and upright ones.
    columns : int
        Of the legend; 0 for none.
    whole : str
        Which axes have whole numbers.
    empty : str
        What stands in place of no layers.
    caption : str
        How it is read.
    """

    layers: list[Any]
    x: str
    y: str
    title: str = ""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    xticks: Sequence[float] | None = None
    yticks: Sequence[float] | None = None
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
    """Return outputs (N, k)."""
    return np.asarray(network.predict(X)).reshape(len(X), -1)


def table_of(X: Any, y: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs with d columns and targets (N, k), or refuse."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or X.shape[1] != d:
        raise InputError(
            f"this picture needs X with {d} column{'s' if d > 1 else ''}; received shape {X.shape}."
        )
    return X, y.reshape(len(X), -1)


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
        Which neuron each mark is.
    what : str
        The name of a mark.
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
    """Return a name in one line of so many letters."""
    return one_line(str(name), most)


def short(value: float, digits: int = 4) -> str:
    """Return a number as people read it: in few digits, whole where it is large, with an exponent where it is larger.

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
    """Return a round distance of which at most so many fit into a width.

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
