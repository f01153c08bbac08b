"""Brackets of deep networks trained with weight decay, covopt.fit(depth=L): how wide, and by which bound."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import covopt
from covopt.depth import DeepFit


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray, dict[str, Any]]]:
    """Yield name, X, y and options: |x₁| with noise, and its signs."""
    for n, d, depth, lam in (
        (4, 1, 3, "0.05max"), (5, 2, 3, "0.05max"), (6, 1, 3, "0.05max"), (6, 2, 4, "0.05max"), (6, 2, 6, "0.05max"),
        (12, 1, 3, "0.05max"), (12, 1, 3, "0.3max"), (30, 1, 3, "0.05max"), (30, 1, 3, "0.3max"),
    ):  # fmt: skip
        rng = np.random.default_rng(n)
        X = rng.standard_normal((n, d))
        y = np.abs(X[:, 0]) + 0.3 * rng.standard_normal(n)
        yield "squared", X, y, {"depth": depth, "lam": lam}
    rng = np.random.default_rng(6)
    X = rng.standard_normal((6, 2))
    yield "logistic", X, (X[:, 0] * X[:, 1] > 0).astype(int), {"depth": 3, "lam": 0.02, "loss": "logistic"}
    labels = np.array(["a", "b", "c", "a", "b", "c"])
    yield "softmax", X, labels, {"depth": 3, "lam": 0.02, "loss": "softmax-cross-entropy"}


def run_fits() -> None:
    """Print a line for each table."""
    print("loss      N d L λ         lower     objective      gap  verified  CPU s  by")
    for name, X, y, options in tables():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = covopt.fit(X, y, time_limit_s=None, **options)
        assert isinstance(found, DeepFit)
        seconds = time.process_time() - began
        print(
            f"{name:8s} {len(X):2d} {X.shape[1]} {options['depth']} {options['lam']!s:7s} {found.lower_bound:11.7f} "
            f"{found.objective:11.7f} {found.gap:8.4f}  {covopt.verify(found).ok!s:8s} {seconds:6.1f}  "
            f"{found.bounds[0].title}",
            flush=True,
        )
