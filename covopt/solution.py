"""What a solve returns: the network, its certificate, and the file that carries both."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from covopt.certificates.certify import Certificate
from covopt.certificates.minimisers import Minimisers, Sparsest
from covopt.certificates.uniqueness import Uniqueness
from covopt.checks.html import html_table
from covopt.checks.validation import check_time_limit
from covopt.checks.wording import counted, listed
from covopt.data import Data
from covopt.errors import CovoptError, InputError, SolutionFileError
from covopt.files import write_json
from covopt.files.formats import check_format, read_any
from covopt.files.layouts import SOLUTION, SOLUTION_WITH_LOSS
from covopt.files.schema import check_content, numbers, shown
from covopt.losses import Loss, loss_from_dict
from covopt.losses.interpolation import INTERPOLATES
from covopt.network import ReLUNetwork
from covopt.oracles.choose import exact_oracle
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate
from covopt.potentials import make_potential
from covopt.problems.regularised import reduce_fit
from covopt.problems.shallow import ShallowProblem
from covopt.proofs import Proof
from covopt.solvers.tight import TightSet, tight_set
from covopt.status import Status

FORMAT = "covopt-solution"
SCHEMA = 1
SCHEMA_LOSS = 2  # with a loss: readers that know interpolation only must refuse it
_BY_OUTPUTS = (
    "where the loss is strictly convex all optimal networks share their outputs F on the data and are the networks "
    "of minimal norm through them: ask covopt.min_norm(X, solution.network.predict(X))"
)
BRACKET = ("cost", "lower_bound", "gap")
OF_A_LOSS = ("objective", "loss_value")


@dataclass(eq=False, repr=False)
class Solution:
    """A minimal-norm network with the proof of its optimality; numbers are in the user's units.

    Attributes
    ----------
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ, feasible: ‖Λᵀσ(X̃ w)‖ ≤ 1 for every unit neuron w; |⟨λ, σ(X̃ w)⟩| ≤ ω(w) with a label-noise potential.
    certificate : Certificate
    status : Status
    data : Data
    proof : GaugeCertificate or None
        Multipliers that prove the dual feasible where a semidefinite relaxation gave the lower bound.
    lam, loss, sample_weight : float, Loss, ndarray
        Of a regularised solve; None for interpolation.
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
    proof: GaugeCertificate | None = None
    lam: float | None = None
    loss: Loss | None = None
    sample_weight: np.ndarray | None = None
    warm: Any = field(default=None, repr=False)  # where a solve with another λ may begin

    def __post_init__(self) -> None:
        fits = self.network.n_inputs == len(self.data.feature_names)
        if (
            self.network.feature_names is None and fits
        ):  # a damaged file says something else, for verify to tell
            self.network = replace(self.network, feature_names=self.data.feature_names)

    # ------------------------------------------------------------------ numbers
    @property
    def cost(self) -> float:
        """‖W‖² of the network, Σ|v|ω(w) with a label-noise potential; for interpolation the upper bound."""
        return self.certificate.cost

    @property
    def objective(self) -> float:
        """The minimised objective, C(f) + λ‖W‖² with a loss; for interpolation the cost itself."""
        return self.certificate.objective

    @property
    def loss_value(self) -> float | None:
        """C(f), None for interpolation."""
        return None if self.loss is None else self.certificate.loss_value

    @property
    def lower_bound(self) -> float:
        """Certified: no network has a smaller objective (no network through the points a smaller ‖W‖²)."""
        return self.certificate.lower_bound

    @property
    def gap(self) -> float:
        """(objective − lower_bound) / objective."""
        return self.certificate.gap

    @cached_property
    def undetermined(self) -> np.ndarray:
        """For each neuron the dimension of the set of parameters that cost the same and act the same on the data.

        Zeros with the variation norm. A label-noise potential sees a neuron only through its activations, and many
        parameters share them where the active rows have rank below D; see :mod:`covopt.potentials`.
        """
        rows = self.data.lifted
        if self.sample_weight is not None:
            rows = rows[self.sample_weight > 0]
        return make_potential(self.potential).undetermined(rows, self.network.hidden_weights)

    def summary(self) -> str:
        """Return a few lines for people."""
        return "\n".join(f"{name:<14} {text}" for name, text in self._summary_rows())

    def _summary_rows(self) -> list[tuple[str, str]]:
        certificate = self.certificate
        outputs = f"{self.data.n_outputs} outputs, " if self.data.n_outputs > 1 else ""
        sizes = f"{counted(self.data.n_samples, 'point')}, {counted(self.data.n_features, 'feature')}"
        return [
            ("problem", f"{sizes}, {outputs}"
                        f"bias {self.data.bias:g}, output bias {self.output_bias}"),
            ("features", f"{listed(self.data.feature_names)} → {listed(self.data.target_names)}"),
            ("status", f"{self.status.code.upper()}: {self.status.message}"),
            *self._objective_rows(),
            ("cost ‖W‖²" if self.potential == "variation" else "cost Σ|v|ω(w)", f"{self.cost:.10g}"),
            ("lower bound", f"{self.lower_bound:.10g}  ({certificate.bound})"),
            ("relative gap", f"{self.gap:.2e}  (asked for {self.tol:g})"),
            *([] if self.loss else [("interpolation", self._interpolation())]),
            ("neurons", f"{len(self.network)}"),
            *self._potential_rows(),
            ("solver", f"{self.solver}, {counted(len(self.history), 'round')}, {self.time_s:.2f} s"),
        ]  # fmt: skip

    def __repr__(self) -> str:
        of = "" if self.lam is None else f"λ {self.lam:.6g}, objective {self.objective:.8g}, "
        return (
            f"Solution({self.status.code}, {of}cost {self.cost:.8g}, lower bound {self.lower_bound:.8g}, "
            f"gap {self.gap:.1e}, {counted(len(self.network), 'neuron')}, "
            f"{counted(self.data.n_samples, 'point')} × {counted(self.data.n_features, 'feature')})"
        )

    def _repr_html_(self) -> str:
        return html_table(self._summary_rows())

    def _interpolation(self) -> str:
        text = f"max |f − y| = {self.certificate.residual:.1e} of max |y|"
        if self.certificate.residual > INTERPOLATES:
            text += ": it misses the points, so its cost bounds nothing from above"
        return text

    def _objective_rows(self) -> list[tuple[str, str]]:
        if self.loss is None:
            return []
        weighted = "" if self.sample_weight is None else ", weighted samples"
        return [
            ("loss", f"{self.loss.title}, λ = {self.lam:g}{weighted}"),
            ("objective", f"{self.objective:.10g} = C + λ · cost, C = {self.loss_value:.10g}"),
        ]

    def _potential_rows(self) -> list[tuple[str, str]]:
        if self.potential == "variation":
            return []
        free = self.undetermined[self.undetermined > 0]
        said = "the data determine the parameters of every neuron, up to its scale"
        if len(free):
            kinds = ", ".join(
                f"dimension {dim} ({count})"
                for dim, count in zip(*np.unique(free, return_counts=True), strict=True)
            )
            said = (
                f"{len(free)} of {counted(len(self.network), 'neuron')}: others with the same activations, "
                f"at the same cost, form sets of {kinds}"
            )
        return [("potential", self.potential), ("undetermined", said)]

    # ------------------------------------------------------------------ structure of the set of minimisers
    @cached_property
    def _minimisers(self) -> Minimisers:
        if self.potential != "variation":
            raise InputError(
                f"the tight set and the sparsest minimiser are computed for potential='variation'; this solution has "
                f"potential={self.potential!r}. Its `undetermined` says what the data leave open."
            )
        return Minimisers(self.data, self.output_bias, self.network, self.dual, self.gap, self.random_state)

    def tight_set(self, slack: float = 1e-6, *, refine: bool = True) -> TightSet:
        """Return all (cell, sign) pairs whose dual value is within ``slack`` of one; minimisers live there.

        With several outputs: all maximisers of ‖Λᵀσ(X̃ w)‖, each with the direction of its output weight.

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
        if self.loss is not None and self.potential == "variation":
            return self._fit_tight_set(min(0.1, max(slack, 10.0 * self.gap)))
        return self._minimisers.tight_set(slack, refine=refine)

    def _fit_tight_set(self, slack: float) -> TightSet:
        """Tight set of a regularised solution's own dual."""
        assert self.loss is not None
        assert self.lam is not None
        problem, reduction = reduce_fit(self.data, self.loss, self.lam, self.output_bias)
        live = problem.rows.any(axis=1)
        shape = (len(problem.rows), problem.n_outputs)
        dual = reduction.apply_dual(self.dual).reshape(shape)[live]
        if not dual.any():
            width = self.network.hidden_weights.shape[1]
            return TightSet(np.zeros((0, width)), np.zeros(0), np.zeros((0, *self.dual.shape[1:])))
        dual = dual[:, 0] if shape[1] == 1 else dual
        rows = problem.rows[live]
        oracle = exact_oracle(rows, 0 if shape[1] == 1 else shape[1])
        tight = tight_set(ShallowProblem(rows, dual, problem.offset_cost), oracle, dual, slack=slack)
        outputs = tight.outputs if reduction.outputs is None else reduction.raise_outputs(tight.outputs)
        return replace(tight, neurons=tight.neurons @ reduction.basis.T, outputs=outputs)

    @property
    def uniqueness(self) -> Uniqueness:
        """Whether this is the only minimal-norm network, with the reason (SP20 Thm 4.7, eq. 21)."""
        if self.potential != "variation":
            return Uniqueness(None, "only the variation norm's minimisers are analysed", 0)
        if self.loss is not None:
            return Uniqueness(None, f"with a loss it is not analysed; {_BY_OUTPUTS}", 0)
        return self._minimisers.uniqueness

    @property
    def is_unique(self) -> bool | None:
        """True, False, or None when it cannot be told; ``uniqueness.reason`` says why."""
        return self.uniqueness.unique

    def sparsest(self, *, time_limit_s: float | None = 60.0) -> Sparsest:
        """Return a minimal-norm network with the fewest neurons: the ℓ0 problem on the tight set.

        Parameters
        ----------
        time_limit_s : float, optional
            For the mixed-integer program; None for no limit.

        Returns
        -------
        Sparsest

        Raises
        ------
        InputError
            For a solution with a loss, and for a time limit that is none.
        BudgetError
            When the arrangement has too many faces for the tight set.
        """
        if self.loss is not None:
            raise InputError(f"the sparsest minimiser is computed for interpolation; {_BY_OUTPUTS}")
        limit = check_time_limit(time_limit_s)
        return self._minimisers.sparsest(np.inf if limit is None else limit)

    def prove(self, *, max_boxes: int = 2_000_000, n_threads: int = 1) -> Proof:
        """Return a proof of the lower bound that :func:`covopt.verify` replays in exact arithmetic.

        A finite list of boxes covers all directions of a neuron; on each of them an inequality between integers shows
        that no neuron violates the dual constraint: see :mod:`covopt.proofs`.

        Parameters
        ----------
        max_boxes : int
            Of the search. Where they run out the proof proves a smaller bound, its ``lower_bound``.
        n_threads : int

        Returns
        -------
        Proof
            Of a bound that is smaller than ``lower_bound`` by less than 1e-9 of it.

        Raises
        ------
        InputError
            With several outputs, a label-noise potential or the softmax: there the oracle's bound is all there is.

        Examples
        --------
        >>> import covopt
        >>> solution = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
        >>> proof = solution.prove()
        >>> covopt.verify(solution, proof=proof).ok
        True
        """
        from covopt.certificates.prove import float_link, problem_of, prove

        data = self.data
        if self.loss is not None:
            data = replace(data, Y=self.loss.targets)
        problem = problem_of(self, data)
        reason = float_link(problem, self.potential)
        if reason is not None:
            raise InputError(f"there is no exact proof of this bound: {reason}")
        neurons = self.network.hidden_weights
        return prove(problem, self.dual, neurons=neurons, max_boxes=max_boxes, n_threads=n_threads)[0]

    # ------------------------------------------------------------------ files and pictures
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        from covopt import __version__

        network = self.network
        return {
            "format": FORMAT,
            "schema": SCHEMA if self.loss is None else SCHEMA_LOSS,
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
                **self._loss_entries(),
            },
            "network": {
                "hidden_weights": network.hidden_weights.tolist(),
                "output_weights": network.output_weights.tolist(),
                "output_bias": network.output_bias.tolist(),
                "n_neurons": len(network),
            },
            "dual": self.dual.tolist(),
            "proof": None if self.proof is None else self.proof.to_dict(),
            # one place for every number: the bounds and the gap are above
            "certificate": {
                name: value
                for name, value in asdict(self.certificate).items()
                if name not in BRACKET and (self.loss is not None or name not in OF_A_LOSS)
            },
            "solver": self.solver,
            "random_state": self.random_state,
            "time_s": self.time_s,
            "history": self.history,
        }

    def _loss_entries(self) -> dict[str, Any]:
        if self.loss is None:
            return {}
        weights = None if self.sample_weight is None else self.sample_weight.tolist()
        return {"lam": self.lam, "loss": self.loss.parameters(), "sample_weight": weights}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Solution:
        """Inverse of :meth:`to_dict`; checks nothing but the shape of the content (see ``covopt.verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            Where the content is something else, of another schema, or damaged.
        """
        fitted = check_format(content, FORMAT) == SCHEMA_LOSS
        try:
            check_content(content, SOLUTION_WITH_LOSS if fitted else SOLUTION)
            problem, net = content["problem"], content["network"]
            width = len(problem["feature_names"]) + (problem["bias"] > 0)
            X = numbers("X", problem["X"]).reshape(len(problem["X"]), len(problem["feature_names"]))
            data = Data(
                X,
                numbers("Y", problem["Y"]).reshape(len(X), len(problem["target_names"])),
                float(problem["bias"]),
                tuple(problem["feature_names"]),
                tuple(problem["target_names"]),
                tuple(problem["notes"]),
            )
            network = ReLUNetwork(
                numbers("hidden_weights", net["hidden_weights"]).reshape(-1, width),
                numbers("output_weights", net["output_weights"]).reshape(-1, data.n_outputs),
                data.bias,
                numbers("output_bias", net["output_bias"]).reshape(data.n_outputs),
                problem["output_bias"] != "free",
            )
            dual = numbers("dual", content["dual"])
            shape = data.Y.shape if data.n_outputs > 1 else (len(X),)
            if len(network.hidden_weights) != len(network.output_weights) or dual.shape != shape:
                raise ValueError("lengths of the arrays do not fit together")
            if net.get("n_neurons", len(network)) != len(network):
                raise ValueError(
                    f"n_neurons is {shown(net['n_neurons'])}, and the network has {len(network)}"
                )
            stated = content["certificate"]
            proof = content.get("proof")
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
                None if proof is None else GaugeCertificate.from_dict(proof),
                **(_loss_of(problem, data) if fitted else {}),
            )  # fmt: skip
        except SolutionFileError:
            raise
        except (CovoptError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the solution file is damaged: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, atomically: a reader sees the old file or the whole new one.

        Parameters
        ----------
        path : path-like
        """
        write_json(path, self.to_dict())

    def plot(self, path: str | os.PathLike[str] | None = None):
        """Draw the function and the certificate.

        Parameters
        ----------
        path : path-like, optional
            Where to save the figure: .png, .pdf or .svg.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            Where the path ends in another suffix.
        """
        from covopt.plotting import plot_solution

        return plot_solution(self, None if path is None else Path(path))


def _loss_of(problem: dict[str, Any], data: Data) -> dict[str, Any]:
    """Return λ, the loss bound to the table, and the weights of a file."""
    weights = problem["sample_weight"]
    weights = None if weights is None else numbers("sample_weight", weights)
    loss = loss_from_dict(problem["loss"])
    loss.encode_targets(data.Y, weights)
    return {"lam": float(problem["lam"]), "loss": loss, "sample_weight": weights}


def load(path: str | os.PathLike[str]) -> Any:
    """Read any file that covopt wrote: a solution, a path, a CP-rank certificate, a proof, a contradiction.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Solution, list of Solution, CPRankCertificate, Proof or Contradiction
        What ``save`` wrote; the list from the file of a path.

    Raises
    ------
    SolutionFileError
        When the file is missing, not JSON, not written by covopt, or of a newer schema.
    """
    return read_any(path)
