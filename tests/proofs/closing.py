"""Small closed proofs by covopt, of decimals of one digit: for tests of readers; some leaves become quadratic."""

import copy
import math
from fractions import Fraction
from functools import cache

import numpy as np

import covopt
from covopt.proofs.checker.covopt_check import canonical, curved, read, widths
from covopt.proofs.checker.faces import square_above
from covopt.proofs.closing import Entry, encoded, entries_of, in_bits

CASES = {
    "interpolation": (None, "none"), "penalized": (None, "penalized"), "free": (None, "free"),
    "squared": ("squared", "none"), "squared-penalized": ("squared", "penalized"), "huber": ("huber", "penalized"),
    "hinge": ("hinge", "free"), "squared-hinge": ("squared-hinge", "none"), "weighted": ("huber", "none"),
}  # fmt: skip


@cache
def _proved(case: str, n: int, inputs: int, seed: int) -> dict:
    loss, shift = CASES[case]
    rng = np.random.default_rng(seed)
    X = (rng.permuted(np.tile(np.arange(-20, 21), (inputs, 1)), axis=1)[:, :n].T + 0.0) / 10
    y = (rng.integers(-9, 9, n) + 0.0) / 10
    if loss is None:
        return _bent(covopt.min_norm(X, y, output_bias=shift).prove().to_dict())
    y = np.where(y > 0, "yes", "no") if "hinge" in loss else y
    weights = np.arange(1.0, n + 1) if case == "weighted" else None
    options = {"lam": 0.05, "loss": loss, "output_bias": shift, "sample_weight": weights, "tol": 1e-4}
    return _bent(covopt.fit(X, y, **options).prove().to_dict())


def make_content(case: str, n: int = 6, inputs: int = 1, seed: int = 0) -> dict:
    """The content of a file."""
    return copy.deepcopy(_proved(case, n, inputs, seed))


def implied(own) -> bool:
    """Whether |G(u)| ≤ H|u| for all u, by all faces in fractions; the rest of a proof is one formula."""
    rows = np.array([[*row, own.bias, 0, 0][:3] for row in own.X], dtype=object)
    return square_above(rows, np.array(own.multipliers, dtype=object)) <= own.H**2 * (1 + Fraction(1, 10**9))


def _bent(content: dict) -> dict:
    """Quadratic leaves wherever a plain choice of their numbers closes."""
    own, bits, last = read(canonical(content)), [], len(content["proof"]["basis"]) + 1
    for entry in entries_of(own):
        numbers = None if entry.token else _numbers(*entry.state[:3], own)
        if numbers is not None:
            sizes = widths(own, entry.state[1], last)
            entry = Entry(last, entry.state, list(zip(numbers, sizes, strict=True)))  # noqa: PLW2901
        bits.append(in_bits(entry, last.bit_length()))
    content["proof"]["tree"] = encoded("".join(bits))
    return content


def _numbers(box, rows, linear, own) -> list[int] | None:
    """Signs and sizes that rows have in the middle; the same pull to the middle in all coordinates."""
    D, centre, rest = len(box), [low + high for low, high in box], []
    point = [sum(x * y for x, y in zip(centre, row, strict=True)) for row in zip(*own.basis, strict=True)]
    length = math.isqrt(sum(x * x for x in point)) + 1
    for sign, r, _, _ in rows:
        t = sum(x * y for x, y in zip(r, centre, strict=True))
        if sign > 0:
            rest.append(_field(own.one * own.H * length // (2 * abs(t) + 1) + 1))
        else:
            rest += [own.one * (t > 0), *([own.one // 2] * D)]
    arm = [own.one // 2 - (own.one // 2 - 1) * x // length for x in point]
    for k in range(0, 200, 4):
        numbers = [_field(own.one * own.H**2), *([_field(1 << k)] * D), _field(1 << k), *arm, *rest]
        if curved(box, rows, linear, numbers, own):
            return numbers
    return None


def _field(value: int) -> int:
    places = max(value.bit_length() - 16, 0)
    return places << 16 | value >> places
