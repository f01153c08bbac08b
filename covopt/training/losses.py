r"""Torch twins of :mod:`covopt.losses`: values and gradients for a whole batch of networks at once.

Outputs F are (B, N, k). The targets and the weights s come from an encoded loss of covopt, so that

.. math:: C(F_b) = \sum_i s_i \, \ell(F_{b,i}, y_i)

is the number that ``covopt.fit`` minimises. With minibatches the rows of F belong to samples drawn with equal
chances, different ones for each network: the gradient is N/m Σ s_i ∇ℓ over the m of them, which is right on average.
"""

from __future__ import annotations

from typing import Any

from covopt.losses import Loss
from covopt.training.backend import torch

Tensor = Any


class BatchedLoss:
    """The squared loss; the others change :meth:`samples` and :meth:`slope_`.

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
    >>> twin = batched_loss(loss, torch.device("cpu"), torch.float64)
    >>> twin.value(torch.tensor([[[0.0], [1.0]], [[1.0], [3.0]]], dtype=torch.float64)).tolist()
    [2.5, 0.0]
    """

    factor: float = 2.0

    def __init__(self, loss: Loss, device: Any, dtype: Any) -> None:
        self._source = loss
        self.targets = torch.as_tensor(loss.targets, dtype=dtype, device=device)
        self.weights = torch.as_tensor(loss.weights, dtype=dtype, device=device)
        sizes = loss.weights[:, 0]
        # the usual case: one factor, no pass over the outputs
        self.equal = float(sizes[0]) if (sizes == sizes[0]).all() else None

    @property
    def n_samples(self) -> int:
        """N."""
        return len(self.targets)

    def in_double(self) -> BatchedLoss:
        """Return the same loss in double precision."""
        return batched_loss(self._source, self.targets.device, torch.float64)

    def value(self, outputs: Tensor) -> Tensor:
        """Return C of each network, shape (B,)."""
        return torch.mv(self.samples(outputs, self.targets), self.weights[:, 0])

    def gradient_(self, outputs: Tensor, rows: Tensor | None = None) -> Tensor:
        """Overwrite F with ∇C(F), or with its estimate from the drawn ``rows`` (B, m)."""
        if rows is None:
            targets, weights, share = self.targets, self.weights, self.factor
        else:
            targets, share = self.targets[rows], self.factor * self.n_samples / rows.shape[1]
            weights = self.weights[rows] if self.equal is None else self.weights
        slope = self.slope_(outputs, targets)
        return slope.mul_(weights * share if self.equal is None else self.equal * share)

    def samples(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """ℓ(f_i, y_i), shape (B, N)."""
        return (outputs - targets).square_().sum(-1)

    def slope_(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Overwrite F with ∇ℓ(f_i, y_i) / ``factor``."""
        return outputs.sub_(targets)


class _Huber(BatchedLoss):
    factor = 1.0

    def __init__(self, loss: Loss, device: Any, dtype: Any) -> None:
        super().__init__(loss, device, dtype)
        self.delta = float(loss.parameters()["delta"])

    def samples(self, outputs: Tensor, targets: Tensor) -> Tensor:
        size = (outputs - targets).abs_()
        near = size.clamp(max=self.delta)
        return (near * (size - 0.5 * near)).sum(-1)

    def slope_(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.sub_(targets).clamp_(-self.delta, self.delta)


class _Logistic(BatchedLoss):
    factor = 1.0

    def samples(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -torch.nn.functional.logsigmoid(outputs * targets).sum(-1)

    def slope_(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.mul_(targets).neg_().sigmoid_().mul_(targets).neg_()


class _Hinge(BatchedLoss):
    factor = 1.0

    def samples(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (1.0 - outputs * targets).clamp_(min=0.0).sum(-1)

    def slope_(self, outputs: Tensor, targets: Tensor) -> Tensor:
        outputs.copy_(outputs * targets < 1.0)
        return outputs.mul_(targets).neg_()


class _SquaredHinge(BatchedLoss):
    def samples(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (1.0 - outputs * targets).clamp_(min=0.0).square_().sum(-1)

    def slope_(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.mul_(targets).sub_(1.0).clamp_(max=0.0).mul_(targets)


class _SoftmaxCrossEntropy(BatchedLoss):
    factor = 1.0

    def samples(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -(torch.log_softmax(outputs, -1) * targets).sum(-1)

    def slope_(self, outputs: Tensor, targets: Tensor) -> Tensor:
        outputs.copy_(torch.softmax(outputs, -1))
        return outputs.sub_(targets)


_TWINS: dict[str, type[BatchedLoss]] = {
    "squared": BatchedLoss,
    "huber": _Huber,
    "logistic": _Logistic,
    "hinge": _Hinge,
    "squared-hinge": _SquaredHinge,
    "softmax-cross-entropy": _SoftmaxCrossEntropy,
}


def batched_loss(loss: Loss, device: Any, dtype: Any) -> BatchedLoss:
    """Return the twin of an encoded loss."""
    return _TWINS[loss.name](loss, device, dtype)
