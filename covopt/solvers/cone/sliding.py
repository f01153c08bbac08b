r"""Local descent on the atoms: Newton's method on the KKT system while every neuron stays within its face.

On a face of the arrangement (some rows silent, the active ones fixed) a neuron is w = B t and its atom M t is linear
in t. The balanced network is then a smooth problem in (t_j, v_j),

.. math::
    \min \tfrac12 \sum_j \|t_j\|^2 + \|v_j\|^2 + \tfrac12 \operatorname{Tr} \Lambda^\top K_0 \Lambda
    \quad\text{s.t.}\quad \sum_j M_j t_j v_j^\top + K_0 \Lambda = Y,

whose optimality conditions t_j = M_jᵀΛv_j, v_j = ΛᵀM_jt_j and the constraint are solved for (t, v, Λ) together. Away
from degenerate points the convergence is quadratic: this is what makes Frank–Wolfe finite in practice. A neuron that
reaches the border of its face stays there; to leave it is the oracle's business.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, solve

from covopt.problems.cone import ConeProblem
from covopt.solvers.merging import ON_PLANE, Faces

MAX_ROUNDS = 20
SHORT = 1e-2  # a step that short is one more neuron at the border of its face
MAX_SHORT = 6
MAX_UNKNOWNS = 4000
REGULAR = 1e-12  # of the identity, in the Newton matrix


@dataclass(frozen=True)
class Slid:
    """Where the descent ended.

    Attributes
    ----------
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m, k)
        Output weights for unit neurons.
    masses : ndarray of shape (m,)
        Their norms.
    dual : ndarray of the inner targets' shape
    error : float
        Largest violation of the optimality conditions, relative to the sizes of targets and weights.
    """

    neurons: np.ndarray
    weights: np.ndarray
    masses: np.ndarray
    dual: np.ndarray
    error: float


def cluster(
    rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray, angle: float
) -> tuple[Faces, np.ndarray]:
    """Merge neurons of one closed cell that point the same way, heaviest first, with outputs that agree.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m, k)
    angle : float
        Largest angle in radians between a neuron and its group, and between their outputs. With one output every
        pair of a cell and a sign is merged.

    Returns
    -------
    (Faces, ndarray of shape (groups, k))
        Faces with balanced vectors (‖w‖² = ‖v‖ before balancing), and the balanced output weights.
    """
    sizes = np.linalg.norm(weights, axis=1)
    order = np.argsort(-sizes, kind="stable")
    neurons, weights, sizes = neurons[order], weights[order], sizes[order]
    lengths = np.linalg.norm(rows, axis=1)
    heights = neurons @ (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).T
    above, below = heights > ON_PLANE, heights < -ON_PLANE
    scalar = weights.shape[1] == 1
    least = np.cos(angle)
    # scalar products of what leads a group with what may join it
    facing = weights @ weights.T
    joins = facing > 0
    if not scalar:
        joins &= (neurons @ neurons.T >= least) & (facing >= least * np.outer(sizes, sizes))
    signs = above.astype(np.int8) - below.astype(np.int8)
    groups: list[list[int]] = []
    heads = np.zeros(0, dtype=np.intp)
    for j in range(len(neurons)):
        able = np.flatnonzero(joins[heads, j])
        able = able[~(signs[heads[able]] * signs[j] < 0).any(axis=1)]
        if len(able):
            groups[able[0]].append(j)
            head = heads[able[0]]
            signs[head] = np.where(signs[head] == 0, signs[j], signs[head])
        else:
            groups.append([j])
            heads = np.append(heads, j)
    signs = signs[heads]
    vectors = np.array([sizes[g] @ neurons[g] for g in groups])
    outputs = np.array([weights[g].sum(axis=0) for g in groups])
    outputs *= (np.linalg.norm(vectors, axis=1) / np.linalg.norm(outputs, axis=1))[:, None]
    root = np.sqrt(np.linalg.norm(vectors, axis=1))[:, None]
    faces = Faces(vectors / root, np.ones(len(groups)), signs > 0, signs != 0)
    return faces, outputs / root


def slide(
    problem: ConeProblem, faces: Faces, outputs: np.ndarray, dual: np.ndarray, *, tol: float = 1e-13
) -> Slid | None:
    """Run Newton's method on (t, v, Λ) from a network and a dual.

    Parameters
    ----------
    problem : ConeProblem
    faces : Faces
        Balanced neurons with their faces, from :func:`cluster`.
    outputs : ndarray of shape (m, k)
        Balanced output weights.
    dual : ndarray of the inner targets' shape
    tol : float
        Error to stop at.

    Returns
    -------
    Slid or None
        None when the system is too large, or Newton's method went nowhere.
    """
    rows = problem.rows
    targets, base = problem.inner_targets, problem.base
    n, k = targets.shape
    vectors, outputs, dual = faces.vectors.copy(), outputs.copy(), dual.copy()
    faces = Faces(vectors, faces.signs, faces.active.copy(), faces.touched.copy())
    size = float(np.abs(targets).max()) or 1.0
    best: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None
    worse = short = 0
    basis, owner = faces.spans(rows)
    for turn in range(MAX_ROUNDS):
        count, moves = len(vectors), len(owner)
        if moves + count * k + n * k > MAX_UNKNOWNS:
            return None
        columns = _columns(problem, faces, basis, owner)
        t = np.einsum("qr,qr->q", basis, vectors[owner])
        atoms = np.zeros((count, n))
        np.add.at(atoms, owner, t[:, None] * columns)
        pulled = columns @ dual  # row q: Λᵀ M e_q
        grad_t = t - np.einsum("qk,qk->q", pulled, outputs[owner])
        grad_v = outputs - atoms @ dual
        missing = targets - atoms.T @ outputs - base @ dual
        unit = max(float(np.abs(vectors).max()), float(np.abs(outputs).max()))
        error = max(
            float(np.abs(grad_t).max(initial=0.0)) / unit,
            float(np.abs(grad_v).max(initial=0.0)) / unit,
            float(np.abs(missing).max()) / size,
        )
        if best is None or error < best[0]:
            best, worse = (error, vectors.copy(), outputs.copy(), dual.copy()), 0
        else:
            worse += 1
        if error <= tol or worse >= 4 or short > MAX_SHORT:
            break
        # a dual a little outside its constraint would make the Hessian indefinite
        convex = pulled
        if turn == 0:
            heights = np.zeros((count, k, k))
            np.add.at(heights, owner, pulled[:, :, None] * pulled[:, None, :])
            top = float(np.linalg.eigvalsh(heights)[:, -1].max(initial=0.0))
            convex = pulled / max(1.0, np.sqrt(top))
        step = _newton_step(
            columns, owner, atoms, outputs, convex, base, grad_t, grad_v, missing, (count, moves, n, k)
        )
        if step is None:
            break
        dt, dv, change = step
        moved = np.zeros_like(vectors)
        np.add.at(moved, owner, dt[:, None] * basis)
        alpha, hits = _room(rows, faces, vectors, moved)
        short += alpha < SHORT
        growth = float((np.linalg.norm(moved, axis=1) / np.linalg.norm(vectors, axis=1)).max(initial=0.0))
        if growth * alpha > 2.0:
            alpha, hits = 2.0 / growth, None
        vectors = vectors + alpha * moved
        outputs = outputs + alpha * dv
        dual = dual + alpha * change
        faces = Faces(vectors, faces.signs, faces.active, faces.touched)
        if hits is not None:
            neuron, row = hits
            faces.active[neuron, row] = False
            faces.touched[neuron, row] = False
            basis, owner = faces.spans(rows)
            if neuron not in owner:
                break
            mine = basis[owner == neuron]
            vectors[neuron] = mine.T @ (mine @ vectors[neuron])
    if best is None:
        return None
    error, vectors, outputs, dual = best
    lengths = np.linalg.norm(vectors, axis=1)
    kept = lengths > 1e-9 * lengths.max()
    units = vectors[kept] / lengths[kept, None]
    weights = outputs[kept] * lengths[kept, None]
    return Slid(units, weights, np.linalg.norm(weights, axis=1), dual, error)


def _columns(problem: ConeProblem, faces: Faces, basis: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Row q: the atom of basis vector q on its face, diag(active) Z q, in inner coordinates."""
    columns = (basis @ problem.rows.T) * faces.active[owner]
    return columns if problem.centred is None else columns @ problem.centred


