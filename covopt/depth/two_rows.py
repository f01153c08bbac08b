r"""The cost of two rows: exact without biases; with biases for equal targets.

**Without biases.** The covariances M_ℓ of the hidden activations are entrywise nonnegative, so M_ℓ⁻¹ has no positive
off-diagonal entry, zᵀM⁻¹z ≥ σ(z)ᵀM⁻¹σ(z), and the layers from the second on may be taken linear:

.. math:: R_L = \min_{M_\ell \ge 0} c(M_1) + \sum_{\ell = 1}^{L - 2} \operatorname{Tr} M_{\ell + 1} M_\ell^{-1}
    + \operatorname{Tr} YY^T M_{L - 1}^{-1}.

The first layer costs c(M) ≥ Tr ΛM if Λ ⪰ 0 satisfies aᵀΛa ≤ ‖w‖² for every neuron a = σ(Xw). For x₁·x₂ ≥ 0, Λ = G⁻¹
is feasible, the cost of linear neurons. For x₁·x₂ < 0 a neuron is active on one row, at cost a_i²/G_ii, or on both,
at cost aᵀG⁻¹a, so Λ is feasible if G_iiΛ_ii ≤ 1 and G⁻¹ − Λ is copositive. The last layer costs at least Tr SM⁻¹ if
S ⪰ 0 is YYᵀ with a larger or equal off-diagonal entry, since that of M⁻¹ is not positive. The layers between are
linear:

.. math:: R_L \ge L \operatorname{Tr} (\Lambda S)^{1/L},

two roots of rational numbers. The bound is concave in Λ and in S, and tight at the maximum over both: the problem is
convex along the geodesics of positive definite matrices, and M_ℓ ≥ 0 is a convex constraint there, as the logarithms
of such matrices have no negative off-diagonal entry.

- x₁·x₂ ≥ 0, y₁·y₂ ≥ 0: Λ = G⁻¹ and S = YYᵀ, a linear map.
- x₁·x₂ ≤ 0, y₁·y₂ ≤ 0: Λ and S are diagonal, and the costs of the two rows add up.
- x₁·x₂ < 0, y₁·y₂ ≥ 0: S = YYᵀ, and G_iiΛ_ii = 1 for at least one i at the optimal Λ: two searches over an interval.
  For opposite rows no neuron is active on both, and the condition G_iiΛ_ii ≤ 1 is sufficient.
- x₁·x₂ > 0, y₁·y₂ < 0: Λ = G⁻¹, and y₁·y₂ ≤ S₁₂ ≤ 0: a search over an interval.

The search uses floating point; its result is checked and evaluated in rational arithmetic, so it is a valid bound.

**With biases, for one target** η on the two rows, or on one, only 1ᵀM_ℓ⁻¹1 matters: M̄ may be t11ᵀ, one neuron per
layer with value √t at both rows, since linear layers give a lower bound (:mod:`covopt.depth.gram_chain`) and
M̄ ⪰ t11ᵀ if 1ᵀM̄⁻¹1 = 1/t. With b = 1/(t + 1) for β²1ᵀM⁻¹1, t in units of β² and s = ‖η‖²/β²,

.. math::
    R_L = \min_{t \ge 0} t_1 b_0 + \sum_{\ell = 2}^{L - 2} t_\ell b_{\ell - 1} + 2\sqrt{s\, b_{L - 2}}

(… + t_{L−1}b_{L−2} + s·b_{L−1} with a penalised output bias), with b_0 = β²1ᵀΛ1, or β²/‖x̃‖² for one row; this is
exact unless x̃₁·x̃₂ < 0. The cost-to-go is concave in b and zero at b = 0, so its chords on a grid are lower bounds,
and the minimum of b/b′ − b + chord(b′) over each interval has a closed form: the error is of second order in the grid
size. The optimal b′ increases with b, as ∂²(b/b′)/∂b∂b′ < 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from covopt.exact.rounding import SLIP, below, down, root_down

LARGE = 10**8  # the bounds do not apply to sizes above it or below its inverse


def two_roots_cost(trace: Fraction, product: Fraction, depth: int) -> float:
    r"""Return a lower bound on L(s₁^{2/L} + s₂^{2/L}), given s₁² + s₂² and s₁²s₂².

    Parameters
    ----------
    trace, product : Fraction
        Sum and product of the squares; ``product`` is at most ``trace``²/4.
    depth : int

    Examples
    --------
    >>> round(two_roots_cost(Fraction(5), Fraction(4), 2), 12)
    6.0
    """
    if trace <= 0:
        return 0.0
    # the squares are the roots of t² − trace·t + product. For a fixed product t^p + (product/t)^p increases with
    # t ≥ √product, so the larger root is rounded down
    root = max(0.0, down(math.sqrt(below(1 - 4 * product / trace**2))))
    large = trace * (1 + Fraction(root)) / 2
    roots = root_down(large, depth), root_down(product / large, depth)
    return below(depth * sum(map(Fraction, roots), Fraction(0)))


def two_rows_cost(gram: Three, moments: Three, depth: int) -> float:
    """Return a lower bound on the cost of two rows without biases; zero if the rows have no such bound.

    Parameters
    ----------
    gram : tuple of Fraction
        x₁·x₁, x₂·x₂, x₁·x₂.
    moments : tuple of Fraction
        y₁·y₁, y₂·y₂, y₁·y₂.
    depth : int
        L ≥ 1.

    Examples
    --------
    X = (1, −1), Y = (1, 1) costs L·4^{1/L}; acute rows with opposite targets 2Σ|y_i|√(G⁻¹)_ii at L = 2:

    >>> one = Fraction(1)
    >>> 0.0 <= 4 * 2**0.5 - two_rows_cost((one, one, -one), (one, one, one), 4) < 1e-10
    True
    >>> 0.0 <= 2.0 * (2.0**0.5 + 1.0) - two_rows_cost((one, 2 * one, one), (one, one, -one), 2) < 1e-10
    True
    """
    a, b, c = gram
    p, q, r = moments
    if min(a, b) <= 0 or a * b < c * c or max(p, q) <= 0 or (c >= 0 and a * b == c * c):
        return 0.0
    best = 0.0
    for first, second, shared, moment in multipliers(gram, moments, depth):
        # S ⪰ 0, with S₁₂ ≥ y₁·y₂
        if moment >= r and moment**2 <= p * q and _holds(gram, (first, second, shared)):
            trace = first * p + second * q + 2 * shared * moment
            best = max(best, two_roots_cost(trace, (first * second - shared**2) * (p * q - moment**2), depth))
    return best


def _holds(gram: Three, multipliers: Three) -> bool:
    """Return whether Λ ⪰ 0 and aᵀΛa ≤ ‖w‖² for every neuron."""
    a, b, c = gram
    first, second, shared = multipliers
    det = a * b - c * c
    if first < 0 or second < 0 or first * second < shared**2:
        return False
    if c < 0 and (first * a > 1 or second * b > 1):
        return False
    if det == 0:  # no neuron is active on both rows
        return True
    rest = -c / det - shared
    apart = b / det - first, a / det - second
    return min(apart) >= 0 and (rest >= 0 or rest**2 <= apart[0] * apart[1])


def multipliers(
    gram: Three, moments: Three, depth: int
) -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """Yield candidates Λ₁₁, Λ₂₂, Λ₁₂, S₁₂ for the optimum, computed in floating point."""
    a, b, c = gram
    p, q, r = moments
    one, det = Fraction(1), a * b - c * c
    if c >= 0 and r >= 0:
        yield b / det, a / det, -c / det, r
        return
    if c <= 0 and r <= 0:
        yield one / a, one / b, Fraction(0), Fraction(0)
        return
    # in units of the larger rate y_i·y_i/x_i·x_i
    unit = max(p / a, q / b)
    P, Q = float(p / a / unit), float(q / b / unit)
    cosine = math.sqrt(min(1.0, float(c * c / (a * b))))
    fit = float(r * r / (p * q)) if min(p, q) > 0 else 0.0
    moment = math.sqrt(P * Q * fit)

    def height(first: float, second: float, off: float, square: float, share: float = 1.0) -> float:
        trace = first * P + second * Q + 2.0 * off * share * moment
        product = square * P * Q * (1.0 - share**2 * fit)
        large = 0.5 * (trace + math.sqrt(max(trace**2 - 4.0 * product, 0.0)))
        return large ** (1.0 / depth) + max(product / large, 0.0) ** (1.0 / depth) if large > 0 else 0.0

    if c > 0:
        sine = float(det / (a * b))
        inside = _top(lambda less: height(1.0, 1.0, cosine, sine, 1.0 - less), 1.0)  # for G⁻¹ times sine
        for less in (0.0, inside, 1.0):
            yield b / det, a / det, -c / det, r * (1 - Fraction(less))
        return
    for first, second, off in _of_obtuse_rows(cosine, height, fit < 1.0 and P * Q > 0.0):
        yield Fraction(first) / a, Fraction(second) / b, _over_root(off, a * b), r


def _of_obtuse_rows(
    cosine: float, height: Callable[..., float], bends: bool
) -> Iterator[tuple[float, float, float]]:
    """Yield (G₁₁Λ₁₁, G₂₂Λ₂₂, √(G₁₁G₂₂)Λ₁₂): first with both diagonal entries 1, then with one of them below 1."""
    sine = max(0.0, 1.0 - cosine**2)

    def best(first: float, second: float) -> tuple[float, float, float]:
        """Return the height, the best off-diagonal entry, and the largest feasible one."""
        end = math.sqrt(first * second)
        if sine > 0.0:
            room = (1.0 / sine - first) * (1.0 / sine - second)
            end = min(end, cosine / sine + math.sqrt(max(room, 0.0)))

        def at(off: float) -> float:
            return height(first, second, off, first * second - off**2)

        return (*max((at(off), off) for off in (0.0, _top(at, end) if bends else end, end)), end)

    _, off, end = best(1.0, 1.0)
    yield 1.0, 1.0, off
    if off < end * (1.0 - 1e-6) or off >= 1.0:
        return
    share = _top(lambda share: best(share, 1.0)[0], 1.0)
    yield share, 1.0, best(share, 1.0)[1]
    share = _top(lambda share: best(1.0, share)[0], 1.0)
    yield 1.0, share, best(1.0, share)[1]


def _over_root(off: float, square: Fraction) -> Fraction:
    """Return approximately off/√square, slightly less for positive ``off``, without overflow."""
    power = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    root = math.sqrt(float(square / Fraction(4) ** power))
    return Fraction(off) / Fraction(root) / Fraction(2) ** power * (1 - Fraction(SLIP))


def _top(function: Callable[[float], float], end: float) -> float:
    """Return the maximiser of a unimodal function on [0, end]."""
    if end <= 0.0:
        return 0.0
    answer = minimize_scalar(
        lambda t: -function(t), bounds=(0.0, end), method="bounded", options={"xatol": 1e-12}
    )
    return float(answer.x)


# ------------------------------------------------------------------ one target, with biases
_NODES = np.concatenate([[0.0], np.geomspace(1e-7, 0.05, 6000), np.linspace(0.05, 1.0, 4000)[1:]])
_BLOCK = math.isqrt(len(_NODES))  # nodes that are searched over a common part of the grid


def level_value(start: Fraction, target: Fraction, depth: int, *, penalized: bool = False) -> float:
    """Return a lower bound on the cost of one or two rows with one target.

    Parameters
    ----------
    start : Fraction
        b_0, or a lower bound on it.
    target : Fraction
        s.
    depth : int
        L ≥ 2.
    penalized : bool
        Whether the output bias is penalised.

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
    left = left * (1.0 - SLIP)
    steps = depth - 2 + penalized
    if steps == 0:
        return down(2.0 * np.sqrt(first * end) * (1.0 - SLIP))
    for _ in range(steps - 1):
        left = np.concatenate([
            _before(_NODES[i : i + _BLOCK], left) for i in range(0, len(_NODES), _BLOCK)
        ])  # fmt: skip
    return float(_before(np.array([first]), left)[0])


