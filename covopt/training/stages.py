"""Training through a falling sequence of λ, each stage from the networks of the one before.

With the squared loss the networks that minimise C(f) + λ‖W‖² tend to minimal-norm interpolants as λ → 0, and from far
away a large λ is the easier problem. A large λ silences neurons that a smaller one needs: before each stage silent
neurons get new random directions, with zero output weights so that the outputs stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covopt.data import Data
from covopt.network import ReLUNetwork
from covopt.training.results import TrainingRun
from covopt.training.runner import train
from covopt.training.schedule import Phase

LEVELS = (
    0.1,
    0.01,
    1e-3,
    1e-4,
)  # λ as shares of the one at which optimal outputs miss by the size of the targets
FIRST = (Phase("adam", 4000, decay="cosine"),)
LATER = (Phase("adam", 2000, decay="cosine"),)
LAST = (Phase("adam", 2000, decay="cosine"), Phase("lbfgs", 500))
RATE = 0.01  # of Adam in the first stage, half of it later, in units of the weights
TOL_GRADIENT = 1e-8  # in units of the gradients
_SILENT = 1e-3  # mass ‖w‖‖v‖, relative to the network's largest, below which a neuron starts anew
_FRESH = 0.1  # size of its new hidden weights, relative to those of the largest neuron


@dataclass
class Stage:
    """What a callback of :func:`anneal` is told.

    Attributes
    ----------
    stage, n_stages : int
    state : covopt.training.loop.TrainingState
    """

    stage: int
    n_stages: int
    state: Any


def anneal(
    data: Data,
    dual: np.ndarray,
    *,
    output_bias: str,
    levels: Sequence[float] = LEVELS,
    schedule: Any = None,
    learning_rate: float | None = None,
    scale: float = 1.0,
    random_state: int | None = 0,
    callback: Callable[[Any], Any] | None = None,
    **options: Any,
) -> tuple[TrainingRun, bool]:
    r"""Train towards minimal-norm interpolants, and say whether it went through to the end.

    A stage minimises the mean squared error plus :math:`\lambda\|W\|^2`. At its optimum
    :math:`F - Y = -\lambda N \Lambda`, so level ρ takes :math:`\lambda = \rho \max|Y| / (N \max|\Lambda|)`.

    Parameters
    ----------
    data : Data
    dual : ndarray of shape (N, k)
        Of the interpolation problem: only its size is used.
    output_bias : {"none", "penalized", "free"}
    levels : sequence of float
        ρ of each stage.
    schedule : see :func:`covopt.training.train`, optional
        Of every stage.
    learning_rate : float, optional
        Of Adam; by default in proportion to :func:`weight_unit`.
    scale : float
        Of the starting weights, times :func:`weight_unit`.
    random_state : int, optional
    callback : callable, optional
        Called with a :class:`Stage`; a true answer stops.
    **options
        Of :func:`covopt.training.train`: widths, seeds, device and so on.
    """
    size = float(np.abs(dual).max(initial=0.0)) or 1.0
    unit = (float(np.abs(data.Y).max(initial=0.0)) or 1.0) / (len(data.Y) * size)
    weights = weight_unit(data.lifted, data.Y)
    slope = float(np.abs(data.Y).max(initial=0.0)) ** 2 / weights or 1.0
    run: TrainingRun | None = None
    for i, level in enumerate(levels):
        watch = Watch(callback, _stage_of(i, len(levels)))
        phases = FIRST if run is None else LAST if i == len(levels) - 1 else LATER
        rate = (RATE if run is None else 0.5 * RATE) * weights if learning_rate is None else learning_rate
        start: dict[str, Any] = {} if run is None else {"start": revived(run, i)}
        try:
            run = train(
                data.X, data.Y, lam=level * unit, bias=data.bias, output_bias=output_bias, learning_rate=rate,
                schedule=in_units(phases, slope) if schedule is None else schedule, scale=scale * weights,
                random_state=random_state, tol_gradient=gradient_tolerance(weights, slope), callback=watch, **options,
                **start,
            )  # fmt: skip
        except KeyboardInterrupt:
            if run is None:
                raise
            return run, False
        if watch.interrupted:
            return run, False
    assert run is not None
    return run, True


def weight_unit(inputs: np.ndarray, targets: np.ndarray) -> float:
    """Return √(max |y| / max ‖x̃‖): scaling the targets by t² and the inputs by s² scales balanced weights by t/s."""
    size = float(np.linalg.norm(inputs, axis=1).max(initial=0.0))
    height = float(np.abs(targets).max(initial=0.0))
    return float(np.sqrt(height / size)) if size > 0 and height > 0 else 1.0


def in_units(schedule: Sequence[Phase], slope: float) -> tuple[Phase, ...]:
    """Return a schedule for gradients of that size: Adam's ε must be far below them."""
    return tuple(replace(phase, eps=phase.eps * slope) for phase in schedule)


def gradient_tolerance(weights: float, slope: float) -> float:
    """Return the ``tol_gradient`` for weights and gradients of these sizes, 1e-8 for sizes of 1."""
    return float(np.clip(TOL_GRADIENT * slope / max(1.0, weights), 0.0, 0.5))


def _stage_of(stage: int, n_stages: int) -> Callable[[Any], Stage]:
    return lambda state: Stage(stage, n_stages, state)


def revived(run: TrainingRun, stage: int) -> list[ReLUNetwork]:
    """Return the networks with new directions for silent neurons; the draws of each depend on its own seed alone."""
    found = []
    for i, member in enumerate(run.members):
        network = run.network(i)
        assert isinstance(network, ReLUNetwork)
        hidden, output = network.hidden_weights.copy(), network.output_weights.copy()
        mass = np.linalg.norm(hidden, axis=1) * np.linalg.norm(output, axis=1)
        heard = (network.lift(run.X) @ hidden.T > 0).any(axis=0)
        silent = ~heard | ~(mass > _SILENT * mass.max(initial=0.0))
        rng = np.random.default_rng([run.random_state, member.seed, len(hidden), stage])
        fresh = rng.standard_normal((int(silent.sum()), hidden.shape[1]))
        length = _FRESH * np.sqrt(mass.max(initial=0.0)) / np.linalg.norm(fresh, axis=1, keepdims=True)
        hidden[silent], output[silent] = fresh * length, 0.0
        found.append(
            ReLUNetwork(hidden, output, network.bias, network.output_bias, network.counts_output_bias)
        )
    return found


class Watch:
    """A callback that notes whether a run went through: training returns what it has when it is stopped."""

    def __init__(self, callback: Callable[[Any], Any] | None, wrap: Callable[[Any], Any]) -> None:
        self._callback, self._wrap = callback, wrap
        self.interrupted = False  # a finished run that is resumed tells nothing

    def __call__(self, state: Any) -> bool:
        """Pass a state on."""
        wanted = bool(self._callback(self._wrap(state))) if self._callback is not None else False
        over = state.step >= state.n_steps or state.n_active == 0
        self.interrupted = wanted or not over or state.interrupted
        return wanted
