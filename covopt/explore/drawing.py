"""Pictures by plotly: the layers of :mod:`covopt.plotting.pictures`, with words under the mouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from covopt.plotting.pictures import (
    CLASS_TONES,
    GREY,
    INK,
    NEGATIVE,
    POSITIVE,
    TONES,
    Kinks,
    Line,
    Picture,
    Points,
    Regions,
    Samples,
    Surface,
)

DASHES = ("solid", "dash", "dot", "dashdot")
MARKS = {
    "o": "circle",
    "^": "triangle-up",
    "s": "square",
    "D": "diamond",
    "v": "triangle-down",
    "P": "pentagon",
}
SCALE = [[k / (len(TONES) - 1), tone] for k, tone in enumerate(TONES)]
MOST_POINTS = 2000  # of the data that are drawn
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
SAYS = "%{customdata[1]}<extra></extra>"


def figure_of(pictures: Sequence[Picture], texts: Sequence[str] = (), *, height: int = 430) -> Any:
    """Return a figure of pictures one above the other, over one x axis.

    Parameters
    ----------
    pictures : sequence of Picture
    texts : sequence of str
        What is said of each neuron.
    height : int
        In pixels.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(len(pictures), 1, shared_xaxes=True, vertical_spacing=0.05)
    lay_out(figure, height=height)
    for row, picture in enumerate(pictures, 1):
        readings = []
        for layer in picture.layers:
            for trace in _TRACES[type(layer)](layer, texts):
                figure.add_trace(trace, row=row, col=1)
            if isinstance(layer, Line) and layer.reads:
                readings.append(_reading(layer, picture))
        figure.add_traces(readings, rows=row, cols=1)
        for bound in picture.bounds:
            figure.add_hline(y=bound, line=dict(color=GREY, dash="dash", width=1.2), row=row, col=1)
        for wall in picture.walls:
            figure.add_vline(x=wall, line=dict(color=GREY, width=1), row=row, col=1)
        plane = isinstance(picture.layers[0] if picture.layers else None, Surface | Regions)
        for name, lim, ticks in (("x", picture.xlim, picture.xticks), ("y", picture.ylim, picture.yticks)):
            axis: dict[str, Any] = dict(range=lim, tickvals=None if ticks is None else list(ticks))
            if name in picture.logs:
                axis |= dict(type="log", exponentformat="power")
            if name in picture.whole:
                axis |= dict(tickformat="d")
            if plane:
                axis |= dict(showgrid=False)
            if name == "y" or row == len(pictures):
                axis |= dict(title_text=escape(getattr(picture, name)))
            getattr(figure, f"update_{name}axes")(**axis, row=row, col=1)
    return figure


