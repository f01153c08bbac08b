"""Forged files: honest solutions with one change, given to the checker.

The checker has to reject a change that makes a claim false. After other changes, the claims that it accepts have to
agree with explicit neurons and networks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import exact
from benchmarks.adversary.mutate import at, places
from benchmarks.adversary.objectives import objective
from benchmarks.adversary.outcome import Outcome, held, refuted
from benchmarks.adversary.solves import LOSSES, bound_holds, quiet, random_output_bias, random_targets
from covopt.errors import CovoptError

Document = dict[str, Any]
Change = Callable[[Document, np.random.Generator], Any]
TOL = 1e-6


def honest(rng: np.random.Generator, *, with_loss: bool | None = None) -> Any:
    """Return a small solution of a well-conditioned problem: interpolation or a fit, any loss and output bias."""
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
            covopt.fit, X, Y, lam=lam, loss=loss, bias=bias, output_bias=output_bias, sample_weight=weights, tol=TOL
        )  # fmt: skip
    Y = rng.standard_normal((n, int(rng.choice([1, 1, 2]))))
    return quiet(covopt.min_norm, X, Y, bias=bias, output_bias=output_bias, tol=TOL)


def accepted(content: Document) -> Any:
    """Return the solution of a file that passes its verification, or None if the file is refused."""
    try:
        found = covopt.Solution.from_dict(content)
        return found if quiet(covopt.verify, found).ok else None
    except CovoptError:
        return None


# ---------------------------------------------------------------------- any dual at all
def any_dual(rng: np.random.Generator) -> Outcome:
    """Check that the bound computed from a dual point of the adversary's choice is still a lower bound."""
    solution = honest(rng)
    if rng.random() < 0.5:  # a table of a troublesome kind in place of the honest one
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
    X, bias = tables.small(rng, least=2, most=5)
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


# ---------------------------------------------------------------------- changes
def _times(holder: Any, key: str, factor: float, shift: Any = 0) -> None:
    holder[key] = (np.array(holder[key]) * factor + shift).tolist()


def _upper(content: Document) -> float:
    return content["certificate"].get("objective", content["cost"])


def _raise_bound(content: Document) -> None:
    upper = _upper(content)
    content["lower_bound"] = max(content["lower_bound"], upper) * 1.001 + 1e-12
    content["gap"] = (content["lower_bound"] - upper) / content["lower_bound"]


def _lower(content: Document, name: str = "") -> None:
    if name in content["certificate"]:
        _times(content["certificate"], name, 0.9, -0.01)
    else:
        _times(content, "cost", 0.99, -1e-9)


def _say(content: Document, rng: np.random.Generator) -> None:
    words = ["proved in exact arithmetic", "", content["certificate"]["bound"] + " and by the Pope"]
    content["certificate"]["bound"] = words[rng.integers(3)]


def _call_exact(content: Document, rng: np.random.Generator) -> None:
    if content["certificate"]["exact"]:  # claiming less than is true is allowed
        _say(content, rng)
    content["certificate"]["exact"] = True


TOLERANCES = [float("inf"), 2, 100, 1.0, 0, -1.0, float("nan"), 1e300, True, "1e-6", None]
RESIDUALS = [0.5, -1.0, float("nan"), 1e-3]
FALSE: dict[str, Change] = {  # changes that make a claim of the file false
    "all of it a thousandth larger": lambda c, rng: (_times(c, "dual", 1.001), _raise_bound(c)),
    "bound": lambda c, rng: _raise_bound(c),
    "no gap": lambda c, rng: (_times(c, "dual", 0.5), c.update(lower_bound=_upper(c), gap=0.0)),
    "cost": lambda c, rng: _lower(c),
    "outputs": lambda c, rng: (
        _times(c["network"], "output_weights", 1.01), _times(c["network"], "output_bias", 1.0, 0.1)
    ),
    "tolerance": lambda c, rng: c.update(tol=TOLERANCES[rng.integers(11)]),
    "neurons": lambda c, rng: _times(c["network"], "n_neurons", 1, int(rng.choice([-1, 1, 1000]))),
    "exactness": _call_exact,
    "wording": _say,
    "residual": lambda c, rng: c["certificate"].update(residual=RESIDUALS[rng.integers(4)]),
    "gauge": lambda c, rng: _times(c["certificate"], "gauge", 0.9, 0.01),
    "loss": lambda c, rng: _lower(c, "loss_value"),
    "objective": lambda c, rng: _lower(c, "objective"),
}  # fmt: skip


