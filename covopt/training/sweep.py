"""Best cost of trained networks as a function of the width, above the certified floor (FL22 §4, Fig. 2)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.task import Task
from covopt.checks import Brief, required
from covopt.checks.validation import check_count, check_tol
from covopt.errors import InputError
from covopt.losses import Interpolation, Loss
from covopt.network import ReLUNetwork
from covopt.solution import Solution
from covopt.training.crosscheck import certified_optimum, cross_check
from covopt.training.schedule import check_widths
from covopt.widths import SparsityBounds, sparsity_bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ANY_TARGETS = ("N", "N·k", "N(N+1)", "r(r+1)/2 + N(N+1)/2", "N(N+1)/2", "4N", "2·cells")


@dataclass(frozen=True, eq=False, repr=False)
class Plateau(Brief):
    """Best cost found for each width, and the certified floor. The floor is proved; every cost is heuristic.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each width: width, best_cost (inf if no network could be compared), excess (relative to the
        floor), networks, hits (networks within ``tol`` of the floor), costs (of all seeds, sorted).
    floor : float
        Certified lower bound of the objective (of ‖W‖² for interpolation), for any width.
    certified : bool
        Whether the floor is proved to be the optimum up to the tolerance; else it is only a valid lower bound.
    bounds : SparsityBounds
        Theoretical bounds on the width of the sparsest optimal network. With a loss these are upper bounds for any
        targets, since the outputs of the optimum are not known exactly.
    tol : float
        Relative distance at which a cost has reached the floor.
    networks : list of ReLUNetwork or None
        Best network of each width.
    """

    table: pd.DataFrame
    floor: float
    certified: bool
    bounds: SparsityBounds
    tol: float
    lam: float | None
    solution: Solution = field(repr=False)
    networks: list[ReLUNetwork | None] = field(repr=False)
    complete: bool = True
    time_s: float = 0.0

    @property
    def starts_at(self) -> int | None:
        """First width whose best cost is within ``tol`` of the floor; None if there is none."""
        return self._first(self.floor)

    @property
    def best_width(self) -> int | None:
        """First width within ``tol`` of the best cost found; None if no network can be compared."""
        return self._first(float(self.table["best_cost"].min()))

    def _first(self, level: float) -> int | None:
        within = self.table.loc[self.table["best_cost"] <= level * (1.0 + self.tol), "width"]
        return int(within.iloc[0]) if np.isfinite(level) and len(within) else None

    def summary(self) -> str:
        """Return a few lines for people."""
        proved = (
            "certified optimum" if self.certified else "certified lower bound, not proved to be the optimum"
        )
        shown = self.table[["width", "best_cost", "excess", "hits", "networks"]]
        lines = [
            f"floor {self.floor:.10g} ({proved}); trained costs are heuristic",
            shown.to_string(index=False, float_format="{:.8g}".format),
            self._start(),
        ]
        lower = [b.value for b in self.bounds.bounds if b.kind == "lower"]
        least = f"{max(lower)} ≤ " if lower else ""
        lines.append(f"theory: {least}neurons of the sparsest optimal network ≤ {self.bounds.upper}")
        if not self.complete:
            lines.append("training was stopped before its end")
        return "\n".join(lines)

    def _start(self) -> str:
        if self.starts_at is not None:
            return f"the plateau starts at width {self.starts_at}: within {self.tol:g} of the certified floor"
        if self.best_width is None:
            return "no network of these widths could be brought onto the points"
        best = float(self.table["best_cost"].min())
        above = f", {(best / self.floor - 1.0):.1%} above it" if self.floor > 0 else ""
        return (
            f"where the plateau starts cannot be told: no width came within {self.tol:g} of the floor "
            f"(the best was found at width {self.best_width}{above})"
        )

    def plot(self, target: Axes | str | os.PathLike[str] | None = None) -> Any:
        """Plot cost against width.

        Parameters
        ----------
        target : Axes or path-like, optional
            Axes to plot into, or the file to save to.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from covopt.plotting.history import plot_plateau

        if not isinstance(target, str | os.PathLike):
            return plot_plateau(self, target)
        from covopt.plotting import save_figure

        ax = plot_plateau(self)
        figure: Any = ax.figure
        save_figure(figure, Path(target))
        return ax


