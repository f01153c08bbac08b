"""Pictures by plotly: the layers of :mod:`covopt.plotting.pictures`, with words under the mouse.

What a mark says is text, or the number of its neuron, which the page describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from covopt.plotting.pictures import CLASS_TONES, GREY, INK, TONES, Line, Picture, Points, Regions, Surface

DASHES = ("solid", "dash", "dot", "dashdot")
MARKS = {
    "o": "circle", "^": "triangle-up", "s": "square", "D": "diamond", "v": "triangle-down", "P": "pentagon",
}  # fmt: skip
SCALE = [[k / (len(TONES) - 1), tone] for k, tone in enumerate(TONES)]
MOST_POINTS = 2000  # of the data that are drawn
FONT = dict(family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif", size=13, color=INK)
SAYS = "%{customdata[1]}<extra></extra>"
ROUNDED = 1e-4  # of the range of the numbers: less is not seen


def figure_of(pictures: Sequence[Picture]) -> Any:
    """Return a figure of pictures one above the other, over one x axis.

    Parameters
    ----------
    pictures : sequence of Picture

    Returns
    -------
    plotly.graph_objects.Figure
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(len(pictures), 1, shared_xaxes=True, vertical_spacing=0.05)
    figure.update_layout(
        template="none", paper_bgcolor="white", plot_bgcolor="white", font=FONT, margin=dict(l=62, r=18, t=30, b=88),
        height=430 if len(pictures) < 4 else 740, hovermode="closest",
        hoverlabel=dict(bgcolor="white", bordercolor=INK, align="left", font=FONT),
        legend=dict(orientation="h", yref="container", yanchor="bottom", y=0, x=0, xanchor="left"),
        meta=pictures[0].title, showlegend=bool(pictures[0].columns) or len(pictures) > 1,
    )  # fmt: skip
    for row, picture in enumerate(pictures, 1):
        readings = []
        if not picture.layers and picture.empty:
            figure.add_annotation(
                text=picture.empty, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5
            )
        alone = len(picture.layers) == 1 < len(pictures)  # the axis says what it is
        for layer in picture.layers:
            traces = _TRACES[type(layer)](layer)
            figure.add_traces(traces, rows=row, cols=1)
            if alone:
                figure.data[-1].showlegend = False
            if isinstance(layer, Line) and layer.reads:
                readings.append(_reading(layer, picture))
        figure.add_traces(readings, rows=row, cols=1)
        for bound in picture.bounds:
            figure.add_hline(y=bound, line=dict(color=GREY, dash="dash", width=1.2), row=row, col=1)
        for wall in picture.walls:
            figure.add_vline(x=wall, line=dict(color=GREY, width=1), row=row, col=1)
        plane = any(isinstance(layer, Surface | Regions) for layer in picture.layers)
        for name, lim, ticks in (("x", picture.xlim, picture.xticks), ("y", picture.ylim, picture.yticks)):
            axis: dict[str, Any] = dict(
                range=lim, tickvals=None if ticks is None else list(ticks), showgrid=not plane, showline=True,
                linecolor=INK, ticks="outside", tickcolor=INK, gridcolor="#eceae3", zeroline=False, automargin=True,
                tickformat="d" if name in picture.whole else None,
            )  # fmt: skip
            if name in picture.logs:  # plotly's own ticks stand between the powers
                decades = _decades(picture, name)
                axis |= dict(
                    type="log", exponentformat="power", dtick=-(-decades // 5) if decades > 2 else None
                )
            if name == "y" or row == len(pictures):
                axis |= dict(title_text=escape(getattr(picture, name)))
            getattr(figure, f"update_{name}axes")(**axis, row=row, col=1)
    return figure


def _decades(picture: Picture, name: str) -> float:
    values = np.concatenate([getattr(layer, name) for layer in picture.layers] or [np.ones(1)])
    values = values[np.isfinite(values) & (values > 0)]
    return float(np.ptp(np.log10(values))) if len(values) else 0.0


def _scatter(**settings: Any) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(**settings)


def _reading(line: Line, picture: Picture) -> Any:
    """Let a curve be read under the mouse, except where marks are: there a line would speak in their place."""
    places = np.linspace(line.x[0], line.x[-1], 201)
    marked = np.concatenate([[np.inf], *(layer.x for layer in picture.layers if isinstance(layer, Points))])
    free = np.abs(places[:, None] - marked[:MOST_POINTS]).min(axis=1) > 0.012 * np.ptp(places)
    said = "<br>".join(escape(part) for part in line.reads.split("<br>"))
    return _scatter(
        x=places[free], y=np.interp(places[free], line.x, line.y), mode="markers", showlegend=False,
        marker=dict(size=6, opacity=0, color=INK), hovertemplate=f"{said}<extra></extra>",
    )  # fmt: skip


def _single(values: np.ndarray) -> np.ndarray:
    """Return values in single precision, half the bytes, where nobody sees the difference."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.asarray(values, dtype=np.float32)
    return single if np.abs(single - values).max(initial=0.0) <= ROUNDED * np.ptp(values) else values


def _line(line: Line) -> list[Any]:
    filled = np.broadcast_to(line.filled, len(line.x))
    symbols = [MARKS[line.symbol] + ("" if full else "-open") for full in filled] if line.symbol else None
    kink = line.which is not None
    return [
        _scatter(
            x=line.x, y=_single(line.y), mode="lines+markers" if line.symbol else "lines", name=escape(line.name),
            showlegend=bool(line.name), marker=dict(symbol=symbols, size=7, color=line.color),
            line=dict(color=line.color, width=1.4 * line.width, dash=DASHES[line.dash % 4]),
            customdata=[line.which] * len(line.x) if kink else None, hovertemplate=SAYS if kink else None,
            hoverinfo=None if line.symbol or kink else "skip",
        )
    ]  # fmt: skip


def _points(points: Points) -> list[Any]:
    n, hollow = len(points.x), points.face == "none"
    shown = np.arange(n)
    if points.which is None and n > MOST_POINTS:
        shown = np.linspace(0, n - 1, MOST_POINTS).astype(int)
    tags: list[Any] | None = None if points.which is None else [int(j) for j in points.which]
    if points.says is not None:
        tags = ["<br>".join(escape(text) for text in points.says(int(i))) for i in shown]
    color: Any = points.edge if hollow else points.face
    colors = dict(color=color)
    if points.values is not None:
        colors = dict(
            color=points.values[shown], colorscale=SCALE, cmin=points.scale[0], cmax=points.scale[1]
        )
    size = np.asarray(points.size)[shown] if np.ndim(points.size) else points.size
    return [
        _scatter(
            x=points.x[shown], y=_single(points.y[shown]), mode="lines+markers" if points.joined else "markers",
            name=escape(points.name), showlegend=bool(points.name), customdata=tags, hovertemplate=tags and SAYS,
            line=dict(color=GREY, width=1), cliponaxis=False,
            marker=dict(
                symbol=[MARKS[points.symbol] + "-open" * hollow] * len(shown), size=1.5 * size, opacity=1,
                line=dict(color=points.edge, width=1.5), **colors,
            ),
        )
    ]  # fmt: skip


def _surface(surface: Surface) -> list[Any]:
    import plotly.graph_objects as go

    levels, (low, high), name = surface.levels(), surface.scale, escape(surface.name)
    step = levels[1] - levels[0]
    return [
        go.Contour(
            x=surface.first, y=surface.second, z=_single(np.clip(surface.values, low, high)), colorscale=SCALE,
            zmin=low, zmax=high, line=dict(width=0.4, color=GREY), autocontour=False,
            contours=dict(start=levels[1], end=levels[-2], size=step),
            colorbar=dict(title=dict(text=name, side="right"), thickness=14, outlinewidth=0, dtick=2 * step, tick0=0),
            hovertemplate=f"%{{x:.4g}}, %{{y:.4g}}<br>{name} %{{z:.4g}}<extra></extra>",
        )
    ]  # fmt: skip


def _regions(regions: Regions) -> list[Any]:
    import plotly.graph_objects as go

    names, best = np.array([escape(name) for name in regions.names]), regions.codes()
    said, count = names[best], len(names)
    if regions.sure:
        shares = np.char.mod("%.2f", regions.chances.max(axis=1).reshape(best.shape))
        said = np.char.add(np.char.add(said, ", P "), shares)
    tones = [[edge / count, CLASS_TONES[k % len(CLASS_TONES)]] for k in range(count) for edge in (k, k + 1)]
    found: list[Any] = [
        go.Heatmap(
            x=regions.first, y=regions.second, z=best.astype(np.uint8), zmin=-0.5, zmax=count - 0.5,
            colorscale=tones, showscale=False, text=said, hovertemplate="%{text}<extra></extra>",
        )
    ]  # fmt: skip
    for k, ahead in enumerate(regions.boundaries()):
        found.append(go.Contour(
            x=regions.first, y=regions.second, z=ahead.astype(np.float32), autocontour=False, showscale=False,
            contours=dict(start=0, end=0, size=1, coloring="none"), hoverinfo="skip", line=dict(width=3, color=INK),
            name="boundary", showlegend=k == 0,
        ))  # fmt: skip
    return found


_TRACES: dict[type, Any] = {Line: _line, Points: _points, Surface: _surface, Regions: _regions}
