"""Input matrices of ``cp_rank``: validated, exact if their entries are, with their support graph."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from covopt.checks import counted, one_line
from covopt.completely_positive.graphs import MOST_ROWS, graph_matrix, is_graph
from covopt.data.tabular import to_matrix
from covopt.errors import InputError, TableWarning
from covopt.exact.elimination import integer_row
from covopt.exact.rank import COMPUTED, FOUND
from covopt.exact.rounding import TINY

# most digits of a numerator or denominator in a file: Python converts so many, with those of an exponent of a double
MOST_DIGITS = sys.int_info.default_max_str_digits - sys.float_info.max_10_exp
EXACT_SIZE = 40  # largest order for elimination in integers
Exact = np.ndarray  # array of Fraction, shape (n, n)
Matrix = Sequence[Sequence[Fraction]] | Exact


def recognised(value: float) -> Fraction:
    """Return the fraction that a computed number may stand for; what follows from it is checked exactly.

    Fractions with denominators up to 1/√ε differ by ε or more: numbers within FOUND of one tell which it is.

    Examples
    --------
    >>> recognised(0.3333333333)
    Fraction(1, 3)
    """
    return Fraction(value).limit_denominator(math.isqrt(round(1.0 / FOUND)))


@dataclass(frozen=True, eq=False)
class SymmetricMatrix:
    """A symmetric matrix as floats and, if its entries are integers or fractions, also exactly.

    Attributes
    ----------
    values : ndarray of shape (n, n)
    exact : ndarray of Fraction, shape (n, n), or None
        None if the entries were given as floats that are not all integers, hence known up to rounding only.
    graph : networkx.Graph or None
        The graph, if the matrix is its EᵀE.
    """

    values: np.ndarray
    exact: Exact | None = None
    graph: Any = None

    def __len__(self) -> int:
        return len(self.values)

    def part(self, vertices: tuple[int, ...]) -> SymmetricMatrix:
        """Return the principal submatrix on ``vertices``."""
        kept = np.ix_(vertices, vertices)
        return SymmetricMatrix(self.values[kept], None if self.exact is None else self.exact[kept])

    def settled(self, tol: float) -> SymmetricMatrix:
        """Return the matrix with its zeros decided: negative floats within the tolerance are set to zero.

        Parameters
        ----------
        tol : float

        Raises
        ------
        InputError
            For positive floats within the tolerance, which cannot be decided.
        """
        pairs = () if self.exact is not None else support_pattern(self.values, tol).ambiguous
        unclear = [pair for pair in pairs if self.values[pair] > 0]
        for i, j in unclear[:1]:
            raise InputError(
                f"A[{i}, {j}] = {self.values[i, j]:.3g} {f'and {len(unclear) - 1} more ' if unclear[1:] else ''}"
                f"cannot be told from zero at the tolerance {tol:g}, and zeros decide a CP-rank: set such entries to "
                "zero, give a smaller tol, or pass exact entries (integers, fractions)."
            )
        if not pairs:
            return self
        values = self.values.copy()
        for i, j in pairs:
            values[i, j] = values[j, i] = 0.0
        return SymmetricMatrix(values)

    def slacks(self, d: Sequence[Fraction | int] | None = None) -> list[int]:
        """Return Md, each entry scaled to an integer by a positive factor; M is the comparison matrix (exact).

        Parameters
        ----------
        d : sequence of Fraction, optional
            Default: all ones.

        Examples
        --------
        >>> read_matrix([[3, 1], [1, 2]]).slacks(), read_matrix([[3, 1], [1, 2]]).slacks([Fraction(1, 2), 2])
        ([2, 1], [-1, 7])
        """
        assert self.exact is not None
        weights = [1] * len(self) if d is None else integer_row(d)[0]
        found = []
        for i, (row, numbers) in enumerate(zip(self.exact, self.values, strict=True)):
            near = [i, *(j for j in np.flatnonzero(numbers).tolist() if j != i)]
            (middle, *around), _ = integer_row(row[near])
            total = sum(abs(x) * weights[j] for x, j in zip(around, near[1:], strict=True))
            found.append(middle * weights[i] - total)
        return found

    def fractions(self) -> Exact:
        """Return the entries as fractions: the exact ones, or the exact values of the floats."""
        if self.exact is not None:
            return self.exact
        return np.array([[Fraction(entry) for entry in row] for row in self.values.tolist()], dtype=object)


def read_matrix(A: Any) -> SymmetricMatrix:
    """Check a matrix or a graph.

    Parameters
    ----------
    A : array_like of shape (n, n), networkx.Graph or SymmetricMatrix
        Integers and fractions stay exact; so do floats that are all integers.

    Returns
    -------
    SymmetricMatrix

    Raises
    ------
    InputError
        If it is not square, symmetric and finite, if it is empty or out of the range of doubles, or if the graph is
        directed or has parallel edges or loops.

    Examples
    --------
    >>> read_matrix([[2, 1], [1, 2]]).exact[0, 1]
    Fraction(1, 1)
    >>> read_matrix([[0.1, 0.0], [0.0, 0.2]]).exact is None
    True
    """
    if isinstance(A, SymmetricMatrix):
        return A
    if is_graph(A):
        values = graph_matrix(A)
        return SymmetricMatrix(values.astype(float), _exactly(values), A)
    rational = _rational(A)
    with warnings.catch_warnings():
        if rational is not None:  # keep integers that doubles cannot represent
            warnings.simplefilter("ignore", TableWarning)
        values, _ = to_matrix("A", A)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(f"A must be a square matrix; received shape {values.shape}.")
    if len(values) == 0:
        raise InputError("A is empty; give it at least one row.")
    if rational is None and (values == np.round(values)).all() and np.abs(values).max() < 2**53:
        rational = _exactly(values)
    return symmetric(values, rational)


def _exactly(values: np.ndarray) -> Exact:
    """Return integers as fractions; equal entries share one object, as large sparse matrices have few values."""
    entries, places = np.unique(values, return_inverse=True)
    return np.array([Fraction(int(x)) for x in entries], dtype=object)[places.reshape(values.shape)]


def symmetric(values: np.ndarray, exact: Exact | None = None) -> SymmetricMatrix:
    """Return the matrix of these entries; floats that differ across the diagonal by rounding are averaged.

    Parameters
    ----------
    values : ndarray of shape (n, n)
    exact : ndarray of Fraction, shape (n, n), optional

    Raises
    ------
    InputError
        For the first entry that is not finite, whose sums overflow, that breaks the symmetry, or that is not zero but
        underflows to zero as a double.

    Examples
    --------
    >>> symmetric(np.array([[1.0, 0.5], [0.5 + 2.0**-50, 1.0]])).values[0].tolist() == [1.0, 0.5 + 2.0**-51]
    True
    """
    for i, j in np.argwhere(~np.isfinite(values))[:1]:
        raise InputError(f"A[{i}, {j}] is {values[i, j]}; every entry must be a finite number.")
    if exact is None:
        roots, lost = np.sqrt(np.abs(np.diag(values))), np.zeros_like(values, dtype=bool)
        differ = np.abs(values - values.T) > COMPUTED * np.maximum(np.abs(values), np.outer(roots, roots))
    else:
        differ, lost = exact != exact.T, (exact != 0) & (values == 0)
        different = {id(entry): entry for entry in exact.flat}.values()
        if any(max(abs(x.numerator), x.denominator) >= 10**MOST_DIGITS for x in different):
            raise InputError(f"A has a fraction of more than {MOST_DIGITS} digits; round its entries.")
    for i, j in np.argwhere(differ)[:1]:
        raise InputError(
            f"A must be symmetric; received A[{i}, {j}] = {values[i, j]!r} and A[{j}, {i}] = {values[j, i]!r}. "
            "Pass (A + A.T) / 2 if that is what you mean."
        )
    large = TINY * np.abs(values) > 1.0
    for i, j in np.argwhere(large | lost)[:1]:
        raise InputError(
            f"A[{i}, {j}] is {'too large' if large[i, j] else 'too close to zero'} for double precision; scale A "
            "(rows with the same columns by any positive numbers), which does not change its CP-rank."
        )
    return SymmetricMatrix((values + values.T) / 2, exact)


def _rational(A: Any) -> Exact | None:
    """Return the entries as fractions if all are integers or fractions of Python or NumPy, else None."""
    try:
        rows = [list(row) for row in (A.tolist() if isinstance(A, np.ndarray) else A)]
    except TypeError:
        return None
    if not all(isinstance(entry, Rational) and not isinstance(entry, bool) for row in rows for entry in row):
        return None
    # NumPy integers inside a Fraction would overflow at 64 bits
    return np.array(
        [[e if type(e) is Fraction else Fraction(int(e.numerator), int(e.denominator)) for e in row] for row in rows],
        dtype=object,
    )  # fmt: skip


def read_csv(path: str | os.PathLike[str]) -> SymmetricMatrix:
    """Read a matrix from a text file: one row per line, entries as integers, decimals or fractions.

    Entries are exact unless the file has a decimal of 15 digits or more. Floats are written like that, so the entries
    of such a file are floats, known up to ``tol`` like those of an array.

    Parameters
    ----------
    path : path-like
        Entries are separated by commas, semicolons, tabs or blanks; ``#`` starts a comment. A first line without
        numbers is taken for column names and skipped.

    Raises
    ------
    InputError
        If an entry is not a number (the message gives the line), or the matrix is not square and symmetric.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file; save the matrix as CSV.") from None
    square = f"{path} must hold a square matrix;"
    rows: list[list[Fraction]] = []
    written_by_floats = begun = False
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        words = [word.strip() for word in re.split("[,;]" if re.search("[,;]", content) else r"\s+", content)]
        named = not begun and not any(re.match(r"[-+.]*\d", word) for word in words)
        begun |= bool(content)
        if not content or named:
            continue
        if rows and len(words) != len(rows[0]):
            raise InputError(
                f"{square} line {number} has {counted(len(words), 'entry', 'entries')}, the lines before it have "
                f"{len(rows[0])}."
            )
        if max(len(words), len(rows) + 1) > MOST_ROWS:
            raise InputError(f"{path} must hold a matrix of at most {MOST_ROWS} rows and columns.")
        rows.append([_entry(f"{path}, line {number}: {one_line(word, 60)!r}", word) for word in words])
        written_by_floats |= any(
            len(_digits(word)) >= sys.float_info.dig for word in words if set(word) & set(".eE")
        )
    if {len(row) for row in rows} != {len(rows)}:
        entries = len(rows[0]) if rows else "no"
        raise InputError(f"{square} received {len(rows)} rows of {entries} entries.")
    return read_matrix([[float(entry) for entry in row] for row in rows] if written_by_floats else rows)


