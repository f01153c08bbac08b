#!/usr/bin/env python3
"""Check a closed proof: python covopt_check.py proof.json [table.csv]. Nothing but integers decides.

Exit code 0: the theorem that is printed holds (of the table). See docs/proofs.md, and docs/proof_file.md for names.
"""

import base64
import hashlib
import json
import os
import re
import sys
import time
from fractions import Fraction
from operator import add, mul, sub
from types import SimpleNamespace as Record

# fmt: off
MAGNITUDE = 24  # bits of a multiplier: 16, times two to the power of the first eight
LARGEST, LONGEST, WIDEST, DEEPEST = 1 << 26, 4000, 255, 400  # bytes; digits of an integer; D; cuts above a leaf
BEGINNING = re.compile(r'\{"digest":"[0-9a-f]{64}","format":"covopt-proof","network":')
INTEGERS = re.compile("(?:0|-?[1-9][0-9]*)(?: (?:0|-?[1-9][0-9]*))*")
SHARES = {"squared": 1, "huber": 2, "hinge": 0, "squared-hinge": 1}  # quarters of c^2/s in the conjugate

class Refused(Exception):
    """No proof."""

def demand(fact, reason):
    if not fact:
        raise Refused(reason)

def tried(reason, function, *arguments):
    try:
        return function(*arguments)
    except (TypeError, ValueError, RecursionError):
        raise Refused(reason) from None

def entries(content, name, names):
    demand(isinstance(content, dict) and set(content) == set(names.split()), f"{name}: must have {names}")
    return Record(**content)

def integers(text, name, length=None, least=None):
    demand(isinstance(text, str) and INTEGERS.fullmatch(text), f"{name}: no integers")
    words = text.split(" ")
    demand(length in (None, len(words)), f"{name}: {len(words)} integers, not {length}")
    demand(max(map(len, words)) <= LONGEST, f"{name}: an integer of more than {LONGEST} digits")
    values = [int(word) for word in words]
    demand(least is None or min(values) >= least, f"{name}: less than {least}")
    return values

def ratio(text, name, least=1):
    top, bottom = integers(text, name, 2)
    demand(top >= least and bottom > 0, f"{name}: no fraction with a numerator of at least {least}")
    return Fraction(top, bottom)

def matrix(rows, name, width, height):
    demand(isinstance(rows, list) and len(rows) == height, f"{name}: not {height} rows")
    return [integers(row, name, width) for row in rows]

def canonical(content):
    return json.dumps(content, sort_keys=True, separators=(",", ":"))

def read(text):
    demand(len(text) <= LARGEST and BEGINNING.match(text), "not a covopt-proof of version 2, or too large")
    content = tried("no JSON", json.loads, text)
    same = tried("no JSON", canonical, content) == text.removesuffix("\n")
    demand(same, "not in canonical form: sorted names, each once, no white space")
    file = entries(content, "the file", "digest format network proof theorem version")
    demand(type(file.version) is int and file.version == 2, "not a covopt-proof of version 2")
    sealed = hashlib.sha256(canonical(file.theorem).encode()).hexdigest()
    demand(file.digest == sealed, "the digest is not that of the theorem")
    own = entries(file.theorem, "theorem", "X Y bias bound loss output_bias x_unit y_unit")
    own.digest, own.Y, (own.bias,) = sealed, integers(own.Y, "Y"), integers(own.bias, "bias", 1)
    own.network, own.bound, own.X = file.network, ratio(own.bound, "bound", 0), matrix(own.X, "X", None, len(own.Y))
    D = len(own.X[0]) + 1
    demand({len(row) for row in own.X} == {D - 1} and D <= WIDEST, "X: rows of different or large length")
    own.x_unit, own.y_unit = ratio(own.x_unit, "x_unit"), ratio(own.y_unit, "y_unit")
    demand(own.output_bias in ("none", "penalized", "free"), "output_bias: none, penalized or free")
    if own.loss is not None:
        given = entries(own.loss, "loss", "name lambda delta weights")
        demand(isinstance(given.name, str) and given.name in SHARES, "loss: " + ", ".join(SHARES))
        own.loss, own.lam, own.delta = given.name, ratio(vars(given)["lambda"], "lambda"), ratio(given.delta, "delta")
        whole = integers(given.weights, "weights", len(own.Y), 1)
        own.weights, classes = [Fraction(weight, sum(whole)) for weight in whole], {own.y_unit * y for y in own.Y}
        demand("hinge" not in own.loss or classes <= {1, -1}, "Y: the classes of a hinge must be 1 and -1")
    proof = entries(file.proof, "proof", "H basis bits inverse multipliers scale tree")
    (own.H,), own.multipliers = integers(proof.H, "H", 1, 1), integers(proof.multipliers, "multipliers", len(own.X))
    bits = corner, own.slope_bits, normal = integers(proof.bits, "bits", 3, 1)
    demand(max(bits) <= 1000, "bits: at most 1000")
    own.normal_bits, own.corner, own.unit, own.one = normal + 1, 1 << corner, (1 << normal) - 1, (1 << bits[1]) - 1
    own.basis, own.inverse = matrix(proof.basis, "basis", D, D), matrix(proof.inverse, "inverse", D, D)
    (scale,) = integers(proof.scale, "scale", 1, 1)
    product = [[sum(c[i] * w[j] for c, w in zip(own.basis, own.inverse)) for j in range(D)] for i in range(D)]
    demand(product == [[scale * (i == j) for j in range(D)] for i in range(D)], "inverse: is none of the basis")
    data = tried("tree: no base64", base64.b64decode, proof.tree, None, True)
    demand(base64.b64encode(data).decode() == proof.tree, "tree: no base64")
    own.tree = f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}" if data else ""
    if file.network is not None:
        own.network = n = entries(file.network, "network", "hidden hidden_unit output output_bias output_unit")
        n.output, (n.shift,) = integers(n.output, "output"), integers(n.output_bias, "shift", 1)
        n.hidden, n.hidden_unit = matrix(n.hidden, "hidden", D, len(n.output)), ratio(n.hidden_unit, "hidden_unit")
        n.output_unit = ratio(n.output_unit, "output_unit")
        demand(own.output_bias != "none" or n.shift == 0, "network: an output bias that there is not")
    return own

