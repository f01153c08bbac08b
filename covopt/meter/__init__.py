"""Measure a trained network: its objective, better networks derived from it, and a certified lower bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from covopt.api import fit, min_norm
from covopt.api.stopping import Clock, in_time
from covopt.certificates.certify import Certifier, status_of
from covopt.checks.validation import (
    check_bias,
    check_choice,
    check_output_bias,
    check_random_state,
    check_time_limit,
    check_tol,
)
from covopt.data.tabular import to_matrix
from covopt.depth.cost import representation_cost
from covopt.depth.layers import as_shallow
from covopt.errors import InputError, Status
from covopt.exact.rounding import relative_gap
from covopt.limits import HALF, HURRY_S, PIECE_S, limited, now
from covopt.losses import Interpolation, Loss, make_loss
from covopt.meter.ladder import objective, rungs
from covopt.meter.networks import Given, check_forward, read_network
from covopt.meter.report import Gap
from covopt.meter.tables import Strength, Table, labels_of, read_table, strength_of
from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.parallel import one_blas_thread
from covopt.problems.problem import Problem
from covopt.solution import Solution
from covopt.solvers.both_layers import Network, descend

__all__ = ["Gap", "gap"]

OUTPUT_BIASES = ("auto", "none", "penalized", "free")


def gap(
    network: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | None = None,
    lam: float | str | None = None,
    bias: float = 1.0,
    output_bias: str = "auto",
    weight_decay: float | None = None,
    reduction: str = "mean",
    scaler: Any = None,
    standardise: bool = False,
    sample_weight: Any = None,
    tol: float = 1e-3,
    time_limit_s: float | None = 60.0,
    random_state: int | None = None,
) -> Gap:
    r"""Bound how far a trained network is from the best network of any width, and explain the gap.

    .. math::

        \sum_i s_i\, \ell(f(x_i), y_i) + \lambda \|W\|^2

    is evaluated for the given network and for four networks derived from it: *balanced* (each neuron rescaled, same
    function), *merged* (neurons of one cell joined, same outputs on the rows), *refitted* (optimal output weights for
    its hidden neurons, a convex problem) and *best* (found by :func:`covopt.fit`, or by descent from the refitted
    one). Each objective is an upper bound on the optimum; the lower bound is certified.

    Parameters
    ----------
    network : object
        A :class:`covopt.ReLUNetwork`, a torch module, a state dict, a file (.pt, .pth, .safetensors, .npz, .onnx),
        scikit-learn's ``MLPRegressor`` or ``MLPClassifier``, or a pair (W, v) with W (m, d) or (m, d + 1), bias
        weights in the last column. For more than two layers the lower bounds are those of :mod:`covopt.depth`,
        which are looser.
    X : array_like or frame of shape (N, d)
        Training points, in the units of the network.
    y : array_like of shape (N,) or (N, k)
        Numbers or labels, as for :func:`covopt.fit`.
    loss : str or Loss, optional
        As in :func:`covopt.fit`. By default the squared loss, or for scikit-learn the loss of the estimator.
        ``"interpolation"`` compares ‖W‖² with the least norm of a network with the same outputs.
    lam : float or str, optional
        λ, or a fraction of :func:`covopt.lambda_max`.
    bias : float
        β, the constant input of the hidden biases: their weights b/β count in the norm.
    output_bias : {"auto", "none", "penalized", "free"}
        By default that of the network: none, or penalized as in PyTorch's weight decay; free for scikit-learn.
    weight_decay : float, optional
        PyTorch's weight decay, instead of ``lam``: training minimised L + ½·weight_decay·‖θ‖² over all parameters.
        For networks of scikit-learn their ``alpha`` is used.
    reduction : {"mean", "sum"}
        Whether PyTorch's loss L was a mean or a sum over the rows.
    scaler : object, optional
        Scaling of the columns before training: scikit-learn's ``StandardScaler``, or a pair (mean, scale).
    standardise : bool
        Whether the columns were scaled to mean 0 and variance 1 before training.
    sample_weight : array_like of shape (N,), optional
    tol : float
        Relative gap between the best network and the lower bound at which the search ends.
    time_limit_s : float, optional
        Time limit in seconds. Any limit gives valid bounds; more time makes them tighter.
    random_state : int, optional

    Returns
    -------
    Gap
        ``objective``, ``lower_bound``, ``gap``, ``ladder``, ``best``, ``summary()``, ``plot(path)``, ``save(path)``.

    Raises
    ------
    InputError
        For networks with other layers or activations, and for tables that do not match the network.

    Notes
    -----
    Every feasible Λ of the dual problem in :func:`covopt.fit` gives a lower bound. The first one used is −∇C/2λ at
    the outputs of the network, divided by a certified bound on its dual norm (:func:`covopt.price`).

    Examples
    --------
    >>> import covopt
    >>> X, y = [[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0]
    >>> best = covopt.fit(X, y, lam=0.01).network
    >>> uneven = (3.0 * best.hidden_weights, best.output_weights / 3.0)
    >>> report = covopt.gap(uneven, X, y, lam=0.01)
    >>> report.status.code, report.ladder["as given"] > 1.5 * report.ladder["balanced"]
    ('certified', True)
    >>> abs(report.ladder["balanced"] - report.best.objective) < 1e-9
    True
    """
    began = now()
    bias, limit = check_bias(bias), check_time_limit(time_limit_s)
    check_tol(tol)
    check_random_state(random_state)
    check_choice("output_bias", output_bias, OUTPUT_BIASES)
    if loss == "interpolation" and any(part is not None for part in (lam, weight_decay, sample_weight)):
        raise InputError(
            "loss='interpolation' has neither λ nor weights: leave lam, weight_decay and sample_weight out."
        )
    with one_blas_thread():
        values, _ = to_matrix("X", X)
        if values.ndim != 2:
            raise InputError(
                f"X must have two dimensions, (samples, features); received shape {values.shape}."
            )
        given = read_network(network, values.shape[1], bias)
        kind = _output_bias(given, output_bias, bias)
        measured = _as_network(given, bias, kind)
        with np.errstate(over="ignore"):  # reported below
            table = read_table(
                given, measured, X, y, loss, bias, scaler, sample_weight, standardised=standardise
            )
            X = table.data.X
            size = measured.squared_norm + float((measured.representations(X)[-1] ** 2).sum())
        if not np.isfinite(size):
            raise InputError(
                "network has weights so large that its objective is no number in double precision."
            )
        check_forward(given, X, measured.representations(X)[-1])
        if isinstance(table.loss, Interpolation):
            strength = Strength(1.0, "nothing else is asked of the network")
        else:
            strength = strength_of(table, given, lam, weight_decay, reduction, kind)
        ladder = {"as given": measured}
        share = None if limit is None else max(HALF * limit, PIECE_S)
        clock = Clock(limit, began)

        def ascend() -> None:
            with limited(share):
                for name, found in rungs(measured, X, table.loss, strength.lam):
                    ladder[name] = found

        in_time(clock, ascend, lambda: None)
        best = best_of(table, next(reversed(ladder.values())), strength.lam, kind, tol, clock, random_state)
        notes = (*table.notes, *strength.notes, *_notes(given, measured, bias), *_through_y(table, best))
        return Gap(ladder, best, strength.formula, notes, given.what, tol, now() - began)


def _through_y(table: Table, best: Any) -> list[str]:
    """Return notes on how far the network misses y, with the dual bound on networks that interpolate y."""
    own, dual, wanted = table.data.Y, getattr(best, "dual", None), table.targets
    if wanted is None or dual is None:
        return []
    part = float(np.vdot(dual, own.reshape(dual.shape)))
    bound = best.lower_bound * float(np.vdot(dual, wanted.reshape(dual.shape))) / part if part > 0.0 else 0.0
    missed = np.abs(own - wanted).max(initial=0.0) / (np.abs(wanted).max(initial=0.0) or 1.0)
    said = f"the network misses y by {missed:.2g} of the largest"
    return [f"{said}; through y itself no network is below {bound:.6g}"] if bound > 0.0 else [said]


def against(network: ReLUNetwork, solution: Solution, *, steps: int = 0, what: str = "") -> Gap:
    """Compare a network with a solution of the same problem, without solving anything.

    Parameters
    ----------
    network : ReLUNetwork
        Has the inputs, outputs and bias of the solution; interpolates its points if it has no loss.
    solution : Solution
        For the variation norm.
    steps : int
        Number of derived networks, in the order balanced, merged, refitted.
    what : str
        Description of the network, for the report.

    Examples
    --------
    >>> import covopt
    >>> solution = covopt.fit([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], lam=0.01)
    >>> abs(against(solution.network, solution).excess) < 1e-5
    True
    """
    given = read_network(network, solution.data.n_features, solution.data.bias)
    measured = _as_network(given, solution.data.bias, solution.output_bias)
    ladder, lam = {"as given": measured}, solution.lam or 1.0
    for name, found in islice(rungs(measured, solution.data.X, solution.loss or Interpolation(), lam), steps):
        ladder[name] = found
    formula = "" if solution.lam is None else f"λ = {lam:g}"
    return Gap(ladder, solution, formula, (), what or given.what, solution.tol, 0.0)


def _output_bias(given: Given, asked: str, bias: float) -> str:
    last = given.layers[-1][1]
    has_one = last is not None and bool(np.any(last))
    if asked == "auto":
        asked = ("free" if given.mlp is not None else "penalized") if has_one else "none"
    if asked == "none" and has_one:
        raise InputError('network has an output bias; give output_bias="penalized" or "free".')
    if bias == 0 and any(b is not None and np.any(b) for _, b in given.layers):
        raise InputError("network has biases and bias=0 is for networks without; leave bias out.")
    return check_output_bias(asked, bias)


def _as_network(given: Given, bias: float, output_bias: str) -> DeepReLUNetwork:
    """Return the network with zero biases added where covopt's networks have biases."""
    beta = bias or 1.0
    weights = [w for w, _ in given.layers]
    biases: list[np.ndarray | None] = [np.zeros(len(w)) if b is None else b / beta for w, b in given.layers]
    if bias == 0:
        biases = [None] * len(weights)
    elif output_bias == "none":
        biases[-1] = None
    return DeepReLUNetwork(weights, biases, bias=beta, counts_output_bias=output_bias != "free")


def _notes(given: Given, network: DeepReLUNetwork, bias: float) -> list[str]:
    notes = []
    if bias > 0 and not any(b is not None and np.any(b) for _, b in given.layers[:-1]):
        notes.append("the network has no hidden biases; bias=0 compares it with networks without")
    if len(network.weights) > 2:
        notes.append(
            "bounds of networks of more than two layers are rarely tight: the excess may be much smaller"
        )
    return notes


# ---------------------------------------------------------------------- the best network within the time limit
def best_of(
    table: Table,
    ladder: DeepReLUNetwork,
    lam: float,
    output_bias: str,
    tol: float,
    clock: Clock,
    seed: Any,
) -> Any:
    """Return the better of covopt's solution and of descent from the last network of the ladder, with its bound.

    The first lower bound is from the residual of that network; covopt then solves within half of the remaining time.
    """
    data, loss, through = table.data, table.loss, isinstance(table.loss, Interpolation)
    depth = len(ladder.weights)
    rho = np.inf if output_bias == "none" else 0.0 if output_bias == "free" else 1.0 / data.bias**2
    problem, own = Problem(data.lifted, loss, 2.0 * lam, rho), None

    def stated(network: ReLUNetwork) -> Solution:
        return _stated(network, problem, table, lam, output_bias, tol)

    if depth == 2:
        shallow = as_shallow(ladder, data.bias, output_bias)
        own = in_time(clock, lambda: stated(shallow), lambda: None)
    left = clock.until_late(0.0)
    options: dict[str, Any] = {
        "bias": data.bias, "output_bias": output_bias, "random_state": seed, "tol": tol,
        "time_limit_s": None if clock.limit is None else HALF * max(PIECE_S, left),
    }  # fmt: skip
    Y: Any = data.Y if data.n_outputs > 1 else data.Y[:, 0]
    if not through:
        targets = labels_of(loss, data.Y) if loss.is_classification else Y
        options |= {"lam": lam, "loss": make_loss(loss), "depth": depth, "sample_weight": table.weights}
        best: Any = fit(data.X, targets, **options)
    elif depth == 2:
        best = min_norm(data.X, Y, **options)
    else:
        best = representation_cost(data.X, Y, depth=depth, **options)
    best = replace(
        best, data=replace(best.data, feature_names=data.feature_names, target_names=data.target_names)
    )
    if best.status is Status.INTERRUPTED:
        clock.hurry(HALF * HURRY_S)  # the solve has used its share of the time
    if depth > 2:
        value = objective(ladder, data.X, loss, lam)
        if best.lower_bound <= value < best.objective:
            best = replace(best, network=ladder, status=Status.HEURISTIC)
            best = replace(best, status=Status.CERTIFIED if best.gap <= tol else best.status)
        return best
    if own is not None:
        best = joined(best, own)
    if not through and best.status is not Status.CERTIFIED:
        moved = in_time(clock, lambda: stated(_descended(shallow, problem)), lambda: None, halved=True)
        best = best if moved is None else joined(best, moved)
    return best


def _stated(
    network: ReLUNetwork, problem: Problem, table: Table, lam: float, output_bias: str, tol: float
) -> Solution:
    """Return a network as a solution, with dual variables −∇C/2λ at its outputs and the bound that they give."""
    data, loss = table.data, None if problem.interpolates else table.loss
    network, dual = replace(network, feature_names=data.feature_names), np.zeros(data.Y.shape)
    if loss is not None:
        dual = problem.project_dual(problem.dual_of(network.predict(data.X).reshape(dual.shape)))
    certifier = Certifier(data, network, output_bias=output_bias, loss=loss, lam=lam)
    found = certifier.conclude(
        dual if data.n_outputs > 1 else dual[:, 0], stopped=Status.TIME_LIMIT, tol=tol, effort=0.0
    )
    return Solution(data, output_bias, "variation", network, *found[:3], tol, "ladder")


def _descended(network: ReLUNetwork, problem: Problem) -> ReLUNetwork:
    """Descend on both layers."""
    neurons, weights, offset = network.to_neurons()
    found = descend(problem, Network(neurons, weights.reshape(len(neurons), -1), np.atleast_1d(offset)))
    return ReLUNetwork.from_neurons(
        found.neurons, found.weights, bias=network.bias, offset=found.offset,
        counts_output_bias=network.counts_output_bias,
    )  # fmt: skip


def joined(best: Solution, other: Solution) -> Solution:
    """Return the better network with the larger lower bound, which is valid for every network."""
    least = other if other.objective < best.objective and other.certificate.interpolates else best
    tight = other if other.lower_bound > best.lower_bound else best
    own = least.certificate
    stated = replace(
        tight.certificate, cost=own.cost, objective=own.objective, loss_value=own.loss_value,
        residual=own.residual, gap=relative_gap(own.objective, tight.lower_bound),
    )  # fmt: skip
    through, stopped = best.loss is None, best.status
    return replace(
        best, network=least.network, dual=tight.dual, dual_low=tight.dual_low, certificate=stated,
        status=status_of(stated, best.data, least.network, through=through, stopped=stopped, tol=best.tol),
    )  # fmt: skip
