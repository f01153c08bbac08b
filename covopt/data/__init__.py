"""Tables of numbers: the user's table, validated once to be finite, rectangular and free of contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from covopt.checks import Brief, counted
from covopt.checks.validation import check_bias, check_choice
from covopt.data.tabular import RowNames, check_finite, to_matrix
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED, group_equal_rows, group_rays, numerical_rank, of_given

__all__ = ["Data", "row_space"]


@dataclass(frozen=True, eq=False, repr=False)
class Data(Brief):
    """Inputs and targets of a table, in the user's units.

    Use :meth:`validate` to make one; the constructor checks nothing.

    Parameters
    ----------
    X : (N, d) array
    Y : (N, k) array
    bias : float
        β ≥ 0. Rows are lifted to x̃ = (x, β); for β = 0 they are not lifted.
    feature_names, target_names : tuple of str
    notes : tuple of str
        A sentence for each change made by :meth:`validate`, such as rows merged by ``duplicates="mean"``.
    row_names : RowNames
        Names of the rows in messages: lines of a file if X is a frame whose index is called ``line``.
    """

    X: np.ndarray
    Y: np.ndarray
    bias: float
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    row_names: RowNames = field(default_factory=RowNames, repr=False)

    @classmethod
    def validate(
        cls,
        X: Any,
        Y: Any,
        *,
        bias: float = 1.0,
        duplicates: str = "error",
        interpolates: bool = True,
    ) -> Data:
        """Check a table and return it as float arrays of its own.

        Parameters
        ----------
        X : (N, d) array, nested lists, pandas or polars frame
            Features are named as its columns, else ``x0, x1, …``; targets without names ``y``, or ``y0, y1, …``.
        Y : (N,) or (N, k) array, list, Series or frame
        bias : float, default 1.0
            Amount of bias β, finite and not negative.
        duplicates : {"error", "mean"}
            How to treat a point with different targets: raise an error, or merge the rows of every repeated
            point into one with the mean target.
        interpolates : bool
            Whether networks must interpolate the points; with a loss they need not, and no targets contradict others.

        Raises
        ------
        InputError
            If no network interpolates the points, or the table does not hold finite real numbers.

        Examples
        --------
        >>> data = Data.validate([[0.0], [1.0], [1.0]], [1.0, 2.0, 4.0], duplicates="mean")
        >>> data.X.tolist(), data.Y.tolist()
        ([[0.0], [1.0]], [[1.0], [3.0]])
        >>> Data.validate([[0.0], [1.0], [1.0]], [1.0, 2.0, 4.0])
        Traceback (most recent call last):
        covopt.errors.InputError: rows 1 and 2 (counting from 0) of X are the same point ...
        """
        beta = check_bias(bias)
        check_choice("duplicates", duplicates, ("error", "mean"))
        called = RowNames.of(X, Y)
        inputs, found_features = to_matrix("X", X)
        targets, found_targets = to_matrix("Y", Y)
        inputs, targets = _shapes(inputs, targets, found_features, beta)
        k = targets.shape[1]
        features = found_features or tuple(f"x{j}" for j in range(inputs.shape[1]))
        outputs = found_targets or (("y",) if k == 1 else tuple(f"y{j}" for j in range(k)))
        remedy = f"Drop{' (--drop-missing)' if called.of_a_file else ''} or impute these rows"
        check_finite("X", inputs, found_features, called, remedy)
        check_finite("Y", targets, found_targets, called, remedy)
        inputs += 0.0  # -0.0 and 0.0 are one point

        notes: tuple[str, ...] = ()
        if interpolates and duplicates == "mean":
            rows, targets, notes = _merge(inputs, targets, called)
            inputs, called = inputs[rows], called.take(rows) if notes else called
        if interpolates:
            _check_consistent(inputs, targets, outputs, called, beta)
        return cls(inputs, targets, beta, features, outputs, notes, called)

    @property
    def n_samples(self) -> int:
        """N."""
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        """Return d, without the bias."""
        return self.X.shape[1]

    @property
    def n_outputs(self) -> int:
        """Return k."""
        return self.Y.shape[1]

    @cached_property
    def lifted(self) -> np.ndarray:
        """X̃: (N, D), the rows (x, β); X itself if the bias is 0."""
        if self.bias == 0:
            return self.X
        return np.column_stack([self.X, np.full(self.n_samples, self.bias)])

    @cached_property
    def independent_rows(self) -> np.ndarray:
        """Indices of one row for each ray through the origin that has lifted rows, ascending; without zero rows.

        It is the longest row of the ray, the first in a tie; f(c x̃) = c f(x̃) gives the values at the others.
        """
        if self.bias > 0:
            first = group_equal_rows(self.X)
            return np.flatnonzero(first == np.arange(self.n_samples))
        longest, _ = group_rays(self.X)
        return np.flatnonzero(longest == np.arange(self.n_samples))

    @property
    def rank(self) -> int:
        """Numerical rank of the lifted rows; it does not depend on the units of rows and columns."""
        return self.basis.shape[1]

    @cached_property
    def basis(self) -> np.ndarray:
        """(D, r): an orthonormal basis of the row space of the lifted rows, the identity if r = D."""
        if self.n_features == 1 and self.bias > 0 and len(self.independent_rows) > 1:
            return np.eye(2)  # two different numbers, however close, have rank 2 with the bias
        return row_space(self.lifted[self.independent_rows])


def row_space(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the span of rows; the numerical rank does not depend on units.

    Parameters
    ----------
    rows : ndarray of shape (N, D)

    Returns
    -------
    ndarray of shape (D, r)
        The identity if r = D.

    Examples
    --------
    >>> row_space(np.array([[3.0, 4.0], [6.0, 8.0]])).shape, row_space(np.eye(2)).shape
    ((2, 1), (2, 2))
    """
    dimension = rows.shape[1]
    if not rows.any():
        return np.zeros((dimension, 0))
    first, varies = rows[0], (rows != rows[0]).any(axis=0)
    _, exponent = np.frexp(np.abs(rows).max(axis=1))
    rows = np.ldexp(rows, -exponent[:, None])
    peak = np.abs(rows).max(axis=0)
    column_scale = np.where(peak > 0, peak, 1.0)
    _, values, right = np.linalg.svd(rows / column_scale, full_matrices=False)
    rank = numerical_rank(values, of_given(rows.shape))
    if rank == dimension:
        return np.eye(dimension)
    if rank == varies.sum() + 1:  # all constant columns are one direction; the others are kept as they are
        constant = np.where(varies, 0.0, np.ldexp(first, -np.frexp(np.abs(first).max())[1]))
        return np.column_stack([np.eye(dimension)[:, varies], constant / np.linalg.norm(constant)])
    span = right[:rank].T * (column_scale / column_scale.max())[:, None]
    # Householder QR of rows sorted by size is accurate row by row, whatever the units of the columns.
    order = np.argsort(-np.abs(span).max(axis=1), kind="stable")
    basis = np.empty_like(span)
    basis[order] = np.linalg.qr(span[order])[0]
    return basis


