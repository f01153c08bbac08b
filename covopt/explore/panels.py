"""What a page is made of: panels, each with a figure for every step of the slider, and how they look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covopt.plotting.function import INK, NEGATIVE, POSITIVE

GREY = "#7a7a7a"
# light to mid tones, monotone in luminance: dark marks stay visible, in greyscale too
TONES = [[0.0, "#f7f5ec"], [0.33, "#c3dcd3"], [0.67, "#7fb3c4"], [1.0, "#4c7fae"]]
DASHES = ("solid", "dash", "dot", "dashdot")
MARKS = ("circle", "triangle-up", "square", "diamond", "triangle-down", "pentagon")
MOST_OUTPUTS = 4
MOST_POINTS = 2000  # of the data that are drawn
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass
class Panel:
    """One figure of the page.

    Attributes
    ----------
    key : str
        Names it within the page.
    title, caption : str
    figures : list of plotly figures
        One for all steps of the slider, or one for each of them.
    cursor : list of float
        Where the vertical line stands at each step, in the figure's x.
    wide : bool
        Whether it takes the whole width.
    """

    key: str
    title: str
    caption: str
    figures: list[Any]
    cursor: list[float] = field(default_factory=list)
    wide: bool = False


def short(value: float, digits: int = 4) -> str:
    """Return a number as people read it.

    Parameters
    ----------
    value : float
    digits : int

    Examples
    --------
    >>> short(-0.123456), short(1234567.0), short(2.0)
    ('−0.1235', '1.235e+06', '2')
    """
    return f"{value:.{digits}g}".replace("-", "−")


def lay_out(figure: Any, *, x: str = "", y: str = "", height: int = 430) -> Any:
    """Give a figure the page's looks.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
    x, y : str
        Titles of the axes.
    height : int
        In pixels.
    """
    axis = dict(
        showline=True, linecolor=INK, ticks="outside", tickcolor=INK, gridcolor="#eceae3", zeroline=False,
        automargin=True,
    )  # fmt: skip
    figure.update_layout(
        template="none",
        paper_bgcolor="white",
        plot_bgcolor="white",
        font=dict(family=FONT, size=13, color=INK),
        margin=dict(l=62, r=18, t=30, b=88),
        height=height,
        hovermode="closest",
        hoverlabel=dict(bgcolor="white", bordercolor=INK, align="left", font=dict(family=FONT, color=INK)),
        legend=dict(orientation="h", yref="container", yanchor="bottom", y=0, x=0, xanchor="left"),
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    if x:
        figure.update_xaxes(title_text=x)
    if y:
        figure.update_yaxes(title_text=y)
    return figure


def sign_marks(positive: np.ndarray, size: Any) -> dict[str, Any]:
    """Return markers: filled upwards for positive output weights, white downwards for negative ones.

    Parameters
    ----------
    positive : (m,) array of bool
    size : float or (m,) array
    """
    edges = [POSITIVE if up else NEGATIVE for up in positive]
    return dict(
        symbol=["triangle-up" if up else "triangle-down" for up in positive],
        color=[edge if up else "white" for up, edge in zip(positive, edges, strict=True)],
        size=size,
        opacity=1,
        line=dict(width=1.8, color=edges),
    )


def add_readings(figure: Any, x: np.ndarray, y: np.ndarray, marked: np.ndarray, template: str) -> None:
    """Let a curve be read under the mouse, except where marks are: there a line would speak in their place.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
    x, y : (n,) arrays
        Places to read at.
    marked : (m,) array
        Where on the x axis marks are.
    template : str
        What is said.
    """
    import plotly.graph_objects as go

    free = np.ones(len(x), dtype=bool)
    for at in marked[np.isfinite(marked)]:
        free &= np.abs(x - at) > 0.012 * np.ptp(x)
    figure.add_trace(go.Scatter(
        x=x[free], y=y[free], mode="markers", marker=dict(size=6, opacity=0, color=INK), showlegend=False,
        hovertemplate=template,
    ))  # fmt: skip


def round_step(width: float, count: int = 12) -> float:
    """Return a round distance of which at most so many fit into a width.

    Parameters
    ----------
    width : float
    count : int

    Examples
    --------
    >>> round_step(3.0), round_step(150, 5)
    (0.25, 50.0)
    """
    raw = width / count
    power = 10.0 ** np.floor(np.log10(raw))
    return float(power * min((s for s in (1, 2, 2.5, 5, 10) if s * power >= raw), default=10))


def drawn_points(n: int) -> np.ndarray:
    """Return which points of the data are drawn: all, or evenly chosen ones.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> drawn_points(3), len(drawn_points(10**5))
    (array([0, 1, 2]), 2000)
    """
    return np.arange(n) if n <= MOST_POINTS else np.linspace(0, n - 1, MOST_POINTS).astype(int)