def _nudge(content: Document, name: str, rng: np.random.Generator) -> None:
    values = np.array(content["problem"][name], dtype=float)
    moved = values + 10.0 ** rng.uniform(-16, 0) * rng.standard_normal(values.shape)
    content["problem"][name] = moved.tolist()


def _choose(content: Document, name: str, rng: np.random.Generator, *options: str) -> None:
    content["problem"][name] = str(rng.choice(list(options)))


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


def _call_certified(content: Document, rng: np.random.Generator) -> None:
    content["status"] = str(rng.choice(["certified", "gap", "heuristic"]))
    _times(content["network"], "output_weights", 1 + 1e-7)


def _one_number(content: Document, rng: np.random.Generator) -> None:
    """Change any number of the file."""
    found = [at(content, place) for place in places(content)]
    found = [(holder, key) for holder, key in found if type(holder[key]) in (int, float)]
    holder, key = found[rng.integers(len(found))]
    value = holder[key]
    holder[key] = [0, -value, value * 2, value + 1, 1e308, value * (1 + 1e-9)][rng.integers(6)]


OPEN: dict[str, Change] = {  # changes after which all claims may still be true
    "rows exchanged": lambda c, rng: rng.shuffle(c["problem"]["X"]),
    "table": lambda c, rng: _nudge(c, "X", rng),
    "targets": lambda c, rng: _nudge(c, "Y", rng),
    "output bias": lambda c, rng: _choose(c, "output_bias", rng, "none", "penalized", "free"),
    "potential": lambda c, rng: _choose(
        c, "potential", rng, "variation", "label-noise", "label-noise-exact"
    ),
    "lam": _another_lam,
    "loss": _another_loss,
    "classes": _other_classes,
    "status": _call_certified,
    "one number": _one_number,
}  # fmt: skip


def changed(changes: dict[str, Change]) -> Callable[[np.random.Generator], Outcome]:
    """Return a test of one change: false claims have to be refused, and accepted ones have to be true."""

    def ask(rng: np.random.Generator) -> Outcome:
        solution = honest(rng)
        if changes is FALSE and not (len(solution.network) and np.any(solution.dual)):
            return held()  # the solution is zero: no claim can be made false
        content = copy.deepcopy(solution.to_dict())
        name = list(changes)[rng.integers(len(changes))]
        changes[name](content, rng)
        forged = accepted(content)
        if forged is None:
            return held()
        if changes is FALSE:
            return refuted(f"accepted another {name}: tol {forged.tol!r}, status {forged.status.code}")
        outcome = holds(forged, rng)
        return outcome if outcome.kind != "refuted" else refuted(f"accepted another {name}: {outcome.detail}")

    return ask


def holds(solution: Any, rng: np.random.Generator) -> Outcome:
    """Check the claims of a solution: its bound against explicit networks, its norm and objective exactly."""
    if solution.potential != "variation":
        return held()
    norm = float(exact(solution.network, solution.output_bias).cost())
    if abs(norm - solution.cost) > 1e-8 * max(norm, 1e-300) and solution.loss is None:
        return refuted(f"the norm is stated as {solution.cost:.12g} and is {norm:.12g}")
    if solution.loss is None:
        return bound_holds(solution, rng)
    stated, own = solution.objective, float(objective(solution, solution.network))
    # squares of cancelling targets are rounding errors
    size = float(np.square(solution.loss.targets).max())
    if abs(stated - own) > 1e-8 * own + 1e-12 * np.sqrt(abs(own) * size) + 1e-24 * size:
        return refuted(f"the objective is stated as {stated:.12g} and is {own:.12g}")
    return bound_holds(solution, rng)


CLASSES = {"dual": any_dual, "false": changed(FALSE), "open": changed(OPEN)}
