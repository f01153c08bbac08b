#!/usr/bin/env python3
"""Check a closed proof (covopt-proof, version 2). Python's standard library only; nothing but integers decides.

    python covopt_check.py proof.json [table.csv]

Exit code 0: the theorem that is printed holds (and is about the table). 1: it is not shown.

Why it holds. The table is x = e (X_i, B), y = f Y_i. With r_i = |L_i| (X_i, B), s_i = sign L_i, G(u) = sum_i s_i
max(r_i.u, 0) and |G(u)| <= H |u| for all u, every network g(x) = sum_j v_j max(w_j.x, 0) has sum L_i g(x_i) =
e sum_j v_j G(w_j) <= e H/2 sum (v_j^2 + |w_j|^2): see ``largest_bound``. For |G(u)| <= H |u| the facets of a cube are
cut into boxes. There a row that changes sign is replaced by its chord of slope a/A plus the largest error, or by the
line a/A below it, and |u| by p.u/P, |p| <= P; what remains is linear (``closed``); or a quadratic form
bounds |u| G(u) - H |u|^2 (``curved``). docs/proof_file.md has all of it.
"""

import base64
import hashlib
import json
import os
import re
import sys
import time
from fractions import Fraction
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

def entries(content, name, names):
    demand(isinstance(content, dict) and set(content) == set(names.split()), f"{name}: must have {names}")
    return [content[each] for each in names.split()]

def integers(text, name, length=None, least=None):
    """Integers travel as decimal text: JSON's numbers are doubles in many readers."""
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
    try:
        content = json.loads(text)
        same = canonical(content) == text.removesuffix("\n")
    except (ValueError, RecursionError) as error:
        raise Refused(f"no JSON: {type(error).__name__}") from None
    demand(same, "not in canonical form: sorted names, each once, no white space")
    names = "digest format network proof theorem version"
    digest, _, network, proof, theorem, version = entries(content, "the file", names)
    demand(type(version) is int and version == 2, "not a covopt-proof of version 2")
    same = digest == hashlib.sha256(canonical(theorem).encode()).hexdigest()
    demand(same, "the digest is not that of the theorem")
    own = Record(digest=digest, network=None, loss=None)
    names = "X Y bias bound loss output_bias x_unit y_unit"
    X, Y, bias, bound, loss, own.output_bias, x_unit, y_unit = entries(theorem, "theorem", names)
    own.Y, (own.bias,), own.bound = integers(Y, "Y"), integers(bias, "bias", 1), ratio(bound, "bound", 0)
    own.X = matrix(X, "X", None, len(own.Y))
    widths = {len(row) for row in own.X}
    demand(len(widths) == 1 and max(widths) < WIDEST, "X: rows of different or large length")
    own.x_unit, own.y_unit = ratio(x_unit, "x_unit"), ratio(y_unit, "y_unit")
    demand(own.output_bias in ("none", "penalized", "free"), "output_bias: none, penalized or free")
    if loss is not None:
        own.loss, lam, delta, weights = entries(loss, "loss", "name lambda delta weights")
        demand(isinstance(own.loss, str) and own.loss in SHARES, "loss: " + ", ".join(SHARES))
        own.lam, own.delta = ratio(lam, "lambda"), ratio(delta, "delta")
        whole = integers(weights, "weights", len(own.Y), 1)
        own.weights = [Fraction(weight, sum(whole)) for weight in whole]
        classes = all(abs(own.y_unit * y) == 1 for y in own.Y)
        demand(classes or own.loss in ("squared", "huber"), "Y: the classes of a hinge must be 1 and -1")
    D, names = len(own.X[0]) + 1, "H basis bits inverse multipliers scale tree"
    H, basis, bits, inverse, multipliers, scale, tree = entries(proof, "proof", names)
    (own.H,), own.multipliers = integers(H, "H", 1, 1), integers(multipliers, "multipliers", len(own.X))
    corner, own.slope_bits, normal = integers(bits, "bits", 3, 1)
    demand(max(corner, own.slope_bits, normal) <= 1000, "bits: at most 1000")
    own.normal_bits, own.corner, own.unit = normal + 1, 1 << corner, (1 << normal) - 1
    own.one = (1 << own.slope_bits) - 1
    own.basis, own.inverse = matrix(basis, "basis", D, D), matrix(inverse, "inverse", D, D)
    (scale,) = integers(scale, "scale", 1, 1)
    product = [[sum(c[i] * w[j] for c, w in zip(own.basis, own.inverse)) for j in range(D)] for i in range(D)]
    diagonal = [[scale * (i == j) for j in range(D)] for i in range(D)]
    demand(product == diagonal, "inverse: is none of the basis")
    try:
        own.tree = base64.b64decode(tree, validate=True)
    except (TypeError, ValueError):
        raise Refused("tree: no base64") from None
    demand(base64.b64encode(own.tree).decode() == tree, "tree: no base64")
    if network is not None:
        names = "hidden hidden_unit output output_bias output_unit"
        hidden, hidden_unit, output, shift, output_unit = entries(network, "network", names)
        own.network = net = Record(output=integers(output, "output"), shift=integers(shift, "shift", 1)[0])
        net.hidden = matrix(hidden, "hidden", D, len(net.output))
        net.hidden_unit, net.output_unit = ratio(hidden_unit, "hidden_unit"), ratio(output_unit, "output_unit")
        demand(own.output_bias != "none" or net.shift == 0, "network: an output bias that there is not")
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
        inside = own.loss != "huber" or abs(c) <= s * own.delta
        inside = inside and (own.loss not in ("hinge", "squared-hinge") or c * y >= 0)
        demand(inside and (own.loss != "hinge" or c * y <= s), "a multiplier is outside of the loss's domain")
        bound += c * y - c * c / s * Fraction(SHARES[own.loss], 4)
    return bound

