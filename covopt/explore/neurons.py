"""The neurons of a solution in words: weights, cost, cell, slack; for hovering and for the table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from covopt.checks.wording import counted, one_line
from covopt.explore.drawing import drawn_points, lay_out
from covopt.plotting.dual import dual_values, scaled_dual
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import INK, NEGATIVE, POSITIVE, Marked, round_step, short
from covopt.potentials import make_potential

MOST_ROWS = 400  # of the table
MOST_NEURONS = 1000  # that are described: each is looked at on all points
MOST_WEIGHTS = 6  # of a neuron that are written out; of more the largest are
ON_THE_KINK = 1e-9  # |x̃·w| of |x̃||w|


@dataclass(frozen=True)
class Neurons:
    """Neurons in the order of their cost, the costliest first; of many the costliest alone.

    Attributes
    ----------
    hidden, outputs : (m, D) and (m, k) arrays
    yours : (m, D) array
        Hidden weights on the user's columns, where others were solved for.
    cost : (m,) array
        Their sum is the cost of the network, without its output bias.
    positive : (m,) array of bool
        Whether the largest output weight is.
    slack : (m,) array
        One minus the dual function at the neuron: zero where it is tight.
    side : (m, N) array of int8
        1 where the neuron is active on the point, 0 where its kink passes through the point, −1 elsewhere.
    cell : (m,) array of int
        Neurons of one cell have the same sides; cells count from 1, that of the costliest neuron first.
    texts : list of str
        What hovering says.
    columns, rows : list of str, list of lists of str
        The table.
    """

    hidden: np.ndarray
    outputs: np.ndarray
    yours: np.ndarray
    cost: np.ndarray
    positive: np.ndarray
    slack: np.ndarray
    side: np.ndarray
    cell: np.ndarray
    texts: list[str]
    columns: list[str]
    rows: list[list[str]]

    def __len__(self) -> int:
        return len(self.hidden)


def describe(solution: Any) -> Neurons:
    """Return the neurons of a solution, described.

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
    order = np.argsort(-cost, kind="stable")[:MOST_NEURONS]
    hidden, outputs, cost = hidden[order], outputs[order], cost[order]
    positive = (
        outputs[np.arange(len(outputs)), np.abs(outputs).argmax(axis=1)] > 0
        if len(outputs)
        else np.zeros(0, bool)
    )
    slack = 1.0 - np.abs(dual_values(scaled_dual(solution), lifted, hidden, solution.potential))
    side = _sides(hidden, lifted)
    cell = _cells(side)
    yours = hidden if solution.scaling is None else solution.scaling.fold(hidden, data.bias)
    return Neurons(
        hidden, outputs, yours, cost, positive, slack, side, cell,
        *_words(solution, hidden, yours, outputs, cost, slack, side, cell),
    )  # fmt: skip


def marked(neurons: Neurons, *, yours: bool = False) -> Marked:
    """Return the neurons as pictures mark them, on request with the weights that they have on the user's columns.

    Parameters
    ----------
    neurons : Neurons
    yours : bool
    """
    hidden = neurons.yours if yours else neurons.hidden
    return Marked(hidden, neurons.cost / (neurons.cost.max(initial=0.0) or 1.0), neurons.positive)


def _sides(hidden: np.ndarray, lifted: np.ndarray) -> np.ndarray:
    """Return the side of every kink on which every point lies."""
    side = np.zeros((len(hidden), len(lifted)), dtype=np.int8)
    norms = np.linalg.norm(lifted, axis=1)
    for j, w in enumerate(hidden):
        reach = lifted @ w
        side[j] = np.sign(np.where(np.abs(reach) <= ON_THE_KINK * norms * np.linalg.norm(w), 0.0, reach))
    return side


