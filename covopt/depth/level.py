r"""Rows with biases whose targets are equal: what they cost, exactly for one row and for two at an acute angle.

For one target η on two rows only 1ᵀM_ℓ⁻¹1 matters: M̄ may be t11ᵀ, one neuron a layer that is √t at both rows, as
linear layers bound the others from below (:mod:`covopt.depth.gram_chain`) and M̄ ⪰ t11ᵀ where 1ᵀM̄⁻¹1 = 1/t.
With b = 1/(t + 1) for β²1ᵀM⁻¹1, t in units of β² and s = ‖η‖²/β²,

.. math::
    R_L = \min_{t \ge 0} t_1 b_0 + \sum_{\ell = 2}^{L - 2} t_\ell b_{\ell - 1} + 2\sqrt{s\, b_{L - 2}}

(… + t_{L−1}b_{L−2} + s·b_{L−1} with a penalised output bias), b_0 = β²1ᵀG⁻¹1, for one row β²/‖x̃‖². Where x̃₁·x̃₂ < 0 it
bounds from below with b_0 = β²1ᵀΛ1, Λ as in :mod:`covopt.depth.obtuse`.

What is left to pay is concave in b and nothing at b = 0, so on a grid the chords are below it, and the least of
b/b′ − b + chord(b′) over each of its intervals is a closed form: second order in the grid. The best b′ grows with b,
as ∂²(b/b′)/∂b∂b′ < 0.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from covopt.depth.exactly import Three, dot, exactly, products
from covopt.depth.obtuse import obtuse_value
from covopt.exact.rounding import below, down

_LOST = (
    2.0**-42
)  # of all terms: some ten roundings, and what the grid of b′ that is searched may miss by them
_NODES = np.concatenate([[0.0], np.geomspace(1e-7, 0.05, 6000), np.linspace(0.05, 1.0, 4000)[1:]])
_BLOCK = 64  # nodes that share a part of the grid
_LARGE = 10**12
MOST_ROWS = 100  # each is compared with each


def level_value(start: Fraction, target: Fraction, depth: int, *, penalized: bool = False) -> float:
    """Return the cost from below.

    Parameters
    ----------
    start : Fraction
        b_0, or less.
    target : Fraction
        s.
    depth : int
        L ≥ 2.
    penalized : bool
        The output bias.

    Examples
    --------
    With few layers, and a target that a neuron reaches by its bias alone (R_L = 2√s for L = 2):

    >>> 0.0 <= 2.0 - level_value(Fraction(1), Fraction(1), 2) < 1e-9
    True
    """
    if start <= 0 or target <= 0:
        return 0.0
    first, end = min(1.0, below(start)), below(target)
    left = end * _NODES if penalized else 2.0 * np.sqrt(end * _NODES)
    left = left * (1.0 - _LOST)
    steps = depth - 2 + penalized
    if steps == 0:
        return down(2.0 * np.sqrt(first * end) * (1.0 - _LOST))
    for _ in range(steps - 1):
        left = np.concatenate([
            _before(_NODES[i : i + _BLOCK], left) for i in range(0, len(_NODES), _BLOCK)
        ])  # fmt: skip
    return float(_before(np.array([first]), left)[0])


def _before(at: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return what is left to pay one layer earlier at increasing b, from below."""
    begin, end = 0, len(_NODES) - 1
    ends = [int(np.argmin(_through(b, left, begin, end))) for b in (at[:1], at[-1:])]
    return np.maximum(_through(at, left, ends[0], ends[1] + 1).min(axis=1), 0.0)


def _through(at: np.ndarray, left: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return the least over some intervals of the grid, each by itself."""
    low, high = _NODES[begin:end], _NODES[begin + 1 : end + 1]
    slope = np.maximum((left[begin + 1 : end + 1] - left[begin:end]) / (high - low), 1e-300)
    base = left[begin:end] - slope * low
    b = at[:, None]
    place = np.clip(np.sqrt(b / slope), np.maximum(low, 1e-300), high)
    size = b / place + slope * place
    return np.asarray(size - b + base - _LOST * (size + b + np.abs(base)))


def level_start(gram: Three | Fraction, bias: Fraction) -> Fraction:
    """Return b_0 of one row, x̃·x̃, or of two, (x̃₁·x̃₁, x̃₂·x̃₂, x̃₁·x̃₂), or less; zero where it is none.

    Parameters
    ----------
    gram : Fraction or tuple of Fraction
    bias : Fraction
        β.

    Examples
    --------
    >>> level_start((Fraction(2), Fraction(2), Fraction(0)), Fraction(1))
    Fraction(1, 1)
    """
    if isinstance(gram, Fraction):
        return bias**2 / gram
    a, b, c = gram
    if c < 0:
        one = Fraction(1)
        return bias**2 * Fraction(obtuse_value(gram, (one, one, one), 1))
    det = a * b - c * c
    return bias**2 * (a + b - 2 * c) / det if det > 0 else Fraction(0)


def dearest_level(X: np.ndarray, Y: np.ndarray, bias: float) -> tuple[int, ...]:
    """Return the row that is dearest alone, or two rows with equal targets; none without biases, or of many rows.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    bias : float
        β ≥ 0.
    """
    if bias == 0.0 or len(X) > MOST_ROWS:
        return ()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        lifted = np.column_stack([X, np.full(len(X), bias)])
        gram = lifted @ lifted.T
        own = np.diag(gram)
        run = own[:, None] + own[None] - 2.0 * gram
        both = np.where(
            gram >= 0.0, run / (np.outer(own, own) - gram**2), 1.0 / own[:, None] + 1.0 / own[None]
        )
        # the larger this, the dearer: of one row on the diagonal
        np.fill_diagonal(both, 1.0 / own)
        size = np.where((Y[:, None] == Y[None]).all(axis=2), both * (Y**2).sum(axis=1), -1.0)
    i, j = divmod(int(np.argmax(np.nan_to_num(size, nan=-1.0))), len(X))
    return (i,) if i == j else (min(i, j), max(i, j))


def level_again(
    rows: tuple[int, ...], X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str
) -> float:
    """Return the bound by one row, or by two with equal targets; zero where it is none.

    Parameters
    ----------
    rows : tuple of int
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
        L ≥ 2.
    bias : float
        None without it.
    output_bias : {"none", "penalized", "free"}
        None for a free one.
    """
    if (
        not 1 <= len(rows) <= 2
        or any(not 0 <= i < len(X) for i in rows)
        or bias <= 0.0
        or output_bias == "free"
    ):
        return 0.0
    if (Y[rows[0]] != Y[rows[-1]]).any():
        return 0.0
    beta = Fraction(bias)
    lifted = [[*exactly(X[i]), beta] for i in rows]
    a, b, c = products(lifted[0], lifted[-1])
    start = level_start(a if len(rows) == 1 else (a, b, c), beta)
    target = dot(exactly(Y[rows[0]]), exactly(Y[rows[0]])) / beta**2
    if not Fraction(1, _LARGE) < target < _LARGE:  # far from one: left to other bounds
        return 0.0
    return level_value(start, target, depth, penalized=output_bias == "penalized")
