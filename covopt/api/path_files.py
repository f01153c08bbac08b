"""Regularisation paths as files: one JSON object with every solution in it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from covopt.checks.wording import counted
from covopt.errors import SolutionFileError
from covopt.files import read_json, write_atomically
from covopt.files.schema import shown
from covopt.solution import Solution
from covopt.verification import Check, Verification, verify

FORMAT = "covopt-path"
SCHEMA = 1


def save_path(solutions: Sequence[Solution], path: str | os.PathLike[str]) -> None:
    """Write the solutions of a path to one JSON file, atomically.

    Parameters
    ----------
    solutions : sequence of Solution
    path : path-like

    Examples
    --------
    >>> import covopt, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "path.json"
    >>> save_path(covopt.path([[0.0], [1.0]], [0.0, 1.0], n_lams=2), file)
    >>> len(load_path(file))
    2
    """
    content = {"format": FORMAT, "schema": SCHEMA, "solutions": [s.to_dict() for s in solutions]}
    text = json.dumps(content, allow_nan=False) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))


def is_path_content(content: Any) -> bool:
    """Whether parsed JSON claims to be a path."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def is_path_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file can be read and claims to be a path; whatever else is wrong is for the reader to say.

    Parameters
    ----------
    path : path-like
    """
    try:
        return is_path_content(read_json(path))
    except SolutionFileError:
        return False


def load_path(path: str | os.PathLike[str]) -> list[Solution]:
    """Read a path written by :func:`save_path`.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        When the file is missing, not JSON, not a covopt path, or of a newer schema.
    """
    name = os.fspath(path)
    content = read_json(path)
    if not is_path_content(content):
        raise SolutionFileError(f"{name} is not a covopt path: its format field is not {FORMAT!r}")
    if content.get("schema") != SCHEMA:
        raise SolutionFileError(
            f"{name} has schema {shown(content.get('schema'))}; this covopt reads schema {SCHEMA}. Upgrade covopt."
        )
    parts = content.get("solutions")
    if not isinstance(parts, list) or not parts:
        raise SolutionFileError(f"{name} is a path without points; nothing can be read from it.")
    solutions = []
    for i, part in enumerate(parts):
        try:
            solutions.append(Solution.from_dict(part))
        except SolutionFileError as error:
            raise SolutionFileError(f"{name}: point {i} of the path (counting from 0): {error}") from error
    return solutions


def verify_path(
    solutions: Sequence[Solution], X: Any = None, Y: Any = None, *, exact: bool = False
) -> Verification:
    """Verify every point of a path.

    Parameters
    ----------
    solutions : sequence of Solution
        As :func:`load_path` gives them.
    X, Y : array_like, optional
        The table to check against; by default the one stored with each point.
    exact : bool
        As in :func:`covopt.verify`.

    Returns
    -------
    Verification
        One check for each λ, which lists what failed there, one for their order, and one that all of them solve the
        same problem: a path whose points come from several tables proves nothing about any of them.

    Examples
    --------
    >>> import covopt
    >>> points = covopt.path([[0.0], [1.0]], [0.0, 1.0], n_lams=2)
    >>> print(verify_path(points).summary())
    ok     λ = 0.707107: status certified, objective 0.5, lower bound 0.5
    ok     λ = 0.000707107: status certified, objective 0.00141221, lower bound 0.00141221
    ok     order: 2 points, λ falling
    ok     problem: the same for all points but for λ
    verified
    """
    checks = []
    for s in solutions:
        found = verify(s, X, Y, exact=exact)
        failed = [f"{check.name}: {check.detail}" for check in found.checks if not check.ok]
        held = f"status {s.status.code}, objective {s.objective:.6g}, lower bound {s.lower_bound:.6g}"
        name = f"λ = {s.lam:.6g}" if s.lam is not None else "interpolation"
        checks.append(Check(name, found.ok, held if found.ok else "; ".join(failed)))
    lams = [0.0 if s.lam is None else s.lam for s in solutions]
    falls = all(a > b for a, b in pairwise(lams))
    detail = f"{counted(len(lams), 'point')}, λ {'falling' if falls else 'not falling'}"
    checks.append(Check("order", falls and bool(lams), detail))
    other = [i for i, s in enumerate(solutions) if not _same_problem(s, solutions[0])]
    detail = "the same for all points but for λ"
    if other:
        detail = f"point {other[0]} (counting from 0) has another table, loss, bias or potential than point 0"
    checks.append(Check("problem", not other, detail))
    return Verification(tuple(checks), None)


def _same_problem(one: Solution, other: Solution) -> bool:
    """Whether two solutions differ in λ (and in what was found) alone."""
    if one.loss is None or other.loss is None:
        return False
    same = (one.data.bias, one.output_bias, one.potential) == (
        other.data.bias,
        other.output_bias,
        other.potential,
    )
    same = same and one.loss.parameters() == other.loss.parameters()
    pairs = (one.data.X, other.data.X), (one.data.Y, other.data.Y), (one.loss.weights, other.loss.weights)
    return same and all(np.array_equal(a, b) for a, b in pairs)
