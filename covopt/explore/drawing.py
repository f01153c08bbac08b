"""Figures for plotly: the layers of :mod:`covopt.plotting.pictures`, with hover texts.

A mark carries its hover text, or the number of its neuron, whose weights, cost, cell and slack the page shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from covopt.checks import counted, one_line
from covopt.exact.rank import FOUND
from covopt.plotting.dual import dual_values, scaled_dual
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import (
    GREY,
    INK,
    MOST_MARKS,
    TONES,
    Line,
    Marked,
    Picture,
    Points,
    Surface,
    by_sign,
    short,
)
from covopt.potentials import make_potential

MOST_WEIGHTS = 6  # written out for each neuron, the largest
MOST_SIGHTS = 60, 200  # neurons and points in the picture of activations


@dataclass(frozen=True)
class Neurons:
    """Neurons in decreasing order of their cost, at most ``MOST_MARKS``.

    Attributes
    ----------
    hidden, outputs : (m, D) and (m, k) arrays
    yours : (m, D) array
        Hidden weights on the user's columns, also if the problem was solved on standardised columns.
    cost : (m,) array
        The costs of all neurons sum to the cost of the network without its output bias.
    positive : (m,) array of bool
        Whether the output weight of largest modulus is positive.
    slack : (m,) array
        One minus the modulus of the dual function at the neuron: zero for a tight neuron.
    side : (m, N) array of int8
        1 if the neuron is active on the point, 0 if its kink passes through the point, else −1.
    cell : (m,) array of int
        Neurons of one cell have the same sides; cells count from 1, that of the costliest neuron first.
    columns, rows : list of str, list of lists of str
        The table of the neurons, as text.
    """

    hidden: np.ndarray
    outputs: np.ndarray
    yours: np.ndarray
    cost: np.ndarray
    positive: np.ndarray
    slack: np.ndarray
    side: np.ndarray
    cell: np.ndarray
    columns: list[str]
    rows: list[list[str]]

    def texts(self) -> list[str]:
        """Return the hover text of each neuron."""
        said = [zip(self.columns, map(escape, row), strict=True) for row in self.rows]
        return ["<br>".join(f"{escape(name)} {value}" for name, value in row) for row in said]

    def marked(self, *, yours: bool = False) -> Marked:
        """Return the neurons as :class:`Marked`, with ``yours`` with their weights on the user's columns."""
        share = self.cost / (self.cost.max(initial=0.0) or 1.0)
        return Marked(self.yours if yours else self.hidden, share, self.positive)


def describe(solution: Any) -> Neurons:
    """Return the neurons of a solution with their descriptions.

    Parameters
    ----------
    solution : Solution
    """
    network, data = solution.network, solution.data
    hidden = np.asarray(network.hidden_weights, dtype=float)
    outputs = np.asarray(network.output_weights, dtype=float)
    lifted = data.lifted
    cost = make_potential(solution.potential).weigh(lifted, hidden) * np.linalg.norm(outputs, axis=1)
    if solution.potential == "variation":
        cost *= 2  # ‖W‖² counts both layers
    order = np.argsort(-cost, kind="stable")[:MOST_MARKS]
    hidden, outputs, cost = hidden[order], outputs[order], cost[order]
    positive = np.take_along_axis(outputs, np.abs(outputs).argmax(axis=1)[:, None], axis=1)[:, 0] > 0
    slack = 1.0 - np.abs(dual_values(scaled_dual(solution), lifted, hidden, solution.potential))
    side = np.zeros((len(hidden), len(lifted)), dtype=np.int8)
    norms = np.linalg.norm(lifted, axis=1)
    for j, w in enumerate(hidden):
        reach = lifted @ w
        side[j] = np.where(np.abs(reach) <= FOUND * norms * np.linalg.norm(w), 0, np.sign(reach))
    known: dict[bytes, int] = {}
    cell = np.array([known.setdefault(row.tobytes(), len(known) + 1) for row in side], dtype=int)
    yours = hidden if solution.scaling is None else solution.scaling.fold(hidden, data.bias)

    inputs = [*(one_line(name, 24) for name in data.feature_names), *(["bias"] if data.bias > 0 else [])]
    targets, total = [one_line(name, 24) for name in data.target_names], float(cost.sum()) or 1.0
    few, kinked = len(inputs) <= MOST_WEIGHTS, data.n_features == 1
    columns = [
        "neuron", *([f"w: {name}" for name in inputs] if few else ["w, largest first"]),
        *([f"v: {name}" for name in targets] if len(targets) <= 4 else ["‖v‖"]),
        *([f"kink at {inputs[0]}"] if kinked else []), "cost", "of all", "cell", "active on", "slack",
    ]  # fmt: skip
    rows = []
    for j, w in enumerate(hidden):
        largest = np.argsort(-np.abs(w), kind="stable")[:MOST_WEIGHTS]
        touched = int((side[j] == 0).sum())
        through = f", kink through {touched}" if touched else ""
        kink = float(kinks_of(yours[j : j + 1], data.bias)[0]) if kinked and w[0] else np.inf
        rows.append([
            str(j + 1),
            *(map(short, w) if few else [", ".join(f"{inputs[i]} {short(w[i])}" for i in largest) + ", …"]),
            *map(short, outputs[j] if len(targets) <= 4 else [float(np.linalg.norm(outputs[j]))]),
            *([short(kink) if np.isfinite(kink) else "none"] if kinked else []),
            short(cost[j]), f"{cost[j] / total:.1%}", str(cell[j]),
            f"{(side[j] > 0).sum()} of {counted(data.n_samples, 'point')}{through}", short(slack[j], 2),
        ])  # fmt: skip
    return Neurons(hidden, outputs, yours, cost, positive, slack, side, cell, columns, rows)