def _entry(where: str, word: str) -> Fraction:
    plain = word.replace(" ", "")
    try:
        size = abs(float("nan" if len(plain) > MOST_DIGITS else 1.0 if "/" in plain else plain))
        # 1e99999999 as a fraction would exhaust the memory
        if TINY * size > 1.0 or (size == 0.0 and _digits(plain)):
            raise InputError(
                f"{where} is out of the range of double precision; scale the matrix, which does not change its "
                "CP-rank."
            )
        return Fraction("nan" if math.isnan(size) else plain)
    except (ValueError, ZeroDivisionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where} is no number; write integers, decimals or fractions such as 3/7."
        ) from None


def _digits(word: str) -> str:
    """Return the digits before the exponent, without leading and trailing zeros."""
    return re.sub(r"\D", "", word.lower().partition("e")[0]).strip("0")


@dataclass(frozen=True)
class Pattern:
    """The support graph of a matrix.

    Attributes
    ----------
    vertices : tuple of int
        Rows with a positive diagonal entry.
    edges : tuple of pairs of int
        Pairs u < v whose entry is certainly not zero.
    ambiguous : tuple of pairs of int
        Pairs u < v whose entry is not zero but within rounding of zero.
    """

    vertices: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    ambiguous: tuple[tuple[int, int], ...]

    def components(self) -> list[tuple[int, ...]]:
        """Return the connected components, with ambiguous pairs as edges, sorted by their first vertex."""
        size = max(self.vertices, default=-1) + 1
        ends = np.array([*self.edges, *self.ambiguous], dtype=int).reshape(-1, 2)
        graph = coo_array((np.ones(len(ends)), ends.T), shape=(size, size))
        labels = connected_components(graph, directed=False)[1]
        groups: dict[int, list[int]] = {}
        for v in self.vertices:
            groups.setdefault(int(labels[v]), []).append(v)
        return [tuple(group) for group in groups.values()]


