"""Faces or boxes: what both cost, the fit that `covopt.oracles.choose` uses, and how good its choice is.

    python benchmarks/micro/bench_choice.py [--most 2e8]

Tables in four to seven dimensions (the bias counts) with normal targets: normal ones, the same with columns of sizes
from 1 to 1/50, and rows of the raw iris table, on its grid. Each is solved to 1e-6 with every face looked at in each
round, and with boxes; processor seconds, one thread. Where there are more than ``--most`` faces only boxes solve. The
fit is of least squares in logarithms; the last columns hold the choice against the better of both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from covopt.oracles.choose import box_seconds, boxes_are_cheaper, face_seconds
from covopt.oracles.faces import FaceOracle, count_faces
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.box_generation import solve_by_boxes
from covopt.solvers.generation import generate

GRID = [
    *(("normal", *size) for size in (
        (4, 20), (4, 40), (4, 80), (4, 150), (5, 10), (5, 15), (5, 25), (5, 40), (5, 60), (6, 12), (6, 18), (6, 25),
        (6, 35), (7, 12), (7, 16), (7, 22),
    )),
    *(("scaled", *size) for size in ((5, 15), (5, 25), (5, 40), (6, 12), (6, 18), (6, 25), (7, 12), (7, 16))),
    *(("iris", 5, n) for n in (15, 25, 40)),
]  # fmt: skip


def seconds(work: Callable[[], Any]) -> float:
    """Processor seconds of the work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def problem_of(kind: str, rank: int, n: int) -> ShallowProblem:
    """Points with a bias, normal targets."""
    random = np.random.default_rng(0)
    points = random.standard_normal((n, rank - 1))
    if kind == "scaled":
        points *= np.geomspace(1.0, 0.02, rank - 1)
    if kind == "iris":
        table = np.unique(load_iris().data, axis=0)
        points = table[:: len(table) // n][:n] / table.max()
    return ShallowProblem(np.column_stack([points, np.ones(n)]), random.standard_normal(n))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--most", type=float, default=2e8, help="faces")
    most = parser.parse_args().most
    warm = problem_of("normal", 5, 10)
    generate(warm, FaceOracle(warm.rows, n_threads=1), tol=1e-6)
    solve_by_boxes(warm, tol=1e-6)
    faces: list[tuple[int, int, float]] = []
    boxes: list[tuple[int, int, float, float]] = []
    print(
        "table    D    N    faces   by faces (predicted)   by boxes (predicted)   chosen   against the better"
    )
    for kind, rank, n in GRID:
        problem = problem_of(kind, rank, n)
        ties = float(np.mean([1.0 - len(np.unique(column)) / n for column in problem.rows.T[:-1]]))
        spread = ties * np.log(np.linalg.cond(problem.rows))
        by_boxes = seconds(lambda problem=problem: solve_by_boxes(problem, tol=1e-6))
        boxes.append((rank, n, spread, by_boxes))
        by_faces = np.inf
        if count_faces(n, rank) <= most:
            by_faces = seconds(
                lambda problem=problem: generate(problem, FaceOracle(problem.rows, n_threads=1), tol=1e-6)
            )
            faces.append((rank, n, by_faces))
        chosen = boxes_are_cheaper(problem.rows)
        ratio = (by_boxes if chosen else by_faces) / min(by_boxes, by_faces)
        print(
            f"{kind:7s}{rank:3d} {n:4d} {count_faces(n, rank):8.1e}   {by_faces:8.3f} "
            f"({face_seconds(n, rank):8.3f})    {by_boxes:8.3f} ({box_seconds(problem.rows):8.3f})    "
            f"{'boxes' if chosen else 'faces'}    {ratio:5.2f}",
            flush=True,
        )
    terms = np.array([[1.0, np.log(count_faces(n, rank))] for rank, n, _ in faces])
    fit = np.linalg.lstsq(terms, np.log([entry[2] for entry in faces]), rcond=None)[0]
    print(
        "log seconds by faces:",
        " + ".join(f"{c:.3f} {name}" for c, name in zip(fit, ("", "log faces"), strict=True)),
    )
    terms = np.array([[1.0, rank, np.log(n), rank * np.log(n), c] for rank, n, c, _ in boxes])
    fit = np.linalg.lstsq(terms, np.log([entry[3] for entry in boxes]), rcond=None)[0]
    names = ("", "D", "log N", "D log N", "ties · log condition")
    print("log seconds by boxes:", " + ".join(f"{c:.3f} {name}" for c, name in zip(fit, names, strict=True)))


if __name__ == "__main__":
    main()