def _newton_step(columns, owner, atoms, outputs, pulled, base, grad_t, grad_v, missing, shape):
    """Solve the symmetric Newton system of the optimality conditions for (dt, dv, dΛ)."""
    count, moves, n, k = shape
    matrix = np.zeros((moves + count * k + n * k,) * 2)
    v0, l0 = moves, moves + count * k
    diagonal = np.arange(l0)
    matrix[diagonal, diagonal] = 1.0 + REGULAR
    everyone, parts = np.arange(moves), np.arange(k)
    # rows t: −(Λᵀ M e_q)·dv, and −⟨dΛ, M e_q vᵀ⟩
    cross = v0 + owner[:, None] * k + parts
    matrix[everyone[:, None], cross] = -pulled
    matrix[:moves, l0:] = -np.einsum("qn,qk->qnk", columns, outputs[owner]).reshape(moves, n * k)
    # rows v: −⟨dΛ, M t e_pᵀ⟩
    for p in range(k):
        matrix[v0 + p : l0 : k, l0 + p :: k] = -atoms
        matrix[l0 + p :: k, l0 + p :: k] = -base
    lower = np.arange(l0, len(matrix))
    matrix[lower, lower] -= REGULAR * max(1.0, float(np.abs(base).max(initial=0.0)))
    upper = np.triu(matrix)
    matrix = upper + np.triu(upper, 1).T
    rhs = -np.concatenate([grad_t, grad_v.ravel(), missing.ravel()])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            step = solve(matrix, rhs, assume_a="sym", check_finite=False)
    except (LinAlgError, ValueError):
        return None
    if not np.isfinite(step).all():
        return None
    return step[:moves], step[v0:l0].reshape(count, k), step[l0:].reshape(n, k)


def _room(rows, faces, vectors, moved):
    """Largest step ≤ 1 that changes no sign, and the (neuron, row) that stops it."""
    heights, speeds = vectors @ rows.T, moved @ rows.T
    falling = faces.touched & (heights * speeds < 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(falling, -heights / np.where(falling, speeds, 1.0), np.inf)
    stop = int(limit.argmin()) if limit.size else 0
    alpha = float(limit.flat[stop]) if limit.size else np.inf
    if alpha >= 1.0:
        return 1.0, None
    return alpha, np.unravel_index(stop, limit.shape)