def largest_bound(own):
    """Return the bound that H and the multipliers give: the norm is at least 2/(e H) sum L_i g(x_i)."""
    factor, total = 2 / (own.x_unit * own.H), sum(own.multipliers)
    demand(own.output_bias != "free" or own.bias * total == 0, "free output bias: the multipliers have a sum")
    square = Fraction(own.bias * total, own.H) ** 2 if own.output_bias == "penalized" else 0
    if own.loss is None:
        return factor * own.y_unit * sum(L * y for L, y in zip(own.multipliers, own.Y)) - square
    bound = -own.lam * square
    for L, whole, s in zip(own.multipliers, own.Y, own.weights):  # the minimum over t of s loss(t, y) + c t
        c, y = own.lam * factor * L, own.y_unit * whole
        inside = abs(c) <= s * own.delta if own.loss == "huber" else "hinge" not in own.loss or c * y >= 0
        demand(inside and (own.loss != "hinge" or c * y <= s), "a multiplier is outside of the loss's domain")
        bound += c * y - c * c / s * Fraction(SHARES[own.loss], 4)
    return bound

def pull(basis, r):
    """r.u = pull(r).z for u = sum of z_k times column k of the basis."""
    return [sum(map(mul, r, column)) for column in basis]

def rows_of(own):
    pairs = [(L, [abs(L) * x for x in [*row, own.bias]]) for row, L in zip(own.X, own.multipliers)]
    return [(1 if L >= 0 else -1, pull(own.basis, row)) for L, row in pairs]

def start(axis, side, corner, signed):
    """Return a facet: the box, its undecided rows, its linear part."""
    box, middle = [(-corner, corner)] * len(signed[0][1]), side * corner
    box[axis], reaches = (middle, middle), [corner * (sum(map(abs, r)) - abs(r[axis])) for _, r in signed]
    rows = [(w, r, middle * r[axis] - far, middle * r[axis] + far) for (w, r), far in zip(signed, reaches)]
    return narrowed(box, rows, [0] * len(box), axis, 0)

def half(box, rows, linear, axis, upper):
    """Return one half: the range of a row loses |r_axis| times the width that is lost, at one of its ends."""
    low, high = box[axis]
    middle, box = (low + high) // 2, box.copy()  # any number in between would do
    box[axis] = (middle, high) if upper else (low, middle)
    return narrowed(box, rows, linear, axis, middle - low if upper else middle - high)

def narrowed(box, rows, linear, axis, step):
    """Return a box with its undecided rows; those whose sign is known are in the linear part, or out."""
    left = []
    for sign, r, low, high in rows:
        moved = r[axis] * step
        lo, hi = (low + moved, high) if moved >= 0 else (low, high + moved)
        if lo >= 0:
            linear = [*map(add if sign > 0 else sub, linear, r)]
        elif hi > 0:
            left.append((sign, r, lo, hi))
    return box, left, linear

