"""Settings of a training run: the grid of networks, their starting weights, and the phases of training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import Any

import numpy as np

from covopt.checks.validation import check_choice, check_count, check_number, check_positive, is_whole
from covopt.depth.layers import Layout
from covopt.errors import InputError

Widths = tuple[int, ...]
OPTIMISERS = ("adam", "sgd", "gd", "lbfgs", "label-noise-sgd")
STOCHASTIC = ("sgd", "label-noise-sgd")
DECAYS = ("constant", "cosine")
DEFAULT_RATE = 0.01
STRETCH = 100  # steps between checks, whose samples are drawn together; fixed, since results depend on it


@dataclass(frozen=True)
class Phase:
    r"""One phase of training.

    Parameters
    ----------
    optimiser : {"adam", "sgd", "gd", "lbfgs", "label-noise-sgd"}
        ``gd`` and ``lbfgs`` use all samples, the latter with a line search for every network; ``label-noise-sgd`` is
        SP20's Algorithm 1.
    steps : int
        Number of steps; for ``lbfgs`` of iterations. Networks that have converged stop earlier.
    learning_rate : float, optional
        Default: that of ``train(learning_rate=...)``, or else 0.01.
    decay : {"constant", "cosine"}
        The rate at step t of T is multiplied by 1, or by ½(1 + cos(πt/T)).
    batch_size : int, optional
        Samples per step, drawn with replacement. Default: 1 for ``sgd`` and, as in the paper, ``label-noise-sgd``;
        all samples for ``adam``.
    noise_size : float, optional
        Standard deviation η of the normal label noise; 0.1 by default.
    momentum : float
        Momentum of ``sgd`` and ``gd``, in [0, 1).
    eps : float
        ε of Adam, whose decay rates are 0.9 and 0.999.

    Raises
    ------
    InputError
        For settings that are out of range or do not apply to the optimiser.

    Examples
    --------
    >>> Phase("adam", 500, learning_rate=0.01).steps
    500
    >>> Phase("adams")
    Traceback (most recent call last):
    covopt.errors.InputError: optimiser must be one of 'adam', 'sgd', 'gd', 'lbfgs', 'label-noise-sgd'; received ...
    """

    optimiser: str = "adam"
    steps: int = 1000
    learning_rate: float | None = None
    decay: str = "constant"
    batch_size: int | None = None
    noise_size: float | None = None
    momentum: float = 0.0
    eps: float = 1e-8

    def __post_init__(self) -> None:
        check_choice("optimiser", self.optimiser, OPTIMISERS)
        check_choice("decay", self.decay, DECAYS)
        check_count("steps", self.steps)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
            if self.optimiser in ("gd", "lbfgs"):
                raise InputError(f"optimiser={self.optimiser!r} takes all samples; leave batch_size out.")
        if self.noise_size is not None:
            if self.optimiser != "label-noise-sgd":
                raise InputError(
                    f"noise_size belongs to 'label-noise-sgd'; leave it out for {self.optimiser!r}."
                )
            check_positive("noise_size", self.noise_size)
        check_number("momentum", self.momentum, "in [0, 1)", lambda m: 0 <= m < 1)
        if self.momentum and self.optimiser not in ("sgd", "gd"):
            raise InputError(f"momentum belongs to 'sgd' and 'gd'; leave it out for {self.optimiser!r}.")
        check_positive("eps", self.eps)

    @property
    def samples(self) -> int | None:
        """Minibatch size; None for all samples."""
        return 1 if self.batch_size is None and self.optimiser in STOCHASTIC else self.batch_size

    @property
    def noise_level(self) -> float:
        """η; zero without label noise."""
        if self.optimiser != "label-noise-sgd":
            return 0.0
        return 0.1 if self.noise_size is None else float(self.noise_size)

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0."""
        return 0.5 * (1.0 + math.cos(math.pi * step / self.steps)) if self.decay == "cosine" else 1.0


DEFAULT_SCHEDULE = (Phase("adam", 1000, decay="cosine"), Phase("lbfgs", 1000))


