"""Cutting a run into batches that fit the cache or the GPU, and putting them together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covopt.checks.wording import counted
from covopt.errors import BudgetError
from covopt.training.backend import BatchedLoss, is_out_of_memory, torch
from covopt.training.grid import Member
from covopt.training.model import Architecture, BatchedNetworks

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

    def in_double(self) -> Problem:
        """Return the problem in double precision."""
        if self.inputs.dtype == torch.float64:
            return self
        return Problem(self.architecture, self.members, self.inputs.double(), self.loss.in_double())

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