def closed(box, rows, linear, normal, slopes, own):
    """Whether A P (G(u) - H |u|) <= 0 on the box; normal and slopes in units 1/P and 1/A."""
    one, unit, scale = own.one, own.unit, own.one * own.H
    weights = [row[0] * a for row, a in zip(rows, slopes)]
    columns = zip(*[row[1] for row in rows]) if rows else [()] * len(box)
    b = sum([max(-a * lo, (one - a) * hi) for (sign, _, lo, hi), a in zip(rows, slopes) if sign > 0])
    q = [one * x + sum(map(mul, weights, column)) for x, column in zip(linear, columns)]
    values = [unit * x - scale * p for x, p in zip(q, pull(own.basis, normal))]
    total = unit * b + sum([v * (high if v > 0 else low) for v, (low, high) in zip(values, box)])
    return total <= 0 and sum(map(mul, normal, normal)) <= unit * unit

def magnitude(field):
    return (field & 65535) << (field >> 16)

def semidefinite(form):
    """Whether a quadratic form x.(form x) is shown to be positive, pivot by pivot, each rest rounded down."""
    while form:
        (pivot, *right), *rest = form
        if pivot <= 0:
            return False
        cross = [x + row[0] for x, row in zip(right, rest)]
        form = [[x + -b * c // (4 * pivot) for x, c in zip(row[1:], cross)] for row, b in zip(rest, cross)]
        for i, row in enumerate(form):
            row[i] -= len(form)
    return True

def curved(box, rows, linear, numbers, own):
    """Whether 2 A H (|u| G(u) - H |u|^2) <= 0 on the box, m times [l, h], by a quadratic form in |u|, m and z."""
    one, H, B, D, take, slopes, others = own.one, own.H, own.basis, len(box), iter(numbers), [], []
    scale, (free, *pulls, lead) = one * H, [magnitude(next(take)) for _ in range(D + 2)]
    square, edge = 2 * scale * H - free, sum([pulled * low * high for (low, high), pulled in zip(box, pulls)])
    arm = [next(take) - one // 2 for _ in range(D)]
    for sign, r, _, _ in rows:
        first = next(take)
        bend, vector = (magnitude(first), []) if sign > 0 else (1, [next(take) - one // 2 for _ in range(D)])
        if bend == 0 or sum([x * x for x in vector]) > min(first, one - first) ** 2:
            return False
        square += -scale * scale // (4 * bend) if sign > 0 else 0  # rounded down
        slopes.append(-scale if sign > 0 else 2 * H * first)
        others.append([-bend * x for x in r] if sign > 0 else [2 * H * x for x in pull(B, vector)])
    sides, turned = (list(zip(*part)) or [()] * D for part in ([r for _, r, _, _ in rows], others))
    form = [[free * x + d * (j == k) for k, x in enumerate(pull(B, c))] for j, (c, d) in enumerate(zip(B, pulls))]
    form = [[x + sum(map(mul, r, y)) for x, y in zip(row, turned)] for row, r in zip(form, sides)]
    cross = [-2 * scale * x + sum(map(mul, slopes, r)) for x, r in zip(linear, sides)]
    mixed = [-d * (low + high) - lead * x for (low, high), d, x in zip(box, pulls, pull(B, arm))]
    form = [[square, -lead * (one // 2), *cross], [0, edge, *mixed], *([0, 0, *row] for row in form)]
    return sum(map(mul, arm, arm)) <= (one // 2) ** 2 and semidefinite(form)

def fields(bits, at, sizes):
    """Return integers of so many bits from bit ``at`` on, the most significant bit first, and where they end."""
    demand(at + sum(sizes) <= len(bits), "the tree ends early")
    found = []
    for size in sizes:
        found.append(int(bits[at : at + size], 2))
        at += size
    return found, at

def widths(own, rows, token):
    D, slope = len(own.basis), [own.slope_bits]
    each = (bits for row in rows for bits in ([MAGNITUDE] if row[0] > 0 else slope * (D + 1)))
    return [*[MAGNITUDE] * (D + 2), *slope * D, *each] if token else [own.normal_bits] * D + slope * len(rows)

def check_cover(own, closed=closed, curved=curved):
    """Both signs, all facets, their boxes in preorder, the lower half first. Returns the number of leaves."""
    at, leaves, rows, D = 0, 0, rows_of(own), len(own.basis)
    for root in range(4 * D):
        sigma, axis, side = 1 - 2 * (root // (2 * D)), root // 2 % D, 1 - 2 * (root % 2)
        stack = [(*start(axis, side, own.corner, [(sigma * sign, r) for sign, r in rows]), 0)]
        while stack:
            box, undecided, linear, depth = stack.pop()
            (token,), at = fields(own.tree, at, [(D + 1).bit_length()])
            if token in (0, D + 1):
                numbers, at = fields(own.tree, at, widths(own, undecided, token))
                leaves, rule = leaves + 1, curved if token else closed
                given = [numbers] if token else [[p - own.unit for p in numbers[:D]], numbers[D:]]
                demand(rule(box, undecided, linear, *given, own), f"leaf {leaves} does not close")
            else:
                demand(token <= D and depth < DEEPEST, "the tree is too deep, or cut along no coordinate")
                stack += [(*half(box, undecided, linear, token - 1, upper), depth + 1) for upper in (True, False)]
    demand(len(own.tree) < at + 8 and "1" not in own.tree[at:], "the tree goes on after its last leaf")
    return leaves

def check(text):
    own = read(text)
    demand(own.bound <= largest_bound(own), "the bound is larger than what H gives")
    return own, check_cover(own)

def network_facts(own):
    """Return the norm of the file's network, the largest residual, and its objective (the norm without a loss)."""
    net, worst, objective = own.network, 0, Fraction(0)
    norm = net.hidden_unit**2 * sum(w * w for row in net.hidden for w in row)
    norm += net.output_unit**2 * sum(v * v for v in [*net.output, net.shift * (own.output_bias == "penalized")])
    for i, row in enumerate(own.X):
        heights = [max(0, sum(a * b for a, b in zip(w, [*row, own.bias]))) for w in net.hidden]
        inner = net.hidden_unit * sum(v * h for v, h in zip(net.output, heights)) + own.bias * net.shift
        f, y = own.x_unit * net.output_unit * inner, own.y_unit * own.Y[i]
        size, short, worst = abs(f - y), max(Fraction(0), 1 - y * f), max(worst, abs(f - y))
        if own.loss is not None:
            huber = size * size / 2 if size <= own.delta else own.delta * (size - own.delta / 2)
            losses = {"squared": size * size, "huber": huber, "hinge": short, "squared-hinge": short * short}
            objective += own.weights[i] * losses[own.loss]
    return norm, worst, norm if own.loss is None else objective + own.lam * norm

def double(value):
    return float(value) if abs(value) < (1 << 1024) - (1 << 970) else float("inf")

def same_table(own, path):
    """Whether the last column of a CSV is Y and the others are X, read as doubles, line by line."""
    with open(path, encoding="utf-8") as stream:
        lines = [line.strip().split(",") for line in stream if line.strip()]
    found = [[tried("the table has words that are no numbers", float, word) for word in line]
             for line in lines[len(lines) - len(own.X) :]]
    stated = [[*(double(own.x_unit * x) for x in row), double(own.y_unit * y)] for row, y in zip(own.X, own.Y)]
    return len(lines) <= len(own.X) + 1 and found == stated

def in_words(own):
    norm = "sum_j v_j^2 + |w_j|^2" + (" + b^2" if own.output_bias == "penalized" else "")
    shift = "" if own.output_bias == "none" else " + c b"
    network = f"f(x) = sum_j v_j max(w_j.(x, c), 0){shift}, c = {double(own.x_unit * own.bias):g}"
    points, exactly = f"{len(own.X)} points of {len(own.X[0])} inputs", f"{own.bound}"
    least = f"at least {double(own.bound):.15g}" + (f" (exactly {exactly})" if len(exactly) < 60 else "")
    if own.loss is None:
        return f"Every network {network}, of any width\nthrough the {points} has {norm}\n{least}."
    name = own.loss + (f" (delta {double(own.delta):.15g})" if own.loss == "huber" else "")
    mean = f"{'mean' if len(set(own.weights)) == 1 else 'weighted mean'} {name} loss over the {points}"
    return f"For every network {network}, of any width\nthe {mean} + {double(own.lam):.15g} ({norm})\nis {least}."

def main(arguments):
    began = time.process_time()
    try:
        demand(len(arguments) in (1, 2), "usage: covopt_check.py proof.json [table.csv]")
        demand(os.stat(arguments[0]).st_size <= LARGEST, f"the file has more than {LARGEST} bytes")
        with open(arguments[0], encoding="ascii", newline="") as stream:
            own, leaves = check(stream.read())
        demand(len(arguments) < 2 or same_table(own, arguments[1]), "the proof is about another table")
    except (Refused, OSError, ValueError) as error:
        return print(f"NO    {error}") or 1
    print(in_words(own))
    if own.network is not None:
        shown = "norm {0:.15g}" + ", residual {1:.2g}" * (not own.loss) + "; it attains {2:.15g}."
        print("The network in the file:", shown.format(*map(double, network_facts(own))))
    print(f"YES   {leaves} leaves, {time.process_time() - began:.2f} s, theorem {own.digest[:16]}")
    return 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
