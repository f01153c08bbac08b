"""What all entry points share: a validated table, a loss (interpolation is one), a cost of neurons, and λ."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from covopt.api.lambdas import is_chosen, largest_lambda, parse_lam
from covopt.api.run import GENERATION, Callback, Run
from covopt.api.selection import GRID, HeldOut, held_out
from covopt.checks.validation import (
    check_choice,
    check_count,
    check_output_bias,
    check_random_state,
    check_tol,
)
from covopt.data import Data
from covopt.data.scaling import Scaling, check_spans, standardise
from covopt.data.tabular import Named, to_matrix
from covopt.errors import InputError, NotCertifiedWarning
from covopt.limits import HALF
from covopt.losses import Interpolation, Loss, make_loss
from covopt.network import ReLUNetwork
from covopt.oracles.cascade import exact_oracle
from covopt.parallel import one_blas_thread
from covopt.potentials import LabelNoise, make_potential
from covopt.problems.label_noise import Whitening, check_label_noise, reduce_label_noise
from covopt.problems.problem import Problem
from covopt.problems.reduction import Reduction, reduce_data, reduce_fit
from covopt.solution import Solution
from covopt.solvers.frank_wolfe import VARIANTS, CovarianceSolver
from covopt.solvers.improve import RELAXATION
from covopt.solvers.quick import master_bytes

FRANK_WOLFE = "frank-wolfe:"
SOLVERS = (
    *GENERATION, RELAXATION, "conic:CLARABEL", "conic:SCS", "conic:MOSEK",
    *(f"{FRANK_WOLFE}{variant}" for variant in VARIANTS),
)  # fmt: skip
ROOM = (1e-140, 1e140)  # range of targets: losses compute their squares


class Task:
    """A validated table with everything that does not depend on λ.

    Parameters
    ----------
    X, Y, bias, output_bias, sample_weight, potential, solver, tol, random_state
        As in :func:`covopt.fit`.
    loss : str or Loss
        With :class:`~covopt.losses.Interpolation` networks pass through the points, λ does not matter, and ``solver``
        is one of :func:`covopt.min_norm`.
    standardised : bool
    duplicates : {"error", "mean"}
        As in :func:`covopt.min_norm`.

    Attributes
    ----------
    data, table : Data
        The table that is solved, and the one that was given.
    rounds : CovarianceSolver or None
        Frank–Wolfe solver used instead of column generation.
    effort : float
        Share of a full search that a bound may take: estimators, which fit many times, set it.
    interrupted : bool
        Whether an interrupt came while λ_max was computed or a result was being finished.
    """

    def __init__(
        self, X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, *,
        standardised=False, duplicates="error",
    ) -> None:  # fmt: skip
        self.tol = check_tol(tol)
        check_random_state(random_state)
        check_output_bias(output_bias, bias)
        self.weighing = make_potential(potential)
        self.loss = make_loss(loss)
        self.interpolates = isinstance(self.loss, Interpolation)
        check_choice("solver", solver, SOLVERS if self.interpolates else GENERATION)
        self.solver, self.output_bias, self.potential, self.random_state = (
            solver, output_bias, potential, random_state
        )  # fmt: skip
        if self.interpolates:
            self.table = Data.validate(X, Y, bias=bias, duplicates=duplicates)
        else:
            self.table = self._encoded(X, Y, sample_weight, bias)
        self.data, self.scaling = self.table, None
        if standardised:
            self.data, self.scaling = self._standardised()
        if self.interpolates or (standardised and not self.loss.is_classification):
            self.loss.encode_targets(self.data.Y, sample_weight)
        if not isinstance(self.weighing, LabelNoise):
            check_spans(self.data)
        else:
            check_label_noise(self.weighing, self.data.n_outputs, output_bias)
            if solver not in GENERATION:
                raise InputError(
                    f'solver={solver!r} is for potential="variation"; potential={potential!r} takes solver="auto"'
                )
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        self.rounds: CovarianceSolver | None = None
        if solver.startswith(FRANK_WOLFE):
            self.rounds = CovarianceSolver(solver.removeprefix(FRANK_WOLFE))
        self._oracle: Any = None
        self.largest_known: float | None = None
        self.held_out: HeldOut | None = None  # of the cross-validation that has chosen λ
        self.interrupted, self.effort = False, 1.0

    def _encoded(self, X, Y, sample_weight, bias) -> Data:
        """Bind the loss to the targets, and return the table."""
        loss = self.loss
        _, names = to_matrix("Y", Y) if not loss.is_classification else (None, None)
        targets = loss.encode_targets(aligned(X, Y), sample_weight)
        if loss.is_classification:
            loss.column = name_of(Y)
        else:
            check_size(targets)
        if loss.is_classification and loss.classes and targets.shape[1] > 1:
            names = tuple(str(label) for label in loss.classes)
        elif loss.column is not None:
            names = (loss.column,)
        if isinstance(self.weighing, LabelNoise):
            check_label_noise(self.weighing, targets.shape[1], self.output_bias)
        data = Data.validate(X, Named(targets, names) if names else targets, bias=bias, interpolates=False)
        if self.output_bias == "free" and loss.is_classification:
            present = loss.targets[loss.weights[:, 0] > 0]
            if (present == present[0]).all(axis=0).any():
                raise InputError(
                    f"loss={loss.name!r} with a free output bias has no minimum: every sample of positive "
                    'weight is (or none is) of one class; use output_bias="penalized" or "none".'
                )
        return data

    def _standardised(self) -> tuple[Data, Scaling]:
        """Return the standardised table; for interpolation, rounding must not make distinct points equal."""
        table = self.table
        if not self.interpolates:
            return standardise(table, self.loss.weights[:, 0], targets=not self.loss.is_classification)
        solved, scaling = standardise(table)
        Data.validate(
            Named(solved.X, table.feature_names), Named(solved.Y, table.target_names), bias=table.bias
        )
        return solved, scaling

    def check_start(self, start: Solution) -> None:
        """Refuse a solution of another table."""
        if not isinstance(start, Solution):
            raise InputError(f"start must be a Solution; received {type(start).__name__}.")
        same = start.data.X.shape == self.data.X.shape and start.data.bias == self.data.bias
        if not same or not np.array_equal(start.data.X, self.data.X):
            raise InputError("start is a solution of another table (X or bias differ); leave it out.")
        if start.network.output_weights.shape[1] != self.data.n_outputs:
            raise InputError("start has another number of outputs; leave it out.")

    def is_solved_by(self, found: Solution, lam: Any = None) -> bool:
        """Return whether a solution is of this problem, for one λ or any; the names of classes do not matter."""

        def said(asked: Any, loss: Loss | None) -> list[Any]:
            own = {} if loss is None else {**loss.parameters(), "classes": None, "column": None}
            data = asked.data
            return [data.X, data.Y, data.bias, asked.output_bias, asked.potential, asked.sample_weight, own]

        both = zip(said(self, self.named_loss), said(found, found.loss), strict=True)
        same = all(np.array_equal(one, other) for one, other in both)
        return same and (self.interpolates or lam is None or lam == found.lam)

    @property
    def named_loss(self) -> Loss | None:
        """The loss as solutions and certificates store it: None for interpolation."""
        return None if self.interpolates else self.loss

    def oracle(self, problem: Problem) -> Any:
        """Return the exact oracle, None without rows; it depends on the rows only, and is cached."""
        live = problem.rows.any(axis=1)
        if self._oracle is None and live.any():
            if isinstance(whitened := self.reduced(1.0)[1], Whitening):
                self._oracle = whitened.oracle()
            else:
                rows = problem.rows[live]
                self._oracle = exact_oracle(rows, problem.vector_outputs, beside=master_bytes(problem))
        return self._oracle

    def reduced(self, lam: float) -> tuple[Problem, Reduction]:
        """Return the problem in reduced units, and the reduction that maps its solutions back."""
        if isinstance(self.weighing, LabelNoise):
            return reduce_label_noise(self.data, self.output_bias, self.weighing, self.named_loss, lam)
        if self.interpolates:
            return reduce_data(self.data, self.output_bias)
        return reduce_fit(self.data, self.loss, lam, self.output_bias)

    def network(self, reduction: Reduction, neurons, weights, offset) -> ReLUNetwork:
        """Return a network of a reduced problem in the units of the table that is solved."""
        units, scaled, moved = reduction.invert_network(neurons, weights, offset)
        counts = self.output_bias != "free"
        return ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=counts
        )

    def lambda_max(self) -> float:
        """See :func:`lambda_max`."""
        found, slack = largest_lambda(self, proves=True)
        if slack > self.tol:
            warnings.warn(
                f"lambda_max is proved, not exact: no network from {found:.6g} on has a neuron, and the "
                f"smallest such λ may be {100.0 * slack / (1.0 + slack):.2g} % smaller.",
                NotCertifiedWarning,
                stacklevel=3,
            )
        return found

    def largest(self, time_limit_s: float | None = None) -> float:
        """Return the largest λ at which a local search finds a neuron, the reference of shares and grids; cached.

        It is deterministic unless the time runs out. With a label-noise potential it is λ_max, by the exact oracle.
        """
        if self.largest_known is None:
            limit = None if time_limit_s is None else HALF * time_limit_s
            self.largest_known, _ = largest_lambda(self, limit)
        return self.largest_known

    def strength(self, lam: Any, time_limit_s: float | None = None) -> float:
        """Return λ from a number, a share of λ_max (``"0.1max"``), or cross-validation (``"cv"``).

        If λ_max is 0, the best constant is optimal for every λ; then the share itself is λ.
        """
        if is_chosen(lam):
            return self.chosen(None if time_limit_s is None else HALF * time_limit_s).best
        value, relative = parse_lam(lam)
        return value * (self.largest(time_limit_s) or 1.0) if relative else value

    def strengths(self, lam: Any, time_limit_s: float | None = None) -> Any:
        """Return one λ or a list, with shares of λ_max and ``"cv"`` turned into numbers; numbers stay as they are."""
        if isinstance(lam, list | tuple):
            return [self.strengths(one, time_limit_s) for one in lam]
        return self.strength(lam, time_limit_s) if isinstance(lam, str) else lam

    def chosen(self, time_limit_s: float | None = None) -> HeldOut:
        """Cross-validate over a grid of λ; return the losses and scores."""
        if self.potential != "variation":
            raise InputError(f'lam="cv" is for potential="variation"; received potential={self.potential!r}.')
        grid = GRID * (self.largest(time_limit_s) or 1.0)
        found = held_out(self, grid, time_limit_s=time_limit_s)
        if self.interrupted:
            raise KeyboardInterrupt
        self.held_out = found
        if found is None:
            raise InputError(
                f'lam="cv": cross-validation takes longer than the {time_limit_s:.2g} s that it may; give a longer '
                "time limit, or lam as a number or a share of λ_max."
            )
        return found

    def grid(self, n_lams: int, eps: float, time_limit_s: float | None = None) -> np.ndarray:
        """Return the geometric grid from λ_max down; computing λ_max may take part of the time."""
        n_lams = check_count("n_lams", n_lams)
        eps = check_tol(eps, "eps")
        top = self.largest(time_limit_s)
        if top == 0.0:
            raise InputError("the best constant is optimal for every lam, so there is no path; give lams.")
        return top * np.geomspace(1.0, eps, n_lams)

    def solve(
        self,
        lam: float,
        time_limit_s: float | None,
        callback: Callback | None,
        start: Solution | None,
        began: float,
    ) -> Solution:
        """Solve for one λ, from a warm start where there is one.

        Parameters
        ----------
        lam : float
        time_limit_s, callback, start
            As in :func:`covopt.fit`.
        began : float
            Reading of ``covopt.limits.now()`` when the user asked.
        """
        with one_blas_thread():  # more threads round differently, and compete with compiled ones
            return Run(self, lam, time_limit_s, callback, began).solve(start)


def aligned(X: Any, Y: Any) -> Any:
    """Return Y after checking its length, so that the error message is about the table and not about the loss."""
    try:
        rows, labels = len(X), len(Y)
    except TypeError:
        return Y
    if rows != labels:
        raise InputError(f"X has {rows} rows but Y has {labels}: give one target (row) for each sample.")
    return Y


def check_size(targets: np.ndarray) -> None:
    """Refuse targets whose squares, which losses compute, overflow or underflow."""
    largest = float(np.abs(targets).max(initial=0.0))
    if largest and not ROOM[0] <= largest <= ROOM[1]:
        raise InputError(
            f"Y: the largest target is {largest:.3g}, and its square is outside of what double precision has room "
            f"for (targets from {ROOM[0]:g} to {ROOM[1]:g}). Choose other units."
        )


def name_of(Y: Any) -> str | None:
    """Return the name of a column of labels: a Series has one, a frame of one column too."""
    names = getattr(Y, "columns", None)
    name = getattr(Y, "name", None) if names is None else (names[0] if len(names) == 1 else None)
    return name if isinstance(name, str) and name else None
