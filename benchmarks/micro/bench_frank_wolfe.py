"""Frank–Wolfe over the covariance cone: four variants on one instance, and column generation beside them.

    python benchmarks/micro/bench_frank_wolfe.py [--limit S] [--figure FILE] [--variants ...]

Points are standard normal in the plane, bias 1, targets standard normal. Compilation is not timed. A variant that
does not reach the tolerance within the limit is reported with the gap it reached, and the ratio as a lower bound
(limit / time of sliding); nothing is extrapolated. Column generation is covopt.min_norm.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import covopt
import covopt.errors

TOL = 1e-6
VARIANTS = ("vanilla", "pairwise", "fully-corrective", "sliding")
STYLES = {
    "vanilla": ("o", "-"),
    "pairwise": ("s", "--"),
    "fully-corrective": ("^", "-."),
    "sliding": ("D", ":"),
}


def make_data(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)), rng.standard_normal((n, k))


def draw(histories: dict[str, list[dict[str, float]]], title: str, path: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), constrained_layout=True, sharey=True)
    for name, history in histories.items():
        marker, line = STYLES[name]
        gap = np.maximum([h["gap"] for h in history], 1e-13)
        steps = np.array([h["iteration"] for h in history]) + 1
        seconds = np.array([h["time_s"] for h in history])
        every = np.unique(np.round(np.geomspace(1, len(gap), 10)).astype(int)) - 1
        for ax, x in zip(axes, (steps, seconds), strict=True):
            ax.loglog(
                x,
                gap,
                line,
                color="black",
                lw=1,
                marker=marker,
                mfc="white",
                ms=5,
                markevery=list(every),
                label=name,
            )
    for ax, label in zip(axes, ("iterations", "time (s)"), strict=True):
        ax.axhline(TOL, color="0.6", lw=0.8)
        ax.set_xlabel(label)
        ax.grid(alpha=0.25)
    axes[0].set_ylabel("certified relative gap")
    axes[0].legend(frameon=False)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per variant (default 60)")
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--outputs", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--figure", default=None, help="draw the convergence curves to this file")
    arguments = parser.parse_args()
    n, k = arguments.samples, arguments.outputs
    X, Y = make_data(n, k)
    small = make_data(8, k, seed=1)
    for variant in arguments.variants:  # compile
        covopt.frank_wolfe(*small, variant=variant, max_iter=20)
    print(f"N = {n}, d = 2, k = {k}, tol {TOL:g}, limit {arguments.limit:g} s")
    print(f"  {'':<18} {'seconds':>9} {'iterations':>11} {'gap':>9} {'cost':>14}  status")
    histories, seconds, reached = {}, {}, {}
    for variant in arguments.variants:
        repeats = 5 if variant == "sliding" else 1
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            result = covopt.frank_wolfe(
                X, Y, variant=variant, tol=TOL, time_limit_s=arguments.limit, max_iter=10**7, random_state=0
            )
            times.append(time.perf_counter() - began)
        histories[variant], seconds[variant] = result.history, float(np.median(times))
        reached[variant] = result.gap <= TOL
        gap = result.gap if reached[variant] else result.history[-1]["gap"]
        print(
            f"  {variant:<18} {seconds[variant]:9.3f} {len(result.history):11d} {gap:9.1e} {result.cost:14.9g}  "
            f"{result.status.code}",
            flush=True,
        )
    for name, targets in (("column generation, k = 1", Y[:, 0]), (f"column generation, k = {k}", Y)):
        try:
            covopt.min_norm(small[0], small[1][:, 0] if targets.ndim == 1 else small[1])
            began = time.perf_counter()
            solution = covopt.min_norm(X, targets, tol=TOL)
            print(
                f"  {name}: {time.perf_counter() - began:.3f} s, gap {solution.gap:.1e}, cost {solution.cost:.9g}"
            )
        except covopt.errors.CovoptError as error:
            print(f"  {name}: {error}")
    began = time.perf_counter()
    result = covopt.frank_wolfe(X, Y[:, 0], tol=TOL)
    print(
        f"  sliding, k = 1: {time.perf_counter() - began:.3f} s, gap {result.gap:.1e}, cost {result.cost:.9g}"
    )
    for variant in [name for name in arguments.variants if name != "sliding" and "sliding" in seconds]:
        sign = "=" if reached[variant] else ">"
        print(f"  {variant} / sliding, time to {TOL:g}: {sign} {seconds[variant] / seconds['sliding']:.0f}")
    if arguments.figure:
        draw(histories, f"Frank–Wolfe over S: N = {n}, d = 2, k = {k}, bias 1", arguments.figure)


if __name__ == "__main__":
    main()
