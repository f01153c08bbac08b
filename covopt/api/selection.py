"""λ by cross-validation: in every fold a network for each λ, evaluated on the rows left out.

The choice needs no bounds, so most folds use descent only; the network that is then trained on all rows, at the λ of
least mean loss, is certified.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from covopt.checks import counted
from covopt.checks.validation import check_count
from covopt.data.scaling import standardise
from covopt.errors import InputError, NotCertifiedWarning, Status
from covopt.exact.rank import ROUGH
from covopt.limits import TimeUp, checkpoint, limited, now
from covopt.network import ReLUNetwork
from covopt.oracles.faces import MOST_FACED
from covopt.problems.reduction import reduce_fit
from covopt.solution import Solution
from covopt.solution.summary import judged
from covopt.solvers.descent import Descent

if TYPE_CHECKING:
    from covopt.api.task import Task

FOLDS = 5
PASSES = 1  # of a descent in a fold: missing neurons are added once
GRID = np.geomspace(0.5, 1e-3, 10)  # shares of λ_max


class HeldOut(NamedTuple):
    """Losses and scores of networks on rows left out of their training.

    Attributes
    ----------
    lams : ndarray of shape (n,)
        Decreasing.
    losses : ndarray of shape (n, folds)
        Mean loss on the rows left out.
    qualities : ndarray of shape (n, folds)
        R² there, or the accuracy for classes.
    quality : {"r2", "accuracy"}
        Which of the two.
    """

    lams: np.ndarray
    losses: np.ndarray
    qualities: np.ndarray
    quality: str

    def __repr__(self) -> str:
        n, folds = self.losses.shape
        return (
            f"HeldOut: {counted(n, 'λ', 'λ')} on {counted(folds, 'fold')}, the least loss at {self.best:.6g}"
        )

    @property
    def best(self) -> float:
        """The λ of the least mean loss."""
        return float(self.lams[int(self.losses.mean(axis=1).argmin())])

    @property
    def said(self) -> str:
        """Score and loss of the best λ on rows left out, in words."""
        losses, qualities = self.losses.mean(axis=1), self.qualities.mean(axis=1)
        at, folds = int(losses.argmin()), self.losses.shape[1]
        name = "R²" if self.quality == "r2" else self.quality
        return f"{name} {qualities[at]:.4f}, loss {losses[at]:.6g}: means over {counted(folds, 'fold')}"


def held_out(
    task: Task, lams: np.ndarray, *, folds: int = FOLDS, time_limit_s: float | None = None
) -> HeldOut | None:
    """Train without each fold in turn, and evaluate on the rows left out.

    Parameters
    ----------
    task : Task
    lams : ndarray of shape (n,)
        Decreasing.
    folds : int
    time_limit_s : float, optional
        Seconds, shared by the folds and λ evenly.

    Returns
    -------
    HeldOut or None
        For the folds that there was time for. None if there was no time for one, or after an interrupt (noted in
        ``task.interrupted``).

    Raises
    ------
    InputError
        For fewer rows than folds.
    """
    n, began = task.data.n_samples, now()
    if 2 * check_count("folds", folds) > n:
        raise InputError(f"cross-validation in {folds} folds needs {2 * folds} rows; the table has {n}.")
    if task.interrupted:
        return None
    fold = _folds(task, folds)
    judged: list[list[tuple[float, float]]] = []
    cut = 0
    try:
        with contextlib.suppress(TimeUp), limited(time_limit_s):
            for k in range(folds):
                left = (
                    None if time_limit_s is None else max(0.0, time_limit_s - (now() - began)) / (folds - k)
                )
                rows, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                networks, late = fold_networks(task, rows, lams, time_limit_s=left)
                cut += late
                judged.append([_judged(task, network, test) for network in networks])
    except KeyboardInterrupt:
        task.interrupted = True
        return None
    if not judged:
        return None
    say_cut(cut, len(lams), len(judged), folds, time_limit_s)
    losses, qualities = np.array(judged).T
    quality = "accuracy" if task.loss.is_classification else "r2"
    return HeldOut(np.asarray(lams, dtype=float), losses, qualities, quality)


def fold_networks(
    task: Task, rows: np.ndarray, lams: np.ndarray, *, time_limit_s: float | None = None
) -> tuple[list[ReLUNetwork], int]:
    """Return a network for each λ, trained on some rows from the previous one, and the number of those cut short.

    Problems of rank three or less are solved: 200 points on a line take .5 s, by descent 3.5 s.

    Parameters
    ----------
    task : Task
    rows : ndarray of int
    lams : ndarray of shape (n,)
        Decreasing.
    time_limit_s : float, optional
        Seconds, shared by the λ evenly; each λ has a network, however short the time.
    """
    began = now()

    def share(j: int) -> float | None:
        return None if time_limit_s is None else max(1e-3, time_limit_s - (now() - began)) / (len(lams) - j)

    return (_solved if task.data.rank <= MOST_FACED else _descended)(task, rows, lams, share)


def _solved(
    task: Task, rows: np.ndarray, lams: np.ndarray, share: Callable[[int], float | None]
) -> tuple[list[ReLUNetwork], int]:
    loss, table = task.loss, task.table
    part = type(task)(
        table.X[rows], loss.targets[rows] if loss.is_classification else table.Y[rows], loss, table.bias,
        task.output_bias, loss.weights[rows, 0], task.potential, "auto", ROUGH, task.random_state,
        standardised=task.scaling is not None,
    )  # fmt: skip
    found: list[Solution] = []
    for j, lam in enumerate(lams):
        checkpoint()
        found.append(part.solve(float(lam), share(j), None, found[-1] if found else None, now()))
    return [solution.network for solution in found], sum(s.status is Status.TIME_LIMIT for s in found)


def _descended(
    task: Task, rows: np.ndarray, lams: np.ndarray, share: Callable[[int], float | None]
) -> tuple[list[ReLUNetwork], int]:
    loss, scaling = task.loss.take(rows), None
    data = dataclasses.replace(task.table, X=task.table.X[rows], Y=task.table.Y[rows])
    if task.scaling is not None:
        numbers = not loss.is_classification
        data, scaling = standardise(data, loss.weights[:, 0], targets=numbers)
        loss.targets = data.Y if numbers else loss.targets
    loss.weights = loss.weights / loss.weights.sum()
    found: list[ReLUNetwork] = []
    before, cut = None, len(lams)
    for j, lam in enumerate(lams):
        checkpoint()
        problem, reduction = reduce_fit(data, loss, float(lam), task.output_bias)
        descent = Descent(problem, task.random_state)
        with contextlib.suppress(TimeUp), limited(share(j)):
            for _ in descent.run(start=before, passes=PASSES):
                pass
            cut -= 1  # it ended by itself
        before = descent.network
        network = task.network(reduction, *before)
        found.append(dataclasses.replace(network, scaling=scaling))
    return found, cut


def say_cut(cut: int, lams: int, judged: int, folds: int, time_limit_s: float | None) -> None:
    """Warn if there was no time for some of the folds or networks that λ is chosen by."""
    if cut or judged < folds:
        warnings.warn(
            f"λ is chosen by what there was time for: of {folds} folds × {lams} λ in {time_limit_s or 0.0:.2g} s "
            f"{counted(folds - judged, 'fold')} not looked at, {counted(cut, 'network')} cut short; give a longer "
            "time limit.",
            NotCertifiedWarning,
            stacklevel=4,
        )


def _folds(task: Task, folds: int) -> np.ndarray:
    """Return a random fold for each row, stratified by class."""
    n, loss = task.data.n_samples, task.loss
    rng = np.random.default_rng(0 if task.random_state is None else task.random_state)
    kind = loss.targets @ np.arange(1, loss.targets.shape[1] + 1) if loss.is_classification else np.zeros(n)
    fold = np.empty(n, dtype=int)
    fold[np.lexsort((rng.random(n), kind))] = np.arange(n) % folds
    return fold


def _judged(task: Task, network: ReLUNetwork, rows: np.ndarray) -> tuple[float, float]:
    """Return the mean loss on some rows, and R² or the accuracy there."""
    loss, Y = task.loss.take(rows), task.table.Y[rows]
    if not loss.is_classification:
        loss.targets = Y
    weights = loss.weights[:, 0]
    if not weights.any():
        weights = np.ones(len(rows))
    loss.weights = (weights / weights.sum())[:, None]
    outputs = network.predict(task.table.X[rows]).reshape(Y.shape)
    return loss.value(outputs), judged(loss, Y, outputs, loss.weights[:, 0])[1]
