"""Closed proofs with one thing changed."""

from __future__ import annotations

import base64
import copy
import random
from collections.abc import Iterator
from typing import Any

from covopt.proofs.checker.covopt_check import canonical
from covopt.proofs.theorem import sealed


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where texts are: all but the digest, which ``sealed`` sets."""
    for name, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(value, dict | list):
            yield from places(value, (*path, name))
        elif isinstance(value, str) and name != "digest":
            yield (*path, name)


def forge(content: dict[str, Any], rng: random.Random) -> str:
    """One change: of an integer, the tree, a name, or the text; the digest fits most of the time."""
    forged = copy.deepcopy(content)
    *path, name = rng.choice(list(places(forged)))
    inner = forged
    for step in path:
        inner = inner[step]
    if name == "tree":
        data = bytearray(base64.b64decode(inner[name]))
        at = rng.randrange(len(data))
        data = rng.choice(
            [data[:at], data + b"\0", data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]]
        )
        inner[name] = base64.b64encode(data).decode()
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
