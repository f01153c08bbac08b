"""Which columns make a table hard by their scale, and what would help: computed, and said where a gap stays open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from covopt.data import Data

HELPS = 3.0  # times smaller the condition number has to be with a column in other units
FAR = 5.0  # spreads that a column is from zero
MOST = 3  # columns that are named
SPARE = 30.0  # condition number at which nothing is said


def hard_columns(data: Data) -> list[str]:
    """Return a sentence for each column whose scale makes the table hard, the worst first.

    A column is hard where the condition number of the lifted rows (x, β) falls by a factor of three or more when the
    column is centred and brought to the spread of the others; columns are taken one after the other.

    Parameters
    ----------
    data : Data

    Examples
    --------
    >>> from covopt.data import Data
    >>> X = np.column_stack([np.arange(1990.0, 2020.0), np.cos(np.arange(30.0))])
    >>> hard_columns(Data.validate(X, X[:, 1], feature_names=("year", "x")))
    ['year: 1990 to 2019, far from zero for its spread of 8.7: subtract 2004 and divide by 10']
    >>> hard_columns(Data.validate((X - [2004.0, 0.0]) / [10.0, 1.0], X[:, 1]))
    []
    >>> hard_columns(Data.validate(1e-50 * X[:, 1:], X[:, 1], feature_names=("x",)))
    ['x: -9.99961e-51 to 1e-50, its spread of 7.2e-51 is small, the bias is 1: multiply by 1e+50']
    """
    if (
        data.X.size == 0 or not np.isfinite(data.X).all()
    ):  # a damaged file says something else, for verify to tell
        return []
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(data.X).max(axis=0), 1e-307)
        shares = (data.X / size).std(axis=0)
        spreads = size * shares  # squares of tiny numbers are zero
    moving = np.flatnonzero((spreads > 0.0) & (shares > 1e-13) & np.isfinite(spreads))
    if not len(moving):
        return []
    typical = _typical(spreads[moving], data.bias)
    X = data.X[:, moving].copy()
    middle, spread = X.mean(axis=0), spreads[moving]
    rescaled = (X - middle) / spread * typical
    said: list[str] = []
    now = _condition(X, data.bias)
    left = list(range(len(moving)))
    while left and len(said) < MOST and now > SPARE:
        trials = []
        for j in left:
            kept = X[:, j].copy()
            X[:, j] = rescaled[:, j]
            trials.append(_condition(X, data.bias))
            X[:, j] = kept
        best = int(np.argmin(trials))
        if trials[best] * HELPS > now:
            break
        now, j = trials[best], left.pop(best)
        X[:, j] = rescaled[:, j]
        text = _advice(data.X[:, moving[j]], float(middle[j]), float(spread[j]), typical)
        if text:
            said.append(f"{data.feature_names[moving[j]]}: {text}")
    return said or _beside_the_bias(data, moving, middle, spread, now)


def _beside_the_bias(
    data: Data, moving: np.ndarray, middle: np.ndarray, spread: np.ndarray, now: float
) -> list[str]:
    """Return a sentence for each column where only all of them together, in units of the bias, make it easier."""
    if data.bias <= 0.0 or now <= SPARE:
        return []
    X = (data.X[:, moving] - middle) / spread * data.bias
    if _condition(X, data.bias) * HELPS > now:
        return []
    texts = [
        _advice(data.X[:, j], float(middle[i]), float(spread[i]), data.bias, "the bias is")
        for i, j in enumerate(moving)
    ]
    return [f"{data.feature_names[j]}: {text}" for j, text in zip(moving, texts, strict=True) if text][:MOST]


def _typical(spreads: np.ndarray, bias: float) -> float:
    """Return the median of the spreads and of the bias."""
    return float(np.exp(np.median(np.log([*spreads, *([bias] if bias > 0.0 else [])]))))


def _condition(X: np.ndarray, bias: float) -> float:
    rows = np.column_stack([X, np.full(len(X), bias)]) if bias > 0.0 else X
    values = np.linalg.svd(rows, compute_uv=False)
    return float(values[0] / max(values[-1], 1e-16 * values[0], 1e-300))


def _advice(
    column: np.ndarray, middle: float, spread: float, typical: float, others: str = "the others' is about"
) -> str:
    grain = 10.0 ** math.floor(math.log10(spread))
    start = round(middle / grain) * grain
    power = round(math.log10(spread / typical))
    ends = f"{column.min():.6g} to {column.max():.6g}"
    why, what = [], []
    if abs(middle) > FAR * spread and start:
        why.append(f"far from zero for its spread of {spread:.2g}")
        what.append(f"{'subtract' if start > 0 else 'add'} {abs(start):.15g}")
    if power:
        ratio = 10.0 ** abs(power)
        if not why:
            size = "large" if power > 0 else "small"
            why.append(f"its spread of {spread:.2g} is {size}, {others} {typical:.2g}")
        what.append(f"{'divide' if power > 0 else 'multiply'} by {ratio:.15g}")
    return f"{ends}, {', '.join(why)}: {' and '.join(what)}" if what else ""
