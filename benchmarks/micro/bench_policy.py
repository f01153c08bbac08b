"""Which method proves the gauge of an optimal dual first, one output: method by table, processor seconds.

    python benchmarks/micro/bench_policy.py [--rows 20 40 80] [--columns 2 4 7 10]

Tables are rows and columns of iris, wine, breast cancer and diabetes, raw and standardised; the dual is that of
`min_norm`, where many neurons are tight: the hardest one. A method that does not prove it to 1e-6 within its nodes
has a dash. `covopt.oracles.cascade` draws its lines by this table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import covopt
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.cones import box_gauge
from covopt.oracles.cones.moments import quadratic_gauge
from covopt.oracles.faces import FaceOracle

LOADERS = {
    "iris": datasets.load_iris, "wine": datasets.load_wine, "cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
}  # fmt: skip
CLOSE = 1e-6
LIMIT_S = 60.0  # of a solve that gives a dual
Method = Callable[[np.ndarray, np.ndarray], tuple[float, float]]  # the bound, and the largest value met


def signs(rows: np.ndarray, dual: np.ndarray) -> tuple[float, float]:
    found = BranchAndBoundOracle(rows, node_limit=20_000, n_starts=128, random_state=0).price(dual)
    return found.upper_bound, abs(found.values[0])


def boxes(rows: np.ndarray, dual: np.ndarray) -> tuple[float, float]:
    found = box_gauge(rows, dual, rtol=0.1 * CLOSE, max_nodes=3_000_000)
    return found.upper_bound, abs(found.best_value)


def quadratics(rows: np.ndarray, dual: np.ndarray) -> tuple[float, float]:
    found = quadratic_gauge(rows, dual, rtol=0.1 * CLOSE, max_nodes=20_000)
    return found.upper_bound, abs(found.best_value)


def faces(rows: np.ndarray, dual: np.ndarray) -> tuple[float, float]:
    if rows.shape[1] > 3:
        return np.inf, 1.0
    found = FaceOracle(rows).price(dual, threshold=np.inf)
    return found.upper_bound, abs(found.values[0])


METHODS: dict[str, Method] = {"faces": faces, "signs": signs, "boxes": boxes, "quadratics": quadratics}


def table(name: str, n: int, d: int, *, standardised: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (x, 1) and the target: the column after the last, or the answer where there is none."""
    data = LOADERS[name]()
    chosen = np.random.default_rng(0).permutation(len(data.data))[:n]
    whole = np.column_stack([data.data, data.target])[chosen]
    X, y = whole[:, :d], whole[:, min(d, whole.shape[1] - 1)]
    return (StandardScaler().fit_transform(X) if standardised else X), y / np.abs(y).max()


def line(name: str, n: int, d: int, *, standardised: bool) -> None:
    X, y = table(name, n, d, standardised=standardised)
    solved = covopt.min_norm(X, y, duplicates="mean", time_limit_s=LIMIT_S)
    dual = solved.dual.reshape(-1)
    live = dual != 0.0
    rows = np.column_stack([solved.data.X, np.ones(len(dual))])[live]
    cells = []
    for method in METHODS.values():
        began = time.process_time()
        bound, value = method(rows, dual[live])
        cells.append(
            f"{time.process_time() - began:10.2f}" if bound <= value * (1.0 + CLOSE) else f"{'–':>10s}"
        )
    kind = "standardised" if standardised else "raw"
    print(
        f"{name:9s} {kind:12s} {len(rows):4d} {d + 1:3d} {solved.gap:8.0e} {''.join(cells)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[20, 40, 80])
    parser.add_argument("--columns", type=int, nargs="*", default=[2, 4, 7, 10])
    parser.add_argument("--tables", nargs="*", choices=list(LOADERS), default=list(LOADERS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for method in METHODS.values():  # compile
        method(np.eye(3), np.array([1.0, 2.0, -3.0]))
    print(f"{'table':9s} {'':12s}    N   r      gap " + "".join(f"{name:>10s}" for name in METHODS))
    for d in given.columns:
        for n in given.rows:
            for name in given.tables:
                if d <= LOADERS[name]().data.shape[1]:
                    for standardised in (False, True):
                        line(name, n, d, standardised=standardised)


if __name__ == "__main__":
    main()
