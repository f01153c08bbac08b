"""The neurons of a solution in words: weights, cost, cell, slack; for hovering and for the table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from covopt.checks.wording import counted, one_line
from covopt.plotting.dual import dual_values, scaled_dual
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import Marked, Picture, by_sign, short
from covopt.potentials import make_potential

MOST_NEURONS = 400  # that are described: each is looked at on all points
MOST_WEIGHTS = 6  # of a neuron that are written out; of more the largest are
MOST_SIGHTS = 60, 200  # neurons and points in the picture of what they see
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
    columns: list[str]
    rows: list[list[str]]

    def texts(self) -> list[str]:
        """Return what hovering says of each."""
        said = [zip(self.columns, map(escape, row), strict=True) for row in self.rows]
        return ["<br>".join(f"{escape(name)} {value}" for name, value in row) for row in said]

    def marked(self, *, yours: bool = False) -> Marked:
        """Return them as pictures mark them, on request with the weights that they have on the user's columns."""
        share = self.cost / (self.cost.max(initial=0.0) or 1.0)
        return Marked(self.yours if yours else self.hidden, share, self.positive)


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
    positive = np.take_along_axis(outputs, np.abs(outputs).argmax(axis=1)[:, None], axis=1)[:, 0] > 0
    slack = 1.0 - np.abs(dual_values(scaled_dual(solution), lifted, hidden, solution.potential))
    side = np.zeros((len(hidden), len(lifted)), dtype=np.int8)
    norms = np.linalg.norm(lifted, axis=1)
    for j, w in enumerate(hidden):
        reach = lifted @ w
        side[j] = np.where(np.abs(reach) <= ON_THE_KINK * norms * np.linalg.norm(w), 0, np.sign(reach))
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
    """Return which points each neuron sees: a row of marks for each neuron, those of one cell together.

    Parameters
    ----------
    solution : Solution
    neurons : Neurons
    """
    most, data = MOST_SIGHTS, solution.data
    points = np.linspace(0, data.n_samples - 1, min(data.n_samples, most[1])).astype(int)
    points = points[np.argsort(data.X[points, 0], kind="stable")] if data.n_features else points
    shown = np.arange(len(neurons.hidden))[: most[0]]
    # by how many points they see: one input makes a staircase
    order = shown[np.lexsort((neurons.cell[shown], (neurons.side[shown] > 0).sum(axis=1)))]
    row, place = np.nonzero(neurons.side[order][:, points] > 0)
    layers = by_sign(place + 1.0, row + 1.0, neurons.marked(), order[row], "active", 5.0)
    name = f"points, by {one_line(data.feature_names[0], 40)}" if data.n_features else "points"
    return Picture(
        layers, name, "neurons", "which points each neuron sees", (0, len(points) + 1), (0, len(order) + 1),
        whole="xy", empty="no neuron is active",
        caption="A row for each neuron, with a mark where it is active on the point.",
    )  # fmt: skip