def plateau(
    X: Any,
    Y: Any,
    widths: Any,
    *,
    lam: float | str | None = None,
    loss: str | Loss = "squared",
    bias: float = 1.0,
    output_bias: str = "none",
    seeds: int = 32,
    learning_rate: float | None = None,
    schedule: Any = None,
    reference: Solution | None = None,
    tol: float = 1e-3,
    time_limit_s: float | None = None,
    device: Any = "cpu",
    dtype: Any = "float64",
    scale: float = 1.0,
    random_state: int | None = 0,
    progress: bool = False,
    callback: Callable[[Any], Any] | None = None,
    contradiction_file: str | os.PathLike[str] | None = None,
) -> Plateau:
    r"""Train two-layer networks of several widths, and find the width from which the global optimum is reached.

    .. math::

        m \mapsto \min_{\text{width } m} \|W\|^2 \ \text{s.t.}\ f_W(x_i) = y_i, \qquad\text{or}\qquad
        m \mapsto \min_{\text{width } m} C(f_W) + \lambda \|W\|^2 ,

    a non-increasing function that is constant from some width on (FL22 §4: N(N + 1) at most). The floor is certified
    by :func:`covopt.min_norm` or :func:`covopt.fit`; the costs above it are the best that training found.

    Parameters
    ----------
    X : array_like of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
    widths : sequence of int
    lam : float or str, optional
        λ, or a fraction of λ_max as ``"0.03max"``;
        None for interpolation, where trained networks are adjusted to interpolate (see :func:`cross_check`).
    loss : str or Loss
        Used if λ is given.
    bias, output_bias : float, {"none", "penalized", "free"}
    seeds : int
        Number of networks of each width; near the start of the plateau many may be needed.
    learning_rate, schedule, device, dtype, scale, random_state, progress, callback
        As in :func:`covopt.training.train`.
    reference : Solution, optional
        A solution of the same problem, whose certificate is used as the floor.
    tol : float
        Relative distance at which a cost has reached the floor.
    time_limit_s : float, optional
        Time limit for the certificate.
    contradiction_file : path-like, optional
        See :func:`cross_check`.

    Returns
    -------
    Plateau

    Raises
    ------
    InputError
        If the input is not valid.
    CertificateContradictedError
        If a trained network is below the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> found = plateau(np.eye(2), np.eye(2), [1, 2], bias=0.0, seeds=2, schedule="lbfgs")
    >>> found.starts_at, round(float(found.floor), 4)
    (2, 4.0)
    """
    pd = required("pandas", "covopt.training", "train")
    began = time.perf_counter()
    several = check_widths(list(widths) if isinstance(widths, tuple) else widths)
    sizes: list[Any] = sorted({one[0] if len(one) == 1 else one for one in several})
    tol = check_tol(tol)
    check_count("seeds", seeds)
    solution = _floor(X, Y, lam, loss, bias, output_bias, reference, time_limit_s)
    rows: list[dict[str, Any]] = []
    networks: list[ReLUNetwork | None] = []
    complete = True
    for width in sizes:
        checked = cross_check(
            solution, widths=width, seeds=seeds, learning_rate=learning_rate, schedule=schedule,
            device=device, dtype=dtype, scale=scale, random_state=random_state, progress=progress, callback=callback,
            contradiction_file=contradiction_file,
        )  # fmt: skip
        costs, floor = sorted(checked.table["cost"].tolist()), solution.lower_bound
        rows.append({
            "width": width, "best_cost": costs[0], "excess": costs[0] / floor - 1.0 if floor > 0 else np.nan,
            "networks": len(costs), "hits": sum(cost <= floor * (1.0 + tol) for cost in costs), "costs": costs,
        })  # fmt: skip
        networks.append(checked.best)
        complete = checked.complete
        if not complete:
            break
    return Plateau(
        pd.DataFrame(rows), solution.lower_bound, solution.status.code == "certified", _bounds(solution), tol,
        solution.lam, solution, networks, complete, time.perf_counter() - began,
    )  # fmt: skip


def _floor(
    X: Any, Y: Any, lam: Any, loss: Any, bias: float, output_bias: str, reference: Any, limit: float | None
) -> Solution:
    if reference is None:
        return certified_optimum(
            X, Y, lam=lam, loss=loss, bias=bias, output_bias=output_bias, time_limit_s=limit
        )
    if not isinstance(reference, Solution):
        raise InputError(f"reference must be a Solution; received {type(reference).__name__}.")
    task = Task(
        X, Y, Interpolation() if lam is None else loss, bias, output_bias, None, "variation", "auto", 1e-6, None
    )  # fmt: skip
    if not task.is_solved_by(reference, lam and task.strengths(lam)):
        raise InputError(
            "reference is a solution of another problem: lam, X, Y, bias, output_bias, potential, loss or "
            "sample_weight differ; leave it out."
        )
    return reference


def _bounds(solution: Solution) -> SparsityBounds:
    data = solution.data
    options: dict[str, Any] = {"bias": data.bias, "output_bias": solution.output_bias}
    if solution.loss is None:
        return sparsity_bounds(data.X, data.Y, **options)
    # the optimum has least norm for its own outputs, whose rank floating point does not determine
    outputs = solution.network.predict(data.X)
    found = sparsity_bounds(data.X, outputs, **options)
    return SparsityBounds(tuple(b for b in found.bounds if b.kind == "upper" and b.name in _ANY_TARGETS))