def pull(basis, r):
    """r.u = pull(r).z for u = sum of z_k times column k of the basis."""
    return [sum([x * y for x, y in zip(r, column)]) for column in basis]

def rows_of(own):
    pairs = [(L, [abs(L) * x for x in [*row, own.bias]]) for row, L in zip(own.X, own.multipliers)]
    return [(1 if L >= 0 else -1, pull(own.basis, row)) for L, row in pairs]

def decided(box, rows, linear):
    """Return a box without the rows whose sign is known: they are in the linear part, or out."""
    kept = []
    for row in rows:
        if row[2] >= 0:
            linear = [x + row[0] * y for x, y in zip(linear, row[1])]
        elif row[3] > 0:
            kept.append(row)
    return box, kept, linear

def start(axis, side, corner, signed):
    """Return a facet: the box, its undecided rows, its linear part."""
    box = [(-corner, corner)] * len(signed[0][1])
    box[axis] = (side * corner, side * corner)
    ends = [[sorted((x * low, x * high)) for x, (low, high) in zip(r, box)] for _, r in signed]
    ranges = [map(sum, zip(*pairs)) for pairs in ends]
    return decided(box, [(*row, *span) for row, span in zip(signed, ranges)], [0] * len(box))

def half(box, rows, linear, axis, upper):
    """Return one half: the range of a row loses |r_axis| times the width that is lost, at one of its ends."""
    low, high = box[axis]
    middle, box = (low + high) // 2, box.copy()  # any number in between would do
    step = middle - low if upper else middle - high
    box[axis] = (middle, high) if upper else (low, middle)
    moved = [(sign, r, r[axis] * step, lo, hi) for sign, r, lo, hi in rows]
    return decided(box, [(w, r, lo + t, hi) if t >= 0 else (w, r, lo, hi + t) for w, r, t, lo, hi in moved], linear)

