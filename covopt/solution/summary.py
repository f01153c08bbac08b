"""The summary of a solution, its quality of fit with a hint if it is bad, and its predictions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import Rows, counted, listed
from covopt.data.scaling import differing_units, paid_offset
from covopt.errors import Status
from covopt.files import Saved
from covopt.losses.classification import codes_of

if TYPE_CHECKING:
    from covopt.solution import Solution

POOR = 0.1  # R² below which a network is hardly better than a constant, and the gap of a run that was stopped early
STOPPED = ("time_limit", "interrupted")


def quality(solution: Any) -> tuple[str, float]:
    """Return R² (for classes the accuracy) on the solution's own data, by name and value.

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
    return judged(solution.loss, solution.data.Y, network.predict(solution.data.X), solution.sample_weight)


def judged(loss: Any, Y: np.ndarray, outputs: np.ndarray, weights: Any) -> tuple[str, float]:
    """Return R² (for classes the accuracy) of outputs, by name and value.

    Parameters
    ----------
    loss : Loss or None
    Y : ndarray of shape (N, k)
        Targets as the loss encodes them.
    outputs : ndarray of shape (N,) or (N, k)
    weights : ndarray of shape (N,) or None
    """
    if loss is None or not loss.is_classification:
        return "R²", explained(Y, outputs.reshape(Y.shape), weights) if len(Y) > 1 else float("nan")
    return "accuracy", float(np.average(codes_of(outputs) == codes_of(Y), weights=weights))


def hint(solution: Solution) -> str:
    """Return why a solution fits badly and what helps; an empty text if there is no reason for a hint.

    There is a hint if R² is below 0.1, if the accuracy is not above the share of the largest class, if the gap is
    open and columns differ in units, or if points are too close to tell whether the network fits them. For a run that
    was stopped early it says so, unless units are the reason.

    Parameters
    ----------
    solution : Solution

    Examples
    --------
    >>> import covopt
    >>> X, y = [[1990.0], [2000.0], [2010.0], [2020.0]], [205.0, 201.0, 206.0, 204.0]
    >>> print(hint(covopt.fit(X, y)))
    R² ... x0 is far from zero: ... and the offset of y (mean 204, spread 1.87) has to be paid by neurons. ...
    >>> hint(covopt.fit(X, y, lam="0.01max", standardise=True))
    ''
    """
    data = solution.data
    if not (np.isfinite(data.X).all() and np.isfinite(data.Y).all()):
        return ""  # a damaged file, which verify reports
    if solution.status is Status.GAP and solution.gap <= solution.tol and solution.certificate.interpolates:
        return (
            "some points are so close that errors within the tolerance of interpolation hide the slope between them. "
            "Drop or average such points, or use fit."
        )
    bad = _poor(solution)
    is_open = solution.status is not Status.CERTIFIED and solution.gap > solution.tol
    units = _units(solution, offset=bool(bad)) if solution.scaling is None and (bad or is_open) else []
    why = f"{bad}: " if bad else ""
    if units:
        what = "with columns of unit variance"
        if data.bias > 0 and (solution.loss is None or not solution.loss.is_classification):
            what += " and targets of mean 0"
        closer = ", and a smaller λ fits closer (--lam, lam)" if bad else ""
        return f"{why}{' and '.join(units)}. --standardise (standardise=True) solves {what}{closer}."
    cure = "λ is large for this table. A smaller λ fits closer (--lam, lam)."
    if solution.status.code in STOPPED and solution.gap > POOR:
        stopped = f"the run was stopped at a gap of {solution.gap:.2g}"
        cure = f"{stopped}. More time finds a better network (--time-limit)."
    return why and why + cure


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


def _units(solution: Solution, *, offset: bool) -> list[str]:
    """Return sentences about units that make some columns cheap, or the targets expensive."""
    data = solution.data
    apart = differing_units(data.X, data.feature_names)
    said = [apart] if apart else []
    loss = solution.loss
    if offset and solution.output_bias == "none" and loss is not None and not loss.is_classification:
        said += filter(None, [paid_offset(data.Y, data.target_names)])
    return said


