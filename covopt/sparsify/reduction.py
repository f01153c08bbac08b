"""Reduce one hidden layer: merge, then Carathéodory, then the least outgoing weights; every step is checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import lstsq, svd

from covopt.exact.rank import ATOMS, numerical_rank
from covopt.sparsify.caratheodory import caratheodory
from covopt.sparsify.layer import EPS, HiddenLayer, as_good, least_outgoing, project_incoming
from covopt.sparsify.merging import balance, drop_silent, merge_aligned, merge_in_cells, merge_planar

PRESERVES = ("covariances", "outputs")
PAIR_DRIFT = 1e-10  # largest relative change of K and Kᵠ at which a reduction is taken
_SWEEPS = 6
_LOOSE = 1e-8  # dependent up to the error of ill-conditioned output weights: they are solved for again


def reduce_layer(layer: HiddenLayer, *, preserve: str = "covariances") -> HiddenLayer:
    r"""Return a layer with fewer neurons, the same outputs on its data and no larger norm.

    ``preserve="covariances"`` keeps the pair :math:`K = \sum_j z_j z_j^T`,
    :math:`K^\sigma = \sum_j \sigma(z_j)\sigma(z_j)^T + \beta^2 1 1^T`. Aligned neurons and planar cells merge; then
    the neurons are rescaled by :math:`\sqrt{\alpha_j}`, α ≥ 0 with no larger :math:`\sum_j \alpha_j \|w_j\|^2`, found
    along null vectors of

    .. math:: \sum_j \alpha_j \left(z_j z_j^T, \sigma(z_j)\sigma(z_j)^T\right) = (K, K^\sigma - \beta^2 1 1^T),

    which leaves at most the rank of these atoms: :math:`r(r+1)/2 + N(N+1)/2 \le N(N+1)` (FL22 Prop 7; r = rank of the
    layer's inputs, because every z_j lies in their image). The outputs return through the least outgoing weights,
    whose norm depends on Kᵠ alone (FL22 Prop 3, 8).

    ``preserve="outputs"`` keeps the outputs only and lowers the norm: silent neurons go, cells merge, and
    Carathéodory runs on the contributions :math:`\sigma(z_j) v_j^T` of the least outgoing weights
    :math:`v_j = \Lambda^T \sigma(z_j)`, :math:`\Lambda = (K^\sigma)^+ F`. They lie in
    :math:`\{S\Lambda : S = S^T\}`, so at most :math:`Nq - q(q-1)/2` neurons remain, q = rank Λ ≤ rank F ≤ min(N, k):
    N for scalar outputs, never more than N(N+1)/2. (:math:`B^T S B` is symmetric
    for a basis B of the image of Λ, which takes q(q − 1)/2 off N q. Beside a free offset the constants cost nothing,
    and N is N − 1.)

    Parameters
    ----------
    layer : HiddenLayer
    preserve : {"covariances", "outputs"}

    Returns
    -------
    HiddenLayer
        The layer itself where nothing can be reduced within rounding.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> wide = HiddenLayer(rng.standard_normal((4, 4)), rng.standard_normal((90, 4)), rng.standard_normal((90, 3)))
    >>> len(reduce_layer(wide)) <= 10 + 10, len(reduce_layer(wide, preserve="outputs")) <= 4 * 3 - 3
    (True, True)
    """
    return _keep_outputs(layer) if preserve == "outputs" else _keep_pair(layer)


def pair(layer: HiddenLayer) -> tuple[np.ndarray, np.ndarray]:
    """Return K and σ(Z)σ(Z)ᵀ, without the constant β²11ᵀ."""
    z = layer.preactivations
    a = layer.activate(z)
    return z @ z.T, a @ a.T


def _same_pair(old: tuple[np.ndarray, np.ndarray], new: HiddenLayer) -> bool:
    return all(
        np.linalg.norm(a - b) <= PAIR_DRIFT * np.linalg.norm(a) + EPS**2
        for a, b in zip(old, pair(new), strict=True)
    )


def _keep_pair(layer: HiddenLayer) -> HiddenLayer:
    outputs, norm, covariances = layer.outputs, layer.squared_norm, pair(layer)

    def better(new: HiddenLayer, old: HiddenLayer) -> HiddenLayer:
        if len(new) < len(old) and as_good(new, outputs, norm) and _same_pair(covariances, new):
            return new
        return old

    for merge in (lambda x: drop_silent(x, keep_negative=True), merge_aligned, merge_planar):
        layer = better(merge(layer), layer)
    if len(layer) == 0:
        return layer
    z = layer.preactivations
    size = (z**2).sum(axis=0)  # atoms of unit size: large neurons must not blur small ones
    masses = _vertex(_pair_atoms(layer, z / np.sqrt(size)), (layer.incoming**2).sum(axis=1) / size, size)
    fewer = np.flatnonzero(masses)
    if len(fewer) == len(layer):
        return layer
    scaled = layer.with_neurons(
        np.sqrt(masses[fewer])[:, None] * layer.incoming[fewer], layer.outgoing[fewer]
    )
    return better(least_outgoing(scaled, outputs), layer)


def _keep_outputs(layer: HiddenLayer) -> HiddenLayer:
    outputs, best = layer.outputs, layer

    def better(new: HiddenLayer, old: HiddenLayer) -> HiddenLayer:
        lower = new.squared_norm < old.squared_norm
        return new if as_good(new, outputs, old.squared_norm) and (lower or len(new) < len(old)) else old

    best = better(layer.with_neurons(project_incoming(layer.inputs, layer.incoming), layer.outgoing), best)
    for _ in range(_SWEEPS):
        width = len(best)
        for step in (
            merge_in_cells,
            merge_planar,
            lambda x: balance(least_outgoing(x, outputs)),
            lambda x: _spend_contributions(x, outputs),
            lambda x: balance(least_outgoing(_spend_contributions(x, outputs, _LOOSE), outputs)),
        ):
            best = better(step(best), best)
        if len(best) in (0, width):
            break
    return best


def _spend_contributions(layer: HiddenLayer, outputs: np.ndarray, rank_tol: float = ATOMS) -> HiddenLayer:
    if len(layer) == 0:
        return layer
    costs = (layer.incoming**2).sum(axis=1) + (layer.outgoing**2).sum(axis=1)
    activations = layer.activations
    moves = layer.offset is not None and layer.free_offset
    if moves:  # the offset takes up the means at no cost
        activations = activations - activations.mean(axis=0)
    into, out = np.linalg.norm(activations, axis=0), np.linalg.norm(layer.outgoing, axis=1)
    into, out = np.where(into > 0, into, 1.0), np.where(out > 0, out, 1.0)
    atoms = _contributions(activations / into, layer.outgoing.T / out)
    masses = _vertex(atoms, costs / (into * out), into * out, rank_tol)
    chosen = np.flatnonzero(masses)
    root = np.sqrt(masses[chosen])[:, None]
    fewer = layer.with_neurons(root * layer.incoming[chosen], root * layer.outgoing[chosen])
    if not moves:
        return fewer
    offset = (outputs - fewer.activations @ fewer.outgoing).mean(axis=0) / layer.constant
    return replace(fewer, offset=offset)


def _vertex(atoms: np.ndarray, costs: np.ndarray, start: np.ndarray, rank_tol: float = ATOMS) -> np.ndarray:
    """Return α ≥ 0 with Σ α_j start_j atom_j = Σ start_j atom_j on independent atoms, the cost no larger."""
    masses = caratheodory(atoms / costs, costs * start, rank_tol=rank_tol) / costs
    chosen = np.flatnonzero(masses)
    target = atoms @ start
    for _ in range(3):
        # relative corrections: a small mass stays positive
        columns = atoms[:, chosen] * masses[chosen]
        step = lstsq(columns, target - columns.sum(axis=1), cond=1e-13, check_finite=False)[0]
        if (step <= -0.5).any():
            break
        masses[chosen] *= 1.0 + step
    return masses / start


def _coordinates(columns: np.ndarray) -> np.ndarray:
    """Coordinates of the columns in an orthonormal basis of their span."""
    _, values, right = svd(columns, full_matrices=False, check_finite=False)
    rank = numerical_rank(values, EPS)
    return values[:rank, None] * right[:rank]


def _pair_atoms(layer: HiddenLayer, z: np.ndarray) -> np.ndarray:
    """Return the pairs (zzᵀ, σ(z)σ(z)ᵀ) as columns: upper triangles, or as many random entries as tell them apart."""
    parts = [_coordinates(z), _coordinates(layer.activate(z))]
    entries = sum(len(c) * (len(c) + 1) // 2 for c in parts)
    enough = 2 * z.shape[1] + 20
    if entries <= enough:
        return np.vstack([_squares(c) for c in parts])
    rng = np.random.default_rng(0)
    first, second = (_random_products(c, c, enough, rng) for c in parts)
    return first + second


def _squares(columns: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(len(columns))
    return columns[i] * columns[j] * np.where(i == j, 1.0, np.sqrt(2.0))[:, None]


def _contributions(activations: np.ndarray, outgoing: np.ndarray) -> np.ndarray:
    """Return the products σ(z_j) v_jᵀ as columns, or as many random entries as tell them apart."""
    a, v = _coordinates(activations), _coordinates(outgoing)
    enough = 2 * a.shape[1] + 20
    if len(a) * len(v) <= enough:
        return (a[:, None] * v[None]).reshape(-1, a.shape[1])
    return _random_products(a, v, enough, np.random.default_rng(0))


def _random_products(a: np.ndarray, b: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random linear functionals (g·a)(h·b) of the products: injective on the span of the columns, almost surely."""
    left = rng.standard_normal((count, len(a))) @ a
    return left * (rng.standard_normal((count, len(b))) @ b)
