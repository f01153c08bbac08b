r"""Many networks as one tensor of weights, with their objectives and gradients.

The weights of a network are one vector (see :class:`covopt.depth.layers.Layout`); those of a batch have one layout.

Outputs F are (B, N, k). The targets and the weights s come from an encoded loss of covopt, so that

.. math:: C(F_b) = \sum_i s_i \, \ell(F_{b,i}, y_i)

is the loss that ``covopt.fit`` minimises. With minibatches the rows of F are uniformly drawn samples, different ones
for each network: the gradient estimate N/m Σ s_i ∇ℓ over the m samples is unbiased.

Backpropagation is written by hand, as torch's automatic differentiation takes up to twice as long.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from covopt.checks import required
from covopt.depth.layers import Layout
from covopt.errors import InputError
from covopt.losses import Loss

required("torch", "covopt.training", "train")

import torch  # noqa: E402

Tensor = Any
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def check_device(device: Any) -> Any:
    """Return the device, after a test that it works.

    Parameters
    ----------
    device : str or torch.device
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises
    ------
    InputError
        For an unknown name, and for a GPU that is not available.

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
    """Return the function of F and the targets that computes ℓ(f_i, y_i), of shape (B, N)."""
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
        if self._is_squared and rows is None:  # saves a fifth of a step against automatic differentiation
            missed = outputs - self.targets
            slope = self.weights[:, None] * missed
            return (missed * slope).sum((1, 2)), slope.mul_(2.0)
        with torch.enable_grad():
            free = outputs.detach().requires_grad_()
            value = self.value(free, rows)
            (slope,) = torch.autograd.grad(value.sum(), free)
        return value.detach(), slope


class BatchedNetworks:
    """The objective C(f) + λ‖W‖² of B networks of one layout, as a function of one tensor of weights.

    Parameters
    ----------
    layout : Layout
    inputs : Tensor of shape (N, D)
        X̃, with its bias column.
    loss : BatchedLoss
    lams : Tensor of shape (B,)
    """

    def __init__(self, layout: Layout, inputs: Tensor, loss: BatchedLoss, lams: Tensor) -> None:
        self.layout, self.inputs, self.loss, self.lams = layout, inputs, loss, lams
        self._charged = torch.as_tensor(layout.charged).to(inputs)

    def take(self, rows: Tensor) -> BatchedNetworks:
        """Return some of the networks."""
        part = copy(self)
        part.lams = self.lams[rows]
        return part

    def views(self, theta: Tensor) -> list[Tensor]:
        """Return W₁ … W_L as views (b, rows, columns) of weights (b, P)."""
        sizes = [rows * columns for rows, columns in self.layout.shapes]
        parts = zip(theta.split(sizes, dim=1), self.layout.shapes, strict=True)
        return [part.view(len(theta), *shape) for part, shape in parts]

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
            Indices of these networks; all of them by default.
        rows : Tensor of shape (b, m), integers, optional
            The samples of the step for each network.
        noise : Tensor of shape (b, m, k), optional
            Noise added to their targets; the squared loss depends on the difference only.
        """
        layers, beta, layout = self.views(theta), self.layout.bias, self.layout
        signals = [self.inputs.expand(len(theta), *self.inputs.shape) if rows is None else self.inputs[rows]]
        for ell, weights in enumerate(layers):
            if ell and layout.has_bias(ell):
                inner, own = weights[:, :, :-1].mT, weights[:, None, :, -1]
                signals.append(torch.baddbmm(own, signals[ell], inner, beta=beta))
            else:  # the inputs already have the bias column
                signals.append(torch.bmm(signals[ell], weights.mT))
            if ell + 1 < layout.depth:
                signals[-1].relu_()
        outputs = signals[-1]
        values, back = self.loss.value_and_gradient(outputs if noise is None else outputs - noise, rows)
        slopes: list[Tensor] = []
        for ell in range(layout.depth - 1, -1, -1):
            slope = torch.bmm(back.mT, signals[ell])
            if ell and layout.has_bias(ell):
                slope = torch.cat([slope, beta * back.sum(1)[:, :, None]], 2)
            slopes.insert(0, slope.flatten(1))
            if ell:
                back = torch.bmm(back, layers[ell][:, :, : layout.widths[ell]]).mul_(signals[ell].sign_())
        lams = self.lams if indices is None else self.lams[indices]
        gradient, counted = torch.cat(slopes, 1), theta * self._charged
        gradient.addcmul_(counted, 2.0 * lams[:, None])
        return values + lams * torch.linalg.vector_norm(counted, dim=1) ** 2, gradient
