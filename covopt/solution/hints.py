"""How well a solution fits its own points, and a sentence where the table's units are why it fits badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.wording import one_line

if TYPE_CHECKING:
    from covopt.solution.solution import Solution

POOR = 0.1  # R² below which a network says hardly more than a constant
STOPPED = ("time_limit", "interrupted")
APART = 1e3  # times that the spread of one column is that of another


def quality(solution: Any) -> tuple[str, float]:
    """Return the name and the value of R², or of the accuracy for classes, on the solution's own data.

    Parameters
    ----------
    solution : Solution

    Examples
    --------
    >>> import covopt
    >>> name, value = quality(covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]))
    >>> name, round(value, 12)
    ('R²', 1.0)
    """
    network = solution.network if solution.scaling is None else solution.network.bare()
    outputs = network.predict(solution.data.X)
    loss, Y, weights = solution.loss, solution.data.Y, solution.sample_weight
    if loss is None or not loss.is_classification:
        if len(Y) < 2:
            return "R²", float("nan")
        return "R²", explained(Y, outputs.reshape(Y.shape), weights)
    one = Y.shape[1] == 1
    right = (outputs > 0) == (Y[:, 0] > 0) if one else outputs.argmax(axis=1) == Y.argmax(axis=1)
    return "accuracy", float(np.average(right, weights=weights))


def hint(solution: Solution) -> str:
    """Return why a solution fits badly, or may be about units, and what helps; nothing where there is nothing to say.

    Said where R² is below 0.1, where the accuracy is not above the share of the largest class, and where the spreads
    of two columns differ by more than a thousand. Of a run that was stopped early it says that, unless units are why.

    Parameters
    ----------
    solution : Solution

    Examples
    --------
    >>> import covopt
    >>> X, y = [[1990.0], [2000.0], [2010.0], [2020.0]], [205.0, 201.0, 206.0, 204.0]
    >>> print(hint(covopt.fit(X, y)))
    R² ... is worse than a constant: the offset of y (mean 204, spread 1.87) has to be paid by neurons. ...
    >>> hint(covopt.fit(X, y, lam="0.01max", standardise=True))
    ''
    """
    data = solution.data
    if not (np.isfinite(data.X).all() and np.isfinite(data.Y).all()):
        return ""  # a damaged file says something else, for verify to tell
    bad = _poor(solution)
    units = [] if solution.scaling is not None else _units(solution, whether_offset=bool(bad))
    if not bad and not units:
        return ""
    if bad and not units and solution.status.code in STOPPED and solution.gap > POOR:
        stopped = f"the run was stopped at a gap of {solution.gap:.2g}"
        return f"{bad}: {stopped}. More time finds a better network (--time-limit)."
    if not units:
        return f"{bad}: λ is large for this table. A smaller λ fits closer (--lam, lam)."
    what = "with columns of unit variance"
    if data.bias > 0 and (solution.loss is None or not solution.loss.is_classification):
        what += " and targets of mean 0"
    closer = ", and a smaller λ fits closer (--lam, lam)" if bad else ""
    why = f"{bad}: {' and '.join(units)}" if bad else " and ".join(units)
    return f"{why}. --standardise (standardise=True) solves {what}{closer}."


def _poor(solution: Solution) -> str:
    if solution.loss is None:
        return ""
    name, value = quality(solution)
    if name == "R²":
        if not value < POOR:
            return ""
        than = "worse than a constant" if value < 0.0 else "hardly better than a constant"
        return f"R² {round(value, 3) + 0.0:.3g} is {than}"
    Y, weights = solution.data.Y, solution.sample_weight
    shares = np.average(Y > 0, axis=0, weights=weights)
    largest = float(max(shares[0], 1.0 - shares[0]) if Y.shape[1] == 1 else shares.max())
    if value > largest or largest == 1.0:
        return ""
    return f"the accuracy {value:.3g} is not above the {largest:.3g} of the largest class"


def _units(solution: Solution, *, whether_offset: bool) -> list[str]:
    """Return what about the units makes some columns cheap, or the targets dear."""
    data, said = solution.data, []
    with np.errstate(over="ignore"):
        spreads = data.X.std(axis=0) if data.n_features else np.zeros(0)
    moving = np.flatnonzero((spreads > 0.0) & np.isfinite(spreads))
    if len(moving):
        low, high = moving[np.argmin(spreads[moving])], moving[np.argmax(spreads[moving])]
        if spreads[high] > APART * spreads[low]:
            names = [one_line(data.feature_names[j], 30) for j in (high, low)]
            said.append(
                f"the norm makes columns of large numbers cheap ({names[0]} spreads {spreads[high]:.3g}, "
                f"{names[1]} {spreads[low]:.3g})"
            )
    loss = solution.loss
    if whether_offset and solution.output_bias == "none" and loss is not None and not loss.is_classification:
        middle, spread = data.Y.mean(axis=0), data.Y.std(axis=0)
        j = int(np.argmax(np.abs(middle) - spread))
        if np.abs(middle[j]) > spread[j]:
            name = one_line(data.target_names[j], 30)
            said.append(
                f"the offset of {name} (mean {middle[j]:.3g}, spread {spread[j]:.3g}) has to be paid by neurons"
            )
    return said


def explained(Y: np.ndarray, said: np.ndarray, weights: Any) -> float:
    """Return R², the mean over outputs; of a constant output 1 where it is met, else 0."""
    weights = np.ones(len(Y)) if weights is None else np.asarray(weights)
    missed = weights @ (Y - said) ** 2
    spread = weights @ (Y - np.average(Y, axis=0, weights=weights)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(spread > 0, 1.0 - missed / spread, (missed == 0).astype(float))
    return float(found.mean())
