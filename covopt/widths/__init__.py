"""How many neurons networks of smallest norm through a table need; for a pair of covariances see ``sigma_rank``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import counted, html_table, required
from covopt.checks.validation import check_output_bias
from covopt.completely_positive.lower import clique_cover_bound
from covopt.data import Data
from covopt.exact.rank import exact_rank, rank_at_least
from covopt.exact.rounding import gamma
from covopt.losses import INTERPOLATES

if TYPE_CHECKING:
    import pandas as pd

_EXACT_WORK = 60_000  # fraction operations: below a second


def rank_at_most(matrix: np.ndarray, *, beside_constants: bool = False) -> int:
    """Return an upper bound on the rank: the exact rank in rationals, or min(N, k) where that takes long.

    Parameters
    ----------
    matrix : ndarray of shape (N, k)
    beside_constants : bool
        Whether to bound the rank of the columns modulo the constants.

    Examples
    --------
    >>> rank_at_most(np.array([[0.5, 1.0], [0.25, 0.5]]))
    1
    """
    n, k = matrix.shape
    most = min(n - 1 if beside_constants else n, k)
    if rank_at_least(matrix, beside_constants=beside_constants) >= most:
        return max(most, 0)
    if n * k * min(n, k) > _EXACT_WORK:
        return most
    rows = [[Fraction(float(v)) for v in row] for row in matrix]
    if beside_constants:
        rows = [[a - b for a, b in zip(row, rows[0], strict=True)] for row in rows[1:]]
    return exact_rank(rows)


def bend_bound(x: np.ndarray, targets: np.ndarray) -> int:
    """Count triples of neighbouring points, not on a line, with disjoint intervals: each needs its own bend.

    A network on the line with m neurons is piecewise linear with at most m bends. Between the ends of three
    points that lie on no line there is a bend; the open intervals of the triples counted here are disjoint. The
    test is in rationals. Points count as off a line when no line comes within 1e-9 of max|y| of them, the error
    allowed to a network through the points: equally spaced decimals on a line are off it by rounding.

    Parameters
    ----------
    x : ndarray of shape (N,)
        Distinct numbers.
    targets : ndarray of shape (N, k)

    Examples
    --------
    >>> bend_bound(np.arange(5.0), np.array([[0.0], [1.0], [0.0], [1.0], [0.0]]))
    2
    """
    order = np.argsort(x)
    points = [Fraction(float(v)) for v in x[order]]
    values = [[Fraction(float(v)) for v in row] for row in targets[order]]
    miss = Fraction(INTERPOLATES * float(np.abs(targets).max(initial=0.0)))
    count, i = 0, 0
    while i + 2 < len(points):
        left, right = points[i + 1] - points[i], points[i + 2] - points[i + 1]
        bent = any(
            abs((b - a) * right - (c - b) * left) > 2 * miss * (left + right)
            for a, b, c in zip(values[i], values[i + 1], values[i + 2], strict=True)
        )
        if bent:
            count += 1
            i += 2
        else:
            i += 1
    return count


@dataclass(frozen=True)
class SparsityBound:
    """One bound on the number of neurons.

    Attributes
    ----------
    kind : {"upper", "lower"}
        Upper: some network of smallest norm has at most this many. Lower: every one has at least this many.
    value : int
    name : str
        The formula.
    source : str
    reason : str
        Why it applies to this table.
    """

    kind: str
    value: int
    name: str
    source: str
    reason: str


COLUMNS = ("kind", "value", "name", "source", "reason")


@dataclass(frozen=True, repr=False)
class SparsityBounds:
    """All bounds that apply, the best first within each kind.

    Attributes
    ----------
    bounds : tuple of SparsityBound
    """

    bounds: tuple[SparsityBound, ...]

    @property
    def upper(self) -> int:
        """Some network of smallest norm has at most this many neurons."""
        return min(b.value for b in self.bounds if b.kind == "upper")

    @property
    def lower(self) -> int:
        """Every network of smallest norm has at least this many neurons."""
        return max(b.value for b in self.bounds if b.kind == "lower")

    def __repr__(self) -> str:
        sides = {b.kind for b in self.bounds}
        low = f"{self.lower} ≤ " if "lower" in sides else ""
        high = f" ≤ {self.upper}" if "upper" in sides else ""
        return f"SparsityBounds({low}neurons{high}, {counted(len(self.bounds), 'bound')})"

    def _repr_html_(self) -> str:
        rows = [(b.kind, b.value, b.name, b.source, b.reason) for b in self.bounds]
        return html_table(rows, head=COLUMNS, caption=repr(self))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per bound; ``to_csv`` and ``to_latex`` write it.

        Returns
        -------
        pandas.DataFrame
        """
        pd = required("pandas", "to_frame()", "tables")
        return pd.DataFrame([dataclasses.astuple(b) for b in self.bounds], columns=list(COLUMNS))

    def summary(self) -> str:
        """Return a table with one bound per line."""
        lines = [f"{self.lower} ≤ neurons of the sparsest network of smallest norm ≤ {self.upper}"]
        lines += [
            f"  {'≤' if b.kind == 'upper' else '≥'} {b.value:<8} {b.name:<24} {b.source}: {b.reason}"
            for b in self.bounds
        ]
        return "\n".join(lines)


