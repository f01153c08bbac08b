"""Which networks a run trains, where each of them starts, and in which batches they fit the cache or the GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np

from covopt.checks.validation import check_number, check_positive, is_whole
from covopt.checks.wording import counted
from covopt.errors import BudgetError, InputError
from covopt.training.backend import BatchedLoss, is_out_of_memory, torch
from covopt.training.model import Architecture, BatchedNetworks, Widths

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


Tensor = Any
CPU_BYTES = 2**22  # larger batches leave the cache, smaller ones spend their time on calls
CPU_LEAST_BYTES = 2**19  # a batch that is not worth cutting for another thread
GPU_SHARE = 0.4  # of its memory


@dataclass
class Batch:
    """Networks that are trained together.

    Attributes
    ----------
    index : ndarray of int
        Their places in the run.
    theta : Tensor of shape (b, P)
    state : dict of Tensor
        What the optimiser remembers.
    worker : object
        The optimiser of the current phase; made when it is needed.
    last_good : Tensor of shape (b, P)
        The weights at the last check: all finite, with a finite objective.
    """

    index: np.ndarray
    networks: BatchedNetworks
    theta: Tensor
    state: dict[str, Tensor] = field(default_factory=dict)
    worker: Any = None
    last_good: Tensor = None

    def __post_init__(self) -> None:
        if self.last_good is None:
            self.last_good = self.theta.clone()


@dataclass(frozen=True)
class Problem:
    """What batches are made from: architecture, members, inputs, loss."""

    architecture: Architecture
    members: Sequence[Member]
    inputs: Tensor
    loss: BatchedLoss

    def networks(self, index: Sequence[int]) -> BatchedNetworks:
        """Return the objective of some members."""
        members = [self.members[i] for i in index]
        lams = torch.tensor([m.lam for m in members], dtype=self.inputs.dtype, device=self.inputs.device)
        return BatchedNetworks(self.architecture, [m.widths for m in members], self.inputs, self.loss, lams)

    def batch(self, index: Sequence[int], weights: Sequence[Sequence[np.ndarray]]) -> Batch:
        """Return a batch of members with the given stored layers."""
        networks = self.networks(index)
        return Batch(np.asarray(index, dtype=int), networks, networks.pack(weights))

    def bytes_of(self, member: Member, samples: int | None, copies: int) -> int:
        """Return what a member takes: activations of ``samples`` rows and ``copies`` tensors of its size."""
        rows = len(self.inputs) if samples is None else samples
        layers = 1 + (len(member.widths) > 1 or self.architecture.n_outputs > 1)  # and what flows back
        weights = sum(r * c for r, c in self.architecture.shapes(member.widths))
        return self.inputs.element_size() * (rows * sum(member.widths) * layers + copies * weights)

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the objectives of a batch and the norms of their gradients, on all samples.

        In pieces that fit: the batches of phases with small minibatches are larger.
        """
        members = [self.members[i] for i in batch.index]
        size = max(self.bytes_of(member, None, 2) for member in members)
        pieces = torch.arange(len(members), device=batch.theta.device).split(max(1, self.limit // size))
        with self.memory_refused(batch):
            found = [batch.networks.value_and_gradient(batch.theta[piece], piece) for piece in pieces]
        return torch.cat([values for values, _ in found]), torch.cat([g.norm(dim=1) for _, g in found])

    @contextmanager
    def memory_refused(self, batch: Batch) -> Iterator[None]:
        """Say what to do where the memory of the device runs out.

        Raises
        ------
        BudgetError
        """
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise BudgetError(
                f"{counted(len(batch.index), 'network')} of widths {batch.networks.padded} on {len(self.inputs)} "
                "samples do not fit into the memory of the device; train fewer at a time, use dtype='float32', a "
                "batch_size, or device='cpu'."
            ) from error

    @property
    def limit(self) -> int:
        """Bytes that a batch may take."""
        if self.inputs.device.type == "cuda":
            return int(GPU_SHARE * torch.cuda.mem_get_info(self.inputs.device)[1])
        return CPU_BYTES

    def cut(self, index: Iterable[int], *, samples: int | None, copies: int, workers: int) -> list[list[int]]:
        """Cut members into batches of similar widths that fit, as many as keep all workers busy."""
        order = sorted(index, key=lambda i: self.members[i].widths)
        sizes = {i: self.bytes_of(self.members[i], samples, copies) for i in order}
        total, limit = sum(sizes.values()), self.limit
        rounds = -(-total // (workers * limit))
        limit = min(limit, max(CPU_LEAST_BYTES, -(-total // (workers * rounds))))
        found: list[list[int]] = []
        for i in order:  # the last one is the widest, which the others are padded to
            if found and (len(found[-1]) + 1) * sizes[i] <= limit:
                found[-1].append(i)
            else:
                found.append([i])
        return found


def select(problem: Problem, batch: Batch, keep: np.ndarray) -> Batch:
    """Return the part of a batch whose positions are in ``keep``, with its state."""
    rows = torch.as_tensor(keep, device=batch.theta.device)
    index = batch.index[keep]
    networks = problem.networks(index)
    if networks.padded == batch.networks.padded:
        state = {name: value[rows].clone() for name, value in batch.state.items()}
        return Batch(index, networks, batch.theta[rows].clone(), state)
    repacked = {}
    for name, value in {"theta": batch.theta, **batch.state}.items():
        layers = batch.networks.unpack(value)
        repacked[name] = networks.pack([layers[k] for k in keep])
    return Batch(index, networks, repacked.pop("theta"), repacked)