def _before(at: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return lower bounds on the cost-to-go one layer earlier, at increasing b."""
    begin, end = 0, len(_NODES) - 1
    ends = [int(np.argmin(_through(b, left, begin, end))) for b in (at[:1], at[-1:])]
    return np.maximum(_through(at, left, ends[0], ends[1] + 1).min(axis=1), 0.0)


def _through(at: np.ndarray, left: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return the minimum over each of some intervals of the grid."""
    low, high = _NODES[begin:end], _NODES[begin + 1 : end + 1]
    slope = np.maximum((left[begin + 1 : end + 1] - left[begin:end]) / (high - low), 1e-300)
    base = left[begin:end] - slope * low
    b = at[:, None]
    place = np.clip(np.sqrt(b / slope), np.maximum(low, 1e-300), high)
    size = b / place + slope * place
    return np.asarray(size - b + base - SLIP * (size + b + np.abs(base)))


Three = tuple[Fraction, Fraction, Fraction]


def exactly(values: Any) -> list[Fraction]:
    """Return doubles as fractions."""
    return [Fraction(value) for value in values.tolist()]


def dot(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction:
    """Return Σ a_i b_i.

    Examples
    --------
    >>> dot([Fraction(1), Fraction(1, 2)], [Fraction(2), Fraction(4)])
    Fraction(4, 1)
    """
    return sum(map(mul, first, second), Fraction(0))


def products(first: Sequence[Fraction], second: Sequence[Fraction]) -> Three:
    """Return x·x, z·z and x·z of two rows."""
    return dot(first, first), dot(second, second), dot(first, second)
