"""Find out whether a column holds numbers, dates, two words or text, and which columns are features by default."""

from __future__ import annotations

import logging
import re
import shlex
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import listed, one_line, required
from covopt.checks.validation import as_double, as_doubles
from covopt.data.readers import UNNAMED
from covopt.data.tabular import RowNames, to_doubles
from covopt.errors import InputError, TableWarning
from covopt.files.schema import shown

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("covopt")
_FIGURES = re.compile(r"\W*\d")  # begins with a digit, possibly after signs
_DATE = re.compile(r"\d\D+\d+\D+\d|\d{4}[-/]\d|\d.*[^\W\d_]{3}.*\d|\d:\d")  # texts that may be dates
# kinds that pandas infers: numbers, which need no further look; dates and spans of time
_NUMBERS = frozenset({"integer", "floating", "mixed-integer-float", "decimal", "complex", "boolean", "empty"})
_DATES = ("date", "time", "period")
ROWS_OF_A_CLASS = 10  # least average rows of a class, for whole numbers from 0 or 1 to be classes
_COUNTERS = frozenset({"id", "index", "idx", "row", "rows", "rowid", "rownames", "no", "nr", "number", "#"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|#")


@dataclass(frozen=True)
class Content:
    """Description of the values of a column.

    Attributes
    ----------
    kind : {"numbers", "mixed", "odd", "dates", "two", "text"}
        Odd: text that begins with figures, such as numbers with a unit. Mixed: numbers and something else. Two: two
        different texts, such as yes and no.
    example : str
        The first value that is not a number.
    row : int
        The row of this value.
    reason : str
        Why the column is not a feature by default.
    """

    kind: str
    example: str = ""
    row: int = 0
    reason: str = ""


def content_of(series: pd.Series) -> Content:
    """Return a description of all values of a column.

    Parameters
    ----------
    series : pandas.Series

    Returns
    -------
    Content

    Examples
    --------
    >>> import pandas as pd
    >>> content_of(pd.Series(["$1", "$2"])).kind
    'odd'
    >>> content_of(pd.Series(["no", "yes", "no"])).reason
    "two words, 'no' and 'yes': write 0 and 1 to use it"
    """
    pd = required("pandas", "reading a table", "tables")
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if inferred in _NUMBERS:
        return Content("numbers")
    texts = series.astype(object).map(str, na_action="ignore")
    distinct = texts.dropna().drop_duplicates()
    numbers = pd.to_numeric(distinct, errors="coerce").notna()
    words = distinct[~numbers].tolist()
    if not words:
        return Content("numbers")
    kind = "text"
    if inferred.startswith(_DATES) or (not numbers.any() and _are_dates(words)):
        kind = "dates"
    elif numbers.any():
        kind = "mixed"
    elif inferred != "mixed" and all(map(_FIGURES.match, words)):
        kind = "odd"
    elif len(words) == 2 < texts.count():
        kind = "two"
    example, both = shown(words[0]), " and ".join(sorted(map(shown, words[:2])))
    reasons = {
        "dates": f"dates or times, as in {example}", "text": f"text, as in {example}",
        "two": f"two words, {both}: write 0 and 1 to use it",
    }  # fmt: skip
    return Content(kind, example, int((texts == words[0]).to_numpy().argmax()), reasons.get(kind, ""))


def _are_dates(texts: list[str]) -> bool:
    """Return whether all texts look like dates, and the first and the last are dates for pandas (0.1 ms each)."""
    pd = required("pandas", "reading a table", "tables")
    found = pd.to_datetime(pd.Series([texts[0], texts[-1]]), errors="coerce", format="mixed", utc=True)
    return all(map(_DATE.search, texts)) and bool(found.notna().all())


def to_numbers(series: pd.Series, name: str, where: str, remedy: str = "") -> np.ndarray:
    """Return a column as floats, missing values as NaN.

    Parameters
    ----------
    series : pandas.Series
        Its index may hold the places of the rows in their file.
    name, where : str
        The names of the column and of its file, for messages.
    remedy : str
        Advice besides converting the column, beginning with a comma.

    Raises
    ------
    InputError
        If a value is not a number; the message has the first one.

    Examples
    --------
    >>> import pandas as pd
    >>> to_numbers(pd.Series([1, "2"]), "a", "t.csv").tolist()
    [1.0, 2.0]
    """
    found, at, called = content_of(series), RowNames.of(series).all, f"{where}: column {name!r}"
    if found.kind != "numbers":
        why = "Write the numbers alone" if found.kind == "odd" else "Convert it to numbers"
        if "," in found.example:
            why = "Read decimal commas with --decimal , (decimal=','), or take them out"
        raise InputError(f"{called} is not numeric: {at(found.row)} holds {found.example}. {why}{remedy}.")
    values = series.to_numpy()
    if values.dtype.kind == "O":
        values = np.array([as_double(v) if isinstance(v, str) else v for v in values], dtype=object)
    return to_doubles(values, called, lambda position: f"{called}, {at(position[0])}")


def holds_classes(series: pd.Series) -> bool:
    """Return whether a target looks like classes: words, booleans, −1 and 1, or 0 … k − 1 ten times each on average.

    Parameters
    ----------
    series : pandas.Series

    Examples
    --------
    >>> import pandas as pd
    >>> [holds_classes(pd.Series(values)) for values in (["a", "b"], [0, 1, 1], [0.0, 1.5], [0, 1, 10**400])]
    [True, True, False, False]
    """
    content = content_of(series)
    if content.kind != "numbers":
        return content.kind in ("text", "two")
    try:
        values = np.unique(as_doubles(series.dropna()))
    except (TypeError, ValueError):
        return False
    if values.tolist() in ([-1.0, 1.0], [0.0, 1.0]):
        return True
    return len(values) > 2 and _counts(values) and len(series) >= ROWS_OF_A_CLASS * len(values)


def _counts(values: np.ndarray) -> bool:
    """Return whether sorted values count from 0 or 1."""
    return values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values)))


