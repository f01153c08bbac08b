"""Small closed proofs made without covopt's maker: for tests of readers."""

import base64
import math
from fractions import Fraction

import numpy as np

from covopt.proofs.checker.covopt_check import (
    check_cover,
    closed,
    half,
    largest_bound,
    read,
    start,
)
from covopt.proofs.theorem import sealed

CORNER, SLOPE, NORMAL = 40, 12, 26
CASES = {
    "interpolation": (None, "none"), "penalized": (None, "penalized"), "free": (None, "free"),
    "squared": ("squared", "none"), "squared-penalized": ("squared", "penalized"), "huber": ("huber", "penalized"),
    "hinge": ("hinge", "free"), "squared-hinge": ("squared-hinge", "none"),
}  # fmt: skip


def make_content(case: str, n: int = 6, inputs: int = 1, seed: int = 0) -> dict:
    """Decimals of one digit, multipliers at random, the largest bound that they give."""
    loss, shift = CASES[case]
    rng = np.random.default_rng(seed)
    X = rng.integers(-20, 20, (n, inputs))
    Y = rng.integers(-9, 9, n) if loss is None or "hinge" not in loss else 10 * rng.choice([-1, 1], n)
    L = 100 * Y + rng.integers(0, 40, n) * np.sign(Y)
    if shift == "free":  # a smaller multiplier keeps its sign
        L -= np.where(np.sign(L) == np.sign(L.sum()), L.sum() // (np.sign(L) == np.sign(L.sum())).sum(), 0)
        L[np.abs(L).argmax()] -= L.sum()
    bound = "0 1"
    theorem = {
        "X": [" ".join(map(str, row)) for row in X.tolist()], "Y": " ".join(map(str, Y.tolist())), "bias": "10",
        "bound": bound, "loss": None, "output_bias": shift, "x_unit": "1 10", "y_unit": "1 10",
    }  # fmt: skip
    if loss is not None:
        theorem["loss"] = {"name": loss, "lambda": "1 50", "delta": "3 2", "weights": " ".join(["1"] * n)}
    rows = np.abs(L)[:, None] * np.column_stack([X, np.full(n, 10)])
    u = rng.standard_normal((50_000, inputs + 1))
    u /= np.linalg.norm(u, axis=1)[:, None]
    H = math.ceil(1.01 * np.abs(np.maximum(u @ rows.T, 0) @ np.sign(L)).max())
    D = inputs + 1
    one = [" ".join(str(int(i == j)) for j in range(D)) for i in range(D)]
    proof = {
        "H": str(H), "basis": one, "bits": f"{CORNER} {SLOPE} {NORMAL}", "inverse": one,
        "multipliers": " ".join(map(str, L.tolist())), "scale": "1", "tree": "",
    }  # fmt: skip
    content = {
        "digest": "",
        "format": "covopt-proof",
        "network": None,
        "proof": proof,
        "theorem": theorem,
        "version": 2,
    }
    own = read(sealed(content))
    proof["tree"] = base64.b64encode(_tree(own)).decode()
    best = max(Fraction(0), largest_bound(own))
    theorem["bound"] = f"{best.numerator} {best.denominator}"
    assert check_cover(read(sealed(content)))
    return content


def _tree(own) -> bytes:
    bits, D = [], len(own.basis)
    width = (D + 1).bit_length()
    rows = [
        ([abs(L) * x for x in [*row, own.bias]], 1 if L >= 0 else -1)
        for row, L in zip(own.X, own.multipliers, strict=True)
    ]
    for sigma in (1, -1):
        for axis in range(D):
            for side in (1, -1):
                stack = [start(axis, side, own.corner, [(sigma * sign, row) for row, sign in rows])]
                while stack:
                    box, undecided, linear = stack.pop()
                    centre = np.array([low + high for low, high in box], dtype=float)
                    normal = [int(x * own.unit) for x in 0.999999 * centre / np.linalg.norm(centre)]
                    slopes = [hi * own.one // (hi - lo) for _, _, lo, hi in undecided]
                    if closed(box, undecided, linear, normal, slopes, own):
                        bits.append(f"{0:0{width}b}")
                        bits += [f"{p + own.unit:0{own.normal_bits}b}" for p in normal]
                        bits += [f"{a:0{own.slope_bits}b}" for a in slopes]
                        continue
                    axis_cut = max(range(D), key=lambda j: box[j][1] - box[j][0])
                    bits.append(f"{axis_cut + 1:0{width}b}")
                    stack += [half(box, undecided, linear, axis_cut, upper) for upper in (True, False)]
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")
