"""Forged files: honest solutions with something changed, given to the checker.

A change that makes a statement false has to be rejected. For the others what the checker then accepts has to be true,
by the same explicit neurons and networks as everywhere here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.objectives import objective
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.solves import (
    LOSSES,
    bound_holds,
    fit_bound_holds,
    quiet,
    random_output_bias,
    random_targets,
    squared_norm,
)
from covopt.errors import CovoptError

Document = dict[str, Any]
Change = Callable[[Document, np.random.Generator], None]
TOL = 1e-6


def honest(rng: np.random.Generator, *, with_loss: bool | None = None) -> Any:
    """A small solution of a harmless problem: interpolation or a fit, any loss and output bias."""
    n, d = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    X, bias = rng.standard_normal((n, d)), float(rng.choice([0.0, 1.0, 1.0, 0.3]))
    output_bias = random_output_bias(rng, bias)
    if with_loss is None:
        with_loss = bool(rng.random() < 0.5)
    if with_loss:
        loss = str(rng.choice(LOSSES))
        Y, weights = random_targets(loss, rng, X), tables.sample_weight(rng, n)
        lam = 10.0 ** rng.uniform(-4, 0)
        return quiet(
            covopt.fit,
            X,
            Y,
            lam=lam,
            loss=loss,
            bias=bias,
            output_bias=output_bias,
            sample_weight=weights,
            tol=TOL,
        )
    Y = rng.standard_normal((n, int(rng.choice([1, 1, 2]))))
    return quiet(covopt.min_norm, X, Y, bias=bias, output_bias=output_bias, tol=TOL)


# ---------------------------------------------------------------------- any dual at all
def any_dual(rng: np.random.Generator) -> Outcome:
    """The bound that the checker computes from a dual of the adversary's choice is still a lower bound."""
    solution = honest(rng)
    if rng.random() < 0.5:  # a table of a troublesome kind, with the honest network's problem around it
        solution = _on_another_table(solution, rng)
    content = solution.to_dict()
    content["dual"] = _any_dual(solution, rng).tolist()
    try:
        forged = covopt.Solution.from_dict(content)
        found = quiet(covopt.verify, forged).certificate
    except CovoptError:
        return held()
    if found is None:
        return held()
    forged.certificate = found
    return holds(forged, rng)


def _on_another_table(solution: Any, rng: np.random.Generator) -> Any:
    n, d = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    X, bias = tables.ALL_TABLES[str(rng.choice(list(tables.ALL_TABLES)))](rng, n, d)
    options = {"bias": bias, "output_bias": random_output_bias(rng, bias)}
    try:
        if solution.loss is None:
            return quiet(covopt.min_norm, X, tables.targets(rng, X), duplicates="mean", **options)
        name = solution.loss.name
        return quiet(covopt.fit, X, random_targets(name, rng, X), lam=solution.lam, loss=name, **options)
    except CovoptError:
        return solution


def _any_dual(solution: Any, rng: np.random.Generator) -> np.ndarray:
    shape = solution.dual.shape
    kind = rng.integers(5)
    noise = rng.standard_normal(shape)
    goal = solution.data.Y if solution.loss is None else solution.loss.targets
    goal = np.reshape(goal, shape) if goal.size == solution.dual.size else noise
    with np.errstate(all="ignore"):
        dual = [
            solution.dual * (1 + 10.0 ** rng.uniform(-12, 0) * noise),
            goal * np.abs(noise),
            np.reshape(tables.dual(rng, solution.data.lifted, 1 if len(shape) == 1 else shape[1]), shape),
            solution.dual + 10.0 ** rng.uniform(-9, 3) * noise,
            solution.dual * 10.0 ** rng.uniform(-3, 9),
        ][kind]
        if rng.random() < 0.5:
            dual = dual - dual.mean(axis=0)
    return np.where(np.isfinite(dual), dual, 0.0)


# ---------------------------------------------------------------------- false statements
def _scale_everything(content: Document, rng: np.random.Generator) -> None:
    """The dual and its bound a thousandth larger, the gap to fit."""
    content["dual"] = (np.array(content["dual"]) * 1.001).tolist()
    _raise_bound(content, rng)


