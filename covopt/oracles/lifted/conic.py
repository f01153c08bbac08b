r"""Semidefinite programs over lifted cones, by an interior-point method: accurate, for small regions.

The dual of :func:`covopt.oracles.lifted.admm.run_lifted` is handed to Clarabel as a linear matrix inequality whose
variables are Λ and the multipliers themselves. :func:`solve_lifted` takes this way where it is affordable.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from covopt.oracles.lifted.admm import LiftedPoint, run_lifted
from covopt.oracles.lifted.gauge_certificate import Multipliers
from covopt.oracles.lifted.lift import Lift

AFFORDABLE = 3e9  # of the estimate below: a second or two
ACCURACY = 1e-8
SOLVED = ("Solved", "AlmostSolved")


class _Block:
    """Columns of one region's matrix inequality, in Clarabel's order of the triangle."""

    def __init__(self, lift: Lift, n_outputs: int):
        self.lift = lift
        self.k = k = 0 if lift.region.sign else n_outputs
        self.size = size = k + lift.size
        self.second, self.first = np.tril_indices(size)  # the upper triangle, column by column
        self.weight = np.where(self.first == self.second, 1.0, np.sqrt(2.0))
        forms = np.zeros((lift.n_lines, size))
        forms[:, k:] = lift.forms
        heads = np.zeros((max(k, 1), size))
        heads[np.arange(len(heads)), np.arange(len(heads))] = 1.0
        activation = np.zeros((len(lift.line_of), size))
        activation[:, k:] = lift.activation
        self.i, self.j = np.nonzero(np.triu(lift.needed, 1))
        sign = lift.region.sign or 1
        # Λ row by row: one column per (i, output)
        self.dual = np.concatenate(
            [
                sign * self._products(np.repeat(heads[[c]], len(activation), 0), activation)
                for c in range(len(heads))
            ]
        )
        order = np.arange(len(self.dual)).reshape(len(heads), -1).T.ravel()
        self.dual = self.dual[order]
        diagonal = [np.eye(size)[:k], np.eye(size)[[k]], np.eye(size)[k + 1 : k + 1 + lift.rank]]
        self.theta = np.stack([self._products(part, part).sum(axis=0) for part in diagonal])
        self.paired = 2.0 * self._products(forms[lift.pairs[0]], forms[lift.pairs[1]])
        self.products = 2.0 * self._products(forms[self.i], forms[self.j])
        self.cone = np.zeros((0, len(self.weight)))
        if lift.level == "cone":
            axes = np.eye(size)[k : k + 1 + lift.rank]
            self.cone = np.concatenate(
                [self._products(np.repeat(line[None, :], len(axes), 0), axes) for line in forms]
            )

    def _products(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        i, j = self.first, self.second
        return 0.5 * self.weight * (left[:, i] * right[:, j] + left[:, j] * right[:, i])

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Variables: θ, paired, products, cone."""
        return 3, len(self.paired), len(self.products), len(self.cone)

    def columns(self) -> np.ndarray:
        """Return what the matrix inequality takes off, per unit of each variable; θ is added."""
        return np.concatenate([-self.theta, self.paired, self.products, self.cone])

    def read(self, values: np.ndarray) -> Multipliers:
        """Multipliers from the block's variables."""
        lift = self.lift
        theta, paired, chosen, cone = np.split(values, np.cumsum(self.counts)[:-1])
        products = np.zeros((lift.n_lines, lift.n_lines))
        products[self.i, self.j] = chosen
        products[lift.pairs] = paired
        products = products + products.T
        return Multipliers(theta, products, cone.reshape(-1, 1 + lift.rank))

    def moments(self, triangle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the lines and of w, from the multiplier of the matrix inequality."""
        matrix = np.zeros((self.size, self.size))
        matrix[self.first, self.second] = triangle / self.weight
        matrix = (matrix + np.triu(matrix, 1).T)[self.k :, self.k :]
        inner = slice(1, 1 + self.lift.rank)
        return self.lift.forms @ matrix @ self.lift.forms.T, matrix[inner, inner]


def estimate_work(lifts: list[Lift], n_outputs: int) -> float:
    """Operations of one interior-point step, roughly."""
    total = 0.0
    for lift in lifts:
        size = lift.size + (0 if lift.region.sign else n_outputs)
        cone = lift.n_lines * (1 + lift.rank) if lift.level == "cone" else 0
        total += (size * (size + 1) / 2 + lift.needed.sum() / 2 + cone) ** 3 / 3.0
    return total


def run_conic(
    lifts: list[Lift],
    *,
    targets: np.ndarray | None = None,
    dual: np.ndarray | None = None,
    offset_cost: float = np.inf,
    offset_weights: np.ndarray | None = None,
    time_limit_s: float | None = None,
) -> LiftedPoint | None:
    """Solve what :func:`covopt.oracles.lifted.admm.run_lifted` solves; None where Clarabel has no point.

    Parameters
    ----------
    lifts, targets, dual, offset_cost, offset_weights
        See there.
    time_limit_s : float, optional

    Returns
    -------
    LiftedPoint or None

    Examples
    --------
    >>> from covopt.oracles.lifted.lift import Region
    >>> lift = Lift(np.eye(2), 2, Region(np.zeros(2, dtype=np.int8), 0), "plain")
    >>> point = run_conic([lift], targets=np.array([[3.0], [4.0]]))
    >>> round(float(np.vdot(point.dual, [3.0, 4.0])), 5)
    5.0
    """
    import clarabel

    given = targets if targets is not None else dual
    assert given is not None
    n_rows, outputs = given.shape
    n_dual = given.size if targets is not None else 0
    blocks = [_Block(lift, outputs) for lift in lifts]
    starts = n_dual + np.concatenate([[0], np.cumsum([sum(block.counts) for block in blocks])])
    n_variables = int(starts[-1])
    cost = np.zeros(n_variables)
    quadratic = sp.csc_matrix((n_variables, n_variables))
    equal_rows, equal_values = [], []
    weights = np.ones(n_rows) if offset_weights is None else offset_weights
    if targets is not None:
        cost[:n_dual] = -targets.ravel()
        for index in range(len(blocks)):
            row = np.zeros(n_variables)
            row[starts[index] : starts[index] + 3] = 1.0
            equal_rows.append(row)
            equal_values.append(1.0)
        if not np.isinf(offset_cost):
            sums = np.kron(weights, np.eye(outputs))  # Σ_i c_i Λ_i
            if offset_cost > 0:
                inner = sp.csc_matrix(sums.T @ sums / offset_cost)
                rest = sp.csc_matrix((n_variables - n_dual, n_variables - n_dual))
                quadratic = sp.block_diag([inner, rest], format="csc")
            else:
                for line in sums:
                    equal_rows.append(np.concatenate([line, np.zeros(n_variables - n_dual)]))
                    equal_values.append(0.0)
    else:
        for start in starts[:-1]:
            cost[start : start + 3] = 1.0
    for block, start in zip(blocks, starts[:-1], strict=True):
        if not block.k:  # v = s t: the first weight has nothing to act on
            row = np.zeros(n_variables)
            row[start] = 1.0
            equal_rows.append(row)
            equal_values.append(0.0)

    parts: list[Any] = [sp.csr_matrix(np.array(equal_rows).reshape(-1, n_variables))]
    right: list[np.ndarray] = [np.array(equal_values)]
    cones: list[Any] = [clarabel.ZeroConeT(len(equal_values))]
    nonnegative, round_cones = [], []
    for block, start in zip(blocks, starts[:-1], strict=True):
        ends = start + np.cumsum(block.counts)
        nonnegative.append(np.arange(ends[1], ends[2]))
        round_cones.append(np.arange(ends[2], ends[3]))
    for chosen in (np.concatenate(nonnegative), np.concatenate(round_cones)):
        parts.append(
            sp.csr_matrix(
                (-np.ones(len(chosen)), (np.arange(len(chosen)), chosen)), (len(chosen), n_variables)
            )
        )
        right.append(np.zeros(len(chosen)))
    cones.append(clarabel.NonnegativeConeT(len(np.concatenate(nonnegative))))
    for block, chosen in zip(blocks, round_cones, strict=True):
        width = 1 + block.lift.rank
        cones += [clarabel.SecondOrderConeT(width)] * (len(chosen) // width)
    for block, start in zip(blocks, starts[:-1], strict=True):
        own = sp.csr_matrix(block.columns().T)
        before = sp.csr_matrix((own.shape[0], int(start) - n_dual))
        after = sp.csr_matrix((own.shape[0], n_variables - int(start) - own.shape[1]))
        if targets is not None:
            parts.append(sp.hstack([sp.csr_matrix(block.dual.T), before, own, after], format="csr"))
            right.append(np.zeros(own.shape[0]))
        else:
            parts.append(sp.hstack([before, own, after], format="csr"))
            right.append(-given.ravel() @ block.dual)
        cones.append(clarabel.PSDTriangleConeT(block.size))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ACCURACY
    if time_limit_s is not None:
        settings.time_limit = max(time_limit_s, 0.01)
    matrix = sp.vstack(parts, format="csc")
    solution = clarabel.DefaultSolver(
        sp.triu(quadratic, format="csc"), cost, matrix, np.concatenate(right), cones, settings
    ).solve()
    values, slack = np.array(solution.x), np.array(solution.z)
    # a point is checked whatever the solver thinks of it
    if not (np.isfinite(values).all() and np.isfinite(slack).all()):
        return None
    found = values[:n_dual].reshape(given.shape) if targets is not None else given
    multipliers, moments, spans = [], [], []
    at = len(slack) - sum(len(block.weight) for block in blocks)
    for block, start in zip(blocks, starts[:-1], strict=True):
        multipliers.append(block.read(values[start : start + sum(block.counts)]))
        moment, span = block.moments(slack[at : at + len(block.weight)])
        at += len(block.weight)
        moments.append(moment)
        spans.append(span)
    return LiftedPoint(
        found, multipliers, moments, spans, int(solution.iterations), str(solution.status) in SOLVED
    )


def solve_lifted(lifts: list[Lift], *, affordable: float = AFFORDABLE, **options: Any) -> LiftedPoint:
    """Solve by the interior-point method where it is affordable, else by :func:`run_lifted`.

    Parameters
    ----------
    lifts : list of Lift
    affordable : float
        Largest estimate of operations per step (:func:`estimate_work`) for the interior-point method.
    **options
        Of :func:`covopt.oracles.lifted.admm.run_lifted`.

    Examples
    --------
    >>> from covopt.oracles.lifted.lift import Region
    >>> lift = Lift(np.eye(2), 2, Region(np.zeros(2, dtype=np.int8), 0), "plain")
    >>> len(solve_lifted([lift], dual=np.array([[3.0], [4.0]])).multipliers)
    1
    """
    given = options.get("targets")
    given = options["dual"] if given is None else given
    if estimate_work(lifts, given.shape[1]) <= affordable:
        deadline = options.get("deadline")
        point = run_conic(
            lifts,
            targets=options.get("targets"),
            dual=options.get("dual"),
            offset_cost=options.get("offset_cost", np.inf),
            offset_weights=options.get("offset_weights"),
            time_limit_s=None if deadline is None else deadline - time.perf_counter(),
        )
        if point is not None:
            return point
    return run_lifted(lifts, **options)
