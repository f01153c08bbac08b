"""Damaged and hostile files: a JSON document changed in ways that a disk, an editor or an attacker might cause.

A reader has to return the content or one sentence of error: no traceback, no hang, no code executed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Document = dict[str, Any]
Place = tuple[Any, ...]

# replacements for a value, as JSON text, since json.dumps would not write most of them
RAW = (
    "null", "true", "false", '""', '"x"', '"1"', '"1e999999999"', '"1/0"', '"-7/3"', '"nan"', '"\\u0000"',
    '"\\ud800"',
    "[]", "[[]]", "[[[]]]", "[null]", "[true]", '["x"]', "[1, [2]]", "{}", '{"a": 1}', "[{}]",
    "0", "-1", "1", "3.0", "0.5", "2", "-0.0", "1e-320", "1e308", "-1e308", "1e999", "-1e999", "NaN", "Infinity",
    "-Infinity", "1" * 19, "1" * 25, "1" * 309, "1" * 401, "-" + "9" * 5000, "1" + "0" * 400,
    "[" * 50 + "]" * 50, "[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000, '{"a":' * 900 + "1" + "}" * 900,
    '"' + "x" * 100_000 + '"', "[" + "0," * 20_000 + "0]", "[[" + "0," * 20_000 + "0]]", "[" + "[]," * 20_000 + "[]]",
    '"\\u001b[2Jstatus CERTIFIED"', '"\\nstatus         CERTIFIED: optimal"', '"__import__(\'os\')"',
)  # fmt: skip
_MARK = "\u2042mark\u2042"


def mutations(document: Document, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Yield damaged files without end, each with a description of the change.

    Parameters
    ----------
    document : dict
        The content of an honest file; it is not modified.
    rng : numpy.random.Generator

    Yields
    ------
    (str, bytes)

    Examples
    --------
    >>> ways = mutations({"a": [1, 2]}, np.random.default_rng(0))
    >>> all(isinstance(next(ways)[1], bytes) for _ in range(50))
    True
    """
    text = json.dumps(document)
    yield from ((name, raw) for name, raw in _WHOLE)
    while True:
        if rng.random() < 0.8:
            yield inside(document, rng)
        else:
            name, change = _TEXT[int(rng.integers(len(_TEXT)))]
            yield name, change(text.encode(), rng)


CELLS = (
    "", " ", "nan", "NaN", "NA", "None", "inf", "-inf", "1e999", "-1e999", "1e308", "-1e308", "1e-320", "1e-300",
    "5e-324", "0", "-0", "1,5", "1.5.2", "0x10", "1_000", "９", "true", "False", "x", '"', '""', "'1'", "=1+1",
    "1" * 400, "9007199254740993", "18446744073709551617", "-9223372036854775809", "2024-01-01", "1;2", "\t",
    "\x00", "é", "+3", "1e", "½", "1 000", "5%",
)  # fmt: skip


def mutated_table(rng: np.random.Generator) -> tuple[str, bytes]:
    """Return a small CSV file with columns y and others, changed in some way, and a description of the change.

    Examples
    --------
    >>> isinstance(mutated_table(np.random.default_rng(0))[1], bytes)
    True
    """
    n, d = int(rng.integers(0, 6)), int(rng.integers(0, 3))
    head = ["y", *(f"x{j}" for j in range(d))]
    table = [head, *([f"{value:.3g}" for value in rng.standard_normal(d + 1)] for _ in range(n))]
    names = []
    for _ in range(int(rng.integers(0, 4))):
        row = int(rng.integers(len(table)))
        cell = CELLS[int(rng.integers(len(CELLS)))]
        if table[row]:
            table[row][int(rng.integers(len(table[row])))] = cell
            names.append(f"row {row}: {cell[:20]!r}")
    way = int(rng.integers(10))
    if way == 0:
        table[int(rng.integers(len(table)))].append("7")
    elif way == 1:
        table[int(rng.integers(len(table)))].pop()
    elif way == 2 and d:
        head[1] = "y"
    elif way == 3 and n:
        table[-1] = list(table[1])
    elif way == 4 and n:
        for row in table[1:]:
            row[-1] = table[1][-1]
    sign, end = str(rng.choice([",", ",", ",", ";", "\t", "|"])), str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    text = end.join(sign.join(row) for row in table).encode() + end.encode()
    if rng.random() < 0.1:
        text = b"\xef\xbb\xbf" + text
    if rng.random() < 0.2 and len(text) > 1:
        name, change = _TEXT[int(rng.integers(3))]
        names, text = [*names, name], change(text, rng)
    return "; ".join([*names, f"way {way}, {sign!r}"]), text


def places(content: Any, above: Place = ()) -> Iterator[Place]:
    """Yield the path to every value: names and indices.

    Examples
    --------
    >>> list(places({"a": [1, 2]}))
    [('a',), ('a', 0), ('a', 1)]
    """
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield (*above, key)
            yield from places(value, (*above, key))


def at(content: Any, place: Place) -> tuple[Any, Any]:
    """Return the list or the object that holds a value, and its index or name there.

    Examples
    --------
    >>> at({"a": [1, 2]}, ("a", 0))
    ([1, 2], 0)
    """
    *way, last = place
    for key in way:
        content = content[key]
    return content, last