def _raise_bound(content: Document, rng: np.random.Generator) -> None:
    upper = content["certificate"].get("objective", content["cost"])
    content["lower_bound"] = max(content["lower_bound"], upper) * 1.001 + 1e-12
    content["gap"] = (content["lower_bound"] - upper) / content["lower_bound"]


def _close_gap(content: Document, rng: np.random.Generator) -> None:
    upper = content["certificate"].get("objective", content["cost"])
    content["dual"] = (np.array(content["dual"]) * 0.5).tolist()
    content["lower_bound"], content["gap"] = upper, 0.0


def _lower_cost(content: Document, rng: np.random.Generator) -> None:
    content["cost"] = content["cost"] * 0.99 - 1e-9


def _move_output(content: Document, rng: np.random.Generator) -> None:
    content["network"]["output_weights"] = (np.array(content["network"]["output_weights"]) * 1.01).tolist()
    content["network"]["output_bias"] = (np.array(content["network"]["output_bias"]) + 0.1).tolist()


def _tolerance(content: Document, rng: np.random.Generator) -> None:
    content["tol"] = [float("inf"), 2, 100, 1.0, 0, -1.0, float("nan"), 1e300, True, "1e-6", None][
        rng.integers(11)
    ]


def _neurons(content: Document, rng: np.random.Generator) -> None:
    content["network"]["n_neurons"] += int(rng.choice([-1, 1, 1000]))


def _exactness(content: Document, rng: np.random.Generator) -> None:
    if content["certificate"]["exact"]:  # to say less than is true is allowed
        _wording(content, rng)
    content["certificate"]["exact"] = True


def _wording(content: Document, rng: np.random.Generator) -> None:
    words = ["proved in exact arithmetic", "", content["certificate"]["bound"] + " and by the Pope"]
    content["certificate"]["bound"] = words[rng.integers(3)]


def _residual(content: Document, rng: np.random.Generator) -> None:
    content["certificate"]["residual"] = [0.5, -1.0, float("nan"), 1e-3][rng.integers(4)]


def _gauge(content: Document, rng: np.random.Generator) -> None:
    content["certificate"]["gauge"] = content["certificate"]["gauge"] * 0.9 + 0.01


def _loss_value(content: Document, rng: np.random.Generator) -> None:
    if "loss_value" in content["certificate"]:
        content["certificate"]["loss_value"] = content["certificate"]["loss_value"] * 0.9 - 0.01
    else:
        _lower_cost(content, rng)


def _objective(content: Document, rng: np.random.Generator) -> None:
    if "objective" in content["certificate"]:
        content["certificate"]["objective"] = content["certificate"]["objective"] * 0.9 - 0.01
    else:
        _lower_cost(content, rng)


FALSE: tuple[Change, ...] = (
    _scale_everything, _raise_bound, _close_gap, _lower_cost, _move_output, _tolerance, _neurons, _exactness,
    _wording, _residual, _gauge, _loss_value, _objective,
)  # fmt: skip


def false_claim(rng: np.random.Generator) -> Outcome:
    """One false statement in a file; the checker has to say so."""
    solution = honest(rng)
    if not len(solution.network) or not np.any(solution.dual):
        return held()  # nothing to lie about: all of it is zero
    content = copy.deepcopy(solution.to_dict())
    change = FALSE[rng.integers(len(FALSE))]
    change(content, rng)
    accepted, why = _accepts(content)
    if accepted:
        return refuted(f"accepted a forged file ({change.__name__.strip('_')}): {why}")
    return held()


def _accepts(content: Document) -> tuple[bool, str]:
    try:
        forged = covopt.Solution.from_dict(content)
        checked = quiet(covopt.verify, forged)
    except CovoptError as error:
        return False, str(error)
    return checked.ok, f"tol {forged.tol!r}, status {forged.status.code}"


# ---------------------------------------------------------------------- statements that may have become false
def _swap_rows(content: Document, rng: np.random.Generator) -> None:
    rng.shuffle(content["problem"]["X"])


