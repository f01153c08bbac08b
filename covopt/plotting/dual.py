"""The dual function and its bound: against the kink of a neuron with one input, else as slack of the neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import counted, one_line
from covopt.errors import CovoptError
from covopt.exact.rounding import EPS
from covopt.oracles.base import heights
from covopt.plotting.function import BETWEEN_KINKS, kinks_of
from covopt.plotting.pictures import (
    INK,
    MOST_MARKS,
    PALE,
    Line,
    Marked,
    Picture,
    Points,
    by_sign,
    draw,
    label_of,
    limits,
    marked_of,
    short,
)
from covopt.potentials import make_potential

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROOF = (
    "No neuron anywhere exceeds the bound. The network is optimal where its neurons reach it, up to the gap. "
    "Rings are neurons of the tight set."
)


def dual_values(
    dual: np.ndarray, lifted: np.ndarray, neurons: np.ndarray, potential: str = "variation"
) -> np.ndarray:
    """Return the dual function ⟨λ, σ(X̃ w/ω(w))⟩ at each neuron (its norm for several outputs)."""
    length = make_potential(potential).weigh(lifted, neurons)
    unit = neurons / np.where(length > 0, length, 1.0)[:, None]
    dual = np.asarray(dual, dtype=float).reshape(len(lifted), -1)
    values = heights(lifted, dual, unit)
    return values[:, 0] if dual.shape[1] == 1 else np.linalg.norm(values, axis=1)


def scaled_dual(solution: Any) -> np.ndarray:
    """Return the dual point divided by its dual norm; unchanged with a loss and an empty network.

    Parameters
    ----------
    solution : Solution
    """
    dual_norm = solution.certificate.gauge
    touches = solution.loss is None or len(solution.network.hidden_weights) > 0
    return solution.dual / dual_norm if touches and 0.0 < dual_norm < np.inf else solution.dual


def tight_neurons(solution: Any) -> tuple[np.ndarray, str]:
    """Return the tight set, to the accuracy of the dual point, and a sentence if it is cut or not shown.

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
    """Return the label for the length of a neuron.

    Parameters
    ----------
    solution : Solution
    """
    return "‖w‖" if solution.potential == "variation" else "ω(w)"


def dual_picture(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    """Return the dual function on the sphere of neurons with its bound 1.

    For one input and a bias it is drawn against the kink of the neuron, else as the slack of the neurons.

    Parameters
    ----------
    solution : Solution
    marked : Marked
        Its neurons, in the units of the problem that was solved.
    tight : (n, D) array
        The tight set.
    """
    of_one = solution.data.n_features == 1 and solution.data.bias > 0
    return (_kinks if of_one else _slack)(solution, marked, tight)


def _values(solution: Any, neurons: np.ndarray) -> np.ndarray:
    return dual_values(scaled_dual(solution), solution.data.lifted, neurons, solution.potential)


def _sets(solution: Any, marked: Marked, tight: np.ndarray, where: Any) -> list[Points]:
    """Return rings for the tight set and triangles for the neurons, at most the ``MOST_MARKS`` costliest."""
    most, count = np.sort(np.argsort(-marked.share, kind="stable")[:MOST_MARKS]), len(marked.hidden)
    crowd = float(np.clip(np.sqrt(60 / max(len(tight), len(most), 1)), 0.5, 1.0))
    layers = [_ring(solution, tight, where(tight), 9.0 * crowd)] if len(tight) else []
    if count:
        name = "neurons" if len(most) == count else f"neurons, the costliest of {count}"
        x, y = where(marked.hidden[most])
        layers += by_sign(x, y, marked, most, name, 6.0 * crowd)
    return layers


def _ring(solution: Any, tight: np.ndarray, at: tuple[np.ndarray, np.ndarray], size: float) -> Points:
    data, values = solution.data, _values(solution, tight)
    names = [*(label_of(name, 24) for name in data.feature_names[:6]), *(["bias"] if data.bias > 0 else [])]

    def says(i: int) -> list[str]:
        weights = ", ".join(f"{name} {short(w)}" for name, w in zip(names, tight[i], strict=False))
        return [f"tight: {weights}", f"dual {short(values[i], 10)}"]

    return Points(*at, f"tight set ({len(tight)})", size=size, face="none", says=says)


def _kinks(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    data, scaling = solution.data, solution.scaling
    low, high = limits(data.X[:, 0])

    def seen(place: Any) -> Any:
        return place if scaling is None else scaling.centre[0] + scaling.scale[0] * place

    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.nan_to_num(kinks_of(w, data.bias), nan=low, posinf=high, neginf=low)
        return seen(np.clip(place, low, high)), _values(solution, w)

    bent = kinks_of(np.vstack([tight, marked.hidden]), data.bias)
    inside = bent[(bent >= low) & (bent <= high)]
    grid = np.unique(np.concatenate([np.linspace(low, high, BETWEEN_KINKS), data.X[:MOST_MARKS, 0], inside]))
    layers = []
    # the two functions are often equal: then the thin line lies within the broad one
    for width, color, side, sign in ((3.6, PALE, "left", -1.0), (1.2, INK, "right", 1.0)):
        values = _values(solution, sign * np.column_stack([np.ones(len(grid)), -grid / data.bias]))
        reads = "%{x}<br>dual %{y:.5f}" if side == "right" else ""
        layers.append(Line(seen(grid), values, f"active to the {side}", color, width=width, reads=reads))
    network = kinks_of(marked.hidden, data.bias)
    outside = int((~((network >= low) & (network <= high))).sum())
    note = f"\n{counted(outside, 'neuron')} outside stand at the edge" if outside else ""
    both = np.asarray(solution.dual).ndim == 1
    return Picture(
        [*layers, *_sets(solution, marked, tight, where)],
        f"where the neuron bends ({label_of(data.feature_names[0])})", f"dual at {unit_of(solution)} = 1",
        f"the dual function never leaves its bound{note}", (seen(low), seen(high)),
        (-1.12 if both else -0.04, 1.12), bounds=(1, -1) if both else (1,),
        caption=f"{PROOF} Against the place where the neuron bends, and the side on which it is active; those that "
        "bend beyond an edge are drawn at it.",
    )  # fmt: skip


def _slack(solution: Any, marked: Marked, tight: np.ndarray) -> Picture:
    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = np.maximum(1.0 - np.abs(_values(solution, w)), EPS)
        return np.argsort(np.argsort(slack, kind="stable")) + 1, slack

    most = max(len(tight), min(len(marked.hidden), MOST_MARKS))
    return Picture(
        _sets(solution, marked, tight, where), "neurons, sorted by slack",
        f"slack  1 − |dual|,  {unit_of(solution)} = 1", "how far the dual function stays below its bound",
        (0, most + 1), logs="y",
        whole="x", empty="the network has no neuron",
        caption=f"{PROOF} Slack is the distance to the bound; below 1e-6 it is rounding or the tolerance.",
    )  # fmt: skip


def plot_dual(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the dual function on the unit sphere with its bound 1.

    The network is optimal because the dual function stays in [−1, 1] and attains ±1 at each of its neurons. With one
    input and a bias it is drawn against the kink of the neuron; else the slack of the neurons and of the tight set is
    drawn, sorted, on a logarithmic axis. The tight set is left out if it is not available: it needs a gap of 1e-9, or
    at most 60 samples.

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
