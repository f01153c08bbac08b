"""The function of a solution: a curve, regions or a surface with its kinks; slices where there are many inputs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from covopt.checks.wording import one_line
from covopt.explore.neurons import Neurons
from covopt.explore.panels import (
    DASHES,
    GREY,
    MARKS,
    MOST_OUTPUTS,
    TONES,
    Panel,
    add_readings,
    drawn_points,
    lay_out,
    round_step,
    short,
    sign_marks,
)
from covopt.plotting.classes import PROBABILITIES, chances_of, classes_of, codes_of
from covopt.plotting.classes import TONES as CLASS_TONES
from covopt.plotting.dual import kinks_of
from covopt.plotting.function import INK, NEGATIVE, POSITIVE, limits, predict_columns
from covopt.plotting.surface import MOST_KINKS, clip_lines

GRID = 61


def function_panels(steps: Sequence[Any], neurons: Sequence[Neurons]) -> list[Panel]:
    """Return the panels about the function of one input or of two.

    Parameters
    ----------
    steps : sequence of Solution
        One, or those of a path: the same data and targets.
    neurons : sequence of Neurons
    """
    data, loss = steps[0].data, steps[0].loss
    classes = loss is not None and loss.is_classification
    if data.n_features == 1:
        caption = (
            "The curve is exact: straight between its kinks. Triangles are kinks, upwards and filled for a positive "
            "output weight, downwards and white for a negative one; larger ones cost more."
        )
        draw = _chances_1d if classes else _curve
        heights = None if classes else _range_of(steps)
        figures = [draw(s, n, heights) for s, n in zip(steps, neurons, strict=True)]
        return [Panel("function", _what(steps[0], "The function and its kinks"), caption, figures, wide=True)]
    lines = (
        "Lines are kinks, solid for a positive output weight, dashed for a negative one; the short spur points to "
        f"the side on which the neuron is active. At most the {MOST_KINKS} costliest are drawn."
    )
    if classes:
        caption = f"Regions in which each class is predicted; the thick line is the boundary. {lines}"
        figures = [_regions(s, n) for s, n in zip(steps, neurons, strict=True)]
        return [Panel("function", _what(steps[0], "Where each class is predicted"), caption, figures)]
    panels = []
    for j, name in enumerate(data.target_names[:MOST_OUTPUTS]):
        figures = [_surface(s, n, j) for s, n in zip(steps, neurons, strict=True)]
        title = f"{one_line(name, 40)} over the plane" if data.n_outputs > 1 else "The function and its kinks"
        panels.append(
            Panel(f"function-{j}", title, f"Points are the data, on the same scale. {lines}", figures)
        )
    return panels


def _what(solution: Any, title: str) -> str:
    column = solution.loss.column if solution.loss is not None and solution.loss.is_classification else None
    return f"{title}: {one_line(column, 40)}" if column else title


def _range_of(steps: Sequence[Any]) -> tuple[float, float]:
    """Return heights that fit every step, so that the picture stands still while the slider moves."""
    data = steps[0].data
    low, high = limits(data.X[:, 0])
    values = [data.Y.ravel()]
    for s in steps:
        ends = np.array([[low], [high]])
        kinks = kinks_of(s.network.folded().hidden_weights, data.bias)
        kinks = kinks[(kinks > low) & (kinks < high)][:, None]
        values.append(predict_columns(s.network, np.vstack([data.X, ends, kinks])).ravel())
    return limits(np.concatenate(values))


def _kink_marks(figure: Any, neurons: Neurons, kinks: np.ndarray, heights: np.ndarray) -> None:
    """Add the kinks of one input."""
    import plotly.graph_objects as go

    share = neurons.cost / (neurons.cost.max(initial=0.0) or 1.0)
    for sign, name in ((True, "kink, positive weight"), (False, "kink, negative weight")):
        chosen = np.flatnonzero(np.isfinite(kinks) & np.isfinite(heights) & (neurons.positive == sign))
        if not len(chosen):
            continue
        figure.add_trace(go.Scatter(
            x=kinks[chosen], y=heights[chosen], mode="markers", name=name, customdata=neurons.tag(chosen),
            marker=sign_marks(neurons.positive[chosen], 10 + 6 * np.sqrt(share[chosen])),
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip


def _curve(solution: Any, neurons: Neurons, heights: tuple[float, float] | None) -> Any:
    import plotly.graph_objects as go

    data, network = solution.data, solution.network
    low, high = limits(data.X[:, 0])
    kinks = kinks_of(neurons.hidden, data.bias)
    kinks = np.where((kinks > low) & (kinks < high), kinks, np.nan)
    grid = np.unique(np.concatenate([[low, high], data.X[:, 0], kinks[np.isfinite(kinks)]]))
    values = predict_columns(network, grid[:, None])
    said = predict_columns(network, data.X)
    shown = drawn_points(data.n_samples)
    name = escape(one_line(data.feature_names[0], 40))
    figure = go.Figure()
    for j, target in enumerate(data.target_names[:MOST_OUTPUTS]):
        label = escape(one_line(target, 40))
        figure.add_trace(go.Scatter(
            x=grid, y=values[:, j], mode="lines", name=f"f: {label}" if data.n_outputs > 1 else "f",
            line=dict(color=INK, width=2, dash=DASHES[j % 4]),
            hoverinfo="skip",
        ))  # fmt: skip
        figure.add_trace(go.Scatter(
            x=data.X[shown, 0], y=data.Y[shown, j], mode="markers",
            name=f"data: {label}" if data.n_outputs > 1 else "data",
            marker=dict(symbol=MARKS[j % len(MARKS)], size=8, color="white", line=dict(color=INK, width=1.5)),
            customdata=[[-1, f"point {i + 1}<br>{name} {short(data.X[i, 0])}<br>{label} {short(data.Y[i, j])}"
                             f"<br>f {short(said[i, j])}"] for i in shown],
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    places = np.linspace(low, high, 201)
    marked = np.concatenate([data.X[shown, 0], kinks])
    for j, heights_of in enumerate(predict_columns(network, places[:, None]).T[:MOST_OUTPUTS]):
        label = f"f, {escape(one_line(data.target_names[j], 40))}" if data.n_outputs > 1 else "f"
        says = f"{name} %{{x:.4g}}<br>{label} %{{y:.5g}}<extra></extra>"
        add_readings(figure, places, heights_of, marked, says)
    at = np.full(len(kinks), np.nan)
    inside = np.isfinite(kinks)
    if inside.any():
        at[inside] = predict_columns(network, kinks[inside][:, None])[:, 0]
    _kink_marks(figure, neurons, kinks, at)
    target = escape(one_line(data.target_names[0], 40)) if data.n_outputs == 1 else "outputs"
    lay_out(figure, x=name, y=target)
    figure.update_xaxes(range=[low, high])
    if heights is not None:
        figure.update_yaxes(range=heights)
    return figure


def _chances_1d(solution: Any, neurons: Neurons, _heights: tuple[float, float] | None) -> Any:
    import plotly.graph_objects as go

    data = solution.data
    names, codes = [escape(one_line(c, 40)) for c in classes_of(solution)], codes_of(solution)
    low, high = limits(data.X[:, 0])
    grid = np.linspace(low, high, 601)
    chances = chances_of(solution, grid[:, None])
    sure = solution.loss.name in PROBABILITIES
    figure = go.Figure()
    drawn = [1] if len(names) == 2 else list(range(len(names)))
    for rank, k in enumerate(drawn):
        figure.add_trace(go.Scatter(
            x=grid, y=chances[:, k], mode="lines", name=f"P({names[k]})" if sure else names[k],
            line=dict(color=INK, width=2, dash=DASHES[rank % 4]),
            hovertemplate=f"%{{x:.4g}}<br>{'P' if sure else 'predicted'} %{{y:.3f}}<extra></extra>",
        ))  # fmt: skip
    shown = drawn_points(data.n_samples)
    for k, name in enumerate(names):
        of = shown[codes[shown] == k]
        figure.add_trace(go.Scatter(
            x=data.X[of, 0], y=np.full(len(of), -0.08 - 0.07 * k), mode="markers", name=name,
            marker=dict(symbol=MARKS[k % len(MARKS)], size=8, color="white", line=dict(color=INK, width=1.5)),
            customdata=[[-1, f"point {i + 1}: {name}"] for i in of], hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    kinks = kinks_of(neurons.hidden, data.bias)
    kinks = np.where((kinks > low) & (kinks < high), kinks, np.nan)
    at = np.full(len(kinks), np.nan)
    inside = np.isfinite(kinks)
    if inside.any():
        at[inside] = chances_of(solution, kinks[inside][:, None])[:, drawn[0]]
    _kink_marks(figure, neurons, kinks, at)
    lay_out(
        figure,
        x=escape(one_line(data.feature_names[0], 40)),
        y="probability" if sure else "1: predicted",
    )
    figure.update_xaxes(range=[low, high])
    figure.update_yaxes(range=[-0.1 - 0.07 * len(names), 1.06], tickvals=[0, 0.25, 0.5, 0.75, 1])
    return figure


def _plane(solution: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the axes of a grid over the data, and its points."""
    X = solution.data.X
    first, second = np.linspace(*limits(X[:, 0]), GRID), np.linspace(*limits(X[:, 1]), GRID)
    return first, second, np.column_stack([a.ravel() for a in np.meshgrid(first, second)])


