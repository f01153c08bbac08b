"""The panels of a page: the pictures of :mod:`covopt.plotting`, one for every step of the slider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from covopt.checks.wording import one_line
from covopt.explore.drawing import figure_of
from covopt.explore.neurons import Neurons, cell_figure, marked
from covopt.plotting.classes import classes_of, has_classes, probabilities, regions, scores
from covopt.plotting.dual import dual_picture, tight_neurons, tilts_of
from covopt.plotting.function import curve_of, range_of_curves
from covopt.plotting.many_inputs import dependence, drawn_outputs, predicted, slice_by_two
from covopt.plotting.pictures import MOST_OUTPUTS, Marked, Picture, label_of
from covopt.plotting.surface import MOST_KINKS, surface

KINKS_1D = (
    "The curve is exact: straight between its kinks. Triangles are kinks, upwards and filled for a positive "
    "output weight, downwards and white for a negative one; larger ones cost more."
)
KINKS_2D = (
    "Lines are kinks, solid for a positive output weight, dashed for a negative one; the short spur points to "
    f"the side on which the neuron is active. At most the {MOST_KINKS} costliest are drawn."
)
PROOF = (
    "No neuron anywhere exceeds the bound, and the network's neurons sit where it is reached, up to the gap: "
    "that is the proof."
)
UNPROVED = "Where every neuron of the network sits at the bound, and none exceeds it, the network is optimal."


@dataclass
class Panel:
    """One figure of the page.

    Attributes
    ----------
    key : str
        Names it within the page.
    title, caption : str
    figures : list of plotly figures
        One for all steps of the slider, or one for each of them.
    cursor : list of float
        Where the vertical line stands at each step, in the figure's x.
    wide : bool
        Whether it takes the whole width.
    """

    key: str
    title: str
    caption: str
    figures: list[Any]
    cursor: list[float] = field(default_factory=list)
    wide: bool = False


Builder = Callable[[Any, Marked], Picture]


def function_panels(steps: Sequence[Any], neurons: Sequence[Neurons]) -> list[Panel]:
    """Return the panels about the function.

    Parameters
    ----------
    steps : sequence of Solution
        One, or those of a path, in the user's units: the same data and targets.
    neurons : sequence of Neurons
    """
    first = steps[0]
    data, classes = first.data, has_classes(first)
    column = first.loss.column if classes else None
    what = f": {one_line(column, 40)}" if column else ""
    found: list[tuple[str, str, str, Builder]]
    if data.n_features == 1:
        heights = None if classes else range_of_curves(steps)
        build: Builder = probabilities if classes else lambda s, m: curve_of(s, m, heights)
        found = [("function", f"The function and its kinks{what}", KINKS_1D, build)]
    elif data.n_features == 2 and classes:
        said = f"Regions in which each class is predicted; the thick line is the boundary. {KINKS_2D}"
        found = [("function", f"Where each class is predicted{what}", said, regions)]
    elif data.n_features == 2:
        found = [_surface(first, j) for j in range(min(data.n_outputs, MOST_OUTPUTS))]
    else:
        found = _many_inputs(steps[-1])
    panels = []
    for key, title, caption, build in found:
        figures = [
            figure_of([build(s, marked(n, yours=True))], n.texts, height=430 if data.n_features == 1 else 470)
            for s, n in zip(steps, neurons, strict=True)
        ]  # fmt: skip
        panels.append(Panel(key, title, caption, figures, wide=data.n_features == 1))
    return panels


def _surface(solution: Any, output: int) -> tuple[str, str, str, Builder]:
    data = solution.data
    one, two, name = (label_of(n) for n in (*data.feature_names, data.target_names[output]))

    def build(s: Any, marks: Marked) -> Picture:
        return surface(s.network, s.data.X, s.data.Y, marks, output=output, names=(one, two, name))

    title = f"{name} over the plane" if data.n_outputs > 1 else "The function and its kinks"
    return f"function-{output}", title, f"Points are the data, on the same scale. {KINKS_2D}", build


def _many_inputs(last: Any) -> list[tuple[str, str, str, Builder]]:
    """Return what is drawn of three inputs and more, and of none: as in the figure of a solution."""
    classes, outputs = has_classes(last), drawn_outputs(last)[:MOST_OUTPUTS] if last.data.n_features else []
    title, said = "Predicted against actual", "On the dashed line the network is right."
    if classes:
        title, said = "How sure it is of the true class", "Samples of each class, sorted by its probability"
        said += "; above one half they are right." if len(classes_of(last)) == 2 else "."

    def agreement(s: Any, _: Marked) -> Picture:
        return scores(s) if classes else predicted(s)

    def one_input(j: int) -> Builder:
        return lambda s, _: dependence(s, j)

    def two_inputs(j: int) -> Builder:
        return lambda s, _: slice_by_two(s, j)

    moving = "One input moves from its smallest to its largest value; the mean is over the data."
    plane = "Over the two inputs that move it most; the others stay at their medians."
    return [
        ("predicted", title, said, agreement),
        *((f"inputs-{j}", "One input at a time", moving, one_input(j)) for j in outputs),
        *((f"slice-{j}", "A slice", plane, two_inputs(j)) for j in (outputs[:1] if classes else outputs)),
    ]


def dual_panel(steps: Sequence[Any], neurons: Sequence[Neurons]) -> tuple[Panel, list[str]]:
    """Return the panel of the dual function, and sentences about what is not in it.

    Parameters
    ----------
    steps : sequence of Solution
    neurons : sequence of Neurons
    """
    data = steps[0].data
    width = data.lifted.shape[1]
    found = [tight_neurons(s) for s in steps]
    notes = list(dict.fromkeys(note for _, note in found if note))
    proof = PROOF if all(s.status.code == "certified" for s in steps) else UNPROVED
    rings = " Rings: the tight set." if any(len(t) for t, _ in found) else ""
    tilts = None
    title, caption = "The dual function on the circle", proof + rings
    if width == 2 and data.n_features == 1:
        caption = (
            f"{proof} Directions by the place where a neuron bends, and the side on which it is active; those that "
            f"bend beyond an edge are drawn at it.{rings}"
        )
    elif width == 3:
        title = "The dual function on the sphere"
        caption = (
            f"{proof} The sphere as a map: poles are stretched to lines. Light is low, dark is high.{rings}"
        )
        tilts = tilts_of([*(n.hidden for n in neurons), *(t for t, _ in found)])
        if tilts[1] - tilts[0] < 180:
            caption += " The map is cut to where neurons are; those near a pole are outside."
    elif width != 2:
        title = "How far the neurons stay below the bound"
        caption = f"{proof} Slack is the distance to the bound; below 1e-6 it is rounding or the tolerance."
    figures = [
        figure_of([dual_picture(s, marked(n), t, tilts)], n.texts, height=470 if tilts is not None else 430)
        for s, n, (t, _) in zip(steps, neurons, found, strict=True)
    ]
    return Panel("dual", title, caption, figures), notes


def cell_panel(steps: Sequence[Any], neurons: Sequence[Neurons]) -> Panel:
    """Return the panel that says which points each neuron sees."""
    caption = (
        "A row for each neuron; shaded where it is active, black where its kink passes through the point (to 1e-9), "
        "white where it is silent. Neurons of one cell have equal rows."
    )
    figures = [cell_figure(s, n) for s, n in zip(steps, neurons, strict=True)]
    return Panel("cells", "Which points each neuron sees", caption, figures)
