"""Tables of cases as text: the sections of ``cases.txt``, an expression of Python in each line."""

import re
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
    space = {"np": np, "pytest": pytest, **names}
    return [value for line in sections()[name] for value in eval(f"[{line}]", space)]
