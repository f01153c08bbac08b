r"""What would pairs of rows bring to the bounds?  python benchmarks/real_tables/pair_terms.py [--rounds 1500] [--fit]

Diabetes, 442 × 10, standardised, at λ_max/100 and λ_max/50: quadratics on boxes bound every row by itself, so rows of
opposite sign never cancel. Two ways to let them, for the optimal dual of each problem; B is the bound, h the largest
value met, and nothing here is a proof.

*Pairs moved together.* σ(x·w) − σ(x'·w) ≤ σ((x − x')·w), and ≤ x·w + σ(−(x + x')·w): a linear program chooses how
much of which positive row goes with which negative one, by what a box of all directions makes of them; then boxes are
cut as ever. Only G, not −G: both are alike.

*All products of pairs.* With t = Zw, a = |t|, the second moments Y of (1, w, a) over relaxed unit neurons satisfy

    Y ⪰ 0,  tr W = 1,  (a ± t)(a ± t)ᵀ ≥ 0 entry by entry,  A_ii = z_iᵀ W z_i,  ‖C_i ± W z_i‖ ≤ a_i ± z_i·w

where W, C, A are the blocks of wwᵀ, awᵀ, aaᵀ. The largest ½ Λ·(a + t) is what no pair term can get below without
boxes. It is found by alternating directions: coordinates in which ZᵀZ is the identity and the norm diagonal make the
projection on all linear constraints a closed form, and the rest are projections on cones. ``--fit`` solves the
problem itself over relaxed neurons of both signs: 1 minus its value over the objective is the gap that the best dual
for this bound would leave. Residuals of the last round stand beside; processor seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from which_dual import solved

from covopt.oracles.cones import boxes, moments
from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.transfer import transfer
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.points import Point

SHARES = (0.01, 0.02)
BOXES = (1, 640, 2560)
RELAX = 1.6
PENALTY = 600.0  # for values of the size of one to ten
PENALTY_FIT = 1000.0


class Lifted:
    """Second moments of relaxed neurons of one sign, and the copies of them that lie in cones."""

    def __init__(self, U: np.ndarray, norm: np.ndarray, mass: float):
        n, r = U.shape
        self.U, self.norm, self.mass = U, norm, mass  # t = Uu, ‖w‖² = Σ norm_k u_k²
        self.root = np.sqrt(norm)
        self.u, self.W = np.zeros(r), np.eye(r) * mass / norm.sum()
        self.A = np.abs(U @ self.W @ U.T)
        self.a, self.C = np.sqrt(mass * np.diag(self.A)), np.zeros((n, r))
        self.copies = self.images()
        self.shifts = [np.zeros_like(image) for image in self.copies]

    def images(self) -> list[np.ndarray]:
        """Y, the products (a + t)(a + t)ᵀ, (a − t)(a − t)ᵀ, (a + t)(a − t)ᵀ by two, a ± t, and the two balls."""
        (n, r), U = self.U.shape, self.U
        Y = np.empty((1 + r + n, 1 + r + n))
        Y[0, 0] = self.mass
        Y[0, 1 : 1 + r] = Y[1 : 1 + r, 0] = self.u
        Y[0, 1 + r :] = Y[1 + r :, 0] = self.a
        Y[1 : 1 + r, 1 : 1 + r], Y[1 + r :, 1 + r :] = self.W, self.A
        Y[1 + r :, 1 : 1 + r], Y[1 : 1 + r, 1 + r :] = self.C, self.C.T
        UW, CU, t = U @ self.W, self.C @ U.T, U @ self.u
        T = UW @ U.T
        products = [self.A + CU + CU.T + T, self.A - CU - CU.T + T, self.A - CU + CU.T - T]
        balls = [np.column_stack([self.a + s * t, (self.C + s * UW) * self.root]) for s in (1.0, -1.0)]
        return [Y, *(0.5 * product for product in products), self.a + t, self.a - t, *balls]

    def to_cones(self, heights) -> None:
        """Project the copies; ``heights`` is the proximal step for a + t."""
        images = self.images()
        points = [
            RELAX * image + (1.0 - RELAX) * copy + shift
            for image, copy, shift in zip(images, self.copies, self.shifts, strict=True)
        ]
        values, vectors = np.linalg.eigh(points[0])
        above = values > 0.0
        part = vectors[:, ~above] * values[~above]
        copies = [points[0] - part @ vectors[:, ~above].T, *(np.maximum(point, 0.0) for point in points[1:6])]
        np.fill_diagonal(copies[3], 0.0)
        copies[4] = heights(points[4])
        for ball in points[6:]:
            top, length = ball[:, 0], np.linalg.norm(ball[:, 1:], axis=1)
            share = np.clip(0.5 * (top + length), 0.0, None)
            on_edge = np.column_stack([share, ball[:, 1:] * (share / np.maximum(length, 1e-300))[:, None]])
            copies.append(np.where((length <= top)[:, None], ball, on_edge))
        self.copies, self.shifts = copies, [point - copy for point, copy in zip(points, copies, strict=True)]

    def to_moments(self, cost: float | None) -> None:
        """Project on what moments are, with ``cost`` for each unit of mass, or a mass that is given (None)."""
        U, r, norm = self.U, self.U.shape[1], self.norm
        Y, both, none, mixed, plus, minus, up, down = (
            copy - shift for copy, shift in zip(self.copies, self.shifts, strict=True)
        )
        even, odd = 0.5 * (up + down), 0.5 * (up - down)
        A = 0.5 * Y[1 + r :, 1 + r :] + 0.25 * (both + none + mixed + mixed.T)
        self.A = 0.5 * (A + A.T)
        CU = 0.5 * (both - none - mixed + mixed.T)
        self.C = (2.0 * (Y[1 + r :, 1 : 1 + r] + CU @ U + even[:, 1:] * self.root)) / (4.0 + 2.0 * norm)
        self.a = (2.0 * (Y[0, 1 + r :] + even[:, 0]) + plus + minus) / 6.0
        self.u = (2.0 * Y[0, 1 : 1 + r] + U.T @ (plus - minus + 2.0 * odd[:, 0])) / 6.0
        T = 0.5 * (both + none - mixed - mixed.T)
        weight = 2.0 + norm[:, None] + norm[None]
        ball = (U.T @ odd[:, 1:]) * self.root
        W = (Y[1 : 1 + r, 1 : 1 + r] + U.T @ (0.5 * (T + T.T)) @ U + ball + ball.T) / weight
        give = (norm**2 / np.diag(weight)).sum()
        if cost is None:
            lift = (self.mass - norm @ np.diag(W)) / give
        else:
            lift = (Y[0, 0] - cost - norm @ np.diag(W)) / (give + 1.0)
            self.mass = Y[0, 0] - cost - lift
        W[np.diag_indices(r)] += lift * norm / np.diag(weight)
        self.W = W

    def residual(self) -> float:
        """Distance of the moments to their copies."""
        pairs = zip(self.images(), self.copies, strict=True)
        return float(np.sqrt(sum(((image - copy) ** 2).sum() for image, copy in pairs)))


def whitened(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Coordinates in which the rows are orthonormal columns, the norm there, and the unit of t."""
    U, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return U, (sizes.mean() / sizes) ** 2, sizes.mean()


