"""Draw the pictures of README and of the first page from README's examples: ``python docs/pictures/draw.py``."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import covopt
from covopt.plotting.history import bracket_of

HERE = Path(__file__).parent
INK, BLUE, RED, PALE = "#1a1a1a", "#0b4f8a", "#b3401e", "#c9c9c9"


def examples() -> dict[str, Any]:
    """Run README's Python up to the network through points, and return its names."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples((HERE.parents[1] / "README.md").read_text()):
        exec(compile(example.source, "README.md", "single"), names)
        if "best" in names:
            names.setdefault("table", (names["x"], names["y"]))
        if "solution" in names:
            break
    return names


def question(x: np.ndarray, y: np.ndarray, best: covopt.Solution) -> Figure:
    """Draw the table, the best network and its kinks."""
    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    axes = figure.subplots()
    line = np.linspace(x.min() - 0.2, x.max() + 0.2, 500)[:, None]
    axes.plot(x[:, 0], y, "o", color="white", markeredgecolor=INK, markersize=5, label="your table, 80 rows")
    axes.plot(line[:, 0], best.network.predict(line), color=BLUE, linewidth=2.5, label="the best network")
    W = best.network.hidden_weights
    kinks = -W[:, 1] / W[:, 0]
    kinks = kinks[np.abs(kinks) < 3.2][:, None]
    axes.plot(kinks[:, 0], best.network.predict(kinks), "D", color=RED, markersize=7, label="its kinks")
    axes.set(xlabel="x", ylabel="y")
    axes.set_title(f"No network of any width does better: gap {best.gap:.0e}", fontsize="medium")
    axes.legend(frameon=False)
    return figure


def ladder(report: covopt.Gap) -> Figure:
    """Draw how far each rung is above the bound, in per cent."""
    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    axes = figure.subplots()
    names = [name for name in report.ladder if name != "lower bound"]
    excess = [100.0 * (report.ladder[name] / report.lower_bound - 1.0) for name in names]
    labels = ["your network", *names[1:]]
    bars = axes.barh(labels, excess, color=[RED, *[PALE] * (len(names) - 2), BLUE], height=0.65)
    axes.bar_label(bars, [f"{value:.2g} %" for value in excess], padding=4)
    axes.invert_yaxis()
    axes.set(
        xlabel="% above the certified bound",
        xlim=(0.0, 1.25 * max(excess)),
    )
    axes.set_title("How far is a trained network from the best?", fontsize="medium")
    return figure


def proof(solution: covopt.Solution) -> Figure:
    """Draw the two bounds of a solve, round by round."""
    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    axes = figure.subplots()
    _, lower, upper, _ = bracket_of(solution)
    rounds = np.arange(1, len(upper) + 1)
    axes.fill_between(rounds, lower, upper, color="0.88", linewidth=0)
    axes.plot(rounds, upper, "v-", color=INK, label="the best network so far")
    axes.plot(rounds, lower, "^--", color=BLUE, label="no network is below")
    axes.set(xlabel="round", ylabel="squared norm")
    axes.set_title("The two bounds meet: that is the proof", fontsize="medium")
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Write the pictures."""
    names = examples()
    figures = {
        "question": question(*names["table"], names["best"]),
        "ladder": ladder(names["report"]),
        "proof": proof(names["solution"]),
    }
    for name, figure in figures.items():
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(HERE / f"{name}.png", dpi=190)


if __name__ == "__main__":
    main()
