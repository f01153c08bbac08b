r"""Bound the distance of a network's layers from a bottleneck structure by the network's norm (BN23 §4).

For ANY network, any point x and any k ≤ min(d_in, d_out) with s_k(Jf(x)) > 0,

.. math::
    \sum_\ell \mathrm{dist}(W_\ell, \{UV^T\})^2 \le \sum_\ell \|W_\ell\|_F^2 - kL - 2 \sum_{i \le k} \log s_i(Jf(x)),

where dist is the distance to the products UVᵀ of two matrices with k orthonormal columns each:
dist² = Σ_{i≤k} (s_i(W_ℓ) − 1)² + Σ_{i>k} s_i(W_ℓ)².

Proof. Jf(x) = W_L D_{L−1} W_{L−1} ⋯ D_1 W_1 with masks of norm at most one, so by Horn's inequality
Σ_{i≤k} log s_i(J) ≤ Σ_ℓ Σ_{i≤k} log s_i(W_ℓ), and s² − 1 − 2 log s ≥ (s − 1)². Biases do not enter. ∎

BN23 Theorem 6 is the case k = Rank Jf(x). It is vacuous for trained networks, whose Jacobians have full rank and
tiny singular values. The k that minimises the right side is the number of singular values above e^{−L/2}: an
effective rank for which the bound is proved. (The paper prints one V_ℓ for neighbouring layers; U_ℓ and V_ℓ belong
to one layer only.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_count
from covopt.depth.layers import as_chain, jacobian, to_outputs
from covopt.errors import InputError
from covopt.network import DeepReLUNetwork, check_inputs


@dataclass(frozen=True)
class BottleneckStructure:
    """Distance of each layer to the products UVᵀ of semi-orthonormal matrices, and a bound on the sum of squares.

    Attributes
    ----------
    k : int
        Columns of U and V.
    excess : ndarray of shape (L,)
        dist(W_ℓ, {UVᵀ})².
    bound : float
        Upper bound on the sum of ``excess``: the least Σ‖W_ℓ‖² − kL − 2 Σ log s_i(Jf(x)) over the points.
    point : int
        The row of the table with the least bound.
    singular_values : list of ndarray
        Singular values of W_1 … W_L, in decreasing order.
    tails : ndarray of shape (L,)
        s_{k+1} of the centred pre-activations α̃_ℓ(X)/√N.
    tail_bounds : ndarray of shape (L,)
        Upper bounds on the tails: √excess_ℓ times the norm of the centred inputs of the layer (BN23 Corollary 8
        without its conditions; with biases the corollary is wrong for activations that are not centred).
    """

    k: int
    excess: np.ndarray
    bound: float
    point: int
    singular_values: list[np.ndarray]
    tails: np.ndarray
    tail_bounds: np.ndarray


def bottleneck_structure(network: Any, X: Any, k: int | None = None) -> BottleneckStructure:
    """Return the distances of the layers to rank-k partial isometries, and the bound of BN23 Theorem 6 for any k.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    X : array_like of shape (N, d)
        Points at which the Jacobian is evaluated. Each gives a bound; the least one is returned.
    k : int, optional
        Default: the k with the least bound, an effective rank.

    Returns
    -------
    BottleneckStructure

    Raises
    ------
    InputError
        If X does not match, or the Jacobian has fewer than k nonzero singular values at all points.

    Examples
    --------
    >>> found = bottleneck_structure([np.eye(3)] * 6, [[1.0, 2.0, 3.0]])
    >>> found.k, found.excess.tolist(), found.bound
    (3, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.0)
    """
    chain = as_chain(network)
    rows = check_inputs(X, chain.n_inputs)
    most = min(chain.n_inputs, chain.n_outputs)
    right = right_sides(chain, rows)
    best = right.min(axis=0, initial=np.inf)
    if k is None:
        if not np.isfinite(best).any():
            raise InputError(
                "the Jacobian of the network is zero at every row of X; give a point where it is not, or k."
            )
        count = int(np.argmin(best)) + 1
    else:
        count = check_count("k", k)
        if count > most:
            raise InputError(
                f"k = {count} exceeds the {most} singular values of the Jacobian; give k ≤ {most}."
            )
        if not np.isfinite(best[count - 1]):
            raise InputError(
                f"the Jacobian has fewer than k = {count} nonzero singular values at every row of X."
            )
    values = [np.linalg.svd(w, compute_uv=False) for w in chain.weights]
    excess = np.array([_excess(s, count) for s in values])
    tails, norms = _tails(chain, rows, count)
    point = int(np.argmin(right[:, count - 1]))
    return BottleneckStructure(
        count, excess, float(best[count - 1]), point, values, tails, np.sqrt(excess) * norms
    )


def right_sides(network: Any, X: Any) -> np.ndarray:
    """Return Σ‖W_ℓ‖² − kL − 2 Σ_{i≤k} log s_i(Jf(x)) for every row x and k = 1, 2, …; infinite where s_k = 0.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    X : array_like of shape (N, d)

    Returns
    -------
    ndarray of shape (N, min(d_in, d_out))

    Examples
    --------
    >>> right_sides([2 * np.eye(2), np.eye(2)], [[1.0, 1.0]]).round(4)
    array([[6.6137, 3.2274]])
    """
    chain = as_chain(network)
    values = np.linalg.svd(jacobian(chain, X), compute_uv=False)
    norm = sum(float((w**2).sum()) for w in chain.weights)
    with np.errstate(divide="ignore"):
        logs = np.cumsum(np.log(values), axis=1)
    return norm - len(chain.weights) * np.arange(1, values.shape[1] + 1) - 2.0 * logs


def _excess(values: np.ndarray, k: int) -> float:
    """Return dist² of a matrix with these singular values to the UVᵀ with k columns; missing values are zero."""
    head = np.zeros(k)
    head[: min(k, len(values))] = values[:k]
    return float(((head - 1.0) ** 2).sum() + (values[k:] ** 2).sum())


def _tails(chain: DeepReLUNetwork, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return s_{k+1} of the centred pre-activations of every layer, and the norms of its centred inputs."""
    tails, norms = [], []
    before = rows
    for z in chain.representations(rows):
        share = 1.0 / np.sqrt(len(rows))
        values = np.linalg.svd(share * (z - z.mean(axis=0)), compute_uv=False)
        tails.append(float(values[k]) if len(values) > k else 0.0)
        norms.append(float(np.linalg.norm(share * (before - before.mean(axis=0)), 2)))
        before = chain.activate(z)
    return np.array(tails), np.array(norms)


