"""The file of a solution: its content as JSON types, and what is read back from it."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from covopt.certificates.certify import Certificate
from covopt.data import Data
from covopt.data.scaling import Scaling
from covopt.files.formats import check_format, damaged, read_any
from covopt.files.schema import SCALING, SOLUTION, SOLUTION_WITH_LOSS, check_content, numbers, shown
from covopt.losses import loss_from_dict
from covopt.network import ReLUNetwork
from covopt.status import Status

if TYPE_CHECKING:
    from covopt.solution.solution import Solution

FORMAT = "covopt-solution"
BRACKET = ("cost", "lower_bound", "gap")
OF_A_LOSS = ("objective", "loss_value")


def to_content(solution: Solution) -> dict[str, Any]:
    """Return a solution as JSON types."""
    from covopt import __version__

    network = solution.network
    return {
        "format": FORMAT,
        "schema": _schema_of(solution),
        "covopt": __version__,
        "status": solution.status.code,
        "message": solution.status.message,
        "cost": solution.cost,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "tol": solution.tol,
        "problem": {
            **problem_of(solution),
            "potential": solution.potential,
            **({} if solution.scaling is None else {"scaling": solution.scaling.to_dict()}),
        },
        "network": {
            "hidden_weights": network.hidden_weights.tolist(),
            "output_weights": network.output_weights.tolist(),
            "output_bias": network.output_bias.tolist(),
            "n_neurons": len(network),
        },
        "dual": solution.dual.tolist(),
        **({} if solution.dual_low is None else {"dual_low": solution.dual_low.tolist()}),
        # one place for every number: the bounds and the gap are above
        "certificate": {
            name: value
            for name, value in asdict(solution.certificate).items()
            if name not in BRACKET and (solution.loss is not None or name not in OF_A_LOSS)
        },
        "solver": solution.solver,
        "random_state": solution.random_state,
        "time_s": solution.time_s,
        "timings": solution.timings,
        "history": solution.history,
    }


def _schema_of(solution: Solution) -> int:
    """Return the first version whose readers know all that is in the file: earlier ones must refuse it."""
    news = (solution.loss, solution.scaling, solution.dual_low)
    return 1 + max((place for place, part in enumerate(news, 1) if part is not None), default=0)


def problem_of(solution: Any) -> dict[str, Any]:
    """Return the table of a solution of any depth as JSON types, with the loss where there is one.

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
    """Make a solution of JSON types; see :meth:`Solution.from_dict`."""
    check_format(content, FORMAT)
    fitted = "loss" in content.get("problem", ())
    check_content(content, SOLUTION_WITH_LOSS if fitted else SOLUTION)
    problem, net = content["problem"], content["network"]
    data = data_of(problem)
    network = ReLUNetwork(
        numbers("hidden_weights", net["hidden_weights"]).reshape(-1, data.n_features + (data.bias > 0)),
        numbers("output_weights", net["output_weights"]).reshape(-1, data.n_outputs),
        data.bias,
        numbers("output_bias", net["output_bias"]).reshape(data.n_outputs),
        problem["output_bias"] != "free",
        scaling=_scaling_of(problem, data),
    )
    dual = numbers("dual", content["dual"])
    low = None if content.get("dual_low") is None else numbers("dual_low", content["dual_low"])
    shape = data.Y.shape if data.n_outputs > 1 else (data.n_samples,)
    shapes = {dual.shape, shape if low is None else low.shape}
    if len(network.hidden_weights) != len(network.output_weights) or shapes != {shape}:
        raise ValueError("lengths of the arrays do not fit together")
    if net.get("n_neurons", len(network)) != len(network):
        raise ValueError(f"n_neurons is {shown(net['n_neurons'])}, and the network has {len(network)}")
    stated = content["certificate"]
    values: dict[str, Any] = {
        **{name: float(content[name]) for name in BRACKET},
        "residual": float(stated["residual"]), "gauge": float(stated["gauge"]),
        "exact": stated["exact"], "bound": stated["bound"],
        "objective": float(stated["objective"]) if fitted else float(content["cost"]),
        "loss_value": float(stated["loss_value"]) if fitted else 0.0,
    }  # fmt: skip
    return cls(
        data, problem["output_bias"], problem["potential"], network, dual, Certificate(**values),
        Status.from_code(content["status"]), float(content["tol"]), content["solver"],
        list(content["history"]), float(content["time_s"]), content["random_state"],
        timings=dict(content.get("timings", {})),
        dual_low=low,
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
        What ``save`` wrote; the list from the file of a path.

    Raises
    ------
    SolutionFileError
        When the file is missing, not JSON, not written by covopt, or of a newer schema.
    """
    return read_any(path)
