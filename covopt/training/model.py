r"""Many networks as one tensor of weights, their objective and its gradient; the device, the precision, threads.

Layers are stored transposed, inputs by outputs: W₁ is (D, n₁) with the bias as its last row, W_ℓ is
(n_{ℓ−1} + 1, n_ℓ), or (n_{ℓ−1}, n_ℓ) without biases, the last one (n_{L−1}, k), and then b (1, k) where there is an
output bias. Narrower networks are padded with zeros. Padding never moves: a silent neuron (zero row and zero column)
has a zero gradient in both, because each is multiplied by the other, and weight decay of zero is zero.

Outputs F are (B, N, k). The targets and the weights s come from an encoded loss of covopt, so that

.. math:: C(F_b) = \sum_i s_i \, \ell(F_{b,i}, y_i)

is the number that ``covopt.fit`` minimises. With minibatches the rows of F belong to samples drawn with equal
chances, different ones for each network: the gradient is N/m Σ s_i ∇ℓ over the m of them, which is right on average.

Gradients are automatic, but for two layers and one output, where that takes three times as long (3.1 to 3.8 for 20 to
100 neurons on 30 to 200 points; several layers and outputs 1.0 to 1.9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from covopt.checks.optional import required
from covopt.errors import InputError
from covopt.losses import Loss
from covopt.training.schedule import Architecture, Widths

required("torch", "covopt.training", "train")

import torch  # noqa: E402

Tensor = Any
DTYPES = {"float64": torch.float64, "float32": torch.float32}


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


def _samples(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """Return ℓ(f_i, y_i) as a function of F and the targets, shape (B, N)."""
    F = torch.nn.functional
    if loss.name == "huber":
        delta = float(loss.parameters()["delta"])
        return lambda f, y: F.huber_loss(f, y.expand_as(f), reduction="none", delta=delta).sum(-1)
    return {
        "squared": lambda f, y: F.mse_loss(f, y.expand_as(f), reduction="none").sum(-1),
        "logistic": lambda f, y: F.softplus(-f * y).sum(-1),
        "hinge": lambda f, y: F.relu(1.0 - f * y).sum(-1),
        "squared-hinge": lambda f, y: F.relu(1.0 - f * y).square().sum(-1),
        "softmax-cross-entropy": lambda f, y: -(F.log_softmax(f, -1) * y).sum(-1),
    }[loss.name]


class BatchedLoss:
    """A loss for a whole batch.

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
        self._samples, self._is_squared = _samples(loss), loss.name == "squared"
        self.targets = torch.as_tensor(loss.targets, dtype=dtype, device=device)
        self.weights = torch.as_tensor(loss.weights[:, 0], dtype=dtype, device=device)

    def value(self, outputs: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return C of each network, shape (B,), or its estimate from the drawn ``rows`` (B, m)."""
        if rows is None:
            return torch.mv(self._samples(outputs, self.targets), self.weights)
        share = len(self.targets) / rows.shape[1]
        return share * (self._samples(outputs, self.targets[rows]) * self.weights[rows]).sum(1)

    def value_and_gradient(self, outputs: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return C and ∇C(F), shapes (B,) and (B, N, k), or their estimates."""
        if self._is_squared and rows is None:  # a fifth of a step less than what is automatic
            missed = outputs - self.targets
            slope = self.weights[:, None] * missed
            return (missed * slope).sum((1, 2)), slope.mul_(2.0)
        with torch.enable_grad():
            free = outputs.detach().requires_grad_()
            value = self.value(free, rows)
            (slope,) = torch.autograd.grad(value.sum(), free)
        return value.detach(), slope


class BatchedNetworks:
    """The objective C(f) + λ‖W‖² of B networks of one depth, as a function of one tensor of weights.

    Parameters
    ----------
    architecture : Architecture
    widths : sequence of tuple of int
        Hidden widths of each network.
    inputs : Tensor of shape (N, D)
        X̃, with its bias column.
    loss : BatchedLoss
    lams : Tensor of shape (B,)

    Attributes
    ----------
    mask : Tensor of shape (B, P), boolean
        True where a weight is a weight and no padding.
    """

    def __init__(
        self,
        architecture: Architecture,
        widths: Sequence[Widths],
        inputs: Tensor,
        loss: BatchedLoss,
        lams: Tensor,
    ) -> None:
        self.architecture, self.widths, self.loss, self.lams = architecture, list(widths), loss, lams
        self.inputs = inputs
        self.padded: Widths = tuple(max(w[i] for w in widths) for i in range(architecture.depth - 1))
        self.shapes = architecture.shapes(self.padded)
        ends = list(accumulate((rows * columns for rows, columns in self.shapes), initial=0))
        self._places = list(pairwise(ends))
        free = architecture.output_bias == "free"
        self.n_decayed = self._places[-1][0] if free else ends[-1]
        mask = np.zeros((len(widths), ends[-1]), dtype=bool)
        for row, own in zip(mask, widths, strict=True):
            for index, (rows, columns) in enumerate(architecture.shapes(own)):
                first, last = self._places[index]
                room = row[first:last].reshape(self.shapes[index])
                biased = architecture.bias > 0 and index < architecture.depth - 1
                room[: rows - biased, :columns] = True
                if biased:  # its row stays the last one under padding
                    room[-1, :columns] = True
        self.mask = torch.as_tensor(mask, device=inputs.device)
        self._hidden: Tensor = None

    def take(self, rows: Tensor) -> BatchedNetworks:
        """Return some of the networks, padded as they are."""
        part = copy(self)
        part.widths = [self.widths[k] for k in rows.tolist()]
        part.lams, part.mask = self.lams[rows], self.mask[rows]
        return part

    # ------------------------------------------------------------------ weights in and out
    def pack(self, networks: Sequence[Sequence[np.ndarray]]) -> Tensor:
        """Return the weights of B networks (a list of stored layers each) as a tensor (B, P), padded."""
        theta = np.zeros(self.mask.shape)
        theta[self.mask.cpu().numpy()] = np.concatenate([part.ravel() for one in networks for part in one])
        return torch.as_tensor(theta, dtype=self.inputs.dtype, device=self.inputs.device)

    def unpack(self, theta: Tensor) -> list[list[np.ndarray]]:
        """Inverse of :meth:`pack`, in double precision."""
        found = []
        for row, mask, own in zip(
            theta.detach().to("cpu", torch.float64).numpy(), self.mask.cpu().numpy(), self.widths, strict=True
        ):
            shapes = self.architecture.shapes(own)
            ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
            parts = np.split(row[mask], ends)
            found.append([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])
        return found

    def views(self, theta: Tensor) -> list[Tensor]:
        """Return W₁ … W_L (and b) as views (b, rows, columns) of weights (b, P)."""
        return [
            theta[:, first:last].view(len(theta), *shape)
            for (first, last), shape in zip(self._places, self.shapes, strict=True)
        ]

    # ------------------------------------------------------------------ the objective
    def value_and_gradient(
        self,
        theta: Tensor,
        indices: Tensor | None = None,
        rows: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the objectives (b,) and their gradients (b, P), or estimates of both from drawn samples.

        Parameters
        ----------
        theta : Tensor of shape (b, P)
        indices : Tensor of shape (b,), optional
            Which networks these are; all of them by default.
        rows : Tensor of shape (b, m), integers, optional
            The samples of the step, for each network its own.
        noise : Tensor of shape (b, m, k), optional
            What is added to their targets: the squared loss sees the difference only.
        """
        signal = self.inputs.expand(len(theta), *self.inputs.shape) if rows is None else self.inputs[rows]
        if self.architecture.depth == 2 and self.architecture.n_outputs == 1:
            values, slopes = self._in_closed_form(self.views(theta), signal, rows, noise)
        else:
            with torch.enable_grad():
                leaves = [layer.detach().requires_grad_() for layer in self.views(theta)]
                outputs = self.forward(leaves, signal)
                values = self.loss.value(outputs if noise is None else outputs - noise, rows)
                slopes = list(torch.autograd.grad(values.sum(), leaves))
            values = values.detach()
        lams = self.lams if indices is None else self.lams[indices]
        gradient, counted = torch.cat([slope.flatten(1) for slope in slopes], 1), theta[:, : self.n_decayed]
        gradient[:, : self.n_decayed].addcmul_(counted, 2.0 * lams[:, None])
        return values + lams * torch.linalg.vector_norm(counted, dim=1) ** 2, gradient

    def forward(self, layers: Sequence[Tensor], signal: Tensor) -> Tensor:
        """Return the outputs of all networks on inputs (b, m, D)."""
        beta, depth = self.architecture.bias, self.architecture.depth
        for index, weights in enumerate(layers[: depth - 1]):
            if index == 0 or beta == 0:
                signal = torch.bmm(signal, weights).relu_()
            else:
                signal = torch.baddbmm(weights[:, -1:], signal, weights[:, :-1], beta=beta).relu_()
        outputs = torch.bmm(signal, layers[depth - 1])
        return outputs if self.architecture.output_bias == "none" else outputs.add(layers[depth], alpha=beta)

    def _in_closed_form(
        self, layers: list[Tensor], inputs: Tensor, rows: Tensor | None, noise: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Two layers, one output: with g_j = Σ_i r_i σ'(z_ij) x̃_i, ∇w_j = v_j g_j and ∇v_j = w_j·g_j.

        The last one because σ(z) = zσ'(z): the output layer needs no product of its own.
        """
        first, last, *offset = layers
        shape = (*inputs.shape[:2], first.shape[2])
        if self._hidden is None or self._hidden.shape != shape:
            self._hidden = inputs.new_empty(shape)
        hidden = torch.bmm(inputs, first, out=self._hidden).relu_()
        outputs = torch.bmm(hidden, last)
        for shift in offset:
            outputs.add_(shift, alpha=self.architecture.bias)
        values, residual = self.loss.value_and_gradient(outputs if noise is None else outputs - noise, rows)
        pull = torch.bmm((inputs * residual).mT, hidden.sign_())
        slopes = [pull * last.mT, (pull * first).sum(1)]
        return values, slopes + [self.architecture.bias * residual.sum(1) for _ in offset]
