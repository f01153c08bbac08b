"""The multiple of a dual for which a bound is best, chosen in floating point: nothing here is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable

BISECTIONS = 100


def conjugate_slope(quarters: int | None, s: float, y: float, u: float) -> float:
    """Return the derivative at u of uy + u²/s · quarters/4, what a sample adds to C*; None for the logistic loss."""
    if quarters is not None:
        return y + 0.5 * u / s * quarters
    share = min(max(-u * y / s, 1e-300), 1.0 - 1e-16)
    return -y * (math.log(share) - math.log1p(-share))


def best_multiple(rise: Callable[[float], float], longest: float) -> float:
    """Return the t up to ``longest`` at which a concave function of it is largest, nearly: any t gives a bound.

    Parameters
    ----------
    rise : callable
        Its derivative.
    longest : float
        1/gauge, or where the domain of the conjugate ends.

    Examples
    --------
    >>> round(best_multiple(lambda t: 1.0 - t, 3.0), 9), best_multiple(lambda t: 1.0 - t, 0.5)
    (1.0, 0.5)
    """
    if not rise(longest) < 0:
        return longest
    low, high = 0.0, longest
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rise(middle) > 0 else (low, middle)
    return high
