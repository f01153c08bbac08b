"""Would hybrid nodes and clipping pay? ``python benchmarks/micro/bench_nodes.py [--quick]``.

Hybrid: proofs by chords are taken apart box by box; on a sample of boxes, sorted by how many boxes the chords need
below them, the quadratic bound is asked for the same level. It pays where its share of closed boxes times the chords'
time below such a box exceeds its own time.

Clipping: a search with chords, in plain floating point and nothing proved, with and without cutting each box to where
its affine bound reaches the level. For quadratics the outer quarters along each cut are tried first, with the
multipliers of the box; and it is counted which of their boxes chords would close. Processor seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from numba import njit
from sklearn.datasets import load_diabetes

from covopt.oracles.cones import box_gauge
from covopt.oracles.cones.boxes import ROOT_ROUNDS, Box, bound_all, roots
from covopt.oracles.cones.gauge import BoxBound, Scalar
from covopt.oracles.cones.leaf import affine_bound, relax, touch
from covopt.oracles.cones.moments import ROUNDS
from covopt.oracles.cones.transfer import transfer
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.box_generation import solve_by_boxes

SAMPLE = 40
SIZES = (3, 10, 30, 100, 300, 1000, 3000, 10**9)
CLIPS = 2  # times a box is cut to where its bound reaches the level
MOST, MOST_QUADRATIC = 4_000_000, 100_000


def optimal(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and an optimal dual, nearly, of n normal points with d − 1 features and noise."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.standard_normal((n, d - 1)), np.ones(n)])
    return rows, solve_by_boxes(ShallowProblem(rows, random.standard_normal(n)), tol=1e-4).dual


def boxes_of(proof: BoxBound) -> Iterator[tuple[Box, int]]:
    """Boxes of a finished proof, each with the number of boxes from it on downwards."""
    tree, (n, r) = proof.tree, proof.y.shape
    assert tree is not None
    size = np.ones(len(tree), dtype=np.int64)
    waiting: list[int] = []
    for place in range(len(tree) - 1, -1, -1):  # of a preorder from behind
        if tree[place]:
            size[place] += waiting.pop() + waiting.pop()
        waiting.append(int(size[place]))
    path: list[Box] = []
    begins = roots(n, r)
    for place in range(len(tree)):
        box = path.pop() if path else next(begins)
        yield box, int(size[place])
        if tree[place]:
            box.cut = int(tree[place]) - 1
            upper, lower = box.halves()
            path += [upper, lower]


def hybrid(n: int, d: int) -> None:
    """Quadratics on boxes of a proof by chords."""
    rows, dual = optimal(n, d)
    began = time.process_time()
    proof = box_gauge(rows, dual, rtol=1e-3)
    each = (time.process_time() - began) / proof.nodes
    scalar = Scalar(proof.transfer)
    print(f"N = {n}, D = {d}: {proof.nodes} boxes with chords, {1e6 * each:.1f} µs each")
    random = np.random.default_rng(0)
    kept: dict[int, list[tuple[Box, int]]] = {k: [] for k in range(len(SIZES))}
    seen = dict.fromkeys(kept, 0)
    for box, size in boxes_of(proof):
        if size == 1:
            continue
        k = int(np.searchsorted(SIZES, size))
        seen[k] += 1
        if len(kept[k]) < SAMPLE:
            kept[k].append((box, size))
        elif random.random() < SAMPLE / seen[k]:
            kept[k][int(random.integers(SAMPLE))] = box, size
    for k, sample in kept.items():
        if not sample:
            continue
        boxes = [box for box, _ in sample]
        spent = time.process_time()
        bound_all(scalar, boxes, rounds=ROOT_ROUNDS, first=2.0, level=proof.H)
        spent = (time.process_time() - spent) / len(boxes)
        closed = np.mean([box.bound <= proof.H for box in boxes])
        below = each * np.mean([size for _, size in sample])
        print(
            f"    up to {SIZES[k]:10d} boxes below: {seen[k]:7d}, closed {100 * closed:4.0f} %, chords below "
            f"{1e6 * below:10.0f} µs, quadratic {1e6 * spent:5.0f} µs, gained {1e6 * (closed * below - spent):10.0f}"
        )


@njit(error_model="numpy")
def sort(rows, signs, linear, u0, s, index, c, radius, theta, g):
    """Sort rows into the gradient and the undecided ones; return the number of these."""
    n, r = rows.shape
    m = 0
    g[:] = linear
    for i in range(n):
        t, reach = 0.0, 0.0
        for j in range(r):
            t += rows[i, j] * u0[j]
            reach += abs(rows[i, j]) * s[j]
        if t >= reach:
            g += signs[i] * rows[i]
        elif t > -reach:
            index[m], c[m], radius[m], theta[m] = i, t, reach, 0.5
            m += 1
    return m


@njit(error_model="numpy")
def chord(rows, signs, index, c, radius, theta, g, u0, s, H, q, u):
    """Bound one box by chords; return the best bound, the last one and the length of its point u."""
    best = np.inf
    for move in range(6):
        f = relax(rows, signs, index, c, radius, theta, g, u0, q)
        norm = touch(q, u0, s, H, u)
        last = affine_bound(f, q, u0, s, H, u, norm)
        best = min(best, last)
        if best <= 0.0 or move == 5:
            break
        for k in range(len(index)):
            answer = 1.0 if (rows[index[k]] * u).sum() > 0.0 else 0.0
            theta[k] += (answer - theta[k]) / (move + 2.0)
    return best, last, norm


@njit(error_model="numpy")
def closes(rows, signs, linear, H, u0, s):
    """Whether chords close a box."""
    n, r = rows.shape
    index, c, radius, theta = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    g, q, u = np.empty(r), np.empty(r), np.empty(r)
    m = sort(rows, signs, linear, u0, s, index, c, radius, theta, g)
    return chord(rows, signs, index[:m], c[:m], radius[:m], theta[:m], g, u0, s, H, q, u)[0] <= 0.0


@njit(error_model="numpy")
def walk(rows, signs, linear, H, a, side, clips, most):
    """Count boxes of one chart, depth first."""
    n, r = rows.shape
    depth = 60 * r
    centres, widths = np.zeros((depth, r)), np.ones((depth, r))
    centres[0, a], widths[0, a] = side, 0.0
    index, c, radius, theta = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    g, q, u = np.empty(r), np.empty(r), np.empty(r)
    level, count = 0, 0
    while level >= 0 and count < most:
        u0, s = centres[level].copy(), widths[level].copy()
        level -= 1
        count += 1
        closed, m = False, 0
        for turn in range(clips + 1):
            m = sort(rows, signs, linear, u0, s, index, c, radius, theta, g)
            best, excess, norm = chord(
                rows, signs, index[:m], c[:m], radius[:m], theta[:m], g, u0, s, H, q, u
            )
            closed = best <= 0.0
            if closed or turn == clips:
                break
            moved = False
            for j in range(r):
                slope = q[j] - H / norm * u[j]
                if s[j] > 0.0 and abs(slope) * 2.0 * s[j] > excess:
                    width = 0.5 * excess / abs(slope)
                    u0[j] += np.copysign(s[j] - width, slope)
                    s[j] = width
                    moved = True
            if not moved:
                break
        if closed or level + 2 >= depth:
            continue
        gain, axis = -1.0, 0
        for j in range(r):
            score = 0.0
            for k in range(m):
                score += (1.0 - (c[k] / radius[k]) ** 2) * abs(rows[index[k], j])
            if s[j] * (score + H * s[j]) > gain:
                gain, axis = s[j] * (score + H * s[j]), j
        for way in (-1.0, 1.0):
            level += 1
            centres[level], widths[level] = u0, s
            widths[level, axis] *= 0.5
            centres[level, axis] += way * widths[level, axis]
    return count


def clipping(n: int, d: int) -> None:
    """Boxes with chords, as they are and cut to where the bound reaches the level."""
    rows, dual = optimal(n, d)
    scalar = Scalar(transfer(rows, dual))
    points, values = scalar.ascend(scalar.starts(np.random.default_rng(0)))
    H = 1.02 * float(np.abs(values).max())
    told = []
    for clips in (0, CLIPS):
        count, began = 0, time.process_time()
        for sign in (1.0, -1.0):
            for a in range(points.shape[1]):
                for side in (1.0, -1.0):
                    count += walk(
                        scalar.y, sign * scalar.signs, sign * scalar.linear, H, a, side, clips, MOST
                    )
        told.append(f"{count} boxes in {time.process_time() - began:.2f} s")
    print(f"N = {n}, D = {d}, chords to 2 %: {told[0]}; clipped {told[1]}", flush=True)


def quarters(times: float) -> None:
    """Boxes with quadratics until all are below a level, with outer quarters along each cut tried first or not."""
    table = load_diabetes()
    values = table.data[:60] / table.data[:60].std()
    rows = np.column_stack([values, np.ones(60)])
    lengths = np.linalg.norm(rows, axis=1)
    cosines = np.clip(rows @ rows.T / np.outer(lengths, lengths), -1.0, 1.0)
    kernel = (
        np.sqrt(1.0 - cosines**2) + (np.pi - np.arccos(cosines)) * cosines
    )  # of infinitely many random neurons
    dual = np.linalg.solve(kernel * np.outer(lengths, lengths), table.target[:60])
    scalar = Scalar(transfer(rows, dual))
    best = float(np.abs(scalar.ascend(scalar.starts(np.random.default_rng(0)))[1]).max())
    level, told, closed, chords, spent = times * best, [], 0, 0, 0.0
    for clips in (False, True):
        began, count, r = time.process_time(), 4 * scalar.y.shape[1], scalar.y.shape[1]
        waiting = list(roots(len(scalar.y), r))
        bound_all(scalar, waiting, rounds=ROOT_ROUNDS, first=2.0, level=level)
        while waiting and count < MOST_QUADRATIC:
            taken = [box for box in waiting[-16:] if box.bound > level]
            del waiting[-16:]
            if clips:
                slabs = [slab for box in taken for slab in outer(box)]
                bound_all(scalar, slabs, rounds=ROUNDS, first=8.0, level=level)
                count += len(slabs)
                for box, upper, lower in zip(taken, slabs[::2], slabs[1::2], strict=True):
                    for slab, way in ((upper, 1.0), (lower, -1.0)):
                        if slab.bound <= level:
                            box.width[box.cut] -= slab.width[box.cut]
                            box.centre[box.cut] -= way * slab.width[box.cut]
            halves = [half for box in taken for half in box.halves()]
            bound_all(scalar, halves, rounds=ROUNDS, first=8.0, level=level)
            count += len(halves)
            waiting += halves
            if not clips:
                since = time.process_time()
                for box in halves:
                    chords += closes(
                        scalar.y,
                        box.sign * scalar.signs,
                        box.sign * scalar.linear,
                        level,
                        box.centre,
                        box.width,
                    )
                    closed += box.bound <= level
                spent += time.process_time() - since
        began += spent if not clips else 0.0
        told.append(f"{count} boxes in {time.process_time() - began:.2f} s")
    print(
        f"60 x 10, a kernel's dual, quadratics to {times} times h: {told[0]}; quarters first {told[1]}",
        flush=True,
    )


def outer(box: Box) -> list[Box]:
    """The outer quarters along the cut."""
    found = list(box.halves())
    for slab, way in zip(found, (1.0, -1.0), strict=True):
        slab.width[box.cut] *= 0.5
        slab.centre[box.cut] += way * slab.width[box.cut]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="five dimensions only")
    arguments = parser.parse_args()
    cases = ((50, 5),) if arguments.quick else ((50, 5), (50, 6))
    walk(np.eye(2), np.ones(2), np.zeros(2), 2.0, 0, 1.0, 1, 10)  # compile
    closes(np.eye(2), np.ones(2), np.zeros(2), 2.0, np.ones(2), np.ones(2))
    for n, d in cases:
        clipping(n, d)
    for times in (1.8, 1.5):
        quarters(times)
    for n, d in cases:
        hybrid(n, d)


if __name__ == "__main__":
    main()
