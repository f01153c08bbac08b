"""Hold a certified optimum against networks that gradient descent finds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.data.tabular import to_matrix
from covopt.errors import InputError
from covopt.losses import make_loss
from covopt.network import ReLUNetwork
from covopt.solution import Solution
from covopt.training.contradiction import report
from covopt.training.floor import facts
from covopt.training.grid import check_widths
from covopt.training.repair import repair
from covopt.training.results import TrainingRun
from covopt.training.runner import train
from covopt.training.schedule import Phase
from covopt.training.stages import RATE, Watch, anneal, gradient_tolerance, in_units, weight_unit

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_SEEDS = 32
DEFAULT_WIDTHS = (32, 400)  # narrowest and widest
FITTING = (Phase("adam", 3000, decay="cosine"), Phase("lbfgs", 1000))


@dataclass(frozen=True, eq=False)
class CrossCheck:
    """Trained networks beside the certificate. The floor is proved; what was trained is heuristic.

    Attributes
    ----------
    table : pandas.DataFrame
        That of :class:`~covopt.training.TrainingRun`, with ``floor``, what the certificate proves about this very
        network (of its objective with a loss, of its ``squared_norm`` without), ``cost``, what is compared (the
        objective; without a loss ‖W‖² of the network repaired to pass through the points, inf where that failed), and
        ``ratio`` = cost / certified.
    certified : float
        Objective of the solution's network.
    floor : float
        The certified lower bound.
    best : ReLUNetwork or None
        Network of the least cost, repaired for interpolation; None where no network could be.
    complete : bool
        False when training was stopped before its end.
    proved : bool
        Whether the solution is certified to be optimal; else only ``floor`` is proved, and ``ratio`` may be below 1.
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
        """Least cost over the certified one: 1 where training found the optimum, inf where no network compares."""
        return _ratio(self.best_cost, self.certified)

    @property
    def excess(self) -> float:
        """(best cost − certified lower bound) / lower bound."""
        return _ratio(self.best_cost, self.floor) - 1.0

    def summary(self) -> str:
        """Return a few lines for people."""
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
        return "\n".join(f"{name:<14} {text}" for name, text in rows)


