"""What the slider moves along: the rounds of a solve, or the λ of a path."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.checks.wording import counted
from covopt.explore.drawing import figure_of
from covopt.explore.panels import Panel
from covopt.plotting.history import bounds_picture, bracket_of, gap_picture
from covopt.plotting.path import path_pictures
from covopt.plotting.pictures import INK, short
from covopt.status import Status

MOST_ROUNDS = 1000
WITH_PICTURES = (
    "The other pictures show the best network and the dual of that round; what is proved is the last one."
)
WITHOUT_PICTURES = (
    "The file keeps the bounds of each round, not its network: the other pictures show the last one."
)


def _columns(rounds: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([np.nan if r.get(name) is None else r[name] for r in rounds], dtype=float)


def rounds_panel(solution: Any) -> tuple[Panel | None, list[str], list[int]]:
    """Return the bracket round by round, what the slider says at each, and which picture belongs to it.

    Pictures are those of the snapshots in their order, then that of the solution. None, and nothing, where there are
    no two rounds.

    Parameters
    ----------
    solution : Solution
    """
    rounds = list(solution.history)
    if len(rounds) < 2:
        return None, [], []
    found = bracket_of(solution)
    size = _columns(rounds, "n_columns" if "n_columns" in rounds[-1] else "n_atoms")
    number = np.array([r.get("round", r.get("iteration", i)) for i, r in enumerate(rounds)], dtype=float) + 1
    if len(found.time) > len(rounds):  # the certificate is a step of its own
        size, number = np.append(size, np.nan), np.append(number, number[-1] + 1)
    chosen = np.unique(np.linspace(0, len(number) - 1, min(len(number), MOST_ROUNDS)).astype(int))
    taken = [each.round for each in solution.snapshots]
    shows = [max(bisect_right(taken, i) - 1, 0) for i in chosen]
    shows[-1] = len(taken)
    n_rounds, proved = number[len(rounds) - 1], len(found.time) > len(rounds)
    time, lower, upper, gap, size, number = (
        part[chosen] for part in (found.time, found.lower, found.upper, found.gap, size, number)
    )
    says = []
    for i in range(len(number)):
        after = proved and i == len(number) - 1
        parts = ["the certificate, after the rounds" if after else f"round {number[i]:.0f} of {n_rounds:.0f}"]
        if np.isfinite(upper[i]):
            parts.append(f"between {short(lower[i], 6)} and {short(upper[i], 6)}, gap {short(gap[i], 2)}")
        elif np.isfinite(lower[i]):
            parts.append(f"at least {short(lower[i], 6)}, no network yet")
        if np.isfinite(time[i]):
            parts.append(f"{time[i]:.2f} s")
        if np.isfinite(size[i]):
            parts.append(counted(int(size[i]), "candidate neuron"))
        if taken and i < len(number) - 1:
            drawn = solution.snapshots[shows[i]]
            what = counted(len(drawn.network), "neuron") if len(drawn.network) else "no network yet"
            parts.append(
                f"pictures: {what}" + (f", after round {drawn.round + 1}" if drawn.round != chosen[i] else "")
            )
        says.append("; ".join(parts))
    cut = found._replace(time=time, lower=lower, upper=upper, gap=gap)
    pictures = [bounds_picture(solution, cut, number, "round"), gap_picture(cut, number, "round")]
    pictures[0].y = "objective" if solution.loss else "cost"
    figure = figure_of(pictures)
    _count_ticks(figure, number)
    _cursor(figure, number[-1])
    caption = "The answer lies between the two bounds. The vertical line is at the round of the slider. " + (
        WITH_PICTURES if taken else WITHOUT_PICTURES
    )
    return Panel("progress", "The bracket, round by round", caption, [figure], list(number)), says, shows


def path_panel(steps: Sequence[Any]) -> tuple[Panel, list[str]]:
    """Return objective, neurons and gap along λ, with what the slider says at each.

    Parameters
    ----------
    steps : sequence of Solution
    """
    lams = np.array([s.lam for s in steps], dtype=float)
    says = [
        f"λ = {short(s.lam)} ({i + 1} of {len(steps)}); {s.status.code}, gap {short(s.gap, 2)}; "
        f"{counted(len(s.network), 'neuron')}; objective {short(s.objective, 6)}, loss {short(s.loss_value, 6)}, "
        f"‖W‖² {short(s.cost, 6)}"
        for i, s in enumerate(steps)
    ]
    figure = figure_of(path_pictures(steps), height=620)
    figure.update_xaxes(autorange="reversed")
    if lams.min() > 0 and lams.max() > 100 * lams.min():  # else plotly's own ticks, between the powers
        figure.update_xaxes(dtick=1)
    _cursor(figure, lams[-1])
    caption = "From the largest λ to the smallest. Open marks are not certified to the tolerance."
    return Panel("progress", "The path", caption, [figure], list(lams), wide=True), says


def _count_ticks(figure: Any, number: np.ndarray) -> None:
    if len(number) <= 12:
        figure.update_xaxes(tickvals=number)
    else:
        figure.update_xaxes(tickformat="d")


def _cursor(figure: Any, at: float) -> None:
    """Add the vertical line that the slider moves; on a logarithmic axis a shape's place is the number itself."""
    figure.add_shape(
        type="line", x0=at, x1=at, y0=0, y1=1, xref="x", yref="paper", line=dict(color=INK, width=1.5, dash="dot"),
        name="cursor",
    )  # fmt: skip


def round_solutions(solution: Any) -> list[Any]:
    """Return the rounds that a solution has kept as solutions, for pictures: no bound of theirs is stated.

    Parameters
    ----------
    solution : Solution
    """
    certificate = replace(solution.certificate, gauge=1.0)  # each dual is scaled by what its round knew
    return [
        replace(
            solution, network=each.network, dual=each.dual, dual_low=None, certificate=certificate,
            status=Status.GAP, snapshots=[],
        )
        for each in solution.snapshots
    ]  # fmt: skip
