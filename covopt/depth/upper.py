"""Interpolating networks of small norm: descent from shallower optima with inserted layers and from random starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from covopt.api import min_norm
from covopt.api.stopping import pass_on
from covopt.checks.log import stage
from covopt.checks.memory import gives_way, memory_left
from covopt.data import Data
from covopt.depth.descent import descend, meet, norm_of, polish
from covopt.depth.layers import Layout, as_chain
from covopt.errors import InputError
from covopt.oracles.base import MOST_KEPT
from covopt.problems.problem import PASSES


def deeper(
    layout: Layout, theta: np.ndarray, rng: np.random.Generator, *, extra: int
) -> Iterator[tuple[Layout, np.ndarray]]:
    """Yield networks of the same function with one more layer, an identity after one of the hidden layers.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    rng : numpy Generator
    extra : int
        Number of small random neurons added to each layer, as extra degrees of freedom for descent.
    """
    layers = layout.split(theta)
    for place in range(1, layout.depth):
        identity = np.eye(layout.widths[place], layout.widths[place] + (layout.bias > 0))
        chain = [w.copy() for w in (*layers[:place], identity, *layers[place:])]
        yield _widened(chain, layout, rng, extra)


def through_outputs(layout: Layout, theta: np.ndarray, X: np.ndarray) -> tuple[Layout, np.ndarray]:
    """Return a network with one more layer and the same outputs on X: f = ReLU(f) − ReLU(−f).

    Signs that no output has are left out. With fewer signs than hidden neurons this costs less than identities.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    """
    *below, last = (w.copy() for w in layout.split(theta))
    width, k = layout.widths[-2:]
    signs = np.hstack([np.eye(k), -np.eye(k)])
    hidden = signs.T @ last[:, :width]
    said = layout.forward(theta, X)[0][-1][:, :width] @ hidden.T
    seen = said.max(axis=0) > 0
    seen[0] |= not seen.any()
    hidden = np.column_stack([hidden[seen], np.zeros((seen.sum(), int(layout.bias > 0)))])
    chain = [*below, hidden, np.column_stack([signs[:, seen], last[:, width:]])]
    return Layout.of_layers(chain, layout.widths[0], layout.bias, layout.output_bias)


def balance(layout: Layout, theta: np.ndarray) -> np.ndarray:
    """Return weights of the same function and least norm under rescaling: ‖w_in‖ = ‖w_out‖ for each neuron.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    """
    theta = theta.copy()
    layers = layout.split(theta)
    for _ in range(10 * layout.depth):
        for place in range(1, layout.depth):
            into, after = layers[place - 1], layers[place][:, : layout.widths[place]]
            norms = np.linalg.norm(into, axis=1), np.linalg.norm(after, axis=0)
            used = (norms[0] > 0) & (norms[1] > 0)
            share = np.sqrt(np.divide(norms[1], norms[0], where=used, out=np.ones(len(used))))
            into *= share[:, None]
            after /= share
    return theta


def random_start(
    layout: Layout, rng: np.random.Generator, targets: float, inputs: float
) -> tuple[Layout, np.ndarray]:
    """Return random normal weights whose outputs have about the size of the targets.

    Parameters
    ----------
    layout : Layout
    rng : numpy Generator
    targets, inputs : float
        Magnitudes of Y and X.
    """
    gain = (max(targets, 1e-300) / max(inputs, 1e-300)) ** (1.0 / layout.depth)
    parts = [gain * np.sqrt(2.0 / shape[1]) * rng.standard_normal(shape) for shape in layout.shapes]
    return layout, np.concatenate([part.ravel() for part in parts])


def _widened(
    chain: list[np.ndarray], like: Layout, rng: np.random.Generator, extra: int
) -> tuple[Layout, np.ndarray]:
    """Add small random neurons to every hidden layer."""
    if extra:
        for ell in range(len(chain) - 1):
            into, after = chain[ell], chain[ell + 1]
            size = 0.05 * float(np.abs(into).max(initial=0.0) + 1e-3)
            own = after.shape[1] - len(into)
            fresh = size * rng.standard_normal((extra, into.shape[1]))
            chain[ell] = np.vstack([into, fresh])
            small = size * rng.standard_normal((len(after), extra))
            chain[ell + 1] = np.column_stack(
                [after[:, : after.shape[1] - own], small, after[:, after.shape[1] - own :]]
            )
    return Layout.of_layers(chain, like.widths[0], like.bias, like.output_bias)


KEPT = 3  # networks kept for the next depth, and the number of random starts
EXTRA = (0, 2)  # numbers of small random neurons added to a layer
NEWTON, DESCENT = 32.0, 500.0  # bytes per entry of Newton's matrix (with factors), and per weight in descent

Found = tuple[float, Layout, np.ndarray]


class UpperSearch:
    """Search for interpolating networks of small norm, for one table.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    limit : float or None
        Time limit of the whole task in seconds.
    random_state : int or None
    offer : callable
        Called with each network that is found and its source; may raise to stop the search.
    """

    def __init__(
        self,
        data: Data,
        depth: int,
        output_bias: str,
        limit: float | None,
        random_state: int | None,
        offer: Callable[[Found, str], None],
    ) -> None:
        self.data, self.depth, self.output_bias, self.limit = data, depth, output_bias, limit
        self.random_state, self._offer = random_state, offer
        self.dual: np.ndarray | None = None
        self._rng = np.random.default_rng(random_state)
        self._first: list[Found] | None = None
        self._is_said = False

    def begin(self) -> None:
        """Find one network within seconds, usually a good one: insert layers one by one at the end, with descent."""
        rng = np.random.default_rng(self.random_state)
        for constructed in self.constructed():
            self._offer(constructed, "shallow optimum, identity layers")
        kept = self._shallow()[:1]
        while kept and kept[0][1].depth < self.depth:
            _, layout, theta = kept[0]
            starts = [list(deeper(layout, theta, rng, extra=extra))[-1] for extra in EXTRA]
            starts.insert(0, through_outputs(layout, theta, self.data.X))
            found = [self.improve(*start, f"depth {layout.depth} continued") for start in starts]
            kept = distinct([entry for entries in found for entry in entries], 1)

    def go_on(self) -> None:
        """Run the continuation in the depth, then descend from random starts and improve the best."""
        self.continue_in_depth(self._shallow() or self._random(3), KEPT)
        starts = self._random_starts(self.depth, KEPT * max(1, MOST_KEPT // self.data.Y.size))
        for _, layout, theta in distinct([found for start in starts if (found := self._descended(*start))]):
            self.improve(layout, theta, "random start")

    def continue_in_depth(self, kept: list[Found], most: int) -> None:
        """Insert identity layers at every place of the best few networks and descend, until they are deep enough."""
        while kept and kept[0][1].depth < self.depth:
            found = []
            for _, layout, theta in kept:
                for extra in EXTRA:
                    for start in deeper(layout, theta, self._rng, extra=extra):
                        found.extend(self.improve(*start, f"depth {layout.depth} continued"))
            kept = distinct(found, most)

    @stage("descent")
    def _descended(self, layout: Layout, theta: np.ndarray) -> Found | None:
        """Descend to an interpolating network; return None if that fails."""
        X, Y = self.data.X, self.data.Y
        met = None if self._has_no_room(layout) else meet(layout, descend(layout, theta, X, Y), X, Y)
        return None if met is None else (norm_of(layout, met), layout, met)

    def _shallow(self) -> list[Found]:
        """Return the shallow optimum if there is one; it is computed once."""
        if self._first is None:
            self._first = self._solved()
        return self._first

    def constructed(self) -> Iterator[Found]:
        """Yield the shallow network with identity layers after its neurons or its outputs, whichever costs less."""
        X, Y = self.data.X, self.data.Y
        ways = [(layout, theta) for _, layout, theta in self._shallow()]
        if self.depth > 2:
            ways += [through_outputs(*way, X) for way in ways]
        starts = [self._deep(*way) for way in ways]
        starts.sort(key=lambda start: norm_of(*start))
        for layout, theta in starts:
            missed = float(np.abs(layout.forward(theta, X)[1][-1] - Y).max())
            no_room = self._has_no_room(layout)
            if missed <= PASSES * float(np.abs(Y).max()):
                yield norm_of(layout, theta), layout, theta
                return
            met = None if no_room else meet(layout, theta, X, Y)
            if met is not None:
                yield norm_of(layout, met), layout, met
                return

    @stage("shallow optimum")
    def _solved(self) -> list[Found]:
        try:
            solution = min_norm(
                self.data.X, self.data.Y, bias=self.data.bias, output_bias=self.output_bias,
                time_limit_s=None if self.limit is None else 0.2 * self.limit, random_state=self.random_state,
            )  # fmt: skip
        except InputError:  # opposite points: without biases two layers may not suffice
            return []
        self.dual = solution.dual
        layout, theta = Layout.of_network(as_chain(solution.network), self.data.bias, self.output_bias)
        self._first = [(norm_of(layout, theta), layout, theta)]
        pass_on(solution.status)
        return self._first

    def _deep(self, layout: Layout, theta: np.ndarray) -> tuple[Layout, np.ndarray]:
        """Insert identities after the last hidden layer up to the required depth, and balance the network."""
        while layout.depth < self.depth:
            *_, (layout, theta) = deeper(layout, theta, self._rng, extra=0)
        return layout, balance(layout, theta)

    def _random(self, depth: int) -> list[Found]:
        found = []
        for layout, theta in self._random_starts(depth, 4 * KEPT):
            found.extend(self.improve(layout, theta, "random start"))
        return distinct(found)

    def _random_starts(self, depth: int, count: int) -> Iterator[tuple[Layout, np.ndarray]]:
        data = self.data
        layout = Layout.of_width(min(data.n_samples + 2, 64), data, depth, self.output_bias)
        for _ in range(count):
            yield random_start(
                layout, self._rng, float(np.abs(data.Y).max()), float(np.abs(data.lifted).max())
            )

    def _has_no_room(self, layout: Layout) -> bool:
        """Return whether Newton's matrix (entries of Y × weights) does not fit into memory; report it once."""
        needed = (NEWTON * self.data.Y.size + DESCENT) * layout.size
        if self._is_said:
            return needed > memory_left()
        self._is_said = gives_way(needed, f"a search over {layout.size:,} weights", "such are left out")
        return self._is_said

    @stage("descent")
    def improve(self, layout: Layout, theta: np.ndarray, source: str) -> list[Found]:
        """Descend, polish and offer the network; polish the start itself if that does not interpolate."""
        X, Y = self.data.X, self.data.Y
        if self._has_no_room(layout):
            return []
        for guess in (descend(layout, theta, X, Y), theta):
            answer = polish(layout, guess, X, Y)
            if answer is not None:
                found = norm_of(*answer), *answer
                self._offer(found, source)
                return [found]
        return []

    def cheap(self) -> Found:
        """Return some interpolating network: the shallow one with identity layers, else one from a random start.

        Raises
        ------
        InputError
            If none is found.
        """
        for constructed in self.constructed():
            return constructed
        for start in self._random_starts(self.depth, 20):
            found = self._descended(*start)
            if found is not None:
                return found
        raise InputError(
            f"no network of depth {self.depth} through the points was found; without biases opposite or proportional "
            "rows may contradict each other: use bias=1, or a larger depth."
        )


def distinct(found: list[Found], most: int = KEPT) -> list[Found]:
    """Return the best few networks whose norms differ.

    Parameters
    ----------
    found : list of (float, Layout, ndarray)
        The number is the objective: smaller is better.
    most : int
    """
    kept: list[Found] = []
    for candidate in sorted(found, key=lambda entry: entry[0]):
        if all(abs(candidate[0] - other[0]) > 1e-4 * other[0] for other in kept):
            kept.append(candidate)
        if len(kept) == most:
            break
    return kept