def explained(Y: np.ndarray, said: np.ndarray, weights: Any) -> float:
    """Return R², the mean over outputs; for a constant target 1 if it is predicted exactly, else 0."""
    weights = np.ones(len(Y)) if weights is None else np.asarray(weights)
    missed = weights @ (Y - said) ** 2
    spread = weights @ (Y - np.average(Y, axis=0, weights=weights)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(spread > 0, 1.0 - missed / spread, (missed == 0).astype(float))
    return float(found.mean())


def summary_rows(solution: Solution) -> list[tuple[str, str]]:
    """Return the name and the text of each line of the summary."""
    certificate = solution.certificate
    missed = f"max |f − y| = {certificate.residual:.1e} of max |y|"
    if not certificate.interpolates:
        missed += ": it misses the points, so its cost bounds nothing from above"
    outputs = f"{solution.data.n_outputs} outputs, " if solution.data.n_outputs > 1 else ""
    sizes = f"{counted(solution.data.n_samples, 'point')}, {counted(solution.data.n_features, 'feature')}"
    return [
        ("problem", f"{sizes}, {outputs}"
                    f"bias {solution.data.bias:g}, output bias {solution.output_bias}"),
        ("features", f"{listed(solution.data.feature_names)} → {listed(solution.data.target_names)}"),
        *scaling_rows(solution),
        ("status", f"{solution.status.code.upper()}: {solution.status.message}"),
        *_objective_rows(solution),
        ("cost ‖W‖²" if solution.potential == "variation" else "cost Σ|v|ω(w)", f"{solution.cost:.10g}"),
        ("lower bound", f"{solution.lower_bound:.10g}  ({certificate.bound})"),
        ("relative gap", f"{solution.gap:.2e}  (asked for {solution.tol:g})"),
        *([] if solution.loss else [("interpolation", missed)]),
        ("neurons", f"{len(solution.network)}"),
        *_potential_rows(solution),
        *[("hint", said) for said in [hint(solution)] if said],
        ("solver", f"{solution.solver}, {counted(len(solution.history), 'round')}, {solution.time_s:.2f} s"),
    ]  # fmt: skip


def scaling_rows(solution: Solution) -> list[tuple[str, str]]:
    """Return a row about the standardisation of the table, if there is one."""
    scaling = solution.scaling
    if scaling is None:
        return []
    what = "columns of mean 0 and variance 1" if solution.data.bias > 0 else "columns divided by their size"
    if scaling.target_centre.any():
        names = zip(solution.data.target_names, scaling.target_centre, strict=True)
        what += f", {listed([f'{name} less {centre:.6g}' for name, centre in names])}"
    return [("standardised", f"{what}: cost, bounds and λ are of that table; predictions are in your units")]


def _objective_rows(solution: Solution) -> list[tuple[str, str]]:
    if solution.loss is None:
        return []
    weighted = "" if solution.sample_weight is None else ", weighted samples"
    share = (
        f" = {solution.lam / solution.lambda_max:.4g} λ_max" if solution.lam and solution.lambda_max else ""
    )
    return [
        ("loss", f"{solution.loss.title}, λ = {solution.lam:g}{share}{weighted}"),
        ("objective", f"{solution.objective:.10g} = C + λ · cost, C = {solution.loss_value:.10g}"),
        *([] if solution.held_out is None else [("rows left out", solution.held_out.said)]),
    ]


def _potential_rows(solution: Solution) -> list[tuple[str, str]]:
    if solution.potential == "variation":
        return []
    free = solution.undetermined[solution.undetermined > 0]
    said = "the data determine the parameters of every neuron, up to its scale"
    if len(free):
        kinds = ", ".join(
            f"dimension {dim} ({count})" for dim, count in sorted(Counter(free.tolist()).items())
        )
        said = (
            f"{len(free)} of {counted(len(solution.network), 'neuron')}: others with the same activations, "
            f"at the same cost, form sets of {kinds}"
        )
    return [("potential", solution.potential), ("undetermined", said)]


class Predicts(Rows, Saved):
    """Base class of solutions of any depth: predictions and scores on any rows."""

    network: Any
    loss: Any
    data: Any

    def predict(self, X: Any) -> np.ndarray:
        """Return the prediction for each row: numbers in the user's units, or labels of classes.

        Parameters
        ----------
        X : array_like or frame of shape (N, d)
            Columns of frames are found by name.

        Examples
        --------
        >>> import covopt
        >>> covopt.fit([[-1.0], [0.0], [1.0]], ["a", "b", "a"], lam=0.01, loss="logistic").predict([[-2.0], [0.0]])
        array(['a', 'b'], dtype='<U1')
        """
        if self.loss is None or not self.loss.is_classification:
            return self.network.predict(X)
        return next(iter(predict_columns(self, X).values()))

    def score(self, X: Any = None, Y: Any = None, sample_weight: Any = None) -> float:
        """Return R² on a table, the mean over outputs; the accuracy for classes.

        Parameters
        ----------
        X : array_like or frame of shape (N, d), optional
            By default the fitted points, with their weights.
        Y : array_like of shape (N,) or (N, k), optional
            Numbers, or labels.
        sample_weight : array_like of shape (N,), optional

        Examples
        --------
        >>> import covopt
        >>> covopt.min_norm([[0.0], [1.0]], [0.0, 2.0]).score([[0.0], [0.5], [1.0]], [0.0, 1.0, 2.0])
        1.0
        """
        if X is None:
            return quality(self)[1]
        said, Y = self.predict(X), np.asarray(Y)
        if self.loss is not None and self.loss.is_classification:
            codes = Y.argmax(axis=1) if Y.ndim > 1 and Y.shape[1] > 1 else Y.ravel()  # one-hot rows
            return float(np.average(said == codes, weights=sample_weight))
        return explained(Y.reshape(len(Y), -1), said.reshape(len(Y), -1), sample_weight)


def predict_columns(solution: Predicts, X: Any) -> dict[str, np.ndarray]:
    """Return the predictions, a column for each target; for classes the label, then the probability of each class.

    Parameters
    ----------
    solution : Solution or DeepSolution
    X : array_like or frame of shape (N, d)
        Columns of frames are found by name.

    Returns
    -------
    dict of (N,) arrays

    Raises
    ------
    InputError
        If X does not fit the network.

    Examples
    --------
    >>> import covopt
    >>> fitted = covopt.fit([[-1.0], [0.0], [1.0]], ["a", "b", "a"], lam=0.01, loss="logistic")
    >>> found = predict_columns(fitted, [[-2.0], [0.0]])
    >>> list(found), found["y"].tolist()
    (['y', 'P(a)', 'P(b)'], ['a', 'b'])
    """
    outputs = solution.network.predict(X)
    loss = solution.loss
    if loss is None or not loss.is_classification:
        columns = outputs[:, None] if outputs.ndim == 1 else outputs
        return dict(zip(solution.data.target_names, columns.T, strict=True))
    name = loss.column or "y"
    classes = list(loss.classes or range(max(2, solution.data.n_outputs)))
    labels = np.empty(len(classes), dtype=object)
    labels[:] = classes
    found: dict[str, np.ndarray] = {name: np.array(labels[codes_of(outputs)].tolist())}
    chances = loss.probabilities(outputs)
    if chances is not None:
        found |= {f"P({label})": column for label, column in zip(classes, chances.T, strict=True)}
    return found
