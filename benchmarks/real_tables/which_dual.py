"""Which dual bounds a fit best that nearly interpolates?  python benchmarks/real_tables/which_dual.py [--deep 160000]

Diabetes, 442 × 10, standardised, at λ_max/100. Every dual point is one of the problem, scaled by what quadratics on
boxes prove of its gauge h; the gap is to the objective that column generation with a local search ends with. Duals:
the optimal ones of larger λ and of λ itself, those that cutting planes find for covers of so many boxes
(:mod:`covopt.solvers.partition`, with the gap that the cover itself shows), and halfway between. ``if exact`` is the
gap if the bound were h, as far as a local search tells: what no number of boxes gets below. Processor seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import load_diabetes

import covopt
from covopt.data import Data
from covopt.losses import make_loss
from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.moments import MomentSearch
from covopt.oracles.cones.transfer import transfer
from covopt.oracles.steering import Steering
from covopt.problems.regularised import RegularisedProblem, reduce_fit
from covopt.solvers.heuristic import BelievingGeneration
from covopt.solvers.master.objective import Fit
from covopt.solvers.partition import for_a_cover
from covopt.solvers.points import Point

SHARE, LARGER = 0.01, (0.1, 0.02)
COVERS = (0, 400, 1600)
BOXES = (640, 10_240)


def solved(share: float, tol: float) -> tuple[RegularisedProblem, Point]:
    """Problem and end of column generation at this share of λ_max."""
    table = load_diabetes()
    X, y = ((values - values.mean(axis=0)) / values.std(axis=0) for values in (table.data, table.target))
    top = covopt.lambda_max(X, y)
    loss = make_loss("squared")
    data = Data.validate(X, loss.encode_targets(y), bias=1.0, interpolates=False)
    problem = reduce_fit(data, loss, share * top, "none")[0]
    oracle = Steering(problem.rows, n_outputs=0, time_limit_s=1.0, random_state=0, tol=tol)
    point = BelievingGeneration(problem, oracle, tol=tol, random_state=0).solve()
    return problem, point


def report(
    name: str, problem: RegularisedProblem, dual: np.ndarray, point: Point, boxes: tuple[int, ...]
) -> None:
    """B/h and gap after so many boxes."""
    began = time.process_time()
    made = transfer(problem.rows, np.ascontiguousarray(dual[:, 0]))
    scalar = Scalar(made)
    search = MomentSearch(scalar, n_threads=2)
    search.offer(point.neurons @ made.V)
    search.offer(scalar.ascend(scalar.starts(np.random.default_rng(0)))[0])

    def gap(bound: float) -> float:
        return 1.0 - problem.scale_dual(dual, made.lift(bound))[1] / point.upper_bound

    cells = []
    for most in boxes:
        bound = search.run(1e-3, most)
        cells.append(f"{most:7d} boxes: B/h {bound / search.best:6.3f}, gap {100 * gap(bound):5.1f} %")
    print(
        f"{name:34s} {'; '.join(cells)}; if exact {100 * gap(search.best):5.1f} % "
        f"({time.process_time() - began:.1f} s)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--deep", type=int, default=0, metavar="BOXES", help="also so many for the last cover"
    )
    parser.add_argument("--covers", type=int, nargs="+", default=COVERS, help="boxes of each cover")
    parser.add_argument("--tol", type=float, default=1e-3, help="of column generation, believed")
    arguments = parser.parse_args()
    problem, point = solved(SHARE, arguments.tol)
    view = Fit(problem)
    for share in LARGER:
        larger, end = solved(share, arguments.tol)
        dual = end.dual * (larger.strength / problem.strength)
        report(f"optimal for {share:g} λ_max", problem, dual, point, BOXES)
    report(f"optimal for {SHARE:g} λ_max", problem, point.dual, point, BOXES)
    for boxes in arguments.covers:
        began = time.process_time()
        moved = for_a_cover(view, point.dual, point.neurons, boxes=boxes, n_threads=2)
        spent = time.process_time() - began
        own = 100 * (1.0 - problem.dual_value(moved) / point.upper_bound)
        report(f"cover of {boxes or 'all charts'} ({spent:.0f} s), {own:.1f} %", problem, moved, point, BOXES)
    report("halfway to the optimal one", problem, 0.5 * (moved + point.dual), point, BOXES)
    if arguments.deep:
        report("the last cover, deeper", problem, moved, point, (arguments.deep // 4, arguments.deep))


if __name__ == "__main__":
    main()