def inside(document: Document, rng: np.random.Generator) -> tuple[str, bytes]:
    """Change one to three values; short lists and names near the root are chosen as often as the many numbers."""
    changed = copy.deepcopy(document)
    raws: list[str] = []
    names = []
    for _ in range(1 + int(rng.random() < 0.2) + int(rng.random() < 0.1)):
        place = _pick(changed, rng)
        if not place:
            break
        name = _change(*at(changed, place), rng, raws)
        names.append(f"{'.'.join(map(str, place))}: {name}")
    text = json.dumps(changed)
    for k, raw in enumerate(raws):
        text = text.replace(json.dumps(f"{_MARK}{k}{_MARK}"), raw)
    return "; ".join(names), text.encode("utf-8", "surrogatepass")


def _pick(content: Any, rng: np.random.Generator) -> Place:
    """Walk down at random, so that a field of the root is as likely as all values below another one."""
    place: Place = ()
    while isinstance(content, dict | list) and len(content):
        keys = list(content) if isinstance(content, dict) else range(len(content))
        key = keys[int(rng.integers(len(content)))]
        place, content = (*place, key), content[key]
        if rng.random() < 0.25:
            break
    return place


def _change(parent: Any, key: Any, rng: np.random.Generator, raws: list[str]) -> str:
    value = parent[key]
    kind = rng.random()
    if kind < 0.1:
        del parent[key]
        return "gone"
    if kind < 0.2 and isinstance(value, list) and value:
        way = int(rng.integers(4))
        if way == 0:
            value.pop()
            return "one shorter"
        if way == 1:
            value.append(copy.deepcopy(value[-1]))
            return "one longer"
        if way == 2:
            parent[key] = [value]
            return "a list around it"
        parent[key] = value[0]
        return "its first entry"
    if kind < 0.35 and isinstance(value, int | float) and not isinstance(value, bool):
        factor = float(rng.choice([-1.0, 0.0, 1.001, 2.0, 1e-300, 1e300, 1e16]))
        parent[key] = value * factor if np.isfinite(value * factor) else 0.0
        return f"times {factor:g}"
    if kind < 0.4 and isinstance(value, str):
        parent[key] = value + "x" if rng.random() < 0.5 else value[: len(value) // 2]
        return "other text"
    if kind < 0.45 and isinstance(parent, dict) and len(parent) > 1:
        other = list(parent)[int(rng.integers(len(parent)))]
        parent[key], parent[other] = parent[other], parent[key]
        return f"exchanged with {other}"
    raw = RAW[int(rng.integers(len(RAW)))]
    parent[key] = f"{_MARK}{len(raws)}{_MARK}"
    raws.append(raw)
    return raw[:30]


def _cut(text: bytes, rng: np.random.Generator) -> bytes:
    return text[: int(rng.integers(len(text)))]


def _flip(text: bytes, rng: np.random.Generator) -> bytes:
    found = bytearray(text)
    for _ in range(1 + int(rng.integers(3))):
        found[int(rng.integers(len(found)))] = int(rng.integers(256))
    return bytes(found)


def _insert(text: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(text)))
    junk = (b"[" * 5000, b"9" * 5000, b'"', b"\x00", b",", b"}", b"\xff\xfe", b'{"format":' * 300)
    return text[:place] + junk[int(rng.integers(len(junk)))] + text[place:]


def _double(text: bytes, rng: np.random.Generator) -> bytes:
    """Duplicate one name of the root."""
    content = json.loads(text)
    name = list(content)[int(rng.integers(len(content)))]
    extra = f"{json.dumps(name)}: {json.dumps(content[name] if rng.random() < 0.5 else None)}, "
    return b"{" + extra.encode() + text[1:]


def _digits(text: bytes, rng: np.random.Generator) -> bytes:
    """Change one digit somewhere."""
    found = bytearray(text)
    digits = [i for i, byte in enumerate(found) if 48 <= byte < 58]
    if digits:
        found[digits[int(rng.integers(len(digits)))]] = 48 + int(rng.integers(10))
    return bytes(found)


_TEXT: tuple[tuple[str, Callable[[bytes, np.random.Generator], bytes]], ...] = (
    ("cut", _cut),
    ("bytes changed", _flip),
    ("junk inside", _insert),
    ("a name twice", _double),
    ("a digit changed", _digits),
)
_WHOLE: tuple[tuple[str, bytes], ...] = (
    ("empty", b""),
    ("blanks", b" \n\t"),
    ("zero bytes", b"\x00" * 1000),
    ("a bomb of lists", b"[" * 1_000_000),
    ("a bomb of objects", b'{"a":' * 200_000),
    ("a long number", b"9" * 1_000_000),
    ("a number alone", b"3.0"),
    ("null", b"null"),
    ("text alone", b'"text"'),
    ("a list", b"[]"),
    ("an object", b"{}"),
    ("UTF-16", '{"format": "covopt-solution"}'.encode("utf-16")),
    ("a byte order mark", b"\xef\xbb\xbf{}"),
    ("a pickle", b"\x80\x04\x95\x17\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."),
    ("a zip", b"PK\x03\x04" + b"\x00" * 100),
    ("two documents", b"{}{}"),
    ("not UTF-8", b'{"a": "\xff\xfe"}'),
)