def _shapes(
    X: np.ndarray, Y: np.ndarray, features: tuple[str, ...] | None, bias: float
) -> tuple[np.ndarray, np.ndarray]:
    if X.ndim == 1 and Y.ndim == 2 and Y.shape[1] > 1:
        raise InputError(
            f"X has one dimension and Y has {Y.shape[1]} columns; the order is X, Y: are they swapped? "
            "Inputs of one feature are X.reshape(-1, 1), or X.to_frame() of a Series."
        )
    if X.ndim == 1 and features is not None:  # a Series is one column
        X = X[:, None]
    if X.ndim != 2:
        raise InputError(
            f"X must have two dimensions, (samples, features); received shape {X.shape}. "
            "Use X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample."
        )
    if Y.ndim not in (1, 2):
        raise InputError(f"Y must have shape (samples,) or (samples, outputs); received shape {Y.shape}.")
    Y = Y[:, None] if Y.ndim == 1 else Y
    if len(X) != len(Y):
        raise InputError(
            f"X has {len(X)} rows but Y has {len(Y)}: give one target (row) for each sample. "
            f"Received X of shape {X.shape} and Y of shape {Y.shape}."
        )
    for empty, what in (
        (len(X) == 0, f"X has no rows (shape {X.shape}); at least one sample is needed."),
        (Y.shape[1] == 0, f"Y has no columns (shape {Y.shape}); at least one target is needed."),
        (X.shape[1] == 0 and bias == 0,
         f"X has no columns (shape {X.shape}) and bias is 0: give a feature or a positive bias."),
    ):  # fmt: skip
        if empty:
            raise InputError(what)
    return X, Y