def support_pattern(A: np.ndarray, tol: float = FOUND) -> Pattern:
    """Return the support graph of a symmetric matrix.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Has a nonnegative diagonal; absolute values of the off-diagonal entries are used.
    tol : float
        An entry a_ij ≠ 0 with |a_ij| ≤ tol·√(a_ii a_jj) is ambiguous.

    Returns
    -------
    Pattern

    Examples
    --------
    >>> support_pattern(np.array([[1.0, 1e-12, 0.5], [1e-12, 1.0, 0.0], [0.5, 0.0, 1.0]]))
    Pattern(vertices=(0, 1, 2), edges=((0, 2),), ambiguous=((0, 1),))
    """
    A = np.asarray(A, dtype=float)
    alive, roots = A.diagonal() > 0, np.sqrt(np.maximum(A.diagonal(), 0.0))
    first, second = np.nonzero(np.triu(A, 1))
    seen = alive[first] & alive[second]
    first, second = first[seen], second[seen]
    small = np.abs(A[first, second]) <= tol * (roots[first] * roots[second])
    pairs = np.column_stack([first, second])
    edges, ambiguous = (tuple(map(tuple, part.tolist())) for part in (pairs[~small], pairs[small]))
    return Pattern(tuple(np.flatnonzero(alive).tolist()), edges, ambiguous)
