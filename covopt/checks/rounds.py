"""What a solve that is killed goes on from: the state of its rounds, kept from time to time.

The rounds of :mod:`covopt.solvers.loop` offer themselves here after each of them; whoever called the solver decides
what is written and where (:mod:`covopt.checks.checkpoints`). A state is arrays and numbers alone. It is a start,
never a claim: bounds that are certified are computed from the raw data again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from covopt.checks.checkpoints import REST
from covopt.checks.timing import stage

State = dict[str, Any]


class Checkpoints:
    """When to keep what the rounds on one problem have.

    Parameters
    ----------
    problem : object
        Rounds on other problems, on the way to this one, are not kept.
    keep : callable
        Receives the solver's point and its state.
    every_s : float
        Seconds between two of them; more where one takes longer than that. 0 keeps every round.
    state : dict, optional
        What an earlier solve kept, for the first rounds of the same kind.

    Attributes
    ----------
    state : dict or None
        Of the last round.
    """

    def __init__(
        self, problem: Any, keep: Callable[[Any, State], None], *, every_s: float, state: State | None = None
    ):
        self.problem, self.state = problem, state
        self._keep, self._every_s, self._start = keep, every_s, state
        self._due = time.perf_counter() + every_s

    def offer(self, loop: Any) -> None:
        """Remember a round, and keep it where one is due."""
        state = loop.state()
        if state is None:
            return
        self.state = state
        began = time.perf_counter()
        if began < self._due:
            return
        with stage("checkpoint"):
            self._keep(loop.point, state)
        ended = time.perf_counter()
        self._due = max(began + self._every_s, ended + (REST * (ended - began) if self._every_s else 0.0))

    def start_for(self, loop: Any) -> State | None:
        """Return the state that rounds go on from, once."""
        state = self._start
        if state is None or state.get("kind") != type(loop).__name__:
            return None
        self._start = None
        return state


_current: ContextVar[Checkpoints | None] = ContextVar("checkpoints", default=None)


@contextmanager
def checkpointing(checkpoints: Checkpoints | None) -> Iterator[None]:
    """Let the rounds in the block be kept."""
    token = _current.set(checkpoints)
    try:
        yield
    finally:
        _current.reset(token)


def checkpoints_of(problem: Any) -> Checkpoints | None:
    """Return what keeps the rounds on a problem, None where nothing does."""
    current = _current.get()
    return current if current is not None and current.problem is problem else None


@contextmanager
def in_other_coordinates(problem: Any, inside: Any, convert: Callable[[Any], Any]) -> Iterator[None]:
    """Let rounds on a problem in other coordinates be kept as those of the problem itself.

    Parameters
    ----------
    problem, inside : object
        The problem, and the one that the rounds in the block are on.
    convert : callable
        Makes of a point of theirs one of the problem's, without changing it.
    """
    outer = checkpoints_of(problem)
    inner = None
    if outer is not None:
        inner = Checkpoints(
            inside,
            lambda point, state: outer._keep(convert(point), state),
            every_s=outer._every_s,
            state=outer._start,
        )
    try:
        with checkpointing(inner):
            yield
    finally:
        if outer is not None and inner is not None:
            outer.state, outer._start = inner.state or outer.state, inner._start


def check_shapes(state: Any, shapes: dict[str, Any]) -> None:
    """Refuse a state that is not made of such arrays and numbers.

    Parameters
    ----------
    state : dict
    shapes : dict
        Names to the shapes of arrays, or to such a dict; ``float`` for numbers. Letters in shapes are sizes that have
        to agree.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> check_shapes({"dual": np.ones(3), "gap": 0.5}, {"dual": ("N",), "gap": float})
    >>> check_shapes({"dual": np.ones(3), "u": np.ones((2, 1))}, {"dual": ("N",), "u": ("N", 1)})
    Traceback (most recent call last):
    ValueError: u has the shape (2, 1)
    """
    _check_shapes(state, shapes, {})


def _check_shapes(state: Any, shapes: dict[str, Any], sizes: dict[str, int]) -> None:
    for name, shape in shapes.items():
        value = state.get(name) if isinstance(state, dict) else None
        if isinstance(shape, dict):
            _check_shapes(value, shape, sizes)
        elif shape is float:
            if not isinstance(value, int | float):
                raise ValueError(f"{name} is no number")
        elif not isinstance(value, np.ndarray):
            raise ValueError(f"{name} is no array")
        elif len(value.shape) != len(shape) or any(
            size != (sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted)
            for size, wanted in zip(value.shape, shape, strict=True)
        ):
            raise ValueError(f"{name} has the shape {value.shape}")


# ---------------------------------------------------------------------- arrays and numbers as JSON
def to_json(state: State) -> dict[str, Any]:
    """Return a state as JSON types; arrays keep their shape.

    Examples
    --------
    >>> to_json({"kind": "Fit", "dual": np.zeros((2, 0)), "gap": float("inf")})
    {'kind': 'Fit', 'dual': {'shape': [2, 0], 'values': []}, 'gap': None}
    """
    return {name: _plain(value) for name, value in state.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return to_json(value)
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def from_json(content: dict[str, Any]) -> State:
    """Return the state that :func:`to_json` gave.

    Raises
    ------
    ValueError
        For arrays that are not finite or do not fit their shape.

    Examples
    --------
    >>> from_json(to_json({"dual": np.ones((1, 2)), "gap": 0.5}))
    {'dual': array([[1., 1.]]), 'gap': 0.5}
    """
    return {name: _value(name, value) for name, value in content.items()}


def _value(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return float("inf") if value is None else value
    if set(value) != {"shape", "values"}:
        return from_json(value)
    shape, values = value["shape"], value["values"]
    is_flag = bool(values) and isinstance(values, list) and all(isinstance(each, bool) for each in values)
    array = np.array(values, dtype=bool if is_flag else float).reshape([int(size) for size in shape])
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has entries that are not finite")
    return array
