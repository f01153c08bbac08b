"""Standardise tables: columns of mean 0 and variance 1, and the map back to the user's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from covopt.checks import one_line
from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED, FOUND

# ratio of spreads, of mean and spread, or of losses without and with it, above which standardising is suggested
APART = 30.0
NARROW = 6e-5  # least span of a column beside others, relative to its distance from zero


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map from a user's table to a standardised one, (x − centre)/scale column by column, y − target_centre.

    Parameters
    ----------
    centre, scale : (d,) arrays
        Scales are positive.
    target_centre : (k,) array

    Raises
    ------
    InputError
        If a number is not finite, or a scale is not positive.

    Examples
    --------
    >>> scaling = Scaling(np.array([2000.0]), np.array([10.0]), np.array([5.0]))
    >>> scaling.apply(np.array([[1990.0], [2010.0]])).tolist()
    [[-1.0], [1.0]]
    """

    centre: np.ndarray
    scale: np.ndarray
    target_centre: np.ndarray

    def __post_init__(self) -> None:
        if not all(np.isfinite(part).all() for part in vars(self).values()):
            raise InputError(
                "the scaling has a number that is not finite: columns near 1e308 need another unit"
            )
        if not (self.scale > 0.0).all():
            raise InputError(f"the scaling divides by {self.scale.min():g}, and scales are positive")

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the standardised inputs.

        Parameters
        ----------
        X : ndarray of shape (N, d)
        """
        return (np.asarray(X, dtype=float) - self.centre) / self.scale + 0.0

    def apply_data(self, data: Data) -> Data:
        """Return the standardised table.

        Parameters
        ----------
        data : Data
        """
        return replace(data, X=self.apply(data.X), Y=data.Y - self.target_centre)

    def invert_data(self, data: Data) -> Data:
        """Return the user's table, up to rounding.

        Parameters
        ----------
        data : Data
        """
        return replace(data, X=data.X * self.scale + self.centre, Y=data.Y + self.target_centre)

    def fold(self, hidden: np.ndarray, bias: float) -> np.ndarray:
        """Return the hidden weights that give the same activations on the user's inputs.

        Parameters
        ----------
        hidden : ndarray of shape (m, D)
            Weights of the standardised inputs and β.
        bias : float
            β; if it is 0 the centre is zero.
        """
        slopes = hidden[:, : len(self.scale)] / self.scale
        if bias == 0:
            return slopes
        return np.column_stack([slopes, hidden[:, -1] - slopes @ self.centre / bias])

    def to_dict(self) -> dict[str, list[float]]:
        """Return it as JSON types."""
        return {part: values.tolist() for part, values in vars(self).items()}

    def by_name(self, data: Data) -> dict[str, dict[str, float]]:
        """Return it as JSON types, with the name of the column for each number.

        Parameters
        ----------
        data : Data
            Has the names of the columns.
        """
        names = (data.feature_names, data.feature_names, data.target_names)
        parts = zip(self.to_dict().items(), names, strict=True)
        return {part: dict(zip(columns, values, strict=True)) for (part, values), columns in parts}


def standardise(
    data: Data, weights: np.ndarray | None = None, *, targets: bool = True
) -> tuple[Data, Scaling]:
    """Return the table with columns of mean 0 and variance 1 and targets of mean 0, and the scaling.

    Without a bias (β = 0) nothing is centred, since no network could undo it: columns are divided by their root mean
    square. A constant column is centred and not scaled.

    Parameters
    ----------
    data : Data
        In the user's units.
    weights : ndarray of shape (N,), optional
        Sample weights for means and variances; not all zero.
    targets : bool
        Whether the targets are centred; targets of classes are not.

    Examples
    --------
    >>> data, scaling = standardise(Data.validate([[2000.0], [2020.0]], [5.0, 7.0]))
    >>> data.X.ravel().tolist(), data.Y.ravel().tolist(), scaling.centre.tolist(), scaling.scale.tolist()
    ([-1.0, 1.0], [-1.0, 1.0], [2010.0], [10.0])
    """
    centres = data.bias > 0
    centre, scale = _moments(data.X, weights, centres)
    target = _centre(data.Y, weights) if centres and targets else np.zeros(data.n_outputs)
    scaling = Scaling(centre, scale, target)
    return scaling.apply_data(data), scaling


def differing_units(X: np.ndarray, names: Sequence[str]) -> str:
    """Say which columns differ so much in units that the norm would prefer one; return an empty text if none do.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    names : sequence of str

    Examples
    --------
    >>> differing_units(np.array([[20.0, 3e4], [60.0, 9e4]]), ["age", "income"])
    'columns differ in units: income spreads 3e+04, age 20'
    >>> differing_units(np.array([[1990.0], [2020.0]]), ["year"])
    'year is far from zero: mean 2005, spread 15'
    >>> differing_units(np.array([[1.0, 2.0], [0.0, 9.0]]), ["a", "b"])
    ''
    """
    with np.errstate(all="ignore"):
        middle, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    moving = np.flatnonzero((spread > 0.0) & np.isfinite(spread))
    if not len(moving):
        return ""
    called = [one_line(name, 30) for name in names]
    low, high = moving[np.argmin(spread[moving])], moving[np.argmax(spread[moving])]
    if spread[high] > APART * spread[low]:
        return f"columns differ in units: {called[high]} spreads {spread[high]:.3g}, {called[low]} {spread[low]:.3g}"
    far = moving[np.argmax(np.abs(middle[moving]) / spread[moving])]
    if np.abs(middle[far]) > APART * spread[far]:
        return f"{called[far]} is far from zero: mean {middle[far]:.4g}, spread {spread[far]:.3g}"
    return ""


def paid_offset(Y: np.ndarray, names: Sequence[str]) -> str:
    """Say which target has a mean larger than its spread; return an empty text if none has.

    Parameters
    ----------
    Y : ndarray of shape (N, k)
    names : sequence of str

    Examples
    --------
    >>> paid_offset(np.array([[5000.0], [6000.0]]), ["price"])
    'the offset of price (mean 5.5e+03, spread 500) has to be paid by neurons'
    """
    with np.errstate(all="ignore"):
        middle, spread = Y.mean(axis=0), Y.std(axis=0)
    j = int(np.argmax(np.abs(middle) - spread))
    if not np.abs(middle[j]) > spread[j]:
        return ""
    numbers = f"mean {middle[j]:.3g}, spread {spread[j]:.3g}"
    return f"the offset of {one_line(names[j], 30)} ({numbers}) has to be paid by neurons"


def check_spans(data: Data) -> None:
    """Refuse a column whose span is tiny relative to its distance from zero, if there are other columns.

    Parameters
    ----------
    data : Data
        The table to be solved. Without a bias nothing is refused, since its columns cannot be centred.

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_spans(Data.validate([[2000.0, 1.0], [2020.0, 2.0]], [5.0, 7.0]))
    """
    with np.errstate(over="ignore"):
        spans, distances = np.ptp(data.X, axis=0), np.abs(data.X).min(axis=0, initial=np.inf)
    narrow = (spans > 0.0) & (spans < NARROW * distances)
    if data.bias > 0 and np.count_nonzero(spans) > 1 and narrow.any():
        j = int(narrow.argmax())
        raise InputError(
            f"X: column {one_line(data.feature_names[j], 30)!r} spans {spans[j]:.3g} at {distances[j]:.3g} from "
            f"zero, less than {NARROW:g} of that, and doubles have no room for the columns beside it: give "
            f"standardise=True (--standardise), or subtract {data.X[0, j]:.10g}."
        )


def misses(data: Data, scaling: Scaling, weights: np.ndarray | None, *, targets: bool) -> str:
    """Say how a table differs from one that :func:`standardise` returned; return an empty text if it does not.

    Parameters
    ----------
    data : Data
        A table that is claimed to be standardised.
    scaling : Scaling
    weights, targets
        As for :func:`standardise`.
    """
    _, found = standardise(data, weights, targets=targets)
    if (data.bias == 0 and scaling.centre.any()) or (
        not (targets and data.bias > 0) and scaling.target_centre.any()
    ):
        return "is centred where nothing may be: classes, and what a network without bias cannot undo"
    # a computed mean is subtracted
    far = np.abs(found.centre) > FOUND + COMPUTED * np.abs(scaling.centre) / scaling.scale
    # if rounding moved the mean, the spread about it is √(1 − mean²)
    wide = np.abs(found.scale - 1.0) > FOUND + found.centre**2
    for j in np.flatnonzero(far | wide)[:1]:
        return f"{data.feature_names[j]} has mean {found.centre[j]:.3g} and spread {found.scale[j]:.6g}, not 0 and 1"
    size = np.abs(data.Y).max(initial=0.0) + np.abs(scaling.target_centre).max(initial=0.0)
    if (np.abs(found.target_centre) > FOUND * size).any():
        return f"the targets have mean {found.target_centre[0]:.3g}, not 0"
    return ""


def _centre(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return means, refined to the last digits; of a constant column the constant, so that it becomes zero."""
    counted = values if weights is None else values[weights > 0]
    with np.errstate(all="ignore"):  # Scaling refuses sums that overflow
        mean = np.average(values, axis=0, weights=weights)
        mean = mean + np.average(values - mean, axis=0, weights=weights)
    return np.where(np.ptp(counted, axis=0) == 0.0, counted[0], mean)


def _moments(X: np.ndarray, weights: np.ndarray | None, centres: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return means (zeros if nothing is centred), and root mean squares about them, with 1 in place of 0."""
    centre = _centre(X, weights) if centres else np.zeros(X.shape[1])
    off = X - centre
    _, exponent = np.frexp(np.abs(off).max(axis=0, initial=0.0))
    square = np.average(np.ldexp(off, -exponent) ** 2, axis=0, weights=weights)
    spread = np.ldexp(np.sqrt(square), exponent)
    return centre, np.where(spread > 0.0, spread, 1.0)
