"""The best network that there is time for, and the certified bound below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from covopt.api import fit, min_norm
from covopt.api.stopping import REST, Clock, in_time
from covopt.certificates.certify import Conclusion, conclude, residual_of
from covopt.data import Data
from covopt.depth.chain import as_shallow
from covopt.depth.cost import representation_cost
from covopt.exact.rounding import relative_gap
from covopt.limits import HURRY_S
from covopt.losses import Interpolation, Loss, make_loss
from covopt.meter.ladder import objective
from covopt.meter.tables import Table, labels_of
from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.problems.problem import Problem
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
    rival = (
        None
        if depth > 2
        else Rival(as_shallow(ladder, data.bias, output_bias), data, loss, lam, output_bias, tol)
    )
    if rival is not None and not through:
        in_time(clock, lambda: rival.bound(rival.dual, Status.TIME_LIMIT, effort=0.0), lambda: None)
    Y: Any = data.Y if data.n_outputs > 1 else data.Y[:, 0]
    left = clock.until_late(0.0)
    options: dict[str, Any] = {
        "bias": data.bias, "output_bias": output_bias, "random_state": seed, "tol": tol,
        "time_limit_s": None if left is None else FOR_FIT * max(LEAST_S, left),
    }  # fmt: skip
    if through:
        best = (
            min_norm(data.X, Y, **options)
            if depth == 2
            else representation_cost(data.X, Y, depth=depth, **options)
        )
    else:
        best = fit(
            data.X, labels_of(loss, data.Y) if loss.is_classification else Y, lam=lam, loss=make_loss(loss),
            depth=depth, sample_weight=table.weights, **options,
        )  # fmt: skip
    own = replace(best.data, feature_names=data.feature_names, target_names=data.target_names)
    best = replace(best, data=own)
    if best.status is Status.INTERRUPTED:
        clock.hurry(REST * HURRY_S)  # the solve has had its share
    if rival is not None:
        return rival.better(best, clock)
    value = objective(ladder, data.X, loss, lam)
    if value < best.objective and best.lower_bound <= value:
        best = replace(best, network=ladder, status=Status.HEURISTIC)
        best = replace(best, status=Status.CERTIFIED if best.gap <= tol else best.status)
    return best


class Rival:
    """The ladder's last network beside the solution: descended, with the bound of its own residual."""

    def __init__(
        self, network: ReLUNetwork, data: Data, loss: Loss, lam: float, output_bias: str, tol: float
    ) -> None:
        self.network, self.data, self.loss, self.lam = network, data, loss, lam
        self.output_bias, self.tol = output_bias, tol
        rho = np.inf if output_bias == "none" else 0.0 if output_bias == "free" else 1.0 / data.bias**2
        self.problem = Problem(data.lifted, loss, 2.0 * lam, rho)
        self.found: Conclusion | None = None

    def value(self, network: ReLUNetwork) -> float:
        """Objective of a network."""
        if isinstance(self.loss, Interpolation):
            return network.squared_norm
        return self.loss.value(self.outputs(network)) + self.lam * network.squared_norm

    def outputs(self, network: ReLUNetwork) -> np.ndarray:
        """Return what a network says at the rows, shape (N, k)."""
        return network.bare().predict(self.data.X).reshape(self.data.Y.shape)

    @property
    def dual(self) -> np.ndarray:
        """−∇C/2λ at the network, moved into the domain of the conjugate."""
        found = self.problem.project_dual(self.problem.dual_of(self.outputs(self.network)))
        return found if found.shape[1] > 1 else found[:, 0]

    def bound(self, dual: np.ndarray, stopped: Status, **more: Any) -> None:
        """Certify the network with a dual; keep what is the larger bound."""
        loss = None if isinstance(self.loss, Interpolation) else self.loss
        found = conclude(
            self.data, self.network, dual, stopped=stopped, tol=self.tol, output_bias=self.output_bias, loss=loss,
            lam=self.lam, **more,
        )  # fmt: skip
        if self.found is None or found.certificate.lower_bound >= self.found.certificate.lower_bound:
            self.found = found

    def descend(self) -> None:
        """Descend on both layers, for interpolation not at all."""
        if isinstance(self.loss, Interpolation):
            return
        found = descend(self.problem, _unit(self.network))
        moved = ReLUNetwork.from_neurons(
            found.neurons, found.weights[:, 0] if found.weights.shape[1] == 1 else found.weights, bias=self.data.bias,
            offset=found.offset, counts_output_bias=self.output_bias != "free",
        )  # fmt: skip
        if self.value(moved) < self.value(self.network):
            self.network = moved

    def better(self, best: Any, clock: Clock) -> Any:
        """Return the solution, with this network where it is better, and with the larger of the bounds."""
        first, is_smaller = self.found, _size(self.network) < _size(best.network)
        if best.status is Status.CERTIFIED and best.objective <= self.value(self.network) and not is_smaller:
            return best
        in_time(clock, self.descend, lambda: None, halved=True)
        as_good = relative_gap(self.value(self.network), best.lower_bound) <= self.tol and is_smaller
        if not as_good and best.objective <= self.value(self.network):
            self.network = best.network
        pair, stated = (best.dual, best.dual_low), best.certificate
        if first is not None and first.certificate.lower_bound > best.lower_bound:
            pair, stated = (first.dual, first.low), first.certificate
        # a lower bound is one of the dual alone: it holds beside any network
        through, cost, value = (
            isinstance(self.loss, Interpolation),
            self.network.squared_norm,
            self.value(self.network),
        )
        stated = replace(
            stated, cost=cost, objective=value, gap=relative_gap(value, stated.lower_bound),
            loss_value=0.0 if through else self.loss.value(self.outputs(self.network)),
            residual=residual_of(self.data, self.network) if through else 0.0,
        )  # fmt: skip
        network = replace(self.network, feature_names=self.data.feature_names)
        return replace(
            best, network=network, dual=pair[0], dual_low=pair[1], certificate=stated,
            status=stated.status(best.status, self.tol),
        )  # fmt: skip


def _size(network: ReLUNetwork) -> int:
    """Count the neurons that do something."""
    return int(
        np.count_nonzero(np.any(network.output_weights, axis=1) & np.any(network.hidden_weights, axis=1))
    )


def _unit(network: ReLUNetwork) -> Network:
    lengths = np.linalg.norm(network.hidden_weights, axis=1)
    live = lengths > 0.0
    weights = network.output_weights[live] * lengths[live, None]
    return Network(
        network.hidden_weights[live] / lengths[live, None], weights, network.bias * network.output_bias
    )
