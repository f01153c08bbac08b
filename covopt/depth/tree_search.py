r"""Multipliers for the tree bound: cutting planes for three layers, then a closed family that serves every depth.

At L = 3 and a fixed c, max ⟨λ, y⟩ s.t. |⟨λ, σ(z)⟩| ≤ 1 for z ∈ B_1(c) is a linear program with one cut for each z.
The separation is exact: for each sign and each set T of rows with positive multiplier it solves min over 0 ≤ μ ≤ λ⁻
of max_{z ∈ B_1(c)} ⟨λ_T − μ, z⟩ (σ is linear on T, −σ is concave). This is a small linear program over the points of
B_1(c) found so far, to which the shallow oracle adds the next point; its dual variables give the maximising z. The
results are heuristic; :mod:`covopt.depth.tree` proves the bound from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

from covopt.certificates.conjugate import balanced
from covopt.depth.families import Child, DualTree, Family, bits, child_of, needs, rows_of
from covopt.exact.rank import NEAR, row_span
from covopt.limits import checkpoint
from covopt.oracles.cascade import exact_oracle

TIGHT = 3e-5  # relative loss allowed for a child of many sets, and for the minimum over c
# vectors of a family, and splits of each; beyond, weak but valid children cover the open sets
MOST_MEMBERS = 2000
SIDES = 8  # half the sides of a polygon around the unit circle, which loses at most two per cent


class TreeSearch:
    """The three-layer program on a few rows of a table.

    Parameters
    ----------
    lifted : ndarray of shape (n, D)
        Rows (x, β); without ``levels`` at most six or seven.
    targets : ndarray of shape (n,)
    bias : float
    free : bool
        Keep λ ⟂ 1.
    tol : float
        Relative gap of the height at which μ is accepted.
    """

    def __init__(
        self, lifted: np.ndarray, targets: np.ndarray, bias: float, *, free: bool = False, tol: float = 1e-7
    ) -> None:
        self.targets, self.bias, self.free = targets, bias, free
        basis = row_span(lifted)
        self._rows = np.ascontiguousarray(lifted @ basis.T)
        self._live = self._rows.any(axis=1)
        self._oracle = exact_oracle(np.ascontiguousarray(self._rows[self._live]), 0, n_threads=1)
        self._points: list[np.ndarray] = []
        self.hints: list[np.ndarray] = []  # activations that may attain a height
        self._c = 1.0
        self.tol = tol

    def use(self, c: float) -> None:
        """Set c_1 and drop the points of B_1 found for another value."""
        self._c, self._points = c, []

    def _attain(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return max over z ∈ B_1(c) of ⟨ν, z⟩ and a maximiser z."""
        activations, height = np.zeros(len(vector)), 0.0
        asked = np.ascontiguousarray(vector[self._live])
        found = self._oracle.price(asked, max_neurons=1).neurons if asked.any() else self._rows[:0]
        if len(found):
            neuron = found[0]
            activations = np.maximum(self._rows @ neuron, 0.0)
            value = float(vector @ activations)
            height, activations = abs(value), np.copysign(1.0, value) * activations
        shift, root = float(vector.sum()) * self.bias, np.sqrt(self._c)
        total = float(np.hypot(root * height, shift))
        if total == 0.0:
            return 0.0, np.zeros(len(vector))
        return total, root * height / total * root * activations + shift / total * self.bias

    def relax(
        self, base: np.ndarray, room: np.ndarray, enough: float = 0.0, *, whole: bool = False
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return min over 0 ≤ μ ≤ room of max_{z ∈ B_1(c)} ⟨base − μ, z⟩, the μ, and a z that attains it.

        Parameters
        ----------
        base, room : ndarray of shape (n,)
        enough : float
            Stop once the value is at most this.
        whole : bool
            Start with μ = room.
        """
        index = np.flatnonzero(room)
        mu = room.copy() if whole else np.zeros(len(base))
        value, z = self._attain(base - mu)
        if not len(index) or value <= enough:
            return value, mu, z
        best, best_mu, attained = value, mu, z
        self._points.append(z)
        program = _Epigraph(base, index, room, self._points)
        for _ in range(40):
            answer = program.solve()
            if answer is None:
                break
            height, inner, weights = answer
            if height >= best * (1.0 - self.tol) - 1e-12:
                attained = weights @ np.array(program.points)
                break
            mu = np.zeros(len(base))
            mu[index] = np.clip(inner, 0.0, room[index])
            value, z = self._attain(base - mu)
            if value < best:
                best, best_mu, attained = value, mu, z
            if value <= enough:
                break
            self._points.append(z)
            program.add([z])
        return best, best_mu, attained

    def _price(self, vector: np.ndarray, cuts: list[np.ndarray]) -> float:
        """Return h_2(ν; c) and append the maximising activations to ``cuts``."""
        worst = 0.0
        for sign, on in needs(vector):
            checkpoint()
            turned = sign * vector
            room = np.maximum(-turned, 0.0)
            whole = on == bits(turned > 0)
            value, _, z = self.relax(child_of(turned, on, 0, np.zeros(len(turned))), room, whole=whole)
            cuts.append(np.maximum(z, 0.0))
            worst = max(worst, value)
        return worst

    def multipliers(self, *, tol: float = 3e-4, max_rounds: int = 40) -> tuple[np.ndarray, float]:
        """Return λ with h_2(λ; c) ≤ 1 up to rounding and nearly maximal ⟨λ, y⟩, and that value.

        Parameters
        ----------
        tol : float
            Relative gap between the value and that of the linear program.
        max_rounds : int
        """
        y = self.targets
        n = len(y)
        start = y - y.mean() if self.free else y.copy()
        cuts: list[np.ndarray] = [np.eye(n)[i] * 1e-9 for i in range(n)]
        height = self._price(start, cuts)
        if height == 0.0 or not start @ y > 0:
            return np.zeros(n), 0.0
        best, found = float(start @ y) / height, start / height
        size = 1e6 * float(np.abs(found).max())
        for _ in range(max_rounds):
            table = np.array(cuts)
            answer = linprog(
                -y, A_ub=np.vstack([table, -table]), b_ub=np.ones(2 * len(table)),
                A_eq=np.ones((1, n)) if self.free else None, b_eq=np.zeros(1) if self.free else None,
                bounds=[(-size, size)] * n, method="highs",
            )  # fmt: skip
            if answer.x is None or -answer.fun <= best * (1.0 + tol):
                break
            # stabilisation: separate the midpoint of the best point and the solution, which gives deeper cuts
            trial = 0.5 * (found + answer.x)
            trial[np.abs(trial) < 1e-9 * np.abs(trial).max()] = 0.0
            if self.free:
                trial -= trial.mean()
            height = self._price(trial, cuts)
            if height > 0 and float(trial @ y) / height > best:
                best, found = float(trial @ y) / height, trial / height
        return found, best

    def close(
        self, roots: Sequence[np.ndarray], *, levels: int | None = None
    ) -> tuple[np.ndarray, list[Child], list[tuple[int, float]]]:
        """Return a family that contains multiples of ``roots`` and of the children of its members, chosen at c.

        Children beyond :data:`MOST_MEMBERS` are bounded as sums of unit vectors, which is valid but weak.

        Parameters
        ----------
        roots : sequence of ndarray of shape (n,)
        levels : int, optional
            Members at least so many steps from the roots get no children; a network needs depth − 2 levels.

        Returns
        -------
        members : ndarray of shape (m, n)
        children : list of Child
        places : list of (int, float)
            For each root the member of which it is a multiple, and the factor.
        """
        n = len(roots[0])
        members: list[np.ndarray] = [*np.eye(n)]
        places = [self._place(root, members) for root in roots]
        far = dict.fromkeys(range(len(members)), 0)
        children: list[Child] = []
        k = 0
        while k < len(members):
            if levels is None or far[k] < levels:
                for child in self._children(k, members, levels):
                    children.append(child)
                    far.setdefault(child.member, far[k] + 1)
            k += 1
        return np.array(members), children, places

    def _children(self, k: int, members: list[np.ndarray], levels: int | None) -> Iterator[Child]:
        """Yield the children of a member, adding their vectors to the members where they are new."""
        member = members[k]
        height = 0.0 if levels is None else max(self._height(member), self._height(-member))
        for sign in (1, -1):
            for on, maybe, mu in self._cut(sign * member, height, levels):
                child = child_of(sign * member, on, maybe, mu)
                index, scale = self._place(child, members)
                yield Child(k, sign, on, tuple(mu.tolist()), index, scale, maybe)

    def _height(self, vector: np.ndarray) -> float:
        """Return a lower bound on h_2, by alternating between the signs and the best z for them."""
        best, below = 0.0, np.maximum(-vector, 0.0)
        starts = [vector > 0, *((hint > 0) & (vector > 0) for hint in self.hints)]
        for start in dict.fromkeys(map(bits, starts)):
            on, here = start, 0.0
            while on:
                value, _, z = self.relax(child_of(vector, on, 0, np.zeros(len(vector))), below)
                if value <= max(here * (1.0 + self.tol), 0.8 * best):
                    break
                here, on = value, bits((z > 0) & (vector > 0))
                best = max(best, here)
        return best * (1.0 - 2.0 * self.tol)

    def _cut(
        self, vector: np.ndarray, height: float, levels: int | None
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Split the sets of positive rows, row by row, until half of the open rows can be charged at little loss.

        If ``levels`` is None all sets are split completely; the child of all positive rows is the member itself.
        """
        n = len(vector)
        below = np.maximum(-vector, 0.0)
        everything = bits(vector > 0)
        sizes = np.hypot(np.sqrt(self._c) * np.linalg.norm(self._rows, axis=1), self.bias)
        stack = [(0, everything)] if everything else []
        cuts = 0
        while stack:
            checkpoint()
            on, maybe = stack.pop()
            cuts += 1
            if on == everything and levels != 1:
                yield on, 0, below
                continue
            charge = 0.5 * float(np.where(rows_of(maybe, n), vector, 0.0) @ sizes)
            enough = (height * (1.0 + TIGHT) if maybe else height) - charge
            if not maybe or (levels is not None and (enough > 0.0 or cuts > MOST_MEMBERS)):
                base = child_of(vector, on, maybe, np.zeros(n))
                value, mu, _ = self.relax(base, below, enough, whole=on == everything)
                if value <= enough or not maybe or cuts > MOST_MEMBERS:
                    if not maybe:
                        height = max(height, value * (1.0 - 2.0 * self.tol))
                    yield on, maybe, _snapped(mu, below)
                    continue
            row = maybe & -maybe
            if on | maybe & ~row:
                stack.append((on, maybe & ~row))
            stack.append((on | row, maybe & ~row))

    @staticmethod
    def _place(vector: np.ndarray, members: list[np.ndarray]) -> tuple[int, float]:
        """Return the member of which a vector is a multiple, and the factor; add a new member if there is none."""
        size = float(np.abs(vector).max())
        if size == 0.0:
            return 0, 0.0
        table = np.array(members)
        norms = (table**2).sum(axis=1)
        factors = table @ vector / norms
        rests = np.abs(vector - factors[:, None] * table).max(axis=1)
        near = int(np.argmin(rests))
        if rests[near] <= NEAR * size:
            return near, float(factors[near])
        if len(members) >= MOST_MEMBERS:
            return 0, 0.0  # the remainder is the whole vector
        # scaling by powers of two is exact
        power = int(np.frexp(size)[1])
        members.append(np.ldexp(vector, -power))
        return len(members) - 1, float(np.ldexp(1.0, power))

    def tree(
        self,
        rows: Sequence[int],
        dual: np.ndarray,
        *,
        level: bool = False,
        levels: int | None = None,
    ) -> DualTree:
        """Return dual variables on some rows with a family for their heights in all directions of the outputs.

        Parameters
        ----------
        rows : sequence of int
            Indices in the table of the rows of this search.
        dual : ndarray of shape (n, k)
        level : bool
            Whether the rows of ``dual`` sum to zero; then the directions do so as well.
        levels : int, optional
            See :meth:`close`.
        """
        directions = _directions(dual, level)
        roots = [dual @ w for w in directions]
        members, children, places = self.close(roots, levels=levels)
        return DualTree(tuple(rows), dual, directions, Family(members, children), tuple(places))


class _Epigraph:
    """The linear program min t s.t. t ≥ |⟨ν_T − μ, z⟩| for the points z so far, 0 ≤ μ ≤ ν⁻; points are added."""

    def __init__(
        self, base: np.ndarray, index: np.ndarray, room: np.ndarray, points: list[np.ndarray]
    ) -> None:
        import highspy

        self.base, self.index, self.points = base, index, list[np.ndarray]()
        self._model = highspy.Highs()
        options: dict[str, Any] = {"output_flag": False, "presolve": "off", "threads": 1}
        for name, value in options.items():
            self._model.setOptionValue(name, value)
        m = len(index)
        self._model.addVars(m + 1, np.zeros(m + 1), np.r_[room[index], np.inf])
        self._model.changeColCost(m, 1.0)
        self.add(points)

    def add(self, points: list[np.ndarray]) -> None:
        """Add the constraints of points, at once: a row each took half of the time of a tree."""
        table = np.repeat(np.array(points), 2, axis=0)
        table[1::2] *= -1.0
        rows = np.pad(table[:, self.index], ((0, 0), (0, 1)), constant_values=1.0)
        n, width = rows.shape
        starts, columns = np.arange(n) * width, np.tile(np.arange(width), n)
        self._model.addRows(
            n, table @ self.base, np.full(n, np.inf), n * width, starts, columns, rows.ravel()
        )
        self.points += points

    def solve(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Return the height, μ on its rows and the dual weights of the points; None if the solver fails."""
        self._model.run()
        if self._model.modelStatusToString(self._model.getModelStatus()) != "Optimal":
            return None
        found = self._model.getSolution()
        inner = np.array(found.col_value)
        duals = np.array(found.row_dual)
        if len(duals) != 2 * len(self.points):  # the solver rejects rows with entries beyond 1e15
            return None
        return float(inner[-1]), inner[:-1], duals[::2] - duals[1::2]


def _directions(dual: np.ndarray, level: bool) -> np.ndarray:
    """Return directions of the outputs that :func:`covopt.depth.dual_trees.covering` accepts."""
    k = dual.shape[1]
    if not level:
        space = np.eye(k)
    else:  # vectors that sum to zero
        space = np.linalg.svd(np.ones((1, k)))[2][1:]
        if k == 3:  # positively oriented in the first two coordinates
            space = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    if len(space) == 2 and np.linalg.matrix_rank(dual) == 2:
        angles = np.pi * np.arange(SIDES) / SIDES
        found = np.cos(angles)[:, None] * space[0] + np.sin(angles)[:, None] * space[1]
    else:
        found = np.linalg.svd(dual @ space.T)[2] @ space
    return np.array([balanced(w) for w in found]) if level else found


def _snapped(mu: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Round the entries of μ that are nearly at a bound to that bound."""
    found = np.where(mu <= 1e-7 * room, 0.0, mu)
    return np.where(mu >= (1.0 - 1e-7) * room, room, found)
