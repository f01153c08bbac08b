r"""Rows with biases whose targets are equal: what they cost, exactly for one row and for two at an acute angle.

For one target η on two rows only 1ᵀM_ℓ⁻¹1 matters: M̄ may be t11ᵀ, one neuron a layer that is √t at both rows, as
linear layers bound the others from below (:mod:`covopt.depth.gram_chain`) and M̄ ⪰ t11ᵀ where 1ᵀM̄⁻¹1 = 1/t.
With b = 1/(t + 1) for β²1ᵀM⁻¹1, t in units of β² and s = ‖η‖²/β²,

.. math::
    R_L = \min_{t \ge 0} t_1 b_0 + \sum_{\ell = 2}^{L - 2} t_\ell b_{\ell - 1} + 2\sqrt{s\, b_{L - 2}}

(… + t_{L−1}b_{L−2} + s·b_{L−1} with a penalised output bias), b_0 = β²1ᵀG⁻¹1, for one row β²/‖x̃‖². Where x̃₁·x̃₂ < 0 it
bounds from below with b_0 = β²1ᵀΛ1, Λ as in :mod:`covopt.depth.level`.

What is left to pay is concave in b and nothing at b = 0, so on a grid the chords are below it, and the least of
b/b′ − b + chord(b′) over each of its intervals is a closed form: second order in the grid. The best b′ grows with b,
as ∂²(b/b′)/∂b∂b′ < 0.

Two rows at an obtuse angle whose targets have y₁·y₂ ≥ 0, without biases: what they cost, exactly.

With M = Σ aaᵀ over the neurons a = σ(Xw) of the first layer, the layers above may be taken linear
(:mod:`covopt.depth.pairs`): M ≥ 0 entrywise. Let Λ ⪰ 0 satisfy aᵀΛa ≤ ‖w‖² for every w. Then ‖W_1‖² ≥ Tr ΛM, and
Tr ΛM plus what L − 1 linear layers cost on M is at least what L linear layers cost on rows of Gram matrix Λ⁻¹:

.. math:: R_L \ge L\,\|\Lambda^{1/2} Y\|_{2/L}^{2/L},

with equality at the best Λ, as both sides are the two ends of one convex problem. For x₁·x₂ < 0 a neuron sees
one row, at a cost of a_i²/G_ii, or both, at aᵀG⁻¹a, so the condition on Λ reads: G_iiΛ_ii ≤ 1, and G⁻¹ − Λ is
copositive. Both are checked in fractions. The value is concave in Λ and at the maximum one G_iiΛ_ii at least is one,
so the search is over an interval, twice. Opposite rows are never seen together: the first condition is all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize_scalar

from covopt.depth.exactly import Three, dot, exactly, products
from covopt.exact.rounding import below, down, root_down

_SHRINK = 1 - Fraction(1, 2**40)  # of the entry off the diagonal: what was found in doubles is let inside


def two_roots_cost(trace: Fraction, product: Fraction, depth: int) -> float:
    r"""Return L(s₁^{2/L} + s₂^{2/L}) from below, where s₁² + s₂² and s₁²s₂² are given.

    Parameters
    ----------
    trace, product : Fraction
        Of the squares; ``product`` at most a quarter of ``trace`` squared.
    depth : int

    Examples
    --------
    >>> round(two_roots_cost(Fraction(5), Fraction(4), 2), 12)
    6.0
    """
    if trace <= 0:
        return 0.0
    # the squares are the roots of t² − trace·t + product. At a fixed product t^p + (product/t)^p grows with t from
    # √product ≤ trace/2 on, so the larger root is rounded down
    root = max(0.0, down(math.sqrt(below(1 - 4 * product / trace**2))))
    large = trace * (1 + Fraction(root)) / 2
    roots = root_down(large, depth), root_down(product / large, depth)
    return below(depth * sum(map(Fraction, roots), Fraction(0)))


def obtuse_value(gram: Three, moments: Three, depth: int) -> float:
    """Return the cost of two obtuse rows from below; zero where it is none.

    Parameters
    ----------
    gram : tuple of Fraction
        x₁·x₁, x₂·x₂, x₁·x₂ < 0.
    moments : tuple of Fraction
        y₁·y₁, y₂·y₂, y₁·y₂ ≥ 0.
    depth : int
        L ≥ 2.

    Examples
    --------
    X = (1, −1), Y = (1, 1) costs L·4^{1/L}:

    >>> one = Fraction(1)
    >>> 0.0 <= 4 * 2**0.5 - obtuse_value((one, one, -one), (one, one, one), 4) < 1e-10
    True
    """
    a, b, c = gram
    if min(a, b) <= 0 or c >= 0 or moments[2] < 0 or a * b < c * c or max(moments[:2]) <= 0:
        return 0.0
    sizes = [moments[0] / a, moments[1] / b]
    unit = max(sizes)
    p, q = (float(size / unit) for size in sizes)
    cosine = math.sqrt(min(1.0, float(c * c / (a * b))))
    fit = float(moments[2] ** 2 / (moments[0] * moments[1])) if min(moments[:2]) > 0 else 0.0
    best = 0.0
    for first, second, off in _candidates(p, q, math.sqrt(p * q * fit), p * q * (1.0 - fit), cosine, depth):
        shared = _over_root(off, a * b)
        multipliers = Fraction(first) / a, Fraction(second) / b, shared
        if _holds(gram, multipliers):
            best = max(best, _linear_cost(multipliers, moments, depth))
    return best


def _over_root(off: float, square: Fraction) -> Fraction:
    """Return nearly off/√square, no more for a positive ``off``, whatever the sizes."""
    power = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    root = math.sqrt(float(square / Fraction(4) ** power))
    return Fraction(off) / Fraction(root) / Fraction(2) ** power * _SHRINK


def _holds(gram: Three, multipliers: Three) -> bool:
    """Say whether Λ ⪰ 0 and aᵀΛa ≤ ‖w‖² for every neuron."""
    a, b, c = gram
    first, second, shared = multipliers
    if first * a > 1 or second * b > 1 or first < 0 or second < 0 or first * second < shared**2:
        return False
    det = a * b - c * c
    if det == 0:  # no neuron sees both rows
        return True
    rest = -c / det - shared
    return rest >= 0 or rest**2 <= (b / det - first) * (a / det - second)


def _linear_cost(multipliers: Three, moments: Three, depth: int) -> float:
    first, second, shared = multipliers
    p, q, r = moments
    trace = first * p + second * q + 2 * shared * r
    return two_roots_cost(trace, (first * second - shared**2) * (p * q - r * r), depth)


def _candidates(
    p: float, q: float, r: float, spread: float, cosine: float, depth: int
) -> Iterator[tuple[float, float, float]]:
    """Yield (G₁₁Λ₁₁, G₂₂Λ₂₂, √(G₁₁G₂₂)Λ₁₂): at the most of both, then with one of the two below it."""
    sine = max(0.0, 1.0 - cosine**2)

    def most(first: float, second: float) -> float:
        size = math.sqrt(first * second)
        if sine == 0.0:
            return size
        room = (1.0 / sine - first) * (1.0 / sine - second)
        return min(size, cosine / sine + math.sqrt(max(room, 0.0)))

    def height(first: float, second: float, off: float) -> float:
        trace, product = first * p + second * q + 2.0 * off * r, (first * second - off**2) * spread
        large = 0.5 * (trace + math.sqrt(max(trace**2 - 4.0 * product, 0.0)))
        return large ** (1.0 / depth) + max(product / large, 0.0) ** (1.0 / depth) if large > 0 else 0.0

    def best(first: float, second: float) -> tuple[float, float]:
        """Return the height and the best entry off the diagonal."""
        end = most(first, second)
        inside = _top(lambda off: height(first, second, off), end) if spread > 0 else end
        return max((height(first, second, off), off) for off in (0.0, inside, end))

    off = best(1.0, 1.0)[1]
    yield 1.0, 1.0, off
    if off < most(1.0, 1.0) * (1.0 - 1e-6) or off >= 1.0:
        return
    for place in (0, 1):

        def at(share: float, place: int = place) -> tuple[float, float]:
            return (share, 1.0) if place == 0 else (1.0, share)

        def reach(share: float, at: Callable[[float], tuple[float, float]] = at) -> float:
            return best(*at(share))[0]

        share = _top(reach, 1.0)
        yield *at(share), best(*at(share))[1]


def _top(function: Callable[[float], float], end: float) -> float:
    """Return where a concave function is largest on [0, end]."""
    if end <= 0.0:
        return 0.0
    answer = minimize_scalar(
        lambda t: -function(t), bounds=(0.0, end), method="bounded", options={"xatol": 1e-12}
    )
    return float(answer.x)


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
