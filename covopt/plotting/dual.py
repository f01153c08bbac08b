"""The dual function against its bound: along a line of kinks, on the circle, or as slack of the neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.wording import counted, one_line
from covopt.errors import CovoptError
from covopt.network.inputs import pairs_at_a_time
from covopt.oracles.base import heights
from covopt.plotting.drawing import draw
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import (
    INK,
    MOST_MARKS,
    PALE,
    Line,
    Marked,
    Picture,
    Points,
    by_sign,
    label_of,
    limits,
    marked_of,
    short,
)
from covopt.potentials import make_potential

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOOR = 1e-16  # of the slack, on a logarithmic axis
PROOF = (
    "No neuron anywhere exceeds the bound. The network is optimal where its neurons reach it, up to the gap. "
    "Rings are neurons of the tight set."
)


def dual_values(
    dual: np.ndarray, lifted: np.ndarray, neurons: np.ndarray, potential: str = "variation"
) -> np.ndarray:
    """Return the dual function ⟨λ, σ(X̃ w/ω(w))⟩ (its norm where there are several outputs)."""
    length = make_potential(potential).weigh(lifted, neurons)
    unit = neurons / np.where(length > 0, length, 1.0)[:, None]
    dual = np.asarray(dual, dtype=float).reshape(len(lifted), -1)
    values = heights(lifted, dual, unit)
    return values[:, 0] if dual.shape[1] == 1 else np.linalg.norm(values, axis=1)


def scaled_dual(solution: Any) -> np.ndarray:
    """Return the dual that touches its bound: divided by its gauge, where a network says that the bound is reached.

    Parameters
    ----------
    solution : Solution
    """
    gauge = solution.certificate.gauge
    touches = solution.loss is None or len(solution.network.hidden_weights) > 0
    return solution.dual / gauge if touches and 0.0 < gauge < np.inf else solution.dual


def along_kinks(solution: Any, places: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the dual function of one input at neurons that bend at given places.

    From the distances x − t, not from unit directions: those of a year or of seconds since 1970 all point one way.

    Parameters
    ----------
    solution : Solution
        With one input and a bias.
    places : (m,) array
        On the input of ``solution.data``.
    right : (m,) array of bool
        Whether the neuron is active to the right of its place.
    """
    data = solution.data
    x, dual = data.X[:, 0], np.asarray(scaled_dual(solution), dtype=float).reshape(data.n_samples, -1)
    sign = np.where(right, 1.0, -1.0)
    directions = np.column_stack([sign, -sign * places / data.bias])
    length = make_potential(solution.potential).weigh(data.lifted, directions)
    length = np.where(length > 0, length, 1.0)
    step = max(1, pairs_at_a_time(len(x) * len(places)) // max(1, len(x)))
    parts = [
        np.maximum(sign[i : i + step, None] * (x[None] - places[i : i + step, None]), 0.0) @ dual
        for i in range(0, len(places), step)
    ]
    values = np.concatenate(parts) if parts else np.zeros((0, dual.shape[1]))
    values = values / length[:, None]
    return values[:, 0] if dual.shape[1] == 1 else np.linalg.norm(values, axis=1)


def tight_neurons(solution: Any) -> tuple[np.ndarray, str]:
    """Return the tight set of a certified solution, to the accuracy of its own dual, and a sentence where it is cut.

    Parameters
    ----------
    solution : Solution
    """
    empty = np.zeros((0, solution.data.lifted.shape[1]))
    if solution.potential != "variation":
        kind = solution.potential
        return empty, f"The tight set is not shown: it is computed for the variation norm, not for {kind}."
    if solution.status.code != "certified":
        return empty, "The tight set is not shown: it needs a certified solution."
    try:
        found = np.asarray(solution.tight_set(refine=False).neurons).reshape(-1, empty.shape[1])
    except CovoptError as error:
        return empty, f"The tight set is not shown: {one_line(error, 200)}"
    if len(found) > MOST_MARKS:
        return found[:MOST_MARKS], f"Of the tight set the first {MOST_MARKS} of {len(found)} are shown."
    return found, ""


def unit_of(solution: Any) -> str:
    """Return what a neuron's length is called.

    Parameters
    ----------
    solution : Solution
    """
    return "‖w‖" if solution.potential == "variation" else "ω(w)"


def dual_picture(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    """Return the dual function on the sphere of neurons against its bound 1.

    Against the place where a neuron bends for one input and a bias, against the direction for two inputs without;
    else how far the neurons stay below the bound.

    Parameters
    ----------
    solution : Solution
    marked : Marked
        Its neurons, in the units of what was solved.
    tight : (n, D) array
        The tight set.
    """
    if solution.data.lifted.shape[1] != 2:
        return _slack(solution, marked, tight)
    kinks = solution.data.n_features == 1
    return _kinks(solution, marked, tight) if kinks else _circle(solution, marked, tight)


def _values(solution: Any, neurons: np.ndarray) -> np.ndarray:
    return dual_values(scaled_dual(solution), solution.data.lifted, neurons, solution.potential)


def _sets(solution: Any, marked: Marked, tight: np.ndarray, where: Any) -> list[Points]:
    """Return rings for the tight set and triangles for the neurons."""
    crowd = float(np.clip(np.sqrt(60 / max(len(tight), len(marked.hidden), 1)), 0.5, 1.0))
    layers = [_ring(solution, tight, where(tight), 9.0 * crowd)] if len(tight) else []
    if len(marked.hidden):
        x, y = where(marked.hidden)
        layers += by_sign(x, y, marked, np.arange(len(x)), "neurons", 6.0 * crowd)
    return layers


def _ring(solution: Any, tight: np.ndarray, at: tuple[np.ndarray, np.ndarray], size: float) -> Points:
    data, values = solution.data, _values(solution, tight)
    names = [*(label_of(name, 24) for name in data.feature_names[:6]), *(["bias"] if data.bias > 0 else [])]

    def says(i: int) -> list[str]:
        weights = ", ".join(f"{name} {short(w)}" for name, w in zip(names, tight[i], strict=False))
        return [f"tight: {weights}", f"dual {short(values[i], 10)}"]

    return Points(*at, f"tight set ({len(tight)})", size=size, face="none", says=says)


def _against_bounds(solution: Any, layers: list[Any], x: str, **more: Any) -> Picture:
    both = np.asarray(solution.dual).ndim == 1
    return Picture(
        layers, x, f"dual at {unit_of(solution)} = 1", ylim=(-1.12 if both else -0.04, 1.12),
        bounds=(1, -1) if both else (1,), **more,
    )  # fmt: skip


def _kinks(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    data, scaling = solution.data, solution.scaling
    low, high = limits(data.X[:, 0])

    def seen(place: Any) -> Any:
        return place if scaling is None else scaling.centre[0] + scaling.scale[0] * place

    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = kinks_of(w, data.bias)
        inside, values = (place >= low) & (place <= high), _values(solution, w)
        values[inside] = along_kinks(solution, place[inside], w[inside, 0] > 0)
        return seen(np.clip(np.nan_to_num(place, nan=low, posinf=high, neginf=low), low, high)), values

    bent = kinks_of(np.vstack([tight, marked.hidden]), data.bias)
    grid = np.concatenate(
        [np.linspace(low, high, 1081), data.X[:2000, 0], bent[(bent >= low) & (bent <= high)]]
    )
    grid, layers = np.unique(grid), []
    # where both are equal, as they often are, the thin line lies within the broad one
    for width, color, side in ((3.6, PALE, "left"), (1.2, INK, "right")):
        values = along_kinks(solution, grid, np.full(len(grid), side == "right"))
        reads = "%{x}<br>dual %{y:.5f}" if side == "right" else ""
        layers.append(Line(seen(grid), values, f"active to the {side}", color, width=width, reads=reads))
    network = kinks_of(marked.hidden, data.bias)
    outside = int((~((network >= low) & (network <= high))).sum())
    note = f"\n{counted(outside, 'neuron')} outside stand at the edge" if outside else ""
    return _against_bounds(
        solution, [*layers, *_sets(solution, marked, tight, where)],
        f"where the neuron bends ({label_of(data.feature_names[0])})",
        title=f"the dual function never leaves its bound{note}", xlim=(seen(low), seen(high)),
        caption=f"{PROOF} Against the place where the neuron bends, and the side on which it is active; those that "
        "bend beyond an edge are drawn at it.",
    )  # fmt: skip


def _angles(w: np.ndarray) -> np.ndarray:
    return np.degrees(np.arctan2(w[:, 1], w[:, 0]))


def _circle(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    data = solution.data
    # the function is smooth between the angles at which a sample switches on or off
    switches = np.concatenate([_angles(data.lifted) + 90, _angles(data.lifted) - 90])[:4000]
    grid = np.unique(np.concatenate([np.linspace(-180, 180, 1081), (switches + 180) % 360 - 180]))
    values = _values(solution, np.column_stack([np.cos(np.radians(grid)), np.sin(np.radians(grid))]))
    line = Line(grid, values, "dual function", width=1.2, reads="%{x:.1f}°<br>dual %{y:.5f}")
    layers = [line, *_sets(solution, marked, tight, lambda w: (_angles(w), _values(solution, w)))]
    first, second = (label_of(n, 20) for n in (*data.feature_names, "bias")[:2])
    return _against_bounds(
        solution, layers, f"direction of the neuron (0°: {first}, 90°: {second})",
        title="the dual function never leaves its bound", xlim=(-180, 180), xticks=range(-180, 181, 90),
        caption=PROOF,
    )  # fmt: skip


def _slack(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    layers = []
    if len(tight):
        slack = 1.0 - np.abs(_values(solution, tight))
        order = np.argsort(slack, kind="stable")
        place = np.arange(1, len(order) + 1)
        layers.append(_ring(solution, tight[order], (place, np.maximum(slack[order], FLOOR)), 7.0))
    most = np.sort(np.argsort(-marked.share, kind="stable")[:MOST_MARKS])
    if len(most):
        slack = 1.0 - np.abs(_values(solution, marked.hidden[most]))
        order = np.argsort(slack, kind="stable")
        of_all = f" costliest of {len(marked.hidden)}" if len(marked.hidden) > MOST_MARKS else ""
        x, y = np.arange(1, len(order) + 1), np.maximum(slack[order], FLOOR)
        layers += by_sign(x, y, marked, most[order], f"neurons{of_all}", 5.0)
    return Picture(
        layers, "neurons, sorted by slack", f"slack  1 − |dual|,  {unit_of(solution)} = 1",
        "how far the dual function stays below its bound", logs="y", whole="x", empty="the network has no neuron",
        caption=f"{PROOF} Slack is the distance to the bound; below 1e-6 it is rounding or the tolerance.",
    )  # fmt: skip


def plot_dual(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the dual function on the unit sphere against its bound 1.

    The network is optimal because the dual function never leaves [−1, 1] and each of its neurons sits where
    it touches. With one input and a bias it is drawn against the place where a neuron bends, with two inputs and
    no bias against the neuron's direction; beyond that, how far the neurons and the tight set stay below the bound,
    sorted, on a logarithmic axis. The tight set is left out where it is not at hand: it needs a gap of 1e-9, or at
    most 60 samples.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    network = solution.network if solution.scaling is None else solution.network.bare()
    return draw(dual_picture(solution, marked_of(network), tight_neurons(solution)[0]), ax)
