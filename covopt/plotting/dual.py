"""The dual function against its bound: along a line of kinks, on the circle, or as slack of the neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.errors import BudgetError
from covopt.network.along import pairs_at_a_time
from covopt.oracles.heights import heights
from covopt.plotting.function import INK, POSITIVE, costs_and_signs, count, legend_below, limits, new_axes
from covopt.plotting.wording import label_of
from covopt.potentials import make_potential

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOOR = 1e-16  # of the slack, on a logarithmic axis
MOST_NEURONS = 2000  # whose slack is drawn: each is an inner product with all points
DECADES = 2.0  # that a logarithmic axis shows at least


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


def kinks_of(hidden: np.ndarray, bias: float) -> np.ndarray:
    """Return where the neurons of one input bend; infinite or NaN where they do not.

    Parameters
    ----------
    hidden : (m, 2) array, or (m, 1) without a bias
    bias : float

    Examples
    --------
    >>> kinks_of(np.array([[2.0, -1.0]]), 1.0)
    array([0.5])
    """
    offset = hidden[:, 1] * bias if bias > 0 else np.zeros(len(hidden))
    with np.errstate(divide="ignore", invalid="ignore"):
        return -offset / hidden[:, 0]


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


def _tight_neurons(solution: Any) -> np.ndarray:
    """Return the tight set of a certified solution, to the accuracy of its own dual."""
    width = solution.data.lifted.shape[1]
    if solution.status.code != "certified" or solution.potential != "variation":
        return np.zeros((0, width))
    try:
        return np.asarray(solution.tight_set(refine=False).neurons).reshape(-1, width)
    except BudgetError:
        return np.zeros((0, width))


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
    ax = new_axes(ax)
    if solution.data.lifted.shape[1] != 2:
        return _plot_slack(solution, ax)
    return _plot_kinks(solution, ax) if solution.data.n_features == 1 else _plot_circle(solution, ax)


def unit_of(solution: Any) -> str:
    """Return what a neuron's length is called.

    Parameters
    ----------
    solution : Solution
    """
    return "‖w‖" if solution.potential == "variation" else "ω(w)"


def _bounds(solution: Any, ax: Axes) -> None:
    for bound in (-1, 1) if np.asarray(solution.dual).ndim == 1 else (1,):
        ax.axhline(bound, color="0.45", lw=1.0, ls="--", zorder=1, label="bound" if bound == 1 else None)


def _marks(ax: Axes, tight: tuple[np.ndarray, np.ndarray], neurons: tuple[np.ndarray, np.ndarray]) -> None:
    if len(tight[0]):
        ax.plot(*tight, "o", ms=9, mfc="none", mec=INK, mew=1.0, ls="", label="tight set", zorder=3)
    if len(neurons[0]):
        ax.plot(*neurons, "o", ms=4.5, color=POSITIVE, ls="", label="neurons", zorder=4)


def _plot_kinks(solution: Any, ax: Axes) -> Axes:
    data, scaling = solution.data, solution.scaling
    low, high = limits(data.X[:, 0])
    network = np.asarray(solution.network.hidden_weights)
    sets = []
    for hidden in (_tight_neurons(solution), network):
        place, right = kinks_of(hidden, data.bias), hidden[:, 0] > 0
        shown = np.isfinite(place) & (place > low) & (place < high)
        sets.append((place[shown], right[shown]))
    (tight, tight_right), (bent, bent_right) = sets
    grid = np.unique(np.concatenate([np.linspace(low, high, 1441), data.X[:, 0], tight, bent]))

    def seen(place: np.ndarray) -> np.ndarray:
        return place if scaling is None else scaling.centre[0] + scaling.scale[0] * place

    # where both are equal, as they often are, the thin line lies within the broad one
    for width, color, side in ((3.6, "0.78", "left"), (1.2, INK, "right")):
        values = along_kinks(solution, grid, np.full(len(grid), side == "right"))
        ax.plot(seen(grid), values, color=color, lw=width, label=f"active to the {side}", zorder=2)
    _bounds(solution, ax)
    _marks(
        ax, (seen(tight), along_kinks(solution, tight, tight_right)),
        (seen(bent), along_kinks(solution, bent, bent_right)),
    )  # fmt: skip
    ax.set_xlim(*seen(np.array([low, high])))
    ax.set_xlabel(f"where the neuron bends ({label_of(data.feature_names[0])})")
    ax.set_ylabel(f"⟨λ, σ(X̃w)⟩,  {unit_of(solution)} = 1")
    outside = len(network) - len(bent)
    note = f"\n{count(outside, 'neuron')} outside the picture" if outside else ""
    ax.set_title(f"the dual function never leaves its bound{note}", fontsize="medium")
    legend_below(ax, columns=3)
    return ax


def _plot_circle(solution: Any, ax: Axes) -> Axes:
    lifted, dual = solution.data.lifted, scaled_dual(solution)

    def angle_of(w: np.ndarray) -> np.ndarray:
        return np.degrees(np.arctan2(w[:, 1], w[:, 0]))

    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return angle_of(w), dual_values(dual, lifted, w, solution.potential)

    # The function is smooth between the angles at which a sample switches on or off.
    switches = np.concatenate([angle_of(lifted) + 90, angle_of(lifted) - 90])
    grid = np.unique(np.concatenate([np.linspace(-180, 180, 1441), (switches + 180) % 360 - 180]))
    circle = np.column_stack([np.cos(np.radians(grid)), np.sin(np.radians(grid))])
    ax.plot(grid, where(circle)[1], color=INK, lw=1.2, label="dual function", zorder=2)
    _bounds(solution, ax)
    _marks(ax, where(_tight_neurons(solution)), where(np.asarray(solution.network.hidden_weights)))
    ax.set_xlim(-180, 180)
    ax.set_xticks(range(-180, 181, 90))
    first, second = (label_of(name, 20) for name in solution.data.feature_names)
    ax.set_xlabel(f"direction of the neuron (0°: {first}, 90°: {second})")
    ax.set_ylabel(f"⟨λ, σ(X̃w)⟩,  {unit_of(solution)} = 1")
    ax.set_title("the dual function never leaves its bound", fontsize="medium")
    legend_below(ax)
    return ax


def _plot_slack(solution: Any, ax: Axes) -> Axes:
    from matplotlib.ticker import MaxNLocator

    lifted, dual = solution.data.lifted, scaled_dual(solution)
    hidden, cost = np.asarray(solution.network.hidden_weights), costs_and_signs(solution.network)[0]
    ax.set_xlabel("neurons, sorted by slack")
    ax.set_ylabel(f"slack  1 − |⟨λ, σ(X̃w)⟩|,  {unit_of(solution)} = 1")
    ax.set_title("how far the dual function stays below its bound", fontsize="medium")
    sets = (
        ("tight set", _tight_neurons(solution), "o", False),
        (
            "neurons of the network",
            hidden[np.sort(np.argsort(-cost, kind="stable")[:MOST_NEURONS])],
            ".",
            True,
        ),
    )
    of_all = f" costliest of {len(hidden)}" if len(hidden) > MOST_NEURONS else ""
    for label, neurons, marker, filled in sets:
        if len(neurons) == 0:
            continue
        slack = np.sort(1.0 - np.abs(dual_values(dual, lifted, neurons, solution.potential)))
        ax.plot(
            np.arange(1, len(slack) + 1), np.maximum(slack, FLOOR), marker, ms=6.0,
            mfc=POSITIVE if filled else "none", mec=POSITIVE if filled else INK, mew=0.9,
            label=f"{label} ({len(slack)}{of_all if filled else ''})", zorder=3 if filled else 2,
        )  # fmt: skip
    if not ax.lines:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "the network has no neuron", ha="center", va="center", transform=ax.transAxes)
        return ax
    ax.set_yscale("log")
    widen(ax)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    legend_below(ax)
    return ax


def widen(ax: Axes) -> None:
    """Give a logarithmic axis two decades at least: on less its ticks are no powers of ten, or all alike.

    Parameters
    ----------
    ax : matplotlib Axes
    """
    low, high = np.log10(ax.get_ylim())
    if high - low < DECADES:
        middle = 0.5 * (low + high)
        ax.set_ylim(10.0 ** (middle - 0.5 * DECADES), 10.0 ** (middle + 0.5 * DECADES))
