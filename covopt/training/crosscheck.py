"""Compare a certified optimum with networks trained by gradient descent; one below the lower bound is an error."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.task import Task
from covopt.certificates.certify import residual_of
from covopt.checks import Brief, Check, Rows
from covopt.depth.layers import as_shallow
from covopt.errors import CertificateContradictedError, InputError
from covopt.exact.rank import FOUND
from covopt.exact.rounding import EPS
from covopt.files import read_any
from covopt.losses import INTERPOLATES, Interpolation, make_loss
from covopt.meter import against
from covopt.meter.report import Gap
from covopt.network import ReLUNetwork
from covopt.solution import Solution
from covopt.sparsify import balance, drop_silent, least_outgoing
from covopt.training.runner import TrainingRun, train
from covopt.training.schedule import DEFAULT_RATE, Phase, check_widths
from covopt.verification import verify

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_NAME = "covopt-contradiction.json"


def contradicted(report: Gap, path: str | os.PathLike[str] | None = None) -> CertificateContradictedError:
    """Save a report whose network is below its lower bound, and return the error to raise.

    Parameters
    ----------
    report : Gap
    path : path-like, optional
        Default ``covopt-contradiction.json``; in the temporary directory if that cannot be written.
    """
    place = Path(DEFAULT_NAME if path is None else path)
    try:
        report.save(place)
    except OSError:
        place = Path(tempfile.mkdtemp(prefix="covopt-")) / DEFAULT_NAME
        report.save(place)
    return CertificateContradictedError(
        f"{report.what} is below the certificate: its objective is {report.objective:.12g}, and "
        f"{report.lower_bound:.12g} is certified; problem, dual and weights are in {place}, and covopt.verify or "
        f"covopt.training.recheck({str(place)!r}) compares again. Please report it.",
        place,
    )


def recheck(path: str | os.PathLike[str]) -> list[Check]:
    """Read the report of a contradiction, verify it again, and return the checks that fail.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    list of Check
        Empty if the network does not contradict the certificate.

    Raises
    ------
    SolutionFileError
        If the file is missing or is not a report of :func:`covopt.gap`.
    """
    found: Any = read_any(path, "covopt-gap")
    return [check for check in verify(found).checks if not check.ok]


def certified_optimum(
    X: Any, Y: Any, *, lam: Any, loss: Any, sample_weight: Any = None, **options: Any
) -> Solution:
    """Return the solution that networks are compared with: of a fit, or without λ of interpolation.

    Parameters
    ----------
    X, Y : array_like
    lam : float, str or None
    loss : str or Loss
    sample_weight : array_like, optional
    **options
        Options of :func:`covopt.min_norm` or :func:`covopt.fit`.

    Raises
    ------
    InputError
        For a loss or weights without λ.
    KeyboardInterrupt
        If the search was interrupted; the partial result of the solvers is not used.

    Examples
    --------
    >>> round(certified_optimum([[0.0], [1.0]], [0.0, 1.0], lam=None, loss="squared").cost, 6)
    2.0
    """
    from covopt.api import fitting, min_norm

    if lam is not None:
        found = fitting.fit(X, Y, lam=lam, loss=loss, sample_weight=sample_weight, **options)
    elif make_loss(loss).name != "squared" or sample_weight is not None:
        raise InputError(
            f"without lam the points are interpolated, by no weights and no loss; received loss={loss!r}: give lam."
        )
    else:
        found = min_norm(X, Y, **options)
    if found.status.code == "interrupted":
        raise KeyboardInterrupt
    return found


DEFAULT_WIDTHS = (32, 400)  # least and largest default width
FITTING = (Phase("adam", 3000, decay="cosine"), Phase("lbfgs", 1000))
LEVELS = (0.1, 0.01, 1e-3)  # decreasing λ for interpolation
STAGE = (Phase("adam", 3000, decay="cosine"), Phase("lbfgs", 200))


@dataclass(frozen=True, eq=False, repr=False)
class CrossCheck(Rows, Brief):
    """Trained networks compared with a certificate. The floor is proved; the trained networks are heuristic.

    Attributes
    ----------
    table : pandas.DataFrame
        The table of :class:`~covopt.training.TrainingRun` with three more columns: ``floor``, the certified lower
        bound; ``cost``, the objective, or without a loss ‖W‖² after the output weights were adjusted to interpolate
        and neurons merged (inf if impossible); ``ratio`` = cost / certified.
    certified : float
        Objective of the network of the solution.
    floor : float
        The certified lower bound.
    best : ReLUNetwork or None
        Network of least cost, adjusted to interpolate if there is no loss; None if none could be.
    complete : bool
        False if training was stopped early.
    proved : bool
        Whether the solution is certified as optimal; else only ``floor`` is proved, and ``ratio`` may be below 1.
    """

    table: pd.DataFrame
    certified: float
    floor: float
    best: ReLUNetwork | None
    complete: bool
    time_s: float
    run: TrainingRun = field(repr=False)
    proved: bool = True

    @property
    def best_cost(self) -> float:
        """Least cost of the trained networks."""
        return float(self.table["cost"].min())

    @property
    def ratio(self) -> float:
        """Least cost / certified cost: 1 if training found the optimum, inf if no network can be compared."""
        return float(self.table["ratio"].min())

    def _rows(self) -> list[tuple[str, str]]:
        costs = self.table["cost"].to_numpy()
        usable = np.isfinite(costs)
        name, state = ("certified", "") if self.proved else ("solution", " (not proved to be optimal)")
        rows = [
            (name, f"{self.certified:.10g}{state}, and no network is below {self.floor:.10g} (proved)"),
            ("trained", f"{len(costs)} networks (heuristic), {int(usable.sum())} comparable, none below the bound"),
            ("best", f"{self.best_cost:.10g}, {self.ratio:.6f} of the {name} cost"),
        ]  # fmt: skip
        if usable.any():
            shares = [
                f"{int((self.table['ratio'] <= 1 + tol).sum())} within {tol:g}" for tol in (1e-1, 1e-2, 1e-3)
            ]
            rows.append(("ratios", f"median {np.median(self.table['ratio']):.4f}; {', '.join(shares)}"))
        if not self.complete:
            rows.append(("stopped", "training was stopped before its end"))
        rows.append(("time", f"{self.time_s:.2f} s"))
        return rows


def cross_check(
    solution: Solution,
    X: Any = None,
    Y: Any = None,
    *,
    widths: Any = None,
    seeds: Any = 32,
    learning_rate: float | None = None,
    schedule: Any = None,
    device: Any = "cpu",
    dtype: Any = "float64",
    scale: float = 1.0,
    random_state: int | None = 0,
    record_every: int | None = None,
    progress: bool = False,
    callback: Callable[[Any], Any] | None = None,
    contradiction_file: str | os.PathLike[str] | None = None,
) -> CrossCheck:
    r"""Train networks on the problem of a solution, and compare them with its certificate.

    Each network is compared as by :func:`covopt.gap`, with the solution in place of a search. With a loss the
    objective :math:`C(f) + \lambda\|W\|^2` of every network must be at least the certified lower bound. Without a
    loss, training minimises the squared error plus :math:`\lambda\|W\|^2` with decreasing λ. Then the least output
    weights that interpolate are computed and neurons merged, and the norm must be at least the certified bound.

    Parameters
    ----------
    solution : Solution
        Result of :func:`covopt.min_norm` or :func:`covopt.fit`, for the variation norm.
    X, Y : array_like, optional
        The table. It is only compared with that of the solution, which is used.
    widths : int or list of int, optional
        Default: 10 × the certified number of neurons, within 32 … 400; wide networks reach the optimum more often.
    seeds : int or sequence of int
    learning_rate, schedule, device, dtype, scale, random_state, record_every, progress, callback
        As in :func:`covopt.training.train`; without a loss the schedule is run for every λ.
    contradiction_file : path-like, optional
        File to which a contradiction is written; ``covopt-contradiction.json`` by default.

    Returns
    -------
    CrossCheck

    Raises
    ------
    CertificateContradictedError
        If a network is below the certificate by more than rounding: one of the two is wrong. The message names a file
        with the report of the gap (problem, dual variables, seed, weights): :func:`covopt.verify` and
        ``covopt.training.recheck`` repeat the comparison.
    InputError
        If the table differs from that of the solution, or its potential is that of label noise.
    SolverUnavailableError
        If PyTorch is not installed.

    Examples
    --------
    >>> import covopt
    >>> solution = covopt.fit([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], lam=0.01)
    >>> checked = covopt.cross_check(solution, seeds=4)
    >>> bool(checked.table.objective.min() >= checked.floor), round(checked.ratio, 3)
    (True, 1.0)
    """
    began = time.perf_counter()
    _check(solution, X, Y, widths)
    data = solution.data
    if widths is None:
        widths = int(np.clip(10 * len(solution.network), *DEFAULT_WIDTHS))
    run = _trained(
        solution, learning_rate, schedule, scale, callback, widths=widths, seeds=seeds, device=device, dtype=dtype,
        random_state=random_state, progress=progress, record_every=record_every,
    )  # fmt: skip
    table, through = run.table, solution.loss is None
    best: ReLUNetwork | None = None
    least, costs = np.inf, []
    for i, row in enumerate(table.itertuples()):
        network: Any = run.network(i)
        if row.status == "diverged" or (through and (network := _onto(solution, network)) is None):
            costs.append(np.inf)
            continue
        what = f"a trained network (width {row.width}, seed {row.seed}, {run.describe()})"
        report = against(network, solution, steps=2 if through else 0, what=what)
        missed = 0.0
        if through:  # tolerance, as the points are interpolated up to rounding only
            missed = 2.0 * float(np.abs(solution.dual).sum()) * INTERPOLATES * float(np.abs(data.Y).max())
        if report.objective < solution.lower_bound * (1.0 - FOUND) - missed:
            raise contradicted(report, contradiction_file)
        cost = min(value for name, value in report.ladder.items() if name in report.networks)
        if cost < least:
            last = list(report.networks.values())[-1]
            best, least = as_shallow(last, data.bias, solution.output_bias), cost
        costs.append(cost)
    table["floor"], table["cost"] = solution.lower_bound, costs
    with np.errstate(divide="ignore", invalid="ignore"):
        table["ratio"] = np.where(
            table["cost"] == solution.objective, 1.0, table["cost"] / solution.objective
        )
    return CrossCheck(
        table, solution.objective, solution.lower_bound, best, run.complete, time.perf_counter() - began, run,
        solution.status.code == "certified",
    )  # fmt: skip


def _trained(
    solution: Solution, learning_rate: Any, schedule: Any, scale: float, callback: Any, **options: Any
) -> TrainingRun:
    """Train on the problem of a solution; for interpolation on the squared loss with decreasing λ.

    Learning rates are scaled by the size of the weights, √(max |y| / max ‖x̃‖), tolerances by that of the gradients.
    At the optimum of the squared loss F − Y = −λNΛ, so max |F − Y| = ρ max |Y| for λ = ρ max|Y|/(N max|Λ|).
    """
    data = solution.data
    size, height = np.linalg.norm(data.lifted, axis=1).max(initial=0.0), np.abs(data.Y).max(initial=0.0)
    unit = float(np.sqrt(height / size)) if size > 0 and height > 0 else 1.0
    loss = make_loss("squared" if solution.loss is None else solution.loss)
    zero = height**2 if solution.loss is None else solution.loss.value(np.zeros_like(data.Y))
    slope = float(zero) / unit or 1.0
    lams: list[float] = [solution.lam or 0.0]
    phases = FITTING
    if solution.loss is None:
        largest = float(height / (len(data.Y) * (np.abs(solution.dual).max(initial=0.0) or 1.0))) or 1.0
        lams, phases = [level * largest for level in LEVELS], STAGE
    run: TrainingRun | None = None
    for lam in lams:
        run = train(
            data.X, data.Y if data.n_outputs > 1 else data.Y[:, 0], loss=loss, lam=lam, bias=data.bias,
            output_bias=solution.output_bias, sample_weight=solution.sample_weight,
            learning_rate=DEFAULT_RATE * unit if learning_rate is None else learning_rate, scale=scale * unit,
            schedule=[replace(phase, eps=phase.eps * slope) for phase in phases] if schedule is None else schedule,
            tol_gradient=float(np.clip(np.sqrt(EPS) * slope / max(1.0, unit), 0.0, 0.5)), callback=callback,
            start=run, **options,
        )  # fmt: skip
        if not run.complete:
            break
    assert run is not None
    return run


def _onto(solution: Solution, network: ReLUNetwork) -> ReLUNetwork | None:
    """Return the network with the least output weights that interpolate; None if there are none."""
    if not np.isfinite(network.squared_norm):
        return None
    layer = balance(drop_silent(network.hidden_layer(solution.data.X), keep_negative=False))
    found = network.with_layer(least_outgoing(layer, solution.data.Y))
    return found if residual_of(solution.data, found) <= INTERPOLATES else None


def _check(solution: Any, X: Any, Y: Any, widths: Any) -> None:
    if not isinstance(solution, Solution):
        raise InputError(
            f"solution must be a Solution of covopt.min_norm or covopt.fit; received {type(solution).__name__}."
        )
    if solution.potential != "variation":
        raise InputError(
            f"cross_check trains networks with ‖W‖², potential='variation'; the solution has "
            f"potential={solution.potential!r}."
        )
    if widths is not None and any(len(one) > 1 for one in check_widths(widths)):
        raise InputError(
            "widths must be those of one hidden layer: certificates are about two-layer networks; received "
            f"{widths!r}."
        )
    if X is not None or Y is not None:
        own = solution.data
        task = Task(
            own.X if X is None else X, own.Y if Y is None else Y, solution.loss or Interpolation(), own.bias,
            solution.output_bias, solution.sample_weight, "variation", "auto", 1e-6, None,
        )  # fmt: skip
        if not task.is_solved_by(solution):
            raise InputError(
                "X and Y are not the table of the solution; leave them out to use the solution's own."
            )
