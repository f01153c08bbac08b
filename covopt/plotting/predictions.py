"""Predictions, numbers or probabilities of classes: against the targets, and against one input at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from covopt.checks import counted
from covopt.losses.classification import codes_of
from covopt.plotting.pictures import (
    CLASS_TONES,
    GREY,
    MOST_MARKS,
    MOST_OUTPUTS,
    SYMBOLS,
    Line,
    Picture,
    Points,
    label_of,
    limits,
    predict_columns,
    short,
)


def has_classes(solution: Any) -> bool:
    """Return whether a solution is one of a classification problem."""
    return solution.loss is not None and solution.loss.is_classification


def classes_of(solution: Any) -> list[str]:
    """Return the names of the classes.

    Parameters
    ----------
    solution : Solution
    """
    found = solution.loss.classes or range(max(2, solution.data.n_outputs))
    return [label_of(name) for name in found]


def chances_of(solution: Any, X: np.ndarray) -> np.ndarray:
    """Return probabilities (N, classes); 1 for the predicted class if the loss has no model of probabilities.

    Parameters
    ----------
    solution : Solution
    X : ndarray of shape (N, d)
    """
    scores = predict_columns(solution.network, X)
    chances = solution.loss.probabilities(scores[:, 0] if scores.shape[1] == 1 else scores)
    if chances is not None:
        return chances
    return np.eye(max(2, scores.shape[1]))[codes_of(scores)]


def is_sure(solution: Any) -> bool:
    """Return whether the loss gives probabilities."""
    return solution.loss.probabilities(np.zeros((1, max(2, solution.data.n_outputs)))) is not None


def shown_of(solution: Any) -> tuple[Callable[[np.ndarray], np.ndarray], list[str]]:
    """Return the function to draw, with values (N, c), and the names of its columns.

    The columns are the outputs; for classes their probabilities, for two classes that of the second.

    Parameters
    ----------
    solution : Solution
    """
    if not has_classes(solution):
        return partial(predict_columns, solution.network), [label_of(n) for n in solution.data.target_names]
    names, how = classes_of(solution), "P({})" if is_sure(solution) else "{} (1: predicted)"
    first = int(len(names) == 2)
    return lambda X: chances_of(solution, X)[:, first:], [how.format(name) for name in names[first:]]


def samples(solution: Any, x: np.ndarray, heights: np.ndarray) -> list[Points]:
    """Return the data of a classification, with one symbol and tone for each class.

    Parameters
    ----------
    solution : Solution
    x, heights : (N,) arrays
        Coordinates of the marks.
    """
    codes, chances, found = codes_of(solution.data.Y), chances_of(solution, solution.data.X), []
    names = classes_of(solution)
    for k, name in enumerate(names):
        of = np.flatnonzero(codes == k)

        def says(i: int, of: np.ndarray = of, k: int = k, name: str = name) -> list[str]:
            at, shown = of[i], chances[of[i]]
            return [f"point {at + 1}: {name}", f"predicted {names[shown.argmax()]}", f"P {shown[k]:.3f}"]

        symbol, tone = SYMBOLS[k % len(SYMBOLS)], CLASS_TONES[k % len(CLASS_TONES)]
        found.append(Points(x[of], heights[of], name, symbol, face=tone, says=says))
    return found


def scores(solution: Any) -> Picture:
    """Return, for each class, the predicted probability of the class at its samples, sorted.

    Parameters
    ----------
    solution : Solution
    """
    codes, chances = codes_of(solution.data.Y), chances_of(solution, solution.data.X)
    own = chances[np.arange(len(codes)), codes]
    # the share of its class with a smaller probability
    share = np.array([(own[codes == k] < value).mean() for k, value in zip(codes, own, strict=True)])
    right = (chances.argmax(axis=1) == codes).mean()
    return Picture(
        samples(solution, share, own), "samples of each class, sorted (share)",
        "probability of the true class" if is_sure(solution) else "1: predicted right",
        f"{label_of(solution.loss.column or 'class')}: {right:.1%} of the data right", ylim=(-0.05, 1.05),
        caption="Samples of each class, sorted by its probability; the title counts those predicted right.",
    )  # fmt: skip


# ---------------------------------------------------------------------- numbers, and one input at a time
def predicted(solution: Any) -> Picture:
    """Return the predictions of the network against the targets, with the diagonal.

    Parameters
    ----------
    solution : Solution
    """
    data = solution.data
    said = predict_columns(solution.network, data.X)
    names = [label_of(name) for name in data.target_names]
    low, high = limits(np.concatenate([said.ravel(), data.Y.ravel()]))
    layers: list[Any] = [Line(np.array([low, high]), np.array([low, high]), color=GREY, dash=1, width=1.0)]
    for j, name in enumerate(names[: len(SYMBOLS)]):

        def says(i: int, j: int = j, name: str = name) -> list[str]:
            return [f"point {i + 1}", f"{name} {short(data.Y[i, j])}", f"f {short(said[i, j])}"]

        face = "white" if j else "#d7d7d7"
        layers.append(Points(data.Y[:, j], said[:, j], name, SYMBOLS[j], face=face, says=says))
    one = f"{names[0]} " if len(names) == 1 else ""
    left = len(names) - len(SYMBOLS)
    more = f"\n{not_drawn(left, 'output')}" if left > 0 else ""
    return Picture(
        layers, f"{one}in the data", f"{one}by the network", f"predicted against actual (dashed: equal){more}",
        (low, high), (low, high), columns=0 if one else 3, caption="On the dashed line the network is right.",
    )  # fmt: skip


def not_drawn(left: int, noun: str) -> str:
    """Return the words that ``left`` items are not drawn."""
    return f"{counted(left, noun)} {'is' if left == 1 else 'are'} not drawn"


def partial_dependence(solution: Any, feature: int, *, resolution: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of values of one input, and for each the mean output with that input set to it.

    Parameters
    ----------
    solution : Solution
    feature : int
    resolution : int

    Returns
    -------
    (ndarray of shape (resolution,), ndarray of shape (resolution, k))
        The grid, and the means of the columns of :func:`shown_of`.
    """
    X = solution.data.X
    rows = X[np.linspace(0, len(X) - 1, min(len(X), MOST_MARKS)).astype(int)]
    grid = np.linspace(X[:, feature].min(), X[:, feature].max(), resolution)
    table = np.repeat(rows[None], resolution, axis=0)
    table[:, :, feature] = grid[:, None]
    values = shown_of(solution)[0](table.reshape(-1, X.shape[1]))
    return grid, values.reshape(resolution, len(rows), -1).mean(axis=1)


