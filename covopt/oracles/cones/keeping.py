"""What searches by boxes have done, for a run that is killed: asked the same again they go on where they were.

A search is known by a hash of everything that it depends on. What is kept is no claim: a tree of boxes proves what
the checker finds that it proves (:mod:`covopt.proofs`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from covopt.files import check_archive
from covopt.oracles.cones.kernel import Stack
from covopt.oracles.cones.roots import Root, packed_stack, unpacked_stack


class Halfway(NamedTuple):
    """A search between two rounds: boxes so far, the size of a slice, points met, the parts of each root."""

    nodes: int
    budget: int
    points: list[np.ndarray]
    roots: list[list[Root]]


class Ended(NamedTuple):
    """The fields of a search that has come to its end."""

    upper_bound: float
    nodes: int
    finished: bool
    points: np.ndarray
    roots: list[np.ndarray]


class SearchKeeper:
    """Searches that have ended, and the one that is under way.

    Parameters
    ----------
    offer : callable
        Called after each round; may ask for :meth:`state`.
    state : dict, optional
        What an earlier run kept.
    """

    def __init__(self, offer: Callable[[], None], state: dict[str, Any] | None = None):
        self._offer = offer
        self._ended: dict[str, Ended] = {}
        self._running: tuple[str, Halfway] | None = None
        self._start: tuple[str, dict[str, np.ndarray]] | None = None
        if state is None:
            return
        for key, text in state["ended"].items():
            found = from_text(text)
            roots = np.split(found["trees"], np.cumsum(found["lengths"])[:-1])
            upper, nodes, finished = found["numbers"].tolist()
            self._ended[key] = Ended(upper, int(nodes), bool(finished), found["points"], roots)
        if state["running"] is not None:
            key, text = state["running"]
            self._start = key, from_text(text)

    def ended(self, key: str) -> Ended | None:
        """Return a search that has ended before."""
        return self._ended.get(key)

    def halfway(self, key: str, signs: np.ndarray, linear: np.ndarray, n_points: int) -> Halfway | None:
        """Return where an earlier run was in a search; None where it had not begun it."""
        if self._start is None or self._start[0] != key:
            return None
        arrays = self._start[1]
        self._start = None
        nodes, budget = arrays["counts"].tolist()
        r, roots = len(linear), list[list[Root]]()
        for place, owner in enumerate(arrays["owners"].tolist()):
            own = {
                name.partition(".")[2]: array
                for name, array in arrays.items()
                if name.startswith(f"{place}.")
            }
            old, cuts = own.pop("old"), own.pop("cuts")
            stack = unpacked_stack(Stack(**own), len(signs), n_points)
            sigma = 1 if owner < 2 * r else -1
            weights = np.ascontiguousarray(sigma * signs, dtype=float)
            root = Root(weights, sigma * linear, old, stack, [cuts])
            roots.extend([] for _ in range(owner + 1 - len(roots)))
            roots[owner].append(root)
        return Halfway(nodes, budget, [arrays["points"]], roots)

    def note(self, key: str, now: Halfway) -> None:
        """Remember where a search is."""
        copies = [
            [
                Root(
                    part.weights, part.linear, part.old, _copied(packed_stack(part.stack)), list(part.slices)
                )
                for part in parts
            ]
            for parts in now.roots
        ]
        self._running = key, now._replace(points=list(now.points), roots=copies)
        self._offer()

    def end(self, key: str, found: Ended) -> None:
        """Remember what a search has found."""
        self._ended[key], self._running = found, None

    def state(self) -> dict[str, Any]:
        """Return JSON types."""
        ended = {}
        for key, found in self._ended.items():
            numbers = np.array([found.upper_bound, found.nodes, found.finished], dtype=float)
            lengths = np.array([len(root) for root in found.roots])
            ended[key] = to_text(
                {
                    "numbers": numbers, "points": found.points, "lengths": lengths,
                    "trees": np.concatenate([np.zeros(0, np.uint8), *found.roots]),
                }
            )  # fmt: skip
        if self._running is None:
            return {"ended": ended, "running": None}
        key, now = self._running
        arrays = {
            "counts": np.array([now.nodes, now.budget]),
            "points": np.concatenate(now.points),
            "owners": np.array([owner for owner, parts in enumerate(now.roots) for _ in parts]),
        }
        for place, part in enumerate(part for parts in now.roots for part in parts):
            arrays |= {
                f"{place}.{name}": array
                for name, array in zip(Stack.__annotations__, part.stack, strict=True)
            }
            arrays[f"{place}.old"] = part.old
            arrays[f"{place}.cuts"] = np.concatenate([np.zeros(0, np.uint8), *part.slices])
        return {"ended": ended, "running": [key, to_text(arrays)]}


def _copied(stack: Stack) -> Stack:
    return Stack(*(array.copy() for array in stack))


_keeper: ContextVar[SearchKeeper | None] = ContextVar("keeper of searches", default=None)


@contextmanager
def keeping_searches(keeper: SearchKeeper | None) -> Iterator[None]:
    """Let the searches in the block be kept; None for not."""
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)


def keeper_of_searches() -> SearchKeeper | None:
    """Return what keeps the searches of this context."""
    return _keeper.get()


def key_of(*parts: Any) -> str:
    """Return a hash of arrays and numbers.

    Examples
    --------
    >>> key_of(np.zeros(2), 1.0) == key_of(np.zeros(2), 1.0), key_of(np.zeros(2)) == key_of(np.zeros((2, 1)))
    (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.shape}{part.dtype.str}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            found.update(f"{part!r};".encode())
    return found.hexdigest()


def to_text(arrays: dict[str, np.ndarray]) -> str:
    """Return arrays as text.

    Examples
    --------
    >>> from_text(to_text({"cuts": np.arange(3)}))["cuts"]
    array([0, 1, 2])
    """
    stream = BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return base64.b64encode(stream.getvalue()).decode()


def from_text(text: str) -> dict[str, np.ndarray]:
    """Inverse of :func:`to_text`; ValueError for what would fill the memory."""
    raw = base64.b64decode(text, validate=True)
    check_archive(BytesIO(raw))
    with np.load(BytesIO(raw), allow_pickle=False) as found:
        return dict(found)