def closed(box, rows, linear, normal, slopes, own):
    """Whether A P (G(u) - H |u|) <= 0 on the box; normal and slopes in units 1/P and 1/A."""
    one, unit = own.one, own.unit
    if sum([p * p for p in normal]) > unit * unit:
        return False
    q, b = [one * x for x in linear], 0
    for (sign, r, lo, hi), a in zip(rows, slopes):
        if a:
            weight = sign * a
            q = [x + weight * y for x, y in zip(q, r)]
        if sign > 0:
            b += max(-a * lo, (one - a) * hi)
    scale, total = one * own.H, unit * b
    for x, p, (low, high) in zip(q, pull(own.basis, normal), box):
        value = unit * x - scale * p
        total += value * (high if value > 0 else low)
    return total <= 0

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
    """Whether 2 A H (|u| G(u) - H |u|^2) <= 0 on the box, m times [l, h], by a quadratic form in |u|, m and z.

    2 A H |u| max(t, 0) <= A H |u| t + a t^2 + b |u|^2 where 4 a b >= (A H)^2; A |u| max(t, 0) >= t (c |u| + k.u)
    where |k| <= c and |k| <= A - c. Multiples of (z_j - l_j m) (h_j m - z_j) >= 0 and of |u|^2 - u.u = 0 are added.
    """
    one, H, take, D = own.one, own.H, iter(numbers), len(box)
    scale, (free, *pulls) = one * H, [magnitude(next(take)) for _ in range(D + 1)]
    square, edge, cross = 2 * scale * H - free, 0, [-2 * scale * x for x in linear]
    form = [[free * x for x in pull(own.basis, column)] for column in own.basis]
    for j, ((low, high), pulled) in enumerate(zip(box, pulls)):
        form[j][j] += pulled
        edge += pulled * low * high
    for sign, r, _, _ in rows:
        first = next(take)
        if sign > 0:
            bend = magnitude(first)
            if bend == 0:
                return False
            square += -scale * scale // (4 * bend)  # minus b, rounded up
            slope, other = -scale, [-bend * x for x in r]
        else:
            vector = [next(take) - one // 2 for _ in range(D)]
            if sum([x * x for x in vector]) > min(first, one - first) ** 2:
                return False
            slope, other = 2 * H * first, [2 * H * x for x in pull(own.basis, vector)]
        cross = [x + slope * y for x, y in zip(cross, r)]
        form = [[x + c * y for x, y in zip(row, other)] if c else row for row, c in zip(form, r)]
    mixed = [-pulled * (low + high) for (low, high), pulled in zip(box, pulls)]
    return semidefinite([[square, 0, *cross], [0, edge, *mixed], *([0, 0, *row] for row in form)])

def fields(data, at, *runs):
    """Return runs of (count, bits) unsigned integers from bit ``at`` on, the most significant bit first."""
    after = at + sum([count * bits for count, bits in runs])
    demand(after <= 8 * len(data), "the tree ends early")
    word, found = int.from_bytes(data[at // 8 : (after + 7) // 8], "big") >> (-after % 8), []
    for count, bits in reversed(runs):
        mask = (1 << bits) - 1
        for _ in range(count):
            found.append(word & mask)
            word >>= bits
    return found[::-1], after

def widths(own, rows, token):
    D = len(own.basis)
    if token == 0:
        return (D, own.normal_bits), (len(rows), own.slope_bits)
    signed = {1: [(1, MAGNITUDE)], -1: [(D + 1, own.slope_bits)]}
    return (D + 1, MAGNITUDE), *(run for row in rows for run in signed[row[0]])

def check_cover(own, closed=closed, curved=curved):
    """Both signs, all facets, their boxes in preorder, the lower half first. Returns the number of leaves."""
    data, at, leaves, rows, D = own.tree, 0, 0, rows_of(own), len(own.basis)
    width = (D + 1).bit_length()
    for root in range(4 * D):
        sigma, axis, side = 1 - 2 * (root // (2 * D)), root // 2 % D, 1 - 2 * (root % 2)
        stack = [(*start(axis, side, own.corner, [(sigma * sign, r) for sign, r in rows]), 0)]
        while stack:
            box, undecided, linear, depth = stack.pop()
            (token,), at = fields(data, at, (1, width))
            if token in (0, D + 1):
                numbers, at = fields(data, at, *widths(own, undecided, token))
                leaves, normal = leaves + 1, ([p - own.unit for p in numbers[:D]], numbers[D:])
                good = (curved if token else closed)(box, undecided, linear, *(normal, [numbers])[token > 0], own)
                demand(good, f"leaf {leaves} does not close")
            else:
                demand(token <= D and depth < DEEPEST, "the tree is too deep, or cut along no coordinate")
                stack.append((*half(box, undecided, linear, token - 1, True), depth + 1))
                stack.append((*half(box, undecided, linear, token - 1, False), depth + 1))
    rest = 8 * len(data) - at
    demand(rest < 8 and not any(fields(data, at, (1, rest))[0]), "the tree goes on after its last leaf")
    return leaves

def check(text):
    own = read(text)
    demand(own.bound <= largest_bound(own), "the bound is larger than what H gives")
    return own, check_cover(own)

def network_facts(own):
    """Return the norm of the file's network, the largest residual, and its objective (the norm without a loss)."""
    net, worst, objective = own.network, 0, Fraction(0)
    norm = net.hidden_unit**2 * sum(w * w for row in net.hidden for w in row)
    shift = net.shift if own.output_bias == "penalized" else 0
    norm += net.output_unit**2 * (sum(v * v for v in net.output) + shift**2)
    for i, (row, goal) in enumerate(zip(own.X, own.Y)):
        heights = [max(0, sum(a * b for a, b in zip(w, [*row, own.bias]))) for w in net.hidden]
        inner = net.hidden_unit * sum(v * h for v, h in zip(net.output, heights)) + own.bias * net.shift
        f, y = own.x_unit * net.output_unit * inner, own.y_unit * goal
        size, short = abs(f - y), max(Fraction(0), 1 - y * f)
        worst = max(worst, size)
        if own.loss is not None:
            huber = size * size / 2 if size <= own.delta else own.delta * (size - own.delta / 2)
            losses = {"squared": size * size, "huber": huber, "hinge": short, "squared-hinge": short * short}
            objective += own.weights[i] * losses[own.loss]
    return norm, worst, norm if own.loss is None else objective + own.lam * norm

def double(value):
    try:
        return float(value)
    except OverflowError:
        return float("inf")

def same_table(own, path):
    """Whether the last column of a CSV is Y and the others are X, read as doubles, line by line."""
    with open(path, encoding="utf-8") as stream:
        lines = [line.strip().split(",") for line in stream if line.strip()]
    try:
        found = [[float(word) for word in line] for line in lines[len(lines) - len(own.X) :]]
    except ValueError:
        raise Refused("the table has words that are no numbers") from None
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
    if len(arguments) not in (1, 2):
        return print("usage: covopt_check.py proof.json [table.csv]") or 1
    began = time.process_time()
    try:
        demand(os.stat(arguments[0]).st_size <= LARGEST, f"the file has more than {LARGEST} bytes")
        with open(arguments[0], encoding="ascii", newline="") as stream:
            own, leaves = check(stream.read())
        demand(len(arguments) < 2 or same_table(own, arguments[1]), "the proof is about another table")
    except (Refused, OSError, ValueError) as error:
        return print(f"NO    {error}") or 1
    print(in_words(own))
    if own.network is not None:
        norm, worst, objective = map(double, network_facts(own))
        print(f"The network in the file: norm {norm:.15g}, residual {worst:.2g}; it attains {objective:.15g}.")
    print(f"YES   {leaves} leaves, {time.process_time() - began:.2f} s, theorem {own.digest[:16]}")
    return 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
