"""Small closed proofs by covopt, of decimals of one digit: for tests of readers."""

import copy
from fractions import Fraction
from functools import cache

import numpy as np

import covopt
from covopt.proofs.checker.faces import square_above

CASES = {
    "interpolation": (None, "none"), "penalized": (None, "penalized"), "free": (None, "free"),
    "squared": ("squared", "none"), "squared-penalized": ("squared", "penalized"), "huber": ("huber", "penalized"),
    "hinge": ("hinge", "free"), "squared-hinge": ("squared-hinge", "none"),
}  # fmt: skip


@cache
def _proved(case: str, n: int, inputs: int, seed: int) -> dict:
    loss, shift = CASES[case]
    rng = np.random.default_rng(seed)
    X = (rng.permuted(np.tile(np.arange(-20, 21), (inputs, 1)), axis=1)[:, :n].T + 0.0) / 10
    y = (rng.integers(-9, 9, n) + 0.0) / 10
    if loss is None:
        return covopt.min_norm(X, y, output_bias=shift).prove().to_dict()
    y = np.where(y > 0, "yes", "no") if "hinge" in loss else y
    weights = np.arange(1.0, n + 1) if loss == "huber" else None
    options = {"lam": 0.05, "loss": loss, "output_bias": shift, "sample_weight": weights, "tol": 1e-4}
    return covopt.fit(X, y, **options).prove().to_dict()


def make_content(case: str, n: int = 6, inputs: int = 1, seed: int = 0) -> dict:
    """The content of a file."""
    return copy.deepcopy(_proved(case, n, inputs, seed))


def implied(own) -> bool:
    """Whether |G(u)| ≤ H|u| for all u, by all faces in fractions; the rest of a proof is one formula."""
    rows = np.array([[*row, own.bias, 0, 0][:3] for row in own.X], dtype=object)
    return square_above(rows, np.array(own.multipliers, dtype=object)) <= own.H**2 * (1 + Fraction(1, 10**9))
