"""Reduce one hidden layer: merge, then Carathéodory, then the least outgoing weights; every step is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy.linalg import lstsq, qr, solve_triangular

from covopt.checks import counted
from covopt.checks.memory import plan
from covopt.exact.rank import ATOMS, COMPUTED, numerical_rank
from covopt.limits import TimeUp, limited
from covopt.sparsify import (
    EPS,
    HiddenLayer,
    as_good,
    balance,
    drop_silent,
    least_outgoing,
    merge_in_cells,
    merge_planar,
    project_incoming,
)

PRESERVES = ("covariances", "outputs")
FEWER = "Give it fewer rows: a sample of the table."

Smaller = TypeVar("Smaller")


def reduce_layer(layer: HiddenLayer, *, preserve: str = "covariances") -> HiddenLayer:
    r"""Return a layer with fewer neurons, the same outputs on its data and no larger norm.

    ``preserve="covariances"`` keeps the pair :math:`K = \sum_j z_j z_j^T`,
    :math:`K^\sigma = \sum_j \sigma(z_j)\sigma(z_j)^T + \beta^2 1 1^T`. Neurons in planar cells are merged; then
    the neurons are rescaled by :math:`\sqrt{\alpha_j}`, α ≥ 0 with no larger :math:`\sum_j \alpha_j \|w_j\|^2`, found
    along null vectors of

    .. math:: \sum_j \alpha_j \left(z_j z_j^T, \sigma(z_j)\sigma(z_j)^T\right) = (K, K^\sigma - \beta^2 1 1^T),

    which leaves at most the rank of these atoms: :math:`r(r+1)/2 + N(N+1)/2 \le N(N+1)` (FL22 Prop 7; r = rank of the
    layer's inputs, because every z_j lies in their image). The least outgoing weights restore the outputs; their norm
    depends on Kᵠ alone (FL22 Prop 3, 8).

    ``preserve="outputs"`` keeps only the outputs and lowers the norm: silent neurons are dropped, cells merged, and
    Carathéodory runs on the contributions :math:`\sigma(z_j) v_j^T` of the least outgoing weights
    :math:`v_j = \Lambda^T \sigma(z_j)`, :math:`\Lambda = (K^\sigma)^+ F`. They lie in
    :math:`\{S\Lambda : S = S^T\}`, so at most :math:`Nq - q(q-1)/2` neurons remain, q = rank Λ ≤ rank F ≤ min(N, k):
    N for scalar outputs, never more than N(N+1)/2. (:math:`B^T S B` is symmetric
    for a basis B of the image of Λ, which subtracts q(q − 1)/2 from N q. With a free offset constants cost nothing,
    and N − 1 replaces N.)

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
    for smaller in reductions(layer, preserve=preserve):
        layer = smaller
    return layer


def reductions(layer: HiddenLayer, *, preserve: str) -> Iterator[HiddenLayer]:
    """Yield the intermediate layers of :func:`reduce_layer`, each at least as good as all before it."""
    (n, width), m, k = layer.inputs.shape, len(layer), layer.outgoing.shape[1]
    atoms = min(2 * m + 20, n * k if preserve == "outputs" else 2 * n * n)
    needed = 8.0 * (6 * n * (m + width) + 7 * m * atoms + 3 * n * k)
    plan(needed, FEWER, what=f"the reduction of {counted(m, 'neuron')}")
    return _keep_outputs(layer) if preserve == "outputs" else _keep_pair(layer)


def last_in_time(
    smaller: Iterable[Smaller], first: Smaller, time_limit_s: float | None
) -> tuple[Smaller, str]:
    """Return the last item of a series, or the last one within the time limit, and how the series ended.

    Parameters
    ----------
    smaller : iterable
    first : object
        Returned if no item came in time.
    time_limit_s : float or None

    Returns
    -------
    last : object
    ended : {"finished", "time_limit", "interrupted"}

    Examples
    --------
    >>> last_in_time([2, 1], 3, None)
    (1, 'finished')
    >>> from itertools import count
    >>> last_in_time((1 for i in count() if i < 1), 3, 0.05)
    (1, 'time_limit')
    """
    last, ended = first, "finished"
    try:
        with limited(time_limit_s):
            for last in smaller:  # noqa: B007
                pass
    except TimeUp:
        ended = "time_limit"
    except KeyboardInterrupt:
        ended = "interrupted"
    return last, ended


def _same_pair(old: HiddenLayer, new: HiddenLayer) -> bool:
    """Return whether K and σ(Z)σ(Z)ᵀ are the same up to rounding."""
    was, now = old.preactivations, new.preactivations
    return _same_squares(was, now) and _same_squares(old.activate(was), new.activate(now))


def _same_squares(was: np.ndarray, now: np.ndarray) -> bool:
    """Compare A Aᵀ and B Bᵀ; with more rows than columns use the triangle of (A, B) and no matrix of N² entries."""
    if was.shape[1] + now.shape[1] < len(was):
        upper, count = np.asarray(np.linalg.qr(np.hstack([was, now]), mode="r")), was.shape[1]
        was, now = upper[:, :count], upper[:, count:]
    square = was @ was.T
    return bool(np.linalg.norm(square - now @ now.T) <= ATOMS * np.linalg.norm(square) + EPS**2)


def _keep_pair(layer: HiddenLayer) -> Iterator[HiddenLayer]:
    outputs, norm, given = layer.outputs, layer.squared_norm, layer

    def is_better(new: HiddenLayer) -> bool:
        return len(new) < len(layer) and as_good(new, outputs, norm) and _same_pair(given, new)

    for merge in (lambda x: drop_silent(x, keep_negative=True), merge_planar):
        merged = merge(layer)
        if is_better(merged):
            layer = merged
            yield layer
    if len(layer) == 0:
        return
    z = layer.preactivations
    size = (z**2).sum(axis=0)  # atoms of unit size: large neurons must not hide small ones in rounding
    unit = z / np.sqrt(size)
    pairs = np.vstack([_products(part, part, len(layer) + 10) for part in (unit, layer.activate(unit))])
    masses = _vertex(pairs, (layer.incoming**2).sum(axis=1) / size, size)
    fewer = np.flatnonzero(masses)
    if len(fewer) == len(layer):
        return
    scaled = layer.with_neurons(
        np.sqrt(masses[fewer])[:, None] * layer.incoming[fewer], layer.outgoing[fewer]
    )
    solved = least_outgoing(scaled, outputs)
    if is_better(solved):
        yield solved


def _keep_outputs(layer: HiddenLayer) -> Iterator[HiddenLayer]:
    outputs, best = layer.outputs, layer

    def is_better(new: HiddenLayer) -> bool:
        lower = new.squared_norm < best.squared_norm
        return (lower or len(new) < len(best)) and as_good(new, outputs, best.squared_norm)

    projected = layer.with_neurons(project_incoming(layer.inputs, layer.incoming), layer.outgoing)
    if is_better(projected):
        best = projected
        yield best
    width = -1
    while len(best) not in (0, width):
        width = len(best)
        for step in (
            merge_in_cells,
            merge_planar,
            lambda x: balance(least_outgoing(x, outputs)),
            lambda x: balance(least_outgoing(_spend_contributions(x, outputs), outputs)),
        ):
            found = step(best)
            if is_better(found):
                best = found
                yield best


def _spend_contributions(layer: HiddenLayer, outputs: np.ndarray) -> HiddenLayer:
    if len(layer) == 0:
        return layer
    costs = (layer.incoming**2).sum(axis=1) + (layer.outgoing**2).sum(axis=1)
    activations = layer.activations
    moves = layer.offset is not None and layer.free_offset
    if moves:  # the offset absorbs the means at no cost
        activations = activations - activations.mean(axis=0)
    into, out = np.linalg.norm(activations, axis=0), np.linalg.norm(layer.outgoing, axis=1)
    into, out = np.where(into > 0, into, 1.0), np.where(out > 0, out, 1.0)
    atoms = _products(activations / into, layer.outgoing.T / out, 2 * len(layer) + 20)
    masses = _vertex(atoms, costs / (into * out), into * out)
    chosen = np.flatnonzero(masses)
    root = np.sqrt(masses[chosen])[:, None]
    fewer = layer.with_neurons(root * layer.incoming[chosen], root * layer.outgoing[chosen])
    if not moves:
        return fewer
    offset = (outputs - fewer.activations @ fewer.outgoing).mean(axis=0) / layer.constant
    return replace(fewer, offset=offset)


def _vertex(atoms: np.ndarray, costs: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return α ≥ 0 with Σ α_j start_j atom_j = Σ start_j atom_j on independent atoms, at no larger cost."""
    masses = caratheodory(atoms / costs, costs * start) / costs
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


def _products(a: np.ndarray, b: np.ndarray, count: int) -> np.ndarray:
    """Return the products a_j b_jᵀ as columns, or ``count`` random functionals (g·a_j)(h·b_j) of them.

    With at least as many functionals as columns the map is injective on the span, almost surely.
    """
    if len(a) * len(b) <= count:
        return (a[:, None] * b[None]).reshape(-1, a.shape[1])
    rng = np.random.default_rng(0)
    left = rng.standard_normal((count, len(a))) @ a
    return left * (rng.standard_normal((count, len(b))) @ b)


# ---------------------------------------------------------------------- Carathéodory


def caratheodory(atoms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Reduce the support of signed weights without changing the output or raising the cost.

    Move along null vectors of the atoms, each in the direction in which Σ|c_j| does not grow, until an entry
    vanishes; at most rank(atoms) ≤ N neurons remain (Fisher–Jerome; SP20 after eq. 21). Many columns are processed in
    batches of at most N/2 more than remain, so that each null space stays small.

    Parameters
    ----------
    atoms : ndarray of shape (N, m)
    weights : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (m,)
        Weights of the same signs, with zeros.

    Examples
    --------
    >>> caratheodory(np.array([[1.0, 1.0, 2.0]]), np.array([1.0, 1.0, 1.0]))
    array([0., 0., 2.])
    """
    n = len(atoms)
    sign = np.where(weights < 0, -1.0, 1.0)
    masses = np.abs(weights).astype(float)
    order = np.argsort(-masses, kind="stable")[: np.count_nonzero(masses)]
    kept, step = order[:n], max(32, n // 2)
    for start in range(n, len(order), step):
        batch = np.concatenate([kept, order[start : start + step]])
        masses[batch] = _spend(atoms[:, batch] * sign[batch], masses[batch])
        kept = batch[masses[batch] > 0]
    masses[kept] = _spend(atoms[:, kept] * sign[kept], masses[kept])
    return sign * masses


def _spend(signed: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Eliminate masses along the null vectors of some columns."""
    scale = np.linalg.norm(signed, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    null = _null_rows(signed / scale) if signed.size else np.zeros((0, 0))
    return _eliminate(null, masses * scale, 1.0 / scale) / scale if len(null) else masses


def _null_rows(unit: np.ndarray) -> np.ndarray:
    """Return null vectors of unit columns as rows, one for each column that depends on the pivots.

    An orthonormal basis of the null space is unique only up to rotation, and the one that an SVD returns depends on
    rounding errors, hence on the processor. This basis depends only on the order of the columns: slightly different
    lengths avoid ties between the pivots.
    """
    m = unit.shape[1]
    tilt = 1.0 + np.arange(m, 0, -1) / m
    upper, pivots = qr(unit * tilt, mode="r", pivoting=True, check_finite=False)
    # directions that count as dependent at 1e-11 move the outputs of 2000 points by 4e-9
    rank = numerical_rank(np.abs(np.diag(upper)), m * EPS)
    null = np.zeros((m - rank, m))
    null[:, pivots[rank:]] = np.eye(m - rank)
    null[:, pivots[:rank]] = -solve_triangular(upper[:rank, :rank], upper[:rank, rank:], check_finite=False).T
    null = null[np.argsort(pivots[rank:])] * tilt  # beyond the rank the order of pivots is due to rounding
    return null / np.linalg.norm(null, axis=1, keepdims=True)


def _eliminate(null, masses, costs):
    """Use one null vector (row) after the other; each sets one mass to zero and is then eliminated from the others.

    Masses belong to columns of unit length, so that no threshold depends on the scale of a column.
    """
    masses, alive = masses.copy(), masses > 0
    for pick in range(len(null)):
        row = np.where(alive, null[pick], 0.0)
        longest = int(np.abs(row).argmax())
        size = abs(row[longest])
        if size < 1e-12:
            continue
        row /= size
        terms = costs * row
        total = terms.sum()
        if abs(total) <= COMPUTED * np.abs(terms).sum():  # the sign of a rounding error decides nothing
            total = row[longest]
        if total < 0.0:  # masses − t·direction with t ≥ 0 must not grow in cost
            row = -row
        if row.max() <= 1e-9:
            continue
        steps = np.divide(masses, row, out=np.full(len(row), np.inf), where=row > 1e-9)
        leaving = int(steps.argmin())
        masses = np.maximum(masses - steps[leaving] * row, 0.0)
        masses[leaving], alive[leaving] = 0.0, False
        left = pick + 1 + np.flatnonzero(null[pick + 1 :, leaving])
        null[left] -= null[left, leaving, None] / row[leaving] * row
    return masses
