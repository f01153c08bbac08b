"""Labels of classes: to ±1 for two classes, to one-hot rows for several."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.wording import listed
from covopt.data.tabular import RowNames
from covopt.errors import InputError


def codes_of(scores: np.ndarray) -> np.ndarray:
    """Return the class of each row of scores, or of encoded targets, counted from 0.

    Examples
    --------
    >>> codes_of(np.array([-1.0, 1.0])).tolist(), codes_of(np.eye(3)).tolist()
    ([0, 1], [0, 1, 2])
    """
    scores = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
    found: np.ndarray = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return found


def _as_labels(Y: Any) -> np.ndarray:
    """Return the labels as given: one dimension, or a matrix of numbers for one-hot rows."""
    labels = np.asarray(Y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or not len(labels):
        raise InputError(f"Y must hold one label for each sample; received shape {labels.shape}.")
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        row = int(np.argwhere(~np.isfinite(labels))[0][0])
        raise InputError(f"Y {RowNames.of(Y).one(row)} is not finite; every sample needs a label.")
    if labels.dtype.kind == "O":
        missing = [i for i, label in enumerate(labels.tolist()) if label is None or label != label]  # noqa: PLR0124
        if missing:
            raise InputError(f"Y {RowNames.of(Y).one(missing[0])} is missing; every sample needs a label.")
        if labels.ndim == 1 and len({isinstance(label, str) for label in labels.tolist()}) > 1:
            raise InputError("Y mixes strings with other labels; use one kind.")
    return labels


def _distinct(labels: np.ndarray, known: tuple[Any, ...] | None) -> tuple[list[Any], np.ndarray]:
    kinds, codes = np.unique(labels, return_inverse=True)
    found = kinds.tolist()
    if known is not None and set(found) <= set(known):
        order = {label: i for i, label in enumerate(known)}
        return list(known), np.array([order[label] for label in found])[codes]
    return found, codes


def _shown(values: list[Any]) -> str:
    return listed([repr(value) for value in values])


def encode_binary(
    loss: str, Y: Any, known: tuple[Any, ...] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return ±1 of shape (N, 1) and the labels of −1 and +1.

    Parameters
    ----------
    loss : str
        For messages.
    Y : array_like of shape (N,) or (N, 1)
        −1 and 1, 0 and 1, booleans, or two strings (in alphabetical order).
    known : tuple, optional
        Labels found before.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> encode_binary("logistic", [True, False])[0].ravel().tolist()
    [1.0, -1.0]
    """
    labels = _as_labels(Y)
    if labels.ndim == 2:
        raise InputError(
            f"loss={loss!r} takes one label for each sample, but Y has shape {labels.shape}; "
            'for several classes use loss="softmax-cross-entropy".'
        )
    found = set(np.unique(labels).tolist())
    if labels.dtype.kind in "biuf" or all(isinstance(v, bool | int | float) for v in found):
        if found <= {-1, 1}:
            return labels.astype(float)[:, None], known or (-1, 1)
        if found <= {0, 1}:
            kinds = (False, True) if labels.dtype.kind == "b" else (0, 1)
            return 2.0 * labels.astype(float)[:, None] - 1.0, kinds
    elif len(found) == 2:
        kinds_list, codes = _distinct(labels, None)
        return np.where(codes == 1, 1.0, -1.0)[:, None], tuple(kinds_list)
    hint = ' (for more than two classes use loss="softmax-cross-entropy")' if len(found) > 2 else ""
    raise InputError(
        f"loss={loss!r} needs labels of two classes, -1 and 1, 0 and 1, booleans or two strings; "
        f"Y holds {_shown(sorted(found))}{hint}."
    )


def encode_classes(
    loss: str, Y: Any, known: tuple[Any, ...] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return one-hot rows (N, k) and the labels of the columns, sorted.

    Parameters
    ----------
    loss : str
        For messages.
    Y : array_like of shape (N,) or (N, k)
        Integers, booleans or strings; or rows with a single one and zeros.
    known : tuple, optional
        Labels found before.

    Raises
    ------
    InputError
        For fractions, rows that are not one-hot, and a single class.

    Examples
    --------
    >>> encode_classes("softmax-cross-entropy", [3, 5, 3])
    (array([[1., 0.], [0., 1.], [1., 0.]]), (3, 5))
    """
    labels = _as_labels(Y)
    if labels.ndim == 2:
        try:
            rows = labels.astype(float)
        except (TypeError, ValueError):
            raise InputError(f"loss={loss!r}: Y of shape {labels.shape} must be one-hot numbers.") from None
        wrong = ((rows != 0) & (rows != 1)).any(axis=1) | (rows.sum(axis=1) != 1)
        if wrong.any():
            raise InputError(
                f"loss={loss!r}: Y {RowNames.of(Y).one(int(np.argmax(wrong)))} is not one-hot: "
                "give a single 1 in each row, or one column of labels."
            )
        return rows, known or tuple(range(rows.shape[1]))
    if labels.dtype.kind in "fc" and (labels != np.round(labels)).any():
        row = int(np.argmax(labels != np.round(labels)))
        raise InputError(
            f"loss={loss!r} needs classes, but Y {RowNames.of(Y).one(row)} is {labels[row]:g}; "
            'use integers or strings, or loss="squared" for numbers.'
        )
    if labels.dtype.kind == "f":
        labels = labels.astype(int)
    kinds, codes = _distinct(labels, known)
    if len(kinds) < 2:
        raise InputError(f"loss={loss!r} needs at least two classes; every label in Y is {_shown(kinds)}.")
    return np.eye(len(kinds))[codes], tuple(kinds)
