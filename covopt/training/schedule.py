"""What a run does, phase by phase: the optimiser, how many steps, its settings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from covopt.checks.validation import check_choice, check_count, check_number, check_positive
from covopt.errors import InputError

OPTIMISERS = ("adam", "sgd", "gd", "lbfgs", "label-noise-sgd")
STOCHASTIC = ("sgd", "label-noise-sgd")
DECAYS = ("constant", "cosine")
NOISES = ("normal", "rademacher", "uniform")
DEFAULT_RATE = 0.01


@dataclass(frozen=True)
class Phase:
    r"""One stretch of training.

    Parameters
    ----------
    optimiser : {"adam", "sgd", "gd", "lbfgs", "label-noise-sgd"}
        ``gd`` is gradient descent on all samples; ``lbfgs`` too, with its own line search in every network;
        ``label-noise-sgd`` is SP20's Algorithm 1.
    steps : int
        Steps; for ``lbfgs`` iterations. Networks whose gradient vanishes stop sooner.
    learning_rate : float, optional
        By default that of ``train(learning_rate=...)``; 0.01 where there is none either.
    decay : {"constant", "cosine"}
        The rate at step t of T is multiplied by 1, or by ½(1 + cos(πt/T)).
    batch_size : int, optional
        Samples of a step, drawn with replacement. For ``sgd`` 1 by default, for ``label-noise-sgd`` 1 as printed;
        ``adam`` takes all samples by default.
    noise_size : float, optional
        η of label noise; 0.1 by default.
    noise : {"normal", "rademacher", "uniform"}
        Its distribution ρ, of mean 0 and variance 1.
    momentum : float
        Of ``sgd`` and ``gd``, in [0, 1).
    betas, eps : (float, float), float
        Of Adam.
    memory : int
        Pairs that ``lbfgs`` remembers.

    Raises
    ------
    InputError
        For settings out of range, and those that belong to another optimiser.

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
    noise: str = "normal"
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    memory: int = 10

    def __post_init__(self) -> None:
        check_choice("optimiser", self.optimiser, OPTIMISERS)
        check_choice("decay", self.decay, DECAYS)
        check_choice("noise", self.noise, NOISES)
        check_count("steps", self.steps)
        check_count("memory", self.memory)
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
        if (
            not isinstance(self.betas, tuple | list)
            or len(self.betas) != 2
            or not all(0 <= b < 1 for b in self.betas)
        ):
            raise InputError(f"betas must be two numbers in [0, 1); received {self.betas!r}.")
        check_positive("eps", self.eps)
        object.__setattr__(self, "betas", tuple(self.betas))

    @property
    def samples(self) -> int | None:
        """Size of a minibatch; None for all samples."""
        return 1 if self.batch_size is None and self.optimiser in STOCHASTIC else self.batch_size

    @property
    def noise_level(self) -> float:
        """η, zero without label noise."""
        if self.optimiser != "label-noise-sgd":
            return 0.0
        return 0.1 if self.noise_size is None else float(self.noise_size)

    def factor(self, step: int) -> float:
        """Return what the rate is multiplied by at step 0, 1, and so on."""
        return 0.5 * (1.0 + math.cos(math.pi * step / self.steps)) if self.decay == "cosine" else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        return {**asdict(self), "betas": list(self.betas)}


DEFAULT_SCHEDULE = (Phase("adam", 1000, decay="cosine"), Phase("lbfgs", 1000))


def make_schedule(schedule: Any) -> tuple[Phase, ...]:
    """Return a schedule as a tuple of phases.

    Parameters
    ----------
    schedule : None, Phase, str, or a sequence of them
        None is a thousand steps of Adam with a falling rate, then a thousand of L-BFGS.

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
    items = (
        [schedule] if isinstance(schedule, str | Phase) or not isinstance(schedule, Iterable) else schedule
    )
    phases = [Phase(item) if isinstance(item, str) else item for item in items]
    if not phases:
        raise InputError("schedule is empty; give at least one Phase.")
    for phase in phases:
        if not isinstance(phase, Phase):
            raise InputError(
                f"schedule must be Phases (or names of optimisers); received {type(phase).__name__}."
            )
    return tuple(phases)
