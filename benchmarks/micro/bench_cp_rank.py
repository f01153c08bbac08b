"""CP-ranks with their proof: python benchmarks/micro/bench_cp_rank.py [--published]."""

import sys
import time

import networkx as nx
import numpy as np

import covopt
from covopt.completely_positive import graphs


def circulant(row: list[int]) -> list[list[int]]:
    """Symmetric circulant; the last entry is the diagonal."""
    row = [row[-1], *row[:-1]]
    return [[row[(j - i) % len(row)] for j in range(len(row))] for i in range(len(row))]


def show(name: str, A) -> None:
    began = time.perf_counter()
    found = covopt.cp_rank(A)
    elapsed = time.perf_counter() - began
    began = time.perf_counter()
    ok = all(check.ok for check in found.verify())
    checked = time.perf_counter() - began
    residual = "" if found.residual is None else f"{found.residual:.0e}"
    print(
        f"{name:<28} {found.status.code:<10} {found.lower!s:>5} {found.upper!s:>5} {residual:>7} "
        f"{elapsed:8.2f} s {checked:8.2f} s {'verified' if ok else 'FAILED'}",
        flush=True,
    )


def main() -> None:
    covopt.cp_rank([[2, 1], [1, 2]])
    print(f"{'matrix':<28} {'status':<10} {'≥':>5} {'≤':>5} {'resid.':>7} {'solve':>10} {'verify':>10}")
    for half in (5, 20, 50):
        show(f"B_N, N = {2 * half}", graphs.complete_bipartite(half, half))
    show("Grötzsch graph", graphs.grotzsch())
    show("random triangle-free, 200", graphs.random_triangle_free(200, random_state=0))
    show("octahedron", nx.octahedral_graph())
    for n, m in ((10, 15), (20, 30), (40, 60)):
        B = np.random.default_rng(0).random((m, n))
        show(f"BᵀB, B {m} × {n} uniform", B.T @ B)
    if "--published" in sys.argv:
        show("M7", circulant([531, 81, 150, 150, 81, 531, 926]))
        show("M̃7", circulant([108, 27, 4, 4, 27, 108, 163]))


if __name__ == "__main__":
    main()