def sparsity_bounds(X: Any, Y: Any, *, bias: float = 1.0, output_bias: str = "none") -> SparsityBounds:
    r"""Bound the number of neurons of the sparsest shallow network of smallest norm through the points.

    .. math:: \min \#\{j : v_j \ne 0\} \quad\text{over the minimisers of } \sum_j \|w_j\|^2 + \|v_j\|^2 \,(+\|b\|^2)
              \text{ s.t. } \sum_j \sigma(\tilde X w_j) v_j^T + \beta 1 b^T = Y.

    n is the number of distinct points (of distinct rays where the bias is 0), r the rank of the points with their
    bias, q the rank of Y (after centring its columns where the output bias is free).

    Parameters
    ----------
    X : array_like of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
    bias : float
    output_bias : {"none", "penalized", "free"}
        The output bias is not a neuron and is not counted.

    Returns
    -------
    SparsityBounds

    Raises
    ------
    InputError
        When the table is invalid, or an output bias is requested without a bias.

    Notes
    -----
    Upper bounds. Let a network be optimal, :math:`a_j = \sigma(\tilde X w_j)`. Its output weights are the least for
    its neurons, so :math:`v_j = \Lambda^T a_j` with :math:`\Lambda = (K^\sigma)^+ Y`, rank Λ ≤ q. Rescaling the
    neurons by :math:`\sqrt{\alpha_j}` keeps the outputs when
    :math:`\sum_j \alpha_j a_j a_j^T \Lambda = Y - \beta 1 b^T`, and costs
    :math:`\sum_j \alpha_j(\|w_j\|^2+\|v_j\|^2)`, linear in α ≥ 0: a vertex has at most as many neurons as the
    dimension of

    .. math:: \{S\Lambda : S = S^T\}, \quad \dim = nq - \tfrac{q(q-1)}{2},

    the :math:`q(q-1)/2` because :math:`B^T S B` is symmetric (B a basis of the image of Λ). That is n for one output
    and n(n + 1)/2 at most: half of FL22's N(N + 1), since K enters the cost through one linear functional only. With
    a free output bias :math:`1^T\Lambda = 0`, everything holds modulo the constants, and n becomes n − 1.
    Where r = 2 two neurons for each of the at most 2n cells are enough for any number of outputs: see
    :func:`covopt.sparsify.merge_planar`. With one output every minimiser merges to one neuron per (cell, sign)
    (SP20 Lemma 4.5), and silent ones only add to the norm: 4N − 2 where d = 1, while FL22 Prop 15 counts 4N.

    Lower bounds hold for every network through the points: its outputs have rank at most the number of neurons, and
    one neuron bends a function on the line at one point. For X = I, no bias and a completely positive Y
    every minimiser has :math:`K = (Y Y^T)^{1/2} = Y` and at least as many neurons as the CP-rank of Y (FL22 Prop 14).

    Examples
    --------
    >>> bounds = sparsity_bounds([[-1.0], [0.0], [1.0], [2.0]], [1.0, 0.0, 1.0, 0.0])
    >>> bounds.lower, bounds.upper
    (1, 4)
    >>> print(bounds.summary())  # doctest: +ELLIPSIS
    1 ≤ neurons of the sparsest network of smallest norm ≤ 4
      ≤ 4        N                        Fisher–Jerome; SP20 §4: ...
    """
    check_output_bias(output_bias, bias)
    data = Data.validate(X, Y, bias=bias)
    rows = data.independent_rows
    found = [*_upper(data, rows, output_bias), *_lower(data, rows, output_bias)]
    uppers = sorted((b for b in found if b.kind == "upper"), key=lambda b: b.value)
    lowers = sorted((b for b in found if b.kind == "lower"), key=lambda b: -b.value)
    return SparsityBounds((*uppers, *lowers))