def sight_picture(solution: Any, neurons: Neurons) -> Picture:
    """Return the activations: a row for each neuron, with marks at its active points; cells stay together.

    Parameters
    ----------
    solution : Solution
    neurons : Neurons
    """
    most, data = MOST_SIGHTS, solution.data
    points = np.linspace(0, data.n_samples - 1, min(data.n_samples, most[1])).astype(int)
    points = points[np.argsort(data.X[points, 0], kind="stable")] if data.n_features else points
    shown = np.arange(len(neurons.hidden))[: most[0]]
    # by the number of points on which they are active: for one input this gives a staircase
    order = shown[np.lexsort((neurons.cell[shown], (neurons.side[shown] > 0).sum(axis=1)))]
    row, place = np.nonzero(neurons.side[order][:, points] > 0)
    layers = by_sign(place + 1.0, row + 1.0, neurons.marked(), order[row], "active", 5.0)
    name = f"points, by {one_line(data.feature_names[0], 40)}" if data.n_features else "points"
    return Picture(
        layers, name, "neurons", "which points each neuron sees", (0, len(points) + 1), (0, len(order) + 1),
        whole="xy", empty="no neuron is active",
        caption="A row for each neuron, with a mark where it is active on the point. "
        f"At most {most[1]} points and the {most[0]} costliest neurons are drawn.",
    )  # fmt: skip


