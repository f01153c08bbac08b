r"""What training asks of PyTorch: the device, the precision, threads, and the losses of a whole batch of networks.

Outputs F are (B, N, k). The targets and the weights s come from an encoded loss of covopt, so that

.. math:: C(F_b) = \sum_i s_i \, \ell(F_{b,i}, y_i)

is the number that ``covopt.fit`` minimises. With minibatches the rows of F belong to samples drawn with equal
chances, different ones for each network: the gradient is N/m Σ s_i ∇ℓ over the m of them, which is right on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from covopt.checks.optional import required
from covopt.checks.validation import check_choice
from covopt.errors import InputError
from covopt.losses import Loss

required("torch", "covopt.training", "train")

import torch  # noqa: E402

DTYPES = {"float64": torch.float64, "float32": torch.float32}
# one class on every device since torch 2.5; before that it was CUDA's
OutOfMemory: type[BaseException] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)


def check_device(device: Any) -> Any:
    """Return the device, once it has answered.

    Parameters
    ----------
    device : str or torch.device
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises
    ------
    InputError
        For another name, and for a GPU that is not there.

    Examples
    --------
    >>> check_device("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        if found.type not in ("cpu", "cuda"):
            raise TypeError(f"networks are trained on processors and CUDA's GPUs, not on {found.type}")
        torch.zeros(1, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        why = str(error).partition("\n")[0].rstrip(".")[:80]
        raise InputError(
            f"device={str(device)!r} does not answer ({why}); use 'cpu', or 'cuda' or 'cuda:<number>' of a GPU that "
            "torch sees."
        ) from None
    return found


def check_dtype(dtype: Any) -> Any:
    """Return the torch type of ``"float64"`` or ``"float32"`` (or of a torch or NumPy type of that name).

    Examples
    --------
    >>> check_dtype("float32")
    torch.float32
    """
    name = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype
    if isinstance(name, type):
        name = name.__name__
    return DTYPES[check_choice("dtype", name, DTYPES)]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on the GPU or on the CPU (there it is a plain RuntimeError)."""
    if isinstance(error, OutOfMemory | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


@contextmanager
def one_thread_each(wanted: int) -> Iterator[None]:
    """Give every operation ``wanted`` threads inside the block; the user's number comes back after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Tensor = Any


def _samples(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """Return ℓ(f_i, y_i) as a function of F and the targets, shape (B, N)."""
    F = torch.nn.functional
    if loss.name == "huber":
        delta = float(loss.parameters()["delta"])
        return lambda f, y: F.huber_loss(f, y.expand_as(f), reduction="none", delta=delta).sum(-1)
    return {
        "squared": lambda f, y: (f - y).square().sum(-1),
        "logistic": lambda f, y: F.softplus(-f * y).sum(-1),
        "hinge": lambda f, y: F.relu(1.0 - f * y).sum(-1),
        "squared-hinge": lambda f, y: F.relu(1.0 - f * y).square().sum(-1),
        "softmax-cross-entropy": lambda f, y: -(F.log_softmax(f, -1) * y).sum(-1),
    }[loss.name]


class BatchedLoss:
    """A loss for a whole batch; its gradient is taken automatically, that of the squared loss in closed form.

    Parameters
    ----------
    loss : Loss
        Bound to its targets by ``encode_targets``.
    device, dtype : torch.device, torch.dtype

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 3.0])
    >>> twin = BatchedLoss(loss, torch.device("cpu"), torch.float64)
    >>> twin.value(torch.tensor([[[0.0], [1.0]], [[1.0], [3.0]]], dtype=torch.float64)).tolist()
    [2.5, 0.0]
    """

    def __init__(self, loss: Loss, device: Any, dtype: Any) -> None:
        self._source, self.samples = loss, _samples(loss)
        self.targets = torch.as_tensor(loss.targets, dtype=dtype, device=device)
        self.weights = torch.as_tensor(loss.weights, dtype=dtype, device=device)
        sizes = loss.weights[:, 0]
        # the usual case: one factor, no pass over the outputs
        self.equal = float(sizes[0]) if (sizes == sizes[0]).all() else None

    @property
    def n_samples(self) -> int:
        """N."""
        return len(self.targets)

    def value(self, outputs: Tensor) -> Tensor:
        """Return C of each network, shape (B,)."""
        return torch.mv(self.samples(outputs, self.targets), self.weights[:, 0])

    def gradient_(self, outputs: Tensor, rows: Tensor | None = None) -> Tensor:
        """Overwrite F with ∇C(F), or with its estimate from the drawn ``rows`` (B, m)."""
        if rows is None:
            targets, weights, share = self.targets, self.weights, 1.0
        else:
            targets, share = self.targets[rows], self.n_samples / rows.shape[1]
            weights = self.weights[rows] if self.equal is None else self.weights
        if self._source.name == "squared":
            slope, share = outputs.sub_(targets), 2.0 * share
        else:
            with torch.enable_grad():
                free = outputs.detach().requires_grad_()
                (found,) = torch.autograd.grad(self.samples(free, targets).sum(), free)
            slope = outputs.copy_(found)
        return slope.mul_(weights * share if self.equal is None else self.equal * share)