def _upper(data: Data, rows: np.ndarray, output_bias: str) -> list[SparsityBound]:
    n, k = len(rows), data.n_outputs
    targets, inputs = data.Y[rows], data.lifted[rows]
    r = rank_at_most(inputs)
    found: list[SparsityBound] = []

    def add(value: int, name: str, source: str, reason: str) -> None:
        found.append(SparsityBound("upper", int(value), name, source, reason))

    what = "distinct points" if data.bias > 0 else "distinct rays"
    kept = f"{n} {what}"
    if k == 1:
        add(n, "N", "Fisher–Jerome; SP20 §4", f"one output, {kept}")
    else:
        add(n * k, "N·k", "Carathéodory on the outputs", f"{kept}, {k} outputs")
    add(n * (n + 1), "N(N+1)", "FL22 Prop 7", f"Carathéodory in the pair (K, Kᵠ), {kept}")
    pair = r * (r + 1) // 2 + n * (n + 1) // 2
    add(pair, "r(r+1)/2 + N(N+1)/2", "FL22 Prop 7, sharpened", f"K lies in the image of X̃, of rank {r}")
    add(
        n * (n + 1) // 2, "N(N+1)/2", "Notes of sparsity_bounds", "K enters the cost by one linear functional"
    )
    q = rank_at_most(targets)
    add(
        n * q - q * (q - 1) // 2, "Nq − q(q−1)/2", "Notes of sparsity_bounds", f"outputs of rank {q}, {kept}"
    )  # fmt: skip
    if output_bias == "free":
        q, m = rank_at_most(targets, beside_constants=True), n - 1
        add(
            m * q - q * (q - 1) // 2, "(N−1)q − q(q−1)/2", "Notes of sparsity_bounds",
            f"free output bias: the constants are free; centred outputs of rank {q}",
        )  # fmt: skip
    if data.n_features == 1 and k == 1 and data.bias > 0:
        add(4 * n, "4N", "FL22 Prop 15", f"one input, one output, {kept}")
    if r == 2 and q > 0:
        active = 2 * n - int(data.bias > 0)  # with a bias there is a cell where all rows are silent
        add(
            2 * active,
            "2·cells",
            "SP20 Lemma 4.5; LQ decomposition",
            f"points of rank 2, at most {active} cells",
        )
    factor = _identity_factor(data, output_bias)
    if factor is not None:
        edges, strict = factor
        add(
            edges + strict, "edges + dominant rows", "FL22 Prop 14; Kaykobad 1987",
            "X = I, no bias, Y diagonally dominant and ≥ 0: K = Y, a factor with one row per edge and dominant row",
        )  # fmt: skip
    return found


def _lower(data: Data, rows: np.ndarray, output_bias: str) -> list[SparsityBound]:
    targets = data.Y[rows]
    centred = output_bias != "none"
    rank = rank_at_least(targets, beside_constants=centred)
    reason = "outputs of this rank beside the constants" if centred else "outputs of this rank"
    found = [SparsityBound("lower", rank, "rank Y", "σ(Z)V has rank at most its width", reason)]
    if data.n_features == 1 and data.bias > 0:
        bends = bend_bound(data.X[rows, 0], targets)
        found.append(
            SparsityBound(
                "lower", bends, "bends", "a neuron bends at one point",
                f"{bends} triples of neighbours off a line, side by side",
            )
        )  # fmt: skip
    if _identity_factor(data, output_bias) is not None:
        bound, why = clique_cover_bound(data.Y, 0.0), "K = Y at every minimiser; its edge-clique cover number"
        found.append(SparsityBound("lower", bound, "CP-rank of Y", "FL22 Prop 14", why))
    return found


def _identity_factor(data: Data, output_bias: str) -> tuple[int, int] | None:
    """Return numbers of edges and strictly dominant rows if X = I and Y ≥ 0 is diagonally dominant, else None."""
    X, Y = data.X, data.Y
    n = len(X)
    if data.bias > 0 or output_bias != "none" or X.shape != (n, n) or Y.shape != (n, n):
        return None
    if not np.array_equal(X, np.eye(n)) or not np.array_equal(Y, Y.T) or (Y < 0).any():
        return None
    beside = np.array([np.sum(np.delete(row, i)) for i, row in enumerate(Y)])
    # sums of n floats: a row counts only if it is dominant beyond rounding, or exactly in integers
    exact = bool((np.round(Y) == Y).all() and Y.max(initial=0.0) * n < 2**53)
    slack = 0.0 if exact else gamma(2 * n + 8)
    if (np.diag(Y) < beside * (1.0 + slack)).any():
        return None
    strict = int((np.diag(Y) > beside).sum())
    return int((np.triu(Y, 1) > 0).sum()), strict