def is_counter(name: str, series: pd.Series) -> bool:
    """Return whether a column counts the rows from 0 or 1 and has such a name, as ``id`` or ``PassengerId``.

    Parameters
    ----------
    name : str
    series : pandas.Series
    """
    named = not _COUNTERS.isdisjoint(word.lower() for word in _WORD.findall(name))
    values = series.to_numpy()
    return named and values.dtype.kind in "iu" and len(values) > 1 and _counts(np.sort(values))


def is_constant(series: pd.Series) -> bool:
    """Return whether a column of more than three rows holds the same number in all of them.

    Parameters
    ----------
    series : pandas.Series
    """
    return len(series) > 3 and series.dtype.kind in "iufb" and bool((series == series.iloc[0]).all())


def is_unnamed_index(values: np.ndarray) -> bool:
    """Return whether a column may be an index that pandas has written: different whole numbers or no values.

    Parameters
    ----------
    values : ndarray
    """
    if values.dtype.kind == "f":
        return bool(np.isnan(values).all())
    return values.dtype.kind in "iu" and len(np.unique(values)) == len(values)


def without(name: str) -> str:
    """Return the option that leaves a column out, quoted for a shell.

    Examples
    --------
    >>> without("id"), without("customer id")
    ("--features=-id (features='-id')", "--features='-customer id' (features='-customer id')")
    """
    return f"--features={shlex.quote('-' + name)} (features='-{name}')"


def features_by_default(frame: pd.DataFrame, columns: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the columns that are features by default, and for each of the others the reason why it is not.

    Parameters
    ----------
    frame : pandas.DataFrame
    columns : list of str
        The candidates.

    Warns
    -----
    TableWarning
        About columns for which the default may be wrong.
    """
    found = {c: content_of(frame[c]) for c in columns}
    left_out = {c: content.reason for c, content in found.items() if content.reason}
    chosen = [c for c in columns if c not in left_out]
    nameless = [c for c in chosen if c.startswith(UNNAMED) and is_unnamed_index(frame[c].to_numpy())]
    nameless = nameless if len(nameless) < len(chosen) else []
    left_out |= dict.fromkeys(nameless, "without a name, and row numbers or nothing")
    chosen = [c for c in chosen if c not in nameless]
    told = [c for c in left_out if c in found and found[c].kind in ("dates", "two")]
    which = "; ".join(f"column {c!r} ({left_out[c]})" for c in told)
    for names, sentence in (
        (nameless, "column {0!r} has no name and holds row numbers or nothing, so it is no feature; --features "
         "(features=...) with {0!r} keeps it"),
        ([c for c in chosen if is_counter(c, frame[c])],
         "column {0!r} counts the rows and is used as a feature; leave it out with {1} if it says nothing about the "
         "target"),
        ([c for c in chosen if is_constant(frame[c])] if len(chosen) > 1 else [],
         "column {0!r} holds {2} in every row and is used as a feature, though it can tell no rows apart; leave it "
         "out with {1}"),
        (told[:1] if chosen else [], "left out because no numbers: {3}; turn them into numbers to use them"),
    ):  # fmt: skip
        if names:
            more = f". {len(names)} columns are like this: {listed(names)}" if len(names) > 1 else ""
            text = sentence.format(names[0], without(names[0]), frame[names[0]].iloc[0], which)
            warnings.warn(f"{text}{more}.", TableWarning, stacklevel=4)
    if left_out:
        logger.info("columns left out: %s", describe_left_out(left_out))
    return chosen, left_out


def describe_left_out(left_out: dict[str, Any]) -> str:
    """Return one line with the columns left out and the reasons.

    Parameters
    ----------
    left_out : dict of str
        Column to reason.

    Examples
    --------
    >>> describe_left_out({"town": "text, as in 'Bern'", "w": "not asked for", "z": "not asked for"})
    "town (text, as in 'Bern'); w, z (not asked for)"
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(one_line(name, 40))
    return "; ".join(
        f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''} ({reason})"
        for reason, names in by_reason.items()
    )