def _target_scale(Y: np.ndarray) -> np.ndarray:
    peak = np.abs(Y).max(axis=0)
    return np.where(peak > 0, peak, 1.0)


def _merge(X: np.ndarray, Y: np.ndarray, called: RowNames) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the first of equal rows, the means of their targets, and a note if there are any."""
    kept, group, counts = np.unique(group_equal_rows(X), return_inverse=True, return_counts=True)
    if len(kept) == len(X):
        return kept, Y, ()
    means = np.zeros((len(kept), Y.shape[1]))
    np.add.at(means, group, Y / counts[group, None])  # dividing last would overflow for targets near 1e308
    with np.errstate(over="ignore"):
        moved = np.abs(Y - means[group])
    row, column = np.unravel_index(int((moved / _target_scale(Y)).argmax()), moved.shape)
    note = (
        f"{len(X) - len(kept)} of {len(X)} rows were merged into "
        f"{counted(int((counts > 1).sum()), 'repeated point')}, with the mean of their targets; the largest change "
        f"of a target is {moved[row, column]:.6g}, at {called.all(int(kept[group[row]]))}."
    )
    return kept, means, (note,)


def _check_consistent(
    X: np.ndarray, Y: np.ndarray, names: Sequence[str], called: RowNames, bias: float
) -> None:
    """Refuse different targets at one point, and without a bias on one ray, where f(c x) = c f(x)."""
    first, factor = group_rays(X) if bias == 0 else (group_equal_rows(X), np.ones(len(X)))
    expected, scale = factor[:, None] * Y[first], _target_scale(Y)
    apart = np.abs(Y / scale - expected / scale)
    clash = (apart > COMPUTED).any(axis=1)
    if not clash.any():
        return
    zero = first < 0
    apart[zero & clash[~zero].any()] = 0.0  # rows that contradict each other are reported before zero rows
    j, column = (int(v) for v in np.unravel_index(int(apart.argmax()), apart.shape))
    i, of = int(first[j]), f" of {names[column]!r}" if len(names) > 1 else ""
    if zero[j]:
        raise InputError(
            f"{called.all(j)}{called.of_x} is all zero and bias is 0, which forces f = 0 there, but the target{of} "
            f"is {Y[j, column]:.10g}. Use a positive bias (--bias 1), or drop the row."
        )
    groups = len(np.unique(first[clash]))
    more = (
        f" {groups} points or rays are contradicted like this; this is the largest difference."
        if groups > 1
        else ""
    )
    if (X[i] == X[j]).all():
        point = ", ".join(f"{v:.6g}" for v in X[i, :6]) + (", …" if X.shape[1] > 6 else "")
        raise InputError(
            f"{called.all(i, j)}{called.of_x} are the same point ({point}) but their targets{of} differ: "
            f"{Y[i, column]:.10g} and {Y[j, column]:.10g}, by {abs(Y[j, column] - Y[i, column]):.6g}.{more} "
            'Average them with duplicates="mean" (--duplicates mean), drop one of them, or give a feature that '
            "tells them apart."
        )
    raise InputError(
        f"{called.all(i, j)}{called.of_x} lie on one ray through the origin: {called.short(j)} is "
        f"c = {factor[j]:.10g} times {called.short(i)}. Without bias f(c x) = c f(x), so the target{of} of "
        f"{called.short(j)} should be {expected[j, column]:.10g}; received {Y[j, column]:.10g}.{more} "
        "Use a positive bias (--bias 1), or drop one of the rows."
    )
