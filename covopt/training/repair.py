"""Moving a trained network that nearly meets the points onto them, so that its norm is an interpolant's norm."""

from __future__ import annotations

import numpy as np

from covopt.certificates.certify import residual_of
from covopt.data import Data
from covopt.network import ReLUNetwork

MEETS = 1e-9  # of max |y|
_ROUNDS = 3  # of refinement: each takes the residual down to what rounding leaves
_CUTS = (1e-12, 1e-8, 1e-5)  # singular values of the features, relative to the largest, that are left alone
_NEWTON_STEPS = 15
_NEWTON_SIZE = 4e6  # entries of the Jacobian


def repair(network: ReLUNetwork, data: Data, *, has_output_bias: bool) -> ReLUNetwork | None:
    r"""Return a network exactly through the points and near the given one; None where none was found.

    Neurons that are silent on the points go and the others are balanced, :math:`\|w_j\| = \|v_j\|`. Then the hidden
    weights are kept and the output weights (with the output bias, where there is one) take the least change

    .. math:: \min \|\Delta\|_F \quad\text{s.t.}\quad [\sigma(\tilde X W^\top), \beta 1]\,(V + \Delta) = Y;

    where the features do not span the residual, Gauss–Newton steps of least norm in all weights follow. Last,
    neurons are merged within the cells of the points, which cannot raise the norm, and balanced. It is measured
    whether the result meets the points, so a poor choice on the way costs quality and never truth.

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
    start = _prepared(network, data)
    candidates: list[ReLUNetwork | None] = [_refit(start, data, has_output_bias, cut) for cut in _CUTS]
    if not any(_meets(found, data) for found in candidates):
        candidates.append(_newton(start, data, has_output_bias))
    through = [found for found in candidates if found is not None and _meets(found, data)]
    usable = through + [found for found in (_merged(one, data) for one in through) if _meets(found, data)]
    return min(usable, key=lambda found: found.squared_norm, default=None)


def _meets(network: ReLUNetwork | None, data: Data) -> bool:
    if network is None or not np.isfinite(network.squared_norm):
        return False
    return residual_of(data, network) <= MEETS


def _prepared(network: ReLUNetwork, data: Data) -> ReLUNetwork:
    """Drop silent neurons and balance the others."""
    hidden = np.maximum(network.lift(data.X) @ network.hidden_weights.T, 0.0)
    live = hidden.any(axis=0) & network.output_weights.any(axis=1)
    return _balanced(network, network.hidden_weights[live], network.output_weights[live], network.output_bias)


def _balanced(like: ReLUNetwork, hidden: np.ndarray, output: np.ndarray, offset: np.ndarray) -> ReLUNetwork:
    into, out = np.linalg.norm(hidden, axis=1), np.linalg.norm(output, axis=1)
    live = (into > 0) & (out > 0)
    ratio = np.sqrt(out[live] / into[live])[:, None]
    return ReLUNetwork(
        hidden[live] * ratio, output[live] / ratio, like.bias, offset.copy(), like.counts_output_bias
    )


def _residual(network: ReLUNetwork, data: Data) -> np.ndarray:
    return data.Y - network.predict(data.X).reshape(data.Y.shape)


def _refit(network: ReLUNetwork, data: Data, has_output_bias: bool, cut: float) -> ReLUNetwork:
    hidden = np.maximum(network.lift(data.X) @ network.hidden_weights.T, 0.0)
    constant = np.full((len(hidden), int(has_output_bias)), network.bias)
    inverse = np.linalg.pinv(np.hstack([hidden, constant]), rcond=cut)
    output, offset, count = network.output_weights.copy(), network.output_bias.copy(), len(network)
    for _ in range(_ROUNDS):
        missing = data.Y - hidden @ output - network.bias * offset
        change = inverse @ missing
        output += change[:count]
        offset += change[count:].sum(axis=0)
    return _balanced(network, network.hidden_weights, output, offset)


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


def _merged(network: ReLUNetwork, data: Data) -> ReLUNetwork:
    merged = network.merge(data.X)
    return _balanced(merged, merged.hidden_weights, merged.output_weights, merged.output_bias)
