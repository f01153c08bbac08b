"""The dual function on the sphere of neurons: a circle, a map, or how far neurons stay below the bound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from covopt.checks.wording import counted, one_line
from covopt.errors import CovoptError
from covopt.explore.neurons import Neurons
from covopt.explore.panels import GREY, INK, TONES, Panel, add_readings, lay_out, short, sign_marks
from covopt.plotting.dual import along_kinks, dual_values, kinks_of, scaled_dual, unit_of
from covopt.plotting.function import limits

FLOOR = 1e-16  # of the slack, on a logarithmic axis
MOST_TIGHT = 2000


def tight_neurons(solution: Any) -> tuple[np.ndarray, str]:
    """Return the tight set of a solution, and a sentence where there is none to show.

    Parameters
    ----------
    solution : Solution
    """
    empty = np.zeros((0, solution.data.lifted.shape[1]))
    if solution.potential != "variation":
        return (
            empty,
            f"The tight set is not shown: it is computed for the variation norm, not for {solution.potential}.",
        )
    if solution.status.code != "certified":
        return empty, "The tight set is not shown: it needs a certified solution."
    try:
        found = np.asarray(solution.tight_set(refine=False).neurons).reshape(-1, empty.shape[1])
    except CovoptError as error:
        return empty, f"The tight set is not shown: {one_line(error, 200)}"
    if len(found) > MOST_TIGHT:
        return found[:MOST_TIGHT], f"Of the tight set the first {MOST_TIGHT} of {len(found)} are shown."
    return found, ""


def dual_panel(
    steps: Sequence[Any], neurons: Sequence[Neurons], *, of_rounds: bool = False
) -> tuple[Panel, list[str]]:
    """Return the panel of the dual function, and sentences about what is not in it.

    Parameters
    ----------
    steps : sequence of Solution
    neurons : sequence of Neurons
    of_rounds : bool
        Whether all steps but the last are rounds on the way to it, which have no tight set.
    """
    width = steps[0].data.lifted.shape[1]
    asked = steps[-1:] if of_rounds else steps
    found = [(np.zeros((0, width)), "")] * (len(steps) - len(asked)) + [tight_neurons(s) for s in asked]
    notes = list(dict.fromkeys(note for _, note in found if note))
    proof = (
        "No neuron anywhere exceeds the bound, and the network's neurons sit where it is reached, up to the gap: "
        "that is the proof."
    )
    if any(s.status.code != "certified" for s in asked):
        proof = "Where every neuron of the network sits at the bound, and none exceeds it, the network is optimal."
    rings = " Rings: the tight set." if any(len(t) for t, _ in found) else ""
    draw: Any = _slacks
    if width == 2 and steps[0].data.n_features == 1:
        draw, title = _kinks, "The dual function on the circle"
        caption = (
            f"{proof} Directions by the place where a neuron bends, and the side on which it is active; those that "
            f"bend beyond an edge are drawn at it.{rings}"
        )
    elif width == 2:
        draw, title, caption = _circle, "The dual function on the circle", proof + rings
    elif width == 3:
        draw, title = _map, "The dual function on the sphere"
        caption = (
            f"{proof} The sphere as a map, as of the earth: poles are stretched to lines. "
            f"Light is low, dark is high.{rings}"
        )
    else:
        title = "How far the neurons stay below the bound"
        caption = f"{proof} Slack is the distance to the bound; below 1e-6 it is rounding or the tolerance."
    if draw is _map:
        low, high = _tilts([*(n.hidden for n in neurons), *(t for t, _ in found)])
        if high - low < 180:
            caption += " The map is cut to where neurons are; those near a pole are outside."
        draw = partial(_map, tilts=(low, high))
    figures = [draw(s, n, t) for s, n, (t, _) in zip(steps, neurons, found, strict=True)]
    return Panel("dual", title, caption, figures), notes


def _said(solution: Any, tight: np.ndarray) -> list[list[Any]]:
    """Return hover texts of the tight set."""
    values = dual_values(scaled_dual(solution), solution.data.lifted, tight, solution.potential)
    data = solution.data
    names = [*(one_line(n, 24) for n in data.feature_names[:6]), *(["bias"] if data.bias > 0 else [])]
    return [
        [-1, f"tight: {escape(', '.join(f'{n} {short(x)}' for n, x in zip(names, w, strict=False)))}"
             f"<br>dual {short(v, 10)}"]
        for w, v in zip(tight, values, strict=True)
    ]  # fmt: skip


def _add_sets(
    figure: Any, solution: Any, neurons: Neurons, tight: np.ndarray, where: Any, sizes: tuple[int, int]
) -> None:
    """Add rings for the tight set and triangles for the neurons."""
    import plotly.graph_objects as go

    crowd = float(np.clip(np.sqrt(60 / max(len(tight), len(neurons), 1)), 0.5, 1.0))
    ring, dot = (size * crowd for size in sizes)
    if len(tight):
        x, y = where(tight)
        figure.add_trace(go.Scatter(
            x=x, y=y, mode="markers", name=f"tight set ({len(tight)})", customdata=_said(solution, tight),
            marker=dict(symbol="circle-open", size=ring, color=INK, line=dict(width=1.4)),
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    if len(neurons):
        x, y = where(neurons.hidden)
        figure.add_trace(go.Scatter(
            x=x, y=y, mode="markers", name="neurons (filled: positive, white: negative)",
            customdata=neurons.tag(), marker=sign_marks(neurons.positive, dot),
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip


def _circle(solution: Any, neurons: Neurons, tight: np.ndarray) -> Any:
    import plotly.graph_objects as go

    lifted, data = solution.data.lifted, solution.data

    def angle_of(w: np.ndarray) -> np.ndarray:
        return np.degrees(np.arctan2(w[:, 1], w[:, 0]))

    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return angle_of(w), dual_values(scaled_dual(solution), lifted, w, solution.potential)

    # smooth between the angles at which a sample switches on or off
    switches = np.concatenate([angle_of(lifted) + 90, angle_of(lifted) - 90])[:4000]
    grid = np.unique(np.concatenate([np.linspace(-180, 180, 1081), (switches + 180) % 360 - 180]))
    circle = np.column_stack([np.cos(np.radians(grid)), np.sin(np.radians(grid))])
    values = dual_values(scaled_dual(solution), lifted, circle, solution.potential)
    figure = go.Figure()
    figure.add_trace(go.Scatter(
        x=grid.astype(np.float32), y=values.astype(np.float32), mode="lines", name="dual function",
        line=dict(color=INK, width=1.8), hoverinfo="skip",
    ))  # fmt: skip
    marked = angle_of(np.vstack([tight, neurons.hidden]))
    add_readings(figure, grid, values, marked, "%{x:.1f}°<br>dual %{y:.5f}<extra></extra>")
    both = np.asarray(solution.dual).ndim == 1
    for bound in (1, -1) if both else (1,):
        figure.add_hline(y=bound, line=dict(color=GREY, dash="dash", width=1.2))
    _add_sets(figure, solution, neurons, tight, where, (15, 9))
    second = "bias" if data.bias > 0 else one_line(data.feature_names[1], 24)
    first = one_line(data.feature_names[0], 24)
    lay_out(
        figure, x=f"direction of w (0°: {escape(first)}, 90°: {escape(second)})",
        y=f"dual at {unit_of(solution)} = 1",
    )  # fmt: skip
    figure.update_xaxes(range=[-180, 180], tickvals=[-180, -90, 0, 90, 180])
    figure.update_yaxes(range=[-1.12 if both else -0.04, 1.12])
    return figure


def _kinks(solution: Any, neurons: Neurons, tight: np.ndarray) -> Any:
    """Draw both arcs of the circle, neurons that are active to the right and to the left, against their kinks."""
    import plotly.graph_objects as go

    data, scaling = solution.data, solution.scaling
    low, high = limits(data.X[:, 0], 0.25)

    def seen(place: np.ndarray) -> np.ndarray:
        return place if scaling is None else scaling.centre[0] + scaling.scale[0] * place

    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = kinks_of(w, data.bias)
        inside = (place >= low) & (place <= high)
        values = dual_values(scaled_dual(solution), data.lifted, w, solution.potential)
        values[inside] = along_kinks(solution, place[inside], w[inside, 0] > 0)
        return seen(np.clip(np.nan_to_num(place, nan=low, posinf=high, neginf=low), low, high)), values

    bent = kinks_of(np.vstack([tight, neurons.hidden]), data.bias)
    bent = bent[(bent >= low) & (bent <= high)]
    grid = np.unique(np.concatenate([np.linspace(low, high, 1081), data.X[:2000, 0], bent]))
    figure = go.Figure()
    for width, color, right, said in ((5, "#c9c9c9", False, "left"), (1.8, INK, True, "right")):
        values = along_kinks(solution, grid, np.full(len(grid), right))
        figure.add_trace(go.Scatter(
            x=seen(grid), y=values.astype(np.float32), mode="lines", name=f"active to the {said}",
            line=dict(color=color, width=width), hoverinfo="skip",
        ))  # fmt: skip
    add_readings(figure, seen(grid), values, seen(bent), "%{x}<br>dual %{y:.5f}<extra></extra>")
    both = np.asarray(solution.dual).ndim == 1
    for bound in (1, -1) if both else (1,):
        figure.add_hline(y=bound, line=dict(color=GREY, dash="dash", width=1.2))
    _add_sets(figure, solution, neurons, tight, where, (15, 9))
    lay_out(
        figure, x=f"where the neuron bends ({escape(one_line(data.feature_names[0], 40))})",
        y=f"dual at {unit_of(solution)} = 1",
    )  # fmt: skip
    figure.update_yaxes(range=[-1.12 if both else -0.04, 1.12])
    return figure


def _tilt(w: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(w, axis=1)
    return np.degrees(np.arcsin(np.clip(w[:, 2] / np.where(length > 0, length, 1.0), -1, 1)))


def _tilts(sets: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the latitudes that are drawn: all, or those of the neurons where these lie in a narrow band."""
    found = np.concatenate([_tilt(w) for w in sets])
    found = found[np.abs(found) < 60]  # near a pole a neuron is a constant, or nothing, on the data
    if not len(found) or np.ptp(found) > 60:
        return -90.0, 90.0
    margin = 0.3 * max(float(np.ptp(found)), 1.0)
    return max(-90.0, float(found.min()) - margin), min(90.0, float(found.max()) + margin)


