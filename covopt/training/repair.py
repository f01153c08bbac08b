"""Moving a trained network that nearly meets the points onto them, so that its norm is an interpolant's norm."""

from __future__ import annotations

import numpy as np

from covopt.certificates.certify import residual_of
from covopt.data import Data
from covopt.network import ReLUNetwork
from covopt.sparsify.layer import HiddenLayer, least_outgoing
from covopt.sparsify.merging import balance, drop_silent

MEETS = 1e-9  # of max |y|
_NEWTON_STEPS = 15
_NEWTON_SIZE = 4e6  # entries of the Jacobian


def repair(network: ReLUNetwork, data: Data, *, has_output_bias: bool) -> ReLUNetwork | None:
    r"""Return a network exactly through the points and near the given one; None where none was found.

    Neurons that are silent on the points go and the others are balanced, :math:`\|w_j\| = \|v_j\|`. Then the hidden
    weights are kept and the output weights (with the output bias, where there is one) are the least that meet the
    points (:func:`covopt.sparsify.layer.least_outgoing`); where the features do not reach them, Gauss–Newton steps of
    least norm in all weights. Last, neurons are merged within the cells of the points, which cannot raise the norm.
    It is measured whether the result meets the points, so a poor choice on the way costs quality and never truth.

    Parameters
    ----------
    network : ReLUNetwork
    data : Data
    has_output_bias : bool
        Whether the output bias may move.

    Examples
    --------
    >>> data = Data.validate([[-1.0], [1.0]], [1.0, 1.0])
    >>> rough = ReLUNetwork(np.array([[0.7, 0.7], [-0.7, 0.7]]), np.array([[0.7], [0.7]]))
    >>> fixed = repair(rough, data, has_output_bias=False)
    >>> bool(abs(fixed.predict(data.X) - 1.0).max() < 1e-12)
    True
    """
    weights = (network.hidden_weights, network.output_weights, network.output_bias)
    if not all(np.isfinite(part).all() for part in weights):
        return None
    offset = network.output_bias if has_output_bias else None
    layer = HiddenLayer(
        network.lift(data.X), *weights[:2], network.bias, offset, not network.counts_output_bias
    )
    layer = balance(drop_silent(layer, keep_negative=False))
    found: ReLUNetwork | None = _network(network, balance(least_outgoing(layer, data.Y)))
    if not _meets(found, data):
        found = _newton(_network(network, layer), data, has_output_bias)
    if found is None or not _meets(found, data):
        return None
    merged = found.merge(data.X)
    return min((one for one in (found, merged) if _meets(one, data)), key=lambda one: one.squared_norm)


def _meets(network: ReLUNetwork | None, data: Data) -> bool:
    if network is None or not np.isfinite(network.squared_norm):
        return False
    return residual_of(data, network) <= MEETS


def _network(like: ReLUNetwork, layer: HiddenLayer) -> ReLUNetwork:
    offset = np.zeros_like(like.output_bias) if layer.offset is None else layer.offset
    return ReLUNetwork(layer.incoming, layer.outgoing, like.bias, offset, like.counts_output_bias)


def _residual(network: ReLUNetwork, data: Data) -> np.ndarray:
    return data.Y - network.predict(data.X).reshape(data.Y.shape)


def _newton(network: ReLUNetwork, data: Data, has_output_bias: bool) -> ReLUNetwork | None:
    """Gauss–Newton in all weights, each step of least norm and halved until the residual falls."""
    (n, k), (m, width) = data.Y.shape, network.hidden_weights.shape
    n_parameters = m * (width + k) + k * has_output_bias
    if m == 0 or n * k * n_parameters > _NEWTON_SIZE:
        return None
    missing = _residual(network, data)
    for _ in range(_NEWTON_STEPS):
        size = float(np.abs(missing).max())
        if size <= 0.01 * MEETS * float(np.abs(data.Y).max()):
            break
        step = np.linalg.lstsq(_jacobian(network, data, has_output_bias), missing.ravel(), rcond=1e-8)[0]
        for shrink in (1.0, 0.5, 0.25, 0.1):
            moved = _moved(network, shrink * step, has_output_bias)
            left = _residual(moved, data)
            if float(np.abs(left).max()) < size:
                network, missing = moved, left
                break
        else:
            break
    return network


def _jacobian(network: ReLUNetwork, data: Data, has_output_bias: bool) -> np.ndarray:
    """Return the derivatives of the outputs, (N k, parameters): hidden weights, output weights, output bias."""
    rows = network.lift(data.X)
    (n, k), (m, width) = data.Y.shape, network.hidden_weights.shape
    z = rows @ network.hidden_weights.T
    by_hidden = np.einsum("nj,nd,jk->nkjd", z > 0, rows, network.output_weights).reshape(n * k, m * width)
    by_output = np.einsum("nj,kl->nkjl", np.maximum(z, 0.0), np.eye(k)).reshape(n * k, m * k)
    parts = [by_hidden, by_output]
    if has_output_bias:
        parts.append(np.tile(network.bias * np.eye(k), (n, 1)))
    return np.hstack(parts)


def _moved(network: ReLUNetwork, step: np.ndarray, has_output_bias: bool) -> ReLUNetwork:
    (m, width), k = network.hidden_weights.shape, network.output_weights.shape[1]
    hidden, output = step[: m * width].reshape(m, width), step[m * width : m * (width + k)].reshape(m, k)
    offset = step[m * (width + k) :] if has_output_bias else 0.0
    return ReLUNetwork(
        network.hidden_weights + hidden, network.output_weights + output, network.bias,
        network.output_bias + offset, network.counts_output_bias,
    )  # fmt: skip
