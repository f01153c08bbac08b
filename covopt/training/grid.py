"""Which networks a run trains, and where each of them starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np

from covopt.checks.validation import check_number, check_positive, is_whole
from covopt.errors import InputError
from covopt.training.model import Architecture, Widths

# streams of one network's generator: where it starts, and what it draws on the way
INIT, DRAWS = 0, 1


@dataclass(frozen=True)
class Member:
    """One network of a run.

    Attributes
    ----------
    widths : tuple of int
    lam : float
    learning_rate : float or None
        None where the run has none: then the phases' own.
    seed : int
    """

    widths: Widths
    lam: float
    learning_rate: float | None
    seed: int


def make_grid(widths: Any, lam: Any, learning_rate: Any, seeds: Any) -> list[Member]:
    """Return the members, widths slowest and seeds fastest.

    Parameters
    ----------
    widths : int, tuple of int, or a sequence of them
    lam, learning_rate : number or sequence
    seeds : int or sequence of int

    Raises
    ------
    InputError
        For widths that are not positive integers or of several depths, λ < 0, rates that are not positive, no seeds.

    Examples
    --------
    >>> [(m.widths, m.seed) for m in make_grid([3, 5], 0.1, None, 2)]
    [((3,), 0), ((3,), 1), ((5,), 0), ((5,), 1)]
    """
    rates: list[float | None] = [None]
    if learning_rate is not None:
        rates = list(_numbers("learning_rate", learning_rate, positive=True))
    lams = _numbers("lam", lam, positive=False)
    return [Member(*entry) for entry in product(check_widths(widths), lams, rates, check_seeds(seeds))]


def check_widths(widths: Any) -> list[Widths]:
    """Return the hidden widths of every architecture: a tuple is one network, a list several.

    Examples
    --------
    >>> check_widths(5), check_widths((5, 3)), check_widths([5, 3])
    ([(5,)], [(5, 3)], [(5,), (3,)])
    """
    if isinstance(widths, np.ndarray):
        widths = widths.tolist()
    if isinstance(widths, tuple):
        several: list[Any] = list(widths) if any(isinstance(w, tuple | list) for w in widths) else [widths]
    elif isinstance(widths, Iterable) and not isinstance(widths, str):
        several = list(widths)
    else:
        several = [widths]
    if not several or any(isinstance(w, tuple | list) and not len(w) for w in several):
        raise InputError("widths is empty; give an int, a tuple of hidden widths, or a list of them.")
    found = [tuple(w) if isinstance(w, tuple | list) else (w,) for w in several]
    for one in found:
        for width in one:
            if not is_whole(width, 1):
                raise InputError(f"widths must be positive integers; received {width!r}.")
    depths = sorted({len(one) + 1 for one in found})
    if len(depths) > 1:
        raise InputError(
            f"widths mixes networks of {' and '.join(map(str, depths))} layers; train one depth at a time."
        )
    return [tuple(int(w) for w in one) for one in found]


def check_seeds(seeds: Any) -> list[int]:
    """Return the seeds: 0 … n − 1 for a count n."""
    if isinstance(seeds, Integral) and not isinstance(seeds, bool):
        if seeds < 1:
            raise InputError(f"seeds must be a positive count or a sequence of seeds; received {seeds!r}.")
        return list(range(int(seeds)))
    if isinstance(seeds, str | bool) or not isinstance(seeds, Iterable):
        raise InputError(f"seeds must be a positive count or a sequence of seeds; received {seeds!r}.")
    found = list(seeds)
    if not found:
        raise InputError("seeds is empty; give a positive count or at least one seed.")
    for seed in found:
        if not is_whole(seed, 0):
            raise InputError(f"seeds must be nonnegative integers; received {seed!r}.")
    return [int(seed) for seed in found]


def _numbers(name: str, values: Any, *, positive: bool) -> list[float]:
    one = isinstance(values, Real | str) or not isinstance(values, Iterable)
    found = [values] if one else list(values)
    if not found:
        raise InputError(f"{name} is empty; give a number or at least one.")
    if positive:
        return [check_positive(name, value) for value in found]
    return [
        check_number(name, value, "finite and not negative", lambda v: 0 <= v < math.inf) for value in found
    ]


def generator(random_state: int, seed: int, widths: Widths, *stream: int) -> np.random.Generator:
    """Return random numbers that belong to a network, whatever batch it sits in."""
    key = np.random.SeedSequence([random_state, seed, len(widths), *widths, *stream])
    return np.random.Generator(np.random.PCG64(key))


def initial_weights(
    architecture: Architecture, widths: Widths, seed: int, random_state: int, scale: float
) -> list[np.ndarray]:
    r"""Draw the stored layers of a network: normal, of variance scale² · 2/fan-in, output biases zero.

    The fan-in counts the bias column, whose weights are drawn like the others, so that kinks are spread over the
    inputs from the start.

    Examples
    --------
    >>> [w.shape for w in initial_weights(Architecture(2, 1, 2), (5,), 0, 0, 1.0)]
    [(3, 5), (5, 1)]
    """
    random = generator(random_state, seed, widths, INIT)
    shapes = architecture.shapes(widths)
    layers = [
        scale * math.sqrt(2.0 / max(rows, 1)) * random.standard_normal((rows, columns))
        for rows, columns in shapes[: architecture.depth]
    ]
    return layers + [np.zeros(shape) for shape in shapes[architecture.depth :]]