def _move_table(content: Document, rng: np.random.Generator) -> None:
    X = np.array(content["problem"]["X"], dtype=float)
    content["problem"]["X"] = (X + 10.0 ** rng.uniform(-16, 0) * rng.standard_normal(X.shape)).tolist()


def _move_targets(content: Document, rng: np.random.Generator) -> None:
    Y = np.array(content["problem"]["Y"], dtype=float)
    content["problem"]["Y"] = (Y + 10.0 ** rng.uniform(-16, 0) * rng.standard_normal(Y.shape)).tolist()


def _another_bias(content: Document, rng: np.random.Generator) -> None:
    content["problem"]["output_bias"] = str(rng.choice(["none", "penalized", "free"]))


def _another_potential(content: Document, rng: np.random.Generator) -> None:
    content["problem"]["potential"] = str(rng.choice(["variation", "label-noise", "label-noise-exact"]))


def _another_lam(content: Document, rng: np.random.Generator) -> None:
    if content["problem"].get("lam") is not None:
        content["problem"]["lam"] *= float(rng.choice([0.5, 2.0, 1 + 1e-12, -1.0]))


def _another_loss(content: Document, rng: np.random.Generator) -> None:
    if content["problem"].get("loss") is not None:
        content["problem"]["loss"]["name"] = str(rng.choice(LOSSES))


def _other_classes(content: Document, rng: np.random.Generator) -> None:
    loss = content["problem"].get("loss") or {}
    if loss.get("classes"):
        loss["classes"] = list(reversed(loss["classes"]))


def _certified(content: Document, rng: np.random.Generator) -> None:
    content["status"] = str(rng.choice(["certified", "gap", "heuristic"]))
    content["network"]["output_weights"] = (
        np.array(content["network"]["output_weights"]) * (1 + 1e-7)
    ).tolist()


def _one_number(content: Document, rng: np.random.Generator) -> None:
    """Any number anywhere."""
    places = [(holder, key) for holder, key in _numbers(content)]
    holder, key = places[rng.integers(len(places))]
    value = holder[key]
    holder[key] = [0, -value, value * 2, value + 1, 1e308, value * (1 + 1e-9)][rng.integers(6)]


def _numbers(node: Any) -> list[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    places = []
    for key, value in items:
        if isinstance(value, dict | list):
            places += _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            places.append((node, key))
    return places


OPEN: tuple[Change, ...] = (
    _swap_rows, _move_table, _move_targets, _another_bias, _another_potential, _another_lam, _another_loss,
    _other_classes, _certified, _one_number,
)  # fmt: skip


def open_claim(rng: np.random.Generator) -> Outcome:
    """A change that may leave all statements true: what is accepted has to be."""
    content = copy.deepcopy(honest(rng).to_dict())
    change = OPEN[rng.integers(len(OPEN))]
    change(content, rng)
    if not _accepts(content)[0]:
        return held()
    outcome = holds(covopt.Solution.from_dict(content), rng)
    if outcome.kind != "refuted":
        return outcome
    return refuted(f"accepted after {change.__name__.strip('_')}: {outcome.detail}")


def holds(solution: Any, rng: np.random.Generator) -> Outcome:
    """The statements of a solution: its bound below every network, its norm and objective as computed exactly."""
    if solution.potential != "variation":
        return held()
    norm = float(squared_norm(solution.network, solution.output_bias))
    if abs(norm - solution.cost) > 1e-8 * max(norm, 1e-300) and solution.loss is None:
        return refuted(f"the norm is stated as {solution.cost:.12g} and is {norm:.12g}")
    if solution.loss is None:
        data = solution.data
        return bound_holds(
            data.X, data.Y, data.bias, solution.output_bias, solution.network, solution.lower_bound, rng
        )
    stated, own = solution.objective, float(objective(solution, solution.network))
    size = float(
        np.square(solution.loss.targets).max()
    )  # squares of what is left of cancelling targets are rounding
    if abs(stated - own) > 1e-8 * own + 1e-12 * np.sqrt(abs(own) * size) + 1e-24 * size:
        return refuted(f"the objective is stated as {stated:.12g} and is {own:.12g}")
    return worst([fit_bound_holds(solution, rng)])
