"""Small closed proofs by covopt, of decimals of one digit: for tests of readers; some leaves become quadratic."""

import base64
import copy
import math
from fractions import Fraction
from functools import cache

import numpy as np

import covopt
from covopt.proofs.checker.covopt_check import canonical, check_cover, curved, fields, read, widths
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
        return _bent(covopt.min_norm(X, y, output_bias=shift).prove().to_dict())
    y = np.where(y > 0, "yes", "no") if "hinge" in loss else y
    weights = np.arange(1.0, n + 1) if loss == "huber" else None
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
    own, leaves, bits, at, D = read(canonical(content)), [], [], 0, len(content["proof"]["basis"])
    width = (D + 1).bit_length()
    check_cover(own, lambda *leaf: not leaves.append(leaf))  # type: ignore[func-returns-value]
    for box, rows, linear, normal, slopes, _ in leaves:
        token = None
        while token != 0:
            (token,), at = fields(own.tree, at, (1, width))
            if token:
                bits.append(f"{token:0{width}b}")
        at = fields(own.tree, at, *widths(own, rows, 0))[1]
        token, numbers = D + 1, _numbers(box, rows, linear, own)
        if numbers is None:
            token, numbers = 0, [*(p + own.unit for p in normal), *slopes]
        sizes = [size for count, size in widths(own, rows, token) for _ in range(count)]
        bits += [f"{token:0{width}b}", *(f"{x:0{size}b}" for x, size in zip(numbers, sizes, strict=True))]
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    content["proof"]["tree"] = base64.b64encode(int(text, 2).to_bytes(len(text) // 8, "big")).decode()
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
    for k in range(0, 200, 4):
        numbers = [_field(own.one * own.H**2), *([_field(1 << k)] * D), *rest]
        if curved(box, rows, linear, numbers, own):
            return numbers
    return None


def _field(value: int) -> int:
    places = max(value.bit_length() - 16, 0)
    return places << 16 | value >> places
