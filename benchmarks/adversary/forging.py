"""Closed proofs with one thing changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from covopt.proofs.checker.covopt_check import canonical, read
from covopt.proofs.closing import Entry, encoded, entries_of, in_bits
from covopt.proofs.theorem import sealed


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where texts are: all but the digest, which ``sealed`` sets."""
    for name, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(value, dict | list):
            yield from places(value, (*path, name))
        elif isinstance(value, str) and name != "digest":
            yield (*path, name)


def _felled(content: dict[str, Any], rng: random.Random) -> str:
    """The tree with a node changed, lost, twice or in another place, or a number of a leaf, or cut off, or longer."""
    own = read(sealed(content))
    nodes, last = entries_of(own), len(own.basis) + 1
    at = rng.randrange(len(nodes))
    _, state, numbers = nodes[at]
    kind = rng.choice(["token", "lost", "twice", "swapped", *["number"] * 3, "short", "long"])
    if kind == "token":
        nodes[at] = Entry(rng.randrange(1 << last.bit_length()), state, numbers)
    elif kind == "lost":
        del nodes[at]
    elif kind == "twice":
        nodes.insert(at, nodes[at])
    elif kind == "swapped":
        nodes[at - 1 : at + 1] = nodes[at - 1 : at + 1][::-1]
    elif kind == "number" and numbers:
        k = rng.randrange(len(numbers))
        value, bits = numbers[k]
        values = value + 1, value - 1, 0, -1, value ^ 1 << rng.randrange(bits), rng.choice(numbers)[0]
        numbers[k] = rng.choice(values) % (1 << bits), bits
    bits = "".join(in_bits(node, last.bit_length()) for node in nodes)
    return encoded({"short": bits[: rng.randrange(1, len(bits))], "long": bits + "00000000"}.get(kind, bits))


def forge(content: dict[str, Any], rng: random.Random) -> str:
    """One change: of an integer, the tree, a name, or the text; the digest fits most of the time."""
    forged = copy.deepcopy(content)
    *path, name = ["proof", "tree"] if rng.random() < 0.3 else rng.choice(list(places(forged)))
    inner = forged
    for step in path:
        inner = inner[step]
    if name == "tree":
        inner[name] = _felled(content, rng)
    else:
        words = inner[name].split(" ")
        k = rng.randrange(len(words))
        if words[k].lstrip("-").isdigit():
            value = int(words[k])
            near = [
                value + 1,
                value - 1,
                -value,
                2 * value,
                value ^ 1 << rng.randrange(8),
                10 ** rng.choice([3, 30, 4100]),
                0,
            ]
            words[k] = rng.choice(
                [str(new) for new in near] + ["", "1.0", "0" + words[k], "+1", f"{value} 1"]
            )
        else:
            words[k] = rng.choice(["", "none", "free", "penalized", "squared", "hinge", "huber", "softmax"])
        inner[name] = " ".join(words)
    if rng.random() < 0.1:
        del inner[name]
    text = sealed(forged) if rng.random() < 0.9 else canonical(forged)
    if rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice([" ", "0", '"', "{", "\\u0041", ""]) + text[at + 1 :]
    return text
