"""Functions of three inputs and more: slices through the medians, and predicted against actual."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from covopt.checks.wording import one_line
from covopt.explore.panels import DASHES, GREY, MARKS, MOST_OUTPUTS, Panel, drawn_points, lay_out, short
from covopt.plotting.classes import PROBABILITIES, chances_of, classes_of, codes_of
from covopt.plotting.function import INK, limits, predict_columns
from covopt.plotting.many_inputs import partial_dependence

MOST_SLICES = 6
PLACES = 61


def slice_panels(steps: Sequence[Any]) -> list[Panel]:
    """Return the panels about a function of three inputs and more.

    Parameters
    ----------
    steps : sequence of Solution
        One, or those of a path.
    """
    data, loss = steps[0].data, steps[0].loss
    classes = loss is not None and loss.is_classification
    last = steps[-1]
    reach = [float(np.ptp(_slice(last, j)[1], axis=0).max(initial=0.0)) for j in range(data.n_features)]
    chosen = np.argsort([-r for r in reach], kind="stable")[:MOST_SLICES]
    left = data.n_features - len(chosen)
    slices = (
        "One input moves, the others stay at their medians"
        + (". Thin grey: the mean over the data instead" if _names_of(last)[1:] == [] else "")
        + (f". The {left} inputs that move it less are not drawn." if left else ".")
    )
    panels = []
    if classes:
        caption = "Samples of each class, sorted by the probability of their own class"
        caption += "; above the line they are right." if len(classes_of(last)) == 2 else "."
        figures = [_scores(s) for s in steps]
        panels.append(Panel("predicted", "How sure it is of the true class", caption, figures))
    else:
        caption = "On the dashed line the network is right."
        figures = [_predicted(s) for s in steps]
        panels.append(Panel("predicted", "Predicted against actual", caption, figures))
    if len(chosen):
        panels.append(Panel("slices", "Slices", slices, [_slices(s, chosen) for s in steps]))
    return panels


def _names_of(solution: Any) -> list[str]:
    """Return the outputs that slices show."""
    if solution.loss is not None and solution.loss.is_classification:
        names = classes_of(solution)
        sure = solution.loss.name in PROBABILITIES
        said = [f"P({one_line(n, 40)})" if sure else f"predicted {one_line(n, 40)}" for n in names]
        return said[1:2] if len(names) == 2 else said[:MOST_OUTPUTS]
    return [one_line(name, 40) for name in solution.data.target_names[:MOST_OUTPUTS]]


def _outputs(solution: Any, X: np.ndarray) -> np.ndarray:
    if solution.loss is not None and solution.loss.is_classification:
        chances = chances_of(solution, X)
        return chances[:, 1:2] if chances.shape[1] == 2 else chances[:, :MOST_OUTPUTS]
    return predict_columns(solution.network, X)[:, :MOST_OUTPUTS]


def _slice(solution: Any, feature: int) -> tuple[np.ndarray, np.ndarray]:
    X = solution.data.X
    places = np.linspace(X[:, feature].min(), X[:, feature].max(), PLACES)
    table = np.repeat(np.median(X, axis=0)[None], PLACES, axis=0)
    table[:, feature] = places
    return places, _outputs(solution, table)


def _slices(solution: Any, chosen: np.ndarray) -> Any:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    data, names = solution.data, _names_of(solution)
    columns = min(len(chosen), 2)
    rows = -(-len(chosen) // columns)
    figure = make_subplots(
        rows, columns, shared_yaxes="all", horizontal_spacing=0.06, vertical_spacing=0.5 / rows
    )
    classes = solution.loss is not None and solution.loss.is_classification
    for place, feature in enumerate(int(j) for j in chosen):
        at = dict(row=place // columns + 1, col=place % columns + 1)
        places, values = _slice(solution, feature)
        label = escape(one_line(data.feature_names[feature], 30))
        if len(names) == 1:
            grid, mean = partial_dependence(solution, feature)
            figure.add_trace(go.Scatter(
                x=grid, y=mean[:, 1 if classes else 0], mode="lines", name="mean over the data",
                showlegend=place == 0, line=dict(color=GREY, width=1.2, dash="dot"), legendgroup="mean",
                hovertemplate=f"{label} %{{x:.4g}}<br>mean %{{y:.4g}}<extra></extra>",
            ), **at)  # fmt: skip
        for j, name in enumerate(names):
            figure.add_trace(go.Scatter(
                x=places, y=values[:, j], mode="lines", name=escape(name) if len(names) > 1 else "slice",
                showlegend=place == 0, legendgroup=f"slice {j}", line=dict(color=INK, width=2, dash=DASHES[j % 4]),
                hovertemplate=f"{label} %{{x:.4g}}<br>{escape(name)} %{{y:.4g}}<extra></extra>",
            ), **at)  # fmt: skip
        figure.update_xaxes(title=dict(text=label, standoff=6), nticks=5, **at)
    lay_out(figure, height=max(430, 200 * rows + 60))
    figure.update_yaxes(title_text=escape(names[0]) if len(names) == 1 else "outputs", col=1)
    if classes:
        figure.update_yaxes(range=[-0.04, 1.04])
    return figure


def _predicted(solution: Any) -> Any:
    import plotly.graph_objects as go

    data = solution.data
    said = predict_columns(solution.network, data.X)
    low, high = limits(np.concatenate([said.ravel(), data.Y.ravel()]))
    shown = drawn_points(data.n_samples)
    figure = go.Figure()
    figure.add_trace(go.Scatter(
        x=[low, high], y=[low, high], mode="lines", line=dict(color=GREY, dash="dash", width=1), name="equal",
        hoverinfo="skip",
    ))  # fmt: skip
    for j, target in enumerate(data.target_names[:MOST_OUTPUTS]):
        name = escape(one_line(target, 40))
        figure.add_trace(go.Scatter(
            x=data.Y[shown, j], y=said[shown, j], mode="markers", name=name,
            marker=dict(symbol=MARKS[j % len(MARKS)], size=8, color="#d7d7d7" if j == 0 else "white",
                        line=dict(color=INK, width=1.2)),
            customdata=[
                [-1, f"point {i + 1}<br>{name} {short(data.Y[i, j])}<br>f {short(said[i, j])}"] for i in shown
            ],
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    lay_out(figure, x="in the data", y="by the network")
    figure.update_xaxes(range=[low, high])
    figure.update_yaxes(range=[low, high])
    return figure


def _scores(solution: Any) -> Any:
    import plotly.graph_objects as go

    names, codes = [escape(one_line(c, 40)) for c in classes_of(solution)], codes_of(solution)
    chances = chances_of(solution, solution.data.X)
    best = chances.argmax(axis=1)
    figure = go.Figure()
    if len(names) == 2:
        figure.add_hline(y=0.5, line=dict(color=GREY, dash="dash", width=1))
    for k, name in enumerate(names):
        of = np.flatnonzero(codes == k)
        of = of[np.argsort(chances[of, k], kind="stable")]
        of = of[drawn_points(len(of))]
        right, all_of_it = int((best[codes == k] == k).sum()), int((codes == k).sum())
        figure.add_trace(go.Scatter(
            x=np.linspace(0, 1, len(of)) if len(of) > 1 else np.full(len(of), 0.5), y=chances[of, k],
            mode="lines+markers", name=f"{name}: {right} of {all_of_it} right",
            marker=dict(symbol=MARKS[k % len(MARKS)], size=7, color="white", line=dict(color=INK, width=1.2)),
            line=dict(color=GREY, width=1),
            customdata=[
                [-1, f"point {i + 1}: {name}<br>predicted {names[best[i]]}<br>P {chances[i, k]:.3f}"] for i in of
            ],
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    lay_out(figure, x="samples of each class, sorted (share)", y="probability of the true class")
    figure.update_yaxes(range=[-0.05, 1.05])
    return figure