def dependences(solution: Any) -> list[Picture]:
    """Return, for each output, its partial dependence on the inputs that change it most.

    Parameters
    ----------
    solution : Solution
    """
    data = solution.data
    curves = [partial_dependence(solution, j) for j in range(data.n_features)]
    names = [f"mean of {name}" for name in shown_of(solution)[1]]
    found = []
    for output in range(len(names))[:MOST_OUTPUTS]:
        order = np.argsort([-np.ptp(values[:, output]) for _, values in curves], kind="stable")[:MOST_OUTPUTS]
        layers = []
        for rank, j in enumerate(order):
            grid, values = curves[j]
            label = f"{label_of(data.feature_names[j], 28)} ({short(grid[0], 3)} to {short(grid[-1], 3)})"
            reads = f"{label}<br>{names[output]} %{{y:.4g}}"
            share, width = np.linspace(0, 1, len(grid)), 1.6 - 0.25 * rank
            layers.append(Line(share, values[:, output], label, dash=rank, width=width, reads=reads))
        left = data.n_features - len(order)
        more = f"\n{not_drawn(left, 'weaker input')}" if left else ""
        found.append(Picture(
            layers, "input, from its smallest to its largest value", names[output],
            f"one input at a time, the others as in the data{more}", (0, 1),
            caption="One input moves from its smallest to its largest value; the mean is over the data.",
        ))  # fmt: skip
    return found
