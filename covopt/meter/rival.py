"""The best network that there is time for, and the certified bound below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from covopt.api import fit, min_norm
from covopt.api.stopping import REST, Clock, in_time
from covopt.certificates.certify import conclude
from covopt.depth.cost import representation_cost
from covopt.depth.layers import as_shallow
from covopt.exact.rounding import relative_gap
from covopt.limits import HURRY_S
from covopt.losses import Interpolation, make_loss
from covopt.meter.ladder import objective
from covopt.meter.tables import Table, labels_of
from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.problems.problem import Problem
from covopt.solution import Solution
from covopt.solvers.both_layers import Network, descend
from covopt.status import Status

FOR_FIT = 0.75  # of what is left after the ladder and its bound
LEAST_S = 0.2  # left for a bracket, whatever the ladder took


def best_of(
    table: Table,
    ladder: DeepReLUNetwork,
    lam: float,
    output_bias: str,
    tol: float,
    clock: Clock,
    seed: Any,
) -> Any:
    """Return the better of what covopt finds and what descent makes of the ladder's last network, certified.

    The first bound is that of the ladder's own residual; then covopt solves, in most of what a clock leaves.
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
        "time_limit_s": None if left is None else FOR_FIT * max(LEAST_S, left),
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
        clock.hurry(REST * HURRY_S)  # the solve has had its share
    if depth > 2:
        value = objective(ladder, data.X, loss, lam)
        if best.lower_bound <= value < best.objective:
            best = replace(best, network=ladder, status=Status.HEURISTIC)
            best = replace(best, status=Status.CERTIFIED if best.gap <= tol else best.status)
        return best
    if own is not None:
        best = _joined(best, own)
    if not through and best.status is not Status.CERTIFIED:
        moved = in_time(clock, lambda: stated(_descended(shallow, problem)), lambda: None, halved=True)
        best = best if moved is None else _joined(best, moved)
    return best


def _stated(
    network: ReLUNetwork, problem: Problem, table: Table, lam: float, output_bias: str, tol: float
) -> Solution:
    """Return a network as a solution, with −∇C/2λ at its outputs for a dual, and its first bound."""
    data, loss = table.data, None if problem.interpolates else table.loss
    network, dual = replace(network, feature_names=data.feature_names), np.zeros(data.Y.shape)
    if loss is not None:
        dual = problem.project_dual(problem.dual_of(network.predict(data.X).reshape(dual.shape)))
    found = conclude(
        data, network, dual if data.n_outputs > 1 else dual[:, 0], stopped=Status.TIME_LIMIT, tol=tol,
        output_bias=output_bias, loss=loss, lam=lam, effort=0.0,
    )  # fmt: skip
    return Solution(data, output_bias, "variation", network, *found[:3], tol, "ladder")


def _descended(network: ReLUNetwork, problem: Problem) -> ReLUNetwork:
    """Descend on both layers."""
    neurons, weights, offset = network.to_neurons()
    found = descend(problem, Network(neurons, weights.reshape(len(neurons), -1), np.atleast_1d(offset)))
    return ReLUNetwork.from_neurons(
        found.neurons, found.weights, bias=network.bias, offset=found.offset,
        counts_output_bias=network.counts_output_bias,
    )  # fmt: skip


def _joined(best: Solution, other: Solution) -> Solution:
    """Return the better network beside the larger bound: one of a dual holds beside any network."""
    least = other if other.objective < best.objective and other.certificate.interpolates else best
    tight = other if other.lower_bound > best.lower_bound else best
    own = least.certificate
    stated = replace(
        tight.certificate, cost=own.cost, objective=own.objective, loss_value=own.loss_value,
        residual=own.residual, gap=relative_gap(own.objective, tight.lower_bound),
    )  # fmt: skip
    return replace(
        best, network=least.network, dual=tight.dual, dual_low=tight.dual_low, certificate=stated,
        status=stated.status(best.status, best.tol),
    )  # fmt: skip