def _map(solution: Any, neurons: Neurons, tight: np.ndarray, *, tilts: tuple[float, float]) -> Any:
    import plotly.graph_objects as go

    data, lifted = solution.data, solution.data.lifted

    def where(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.degrees(np.arctan2(w[:, 1], w[:, 0])), _tilt(w)

    lon, lat = np.linspace(-180, 180, 121), np.linspace(*tilts, 61)
    around, up = (np.radians(a).ravel() for a in np.meshgrid(lon, lat))
    sphere = np.column_stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
    values = dual_values(scaled_dual(solution), lifted, sphere, solution.potential).reshape(
        len(lat), len(lon)
    )
    both = np.asarray(solution.dual).ndim == 1
    figure = go.Figure()
    figure.add_trace(go.Contour(
        x=lon, y=lat, z=values.astype(np.float32), zmin=-1 if both else 0, zmax=1, colorscale=TONES,
        autocontour=False, contours=dict(start=-1 if both else 0, end=1, size=0.2 if both else 0.1),
        line=dict(width=0.5, color=GREY),
        colorbar=dict(title=dict(text=f"dual at {unit_of(solution)} = 1", side="right"), thickness=14,
                      outlinewidth=0, tickvals=[-1, -0.5, 0, 0.5, 1] if both else [0, 0.25, 0.5, 0.75, 1]),
        hovertemplate="%{x:.0f}°, %{y:.1f}°<br>dual %{z:.4f}<extra></extra>",
    ))  # fmt: skip
    _add_sets(figure, solution, neurons, tight, where, (15, 8))
    names = [escape(one_line(n, 24)) for n in data.feature_names]
    third = "the bias" if data.bias > 0 else names[2]
    lay_out(
        figure, x=f"direction of w (0°: {names[0]}, 90°: {names[1]})",
        y=f"tilt towards {third} (°)", height=470,
    )  # fmt: skip
    figure.update_xaxes(range=[-180, 180], tickvals=[-180, -90, 0, 90, 180], showgrid=False)
    figure.update_yaxes(range=list(tilts), showgrid=False)
    if tilts == (-90.0, 90.0):
        figure.update_yaxes(tickvals=[-90, -45, 0, 45, 90])
    return figure


def _slacks(solution: Any, neurons: Neurons, tight: np.ndarray) -> Any:
    import plotly.graph_objects as go

    lifted = solution.data.lifted

    def of(w: np.ndarray) -> np.ndarray:
        return 1.0 - np.abs(dual_values(scaled_dual(solution), lifted, w, solution.potential))

    figure = go.Figure()
    lowest = FLOOR
    slack = of(tight)
    if len(tight):
        order = np.argsort(slack)
        figure.add_trace(go.Scatter(
            x=np.arange(1, len(tight) + 1), y=np.maximum(slack[order], lowest), mode="markers",
            name=f"tight set ({len(tight)})", customdata=_said(solution, tight[order]),
            marker=dict(symbol="circle-open", size=11, color=INK, line=dict(width=1.2)),
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    if len(neurons):
        order = np.argsort(neurons.slack, kind="stable")
        figure.add_trace(go.Scatter(
            x=np.arange(1, len(neurons) + 1), y=np.maximum(neurons.slack[order], lowest), mode="markers",
            name=f"{counted(len(neurons), 'neuron')} (filled: positive, white: negative)",
            customdata=neurons.tag(order), marker=sign_marks(neurons.positive[order], 8),
            hovertemplate="%{customdata[1]}<extra></extra>",
        ))  # fmt: skip
    lay_out(figure, x="sorted by slack", y=f"slack  1 − |dual|,  {unit_of(solution)} = 1")
    figure.update_yaxes(type="log", exponentformat="power", dtick=2)
    figure.update_xaxes(tickformat="d")
    return figure
