"""A deep network trained with weight decay, with a bracket of the least objective, and the file that carries both."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

from covopt.certificates.prechecks import same_table
from covopt.checks.claims import Check
from covopt.checks.validation import check_output_bias, check_positive
from covopt.data import Data
from covopt.depth.linear import check_depth
from covopt.depth.rays import bound_from_dict, evaluate
from covopt.depth.solution import AGREES, DeepSolution, network_from_dict
from covopt.depth.stationarity import stationarity
from covopt.errors import CovoptError, SolutionFileError
from covopt.exact.rounding import relative_gap
from covopt.files.formats import check_format
from covopt.files.layouts import DEEP_FIT
from covopt.files.schema import check_content, numbers
from covopt.losses import Loss, loss_from_dict
from covopt.status import Status

FORMAT = "covopt-deep-fit"
SCHEMA = 1


@dataclass(eq=False, repr=False)
class DeepFit(DeepSolution):
    """A network of depth L trained with weight decay, and bounds on the objective of every such network.

    Attributes
    ----------
    network : DeepReLUNetwork
    depth : int
    lam : float
    loss : Loss
        With its targets.
    sample_weight : ndarray of shape (N,) or None
    bounds : list of FitBound
        Lower bounds on C + λ‖W‖², best first; ``covopt.verify`` computes them again.
    status : Status
        CERTIFIED where the bracket is closed to ``tol``; HEURISTIC otherwise: descent found the network.
    """

    potential: ClassVar[str] = "variation"
    solver: ClassVar[str] = "descent"
    lambda_max: ClassVar[None] = None
    scaling: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.loss is None or self.lam is None:
            raise ValueError("a fit has a loss and a λ")

    @property
    def _terms(self) -> tuple[Loss, float]:
        assert self.loss is not None
        assert self.lam is not None
        return self.loss, self.lam

    @property
    def loss_value(self) -> float:
        """C of the network."""
        return float(self._terms[0].value(self.network.representations(self.data.X)[-1]))

    @property
    def objective(self) -> float:
        """C + λ‖W‖² of the network."""
        return self.loss_value + self._terms[1] * self.cost

    @property
    def lower_bound(self) -> float:
        """Valid: no network of this depth has a smaller objective."""
        return max((bound.value for bound in self.bounds), default=0.0)

    @property
    def gap(self) -> float:
        """(objective − lower_bound) / objective."""
        return relative_gap(self.objective, self.lower_bound)

    @property
    def stationarity(self) -> float | None:
        """Residual of the first-order conditions in the cell of its signs, relative: 0 at a local minimum."""
        loss, lam = self._terms
        gradient = loss.gradient(self.network.representations(self.data.X)[-1])
        return stationarity(self.network, self.data.X, self.output_bias, gradient, lam)

    def _rows(self) -> list[tuple[str, str]]:
        rows = {name: text for name, text in super()._rows() if name not in ("interpolation", "too large")}
        best = max(self.bounds, key=lambda bound: bound.value, default=None)
        rows["problem"] += f", {self._terms[0].title} loss, λ {self.lam:g}"
        found = {}
        for name, text in rows.items():
            if name == "lower bound":
                found["loss C"] = f"{self.loss_value:.10g}"
                found["objective"] = f"{self.objective:.10g}"
            found[name] = text
        found["lower bound"] = f"{self.lower_bound:.10g}  ({best.title if best else 'none'})"
        return list(found.items())

    def _said(self) -> str:
        if self.status is Status.HEURISTIC:
            return "the network was found by descent, smaller objectives may exist; the lower bound is valid"
        return self.status.message

    def __repr__(self) -> str:
        return (
            f"DeepFit({self.status.code}, depth {self.depth}, λ {self.lam:g}, objective {self.objective:.8g}, "
            f"lower bound {self.lower_bound:.8g}, gap {self.gap:.1e})"
        )

    # ------------------------------------------------------------------ checking
    def claims(self, X: Any = None, Y: Any = None) -> list[Check]:
        """Check every claim from the raw data, with an oracle run of its own.

        Parameters
        ----------
        X, Y : array_like, optional
            A table that must be the one that was fitted.
        """
        loss, lam = copy.copy(self._terms[0]), self._terms[1]
        try:
            check_depth(self.depth)
            check_output_bias(self.output_bias, self.data.bias)
            loss.encode_targets(self.data.Y, self.sample_weight)
            check_positive("lam", lam)
            data = Data.validate(self.data.X, loss.targets, bias=self.data.bias, interpolates=False)
        except CovoptError as error:
            return [Check("data", False, str(error))]
        if X is not None:
            checks, given = same_table(self, X, Y)
            return [*checks, *given.claims()]
        checks = [self._fits(data)]
        if not checks[-1].ok:
            return checks
        for bound in self.bounds:
            why, found = "", 0.0
            try:
                found = evaluate(bound, data, loss, lam, self.depth, self.output_bias, self.objective)
            except (CovoptError, ValueError, LookupError, ArithmeticError) as error:
                why = f"; {error}"
            ok = bound.value <= found + AGREES * abs(found)
            text = f"{bound.title}: {bound.value:.10g}, recomputed {found:.10g}{why}"
            checks.append(Check("lower bound", ok, text))
        below = self.lower_bound <= self.objective * (1.0 + AGREES)
        text = f"{self.lower_bound:.10g} ≤ min C + λ‖W‖² ≤ {self.objective:.10g}"
        checks.append(Check("bracket", below, text))
        return [*checks, self._status_check()]

    # ------------------------------------------------------------------ files
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        found = super().to_dict()
        found["format"], found["schema"] = FORMAT, SCHEMA
        found["objective"] = self.objective
        weights = None if self.sample_weight is None else self.sample_weight.tolist()
        found["problem"] |= {"lam": self.lam, "loss": self._terms[0].parameters(), "sample_weight": weights}
        return found

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> DeepFit:
        """Inverse of :meth:`to_dict`; checks nothing but the shape of the content (see ``covopt.verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            Where the content is something else, of another schema, or damaged.
        """
        check_format(content, FORMAT)
        try:
            check_content(content, DEEP_FIT)
            problem = content["problem"]
            data = cls._data_of(problem)
            loss = loss_from_dict(problem["loss"])
            weights = problem["sample_weight"]
            weights = None if weights is None else numbers("sample_weight", weights)
            loss.encode_targets(data.Y, weights)
            found = cls(
                data, content["depth"], problem["output_bias"],
                network_from_dict(content["network"], data.bias, problem["output_bias"]),
                [bound_from_dict(bound) for bound in content["bounds"]], Status.from_code(content["status"]),
                float(content["tol"]), list(content["history"]), float(content["time_s"]), content["random_state"],
                float(problem["lam"]), loss, weights, dict(content.get("timings", {})),
            )  # fmt: skip
            found.check_stated(content, ("cost", "objective", "lower_bound"))
            return found
        except SolutionFileError:
            raise
        except (CovoptError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the solution file is damaged: {error}") from error