def make_schedule(schedule: Any) -> tuple[Phase, ...]:
    """Return a schedule as a tuple of phases.

    Parameters
    ----------
    schedule : None, Phase, str, or a sequence of them
        None is a thousand steps of Adam with a decaying rate, then a thousand of L-BFGS.

    Raises
    ------
    InputError
        For anything else, and an empty sequence.

    Examples
    --------
    >>> [phase.optimiser for phase in make_schedule(None)]
    ['adam', 'lbfgs']
    >>> make_schedule("gd")[0].steps
    1000
    """
    if schedule is None:
        return DEFAULT_SCHEDULE
    phases = [Phase(item) if isinstance(item, str) else item for item in _several("schedule", schedule)]
    for phase in phases:
        if not isinstance(phase, Phase):
            raise InputError(
                f"schedule must be Phases (or names of optimisers); received {type(phase).__name__}."
            )
    return tuple(phases)


# ---------------------------------------------------------------------- networks
class Stream(IntEnum):
    """Random streams of one network: its starting weights, and its draws during training."""

    INIT = 0
    DRAWS = 1


@dataclass(frozen=True)
class Member:
    """One network of a run.

    Attributes
    ----------
    widths : tuple of int
    lam : float
    learning_rate : float or None
        None if the run sets none; then those of the phases apply.
    seed : int
    """

    widths: Widths
    lam: float
    learning_rate: float | None
    seed: int


def make_grid(widths: Any, lam: Any, learning_rate: Any, seeds: Any) -> list[Member]:
    """Return the members of the grid, with widths varying slowest and seeds fastest.

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
    """Return the hidden widths of every architecture: a tuple is one network, a list is several.

    Examples
    --------
    >>> check_widths(5), check_widths((5, 3)), check_widths([5, 3])
    ([(5,)], [(5, 3)], [(5,), (3,)])
    """
    alone = isinstance(widths, tuple) and not any(isinstance(w, tuple | list) for w in widths)
    several = [widths] if alone else _several("widths", widths)
    found = [tuple(_several("widths", one)) for one in several]
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
    if is_whole(seeds, 1):
        return list(range(int(seeds)))
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds must be a positive count or a sequence of seeds; received {seeds!r}.")
    found = _several("seeds", seeds)
    for seed in found:
        if not is_whole(seed, 0):
            raise InputError(f"seeds must be nonnegative integers; received {seed!r}.")
    return [int(seed) for seed in found]


def _several(name: str, values: Any) -> list[Any]:
    """Return one or several values as a nonempty list."""
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    if not found:
        raise InputError(f"{name} is empty; give at least one.")
    return found


def _numbers(name: str, values: Any, *, positive: bool) -> list[float]:
    said = "a positive finite number" if positive else "finite and not negative"
    return [
        check_number(name, value, said, lambda v: 0 <= v < math.inf and (v > 0 or not positive))
        for value in _several(name, values)
    ]


def generator(random_state: int, seed: int, widths: Widths, *stream: int) -> np.random.Generator:
    """Return the random generator of a network, independent of its batch."""
    key = np.random.SeedSequence([random_state, seed, len(widths), *widths, *stream])
    return np.random.Generator(np.random.PCG64(key))


def initial_weights(layout: Layout, seed: int, random_state: int, scale: float) -> np.ndarray:
    r"""Draw the weights of a network: normal with variance scale² · 2/fan-in, and zero output biases.

    The fan-in includes the bias column. Bias weights are drawn like the others, so that the initial kinks are spread
    over the inputs.

    Examples
    --------
    >>> layout = Layout((2, 5, 1), 1.0, "none")
    >>> [w.shape for w in layout.split(initial_weights(layout, 0, 0, 1.0))]
    [(5, 3), (1, 5)]
    """
    random = generator(random_state, seed, layout.widths[1:-1], Stream.INIT)
    found = []
    for ell, (rows, columns) in enumerate(layout.shapes):
        own = int(layout.has_bias(ell) and ell + 1 == layout.depth)
        drawn = random.standard_normal((columns - own, rows)).T
        layer = scale * math.sqrt(2.0 / max(columns - own, 1)) * drawn
        found.append(np.pad(layer, ((0, 0), (0, own))).ravel())
    return np.concatenate(found)