def _cells(side: np.ndarray) -> np.ndarray:
    """Return the numbers of the distinct rows, in the order in which they come."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known) + 1) for row in side], dtype=int)


def _words(
    solution: Any,
    hidden: np.ndarray,
    bent: np.ndarray,
    outputs: np.ndarray,
    cost: np.ndarray,
    slack: np.ndarray,
    side: np.ndarray,
    cell: np.ndarray,
) -> tuple[list[str], list[str], list[list[str]]]:
    """Return hover texts, and the columns and rows of the table."""
    data = solution.data
    inputs = [*(one_line(name, 24) for name in data.feature_names), *(["bias"] if data.bias > 0 else [])]
    targets = [one_line(name, 24) for name in data.target_names]
    total = float(cost.sum()) or 1.0
    few = len(inputs) <= MOST_WEIGHTS
    kinked = data.n_features == 1
    columns = [
        "neuron", *([f"w: {name}" for name in inputs] if few else ["w, largest first"]),
        *([f"v: {name}" for name in targets] if len(targets) <= 4 else ["‖v‖"]),
        *([f"kink at {inputs[0]}"] if kinked else []),
        "cost", "of all", "cell", "active on", "slack",
    ]  # fmt: skip
    texts, rows = [], []
    for j, w in enumerate(hidden):
        on, touched = int((side[j] > 0).sum()), int((side[j] == 0).sum())
        largest = range(len(w)) if few else np.argsort(-np.abs(w), kind="stable")[:MOST_WEIGHTS]
        weights = [f"{inputs[i]} {short(w[i])}" for i in largest]
        if not few:
            weights.append("…")
        values = (
            [short(v) for v in outputs[j]]
            if len(targets) <= 4
            else [short(float(np.linalg.norm(outputs[j])))]
        )
        kink = []
        if kinked:
            kink = [short(float(kinks_of(bent[j : j + 1], data.bias)[0])) if w[0] else "none"]
        active = f"{on} of {counted(len(side[j]), 'point')}"
        through = f", kink through {counted(touched, 'point')}" if touched else ""
        said = [
            f"<b>neuron {j + 1}</b>",
            f"w: {escape(', '.join(weights))}",
            f"v: {escape(', '.join(f'{name} {value}' for name, value in zip(targets, values, strict=False)))}"
            if len(targets) <= 4
            else f"‖v‖: {values[0]}",
            *([f"kink at {escape(inputs[0])} = {kink[0]}"] if kinked else []),
            f"cost {short(cost[j])}, {cost[j] / total:.1%} of all",
            f"cell {cell[j]}: active on {active}{through}",
            f"slack {short(slack[j], 2)}",
        ]
        texts.append("<br>".join(said))
        if j < MOST_ROWS:
            rows.append([
                str(j + 1), *([short(value) for value in w] if few else [", ".join(weights)]), *values, *kink,
                short(cost[j]), f"{cost[j] / total:.1%}", str(cell[j]), f"{on} of {len(side[j])}", short(slack[j], 2),
            ])  # fmt: skip
    return texts, columns, rows


def sign_marks(positive: np.ndarray, size: float) -> dict[str, Any]:
    """Return markers: filled upwards for positive output weights, white downwards for negative ones."""
    edges = [POSITIVE if up else NEGATIVE for up in positive]
    return dict(
        symbol=["triangle-up" if up else "triangle-down" for up in positive],
        color=[edge if up else "white" for up, edge in zip(positive, edges, strict=True)],
        size=size,
        opacity=1,
        line=dict(width=1.8, color=edges),
    )


def cell_figure(solution: Any, neurons: Neurons) -> Any:
    """Draw which points each neuron sees: a row for each neuron, those of one cell together.

    Parameters
    ----------
    solution : Solution
    neurons : Neurons
    """
    import plotly.graph_objects as go

    data = solution.data
    points = drawn_points(data.n_samples)
    points = points[np.argsort(data.X[points, 0], kind="stable")] if data.n_features else points
    # those that grow to the right first, then by how many points they see: one input makes two staircases
    right = neurons.hidden[:, 0] > 0 if neurons.hidden.shape[1] else np.ones(len(neurons), dtype=bool)
    order = np.lexsort((neurons.cell, (neurons.side > 0).sum(axis=1), ~right))[: MOST_ROWS // 2]
    figure = go.Figure()
    place = np.arange(1, len(points) + 1)
    rows = np.arange(len(order))
    if len(order):
        figure.add_trace(go.Heatmap(
            x=place, y=rows, z=neurons.side[order][:, points], zmin=-1, zmax=1, showscale=False,
            colorscale=[
                [0, "#ffffff"], [0.33, "#ffffff"], [0.33, INK], [0.67, INK], [0.67, "#b9d3dd"], [1, "#b9d3dd"],
            ],
            xgap=1 if len(points) <= 40 else 0, ygap=1 if len(order) <= 30 else 0, hoverinfo="skip",
        ))  # fmt: skip
        figure.add_trace(go.Scatter(
            x=np.full(len(order), -0.02 * len(points)), y=rows, mode="markers", cliponaxis=False, showlegend=False,
            marker=sign_marks(neurons.positive[order], 8), customdata=[[int(j), neurons.texts[j]] for j in order],
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    many = len(order) > 24
    step = max(1, int(round_step(len(points), 6))) if len(points) else 1
    lay_out(figure, height=430)
    name = one_line(data.feature_names[0], 40) if data.n_features else ""
    figure.update_xaxes(
        title_text=f"points, by {name}" if name else "points", range=[-0.05 * len(points), len(points) + 1],
        showgrid=False, tickvals=list(range(step, len(points) + 1, step)),
    )  # fmt: skip
    figure.update_yaxes(
        title_text="neurons" if many else "", range=[max(len(order), 1) - 0.5, -0.5], showgrid=False,
        tickvals=[] if many else rows, ticktext=[f"{j + 1}, cell {neurons.cell[j]}" for j in order], ticks="",
    )  # fmt: skip
    return figure
