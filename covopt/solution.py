"""What a solve returns: the network, its certificate, and the file that carries both."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from covopt.certificates.duality import INTERPOLATES, Certificate, distance, residual_of
from covopt.certificates.sparsity import SparseSupport, sparsest_support
from covopt.certificates.uniqueness import AMBIGUOUS, Uniqueness, analyse_uniqueness
from covopt.data import Data
from covopt.errors import BudgetError, SolutionFileError
from covopt.files import write_atomically
from covopt.network import ReLUNetwork
from covopt.oracles.faces import FaceOracle
from covopt.problems.reduction import Reduction, reduce_data
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.finish import finish_network
from covopt.solvers.sharpen import sharpen
from covopt.solvers.tight import TightSet, tight_set
from covopt.status import Status

FORMAT = "covopt-solution"
SCHEMA = 1
BRACKET = ("cost", "lower_bound", "gap")
ACCURATE = 1e-7  # with a larger gap the tight set cannot be read off
NEEDED = 1e-4  # share of the cost above which a neuron's mass is no rounding
ROUNDING = 1e-12  # relative error of a bracket in double precision
REFINED_GAP = 1e-9  # the tight set is read off a dual at least this accurate
REFINE_TIME_S = 60.0  # and this long at most is spent on getting there


@dataclass(frozen=True)
class Sparsest:
    """A minimal-norm network with the fewest neurons, to the tolerance that ``message`` states.

    The program on the tight set matches the targets to that tolerance, not exactly: a network with one neuron fewer
    than every exact minimiser can come within it, and then it is the answer (it interpolates to 1e-9 of max|y| like
    every network here, at a cost within the solution's own gap of the minimum).

    Attributes
    ----------
    network : ReLUNetwork
    n_neurons : int
    lower_bound : int
        No minimal-norm network has fewer, to that tolerance.
    proven : bool
        Whether the two agree.
    agrees : bool
        Whether the solution itself, a minimiser of the ℓ1 problem, is already that sparse. Where minimisers are not
        unique it need not be a vertex of their set.
    message : str
    """

    network: ReLUNetwork
    n_neurons: int
    lower_bound: int
    proven: bool
    agrees: bool
    message: str


@dataclass(eq=False)
class Solution:
    """A minimal-norm network with the proof of its optimality; numbers are in the user's units.

    Attributes
    ----------
    network : ReLUNetwork
    dual : ndarray of shape (N,)
        λ, feasible: |⟨λ, σ(X̃ w)⟩| ≤ 1 for every unit neuron w.
    certificate : Certificate
    status : Status
    data : Data
    """

    data: Data
    output_bias: str
    potential: str
    network: ReLUNetwork
    dual: np.ndarray
    certificate: Certificate
    status: Status
    tol: float
    solver: str
    history: list[dict[str, float]] = field(default_factory=list)
    time_s: float = 0.0
    random_state: int | None = None

    # ------------------------------------------------------------------ numbers
    @property
    def cost(self) -> float:
        """‖W‖² of the network: the upper bound."""
        return self.certificate.cost

    @property
    def objective(self) -> float:
        """The minimised objective; for interpolation the cost itself."""
        return self.cost

    @property
    def lower_bound(self) -> float:
        """Certified: no network through the points has a smaller ‖W‖²."""
        return self.certificate.lower_bound

    @property
    def gap(self) -> float:
        """(cost − lower_bound) / cost."""
        return self.certificate.gap

    def summary(self) -> str:
        """Return a few lines for people."""
        certificate = self.certificate
        rows = [
            ("problem", f"{self.data.n_samples} points, {self.data.n_features} features, bias {self.data.bias:g}, "
                        f"output bias {self.output_bias}"),
            ("status", f"{self.status.code.upper()}: {self.status.message}"),
            ("cost ‖W‖²", f"{self.cost:.10g}"),
            ("lower bound", f"{self.lower_bound:.10g}  ({certificate.bound})"),
            ("relative gap", f"{self.gap:.2e}  (asked for {self.tol:g})"),
            ("interpolation", f"max |f − y| = {certificate.residual:.1e} of max |y|"),
            ("neurons", f"{len(self.network)}"),
            ("solver", f"{self.solver}, {len(self.history)} rounds, {self.time_s:.2f} s"),
        ]  # fmt: skip
        return "\n".join(f"{name:<14} {text}" for name, text in rows)

    # ------------------------------------------------------------------ structure of the set of minimisers
    @cached_property
    def _reduced(self) -> tuple[ShallowProblem, Reduction]:
        return reduce_data(self.data, self.output_bias)

    @cached_property
    def _refined(self) -> tuple[FaceOracle, np.ndarray, np.ndarray, np.ndarray, float]:
        """Oracle, dual and network, solved on to a gap of 1e-9 when this solution is coarser."""
        problem, reduction = self._reduced
        oracle = FaceOracle(problem.rows)
        root = np.linalg.norm(self.network.hidden_weights, axis=1)
        neurons = self.network.hidden_weights / root[:, None]
        weights = root * self.network.output_weights[:, 0]
        offset = float(self.data.bias * self.network.output_bias[0])
        neurons, weights, offset = reduction.apply_network(neurons, weights, offset)
        dual = reduction.apply_dual(self.dual)
        if self.gap > REFINED_GAP:
            point = ColumnGeneration(
                problem, oracle, tol=REFINED_GAP, random_state=self.random_state, start_neurons=neurons,
                max_rounds=100, time_limit_s=REFINE_TIME_S,
            ).solve()  # fmt: skip
            if point.gap < self.gap:
                dual = point.dual
                neurons, weights, offset = finish_network(problem, point.neurons, point.weights, point.offset)
        gap = distance(problem.primal_value(weights, offset), problem.dual_value(dual))
        sharp = sharpen(problem, oracle, dual, offset) if gap <= REFINED_GAP else None
        if sharp is not None:
            dual, neurons, weights, offset = sharp
        return oracle, dual, neurons, weights, offset

    def tight_set(self, slack: float = 1e-6, *, refine: bool = True) -> TightSet:
        """Return all (cell, sign) pairs whose dual value is within ``slack`` of one; minimisers live there.

        Parameters
        ----------
        slack : float
        refine : bool
            Solve on to a gap of 1e-9 first when this solution is coarser; otherwise its own dual is used, and
            ``slack`` is at least ten times its gap.

        Returns
        -------
        TightSet
            Unit neurons in the user's coordinates and their dual values.

        Raises
        ------
        BudgetError
            When the arrangement has too many faces to look at.
        """
        problem, reduction = self._reduced
        if not len(problem.rows) or not self.dual.any():
            return TightSet(np.zeros((0, self.network.hidden_weights.shape[1])), np.zeros(0))
        if refine:
            oracle, dual, *_ = self._refined
        else:
            oracle, dual = FaceOracle(problem.rows), reduction.apply_dual(self.dual)
            slack = min(0.1, max(slack, 10.0 * self.gap))
        tight = tight_set(problem, oracle, dual, slack=slack)
        return TightSet(tight.neurons @ reduction.basis.T, tight.values)

    @cached_property
    def uniqueness(self) -> Uniqueness:
        """Whether this is the only minimal-norm network, with the reason (SP20 Thm 4.7, eq. 21)."""
        problem, _ = self._reduced
        if not len(problem.rows) or self.cost == 0:
            return Uniqueness(True, "the zero network is the only one of norm zero", 0)
        try:
            oracle, dual, _, weights, offset = self._refined
        except BudgetError as error:
            return Uniqueness(None, f"the tight set is out of reach: {error}", 0)
        gap = distance(problem.primal_value(weights, offset), problem.dual_value(dual))
        if gap > ACCURATE:
            return Uniqueness(
                None, f"the tight set needs a gap of {ACCURATE:g}; the best bracket has {gap:.1e}", 0
            )
        tight = tight_set(problem, oracle, dual, slack=AMBIGUOUS[1])
        return analyse_uniqueness(problem, tight, offset)

    @property
    def is_unique(self) -> bool | None:
        """True, False, or None when it cannot be told; ``uniqueness.reason`` says why."""
        return self.uniqueness.unique

    def sparsest(self, *, time_limit_s: float = 60.0) -> Sparsest:
        """Return a minimal-norm network with the fewest neurons: the ℓ0 problem on the tight set.

        Parameters
        ----------
        time_limit_s : float
            For the mixed-integer program.

        Raises
        ------
        BudgetError
            When the arrangement has too many faces for the tight set.
        """
        problem, reduction = self._reduced
        own = len(self.network)
        if own == 0:
            return Sparsest(self.network, 0, 0, True, True, "the zero network has no neuron")
        oracle, dual, neurons, weights, offset = self._refined
        if self.is_unique:
            network = self._network_of(reduction, neurons, weights, offset)
            if len(network) > own:
                network = self.network
            count = len(network)
            # a mass may be no more than the error of the dual; such a neuron is not known to be needed
            needed = int((np.abs(weights) > NEEDED * problem.primal_value(weights, offset)).sum())
            lower = min(needed, count)
            return Sparsest(network, count, lower, lower == count, own == count, "the minimiser is unique")
        tight = tight_set(problem, oracle, dual, slack=1e-6)
        cost, value = problem.primal_value(weights, 0.0), problem.primal_value(weights, offset)
        excess = max(value - problem.dual_value(dual), ROUNDING * value)
        support: SparseSupport | None = sparsest_support(
            problem, tight, offset, cost, excess=excess, time_limit_s=time_limit_s
        )
        if support is None:
            return Sparsest(self.network, own, 1, own == 1, True, "no sparser network was found in time")
        found = finish_network(problem, support.neurons, support.weights, support.offset)
        network = self._network_of(reduction, *found)
        if len(network) > own or residual_of(self.data, network) > INTERPOLATES:
            network = self.network
        proven = len(network) <= support.lower_bound
        return Sparsest(
            network, len(network), support.lower_bound, proven, own == len(network), support.message
        )

    def _network_of(self, reduction: Reduction, neurons, weights, offset) -> ReLUNetwork:
        units, scaled, moved = reduction.invert_network(neurons, weights, offset)
        return ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=self.output_bias != "free"
        )

    # ------------------------------------------------------------------ files and pictures
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        from covopt import __version__

        network = self.network
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "covopt": __version__,
            "status": self.status.code,
            "message": self.status.message,
            "cost": self.cost,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "tol": self.tol,
            "problem": {
                "X": self.data.X.tolist(),
                "Y": self.data.Y.tolist(),
                "bias": self.data.bias,
                "output_bias": self.output_bias,
                "potential": self.potential,
                "feature_names": list(self.data.feature_names),
                "target_names": list(self.data.target_names),
                "notes": list(self.data.notes),
            },
            "network": {
                "hidden_weights": network.hidden_weights.tolist(),
                "output_weights": network.output_weights.tolist(),
                "output_bias": network.output_bias.tolist(),
                "n_neurons": len(network),
            },
            "dual": self.dual.tolist(),
            # one place for every number: the bounds and the gap are above
            "certificate": {
                name: value for name, value in asdict(self.certificate).items() if name not in BRACKET
            },
            "solver": self.solver,
            "random_state": self.random_state,
            "time_s": self.time_s,
            "history": self.history,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Solution:
        """Inverse of :meth:`to_dict`; checks nothing but the shape of the content (see ``covopt.verify``)."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise SolutionFileError(f"this is not a covopt solution: its format field is not {FORMAT!r}")
        if content.get("schema") != SCHEMA:
            raise SolutionFileError(
                f"the file has schema {content.get('schema')!r}; this covopt reads schema {SCHEMA}. Upgrade covopt."
            )
        try:
            problem, net = content["problem"], content["network"]
            width = len(problem["feature_names"]) + (problem["bias"] > 0)
            X = np.array(problem["X"], dtype=float)
            X = X.reshape(len(problem["X"]), len(problem["feature_names"]))
            data = Data(
                X,
                np.array(problem["Y"], dtype=float).reshape(len(X), -1),
                float(problem["bias"]),
                tuple(problem["feature_names"]),
                tuple(problem["target_names"]),
                tuple(problem["notes"]),
            )
            network = ReLUNetwork(
                np.array(net["hidden_weights"], dtype=float).reshape(-1, width),
                np.array(net["output_weights"], dtype=float).reshape(-1, 1),
                data.bias,
                np.array(net["output_bias"], dtype=float),
                problem["output_bias"] != "free",
            )
            dual = np.array(content["dual"], dtype=float)
            if len(network.hidden_weights) != len(network.output_weights) or dual.shape != (len(X),):
                raise ValueError("lengths of the arrays do not fit together")
            if not isinstance(problem["output_bias"], str) or not isinstance(problem["potential"], str):
                raise ValueError("output_bias and potential must be names")
            stated = content["certificate"]
            certificate = Certificate(
                **{name: float(content[name]) for name in BRACKET},
                residual=float(stated["residual"]), gauge=float(stated["gauge"]),
                exact=bool(stated["exact"]), bound=str(stated["bound"]),
            )  # fmt: skip
            return cls(
                data, problem["output_bias"], problem["potential"], network, dual, certificate,
                Status.from_code(content["status"]), float(content["tol"]), content["solver"],
                content["history"], content["time_s"], content["random_state"],
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the solution file is damaged: {error!r}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, atomically: a reader sees the old file or the whole new one.

        Parameters
        ----------
        path : path-like
        """
        text = json.dumps(self.to_dict(), allow_nan=False) + "\n"
        write_atomically(path, lambda stream: stream.write(text.encode()))

    def plot(self, path: str | os.PathLike[str] | None = None):
        """Draw the function and the certificate; returns the matplotlib figure, saved to ``path`` if given."""
        from covopt.plotting import plot_solution

        return plot_solution(self, None if path is None else Path(path))


def load(path: str | os.PathLike[str]) -> Solution:
    """Read a solution written by :meth:`Solution.save`.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        When the file is missing, not JSON, not a covopt solution, or of a newer schema.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SolutionFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SolutionFileError(f"{os.fspath(path)} is not a JSON file: {error}") from error
    return Solution.from_dict(content)
