"""Lower bounds on training with weight decay, from the residuals of trained networks.

The tree bound is the dual of training networks whose last hidden neurons have copies of the layers below. At given
squared norms c_ℓ of the lower L − 2 layers (each copy has them, and they are paid once) the residuals of the best
such network are the best dual. Here the copies are trained, from those of a network and from random ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import numpy as np
from scipy.optimize import minimize

from covopt.certificates.conjugate import balanced, into_domain
from covopt.data import Data
from covopt.depth.bounds import KINDS, Asked, Bound
from covopt.depth.dual_trees import DualTree
from covopt.depth.families import Family
from covopt.depth.layers import Layout
from covopt.depth.tree_search import TreeSearch
from covopt.limits import TimeUp, checkpoint
from covopt.losses import Loss

FRESH = 24  # random copies beside those of the network
WIDTH = 4  # of their layers, at least
STEPS = 400  # of L-BFGS
SMALL = 0.3  # of random weights of the last two layers


class Copies:
    """The copies of a network's lower layers.

    Parameters
    ----------
    layout, theta : Layout, ndarray of shape (layout.size,)
        A network.
    X : ndarray of shape (N, d)
    loss : Loss
        With its targets.
    lam : float
    rng : numpy.random.Generator
    """

    def __init__(
        self,
        layout: Layout,
        theta: np.ndarray,
        X: np.ndarray,
        loss: Loss,
        lam: float,
        rng: np.random.Generator,
    ) -> None:
        self.layout, self.X, self.loss, self.lam = layout, X, loss, lam
        layers, depth = layout.split(theta), layout.depth
        self.count = layout.widths[depth - 1] + FRESH
        widths = [max(w, WIDTH) for w in layout.widths[1 : depth - 1]]
        ends = (X.shape[1], *widths)
        size = float(np.sqrt(max((theta**2).sum(), 1e-300) / depth))
        self.parts: list[np.ndarray] = []
        for ell in range(depth - 1):
            out = widths[ell] if ell < depth - 2 else 1
            shape = (self.count, out, ends[ell] + layout.has_bias(ell))
            part = rng.standard_normal(shape) * size / np.sqrt(shape[1] * shape[2])
            part *= 1.0 if ell < depth - 2 else SMALL
            old = layers[ell]
            for j in range(layout.widths[depth - 1]):
                own = old if ell < depth - 2 else old[j : j + 1]
                part[j] *= 0.05
                rows, columns = own.shape[0], layout.widths[ell]
                part[j, :rows, :columns] = own[:, :columns]
                if layout.has_bias(ell):
                    part[j, :rows, -1] = own[:, -1]
            self.parts.append(part)
        last = layers[-1]
        outer = rng.standard_normal((self.count, last.shape[0])) * SMALL * size / np.sqrt(last.shape[0])
        outer[: layout.widths[depth - 1]] = last[:, : layout.widths[depth - 1]].T
        self.parts.append(outer)
        self.parts.append(last[:, -1].copy() if layout.has_bias(depth - 1) else np.zeros(last.shape[0]))

    def train(self, c: float) -> tuple[np.ndarray, np.ndarray]:
        """Train with the lower layers at ‖W_ℓ‖² = c, from where the copies stand; return outputs and activations."""
        lengths = [np.sqrt(c)] * (self.layout.depth - 2)
        start = np.concatenate([part.ravel() for part in self.parts])
        answer = minimize(
            self._value, start, args=(lengths,), jac=True, method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-9},
        )  # fmt: skip
        self.parts = self._scaled(self._split(answer.x), lengths)
        *_, activations, outputs = self._forward(self.parts)
        return outputs, activations

    def _split(self, at: np.ndarray) -> list[np.ndarray]:
        found, here = [], 0
        for part in self.parts:
            found.append(at[here : here + part.size].reshape(part.shape))
            here += part.size
        return found

    def _scaled(self, parts: list[np.ndarray], lengths: list[float]) -> list[np.ndarray]:
        """Return the copies with lower layers of the given lengths."""
        found = list(parts)
        for ell, length in enumerate(lengths):
            sizes = np.sqrt((parts[ell] ** 2).sum(axis=(1, 2), keepdims=True))
            found[ell] = parts[ell] * (length / np.maximum(sizes, 1e-300))
        return found

    def _forward(self, parts: list[np.ndarray]) -> list[np.ndarray]:
        """Return the inputs of the layers (copies, N, width), the activations (N, copies), and the outputs."""
        features = np.broadcast_to(self.X, (self.count, *self.X.shape))
        found = []
        for ell, part in enumerate(parts[:-2]):
            if self.layout.has_bias(ell):
                constant = np.full((*features.shape[:2], 1), self.layout.bias)
                features = np.concatenate([features, constant], axis=2)
            found.append(features)
            features = np.maximum(features @ part.transpose(0, 2, 1), 0.0)
        activations = features[:, :, 0].T
        found.append(activations)
        found.append(activations @ parts[-2] + self.layout.bias * parts[-1])
        return found

    def _value(self, at: np.ndarray, lengths: list[float]) -> tuple[float, np.ndarray]:
        """Return C + λ(‖u‖² + ‖v‖² + ‖b‖²) with its gradient."""
        checkpoint()
        given = self._split(at)
        parts = self._scaled(given, lengths)
        found = self._forward(parts)
        back, depth = self.loss.gradient(found[-1]), self.layout.depth
        slopes: list[np.ndarray] = [np.zeros(0)] * len(parts)
        slopes[-1] = self.layout.bias * back.sum(axis=0) * self.layout.has_bias(depth - 1)
        slopes[-2] = found[-2].T @ back
        above = (back @ parts[-2].T).T[:, :, None] * (found[-2].T[:, :, None] > 0.0)
        for ell in range(depth - 2, -1, -1):
            slopes[ell] = above.transpose(0, 2, 1) @ found[ell]
            if ell:
                width = found[ell].shape[2] - self.layout.has_bias(ell)
                above = (above @ parts[ell][:, :, :width]) * (found[ell][:, :, :width] > 0.0)
        total = self.loss.value(found[-1])
        paid = [depth - 2, depth - 1, *([depth] if self.layout.output_bias == "penalized" else [])]
        for k in paid:
            total += self.lam * float((parts[k] ** 2).sum())
            slopes[k] = slopes[k] + 2.0 * self.lam * parts[k]
        for ell, length in enumerate(lengths):
            along = (slopes[ell] * parts[ell]).sum(axis=(1, 2), keepdims=True) / length**2
            sizes = np.sqrt((given[ell] ** 2).sum(axis=(1, 2), keepdims=True))
            slopes[ell] = (slopes[ell] - along * parts[ell]) * (length / np.maximum(sizes, 1e-300))
        if not np.isfinite(total):
            return 1e300, np.zeros_like(at)
        return float(total), np.concatenate([slope.ravel() for slope in slopes])


MOST_ROWS = {3: 30, 4: 10}  # of a tree for so many layers
FEW_ROWS = 6  # for more layers, where a family is closed under taking children
MOST_MEMBERS = 6000
MOST_CELLS = 1000  # of the rows: each height asks for the best neuron
OWN_SHARE = 0.8  # where the family of a network's own residuals is chosen, of its mean layer's squared norm
SHARES = (0.6, 0.35, 0.1)  # of the mean layer's squared norm, where duals are taken
SIDES = 8  # half a polygon about the circle: two per cent are lost at most
ROUGH = 1e-4  # of each μ


def fit_bounds(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> list[Bound]:
    """Return lower bounds on the least objective, best first.

    Parameters
    ----------
    data : Data
    loss : Loss
        With its targets.
    lam : float
    output_bias : {"none", "penalized", "free"}
    layout, theta : Layout, ndarray of shape (layout.size,)
        A trained network.
    upper : float
        Its objective.
    """
    asked = Asked(data, layout.depth, output_bias, upper, loss, lam)
    done = [_bound((), asked)]
    trees: list[DualTree] = []
    try:
        for tree in _trees(data, loss, lam, output_bias, layout, theta, upper):
            trees.append(tree)
            if len(trees) == 1:  # the rest may not be ready in time
                done.append(_bound((tree,), asked))
        if len(trees) > 1:
            done[1] = _bound(tuple(trees), asked)
    except TimeUp:
        pass
    return sorted(done, key=lambda bound: -bound.value)


def _bound(trees: tuple[DualTree, ...], asked: Asked) -> Bound:
    return Bound(KINDS["trees"].value(trees, asked), "trees", trees)


def _trees(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> Iterator[DualTree]:
    """Yield duals for several sizes of the lower layers, with their trees.

    At the best network its residuals are nearly the dual; at other sizes those of the best network of copies
    (:mod:`covopt.depth.fit_bounds`) are.
    """
    depth = layout.depth
    outputs = layout.forward(theta, data.X)[1][-1]
    residuals = _residuals(loss, outputs)
    rows = _heaviest(data, residuals, depth)
    if not len(rows):
        return
    part = loss.take(rows)
    copies = Copies(layout, theta, data.X[rows], part, lam, np.random.default_rng(0))
    layers = [float((w**2).sum()) for w in layout.split(theta)]
    mean = max(float(np.mean(layers)), 1e-3 * upper / (lam * depth))
    own = [(OWN_SHARE, outputs[rows], layout.forward(theta, data.X[rows])[1][-2])]
    if len(rows) < int(residuals.any(axis=1).sum()):  # the residuals of all rows are no dual of some
        own = []
    for share, here, activations in chain(own, ((share, *copies.train(share * mean)) for share in SHARES)):
        slope = into_domain(part, part.gradient(here), balanced=output_bias == "free" and data.bias > 0.0)
        tree = dual_tree(
            data, rows, -slope, depth, share * mean, activations, level=loss.domain_box() is None
        )
        if tree is not None:
            yield tree


def _residuals(loss: Loss, outputs: np.ndarray) -> np.ndarray:
    """Return −∇C, zero where a row costs nothing."""
    counted = np.flatnonzero(loss.weights[:, 0] > 0.0)
    residuals = np.zeros_like(outputs)
    residuals[counted] = -loss.take(counted).gradient(outputs[counted])
    return residuals


def _heaviest(data: Data, residuals: np.ndarray, depth: int) -> np.ndarray:
    """Return the rows that matter most, heaviest first: sets of rows are cut at these first."""
    sizes = np.linalg.norm(residuals, axis=1) * np.linalg.norm(data.lifted, axis=1)
    most, dim = MOST_ROWS.get(depth, FEW_ROWS), data.lifted.shape[1]
    while most > FEW_ROWS and 2 * sum(math.comb(most - 1, i) for i in range(dim)) > MOST_CELLS:
        most -= 1
    rows = np.argsort(-sizes, kind="stable")[:most]
    return rows[sizes[rows] > 0.0]


def dual_tree(
    data: Data,
    rows: np.ndarray,
    dual: np.ndarray,
    depth: int,
    c: float,
    activations: np.ndarray,
    *,
    level: bool,
) -> DualTree | None:
    """Return a dual with the heights of its directions."""
    if not dual.any():
        return None
    directions = _directions(dual, level)
    search = TreeSearch(data.lifted[rows], dual[:, 0], data.bias, tol=ROUGH)
    search.use(c)
    search.hints = list(activations.T)
    levels = depth - 2 if depth in MOST_ROWS else None
    members, children, places = search.close(
        [dual @ w for w in directions], levels=levels, max_members=MOST_MEMBERS
    )
    family = Family(tuple(rows.tolist()), None, members, children, places[0][0])
    return DualTree(family.rows, dual, directions, family, tuple(places))


def _directions(dual: np.ndarray, level: bool) -> np.ndarray:
    """Return directions of the outputs that :func:`covopt.depth.dual_trees.covering` takes."""
    k = dual.shape[1]
    if not level:
        space = np.eye(k)
    else:  # vectors that sum to zero
        space = np.linalg.svd(np.ones((1, k)))[2][1:]
        if k == 3:  # turning to the left in the first two coordinates
            space = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    if len(space) == 2:
        angles = np.pi * np.arange(SIDES) / SIDES
        found = np.cos(angles)[:, None] * space[0] + np.sin(angles)[:, None] * space[1]
    else:
        found = np.linalg.svd(dual @ space.T)[2] @ space
    return np.array([balanced(w) for w in found]) if level else found