def relaxed_gauge(rows: np.ndarray, dual: np.ndarray, rounds: int) -> tuple[float, float]:
    """The largest ½Λ·(a + t) over relaxed unit neurons, and the residual."""
    U, norm, unit = whitened(rows)
    neuron, slope = Lifted(U, norm, 1.0), 0.5 * unit * dual
    for _ in range(rounds):
        neuron.to_cones(lambda heights: np.maximum(heights + slope / PENALTY, 0.0))
        neuron.to_moments(None)
    return float(slope @ neuron.copies[4]), neuron.residual()


def relaxed_fit(problem: RegularisedProblem, upper: float, rounds: int) -> tuple[float, float]:
    """The least C/μ + Σ‖v_j‖ over relaxed neurons of both signs, as a share of ``upper``, and the residual."""
    U, norm, unit = whitened(problem.rows)
    y = problem.loss.targets[:, 0]
    per_square = problem.loss.value(np.zeros_like(problem.loss.targets)) / (y @ y) / problem.strength / upper
    step, bend = 0.5 * upper * unit, 2.0 * per_square  # masses count in units of the objective
    neurons = [Lifted(U, norm, 0.4) for _ in range(2)]

    def both(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least ½ bend (step (p − q) − y)² + ½ penalty ((p − first)² + (q − second)²) over p, q ≥ 0."""
        pull, mean = bend * step * y, 0.5 * (first + second)
        apart = (pull + 0.5 * PENALTY_FIT * (first - second)) / (bend * step**2 + 0.5 * PENALTY_FIT)
        p, q = mean + 0.5 * apart, mean - 0.5 * apart
        alone = bend * step**2 + PENALTY_FIT
        left = np.where(q < 0.0, np.maximum(0.0, (pull + PENALTY_FIT * first) / alone), np.maximum(p, 0.0))
        right = np.where(p < 0.0, np.maximum(0.0, (PENALTY_FIT * second - pull) / alone), np.maximum(q, 0.0))
        return left, right

    for _ in range(rounds):
        asked = [
            RELAX * (neuron.a + U @ neuron.u) + (1.0 - RELAX) * neuron.copies[4] + neuron.shifts[4]
            for neuron in neurons
        ]
        for neuron, answer in zip(neurons, both(*asked), strict=True):
            neuron.to_cones(lambda _, answer=answer: answer)
            neuron.to_moments(1.0 / PENALTY_FIT)
    fitted = step * (neurons[0].copies[4] - neurons[1].copies[4])
    value = per_square * ((fitted - y) ** 2).sum() + sum(neuron.mass for neuron in neurons)
    return float(value), float(np.hypot(*(neuron.residual() for neuron in neurons)))


def moved(scalar: Scalar, X: np.ndarray) -> tuple[Scalar, int]:
    """The function with rows moved together, nowhere below G, and the number of pairs."""
    mass = np.linalg.norm(scalar.y, axis=1)
    unit, signs = scalar.y / mass[:, None], scalar.signs
    plus, minus = np.flatnonzero(signs > 0.0), np.flatnonzero(signs < 0.0)

    def length(z: np.ndarray) -> np.ndarray:
        return 0.5 * np.sqrt(np.maximum(np.einsum("...i,ij,...j->...", z, X, z), 0.0))

    near = length(unit[plus][:, None] - unit[minus][None])
    far = length(unit[plus][:, None] + unit[minus][None])
    alone = length(unit[plus])[:, None] - 0.5 * np.linalg.norm(unit[minus] @ X, axis=1)[None]
    cost = np.minimum(near, far) - alone
    p, q = np.nonzero(cost < 0.0)
    ones, places = np.ones(len(p)), np.arange(len(p))
    shares = [
        sp.csr_matrix((ones, (end, places)), (count, len(p)))
        for end, count in ((p, len(plus)), (q, len(minus)))
    ]
    answer = linprog(cost[p, q], A_ub=sp.vstack(shares), b_ub=mass[np.r_[plus, minus]], method="highs")
    used = answer.x > 1e-9
    i, j, amount = plus[p[used]], minus[q[used]], answer.x[used][:, None]
    turned = (far < near)[p[used], q[used]][:, None]
    rows = amount * np.where(turned, -unit[i] - unit[j], unit[i] - unit[j])
    rest = mass - np.bincount(i, amount[:, 0], len(mass)) - np.bincount(j, amount[:, 0], len(mass))
    kept = rest > 1e-9
    other = Scalar.in_coordinates(np.eye(len(X)), np.ones(len(X)))
    other.y = np.ascontiguousarray(np.concatenate([rows, rest[kept, None] * unit[kept]]))
    other.signs = np.r_[np.ones(len(rows)), signs[kept]]
    other.linear = scalar.linear + (amount * turned * unit[i]).sum(axis=0)
    other.sizes = np.abs(other.y).sum(axis=0) + np.abs(other.linear)
    return other, len(rows)


def one_sided(scalar: Scalar, best: float) -> tuple[list[float], np.ndarray]:
    """B/h of G without −G after so many boxes, and the average moments of the boxes then."""
    everything = boxes.roots
    moments.roots = lambda n, r: [box for box in everything(n, r) if box.sign > 0.0]
    try:
        search = moments.MomentSearch(scalar, n_threads=2)
        search.best = best
        bounds = [search.run(1e-3, most) / best for most in BOXES]
    finally:
        moments.roots = everything
    X = np.mean([box.X for box in search.worst(200)], axis=0)
    return bounds, X / np.trace(X)


def compare(problem: RegularisedProblem, point: Point, share: float, rounds: int) -> None:
    """Print B/h of each way."""
    dual = np.ascontiguousarray(point.dual[:, 0])
    made = transfer(problem.rows, dual)
    scalar = Scalar(made)
    points = np.concatenate(
        [point.neurons @ made.V, scalar.ascend(scalar.starts(np.random.default_rng(0)))[0]]
    )
    best = float(np.abs(scalar(points) / np.linalg.norm(points, axis=1)).max())
    bounds, X = one_sided(scalar, best)
    other, pairs = moved(scalar, X)
    began = time.process_time()
    relaxed, residual = relaxed_gauge(problem.rows, dual, rounds)
    seconds = time.process_time() - began
    said = [" ".join(f"{bound:.2f}" for bound in row) for row in (bounds, one_sided(other, best)[0])]
    print(
        f"{share:g} λ_max: B/h after {BOXES} boxes, rows alone {said[0]}, {pairs} pairs moved together {said[1]}; "
        f"all products of pairs, no box {relaxed / made.lift(best):.2f} (residual {residual:.0e}, {seconds:.0f} s)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=1500, help="of alternating directions")
    parser.add_argument("--fit", action="store_true", help="also the problem over relaxed neurons")
    arguments = parser.parse_args()
    for share in SHARES:
        problem, point = solved(share, 1e-3)
        compare(problem, point, share, arguments.rounds)
        if arguments.fit and share == SHARES[0]:
            value, residual = relaxed_fit(problem, point.upper_bound, arguments.rounds)
            print(
                f"{share:g} λ_max over neurons relaxed by all products of pairs: gap {100 * (1.0 - value):.1f} % "
                f"(residual {residual:.0e})",
                flush=True,
            )


if __name__ == "__main__":
    main()