def lay_out(figure: Any, *, height: int = 430) -> Any:
    """Give a figure the page's looks.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
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
    return figure


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


def _scatter(**settings: Any) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(**settings)


def _reading(line: Line, picture: Picture) -> Any:
    """Let a curve be read under the mouse, except where marks are: there a line would speak in their place."""
    places = np.linspace(line.x[0], line.x[-1], 201)
    marked = [layer.x for layer in picture.layers if isinstance(layer, Points)]
    free = np.ones(len(places), dtype=bool)
    for at in np.concatenate([*marked, []]):
        free &= np.abs(places - at) > 0.012 * np.ptp(places)
    return _scatter(
        x=places[free], y=np.interp(places[free], line.x, line.y), mode="markers", showlegend=False,
        marker=dict(size=6, opacity=0, color=INK), hovertemplate=f"{_lines(line.reads)}<extra></extra>",
    )  # fmt: skip


def _lines(text: str) -> str:
    return "<br>".join(escape(part) for part in text.split("<br>"))


def _tags(says: Callable[[int], list[str]] | None, shown: np.ndarray) -> list[list[Any]] | None:
    if says is None:
        return None
    return [[-1, "<br>".join(escape(text) for text in says(int(i)))] for i in shown]


def _line(line: Line, _texts: Sequence[str]) -> list[Any]:
    kind = np.float32 if np.ptp(line.y) > 1e-30 and np.abs(line.y).max() < 1e30 else np.float64
    marks = {}
    if line.symbol:
        filled = np.broadcast_to(line.filled, len(line.x))
        marks = dict(
            symbol=[MARKS[line.symbol] + ("" if full else "-open") for full in filled],
            size=7,
            color=line.color,
        )
    return [
        _scatter(
            x=line.x, y=np.asarray(line.y, dtype=kind), mode="lines+markers" if line.symbol else "lines",
            name=escape(line.name), showlegend=bool(line.name), marker=marks,
            line=dict(color=line.color, width=1.4 * line.width, dash=DASHES[line.dash % 4]),
            hoverinfo="skip" if not line.symbol else None,
        )
    ]  # fmt: skip


def _points(points: Points, texts: Sequence[str]) -> list[Any]:
    shown = drawn_points(len(points.x)) if points.which is None else np.arange(len(points.x))
    tags = _tags(points.says, shown)
    if points.which is not None:
        tags = [[int(j), texts[j]] for j in points.which]
    size = np.asarray(points.size)[shown] if np.ndim(points.size) else points.size
    count = len(shown)
    return [
        _scatter(
            x=points.x[shown], y=points.y[shown], mode="lines+markers" if points.joined else "markers",
            name=escape(points.name), showlegend=bool(points.name), customdata=tags, hovertemplate=tags and SAYS,
            line=dict(color=GREY, width=1), cliponaxis=False,
            marker=dict(
                symbol=[MARKS[points.symbol] + ("-open" if points.face == "none" else "")] * count,
                color=points.edge if points.face == "none" else points.face, size=1.5 * size, opacity=1,
                line=dict(color=points.edge, width=1.5),
            ),
        )
    ]  # fmt: skip


def _surface(surface: Surface, _texts: Sequence[str]) -> list[Any]:
    import plotly.graph_objects as go

    low, high = surface.scale
    step = surface.step or (high - low) / 10
    kind = (
        np.float32 if 1e-30 < high - low < 1e30 else np.float64
    )  # half the bytes, where they hold the numbers
    name = escape(surface.name)
    return [
        go.Contour(
            x=surface.first, y=surface.second, z=np.clip(surface.values, low, high).astype(kind), colorscale=SCALE,
            zmin=low, zmax=high, line=dict(width=0.4, color=GREY), autocontour=False,
            contours=dict(start=np.ceil(low / step) * step, end=np.floor(high / step) * step, size=step),
            colorbar=dict(
                title=dict(text=name, side="right"), thickness=14, outlinewidth=0, dtick=2 * step, tick0=0
            ),
            hovertemplate=f"%{{x:.4g}}, %{{y:.4g}}<br>{name} %{{z:.4g}}<extra></extra>",
        )
    ]  # fmt: skip


def _samples(samples: Samples, _texts: Sequence[str]) -> list[Any]:
    shown = drawn_points(len(samples.x))
    low, high = samples.scale
    return [
        _scatter(
            x=samples.x[shown], y=samples.y[shown], mode="markers", name="data",
            marker=dict(
                color=samples.values[shown], colorscale=SCALE, cmin=low, cmax=high,
                size=float(np.clip(9 * np.sqrt(150 / len(samples.x)), 5, 9)), line=dict(color=INK, width=1.2),
            ),
            customdata=_tags(samples.says, shown), hovertemplate=SAYS,
        )
    ]  # fmt: skip


def _regions(regions: Regions, _texts: Sequence[str]) -> list[Any]:
    import plotly.graph_objects as go

    chances, names = regions.chances, [escape(name) for name in regions.names]
    shape, count = (len(regions.second), len(regions.first)), len(names)
    best = chances.argmax(axis=1)
    said = np.array([names[k] for k in best]).reshape(shape)
    if regions.sure:
        shares = np.char.mod("%.2f", chances.max(axis=1).reshape(shape))
        said = np.char.add(np.char.add(said, ", P "), shares)
    tones = [[edge / count, CLASS_TONES[k % len(CLASS_TONES)]] for k in range(count) for edge in (k, k + 1)]
    found: list[Any] = [
        go.Heatmap(
            x=regions.first, y=regions.second, z=best.reshape(shape).astype(np.uint8), zmin=-0.5, zmax=count - 0.5,
            colorscale=tones, showscale=False, text=said, hovertemplate="%{text}<extra></extra>",
        )
    ]  # fmt: skip
    for k in range(count if count > 2 else 1):
        ahead = chances[:, k] - np.delete(chances, k, axis=1).max(axis=1)
        if ahead.min() < 0 < ahead.max():
            found.append(go.Contour(
                x=regions.first, y=regions.second, z=ahead.reshape(shape).astype(np.float32), autocontour=False,
                showscale=False, contours=dict(start=0, end=0, size=1, coloring="none"), hoverinfo="skip",
                line=dict(width=3, color=INK), name="boundary", showlegend=k == 0,
            ))  # fmt: skip
    return found


def _kinks(kinks: Kinks, texts: Sequence[str]) -> list[Any]:
    """Return the kinks of two inputs as lines with a spur on the active side, their width by their cost."""
    if not len(kinks.segments):
        return []
    size = np.ptp(kinks.segments.reshape(-1, 2), axis=0)
    spread, named, found = np.linspace(0, 1, 25)[:, None], set(), []
    for rank, (segment, j) in enumerate(zip(kinks.segments, kinks.which, strict=True)):
        up = bool(kinks.positive[rank])
        foot = segment[0] + (0.25 + 0.5 * (rank * 0.618034 % 1.0)) * (segment[1] - segment[0])
        normal = kinks.slopes[rank] * size  # perpendicular where both axes have one length on the page
        spur = foot + 0.035 * size * normal / (np.linalg.norm(normal) or 1.0)
        trail = np.vstack(
            [segment[0] + spread * (segment[1] - segment[0]), [[np.nan, np.nan]], [foot], [spur]]
        )
        name = f"kink, {'positive' if up else 'negative'} weight"
        found.append(_scatter(
            x=trail[:, 0], y=trail[:, 1], mode="lines", name=name, legendgroup=name, showlegend=name not in named,
            line=dict(
                color=POSITIVE if up else NEGATIVE, width=1.0 + 2.2 * float(np.sqrt(kinks.share[rank])),
                dash="solid" if up else "6px,4px",
            ),
            customdata=[[int(j), texts[j]]] * len(trail), hovertemplate=SAYS,
        ))  # fmt: skip
        named.add(name)
    return found


_TRACES: dict[type, Any] = {
    Line: _line, Points: _points, Surface: _surface, Samples: _samples, Regions: _regions, Kinks: _kinks,
}  # fmt: skip