def _kink_lines(figure: Any, neurons: Neurons, data: Any) -> None:
    """Add the kinks of two inputs as lines with a spur on the active side, their width by their cost."""
    import plotly.graph_objects as go

    (left, right), (bottom, top) = limits(data.X[:, 0]), limits(data.X[:, 1])
    slope = neurons.hidden[:, :2]
    offset = neurons.hidden[:, 2] * data.bias if data.bias > 0 else np.zeros(len(neurons))
    segments, kept = clip_lines(slope, offset, (left, right, bottom, top))
    segments, kept = segments[:MOST_KINKS], kept[:MOST_KINKS]  # they come in the order of their cost
    share = np.sqrt(neurons.cost[kept] / (neurons.cost.max(initial=0.0) or 1.0))
    size = np.array([right - left, top - bottom])
    spread = np.linspace(0, 1, 25)[:, None]
    named = set()
    for rank, (segment, j) in enumerate(zip(segments, kept, strict=True)):
        up = bool(neurons.positive[j])
        points = segment[0] + spread * (segment[1] - segment[0])
        foot = segment[0] + (0.25 + 0.5 * (rank * 0.618034 % 1.0)) * (segment[1] - segment[0])
        normal = slope[j] * size  # perpendicular where both axes have one length on the page
        spur = foot + 0.035 * size * normal / np.linalg.norm(normal)
        path = np.vstack([points, [[np.nan, np.nan]], [foot], [spur]])
        name = "kink, positive weight" if up else "kink, negative weight"
        figure.add_trace(go.Scatter(
            x=path[:, 0], y=path[:, 1], mode="lines", name=name, legendgroup=name, showlegend=name not in named,
            line=dict(
                color=POSITIVE if up else NEGATIVE, width=1.0 + 2.2 * share[rank], dash="solid" if up else "6px,4px"
            ),
            customdata=neurons.tag(np.full(len(path), j)), hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
        named.add(name)


def _finish_plane(figure: Any, data: Any) -> Any:
    names = [escape(one_line(name, 40)) for name in data.feature_names]
    lay_out(figure, x=names[0], y=names[1], height=470)
    figure.update_xaxes(range=limits(data.X[:, 0]), showgrid=False)
    figure.update_yaxes(range=limits(data.X[:, 1]), showgrid=False)
    return figure


def _surface(solution: Any, neurons: Neurons, output: int) -> Any:
    import plotly.graph_objects as go

    data = solution.data
    first, second, points = _plane(solution)
    values = predict_columns(solution.network, points)[:, output].reshape(GRID, GRID)
    low, high = limits(data.Y[:, output], 0.1)
    step = round_step(high - low)
    kind = (
        np.float32 if 1e-30 < high - low < 1e30 else np.float64
    )  # half the bytes, where they hold the numbers
    names = [escape(one_line(name, 40)) for name in (*data.feature_names, data.target_names[output])]
    said = predict_columns(solution.network, data.X)[:, output]
    shown = drawn_points(data.n_samples)
    figure = go.Figure()
    figure.add_trace(go.Contour(
        x=first, y=second, z=np.clip(values, low, high).astype(kind), colorscale=TONES, zmin=low, zmax=high,
        line=dict(width=0.4, color=GREY), autocontour=False,
        contours=dict(start=np.ceil(low / step) * step, end=np.floor(high / step) * step, size=step),
        colorbar=dict(title=dict(text=names[2], side="right"), thickness=14, outlinewidth=0, dtick=2 * step, tick0=0),
        hovertemplate=f"{names[0]} %{{x:.3g}}<br>{names[1]} %{{y:.3g}}<br>f %{{z:.4g}}<extra></extra>",
    ))  # fmt: skip
    _kink_lines(figure, neurons, data)
    figure.add_trace(go.Scatter(
        x=data.X[shown, 0], y=data.X[shown, 1], mode="markers", name="data",
        marker=dict(color=data.Y[shown, output], colorscale=TONES, cmin=low, cmax=high,
                    size=float(np.clip(9 * np.sqrt(150 / data.n_samples), 5, 9)),
                    line=dict(color=INK, width=1.2)),
        customdata=[[-1, f"point {i + 1}<br>{names[0]} {short(data.X[i, 0])}, {names[1]} {short(data.X[i, 1])}"
                         f"<br>{names[2]} {short(data.Y[i, output])}, f {short(said[i])}"] for i in shown],
        hovertemplate="%{customdata[1]}<extra></extra>",
    ))  # fmt: skip
    return _finish_plane(figure, data)


def _regions(solution: Any, neurons: Neurons) -> Any:
    import plotly.graph_objects as go

    data = solution.data
    names, codes = [escape(one_line(c, 40)) for c in classes_of(solution)], codes_of(solution)
    first, second, points = _plane(solution)
    chances = chances_of(solution, points)
    best = chances.argmax(axis=1)
    sure = solution.loss.name in PROBABILITIES
    said = np.array([names[k] for k in best]).reshape(GRID, GRID)
    if sure:
        shares = chances.max(axis=1).reshape(GRID, GRID)
        said = np.char.add(np.char.add(said, ", P "), np.char.mod("%.2f", shares))
    count = len(names)
    steps = [[edge / count, CLASS_TONES[k % len(CLASS_TONES)]] for k in range(count) for edge in (k, k + 1)]
    figure = go.Figure()
    figure.add_trace(go.Heatmap(
        x=first, y=second, z=best.reshape(GRID, GRID).astype(np.uint8), zmin=-0.5, zmax=count - 0.5, colorscale=steps,
        showscale=False, text=said, hovertemplate="%{text}<extra></extra>",
    ))  # fmt: skip
    for k in range(count if count > 2 else 1):
        ahead = chances[:, k] - np.delete(chances, k, axis=1).max(axis=1)
        if ahead.min() < 0 < ahead.max():
            figure.add_trace(go.Contour(
                x=first, y=second, z=ahead.reshape(GRID, GRID).astype(np.float32), autocontour=False,
                showscale=False, contours=dict(start=0, end=0, size=1, coloring="none"),
                line=dict(width=3, color=INK), hoverinfo="skip",
                name="boundary", showlegend=k == 0,
            ))  # fmt: skip
    _kink_lines(figure, neurons, data)
    shown = drawn_points(data.n_samples)
    for k, name in enumerate(names):
        of = shown[codes[shown] == k]
        figure.add_trace(go.Scatter(
            x=data.X[of, 0], y=data.X[of, 1], mode="markers", name=name,
            marker=dict(symbol=MARKS[k % len(MARKS)], size=9, color=CLASS_TONES[k % len(CLASS_TONES)],
                        line=dict(color=INK, width=1.4)),
            customdata=[[-1, f"point {i + 1}: {name}"] for i in of], hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    return _finish_plane(figure, data)
