"""How near training comes to the certified optimum: the best and the median of 32 networks on random instances.

    python benchmarks/micro/bench_cross_check.py [--instances 20] [--n 20] [--lam 0.01] [--seeds 32] [--device cpu]
    python benchmarks/micro/bench_cross_check.py --interpolate

X and y are standard normal, d = 2, bias 1. Ratios are trained over certified cost: the objective with λ; without, the
squared norm of the network moved onto the points. A network below the certified lower bound would be an error.
Processor time is measured: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import covopt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--lam", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--interpolate", action="store_true")
    arguments = parser.parse_args()
    print(print("instance  neurons  width    certified      best    median  ≤ 1 %       s"))
    best = []
    for instance in range(arguments.instances):
        rng = np.random.default_rng(instance)
        X, y = rng.standard_normal((arguments.n, 2)), rng.standard_normal(arguments.n)
        solution = covopt.min_norm(X, y) if arguments.interpolate else covopt.fit(X, y, lam=arguments.lam)
        began = time.process_time()
        found = covopt.cross_check(solution, seeds=arguments.seeds, device=arguments.device)
        spent, ratios = time.process_time() - began, found.table["ratio"]
        best.append(found.ratio)
        print(
            f"{instance:>8} {len(solution.network):>8} {found.table['width'][0]:>6} {found.certified:>12.6g} "
            f"{found.ratio:>9.5f} {ratios.median():>9.5f} {int((ratios <= 1.01).sum()):>6} {spent:>7.1f}",
            flush=True,
        )
    print(
        f"best of {arguments.seeds} within 1 %: {int((np.array(best) <= 1.01).sum())} of {len(best)}; "
        f"worst {max(best):.5f}; none below the certified lower bound"
    )


if __name__ == "__main__":
    main()
