"""Columns of words as columns of 0 and 1, one for each word: ``town=Bern`` is 1 where the town is Bern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from covopt.checks.optional import required
from covopt.data.columns import content_of

if TYPE_CHECKING:
    import pandas as pd

    from covopt.data.rows import Raw

MOST_WORDS = 50  # of a column; with more it is no category


def one_hot(raw: Raw, keep: Sequence[str]) -> Raw:
    """Replace columns of words by indicators; of two words the second has one. A missing word is a missing number.

    Parameters
    ----------
    raw : Raw
    keep : sequence of str
        Columns that stay as they are: targets and weights.

    Returns
    -------
    Raw
        The name of a column of words stands for all of its indicators.
    """
    pd = required("pandas", "reading a table", "tables")
    parts, groups = [], dict(raw.groups)
    for name in raw.frame.columns:
        column = raw.frame[name]
        words: list[str] = []
        if name not in keep and content_of(column).kind in ("text", "two"):
            words = sorted({str(word) for word in column.dropna()})
        if not 1 < len(words) <= MOST_WORDS:
            parts.append(column)
            continue
        found = [_indicator(column, name, word) for word in (words[1:] if len(words) == 2 else words)]
        groups[name] = [str(indicator.name) for indicator in found]
        parts += found
    return replace(raw, frame=pd.concat(parts, axis=1), groups=groups)


def with_indicators(raw: Raw, names: str | Sequence[str] | None) -> Raw:
    """Add the indicators that are named, as those of a saved network are: ``town=Bern`` where there is a ``town``.

    Parameters
    ----------
    raw : Raw
    names : str, sequence of str or None
    """
    columns = set(raw.frame.columns)
    wanted = names.split(",") if isinstance(names, str) else names or []
    added = []
    for name in wanted:
        column, equals, word = name.strip().partition("=")
        if equals and name not in columns and column in columns:
            added.append(_indicator(raw.frame[column], column, word))
    pd = required("pandas", "reading a table", "tables")
    return replace(raw, frame=pd.concat([raw.frame, *added], axis=1)) if added else raw


def _indicator(column: pd.Series, name: str, word: str) -> pd.Series:
    pd = required("pandas", "reading a table", "tables")
    values = np.where(column.isna(), np.nan, column.astype(str) == word)
    return pd.Series(values, index=column.index, name=f"{name}={word}")
