"""Strong-Wolfe line searches, one for each network of a batch, all advanced by the same evaluation.

The minima of ReLU networks with weight decay lie at kinks, where no step satisfies the strong conditions: after a few
trials the weak ones do, which is what quasi-Newton steps need there (Lewis and Overton, Math. Program. 141, 2013).

Each search is a small state machine (Nocedal and Wright, Numerical Optimization, Algorithms 3.5 and 3.6): it holds
the best trial ``low`` so far and, once a minimum is bracketed, the other end ``high``. One call of :func:`advance`
takes one evaluated trial of every search and says which searches are done; the others get their next trial. So no
network waits for the line search of another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SUFFICIENT_DECREASE = 1e-4  # c₁ of the Wolfe conditions
CURVATURE = 0.9  # c₂ of the Wolfe conditions
STRONG_TRIALS = (
    2  # evaluations after which the weak Wolfe conditions will do: at a kink the strong ones never hold
)
MAX_TRIALS = 20  # evaluations that one search may use
NOISE = (
    8.0  # units in the last place by which two values of the objective may differ for nothing but rounding
)


@dataclass
class Searches:
    """The searches of b networks along their directions; every field has shape (b,)."""

    value: Tensor  # at step 0
    slope: Tensor  # derivative along the direction at step 0, negative
    step: Tensor  # the trial to be evaluated next
    low_step: Tensor
    low_value: Tensor
    low_slope: Tensor
    high_step: Tensor
    high_value: Tensor
    high_slope: Tensor
    bracketed: Tensor
    trials: Tensor
    seen_finite: Tensor

    @classmethod
    def begin(cls, value: Tensor, slope: Tensor, step: Tensor) -> Searches:
        """Return searches that have evaluated nothing but their starting points."""
        import torch

        zero = torch.zeros_like(value)
        off = torch.zeros_like(value, dtype=torch.bool)
        return cls(
            value.clone(), slope.clone(), step.clone(), zero.clone(), value.clone(), slope.clone(), zero.clone(),
            zero.clone(), zero.clone(), off.clone(), torch.zeros_like(value, dtype=torch.int64), off.clone(),
        )  # fmt: skip

    def take(self, rows: Tensor) -> Searches:
        """Return the searches of some networks."""
        return Searches(**{name: field[rows] for name, field in vars(self).items()})

    def put(self, rows: Tensor, other: Searches) -> None:
        """Overwrite the searches of some networks."""
        for name, field in vars(self).items():
            field[rows] = getattr(other, name)


@dataclass
class Outcome:
    """What one evaluation settled; boolean, shape (b,)."""

    accepted: Tensor  # the trial satisfies the Wolfe conditions
    exhausted: Tensor  # no trials are left: go on from ``low`` if that is not the starting point
    is_low: Tensor  # the trial became ``low``: keep its gradient


def advance(searches: Searches, value: Tensor, slope: Tensor, finite: Tensor) -> Outcome:
    """Take in one trial of every search and choose the next one, in place.

    Parameters
    ----------
    searches : Searches
    value, slope : Tensor of shape (b,)
        Objective and its derivative along the direction at ``searches.step``.
    finite : Tensor of shape (b,), boolean
        False where the trial overflowed: it counts as too far.

    Notes
    -----
    A value that differs by less than rounding can neither refute nor prove a decrease; there the derivative alone
    decides (Hager and Zhang, SIAM J. Optim. 16, 2005). That is what lets a search end at a gradient of 1e-10.
    """
    import torch

    s = searches
    noise = NOISE * torch.finfo(value.dtype).eps * s.value.abs()
    falls = finite & (value <= s.value + SUFFICIENT_DECREASE * s.step * s.slope + noise)
    too_high = ~falls | (value > s.low_value + noise)
    strong = ~too_high & (slope.abs() <= -CURVATURE * s.slope)
    weak = falls & (slope >= CURVATURE * s.slope) & (s.trials >= STRONG_TRIALS)
    accepted = strong | weak
    too_high &= ~weak
    # beyond the minimum: the derivative points back towards low
    past = ~too_high & torch.where(s.bracketed, slope * (s.high_step - s.low_step) >= 0, slope >= 0)
    onward = ~too_high & ~past
    extrapolated = torch.where(onward & ~s.bracketed, _extrapolate(s, value, slope), s.step)

    for end, new in (("step", s.step), ("value", value), ("slope", slope)):
        low, high = getattr(s, f"low_{end}"), getattr(s, f"high_{end}")
        setattr(s, f"high_{end}", torch.where(too_high, new, torch.where(past, low, high)))
        setattr(s, f"low_{end}", torch.where(too_high, low, new))
    s.high_value = torch.where(finite | ~too_high, s.high_value, torch.full_like(value, torch.inf))
    s.bracketed = s.bracketed | too_high | past
    s.trials = s.trials + 1
    s.seen_finite = s.seen_finite | finite
    s.step = torch.where(s.bracketed, _interpolate(s, noise), extrapolated)
    exhausted = ~accepted & (s.trials >= MAX_TRIALS)
    return Outcome(accepted, exhausted, ~too_high)


def _extrapolate(s: Searches, value: Tensor, slope: Tensor) -> Tensor:
    """Return a longer step while the objective still falls: the cubic's minimum, two to ten times as far."""
    import torch

    guess = _cubic(s.low_step, s.low_value, s.low_slope, s.step, value, slope)
    guess = torch.where(torch.isfinite(guess) & (guess > s.step), guess, 10.0 * s.step)
    return torch.minimum(torch.maximum(guess, 2.0 * s.step), 10.0 * s.step)


def _interpolate(s: Searches, noise: Tensor) -> Tensor:
    """Return a point between low and high, not too near to either."""
    import torch

    width = s.high_step - s.low_step
    middle = s.low_step + 0.5 * width
    cubic = _cubic(s.low_step, s.low_value, s.low_slope, s.high_step, s.high_value, s.high_slope)
    rise = s.high_value - s.low_value - s.low_slope * width
    quadratic = s.low_step - 0.5 * s.low_slope * width**2 / rise
    secant = s.low_step - s.low_slope * width / (s.high_slope - s.low_slope)
    guess = torch.where(torch.isfinite(cubic), cubic, quadratic)
    alike = (s.high_value - s.low_value).abs() <= 100.0 * noise
    guess = torch.where(alike & (s.low_slope * s.high_slope < 0), secant, guess)
    guess = torch.where(torch.isfinite(guess), guess, middle)
    guess = torch.where(s.trials % 3 == 2, middle, guess)  # interpolation can creep, at a kink above all
    near, far = s.low_step + 0.1 * width, s.low_step + 0.9 * width
    guess = torch.minimum(torch.maximum(guess, torch.minimum(near, far)), torch.maximum(near, far))
    return torch.where(torch.isinf(s.high_value), s.low_step + 0.1 * width, guess)


def _cubic(a: Tensor, fa: Tensor, da: Tensor, b: Tensor, fb: Tensor, db: Tensor) -> Tensor:
    """Return the minimum of the cubic through two values and derivatives; NaN where it has none."""
    import torch

    d1 = da + db - 3.0 * (fa - fb) / (a - b)
    root = torch.sign(b - a) * torch.sqrt(d1**2 - da * db)
    return b - (b - a) * (db + root - d1) / (db - da + 2.0 * root)
