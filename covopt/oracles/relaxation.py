r"""Valid upper bounds on h(Λ) by semidefinite relaxation: any dimension, any number of outputs, no enumeration.

The moments of one neuron obey the products of its linear inequalities (:mod:`covopt.oracles.lifted.lift`); the
largest v·Λᵀp over all moments that do is an upper bound on h(Λ) (theory: the doubly-nonnegative route).
What is reported is recomputed from the multipliers, rounding included.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from covopt.checks.validation import check_choice, check_count, check_time_limit, check_tol
from covopt.oracles.lifted.admm import LiftedPoint
from covopt.oracles.lifted.conic import solve_lifted
from covopt.oracles.lifted.gauge_certificate import (
    GaugeCertificate,
    Multipliers,
    UnitRows,
    bound_region,
    check_gauge,
)
from covopt.oracles.lifted.lift import LEVELS
from covopt.oracles.lifted.splitting import Regions, certificate_of


@dataclass(frozen=True)
class RelaxationBound:
    """An upper bound on h(Λ) with its proof.

    Attributes
    ----------
    value : float
        As :func:`covopt.oracles.lifted.gauge_certificate.check_gauge` finds it for the certificate.
    certificate : GaugeCertificate
    n_regions : int
    n_steps : int
        Projection steps of the solver, over all rounds of splitting.
    time_s : float
    """

    value: float
    certificate: GaugeCertificate
    n_regions: int
    n_steps: int
    time_s: float


@dataclass
class _Record:
    value: float
    multipliers: Multipliers
    moment: np.ndarray = field(default_factory=lambda: np.zeros((1, 1)))
    span: np.ndarray = field(default_factory=lambda: np.zeros((1, 1)))


def relaxation_bound(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    level: str = "length",
    splits: int = 0,
    tol: float = 3e-5,
    time_limit_s: float | None = None,
    max_steps: int = 4000,
) -> RelaxationBound:
    r"""Bound h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖ from above.

    .. math::
        \max \langle \Lambda, X_{pv} \rangle \quad \text{s.t.} \quad X = C M C^\top, \; M \succeq 0, \;
        \operatorname{Tr} X_{vv} = X_{tt} = \operatorname{Tr} X_{ww} = 1, \; X_{ll'} \ge 0, \; X_{p_i q_i} = 0

    over second moments X of the lines of :class:`covopt.oracles.lifted.lift.Lift`.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)
    level : {"plain", "signed", "length", "cone"}
        Which products are used, each level with those of the one before.
    splits : int
        Rounds in which the regions with the largest bounds are divided in two.
    tol : float
        Relative residual at which the solver stops; the bound is valid at any.
    time_limit_s : float, optional
    max_steps : int
        Per round.

    Raises
    ------
    InputError
        When an option cannot be used.

    Examples
    --------
    >>> bound = relaxation_bound(np.eye(2), np.array([3.0, 4.0]))
    >>> 5.0 <= bound.value < 5.01
    True
    """
    began = time.perf_counter()
    check_choice("level", level, LEVELS)
    splits, tol, time_limit_s = (
        check_count("splits", splits, 0),
        check_tol(tol),
        check_time_limit(time_limit_s),
    )
    deadline = None if time_limit_s is None else began + time_limit_s
    matrix = dual.reshape(len(rows), -1)
    support = np.flatnonzero(np.any(matrix != 0, axis=1) & np.any(rows != 0, axis=1))
    outputs = matrix.shape[1]
    if len(support) == 0:
        return RelaxationBound(0.0, GaugeCertificate(len(rows), outputs, 1.0, [], level, [], []), 0, 0, 0.0)
    unit = UnitRows.of(rows, matrix, support)
    regions = Regions(unit.units, outputs, level)
    guess = best_of_rows(unit)
    known: dict[tuple[bytes, int], _Record] = {}
    steps = 0
    for turn in range(splits + 1):
        lifts = regions.lifts()
        keys = [lift.region.key for lift in lifts]
        todo = [i for i, key in enumerate(keys) if key not in known]

        def look(_: np.ndarray, found: list[Multipliers], todo=todo, keys=keys, lifts=lifts) -> bool:
            for i, part in zip(todo, found, strict=True):
                grown = Multipliers(guess * part.theta, guess * part.products, guess * part.cone)
                value = bound_region(lifts[i], unit.dual, grown)
                record = known.setdefault(keys[i], _Record(np.inf, grown))
                if value < record.value:
                    record.value, record.multipliers = value, grown
            return False

        point = solve_lifted(
            [lifts[i] for i in todo], dual=unit.dual / guess, tol=tol, max_steps=max_steps, deadline=deadline,
            look=look,
        )  # fmt: skip
        look(point.dual, point.multipliers)
        for i, moment, span in zip(todo, point.moments, point.spans, strict=True):
            known[keys[i]].moment, known[keys[i]].span = moment, span
        steps += point.n_steps
        records = [known[key] for key in keys]
        if turn == splits or (deadline is not None and time.perf_counter() > deadline):
            break
        worst = max(record.value for record in records)
        # regions well below the worst one need no refinement yet
        bad = [i for i, record in enumerate(records) if record.value >= worst - 0.5 * max(0.0, worst - guess)]
        everything = LiftedPoint(
            unit.dual, [], [record.moment for record in records], [record.span for record in records], steps
        )
        if not regions.split(everything, bad):
            break
    multipliers = [known[key].multipliers for key in keys]
    certificate = certificate_of(unit, support, len(rows), lifts, multipliers)
    value = check_gauge(rows, dual, certificate)
    return RelaxationBound(value, certificate, len(lifts), steps, time.perf_counter() - began)


def best_of_rows(unit: UnitRows) -> float:
    """Return the largest ‖Λᵀσ(Zw)‖ over w along the rows and against them: below h(Λ), and mostly of its order."""
    directions = np.concatenate([unit.units, -unit.units])
    values = np.maximum(directions @ unit.units.T, 0.0) @ unit.dual
    return float(np.linalg.norm(values, axis=1).max()) or unit.size
