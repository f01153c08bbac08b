"""A solution for people: name and text of each line of its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covopt.checks.wording import counted, listed
from covopt.data.scaling import differing_units
from covopt.losses.interpolation import INTERPOLATES
from covopt.solution.hints import hint
from covopt.status import Status

if TYPE_CHECKING:
    from covopt.solution.solution import Solution


def summary_rows(solution: Solution) -> list[tuple[str, str]]:
    """Return name and text of each line."""
    certificate = solution.certificate
    outputs = f"{solution.data.n_outputs} outputs, " if solution.data.n_outputs > 1 else ""
    sizes = f"{counted(solution.data.n_samples, 'point')}, {counted(solution.data.n_features, 'feature')}"
    return [
        ("problem", f"{sizes}, {outputs}"
                    f"bias {solution.data.bias:g}, output bias {solution.output_bias}"),
        ("features", f"{listed(solution.data.feature_names)} → {listed(solution.data.target_names)}"),
        *scaling_rows(solution),
        ("status", f"{solution.status.code.upper()}: {solution.status.message}"),
        *_objective_rows(solution),
        ("cost ‖W‖²" if solution.potential == "variation" else "cost Σ|v|ω(w)", f"{solution.cost:.10g}"),
        ("lower bound", f"{solution.lower_bound:.10g}  ({certificate.bound})"),
        ("relative gap", f"{solution.gap:.2e}  (asked for {solution.tol:g})"),
        *([] if solution.loss else [("interpolation", _interpolation(solution))]),
        ("neurons", f"{len(solution.network)}"),
        *_potential_rows(solution),
        *_scale_rows(solution),
        *[("hint", said) for said in [hint(solution)] if said],
        ("solver", f"{solution.solver}, {counted(len(solution.history), 'round')}, {solution.time_s:.2f} s"),
    ]  # fmt: skip


def scaling_rows(solution: Solution) -> list[tuple[str, str]]:
    """Return what was solved in place of the user's table, a row or none."""
    scaling = solution.scaling
    if scaling is None:
        return []
    what = "columns of mean 0 and variance 1" if solution.data.bias > 0 else "columns divided by their size"
    if scaling.target_centre.any():
        names = zip(solution.data.target_names, scaling.target_centre, strict=True)
        what += f", {listed([f'{name} less {centre:.6g}' for name, centre in names])}"
    return [("standardised", f"{what}: cost, bounds and λ are of that table; predictions are in your units")]


def _scale_rows(solution: Solution) -> list[tuple[str, str]]:
    """Where a gap stays open: the columns whose units make the table hard."""
    data = solution.data
    closed = solution.status is Status.CERTIFIED or solution.gap <= solution.tol
    if closed or solution.scaling is not None or not np.isfinite(data.X).all():
        return []
    why = differing_units(data.X, data.feature_names)
    return [("units", f"{why}: standardise=True (--standardise) solves them in even ones")] if why else []


def _interpolation(solution: Solution) -> str:
    text = f"max |f − y| = {solution.certificate.residual:.1e} of max |y|"
    if solution.certificate.residual > INTERPOLATES:
        text += ": it misses the points, so its cost bounds nothing from above"
    return text


def _objective_rows(solution: Solution) -> list[tuple[str, str]]:
    if solution.loss is None:
        return []
    weighted = "" if solution.sample_weight is None else ", weighted samples"
    share = (
        f" = {solution.lam / solution.lambda_max:.4g} λ_max" if solution.lam and solution.lambda_max else ""
    )
    return [
        ("loss", f"{solution.loss.title}, λ = {solution.lam:g}{share}{weighted}"),
        ("objective", f"{solution.objective:.10g} = C + λ · cost, C = {solution.loss_value:.10g}"),
    ]


def _potential_rows(solution: Solution) -> list[tuple[str, str]]:
    if solution.potential == "variation":
        return []
    free = solution.undetermined[solution.undetermined > 0]
    said = "the data determine the parameters of every neuron, up to its scale"
    if len(free):
        kinds = ", ".join(
            f"dimension {dim} ({count})"
            for dim, count in zip(*np.unique(free, return_counts=True), strict=True)
        )
        said = (
            f"{len(free)} of {counted(len(solution.network), 'neuron')}: others with the same activations, "
            f"at the same cost, form sets of {kinds}"
        )
    return [("potential", solution.potential), ("undetermined", said)]
