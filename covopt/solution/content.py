"""The file of a solution: write it as JSON types, and read it."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from covopt.certificates.certify import Certificate
from covopt.data import Data
from covopt.data.scaling import Scaling
from covopt.errors import Status
from covopt.files import check_format, damaged, heading, read_any
from covopt.files.schema import NETWORK, SCALING, SOLUTION, SOLUTION_WITH_LOSS, check_content, numbers, shown
from covopt.losses import loss_from_dict
from covopt.network import ReLUNetwork

if TYPE_CHECKING:
    from covopt.solution import Solution

FORMAT = "covopt-solution"
BRACKET = ("cost", "lower_bound", "gap")
OF_A_LOSS = ("objective", "loss_value")
RUN = ("solver", "random_state", "time_s", "timings", "history")


def to_content(solution: Solution) -> dict[str, Any]:
    """Return a solution as JSON types."""
    network, stated = solution.network, asdict(solution.certificate)
    bracket = {name: stated.pop(name) for name in BRACKET}  # each number is written once
    if solution.loss is None:
        stated = {name: value for name, value in stated.items() if name not in OF_A_LOSS}
    problem = problem_of(solution) | {"potential": solution.potential}
    return {
        **heading(FORMAT), "schema": _schema_of(solution),
        "status": solution.status.code, "message": solution.status.message, **bracket, "tol": solution.tol,
        "problem": problem if solution.scaling is None else problem | {"scaling": solution.scaling.to_dict()},
        "network": {name: getattr(network, name).tolist() for name in NETWORK} | {"n_neurons": len(network)},
        "dual": solution.dual.tolist(),
        **({} if solution.dual_low is None else {"dual_low": solution.dual_low.tolist()}),
        "certificate": stated, **{name: getattr(solution, name) for name in RUN},
    }  # fmt: skip


def _schema_of(solution: Solution) -> int:
    """Return the first version whose readers know every field of the file; earlier readers must refuse it."""
    news = (solution.loss, solution.scaling, solution.dual_low)
    return max(place * (part is not None) + 1 for place, part in enumerate(news, 1))


def problem_of(solution: Any) -> dict[str, Any]:
    """Return the table of a solution of any depth as JSON types, with the loss if there is one.

    Parameters
    ----------
    solution : Solution or DeepSolution
    """
    data, weights = solution.data, solution.sample_weight
    found = {
        "X": data.X.tolist(), "Y": data.Y.tolist(), "bias": data.bias, "output_bias": solution.output_bias,
        "feature_names": list(data.feature_names), "target_names": list(data.target_names), "notes": list(data.notes),
    }  # fmt: skip
    if solution.loss is None:
        return found
    weights = None if weights is None else weights.tolist()
    return found | {"lam": solution.lam, "loss": solution.loss.parameters(), "sample_weight": weights}


def data_of(problem: dict[str, Any]) -> Data:
    """Return the table of a file.

    Parameters
    ----------
    problem : dict
        As :func:`problem_of` writes it.
    """
    columns, targets, notes = (tuple(problem[name]) for name in ("feature_names", "target_names", "notes"))
    X = numbers("X", problem["X"]).reshape(len(problem["X"]), len(columns))
    Y = numbers("Y", problem["Y"]).reshape(len(X), len(targets))
    return Data(X, Y, float(problem["bias"]), columns, targets, notes)


@damaged("the solution file")
def from_content(cls: type[Solution], content: dict[str, Any]) -> Solution:
    """Return the solution of JSON types; see :meth:`Solution.from_dict`."""
    check_format(content, FORMAT)
    fitted = "loss" in content.get("problem", ())
    check_content(content, SOLUTION_WITH_LOSS if fitted else SOLUTION)
    problem, net = content["problem"], content["network"]
    data = data_of(problem)
    hidden, output, offset = (numbers(name, net[name]) for name in NETWORK)
    network = ReLUNetwork(
        hidden.reshape(-1, data.n_features + (data.bias > 0)), output.reshape(-1, data.n_outputs), data.bias,
        offset.reshape(data.n_outputs), problem["output_bias"] != "free", scaling=_scaling_of(problem, data),
    )  # fmt: skip
    shape = data.Y.shape if data.n_outputs > 1 else (data.n_samples,)
    dual = numbers("dual", content["dual"])
    low = None if content.get("dual_low") is None else numbers("dual_low", content["dual_low"])
    if {dual.shape, shape if low is None else low.shape} != {shape}:
        raise ValueError("lengths of the arrays do not fit together")
    if net.get("n_neurons", len(network)) != len(network):
        raise ValueError(f"n_neurons is {shown(net['n_neurons'])}, and the network has {len(network)}")
    stated: dict[str, Any] = {"objective": content["cost"], "loss_value": 0.0} | content["certificate"]
    stated |= {name: content[name] for name in BRACKET}
    stated = {
        f.name: float(stated[f.name]) if f.type == "float" else stated[f.name] for f in fields(Certificate)
    }
    return cls(
        data, problem["output_bias"], problem["potential"], network, dual, Certificate(**stated),
        Status.from_code(content["status"]), float(content["tol"]), dual_low=low,
        **{name: content[name] for name in RUN if name in content},
        **(terms_of(problem, data) if fitted else {}),
    )  # fmt: skip


def _scaling_of(problem: dict[str, Any], data: Data) -> Scaling | None:
    if problem.get("scaling") is None:
        return None
    check_content(problem["scaling"], SCALING, "'scaling'")
    sizes = data.n_features, data.n_features, data.n_outputs
    parts = zip(SCALING, sizes, strict=True)
    return Scaling(*(numbers(name, problem["scaling"][name]).reshape(size) for name, size in parts))


def terms_of(problem: dict[str, Any], data: Data) -> dict[str, Any]:
    """Return λ, the loss bound to the table, and the weights of a file.

    Parameters
    ----------
    problem : dict
        As :func:`problem_of` writes it.
    data : Data
    """
    weights = problem["sample_weight"]
    weights = None if weights is None else numbers("sample_weight", weights)
    loss = loss_from_dict(problem["loss"])
    loss.encode_targets(data.Y, weights)
    return {"lam": float(problem["lam"]), "loss": loss, "sample_weight": weights}


def load(path: str | os.PathLike[str]) -> Any:
    """Read any file that covopt wrote: a solution, a path, a CP-rank certificate, a proof, a gap.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Solution, list of Solution, CPRankCertificate, Proof or Gap
        The object that was saved; a list for the file of a path.

    Raises
    ------
    SolutionFileError
        If the file is missing, not JSON, not written by covopt, or of a newer schema.
    """
    return read_any(path)