def cross_check(
    solution: Solution,
    X: Any = None,
    Y: Any = None,
    *,
    widths: Any = None,
    seeds: Any = DEFAULT_SEEDS,
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

    With a loss the objective :math:`C(f) + \lambda\|W\|^2` of every network must be at least the certified lower
    bound. Without one training minimises the squared error plus a falling :math:`\lambda\|W\|^2`, and two facts are
    used: every network, through the points or not, has

    .. math:: \|W\|^2 \ge 2\langle\Lambda, f(X)\rangle \;(-\,\beta^2\|\Lambda^\top 1\|^2)

    with the solution's feasible Λ (theory: weak duality, SP20 §2); and a network that is moved onto the points by
    its output weights has a norm that the certified one bounds from below.

    Parameters
    ----------
    solution : Solution
        Of :func:`covopt.min_norm` or :func:`covopt.fit`, with the variation norm.
    X, Y : array_like, optional
        The table, compared with the solution's own, which is used in any case.
    widths : int or list of int, optional
        Ten times the certified number of neurons by default, 32 to 400: wide networks find the optimum more often.
    seeds : int or sequence of int
    learning_rate, schedule, device, dtype, scale, random_state, record_every, progress, callback
        As in :func:`covopt.training.train`; without a loss the schedule is that of every λ.
    contradiction_file : path-like, optional
        Where a contradiction is written: ``covopt-contradiction.json`` by default.

    Returns
    -------
    CrossCheck

    Raises
    ------
    CertificateContradictedError
        When a network is below the certificate by more than rounding: one of the two is wrong. The file that the
        message names has problem, dual, seed and weights; ``covopt.training.recheck`` repeats the comparison.
    InputError
        When the table is another one than the solution's, or its potential is a label-noise one.
    SolverUnavailableError
        When PyTorch is not installed.

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
    options: dict[str, Any] = {
        "widths": widths, "seeds": seeds, "device": device, "dtype": dtype, "random_state": random_state,
        "progress": progress, "record_every": record_every,
    }  # fmt: skip
    if solution.loss is None:
        run, complete = anneal(
            data, solution.dual.reshape(data.Y.shape), output_bias=solution.output_bias, schedule=schedule,
            learning_rate=learning_rate, scale=scale, callback=callback, **options,
        )  # fmt: skip
    else:
        watch, unit = Watch(callback, lambda state: state), weight_unit(data.lifted, data.Y)
        slope = solution.loss.value(np.zeros_like(data.Y)) / unit or 1.0
        run = train(
            data.X, data.Y if data.n_outputs > 1 else data.Y[:, 0], loss=make_loss(solution.loss), lam=solution.lam,
            bias=data.bias, output_bias=solution.output_bias, sample_weight=solution.sample_weight,
            learning_rate=RATE * unit if learning_rate is None else learning_rate, scale=scale * unit,
            schedule=in_units(FITTING, slope) if schedule is None else schedule,
            tol_gradient=gradient_tolerance(unit, slope), callback=watch, reference=solution, **options,
        )  # fmt: skip
        complete = not watch.interrupted
    return compare(solution, run, complete=complete, began=began, contradiction_file=contradiction_file)


def compare(
    solution: Solution,
    run: TrainingRun,
    *,
    complete: bool = True,
    began: float | None = None,
    contradiction_file: str | os.PathLike[str] | None = None,
) -> CrossCheck:
    """Hold the networks of a run against the certificate of the same problem.

    Parameters
    ----------
    solution : Solution
    run : TrainingRun
        Of two-layer ReLU networks on the solution's table.
    complete : bool
    began : float, optional
        ``time.perf_counter()`` at the start of what ``time_s`` is to cover.
    contradiction_file : path-like, optional

    Raises
    ------
    CertificateContradictedError
        See :func:`cross_check`.
    """
    table, certified = run.table, solution.objective
    floors: list[float] = []
    costs: list[float] = []
    best: ReLUNetwork | None = None
    for i in range(len(table)):
        network = run.network(i)
        assert isinstance(network, ReLUNetwork)
        usable = table["status"].iloc[i] != "diverged"
        known = facts(solution, network)
        floors.append(known[-1].floor)
        held = [(network, False, known)]
        repaired, cost = None, np.inf
        if solution.loss is not None:
            # its own objective is what the last fact is about
            repaired, cost = (network, known[-1].value) if usable else (None, np.inf)
        elif usable and (repaired := _repaired(solution, network)) is not None:
            held.append((repaired, True, facts(solution, repaired, interpolates=True)))
            cost = repaired.squared_norm
        about = {
            **table.iloc[i].to_dict(),
            "index": i,
            "random_state": run.random_state,
            "schedule": run.schedule,
        }
        for one, interpolates, found in held:
            for fact in found:
                if not fact.holds:
                    raise report(
                        solution, one, fact, interpolates=interpolates, about=about, path=contradiction_file
                    )
        cost = cost if np.isfinite(cost) else np.inf
        if repaired is not None and cost < min(costs, default=np.inf):
            best = repaired
        costs.append(cost)
    table["floor"], table["cost"] = floors, costs
    table["ratio"] = [_ratio(cost, certified) for cost in costs]
    spent = run.time_s if began is None else time.perf_counter() - began
    proved = solution.status.code == "certified"
    return CrossCheck(table, certified, solution.lower_bound, best, complete, spent, run, proved)


def _repaired(solution: Solution, network: ReLUNetwork) -> ReLUNetwork | None:
    """Return an interpolant near a network, whose norm is compared."""
    return repair(network, solution.data, has_output_bias=solution.output_bias != "none")


def _ratio(cost: float, certified: float) -> float:
    if certified > 0:
        return cost / certified
    return 1.0 if cost == 0 else np.inf


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
    if X is not None:
        _check_same("X", X, solution.data.X)
    if Y is not None and solution.loss is not None and solution.loss.is_classification:
        known = make_loss(solution.loss)
        known.classes = solution.loss.classes
        if not np.array_equal(known.encode_targets(Y), solution.data.Y):
            raise InputError(
                "Y has other labels than the solution's; leave it out to use the solution's own table."
            )
    elif Y is not None:
        _check_same("Y", Y, solution.data.Y)
    if widths is not None and any(len(one) > 1 for one in check_widths(widths)):
        raise InputError(
            "widths must be those of one hidden layer: certificates are about two-layer networks; received "
            f"{widths!r}."
        )


def _check_same(name: str, given: Any, own: np.ndarray) -> None:
    values, _ = to_matrix(name, given)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape != own.shape or not np.array_equal(values, own):
        raise InputError(
            f"{name} is not the solution's ({values.shape[0]} × {values.shape[1]} against {own.shape[0]} × "
            f"{own.shape[1]} numbers, or other values); leave it out to use the solution's own table."
        )