DASHES = ("solid", "dash", "dot", "dashdot")
MARKS = {
    "o": "circle", "^": "triangle-up", "s": "square", "D": "diamond", "v": "triangle-down", "P": "pentagon",
}  # fmt: skip
SCALE = [[k / (len(TONES) - 1), tone] for k, tone in enumerate(TONES)]
FONT = dict(family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif", size=13, color=INK)
SAYS = "%{customdata[1]}<extra></extra>"


BETWEEN = 0.05  # space between pictures, relative to the height of the page


def figure_of(pictures: Sequence[Picture]) -> dict[str, Any]:
    """Return a figure for plotly's JavaScript: pictures one above the other, with a common x axis.

    Parameters
    ----------
    pictures : sequence of Picture

    Examples
    --------
    >>> figure = figure_of([Picture([Line(np.array([0.0, 1.0]), np.array([1.0, 2.0]))], "x", "y")])
    >>> figure["data"][0]["mode"], figure["layout"]["yaxis"]["title"]["text"]
    ('lines', 'y')
    """
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = dict(
        paper_bgcolor="white", plot_bgcolor="white", font=FONT, margin=dict(l=62, r=18, t=30, b=88),
        height=430 if len(pictures) < 4 else 740, hovermode="closest",
        hoverlabel=dict(bgcolor="white", bordercolor=INK, align="left", font=FONT),
        legend=dict(orientation="h", yref="container", yanchor="bottom", y=0, x=0, xanchor="left"),
        meta=pictures[0].title, showlegend=bool(pictures[0].columns) or len(pictures) > 1, shapes=[], annotations=[],
    )  # fmt: skip
    for row, picture in enumerate(pictures):
        suffix = str(row + 1) if row else ""
        traces = [trace for layer in picture.layers for trace in _TRACES[type(layer)](layer)]
        if len(picture.layers) == 1 < len(pictures):  # the axis label names the curve
            traces[-1]["showlegend"] = False
        traces += [
            _reading(each, picture) for each in picture.layers if isinstance(each, Line) and each.reads
        ]
        data += [{**trace, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"} for trace in traces]
        if not picture.layers and picture.empty:
            middle = dict(xref="paper", yref="paper", x=0.5, y=0.5)
            layout["annotations"].append(dict(text=picture.empty, showarrow=False, **middle))
        across = dict(type="line", xref=f"x{suffix} domain", x0=0, x1=1, yref=f"y{suffix}")
        up = dict(type="line", yref=f"y{suffix} domain", y0=0, y1=1, xref=f"x{suffix}")
        dashed = dict(color=GREY, dash="dash", width=1.2)
        layout["shapes"] += [dict(across, y0=bound, y1=bound, line=dashed) for bound in picture.bounds]
        layout["shapes"] += [
            dict(up, x0=wall, x1=wall, line=dict(color=GREY, width=1)) for wall in picture.walls
        ]
        layout |= _axes(picture, row, len(pictures))
    return {"data": data, "layout": layout}


def _axes(picture: Picture, row: int, count: int) -> dict[str, Any]:
    """Return the layout of both axes of a picture in the given row."""
    suffix, last = str(row + 1) if row else "", row + 1 == count
    height = (1.0 - BETWEEN * (count - 1)) / count
    top = 1.0 - row * (height + BETWEEN)
    plane, found = any(isinstance(layer, Surface) for layer in picture.layers), {}
    for name, lim in (("x", picture.xlim), ("y", picture.ylim)):
        axis: dict[str, Any] = dict(
            range=lim, showgrid=not plane, showline=True, linecolor=INK, ticks="outside",
            tickcolor=INK, gridcolor="#eceae3", zeroline=False, automargin=True,
            anchor=f"{'y' if name == 'x' else 'x'}{suffix}",
        )  # fmt: skip
        if name in picture.whole and lim is not None:
            axis |= dict(dtick=max(1, round((lim[1] - lim[0]) / 8)))
        if name in picture.logs:
            axis |= dict(type="log", exponentformat="power")
        if name == "y":
            axis |= dict(domain=[max(top - height, 0.0), top])
        elif not last:
            axis |= dict(matches=f"x{count}", showticklabels=False)
        if name == "y" or last:
            axis |= dict(title=dict(text=escape(getattr(picture, name))))
        found[f"{name}axis{suffix}"] = axis
    return found


def _reading(line: Line, picture: Picture) -> dict[str, Any]:
    """Return invisible marks with the hover text of a curve, except near marks, whose text they would hide."""
    places = np.linspace(line.x[0], line.x[-1], 201)
    marked = np.concatenate([[np.inf], *(layer.x for layer in picture.layers if isinstance(layer, Points))])
    free = np.abs(places[:, None] - marked[:MOST_MARKS]).min(axis=1) > 0.012 * np.ptp(places)
    said = "<br>".join(escape(part) for part in line.reads.split("<br>"))
    return dict(
        x=places[free], y=np.interp(places[free], line.x, line.y), mode="markers", showlegend=False,
        marker=dict(size=6, opacity=0, color=INK), hovertemplate=f"{said}<extra></extra>",
    )  # fmt: skip


def _line(line: Line) -> list[Any]:
    filled = np.broadcast_to(line.filled, len(line.x))
    symbols = [MARKS[line.symbol] + ("" if full else "-open") for full in filled] if line.symbol else None
    kink = line.which is not None
    return [
        dict(
            x=line.x, y=line.y, mode="lines+markers" if line.symbol else "lines", name=escape(line.name),
            showlegend=bool(line.name), marker=dict(symbol=symbols, size=7, color=line.color),
            line=dict(color=line.color, width=1.4 * line.width, dash=DASHES[line.dash % 4]),
            customdata=[line.which] * len(line.x) if kink else None, hovertemplate=SAYS if kink else None,
            hoverinfo=None if line.symbol or kink else "skip",
        )
    ]  # fmt: skip


def _points(points: Points) -> list[Any]:
    n, hollow = len(points.x), points.face == "none"
    shown = np.arange(n)
    if points.which is None and n > MOST_MARKS:
        shown = np.linspace(0, n - 1, MOST_MARKS).astype(int)
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
        dict(
            x=points.x[shown], y=points.y[shown], mode="markers",
            name=escape(points.name), showlegend=bool(points.name), customdata=tags, hovertemplate=tags and SAYS,
            cliponaxis=False,
            marker=dict(
                symbol=[MARKS[points.symbol] + "-open" * hollow] * len(shown), size=1.5 * size, opacity=1,
                line=dict(color=points.edge, width=1.5), **colors,
            ),
        )
    ]  # fmt: skip


def _surface(surface: Surface) -> list[Any]:
    levels, (low, high), name = surface.levels(), surface.scale, escape(surface.name)
    step = levels[1] - levels[0]
    place = dict(type="contour", x=surface.first, y=surface.second, autocontour=False)
    found: list[Any] = [
        dict(
            place, z=np.clip(surface.values, low, high), colorscale=SCALE, zmin=low, zmax=high,
            line=dict(width=0.4, color=GREY), contours=dict(start=levels[1], end=levels[-2], size=step),
            colorbar=dict(title=dict(text=name, side="right"), thickness=14, outlinewidth=0, dtick=2 * step, tick0=0),
            hovertemplate=f"%{{x:.4g}}, %{{y:.4g}}<br>{name} %{{z:.4g}}<extra></extra>",
        )
    ]  # fmt: skip
    if surface.wall is not None:
        at = dict(start=surface.wall, end=surface.wall, size=1, coloring="none")
        found.append(dict(
            place, z=surface.values, contours=at, line=dict(width=3, color=INK), showscale=False, showlegend=False,
            hoverinfo="skip",
        ))  # fmt: skip
    return found


_TRACES: dict[type, Any] = {Line: _line, Points: _points, Surface: _surface}