def tangent_kernel_trace(network: Any, X: Any) -> np.ndarray:
    r"""Return the trace of the tangent kernel at every row, layer by layer (BN23 §4, with the biases).

    .. math::
        \mathrm{Tr}\,\Theta(x, x) = \sum_\ell (\|\alpha_{\ell-1}(x)\|^2 + \beta^2)\,
        \|J(\tilde\alpha_\ell \to f)(x)\|_F^2,

    Term ℓ is the squared norm of the gradient in W_ℓ and b_ℓ; β² is left out for layers without a bias.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    X : array_like of shape (N, d)

    Returns
    -------
    ndarray of shape (N, L)

    Examples
    --------
    >>> tangent_kernel_trace([np.array([[2.0]]), np.array([[3.0]])], [[1.0]])
    array([[9., 4.]])
    """
    chain = as_chain(network)
    rows = check_inputs(X, chain.n_inputs)
    before = [rows, *(chain.activate(z) for z in chain.representations(rows)[:-1])]
    found = []
    for alpha, back, (_, b) in zip(before, to_outputs(chain, rows), chain.layers, strict=True):
        sizes = (alpha**2).sum(axis=1) + (0.0 if b is None else chain.bias**2)
        found.append(sizes * (back**2).sum(axis=(1, 2)))
    return np.array(found).T


def tangent_kernel_curvature(network: Any, x: Any) -> tuple[float, float]:
    r"""Return ‖∂²_{xy} Θ(x, x)‖ of the tangent kernel and its lower bound L‖Jf(x)‖^{2 − 2/L} (BN23 Prop 9).

    With A_ℓ = J α_{ℓ−1}(x) and J_ℓ = J(α̃_ℓ → f)(x), ∂²_{xy}Θ(x, x) = Σ_ℓ A_ℓᵀA_ℓ ⊗ J_ℓJ_ℓᵀ. The proof gives the
    constant L, which a balanced chain of scalars attains; the 2L printed in the statement is wrong. ReLU only.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    x : array_like of shape (d,)

    Returns
    -------
    value, bound : float

    Raises
    ------
    InputError
        For a network with a slope other than the ReLU's.

    Examples
    --------
    >>> value, bound = tangent_kernel_curvature([np.array([[2.0]])] * 3, [1.0])
    >>> round(value, 9), round(bound, 9)
    (48.0, 48.0)
    """
    chain = as_chain(network)
    if chain.slope != 0.0:
        raise InputError(
            f"the bound is for the ReLU; this network has slope {chain.slope:g}. Use slope=0 for a network of ReLUs."
        )
    rows = check_inputs(np.atleast_2d(np.asarray(x, dtype=float)), chain.n_inputs)
    if len(rows) != 1:
        raise InputError(f"x must be one point of {chain.n_inputs} inputs; received {len(rows)} rows.")
    masks = [(z[0] > 0.0).astype(float) for z in chain.representations(rows)[:-1]]
    forward = np.eye(chain.n_inputs)
    total = np.zeros((chain.n_inputs * chain.n_outputs,) * 2)
    for ell, back in enumerate(to_outputs(chain, rows)):
        total += np.kron(forward.T @ forward, back[0] @ back[0].T)
        if ell < len(masks):
            forward = masks[ell][:, None] * (chain.weights[ell] @ forward)
    L = len(chain.weights)
    size = float(np.linalg.norm(jacobian(chain, rows)[0], 2))
    return float(np.linalg.norm(total, 2)), L * size ** (2.0 - 2.0 / L)


def balance(network: Any) -> list[np.ndarray]:
    r"""Return ‖W_{ℓ,i·}‖² + b_{ℓ,i}² − ‖W_{ℓ+1,·i}‖² for every neuron i of every hidden layer ℓ.

    These are zero at a local minimum of the norm over the networks that represent one function, and at a local
    minimum of any loss with weight decay (RK23 Proposition 12).

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray

    Returns
    -------
    list of ndarray of shape (n_ℓ,), ℓ = 1 … L − 1

    Examples
    --------
    >>> balance([np.array([[3.0, 4.0]]), np.array([[1.0]])])
    [array([24.])]
    """
    chain = as_chain(network)
    found = []
    for ell in range(len(chain.weights) - 1):
        w, b = chain.layers[ell]
        into = (w**2).sum(axis=1) + (0.0 if b is None else b**2)
        found.append(into - (chain.weights[ell + 1] ** 2).sum(axis=0))
    return found
