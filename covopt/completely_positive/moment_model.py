"""The moment relaxation of the CP-rank as one conic program, over the maximal cliques of the support graph.

Every row x of a factor has its support in a clique (an entry A_uv = 0 forbids x_u x_v > 0), so the rows fall into
groups, one per maximal clique V, and L_V(f) = Σ f(x) over a group is a linear functional on polynomials in x_V with

- Σ_V L_V(xxᵀ) = A and Σ_V L_V(1) = number of rows, which is minimised;
- M_t(L_V) ⪰ 0, and g·L_V likewise for g = √A_ii x_i − x_i² and g = A_ij − x_i x_j, both nonnegative on rows.

Further consequences of x ≥ 0 and A − xxᵀ ⪰ 0 can be added: "strong" adds L(u) ≥ 0 and L(gu) ≥ 0 for monomials u and,
at level 2, positive semidefinite moment matrices of x_i x_j·L and A⊗A ⪰ L(xxᵀ⊗xxᵀ).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement

import numpy as np
from scipy import sparse

from covopt.checks import required
from covopt.completely_positive.graphs import MOST_ROWS
from covopt.errors import BudgetError, InputError
from covopt.exact.rounding import gamma

MAX_BLOCK = 80
METHODS = ("strong", "plain")

Monomial = tuple[int, ...]
Polynomial = list[tuple[Monomial, float]]
Terms = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class MomentModel:
    """The conic program min cᵀy s.t. b − Gy in the product of a zero, a nonnegative and semidefinite cones.

    Attributes
    ----------
    cost : ndarray of shape (m,)
    G : sparse matrix of shape (rows, m)
        The rows of a semidefinite block are its upper triangle, column by column, without factors √2.
    b : ndarray of shape (rows,)
    n_equal, n_signs : int
        Rows of the first two cones.
    blocks : tuple of int
        Orders of the semidefinite blocks.
    degrees : ndarray of int, shape (m,)
    bounds : ndarray of shape (m,)
        Upper bounds, for every factor, on the moments of degree 2 and more; for degrees 0 and 1 on the moments
        divided by the number of rows of the factor.
    doubt : ndarray of shape (n_equal,)
        Bounds on the errors of the right-hand sides of the equations.
    """

    cost: np.ndarray
    G: sparse.csr_matrix
    b: np.ndarray
    n_equal: int
    n_signs: int
    blocks: tuple[int, ...]
    degrees: np.ndarray
    bounds: np.ndarray
    doubt: np.ndarray


@dataclass
class _Rows:
    """The rows of b − Gy, built one by one, and the orders of the semidefinite blocks at the end."""

    entries: list[tuple[float, int, int]] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    def add(self, terms: Terms, constant: float = 0.0) -> None:
        """Append the row of constant + Σ value · y."""
        self.entries.extend((-value, len(self.b), column) for column, value in terms)
        self.b.append(constant)

    def semidefinite(self, basis: Sequence, entry: Callable[..., tuple[Terms, float]]) -> None:
        """Append the upper triangle of a semidefinite block, column by column."""
        self.blocks.append(len(basis))
        for q, v in enumerate(basis):
            for u in basis[: q + 1]:
                self.add(*entry(u, v))


@dataclass(frozen=True)
class _Clique:
    """The moments of one clique: the column of each monomial of degree at most 2t."""

    vertices: tuple[int, ...]
    columns: dict[Monomial, int]

    def __call__(self, *factors: Monomial) -> int:
        return self.columns[tuple(sorted(sum(factors, ())))]

    def monomials(self, degree: int) -> list[Monomial]:
        return [m for d in range(degree + 1) for m in combinations_with_replacement(self.vertices, d)]


def moment_model(A: np.ndarray, level: int, method: str, tol: float = 0.0) -> MomentModel:
    r"""Return the relaxation as a conic program.

    .. math::

        \min \sum_V L_V(1) \quad\text{s.t.}\quad \sum_V L_V(xx^\top) = A,\quad M_t(L_V) \succeq 0,\quad
        M_{t-1}(gL_V) \succeq 0

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, entrywise nonnegative, positive diagonal near one.
    level : {1, 2}
        t.
    method : {"strong", "plain"}
    tol : float
        A is known up to tol·√(a_ii a_jj), its zeros exactly. The inequalities use an upper bound on all such
        matrices, entrywise and in the semidefinite order; the errors of the equations are in ``doubt``.

    Returns
    -------
    MomentModel

    Raises
    ------
    InputError
        For any other level.
    BudgetError
        For a semidefinite block of order above 80, or more than 2000 maximal cliques.

    References
    ----------
    Gribling, de Laat, Laurent (2019), doi:10.1007/s10208-018-09410-y. Korda, Laurent, Magron, Steenkamp (2024),
    doi:10.1007/s10107-023-01993-x.

    Examples
    --------
    >>> model = moment_model(np.array([[1.0, 0.5], [0.5, 1.0]]), 1, "plain")
    >>> model.G.shape, model.blocks
    ((12, 6), (3,))
    """
    if isinstance(level, bool) or level not in (1, 2):
        raise InputError(f"level must be 1 or 2 (higher moments are out of reach); received {level!r}.")
    strong, n = method == "strong", len(A)
    cliques = _cliques(A, level)
    widest = max(len(clique.monomials(level)) for clique in cliques)
    largest = max(widest, n * (n + 1) // 2 if strong and level > 1 else 0)
    if largest > MAX_BLOCK:
        raise BudgetError(
            f"the moment bound of level {level} ({method}) has a semidefinite block of order {largest}, above "
            f"{MAX_BLOCK}; take level 1 or method 'plain', or split A into the components of its support graph."
        )
    above = A if tol == 0.0 else _above(A, tol)
    roots = np.nextafter(np.nextafter(np.sqrt(np.diag(above)), np.inf), np.inf)
    rows, doubt = _Rows(), list[float]()
    for i, j in np.argwhere(np.triu(A) > 0).tolist():
        rows.add([(c((i, j)), -1.0) for c in cliques if {i, j} <= set(c.vertices)], float(A[i, j]))
        doubt.append(tol * float(roots[i] * roots[j]))
    n_equal, A = len(rows.b), above
    # g = √A_ii x_i − x_i² (i = j) or g = A_ij − x_i x_j as monomials with coefficients
    bounds: dict[tuple[int, int], Polynomial] = {
        (i, j): [((i,), float(roots[i])) if i == j else ((), float(A[i, j])), ((i, j), -1.0)]
        for clique in cliques for i, j in combinations_with_replacement(clique.vertices, 2)
    }  # fmt: skip
    for clique in cliques:
        if strong:
            for u in clique.monomials(2 * level):
                rows.add([(clique(u), 1.0)])
        if strong or level == 1:
            for pair in combinations_with_replacement(clique.vertices, 2):
                for u in clique.monomials(2 * level - 2):
                    rows.add([(clique(u, w), x) for w, x in bounds[pair]])
    n_signs = len(rows.b) - n_equal
    for clique in cliques:
        factors: list[Polynomial] = [[((), 1.0)]]
        if level > 1:
            factors += [bounds[pair] for pair in combinations_with_replacement(clique.vertices, 2)]
        if level > 1 and strong:
            factors += [[(pair, 1.0)] for pair in combinations(clique.vertices, 2)]
        for place, g in enumerate(factors):
            rows.semidefinite(
                clique.monomials(level - (place > 0)),
                lambda u, v, g=g, c=clique: ([(c(u, v, w), x) for w, x in g], 0.0),
            )
    if strong and level > 1:
        _square(rows, A, cliques)
    m = sum(len(c.columns) for c in cliques)
    cost, degrees, most = np.zeros(m), np.zeros(m, dtype=int), np.ones(m)
    for clique in cliques:
        cost[clique(())] = 1.0
        for monomial, column in clique.columns.items():
            degrees[column] = len(monomial)
            most[column] = np.prod(roots[list(monomial)]) * (1.0 + gamma(8))
    values, *places = zip(*rows.entries, strict=True)
    G = sparse.csr_matrix((values, places), shape=(len(rows.b), m))
    return MomentModel(
        cost, G, np.array(rows.b), n_equal, n_signs, tuple(rows.blocks), degrees, most, np.array(doubt)
    )


def _above(A: np.ndarray, tol: float) -> np.ndarray:
    r"""Return an upper bound on all A' with \|A' − A\| ≤ tol·√(a_ii a_jj) on the pattern, in both orders.

    The difference to A' is diagonally dominant: 2n·tol·a_ii − tol·a_ii against fewer than n entries ≤ 2·tol·√(…).
    """
    roots = np.sqrt(np.diag(A))
    # its rounding errors are covered with those of the entries of A, see rigorous_value
    return A + (1.0 + gamma(16)) * tol * np.outer(roots, roots) * ((A > 0) + 2.0 * len(A) * np.eye(len(A)))


def _cliques(A: np.ndarray, level: int) -> list[_Clique]:
    nx = required("networkx", "cp_rank", "graphs")
    graph = nx.from_numpy_array((A > 0) & ~np.eye(len(A), dtype=bool))
    found: list[_Clique] = []
    start = 0
    for vertices in nx.find_cliques(graph):
        if len(found) == MOST_ROWS:
            raise BudgetError(
                f"the support graph has more than {MOST_ROWS} maximal cliques, too many for the moment bound; "
                "use the combinatorial bounds of cp_rank."
            )
        ordered = tuple(sorted(vertices))
        names = [m for d in range(2 * level + 1) for m in combinations_with_replacement(ordered, d)]
        found.append(_Clique(ordered, {name: start + k for k, name in enumerate(names)}))
        start += len(names)
    return found


def _square(rows: _Rows, A: np.ndarray, cliques: Sequence[_Clique]) -> None:
    """Append A⊗A ⪰ Σ L(xxᵀ⊗xxᵀ) on symmetric tensors; on the others the right-hand side vanishes."""

    def entry(first: tuple[int, int], second: tuple[int, int]) -> tuple[Terms, float]:
        (i, j), (k, m) = first, second
        wanted = {i, j, k, m}
        terms = [(c((i, j, k, m)), -1.0) for c in cliques if wanted <= set(c.vertices)]
        return terms, float(A[i, k] * A[j, m] + A[i, m] * A[j, k]) / 2

    rows.semidefinite(list(combinations_with_replacement(range(len(A)), 2)), entry)
