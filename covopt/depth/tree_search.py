r"""Multipliers for the tree bound: cutting planes for three layers, then a family that is closed for every depth.

At L = 3 and a fixed c, max ⟨λ, y⟩ s.t. |⟨λ, σ(z)⟩| ≤ 1 for z ∈ B_1(c) is a linear program with a cut for each z. The
oracle is exact: for each sign and each set T of rows with positive multiplier, min over 0 ≤ μ ≤ λ⁻ of
max_{z ∈ B_1(c)} ⟨λ_T − μ, z⟩ (σ is linear on T, −σ is concave), a small linear program over the points of
B_1(c) met so
far, with the shallow oracle's answer as the next point; its multipliers give the z that attains the maximum. What is
found here is checked by :mod:`covopt.depth.tree`; nothing here is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import linprog

from covopt.arrangement.highs import linear_program
from covopt.certificates.conjugate import balanced
from covopt.depth.families import Child, DualTree, Family, bits, child_of, needs, rows_of
from covopt.exact.rank import NEAR, row_span
from covopt.limits import checkpoint
from covopt.oracles.cascade import exact_oracle

WELL_BELOW = 0.95  # of a height: children that much lower are left as they are
TIGHT = 3e-5  # of a height: by that much more a child of many sets may cost, or the least over c be missed
MOST_CUTS = 2000  # of the sets of rows of a vector; then children cover what is open, valid and weak
SIDES = 8  # half a polygon about the circle: two per cent are lost at most


class TreeSearch:
    """The three-layer program on a few rows of a table.

    Parameters
    ----------
    lifted : ndarray of shape (n, D)
        Rows (x, β), at most six or seven.
    targets : ndarray of shape (n,)
    bias : float
    free : bool
        Keep λ ⟂ 1.
    tol : float
        Relative, of the height at which a μ is good enough.
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
        """Set c_1, forgetting the points of B_1 at another."""
        self._c, self._points = c, []

    def _attain(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return max over z ∈ B_1(c) of ⟨ν, z⟩ and the z."""
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
            A value below it is not improved.
        whole : bool
            Begin with μ = room.
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
            program.add(z)
        return best, best_mu, attained

    def _price(self, vector: np.ndarray, cuts: list[np.ndarray]) -> float:
        """Return h_2(ν; c) and note the activations that attain the maxima."""
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
        """Return λ with h_2(λ; c) ≤ 1 to rounding and nearly the largest ⟨λ, y⟩, and that value.

        Parameters
        ----------
        tol : float
            Relative, between the value and the linear program's.
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
            # half way between the best point and the program's: it stabilises, and its cuts are deep
            trial = 0.5 * (found + answer.x)
            trial[np.abs(trial) < 1e-9 * np.abs(trial).max()] = 0.0
            if self.free:
                trial -= trial.mean()
            height = self._price(trial, cuts)
            if height > 0 and float(trial @ y) / height > best:
                best, found = float(trial @ y) / height, trial / height
        return found, best

    def close(
        self, roots: Sequence[np.ndarray], *, levels: int | None = None, max_members: int = 600
    ) -> tuple[np.ndarray, list[Child], list[tuple[int, float]]]:
        """Return a family that holds some vectors and the children of every member, chosen at the present c.

        A child beyond ``max_members`` is matched with the sum of unit vectors alone, which is valid and weak.

        Parameters
        ----------
        roots : sequence of ndarray of shape (n,)
        levels : int, optional
            Members further from the roots get no children: a network of so many layers more than two asks for none.
        max_members : int

        Returns
        -------
        members : ndarray of shape (m, n)
        children : list of Child
        places : list of (int, float)
            The member that each root is a multiple of, and the factor.
        """
        n = len(roots[0])
        members: list[np.ndarray] = [*np.eye(n)]
        places = [self._place(root, members, max_members) for root in roots]
        far = dict.fromkeys(range(len(members)), 0)
        children: list[Child] = []
        k = 0
        while k < len(members):
            if levels is None or far[k] < levels:
                for child in self._children(k, members, max_members, levels):
                    children.append(child)
                    far.setdefault(child.member, far[k] + 1)
            k += 1
        return np.array(members), children, places

    def _children(
        self, k: int, members: list[np.ndarray], max_members: int, levels: int | None
    ) -> Iterator[Child]:
        """Yield the children of a member; those that are not members become such."""
        member = members[k]
        height = 0.0 if levels is None else max(self._height(member), self._height(-member))
        for sign in (1, -1):
            for on, maybe, mu in self._cut(sign * member, height, levels):
                child = child_of(sign * member, on, maybe, mu)
                index, scale = self._place(child, members, max_members)
                yield Child(k, sign, on, tuple(mu.tolist()), index, scale, maybe)

    def _height(self, vector: np.ndarray) -> float:
        """Return h_2 from below: signs, the best z for them, its signs, and so on."""
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
        """Cut the sets of positive rows, row by row, until half of what is open may be added to no harm.

        Where the family has to be closed, all are cut to the end, and the child of all positive rows is the member.
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
            enough = (height * (1.0 + TIGHT) if maybe else WELL_BELOW * height) - charge
            if not maybe or (levels is not None and (enough > 0.0 or cuts > MOST_CUTS)):
                base = child_of(vector, on, maybe, np.zeros(n))
                value, mu, _ = self.relax(base, below, enough, whole=on == everything)
                if value <= enough or not maybe or cuts > MOST_CUTS:
                    if not maybe:
                        height = max(height, value * (1.0 - 2.0 * self.tol))
                    yield on, maybe, _snapped(mu, below)
                    continue
            row = maybe & -maybe
            if on | maybe & ~row:
                stack.append((on, maybe & ~row))
            stack.append((on | row, maybe & ~row))

    @staticmethod
    def _place(vector: np.ndarray, members: list[np.ndarray], most: int) -> tuple[int, float]:
        """Return the member that a vector is a multiple of, and the factor; a new member where there is none."""
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
        if len(members) >= most:
            return 0, 0.0  # the rest is the whole vector
        # powers of two scale exactly
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
        max_members: int = 600,
    ) -> DualTree:
        """Return a dual on some rows with a family for its heights in all directions of the outputs.

        Parameters
        ----------
        rows : sequence of int
            Of the table: those that the search is about.
        dual : ndarray of shape (n, k)
        level : bool
            Whether its rows sum to zero, and directions that do are asked for.
        levels, max_members : int
            See :meth:`close`.
        """
        directions = _directions(dual, level)
        roots = [dual @ w for w in directions]
        members, children, places = self.close(roots, levels=levels, max_members=max_members)
        return DualTree(tuple(rows), dual, directions, Family(members, children), tuple(places))


class _Epigraph:
    """min t s.t. t ≥ |⟨ν_T − μ, z⟩| for the points z so far, 0 ≤ μ ≤ ν⁻: a program that grows by rows."""

    def __init__(
        self, base: np.ndarray, index: np.ndarray, room: np.ndarray, points: list[np.ndarray]
    ) -> None:
        self.base, self.index, self.points = base, index, list(points)
        table = np.array(points)
        rows = np.vstack([self._rows(table, 1.0), self._rows(table, -1.0)])
        heights = table @ base
        m = len(index)
        self._model = linear_program(
            np.r_[np.zeros(m), 1.0],
            rows,
            (np.r_[heights, -heights], np.full(2 * len(table), np.inf)),
            (np.zeros(m + 1), np.r_[room[index], np.inf]),
            presolve="off",
            threads=1,
        )
        self._old = len(table)

    def _rows(self, table: np.ndarray, sign: float) -> np.ndarray:
        return np.column_stack([sign * table[:, self.index], np.ones(len(table))])

    def add(self, z: np.ndarray) -> None:
        """Add a point."""
        columns = np.arange(len(self.index) + 1, dtype=np.int32)
        for sign in (1.0, -1.0):
            row = self._rows(z[None], sign)[0]
            self._model.addRow(sign * float(z @ self.base), np.inf, len(row), columns, row)
        self.points.append(z)

    def solve(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Return the height, μ on its rows and the weights of the points; None where it is not solved."""
        self._model.run()
        if self._model.modelStatusToString(self._model.getModelStatus()) != "Optimal":
            return None
        found = self._model.getSolution()
        inner = np.array(found.col_value)
        duals = np.array(found.row_dual)
        if len(duals) != 2 * len(self.points):  # a row of numbers beyond 1e15 was not taken
            return None
        old = self._old
        weights = np.empty(len(self.points))
        weights[:old] = duals[:old] - duals[old : 2 * old]
        weights[old:] = duals[2 * old :: 2] - duals[2 * old + 1 :: 2]
        return float(inner[-1]), inner[:-1], weights


def _directions(dual: np.ndarray, level: bool) -> np.ndarray:
    """Return directions of the outputs that :func:`covopt.depth.dual_trees.covering` takes."""
    k = dual.shape[1]
    if not level:
        space = np.eye(k)
    else:  # vectors that sum to zero
        space = np.linalg.svd(np.ones((1, k)))[2][1:]
        if k == 3:  # turning to the left in the first two coordinates
            space = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    if len(space) == 2 and np.linalg.matrix_rank(dual) == 2:
        angles = np.pi * np.arange(SIDES) / SIDES
        found = np.cos(angles)[:, None] * space[0] + np.sin(angles)[:, None] * space[1]
    else:
        found = np.linalg.svd(dual @ space.T)[2] @ space
    return np.array([balanced(w) for w in found]) if level else found


def _snapped(mu: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Move the entries of μ that are nearly at an end of their range to it."""
    found = np.where(mu <= 1e-7 * room, 0.0, mu)
    return np.where(mu >= (1.0 - 1e-7) * room, room, found)
