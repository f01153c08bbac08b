"""Tables of cases as text: the sections of ``cases.txt``, an expression of Python in each line; what tests share."""

import copy
import re
import subprocess
import tracemalloc
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest


@cache
def sections():
    """Return the lines of each section by its name, without comments."""
    parts = re.split(r"^== (.*)\n", Path(__file__).with_name("cases.txt").read_text(), flags=re.MULTILINE)[1:]
    return {
        name: [line for line in text.splitlines() if line.strip() and line[0] != "#"]
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def cases(name, **names):
    """Return what the lines of a section say; ``names`` are those that they use beside np and pytest."""
    return [value for line in sections()[name] for value in cases_of(line, names)]


def cases_of(line, names):
    """Return what one line says."""
    return eval(f"[{line}]", {"np": np, "pytest": pytest, **names})


def drawn(seed, *shapes):
    """Return a generator, and standard normal arrays that it has given."""
    rng = np.random.default_rng(seed)
    return rng, *(rng.standard_normal(shape) for shape in shapes)


def normal(seed, *shapes):
    """Return standard normal arrays."""
    return drawn(seed, *shapes)[1:] if len(shapes) > 1 else drawn(seed, *shapes)[1]


def unit(vectors):
    """Return vectors over their lengths."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@contextmanager
def traced_memory():
    """Trace memory, and yield a function that says how much there was at most, in bytes."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def outside(*words, **options):
    """Run words as a process of its own, and return what became of it."""
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **options)


def values(content, *, ends=False, at=()):
    """Return values in JSON with their places, names and numbers that lead there; with ``ends`` of lists the ends."""
    if isinstance(content, dict):
        parts = content.items()
    elif isinstance(content, list):
        parts = [(k, part) for k, part in enumerate(content) if not ends or k in (0, len(content) - 1)]
    else:
        return [(at, content)]
    return [found for key, part in parts for found in values(part, ends=ends, at=(*at, key))]


def with_value(content, place, change):
    """Return a copy with another value in a place; ``change`` makes it of the one before."""
    again = inner = copy.deepcopy(content)
    *way, last = place
    for key in way:
        inner = inner[key]
    inner[last] = change(inner[last])
    return again
