r"""Enclose all minimisers and decide uniqueness: the error of a dual, and every neuron that a minimiser may use.

The proof has four steps, for one output; rows Z, targets y and costs are those of :mod:`covopt.problems.problem`.

**1. A neuron of mass m fixes its dual value to G/m.** Let the computed network have masses m_j > 0 on unit neurons
w_j with signs s_j, an offset B and residual r, and let λ be feasible with value D. For each feasible λ°
of value at least D (λ itself and every optimal dual are such)

    Σ_j m_j (1 − s_j F°(w_j)) + (ρB − 1ᵀλ°)²/2ρ  ≤  G = Σ_j m_j + ½ρB² − D + ⟨λ°, r⟩,       F°(w) = ⟨λ°, σ(Zw)⟩,

and no term is negative: 1 − s_j F°(w_j) ≤ G/m_j =: δ_j.

**2. It fixes a gradient.** Let w_j lie in the relative interior of a face of the rows' hyperplanes, at an angle of at
least θ from every row that is not zero there, P the projection onto the span of the face and Z₊ the active rows.
On the face s_j F° = ⟨g°, w⟩ with g° = s_j P Z₊ᵀλ°, at most one on the face and at least 1 − δ_j at w_j. Where
cos θ < 1 − δ_j, g° points into the face; thus ‖g°‖ ≤ 1 and ‖g° − w_j‖² ≤ 2δ_j. So two such duals differ by δ_j in
⟨g, w_j⟩ and by √(8δ_j) in g across w_j, which are linear in λ°. Let M stack these maps (and 1ᵀ with an offset), each
over its error, and R be its row space. Two such duals differ by at most e in R, the root of the number of blocks over
the least nonzero singular value of M. As ⟨λ°, r⟩ ≤ ⟨λ, r⟩ + e‖r‖, this is an inequality for e; all duals between λ
and λ° satisfy it too, so e holds as soon as it gives less than the G that it was computed with.

**3. There is an optimal dual within e of λ.** Where R is everything, every optimal dual is one. Elsewhere take an
optimal λ* and replace its part orthogonal to R by that of λ. Its value does not change if y lies in R, which is
decided in fractions. On the faces of the w_j nothing changes either. Step 4 makes it feasible.

**4. Its tight neurons are known.** They reach 1 − ε, ε = ‖Z‖e, in λ. Let T be all local maxima of λ above that. At
each of them let every direction out of its face descend with a slope of at least κ > 2‖Z‖e (on the extreme rays of
the rows that are zero there: the slope is linear between them; a slope that is zero for all duals does as well, as F
is then at most the cosine of the angle), and let its face be wider than the cap of √(2ε) + 2ε/κ on which λ reaches
1 − ε around it. Then in all closed cells around it the new dual has one maximum, on its face; a cell with a maximum
above 1 − ε elsewhere would reach into such a cap. In a dual where R is not everything each of T must be on the face
of a w_j, where step 3 says that it is at most one.

So every minimiser uses neurons of T alone, moved by at most 2‖Z‖e. Where the columns of T are independent by more
than that, there is one minimiser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, nnls

from covopt.certificates.tight import Face, TightSet, tight_set
from covopt.checks import counted
from covopt.exact.rank import FOUND, NEAR, ROUGH, exact_rank, null_space, numerical_rank
from covopt.exact.rounding import allowance, dot_bounds
from covopt.limits import HALF
from covopt.oracles.base import Oracle, affords
from covopt.problems.problem import Problem

LARGEST_SLACK = 1e-2  # largest slack of an enclosure: a dual with a larger error decides nothing


@dataclass(frozen=True)
class Enclosure:
    """Every neuron that a minimiser may use, each up to an error.

    Attributes
    ----------
    tight : TightSet
    error : float
        How far a neuron of a minimiser may be from the one of ``tight`` in its cell.
    independent : bool
        Whether the columns of ``tight`` (and of a free offset) are independent by more than that.
    needed : int
        If they are independent, the number whose mass is certainly positive: every minimiser uses them.
    """

    tight: TightSet
    error: float
    independent: bool
    needed: int


def enclose(
    problem: Problem,
    oracle: Oracle,
    dual: np.ndarray,
    network: tuple[np.ndarray, np.ndarray, np.ndarray],
    given: tuple[np.ndarray, np.ndarray],
) -> Enclosure | str:
    """Return the neurons that minimisers may use, or the reason why they cannot be enclosed.

    Parameters
    ----------
    problem : Problem
        With one output.
    oracle : Oracle
        Exact, and complete.
    dual : ndarray of shape (N, 1)
        Nearly optimal.
    network : (ndarray of shape (m, r), ndarray of shape (m, 1), ndarray of shape (1,))
        Unit neurons, weights and offset of a network through the points, nearly of least norm.
    given : (ndarray of shape (N, D), ndarray of shape (N,))
        Rows and targets in the user's units, for decisions in fractions.
    """
    rows, neurons, weights, offset = problem.rows, network[0], network[1][:, 0], float(network[2][0])
    reach = float(np.linalg.norm(rows, 2))
    faces = [Face.of(rows, w, float(np.sign(c))) for w, c in zip(neurons, weights, strict=True)]
    targets = problem.targets[:, 0]
    masses, cost = np.abs(weights), problem.network_value(*network[1:])
    moved = np.array([face.neuron for face in faces]).reshape(len(faces), rows.shape[1])
    missed = targets - offset - problem.atoms(moved) @ weights
    terms, sizes = rows.shape[1] + len(weights) + 8, np.abs(targets) + cost * (1.0 + reach)
    short = float(np.linalg.norm(missed)) + allowance(terms, float(np.linalg.norm(sizes)))

    def known(dual: np.ndarray) -> tuple[np.ndarray, float, _Known | str]:
        dual = problem.scale_dual(dual[:, None], oracle.price(dual, threshold=np.inf).upper_bound)[0][:, 0]
        value = dot_bounds(dual, targets)[0]
        if problem.has_offset and problem.offset_cost > 0:
            value -= float(dual.sum()) ** 2 / (2.0 * problem.offset_cost)
        rounding = allowance(terms, cost + float(np.abs(dual) @ sizes))
        excess = max(cost - value, 0.0) + abs(float(dual @ missed)) + rounding
        return dual, excess, _error(problem, faces, masses, excess, short, given)

    dual, excess, found = known(dual[:, 0])
    if not isinstance(found, str) and not found.everything:
        dual, excess, found = known(_inside(problem, given[0], oracle, dual, found))
    if isinstance(found, str):
        return found
    error = found.error + allowance(1, float(np.linalg.norm(dual)))
    slack = 2.0 * reach * error + 1e-12
    if slack > LARGEST_SLACK:
        return f"the dual is known to {error:.1e} only"
    tight = tight_set(problem, oracle, dual[:, None], slack=slack)
    if not tight.isolated:
        return "the tight neurons found may not be all"
    for neuron, sign in zip(tight.neurons, tight.outputs, strict=True):
        face = Face.of(rows, neuron, float(sign))
        ways = face.ways_out(rows, given[0])
        descent = -np.inf if ways is None else float((-ways @ dual).min(initial=np.inf))
        if not descent > 4.0 * reach * error + 1e-12:
            return "a tight neuron is not the strict maximum of its cells"
        cap = math.sqrt(2.0 * slack) + 2.0 * slack / descent
        if not face.angle > 2.0 * cap + 2.0 * reach * error:
            return f"a tight neuron is within {cap:.1e} of the next cell"
        if not found.everything and not any(face.same(other) for other in found.faces):
            return "a tight neuron carries no mass, and the dual is not determined"
    shift = 2.0 * reach * error + 1e-12
    independent, needed = _masses(problem, tight, offset, cost, excess, shift * reach)
    return Enclosure(tight, shift, independent, needed)


def _masses(
    problem: Problem, tight: TightSet, offset: float, cost: float, excess: float, moved: float
) -> tuple[bool, int]:
    """Return whether columns that each move by ``moved`` stay independent, and how many masses are then positive."""
    (columns, targets), doubt = tight.system(problem, np.array([offset])), 0.0
    if problem.has_offset and problem.offset_cost > 0:
        doubt = math.sqrt(2.0 * excess * len(targets) / problem.offset_cost)
    if not 0 < columns.shape[1] <= len(targets):
        return not columns.size, 0
    least = float(np.linalg.svd(columns, compute_uv=False)[-1])
    blur = math.sqrt(len(tight)) * moved + allowance(len(targets), float(np.linalg.norm(columns)))
    if not least > 2.0 * blur:
        return False, 0
    masses = np.linalg.lstsq(columns, targets)[0]
    missed = float(np.linalg.norm(targets - columns @ masses))
    wrong = 2.0 * (blur * (cost + float(np.linalg.norm(masses))) + missed + doubt) / least
    return True, int((masses[: len(tight)] > wrong).sum())


@dataclass(frozen=True)
class _Known:
    """Result of step 2: the error e, whether R is the whole space, the faces that span R, and M."""

    error: float
    everything: bool
    faces: list[Face]
    stack: np.ndarray


def _inside(
    problem: Problem, given: np.ndarray, oracle: Oracle, dual: np.ndarray, known: _Known
) -> np.ndarray:
    """Move a dual orthogonally to R, which keeps its value and the faces, until F descends on all ways out of them.

    Neurons that are tight elsewhere, as at a vertex of the optimal duals, must become slack.
    """
    rows, n = problem.rows, len(problem.rows)
    ways = [found for face in known.faces if (found := face.ways_out(rows, given)) is not None]
    slopes = np.concatenate([np.zeros((0, n)), *ways])
    if len(ways) < len(known.faces):
        return dual
    free = null_space(known.stack, FOUND)
    if not free.shape[1]:
        return dual
    tight = tight_set(problem, oracle, dual[:, None], slack=NEAR)
    signed = problem.atoms(tight.neurons).T * tight.outputs[:, None]
    faces = [Face.of(rows, w, float(sign)) for w, sign in zip(tight.neurons, tight.outputs, strict=True)]
    others = signed[[not any(face.same(own) for own in known.faces) for face in faces]]
    # the least descent, of a move of at most one in each direction
    answer = linprog(
        np.append(np.zeros(free.shape[1]), -1.0),
        A_ub=np.column_stack([np.concatenate([slopes, others]) @ free, np.ones(len(slopes) + len(others))]),
        b_ub=np.concatenate([-slopes @ dual, 1.0 - others @ dual]),
        bounds=[(-1.0, 1.0)] * free.shape[1] + [(None, None)],
        method="highs",
    )
    if answer.status != 0:
        return dual
    inner = dual + HALF * (free @ answer.x[:-1]) / math.sqrt(n)
    return inner if oracle.price(inner, threshold=np.inf).upper_bound <= 1.0 + 1e-12 else dual


def _error(
    problem: Problem,
    faces: list[Face],
    masses: np.ndarray,
    excess: float,
    short: float,
    given: tuple[np.ndarray, np.ndarray],
) -> _Known | str:
    """Return e of step 2, or the reason why there is none."""
    n = len(problem.rows)
    room = np.array([1.0 - math.cos(min(face.angle, 1.0)) if face.angle > 0 else 0.0 for face in faces])
    missing, use = excess, np.arange(len(faces))
    while missing < np.inf:  # enlarged with e until the inequality holds
        use = use[masses[use] * room[use] > missing]
        if not len(use) and not problem.offset_cost < np.inf:
            return "no neuron has enough mass to fix the dual"
        own = [faces[j] for j in use]
        stack, blocks = _stack(problem, own, masses[use], missing)
        sizes = np.linalg.svd(stack, compute_uv=False)
        rank, everything = n, True
        floor = allowance(max(stack.shape), sizes[0])
        if len(sizes) < n or sizes[-1] <= floor:
            everything = False
            dimension = _dimension(problem, own, *given) if affords(float(n) ** 5, 0.1) else None
            if dimension is None:
                return "the dual is not determined by the neurons with mass"
            rank = dimension
            if rank > len(sizes) or sizes[rank - 1] <= floor or (sizes[rank:] > floor).any():
                return "the dual is determined too weakly for doubles"
        error = math.sqrt(blocks) / (sizes[rank - 1] - floor)
        if excess + error * short < missing:
            return _Known(error, everything, own, stack)
        missing = 2.0 * (excess + error * short)
    return "the dual is determined too weakly for what the network misses"


def _stack(problem: Problem, faces: list[Face], masses: np.ndarray, excess: float) -> tuple[np.ndarray, int]:
    """Return M of step 2 and its number of blocks."""
    blocks = []
    for face, mass in zip(faces, masses, strict=True):
        gradient = face.gradient(problem.rows)
        along = face.neuron @ gradient
        across = gradient - face.neuron[:, None] * along
        blocks += [mass / excess * along[None, :], math.sqrt(mass / (8.0 * excess)) * across]
    if problem.has_offset:
        # with a free offset the sum is zero up to rounding
        free = problem.offset_cost == 0
        scale = max(masses.max(initial=1.0), 1.0) if free else math.sqrt(excess / (8.0 * problem.offset_cost))
        blocks.append(np.full((1, len(problem.rows)), scale / excess))
    return np.concatenate(blocks), len(blocks)


def _dimension(problem: Problem, faces: list[Face], rows: np.ndarray, targets: np.ndarray) -> int | None:
    """Return the dimension of R in exact arithmetic, or None if y is not in R.

    R is the image of all (w_j) with x_i·w_j = 0 for the silent rows i of face j under Σ_j diag(active_j) Z w_j.
    """
    n, width = rows.shape
    kinds = list({(face.active.tobytes(), face.silent.tobytes()): face for face in faces}.values())
    top = [rows * face.active[:, None] for face in kinds]
    if problem.has_offset:
        top.append(np.ones((n, 1)))
    constraints, fixed = [], 0
    for place, face in enumerate(kinds):
        own = rows[face.silent]
        if len(own):
            wide = np.zeros((len(own), sum(part.shape[1] for part in top)))
            wide[:, place * width : (place + 1) * width] = own
            constraints.append(wide)
            fixed += exact_rank(own)
    table = np.concatenate([np.column_stack(top), *constraints])
    right = np.concatenate([targets, np.zeros(len(table) - n)])
    whole = exact_rank(table)
    beside = exact_rank(np.column_stack([table, right]))
    return whole - fixed if beside == whole else None


@dataclass(frozen=True)
class Uniqueness:
    """Answer and reason.

    Attributes
    ----------
    unique : bool or None
        None means unknown.
    reason : str
    n_tight : int
        Number of tight (cell, sign) pairs.
    """

    unique: bool | None
    reason: str
    n_tight: int


def analyse_uniqueness(
    problem: Problem, tight: TightSet, offset: np.ndarray, enclosed: Enclosure | str
) -> Uniqueness:
    """Decide uniqueness from the neurons that minimisers may use.

    Every minimiser is supported on the tight (cell, sign) pairs of an optimal dual, each at the cell's one maximiser.
    The computed dual is not optimal: a neuron of mass m fixes its value only up to gap · cost / m, so a neuron with
    slack may be tight for a minimiser that uses it with a small mass. The answer is True only if :func:`enclose`
    bounds that error: all neurons that a minimiser may use are known, and their columns are independent by more than
    the error, so that one vector of masses is left.

    The answer is False if columns that are tight up to rounding are dependent and a linear program finds masses that
    move visibly at equal outputs (and then at equal cost, as ⟨λ, a⟩ = ±1 on every column). Otherwise it is None.

    Parameters
    ----------
    problem : Problem
    tight : TightSet
    offset : ndarray of shape (k,)
        B of a minimiser; a penalised offset is itself unique.
    enclosed : Enclosure or str
        The reason, where there is no enclosure.
    """
    if isinstance(enclosed, Enclosure) and enclosed.independent:
        return Uniqueness(
            True,
            f"linearly independent: the {counted(len(enclosed.tight), 'column')} of all neurons that a minimiser may "
            f"use (known to {enclosed.error:.1e})",
            len(enclosed.tight),
        )
    near = tight.within(NEAR)
    columns, targets = near.system(problem, offset)
    spread = None if _independent(columns) else _largest_move(columns, targets, len(near))
    if spread is not None and spread > ROUGH:
        return Uniqueness(
            False,
            f"the {len(near)} tight columns are linearly dependent, and masses can move by {spread:.1e} of the cost "
            "at equal outputs and equal cost",
            len(near),
        )
    why = (
        enclosed if isinstance(enclosed, str) else "the columns that a minimiser may use are nearly dependent"
    )
    return Uniqueness(None, f"the dual is not accurate enough to tell: {why}", len(near))


def _independent(columns: np.ndarray) -> bool:
    if columns.shape[1] > columns.shape[0]:
        return False
    values = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    return numerical_rank(values, FOUND) == len(values)


def _largest_move(columns: np.ndarray, targets: np.ndarray, m: int) -> float | None:
    """Return how much of the cost of m masses can move to columns outside of a basic solution, at equal outputs."""
    free = columns.shape[1] - m
    # neurons have the error of the dual, so outputs are matched up to a tolerance
    signed = np.column_stack([columns, -columns[:, m:]])
    try:
        basic, _ = nnls(signed, targets)
    except RuntimeError:  # no convergence
        return None
    slack = max(1e-9, 2 * float(np.abs(signed @ basic - targets).max()))
    answer = linprog(
        np.append(-1.0 * (basic[:m] == 0.0), np.zeros(free)),
        A_ub=np.concatenate([columns, -columns]),
        b_ub=np.concatenate([targets + slack, slack - targets]),
        bounds=[(0, None)] * m + [(None, None)] * free,
        method="highs",
    )
    return None if answer.status != 0 else -float(answer.fun) / (float(basic[:m].sum()) or 1.0)
