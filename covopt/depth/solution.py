"""A deep network with upper and lower bounds on the representation cost, and its file format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from covopt.certificates.stated import same_table
from covopt.checks import Check, counted, listed
from covopt.checks.validation import check_output_bias
from covopt.data import Data
from covopt.depth.bottleneck import balance
from covopt.depth.bounds import Asked, Bound, bound_from_dict, recompute_bound, too_large
from covopt.depth.layers import from_content, stationarity, to_content
from covopt.depth.linear import check_depth
from covopt.errors import CovoptError, Status
from covopt.exact.rank import FOUND
from covopt.exact.rounding import relative_gap
from covopt.files import check_format, damaged, heading
from covopt.files.schema import DEEP_SOLUTION, check_content
from covopt.losses import INTERPOLATES, Loss
from covopt.network import DeepReLUNetwork
from covopt.solution.content import data_of, problem_of, terms_of
from covopt.solution.summary import Predicts

FORMAT = "covopt-deep-solution"


@dataclass(eq=False, repr=False)
class DeepSolution(Predicts):
    """An interpolating network of depth L, and lower bounds on the norm of all such networks.

    Attributes
    ----------
    network : DeepReLUNetwork
    depth : int
        L, the number of weight layers.
    bounds : list of covopt.depth.bounds.Bound
        Lower bounds on R_L(X, Y), best first, each with its proof; ``covopt.verify`` recomputes them.
    status : Status
        CERTIFIED if the relative gap is at most ``tol``; else HEURISTIC: the network is the best that descent found,
        and the lower bound is valid.
    data : Data
    """

    data: Data
    depth: int
    output_bias: str
    network: DeepReLUNetwork
    bounds: list[Bound]
    status: Status
    tol: float
    history: list[dict[str, Any]] = field(default_factory=list)
    time_s: float = 0.0
    random_state: int | None = None
    lam: float | None = None  # with a loss: see DeepFit
    loss: Loss | None = None
    sample_weight: np.ndarray | None = None
    timings: dict[str, float] = field(default_factory=dict)  # seconds per stage, as in Solution

    _FORMAT: ClassVar[str] = FORMAT
    _LAYOUT: ClassVar[Any] = DEEP_SOLUTION
    _STATED: ClassVar[tuple[str, ...]] = ("cost", "lower_bound")

    @property
    def cost(self) -> float:
        """‖W‖² of the network: an upper bound on R_L(X, Y)."""
        return self.network.squared_norm

    @property
    def objective(self) -> float:
        """The bracketed quantity: the cost."""
        return self.cost

    @property
    def lower_bound(self) -> float:
        """Best lower bound: no interpolating network of this depth has a smaller squared norm."""
        return max((bound.value for bound in self.bounds), default=0.0)

    @property
    def gap(self) -> float:
        """(objective − lower_bound) / objective."""
        return relative_gap(self.objective, self.lower_bound)

    @property
    def residual(self) -> float:
        """Residual max |f(x_i) − y_i| relative to max |y|."""
        size = float(np.abs(self.data.Y).max(initial=0.0))
        outputs = self.network.representations(self.data.X)[-1]
        miss = float(np.abs(outputs - self.data.Y).max(initial=0.0))
        return miss / size if size > 0 else miss

    @property
    def balance(self) -> float:
        """Largest |‖W_{ℓ,i·}‖² + b_{ℓ,i}² − ‖W_{ℓ+1,·i}‖²| over all neurons, relative to ‖W‖²/L.

        It is 0 at a local minimum (RK23 Proposition 12).
        """
        most = max((float(np.abs(part).max(initial=0.0)) for part in balance(self.network)), default=0.0)
        return most * self.depth / self.cost if self.cost > 0 else 0.0

    @property
    def stationarity(self) -> float | None:
        """Relative residual of the first-order conditions in the activation cell; 0 at a local minimum.

        None for networks whose Jacobians would not fit into memory.
        """
        return stationarity(self.network, self.data.X, self.output_bias)

    def _rows(self) -> list[tuple[str, str]]:
        data, slope = self.data, self.stationarity
        best = max(self.bounds, key=lambda bound: bound.value, default=None)
        sizes = f"{counted(data.n_samples, 'point')}, {counted(data.n_features, 'feature')}"
        outputs = f"{data.n_outputs} outputs, " if data.n_outputs > 1 else ""
        large = too_large(data, self.depth)
        return [
            (
                "problem",
                f"{sizes}, {outputs}depth {self.depth}, bias {data.bias:g}, output bias {self.output_bias}",
            ),
            ("features", f"{listed(data.feature_names)} → {listed(data.target_names)}"),
            ("status", f"{self.status.code.upper()}: {self._said()}"),
            ("cost ‖W‖²", f"{self.cost:.10g}"),
            ("lower bound", f"{self.lower_bound:.10g}  ({best.title if best else 'none'})"),
            *([("too large", "; ".join(large))] if large and self.gap > self.tol else []),
            ("relative gap", f"{self.gap:.2e}  (asked for {self.tol:g})"),
            ("interpolation", f"max |f − y| = {self.residual:.1e} of max |y|"),
            ("widths", " → ".join(map(str, (data.n_features, *self.network.widths, data.n_outputs)))),
            ("balance", f"{self.balance:.1e}  (0 at a local minimum)"),
            *(
                []
                if slope is None
                else [("stationarity", f"{slope:.1e}  (0 at a local minimum of its cell)")]
            ),
            ("time", f"{self.time_s:.2f} s"),
        ]

    def _said(self) -> str:
        if self.status is Status.HEURISTIC:
            return "the network was found by descent and no smaller one by other starts; the lower bound is valid"
        return self.status.message

    def __repr__(self) -> str:
        return (
            f"DeepSolution({self.status.code}, depth {self.depth}, cost {self.cost:.8g}, lower bound "
            f"{self.lower_bound:.8g}, gap {self.gap:.1e}, {counted(self.data.n_samples, 'point')})"
        )

    # ------------------------------------------------------------------ checking
    def claims(self, X: Any = None, Y: Any = None) -> list[Check]:
        """Check every claim from the raw data, with a separate run of the oracle.

        Parameters
        ----------
        X, Y : array_like, optional
            A table to be compared with the one that was solved.

        Returns
        -------
        list of Check
        """
        try:
            check_depth(self.depth)
            check_output_bias(self.output_bias, self.data.bias)
            asked = self.asked()
        except CovoptError as error:
            return [Check("data", False, str(error))]
        if X is not None:
            checks, given = same_table(self, X, Y)
            return [*checks, *given.claims()]
        checks = [self._fits(asked.data)]
        if not checks[-1].ok:
            return checks
        if asked.loss is None:
            residual = self.residual
            said = f"max |f − y| = {residual:.1e} of max |y|"
            checks.append(Check("interpolation", residual <= INTERPOLATES, said))
        for bound in self.bounds:
            found, why = recompute_bound(bound, asked)
            ok = bound.value <= found * (1.0 + FOUND)
            said = f"{bound.title}: {bound.value:.10g}, recomputed {found:.10g}{why}"
            checks.append(Check("lower bound", ok, said))
        below = self.lower_bound <= self.objective * (1.0 + FOUND)
        said = f"{self.lower_bound:.10g} ≤ {self._least} ≤ {self.objective:.10g}"
        checks.append(Check("bracket", below, said))
        closed = self.status is not Status.CERTIFIED or self.gap <= self.tol
        said = f"{self.status.code}, gap {self.gap:.2e}, asked for {self.tol:g}"
        return [*checks, Check("status", closed, said)]

    @property
    def _least(self) -> str:
        return f"R_{self.depth}"

    def asked(self) -> Asked:
        """Return the problem that the bounds refer to, from the raw table."""
        data = Data.validate(self.data.X, self.data.Y, bias=self.data.bias)
        return Asked(data, self.depth, self.output_bias, self.cost)

    def _fits(self, data: Data) -> Check:
        """Check that the network has the claimed depth, bias and output bias."""
        network = self.network
        fits = len(network.weights) == self.depth and network.n_inputs == data.n_features
        fits = fits and network.n_outputs == data.n_outputs and network.slope == 0.0
        fits = fits and (
            network.bias == data.bias if data.bias > 0 else all(b is None for b in network.biases or ())
        )
        last = (network.biases or (None,))[-1]
        fits = fits and (self.output_bias != "none" or last is None)
        fits = fits and (last is None or network.counts_output_bias == (self.output_bias == "penalized"))
        shape = " → ".join(map(str, (network.n_inputs, *network.widths, network.n_outputs)))
        return Check("network", fits, f"{shape}, {counted(len(network.weights), 'layer')}")

    # ------------------------------------------------------------------ files
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        return {
            **heading(self._FORMAT),
            "status": self.status.code,
            "message": self._said(),
            "depth": self.depth,
            "cost": self.cost,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "tol": self.tol,
            "problem": problem_of(self),
            "network": to_content(self.network),
            "bounds": [bound.to_dict() for bound in self.bounds],
            "random_state": self.random_state,
            "time_s": self.time_s,
            "timings": self.timings,
            "history": self.history,
        }

    @classmethod
    @damaged("the solution file")
    def from_dict(cls, content: dict[str, Any]) -> DeepSolution:
        """Read what :meth:`to_dict` wrote; checks only the form of the content (see ``covopt.verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            If the content is not a solution, has another schema, or is damaged.
        """
        check_format(content, cls._FORMAT)
        check_content(content, cls._LAYOUT)
        problem = content["problem"]
        data = data_of(problem)
        sizes = data.n_features, data.n_outputs, data.bias, problem["output_bias"]
        found = cls(
            data, content["depth"], problem["output_bias"], from_content(content["network"], *sizes),
            [bound_from_dict(bound) for bound in content["bounds"]], Status.from_code(content["status"]),
            float(content["tol"]), list(content["history"]), float(content["time_s"]), content["random_state"],
            **(terms_of(problem, data) if "objective" in cls._STATED else {}),
        )  # fmt: skip
        found.timings = dict(content.get("timings", {}))
        for name in cls._STATED:
            if not abs(content[name] - getattr(found, name)) <= FOUND * abs(content[name]):
                raise ValueError(
                    f"{name} is {content[name]!r}, and what the file holds gives {getattr(found, name)!r}"
                )
        return found
